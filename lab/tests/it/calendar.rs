//! A calendar end to end: booked over HTTPS by the command, killed, begun again, and closed to who
//! is unknown.

use farline_lab::files::copy_program;
use farline_lab::{Running, farline, succeed};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A calendar and how to ask it.
pub(crate) struct Calendar {
    pub(crate) running: Running,
    pub(crate) state: PathBuf,
    url: String,
    pin: String,
}

impl Calendar {
    /// Starts one whose state is in `state`, with more flags.
    pub(crate) fn serve(state: &Path, more: &[&str]) -> Calendar {
        let mut command = farline();
        command.args(["--json", "calendar", "serve", "--listen", "127.0.0.1:0", "--state"]);
        Calendar::begun(state, command.arg(state).args(more))
    }

    /// Starts it by `command`; its state is in `state`.
    pub(crate) fn begun(state: &Path, command: &mut Command) -> Calendar {
        let (running, line) = Running::begun(command);
        let said: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let text = |key: &str| said[key].as_str().expect("text").to_owned();
        Calendar { running, state: state.to_owned(), url: text("url"), pin: text("fingerprint") }
    }

    /// A command that asks it with the token in `token`.
    pub(crate) fn farline_as(&self, token: &Path) -> Command {
        self.asked_by(farline(), token)
    }

