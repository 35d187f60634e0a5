//! A test from its first question to its verdict.

use super::connected::Connected;
use super::host::{TestClock, boot, clock_state, kernel_clock, now, random, steady};
use super::link_watch::LinkWatch;
use super::peer_protocol::{PeerProtocol, Received, strange};
use super::receive_watch::ReceiveWatch;
use super::sender::LoadSender;
use farline_core::line::{
    ClockState, LineAnswer, LineRequest, LineSettings, LineState, LineTest, RatioDecision,
    ReceiveDrops, SenderTotals, SentSecond, TestedSecond,
};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Span, Time};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

const SECOND: u64 = 1_000_000_000;
/// Between two STAMP packets.
const DELAY_EVERY: u64 = 10_000_000;
/// Between two questions for rows.
const ROWS_EVERY: u64 = 250_000_000;
/// Between two questions for everything.
const TOTALS_EVERY: u64 = SECOND;
/// So long after its end, and a round trip, nothing more comes of a second.
const GRACE: u64 = 500_000_000;
/// Pages of losses that are asked for at the end; what is kept has fewer.
const LOSS_PAGES: usize = 64;
/// Pages of frames that count or not, which are told at the end.
const SETTLED_PAGES: usize = 32;
/// How long the other end may be silent at the begin, meanwhile, and when all is sent.
const FIRST_TIMEOUT: Span = Span::from_secs(5);
pub(super) const TIMEOUT: Span = Span::from_secs(60);
const LAST_TIMEOUT: Span = Span::from_secs(10);
/// After so long the user is told.
pub(super) const SILENT: Span = Span::from_secs(3);

/// What a test is to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LineRequestOptions {
    /// What is sent, and what it is held against.
    pub settings: LineSettings,
    /// Ends the test when it is set.
    pub stop: Arc<AtomicBool>,
    /// A test that goes on; its settings are then those above.
    pub resume: Option<LineState>,
    /// Where a far end takes granted tests alone, what it granted.
    pub granted: Option<LineGrant>,
    /// The emulated link that the line is, which says itself when it was late.
    pub link: Option<String>,
}

/// A test that a far end let begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineGrant {
    /// The test's number.
    pub session: u64,
    /// Where the far end is, whatever `settings.target` calls it.
    pub address: SocketAddr,
}

impl LineRequestOptions {
    /// A test of these settings, which nothing ends early.
    pub fn new(settings: LineSettings) -> LineRequestOptions {
        let stop = Arc::default();
        LineRequestOptions { settings, stop, resume: None, granted: None, link: None }
    }
}

/// Where a test stands, once a second.
#[non_exhaustive]
pub struct LineProgress<'a> {
    /// The test.
    pub test: &'a LineTest,
    /// Seconds of which something is known since the last time.
    pub news: &'a [TestedSecond],
    /// What another process would go on from.
    pub state: &'a dyn Fn() -> LineState,
    /// How long the other end has said nothing, where that is long.
    pub silence: Option<Span>,
}

