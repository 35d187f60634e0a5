//! Names that stay behind, of files that have several and of sources that share one: what stands at
//! the destination under such a name gets nothing of them, and lends itself to no other name.

use farline_lab::files::{folder, text};
use farline_lab::{farline, json_of, node};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// A file with a time of its own, in seconds since the Unix epoch.
fn write(path: &Path, content: &str, seconds: u64) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("written");
    let file = fs::File::options().write(true).open(path).expect("opened");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("set");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("there").ino()
}

/// The result of a copy of which one path is refused, for another source took it.
fn one_refused(args: &[&str]) -> Value {
    let output = farline().arg("--json").args(args).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let result: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let failures = result["failures"].as_array().unwrap_or_else(|| panic!("{result}"));
    assert_eq!((failures.len(), output.status.code()), (1, Some(2)), "{result}");
    assert_eq!(failures[0]["error"]["code"], "path-exists", "{result}");
    result
}

#[test]
fn a_refused_file_gives_the_one_in_its_place_nothing() {
    let dir = folder();
    let at = |path: &str| dir.path().join(path);
    for (path, content, seconds, mode) in
        [("a/x", "first", 1_600_000_000, 0o640), ("b/x", "other", 1_650_000_000, 0o604)]
    {
        write(&at(path), content, seconds);
        fs::set_permissions(at(path), PermissionsExt::from_mode(mode)).expect("set");
    }
    let (_node, url) = node(dir.path(), "write", &[]);
    for (way, from) in [("here", text(dir.path())), ("down", &url[..])] {
        let (a, b) = (format!("{from}/a/"), format!("{from}/b/"));
        let to = at(way);
        one_refused(&["cp", "-a", &a, &b, text(&to)]);
        let landed = fs::metadata(to.join("x")).expect("landed");
        let facts = (read(&to.join("x")), landed.mtime(), landed.mode() & 0o7777);
        assert_eq!(facts, ("first".to_owned(), 1_600_000_000, 0o640), "{way}");
        // Nor does it look like the other, so that it would stay.
        let result = json_of(farline().args(["--json", "sync", "-a", &b, text(&to)]));
        assert_eq!(result["files"], 1, "{way}: {result}");
        assert_eq!(read(&to.join("x")), "other", "{way}");
    }
}

#[test]
fn another_name_of_a_refused_file_has_its_own_content() {
    let dir = folder();
    let at = |path: &str| dir.path().join(path);
    write(&at("a/x"), "first", 1_600_000_000);
    write(&at("b/x"), "other", 1_650_000_000);
    fs::hard_link(at("b/x"), at("b/y")).expect("linked");
    let (_node, url) = node(dir.path(), "write", &[]);
    for (way, from) in [("here", text(dir.path())), ("down", &url[..])] {
        let (a, b) = (format!("{from}/a/"), format!("{from}/b/"));
        let to = at(way);
        let result = one_refused(&["cp", "-a", &a, &b, text(&to)]);
        assert_eq!(result["files"], 2, "{way}: {result}");
        assert_eq!((read(&to.join("x")), read(&to.join("y"))), ("first".into(), "other".into()));
        assert_ne!(inode(&to.join("x")), inode(&to.join("y")), "{way}");
    }
}

#[test]
fn another_name_of_an_excluded_file_has_its_own_content() {
    let dir = folder();
    let (source, list) = (dir.path().join("src"), dir.path().join("list"));
    write(&source.join("d/x"), "theirs", 1_600_000_000);
    // A tree is listed folder by folder: behind it, and in a folder that is behind it too.
    fs::create_dir_all(source.join("e/f")).expect("folders");
    for path in ["e/f/y", "e/f/z"] {
        fs::hard_link(source.join("d/x"), source.join(path)).expect("linked");
    }
    // Small ones share a block with it, with and without one that stays behind too.
    for path in ["left", "more"] {
        write(&source.join(path), path, 1_600_000_000);
    }
    fs::write(&list, "e/f/y\ne/f/z\nmore\n").expect("written");
    let (_node, url) = node(dir.path(), "write", &[]);
    let (from_list, there) = (format!("--files-from={}", text(&list)), format!("{url}/src"));
    let chosen: [&[&str]; 3] =
        [&["--exclude=/d/x"], &["--exclude=/d/x", "--exclude=left"], &[from_list.as_str()]];
    for (way, from) in [("here", text(&source)), ("down", &there[..])] {
        for (number, args) in chosen.iter().enumerate() {
            // Another file has the name that stays behind, or none has.
            for is_there in [true, false] {
                let what = format!("{way} {args:?} {is_there}");
                let to = dir.path().join(format!("{way}{number}{is_there}"));
                if is_there {
                    write(&to.join("d/x"), "mine", 1_500_000_000);
                }
                let sync = || {
                    let mut command = farline();
                    command.args(["--json", "sync", "-a"]).args(*args).args([from, text(&to)]);
                    json_of(&mut command)
                };
                let result = sync();
                assert_eq!(result["failures"], serde_json::json!([]), "{what}: {result}");
                for path in ["e/f/y", "e/f/z"] {
                    assert_eq!(read(&to.join(path)), "theirs", "{what}: {path}");
                }
                assert_eq!(inode(&to.join("e/f/y")), inode(&to.join("e/f/z")), "{what}");
                assert_eq!(read(&to.join("more")), "more", "{what}");
                match is_there {
                    true => assert_eq!(read(&to.join("d/x")), "mine", "{what}"),
                    false => assert!(!to.join("d/x").exists(), "{what}"),
                }
                let again = sync();
                let moved = (&again["files"], &again["moved_bytes"]);
                assert_eq!(moved, (&0.into(), &0.into()), "{what}: {again}");
                assert_eq!(read(&to.join("e/f/y")), "theirs", "{what}");
            }
        }
    }
}
