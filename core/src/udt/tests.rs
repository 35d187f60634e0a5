//! The machines in virtual time: what a path may do to packets, and what a stranger may.

use super::handshake_tests::asks;
use super::sending::Sending;
use super::sim::{UdtFlow, UdtScenario, UdtSimulation};
use super::*;
use crate::congestion::{Acked, SavedPath};
use crate::units::{Bytes, Rate, Rng, Span, Time};
use crate::wan::{Change, EventSide};
use proptest::prelude::*;
use std::sync::mpsc::{Sender, channel};

fn mbit(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000_000)
}

fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// Runs to the end and checks that every byte came, in its place, and both ends know.
fn run_whole(scenario: &UdtScenario, within: Span) -> UdtSimulation {
    let mut simulation = UdtSimulation::new(scenario);
    simulation.run(within);
    for (index, flow) in scenario.flows.iter().enumerate() {
        let (there, back) = simulation.received(index);
        let ended = simulation.ended(index);
        let said = format!("seed {} flow {index} {flow:?} {ended:?}", scenario.seed);
        assert_eq!((there, back), (flow.bytes.0.0, flow.bytes.1.0), "{said}");
        assert_eq!(simulation.misplaced(index), 0, "{said}");
        let reasons = ended.map(|ended| ended.expect(&said).0);
        assert!(reasons.contains(&Ended::Here), "{reasons:?} {said}");
        assert!(!reasons.contains(&Ended::IdleTimeout), "{reasons:?} {said}");
    }
    simulation
}

#[test]
fn a_clean_path_is_filled_and_nothing_comes_twice() {
    let flow = UdtFlow::of(RateAlgorithm::Native, Bytes(100_000_000));
    let scenario = UdtScenario { seed: 3, ..UdtScenario::new(mbit(1000), ms(20), vec![flow]) };
    let simulation = run_whole(&scenario, Span::from_secs(60));
    let taken = simulation.now().since(Time::ZERO);
    // 0.83 s of a gigabit, and what slow start takes.
    assert!(taken < ms(1600), "{taken}");
    let (again, twice) = simulation.repeats(0);
    // Slow start doubles once more than path and queue hold: 4400 packets.
    assert!(again < 4800 && twice < 100, "{again} again, {twice} twice");
}

#[test]
fn what_slow_start_lost_costs_the_rate_after_it_nothing() {
    // It doubles once more than path and queue hold, and is told so piece by piece for a round
    // trip; the rate at which packets arrived is the path's all the same.
    for (rtt, packet_len) in [(ms(27), 9000), (ms(100), 9000), (ms(27), 1500)] {
        let flow = UdtFlow { room: 90_000, ..UdtFlow::of(RateAlgorithm::Native, Bytes(1 << 40)) };
        let path = UdtScenario::new(mbit(1000), rtt, vec![flow]);
        let mut simulation = UdtSimulation::new(&UdtScenario { packet_len, ..path });
        let mut arrived = |end| {
            simulation.run(end);
            simulation.received(0).0 as f64 * 8.0
        };
        let early = arrived(ms(1500));
        let rate = (arrived(ms(2500)) - early) / 1e9;
        assert!(rate > 0.8, "{rtt}, {packet_len} bytes: {rate:.2} of the path");
    }
}

#[test]
fn every_byte_survives_what_a_path_may_do() {
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let mut flow = UdtFlow::of(
            [RateAlgorithm::Native, RateAlgorithm::Bbr, RateAlgorithm::Held(mbit(80))]
                [rng.below(3) as usize],
            Bytes(1 + rng.below(400_000)),
        );
        flow.bytes.1 = Bytes(rng.below(2) * rng.below(200_000));
        flow.first = SequenceNumber::new(0_u32.wrapping_sub(rng.below(300) as u32));
        flow.room = 32 + rng.below(500) as u32;
        if rng.below(4) == 0 {
            flow.reads = Some(mbit(20));
        }
        let rtt = Span::from_micros(200 + rng.below(100_000));
        let mut scenario = UdtScenario::new(mbit(100), rtt, vec![flow]);
        scenario.seed = seed;
        for direction in [&mut scenario.directions.0, &mut scenario.directions.1] {
            direction.loss = [0.0, 0.001, 0.02, 0.1][rng.below(4) as usize];
            direction.jitter = Span::from_micros(rng.below(3000));
            direction.reorder = rng.below(2) == 0;
            direction.queue = Bytes(20_000 + rng.below(200_000));
        }
        scenario.duplicates = [0.0, 0.05][rng.below(2) as usize];
        if rng.below(2) == 0 {
            let outage = Change::Outage(ms(rng.below(2000)));
            let side = [EventSide::AToB, EventSide::BToA, EventSide::Both][rng.below(3) as usize];
            scenario.changes.push((ms(rng.below(80)), side, outage));
        }
        if rng.below(3) == 0 {
            scenario.mtu.push((ms(rng.below(80)), 1280, rng.below(2) == 0));
        }
        scenario.wakes_every = Span::from_micros(rng.below(2) * 200);
        run_whole(&scenario, Span::from_secs(300));
    }
}

