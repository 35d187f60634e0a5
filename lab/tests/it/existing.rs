//! `--no-clobber` and `--skip-same`: here, at a Farline node and at a stock server, for files and
//! trees.

use farline_lab::{assert_same_tree, farline, globus_server, json_of, node, plant, succeed};
use std::path::Path;
use std::process::Command;

fn copied(args: &[&str]) -> serde_json::Value {
    json_of(farline().args(["--json", "cp", "-r"]).args(args))
}

fn skipped(result: &serde_json::Value) -> usize {
    result["skipped"].as_array().expect("a list").len()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_exists_is_left_alone_and_named_and_the_rest_arrives() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    // A stock server cannot make one.
    std::fs::remove_file(source.join("link")).expect("removed");
    let (_node, url) = node(&root, "write", &[]);
    let (_globus, globus) = globus_server();
    let from = |scheme: &str| match scheme {
        "node" => format!("{url}/kept/"),
        "globus" => format!("{globus}{}/kept/", root.display()),
        _ => format!("{}/kept/", root.display()),
    };
    // The source as others serve it.
    succeed(
        Command::new("cp").arg("-a").arg(format!("{}/.", source.display())).arg(root.join("kept")),
    );
    let here = format!("{}/", source.display());
    let (up, up_globus) = (format!("{url}/up"), format!("{globus}{}/upg", root.display()));
    let targets = ["local", "down", "downg"].map(|name| dir.path().join(name));
    let text = |index: usize| targets[index].to_str().expect("text").to_owned();
    for (source_of, to, folder) in [
        (here.clone(), text(0), targets[0].clone()),
        (from("node"), text(1), targets[1].clone()),
        (from("globus"), text(2), targets[2].clone()),
        (here.clone(), up.clone(), root.join("up")),
        (here.clone(), up_globus, root.join("upg")),
    ] {
        std::fs::create_dir_all(folder.join("one")).expect("a folder");
        for name in ["one/small3", "one/small150"] {
            std::fs::write(folder.join(name), "mine").expect("written");
        }
        let result = copied(&["--no-clobber", &source_of, &to]);
        let names: Vec<_> = result["skipped"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|name| name.as_str())
            .collect();
        assert_eq!(names.len(), 2, "{to}: {names:?}");
        assert!(
            names.contains(&"one/small3") && names.contains(&"one/small150"),
            "{to}: {names:?}"
        );
        assert_eq!(result["files"], 205, "{to}: {result}");
        assert_eq!(read(&folder.join("one/small3")), "mine", "{to}");
        assert_eq!(read(&folder.join("one/small4")), read(&source.join("one/small4")), "{to}");
        assert!(
            std::fs::read(folder.join("one/two/three/file 3 %")).ok()
                == std::fs::read(source.join("one/two/three/file 3 %")).ok()
        );
        // All of it is there now.
        let again = copied(&["--no-clobber", &source_of, &to]);
        assert_eq!(
            (again["files"].as_u64(), again["bytes"].as_u64()),
            (Some(0), Some(0)),
            "{to}: {again}"
        );
        assert!(skipped(&again) == 207, "{to}: {again}");
    }
    let one = source.join("one/small7");
    let alone =
        copied(&["--no-clobber", one.to_str().expect("text"), &format!("{url}/up/one/small7")]);
    assert_eq!((skipped(&alone), alone["files"].as_u64()), (1, Some(0)), "{alone}");
    let said = succeed(
        farline().args(["cp", "--no-clobber"]).arg(&one).arg(targets[0].join("one/small7")),
    );
    assert!(said.starts_with("nothing to copy: 1 file is there already;"), "{said}");
    assert!(said.contains("skipped: small7"), "{said}");
}

#[test]
fn what_has_the_same_size_and_time_is_not_moved_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let (_node, url) = node(&root, "write", &[]);
    let here = format!("{}/", source.display());
    let (local, down) = (dir.path().join("local"), dir.path().join("down"));
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    for (from, to, folder) in [
        (here.clone(), text(&local), local.clone()),
        (here.clone(), format!("{url}/up"), root.join("up")),
        (format!("{url}/up/"), text(&down), down.clone()),
    ] {
        let first = copied(&["--skip-same", &from, &to]);
        assert_eq!((first["files"].as_u64(), skipped(&first)), (Some(207), 0), "{to}");
        // One differs in size, one in time alone.
        std::fs::write(folder.join("one/small9"), "other").expect("written");
        succeed(Command::new("touch").arg(folder.join("one/small10")));
        let second = copied(&["--skip-same", &from, &to]);
        assert_eq!((second["files"].as_u64(), skipped(&second)), (Some(2), 205), "{to}: {second}");
        assert_same_tree(&source, &folder);
    }
    let (_globus, globus) = globus_server();
    std::fs::remove_file(root.join("up/link")).expect("removed");
    let again = copied(&["--skip-same", &format!("{globus}{}/up/", root.display()), &text(&down)]);
    assert_eq!(
        (again["files"].as_u64(), skipped(&again)),
        (Some(0), 207),
        "a server that tells whole seconds: {again}"
    );
    // Compared by size and time is not verified.
    assert_eq!(
        (&again["verified"], &again["verified_how"]),
        (&false.into(), &"nothing was copied".into())
    );
    let across = [format!("{url}/up/one/small9"), format!("{globus}{}/x", root.display())];
    for files in [1, 0] {
        let result = copied(&["--skip-same", &across[0], &across[1]]);
        assert_eq!(
            (result["files"].as_u64(), skipped(&result)),
            (Some(files), 1 - files as usize),
            "{result}"
        );
        // A stock server does not keep times.
        succeed(
            Command::new("touch").arg("-r").arg(root.join("up/one/small9")).arg(root.join("x")),
        );
    }
}

