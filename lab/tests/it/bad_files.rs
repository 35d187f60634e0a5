//! Files and folders that are not as they should be: changing, full, read-only, oddly named,
//! leading outside. Each gets one clear error, and nothing half-done stays under a final name.

use crate::adversary::{configured, log_of};
use farline_lab::files::{folder, names, text};
use farline_lab::ordinary::Ordinary;
use farline_lab::{
    Running, announced, error_of, error_of_command, farline, farline_binary, globus_server, node,
    succeed,
};
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// What is in `root` and not hidden: a partial file may wait there under a hidden name to be
/// continued.
fn visible(root: &Path) -> Vec<String> {
    names(root).into_iter().filter(|name| !name.starts_with('.')).collect()
}

/// Whether something of a partial file has arrived in `folder`.
fn begun(folder: &Path) -> bool {
    let mut found =
        std::fs::read_dir(folder).expect("a folder").map(|item| item.expect("an entry").metadata());
    found.any(|meta| meta.is_ok_and(|meta| meta.len() > MIB as u64 && meta.blocks() > 0))
}

fn wait_for_data(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !begun(folder) {
        assert!(Instant::now() < deadline, "nothing came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `script` with mounts of its own; `None`, with a word on stderr, where this machine does not
/// allow that.
fn with_mounts(script: &str) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        farline_lab::skip("a mount of its own needs root");
        return None;
    }
    let mut command = farline_lab::command("unshare");
    command.args(["--mount", "sh", "-c", script]);
    Some(command)
}

/// A node whose root is a tmpfs with these mount options.
fn node_on(root: &Path, options: &str) -> Option<(Running, String)> {
    let farline = farline_binary();
    let serve = format!(
        "exec {} --json serve --anonymous write --listen 127.0.0.1:0 --root {}",
        farline.display(),
        root.display()
    );
    let mut command =
        with_mounts(&format!("mount -t tmpfs -o {options} none {} && {serve}", root.display()))?;
    Some(announced(&mut command))
}

#[test]
fn a_file_that_changes_while_it_is_read_does_not_land() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    let (_node, url) = node(&root, "write", &[]);
    for (what, change) in [
        (
            "grows",
            (|path: &Path| {
                let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("there");
                file.write_all(b"more").expect("appended");
            }) as fn(&Path),
        ),
        ("shrinks", |path| {
            std::fs::OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|file| file.set_len(5))
                .expect("cut");
        }),
        ("is written over", |path| {
            use std::os::unix::fs::FileExt;
            std::fs::OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|file| file.write_all_at(b"new", 9))
                .expect("changed");
        }),
    ] {
        std::fs::write(&file, vec![3; 40 * MIB]).expect("written");
        // A folder for each: nothing that comes is another's.
        let there = root.join(what.replace(' ', "-"));
        std::fs::create_dir(&there).expect("a folder");
        let to = format!("{url}/{}/f", what.replace(' ', "-"));
        let mut client = farline();
        client
            .args(["--json", "cp", "--streams", "1", "--staging", "3MiB", "--limit", "80M"])
            .arg(&file)
            .arg(&to);
        let client = client.stdout(Stdio::piped()).spawn().expect("farline starts");
        // The copy takes 4.2 s. When the first blocks are in the node's file some have been read,
        // and most have not.
        wait_for_data(&there);
        change(&file);
        let output = client.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(3), "{what}: {said}");
        assert!(said.contains("source-changed"), "{what}: {said}");
        assert_eq!(visible(&there), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn a_full_disk_is_said_and_the_old_file_stays() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(&file, vec![3; 8 * MIB]).expect("written");
    let Some((_node, url)) = node_on(&root, "size=4m") else { return };
    let small = dir.path().join("small");
    std::fs::write(&small, "old").expect("written");
    succeed(farline().args(["-q", "cp"]).arg(&small).arg(format!("{url}/f")));
    let (error, exit) = error_of(&["cp", text(&file), &format!("{url}/f")]);
    assert_eq!((error["code"].as_str(), exit), (Some("no-space"), 4), "{error}");
    let back = dir.path().join("back");
    succeed(farline().args(["-q", "cp", &format!("{url}/f")]).arg(&back));
    assert_eq!(std::fs::read_to_string(&back).expect("came back"), "old");
    // The same within this host.
    let script = format!(
        "mount -t tmpfs -o size=4m none {0} && echo old > {0}/f; {1} --json cp {2} {0}/f; echo \" \
         $?\"; cat {0}/f; ls {0}",
        root.display(),
        farline_binary().display(),
        file.display()
    );
    let said = succeed(&mut with_mounts(&script).expect("as before"));
    assert!(said.contains("no-space") && said.ends_with(" 3\nold\nf\n"), "{said}");
}

