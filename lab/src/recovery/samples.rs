//! From the lines of a trace to the reductions of a flow's window and its way back.

use super::{Recovery, Reduction};
use anyhow::{Context, Result};
use serde_json::Value;

/// A flow at a moment.
#[derive(Clone, Debug)]
pub struct WindowSample {
    /// Seconds of the kernel's monotonic clock.
    pub at: f64,
    /// Window, in packets.
    pub window: f64,
    /// Threshold, in packets; infinite before the first loss.
    pub threshold: f64,
    /// Smoothed round-trip time, in seconds.
    pub rtt: f64,
    /// Packets delivered, modulo 2^32.
    pub delivered: u32,
    /// As `farline cc trace` names it.
    pub state: String,
}

impl From<&farline::kernelcc::FlowSample> for WindowSample {
    fn from(sample: &farline::kernelcc::FlowSample) -> WindowSample {
        WindowSample {
            at: sample.time_us as f64 / 1e6,
            window: f64::from(sample.cwnd),
            threshold: sample.ssthresh.map_or(f64::INFINITY, f64::from),
            rtt: f64::from(sample.srtt_us) / 1e6,
            delivered: sample.delivered,
            state: sample.state.to_owned(),
        }
    }
}

/// The samples of the one flow in a trace's lines that came to a window of `window` packets: a
/// test's flow has a control connection next to it.
///
/// # Errors
/// When none did.
pub fn pick(lines: &str, window: f64) -> Result<Vec<WindowSample>> {
    let samples: Vec<Value> =
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let number = |sample: &Value, key: &str| sample[key].as_f64();
    let ours =
        samples.iter().find(|sample| number(sample, "cwnd").is_some_and(|cwnd| cwnd >= window));
    let flow = ours.with_context(|| format!("no flow came to {window} packets"))?["flow"].clone();
    let sample = |sample: &Value| {
        Some(WindowSample {
            at: number(sample, "time_us")? / 1e6,
            window: number(sample, "cwnd")?,
            threshold: number(sample, "ssthresh").unwrap_or(f64::INFINITY),
            rtt: number(sample, "srtt_us")? / 1e6,
            delivered: u32::try_from(sample["delivered"].as_u64()?).ok()?,
            state: sample["state"].as_str()?.to_owned(),
        })
    };
    Ok(samples.iter().filter(|sample| sample["flow"] == flow).filter_map(sample).collect())
}

/// When the youngest flow in a trace's lines began, in seconds of the monotonic clock: the one that
/// carries data.
pub(crate) fn began(lines: &str) -> Option<f64> {
    let mut flows: Vec<(Value, f64)> = Vec::new();
    for sample in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if let Some(at) = sample["time_us"].as_f64()
            && !flows.iter().any(|(flow, _)| *flow == sample["flow"])
        {
            flows.push((sample["flow"].clone(), at / 1e6));
        }
    }
    flows.iter().map(|(_, at)| *at).reduce(f64::max)
}

fn is_open(sample: &WindowSample) -> bool {
    matches!(sample.state.as_str(), "open" | "disorder")
}

/// Finds the reductions after the flow stood at `window` packets, and its way back there.
/// `trouble_at` is when what made them began, and before `free_at` the way back does not begin: a
/// control that yields to a queue waits until the queue is gone.
///
/// # Errors
/// When there was none.
pub fn evaluate(
    samples: &[WindowSample],
    window: f64,
    trouble_at: f64,
    free_at: f64,
) -> Result<Recovery> {
    let stood = samples
        .iter()
        .position(|sample| sample.window >= window)
        .context("the flow never stood")?;
    let samples = &samples[stood..];
    let is_reduction = |i: usize| {
        let (before, now) = (&samples[i - 1], &samples[i]);
        // Within a recovery only a timer that runs out reduces again, and not always.
        !is_open(now) && (is_open(before) || now.threshold < before.threshold)
    };
    let found: Vec<usize> = (1..samples.len()).filter(|&i| is_reduction(i)).collect();
    let mut reductions = Vec::new();
    for (n, &i) in found.iter().enumerate() {
        let next = found.get(n + 1).copied().unwrap_or(samples.len());
        let ended = (i..next)
            .find(|&k| samples[k].state == "open" && samples[k].window >= samples[k].threshold);
        // One recovery after the other: between two samples the first ended, at its threshold. So
        // it did where more was left than the window that was seen last, which recovery had made
        // small: no reduction leaves more than there was.
        let (last, now) = (&samples[i - 1], &samples[i]);
        let again = now.state == "recovery" && last.state == "recovery";
        let before =
            if again || now.threshold > last.window { last.threshold } else { last.window };
        let after = |k: usize| {
            samples[k..next]
                .iter()
                .map(|sample| (sample.at - samples[k].at, sample.window))
                .collect()
        };
        reductions.push(Reduction {
            at: samples[i].at - trouble_at,
            before,
            lasted: ended.map(|k| samples[k].at - samples[i].at),
            from: ended.map_or(samples[i].threshold, |k| samples[k].window),
            timeout: samples[i].state == "loss",
            trace: ended.map_or_else(Vec::new, after),
        });
    }
    let last = reductions.last().context("the trouble made no reduction")?;
    let ended = last.lasted.map_or(f64::INFINITY, |lasted| trouble_at + last.at + lasted);
    let after = || samples.iter().filter(|sample| sample.at >= ended.max(free_at));
    let least = after().map(|sample| sample.window).fold(f64::INFINITY, f64::min);
    // Vegas gives way to a queue without a loss, and a flow with little on its way may be left
    // below its threshold: where its window was least, or slow start brought it back from there,
    // its way back begins.
    let (began, from) = match after().rfind(|sample| sample.window <= least) {
        Some(lowest) if least < last.from || ended < free_at => {
            let mut grown = after()
                .filter(|sample| sample.at >= lowest.at && sample.window >= sample.threshold);
            grown.next().map_or((lowest.at, least), |sample| (sample.at, sample.window))
        }
        _ => (ended, last.from),
    };
    let depth = reductions.iter().map(|reduction| reduction.from).fold(least, f64::min);
    let whole = after()
        .find(|sample| sample.at >= began && sample.window >= window)
        .map(|sample| sample.at);
    let way: Vec<&WindowSample> = samples
        .iter()
        .filter(|sample| (began..=whole.unwrap_or(f64::INFINITY)).contains(&sample.at))
        .collect();
    let (rtt, used) = way_back(&way).unwrap_or((samples[samples.len() - 1].rtt, 1.0));
    let seconds = whole.map(|whole| whole - began);
    Ok(Recovery { reductions, depth, from, seconds, rtt, used, inexact: Vec::new() })
}

