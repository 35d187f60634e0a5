//! What a session asks for, done on a thread of its own by the rights of whose it is.

use super::Shared;
use super::accounts::Account;
use super::checksum::{self, WantedChecksum};
use super::data::DataPlane;
use super::files::Files;
use super::list_memory::{ListShare, say_full};
use super::quota::QuotaShare;
use super::reporter::Reporter;
use super::tree_state::TreeState;
use crate::mover::Cancel;
use crate::sys::lock::lock;
use farline_core::gridftp::control_listing;
use farline_core::gridftp::server::{Answer, Ask};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// What came of a job, by its number, with the memory that a list takes until it is sent.
pub(super) type JobResult = (u64, Answer, Option<ListShare>);

/// What one ask needs on its thread.
pub(super) struct Job {
    pub(super) shared: Arc<Shared>,
    pub(super) data: Arc<Mutex<DataPlane>>,
    pub(super) cancel: Cancel,
    /// The client's address.
    pub(super) client: IpAddr,
}

/// Whether it opens files or folders that nothing else has counted, and if so, whether for a
/// moment.
fn opens(ask: &Ask) -> Option<bool> {
    match ask {
        Ask::Checksum { .. } | Ask::List { .. } => Some(false),
        Ask::MakeDirectory { .. }
        | Ask::MakeLink { .. }
        | Ask::Remove { .. }
        | Ask::Rename { .. }
        | Ask::SetMode { .. }
        | Ask::SetModified { .. }
        | Ask::Stat { .. } => Some(true),
        _ => None,
    }
}

/// Does `work` on a session's data as the owner of its files.
pub(super) fn as_owner(data: &Mutex<DataPlane>, work: impl FnOnce(&mut DataPlane)) {
    let mut data = lock(data);
    // What is put away is put away by whom the node runs as, where it cannot be the owner any more.
    let _guard = data.account().enter();
    work(&mut data);
}

/// Puts away what a session of `account` has begun in the file system, as the owner of its files:
/// a login begins it anew.
fn end_tree(data: &Mutex<DataPlane>, account: &Account) -> Result<(), Error> {
    let _as_owner = account.enter()?;
    let mut data = lock(data);
    *data.tree() = TreeState::default();
    Ok(())
}

impl Job {
    /// Does it and says what came of it, markers on the way included.
    pub(super) fn answer(self, id: u64, ask: Ask, answers: mpsc::UnboundedSender<JobResult>) {
        // The session may be gone by then, and nobody waits.
        let say = move |answer: Answer, share| drop(answers.send((id, answer, share)));
        let list = say.clone();
        let tell = Arc::new(move |answer: Answer| say(answer, None));
        let account = lock(&self.data).account().clone();
        let entered = match &ask {
            // Whoever comes is looked up by whom the node runs as: its secrets are that user's.
            Ask::Login { .. } => end_tree(&self.data, &account).map(|()| None),
            _ => account.enter(),
        };
        let _as_owner = match entered {
            Ok(guard) => guard,
            Err(error) => return tell(Answer::Failed(error)),
        };
        let reserve = |is_momentary| self.shared.reserve_look(is_momentary, self.client);
        let _reserved = match opens(&ask).map(reserve).transpose() {
            Ok(reserved) => reserved,
            Err(error) => return tell(Answer::Failed(error)),
        };
        let reporter = || Reporter::new(tell.clone(), Arc::clone(&self.shared.ticker));
        let answer = match ask {
            Ask::Transfer(request) => {
                let mut data = lock(&self.data);
                data.transfer(&request, &self.cancel, &reporter())
                    .map(|bytes| Answer::Finished { bytes })
            }
            // It needs no data connection, and whoever clears those away need not wait for it.
            Ask::Checksum { algorithm, offset, length, markers, path } => {
                let wanted = WantedChecksum { algorithm, offset, length, markers, path };
                let client = self.client.to_canonical();
                let say = |error: &Error| {
                    self.shared.notices.say("sum_holes", format_args!("{client}: {error}"));
                };
                checksum::compute(&account.access, &wanted, &self.cancel, (&reporter(), say))
                    .map(Answer::Digest)
            }
            Ask::List { path, facts } => {
                let mut share = self.shared.lists.share();
                let entries =
                    Files::new(&account.access).list(&path, &mut |taken| share.set(taken));
                // Written here: of many it takes long, and all others' sessions would wait.
                match entries.and_then(|entries| control_listing(entries, facts)) {
                    Ok(lines) => return list(Answer::Entries(lines), Some(share)),
                    Err(error) => {
                        say_full(&self.shared.notices, self.client.to_canonical(), &error);
                        Err(error)
                    }
                }
            }
            other => self.quick(other),
        };
        tell(answer.unwrap_or_else(Answer::Failed));
    }

