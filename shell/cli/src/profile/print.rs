//! A profile on a terminal.

use crate::duration::{duration, durations};
use farline_core::profile::{CellResult, Document, PathPoint, Profile, ProfileKind};
use farline_core::report::wrapped;
use farline_core::statistics::{Summary, decrease_per_mile};
use farline_core::units::{Bytes, Rate, Span};

/// More cells than this are printed as one line for each path and control.
const CELLS: usize = 40;

/// A cell with a longer name stands above its figures, so that both fit into eighty columns.
const NAME: usize = 34;

/// All figures are those of the full rate.
pub(super) fn table(profile: &Profile) -> String {
    let profile = &profile.at_full_rate();
    let kind = match profile.kind {
        ProfileKind::Modelled => "modelled, not measured",
        ProfileKind::Measured => "measured",
    };
    let scaled = match profile.grid.scale {
        1 => String::new(),
        k if profile.grid.time_scaled => {
            format!(
                ", scaled {k} and stretched: on paths of 1/{k} of the rate and {k} times the \
                 round trip, all rates times {k}, all times divided by {k}"
            )
        }
        k => format!(", scaled {k}: on paths of 1/{k} of the rate, all figures times {k}"),
    };
    let (done, cells) = profile.progress();
    let (unit, unit_name) = profile.rate_unit();
    let mut lines = wrapped(&format!(
        "{}: {done} of {cells} cells, {kind}{scaled}; payload in {unit_name}",
        profile.grid.name
    ));
    if cells <= CELLS {
        lines.push(format!(
            "{:<NAME$} {:>7} {:>17} {:>7} {:>7} {:>3}",
            "cell", "mean", "95 %", "steady", "ramp s", "n"
        ));
        for result in &profile.cells {
            let Some(summary) = result.summary() else {
                lines.extend(doubted(result, unit));
                continue;
            };
            let n = summary.n as f64;
            let steady =
                result.valid().map(|one| one.steady.receiver_bps.as_bps() as f64).sum::<f64>()
                    / n
                    / unit;
            let ramp = result.valid().map(|one| one.ramp_s).sum::<f64>() / n;
            // One repetition says nothing of how far the mean may be off.
            let interval = summary.ci95.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{:.3}..{:.3}", low / unit, high / unit),
            );
            let figures = format!(
                "{:>7.3} {interval:>17} {steady:>7.3} {ramp:>7.1} {:>3}",
                summary.mean / unit,
                summary.n
            );
            lines.extend(named(&result.cell.name(), NAME, &figures));
            if profile.grid.disturbance.is_some() {
                lines.push(format!("  {}", back(result)));
            }
        }
    } else {
        lines.extend(by_path(profile, unit));
    }
    lines.extend(left_out(profile));
    lines.extend(profile.beside_papers().into_iter().map(|section| format!("\n{section}")));
    lines.join("\n")
}

/// The name of a cell in `width` and its figures behind it, or below it where both do not fit.
pub(super) fn named(name: &str, width: usize, figures: &str) -> Vec<String> {
    if name.chars().count() <= width {
        return vec![format!("{name:<width$} {figures}")];
    }
    let mut lines = wrapped(name);
    lines.push(format!("{:<width$} {figures}", ""));
    lines
}

/// `text` in lines below a name, two columns in.
pub(super) fn indented(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 80 => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("    {word}")),
            None => lines.push(format!("  {word}")),
        }
    }
    lines
}

/// When the rate was back after what happened in the middle, and in how many repetitions, where it
/// was not in all.
fn back(result: &CellResult) -> String {
    let (count, found): (usize, Vec<f64>) =
        (result.valid().count(), result.valid().filter_map(|one| one.recovery_s).collect());
    match Summary::of(&found) {
        None => "not back within the repetition".to_owned(),
        Some(back) if back.n == count => format!("back after {:.1} s", back.mean),
        Some(back) => format!(
            "back after {:.1} s in {} of {count} repetitions, not back in the others",
            back.mean, back.n
        ),
    }
}

/// The line of a cell in which nothing counts: what was seen, in brackets, and why.
fn doubted(result: &CellResult, unit: f64) -> Vec<String> {
    words_of_doubt(result, unit).unwrap_or_default()
}

fn words_of_doubt(result: &CellResult, unit: f64) -> Option<Vec<String>> {
    let why = result.repetitions.iter().find_map(|one| one.invalid.as_ref())?.split("; ").next()?;
    let seen: Vec<f64> =
        result.repetitions.iter().map(|one| one.whole.receiver_bps.as_bps() as f64).collect();
    let mean = format!("({:.3})", Summary::of(&seen)?.mean / unit);
    let mut lines =
        named(&result.cell.name(), NAME, &format!("{mean:>7} INVALID, {} times", seen.len()));
    lines.extend(wrapped(&format!("because {why}")));
    Some(lines)
}

