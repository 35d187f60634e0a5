//! The truth put in on purpose: tests in virtual time over the link's machine, whose losses and bit
//! errors must lie in the intervals, and decisions that must be as rarely wrong as they say.

use super::*;
use crate::report::ReportDocument;
use crate::units::{Rate, Rng, Span};
use crate::wan::Direction;

#[test]
fn true_loss_and_bit_error_ratios_lie_in_the_intervals() {
    let (links, mut held, mut rng) = (240, [0_u32; 2], Rng::new(19));
    for seed in 0..links {
        let ten = |low: f64, high: f64, rng: &mut Rng| 10_f64.powf(low + (high - low) * rng.unit());
        let clean =
            Direction::new(Rate::from_bps(10_000_000_000), Span::from_millis(1), Span::ZERO);
        let loss = ten(-4.0, -2.0, &mut rng);
        let (totals, link) = simulate(&Direction { loss, ..clean.clone() }, 1_518, 20_000, seed);
        assert_eq!(totals.runs.lost, link.dropped(), "what the link dropped is what is counted");
        let ratio = Ratio::clustered(totals.runs.lost, 20_000.0, totals.runs.dispersion(), 0.95);
        held[0] += u32::from(ratio.is_some_and(|ratio| ratio.holds(loss)));

        let ber = ten(-9.0, -6.0, &mut rng);
        let (totals, _) = simulate(&Direction { ber, ..clean }, 1_518, 20_000, seed);
        let bits = 20_000.0 * 1_518.0 * 8.0;
        // Of frames with more than one wrong bit only one is seen; at 1e-6 these are 0.6 %.
        let ratio = Ratio::of(totals.runs.lost, bits, 0.95);
        held[1] += u32::from(ratio.is_some_and(|ratio| ratio.holds(ber)));
    }
    assert!(held.iter().all(|held| f64::from(*held) >= 0.93 * links as f64), "{held:?} of {links}");
}

#[test]
fn the_true_ratio_of_bursty_loss_lies_in_the_interval() {
    let (links, mut held, mut alone) = (300, 0, 0);
    for seed in 0..links {
        let mut rng = Rng::new(seed);
        let (turns_bad, turns_good) = (2e-4, 0.1 + 0.4 * rng.unit());
        let frames = 100_000;
        let runs = simulate_bursts(frames, turns_bad, turns_good, &mut rng);
        let truth = turns_bad / (turns_bad + turns_good);
        let of = |dispersion: f64| Ratio::clustered(runs.lost, frames as f64, dispersion, 0.95);
        held += u32::from(of(runs.dispersion()).is_some_and(|ratio| ratio.holds(truth)));
        alone += u32::from(of(1.0).is_some_and(|ratio| ratio.holds(truth)));
    }
    assert!(f64::from(held) >= 0.93 * links as f64, "{held} of {links}");
    assert!(f64::from(alone) < 0.8 * links as f64, "{alone}: this test could not fail");
}

#[test]
fn the_true_ratio_lies_there_after_few_bursts_too() {
    let (mut links, mut held, mut as_seen) = (0, 0, 0);
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let (loss, turns_good) = (10_f64.powf(-4.3 + 2.3 * rng.unit()), 0.1 + 0.4 * rng.unit());
        let frames = 10_000;
        let runs = simulate_bursts(frames, loss * turns_good / (1.0 - loss), turns_good, &mut rng);
        if !(1..10).contains(&runs.bursts) {
            continue;
        }
        links += 1;
        let of = |dispersion: f64| Ratio::clustered(runs.lost, frames as f64, dispersion, 0.95);
        held += u32::from(of(runs.dispersion()).is_some_and(|ratio| ratio.holds(loss)));
        let seen = (runs.burst_squares as f64 / runs.lost as f64).min(runs.lost as f64);
        as_seen += u32::from(of(seen).is_some_and(|ratio| ratio.holds(loss)));
    }
    assert!(f64::from(held) >= 0.93 * f64::from(links), "{held} of {links}");
    assert!(as_seen < held && links > 800, "{as_seen} of {links}: this test could not fail");
}

