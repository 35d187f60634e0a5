//! Uploads by plain FTP that are broken off: whatever ends them, the file that was there stays.

use farline_lab::files::{names, random};
use farline_lab::raw::RawClient;
use farline_lab::{Running, fit_of_three, node, succeed, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const OLD: &[u8] = b"the good file";

/// A node with one good file `f`, and its URL.
fn node_with_a_good_file(root: &Path, more: &[&str]) -> (Running, String) {
    std::fs::create_dir_all(root).expect("a folder");
    std::fs::write(root.join("f"), OLD).expect("written");
    node(root, "write", more)
}

/// That the good file stays, and in the end stands alone.
fn the_good_file_stays(root: &Path, what: &str) {
    wait_for("the node to be done", || names(root) == ["f"]);
    assert_eq!(std::fs::read(root.join("f")).expect("there"), OLD, "{what}");
}

/// Whether part of an upload lies next to the good file.
fn has_begun(root: &Path) -> bool {
    std::fs::read_dir(root).expect("a folder").count() > 1
}

/// Sends the first 300,000 bytes of a new `f`, and waits until the node has some of it.
fn begin_upload(client: &mut RawClient, root: &Path) -> TcpStream {
    let mut data = client.passive();
    client.say("STOR f");
    data.write_all(&[7; 300_000]).expect("written");
    wait_for("the upload to begin", || has_begun(root));
    data
}

#[test]
fn curl_that_runs_out_of_time_replaces_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, big) = (dir.path().join("root"), dir.path().join("big"));
    std::fs::write(&big, random(1, 100 << 20)).expect("written");
    let (_node, url) = node_with_a_good_file(&root, &[]);
    for _ in 0..3 {
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "1", "--limit-rate", "40M", "-T"])
            .arg(&big)
            .arg(format!("{url}/f"))
            .output()
            .expect("curl runs");
        assert_eq!(output.status.code(), Some(28), "{}", String::from_utf8_lossy(&output.stderr));
        // What would land does so once the node is done with what came.
        std::thread::sleep(Duration::from_millis(300));
        the_good_file_stays(&root, "curl --max-time");
    }
}

#[test]
fn a_client_that_is_killed_replaces_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, big) = (dir.path().join("root"), dir.path().join("big"));
    std::fs::write(&big, random(2, 100 << 20)).expect("written");
    let (_node, url) = node_with_a_good_file(&root, &[]);
    for round in 0..20u64 {
        let mut curl = Command::new("curl")
            .args(["-sS", "--limit-rate", "40M", "-T"])
            .arg(&big)
            .arg(format!("{url}/f"))
            .stderr(Stdio::null())
            .spawn()
            .expect("curl runs");
        wait_for("the upload to begin", || has_begun(&root));
        std::thread::sleep(Duration::from_millis(round * 7));
        curl.kill().expect("it runs");
        curl.wait().expect("it ended");
        std::thread::sleep(Duration::from_millis(150));
        the_good_file_stays(&root, &format!("kill {round}"));
    }
}

#[test]
fn an_aborted_upload_is_answered_with_426_and_lands_nowhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    let (_node, url) = node_with_a_good_file(&root, &[]);
    for data_first in [false, true] {
        let mut client = RawClient::in_stream_mode(&url);
        let data = begin_upload(&mut client, &root);
        if data_first {
            drop(data);
            client.say("ABOR");
        } else {
            client.say("ABOR");
            drop(data);
        }
        let reply = client.final_reply();
        assert!(reply.starts_with("426"), "data closed first: {data_first}: {reply}");
        let reply = client.final_reply();
        assert!(reply.starts_with("226"), "{reply}");
        the_good_file_stays(&root, "ABOR");
    }
}

#[test]
fn a_client_that_falls_silent_replaces_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    let (_node, url) = node_with_a_good_file(&root, &["--timeout", "1"]);
    let mut client = RawClient::in_stream_mode(&url);
    let _data = begin_upload(&mut client, &root);
    let reply = client.final_reply();
    assert!(reply.starts_with('4'), "{reply}");
    the_good_file_stays(&root, "silence");
}

#[test]
fn fewer_bytes_than_announced_land_nowhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    let (_node, url) = node_with_a_good_file(&root, &[]);
    let mut client = RawClient::in_stream_mode(&url);
    assert!(client.ask("ALLO 400000").starts_with('2'));
    drop(begin_upload(&mut client, &root));
    let reply = client.final_reply();
    assert!(reply.starts_with('4'), "{reply}");
    the_good_file_stays(&root, "ALLO");
}

#[test]
fn an_upload_to_its_end_replaces_the_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, new) = (dir.path().join("root"), dir.path().join("new"));
    std::fs::write(&new, random(3, 3 << 20)).expect("written");
    let (_node, url) = node_with_a_good_file(&root, &[]);
    succeed(Command::new("curl").args(["-sS", "-T"]).arg(&new).arg(format!("{url}/f")));
    assert!(farline_lab::files::same(&new, &root.join("f")), "what curl stored differs");
}

#[test]
fn a_file_that_shrinks_under_a_download_ends_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, got) = (dir.path().join("root"), dir.path().join("got"));
    std::fs::create_dir(&root).expect("a folder");
    let file = std::fs::File::create(root.join("f")).expect("made");
    file.set_len(300 << 20).expect("long");
    let (_node, url) = node(&root, "read", &[]);
    let url = url.replacen("farline://", "ftp://", 1);
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "60", "--limit-rate", "60M", "-o"]).arg(&got);
    let mut curl = Running(curl.arg(format!("{url}/f")).spawn().expect("curl starts"));
    wait_for("a part of it", || got.metadata().is_ok_and(|meta| meta.len() > 10 << 20));
    file.set_len(50 << 20).expect("shorter");
    let code = curl.0.wait().expect("it ends").code();
    assert!(!matches!(code, Some(0 | 28)), "curl waited, or took a part for the whole: {code:?}");
}

