//! `farline sync --delete`: what goes, what stays, and when nothing is deleted at all.

use farline_lab::files::{folder, text};
use farline_lab::ordinary::Ordinary;
use farline_lab::{Running, error_of, farline, json_of, node, succeed};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn plant(top: &Path, paths: &[&str]) {
    for path in paths {
        let file = top.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, path).expect("written");
    }
}

const OURS: [&str; 4] = ["a", "d/b", "d/e/c", "keep.o"];
const OLD: [&str; 6] = ["a", "old", "d/old", "gone/x/y", "gone/z", "cache/x.o"];

/// A source, and a destination that has more; a link there leads to what is nobody's business.
fn stage(dir: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (source, there) = (dir.join("src"), dir.join("served/dst"));
    plant(&source, &OURS);
    plant(&there, &OLD);
    plant(dir, &["outside/precious"]);
    symlink(dir.join("outside"), there.join("link")).expect("linked");
    (source, there)
}

fn deleted(result: &Value) -> BTreeSet<String> {
    let list = result["deleted"].as_array().expect("a list");
    list.iter().map(|path| path.as_str().expect("text").to_owned()).collect()
}

/// What rsync would delete.
fn by_rsync(args: &[&str], from: &Path, to: &Path) -> BTreeSet<String> {
    let (from, to) = (format!("{}/", text(from)), format!("{}/", text(to)));
    let mut command = Command::new("rsync");
    let said =
        succeed(command.args(["-rln", "--delete", "--out-format=%n"]).args(args).args([from, to]));
    let lines = said.lines().filter_map(|line| line.strip_prefix("deleting "));
    lines.map(|line| line.trim_end_matches('/').to_owned()).collect()
}

fn sync(args: &[&str], from: &str, to: &str) -> Value {
    json_of(farline().args(["--json", "sync", "--delete"]).args(args).args([from, to]))
}

#[test]
fn what_the_source_lacks_goes_as_rsync_has_it() {
    for args in [&[][..], &["--exclude", "*.o"], &["--exclude", "/gone/x"]] {
        for way in ["here", "up", "down"] {
            let dir = folder();
            let (source, there) = stage(dir.path());
            let served =
                if way == "up" { dir.path().join("served") } else { dir.path().to_owned() };
            let (_node, url) = node(&served, "write", &[]);
            let (from, to) = match way {
                "up" => (text(&source).to_owned(), format!("{url}/dst")),
                "down" => (format!("{url}/src"), text(&there).to_owned()),
                _ => (text(&source).to_owned(), text(&there).to_owned()),
            };
            let expected = by_rsync(args, &source, &there);
            assert!(expected.contains("old") && expected.contains("link"), "{expected:?}");
            let plan = sync(&[args, &["--dry-run"]].concat(), &from, &to);
            let planned = plan["planned"].as_array().expect("a list").iter();
            let planned: BTreeSet<String> = planned
                .filter(|file| file["reason"] == "extraneous")
                .map(|file| file["path"].as_str().expect("text").to_owned())
                .collect();
            assert_eq!(planned, expected, "{way} {args:?}");
            assert!(there.join("old").exists() && deleted(&plan).is_empty(), "a dry run");
            assert_eq!(deleted(&sync(args, &from, &to)), expected, "{way} {args:?}");
            assert!(by_rsync(args, &source, &there).is_empty(), "{way} {args:?}");
            assert!(dir.path().join("outside/precious").exists(), "links are not followed");
        }
    }
}

/// A source, and a destination where a folder, a file and a link are of another kind.
fn stage_of_kinds(dir: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (source, there) = (dir.join("src"), dir.join("served/dst"));
    plant(&source, &["a/f", "b", "c", "d/g", "same"]);
    plant(&there, &["a", "b/sub/x", "c/keep.o", "same"]);
    plant(dir, &["outside/precious"]);
    symlink(dir.join("outside"), there.join("d")).expect("linked");
    (source, there)
}

