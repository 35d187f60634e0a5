//! The calendar's time where the host's clock is set: a step forward is believed once it has
//! lasted, so that a mistake that somebody mends ends no hold and no reservation.

use crate::units::{Span, Time};

/// How far a clock may run ahead of time that has passed before that is a step.
const STEP: Span = Span::from_secs(10);
/// How long a step forward must last before it is believed.
const DOUBT: Span = Span::from_secs(60);

/// A clock that goes on through steps of the host's.
///
/// A step back is followed at once: what is over stays so by [`Book::now`](super::Book::now).
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    /// The host's clock when it was last believed, and the time since boot then.
    believed: (Time, Span),
    /// Since when it has been ahead.
    ahead: Option<Span>,
}

impl SteadyClock {
    /// One that believes the host's clock, which shows `wall` when `passed` has gone by since some
    /// fixed instant, such as the host's start.
    pub fn new(wall: Time, passed: Span) -> SteadyClock {
        SteadyClock { believed: (wall, passed), ahead: None }
    }

    /// The time, where the host's clock shows `wall`.
    pub fn read(&mut self, wall: Time, passed: Span) -> Time {
        let steady = self.believed.0 + passed.saturating_sub(self.believed.1);
        let lasted = self.ahead.map(|since| passed.saturating_sub(since));
        if wall <= steady + STEP || lasted.is_some_and(|lasted| lasted >= DOUBT) {
            self.believed = (wall, passed);
            self.ahead = None;
            return wall;
        }
        self.ahead.get_or_insert(passed);
        steady
    }

    /// How far the host's clock is ahead of what is believed, while that is in doubt.
    pub fn doubted(&self, wall: Time, passed: Span) -> Option<Span> {
        self.ahead?;
        Some(wall.since(self.believed.0 + passed.saturating_sub(self.believed.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_step_forward_counts_once_it_has_lasted() {
        let mut clock = SteadyClock::new(second(1000), Span::from_secs(5));
        let mut read = |wall, passed| {
            let time = clock.read(second(wall), Span::from_secs(passed));
            (time, clock.doubted(second(wall), Span::from_secs(passed)))
        };
        // It drifts, and is slewed.
        assert_eq!(read(1010, 14), (second(1010), None));
        // An hour ahead for ten seconds, and back: nobody was told.
        let hour = Some(Span::from_secs(3600));
        assert_eq!(read(4611, 15), (second(1011), hour));
        assert_eq!(read(4620, 24), (second(1020), hour));
        assert_eq!(read(1021, 25), (second(1021), None));
        // An hour ahead for good.
        assert_eq!(read(4622, 26), (second(1022), hour));
        assert_eq!(read(4681, 85), (second(1081), hour));
        assert_eq!(read(4682, 86), (second(4682), None));
        // Back at once.
        assert_eq!(read(1083, 87), (second(1083), None));
    }

    #[test]
    fn doubt_begins_anew_with_each_step() {
        let mut clock = SteadyClock::new(second(0), Span::ZERO);
        for round in 0..5_u64 {
            let at = round * 50;
            assert_eq!(clock.read(second(at + 500), Span::from_secs(at)), second(at));
            assert_eq!(clock.read(second(at + 540), Span::from_secs(at + 40)), second(at + 40));
            assert_eq!(clock.read(second(at + 45), Span::from_secs(at + 45)), second(at + 45));
        }
    }
}
