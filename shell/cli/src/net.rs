//! `farline net`: a network of several sites in one emulator, with circuits.

use crate::output::Output;
use clap::Subcommand;
use farline::calendar::topology_spec;
use farline::link::WITHOUT_ROOT;
use farline::link::network::{
    CircuitState, EmulatedNetwork, NetworkCircuit, NetworkOrder, NetworkSettings, NetworkState,
};
use farline_core::units::{Error, ErrorCode, Fault, Rate};
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

/// Emulate a network of several sites, with circuits between them
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  farline net up usn                          four sites from Oak Ridge to Sunnyvale
  farline net exec usn oak-ridge -- ping -c 3 10.88.0.4
  farline agent --network usn                 makes circuits of what is booked
  farline net show usn
  farline net down usn")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Bring a network up and leave it up
    #[command(after_help = "Example:\n  farline net up usn --best-effort 500M")]
    Up {
        /// usn, or a TOML file
        network: String,
        /// What a link carries of best-effort traffic at most
        #[arg(long, value_name = "RATE", default_value = "1G")]
        best_effort: Rate,
        /// Largest IP packet
        #[arg(long, value_name = "BYTES", default_value_t = 9000, value_parser = clap::value_parser!(u32).range(1280..=65521))]
        mtu: u32,
    },
    /// Run a command in a site
    #[command(after_help = "Example:\n  farline net exec usn sunnyvale -- iperf3 -s")]
    Exec {
        /// The network's name
        network: String,
        /// The site's
        site: String,
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// List the networks that are up
    #[command(after_help = "Example:\n  farline net ls --json")]
    Ls,
    /// Show circuits, and what they leave to best effort
    #[command(after_help = "Example:\n  farline net show usn --json")]
    Show {
        /// The network's name
        network: String,
    },
    /// Make a circuit by hand, open at once
    #[command(
        override_usage = "farline net circuit --rate <RATE> <NET> <NUMBER> <FROM> <TO> <LINK>..."
    )]
    #[command(after_help = "\