/// How many repetitions count nowhere, and why, the most frequent reason first.
fn left_out(profile: &Profile) -> Vec<String> {
    // How often, its words without the figures, which differ, and the first one.
    let mut reasons: Vec<(usize, String, &str)> = Vec::new();
    let every = || profile.cells.iter().flat_map(|result| &result.repetitions);
    for why in every().filter_map(|one| one.invalid.as_ref()) {
        let first = why.split("; ").next().unwrap_or(why);
        let words: String = first.chars().filter(|letter| letter.is_alphabetic()).collect();
        match reasons.iter_mut().find(|(_, known, _)| *known == words) {
            Some((count, ..)) => *count += 1,
            None => reasons.push((1, words, first)),
        }
    }
    let invalid: usize = reasons.iter().map(|(count, ..)| count).sum();
    if invalid == 0 {
        return Vec::new();
    }
    reasons.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
    let mut lines = vec![format!(
        "{invalid} of {} repetitions are invalid, are in no mean, and stay in the document:",
        every().count()
    )];
    lines.extend(
        reasons.iter().map(|(count, _, first)| format!("  {count} times, such as: {first}")),
    );
    lines.iter().flat_map(|line| wrapped(line)).collect()
}

/// A line for each path and control: of its cells' means, each as heavy as the others.
fn by_path(profile: &Profile, unit: f64) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<18} {:<10} {:>7} {:>14} {:>7} {:>9}",
        "path", "control", "mean", "peak", "sd", "Mbit/s/mi"
    )];
    for &congestion in &profile.grid.congestion {
        let over = |path: &PathPoint| {
            let path = path.clone();
            profile
                .plain()
                .filter(move |one| one.cell.congestion == congestion && one.cell.path == path)
        };
        let found = |path: &PathPoint| CellResult::pooled(over(path));
        // From the shortest, wherever it stands.
        let base =
            profile.shortest().and_then(|(path, miles)| Some((miles, found(path)?.mean / 1e6)));
        for path in &profile.grid.paths {
            let of = || over(path);
            let Some(summary) = CellResult::pooled(of()) else { continue };
            let sd = if of().filter(|one| one.summary().is_some()).count() > 1 {
                format!("{:.3}", summary.sd / unit)
            } else {
                "-".to_owned()
            };
            let means = of()
                .filter_map(|one| one.summary().map(|summary| (one.cell.streams, summary.mean)));
            let (streams, peak) = means.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0));
            let here = path.miles.map(|miles| (miles, summary.mean / 1e6));
            let dpm = base.zip(here).and_then(|(base, here)| decrease_per_mile(base, here));
            lines.push(format!(
                "{:<18} {:<10} {:>7.3} {:>14} {:>7} {:>9}",
                path.name,
                congestion.name(),
                summary.mean / unit,
                format!("{:.3} at {streams}", peak / unit),
                sd,
                dpm.map_or_else(String::new, |dpm| format!("{dpm:.2}"))
            ));
        }
    }
    lines
}

