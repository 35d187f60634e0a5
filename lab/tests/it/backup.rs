//! `--backup`: what is replaced or deleted is kept, and there is no moment without the old file or
//! the new one.

use farline_lab::files::{folder, text};
use farline_lab::{error_of, farline, globus_server, json_of, node, succeed};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

fn plant(top: &Path, paths: &[(&str, &str)]) {
    for (path, content) in paths {
        let file = top.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, content).expect("written");
    }
}

const NEW: [(&str, &str); 4] =
    [("a", "new a"), ("d/b", "the new b"), ("d/e/c", "same"), ("fresh", "fresh")];
const OLD: [(&str, &str); 5] =
    [("a", "old"), ("d/b", "old b"), ("d/e/c", "same"), ("gone/x", "gone x"), ("old", "old")];

/// A source and a destination, with the same time on what is the same.
fn stage(top: &Path) -> (PathBuf, PathBuf) {
    let (source, there) = (top.join("src"), top.join("dst"));
    plant(&source, &NEW);
    plant(&there, &OLD);
    for tree in [&source, &there] {
        succeed(Command::new("touch").args(["-d", "2024-01-01", text(&tree.join("d/e/c"))]));
    }
    (source, there)
}

/// What is in a tree, with the content of files.
fn content(top: &Path) -> Vec<String> {
    let list =
        ["-mindepth", "1", "-printf", "%P %y ", "(", "-type", "f", "-exec", "cat", "{}", ";", "-o"];
    let list = list.iter().chain(&["-true", ")", "-printf", "\n"]);
    let text = succeed(Command::new("find").arg(top).args(list));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn sync(args: &[&str], from: &str, to: &str) -> Value {
    json_of(farline().args(["--json", "sync"]).args(args).args([from, to]))
}

#[test]
fn what_goes_is_kept_as_rsync_keeps_it() {
    for args in [
        &["--backup"][..],
        &["--backup", "--delete"],
        &["--backup", "--suffix=.old", "--delete"],
        &["--backup", "--backup-dir=../kept", "--delete"],
        &["--backup", "--backup-dir=../kept", "--suffix=.1"],
    ] {
        for way in ["here", "up", "down", "across"] {
            let dir = folder();
            let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
            let (source, there) = stage(&ours);
            let (_, by_rsync) = stage(&theirs);
            let third =
                ["--third-party", "--third-party-net", "127.0.0.0/8", "--listen", "127.0.0.2:0"];
            let (_node, url) = node(&ours, "write", &third);
            let third =
                ["--third-party", "--third-party-net", "127.0.0.0/8", "--listen", "127.0.0.3:0"];
            let (_other, other) = node(&ours, "write", &third);
            let (from, to) = match way {
                "up" => (text(&source).to_owned(), format!("{url}/dst")),
                "down" => (format!("{url}/src"), text(&there).to_owned()),
                "across" => (format!("{url}/src"), format!("{other}/dst")),
                _ => (text(&source).to_owned(), text(&there).to_owned()),
            };
            let (rsync_from, rsync_to) =
                (format!("{}/", text(&source)), format!("{}/", text(&by_rsync)));
            succeed(Command::new("rsync").arg("-rt").args(args).args([&rsync_from, &rsync_to]));
            let result = sync(args, &from, &to);
            assert_eq!(result["failures"], serde_json::json!([]), "{way} {args:?}");
            assert_eq!(result["not_deleted"], serde_json::json!([]), "{way} {args:?}");
            assert_eq!(content(&there), content(&by_rsync), "{way} {args:?}");
            let kept = [ours.join("kept"), theirs.join("kept")];
            assert_eq!(kept[0].exists(), kept[1].exists(), "{way} {args:?}");
            if kept[0].exists() {
                assert_eq!(content(&kept[0]), content(&kept[1]), "{way} {args:?}");
            }
            // Once more: backups are not what the source lacks, and nothing is replaced.
            let before = content(&ours);
            sync(args, &from, &to);
            assert_eq!(content(&ours), before, "{way} {args:?}");
        }
    }
}

/// The folder of backups is not what the source lacks, whatever path leads to it.
#[test]
fn backups_stay_however_their_folder_is_written() {
    for (way, is_whole) in [("here", false), ("here", true), ("up", false), ("up", true)] {
        let dir = folder();
        let (source, there) = (dir.path().join("src"), dir.path().join("dst"));
        plant(dir.path(), &[("src/a", "new"), ("dst/a", "older"), ("dst/gone/x", "gone x")]);
        std::os::unix::fs::symlink(".", dir.path().join("way")).expect("linked");
        let (_node, url) = node(dir.path(), "write", &[]);
        let (to, whole) = match way {
            "up" => (format!("{url}/dst"), "/way/dst/old".to_owned()),
            _ => (text(&there).to_owned(), format!("{}/way/dst/old", dir.path().display())),
        };
        let written = if is_whole { &whole[..] } else { ".//old/" };
        let args = ["--delete", "--backup-dir", written];
        let result = sync(&args, text(&source), &to);
        assert_eq!(result["deleted"], serde_json::json!(["gone/x", "gone"]), "{way} {written}");
        let before = content(&there);
        assert!(before.iter().any(|line| line == "old/gone/x f gone x"), "{way}: {before:?}");
        let plan = sync(&[&args[..], &["--dry-run"]].concat(), text(&source), &to);
        assert_eq!(plan["planned"], serde_json::json!([]), "{way} {written}");
        let again = sync(&args, text(&source), &to);
        assert_eq!(again["deleted"], serde_json::json!([]), "{way} {written}");
        assert_eq!(content(&there), before, "{way} {written}");
    }
}

#[test]
fn a_reader_always_finds_the_old_file_or_the_new_one() {
    for way in ["here", "up"] {
        let dir = folder();
        let (source, there) = (dir.path().join("f"), dir.path().join("dst/f"));
        plant(dir.path(), &[("f", "0"), ("dst/f", "old")]);
        let (_node, url) = node(dir.path(), "write", &[]);
        let to = if way == "up" { format!("{url}/dst/f") } else { text(&there).to_owned() };
        let over = AtomicBool::new(false);
        let missed = std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut missed = 0;
                while !over.load(Ordering::Relaxed) {
                    missed += u64::from(fs::read(&there).is_err());
                }
                missed
            });
            for round in 0..15 {
                fs::write(&source, format!("round {round}")).expect("written");
                json_of(farline().args(["--json", "cp", "-b", text(&source), &to]));
                let kept = fs::read_to_string(dir.path().join("dst/f~")).expect("kept");
                let before = if round == 0 { "old".into() } else { format!("round {}", round - 1) };
                assert_eq!(kept, before, "{way}");
            }
            over.store(true, Ordering::Relaxed);
            looks.join().expect("it looked")
        });
        assert_eq!(missed, 0, "{way}: there was no file at {missed} looks");
    }
}

