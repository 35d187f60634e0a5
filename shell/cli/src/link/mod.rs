//! `farline link`: an emulated wide-area link between two network namespaces.

mod options;
mod show;

use crate::output::Output;
use crate::output::line;
use clap::{Subcommand, ValueEnum};
use farline::link::{self, Info, Link, Side};
use farline_core::units::Error;
use options::Options;
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

/// Emulate a wide-area link between two network namespaces.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  farline link up usn-8600                        an 8,600-mile, 163 ms link
  farline link exec usn-8600 b -- iperf3 -s -D
  farline link exec usn-8600 a -- sh -c 'iperf3 -c $FARLINE_PEER'
  farline link stats usn-8600                     was it exact? what was dropped?
  farline link down usn-8600")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Box<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Bring a link up and leave it up.
    #[command(after_help = options::EXAMPLES)]
    Up {
        #[command(flatten)]
        options: Options,
    },
    /// Bring a link up, run a command in side a, take the link down.
    #[command(after_help = "\
Example:
  farline link run usn-1400 --loss 1e-6 -- sh -c 'ping -c 3 $FARLINE_PEER'

CMD finds FARLINE_LINK, FARLINE_PEER (the address of b) and FARLINE_PEER_NS;
its exit code is this one's. Pairs and events: see `link up --help`.")]
    Run {
        #[command(flatten)]
        options: Options,
        /// The command and its arguments.
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Run a command in a side of a link.
    #[command(after_help = "Example:\n  farline link exec usn-8600 b -- iperf3 -s")]
    Exec {
        /// The link's name.
        name: String,
        /// Which side.
        side: SideName,
        /// The command and its arguments.
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// List the links, and the paths that links can be made from.
    #[command(after_help = "Example:\n  farline link ls --json")]
    Ls,
    /// Say how exact a link was and what it dropped.
    #[command(after_help = "Example:\n  farline link stats usn-8600")]
    Stats {
        /// The link's name.
        name: String,
    },
    /// Take a link down: end its emulator and every process in its namespaces.
    #[command(after_help = "Example:\n  farline link down usn-8600")]
    Down {
        /// The link's name.
        name: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum SideName {
    A,
    B,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    match *args.action {
        Action::Up { options } => up(&options, output),
        Action::Run { options, command } => run_command(&options, &command, output),
        Action::Exec { name, side, command } => {
            let side = match side {
                SideName::A => Side::A,
                SideName::B => Side::B,
            };
            let (program, arguments) =
                command.split_first().unwrap_or_else(|| unreachable!("clap requires a command"));
            Err(Link::find(&name)?.become_command(side, program, arguments))
        }
        Action::Ls => {
            show::list(&Link::all(), output);
            Ok(ExitCode::SUCCESS)
        }
        Action::Stats { name } => {
            show::stats(&Link::find(&name)?.stats()?, output);
            Ok(ExitCode::SUCCESS)
        }
        Action::Down { name } => {
            Link::find(&name)?.down()?;
            if output.json() {
                line!("{}", json!({ "schema": "farline/link-down/1", "name": name }));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn up(options: &Options, output: &Output) -> Result<ExitCode, Error> {
    let link = Link::up(&options.settings()?)?;
    say_without_root(link.info());
    show::up(link.info(), output);
    Ok(ExitCode::SUCCESS)
}

fn run_command(
    options: &Options,
    command: &[OsString],
    output: &Output,
) -> Result<ExitCode, Error> {
    let mut settings = options.settings()?;
    if !options.is_named() {
        settings.name = free_name(&settings.name);
    }
    let (program, arguments) =
        command.split_first().unwrap_or_else(|| unreachable!("clap requires a command"));
    let (code, stats) =
        link::run(&settings, program, arguments, |link| say_without_root(link.info()))?;
    show::end_of_run(&stats, output);
    Ok(ExitCode::from(code))
}

/// `wanted`, or with a number when a link of that name is up, here or below another run directory.
fn free_name(wanted: &str) -> String {
    let is_taken = |name: &str| match Link::find(name) {
        Ok(link) => link.is_alive(),
        Err(_) => link::is_namespace_taken(name),
    };
    let numbered = (2..).map(|number| format!("{wanted}-{number}"));
    std::iter::once(wanted.to_owned())
        .chain(numbered)
        .find(|name| !is_taken(name))
        .unwrap_or_default()
}

fn say_without_root(info: &Info) {
    if info.rootless {
        eprintln!("farline: {}", link::WITHOUT_ROOT);
    }
}