#[test]
fn a_destination_that_fills_is_named_once_and_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, tree) = (dir.path().join("root"), dir.path().join("t"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::create_dir(&tree).expect("a folder");
    for (name, mib) in [("a", 1), ("b", 1), ("large", 16), ("z", 1)] {
        std::fs::write(tree.join(name), vec![7; mib * MIB]).expect("written");
    }
    // Nothing that is there is half of a file.
    let whole = |at: &Path| {
        for name in visible(at) {
            let (here, there) =
                (std::fs::metadata(tree.join(&name)), std::fs::metadata(at.join(&name)));
            assert_eq!(here.expect("of the tree").len(), there.expect("there").len(), "{name}");
            assert_ne!(name, "large");
        }
    };
    let Some((_node, url)) = node_on(&root, "size=8m") else { return };
    let began = Instant::now();
    let (error, exit) = error_of(&["cp", "-r", text(&tree), &format!("{url}/")]);
    assert!(began.elapsed() < Duration::from_secs(60), "no retry is of use");
    assert_eq!((error["code"].as_str(), exit), (Some("no-space"), 4), "{error}");
    let message = error["message"].as_str().expect("words");
    assert!(message.contains("/t/large: ") && !message.contains("attempt"), "{message}");
    assert!(message.contains("the file system tmpfs, of 8 MiB, is full"), "{message}");
    assert!(!message.contains(text(&root)), "the node's own paths are its own: {message}");
    // Nor is a folder left of a tree of which nothing is kept.
    let back = dir.path().join("back");
    let mut fetch = farline();
    fetch.args(["--json", "cp", "-r", &format!("{url}/t/")]).arg(&back);
    let fetched = fetch.output().expect("farline runs");
    match fetched.status.success() {
        true => whole(&back),
        false => {
            let said: Value = serde_json::from_slice(&fetched.stdout).expect("one object");
            assert_eq!(said["error"]["code"], "path-not-found", "{said}");
        }
    }
    // The same within this host.
    let script = format!(
        "mount -t tmpfs -o size=8m none {0} && {1} cp -r {2} {0}; echo \"exit $?\"; rm -f {0}/t/.*; \
         cp -r {0}/t {3}",
        root.display(),
        farline_binary().display(),
        tree.display(),
        dir.path().join("left").display(),
    );
    let output = with_mounts(&script).expect("as before").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(String::from_utf8_lossy(&output.stdout).contains("exit 3"), "{said}");
    let full = format!("the file system tmpfs at {}, of 8 MiB, is full", root.display());
    assert_eq!(said.matches(&full).count(), 1, "{said}");
    assert!(said.contains(&format!("{}/t/large: ", root.display())), "{said}");
    let left = dir.path().join("left");
    match left.exists() {
        true => whole(&left),
        false => assert!(said.contains("No such file or directory"), "{said}"),
    }
}

#[test]
fn a_read_only_destination_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(&file, "x").expect("written");
    let Some((_node, url)) = node_on(&root, "ro") else { return };
    let (error, exit) = error_of(&["cp", text(&file), &format!("{url}/f")]);
    assert_eq!((error["code"].as_str(), exit), (Some("read-only"), 6), "{error}");
    // The same within this host.
    let script = format!(
        "mount -t tmpfs -o ro none {0}; {1} --json cp {2} {0}/f",
        root.display(),
        farline_binary().display(),
        file.display()
    );
    let (error, exit) = error_of_command(&mut with_mounts(&script).expect("as before"));
    assert_eq!((error["code"].as_str(), exit), (Some("read-only"), 3), "{error}");
}

