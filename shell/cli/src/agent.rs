//! `farline agent`: makes circuits of what a calendar has booked.

use crate::interrupt;
use crate::output::Output;
use crate::reserve::at::At;
use farline::circuit::{
    CIRCUIT_PATIENCE, CircuitAgent, CircuitDriver, CircuitNotice, CommandDriver, EmulatedDriver,
};
use farline_core::calendar::circuit::CircuitStep;
use farline_core::units::{Error, Span};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Make circuits of what a calendar has booked
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  farline agent --network usn --token-file agent.token
  farline agent --command /etc/farline/switch --token-file agent.token

It takes orders from its calendar alone, whose certificate it knows, and brings
the device to what is booked, again and again: what differs is mended and told.")]
pub(crate) struct Args {
    /// Circuits in this emulated network (farline net) [default: none]
    #[arg(long, value_name = "NAME", required_unless_present = "command")]
    network: Option<String>,
    /// Circuits by this program; docs/calendar.md has what it is told [default: none]
    #[arg(long, value_name = "FILE", conflicts_with = "network")]
    command: Option<PathBuf>,
    /// How long the program may take for a step [default: 30s]
    #[arg(long, value_name = "TIME", requires = "command")]
    patience: Option<Span>,
    #[command(flatten)]
    at: At,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let driver: Box<dyn CircuitDriver> = match (&args.network, &args.command) {
        (_, Some(program)) => {
            let patience = args.patience.map_or(CIRCUIT_PATIENCE, Duration::from);
            Box::new(CommandDriver::new(program, patience))
        }
        (network, None) => Box::new(EmulatedDriver::new(network.as_deref().unwrap_or_default())?),
    };
    let agent = CircuitAgent::new(args.at.address()?, driver)?;
    let (runtime, signals) = interrupt::listening()?;
    let stop = interrupt::asked(runtime, signals)?;
    output.result(&json!({ "schema": "farline/agent/1" }), "farline: the agent works")?;
    agent.run(&stop, |notice| tell(&notice, output));
    Ok(ExitCode::SUCCESS)
}

fn tell(notice: &CircuitNotice, output: &Output) {
    let word = |step: &CircuitStep| match step {
        CircuitStep::Prepare(number, circuit) => {
            (number.0, "prepare", format!(" for {}", circuit.rate))
        }
        CircuitStep::Open(number) => (number.0, "open", String::new()),
        CircuitStep::Change(number, rate) => (number.0, "change", format!(" to {rate}")),
        CircuitStep::Shut(number) => (number.0, "shut", String::new()),
        CircuitStep::Remove(number) => (number.0, "remove", String::new()),
    };
    let (document, text) = match notice {
        CircuitNotice::Done { step, at, late } => {
            let (number, verb, more) = word(step);
            let told = late.map(|late| format!(", {late} after its time")).unwrap_or_default();
            let document = json!({
                "schema": "farline/agent-step/1", "circuit": number, "step": verb,
                "at": farline::calendar::timestamp(*at),
                "late_ms": late.map(|late| late.as_millis_f64()),
            });
            (document, format!("{verb} c{number}{more}{told}"))
        }
        CircuitNotice::Failed { step, error } => {
            let (number, verb, _) = word(step);
            let document = json!({
                "schema": "farline/agent-step/1", "circuit": number, "step": verb, "error": error,
            });
            (document, format!("{verb} c{number} failed: {error}"))
        }
        CircuitNotice::Calendar(away) => {
            let text = match away {
                Some(error) => format!("the calendar is away: {error}"),
                None => "the calendar is back".to_owned(),
            };
            (json!({ "schema": "farline/agent-calendar/1", "error": away }), text)
        }
        CircuitNotice::Device(silent) => {
            let text = match silent {
                Some(error) => format!("what is there is not known: {error}"),
                None => "the device says again what is there".to_owned(),
            };
            (json!({ "schema": "farline/agent-device/1", "error": silent }), text)
        }
        // What a later library may tell besides.
        _ => return,
    };
    // Who reads that no more is no reason to end.
    let _ = output.result(&document, text);
}
