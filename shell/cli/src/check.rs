//! `farline check`: is this host fit, and does the other one answer.

use crate::connect;
use crate::interrupt;
use crate::node::remote;
use crate::output::Output;
use farline::channels::trust::Fingerprint;
use farline::client::{DataPort, Greeting, PortState, greet_and_reach_data};
use farline::host::{facts, measure};
use farline_core::host::{Finding, HostFacts, Level, PathFacts, judge};
use farline_core::units::{Error, Fault, Rate, Span};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  farline check
  farline check dtn2.example.org --dir /data

Exit codes: 0 fit, advice or not; 3 something here holds transfers back; else
those of `farline --help` when HOST cannot be reached. The commands that mend
hold until the next boot; write the sysctls to /etc/sysctl.d/90-farline.conf.";

/// Say whether this host is fit for long fast paths
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A node: dtn2.example.org, USER@HOST: over ssh, ftps://old.site:2811/ [default: none]
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// The directory whose speed is measured, with a file of at most 1 GiB [default: .]
    #[arg(long, value_name = "DIR", conflicts_with = "no_disk")]
    dir: Option<PathBuf>,
    /// Measure no directory
    #[arg(long)]
    no_disk: bool,
    /// The round-trip time to be fit for [default: measured with HOST, else 100ms]
    #[arg(long, value_name = "SPAN")]
    rtt: Option<Span>,
    /// Authorities for ftps://, in PEM [default: system's]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate for ftps://, its SHA-256 [default: any]
    #[arg(long, value_name = "HEX")]
    tls_pin: Option<Fingerprint>,
    /// For HOST: [default: $FARLINE_SSH, or ssh]
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<String>,
    /// Path of farline there [default: found by its PATH]
    #[arg(long, value_name = "P")]
    remote_farline: Option<String>,
    /// The rate to be fit for [default: the interface's, 10G where it says none]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
}

/// The document; its schema is `farline/check/1`.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    fit: bool,
    path: PathFacts,
    findings: Vec<Finding>,
    facts: HostFacts,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Greeting>,
}

/// What the port for data shows of the firewalls between.
fn data_port(data: &DataPort, is_farline: bool) -> String {
    let port = data.port;
    let why = match data.state {
        PortState::Open => {
            return format!("good     data ports: {port}, which it opened, is reached\n");
        }
        PortState::Filtered => "a firewall before the node drops what is not for its control port",
        PortState::Closed => {
            "a firewall before the node rejects what is not for its control port, or a translation \
             of addresses passes that port on alone"
        }
        PortState::Unreachable => "a router or firewall on the way says that nothing may pass",
        _ => "nobody knows why",
    };
    let instead = match is_farline {
        true => "data goes through the control port, unless it is asked for by another channel",
        false => "nothing can be copied",
    };
    format!(
        "advice   data ports: {port}, which it opened, is not reached: {why}; {instead}\n         \
         mend: the node's operator opens ports and names them: farline serve --data-ports \
         50000-50100\n"
    )
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let mut connect = connect::with(args.ssh, args.tls_ca, args.tls_pin);
    connect.remote_farline = args.remote_farline;
    let node = args
        .host
        .as_deref()
        .map(|host| {
            let remote = remote(host)?;
            interrupt::runtime("start")?.block_on(greet_and_reach_data(&remote, &connect))
        })
        .transpose()?;
    let mut facts = facts(node.as_ref().and_then(|node| node.local));
    if !args.no_disk {
        facts.disk =
            Some(measure(&args.dir.unwrap_or_else(|| ".".into()), Duration::from_secs(1))?);
    }
    let interface = facts.interfaces.iter().filter_map(|interface| interface.rate).max();
    let path = PathFacts {
        rtt: args.rtt.or(node.as_ref().map(|node| node.rtt)).unwrap_or(Span::from_millis(100)),
        rate: args.rate.or(interface).unwrap_or(Rate::from_bps(10_000_000_000)),
        measured: args.rtt.is_none() && node.is_some(),
        rate_known: args.rate.is_none() && interface.is_some(),
    };
    let findings = judge(&facts, &path);
    let fit = findings.iter().all(|finding| finding.level != Level::Problem);
    let mut text = String::new();
    if let Some(node) = &node {
        let what = match (node.farline, node.gridftp) {
            (true, _) => "a Farline node",
            (_, true) => "a GridFTP server that is not Farline",
            _ => "a plain FTP server: one connection for each file, and no checksums",
        };
        text.push_str(&format!(
            "good     node: it answers, over {} of rtt; it is {what}\n",
            node.rtt
        ));
        if let Some(data) = &node.data {
            text.push_str(&data_port(data, node.farline));
        }
    }
    for finding in &findings {
        let level = match finding.level {
            Level::Good => "good   ",
            Level::Advice => "advice ",
            Level::Problem => "PROBLEM",
        };
        text.push_str(&format!("{level}  {}: {}\n", finding.about, finding.words));
        if let Some(mend) = &finding.mend {
            text.push_str(&format!("         mend: {mend}\n"));
        }
    }
    text.push_str(if fit {
        "This host is fit."
    } else {
        "This host is not fit: see PROBLEM above."
    });
    output.result(&Report { schema: "farline/check/1", fit, path, findings, facts, node }, text)?;
    Ok(if fit { ExitCode::SUCCESS } else { ExitCode::from(Fault::Here.exit_code()) })
}
