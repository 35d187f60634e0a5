//! `farline sync` and the flags that choose files, here, to and from a node; filters as rsync reads
//! them.

use farline_lab::raw::RawClient;
use farline_lab::{assert_same_tree, error_of, farline, json_of, node, plant, succeed};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// A tree in which patterns can go wrong.
const PATHS: [&str; 16] = [
    "a.c",
    "a.h",
    "b.o",
    "core",
    "d/a.c",
    "d/b.o",
    "d/core/x",
    "d/e/a.c",
    "d/e/b.o",
    "d/e/f/a.c",
    "e/d/a.c",
    "e/[x]",
    "e/9lives",
    "lib/d/e",
    "lib/tmp/x.tmp",
    "tmp/keep/x",
];

fn plant_paths(top: &Path) {
    for path in PATHS {
        let file = top.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, path).expect("written");
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("text").to_owned()
}

fn sync(args: &[&str]) -> Value {
    json_of(farline().args(["--json", "sync"]).args(args))
}

fn planned(result: &Value) -> BTreeSet<String> {
    let planned = result["planned"].as_array().expect("a list");
    planned.iter().map(|file| file["path"].as_str().expect("a path").to_owned()).collect()
}

/// The files that rsync would copy.
fn by_rsync(args: &[&str], from: &str, to: &str) -> BTreeSet<String> {
    let said = succeed(
        Command::new("rsync").args(["-rn", "--out-format=%n"]).args(args).arg(from).arg(to),
    );
    said.lines().filter(|line| !line.ends_with('/')).map(str::to_owned).collect()
}

#[test]
fn filters_choose_what_rsync_chooses() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, empty) = (dir.path().join("src"), dir.path().join("empty"));
    plant_paths(&source);
    fs::create_dir(&empty).expect("a folder");
    let (merged, list) = (dir.path().join("rules"), dir.path().join("list"));
    fs::write(&merged, "# rules\n+ a.?\n\n; more\n- /d/**\n").expect("written");
    fs::write(&list, "*.o\n# no\n+ core\ntmp/\n").expect("written");
    let merge = format!(". {}", text(&merged));
    let list = format!("--exclude-from={}", text(&list));
    let (from, to) = (format!("{}/", text(&source)), format!("{}/", text(&empty)));
    let cases: [&[&str]; 27] = [
        &["--exclude=*.o"],
        &["--exclude=/a.c"],
        &["--exclude=a.c"],
        &["--exclude=core/"],
        &["--exclude=core"],
        &["--exclude=d/e"],
        &["--exclude=d/e/"],
        &["--exclude=/d/*/a.c"],
        &["--exclude=d/**/a.c"],
        &["--exclude=**/a.c"],
        &["--exclude=**a.c"],
        &["--exclude=d/**"],
        &["--exclude=d/***"],
        &["--exclude=/d/***"],
        &["--exclude=?.[ch]"],
        &["--exclude=[!a]*"],
        &["--exclude=[[:digit:]]*"],
        &["--exclude=\\[x\\]"],
        &["--exclude=[[]x]"],
        &["--include=*/", "--include=*.c", "--exclude=*"],
        &["--exclude=*.c", "--include=/a.c"],
        &["--include=/a.c", "--exclude=*.c"],
        &["--filter=+ /lib/", "--filter=- /*"],
        &["--filter=- *.c", "--filter=!", "--filter=- *.o"],
        &["--filter", &merge],
        &[&list],
        &["--include=/tmp/***", &list, "--exclude=+ a.h", "--include=- a.*"],
    ];
    for args in cases {
        let words: Vec<&str> = ["--dry-run"].iter().chain(args).copied().collect();
        let ours = planned(&sync(&[&words[..], &[&from, &to]].concat()));
        assert_eq!(ours, by_rsync(args, &from, &to), "{args:?}");
    }
    assert!(
        fs::read_dir(&empty).expect("a folder").next().is_none(),
        "a dry run changed something"
    );
}

#[test]
fn a_mistake_in_a_file_of_patterns_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("rules");
    fs::write(&file, "- a\n+ x[y\n").expect("written");
    let rule = format!(". {}", text(&file));
    let (from, to) = (text(dir.path()), text(&dir.path().join("to")));
    let (error, code) = error_of(&["sync", "--filter", &rule, &from, &to]);
    assert_eq!(code, 2, "{error}");
    assert_eq!(error["code"], "bad-filter", "{error}");
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("rules, line 2, column 4:"), "{message}");
    assert!(!dir.path().join("to").exists());
}