    /// A `farline` that asks it so, wherever it runs.
    pub(crate) fn asked_by(&self, mut command: Command, token: &Path) -> Command {
        command
            .env("FARLINE_CALENDAR", &self.url)
            .env("FARLINE_CALENDAR_PIN", &self.pin)
            .env("FARLINE_CALENDAR_TOKEN_FILE", token)
            .env("TZ", "UTC")
            .arg("--json");
        command
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The same with the token for everything.
    pub(crate) fn farline(&self) -> Command {
        self.farline_as(&self.state.join("admin.token"))
    }

    /// A token of these flags in a file of its own.
    pub(crate) fn token(&self, name: &str, flags: &[&str]) -> PathBuf {
        let mut command = farline();
        command.args(["calendar", "token", "add", name, "--project", name, "--state"]);
        let secret = succeed(command.arg(&self.state).args(flags));
        let path = self.state.join(format!("{name}.token"));
        std::fs::write(&path, secret).expect("written");
        path
    }

    /// Kills it, and starts it again.
    fn again(mut self) -> Calendar {
        self.running.end(Signal::KILL);
        Calendar::serve(&self.state, &[])
    }
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

pub(crate) fn done(command: &mut Command) -> Value {
    serde_json::from_str(&succeed(command)).expect("one object")
}

/// Runs what is refused; returns its exit code and what it says.
pub(crate) fn refused(command: &mut Command) -> (i32, Value) {
    let output = command.output().expect("farline starts");
    (output.status.code().expect("an exit code"), json(&output))
}

/// The day in 30 days and `more`, of which the calendar knows nothing yet: `2027-01-02`.
pub(crate) fn day(more: i64) -> String {
    let ahead = jiff::SignedDuration::from_hours(24 * (30 + more));
    jiff::Zoned::now()
        .with_time_zone(jiff::tz::TimeZone::UTC)
        .saturating_add(ahead)
        .strftime("%F")
        .to_string()
}

/// Two hours of that day, from one end of the network to the other.
pub(crate) fn slot() -> [String; 6] {
    let start = format!("{}T18:00", day(0));
    ["oak-ridge", "sunnyvale", "--start", &start, "--for", "2h"].map(str::to_owned)
}

#[test]
fn channels_are_booked_refused_changed_and_given_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    // Two lambdas of 9.6 Gbit/s lead there: two bookings of 6 go over one each.
    let book = |rate: &str| {
        let mut command = calendar.farline();
        command.arg("reserve").args(slot()).args(["--rate", rate]);
        command
    };
    let first = done(&mut book("6G"));
    let second = done(&mut book("6G"));
    assert_eq!((&first["id"], &second["id"]), (&"r-1".into(), &"r-2".into()));
    assert_ne!(first["legs"][0]["route"], second["legs"][0]["route"]);
    let third = done(&mut book("3G"));
    let (code, fourth) = refused(&mut book("6G"));
    assert_eq!((code, fourth["error"]["code"].as_str()), (6, Some("calendar-refused")));
    let kinds: Vec<&str> = fourth["refusal"]["alternatives"]
        .as_array()
        .expect("alternatives")
        .iter()
        .filter_map(|alternative| alternative["kind"].as_str())
        .collect();
    assert!(kinds.len() >= 3 && kinds.contains(&"later") && kinds.contains(&"slower"), "{kinds:?}");
    assert_eq!(fourth["refusal"]["obstacles"][0]["start"], format!("{}T18:00:00Z", day(0)));
    let taken = done(book("6G").args(["--take", "later"]));
    assert_eq!(
        taken["legs"][0]["start"],
        format!("{}T20:00:00Z", day(0)),
        "right after the others"
    );
    let id = third["id"].as_str().expect("text");
    let change = |flags: &[&str]| {
        let mut command = calendar.farline();
        command.args(["reserve", "change", id]).args(flags);
        command
    };
    assert_eq!(done(&mut change(&["--rate", "3.5G"]))["version"], 2);
    assert_eq!(refused(&mut change(&["--rate", "5G"])).0, 6);
    let listed = done(calendar.farline().args(["reserve", "ls"]));
    assert_eq!(listed["reservations"].as_array().map(Vec::len), Some(4));
    let cancelled = done(calendar.farline().args(["reserve", "cancel", id]));
    assert_eq!(
        (&cancelled["state"], &cancelled["ended"]),
        (&"terminated".into(), &"cancelled".into())
    );
    assert_eq!(done(&mut book("3.6G"))["state"], "provisioned", "its bandwidth is free again");
    let by = format!("{}T00:00", day(0));
    let volume = ["reserve", "oak-ridge", "chicago", "--volume", "40TB", "--by", &by];
    let volume = done(calendar.farline().args(volume));
    assert_eq!(volume["legs"][0]["rate_bps"], 9_600_000_000_u64, "as early as can be");
    let slots = ["reserve", "oak-ridge", "sunnyvale", "--rate", "9G", "--for", "2h", "--search"];
    let (noon, midnight) = (format!("{}T12:00", day(0)), format!("{}T00:00", day(1)));
    let window = ["--start", &noon, "--by", &midnight];
    let slots = done(calendar.farline().args(slots).args(window));
    let starts: Vec<(&str, &str)> = slots["starts"]
        .as_array()
        .expect("windows")
        .iter()
        .filter_map(|w| Some((w["start"].as_str()?, w["end"].as_str()?)))
        .collect();
    let first = (format!("{noon}:00Z"), format!("{}T16:00:00Z", day(0)));
    assert_eq!(starts.first(), Some(&(&*first.0, &*first.1)), "ends where they begin");
}

#[test]
fn a_volume_takes_several_routes_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let day = day(0);
    let at = |hour: u32| format!("{day}T{hour:02}:00:00Z");
    let ask = |from: u32, words: &[&str]| {
        let mut command = calendar.farline();
        command.args(["reserve", "oak-ridge", "sunnyvale", "--start", &at(from)]).args(words);
        command
    };
    // An hour's volume on both lambdas of 9.6 Gbit/s takes two on one.
    let volume = |from: u32, volume: &str, more: &[&str]| {
        let by = at(23);
        done(ask(from, &["--volume", volume, "--by", &by]).args(more))
    };
    let legs = |known: &Value| -> Vec<(u64, String, String)> {
        let leg = |leg: &Value| {
            let text = |key: &str| leg[key].as_str().expect("text").to_owned();
            (leg["rate_bps"].as_u64().expect("a rate"), text("start"), text("end"))
        };
        let mut legs: Vec<_> = known["legs"].as_array().expect("legs").iter().map(leg).collect();
        legs.sort_unstable();
        legs
    };
    let one = volume(12, "8640GB", &[]);
    assert_eq!(legs(&one), [(9_600_000_000, at(12), at(14))]);
    done(calendar.farline().args(["reserve", "cancel", "r-1"]));
    let both = volume(12, "8640GB", &["--several"]);
    let leg = (9_600_000_000, at(12), at(13));
    assert_eq!(legs(&both), [leg.clone(), leg]);
    let links = |known: &Value, leg: usize| -> Vec<String> {
        let route = known["legs"][leg]["route"].as_array().expect("a route");
        route.iter().map(|link| link.as_str().expect("a name").to_owned()).collect()
    };
    let (first, second) = (links(&both, 0), links(&both, 1));
    assert!(first.len() == 3 && second.len() == 3, "{both}");
    assert!(first.iter().all(|link| !second.contains(link)), "no link twice: {both}");
    assert_eq!(refused(ask(12, &["--for", "1h"]).args(["--rate", "1M"])).0, 6, "all is taken");
    // What is left of the one and all of the other: at two rates, at once.
    done(ask(14, &["--for", "1h"]).args(["--rate", "6G"]));
    let rest = volume(14, "5940GB", &["--several"]);
    let expected = [3_600_000_000, 9_600_000_000].map(|rate| (rate, at(14), at(15)));
    assert_eq!(legs(&rest), expected);
    // People read both routes; a calendar that is begun again has them.
    let id = rest["id"].as_str().expect("text");
    let mut shown = farline();
    for (name, value) in calendar.farline().get_envs() {
        shown.env(name, value.expect("a value"));
    }
    let text = succeed(shown.args(["reserve", "show", id]));
    assert!(["3.60 Gbit/s", "9.60 Gbit/s"].iter().all(|rate| text.contains(rate)), "{text}");
    let calendar = calendar.again();
    assert_eq!(done(calendar.farline().args(["reserve", "show", id])), rest);
    let listed = done(calendar.farline().args(["reserve", "ls"]));
    assert_eq!(listed["reservations"].as_array().map(Vec::len), Some(3));
    // It is given back as a whole.
    done(calendar.farline().args(["reserve", "cancel", both["id"].as_str().expect("text")]));
    let mut again = calendar.farline();
    again.args(["reserve", "oak-ridge", "sunnyvale", "--start", &at(12), "--for", "1h"]);
    done(again.args(["--rate", "9.6G"]));
}

