//! Copies to and from a real globus-gridftp-server that are killed and run again: what it has, or
//! this host has, is not sent twice.

use farline_lab::files::{folder, hidden, plant_file, same, text};
use farline_lab::relay::relay_that_loses_the_reply_to;
use farline_lab::{
    LinkUp, Running, error_of_command, farline, globus_server_at, globus_server_behind, json_of,
    node, succeed, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Bytes of the file that is copied, and how fast: some eight seconds, so that one that is killed
/// three times is not over before.
const LEN: u64 = 96 * MIB;
const RATE: &str = "100Mbit/s";
/// What is sent again of the beginning, where a stock server may have written what it should not.
const STRAY: u64 = 4 * MIB;
/// Longer than a second writer waits for a predecessor to be gone.
const SLOW: &str = "80Mbit/s";

/// A stock server, a file of this host, a folder there, and the user's state.
struct Bench {
    dir: tempfile::TempDir,
    port: u16,
    server: Option<Running>,
}

impl Bench {
    fn new() -> Bench {
        let dir = folder();
        let port = farline_lab::free_port();
        std::fs::create_dir(dir.path().join("there")).expect("a folder");
        let bench = Bench { dir, port, server: Some(globus_server_at(port)) };
        plant_file(&bench.file(), LEN / MIB, 1);
        bench
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn there(&self) -> PathBuf {
        self.dir.path().join("there")
    }

    fn url(&self, name: &str) -> String {
        format!("ftp://127.0.0.1:{}{}/{name}", self.port, self.there().display())
    }

    fn farline(&self, args: &[&str]) -> Command {
        let mut command = farline();
        command.env("XDG_STATE_HOME", self.dir.path().join("state")).arg("--json").args(args);
        command
    }

    fn copy(&self, from: &str, to: &str) -> Value {
        json_of(&mut self.farline(&["cp", "--streams", "3", from, to]))
    }

    fn begin(&self, from: &str, to: &str) -> Running {
        self.begin_at(RATE, from, to)
    }

    fn begin_at(&self, rate: &str, from: &str, to: &str) -> Running {
        let mut command = self.farline(&["cp", "--streams", "3", "--limit", rate, from, to]);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("farline runs"))
    }

    /// What `farline partials ls` knows of the server.
    fn left(&self) -> Vec<Value> {
        json_of(&mut self.farline(&["partials", "ls", &self.url("")]))["partials"]
            .as_array()
            .expect("a list")
            .clone()
    }

    /// Bytes that the server said that it stored of the one partial file. Who waits for more asks a
    /// process each time, and leaves the copy its processor in between.
    fn stored(&self) -> u64 {
        std::thread::sleep(Duration::from_millis(100));
        self.left().first().and_then(|left| left["durable_bytes"].as_u64()).unwrap_or(0)
    }

    /// Kills the server and what it forked, as a crash does, and starts another in its place.
    fn crash_the_server(&mut self) {
        let server = self.server.take().expect("it runs");
        let id = server.0.id();
        let children =
            std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        for child in
            children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?))
        {
            // One that ended by itself is as good.
            let _ = kill_process(child, Signal::KILL);
        }
        drop(server);
        self.server = Some(globus_server_at(self.port));
    }
}

#[test]
fn an_upload_killed_often_resumes_from_the_servers_word() {
    let mut bench = Bench::new();
    let (file, target) = (bench.file(), bench.there().join("landed"));
    let url = bench.url("landed");
    let mut before = 0;
    for (round, kill_the_server) in [false, true, false].into_iter().enumerate() {
        let mut client = bench.begin(text(&file), &url);
        wait_for("more that is stored", || {
            assert!(!target.exists(), "the copy was over before it could be killed");
            bench.stored() > before + 10 * MIB
        });
        assert_eq!(bench.left()[0]["running"], true, "round {round}");
        if kill_the_server {
            bench.crash_the_server();
            let status = client.0.wait().expect("ended");
            assert_eq!(status.code(), Some(5), "the client says that the path or the peer broke");
        } else {
            client.end(Signal::KILL);
        }
        let left = bench.left();
        assert_eq!(
            (left.len(), &left[0]["running"], left[0]["total_bytes"].as_u64()),
            (1, &Value::Bool(false), Some(LEN))
        );
        assert!(left[0]["target"].as_str().is_some_and(|named| named == url), "{}", left[0]);
        assert!(bench.stored() > before, "round {round} brought something");
        before = bench.stored();
        assert!(
            !target.exists() && hidden(&bench.there()).len() == 1,
            "nothing half-done under the final name"
        );
    }
    let result = bench.copy(text(&file), &url);
    assert!(same(&file, &target));
    let (resumed, sent) = (
        result["resumed_bytes"].as_u64().expect("a count"),
        result["bytes_sent"].as_u64().expect("a count"),
    );
    assert!(
        resumed + STRAY >= before && sent < LEN - resumed + MIB,
        "{before} bytes of {LEN} were there, {sent} were sent: {result}"
    );
    assert!(
        result["verified"] == true
            && result["verified_how"].as_str().is_some_and(|how| how.contains("SHA256")),
        "{result}"
    );
    assert_eq!((hidden(&bench.there()), bench.left()), (Vec::new(), Vec::new()));
}