/// A line that loses in bursts of 2 to 10 frames in the mean, a ratio of which 0.1 to 50 bursts are
/// to be expected: what came, its interval, that ratio and how many frames a burst takes.
fn drawn_bursts(seed: u64) -> (LossRuns, Ratio, f64, f64) {
    let mut rng = Rng::new(seed);
    let (loss, turns_good) = (10_f64.powf(-4.0 + 2.0 * rng.unit()), 0.1 + 0.4 * rng.unit());
    let frames = 10_000;
    let runs = simulate_bursts(frames, loss * turns_good / (1.0 - loss), turns_good, &mut rng);
    let ratio = Ratio::clustered(runs.lost, frames as f64, runs.dispersion(), 0.95);
    (runs, ratio.expect("frames"), loss, 1.0 / turns_good)
}

#[test]
fn the_true_ratio_lies_there_however_few_bursts_came() {
    // One, two, three to nine, and more; of none the interval is of bursts, as the next test asks.
    let mut counts = [[0; 2]; 4];
    for (runs, ratio, loss, _) in (0..5_000).map(drawn_bursts) {
        let place = match runs.bursts {
            0 => continue,
            1 => 0,
            2 => 1,
            3..10 => 2,
            _ => 3,
        };
        counts[place][0] += u32::from(ratio.holds(loss));
        counts[place][1] += 1;
    }
    for [held, of] in counts {
        let held = f64::from(held) / f64::from(of);
        assert!(of > 300 && held >= 0.93, "{held}: {counts:?}");
    }
}

#[test]
fn where_nothing_is_lost_the_bound_is_of_bursts() {
    let (mut links, mut held, mut of_frames) = (0, 0, 0);
    for (_, ratio, loss, burst) in (0..4_000).map(drawn_bursts).filter(|drawn| drawn.0.lost == 0) {
        links += 1;
        held += u32::from(ratio.holds(loss / burst));
        of_frames += u32::from(ratio.holds(loss));
    }
    assert!(f64::from(held) >= 0.95 * f64::from(links), "{held} of {links}");
    assert!(f64::from(of_frames) < 0.8 * f64::from(links), "{of_frames}: there is no need to say");
}

/// The limit of the ratios that are decided on here.
const LIMIT: f64 = 1e-3;

/// Runs the test of a ratio of `truth` times its limit, of losses that come one by one; returns the
/// decision and how long it took, in units of one over the limit.
fn decided(truth: f64, seed: u64) -> (RatioDecision, f64) {
    decided_for(1.0, truth, (1.0, |_: &mut Rng| 1), seed)
}

/// The same of losses in bursts of `size`, and a test whose passes hold for those of `burst`.
fn decided_for(
    burst: f64,
    truth: f64,
    size: (f64, impl Fn(&mut Rng) -> u64),
    seed: u64,
) -> (RatioDecision, f64) {
    let test = RatioTest { limit: LIMIT, confidence: 0.95, burst };
    let most = 60.0 * burst / LIMIT;
    let (decision, frames) =
        simulate_decision(&test, truth * LIMIT, size, most, &mut Rng::new(seed));
    (decision, frames * LIMIT)
}

/// Of bursts that end with the same probability at each frame.
fn geometric(mean: f64) -> impl Fn(&mut Rng) -> u64 {
    move |rng| (1..).find(|_| rng.unit() < 1.0 / mean).unwrap_or(1)
}

#[test]
fn wrong_decisions_are_as_rare_as_stated() {
    let seeds = 2_000_u64;
    let share = |truth: f64, wrong: RatioDecision| {
        let count = (0..seeds).filter(|seed| decided(truth, *seed).0 == wrong).count();
        count as f64 / seeds as f64
    };
    // Right at the limit both are as frequent as they can be. Three deviations of 2,000 draws.
    let slack = 3.0 * (0.05 * 0.95 / seeds as f64).sqrt();
    for (truth, wrong) in [(1.0, RatioDecision::Accepted), (1.0, RatioDecision::Refused)] {
        let found = share(truth, wrong);
        assert!(found <= 0.05 + slack && found > 0.001, "{wrong:?} at {truth}: {found}");
    }
    assert!(share(1.5, RatioDecision::Accepted) <= 0.05);
    assert!(share(0.5, RatioDecision::Refused) <= 0.05);
}

