//! Measures congestion controls in the kernel over emulated paths, and writes docs/congestion.md
//! from what was measured.
//!
//! `farline-congestion measure [--quick] [--only PART] [--control NAME] [--rate RATE]` prints a
//! JSON line for each measurement, and at its end fails with the lines that are too far from theory
//! (15 % after losses, 25 % after a burst) or from the pure machine's window (10 %);
//! `farline-congestion render FILE` turns such lines into the document, of two for the same the
//! later. Root, iperf3 and a machine that is not busy are needed; all takes half an hour, `--quick`
//! four minutes. A part is `loss`, `pattern`, `burst`, `goodput`, `ten` or `share`.
//! `farline-congestion modules [NAME]` belongs into the guest of `lab/guest`, which has Linux's
//! modules: it prints lines for each control and fails when the mean of Farline's program is more
//! than a tenth from the module's, with as many flows as it takes to tell.

mod document;
mod measure;
mod verdict;

use anyhow::{Context, Result, bail};
use farline_core::units::Rate;
use measure::{PARTS, Plan};
use serde_json::Value;

const USAGE: &str = "usage: farline-congestion measure [--quick] [--only PART] [--control NAME] \
    [--rate RATE] | modules [NAME] | render FILE";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((verb, rest)) if verb == "measure" => measure::all(&plan(rest)?),
        Some((verb, [])) if verb == "modules" => measure::modules(None),
        Some((verb, [name])) if verb == "modules" => {
            measure::modules(Some(name.parse().map_err(|error| anyhow::anyhow!("{error}"))?))
        }
        Some((verb, [file])) if verb == "render" => {
            let text = std::fs::read_to_string(file).with_context(|| file.clone())?;
            let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
            print!("{}", document::render(&lines?)?);
            Ok(())
        }
        _ => bail!(USAGE),
    }
}

fn plan(arguments: &[String]) -> Result<Plan> {
    let mut plan = Plan {
        quick: false,
        parts: PARTS.to_vec(),
        control: None,
        rate: Rate::from_bps(500_000_000),
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.as_slice().first()) {
            ("--quick", _) => plan.quick = true,
            ("--only", Some(part)) => {
                plan.parts = PARTS.into_iter().filter(|known| known == part).collect();
                arguments.next();
            }
            ("--control", Some(name)) => {
                plan.control = Some(name.parse().map_err(|error| anyhow::anyhow!("{error}"))?);
                arguments.next();
            }
            ("--rate", Some(rate)) => {
                plan.rate = rate.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
                arguments.next();
            }
            _ => bail!(USAGE),
        }
    }
    if plan.parts.is_empty() {
        bail!("there is no such part; there are {}", PARTS.join(", "))
    } else {
        Ok(plan)
    }
}
