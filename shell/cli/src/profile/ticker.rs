//! What a profile says while something long runs: once a second, in one line on a terminal and in
//! lines of their own elsewhere.

use crate::output::Output;
use crate::progress::columns;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);

/// Speaks until it is dropped.
pub(super) struct Ticker(Option<(Sender<()>, JoinHandle<()>)>);

impl Ticker {
    /// Says `words` of the seconds since now, once a second; nothing when asked to be quiet, nor
    /// with `--json` where nobody looks.
    pub(super) fn start(output: &Output, words: impl Fn(f64) -> String + Send + 'static) -> Ticker {
        let on_terminal = io::stderr().is_terminal();
        if output.quiet() || (output.json() && !on_terminal) {
            return Ticker(None);
        }
        let (stop, stopped) = channel();
        let began = Instant::now();
        let speaking = std::thread::spawn(move || {
            let mut spoke = false;
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                spoke = true;
                say(&words(began.elapsed().as_secs_f64()), on_terminal);
            }
            if spoke && on_terminal {
                // What comes next begins at the edge.
                let _ = io::stderr().write_all(b"\r\x1b[K");
            }
        });
        Ticker(Some((stop, speaking)))
    }
}

/// A stderr that is gone is no reason to end a profile.
fn say(words: &str, on_terminal: bool) {
    let line = if on_terminal {
        let short: String = words.chars().take(columns().saturating_sub(1)).collect();
        format!("\r\x1b[K{short}")
    } else {
        format!("{words}\n")
    };
    let _ = io::stderr().write_all(line.as_bytes());
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some((stop, speaking)) = self.0.take() {
            drop(stop);
            let _ = speaking.join();
        }
    }
}
