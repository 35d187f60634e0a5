//! Profiles of RDMA, and TCP next to it: the papers' experiments over verbs, by the model, and
//! measured between two devices.

use super::ending::Ending;
use super::modelled::{side_by_side, simulate};
use super::print::named;
use super::{Args, measure, now, say_elsewhere};
use crate::export::write_made;
use crate::output::Output;
use farline::plan::document::DocumentPlace;
use farline::plan::environment;
use farline::prober::VerbsBench;
use farline_core::profile::verbs::{
    COMPARISON, SCHEMA, TcpRdmaComparison, VerbsCellResult, VerbsGrid, VerbsMetric, VerbsProfile,
    comparison_grids, measured, modelled, preset,
};
use farline_core::profile::{
    Environment, Form, Grid as TcpGrid, Profile as TcpProfile, ProfileKind,
};
use farline_core::report::{ReportDocument, wrapped};
use farline_core::units::{Error, ErrorCode, Fault};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// The command that goes on with the measurement in a profile's file.
const RESUME: &str = "farline profile --channel rdma --resume";

/// Of a profile of more cells only the page, the table and the document have all.
const CELLS: usize = 60;

/// A cell with a longer name stands above its figures, so that both fit into eighty columns.
const NAME: usize = 34;

/// What was asked for.
pub(super) enum Asked {
    /// RDMA alone: what is missing by the model.
    Verbs(Box<VerbsProfile>),
    /// TCP, and RDMA.
    Comparison(Box<(TcpGrid, VerbsGrid)>),
    /// RDMA: what is missing between the devices of these addresses, or the only two, and by the
    /// model.
    Measured(Box<VerbsProfile>, Option<(IpAddr, IpAddr)>),
}

/// What was asked for, when it is of this file: a preset, or a measurement of verbs.
pub(super) fn asked(args: &Args) -> Result<Option<Asked>, Error> {
    if args.axes.measures_verbs()? {
        return measurement(args).map(Some);
    }
    if let Some(flag) = args.messages.first() {
        return Err(Error::new(
            Fault::You,
            ErrorCode::ProfileChannel,
            format!("{flag} is of RDMA"),
        )
        .hint("give --channel rdma"));
    }
    if let Some(profile) = resumed(args)? {
        let message = "what it has can be completed by measuring or by the model";
        return match args.simulate {
            true => Ok(Some(Asked::Verbs(profile))),
            false => Err(Error::new(
                Fault::You,
                ErrorCode::ProfileKind,
                format!("a profile of RDMA: {message}"),
            )
            .hint("give --channel rdma, or --simulate")),
        };
    }
    let Some(name) = &args.preset else { return Ok(None) };
    let form = if args.full { Form::Full } else { Form::Quick };
    let wrong = |message: String| Error::new(Fault::You, ErrorCode::ProfilePreset, message);
    let (tcp, rdma) = match (name == COMPARISON.0, preset(name, form)?) {
        (true, _) => comparison_grids(form).map(|(tcp, rdma)| (Some(tcp), rdma))?,
        (false, Some(rdma)) => (None, rdma),
        (false, None) => return Ok(None),
    };
    if !args.simulate {
        let both = "give --channel rdma, which measures it between two devices of this host \
            next to the model, or --simulate, the model alone";
        let alone = "it is modelled only: give --simulate";
        return Err(wrong(format!("`{name}` is of RDMA")).hint(if tcp.is_some() {
            alone
        } else {
            both
        }));
    }
    if args.scale.is_some() {
        return Err(wrong(format!("`{name}` is not divided: it is modelled at its own rate"))
            .hint("leave --scale out"));
    }
    let (seed, runs) = args.axes.of_verbs().map_err(|flag| {
        wrong(format!("`{name}` has axes of its own: {flag} is not one of them"))
            .hint("it takes --seed and --repetitions")
    })?;
    let rdma = VerbsGrid {
        seed: seed.unwrap_or(rdma.seed),
        repetitions: runs.unwrap_or(rdma.repetitions).max(1),
        ..rdma
    };
    Ok(Some(match tcp {
        Some(tcp) => Asked::Comparison(Box::new((args.axes.over(tcp)?, rdma))),
        None => Asked::Verbs(Box::new(VerbsProfile::new(rdma, now()))),
    }))
}

