//! Peers that are not what they should be: another protocol, noise, broken MODE E. Each gets one
//! clear error, and nothing half-done stays under a final name.

use farline_lab::files::names;
use farline_lab::raw::{Blocks, RawClient, answer_with, server_that_sends};
use farline_lab::relay::relay_that_spoils_a_preamble;
use farline_lab::{error_of, farline, json_of, node, succeed};
use std::sync::atomic::Ordering;

#[test]
fn a_peer_that_speaks_something_else_is_named_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().join("got");
    let noise: Vec<u8> =
        (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (what, said) in [
        ("HTTP", &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..]),
        ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("SMTP", b"554 no service\r\n"),
        ("TLS", b"\x15\x03\x01\x00\x02\x02\x16"),
        ("noise", &noise),
        ("a line without end", &[b'2'; 200_000]),
        ("nothing", b""),
    ] {
        let port = answer_with(said.to_vec());
        let began = std::time::Instant::now();
        let (error, exit) =
            error_of(&["cp", &format!("ftp://127.0.0.1:{port}/x"), here.to_str().expect("text")]);
        assert!(matches!(exit, 4..=6), "{what}: exit code {exit}: {error}");
        assert!(
            matches!(error["fault"].as_str(), Some("there" | "between" | "refused")),
            "{what}: {error}"
        );
        assert!(
            error["message"].as_str().is_some_and(|message| message.contains(&port.to_string())),
            "{what}: which peer? {error}"
        );
        assert!(began.elapsed().as_secs() < 20, "{what} took {:?}", began.elapsed());
        assert!(!here.exists(), "{what}");
    }
}

#[test]
fn a_broken_mode_e_header_ends_the_transfer_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("f"), "old").expect("written");
    let (_node, url) = node(dir.path(), "write", &[]);
    let absurd = |offset: u64, count: u64| Blocks::header(0, offset, count);
    for (what, bytes) in [
        ("a header cut short", absurd(0, 10)[..9].to_vec()),
        ("a block cut short", [absurd(0, 10), b"12345".to_vec()].concat()),
        ("a block longer than any file", [absurd(0, u64::MAX), vec![7; 100]].concat()),
        ("an offset beyond any file", [absurd(u64::MAX - 3, 10), vec![7; 10]].concat()),
        ("unknown flags", Blocks::header(0x03, 0, 10)),
        ("a block marked as bad", [Blocks::header(0x20, 0, 4), b"abcd".to_vec()].concat()),
        ("fewer channels than said", [absurd(0, 4), b"abcd".to_vec(), Blocks::eof(0)].concat()),
        ("a hole", [absurd(4, 4), b"abcd".to_vec(), Blocks::eof(1)].concat()),
        ("noise", (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()),
    ] {
        let mut client = RawClient::open(&url);
        let mut data = client.passive();
        client.say("STOR f");
        Blocks::write(&mut data, &bytes);
        drop(data);
        let reply = client.final_reply();
        assert!(reply.starts_with('4') || reply.starts_with('5'), "{what}: {reply}");
        assert!(reply.lines().all(|line| !line.contains("panick")), "{what}: {reply}");
        assert_eq!(std::fs::read_to_string(dir.path().join("f")).expect("there"), "old", "{what}");
        assert_eq!(names(dir.path()), ["f"], "{what}");
        // The session, and the node, live on.
        assert!(client.ask("NOOP").starts_with("200"), "{what}");
    }
}

#[test]
fn a_block_larger_than_our_slots_is_cut_and_lands_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "write", &[]);
    let content: Vec<u8> = (0..5 * (1 << 20) + 3).map(|i: usize| (i / 7) as u8).collect();
    let mut client = RawClient::open(&url);
    let mut data = client.passive();
    client.say("STOR big");
    Blocks::write(&mut data, &Blocks::header(0, 0, content.len() as u64));
    Blocks::write(&mut data, &content);
    Blocks::write(&mut data, &Blocks::eof(1));
    assert!(client.final_reply().starts_with("226"));
    assert!(std::fs::read(dir.path().join("big")).expect("landed") == content);
}

#[test]
fn a_server_that_breaks_mode_e_is_named_and_lands_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().join("got");
    let four = |offset: u64| [Blocks::header(0, offset, 4), b"abcd".to_vec()].concat();
    for (what, blocks, code, exit) in [
        ("a header cut short", four(0)[..9].to_vec(), "channel-lost", 5),
        ("a block cut short", four(0)[..19].to_vec(), "channel-lost", 5),
        (
            "a block longer than any file",
            [Blocks::header(0, 0, u64::MAX), vec![7; 100]].concat(),
            "channel-lost",
            5,
        ),
        (
            "an offset beyond any file",
            [Blocks::header(0, u64::MAX - 3, 10), vec![7; 10]].concat(),
            "mode-e-broken",
            4,
        ),
        (
            "a block outside the file",
            [four(20), four(0), Blocks::eof(1)].concat(),
            "block-out-of-range",
            4,
        ),
        (
            "a block across its end",
            [four(8), four(0), four(4), Blocks::eof(1)].concat(),
            "block-out-of-range",
            4,
        ),
        (
            "a block marked as bad",
            [Blocks::header(0x20, 0, 4), b"abcd".to_vec()].concat(),
            "mode-e-broken",
            4,
        ),
        ("less than the file", [four(0), Blocks::eof(1)].concat(), "incomplete", 4),
    ] {
        let port = server_that_sends(10, blocks);
        let (error, actual) =
            error_of(&["cp", &format!("ftp://127.0.0.1:{port}/f"), here.to_str().expect("text")]);
        assert_eq!((error["code"].as_str(), actual), (Some(code), exit), "{what}: {error}");
        assert!(!here.exists(), "{what}");
    }
}

