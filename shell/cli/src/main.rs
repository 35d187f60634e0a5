//! The command `farline`: move data across continents at line rate, and know why when you can't.

#[cfg(feature = "calendar")]
mod agent;
mod attributes;
#[cfg(feature = "calendar")]
mod booked;
#[cfg(not(feature = "calendar"))]
#[path = "unbooked.rs"]
mod booked;
#[cfg(feature = "calendar")]
mod calendar;
mod cc;
mod channel;
mod check;
mod connect;
mod copy_report;
mod cp;
mod duration;
#[cfg(any(feature = "line", feature = "profile"))]
mod export;
mod flags;
mod generate;
mod interrupt;
mod lacking;
#[cfg(feature = "line")]
mod line;
#[cfg(feature = "link")]
mod link;
#[cfg(feature = "calendar")]
mod net;
mod node;
mod numbers;
mod output;
mod partials;
#[cfg(feature = "profile")]
mod plan;
#[cfg(feature = "profile")]
mod profile;
mod progress;
#[cfg(any(feature = "line", feature = "profile"))]
mod provenance;
#[cfg(feature = "calendar")]
mod reserve;
mod select;
mod serve;
mod sync;
mod topic;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use output::Output;
use std::process::ExitCode;

#[cfg(not(feature = "calendar"))]
lacking::lacking!(agent, "calendar");
#[cfg(not(feature = "calendar"))]
lacking::lacking!(calendar, "calendar");
#[cfg(not(feature = "line"))]
lacking::lacking!(line, "line");
#[cfg(not(feature = "link"))]
lacking::lacking!(link, "link");
#[cfg(not(feature = "calendar"))]
lacking::lacking!(net, "calendar");
#[cfg(not(feature = "profile"))]
lacking::lacking!(plan, "profile");
#[cfg(not(feature = "profile"))]
lacking::lacking!(profile, "profile");
#[cfg(not(feature = "calendar"))]
lacking::lacking!(reserve, "calendar");

macro_rules! top_examples {
    () => {
        "\
Examples:
  farline cp -r run7 ftp://dtn2.example.org:2811/data/
Exit: 0 done, 2 request, 3 this host, 4 other end, 5 path, 6 refused, 70 defect."
    };
}

/// Shown below the top help. The exit codes are those of `Fault::exit_code`; a test in `generate`
/// keeps them equal.
const TOP_EXAMPLES: &str = top_examples!();

/// Move data across continents at line rate, and know why when you can't.
#[derive(Parser)]
#[command(
    name = "farline",
    version = lacking::version(),
    max_term_width = 80,
    disable_help_subcommand = true,
    // Fewer blank lines than clap's own, and the options on one: it all fits an old terminal.
    help_template = concat!(
        "{about-with-newline}{usage-heading} {usage}\nCommands:\n{subcommands}\n\n",
        "Options: --json (also errors), -q (quiet), -h (help), -V (version)\n",
        top_examples!()
    ),
    after_help = TOP_EXAMPLES,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    /// Print results and errors as JSON
    #[arg(long, global = true)]
    json: bool,
    /// No progress; of a copy only what failed
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Cp(Box<cp::Args>),
    Sync(Box<sync::Args>),
    Partials(partials::Args),
    Check(check::Args),
    Serve(Box<serve::Args>),
    Reserve(Box<reserve::Args>),
    Calendar(calendar::Args),
    Net(net::Args),
    Agent(agent::Args),
    Link(link::Args),
    Profile(Box<profile::Args>),
    Line(Box<line::Args>),
    Plan(plan::Args),
    Cc(cc::Args),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

fn main() -> ExitCode {
    farline::agent::run();
    let args = topic::help_as_flag(std::env::args_os());
    let parsed = topic::of(Cli::command(), args.iter().cloned()).try_get_matches_from(&args);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(wrong) => return output::usage(wrong, args),
    };
    let output = Output::new(cli.json, cli.quiet);
    let result = match cli.command {
        Command::Cp(args) => cp::run(*args, &output),
        Command::Sync(args) => sync::run(*args, &output),
        Command::Partials(args) => partials::run(args, &output),
        Command::Check(args) => check::run(args, &output),
        Command::Serve(args) => serve::run(*args, &output),
        Command::Reserve(args) => reserve::run(*args, &output),
        Command::Calendar(args) => calendar::run(args, &output),
        Command::Net(args) => net::run(args, &output),
        Command::Agent(args) => agent::run(args, &output),
        Command::Link(args) => link::run(args, &output),
        Command::Profile(args) => profile::run(*args, &output),
        Command::Line(args) => line::run(*args, &output),
        Command::Plan(args) => plan::run(args, &output),
        Command::Cc(args) => cc::run(args, &output),
        Command::Completions(args) => generate::completions(&args, &output),
        Command::Man(args) => generate::man(&args, &output),
    };
    result.unwrap_or_else(|error| output.error(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `command` and everything below it.
    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        let mut found = vec![command];
        for below in command.get_subcommands() {
            found.extend(all(below));
        }
        found
    }

    #[test]
    fn definitions_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_with_a_value_says_its_default_or_is_required() {
        let mut cli = Cli::command();
        cli.build();
        for command in all(&cli) {
            for arg in command
                .get_arguments()
                .filter(|arg| !arg.is_positional() && arg.get_action().takes_values())
            {
                let text = arg
                    .get_long_help()
                    .or(arg.get_help())
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let said = arg.is_required_set()
                    || !arg.get_default_values().is_empty()
                    || text.contains("default");
                let flag = arg.get_long().unwrap_or_default();
                assert!(said, "{} --{flag}: `{text}` names no default", command.get_name());
            }
        }
    }

    #[test]
    fn every_command_and_argument_says_what_it_is() {
        let mut cli = Cli::command();
        cli.build();
        for command in all(&cli) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(
                !about.is_empty() && !about.contains('\n'),
                "{}: `{about}`",
                command.get_name()
            );
            for arg in command.get_arguments() {
                assert!(
                    arg.get_help().is_some(),
                    "{} {}: no help",
                    command.get_name(),
                    arg.get_id()
                );
            }
        }
    }
}
