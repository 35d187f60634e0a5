//! Measured profiles that are broken off: by a kill, by a path that dies, by a disk that is full.
//! What was measured counts for nothing here, so that others may run next to them.

use crate::profile_model::{error_of, read, repetitions};
use farline::run_dir::name_below;
use farline_core::profile::Profile;
use farline_lab::files::text;
use farline_lab::{LinkUp, Running, farline, json_of, run_dir};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Held by whoever measures here: the link of a measurement has one name in a test run. Those of
/// `alone` need none, for nobody else runs next to them.
static LINK: Mutex<()> = Mutex::new(());

fn only_one() -> MutexGuard<'static, ()> {
    // One that failed leaves it like any other.
    LINK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Profiles over an emulated path of 50 Mbit/s; `None` where this machine makes no link.
pub(crate) fn measured(seconds: &str, document: &Path, more: &[&str]) -> Option<Command> {
    static MAKES_LINKS: OnceLock<bool> = OnceLock::new();
    let path = ["custom", "--rtt", "1ms", "--rate", "1M"];
    if !*MAKES_LINKS.get_or_init(|| LinkUp::up("t-profile", &path).is_some()) {
        farline_lab::skip("this machine does not let us make a link to measure over");
        return None;
    }
    let mut command = farline();
    command.args([
        "--json",
        "profile",
        "--rtt",
        "20ms",
        "--rate",
        "50M",
        "--mtu",
        "1500",
        "--scale",
        "1",
        "--seconds",
        seconds,
    ]);
    command.args(["--out", text(document)]).args(more).stderr(Stdio::null());
    Some(command)
}

