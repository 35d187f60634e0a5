//! Copies to and from FTP servers that know no GridFTP: vsftpd, which knows no MLSD either, ProFTPD
//! and pyftpdlib's.

use crate::tls::openssl;
use farline_lab::files::{hidden, names, random};
use farline_lab::list_server::{Lists, list_server};
use farline_lab::plain_ftp::{
    proftpd, proftpd_folder, proftpd_under_tls, pyftpdlib, vsftpd, vsftpd_under_tls,
};
use farline_lab::{Running, error_of, farline, globus_server, json_of, node, succeed, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Starts a server for a folder.
type Serve = fn(&Path) -> (Running, String);

const SERVERS: [(&str, Serve); 2] = [("vsftpd", vsftpd), ("pyftpdlib", pyftpdlib)];

/// Where ProFTPD is, unless the test is to be skipped.
fn unpacked() -> Option<PathBuf> {
    let folder = proftpd_folder();
    if folder.is_none() {
        farline_lab::skip("there is no ProFTPD on this machine (lab/setup brings it)");
    } else if !rustix::process::geteuid().is_root() {
        farline_lab::skip("only root may start ProFTPD for anonymous users");
        return None;
    }
    folder
}

/// A tree of names and sizes that a list has to get right, and of names that some leave out.
fn tree(at: &Path) {
    for folder in ["deep/er", "empty", ".folder"] {
        fs::create_dir_all(at.join(folder)).expect("a folder");
    }
    for (name, len) in [
        ("a b", 3),
        ("deep/none", 0),
        ("deep/er/big", 3_000_001),
        ("-x", 70_000),
        (".hidden", 5),
        (".folder/.in", 6),
    ] {
        fs::write(at.join(name), random(7, len)).expect("written");
    }
}

#[test]
fn a_tree_goes_to_plain_servers_and_comes_back() {
    for (name, serve) in SERVERS {
        there_and_back(name, serve);
    }
}

#[test]
fn a_tree_goes_to_proftpd_and_comes_back() {
    let Some(unpacked) = unpacked() else { return };
    there_and_back("ProFTPD", |root| proftpd(&unpacked, root));
}

fn there_and_back(name: &str, serve: impl Fn(&Path) -> (Running, String)) {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    tree(&at("src"));
    let (_server, url) = serve(&at("root"));
    let up = json_of(farline().args(["--json", "cp", "-r"]).arg(at("src")).arg(format!("{url}/")));
    succeed(Command::new("diff").arg("-r").arg(at("src")).arg(at("root/src")));
    // What nobody compared is not called verified.
    assert_eq!((&up["files"], &up["verified"]), (&6.into(), &false.into()), "{name}: {up}");
    // Without headers and lists: as many as the files have.
    assert_eq!((&up["bytes"], &up["bytes_sent"]), (&3_070_015.into(), &3_070_015.into()), "{up}");
    // Over the folders that are there already.
    succeed(farline().args(["cp", "-r"]).arg(at("src")).arg(format!("{url}/")));
    succeed(farline().args(["cp", "-r"]).arg(format!("{url}/src/")).arg(at("back")));
    succeed(Command::new("diff").arg("-r").arg(at("src")).arg(at("back")));
    // Sizes and times are those of the server: nothing comes twice.
    let again =
        json_of(farline().args(["--json", "sync"]).arg(format!("{url}/src")).arg(at("back")));
    assert_eq!(again["files"], 0, "{name}: {again}");
    // Nor does what a list may leave out seem to be gone.
    fs::write(at("back/gone"), "not there").expect("written");
    let mut delete = farline();
    delete.args(["--json", "sync", "--delete"]).arg(format!("{url}/src")).arg(at("back"));
    let deleted = json_of(&mut delete);
    assert_eq!(deleted["deleted"], serde_json::json!(["gone"]), "{name}: {deleted}");
    succeed(Command::new("diff").arg("-r").arg(at("src")).arg(at("back")));
    // And those of this host are set there: the same the other way.
    let there =
        json_of(farline().args(["--json", "sync"]).arg(at("src")).arg(format!("{url}/src")));
    assert_eq!(there["files"], 0, "{name}: {there}");
    let one = json_of(
        farline().args(["--json", "cp"]).arg(format!("{url}/src/deep/er/big")).arg(at("large")),
    );
    assert_eq!(one["bytes_sent"], 3_000_001, "{name}: {one}");
    succeed(farline().arg("cp").arg(format!("{url}/src/a b")).arg(at("one")));
    succeed(Command::new("cmp").arg(at("one")).arg(at("src/a b")));
}

#[test]
fn a_tree_goes_there_and_back_under_tls_of_one_session() {
    under_tls(vsftpd_under_tls, "login-refused");
}

#[test]
fn a_tree_goes_to_proftpd_and_back_under_tls() {
    let Some(unpacked) = unpacked() else { return };
    under_tls(|root, identity| proftpd_under_tls(&unpacked, root, identity), "refused");
}

/// A server that wants every connection to be of one TLS session; `in_the_clear` is how it refuses
/// others.
fn under_tls(serve: impl Fn(&Path, &Path) -> (Running, String), in_the_clear: &str) {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    tree(&at("src"));
    // More than a session has tickets for.
    (0..20).for_each(|file| fs::write(at(&format!("src/{file}")), [file; 3_000]).expect("written"));
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    let own = ["req", "-x509", "-subj", "/CN=vsftpd", "-keyout", "key.pem", "-out", "own.pem"];
    openssl(dir.path(), &[&own[..], &key[..]].concat());
    let both = [fs::read(at("own.pem")).expect("made"), fs::read(at("key.pem")).expect("made")];
    fs::write(at("both.pem"), both.concat()).expect("written");
    let print = succeed(Command::new("openssl").current_dir(dir.path()).args([
        "x509",
        "-in",
        "own.pem",
        "-noout",
        "-fingerprint",
        "-sha256",
    ]));
    let pin = print.trim().split('=').nth(1).expect("a fingerprint").to_owned();
    let (_server, url) = serve(&at("root"), &at("both.pem"));
    let cp = || {
        let mut command = farline();
        command.args(["--json", "cp", "-r", "--retry-for", "0s", "--tls-pin", &pin]);
        command
    };
    let up = json_of(cp().arg(at("src")).arg(format!("{url}/")));
    assert_eq!(up["encrypted"], true, "{up}");
    succeed(Command::new("diff").arg("-r").arg(at("src")).arg(at("root/src")));
    let down = json_of(cp().arg(format!("{url}/src/")).arg(at("back")));
    assert_eq!(down["encrypted"], true, "{down}");
    succeed(Command::new("diff").arg("-r").arg(at("src")).arg(at("back")));
    // What is there is listed once more, in a session of its own.
    fs::write(at("back/gone"), "not there").expect("written");
    let mut delete = farline();
    delete.args(["--json", "sync", "--delete", "--retry-for", "0s", "--tls-pin", &pin]);
    let deleted = json_of(delete.arg(format!("{url}/src")).arg(at("back")));
    assert_eq!(deleted["deleted"], serde_json::json!(["gone"]), "{deleted}");
    // A server that wants TLS gets nothing in the clear.
    let clear = url.replacen("ftps", "ftp", 1);
    let (error, _) = error_of(&["cp", &format!("{clear}/src/a b"), "/nowhere"]);
    assert_eq!(error["code"], in_the_clear, "{error}");
}

/// What `sync --delete` from `/d` of a server of `lists` says and leaves in a folder that has files
/// `old` and `.hidden`.
fn deleted_by(lists: Lists) -> (serde_json::Value, Vec<String>) {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["old", ".hidden"] {
        fs::write(dir.path().join(name), "planted").expect("written");
    }
    let url = format!("{}/d", list_server(lists));
    let mut sync = farline();
    sync.args(["--json", "sync", "--delete", &url]).arg(dir.path());
    let output = sync.output().expect("farline runs");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    let failed = said["not_deleted"].as_array().is_some_and(|failed| !failed.is_empty());
    assert_eq!(output.status.success(), !failed, "{said}");
    (said, names(dir.path()))
}

#[test]
fn names_with_a_dot_come_from_servers_that_are_asked_for_them() {
    let (said, there) = deleted_by(|path: &str| match path {
        "/d" => "-rw-r--r-- 1 0 0 5 Nov 27 00:11 a\r\n",
        "-a /d" => {
            "drwxr-xr-x 2 0 0 60 Nov 27 00:11 .\r\ndrwxr-xr-x 2 0 0 60 Nov 27 00:11 ..\r\n\
             -rw-r--r-- 1 0 0 5 Nov 27 00:11 .hidden\r\n-rw-r--r-- 1 0 0 5 Nov 27 00:11 a\r\n"
        }
        _ => "",
    });
    assert_eq!(there, [".hidden", "a"], "{said}");
    assert_eq!(said["files"], 2, "{said}");
    assert_eq!(said["deleted"], serde_json::json!(["old"]), "{said}");
    assert!(!said["notes"].to_string().contains("begin with a dot"), "{said}");
}

#[test]
fn where_names_with_a_dot_may_be_missing_nothing_is_deleted() {
    // Both take the option for a part of the name.
    let nothing = |path: &str| match path {
        "/d" => "-rw-r--r-- 1 0 0 5 Nov 27 00:11 a\r\n",
        _ => "",
    };
    let another = |path: &str| match path {
        "/d" => "-rw-r--r-- 1 0 0 5 Nov 27 00:11 a\r\n",
        "-a /d" => "drwxr-xr-x 2 0 0 60 Nov 27 00:11 d\r\n",
        _ => "",
    };
    for lists in [nothing as Lists, another as Lists] {
        let (said, there) = deleted_by(lists);
        assert_eq!(there, [".hidden", "a", "old"], "{said}");
        assert_eq!(said["not_deleted"][0]["error"]["code"], "unsupported", "{said}");
        assert!(said["notes"].to_string().contains("begin with a dot may be missing"), "{said}");
    }
}

#[test]
fn an_empty_folder_that_cannot_be_made_is_named() {
    for (name, serve) in SERVERS {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("root/t/e/deep")).expect("folders");
        fs::write(at("root/t/f"), "theirs").expect("written");
        fs::create_dir(at("got")).expect("a folder");
        fs::write(at("got/e"), "mine").expect("written");
        let (_server, url) = serve(&at("root"));
        let mut copy = farline();
        copy.args(["--json", "cp", "-r"]).arg(format!("{url}/t/")).arg(at("got"));
        let output = copy.output().expect("farline runs");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        let failures = said["failures"].as_array().expect("a list");
        for path in ["e", "e/deep"] {
            let is_named = |failure: &serde_json::Value| {
                failure["path"] == path && failure["error"]["code"] == "not-a-directory"
            };
            assert!(failures.iter().any(is_named), "{name}: {path}: {said}");
        }
        assert_eq!(said["files"], 1, "{name}: {said}");
        assert_eq!(fs::read(at("got/e")).expect("it stays"), b"mine", "{name}");
        assert_eq!(fs::read(at("got/f")).expect("it landed"), b"theirs", "{name}");
    }
}

