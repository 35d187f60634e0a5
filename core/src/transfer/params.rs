//! With how many channels, which congestion control and how much staging a transfer begins, from
//! what is known before its first byte.
//!
//! The rate is not known then: [`ChannelAutotuner`](super::ChannelAutotuner) and
//! [`BufferAutotuner`](super::BufferAutotuner) learn it from the first blocks and go on from here.
//! Each choice comes with its reason, so that a user can disagree with it.

use super::layout::{LONGEST_BLOCK, SHORTEST_BLOCK};
use crate::congestion::{ControlName, SavedPath};
use crate::plan::{ChannelLimits, ControlReason, PathEstimate, Reason, StreamsReason, for_size};
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use serde::Serialize;

/// What is known before a transfer starts.
#[derive(Clone, Debug)]
pub struct PathContext {
    /// The path by the least round-trip time seen on the control channel, and what this host lets a
    /// channel do.
    pub path: PathEstimate,
    /// Bytes to move, where known.
    pub size: Option<Bytes>,
    /// What the path or the user lets through at most, where that is known.
    pub rate: Option<Rate>,
    /// Queue pairs of all channels of registered slots; 0 where channels are of ordered bytes.
    pub queue_pairs: usize,
    /// Whether each channel begins from its part of what an earlier copy saw of the path.
    pub resumes: bool,
    /// What an earlier copy saw of the path, where this one can use it by the number of its
    /// channels alone.
    pub saved: Option<SavedPath>,
}

impl PathContext {
    /// With how many channels to begin where nobody says it, and why.
    fn streams(&self) -> (u32, StreamsReason) {
        let (planned, why) = self.path.streams(self.size);
        let Some((saved, size)) = self.saved.zip(self.size) else { return (planned, why) };
        match saved.channels(planned, self.path.rtt, size) {
            streams if streams > planned => {
                (streams, StreamsReason::KnownPath { planned, in_flight: saved.in_flight })
            }
            _ => (planned, why),
        }
    }
}

/// What the user fixed by hand.
#[derive(Clone, Debug, Default)]
pub struct UserOverrides {
    /// Number of channels.
    pub streams: Option<usize>,
    /// Congestion control.
    pub congestion: Option<ControlName>,
    /// Bytes of the staging pool.
    pub staging: Option<Bytes>,
    /// What is known of the path from before: where to begin, not what stays.
    pub prior: Option<PriorMeasurement>,
}

impl UserOverrides {
    /// Whether a copy may have these.
    ///
    /// # Errors
    /// [`Fault::You`] for no channels, and for more than [`ChannelLimits::ASKED`].
    pub fn check(&self) -> Result<(), Error> {
        let most = ChannelLimits::ASKED as usize;
        match self.streams {
            Some(streams) if !(1..=most).contains(&streams) => {
                let message = format!("a copy over {streams} channels: from 1 to {most}");
                Err(Error::new(Fault::You, ErrorCode::BadStreams, message))
            }
            _ => Ok(()),
        }
    }
}

/// What a measurement of the path found best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorMeasurement {
    /// Channels.
    pub streams: u32,
    /// Congestion control.
    pub congestion: ControlName,
    /// The channel driver, where it is not the one that every node takes.
    pub channel: Option<&'static str>,
    /// When it was made.
    pub date: String,
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferParams {
    /// Channels of each file or tree.
    pub streams: usize,
    /// Whether those are more than over any path, by what is known of this one.
    pub is_by_channels: bool,
    /// Congestion control of this end's sockets; the system's default when absent.
    pub congestion: Option<ControlName>,
    /// Bytes of the staging pool.
    pub staging: Bytes,
    /// The longest block that the peer is asked for; none where blocks stay as they are.
    pub longest_block: Option<Bytes>,
    /// Why, for each.
    pub reasons: Vec<Reason>,
}

/// Channels that begin from what the path held: over UDT and 10 Gbit/s x 163 ms one or two were as
/// fast, and sixteen, each of which paces its small part, slower than without anything known.
const RESUMING: u32 = 2;

/// Staging to begin with: below this threads wait for each other, and what a store's pauses need is
/// seen only when it pauses.
const STAGING: Bytes = Bytes::mib(16);

