//! Circuits by an operator's own program: it is run for each look and each step, with JSON on its
//! standard input and, for a look, on its standard output.
//!
//! Input: `{"schema":"farline/circuit-order/1","verb":"show"}`, or `prepare`, `open`, `change`, `shut` or
//! `remove` with `number` and what belongs to it. Output of `show`: `{"circuits":[{"number":48,
//! "rate_bps":2000000000,"open":true,"route":["a>b"],"carried_bytes":0}]}`. Exit code 0 is done; else
//! the last line of standard error says why not.

use super::driver::{CircuitDriver, DeviceCircuit};
use farline_core::calendar::Topology;
use farline_core::calendar::circuit::{ActualCircuit, CircuitNumber, CircuitStep, DesiredCircuit};
use farline_core::units::{Error, ErrorCode, Fault, Rate};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The driver.
#[derive(Clone, Debug)]
pub struct CommandDriver {
    program: PathBuf,
}

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
    /// Circuits by `program`.
    pub fn new(program: &Path) -> CommandDriver {
        CommandDriver { program: program.to_owned() }
    }

    fn run(&self, order: &Value) -> Result<Vec<u8>, Error> {
        let failed = |why: String| {
            let message = format!("{}: {why}", self.program.display());
            Error::new(Fault::Here, ErrorCode::CircuitFailed, message)
        };
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its order says so by its exit code.
            let _ = stdin.write_all(order.to_string().as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it says nothing").to_owned();
        Err(failed(format!("{}, {last}", output.status)))
    }
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
            (number, DeviceCircuit { circuit, carried, addresses })
        });
        Ok(known.collect())
    }

    fn step(&mut self, topology: &Topology, step: &CircuitStep) -> Result<(), Error> {
        self.run(&order(topology, step)).map(drop)
    }
}
