//! Copies that book their own circuits: paced at what is booked, given back when they end, and
//! found again by a copy that was killed.

use farline_core::units::Span;
use farline_lab::circuits::{BookedNetwork, NoNetwork};
use farline_lab::files::random;
use farline_lab::{Running, own_name};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const MEGABYTE: u64 = 1_000_000;
/// The node in the far site, by its address for best effort, which carries next to nothing.
const NODE: &str = "farline://10.88.0.2:2811/";

/// Two sites, 5 ms apart, a node in the far one, and a file of 10 MB.
struct Pair {
    net: BookedNetwork,
    _node: Running,
    file: PathBuf,
    arrived: PathBuf,
}

impl Pair {
    /// Brings it up, or skips.
    fn up(folder: &Path, name: &str) -> Option<Pair> {
        Pair::up_at(folder, name, "5ms", "1G")
    }

    /// With this delay one way, and a node that holds as much for all its clients.
    fn up_at(folder: &Path, name: &str, delay: &str, held: &str) -> Option<Pair> {
        let name = own_name(name).to_lowercase();
        let network = folder.join("network.toml");
        let text = format!(
            "name = \"{name}\"\nsites = [\"near\", \"far\"]\n[hosts]\nnear = [\"10.88.0.1\"]\n\
             far = [\"10.88.0.2\"]\n[[link]]\nbetween = [\"near\", \"far\"]\nrate = \"1G\"\n\
             one_way_delay = \"{delay}\"\n"
        );
        std::fs::write(&network, text).expect("written");
        let mut net = match BookedNetwork::up(&network.to_string_lossy(), folder, "2M") {
            Ok(net) => net,
            Err(NoNetwork::NotHere(why)) => {
                farline_lab::skip(format!("this machine does not let us make a network: {why}"));
                return None;
            }
            Err(NoNetwork::Failed(why)) => panic!("{why}"),
        };
        drop(net.start_agent());
        let arrived = folder.join("arrived");
        std::fs::create_dir(&arrived).expect("made");
        let mut serve = net.farline("far");
        serve.args(["serve", "--listen", "0.0.0.0:2811", "--anonymous", "write"]);
        serve.args(["--allow-held", held, "--root"]);
        let (node, line) = Running::begun(serve.arg(&arrived));
        assert!(line.contains("2811"), "{line}");
        let file = folder.join("file");
        std::fs::write(&file, random(1, 10 * MEGABYTE as usize)).expect("written");
        Some(Pair { net, _node: node, file, arrived })
    }

    fn cp(&self, reserve: &str, more: &[&str]) -> Command {
        let mut command = self.net.farline("near");
        // What is durable is whole blocks: those of one channel come one after the other.
        command.args(["cp", "--streams", "1", "--reserve", reserve]).args(more);
        command.arg(&self.file).arg(NODE);
        // A node may still be busy with what was broken off just now.
        command.env("FARLINE_RETRY_FOR", "5s");
        command
    }

    /// The same as people see it.
    fn for_people(&self, reserve: &str, more: &[&str]) -> Command {
        let mut command = self.net.inside("near");
        command.args(["cp", "--streams", "1", "--reserve", reserve]).args(more);
        command.arg(&self.file).arg(NODE);
        command
    }

    fn reservation(&self, id: &str) -> Value {
        self.net.told(&["reserve", "show", id])
    }

