//! The page that an administrator reads (`docs/how-to/run-a-node.md`): its file starts a node that
//! lets in whom it names, where it says.

use crate::identities::{SECRET, certificates};
use farline_lab::files::{folder, same};
use farline_lab::{Running, error_of_command, farline, farline_binary, succeed};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// The file on the page, without what stands before each line.
fn on_the_page() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/how-to/run-a-node.md");
    let page = fs::read_to_string(page).expect("a page");
    // The last one: those before it are of other sites.
    let (_, file) = page.rsplit_once("      # /etc/farline.toml\n").expect("a file");
    let lines = file.lines().take_while(|line| line.is_empty() || line.starts_with("      "));
    lines.map(|line| line.trim_start().to_owned() + "\n").collect()
}

#[test]
fn the_file_for_the_open_internet_is_one_that_works() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    for name in ["pki", "data/raw", "data/home/alice"] {
        fs::create_dir_all(at(name)).expect("a folder");
    }
    certificates(&at("pki"));
    fs::write(at("data/raw/run1"), "measured").expect("written");
    let file = on_the_page();
    // What is of that host and that user, and nothing else.
    let mut changed = file.clone();
    for (theirs, ours) in [
        ("root = \"/data\"", format!("root = \"{}\"", at("data").display())),
        ("\"[::]:2811\"", "\"127.0.0.1:0\"".to_owned()),
        ("user = \"farline\"", String::new()),
        ("data_ports = \"50000-50100\"", String::new()),
        ("/etc/farline/", format!("{}/", at("pki").display())),
        ("\"$argon2id$v=19$m=19456,t=2,p=1$...\"", format!("\"{SECRET}\"")),
    ] {
        assert!(changed.contains(theirs), "{theirs} is not on the page: {file}");
        changed = changed.replace(theirs, &ours);
    }
    fs::write(at("node.toml"), changed).expect("written");
    let mut command = farline_lab::command(farline_binary());
    command.args(["--json", "serve"]).arg(at("node.toml")).stdin(Stdio::null());
    let (node, line) = Running::begun(&mut command);
    let said: Value = serde_json::from_str(&line).expect("an object");
    let address = said["address"].as_str().expect("an address");
    let cp = |user: &str, password: &str, from: &str, to: &str| {
        let mut command = farline();
        command.args(["--json", "cp", "--tls-ca"]).arg(at("pki/ca.pem"));
        command.env("FARLINE_PASSWORD", password);
        let there = |path: &str| path.replace("NODE", &format!("farlines://{user}@{address}"));
        command.args([there(from), there(to)]);
        command
    };
    let here = at("run1").display().to_string();
    succeed(&mut cp("alice", "secret", "NODE/raw/run1", &here));
    assert!(same(&at("data/raw/run1"), &at("run1")));
    // What tools send to have a service look at its files again does not end it.
    node.signal(Signal::HUP);
    succeed(&mut cp("alice", "secret", &here, "NODE/home/alice/run1"));
    assert!(same(&at("data/home/alice/run1"), &at("run1")));
    // Who has no name or no password stays outside, and who has one where it may not write.
    for (user, password, to, code) in [
        ("alice", "wrong", "NODE/home/alice/x", "login-refused"),
        ("bob", "secret", "NODE/home/alice/x", "login-refused"),
        ("alice", "secret", "NODE/raw/x", "permission-denied"),
    ] {
        let (error, _) = error_of_command(&mut cp(user, password, &here, to));
        assert_eq!(error["code"], code, "{user} to {to}: {error}");
    }
    assert!(!at("data/raw/x").exists() && !at("data/home/alice/x").exists());
}
