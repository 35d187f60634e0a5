//! `farline agent`: makes circuits of what a calendar has booked.

use crate::booked::site_here;
use crate::interrupt;
use crate::output::Output;
use crate::reserve::at::At;
use farline::circuit::{
    CIRCUIT_TIMEOUT, CircuitAddresses, CircuitAgent, CircuitDriver, CircuitNotice, CircuitVlans,
    ClassHandle, CommandDriver, EmulatedDriver, InterfaceSettings, LinuxDriver,
};
use farline_core::calendar::circuit::CircuitStep;
use farline_core::units::{Error, Rate, Span};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Make circuits of what a calendar has booked
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  farline agent --network usn --token-file agent.token
  farline agent --interface eth1 --rate 10G --site sunnyvale --token-file t
  farline agent --command /etc/farline/switch --token-file agent.token

It takes orders from its calendar alone, whose certificate it knows, and brings
the device to what is booked, again and again: what differs is mended and told.")]
pub(crate) struct Args {
    /// Circuits in this emulated network (farline net) [default: none]
    #[arg(long, value_name = "NAME", required_unless_present_any = ["command", "interface"])]
    network: Option<String>,
    /// Circuits on this interface, by HTB, one end each [default: none]
    #[arg(long, value_name = "NAME", conflicts_with = "network")]
    interface: Option<String>,
    /// What the interface carries [default: what it says, less 2 %]
    #[arg(long, value_name = "RATE", requires = "interface")]
    rate: Option<Rate>,
    /// The site of this host [default: that of its name]
    #[arg(long, value_name = "NAME", requires = "interface")]
    site: Option<String>,
    /// Circuits below this class of HTB, such as 1:10 [default: a root of their own]
    #[arg(long, value_name = "CLASS", requires = "interface")]
    below: Option<ClassHandle>,
    /// Addresses of circuits, the same at all ends [default: 10.64.0.0/16]
    #[arg(long, value_name = "RANGE", requires = "interface")]
    addresses: Option<CircuitAddresses>,
    /// VLANs of circuits, such as 3000-3499 [default: none]
    #[arg(long, value_name = "RANGE", requires = "interface")]
    vlans: Option<CircuitVlans>,
    /// Circuits by this program; docs/calendar.md has what it is told [default: none]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["network", "interface"])]
    command: Option<PathBuf>,
    /// How long the program may take for a step [default: 30s]
    #[arg(long = "patience", value_name = "TIME", requires = "command")]
    timeout: Option<Span>,
    #[command(flatten)]
    at: At,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let driver: Box<dyn CircuitDriver> = match (&args.network, &args.interface, &args.command) {
        (Some(network), ..) => Box::new(EmulatedDriver::new(network)?),
        (None, Some(interface), _) => Box::new(LinuxDriver::new(InterfaceSettings {
            interface: interface.clone(),
            site: args.site.clone().or_else(site_here),
            rate: args.rate,
            below: args.below,
            addresses: args.addresses.unwrap_or_default(),
            vlans: args.vlans,
        })?),
        (None, None, program) => {
            let timeout = args.timeout.map_or(CIRCUIT_TIMEOUT, Duration::from);
            Box::new(CommandDriver::new(program.as_deref().unwrap_or(Path::new("")), timeout))
        }
    };
    let agent = CircuitAgent::new(args.at.address()?, driver)?;
    let (runtime, signals) = interrupt::listening()?;
    let stop = interrupt::asked(runtime, signals)?;
    output.result(&json!({ "schema": "farline/agent/1" }), "farline: the agent works")?;
    agent.run(&stop, |notice| print_notice(&notice, output));
    Ok(ExitCode::SUCCESS)
}

fn print_notice(notice: &CircuitNotice, output: &Output) {
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
