//! Files and folders that their owner may not write to, copied by an ordinary user.

use farline_lab::files::{hidden, names, plant_file, text};
use farline_lab::ordinary::Ordinary;
use farline_lab::{assert_same_tree, json_of, succeed, wait_for};
use rustix::process::Signal;
use std::fs::{create_dir_all, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Sets the mode of every file below `folder` and, behind them, of every folder.
fn protect(folder: &Path, files: u32, folders: u32) {
    for item in folder.read_dir().expect("a folder") {
        let path = item.expect("an entry").path();
        if path.is_dir() {
            protect(&path, files, folders);
        } else {
            set_permissions(&path, PermissionsExt::from_mode(files)).expect("protected");
        }
    }
    set_permissions(folder, PermissionsExt::from_mode(folders)).expect("protected");
}

/// A tree with `files` small files and a larger one, none of which may be written to.
fn read_only_tree(user: &Ordinary, name: &str, files: usize) -> PathBuf {
    let tree = user.path().join(name);
    create_dir_all(tree.join("d/e")).expect("folders");
    for i in 0..files {
        write(tree.join("d").join(format!("f{i}")), format!("file {i}")).expect("written");
    }
    write(tree.join("d/empty"), "").expect("written");
    plant_file(&tree.join("d/e/large"), 3, files as u64);
    user.own(&tree);
    protect(&tree, 0o444, 0o555);
    tree
}

fn made(user: &Ordinary, name: &str) -> PathBuf {
    let folder = user.path().join(name);
    create_dir_all(&folder).expect("a folder");
    user.own(&folder);
    folder
}

fn copied(user: &Ordinary, args: &[&str]) {
    let done = json_of(user.farline().args(["--json", "cp", "-r"]).args(args));
    assert_eq!(done["failures"], serde_json::json!([]), "{args:?}: {done}");
}

#[test]
fn read_only_files_and_folders_go_every_way() {
    let user = Ordinary::new();
    let [there, third, down, here] =
        ["there", "third", "down", "here"].map(|name| made(&user, name));
    let (_there, node) = user.node(&there);
    let (_third, other) = user.node(&third);
    // Few files are made durable one by one, many together.
    for files in [3, 40] {
        let name = format!("t{files}");
        let tree = read_only_tree(&user, &name, files);
        // The second time into folders that may not be written to, over files that may not.
        for round in 0..2 {
            for (from, to, landed) in [
                (text(&tree), &format!("{node}/")[..], &there),
                (&format!("{node}/{name}")[..], text(&down), &down),
                (&format!("{node}/{name}")[..], &format!("{other}/")[..], &third),
                (text(&tree), text(&here), &here),
            ] {
                copied(&user, &[from, to]);
                let landed = landed.join(&name);
                assert_same_tree(&tree, &landed);
                let mode = landed.join("d").metadata().expect("there").permissions().mode();
                assert_eq!(mode & 0o777, 0o555, "{round} {from} {to}");
                assert_eq!(hidden(landed.parent().expect("a folder")), Vec::<String>::new());
            }
        }
    }
    let one = user.path().join("t3/d/e/large");
    for (from, to, landed) in [
        (text(&one), &format!("{node}/one")[..], there.join("one")),
        (&format!("{node}/one")[..], text(&down.join("one")), down.join("one")),
        (&format!("{node}/one")[..], &format!("{other}/one")[..], third.join("one")),
        (text(&one), text(&here.join("one")), here.join("one")),
    ] {
        for _ in 0..2 {
            copied(&user, &[from, to]);
            assert!(std::fs::read(&landed).expect("landed") == std::fs::read(&one).expect("there"));
            let mode = landed.metadata().expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o444, "{from} {to}");
        }
    }
}