#[test]
fn a_flow_over_a_known_path_begins_where_the_last_one_was() {
    let rtt = ms(100);
    let taken = |saved: Option<SavedPath>, path: Rate| {
        let flow = UdtFlow { saved, ..UdtFlow::of(RateAlgorithm::Native, Bytes(60_000_000)) };
        let scenario = UdtScenario::new(path, rtt, vec![flow]);
        let simulation = run_whole(&scenario, Span::from_secs(300));
        (simulation.now().since(Time::ZERO), simulation.repeats(0).0)
    };
    let saved = Some(SavedPath { in_flight: mbit(1000).bytes_in(rtt), rtt, fills: true });
    let (first, _) = taken(None, mbit(1000));
    let (second, again) = taken(saved, mbit(1000));
    println!("{first} as any flow, {second} resuming with {again} packets again");
    assert!(second < first.mul_f64(0.75), "{second} after {first}");
    assert!(again < 100, "{again} packets again over a path that is as it was");
    // A path whose rate fell to a tenth: half of what was is five times what is left.
    let (as_any, lost) = taken(None, mbit(100));
    let (resuming, more) = taken(saved, mbit(100));
    println!("a tenth: {as_any} and {lost} again as any flow, {resuming} and {more} resuming");
    assert!(resuming < as_any.mul_f64(1.1), "{resuming}, not {as_any}");
    assert!(more < 2 * lost, "{more} packets again, {lost} as any flow");
    // One whose round trip is another is not the same.
    let other = saved.map(|saved| SavedPath { rtt: ms(250), ..saved });
    let (unlike, _) = taken(other, mbit(1000));
    assert!(unlike > first.mul_f64(0.9), "{unlike}");
}

#[test]
fn a_short_path_that_loses_is_not_crawled_on() {
    // Hosts that wake seldom take the two packets of a pair in together, which must not make a path
    // of a gigabit look as slow as the sender just is.
    let mut flow = UdtFlow::of(RateAlgorithm::Native, Bytes(5_000_000));
    flow.first = SequenceNumber::new(5);
    let mut scenario = UdtScenario::new(mbit(1000), Span::from_micros(300), vec![flow]);
    scenario.directions.0.loss = 0.01;
    scenario.wakes_every = Span::from_micros(200);
    let taken = run_whole(&scenario, Span::from_secs(60)).now().since(Time::ZERO);
    assert!(taken < Span::from_secs(4), "{taken}");
}

#[test]
fn pairs_go_by_the_numbers_that_the_peer_sees() {
    // libudt takes packets 16 n and 16 n + 1 for a pair, wherever a connection's numbers begin.
    let (request, _) = asks();
    let first = SequenceNumber::new(0x7FFF_FFEB);
    let established = Established {
        ends: (SocketId(1), SocketId(2)),
        first: (first, SequenceNumber::new(5)),
        packet_len: 1500,
        window: 1000,
        reply: request,
        is_rendezvous: false,
    };
    let settings = EndSettings { rate: RateAlgorithm::Held(mbit(12)), ..EndSettings::default() };
    let mut connection = Connection::new(Time::ZERO, established, settings, &Rng::new(1));
    connection.handle(Time::ZERO, Input::Written(150_000));
    let (mut now, mut sent) = (Time::ZERO, Vec::new());
    while sent.len() < 100 {
        match connection.poll(now) {
            Output::SendData(packet) => sent.push((packet.sequence, now)),
            Output::Wait(Some(at)) => now = at,
            output => assert!(matches!(output, Output::Send(_)), "{output:?}"),
        }
    }
    let mut pairs = 0;
    for two in sent.windows(2) {
        let is_pair = two[0].0.raw().is_multiple_of(16);
        assert_eq!(two[0].1 == two[1].1, is_pair, "{two:?}");
        pairs += u32::from(is_pair);
    }
    assert_eq!(pairs, 6);
}

