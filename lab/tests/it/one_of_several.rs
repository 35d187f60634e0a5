//! One file of a tree that a server without trees refuses, or that changes under the copy: the
//! others land.

use farline_lab::ordinary::Ordinary;
use farline_lab::plain_ftp::vsftpd;
use farline_lab::{Running, announced, globus_server, json_of};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FILES: [&str; 5] = ["a", "m/one", "m/two", "x/y/deep", "z"];

fn plant(top: &Path) {
    for path in FILES {
        let file = top.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, path.repeat(30_000)).expect("written");
    }
}

/// What of [`FILES`] is whole at `top`.
fn whole(top: &Path) -> BTreeSet<&'static str> {
    let is_whole = |path: &&str| {
        fs::read(top.join(path)).is_ok_and(|bytes| bytes == path.repeat(30_000).into_bytes())
    };
    FILES.into_iter().filter(is_whole).collect()
}

/// A copy of which something failed: those paths.
fn failed(user: &Ordinary, args: &[&str]) -> BTreeSet<String> {
    let output = user.farline().arg("--json").args(args).output().expect("farline runs");
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(!output.status.success(), "{said}");
    let failures = said["failures"].as_array().unwrap_or_else(|| panic!("{said}"));
    failures.iter().map(|one| one["path"].as_str().expect("text").to_owned()).collect()
}

fn set<'a>(paths: &[&'a str]) -> BTreeSet<&'a str> {
    paths.iter().copied().collect()
}

/// Up over a file that stands where a folder goes, and with a source that cannot be read; down with
/// a folder here that may not be written to. `serve` serves the user's folder.
fn there_and_back(serve: impl Fn(&Path) -> (Running, String)) {
    let user = Ordinary::new();
    let at = |name: &str| user.path().join(name);
    let mode = |name: &str, mode| {
        fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).expect("set");
    };
    plant(&at("s"));
    fs::create_dir_all(at("up")).expect("a folder");
    fs::create_dir_all(at("down/m")).expect("a folder");
    fs::write(at("up/x"), "in the way").expect("written");
    user.own(user.path());
    mode("s/a", 0o000);
    let (_server, url) = serve(user.path());
    let source = format!("{}/", at("s").display());
    let named = failed(&user, &["cp", "-r", &source, &format!("{url}/up/")]);
    assert!(named.is_superset(&["a", "x/y/deep"].map(str::to_owned).into()), "{named:?}");
    assert!(named.iter().all(|path| path == "a" || path.starts_with('x')), "{named:?}");
    assert_eq!(whole(&at("up")), set(&["m/one", "m/two", "z"]));
    assert_eq!(fs::read(at("up/x")).expect("kept"), b"in the way");
    mode("s/a", 0o644);
    mode("down/m", 0o555);
    let to = format!("{}/", at("down").display());
    let named = failed(&user, &["cp", "-r", &format!("{url}/s/"), &to]);
    assert_eq!(named, ["m/one", "m/two"].map(str::to_owned).into(), "down");
    assert_eq!(whole(&at("down")), set(&["a", "x/y/deep", "z"]));
    // What landed does not come again.
    mode("down/m", 0o755);
    let again = json_of(user.farline().args(["--json", "cp", "-r", &format!("{url}/s/"), &to]));
    assert!(again["moved_bytes"].as_u64() < Some(400_000), "{again}");
    assert_eq!(whole(&at("down")).len(), FILES.len(), "{again}");
}

#[test]
fn a_globus_server_gets_the_others() {
    there_and_back(|root| {
        let (server, url) = globus_server();
        (server, format!("{url}{}", root.display()))
    });
}

#[test]
fn a_plain_server_gets_the_others() {
    there_and_back(vsftpd);
}

#[test]
fn servers_get_the_others_from_each_other() {
    let user = Ordinary::new();
    let at = |name: &str| user.path().join(name);
    let mode = |name: &str, mode| {
        fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).expect("set");
    };
    plant(&at("s"));
    fs::create_dir_all(at("up")).expect("a folder");
    fs::create_dir_all(at("down/m")).expect("a folder");
    fs::write(at("up/x"), "in the way").expect("written");
    user.own(user.path());
    mode("s/a", 0o000);
    let (_globus, globus) = globus_server();
    let globus = format!("{globus}{}", user.path().display());
    let mut serve = user.farline();
    serve.args(["--json", "serve", "--anonymous", "write", "--listen", "127.0.0.2:0"]);
    serve.args(["--third-party", "--third-party-net", "127.0.0.0/8", "--root"]).arg(user.path());
    let (_node, node) = announced(&mut serve);
    // The sender cannot read a file, and a file of the receiver is in a folder's way.
    let (from, to) = (format!("{node}/s/"), format!("{globus}/up"));
    let named = failed(&user, &["cp", "-r", &from, &to]);
    assert_eq!(named, ["a", "x/y", "x/y/deep"].map(str::to_owned).into(), "up");
    assert_eq!(whole(&at("up")), set(&["m/one", "m/two", "z"]));
    assert_eq!(fs::read(at("up/x")).expect("kept"), b"in the way");
    mode("s/a", 0o644);
    fs::remove_file(at("up/x")).expect("removed");
    let again = json_of(user.farline().args(["--json", "cp", "-r", &from, &to]));
    assert!(again["resumed_bytes"].as_u64() > Some(200_000), "what landed came again: {again}");
    assert_eq!(whole(&at("up")).len(), FILES.len(), "{again}");
    // A folder of the receiver may not be written to.
    mode("down/m", 0o555);
    let (from, to) = (format!("{globus}/s/"), format!("{node}/down"));
    let named = failed(&user, &["cp", "-r", &from, &to]);
    assert_eq!(named, ["m/one", "m/two"].map(str::to_owned).into(), "down");
    assert_eq!(whole(&at("down")), set(&["a", "x/y/deep", "z"]));
    assert_eq!(fs::read_dir(at("down")).expect("a folder").count(), 4, "something is left over");
}