#[test]
fn syncing_twice_sends_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let (_node, url) = node(&root, "write", &[]);
    let up = root.join("up");
    for (from, to, at) in [
        (text(&source), text(&dir.path().join("here")), dir.path().join("here")),
        (text(&source), format!("{url}/up"), up.clone()),
        (format!("{url}/up"), text(&dir.path().join("down")), dir.path().join("down")),
    ] {
        let would = planned(&sync(&["--dry-run", &from, &to]));
        assert!(!at.exists(), "{to}: a dry run changed something");
        let first = sync(&[&from, &to]);
        assert!(first["files"].as_u64() > Some(200), "{first}");
        assert!(would.len() as u64 >= first["files"].as_u64().expect("a number"), "{to}");
        assert_same_tree(&source, &at);
        let second = sync(&[&from, &to]);
        assert_eq!((&second["files"], &second["bytes"]), (&0.into(), &0.into()), "{to}: {second}");
        let left = planned(&sync(&["--dry-run", &from, &to]));
        assert!(left.is_empty(), "{to}: {left:?}");
    }
    fs::write(source.join("one/small3"), "changed, and longer than it was").expect("written");
    let result = sync(&["--dry-run", &text(&source), &format!("{url}/up")]);
    let changed = result["planned"].as_array().expect("a list");
    assert_eq!(changed.len(), 1, "{result}");
    assert_eq!(changed[0]["path"], "one/small3", "{result}");
    assert_eq!(changed[0]["reason"], "size-differs", "{result}");
    assert_eq!(sync(&[&text(&source), &format!("{url}/up")])["files"], 1);
}

#[test]
fn what_is_left_out_goes_nowhere_and_a_list_chooses() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    fs::create_dir_all(&root).expect("a folder");
    plant_paths(&source);
    let (_node, url) = node(&root, "write", &[]);
    let list = dir.path().join("list");
    fs::write(&list, b"d/e\0./a.c\0e/[x]\0").expect("written");
    let list = text(&list);
    sync(&[&text(&source), &format!("{url}/whole")]);
    let wanted = ["a.c", "d/e/a.c", "d/e/f/a.c", "e/[x]"];
    for (from, to, at) in [
        (text(&source), text(&dir.path().join("here")), dir.path().join("here")),
        (text(&source), format!("{url}/up"), root.join("up")),
        (format!("{url}/whole"), text(&dir.path().join("down")), dir.path().join("down")),
    ] {
        sync(&["--files-from", &list, "--from0", "--exclude", "b.o", &from, &to]);
        for path in PATHS {
            assert_eq!(at.join(path).exists(), wanted.contains(&path), "{to}: {path}");
        }
        assert!(!at.join("lib").exists() && !at.join("d/core").exists(), "{to}: a folder too many");
    }
    // By lines, and from standard input.
    let lines = fs::read_to_string(&list).expect("a list").replace('\0', "\n");
    fs::write(&list, &lines).expect("written");
    for (name, chosen) in [("lines", &list[..]), ("stdin", "-")] {
        let at = dir.path().join(name);
        let mut command = farline();
        command.args(["-q", "sync", "--files-from", chosen, "--exclude", "b.o"]);
        command.args([text(&source), text(&at)]);
        command.stdin(fs::File::open(&list).expect("opened"));
        succeed(&mut command);
        for path in PATHS {
            assert_eq!(at.join(path).exists(), wanted.contains(&path), "{name}: {path}");
        }
    }
}

/// What a person reads of `farline WORDS s d` in `dir`.
fn said(dir: &Path, words: &[&str], paths: [&str; 2]) -> String {
    let output = farline().current_dir(dir).args(words).args(paths).output().expect("runs");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_person_reads_how_many_and_quiet_is_quiet() {
    let dir = tempfile::tempdir().expect("a folder");
    for (path, len) in [("s/a", 10), ("s/b", 20), ("d/old", 1)] {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, vec![7; len]).expect("written");
    }
    let plan = said(dir.path(), &["sync", "--delete", "--dry-run"], ["s", "d"]);
    let total = "a dry run: 30 B in 2 files would be copied, 1 deleted\n";
    assert!(plan.starts_with(total) && plan.contains("new: a\n"), "{plan}");
    let quiet = said(dir.path(), &["-q", "sync", "--delete", "--dry-run"], ["s", "d"]);
    assert_eq!(format!("{total}{quiet}"), plan);
    assert_eq!(said(dir.path(), &["-q", "sync"], ["s", "d"]), "");
    let plan = said(dir.path(), &["sync", "--dry-run"], ["s", "d"]);
    let unchanged = "nothing would be copied, 2 skipped, unchanged by size and time\n";
    assert_eq!(plan, format!("a dry run: {unchanged}"));
    // Each that failed by its name, and how many they are.
    succeed(Command::new("mkfifo").args(["s/p", "s/q"]).current_dir(dir.path()));
    let failed = said(dir.path(), &["-q", "cp", "-r"], ["s/", "d"]);
    assert!(
        failed.starts_with("not copied: p: ") && failed.contains("\nnot copied: q: "),
        "{failed}"
    );
    let failed = said(dir.path(), &["cp", "-r"], ["s/", "d"]);
    assert!(failed.lines().next().is_some_and(|line| line.ends_with(", 2 not copied")), "{failed}");
    fs::create_dir(dir.path().join("empty")).expect("a folder");
    let empty = said(dir.path(), &["cp", "-r"], ["empty", "d"]);
    assert!(empty.starts_with("no files to copy; "), "{empty}");
}