#[test]
fn numbers_wrap_in_the_middle_of_a_stream() {
    let mut flow = UdtFlow::of(RateAlgorithm::Native, Bytes(20_000_000));
    flow.first = SequenceNumber::new(0x7FFF_F000);
    let mut scenario = UdtScenario::new(mbit(200), ms(10), vec![flow]);
    scenario.directions.0.loss = 1e-3;
    run_whole(&scenario, Span::from_secs(60));
}

#[test]
fn a_narrower_path_swallows_no_stream() {
    for is_told in [true, false] {
        let flow = UdtFlow::of(RateAlgorithm::Native, Bytes(5_000_000));
        let mut scenario = UdtScenario::new(mbit(100), ms(30), vec![flow]);
        scenario.mtu.push((ms(150), 1300, is_told));
        let simulation = run_whole(&scenario, Span::from_secs(60));
        let taken = simulation.now().since(Time::ZERO);
        assert!(taken < Span::from_secs(8), "told: {is_told}, {taken}");
    }
}

#[test]
fn the_end_of_a_stream_is_sent_again_as_a_whole() {
    for begins in (0..400).step_by(4) {
        let flow = UdtFlow::of(RateAlgorithm::Native, Bytes(5_000_000));
        let mut scenario = UdtScenario::new(mbit(1000), ms(20), vec![flow]);
        scenario.changes.push((ms(begins), EventSide::AToB, Change::Outage(ms(60))));
        let simulation = run_whole(&scenario, Span::from_secs(300));
        // One packet a round trip would take a minute for what was on its way.
        let taken = simulation.now().since(Time::ZERO);
        assert!(taken < ms(3000), "{taken} with an outage from {begins} ms on");
    }
}

#[test]
fn a_dead_path_is_given_up_by_both_ends() {
    let flow = UdtFlow::of(RateAlgorithm::Native, Bytes(50_000_000));
    let mut scenario = UdtScenario::new(mbit(100), ms(30), vec![flow]);
    let forever = Change::Outage(Span::from_secs(3600));
    scenario.changes.push((ms(500), EventSide::Both, forever));
    let mut simulation = UdtSimulation::new(&scenario);
    simulation.run(Span::from_secs(300));
    for ended in simulation.ended(0) {
        let (why, at) = ended.expect("an end");
        assert_eq!(why, Ended::IdleTimeout);
        let at = at.since(Time::ZERO);
        assert!(at > Span::from_secs(30) && at < Span::from_secs(60), "{at}");
    }
}

#[test]
fn damage_that_no_checksum_shows_breaks_no_machine() {
    for seed in 0..300 {
        let flow = UdtFlow {
            bytes: (Bytes(300_000), Bytes(300_000)),
            ..UdtFlow::of(RateAlgorithm::Native, Bytes(0))
        };
        let mut scenario = UdtScenario::new(mbit(100), ms(5), vec![flow]);
        scenario.seed = seed;
        (scenario.directions.0.flips, scenario.directions.1.flips) = (0.02, 0.02);
        // Bytes may come to a wrong place, which the checks above find; the run must go on.
        UdtSimulation::new(&scenario).run(Span::from_secs(20));
    }
}

#[test]
fn damage_in_one_direction_leaves_nobody_waiting() {
    for seed in 0..3000 {
        let flow = UdtFlow::of(RateAlgorithm::Native, Bytes(300_000));
        let mut scenario = UdtScenario::new(mbit(100), ms(5), vec![flow]);
        scenario.seed = seed;
        // Of what is sent, or of what is said of it.
        let says = seed % 2 == 1;
        let (data, word) = &mut scenario.directions;
        let damaged = if says { word } else { data };
        damaged.flips = 0.02;
        let mut simulation = UdtSimulation::new(&scenario);
        simulation.run(Span::from_secs(300));
        let ended = simulation.ended(0);
        assert!(ended.iter().all(Option::is_some), "seed {seed}: {ended:?}");
        assert!(!says || simulation.misplaced(0) == 0, "seed {seed}: other bytes came");
    }
}