#[test]
fn all_that_is_held_is_named_however_scattered() {
    const FILES: u64 = 340;
    let dir = tempfile::tempdir().expect("a folder");
    let (root, down) = (dir.path().join("root"), dir.path().join("down"));
    std::fs::create_dir_all(root.join("t")).expect("a folder");
    // Each is a block of its own.
    for i in 0..FILES {
        std::fs::write(root.join(format!("t/{i}")), vec![1 + (i % 251) as u8; 1 << 20])
            .expect("written");
    }
    let (_node, url) = node(&root, "read", &[]);
    let (from, to) = (format!("{url}/t/"), down.to_str().expect("text"));
    copied(&[&from, to]);
    for i in (0..FILES).step_by(2) {
        std::fs::remove_file(down.join(i.to_string())).expect("removed");
    }
    let result = copied(&["--skip-same", &from, to]);
    assert_eq!(skipped(&result), FILES as usize / 2);
    assert_same_tree(&root.join("t"), &down);
    let sent = result["bytes_sent"].as_u64().expect("a number");
    // Blocks have headers.
    assert!((FILES / 2..FILES / 2 + 1).contains(&(sent >> 20)), "{sent} bytes came");
}

#[test]
fn a_trial_says_what_a_folder_in_the_way_keeps_away() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for folder in ["src", "root/dst/x", "root/dst/y"] {
        std::fs::create_dir_all(at(folder)).expect("a folder");
    }
    for file in ["src/x", "src/z"] {
        std::fs::write(at(file), file).expect("written");
    }
    let (_node, url) = farline_lab::node(&at("root"), "write", &[]);
    let there = url.replacen("ftp://", "farline://", 1);
    for to in [at("root/dst").display().to_string(), format!("{there}/dst")] {
        for more in [&["--dry-run"][..], &[]] {
            let mut command = farline();
            command.args(["--json", "sync"]).args(more).arg(at("src")).arg(&to);
            let output = command.output().expect("farline runs");
            let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a result");
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert_eq!(said["failures"][0]["path"], "x", "{said}");
            assert_eq!(said["failures"][0]["error"]["code"], "is-a-directory", "{said}");
            if let Some(planned) = said["planned"].as_array().filter(|_| !more.is_empty()) {
                assert_eq!((planned.len(), &planned[0]["path"]), (1, &"z".into()), "{said}");
            }
        }
        std::fs::remove_file(at("root/dst/z")).expect("copied");
    }
}

/// Links that were there before are not two files of the tree under one name.
#[test]
fn files_that_are_one_at_the_destination_are_replaced_each() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for folder in ["src", "root/dst"] {
        std::fs::create_dir_all(at(folder)).expect("a folder");
    }
    for name in ["a", "b", "c"] {
        std::fs::write(at("src").join(name), "content").expect("written");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let file = std::fs::File::options().write(true).open(at("src").join(name)).expect("open");
        file.set_modified(time).expect("dated");
    }
    let (_node, url) = node(&at("root"), "write", &[]);
    let there = url.replacen("ftp://", "farline://", 1);
    for to in [at("root/dst").display().to_string(), format!("{there}/dst")] {
        let _ = std::fs::remove_dir_all(at("root/dst"));
        std::fs::create_dir(at("root/dst")).expect("a folder");
        succeed(Command::new("cp").arg("-p").arg(at("src/a")).arg(at("root/dst/a")));
        for name in ["b", "c"] {
            std::fs::hard_link(at("root/dst/a"), at("root/dst").join(name)).expect("linked");
        }
        let said = copied(&[&format!("{}/", at("src").display()), &to]);
        assert_eq!(said["files"], 3, "{said}");
        assert_same_tree(&at("src"), &at("root/dst"));
    }
}
