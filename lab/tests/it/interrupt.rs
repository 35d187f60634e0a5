//! SIGINT and SIGTERM: a copy that is ended keeps what it can go on from, and says so.

use farline_lab::files::random;
use farline_lab::{farline, json_of, node, succeed, wait_for};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Starts a copy that takes some ten seconds, ends it when it has `come` far enough, and answers
/// with what it said.
fn interrupted(signal: &str, from: &str, to: &str, come: impl Fn() -> bool) -> Output {
    let mut command = farline();
    command.args(["-q", "cp", "--streams", "2", "--limit", "42Mbit/s", from, to]);
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("farline starts");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !come() {
        assert!(Instant::now() < deadline, "{to} has not come far enough in half a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    succeed(Command::new("kill").args([signal, &child.id().to_string()]));
    child.wait_with_output().expect("it ends")
}

/// Bytes of the one partial file in `folder` that are journaled.
fn durable(folder: &Path) -> u64 {
    let said = succeed(farline().args(["--json", "partials", "ls"]).arg(folder));
    let said: serde_json::Value = serde_json::from_str(&said).expect("one object");
    said["partials"][0]["durable_bytes"].as_u64().unwrap_or(0)
}

#[test]
fn an_interrupted_copy_says_what_is_kept_and_resumes() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    // Zeros first: what is left out as a hole is journaled like the rest.
    let bytes = [vec![0; 8 * MIB], random(3, 52 * MIB)].concat();
    std::fs::write(&file, &bytes).expect("written");
    let (_node, url) = node(&root, "write", &[]);
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let here = dir.path().join("here");
    for (signal, from, to, landed, folder) in [
        ("-INT", text(&file), format!("{url}/up"), root.join("up"), &root),
        ("-TERM", format!("{url}/up"), text(&here), here.clone(), &dir.path().to_path_buf()),
    ] {
        // More than the zeros: one checkpoint has followed another.
        let output = interrupted(signal, &from, &to, || durable(folder) > 10 * MIB as u64);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = if signal == "-INT" { 130 } else { 143 };
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains("interrupted; what had arrived is kept"), "{said}");
        assert!(
            said.contains("run the same command again") && said.contains("farline partials ls"),
            "{said}"
        );
        assert!(!landed.exists(), "{}", landed.display());
        let listed = succeed(farline().args(["partials", "ls"]).arg(folder));
        assert!(
            listed.contains(landed.file_name().and_then(|name| name.to_str()).expect("text")),
            "{listed}"
        );
        let result = json_of(farline().args(["--json", "cp", &from, &to]));
        assert!(result["resumed_bytes"].as_u64() >= Some(8 * MIB as u64), "{result}");
        assert_eq!(result["verified"], true, "{result}");
        assert!(std::fs::read(&landed).expect("landed") == bytes, "{}", landed.display());
    }
    // Within this host nothing is kept, and nothing is said to be.
    let begun = || {
        let names = std::fs::read_dir(dir.path())
            .expect("a folder")
            .map(|item| item.expect("an entry").file_name());
        names.into_iter().any(|name| name.to_string_lossy().starts_with('.'))
    };
    assert!(!begun());
    let output = interrupted("-TERM", &text(&file), &text(&dir.path().join("local")), begun);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(143), "{said}");
    assert!(said.contains("nothing half-done was left") && !said.contains("kept"), "{said}");
}

/// What a new user tries: a tree, ctrl-C in the middle, the same command again.
#[test]
fn an_interrupted_tree_keeps_what_landed_and_goes_on() {
    const FILES: usize = 16;
    let dir = tempfile::tempdir().expect("a folder");
    let (root, tree) = (dir.path().join("root"), dir.path().join("tree"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::create_dir(&tree).expect("a folder");
    for index in 0..FILES {
        let bytes = random(index as u64, 4 * MIB);
        std::fs::write(tree.join(format!("f{index:02}")), bytes).expect("written");
    }
    let (_node, url) = node(&root, "write", &[]);
    let landed = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
    };
    let tree = tree.to_str().expect("text");
    let here = dir.path().join("here");
    std::fs::create_dir(&here).expect("a folder");
    for (from, to, folder) in [
        (tree.to_owned(), format!("{url}/"), root.join("tree")),
        (format!("{url}/tree"), here.to_str().expect("text").to_owned(), here.join("tree")),
    ] {
        let mut command = farline();
        command.args(["-q", "cp", "-r", "--limit", "100Mbit/s", &from, &to]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let copy = command.spawn().expect("farline starts");
        wait_for("some files", || (2..FILES).contains(&landed(&folder)));
        succeed(Command::new("kill").args(["-INT", &copy.id().to_string()]));
        let output = copy.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(said.contains("what had arrived is kept"), "{said}");
        let kept = landed(&folder);
        assert!((2..FILES).contains(&kept), "{kept} files of {FILES}");
        let result = json_of(farline().args(["--json", "cp", "-r", &from, &to]));
        let again = result["moved_bytes"].as_u64().expect("a figure");
        assert!(again <= ((FILES - kept) * 4 * MIB) as u64, "{kept} were there: {result}");
        assert_eq!(landed(&folder), FILES);
        assert_eq!(result["verified"], true, "{result}");
    }
}
