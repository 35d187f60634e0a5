//! TCP next to RDMA over distance and other traffic, as SC08's section V sets them, and which to
//! use when.

use super::document::VerbsProfile;
use super::grid::{VerbsCell, VerbsGrid};
use super::model::RELIABLE_HEADERS;
use super::presets::preset;
use crate::congestion::Algorithm;
use crate::experiment::Form;
use crate::profile;
use crate::profile::cell::PathPoint;
use crate::profile::document::ProfileKind;
use crate::report::{ColumnSource, Columns};
use crate::units::{Bytes, Error, Rate};
use crate::wan::frames;
use serde::{Deserialize, Serialize};

/// The preset's name and what it is.
pub const PRESET: (&str, &str) = (
    "sc08-tcp-rdma",
    "SC08, section V: TCP next to RDMA over the four USN paths and other traffic, and which to use \
     when",
);

/// The name and version of the document.
pub(super) const SCHEMA: &str = "farline/tcp-rdma/1";

/// Payload of a full packet.
const PACKET: u64 = 2_048;

/// What makes a choice clear: less of a difference is none.
const CLEAR: f64 = 1.05;

/// Both profiles over the same paths and the same other traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpRdmaComparison {
    /// `farline/tcp-rdma/1`.
    pub schema: String,
    /// Streams of TCP.
    pub tcp: profile::Profile,
    /// Messages of RDMA.
    pub rdma: VerbsProfile,
}

/// What to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recommendation {
    /// RDMA, whatever the queue in the path.
    Rdma,
    /// TCP.
    Tcp,
    /// TCP, unless it is known that the queue in the path holds all that the extenders promise.
    TcpUnlessQueued,
    /// Whichever is there.
    Either,
}

/// One path next to one rate of other traffic. Throughputs are means of the models in Gbit/s.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonVerdict<'a> {
    /// The path.
    pub path: &'a PathPoint,
    /// Other traffic.
    pub cross: Rate,
    /// The best of one stream.
    pub one_stream: f64,
    /// The best of all numbers of streams, with its control and number.
    pub tcp: (f64, Algorithm, u32),
    /// RDMA where the queue in the path is shallow, and where it holds everything.
    pub rdma: (f64, f64),
    /// What to use.
    pub choice: Recommendation,
    /// Why.
    pub why: String,
}

/// The grids of both: TCP's, then RDMA's.
///
/// # Errors
/// As [`PathPoint::named`].
pub fn grids(form: Form) -> Result<(profile::Grid, VerbsGrid), Error> {
    let full = form == Form::Full;
    let paths = profile::preset("sc08-distance", form)?.paths;
    let tcp = profile::Grid {
        paths: paths.clone(),
        congestion: if full {
            vec![Algorithm::Bic, Algorithm::HTcp, Algorithm::Cubic]
        } else {
            vec![Algorithm::HTcp, Algorithm::Cubic]
        },
        streams: vec![1, 10],
        ..profile::preset("sc08-cross-traffic", form)?
    };
    // A name of its own, and SC08's messages.
    let rdma = preset("sc08-ib-cross-traffic", form)?
        .unwrap_or_else(|| VerbsGrid::new(PRESET.0, form, Vec::new(), Vec::new()));
    let (name, cross_bps) = (PRESET.0.to_owned(), rdma.cross_bps.clone());
    let rdma = VerbsGrid { name: name.clone(), paths, sizes_bytes: vec![Bytes::mib(8)], ..rdma };
    Ok((profile::Grid { name, cross_bps, ..tcp }, rdma))
}

impl TcpRdmaComparison {
    /// Both profiles, which must have run.
    pub fn new(tcp: profile::Profile, rdma: VerbsProfile) -> TcpRdmaComparison {
        TcpRdmaComparison { schema: SCHEMA.to_owned(), tcp, rdma }
    }

