//! What the client set for later: TYPE, MODE, OPTS, buffers, markers, and what only the next
//! transfer takes up.

use super::Output;
use super::ask::{Ask, ExpectedDigest};
use super::session::ServerSession;
use super::state::Purpose;
use crate::gridftp::command::{
    CommandOptions, DataAuthentication, Mode, Protection, Restart, RetrieveOptions, Site,
    TransferEvent, Type,
};
use crate::gridftp::{Fact, Reply};
use crate::units::{ByteRanges, Bytes, Span};

impl ServerSession {
    pub(super) fn set_type(&mut self, kind: Type) {
        match kind {
            Type::Image => self.say(200, "Type set to I."),
            // Listings are the same in either type; converting line ends in files would break their
            // digests.
            Type::Ascii => self.say(200, "Type set to A; files move unchanged all the same."),
            Type::Other(letter) => {
                self.say(504, format!("TYPE {letter} is not offered; A and I are."))
            }
        }
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        match mode {
            Mode::Other(letter) => {
                self.say(504, format!("MODE {letter} is not offered; S and E are."))
            }
            mode => {
                if self.settings.mode != mode {
                    self.settings.mode = mode;
                    self.output(Output::CloseChannels);
                }
                self.say(
                    200,
                    if mode == Mode::Extended { "Mode set to E." } else { "Mode set to S." },
                );
            }
        }
    }

    pub(super) fn set_structure(&mut self, letter: char) {
        match letter {
            'F' => self.say(200, "Structure set to F."),
            _ => self.say(504, format!("STRU {letter} is not offered; F is.")),
        }
    }

    pub(super) fn set_data_authentication(&mut self, how: DataAuthentication) {
        match how {
            how if self.by_gssapi => {
                let done = Reply::line(
                    200,
                    match &how {
                        DataAuthentication::None => "DCAU N.",
                        DataAuthentication::Own => "DCAU A.",
                        DataAuthentication::Subject(_) => "DCAU S.",
                    },
                );
                self.ask(Ask::Authenticate { how }, Purpose::Plain(done));
            }
            DataAuthentication::None => self.say(200, "DCAU N."),
            _ => self.say(504, "Data channels are not authenticated here; DCAU N is."),
        }
    }

    pub(super) fn set_protection(&mut self, level: Protection) {
        let private = match level {
            Protection::Clear if !self.config.secure => {
                return self.say(200, "Protection level set to C.");
            }
            Protection::Clear => false,
            // What tells the client whom to trust on the data channels must itself be out of a
            // stranger's reach.
            Protection::Private if self.config.secure => true,
            Protection::Private => {
                return self.say(503, "PROT P needs a protected control channel: AUTH TLS first.");
            }
            // Globus' own S is encrypted as its P.
            Protection::Safe if self.by_gssapi => true,
            // RFC 2228 section 3: 536 when the mechanism does not support the level.
            _ => return self.say(536, "Data channels are either clear (C) or private (P)."),
        };
        let done = Reply::line(
            200,
            match level {
                Protection::Private => "Protection level set to P.",
                Protection::Safe => "Protection level set to S.",
                _ => "Protection level set to C.",
            },
        );
        self.ask(Ask::Protect { private }, Purpose::Plain(done));
    }

    pub(super) fn set_socket_buffer(&mut self, size: u64) {
        let size = Some(Bytes(size)).filter(|size| size.0 > 0);
        (self.settings.retrieve_buffer, self.settings.store_buffer) = (size, size);
        self.say(200, "SBUF command successful.");
    }

    pub(super) fn set_events(&mut self, event: TransferEvent, seconds: u64) {
        let every = Span::from_secs(seconds);
        match event {
            TransferEvent::Perf => self.settings.perf_every = every,
            TransferEvent::Restart => self.settings.ranges_every = every,
        }
        self.say(200, "TREV command successful.");
    }

