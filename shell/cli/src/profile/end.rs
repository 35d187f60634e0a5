//! `farline profile end`: one end of a measurement, started by `farline profile` in a side of a link.

use crate::output::{Output, line};
use farline::prober::{Request, receive, send};
use farline_core::units::{Error, Fault};
use serde_json::json;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
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
}

pub(super) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    let wrong = |error: serde_json::Error| Error::new(Fault::Bug, "profile-end", format!("the request: {error}"));
    let request: Request = serde_json::from_reader(io::stdin().lock()).map_err(wrong)?;
    match args.end {
        End::Send { to } => output.text(json!(send(to, &request)?))?,
        End::Receive { listen } => {
            let failed = |error: io::Error| Error::new(Fault::Here, "profile-listen", format!("listening on {listen}: {error}"));
            let listener = TcpListener::bind(listen).map_err(failed)?;
            line!("{}", json!({ "port": listener.local_addr().map_err(failed)?.port() }));
            io::stdout().flush().map_err(failed)?;
            output.text(json!(receive(&listener, &request)?))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
