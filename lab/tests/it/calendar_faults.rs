//! What a calendar does amid faults: requests that make no sense, a database that is full or gone,
//! clocks that step, agents that lie, and a project that wants everything.

use crate::calendar::{Calendar, curl, day, done, refused, slot};
use farline_lab::{farline, farline_binary, succeed};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Asks until what comes is as `is_so` has it, for half a minute.
fn until<T: std::fmt::Debug>(
    what: &str,
    mut ask: impl FnMut() -> T,
    is_so: impl Fn(&T) -> bool,
) -> T {
    let begun = Instant::now();
    loop {
        let seen = ask();
        if is_so(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {seen:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn standing(calendar: &Calendar) -> Vec<String> {
    let listed = done(calendar.farline().args(["reserve", "ls"]));
    let all = listed["reservations"].as_array().expect("a list");
    all.iter().map(|known| known["id"].as_str().expect("text").to_owned()).collect()
}

/// Entries of the log, after its chain was gone through.
fn verified(state: &Path) -> u64 {
    entries(farline().args(["--json", "calendar", "verify", "--state"]).arg(state))
}

fn entries(verify: &mut Command) -> u64 {
    let said = succeed(verify);
    let said: Value = serde_json::from_str(&said).expect("an object");
    said["entries"].as_u64().expect("a number")
}

#[test]
fn a_request_that_makes_no_sense_has_one_reply() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let admin = calendar.state.join("admin.token");
    let (day, later) = (day(0), day(1));
    let fixed = |from: &str, to: &str, rate: u64, start: &str, end: &str| {
        format!(
            r#"{{"from":"{from}","to":"{to}","for":{{"problem":"fixed","rate_bps":{rate},"start":"{start}","end":"{end}"}}}}"#
        )
    };
    let (start, end) = (format!("{day}T18:00:00Z"), format!("{day}T20:00:00Z"));
    let (a, b) = ("chicago", "seattle");
    for (body, word) in [
        (fixed(a, b, 1, "2020-01-01T00:00:00Z", "2020-01-01T01:00:00Z"), "begins in the past"),
        (fixed(a, b, 1, &end, &start), "ends before it starts"),
        (fixed(a, b, 1, &start, &start), "ends before it starts"),
        (fixed(a, b, 90_000_000_000, &start, &end), "more than any link carries"),
        (fixed(a, b, 0, &start, &end), "a rate of zero"),
        (fixed("nowhere", b, 1, &start, &end), "no site `nowhere`"),
        (fixed(a, a, 1, &start, &end), "two different sites"),
        (fixed(a, b, 1, &start, "2200-01-01T00:00:00Z"), "more than 400 days"),
        (fixed(a, b, 1, &start, "9999-01-01T00:00:00Z"), "the years 1970 to"),
        (fixed(a, b, 1, &start, "tomorrow"), "no time of RFC 3339"),
        (fixed(a, b, 1, &start, &end).replace("fixed", "cheapest"), "cheapest"),
        (
            format!(
                r#"{{"from":"{a}","to":"{b}","for":{{"problem":"volume","volume_bytes":0,"end":"{later}T00:00:00Z"}}}}"#
            ),
            "nothing to move",
        ),
        ("{".to_owned(), "the body"),
    ] {
        let (status, said) = curl(&calendar, &admin, "/v1/reservations", &["-d", &body]);
        let problem: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        let detail = problem["detail"].as_str().expect("text");
        assert!(status == 422 && detail.contains(word), "{body}: {status} {said}");
        assert!(problem["title"].is_string() && problem["type"].is_string(), "{said}");
    }
    assert_eq!(standing(&calendar), [] as [&str; 0], "nothing was booked");
    assert_eq!(verified(&calendar.state), 0);
}

#[test]
fn two_clients_with_one_key_book_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let admin = calendar.state.join("admin.token");
    let day = day(0);
    let post = |rate: u64| {
        let body = format!(
            r#"{{"from":"chicago","to":"seattle","for":{{"problem":"fixed","rate_bps":{rate},
            "start":"{day}T00:00:00Z","end":"{day}T01:00:00Z"}}}}"#
        );
        let key = ["-H", "Idempotency-Key: the-same", "-d", &body];
        curl(&calendar, &admin, "/v1/reservations", &key)
    };
    let post = &post;
    let replies: Vec<(u64, u16, String)> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..12_u64)
            .map(|at| {
                scope.spawn(move || {
                    let rate = 1_000_000_000 * (1 + at % 2);
                    let (status, body) = post(rate);
                    (rate, status, body)
                })
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().expect("curl")).collect()
    });
    let won: Vec<_> = replies.iter().filter(|(_, status, _)| *status == 201).collect();
    assert!(won.iter().all(|known| *known == won[0]) && won.len() == 6, "{replies:?}");
    for (rate, status, body) in replies.iter().filter(|(rate, ..)| *rate != won[0].0) {
        assert!(*status == 422 && body.contains("key-reused"), "{rate}: {status} {body}");
    }
    assert_eq!(standing(&calendar), ["r-1"]);
    // Somebody else's key of that name is another.
    let eve = calendar.token("eve", &["--endpoints", "*"]);
    let key = ["-H", "Idempotency-Key: the-same", "-d"];
    let body = format!(
        r#"{{"from":"chicago","to":"seattle","for":{{"problem":"highest",
        "start":"{day}T02:00:00Z","end":"{day}T03:00:00Z"}}}}"#
    );
    let hers = || curl(&calendar, &eve, "/v1/reservations", &[&key[..], &[&body]].concat());
    let (status, said) = until("her token is known", hers, |(status, _)| *status != 401);
    assert!(status == 201 && said.contains("\"r-2\""), "{status} {said}");
}

