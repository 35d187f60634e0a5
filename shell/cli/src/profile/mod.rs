//! `farline profile`: throughput over a grid of cells, measured or modelled, and two of them next
//! to each other.

mod axes;
mod diff;
mod ending;
mod measure;
mod messages;
mod modelled;
mod node;
mod print;
mod ticker;
mod verbs;

use crate::export::{is_document, write_made};
use crate::output::Output;
use crate::provenance::now;
use axes::Axes;
use ending::Ending;
use farline::plan::document::{self, DocumentPlace, text};
use farline::plan::{ProbeBench, environment};
use farline_core::congestion::Algorithm;
use farline_core::profile::verbs::{self as of_verbs, COMPARISON};
use farline_core::profile::{
    Environment, Experiment, Form, Grid, Profile, ProfileKind, preset, presets,
};
use farline_core::units::{Error, ErrorCode, Fault};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline profile --link usn-8600 --streams 1,4,16 -o p.json -o p.html
  farline profile --simulate --rate 100G --rtt 200ms --streams 1-16";

/// Measure throughput over a grid of paths, streams and controls
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// A node that allows it [default: emulated paths]
    #[arg(value_name = "NODE", conflicts_with_all = ["simulate", "scale", "link", "rtt", "mtu", "cross", "loss", "resume"])]
    node: Option<String>,
    /// In virtual time, without a link, by the model
    #[arg(long)]
    simulate: bool,
    /// Divide rates and packets by 1-7 [default: as needed]
    #[arg(long, value_name = "K", conflicts_with = "resume")]
    scale: Option<u32>,
    /// A paper's experiment, or `list` [default: axes]
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// All cells of the preset, not a choice of them
    #[arg(long, requires = "preset")]
    full: bool,
    #[command(flatten)]
    messages: messages::Messages,
    #[command(flatten)]
    axes: Axes,
    /// .html, .csv, .parquet, or document [default: none]
    #[arg(long = "out", short, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// Go on with the profile in this file [default: none]
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    resume: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    Diff(diff::Args),
}

pub(crate) use axes::USUAL_RATE;
pub(crate) use farline::plan::document::read;
pub(crate) use node::{probe, store};
pub(crate) use print::plan as plan_text;

/// What links carry by default: it can be divided where the machine does not carry the rate.
const JUMBO: u32 = 9_000;

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    match &args.command {
        Some(Command::Diff(diff)) => return diff::run(diff, output),
        None => {}
    }
    if args.preset.as_deref() == Some("list") {
        return list(output);
    }
    // What a grid's controls had loaded goes also when a signal ends it.
    let ending = Ending::listen(output.quiet())?;
    // Not after twenty minutes, or fifteen hours.
    args.out.iter().try_for_each(|file| document::check(file))?;
    // Before one is read to go on with: what another run still adds to would be lost.
    let mut documents = args.documents()?;
    if let Some(asked) = verbs::asked(&args)? {
        return verbs::run(asked, &args, documents, &ending, output);
    }
    let mut profile = match &args.resume {
        Some(file) => resumed(file, &args, output)?,
        None => start(&args, output)?,
    };
    if args.simulate && profile.kind != ProfileKind::Modelled {
        return Err(Error::new(
            Fault::You,
            ErrorCode::ProfileKind,
            "a measured profile cannot go on by simulation",
        )
        .hint("leave --simulate out"));
    }
    let spare = if documents.is_empty() { document::spare(&profile) } else { None };
    if let Some(spare) = &spare
        && !output.quiet()
    {
        eprintln!(
            "farline: until its end the profile is kept in {}; `--resume` goes on from there",
            spare.display()
        );
    }
    if let Some(spare) = &spare {
        documents.push(DocumentPlace::take(spare)?);
    }
    ending.goes_on(&documents, RESUME);
    let count = |profile: &Profile| -> usize {
        profile.cells.iter().map(|result| result.repetitions.len()).sum()
    };
    let before = count(&profile);
    let ran = match profile.kind {
        ProfileKind::Modelled => {
            ending.waits();
            let ran = modelled::simulate(&mut profile, &mut documents, &ending, output);
            ending.may_end();
            ran
        }
        ProfileKind::Measured => measured(&mut profile, &mut documents, output),
    };
    // Who was refused, or broke off before anything was new, changes no file.
    if ran.is_err() && count(&profile) == before {
        return ran.map(|()| ExitCode::SUCCESS);
    }
    // Pages and tables of what ran before it broke off, too: they may be all that was asked for.
    let written = documents.iter_mut().try_for_each(|file| file.write(&text(&profile)?));
    let made = write_made(&args.out, &profile);
    ran.and(written).and(made)?;
    if let Some(spare) = &spare {
        // What was asked for has it all.
        let _ = std::fs::remove_file(spare);
    }
    output.result(&profile, print::table(&profile))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The files to write, each once, however it is spelled: whoever goes on with a profile may
    /// name its file as the one to write, too, and two documents under way in one place would take
    /// it from each other.
    fn written(&self) -> Vec<&PathBuf> {
        let mut places = Vec::new();
        let is_new = |file: &&PathBuf| {
            let place = document::place(file);
            let is_new = !places.contains(&place);
            places.push(place);
            is_new
        };
        self.resume.iter().chain(&self.out).filter(is_new).collect()
    }

    /// The places of the documents among them, taken for this run.
    fn documents(&self) -> Result<Vec<DocumentPlace>, Error> {
        let documents = self.written().into_iter().filter(|file| is_document(file));
        documents.map(|file| DocumentPlace::take(file)).collect()
    }
}