#[test]
fn wrong_decisions_are_as_rare_where_losses_come_in_bursts() {
    let seeds = 1_000_u64;
    let slack = 3.0 * (0.05 * 0.95 / seeds as f64).sqrt();
    for mean in [2.0, 5.0, 20.0] {
        // A pass for bursts of that size, and a test of which nobody said how losses come.
        for (burst, wrong) in [(mean, RatioDecision::Accepted), (1.0, RatioDecision::Refused)] {
            let is_wrong = |seed: &u64| {
                let (decision, _) = decided_for(burst, 1.0, (mean, geometric(mean)), *seed);
                decision == wrong
            };
            let found = (0..seeds).filter(is_wrong).count() as f64 / seeds as f64;
            assert!(found <= 0.05 + slack, "{wrong:?}, bursts of {mean}: {found}");
            let fixed = |seed: &u64| {
                let size = (mean, |_: &mut Rng| mean as u64);
                decided_for(burst, 1.0, size, *seed).0 == wrong
            };
            let found = (0..seeds).filter(fixed).count() as f64 / seeds as f64;
            assert!(found <= 0.05 + slack, "{wrong:?}, bursts of {mean} each: {found}");
        }
    }
}

#[test]
fn good_and_bad_lines_with_bursts_are_told_apart() {
    let seeds = 100_u64;
    for (truth, right) in [(0.1, RatioDecision::Accepted), (10.0, RatioDecision::Refused)] {
        let ended: Vec<_> =
            (0..seeds).map(|seed| decided_for(5.0, truth, (5.0, geometric(5.0)), seed)).collect();
        let found = ended.iter().filter(|(decision, _)| *decision == right).count();
        assert!(found >= 95, "{right:?} at {truth}: {found} of {seeds}");
        // As long in bursts as one of single losses would be in frames.
        let mean = ended.iter().map(|(_, length)| length).sum::<f64>() / seeds as f64;
        assert!(mean < 5.0 * 15.7, "{right:?} at {truth}: {mean}");
    }
}

#[test]
fn a_decision_takes_less_than_a_test_of_fixed_length() {
    // The shortest test of fixed length that refuses a line at its limit and accepts one of a third
    // of it, each with 95 %, takes 15.7 over the limit and at most 9 errors (Poisson's table).
    let fixed = 15.7;
    let mean = |truth: f64| (0..500).map(|seed| decided(truth, seed).1).sum::<f64>() / 500.0;
    let lines = [0.0, 0.1, 1.0 / 3.0, 3.0, 10.0].map(mean);
    let all = lines.iter().sum::<f64>() / lines.len() as f64;
    assert!(all <= 0.6 * fixed, "{lines:?}");
    assert!(lines[2] < fixed, "also where it takes longest: {lines:?}");
}

fn settings() -> LineSettings {
    LineSettings {
        target: "there".to_owned(),
        rate: Rate::from_bps(100_000_000),
        load_percent: 50.0,
        frames: FrameMix::cjpat(),
        ethernet: None,
        burst: 1,
        criterion: Some(LineCriterion::BitErrors(1e-9)),
        confidence: 0.95,
        loss_burst: 1.0,
        most_seconds: 100,
        most_frames: None,
    }
}

#[test]
fn what_is_counted_and_was_never_sent_counts_for_nothing() {
    let mut test = LineTest::new(settings(), true);
    let true_row = SecondRow { received: 10, compared_bits: 900, ..SecondRow::default() };
    let rows = [
        true_row,
        SecondRow { received: 11, ..true_row },
        SecondRow { compared_bits: 1_000_000_000_000, ..true_row },
        SecondRow { wrong_frames: 11, wrong_bits: 11, ..true_row },
        SecondRow { wrong_frames: 1, wrong_bits: 901, ..true_row },
    ];
    for (second, row) in (0..).zip(rows) {
        let sent = SentSecond { second, frames: 10, framed_bits: 1_000, ..SentSecond::default() };
        test.note_sent(sent);
        test.note_row(SecondRow { second, ..row });
    }
    let settled = test.settle_sent();
    let impossible = settled.iter().filter(|it| it.untested == Some(Untested::ImpossibleCounts));
    assert_eq!((impossible.count(), test.sums.tested, test.sums.compared_bits), (4, 1, 900));
    let (outcome, said) = test.verdict();
    assert_eq!(outcome, LineOutcome::Unfit, "{said}");
    let plain = test.document("0", "today").plain(usize::MAX);
    assert!(plain.contains("4 s: the other end counted what was never sent"), "{plain}");
    assert!(plain.contains("no delay packet came back"), "{plain}");
}

