//! `farline cp` between two servers: the data goes straight from one to the other, and an error
//! says which end it is of.

use farline_lab::files::{folder, names, plant_file, random, same, text};
use farline_lab::relay::relay_that_turns_away;
use farline_lab::{
    LinkUp, Running, announced, assert_same_tree, error_of, farline, globus_server, json_of, node,
    plant, succeed,
};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A node of an address of its own, so that it is another host to the other and to the client.
fn node_at(root: &Path, address: &str, third_party: bool) -> (Running, String) {
    std::fs::create_dir_all(root).expect("a folder");
    let listen = format!("{address}:0");
    let more = ["--listen", &listen, "--third-party", "--third-party-net", "127.0.0.0/8"];
    node(root, "write", &more[..if third_party { 5 } else { 2 }])
}

fn copied(args: &[&str]) -> Value {
    json_of(farline().args(["--json", "cp", "-r"]).args(args))
}

#[test]
fn a_tree_goes_from_node_to_node_and_is_verified() {
    let dir = tempfile::tempdir().expect("a folder");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    plant(&a.join("src"));
    let (_a, from) = node_at(&a, "127.0.0.2", true);
    let (_b, to) = node_at(&b, "127.0.0.3", true);
    for streams in ["1", "3"] {
        let result =
            copied(&["--streams", streams, &format!("{from}/src"), &format!("{to}/up{streams}")]);
        assert_eq!(
            (result["verified"].as_bool(), result["files"].as_u64()),
            (Some(true), Some(207)),
            "{result}"
        );
        assert_eq!(result["encrypted"], false, "{result}");
        assert_same_tree(&a.join("src"), &b.join(format!("up{streams}/src")));
    }
    copied(&[&format!("{from}/src/"), &format!("{to}/content")]);
    assert_same_tree(&a.join("src"), &b.join("content"));
    let from = from.replacen("ftp", "farline", 1);
    copied(&[&format!("{from}/src/one/small7"), &format!("{to}/renamed")]);
    assert_eq!(
        std::fs::read(b.join("renamed")).expect("landed"),
        std::fs::read(a.join("src/one/small7")).expect("there")
    );
}

#[test]
fn a_channel_between_two_nodes_is_refused_or_said_not_to_be() {
    let dir = tempfile::tempdir().expect("a folder");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::create_dir_all(&a).expect("a folder");
    plant_file(&a.join("f"), 1, 7);
    let (_a, from) = node_at(&a, "127.0.0.2", true);
    let (_b, to) = node_at(&b, "127.0.0.3", true);
    let (from, to) = (format!("{from}/f"), format!("{to}/f"));
    for stack in ["tls", "tls+tcp", "tls+udt", "quic"] {
        let (error, code) = error_of(&["cp", "--channel", stack, &from, &to]);
        assert_eq!((error["code"].as_str(), code), (Some("cannot-encrypt"), 6), "{stack}: {error}");
        assert!(!b.join("f").exists(), "{stack}: something moved");
    }
    for stack in ["udt", "udt:bbr"] {
        let result = copied(&["--channel", stack, &from, &to]);
        let notes = result["notes"].to_string();
        assert!(notes.contains("without UDT"), "{stack}: {result}");
        assert!(!result["reasons"].to_string().contains("UDT channels"), "{stack}: {result}");
    }
    let result = copied(&["--channel", "tcp", &from, &to]);
    assert!(!result["notes"].to_string().contains("without"), "{result}");
}

