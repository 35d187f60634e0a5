//! What an identity is refused, and what its operator reads of it: more sessions than it may have,
//! tests of the line, certificates that do not count, data to a third host. One clear reply, and
//! one line in the log each. And what a tree may not reach past its user's grants.

use crate::identities::{SECRET, Site, code_of, token, token_of};
use farline_lab::{Running, error_of_command, farline, succeed, wait_for};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Between two lines of one kind in a log a second goes by, and a little for a busy machine.
const APART: Duration = Duration::from_millis(1_300);

/// Logs in so often as alice at once, and stays; returns how each login was answered.
fn sessions(site: &Site, count: usize) -> (Running, Vec<String>) {
    let port = site.address.rsplit(':').next().expect("a port");
    let mut command = farline_lab::command("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/sessions.py"));
    command.args(["localhost", port]).arg(site.at("pki/ca.pem")).args(["alice", "secret"]);
    command.arg(count.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("python starts"));
    let mut lines = BufReader::new(running.0.stdout.take().expect("piped")).lines();
    let said = (0..count).map(|_| lines.next().expect("a line").expect("text")).collect();
    (running, said)
}

#[test]
fn an_identity_has_so_many_sessions_and_hears_of_it() {
    let site = Site::with("sessions = 2");
    let (held, said) = sessions(&site, 3);
    let is_in = |line: &String| line.starts_with("230");
    assert_eq!(said.iter().map(is_in).collect::<Vec<_>>(), [true, true, false], "{said:?}");
    assert_eq!(said[2], "421 Too many sessions of yours; try again later.");
    let copy = |user: &str, retry: &str| {
        let mut command = site.cp();
        command.args(["--retry-for", retry]).arg(site.url(user, "/raw/data"));
        command.arg(site.at("got"));
        command
    };
    // Farline's own client shows the same words; others' places are theirs.
    let (error, exit) = error_of_command(&mut copy("alice@", "0s"));
    let message = error["message"].as_str().expect("words");
    assert!(message.contains("Too many sessions of yours"), "{exit}: {error}");
    assert!(!site.at("got").exists());
    succeed(&mut copy("slow@", "0s"));
    let line = "identity_sessions: alice has 2 sessions already";
    wait_for("a line in the log", || site.log().iter().any(|said| said.contains(line)));
    // One that waits comes in when there is room.
    let mut waiting = copy("alice@", "60s");
    waiting.stdout(Stdio::piped()).stderr(Stdio::null());
    let waiting = Running(waiting.spawn().expect("farline starts"));
    std::thread::sleep(Duration::from_millis(500));
    drop(held);
    let (status, said, _) = waiting.finish();
    assert!(status.success(), "{said}");
    succeed(Command::new("cmp").arg(site.at("got")).arg(site.at("root/raw/data")));
}

/// A service of PAM's in `pam`, next to a file `stuck`, that has `script` run there; returns who
/// has his password by it.
fn asked_by_script(pam: &Path, script: &str) -> String {
    let (at, folder) = (|name: &str| pam.join(name), pam.display());
    let script = format!("#!/bin/sh\ncd \"{folder}\" && touch began.$$\n{script}\n");
    fs::write(at("check"), script).expect("written");
    fs::write(at("stuck"), "").expect("written");
    fs::set_permissions(at("check"), fs::Permissions::from_mode(0o700)).expect("set");
    let rules = format!(
        "auth required pam_exec.so quiet expose_authtok {folder}/check\n\
         account required pam_permit.so\n"
    );
    fs::write(at("service"), rules).expect("written");
    format!(
        "[[identity]]\nname = 'pat'\npassword = 'pam:{folder}/service'\n\
         paths = {{ '/raw' = 'read' }}\n"
    )
}

/// How often that script began.
fn began(pam: &Path) -> usize {
    marks(pam, "began.")
}

/// How many files in `folder` have a name that begins so.
fn marks(folder: &Path, prefix: &str) -> usize {
    let names = fs::read_dir(folder).expect("a folder").map(|name| name.expect("a name"));
    names.filter(|name| name.file_name().to_string_lossy().starts_with(prefix)).count()
}

/// Four clients of his at once, which is as many as PAM is asked for.
fn four_as_pat(site: &Site) -> Vec<Running> {
    let client = |index: u32| {
        let mut curl = site.curl();
        curl.args(["--user", "pat:open", "-o"]).arg(site.at(&format!("got{index}")));
        curl.arg(format!("ftp://{}/raw/data", site.address));
        Running(curl.spawn().expect("curl starts"))
    };
    (0..4).map(client).collect()
}