Example:
  farline net circuit usn 1 oak-ridge chicago 'oak-ridge>chicago/1' --rate 2G")]
    Circuit {
        /// The network's name
        #[arg(value_name = "NET")]
        network: String,
        /// The circuit's number
        number: u32,
        /// The site where it begins
        from: String,
        /// The site where it ends
        to: String,
        /// Its links, in order
        #[arg(required = true, value_name = "LINK")]
        route: Vec<String>,
        /// What it carries, both ways
        #[arg(long)]
        rate: Rate,
    },
    /// Give a circuit another rate
    #[command(after_help = "Example:\n  farline net rate usn 1 3G")]
    Rate {
        /// The network's name
        network: String,
        /// The circuit's number
        number: u32,
        /// What it carries from now on
        rate: Rate,
    },
    /// Remove a circuit
    #[command(after_help = "Example:\n  farline net remove usn 1")]
    Remove {
        /// The network's name
        network: String,
        /// The circuit's number
        number: u32,
    },
    /// Take a network down: end its emulator and every process in its sites
    #[command(after_help = "Example:\n  farline net down usn")]
    Down {
        /// The network's name
        network: String,
    },
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    match args.action {
        Action::Up { network, best_effort, mtu } => {
            let topology = topology_spec(&network)?;
            let mut settings = NetworkSettings::new(topology);
            (settings.best_effort, settings.mtu) = (best_effort, mtu);
            let up = EmulatedNetwork::up(&settings)?;
            if up.info().rootless {
                output.remark(WITHOUT_ROOT);
            }
            let info = up.info();
            let sites: Vec<String> = info
                .sites
                .iter()
                .map(|site| format!("  {site:<16} {}", info.address(site).unwrap_or_default()))
                .collect();
            let document = json!({
                "schema": "farline/net/1", "name": info.name, "rootless": info.rootless,
                "sites": info.sites.iter().map(|site| json!({
                    "name": site, "address": info.address(site), "namespace": info.namespace(site),
                })).collect::<Vec<_>>(),
            });
            let (name, sites) = (&info.name, sites.join("\n"));
            output.result(
                &document,
                format!(
                    "network {name} is up\n{sites}\n\
                     use it:       farline net exec {name} SITE -- CMD\n\
                     take it down: farline net down {name}"
                ),
            )?;
        }
        Action::Ls => list(output)?,
        Action::Exec { network, site, command } => {
            let (program, arguments) =
                command.split_first().unwrap_or_else(|| unreachable!("clap requires a command"));
            return Err(EmulatedNetwork::find(&network)?.become_command(&site, program, arguments));
        }
        Action::Show { network } => {
            show(&EmulatedNetwork::find(&network)?.order(&NetworkOrder::Show)?, output)?
        }
        Action::Circuit { network, number, from, to, route, rate } => {
            let network = EmulatedNetwork::find(&network)?;
            let circuit = NetworkCircuit { number, from, to, route, rate, both_ways: true };
            network.order(&NetworkOrder::Prepare(circuit))?;
            show(&network.order(&NetworkOrder::Open(number))?, output)?;
        }
        Action::Rate { network, number, rate } => {
            if rate == Rate::default() {
                let message = "a circuit of no rate carries nothing";
                return Err(Error::new(Fault::You, ErrorCode::Usage, message)
                    .hint("`farline net remove` takes it down"));
            }
            show(
                &EmulatedNetwork::find(&network)?.order(&NetworkOrder::Change(number, rate))?,
                output,
            )?;
        }
        Action::Remove { network, number } => {
            show(&EmulatedNetwork::find(&network)?.order(&NetworkOrder::Remove(number))?, output)?;
        }
        Action::Down { network } => {
            EmulatedNetwork::find(&network)?.down()?;
            let document = json!({ "schema": "farline/net-down/1", "name": network });
            output.result(&document, format!("network {network} is down"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(output: &Output) -> Result<(), Error> {
    let networks = EmulatedNetwork::all();
    let mut lines: Vec<String> = networks
        .iter()
        .map(|network| {
            let sites = network.info().sites.join(", ");
            let ended = if network.is_alive() { "" } else { " (its emulator ended: net down)" };
            format!("{:<12} {sites}{ended}", network.info().name)
        })
        .collect();
    if lines.is_empty() {
        lines.push("no network is up; `farline net up usn` brings one up".to_owned());
    }
    let listed = |network: &EmulatedNetwork| {
        json!({
            "name": network.info().name,
            "sites": network.info().sites,
            "is_alive": network.is_alive(),
        })
    };
    let document = json!({
        "schema": "farline/net-ls/1",
        "networks": networks.iter().map(listed).collect::<Vec<_>>(),
    });
    output.result(&document, lines.join("\n"))
}

fn show(state: &NetworkState, output: &Output) -> Result<(), Error> {
    let circuit = |known: &CircuitState| {
        format!(
            "{:<8} {:<5} {:>12}  {} {} to {} {}, {} one way, {} MB carried",
            known.device,
            if known.open { "open" } else { "shut" },
            known.circuit.rate.to_string(),
            known.circuit.from,
            known.from_address,
            known.circuit.to,
            known.to_address,
            known.one_way_delay,
            (known.carried[0] + known.carried[1]) / 1_000_000,
        )
    };
    let mut lines: Vec<String> = state.circuits.iter().map(circuit).collect();
    if lines.is_empty() {
        lines.push("no circuits".to_owned());
    }
    lines.extend(
        state
            .best_effort
            .iter()
            .map(|(a, b, there, back)| format!("best effort {a} to {b}: {there}, back {back}")),
    );
    let document = json!({ "schema": "farline/net-show/1", "state": state });
    output.result(&document, lines.join("\n"))
}