/// The server has given a file its name when the connection is lost on which it says so.
#[test]
fn what_a_server_renamed_unheard_is_not_sent_again() {
    let bench = Bench::new();
    let (file, target) = (bench.file(), bench.there().join("landed"));
    let (relay, count) = relay_that_loses_the_reply_to(bench.port, "RNTO");
    let url = format!("ftp://127.0.0.1:{relay}{}", target.display());
    let mut copy = bench.farline(&["cp", "--retry-for", "60s", text(&file), &url]);
    let result = json_of(&mut copy);
    let said = |name: &str| result[name].as_u64().expect("a number");
    assert_eq!((said("attempts"), count.load(Ordering::Relaxed)), (2, 2), "{result}");
    assert!(said("bytes_sent") < LEN + MIB, "all of it went twice: {result}");
    assert_eq!((said("files"), &result["verified"]), (1, &true.into()), "{result}");
    assert!(same(&file, &target));
    assert_eq!((hidden(&bench.there()), bench.left()), (Vec::new(), Vec::new()));
}

#[test]
fn a_download_killed_often_resumes_from_what_is_durable() {
    let mut bench = Bench::new();
    let down = bench.dir.path().join("down");
    std::fs::create_dir(&down).expect("a folder");
    std::fs::rename(bench.file(), bench.there().join("big")).expect("moved");
    let (file, target) = (bench.there().join("big"), down.join("big"));
    let url = bench.url("big");
    let durable = |bench: &Bench| {
        std::thread::sleep(Duration::from_millis(100));
        let said = json_of(&mut bench.farline(&["partials", "ls", text(&down)]));
        said["partials"][0]["durable_bytes"].as_u64().unwrap_or(0)
    };
    let mut before = 0;
    for kill_the_server in [false, true, false] {
        let mut client = bench.begin(&url, text(&down));
        wait_for("more that is durable", || {
            assert!(!target.exists(), "the copy was over before it could be killed");
            durable(&bench) > before + 10 * MIB
        });
        if kill_the_server {
            bench.crash_the_server();
            assert_eq!(client.0.wait().expect("ended").code(), Some(5));
        } else {
            client.end(Signal::KILL);
        }
        before = durable(&bench);
        assert!(!target.exists());
    }
    let result = bench.copy(&url, text(&down));
    assert!(same(&file, &target));
    let (resumed, sent) = (
        result["resumed_bytes"].as_u64().expect("a count"),
        result["bytes_sent"].as_u64().expect("a count"),
    );
    assert!(
        resumed > 20 * MIB && sent < LEN - resumed + MIB,
        "{resumed} bytes were here, and {sent} of {LEN} came again"
    );
    assert!(result["verified"] == true, "{result}");
    assert_eq!(hidden(&down), Vec::<String>::new());
    // Another file under the same name is not the same transfer.
    let mut client = bench.begin(&url, text(&down));
    wait_for("something durable", || durable(&bench) > 0);
    client.end(Signal::KILL);
    plant_file(&file, LEN / MIB, 2);
    let result = bench.copy(&url, text(&down));
    assert_eq!(result["resumed_bytes"].as_u64(), Some(0), "{result}");
    assert!(same(&file, &target));
}

#[test]
fn a_changed_source_starts_again_and_its_stale_partial_goes() {
    let bench = Bench::new();
    let url = bench.url("landed");
    let mut client = bench.begin_at(SLOW, text(&bench.file()), &url);
    wait_for("something stored", || bench.stored() > 0);
    let (error, code) = error_of_command(&mut bench.farline(&["cp", text(&bench.file()), &url]));
    assert_eq!(
        (error["code"].as_str(), code),
        (Some("busy"), 6),
        "a second writer of this host is told: {error}"
    );
    client.end(Signal::KILL);
    let stale = hidden(&bench.there());
    plant_file(&bench.file(), LEN / MIB, 2);
    let result = bench.copy(text(&bench.file()), &url);
    assert_eq!((stale.len(), result["resumed_bytes"].as_u64()), (1, Some(0)), "{result}");
    assert!(same(&bench.file(), &bench.there().join("landed")));
    assert_eq!((hidden(&bench.there()), bench.left()), (Vec::new(), Vec::new()));
}

