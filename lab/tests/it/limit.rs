//! `--limit`: the rate is held within 5 %, in both directions and whoever the other end is.

use farline_lab::raw::RawClient;
use farline_lab::{farline, json_of, node, succeed};
use serde_json::Value;
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// Copies and returns the rate, in bits a second, that the copy itself and the wall clock saw.
fn rates(args: &[&str]) -> (f64, f64) {
    let began = Instant::now();
    let out = succeed(farline().args(["--json", "cp"]).args(args));
    let wall = began.elapsed().as_secs_f64();
    let result: Value = serde_json::from_str(&out).expect("one object");
    let bytes = result["bytes"].as_u64().expect("a number") as f64;
    (result["rate_bps"].as_f64().expect("a number"), bytes * 8.0 / wall)
}

#[test]
fn a_limited_copy_keeps_its_limit_both_ways_on_1_and_4() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "write", &["--allow-null", "--allow-memory", "1GiB"]);
    let url = url.replacen("ftp://", "farline://", 1);
    // Three seconds each, so that start and end weigh little.
    let size = format!("memory:{}", 75 * MIB);
    let there = format!("{url}/?memory={}", 75 * MIB);
    let null = format!("{url}/?null");
    for (from, to, streams) in [
        (&*size, &*null, "1"),
        (&size, &null, "4"),
        (&there, "null:", "1"),
        (&there, "null:", "4"),
        (&size, "null:", "1"),
    ] {
        let mut best = 0f64;
        // Never faster; and as fast as that as soon as this machine has the processors to spare: a
        // shared one may not at once.
        for _ in 0..12 {
            let (rate, wall) = rates(&["--limit", "210M", "--streams", streams, from, to]);
            assert!(
                rate <= 220.5e6 && wall <= 220.5e6,
                "{from} {to} over {streams}: {:.1} Mbit/s",
                rate / 1e6
            );
            best = best.max(rate);
            if best >= 199.5e6 {
                break;
            }
        }
        assert!(best >= 199.5e6, "{from} {to} over {streams}: at best {:.1} Mbit/s", best / 1e6);
    }
}

#[test]
fn a_limit_spreads_the_bytes_over_the_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "write", &["--allow-null"]);
    let url = url.replacen("ftp://", "farline://", 1);
    let result = json_of(farline().args([
        "--json",
        "cp",
        "--limit",
        "40M",
        "memory:20MiB",
        &format!("{url}/?null"),
    ]));
    let samples = result["samples"].as_array().expect("a list");
    for sample in samples {
        let (t, bytes) =
            (sample["t"].as_f64().expect("seconds"), sample["bytes"].as_f64().expect("bytes"));
        let even = 40e6 / 8.0 * t;
        assert!(
            bytes <= even + 2.2 * MIB as f64,
            "{bytes} bytes had arrived after {t} s, evenly it would be {even}"
        );
    }
    // Five a second; some of them fail where the machine stands still.
    assert!(samples.len() >= 8, "four seconds have about twenty samples: {samples:?}");
}

#[test]
fn a_transfer_at_a_bit_a_second_ends_when_it_is_aborted() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("f"), vec![7; 1 << 20]).expect("written");
    let (_node, url) = node(dir.path(), "read", &[]);
    for mode in ["MODE S", "MODE E"] {
        let mut client = RawClient::open(&url);
        assert!(client.ask(mode).starts_with("200"), "{mode}");
        assert!(client.ask("OPTS FARLINE limit=1;").starts_with("200"));
        let _data = client.passive();
        client.say("RETR f");
        client.say("ABOR");
        // Its first packet would be due in hours.
        let aborted = client.final_reply();
        assert!(aborted.starts_with('4'), "{mode}: {aborted}");
    }
}
