//! The packet-by-packet connection against the closed form, and what loss, timeouts and other
//! traffic do to it.

use super::super::model::{MOST_PACKETS, VerbsPath};
use super::super::published::sc08_base;
use super::super::signal::Signal;
use super::*;
use crate::wan::Path;

fn scenario(path: &str, size: Bytes, count: u64) -> VerbsScenario {
    let settings = Path::named(path).expect("a path").settings(None, None).expect("an rtt");
    VerbsScenario {
        messages: Messages { size, count, depth: 100, queue_pairs: 1, packets: MOST_PACKETS },
        mtu: Bytes(2_048),
        host: sc08_base(),
        way: Extension::over(&settings, Signal::Sdr.data_rate(), Bytes::mib(4)),
        cross: Rate::default(),
        messages_per_s: None,
        timeout: Span::from_secs(2),
        most: Span::from_secs(60),
        seed: 1,
    }
}

fn gbps(outcome: &VerbsOutcome) -> f64 {
    outcome.throughput.as_gbps()
}

#[test]
fn without_loss_it_is_the_closed_form() {
    for (path, size) in [
        ("usn-0.2", 1 << 20),
        ("usn-1400", 1 << 20),
        ("usn-8600", 1 << 20),
        ("usn-8600", 1 << 14),
        ("usn-1400", 1),
    ] {
        let scenario = scenario(path, Bytes(size), 300);
        let rtt = Path::named(path).expect("a path").rtt.expect("an rtt");
        let line = VerbsPath {
            signal: Signal::Sdr,
            host: Some(sc08_base()),
            mtu: scenario.mtu,
            rtt,
            credits: None,
            messages_per_s: None,
        };
        let found = simulate(&scenario);
        let expected = scenario.messages.reliable(&line).as_gbps();
        // A train is serialised three times on its way, which the closed form leaves out.
        assert!(
            (gbps(&found) / expected - 1.0).abs() < 0.02,
            "{path} {size}: {:.5}, not {expected:.5}",
            gbps(&found)
        );
        assert_eq!((found.lost, found.again, found.timeouts, found.broken), (0, 0, 0, false));
    }
}

#[test]
fn each_lost_packet_costs_about_a_round_trip() {
    let clean = simulate(&scenario("usn-1400", Bytes::mib(1), 1_000));
    for seed in 0..6 {
        let mut scenario = VerbsScenario { seed, ..scenario("usn-1400", Bytes::mib(1), 1_000) };
        scenario.way.haul.loss = 1e-5;
        let found = simulate(&scenario);
        // Of the packets lost, some were sent in vain behind another: only the first of a round
        // trip costs one.
        let more = (found.seconds - clean.seconds) / 0.0268;
        assert!(
            found.lost > 0 && more > 0.9 && more < found.lost as f64 * 1.1 + 1.0,
            "seed {seed}: {more:.2} of {found:?}"
        );
        assert!(
            !found.broken && found.timeouts == 0 && found == simulate(&scenario),
            "seed {seed}"
        );
    }
}

#[test]
fn a_timeout_below_the_round_trip_sends_everything_again() {
    let with =
        |timeout| simulate(&VerbsScenario { timeout, ..scenario("usn-8600", Bytes::mib(8), 200) });
    let (short, long) = (with(Span::from_millis(67)), with(Span::from_millis(268)));
    assert!(gbps(&short) < 0.8 * gbps(&long), "{short:?} {long:?}");
    assert!(short.timeouts > 0 && short.again > 0 && (long.timeouts, long.again) == (0, 0));
}

#[test]
fn too_much_cross_traffic_stalls_it_unless_the_queue_is_deep() {
    let at = |path: &str, gbit: u64, queue: Option<Bytes>, seed| {
        let cross = Rate::from_bps(gbit * 1_000_000_000);
        let mut scenario = VerbsScenario {
            cross,
            seed,
            most: Span::from_secs(4),
            ..scenario(path, Bytes::mib(8), 300)
        };
        scenario.way.haul.queue = queue.unwrap_or(scenario.way.haul.queue);
        simulate(&scenario)
    };
    let shallow = Some(Bytes::mib(4));
    for seed in 1..3 {
        for path in ["usn-1400", "usn-8600"] {
            let clean = at(path, 0, shallow, seed);
            assert_eq!(at(path, 1, shallow, seed).lost, 0, "1 Gbit/s fits next to it");
            for gbit in [2, 3, 4] {
                let stalled = at(path, gbit, shallow, seed);
                assert!(
                    gbps(&stalled) < gbps(&clean) / 10.0 && stalled.lost > 0,
                    "{path} {gbit}: {stalled:?}"
                );
                let held = at(path, gbit, None, seed);
                // 2112 bytes on the wire for 2048, and the last round trip.
                let residual = (9.29 - gbit as f64) * 2_048.0 / 2_112.0;
                assert!(
                    held.lost == 0 && gbps(&held) < residual && gbps(&held) > 0.85 * residual,
                    "{path} {gbit}: {held:?}"
                );
            }
        }
        let (near, far) = (at("usn-1400", 3, shallow, seed), at("usn-8600", 3, shallow, seed));
        assert!(gbps(&far) < gbps(&near), "{near:?} {far:?}");
    }
}