#[test]
fn a_stuck_module_of_pams_gives_its_turns_back() {
    let pam = tempfile::tempdir().expect("a folder");
    // Who was asked about while `stuck` was there is stuck for good.
    let script =
        "if [ -e stuck ]; then touch hangs.$$; while [ -e service ]; do sleep 0.2; done; fi";
    let pat = asked_by_script(pam.path(), script);
    let site = Site::with_node("login_timeout = 2\n", &pat);
    let stuck = four_as_pat(&site);
    wait_for("four that are stuck", || marks(pam.path(), "hangs.") == 4);
    fs::remove_file(pam.path().join("stuck")).expect("it was there");
    for mut client in stuck {
        assert!(!client.0.wait().expect("it ends").success(), "nobody said that it is pat");
    }
    for line in [
        "pat from 127.0.0.1: this node cannot look passwords up: PAM said nothing within 10.0 s",
        "login_timeout: 127.0.0.1 kept its turn to log in for ",
    ] {
        wait_for("a line in the log", || site.log().iter().any(|said| said.contains(line)));
    }
    // All four are asked again, by processes that have the rights of those before.
    for mut client in four_as_pat(&site) {
        assert!(client.0.wait().expect("it ends").success());
    }
    assert_eq!(began(pam.path()), 8);
}

#[test]
fn who_has_no_turn_to_log_in_in_time_hears_so() {
    let pam = tempfile::tempdir().expect("a folder");
    // A module of PAM's that is stuck for as long as the test wants.
    let pat = asked_by_script(pam.path(), "while [ -e stuck ]; do sleep 0.2; done");
    let site = Site::with_node("login_timeout = 3\n", &pat);
    let in_turn = four_as_pat(&site);
    wait_for("four that are stuck", || began(pam.path()) == 4);
    let mut copy = site.cp();
    copy.args(["--retry-for", "0s"]).arg(site.url("pat@", "/raw/data")).arg(site.at("got"));
    let (error, _) = error_of_command(&mut copy);
    assert_eq!(error["code"], "server-closing", "{error}");
    let message = error["message"].as_str().expect("words");
    assert!(message.contains("No turn to log in within 3.00 s; try again later."), "{error}");
    let line = "login_timeout: 127.0.0.1 had no turn to log in within 3.00 s";
    wait_for("a line in the log", || site.log().iter().any(|said| said.contains(line)));
    // Whose password is no matter of PAM's waits for none of this, and who has a turn keeps it.
    let mut other = site.cp();
    succeed(other.arg(site.url("alice@", "/raw/data")).arg(site.at("got")));
    fs::remove_file(pam.path().join("stuck")).expect("it was there");
    for mut client in in_turn {
        assert!(client.0.wait().expect("it ends").success());
    }
    assert_eq!(began(pam.path()), 4, "nobody was asked of the fifth");
}

