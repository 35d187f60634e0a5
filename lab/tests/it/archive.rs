//! `--archive`: owners, groups, hard links, ACLs, extended attributes and all mode bits, as
//! `rsync -aHAX` keeps them; what may not be set is said.

use farline_lab::files::{folder, random, text};
use farline_lab::ordinary::Ordinary;
use farline_lab::{error_of, farline, globus_server, json_of, node, skip, succeed};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's users of these names; `nobody` is its last.
const DAEMON: u32 = 1;
const NOBODY: u32 = 65_534;

/// An ACL as Linux keeps it: somebody more may read.
fn acl(user: u32) -> Vec<u8> {
    let entries =
        [(1u16, 6u16, !0u32), (2, 4, user), (4, 4, !0), (8, 6, DAEMON), (16, 6, !0), (32, 0, !0)];
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).expect("this file system keeps attributes");
}

/// A tree with one of everything that an ordinary user can make.
fn plant(top: &Path) {
    fs::create_dir_all(top.join("d/e")).expect("folders");
    for (path, content) in [
        ("a", "a"),
        ("d/b", "the file b"),
        ("d/e/c", ""),
        ("x", "attributes"),
        ("run", "#!"),
        ("closed", "mine"),
    ] {
        fs::write(top.join(path), content).expect("written");
    }
    fs::hard_link(top.join("a"), top.join("d/a2")).expect("linked");
    fs::hard_link(top.join("a"), top.join("d/e/a3")).expect("linked");
    symlink("d/b", top.join("link")).expect("linked");
    set(&top.join("x"), "user.comment", b"run 7\0;=% \xff");
    set(&top.join("x"), "user.empty", b"");
    set(&top.join("d"), "user.of", b"a folder");
    set(&top.join("d/b"), "system.posix_acl_access", &acl(NOBODY));
    set(&top.join("d/e"), "system.posix_acl_default", &acl(DAEMON));
    set(&top.join("closed"), "user.comment", b"no one writes here");
    for (path, mode) in [("run", 0o751), ("closed", 0o400), ("d/e", 0o2775), ("d", 0o1755)] {
        fs::set_permissions(top.join(path), PermissionsExt::from_mode(mode)).expect("set");
    }
    // The top too: rsync leaves a folder's time as it is within a second.
    let old = ["-h", "-d", "2020-02-02 02:02:02.123456789"];
    succeed(
        Command::new("touch")
            .args(old)
            .args(["a", "link", "d/e/c", "d/e", "d", ""].map(|path| top.join(path))),
    );
}

/// What root alone can make.
fn give_away(top: &Path) {
    chown(top.join("d/b"), Some(DAEMON), Some(NOBODY)).expect("root may");
    chown(top.join("d"), Some(NOBODY), None).expect("root may");
    chown(top.join("run"), Some(DAEMON), Some(DAEMON)).expect("root may");
    lchown(top.join("link"), Some(NOBODY), Some(DAEMON)).expect("root may");
    fs::set_permissions(top.join("run"), PermissionsExt::from_mode(0o6755)).expect("set");
    // Nobody knows this one by a name.
    chown(top.join("x"), Some(54_321), Some(54_322)).expect("root may");
    set(&top.join("x"), "trusted.farline", b"root's");
    set(&top.join("d/b"), "system.posix_acl_access", &acl(54_323));
}

/// All that is known of each path: kind, mode, owners, time, attributes, and which names are one.
fn facts(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut facts = BTreeMap::new();
    let mut names: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        let at = top.join(&path);
        let meta = fs::symlink_metadata(&at).expect("there");
        let mut said = format!(
            "{:o} {}:{} {}.{:09}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec()
        );
        if meta.is_file() {
            let first = names.entry(meta.ino()).or_insert_with(|| path.clone());
            said += &format!(" as {} {:?}", first.display(), fs::read(&at).expect("read"));
        }
        if !meta.is_symlink() {
            let mut list = vec![0; 4096];
            let len = listxattr(&at, &mut list[..]).expect("listed");
            let mut names: Vec<&[u8]> =
                list[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()).collect();
            names.sort();
            for name in names {
                let mut value = vec![0; 4096];
                let len = getxattr(&at, OsStr::from_bytes(name), &mut value[..]).expect("read");
                said += &format!(" {}={:?}", String::from_utf8_lossy(name), &value[..len]);
            }
        }
        if meta.is_dir() {
            let mut below: Vec<_> = at
                .read_dir()
                .expect("a folder")
                .map(|item| path.join(item.expect("an entry").file_name()))
                .collect();
            below.sort();
            open.extend(below.into_iter().rev());
        }
        facts.insert(path, said);
    }
    facts
}

