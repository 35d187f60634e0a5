//! A test as the sender sees it: what it sent in each second joined with what came of it, what can
//! be said so far, and the document.

use super::delay::{ClockDifference, ClockState, DelaySample, PathDelay};
use super::delay_summary::DelaySummary;
use super::gilbert::Gilbert;
use super::gilbert_elliott::GilbertElliott;
use super::kernel_times::KernelTimes;
use super::link_late::{LinkAccount, UnsettledDelays};
use super::loss_sequence::{LossEntry, PeerLossSequence};
use super::open_losses::SettledFrames;
use super::outcome::LineOutcome;
use super::ratio::Ratio;
use super::read::read;
use super::refused_answers::RefusedAnswers;
use super::seconds::{LineSums, SenderTotals, SentSecond, TestedSecond, Untested};
use super::sequential::RatioDecision;
use super::settings::LineSettings;
use super::strip::StripPart;
use super::tally::{SecondRow, TallyTotals};
use crate::units::{Error, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most parts of the strip of time; it gets coarser as a test gets longer.
const STRIP: usize = 2_048;

/// A test under way; as it stands it is also what is written down to go on from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineTest {
    /// What was asked for.
    pub settings: LineSettings,
    /// When it began, since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Time>,
    /// Sums so far.
    pub sums: LineSums,
    /// What the receiver says in all.
    pub totals: TallyTotals,
    /// The latest losses, as the receiver told them.
    #[serde(default)]
    pub losses: PeerLossSequence,
    /// Which frames count, as far as that is settled and the receiver has not been told.
    #[serde(default)]
    settled: SettledFrames,
    /// Whether the receiver heeds it.
    #[serde(default)]
    has_tested_runs: bool,
    /// What the sender says in all, once it ended.
    #[serde(default)]
    pub sender: SenderTotals,
    /// Delays.
    pub delay: PathDelay,
    /// What this host's kernel says of its clock, and the other end of its own.
    #[serde(default)]
    pub clock_states: Option<(ClockState, ClockState)>,
    /// Of how many of these packets the kernels told times.
    #[serde(default)]
    pub kernel_times: KernelTimes,
    /// How often the other end lost its account, as it was killed or forgot the test.
    #[serde(default)]
    pub restarts: u64,
    /// Answers to STAMP packets that count for nothing.
    #[serde(default)]
    pub refused_answers: RefusedAnswers,
    /// Seconds of which no delay counts, because the emulated link was late itself in them.
    #[serde(default)]
    pub link_late: u64,
    /// What that link says itself of the delays in the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_account: Option<LinkAccount>,
    /// Why it ended before its time, where nobody asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    #[serde(skip)]
    unsettled: UnsettledDelays,
    /// What was decided when it could be: what comes while a test ends does not undo it.
    #[serde(skip)]
    pub(super) decided: Option<RatioDecision>,
    /// What the other end had counted in its lives before.
    #[serde(default)]
    earlier: TallyTotals,
    strip: Vec<StripPart>,
    strip_seconds: u64,
    sent: BTreeMap<u64, SentSecond>,
    rows: BTreeMap<u64, SecondRow>,
    next: u64,
}

