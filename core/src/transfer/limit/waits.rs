//! Where the time of a transfer's channels went at one end, and which account is the largest.

use super::{Diagnosis, Limit, Party, PathTimes};
use crate::units::{Bytes, Rate, Setting, Span};

/// From here on the threads of a stage that run, or wait for a processor to run on, for this part
/// of the time in which they have work are what others wait for.
const BUSY: f64 = 0.75;

/// A shorter round trip is within one host, between two programs: there is no path that could be
/// full, and the one whose threads are busy for less than this part of their time waits for the
/// other.
const WITHIN_HOST: Span = Span::from_micros(30);
const WAITS: f64 = 0.5;

/// What a source is read from, or a sink written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMedium {
    /// Files: whoever waits for them waits for a disk, unless the threads that serve it are busy.
    #[default]
    Disk,
    /// A program at the other end of a pipe.
    Pipe,
    /// This host's memory: whoever waits for it waits for a processor.
    Memory,
}

impl StoreMedium {
    /// What limits where channels wait for a source.
    const fn read(self) -> Limit {
        match self {
            StoreMedium::Disk => Limit::DiskRead,
            StoreMedium::Pipe => Limit::PipeRead,
            StoreMedium::Memory => Limit::Cpu,
        }
    }

    /// What limits where channels wait for a sink.
    const fn written(self) -> Limit {
        match self {
            StoreMedium::Disk => Limit::DiskWrite,
            StoreMedium::Pipe => Limit::PipeWrite,
            StoreMedium::Memory => Limit::Cpu,
        }
    }
}

/// How busy the threads of a stage were, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTime {
    /// Time in which they ran, or could have and had no processor.
    pub busy: Span,
    /// Time in which they had work.
    pub active: Span,
}

impl StageTime {
    /// The one as a part of the other, 0 to 1.
    pub fn share(self) -> f64 {
        self.busy.as_secs_f64() / self.active.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Both, one after the other.
    #[must_use]
    pub fn and(self, next: StageTime) -> StageTime {
        StageTime { busy: self.busy + next.busy, active: self.active + next.active }
    }
}

/// How busy the threads of each stage were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Those that read the source.
    pub reading: StageTime,
    /// Those that serve channels.
    pub channels: StageTime,
    /// Those that write to the store.
    pub writing: StageTime,
}

impl StageTimes {
    /// Both, one after the other.
    #[must_use]
    pub fn and(self, next: StageTimes) -> StageTimes {
        StageTimes {
            reading: self.reading.and(next.reading),
            channels: self.channels.and(next.channels),
            writing: self.writing.and(next.writing),
        }
    }
}

/// Where a transfer's time went, summed over its channels, and what was fixed of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// Time in which bytes moved, by the wall clock.
    pub moving: Span,
    /// Time before the first byte and after the last, by the wall clock.
    pub setting_up: Span,
    /// Time between attempts, by the wall clock.
    pub waited: Span,
    /// Part of it that was for the other end, which was full or had failed.
    pub waited_there: Span,
    /// Channels that were open.
    pub channels: u32,
    /// Time channels waited for a slot with data (sending) or for a free slot (receiving).
    pub store: Span,
    /// Time channels waited for their turn at the rate that was asked for.
    pub pace: Span,
    /// Time channels spent inside the kernel sending or waiting for bytes.
    pub network: Span,
    /// How busy threads were.
    pub busy: StageTimes,
    /// Whether channels are TCP connections, of which the kernel tells, or others whose path was
    /// seen.
    pub has_path: bool,
    /// Segments sent again.
    pub retransmits: u64,
    /// What network time went to, where this end sends.
    pub path: PathTimes,
    /// The path's round trip.
    pub rtt: Span,
    /// Payload that this end moved.
    pub bytes: Bytes,
    /// The socket buffers that the user asked for.
    pub buffer: Option<Bytes>,
    /// The largest window that this host lets one channel have.
    pub window_limit: Bytes,
    /// What this end's source is, and its sink.
    pub media: (StoreMedium, StoreMedium),
}