#[test]
fn a_project_that_wants_everything_gets_its_quota() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = dir.path().join("calendar.toml");
    // 1 Gbit/s for two hours are 900 GB.
    let quotas = "longest_hold = \"4s\"\n[project.\"*\"]\nheld = \"2TB\"\nbooked = \"4TB\"\n";
    std::fs::write(&config, quotas).expect("written");
    let config = config.to_string_lossy().into_owned();
    let calendar = Calendar::serve(&dir.path().join("state"), &[&config]);
    let (eve, ada) = (
        calendar.token("eve", &["--endpoints", "*"]),
        calendar.token("ada", &["--endpoints", "*"]),
    );
    let book = |token: &Path, more: &[&str]| {
        let mut command = calendar.farline_as(token);
        command.arg("reserve").args(slot()).args(more);
        command
    };
    let ask = || book(&eve, &["--rate", "2G", "--hold", "1h"]).output().expect("runs");
    until("her token is known", ask, |output| output.status.success());
    let over = |more: &[&str]| {
        let (code, said) = refused(&mut book(&eve, more));
        let message = said["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(code == 6 && message.contains("quota"), "{said}");
    };
    over(&["--rate", "1G", "--hold", "1h"]);
    over(&["--rate", "9G"]);
    // Others have what she has not, and more than she was refused.
    assert_eq!(done(&mut book(&ada, &["--rate", "4G"]))["state"], "provisioned");
    // What she asked to hold for an hour is held as long as anybody may.
    let gone = || done(calendar.farline().args(["reserve", "show", "r-1"]));
    until("her hold is over", gone, |known| known["ended"] == "expired");
    assert_eq!(done(&mut book(&eve, &["--rate", "4G"]))["state"], "provisioned");
    over(&["--rate", "1G"]);
    assert_eq!(standing(&calendar), ["r-2", "r-3"]);
}

/// A calendar whose state is on a file system of its own, of 1 MiB; `None` where that cannot be.
fn on_a_small_disk(folder: &Path) -> Option<Calendar> {
    if !rustix::process::geteuid().is_root() {
        farline_lab::skip("a mount of its own needs root");
        return None;
    }
    let disk = folder.join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size=1m none {0} && exec {1} --json calendar serve --listen 127.0.0.1:0 \
         --state {0}/state",
        disk.display(),
        farline_binary().display()
    );
    let mut command = farline_lab::command("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let mut calendar = Calendar::begun(&disk.join("state"), &mut command);
    // Its files as this process sees them.
    let seen = PathBuf::from(format!("/proc/{}/root", calendar.running.0.id()));
    calendar.state = seen.join(disk.join("state").strip_prefix("/").expect("absolute"));
    Some(calendar)
}