/// A finished test, or one that broke off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineDocument {
    /// `farline/line/1`.
    pub schema: String,
    /// Farline's version.
    pub farline: String,
    /// When it began, UTC; absent in documents of a version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<String>,
    /// When it ended, UTC.
    pub date: String,
    /// What was asked for.
    pub settings: LineSettings,
    /// How it ended.
    pub outcome: LineOutcome,
    /// That in a sentence.
    pub verdict: String,
    /// Sums over the seconds that count.
    pub sums: LineSums,
    /// Frames that did not come, of those sent; the interval knows that losses come in bursts.
    pub loss: Option<Ratio>,
    /// Frames with a wrong bit, of the bits compared: wrong bits that no checksum saw.
    pub payload_bit_errors: Option<Ratio>,
    /// Frames that did not come or had a wrong bit, of the bits from header to FCS: the bit error
    /// ratio, were wrong bits the only reason for frames not to come.
    pub bit_errors: Option<Ratio>,
    /// Gilbert's model of the losses.
    pub gilbert: Option<Gilbert>,
    /// Gilbert's and Elliott's of the latest, with losses in the good state and frames that come in
    /// the bad one; absent where few were lost, and where independent losses say as much.
    #[serde(default)]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// The receiver's account of all frames, also of seconds that do not count, but for its runs of
    /// losses; where it was killed meanwhile, of all its lives, less what it had not told.
    pub totals: TallyTotals,
    /// Whether its runs of losses are of seconds that count alone; a receiver of a version before
    /// has those of all.
    #[serde(default)]
    pub has_tested_runs: bool,
    /// How often it lost its account.
    #[serde(default)]
    pub restarts: u64,
    /// Why the test ended before its time, where nobody asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// The sender's.
    #[serde(default)]
    pub sender: SenderTotals,
    /// Round trips.
    pub rtt: Option<DelaySummary>,
    /// The delay there.
    pub one_way_delay: Option<DelaySummary>,
    /// The delay back.
    pub one_way_delay_back: Option<DelaySummary>,
    /// What the clocks are to each other.
    pub clocks: Option<ClockDifference>,
    /// What this host's kernel says of its clock, and the other end of its own.
    #[serde(default)]
    pub clock_states: Option<(ClockState, ClockState)>,
    /// Of how many packets the kernels told times.
    #[serde(default)]
    pub kernel_times: KernelTimes,
    /// The mean difference between delays of packets that follow each other, in nanoseconds.
    pub delay_variation_ns: Option<f64>,
    /// How often a clock was set while the test ran.
    pub clock_steps: u64,
    /// Answers of which the other end says what cannot be: that it sent them before it received
    /// what they answer, or held them longer than they were away.
    #[serde(default)]
    pub impossible_times: u64,
    /// Answers to STAMP packets that count for nothing.
    #[serde(default)]
    pub refused_answers: RefusedAnswers,
    /// Seconds of which no delay counts, because the emulated link was late itself in them.
    #[serde(default)]
    pub link_late: u64,
    /// What that link says itself of the delays in the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_account: Option<LinkAccount>,
    /// One-way delays there, in nanoseconds and ascending order: a sample of all.
    pub delays_ns: Vec<f64>,
    /// Round trips, likewise.
    pub rtts_ns: Vec<f64>,
    /// Means of round trips in parts of the time, in nanoseconds.
    pub rtt_part_means_ns: Vec<f64>,
    /// Standard deviations of round trips within these parts, in nanoseconds.
    #[serde(default)]
    pub rtt_part_sds_ns: Vec<f64>,
    /// The strip of time.
    pub strip: Vec<StripPart>,
    /// Seconds in each of its parts.
    pub strip_seconds: u64,
}

impl LineDocument {
    /// Its schema.
    pub const SCHEMA: &'static str = "farline/line/1";

    /// Reads a document.
    ///
    /// # Errors
    /// [`Fault::You`](crate::units::Fault::You) when it is none.
    pub fn read(json: &str) -> Result<LineDocument, Error> {
        read(json, "line test", LineDocument::SCHEMA, |document: &LineDocument| &document.schema)
    }
}

impl LineDocument {
    /// The part of the seconds that count in which something came.
    pub fn availability(&self) -> f64 {
        1.0 - self.sums.dark as f64 / self.sums.tested.max(1) as f64
    }

    /// A figure by the name that presets have for it.
    pub fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "rtt_mean_ms" => Some(self.rtt?.mean_ns / 1e6),
            "rtt_sd_percent" => self.rtt.map(|rtt| rtt.sd_ns / rtt.mean_ns * 100.0),
            "one_way_mean_ms" => Some(self.one_way_delay?.mean_ns / 1e6),
            "lost" => Some(self.sums.lost as f64),
            _ => None,
        }
    }
}

impl LineTest {
    /// A test of `settings` that begins.
    pub fn new(settings: LineSettings, is_one_clock: bool) -> LineTest {
        LineTest {
            settings,
            begun: None,
            sums: LineSums::default(),
            totals: TallyTotals::default(),
            losses: PeerLossSequence::default(),
            settled: SettledFrames::default(),
            has_tested_runs: false,
            sender: SenderTotals::default(),
            delay: PathDelay::new(is_one_clock),
            clock_states: None,
            kernel_times: KernelTimes::default(),
            restarts: 0,
            refused_answers: RefusedAnswers::default(),
            link_late: 0,
            link_account: None,
            broken_off: None,
            unsettled: UnsettledDelays::default(),
            decided: None,
            earlier: TallyTotals::default(),
            strip: Vec::new(),
            strip_seconds: 1,
            sent: BTreeMap::new(),
            rows: BTreeMap::new(),
            next: 0,
        }
    }

    /// The first second that nothing is said of yet.
    pub fn next_second(&self) -> u64 {
        self.next
    }

    /// What was sent in a second that is over.
    pub fn note_sent(&mut self, sent: SentSecond) {
        self.sent.insert(sent.second, sent);
    }