#[test]
fn what_a_calendar_said_yes_to_outlives_its_death() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let hold = ["--rate", "2G", "--hold", "90s"];
    let held = done(calendar.farline().arg("reserve").args(slot()).args(hold));
    assert_eq!(held["state"], "held");
    for round in 0..4 {
        let booked = done(calendar.farline().arg("reserve").args(slot()).args(["--rate", "1G"]));
        calendar = calendar.again();
        let id = booked["id"].as_str().expect("text");
        let there = done(calendar.farline().args(["reserve", "show", id]));
        assert_eq!(there, booked, "round {round}");
    }
    let there = done(calendar.farline().args(["reserve", "show", "r-1"]));
    assert_eq!(there, held, "the hold is there, and so is its timer");
    assert_eq!(done(calendar.farline().args(["reserve", "commit", "r-1"]))["state"], "provisioned");
    // A hold whose timer runs out while nobody runs is over when somebody does.
    let hold = ["--rate", "2G", "--hold", "1s"];
    let held = done(calendar.farline().arg("reserve").args(slot()).args(hold));
    calendar.running.end(Signal::KILL);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let calendar = Calendar::serve(&calendar.state, &[]);
    let id = held["id"].as_str().expect("text");
    let over = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        done(calendar.farline().args(["reserve", "show", id]))["ended"] == "expired"
    });
    assert!(over, "the hold is over");
    let verified =
        succeed(farline().args(["--json", "calendar", "verify", "--state"]).arg(&calendar.state));
    assert!(verified.contains("\"entries\":"), "{verified}");
}