#[test]
fn what_moved_nothing_was_held_back_by_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(dir.path().join("root/t")).expect("a folder");
    fs::create_dir(dir.path().join("t")).expect("a folder");
    fs::write(dir.path().join("t/f"), "ab").expect("written");
    let (_node, url) = node(&dir.path().join("root"), "write", &[]);
    let to = format!("{url}/t");
    let moved = said(dir.path(), &["sync", "-v"], ["t", &to]);
    assert!(moved.contains("limited by ") && moved.contains("chosen: "), "{moved}");
    let again = said(dir.path(), &["sync", "-v"], ["t", &to]);
    assert!(again.contains("\nskipped: f"), "{again}");
    assert!(!again.contains("limited by ") && !again.contains("chosen: "), "{again}");
}

#[test]
fn links_that_are_the_same_stay_and_count_as_no_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, lk) = (dir.path().join("root"), dir.path().join("lk"));
    for path in [&root, &lk] {
        fs::create_dir_all(path).expect("a folder");
    }
    fs::write(lk.join("f"), "ab").expect("written");
    for (target, name) in [("f", "s"), ("nowhere", "dangling"), (".", "around")] {
        symlink(target, lk.join(name)).expect("linked");
    }
    let (_node, url) = node(&root, "write", &["--third-party"]);
    let (there, again, here) = (format!("{url}/lk"), format!("{url}/again"), "here".to_owned());
    for (from, to) in [("lk", &there), ("lk", &here), (&there, &again)] {
        let plan = said(dir.path(), &["sync", "--dry-run"], [from, to]);
        assert!(plan.starts_with("a dry run: 2 B in 1 file would be copied\n"), "{to}: {plan}");
        let done = said(dir.path(), &["sync"], [from, to]);
        assert!(done.starts_with("2 B in 1 file, "), "{to}: {done}");
        for checksum in [&[][..], &["--checksum"]] {
            let plan = said(dir.path(), &[&["sync", "--dry-run"], checksum].concat(), [from, to]);
            assert!(plan.starts_with("a dry run: nothing would be copied, 1 skipped"), "{plan}");
            assert!(!plan.contains("differs"), "{to}: {plan}");
            let done = said(dir.path(), &[&["sync"], checksum].concat(), [from, to]);
            assert!(done.starts_with("nothing to copy: 1 file is "), "{to}: {done}");
        }
    }
    // One that says something else is made again.
    fs::remove_file(root.join("lk/s")).expect("removed");
    symlink("around", root.join("lk/s")).expect("linked");
    let plan = said(dir.path(), &["sync", "--dry-run"], ["lk", &there]);
    assert!(plan.contains("no files would be copied") && plan.contains("differs: s\n"), "{plan}");
    said(dir.path(), &["sync"], ["lk", &there]);
    assert_eq!(fs::read_link(root.join("lk/s")).expect("a link"), Path::new("f"));
}

/// The zero time of Go and of .NET, which tmpfs and btrfs keep, is before what 64 bits of
/// nanoseconds hold.
#[test]
fn a_file_of_the_year_one_goes_along_and_then_stays() {
    let dir = farline_lab::files::folder();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("t")).expect("folders");
    for (name, date) in [("f", "0001-01-01T00:00:00.5Z"), ("g", "2024-01-01")] {
        fs::write(root.join("t").join(name), name).expect("written");
        succeed(Command::new("touch").args(["-d", date]).arg(root.join("t").join(name)));
    }
    let (_node, url) = node(&root, "write", &["--third-party"]);
    let (from, here) = (text(&root.join("t")), text(&dir.path().join("here")));
    let (there, up, across) = (format!("{url}/t"), format!("{url}/up"), format!("{url}/across"));
    for (from, to) in [(&from, &here), (&there, &here), (&from, &up), (&there, &across)] {
        let said = sync(&[from.as_str(), to.as_str()]);
        assert_eq!(said["failures"], serde_json::json!([]), "{from} {to}: {said}");
        let said = sync(&[from.as_str(), to.as_str()]);
        assert_eq!((&said["files"], &said["bytes"]), (&0.into(), &0.into()), "{to}: {said}");
    }
    for landed in [dir.path().join("here"), root.join("up"), root.join("across")] {
        assert_eq!(fs::read(landed.join("f")).expect("landed"), b"f", "{}", landed.display());
    }
}

#[test]
fn a_node_says_what_one_link_says_to_who_asks() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("f"), "ab").expect("written");
    symlink("f", dir.path().join("s")).expect("linked");
    let (_node, url) = node(dir.path(), "read", &[]);
    let mut client = RawClient::open(&url);
    let said = client.ask("MLST s");
    assert!(said.contains("Type=file;Size=2;") && !said.contains("slink"), "{said}");
    assert!(!client.ask("STAT s").contains("->"));
    client.ask("OPTS MLST Type;Size;");
    assert!(client.ask("MLST s").contains("\n Type=file;Size=2; /s"));
    client.ask("OPTS MLST Type;Size;UNIX.slink;");
    assert!(client.ask("MLST s").contains("\n Type=file;Size=2;UNIX.slink=f; /s"));
    assert!(client.ask("MLST f").contains("\n Type=file;Size=2; /f"));
}