/// What is to be measured.
fn measurement(args: &Args) -> Result<Asked, Error> {
    let wrong = |message: &str, hint: &str| {
        Err(Error::new(Fault::You, ErrorCode::ProfileChannel, message).hint(hint.to_owned()))
    };
    if args.node.is_some() {
        return wrong(
            "RDMA is measured between two devices of this host, not to a node",
            "leave the node out; `farline cp --channel rdma` copies to it",
        );
    }
    if args.simulate {
        return wrong(
            "--simulate is the model alone, and --channel rdma measures",
            "leave --simulate out: the model stands next to what is measured",
        );
    }
    if args.scale.is_some() {
        return wrong("a measurement of RDMA has no --scale", "leave it out");
    }
    if args.resume.is_some() {
        return match resumed(args)? {
            Some(mut profile) => {
                if profile.grid.measured.is_none() {
                    profile.grid = measured(profile.grid.clone());
                }
                Ok(Asked::Measured(profile, args.messages.ends()?))
            }
            None => wrong("the file of --resume is no profile of RDMA", "leave --channel out"),
        };
    }
    let form = if args.full { Form::Full } else { Form::Quick };
    let grid = match &args.preset {
        None => None,
        Some(name) => match preset(name, form)? {
            Some(grid) => Some(grid),
            None => {
                return wrong(
                    &format!("`{name}` is not measured over verbs"),
                    "`farline profile --preset list` says what is of RDMA; sc08-tcp-rdma is \
                     modelled only",
                );
            }
        },
    };
    let grid = args.messages.grid(grid, &args.axes, form)?;
    Ok(Asked::Measured(Box::new(VerbsProfile::new(grid, now())), args.messages.ends()?))
}

/// The profile of RDMA in the file of `--resume`; `None` where there is no such file, or it is of
/// something else.
fn resumed(args: &Args) -> Result<Option<Box<VerbsProfile>>, Error> {
    #[derive(serde::Deserialize)]
    struct Document {
        schema: String,
    }
    // What cannot be read, the reader of the other kind says.
    let Some(text) = args.resume.as_ref().and_then(|file| std::fs::read_to_string(file).ok())
    else {
        return Ok(None);
    };
    match serde_json::from_str::<Document>(&text) {
        Ok(document) if document.schema == SCHEMA => {
            VerbsProfile::read(&text).map(|profile| Some(Box::new(profile)))
        }
        _ => Ok(None),
    }
}

/// Runs what is missing of `profile` by the model.
fn model(profile: &mut VerbsProfile) {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let runs = side_by_side(&profile.cells, workers, |result| match result.modelled.is_empty() {
        true => modelled(&profile.grid, &result.cell),
        false => result.modelled.clone(),
    });
    for (result, runs) in profile.cells.iter_mut().zip(runs) {
        result.modelled = runs;
    }
}

