//! A copy that goes on for so many seconds of data, as a flow among others.

use anyhow::{Context, Result, ensure};
use farline::Client;
use farline::channels::Registry;
use farline::channels::trust::Fingerprint;
use farline::client::ConnectOptions;
use std::time::{Duration, Instant};

/// More than any such copy moves.
const ENDLESS: &str = "memory:1TiB";
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long it may take until data flows.
const SET_UP: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where to
    url: String,
    /// The node's certificate
    #[arg(long)]
    pin: Fingerprint,
    /// What carries it
    #[arg(long)]
    channel: String,
    /// From its first bytes on
    #[arg(long)]
    seconds: f64,
}

/// Copies over one channel and prints what arrived, from the first bytes on.
///
/// # Errors
/// When nothing arrives, or the copy ends early.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut connect = ConnectOptions::default();
    connect.trust.fingerprint = Some(options.pin);
    let registry = Registry::builtin();
    let stack = registry.stack(&options.channel)?;
    let client = Client::new().connect_options(connect);
    let request = client.copy(ENDLESS, &options.url)?.channels(1).fresh_start();
    let copying = request.with(|options| options.channel = Some(stack)).start()?;
    let arrived = || copying.progress().bytes.0;
    let asked = Instant::now();
    while arrived() == 0 {
        ensure!(asked.elapsed() < SET_UP, "no data flows");
        std::thread::sleep(LOOK);
    }
    let (began, before) = (Instant::now(), arrived());
    while began.elapsed().as_secs_f64() < options.seconds {
        std::thread::sleep(LOOK);
    }
    let (bytes, seconds) = (arrived() - before, began.elapsed().as_secs_f64());
    copying.cancel();
    println!("{{\"bytes\":{bytes},\"seconds\":{seconds:.6}}}");
    let _ = copying.wait().err().context("it ended by itself")?;
    Ok(())
}