#[test]
fn a_read_only_folder_itself_is_synced_again_and_again() {
    let user = Ordinary::new();
    let tree = read_only_tree(&user, "ro", 3);
    let (_node, url) = user.node(user.path());
    let mode = |folder: &Path| folder.metadata().expect("there").permissions().mode() & 0o7777;
    for (way, from) in [("here", text(&tree)), ("down", &format!("{url}/ro")[..])] {
        // The second kind is as another program made it.
        for (flags, is_there) in [(&["-a"][..], false), (&["-a"], true), (&[], true)] {
            let what = format!("{way} {flags:?} {is_there}");
            let landed = user.path().join(format!("{way}{}{is_there}", flags.len()));
            if is_there {
                made(&user, text(&landed));
                set_permissions(&landed, PermissionsExt::from_mode(0o555)).expect("set");
            }
            for round in ["new", "unchanged", "changed"] {
                if round == "changed" {
                    let file = tree.join("d/f1");
                    set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("set");
                    write(&file, format!("changed for {what}")).expect("written");
                    set_permissions(&file, PermissionsExt::from_mode(0o444)).expect("set");
                }
                let mut command = user.farline();
                command.args(["--json", "sync"]).args(flags).args([from, text(&landed)]);
                let done = json_of(&mut command);
                assert_eq!(done["failures"], serde_json::json!([]), "{what} {round}: {done}");
                assert_same_tree(&tree, &landed);
                assert_eq!(hidden(&landed), Vec::<String>::new(), "{what} {round}");
                assert_eq!(mode(&landed), 0o555, "{what} {round}");
            }
        }
    }
}

#[test]
fn a_killed_copy_of_read_only_files_goes_on_where_it_was() {
    let user = Ordinary::new();
    let tree = user.path().join("t");
    create_dir_all(tree.join("d")).expect("folders");
    for i in 0..40 {
        plant_file(&tree.join("d").join(format!("f{i}")), 4, i);
    }
    user.own(&tree);
    protect(&tree, 0o444, 0o555);
    let (there, down) = (made(&user, "there"), made(&user, "down"));
    let (_node, node) = user.node(&there);
    for (from, to, landed) in [
        (text(&tree), &format!("{node}/")[..], &there),
        (&format!("{node}/t")[..], text(&down), &down),
    ] {
        let limited = ["-q", "cp", "-r", "--limit", "200Mbit/s", from, to];
        let child = user.farline().args(limited).stderr(Stdio::null()).spawn();
        let mut client = farline_lab::Running(child.expect("runs"));
        // Several records of 8 MiB and more: files that were whole when one was written.
        let journal = || {
            let name =
                hidden(landed).into_iter().find(|name| name.ends_with(".journal.farline"))?;
            Some(std::fs::metadata(landed.join(name)).ok()?.len())
        };
        wait_for("a journal", || journal() > Some(0));
        for _ in 0..5 {
            let seen = journal();
            wait_for("another record", || journal() > seen);
        }
        client.end(Signal::KILL);
        // As one that was killed while it landed would have left them.
        for folder in [landed.join("t"), landed.join("t/d")] {
            for name in hidden(&folder) {
                set_permissions(folder.join(name), PermissionsExt::from_mode(0o444)).expect("set");
            }
            set_permissions(folder, PermissionsExt::from_mode(0o555)).expect("set");
        }
        let done = json_of(user.farline().args(["--json", "cp", "-r", from, to]));
        assert!(done["resumed_bytes"].as_u64() > Some(30 << 20), "{from}: {done}");
        assert_eq!(done["verified"], true, "{done}");
        assert_same_tree(&tree, &landed.join("t"));
        assert_eq!(hidden(landed), Vec::<String>::new());
    }
}