/// The profile in `file`, which goes on as it began.
fn resumed(file: &Path, args: &Args, output: &Output) -> Result<Profile, Error> {
    if let Some(flag) = args.axes.first() {
        let message = format!("a profile that goes on has its own grid: {flag} changes nothing");
        return Err(Error::new(Fault::You, ErrorCode::ProfileGrid, message)
            .hint("leave it out, or begin another profile"));
    }
    let profile = read(file)?;
    if profile.kind == ProfileKind::Modelled {
        return Ok(profile.goes_on());
    }
    let known = profile.changes().len();
    let environment = Environment { node: profile.environment.node.clone(), ..environment() };
    let profile = profile.goes_on_in(environment, now());
    say_elsewhere(profile.changes().get(known), output);
    Ok(profile)
}

/// Says what `changed` since a profile began, if anything did: it is the user's to say whether that
/// is still one profile; the document has it.
fn say_elsewhere(changed: Option<&String>, output: &Output) {
    if let (Some(changed), false) = (changed, output.quiet()) {
        eprintln!("farline: this profile began elsewhere; the document says so, {changed}");
    }
}

/// The command that goes on with a profile's file.
const RESUME: &str = "farline profile --resume";

/// Measures what is missing of `profile`, over emulated links or to its node, for which it is
/// stored.
fn measured(
    profile: &mut Profile,
    documents: &mut [DocumentPlace],
    output: &Output,
) -> Result<(), Error> {
    match profile.environment.node.clone() {
        None => {
            let mut bench = measure::links(&profile.grid)?;
            measure::run(profile, documents, RESUME, &mut bench, output)
        }
        Some(there) => {
            let (mut bench, ..) = node::open(&there)?;
            bench.prepare(&profile.grid)?;
            measure::run(profile, documents, RESUME, &mut bench, output)?;
            node::store(profile, &there, output)
        }
    }
}

/// The profile that the arguments ask for, before its first repetition.
fn start(args: &Args, output: &Output) -> Result<Profile, Error> {
    let form = if args.full { Form::Full } else { Form::Quick };
    if let Some(there) = &args.node {
        return start_at(there, args, form);
    }
    let grid = match &args.preset {
        Some(name) => args.axes.over(known(name, form)?)?,
        None => args.axes.grid(if args.simulate { Grid::USUAL_MTU } else { JUMBO })?,
    };
    // Before anything is tried on a link.
    grid.check()?;
    let (kind, environment, grid) = match (args.simulate, args.scale) {
        (true, k) => (ProfileKind::Modelled, Environment::default(), grid.scaled(k.unwrap_or(1))?),
        (false, Some(k)) => (ProfileKind::Measured, environment(), grid.scaled(k)?),
        (false, None) => (ProfileKind::Measured, environment(), measure::scaled(grid, output)?),
    };
    Profile::new(grid, kind, environment, now())
}

