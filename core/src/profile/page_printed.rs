//! A profile's page: what the other papers print of their experiments, next to what ours gave.

use super::cell::Cell;
use super::document::{CellResult, Profile};
use super::driver::ProfileDriver;
use super::staging::StagingStore;
use crate::congestion::Algorithm;
use crate::report::{Section, TableSpec};
use crate::units::Bytes;

/// A preset, what of it, what the paper prints, and ours; `None` where a profile lacks the cells.
type Printed = (&'static str, &'static str, &'static str, fn(&Profile) -> Option<String>);

/// The MTU of the Trans-European paper's jumbo frames; what a host sends at once ends at IP's own.
const JUMBO: u32 = 9_216;
/// One MB per second is that many Gbit/s.
const MB: f64 = 8e-3;

/// Figures and statements of the Trans-European paper (section 5), of ICPP08 (section 3.3) and of
/// ADTS (section V.B).
const PRINTED: [Printed; 17] = [
    ("wanphy-window", "MTU 9216, window 16 MB, Gbit/s", "5.447", |profile| {
        figure(profile, |cell| (cell.mtu, cell.window_bytes) == (JUMBO, Some(Bytes::mib(16))))
    }),
    (
        "wanphy-window",
        "MTU 1500, windows from 1 MB, Gbit/s",
        "2.057 at most, by the host",
        |profile| range(profile, |cell| cell.mtu == 1_500),
    ),
    ("wanphy-stability", "Mean, Gbit/s", "5.448", |profile| figure(profile, |_| true)),
    ("wanphy-stability", "Samples of 10 s within 10 Mbit/s of the mean", "93 %", |profile| {
        let all = settled(profile);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        share(&all, |gbps| (gbps - mean).abs() <= 0.010)
    }),
    (
        "wanphy-stability",
        "Samples more than 50 Mbit/s below the mean",
        "10 of 2700 (0.4 %)",
        |profile| {
            let all = settled(profile);
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            share(&all, |gbps| gbps < mean - 0.050)
        },
    ),
    ("wanphy-stability", "The least sample over the mean", "91 %", |profile| {
        let all = settled(profile);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        all.into_iter().min_by(f64::total_cmp).map(|least| format!("{:.0} %", least / mean * 100.0))
    }),
    ("wanphy-background", "The stream alone, Gbit/s", "1.9", |profile| {
        figure(profile, |cell| cell.cross_bps.as_bps() == 0)
    }),
    (
        "wanphy-background",
        "Other traffic at which packets are lost, share of the line",
        "above 80 %",
        |profile| {
            let lossy = profile
                .plain()
                .filter(|one| one.valid().any(|one| one.retransmits > 0))
                .map(|one| &one.cell);
            let shares =
                lossy.map(|cell| cell.cross_bps.as_gbps() / cell.path.rate_bps.as_gbps() * 100.0);
            Some(
                shares
                    .min_by(f64::total_cmp)
                    .map_or_else(|| "none is lost".to_owned(), |share| format!("{share:.0} %")),
            )
        },
    ),
    ("wanphy-streams", "Least over most of 1 to 20 streams", "little influence", |profile| {
        let all = means(profile, |_| true);
        let most = all.iter().copied().max_by(f64::total_cmp)?;
        all.iter()
            .copied()
            .min_by(f64::total_cmp)
            .map(|least| format!("{:.0} %", least / most * 100.0))
    }),
    ("wanphy-recovery", "Reno's time to recover over HighSpeed's", "more than 9", |profile| {
        let time = |control: Algorithm| {
            let cells = profile.plain().filter(|one| one.cell.congestion == control);
            let all: Vec<f64> =
                cells.flat_map(|one| one.valid().filter_map(|one| one.recovery_s)).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        };
        Some(format!("{:.1}", time(Algorithm::Reno)? / time(Algorithm::HighSpeed)?))
    }),
    ("wanphy-udt", "UDT, Gbit/s", "about 5.4", |profile| over(profile, ProfileDriver::Udt)),
    ("wanphy-udt", "UDT over TCP", "comparable", |profile| {
        let mean = |driver| best(profile, |cell| cell.driver() == driver);
        Some(format!("{:.2}", mean(ProfileDriver::Udt)? / mean(ProfileDriver::Tcp)?))
    }),
    ("icpp08-ipoib", "Best of the largest MTU (IPoIB-RC), MB/s", "890", |profile| {
        best(profile, |cell| cell.mtu > 60_000).map(|gbps| format!("{:.0}", gbps / MB))
    }),
    (
        "icpp08-ipoib",
        "MTU 2 KiB, longest delay: gain of streams over one",
        "up to 50 %",
        |profile| {
            let longest = profile.grid.paths.iter().map(|path| path.rtt_ns).max()?;
            // "We use this default window size in all of the following experiments" (section 3.3).
            let here = |cell: &Cell| {
                cell.mtu < 4_000 && cell.path.rtt_ns == longest && cell.window_bytes.is_none()
            };
            let (one, several) =
                (best(profile, |cell| here(cell) && cell.streams == 1)?, best(profile, here)?);
            Some(format!("{:.0} %", (several / one - 1.0) * 100.0))
        },
    ),
    (
        "icpp08-ipoib",
        "MTU 2 KiB, several streams: 1 ms of delay over the shortest",
        "sustained",
        |profile| {
            let shortest = profile.grid.paths.iter().map(|path| path.rtt_ns).min()?;
            let of = |near: bool| {
                best(profile, |cell| {
                    let rtt = cell.path.rtt_ns;
                    cell.mtu < 4_000
                        && if near {
                            rtt == shortest
                        } else {
                            (1.9..2.1).contains(&rtt.as_millis_f64())
                        }
                })
            };
            Some(format!("{:.0} %", of(false)? / of(true)? * 100.0))
        },
    ),
    (
        "adts-staging",
        "From memory: best staging of TCP, share of the line",
        "10 to 15 % (IPoIB)",
        |profile| line_share(profile, StagingStore::Memory),
    ),
    (
        "adts-staging",
        "From a file: best staging of TCP, share of the line",
        "below that (figure 8)",
        |profile| line_share(profile, StagingStore::File),
    ),
];

/// Means in Gbit/s of the cells that `of` takes.
fn means(profile: &Profile, of: impl Fn(&Cell) -> bool) -> Vec<f64> {
    let cells = profile.one_way().filter(|result| of(&result.cell));
    cells.filter_map(CellResult::summary).map(|summary| summary.mean / 1e9).collect()
}

fn best(profile: &Profile, of: impl Fn(&Cell) -> bool) -> Option<f64> {
    means(profile, of).into_iter().max_by(f64::total_cmp)
}

fn figure(profile: &Profile, of: impl Fn(&Cell) -> bool) -> Option<String> {
    let all = means(profile, of);
    (!all.is_empty()).then(|| format!("{:.3}", all.iter().sum::<f64>() / all.len() as f64))
}

fn over(profile: &Profile, driver: ProfileDriver) -> Option<String> {
    figure(profile, |cell| cell.driver() == driver)
}

fn range(profile: &Profile, of: impl Fn(&Cell) -> bool) -> Option<String> {
    let all = means(profile, of);
    let least = all.iter().copied().min_by(f64::total_cmp)?;
    all.iter().copied().max_by(f64::total_cmp).map(|most| format!("{least:.3} to {most:.3}"))
}

/// Samples in Gbit/s after the ramp, of every valid repetition.
fn settled(profile: &Profile) -> Vec<f64> {
    profile.plain().flat_map(|result| result.settled(profile.grid.sample_s)).collect()
}

fn share(all: &[f64], of: impl Fn(f64) -> bool) -> Option<String> {
    let some = all.iter().filter(|gbps| of(**gbps)).count();
    (!all.is_empty())
        .then(|| format!("{:.1} % of {}", some as f64 / all.len() as f64 * 100.0, all.len()))
}

fn line_share(profile: &Profile, store: StagingStore) -> Option<String> {
    let shares =
        profile.one_way().filter(|one| one.cell.staged.is_some_and(|staged| staged.store == store));
    let shares = shares.filter_map(|one| {
        Some(one.summary()?.mean / one.cell.path.rate_bps.as_bps() as f64 * 100.0)
    });
    shares.max_by(f64::total_cmp).map(|share| format!("{share:.0} %"))
}

impl CellResult {
    /// Samples in Gbit/s after the ramp, of every valid repetition, one after the other; they are
    /// `sample_s` apart.
    pub(super) fn settled(&self, sample_s: f64) -> Vec<f64> {
        let after = |ramp_s: f64| (ramp_s / sample_s).round() as usize;
        self.valid()
            .flat_map(|one| one.samples_bps.iter().skip(after(one.ramp_s)).map(|bps| bps.as_gbps()))
            .collect()
    }
}

impl Profile {
    /// What the paper of this preset prints, where it is not SC08, whose table stands by itself.
    pub(super) fn printed(&self) -> Option<Section> {
        let mine = PRINTED.iter().filter(|(preset, ..)| *preset == self.grid.name);
        let rows: Vec<(&str, &str, String)> = mine
            .filter_map(|(_, what, printed, ours)| Some((*what, *printed, ours(self)?)))
            .collect();
        let spec = TableSpec::new()
            .words("What", |row: &(&str, &str, String)| row.0.to_owned())
            .figures("Printed", |row| row.1.to_owned())
            .figures("Ours", |row| row.2.clone());
        (!rows.is_empty()).then(|| {
            Section::new("Next to what the paper prints")
                .text(format!(
                    "Figures and statements of the paper whose experiment this is, and ours, {}.",
                    self.label()
                ))
                .table(spec.of(rows))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Form, preset, presets};
    use crate::report::ReportDocument;

    /// The first number of what the model gives in a quick form that runs once, and how far a
    /// change may move it.
    const OURS: [(&str, f64, f64); 17] = [
        ("MTU 9216, window 16 MB, Gbit/s", 5.2, 5.45),
        ("MTU 1500, windows from 1 MB, Gbit/s", 0.45, 0.5),
        ("Mean, Gbit/s", 5.35, 5.46),
        ("Samples of 10 s within 10 Mbit/s of the mean", 90.0, 100.0),
        ("Samples more than 50 Mbit/s below the mean", 0.0, 1.0),
        ("The least sample over the mean", 91.0, 100.0),
        ("The stream alone, Gbit/s", 1.85, 1.92),
        ("Other traffic at which packets are lost, share of the line", 80.0, 90.0),
        ("Least over most of 1 to 20 streams", 95.0, 100.0),
        ("Reno's time to recover over HighSpeed's", 9.2, 10.8),
        ("UDT, Gbit/s", 5.2, 5.49),
        ("UDT over TCP", 0.95, 1.05),
        ("Best of the largest MTU (IPoIB-RC), MB/s", 950.0, 1_010.0),
        // No host of 2008 in the model, whose window one stream outgrows in time.
        ("MTU 2 KiB, longest delay: gain of streams over one", 0.0, 10.0),
        ("MTU 2 KiB, several streams: 1 ms of delay over the shortest", 97.0, 103.0),
        ("From memory: best staging of TCP, share of the line", 90.0, 100.0),
        ("From a file: best staging of TCP, share of the line", 80.0, 100.0),
    ];

    #[test]
    fn every_statement_is_tested_by_its_presets_quick_form() {
        for (name, _) in presets() {
            let mine = PRINTED.iter().filter(|(preset, ..)| *preset == name).count();
            assert_eq!(mine > 0, !name.starts_with("sc08"), "{name}");
            if mine == 0 {
                continue;
            }
            let mut grid = preset(name, Form::Quick).expect("a preset");
            (grid.repetitions.least, grid.repetitions.most) = (1, 1);
            let profile = Profile::modelled(grid);
            for (_, what, printed, ours) in PRINTED.iter().filter(|(preset, ..)| *preset == name) {
                let ours = ours(&profile).unwrap_or_else(|| panic!("{name}: {what}"));
                println!("{name}: {what}: {printed}, ours {ours}");
                let (_, low, high) = OURS
                    .iter()
                    .find(|(known, ..)| known == what)
                    .unwrap_or_else(|| panic!("{what}"));
                let number = ours.split(' ').next().and_then(|word| word.parse::<f64>().ok());
                assert!(
                    number.is_some_and(|number| (*low..=*high).contains(&number)),
                    "{what}: {ours}, not {low} to {high}"
                );
                assert!(!ours.contains("NaN") && !ours.contains("inf"), "{what}: {ours}");
            }
            assert!(profile.page(&[]).html().contains("Next to what the paper prints"), "{name}");
        }
    }
}
