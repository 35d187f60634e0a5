//! What a mover sends over, where a profile asks what that costs.

use crate::congestion::Algorithm;
use serde::{Deserialize, Serialize};

/// A channel driver over IP. RDMA is no value of this axis: no emulated link carries it, and
/// [`verbs`](super::verbs) measure it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileDriver {
    /// Plain TCP.
    #[default]
    Tcp,
    /// TLS 1.3 over TCP, which costs processor time at both ends.
    Tls,
    /// UDT over UDP, in the clear, with a congestion control of its own.
    Udt,
    /// QUIC over UDP, which encrypts, with the cell's congestion control in user space.
    Quic,
}

impl ProfileDriver {
    /// Every one.
    pub const ALL: [ProfileDriver; 4] =
        [ProfileDriver::Tcp, ProfileDriver::Tls, ProfileDriver::Udt, ProfileDriver::Quic];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ProfileDriver::Tcp => "tcp",
            ProfileDriver::Tls => "tls",
            ProfileDriver::Udt => "udt",
            ProfileDriver::Quic => "quic",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            ProfileDriver::Tcp => "TCP",
            ProfileDriver::Tls => "TLS",
            ProfileDriver::Udt => "UDT",
            ProfileDriver::Quic => "QUIC",
        }
    }

    /// Whether what it carries is encrypted, and so needs a session that is.
    pub fn is_encrypted(self) -> bool {
        matches!(self, ProfileDriver::Tls | ProfileDriver::Quic)
    }

    /// The channel driver that a mover is to be asked for; none for the one that always is there.
    pub fn channel(self) -> Option<&'static str> {
        matches!(self, ProfileDriver::Udt | ProfileDriver::Quic).then(|| self.name())
    }

    /// What stands for the cell's congestion `control` over this driver, where that is another one:
    /// UDT has its own in the place of all but BBR.
    pub fn own_control(self, control: Algorithm) -> bool {
        self == ProfileDriver::Udt && control != Algorithm::Bbr
    }

    /// Why a transfer that nobody asked to use it does not, however fast it was; none where it may.
    /// What it takes from flows of TCP on the same path decides (docs/udt.md, docs/speed.md).
    pub fn unfair(self) -> Option<&'static str> {
        (self == ProfileDriver::Udt).then_some(
            "its own congestion control takes the larger part of a path that it shares with TCP",
        )
    }

    /// Whether it is the usual one, which documents and names leave out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(super) fn is_tcp(&self) -> bool {
        *self == ProfileDriver::Tcp
    }
}

/// The axis without a choice.
pub(super) fn tcp_alone() -> Vec<ProfileDriver> {
    vec![ProfileDriver::Tcp]
}

