//! `farline cp` and `farline serve`, the real binaries, over loopback.

use farline_lab::files::{names, text};
use farline_lab::ordinary::Ordinary;
use farline_lab::{assert_same_tree, error_of, farline, json_of, node, plant, succeed};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn hidden(root: &Path) -> Vec<String> {
    names(root).into_iter().filter(|name| name.starts_with('.')).collect()
}

#[test]
fn a_tree_goes_up_and_comes_back_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root, back) =
        (dir.path().join("src"), dir.path().join("root"), dir.path().join("back"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    // A name need not be text, nor fit on a line.
    let odd = std::ffi::OsStr::from_bytes(b"odd \xff\xc3\xa9\n;name");
    std::fs::write(source.join(odd), "odd").expect("written");
    let (_node, url) = node(&root, "write", &[]);
    for streams in ["1", "4"] {
        let to = format!("{url}/up{streams}");
        let result = json_of(
            farline().args(["--json", "cp", "-r", "--streams", streams]).arg(&source).arg(&to),
        );
        assert_eq!(result["schema"], "farline/copy/1");
        assert_eq!(result["files"], 208);
        assert_eq!(result["verified"], true);
        assert_eq!(result["streams"].to_string(), streams);
        assert!(
            result["bytes"].as_u64() < result["bytes_sent"].as_u64(),
            "headers and lists count as sent: {result}"
        );
        for key in [
            "seconds",
            "rate_bps",
            "congestion",
            "cpu_seconds",
            "peak_rss_bytes",
            "limited_by",
            "samples",
        ] {
            assert!(!result[key].is_null(), "{key} is missing: {result}");
        }
        assert_same_tree(&source, &root.join(format!("up{streams}/src")));
        let from = format!("{url}/up{streams}/src/");
        let target = back.join(streams);
        let result = json_of(
            farline().args(["--json", "cp", "-r", "--streams", streams, &from]).arg(&target),
        );
        assert_eq!(
            (result["files"].as_u64(), result["verified"].as_bool()),
            (Some(208), Some(true))
        );
        assert_same_tree(&source, &target);
    }
}

#[test]
fn a_dry_run_from_a_node_may_ask_for_what_a_copy_may() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("t")).expect("folders");
    std::fs::write(root.join("t/f"), "f").expect("written");
    let (_node, url) = node(&root, "read", &[]);
    let (from, to) = (format!("{url}/t"), dir.path().join("to"));
    for args in [
        &["--atomic"][..],
        &["--verify", "blake3"],
        &["--verify", "checksum"],
        &["--congestion", "reno"],
    ] {
        let plan = json_of(
            farline().args(["--json", "cp", "-r", "--dry-run"]).args(args).arg(&from).arg(&to),
        );
        assert_eq!(plan["planned"].as_array().map(Vec::len), Some(1), "{args:?}: {plan}");
        assert!(!plan["notes"].to_string().contains("no Farline node"), "{args:?}: {plan}");
        assert!(!to.exists(), "{args:?}");
    }
}

#[test]
fn names_at_the_destination_are_as_rsync_has_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("there")).expect("a folder");
    std::fs::create_dir_all(dir.path().join("tree")).expect("a folder");
    std::fs::write(dir.path().join("a"), "a").expect("written");
    std::fs::write(dir.path().join("tree/b"), "b").expect("written");
    let (_node, url) = node(&root, "write", &[]);
    let cp = |args: &[&str]| {
        succeed(farline().current_dir(dir.path()).args(["--quiet", "cp", "-r"]).args(args))
    };
    cp(&["a", &format!("{url}/renamed")]);
    cp(&["a", &format!("{url}/there")]);
    cp(&["a", "tree", &format!("{url}/made")]);
    cp(&["tree/", &format!("{url}/content")]);
    cp(&[&format!("{url}/made/a"), "here"]);
    cp(&[&format!("{url}/made/a"), &format!("{url}/content/b"), "folder"]);
    cp(&[&format!("{url}/made/tree"), "folder"]);
    for (path, content) in [
        ("root/renamed", "a"),
        ("root/there/a", "a"),
        ("root/made/a", "a"),
        ("root/made/tree/b", "b"),
        ("root/content/b", "b"),
        ("here", "a"),
        ("folder/a", "a"),
        ("folder/b", "b"),
        ("folder/tree/b", "b"),
    ] {
        assert_eq!(
            std::fs::read_to_string(dir.path().join(path)).ok().as_deref(),
            Some(content),
            "{path}"
        );
    }
}

#[test]
fn an_existing_file_is_replaced_whole_and_a_device_never() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::write(root.join("f"), "old and longer").expect("written");
    std::fs::write(dir.path().join("f"), "new").expect("written");
    let (_node, url) = node(&root, "write", &[]);
    succeed(farline().args(["-q", "cp"]).arg(dir.path().join("f")).arg(format!("{url}/f")));
    assert_eq!(std::fs::read_to_string(root.join("f")).expect("there"), "new");
    succeed(std::process::Command::new("mkfifo").arg(root.join("pipe")));
    let (error, code) = error_of(&["cp", text(&dir.path().join("f")), &format!("{url}/pipe")]);
    assert_eq!((error["code"].as_str(), code), (Some("special-file"), 2), "{error}");
    assert!(
        std::fs::metadata(root.join("pipe")).is_ok_and(|meta| !meta.is_file()),
        "the FIFO is still one"
    );
    assert_eq!(hidden(&root), Vec::<String>::new());
}

