//! A short form of `farline-bench line truth`: links whose bit error or loss ratio is known, which
//! what `farline line` says of them must hold.

use farline_lab::fit_of_three;
use farline_lab::line_truth::{KnownLink, Trouble, TruthTest};

/// The intervals are of 99.999 %, and wider by this at both ends, since those of bursts are not
/// exact: of 20,000 such links of each kind none in virtual time was outside.
const MARGIN: f64 = 1.6;

/// Tests a link until this host is fit.
fn assert_held(n: u64, trouble: Trouble, ratio: f64) {
    let drawn = KnownLink::drawn(trouble, 19 + n);
    let link = KnownLink { ratio, burst: 2.0, mbit: 20, confidence: 99.999, ..drawn };
    let test = || link.test(&format!("t-truth-{n}")).map(|test| test.expect("a test"));
    let is_fit =
        |test: &Option<TruthTest>| test.as_ref().is_none_or(|test| test.not_believed.is_none());
    let Some(test) = fit_of_three(test, is_fit) else { return };
    let (low, high) = test.interval;
    // Of a host that was not fit in any of the three tests nothing is known.
    let holds = (low / MARGIN..=high * MARGIN).contains(&ratio);
    assert!(holds || test.not_believed.is_some(), "{link:?}: {test:?}");
}

#[test]
fn what_a_link_is_told_lies_in_what_is_said_of_it() {
    let links = [
        (Trouble::BitErrors, [1e-6, 1e-8]),
        (Trouble::Loss, [1e-2, 1e-4]),
        (Trouble::Bursts, [2e-2, 3e-2]),
    ];
    std::thread::scope(|scope| {
        for (n, (trouble, ratios)) in (0..).zip(links) {
            // One behind the other: each has a third of this machine.
            scope.spawn(move || ratios.map(|ratio| assert_held(n, trouble, ratio)));
        }
    });
}

/// The intervals are of 95 %, and wider by this at both ends.
const MODEL_MARGIN: f64 = 2.0;

#[test]
fn the_two_states_of_a_link_are_found() {
    let drawn = KnownLink::drawn(Trouble::Bursts, 1_919);
    let (ratio, burst, lost_between) = (4e-2, 10.0, 5e-3);
    let link = KnownLink { ratio, burst, lost_between, mbit: 20, seconds: 8, ..drawn };
    let test = || link.test("t-two-states").map(|test| test.expect("a test"));
    let is_fit =
        |test: &Option<TruthTest>| test.as_ref().is_none_or(|test| test.not_believed.is_none());
    let Some(test) = fit_of_three(test, is_fit) else { return };
    let model = test.model.expect("two states");
    let truths = [
        (model.turns_good, link.ends_burst()),
        (model.lost_good, lost_between),
        (model.lost_bad, 1.0),
    ];
    for (fitted, truth) in truths {
        let within = fitted.low / MODEL_MARGIN..=fitted.high * MODEL_MARGIN;
        assert!(within.contains(&truth), "{truth}: {model:?}, {link:?}");
    }
}