fn by_rsync(args: &[&str], from: &Path, to: &Path) -> Command {
    let mut command = Command::new("rsync");
    command.args(["-aHAX"]).args(args).arg(format!("{}/", text(from))).arg(to);
    command
}

fn sync(args: &[&str], from: &str, to: &str) -> Value {
    json_of(farline().args(["--json", "sync", "-a"]).args(args).args([from, to]))
}

fn same(ours: &Path, theirs: &Path, what: &str) {
    let (ours, theirs) = (facts(ours), facts(theirs));
    for (path, fact) in &theirs {
        assert_eq!(ours.get(path), Some(fact), "{what}: {}", path.display());
    }
    assert_eq!(ours.len(), theirs.len(), "{what}");
}

#[test]
fn trees_are_kept_as_rsync_keeps_them() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root gives files away");
    }
    for way in ["here", "up", "down", "across"] {
        let dir = folder();
        let (source, theirs) = (dir.path().join("src"), dir.path().join("theirs"));
        plant(&source);
        give_away(&source);
        let more =
            ["--third-party", "--third-party-net", "127.0.0.0/8", "--allow-owner", "--listen"];
        let (_node, url) = node(dir.path(), "write", &[&more[..], &["127.0.0.2:0"]].concat());
        let (_other, other) = node(dir.path(), "write", &[&more[..], &["127.0.0.3:0"]].concat());
        let ours = dir.path().join("ours");
        let here = text(&source).to_owned();
        let (from, to) = match way {
            "up" => (here, format!("{url}/ours")),
            "down" => (format!("{url}/src"), text(&ours).to_owned()),
            "across" => (format!("{url}/src"), format!("{other}/ours")),
            _ => (here, text(&ours).to_owned()),
        };
        let result = sync(&[], &from, &to);
        succeed(&mut by_rsync(&[], &source, &theirs));
        same(&ours, &theirs, way);
        same(&ours, &source, way);
        let nothing =
            serde_json::json!({"owner": 0, "group": 0, "modes": 0, "acls": 0, "extended": 0});
        assert_eq!(result["not_set"], nothing, "{way}: {result}");
        assert!(!result["notes"].to_string().contains("not kept"), "{way}: {result}");
        if way == "across" {
            // What stays as it is between two servers is left out of the tree.
            continue;
        }
        // What changes without its content or its time.
        chown(source.join("d/b"), Some(NOBODY), Some(DAEMON)).expect("root may");
        chown(source.join("closed"), Some(DAEMON), None).expect("root may");
        fs::set_permissions(source.join("run"), PermissionsExt::from_mode(0o700)).expect("set");
        set(&source.join("x"), "user.comment", b"run 8");
        rustix::fs::removexattr(source.join("x"), "user.empty").expect("removed");
        rustix::fs::removexattr(source.join("d/b"), "system.posix_acl_access").expect("removed");
        let again = sync(&[], &from, &to);
        assert_eq!(
            (&again["files"], &again["moved_bytes"]),
            (&0.into(), &0.into()),
            "{way}: {again}"
        );
        succeed(&mut by_rsync(&[], &source, &theirs));
        same(&ours, &theirs, &format!("{way}, again"));
    }
}

