//! What `globus-url-copy` does at a node besides plain copies: over ssh, by what differs, begun
//! again, striped, over many channels.

use crate::sshftp::Host;
use farline_lab::files::{file_url as file, names, random};
use farline_lab::{Running, free_port, globus_server, globus_url_copy, node, succeed, wait_for};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

fn same(a: &Path, b: &Path) {
    succeed(Command::new("cmp").arg(a).arg(b));
}

#[test]
fn files_and_trees_go_both_ways_by_sshftp() {
    let host = Host::of_farline();
    let (at, there) = (|name: &str| host.at(name), |name: &str| host.url(name));
    let guc = || host.guc();
    fs::write(at("big"), random(21, 5_000_001)).expect("written");
    for channels in ["1", "4"] {
        let (up, back) = (format!("up{channels}"), format!("back{channels}"));
        succeed(guc().args(["-p", channels, &file(&at("big")), &there(&up)]));
        same(&at("big"), &at(&up));
        succeed(guc().args(["-p", channels, &there(&up), &file(&at(&back))]));
        same(&at("big"), &at(&back));
    }
    fs::create_dir_all(at("tree/deep")).expect("a folder");
    for (index, name) in ["a", "b", "deep/c"].iter().enumerate() {
        fs::write(at("tree").join(name), random(index as u64, index * 70_000)).expect("written");
    }
    let tree = ["-r", "-cd", "-fast", "-p", "2"];
    succeed(guc().args(tree).args([file(&at("tree/")), there("tree-up/")]));
    succeed(Command::new("diff").arg("-r").arg(at("tree")).arg(at("tree-up")));
    succeed(guc().args(tree).args([there("tree/"), file(&at("tree-down/"))]));
    succeed(Command::new("diff").arg("-r").arg(at("tree")).arg(at("tree-down")));
    let missing = guc().args([there("missing"), file(&at("none"))]).output().expect("runs");
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!missing.status.success() && said.contains("No such file"), "{said}");
}

#[test]
fn each_level_of_sync_sends_what_differs_by_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, here) = (dir.path().join("root"), dir.path().join("here"));
    fs::create_dir_all(&root).expect("a folder");
    let (_node, url) = node(&root, "write", &[]);
    sync_levels(&globus_url_copy, &here, &root, &url);
}

/// Has `guc` bring folders up to date both ways by each level, between `here` and a node at `url`
/// that exports `root`.
pub(crate) fn sync_levels(guc: &dyn Fn() -> Command, here: &Path, root: &Path, url: &str) {
    // What is now there as it is here.
    let same_in = |folder: &Path, as_in: &Path| -> Vec<String> {
        let is_same =
            |name: &String| fs::read(folder.join(name)).ok() == fs::read(as_in.join(name)).ok();
        names(folder).into_iter().filter(is_same).collect()
    };
    let levels: [&[&str]; 4] = [
        &["gone"],
        &["gone", "longer"],
        &["gone", "longer", "newer"],
        &["gone", "longer", "newer", "other"],
    ];
    for (level, sent) in levels.into_iter().enumerate() {
        for is_up in [true, false] {
            let (ours, theirs) = (here.join("t"), root.join("t"));
            let (from, to) = if is_up { (&ours, &theirs) } else { (&theirs, &ours) };
            // What is there is older than what was there before it, and of other bytes.
            for (folder, fill, age) in [(to, 1, 1_000), (from, 2, 5_000)] {
                let _ = fs::remove_dir_all(folder);
                fs::create_dir_all(folder).expect("a folder");
                for name in ["gone", "longer", "newer", "other"] {
                    let is_newer = folder == from && name == "newer";
                    let len = if folder == from && name == "longer" { 70_001 } else { 70_000 };
                    fs::write(folder.join(name), vec![fill; len]).expect("written");
                    let age = Duration::from_secs(if is_newer { 0 } else { age });
                    let file = fs::File::options().append(true).open(folder.join(name));
                    let file = file.expect("there");
                    file.set_modified(SystemTime::now() - age).expect("set");
                }
            }
            fs::remove_file(to.join("gone")).expect("removed");
            let (source, target) = match is_up {
                true => (file(&from.join("")), format!("{url}/t/")),
                false => (format!("{url}/t/"), file(&to.join(""))),
            };
            let level = level.to_string();
            succeed(guc().args(["-r", "-cd", "-sync", "-sync-level", &level, &source, &target]));
            let found = same_in(to, from);
            assert_eq!(found, sent, "level {level}, up: {is_up}");
        }
    }
}

/// A node on a port of its own, which another may take over.
fn node_at(root: &Path, port: u16) -> Running {
    let listen = format!("127.0.0.1:{port}");
    node(root, "write", &["--listen", &listen, "--third-party", "--third-party-net", "127.0.0.0/8"])
        .0
}

