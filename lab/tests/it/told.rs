//! The figures that a copy prints while it runs and at its end, where the truth was put in: a rate
//! that was asked for, bytes that were there already, the rate of the path.

use farline_lab::files::{folder, plant_file, same, text};
use farline_lab::{Running, farline, farline_binary, node, skip, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
/// What the copies of the first test are limited to, in Mbit/s.
const LIMIT: f64 = 100.0;

/// Figures before `unit` in `text`, in their order.
fn figures(text: &str, unit: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let before = |pair: &[&str]| {
        (pair[1].trim_matches(&[',', ';'][..]) == unit).then(|| pair[0].parse::<f64>())
    };
    words.windows(2).filter_map(|pair| before(pair)?.ok()).collect()
}

/// Rates in `text`, in Mbit/s.
fn rates(text: &str) -> Vec<f64> {
    let of = |unit, times: f64| figures(text, unit).into_iter().map(move |rate| rate * times);
    of("Gbit/s", 1e3).chain(of("Mbit/s", 1.0)).chain(of("kbit/s", 1e-3)).collect()
}

/// What `command` writes on a terminal of 100 columns; `None` where no terminal can be had.
fn on_a_terminal(command: &str) -> Option<String> {
    let mut script = farline_lab::command("script");
    script.env("TERM", "xterm").env_remove("NO_COLOR");
    script.args(["-qefc", &format!("stty cols 100; exec {command}"), "/dev/null"]);
    match script.stdin(Stdio::null()).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{text}");
            Some(text)
        }
        Err(error) => {
            skip(format!("script, which gives a command a terminal: {error}"));
            None
        }
    }
}

/// Bytes on disk in `folder`.
fn on_disk(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.blocks() * 512).sum()
}

#[test]
fn a_resumed_copy_prints_what_it_moved_and_its_rate() {
    let dir = folder();
    let (root, file, down) =
        (dir.path().join("root"), dir.path().join("file"), dir.path().join("down"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::create_dir(&down).expect("a folder");
    plant_file(&file, 60, 1);
    let (_node, url) = node(&root, "write", &[]);
    let up = (text(&file).to_owned(), url.clone(), &root);
    let back = (format!("{url}/file"), text(&down).to_owned(), &down);
    for ((from, to, at), colour) in [(up, ""), (back, "NO_COLOR=1")] {
        let mut command = farline();
        command.args(["-q", "cp", "--limit", "100M", &from, &to]);
        let mut copy = Running(command.stderr(Stdio::null()).spawn().expect("runs"));
        let before = on_disk(at);
        wait_for("a half of it", || on_disk(at) >= before + 34 * MIB);
        copy.end(Signal::INT);
        let farline = farline_binary();
        let again = format!("env {colour} {} cp --limit 100M '{from}' '{to}'", farline.display());
        let Some(told) = on_a_terminal(&again) else { return };
        assert_eq!(told.contains("\u{1b}[36m"), colour.is_empty(), "the bar's cyan: {told:?}");
        // Who set a limit can change it, and reads so without asking.
        assert!(told.contains("\nlimited by "), "{told:?}");
        // What clears the bar stands before it.
        let (live, last) = told.split_at(told.find("60 MiB in 1 file").expect("a last line"));
        let last = last.lines().next().unwrap_or_default().trim_end();
        // 60 MiB in 1 file, 32 MiB of them there already, 28 MiB moved, 2.36 s, 99.5 Mbit/s; ...
        let (bytes, seconds) = (figures(last, "MiB"), figures(last, "s"));
        let (&[all, there, moved], &[took]) = (&bytes[..], &seconds[..]) else {
            panic!("{last}");
        };
        assert!(all == 60.0 && (there + moved - all).abs() < 0.2, "{last}");
        assert!((20.0..50.0).contains(&there), "{last}");
        let rate = *rates(last).first().expect("a rate");
        let true_rate = moved * 8.0 * 1.048_576 / took;
        assert!((rate / true_rate - 1.0).abs() < 0.01, "{last}: {true_rate}");
        assert!(rate <= LIMIT * 1.01, "{last}");
        // While it ran: nothing of what was there is part of the rate.
        let live = rates(live);
        assert!(!live.is_empty(), "{told:?}");
        assert!(live.iter().all(|rate| *rate <= LIMIT * 1.15), "{live:?}");
        assert!(same(&file, &at.join("file")));
    }
}

/// The rate in the line of what the first blocks measured, in Mbit/s.
pub(crate) fn measured(outcome: &Value) -> Option<f64> {
    let reasons = outcome["reasons"].as_array().expect("a list");
    let said = reasons.iter().filter_map(Value::as_str).find(|text| text.contains("measured: "))?;
    rates(said).first().copied()
}

#[test]
fn a_rate_that_was_asked_for_is_not_told_as_the_paths() {
    let dir = folder();
    let (_node, url) = node(dir.path(), "write", &["--allow-null"]);
    let url = url.replacen("ftp://", "farline://", 1);
    let copy = |limit: &[&str]| -> Value {
        let null = format!("{url}/?null");
        let mut command: Command = farline();
        command.args(["--json", "cp"]).args(limit).args(["memory:150MiB", &null]);
        serde_json::from_slice(&command.output().expect("runs").stdout).expect("JSON")
    };
    let outcome = copy(&["--limit", "800M"]);
    assert_eq!(measured(&outcome), None, "{outcome}");
    assert!(outcome["rate_bps"].as_u64() <= Some(800_000_000), "{outcome}");
}