#[test]
fn what_the_server_lost_or_changed_of_a_partial_is_found() {
    let bench = Bench::new();
    let url = bench.url("landed");
    for change in ["damaged", "gone"] {
        let mut client = bench.begin(text(&bench.file()), &url);
        wait_for("something stored", || bench.stored() > 10 * MIB);
        client.end(Signal::KILL);
        let partial = bench.there().join(&hidden(&bench.there())[0]);
        if change == "damaged" {
            let mut bytes = std::fs::read(&partial).expect("there");
            // In every block: on a busy machine blocks go out of order, and one that is not held is
            // sent again.
            bytes.iter_mut().step_by(MIB as usize).for_each(|byte| *byte ^= 1);
            std::fs::write(&partial, bytes).expect("written");
            let (error, code) =
                error_of_command(&mut bench.farline(&["cp", text(&bench.file()), &url]));
            assert_eq!((error["code"].as_str(), code), (Some("digest-mismatch"), 5), "{error}");
            assert_eq!(
                (hidden(&bench.there()), bench.left()),
                (Vec::new(), Vec::new()),
                "what is wrong is not gone on with"
            );
        } else {
            std::fs::remove_file(&partial).expect("removed");
        }
        let result = bench.copy(text(&bench.file()), &url);
        assert_eq!(result["resumed_bytes"].as_u64(), Some(0), "{change}: {result}");
        assert!(same(&bench.file(), &bench.there().join("landed")), "{change}");
        std::fs::remove_file(bench.there().join("landed")).expect("removed");
    }
}

#[test]
fn what_is_left_at_a_server_is_listed_and_removed() {
    let bench = Bench::new();
    let url = bench.url("landed");
    let mut client = bench.begin(text(&bench.file()), &url);
    wait_for("something stored", || bench.stored() > 0);
    let output = bench.farline(&["partials", "rm", &url]).output().expect("runs");
    let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(
        (said["kept"][0]["error"]["code"].as_str(), output.status.code()),
        (Some("busy"), Some(6)),
        "{said}"
    );
    client.end(Signal::KILL);
    let all = succeed(bench.farline(&["partials", "ls"]).current_dir(bench.there()));
    assert!(all.contains(&url), "without a folder every server is listed too: {all}");
    succeed(&mut bench.farline(&["partials", "rm", &bench.url("")]));
    assert_eq!((hidden(&bench.there()), bench.left()), (Vec::new(), Vec::new()));
    let (error, code) = error_of_command(&mut bench.farline(&["partials", "rm", &url]));
    assert_eq!((error["code"].as_str(), code), (Some("no-partial"), 2), "{error}");
}

#[test]
fn a_checksum_is_compared_unless_that_is_switched_off() {
    let bench = Bench::new();
    let (back, url) = (bench.dir.path().join("back"), bench.url("landed"));
    let file = bench.file();
    for (from, to) in [(text(&file), &url[..]), (&url[..], text(&back))] {
        for more in [&["--verify", "digest"][..], &[]] {
            let words = [&["cp"], more, &[from, to]].concat();
            let compared = succeed(&mut bench.farline(&words));
            let compared: Value = serde_json::from_str(&compared).expect("one object");
            assert!(
                compared["verified"] == true
                    && compared["verified_how"].as_str().is_some_and(|how| how.contains("SHA256")),
                "{more:?}: {compared}"
            );
        }
        let plain = succeed(&mut bench.farline(&["cp", "--verify", "none", from, to]));
        let plain: Value = serde_json::from_str(&plain).expect("one object");
        assert!(
            plain["verified"] == false
                && plain["verified_how"].as_str().is_some_and(|how| how.contains("switched off")),
            "{plain}"
        );
        let (error, code) =
            error_of_command(&mut bench.farline(&["cp", "--verify", "checksum", from, to]));
        assert_eq!((error["code"].as_str(), code), (Some("unsupported"), 4), "{error}");
    }
    assert!(same(&bench.file(), &back));
}