/// What another client can go on from is not thrown away for an upload that never lands.
#[test]
fn a_broken_upload_leaves_what_another_goes_on_from() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, big) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::write(&big, random(3, 60 << 20)).expect("written");
    let (_node, url) = node_with_a_good_file(&root, &[]);
    // Kills a copy of which something is durable; the node lets its place go.
    let break_off = || {
        let mut copy = farline_lab::farline();
        copy.args(["-q", "cp", "--limit", "200Mbit/s"]).arg(&big).arg(&url).stderr(Stdio::null());
        let mut copying = Running(copy.spawn().expect("runs"));
        wait_for("a durable part", || {
            let journal = names(&root).into_iter().find(|name| name.ends_with(".journal.farline"));
            let journal = journal.and_then(|name| std::fs::metadata(root.join(name)).ok());
            journal.is_some_and(|journal| journal.len() > 0)
        });
        copying.end(rustix::process::Signal::KILL);
        std::thread::sleep(Duration::from_millis(500));
    };
    break_off();
    let kept = names(&root);
    assert_eq!(kept.len(), 3, "{kept:?}");
    for aborts in [true, false] {
        let mut client = RawClient::in_stream_mode(&url);
        let mut data = client.passive();
        client.say("STOR f");
        data.write_all(&[7; 300_000]).expect("written");
        wait_for("the upload to begin", || names(&root).len() == 4);
        if aborts {
            client.say("ABOR");
            assert!(client.final_reply().starts_with("426"));
        } else {
            drop((client, data));
        }
        wait_for("the node to be done", || names(&root) == kept);
        assert_eq!(std::fs::read(root.join("f")).expect("there"), OLD);
    }
    let result =
        farline_lab::json_of(farline_lab::farline().args(["--json", "cp"]).arg(&big).arg(&url));
    assert!(result["resumed_bytes"].as_u64() > Some(0), "{result}");
    assert_eq!(names(&root), ["f"]);
    // And one that lands takes its place.
    std::fs::write(&big, random(4, 60 << 20)).expect("written");
    break_off();
    succeed(Command::new("curl").args(["-sS", "-T"]).arg(&big).arg(format!("{url}/f")));
    wait_for("nothing else to be left", || names(&root) == ["f"]);
    assert_eq!(std::fs::read(root.join("f")).expect("there"), random(4, 60 << 20));
}

#[test]
fn replies_tell_what_is_so_of_times_lists_and_names() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    let (_node, url) = node_with_a_good_file(&root, &[]);
    for folder in ["e1", "e2/x"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    let mut client = RawClient::in_stream_mode(&url);
    let before = client.ask("MDTM f");
    // No file system has a year 9999 in the seconds of one that ends in 2446, and some end in 2038.
    let set = client.ask("MFMT 99991231235959 f");
    let after = client.ask("MDTM f");
    if set.starts_with("213") {
        assert!(after.contains("99991231235959"), "{set}, and {after}");
    } else {
        assert!(set.starts_with("55") && after == before, "{set}: {before}, {after}");
    }
    let mut data = client.passive();
    client.say("MLSD f");
    let mut listed = String::new();
    std::io::Read::read_to_string(&mut data, &mut listed).expect("a list");
    assert!(client.final_reply().starts_with("226"));
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(!listed.to_lowercase().contains("type=cdir"), "{listed}");
    // Nothing to go on from is no success without data.
    assert!(client.ask("REST 1000000").starts_with("350"));
    let _data = client.passive();
    client.say("RETR f");
    let refused = client.final_reply();
    assert!(refused.starts_with("554"), "{refused}");
    assert!(client.ask("RNFR e1").starts_with("350"));
    let refused = client.ask("RNTO e2");
    assert!(refused.starts_with('5') && refused.contains("/e2"), "{refused}");
}

/// The packets with data that came over `stream`, as the kernel counts them.
fn packets_in(stream: &TcpStream) -> u32 {
    let port = stream.local_addr().expect("an address").port();
    let ss = Command::new("ss").args(["-tinH", "sport", "="]).arg(format!(":{port}")).output();
    let said = String::from_utf8_lossy(&ss.expect("ss runs").stdout).into_owned();
    let count = said.split("data_segs_in:").nth(1).and_then(|rest| rest.split(' ').next());
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count: {said}"))
}

/// Of a new connection no more than ten packets go before the first is acknowledged.
#[test]
fn replies_to_commands_in_a_row_take_few_packets() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "read", &[]);
    // Those of a node that waits for a processor go when it has one.
    let packets = fit_of_three(|| packets_of_replies(&url), |packets| *packets <= 10);
    assert!(packets <= 10, "{packets} packets");
}

/// The packets in which a new session's replies to many commands in a row come.
fn packets_of_replies(url: &str) -> u32 {
    let mut client = TcpStream::connect(url.trim_start_matches("ftp://")).expect("a way");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let commands = format!("USER anonymous\r\nPASS x\r\n{}NOOP\r\n", "MLST /\r\n".repeat(30));
    client.write_all(commands.as_bytes()).expect("sent");
    let last = "200 NOOP command successful.";
    let reader = BufReader::new(client.try_clone().expect("a descriptor"));
    let said: Vec<String> =
        reader.lines().map_while(Result::ok).take_while(|line| line != last).collect();
    assert_eq!(said.iter().filter(|line| *line == "250 End.").count(), 30, "{said:?}");
    let packets = packets_in(&client);
    println!("{packets} packets for {} lines", said.len());
    packets
}
