//! What cannot be done is refused before anything is made or moved, with whose fault it is and what
//! to do.

use farline_lab::files::{folder, names, text};
use farline_lab::ordinary::Ordinary;
use farline_lab::{error_of, error_of_command, farline, node, succeed};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// Runs `farline --json cp` in `folder`; the error and exit code that it ends with.
fn refused_in(folder: &Path, args: &[&str]) -> (serde_json::Value, i32) {
    error_of_command(farline().current_dir(folder).args(["--json", "cp"]).args(args))
}

fn into_itself(folder: &Path, args: &[&str], says: &str) {
    let (error, exit) = refused_in(folder, args);
    assert_eq!((error["code"].as_str(), exit), (Some("into-itself"), 2), "{args:?}: {error}");
    let message = error["message"].as_str().expect("words");
    assert!(message.contains(says), "{args:?}: {message}");
}

#[test]
fn a_local_copy_onto_or_into_itself_is_refused() {
    let dir = folder();
    let at = dir.path();
    std::fs::create_dir(at.join("t")).expect("a folder");
    std::fs::write(at.join("t/a"), "a").expect("written");
    std::fs::write(at.join("big"), "big").expect("written");
    std::fs::hard_link(at.join("big"), at.join("hard")).expect("linked");
    std::os::unix::fs::symlink("t", at.join("way")).expect("linked");
    into_itself(at, &["-r", "t", "t/d2"], "t/d2 lies inside t");
    into_itself(at, &["-r", "t/", "way/d2/d3/"], "lies inside");
    into_itself(at, &["-r", "t", "."], "are the same");
    into_itself(at, &["big", "big"], "big and big are the same");
    into_itself(at, &["big", "."], "are the same");
    into_itself(at, &["big", "hard"], "are the same");
    assert_eq!(names(&at.join("t")), ["a"], "nothing was made");
    succeed(farline().current_dir(at).args(["-q", "cp", "-r", "t", "t2"]));
}

#[test]
fn a_copy_by_a_node_onto_or_into_itself_is_refused() {
    let dir = folder();
    let at = dir.path();
    std::fs::create_dir_all(at.join("t/sub")).expect("a folder");
    std::fs::write(at.join("t/a"), "a").expect("written");
    std::fs::write(at.join("big"), "big").expect("written");
    let (_node, url) = node(at, "write", &["--third-party"]);
    let there = |path: &str| format!("{url}/{path}");
    into_itself(at, &["-r", "t", &there("t/d2/")], "lies inside");
    into_itself(at, &["-r", &there("t"), "t/d2"], "lies inside");
    into_itself(at, &["-r", &there("t"), &there("t/d2/")], "lies inside");
    into_itself(at, &["-r", "t", &there("")], "are the same");
    into_itself(at, &["big", &there("big")], "are the same");
    into_itself(at, &[&there("big"), "big"], "are the same");
    into_itself(at, &[&there("big"), &there("big")], "are the same");
    assert_eq!(names(&at.join("t")), ["a", "sub"], "nothing was made");
    // Next to itself, and out of itself, is as good as ever.
    succeed(farline().current_dir(at).args(["-q", "cp", "-r", "t", &there("u/")]));
    succeed(farline().current_dir(at).args(["-q", "cp", "-r", "t/sub", &there("")]));
}

#[test]
fn a_source_that_delete_would_delete_is_refused() {
    let dir = folder();
    let at = dir.path();
    std::fs::create_dir_all(at.join("t2/d2/sub")).expect("a folder");
    std::fs::create_dir(at.join("t3")).expect("a folder");
    for file in ["t2/d2/a", "t2/other", "t3/b"] {
        std::fs::write(at.join(file), "x").expect("written");
    }
    std::os::unix::fs::symlink("t2/d2", at.join("way")).expect("linked");
    let (_node, url) = node(at, "write", &["--third-party"]);
    // What is above its folder a node does not know.
    let (_inner, below) = node(&at.join("t2/d2"), "write", &["--third-party"]);
    let there = |path: &str| format!("{url}/{path}");
    let sync = |args: &[&str]| {
        let mut command = farline();
        command.current_dir(at).args(["--json", "sync", "--delete"]).args(args);
        error_of_command(&mut command)
    };
    for (from, to) in [
        ("t2/d2".to_owned(), "t2".to_owned()),
        ("way/sub".to_owned(), "t2/".to_owned()),
        ("t2/d2".to_owned(), there("t2")),
        (there("t2/d2"), "t2".to_owned()),
        (there("t2/d2/sub"), there("t2/")),
        (format!("{below}/"), "t2".to_owned()),
        (format!("{below}/"), there("t2")),
        (format!("{below}/sub"), there("")),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            let (error, exit) = sync(&[more, &[&from, &to]].concat());
            let said = (error["code"].as_str(), exit);
            assert_eq!(said, (Some("into-itself"), 2), "{from} {to}: {error}");
            let message = error["message"].as_str().expect("words");
            assert!(message.contains("lies inside"), "{message}");
        }
        assert_eq!(names(&at.join("t2")), ["d2", "other"], "{from} {to}");
        assert_eq!(names(&at.join("t2/d2")), ["a", "sub"], "{from} {to}");
    }
    // Next to each other, and without --delete, all is as ever.
    succeed(farline().current_dir(at).args(["-q", "sync", "--delete", "t3", "t2/d2"]));
    assert_eq!(names(&at.join("t2/d2")), ["b"]);
    succeed(farline().current_dir(at).args(["-q", "sync", "t2/d2", "t2"]));
    assert_eq!(names(&at.join("t2")), ["b", "d2", "other"]);
}

