//! With how many channels, which congestion control and how much staging a transfer begins, from what is known before its first byte.
//!
//! The rate is not known then: [`Tuner`](super::Tuner) and [`Growth`](super::Growth) learn it from the first blocks and go on from here. Each choice comes with its reason, in words, so that a user can disagree with it.

use crate::units::{Bytes, Rate, Span};
use serde::Serialize;

/// What is known before a transfer starts.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The least round-trip time seen on the control channel.
    pub rtt: Span,
    /// Bytes to move, where known.
    pub size: Option<Bytes>,
    /// The largest window this host lets one channel grow to (the third number of `tcp_wmem` or `tcp_rmem`).
    pub window_limit: Bytes,
    /// Congestion controls this host offers to this process.
    pub available: Vec<String>,
    /// The system's default congestion control.
    pub default_congestion: String,
    /// Queue pairs of all channels of registered slots; 0 where channels are of ordered bytes.
    pub queue_pairs: usize,
}

/// What the user fixed by hand.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Number of channels.
    pub streams: Option<usize>,
    /// Congestion control, by Linux's name.
    pub congestion: Option<String>,
    /// Bytes of the staging pool.
    pub staging: Option<Bytes>,
    /// What is known of the path from before: where to begin, not what stays.
    pub precedent: Option<Precedent>,
}

/// What a measurement of the path found best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precedent {
    /// Channels.
    pub streams: usize,
    /// Congestion control, by Linux's name.
    pub congestion: String,
    /// Which measurement, in words.
    pub from: String,
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Channels of each file or tree.
    pub streams: usize,
    /// Congestion control of this end's sockets; the system's default when absent.
    pub congestion: Option<String>,
    /// Bytes of the staging pool.
    pub staging: Bytes,
    /// Why, a sentence for each.
    pub reasons: Vec<String>,
}

/// The rate that windows should allow while nothing was measured: the papers' 10GE.
const AIM: Rate = Rate::from_bps(10_000_000_000);
/// More channels than this cost more processor time than they win on any path of the papers (SC08, figures 2 to 4).
pub(super) const MOST_STREAMS: usize = 16;
/// Staging to begin with: below this threads wait for each other, and what a store's pauses need is seen only when it pauses.
const STAGING: Bytes = Bytes::mib(16);

impl Choice {
    /// Chooses; `block` is the size of one staging slot.
    pub fn new(known: &Circumstances, wishes: &Wishes, block: Bytes) -> Choice {
        let mut reasons = Vec::new();
        let streams = match wishes.streams {
            Some(streams) => {
                reasons.push(format!("{} as asked", count(streams, "channel")));
                streams
            }
            None => {
                let (streams, why) = match &wishes.precedent {
                    Some(advice) => advised_streams(known, advice),
                    None => streams(known),
                };
                reasons.push(why);
                streams
            }
        };
        let congestion = match &wishes.congestion {
            Some(name) => {
                reasons.push(format!("{name} as asked"));
                Some(name.clone())
            }
            None => {
                let advised = wishes.precedent.as_ref().filter(|advice| known.available.contains(&advice.congestion));
                let (congestion, why) = match advised {
                    Some(advice) => (Some(advice.congestion.clone()), format!("{}, by {}", advice.congestion, advice.from)),
                    None => congestion(known),
                };
                reasons.push(why);
                congestion
            }
        };
        let staging = wishes.staging.unwrap_or_else(|| {
            // Half of the pool is on its way: two slots for each queue pair, one on the wire and one behind it. A pair without a slot would move
            // nothing, and with half of them idle the path would never seem to hold more.
            let begin = STAGING.0.max(4 * known.queue_pairs as u64 * block.0);
            let whole = known.size.map_or(begin, |size| begin.min(size.0));
            // Reading begins below half the pool: a block on its way in each channel must not hold the next ones back.
            let staging = Bytes(whole.max(2 * (streams as u64 + 1) * block.0));
            reasons.push(format!("{staging} of staging to begin with"));
            staging
        });
        Choice { streams, congestion, staging, reasons }
    }

    /// Slots of the staging pool: at least two more than channels, so that none waits for the disk's turn.
    pub fn slots(&self, block: Bytes) -> usize {
        usize::try_from(self.staging.0 / block.0.max(1)).unwrap_or(usize::MAX).max(self.streams + 2)
    }
}

fn streams(known: &Circumstances) -> (usize, String) {
    let product = AIM.bytes_in(known.rtt);
    let by_window = product.0.div_ceil(known.window_limit.0.max(1));
    // One loss costs a channel a part of its window; more channels share the cost and grow back together (SC08, III.C).
    let by_distance = match known.rtt.as_millis_f64() {
        ms if ms < 1.0 => 1,
        ms if ms < 10.0 => 2,
        ms if ms < 100.0 => 4,
        // Each doubling also saves a round trip of the windows' growth, which is half of a gigabyte's time at 163 ms: 6.24 s with four
        // channels, 5.69 with eight, 5.72 with sixteen (emulated `usn-8600`, file to file, one run of each).
        _ => 8,
    };
    let by_path = by_window.max(by_distance).min(MOST_STREAMS as u64);
    let by_size = known.size.map_or(by_path, |size| size.0.div_ceil(4 << 20).max(1));
    let streams = by_path.min(by_size);
    let why = if by_size < by_path {
        format!("{}: there are only {} to move", count(streams as usize, "channel"), known.size.unwrap_or_default())
    } else if by_window > by_distance {
        format!(
            "{}: one window is at most {} and the path holds {product} at {AIM}",
            count(streams as usize, "channel"),
            known.window_limit
        )
    } else {
        format!("{} to begin with, for an rtt of {}", count(streams as usize, "channel"), known.rtt)
    };
    (streams as usize, why)
}