#[test]
fn who_is_unknown_or_has_no_right_gets_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let flags = ["--endpoints", "oak-ridge,chicago", "--highest-rate", "2G"];
    let ada = calendar.token("ada", &flags);
    let eve = calendar.token("eve", &["--endpoints", "*"]);
    let looks = calendar.token("looks", &["--endpoints", "*", "--role", "viewer"]);
    let forged = dir.path().join("forged");
    std::fs::write(&forged, format!("farline-{}", "0".repeat(64))).expect("written");
    // Known within a second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let evening = format!("{}T18:00", day(0));
    let start = ["--start", &evening, "--for", "1h", "--rate"];
    let book = |token: &Path, to: &str, rate: &str| {
        let mut command = calendar.farline_as(token);
        command.args(["reserve", "oak-ridge", to]).args(start).arg(rate);
        command
    };
    for (token, to, rate, code) in [
        (&forged, "chicago", "1G", "calendar-denied"),
        (&ada, "sunnyvale", "1G", "calendar-denied"),
        (&ada, "chicago", "3G", "calendar-denied"),
        (&looks, "chicago", "1G", "calendar-denied"),
        (&ada, "nowhere", "1G", "calendar-request"),
        (&ada, "chicago", "90G", "calendar-request"),
    ] {
        let (_, said) = refused(&mut book(token, to, rate));
        assert_eq!(said["error"]["code"], code, "{to} {rate}: {said}");
    }
    let hers = done(&mut book(&ada, "chicago", "2G"));
    let id = hers["id"].as_str().expect("text");
    for verb in ["show", "cancel", "release"] {
        let (code, said) = refused(calendar.farline_as(&eve).args(["reserve", verb, id]));
        let missing =
            said["error"]["message"].as_str().is_some_and(|m| m.contains("no reservation"));
        assert!(code == 2 && missing, "another project's is not there: {said}");
    }
    let mut other = calendar.farline_as(&ada);
    other.env("FARLINE_CALENDAR_PIN", "ab".repeat(32)).args(["reserve", "ls"]);
    assert_eq!(refused(&mut other).1["error"]["code"], "tls-untrusted");
    let mut clear = calendar.farline_as(&ada);
    clear.env("FARLINE_CALENDAR", calendar.url.replace("https", "http")).args(["reserve", "ls"]);
    assert_eq!(refused(&mut clear).1["error"]["code"], "bad-url", "nothing but TLS");
    succeed(farline().args(["calendar", "token", "revoke", "ada", "--state"]).arg(&calendar.state));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let (_, said) = refused(calendar.farline_as(&ada).args(["reserve", "ls"]));
    assert_eq!(said["error"]["code"], "calendar-denied", "revoked");
}

#[test]
fn every_change_is_told_once_and_in_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let book = || done(calendar.farline().arg("reserve").args(slot()).args(["--rate", "1G"]));
    let first = book();
    let id = first["id"].as_str().expect("text");
    done(calendar.farline().args(["reserve", "change", id, "--rate", "2G"]));
    let watch = ["reserve", "watch", "--idle", "1s", "--after"];
    let told = |after: &str| {
        let text = succeed(calendar.farline().args(watch).arg(after));
        let events: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        events
            .iter()
            .map(|event| (event["seq"].as_u64().expect("a number"), event["verb"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(told("0"), [(1, "reserve".into()), (2, "change".into())]);
    done(calendar.farline().args(["reserve", "cancel", id]));
    assert_eq!(told("2"), [(3, "cancel".into())], "it goes on where it left off");
}

/// Asks by curl, which is somebody else's client; returns the status and the body.
pub(crate) fn curl(calendar: &Calendar, token: &Path, path: &str, more: &[&str]) -> (u16, String) {
    let secret = std::fs::read_to_string(token).expect("a token");
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "-w", "\n%{http_code}", "--cacert"])
        .arg(calendar.state.join("certificate.pem"))
        .args(["-H", &format!("Authorization: Bearer {}", secret.trim())])
        .args(["-H", "Content-Type: application/json"])
        .args(more)
        .arg(format!("{}{path}", calendar.url))
        .output()
        .expect("curl runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", "0"));
    (status.parse().expect("a status"), body.to_owned())
}

