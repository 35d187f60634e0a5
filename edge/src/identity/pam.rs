//! Passwords that this host's PAM knows. It is asked by processes that began before the node
//! confined itself: what a module needs, a database or a server of names, is not for a node to
//! reach.

use crate::reexec;
use crate::sys::lock::lock;
use crate::sys::pam::Pam;
use farline_core::units::{Error, Span};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Processes that ask, for each service: so many logins are looked at at once.
const ASKERS: usize = 4;
/// How many times the time that a client has to log in a module may take: what says nothing for
/// longer is stuck, and has the turn of others.
const STUCK_AFTER: u32 = 5;
/// That time, where nobody said it.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The user that nobody is, to take as long for who is not known.
const NOBODY: &str = "nobody-at-all";

/// A process that asks PAM until its standard input ends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Of this service, whose answer takes so long at most.
    Ask { service: String, within: Duration },
}

impl reexec::Role for Role {
    const MODULE: &'static str = "pam";
}

/// What is asked, a line.
#[derive(Serialize, Deserialize)]
struct Question {
    user: String,
    password: Vec<u8>,
}

/// What PAM says, a line: whether that is so, or why it could not be asked.
type Answer = Result<bool, String>;

/// Plays the process. A thread that is stuck in a module cannot be ended: this program then begins
/// anew around it, with the same pipes, and with rights that a confined node could not give it.
pub(crate) fn play(role: Role) -> io::Result<()> {
    let Role::Ask { service, within } = &role;
    let pam = Arc::new(Pam::load());
    for line in io::stdin().lines() {
        let (line, pam, service) = (line?, Arc::clone(&pam), service.clone());
        let (tell, told) = mpsc::channel();
        // Nobody hears what comes after its time.
        thread::spawn(move || drop(tell.send(answer(&line, &pam, &service))));
        let said = told.recv_timeout(*within);
        let is_stuck = said.is_err();
        let silence = || format!("PAM said nothing within {}", Span::from(*within));
        let said: Answer = said.unwrap_or_else(|_| Err(silence()));
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&said)?)?;
        out.flush()?;
        if is_stuck {
            // Also where the file of this program has been replaced since.
            let again = reexec::command(Some(Path::new("/proc/self/exe")), &role);
            return Err(again.map_err(|error| io::Error::other(error.message))?.exec());
        }
    }
    Ok(())
}

fn answer(line: &str, pam: &Result<Pam, String>, service: &str) -> Answer {
    match (serde_json::from_str::<Question>(line), pam) {
        (Ok(asked), Ok(pam)) => pam.is(OsStr::new(service), &asked.user, &asked.password),
        (Err(error), _) => Err(error.to_string()),
        (_, Err(why)) => Err(why.clone()),
    }
}

/// A service of PAM's, by its name in `/etc/pam.d` or the path of its file.
#[derive(Debug)]
pub(super) struct PamService {
    service: String,
    /// How long an answer may take.
    within: OnceLock<Duration>,
    askers: [Mutex<Option<Asker>>; ASKERS],
    /// A turn for each: whoever waits for one takes no thread.
    turns: Arc<Semaphore>,
}

#[derive(Debug)]
struct Asker {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Asker {
    fn start(service: &PamService) -> Result<Asker, Error> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::new(
                farline_core::units::Fault::Here,
                farline_core::units::ErrorCode::AgentStart,
                format!("starting the process that asks PAM: {error}"),
            )
        };
        let within = *service.within.get_or_init(|| LOGIN_TIMEOUT * STUCK_AFTER);
        let role = Role::Ask { service: service.service.clone(), within };
        let mut command = reexec::command(None, &role)?;
        // Out of the terminal's reach: a ctrl-C there is the node's, which drains.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().map_err(|error| failed(&error))?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(to), Some(from)) => Ok(Asker { process, to, from: BufReader::new(from) }),
            _ => Err(failed(&"it has no pipes")),
        }
    }

    fn ask(&mut self, question: &Question) -> io::Result<Answer> {
        writeln!(self.to, "{}", serde_json::to_string(question)?)?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl PamService {
    /// # Errors
    /// In words, when it is neither a name nor an absolute path.
    pub(super) fn named(service: &str) -> Result<PamService, String> {
        let is_path = service.starts_with('/');
        if service.is_empty() || (!is_path && service.contains('/')) {
            return Err(
                "pam: is followed by a service of /etc/pam.d, or by a file's absolute path"
                    .to_owned(),
            );
        }
        Ok(PamService {
            service: service.to_owned(),
            within: OnceLock::new(),
            askers: Default::default(),
            turns: Arc::new(Semaphore::new(ASKERS)),
        })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.service
    }

    /// A turn at each of its processes.
    pub(super) fn turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turns)
    }

    /// Begins its processes, if they have not begun, for clients that have `login_timeout` to log
    /// in.
    ///
    /// # Errors
    /// When this program cannot be started again.
    pub(super) fn start(&self, login_timeout: Duration) -> Result<(), Error> {
        self.within.get_or_init(|| login_timeout.saturating_mul(STUCK_AFTER));
        for asker in &self.askers {
            let mut asker = lock(asker);
            if asker.is_none() {
                *asker = Some(Asker::start(self)?);
            }
        }
        Ok(())
    }

    /// Whether `user`, or nobody, has that password.
    ///
    /// # Errors
    /// In words, when PAM cannot be asked.
    pub(super) fn is(&self, user: Option<&str>, password: &[u8]) -> Answer {
        let question =
            Question { user: user.unwrap_or(NOBODY).to_owned(), password: password.to_vec() };
        let mut asker = self.free_one();
        if asker.is_none() {
            *asker = Some(Asker::start(self).map_err(|error| error.message)?);
        }
        let answer = asker.as_mut().map(|asker| asker.ask(&question));
        match answer {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                *asker = None;
                Err(format!("the process that asks PAM: {error}"))
            }
            None => Err("no process asks PAM".to_owned()),
        }
    }

    fn free_one(&self) -> MutexGuard<'_, Option<Asker>> {
        let free = self.askers.iter().find_map(|asker| asker.try_lock().ok());
        free.unwrap_or_else(|| lock(&self.askers[0]))
    }
}