#[test]
fn a_node_that_does_not_permit_it_is_named_and_nothing_is_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    plant(&a.join("src"));
    let (_open, open) = node_at(&a, "127.0.0.2", true);
    let (_shut, shut) = node_at(&b, "127.0.0.3", false);
    let (error, exit) = error_of(&["cp", "-r", &format!("{open}/src"), &format!("{shut}/x")]);
    assert_eq!((error["code"].as_str(), exit), (Some("third-party-refused"), 6), "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(&shut)), "{error}");
    let (_other, sender) = node_at(&a, "127.0.0.4", false);
    let (_taker, taker) = node_at(&b, "127.0.0.5", true);
    let (error, exit) = error_of(&["cp", "-r", &format!("{sender}/src"), &format!("{taker}/x")]);
    assert_eq!((error["code"].as_str(), exit), (Some("permission-denied"), 6), "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(&sender)), "{error}");
    let (error, exit) = error_of(&["cp", &format!("{open}/nothing"), &format!("{taker}/x")]);
    assert_eq!((error["code"].as_str(), exit), (Some("path-not-found"), 2), "{error}");
    assert_eq!(names(&b), Vec::<String>::new());
}

#[test]
fn files_and_trees_go_between_a_node_and_a_globus_server() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, there) = (dir.path().join("root"), dir.path().join("there"));
    std::fs::create_dir_all(&there).expect("a folder");
    plant(&root.join("src"));
    // A stock server is sent no links.
    std::fs::remove_file(root.join("src/link")).expect("removed");
    // Each file costs several round trips through two servers: enough of them, not all.
    for i in 10..200 {
        std::fs::remove_file(root.join(format!("src/one/small{i}"))).expect("removed");
    }
    let (_node, node) = node_at(&root, "127.0.0.2", true);
    let (_globus, globus) = globus_server();
    let globus = format!("{globus}{}", there.display());
    for streams in ["1", "4"] {
        let result = copied(&[
            "--streams",
            streams,
            &format!("{node}/src"),
            &format!("{globus}/up{streams}"),
        ]);
        assert_eq!(
            (result["verified"].as_bool(), result["files"].as_u64()),
            (Some(true), Some(17)),
            "{result}"
        );
        succeed(
            std::process::Command::new("diff")
                .arg("-r")
                .arg(root.join("src"))
                .arg(there.join(format!("up{streams}/src"))),
        );
        copied(&[
            "--streams",
            streams,
            &format!("{globus}/up{streams}/src"),
            &format!("{node}/back{streams}"),
        ]);
        succeed(
            std::process::Command::new("diff")
                .arg("-r")
                .arg(root.join("src"))
                .arg(root.join(format!("back{streams}/src"))),
        );
    }
    assert_eq!(
        succeed(std::process::Command::new("find").arg(dir.path()).args(["-name", ".*.farline"])),
        ""
    );
    let again = [format!("{globus}/up4/src"), format!("{node}/back4/src")];
    let again = json_of(farline().args(["--json", "sync"]).args(again));
    assert_eq!(again["files"], 0, "{again}");
    // What is asked for outright is done: a node computes checksums for others (O-7).
    let (from, to) = (format!("{node}/src"), format!("{globus}/wish"));
    let wish = ["--json", "cp", "-r", "--verify", "digest", &from, &to];
    assert!(succeed(farline_lab::farline().args(wish)).contains("\"verified\":true"));
    let (error, exit) = error_of(&["cp", &format!("{globus}/no-such-file"), &format!("{node}/x")]);
    assert_eq!((error["code"].as_str(), exit), (Some("path-not-found"), 2), "{error}");
}

#[test]
fn copies_between_globus_servers_are_compared_by_checksum() {
    let dir = tempfile::tempdir().expect("a folder");
    let (src, there) = (dir.path().join("src"), dir.path().join("there"));
    for folder in [&src, &there] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    for i in 0..3 {
        std::fs::write(src.join(i.to_string()), random(i, 300_000)).expect("written");
    }
    let ((_a, from), (_b, to)) = (globus_server(), globus_server());
    let (from, to) = (format!("{from}{}", src.display()), format!("{to}{}", there.display()));
    for more in [&["--verify", "digest"][..], &[]] {
        let result = copied(&[more, &[&from, &to]].concat());
        let how = result["verified_how"].as_str().unwrap_or_default();
        assert!(result["verified"] == true && how.contains("SHA256"), "{result}");
        for i in 0..3 {
            let name = i.to_string();
            assert!(same(&src.join(&name), &there.join("src").join(&name)), "{name}");
        }
    }
    let result = copied(&["--verify", "none", &from, &to]);
    assert_eq!(result["verified"], false, "{result}");
    // Files have their source's times there, by which a second sync knows them.
    for count in [3, 0] {
        let second = json_of(farline().args(["--json", "sync", &from, &to]));
        assert_eq!(second["files"], count, "{second}");
    }
}