#[test]
fn what_is_of_another_kind_makes_room_as_rsync_has_it() {
    for way in ["here", "up", "down", "across"] {
        let dir = folder();
        let (source, there) = stage_of_kinds(dir.path());
        let (_node, url) = node(dir.path(), "write", &[]);
        let (from, to) = match way {
            "across" => (format!("{url}/src"), format!("{url}/served/dst")),
            way => ends(way, &url, text(&source), text(&there)),
        };
        let gone = ["a", "b", "b/sub", "b/sub/x", "c", "c/keep.o", "d"].map(str::to_owned);
        let plan = sync(&["--dry-run"], &from, &to);
        let planned = plan["planned"].as_array().expect("a list").iter();
        let planned: BTreeSet<String> = planned
            .filter(|file| file["reason"] == "extraneous")
            .map(|file| file["path"].as_str().expect("text").to_owned())
            .collect();
        assert_eq!(planned, BTreeSet::from(gone.clone()), "{way} {plan}");
        assert!(there.join("b/sub/x").exists(), "a dry run");
        let result = sync(&[], &from, &to);
        assert_eq!(deleted(&result), BTreeSet::from(gone), "{way} {result}");
        assert_eq!(result["files"], 5, "{way}: each once {result}");
        assert!(there.join("a/f").is_file() && there.join("d/g").is_file(), "{way}");
        assert!(dir.path().join("outside/precious").exists(), "links are not followed");
        assert!(by_rsync(&[], &source, &there).is_empty(), "{way}");
        succeed(Command::new("diff").args(["-r", text(&source), text(&there)]));
    }
}

#[test]
fn no_room_is_made_by_what_stays_or_beyond_what_is_allowed() {
    for (args, code) in
        [(&["--exclude", "*.o"][..], "is-a-directory"), (&["--max-delete", "3"], "not-a-directory")]
    {
        let dir = folder();
        let (source, there) = stage_of_kinds(dir.path());
        let all = [&["--json", "sync", "--delete"], args, &[text(&source), text(&there)]].concat();
        let output = farline().args(all).output().expect("runs");
        let result: Value = serde_json::from_slice(&output.stdout).expect("json");
        assert_eq!(output.status.code(), Some(2), "{result}");
        let failures = result["failures"].as_array().expect("a list");
        assert!(failures.iter().any(|failure| failure["error"]["code"] == code), "{result}");
        assert!(there.join("c/keep.o").exists(), "{result}");
        let has_room = args[0] == "--exclude";
        assert_eq!(there.join("a/f").exists(), has_room, "the others have it: {result}");
        assert_eq!(there.join("b/sub/x").exists(), !has_room, "{result}");
    }
}

/// A file that cannot be read has the name of a folder there, next to one that can: what would make
/// room for both is not deleted for the second.
#[test]
fn no_room_is_made_where_something_else_failed() {
    let user = Ordinary::new();
    for way in ["here", "up", "down"] {
        let dir = user.path().join(way);
        let (source, there) = (dir.join("src"), dir.join("served/dst"));
        plant(&source, &["a", "b"]);
        plant(&there, &["a/x", "b/y", "old"]);
        user.own(user.path());
        succeed(Command::new("chmod").args(["000", text(&source.join("b"))]));
        let (_node, url) = user.node(&dir);
        let (from, to) = ends(way, &url, text(&source), text(&there));
        let args = ["--json", "sync", "--delete", &from, &to];
        let output = user.farline().args(args).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success(), "{way}: b cannot be read: {said}");
        for file in ["a/x", "b/y", "old"] {
            assert!(there.join(file).exists(), "{way}: {file}: {said}");
        }
    }
}

#[test]
fn what_makes_room_is_kept_where_backups_are() {
    let dir = folder();
    let (source, there) = stage_of_kinds(dir.path());
    let kept = dir.path().join("kept");
    sync(&["--backup-dir", text(&kept)], text(&source), text(&there));
    for (file, content) in [("a", "a"), ("b/sub/x", "b/sub/x"), ("c/keep.o", "c/keep.o")] {
        assert_eq!(fs::read_to_string(kept.join(file)).expect("kept"), content);
    }
    succeed(Command::new("diff").args(["-r", text(&source), text(&there)]));
}