#[test]
fn a_server_may_send_large_and_overlapping_blocks() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().join("got");
    let content: Vec<u8> = (0..5 * (1 << 20) + 3).map(|i: usize| (i / 7) as u8).collect();
    let block = |from: usize, to: usize| {
        [Blocks::header(0, from as u64, (to - from) as u64), content[from..to].to_vec()].concat()
    };
    let (len, third) = (content.len(), content.len() / 3);
    let port = server_that_sends(
        len as u64,
        [block(third, len), block(0, 2 * third), block(third, third + 1), Blocks::eof(1)].concat(),
    );
    succeed(farline().args(["-q", "cp", &format!("ftp://127.0.0.1:{port}/f")]).arg(&here));
    assert!(std::fs::read(&here).expect("landed") == content);
}

#[test]
fn overlapping_and_repeated_blocks_make_one_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "write", &[]);
    let mut client = RawClient::open(&url);
    let mut data = client.passive();
    client.say("STOR f");
    for (offset, bytes) in [(5u64, b"fghij"), (0, b"abcde"), (3, b"defgh"), (5, b"fghij")] {
        Blocks::write(&mut data, &Blocks::header(0, offset, 5));
        Blocks::write(&mut data, bytes);
    }
    Blocks::write(&mut data, &Blocks::eof(1));
    assert!(client.final_reply().starts_with("226"));
    assert_eq!(std::fs::read_to_string(dir.path().join("f")).expect("landed"), "abcdefghij");
}

#[test]
fn a_tree_takes_no_block_or_path_outside_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let (_node, url) = node(&root, "write", &[]);
    let entry = |path: &str| {
        format!("Type=file;Size=5;Modify=0.000000000;UNIX.mode=0644; {path}\n").into_bytes()
    };
    let transfer = |client: &mut RawClient,
                    data: &mut std::net::TcpStream,
                    part: &str,
                    offset: u64,
                    bytes: &[u8]| {
        client.say(&format!("ESTO FARLINE.TREE=\"{part}\" /"));
        Blocks::write(data, &Blocks::header(0, offset, bytes.len() as u64));
        Blocks::write(data, bytes);
        Blocks::write(data, &Blocks::eof(1));
        client.final_reply()
    };
    for (what, offset, bytes) in [
        ("beyond the file", 0u64, &b"123456"[..]),
        ("beside the file", 1 << 20, b"12345"),
        ("too short", 0, b"1234"),
        ("far away", u64::MAX - 9, b"12345"),
    ] {
        let mut client = RawClient::open(&url);
        let mut data = client.passive();
        let reply = transfer(&mut client, &mut data, "manifest", 0, &entry("x"));
        assert!(reply.starts_with("226"), "{what}: {reply}");
        let reply = transfer(&mut client, &mut data, "data", offset, bytes);
        assert!(reply.starts_with('4') || reply.starts_with('5'), "{what}: {reply}");
        drop(client);
    }
    for path in ["../x", "a/../../x", "/etc/x", "a//b"] {
        let mut client = RawClient::open(&url);
        let mut data = client.passive();
        let reply = transfer(&mut client, &mut data, "manifest", 0, &entry(path));
        assert!(reply.starts_with("501") || reply.starts_with("451"), "{path}: {reply}");
    }
    assert_eq!(names(dir.path()), ["root"]);
    assert!(!root.join("x").exists());
}

#[test]
fn an_unknown_data_connection_costs_a_pass_not_the_copy() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, up, back) =
        (dir.path().join("root"), dir.path().join("up"), dir.path().join("back"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(
        &up,
        (0..3_000_000u32)
            .flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect::<Vec<_>>(),
    )
    .expect("written");
    // The node waits so long for a connection that does not come.
    let (_node, url) = node(&root, "write", &["--timeout", "2"]);
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    for (from, to) in [("up", "remote"), ("remote", "back")] {
        // Each relay spoils one connection.
        let (port, count) = relay_that_spoils_a_preamble(port);
        let place = |name: &str| match name {
            "remote" => format!("ftp://127.0.0.1:{port}/f"),
            name => dir.path().join(name).to_str().expect("text").to_owned(),
        };
        let result =
            json_of(farline().args(["--json", "cp", "--streams", "3", &place(from), &place(to)]));
        // Three for each pass. Usually there are two; a node that was put aside for longer than it
        // waits gives up another.
        let count = count.load(Ordering::Relaxed);
        assert!(result["verified"] == true && count >= 6 && count % 3 == 0, "{count}: {result}");
    }
    assert_eq!(std::fs::read(&up).expect("there"), std::fs::read(&back).expect("landed"));
}
