//! What an emulated link says of itself while a test runs over it: a second in which it was late is
//! of this host, whatever the delays in it.

use crate::link::{Accuracy, DirectionStats, Link, Stats};
use farline_core::line::{DelaySums, LineTest, LinkAccount};

const SECOND: u64 = 1_000_000_000;

/// Looks at a link from time to time.
pub(super) struct LinkWatch {
    link: Link,
    /// When it was last looked at, in nanoseconds since the test began, and what it said.
    looked_at: u64,
    said: Option<Stats>,
}

impl LinkWatch {
    /// Of the link of this name, where there is one; `now` is since the test began.
    pub(super) fn start(name: &str, now: u64) -> Option<LinkWatch> {
        let link = Link::find(name).ok()?;
        let said = link.stats().ok();
        Some(LinkWatch { link, looked_at: now, said })
    }

    /// Notes in `test` what the link says of the time since the last look; what it carried of `rtt`
    /// before that may have been late, too.
    pub(super) fn sample(&mut self, now: u64, rtt: u64, test: &mut LineTest) {
        // A link that is gone is found out by the test itself.
        let Ok(said) = self.link.stats() else { return };
        let from = std::mem::replace(&mut self.looked_at, now).saturating_sub(rtt);
        let Some(before) = self.said.replace(said.clone()) else { return };
        if late(&said) > late(&before) {
            (from / SECOND..=now / SECOND).for_each(|second| test.note_link_late(second));
            return;
        }
        let sums = |stats: &DirectionStats| {
            // Frames of the load wait for each other in bursts; the questions, of which the test's
            // delays are, come between them.
            let delay = stats.short_delay;
            DelaySums::of(delay.count, delay.mean_us, delay.sd_us)
        };
        let account = test.link_account.unwrap_or_default();
        test.link_account = Some(LinkAccount {
            there: account.there.and(sums(&said.a_to_b).since(sums(&before.a_to_b))),
            back: account.back.and(sums(&said.b_to_a).since(sums(&before.b_to_a))),
        });
    }
}

/// Packets that the link moved too late for its account to be believed, or lost itself.
fn late(stats: &Stats) -> u64 {
    let above = |accuracy: &Accuracy| accuracy.above(stats.lateness_limit_us);
    [&stats.a_to_b, &stats.b_to_a]
        .iter()
        .map(|way| above(&way.lateness) + above(&way.stamping) + way.overrun)
        .sum()
}