#[test]
fn an_error_of_the_source_deletes_nothing() {
    let user = Ordinary::new();
    let (source, there) = stage(user.path());
    user.own(user.path());
    succeed(Command::new("chmod").args(["000", text(&source.join("d"))]));
    let args = ["sync", "--delete", "--dry-run", text(&source), text(&there)];
    let trial = user.farline().args(args).output().expect("runs");
    let said = String::from_utf8_lossy(&trial.stdout).into_owned();
    assert!(said.contains("\nnothing would be deleted, for not every"), "{said}");
    let output = user
        .farline()
        .args(["--json", "sync", "--delete", text(&source), text(&there)])
        .output()
        .expect("runs");
    assert!(!output.status.success(), "a folder could not be read");
    // Its mode went along; without it an ordinary user's test does not see into the copy.
    succeed(Command::new("chmod").args(["755", text(&there.join("d"))]));
    assert!(there.join("old").exists() && there.join("d/old").exists());
    succeed(Command::new("chmod").args(["755", text(&source.join("d"))]));
}

#[test]
fn no_more_than_allowed_is_deleted() {
    let dir = folder();
    let (source, there) = stage(dir.path());
    let args = ["--json", "sync", "--delete", "--max-delete", "2", text(&source), text(&there)];
    let output = farline().args(args).output().expect("runs");
    let result: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!((deleted(&result).len(), output.status.code()), (2, Some(2)), "{result}");
    let error = &result["not_deleted"][0]["error"];
    assert_eq!(error["code"], "too-many-deletions");
    assert!(error["message"].as_str().is_some_and(|said| said.starts_with("7 more")), "{error}");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_moves() {
    let dir = folder();
    let (source, there) = stage(dir.path());
    let list = dir.path().join("list");
    fs::write(&list, "a\n").expect("written");
    let args = ["sync", "--delete", "--files-from", text(&list), text(&source), text(&there)];
    let (error, exit) = error_of(&args);
    assert_eq!((error["code"].as_str(), exit), (Some("unsupported"), 2), "{error}");
    assert!(!there.join("d/b").exists());
}

/// From where to where a sync goes that way, of which `url` serves the folder that has both.
fn ends(way: &str, url: &str, source: &str, there: &str) -> (String, String) {
    match way {
        "up" => (source.to_owned(), format!("{url}/served/dst")),
        "down" => (format!("{url}/src"), there.to_owned()),
        _ => (source.to_owned(), there.to_owned()),
    }
}

/// Runs with a source whose FIFO is a file there, for each way.
fn ways(dir: &Path, run: impl Fn(&str, String, String, &Path)) {
    for way in ["here", "up", "down"] {
        let dir = dir.join(way);
        let (source, there) = stage(&dir);
        succeed(Command::new("mkfifo").arg(source.join("p")));
        plant(&there, &["p"]);
        run(way, text(&source).to_owned(), text(&there).to_owned(), &dir);
    }
}

#[test]
fn a_fifo_is_named_and_keeps_nothing_from_deletion() {
    let dir = folder();
    ways(dir.path(), |way, source, there, dir| {
        let (_node, url) = node(dir, "write", &[]);
        let (from, to) = ends(way, &url, &source, &there);
        let output =
            farline().args(["--json", "sync", "--delete", &from, &to]).output().expect("runs");
        let result: Value = serde_json::from_slice(&output.stdout).expect("json");
        assert_eq!(output.status.code(), Some(2), "the FIFO was not copied: {way} {result}");
        assert_eq!(result["failures"][0]["path"], "p", "{way} {result}");
        assert_eq!(result["failures"].as_array().map(Vec::len), Some(1), "{way} {result}");
        let there = Path::new(&there);
        assert!(!there.join("old").exists() && !there.join("gone").exists(), "{way} {result}");
        assert_eq!(
            fs::read(there.join("p")).expect("kept"),
            b"p",
            "{way}: its name is the source's"
        );
    });
}

#[test]
fn an_excluded_folder_that_is_shut_keeps_nothing() {
    let user = Ordinary::new();
    for way in ["here", "up", "down"] {
        let dir = user.path().join(way);
        let (source, there) = stage(&dir);
        fs::create_dir(source.join("shut")).expect("a folder");
        user.own(user.path());
        succeed(Command::new("chmod").args(["000", text(&source.join("shut"))]));
        let (_node, url) = user.node(&dir);
        let (from, to) = ends(way, &url, text(&source), text(&there));
        let sync = ["--json", "sync", "--delete", "--exclude", "shut/", &from, &to];
        let result = json_of(user.farline().args(sync));
        assert!(!there.join("old").exists() && there.join("d/b").exists(), "{way} {result}");
        succeed(Command::new("chmod").args(["755", text(&source.join("shut"))]));
    }
}

#[test]
fn what_a_nodes_list_cannot_say_deletes_nothing() {
    let user = Ordinary::new();
    let at = |path: &str| user.path().join(path);
    for file in ["torn/a", "torn/n\nl", "dark/a", "dark/d/b"] {
        for top in ["s", "t"] {
            let file = at(top).join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, "here and there").expect("written");
        }
    }
    user.own(user.path());
    // Its names are listed, and what they are of is not seen.
    succeed(Command::new("chmod").arg("444").arg(at("s/dark/d")));
    let (_node, url) = user.node(&at("s"));
    for (folder, kept) in [("torn", "n\nl"), ("dark", "d/b")] {
        let (from, to) = (format!("{url}/{folder}"), at("t").join(folder));
        let mut sync = user.farline();
        let output = sync.args(["--json", "sync", "--delete", &from]).arg(&to).output();
        let output = output.expect("farline runs");
        // A test of an ordinary user does not see into the copy of a folder without the right to.
        succeed(Command::new("chmod").args(["-R", "u+rwx"]).arg(&to));
        assert!(!output.status.success() && to.join(kept).exists(), "{folder}: {output:?}");
    }
    succeed(Command::new("chmod").arg("755").arg(at("s/dark/d")));
    // Between two nodes the name goes with its tree.
    let more = ["--third-party", "--third-party-net", "127.0.0.0/8"];
    let (_a, from) = node(&at("s"), "write", &more);
    let (_b, to) = node(&at("t"), "write", &more);
    json_of(farline().args(["--json", "cp", "-r", &format!("{from}/torn"), &format!("{to}/new/")]));
    assert!(at("t/new/torn/n\nl").exists(), "the name is not in the list, and in the tree");
}

