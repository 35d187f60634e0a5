//! Links whose trouble is known, and whether what `farline line` says of one holds it.

use crate::{LinkUp, farline};
use farline_core::line::GilbertElliott;
use farline_core::units::Rng;
use serde_json::Value;

/// Bytes of each frame, and what it takes on the wire (preamble and gap).
const FRAME_BYTES: u64 = 1_518;
const ON_WIRE: u64 = 20;
/// Events are told for so long beyond the test, in seconds: it does not begin at once.
const BEYOND: u64 = 10;

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Each bit is wrong with a probability, and costs its frame.
    BitErrors,
    /// Each frame is lost with a probability.
    Loss,
    /// Frames are lost in bursts, which begin at random and have an exponential length.
    Bursts,
}

impl Trouble {
    /// All three.
    pub const ALL: [Trouble; 3] = [Trouble::BitErrors, Trouble::Loss, Trouble::Bursts];

    /// Powers of ten between which its ratio is drawn.
    fn powers(self) -> (f64, f64) {
        match self {
            Trouble::BitErrors => (-9.0, -6.0),
            Trouble::Loss | Trouble::Bursts => (-5.0, -2.0),
        }
    }
}

/// A link and the test of it.
#[derive(Clone, Copy, Debug)]
pub struct KnownLink {
    /// Its trouble.
    pub trouble: Trouble,
    /// Bit errors of bits or losses of frames, as the link is told.
    pub ratio: f64,
    /// Mean length of a burst, in frames.
    pub burst: f64,
    /// The probability that a frame between bursts is lost.
    pub lost_between: f64,
    /// Of all that is drawn.
    pub seed: u64,
    /// The rate on the wire at which it is tested, in Mbit/s; its own is five times that.
    pub mbit: u64,
    /// How long.
    pub seconds: u64,
    /// The probability of the interval, in per cent.
    pub confidence: f64,
}

/// What became of a test.
#[derive(Clone, Debug)]
pub struct TruthTest {
    /// Within what the test says that the ratio lies.
    pub interval: (f64, f64),
    /// The two states that it says there are.
    pub model: Option<GilbertElliott>,
    /// Why it counts for nothing, where the host was not fit.
    pub not_believed: Option<String>,
}

impl TruthTest {
    /// Whether `ratio` lies in the interval.
    pub fn holds(&self, ratio: f64) -> bool {
        (self.interval.0..=self.interval.1).contains(&ratio)
    }
}

impl KnownLink {
    /// A link of which `seed` draws the ratio, evenly over its logarithm, between 1e-9 and 1e-6 of
    /// bits or 1e-5 and 1e-2 of frames, and the mean length of bursts between 2 and 10.
    pub fn drawn(trouble: Trouble, seed: u64) -> KnownLink {
        let mut rng = Rng::new(seed);
        let (low, high) = trouble.powers();
        let ratio = 10_f64.powf(low + (high - low) * rng.unit());
        let burst = 1.0 / (0.1 + 0.4 * rng.unit());
        let (mbit, seconds, confidence, lost_between) = (100, 4, 95.0, 0.0);
        KnownLink { trouble, ratio, burst, lost_between, seed, mbit, seconds, confidence }
    }

    /// How many frames a second are sent.
    fn frames_a_second(&self) -> f64 {
        self.mbit as f64 * 1e6 / ((FRAME_BYTES + ON_WIRE) * 8) as f64
    }

    /// How many bursts a second begin. Of outages that begin at random, of this mean length `m`,
    /// those that overlap being one, a time lies in one with probability `1 - exp(-m n)`, where so
    /// many are `n`.
    fn bursts_a_second(&self) -> f64 {
        -(-self.ratio).ln_1p() * self.frames_a_second() / self.burst
    }

    /// How many bursts are to be expected during the test.
    pub fn bursts(&self) -> f64 {
        self.bursts_a_second() * self.seconds as f64
    }

