//! One client's session: the control connection around the core's server machine.

use super::Shared;
use super::accounts::Shown;
use super::admission::Visitor;
use super::arrival::Arrival;
use super::data::DataPlane;
use super::job::{Job, JobResult, as_owner};
use super::list_memory::ListShare;
use super::rules::rules;
use super::wire::{Received, Wire};
use crate::channels::key::PREAMBLE_LEN;
use crate::identity::LoginTurn;
use crate::mover::{Cancel, LiveRate};
use crate::sys::lock::lock;
use farline_core::gridftp::server::{Answer, Ask, Input, Output, ServerSession};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Time};
use std::fmt::Display;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long a client that is let in may leave a reply unread.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Replies go out together while others are about to follow them, for so long and as far as so many
/// bytes: each write is a packet, and of a new connection the eleventh waits a round trip for the
/// first to be acknowledged (RFC 6928).
const HOLD: Duration = Duration::from_millis(2);
const HOLD_LEN: usize = 16 << 10;

/// Serves one client to the end of its session.
pub(super) async fn serve(shared: Arc<Shared>, wire: Wire, arrival: Arrival) {
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut session = Session::new(shared, wire, arrival, answers);
    let mut received = vec![0; 16 * 1024];
    let mut fresh = true;
    loop {
        let wake = loop {
            let next = match session.machine.poll(session.now()) {
                Output::Wait(_) if session.is_to_send() => {
                    session.send().await;
                    continue;
                }
                Output::Wait(wake) => break wake,
                Output::Close => return session.close().await,
                Output::StartTls { early } => {
                    (Arc::clone(&session.data), session.start_tls(early).await)
                }
                Output::StartGssapi => (Arc::clone(&session.data), session.start_gssapi().await),
                output => {
                    session.carry_out(output).await;
                    continue;
                }
            };
            // Of what was arranged in the clear nothing goes on.
            let (data, protected) = next;
            let Some(protected) = protected else { return put_away(data).await };
            drop(tokio::spawn(put_away(data)));
            session = protected;
        };
        let (idle, idle_port, held) = (session.until(wake), session.idle_port(), session.held());
        tokio::select! {
            came = session.wire.receive(fresh, &mut received), if session.machine.wants_input() => {
                fresh = false;
                session.visitor.spoke();
                match came {
                    Received::Nothing => session.on_event(Input::Closed),
                    Received::Bytes(len) => session.on_event(Input::Received(&received[..len])),
                    Received::Preamble(preamble) => return session.hand_over(&preamble).await,
                }
            }
            Some(told) = answered.recv() => session.answered(told),
            () = idle_port => session.close_idle_port(),
            why = session.visitor.expelled() => session.on_event(Input::Expelled(why)),
            () = held => continue,
            () = idle => continue,
        }
        session.visitor.active(session.machine.is_busy());
    }
}

/// One client's session, at work.
struct Session {
    shared: Arc<Shared>,
    arrival: Arrival,
    began: Instant,
    wire: Wire,
    machine: ServerSession,
    visitor: Visitor,
    data: Arc<Mutex<DataPlane>>,
    /// A transfer has its data to itself; this it heeds while it runs.
    limit: LiveRate,
    /// Ends the job that runs.
    cancel: Cancel,
    /// Where jobs say what came of them.
    answers: mpsc::UnboundedSender<JobResult>,
    /// The memory of a list that is on its way.
    listed: Option<ListShare>,
    /// When its data port was used last, if there may be one.
    port_used: Option<Instant>,
    /// Replies that are to go, and since when.
    unsent: Vec<u8>,
    unsent_since: Option<Instant>,
    /// A reply could not be sent: none is any more.
    is_broken: bool,
}

