//! gfal2's commands, which sites of the grid move files with, against a node.

use farline_lab::files::random;
use farline_lab::{node, succeed};
use std::fs;
use std::process::Command;

/// A command of gfal2's, which Debian's packages run by Python 3.
fn gfal(command: &str) -> Command {
    let mut gfal = farline_lab::command("timeout");
    gfal.env("GFAL_PYTHONBIN", "/usr/bin/python3").args(["60", &format!("gfal-{command}")]);
    gfal
}

#[test]
fn gfal_gets_puts_lists_sums_and_removes() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    fs::write(at("big"), random(4, 3_000_001)).expect("written");
    let (_node, url) = node(&at("root"), "write", &[]);
    let here = |name: &str| format!("file://{}", at(name).display());
    succeed(gfal("copy").args(["-f", &here("big"), &format!("{url}/up")]));
    succeed(Command::new("cmp").arg(at("big")).arg(at("root/up")));
    // With a checksum of both ends, and over four channels.
    let four = ["-f", "-n", "4", "-K", "ADLER32", &here("big"), &format!("{url}/four")];
    succeed(gfal("copy").args(four));
    succeed(Command::new("cmp").arg(at("big")).arg(at("root/four")));
    succeed(gfal("copy").args(["-f", &format!("{url}/up"), &here("back")]));
    succeed(Command::new("cmp").arg(at("big")).arg(at("back")));
    let listed = succeed(gfal("ls").args(["-l", &format!("{url}/")]));
    assert!(listed.contains("3000001") && listed.contains("up"), "{listed}");
    // By MLST.
    let known = succeed(gfal("stat").arg(format!("{url}/up")));
    assert!(known.contains("Size: 3000001\tregular file"), "{known}");
    let said = succeed(gfal("sum").args([&format!("{url}/up"), "MD5"]));
    let own = succeed(Command::new("md5sum").arg(at("big")));
    assert!(said.contains(own.split(' ').next().expect("a digest")), "{said}");
    succeed(gfal("mkdir").arg(format!("{url}/deep")));
    succeed(gfal("rename").args([&format!("{url}/up"), &format!("{url}/deep/renamed")]));
    assert!(at("root/deep/renamed").is_file());
    succeed(gfal("copy").args(["-r", &format!("{url}/deep/"), &here("tree")]));
    succeed(Command::new("cmp").arg(at("big")).arg(at("tree/renamed")));
    succeed(gfal("copy").args(["-r", &here("tree"), &format!("{url}/again")]));
    succeed(Command::new("cmp").arg(at("big")).arg(at("root/again/renamed")));
    succeed(gfal("rm").arg(format!("{url}/deep/renamed")));
    assert!(!at("root/deep/renamed").exists());
    // What broke off it copies anew: nothing of it says otherwise.
    let offered = succeed(gfal("copy").arg("--help"));
    assert!(offered.contains("--checksum") && !offered.contains("resume"), "{offered}");
}