#[test]
fn a_full_or_missing_database_costs_a_reply() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(calendar) = on_a_small_disk(dir.path()) else { return };
    let admin = calendar.state.join("admin.token");
    let day = day(0);
    let post = |key: &str| {
        let body = format!(
            r#"{{"from":"chicago","to":"seattle","for":{{"problem":"fixed","rate_bps":1000000000,
            "start":"{day}T00:00:00Z","end":"{day}T01:00:00Z"}}}}"#
        );
        let key = format!("Idempotency-Key: {key}");
        curl(&calendar, &admin, "/v1/reservations", &["-H", &key, "-d", &body])
    };
    let hold = ["--rate", "1G", "--hold", "2s"];
    done(calendar.farline().arg("reserve").args(slot()).args(hold));
    assert_eq!(post("first").0, 201);
    let filler = calendar.state.parent().expect("a folder").join("filler");
    // What SQLite has taken already is room for some more.
    let is_refused = |(status, said): &(u16, String)| {
        assert!(matches!(status, 201 | 503), "{status} {said}");
        *status == 503
    };
    let mut keys = 0..;
    let fill = || {
        let full = std::fs::write(&filler, vec![1; 2 << 20]).expect_err("it is full");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        post(&format!("full-{}", keys.next().unwrap_or(0)))
    };
    let (_, said) = until("it is full", fill, is_refused);
    let problem: Value = serde_json::from_str(&said).expect("a problem");
    let detail = problem["detail"].as_str().expect("text");
    assert!(detail.contains("nothing was changed") && detail.contains("make room"), "{said}");
    let (code, said) = refused(calendar.farline().args(["reserve", "cancel", "r-2"]));
    assert_eq!((code, &said["error"]["code"]), (4, &"calendar-store".into()), "{said}");
    // Who only asks is served; a hold whose time is over is not there any more as soon as it can be
    // written.
    let before = standing(&calendar);
    assert!(before.contains(&"r-2".to_owned()), "{before:?}");
    std::fs::remove_file(&filler).expect("removed");
    assert_eq!(post("with-room").0, 201, "it goes on when there is room");
    let gone = || done(calendar.farline().args(["reserve", "show", "r-1"]));
    until("the hold is over", gone, |known| known["ended"] == "expired");
    // The same key, of which it was said that nothing was changed: now it is done, and once.
    let again = post("full-0");
    assert_eq!((again.0, post("full-0")), (201, again));
    let verified = || {
        let (pid, disk) = (calendar.running.0.id(), dir.path().join("disk/state"));
        let mut command = farline_lab::command("nsenter");
        command.arg(format!("--mount=/proc/{pid}/ns/mnt")).arg(farline_binary());
        entries(command.args(["--json", "calendar", "verify", "--state"]).arg(disk))
    };
    let before = verified();
    // The database goes: what SQLite writes to then is nowhere.
    for name in ["calendar.db", "calendar.db-wal"] {
        let (file, away) = (calendar.state.join(name), calendar.state.join("away"));
        std::fs::rename(&file, &away).expect("away");
        let (status, said) = post(&format!("without-{name}"));
        assert!(status == 503 && said.contains("put the database's files back"), "{said}");
        std::fs::rename(&away, &file).expect("back");
    }
    assert_eq!(verified(), before, "nothing was written");
    assert_eq!(post("back").0, 201, "it goes on");
    assert_eq!(verified(), before + 1);
}

