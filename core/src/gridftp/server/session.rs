//! The machine itself: lines in, commands in order, one ask at a time, replies out.

use super::ask::{Answer, Ask};
use super::config::ServerConfig;
use super::state::{Data, Login, Next, PassiveForm, Purpose, Settings, Waiting};
use super::{Input, Output, SessionLimit};
use crate::gridftp::command::{Command, CommandError, CommandOptions, Extent};
use crate::gridftp::fault::reply_to;
use crate::gridftp::line::{Line, Lines, MAX_LINE};
use crate::gridftp::{Pathname, Reply};
use crate::units::{Error, ErrorCode, Fault, Time};
use std::collections::VecDeque;

/// The queue of pipelined commands beyond which [`ServerSession::wants_input`] is false: thousands
/// of STORs.
pub(super) const QUEUE_FULL: usize = 256 * 1024;
/// The queue beyond which a client that is not held back is sent away.
const QUEUE_LIMIT: usize = 2 * QUEUE_FULL;
/// Replies that wait to be sent, beyond which no further command has its turn.
const REPLIES_FULL: usize = 64 * 1024;
/// The first byte of a record of TLS's handshake (RFC 8446, section 5.1), with which no command
/// begins.
const HANDSHAKE: u8 = 22;
/// What requests by HTTP begin with (RFC 9110, section 9, and RFC 5789); no command does.
const HTTP_METHODS: [&str; 9] =
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// The server's end of one control channel.
///
/// The edge feeds it bytes and answers; it parses commands, keeps the session's state, queues what
/// is pipelined while a transfer runs, and puts every reply in order. See the
/// [module](crate::gridftp) for a dialogue.
#[derive(Debug)]
pub struct ServerSession {
    pub(super) config: ServerConfig,
    pub(super) login: Login,
    pub(super) settings: Settings,
    pub(super) data: Data,
    /// What the next transfer, or RNTO, takes up.
    pub(super) next: Next,
    pub(super) cwd: Pathname,
    /// The open ask.
    pub(super) waiting: Option<Waiting>,
    lines: Lines,
    queue: VecDeque<Queued>,
    /// Bytes of the lines in `queue`.
    queued: usize,
    /// ABORs in `queue`: transfers before them are not begun.
    aborts: usize,
    outputs: VecDeque<Output>,
    /// Bytes of replies in `outputs`, and before them since it was last empty.
    unsent: usize,
    last_id: u64,
    /// Of the latest input.
    pub(super) now: Time,
    /// When the client last said a whole line, or the edge something.
    last_active: Time,
    /// What came right behind an `AUTH TLS` and is a record of TLS's handshake.
    pub(super) early: Vec<u8>,
    /// An `AUTH` waits for its turn: nothing that comes before the handshake counts.
    pub(super) upgrading: bool,
    /// Whether the control channel is protected by `AUTH GSSAPI`.
    pub(super) by_gssapi: bool,
    closed: bool,
    is_login_late: bool,
}

#[derive(Debug)]
struct Queued {
    command: Result<Command, Refused>,
    length: usize,
}

/// A line that is no command.
#[derive(Debug)]
struct Refused {
    reply: Reply,
    /// Whether it was a REST: the transfer behind it must then not begin anew.
    restart: bool,
}

impl ServerSession {
    /// A session at its beginning, with the greeting to send.
    pub fn new(config: ServerConfig, now: Time) -> ServerSession {
        let mut session = ServerSession {
            login: Login { since: now, ..Login::default() },
            settings: Settings::default(),
            data: Data::None,
            next: Next::default(),
            cwd: config.home.clone(),
            waiting: None,
            lines: Lines::new(MAX_LINE),
            queue: VecDeque::new(),
            queued: 0,
            aborts: 0,
            outputs: VecDeque::new(),
            unsent: 0,
            last_id: 0,
            now,
            last_active: now,
            early: Vec::new(),
            upgrading: false,
            by_gssapi: false,
            closed: false,
            is_login_late: false,
            config,
        };
        session.say(220, session.config.banner.clone());
        session
    }

