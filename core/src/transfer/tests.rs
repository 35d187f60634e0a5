//! What faults cost a transfer: a crash what was not durable, a full disk nothing that it holds, a
//! lost block itself, a slow receiver its own time.

use super::scenario::{
    Fault, Run, at, channels, delay, disk, files, kbit, lost_block, ms, pool, rate, room, scenario,
    seed,
};
use crate::units::Span;

/// The length of a block, and what two channels bring in the time between two checkpoints.
const BLOCK: u64 = 1_024;
const CHECKPOINT: u64 = 20_000;
/// What the sender may be ahead of the disk: two channels' buffers, the receiver's pool, a round
/// trip.
const AHEAD: u64 = (2 * 5 + 8 + 2) * BLOCK;

/// 100,000 bytes over two channels, which take 100 ms, with `fault` after `ms`.
fn struck(fault: Fault, after: u64, of_seed: u64) -> Run {
    scenario![
        seed(of_seed),
        files(&[60_000, 500, 39_500]),
        channels(2),
        rate(kbit(4_000)),
        delay(ms(1)),
        at(ms(after), fault),
    ]
    .run()
}

#[test]
fn a_crash_costs_what_was_not_durable() {
    for of_seed in 0..40 {
        for fault in [Fault::Kill, Fault::PowerCut] {
            let run = struck(fault, 70, of_seed);
            assert_eq!(run.attempts, 2, "{run:?}");
            assert!(run.resumed > 30_000, "{run:?}");
            assert!(run.sent <= run.payload + CHECKPOINT + AHEAD, "{run:?}");
            assert!(run.sent >= run.payload + BLOCK, "something was on its way: {run:?}");
        }
    }
}

#[test]
fn whenever_it_is_struck_a_transfer_lands() {
    for after in 0..=110 {
        for fault in [Fault::Kill, Fault::PowerCut, Fault::Break(0), Fault::Break(1)] {
            let run = struck(fault, after, after);
            assert!(run.attempts <= 2 && run.passes <= 3, "{fault:?} after {after} ms: {run:?}");
        }
    }
}

#[test]
fn a_full_disk_keeps_what_it_holds() {
    let run = scenario![
        files(&[50_000]),
        channels(2),
        rate(kbit(4_000)),
        room(20_000),
        at(ms(150), Fault::Room(u64::MAX)),
    ]
    .run();
    assert!(run.full >= 1 && run.attempts == run.full + 1, "{run:?}");
    // What it held was not sent again; what was on its way each time was.
    assert!(run.resumed >= u64::from(run.full) * 18_000, "{run:?}");
    assert!(run.sent <= run.payload + u64::from(run.full) * AHEAD, "{run:?}");
}

#[test]
fn a_lost_block_is_sent_again_alone() {
    let run = scenario![files(&[50_000]), channels(3), lost_block(7), lost_block(30)].run();
    assert_eq!((run.attempts, run.passes), (1, 2), "{run:?}");
    assert_eq!(run.sent, run.payload + 2 * BLOCK, "{run:?}");
}

#[test]
fn a_broken_channel_costs_what_it_carried() {
    for after in [5, 20, 40] {
        let run = struck(Fault::Break(1), after, 1);
        assert_eq!(run.attempts, 1, "{run:?}");
        assert!(run.sent <= run.payload + 5 * BLOCK, "{run:?}");
        // The other channel has twice as much to do from then on.
        assert!(run.took > ms(140), "{run:?}");
    }
}

#[test]
fn a_slow_receiver_takes_its_own_time_and_its_pool() {
    let of = |slots, disk_rate| {
        scenario![
            files(&[100_000]),
            channels(2),
            rate(kbit(4_000)),
            delay(ms(5)),
            pool(slots),
            disk(disk_rate),
        ]
        .run()
    };
    let within = |span: Span, low, high| (ms(low)..ms(high)).contains(&span);
    // 100,000 bytes at 8 Mbit/s over both channels, and at 800 kbit/s to the disk.
    let fast = of(8, kbit(80_000));
    assert!(within(fast.took, 100, 140), "{fast:?}");
    for slots in [6, 12] {
        let slow = of(slots, kbit(800));
        assert!(within(slow.took, 1_000, 1_100), "{slow:?}");
        assert!((slots / 2..=slots).contains(&slow.most_slots), "{slow:?}");
        assert_eq!((slow.sent, slow.attempts), (slow.payload, 1), "{slow:?}");
    }
}