#[test]
fn a_source_that_may_not_be_read_is_said() {
    let user = Ordinary::new();
    let (root, file) = (user.path().join("root"), user.path().join("secret"));
    std::fs::create_dir(&root).expect("a folder");
    for file in [&file, &root.join("secret")] {
        std::fs::write(file, "s").expect("written");
    }
    for path in [&root, &file] {
        user.own(path);
    }
    for file in [&file, &root.join("secret")] {
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o000))
            .expect("nobody's");
    }
    let (_node, url) = user.node(&root);
    let (stored, up, here) =
        (format!("{url}/secret"), format!("{url}/up"), user.path().join("here"));
    for (from, to, code, exit) in [
        (text(&file), &up[..], "permission-denied", 3),
        (text(&file), text(&here), "permission-denied", 3),
        (&stored[..], text(&here), "permission-denied", 6),
    ] {
        let (error, exited) = error_of_command(user.farline().args(["--json", "cp", from, to]));
        assert_eq!((error["code"].as_str(), exited), (Some(code), exit), "{from} {to}: {error}");
        assert!(
            error["message"].as_str().is_some_and(|message| message.contains("secret")),
            "{from} {to}: {error}"
        );
    }
    assert!(!here.exists() && !root.join("up").exists());
}

#[test]
fn a_name_that_is_no_text_is_refused_or_shown_as_text() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("a folder");
    let there = dir.path().join("there");
    std::fs::create_dir(&there).expect("a folder");
    // Between Farline ends such names go as they are: lab/tests/it/copy.rs.
    let lines = dir.path().join("two\nlines");
    std::fs::write(&lines, "x").expect("written");
    let (_globus, globus) = globus_server();
    let (error, exit) = error_of(&["cp", text(&lines), &format!("{globus}{}/", there.display())]);
    assert_eq!((error["code"].as_str(), exit), (Some("invalid-name"), 2), "{error}");
    assert_eq!(visible(&there), Vec::<String>::new());
    let missing = dir.path().join(std::ffi::OsStr::from_bytes(b"no \xff text"));
    let (error, exit) =
        error_of_command(farline().args(["--json", "cp"]).arg(&missing).arg(&there));
    assert_eq!((error["code"].as_str(), exit), (Some("path-not-found"), 2), "{error}");
}

/// Writes into a file and puts its time back to `seconds`.
fn change_in_secret(path: &Path, seconds: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("there");
    file.write_all_at(b"new", 9).expect("changed");
    date(&file, seconds);
}

fn date(file: &std::fs::File, seconds: u64) {
    let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_modified(time).expect("dated");
}

#[test]
fn a_change_whose_time_was_put_back_is_seen() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, here) = (dir.path().join("root"), dir.path().join("here"));
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::create_dir_all(&here).expect("a folder");
    let (_node, url) = node(&root, "write", &[]);
    for seconds in [0, 1_000_000_000] {
        for up in [true, false] {
            let (from, to) = if up { (&here, &root) } else { (&root, &here) };
            let file = from.join("f");
            std::fs::write(&file, vec![3; 120 * MIB]).expect("written");
            date(&std::fs::File::options().write(true).open(&file).expect("there"), seconds);
            let at = |folder: &Path| match folder == root {
                true => format!("{url}/f"),
                false => text(&folder.join("f")).to_owned(),
            };
            let client = farline()
                .args(["--json", "cp", "--streams", "1", "--limit", "360M", &at(from), &at(to)])
                .stdout(Stdio::piped())
                .spawn()
                .expect("farline starts");
            // The copy takes 2.8 s, of which its staging is read ahead.
            wait_for_data(to);
            change_in_secret(&file, seconds);
            let output = client.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(
                output.status.code(),
                Some(if up { 3 } else { 4 }),
                "{seconds} {up}: {said}"
            );
            assert!(said.contains("source-"), "{seconds} {up}: {said}");
            assert_eq!(visible(to), Vec::<String>::new(), "{seconds} {up}");
            std::fs::remove_file(&file).expect("removed");
        }
    }
}

