//! `farline cp` over a real sshd: straight, through a jump host, past a firewall, and where the
//! other host has no farline.

use farline_lab::{Namespaces, Sshd, assert_same_tree, farline, farline_binary, plant, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two hosts that are this one, `far` and `near`; `hop` is `far` through `near`.
struct Hosts {
    dir: tempfile::TempDir,
    _servers: [Sshd; 2],
    ssh: String,
}

impl Hosts {
    fn new() -> Hosts {
        let dir = tempfile::tempdir().expect("a folder");
        let far = Sshd::start(&dir.path().join("far"), "127.0.0.1", "", &[]);
        let near = Sshd::start(&dir.path().join("near"), "127.0.0.1", "", &[]);
        let config = dir.path().join("ssh_config");
        let lines = [
            far.client_config("far", None),
            near.client_config("near", None),
            far.client_config("hop", Some("near")),
        ];
        std::fs::write(&config, lines.concat()).expect("written");
        let ssh = format!("ssh -F {}", config.display());
        Hosts { dir, _servers: [far, near], ssh }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn cp(&self) -> Command {
        let mut command = farline();
        command
            .args(["--json", "cp", "-r", "--ssh", &self.ssh, "--remote-farline"])
            .arg(farline_binary());
        command
    }
}

/// A file outside of the test's folder, which goes when the test does.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // Never made is as good.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn result(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn failing(command: &mut Command) -> (serde_json::Value, Option<i32>) {
    let output = command.output().expect("runs");
    assert!(!output.status.success(), "{command:?} succeeded");
    (result(&String::from_utf8_lossy(&output.stdout))["error"].clone(), output.status.code())
}

/// Up to `host` and back; returns both results.
fn there_and_back(hosts: &Hosts, host: &str) -> [serde_json::Value; 2] {
    let (source, there, back) =
        (hosts.path("src"), hosts.path(&format!("to-{host}")), hosts.path(&format!("from-{host}")));
    if !source.exists() {
        plant(&source);
    }
    std::fs::create_dir_all(&there).expect("a folder");
    let up = succeed(hosts.cp().arg(&source).arg(format!("{host}:{}/", there.display())));
    assert_same_tree(&source, &there.join("src"));
    let down = succeed(hosts.cp().arg(format!("{host}:{}/src/", there.display())).arg(&back));
    assert_same_tree(&source, &back);
    [result(&up), result(&down)]
}

#[test]
fn a_tree_goes_over_ssh_and_back_on_encrypted_connections() {
    let hosts = Hosts::new();
    for result in there_and_back(&hosts, "far") {
        assert_eq!(
            (&result["data_path"], &result["encrypted"]),
            (&"direct".into(), &true.into()),
            "{result}"
        );
        assert_eq!(
            (&result["verified"], &result["files"]),
            (&true.into(), &207.into()),
            "{result}"
        );
    }
    let plain = succeed(
        hosts
            .cp()
            .arg("--no-encrypt")
            .arg(hosts.path("src/one/small9"))
            .arg(format!("far:{}", hosts.path("x").display())),
    );
    assert_eq!(result(&plain)["encrypted"], false);
    // The home directory is where relative paths begin.
    let home = std::env::var("HOME").expect("a home");
    let name = format!(".farline-test-{}", std::process::id());
    let there = Removed(Path::new(&home).join(&name));
    succeed(hosts.cp().arg(hosts.path("src/one/small9")).arg(format!("far:{name}")));
    let landed = std::fs::read(&there.0);
    succeed(hosts.cp().arg(format!("far:~/{name}")).arg(hosts.path("again")));
    let source = std::fs::read(hosts.path("src/one/small9")).expect("planted");
    assert!(
        landed.is_ok_and(|bytes| bytes == source)
            && std::fs::read(hosts.path("again")).is_ok_and(|bytes| bytes == source)
    );
}

#[test]
fn a_jump_host_stands_between() {
    let hosts = Hosts::new();
    for result in there_and_back(&hosts, "hop") {
        assert_eq!(
            (&result["verified"], &result["encrypted"]),
            (&true.into(), &true.into()),
            "{result}"
        );
    }
}

#[test]
fn what_is_wrong_is_said_once_with_what_to_do() {
    let hosts = Hosts::new();
    std::fs::write(hosts.path("f"), "x").expect("written");
    let cp = |more: &[&str]| {
        failing(
            farline()
                .args(["--json", "cp", "--ssh", &hosts.ssh])
                .args(more)
                .arg(hosts.path("f"))
                .arg("far:/tmp/x"),
        )
    };
    let (error, code) = cp(&["--remote-farline", "/no/such/farline"]);
    assert_eq!((error["code"].as_str(), code), (Some("no-remote-farline"), Some(4)), "{error}");
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("scp") && hint.contains("--remote-farline")),
        "{error}"
    );
    // Nothing of that name in the PATH of a login-less shell either.
    if Command::new("sh")
        .args(["-c", "PATH=$PATH:$HOME/.local/bin:$HOME/.cargo/bin; command -v farline"])
        .output()
        .is_ok_and(|out| !out.status.success())
    {
        let (error, code) = cp(&[]);
        assert_eq!((error["code"].as_str(), code), (Some("no-remote-farline"), Some(4)), "{error}");
    }
    let (error, code) = cp(&["--remote-farline", "/bin/false"]);
    assert_eq!((error["code"].as_str(), code), (Some("remote-farline-failed"), Some(4)), "{error}");
    let nowhere = |ssh: String, host: &str| {
        failing(
            farline()
                .args(["--json", "cp", "--ssh", &ssh])
                .arg(hosts.path("f"))
                .arg(format!("{host}:x")),
        )
    };
    let (error, code) = nowhere(hosts.ssh.clone(), "no-such-host.invalid");
    assert_eq!((error["code"].as_str(), code), (Some("ssh-failed"), Some(5)), "{error}");
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("resolve")),
        "ssh's own words: {error}"
    );
    std::fs::remove_file(hosts.path("far/authorized")).expect("removed");
    let (error, code) = nowhere(format!("{} -o BatchMode=yes", hosts.ssh), "far");
    assert_eq!((error["code"].as_str(), code), (Some("ssh-failed"), Some(6)), "{error}");
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("Permission denied")),
        "{error}"
    );
    let (error, code) = nowhere("/no/such/ssh".to_owned(), "far");
    assert_eq!((error["code"].as_str(), code), (Some("no-ssh"), Some(3)), "{error}");
}

