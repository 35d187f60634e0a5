//! The receiver, block by block: order, credits, ends and what a peer may not do.

use super::*;
use crate::transfer::Layout;
use crate::units::{ErrorCode, Rng};

/// A sender's end as the receiver sees it: each channel has blocks, then an end.
fn run(seed: u64, lose: Option<usize>, in_order: bool) -> (Option<ReceiverOutput>, u64, u64) {
    let mut rng = Rng::new(seed);
    let channels = 1 + rng.below(5) as usize;
    let slots = channels + 1 + rng.below(4) as usize;
    let layout = Layout::of_file(rng.below(60_000), 1024);
    let mut lanes: Vec<VecDeque<Block>> = vec![VecDeque::new(); channels];
    for index in 0..layout.block_count() {
        lanes[rng.below(channels as u64) as usize].push_back(layout.block(index));
    }
    let mut receiver =
        Receiver::new(slots, Watermarks::of_writer(slots * (1 + rng.below(8) as usize)));
    let mut next = 0;
    if in_order {
        receiver = receiver.in_order(channels);
    }
    let mut due: Vec<ReceiverInput> = (0..channels)
        .map(|i| ReceiverInput::ChannelOpened { channel: ChannelId(i), depth: 1, most: 1 })
        .collect();
    let mut held = BTreeSet::new();
    loop {
        while let Some(output) = receiver.poll() {
            match output {
                ReceiverOutput::Offer { channel, slot } => {
                    assert!(held.insert(slot), "seed {seed}: a slot was given twice");
                    due.push(match lanes[channel.0].pop_front() {
                        _ if lose == Some(channel.0) && lanes[channel.0].len() < 2 => {
                            ReceiverInput::Lost { channel, slot: Some(slot) }
                        }
                        Some(block) => ReceiverInput::Arrived { channel, slot, block },
                        None => {
                            let channels = (channel.0 == 0).then_some(channels as u64);
                            ReceiverInput::Ended { channel, slot, channels }
                        }
                    });
                }
                ReceiverOutput::Write { slot, block } => {
                    assert!(
                        !in_order || block.offset == next,
                        "seed {seed}: {block:?} before {next}"
                    );
                    next = block.range().end;
                    due.push(ReceiverInput::Written(slot));
                }
                end => return (Some(end), receiver.written().total(), layout.payload()),
            }
        }
        if due.is_empty() {
            return (None, receiver.written().total(), layout.payload());
        }
        let input = due.swap_remove(rng.below(due.len() as u64) as usize);
        if let ReceiverInput::Written(slot) | ReceiverInput::Ended { slot, .. } = &input {
            held.remove(slot);
        }
        receiver.handle(input);
    }
}

#[test]
fn finishes_when_every_channel_ended_and_every_byte_is_written() {
    for seed in 0..300 {
        for in_order in [false, true] {
            let (end, written, payload) = run(seed, None, in_order);
            assert_eq!(end, Some(ReceiverOutput::Finished), "seed {seed}");
            assert_eq!(written, payload, "seed {seed}");
        }
    }
}

#[test]
fn a_channel_out_of_order_is_named_and_nothing_misplaced() {
    let mut receiver = Receiver::new(3, Watermarks::of_writer(3)).in_order(1);
    receiver.handle(ReceiverInput::ChannelOpened { channel: ChannelId(0), depth: 1, most: 1 });
    for index in [0, 2, 3, 4] {
        loop {
            match receiver.poll() {
                Some(ReceiverOutput::Offer { channel, slot }) => {
                    let block = Block { offset: index * 1024, len: 1024 };
                    break receiver.handle(ReceiverInput::Arrived { channel, slot, block });
                }
                Some(ReceiverOutput::Write { slot, block }) => {
                    assert_eq!(block.offset, 0);
                    receiver.handle(ReceiverInput::Written(slot));
                }
                other => panic!("{index}: {other:?}"),
            }
        }
    }
    let end = receiver.poll();
    assert!(
        matches!(&end, Some(ReceiverOutput::Failed(error)) if error.code == ErrorCode::OutOfOrder),
        "{end:?}"
    );
    assert_eq!(receiver.written().to_string(), "0-1024");
}

#[test]
fn writes_in_runs_between_the_marks() {
    let mut receiver = Receiver::new(8, Watermarks { low: 1, high: 3, turns: false });
    receiver.handle(ReceiverInput::ChannelOpened { channel: ChannelId(0), depth: 1, most: 1 });
    let mut runs = Vec::new();
    for index in 0..6 {
        let Some(ReceiverOutput::Offer { channel, slot }) = receiver.poll() else {
            panic!("a slot is free")
        };
        let block = Block { offset: index * 1024, len: 1024 };
        receiver.handle(ReceiverInput::Arrived { channel, slot, block });
        let mut run = 0;
        while receiver.to_write.len() + receiver.writing.len() > 0 && run < 9 {
            let before = receiver.writing.len();
            let Some(write) = receiver.poll_write() else { break };
            assert!(
                matches!(write, ReceiverOutput::Write { .. })
                    && receiver.writing.len() == before + 1
            );
            run += 1;
        }
        runs.push(run);
        for slot in receiver.writing.keys().copied().collect::<Vec<_>>() {
            receiver.handle(ReceiverInput::Written(slot));
        }
    }
    assert_eq!(runs, [0, 0, 3, 0, 0, 3]);
}