    /// What came of a second so far.
    pub fn note_row(&mut self, row: SecondRow) {
        if row.second >= self.next {
            self.rows.insert(row.second, row);
        }
    }

    /// The other end has dropped packets since a frame of the second `since` came: of those up to
    /// `until` of which nothing came it knows nothing.
    pub fn note_dropping(&mut self, since: u64, until: u64) {
        for second in since.max(self.next)..=until {
            let nothing = SecondRow { second, ..SecondRow::default() };
            self.rows.entry(second).or_insert(nothing).has_own_drops = true;
        }
    }

    /// Which frames count, for the other end.
    pub fn settled_frames(&self) -> SettledFrames {
        self.settled.question()
    }

    /// The other end knows it of the frames below `below`; returns whether it knows all that is
    /// settled.
    pub fn note_settled_there(&mut self, below: u64) -> bool {
        self.settled.note_known(below);
        self.has_tested_runs |= below > 0;
        below >= self.settled.below
    }

    /// Everything that came in this life of the other end.
    pub fn note_totals(&mut self, current: &TallyTotals) {
        self.totals = self.earlier.followed_by(current);
    }

    /// The latest losses in this life of the other end, of which the first of `entries` has the
    /// number `first`.
    pub fn note_losses(&mut self, first: u64, entries: &[LossEntry]) {
        self.losses.record(first, entries);
    }

    /// Whether the other end has forgotten what it had told.
    pub fn is_forgotten(&self, current: &TallyTotals) -> bool {
        self.earlier.received.saturating_add(current.received) < self.totals.received
    }

    /// The other end begins a new account.
    pub fn note_restart(&mut self) {
        self.restarts += 1;
        self.earlier = self.totals.clone();
        self.losses.note_restart();
    }

    /// A round trip in `second`.
    pub fn note_rtt(&mut self, second: u64, rtt: Span) {
        let part = self.part(second);
        part.rtts += 1;
        part.rtt_ns += (rtt.as_nanos() as f64 - part.rtt_ns) / part.rtts as f64;
    }

    /// A packet that was sent in `second` came back; it counts with that second.
    pub fn note_delay(&mut self, second: u64, sample: DelaySample) {
        self.unsettled.add(second, sample);
    }

    /// The emulated link was late in `second`, by its own account: the delays of that second are
    /// this host's.
    pub fn note_link_late(&mut self, second: u64) {
        if second >= self.next {
            self.unsettled.note_late(second);
        }
    }

    fn take_delays(&mut self, second: u64, samples: Vec<DelaySample>) {
        for sample in samples {
            if let Some(rtt) = self.delay.add(&sample) {
                self.note_rtt(second, rtt);
            }
        }
    }

    /// Where the link was never in time, late delays are all that there is.
    fn without_better(&mut self, second: u64) {
        let aside = self.unsettled.take_aside();
        if self.delay.seen == 0 {
            self.take_delays(second, aside);
        }
    }

    /// Nothing more comes of the seconds before `end`: they are counted, and returned. Of a second
    /// without a row, nothing came.
    pub fn settle(&mut self, end: u64) -> Vec<TestedSecond> {
        let settled = (self.next..end).map(|second| self.settle_one(second, false)).collect();
        self.decided = Some(self.decision()).filter(|decision| *decision != RatioDecision::Open);
        settled
    }

    /// The same of all seconds in which anything was sent.
    pub fn settle_sent(&mut self) -> Vec<TestedSecond> {
        let end = self.sent.last_key_value().map_or(self.next, |(second, _)| second + 1);
        let settled = self.settle(end);
        self.without_better(end.saturating_sub(1));
        settled
    }

    /// An end was not there in the seconds before `end`.
    pub fn away(&mut self, end: u64) -> Vec<TestedSecond> {
        let settled = (self.next..end).map(|second| self.settle_one(second, true)).collect();
        self.without_better(end.saturating_sub(1));
        settled
    }