#[test]
fn a_key_is_of_one_request() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let admin = calendar.state.join("admin.token");
    let day = day(0);
    let body = |rate: u64| {
        format!(
            r#"{{"from":"chicago","to":"seattle","for":{{"problem":"fixed","rate_bps":{rate},
            "start":"{day}T00:00:00Z","end":"{day}T01:00:00Z"}}}}"#
        )
    };
    let post = |rate, key: &str| {
        let (body, key) = (body(rate), format!("Idempotency-Key: {key}"));
        curl(&calendar, &admin, "/v1/reservations", &["-H", &key, "-d", &body])
    };
    let first = post(1_000_000_000, "k1");
    assert_eq!(first.0, 201, "{}", first.1);
    assert_eq!(post(1_000_000_000, "k1"), first, "the same once more is the same");
    let (status, body) = post(2_000_000_000, "k1");
    assert!(status == 422 && body.contains("key-reused"), "{status} {body}");
    assert_eq!(post(1_000_000_000, "k2").0, 201);
    let listed = done(calendar.farline().args(["reserve", "ls"]));
    assert_eq!(listed["reservations"].as_array().map(Vec::len), Some(2));
    // What is done already is replied as it was.
    let close = format!(
        r#"{{"link":"chicago>seattle/1","start":"{day}T04:00:00Z","end":"{day}T05:00:00Z"}}"#
    );
    assert_eq!(curl(&calendar, &admin, "/v1/closures", &["-d", &close]).0, 201);
    let reopen = || curl(&calendar, &admin, "/v1/closures/1/reopen", &["-X", "POST"]);
    let (status, once) = reopen();
    assert!(status == 200 && once.contains("\"withdrawn\":true"), "{status} {once}");
    assert_eq!(reopen(), (200, once));
    // A version that is not there any more.
    let stale = ["-X", "PATCH", "-H", "If-Match: \"7\"", "-d", r#"{"rate_bps":5}"#];
    assert_eq!(curl(&calendar, &admin, "/v1/reservations/r-1", &stale).0, 412);
    let fresh = ["-X", "PATCH", "-H", "If-Match: \"1\"", "-d", r#"{"rate_bps":500000000}"#];
    let (status, body) = curl(&calendar, &admin, "/v1/reservations/r-1", &fresh);
    assert!(status == 200 && body.contains("\"version\":2"), "{status} {body}");
    for (path, more, status) in [
        ("/v1/nothing", vec![], 404),
        ("/v1/reservations/r-99", vec![], 404),
        ("/v1/reservations/x", vec![], 404),
        ("/v1/reservations", vec!["-d", "{"], 422),
        ("/v1/reservations", vec!["-d", r#"{"from":"a"}"#], 422),
        ("/v1/reservations?limit=0", vec![], 422),
        ("/v1/reservations?odd=1", vec![], 422),
        ("/v1/topology", vec!["-X", "DELETE"], 405),
        ("/v1/events?after=x", vec![], 422),
    ] {
        let (actual, body) = curl(&calendar, &admin, path, &more);
        assert_eq!(actual, status, "{path} {more:?}: {body}");
        let problem: Value = serde_json::from_str(&body).expect("a problem");
        assert_eq!(problem["status"], status, "{body}");
    }
}

#[test]
fn only_tls_1_3_is_spoken() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let admin = calendar.state.join("admin.token");
    assert_eq!(curl(&calendar, &admin, "/v1/topology", &[]).0, 200);
    assert_eq!(curl(&calendar, &admin, "/v1/topology", &["--tls-max", "1.2"]).0, 0, "no TLS 1.2");
}

#[test]
fn agents_only_report() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let agent = calendar.token("agent", &["--role", "agent"]);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let booked = done(calendar.farline().arg("reserve").args(slot()).args(["--rate", "1G"]));
    let id = booked["id"].as_str().expect("text");
    let report = |id: &str, up: bool| {
        format!(r#"{{"id":"{id}","up":{up},"rate_bps":1000000000,"carried_bytes":5}}"#)
    };
    let put = |token: &Path, id: &str, body: &str| {
        curl(&calendar, token, &format!("/v1/circuits/{id}"), &["-X", "PUT", "-d", body]).0
    };
    assert_eq!(put(&agent, id, &report(id, true)), 204);
    assert_eq!(put(&agent, "r-99", &report("r-99", true)), 404, "no such booking");
    assert_eq!(put(&agent, id, &report("r-2", true)), 422, "of another");
    for odd in [r#""number":99"#, r#""site":"seattle""#, r#""site":"nowhere""#, r#""odd":1"#] {
        let body = report(id, true).replace(r#""up""#, &format!(r#"{odd},"up""#));
        assert_eq!(put(&agent, id, &body), 422, "{odd}");
    }
    assert_eq!(curl(&calendar, &agent, &format!("/v1/reservations/{id}"), &[]).0, 200);
    for (verb, path) in [("terminate", id), ("release", id)] {
        let path = format!("/v1/reservations/{path}/{verb}");
        assert_eq!(curl(&calendar, &agent, &path, &["-X", "POST"]).0, 403, "{verb}");
    }
    let (status, circuits) = curl(&calendar, &agent, "/v1/circuits", &[]);
    assert!(status == 200 && circuits.contains("\"carried_bytes\":5"), "{circuits}");
    let user = calendar.token("user", &["--endpoints", "*"]);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(put(&user, id, &report(id, true)), 403, "a user is no agent");
}

#[test]
fn secrets_are_their_owners_alone() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let mode = |path: &Path| std::fs::metadata(path).expect("there").mode() & 0o777;
    assert_eq!(mode(&calendar.state), 0o700);
    for name in ["admin.token", "key.pem"] {
        assert_eq!(mode(&calendar.state.join(name)), 0o600, "{name}");
    }
    let secret = std::fs::read(calendar.state.join("admin.token")).expect("a token");
    for entry in std::fs::read_dir(&calendar.state).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("calendar.db")) {
            let bytes = std::fs::read(&path).expect("a database");
            let has =
                bytes.windows(secret.len() - 1).any(|part| part == &secret[..secret.len() - 1]);
            assert!(!has, "{} has the token's secret", path.display());
        }
    }
}