#[test]
fn what_comes_while_a_test_ends_does_not_undo_its_decision() {
    let mut test = LineTest::new(settings(), true);
    for (second, received) in [(0, 10), (1, 9)] {
        let framed_bits = 5_000_000_000;
        let sent = SentSecond { second, frames: 10, framed_bits, ..SentSecond::default() };
        test.note_sent(sent);
        test.note_row(SecondRow { second, received, ..SecondRow::default() });
    }
    test.settle(1);
    assert_eq!(test.decision(), RatioDecision::Accepted);
    test.settle_sent();
    let (outcome, said) = test.verdict();
    assert_eq!((outcome, test.sums.lost), (LineOutcome::Passed, 1), "{said}");
}

#[test]
fn a_test_goes_on_from_what_was_written_down() {
    let mut test = LineTest::new(settings(), false);
    let sent =
        |second| SentSecond { second, frames: 10, framed_bits: 1_000, ..SentSecond::default() };
    let row = |second, received| SecondRow { second, received, ..SecondRow::default() };
    for second in 0..3 {
        test.note_sent(sent(second));
        test.note_row(row(second, 10 - second));
    }
    let tested = test.settle(2);
    assert_eq!(tested.iter().map(|second| second.lost).collect::<Vec<_>>(), [0, 1]);
    let at = |seconds: u64| crate::units::Time::from_nanos(seconds * 1_000_000_000);
    let state = LineState {
        schema: LineState::SCHEMA.to_owned(),
        session: 7,
        begun: at(1_000),
        written: at(1_003),
        next_frame: 30,
        instance: 1,
        test,
    };
    let json = serde_json::to_string(&state).expect("an object");
    let mut back = LineState::read(&json).expect("a state");
    assert_eq!(back, state);
    // Killed, and back after a minute: what lies between counts for nothing.
    assert_eq!(back.since_begin(at(1_063)), Span::from_secs(63));
    assert!(back.frames_from(at(1_063)) > 30 + 60 * 4_000);
    let gap = back.test.away(64);
    assert!(gap.iter().all(|second| second.untested == Some(Untested::Away)));
    back.test.note_sent(sent(64));
    back.test.note_row(row(64, 10));
    back.test.settle_sent();
    let sums = back.test.sums;
    assert_eq!((sums.tested, sums.away, sums.sent, sums.lost), (3, 62, 30, 1));
    assert!(LineState::read("{}").is_err());
}

/// What is said of a test of 10,000 frames of which these are lost: in a terminal, and on the page.
fn reported(criterion: LineCriterion, lost: &[u64]) -> (String, String) {
    let settings = LineSettings { criterion: Some(criterion), ..settings() };
    let (mut test, mut tally) = (LineTest::new(settings, true), Tally::new());
    let frames = 10_000;
    for sequence in (0..frames).filter(|sequence| !lost.contains(sequence)) {
        let (second, compared_bits, wrong_bits, after_own_drops) = (0, 0, 0, false);
        tally.arrive(&Arrived { sequence, second, compared_bits, wrong_bits, after_own_drops });
    }
    let framed_bits = frames * 12_144;
    test.note_sent(SentSecond { frames, framed_bits, next: frames, ..SentSecond::default() });
    tally.rows(0, 9).into_iter().for_each(|row| test.note_row(row));
    test.settle_sent();
    test.note_totals(&tally.totals(Some(frames)));
    let document = test.document("0", "today");
    (document.plain(usize::MAX), document.page(&[]).html())
}

#[test]
fn few_bursts_and_none_are_said_to_leave_their_size_open() {
    let bits = LineCriterion::BitErrors(1e-9);
    let (plain, page) = reported(bits, &[]);
    let said = "below 3.00e-4 at 95 % if lost one by one, 3.00e-3 if ten at a time";
    assert!(plain.contains(said), "{plain}");
    assert!(page.contains("nothing is known of bursts"));
    let (plain, page) = reported(bits, &[77, 78, 79, 5_000]);
    assert!(plain.contains("4 of 1.000e4 frames: 4.00e-4 (") && !plain.contains("one by one"));
    assert!(page.contains("in 2 bursts, of which the next may be much larger"), "{plain}");
    let many: Vec<u64> = (1..20).map(|burst| burst * 400).collect();
    let (_, page) = reported(bits, &many);
    assert!(!page.contains("may be much larger") && !page.contains("nothing is known of bursts"));
}

