//! Flows over one link at once: their kinds, and what each brings.

use crate::side::{Ends, Node, binary};
use anyhow::{Context, Result};
use farline_core::congestion::Algorithm;
use farline_core::udt::RateAlgorithm;
use farline_core::units::Rate;
use serde_json::Value;
use std::fmt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where the first of the ends meet.
const PORT: u16 = 5_310;
/// How long who listens has until the other end asks.
const LISTENS: Duration = Duration::from_millis(200);

/// What a flow is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A UDT connection, by what paces it.
    Udt(RateAlgorithm),
    /// A copy over one QUIC connection, which CUBIC paces in user space.
    Quic,
    /// A TCP connection of iperf3's, by the kernel's control.
    Tcp(Algorithm),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Udt(RateAlgorithm::Native) => f.write_str("UDT"),
            Kind::Udt(RateAlgorithm::Held(rate)) => write!(f, "held at {rate}"),
            Kind::Udt(control) => write!(f, "UDT with {control}"),
            Kind::Quic => f.write_str("QUIC"),
            Kind::Tcp(control) => write!(f, "TCP's {control}"),
        }
    }
}

/// Flows of these kinds at once; what each brought, in bit/s.
///
/// # Errors
/// When one of them fails.
pub(super) fn together(ends: &Ends, kinds: &[Kind], seconds: u32) -> Result<Vec<f64>> {
    let folder = tempfile::tempdir()?;
    let node = match kinds.contains(&Kind::Quic) {
        true => Some(Node::start(ends, &binary(), folder.path(), &["--tls"])?),
        false => None,
    };
    let mut flows = Vec::new();
    for (port, kind) in (PORT..).zip(kinds) {
        flows.push(match kind {
            Kind::Udt(control) => Flow::udt(ends, port, seconds, *control)?,
            Kind::Quic => Flow::quic(ends, node.as_ref().context("a node")?, seconds)?,
            Kind::Tcp(control) => Flow::tcp(ends, port, seconds, &control.to_string())?,
        });
    }
    flows.into_iter().map(Flow::rate).collect()
}

/// A flow that runs: both of its ends, and how what it brought is read.
pub(super) struct Flow {
    ends: Vec<Child>,
    /// Which end says it, and what.
    says: usize,
    read: fn(&Value) -> Option<f64>,
}

impl Flow {
    fn udt(ends: &Ends, port: u16, seconds: u32, control: RateAlgorithm) -> Result<Flow> {
        let (this, time) = (std::env::current_exe()?, seconds.to_string());
        let at = format!("{}:{port}", ends.address());
        let control = match control {
            RateAlgorithm::Held(rate) => exact(rate),
            other => other.to_string(),
        };
        let end = |mut command: Command, what: &str, listen: bool| {
            command.args(["udp", "end", &at, what, "1000000000000", "--seconds", &time]);
            command.args(["--control", &control]).args(listen.then_some("--listen"));
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        };
        let receives = end(ends.b(&this), "receive", true)?;
        std::thread::sleep(LISTENS);
        let sends = end(ends.a(&this), "send", false)?;
        Ok(Flow { ends: vec![sends, receives], says: 1, read: bytes_of_seconds })
    }

    fn quic(ends: &Ends, node: &Node, seconds: u32) -> Result<Flow> {
        let mut command = ends.a(std::env::current_exe()?);
        let pin = node.fingerprint.as_deref().context("a fingerprint")?;
        command.args(["udp", "copy", &format!("farlines://{}/?null", node.address)]);
        command.args(["--pin", pin, "--channel", "quic", "--seconds", &seconds.to_string()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        Ok(Flow { ends: vec![child], says: 0, read: bytes_of_seconds })
    }

    /// A TCP connection of iperf3's.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn tcp(ends: &Ends, port: u16, seconds: u32, control: &str) -> Result<Flow> {
        let port = port.to_string();
        let mut server = ends.b("iperf3");
        server.args(["-s", "-1", "-p", &port]).stdout(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn()?;
        std::thread::sleep(LISTENS);
        let mut client = ends.a("iperf3");
        client.args(["-c", ends.address(), "-p", &port, "-J", "-i", "0.5", "-C", control]);
        client.args(["-t", &seconds.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
        let read = |said: &Value| said["end"]["sum_received"]["bits_per_second"].as_f64();
        Ok(Flow { ends: vec![client.spawn()?, server], says: 0, read })
    }

    /// What its end printed.
    ///
    /// # Errors
    /// When that is no JSON.
    pub(super) fn said(self) -> Result<Value> {
        let mut said = Value::Null;
        for (index, end) in self.ends.into_iter().enumerate() {
            let output = end.wait_with_output()?;
            if index == self.says {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let last = text.lines().last().unwrap_or_default();
                said = serde_json::from_str(&text)
                    .or_else(|_| serde_json::from_str(last))
                    .with_context(|| text.clone())?;
            }
        }
        Ok(said)
    }

    fn rate(self) -> Result<f64> {
        let read = self.read;
        let said = self.said()?;
        read(&said).with_context(|| said.to_string())
    }
}

fn bytes_of_seconds(said: &Value) -> Option<f64> {
    Some(said["bytes"].as_f64()? * 8.0 / said["seconds"].as_f64()?)
}

/// A rate as every command takes it, without rounding.
fn exact(rate: Rate) -> String {
    format!("{}bit/s", rate.as_bps())
}
