//! What a node tells its operator: which limit struck, and for whom. One line a second of each
//! limit at most, or of each way in which it strikes, with how many it stands for, so that who runs
//! into a limit does not fill a disk.

use farline_core::units::escaped;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::sys::lock::lock;

/// Between two lines on one limit.
const EVERY: Duration = Duration::from_secs(1);

/// Takes one line.
type Sink = Box<dyn Fn(&str) + Send + Sync>;

/// The lines on their way to the operator.
#[derive(Default)]
pub(super) struct Notices {
    sink: OnceLock<Sink>,
    /// By the limit, and by the way in which it struck.
    said: Mutex<HashMap<(&'static str, &'static str), Said>>,
}

/// What was said of one limit that struck in one way.
struct Said {
    at: Instant,
    /// How often it struck since.
    more: u64,
}

impl Notices {
    /// Gives lines to `sink` from now on.
    pub(super) fn go_to(&self, sink: Sink) {
        // Who listens first keeps the place.
        let _ = self.sink.set(sink);
    }

    /// Says that the limit of this name struck.
    pub(super) fn say(&self, limit: &'static str, what: impl fmt::Display) {
        self.say_of(limit, "", what);
    }

    /// The same of a limit that strikes in several ways: no line on another keeps back the one on
    /// this `way`.
    pub(super) fn say_of(&self, limit: &'static str, way: &'static str, what: impl fmt::Display) {
        let Some(sink) = self.sink.get() else { return };
        let mut said = lock(&self.said);
        let more = match said.get_mut(&(limit, way)) {
            Some(before) if before.at.elapsed() < EVERY => {
                before.more += 1;
                return;
            }
            before => before.map_or(0, |before| before.more),
        };
        said.insert((limit, way), Said { at: Instant::now(), more: 0 });
        drop(said);
        let what = what.to_string();
        let what = escaped(&what);
        match more {
            0 => sink(&format!("{limit}: {what}")),
            more => sink(&format!("{limit}: {what} (and {more} more since the last such line)")),
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pacing_limits::PacingLimit;
    use farline_core::gridftp::server::SessionLimit;
    use std::path::Path;
    use std::sync::Arc;

    /// The names of limits in calls of `call` in a source.
    fn names<'a>(source: &'a str, call: &str) -> Vec<&'a str> {
        let name = |after: &'a str| after.trim_start().strip_prefix('"')?.split('"').next();
        source.split(call).skip(1).filter_map(name).collect()
    }

    #[test]
    fn each_name_in_the_log_stands_in_the_documents() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let documents = std::fs::read_to_string(top.join("../docs/security.md")).expect("text");
        let sources = std::fs::read_dir(top.join("src/node")).expect("a folder");
        let files = sources.map(|file| file.expect("a file").path());
        let files = files.filter(|path| path.is_file() && !path.ends_with("notices.rs"));
        let sources: Vec<String> =
            files.map(|path| std::fs::read_to_string(path).expect("text")).collect();
        let said = |call| sources.iter().flat_map(move |source| names(source, call));
        let mut all: Vec<&str> = said("notices.say(").chain(said("say_limit(")).collect();
        all.extend([SessionLimit::CommandLine, SessionLimit::CommandQueue].map(SessionLimit::name));
        all.extend(PacingLimit::ALL.map(PacingLimit::name));
        assert!(all.len() > 20, "{all:?}");
        for name in all {
            assert!(documents.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn a_limit_that_strikes_often_is_said_once_a_second() {
        let notices = Notices::default();
        notices.say("sessions", "nobody listens yet");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lines);
        notices.go_to(Box::new(move |line| lock(&to).push(line.to_owned())));
        for i in 0..1_000 {
            notices.say("sessions", format!("{i}\u{1b}[2J"));
        }
        notices.say("logins", "another limit");
        for _ in 0..2 {
            notices.say_of("logins", "kept", "another way");
        }
        let said = ["sessions: 0\\x1b[2J", "logins: another limit", "logins: another way"];
        assert_eq!(*lock(&lines), said);
    }
}