#[test]
fn one_refused_folder_costs_a_tree_only_what_goes_there() {
    let user = Ordinary::new();
    let tree = user.path().join("t");
    for folder in ["locked", "locked/e", "way/e", "open"] {
        create_dir_all(tree.join(folder)).expect("folders");
        for i in 0..20 {
            write(tree.join(folder).join(format!("f{i}")), format!("{folder} {i}"))
                .expect("written");
        }
        write(tree.join(folder).join("empty"), "").expect("written");
        std::os::unix::fs::symlink("f0", tree.join(folder).join("link")).expect("a link");
    }
    plant_file(&tree.join("way/large"), 3, 1);
    plant_file(&tree.join("open/large"), 3, 2);
    user.own(&tree);
    let roots = ["there", "third", "down", "here"].map(|name| made(&user, name));
    for root in &roots {
        let copy = root.join("t");
        create_dir_all(&copy).expect("a folder");
        // A file stands where a folder is to be.
        write(copy.join("way"), "old").expect("written");
        user.own(&copy);
        // Somebody else's, where root runs the test.
        create_dir_all(copy.join("locked")).expect("a folder");
    }
    let [there, third, down, here] = &roots;
    let (_source, source) = user.node(user.path());
    let (_there, node) = user.node(there);
    let (_third, other) = user.node(third);
    let is_locked = rustix::process::geteuid().is_root();
    for (from, to, root) in [
        (text(&tree), &format!("{node}/")[..], there),
        (&format!("{source}/t")[..], text(down), down),
        (&format!("{source}/t")[..], &format!("{other}/")[..], third),
        (text(&tree), text(here), here),
    ] {
        let output = user.farline().args(["--json", "cp", "-r", from, to]).output().expect("runs");
        let done: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{from} {to}: {error}: {output:?}"));
        assert!(!output.status.success(), "{from} {to}: {done}");
        let named: Vec<&str> = done["failures"]
            .as_array()
            .unwrap_or_else(|| panic!("{from} {to}: {done}"))
            .iter()
            .map(|failure| failure["path"].as_str().expect("a path"))
            .collect();
        let is_expected = |path: &str| {
            let path = path.strip_prefix("t/").unwrap_or(path);
            path.starts_with("way") || (is_locked && path.starts_with("locked"))
        };
        assert!(named.iter().all(|path| is_expected(path)), "{from} {to}: {named:?}");
        for path in ["way", "way/e", "way/large", "way/e/f7", "way/e/link", "way/e/empty"] {
            let count = named.iter().filter(|named| named.ends_with(path)).count();
            assert_eq!(count, 1, "{from} {to}: {path} in {named:?}");
        }
        let landed = root.join("t");
        assert_same_tree(&tree.join("open"), &landed.join("open"));
        assert_eq!(std::fs::read(landed.join("way")).expect("stays"), b"old");
        if is_locked {
            assert_eq!(landed.join("locked").read_dir().expect("a folder").count(), 0);
            assert!(named.iter().any(|named| named.ends_with("locked/f3")), "{named:?}");
        } else {
            assert_same_tree(&tree.join("locked"), &landed.join("locked"));
        }
        let files = if is_locked { 22 } else { 64 };
        assert_eq!(done["files"], files, "{from} {to}: what failed is not counted");
        assert_eq!(done["verified"], false);
        assert_eq!(hidden(root), Vec::<String>::new());
    }
}

#[test]
fn a_private_folder_stays_private_wherever_it_is_copied() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let user = Ordinary::new();
    let at = |name: &str| user.path().join(name);
    for (name, mode) in [("p700", 0o700), ("p555", 0o555)] {
        std::fs::create_dir(at(name)).expect("a folder");
        std::fs::write(at(name).join("f"), "private").expect("written");
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).expect("set");
    }
    std::fs::create_dir(at("here")).expect("a folder");
    user.own(user.path());
    let (_node, url) = user.node(user.path());
    for (name, mode) in [("p700", 0o700), ("p555", 0o555)] {
        for (from, to) in [
            (text(&at(name)).to_owned(), text(&at("here")).to_owned()),
            (text(&at(name)).to_owned(), format!("{url}/up/")),
            (format!("{url}/{name}"), text(&at("down")).to_owned()),
        ] {
            succeed(user.farline().args(["cp", "-r", &from, &to]));
            let folder = at(to.rsplit('/').find(|part| !part.is_empty()).expect("a name"));
            let found = folder.join(name).metadata().expect("it came").mode() & 0o777;
            assert_eq!(found, mode, "{from} {to}");
            let left: Vec<String> = names(&folder.join(name));
            assert_eq!(left, ["f"], "{from} {to}: a journal stays");
        }
    }
}
