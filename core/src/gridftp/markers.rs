//! What a server says while a transfer runs: restart ranges (111), performance (112) and checksum
//! progress (113).

use super::reply::Reply;
use super::timestamp::Timestamp;
use crate::units::ByteRanges;

/// The longest text of one 111 reply; more ranges go into further replies, which add up.
const MAX_RANGES_TEXT: usize = 4 * 1024;

/// A performance marker: what one stripe has moved so far (GFD.20 section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Perf {
    /// When it was measured, by the server's clock; GCT prints tenths of a second.
    pub timestamp: Timestamp,
    /// Which stripe, from 0.
    pub stripe: u32,
    /// Payload bytes the stripe has moved in this transfer.
    pub bytes: u64,
    /// How many stripes there are.
    pub stripes: u32,
}

/// The 111 replies that say `held` is stored: each `Range Marker 0-29,90-120`, ends exclusive. None
/// when nothing is.
pub fn range_replies(held: &ByteRanges) -> Vec<Reply> {
    let mut replies = Vec::new();
    let mut text = String::new();
    for range in held.iter() {
        let part = format!("{}-{}", range.start, range.end);
        if text.len() + part.len() >= MAX_RANGES_TEXT {
            replies.push(Reply::line(111, format!("Range Marker {}", std::mem::take(&mut text))));
        }
        text.push_str(if text.is_empty() { "" } else { "," });
        text.push_str(&part);
    }
    if !text.is_empty() {
        replies.push(Reply::line(111, format!("Range Marker {text}")));
    }
    replies
}

/// Reads a 111 reply; `None` when it is another or does not parse.
pub fn ranges_of(reply: &Reply) -> Option<ByteRanges> {
    let first = reply.first();
    let (_, ranges) = first.split_once("Marker").filter(|_| reply.code == 111)?;
    ByteRanges::parse(ranges.trim())
}

impl Perf {
    /// The 112 reply.
    pub fn to_reply(&self) -> Reply {
        let lines = [
            "Perf Marker".to_owned(),
            format!(" Timestamp: {}", seconds_and_tenths(self.timestamp)),
            format!(" Stripe Index: {}", self.stripe),
            format!(" Stripe Bytes Transferred: {}", self.bytes),
            format!(" Total Stripe Count: {}", self.stripes),
            "End.".to_owned(),
        ];
        Reply::new(112, lines)
    }

    /// Reads a 112 reply; `None` when it is another or has no byte count.
    pub fn from_reply(reply: &Reply) -> Option<Perf> {
        let number = |label| field(reply, label).and_then(|value| value.parse::<u64>().ok());
        Some(Perf {
            bytes: number("Stripe Bytes Transferred").filter(|_| reply.code == 112)?,
            timestamp: field(reply, "Timestamp")
                .and_then(|text| parse_seconds(&text))
                .unwrap_or_default(),
            stripe: number("Stripe Index").and_then(|n| n.try_into().ok()).unwrap_or(0),
            stripes: number("Total Stripe Count").and_then(|n| n.try_into().ok()).unwrap_or(1),
        })
    }
}

/// The 113 reply of a checksum under way (`OPTS CKSM markers=`; GCT's `globus_i_gfs_control.c`).
pub fn status_reply(timestamp: Timestamp, bytes: u64) -> Reply {
    let lines = [
        "Status Marker".to_owned(),
        format!(" Timestamp: {}", seconds_and_tenths(timestamp)),
        format!(" Bytes Processed: {bytes}"),
        "End.".to_owned(),
    ];
    Reply::new(113, lines)
}

/// Reads a 113 reply: the bytes processed so far.
pub fn status_of(reply: &Reply) -> Option<u64> {
    field(reply, "Bytes Processed").filter(|_| reply.code == 113)?.parse().ok()
}

fn field(reply: &Reply, label: &str) -> Option<String> {
    reply.lines.iter().find_map(|line| {
        let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
        name.trim().eq_ignore_ascii_case(label).then(|| value.trim().to_owned())
    })
}

fn seconds_and_tenths(time: Timestamp) -> String {
    format!("{}.{}", time.seconds, time.nanos / 100_000_000)
}

fn parse_seconds(text: &str) -> Option<Timestamp> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let tenth = fraction.chars().next().and_then(|c| c.to_digit(10))?;
    Some(Timestamp { seconds: seconds.parse().ok()?, nanos: tenth * 100_000_000 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_perf_marker_reads_and_prints_as_the_globus_server_does() {
        let perf = Perf {
            timestamp: Timestamp { seconds: 1_795_295_126, nanos: 900_000_000 },
            stripe: 0,
            bytes: 3_000_000,
            stripes: 1,
        };
        let wire = b"112-Perf Marker\r\n Timestamp: 1795295126.9\r\n Stripe Index: 0\r\n \
            Stripe Bytes Transferred: 3000000\r\n Total Stripe Count: 1\r\n112 End.\r\n";
        assert_eq!(perf.to_reply().encode(), wire);
        assert_eq!(Perf::from_reply(&perf.to_reply()), Some(perf));
    }

    #[test]
    fn an_empty_set_gives_no_marker() {
        assert_eq!(range_replies(&ByteRanges::new()), []);
        assert_eq!(ranges_of(&Reply::line(111, "Range Marker x")), None);
        assert_eq!(status_of(&status_reply(Timestamp::default(), 77)), Some(77));
    }

    proptest! {
        #[test]
        fn ranges_survive_however_many(starts in prop::collection::btree_set(0u64..1 << 50, 0..900)) {
            let mut held = ByteRanges::new();
            for start in starts { held.insert(start..start + 1); }
            let mut back = ByteRanges::new();
            for reply in range_replies(&held) {
                prop_assert!(reply.encode().len() < super::super::line::MAX_LINE);
                for range in ranges_of(&reply).expect("our own marker").iter() { back.insert(range); }
            }
            prop_assert_eq!(back, held);
        }

        #[test]
        fn any_text_is_safe(text in ".{0,60}") {
            let reply = Reply::new(112, [text.clone(), format!("Stripe Bytes Transferred: {text}"), format!("Timestamp: {text}")]);
            let _ = (Perf::from_reply(&reply), ranges_of(&Reply::line(111, format!("Range Marker {text}"))));
        }
    }
}
