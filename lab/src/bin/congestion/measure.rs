//! What is measured, in which order, and the lines that say what came of it.

use crate::verdict;
use anyhow::{Context, Result, bail, ensure};
use farline_core::congestion::{Algorithm, Constants, theory};
use farline_core::units::{Rate, Span};
use farline_core::wan::Path;
use farline_lab::modules::{self, Measure};
use farline_lab::recovery::{self, Recovery, RecoveryRun, Trouble, flow::Subject};
use farline_lab::throughput::{self, Window};
use rustix::mm::{MlockAllFlags, mlockall};
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What can be measured alone.
pub(crate) const PARTS: [&str; 6] = ["loss", "pattern", "burst", "goodput", "ten", "share"];

/// What to measure.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Little of each, to see that it works.
    pub quick: bool,
    /// Of [`PARTS`].
    pub parts: Vec<&'static str>,
    /// All, without one.
    pub control: Option<Algorithm>,
    /// Of the paths over which goodput is measured.
    pub rate: Rate,
}

/// The paths whose round-trip times are measured; the one between belongs to the truth of theory
/// alone.
const PATHS: [&str; 2] = ["usn-1400", "usn-8600"];
const BETWEEN: Span = Span::from_millis(80);
/// A run is watched no longer than this after its trouble.
const LONGEST: Span = Span::from_secs(120);
/// Of the burst of the WAN PHY paper, section 6.
const BURST: Span = Span::from_secs(2);

/// For how long flows run alone, and next to CUBIC: which of two began first is to be forgotten by
/// then.
const ALONE: Window = Window { skipped: 0, counted: 12 };
const COMPARISON: Window = Window { skipped: 20, counted: 60 };
const QUICK: Window = Window { skipped: 0, counted: 5 };
/// How far BBR's goodput and share may be from the machine's: its window is no trace that could be
/// compared.
const APART: f64 = 0.1;

/// A run that does not count is repeated, so often in all.
const MOST_RUNS: u32 = 5;

/// Measures all of `plan`, a JSON line for each measurement.
///
/// # Errors
/// At the end, naming the lines, when one that counts is too far from theory or from the pure
/// machine, or when none counts.
pub(crate) fn all(plan: &Plan) -> Result<()> {
    if let Err(why) = recovery::possible() {
        bail!("cannot measure here: {why}");
    }
    let mut runs = Vec::new();
    for part in &plan.parts {
        match *part {
            "loss" => runs.extend(losses(plan)?),
            "pattern" => runs.extend(patterns(plan)?),
            "burst" => runs.extend(bursts(plan)?),
            _ => {}
        }
    }
    runs.retain(|(_, run)| plan.control.is_none_or(|control| control == run.algorithm));
    // The slow ones first, two at a time: they wait more than they work.
    runs.sort_by_key(|(_, run)| run.timeout);
    let asked = runs.len();
    let queue =
        Mutex::new(Queue { runs, under_way: Vec::new(), wrong: Vec::new(), void: Vec::new() });
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let queue = &queue;
            scope.spawn(move || work(queue, &format!("fl-cc-{worker}")));
        }
    });
    let mut too_far = Vec::new();
    for part in plan.parts.iter().filter(|part| matches!(**part, "goodput" | "ten" | "share")) {
        too_far.extend(carried(plan, part)?);
    }
    let Queue { mut wrong, void, .. } = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    wrong.extend(too_far);
    void.iter().for_each(|void| eprintln!("does not count: {void}"));
    ensure!(
        wrong.is_empty(),
        "too far from theory or from the pure machine:\n{}",
        wrong.join("\n")
    );
    ensure!(asked == 0 || void.len() < asked, "no run counts: this machine is too busy to measure");
    Ok(())
}

/// Vegas takes a jitter of two packets' share of the rtt for a queue, so that its window must be
/// short; Reno takes long.
fn window(algorithm: Algorithm, quick: bool) -> u32 {
    match algorithm {
        Algorithm::Vegas => 60,
        Algorithm::Reno if quick => 60,
        _ => 1_000,
    }
}

