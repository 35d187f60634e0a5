//! A second copy over a path begins from what the first saw of it, over QUIC, UDT and TCP, and
//! gives way where the path is no more what it was.

use farline_lab::files::{plant_file, same};
use farline_lab::{LinkUp, Running, fit_of_three, json_of};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A path on which slow start takes some two seconds.
const PATH: [&str; 5] = ["custom", "--rate", "100M", "--rtt", "300ms"];
/// Bytes that such a path holds.
const HOLDS: f64 = 100e6 / 8.0 * 0.3;

struct Bed {
    link: LinkUp,
    dir: tempfile::TempDir,
    fingerprint: String,
    /// How its node is reached.
    scheme: &'static str,
    _node: Running,
}

/// Goes by what earlier copies saw, and keeps it in `state`.
fn knowing(mut command: Command, state: &Path) -> Command {
    command.env_remove("FARLINE_FRESH_START").env("XDG_STATE_HOME", state);
    command
}

impl Bed {
    fn new(name: &str) -> Option<Bed> {
        Bed::with(name, &[])
    }

    /// One whose node is started with `more`.
    fn with(name: &str, more: &[&str]) -> Option<Bed> {
        Bed::over(name, &PATH, more)
    }

    /// The same over another path.
    fn over(name: &str, path: &[&str], more: &[&str]) -> Option<Bed> {
        let link = LinkUp::up(name, path)?;
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("root");
        std::fs::create_dir_all(&root).expect("a folder");
        let listen = ["--json", "serve", "--anonymous", "write", "--listen", "[::]:2811", "--tls"];
        let mut serve = knowing(link.farline("b", &listen), &dir.path().join("b"));
        let (node, line) = Running::begun(serve.args(more).arg("--root").arg(&root));
        let said: Value = serde_json::from_str(&line).expect("one object");
        let fingerprint = said["fingerprint"].as_str().expect("a fingerprint").to_owned();
        Some(Bed { link, dir, fingerprint, scheme: "farlines", _node: node })
    }

    fn here(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Copies `mib` MiB to the node, or from it.
    fn copy(&self, channel: &str, mib: u64, back: bool, more: &[&str]) -> Value {
        self.copy_as("a", channel, mib, back, more)
    }

    /// The same as somebody who keeps what they know in `state`.
    fn copy_as(&self, state: &str, channel: &str, mib: u64, back: bool, more: &[&str]) -> Value {
        let one = if more.contains(&"--streams") { &[][..] } else { &["--streams", "1"] };
        self.copy_with(state, channel, mib, back, &[one, more].concat())
    }

    /// The same, with as many channels as it chooses unless `options` say so.
    fn copy_with(
        &self,
        state: &str,
        channel: &str,
        mib: u64,
        back: bool,
        options: &[&str],
    ) -> Value {
        let (near, far) = (self.here("near"), self.here("root/far"));
        plant_file(if back { &far } else { &near }, mib, 7);
        let url = format!("{}://{}-b:2811/far", self.scheme, self.link.name());
        let mut args = vec!["--json", "cp", "--tls-pin", &self.fingerprint, "--channel", channel];
        args.extend(options);
        let near_text = near.to_str().expect("text");
        args.extend(if back { [&url[..], near_text] } else { [near_text, &url[..]] });
        let result = json_of(&mut knowing(self.link.farline("a", &args), &self.here(state)));
        assert!(same(&near, &far), "{channel}: other bytes came");
        result
    }

    /// Copies `near` to the node over TCP as a user who may load no BPF.
    fn copy_without_bpf(&self, more: &[&str]) -> Value {
        let url = format!("farlines://{}-b:2811/far", self.link.name());
        let (near, binary) = (self.here("near"), farline_lab::farline_binary());
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                let mut command = self.link.command("a", "setpriv");
                command.args(["--inh-caps=-all", "--bounding-set=-all"]).arg(binary);
                command
            }
            // Root of a user namespace may not.
            false => self.link.command("a", binary),
        };
        command.args(["--json", "cp", "--tls-pin", &self.fingerprint]).args(more);
        command.arg(near).arg(url);
        json_of(&mut knowing(command, &self.here("a")))
    }

    /// What the end that sends has of the path; a node writes it after its client has gone.
    fn document(&self, side: &str) -> (PathBuf, Value) {
        let folder = self.here(side).join("farline/paths");
        let read = || {
            let mut items = std::fs::read_dir(&folder).ok()?.flatten();
            let place = items.next()?.path();
            assert!(items.next().is_none(), "one path, one document");
            let text = std::fs::read(&place).expect("it can be read");
            (!text.is_empty()).then_some((place, text))
        };
        farline_lab::wait_for("a document", || read().is_some());
        let (place, text) = read().expect("it stays");
        (place, serde_json::from_slice(&text).expect("JSON"))
    }
}

