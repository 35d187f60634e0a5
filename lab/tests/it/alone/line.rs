//! Delays of a line whose jitter is known: what the tester says of them is what the link gave them,
//! and not what a host with two cores adds.

use farline_lab::{Brief, LinkUp, alone, farline, fit_of_three};

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
