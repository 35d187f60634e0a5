//! Names that a server takes for others, places that cannot be looked at, and a second sync to a
//! server that is no Farline node.

use farline_lab::files::text;
use farline_lab::{error_of_command, farline, globus_server, json_of, node, ordinary::Ordinary};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is in `folder`, by lossy name.
fn content(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("entry"));
    let file = |entry: fs::DirEntry| {
        let held = fs::read_to_string(entry.path()).unwrap_or_else(|_| "a folder".to_owned());
        (entry.file_name().to_string_lossy().into_owned(), held)
    };
    entries.map(file).collect()
}

/// What a copy of which something failed says.
fn failed(args: &[&str]) -> Value {
    let output = farline().arg("--json").args(args).output().expect("farline runs");
    assert!(!output.status.success(), "{args:?} succeeded");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {output:?}"))
}

fn failures(said: &Value) -> BTreeMap<String, String> {
    let failures = said["failures"].as_array().unwrap_or_else(|| panic!("{said}"));
    let field = |value: &Value| value.as_str().expect("text").to_owned();
    failures.iter().map(|one| (field(&one["path"]), field(&one["error"]["code"]))).collect()
}

#[test]
fn no_file_lands_at_a_globus_server_under_another_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let (_server, globus) = globus_server();
    let url = |name: &str| format!("{globus}{}", at(name).display());
    for folder in ["src", "there", "theirs", "root"] {
        fs::create_dir(at(folder)).expect("a folder");
    }
    // The server drops what is not ASCII, and of byte 255 the next one too.
    let telnet = OsStr::from_bytes(b"l\xff1");
    for (name, held) in
        [("f", "plain"), ("fä", "one"), ("fö", "twotwo"), ("l", "late"), ("z", "last")]
    {
        fs::write(at("src").join(name), held).expect("written");
    }
    fs::write(at("src").join(telnet), "other").expect("written");
    let lost = ["fä", "fö", "l\u{fffd}1"];
    let plain: BTreeMap<String, String> =
        [("f", "plain"), ("l", "late"), ("z", "last")].map(|(a, b)| (a.into(), b.into())).into();
    let (_node, here) = node(&at("src"), "read", &["--third-party"]);
    let here = here.replacen("ftp://", "farline://", 1);
    for (source, name) in [(text(&at("src")).to_owned(), "up"), (format!("{here}/"), "third")] {
        let to = url(&format!("there/{name}"));
        fs::create_dir(at("there").join(name)).expect("a folder");
        let said = failed(&["cp", "-r", &source, &to]);
        let landed = at("there").join(name);
        let landed = if landed.join("src").exists() { landed.join("src") } else { landed };
        assert_eq!(content(&landed), plain, "{source}: {said}");
        let named = failures(&said);
        assert_eq!(named.len(), 3, "{said}");
        for path in lost {
            let code = named.iter().find(|(name, _)| name.ends_with(path));
            assert_eq!(code.map(|(_, code)| &code[..]), Some("invalid-name"), "{path}: {said}");
        }
        assert_eq!((&said["files"], &said["verified"]), (&3.into(), &false.into()), "{said}");
    }
    // A folder of such a name is none there.
    let mut command = farline();
    command.args(["--json", "cp", "-r"]).arg(at("src")).arg(url("there/dä"));
    let (error, _) = error_of_command(&mut command);
    assert_eq!(error["code"], "invalid-name", "{error}");
    assert!(!at("there/d").exists());

    // Down: `d` is not taken for what is listed as another.
    for (name, held) in [("d", "plain"), ("dñ", "nnnnn"), ("z", "last")] {
        fs::write(at("theirs").join(name), held).expect("written");
    }
    let said = failed(&["cp", "-r", &url("theirs"), text(&at("down"))]);
    let landed: BTreeMap<String, String> =
        [("d", "plain"), ("z", "last")].map(|(a, b)| (a.into(), b.into())).into();
    assert_eq!(content(&at("down/theirs")), landed, "{said}");
    assert!(failures(&said).keys().all(|path| path.ends_with("dñ")), "{said}");
    assert_eq!(failures(&said).len(), 1, "{said}");
}

