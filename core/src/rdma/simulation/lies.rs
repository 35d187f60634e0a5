//! A sender that says what it likes: no slot moves that was not offered, and none while a device is
//! at work in it.

use super::*;

#[test]
fn a_lying_peer_breaks_its_channel_and_moves_no_other_slot() {
    let mut caught = BTreeMap::new();
    for seed in 0..4000 {
        let mut world = World::new(seed, 2, 4, 6, None);
        world.run(3, 10, 30 + seed % 100);
        // The honest check of contents means nothing now.
        world.ends[0].broken = Some(Violation::NoRecord);
        // From here the sender says what it likes; what was begun goes on meanwhile, reads among
        // it.
        for _ in 0..80 {
            // Of the last credits mostly, since of others nothing is believed.
            let gave = &world.ends[1].gave;
            let back = world.rng.below(5) as usize;
            let credit = gave.len().checked_sub(1 + back).map_or(back as u32, |at| gave[at]);
            let credit = if world.rng.below(8) == 0 { world.rng.below(40) as u32 } else { credit };
            let header = RecordHeader::new(&0u64.to_be_bytes()).expect("short");
            let on = QueuePair(world.rng.below(2) as u8);
            let len = if world.rng.below(4) == 0 { world.rng.below(2000) as u32 } else { SLOT_LEN };
            let reads = world.settings.placement == Placement::Read;
            let announcement = Announcement { credit, len, header };
            let input = match world.rng.below(9) {
                0 if reads => {
                    let record =
                        Record::Filled(announcement, BlockSource { key: 7, address: 1 << 40 });
                    Input::Received { on, record }
                }
                0 => Input::Received { on, record: Record::Block(announcement) },
                1 if world.settings.placement == Placement::Immediate => {
                    Input::Written { on, credit, len }
                }
                1 if reads && world.rng.below(8) == 0 => {
                    Input::Received { on, record: Record::Done(vec![credit]) }
                }
                1 if world.rng.below(8) == 0 => Input::Written { on, credit, len: 0 },
                2 => {
                    let end = &world.ends[1];
                    let arrived =
                        end.got.iter().filter(|(transfer, _)| *transfer == end.ended).count()
                            as u64;
                    let blocks = arrived + world.rng.below(3);
                    Input::Received { on, record: Record::Mark { credit, blocks, header } }
                }
                3 => {
                    let credits = vec![
                        Credit { number: 0, key: 0, address: 0, len };
                        world.rng.below(6) as usize
                    ];
                    Input::Received {
                        on,
                        record: Record::Credits { transfer: world.rng.below(3) as u32, credits },
                    }
                }
                other => {
                    match other {
                        4..=5 => world.offer(),
                        _ => drop(world.step()),
                    }
                    world.drain();
                    continue;
                }
            };
            if world.ends[1].broken.is_some() {
                break;
            }
            world.ends[1].endpoint.handle(input);
            world.drain();
        }
        if let Some(violation) = world.ends[1].broken {
            *caught.entry(violation.to_string()).or_insert(0) += 1;
        }
        let mut back = BTreeSet::new();
        while let Some(slot) = world.ends[1].endpoint.withdraw() {
            back.insert(slot);
        }
        assert_eq!(back, world.ends[1].held, "seed {seed}");
    }
    assert!(caught.len() >= 5 && caught.values().sum::<u32>() > 3000, "{caught:?}");
}

/// Of three credits of blocks that are read: one for the mark of a single block, two for blocks, of
/// which one says the mark's.
#[test]
fn a_block_may_not_use_the_credit_of_the_mark_before_it() {
    let header = RecordHeader::new(b"any").expect("short");
    let on = QueuePair(0);
    let source = BlockSource { key: 7, address: 1 << 40 };
    let mark = |credit| Input::Received { on, record: Record::Mark { credit, blocks: 1, header } };
    let filled = |credit| {
        let record = Record::Filled(Announcement { credit, len: SLOT_LEN, header }, source);
        Input::Received { on, record }
    };
    for said in
        [vec![mark(1), filled(2), filled(1)], vec![mark(1), filled(1)], vec![filled(1), mark(1)]]
    {
        let mut world = World::new(2, 1, 3, 3, None);
        (0..3).for_each(|_| world.offer());
        // The first word of the end that connected has the other give its credits.
        world.run_out();
        assert_eq!(world.ends[1].gave, [0, 1, 2]);
        world.ends[0].broken = Some(Violation::NoRecord);
        said.into_iter().for_each(|input| world.ends[1].endpoint.handle(input));
        world.run_out();
        assert!(matches!(
            world.ends[1].broken,
            Some(Violation::UnknownCredit | Violation::WrongMark)
        ));
        assert_eq!(
            (world.ends[1].ended, world.ends[1].held.len()),
            (0, 3),
            "no slot comes back before the queue pairs are gone"
        );
    }
}