#[test]
fn an_acknowledgement_that_cannot_be_is_not_confirmed() {
    let (mut connection, now) = (connection(3000), Time::ZERO + ms(20));
    let drain = |connection: &mut Connection| {
        let mut outputs = Vec::new();
        loop {
            match connection.poll(now) {
                Output::Wait(_) => return outputs,
                output => outputs.push(output),
            }
        }
    };
    assert_eq!(drain(&mut connection).len(), 3, "so many packets");
    let known = Some(ReceiverState { rtt: (100, 10), room: 9, rates: None });
    let mut is_confirmed = |number, packets| {
        let next = SequenceNumber::new(0x7FFF_FFF0).after(packets);
        connection.handle(now, Input::Control(ControlPacket::Ack { number, next, known }));
        drain(&mut connection).contains(&Output::Send(ControlPacket::Ack2 { number }))
    };
    assert!(is_confirmed(1, 2));
    // Else an end whose last word was damaged takes it for heard, and is not asked again.
    assert!(!is_confirmed(2, 1), "less than was acknowledged");
    assert!(!is_confirmed(3, 4), "more than was sent");
    assert!(is_confirmed(4, 2), "the same again");
    assert!(is_confirmed(5, 2), "and again");
}

#[test]
fn a_slow_reader_holds_the_sender_back_without_loss() {
    let mut flow = UdtFlow::of(RateAlgorithm::Native, Bytes(3_000_000));
    (flow.room, flow.reads) = (200, Some(mbit(10)));
    let scenario = UdtScenario::new(mbit(1000), ms(10), vec![flow]);
    let simulation = run_whole(&scenario, Span::from_secs(60));
    let taken = simulation.now().since(Time::ZERO);
    // 2.4 s of reading.
    assert!(taken < ms(3200), "{taken}");
    let (again, _) = simulation.repeats(0);
    assert!(again < 400, "{again} packets again, of 2050");
}

#[test]
fn a_reader_that_pauses_makes_no_path_narrow() {
    const PAYLOAD: u64 = 9000 - 44;
    let mut flow = UdtFlow::of(RateAlgorithm::Native, Bytes(200 * PAYLOAD));
    (flow.room, flow.reads_after) = (32, Span::from_secs(5));
    let path = UdtScenario::new(mbit(100), ms(10), vec![flow]);
    let simulation = run_whole(&UdtScenario { packet_len: 9000, ..path }, Span::from_secs(60));
    assert!(simulation.repeats(0).0 >= 3, "it asked for room again and again");
    assert_eq!(simulation.packets(0), 200, "all of them are as long as the path takes");
}

#[test]
fn bbr_goes_on_after_its_probe_for_the_round_trip() {
    let (rate, first, last) = (mbit(100), Span::from_secs(14), Span::from_secs(24));
    for rtt in [1, 27, 163] {
        let flow = UdtFlow::of(RateAlgorithm::Bbr, Bytes(1 << 30));
        let mut run = UdtSimulation::new(&UdtScenario::new(rate, ms(rtt), vec![flow]));
        // The first probe is ten seconds after the least round trip was seen.
        run.run(first);
        let before = run.received(0).0;
        run.run(last);
        let share = (run.received(0).0 - before) as f64
            / rate.bytes_in(last.saturating_sub(first)).0 as f64;
        assert!(share > 0.85, "{rtt} ms: {share:.2} of the path");
    }
}

