//! Clients that mean to take a node's memory and descriptors by the lists of trees: each gets its
//! share, is told when there is no more, and leaves the rest to others.

use crate::adversary::{configured, log_of};
use farline_lab::crowd::{Crowd, CrowdSize};
use farline_lab::files::{folder, names, random, same, text};
use farline_lab::raw::{Blocks, RawClient};
use farline_lab::{farline, json_of, node, peak_memory, succeed};
use std::cell::RefCell;
use std::net::TcpStream;
use std::path::Path;

/// A manifest of files of `len` bytes.
fn manifest(files: usize, len: u64) -> Vec<u8> {
    let line = |index: usize| {
        format!("Type=file;Size={len};Modify=0.000000000;UNIX.mode=0644; f{index}\n").into_bytes()
    };
    (0..files).flat_map(line).collect()
}

/// Sends one of a tree's three lists; returns the reply.
fn send(client: &mut RawClient, data: &mut TcpStream, part: &str, bytes: &[u8]) -> String {
    client.say(&format!("ESTO FARLINE.TREE=\"{part}\" /"));
    for (index, block) in bytes.chunks(1 << 20).enumerate() {
        Blocks::write(data, &Blocks::header(0, (index as u64) << 20, block.len() as u64));
        Blocks::write(data, block);
    }
    Blocks::write(data, &Blocks::eof(1));
    client.final_reply()
}

/// How many descriptors a process has open.
fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count()
}

#[test]
fn lists_of_files_have_a_memory_of_their_own() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let (node, url) = configured(&root, "list_memory = \"16MiB\"\n", &[]);
    // Some 7 MiB each while they come: three times their text.
    let list = manifest(40_000, 1);
    let hold = || {
        let mut client = RawClient::open(&url);
        let mut data = client.passive();
        let reply = send(&mut client, &mut data, "manifest", &list);
        (client, data, reply)
    };
    let held: Vec<_> = (0..2).map(|_| hold()).collect();
    assert!(held.iter().all(|(.., reply)| reply.starts_with("226")), "{:?}", held[1].2);
    let (.., refused) = hold();
    assert!(refused.starts_with('4') && refused.contains("lists of files"), "{refused}");
    // A copy of a few files needs next to nothing, and goes.
    std::fs::write(dir.path().join("x"), "x").expect("written");
    succeed(farline().args(["-q", "cp"]).arg(dir.path().join("x")).arg(format!("{url}/")));
    // Who goes leaves its share.
    drop(held);
    farline_lab::wait_for("room", || hold().2.starts_with("226"));
    // None takes more than half.
    let too_long = || {
        let mut client = RawClient::open(&url);
        let mut data = client.passive();
        send(&mut client, &mut data, "manifest", &manifest(60_000, 1))
    };
    farline_lab::wait_for("a refusal", || too_long().starts_with('5'));
    assert!(too_long().contains("more than 8 MiB"), "{}", too_long());
    let log = log_of(node);
    assert!(log.contains("list_memory"), "{log}");
}

#[test]
fn lists_of_folders_draw_on_that_memory_until_they_are_sent() {
    let dir = folder();
    let root = dir.path().join("root");
    for (folder, files, length) in [("many", 60_000, 8), ("long", 18_000, 250), ("few", 3, 8)] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
        for index in 0..files {
            std::fs::write(root.join(folder).join(format!("{index:0length$}")), "")
                .expect("a file");
        }
    }
    let (node, url) = configured(&root, "list_memory = \"32MiB\"\n", &[]);
    let mut client = RawClient::in_stream_mode(&url);
    let reply = client.ask("MLSC many");
    assert!(reply.starts_with("552") && reply.contains("more than 16 MiB"), "{reply}");
    for list in ["MLSD many", "MLSR /"] {
        let _data = client.passive();
        let reply = client.ask(list);
        assert!(reply.starts_with("552") && reply.contains("more than 16 MiB"), "{list}: {reply}");
    }
    let client = RefCell::new(client);
    let ask = |list: &str| client.borrow_mut().ask(list);
    // Some 7 MB each, of which none who asks reads a byte: kernels take 4 MB of it and more.
    let unread = RefCell::new(Vec::new());
    farline_lab::wait_for("a refusal", || {
        let mut one = RawClient::in_stream_mode(&url);
        one.say("MLSC long");
        unread.borrow_mut().push(one);
        let said = ask("MLSC long");
        said.starts_with("450") && said.contains("memory for lists of files is taken by other")
    });
    assert!(ask("MLSC few").starts_with("250"), "what needs little goes on");
    drop(unread);
    farline_lab::wait_for("room", || ask("MLSC long").starts_with("250"));
    let log = log_of(node);
    assert!(log.contains("list_memory: 127.0.0.1: "), "{log}");
}