#[test]
fn where_nothing_can_be_kept_nothing_is_replaced() {
    let dir = folder();
    plant(dir.path(), &[("f", "new"), ("dst/f", "old")]);
    let source = dir.path().join("f");
    let (_globus, globus) = globus_server();
    let stock = format!("{globus}{}/dst/f", dir.path().display());
    let (error, exit) = error_of(&["cp", "--backup", text(&source), &stock]);
    assert_eq!((error["code"].as_str(), exit), (Some("unsupported"), 4), "{error}");
    // Nor of a pipe, which no server keeps from.
    let (_node, url) = node(dir.path(), "write", &[]);
    for to in [format!("{url}/dst/f"), stock] {
        for kept in ["--backup", "--skip-same", "--checksum"] {
            let (error, exit) = error_of(&["cp", kept, "-", &to]);
            assert_eq!((error["code"].as_str(), exit), (Some("unsupported"), 2), "{kept} {error}");
        }
    }
    // On another file system nothing can be moved to.
    let other = tempfile::tempdir().expect("a folder of another file system");
    let device = |path: &Path| rustix::fs::stat(path).expect("there").st_dev;
    if device(other.path()) != device(dir.path()) {
        let apart = text(other.path());
        let to = text(dir.path()).to_owned() + "/dst/";
        let (error, exit) = error_of(&["cp", "--backup-dir", apart, text(&source), &to]);
        assert_eq!((error["code"].as_str(), exit), (Some("unsupported"), 2), "{error}");
    }
    for args in [&["--suffix", ".x"][..], &["-b", "--suffix", ""], &["-b", "--suffix", "a/b"]] {
        let to = text(&dir.path().join("dst")).to_owned();
        let (error, exit) = error_of(&[&["cp"], args, &[text(&source), &to]].concat());
        assert_eq!((error["code"].as_str(), exit), (Some("usage"), 2), "{error}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("dst/f")).expect("there"), "old");
}