pub(super) fn run(
    asked: Asked,
    args: &Args,
    mut documents: Vec<DocumentPlace>,
    ending: &Ending,
    output: &Output,
) -> Result<ExitCode, Error> {
    let finish = |profile: &VerbsProfile, documents: &mut [DocumentPlace]| {
        write_all(documents, &args.out, profile)?;
        output.result(profile, table(profile))
    };
    let goes_on = matches!(asked, Asked::Measured(..));
    ending.goes_on(if goes_on { &documents } else { &[] }, RESUME);
    match asked {
        Asked::Measured(mut profile, ends) => {
            let mut bench = VerbsBench::open(ends, None, environment())?;
            let hosts = bench.between().clone();
            match args.resume {
                Some(_) => {
                    let known = profile.changes().len();
                    *profile = profile.goes_on_in(hosts, now());
                    say_elsewhere(profile.changes().get(known), output);
                }
                None => profile.between = Some(hosts),
            }
            measure::run(&mut *profile, &mut documents, RESUME, &mut bench, output)?;
            if !args.messages.without_model() {
                model(&mut profile);
            }
            finish(&profile, &mut documents)?;
        }
        Asked::Verbs(mut profile) => {
            model(&mut profile);
            finish(&profile, &mut documents)?;
        }
        Asked::Comparison(grids) => {
            let (tcp, grid) = *grids;
            let mut tcp =
                TcpProfile::new(tcp, ProfileKind::Modelled, Environment::default(), now())?;
            simulate(&mut tcp, &mut [], ending, output)?;
            let mut rdma = VerbsProfile::new(grid, now());
            model(&mut rdma);
            let both = TcpRdmaComparison::new(tcp, rdma);
            write_all(&mut documents, &args.out, &both)?;
            output.result(&both, verdicts(&both))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes `documents`, and those of `files` that are pages or tables.
fn write_all(
    documents: &mut [DocumentPlace],
    files: &[PathBuf],
    document: &impl ReportDocument,
) -> Result<(), Error> {
    for place in documents {
        let json = serde_json::to_vec_pretty(document).map_err(|error| {
            Error::new(Fault::Bug, ErrorCode::ProfileDocument, format!("the document: {error}"))
        })?;
        place.write(&json)?;
    }
    write_made(files, document)
}

/// A profile of RDMA on a terminal: every measured cell, or as many modelled ones as are read.
fn table(profile: &VerbsProfile) -> String {
    let is_measured = profile.between.is_some();
    let shown: Vec<&VerbsCellResult> =
        profile.cells.iter().filter(|result| !is_measured || !result.measured.is_empty()).collect();
    let name = &profile.grid.name;
    let mut lines = match &profile.between {
        None => vec![format!("{name}: {} cells, modelled, not measured", profile.cells.len())],
        Some(between) => wrapped(&format!(
            "{name}: {} cells, measured between {} and {}, next to the model",
            shown.len(),
            between.near.name,
            between.far.name
        )),
    };
    let heading = if is_measured { "measured" } else { "mean" };
    let last = if is_measured { format!("  {:>12}", "modelled") } else { String::new() };
    lines.push(
        format!("{:<NAME$} {heading:>12} {:>10} {:<6}{last}", "cell", "sd", "")
            .trim_end()
            .to_owned(),
    );
    for result in shown.iter().take(CELLS) {
        let modelled = result.summary(ProfileKind::Modelled);
        let found = if is_measured { result.summary(ProfileKind::Measured) } else { modelled };
        let (unit, digits) =
            if result.cell.way == VerbsMetric::RoundTrip { ("us", 1) } else { ("Gbit/s", 6) };
        let value = |value: f64| format!("{value:.digits$}");
        let found = found.map_or_else(
            || format!("{:>12} {:>10}", "no valid run", ""),
            |found| format!("{:>12} {:>10}", value(found.mean), value(found.sd)),
        );
        let beside = modelled
            .filter(|_| is_measured)
            .map_or_else(String::new, |found| format!("  {:>12}", value(found.mean)));
        let figures = format!("{found} {unit:<6}{beside}");
        lines.extend(named(&result.cell.name(), NAME, figures.trim_end()));
    }
    if shown.len() > CELLS {
        lines.push(format!(
            "and {} cells more: -o FILE.html, FILE.parquet or FILE.json has all",
            shown.len() - CELLS
        ));
    }
    lines.join("\n")
}

/// What to use when, on a terminal.
fn verdicts(both: &TcpRdmaComparison) -> String {
    let mut lines = vec![format!("{}: modelled, not measured; payload in Gbit/s", COMPARISON.0)];
    for verdict in both.verdicts() {
        lines.extend(wrapped(&format!(
            "{} next to {}: {}: {}",
            verdict.path.name,
            verdict.cross,
            verdict.choice.name(),
            verdict.why
        )));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_messages_fits_eighty_columns() {
        for name in ["sc08-ib-distance", "icpp08-verbs", "sc08-ib-cross-traffic"] {
            let grid = preset(name, Form::Quick).expect("its paths are known").expect("a preset");
            let grid = VerbsGrid { messages: 10, most_s: 0.1, ..grid };
            let text = table(&VerbsProfile::new(grid, "today"));
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{name}: {wide:#?}");
        }
    }
}
