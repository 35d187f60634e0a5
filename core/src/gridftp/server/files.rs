//! Commands on names: directories, renames, facts, times, modes and checksums.

use super::ask::{Answer, Ask};
use super::session::ServerSession;
use super::state::{Purpose, Waiting};
use crate::gridftp::command::Command;
use crate::gridftp::listing::write_long;
use crate::gridftp::markers::status_reply;
use crate::gridftp::{ListingEntry, ListingKind, Pathname, Reply, Timestamp};
use crate::units::{Error, ErrorCode, Fault};

impl ServerSession {
    pub(super) fn run_on_files(&mut self, command: Command) {
        match command {
            Command::PrintDirectory => {
                let text = [self.cwd.quoted(), b" is the current directory.".to_vec()].concat();
                self.say(257, text);
            }
            Command::ChangeDirectory(path) => self.change_directory(self.resolve(&path)),
            Command::ChangeUp => self.change_directory(self.resolve(&Pathname::from(".."))),
            Command::MachineStatus(path) => {
                let path = self.resolve(&path.unwrap_or_default());
                self.ask(Ask::Stat { path: path.clone() }, Purpose::Facts(path));
            }
            Command::Status(path) => {
                let path = self.resolve(&path.unwrap_or_default());
                self.ask(Ask::Stat { path: path.clone() }, Purpose::LongList(path));
            }
            Command::MachineListControl(path) => {
                let path = self.resolve(&path.unwrap_or_default());
                let facts = self.settings.facts;
                self.ask(Ask::List { path: path.clone(), facts }, Purpose::Entries(path));
            }
            Command::Size(path) => self.ask(Ask::Stat { path: self.resolve(&path) }, Purpose::Size),
            Command::ModifiedTime(path) => {
                self.ask(Ask::Stat { path: self.resolve(&path) }, Purpose::ModifiedTime)
            }
            Command::Checksum { algorithm, offset, length, path } => {
                if !self.config.checksums.contains(&algorithm) {
                    return self.say(504, format!("The checksum {algorithm} is not offered here."));
                }
                let (markers, path) = (self.settings.checksum_markers, self.resolve(&path));
                self.ask(
                    Ask::Checksum { algorithm, offset, length, markers, path },
                    Purpose::Checksum,
                );
            }
            Command::MakeDirectory(path) if self.may_write() => {
                let path = self.resolve(&path);
                self.ask(Ask::MakeDirectory { path: path.clone() }, Purpose::MakeDirectory(path));
            }
            Command::Delete(path) if self.may_write() => self.remove(&path, false),
            Command::RemoveDirectory(path) if self.may_write() => self.remove(&path, true),
            Command::RenameFrom(path) if self.may_write() => {
                let path = self.resolve(&path);
                self.ask(Ask::Stat { path: path.clone() }, Purpose::RenameFrom(path));
            }
            Command::RenameTo(path) if self.may_write() => match self.next.rename_from.take() {
                Some(from) => {
                    let to = self.resolve(&path);
                    self.ask(
                        Ask::Rename { from, to },
                        Purpose::Plain(Reply::line(250, "Renamed.")),
                    );
                }
                None => self.say(503, "Send RNFR first."),
            },
            Command::SetModified(time, path) => {
                // draft-somers-ftp-mfxx section 4: the reply repeats the fact.
                let text =
                    [format!("Modify={time}; ").into_bytes(), path.as_bytes().to_vec()].concat();
                self.set_modified(time, &path, Reply::line(213, text));
            }
            // The guards above have replied.
            _ => {}
        }
    }

    fn change_directory(&mut self, path: Pathname) {
        self.ask(Ask::Stat { path: path.clone() }, Purpose::ChangeDirectory(path));
    }

    fn remove(&mut self, path: &Pathname, directory: bool) {
        let ask = Ask::Remove { path: self.resolve(path), directory };
        self.ask(ask, Purpose::Plain(Reply::line(250, "Removed.")));
    }

    pub(super) fn make_link(&mut self, target: Pathname, path: &Pathname) {
        if self.may_write() {
            let ask = Ask::MakeLink { target, path: self.resolve(path) };
            self.ask(ask, Purpose::Plain(Reply::line(250, "OK.")));
        }
    }