#[test]
fn an_agent_that_lies_or_vanishes_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let admin = calendar.state.join("admin.token");
    let book = ["reserve", "oak-ridge", "chicago", "--start", "now", "--for", "1h", "--rate"];
    for rate in ["1G", "2G", "3G"] {
        done(calendar.farline().args(book).arg(rate));
    }
    // Of the first it says another rate, of the second what is booked, and of the third nothing.
    let say = |id: &str, rate: u64| {
        let body = format!(r#"{{"id":"{id}","up":true,"rate_bps":{rate},"carried_bytes":0}}"#);
        let put = ["-X", "PUT", "-d", &body];
        assert_eq!(curl(&calendar, &admin, &format!("/v1/circuits/{id}"), &put).0, 204);
    };
    say("r-1", 5_000_000_000);
    say("r-2", 2_000_000_000);
    let told = || {
        let circuits = done(calendar.farline().args(["reserve", "circuits"]));
        ["r-1", "r-2", "r-3"].map(|id| {
            let mut all = circuits["circuits"].as_array().expect("a list").iter();
            let known = all.find(|known| known["report"]["id"] == id);
            known.and_then(|known| Some(known["report"]["trouble"].as_str()?.to_owned()))
        })
    };
    assert_eq!(told(), [None, None, None], "it has a moment");
    let seen = until("its lie is told", told, |seen| seen[0].is_some());
    assert_eq!(seen[0].as_deref(), Some("its device has 5.00 Gbit/s, and 1.00 Gbit/s is booked"));
    assert_eq!(seen[1], None);
    let seen = until("its silence is told", told, |seen| seen.iter().all(Option::is_some));
    assert!(
        seen[1].as_deref().is_some_and(|why| why.starts_with("its agent has said nothing for"))
    );
    assert_eq!(seen[2].as_deref(), Some("no agent has said anything of it"));
    say("r-1", 1_000_000_000);
    assert_eq!(told()[0], None, "it mended its ways");
    assert_eq!(standing(&calendar), ["r-1", "r-2", "r-3"], "bookings are not an agent's to change");
}

#[test]
fn each_route_and_each_end_has_a_word_of_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let admin = calendar.state.join("admin.token");
    let agent = calendar.token("agent", &["--role", "agent"]);
    // More than one route has: two circuits of one reservation.
    let mut book = calendar.farline();
    book.args(["reserve", "oak-ridge", "chicago", "--volume", "100TB", "--several"]);
    let booked = done(book.args(["--start", "now", "--by", "+23h"]));
    let legs = booked["legs"].as_array().expect("legs");
    let rates: Vec<u64> = legs.iter().filter_map(|leg| leg["rate_bps"].as_u64()).collect();
    assert!(rates.len() == 2 && legs[0]["route"] != legs[1]["route"], "{booked}");
    let say = |token: &Path, number: usize, site: &str, trouble: &str| {
        let rate = rates[number - 16];
        let body = serde_json::json!({
            "id": "r-1", "number": number, "site": site, "up": true, "rate_bps": rate,
            "carried_bytes": 0, "trouble": trouble,
        });
        let put = ["-X", "PUT", "-d", &body.to_string()];
        // A token that was made just now is known within a second.
        until("it may speak", || curl(&calendar, token, "/v1/circuits/r-1", &put).0, |s| *s == 204);
    };
    let told = || {
        let circuits = done(calendar.farline().args(["reserve", "circuits"]));
        let all = circuits["circuits"].as_array().cloned().unwrap_or_default().into_iter();
        let word = |known: Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let report = &known["report"];
            let number = report["number"].as_u64().unwrap_or_default();
            (number, text(&report["site"]), text(&known["agent"]), text(&report["trouble"]))
        };
        all.map(word).collect::<Vec<_>>()
    };
    let word = |number: u64, site: &str, agent: &str, trouble: &str| {
        (number, site.to_owned(), agent.to_owned(), trouble.to_owned())
    };
    say(&agent, 16, "oak-ridge", "no such port");
    say(&agent, 16, "chicago", "");
    say(&admin, 17, "oak-ridge", "");
    say(&admin, 17, "chicago", "");
    let seen = told();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.contains(&word(16, "oak-ridge", "agent", "no such port")), "{seen:?}");
    assert!(seen.contains(&word(16, "chicago", "agent", "")), "{seen:?}");
    // One agent vanishes, at one end of one circuit: the other words stand as they are.
    let is_silent = |seen: &Vec<(u64, String, String, String)>| {
        say(&agent, 16, "oak-ridge", "");
        say(&agent, 16, "chicago", "");
        say(&admin, 17, "oak-ridge", "");
        seen.iter().any(|known| known.3.contains("said nothing"))
    };
    let seen = until("its silence is told", told, is_silent);
    let odd: Vec<_> = seen.iter().filter(|known| !known.3.is_empty()).collect();
    assert!(odd.len() == 1 && odd[0].0 == 17 && odd[0].1 == "chicago", "{seen:?}");
}