/// What a copy says that it began from.
fn begins(result: &Value) -> Option<&str> {
    let reasons = result["reasons"].as_array().expect("a list");
    reasons
        .iter()
        .filter_map(Value::as_str)
        .find(|text| text.contains("begins from what this path"))
}

/// How long it took from when data began to flow: setting up takes as long over any path.
fn seconds(result: &Value) -> f64 {
    let read = |field: &str| result[field].as_f64().expect("a number");
    read("seconds") - read("first_data_seconds")
}

/// Two copies from the node: it sends, and says to the second what the first saw.
fn two_copies_back(bed: &Bed, channel: &str) {
    let down = bed.copy(channel, 16, true, &[]);
    assert_eq!(begins(&down), None, "the node has sent nothing before");
    let down = bed.copy(channel, 16, true, &[]);
    assert!(begins(&down).is_some(), "the node says it: {}", down["reasons"]);
}

/// The first copy, the second, and one over what has become a tenth of the path that was.
fn three_copies(bed: &Bed, channel: &str) {
    let first = bed.copy(channel, 16, false, &[]);
    assert_eq!(begins(&first), None, "nothing is known yet");
    let (place, seen) = bed.document("a");
    let held = seen["in_flight"].as_f64().expect("a number");
    // A machine that was held up sees at once what arrived meanwhile.
    assert!(held > 0.5 * HOLDS && held < 1.5 * HOLDS, "{seen}, of {HOLDS}");

    // A machine that is busy takes from a copy what knowing the path gives it, so there are three.
    let faster = (0..3).any(|_| {
        let again = bed.copy(channel, 16, false, &[]);
        assert!(begins(&again).is_some(), "{}", again["reasons"]);
        println!("{:.2} s, again {:.2} s", seconds(&first), seconds(&again));
        seconds(&again) < 0.9 * seconds(&first)
    });
    assert!(faster, "no faster");

    let fresh = bed.copy(channel, 1, false, &["--fresh-start"]);
    assert_eq!(begins(&fresh), None, "{}", fresh["reasons"]);

    // As if the path had been ten times what it is: of that half is sent, and most of it lost.
    let (_, mut seen) = bed.document("a");
    let tenfold = seen["in_flight"].as_f64().expect("a number") * 10.0;
    seen["in_flight"] = (tenfold as u64).into();
    // What is on its way is the product of rate and round trip: else it is not believed.
    seen["rate"] = (seen["rate"].as_u64().expect("a number") * 10).into();
    // Else what the copy before it lost would be taken for what the next one does.
    seen["lost"] = 0.0.into();
    std::fs::write(&place, seen.to_string()).expect("written");
    // Of four times what a path is seen to hold, or more, the word counts though it is less than
    // before; and of any copy that loses much, as QUIC's does.
    let mib = if channel == "tcp" { 24 } else { 16 };
    let mut third = Value::Null;
    // A machine that is busy loses little, since it sends little at once: so there are three.
    let gives_way = (0..3).any(|_| {
        third = bed.copy(channel, mib, false, &[]);
        assert!(begins(&third).is_some(), "{}", third["reasons"]);
        let (_, seen) = bed.document("a");
        println!("what was ten times as much {:.2} s, {seen}", seconds(&third));
        if seen["lost"].as_f64().expect("a number") > 0.01 {
            // Most of it after the last byte left this program's threads.
            assert!(third["retransmits"].as_u64().expect("a count") > 10, "{third}");
        }
        seen["in_flight"].as_f64().expect("a number") < 0.3 * tenfold
    });
    assert!(gives_way, "it still believes in what is no more: {third}");
    assert!(seconds(&third) < 6.0 * seconds(&first), "it did not give way");
}