    /// The same of a login that has its turn, for which others wait `within` that time.
    pub(super) fn answer_in_turn(
        self,
        id: u64,
        ask: Ask,
        within: Duration,
        answers: mpsc::UnboundedSender<JobResult>,
    ) {
        let (shared, client) = (Arc::clone(&self.shared), self.client.to_canonical());
        let began = Instant::now();
        self.answer(id, ask, answers);
        let took = began.elapsed();
        // Its client may be gone since, and then nothing else tells why others had no turn.
        if took >= within {
            let took = Span::from(took);
            let what = format_args!("{client} kept its turn to log in for {took}");
            shared.notices.say_of("login_timeout", "kept", what);
        }
    }

    /// Says that a login has had no turn `within` that time: what others wait for may be stuck.
    pub(super) fn had_no_turn(
        &self,
        id: u64,
        within: Duration,
        answers: &mpsc::UnboundedSender<JobResult>,
    ) {
        let (client, within) = (self.client.to_canonical(), Span::from(within));
        let what = format_args!("{client} had no turn to log in within {within}");
        self.shared.notices.say_of("login_timeout", "no turn", what);
        let words = format!("No turn to log in within {within}; try again later.");
        let error = Error::new(Fault::There, ErrorCode::ServerClosing, words);
        // The session may be gone by then.
        drop(answers.send((id, Answer::Failed(error), None)));
    }

    fn quick(&self, ask: Ask) -> Result<Answer, Error> {
        let done = |()| Answer::Done;
        let mut data = lock(&self.data);
        let access = data.account().access.clone();
        let files = Files::new(&access);
        match ask {
            Ask::Active { addresses } => data.set_targets(addresses).map(done),
            Ask::Authenticate { how } => data.authenticate(how).map(done),
            Ask::Login { user, password } => {
                data.log_in(&user, &password)?;
                Ok(Answer::LoggedIn(data.account().access.rights()))
            }
            Ask::MakeDirectory { path } => {
                let share = data.account().take(0, 1, &self.shared)?;
                files.make_directory(&path)?;
                share.inspect(QuotaShare::keep_all);
                Ok(Answer::Done)
            }
            Ask::MakeLink { target, path } => {
                let share = data.account().take(0, 1, &self.shared)?;
                files.make_link(&target, &path)?;
                share.inspect(QuotaShare::keep_all);
                Ok(Answer::Done)
            }
            Ask::NetStack { name } => data.choose_driver(&name).map(done),
            Ask::Passive { family, .. } => {
                data.passive(family).map(|address| Answer::Passive(vec![address]))
            }
            Ask::Protect { private } => data.protect(private).map(done),
            Ask::Remove { path, directory: true } => files.remove_directory(&path).map(done),
            Ask::Remove { path, directory: false } => files.remove_file(&path).map(done),
            Ask::Rename { from, to } => files.rename(&from, &to).map(done),
            Ask::SetMode { mode, path } => files.set_mode(&path, mode).map(done),
            Ask::SetModified { time, path } => files.set_modified(&path, time).map(done),
            Ask::SetOption { name, value } if self.shared.drivers.find(&name).is_some() => {
                data.take_channel(&name, &value).map(Answer::Value)
            }
            Ask::SetOption { name, value } if name == "path" => {
                data.tell_path(&value).map(Answer::Value)
            }
            Ask::SetOption { name, value } if name == "line" => {
                data.grant_line(&value).map(Answer::Value)
            }
            Ask::SetOption { name, value } => data.set_option(&name, &value).map(done),
            Ask::Stat { path } => files.stat(&path).map(|entry| Answer::Entry(Box::new(entry))),
            _ => Err(Error::new(Fault::Bug, ErrorCode::Unsupported, "this node does not do that")),
        }
    }
}
