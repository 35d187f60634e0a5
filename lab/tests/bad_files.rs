//! Files and folders that are not as they should be: changing, full, read-only, oddly named, leading outside. Each gets one clear
//! error, and nothing half-done stays under a final name.

use farline_lab::{Running, announced, error_of, farline, farline_binary, globus_server, node, succeed};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: usize = 1 << 20;

fn text(path: &Path) -> &str {
    path.to_str().expect("a test's path is text")
}

/// What is in `root` and not hidden: a partial file may wait there under a hidden name to be continued.
fn visible(root: &Path) -> Vec<String> {
    let names = std::fs::read_dir(root).expect("a folder").map(|item| item.expect("an entry").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| !name.starts_with('.')).collect()
}

/// Runs `script` with mounts of its own; `None`, with a word on stderr, where this machine does not allow that.
fn with_mounts(script: &str) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: a mount of its own needs root");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]);
    Some(command)
}

/// A node whose root is a tmpfs with these mount options.
fn node_on(root: &Path, options: &str) -> Option<(Running, String)> {
    let farline = farline_binary();
    let serve =
        format!("exec {} --json serve --anonymous write --listen 127.0.0.1:0 --root {}", farline.display(), root.display());
    let mut command = with_mounts(&format!("mount -t tmpfs -o {options} none {} && {serve}", root.display()))?;
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
            std::fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(5)).expect("cut");
        }),
        ("is written over", |path| {
            use std::os::unix::fs::FileExt;
            std::fs::OpenOptions::new().write(true).open(path).and_then(|file| file.write_all_at(b"new", 9)).expect("changed");
        }),
    ] {
        std::fs::write(&file, vec![3; 10 * MIB]).expect("written");
        let mut client = farline();
        client.args(["--json", "cp", "--streams", "1", "--staging", "3MiB", "--limit", "30M"]).arg(&file).arg(format!("{url}/f"));
        let client = client.stdout(Stdio::piped()).spawn().expect("farline starts");
        // The copy takes 2.8 s; by now some blocks have been read and most have not.
        std::thread::sleep(Duration::from_millis(900));
        change(&file);
        let output = client.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(3), "{what}: {said}");
        assert!(said.contains("source-changed"), "{what}: {said}");
        assert_eq!(visible(&root), Vec::<String>::new(), "{what}");
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
        "mount -t tmpfs -o size=4m none {0} && echo old > {0}/f; {1} --json cp {2} {0}/f; echo \" $?\"; cat {0}/f; ls {0}",
        root.display(),
        farline_binary().display(),
        file.display()
    );
    let said = succeed(&mut with_mounts(&script).expect("as before"));
    assert!(said.contains("no-space") && said.ends_with(" 3\nold\nf\n"), "{said}");
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
    for (target, landed) in [(format!("{url}/"), root.join(&name)), (format!("{globus}{}/", there.display()), there.join(&name))]
    {
        succeed(farline().args(["-q", "cp"]).arg(dir.path().join(&name)).arg(&target));
        assert_eq!(std::fs::read_to_string(&landed).expect("landed"), "long", "{target}");
        let back = tempfile::tempdir().expect("a folder");
        succeed(farline().args(["-q", "cp", &format!("{target}{name}")]).arg(back.path()));
        assert_eq!(std::fs::read_to_string(back.path().join(&name)).expect("came back"), "long", "{target}");
    }
}

#[test]
fn links_that_leave_the_root_are_not_followed() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, outside, source) = (dir.path().join("root"), dir.path().join("outside"), dir.path().join("src"));
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
    let (error, exit) = error_of(&["cp", "-r", &format!("{}/", source.display()), &format!("{url}/")]);
    assert_eq!((error["code"].as_str(), exit), (Some("permission-denied"), 6), "{error}");
    assert_eq!(visible(&outside), ["secret"]);
}

#[test]
fn a_host_that_does_not_exist_is_said() {
    let (error, exit) = error_of(&["cp", "memory:1KiB", "ftp://no-such-host.invalid/x"]);
    assert_eq!((error["code"].as_str(), exit), (Some("unreachable"), 5), "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("no-such-host.invalid")), "{error}");
}