#[test]
fn a_second_copy_over_quic_begins_where_the_first_was() {
    let Some(bed) = Bed::new("t-knownq") else { return };
    three_copies(&bed, "quic");
    two_copies_back(&bed, "quic");
    a_node_tells_who_knows_nothing(&bed);
}

#[test]
fn a_second_copy_over_one_udp_port_begins_where_the_first_was() {
    let more = ["--listen-udp", "[::]:2811"];
    let Some(mut bed) = Bed::with("t-known1", &more) else { return };
    bed.scheme = "farlineq";
    three_copies(&bed, "quic");
    two_copies_back(&bed, "quic");
}

#[test]
fn a_second_copy_over_tcp_begins_where_the_first_was() {
    if !rustix::process::geteuid().is_root() {
        return farline_lab::skip("only root can load a congestion control");
    }
    let Some(bed) = Bed::new("t-knownt") else { return };
    three_copies(&bed, "tcp");
    let several = bed.copy("tcp", 4, false, &["--streams", "4"]);
    assert!(begins(&several).is_some(), "{}", several["reasons"]);
    assert_eq!(several["congestion"], "cubic", "{several}");
    let bbr = bed.copy("tcp", 1, false, &["--congestion", "bbr"]);
    assert_eq!(begins(&bbr), None, "{}", bbr["reasons"]);
}

#[test]
fn a_second_copy_over_udt_begins_where_the_first_was() {
    let Some(bed) = Bed::new("t-knownu") else { return };
    three_copies(&bed, "udt");
    let several = bed.copy("udt", 16, false, &["--streams", "4"]);
    assert!(begins(&several).is_some(), "each with its part: {}", several["reasons"]);
    let chosen = bed.copy_with("a", "udt", 16, false, &[]);
    assert_eq!(chosen["streams"], 2, "{}", chosen["reasons"]);
    two_copies_back(&bed, "udt");
}

#[test]
fn a_node_that_loads_controls_resumes_over_tcp() {
    if !rustix::process::geteuid().is_root() {
        return farline_lab::skip("only root can load a congestion control");
    }
    let Some(bed) = Bed::with("t-knownd", &["--allow-held", "1M"]) else { return };
    bed.copy("tcp", 16, true, &[]);
    let down = bed.copy("tcp", 16, true, &[]);
    assert!(begins(&down).is_some(), "the node says it: {}", down["reasons"]);
}

/// A copy that ends while it grows says nothing of what the path has beyond, so that what comes
/// after it is no slower than what knows nothing.
fn a_small_copy_slows_no_later_one(name: &str, channel: &str, mib: u64) {
    // A node that keeps nothing tells nothing.
    let Some(bed) = Bed::with(name, &["--fresh-start"]) else { return };
    // A machine that is busy may hold up any one of them.
    let is_no_slower = |trial: u32| {
        let state = format!("small{trial}");
        let small = bed.copy_as(&state, channel, mib, false, &[]);
        assert_eq!(begins(&small), None, "nothing is known yet");
        let (_, seen) = bed.document(&state);
        let after = bed.copy_as(&state, channel, 24, false, &[]);
        assert!(begins(&after).is_some(), "{}", after["reasons"]);
        let fresh = bed.copy(channel, 24, false, &["--fresh-start"]);
        println!("{channel}: {:.2} s, after {seen} {:.2} s", seconds(&fresh), seconds(&after));
        seen["fills"] == false && seconds(&after) < 1.2 * seconds(&fresh)
    };
    assert!((0..3).any(is_no_slower), "{channel}: a small copy made a later one slower");
}

#[test]
fn a_small_copy_over_quic_slows_no_later_one() {
    a_small_copy_slows_no_later_one("t-knowns", "quic", 1);
}