/// Whether something of this length at least lies in `folder`.
pub(crate) fn came(folder: &Path, len: u64) -> bool {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let lengths = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    lengths.max() >= Some(len)
}

#[test]
fn rst_goes_on_after_a_node_was_killed_in_the_middle() {
    const LEN: usize = 150 << 20;
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let (_server, globus) = globus_server();
    let theirs = |name: &str| format!("{globus}{}", at(name).display());
    for folder in ["root", "there"] {
        fs::create_dir_all(at(folder)).expect("a folder");
    }
    fs::write(at("big"), random(5, LEN)).expect("written");
    fs::hard_link(at("big"), at("root/big")).expect("linked");
    // To the node, from it, and up from a file of the client's host.
    let port = free_port();
    let ours = |name: &str| format!("ftp://127.0.0.1:{port}/{name}");
    let cases = [
        (theirs("big"), ours("in/new"), "root/in", true),
        (ours("big"), theirs("there/new"), "there", true),
        (file(&at("big")), ours("up/new"), "root/up", false),
    ];
    for (source, target, folder, goes_on) in cases {
        fs::create_dir_all(at(folder)).expect("a folder");
        let mut node = node_at(&at("root"), port);
        let mut guc = globus_url_copy();
        guc.args(["-rst", "-rst-interval", "1", "-p", "2", &source, &target]);
        let mut copy = Running(guc.stderr(std::process::Stdio::piped()).spawn().expect("runs"));
        wait_for("the first of it", || came(&at(folder), 4 << 20));
        assert!(!at(folder).join("new").exists() || folder == "there", "it was there at once");
        node.end(Signal::KILL);
        drop(node);
        let _node = node_at(&at("root"), port);
        let ended = copy.0.wait().expect("it ends");
        assert_eq!(ended.success(), goes_on, "{source} to {target}");
        if !goes_on {
            // As with a server of Globus' own that is killed: whoever says it again has it whole.
            succeed(globus_url_copy().args(["-p", "2", &source, &target]));
        }
        same(&at("big"), &at(folder).join("new"));
        assert!(farline_lab::files::hidden(&at(folder)).is_empty(), "something was left");
    }
}

#[test]
fn striped_copies_use_the_one_host_that_there_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("root")).expect("a folder");
    let listen = ["--third-party", "--third-party-net", "127.0.0.0/8"];
    let (_node, url) = node(&at("root"), "write", &listen);
    let (_server, globus) = globus_server();
    fs::write(at("big"), random(6, 12_000_001)).expect("written");
    for (index, options) in [
        &["-stripe", "-p", "1"][..],
        &["-stripe", "-p", "4"],
        &["-stripe", "-sbs", "1048576", "-p", "2"],
    ]
    .into_iter()
    .enumerate()
    {
        let there = format!("{url}/up{index}");
        let theirs = |name: &str| format!("{globus}{}{index}", at(name).display());
        succeed(globus_url_copy().args(options).args([&file(&at("big")), &there]));
        succeed(
            globus_url_copy().args(options).args([&there, &file(&at(&format!("back{index}")))]),
        );
        succeed(globus_url_copy().args(options).args([&there, &theirs("stock")]));
        succeed(
            globus_url_copy().args(options).args([&theirs("stock"), &format!("{url}/in{index}")]),
        );
        for name in [format!("back{index}"), format!("stock{index}"), format!("root/in{index}")] {
            same(&at("big"), &at(&name));
        }
    }
    // Blocks of no length the client refuses itself, with every server.
    for target in [format!("{url}/none"), format!("{globus}{}", at("none").display())] {
        let mut up = globus_url_copy();
        up.args(["-stripe", "-sbs", "0", &file(&at("big")), &target]);
        let output = up.output().expect("it runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let is_refused = said.contains("partition block size must be greater than 0");
        assert!(!output.status.success() && is_refused, "{target}: {said}");
    }
}

#[test]
fn one_to_eight_channels_carry_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("root")).expect("a folder");
    let (_node, url) = node(&at("root"), "write", &[]);
    fs::write(at("big"), random(7, 12_000_001)).expect("written");
    for channels in 1..=8 {
        let channels = &channels.to_string();
        for (fast, name) in [(&[][..], "whole"), (&["-fast"][..], "fast")] {
            let name = format!("{name}{channels}");
            let there = format!("{url}/{name}");
            let options = [&["-p", channels][..], fast].concat();
            succeed(globus_url_copy().args(&options).args([&file(&at("big")), &there]));
            same(&at("big"), &at("root").join(&name));
            succeed(globus_url_copy().args(&options).args([&there, &file(&at(&name))]));
            same(&at("big"), &at(&name));
        }
    }
}
