//! The command `farline`: move data across continents at line rate, and know why when you can't.

mod cp;
mod link;
mod output;
mod serve;

use clap::{Parser, Subcommand};
use output::Output;
use std::process::ExitCode;

/// Move data across continents at line rate, and know why when you can't.
#[derive(Parser)]
#[command(name = "farline", version, max_term_width = 100)]
struct Cli {
    /// Print results and errors as JSON objects with a schema version.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Cp(cp::Args),
    Link(link::Args),
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.json);
    let result = match cli.command {
        Command::Cp(args) => cp::run(args, &output),
        Command::Link(args) => link::run(args, &output),
        Command::Serve(args) => serve::run(args, &output),
    };
    result.unwrap_or_else(|error| output.error(&error))
}
