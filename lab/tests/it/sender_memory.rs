//! What waits in a sender over UDT and QUIC follows what the path holds, so that memory is bounded,
//! progress is what has left, and a full path is what a copy names.

use farline_lab::{LinkUp, Running, fit_of_three, json_of, peak_memory};
use serde_json::Value;

/// What the path carries, in bytes a second.
const RATE: f64 = 200e6 / 8.0;
const PATH: [&str; 5] = ["custom", "--rate", "200M", "--rtt", "40ms"];
const MIB: u64 = 160;
/// What a process may take at most, 64 MiB of staging and a debug build's own included; with all of
/// the source in its buffers it took 230 MB.
const MEMORY: f64 = 190e6;

struct Bed {
    link: LinkUp,
    fingerprint: String,
    node: Running,
    _root: tempfile::TempDir,
}

impl Bed {
    fn new(name: &str, path: &[&str]) -> Option<Bed> {
        let link = LinkUp::up(name, path)?;
        let root = tempfile::tempdir().expect("a folder");
        let listen = ["--json", "serve", "--anonymous", "write", "--listen", "[::]:2811", "--tls"];
        let mut serve = link.farline("b", &listen);
        serve.args(["--allow-null", "--allow-memory", "1GiB", "--allow-held", "180M", "--root"]);
        let (node, line) = Running::begun(serve.arg(root.path()));
        let said: Value = serde_json::from_str(&line).expect("one object");
        let fingerprint = said["fingerprint"].as_str().expect("a fingerprint").to_owned();
        Some(Bed { link, fingerprint, node, _root: root })
    }

    fn copy(&self, more: &[&str], back: bool) -> Value {
        self.copy_of(MIB, more, back)
    }

    fn copy_of(&self, mib: u64, more: &[&str], back: bool) -> Value {
        let url = format!("farlines://{}-b:2811/", self.link.name());
        let memory = format!("memory:{mib}MiB");
        let there_memory = format!("{url}?memory={mib}MiB");
        let there = format!("{url}?null");
        let ends = if back { [&there_memory[..], "null:"] } else { [&memory[..], &there] };
        let pin = ["--json", "cp", "--fresh-start", "--tls-pin", &self.fingerprint];
        let args = [&pin[..], more, &ends].concat();
        json_of(&mut self.link.farline("a", &args))
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The part of all bytes that was shown half way through.
fn shown_half_way(result: &Value) -> f64 {
    let half = number(&result["first_data_seconds"])
        + (number(&result["seconds"]) - number(&result["first_data_seconds"])) / 2.0;
    let samples = result["samples"].as_array().expect("a list");
    let sample = samples.iter().find(|sample| number(&sample["t"]) >= half).expect("a sample");
    number(&sample["bytes"]) / number(&result["bytes"])
}

#[test]
fn a_sender_keeps_what_the_path_holds_and_no_file() {
    let Some(bed) = Bed::new("t-keeps", &PATH) else { return };
    for channel in ["udt", "quic:4"] {
        let copy = || bed.copy(&["--channel", channel, "--streams", "4"], false);
        // A path whose emulator waits for a processor holds more.
        let out = fit_of_three(copy, |out| number(&out["peak_rss_bytes"]) < MEMORY);
        let says = format!("{channel}: {out}");
        let memory = number(&out["peak_rss_bytes"]);
        assert!(memory < MEMORY, "{memory} bytes of memory; {says}");
        let half = shown_half_way(&out);
        assert!((0.3..0.75).contains(&half), "{half} half way; {says}");
        assert_eq!(out["limited_by"], "path_rate", "{says}");
        assert_eq!(out["limited_party"], "path", "{says}");
        let rate = number(&out["bytes"]) / number(&out["seconds"]);
        assert!(rate > 0.5 * RATE, "{rate} bytes a second; {says}");
        // Its first queue overflows, and what was lost was sent again.
        if number(&out["retransmits"]) == 0.0 {
            println!("{channel}: nothing was lost");
        }
    }
    let held = ["--congestion", "held", "--rate", "80M"];
    for channel in ["udt", "quic"] {
        let copy = || bed.copy_of(24, &[&["--channel", channel][..], &held].concat(), false);
        // A busy machine may be slower than the rate, and then it is not what limits.
        let out = fit_of_three(copy, |out| out["limited_by"] == "rate_limit");
        assert_eq!(out["limited_by"], "rate_limit", "{channel}: {out}");
    }
}

#[test]
fn a_node_keeps_what_the_path_holds_and_no_file() {
    let Some(bed) = Bed::new("t-keepsn", &PATH) else { return };
    // The node has the source in its memory, as long as a reader's session.
    let source = (MIB << 20) as f64;
    for channel in ["udt", "quic:4"] {
        bed.copy(&["--verify", "none", "--channel", channel, "--streams", "16"], true);
        let memory = peak_memory(bed.node.id()).expect("it runs") as f64;
        assert!(memory < source + MEMORY, "{channel}: {memory} bytes of memory");
    }
}

#[test]
fn packets_that_were_sent_again_are_counted() {
    let path = ["custom", "--rate", "200M", "--rtt", "20ms", "--loss", "3e-3"];
    let Some(bed) = Bed::new("t-again", &path) else { return };
    for channel in ["udt:bbr", "quic"] {
        let out = bed.copy_of(40, &["--channel", channel, "--streams", "1"], false);
        // Packets are of 1,200 to 8,972 bytes, of which the path loses three in a thousand.
        let again = number(&out["retransmits"]);
        assert!((2.0..2_000.0).contains(&again), "{channel}: {again}; {out}");
    }
}
