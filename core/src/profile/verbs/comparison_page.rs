//! TCP next to RDMA as one page: what to use when and why, over distance, next to other traffic,
//! and what each needs.

use super::comparison::{ComparisonVerdict, PRESET, Recommendation, TcpRdmaComparison, of_2008};
use super::published as rdma_published;
use crate::congestion::Algorithm;
use crate::profile::cell::PathPoint;
use crate::profile::published::sc08;
use crate::report::{
    Axis, Columns, LineChart, PageSpec, ReportDocument, Section, Series, TableSpec,
};
use crate::statistics::decrease_per_mile;
use crate::units::Rate;

impl ReportDocument for TcpRdmaComparison {
    fn spec(&self) -> PageSpec {
        let verdicts = self.verdicts();
        PageSpec {
            title: format!("TCP next to RDMA: {}", PRESET.0),
            lead: format!(
                "Every curve is modelled, in virtual time, but those named SC08 or USN, which \
                 were measured in 2008. Farline {}, {}.",
                self.rdma.farline, self.rdma.date
            ),
            sections: [which(&verdicts), distance(&verdicts), other_traffic(&verdicts), needs()]
                .map(Some)
                .to_vec(),
            source: (self.schema.clone(), String::new()),
        }
    }

    fn columns(&self) -> Columns {
        self.rows()
    }
}

/// A throughput in Gbit/s.
fn shown(value: f64) -> String {
    if value < 0.1 { format!("{value:.3}") } else { format!("{value:.2}") }
}

