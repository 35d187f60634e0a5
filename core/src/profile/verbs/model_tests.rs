//! The closed form next to the papers' numbers, and where it must not be exact.

use super::super::published::{FIGURES, sc08_base};
use super::*;
use crate::statistics::decrease_per_mile;
use crate::wan::{NATIVE_CREDITS, Path};
use proptest::prelude::*;

/// What the papers say before anything is computed: 4x SDR ports (SC08, section I), packets of 2
/// KiB (rdma_bw.c), the throughput of the base length as what the hosts do.
fn sc08_line(rtt: Span) -> VerbsPath {
    VerbsPath {
        signal: Signal::Sdr,
        host: Some(sc08_base()),
        mtu: Bytes(2_048),
        rtt,
        credits: None,
        messages_per_s: None,
    }
}

fn icpp08_line(one_way_us: u64) -> VerbsPath {
    VerbsPath { host: None, ..sc08_line(Span::from_micros(2 * one_way_us)) }
}

fn rtt(path: &str) -> Span {
    Path::named(path).expect("a path").rtt.expect("an rtt")
}

/// Decrease per mile of SC08's three lengths for a measurement, with `far` of their rtt.
fn decreases(messages: Messages, far: f64) -> Vec<f64> {
    let mbps = |row: &super::super::published::VerbsSc08| {
        (
            row.miles,
            messages.reliable(&sc08_line(rtt(&row.path).mul_f64(far))).as_bps() as f64 / 1e6,
        )
    };
    FIGURES.sc08[1..]
        .iter()
        .map(|row| decrease_per_mile(mbps(&FIGURES.sc08[0]), mbps(row)).expect("another length"))
        .collect()
}

fn off(found: &[f64]) -> Vec<f64> {
    FIGURES.sc08[1..]
        .iter()
        .zip(found)
        .map(|(row, found)| (found - row.dpm_mbps.expect("printed")).abs())
        .collect()
}

#[test]
fn messages_and_distance_give_sc08s_decrease_per_mile() {
    let found = decreases(Messages::of_ib_rdma_bw(Bytes::mib(8)), 1.0);
    assert!(off(&found).iter().all(|off| *off <= 0.005), "{found:?}");
    let constant = decreases(Messages::of_ib_rdma_bw(Bytes::mib(8)), 0.0);
    assert!(off(&constant).iter().all(|off| *off > 0.005), "{constant:?}");
    for row in &FIGURES.sc08 {
        let gbps = Messages::of_ib_rdma_bw(Bytes::mib(8))
            .reliable(&sc08_line(rtt(&row.path)))
            .as_bps() as f64
            / 1e9;
        assert!((gbps - row.gbps).abs() < 0.02, "{}: {gbps:.3}, printed {}", row.path, row.gbps);
    }
}

#[test]
fn the_papers_5000_messages_would_not_give_its_table() {
    // Section IV.B speaks of 5000 operations. A last round trip among five times as many costs a
    // fifth: 0.003 Mbit/s per mile.
    let found = decreases(Messages { count: 5_000, ..Messages::of_ib_rdma_bw(Bytes::mib(8)) }, 1.0);
    assert!(found.iter().all(|dpm| (0.0025..0.0040).contains(dpm)), "{found:?}");
    assert!(off(&found).iter().all(|off| *off > 0.005), "{found:?}");
}

fn million_bytes(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 8e6
}

#[test]
fn delay_slows_only_small_reliable_writes_and_no_datagrams() {
    let delays = [0, 10, 100, 1_000, 10_000];
    let at = |size, us| Messages::of_ib_rdma_bw(size).reliable(&icpp08_line(us));
    for us in delays {
        let datagrams =
            Messages::of_ib_rdma_bw(Bytes(2_048)).unreliable(&icpp08_line(us)).expect("it fits");
        assert!(
            (million_bytes(datagrams) / FIGURES.icpp08_datagrams - 1.0).abs() < 0.02,
            "{us}: {:.1}",
            million_bytes(datagrams)
        );
        let large = million_bytes(at(Bytes::mib(4), us));
        assert!((large / FIGURES.icpp08_reliable - 1.0).abs() < 0.01, "{us}: {large:.1}");
    }
    for size in [256, 2_048, 16_384].map(Bytes) {
        let found = delays.map(|us| million_bytes(at(size, us)));
        assert!(
            found.is_sorted_by(|near, far| near > far) && found[4] < found[0] / 10.0,
            "{size}: {found:?}"
        );
    }
    assert_eq!(Messages::of_ib_rdma_bw(Bytes(4_096)).unreliable(&icpp08_line(0)), None);
}

#[test]
fn native_credits_last_a_millisecond_and_queue_pairs_add_window() {
    let far = |credits| {
        let line = VerbsPath { credits, ..icpp08_line(500) };
        Messages::of_ib_rdma_bw(Bytes::mib(4)).reliable(&line).as_gbps()
    };
    // 128 KiB in a round trip of 1 ms, of which headers take 1 %.
    assert!(
        (far(Some(NATIVE_CREDITS)) - 1.036).abs() < 0.01 && far(None) > 7.8,
        "{} {}",
        far(Some(NATIVE_CREDITS)),
        far(None)
    );
    let pairs = |queue_pairs| {
        let messages =
            Messages { packets: 128, queue_pairs, ..Messages::of_ib_rdma_bw(Bytes::mib(1)) };
        messages.reliable(&icpp08_line(10_000)).as_bps() as f64
    };
    assert!((pairs(4) / pairs(1) - 4.0).abs() < 0.05, "{}", pairs(4) / pairs(1));
}

#[test]
fn both_ways_carry_twice_as_much_but_for_the_acknowledgements() {
    for (size, most) in [(Bytes(64), 0.25), (Bytes::mib(1), 1e-4)] {
        let messages = Messages::of_ib_rdma_bw(size);
        let ratio = messages.reliable_both_ways(&icpp08_line(0)).as_bps() as f64
            / messages.reliable(&icpp08_line(0)).as_bps() as f64;
        assert!(ratio < 2.0 && ratio > 2.0 * (1.0 - most), "{size}: {ratio}");
    }
    let there_and_back = Messages::of_ib_rdma_bw(Bytes(1)).round_trip(&icpp08_line(1_000));
    assert!(
        there_and_back > Span::from_millis(2) && there_and_back < Span::from_micros(2_001),
        "{there_and_back}"
    );
}

proptest! {
    #[test]
    fn nothing_beats_its_port_and_nothing_gains_by_distance(
        power in 0u32..24, count in 1u64..10_000, depth in 1u64..512, pairs in 1u64..16, us in 0u64..200_000, kind in 0usize..5
    ) {
        let messages = Messages { size: Bytes(1 << power), count, depth, queue_pairs: pairs, packets: MOST_PACKETS };
        let at = |us| {
            let line = VerbsPath { signal: Signal::ALL[kind], host: None, mtu: Bytes(2_048), rtt: Span::from_micros(us), credits: None, messages_per_s: None };
            messages.reliable(&line).as_bps()
        };
        prop_assert!(at(us) <= Signal::ALL[kind].data_rate().as_bps());
        prop_assert!(at(us + 1_000) <= at(us));
        let deeper = Messages { depth: depth + 1, ..messages };
        let line = VerbsPath { signal: Signal::ALL[kind], host: None, mtu: Bytes(2_048), rtt: Span::from_micros(us), credits: None, messages_per_s: None };
        // A burst that just fills the turn is as good as a deeper one; rounding down is one bit.
        prop_assert!(deeper.reliable(&line).as_bps() + 1 >= at(us));
    }
}