    /// TCP's best mean in Gbit/s over `path` next to `cross` with at most `streams`.
    fn tcp(&self, path: &PathPoint, cross: Rate, streams: u32) -> Option<(f64, Algorithm, u32)> {
        let of = |cell: &profile::Cell| {
            cell.path == *path && cell.cross_bps == cross && cell.streams <= streams
        };
        let found = self.tcp.cells.iter().filter(|result| of(&result.cell));
        let means = found.filter_map(|result| {
            result
                .summary()
                .map(|summary| (summary.mean / 1e9, result.cell.congestion, result.cell.streams))
        });
        means.max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// RDMA's mean in Gbit/s over `path` next to `cross` where the queue is `queue`.
    fn rdma(&self, path: &PathPoint, cross: Rate, queue: Option<Bytes>) -> Option<f64> {
        let of = |cell: &VerbsCell| {
            cell.path == *path && (cell.cross_bps, cell.queue_bytes) == (cross, queue)
        };
        self.rdma.summary(ProfileKind::Modelled, of).map(|summary| summary.mean)
    }

    /// A verdict for every path and rate of other traffic that both have run.
    pub fn verdicts(&self) -> Vec<ComparisonVerdict<'_>> {
        let grid = &self.rdma.grid;
        let pairs = grid
            .paths
            .iter()
            .flat_map(|path| grid.cross_bps.iter().map(move |cross| (path, *cross)));
        pairs.filter_map(|(path, cross)| self.verdict(path, cross)).collect()
    }

    fn verdict<'a>(&self, path: &'a PathPoint, cross: Rate) -> Option<ComparisonVerdict<'a>> {
        let (one_stream, ..) = self.tcp(path, cross, 1)?;
        let tcp = self.tcp(path, cross, u32::MAX)?;
        let shallow = self.rdma.grid.queues_bytes.iter().flatten().min().copied();
        let rdma = (self.rdma(path, cross, shallow)?, self.rdma(path, cross, None)?);
        let undisturbed = self.rdma(path, Rate::default(), None)?;
        let (choice, why) =
            decide(one_stream, tcp.0, rdma, undisturbed, residual(path.rate_bps, cross));
        Some(ComparisonVerdict { path, cross, one_stream, tcp, rdma, choice, why })
    }
}

/// What SC08 measured over a quiet path: the best of bic and htcp with its streams, RDMA's mean,
/// and what follows; `None` for another path. Its best over the base length is not printed: there
/// the mean of 5 to 15 streams stands for it.
pub(super) fn of_2008(path: &PathPoint) -> Option<(f64, f64, Recommendation, String)> {
    let rows = [Algorithm::Bic, Algorithm::HTcp]
        .into_iter()
        .filter_map(|control| profile::published::sc08(control, &path.name));
    let best = rows.map(|row| row.peak.map_or((row.gbps, 10), |(streams, gbps)| (gbps, streams)));
    let (tcp, streams) = best.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let rdma = super::published::sc08(&path.name)?.gbps;
    let (choice, why) = if rdma > CLEAR * tcp {
        (
            Recommendation::Rdma,
            format!("{:.1} times the {tcp:.2} Gbit/s that {streams} tuned streams got", rdma / tcp),
        )
    } else if tcp > CLEAR * rdma {
        (
            Recommendation::Tcp,
            format!(
                "{streams} tuned streams got {tcp:.2} Gbit/s, {:.1} times RDMA's {rdma:.2}, which \
                 its port bounds",
                tcp / rdma
            ),
        )
    } else {
        (Recommendation::Either, format!("within {:.0} % of each other", (CLEAR - 1.0) * 100.0))
    };
    Some((tcp, rdma, choice, why))
}