    pub(super) fn set_file_mode(&mut self, mode: u32, path: &Pathname) {
        if self.may_write() {
            let ask = Ask::SetMode { mode, path: self.resolve(path) };
            self.ask(ask, Purpose::Plain(Reply::line(250, "OK.")));
        }
    }

    pub(super) fn set_modified(&mut self, time: Timestamp, path: &Pathname, done: Reply) {
        if self.may_write() {
            self.ask(Ask::SetModified { time, path: self.resolve(path) }, Purpose::Plain(done));
        }
    }

    pub(super) fn file_answer(&mut self, id: u64, purpose: Purpose, answer: Answer) {
        match (purpose, answer) {
            (Purpose::Plain(reply), Answer::Done) => self.reply(reply),
            (Purpose::Option { name, value }, Answer::Done)
            | (Purpose::Option { name, .. }, Answer::Value(value)) => {
                self.say(200, format!("{name}={value}"));
            }
            (Purpose::MakeDirectory(path), Answer::Done) => {
                self.say(257, [path.quoted(), b" created.".to_vec()].concat());
            }
            (Purpose::Checksum, Answer::Digest(digest)) => self.say(213, digest),
            (Purpose::Checksum, Answer::Processed { timestamp, bytes }) => {
                self.waiting = Some(Waiting { id, purpose: Purpose::Checksum });
                self.reply(status_reply(timestamp, bytes));
            }
            (Purpose::Entries(path), Answer::Entries(lines)) => self.reply_entries(&path, &lines),
            (purpose, Answer::Entry(entry)) => self.entry_answer(purpose, *entry),
            (_, other) => self.misanswered(&other),
        }
    }

    fn entry_answer(&mut self, purpose: Purpose, mut entry: ListingEntry) {
        match purpose {
            Purpose::ChangeDirectory(path) if is_directory(&entry) => {
                self.cwd = path;
                self.say(250, "CWD command successful.");
            }
            Purpose::ChangeDirectory(path) => {
                self.fail(&Error::new(
                    Fault::You,
                    ErrorCode::NotADirectory,
                    format!("{path} is not a directory."),
                ));
            }
            Purpose::RenameFrom(path) => {
                self.next.rename_from = Some(path);
                self.say(350, "RNFR accepted; send RNTO.");
            }
            // RFC 3659 section 4: SIZE is of files.
            Purpose::Size => match entry.size.filter(|_| !is_directory(&entry)) {
                Some(size) => self.say(213, size.to_string()),
                None => {
                    self.fail(&Error::new(Fault::You, ErrorCode::IsADirectory, "SIZE is of files."))
                }
            },
            Purpose::ModifiedTime => match entry.modified {
                Some(time) => self.say(213, time.to_string()),
                None => self.fail(&Error::new(
                    Fault::There,
                    ErrorCode::Unsupported,
                    "This file's time is not known.",
                )),
            },
            Purpose::Facts(path) => {
                let head = Reply::line(250, format!("status of {path}"));
                entry.name = path;
                entry.link = entry.link.filter(|_| self.settings.asks_for_links);
                self.reply_lines(head, |session, out| {
                    entry.write_facts(session.settings.facts, out)
                });
            }
            Purpose::LongList(path) => {
                // Without a clock every time is shown with its year.
                let head = Reply::line(213, format!("status of {path}"));
                entry.link = None;
                self.reply_lines(head, |_, out| {
                    write_long(&entry, Timestamp::from_seconds(i64::MAX), out)
                });
            }
            _ => self.misanswered(&Answer::Entry(Box::new(entry))),
        }
    }

    fn reply_lines(&mut self, mut reply: Reply, write: impl FnOnce(&ServerSession, &mut Vec<u8>)) {
        let mut line = vec![b' '];
        write(self, &mut line);
        reply.lines.extend([line, b"End.".to_vec()]);
        self.reply(reply);
    }

    fn reply_entries(&mut self, path: &Pathname, lines: &[u8]) {
        let mut reply = Reply::line(250, format!("Contents of {path}")).encode();
        // More lines follow.
        reply[3] = b'-';
        reply.extend_from_slice(lines);
        reply.extend(Reply::line(250, "End.").encode());
        self.send(reply);
    }
}

fn is_directory(entry: &ListingEntry) -> bool {
    matches!(
        entry.kind,
        ListingKind::Directory | ListingKind::CurrentDirectory | ListingKind::ParentDirectory
    )
}
