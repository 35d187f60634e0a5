//! The papers' experiments over TCP as grids, each in a quick form of at most twenty minutes and a
//! full one.

use super::cell::PathPoint;
use super::grid::{Disturbance, Form, Grid, Repetitions};
use super::hypothesis::Hypothesis;
use super::staging::{Copies, Order, Store};
use crate::congestion::{Algorithm, Constants};
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use crate::wan::Change;

/// Name and what it is, in the order of the papers.
pub const PRESETS: [(&str, &str); 11] = [
    (
        "sc08-distance",
        "SC08, figures 2 to 4: bic and htcp over the four USN paths by number of streams",
    ),
    ("sc08-stability", "SC08, figures 2 and 3: ten repetitions"),
    (
        "sc08-cross-traffic",
        "SC08, section IV.D, over TCP: 10 streams against other traffic of 0 to 4 Gbit/s",
    ),
    (
        "sc08-variants",
        "SC08, section III: bic, htcp, highspeed, scalable, vegas, and cubic and bbr beside them",
    ),
    ("wanphy-window", "Trans-European, figure 6: one stream by window and MTU"),
    (
        "wanphy-stability",
        "Trans-European, figure 7: one stream for 15 hours, in hours of their own",
    ),
    (
        "wanphy-background",
        "Trans-European, figure 8: one stream of 1.9 Gbit/s against background traffic",
    ),
    ("wanphy-streams", "Trans-European, figure 9: 1 to 20 streams of 16 MB windows"),
    ("wanphy-recovery", "Trans-European, figure 10: the time to come back from a burst of 2 s"),
    (
        "adts-staging",
        "ADTS, figures 7 to 9: memory and file by staging and delay, reading in turns with \
         sending and at once (--staging, --store, --order)",
    ),
    (
        "icpp08-ipoib",
        "ICPP08, figures 3 and 4: TCP by MTU, window and streams over 8 Gbit/s and delays up to \
         10 ms",
    ),
];

/// The MTU of the Trans-European paper's jumbo frames.
const JUMBO: u32 = 9_216;
/// What a host of that paper did at most: 5.447 Gbit/s of payload, which is 5.482 Gbit/s on the
/// wire.
const ITANIUM: Rate = Rate::from_bps(5_482_000_000);

/// InfiniBand's 4x SDR after its 8b/10b code, which the range extenders of ICPP08 carried.
const SDR: Rate = Rate::from_bps(8_000_000_000);

fn gbit(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000_000)
}

/// What might make SC08's hosts of 2008 slower, or faster, than ours over the same lengths.
fn sc08_hypotheses(quick: bool) -> Vec<Hypothesis> {
    // The two long paths tell the same story; twenty minutes hold one of them.
    let far: &[&str] =
        if quick { &["usn-1400", "usn-8600"] } else { &["usn-1400", "usn-6600", "usn-8600"] };
    let of = |name, because| Hypothesis::new(name, because, far, &[10]);
    let window_bytes = Some(Bytes::mib(4));
    let queue_bytes = Some(Bytes(512 * 9_000));
    let loss = Some(1e-4);
    let seconds = Some(10.0);
    vec![
        Hypothesis {
            window_bytes,
            ..of(
                "windows of 4 MiB",
                "what autotuning gave a stream at most on Linux 2.6.18 and 2.6.23 (tcp_rmem, \
                 tcp_wmem)",
            )
        },
        Hypothesis {
            queue_bytes,
            ..of(
                "a ring of 512 packets",
                "a network card or a switch that holds no more, where ours holds one round trip \
                 of the line",
            )
        },
        Hypothesis {
            loss,
            ..of(
                "one of 10 000 packets lost",
                "rings that overran because a processor was late, whatever the rate; drawn by \
                 chance here",
            )
        },
        Hypothesis {
            seconds,
            ..of(
                "runs of 10 s",
                "iperf's default, slow start included; the paper does not say how long its runs \
                 were",
            )
        },
        Hypothesis {
            line: Some(10.0 / 9.29),
            ..Hypothesis::new(
                "a line of 10 Gbit/s",
                "a LAN PHY's rate in place of a WAN PHY's 9.29: SC08's 9.21 leave no room for \
                 headers in that",
                &["usn-0.2", "usn-1400"],
                &[10],
            )
        },
        Hypothesis {
            window_bytes,
            queue_bytes,
            loss,
            seconds,
            ..of("the first four at once", "each alone may hide another")
        },
    ]
}