#[test]
fn a_place_that_cannot_be_looked_at_costs_a_sync_only_itself() {
    let user = Ordinary::new();
    let tree = user.path().join("t");
    for folder in ["a", "locked", "z"] {
        fs::create_dir_all(tree.join(folder)).expect("folders");
        fs::write(tree.join(folder).join("1"), folder).expect("written");
    }
    fs::write(tree.join("odd\nname"), "x").expect("written");
    user.own(&tree);
    let root = user.path().join("root");
    fs::create_dir(&root).expect("a folder");
    user.own(&root);
    let (_node, url) = user.node(&root);
    let to = format!("{url}/t");
    let run = |args: &[&str]| {
        // A tree goes into a folder, and a folder's content to another's place.
        let to = if args[0] == "cp" { format!("{url}/") } else { to.clone() };
        let output = user.farline().arg("--json").args(args).arg(&tree).arg(to).output();
        let output = output.expect("farline runs");
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {output:?}"));
        (output.status.success(), said)
    };
    let (is_good, said) = run(&["sync"]);
    assert!(is_good && said["files"] == 4, "{said}");
    // Nobody can ask for it by a command: it comes again, as it is.
    let (is_good, said) = run(&["sync"]);
    assert!(is_good && said["files"] == 1, "{said}");
    let (_, said) = run(&["sync", "--dry-run"]);
    assert_eq!(said["planned"][0]["reason"], "not-compared", "{said}");
    // It may be there: it is not overwritten unseen.
    fs::write(root.join("t/odd\nname"), "mine").expect("written");
    let (is_good, said) = run(&["cp", "-r", "--no-clobber"]);
    assert!(!is_good && said["failures"][0]["error"]["code"] == "invalid-name", "{said}");
    assert_eq!(fs::read_to_string(root.join("t/odd\nname")).expect("read"), "mine");

    if !rustix::process::geteuid().is_root() {
        return;
    }
    fs::remove_file(tree.join("odd\nname")).expect("removed");
    // Somebody else's from here on.
    let locked = root.join("t/locked");
    std::os::unix::fs::chown(&locked, Some(0), Some(0)).expect("root's");
    fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("set");
    for folder in ["a", "z"] {
        fs::write(tree.join(folder).join("2"), folder).expect("written");
    }
    user.own(&tree);
    for args in [&["sync"][..], &["cp", "-r", "--no-clobber"]] {
        let args: Vec<&str> = args.to_vec();
        let (is_good, said) = run(&args);
        assert!(!is_good, "{said}");
        if args[0] == "sync" {
            for folder in ["a", "z"] {
                assert!(root.join("t").join(folder).join("2").exists(), "{said}");
            }
        }
        assert!(failures(&said).keys().any(|path| path.contains("locked")), "{said}");
    }
}

#[test]
fn a_second_sync_to_a_globus_server_sends_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let (_server, globus) = globus_server();
    fs::create_dir_all(at("src/a")).expect("folders");
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_577_836_800);
    for name in ["x", "a/y"] {
        fs::write(at("src").join(name), name).expect("written");
        let file = fs::File::options().write(true).open(at("src").join(name)).expect("open");
        file.set_modified(old).expect("set");
    }
    let to = format!("{globus}{}", at("there").display());
    let sync = || json_of(farline().args(["--json", "sync"]).arg(at("src")).arg(&to));
    assert_eq!(sync()["files"], 2);
    let modified = fs::metadata(at("there/a/y")).and_then(|meta| meta.modified());
    assert_eq!(modified.expect("a time"), old);
    let second = sync();
    assert_eq!(second["files"], 0, "{second}");
}

#[test]
fn a_sync_of_a_file_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    fs::write(at("root/x"), "x").expect("written");
    let (_node, url) = node(&at("root"), "read", &[]);
    for url in [url.replacen("ftp://", "farline://", 1), url] {
        let mut command = farline();
        command.args(["--json", "sync", "--delete", &format!("{url}/x")]).arg(at("here"));
        let (error, _) = error_of_command(&mut command);
        assert_eq!(error["code"], "not-a-directory", "{error}");
        assert!(!at("here").exists());
        // The same of a file of this host, to a node and within it.
        for to in [format!("{url}/there"), at("here").display().to_string()] {
            let mut command = farline();
            command.args(["--json", "sync"]).arg(at("root/x")).arg(to);
            let (error, exit) = error_of_command(&mut command);
            assert_eq!((error["code"].as_str(), exit), (Some("not-a-directory"), 2), "{error}");
            let named = format!("{} is not a directory", at("root/x").display());
            assert_eq!(error["message"], named, "{error}");
        }
    }
}

/// A name that a server cannot read costs what is below it, and not the tree.
#[test]
fn a_folder_that_a_globus_server_refuses_costs_itself() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let (_server, globus) = globus_server();
    fs::create_dir(at("there")).expect("a folder");
    for folder in [&b"a"[..], b"d\xff", b"z"] {
        let folder = at("src").join(OsStr::from_bytes(folder));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("f"), "x").expect("written");
    }
    let to = format!("{globus}{}", at("there").display());
    let said = failed(&["cp", "-r", &format!("{}/", at("src").display()), &to]);
    assert!(failures(&said).keys().all(|path| path.starts_with("d\u{fffd}")), "{said}");
    assert!(at("there/a/f").exists() && at("there/z/f").exists(), "{said}");
}
