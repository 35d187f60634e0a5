//! Why a plan or a transfer is as it is: each choice, measurement and change with its figures, put
//! into words here and nowhere else.

use super::interval::IntervalReason;
use super::path::streams_in_words;
use crate::congestion::{Algorithm, ControlName};
use crate::units::{Bytes, Error, Rate, Setting, Span};
use serde::{Serialize, Serializer};
use std::fmt::{self, Display, Formatter};

/// Why something is as it is. Documents have it in words, which are no part of their schema.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// So many streams of a plan.
    Streams(u32, StreamsReason),
    /// So many channels as the user asked for.
    ChannelsAsked(usize),
    /// So many channels to begin with.
    Channels(usize, StreamsReason),
    /// A congestion control.
    Control(ControlName, ControlReason),
    /// How wide the interval of the expected time is.
    Interval(IntervalReason),
    /// What one stream must be allowed to have on its way.
    Window(Bytes),
    /// What one stream must be allowed to have on its way, where the path holds more than there is
    /// to move.
    WindowOfSize {
        /// The window.
        window: Bytes,
        /// What is to be moved.
        size: Bytes,
    },
    /// A staging pool for a path so long.
    Staging(Bytes, Span),
    /// A staging pool to begin with.
    StagingBegins(Bytes),
    /// Blocks so long at most.
    Blocks(Bytes),
    /// Socket buffers that the user asked for.
    Buffers(Bytes),
    /// The best cell of a profile.
    BestCell {
        /// Its streams.
        streams: u32,
        /// Its control.
        control: Algorithm,
        /// Among how many.
        cells: usize,
        /// The path's name.
        path: String,
        /// Whether data goes back over it.
        is_back: bool,
        /// The channel driver, where it is not the one that always is there.
        channel: Option<&'static str>,
    },
    /// A channel driver that was faster, and is not used.
    Unfair {
        /// Its name.
        channel: &'static str,
        /// How many times as fast it was.
        times: f64,
        /// Why not.
        why: &'static str,
    },
    /// A channel driver by the profile of this date.
    ChannelProfiled(&'static str, String),
    /// Where that cell's figures are from.
    Profiled {
        /// Whether a path was measured, and not modelled.
        is_measured: bool,
        /// Repetitions.
        times: usize,
        /// The profile's date, empty where it is not known.
        date: String,
        /// By what it was divided.
        scale: u32,
        /// Whether round trips were multiplied by that, too.
        is_time_scaled: bool,
    },
    /// What a node says that the last transfer over the path saw.
    ReportedByNode {
        /// Which node.
        server: String,
        /// The rate then.
        rate: Rate,
        /// The round trip then.
        rtt: Span,
        /// How long ago.
        age: Span,
    },
    /// A plan for a node of which nothing was measured.
    Unmeasured {
        /// Why not.
        why: ModelReason,
        /// The rate that was asked for; else one is assumed.
        rate: Option<Rate>,
        /// The rate that is assumed.
        assumed: Rate,
        /// The round trip.
        rtt: Span,
        /// Whether a copy begins by the same.
        copy_begins_so: bool,
    },
    /// What a transfer's first blocks showed.
    FirstBlocks {
        /// How fast they went.
        rate: Rate,
        /// Over how many channels.
        channels: usize,
        /// In what time.
        took: Span,
        /// What each channel had on its way.
        held: Bytes,
    },
    /// More channels, as windows are full.
    WindowsFull {
        /// Channels in all.
        channels: usize,
        /// What each has on its way.
        held: Bytes,
        /// The largest window.
        window: Bytes,
    },
    /// More channels, as the network limits those that there are.
    NetworkLimits {
        /// Channels in all.
        channels: usize,
        /// Those that there are.
        before: usize,
        /// What they are limited to.
        rate: Rate,
    },
    /// Channels in slow start are paced to a rate that fills the path: their round trip, the least.
    SlowStartEnded(Rate, Span, Span),
    /// BBR, as segments are lost without a queue.
    LossWithoutQueue {
        /// The round trip while they are.
        rtt: Span,
        /// The least one.
        min_rtt: Span,
    },
    /// BBR on trial, as it is not certain that a queue overflows.
    DoubtfulLoss,
    /// The control as before a trial of BBR.
    Restored {
        /// Which.
        control: ControlName,
        /// What BBR brought.
        found: Rate,
        /// What it was before.
        before: Rate,
    },
    /// A channel began from what an earlier transfer saw of the path (RFC 9959).
    Resumed {
        /// What was on its way then.
        in_flight: Bytes,
        /// The round trip then.
        rtt: Span,
        /// How long ago that was.
        age: Span,
        /// Whether a program in the kernel has it do so, and not the channel's own control.
        is_by_bpf: bool,
    },
    /// The path is known, but channels begin as over any.
    NotResumed {
        /// What was on its way then.
        in_flight: Bytes,
        /// Why not.
        why: String,
    },
    /// A booked rate is held.
    Held {
        /// Of all channels together.
        rate: Rate,
        /// How many.
        channels: usize,
    },
    /// A part of a held rate was given up.
    Yielded {
        /// What a channel was to hold.
        booked: Rate,
        /// What it sends now.
        rate: Rate,
        /// What showed that the path is not its own.
        why: String,
    },
    /// More on its way at once.
    Wider {
        /// So much.
        window: Bytes,
        /// Of a pool of so much.
        staging: Bytes,
        /// So much before.
        before: Bytes,
        /// What that held of the path.
        product: Bytes,
    },
    /// A larger pool, as the store comes in bursts.
    Bursts {
        /// Its size.
        staging: Bytes,
        /// The part of their time that channels waited for the store.
        waited: f64,
    },
    /// What the other end measured or changed, in its words.
    Remote {
        /// Who it is.
        server: String,
        /// What it says.
        said: String,
        /// Whether it measured that, and changed nothing.
        is_measurement: bool,
    },
}