#[test]
fn between_two_others_in_the_clear_files_are_compared_by_blake3() {
    let dir = folder();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let (_a, from) = node_at(&a, "127.0.0.2", true);
    let (_b, to) = node_at(&b, "127.0.0.3", true);
    std::fs::write(a.join("file"), random(3, 3 << 20)).expect("written");
    for (chosen, how) in [
        (&[][..], "BLAKE3 of every file"),
        (&["--verify", "digest"], "CRC-64/NVME of every file"),
        (&["--verify", "checksum"], "not verified end to end"),
    ] {
        let (from, to) = (format!("{from}/file"), format!("{to}/landed"));
        let result = copied(&[chosen, &[&from, &to]].concat());
        let said = result["verified_how"].as_str().expect("words");
        assert!(said.starts_with(how), "{chosen:?}: {said}");
        assert!(same(&a.join("file"), &b.join("landed")));
    }
    // With one end of this host's own its own word stands for that end.
    let here = a.join("file");
    let result = copied(&[text(&here), &format!("{to}/landed")]);
    assert!(result["verified_how"].as_str().is_some_and(|how| how.starts_with("CRC-64/NVME")));
}

/// A node at each side of `link`, which take data from each other: one that sends from `a`, port
/// 2812, and one that stores in `b`, port 2811.
fn nodes_of(link: &LinkUp, a: &Path, b: &Path) -> (Running, Running) {
    let networks = ["--third-party-net", "10.0.0.0/8", "--third-party-net", "fd00::/8"];
    let receiver = link.node(b, &["--third-party"]);
    let mut sender = link.farline("a", &["--json", "serve", "--anonymous", "read"]);
    sender.args(networks).args(["--listen", "[::]:2812", "--third-party", "--root"]).arg(a);
    (announced(&mut sender).0, receiver)
}

#[test]
fn an_outage_between_two_nodes_is_outlasted_and_named() {
    // The third timer runs out within it, the fourth after it: 6 s and more in which nothing comes,
    // where the data takes 3 s.
    let path = ["custom", "--rtt", "10ms", "--rate", "200M", "--at", "3s:outage=3500ms"];
    let Some(link) = LinkUp::up("third-away", &path) else { return };
    let dir = folder();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for root in [&a, &b] {
        std::fs::create_dir(root).expect("a folder");
    }
    plant_file(&a.join("file"), 80, 7);
    let _nodes = nodes_of(&link, &a, &b);
    let from = format!("ftp://{}-a:2812/file", link.name());
    let to = format!("ftp://{}-b:2811/landed", link.name());
    let result = json_of(&mut link.farline("a", &["--json", "cp", "--streams", "2", &from, &to]));
    let whole = result["seconds"].as_f64().expect("a time");
    assert!(whole > 6.0, "there was no outage: {result}");
    // Shorter than the silence that is allowed: nothing was begun again.
    assert_eq!((&result["attempts"], &result["passes"]), (&1.into(), &1.into()), "{result}");
    let said = [&result["limited_by"], &result["limited_party"]];
    assert_eq!(said, ["outage", "path"], "{}", result["limited_evidence"]);
    assert!(result["verified"] == true && same(&a.join("file"), &b.join("landed")));
}

#[test]
fn a_slow_disk_of_one_of_two_nodes_is_called_that_nodes() {
    let dir = folder();
    let slow_at = |name: &str, address: &str| {
        let root = dir.path().join(name);
        std::fs::create_dir(&root).expect("a folder");
        plant_file(&root.join("file"), 20, 7);
        let listen = format!("{address}:0");
        let networks = ["--third-party", "--third-party-net", "127.0.0.0/8"];
        let more = [&["--listen", &listen, "--trial-read", "100M"][..], &networks].concat();
        node(&root, "write", &more)
    };
    let (_a, first) = slow_at("a", "127.0.0.2");
    let (_b, second) = slow_at("b", "127.0.0.3");
    for (from, to) in [(&first, &second), (&second, &first)] {
        let result = copied(&[&format!("{from}/file"), &format!("{to}/landed")]);
        let said = [&result["limited_by"], &result["limited_party"]];
        assert_eq!(said, ["disk_read", "there"], "{result}");
        let evidence = result["limited_evidence"].as_str().expect("words");
        let named = format!("at the sending node {}: ", from.replacen("ftp://", "", 1));
        assert!(evidence.starts_with(&named), "{from} to {to}: {evidence}");
    }
}

#[test]
fn the_one_of_two_nodes_that_had_no_place_is_named() {
    let dir = folder();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let (_a, from) = node_at(&a, "127.0.0.1", true);
    let (_b, to) = node_at(&b, "127.0.0.1", true);
    plant_file(&a.join("file"), 1, 7);
    let full = |url: &str| {
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let (port, _) = relay_that_turns_away(port, "450 No place here now.\r\n", 2);
        format!("ftp://127.0.0.1:{port}")
    };
    let (full_from, full_to) = (full(&from), full(&to));
    for (from, to, full) in [(&full_from, &to, &full_from), (&from, &full_to, &full_to)] {
        let (from, to) = (format!("{from}/file"), format!("{to}/landed"));
        let result = copied(&["--retry-for", "60s", &from, &to]);
        let said = [&result["limited_by"], &result["limited_party"]];
        assert_eq!(said, ["outage", "there"], "{result}");
        let evidence = result["limited_evidence"].as_str().expect("words");
        assert!(evidence.contains(&format!("after: at {full}/")), "{from} to {to}: {evidence}");
    }
}