#[test]
fn a_wider_window_lets_more_registered_slots_be_filled() {
    let mut receiver = Receiver::new(16, Watermarks::of_writer(16));
    receiver.handle(ReceiverInput::ChannelOpened { channel: ChannelId(0), depth: 4, most: 12 });
    let offers = |receiver: &mut Receiver| std::iter::from_fn(|| receiver.poll()).count();
    assert_eq!((offers(&mut receiver), receiver.window()), (4, (4, 12)));
    receiver.widen(4);
    assert_eq!((offers(&mut receiver), receiver.window()), (4, (8, 12)));
    // A slot that the channel could not register is nobody's; no other is asked for in its
    // place.
    receiver.handle(ReceiverInput::Unused(SlotId(0)));
    assert_eq!(offers(&mut receiver), 0);
    receiver.widen(40);
    assert_eq!((offers(&mut receiver), receiver.window()), (4, (12, 12)));
}

#[test]
fn a_lost_channel_fails_the_transfer_and_never_finishes_it() {
    for seed in 0..300 {
        let (end, ..) = run(seed, Some(0), false);
        assert!(
            matches!(&end, Some(ReceiverOutput::Failed(error)) if error.code == ErrorCode::ChannelLost),
            "seed {seed}: {end:?}"
        );
    }
}

#[test]
fn refuses_more_ends_than_channels_and_ranges_that_overflow() {
    let mut receiver = Receiver::new(4, Watermarks::of_writer(4));
    for i in 0..2 {
        let channels = Some(1);
        receiver.handle(ReceiverInput::Ended { channel: ChannelId(i), slot: SlotId(i), channels });
    }
    assert!(
        matches!(receiver.poll(), Some(ReceiverOutput::Failed(error)) if error.code == ErrorCode::TooManyChannels)
    );
    let mut receiver = Receiver::new(4, Watermarks::of_writer(4));
    let block = Block { offset: u64::MAX, len: 2 };
    receiver.handle(ReceiverInput::Arrived { channel: ChannelId(0), slot: SlotId(0), block });
    assert!(
        matches!(receiver.poll(), Some(ReceiverOutput::Failed(error)) if error.code == ErrorCode::BlockOutOfRange)
    );
}

/// What a receiver comes to when these blocks and ends arrive, each written at once.
fn outcome(
    inputs: impl IntoIterator<Item = (usize, Result<Block, Option<u64>>)>,
) -> ReceiverOutput {
    let mut receiver = Receiver::new(8, Watermarks::of_writer(1));
    for channel in [ChannelId(0), ChannelId(1)] {
        receiver.handle(ReceiverInput::ChannelOpened { channel, depth: 1, most: 1 });
    }
    let mut slots = [None, None];
    let mut inputs = inputs.into_iter();
    loop {
        match receiver.poll() {
            Some(ReceiverOutput::Offer { channel, slot }) => slots[channel.0] = Some(slot),
            Some(ReceiverOutput::Write { slot, .. }) => {
                receiver.handle(ReceiverInput::Written(slot));
            }
            Some(end) => return end,
            None => {
                let (of, what) = inputs.next().expect("an end");
                let (channel, slot) = (ChannelId(of), slots[of].take().expect("a slot"));
                receiver.handle(match what {
                    Ok(block) => ReceiverInput::Arrived { channel, slot, block },
                    Err(channels) => ReceiverInput::Ended { channel, slot, channels },
                });
            }
        }
    }
}

#[test]
fn pieces_with_gaps_are_counted_and_refused_beyond_a_bound() {
    let byte = |i: u64| (0, Ok(Block { offset: 2 * i, len: 1 }));
    let most = MOST_RANGES as u64;
    let ends = |count| (0..count).map(byte).chain([(0, Err(Some(2))), (1, Err(Some(2)))]);
    assert_eq!(outcome(ends(most)), ReceiverOutput::Finished);
    let ReceiverOutput::Failed(error) = outcome(ends(most + 1)) else { panic!("it finished") };
    assert_eq!((error.code, error.fault), (ErrorCode::TooManyRanges, Fault::Refused));
    assert!(error.message.len() < 200, "{error}");
}

#[test]
fn passes_add_no_pieces_without_end() {
    // What two passes may have made, and one block of its own more.
    for (held, is_taken) in [(2 * MOST_RANGES as u64 - 1, true), (2 * MOST_RANGES as u64, false)] {
        let ranges: ByteRanges = (0..held).map(|i| 2 * i..2 * i + 1).collect();
        let mut receiver = Receiver::new(4, Watermarks::of_writer(4)).holding(ranges);
        let channel = ChannelId(0);
        receiver.handle(ReceiverInput::ChannelOpened { channel, depth: 1, most: 1 });
        let Some(ReceiverOutput::Offer { channel, slot }) = receiver.poll() else {
            panic!("no offer")
        };
        let block = Block { offset: 2 * held, len: 1 };
        receiver.handle(ReceiverInput::Arrived { channel, slot, block });
        let refused = std::iter::from_fn(|| receiver.poll())
            .any(|output| matches!(output, ReceiverOutput::Failed(_)));
        assert_eq!(!refused, is_taken, "{held}");
    }
}

#[test]
fn channels_that_disagree_on_their_number_are_refused() {
    let block = |of| (of, Ok(Block { offset: of as u64, len: 1 }));
    let differing = [block(0), block(1), (0, Err(Some(3))), (1, Err(Some(2)))];
    let uncounted = [block(0), block(1), (0, Err(Some(1)))];
    for (inputs, code) in
        [(&differing[..], ErrorCode::EndOfFileTwice), (&uncounted[..], ErrorCode::TooManyChannels)]
    {
        let ReceiverOutput::Failed(error) = outcome(inputs.iter().copied()) else {
            panic!("it finished")
        };
        assert_eq!(error.code, code);
    }
}