/// Why so many streams, and not more or fewer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamsReason {
    /// There are only so many bytes to move.
    Size(Bytes),
    /// One window is smaller than what the path holds.
    Window {
        /// The largest window.
        window: Bytes,
        /// What the path holds.
        product: Bytes,
        /// What more streams would win, where that was simulated.
        margin: Option<Margin>,
    },
    /// More would win too little.
    Margin(Margin),
    /// A loss costs only one of several.
    SharedLoss {
        /// What the path holds.
        product: Bytes,
    },
    /// What the profile of this date found best.
    Profile(String),
    /// They begin from what an earlier copy saw of the path.
    Resumed,
    /// They begin together with more than those of a plan that knows nothing of the path.
    KnownPath {
        /// How many those are.
        planned: u32,
        /// What the path was seen to hold.
        in_flight: Bytes,
    },
}

/// What more streams would win at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The part of the time.
    pub part: f64,
    /// The rate and round trip of the model that says so, where they are not the path's.
    pub model: Option<(Rate, Span)>,
}

/// Why a congestion control.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ControlReason {
    /// The user asked for it.
    Asked,
    /// There is no other.
    Only,
    /// It is the best of so many on a path that loses this part of the packets.
    Best(usize, f64),
    /// It is the host's default.
    Default,
    /// It is what channels of the driver of this title have where nothing is asked for.
    Channel(String),
    /// The host's default paces, for nothing within a rack.
    Unpaced {
        /// The default.
        default: ControlName,
        /// Below which round trip.
        near: Span,
        /// Whether the queueing discipline `fq` paces on the route; `None` where nobody knows.
        fq: Option<bool>,
    },
    /// Parallel channels share a loss; this is the default that needs a timer for each packet.
    SharedLosses(ControlName),
    /// What the profile of this date found best.
    Profile(String),
    /// All that were measured reached the rate at which the node lets itself be measured.
    Alike,
}

/// Why nothing was measured of the path to a node.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelReason {
    /// This flag is told to the model.
    Flag(&'static str),
    /// A probe found nothing to go by.
    EmptyProbe(Error),
    /// This server allows no probe.
    NotAllowed(String),
    /// This server is being measured by another client.
    Busy(String),
}

/// How [`Reason::Yielded`] begins, also in a peer's words.
pub const HELD_RATE_FELL: &str = "the held rate fell";

