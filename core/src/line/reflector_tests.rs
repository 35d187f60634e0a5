//! What the far end answers to whom, and what it counts.

use super::*;
use crate::line::follow_up::FOLLOW_UP_PACKET;
use crate::line::message::write_message;
use crate::line::{
    FrameMix, LineSettings, LineTest, LoadWriter, Pattern, SentSecond, SettledFrames, Untested,
    stamp,
};

fn reflector(most: Option<u64>, is_open: bool) -> LineReflector {
    LineReflector::new(ReflectorSettings {
        secret: [7; 32],
        instance: 1,
        boot: 2,
        most: most.map(Rate::from_bps),
        is_open,
        is_compared: true,
        is_granted_only: false,
    })
}

const CLOCK: StampTime = StampTime {
    time: Time::from_nanos(5_000),
    is_synchronised: true,
    error_ns: 1_000,
    as_it_came: None,
};

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

fn sends(reflector: &mut LineReflector, port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
    sends_at(reflector, Time::ZERO, port, bytes)
}

fn sends_at(reflector: &mut LineReflector, now: Time, port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
    let received = Time::from_nanos(4_000);
    let datagram = LineDatagram { from: address(port), bytes, received, ttl: 60 };
    reflector.handle(now, CLOCK, &datagram, None)
}

fn asks(reflector: &mut LineReflector, port: u16, request: &LineRequest) -> Option<LineAnswer> {
    let bytes = request.bytes();
    let answer = sends(reflector, port, &bytes)?;
    assert!(answer.len() <= bytes.len(), "an amplifier");
    read_message(&answer)
}

fn begins(reflector: &mut LineReflector, port: u16, rate_bps: u64) -> Option<LineAnswer> {
    let cookie = match asks(reflector, port, &LineRequest::Hello { nonce: 1 }) {
        Some(LineAnswer::Cookie { nonce: 1, cookie }) => cookie,
        other => panic!("{other:?}"),
    };
    let begin = LineRequest::Begin { nonce: 2, cookie, session: 9, rate_bps, at_us: 0 };
    asks(reflector, port, &begin)
}

#[test]
fn nothing_is_kept_or_sent_without_the_cookie() {
    let mut reflector = reflector(None, false);
    let begin = LineRequest::Begin { nonce: 2, cookie: 1, session: 9, rate_bps: 1, at_us: 0 };
    assert_eq!(asks(&mut reflector, 1, &begin), None);
    assert_eq!(reflector.sessions(), 0);
    // A cookie is of one address.
    let Some(LineAnswer::Cookie { cookie, .. }) =
        asks(&mut reflector, 1, &LineRequest::Hello { nonce: 1 })
    else {
        panic!("a cookie");
    };
    let begin = LineRequest::Begin { nonce: 2, cookie, session: 9, rate_bps: 1, at_us: 0 };
    assert_eq!(asks(&mut reflector, 2, &begin), None);
    assert_eq!(sends(&mut reflector, 3, &[0; 44]), None, "STAMP of a stranger");
    // A request that is too short for its answer gets none.
    assert_eq!(sends(&mut reflector, 1, &write_message(&begin, 0)), None);
}

