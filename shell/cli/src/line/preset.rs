//! `farline line --preset`: a paper's line test over emulated links, and what the paper prints.

use super::progress::LineFace;
use super::state_file::{StateFile, say_how_to_go_on};
use crate::export::{write_as_named, write_each};
use crate::output::Output;
use crate::provenance::now;
use farline::line::{LineRequestOptions, run_over};
use farline::link::{Link, Settings};
use farline::run_dir::name_here;
use farline_core::line::{LinePreset, PresetReport, PresetState, PresetTest};
use farline_core::units::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Runs what is left of `state`, which is kept in `file` where there is one.
pub(super) fn run(
    mut state: PresetState,
    file: Option<&StateFile>,
    out: &[PathBuf],
    output: &Output,
) -> Result<ExitCode, Error> {
    let preset = LinePreset::named(&state.preset)?;
    if preset.is_raw() {
        return super::raw_preset::run(&preset, state, file, out, output);
    }
    let (runtime, signals) = crate::interrupt::listening()?;
    let stop = crate::interrupt::asked(runtime, signals)?;
    let mut ended = None;
    let tests = preset.tests(state.is_full)?;
    let count = tests.len();
    for PresetTest { wan, settings } in tests.into_iter().skip(state.documents.len()) {
        let path = settings.target.clone();
        output.remark(format_args!("{path}: {} s", settings.most_seconds));
        let mut link = Settings::new(&path, wan);
        (link.name, link.with_parent) =
            (name_here(&format!("line-{path}-{}", std::process::id())), true);
        // What a test sends is no TCP, whose answers would be made within the link.
        link.inline_receive = true;
        let link = Link::up(&link)?;
        let mut options = LineRequestOptions::new(settings);
        (options.stop, options.resume) = (Arc::clone(&stop), state.running.clone());
        let mut face = LineFace::new(output);
        let test = run_over(&link, &options, |progress| {
            face.show(progress);
            if let Some(file) = file {
                state.running = Some((progress.state)());
                file.save(&state, output);
            }
            Ok(())
        });
        face.clear();
        let stats = link.stats();
        link.down()?;
        if stats.is_ok_and(|stats| !stats.valid) {
            output.remark(format_args!(
                "{path}: this machine had too little processor time to emulate the link exactly"
            ));
        }
        let document = test?.document(env!("CARGO_PKG_VERSION"), &now());
        if document.can_go_on() {
            ended = Some(document);
            break;
        }
        state.documents.push(document);
        state.running = None;
        state.is_over = state.documents.len() == count;
        if let Some(file) = file {
            file.save(&state, output);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let PresetState { preset: name, is_full, mut documents, is_over, .. } = state;
    documents.extend(ended);
    let figures = preset.against_paper(&documents);
    let report = PresetReport {
        schema: PresetReport::SCHEMA.to_owned(),
        farline: env!("CARGO_PKG_VERSION").to_owned(),
        date: now(),
        preset: name,
        is_full,
        figures,
        documents,
    };
    let written = write_each(out, |file| write_as_named(file, &report));
    output.result(&report, report.plain(super::room()))?;
    if !is_over {
        say_how_to_go_on(file, "preset", output);
    }
    written?;
    let codes = report.documents.iter().map(|document| super::exit_code(document.outcome));
    Ok(ExitCode::from(codes.max().unwrap_or(0)))
}
