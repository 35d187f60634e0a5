//! The small table on the terminal.

use farline_core::report::demo::DemoResult;

/// Prints the runs, one a line, and below them what has to be known to read them.
pub(crate) fn print(result: &DemoResult) {
    println!();
    for line in lines(result) {
        println!("{line}");
    }
}

fn lines(result: &DemoResult) -> Vec<String> {
    let head = ["tool", "files", "time", "rate", "streams", "congestion", "settings", "compared"]
        .map(str::to_owned);
    let mut rows = vec![head];
    rows.extend(result.runs.iter().map(|run| {
        [
            format!("{} {}", run.tool, run.version),
            run.dataset.clone(),
            format!("{:.1} s", run.seconds),
            run.rate_bps.to_string(),
            run.streams.to_string(),
            run.congestion.clone(),
            run.settings.clone(),
            match (run.finished, run.identical) {
                (true, true) => "every byte".to_owned(),
                (true, false) => format!("DIFFERS: {}", run.verified),
                (false, _) => run.verified.clone(),
            },
        ]
    }));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
                2..=4 => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect();
    for skipped in &result.skipped {
        lines.push(format!("without {}: {}", skipped.tool, skipped.reason));
    }
    let accuracy = &result.accuracy;
    let verdict = if accuracy.valid { "valid" } else { "NOT VALID" };
    let late = |micros: f64| farline_core::units::Span::from_secs_f64(micros / 1e6);
    lines.push(format!(
        "link: {verdict}; packets were late by {} (p50), {} (p99), {} (most)",
        late(accuracy.p50_us),
        late(accuracy.p99_us),
        late(accuracy.max_us)
    ));
    if !accuracy.valid {
        lines.push(format!("link: {}", accuracy.reason));
    }
    lines
}
