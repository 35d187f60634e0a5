//! Lines whose jitter, losses, flipped bits and queues are known: what the tester says of them is
//! what the link gave them, and not what a host with two cores adds.

use crate::line::{UNFIT, by_name, count, document, reflector, said, tested, tester};
use crate::line_ethernet::{THERE, count as count_in};
use farline_lab::{Brief, LinkUp, Running, alone, farline, fit_of_three, processors_are_free};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// A path like that of the UltraScience Net's layer-2 VLAN: each way a half of 8.46 ms and a value
/// drawn anew from 0 to 0.92 ms, whose deviation is a 4.24th of that (two of them, over the root of
/// 18).
const PATH: [&str; 6] =
    ["custom", "--rtt", "8460643ns", "--jitter", "923914ns", "--inline-receive"];
const MEAN_MS: f64 = 9.384557;
const SD_MS: f64 = 0.307973;

#[test]
fn a_links_jitter_comes_back_as_it_was_put_in() {
    alone();
    if !processors_are_free() {
        return;
    }
    let Some(link) = LinkUp::up("t-delays", &PATH) else { return };
    let figures = || {
        let mut command = farline();
        command.args(["--json", "-q", "line", link.name(), "--rate", "1M", "--frames", "512"]);
        let output = command.args(["--for", "10s"]).output().expect("farline runs");
        let document = Brief::of(&output);
        let of = |key: &str| document["rtt"][key].as_f64().expect("a figure") / 1e6;
        (of("mean_ns") - MEAN_MS, of("sd_ns") / SD_MS)
    };
    // A thousand packets know a deviation of 0.31 ms to 2.3 %. The thread that emulates is woken up
    // for each: some ten microseconds, of a busy machine many more.
    let is_right =
        |(mean, sd): &(f64, f64)| (-0.05..0.2).contains(mean) && (0.93..1.1).contains(sd);
    let (mean, sd) = fit_of_three(figures, is_right);
    assert!(is_right(&(mean, sd)), "the mean is off by {mean} ms, the deviation is x {sd}");
}

#[test]
fn loss_and_flipped_bits_are_measured_as_put_in() {
    alone();
    if !processors_are_free() {
        return;
    }
    let trouble =
        ["custom", "--rtt", "2ms", "--rate", "100M", "--loss", "0.01", "--flips", "0.003"];
    let Some(link) = LinkUp::up("t-line-truth", &trouble) else { return };
    let _far = reflector(&link, &[]);
    let asked = ["--rate", "30M", "--confidence", "99.9", "--for", "5s"];
    let (document, code) = fit_of_three(|| tested(&link, &asked), |(_, code)| *code != UNFIT);
    assert_eq!((document["outcome"].as_str(), code), (Some("measured"), 0), "{document}");
    let holds = |ratio: &Value, truth: f64| {
        let end = |end: &str| ratio[end].as_f64().expect("an end");
        assert!(end("low") <= truth && truth <= end("high"), "{truth}: {ratio}");
    };
    holds(&document["loss"], 0.01);
    let sent = count(&document, "sent") as f64;
    let wrong = count(&document, "wrong_frames") as f64 / (sent * 0.99);
    assert!((0.0015..0.006).contains(&wrong), "{wrong} of the frames have a flipped bit");
    assert_eq!(count(&document, "wrong_frames"), count(&document, "wrong_bits"), "one bit each");
}

