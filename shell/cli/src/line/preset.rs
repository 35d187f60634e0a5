//! `farline line --preset`: a paper's line test over emulated links, and what the paper prints.

use super::progress::LineFace;
use crate::export::{write_as_named, write_each};
use crate::output::Output;
use crate::provenance::now;
use farline::line::{LineRequestOptions, run_over};
use farline::link::{Link, Settings};
use farline::run_dir::name_here;
use farline_core::line::{LinePreset, PresetReport, PresetTest};
use farline_core::units::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) fn run(
    name: &str,
    is_full: bool,
    out: &[PathBuf],
    output: &Output,
) -> Result<ExitCode, Error> {
    let preset = LinePreset::named(name)?;
    if preset.is_raw() {
        return super::raw_preset::run(&preset, is_full, out, output);
    }
    let (runtime, signals) = crate::interrupt::listening()?;
    let stop = crate::interrupt::asked(runtime, signals)?;
    let mut documents = Vec::new();
    for PresetTest { wan, settings } in preset.tests(is_full)? {
        let path = settings.target.clone();
        output.remark(format_args!("{path}: {} s", settings.most_seconds));
        let mut link = Settings::new(&path, wan);
        (link.name, link.with_parent) = (name_here(&format!("line-{path}")), true);
        // What a test sends is no TCP, whose answers would be made within the link.
        link.inline_receive = true;
        let link = Link::up(&link)?;
        let mut options = LineRequestOptions::new(settings);
        options.stop = Arc::clone(&stop);
        let mut face = LineFace::new(output);
        let test = run_over(&link, &options, |progress| {
            face.show(progress);
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
        documents.push(test?.document(env!("CARGO_PKG_VERSION"), &now()));
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let figures = preset.against_paper(&documents);
    let report = PresetReport {
        schema: PresetReport::SCHEMA.to_owned(),
        farline: env!("CARGO_PKG_VERSION").to_owned(),
        date: now(),
        preset: name.to_owned(),
        is_full,
        figures,
        documents,
    };
    let written = write_each(out, |file| write_as_named(file, &report));
    output.result(&report, report.plain(super::room()))?;
    written?;
    let codes = report.documents.iter().map(|document| super::exit_code(document.outcome));
    Ok(ExitCode::from(codes.max().unwrap_or(0)))
}
