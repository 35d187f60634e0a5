//! Profiles of a bench whose throughput is drawn: rounds, early ends, invalid repetitions,
//! resuming, reading.

use super::*;
use crate::congestion::Algorithm;
use crate::experiment::{Bench, Form, Repetitions};
use crate::profile::cell::PathPoint;
use crate::profile::repetition::{Goodput, LimitedBy};
use crate::report::ReportDocument;
use crate::units::{Rate, Rng};

/// A bench whose throughput is drawn, and of whose repetitions one in seven is invalid.
struct Drawn {
    spread: f64,
}

impl Bench<Grid> for Drawn {
    fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
        let rate = Rate::from_bps((1e9 * (5.0 + self.spread * Rng::new(job.seed).normal())) as u64);
        let goodput = Goodput { sender_bps: Some(rate), receiver_bps: rate };
        Ok(Repetition {
            index: job.index,
            seed: job.seed,
            began: None,
            seconds: grid.seconds,
            ramp_s: 0.0,
            whole: goodput,
            ramp: Goodput::default(),
            steady: goodput,
            retransmits: 0,
            reductions: Some(0),
            timeouts: None,
            limited_by: LimitedBy::Congestion,
            fairness: Some(1.0),
            recovery_s: None,
            cpu: None,
            rtt_ns: None,
            link: None,
            losses: Vec::new(),
            invalid: job.seed.is_multiple_of(7).then(|| "the link was late".to_owned()),
            samples_bps: vec![rate; 4],
            streams_bps: vec![rate],
        })
    }
}

fn profile(half_width: f64) -> Profile {
    let path = PathPoint::named("usn-1400", None).expect("a path");
    let grid = Grid {
        streams: (1..=10).collect(),
        repetitions: Repetitions { least: 5, most: 8, half_width },
        ..Grid::new("custom", vec![path], vec![Algorithm::Cubic])
    };
    Profile::new(grid, ProfileKind::Measured, Environment::default(), "today").expect("a grid")
}

#[test]
fn narrow_cells_stop_early_and_wide_ones_go_on() {
    let run = |spread, half_width| {
        let mut profile = profile(half_width);
        profile.run(&mut Drawn { spread }, |_| true).expect("a bench that works");
        profile.cells.iter().map(|result| result.valid().count()).collect::<Vec<_>>()
    };
    assert_eq!(run(0.001, 0.03), vec![5; 10]);
    assert_eq!(run(2.0, 0.0), vec![8; 10]);
    let mixed = run(0.15, 0.03);
    assert!(mixed.iter().any(|n| *n > 5) && mixed.iter().any(|n| *n < 8), "{mixed:?}");
}

#[test]
fn invalid_repetitions_are_kept_and_never_averaged() {
    let mut profile = profile(0.0);
    profile.run(&mut Drawn { spread: 0.1 }, |_| true).expect("a bench that works");
    let invalid: usize =
        profile.cells.iter().map(|result| result.repetitions.len() - result.valid().count()).sum();
    assert!((5..30).contains(&invalid), "one of seven of 80 and more: {invalid}");
    assert!(
        profile.cells.iter().all(|result| result.summary().is_some_and(|summary| summary.n == 8))
    );
    assert_eq!(profile.progress(), (10, 10));
}

/// A bench of whose repetitions none is valid.
struct Broken;

impl Bench<Grid> for Broken {
    fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
        let repetition = Drawn { spread: 0.0 }.run(grid, job)?;
        Ok(Repetition { invalid: Some("never".to_owned()), ..repetition })
    }
}

#[test]
fn a_bench_that_is_never_valid_is_given_up() {
    let mut profile = profile(0.03);
    profile.run(&mut Broken, |_| true).expect("a bench that works");
    assert!(
        profile
            .cells
            .iter()
            .all(|result| result.repetitions.len() == 16 && result.summary().is_none())
    );
}

#[test]
fn an_interrupted_profile_ends_like_an_unbroken_one() {
    let mut whole = profile(0.03);
    whole.run(&mut Drawn { spread: 0.15 }, |_| true).expect("a bench that works");
    let mut broken = profile(0.03);
    let mut bench = Drawn { spread: 0.15 };
    let mut left = 17;
    broken
        .run(&mut bench, |_| {
            left -= 1;
            left > 0
        })
        .expect("a bench that works");
    let mut resumed =
        Profile::read(&serde_json::to_string(&broken).expect("JSON")).expect("a profile");
    assert_eq!(resumed, broken);
    resumed.run(&mut bench, |_| true).expect("a bench that works");
    assert_eq!(resumed, whole);
    // Several at a time give the same document as one at a time: no job depends on another cell's.
    let mut side_by_side = profile(0.03);
    loop {
        let jobs = side_by_side.next(3);
        if jobs.is_empty() {
            break;
        }
        for job in jobs {
            let repetition = bench.run(&side_by_side.grid, &job).expect("a bench that works");
            side_by_side.record(&job, repetition);
        }
    }
    assert_eq!(side_by_side, whole);
}