impl TcpRdmaComparison {
    /// A row for each path and rate of other traffic with its verdict; the document has every run.
    pub(super) fn rows(&self) -> Columns {
        let picks: [(&str, ColumnSource<ComparisonVerdict<'_>>); 11] = [
            ("path", ColumnSource::Text(|verdict| Some(verdict.path.name.clone()))),
            ("rtt_ns", ColumnSource::Whole(|verdict| Some(verdict.path.rtt_ns.as_nanos()))),
            ("cross_bps", ColumnSource::Whole(|verdict| Some(verdict.cross.as_bps()))),
            ("tcp_1_gbps", ColumnSource::Real(|verdict| Some(verdict.one_stream))),
            ("tcp_gbps", ColumnSource::Real(|verdict| Some(verdict.tcp.0))),
            ("congestion", ColumnSource::Text(|verdict| Some(verdict.tcp.1.to_string()))),
            ("streams", ColumnSource::Whole(|verdict| Some(verdict.tcp.2.into()))),
            ("rdma_shallow_gbps", ColumnSource::Real(|verdict| Some(verdict.rdma.0))),
            ("rdma_deep_gbps", ColumnSource::Real(|verdict| Some(verdict.rdma.1))),
            ("use", ColumnSource::Text(|verdict| Some(verdict.choice.name().to_owned()))),
            ("why", ColumnSource::Text(|verdict| Some(verdict.why.clone()))),
        ];
        let about = vec![
            ("schema", self.schema.clone()),
            ("farline", self.tcp.farline.clone()),
            ("date", self.tcp.date.clone()),
        ];
        Columns::of(about, &self.verdicts(), &picks)
    }
}

/// What `cross` leaves of a path of `rate`, in Gbit/s.
fn residual(rate: Rate, cross: Rate) -> f64 {
    rate.as_bps().saturating_sub(cross.as_bps()) as f64 / 1e9
}

/// `undisturbed` is RDMA's throughput without other traffic, `residual` what there is left for it
/// on the wire.
fn decide(
    one_stream: f64,
    tcp: f64,
    (least, most): (f64, f64),
    undisturbed: f64,
    residual: f64,
) -> (Recommendation, String) {
    let streams = if tcp > CLEAR * one_stream { ", and it takes several streams" } else { "" };
    // Full packets, as they are on the long haul.
    let sent = undisturbed * frames::wire_bytes(PACKET + u64::from(RELIABLE_HEADERS)) as f64
        / PACKET as f64;
    if sent > residual {
        let stalls = format!(
            "the ports send {sent:.2} Gbit/s where {residual:.2} are left, and do not slow down"
        );
        return if most > CLEAR * tcp {
            let gain = format!("a queue that holds every promise would give {most:.2}");
            (
                Recommendation::TcpUnlessQueued,
                format!(
                    "{stalls}: with a shallow queue {least:.2} remain, TCP keeps {tcp:.2}; {gain}"
                ),
            )
        } else {
            (
                Recommendation::Tcp,
                format!(
                    "{stalls}: {least:.2} to {most:.2}, by the queue, where TCP keeps \
                     {tcp:.2}{streams}"
                ),
            )
        };
    }
    if least > CLEAR * tcp {
        return (
            Recommendation::Rdma,
            format!(
                "{:.1} times TCP's {tcp:.2} Gbit/s, and nothing is lost: {residual:.2} are left",
                least / tcp
            ),
        );
    }
    if tcp > CLEAR * most {
        return (
            Recommendation::Tcp,
            format!(
                "{:.1} times RDMA's {most:.2} Gbit/s, which its port bounds{streams}",
                tcp / most
            ),
        );
    }
    (
        Recommendation::Either,
        format!("within {:.0} % of each other{streams}", (CLEAR - 1.0) * 100.0),
    )
}

impl Recommendation {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Recommendation::Rdma => "RDMA",
            Recommendation::Tcp => "TCP",
            Recommendation::TcpUnlessQueued => "TCP, unless queued",
            Recommendation::Either => "either",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_follows_throughput_and_says_what_it_hangs_on() {
        let choice = |one, tcp, rdma, residual| decide(one, tcp, rdma, 7.4, residual).0;
        assert_eq!(choice(0.1, 2.6, (7.3, 7.3), 9.29), Recommendation::Rdma);
        assert_eq!(choice(1.0, 8.5, (7.4, 7.4), 9.29), Recommendation::Tcp);
        assert_eq!(choice(1.0, 5.0, (0.02, 6.0), 6.29), Recommendation::TcpUnlessQueued);
        assert_eq!(choice(1.0, 6.1, (0.02, 6.0), 6.29), Recommendation::Tcp);
        assert_eq!(choice(1.0, 6.1, (0.2, 0.2), 6.29), Recommendation::Tcp);
        assert_eq!(choice(7.4, 7.4, (7.4, 7.4), 9.29), Recommendation::Either);
        assert!(
            decide(1.0, 5.0, (0.2, 0.2), 7.4, 6.29)
                .1
                .contains("send 7.63 Gbit/s where 6.29 are left")
        );
        assert!(decide(1.0, 8.5, (7.4, 7.4), 7.4, 9.29).1.contains("several streams"));
    }

    #[test]
    fn sc08s_own_numbers_choose_tcp_over_1400_miles_and_rdma_beyond() {
        let of = |name: &str| {
            of_2008(&PathPoint::named(name, None).expect("a path")).expect("in its tables").2
        };
        assert_eq!(
            ["usn-0.2", "usn-1400", "usn-6600", "usn-8600"].map(of),
            [Recommendation::Tcp, Recommendation::Tcp, Recommendation::Rdma, Recommendation::Rdma]
        );
        assert!(of_2008(&PathPoint::named("ncar-llnl", None).expect("a path")).is_none());
    }
}