    /// Takes one input. Poll until [`Output::Wait`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        if self.closed {
            return;
        }
        self.now = now;
        match input {
            Input::Received(bytes) => self.receive(bytes),
            Input::Answer { id, answer } => {
                self.last_active = now;
                self.answer(id, answer);
            }
            Input::Expelled(why) => {
                self.abort_running();
                self.say(421, why);
                self.close();
            }
            // RFC 959 section 7.2.2: an unexpected close is an ABOR and a QUIT.
            Input::Closed => {
                self.abort_running();
                self.close();
            }
        }
        self.advance();
    }

    /// The next thing to do.
    pub fn poll(&mut self, now: Time) -> Output {
        if self.outputs.is_empty() {
            // What waited until replies before it had gone.
            self.unsent = 0;
            self.advance();
        }
        if let Some(output) = self.outputs.pop_front() {
            return output;
        }
        if self.closed || self.waiting.is_some() {
            return Output::Wait(None);
        }
        let idle = self.last_active + self.config.idle;
        let login = self.login.since + self.config.login_within;
        let is_late = !self.is_logged_in() && login < idle;
        let deadline = if is_late { login } else { idle };
        if now < deadline {
            return Output::Wait(Some(deadline));
        }
        self.is_login_late = is_late;
        self.say(
            421,
            match is_late {
                true => format!(
                    "Not logged in within {}; closing the control connection.",
                    self.config.login_within
                ),
                false => format!("Idle for {}; closing the control connection.", self.config.idle),
            },
        );
        self.close();
        self.outputs.pop_front().unwrap_or(Output::Close)
    }

    /// Whether the edge should read more from the control connection: false while too much is
    /// queued behind a transfer.
    pub fn wants_input(&self) -> bool {
        !self.closed && self.queued < QUEUE_FULL
    }

    /// Whether another reply follows as soon as the edge has done what it was asked: commands wait,
    /// and behind no transfer.
    pub fn replies_soon(&self) -> bool {
        self.is_busy() && !self.is_transferring() && !self.queue.is_empty()
    }

    /// Whether something asked for is under way.
    pub fn is_busy(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether it ended since its client did not log in in time.
    pub fn is_login_late(&self) -> bool {
        self.is_login_late
    }

    /// Whether a transfer runs.
    pub fn is_transferring(&self) -> bool {
        matches!(&self.waiting, Some(Waiting { purpose: Purpose::Transfer(_), .. }))
    }

    fn receive(&mut self, mut bytes: &[u8]) {
        if self.upgrading {
            return;
        }
        while let Some(line) = self.lines.next(&mut bytes) {
            self.last_active = self.now;
            let (Line::Complete(said) | Line::TooLong(said)) = &line;
            if is_http(said) {
                return self.refuse_http();
            }
            let (command, length) = match line {
                Line::Complete(line) if line.is_empty() => continue,
                Line::Complete(line) => {
                    (Command::parse(&line).map_err(|error| Refused::new(&error)), line.len())
                }
                Line::TooLong(head) => {
                    self.outputs.push_back(Output::LimitStruck(SessionLimit::CommandLine));
                    (Err(Refused::too_long(&head)), 0)
                }
            };
            match command {
                Ok(Command::Abort) => {
                    self.aborts += 1;
                    self.abort_running();
                }
                // RFC 959 section 4.1.3: STAT may be asked while a transfer runs. Not past queued
                // commands: their replies could no longer be told apart.
                Ok(Command::Status(None))
                    if self.is_transferring()
                        && self.queue.is_empty()
                        && self.unsent < REPLIES_FULL =>
                {
                    self.status();
                    continue;
                }
                Ok(Command::Options(CommandOptions::Farline { ref name, ref value }))
                    if self.is_transferring() && self.config.options_at_once.contains(name) =>
                {
                    let (name, value) = (name.clone(), value.clone());
                    self.outputs.push_back(Output::OptionAtOnce { name, value });
                }
                _ => {}
            }
            let is_full = self.queued >= QUEUE_FULL;
            // An empty slot costs memory too.
            self.queued += length + size_of::<Queued>();
            self.queue.push_back(Queued { command, length: length + size_of::<Queued>() });
            if self.queued >= QUEUE_FULL && !is_full {
                self.outputs.push_back(Output::LimitStruck(SessionLimit::CommandQueue));
            }
            if self.queued > QUEUE_LIMIT {
                self.say(421, "Too many commands at once; closing the control connection.");
                self.abort_running();
                self.close();
                return;
            }
            // What follows AUTH before the handshake, be AUTH queued behind a transfer for however
            // long, would be plain text taken for encrypted.
            if self.is_upgraded_next() {
                self.upgrading = true;
                // Its turn is now: a client may send its part of the handshake with it.
                if self.queue.len() == 1
                    && self.waiting.is_none()
                    && bytes.first() == Some(&HANDSHAKE)
                {
                    self.early = bytes.to_vec();
                }
                return;
            }
        }
    }

    /// Ends a session that speaks HTTP before anything of it counts.
    fn refuse_http(&mut self) {
        let why = "it speaks HTTP, as a page in somebody's browser can have that do";
        self.outputs.push_back(Output::LoginRefused(why.to_owned()));
        self.say(421, "This is a GridFTP server, which speaks no HTTP; closing the connection.");
        self.abort_running();
        self.close();
    }

    fn is_upgraded_next(&mut self) -> bool {
        let starts = match self.queue.back() {
            Some(Queued { command: Ok(Command::Auth(name)), .. }) => {
                self.config.tls && Self::is_tls(name) || self.config.gssapi && name == "GSSAPI"
            }
            _ => false,
        };
        if starts {
            self.lines.clear();
        }
        starts
    }

    /// Runs queued commands until one waits for the edge, or replies wait to be sent: those to a
    /// line of few bytes may have a hundred times as many.
    fn advance(&mut self) {
        while self.waiting.is_none() && !self.closed && self.unsent < REPLIES_FULL {
            let Some(Queued { command, length }) = self.queue.pop_front() else { return };
            self.queued -= length;
            match command {
                Ok(command) => self.run(command),
                Err(refused) => {
                    self.next.refuse_restart(refused.restart);
                    self.reply(refused.reply);
                }
            }
        }
    }

    fn run(&mut self, command: Command) {
        if !self.is_logged_in() && !allowed_before_login(&command) {
            return self.say(530, "Please login with USER and PASS.");
        }
        match command {
            Command::User(name) => self.user(name),
            Command::Password(password) => self.password(password),
            Command::Token(token) => self.token(token),
            Command::Auth(mechanism) => self.auth(&mechanism),
            Command::Quit => {
                self.say(221, "Goodbye.");
                self.close();
            }
            Command::Abort => {
                self.aborts = self.aborts.saturating_sub(1);
                self.say(226, "Abort successful.");
            }
            Command::Noop => self.say(200, "NOOP command successful."),
            Command::System => self.say(215, "UNIX Type: L8"),
            Command::Features => self.features(),
            Command::Help(topic) => self.help(topic.as_deref()),
            Command::Status(None) => self.status(),
            Command::Language(language) => self.language(language.as_deref()),
            Command::Site(site) => self.site(site),
            Command::Options(options) => self.options(options),

            Command::Type(kind) => self.set_type(kind),
            Command::Mode(mode) => self.set_mode(mode),
            Command::Structure(letter) => self.set_structure(letter),
            Command::DataAuthentication(how) => self.set_data_authentication(how),
            Command::ProtectionBuffer(size) => self.say(200, format!("PBSZ={size}")),
            Command::Protection(level) => self.set_protection(level),
            Command::SocketBuffer(size) => self.set_socket_buffer(size),
            Command::TransferEvents { event, seconds } => self.set_events(event, seconds),

            Command::Passive => self.passive(PassiveForm::Plain, None),
            Command::ExtendedPassive(which) => self.extended_passive(which),
            Command::StripedPassive(family) => self.passive(PassiveForm::Striped, family),
            Command::Port(address) => self.active("PORT", vec![address]),
            Command::ExtendedPort(address) => self.active("EPRT", vec![address]),
            Command::StripedPort(addresses) => self.active("SPOR", addresses),

            Command::Allocate(size) => self.allocate(size),
            Command::Restart(restart) => self.restart(restart),
            Command::ExpectChecksum { algorithm, digest } => {
                self.expect_checksum(algorithm, digest)
            }
            Command::Retrieve(path) => self.retrieve(None, &path),
            Command::Store(path) => self.store(None, &path, false),
            Command::Append(path) => self.store(None, &path, true),
            Command::ExtendedRetrieve(extent, path) => self.retrieve(Some(extent), &path),
            Command::ExtendedStore(extent, path) => self.store(Some(extent), &path, false),
            Command::List(path) => self.list(crate::gridftp::ListFormat::Long, path),
            Command::NameList(path) => self.list(crate::gridftp::ListFormat::Names, path),
            Command::MachineList(path) => {
                self.list(crate::gridftp::ListFormat::Facts(self.settings.facts), path)
            }
            Command::MachineListTree(path) => {
                self.list(crate::gridftp::ListFormat::Tree(self.settings.facts), path)
            }

            command => self.run_on_files(command),
        }
    }

    fn answer(&mut self, id: u64, answer: Answer) {
        let Some(Waiting { purpose, .. }) = self.waiting.take_if(|waiting| waiting.id == id) else {
            return;
        };
        match (purpose, answer) {
            (Purpose::Transfer(running), answer) => self.transfer_answer(id, running, answer),
            (Purpose::LogIn, answer) => self.login_answer(&answer),
            (Purpose::Admit(rights), answer) => self.admit_answer(rights, &answer),
            (_, Answer::Failed(error)) => self.fail(&error),
            (Purpose::Passive(form), Answer::Passive(addresses)) => {
                self.passive_answer(form, addresses)
            }
            (Purpose::Active(verb), Answer::Done) => self.active_answer(verb),
            (purpose, answer) => self.file_answer(id, purpose, answer),
        }
    }

    /// Ends the transfer or checksum that runs, if one does; its answer comes.
    fn abort_running(&mut self) {
        match &mut self.waiting {
            Some(Waiting { id, purpose: Purpose::Transfer(running) }) if !running.aborting => {
                running.aborting = true;
                self.outputs.push_back(Output::Abort { id: *id });
            }
            Some(Waiting { id, purpose: Purpose::Checksum }) => {
                self.outputs.push_back(Output::Abort { id: *id })
            }
            _ => {}
        }
    }

    /// Whether an ABOR that is queued was meant for what comes before it.
    pub(super) fn is_aborting(&self) -> bool {
        self.aborts > 0
    }

    pub(super) fn ask(&mut self, ask: Ask, purpose: Purpose) {
        self.last_id += 1;
        self.waiting = Some(Waiting { id: self.last_id, purpose });
        self.outputs.push_back(Output::Ask { id: self.last_id, ask });
    }

    pub(super) fn reply(&mut self, reply: Reply) {
        if matches!(reply.code, 501 | 503 | 553) {
            self.outputs.push_back(Output::Rejected(format!("{} {}", reply.code, reply.text())));
        }
        self.send(reply.encode());
    }

    /// Sends a reply as it is on the wire.
    pub(super) fn send(&mut self, reply: Vec<u8>) {
        self.unsent += reply.len();
        // Replies to pipelined commands leave in one write.
        match self.outputs.back_mut() {
            Some(Output::Send(bytes)) => bytes.extend_from_slice(&reply),
            _ => self.outputs.push_back(Output::Send(reply)),
        }
    }

    pub(super) fn say(&mut self, code: u16, text: impl Into<Vec<u8>>) {
        self.reply(Reply::line(code, text));
    }

    pub(super) fn fail(&mut self, error: &Error) {
        let error = error.with_settings_named(self.config.setting_name);
        self.reply(reply_to(&error, false));
    }

    /// Replies that the edge answered something else than was asked.
    pub(super) fn misanswered(&mut self, answer: &Answer) {
        let error =
            Error::new(Fault::Bug, ErrorCode::Misanswered, format!("the edge answered {answer:?}"));
        self.fail(&error);
    }

    pub(super) fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
        self.outputs.push_back(Output::Close);
    }

    pub(super) fn resolve(&self, path: &Pathname) -> Pathname {
        self.cwd.resolve(path)
    }
}