#[test]
fn it_tells_from_the_first_frame_to_the_last_how_long_they_came() {
    let mut reflector = reflector(None, false);
    assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
    let kind = FrameMix::fixed(64, Pattern::Crpat).turn[0];
    let (mut writer, mut frame) = (LoadWriter::new(9, 0), [0; 18]);
    for n in 3..8 {
        writer.write(kind, n, false, &mut frame);
        assert_eq!(sends_at(&mut reflector, Time::from_nanos(n * 100), 1, &frame), None);
    }
    reflector.note_way(address(1), FrameWay::PacketRing);
    // What is asked later changes nothing.
    let request = LineRequest::Totals {
        nonce: 3,
        session: 9,
        sent: Some(8),
        settled: SettledFrames::default(),
    };
    match asks(&mut reflector, 1, &request) {
        Some(LineAnswer::Totals { totals, .. }) => {
            assert_eq!((totals.came_ns, totals.way), (400, Some(FrameWay::PacketRing)))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn frames_are_counted_for_their_session_alone() {
    let mut reflector = reflector(None, false);
    assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
    let kind = FrameMix::fixed(64, Pattern::Crpat).turn[0];
    let mut writer = LoadWriter::new(9, 0);
    let mut frame = [0; 18];
    for n in 0..10 {
        writer.write(kind, n, false, &mut frame);
        if n != 4 {
            assert_eq!(sends(&mut reflector, 1, &frame), None);
        }
    }
    assert_eq!(sends(&mut reflector, 2, &frame), None, "from elsewhere");
    let settled = SettledFrames::default();
    let totals = LineRequest::Totals { nonce: 3, session: 9, sent: Some(10), settled };
    match asks(&mut reflector, 1, &totals) {
        Some(LineAnswer::Totals { totals, .. }) => {
            assert_eq!((totals.received, totals.runs.lost), (9, 1))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(asks(&mut reflector, 2, &totals), Some(LineAnswer::Unknown { nonce: 3 }));
    // What is not decided yet is told once all is sent.
    for (sent, told) in [(None, vec![]), (Some(10), vec![(4, 1), (5, 0)])] {
        let losses = LineRequest::Losses { nonce: 4, session: 9, since: 0, sent };
        let answer = LineAnswer::Losses { nonce: 4, first: 0, entries: told, is_more: false };
        assert_eq!(asks(&mut reflector, 1, &losses), Some(answer));
    }
}

#[test]
fn a_test_without_a_pace_is_told_of_once() {
    let mut reflector = reflector(None, false);
    assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
    assert_eq!((reflector.take_flood(), reflector.is_flood(Time::ZERO, address(1))), (None, false));
    for told in [Some(address(2)), None] {
        assert!(matches!(begins(&mut reflector, 2, u64::MAX), Some(LineAnswer::Begun { .. })));
        assert_eq!(reflector.take_flood(), told, "asked again, it is the same test");
    }
    let after = |seconds| Time::ZERO + Span::from_secs(seconds);
    assert!(reflector.is_flood(after(9), address(2)) && !reflector.is_flood(after(10), address(2)));
    let end = LineRequest::End { nonce: 3, session: 9 };
    assert_eq!(asks(&mut reflector, 2, &end), Some(LineAnswer::Ended { nonce: 3 }));
    assert!(!reflector.is_flood(Time::ZERO, address(2)));
}

#[test]
fn no_more_is_let_in_than_is_allowed() {
    let mut reflector = reflector(Some(1_000), false);
    let refused = LineAnswer::Refused { nonce: 2, most_bps: Some(1_000) };
    assert_eq!(begins(&mut reflector, 1, 1_001), Some(refused));
    assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
}

#[test]
fn where_tests_are_granted_no_other_begins() {
    let mut reflector = reflector(None, false);
    reflector.settings.is_granted_only = true;
    assert_eq!(begins(&mut reflector, 1, 1_000), None);
    reflector.grant(8);
    assert_eq!(begins(&mut reflector, 1, 1_000), None, "another was granted");
    reflector.grant(9);
    for _ in 0..2 {
        assert!(matches!(begins(&mut reflector, 1, 1_000), Some(LineAnswer::Begun { .. })));
    }
    (0..1_000).for_each(|session| reflector.grant(1_000 + session));
    assert!(reflector.granted.len() <= MOST_GRANTED && !reflector.may_begin(8));
}

#[test]
fn an_answer_says_when_the_one_before_it_left() {
    let mut reflector = reflector(None, true);
    let mut bytes = [0; FOLLOW_UP_PACKET];
    stamp::SenderPacket { sequence: 3, sent: CLOCK, session: 8 }.write(None, &mut bytes);
    sends(&mut reflector, 5, &bytes).expect("an answer");
    assert_eq!(reflector.take_timed(), None, "nobody asked");
    FollowUp::ask(&mut bytes);
    let left = FollowUp { sequence: 3, sent: Time::from_nanos(6_000_000_000) };
    for (port, before) in [(5, None), (5, Some(left)), (6, None)] {
        let back = sends(&mut reflector, port, &bytes).expect("an answer");
        assert_eq!((back.len(), FollowUp::read(&back)), (bytes.len(), before));
        assert_eq!((reflector.take_timed(), reflector.take_timed()), (Some(3), None));
        reflector.note_left(address(5), left);
    }
    (0..1_000).for_each(|port| reflector.note_left(address(port), left));
    assert_eq!(reflector.followed.len(), MOST_FOLLOWED);
}

#[test]
fn twamps_shorter_packets_are_answered_with_as_many_bytes() {
    let mut reflector = reflector(None, true);
    let mut bytes = [0; 44];
    stamp::SenderPacket { sequence: 3, sent: CLOCK, session: 0 }.write(None, &mut bytes);
    let back = sends(&mut reflector, 5, &bytes[..41]).expect("an answer");
    let packet = stamp::ReflectorPacket::read(None, &back).expect("a packet");
    assert_eq!((back.len(), packet.sender_sequence, packet.sender_ttl), (41, 3, 60));
    assert_eq!(sends(&mut reflector, 5, &bytes[..40]), None, "no answer is longer");
}

#[test]
fn stamp_packets_come_back_with_their_padding() {
    let mut reflector = reflector(None, true);
    let mut bytes = [0xab; 60];
    let sent = stamp::SenderPacket { sequence: 3, sent: CLOCK, session: 8 };
    sent.write(None, &mut bytes);
    let back = sends(&mut reflector, 5, &bytes).expect("an answer");
    assert_eq!((back.len(), &back[44..]), (60, &[0xab; 16][..]));
    let packet = stamp::ReflectorPacket::read(None, &back).expect("a packet");
    assert_eq!((packet.sequence, packet.sender_sequence, packet.sender_ttl), (3, 3, 60));
    assert_eq!((packet.session, packet.received), (8, Time::from_nanos(4_000)));
}

/// Frames a second in the tests below.
const FRAMES: u64 = 100;
const SECOND_US: u64 = 1_000_000;

/// A test that sends `FRAMES` of each second to a reflector, but those whose numbers `is_lost`.
struct Sender {
    far: LineReflector,
    writer: LoadWriter,
    test: LineTest,
}

impl Sender {
    fn begun() -> Sender {
        let mut far = reflector(None, false);
        assert!(matches!(begins(&mut far, 1, 1_000), Some(LineAnswer::Begun { .. })));
        let settings = LineSettings {
            target: "there".to_owned(),
            rate: Rate::from_bps(1_000_000),
            load_percent: 100.0,
            frames: FrameMix::fixed(64, Pattern::Crpat),
            ethernet: None,
            burst: 1,
            criterion: None,
            confidence: 0.95,
            loss_burst: 1.0,
            most_seconds: 60,
            most_frames: None,
        };
        let test = LineTest::new(settings, true);
        Sender { far, writer: LoadWriter::new(9, 0), test }
    }

    /// Sends the frames of a second; the kernel there has each when it was sent.
    fn sends(&mut self, second: u64, is_lost: impl Fn(u64) -> bool) {
        let kind = self.test.settings.frames.turn[0];
        let mut frame = [0; 18];
        for n in 0..FRAMES {
            let at_us = second * SECOND_US + n * SECOND_US / FRAMES;
            self.writer.write(kind, at_us, false, &mut frame);
            if !is_lost(n) {
                let received = Time::from_nanos(at_us * 1_000);
                let datagram = LineDatagram { from: address(1), bytes: &frame, received, ttl: 60 };
                self.far.handle(received, CLOCK, &datagram, None);
            }
        }
        let (frames, next) = (FRAMES, self.writer.next());
        let framed_bits = 512 * FRAMES;
        let sent = SentSecond { second, frames, framed_bits, next, ..SentSecond::default() };
        self.test.note_sent(sent);
    }

    /// Asks what came, and settles the seconds before `end`; returns why they do not count.
    fn settles(&mut self, end: u64) -> Vec<Option<Untested>> {
        let since = self.test.next_second();
        let request = LineRequest::Rows { nonce: 4, session: 9, since };
        match asks(&mut self.far, 1, &request) {
            Some(LineAnswer::Rows { rows, dropping_since, .. }) => {
                rows.into_iter().for_each(|row| self.test.note_row(row));
                if let Some(since) = dropping_since {
                    self.test.note_dropping(since, end);
                }
            }
            other => panic!("{other:?}"),
        }
        self.test.settle(end).iter().map(|second| second.untested).collect()
    }

    /// Asks for everything, and says which frames count.
    fn asks_totals(&mut self, sent: Option<u64>) -> TallyTotals {
        let settled = self.test.settled_frames();
        let request = LineRequest::Totals { nonce: 5, session: 9, sent, settled };
        match asks(&mut self.far, 1, &request) {
            Some(LineAnswer::Totals { totals, settled, .. }) => {
                self.test.note_settled_there(settled);
                *totals
            }
            other => panic!("{other:?}"),
        }
    }
}

/// At a hundredth of the second.
fn at(second: u64, hundredth: u64) -> Time {
    Time::from_nanos((second * 100 + hundredth) * 10_000_000)
}

const DROPS: ReceiveDrops = ReceiveDrops { missed: 3, dropped: 2, backlog: 0 };

#[test]
fn what_a_device_dropped_is_no_loss_of_the_lines() {
    let mut test = Sender::begun();
    test.sends(0, |_| false);
    test.far.note_device_drops(address(1), at(0, 99), &ReceiveDrops::default());
    // The device drops five; another loses one on the line, of which nothing can be said.
    test.sends(1, |n| (40..45).contains(&n) || n == 90);
    test.far.note_device_drops(address(1), at(1, 99), &DROPS);
    test.sends(2, |n| n == 7);
    test.far.note_device_drops(address(1), at(2, 99), &ReceiveDrops::default());
    test.sends(3, |_| false);
    // The first frame behind the look may stand behind dropped ones: its second is in doubt too.
    let own = Some(Untested::ReceiverDrops);
    assert_eq!(test.settles(4), [own, own, own, None]);
    assert_eq!((test.test.sums.lost, test.test.sums.tested), (0, 1));
    let totals = test.asks_totals(Some(4 * FRAMES));
    assert_eq!((totals.device_drops, totals.own_drops), (Some(DROPS), 0));
    assert_eq!(totals.runs.lost, 0, "no run of seconds that do not count");
}

#[test]
fn drops_mark_what_came_between_two_looks_alone() {
    let mut test = Sender::begun();
    for second in 0..8 {
        test.sends(second, |n| second == 4 && n < 10);
        for hundredth in [30, 60] {
            let drops = if (second, hundredth) == (4, 30) { DROPS } else { Default::default() };
            test.far.note_device_drops(address(1), at(second, hundredth), &drops);
        }
    }
    let untested: Vec<usize> =
        (0..).zip(test.settles(8)).filter_map(|(second, why)| why.map(|_| second)).collect();
    // Since the look before, in the third second, and up to the first frame behind this one.
    assert_eq!(untested, [3, 4, 5]);
    assert_eq!(test.test.sums.lost, 0);
    test.far.note_device_drops(address(7), at(9, 0), &DROPS);
    assert_eq!(test.asks_totals(None).device_drops, Some(DROPS), "another's device is another's");
}

#[test]
fn frames_that_wait_in_the_socket_came_before_the_look() {
    let mut test = Sender::begun();
    test.sends(0, |_| false);
    test.far.note_device_drops(address(1), at(0, 99), &ReceiveDrops::default());
    // The look is made in second 3, before the process has taken what stands in its queue.
    test.far.note_device_drops(address(1), at(3, 50), &DROPS);
    for second in 1..6 {
        test.sends(second, |n| second == 3 && n == 20);
    }
    let own = Some(Untested::ReceiverDrops);
    assert_eq!(test.settles(6), [own, own, own, own, None, None]);
    assert_eq!(test.test.sums.lost, 0);
}

#[test]
fn of_seconds_that_an_end_dropped_whole_nothing_is_known() {
    for is_device in [true, false] {
        let mut test = Sender::begun();
        test.sends(0, |_| false);
        test.sends(1, |n| n > 50);
        test.sends(2, |_| true);
        match is_device {
            true => test.far.note_device_drops(address(1), at(2, 99), &DROPS),
            false => test.far.note_own_drops(149),
        }
        let untested = test.settles(3);
        assert_eq!(untested[1..], [Some(Untested::ReceiverDrops); 2], "{is_device}");
        assert_eq!(test.test.sums.lost, 0, "{is_device}");
    }
}

#[test]
fn runs_are_of_seconds_that_count() {
    let mut test = Sender::begun();
    for second in 0..6 {
        // A frame is lost in each; the sender's device dropped ten in the second and third.
        test.sends(second, |n| n == 50 || ((2..4).contains(&second) && (20..30).contains(&n)));
        if (2..4).contains(&second) {
            let (frames, next) = (FRAMES, test.writer.next());
            let sent = SentSecond { second, frames, next, own_drops: 10, ..SentSecond::default() };
            test.test.note_sent(sent);
        }
        if second == 4 {
            test.settles(4);
            let runs = test.asks_totals(None).runs;
            assert_eq!(runs.lost, 3, "of seconds that count, and of the one that is not over");
        }
    }
    test.test.settle_sent();
    let rest = test.settles(6);
    assert!(rest.is_empty(), "all are settled: {rest:?}");
    let totals = test.asks_totals(Some(6 * FRAMES));
    // Its rows of the last two were never asked for: they are all lost, and count.
    assert_eq!((totals.runs.lost, totals.runs.longest, totals.received), (4, 1, 574));
    assert_eq!(test.test.losses.next(), 0);
    let losses = LineRequest::Losses { nonce: 6, session: 9, since: 0, sent: Some(600) };
    match asks(&mut test.far, 1, &losses) {
        Some(LineAnswer::Losses { entries, .. }) => {
            assert_eq!(entries, [(50, 1), (99, 1), (49, 0), (50, 1), (99, 1), (49, 0)]);
        }
        other => panic!("{other:?}"),
    }
}
