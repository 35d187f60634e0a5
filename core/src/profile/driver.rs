//! What a mover sends over, where a profile asks what that costs.

use serde::{Deserialize, Serialize};

/// A channel driver over IP. RDMA is no value of this axis: no emulated link carries it, and
/// [`verbs`](super::verbs) measure it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// Plain TCP.
    #[default]
    Tcp,
    /// TLS 1.3 over TCP, which costs processor time at both ends.
    Tls,
}

impl Driver {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Driver::Tcp => "tcp",
            Driver::Tls => "tls",
        }
    }

    /// Whether it is the usual one, which documents and names leave out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(super) fn is_tcp(&self) -> bool {
        *self == Driver::Tcp
    }
}

/// The axis without a choice.
pub(super) fn tcp_alone() -> Vec<Driver> {
    vec![Driver::Tcp]
}

pub(super) fn is_tcp_alone(drivers: &[Driver]) -> bool {
    drivers == [Driver::Tcp]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::experiment::Document;
    use crate::profile::{
        CellResult, Copies, Environment, Grid, PathPoint, Profile, ProfileKind, Simulator, diff,
    };
    use crate::report::{ReportDocument, Values};
    use crate::units::{Fault, Span};

    fn grid(drivers: &[Driver]) -> Grid {
        let paths = [10, 40].map(|ms| {
            PathPoint::custom(crate::units::Rate::from_bps(1_000_000_000), Span::from_millis(ms))
        });
        let copies = Copies { drivers: drivers.to_vec(), ..Copies::usual() };
        Grid { copies: Some(copies), ..Grid::new("custom", paths.to_vec(), vec![Algorithm::Cubic]) }
    }

    /// A measured profile of both drivers, in which TLS did four fifths of TCP.
    fn measured() -> Profile {
        let both = Profile::new(
            grid(&[Driver::Tcp, Driver::Tls]),
            ProfileKind::Measured,
            Environment::default(),
            "",
        );
        let mut both = both.expect("a grid");
        both.run(&mut Simulator, |_| true).expect("a model stands in for the link");
        for result in both.cells.iter_mut().filter(|result| over(result) == Driver::Tls) {
            for one in &mut result.repetitions {
                one.whole.receiver_bps =
                    crate::units::Rate::from_bps(one.whole.receiver_bps.as_bps() / 5 * 4);
            }
        }
        both
    }

    fn over(result: &CellResult) -> Driver {
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
        let Values::Text(drivers) = column.1 else { panic!("words") };
        assert!(
            drivers.contains(&Some("tcp".to_owned())) && drivers.contains(&Some("tls".to_owned()))
        );
        let html = profile.page(&[]).html();
        assert!(
            html.contains("Throughput by round-trip time")
                && html.contains("memory asynchronous over tls")
        );
        // A profile of TCP alone is the same document as before there were drivers.
        let plain =
            Profile::new(grid(&[Driver::Tcp]), ProfileKind::Measured, Environment::default(), "")
                .expect("a grid");
        assert!(!serde_json::to_string(&plain).expect("JSON").contains("driver"));
        let found = diff(&plain_of(&profile), &profile, 0.05).expect("cells of both");
        assert_eq!((found.cells.len(), found.only_in_one), (2, 2), "TLS is another cell");
    }

    /// The cells of TCP alone.
    fn plain_of(profile: &Profile) -> Profile {
        let mut plain = profile.clone();
        plain.cells.retain(|result| over(result) == Driver::Tcp);
        plain
    }

    #[test]
    fn the_model_says_that_it_cannot_tell_tls_from_tcp() {
        let error =
            Profile::new(grid(&[Driver::Tls]), ProfileKind::Modelled, Environment::default(), "")
                .expect_err("no processor");
        assert!(
            error.fault == Fault::You
                && error.hint.is_some_and(|hint| hint.contains("--host-rate")),
            "{}",
            error.message
        );
        assert!(
            Profile::new(grid(&[Driver::Tcp]), ProfileKind::Modelled, Environment::default(), "")
                .is_ok()
        );
    }
}