#[test]
fn a_path_that_is_too_long_is_the_users_and_measured() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("root")).expect("a folder");
    let (_node, url) = node(&dir.path().join("root"), "write", &[]);
    let file = dir.path().join("f");
    std::fs::write(&file, "x").expect("written");
    let deep = vec!["x".repeat(200); 22].join("/") + "/some-name";
    assert_eq!(deep.len(), 4431, "as the one that was seen");
    let name = "n".repeat(300);
    for (path, says) in [(&deep, "bytes, and 4095 is the most"), (&name, "has 300 bytes, and 255")]
    {
        for to in [format!("{url}/{path}"), format!("{}/{path}", text(dir.path()))] {
            let (error, exit) = error_of(&["cp", text(&file), &to]);
            let said = (error["fault"].as_str(), error["code"].as_str(), exit);
            assert_eq!(said, (Some("you"), Some("invalid-name"), 2), "{error}");
            let message = error["message"].as_str().expect("words");
            assert!(message.contains(says) && message.len() < 600, "{message}");
        }
    }
}

#[test]
fn what_is_denied_is_named_by_its_whole_path() {
    let user = Ordinary::new();
    let file = user.path().join("x.h5");
    std::fs::write(&file, "x").expect("written");
    user.own(&file);
    let (error, exit) =
        error_of_command(user.farline().args(["--json", "cp"]).arg(&file).arg("/etc/"));
    assert_eq!((error["code"].as_str(), exit), (Some("permission-denied"), 3), "{error}");
    let message = error["message"].as_str().expect("words");
    assert!(message.contains("write /etc/x.h5: "), "{message}");
}

#[test]
fn an_explicit_digest_that_cannot_be_had_is_refused() {
    let dir = folder();
    let (file, to) = (dir.path().join("f"), dir.path().join("g"));
    std::fs::write(&file, "x").expect("written");
    for wish in ["digest", "checksum", "blake3"] {
        let (error, exit) = error_of(&["cp", "--verify", wish, text(&file), text(&to)]);
        assert_eq!((error["code"].as_str(), exit), (Some("unsupported"), 2), "{error}");
        assert!(!to.exists());
    }
    std::fs::create_dir(dir.path().join("root")).expect("a folder");
    let (_node, url) = node(&dir.path().join("root"), "write", &[]);
    let piped_to = format!("{url}/piped");
    for (wish, to) in [("digest", text(&to)), ("digest", &piped_to), ("blake3", &piped_to)] {
        let mut piped = farline();
        piped.args(["--json", "cp", "--verify", wish, "-", to]);
        let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
        // It may be over before it reads.
        let _ = piped.stdin.take().expect("a pipe").write_all(b"x");
        let output = piped.wait_with_output().expect("ended");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("--verify {wish}: ")), "{said}");
    }
    assert!(!to.exists() && names(&dir.path().join("root")).is_empty());
    succeed(farline().args(["-q", "cp", "--verify", "none"]).arg(&file).arg(&to));
}

#[test]
fn a_missing_source_is_named_as_it_was_given() {
    let dir = folder();
    let (root, here) = (dir.path().join("root"), dir.path().join("here"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(root.join("f"), "x").expect("written");
    let (_node, url) = node(&root, "write", &[]);
    for command in [&["cp"][..], &["cp", "-r"], &["sync"]] {
        let from = format!("{url}/none");
        let (error, exit) = error_of(&[command, &[&from, text(&here)]].concat());
        assert_eq!((error["code"].as_str(), exit), (Some("path-not-found"), 2), "{error}");
        let message = error["message"].as_str().expect("words");
        assert_eq!(message.trim_end_matches(" does not exist").trim_end_matches('/'), from);
    }
    // Where it goes is no matter of the source's.
    let to = here.join("none/f");
    let (error, _) = error_of(&["cp", &format!("{url}/f"), text(&to)]);
    assert!(!error["message"].as_str().expect("words").contains("/f does not exist"), "{error}");
}

#[test]
fn no_plan_says_1024_of_a_unit() {
    let plan = |args: &[&str]| {
        let said = succeed(farline().arg("plan").args(args));
        assert!(!said.contains("1024.0") && !said.contains("1024 "), "{said}");
        said
    };
    let largest = plan(&["custom", "--rate", "100G", "--rtt", "200ms", "--size", "10TB"]);
    assert!(largest.contains("one window is at most 1 GiB"), "{largest}");
    for size in ["1024MiB", "1073741823", "1023.99MiB", "1099511627775", "1TiB"] {
        plan(&["usn-8600", "--size", size]);
        plan(&["custom", "--rate", "400G", "--rtt", "300ms", "--loss", "1e-5", "--size", size]);
    }
}