pub(super) fn is_tcp_alone(drivers: &[ProfileDriver]) -> bool {
    drivers == [ProfileDriver::Tcp]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Document, Experiment};
    use crate::profile::{
        Cell, CellResult, Copies, Environment, Grid, PathPoint, Plan, Profile, ProfileKind,
        Simulator, diff, plan_from,
    };
    use crate::report::{ColumnValues, ReportDocument};
    use crate::units::{Bytes, Fault, Rate, Span};

    fn grid(drivers: &[ProfileDriver]) -> Grid {
        let paths = [10, 40].map(|ms| {
            PathPoint::custom(crate::units::Rate::from_bps(1_000_000_000), Span::from_millis(ms))
        });
        let copies = Copies { drivers: drivers.to_vec(), ..Copies::usual() };
        Grid { copies: Some(copies), ..Grid::new("custom", paths.to_vec(), vec![Algorithm::Cubic]) }
    }

    /// A measured profile of both drivers, in which TLS did four fifths of TCP.
    fn measured() -> Profile {
        let both = Profile::new(
            grid(&[ProfileDriver::Tcp, ProfileDriver::Tls]),
            ProfileKind::Measured,
            Environment::default(),
            "",
        );
        let mut both = both.expect("a grid");
        both.run(&mut Simulator, |_| true).expect("a model stands in for the link");
        for result in both.cells.iter_mut().filter(|result| over(result) == ProfileDriver::Tls) {
            for one in &mut result.repetitions {
                one.whole.receiver_bps =
                    crate::units::Rate::from_bps(one.whole.receiver_bps.as_bps() / 5 * 4);
            }
        }
        both
    }

    fn over(result: &CellResult) -> ProfileDriver {
        result.cell.staged.expect("a mover").driver
    }

    #[test]
    fn a_driver_is_an_axis_with_distinct_readable_cells() {
        let profile = measured();
        let names: Vec<String> = profile.cells.iter().map(|result| result.cell.name()).collect();
        let common = "10.0ms cubic 1 stream memory asynchronous staging 64 MiB";
        assert_eq!(
            (profile.cells.len(), names[0].as_str(), names[1].clone()),
            (4, common, format!("{common} over tls"))
        );
        let read = Profile::read(&serde_json::to_string(&profile).expect("JSON"));
        assert_eq!(read.as_ref(), Ok(&profile), "and what is missing of it can be measured");
        let column = profile
            .columns()
            .columns
            .into_iter()
            .find(|(name, _)| *name == "driver")
            .expect("a column");
        let ColumnValues::Text(drivers) = column.1 else { panic!("words") };
        assert!(
            drivers.contains(&Some("tcp".to_owned())) && drivers.contains(&Some("tls".to_owned()))
        );
        let html = profile.page(&[]).html();
        assert!(
            html.contains("Throughput by round-trip time")
                && html.contains("memory asynchronous over tls")
        );
        // A profile of TCP alone is the same document as before there were drivers.
        let plain = Profile::new(
            grid(&[ProfileDriver::Tcp]),
            ProfileKind::Measured,
            Environment::default(),
            "",
        )
        .expect("a grid");
        assert!(!serde_json::to_string(&plain).expect("JSON").contains("driver"));
        let found = diff(&plain_of(&profile), &profile, 0.05).expect("cells of both");
        assert_eq!((found.cells.len(), found.only_in_one), (2, 2), "TLS is another cell");
    }

    /// A measured profile of each driver that `factor` knows, as much faster than TCP.
    fn faster(factors: &[(ProfileDriver, u64)]) -> Profile {
        let drivers: Vec<ProfileDriver> = factors.iter().map(|(driver, _)| *driver).collect();
        let mut grid = grid(&drivers);
        grid.paths.truncate(1);
        grid.host_bps = Some(Rate::from_bps(100_000_000));
        let mut found = Profile::new(grid, ProfileKind::Measured, Environment::default(), "today")
            .expect("a grid");
        found.run(&mut Simulator, |_| true).expect("a model stands in for the link");
        for result in &mut found.cells {
            let of = |(driver, _): &&(ProfileDriver, u64)| *driver == over(result);
            let percent = factors.iter().find(of).expect("one of them").1;
            for one in &mut result.repetitions {
                for part in [&mut one.whole, &mut one.ramp, &mut one.steady] {
                    // UDT's machine is no model of these figures: all stand on the same rate.
                    part.receiver_bps = Rate::from_bps(1_000_000 * percent);
                }
            }
        }
        found
    }

    #[test]
    fn quic_is_chosen_where_it_wins_and_udt_never() {
        let plan = |factors: &[(ProfileDriver, u64)]| {
            plan_from(&faster(factors), None, None, Bytes::mib(1_024)).expect("a plan")
        };
        let words = |plan: &Plan| {
            plan.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let wins = plan(&[(ProfileDriver::Tcp, 40), (ProfileDriver::Quic, 80)]);
        assert!(wins.channel == Some("quic") && words(&wins).contains("over quic"), "{wins:?}");
        let tie = plan(&[(ProfileDriver::Tcp, 80), (ProfileDriver::Quic, 81)]);
        assert_eq!(tie.channel, None, "every node takes TCP");
        let unfair = plan(&[(ProfileDriver::Tcp, 40), (ProfileDriver::Udt, 80)]);
        let said = words(&unfair);
        assert_eq!(unfair.channel, None, "{said}");
        assert!(said.contains("not over udt, though it was 2.00 times as fast: its own"), "{said}");
        let slower = plan(&[(ProfileDriver::Tcp, 80), (ProfileDriver::Udt, 40)]);
        assert!(!words(&slower).contains("udt"), "{slower:?}");
    }

    #[test]
    fn a_driver_with_its_own_control_is_measured_once_and_so_named() {
        let controls = vec![Algorithm::Reno, Algorithm::HTcp, Algorithm::Bbr];
        let mut two =
            Grid { congestion: controls, ..grid(&[ProfileDriver::Tcp, ProfileDriver::Udt]) };
        two.paths.truncate(1);
        let names: Vec<String> = two.cells().iter().map(Cell::name).collect();
        let udt: Vec<&String> = names.iter().filter(|name| name.ends_with("over udt")).collect();
        assert_eq!((names.len(), udt.len()), (5, 2), "{names:?}");
        assert!(udt[0].starts_with("10.0ms 1 stream") && udt[1].contains(" bbr "), "{udt:?}");
        let page = Profile::modelled(Grid { seconds: 4.0, ..two }).page(&[]).html();
        assert!(page.contains("Channels side by side") && page.contains("Times TCP"));
    }

    /// The cells of TCP alone.
    fn plain_of(profile: &Profile) -> Profile {
        let mut plain = profile.clone();
        plain.cells.retain(|result| over(result) == ProfileDriver::Tcp);
        plain
    }

    #[test]
    fn the_model_says_that_it_cannot_tell_tls_from_tcp() {
        let error = Profile::new(
            grid(&[ProfileDriver::Tls]),
            ProfileKind::Modelled,
            Environment::default(),
            "",
        )
        .expect_err("no processor");
        assert!(
            error.fault == Fault::You
                && error.hint.is_some_and(|hint| hint.contains("`Setting::HostRate`")),
            "{}",
            error.message
        );
        assert!(
            Profile::new(
                grid(&[ProfileDriver::Tcp]),
                ProfileKind::Modelled,
                Environment::default(),
                ""
            )
            .is_ok()
        );
    }
}