/// Waits until `file` holds `count` repetitions.
fn wait_for(file: &Path, count: usize, running: &mut Running) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !file.exists() || repetitions(&read(file)) < count {
        assert!(Instant::now() < deadline, "no {count} repetitions in a minute");
        assert!(running.0.try_wait().expect("a child").is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the link `name` is up, or is not.
fn link_is(name: &str, up: bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while farline()
        .args(["link", "stats", name])
        .output()
        .is_ok_and(|output| output.status.success())
        != up
    {
        assert!(Instant::now() < deadline, "link {name}: up {}, wanted {up}", !up);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_profile_resumes_and_a_dead_path_keeps_results() {
    let _link = only_one();
    let dir = tempfile::tempdir().expect("a folder");
    let document = dir.path().join("p.json");
    let more = ["--streams", "1,2", "--repetitions", "2"];
    let Some(mut command) = measured("2", &document, &more) else { return };
    // Made now, while nothing runs that is to be broken off before its end.
    let mut other = measured("2", &dir.path().join("q.json"), &more).expect("links can be made");
    let mut running = Running(command.stdout(Stdio::null()).spawn().expect("farline runs"));
    wait_for(&document, 1, &mut running);
    // Another one next to it is told so.
    let error = error_of(&mut other);
    assert_eq!(error["code"], "profile-running", "{error}");
    running.end(Signal::KILL);
    assert!(repetitions(&read(&document)) >= 1);
    let link = name_below(run_dir(), "profile");
    // Its link goes with it, and is not to be taken for the next one's.
    link_is(&link, false);
    // The path is taken away under the next one.
    let mut command = farline();
    command
        .args(["--json", "profile", "--resume", text(&document)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let child = command.spawn().expect("farline runs");
    link_is(&link, true);
    std::thread::sleep(Duration::from_millis(300));
    // Each repetition has its own: there may be none at this moment.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !farline()
        .args(["link", "down", &link])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        assert!(Instant::now() < deadline, "no link to take down");
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("a child");
    let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert!(
        !output.status.success()
            && said["error"]["hint"].as_str().is_some_and(|hint| hint.contains("--resume")),
        "{said}"
    );
    // One that ended before the path did counts too.
    let kept = repetitions(&read(&document));
    // And whole in the end.
    let dotted = dir.path().join(".").join("p.json");
    let twice = ["-o", text(&document), "-o", text(&dotted)];
    let whole = json_of(
        farline().args(["--json", "-q", "profile", "--resume", text(&document)]).args(twice),
    );
    assert!(repetitions(&whole) >= 4, "{whole}");
    // That it went on is in the document, and that of two times the first one gave nothing.
    let went_on = whole["resumptions"].as_array().expect("resumptions");
    assert_eq!(
        went_on.last().map(|one| one["repetitions"].as_u64()),
        Some(Some(kept as u64)),
        "{went_on:?}"
    );
    assert_eq!(went_on[0]["environment"], whole["environment"], "the same machine");
}

#[test]
fn a_killed_profile_whose_page_alone_was_asked_for_goes_on_too() {
    let _link = only_one();
    let dir = tempfile::tempdir().expect("a folder");
    let page = dir.path().join("p.html");
    let Some(mut command) = measured("2", &page, &["--repetitions", "40"]) else { return };
    command.env("XDG_STATE_HOME", dir.path()).stdout(Stdio::null());
    let mut running = Running(command.spawn().expect("farline runs"));
    let unfinished =
        dir.path().join(format!("farline/profiles/unfinished-custom-{}.json", running.0.id()));
    wait_for(&unfinished, 1, &mut running);
    running.end(Signal::KILL);
    assert!(!page.exists() && repetitions(&read(&unfinished)) >= 1);
}

#[test]
fn a_full_disk_is_found_before_a_repetition_runs() {
    let _link = only_one();
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mounted) = Mounted::with(dir.path(), "64k") else { return };
    let error = measured("2", &dir.path().join("p.json"), &["--repetitions", "1"])
        .map(|mut command| error_of(&mut command));
    let left = fs::read_dir(dir.path()).expect("a folder").count();
    drop(mounted);
    let Some(error) = error else { return };
    assert_eq!(
        (&error["code"], &error["fault"], left),
        (&"cannot-write".into(), &"here".into(), 0),
        "{error}"
    );
}

#[test]
fn a_disk_that_fills_up_costs_no_finished_repetition() {
    let _link = only_one();
    let dir = tempfile::tempdir().expect("a folder");
    let Some(mounted) = Mounted::with(dir.path(), "8m") else { return };
    let document = dir.path().join("p.json");
    let Some(mut command) = measured("2", &document, &["--streams", "1-8", "--repetitions", "2"])
    else {
        return;
    };
    let mut child = Running(command.stdout(Stdio::piped()).spawn().expect("farline runs"));
    wait_for(&document, 1, &mut child);
    // Somebody else takes all that is left, and what becomes free.
    let filler = dir.path().join("filler");
    let mut other = fs::File::create(&filler).expect("a file");
    while child.0.try_wait().expect("a child").is_none() {
        while other.write(&[1; 4096]).is_ok_and(|written| written > 0) {}
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut said = String::new();
    child.0.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(!child.0.wait().expect("a child").success(), "{said}");
    let error: Value = serde_json::from_str(&said).expect("one object");
    assert_eq!(
        (&error["error"]["code"], &error["error"]["fault"]),
        (&"cannot-write".into(), &"here".into()),
        "{error}"
    );
    // The place that the last one needed went to the next one: only when the document has grown is
    // there none.
    assert!((1..16).contains(&repetitions(&read(&document))), "{error}");
    fs::remove_file(&filler).expect("the filler");
    let kept = Profile::read(&fs::read_to_string(&document).expect("the document"));
    assert!(kept.is_ok(), "what is kept is a whole document: {kept:?}");
    drop(mounted);
}

/// A file system that is taken away at the end of a test.
struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    /// A disk of `size` at `folder`; nothing where this user may not mount one.
    fn with<'a>(folder: &'a Path, size: &str) -> Option<Mounted<'a>> {
        let option = format!("size={size}");
        let arguments = ["-t", "tmpfs", "-o", &option, "tmpfs", text(folder)];
        let mount = Command::new("mount").args(arguments).stderr(Stdio::null()).status();
        if !mount.is_ok_and(|status| status.success()) {
            farline_lab::skip("only root can mount a small disk");
            return None;
        }
        Some(Mounted(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