#[test]
fn a_held_rate_survives_loss_and_gives_way_on_a_shared_path() {
    let flow = |rate| UdtFlow::of(RateAlgorithm::Held(mbit(rate)), Bytes(100_000_000));
    let mut scenario = UdtScenario::new(mbit(1000), ms(100), vec![flow(900)]);
    scenario.directions.0.loss = 1e-3;
    let simulation = run_whole(&scenario, Span::from_secs(60));
    let taken = simulation.now().since(Time::ZERO);
    assert!(taken < ms(1200), "0.94 s of payload at 900 Mbit/s took {taken}");
    assert_eq!(simulation.yielded(0), None);

    let short = UdtScenario::new(mbit(1000), ms(1), vec![flow(900)]);
    assert_eq!(run_whole(&short, Span::from_secs(60)).yielded(0), None);

    let scenario = UdtScenario::new(mbit(1000), ms(20), vec![flow(900), flow(900)]);
    let simulation = run_whole(&scenario, Span::from_secs(60));
    // Where one gives way there is room for the other.
    assert!(simulation.yielded(0).or(simulation.yielded(1)).is_some());
}

/// A connection of its own, with `bytes` written.
fn connection(bytes: u64) -> Connection {
    let (request, _) = asks();
    let established = Established {
        ends: (SocketId(1), SocketId(2)),
        first: (SequenceNumber::new(0x7FFF_FFF0), SequenceNumber::new(5)),
        packet_len: 1500,
        window: 1000,
        reply: request,
        is_rendezvous: false,
    };
    let settings = EndSettings { room: 64, ..EndSettings::default() };
    let mut connection = Connection::new(Time::ZERO, established, settings, &Rng::new(1));
    connection.handle(Time::ZERO, Input::Written(bytes));
    connection
}

#[test]
fn an_end_waits_for_more_than_a_light_acknowledgement() {
    let mut connection = connection(1000);
    connection.handle(Time::ZERO, Input::Finish);
    let outputs = |connection: &mut Connection| {
        let poll = || Some(connection.poll(Time::ZERO));
        let goes_on = |output: &Output| !matches!(output, Output::Wait(_));
        std::iter::from_fn(poll).take_while(goes_on).collect::<Vec<_>>()
    };
    assert!(matches!(outputs(&mut connection)[..], [Output::SendData(_)]));
    let ack =
        |known| ControlPacket::Ack { number: 1, next: SequenceNumber::new(0x7FFF_FFF1), known };
    connection.handle(Time::ZERO, Input::Control(ack(None)));
    assert!(!outputs(&mut connection).contains(&Output::Ended(Ended::Here)));
    let known = ReceiverState { rtt: (100, 10), room: 9, rates: None };
    connection.handle(Time::ZERO, Input::Control(ack(Some(known))));
    let outputs = outputs(&mut connection);
    assert!(outputs.contains(&Output::Ended(Ended::Here)), "{outputs:?}");
}

#[test]
fn a_packet_longer_than_was_agreed_on_is_not_kept() {
    // 1500 bytes but for the headers of IP, UDP and UDT.
    for (len, is_kept) in [(1456, true), (1457, false), (65_000, false)] {
        let (mut connection, arrived) = (connection(0), Time::ZERO);
        let sequence = SequenceNumber::new(5);
        connection.handle(arrived, Input::Data { sequence, len, token: 3, arrived });
        let output = match is_kept {
            true => Output::Deliver { token: 3, len },
            false => Output::Discard(3),
        };
        assert_eq!(connection.poll(arrived), output);
    }
}

#[test]
fn what_was_just_sent_is_not_sent_again_after_an_idle_time() {
    for idle in (0..2500).step_by(50) {
        let mut connection = connection(0);
        let (writes, end) = (Time::ZERO + ms(idle), Time::ZERO + ms(idle + 250));
        let (mut now, mut is_written, mut sent) = (Time::ZERO, false, 0);
        while now < end {
            if now >= writes && !is_written {
                is_written = true;
                connection.handle(now, Input::Written(1000));
            }
            match connection.poll(now) {
                Output::SendData(_) => sent += 1,
                Output::Wait(at) => {
                    let next = if is_written { end } else { writes };
                    now = at.map_or(next, |at| at.min(next));
                }
                _ => {}
            }
        }
        // The path's round trip may well be as long as that.
        assert_eq!(sent, 1, "written after {idle} ms");
    }
}

#[test]
fn a_path_of_a_long_round_trip_is_not_taken_for_dead() {
    for rtt in [350, 600, 900] {
        let flow = UdtFlow::of(RateAlgorithm::Native, Bytes(5_000_000));
        let scenario = UdtScenario::new(mbit(100), ms(rtt), vec![flow]);
        let (again, twice) = run_whole(&scenario, Span::from_secs(60)).repeats(0);
        // The first window has 16 packets, all of which were on their way.
        assert!(again < 8 && twice < 8, "{rtt} ms: {again} again, {twice} twice");
    }
}

