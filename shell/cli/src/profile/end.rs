//! `farline profile end`: one end of a measurement, started by `farline profile` in a side of a
//! link.

use crate::output::{Output, line};
use farline::prober::{ProbeRequest, VerbsEnd, receive, send};
use farline_core::units::{Error, Fault};
use serde_json::json;
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::ExitCode;

/// One end of a measurement; its request stands on standard input
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    end: End,
}

#[derive(clap::Subcommand)]
enum End {
    /// Send, and tell what was acknowledged
    Send {
        /// Where to
        #[arg(long, value_name = "ADDR:PORT")]
        to: SocketAddr,
    },
    /// Say which port listens, receive, and tell what arrived
    Receive {
        /// Where; port 0 is any
        #[arg(long, value_name = "ADDR:PORT")]
        listen: SocketAddr,
    },
    /// Say which port listens, and be measured by verbs, a run for each line of standard input
    VerbsFar {
        #[command(flatten)]
        device: Device,
    },
    /// Measure by verbs, a run for each line of standard input
    VerbsNear {
        #[command(flatten)]
        device: Device,
        /// Where the far end listens
        #[arg(long, value_name = "ADDR:PORT")]
        to: SocketAddr,
    },
}

#[derive(clap::Args)]
struct Device {
    /// The RDMA device's address
    #[arg(long, value_name = "ADDR")]
    at: IpAddr,
    /// The address's place in the device's table
    #[arg(long, value_name = "N")]
    gid: u8,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    let request = || -> Result<ProbeRequest, Error> {
        serde_json::from_reader(io::stdin().lock()).map_err(wrong)
    };
    match &args.end {
        End::VerbsFar { device } => verbs(&VerbsEnd::far(device.at, device.gid)?, output)?,
        End::VerbsNear { device, to } => {
            verbs(&VerbsEnd::near(device.at, device.gid, *to)?, output)?
        }
        End::Send { to } => output.text(json!(send(*to, &request()?)?))?,
        End::Receive { listen } => {
            let request = request()?;
            let failed = |error: io::Error| {
                Error::new(Fault::Here, "profile-listen", format!("listening on {listen}: {error}"))
            };
            let listener = TcpListener::bind(*listen).map_err(failed)?;
            line!("{}", json!({ "port": listener.local_addr().map_err(failed)?.port() }));
            io::stdout().flush().map_err(failed)?;
            output.text(json!(receive(&listener, &request)?))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn wrong(error: serde_json::Error) -> Error {
    Error::new(Fault::Bug, "profile-end", format!("the request: {error}"))
}

/// Says where `end` is, and answers each run that it is asked for.
fn verbs(end: &VerbsEnd, output: &Output) -> Result<(), Error> {
    output.text(json!({ "device": end.device(), "port": end.port() }))?;
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let job = serde_json::from_str(&line).map_err(wrong)?;
        match end.run(&job) {
            Ok(seen) => output.text(json!(seen))?,
            Err(error) => {
                output.text(json!({ "error": { "fault": error.fault, "message": error.message, "hint": error.hint } }))?
            }
        }
    }
    Ok(())
}
