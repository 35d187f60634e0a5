//! Copies of trees killed at random instants: nothing is lost or wrong, and what comes again stays
//! within the durable window (`docs/protocol.md`, R-4). `make soak` kills more often.

use farline_core::units::{Bytes, Rng};
use farline_lab::files::{folder, hidden, plant_file, random, same, text};
use farline_lab::{Running, assert_same_tree, farline, json_of, node};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Kills in a usual run.
const KILLS: u64 = 100;
/// What a receiver may have written and not journaled: the window, and a block for each slot that
/// its writers hold.
const WINDOW: u64 = 66 << 20;

/// One of so many copies is of a tree that is larger than the window, and has a file that is; three
/// does not divide it, so that each way has some.
const LARGE_OF: usize = 7;
/// MiB of that file, and of a second one.
const LARGE: [u64; 2] = [200, 70];

/// Some sixty files from nothing to 6 MiB, in folders: about 60 MiB.
fn plant_tree(top: &Path, rng: &mut Rng) {
    for index in 0..60 {
        let len = match index % 4 {
            0 => 0,
            1 => rng.below(5_000),
            2 => rng.below(1 << 20),
            _ => rng.below(6 << 20),
        };
        let file = top.join(format!("d{}/f{index}", index % 7));
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, random(index, len as usize)).expect("written");
    }
}

/// Bytes of data below `top`; files that have their final names are held against those of `source`.
fn on_disk(top: &Path, source: &Path, landed: &mut u64) -> u64 {
    let Ok(entries) = fs::read_dir(top) else { return 0 };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() {
            bytes += on_disk(&entry.path(), &source.join(&name), landed);
        } else if !name.ends_with(".journal.farline") {
            bytes += meta.len().min(meta.blocks() * 512);
            if !name.starts_with('.') {
                *landed += 1;
                assert!(same(&entry.path(), &source.join(&name)), "{name} is not what was sent");
            }
        }
    }
    bytes
}

/// The same, with files that are larger than what a receiver may lose.
fn plant_large_tree(top: &Path, rng: &mut Rng) {
    plant_tree(top, rng);
    for (index, mib) in (0..).zip(LARGE) {
        plant_file(&top.join(format!("d0/large{index}")), mib, index);
    }
}

/// What kills of copies of one tree cost.
#[derive(Default)]
struct Cost {
    /// Bytes that came again, by kill.
    again: Vec<u64>,
    /// The most that had arrived at a kill.
    most: u64,
    landed: u64,
    resumed: u64,
}

impl Cost {
    fn print(&mut self, tree: &str) {
        let Cost { again, most, landed, resumed } = self;
        again.sort_unstable();
        let of = |part: usize| Bytes(again[(again.len() - 1) * part / 100]);
        println!("{} kills of {tree}", again.len());
        println!("  files that had landed by then  {landed}");
        println!("  bytes that stayed              {}", Bytes(*resumed));
        println!("  bytes that had come, a kill    most {}", Bytes(*most));
        let (median, p99, most) = (of(50), of(99), of(100));
        println!("  bytes that came again, a kill  median {median}, p99 {p99}, most {most}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CopyKind {
    Up,
    Down,
    Here,
}

#[test]
fn kills_at_random_instants_lose_no_more_than_the_window() {
    let kills = std::env::var("FARLINE_SOAK_KILLS").ok().and_then(|text| text.parse().ok());
    let kills: u64 = kills.unwrap_or(KILLS);
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
    let mut rng = Rng::new(seed);
    let dir = folder();
    let root = dir.path().join("landed");
    let trees = ["small", "large"].map(|name| dir.path().join(name).join("t"));
    plant_tree(&trees[0], &mut rng);
    plant_large_tree(&trees[1], &mut rng);
    fs::create_dir(&root).expect("a folder");
    let files = [0, 1].map(|tree: usize| {
        let mut files = 0;
        on_disk(&trees[tree], &trees[tree], &mut files);
        files
    });
    let mut costs = [Cost::default(), Cost::default()];
    for kill in 0.. {
        if costs.iter().map(|cost| cost.again.len() as u64).sum::<u64>() == kills {
            break;
        }
        let way = [CopyKind::Up, CopyKind::Down, CopyKind::Here][kill % 3];
        let is_large = kill % LARGE_OF == LARGE_OF - 1;
        let (source, cost) = (&trees[usize::from(is_large)], &mut costs[usize::from(is_large)]);
        let at = root.join(format!("{kill}"));
        fs::create_dir(&at).expect("a folder");
        let (mut server, url) = node(dir.path(), "write", &[]);
        let there = if is_large { "large" } else { "small" };
        let (from, to) = match way {
            CopyKind::Up => (text(source).to_owned(), format!("{url}/landed/{kill}/")),
            CopyKind::Down => (format!("{url}/{there}/t"), format!("{}/", at.display())),
            CopyKind::Here => (text(source).to_owned(), format!("{}/", at.display())),
        };
        let mut command = farline();
        // More than a window has to arrive within the time in which it is killed.
        let (limit, longest) = if is_large { ("4Gbit/s", 1_200) } else { ("1Gbit/s", 600) };
        command.args(["-q", "cp", "-r", "--limit", limit, &from, &to]);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = Running(quiet.spawn().expect("runs"));
        std::thread::sleep(Duration::from_millis(rng.below(longest)));
        // Who stores: a node that goes with its client, or a client alone.
        if way == CopyKind::Up {
            server.end(Signal::KILL);
        }
        client.end(Signal::KILL);
        let (mut whole, to_tree) = (0, at.join("t"));
        let arrived = on_disk(&to_tree, source, &mut whole);
        // A copy that was over by then left nothing to go on from.
        if whole == files[usize::from(is_large)] && hidden(&at).is_empty() {
            fs::remove_dir_all(&at).expect("removed");
            continue;
        }
        let again = (way == CopyKind::Up).then(|| node(dir.path(), "write", &[]));
        let to = again.as_ref().map_or(to, |(_, url)| format!("{url}/landed/{kill}/"));
        let result = json_of(farline().args(["--json", "cp", "-r", &from, &to]));
        let held = result["bytes"].as_u64().expect("a count")
            - result["moved_bytes"].as_u64().expect("a count");
        assert_same_tree(source, &to_tree);
        assert!(hidden(&at).is_empty() && hidden(&to_tree).is_empty(), "seed {seed}");
        let again = arrived.saturating_sub(held);
        let said = Bytes(again);
        assert!(again <= WINDOW, "seed {seed}, kill {kill}, {way:?}, {there}: {said} again");
        cost.again.push(again);
        cost.most = cost.most.max(arrived);
        cost.landed += whole;
        cost.resumed += held;
        fs::remove_dir_all(&at).expect("removed");
    }
    println!("{kills} kills, up, down and here in turn; seed {seed}");
    let [small, large] = &mut costs;
    small.print("trees of 60 MiB at 1 Gbit/s");
    large.print("trees of 330 MiB at 4 Gbit/s, with a file of 200");
    for cost in [&*small, &*large] {
        assert!(cost.resumed > 0, "seed {seed}: nothing was there to go on from");
    }
    assert!(small.landed > 0 && large.most > WINDOW, "seed {seed}: nothing larger had arrived");
}