fn rtt_of(path: &str) -> Result<Span> {
    let path = Path::named(path).map_err(|error| anyhow::anyhow!("{error}"))?;
    path.rtt.context("a path with a length")
}

fn run(algorithm: Algorithm, rtt: Span, quick: bool, trouble: Trouble) -> Result<RecoveryRun> {
    let set = Subject::of(algorithm, Constants::Paper).set.unwrap_or(Constants::Linux);
    let window = window(algorithm, quick);
    let theory =
        theory::recovery(algorithm, set, f64::from(window), rtt).context("it is driven by loss")?;
    let watched = match &trouble {
        Trouble::Losses(spans) => {
            spans.last().copied().unwrap_or_default() + theory.mul_f64(1.3) + Span::from_secs(2)
        }
        // From a window of next to nothing.
        Trouble::Burst(span) => *span + theory.mul_f64(2.5) + Span::from_secs(8),
    };
    Ok(RecoveryRun {
        algorithm,
        set,
        window,
        rtt,
        mtu: 1500,
        timeout: watched.min(LONGEST),
        trouble,
    })
}

fn driven_by_loss() -> impl Iterator<Item = Algorithm> {
    Algorithm::ALL.into_iter().filter(|&algorithm| algorithm != Algorithm::Bbr)
}

type Runs = Vec<(&'static str, RecoveryRun)>;

fn losses(plan: &Plan) -> Result<Runs> {
    let mut rtts = vec![rtt_of(PATHS[0])?];
    if !plan.quick {
        rtts.extend([BETWEEN, rtt_of(PATHS[1])?]);
    }
    let pairs =
        rtts.into_iter().flat_map(|rtt| driven_by_loss().map(move |algorithm| (algorithm, rtt)));
    pairs
        .map(|(algorithm, rtt)| Ok(("loss", run(algorithm, rtt, plan.quick, Trouble::one_loss())?)))
        .collect()
}

/// Three losses: the second before the window is whole again, the third later.
fn patterns(plan: &Plan) -> Result<Runs> {
    let rtt = if plan.quick { rtt_of(PATHS[0])? } else { BETWEEN };
    let pattern = |algorithm| {
        let once = run(algorithm, rtt, true, Trouble::one_loss())?;
        let theory = theory::recovery(algorithm, once.set, f64::from(once.window), rtt)
            .context("it is driven by loss")?;
        let apart = theory.mul_f64(0.6) + rtt.mul_f64(4.0);
        let spans = vec![Span::ZERO, apart, apart + theory.mul_f64(1.4) + rtt.mul_f64(4.0)];
        Ok(("pattern", run(algorithm, rtt, true, Trouble::Losses(spans))?))
    };
    driven_by_loss().map(pattern).collect()
}

fn bursts(plan: &Plan) -> Result<Runs> {
    let paths = if plan.quick { &PATHS[..1] } else { &PATHS[..] };
    let mut runs = Vec::new();
    for path in paths {
        for algorithm in driven_by_loss() {
            runs.push(("burst", run(algorithm, rtt_of(path)?, plan.quick, Trouble::Burst(BURST))?));
        }
    }
    Ok(runs)
}

/// What is to be run, the next at the end, of which controls a run is under way, and which lines
/// were wrong or do not count.
struct Queue {
    runs: Runs,
    under_way: Vec<Algorithm>,
    wrong: Vec<String>,
    void: Vec<String>,
}

/// Runs what is in the queue, over a link called `link`. A name is seen by the whole machine: no
/// two runs of one control at a time.
fn work(queue: &Mutex<Queue>, link: &str) {
    loop {
        let mut locked = queue.lock().unwrap_or_else(PoisonError::into_inner);
        if locked.runs.is_empty() {
            return;
        }
        let free =
            locked.runs.iter().rposition(|(_, run)| !locked.under_way.contains(&run.algorithm));
        let Some(next) = free else {
            drop(locked);
            std::thread::sleep(Duration::from_millis(200));
            continue;
        };
        let (part, run) = locked.runs.remove(next);
        locked.under_way.push(run.algorithm);
        drop(locked);
        let line = one(part, &run, link);
        println!("{line}");
        let mut locked = queue.lock().unwrap_or_else(PoisonError::into_inner);
        locked.wrong.extend(verdict::wrong(&line));
        locked.void.extend(verdict::void(&line));
        locked.under_way.retain(|&algorithm| algorithm != run.algorithm);
    }
}

/// Of the kernel that runs here.
fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Runs until the machine has let one count that is right, or two that are wrong: a machine that is
/// busy with something else disturbs one in ways that no figure of the link shows. Next to one that
/// is wrong it takes two that are right.
fn one(part: &str, run: &RecoveryRun, link: &str) -> Value {
    let head = json!({ "part": part, "control": run.algorithm.name(), "set": run.set.to_string(), "kernel": kernel_release(),
        "rtt_s": run.rtt.as_secs_f64(), "window": run.window, "watched_s": run.timeout.as_secs_f64() });
    let (mut right, mut wrong, mut last) = (Vec::new(), Vec::new(), head.clone());
    for _ in 0..MOST_RUNS {
        let mut line = head.clone();
        line["void"] = match recovery::kernel(run, link) {
            Err(error) => error.to_string().into(),
            Ok(kernel) => {
                describe(&mut line, run, &kernel);
                kernel.void().into()
            }
        };
        if !line["void"].is_null() {
            last = line;
            continue;
        }
        if verdict::wrong(&line).is_some() { &mut wrong } else { &mut right }.push(line);
        match (right.len(), wrong.len()) {
            (1, 0) | (2, _) => return right.swap_remove(0),
            (_, 2) => return wrong.swap_remove(0),
            _ => {}
        }
    }
    match right.pop().or(wrong.pop()) {
        Some(mut line) => {
            line["void"] =
                "too few of its runs counted to tell a disturbed one from the others".into();
            line
        }
        None => last,
    }
}

fn describe(line: &mut Value, run: &RecoveryRun, kernel: &Recovery) {
    let rtt =
        if matches!(run.trouble, Trouble::Burst(_)) { run.rtt.as_secs_f64() } else { kernel.rtt };
    let machine = recovery::simulated(run, rtt);
    let theory = kernel.theory(run).map(|span| span.as_secs_f64());
    let window = f64::from(run.window);
    let measured = json!({
        "measured_rtt_s": kernel.rtt,
        "used": kernel.used,
        "detected_s": kernel.first().at,
        "reductions": kernel.reductions.len(),
        "timeouts": kernel.reductions.iter().filter(|reduction| reduction.timeout).count(),
        "reduced_for_s": kernel.last().at + kernel.last().lasted.unwrap_or(0.0) - kernel.first().at,
        "cuts": kernel.reductions.iter().map(|one| [one.at, one.before, one.from]).collect::<Vec<_>>(),
        "depth": kernel.depth / window,
        "from": kernel.from / window,
        "theory_s": theory,
        "kernel_s": kernel.seconds,
        "machine_s": machine.seconds,
        "machine_reductions": machine.reductions.len(),
        "apart": recovery::largest_difference(kernel, &machine, theory.unwrap_or(0.0)),
    });
    if let (Some(line), Value::Object(measured)) = (line.as_object_mut(), measured) {
        line.extend(measured);
    }
}

/// Goodput alone and in tens, and the share next to CUBIC; returns which of BBR's are too far from
/// the machine's.
fn carried(plan: &Plan, part: &str) -> Result<Vec<String>> {
    let mut too_far = Vec::new();
    let paths = if plan.quick { &PATHS[..1] } else { &PATHS[..] };
    for path in paths {
        for algorithm in plan.control.map_or(Algorithm::ALL.to_vec(), |control| vec![control]) {
            let ours = Subject::of(algorithm, Constants::Paper);
            let groups = match part {
                "goodput" => vec![(ours, 1)],
                "ten" => vec![(ours, 10)],
                _ => vec![(ours, 1), (Subject::of(Algorithm::Cubic, Constants::Linux), 1)],
            };
            let spell = match (part, plan.quick) {
                (_, true) => QUICK,
                ("share", _) => COMPARISON,
                _ => ALONE,
            };
            let mut measured = throughput::over_link("fl-cc-t", path, plan.rate, &groups, spell)?;
            for _ in 0..2 {
                if !measured.inexact.is_empty() {
                    measured = throughput::over_link("fl-cc-t", path, plan.rate, &groups, spell)?;
                }
            }
            let received: Vec<u64> = measured.received.iter().map(|rate| rate.as_bps()).collect();
            println!(
                "{}",
                json!({ "part": part, "control": algorithm.name(), "path": path, "rate_bps": plan.rate.as_bps(),
                    "kernel": kernel_release(),
                    "streams": groups[0].1, "skipped": spell.skipped, "seconds": spell.counted, "received_bps": received,
                    "set": ours.set.map_or("linux".to_owned(), |set| set.to_string()),
                    "void": measured.inexact.first() })
            );
            if algorithm == Algorithm::Bbr
                && part != "ten"
                && !plan.quick
                && measured.inexact.is_empty()
            {
                let (kernel, machine) = match part {
                    "share" => {
                        let shares = throughput::simulated_shares(
                            path,
                            plan.rate,
                            (algorithm, Constants::Linux),
                            spell,
                        )?;
                        (
                            throughput::share_of(&measured.received),
                            shares.iter().sum::<f64>() / shares.len() as f64,
                        )
                    }
                    _ => {
                        let flow = [(algorithm, Constants::Linux, Span::ZERO)];
                        let alone = throughput::simulated(path, plan.rate, &flow, spell)?;
                        (measured.received[0].as_bps() as f64, alone[0].as_bps() as f64)
                    }
                };
                if (kernel / machine - 1.0).abs() > APART {
                    too_far.push(format!(
                        "bbr, {part}, {path}: kernel {kernel:.3e}, machine {machine:.3e}"
                    ));
                }
            }
        }
    }
    Ok(too_far)
}

/// Linux's modules next to Farline's programs.
pub(crate) fn modules(only: Option<Algorithm>) -> Result<()> {
    // A page of this program that is read from the guest's slow file system while a flow runs holds
    // the flow up.
    mlockall(MlockAllFlags::CURRENT)?;
    let mut too_far = Vec::new();
    for algorithm in
        modules::BOTH.into_iter().filter(|&algorithm| only.is_none_or(|only| only == algorithm))
    {
        for (measure, name) in [(Measure::Recovery, "recovery"), (Measure::Goodput, "goodput")] {
            let pair = modules::pair(algorithm, measure)?;
            let (module, bpf) = pair.means();
            let found = pair.apart();
            println!(
                "{}",
                json!({ "part": "module", "control": algorithm.name(), "kernel": kernel_release(), "measure": name,
                    "window": modules::window(algorithm), "module": module, "bpf": bpf,
                    "apart": found.map(|apart| apart.part), "apart_within": found.map(|apart| apart.within),
                    "modules": pair.module, "bpfs": pair.bpf })
            );
            match found {
                Some(apart) if apart.agrees() => {}
                Some(apart) => {
                    too_far.push(format!("{algorithm}: {name} {:+.1} %", apart.part * 100.0))
                }
                None => too_far.push(format!("{algorithm}: {name} not measured")),
            }
        }
    }
    if too_far.is_empty() {
        Ok(())
    } else {
        bail!("too far from Linux's module: {}", too_far.join(", "))
    }
}