/// The kernel shows a folder that was removed while somebody has it open as one without names.
#[test]
fn a_source_that_was_removed_deletes_nothing() {
    let dir = folder();
    let (root, here) = (dir.path().join("root"), dir.path().join("here"));
    plant(&root, &["a"]);
    plant(&here, &["a"]);
    let (_node, url) = node(&root, "read", &[]);
    fs::remove_dir_all(&root).expect("removed");
    plant(&root, &["new"]);
    for url in [&url, &url.replacen("ftp://", "farline://", 1)] {
        let (error, code) = error_of(&["sync", "--delete", &format!("{url}/"), text(&here)]);
        assert_ne!(code, 0, "{error}");
        assert!(here.join("a").exists(), "{url}: {error}");
        let (error, _) = error_of(&["cp", "-r", &format!("{url}/"), text(&dir.path().join("new"))]);
        assert_eq!(error["code"], "path-not-found", "{error}");
    }
    // The same of this host's: the folder that a shell still stands in.
    let gone = dir.path().join("gone");
    let script = format!(
        "mkdir {0} && cd {0} && rmdir {0} && exec {1} --json sync --delete . {2}",
        text(&gone),
        text(&farline_lab::farline_binary()),
        text(&here)
    );
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    assert!(!output.status.success() && here.join("a").exists(), "{output:?}");
}

/// What is deleted in a folder changes its time, which is the source's again afterwards.
#[test]
fn folders_keep_the_sources_times_where_something_was_deleted() {
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(978_307_200_123_456_789);
    for way in ["here", "up", "down"] {
        let dir = folder();
        let (source, there) = stage(dir.path());
        fs::File::open(source.join("d")).and_then(|d| d.set_modified(old)).expect("dated");
        let (_node, url) = node(dir.path(), "write", &[]);
        let url = url.replacen("ftp://", "farline://", 1);
        let (from, to) = ends(way, &url, text(&source), text(&there));
        let result = sync(&["-a"], &from, &to);
        assert!(deleted(&result).contains("d/old"), "{way}: {result}");
        let time = fs::metadata(there.join("d")).and_then(|meta| meta.modified()).expect("a time");
        assert_eq!(time, old, "{way}");
    }
}