/// A size in the units in which it was given: `160 TB` is not 145.5 TiB to who asked for it.
fn size_as_given(size: Bytes) -> String {
    let is_binary = |power: u32| size.0 >= 1 << (10 * power) && size.0 < 1 << (10 * power + 10);
    let unit = (1..=5).find(|&power| is_binary(power)).map_or(1, |power| 1_u64 << (10 * power));
    let decimal = [(1_000_000_000_000_000, "PB"), (1_000_000_000_000, "TB")];
    let decimal =
        decimal.into_iter().chain([(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")]);
    // At most three digits behind the point, so that it is exact.
    let exact = decimal
        .filter(|_| !size.0.is_multiple_of(unit))
        .find(|(one, _)| size.0 >= *one && size.0.is_multiple_of(one / 1000));
    exact.map_or_else(
        || size.to_string(),
        |(one, name)| {
            let text = format!("{}.{:03}", size.0 / one, size.0 % one / (one / 1000));
            format!("{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
        },
    )
}

/// A plan as text.
pub(crate) fn plan(plan: &farline_core::profile::Plan) -> String {
    let time = match plan.ceiling_bps {
        Some(_) => format!("at most about {}, {} or more", duration(plan.seconds), plan.rate_bps),
        None if plan.interval_s.1.is_infinite() => format!(
            "at least {}, {} or less",
            duration(plan.interval_s.0),
            Rate::of(plan.size_bytes, Span::from_secs_f64(plan.interval_s.0))
        ),
        None => {
            let (low, high) = plan.interval_s;
            let [about, low, high] = durations([plan.seconds, low, high]);
            format!("about {about} ({low} to {high}), {}", plan.rate_bps)
        }
    };
    let mut text = format!(
        "{} in {time}\n{} stream{} of {}, {} of window{}, {} of staging",
        size_as_given(plan.size_bytes),
        plan.streams,
        if plan.streams == 1 { "" } else { "s" },
        plan.congestion,
        Bytes(plan.window_bytes.0),
        if plan.streams == 1 { "" } else { " each" },
        plan.staging_bytes
    );
    for reason in &plan.reasons {
        let lines = wrapped(&format!("because: {reason}"));
        text.push_str(&format!("\n{}", lines.join("\n")));
    }
    text
}

/// A rate in bit/s that may be a fraction.
pub(super) fn rate(bps: f64) -> String {
    Rate::from_bps(bps.max(0.0) as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::size_as_given;
    use farline_core::congestion::Algorithm;
    use farline_core::profile::{
        Document, Environment, Form, Grid, PathPoint, Profile, ProfileKind, Repetitions, Simulator,
        preset,
    };
    use farline_core::units::Bytes;

    /// Simulated over 26.8 ms, `streams` with Reno, `times` each.
    fn simulated(streams: Vec<u32>, times: u32) -> Profile {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let repetitions = Repetitions { least: times, most: times, half_width: 0.0 };
        let grid = Grid {
            streams,
            repetitions,
            seconds: 4.0,
            losses: vec![1e-4],
            ..Grid::new("custom", vec![path], vec![Algorithm::Reno])
        };
        let mut profile =
            Profile::new(grid, ProfileKind::Modelled, Environment::default(), "").expect("a grid");
        profile.run(&mut Simulator, |_| true).expect("a model");
        profile
    }

    #[test]
    fn one_repetition_has_no_interval_and_two_have_one() {
        let line = |times| {
            super::table(&simulated(vec![4], times)).lines().nth(2).expect("a cell").to_owned()
        };
        assert!(line(1).contains("  - ") && !line(1).contains(".."), "{}", line(1));
        assert!(line(2).contains(".."), "{}", line(2));
    }

    #[test]
    fn text_fits_eighty_columns_and_names_lost_cells() {
        let grid =
            Grid { seconds: 40.0, ..preset("wanphy-recovery", Form::Quick).expect("a preset") };
        let mut profile =
            Profile::new(grid, ProfileKind::Modelled, Environment::default(), "").expect("a grid");
        profile.run(&mut Simulator, |_| true).expect("a model");
        let text = super::table(&profile);
        // HighSpeed needs 10 s, Reno more than there are.
        assert!(
            text.contains("  back after 1") && text.contains("  not back within the repetition"),
            "{text}"
        );
        for name in ["sc08-distance", "icpp08-ipoib"] {
            let grid = Grid {
                seconds: 6.0,
                warm_up_s: 0.0,
                ..preset(name, Form::Quick).expect("a preset")
            };
            let mut profile = Profile::new(grid, ProfileKind::Modelled, Environment::default(), "")
                .expect("a grid");
            profile.run(&mut Simulator, |_| true).expect("a model");
            let small =
                Profile { grid: Grid { scale: 6, ..profile.grid.clone() }, ..profile.clone() };
            profile.cells[0]
                .repetitions
                .iter_mut()
                .for_each(|one| one.doubt(&["the link was late ".repeat(12)]));
            for text in [text.clone(), super::table(&profile), super::table(&small)] {
                let wide: Vec<&str> =
                    text.lines().filter(|line| line.chars().count() > 80).collect();
                assert!(wide.is_empty() && !text.contains("th of"), "{name}: {wide:#?}");
            }
        }
    }

    #[test]
    fn cells_that_ran_more_often_weigh_no_more() {
        // More than forty cells are a line for each path.
        let mut profile = simulated((1..=50).collect(), 1);
        let mean = |profile: &Profile| {
            super::by_path(profile, 1e9)[1].split_whitespace().nth(2).expect("a mean").to_owned()
        };
        let before = mean(&profile);
        let many = profile.cells[0].repetitions[0].clone();
        profile.cells[0].repetitions.extend(vec![many; 100]);
        assert_eq!(mean(&profile), before);
    }

    #[test]
    fn sizes_read_as_people_write_them() {
        for text in ["160 TB", "1 TB", "1.5 GB", "1 GiB", "40 B", "64 MiB", "2 PB", "1000 KiB"] {
            let size: Bytes = text.parse().expect("a size");
            assert_eq!(size_as_given(size), text);
        }
    }
}