#[test]
fn a_line_test_is_an_identitys_own_right() {
    let quiet = format!(
        "allow_line = true\n[[identity]]\nname = 'quiet'\nallow_line = false\n\
         password = '{SECRET}'\npaths = {{ '/' = 'read' }}"
    );
    let site = Site::with_node("allow_line = '20M'\n", &quiet);
    let test = |user: &str| {
        let mut command = farline();
        command.env("FARLINE_PASSWORD", "secret").args(["--json", "-q", "line"]);
        command.arg(site.url(user, "/")).args(["--rate", "2M", "--for", "1s"]);
        // The system's authorities, as rustls-native-certs looks for them.
        command.env("SSL_CERT_FILE", site.at("pki/ca.pem"));
        command
    };
    let output = test("alice@").output().expect("farline runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("farline/line/1"), "{output:?}");
    let (error, exit) = error_of_command(&mut test("quiet@"));
    assert_eq!((&error["code"], exit), (&json!("line-not-allowed"), 6), "{error}");
    let message = error["message"].as_str().expect("words");
    assert!(message.contains("does not let you test the line"), "{error}");
    // Whoever the file says nothing of has what the node lets all.
    let output = test("slow@").output().expect("farline runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("farline/line/1"), "{output:?}");
}

/// The lines of the log that came while `deed` was done, and a moment after.
fn lines_of(site: &Site, deed: impl FnOnce()) -> Vec<String> {
    std::thread::sleep(APART);
    let before = site.log().len();
    deed();
    wait_for("a line in the log", || site.log().len() > before);
    std::thread::sleep(Duration::from_millis(200));
    site.log().split_off(before)
}

#[test]
fn a_refused_certificate_is_one_reply_and_one_line() {
    let site = Site::new();
    for (name, reply, line) in [
        ("stranger", "of an authority", "CaUsedAsEndEntity"),
        ("expired", "CertificateExpired", "certificate expired"),
        ("revoked", "CertificateRevoked", "Revoked"),
        ("dave", "is of nobody", "anonymous users may not come in here"),
    ] {
        let lines = lines_of(&site, || {
            let mut command = site.cp();
            command.env("FARLINE_CERT", site.at(&format!("pki/{name}.pem")));
            command.env("FARLINE_KEY", site.at(&format!("pki/{name}.key")));
            command.env_remove("FARLINE_PASSWORD");
            let copy = command.arg(site.url("", "/raw/data")).arg(site.at("got"));
            let (error, exit) = error_of_command(copy);
            assert_eq!((&error["code"], exit), (&json!("login-refused"), 6), "{name}: {error}");
            assert!(error.to_string().contains(reply), "{name}: {error}");
        });
        let is_whole = |said: &str| said.contains("refused: ") && said.contains("127.0.0.1");
        assert!(lines.len() == 1 && is_whole(&lines[0]), "{name}: {lines:?}");
        assert!(lines[0].contains(line), "{name}: {lines:?}");
    }
    assert!(!site.at("got").exists());
}

#[test]
fn a_refused_token_is_one_reply_and_one_line() {
    let site = Site::new();
    let pki = site.at("pki");
    let of = |header: Value| token_of(&pki, &header, |_| {});
    let mut forged = token(&pki, |_| {});
    forged.replace_range(forged.len() - 8..forged.len() - 4, "AAAA");
    for (token, why) in [
        (token(&pki, |claims| claims["exp"] = json!(1_000_000_000)), "expired"),
        (token(&pki, |claims| claims["aud"] = json!("https://other.example")), "not for this node"),
        (token(&pki, |claims| claims["iss"] = json!("https://evil.example")), "not taken here"),
        (token(&pki, |claims| claims["scope"] = json!("openid")), "no scope"),
        (of(json!({"alg": "none"})), "no token that anybody signed"),
        (of(json!({"alg": "HS256", "kid": "k"})), "HS256"),
        (of(json!({"alg": "RS256", "kid": "other"})), "no key of that id"),
        (forged, "InvalidSignature"),
    ] {
        let mut said = String::new();
        let lines = lines_of(&site, || {
            let mut curl = site.curl();
            curl.args(["-v", "--user", &format!("bearer:{token}")]);
            let output = curl.arg(format!("ftp://{}/vo/bob/", site.address)).output();
            let output = output.expect("curl runs");
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            // A login that was refused.
            assert_eq!(output.status.code(), Some(67), "{said}");
        });
        let replies: Vec<_> = said.lines().filter(|line| line.starts_with("< 530")).collect();
        assert!(replies.len() == 1 && replies[0].contains(why), "{why}: {said}");
        let is_whole = |line: &str| line.contains("refused: bearer from 127.0.0.1: ");
        assert!(lines.len() == 1 && is_whole(&lines[0]), "{why}: {lines:?}");
        // Whoever reads the log learns why, and no token.
        assert!(lines[0].contains(why) && !lines[0].contains(&token[..40]), "{why}: {lines:?}");
    }
}

#[test]
fn data_to_a_third_host_is_one_reply_and_one_line() {
    let site = Site::with("third_party = true");
    for (user, port, why) in [
        ("slow", "PORT 8,8,8,8,100,100", "it is not the client's own address"),
        ("alice", "PORT 10,0,0,1,100,100", "it is no public address"),
        ("alice", "PORT 8,8,8,8,0,25", "ports below 1024 are of services"),
        ("slow", "EPRT |1|127.0.0.9|5000|", "it is not the client's own address"),
    ] {
        let mut said = String::new();
        let lines = lines_of(&site, || {
            let mut curl = site.curl();
            curl.args(["-v", "--user", &format!("{user}:secret"), "-Q", port]);
            let output = curl.arg(format!("ftp://{}/raw/", site.address)).output();
            let output = output.expect("curl runs");
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            // A quoted command failed.
            assert_eq!(output.status.code(), Some(21), "{said}");
        });
        let replies = said.lines().filter(|line| line.contains("< 550")).count();
        assert!(replies >= 1 && said.contains(why), "{user}, {port}: {said}");
        // Who came in stands there as well.
        let lines: Vec<_> = lines.iter().filter(|line| !line.contains(": login: ")).collect();
        let is_whole = |line: &str| line.contains("third_party: 127.0.0.1") && line.contains(why);
        assert!(lines.len() == 1 && is_whole(lines[0]), "{user}, {port}: {lines:?}");
    }
}

/// One more identity, with these paths.
fn dora(paths: &str) -> String {
    format!("[[identity]]\nname = \"dora\"\npassword = \"{SECRET}\"\npaths = {{ {paths} }}")
}

/// A drop box with a folder of dora's own in it.
const BOX: &str = r#""/inbox" = "create", "/inbox/dora" = "write""#;

#[test]
fn what_is_replaced_is_kept_where_that_may_be_replaced() {
    let own = r#""/home/dora" = "create", "/home/dora/f" = "write""#;
    let site = Site::with(&dora(&format!(r#"{own}, "/inbox" = "create""#)));
    let at = |path: &str| site.at("root").join(path);
    fs::create_dir(at("home/dora")).expect("a folder");
    let there = [("home/dora/f", "old"), ("home/dora/f~", "another's"), ("inbox/f", "another's")];
    for (path, text) in there {
        fs::write(at(path), text).expect("written");
    }
    fs::write(site.at("f"), "the new one").expect("written");
    let copy = |keep: &[&str], user: &str, to: &str| {
        let mut copy = site.cp();
        copy.args(keep).arg(site.at("f")).arg(site.url(user, to));
        copy
    };
    for keep in [&["--backup"][..], &["--backup", "--backup-dir=/inbox"]] {
        assert_eq!(code_of(&mut copy(keep, "dora@", "/home/dora/f")), "permission-denied");
        for (path, text) in there {
            assert_eq!(fs::read_to_string(at(path)).expect("there"), text, "{path} {keep:?}");
        }
    }
    // Without a backup the file is dora's to replace; alice's folder is hers.
    succeed(&mut copy(&[], "dora@", "/home/dora/f"));
    for _ in 0..2 {
        succeed(&mut copy(&["--backup"], "alice@", "/home/alice/f"));
    }
    assert_eq!(fs::read_to_string(at("home/alice/f~")).expect("kept"), "the new one");
}

#[test]
fn a_folder_that_is_there_is_not_a_drop_boxs_to_change() {
    let site = Site::with(&dora(BOX));
    let source = |path: &str| site.at("src").join(path);
    let looks = |path: &str| {
        let meta = fs::metadata(site.at("root/inbox").join(path)).expect("there");
        (meta.mode() & 0o777, meta.mtime())
    };
    for folder in ["bob", "dora"] {
        let there = site.at("root/inbox").join(folder);
        fs::create_dir(&there).expect("a folder");
        fs::set_permissions(&there, fs::Permissions::from_mode(0o755)).expect("set");
    }
    for folder in ["bob", "dora", "new"] {
        fs::create_dir_all(source(folder)).expect("a folder");
        fs::write(source(folder).join("file"), folder).expect("written");
        fs::set_permissions(source(folder), fs::Permissions::from_mode(0o700)).expect("set");
    }
    let copy = |user: &str| {
        let folders = ["", "bob", "dora", "new"].map(source);
        let folders = folders.iter().filter(|folder| folder.is_dir());
        succeed(Command::new("touch").args(["-d", "2024-01-01"]).args(folders));
        succeed(site.cp().arg(site.at("src/")).arg(site.url(user, "/inbox/")));
        fs::metadata(site.at("src")).expect("there").mtime()
    };
    let old = copy("alice@");
    assert_eq!(looks("new"), (0o700, old), "this one it made");
    for folder in ["bob", "dora"] {
        let (mode, time) = looks(folder);
        assert_eq!(mode, 0o755, "{folder}");
        assert_ne!(time, old, "{folder}");
        let file = site.at("root/inbox").join(folder).join("file");
        assert_eq!(fs::read_to_string(file).expect("landed"), folder);
    }
    assert_ne!(looks("").1, old);
    // Nor of who may replace every file of its tree.
    fs::remove_dir_all(source("new")).expect("removed");
    fs::remove_file(source("bob/file")).expect("removed");
    fs::write(source("dora/file"), "another").expect("written");
    let bob = looks("bob");
    copy("dora@");
    assert_eq!((looks("bob"), looks("dora")), (bob, (0o700, old)));
    assert_ne!(looks("").1, old);
}