fn which(verdicts: &[ComparisonVerdict<'_>]) -> Section {
    type Row<'a> = &'a ComparisonVerdict<'a>;
    let spec = TableSpec::new()
        .words("Path", |row: &Row<'_>| row.path.name.clone())
        .figures("Other traffic", |row| row.cross.as_gbps().to_string())
        .figures("TCP, 1 stream", |row| shown(row.one_stream))
        .figures("TCP, best", |row| {
            let (tcp, control, streams) = row.tcp;
            format!("{} ({control} x {streams})", shown(tcp))
        })
        .figures("RDMA", |row| match row.rdma {
            (least, most) if most > least * 1.05 => format!("{} to {}", shown(least), shown(most)),
            (least, _) => shown(least),
        })
        .words("Use", |row| row.choice.name().to_owned())
        .words("Why", |row| row.why.clone());
    type Measured<'a> = (&'a str, f64, f64, Recommendation, String);
    let measured = TableSpec::new()
        .words("Quiet path", |row: &Measured<'_>| row.0.to_owned())
        .figures("TCP, best", |row| shown(row.1))
        .figures("RDMA", |row| shown(row.2))
        .words("Use", |row| row.3.name().to_owned())
        .words("Why", |row| row.4.clone());
    let of_2008 = quiet(verdicts).into_iter().filter_map(|verdict| {
        let (tcp, rdma, choice, why) = of_2008(verdict.path)?;
        Some((verdict.path.name.as_str(), tcp, rdma, choice, why))
    });
    Section::new("Which to use when")
        .text(
            "RDMA over range extenders for one large flow on a path of its own, and the more so \
             the longer it is and the less is known of its losses: nothing but the last \
             acknowledgement feels the distance, and one queue of messages does what many tuned \
             streams must. TCP wherever others may send more than what the ports leave: it gives \
             way and comes back; RDMA sends on and loses almost everything, unless a queue holds \
             all that the extenders promise each other. And TCP where a path carries more than the \
             port.",
        )
        .text("By what SC08 measured, hosts of 2008 and all:")
        .table(measured.of(of_2008))
        .text("By the models, which know the path and no host, next to other traffic:")
        .table(spec.of(verdicts))
        .note(
            "Gbit/s of payload; messages of 8 MiB; 4x SDR ports; RDMA from a shallow queue to one \
             of a bandwidth-delay product. The model's TCP loses packets to its queue alone, and \
             so needs neither many streams nor tuning: what SC08's hosts lost besides is the \
             difference between the tables, and what to measure before TCP is chosen for a long \
             path.",
        )
}

/// Verdicts of quiet paths with a length, the shortest first.
fn quiet<'a, 'b>(verdicts: &'b [ComparisonVerdict<'a>]) -> Vec<&'b ComparisonVerdict<'a>> {
    verdicts.iter().filter(|verdict| verdict.cross == Rate::default()).collect()
}

fn distance(verdicts: &[ComparisonVerdict<'_>]) -> Section {
    let quiet = quiet(verdicts);
    let line = |name: &str, of: &dyn Fn(&ComparisonVerdict<'_>) -> Option<f64>| {
        let at = |verdict: &&ComparisonVerdict<'_>| {
            Some((verdict.path.rtt_ns.as_millis_f64(), of(verdict)?))
        };
        Series::new(name, quiet.iter().filter_map(at))
    };
    let tcp_printed = |verdict: &ComparisonVerdict<'_>| {
        sc08(Algorithm::HTcp, &verdict.path.name).map(|row| row.gbps)
    };
    let rdma_printed = |verdict: &ComparisonVerdict<'_>| {
        rdma_published::sc08(&verdict.path.name).map(|row| row.gbps)
    };
    let series: [Series; 5] = [
        line("TCP, 1 stream, modelled", &|verdict| Some(verdict.one_stream)),
        line("TCP, best, modelled", &|verdict| Some(verdict.tcp.0)),
        line("RDMA, modelled", &|verdict| Some(verdict.rdma.1)),
        line("htcp, 5 to 15 streams, SC08", &tcp_printed),
        line("RDMA, SC08", &rdma_printed),
    ];
    let dpm = |of: &dyn Fn(&PathPoint, &ComparisonVerdict<'_>) -> Option<f64>,
               verdict: &ComparisonVerdict<'_>| {
        let at = |verdict: &ComparisonVerdict<'_>| {
            Some((verdict.path.miles?, of(verdict.path, verdict)? * 1e3))
        };
        let found = decrease_per_mile(at(quiet.first()?)?, at(verdict)?)?;
        Some(format!("{found:.3}"))
    };
    let printed = |verdict: &ComparisonVerdict<'_>, algorithm| {
        let row = sc08(algorithm, &verdict.path.name)?;
        row.dpm_mbps.map(|dpm| format!("{dpm:.2}"))
    };
    let spec = TableSpec::new()
        .figures("Miles", |verdict: &&ComparisonVerdict<'_>| {
            verdict.path.miles.map_or_else(String::new, |miles| miles.to_string())
        })
        .figures("TCP, best", |verdict| dpm(&|_, one| Some(one.tcp.0), verdict).unwrap_or_default())
        .figures("bic, SC08", |verdict| printed(verdict, Algorithm::Bic).unwrap_or_default())
        .figures("htcp, SC08", |verdict| printed(verdict, Algorithm::HTcp).unwrap_or_default())
        .figures("RDMA", |verdict| dpm(&|_, one| Some(one.rdma.1), verdict).unwrap_or_default())
        .figures("RDMA, SC08", |verdict| {
            let row = rdma_published::sc08(&verdict.path.name);
            row.and_then(|row| row.dpm_mbps).map_or_else(String::new, |dpm| format!("{dpm:.3}"))
        });
    Section::new("Over distance")
        .text(
            "Quiet paths. SC08's best TCP over 1400 miles is above its RDMA: 8.5 Gbit/s with 12 \
            streams; over 8600 miles it is 2.59 with 16.",
        )
        .chart(LineChart::new(
            "TCP and RDMA by round-trip time",
            Axis::new("Round-trip time", "ms"),
            Axis::new("Payload", "Gbit/s"),
            series.into_iter().filter(|series| series.points.len() > 1).collect(),
        ))
        .text("Decrease per mile in Mbit/s, (T(0.2 miles) - T(d)) / (d - 0.2 miles):")
        .table(spec.of(quiet.iter().skip(1).copied()))
        .note(
            "SC08, section V.B: less than 0.02 against 1.3 Mbit/s per mile, and 0.09 against 30 \
            Mbit/s of standard deviation.",
        )
}