/// The preset called `name`.
///
/// # Errors
/// [`Fault::You`] with the known names when there is none.
pub fn preset(name: &str, form: Form) -> Result<Grid, Error> {
    let quick = form == Form::Quick;
    let usn = |names: &[&str]| {
        names.iter().map(|name| PathPoint::named(name, None)).collect::<Result<Vec<_>, _>>()
    };
    let all = || usn(&["usn-0.2", "usn-1400", "usn-6600", "usn-8600"]);
    let few = || if quick { usn(&["usn-1400", "usn-8600"]) } else { all() };
    let geneva = || usn(&["geneva-amsterdam"]);
    let grid = |paths, congestion: &[Algorithm]| Grid {
        form,
        // Ten seconds after a ramp of five: slow start over 163 ms takes three.
        seconds: if quick { 15.0 } else { 60.0 },
        warm_up_s: 5.0,
        repetitions: Repetitions {
            least: if quick { 2 } else { 10 },
            most: if quick { 2 } else { 10 },
            half_width: 0.03,
        },
        // Linux's BIC of today counts an acknowledgement as often as it covers packets, and so
        // grows many times too fast behind a receiver that merges packets; the hosts of 2008
        // counted each packet once, as the papers do.
        set: Constants::Paper,
        // SC08 does not print its MTU, but its 9.21 Gbit/s do not fit through frames of 1500 (8.75
        // at most).
        mtus: vec![9_000],
        ..Grid::new(name, paths, congestion.to_vec())
    };
    let reno = [Algorithm::Reno];
    let both = [Algorithm::Bic, Algorithm::HTcp];
    let streams: Vec<u32> = if quick { vec![1, 5, 10, 15, 20] } else { (1..=20).collect() };
    let most = Repetitions::up_to;
    let kib =
        |sizes: &[u64]| sizes.iter().map(|size| Some(Bytes(size * 1_024))).collect::<Vec<_>>();
    let mib = |sizes: &[u64]| sizes.iter().map(|size| Some(Bytes::mib(*size))).collect::<Vec<_>>();
    Ok(match name {
        "sc08-distance" => Grid {
            streams,
            // Forty cells and the hypotheses' in twenty minutes: once each, and the spread is that
            // of 5 to 15 streams.
            repetitions: if quick {
                Repetitions { least: 1, most: 1, half_width: 0.0 }
            } else {
                most(10)
            },
            hypotheses: sc08_hypotheses(quick),
            ..grid(all()?, &both)
        },
        "sc08-stability" => Grid {
            streams: if quick { vec![1, 5, 10] } else { streams },
            repetitions: Repetitions { least: 10, most: 10, half_width: 0.0 },
            ..grid(if quick { usn(&["usn-8600"])? } else { all()? }, &both)
        },
        "sc08-cross-traffic" => Grid {
            streams: vec![10],
            cross_bps: (0..=4).map(gbit).collect(),
            repetitions: if quick { most(3) } else { most(10) },
            ..grid(few()?, &both)
        },
        "sc08-variants" => Grid {
            streams: if quick { vec![10] } else { streams },
            ..grid(
                all()?,
                &[
                    Algorithm::Bic,
                    Algorithm::HTcp,
                    Algorithm::HighSpeed,
                    Algorithm::Scalable,
                    Algorithm::Vegas,
                    Algorithm::Cubic,
                    Algorithm::Bbr,
                ],
            )
        },
        "wanphy-window" => Grid {
            windows_bytes: if quick {
                mib(&[1, 2, 4, 8, 16, 32])
            } else {
                mib(&[1, 2, 4, 8, 12, 16, 20, 32, 64])
            },
            mtus: if quick { vec![1_500, JUMBO] } else { vec![1_500, 4_470, 8_000, 9_000, JUMBO] },
            host_bps: Some(ITANIUM),
            repetitions: if quick { most(5) } else { most(10) },
            seconds: if quick { 15.0 } else { 120.0 },
            ..grid(geneva()?, &reno)
        },
        "wanphy-stability" => Grid {
            mtus: vec![JUMBO],
            windows_bytes: mib(&[16]),
            host_bps: Some(ITANIUM),
            // One stream after the other, so that what breaks off costs an hour and not the day.
            repetitions: if quick {
                Repetitions { least: 4, most: 4, half_width: 0.0 }
            } else {
                Repetitions { least: 15, most: 15, half_width: 0.0 }
            },
            seconds: if quick { 260.0 } else { 3_600.0 },
            sample_s: 10.0,
            ..grid(geneva()?, &reno)
        },
        "wanphy-background" => Grid {
            mtus: vec![8_000],
            windows_bytes: mib(&[16]),
            host_bps: Some(Rate::from_bps(1_920_000_000)),
            cross_bps: if quick {
                [0, 4, 6, 7, 8, 9].map(gbit).to_vec()
            } else {
                (0..=9).map(gbit).collect()
            },
            repetitions: most(10),
            ..grid(geneva()?, &reno)
        },
        "wanphy-streams" => Grid {
            mtus: vec![JUMBO],
            windows_bytes: mib(&[16]),
            host_bps: Some(ITANIUM),
            streams: if quick { vec![1, 2, 4, 8, 16, 20] } else { streams },
            repetitions: most(10),
            ..grid(geneva()?, &reno)
        },
        "wanphy-recovery" => Grid {
            // Section 6 does not say what its frames were. In Ethernet's the window is of as many
            // packets as its "more than 9 times faster" needs; in jumbo frames, of a sixth of them,
            // the model has 3.4.
            mtus: if quick { vec![Grid::USUAL_MTU] } else { vec![Grid::USUAL_MTU, JUMBO] },
            windows_bytes: mib(&[16]),
            host_bps: Some(ITANIUM),
            disturbance: Some(Disturbance {
                at_ns: Span::from_secs(15),
                change: Change::Cross(gbit(9), Some(Span::from_secs(2))),
            }),
            repetitions: if quick { most(3) } else { most(10) },
            seconds: if quick { 140.0 } else { 180.0 },
            sample_s: 0.1,
            ..grid(
                geneva()?,
                if quick { &[Algorithm::Reno, Algorithm::HighSpeed] } else { &Algorithm::ALL },
            )
        },
        "adts-staging" => Grid {
            // The round trip of CCSM's and Ultravis' traces is 30 and 80 ms; the shorter ones are
            // those of figures 7 to 9.
            paths: if quick { &[1_000, 15_000][..] } else { &[10, 100, 1_000, 15_000, 40_000] }
                .iter()
                .map(|us| PathPoint::custom(SDR, Span::from_micros(2 * us)))
                .collect(),
            streams: vec![2],
            seconds: if quick { 14.0 } else { 60.0 },
            // The ramp over 80 ms takes less than four seconds.
            warm_up_s: if quick { 4.0 } else { 5.0 },
            copies: Some(Copies {
                staging_bytes: [16, 32, 64, 128].map(Bytes::mib).to_vec(),
                stores: vec![Store::Memory, Store::File],
                orders: vec![Order::Synchronous, Order::Asynchronous],
                ..Copies::usual()
            }),
            ..grid(Vec::new(), &[Algorithm::Cubic])
        },
        "icpp08-ipoib" => Grid {
            // One way; what is left at a delay of 0 is the hosts'.
            paths: if quick { &[10, 1_000, 10_000][..] } else { &[10, 20, 100, 1_000, 10_000] }
                .iter()
                .map(|us| PathPoint::custom(SDR, Span::from_micros(2 * us)))
                .collect(),
            mtus: if quick { vec![2_044, 65_520] } else { vec![2_044, 4_092, 16_380, 65_520] },
            // The kernel's own comes first, as in all that the paper shows but figure 3 (a).
            windows_bytes: [
                vec![None],
                if quick { kib(&[256]) } else { kib(&[64, 256, 512, 1_024]) },
            ]
            .concat(),
            streams: if quick { vec![1, 4, 8] } else { vec![1, 2, 4, 6, 8] },
            // Over 20 ms slow start is soon over.
            seconds: if quick { 12.0 } else { 60.0 },
            warm_up_s: if quick { 2.0 } else { 5.0 },
            ..grid(Vec::new(), &[Algorithm::Bic])
        },
        _ => {
            let known: Vec<&str> = PRESETS.iter().map(|preset| preset.0).collect();
            return Err(Error::new(
                Fault::You,
                ErrorCode::ProfilePreset,
                format!("there is no preset called `{name}`"),
            )
            .hint(format!("known ones: {}", known.join(", "))));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::document::{Environment, Profile, ProfileKind};

    #[test]
    fn every_presets_quick_form_takes_at_most_twenty_minutes() {
        for (name, _) in PRESETS {
            for form in [Form::Quick, Form::Full] {
                let grid = preset(name, form).expect("a preset");
                assert_eq!((grid.name.as_str(), grid.form), (name, form));
                assert!(grid.seconds - grid.warm_up_s >= 10.0, "{name}");
                let profile = Profile::new(grid, ProfileKind::Modelled, Environment::default(), "")
                    .expect("a grid");
                if form == Form::Quick {
                    // One repetition in ten is invalid and done again; a machine that needs a scale
                    // finds it in forty seconds.
                    let all = profile.longest().as_secs_f64() * 1.1 + 40.0;
                    println!("{name}: {all:.0} s");
                    assert!(all <= 1_200.0, "{name}: {all:.0} s");
                }
            }
            let cells = |form| preset(name, form).expect("a preset").cells().len();
            assert!(cells(Form::Full) >= cells(Form::Quick), "{name}");
        }
        assert!(
            preset("sc09", Form::Quick)
                .is_err_and(|error| error.hint.is_some_and(|hint| hint.contains("sc08-distance")))
        );
    }
}