#[test]
fn what_an_ordinary_user_may_not_set_is_said_once() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root gives files away");
    }
    let user = Ordinary::new();
    let source = user.path().join("src");
    plant(&source);
    give_away(&source);
    fs::set_permissions(source.join("closed"), PermissionsExt::from_mode(0o444)).expect("set");
    for name in ["up", "here"] {
        fs::create_dir(user.path().join(name)).expect("a folder");
        user.own(&user.path().join(name));
    }
    let (_node, url) = user.node(&user.path().join("up"));
    let up = sync(&[], text(&source), &url);
    let here = user
        .farline()
        .args([
            "--json",
            "cp",
            "-a",
            &format!("{}/", text(&source)),
            text(&user.path().join("here")),
        ])
        .output()
        .expect("runs");
    let here: Value = serde_json::from_slice(&here.stdout).expect("json");
    for (result, name) in [(&up, "up"), (&here, "here")] {
        assert_eq!(result["failures"], serde_json::json!([]), "{name}: {result}");
        // Everything is of another user: 12 paths but the 2 further names of one file.
        let owners = result["not_set"]["owner"].as_u64().expect("a number");
        assert!((10..=12).contains(&owners), "{name}: {result}");
        assert_eq!(result["not_set"]["modes"], 1, "{name}: {result}");
        let notes = result["notes"].to_string();
        assert_eq!(
            notes.matches("not set, for lack of the right to: owner of").count(),
            1,
            "{notes}"
        );
        let landed = user.path().join(name);
        assert_eq!(
            fs::metadata(landed.join("run")).expect("there").mode() & 0o7777,
            0o755,
            "{name}"
        );
        assert_eq!(fs::metadata(landed.join("a")).expect("there").nlink(), 3, "{name}");
        let mut value = [0; 64];
        let len = getxattr(landed.join("closed"), "user.comment", &mut value[..]).expect("set");
        assert_eq!(&value[..len], b"no one writes here", "{name}");
    }
}

#[test]
fn a_node_gives_nothing_away_unless_it_may() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root gives files away");
    }
    let dir = folder();
    let source = dir.path().join("src");
    plant(&source);
    give_away(&source);
    let (_node, url) = node(dir.path(), "write", &[]);
    let result = sync(&["--numeric-ids"], text(&source), &format!("{url}/up"));
    assert_eq!(result["not_set"]["modes"], 1, "{result}");
    assert!(result["not_set"]["owner"].as_u64() >= Some(4), "{result}");
    let run = fs::metadata(dir.path().join("up/run")).expect("there");
    assert_eq!((run.uid(), run.mode() & 0o7777), (0, 0o755));
}

#[test]
fn each_flag_keeps_what_it_says() {
    let dir = folder();
    let source = dir.path().join("src");
    plant(&source);
    let from = format!("{}/", text(&source));
    let copied = |flag: &str| {
        let to = dir.path().join(flag.trim_start_matches('-'));
        json_of(farline().args(["--json", "cp", "-r", flag, &from, text(&to)]));
        to
    };
    let has = |to: &Path, path: &str, name: &str| {
        getxattr(to.join(path), name, &mut [0; 256][..]).is_ok()
    };
    for (flag, links, acls, xattrs) in [
        ("-H", 3, false, false),
        ("--hard-links", 3, false, false),
        ("-A", 1, true, false),
        ("--acls", 1, true, false),
        ("-X", 1, false, true),
        ("--xattrs", 1, false, true),
        ("--owner", 1, false, false),
    ] {
        let to = copied(flag);
        assert_eq!(fs::metadata(to.join("a")).expect("there").nlink(), links, "{flag}");
        assert_eq!(has(&to, "d/b", "system.posix_acl_access"), acls, "{flag}");
        assert_eq!(has(&to, "d/e", "system.posix_acl_default"), acls, "{flag}");
        assert_eq!(has(&to, "x", "user.comment"), xattrs, "{flag}");
    }
}

