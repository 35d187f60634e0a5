//! What a device has room for, and the channel that fits it.

use super::EndpointSettings;
use crate::units::{Error, ErrorCode, Fault, Setting};

/// What a device says of itself: `struct ibv_device_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Queue pairs, those of others among them.
    pub queue_pairs: u32,
    /// Work requests in one queue.
    pub work: u32,
    /// Completions in one completion queue.
    pub completions: u32,
    /// Registered pieces of memory.
    pub regions: u32,
    /// RDMA READs of a queue pair that may be unanswered at once, here or there.
    pub reads: u32,
}

impl EndpointSettings {
    /// The same channel with as many credits, or as many fewer as the device needs: all its
    /// completions go to one queue.
    ///
    /// # Errors
    /// When the device cannot have the channel with a single credit.
    pub fn within(self, limits: &DeviceLimits) -> Result<EndpointSettings, Error> {
        let pairs = usize::from(self.queue_pairs);
        let room = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let fits = |settings: &EndpointSettings| {
            // One more send asks after a peer that nobody watches.
            let (sends, receives) = (settings.sends() + 1, settings.receives());
            pairs <= room(limits.queue_pairs)
                && sends.max(receives) <= room(limits.work)
                && pairs * (sends + receives) <= room(limits.completions)
                // One more for the records.
                && usize::from(settings.credits) < room(limits.regions)
        };
        let fewer = (1..=self.credits).rev().map(|credits| EndpointSettings { credits, ..self });
        fewer.into_iter().find(fits).ok_or_else(|| {
            let message = format!(
                "the RDMA device has no room for a channel of {pairs} queue pairs: it allows {} \
                 of them, {} requests in each queue, {} completions, {} pieces of memory",
                limits.queue_pairs, limits.work, limits.completions, limits.regions
            );
            Error::new(Fault::Here, ErrorCode::RdmaRoom, message).hint(format!(
                "use fewer queue pairs: {} \
                rdma:1",
                Setting::Channel
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::{MOST_CREDITS, MOST_QUEUE_PAIRS, Placement};
    use proptest::prelude::*;

    fn settings(queue_pairs: u8, credits: u16) -> EndpointSettings {
        EndpointSettings { queue_pairs, credits, placement: Placement::Immediate, connected: true }
    }

    #[test]
    fn soft_roce_has_room_for_sixteen_queue_pairs() {
        let rxe = DeviceLimits {
            queue_pairs: 1 << 20,
            work: 1 << 14,
            completions: 32_767,
            regions: 1 << 19,
            reads: 128,
        };
        let credits = |pairs, limits: &DeviceLimits| {
            settings(pairs, MOST_CREDITS).within(limits).map(|fit| fit.credits)
        };
        assert_eq!(credits(8, &rxe), Ok(MOST_CREDITS));
        assert_eq!(credits(16, &rxe), Ok(255));
        let error =
            credits(4, &DeviceLimits { queue_pairs: 3, ..rxe }).expect_err("too many queue pairs");
        assert_eq!((error.code, error.fault), (ErrorCode::RdmaRoom, Fault::Here));
        assert!(
            error.message.contains("4 queue pairs") && error.message.contains("allows 3"),
            "{error}"
        );
        assert!(credits(1, &DeviceLimits { work: 7, ..rxe }).is_err());
    }

    proptest! {
        #[test]
        fn what_fits_needs_no_more_than_the_device_has(
            (queue_pairs, work, completions, regions) in (0u32..40, 0u32..2000, 0u32..40_000, 0u32..400),
            pairs in 1..=MOST_QUEUE_PAIRS,
            wish in 1..=MOST_CREDITS,
        ) {
            let limits = DeviceLimits { queue_pairs, work, completions, regions, reads: 1 };
            if let Ok(fit) = settings(pairs, wish).within(&limits) {
                prop_assert!((1..=wish).contains(&fit.credits) && u32::from(pairs) <= queue_pairs);
                prop_assert!(fit.sends() <= work as usize && fit.receives() <= work as usize);
                prop_assert!(usize::from(pairs) * (fit.sends() + fit.receives()) <= completions as usize);
                prop_assert!(u32::from(fit.credits) < regions);
            }
        }
    }
}