/// The round trip that a block is measured by at least: what an end of a copy takes is not worth
/// more blocks below it.
const TRIP: Span = Span::from_millis(20);

/// Blocks that a channel of a small copy has at least, while they are not the shortest: what comes
/// in its first round trips is written then, and not all in the last one.
const BLOCKS_OF_CHANNEL: u64 = 8;

/// As long as what one of `streams` carries in a round trip, so that channels end a copy less than
/// that apart; shorter in a small copy. One channel ends with itself, and on a near path copies end
/// at once.
fn longest_block(
    path: &PathEstimate,
    streams: usize,
    rate: Option<Rate>,
    size: Option<Bytes>,
) -> Option<Bytes> {
    if streams < 2 || path.is_near() {
        return None;
    }
    let of_channel =
        rate.map_or(u64::MAX, |rate| rate.bytes_in(path.rtt.max(TRIP)).0 / streams as u64);
    let of_size = size.map_or(u64::MAX, |size| size.0 / (streams as u64 * BLOCKS_OF_CHANNEL));
    let longest = of_channel.min(of_size).clamp(SHORTEST_BLOCK as u64, LONGEST_BLOCK as u64);
    Some(Bytes(1 << longest.ilog2()))
}

impl TransferParams {
    /// Chooses; `block` is the size of one staging slot.
    pub fn new(context: &PathContext, overrides: &UserOverrides, block: Bytes) -> TransferParams {
        let (mut reasons, mut is_by_channels) = (Vec::new(), false);
        let streams = match (overrides.streams, &overrides.prior) {
            (Some(streams), _) => {
                reasons.push(Reason::ChannelsAsked(streams));
                streams
            }
            (None, prior) => {
                let (streams, why) = match prior {
                    Some(advice) => {
                        let why = StreamsReason::Profile(advice.date.clone());
                        for_size(advice.streams.max(1), context.size, why)
                    }
                    None if context.resumes => {
                        for_size(RESUMING, context.size, StreamsReason::Resumed)
                    }
                    None => context.streams(),
                };
                is_by_channels = matches!(why, StreamsReason::KnownPath { .. });
                reasons.push(Reason::Channels(streams as usize, why));
                streams as usize
            }
        };
        let has = |advice: &&PriorMeasurement| context.path.available.contains(&advice.congestion);
        let (congestion, why) = match (overrides.congestion, &overrides.prior) {
            (Some(name), _) => (Some(name), Reason::Control(name, ControlReason::Asked)),
            (None, prior) => match prior.as_ref().filter(has) {
                Some(PriorMeasurement { congestion, date, .. }) => {
                    let why = ControlReason::Profile(date.clone());
                    (Some(*congestion), Reason::Control(*congestion, why))
                }
                None => context.path.congestion(),
            },
        };
        reasons.push(why);
        let staging = overrides.staging.unwrap_or_else(|| {
            // Half of the pool is on its way: two slots for each queue pair, one on the wire and
            // one behind it. A pair without a slot would move nothing, and with half of them idle
            // the path would never seem to hold more.
            let begin = STAGING.0.max(4 * context.queue_pairs as u64 * block.0);
            let whole = context.size.map_or(begin, |size| begin.min(size.0));
            // Reading begins below half the pool: a block on its way in each channel must not hold
            // the next ones back. Channels of queue pairs are as many as was asked for, or one:
            // others are for the way over ordered bytes, should there be none over these.
            let channels =
                if context.queue_pairs > 0 { overrides.streams.unwrap_or(1) } else { streams };
            let staging = Bytes(whole.max(2 * (channels as u64 + 1) * block.0));
            reasons.push(Reason::StagingBegins(staging));
            staging
        });
        let longest_block = longest_block(&context.path, streams, context.rate, context.size);
        reasons.extend(
            longest_block.filter(|longest| longest.0 < LONGEST_BLOCK as u64).map(Reason::Blocks),
        );
        TransferParams { streams, is_by_channels, congestion, staging, longest_block, reasons }
    }

    /// Slots of the staging pool: at least two more than channels, so that none waits for the
    /// disk's turn.
    pub fn slots(&self, block: Bytes) -> usize {
        self.slots_for(self.streams, block)
    }