/// The library that tells a program another time, where there is one.
fn faketime() -> Option<PathBuf> {
    let found = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| {
        let path = entry.ok()?.path().join("faketime/libfaketimeMT.so.1");
        path.is_file().then_some(path)
    });
    let found = found.into_iter().next();
    if found.is_none() {
        farline_lab::skip("there is no libfaketime: no clock was set");
    }
    found
}

#[test]
fn a_clock_that_steps_loses_no_booking() {
    let Some(library) = faketime() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let (state, offset) = (dir.path().join("state"), dir.path().join("offset"));
    let set = |seconds: i64| {
        let new = dir.path().join("new");
        std::fs::write(&new, format!("{seconds:+}")).expect("written");
        std::fs::rename(&new, &offset).expect("there");
    };
    set(0);
    let serve = || {
        let mut command = farline();
        command.args(["--json", "calendar", "serve", "--listen", "127.0.0.1:0", "--state"]);
        command
            .arg(&state)
            .env("LD_PRELOAD", &library)
            .env("FAKETIME_TIMESTAMP_FILE", &offset)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Calendar::begun(&state, &mut command)
    };
    let mut calendar = serve();
    let book = |calendar: &Calendar, rate: &str, start: &str, more: &[&str]| {
        let mut command = calendar.farline();
        let slot = ["reserve", "oak-ridge", "sunnyvale", "--for", "1h", "--start", start];
        command.args(slot).args(["--rate", rate]).args(more);
        command
    };
    let running = done(&mut book(&calendar, "6G", "now", &[]));
    let held = done(&mut book(&calendar, "6G", "now", &["--hold", "10min"]));
    let clock = || {
        let topology = curl(&calendar, &calendar.state.join("admin.token"), "/v1/topology", &[]);
        serde_json::from_str::<Value>(&topology.1).expect("an object")["now"].to_string()
    };
    // A day ahead, by mistake: nothing has ended by it when it is set right again.
    let day_before = clock();
    set(86_400);
    assert!(clock()[..11] != day_before[..11], "the clock was set: {day_before}, {}", clock());
    std::thread::sleep(Duration::from_millis(1500));
    let show = |calendar: &Calendar, id: &Value| {
        done(calendar.farline().args(["reserve", "show", id.as_str().expect("text")]))
    };
    assert_eq!(show(&calendar, &running["id"]), running);
    set(0);
    assert_eq!(show(&calendar, &running["id"]), running);
    assert_eq!(show(&calendar, &held["id"]), held);
    let (code, said) = refused(&mut book(&calendar, "6G", "now", &[]));
    assert!(code == 6 && said["error"]["code"] == "calendar-refused", "no third: {said}");
    // An hour back: what was booked by the time before stands, and no more of it can be had.
    set(-3600);
    assert_eq!(show(&calendar, &running["id"]), running);
    let (code, said) = refused(&mut book(&calendar, "6G", "now", &[]));
    assert!(code == 6 && said["error"]["code"] == "calendar-refused", "no third: {said}");
    set(0);
    // A calendar that is begun an hour later: the hold is over, and stays so when the clock goes
    // back.
    calendar.running.end(Signal::KILL);
    set(1800);
    let mut calendar = serve();
    let ended = || show(&calendar, &held["id"])["ended"].clone();
    until("the hold is over", ended, |ended| ended == "expired");
    let (code, said) = refused(&mut book(&calendar, "1G", "now", &[]));
    let message = said["error"]["message"].as_str().unwrap_or_default();
    assert!(code == 2 && message.contains("by the calendar's clock 1800 s ago"), "{said}");
    calendar.running.end(Signal::KILL);
    set(0);
    let calendar = serve();
    assert_eq!(show(&calendar, &held["id"])["ended"], "expired");
    assert_eq!(show(&calendar, &running["id"]), running);
    done(&mut book(&calendar, "6G", "now", &[]));
    assert_eq!(refused(&mut book(&calendar, "6G", "now", &[])).0, 6, "no third");
    assert_eq!(verified(&state), 4);
}