#[test]
fn what_is_not_a_profile_is_refused() {
    let json = serde_json::to_string(&profile(0.03)).expect("JSON");
    for (text, words) in [
        ("{}".to_owned(), "not a profile"),
        (json.replace("farline/profile/1", "farline/profile/9"), "farline/profile/9"),
        (json.replace("\"streams\":10", "\"streams\":11"), "not those of its grid"),
    ] {
        let error = Profile::read(&text).expect_err(words);
        assert!(error.fault == Fault::You && error.message.contains(words), "{error}");
    }
}

#[test]
fn a_document_in_which_every_number_stood_is_read_still() {
    // Before they could be absent, ramp and steady part had the sender's rate, and every repetition
    // reductions, timeouts and fairness.
    let mut profile = profile(0.03);
    profile
        .run(&mut Drawn { spread: 0.1 }, |profile| {
            profile.cells.iter().all(|one| one.repetitions.is_empty())
        })
        .expect("a bench");
    let mut old: serde_json::Value = serde_json::to_value(&profile).expect("JSON");
    let place = profile.cells.iter().position(|one| !one.repetitions.is_empty()).expect("one ran");
    let one = &mut old["cells"][place]["repetitions"][0];
    (one["timeouts"], one["reductions"], one["fairness"]) = (3.into(), 0.into(), 0.5.into());
    one["ramp"] = serde_json::json!({ "sender_bps": 5, "receiver_bps": 6 });
    let read = Profile::read(&old.to_string()).expect("an old profile");
    let one = &read.cells[place].repetitions[0];
    assert_eq!((one.timeouts, one.reductions, one.fairness), (Some(3), Some(0), Some(0.5)));
    assert_eq!(one.ramp.sender_bps, Some(Rate::from_bps(5)));
}

#[test]
fn the_largest_goodput_leaves_headers_and_gaps_out() {
    let rate = Rate::from_bps(9_290_000_000);
    assert_eq!(crate::plan::payload_rate(rate, 1_500).as_bps() / 1_000_000, 8_746);
    assert_eq!(crate::plan::payload_rate(rate, 9_000).as_bps() / 1_000_000, 9_197);
}

#[test]
fn every_presets_document_is_read_as_it_was_written() {
    for (name, _) in crate::profile::presets() {
        for form in [Form::Quick, Form::Full] {
            let grid = crate::profile::preset(name, form).expect("a preset");
            let written = Profile::new(grid, ProfileKind::Measured, Environment::default(), "")
                .expect("a grid");
            // A line of 10/9.29 takes all digits that a number has: one that is read a bit off is
            // another grid.
            let read = Profile::read(&serde_json::to_string(&written).expect("JSON"));
            assert_eq!(read.as_ref(), Ok(&written), "{name}");
        }
    }
}

#[test]
fn a_cell_given_up_is_tried_again_when_the_profile_resumes() {
    let mut profile = profile(0.0);
    profile.run(&mut Broken, |_| true).expect("a bench that works");
    assert!(
        profile.cells.iter().all(|result| result.repetitions.len() == 16)
            && profile.next(1).is_empty()
    );
    let mut profile = profile.goes_on();
    profile.run(&mut Drawn { spread: 0.0 }, |_| true).expect("a bench that works");
    assert!(
        profile
            .cells
            .iter()
            .all(|result| result.valid().count() == 5 && result.repetitions.len() < 32)
    );
}

#[test]
fn a_profile_resumed_elsewhere_says_what_changed() {
    let path = PathPoint::named("usn-1400", None).expect("a path");
    let grid = Grid::new("custom", vec![path], vec![Algorithm::Cubic]);
    let of = |kernel: &str, most: &str| Environment {
        host: Some("a".to_owned()),
        kernel: Some(kernel.to_owned()),
        settings: vec![("net.core.rmem_max".to_owned(), most.to_owned())],
        ..Environment::default()
    };
    let profile =
        Profile::new(grid, ProfileKind::Measured, of("6.1", "4"), "Monday").expect("a grid");
    let old = serde_json::to_string(&profile).expect("JSON");
    assert!(!old.contains("resumptions"), "the field is absent in what never went on");
    let same = Profile::read(&old).expect("a profile").goes_on_in(of("6.1", "4"), "Monday");
    assert!(
        same.changes().is_empty() && same.resumptions.len() == 1,
        "it is recorded, and nothing changed"
    );
    let other = same.goes_on_in(of("6.18", "8"), "Tuesday");
    let said = other.changes();
    assert_eq!(
        said,
        ["from repetition 1 on (Tuesday): kernel 6.18 in place of 6.1, net.core.rmem_max 8 \
             in place of 4"]
    );
    assert!(other.page(&[]).html().contains("kernel 6.18 in place of 6.1"));
    assert_eq!(Profile::read(&serde_json::to_string(&other).expect("JSON")).as_ref(), Ok(&other));
}

#[test]
fn a_document_of_another_kind_is_called_by_its_schema() {
    let verbs = r#"{"schema":"farline/verbs/1","kind":7}"#;
    let error = Profile::read(verbs).expect_err("of RDMA");
    assert_eq!(error.message, "this is a farline/verbs/1, not a profile");
    let error = Profile::read("{}").expect_err("nothing").message;
    assert!(error.starts_with("not a profile: "), "{error}");
}