#[test]
fn what_plain_servers_cannot_do_is_said() {
    for (name, serve) in SERVERS {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("root")).expect("a folder");
        fs::write(at("root/f"), "x").expect("written");
        let (_server, url) = serve(&at("root"));
        let (from, to) = (format!("{url}/f"), at("got"));
        let to = to.to_str().expect("text");
        let root = at("root");
        let (root, up) = (root.to_str().expect("text"), format!("{url}/up/"));
        for (args, code) in [
            (vec!["cp", "--verify", "digest", &from, to], "unsupported"),
            (vec!["cp", "-r", "--atomic", &url, to], "unsupported"),
            (vec!["cp", "-r", "--atomic", root, &up], "unsupported"),
            (vec!["cp", &format!("{url}/nothere"), to], "path-not-found"),
            (vec!["cp", &url, to], "is-a-directory"),
        ] {
            let (error, _) = error_of(&args);
            assert_eq!(error["code"], code, "{name}: {args:?}: {error}");
        }
        assert!(!at("got").exists() && !at("root/up").exists());
    }
}

#[test]
fn a_plain_download_goes_on_from_what_is_durable() {
    for (name, serve) in SERVERS {
        goes_on(name, serve);
    }
}

#[test]
fn a_download_from_proftpd_goes_on_from_what_is_durable() {
    let Some(unpacked) = unpacked() else { return };
    // It takes its time to log anybody in.
    goes_on("ProFTPD", |root| proftpd(&unpacked, root));
}