/// A path was full when it was so for this many round trips: in the first a queue may have come of
/// a burst.
const FILLED_TRIPS: f64 = 2.0;

impl Waits {
    /// Adds the accounts of another transfer: of its channels, its threads and its path.
    pub fn add(&mut self, next: &Waits) {
        self.store = self.store + next.store;
        self.pace = self.pace + next.pace;
        self.network = self.network + next.network;
        self.busy = self.busy.and(next.busy);
        self.path = self.path.and(next.path);
        self.retransmits += next.retransmits;
    }

    /// Whether it was the path that held back what this end sent: only then its rate is the path's.
    pub fn is_held_by_path(&self) -> bool {
        let waits = Waits { has_path: true, channels: self.channels.max(1), ..self.clone() };
        self.path.total() > Span::ZERO
            && matches!(waits.sender_limit().limit, Limit::PathRate | Limit::Loss)
    }

    /// Whether what this end sent filled its path for long enough to say how much that takes: a
    /// copy that ended while its windows grew has seen a part of it.
    pub fn has_filled_path(&self) -> bool {
        let PathTimes { full, min_rtt, .. } = self.path;
        full > Span::ZERO && full >= min_rtt.mul_f64(FILLED_TRIPS)
    }

    /// What limited the sending end.
    pub fn sender_limit(&self) -> Diagnosis {
        self.outside_network(self.media.0.read(), self.busy.reading)
            .unwrap_or_else(|| self.sender_network())
    }

    /// What limited the receiving end.
    pub fn receiver_limit(&self) -> Diagnosis {
        self.outside_network(self.media.1.written(), self.busy.writing).unwrap_or_else(
            || match self.is_busy(self.busy.channels) {
                true => self.named(Limit::Cpu),
                false => self.named(Limit::Network),
            },
        )
    }

    /// What limited a copy between two other hosts where it took longer to be set up, or to wait,
    /// than data moved; of its moving these know ([`Diagnosis::between`]).
    pub fn between_others(&self) -> Option<Diagnosis> {
        match self.setting_up.max(self.waited) > self.moving {
            true if self.setting_up > self.waited => Some(self.named(Limit::SetUp)),
            true => Some(self.named(Limit::Outage)),
            false => None,
        }
    }

