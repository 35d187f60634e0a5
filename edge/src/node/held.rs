//! Booked rates that sessions hold, within what the operator admits of them together (O-8).

use crate::sys::lock::lock;
use farline_core::copy::HeldRate;
use farline_core::units::{Error, ErrorCode, Fault, Rate, Setting};
use std::sync::{Arc, Mutex};

/// What all sessions of a node hold together.
#[derive(Debug)]
pub(super) struct HeldRates {
    most: Option<Rate>,
    taken: Mutex<u64>,
}

/// A session's part, until it is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) held: HeldRate,
    rates: Arc<HeldRates>,
}

impl HeldRates {
    /// Up to `most` together; none where nothing is said.
    pub(super) fn new(most: Option<Rate>) -> HeldRates {
        HeldRates { most, taken: Mutex::new(0) }
    }

    /// Admits `held`.
    ///
    /// # Errors
    /// When this node admits none, or not so much, or others hold too much of it.
    pub(super) fn admit(self: &Arc<HeldRates>, held: HeldRate) -> Result<Admitted, Error> {
        let refused = |code, message: String, hint: String| {
            Err(Error::new(Fault::Refused, code, message).hint(hint))
        };
        let hint = format!("its operator can admit it: {} RATE", Setting::AllowHeld);
        let Some(most) = self.most else {
            let message =
                format!("this node holds no rate for its clients, {} was asked", held.rate);
            return refused(ErrorCode::HeldRateRefused, message, hint);
        };
        if held.rate > most {
            let message =
                format!("this node holds {most} for all its clients, {} was asked", held.rate);
            return refused(ErrorCode::HeldRateRefused, message, hint);
        }
        let mut taken = lock(&self.taken);
        let free = Rate::from_bps(most.as_bps() - *taken);
        if held.rate > free {
            let message = format!(
                "other sessions hold {} of the {most} that this node admits, {} was asked",
                Rate::from_bps(*taken),
                held.rate
            );
            let hint = "take less, or wait until they end".to_owned();
            return refused(ErrorCode::HeldRateTaken, message, hint);
        }
        *taken += held.rate.as_bps();
        Ok(Admitted { held, rates: Arc::clone(self) })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        *lock(&self.rates.taken) -= self.held.rate.as_bps();
    }
}

#[cfg(test)]
impl HeldRates {
    /// What is held, in bit/s.
    pub(super) fn taken(&self) -> u64 {
        *lock(&self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gbit(rate: u64) -> HeldRate {
        HeldRate { rate: Rate::from_bps(rate * 1_000_000_000), channels: 1 }
    }

    #[test]
    fn sessions_share_what_is_admitted_and_give_it_back() {
        let rates = Arc::new(HeldRates::new(Some(gbit(10).rate)));
        let first = rates.admit(gbit(6)).expect("there is room");
        let second = rates.admit(gbit(4)).expect("just enough");
        let refused = rates.admit(gbit(1)).expect_err("all is taken");
        assert_eq!(refused.code, ErrorCode::HeldRateTaken);
        assert!(refused.message.contains("hold 10.0 Gbit/s of the 10.0 Gbit/s"), "{refused}");
        drop(first);
        let third = rates.admit(gbit(5)).expect("there is room again");
        drop((second, third));
        rates.admit(gbit(10)).expect("all of it");
        let too_much = rates.admit(gbit(11)).expect_err("never");
        assert_eq!(too_much.code, ErrorCode::HeldRateRefused);
    }

    #[test]
    fn without_a_word_of_the_operators_none_is_held() {
        let refused = Arc::new(HeldRates::new(None)).admit(gbit(1)).expect_err("none");
        assert_eq!((refused.code, refused.fault), (ErrorCode::HeldRateRefused, Fault::Refused));
        assert!(refused.hint.is_some_and(|hint| hint.contains("`Setting::AllowHeld` RATE")));
    }
}