/// A switch of an operator's own: circuits in a file, and a log of its orders. It hangs while there
/// is a file `hang` next to it.
const SWITCH: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
at = lambda name: os.path.join(here, name)
while os.path.exists(at("hang")):
    time.sleep(0.1)
order = json.load(sys.stdin)
known = json.load(open(at("known"))) if os.path.exists(at("known")) else {}
number = str(order.get("number"))
verb = order["verb"]
if verb == "show":
    print(json.dumps({"circuits": list(known.values())}))
    sys.exit(0)
with open(at("log"), "a") as log:
    log.write(verb + "\n")
if verb == "prepare":
    known[number] = {"number": order["number"], "rate_bps": order["rate_bps"], "open": False,
                     "route": order["route"], "carried_bytes": 7,
                     "addresses": ["192.0.2.1", "192.0.2.2"]}
elif verb == "change":
    known[number]["rate_bps"] = order["rate_bps"]
elif verb in ("open", "shut"):
    known[number]["open"] = verb == "open"
elif verb == "remove":
    known.pop(number, None)
json.dump(known, open(at("new"), "w"))
os.rename(at("new"), at("known"))
"#;

#[test]
fn a_program_makes_circuits_and_its_silence_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let switch = dir.path().join("switch");
    let written = dir.path().join("switch.py");
    std::fs::write(&written, SWITCH).expect("written");
    std::fs::set_permissions(&written, PermissionsExt::from_mode(0o755)).expect("it may run");
    copy_program(&written, &switch);
    let mut agent = calendar.farline();
    agent.args(["agent", "--patience", "3s", "--command"]).arg(&switch);
    let (_agent, line) = Running::begun(&mut agent);
    assert!(line.contains("farline/agent/1"), "{line}");
    let book = ["reserve", "oak-ridge", "chicago", "--rate", "1G", "--start", "now", "--for", "1h"];
    assert_eq!(done(calendar.farline().args(book))["id"], "r-1");
    let until = |what: &str, is_so: &dyn Fn(&Value) -> bool| {
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_secs(60) {
            let circuits = done(calendar.farline().args(["reserve", "circuits"]));
            if is_so(&circuits["circuits"][0]["report"]) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{what}: {}", done(calendar.farline().args(["reserve", "circuits"])));
    };
    until("it is up", &|r| r["up"] == true && r["addresses"][1] == "192.0.2.2");
    done(calendar.farline().args(["reserve", "change", "r-1", "--rate", "2G"]));
    until("it has another rate", &|r| r["rate_bps"] == 2_000_000_000_u64);
    // A switch that lies about a rate is brought to what is booked.
    let known = std::fs::read_to_string(dir.path().join("known")).expect("circuits");
    std::fs::write(dir.path().join("known"), known.replace("2000000000", "9000000000"))
        .expect("so");
    until("it is mended", &|_| {
        std::fs::read_to_string(dir.path().join("known")).is_ok_and(|k| k.contains("2000000000"))
    });
    std::fs::write(dir.path().join("hang"), "").expect("written");
    until("its silence is told", &|r| {
        r["trouble"].as_str().is_some_and(|why| why.contains("does not reply"))
    });
    std::fs::remove_file(dir.path().join("hang")).expect("removed");
    until("it is back", &|r| r["up"] == true && r["trouble"].is_null());
    done(calendar.farline().args(["reserve", "cancel", "r-1"]));
    let log = || std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    for _ in 0..200 {
        if log().ends_with("remove\n") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(log(), "prepare\nopen\nchange\nchange\nshut\nremove\n");
}