    /// What limited a copy within one host, whose threads read (`store`) and write (`network`) in
    /// turns.
    pub fn local_limit(&self) -> Diagnosis {
        let writing = self.network;
        let (source, sink) = (self.media.0.read(), self.media.1.written());
        let accounts = [
            (Limit::SetUp, self.of_all_channels(self.setting_up)),
            (Limit::RateLimit, self.pace.as_secs_f64()),
            (source, self.store.as_secs_f64()),
            (sink, writing.as_secs_f64()),
        ];
        let largest = accounts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|account| account.0);
        match largest {
            Some(limit @ (Limit::SetUp | Limit::RateLimit)) => self.named(limit),
            _ if self.is_busy(self.busy.channels) => self.named(Limit::Cpu),
            Some(limit) if limit == sink => Waits { store: writing, ..self.clone() }.named(limit),
            Some(limit) => self.named(limit),
            None => Diagnosis::unknown(),
        }
    }

    /// The largest account of channel time but the network's, unless that is larger. Waiting for
    /// the `store` is waiting for a processor where the threads of `stage` have none to spare; a
    /// pipe waits for the program behind it.
    fn outside_network(&self, store: Limit, stage: StageTime) -> Option<Diagnosis> {
        let is_disk = matches!(store, Limit::DiskRead | Limit::DiskWrite);
        let store = if is_disk && stage.share() >= BUSY { Limit::Cpu } else { store };
        // Who waits for a turn in an outage waits for its end.
        let most = match self.path.silent {
            Span::ZERO => f64::INFINITY,
            silent => self.of_all_channels(self.moving.saturating_sub(silent)),
        };
        let accounts = [
            (Limit::SetUp, self.of_all_channels(self.setting_up)),
            (Limit::RateLimit, self.pace.as_secs_f64().min(most)),
            (store, self.store.as_secs_f64().min(most)),
            (Limit::Outage, self.of_all_channels(self.outage())),
        ];
        let (limit, time) = accounts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let network = match limit {
            Limit::SetUp => self.on_its_way(),
            // Where the network's time is known by its causes, by the largest of them: what comes
            // after an outage, when each channel waits for its timer, is none of these.
            Limit::Outage if self.path.total() > Span::ZERO => {
                let cause = self.of_path().into_iter().map(|(_, span)| span).max();
                let network = self.network.as_secs_f64().min(most);
                cause.map_or(network, |cause| network.min(self.of_all_channels(cause)))
            }
            _ => self.network.as_secs_f64().min(most),
        };
        (time > network).then(|| self.named(limit))
    }

    /// Time in which nothing got through, or was tried.
    pub fn outage(&self) -> Span {
        self.path.silent + self.waited
    }

    /// Time in which bytes moved and channels waited for nothing of this host: what has left it
    /// waits in no thread. But for the round trip that one byte takes too, until it is heard of.
    fn on_its_way(&self) -> f64 {
        let waited = self.store.as_secs_f64() + self.pace.as_secs_f64();
        let moving = self.moving.saturating_sub(self.round_trip());
        self.network.as_secs_f64().max(self.of_all_channels(moving) - waited)
    }

    /// The path's round trip: the least that was seen, where the kernel tells.
    fn round_trip(&self) -> Span {
        if self.path.min_rtt > Span::ZERO { self.path.min_rtt } else { self.rtt }
    }

    /// Whether the threads of `stage` had no time to spare, for as long as it takes to be what a
    /// copy waits for: of a few kilobytes they have no work but to hand them on.
    fn is_busy(&self, stage: StageTime) -> bool {
        stage.share() >= BUSY && stage.busy >= self.moving.mul_f64(0.5)
    }

    fn sender_network(&self) -> Diagnosis {
        if self.is_busy(self.busy.channels) {
            return self.named(Limit::Cpu);
        }
        if !self.has_path {
            // What carries it does not say.
            return self.named(Limit::Network);
        }
        let min_rtt = self.path.min_rtt;
        if self.buffer.is_none() && min_rtt > Span::ZERO && min_rtt < WITHIN_HOST {
            let is_busy = self.busy.channels.share() >= WAITS;
            return self.named(if is_busy { Limit::Cpu } else { Limit::Peer });
        }
        if self.path.total() == Span::ZERO {
            // Over before the second look at it.
            let grew = self.retransmits == 0;
            return self.named(if grew { Limit::SlowStart } else { Limit::Loss });
        }
        let largest = self.of_path().into_iter().max_by_key(|&(_, span)| span);
        self.named(largest.map_or(Limit::Network, |(limit, _)| limit))
    }

    /// What the network's time went to, by cause.
    fn of_path(&self) -> [(Limit, Span); 5] {
        let PathTimes { growing, window, buffer, lossy, full, .. } = self.path;
        [
            (Limit::SlowStart, growing),
            (Limit::ReceiverWindow, window),
            (Limit::SendBuffer, buffer),
            (Limit::Loss, lossy),
            (Limit::PathRate, full),
        ]
    }

    /// All of the time.
    fn whole(&self) -> Span {
        self.moving + self.setting_up + self.waited
    }

    fn of_all_channels(&self, span: Span) -> f64 {
        span.as_secs_f64() * f64::from(self.channels.max(1))
    }

    /// The limit, with who can change it and what was measured.
    fn named(&self, limit: Limit) -> Diagnosis {
        let share = |span: Span| {
            let all = self.of_all_channels(self.whole());
            100.0 * (span.as_secs_f64() / all.max(f64::MIN_POSITIVE)).min(1.0)
        };
        let of_path = |span: Span| {
            let all = self.path.total().as_secs_f64().max(f64::MIN_POSITIVE);
            100.0 * (span.as_secs_f64() / all)
        };
        let rate = Rate::of(self.bytes, self.moving);
        let rtt = self.round_trip();
        let window = self.buffer.unwrap_or(self.window_limit);
        let window_of = |what: &str| match (self.buffer, window.0) {
            (Some(buffer), _) => format!("{} {buffer} ", Setting::Buffer),
            (None, 0) => String::new(),
            (None, _) => format!("{what} allows {window} "),
        };
        let (party, evidence) = match limit {
            Limit::RateLimit => (
                Party::You,
                format!("channels waited for their turn {:.0} % of the time", share(self.pace)),
            ),
            Limit::SendBuffer | Limit::ReceiverWindow => {
                let (span, what) = match limit {
                    Limit::SendBuffer => (self.path.buffer, "net.ipv4.tcp_wmem"),
                    _ => (self.path.window, "net.ipv4.tcp_rmem there"),
                };
                let party = match (limit, self.buffer) {
                    (_, Some(_)) => Party::You,
                    (Limit::SendBuffer, None) => Party::Here,
                    _ => Party::There,
                };
                let known = match (limit, self.buffer) {
                    (Limit::ReceiverWindow, None) => String::new(),
                    _ => format!("{}at a round trip of {rtt}; ", window_of(what)),
                };
                (party, format!("{known}full {:.0} % of the time", of_path(span)))
            }
            Limit::SetUp => (Party::Path, format!("{} of {}", self.setting_up, self.whole())),
            Limit::Outage => {
                let is_there = self.waited_there > self.outage().mul_f64(0.5);
                let party = if is_there { Party::There } else { Party::Path };
                let tried = match self.waited {
                    Span::ZERO => String::new(),
                    waited => format!(", {waited} of it between attempts"),
                };
                (party, format!("{} of {}{tried}", self.outage(), self.whole()))
            }
            Limit::Loss => (
                Party::Path,
                format!(
                    "{} segments sent again without a queue, {rate} over {} channel{} at a round \
                     trip of {rtt}",
                    self.path.lost.max(self.retransmits.saturating_sub(self.path.overflowed)),
                    self.channels,
                    if self.channels == 1 { "" } else { "s" },
                ),
            ),
            Limit::PathRate if self.path.queue > Span::ZERO => {
                let rate = self.path.full_rate();
                (Party::Path, format!("{rate}, with a queue of up to {}", self.path.queue))
            }
            Limit::PathRate => (Party::Path, format!("{} without a queue", self.path.full_rate())),
            Limit::SlowStart if self.path.total() == Span::ZERO => {
                (Party::Path, format!("over before a second look at it, {rate}"))
            }
            Limit::SlowStart => (
                Party::Path,
                format!("the window grew for {:.0} % of the time", of_path(self.path.growing)),
            ),
            Limit::Network => (Party::Path, format!("{rate}")),
            Limit::Cpu => {
                let StageTimes { reading, channels, writing } = self.busy;
                let stages = [("reading", reading), ("moving", channels), ("writing", writing)];
                let shares: Vec<String> = stages
                    .into_iter()
                    .filter(|(_, stage)| stage.active > Span::ZERO)
                    .map(|(name, stage)| format!("{name} {:.0} %", 100.0 * stage.share()))
                    .collect();
                let shares = shares.join(", ");
                (
                    Party::Here,
                    format!("of the time with work, on a processor or waiting for one: {shares}"),
                )
            }
            Limit::DiskRead | Limit::DiskWrite | Limit::PipeRead | Limit::PipeWrite => (
                Party::Here,
                format!("channels waited for it {:.0} % of the time", share(self.store)),
            ),
            Limit::Peer => {
                let busy = 100.0 * self.busy.channels.share();
                let evidence = format!(
                    "within one host, where no path is full, this end was busy {busy:.0} % of the \
                     time and waited for the other"
                );
                (Party::There, evidence)
            }
        };
        Diagnosis { limit, party, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits() -> Waits {
        Waits {
            moving: Span::from_secs(10),
            channels: 4,
            network: Span::from_secs(36),
            has_path: true,
            bytes: Bytes(1 << 30),
            path: PathTimes { full: Span::from_secs(9), ..PathTimes::default() },
            ..Waits::default()
        }
    }

    #[test]
    fn names_the_largest_account() {
        let sender = |waits: Waits| waits.sender_limit().limit;
        assert_eq!(sender(waits()), Limit::PathRate);
        let (most, little) = (Span::from_secs(30), Span::from_secs(6));
        assert_eq!(sender(Waits { store: most, network: little, ..waits() }), Limit::DiskRead);
        let pipe = Waits {
            store: most,
            network: little,
            media: (StoreMedium::Pipe, StoreMedium::Pipe),
            ..waits()
        };
        assert_eq!(
            (sender(pipe.clone()), pipe.receiver_limit().limit),
            (Limit::PipeRead, Limit::PipeWrite)
        );
        // Its threads need not be seen busy: there is nothing else that it could wait for.
        let memory = Waits { media: (StoreMedium::Memory, StoreMedium::Memory), ..pipe };
        let limits = [memory.sender_limit(), memory.receiver_limit(), memory.local_limit()];
        assert_eq!(limits.map(|said| said.limit), [Limit::Cpu; 3]);
        assert_eq!(sender(Waits { pace: most, network: little, ..waits() }), Limit::RateLimit);
        let path = PathTimes { window: most, ..waits().path };
        assert_eq!(sender(Waits { path, ..waits() }), Limit::ReceiverWindow);
        let path = PathTimes { buffer: most, ..waits().path };
        assert_eq!(sender(Waits { path, ..waits() }), Limit::SendBuffer);
        let channels = StageTime { busy: Span::from_secs(38), active: Span::from_secs(40) };
        let hot = StageTimes { channels, ..StageTimes::default() };
        assert_eq!(sender(Waits { busy: hot, ..waits() }), Limit::Cpu);
        let short = Waits {
            moving: Span::from_millis(10),
            setting_up: Span::from_millis(600),
            network: Span::from_millis(40),
            ..waits()
        };
        assert_eq!(sender(short.clone()), Limit::SetUp);
        // Socket buffers took all at once, and it was on its way for longer than it was set up.
        let path = PathTimes { growing: Span::from_millis(500), ..PathTimes::default() };
        let buffered = Waits { moving: Span::from_millis(700), path, ..short };
        assert_eq!(sender(buffered), Limit::SlowStart);
    }

    #[test]
    fn a_few_kilobytes_over_a_long_path_are_round_trips() {
        // Two to set up, and two until the node's last word on what one packet had.
        let busy = StageTime { busy: Span::from_micros(80), active: Span::from_micros(80) };
        let few = Waits {
            setting_up: Span::from_millis(320),
            moving: Span::from_millis(325),
            network: Span::from_micros(40),
            channels: 1,
            busy: StageTimes { reading: busy, channels: busy, ..StageTimes::default() },
            rtt: Span::from_millis(160),
            bytes: Bytes(4_000),
            path: PathTimes::default(),
            ..waits()
        };
        let said = few.sender_limit();
        assert_eq!((said.limit, said.party), (Limit::SetUp, Party::Path));
        // Nor is a processor what more of it waited for.
        let longer = Waits { moving: Span::from_millis(900), ..few };
        assert_eq!(longer.sender_limit().limit, Limit::SlowStart);
    }

    #[test]
    fn who_waits_for_a_turn_in_an_outage_waits_for_its_end() {
        let path = PathTimes { silent: Span::from_secs(7), ..waits().path };
        let paced = Waits { pace: Span::from_secs(35), path, ..waits() };
        let said = paced.sender_limit();
        assert_eq!((said.limit, said.party), (Limit::Outage, Party::Path));
        assert_eq!(said.evidence, "7.00 s of 10.0 s");
        let limits = |waited| {
            let waited = Span::from_secs(waited);
            let waits = Waits { waited, waited_there: waited, ..waits() };
            [waits.sender_limit(), waits.receiver_limit()].map(|said| (said.limit, said.party))
        };
        assert_eq!(limits(30), [(Limit::Outage, Party::There); 2]);
        assert_eq!(limits(3).map(|said| said.0), [Limit::PathRate, Limit::Network]);
    }

    #[test]
    fn what_follows_an_outage_is_no_word_on_the_path() {
        // Of ten seconds the data took three; then each of four channels waited for its timer.
        let path = PathTimes {
            full: Span::from_secs(3),
            silent: Span::from_secs(4),
            ..PathTimes::default()
        };
        let network = Span::from_secs(4 * 10);
        let away = Waits { channels: 4, moving: Span::from_secs(10), network, path, ..waits() };
        assert_eq!(away.sender_limit().limit, Limit::Outage);
        let longer = PathTimes { full: Span::from_secs(5), ..path };
        assert_eq!(Waits { path: longer, ..away }.sender_limit().limit, Limit::PathRate);
    }

    #[test]
    fn what_two_others_say_counts_while_they_moved_data() {
        let (short, long) = (Span::from_secs(2), Span::from_secs(9));
        let limit = |moving, setting_up, waited| {
            let waits = Waits { moving, setting_up, waited, ..waits() };
            waits.between_others().map(|said| said.limit)
        };
        assert_eq!(limit(long, short, short), None);
        assert_eq!(limit(short, long, Span::ZERO), Some(Limit::SetUp));
        assert_eq!(limit(short, short, long), Some(Limit::Outage));
    }

    #[test]
    fn only_a_path_that_was_full_or_lost_says_what_it_has() {
        assert!(waits().is_held_by_path());
        let (most, little) = (Span::from_secs(30), Span::from_secs(6));
        for other in [
            Waits { store: most, network: little, ..waits() },
            Waits { pace: most, network: little, ..waits() },
            Waits { path: PathTimes { window: most, ..waits().path }, ..waits() },
            Waits { path: PathTimes::default(), ..waits() },
        ] {
            assert!(!other.is_held_by_path(), "{other:?}");
        }
    }

    #[test]
    fn within_a_host_a_processor_is_slow_and_no_path() {
        let sender = |busy_s, rtt| {
            let channels = StageTime { busy: Span::from_secs(busy_s), active: Span::from_secs(40) };
            let busy = StageTimes { channels, ..StageTimes::default() };
            let path = PathTimes { min_rtt: Span::from_micros(rtt), ..waits().path };
            Waits { busy, path, ..waits() }.sender_limit()
        };
        let named = |said: Diagnosis| (said.limit, said.party);
        assert_eq!(named(sender(25, 3)), (Limit::Cpu, Party::Here));
        assert_eq!(named(sender(12, 3)), (Limit::Peer, Party::There));
        assert_eq!(named(sender(12, 100)), (Limit::PathRate, Party::Path), "a rack");
    }

    #[test]
    fn the_window_account_is_split_as_the_path_was_seen() {
        let sender = |path: PathTimes| Waits { path, ..waits() }.sender_limit().limit;
        let (most, little) = (Span::from_secs(8), Span::from_secs(1));
        let growing = PathTimes { growing: most, full: little, ..PathTimes::default() };
        assert_eq!(sender(growing), Limit::SlowStart);
        let lossy = PathTimes { lossy: most, full: little, ..PathTimes::default() };
        assert_eq!(sender(lossy), Limit::Loss);
        assert_eq!(sender(PathTimes::default()), Limit::SlowStart, "too short to be looked at");
    }

    #[test]
    fn a_receiver_that_waits_for_bytes_leaves_it_to_the_sender() {
        assert_eq!(waits().receiver_limit().limit, Limit::Network);
        let slow = Waits { store: Span::from_secs(38), network: Span::from_secs(2), ..waits() };
        assert_eq!(slow.receiver_limit().limit, Limit::DiskWrite);
    }

    #[test]
    fn a_path_is_full_that_was_so_for_two_round_trips() {
        let ms = Span::from_millis;
        for (growing, full, fills) in [(3_000, 0, false), (1, 199, false), (3_000, 200, true)] {
            let path = PathTimes {
                growing: ms(growing),
                full: ms(full),
                min_rtt: ms(100),
                ..PathTimes::default()
            };
            let waits = Waits { path, ..Waits::default() };
            assert_eq!(waits.has_filled_path(), fills, "{full} ms of {growing}");
        }
    }
}