/// The same for the path to the node called `there`.
fn start_at(there: &str, args: &Args, form: Form) -> Result<Profile, Error> {
    let (_, remote, consent) = node::open(there)?;
    let path = node::path(&remote, consent, args.axes.rate());
    let base = match &args.preset {
        Some(name) => known(name, form)?,
        None => Grid::new("custom", Vec::new(), vec![Algorithm::Cubic]),
    };
    // Packets are as the path has them.
    let mut grid =
        args.axes.over(Grid { paths: vec![path.clone()], mtus: vec![Grid::USUAL_MTU], ..base })?;
    grid.paths = vec![path];
    grid.host_bps = Some(grid.host_bps.map_or(consent.ceiling, |host| host.min(consent.ceiling)));
    let environment = Environment { node: Some(there.to_owned()), ..environment() };
    Profile::new(grid, ProfileKind::Measured, environment, now())
}

/// Every preset, of TCP, of RDMA and of both: name and what it is.
fn every() -> impl Iterator<Item = (&'static str, &'static str)> {
    presets().chain(of_verbs::presets()).chain([COMPARISON])
}

/// The preset of TCP called `name`; where there is none, all names are said.
fn known(name: &str, form: Form) -> Result<Grid, Error> {
    preset(name, form).map_err(|error| {
        let names: Vec<&str> = every().map(|(name, _)| name).collect();
        error.hint(format!("known ones: {}", names.join(", ")))
    })
}

fn list(output: &Output) -> Result<ExitCode, Error> {
    #[derive(serde::Serialize)]
    struct Presets {
        schema: &'static str,
        presets: Vec<(&'static str, &'static str)>,
        /// Of each: name, what the quick form has, what the full one has.
        forms: Vec<(&'static str, String, String)>,
    }
    let all: Vec<_> = every().collect();
    let form = |name, form| preset(name, form).map(|grid| grid.outline());
    let forms =
        presets().map(|(name, _)| Ok((name, form(name, Form::Quick)?, form(name, Form::Full)?)));
    let rdma = |name, form| {
        Ok(of_verbs::preset(name, form)?
            .map_or_else(String::new, |grid| of_verbs::measured(grid).outline()))
    };
    let of_rdma = of_verbs::presets()
        .map(|(name, _)| Ok((name, rdma(name, Form::Quick)?, rdma(name, Form::Full)?)));
    let both = |form| {
        of_verbs::comparison_grids(form)
            .map(|(tcp, rdma)| format!("TCP {}; RDMA {}", tcp.outline(), rdma.outline()))
    };
    let of_both =
        std::iter::once_with(|| Ok((COMPARISON.0, both(Form::Quick)?, both(Form::Full)?)));
    let forms = forms.chain(of_rdma).chain(of_both).collect::<Result<Vec<_>, Error>>()?;
    let text = all.iter().map(|(name, about)| {
        let mut lines = vec![(*name).to_owned()];
        lines.extend(print::indented(about));
        if let Some((_, quick, full)) = forms.iter().find(|(known, ..)| known == name) {
            lines.extend(print::indented(&format!("quick: {quick}")));
            lines.extend(print::indented(&format!("--full: {full}")));
        }
        lines.join("\n")
    });
    let text = text.collect::<Vec<_>>().join("\n");
    output.result(&Presets { schema: "farline/presets/1", presets: all, forms }, text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: super::Args,
    }

    #[test]
    fn a_file_is_written_once_however_it_is_spelled() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("sub")).expect("a folder");
        let file = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        let written = |words: &[String]| {
            let line = ["profile".to_owned()].iter().chain(words).cloned().collect::<Vec<_>>();
            Line::parse_from(line).args.written().len()
        };
        let flag = |name: &str| name.to_owned();
        let (plain, dotted, up) = (file("p.json"), file("./p.json"), file("sub/../p.json"));
        assert_eq!(
            written(&[flag("--resume"), plain.clone(), flag("-o"), dotted, flag("-o"), up]),
            1
        );
        assert_eq!(written(&[flag("-o"), plain.clone(), flag("-o"), plain.clone()]), 1);
        assert_eq!(
            written(&[
                flag("-o"),
                plain,
                flag("-o"),
                file("q.json"),
                flag("-o"),
                file("sub/p.json")
            ]),
            3
        );
        // Below the working directory with and without saying so; the folder need not be there,
        // which others say.
        let here = std::env::current_dir()
            .expect("a folder")
            .join("p.json")
            .to_string_lossy()
            .into_owned();
        assert_eq!(
            written(&[flag("-o"), flag("p.json"), flag("-o"), flag("./p.json"), flag("-o"), here]),
            1
        );
        assert_eq!(written(&[flag("-o"), file("none/p.json"), flag("-o"), file("none/q.json")]), 2);
    }
}