    /// The same of another number of channels.
    pub fn slots_for(&self, channels: usize, block: Bytes) -> usize {
        usize::try_from(self.staging.0 / block.0.max(1)).unwrap_or(usize::MAX).max(channels + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    fn named(name: &str) -> ControlName {
        name.parse().expect("a name")
    }

    fn context(rtt: Span, window: Bytes) -> PathContext {
        let available = ["reno", "cubic", "bbr"].map(named).to_vec();
        let path =
            PathEstimate { rtt, window, available, default_congestion: named("cubic"), fq: None };
        PathContext { path, size: None, rate: None, queue_pairs: 0, resumes: false, saved: None }
    }

    #[test]
    fn a_known_path_has_more_channels_unless_somebody_says_how_many() {
        let rtt = Span::from_millis(163);
        let far = context(rtt, Bytes::mib(512));
        let rate = Rate::from_bps(400_000_000_000);
        let saved = SavedPath { in_flight: rate.bytes_in(rtt), rtt, fills: true };
        let of = |saved, size, overrides: &UserOverrides| {
            let context = PathContext { saved, size, ..far.clone() };
            TransferParams::new(&context, overrides, Bytes::mib(1))
        };
        let (free, size) = (UserOverrides::default(), Some(Bytes::mib(16 << 10)));
        let planned = of(None, size, &free);
        let more = of(Some(saved), size, &free);
        assert!(planned.streams < more.streams, "{planned:?} {more:?}");
        assert!(!planned.is_by_channels && more.is_by_channels);
        let why = more.reasons[0].to_string();
        assert!(why.contains(&format!("more than the {} of any path", planned.streams)), "{why}");
        assert!(more.slots(Bytes::mib(1)) >= 2 * (more.streams + 1), "{more:?}");
        // Of what size it is, nobody says; the user, or a profile, says how many.
        assert!(!of(Some(saved), None, &free).is_by_channels);
        let asked = UserOverrides { streams: Some(2), ..UserOverrides::default() };
        assert_eq!(of(Some(saved), size, &asked).streams, 2);
        let advice = PriorMeasurement {
            streams: 3,
            congestion: named("cubic"),
            channel: None,
            date: "today".to_owned(),
        };
        let advised = UserOverrides { prior: Some(advice), ..UserOverrides::default() };
        let chosen = of(Some(saved), size, &advised);
        assert_eq!((chosen.streams, chosen.is_by_channels), (3, false));
    }

    #[test]
    fn channels_that_resume_are_few() {
        let far = context(Span::from_millis(163), Bytes::mib(512));
        let of = |resumes, size| {
            let context = PathContext { resumes, size, ..far.clone() };
            TransferParams::new(&context, &UserOverrides::default(), Bytes::mib(1))
        };
        assert_eq!((of(false, None).streams, of(true, None).streams), (4, 2));
        assert_eq!(of(true, Some(Bytes(1_000))).streams, 1);
        assert!(of(true, None).reasons.contains(&Reason::Channels(2, StreamsReason::Resumed)));
    }

    #[test]
    fn blocks_are_what_a_channel_carries_in_a_round_trip() {
        let of_size = |rtt, rate, streams, size| {
            let context = PathContext { rate, size, ..context(rtt, Bytes::mib(512)) };
            let overrides = UserOverrides { streams: Some(streams), ..UserOverrides::default() };
            TransferParams::new(&context, &overrides, Bytes::mib(1)).longest_block
        };
        let longest = |rtt, rate, streams| of_size(rtt, rate, streams, None);
        let far = Span::from_millis(100);
        let mbit = |rate: u64| Some(Rate::from_bps(rate * 1_000_000));
        assert_eq!(longest(far, None, 16), Some(Bytes::mib(1)));
        assert_eq!(longest(far, mbit(10_000), 16), Some(Bytes::mib(1)));
        // 12.5 MB in a round trip, in 16 channels.
        assert_eq!(longest(far, mbit(1_000), 16), Some(Bytes(512 << 10)));
        assert_eq!(longest(far, mbit(10), 16), Some(Bytes(64 << 10)));
        assert_eq!(longest(Span::from_millis(2), mbit(1_000), 4), Some(Bytes(512 << 10)));
        assert_eq!(
            (longest(far, mbit(10), 1), longest(Span::from_micros(90), mbit(10), 4)),
            (None, None)
        );
        // Of a small copy each channel has some.
        let sizes = [10, 64, 1_024].map(|mib| of_size(far, None, 16, Some(Bytes::mib(mib))));
        assert_eq!(sizes, [64 << 10, 512 << 10, 1 << 20].map(|len| Some(Bytes(len))));
    }

    #[test]
    fn a_pool_begins_with_two_slots_for_each_queue_pair() {
        let slots = |queue_pairs, size| {
            let context = PathContext {
                queue_pairs,
                size,
                ..context(Span::from_millis(20), Bytes::mib(512))
            };
            TransferParams::new(&context, &UserOverrides::default(), Bytes::mib(1))
                .slots(Bytes::mib(1))
        };
        assert_eq!(
            [0, 1, 4, 8, 16].map(|queue_pairs| slots(queue_pairs, None)),
            [16, 16, 16, 32, 64]
        );
        assert_eq!(slots(16, Some(Bytes::mib(20))), 20);
        // However many channels the way over ordered bytes would have.
        let far = |queue_pairs| PathContext {
            queue_pairs,
            ..context(Span::from_millis(163), Bytes::mib(4))
        };
        let params = |queue_pairs| {
            TransferParams::new(&far(queue_pairs), &UserOverrides::default(), Bytes::mib(1))
        };
        assert_eq!((params(0).streams, params(0).slots(Bytes::mib(1))), (16, 34));
        assert_eq!((params(1).streams, params(1).slots_for(1, Bytes::mib(1))), (16, 16));
    }

    #[test]
    fn without_a_wish_it_is_as_the_advisor_says() {
        let mut far = context(Span::from_millis(163), Bytes::mib(4));
        far.path.default_congestion = named("bbr");
        let params = TransferParams::new(&far, &UserOverrides::default(), Bytes::mib(1));
        assert_eq!(
            (params.streams, params.congestion),
            (far.path.streams(None).0 as usize, Some(named("cubic")))
        );
        assert!(
            params.reasons[0].to_string().contains("one window is at most 4 MiB"),
            "{:?}",
            params.reasons
        );
    }

    #[test]
    fn what_the_user_fixed_stands_and_small_files_need_one_channel() {
        let block = Bytes::mib(1);
        let overrides = UserOverrides {
            streams: Some(3),
            congestion: Some(named("reno")),
            staging: Some(Bytes::mib(8)),
            prior: None,
        };
        let params =
            TransferParams::new(&context(Span::from_millis(163), Bytes::mib(4)), &overrides, block);
        assert_eq!(
            (params.streams, params.congestion, params.slots(block)),
            (3, Some(named("reno")), 8)
        );
        let small = PathContext {
            size: Some(Bytes(1000)),
            ..context(Span::from_millis(163), Bytes::mib(4))
        };
        assert_eq!(TransferParams::new(&small, &UserOverrides::default(), block).streams, 1);
    }

    #[test]
    fn a_measured_path_begins_with_the_best_or_the_users_word() {
        let block = Bytes::mib(1);
        let advice = PriorMeasurement {
            streams: 8,
            congestion: named("bbr"),
            channel: None,
            date: "today".to_owned(),
        };
        let overrides = UserOverrides { prior: Some(advice.clone()), ..UserOverrides::default() };
        let far = context(Span::from_millis(163), Bytes::mib(512));
        let params = TransferParams::new(&far, &overrides, block);
        assert_eq!((params.streams, params.congestion), (8, Some(named("bbr"))));
        assert!(
            params.reasons[0].to_string().contains("the profile of today"),
            "{:?}",
            params.reasons
        );
        // What this host lacks it does not try.
        let lacking = UserOverrides {
            prior: Some(PriorMeasurement { congestion: named("htcp"), ..advice }),
            ..overrides.clone()
        };
        assert_eq!(TransferParams::new(&far, &lacking, block).congestion, None);
        assert_eq!(
            TransferParams::new(
                &far,
                &UserOverrides { streams: Some(2), ..overrides.clone() },
                block
            )
            .streams,
            2
        );
        let small = PathContext { size: Some(Bytes(1000)), ..far };
        assert_eq!(TransferParams::new(&small, &overrides, block).streams, 1);
    }
}
