//! `-`: standard input as source and standard output as destination, here, at a Farline node and at
//! a stock server.

use farline_lab::files::{names, random};
use farline_lab::{Sshd, farline, farline_binary, globus_server, node, succeed, wait_for};
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

/// Runs a copy that reads `input`, in uneven parts, and returns what it said and wrote.
fn piped(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut pipe = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || {
        for part in input.chunks(70_001) {
            // A copy that failed reads no more; its own words say why.
            let _ = pipe.write_all(part);
        }
    });
    let output = child.wait_with_output().expect("it ends");
    feeding.join().expect("fed");
    output
}

#[test]
fn a_pipe_becomes_a_file_and_a_file_a_pipe_everywhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, there, here) =
        (dir.path().join("root"), dir.path().join("there"), dir.path().join("here"));
    for folder in [&root, &there, &here] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let (_node, url) = node(&root, "write", &[]);
    let (_globus, globus) = globus_server();
    let places = [
        (format!("{url}/f"), &root, true),
        (format!("{globus}{}/f", there.display()), &there, false),
        (format!("{}/f", here.display()), &here, false),
    ];
    for len in [0, 1, (1 << 20) - 1, 1 << 20, 9_000_001] {
        let bytes = random(11, len);
        for (place, folder, verified) in &places {
            for streams in ["1", "4"] {
                let up = piped(
                    farline().args(["--json", "cp", "--streams", streams, "-", place]),
                    &bytes,
                );
                let said = String::from_utf8_lossy(&up.stdout).into_owned();
                assert!(
                    up.status.success(),
                    "{place} {len}: {said} {}",
                    String::from_utf8_lossy(&up.stderr)
                );
                let result: serde_json::Value = serde_json::from_str(&said).expect("one object");
                assert_eq!(
                    (result["bytes"].as_u64(), result["files"].as_u64()),
                    (Some(len as u64), Some(1)),
                    "{place}: {result}"
                );
                assert_eq!(result["verified"], false, "{result}");
                assert!(
                    std::fs::read(folder.join("f")).expect("landed") == bytes,
                    "{place} {len} -> other bytes"
                );
                let down = farline()
                    .args(["--json", "cp", "--streams", streams, place, "-"])
                    .output()
                    .expect("runs");
                let said = String::from_utf8_lossy(&down.stderr).into_owned();
                assert!(
                    down.status.success() && down.stdout == bytes,
                    "{place} {len} {streams}: {said}"
                );
                let result: serde_json::Value =
                    serde_json::from_str(&said).expect("one object, on stderr");
                assert_eq!(
                    (result["bytes"].as_u64(), result["verified"].as_bool()),
                    (Some(len as u64), Some(*verified)),
                    "{result}"
                );
            }
            assert_eq!(names(folder), ["f"], "nothing else is left");
        }
    }
}

#[test]
fn many_channels_through_a_small_pool_come_out_in_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "read", &[]);
    let bytes = random(11, 60_000_123);
    std::fs::write(dir.path().join("f"), &bytes).expect("written");
    let out = farline()
        .args(["-q", "cp", "--streams", "6", "--staging", "8MiB", &format!("{url}/f"), "-"])
        .output()
        .expect("runs");
    assert!(
        out.status.success() && out.stdout == bytes,
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn a_reader_that_goes_away_is_said_and_a_folder_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "write", &[]);
    std::fs::write(dir.path().join("f"), random(11, 30_000_000)).expect("written");
    std::fs::create_dir(dir.path().join("d")).expect("a folder");
    for source in [format!("{url}/f"), format!("{}/f", dir.path().display())] {
        let mut child = farline()
            .args(["cp", &source, "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut some = [0; 10];
        let mut pipe = child.stdout.take().expect("piped");
        pipe.read_exact(&mut some).expect("the first bytes");
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("who read standard output went away"), "{said}");
    }
    let folder = format!("{url}/d");
    for (args, code) in [
        (vec!["-r", &folder, "-"], "one-file"),
        (vec!["-", &folder], "no-name"),
        (vec!["-", &url], "no-name"),
        (vec!["-", "Cargo.toml", &folder], "one-source"),
    ] {
        let output = farline()
            .args(["--json", "cp"])
            .args(&args)
            .stdin(Stdio::null())
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(&format!("\"code\":\"{code}\"")), "{args:?}: {said}");
    }
}

#[test]
fn a_copy_of_a_pipe_that_is_broken_off_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, there, here) =
        (dir.path().join("root"), dir.path().join("there"), dir.path().join("here"));
    for folder in [&root, &there, &here] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let (_node, url) = node(&root, "write", &[]);
    let (_globus, globus) = globus_server();
    for (place, folder) in [
        (format!("{url}/f"), &root),
        (format!("{globus}{}/f", there.display()), &there),
        (format!("{}/f", here.display()), &here),
    ] {
        let mut child = farline()
            .args(["-q", "cp", "-", &place])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut pipe = child.stdin.take().expect("piped");
        // More than a block, of which a part waits for the rest.
        pipe.write_all(&random(11, 12_000_000)).expect("read so far");
        // What was written is on its way; the pipe stays open and silent.
        wait_for("the copy to begin", || !names(folder).is_empty());
        succeed(Command::new("kill").args(["-TERM", &child.id().to_string()]));
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(143), "{}", String::from_utf8_lossy(&output.stderr));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !names(folder).is_empty() {
            assert!(std::time::Instant::now() < deadline, "{place}: {:?}", names(folder));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        drop(pipe);
    }
}

#[test]
fn pipes_go_over_ssh() {
    let dir = tempfile::tempdir().expect("a folder");
    let sshd = Sshd::start(&dir.path().join("sshd"), "127.0.0.1", "", &[]);
    let config = dir.path().join("ssh_config");
    std::fs::write(&config, sshd.client_config("far", None)).expect("written");
    let cp = || {
        let mut command = farline();
        command
            .args([
                "-q",
                "cp",
                "--ssh",
                &format!("ssh -F {}", config.display()),
                "--remote-farline",
            ])
            .arg(farline_binary());
        command
    };
    let bytes = random(11, 5_000_001);
    let place = format!("far:{}", dir.path().join("f").display());
    let up = piped(cp().args(["-", &place]), &bytes);
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    let down = cp().args([&place, "-"]).output().expect("runs");
    assert!(
        down.status.success() && down.stdout == bytes,
        "{}",
        String::from_utf8_lossy(&down.stderr)
    );
}

/// Rust's runtime opens /dev/null in the place of a stream that is closed: a copy from it would be
/// empty.
#[test]
fn a_closed_stream_is_no_empty_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let keep = dir.path().join("keep");
    std::fs::write(&keep, "precious").expect("written");
    let farline = farline_lab::farline_binary();
    for script in [
        format!("{} cp - {} <&-", farline.display(), keep.display()),
        format!("{} cp {} - >&-", farline.display(), keep.display()),
    ] {
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{script}: {said}");
        assert!(said.contains("it is closed"), "{said}");
        assert_eq!(std::fs::read(&keep).expect("there"), b"precious");
    }
    // What says that it is empty is.
    let script = format!("{} cp - {} </dev/null", farline.display(), keep.display());
    assert!(Command::new("sh").args(["-c", &script]).status().expect("sh runs").success());
    assert_eq!(std::fs::read(&keep).expect("there"), b"");
}