#[test]
fn where_only_ssh_passes_data_goes_through_ssh_and_says_so() {
    let Some(spaces) = Namespaces::pair("reach-ssh") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let sshd = Sshd::start(
        &dir.path().join("sshd"),
        "10.77.0.2",
        "",
        &["ip", "netns", "exec", spaces.there_name()],
    );
    spaces.there(
        "nft add table inet f; nft add chain inet f i \
        '{ type filter hook input priority 0; policy drop; }'",
    );
    // sshd reaches the data port over the loopback device.
    spaces.there(&format!(
        "nft add rule inet f i iifname lo accept; nft add rule inet f i tcp dport {} accept",
        sshd.port
    ));
    let config = dir.path().join("ssh_config");
    std::fs::write(&config, sshd.client_config("far", None)).expect("written");
    let ssh = format!("ssh -F {}", config.display());
    let (source, there, back) =
        (dir.path().join("src"), dir.path().join("there"), dir.path().join("back"));
    plant(&source);
    std::fs::create_dir_all(&there).expect("a folder");
    let cp = |json: &[&str]| {
        let mut command = spaces.run_here(&farline_binary());
        command
            .args(json)
            .args(["cp", "-r", "--streams", "2", "--ssh", &ssh, "--remote-farline"])
            .arg(farline_binary());
        command
    };
    let up = succeed(cp(&["--json"]).arg(&source).arg(format!("far:{}/", there.display())));
    assert_same_tree(&source, &there.join("src"));
    let down = succeed(cp(&["--json"]).arg(format!("far:{}/src/", there.display())).arg(&back));
    assert_same_tree(&source, &back);
    for text in [up, down] {
        let result = result(&text);
        assert_eq!(
            (&result["data_path"], &result["encrypted"], &result["verified"]),
            (&"ssh".into(), &true.into(), &true.into()),
            "{result}"
        );
    }
    let said =
        succeed(cp(&[]).arg(source.join("one/small3")).arg(format!("far:{}/", there.display())));
    assert!(said.contains("through ssh"), "{said}");
}