/// The quick form of `cargo xtask bench crowd --listing 2`.
#[test]
fn amid_lists_of_many_files_a_copy_begins_and_lands_whole() {
    let dir = folder();
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(&file, random(12, 20_000_001)).expect("written");
    let (node, url) = configured(&root, "list_memory = \"64MiB\"\n", &[]);
    // Each some 130 MB of text, of which a session may hold a sixth.
    let size = CrowdSize { listing: 2, entries: 2_000_000, ..CrowdSize::default() };
    let crowd = Crowd::gather(&url, size);
    for index in 0..3 {
        // One attempt, with no time to wait for a place.
        let to = format!("{}/{index}", url.replacen("ftp", "farline", 1));
        let said = json_of(farline().args(["--json", "cp", text(&file), &to]));
        assert_eq!((&said["attempts"], &said["verified"]), (&1.into(), &true.into()), "{said}");
        assert!(same(&file, &root.join(index.to_string())));
    }
    drop(crowd);
    let peak = peak_memory(node.id()).expect("it runs");
    assert!(peak < 400_000_000, "{peak} bytes with 64 MiB of lists");
    let landed: Vec<_> = names(&root);
    assert_eq!(landed, ["0", "1", "2"], "a list alone leaves nothing");
}

#[test]
fn files_that_are_begun_take_no_descriptors_without_end() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let (node, url) = configured(&root, "", &[]);
    let mut client = RawClient::open(&url);
    assert!(client.ask("OPTS FARLINE adapt=none;").starts_with("200"));
    let mut data = client.passive();
    // Of each file the first of two blocks.
    let (files, block) = (300, vec![0; 1 << 20]);
    let len = 2 * block.len() as u64;
    let reply = send(&mut client, &mut data, "manifest", &manifest(files, len));
    assert!(reply.starts_with("226"), "{reply}");
    client.say("ESTO FARLINE.TREE=\"data\" /");
    for index in 0..files as u64 {
        Blocks::write(&mut data, &Blocks::header(0, index * len, block.len() as u64));
        Blocks::write(&mut data, &block);
    }
    let begun = |folder: &Path| std::fs::read_dir(folder).expect("a folder").count();
    // The last few wait for more to be written with.
    farline_lab::wait_for("the files", || begun(&root) + 20 >= files);
    let open = descriptors(node.id());
    assert!(open < 200, "{open} descriptors for {files} files that are begun");
    // Both its client and its operator hear of it.
    drop(data);
    let replies = client.replies().concat();
    let said = "files of the tree were closed before their end, and opened again for the rest";
    let remark = format!("114 FARLINE changed=tree_files: {said}");
    assert!(replies.contains(&remark), "{replies:?}");
    drop(client);
    let log = log_of(node);
    assert!(log.contains(&format!("tree_files: 127.0.0.1: {said}")), "{log}");
}

#[test]
fn a_large_tree_takes_so_much_of_its_nodes_memory() {
    let dir = folder();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let (node, url) = node(&root, "write", &[]);
    let url = url.replacen("ftp", "farline", 1);
    let (files, source) = (170_000, dir.path().join("source"));
    for index in 0..files {
        let within = source.join(format!("d{:05}", index / 1_000));
        if index % 1_000 == 0 {
            std::fs::create_dir_all(&within).expect("a folder");
        }
        std::fs::write(within.join(format!("f{index:07}")), index.to_string()).expect("a file");
    }
    let copied = format!("{}/", source.display());
    succeed(farline().args(["-q", "cp", "-r", &copied, &format!("{url}/far/")]));
    // 99 MB as measured, of which 40 are the program's and its staging; some 130 before there were
    // limits to what is not written and not durable.
    let peak = peak_memory(node.id()).expect("it runs");
    assert!(peak < 115_000_000, "{peak} bytes for {files} files");
}