fn other_traffic(verdicts: &[ComparisonVerdict<'_>]) -> Section {
    let mut section = Section::new("Next to other traffic").text(
        "TCP shares what is left. RDMA's ports do not slow down: up to the residual capacity they \
         lose nothing, above it all hangs on the \
         queue before the long haul. USN's measurements lie between the two.",
    );
    for quiet in quiet(verdicts) {
        let of: Vec<&ComparisonVerdict<'_>> =
            verdicts.iter().filter(|verdict| verdict.path == quiet.path).collect();
        let line = |name: &str, value: &dyn Fn(&ComparisonVerdict<'_>) -> Option<f64>| {
            let at =
                |verdict: &&ComparisonVerdict<'_>| Some((verdict.cross.as_gbps(), value(verdict)?));
            Series::new(name, of.iter().filter_map(at))
        };
        let series = [
            line("TCP, best", &|verdict| Some(verdict.tcp.0)),
            line("TCP, 1 stream", &|verdict| Some(verdict.one_stream)),
            line("RDMA, queue of one BDP", &|verdict| Some(verdict.rdma.1)),
            line("RDMA, shallow queue", &|verdict| Some(verdict.rdma.0)),
            line("RDMA, USN", &|verdict| {
                rdma_published::sc08_cross(&verdict.path.name, verdict.cross)
            }),
        ];
        section = section.chart(LineChart::new(
            format!("TCP and RDMA over {} next to other traffic", quiet.path.name),
            Axis::new("Other traffic", "Gbit/s"),
            Axis::new(format!("{} ({}): payload", quiet.path.name, quiet.path.rtt_ns), "Gbit/s"),
            series.into_iter().filter(|series| series.points.len() > 1).collect(),
        ));
    }
    section
}

/// SC08, section V.A.
fn needs() -> Section {
    let rows = [
        (
            "At the edge",
            "a switch port",
            "a range extender at both ends of each path, which is point to point",
        ),
        (
            "Of the path",
            "a share of it",
            "a wavelength of its own, or at most 1 Gbit/s of other traffic next to SDR ports",
        ),
        (
            "Tuning",
            "control, streams and windows for each path",
            "a message size and a queue that fill the path, a timeout above its round trip",
        ),
        ("When others send", "gives way, comes back", "stalls above the residual capacity"),
        ("Large flows", "several share a path", "one fills it"),
    ];
    let spec = TableSpec::new()
        .words("", |row: &(&str, &str, &str)| row.0.to_owned())
        .words("TCP over 10GigE", |row| row.1.to_owned())
        .words("RDMA over range extenders", |row| row.2.to_owned());
    Section::new("What each needs")
        .table(spec.of(rows))
        .note("SC08, section V.A, with what the models here add: the timeout and the queue.")
}

#[cfg(test)]
mod tests {
    use super::super::comparison::{Recommendation, grids};
    use super::super::document::VerbsProfile;
    use super::*;
    use crate::experiment::{Form, Repetitions};

    #[test]
    fn the_page_takes_rdma_when_quiet_and_tcp_under_traffic() {
        let (mut tcp, mut rdma) = grids(Form::Quick).expect("its paths are known");
        let cross = [0, 3].map(|gbit| Rate::from_bps(gbit * 1_000_000_000)).to_vec();
        for paths in [&mut tcp.paths, &mut rdma.paths] {
            paths.retain(|path| path.name == "usn-1400" || path.name == "usn-8600");
        }
        (tcp.cross_bps, rdma.cross_bps) = (cross.clone(), cross);
        (tcp.repetitions, tcp.seconds) = (Repetitions { least: 1, most: 1, half_width: 1.0 }, 8.0);
        rdma.most_s = 3.0;
        let tcp = crate::profile::Profile::modelled(tcp);
        let mut rdma = VerbsProfile::new(rdma, "today");
        rdma.model();
        let comparison = TcpRdmaComparison::new(tcp, rdma);
        let verdicts = comparison.verdicts();
        assert_eq!(verdicts.len(), 4);
        for verdict in &verdicts {
            let busy = verdict.cross > Rate::default();
            assert_eq!(
                matches!(verdict.choice, Recommendation::Tcp | Recommendation::TcpUnlessQueued),
                busy || verdict.tcp.0 > verdict.rdma.1,
                "{verdict:?}"
            );
            assert_eq!(verdict.why.contains("do not slow down"), busy, "{verdict:?}");
        }
        let html = comparison.page(&["farline profile".to_owned()]).html();
        for words in [
            "Which to use when",
            "htcp, 5 to 15 streams, SC08",
            "RDMA, USN",
            "a wavelength of its own",
            "0.016",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert!(!html.contains("NaN") && !html.contains(">inf"), "a number that is none");
    }
}