impl Reason {
    /// Whether it says why something was chosen or changed, and not only what was measured.
    pub fn is_choice(&self) -> bool {
        match self {
            Reason::FirstBlocks { .. } | Reason::ReportedByNode { .. } => false,
            Reason::Remote { is_measurement, .. } => !is_measurement,
            _ => true,
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Streams(streams, why) => write!(f, "{}: {why}", streams_in_words(*streams)),
            Reason::ChannelsAsked(channels) => write!(f, "{} as asked", in_words(*channels)),
            Reason::Channels(channels, why) => {
                write!(f, "{} to begin with: {why}", in_words(*channels))
            }
            Reason::Control(name, why) => why.write(name, f),
            Reason::Interval(why) => why.fmt(f),
            Reason::Window(window) => write!(
                f,
                "{window} of window for each stream: its share of what path and queue hold"
            ),
            Reason::WindowOfSize { window, size } if size < window => {
                write!(f, "{window} of window, which every system gives: it holds all {size}")
            }
            Reason::WindowOfSize { window, .. } => {
                write!(f, "{window} of window for each stream: there is no more to move")
            }
            Reason::Staging(staging, rtt) => write!(f, "{staging} of staging for an rtt of {rtt}"),
            Reason::Blocks(longest) => write!(f, "blocks of {longest}: channels end together"),
            Reason::StagingBegins(staging) => write!(f, "{staging} of staging to begin with"),
            Reason::Buffers(wanted) => write!(f, "socket buffers of {wanted} as asked"),
            Reason::BestCell { streams, control, cells, path, is_back, channel } => {
                write!(f, "{} with {control}", streams_in_words(*streams))?;
                channel.map_or(Ok(()), |channel| write!(f, " over {channel}"))?;
                write!(
                    f,
                    ": the best of {cells} cells {}over {path}, or as good with fewer streams",
                    if *is_back { "back " } else { "" }
                )
            }
            Reason::Unfair { channel, times, why } => {
                write!(f, "not over {channel}, though it was {times:.2} times as fast: {why}")
            }
            Reason::ChannelProfiled(channel, date) => {
                write!(f, "over {channel}, by the profile of {date}")
            }
            Reason::Profiled { is_measured, times, date, scale, is_time_scaled } => {
                f.write_str(if *is_measured { "measured " } else { "modelled " })?;
                match times {
                    1 => f.write_str("once")?,
                    times => write!(f, "{times} times")?,
                }
                write!(f, " on {}", if date.is_empty() { "an unknown date" } else { date })?;
                match scale {
                    1 => Ok(()),
                    k if *is_time_scaled => write!(
                        f,
                        ", scaled {k}: on a path of a {k}th of the rate and {k} times the round \
                         trip"
                    ),
                    k => write!(
                        f,
                        ", scaled {k}: on a path of a {k}th of the rate, all figures times {k}"
                    ),
                }
            }
            Reason::Unmeasured { why, rate, assumed, rtt, copy_begins_so } => {
                write!(f, "by the model, {why}: ")?;
                match rate {
                    Some(rate) => write!(f, "{rate} as asked")?,
                    None => write!(f, "{assumed} assumed ({})", Setting::Rate)?,
                }
                let begins = match copy_begins_so {
                    true => "begins so",
                    false => "is told none of this, and begins by the rtt",
                };
                write!(f, ", rtt {rtt}; `farline cp` {begins}, and goes on by what it sees")
            }
            Reason::ReportedByNode { server, rate, rtt, age } => write!(
                f,
                "{server} says that the last transfer over this path had {rate} over an rtt of \
                 {rtt}, {}",
                age.ago()
            ),
            Reason::FirstBlocks { rate, channels, took, held } => write!(
                f,
                "measured: {rate} over {} in the first {took}, {held} on its way in each",
                in_words(*channels)
            ),
            Reason::WindowsFull { channels, held, window } => write!(
                f,
                "{}: {held} on its way is all that one window, at most {window}, holds",
                in_words(*channels)
            ),
            Reason::NetworkLimits { channels, before, rate } => {
                write!(f, "{channels} channels: the network limits {before} to {rate}")
            }
            Reason::SlowStartEnded(rate, rtt, min_rtt) => write!(
                f,
                "paced to {rate}, which fills the path, before slow start overflows it: the round \
                 trip is {rtt} at a least of {min_rtt}"
            ),
            Reason::LossWithoutQueue { rtt, min_rtt } => write!(
                f,
                "bbr: segments are lost while the round trip is {rtt} at a least of {min_rtt}, so \
                 without congestion"
            ),
            Reason::DoubtfulLoss => {
                f.write_str("bbr: segments are lost, and no queue is seen for certain; on trial")
            }
            Reason::Resumed { in_flight, rtt, age, is_by_bpf } => write!(
                f,
                "begins from what this path held {}, {in_flight} on their way over {rtt}: half of \
                 that after a first round trip that confirms it, by {}",
                age.ago(),
                if *is_by_bpf { "BPF" } else { "the channel's own control" }
            ),
            Reason::NotResumed { in_flight, why } => {
                write!(f, "begins as over any path, though this one held {in_flight}: {why}")
            }
            Reason::Held { rate, channels } => {
                write!(
                    f,
                    "{rate} held over {} from the first round trip on, as booked",
                    in_words(*channels)
                )
            }
            Reason::Yielded { booked, rate, why } => {
                write!(f, "{HELD_RATE_FELL} from {booked} to {rate}: {why}, so the path is shared")
            }
            Reason::Restored { control, found, before } => write!(
                f,
                "{control}: the control as before: bbr brought {found} where it was {before}"
            ),
            Reason::Wider { window, staging, before, product } => write!(
                f,
                "{window} on its way at once, of {staging}: {before} held no more than {product} \
                 of the path"
            ),
            Reason::Bursts { staging, waited } => write!(
                f,
                "{staging} of staging: the store comes in bursts, and channels waited for it for \
                 {:.0} % of their time",
                waited * 100.0
            ),
            Reason::Remote { server, said, .. } => write!(f, "at {server}: {said}"),
        }
    }
}