    fn has_arrived(&self) {
        let arrived = std::fs::read(self.arrived.join("file")).expect("arrived");
        assert!(arrived == std::fs::read(&self.file).expect("there"), "other bytes arrived");
        std::fs::remove_file(self.arrived.join("file")).expect("removed");
    }
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn run(command: &mut Command) -> (Value, String) {
    let output = command.output().expect("farline starts");
    (object(&output), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_copy_books_is_paced_and_gives_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(pair) = Pair::up(dir.path(), "booked") else { return };
    let (copied, said) = run(&mut pair.cp("by=+5min,rate=100M", &[]));
    assert!(said.contains("is booked for 9.54 MiB: near to far"), "{said}");
    // Best effort has 2 Mbit/s: 10 MB would take 40 s. The circuit has 100, of which headers take
    // some.
    let seconds = copied["seconds"].as_f64().unwrap_or_else(|| panic!("{copied} {said}"));
    assert!((0.8..10.0).contains(&seconds), "{seconds} s: {copied}");
    assert_eq!(copied["booking"]["rate_bps"], 100_000_000, "{copied}");
    let paced = copied["booking"]["payload_bps"].as_f64().expect("a rate");
    assert!((97e6..100e6).contains(&paced), "{paced} bit/s in packets of 9,000 bytes");
    let over = pair.reservation("r-1");
    assert_eq!((&over["state"], &over["ended"]), (&"terminated".into(), &"cancelled".into()));
    pair.has_arrived();
    // The same from there to here, as a part of a booking that others share.
    std::fs::copy(&pair.file, pair.arrived.join("back")).expect("copied");
    let booked = pair
        .net
        .told(&["reserve", "near", "far", "--rate", "100M", "--start", "now", "--for", "5min"]);
    assert_eq!(booked["id"], "r-2", "{booked}");
    let mut back = pair.net.farline("near");
    back.args(["cp", "--reserve", "id=r-2"]).arg(format!("{NODE}back"));
    let (copied, said) = run(back.arg(dir.path().join("back")));
    let seconds = copied["seconds"].as_f64().unwrap_or_else(|| panic!("{copied} {said}"));
    assert!((0.8..10.0).contains(&seconds), "{seconds} s: {copied}");
    // Two at once, each with its share.
    let mut both: Vec<Command> = (0..2)
        .map(|at| {
            let mut copy = pair.net.farline("near");
            copy.args(["cp", "--reserve", "id=r-2", "--limit", "40M"]).arg(format!("{NODE}back"));
            copy.arg(dir.path().join(format!("share{at}"))).stdout(Stdio::piped());
            copy
        })
        .collect();
    let begun = Instant::now();
    let both: Vec<Running> =
        both.iter_mut().map(|copy| Running(copy.spawn().expect("starts"))).collect();
    for copying in both {
        let (status, out, said) = copying.finish();
        assert!(status.success(), "{out} {said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(pair.reservation("r-2")["state"], "provisioned", "it is not one copy's to end");
    // What cannot be had is refused, with what can.
    let (refused, _) = run(&mut pair.cp("by=+2s,volume=10GB", &[]));
    assert_eq!(refused["error"]["code"], "calendar-refused", "{refused}");
    let kinds = refused["refusal"]["alternatives"].as_array().map(Vec::len);
    assert!(kinds.is_some_and(|kinds| kinds >= 1), "{refused}");
    for (reserve, code) in [
        ("id=r-1", "calendar-request"),
        ("id=r-99", "calendar-request"),
        ("by=+1h,to=nowhere", "calendar-request"),
        ("by=+1h,to=near", "calendar-request"),
        ("by=2020-01-01T00:00Z", "calendar-request"),
    ] {
        let (refused, _) = run(&mut pair.cp(reserve, &[]));
        assert_eq!(refused["error"]["code"], code, "{reserve}: {refused}");
    }
    let (plan, _) = run(pair.net.farline("near").args([
        "plan",
        "10.88.0.2",
        "--size",
        "1GB",
        "--reserve",
        "by=+5min",
    ]));
    assert_eq!((&plan["from"], &plan["to"]), (&"near".into(), &"far".into()), "{plan}");
    let standing = pair.net.told(&["reserve", "ls"]);
    assert_eq!(standing["reservations"].as_array().map(Vec::len), Some(1), "{standing}");
}

#[test]
fn a_killed_copy_finds_its_booking_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(pair) = Pair::up(dir.path(), "killed") else { return };
    let child = pair.cp("by=+10min,rate=10M", &[]).stdout(Stdio::null()).spawn().expect("starts");
    let mut copying = Running(child);
    let until = Instant::now() + Duration::from_secs(20);
    let carried = || {
        let shown = pair.net.shown();
        shown["state"]["circuits"][0]["carried"][0].as_u64().unwrap_or(0)
    };
    while carried() < 2 * MEGABYTE {
        assert!(Instant::now() < until, "nothing goes: {}", pair.net.shown());
        std::thread::sleep(Duration::from_millis(50));
    }
    // `net exec` became the command: this is the copy.
    copying.end(Signal::KILL);
    assert_eq!(pair.reservation("r-1")["state"], "provisioned");
    let (copied, said) = run(&mut pair.cp("by=+10min,rate=10M", &[]));
    assert_eq!(copied["booking"]["id"], "r-1", "{copied} {said}");
    let resumed = copied["resumed_bytes"].as_u64().unwrap_or_else(|| panic!("{copied} {said}"));
    assert!(resumed >= MEGABYTE, "{resumed} bytes were there");
    assert_eq!(pair.reservation("r-1")["ended"], "cancelled");
    pair.has_arrived();
    // One that is asked to end gives back as soon as the other end has heard of it.
    let child = pair.cp("by=+10min,rate=5M", &[]).stdout(Stdio::null()).spawn().expect("starts");
    let mut copying = Running(child);
    while carried() == 0 {
        assert!(Instant::now() < until, "nothing goes: {}", pair.net.shown());
        std::thread::sleep(Duration::from_millis(50));
    }
    let booked = pair.reservation("r-2")["legs"][0]["end"].as_str().map(str::to_owned);
    assert_eq!(copying.end(Signal::INT).code(), Some(130));
    let now = farline::calendar::now();
    let left = pair.reservation("r-2")["legs"][0]["end"].as_str().map(str::to_owned);
    let end = left.as_deref().and_then(farline::calendar::time_of).expect("a time");
    assert!(end < now + Span::from_secs(2) && left != booked, "{left:?}, {booked:?} before");
}

#[test]
fn a_slow_copy_is_extended_or_told_and_ended() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(pair) = Pair::up(dir.path(), "slow") else { return };
    // Booked for 100 Mbit/s, 2 s with what it takes to begin; and limited to 16: 5 s.
    let slow = ["--limit", "16M"];
    let output = pair.for_people("by=+10min,rate=100M", &slow).output().expect("farline starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("slower than booked: r-1 ends at"), "{said}");
    pair.has_arrived();
    // With a deadline there is nothing to extend: it is told, and ended with what came kept.
    let output = pair.for_people("by=+5s,rate=40M", &slow).output().expect("farline starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("it will be late: done about"), "{said}");
    assert!(output.status.code() == Some(6) && said.contains("the slot of r-2 is over"), "{said}");
    let (copied, said) = run(&mut pair.cp("by=+1min,rate=100M", &[]));
    let resumed = copied["resumed_bytes"].as_u64().unwrap_or_else(|| panic!("{copied} {said}"));
    assert!(resumed >= MEGABYTE, "{resumed} bytes were there");
    pair.has_arrived();
}

#[test]
fn a_held_rate_is_free_again_when_its_copy_is_over() {
    let dir = tempfile::tempdir().expect("a folder");
    // All that the node holds is one copy's; and what is on its way when a circuit is shut is lost.
    let Some(pair) = Pair::up_at(dir.path(), "again", "100ms", "50M") else { return };
    std::fs::copy(&pair.file, pair.arrived.join("back")).expect("copied");
    // Over TCP only root can load a congestion control.
    let tcp = rustix::process::geteuid().is_root().then_some("tcp");
    for (channel, is_back) in
        tcp.into_iter().chain(["udt"]).flat_map(|channel| [(channel, false), (channel, true)])
    {
        let held = ["--congestion", "held", "--channel", channel, "--retry-for", "0"];
        let mut copy = pair.net.farline("near");
        copy.args(["cp", "--reserve", "by=+5min,rate=50M"]).args(held);
        match is_back {
            false => copy.arg(&pair.file).arg(NODE),
            true => copy.arg(format!("{NODE}back")).arg(dir.path().join("back")),
        };
        let (copied, said) = run(&mut copy);
        assert_eq!(copied["bytes"], 10 * MEGABYTE, "{channel}, back {is_back}: {copied} {said}");
    }
}

#[test]
fn a_changed_rate_reaches_a_running_copy() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(pair) = Pair::up(dir.path(), "rate") else { return };
    let held = ["--congestion", "held"];
    std::fs::copy(&pair.file, pair.arrived.join("back")).expect("copied");
    for (id, more, is_held, is_back) in [
        ("r-1", &[][..], false, false),
        ("r-2", &[][..], false, true),
        ("r-3", &held[..], true, false),
    ] {
        // 10 MB at 8 Mbit/s take 10 s, and at 100 one.
        let mut copy = match is_back {
            false => pair.for_people("by=+10min,rate=8M", more),
            true => {
                let mut copy = pair.net.inside("near");
                copy.args(["cp", "--streams", "1", "--reserve", "by=+10min,rate=8M"]);
                copy.arg(format!("{NODE}back")).arg(pair.arrived.join("file"));
                copy
            }
        };
        let child = copy.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut copying = Running(child);
        let carried = || {
            let circuits = pair.net.shown()["state"]["circuits"].clone();
            let mut all = circuits.as_array().cloned().unwrap_or_default().into_iter();
            let open = all.find(|circuit| circuit["open"] == true).unwrap_or_default();
            // From where the copy begins, as its reservation does.
            open["carried"][0].as_u64().unwrap_or(0)
        };
        let until = Instant::now() + Duration::from_secs(20);
        while carried() < MEGABYTE {
            if let Some(status) = copying.0.try_wait().expect("ours") {
                let (_, _, said) = copying.finish();
                if is_held && !rustix::process::geteuid().is_root() {
                    return;
                }
                panic!("{status}: {said}");
            }
            assert!(Instant::now() < until, "nothing goes: {}", pair.net.shown());
            std::thread::sleep(Duration::from_millis(50));
        }
        let changed = Instant::now();
        pair.net.told(&["reserve", "change", id, "--rate", "100M"]);
        let (status, _, said) = copying.finish();
        let took = changed.elapsed();
        assert!(status.success(), "{said}");
        let told = format!("{id} is booked at 100 Mbit/s now, and so goes the copy");
        assert!(said.contains(&told), "{said}");
        assert!(took < Duration::from_secs(6), "{took:?} after the change: {said}");
        pair.has_arrived();
    }
}