#[test]
fn digests_are_kept_with_files() {
    let dir = folder();
    let source = dir.path().join("src");
    fs::create_dir_all(source.join("d")).expect("folders");
    let large = random(5, 5 << 20);
    for (path, content) in [("check", &b"123456789"[..]), ("empty", b""), ("d/large", &large)] {
        fs::write(source.join(path), content).expect("written");
    }
    fs::set_permissions(source.join("check"), PermissionsExt::from_mode(0o400)).expect("set");
    let (_node, url) = node(dir.path(), "write", &[]);
    let kept = |place: &str, path: &str, name: &str| {
        let mut value = [0; 256];
        let len = getxattr(dir.path().join(place).join(path), name, &mut value[..]).ok()?;
        Some(String::from_utf8(value[..len].to_vec()).expect("hexadecimal"))
    };
    let (there, again) = (format!("{url}/up/"), format!("{url}/third/"));
    let from = format!("{}/", text(&source));
    for (place, from, to) in [
        ("here", &from, format!("{}/here/", text(dir.path()))),
        ("up", &from, there.clone()),
        ("down", &there, format!("{}/down/", text(dir.path()))),
        ("third", &there, again),
    ] {
        json_of(farline().args(["--json", "cp", "-r", "--digest-xattr", from, &to]));
        // The check value of CRC-64/NVME's specification.
        let crc = "user.farline.crc64nvme";
        assert_eq!(kept(place, "check", crc).as_deref(), Some("ae8b14860a799888"), "{place}");
        assert_eq!(kept(place, "empty", crc).as_deref(), Some("0000000000000000"), "{place}");
        assert_eq!(kept(place, "d/large", crc).expect("there").len(), 16, "{place}");
        let mode = fs::metadata(dir.path().join(place).join("check")).expect("there").mode();
        assert_eq!(mode & 0o7777, 0o400, "{place}");
    }
    let to = format!("{url}/blake3/");
    let args = ["--json", "cp", "-r", "--digest-xattr", "--verify", "blake3", &from, &to];
    json_of(farline().args(args));
    // BLAKE3's published test vector of no bytes.
    let expected = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(kept("blake3", "empty", "user.farline.blake3").as_deref(), Some(expected));
    assert_eq!(kept("blake3", "d/large", "user.farline.blake3").map(|hex| hex.len()), Some(64));
    assert_eq!(kept("blake3", "d/large", "user.farline.crc64nvme"), None);
    let args = ["cp", "-r", "--digest-xattr", "--verify", "none", &from, &to];
    let (error, exit) = error_of(&args);
    assert_eq!((error["code"].as_str(), exit), (Some("usage"), 2), "{error}");
}

#[test]
fn what_no_clobber_leaves_keeps_its_attributes() {
    let dir = folder();
    let source = dir.path().join("src");
    fs::create_dir(&source).expect("a folder");
    for name in ["kept", "new"] {
        fs::write(source.join(name), "theirs").expect("written");
        set(&source.join(name), "user.comment", b"theirs");
    }
    fs::hard_link(source.join("kept"), source.join("other")).expect("linked");
    let (_node, url) = node(dir.path(), "write", &[]);
    let comment = |path: &Path| {
        let mut value = [0; 64];
        let len = getxattr(path, "user.comment", &mut value[..]).expect("set");
        value[..len].to_vec()
    };
    let from = format!("{}/", text(&source));
    for (place, from, to) in [
        ("here", &from, text(&dir.path().join("here")).to_owned()),
        ("up", &from, format!("{url}/up")),
        ("down", &format!("{url}/src/"), text(&dir.path().join("down")).to_owned()),
    ] {
        let landed = dir.path().join(place);
        fs::create_dir(&landed).expect("a folder");
        fs::write(landed.join("kept"), "mine").expect("written");
        set(&landed.join("kept"), "user.comment", b"mine");
        // Further names of one file would lead to what is kept, or replace it.
        for links in ["-H", "-a"] {
            let (error, exit) = error_of(&["cp", "-r", "--no-clobber", links, from, &to]);
            assert_eq!((error["code"].as_str(), exit), (Some("usage"), 2), "{place}: {error}");
        }
        assert!(!landed.join("other").exists(), "{place}");
        let args = ["--json", "cp", "-r", "--no-clobber", "-X", from, &to];
        let copied = json_of(farline().args(args));
        assert_eq!(copied["files"], 2, "{place}: {copied}");
        assert_eq!(fs::read(landed.join("kept")).expect("there"), b"mine", "{place}");
        assert_eq!(comment(&landed.join("kept")), b"mine", "{place}");
        for name in ["new", "other"] {
            assert_eq!(fs::read(landed.join(name)).expect("there"), b"theirs", "{place}");
            assert_eq!(comment(&landed.join(name)), b"theirs", "{place}");
        }
    }
}

#[test]
fn where_it_cannot_be_kept_nothing_moves() {
    let dir = folder();
    fs::write(dir.path().join("f"), "f").expect("written");
    let (_globus, globus) = globus_server();
    let there = format!("{globus}{}/g", dir.path().display());
    let from = dir.path().join("f");
    for args in [&["-a", text(&from), &there][..], &["-X", &there, text(&from)]] {
        let (error, exit) = error_of(&[&["cp"], args].concat());
        assert_eq!((error["code"].as_str(), exit), (Some("unsupported"), 4), "{error}");
    }
    let (error, exit) = error_of(&["cp", "-a", text(&from), "null:"]);
    assert_eq!((error["code"].as_str(), exit), (Some("unsupported"), 2), "{error}");
    assert!(!dir.path().join("g").exists());
}