impl Session {
    fn new(
        shared: Arc<Shared>,
        wire: Wire,
        arrival: Arrival,
        answers: mpsc::UnboundedSender<JobResult>,
    ) -> Session {
        let began = Instant::now();
        let visitor = shared.admission.enter(arrival.peer.ip());
        let machine = ServerSession::new(rules(&shared, &arrival), Time::ZERO);
        let mut shown = Shown::default();
        // Over one UDP port the handshake is done.
        shown.certificates(wire.certificates());
        let limit = LiveRate::new(Rate::default());
        let plane = DataPlane::new(Arc::clone(&shared), arrival.clone(), shown, limit.clone());
        let (data, cancel) = (Arc::new(Mutex::new(plane)), Cancel::new());
        Session {
            shared,
            arrival,
            began,
            wire,
            machine,
            visitor,
            data,
            limit,
            cancel,
            answers,
            listed: None,
            port_used: None,
            unsent: Vec::new(),
            unsent_since: None,
            is_broken: false,
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn on_event(&mut self, input: Input<'_>) {
        self.machine.handle(self.now(), input);
    }

    /// What came of a job.
    fn answered(&mut self, (id, answer, listed): JobResult) {
        self.listed = listed;
        if self.port_used.is_some() || matches!(answer, Answer::Passive(_)) {
            self.port_used = Some(Instant::now());
        }
        self.on_event(Input::Answer { id, answer });
    }

    /// Waits until nothing has used the session's data port for as long as nothing may move.
    fn idle_port(&self) -> impl Future<Output = ()> + use<> {
        let used = self.port_used.filter(|_| !self.machine.is_busy());
        sleep_until(used.zip(self.shared.config.idle_timeout).map(|(used, idle)| used + idle))
    }

    fn close_idle_port(&mut self) {
        // At once: what is asked for next is another. Who has the data uses its port.
        let data = match self.data.try_lock() {
            Ok(data) => Some(data),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        self.port_used = match data {
            Some(mut data) => {
                data.close_idle_port();
                None
            }
            None => Some(Instant::now()),
        };
    }

    /// Waits until `wake`; for good where nothing is to be waited for.
    fn until(&self, wake: Option<Time>) -> impl Future<Output = ()> + use<> {
        sleep_until(wake.map(|at| Instant::now() + Duration::from(at.since(self.now()))))
    }

    /// What an output of the machine's wants that leaves the connection as it is.
    async fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send(bytes) => {
                if self.unsent.len() + bytes.len() > HOLD_LEN {
                    self.send().await;
                }
                self.hold(bytes);
                if self.unsent.len() >= HOLD_LEN {
                    self.send().await;
                }
            }
            Output::Ask { id, ask: Ask::Admit } => {
                let account = lock(&self.data).account().clone();
                let named = account.name.as_deref().map(|name| (name, account.sessions));
                let admitted = self.visitor.log_in(named);
                if let (Ok(()), Some(login)) = (&admitted, &account.login) {
                    self.shared.notices.say("login", format_args!("{login}"));
                }
                let answer = admitted.map_or_else(Answer::Failed, |()| Answer::Done);
                self.on_event(Input::Answer { id, answer });
            }
            Output::Ask { id, ask } => {
                self.cancel = Cancel::new();
                let job = Job {
                    shared: Arc::clone(&self.shared),
                    data: Arc::clone(&self.data),
                    cancel: self.cancel.clone(),
                    client: self.arrival.peer.ip(),
                };
                let answers = self.answers.clone();
                let identities = &self.shared.config.identities;
                let waits_for = match &ask {
                    Ask::Login { user, .. } => identities.turn_of(user),
                    _ => None,
                };
                let turns = match waits_for {
                    None => {
                        tokio::task::spawn_blocking(move || job.answer(id, ask, answers));
                        return;
                    }
                    Some(LoginTurn::Hash) => Arc::clone(&self.shared.hashes),
                    Some(LoginTurn::Pam(turns)) => turns,
                };
                let within = self.shared.config.limits.login_timeout;
                tokio::spawn(async move {
                    let turn = tokio::select! {
                        turn = turns.acquire_owned() => turn,
                        () = tokio::time::sleep(within) => {
                            return job.had_no_turn(id, within, &answers);
                        }
                        // Nobody waits for the answer any more.
                        () = answers.closed() => return,
                    };
                    tokio::task::spawn_blocking(move || {
                        job.answer_in_turn(id, ask, within, answers);
                        drop(turn);
                    });
                });
            }
            Output::Abort { .. } => self.end_job("the client ended the transfer"),
            Output::LimitStruck(limit) => self.say_limit(limit.name(), &limit.what()),
            Output::Rejected(reply) => self.say_limit("rejected", &reply),
            Output::LoginRefused(why) => say_refused(&self.shared, &self.arrival, why),
            // What is no number is told in its turn.
            Output::OptionAtOnce { value, .. } => drop(self.limit.heed(&value)),
            // A client is told why before it sees the connection end.
            Output::CloseChannels => {
                self.send().await;
                self.close_data(DataPlane::close_channels).await;
            }
            Output::CloseData => {
                self.send().await;
                self.close_data(DataPlane::close_data).await;
            }
            Output::Close | Output::StartTls { .. } | Output::StartGssapi | Output::Wait(_) => {
                unreachable!("the caller's")
            }
        }
    }

    /// Has a reply go with those before it; a long one, which goes alone, is not copied.
    fn hold(&mut self, reply: Vec<u8>) {
        self.unsent_since.get_or_insert_with(Instant::now);
        match self.unsent.is_empty() {
            true => self.unsent = reply,
            false => self.unsent.extend(reply),
        }
    }

    /// Whether replies are to go now.
    fn is_to_send(&self) -> bool {
        let since = self.unsent_since.map(|since| since.elapsed());
        since.is_some_and(|held| held >= HOLD || !self.machine.replies_soon())
    }

    /// Waits until replies have been held back for as long as they may.
    fn held(&self) -> impl Future<Output = ()> + use<> {
        sleep_until(self.unsent_since.map(|since| since + HOLD))
    }

    /// Sends what there is to send. Who reads nothing holds a place, and what it asked for, for no
    /// longer than it may.
    async fn send(&mut self) {
        let bytes = std::mem::take(&mut self.unsent);
        if self.unsent_since.take().is_none() || self.is_broken {
            return;
        }
        let login_timeout = self.shared.config.limits.login_timeout;
        let within = if self.visitor.is_in() { REPLY_TIMEOUT } else { login_timeout };
        let began = Instant::now();
        let sent = tokio::select! {
            sent = tokio::time::timeout(within, self.wire.write(&bytes)) => matches!(sent, Ok(Ok(()))),
            _ = self.visitor.expelled() => false,
        };
        self.listed = None;
        if !sent && began.elapsed() >= within {
            self.say_limit("unread_reply", "a reply was not read; the connection is closed");
        }
        if !sent {
            self.is_broken = true;
            self.on_event(Input::Closed);
        }
    }

    fn say_limit(&self, limit: &'static str, what: &str) {
        let client = self.arrival.peer.ip().to_canonical();
        self.shared.notices.say(limit, format_args!("{client}: {what}"));
    }

    fn end_job(&self, why: &'static str) {
        self.cancel.cancel(Error::new(Fault::You, ErrorCode::Aborted, why));
    }

    /// Before the next command has a job: that may open what this would close.
    async fn close_data(&mut self, close: fn(&mut DataPlane)) {
        let data = Arc::clone(&self.data);
        let closed = tokio::task::spawn_blocking(move || as_owner(&data, close));
        // A panic of it has been said.
        let _ = closed.await;
    }

    async fn close(mut self) {
        self.send().await;
        if self.machine.is_login_late() {
            say_late(&self.shared, &self.arrival, "log in");
        }
        self.end_job("the client went away");
        let within = self.shared.config.limits.login_timeout;
        // What it held is free for others before its connection is closed, which may take.
        put_away(self.data).await;
        // Who reads nothing is not waited for.
        if !self.is_broken {
            tokio::select! {
                _ = tokio::time::timeout(within, self.wire.close()) => {}
                _ = self.visitor.expelled() => {}
            }
        }
    }

    /// It is no session, but a connection of another's data.
    async fn hand_over(mut self, preamble: &[u8; PREAMBLE_LEN]) {
        if let Wire::Tcp(stream) = self.wire {
            tokio::select! {
                is_known = self.shared.listeners.admit(preamble, stream) => {
                    if !is_known {
                        let from = self.arrival.peer.ip().to_canonical();
                        let said = format_args!("a data connection from {from} is of no session");
                        self.shared.notices.say("stranger", said);
                    }
                }
                _ = self.visitor.expelled() => {}
            }
        }
    }

    /// How long a handshake may take yet.
    fn handshake_timeout(&self) -> Duration {
        let login_timeout = self.shared.config.limits.login_timeout;
        match self.visitor.is_in() {
            true => login_timeout,
            false => login_timeout.saturating_sub(self.began.elapsed()),
        }
    }

    /// The session under TLS; nothing where the handshake failed, for who cannot do it has no
    /// session to go on with.
    async fn start_tls(mut self, early: Vec<u8>) -> Option<Session> {
        self.send().await;
        let certificate = self.arrival.certificate.as_ref()?;
        let mut shown = Shown::new(&self.shared, certificate).ok()?;
        let config = shown.tls.as_ref().map_or(&certificate.config, |tls| &tls.control);
        let (config, within) = (Arc::clone(config), self.handshake_timeout());
        let tls = tokio::select! {
            tls = tokio::time::timeout(within, self.wire.start_tls(config, early)) => tls,
            _ = self.visitor.expelled() => return None,
        };
        match tls {
            Ok(Ok(tls)) => self.wire = tls,
            Ok(Err(error)) => {
                // Who only looks whether there is TLS is no line.
                if error.kind() == std::io::ErrorKind::InvalidData {
                    say_refused(&self.shared, &self.arrival, format_args!("TLS: {error}"));
                }
                return None;
            }
            Err(_) => {
                say_late(&self.shared, &self.arrival, "end its TLS handshake");
                return None;
            }
        }
        shown.certificates(self.wire.certificates());
        self.begin_anew(shown);
        Some(self)
    }

    /// The same as a grid has it.
    async fn start_gssapi(mut self) -> Option<Session> {
        self.send().await;
        let gsi = Arc::clone(self.shared.gsi.as_ref()?);
        let within = self.handshake_timeout();
        let came = tokio::select! {
            came = tokio::time::timeout(within, self.wire.start_gssapi(Arc::clone(&gsi))) => came,
            _ = self.visitor.expelled() => return None,
        };
        if let Some(said) = gsi.news() {
            self.shared.notices.say("certificate", format_args!("{said}"));
        }
        match came {
            Ok(Ok((protected, client))) => {
                self.wire = protected;
                if let Some(why) = &client.peer.refused_attributes {
                    let ip = self.arrival.peer.ip().to_canonical();
                    let what = format_args!("attributes from {ip} do not count: {why}");
                    self.shared.notices.say("voms", what);
                }
                self.begin_anew(Shown::by_gsi(client));
                Some(self)
            }
            Ok(Err(why)) => {
                say_refused(&self.shared, &self.arrival, why);
                None
            }
            Err(_) => {
                say_late(&self.shared, &self.arrival, "end its exchange of ADAT");
                None
            }
        }
    }

    /// What was arranged in the clear anybody may have arranged.
    fn begin_anew(&mut self, shown: Shown) {
        let (shared, arrival) = (Arc::clone(&self.shared), self.arrival.clone());
        let plane = DataPlane::new(shared, arrival, shown, self.limit.clone());
        self.data = Arc::new(Mutex::new(plane));
    }
}

/// Puts a session's data away on a thread of its own: what was begun is kept or removed, file by
/// file, and all others' sessions would wait. A job that has it still does that at its end.
async fn put_away(data: Arc<Mutex<DataPlane>>) {
    let Some(data) = Arc::into_inner(data) else { return };
    let put_away = tokio::task::spawn_blocking(move || {
        let account = lock(&data).account().clone();
        // Where it cannot be the owner any more, by whom the node runs as.
        let _guard = account.enter();
        drop(data);
    });
    // A panic of it has been said.
    let _ = put_away.await;
}

/// Waits until then; for good where nothing is to be waited for.
async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

fn say_late(shared: &Shared, arrival: &Arrival, what: &str) {
    let late = format_args!("{} did not {what} in time", arrival.peer.ip().to_canonical());
    shared.notices.say("login_timeout", late);
}

fn say_refused(shared: &Shared, arrival: &Arrival, why: impl Display) {
    shared.notices.say("refused", format_args!("{}: {why}", arrival.peer.ip().to_canonical()));
}