#[test]
fn a_file_that_changes_while_a_node_reads_it_does_not_land() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().expect("a folder");
    let (root, down) = (dir.path().join("root"), dir.path().join("down"));
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::create_dir_all(&down).expect("a folder");
    let (_node, url) = node(&root, "write", &[]);
    for (what, change) in [
        ("shrinks", (|file| file.set_len(5)) as fn(&std::fs::File) -> std::io::Result<()>),
        ("is written over", |file| file.write_all_at(b"new", 9)),
    ] {
        let file = root.join("f");
        std::fs::write(&file, vec![3; 120 * MIB]).expect("written");
        let mut client = farline();
        client
            .args(["--json", "cp", "--streams", "1", "--limit", "360M", &format!("{url}/f")])
            .arg(&down);
        let client = client.stdout(Stdio::piped()).spawn().expect("farline starts");
        // The copy takes 2.8 s. When the first blocks are here the node has read its staging of 64
        // MiB ahead, and not the rest.
        wait_for_data(&down);
        std::fs::OpenOptions::new()
            .write(true)
            .open(&file)
            .and_then(|file| change(&file))
            .expect("changed");
        let output = client.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(4), "{what}: {said}");
        assert!(said.contains("source-"), "{what}: {said}");
        assert_eq!(visible(&down), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn a_name_of_255_bytes_goes_everywhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, there) = (dir.path().join("root"), dir.path().join("there"));
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::create_dir_all(&there).expect("a folder");
    let name = "n".repeat(255);
    std::fs::write(dir.path().join(&name), "long").expect("written");
    let (_node, url) = node(&root, "write", &[]);
    let (_globus, globus) = globus_server();
    for (target, landed) in [
        (format!("{url}/"), root.join(&name)),
        (format!("{globus}{}/", there.display()), there.join(&name)),
    ] {
        succeed(farline().args(["-q", "cp"]).arg(dir.path().join(&name)).arg(&target));
        assert_eq!(std::fs::read_to_string(&landed).expect("landed"), "long", "{target}");
        let back = tempfile::tempdir().expect("a folder");
        succeed(farline().args(["-q", "cp", &format!("{target}{name}")]).arg(back.path()));
        assert_eq!(
            std::fs::read_to_string(back.path().join(&name)).expect("came back"),
            "long",
            "{target}"
        );
    }
}

#[test]
fn links_that_leave_the_root_are_not_followed() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, outside, source) =
        (dir.path().join("root"), dir.path().join("outside"), dir.path().join("src"));
    for folder in [&root, &outside, &source.join("out")] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    std::fs::write(outside.join("secret"), "s").expect("written");
    std::fs::write(source.join("out/f"), "x").expect("written");
    std::os::unix::fs::symlink(&outside, root.join("out")).expect("linked");
    let (_node, url) = node(&root, "write", &[]);
    let here = dir.path().join("here");
    for path in ["out/secret", "../outside/secret", "out/../../outside/secret"] {
        let (error, exit) = error_of(&["cp", &format!("{url}/{path}"), text(&here)]);
        assert!(matches!(exit, 2 | 6), "{path}: {error}");
        assert!(!here.exists(), "{path}");
    }
    let from = format!("{}/", source.display());
    let output =
        farline().args(["--json", "cp", "-r", &from, &format!("{url}/")]).output().expect("runs");
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    let failures = done["failures"].as_array().expect("failures");
    let paths: Vec<_> = failures.iter().filter_map(|failure| failure["path"].as_str()).collect();
    assert_eq!(paths, ["out", "out/f"], "{done}");
    for failure in failures {
        assert_eq!(failure["error"]["code"], "permission-denied", "{done}");
    }
    assert_eq!((output.status.code(), done["files"].as_u64()), (Some(6), Some(0)), "{done}");
    assert_eq!(visible(&outside), ["secret"]);
}

