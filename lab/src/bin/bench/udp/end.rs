//! One end of a UDT connection of Farline's, with the arguments of `lab/udt/peer.cpp` and its last
//! line.

use anyhow::{Context, Result, bail};
use farline::channels::ordered::ByteStream;
use farline::channels::udt::{UdtOptions, UdtPort, UdtStream, connect};
use farline_core::udt::RateAlgorithm;
use farline_core::units::{Bytes, Rate};
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Waits here rather than connecting
    #[arg(long)]
    listen: bool,
    /// Where to
    address: SocketAddr,
    /// `send` or `receive`
    what: String,
    bytes: u64,
    /// `udt`, `bbr`, or a rate to hold
    #[arg(long, default_value = "udt")]
    control: String,
    /// Ends after so many seconds of bytes, however many came
    #[arg(long)]
    seconds: Option<f64>,
    /// Of the send and of the receive buffer
    #[arg(long, default_value = "128MiB")]
    buffer: Bytes,
}

/// Moves bytes and prints a line.
///
/// # Errors
/// When they are not all moved.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rate = match options.control.as_str() {
        "udt" => RateAlgorithm::Native,
        "bbr" => RateAlgorithm::Bbr,
        rate => RateAlgorithm::Held(rate.parse::<Rate>()?),
    };
    let mut settings = UdtOptions::default();
    (settings.rate, settings.buffer) = (rate, options.buffer);
    let mut stream = if options.listen {
        accepted(options.address, &settings)?
    } else {
        connect(options.address, None, &settings, Duration::from_secs(30))?
    };
    let (began, before) = (Instant::now(), processor_seconds()?);
    let moved = match options.what.as_str() {
        // The other end closes when its time is over.
        "send" if options.seconds.is_some() => send(&mut stream, options.bytes).map_or(0, |()| 0),
        "send" => send(&mut stream, options.bytes).map(|()| options.bytes)?,
        "receive" => receive(&mut stream, options.bytes, options.seconds)?,
        other => bail!("`{other}` is neither send nor receive"),
    };
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{{\"bytes\":{},\"seconds\":{seconds:.6},\"cpu_seconds\":{:.6}}}",
        moved,
        processor_seconds()? - before
    );
    Ok(())
}

fn accepted(address: SocketAddr, settings: &UdtOptions) -> Result<UdtStream> {
    let (arrives, arrived) = mpsc::channel();
    let accept = Box::new(move |stream, _| arrives.send(stream).is_ok());
    let _port = UdtPort::open(UdpSocket::bind(address)?, settings, accept)?;
    println!("ready");
    arrived.recv().context("nobody connects")
}

fn send(stream: &mut UdtStream, bytes: u64) -> Result<()> {
    let piece = vec![7; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(piece.len() as u64);
        stream.write_all(&piece[..len as usize])?;
        left -= len;
    }
    stream.finish()?;
    // The end is when the other has everything.
    match stream.read(&mut [0]) {
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => bail!("the other end sends too"),
    }
}

/// How many bytes came: all, or those of so many seconds.
fn receive(stream: &mut UdtStream, bytes: u64, seconds: Option<f64>) -> Result<u64> {
    let (mut piece, began) = (vec![0; 1 << 20], Instant::now());
    let mut left = bytes;
    while left > 0 && seconds.is_none_or(|seconds| began.elapsed().as_secs_f64() < seconds) {
        let most = left.min(piece.len() as u64) as usize;
        stream.expect(most.min(512 << 10));
        match stream.read(&mut piece[..most])? {
            0 => bail!("it ended {left} bytes early"),
            read => left -= read as u64,
        }
    }
    Ok(bytes - left)
}

/// What this process took of the processors so far.
///
/// # Errors
/// When the system does not tell.
pub(crate) fn processor_seconds() -> Result<f64> {
    farline_lab::processor_seconds(std::process::id()).context("its processor time")
}