/// Whether a line begins a request by HTTP: any page can have the browser of who looks at it send
/// one to any port that the browser reaches, and commands in what follows.
fn is_http(line: &[u8]) -> bool {
    let Some(space) = line.iter().position(|&byte| byte == b' ') else { return false };
    HTTP_METHODS.iter().any(|method| method.as_bytes().eq_ignore_ascii_case(&line[..space]))
}

impl Refused {
    fn new(error: &CommandError) -> Refused {
        let (code, restart) = match error {
            CommandError::Unknown { .. } => (500, false),
            CommandError::Arguments { verb, .. } => (501, verb.name == "REST"),
        };
        Refused { reply: Reply::line(code, error.to_string()), restart }
    }

    fn too_long(head: &[u8]) -> Refused {
        let reply = Reply::line(500, format!("A command line has at most {MAX_LINE} bytes."));
        Refused { reply, restart: head.eq_ignore_ascii_case(b"REST ") }
    }
}

/// What can be said before USER: what clients ask to decide how to log in (RFC 2228, RFC 2389, RFC
/// 4217 and lftp's habit).
fn allowed_before_login(command: &Command) -> bool {
    use crate::gridftp::command::Site;
    matches!(
        command,
        Command::Abort
            | Command::Auth(_)
            | Command::DataAuthentication(_)
            | Command::Features
            | Command::Help(_)
            | Command::Language(_)
            | Command::Noop
            | Command::Options(CommandOptions::Utf8(_))
            | Command::Password(_)
            | Command::Protection(_)
            | Command::ProtectionBuffer(_)
            | Command::Quit
            | Command::Site(Site::ClientInfo(_) | Site::Help)
            | Command::System
            | Command::Token(_)
            | Command::User(_)
    )
}

impl Extent {
    pub(super) fn module(&self) -> Option<&str> {
        match self {
            Extent::Module(module) => Some(&module.name),
            Extent::Part { .. } | Extent::At { .. } => None,
        }
    }
}