#[test]
fn a_booking_across_a_change_of_clocks_is_as_long() {
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let zone = jiff::tz::TimeZone::get("Europe/Berlin").expect("a time zone");
    // Both changes of the next twelve months, an hour each.
    let changes: Vec<_> = zone.following(jiff::Timestamp::now()).take(2).collect();
    let book = |zone: &str, start: &str, end: &str| -> Value {
        let mut command = calendar.farline();
        let slot =
            ["reserve", "chicago", "seattle", "--rate", "1G", "--start", start, "--end", end];
        done(command.env("TZ", zone).args(slot))
    };
    for change in changes {
        let day = change.timestamp().to_zoned(zone.clone()).strftime("%F").to_string();
        let (start, end) = (format!("{day}T01:30"), format!("{day}T03:30"));
        let booked = book("Europe/Berlin", &start, &end);
        let time = |key: &str| -> jiff::Timestamp {
            booked["legs"][0][key].as_str().expect("text").parse().expect("a time")
        };
        let hours = time("end").duration_since(time("start")).as_secs() / 3600;
        let expected = if change.dst().is_dst() { 1 } else { 3 };
        assert_eq!(hours, expected, "{booked}");
        // The same from elsewhere is the same instant.
        let utc = time("start").to_string();
        let again = book("America/Chicago", &utc, &time("end").to_string());
        assert_eq!(again["legs"][0]["start"], booked["legs"][0]["start"]);
        let id = booked["id"].as_str().expect("text");
        let mut shown = Command::new(farline_binary());
        shown.env("TZ", "Europe/Berlin").args(["reserve", "show", id]);
        for (name, value) in calendar.farline().get_envs().filter(|(name, _)| *name != "TZ") {
            shown.env(name, value.expect("a value"));
        }
        let text = succeed(&mut shown);
        assert!(text.contains("01:30 ") && text.contains("03:30"), "in local time: {text}");
    }
}

#[test]
fn silent_connections_do_not_take_all_places() {
    farline_lab::crowd::may_open_many();
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &[]);
    let admin = calendar.state.join("admin.token");
    let address = calendar.url().trim_start_matches("https://").to_owned();
    let begun = Instant::now();
    // One that goes silent in the middle of a request, and more than there are places for that say
    // nothing.
    let mut half = farline_lab::command("openssl");
    half.args(["s_client", "-quiet", "-connect", &address]);
    half.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut half = half.spawn().expect("openssl starts");
    let mut says = half.stdin.take().expect("piped");
    says.write_all(b"GET /v1/topology HTTP/1.1\r\nHost: x\r\n").expect("half a head");
    std::thread::sleep(Duration::from_millis(500));
    let silent: Vec<TcpStream> =
        (0..1_100).map(|_| TcpStream::connect(&address).expect("connected")).collect();
    let (status, said) = curl(&calendar, &admin, "/v1/topology", &["--max-time", "60"]);
    assert_eq!(status, 200, "who asks is served: {said}");
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(5), "there was no room for it at once: {waited:?}");
    farline_lab::wait_for("half a request is heard no further", || {
        std::fs::read_to_string(format!("/proc/{}/stat", half.id()))
            .is_ok_and(|stat| stat.contains(") Z "))
    });
    half.wait().expect("it ends");
    drop((says, silent));
    // A body that is too large is not read.
    let large = dir.path().join("large");
    std::fs::write(&large, vec![b' '; 70_000]).expect("written");
    let body = format!("@{}", large.display());
    let (status, said) = curl(&calendar, &admin, "/v1/reservations", &["--data-binary", &body]);
    assert!(status == 413 && said.contains("64 KiB"), "{status} {said}");
}
