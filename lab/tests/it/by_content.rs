//! `--checksum`: files of the same content stay, whatever their times; and the sums that a node
//! computes for others.

use farline_core::transfer::{crc64_with, crc64_with_zeros};
use farline_lab::files::{folder, text};
use farline_lab::{
    assert_same_tree, error_of, farline, globus_server, json_of, node, plant, succeed,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

fn sync(args: &[&str], from: &str, to: &str) -> Value {
    json_of(farline().args(["--json", "sync"]).args(args).args([from, to]))
}

/// What a dry run would copy, with the reasons.
fn planned(result: &Value) -> BTreeSet<(String, String)> {
    let planned = result["planned"].as_array().expect("a list").iter();
    let word = |file: &Value, key: &str| file[key].as_str().expect("text").to_owned();
    planned.map(|file| (word(file, "path"), word(file, "reason"))).collect()
}

/// A copy of `source` in which every time differs, and one file by its content alone.
fn plant_almost_same(source: &Path, there: &Path) {
    fs::create_dir_all(there).expect("a folder");
    succeed(Command::new("cp").args(["-a", &format!("{}/.", text(source)), text(there)]));
    let find = ["-type", "f", "-exec", "touch", "-d", "2020-02-02", "{}", "+"];
    succeed(Command::new("find").arg(there).args(find));
    let odd = there.join("one/two/file 2 %");
    let mut bytes = fs::read(&odd).expect("there");
    bytes[4000] ^= 1;
    fs::write(&odd, bytes).expect("written");
    // Its time is that of the source: only the content tells.
    let like = source.join("one/two/file 2 %");
    succeed(Command::new("touch").args(["-r", text(&like), text(&odd)]));
}

#[test]
fn files_of_the_same_content_stay_wherever_they_are() {
    let dir = folder();
    let source = dir.path().join("src");
    plant(&source);
    // A stock server cannot make one, and a node makes it again each time.
    fs::remove_file(source.join("link")).expect("removed");
    let (_node, url) = node(
        dir.path(),
        "write",
        &["--listen", "127.0.0.2:0", "--third-party", "--third-party-net", "127.0.0.0/8"],
    );
    let (_other, other) = node(
        dir.path(),
        "write",
        &["--listen", "127.0.0.3:0", "--third-party", "--third-party-net", "127.0.0.0/8"],
    );
    let (_globus, globus) = globus_server();
    let here = text(&source).to_owned();
    let globus = format!("{globus}{}", dir.path().display());
    for (name, from, to) in [
        ("local", here.clone(), dir.path().join("local").display().to_string()),
        ("up", here.clone(), format!("{url}/up")),
        ("down", format!("{url}/src"), dir.path().join("down").display().to_string()),
        ("across", format!("{url}/src"), format!("{other}/across")),
        ("stock-up", here, format!("{globus}/stock-up")),
        (
            "stock-down",
            format!("{globus}/src"),
            dir.path().join("stock-down").display().to_string(),
        ),
    ] {
        let there = dir.path().join(name);
        plant_almost_same(&source, &there);
        let odd = BTreeSet::from([("one/two/file 2 %".to_owned(), "content-differs".to_owned())]);
        assert_eq!(planned(&sync(&["--checksum", "--dry-run"], &from, &to)), odd, "{name}");
        let result = sync(&["--checksum"], &from, &to);
        assert_eq!(result["files"], 1, "{name}: {result}");
        assert_eq!(result["skipped"].as_array().map(Vec::len), Some(206), "{name}: {result}");
        succeed(Command::new("diff").args(["-r", text(&source), text(&there)]));
        let again = sync(&["-c"], &from, &to);
        assert_eq!((&again["files"], &again["moved_bytes"]), (&0.into(), &0.into()), "{name}");
    }
}

#[test]
fn a_small_file_comes_without_those_around_it() {
    let dir = folder();
    let (root, down) = (dir.path().join("root"), dir.path().join("down"));
    fs::create_dir_all(root.join("t")).expect("a folder");
    for i in 0..300 {
        fs::write(root.join(format!("t/{i}")), vec![i as u8; 5000]).expect("written");
    }
    let (_node, url) = node(&root, "read", &[]);
    sync(&[], &format!("{url}/t"), text(&down));
    fs::write(root.join("t/150"), "changed").expect("written");
    let result = sync(&[], &format!("{url}/t"), text(&down));
    assert_eq!(result["files"], 1, "{result}");
    assert_same_tree(&root.join("t"), &down);
    // The list of 301 entries has about 30 KB; before, 1.5 MB of unchanged files came with it.
    let sent = result["bytes_sent"].as_u64().expect("a number");
    assert!(sent < 60_000, "{sent} bytes came");
}

#[test]
fn a_sync_between_two_nodes_copies_what_differs() {
    let dir = folder();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    plant(&a.join("src"));
    fs::remove_file(a.join("src/link")).expect("removed");
    fs::create_dir(&b).expect("a folder");
    let (_a, from) = node(
        &a,
        "write",
        &["--listen", "127.0.0.2:0", "--third-party", "--third-party-net", "127.0.0.0/8"],
    );
    let (_b, to) = node(
        &b,
        "write",
        &["--listen", "127.0.0.3:0", "--third-party", "--third-party-net", "127.0.0.0/8"],
    );
    let (from, to) = (format!("{from}/src"), format!("{to}/dst"));
    let would = planned(&sync(&["--dry-run", "--exclude", "small1*"], &from, &to));
    assert!(!b.join("dst").exists() && would.len() == 96, "{}", would.len());
    let first = sync(&["--exclude", "small1*"], &from, &to);
    assert_eq!(first["files"], 96, "{first}");
    assert!(!b.join("dst/one/small1").exists());
    let rest = sync(&[], &from, &to);
    assert_eq!((rest["files"].as_u64(), rest["failures"].to_string()), (Some(111), "[]".into()));
    assert_same_tree(&a.join("src"), &b.join("dst"));
    fs::write(a.join("src/one/small3"), "changed, and longer than it was").expect("written");
    fs::write(b.join("dst/old"), "gone").expect("written");
    let last = sync(&["--delete"], &from, &to);
    assert_eq!((&last["files"], &last["deleted"]), (&1.into(), &serde_json::json!(["old"])));
    assert_same_tree(&a.join("src"), &b.join("dst"));
    let nothing = sync(&[], &from, &to);
    assert_eq!((&nothing["files"], &nothing["bytes"]), (&0.into(), &0.into()), "{nothing}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_moves() {
    let dir = folder();
    plant(&dir.path().join("src"));
    let (from, to) = (dir.path().join("src"), dir.path().join("to"));
    let args = ["cp", "-r", "--no-clobber", "--checksum", text(&from), text(&to)];
    let (error, exit) = error_of(&args);
    assert_eq!((error["code"].as_str(), exit), (Some("usage"), 2), "{error}");
    assert!(!to.exists());
}

#[test]
fn holes_of_any_length_cost_a_node_no_time() {
    let dir = folder();
    let file = fs::File::create(dir.path().join("f")).expect("made");
    file.set_len(1 << 40).expect("a hole");
    file.write_all_at(b"farline", 1 << 39).expect("written");
    let (_node, url) = node(dir.path(), "read", &[]);
    let sum = |algorithm: &str, part: &str| {
        let command = format!("CKSM {algorithm} {part} /f");
        let output = Command::new("curl")
            .args(["-sv", "--ftp-pasv", "--max-time", "20", "-I", "-Q", &command])
            .arg(format!("{url}/f"))
            .output();
        let output = output.expect("curl runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // A tebibyte would take a processor minutes.
    let said = sum("CRC64NVME", "0 -1");
    let before = crc64_with(crc64_with_zeros(0, 1 << 39), b"farline");
    let whole = crc64_with_zeros(before, (1 << 39) - 7);
    assert!(said.contains(&format!("< 213 {whole:016x}")), "{said}");
    let said = sum("ADLER32", "0 -1");
    assert!(said.contains("< 213 "), "{said}");
    // What has to look at each zero does so for 64 GiB of them.
    let said = sum("MD5", "0 -1");
    assert!(said.contains("< 504") && said.contains("lie in holes"), "{said}");
    let said = sum("MD5", &format!("{} 8", (1_u64 << 39) - 1));
    let md5 = "1a3e4fed95f446b4c9602c0623fb6ff9";
    assert!(said.contains(&format!("< 213 {md5}")), "{said}");
}

#[test]
fn a_node_sums_files_for_any_client() {
    let dir = folder();
    fs::write(dir.path().join("f"), "farline").expect("written");
    let (_node, url) = node(dir.path(), "write", &[]);
    let sha = "2083a34f4dba4f5c71f77aecaa4fcf1539e2853999f7cd3d7e6ceb3e5f6f4728";
    let curl = |args: &[&str]| {
        let output = Command::new("curl").args(["-sv", "--ftp-pasv"]).args(args).output();
        let output = output.expect("curl runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, said) = curl(&["-Q", "CKSM SHA256 0 -1 /f", &format!("{url}/f")]);
    assert!(done && said.contains(&format!("213 {sha}")), "{said}");
    let (_, said) = curl(&["-Q", "CKSM CRC64NVME 3 2 /f", &format!("{url}/f")]);
    // Of "li", by crc-fast.
    assert!(said.lines().any(|line| line.starts_with("< 213 ") && line.len() >= 22), "{said}");
    let (_, said) = curl(&["-Q", "CKSM SHA256 0 -1 /nothing", &format!("{url}/f")]);
    assert!(said.contains("< 550"), "{said}");
    // What arrives must be what was announced.
    let from = dir.path().join("f");
    let to = format!("{url}/g");
    let (done, said) = curl(&["-Q", &format!("SCKS SHA256 {sha}"), "-T", text(&from), &to]);
    assert!(done, "{said}");
    assert_eq!(fs::read(dir.path().join("g")).expect("landed"), b"farline");
    fs::remove_file(dir.path().join("g")).expect("removed");
    let wrong = sha.replace('2', "3");
    let (done, said) = curl(&["-Q", &format!("SCKS SHA256 {wrong}"), "-T", text(&from), &to]);
    assert!(!done && !dir.path().join("g").exists(), "{said}");
    assert!(said.contains("announced with SCKS"), "{said}");
}
