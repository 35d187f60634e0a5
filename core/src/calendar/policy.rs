//! Who may book what: the rights of a token, the quotas of a project, and who goes before whom.

use super::topology::SiteId;
use super::volume::Leg;
use super::window::TimeWindow;
use crate::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What one identity may book. Nothing is allowed that does not stand here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookingRights {
    /// Sites at which its circuits may begin and end.
    pub endpoints: BTreeSet<SiteId>,
    /// The highest rate of one reservation, if there is one.
    pub highest_rate: Option<Rate>,
    /// The most that one reservation may carry in all.
    pub highest_volume: Option<Bytes>,
    /// When its circuits may be up.
    pub window: Option<TimeWindow>,
}

impl BookingRights {
    /// Whether it may have `legs` from one site to another; else which right is missing.
    ///
    /// # Errors
    /// The missing right, in one line.
    pub fn check(&self, ends: (SiteId, SiteId), legs: &[Leg]) -> Result<(), String> {
        if !self.endpoints.contains(&ends.0) || !self.endpoints.contains(&ends.1) {
            return Err("its circuits may not begin or end there".to_owned());
        }
        // Legs of one instant add up: a split booking is not a way around the limit.
        let rate_at = |leg: &Leg| {
            let at = leg.window.start;
            let sum: u64 =
                legs.iter().filter(|l| l.window.contains(at)).map(|l| l.rate.as_bps()).sum();
            Rate::from_bps(sum)
        };
        let rate = legs.iter().map(rate_at).max().unwrap_or_default();
        if let Some(highest) = self.highest_rate.filter(|highest| rate > *highest) {
            return Err(format!("{rate} is above its highest rate of {highest}"));
        }
        let volume = Bytes(legs.iter().fold(0, |sum: u64, leg| sum.saturating_add(leg.volume().0)));
        if let Some(highest) = self.highest_volume.filter(|highest| volume > *highest) {
            return Err(format!("{volume} is above its {highest} a reservation"));
        }
        let outside = |window: &TimeWindow| {
            legs.iter().any(|leg| leg.window.intersection(window) != leg.window)
        };
        if self.window.as_ref().is_some_and(outside) {
            return Err("the slot lies outside the time that it may book".to_owned());
        }
        Ok(())
    }
}

/// What one project may have at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectPolicy {
    /// The most that its holds may carry together: rate times time. None: no limit.
    pub held: Option<Bytes>,
    /// The most that all its reservations may carry together that are not over.
    pub booked: Option<Bytes>,
    /// Higher goes first, where something lets one go before another.
    pub priority: u8,
    /// Whether it may take bandwidth from reservations of lower priority.
    pub may_preempt: bool,
}

/// The policy of every project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookingPolicy {
    /// By the project's name.
    pub projects: BTreeMap<String, ProjectPolicy>,
    /// Of all others.
    pub others: ProjectPolicy,
}

impl BookingPolicy {
    /// The policy of `project`.
    pub fn of(&self, project: &str) -> &ProjectPolicy {
        self.projects.get(project).unwrap_or(&self.others)
    }
}

/// What a project has at a time: bytes of its holds, and of all its reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProjectUse {
    /// Bytes of its holds.
    pub held: u128,
    /// Bytes of all that is not over.
    pub booked: u128,
}

impl ProjectUse {
    /// Whether `more` bytes may be held on top.
    ///
    /// # Errors
    /// The quota that is exceeded, in one line.
    pub fn check(&self, policy: &ProjectPolicy, more: Bytes) -> Result<(), String> {
        for (what, has, quota) in
            [("held", self.held, policy.held), ("booked", self.booked, policy.booked)]
        {
            let Some(quota) = quota else { continue };
            if has + u128::from(more.0) > u128::from(quota.0) {
                let has = Bytes(u64::try_from(has).unwrap_or(u64::MAX));
                return Err(format!(
                    "the project has {has} {what} and asks for {more} more; its quota is {quota}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn leg(rate: u64, start: u64, end: u64) -> Leg {
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let window = TimeWindow { start: at(start), end: at(end) };
        Leg { window, rate: Rate::from_bps(rate), route: Vec::new() }
    }

    #[test]
    fn nothing_is_allowed_that_is_not_written() {
        let ends = (SiteId(0), SiteId(1));
        assert!(BookingRights::default().check(ends, &[leg(8, 0, 1)]).is_err());
        let mut rights = BookingRights {
            endpoints: [SiteId(0), SiteId(1)].into(),
            highest_rate: Some(Rate::from_bps(80)),
            highest_volume: Some(Bytes(100)),
            window: Some(leg(0, 10, 20).window),
        };
        assert_eq!(rights.check(ends, &[leg(80, 10, 20)]), Ok(()));
        assert!(rights.check((SiteId(0), SiteId(2)), &[leg(80, 10, 20)]).is_err());
        assert!(rights.check(ends, &[leg(88, 10, 11)]).is_err());
        assert!(rights.check(ends, &[leg(48, 10, 11), leg(40, 10, 11)]).is_err(), "split");
        assert_eq!(rights.check(ends, &[leg(48, 10, 11), leg(40, 11, 12)]), Ok(()));
        assert!(rights.check(ends, &[leg(80, 9, 12)]).is_err());
        rights.highest_volume = Some(Bytes(99));
        assert!(rights.check(ends, &[leg(80, 10, 20)]).is_err());
    }

    #[test]
    fn quotas_count_what_is_there() {
        let policy =
            ProjectPolicy { held: Some(Bytes(10)), booked: Some(Bytes(15)), ..Default::default() };
        let has = ProjectUse { held: 4, booked: 8 };
        assert_eq!(has.check(&policy, Bytes(6)), Ok(()));
        assert!(has.check(&policy, Bytes(7)).is_err_and(|said| said.contains("held")));
        let has = ProjectUse { held: 0, booked: 8 };
        assert!(has.check(&policy, Bytes(8)).is_err_and(|said| said.contains("booked")));
        assert_eq!(has.check(&ProjectPolicy::default(), Bytes(u64::MAX)), Ok(()));
    }
}
