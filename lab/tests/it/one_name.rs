//! Two files whose names are one at the destination: the first keeps it, the second is named, and
//! nothing is lost, however often they are copied.

use farline_lab::files::{folder, hidden, text};
use farline_lab::plain_ftp::vsftpd;
use farline_lab::{farline, farline_binary, globus_server, node};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

fn plant(top: &Path, paths: &[&str]) {
    for path in paths {
        let file = top.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, format!("content of {path}")).expect("written");
    }
}

/// The result of a copy, and its exit code.
fn copied(args: &[&str]) -> (Value, i32) {
    ended(farline().arg("--json").args(args))
}

fn ended(command: &mut Command) -> (Value, i32) {
    let output = command.output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    (result, output.status.code().expect("an exit code"))
}

#[test]
fn of_two_sources_of_one_name_the_first_is_copied() {
    let dir = folder();
    plant(dir.path(), &["a/x", "b/x", "b/y", "a/t/same", "b/t/same", "b/t/other"]);
    let (_node, url) = node(
        dir.path(),
        "write",
        &["--third-party", "--third-party-net", "127.0.0.0/8", "--listen", "127.0.0.2:0"],
    );
    let (_other, other) = node(
        dir.path(),
        "write",
        &["--third-party", "--third-party-net", "127.0.0.0/8", "--listen", "127.0.0.3:0"],
    );
    let at = |name: &str| text(&dir.path().join(name)).to_owned();
    let here = dir.path().display().to_string();
    for (name, from, to) in [
        ("local", here.clone(), at("local")),
        ("up", here, format!("{url}/up")),
        ("down", url.clone(), at("down")),
        ("across", url.clone(), format!("{other}/across")),
    ] {
        fs::create_dir(dir.path().join(name)).expect("a folder");
        let source = |path: &str| format!("{from}/{path}");
        let sources = ["a/x", "b/x", "b/y", "a/t", "b/t"].map(source);
        let mut args = vec!["cp", "-r"];
        args.extend(sources.iter().map(String::as_str));
        args.push(&to);
        let (result, exit) = copied(&args);
        let failures = result["failures"].as_array().unwrap_or_else(|| panic!("{result}"));
        assert_eq!((failures.len(), exit), (2, 2), "{name}: {result}");
        for failure in failures {
            assert_eq!(failure["error"]["code"], "path-exists", "{name}: {result}");
            let message = failure["error"]["message"].as_str().expect("text");
            assert!(message.contains("b/x") || message.contains("b/t"), "{name}: {message}");
        }
        let there = dir.path().join(name);
        for (path, from) in
            [("x", "a/x"), ("y", "b/y"), ("t/same", "a/t/same"), ("t/other", "b/t/other")]
        {
            let landed = fs::read_to_string(there.join(path)).expect("landed");
            assert_eq!(landed, format!("content of {from}"), "{name}");
        }
    }
}