/// The mean round-trip time on the way back, and which part of the window was used: packets
/// delivered to those that the window let through.
fn way_back(way: &[&WindowSample]) -> Option<(f64, f64)> {
    let (first, last) = (way.first()?, way.last()?);
    let elapsed = last.at - first.at;
    if elapsed <= 0.0 {
        return None;
    }
    let over = |of: fn(&WindowSample) -> f64| {
        way.windows(2).map(|pair| of(pair[0]) * (pair[1].at - pair[0].at)).sum::<f64>()
    };
    let rtt = over(|sample| sample.rtt) / elapsed;
    let allowed = over(|sample| sample.window / sample.rtt);
    Some((rtt, f64::from(last.delivered.wrapping_sub(first.delivered)) / allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, window: f64, threshold: f64, state: &str) -> WindowSample {
        let delivered = (at * 1_000.0) as u32;
        WindowSample { at, window, threshold, rtt: 0.1, delivered, state: state.to_owned() }
    }

    #[test]
    fn a_loss_and_a_timeout_within_its_recovery_are_two_reductions() {
        let samples = [
            sample(1.0, 50.0, 100.0, "open"),
            sample(2.0, 100.0, 100.0, "open"),
            sample(3.0, 100.0, 100.0, "disorder"),
            sample(3.1, 100.0, 50.0, "recovery"),
            sample(3.2, 60.0, 50.0, "recovery"),
            sample(3.4, 1.0, 30.0, "loss"),
            sample(3.6, 8.0, 30.0, "open"),
            sample(3.8, 30.0, 30.0, "open"),
            sample(4.8, 100.0, 30.0, "open"),
        ];
        let recovery = evaluate(&samples, 100.0, 2.5, 0.0).expect("there are two");
        let of = |at: usize| &recovery.reductions[at];
        assert_eq!(recovery.reductions.len(), 2);
        assert!((of(0).at - 0.6).abs() < 1e-9 && of(0).lasted.is_none() && !of(0).timeout);
        assert_eq!((of(0).before, of(0).from, of(1).before, of(1).from), (100.0, 50.0, 60.0, 30.0));
        assert!(of(1).timeout && (of(1).lasted.expect("it ended") - 0.4).abs() < 1e-9);
        assert!((recovery.seconds.expect("back") - 1.0).abs() < 1e-9);
        assert!((recovery.rtt - 0.1).abs() < 1e-9);
        // 1,000 packets where a window of 30 lets 300 through.
        assert!((recovery.used - 1_000.0 / 300.0).abs() < 0.01, "{}", recovery.used);
        // Where a queue stands until 3.7 the way back begins there.
        let later = evaluate(&samples, 100.0, 2.5, 3.7).expect("there are two");
        assert_eq!(later.from, 30.0);
        assert!((later.seconds.expect("back") - 1.0).abs() < 1e-9);
        // A flow that is left below its threshold comes back by slow start first, and that is no
        // part of the way back.
        let mut below = samples.to_vec();
        below.insert(8, sample(3.9, 10.0, 30.0, "open"));
        below.insert(9, sample(4.0, 30.0, 30.0, "open"));
        let below = evaluate(&below, 100.0, 2.5, 0.0).expect("there are two");
        assert_eq!((below.depth, below.from), (10.0, 30.0));
        assert!((below.seconds.expect("back") - 0.8).abs() < 1e-9);
        // Two recoveries with nothing seen between them: the second reduced what the first had
        // left, not what was on its way.
        let mut again = samples.to_vec();
        again.splice(5..6, [sample(3.3, 55.0, 25.0, "recovery")]);
        let again = evaluate(&again, 100.0, 2.5, 0.0).expect("there are two");
        assert_eq!(
            (again.reductions.len(), again.reductions[1].before, again.reductions[1].from),
            (2, 50.0, 30.0)
        );
        // The same where the first is seen to end, with the small window that was on its way.
        let mut seen = samples.to_vec();
        seen.splice(4..6, [sample(3.2, 20.0, 50.0, "open"), sample(3.3, 20.0, 30.0, "recovery")]);
        assert_eq!(
            evaluate(&seen, 100.0, 2.5, 0.0).expect("there are two").reductions[1].before,
            50.0
        );
        assert!(evaluate(&samples[..3], 100.0, 2.5, 0.0).is_err());
    }
}
