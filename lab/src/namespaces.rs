//! Two network namespaces joined by a veth pair, for tests about reachability; they go when the
//! test does.

use crate::{Running, announced, command, farline_binary, own_name, succeed};
use std::path::Path;
use std::process::{Command, Stdio};

/// Two hosts: `here` is 10.77.0.1, `there` is 10.77.0.2, each alone with the other.
#[derive(Debug)]
pub struct Namespaces {
    here: String,
    there: String,
}

impl Namespaces {
    /// Makes them; `None`, with a word on stderr, where this machine does not let us.
    ///
    /// # Panics
    /// When a part of it fails that should not.
    pub fn pair(name: &str) -> Option<Namespaces> {
        if !rustix::process::geteuid().is_root()
            || !works("nft", &["--version"])
            || !works("ip", &["netns", "list"])
        {
            crate::skip(format!("{name} needs root, ip and nft"));
            return None;
        }
        let spaces = Namespaces {
            here: format!("{}-a", own_name(name)),
            there: format!("{}-b", own_name(name)),
        };
        for space in [&spaces.here, &spaces.there] {
            succeed(Command::new("ip").args(["netns", "add", space]));
        }
        let veth =
            ["link", "add", "v", "type", "veth", "peer", "name", "v", "netns", &spaces.there];
        succeed(Command::new("ip").args(["-n", &spaces.here]).args(veth));
        for (space, ip) in [(&spaces.here, "10.77.0.1/24"), (&spaces.there, "10.77.0.2/24")] {
            succeed(Command::new("ip").args(["-n", space, "addr", "add", ip, "dev", "v"]));
            succeed(Command::new("ip").args(["-n", space, "link", "set", "v", "up"]));
            succeed(Command::new("ip").args(["-n", space, "link", "set", "lo", "up"]));
        }
        Some(spaces)
    }

    /// Runs a shell script at this end.
    pub fn here(&self, script: &str) {
        succeed(self.run_here(Path::new("sh")).args(["-ec", script]));
    }

    /// Runs a shell script at the other end.
    pub fn there(&self, script: &str) {
        succeed(self.run_there(Path::new("sh")).args(["-ec", script]));
    }

    /// A command at this end.
    pub fn run_here(&self, program: &Path) -> Command {
        inside(&self.here, program)
    }

    /// The network namespace of this end.
    pub fn here_name(&self) -> &str {
        &self.here
    }

    /// The network namespace of the other end.
    pub fn there_name(&self) -> &str {
        &self.there
    }

    /// A command at the other end.
    pub fn run_there(&self, program: &Path) -> Command {
        inside(&self.there, program)
    }

    /// A `farline serve` of `root` at the other end's port 2811, writable, and its URL.
    pub fn node(&self, root: &Path) -> (Running, String) {
        let mut node = self.run_there(&farline_binary());
        node.args([
            "--json",
            "serve",
            "--anonymous",
            "write",
            "--listen",
            "10.77.0.2:2811",
            "--root",
        ])
        .arg(root);
        announced(&mut node)
    }

    fn remove(&self) {
        for space in [&self.here, &self.there] {
            // Not there is as good.
            let _ = Command::new("ip").args(["netns", "del", space]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.remove();
    }
}

fn inside(space: &str, program: &Path) -> Command {
    let mut inside = command("ip");
    inside.args(["netns", "exec", space]).arg(program);
    inside
}

fn works(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