/// What a measurement found best, or fewer for a few bytes.
fn advised_streams(known: &Circumstances, advice: &Precedent) -> (usize, String) {
    let by_size = known.size.map_or(usize::MAX, |size| usize::try_from(size.0.div_ceil(4 << 20).max(1)).unwrap_or(usize::MAX));
    let streams = advice.streams.clamp(1, MOST_STREAMS).min(by_size);
    (streams, format!("{} to begin with, by {}", count(streams, "channel"), advice.from))
}

/// CUBIC on long paths where the host has it: several channels of it share a loss, and it needs no timer for each packet,
/// which BBR's pacing does where the kernel has no `fq` (emulated `usn-8600`, 1 GiB, four channels: 4.2 s against 6.3 s).
fn congestion(known: &Circumstances) -> (Option<String>, String) {
    let default = &known.default_congestion;
    if known.rtt >= Span::from_millis(5) && default != "cubic" && known.available.iter().any(|name| name == "cubic") {
        return (
            Some("cubic".to_owned()),
            format!(
                "cubic rather than this host's {default}: parallel channels share a loss, without a pacing timer for each packet"
            ),
        );
    }
    (None, format!("{default}, this host's default"))
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(rtt: Span, window_limit: Bytes) -> Circumstances {
        let available = vec!["reno".to_owned(), "cubic".to_owned(), "bbr".to_owned()];
        Circumstances { rtt, size: None, window_limit, available, default_congestion: "cubic".to_owned(), queue_pairs: 0 }
    }

    #[test]
    fn a_pool_begins_with_two_slots_on_their_way_for_each_queue_pair_and_no_more_than_there_is_to_move() {
        let slots = |queue_pairs, size| {
            let known = Circumstances { queue_pairs, size, ..known(Span::from_millis(20), Bytes::mib(4)) };
            Choice::new(&known, &Wishes::default(), Bytes::mib(1)).slots(Bytes::mib(1))
        };
        assert_eq!([0, 1, 4, 8, 16].map(|queue_pairs| slots(queue_pairs, None)), [16, 16, 16, 32, 64]);
        assert_eq!(slots(16, Some(Bytes::mib(20))), 20);
    }

    #[test]
    fn a_long_path_gets_more_channels_and_a_small_window_more_still() {
        let block = Bytes::mib(1);
        let near = Choice::new(&known(Span::from_micros(280), Bytes::mib(32)), &Wishes::default(), block);
        assert_eq!((near.streams, near.congestion), (1, None));
        let far = Choice::new(&known(Span::from_millis(163), Bytes::mib(512)), &Wishes::default(), block);
        assert_eq!((far.streams, far.congestion.as_deref()), (8, None));
        let paced = Circumstances { default_congestion: "bbr".to_owned(), ..known(Span::from_millis(163), Bytes::mib(512)) };
        assert_eq!(Choice::new(&paced, &Wishes::default(), block).congestion.as_deref(), Some("cubic"));
        let squeezed = Choice::new(&known(Span::from_millis(163), Bytes::mib(4)), &Wishes::default(), block);
        assert_eq!(squeezed.streams, 16);
        assert!(squeezed.reasons[0].contains("one window is at most 4 MiB"), "{:?}", squeezed.reasons);
    }

    #[test]
    fn what_the_user_fixed_stands_and_small_files_need_one_channel() {
        let block = Bytes::mib(1);
        let wishes =
            Wishes { streams: Some(3), congestion: Some("reno".to_owned()), staging: Some(Bytes::mib(8)), precedent: None };
        let choice = Choice::new(&known(Span::from_millis(163), Bytes::mib(4)), &wishes, block);
        assert_eq!((choice.streams, choice.congestion.as_deref(), choice.slots(block)), (3, Some("reno"), 8));
        let small = Circumstances { size: Some(Bytes(1000)), ..known(Span::from_millis(163), Bytes::mib(4)) };
        assert_eq!(Choice::new(&small, &Wishes::default(), block).streams, 1);
    }

    #[test]
    fn a_measured_path_begins_with_what_was_found_best_unless_the_user_says_otherwise() {
        let block = Bytes::mib(1);
        let advice = Precedent { streams: 8, congestion: "bbr".to_owned(), from: "the profile of today".to_owned() };
        let wishes = Wishes { precedent: Some(advice.clone()), ..Wishes::default() };
        let far = known(Span::from_millis(163), Bytes::mib(512));
        let choice = Choice::new(&far, &wishes, block);
        assert_eq!((choice.streams, choice.congestion.as_deref()), (8, Some("bbr")));
        assert!(choice.reasons[0].contains("the profile of today"), "{:?}", choice.reasons);
        // What this host lacks it does not try.
        let lacking = Wishes { precedent: Some(Precedent { congestion: "htcp".to_owned(), ..advice }), ..wishes.clone() };
        assert_eq!(Choice::new(&far, &lacking, block).congestion, None);
        assert_eq!(Choice::new(&far, &Wishes { streams: Some(2), ..wishes.clone() }, block).streams, 2);
        let small = Circumstances { size: Some(Bytes(1000)), ..far };
        assert_eq!(Choice::new(&small, &wishes, block).streams, 1);
    }
}
