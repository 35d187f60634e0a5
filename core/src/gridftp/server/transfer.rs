//! RETR, STOR, ERET, ESTO, LIST ...: what a transfer takes up, and its replies from 150 to 226.

use super::Output;
use super::ask::{Action, Answer, Ask, FilePart, TransferRequest};
use super::session::ServerSession;
use super::state::{Data, Purpose, Running, Waiting};
use crate::gridftp::command::{Extent, Mode, Module};
use crate::gridftp::fault::reply_to;
use crate::gridftp::markers::range_replies;
use crate::gridftp::{ListFormat, Pathname, Reply};
use crate::units::{Error, ErrorCode, Fault, Span};

impl ServerSession {
    pub(super) fn retrieve(&mut self, extent: Option<Extent>, path: &Pathname) {
        self.transfer(Action::Retrieve, extent, path);
    }

    pub(super) fn store(&mut self, extent: Option<Extent>, path: &Pathname, append: bool) {
        self.transfer(if append { Action::Append } else { Action::Store }, extent, path);
    }

    pub(super) fn list(&mut self, format: ListFormat, path: Option<Pathname>) {
        self.transfer(Action::List(format), None, &path.unwrap_or_default());
    }

    fn transfer(&mut self, action: Action, extent: Option<Extent>, path: &Pathname) {
        self.begin_transfer(action, extent, path);
        if !self.is_transferring() && self.settings.mode == Mode::Stream && self.data != Data::None
        {
            // The client may have connected already, and waits for an end that no transfer brings.
            self.data = Data::None;
            self.output(Output::CloseData);
        }
    }

    fn begin_transfer(&mut self, action: Action, extent: Option<Extent>, path: &Pathname) {
        // Used up even when the transfer is refused: a later one must not find them.
        let held = self.next.take_held();
        let (size, expected) = if action.is_store() {
            (self.next.size.take(), self.next.expected.take())
        } else {
            (None, None)
        };
        if self.is_aborting() {
            return self.fail(&aborted());
        }
        let Ok(held) = held else {
            return self.say(503, "Not begun: the REST before was refused.");
        };
        if action.is_store() && !self.may_write() {
            return;
        }
        if let Some(name) = extent.as_ref().and_then(Extent::module)
            && !self.config.modules.iter().any(|module| module.eq_ignore_ascii_case(name))
        {
            return self.say(504, format!("The module {name} is not offered here."));
        }
        let mode = self.settings.mode;
        let stream_restart = held.is_empty() || (held.count() == 1 && held.contains(&(0..1)));
        if mode == Mode::Stream && !stream_restart {
            return self.say(503, "MODE S goes on from one offset; only MODE E takes ranges.");
        }
        if action == Action::Append && !held.is_empty() {
            return self.say(503, "APPE knows its offset; REST does not go with it.");
        }
        // GFD.20 section 4.1: in MODE E the sender connects, for only it knows how many channels it
        // wants.
        match (self.data, mode, action.is_store()) {
            (Data::None, ..) => {
                return self
                    .say(425, "No data channel: send PASV, EPSV, SPAS, PORT, EPRT or SPOR first.");
            }
            (Data::Passive, Mode::Extended, false) if !self.config.passive_retrieve => {
                return self.say(
                    503,
                    "In MODE E the sender connects, so I must: send PORT, EPRT \
                    or SPOR, or use MODE S.",
                );
            }
            (Data::Active, Mode::Extended, true) => {
                return self.say(
                    503,
                    "In MODE E the sender connects, so you must: send PASV, EPSV \
                    or SPAS, or use MODE S.",
                );
            }
            _ => {}
        }
        let request = TransferRequest {
            action,
            path: self.resolve(path),
            module: module_of(extent.as_ref()),
            mode,
            part: part_of(extent.as_ref()),
            held,
            parallelism: if mode == Mode::Extended { self.settings.parallelism } else { 1 },
            layout: self.settings.layout,
            block_size: self.settings.block_size,
            buffer_size: if action.is_store() {
                self.settings.store_buffer
            } else {
                self.settings.retrieve_buffer
            },
            size,
            expected,
            perf_every: self.marker_interval(action, self.settings.perf_every),
            ranges_every: if action.is_store() {
                self.marker_interval(action, self.settings.ranges_every)
            } else {
                Span::ZERO
            },
        };
        let running =
            Running { begun: false, aborting: false, markers: mode == Mode::Extended, words: None };
        self.ask(Ask::Transfer(Box::new(request)), Purpose::Transfer(running));
    }