#[test]
fn a_host_that_does_not_exist_is_said() {
    let (error, exit) = error_of(&["cp", "memory:1KiB", "ftp://no-such-host.invalid/x"]);
    assert_eq!((error["code"].as_str(), exit), (Some("unreachable"), 5), "{error}");
    assert!(
        error["message"].as_str().is_some_and(|message| message.contains("no-such-host.invalid")),
        "{error}"
    );
}

/// What a kernel writes when it is read has no size before: a copy by its size would be empty.
#[test]
fn a_file_of_the_kernels_is_not_copied_as_an_empty_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, here) = (dir.path().join("root"), dir.path().join("here"));
    std::fs::create_dir(&root).expect("a folder");
    let (_node, url) = node(&root, "write", &[]);
    for to in [text(&here).to_owned(), format!("{url}/f"), url.replacen("ftp", "farline", 1)] {
        std::fs::write(&here, "precious").expect("written");
        let (error, code) = error_of(&["cp", "/proc/version", &to]);
        assert_eq!((error["code"].as_str(), code), (Some("source-unreadable"), 3), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("cp -")), "{error}");
        assert_eq!(std::fs::read(&here).expect("there"), b"precious");
        assert!(visible(&root).is_empty());
    }
    // And one that has less than its size says did not become shorter.
    let odd = "/sys/kernel/mm/transparent_hugepage/enabled";
    if std::fs::metadata(odd).is_ok_and(|meta| meta.len() > 1_000) {
        // Where nobody has it open its times are those of when it was last looked for.
        let _open = std::fs::File::open(odd).expect("all may read it");
        let (error, _) = error_of(&["cp", odd, text(&dir.path().join("odd"))]);
        assert!(
            error["message"].as_str().is_some_and(|said| said.contains("less than")),
            "{error}"
        );
    }
}

#[test]
fn a_path_that_a_node_cannot_hold_costs_a_tree_itself() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    let (above, deep) = (vec!["a".repeat(200); 2].join("/"), vec!["d".repeat(200); 19].join("/"));
    std::fs::create_dir_all(at("root").join(&above)).expect("folders");
    // This host holds it; with what stands above it there, it has more bytes than a path may.
    std::fs::create_dir_all(at("src").join(&deep)).expect("folders");
    std::fs::write(at("src").join(&deep).join("f"), "too deep").expect("written");
    for name in ["before", "zlast"] {
        std::fs::write(at("src").join(name), name).expect("written");
    }
    let (node, url) = configured(&at("root"), "", &[]);
    let output = farline()
        .args(["--json", "cp", "-r", "--retry-for", "0s", text(&at("src"))])
        .arg(format!("{url}/{above}/"))
        .output()
        .expect("farline runs");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert!(!output.status.success(), "{said}");
    for name in ["before", "zlast"] {
        let landed = std::fs::read_to_string(at("root").join(&above).join("src").join(name));
        assert_eq!(landed.ok().as_deref(), Some(name), "{said}");
    }
    let failures = said["failures"].as_array().expect("a list");
    let is_told = |failure: &serde_json::Value| {
        let message = failure["error"]["message"].as_str().unwrap_or_default();
        failure["error"]["code"] == "invalid-name" && message.contains("4095 is the most")
    };
    assert!(!failures.is_empty() && failures.iter().all(is_told), "{said}");
    let log = log_of(node);
    let lines = log.lines().filter(|line| line.contains("rejected: 127.0.0.1: "));
    assert_eq!(lines.count(), 1, "{log}");
}
