//! What a test sent and what came of it, a second, and how many of its seconds had errors.

use super::document::LineDocument;
use super::scientific::counted;
use crate::report::Card;
use crate::units::{Bytes, Rate};

impl LineDocument {
    /// Bits a second from header to FCS in the seconds that count, sent and received: what came is
    /// taken to have been of the mix that was sent.
    fn carried(&self) -> Option<(Rate, Rate)> {
        let sums = &self.sums;
        let bits = sums.framed_bits.checked_div(sums.tested).filter(|bits| *bits > 0)?;
        let came = sums.sent.saturating_sub(sums.lost) as f64 / sums.sent.max(1) as f64;
        Some((Rate::from_bps(bits), Rate::from_bps((bits as f64 * came) as u64)))
    }

    /// That in words, with how much it was in all.
    pub(super) fn carried_words(&self) -> Option<String> {
        let (sent, came) = self.carried()?;
        let all = Bytes(self.sums.framed_bits / 8);
        Some(format!("{came} of {sent}, from header to FCS; {all} sent"))
    }

    /// In how many of the seconds that count a frame was lost or wrong, as bit error testers count
    /// them (errored seconds; ITU-T G.821, G.826).
    pub(super) fn errored_words(&self) -> String {
        let (errored, tested) = (self.sums.errored, self.sums.tested);
        let percent = errored as f64 / tested.max(1) as f64 * 100.0;
        format!("{errored} of {} ({percent:.3} %)", counted(tested, "second", "seconds"))
    }

    /// The cards of both.
    pub(super) fn carried_cards(&self) -> Vec<Card> {
        let carried = self.carried_words().map(|said| Card::new("Carried", said));
        carried.into_iter().chain([Card::new("Errored seconds", self.errored_words())]).collect()
    }
}
