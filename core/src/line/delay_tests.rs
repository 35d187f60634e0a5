//! Tests of delays: clocks that differ, are set, or cannot be believed.

use super::*;

/// A path of `there` and `back` with noise, between clocks that differ.
fn measured(offset: f64, skew: f64, load: f64, seconds: u32, seed: u64) -> PathDelay {
    let mut rng = Rng::new(seed);
    let mut delay = PathDelay::new(false);
    // Waiting times behind other frames at this load, as of a queue with Poisson arrivals.
    let mut wait = move || {
        if rng.unit() < load { -rng.unit().max(1e-12).ln() * 1_300.0 / (1.0 - load) } else { 0.0 }
    };
    for n in 0..u64::from(seconds) * 100 {
        let sent = 1e15 + n as f64 * 1e7;
        let other = |own: f64| own + offset + skew * (own - 1e15);
        let received = sent + 8_600_000.0 + wait();
        let returned = received + 15_000.0;
        let came = returned + 8_600_000.0 + wait();
        let time = |nanos: f64| Time::from_nanos(nanos.round() as u64);
        delay.add(&DelaySample {
            sent: time(sent),
            received: time(other(received)),
            returned: time(other(returned)),
            came: time(came),
        });
    }
    delay
}

#[test]
fn an_offset_of_10_ms_and_a_skew_of_50_ppm_are_found() {
    for seed in 0..20 {
        for load in [0.1, 0.9] {
            let delay = measured(10e6, 50e-6, load, 60, seed);
            let clocks = delay.clocks().expect("samples");
            assert!((clocks.offset_ns - 10e6).abs() < 5_000.0, "{clocks:?}");
            assert!((clocks.skew_ppm - 50.0).abs() < 1.0, "{clocks:?}");
            let (low, high) = clocks.skew_ci_ppm;
            assert!(low <= 50.0 && 50.0 <= high, "{clocks:?}");
            let (there, _) = delay.one_way().expect("samples");
            let truth = 8_600_000.0 + load * 1_300.0 / (1.0 - load);
            assert!((there.mean_ns - truth).abs() < 5_000.0, "{there:?} for {truth}");
        }
    }
}

#[test]
fn a_clock_that_is_set_is_noticed_and_does_not_bend_delays() {
    let mut delay = PathDelay::new(false);
    for n in 0..2_000_u64 {
        let sent = 1_000_000_000_000 + n * 10_000_000;
        let ahead = if n < 1_000 { 0 } else { 50_000_000 };
        let at = Time::from_nanos;
        let there = sent + 5_000_000 + n % 7 * 1_000;
        delay.add(&DelaySample {
            sent: at(sent),
            received: at(there + ahead),
            returned: at(there + ahead + 1_000),
            came: at(there + 1_000 + 5_000_000 + n % 5 * 1_000),
        });
    }
    assert_eq!(delay.clock_steps, 1);
    let (there, _) = delay.one_way().expect("samples");
    assert!((there.mean_ns - 5_003_000.0).abs() < 2_000.0, "{there:?}");
    let clocks = delay.clocks().expect("samples");
    assert!((clocks.offset_ns - 50e6).abs() < 3_000.0, "{clocks:?}");
}

#[test]
fn queues_of_milliseconds_are_no_set_clock() {
    let mut rng = Rng::new(3);
    let mut delay = PathDelay::new(false);
    for n in 0..20_000_u64 {
        let sent = 1_000_000_000_000 + n * 10_000_000;
        let mut wait = || (rng.unit() * 6e6) as u64;
        let at = Time::from_nanos;
        let there = sent + 2_000_000 + wait();
        let (received, returned) = (at(there + 7_000_000), at(there + 7_001_000));
        let came = at(there + 1_000 + 2_000_000 + wait());
        delay.add(&DelaySample { sent: at(sent), received, returned, came });
    }
    assert_eq!((delay.clock_steps, delay.seen), (0, 20_000));
}

/// A packet that is away for 40, of which the other end says that it came and left at these
/// times.
fn said(received: u64, returned: u64) -> DelaySample {
    let at = Time::from_nanos;
    DelaySample { sent: at(100), received: at(received), returned: at(returned), came: at(140) }
}

#[test]
fn times_that_cannot_be_give_no_one_way_figure() {
    let mut delay = PathDelay::new(true);
    // Sent before it was received; held for longer than it was away.
    for (received, returned) in [(120, 110), (20, 90)] {
        assert_eq!(delay.add(&said(received, returned)), Some(Span::from_nanos(40)));
    }
    assert_eq!((delay.seen, delay.impossible, delay.one_way()), (2, 2, None));
    assert_eq!(delay.add(&said(120, 125)), Some(Span::from_nanos(35)));
    assert_eq!(delay.one_way().map(|(there, _)| there.mean_ns), Some(20.0));
    assert_eq!(delay.rtt().map(|rtt| rtt.mean_ns), Some(115.0 / 3.0));
    // Now and then a clock is set; a liar goes on.
    assert!((0..9).all(|_| delay.add(&said(120, 110)).is_some()));
    assert!(delay.is_distrusted() && delay.rtt().is_some());
    assert_eq!((delay.one_way(), delay.clocks(), delay.variation_ns()), (None, None, None));
    assert!(delay.kept_delays().is_empty());
    assert!((0..2_000).all(|_| delay.add(&said(120, 125)).is_some()));
    assert!(!delay.is_distrusted() && delay.one_way().is_some());
}

#[test]
fn an_answer_from_before_the_question_is_left_out() {
    let mut delay = PathDelay::new(true);
    let came = Time::from_nanos(90);
    assert_eq!(delay.add(&DelaySample { came, ..said(120, 125) }), None);
    assert_eq!((delay.seen, delay.rtt()), (0, None));
}

#[test]
fn delays_shorter_than_a_float_of_the_date_are_exact() {
    // Two devices of one host, in 2026: a hundred nanoseconds apart.
    let mut delay = PathDelay::new(true);
    for n in 0..400 {
        let at = |nanos| Time::from_nanos(1_795_000_000_000_000_000 + n * 10_000_003 + nanos);
        let (there, back) = (130 + n % 7, 90 + n % 5);
        let (received, returned) = (at(there), at(there + 9_001));
        let came = at(there + 9_001 + back);
        let rtt = delay.add(&DelaySample { sent: at(0), received, returned, came });
        assert_eq!(rtt, Some(Span::from_nanos(there + back)), "{n}");
    }
    assert_eq!((delay.impossible, delay.seen), (0, 400));
    let mut delays = delay.kept_delays();
    delays.dedup();
    assert_eq!(delays, [130.0, 131.0, 132.0, 133.0, 134.0, 135.0, 136.0]);
    assert_eq!(delay.rtt().map(|rtt| (rtt.min_ns, rtt.max_ns)), Some((220.0, 230.0)));
}