#[test]
fn a_name_that_changed_its_case_is_another() {
    let dir = folder();
    for way in ["here", "up", "down"] {
        let dir = dir.path().join(way);
        let (source, there) = stage(&dir);
        let (_node, url) = node(&dir, "write", &[]);
        let (from, to) = ends(way, &url, text(&source), text(&there));
        sync(&[], &from, &to);
        for (old, new) in [("a", "A"), ("d/b", "d/B"), ("d/e", "d/E")] {
            fs::rename(source.join(old), source.join(new)).expect("renamed");
        }
        let gone = deleted(&sync(&[], &from, &to));
        assert_eq!(gone, ["a", "d/b", "d/e", "d/e/c"].map(str::to_owned).into(), "{way}");
        for (name, content) in [("A", "a"), ("d/B", "d/b"), ("d/E/c", "d/e/c")] {
            let landed = fs::read(there.join(name)).expect("landed");
            assert_eq!(landed, content.as_bytes(), "{way}: {name}");
        }
        assert!(!there.join("a").exists() && !there.join("d/e").exists(), "{way}");
    }
}

/// A way to the node at `port` that lets so many deletions through, and nothing behind them.
fn stuck_after(port: u16, deletions: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("bound").port();
    let gone = Arc::<AtomicUsize>::default();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut server = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            let mut back = (server.try_clone().expect("open"), client.try_clone().expect("open"));
            std::thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
            let gone = Arc::clone(&gone);
            std::thread::spawn(move || {
                let (mut lines, mut line) = (BufReader::new(client), Vec::new());
                while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    let is_deletion = line.starts_with(b"DELE ");
                    if is_deletion && gone.fetch_add(1, Ordering::Relaxed) >= deletions {
                        // Open, and silent, for longer than anybody waits.
                        std::thread::sleep(Duration::from_secs(120));
                    }
                    if server.write_all(&line).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    own
}

/// A source of one file, and a destination with so many more in one folder.
fn many_old(dir: &Path, count: usize) -> (std::path::PathBuf, std::path::PathBuf) {
    let (source, there) = (dir.join("src"), dir.join("served/dst"));
    plant(&source, &["a"]);
    plant(&there, &["a", "old/z"]);
    (1..count).for_each(|file| {
        fs::File::create(there.join(format!("old/{file:06}"))).expect("made");
    });
    (source, there)
}

#[test]
fn a_deadline_amid_deletions_ends_them_and_the_rest_goes_later() {
    let dir = folder();
    let (source, there) = many_old(dir.path(), 700);
    let (_node, url) = node(&dir.path().join("served"), "write", &[]);
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let by = format!("ftp://127.0.0.1:{}/dst", stuck_after(port, 300));
    let args = ["sync", "--delete", "--deadline", "8s", "--timeout", "60", text(&source), &by];
    let (error, exit) = error_of(&args);
    let message = error["message"].as_str().expect("words");
    assert_eq!((error["code"].as_str(), exit), (Some("deadline-passed"), 5), "{error}");
    assert!(message.contains("deleting what the source does not have"), "{error}");
    let left = || fs::read_dir(there.join("old")).map_or(0, Iterator::count);
    assert_eq!(left(), 400, "what was asked for before, and nothing else");
    let said = sync(&[], text(&source), &format!("{url}/dst"));
    assert_eq!((deleted(&said).len(), left()), (401, 0), "they, and their folder");
}

#[test]
fn a_signal_ends_deletions_on_this_host() {
    let dir = folder();
    let (source, there) = many_old(dir.path(), 40_000);
    let mut command = farline();
    command.args(["sync", "--delete", "--max-delete", "100000"]).arg(&source).arg(&there);
    let mut syncing = Running(command.stdout(Stdio::null()).spawn().expect("farline starts"));
    let first = there.join("old/000001");
    let last = there.join("old/039999");
    let one = |at: &Path| at.symlink_metadata().is_ok();
    while one(&first) && one(&last) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = syncing.end(Signal::INT);
    let left = fs::read_dir(there.join("old")).map_or(0, Iterator::count);
    assert_eq!(status.code(), Some(130), "{left} are left");
    assert!(left > 0, "it went on to the end");
}
