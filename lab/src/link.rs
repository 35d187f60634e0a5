//! An emulated link that goes down with its test, also when the test fails.

use crate::{Running, announced, farline, farline_binary, own_name};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A link, by its name; its sides are `a` and `b`.
#[derive(Debug)]
pub struct LinkUp(String);

impl LinkUp {
    /// Brings up a link of this run's own, called something like `name`, or returns `None`, loudly,
    /// where namespaces cannot be made.
    ///
    /// # Panics
    /// When it fails for another reason.
    pub fn up(name: &str, arguments: &[&str]) -> Option<LinkUp> {
        let name = own_name(name);
        let output = farline()
            .args(["--json", "link", "up", "--name", &name])
            .args(arguments)
            .output()
            .expect("farline runs");
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {output:?}"));
        match said["error"]["code"].as_str() {
            None => Some(LinkUp(name)),
            Some("link-forbidden" | "link-device") => {
                crate::skip(format!("this machine does not let us make a link: {said}"));
                None
            }
            Some(_) => panic!("link up failed: {said}"),
        }
    }

    /// Its whole name; its sides are namespaces and hosts called `NAME-a` and `NAME-b`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A command at one side.
    pub fn command(&self, side: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = farline();
        command.args(["link", "exec", &self.0, side, "--"]).arg(program);
        command
    }

    /// Runs a command at one side to its end.
    ///
    /// # Panics
    /// When it cannot be run.
    pub fn exec(&self, side: &str, command: &[&str]) -> Output {
        self.command(side, command[0]).args(&command[1..]).output().expect("farline runs")
    }

    /// `farline` with `arguments` at one side.
    pub fn farline(&self, side: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(side, farline_binary());
        command.args(arguments);
        command
    }

    /// A node at side b, port 2811, that stores in `root`.
    ///
    /// # Panics
    /// When it does not say that it listens.
    pub fn node(&self, root: &Path, more: &[&str]) -> Running {
        let mut command = self
            .farline("b", &["--json", "serve", "--anonymous", "write", "--listen", "[::]:2811"]);
        announced(command.args(more).arg("--root").arg(root)).0
    }
}

impl Drop for LinkUp {
    fn drop(&mut self) {
        // Down already is as good.
        let _ = farline().args(["link", "down", &self.0]).output();
    }
}
