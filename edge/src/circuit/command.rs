//! Circuits by an operator's own program: it is run for each look and each step, with JSON on its
//! standard input and, for a look, on its standard output.
//!
//! Input: `{"schema":"farline/circuit-order/1","verb":"show"}`, or `prepare`, `open`, `change`,
//! `shut` or `remove` with `number` and what belongs to it. Output of `show`:
//! `{"circuits":[{"number":48,
//! "rate_bps":2000000000,"open":true,"route":["a>b"],"carried_bytes":0}]}`. Exit code 0 is done;
//! else the last line of standard error says why not.

use super::driver::{CircuitDriver, DeviceCircuit};
use crate::sys::child::ended_within;
use farline_core::calendar::Topology;
use farline_core::calendar::circuit::{ActualCircuit, CircuitNumber, CircuitStep, DesiredCircuit};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Setting, Span};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The driver.
#[derive(Clone, Debug)]
pub struct CommandDriver {
    program: PathBuf,
    timeout: Duration,
}

/// How long the program may take for a step or a look where nothing else is said.
pub const CIRCUIT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long what it said may take to be read, once it has ended.
const PIPES: Duration = Duration::from_secs(1);
/// As much as it may say.
const LONGEST: u64 = 16 << 20;

/// What `show` says of a circuit.
#[derive(Debug, Deserialize)]
struct Shown {
    number: u32,
    rate_bps: u64,
    open: bool,
    route: Option<Vec<String>>,
    #[serde(default)]
    carried_bytes: u64,
    addresses: Option<[IpAddr; 2]>,
}

/// What `show` says.
#[derive(Debug, Deserialize)]
struct ShownAll {
    circuits: Vec<Shown>,
}

impl CommandDriver {
    /// Circuits by `program`, which may take so long for each step.
    pub fn new(program: &Path, timeout: Duration) -> CommandDriver {
        CommandDriver { program: program.to_owned(), timeout }
    }

    fn run(&self, order: &Value) -> Result<Vec<u8>, Error> {
        let failed = |why: String| {
            let message = format!("{}: {why}", self.program.display());
            Error::new(Fault::Here, ErrorCode::CircuitFailed, message)
        };
        // A group of its own, so that what it starts ends with it.
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // An order has room in a pipe; a program that does not read it says so by its exit
            // code.
            let _ = stdin.write_all(order.to_string().as_bytes());
        }
        let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
        let Some(status) = ended_within(&mut child, self.timeout) else {
            let group = Pid::from_child(&child);
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
            let timeout = Span::from(self.timeout);
            return Err(failed(format!("it did not end within {timeout}, and was killed"))
                .hint(format!("a program of {} does its step and ends", Setting::Command)));
        };
        // What it left running may hold its pipes; what it said itself is there by then.
        let said = |(said, is_over): Said| {
            let _ = is_over.recv_timeout(PIPES);
            std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let (out, err) = (said(out), said(err));
        if status.success() {
            return Ok(out);
        }
        let said = String::from_utf8_lossy(&err);
        let last = said.lines().last().unwrap_or("it says nothing").to_owned();
        Err(failed(format!("{status}, {last}")))
    }
}

/// What came out of a pipe so far, and a channel that ends with the pipe.
type Said = (Arc<Mutex<Vec<u8>>>, Receiver<()>);

/// Reads a pipe to its end, up to as much as is ever said, in a thread of its own.
fn read(pipe: Option<impl Read + Send + 'static>) -> Said {
    let said = Arc::new(Mutex::new(Vec::new()));
    let (over, is_over) = sync_channel::<()>(0);
    let so_far = Arc::clone(&said);
    let work = move || {
        let _over = over;
        let Some(pipe) = pipe else { return };
        let (mut pipe, mut part) = (pipe.take(LONGEST), [0; 4096]);
        while let Ok(n @ 1..) = pipe.read(&mut part) {
            so_far.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..n]);
        }
    };
    // Without the thread nothing was said.
    drop(std::thread::Builder::new().name("circuits".to_owned()).spawn(work));
    (said, is_over)
}

fn order(topology: &Topology, step: &CircuitStep) -> Value {
    let schema = "farline/circuit-order/1";
    match step {
        CircuitStep::Prepare(number, circuit) => {
            let route: Vec<&str> =
                circuit.route.iter().map(|id| topology.link(*id).name.as_str()).collect();
            json!({
                "schema": schema, "verb": "prepare", "number": number.0,
                "reservation": number.reservation().to_string(),
                "from": topology.site_name(circuit.from), "to": topology.site_name(circuit.to),
                "route": route, "rate_bps": circuit.rate.as_bps(), "both_ways": circuit.both_ways,
            })
        }
        CircuitStep::Open(number) => {
            json!({ "schema": schema, "verb": "open", "number": number.0 })
        }
        CircuitStep::Change(number, rate) => json!({
            "schema": schema, "verb": "change", "number": number.0, "rate_bps": rate.as_bps(),
        }),
        CircuitStep::Shut(number) => {
            json!({ "schema": schema, "verb": "shut", "number": number.0 })
        }
        CircuitStep::Remove(number) => {
            json!({ "schema": schema, "verb": "remove", "number": number.0 })
        }
    }
}

impl CircuitDriver for CommandDriver {
    fn circuits(
        &mut self,
        topology: &Topology,
        wanted: &BTreeMap<CircuitNumber, DesiredCircuit>,
    ) -> Result<BTreeMap<CircuitNumber, DeviceCircuit>, Error> {
        let said = self.run(&json!({ "schema": "farline/circuit-order/1", "verb": "show" }))?;
        let shown: ShownAll = serde_json::from_slice(&said).map_err(|error| {
            let message = format!("{} says what cannot be read: {error}", self.program.display());
            Error::new(Fault::Here, ErrorCode::CircuitFailed, message)
        })?;
        let known = shown.circuits.into_iter().map(|there| {
            let number = CircuitNumber(there.number);
            let as_ordered = match (wanted.get(&number), &there.route) {
                (Some(wanted), Some(route)) => {
                    let names = wanted.route.iter().map(|id| &topology.link(*id).name);
                    names.eq(route.iter())
                }
                _ => true,
            };
            let rate = Rate::from_bps(there.rate_bps);
            let circuit = ActualCircuit { rate, open: there.open, as_ordered };
            let (carried, addresses) = (there.carried_bytes, there.addresses);
            (number, DeviceCircuit { circuit, carried, addresses, trouble: None })
        });
        Ok(known.collect())
    }

    fn step(&mut self, topology: &Topology, step: &CircuitStep) -> Result<(), Error> {
        self.run(&order(topology, step)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    /// What a program of this text comes to within half a second.
    fn run(text: &str) -> Result<Vec<u8>, Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it may run");
        CommandDriver::new(&path, Duration::from_millis(500)).run(&json!({ "verb": "show" }))
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_told() {
        assert_eq!(run("cat").expect("it ends"), br#"{"verb":"show"}"#);
        let begun = Instant::now();
        let error = run("sleep 60").expect_err("it hangs");
        assert!(error.message.contains("did not end within 500 ms"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let error = run("echo one >&2; echo two >&2; exit 3").expect_err("it fails");
        assert!(error.message.ends_with("two"), "{error}");
        // One that leaves something running has ended itself.
        assert_eq!(run("sleep 30 2>&1 >/dev/null & echo said").expect("it ends"), b"said\n");
    }
}