/// What a copy that was killed had stored, and is not there any more, is stored again.
#[test]
fn what_proftpd_lost_since_is_sent_again() {
    let Some(unpacked) = unpacked() else { return };
    killed_tree("ProFTPD", |root| proftpd(&unpacked, root), true);
}

#[test]
fn a_killed_tree_to_plain_servers_sends_what_is_missing() {
    for (name, serve) in SERVERS {
        killed_tree(name, serve, false);
    }
    if let Some(unpacked) = unpacked() {
        killed_tree("ProFTPD", |root| proftpd(&unpacked, root), false);
    }
}

/// Kills a copy of a tree in the middle of its last file and runs it again, whether or not one that
/// landed was `lost` since. The file in the middle begins anew: such servers compute no checksum of
/// what they have of it.
fn killed_tree(name: &str, serve: impl Fn(&Path) -> (Running, String), lost: bool) {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    fs::create_dir(at("src")).expect("a folder");
    for (name, len) in [("a", 100_000), ("b", 100_000), ("large", 40_000_000)] {
        fs::write(at("src").join(name), random(9, len)).expect("written");
    }
    let (_server, url) = serve(&at("root"));
    let copy = |more: &[&str]| {
        let mut command = farline();
        command.args(["--json", "cp", "-r", "--retry-for", "0s"]).args(more);
        command.arg(at("src")).arg(format!("{url}/"));
        command
    };
    let mut killed = copy(&["--limit", "40M"]).spawn().expect("farline starts");
    let names = || -> Vec<String> {
        let entries = fs::read_dir(at("root/src")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    wait_for("some of the large file", || names().iter().any(|name| name.starts_with(".large.")));
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    assert!(!names().contains(&"large".to_owned()), "it was over before");
    if lost {
        fs::remove_file(at("root/src/a")).expect("it was there");
    }
    let again = json_of(&mut copy(&[]));
    let (note, left) = match lost {
        true => ("1 file that landed in an earlier run was left alone", 100_000),
        false => ("2 files that landed in an earlier run were left alone", 200_000),
    };
    assert!(again["notes"].to_string().contains(note), "{name}: {again}");
    assert_eq!(again["resumed_bytes"], left, "{name}: {again}");
    assert_eq!(again["moved_bytes"], 40_200_000 - left, "{name}: {again}");
    succeed(Command::new("diff").arg("-r").arg(at("src")).arg(at("root/src")));
}

/// Between servers Farline copies in MODE E alone, and says so before anything moves.
#[test]
fn third_party_copies_of_plain_servers_are_refused_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for folder in ["root", "there"] {
        fs::create_dir(at(folder)).expect("a folder");
        fs::write(at(folder).join("f"), "x").expect("written");
    }
    let third_party = ["--third-party", "--third-party-net", "127.0.0.0/8"];
    let (_node, node) = node(&at("root"), "write", &third_party);
    let (_globus, globus) = globus_server();
    let globus = format!("{globus}{}", at("root").display());
    let unpacked = unpacked();
    let mut servers = Vec::from(SERVERS.map(|(_, serve)| serve(&at("there"))));
    servers.extend(unpacked.map(|unpacked| proftpd(&unpacked, &at("there"))));
    for (_server, plain) in servers {
        for other in [&node, &globus] {
            for (from, to) in [(&plain, other), (other, &plain)] {
                let (from, to) = (format!("{from}/f"), format!("{to}/new"));
                let (error, exit) = error_of(&["cp", "--retry-for", "0s", &from, &to]);
                assert_eq!((error["code"].as_str(), exit), (Some("unsupported"), 4), "{error}");
                let message = error["message"].as_str().expect("words");
                let says = message.contains(&plain) && message.contains("is a plain FTP server");
                assert!(says, "{from} to {to}: {error}");
                let hint = error["hint"].as_str().expect("words");
                assert!(hint.starts_with("copy to this host first, and from here on"), "{hint}");
            }
        }
    }
    assert!(!at("root/new").exists() && !at("there/new").exists());
}

/// A download of four seconds goes on that is killed when something of it is durable.
fn goes_on(name: &str, serve: impl Fn(&Path) -> (Running, String)) {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    fs::write(at("root/big"), random(9, 40_000_000)).expect("written");
    let (_server, url) = serve(&at("root"));
    let copy = |more: &[&str]| {
        let mut command = farline();
        command.args(["--json", "cp"]).args(more).arg(format!("{url}/big")).arg(at("big"));
        command
    };
    let mut killed = copy(&["--limit", "80M"]).spawn().expect("farline starts");
    // A journal begins with what the file is; what follows is what is durable of it.
    let journal = || {
        let name = hidden(dir.path()).into_iter().find(|name| name.ends_with(".journal.farline"));
        name.and_then(|name| fs::metadata(at(&name)).ok()).map_or(0, |meta| meta.len())
    };
    wait_for("a journal", || journal() > 0);
    let begun = journal();
    wait_for("a durable part", || journal() > begun);
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    assert!(!at("big").exists(), "half a file under its name");
    let went_on = json_of(&mut copy(&[]));
    let held = went_on["resumed_bytes"].as_u64().expect("a number");
    assert!(held > 0, "{name}: it began anew: {went_on}");
    assert_eq!(went_on["moved_bytes"].as_u64(), Some(40_000_000 - held), "{name}");
    succeed(Command::new("cmp").arg(at("big")).arg(at("root/big")));
}