#[test]
fn what_a_stopped_receiver_drops_is_not_the_lines() {
    alone();
    let Some(link) = LinkUp::up("t-line-stop", &["custom", "--rtt", "2ms", "--rate", "100M"])
    else {
        return;
    };
    let far = reflector(&link, &["--buffer", "256KiB"]);
    let stopped = || {
        let test = tester(&link, &["--rate", "10M", "--for", "8s"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("farline runs");
        std::thread::sleep(Duration::from_secs(2));
        far.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(2));
        far.signal(Signal::CONT);
        let (document, _) = document(test.wait_with_output().expect("it ends"));
        assert_eq!(count(&document, "lost"), 0, "{document}");
        assert_eq!(document["totals"]["runs"]["lost"], 0, "{document}");
        document
    };
    // Of a busy host's seconds too few count.
    let is_fit = |document: &Brief| count(document, "tested") >= 2;
    let document = fit_of_three(stopped, is_fit);
    assert!(count(&document, "receiver_drops") >= 2, "{document}");
    assert!(count(&document, "tested") >= 2, "{document}");
}

#[test]
fn the_queue_of_a_link_is_found_by_bursts() {
    alone();
    if !processors_are_free() {
        return;
    }
    let path = ["custom", "--rtt", "2ms", "--rate", "45M", "--queue", "300kB"];
    let Some(link) = LinkUp::up("t-line-bursts", &path) else { return };
    let asked = ["--rate", "80M", "--frames", "1518", "--for", "1s", "--search", "bursts:3"];
    // A burst that a busy machine sends too late, or the link takes too late, finds more or less.
    let is_right = |(found, code): &(Brief, i32)| {
        let bytes = found["buffer"]["corrected_bytes"].as_f64();
        *code == 0 && bytes.is_some_and(|bytes| (240e3..360e3).contains(&bytes))
    };
    let found = fit_of_three(|| said(&mut by_name(&link, &asked)), is_right);
    assert_eq!(found.0["schema"], "farline/line-bursts/1", "{found:?}");
    assert!(is_right(&found), "{found:?}");
}

#[test]
fn what_a_stopped_ring_drops_is_not_the_lines() {
    alone();
    let arguments = ["custom", "--rtt", "2ms", "--rate", "100M", "--ethernet"];
    let Some(link) = LinkUp::up("t-eth-stop", &arguments) else { return };
    let listen = ["--json", "line", "reflect", "--ethernet", "wan0", "--buffer", "2MiB"];
    let (far, said) = Running::begun(&mut link.farline("b", &listen));
    assert!(said.contains(THERE), "{said}");
    let mut test = link.farline("a", &["--json", "-q", "line", THERE, "--ethernet", "wan0"]);
    test.args(["--rate", "60M", "--for", "5s"]);
    let test = test.stdout(Stdio::piped()).spawn().expect("farline runs");
    std::thread::sleep(Duration::from_millis(1_500));
    far.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(1_500));
    far.signal(Signal::CONT);
    let output = test.wait_with_output().expect("it ends");
    let document = Brief::of(&output);
    assert!(count_in(&document, "sums", "receiver_drops") >= 1, "{document}");
    assert!(count_in(&document, "sums", "tested") >= 1, "{document}");
    assert!(count_in(&document, "totals", "own_drops") > 1_000, "{document}");
    assert_eq!(count_in(&document, "sums", "lost"), 0, "{document}");
    assert_eq!(document["totals"]["runs"]["lost"], 0, "{document}");
}

#[test]
fn the_load_that_a_slow_link_carries_is_found() {
    alone();
    let path = ["custom", "--rtt", "2ms", "--rate", "45M", "--queue", "30kB"];
    let Some(link) = LinkUp::up("t-line-search", &path) else { return };
    let asked = ["--rate", "80M", "--burst", "1", "--for"];
    // The link carries 56.25 %; what is late on a busy machine comes as a burst and costs frames.
    let halving = || said(by_name(&link, &asked).args(["1s", "--search", "0.001"]));
    let is_within = |found: &Brief| {
        found["load_percent"].as_f64().is_some_and(|load| (25.0..58.0).contains(&load))
    };
    let is_right = |(found, code): &(Brief, i32)| {
        *code == 0 && found["is_host_limited"] == false && is_within(found)
    };
    let (found, _) = fit_of_three(halving, is_right);
    assert_eq!(found["schema"], "farline/line-search/1", "{found}");
    assert!(is_within(&found), "{found}");
    // A fifth may be lost: five quarters of what the link carries, which is what comes then.
    let ratios = || said(by_name(&link, &asked).args(["1s", "--search", "0,0.2"]));
    let bound = |found: &Brief, n: usize, key: &str| found["outcomes"][n][key].as_f64();
    let is_right = |(found, code): &(Brief, i32)| {
        let is_within = |n: usize, key: &str, low: f64, high: f64| {
            bound(found, n, key).is_some_and(|percent| (low..high).contains(&percent))
        };
        *code == 0
            && is_within(0, "lower_percent", 25.0, 58.0)
            && is_within(1, "lower_percent", 66.0, 73.0)
            && is_within(1, "throughput_percent", 54.0, 58.5)
    };
    let found = fit_of_three(ratios, is_right);
    assert_eq!(found.0["schema"], "farline/line-mlrsearch/1", "{found:?}");
    assert!(is_right(&found), "{found:?}");
}