    /// What `farline link up` is told. Only the way there has trouble: no question is lost.
    fn arguments(&self) -> Vec<String> {
        let (rate, seed) = (format!("{}M", self.mbit * 5), self.seed.to_string());
        let words =
            ["custom", "--rtt", "4ms", "--inline-receive", "--rate", &rate, "--seed", &seed];
        let mut arguments: Vec<String> = words.into_iter().map(str::to_owned).collect();
        match self.trouble {
            Trouble::BitErrors => arguments.extend(["--ber".to_owned(), one_way(self.ratio)]),
            Trouble::Loss => arguments.extend(["--loss".to_owned(), one_way(self.ratio)]),
            Trouble::Bursts => {
                arguments.extend(["--loss".to_owned(), one_way(self.lost_between)]);
                let events = self.burst_events().into_iter();
                arguments.extend(events.flat_map(|event| ["--at".to_owned(), event]));
            }
        }
        arguments
    }

    /// The probability that a burst ends from one frame to the next.
    pub fn ends_burst(&self) -> f64 {
        -(-1.0 / self.burst).exp_m1()
    }

    /// Bursts as events: outages at random times, of exponential length. That is told in time, so
    /// that it is the same for frames of the load, for STAMP packets and for questions.
    fn burst_events(&self) -> Vec<String> {
        let mut rng = Rng::new(self.seed).fork(1);
        let mut exponential = |mean: f64| -(1.0 - rng.unit()).ln() * mean;
        let end = (self.seconds + BEYOND) as f64;
        let (mut at, mut events) = (0.0, Vec::new());
        loop {
            at += exponential(1.0 / self.bursts_a_second());
            if at >= end {
                return events;
            }
            let length = exponential(self.burst / self.frames_a_second());
            let nanos = |seconds: f64| (seconds * 1e9).round();
            events.push(format!("{}ns:a-to-b:outage={}ns", nanos(at), nanos(length)));
        }
    }

    /// Brings the link up, called something like `name`, and tests it; `None` where no link can be
    /// made.
    ///
    /// # Errors
    /// What the test says that failed for another reason.
    pub fn test(&self, name: &str) -> Option<Result<TruthTest, String>> {
        let arguments = self.arguments();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let link = LinkUp::up(name, &words)?;
        let (rate, size) = (format!("{}M", self.mbit), FRAME_BYTES.to_string());
        let (length, confidence) = (format!("{}s", self.seconds), self.confidence.to_string());
        let mut test = farline();
        test.args(["--json", "-q", "line", link.name(), "--rate", &rate, "--frames", &size]);
        test.args(["--for", &length, "--confidence", &confidence]);
        let document = said(&mut test);
        let stats = said(farline().args(["--json", "link", "stats", link.name()]));
        Some(document.and_then(|document| stats.and_then(|stats| self.found(&document, &stats))))
    }

    fn found(&self, document: &Value, stats: &Value) -> Result<TruthTest, String> {
        let key = match self.trouble {
            Trouble::BitErrors => "bit_errors",
            Trouble::Loss | Trouble::Bursts => "loss",
        };
        let end = |end: &str| document[key][end].as_f64();
        let is_unfit = document["outcome"] == "unfit";
        let because = || stats["invalid_because"].to_string();
        let not_believed = if is_unfit {
            document["verdict"].as_str().map(str::to_owned)
        } else {
            (stats["valid"] != true).then(because)
        };
        let model = serde_json::from_value(document["gilbert_elliott"].clone()).unwrap_or_default();
        match end("low").zip(end("high")) {
            Some(interval) => Ok(TruthTest { interval, model, not_believed }),
            // Of no second that counts there is no interval.
            None if is_unfit => Ok(TruthTest { interval: (0.0, 1.0), model, not_believed }),
            None => Err(document.to_string()),
        }
    }
}

/// `ratio` on the way there, and nothing on the way back.
fn one_way(ratio: f64) -> String {
    format!("{ratio:e},0")
}

/// The object that a command with `--json` writes.
fn said(command: &mut std::process::Command) -> Result<Value, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {output:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_told_as_often_and_as_long_as_drawn() {
        let (mut out, mut expected) = (0.0, 0.0);
        for seed in 0..400 {
            let link = KnownLink { ratio: 3e-3, ..KnownLink::drawn(Trouble::Bursts, seed) };
            let events = link.burst_events();
            let lengths = events.iter().filter_map(|event| event.split('=').nth(1));
            let nanos = lengths.filter_map(|length| length.strip_suffix("ns")?.parse::<f64>().ok());
            out += nanos.sum::<f64>() / 1e9;
            expected += -(-link.ratio).ln_1p() * (link.seconds + BEYOND) as f64;
        }
        assert!((out / expected - 1.0).abs() < 0.02, "{out} s of {expected}");
    }
}
