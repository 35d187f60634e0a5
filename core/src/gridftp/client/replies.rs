//! What each reply means for the request whose command it answers.

use super::config::Pipelining;
use super::features::PeerFeatures;
use super::request::Event;
use super::session::{ClientSession, InFlight};
use super::steps::{Class, Role, Step};
use crate::gridftp::command::{Command, Extent};
use crate::gridftp::fault::error_of;
use crate::gridftp::markers::{Perf, ranges_of, status_of};
use crate::gridftp::{ListingKind, Reply};
use crate::units::{Error, ErrorCode, Fault};

/// What `command` does, for people: its own words, but for those of a module, which only the two
/// ends that speak it know.
fn doing(command: &Command) -> String {
    match command {
        Command::ExtendedStore(Extent::Module(_), path) => format!("storing {path}"),
        Command::ExtendedRetrieve(Extent::Module(_), path) => format!("retrieving {path}"),
        command => command.shown(),
    }
}

impl ClientSession {
    pub(super) fn greeting(&mut self, reply: &Reply) {
        match reply.code {
            220 => {
                self.greeted = true;
                let farline = reply.first().split(' ').any(|word| word == "Farline");
                if self.config.known_farline && !farline {
                    let message =
                        format!("the server is no Farline node; it says: {}", reply.first());
                    return self.end(
                        Error::new(Fault::There, ErrorCode::NotFarline, message)
                            .hint("write ftp:// for other GridFTP servers"),
                    );
                }
                // A server that says in its greeting that it is Farline queues whatever comes: the
                // login, which costs four round trips elsewhere, goes out at once with all that is
                // asked for behind it.
                if self.config.pipelining.is_none() && farline {
                    self.pipelining = Pipelining::Transfers;
                    self.features = PeerFeatures::of_any_farline();
                }
            }
            // RFC 959 section 5.4: ready in some minutes; 220 follows.
            120 => {}
            _ => self.end(error_of(reply, "connecting")),
        }
    }

    pub(super) fn reply(&mut self, reply: Reply) {
        if reply.is_preliminary() {
            return self.preliminary(&reply);
        }
        // RFC 959 section 5.4: 421 may answer any command, or none, and ends the session.
        if reply.code == 421 {
            let doing = self
                .in_flight
                .front()
                .map_or("control connection".to_owned(), |sent| doing(&sent.step.command));
            return self.end(error_of(&reply, &doing));
        }
        // A reply that nobody waits for harms nobody.
        let Some(sent) = self.in_flight.pop_front() else { return };
        self.bytes_in_flight -= sent.length;
        self.alone -= usize::from(sent.class == Class::Alone);
        self.transfers -= usize::from(sent.class == Class::Transfer);
        if matches!(sent.step.command, Command::Mode(_)) && !reply.is_success() {
            self.mode = None;
        }
        let Some(active) = self.active(sent.id) else { return };
        if sent.step.role != Role::Abort {
            active.unanswered -= 1;
        }
        let over = active.over;
        if !over {
            self.step_answered(&sent, reply);
        }
        if let Some(active) =
            self.active(sent.id).filter(|active| active.over && active.unanswered == 0)
        {
            let id = active.id;
            self.forget(id);
        }
    }

    fn preliminary(&mut self, reply: &Reply) {
        let Some(front) = self.in_flight.front_mut() else { return };
        let id = front.id;
        let event = match reply.code {
            125 | 150 if front.step.role == Role::Transfer && !front.started => {
                front.started = true;
                Some(Event::Started { reused: reply.reuses_channels() })
            }
            111 => ranges_of(reply).map(Event::Ranges),
            112 => Perf::from_reply(reply).map(Event::Perf),
            113 => status_of(reply).map(Event::Processed),
            114 => Some(Event::Remark(reply.first().into_owned())),
            127 | 129 => Some(Event::PassiveAt(reply.passive(self.config.host))),
            _ => None,
        };
        let over = self.active(id).is_none_or(|active| active.over);
        if let Some(event) = event.filter(|_| !over) {
            self.event(id, event);
        }
    }

