//! What a sender leaves out of a tree is named at the client, whichever end the client is.

use farline_lab::files::text;
use farline_lab::{announced, farline, farline_binary, node, plant};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

/// A tree with a FIFO, a socket, a file that its owner may not read, and a folder that it may not
/// list.
fn tree_with_what_cannot_be_copied(root: &Path) {
    plant(root);
    let made = Command::new("mkfifo").arg(root.join("one/pipe")).status().expect("mkfifo runs");
    assert!(made.success());
    // The socket stays when its listener goes.
    UnixListener::bind(root.join("socket")).expect("bound");
    std::fs::write(root.join("secret"), "unread").expect("written");
    std::fs::set_permissions(root.join("secret"), PermissionsExt::from_mode(0o000)).expect("set");
    std::fs::create_dir(root.join("closed")).expect("a folder");
    std::fs::write(root.join("closed/f"), "unseen").expect("written");
    std::fs::set_permissions(root.join("closed"), PermissionsExt::from_mode(0o000))
        .expect("closed");
}

/// Farline without the right to read what file modes forbid: root has it otherwise.
fn bound_by_modes() -> Command {
    if !rustix::process::geteuid().is_root() {
        return farline();
    }
    let mut command = farline_lab::command("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]);
    command.arg(farline_binary());
    command
}

/// The paths that `command` names as not copied, with their codes, and its exit code.
fn left_out(command: &mut Command) -> (Vec<(String, String)>, i32, serde_json::Value) {
    let output = command.output().expect("runs");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no object: {}", String::from_utf8_lossy(&output.stderr)));
    let field = |failure: &serde_json::Value, name: &str| failure[name].as_str().map(str::to_owned);
    let mut named: Vec<_> = said["failures"]
        .as_array()
        .unwrap_or_else(|| panic!("no list of failures in {said}"))
        .iter()
        .map(|failure| {
            let code = field(&failure["error"], "code").expect("a code");
            (field(failure, "path").expect("a path"), code)
        })
        .collect();
    named.sort();
    (named, output.status.code().expect("it ended by itself"), said)
}

fn expected(prefix: &str) -> Vec<(String, String)> {
    [
        ("closed", "permission-denied"),
        ("one/pipe", "not-a-file"),
        ("secret", "permission-denied"),
        ("socket", "not-a-file"),
    ]
    .map(|(path, code)| (format!("{prefix}{path}"), code.to_owned()))
    .to_vec()
}

/// What the files below `top` hold that can be copied.
fn bytes(top: &Path) -> Option<u64> {
    let find = Command::new("find").arg(top).args(["-type", "f", "-printf", "%f %s\\n"]).output();
    let list = String::from_utf8(find.expect("find runs").stdout).expect("text");
    let sizes = list.lines().filter(|line| !line.starts_with("secret ") && *line != "f 6");
    sizes.map(|line| line.rsplit(' ').next().and_then(|size| size.parse::<u64>().ok())).sum()
}

fn served(root: &Path, more: &[&str]) -> (farline_lab::Running, String) {
    let mut serve = bound_by_modes();
    serve
        .args(["--json", "serve", "--listen", "127.0.0.1:0", "--anonymous", "write", "--root"])
        .arg(root);
    announced(serve.args(more))
}

#[test]
fn a_download_names_what_the_node_leaves_out() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, down) = (dir.path().join("root"), dir.path().join("down"));
    tree_with_what_cannot_be_copied(&root.join("t"));
    let (_node, url) = served(&root, &[]);
    let mut copy = farline();
    copy.args(["--json", "cp", "-r", &format!("{url}/t")]).arg(&down);
    let (named, exit, said) = left_out(&mut copy);
    assert_eq!(named, expected(""), "{said}");
    assert_ne!(exit, 0, "{said}");
    assert_eq!((said["verified"].as_bool(), said["files"].as_u64()), (Some(false), Some(207)));
    assert_eq!(said["bytes"].as_u64(), bytes(&down.join("t")), "{said}");
    let words = farline()
        .args(["-q", "cp", "-r", &format!("{url}/t/")])
        .arg(dir.path().join("again"))
        .output()
        .expect("runs");
    let words = String::from_utf8_lossy(&words.stdout).into_owned()
        + &String::from_utf8_lossy(&words.stderr);
    for path in ["closed", "one/pipe", "socket"] {
        assert!(words.contains(path), "{path} is not named in: {words}");
    }
    // So that the folder can be removed.
    std::fs::set_permissions(root.join("t/closed"), PermissionsExt::from_mode(0o755))
        .expect("open");
}