#[test]
fn what_is_no_file_is_named_and_the_others_arrive() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    succeed(std::process::Command::new("mkfifo").arg(source.join("one/pipe")));
    let (_node, url) = node(&root, "write", &[]);
    let output = farline()
        .args(["--json", "cp", "-r"])
        .arg(&source)
        .arg(format!("{url}/up"))
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(2));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(result["failures"][0]["path"], "src/one/pipe");
    assert_eq!(result["files"], 207);
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_others_arrive() {
    let user = Ordinary::new();
    let (source, root) = (user.path().join("src"), user.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    std::fs::set_permissions(source.join("one/small3"), PermissionsExt::from_mode(0o000))
        .expect("forbidden");
    for folder in [&source, &root] {
        user.own(folder);
    }
    let (_node, url) = user.node(&root);
    let output = user
        .farline()
        .args(["--json", "cp", "-r"])
        .arg(&source)
        .arg(format!("{url}/up"))
        .output()
        .expect("runs");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(result["failures"][0]["path"], "src/one/small3", "{result}");
    assert_eq!((result["files"].as_u64(), result["verified"].as_bool()), (Some(206), Some(false)));
    assert!(root.join("up/src/one/small4").exists());
}

#[test]
fn bad_input_gets_one_clear_error() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(dir.path().join("root/tree")).expect("a folder");
    std::fs::write(dir.path().join("f"), "x").expect("written");
    let (_writable, url) = node(&dir.path().join("root"), "write", &[]);
    let (_readable, read_only) = node(&dir.path().join("root"), "read", &[]);
    let (f, tree) = (dir.path().join("f"), dir.path().join("root/tree"));
    let (f, tree) = (text(&f), text(&tree));
    let (nothing, elsewhere) = (format!("{url}/nothing"), format!("{read_only}/f"));
    let port_9 = "ftp://127.0.0.1:9/";
    for (args, code, exit) in [
        (vec!["cp", &nothing, "x"], "path-not-found", 2),
        (vec!["cp", "/no/such/file", &nothing], "path-not-found", 2),
        (vec!["cp", tree, &nothing], "is-a-directory", 2),
        (vec!["cp", &format!("{url}/tree"), "x"], "is-a-directory", 2),
        (vec!["cp", f, &elsewhere], "permission-denied", 6),
        (vec!["cp", f, &format!("{url}/no/folder/f")], "path-not-found", 2),
        (vec!["cp", f, port_9], "unreachable", 5),
        (vec!["cp", f, "gopher://x/"], "unknown-scheme", 2),
        (vec!["cp", "--congestion", "nonesuch", f, &nothing], "unknown-congestion", 2),
        (vec!["cp", "--streams", "0", f, &nothing], "usage", 2),
        (vec!["serve", "--root", "/no/such/root", "--anonymous", "read"], "path-not-found", 2),
        (vec!["serve", "--root", tree], "nobody-may-enter", 2),
        (
            vec!["serve", "--root", tree, "--anonymous", "read", "--data-ports", "9-1"],
            "bad-config",
            2,
        ),
    ] {
        let (error, actual) = error_of(&args);
        assert_eq!((error["code"].as_str(), actual), (Some(code), exit), "{args:?}: {error}");
    }
    let other = dir.path().join("other");
    std::fs::write(&other, "y").expect("written");
    let (error, exit) = error_of(&["cp", f, text(&other), &format!("{url}/nowhere")]);
    assert_eq!((error["code"].as_str(), exit), (Some("path-not-found"), 2), "{error}");
    assert!(error["message"].to_string().contains("has no directory /nowhere"), "{error}");
    assert!(error["hint"].to_string().contains("cp -r"), "{error}");
    assert_eq!(hidden(&dir.path().join("root")), Vec::<String>::new());
}

#[test]
fn memory_stays_within_the_staging_pool_whatever_the_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::File::create(root.join("long"))
        .and_then(|file| file.set_len(1 << 30))
        .expect("a long file");
    std::fs::write(root.join("short"), "x").expect("a short file");
    let (_node, url) = node(&root, "read", &[]);
    let target = dir.path().join("copy");
    let peak = |name: &str| {
        let mut copy = farline();
        copy.args(["--json", "cp", "--staging", "8MiB", "--streams", "2"]);
        let result = json_of(copy.arg(format!("{url}/{name}")).arg(&target));
        result["peak_rss_bytes"].as_u64().expect("a number")
    };
    // What the command itself takes, a byte's copy takes too.
    let (least, peak) = (peak("short"), peak("long"));
    // More than half are pages of the program, which has 170 MB in a debug build.
    assert!(least < 48 << 20, "{least} bytes of memory for one byte");
    assert!(peak < least + (12 << 20), "{peak} bytes of memory for an 8 MiB pool, {least} without");
    assert_eq!(std::fs::metadata(&target).expect("landed").len(), 1 << 30);
}

#[test]
fn files_are_compared_by_crc_64_or_on_wish_by_blake3() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let (_node, url) = node(&root, "write", &[]);
    for (how, name) in [("digest", "CRC-64/NVME of every file"), ("blake3", "BLAKE3 of every file")]
    {
        let (there, back) = (format!("{url}/{how}/"), dir.path().join(how));
        let copy = |from: &str, to: &str| {
            let result = json_of(farline().args(["--json", "cp", "-r", "--verify", how, from, to]));
            assert_eq!(result["verified"], true);
            let said = result["verified_how"].as_str().expect("words");
            assert!(said.starts_with(name), "{said}");
        };
        copy(text(&source), &there);
        copy(&there, text(&back));
        assert_same_tree(&source, &back.join("src"));
    }
}