impl Display for StreamsReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            StreamsReason::Size(size) => write!(f, "there are only {size} to move"),
            StreamsReason::Window { window, product, margin } => {
                write!(f, "one window is at most {window} and the path holds {product}")?;
                margin.map_or(Ok(()), |margin| write!(f, "; {margin}"))
            }
            StreamsReason::Margin(margin) => margin.fmt(f),
            StreamsReason::SharedLoss { product } => write!(
                f,
                "a loss then costs only one of them a part of its window; the path holds {product}"
            ),
            StreamsReason::Profile(date) => write!(f, "by the profile of {date}"),
            StreamsReason::Resumed => {
                f.write_str("they begin from what the last copy saw, and more save no round trip")
            }
            StreamsReason::KnownPath { planned, in_flight } => write!(
                f,
                "more than the {planned} of any path, as this one held {in_flight} and BPF, by \
                 which fewer begin from that, is not this user's to load"
            ),
        }
    }
}

impl Display for Margin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "more win less than {:.0} %", self.part * 100.0)?;
        match self.model {
            Some((rate, rtt)) => write!(f, ", by the model of {rate} and an rtt of {rtt}"),
            None => Ok(()),
        }
    }
}

impl ControlReason {
    fn write(&self, name: &ControlName, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ControlReason::Asked => write!(f, "{name} as asked"),
            ControlReason::Only => write!(f, "{name}, the only congestion control to choose from"),
            ControlReason::Best(controls, loss) if *loss > 0.0 => write!(
                f,
                "{name}: the best of {controls} controls where {loss:e} of the packets are lost"
            ),
            ControlReason::Best(controls, _) => write!(
                f,
                "{name}: the best of {controls} controls over this path, or as good and more usual"
            ),
            ControlReason::Default => write!(f, "{name}, this host's default"),
            ControlReason::Channel(driver) => write!(f, "{name}, as {driver} channels have it"),
            ControlReason::Unpaced { default, near, fq } => write!(
                f,
                "{name} rather than this host's {default}: below {near} of rtt pacing costs more \
                 than it wins{}",
                match fq {
                    Some(true) => "; fq on this route would pace it",
                    Some(false) =>
                        "; without fq on this route the kernel sets a timer for each burst",
                    None => "",
                }
            ),
            ControlReason::SharedLosses(default) => write!(
                f,
                "{name} rather than this host's {default}: parallel channels share a loss, \
                 without a pacing timer for each packet"
            ),
            ControlReason::Alike => write!(
                f,
                "{name}, the most usual: all that was measured reached the node's ceiling, which \
                 tells no controls, streams or channels apart"
            ),
            ControlReason::Profile(date) => write!(f, "{name}, by the profile of {date}"),
        }
    }
}

impl Display for ModelReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ModelReason::Flag(flag) => write!(f, "as {flag} is told to it"),
            ModelReason::EmptyProbe(error) => {
                write!(f, "as the probe found nothing to go by: {}", error.message)
            }
            ModelReason::NotAllowed(server) => write!(f, "as {server} allows no probe"),
            ModelReason::Busy(server) => {
                write!(f, "as {server} is being measured by another client")
            }
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn in_words(channels: usize) -> String {
    format!("{channels} channel{}", if channels == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_no_choice_at_either_end() {
        let rate = Rate::from_bps(1_000_000_000);
        let (held, took) = (Bytes::mib(1), Span::from_millis(10));
        let first = Reason::FirstBlocks { rate, channels: 1, took, held };
        let text = first.to_string();
        assert!(!first.is_choice());
        assert_eq!(
            text,
            "measured: 1.00 Gbit/s over 1 channel in the first 10.0 ms, 1 MiB on its way in each"
        );
        let remote = |is_measurement| Reason::Remote {
            server: "there:2811".to_owned(),
            said: text.clone(),
            is_measurement,
        };
        assert!(!remote(true).is_choice() && remote(false).is_choice());
        assert_eq!(remote(true).to_string(), format!("at there:2811: {text}"));
    }

    #[test]
    fn a_document_has_a_reason_in_words() {
        let name = ControlName::from(Algorithm::Cubic);
        let reason = Reason::Control(name, ControlReason::Best(3, 1e-5));
        let words = "cubic: the best of 3 controls where 1e-5 of the packets are lost";
        assert_eq!(serde_json::to_value(&reason).expect("JSON"), words);
    }
}
