//! What flows carry over a path, alone, in tens, and next to CUBIC: in the kernel over an emulated
//! one, and as machines over a simulated one.

use crate::recovery::flow::{Ends, Subject, quiet, retry, until_registered};
use crate::recovery::link::{Up, inexact};
use crate::{Running, farline, succeed};
use anyhow::{Context, Result, anyhow};
use farline_core::congestion::sim::{FlowScenario, Simulation};
use farline_core::congestion::{Algorithm, Constants, Start};
use farline_core::units::{Rate, Span};
use farline_core::wan::{Direction, Path};
use serde_json::Value;

/// Before the line: a link's own would be 4 MiB on a path of so little.
const QUEUE: &str = "1bdp";

/// What of flows is measured: so many seconds, after so many that do not count.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Seconds in which flows may come to terms.
    pub skipped: u32,
    /// Seconds that count.
    pub counted: u32,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Throughput {
    /// What the receiver got, of each group of flows.
    pub received: Vec<Rate>,
    /// Why the link says that it was not exact enough; empty when it was.
    pub inexact: Vec<String>,
}

/// Runs groups of flows, each a control with a number of streams, at the same time for a `window`
/// over a link called `name` like `path` at `rate`; each begins with a slow start, which counts
/// where nothing is skipped.
///
/// # Errors
/// When a flow failed.
pub fn over_link(
    name: &str,
    path: &str,
    rate: Rate,
    groups: &[(Subject, u32)],
    window: Window,
) -> Result<Throughput> {
    let rate = format!("{}bit/s", rate.as_bps());
    let link = Up::new(
        name,
        path,
        &["--rate", &rate, "--mtu", "1500", "--queue", QUEUE].map(str::to_owned),
    );
    let received = over(&link, groups, window)?;
    Ok(Throughput { received, inexact: inexact(&link.stats()?) })
}

/// The same between any two ends.
///
/// # Errors
/// When a flow failed.
pub fn over(ends: &dyn Ends, groups: &[(Subject, u32)], window: Window) -> Result<Vec<Rate>> {
    let (_, peer) = ends.route();
    let mut held = Vec::new();
    let mut clients = Vec::new();
    for (index, (subject, streams)) in groups.iter().enumerate() {
        let name = subject.registered();
        if subject.set.is_some()
            || !farline::kernelcc::available().iter().any(|have| *have == name.as_str())
        {
            let mut load = farline();
            held.push(Running(quiet(load.args(["cc", "load"]).args(subject.arguments())).spawn()?));
            until_registered(&name)?;
        }
        let port = (5301 + index).to_string();
        let serve = format!("iperf3 -s -1 -p {port}; exec iperf3 -s -1 -p {port}");
        held.push(Running(quiet(&mut ends.at("b", &["sh", "-c", &serve])).spawn()?));
        retry(|| {
            quiet(&mut ends.at("a", &["iperf3", "-c", peer, "-p", &port, "-n", "1"])).status()
        })?;
        clients.push((port, name, streams.to_string()));
    }
    let (skipped, time) = (window.skipped.to_string(), window.counted.to_string());
    let measure = |(port, name, streams): &(String, String, String)| -> Result<Rate> {
        let arguments = [
            "iperf3", "-J", "-c", peer, "-p", port, "-C", name, "-P", streams, "-O", &skipped,
            "-t", &time,
        ];
        let report: Value = serde_json::from_str(&succeed(&mut ends.at("a", &arguments)))?;
        let bps = report["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .context("iperf3 says what was received")?;
        Ok(Rate::from_bps(bps as u64))
    };
    let measure = &measure;
    std::thread::scope(|scope| {
        let running: Vec<_> =
            clients.iter().map(|client| scope.spawn(move || measure(client))).collect();
        running.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

/// What the pure machines carry over the simulated `path` at `rate`, each from a cold start at its
/// time, in packets of 1448 bytes of payload.
///
/// # Errors
/// When there is no such path.
pub fn simulated(
    path: &str,
    rate: Rate,
    flows: &[(Algorithm, Constants, Span)],
    window: Window,
) -> Result<Vec<Rate>> {
    let settings = Path::named(path)
        .and_then(|path| path.settings(Some(rate), None))
        .map_err(|error| anyhow!("{error}"))?;
    let scenario = FlowScenario {
        // As long as QUEUE says.
        direction: Direction { queue: settings.bandwidth_delay_product(), ..settings.a_to_b },
        changes: Vec::new(),
        flows: flows
            .iter()
            .map(|&(algorithm, set, after)| (algorithm, set, Start { after, ..Start::default() }))
            .collect(),
        sample_every: Span::from_millis(10),
        train: 8,
        seed: 1,
    };
    let mut simulation = Simulation::new(&scenario);
    let mut until = |seconds: u32| -> Vec<u64> {
        simulation.run(Span::from_secs(u64::from(seconds)), |_| false);
        (0..flows.len())
            .map(|flow| simulation.trace(flow).last().map_or(0, |point| point.delivered))
            .collect()
    };
    let (before, all) = (until(window.skipped), until(window.skipped + window.counted));
    let rate = |(before, all): (&u64, &u64)| {
        Rate::from_bps((all - before) * 1448 * 8 / u64::from(window.counted))
    };
    Ok(before.iter().zip(&all).map(rate).collect())
}

/// What a flow of `ours` takes of the sum with one of CUBIC next to it, as machines: where it
/// begins a tenth of a second after that one, at the same time, and as long before. Real flows
/// begin as it happens, and which was first can decide for a minute.
///
/// # Errors
/// As [`simulated`].
pub fn simulated_shares(
    path: &str,
    rate: Rate,
    ours: (Algorithm, Constants),
    window: Window,
) -> Result<[f64; 3]> {
    let apart = Span::from_millis(100);
    let share = |(late, early)| {
        let flows = [(ours.0, ours.1, late), (Algorithm::Cubic, Constants::Linux, early)];
        simulated(path, rate, &flows, window).map(|rates| share_of(&rates))
    };
    Ok([share((apart, Span::ZERO))?, share((Span::ZERO, Span::ZERO))?, share((Span::ZERO, apart))?])
}

/// The first one's part of the sum.
pub fn share_of(rates: &[Rate]) -> f64 {
    let sum = rates.iter().map(|rate| rate.as_bps()).sum::<u64>().max(1);
    rates[0].as_bps() as f64 / sum as f64
}
