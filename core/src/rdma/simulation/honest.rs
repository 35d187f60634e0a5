//! Ends that keep the rules, and lose their peer at most.

use super::*;

#[test]
fn every_block_arrives_once_in_an_offered_slot() {
    for seed in 0..2000 {
        let (queue_pairs, credits) = (1 + (seed % 8) as u8, 1 + (seed % 11) as u16);
        let mut world = World::new(seed, queue_pairs, credits, 3 + (seed % 9) as usize, None);
        world.run(4, seed % 30, 1 << 20);
        assert_eq!(world.ends[1].ended, 4, "seed {seed}");
        let mut got = world.ends[1].got.clone();
        got.sort_unstable();
        let blocks = seed % 30;
        let all: Vec<_> =
            (0..4).flat_map(|t| (0..blocks).map(move |i| (t, u64::from(t) * blocks + i))).collect();
        assert_eq!(got, all, "seed {seed}");
        world.run_out();
        assert!(world.ends[0].held.is_empty(), "seed {seed}: the sender's slots are all back");
        assert!(
            world.ends.iter().all(|end| end.endpoint.is_idle()),
            "seed {seed}: nothing is left to do"
        );
        let is_told = world.settings.placement == Placement::Read;
        assert_eq!(
            world.ends[0].taken > 0,
            is_told,
            "seed {seed}: the sender closes what it told once the last mark is past"
        );
        assert_eq!(world.ends[0].endpoint.withdraw(), None);
    }
}

#[test]
fn after_a_lost_peer_each_end_returns_the_slots_it_holds() {
    let mut lost_in_flight = 0;
    for seed in 0..1000 {
        let mut world = World::new(seed, 1 + (seed % 4) as u8, 4, 8, None);
        world.run(3, 12, 20 + seed % 200);
        for end in &mut world.ends {
            let mut back = BTreeSet::new();
            while let Some(slot) = end.endpoint.withdraw() {
                assert!(back.insert(slot), "seed {seed}: {slot:?} twice");
            }
            lost_in_flight += back.len();
            assert_eq!(back, end.held, "seed {seed}");
        }
    }
    assert!(lost_in_flight > 1000, "{lost_in_flight}");
}

#[test]
fn credits_move_in_one_round_trip_and_in_two_where_read() {
    let delay = Span::from_millis(40);
    for (credits, seed, trips) in
        [(1u16, 1, 1.0), (4, 1, 1.0), (16, 1, 1.0), (1, 2, 2.0), (4, 2, 2.0), (16, 2, 2.0)]
    {
        let mut world = World::new(seed, 1, credits, 64, Some(delay));
        for content in 0..32 {
            world.give(content);
        }
        world.drain();
        while world.ends[1].got.len() < 32 {
            while world.ends[1].held.len() < usize::from(credits) {
                world.offer();
            }
            world.drain();
            assert!(world.step());
            world.drain();
        }
        let round_trips =
            world.now.since(Time::ZERO).as_millis_f64() / (2.0 * delay.as_millis_f64());
        let least = trips * 32.0 / f64::from(credits);
        assert!(
            (least - 0.5..=least + 1.5).contains(&round_trips),
            "{credits} credits: {round_trips} round trips, not {least}"
        );
    }
}
