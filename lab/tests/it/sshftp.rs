//! `sshftp://`: a globus-gridftp-server that a real sshd starts, as `globus-url-copy` has it.

use farline_lab::files::{folder, random, same, text};
use farline_lab::{
    Sshd, error_of_command, farline, farline_binary, globus_url_copy, json_of, node,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A host with an sshd, and what its users start there.
pub(crate) struct Host {
    dir: tempfile::TempDir,
    sshd: Sshd,
}

/// Runs `server`, which an ordinary user's login does not find in Debian.
fn script(server: &str) -> String {
    format!("#!/bin/sh\nPATH=$PATH:/usr/sbin exec {server}\n")
}

impl Host {
    /// Whose script `sshftp` runs `server`.
    fn running(server: &str) -> Host {
        let dir = folder();
        let sshd = Sshd::start(&dir.path().join("ssh"), "127.0.0.1", "", &[]);
        let host = Host { dir, sshd };
        fs::write(host.at("config"), host.sshd.client_config("127.0.0.1", None)).expect("written");
        fs::write(host.at("sshftp"), script(server)).expect("written");
        fs::set_permissions(host.at("sshftp"), fs::Permissions::from_mode(0o755)).expect("set");
        host
    }

    /// With a server of the Globus project's.
    fn of_globus() -> Host {
        // It takes root for nobody in particular unless it is told to leave that to ssh.
        let is_root = rustix::process::geteuid().is_root();
        let as_root = if is_root { " -allow-root -auth-level 0" } else { "" };
        Host::running(&format!("globus-gridftp-server -ssh{as_root}"))
    }

    /// With a Farline node.
    pub(crate) fn of_farline() -> Host {
        Host::running(&format!("{} serve --stdio", text(&farline_binary())))
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("sshftp://127.0.0.1:{}{}", self.sshd.port, self.at(name).display())
    }

    fn cp(&self, more: &[&str]) -> Command {
        let mut command = farline();
        command
            .env("XDG_STATE_HOME", self.at("state"))
            .env("GLOBUS_REMOTE_SSHFTP", self.at("sshftp"));
        let ssh = format!("ssh -F {}", self.at("config").display());
        command.args(["--json", "cp", "--ssh", &ssh]).args(more);
        command
    }

    /// Globus' own client, whose ssh finds this host.
    pub(crate) fn guc(&self) -> Command {
        let mut command = globus_url_copy();
        // ssh reads options behind the host too, where Globus' own script puts this.
        let there = format!("-F {} {}", self.at("config").display(), self.at("sshftp").display());
        command.env("GLOBUS_REMOTE_SSHFTP", there);
        command
    }
}

#[test]
fn files_go_both_ways_to_a_globus_server_over_ssh() {
    let host = Host::of_globus();
    fs::write(host.at("file"), random(31, 9_000_001)).expect("written");
    for streams in ["1", "4"] {
        let (up, back) = (format!("up{streams}"), format!("back{streams}"));
        let (file, back_at) = (host.at("file"), host.at(&back));
        let ways =
            [(text(&file).to_owned(), host.url(&up)), (host.url(&up), text(&back_at).into())];
        for (from, to) in ways {
            let said = json_of(&mut host.cp(&["--streams", streams, &from, &to]));
            let ended = (&said["encrypted"], &said["data_path"], &said["verified"]);
            assert_eq!(ended, (&false.into(), &"direct".into(), &true.into()), "{said}");
            assert_eq!(said["streams"].to_string(), streams, "{said}");
        }
        assert!(same(&file, &host.at(&up)) && same(&file, &back_at), "{streams} streams");
    }
}

#[test]
fn trees_go_both_ways_to_a_globus_server_over_ssh() {
    let host = Host::of_globus();
    fs::create_dir_all(host.at("tree/deep/er")).expect("a folder");
    for (index, name) in ["a", "b c", "deep/d", "deep/er/e"].iter().enumerate() {
        let bytes = random(index as u64, index * 700_000);
        fs::write(host.at("tree").join(name), bytes).expect("written");
    }
    fs::create_dir(host.at("there")).expect("a folder");
    let (tree, back) = (host.at("tree"), host.at("back"));
    let up = json_of(&mut host.cp(&["-r", text(&tree), &host.url("there/")]));
    let down = json_of(&mut host.cp(&["-r", &host.url("there/tree/"), text(&back)]));
    for said in [up, down] {
        assert_eq!((said["files"].as_u64(), &said["verified"]), (Some(4), &true.into()), "{said}");
    }
    for copy in [host.at("there/tree"), back] {
        farline_lab::succeed(Command::new("diff").arg("-r").arg(&tree).arg(copy));
    }
    // What is there is left alone, by its size and time, and wildcards are looked up.
    let again = json_of(&mut host.cp(&["--skip-same", &host.url("there/tree/[ab]*"), text(&tree)]));
    assert_eq!(again["moved_bytes"].as_u64(), Some(0), "{again}");
}

#[test]
fn a_farline_node_behind_sshftp_encrypts() {
    let host = Host::of_farline();
    fs::write(host.at("file"), random(32, 3_000_001)).expect("written");
    let (file, back) = (host.at("file"), host.at("back"));
    for (from, to) in
        [(text(&file).to_owned(), host.url("up")), (host.url("up"), text(&back).to_owned())]
    {
        let said = json_of(&mut host.cp(&[&from, &to]));
        assert_eq!((&said["encrypted"], &said["verified"]), (&true.into(), &true.into()), "{said}");
    }
    assert!(same(&file, &host.at("up")) && same(&file, &back));
}

#[test]
fn what_sshftp_cannot_do_is_one_clear_error() {
    let host = Host::of_globus();
    fs::write(host.at("file"), b"there").expect("written");
    fs::create_dir(host.at("root")).expect("a folder");
    let (_node, node) = node(&host.at("root"), "write", &[]);
    let (there, here) = (host.url("file"), host.at("got"));
    let refused = |command: &mut Command| {
        let (error, exit) = error_of_command(command);
        let words = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (words("code"), exit, format!("{}; {}", words("message"), words("hint")))
    };
    // Between two other hosts, either way.
    for (from, to) in [(there.clone(), format!("{node}/x")), (format!("{node}/x"), host.url("y"))] {
        let (code, exit, said) = refused(&mut host.cp(&[&from, &to]));
        assert_eq!((code.as_str(), exit), ("third-party", 2), "{said}");
        assert!(said.contains("over ssh, by this host alone"), "{said}");
        assert!(said.contains("copy to this host first"), "{said}");
    }
    let (code, exit, said) = refused(&mut host.cp(&["--encrypt", &there, text(&here)]));
    assert_eq!((code.as_str(), exit), ("cannot-encrypt", 6), "{said}");
    let (code, exit, said) = refused(&mut host.cp(&[&host.url("missing"), text(&here)]));
    assert_eq!((code.as_str(), exit), ("path-not-found", 2), "{said}");
    // A host on which nobody has set one up, and one whose server does not begin.
    let gone = host.at("nowhere");
    let mut command = host.cp(&[&there, text(&here)]);
    let (code, exit, said) = refused(command.env("GLOBUS_REMOTE_SSHFTP", &gone));
    assert_eq!((code.as_str(), exit), ("no-sshftp", 4), "{said}");
    assert!(said.contains("no GridFTP server that ssh could start"), "{said}");
    assert!(said.contains("globus-gridftp-server-enable-sshftp"), "{said}");
    fs::write(host.at("sshftp"), "#!/bin/sh\necho no licence >&2\nexit 3\n").expect("written");
    let (code, exit, said) = refused(&mut host.cp(&[&there, text(&here)]));
    assert_eq!((code.as_str(), exit), ("no-sshftp", 4), "{said}");
    assert!(said.contains("exit status: 3") && said.contains("no licence"), "{said}");
    assert!(!here.exists());
}
