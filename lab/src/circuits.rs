//! A network of several sites with a calendar and an agent in it: what books circuits and makes
//! them.

use crate::{Running, farline};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A network that is up; taken down when dropped.
#[derive(Debug)]
pub struct BookedNetwork {
    /// Its name.
    pub name: String,
    /// The site where its calendar and agent are.
    pub seat: String,
    state: PathBuf,
    /// The calendar.
    pub calendar: Option<Running>,
    /// The agent.
    pub agent: Option<Running>,
    url: String,
    pin: String,
}

/// Why there is no network.
#[derive(Debug)]
pub enum NoNetwork {
    /// The machine does not let us make one.
    NotHere(String),
    /// It failed.
    Failed(String),
}

impl BookedNetwork {
    /// Brings up `network`, which is built in or a file, with a calendar and an agent in its first
    /// site, whose state is below `folder`; `best_effort` is what links carry of other traffic.
    ///
    /// # Errors
    /// When the machine does not let us, or something fails.
    pub fn up(network: &str, folder: &Path, best_effort: &str) -> Result<Self, NoNetwork> {
        let mut command = farline();
        command.args(["--json", "net", "up", network, "--best-effort", best_effort]);
        let output = command.output().map_err(|error| NoNetwork::Failed(error.to_string()))?;
        let said: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| NoNetwork::Failed(format!("{error}: {output:?}")))?;
        match said["error"]["code"].as_str() {
            None => {}
            Some("link-forbidden" | "link-device") => {
                return Err(NoNetwork::NotHere(said["error"]["message"].to_string()));
            }
            Some(_) => return Err(NoNetwork::Failed(said["error"].to_string())),
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let first = &said["sites"][0];
        let mut up = BookedNetwork {
            name: text(&said["name"]),
            seat: text(&first["name"]),
            state: folder.join("state"),
            calendar: None,
            agent: None,
            url: String::new(),
            pin: String::new(),
        };
        let listen = format!("{}:2812", text(&first["address"]));
        up.serve(network, &listen)?;
        Ok(up)
    }

    fn serve(&mut self, network: &str, listen: &str) -> Result<(), NoNetwork> {
        let mut serve = self.inside(&self.seat);
        serve.args(["--json", "calendar", "serve", "--network", network, "--listen", listen]);
        let (running, line) = Running::begun(serve.arg("--state").arg(&self.state));
        self.calendar = Some(running);
        let said: Value = serde_json::from_str(&line)
            .map_err(|error| NoNetwork::Failed(format!("the calendar: {error}: {line}")))?;
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        (self.url, self.pin) = (text("url"), text("fingerprint"));
        Ok(())
    }

    /// Starts the agent; returns the steps that it tells.
    pub fn start_agent(&mut self) -> Receiver<Value> {
        let mut command = self.farline(&self.seat);
        command.args(["agent", "--network", &self.name]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("farline starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        self.agent = Some(Running(child));
        let (sender, steps) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // Who does not listen misses nothing.
                let _ = sender.send(serde_json::from_str::<Value>(&line).unwrap_or_default());
            }
        });
        steps
    }

    /// `farline` within `site`.
    pub fn inside(&self, site: &str) -> Command {
        let mut command = self.exec(site);
        command.arg(crate::farline_binary());
        command
    }

    /// A command of `site`, whose program is still to be named.
    pub fn exec(&self, site: &str) -> Command {
        let mut command = farline();
        command.args(["net", "exec", &self.name, site, "--"]);
        command
            .env("FARLINE_CALENDAR", &self.url)
            .env("FARLINE_CALENDAR_PIN", &self.pin)
            .env("FARLINE_CALENDAR_TOKEN_FILE", self.state.join("admin.token"));
        command
    }

    /// `farline --json` within `site`.
    pub fn farline(&self, site: &str) -> Command {
        let mut command = self.inside(site);
        command.arg("--json");
        command
    }

    /// What `farline --json WORDS` says in the calendar's site.
    ///
    /// # Panics
    /// When it says no object.
    pub fn told(&self, words: &[&str]) -> Value {
        let output = self.farline(&self.seat).args(words).output().expect("farline starts");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"))
    }

    /// What `farline net show` says.
    ///
    /// # Panics
    /// When it says nothing.
    pub fn shown(&self) -> Value {
        let output = farline().args(["--json", "net", "show", &self.name]).output().expect("runs");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

impl Drop for BookedNetwork {
    fn drop(&mut self) {
        self.agent = None;
        self.calendar = None;
        let _ = farline().args(["net", "down", &self.name]).output();
    }
}