    fn settle_one(&mut self, second: u64, is_away: bool) -> TestedSecond {
        self.next = second + 1;
        match self.unsettled.settle(second) {
            Some(samples) => self.take_delays(second, samples),
            None => self.link_late += 1,
        }
        let sent = self.sent.remove(&second);
        let row = self.rows.remove(&second).unwrap_or_default();
        let untested = match sent {
            _ if is_away => Some(Untested::Away),
            None => Some(Untested::Away),
            Some(sent) if sent.own_drops > 0 => Some(Untested::SenderDrops),
            Some(sent) if !row.can_be_of(&sent) => Some(Untested::ImpossibleCounts),
            Some(_) if row.has_own_drops => Some(Untested::ReceiverDrops),
            Some(sent) if sent.is_short => Some(Untested::SenderLate),
            Some(_) => None,
        };
        let sent = sent.unwrap_or_default();
        // Numbers before its first are of seconds of which nothing is known.
        self.settled.settle(sent.next.saturating_sub(sent.frames), false);
        self.settled.settle(sent.next, untested.is_none());
        let tested = TestedSecond {
            second,
            sent: sent.frames,
            lost: sent.frames.saturating_sub(row.received),
            wrong_frames: row.wrong_frames,
            wrong_bits: row.wrong_bits,
            untested,
        };
        let sums = &mut self.sums;
        match untested {
            Some(Untested::SenderLate) => sums.sender_late += 1,
            Some(Untested::SenderDrops) => sums.sender_drops += 1,
            Some(Untested::ReceiverDrops) => sums.receiver_drops += 1,
            Some(Untested::Away) => sums.away += 1,
            Some(Untested::ImpossibleCounts) => sums.impossible_counts += 1,
            None => {
                sums.tested += 1;
                sums.dark += u64::from(sent.frames > 0 && row.received == 0);
                sums.errored += u64::from(tested.lost + row.wrong_frames > 0);
                sums.sent += sent.frames;
                sums.framed_bits += sent.framed_bits;
                sums.lost += tested.lost;
                sums.wrong_frames += row.wrong_frames;
                sums.wrong_bits += row.wrong_bits;
                sums.compared_bits += row.compared_bits;
                sums.duplicates += row.duplicates;
                sums.reordered += row.reordered;
            }
        }
        let part = self.part(second);
        if untested.is_some() {
            part.untested += 1;
        } else {
            part.sent += tested.sent;
            part.lost += tested.lost;
            part.wrong_frames += tested.wrong_frames;
        }
        tested
    }

    /// The part of the strip that `second` is in.
    fn part(&mut self, second: u64) -> &mut StripPart {
        while second / self.strip_seconds >= STRIP as u64 {
            self.strip_seconds *= 2;
            self.strip = self.strip.chunks(2).map(StripPart::joined).collect();
        }
        let at = (second / self.strip_seconds) as usize;
        if self.strip.len() <= at {
            self.strip.resize(at + 1, StripPart::default());
        }
        &mut self.strip[at]
    }

    /// The document of what was found until now.
    pub fn document(&self, farline: &str, date: &str) -> LineDocument {
        let (sums, confidence) = (&self.sums, self.settings.confidence);
        let one_way = self.delay.one_way();
        let parts = self.next.div_ceil(self.strip_seconds) as usize;
        let (outcome, verdict) = self.verdict();
        LineDocument {
            schema: LineDocument::SCHEMA.to_owned(),
            farline: farline.to_owned(),
            begun: self.begun.map(Time::utc),
            date: date.to_owned(),
            settings: self.settings.clone(),
            outcome,
            verdict,
            sums: *sums,
            loss: self.loss(),
            payload_bit_errors: Ratio::of(sums.wrong_frames, sums.compared_bits as f64, confidence),
            bit_errors: Ratio::of(
                sums.lost + sums.wrong_frames,
                sums.framed_bits as f64,
                confidence,
            ),
            gilbert: self.totals.runs.counts.fit(),
            gilbert_elliott: GilbertElliott::fit(self.losses.entries()),
            totals: self.totals.clone(),
            has_tested_runs: self.has_tested_runs,
            restarts: self.restarts,
            broken_off: self.broken_off.clone(),
            sender: self.sender,
            rtt: self.delay.rtt(),
            one_way_delay: one_way.map(|(there, _)| there),
            one_way_delay_back: one_way.map(|(_, back)| back),
            clocks: self.delay.clocks(),
            clock_states: self.clock_states,
            kernel_times: self.kernel_times,
            delay_variation_ns: self.delay.variation_ns(),
            clock_steps: self.delay.clock_steps,
            impossible_times: self.delay.impossible,
            refused_answers: self.refused_answers,
            link_late: self.link_late,
            link_account: self.link_account,
            delays_ns: self.delay.kept_delays(),
            rtts_ns: self.delay.kept_rtts(),
            rtt_part_means_ns: self.delay.part_means(),
            rtt_part_sds_ns: self.delay.part_sds(),
            // Answers that came behind the last second have parts of their own.
            strip: self.strip[..parts.min(self.strip.len())].to_vec(),
            strip_seconds: self.strip_seconds,
        }
    }
}

impl LineSettings {
    /// How long the test takes at best; `None` where nothing is to be decided.
    pub fn at_best(&self) -> Option<Span> {
        LineTest::new(self.clone(), true).left()
    }
}