#[test]
fn a_burst_decides_nothing_that_as_many_losses_do() {
    let [burst, single]: [Vec<u64>; 2] =
        [(100..110).collect(), (1..=10).map(|n| n * 500).collect()];
    // Ten of 10,000: far below 4e-3 and far above 1e-4 one by one, and nobody knows as one burst.
    for (limit, word) in [(4e-3, "passed"), (1e-4, "failed")] {
        let said = |lost: &[u64]| reported(LineCriterion::Loss(limit), lost).0;
        assert!(said(&single).contains(word) && said(&burst).contains("not decided"), "{limit:e}");
        assert!(!said(&single).contains("the ratio may be"), "{limit:e}");
    }
}

#[test]
fn a_decision_on_bursts_is_said_to_be_worth_less() {
    let criterion = Some(LineCriterion::Loss(5e-4));
    let mut test = LineTest::new(LineSettings { criterion, ..settings() }, true);
    let (mut tally, mut next) = (Tally::new(), 0);
    // Decided after the first second; in the other a burst comes, while the test ends.
    for (second, frames, lost) in [(0, 7_000, 0..0), (1, 3_000, 8_000..8_010)] {
        for sequence in (next..next + frames).filter(|sequence| !lost.contains(sequence)) {
            let (compared_bits, wrong_bits, after_own_drops) = (0, 0, false);
            let frame = Arrived { sequence, second, compared_bits, wrong_bits, after_own_drops };
            tally.arrive(&frame);
        }
        next += frames;
        let framed_bits = frames * 12_144;
        test.note_sent(SentSecond { second, frames, framed_bits, next, ..SentSecond::default() });
        tally.rows(second, 9).into_iter().for_each(|row| test.note_row(row));
        test.settle(second + 1);
    }
    test.note_totals(&tally.totals(Some(next)));
    let document = test.document("0", "today");
    let (plain, page) = (document.plain(usize::MAX), document.page(&[]).html());
    assert_eq!((document.outcome, document.sums.lost), (LineOutcome::Passed, 10), "{plain}");
    let said = "the ratio may be above 5e-4 at 95 %";
    assert!(plain.contains(said) && page.contains(said), "{plain}");
    // What a line carried, and in how many of its seconds something was lost.
    assert!(plain.contains("errored seconds       1 of 2 seconds (50.000 %)"), "{plain}");
    assert!(plain.contains("60.7 Mbit/s of 60.7 Mbit/s, from header to FCS"), "{plain}");
}

#[test]
fn for_which_bursts_a_pass_holds_is_said() {
    for (loss_burst, holds) in
        [(1.0, "where frames are lost one by one"), (5.0, "for bursts of 5 frames in the mean")]
    {
        let criterion = Some(LineCriterion::Loss(1e-3));
        let settings = LineSettings { criterion, loss_burst, ..settings() };
        let mut test = LineTest::new(settings, true);
        let (frames, framed_bits) = (20_000, 20_000 * 12_144);
        test.note_sent(SentSecond { frames, framed_bits, ..SentSecond::default() });
        test.note_row(SecondRow { received: frames, ..SecondRow::default() });
        test.settle_sent();
        let document = test.document("0", "today");
        assert_eq!(document.outcome, LineOutcome::Passed, "{}", document.verdict);
        let page = document.page(&[]).html();
        assert!(page.contains(&format!("The decision holds {holds}")), "{}", document.verdict);
        assert_eq!(document.verdict.contains("in bursts of 5"), loss_burst > 1.0);
    }
}

#[test]
fn a_report_stands_in_the_width_of_a_terminal() {
    let mut test = LineTest::new(settings(), true);
    test.note_sent(SentSecond { frames: 10, framed_bits: 1_000, ..SentSecond::default() });
    test.settle_sent();
    test.refused_answers =
        RefusedAnswers { never_asked: 1, other_time: 20, ..RefusedAnswers::default() };
    let document = test.document("0", "today");
    let whole = document.plain(usize::MAX);
    assert!(whole.contains("1 answer to what was never sent, or too late, 20 answers"), "{whole}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for width in [30, 50, 60, 80, 200] {
        let plain = document.plain(width);
        assert!(plain.lines().all(|line| line.chars().count() <= width), "{width}:\n{plain}");
        assert_eq!(words(&plain), words(&whole));
    }
    let narrow = document.plain(50);
    assert!(narrow.contains("\nframes lost\n  10 of "), "{narrow}");
}