#[test]
fn blocks_that_change_between_two_nodes_are_sent_again() {
    // As for copies with a node: several of them in every copy below.
    let Some(link) =
        LinkUp::up("third-flips", &["custom", "--rtt", "2ms", "--rate", "1G", "--flips", "2e-4"])
    else {
        return;
    };
    let dir = folder();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for root in [&a, &b] {
        std::fs::create_dir(root).expect("a folder");
    }
    plant_file(&a.join("file"), 60, 7);
    let (_sender, _receiver) = nodes_of(&link, &a, &b);
    let from = format!("ftp://{}-a:2812/file", link.name());
    let to = format!("ftp://{}-b:2811", link.name());
    let (mut bad, mut passes) = (0, 0);
    for round in 0..4 {
        let to = format!("{to}/file{round}");
        let result =
            json_of(&mut link.farline("a", &["--json", "cp", "--streams", "3", &from, &to]));
        assert!(result["verified"] == true && result["attempts"] == 1, "{result}");
        let count = |name: &str| result[name].as_u64().expect("a count");
        bad += count("bad_blocks") + count("bad_headers");
        passes = passes.max(count("passes"));
        assert!(same(&a.join("file"), &b.join(format!("file{round}"))), "round {round}");
    }
    assert!(bad > 0 && passes > 1, "{bad} bad blocks in {passes} passes: the path changed nothing");
}

#[test]
fn a_killed_copy_between_nodes_resumes_at_the_receiver() {
    let dir = folder();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let (_a, from) = node_at(&a, "127.0.0.2", true);
    let (_b, to) = node_at(&b, "127.0.0.3", true);
    std::fs::write(a.join("big"), random(11, 1 << 20).repeat(100)).expect("written");
    let (from, to) = (format!("{from}/big"), format!("{to}/landed"));
    let mut client = Running(
        farline()
            .args(["-q", "cp", "--limit", "80Mbit/s", &from, &to])
            .stderr(Stdio::null())
            .spawn()
            .expect("farline runs"),
    );
    let journaled = || {
        std::fs::read_dir(&b).expect("a folder").any(|item| {
            let item = item.expect("an entry");
            item.file_name().to_string_lossy().ends_with(".journal.farline")
                && item.metadata().is_ok_and(|meta| meta.len() > 0)
        })
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !journaled() {
        assert!(
            Instant::now() < deadline && !b.join("landed").exists(),
            "nothing was durable in time"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    client.end(Signal::KILL);
    let result = copied(&[&from, &to]);
    let (resumed, sent) = (
        result["resumed_bytes"].as_u64().expect("a count"),
        result["bytes_sent"].as_u64().expect("a count"),
    );
    assert!(resumed > 0 && sent == (100 << 20) - resumed && result["verified"] == true, "{result}");
    assert!(same(&a.join("big"), &b.join("landed")));
    assert_eq!(names(&b), ["landed"]);
}

#[test]
fn a_whole_tree_at_once_is_had_between_farline_nodes_alone() {
    let dir = folder();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    plant(&a.join("src"));
    let (_a, from) = node_at(&a, "127.0.0.2", true);
    let (_b, to) = node_at(&b, "127.0.0.3", true);
    copied(&["--atomic", &format!("{from}/src"), &format!("{to}/at-once")]);
    assert_same_tree(&a.join("src"), &b.join("at-once/src"));
    let (_globus, stock) = globus_server();
    let tree = dir.path().join("tree");
    for (from, to) in [
        (format!("{stock}{}", a.join("src").display()), format!("{to}/{}", "from-stock")),
        (format!("{from}/src"), format!("{stock}{}", tree.display())),
    ] {
        let (error, code) = error_of(&["cp", "-r", "--atomic", &from, &to]);
        assert_eq!((error["code"].as_str(), code), (Some("unsupported"), 4), "{from}: {error}");
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("files land one by one"), "{from}: {error}");
    }
    assert!(!tree.exists() && !b.join("from-stock").exists(), "nothing was made");
}
