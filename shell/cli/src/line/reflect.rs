//! `farline line reflect`: the far end of line tests.

use crate::interrupt;
use crate::numbers;
use crate::output::Output;
use farline::line::{PORT, ReflectOptions, Reflector};
use farline_core::units::{Bytes, Error, Rate};
use serde::Serialize;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline line reflect
  farline line reflect --listen 0.0.0.0:862 --stamp

A test is let in that shows where it is (a cookie), and no answer is longer than
its question. With --stamp any STAMP or TWAMP Light sender is answered whose
packets have 41 bytes or more.";

/// Be the far end of line tests, until ended
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// UDP address to listen at [default: port 8620 of all]
    #[arg(long, value_name = "ADDR:PORT", value_parser = numbers::address)]
    listen: Option<SocketAddr>,
    /// Take Ethernet frames at a device in place of that [default: none]
    #[arg(long, value_name = "DEV", conflicts_with_all = ["listen", "stamp"])]
    ethernet: Option<String>,
    /// The most that all tests together may send [default: any]
    #[arg(long, value_name = "RATE")]
    allow: Option<Rate>,
    /// Send STAMP packets back to anybody (RFC 8762)
    #[arg(long)]
    stamp: bool,
    /// Key of authenticated STAMP packets, the only ones then; other tests need none [default:
    /// none]
    #[arg(long, value_name = "FILE", requires = "stamp")]
    stamp_key: Option<PathBuf>,
    /// Receive buffer of the socket
    #[arg(long, value_name = "BYTES", default_value = "32MiB")]
    buffer: Bytes,
    /// For measuring: compare no payload
    #[arg(long, hide = true)]
    no_compare: bool,
}

/// What is printed when it listens.
#[derive(Serialize)]
struct Listening {
    schema: &'static str,
    /// Of UDP; null where it listens at a device.
    address: Option<SocketAddr>,
    /// Of that device.
    hardware_address: Option<String>,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    let listen = args.listen.unwrap_or(SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)));
    let mut options = ReflectOptions::at(listen);
    options.most = args.allow;
    options.ethernet = args.ethernet.clone();
    (options.is_open, options.is_compared) = (args.stamp, !args.no_compare);
    options.key = args.stamp_key.as_deref().map(super::key).transpose()?;
    options.buffer = usize::try_from(args.buffer.0).unwrap_or(usize::MAX);
    let reflector = Reflector::bind(&options)?;
    let (runtime, signals) = interrupt::listening()?;
    let stop = interrupt::asked(runtime, signals)?;
    let hardware_address = reflector.hardware_address().map(|address| address.to_string());
    let address = if hardware_address.is_none() { Some(reflector.address()?) } else { None };
    let at = match (&address, &hardware_address) {
        (Some(address), _) => format!("{address} (UDP)"),
        (None, hardware) => format!("{} (Ethernet)", hardware.as_deref().unwrap_or_default()),
    };
    let text = format!("farline: line tests end at {at}; ctrl-C ends this");
    let schema = "farline/line-reflect/1";
    output.result(&Listening { schema, address, hardware_address }, text)?;
    reflector.run(&stop)?;
    Ok(ExitCode::SUCCESS)
}
