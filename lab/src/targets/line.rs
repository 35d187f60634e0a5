//! Datagrams of line tests: STAMP packets, load frames, and what the two ends say to each other.

use farline_core::line::stamp::{Mac, ReflectorPacket, SenderPacket, StampTime};
use farline_core::line::{
    HEADER_BYTES, LineAnswer, LineRequest, LoadHeader, read_message, write_message,
};

/// The longest datagram that is written here.
const ROOM: usize = 256;

/// What is read is written back the same; no answer is longer than what it answers; a wrong bit is
/// told; and the error that a time says it has grows by its rounding at most.
///
/// # Panics
/// When a law does not hold.
pub fn line(bytes: &[u8]) {
    for mac in [None, Some(&sum as Mac<'_>)] {
        stamp(mac, bytes);
    }
    estimate(bytes);
    load(bytes);
    message::<LineRequest>(bytes);
    message::<LineAnswer>(bytes);
    if let Some(answer) = read_message::<LineAnswer>(bytes) {
        let most = 64 + bytes.len() % 1_200;
        assert!(answer.fitting(most).is_none_or(|bytes| bytes.len() <= most));
    }
}

/// Packets as they come, and with the HMAC that they lack.
fn stamp(mac: Option<Mac<'_>>, bytes: &[u8]) {
    let mut packet = [0; ROOM];
    let len = bytes.len().min(ROOM);
    packet[..len].copy_from_slice(&bytes[..len]);
    if let Some(mac) = mac {
        assert_eq!(SenderPacket::read(Some(mac), bytes).is_some(), is_sealed(mac, bytes));
        let sum = mac(&packet[..96]);
        packet[96..112].copy_from_slice(&sum);
    }
    let mut written = [0xff; ROOM];
    let sent = SenderPacket::read(mac, &packet).expect("it is long enough");
    sent.write(mac, &mut written);
    assert_eq!(SenderPacket::read(mac, &written), Some(sent));
    let reflected = ReflectorPacket::read(mac, &packet).expect("it is long enough");
    // A time of 1900 to 1970 is one of the next era.
    reflected.write(mac, &mut written);
    let back = ReflectorPacket::read(mac, &written).expect("it is long enough");
    assert_eq!((back.sent, back.sender_sent), (reflected.sent, reflected.sender_sent));
    assert_eq!(back, ReflectorPacket { received: back.received, ..reflected });
    assert!(back.received.since(reflected.received).as_nanos() <= 1, "{back:?} {reflected:?}");
    assert!(reflected.received.since(back.received).as_nanos() <= 1, "{back:?} {reflected:?}");
    // What is not from here goes back to the last bit.
    let answer = ReflectorPacket { sender_sent: sent.sent, ..reflected };
    answer.write(mac, &mut written);
    let (from, to) = if mac.is_some() { (16, 64) } else { (4, 28) };
    assert_eq!(written[to..to + 10], packet[from..from + 10]);
}

fn is_sealed(mac: Mac<'_>, bytes: &[u8]) -> bool {
    bytes.len() >= 112 && mac(&bytes[..96]) == bytes[96..112]
}

/// A time of one's own with an error as large as it may be.
fn estimate(bytes: &[u8]) {
    let Some((error, _)) = bytes.split_first_chunk::<8>() else { return };
    // Of all sizes alike.
    let error_ns = u64::from_be_bytes(*error) >> (error[7] & 63);
    let time = farline_core::units::Time::from_nanos(1_700_000_000_000_000_000);
    let sent = StampTime { time, is_synchronised: false, error_ns, as_it_came: None };
    let mut written = [0; ROOM];
    SenderPacket { sequence: 0, sent, session: 0 }.write(None, &mut written);
    let back = SenderPacket::read(None, &written).expect("it is long enough").sent;
    assert!(back.error_ns >= error_ns, "{error_ns} became {}", back.error_ns);
    let most = error_ns.saturating_add(error_ns / 64).saturating_add(2);
    assert!(back.error_ns <= most, "{error_ns} became {}", back.error_ns);
}

fn load(bytes: &[u8]) {
    let Some((head, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return };
    let key = u64::from(head[15]);
    let Some((header, wrong)) = LoadHeader::read(key, bytes) else { return };
    let mut written = [0; HEADER_BYTES];
    header.write(key, &mut written);
    let bits = head.iter().zip(written).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    assert_eq!(bits, wrong, "{bytes:?}");
}

/// As it comes, and with the sum that it lacks.
fn message<M>(bytes: &[u8])
where
    M: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let sealed = serde_json::from_slice::<M>(bytes).ok();
    for read in [read_message::<M>(bytes), sealed].into_iter().flatten() {
        assert_eq!(read_message(&write_message(&read, 0)), Some(read));
    }
}

/// Stands for an HMAC: what it is made of decides it.
fn sum(bytes: &[u8]) -> [u8; 16] {
    let sum = bytes.iter().fold(17_u64, |sum, &byte| {
        sum.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(byte))
    });
    std::array::from_fn(|i| (sum >> (8 * (i % 8))) as u8 ^ i as u8)
}