#[test]
fn uploads_and_local_copies_name_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("t"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    tree_with_what_cannot_be_copied(&source);
    let (_node, url) = node(&root, "write", &[]);
    for to in [format!("{url}/up/"), text(&dir.path().join("here/")).to_owned()] {
        let mut copy = bound_by_modes();
        copy.args(["--json", "cp", "-r"]).arg(&source).arg(&to);
        let (named, exit, said) = left_out(&mut copy);
        let below = if to.starts_with('/') { "" } else { "t/" };
        assert_eq!(named, expected(below), "{to}: {said}");
        assert_ne!(exit, 0, "{to}: {said}");
        assert_eq!((said["files"].as_u64(), said["bytes"].as_u64()), (Some(207), bytes(&source)));
    }
    std::fs::set_permissions(source.join("closed"), PermissionsExt::from_mode(0o755))
        .expect("open");
}

#[test]
fn a_third_party_copy_names_what_the_sender_leaves_out() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::create_dir_all(&to).expect("a folder");
    tree_with_what_cannot_be_copied(&from.join("t"));
    let (_sender, from_url) = served(&from, &["--third-party"]);
    let (_receiver, to_url) = node(&to, "write", &["--third-party"]);
    let mut copy = farline();
    copy.args(["--json", "cp", "-r", &format!("{from_url}/t"), &format!("{to_url}/")]);
    let (named, exit, said) = left_out(&mut copy);
    assert_eq!(named, expected(""), "{said}");
    assert_ne!(exit, 0, "{said}");
    assert_eq!((said["files"].as_u64(), said["bytes"].as_u64()), (Some(207), bytes(&to.join("t"))));
    std::fs::set_permissions(from.join("t/closed"), PermissionsExt::from_mode(0o755))
        .expect("open");
}

#[test]
fn hard_links_and_attributes_that_are_not_kept_are_counted() {
    use rustix::fs::{XattrFlags, setxattr};
    let dir = farline_lab::files::folder();
    let at = |path: &str| dir.path().join(path);
    std::fs::create_dir_all(at("root/t/d")).expect("folders");
    for name in ["a", "b", "c"] {
        std::fs::write(at("root/t").join(name), name).expect("written");
    }
    std::fs::hard_link(at("root/t/a"), at("root/t/d/a2")).expect("linked");
    std::fs::hard_link(at("root/t/b"), at("outside")).expect("linked");
    let attribute = setxattr(at("root/t/c"), "user.of", b"x", XattrFlags::empty());
    if attribute.is_err() {
        return farline_lab::skip("the file system of the temporary folder has no attributes");
    }
    let (_node, url) = farline_lab::node(&at("root"), "write", &[]);
    let here = |path: &str| at(path).to_str().expect("text").to_owned();
    for (from, to) in [
        (here("root/t"), here("local")),
        (here("root/t"), format!("{url}/up/")),
        (format!("{url}/t"), here("down/")),
    ] {
        let result =
            farline_lab::json_of(farline_lab::farline().args(["--json", "cp", "-r", &from, &to]));
        assert_eq!(
            result["not_kept"],
            serde_json::json!({"hard_linked": 2, "with_attributes": 1}),
            "{from} to {to}: {result}"
        );
        let said = "not kept: 2 files have hard links between them and were copied as separate \
                    files; 1 has extended attributes or an ACL that was not copied";
        assert_eq!(result["notes"].to_string().matches(said).count(), 1, "{result}");
    }
    // What loses nothing says nothing.
    let result = farline_lab::json_of(farline_lab::farline().args([
        "--json",
        "cp",
        "-r",
        &here("local"),
        &here("again"),
    ]));
    assert!(!result["notes"].to_string().contains("not kept"), "{result}");
}

/// A node names ten thousand of them; those beyond have not landed either.
#[test]
fn what_is_too_much_to_name_is_not_counted_as_landed() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("src/many")).expect("folders");
    std::fs::create_dir_all(at("root/src")).expect("folders");
    for index in 0..10_020 {
        std::fs::write(at("src/many").join(format!("f{index}")), "bytes").expect("written");
    }
    std::fs::write(at("src/alone"), "landed").expect("written");
    // A file has the folder's name there.
    std::fs::write(at("root/src/many"), "in the way").expect("written");
    let (_node, url) = node(&at("root"), "write", &[]);
    let mut command = farline();
    command.args(["--json", "cp", "-r", text(&at("src"))]).arg(format!("{url}/"));
    let (named, code, said) = left_out(&mut command);
    assert!(named.len() > 10_000 && code != 0, "{} and {code}", named.len());
    assert_eq!((&said["files"], &said["bytes"]), (&1.into(), &6.into()));
}