#[test]
fn a_small_copy_over_tcp_slows_no_later_one() {
    if !rustix::process::geteuid().is_root() {
        return farline_lab::skip("only root can load a congestion control");
    }
    a_small_copy_slows_no_later_one("t-knownst", "tcp", 5);
}

/// Somebody at the same address who knows nothing begins from what the node knows, plans by it, and
/// is told nothing of other addresses.
fn a_node_tells_who_knows_nothing(bed: &Bed) {
    // While the node still ends the transfer before, others begin as over any path.
    let told = (0..3)
        .map(|trial| bed.copy_as(&format!("stranger{trial}"), "quic", 1, false, &[]))
        .find(|told| begins(told).is_some())
        .expect("one that begins from what the node knows");
    let reasons = told["reasons"].to_string();
    assert!(reasons.contains(":2811 says that the last transfer over this path had"), "{reasons}");
    for (way, asks) in [("out", &[][..]), ("back", &["--direction", "back"])] {
        let url = format!("farline://{}-b:2811", bed.link.name());
        let args = [&["--json", "plan", &url, "--size", "1GB"], asks].concat();
        let plan = || json_of(&mut knowing(bed.link.farline("a", &args), &bed.here("planner")));
        // What arrives in one round trip of QUIC's may be a tenth more than the path's 100 Mbit/s.
        let is_right = |planned: &Value| {
            planned["rate_bps"].as_f64().is_some_and(|rate| (20e6..115e6).contains(&rate))
        };
        let mut planned = plan();
        if !is_right(&planned) {
            // A link that waited for a processor brings more at once; the next copy says less.
            let after_a_copy = || {
                bed.copy("quic", 16, way == "back", &[]);
                plan()
            };
            planned = fit_of_three(after_a_copy, is_right);
        }
        assert_eq!(planned["source"], "told", "{way}: {planned}");
        assert!(is_right(&planned), "{way}: {planned}");
    }
    let say = |lines: &str| {
        let talk = format!(
            "exec 3<>/dev/tcp/{}-b/2811; printf '{lines}QUIT\\r\\n' >&3; cat <&3",
            bed.link.name()
        );
        let mut command = bed.link.command("a", "bash");
        let output = command.args(["-c", &talk]).output().expect("bash runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ask = "OPTS FARLINE path=ask;\\r\\n";
    let login = "USER anonymous\\r\\nPASS x\\r\\n";
    assert!(!say(ask).contains("path="), "nobody is told before the login");
    assert!(say(&format!("{login}{ask}")).contains("200 path=out:"), "whose address it is");
    let other = say(&format!("{login}OPTS FARLINE path=10.77.0.9;\\r\\n"));
    assert!(other.contains("\n504 ") && !other.contains("path=out"), "{other}");
}

#[test]
fn a_slow_upload_says_nothing_of_the_path() {
    let Some(bed) = Bed::new("t-knownl") else { return };
    let slow = &["--limit", "10M"];
    bed.copy("tcp", 1, false, slow);
    assert!(!bed.here("b/farline/paths").exists(), "a limited copy is no word on a path");
    // A node keeps the rate of the second half, where that took two round trips and more.
    bed.copy_as("other", "tcp", 32, false, &[]);
    let rate = |(_, seen): (PathBuf, Value)| seen["rate"].as_f64().expect("a number");
    let before = rate(bed.document("b"));
    assert!(before > 40e6, "{before}");
    bed.copy("tcp", 2, false, slow);
    assert_eq!(rate(bed.document("b")), before, "what it was");
    let url = format!("farline://{}-b:2811", bed.link.name());
    let args = ["--json", "plan", &url, "--size", "1GB"];
    let planned = json_of(&mut knowing(bed.link.farline("a", &args), &bed.here("planner")));
    assert!(planned["rate_bps"].as_f64().expect("a rate") > 40e6, "{planned}");
    // Nobody waits for the writer of a FIFO in the place of the record.
    let (place, _) = bed.document("other");
    std::fs::remove_file(&place).expect("it is there");
    rustix::fs::mkfifoat(rustix::fs::CWD, &place, 0o600.into()).expect("a FIFO");
    bed.copy_as("other", "tcp", 1, false, &[]);
}

#[test]
fn a_control_that_udt_has_not_is_refused_before_data_moves() {
    let Some(bed) = Bed::new("t-knownc") else { return };
    let refused = |channel: &str, control: &str| {
        let near = bed.here("near");
        plant_file(&near, 1, 7);
        let url = format!("farlines://{}-b:2811/far", bed.link.name());
        let near = near.to_str().expect("text");
        let args = ["--json", "cp", "--tls-pin", &bed.fingerprint, "--channel", channel];
        let args = [&args[..], &["--congestion", control, near, &url]].concat();
        let output = bed.link.farline("a", &args).output().expect("farline runs");
        let said: Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!(said["error"]["code"], "unknown-congestion", "{channel}: {said}");
        assert!(!bed.here("root/far").exists(), "{channel}: something moved");
    };
    refused("udt", "htcp");
    refused("udt:bbr", "cubic");
    let out = bed.copy("udt", 1, false, &[]);
    let reasons = out["reasons"].to_string();
    assert_eq!(out["congestion"], "udt");
    assert!(reasons.contains("udt, as UDT channels have it"), "{reasons}");
    assert!(!reasons.contains("rather than this host's"), "{reasons}");
    // A node that sends has the control that was asked for.
    let back = bed.copy("udt", 1, true, &["--congestion", "bbr"]);
    assert_eq!(back["notes"].as_array().map(Vec::len), Some(0), "{back}");
}

#[test]
fn bbr_over_udt_says_that_it_begins_as_over_any_path() {
    let Some(bed) = Bed::new("t-knownb") else { return };
    bed.copy("udt", 4, false, &[]);
    bed.document("a");
    let again = bed.copy("udt:bbr", 1, false, &[]);
    assert_eq!(begins(&again), None);
    let reasons = again["reasons"].to_string();
    assert!(reasons.contains("begins as over any path"), "{reasons}");
}

#[test]
fn who_may_load_no_bpf_begins_by_more_channels() {
    let Some(bed) = Bed::over("t-knowno", &["custom", "--rate", "100M", "--rtt", "6ms"], &[])
    else {
        return;
    };
    plant_file(&bed.here("near"), 16, 7);
    bed.copy_without_bpf(&["--streams", "1"]);
    // As if it were 400 Gbit/s: a plan takes a path to be 10 Gbit/s, and so has the channels that a
    // slower one has use for already.
    let (place, mut seen) = bed.document("a");
    let rtt = seen["rtt"].as_u64().expect("nanoseconds");
    seen["rate"] = 400_000_000_000_u64.into();
    seen["in_flight"] = (50 * rtt).into();
    std::fs::write(&place, seen.to_string()).expect("written");

    let one = bed.copy_without_bpf(&["--streams", "1"]);
    assert_eq!((begins(&one), one["streams"].as_u64()), (None, Some(1)), "{}", one["reasons"]);
    let said = one["reasons"].to_string();
    // Who may load nothing may often not choose cubic either.
    let why = match said.contains("\"cubic") {
        true => "it takes BPF",
        false => "only cubic begins from it",
    };
    assert!(said.contains("begins as over any path") && said.contains(why), "{said}");

    // Zeros are not sent, but planned for.
    let near = std::fs::File::create(bed.here("near")).expect("made");
    near.set_len(256 << 20).expect("long");
    std::fs::write(&place, seen.to_string()).expect("written");
    let more = bed.copy_without_bpf(&[]);
    let said = more["reasons"].to_string();
    assert_eq!(more["streams"], 16, "{said}");
    assert!(said.contains("of any path, as this one held") && said.contains("BPF"), "{said}");
    assert!(!said.contains("begins as over any path"), "{said}");
    // It goes by the path alone where that is the one that is known.
    seen["rtt"] = (100 * rtt).into();
    seen["in_flight"] = (5_000 * rtt).into();
    std::fs::write(&place, seen.to_string()).expect("written");
    let other = bed.copy_without_bpf(&[]);
    assert!(other["streams"].as_u64() < Some(16), "{}", other["reasons"]);
}