    fn step_answered(&mut self, sent: &InFlight, reply: Reply) {
        let (id, good) = (sent.id, reply.is_success() || reply.is_intermediate());
        let plain = Step { command: Command::Passive, role: Role::Passive };
        match sent.step.role {
            Role::Abort => {}
            Role::Features => self
                .learn(id, if good { PeerFeatures::of(&reply) } else { PeerFeatures::default() }),
            Role::Optional => {}
            Role::User if reply.is_intermediate() => {
                if let Some(active) = self.active(id) {
                    // None when it was sent ahead.
                    if let Some(password) = active.password.take() {
                        let command = Command::Password(password.into_bytes());
                        active.steps.push_front(Step { command, role: Role::Password });
                    }
                }
            }
            // RFC 2428 section 3: servers of before 1998 do not know EPSV.
            Role::PassiveOrPlain
                if matches!(reply.code, 500..=504 | 522)
                    && !self.config.host.is_some_and(|ip| ip.is_ipv6()) =>
            {
                self.active(id)
                    .into_iter()
                    .for_each(|active| active.steps.push_front(plain.clone()));
            }
            Role::PlainStat if matches!(sent.step.command, Command::ModifiedTime(_)) && !good => {}
            // No file: a folder is one that can be entered. Paths are absolute, so that nothing
            // else changes by it.
            Role::PlainStat if reply.code == 550 && !self.features.is_gridftp => {
                let Command::Size(path) = &sent.step.command else {
                    let error = error_of(&reply, &doing(&sent.step.command));
                    return self.fail(id, Error { code: ErrorCode::PathNotFound, ..error });
                };
                let enter = Command::ChangeDirectory(path.clone());
                if let Some(active) = self.active(id) {
                    active.steps = [Step { command: enter, role: Role::PlainStat }].into();
                }
                return;
            }
            // Servers have one 550 for everything, and ProFTPD's words for what is not there are
            // those of no other (RFC 3659, section 7.2.1).
            Role::Entries if reply.code == 550 && !self.features.is_gridftp => {
                let error = error_of(&reply, &doing(&sent.step.command));
                let is_stat = matches!(sent.step.command, Command::MachineStatus(_));
                return self.fail(
                    id,
                    match error.code {
                        ErrorCode::Refused if is_stat => {
                            Error { fault: Fault::You, code: ErrorCode::PathNotFound, ..error }
                        }
                        _ => error,
                    },
                );
            }
            _ if !good => return self.fail(id, error_of(&reply, &doing(&sent.step.command))),
            Role::Passive | Role::PassiveOrPlain => {
                let addresses = reply.passive(self.config.host);
                // `200 Passive delayed.` has none yet.
                if addresses.is_empty() && reply.code != 200 {
                    let message =
                        format!("no address in the server's reply {} {}", reply.code, reply.text());
                    return self
                        .fail(id, Error::new(Fault::There, ErrorCode::ProtocolBroken, message));
                }
                if !addresses.is_empty() {
                    self.event(id, Event::PassiveAt(addresses));
                }
            }
            Role::Entries => {
                let mut entries = reply.entries();
                // Of one path, more words are no entry; of a folder, they may be what is missing.
                let is_list = matches!(sent.step.command, Command::MachineListControl(_));
                entries.retain(|entry| match entry.kind {
                    ListingKind::CurrentDirectory | ListingKind::ParentDirectory => !is_list,
                    ListingKind::Unread => is_list,
                    _ => true,
                });
                self.event(id, Event::Entries(entries));
            }
            Role::PlainStat => self.plain_stat(sent, &reply),
            Role::Transfer if !sent.started => self.event(id, Event::Started { reused: false }),
            Role::Password | Role::Required | Role::Transfer | Role::User => {}
        }
        self.finish_if_last(sent, reply);
    }

    fn finish_if_last(&mut self, sent: &InFlight, reply: Reply) {
        let Some(active) =
            self.active(sent.id).filter(|active| active.steps.is_empty() && active.unanswered == 0)
        else {
            return;
        };
        active.over = true;
        let (stat, is_stat) = (std::mem::take(&mut active.stat), sent.step.role == Role::PlainStat);
        if is_stat {
            self.event(sent.id, Event::Entries(vec![stat]));
        }
        self.event(sent.id, Event::Done(reply));
    }

    fn plain_stat(&mut self, sent: &InFlight, reply: &Reply) {
        let Some(active) = self.active(sent.id) else { return };
        match &sent.step.command {
            Command::Size(path) => {
                active.stat.name = path.clone();
                active.stat.kind = ListingKind::File;
                active.stat.size = reply.size();
            }
            Command::ChangeDirectory(path) => {
                active.stat.name = path.clone();
                active.stat.kind = ListingKind::Directory;
            }
            _ => active.stat.modified = reply.modified(),
        }
    }

    fn learn(&mut self, id: u64, features: PeerFeatures) {
        let by_features = match (features.is_farline, features.is_gridftp) {
            (true, _) => Pipelining::Transfers,
            (false, true) => Pipelining::Commands,
            (false, false) => Pipelining::None,
        };
        self.pipelining = self.config.pipelining.unwrap_or(by_features);
        self.features = features.clone();
        self.event(id, Event::Ready(features));
    }

    /// Ends one request; what it had not sent yet is dropped.
    fn fail(&mut self, id: u64, error: Error) {
        if let Some(active) = self.active(id) {
            active.steps.clear();
            active.over = true;
        }
        self.event(id, Event::Failed(error));
    }
}