#[test]
fn a_killed_third_party_copy_starts_again_without_partial() {
    let bench = Bench::new();
    let root = bench.dir.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    std::fs::rename(bench.file(), root.join("big")).expect("moved");
    let (_node, node) = node(
        &root,
        "read",
        &["--listen", "127.0.0.2:0", "--third-party", "--third-party-net", "127.0.0.0/8"],
    );
    let (from, to) = (format!("{node}/big"), bench.url("landed"));
    let mut client = bench.begin(&from, &to);
    wait_for("more that is stored", || bench.stored() > 10 * MIB);
    client.end(Signal::KILL);
    let result = bench.copy(&from, &to);
    assert_eq!(
        result["resumed_bytes"].as_u64(),
        Some(0),
        "nobody could compare the whole: {result}"
    );
    assert!(same(&root.join("big"), &bench.there().join("landed")));
    assert_eq!((hidden(&bench.there()), bench.left()), (Vec::new(), Vec::new()));
}

/// Kills a copy of a tree when some of its files have landed, runs it again, and looks at what that
/// sends.
fn a_killed_tree_goes_on(upload: bool) {
    let bench = Bench::new();
    let (from, to) = (bench.dir.path().join("t"), bench.there().join("t"));
    std::fs::create_dir_all(from.join("sub")).expect("folders");
    std::fs::remove_file(bench.file()).expect("of another test");
    for (name, mib) in [("a", 4), ("b", 4), ("large", 48), ("sub/c", 4), ("sub/d", 4)] {
        plant_file(&from.join(name), mib, mib);
    }
    let here = bench.dir.path().join("here");
    let (source, target) = match upload {
        true => (text(&from).to_owned(), bench.url("")),
        false => {
            std::fs::rename(&from, &to).expect("moved");
            (bench.url("t"), format!("{}/", here.display()))
        }
    };
    let (from, to) = if upload { (from, to) } else { (to, here.join("t")) };
    let begin = |more: &[&str]| {
        let args = [&["cp", "-r", "--streams", "3"], more, &[&source, &target]].concat();
        bench.farline(&args)
    };
    let mut first = begin(&["--limit", RATE]);
    let mut client =
        Running(first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs"));
    wait_for("some files, and some of the large one", || {
        let of_large = || if upload { bench.stored() } else { arrived(&to) };
        to.join("b").exists() && of_large() > 16 * MIB
    });
    client.end(Signal::KILL);
    assert!(!to.join("sub/c").exists() && !to.join("large").exists());
    // What the killed copy knew is listed, and by its place alone.
    let at = if upload { bench.url("") } else { text(&here).to_owned() };
    let listed = json_of(&mut bench.farline(&["partials", "ls", &at]));
    let is_tree = |row: &&Value| row["landed_files"].is_u64();
    let trees: Vec<&Value> =
        listed["partials"].as_array().expect("a list").iter().filter(is_tree).collect();
    let [tree] = &trees[..] else { panic!("{listed}") };
    assert_eq!((tree["landed_files"].as_u64(), &tree["running"]), (Some(2), &false.into()));
    let end = if upload { "/there" } else { "/t" };
    assert!(tree["target"].as_str().expect("text").ends_with(end), "{tree}");
    // What was changed since is sent again.
    plant_file(&from.join("a"), 4, 77);
    let result = json_of(&mut begin(&[]));
    let sent = result["bytes_sent"].as_u64().expect("a count");
    // a, the rest of the large one, c and d; not b, nor what was there of the large one.
    let most = (4 + 8 + 48 - 16) * MIB + STRAY + 4 * MIB;
    assert!(sent < most, "{sent} of at most {most}: {result}");
    assert_eq!((&result["verified"], result["files"].as_u64()), (&Value::Bool(true), Some(5)));
    let note = "1 file that landed in an earlier run was left alone: size and time";
    assert!(result["notes"].to_string().contains(note), "{result}");
    for name in ["a", "b", "large", "sub/c", "sub/d"] {
        assert!(same(&from.join(name), &to.join(name)), "{name}");
    }
    // A copy that is over leaves no memory: the next one copies.
    let again = json_of(&mut begin(&[]));
    assert_eq!((again["resumed_bytes"].as_u64(), again["files"].as_u64()), (Some(0), Some(5)));
}

#[test]
fn a_killed_tree_to_a_stock_server_sends_what_is_missing() {
    a_killed_tree_goes_on(true);
}

#[test]
fn a_killed_tree_from_a_stock_server_fetches_the_missing() {
    a_killed_tree_goes_on(false);
}

/// A link to a stock server over which packets can be made to vanish without a word to anybody.
struct Outage {
    link: LinkUp,
    bench: Bench,
    url: String,
    _server: Running,
}

impl Outage {
    fn new(name: &'static str) -> Option<Outage> {
        if !rustix::process::geteuid().is_root() {
            let why = "root of a user namespace, as a link is of, may not give up its groups";
            farline_lab::skip(format!("the globus server does not start: {why}"));
            return None;
        }
        let link = LinkUp::up(name, &["custom", "--rtt", "10ms", "--rate", "400M"])?;
        if !link.exec("b", &["nft", "list", "ruleset"]).status.success() {
            farline_lab::skip("there is no nft on this machine, or it may not be used");
            return None;
        }
        let (server, url) = globus_server_behind(&link);
        Some(Outage { link, bench: Bench::new(), url, _server: server })
    }

    fn begins(&self) {
        let table = "add table inet f; add chain inet f i \
            { type filter hook input priority 0; policy drop; }; \
            add chain inet f o { type filter hook output priority 0; policy drop; }";
        assert!(self.link.exec("b", &["nft", table]).status.success());
    }

    fn ends(&self) {
        assert!(self.link.exec("b", &["nft", "delete table inet f"]).status.success());
    }

    fn copy(&self, more: &[&str], from: &str, to: &str) -> Command {
        let mut command = self.link.farline("a", &["--json", "cp", "--streams", "3"]);
        command
            .env("XDG_STATE_HOME", self.bench.dir.path().join("state"))
            .args(more)
            .args([from, to]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    fn result(command: &mut Command) -> Value {
        json_of(command)
    }
}

/// What the only partial file in `folder` holds, as far as the file system knows.
fn arrived(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let names = hidden(folder);
    let held = names
        .iter()
        .filter(|name| !name.ends_with(".journal.farline"))
        .filter_map(|name| folder.join(name).metadata().ok());
    held.map(|meta| meta.blocks() * 512).sum()
}

#[test]
fn an_outage_costs_a_stock_download_only_what_was_in_flight() {
    let Some(outage) = Outage::new("t-out-down") else { return };
    let (bench, here) = (&outage.bench, outage.bench.dir.path().join("here"));
    std::fs::create_dir(&here).expect("a folder");
    let from = format!("{}{}", outage.url, bench.file().display());
    let mut client = Running(
        outage
            .copy(&["--limit", RATE, "--timeout", "3"], &from, text(&here))
            .spawn()
            .expect("farline runs"),
    );
    wait_for("some of it", || arrived(&here) > 40 * MIB);
    outage.begins();
    assert_eq!(client.0.wait().expect("ended").code(), Some(5), "the path is to blame");
    assert!(
        !here.join("file").exists() && arrived(&here) > 20 * MIB,
        "what had arrived is kept, under no final name"
    );
    outage.ends();
    let result = Outage::result(&mut outage.copy(&[], &from, text(&here)));
    let (resumed, sent) = (
        result["resumed_bytes"].as_u64().expect("a count"),
        result["bytes_sent"].as_u64().expect("a count"),
    );
    assert!(resumed > 20 * MIB && sent < LEN - resumed + MIB, "{result}");
    assert!(result["verified"] == true && same(&bench.file(), &here.join("file")), "{result}");
    assert_eq!(hidden(&here), Vec::<String>::new());
}

#[test]
fn a_stock_upload_is_whole_after_short_and_long_outages() {
    let Some(outage) = Outage::new("t-out-up") else { return };
    let (bench, there) = (&outage.bench, outage.bench.there());
    let to = |name: &str| format!("{}{}/{name}", outage.url, there.display());
    let file = bench.file();
    let short =
        outage.copy(&["--limit", RATE], text(&file), &to("short")).spawn().expect("farline runs");
    wait_for("some of it", || arrived(&there) > 20 * MIB);
    outage.begins();
    std::thread::sleep(Duration::from_secs(1));
    outage.ends();
    let output = short.wait_with_output().expect("ended");
    assert!(output.status.success() && same(&file, &there.join("short")), "{output:?}");
    let mut long = Running(
        outage
            .copy(&["--limit", RATE, "--timeout", "3"], text(&file), &to("long"))
            .spawn()
            .expect("farline runs"),
    );
    wait_for("some of it", || arrived(&there) > 20 * MIB);
    outage.begins();
    assert_eq!(long.0.wait().expect("ended").code(), Some(5), "the path is to blame");
    assert!(!there.join("long").exists(), "nothing half-done under the final name");
    outage.ends();
    // Clause G-3: a server that was given up in silence may still write to the partial file, so
    // another is begun.
    let result =
        Outage::result(&mut outage.copy(&["--verify", "digest"], text(&file), &to("long")));
    assert!(
        result["verified"] == true
            && result["resumed_bytes"] == 0
            && same(&file, &there.join("long")),
        "{result}"
    );
}