/// A control that passes on what it hears of arrivals.
#[derive(Debug)]
struct Hears(Sender<Acked>);

impl RateControl for Hears {
    fn handle(&mut self, _now: Time, _path: &PathState, event: RateEvent) {
        if let RateEvent::Acked(acked) = event {
            self.0.send(acked).expect("who listens");
        }
    }

    fn poll(&self) -> Pace {
        Pace { interval: 0.0, window: 1000.0 }
    }
}

#[test]
fn what_comes_after_it_was_sent_again_begins_no_round() {
    let (tells, heard) = channel();
    let first = SequenceNumber::new(0x7FFF_FFFC);
    let at = |millis| Time::ZERO + ms(millis);
    let mut sending = Sending::new(at(0), first, 1016, 1000, Box::new(Hears(tells)));
    sending.written(20_000);
    while sending.poll(at(0)).is_some() {}
    assert_eq!(sending.sent_packets(), 20);
    sending.acked(at(50), first.after(2), None);
    sending.lost(at(50), &[LossRange { first: first.after(2), last: first.after(9) }]);
    while sending.poll(at(50)).is_some() {}
    assert_eq!(sending.resent, 8);
    for (millis, next) in [(100, 3), (110, 4), (120, 5)] {
        sending.acked(at(millis), first.after(next), None);
    }
    // As BBR counts them: all were sent before anything had come.
    let (mut rounds, mut ends, mut packets) = (0, 0, 0);
    for acked in heard.try_iter() {
        packets += acked.packets;
        if acked.delivered_at_send >= ends {
            (rounds, ends) = (rounds + 1, acked.delivered);
        }
    }
    assert_eq!((packets, rounds), (5, 1));
}

fn any_input() -> impl Strategy<Value = Input> {
    let number =
        || prop_oneof![any::<u32>(), 0x7FFF_FFE0_u32..0x8000_0020].prop_map(SequenceNumber::new);
    let loss = (number(), number()).prop_map(|(first, last)| LossRange { first, last });
    let known = (any::<(u32, u32)>(), any::<u32>(), any::<Option<(u32, u32)>>())
        .prop_map(|(rtt, room, rates)| ReceiverState { rtt, room, rates });
    prop_oneof![
        (number(), proptest::option::of(known), 0_u32..9).prop_map(|(next, known, number)| {
            Input::Control(ControlPacket::Ack { number, next, known })
        }),
        proptest::collection::vec(loss, 1..5)
            .prop_map(|list| Input::Control(ControlPacket::Nak(list))),
        (0_u32..9).prop_map(|number| Input::Control(ControlPacket::Ack2 { number })),
        Just(Input::Control(ControlPacket::KeepAlive)),
        (0_u32..200, any::<u64>()).prop_map(|(number, token)| Input::Data {
            sequence: SequenceNumber::new(number),
            len: 100,
            token,
            arrived: Time::ZERO,
        }),
        (0_u32..2000).prop_map(Input::LongestDatagram),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_stranger_cannot_acknowledge_what_was_not_sent(
        inputs in proptest::collection::vec((any_input(), 0_u64..40), 0..60),
    ) {
        let mut connection = connection(100_000);
        let (mut now, mut sent, mut kept) = (Time::ZERO, 0, 0_i64);
        for (input, wait) in inputs {
            now += Span::from_millis(wait);
            kept += i64::from(matches!(input, Input::Data { .. }));
            connection.handle(now, input);
            loop {
                match connection.poll(now) {
                    Output::SendData(packet) => sent = sent.max(packet.bytes.end),
                    Output::Acknowledged(bytes) => prop_assert!(bytes <= sent, "{bytes} of {sent}"),
                    Output::Discard(_) => kept -= 1,
                    Output::Wait(at) => {
                        prop_assert!(at.is_none_or(|at| at > now), "it would be polled for ever");
                        break;
                    }
                    _ => {}
                }
            }
            prop_assert!(kept <= 64, "{kept} packets kept of 64");
        }
    }
}