    fn marker_interval(&self, action: Action, store: Span) -> Span {
        match (self.settings.mode, action) {
            (Mode::Extended, Action::Store | Action::Append) => store,
            (Mode::Extended, Action::Retrieve) => self.settings.retrieve_markers,
            _ => Span::ZERO,
        }
    }

    pub(super) fn transfer_answer(&mut self, id: u64, mut running: Running, answer: Answer) {
        match answer {
            Answer::Finished { .. } => {
                self.begin(&mut running, false);
                match running.words {
                    Some(words) => self.reply(with_words(&words)),
                    None => self.say(226, "Transfer complete."),
                }
                return self.transfer_over();
            }
            Answer::Failed(error) => {
                let error = match running.aborting {
                    true => aborted(),
                    false => error,
                };
                let error = error.with_settings_named(self.config.setting_name);
                self.reply(reply_to(&error, running.begun));
                return self.transfer_over();
            }
            Answer::Started { reused } => self.begin(&mut running, reused),
            Answer::Ranges(held) if running.markers && running.begun => {
                range_replies(&held).into_iter().for_each(|reply| self.reply(reply));
            }
            Answer::Perf(perf) if running.markers && running.begun => self.reply(perf.to_reply()),
            Answer::Words(words) => running.words = Some(words),
            Answer::Remark(text) if running.begun => self.reply(Reply::line(114, text)),
            Answer::Ranges(_) | Answer::Perf(_) | Answer::Remark(_) => {}
            other => {
                self.misanswered(&other);
                return self.transfer_over();
            }
        }
        self.waiting = Some(Waiting { id, purpose: Purpose::Transfer(running) });
    }

    fn begin(&mut self, running: &mut Running, reused: bool) {
        if std::mem::replace(&mut running.begun, true) {
            return;
        }
        match reused {
            true => self.say(125, "Beginning transfer; reusing existing data connection."),
            false => self.say(150, "Beginning transfer."),
        }
    }

    fn transfer_over(&mut self) {
        // RFC 959 section 3.2: in MODE S the channel's end is the file's end, so it serves once.
        if self.settings.mode == Mode::Stream {
            self.data = Data::None;
        }
    }
}

/// 226 with `words` behind it, cut into lines that every reader takes.
fn with_words(words: &str) -> Reply {
    const LINE: usize = 1_000;
    let mut lines = vec!["Transfer complete.".to_owned()];
    let mut rest = words;
    while !rest.is_empty() {
        let cut = (0..=rest.len().min(LINE))
            .rev()
            .find(|at| rest.is_char_boundary(*at))
            .unwrap_or(rest.len());
        lines.push(rest[..cut].to_owned());
        rest = &rest[cut..];
    }
    lines.push("End.".to_owned());
    Reply::new(226, lines)
}

fn aborted() -> Error {
    Error::new(Fault::You, ErrorCode::Aborted, "Transfer aborted.")
}

fn module_of(extent: Option<&Extent>) -> Option<Module> {
    match extent {
        Some(Extent::Module(module)) => Some(module.clone()),
        _ => None,
    }
}

fn part_of(extent: Option<&Extent>) -> Option<FilePart> {
    match extent {
        Some(&Extent::Part { offset, length }) => Some(FilePart { offset, length: Some(length) }),
        Some(&Extent::At { offset }) => Some(FilePart { offset, length: None }),
        _ => None,
    }
}