    pub(super) fn options(&mut self, options: CommandOptions) {
        match options {
            CommandOptions::Checksum { markers } => self.settings.checksum_markers = markers,
            CommandOptions::Facts(facts) => {
                self.settings.facts = facts;
                self.settings.asks_for_links = facts.contains(Fact::UnixSlink);
                // RFC 3659 section 7.9: the reply names the facts that will be given.
                return self.say(200, format!("MLST OPTS {}", facts.names()));
            }
            CommandOptions::Farline { name, value } => {
                let purpose = Purpose::Option { name: name.clone(), value: value.clone() };
                return self.ask(Ask::SetOption { name, value }, purpose);
            }
            CommandOptions::Passive { allow_delayed: false } => {}
            CommandOptions::Passive { allow_delayed: true } => {
                return self.say(504, "PASV is never delayed here.");
            }
            CommandOptions::Retrieve(options) => return self.retrieve_options(&options),
            CommandOptions::Utf8(true) => {
                return self.say(200, "Pathnames are bytes; UTF-8 is understood.");
            }
            CommandOptions::Utf8(false) => {
                return self.say(504, "Pathnames travel as they are stored.");
            }
        }
        self.say(200, "OPTS command successful.");
    }

    fn retrieve_options(&mut self, options: &RetrieveOptions) {
        if let Some((start, ..)) = options.parallelism {
            if start == 0 || start > self.config.max_parallelism {
                return self.say(
                    501,
                    format!("Parallelism is 1 to {} here.", self.config.max_parallelism),
                );
            }
            self.settings.parallelism = start;
        }
        self.settings.layout = options.layout.unwrap_or(self.settings.layout);
        self.settings.block_size =
            options.block_size.filter(|size| size.0 > 0).or(self.settings.block_size);
        self.settings.retrieve_buffer =
            options.window.filter(|size| size.0 > 0).or(self.settings.retrieve_buffer);
        self.settings.retrieve_markers = options.markers.unwrap_or(self.settings.retrieve_markers);
        self.say(200, "OPTS command successful.");
    }

    pub(super) fn allocate(&mut self, size: u64) {
        self.next.size = Some(size);
        self.say(200, "ALLO command successful.");
    }

    pub(super) fn restart(&mut self, restart: Restart) {
        // Ranges held say the same in both modes; whether MODE S can use them is decided when the
        // transfer begins.
        self.next.held = match restart {
            Restart::Held(held) => held,
            Restart::Offset(offset) => {
                let mut held = ByteRanges::new();
                held.insert(0..offset);
                held
            }
        };
        // The last one counts, whatever was said before it.
        self.next.accept_restart();
        self.say(350, "Restart marker accepted; send STOR or RETR to go on from it.");
    }

    pub(super) fn expect_checksum(&mut self, algorithm: String, digest: String) {
        if !self.config.checksums.contains(&algorithm) {
            return self.say(504, format!("The checksum {algorithm} is not offered here."));
        }
        self.next.expected = Some(ExpectedDigest { algorithm, digest });
        self.say(200, "The next file stored must have this checksum.");
    }

    /// Which driver makes the data connections from the next PASV, EPSV or SPAS on.
    fn set_net_stack(&mut self, name: &str) {
        let name = if name == "default" { "tcp" } else { name };
        match self.config.net_stacks.iter().any(|known| known == name) {
            // Nothing to choose between, and no thread to ask.
            true if self.config.net_stacks.len() == 1 => self.say(250, "OK."),
            true => self.ask(
                Ask::NetStack { name: name.to_owned() },
                Purpose::Plain(Reply::line(250, "OK.")),
            ),
            false => self.say(
                500,
                format!(
                    "There is no data channel driver of that name; {} is.",
                    self.config.net_stacks.join(" or ")
                ),
            ),
        }
    }

    pub(super) fn site(&mut self, site: Site) {
        match site {
            Site::Help => self.help(None),
            Site::ClientInfo(_) => self.say(250, "OK."),
            Site::SocketBuffer { store, size } => {
                let size = Some(size).filter(|size| size.0 > 0);
                if store {
                    self.settings.store_buffer = size
                } else {
                    self.settings.retrieve_buffer = size
                }
                self.say(250, "OK.");
            }
            Site::NetStack(stack) => self.set_net_stack(stack.trim()),
            Site::SetMode(mode, path) => self.set_file_mode(mode, &path),
            Site::MakeLink { target, path } => self.make_link(target, &path),
            Site::SetModified(time, path) => {
                self.set_modified(time, &path, Reply::line(250, "OK."))
            }
            Site::Other(_) => self.say(500, "This SITE command is not known."),
        }
    }
}