/// Tests the line to `settings.target`, a host with a reflector, `HOST` or `HOST:PORT`.
///
/// A test that began ends with what is known: where the other end is gone, or this host cannot go
/// on, [`LineTest::broken_off`] says so, and the seconds since are untested.
///
/// # Errors
/// When the other end does not answer, or refuses; when this host cannot send.
pub fn run(
    options: &LineRequestOptions,
    mut progress: impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
) -> Result<LineTest, Error> {
    let settings = &options.settings;
    if let Some(over) = options.resume.as_ref().and_then(over) {
        return Ok(over);
    }
    let granted = options.granted;
    let target = granted.map_or(settings.target.clone(), |granted| granted.address.to_string());
    let Connected { socket, receiver, drops, mut watch } = Connected::to(&target, settings)?;
    let socket = Arc::new(socket);
    let clock_state = clock_state();
    let begins_at = now(clock_state).time;
    let session = granted.map(|granted| granted.session);
    let session = session.or(options.resume.as_ref().map(|state| state.session));
    let session = session.unwrap_or_else(random);
    let begun = options.resume.as_ref().map_or(begins_at, |state| state.begun);
    let before = options.resume.as_ref().map_or(Span::ZERO, |state| state.since_begin(begins_at));
    let first_frame = options.resume.as_ref().map_or(0, |state| state.frames_from(begins_at));
    let clock = TestClock::start(before);
    let rate =
        Rate::from_bps((settings.rate.as_bps() as f64 * settings.load_percent / 100.0) as u64);
    // Without a pace, no limit would hold.
    let rate = if settings.rate.as_bps() == 0 { Rate::from_bps(u64::MAX) } else { rate };
    let mut peer = PeerProtocol::new(
        Arc::clone(&socket),
        receiver,
        target,
        clock_state,
        Arc::clone(&options.stop),
    );
    let at_us = if options.resume.is_some() { clock.since() / 1_000 } else { 0 };
    let answer = peer.begin(session, rate, at_us, FIRST_TIMEOUT)?;
    let LineAnswer::Begun { instance, boot: their_boot, is_synchronised, clock_error_ns, .. } =
        answer
    else {
        return Err(strange(&answer));
    };
    let is_one_clock = their_boot == boot();
    let mut test = match &options.resume {
        Some(state) => state.test.clone(),
        None => LineTest::new(settings.clone(), is_one_clock),
    };
    let there = ClockState { is_synchronised, error_ns: clock_error_ns };
    test.clock_states = Some((kernel_clock(clock_state), there));
    test.begun = Some(begun);
    if options.resume.is_some() {
        // What this second had before is not known.
        test.away(clock.since() / SECOND + 1);
    }
    let mut running = Running {
        test,
        peer,
        session,
        instance,
        rate,
        clock,
        link: options.link.as_deref().and_then(|name| LinkWatch::start(name, clock.since())),
        begun,
        next_frame: first_frame,
        rows_asked: None,
        settled_to: 0,
        totals_asked: None,
        losses_asked: None,
        rtt_ns: 0,
        told_at: Time::ZERO,
    };
    if options.resume.as_ref().is_some_and(|state| state.instance != instance) {
        running.test.note_restart();
    } else if options.resume.is_some() {
        running.ask_whether_forgotten();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let sender = LoadSender {
        socket,
        settings: settings.clone(),
        session,
        clock,
        next: first_frame,
        drops,
        stop: Arc::clone(&stop),
    };
    let (tell, told) = channel();
    let thread = std::thread::Builder::new()
        .name("line-sender".to_owned())
        .spawn(move || sender.run(&tell))
        .map_err(|error| {
            Error::new(Fault::Here, ErrorCode::NoThread, format!("starting a thread: {error}"))
        })?;
    let result = running.until_decided(options, &told, &thread, &mut progress);
    stop.store(true, Ordering::Relaxed);
    let sent = thread.join().map_err(|_| {
        Error::new(Fault::Bug, ErrorCode::ThreadLost, "the thread that sends ended early")
    })?;
    running.note_sent(&told);
    let ended = result.and(sent).and_then(|(sent, sums)| {
        let before = running.test.sender;
        running.test.sender = SenderTotals {
            frames: before.frames + sums.frames,
            own_drops: before.own_drops + sums.own_drops,
            device_drops: ReceiveDrops::either(
                before.device_drops,
                watch.as_mut().and_then(ReceiveWatch::sample),
            ),
            cpu_ns: before.cpu_ns + sums.cpu_ns,
            took_ns: before.took_ns + sums.took_ns,
            way: sums.way,
        };
        running.finish(sent, &options.stop, &told, &mut progress)
    });
    match ended {
        Err(error) if error.code != ErrorCode::LineGone && running.test.sums.tested == 0 => {
            return Err(error);
        }
        Err(error) => running.break_off(error.message),
        Ok(()) if options.stop.load(Ordering::Relaxed) => running.test.ended_by_user(),
        Ok(()) => {}
    }
    Ok(running.test)
}

/// The test of `state` where its time is over: what is known of it, and no second more. There is
/// nobody left to ask, and nothing to send.
fn over(state: &LineState) -> Option<LineTest> {
    let most = state.test.settings.most_seconds;
    let since = state.since_begin(now(clock_state()).time);
    if since.as_nanos() / SECOND < most {
        return None;
    }
    let mut test = state.test.clone();
    test.away(most);
    Some(test)
}

/// A test under way.
struct Running {
    test: LineTest,
    peer: PeerProtocol,
    session: u64,
    instance: u64,
    rate: Rate,
    clock: TestClock,
    link: Option<LinkWatch>,
    /// When the test began, since 1970.
    begun: Time,
    /// Above the number of each frame of seconds that are over.
    next_frame: u64,
    /// The question for rows that is open: its number, and when it was asked.
    rows_asked: Option<(u64, u64)>,
    /// Seconds of which all that came is known.
    settled_to: u64,
    /// The question for everything that is open.
    totals_asked: Option<u64>,
    losses_asked: Option<u64>,
    rtt_ns: u64,
    /// When it was last told that the other end is silent.
    told_at: Time,
}

impl Running {
    fn since(&self) -> u64 {
        self.clock.since()
    }

    /// What another process would go on from.
    fn state(&self) -> LineState {
        LineState {
            schema: LineState::SCHEMA.to_owned(),
            session: self.session,
            begun: self.begun,
            written: self.begun + Span::from_nanos(self.since()),
            next_frame: self.next_frame,
            instance: self.instance,
            test: self.test.clone(),
        }
    }

    fn report(
        &self,
        news: &[TestedSecond],
        progress: &mut impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let silence = Some(self.peer.silence()).filter(|silence| *silence >= SILENT);
        progress(&LineProgress { test: &self.test, news, state: &|| self.state(), silence })
    }

    /// Tells that the other end is silent, where it is, once a second.
    fn report_silence(
        &mut self,
        progress: &mut impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let now = steady();
        if self.peer.silence() < SILENT || now.since(self.told_at) < Span::from_secs(1) {
            return Ok(());
        }
        self.told_at = now;
        self.report(&[], progress)
    }

    /// Takes what the sender says of seconds that are over.
    fn note_sent(&mut self, told: &Receiver<(SentSecond, u64)>) {
        for (sent, next) in told.try_iter() {
            self.next_frame = next;
            if sent.second >= self.test.next_second() {
                self.test.note_sent(sent);
            }
        }
    }

    fn until_decided(
        &mut self,
        options: &LineRequestOptions,
        told: &Receiver<(SentSecond, u64)>,
        sender: &JoinHandle<Result<(u64, SenderTotals), Error>>,
        progress: &mut impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let begin = self.since();
        let (mut delay_at, mut rows_at, mut totals_at) = (begin, begin, begin + TOTALS_EVERY);
        loop {
            let now = self.since();
            if now >= delay_at {
                self.peer.ask_delay();
                delay_at = (delay_at + DELAY_EVERY).max(now.saturating_sub(DELAY_EVERY));
            }
            if now >= rows_at {
                self.look_at_link(now);
                self.ask_rows(now);
                rows_at = now + ROWS_EVERY;
            }
            if now >= totals_at {
                let nonce = random();
                self.totals_asked = Some(nonce);
                let (session, settled) = (self.session, self.test.settled_frames());
                self.peer.ask(&LineRequest::Totals { nonce, session, sent: None, settled });
                self.ask_losses();
                totals_at = now + TOTALS_EVERY;
            }
            self.hear()?;
            self.settle(told, progress)?;
            let is_over = sender.is_finished() || options.stop.load(Ordering::Relaxed);
            if is_over || self.test.decision() != RatioDecision::Open {
                return Ok(());
            }
            self.check_silence()?;
            self.report_silence(progress)?;
        }
    }

    fn look_at_link(&mut self, now: u64) {
        if let Some(link) = &mut self.link {
            link.sample(now, self.rtt_ns, &mut self.test);
        }
    }

    fn ask_rows(&mut self, now: u64) {
        let nonce = random();
        self.rows_asked = Some((nonce, now));
        let since = self.test.next_second();
        self.peer.ask(&LineRequest::Rows { nonce, session: self.session, since });
    }

    fn ask_losses(&mut self) {
        let (nonce, since) = (random(), self.test.losses.next());
        self.losses_asked = Some(nonce);
        let session = self.session;
        self.peer.ask(&LineRequest::Losses { nonce, session, since, sent: None });
    }

    fn hear(&mut self) -> Result<(), Error> {
        for heard in self.peer.listen()? {
            match heard {
                Received::Delay(sample, at) => {
                    let away = sample.came.since(sample.sent);
                    self.rtt_ns =
                        away.saturating_sub(sample.returned.since(sample.received)).as_nanos();
                    self.test.note_delay(self.clock.at(at) / SECOND, sample);
                }
                Received::Answer(LineAnswer::Rows { nonce, rows, is_more, dropping_since }) => {
                    rows.into_iter().for_each(|row| self.test.note_row(row));
                    if let Some((open, asked)) = self.rows_asked
                        && open == nonce
                    {
                        if let Some(since) = dropping_since {
                            self.test.note_dropping(since, asked / SECOND);
                        }
                        self.rows_asked = None;
                        let known = asked.saturating_sub(GRACE + self.rtt_ns) / SECOND;
                        if !is_more {
                            self.settled_to = self.settled_to.max(known);
                        }
                    }
                }
                Received::Answer(LineAnswer::Totals { nonce, settled, totals })
                    if self.totals_asked == Some(nonce) =>
                {
                    self.totals_asked = None;
                    self.test.note_settled_there(settled);
                    self.test.note_totals(&totals);
                }
                Received::Answer(LineAnswer::Losses { nonce, first, entries, .. })
                    if self.losses_asked == Some(nonce) =>
                {
                    self.losses_asked = None;
                    self.test.note_losses(first, &entries);
                }
                Received::Answer(LineAnswer::Unknown { .. }) => self.begin_again()?,
                Received::Answer(_) => {}
            }
        }
        self.test.kernel_times = self.test.kernel_times.and(&self.peer.take_kernel_times());
        Ok(())
    }

    /// The other end does not know the test, or not from here: it was killed and has come back, or
    /// this end is seen at another address.
    fn begin_again(&mut self) -> Result<(), Error> {
        (self.rows_asked, self.totals_asked, self.losses_asked) = (None, None, None);
        let at_us = self.since() / 1_000;
        match self.peer.begin(self.session, self.rate, at_us, FIRST_TIMEOUT) {
            Ok(LineAnswer::Begun { instance, .. }) if instance != self.instance => {
                self.instance = instance;
                self.note_restart();
            }
            Ok(_) => self.ask_whether_forgotten(),
            // Gone again: how long that may last is looked at elsewhere.
            Err(error) if error.code == ErrorCode::LineGone => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What the other end had counted and did not tell is lost.
    fn note_restart(&mut self) {
        self.test.note_restart();
        self.test.away(self.since() / SECOND + 1);
    }

    /// The same process there may have forgotten a test of which it heard nothing for long.
    fn ask_whether_forgotten(&mut self) {
        let session = self.session;
        let settled = self.test.settled_frames();
        let settled = || settled.clone();
        let totals = |nonce| LineRequest::Totals { nonce, session, sent: None, settled: settled() };
        let answer = self.peer.answered(totals, FIRST_TIMEOUT);
        if let Ok(LineAnswer::Totals { totals, .. }) = answer
            && self.test.is_forgotten(&totals)
        {
            self.note_restart();
        }
    }

    /// The test ends before its time: what nothing is known of is untested. A state that was
    /// written stays as it was, to go on from.
    fn break_off(&mut self, why: String) {
        let end = (self.since() / SECOND + 1).min(self.test.settings.most_seconds);
        self.test.away(end);
        self.test.broken_off = Some(why);
    }

    fn settle(
        &mut self,
        told: &Receiver<(SentSecond, u64)>,
        progress: &mut impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.note_sent(told);
        if self.settled_to > self.test.next_second() {
            let news = self.test.settle(self.settled_to);
            self.report(&news, progress)?;
        }
        Ok(())
    }

    fn check_silence(&self) -> Result<(), Error> {
        let silence = self.peer.silence();
        if silence <= TIMEOUT {
            return Ok(());
        }
        Err(self.gone(silence))
    }

    fn gone(&self, silence: Span) -> Error {
        let message = unanswered(&self.test.settings.target, silence);
        Error::new(Fault::Between, ErrorCode::LineGone, message)
    }

    /// Nothing more is sent: takes what is still to come, and says goodbye.
    fn finish(
        &mut self,
        sent: u64,
        stop: &AtomicBool,
        told: &Receiver<(SentSecond, u64)>,
        progress: &mut impl FnMut(&LineProgress<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.note_sent(told);
        let end = self.since();
        while self.since() < end + GRACE + self.rtt_ns {
            self.hear()?;
        }
        self.look_at_link(self.since());
        self.report_silence(progress)?;
        let silence = self.peer.silence();
        if silence >= SILENT && stop.load(Ordering::Relaxed) {
            return Err(self.gone(silence));
        }
        let session = self.session;
        let mut since = self.test.next_second();
        loop {
            match self
                .peer
                .answered(|nonce| LineRequest::Rows { nonce, session, since }, LAST_TIMEOUT)?
            {
                LineAnswer::Rows { rows, is_more, dropping_since, .. } => {
                    since = rows.last().map_or(since, |row| row.second + 1);
                    rows.into_iter().for_each(|row| self.test.note_row(row));
                    if let Some(dropping) = dropping_since {
                        self.test.note_dropping(dropping, end / SECOND);
                    }
                    if !is_more {
                        break;
                    }
                }
                LineAnswer::Unknown { .. } => {
                    self.begin_again()?;
                    break;
                }
                other => return Err(strange(&other)),
            }
        }
        let news = self.test.settle_sent();
        self.take_last_totals(sent)?;
        self.take_last_losses(sent);
        self.report(&news, progress)?;
        // Who does not hear that the test is over forgets it in an hour.
        let _ = self.peer.answered(|nonce| LineRequest::End { nonce, session }, Span::from_secs(1));
        Ok(())
    }

    /// Runs of losses are of frames that count, of which the other end is told as many as a
    /// question has room for.
    fn take_last_totals(&mut self, sent: u64) -> Result<(), Error> {
        let session = self.session;
        for _ in 0..SETTLED_PAGES {
            let frames = self.test.settled_frames();
            let settled = || frames.clone();
            let sent = Some(sent);
            let totals = |nonce| LineRequest::Totals { nonce, session, sent, settled: settled() };
            let answer = self.peer.answered(totals, LAST_TIMEOUT)?;
            let LineAnswer::Totals { totals, settled, .. } = answer else { return Ok(()) };
            self.test.note_totals(&totals);
            // One of a version before settles nothing.
            if settled == 0 || self.test.note_settled_there(settled) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The order of the losses is told by an end that still knows the test; one that does not
    /// leaves a model without its last.
    fn take_last_losses(&mut self, sent: u64) {
        let session = self.session;
        for _ in 0..LOSS_PAGES {
            let since = self.test.losses.next();
            let losses = |nonce| LineRequest::Losses { nonce, session, since, sent: Some(sent) };
            match self.peer.answered(losses, FIRST_TIMEOUT) {
                Ok(LineAnswer::Losses { first, entries, is_more, .. }) => {
                    self.test.note_losses(first, &entries);
                    if !is_more || entries.is_empty() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }
}

/// For how long nobody has answered, in whole seconds.
pub(super) fn unanswered(target: &str, silence: Span) -> String {
    let silence = Span::from_secs(silence.as_nanos() / SECOND);
    format!("{target} has not answered for {silence}")
}
