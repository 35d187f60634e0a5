//! Dialogues with a server session whose edge answers by script.

mod clients;
mod endings;
mod extensions;
mod refusals;

use super::*;
use crate::gridftp::{ListFormat, ListingEntry, ListingKind, Mode, Pathname, Perf, Timestamp};
use crate::units::{ByteRanges, Error, ErrorCode, Fault, Setting, SettingName, Span};

/// A session whose edge answers by script.
struct Dialogue {
    session: ServerSession,
    now: Time,
    /// The open ask.
    open: Option<(u64, Ask)>,
    said: String,
    others: Vec<Output>,
    /// What the operator hears of requests that make no sense.
    rejected: Vec<String>,
    has_room: bool,
}

impl Dialogue {
    fn new(config: ServerConfig) -> Dialogue {
        let session = ServerSession::new(config, Time::ZERO);
        let mut dialogue = Dialogue {
            session,
            now: Time::ZERO,
            open: None,
            said: String::new(),
            others: Vec::new(),
            rejected: Vec::new(),
            has_room: true,
        };
        dialogue.poll();
        assert_eq!(dialogue.said(), "220 Farline GridFTP server ready.\r\n");
        dialogue
    }

    fn writable() -> Dialogue {
        let mut dialogue = Dialogue::new(ServerConfig {
            logins: Logins::Anonymous(Rights::Write),
            checksums: vec!["SHA256".into(), "MD5".into()],
            modules: vec!["FARLINE.TREE".into()],
            features: vec!["FARLINE TREE".into()],
            options_at_once: vec!["limit".into()],
            ..ServerConfig::default()
        });
        dialogue.client("USER anonymous\r\nPASS x@\r\n");
        assert_eq!(
            dialogue.said(),
            "331 Password required for anonymous.\r\n230 User logged in.\r\n"
        );
        dialogue
    }

    fn client(&mut self, text: &str) -> &mut Dialogue {
        self.session.handle(self.now, Input::Received(text.as_bytes()));
        self.poll();
        self
    }

    fn edge(&mut self, answer: Answer) -> &mut Dialogue {
        let id = self.open.as_ref().expect("an open ask").0;
        let last = !matches!(
            answer,
            Answer::Started { .. }
                | Answer::Ranges(_)
                | Answer::Perf(_)
                | Answer::Processed { .. }
                | Answer::Remark(_)
                | Answer::Words(_)
        );
        if last {
            self.open = None;
        }
        self.session.handle(self.now, Input::Answer { id, answer });
        self.poll();
        self
    }

    fn poll(&mut self) {
        loop {
            match self.session.poll(self.now) {
                Output::Wait(_) => return,
                Output::Send(bytes) => {
                    self.said.push_str(&String::from_utf8(bytes).expect("ASCII"))
                }
                Output::Ask { id, ask: Ask::Admit } if self.has_room => {
                    let answer = Answer::Done;
                    self.session.handle(self.now, Input::Answer { id, answer });
                }
                Output::Ask { id, ask } => {
                    assert!(self.open.replace((id, ask)).is_none(), "one ask at a time")
                }
                Output::Rejected(reply) => self.rejected.push(reply),
                other => self.others.push(other),
            }
        }
    }

    fn said(&mut self) -> String {
        std::mem::take(&mut self.said)
    }

    fn code(&mut self) -> String {
        let said = self.said();
        said.lines().last().unwrap_or_default().chars().take(3).collect()
    }

    /// The code of the reply to one command that asks nothing of the edge.
    fn told(&mut self, line: &str) -> String {
        self.client(&format!("{line}\r\n"));
        assert!(self.open.is_none(), "{line}: {:?}", self.open);
        self.code()
    }

    fn asked(&self) -> &Ask {
        &self.open.as_ref().expect("an open ask").1
    }

    fn transfer(&self) -> &TransferRequest {
        match self.asked() {
            Ask::Transfer(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn listening(&mut self, command: &str) -> &mut Dialogue {
        self.client(&format!("{command}\r\n"))
            .edge(Answer::Passive(vec!["127.0.0.1:35077".parse().expect("an address")]));
        assert_eq!(self.code(), if command == "PASV" { "227" } else { "229" });
        self
    }
}

fn not_found() -> Answer {
    Answer::Failed(Error::new(Fault::You, ErrorCode::PathNotFound, "No such file: /x"))
}

fn directory() -> Answer {
    Answer::Entry(Box::new(ListingEntry {
        kind: ListingKind::Directory,
        size: Some(4096),
        ..ListingEntry::default()
    }))
}