#[test]
fn what_is_one_name_there_lands_once() {
    for atomic in [false, true] {
        for way in ["here", "up", "down"] {
            let dir = folder();
            let (source, there) = (dir.path().join("src"), dir.path().join("dst"));
            plant(&source, &["Name/file", "name/file", "name/more"]);
            // As a file system has it to which `Name` and `name` are one.
            fs::create_dir_all(there.join("Name")).expect("a folder");
            symlink("Name", there.join("name")).expect("linked");
            let (_node, url) = node(dir.path(), "write", &[]);
            let (from, to) = match way {
                "up" => (text(&source).to_owned(), format!("{url}/dst")),
                "down" => (format!("{url}/src"), text(&there).to_owned()),
                _ => (text(&source).to_owned(), text(&there).to_owned()),
            };
            let mut args = vec!["sync"];
            args.extend(atomic.then_some("--atomic"));
            args.extend([&from[..], &to]);
            let (result, exit) = copied(&args);
            let failures = result["failures"].as_array().unwrap_or_else(|| panic!("{result}"));
            if way == "down" {
                // What a node sends follows no link, so that the second name is none.
                assert_eq!((failures.len(), exit), (3, 2), "{result}");
                let is_told = |failed: &Value| failed["error"]["code"] == "not-a-directory";
                assert!(failures.iter().all(is_told), "{result}");
                let landed = fs::read_to_string(there.join("Name/file")).expect("landed");
                assert_eq!(landed, "content of Name/file");
                assert!(!there.join("Name/more").exists(), "{result}");
                continue;
            }
            assert_eq!(exit, 2, "{way}: {result}");
            let read = |name: &str| fs::read_to_string(there.join(name)).expect("landed");
            let inode = || fs::metadata(there.join("Name/file")).expect("there").ino();
            let (first, mut again) = (inode(), result);
            // What is there stays the first one's, however often it is synced, and whatever it is
            // compared by.
            for (round, more) in [&[][..], &[], &["--checksum"]].into_iter().enumerate() {
                let says = format!("{way}, round {round}: {again}");
                let failures = again["failures"].as_array().expect("a list");
                assert_eq!(failures.len(), 1, "{says}");
                assert_eq!(failures[0]["path"], "name/file", "{says}");
                let error = &failures[0]["error"];
                assert_eq!(error["code"], "path-exists", "{says}");
                assert!(error["message"].to_string().contains("at the destination its name"));
                assert_eq!((read("Name/file"), inode()), ("content of Name/file".into(), first));
                assert_eq!(read("Name/more"), "content of name/more", "{says}");
                let (next, exit) = copied(&[&args[..], more].concat());
                assert_eq!((exit, next["files"].as_u64()), (2, Some(0)), "{says}: {next}");
                again = next;
            }
            // One that is changed goes where it went before.
            fs::write(source.join("Name/file"), "something else").expect("written");
            fs::write(source.join("name/file"), "something else again").expect("written");
            let (changed, exit) = copied(&args);
            assert_eq!((exit, changed["failures"][0]["path"].as_str()), (2, Some("name/file")));
            assert_eq!(read("Name/file"), "something else", "{way}: {changed}");
        }
    }
}

/// The result, and the exit code, of a copy for which `there/Name` and `there/name` are one folder:
/// it is mounted at both, in a namespace of the copy's own.
fn copied_to_one_name(there: &Path, args: &[&str]) -> (Value, i32) {
    let mut command = farline_lab::command("unshare");
    let script = "mount --bind \"$0/Name\" \"$0/name\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(there).arg(farline_binary());
    let state = there.with_extension("state");
    ended(command.env("XDG_STATE_HOME", state).arg("--json").args(args))
}

#[test]
fn of_a_stock_server_too_what_is_one_name_here_lands_once() {
    if !rustix::process::geteuid().is_root() {
        return farline_lab::skip("a mount of its own needs root");
    }
    let dir = folder();
    let source = dir.path().join("src");
    plant(&source, &["Name/file", "name/file", "name/more"]);
    let (_globus, globus) = globus_server();
    let (_plain, plain) = vsftpd(&source);
    for (server, url) in [("globus", format!("{globus}{}", text(&source))), ("vsftpd", plain)] {
        let there = dir.path().join(server);
        for name in ["Name", "name"] {
            fs::create_dir_all(there.join(name)).expect("a folder");
        }
        let (contents, to) = (format!("{url}/"), text(&there));
        let copies: [&[&str]; 3] = [
            &["cp", "-r", &contents[..], to],
            &["cp", "-r", &contents[..], to],
            &["sync", &url[..], to],
        ];
        let (mut failed, mut inode) = (None, None);
        for args in copies {
            let (result, exit) = copied_to_one_name(&there, args);
            let says = format!("{server}, {args:?}: {result}");
            let failures = result["failures"].as_array().expect("a list");
            assert_eq!((failures.len(), exit), (1, 2), "{says}");
            let error = &failures[0]["error"];
            assert_eq!(error["code"], "path-exists", "{says}");
            assert!(error["message"].to_string().contains("at the destination its name"), "{says}");
            // The server lists in an order of its own: the first that came stays.
            let path = failures[0]["path"].as_str().expect("text").to_owned();
            let first = if path == "name/file" { "Name/file" } else { "name/file" };
            let file = there.join("Name/file");
            let landed = fs::read_to_string(&file).expect("landed");
            assert_eq!(landed, format!("content of {first}"), "{says}");
            let more = fs::read_to_string(there.join("Name/more")).expect("landed");
            assert_eq!(more, "content of name/more", "{says}");
            assert_eq!(*failed.get_or_insert_with(|| path.clone()), path, "{says}");
            let now = fs::metadata(&file).expect("there").ino();
            assert_eq!(*inode.get_or_insert(now), now, "{says}");
            assert!(hidden(&there.join("Name")).is_empty(), "{says}");
        }
    }
}
