//! A calendar whose book is in PostgreSQL: nothing that it said yes to is lost when it, or the
//! database, is killed, and nothing is said of the password.

use crate::calendar::{Calendar, day, done, refused, slot};
use farline::calendar::wire::{ProblemDocument, ReservationDocument, ReserveDocument};
use farline::calendar::{CalendarAddress, CalendarClient};
use farline_core::units::{Error, ErrorCode};
use farline_lab::database::{Database, PASSWORD};
use farline_lab::{farline, succeed, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A server, where there is PostgreSQL.
fn database() -> Option<Database> {
    let database = Database::start();
    if database.is_none() {
        farline_lab::skip("there is no PostgreSQL: no calendar had its book there");
    }
    database
}

/// How its client finds `calendar`.
fn address(calendar: &Calendar) -> CalendarAddress {
    let mut address = CalendarAddress::new(calendar.url());
    address.trust.authorities = Some(calendar.state.join("certificate.pem"));
    let token = std::fs::read_to_string(calendar.state.join("admin.token")).expect("a token");
    address.token = Some(token.trim().to_owned());
    address
}

/// Asks for an hour of the `number`th day, with a key of that number.
fn ask(client: &mut CalendarClient, number: u64) -> Result<ReservationDocument, Error> {
    let day = day(number as i64 % 300);
    let wanted = ProblemDocument::Fixed {
        rate_bps: 1_000_000,
        start: Some(format!("{day}T00:00:00Z")),
        end: format!("{day}T01:00:00Z"),
    };
    let body = ReserveDocument {
        from: "chicago".to_owned(),
        to: "seattle".to_owned(),
        wanted,
        both_ways: None,
        label: None,
        hold_seconds: None,
        provision: None,
    };
    client.post("/v1/reservations", &body, Some(&format!("key-{number}")))
}

/// Asks `calendar` as long as `goes_on`, or until it is gone, beginning with `first`: by number
/// what it said yes to, or `None` where it said no.
fn asked(calendar: &Calendar, first: u64, goes_on: &AtomicBool) -> BTreeMap<u64, Option<String>> {
    let mut client = CalendarClient::new(address(calendar)).expect("a client");
    let mut replies = BTreeMap::new();
    for number in first.. {
        let reply = ask(&mut client, number);
        let is_gone = reply.as_ref().is_err_and(|error| error.code != ErrorCode::CalendarStore);
        replies.insert(number, reply.ok().map(|known| known.id));
        if is_gone || !goes_on.load(Ordering::Relaxed) {
            break;
        }
    }
    replies
}

/// Holds what is there against what was said: each yes is there, each number once, and what was
/// said no to is had by the same key.
fn settle(calendar: &Calendar, replies: &mut BTreeMap<u64, Option<String>>) {
    let mut client = CalendarClient::new(address(calendar)).expect("a client");
    for (number, reply) in replies.iter_mut() {
        let again = ask(&mut client, *number).expect("it is had");
        if let Some(id) = reply {
            assert_eq!(&again.id, id, "key-{number} is of one reservation");
        }
        *reply = Some(again.id);
    }
    let there: Vec<String> =
        client.reservations().expect("a list").into_iter().map(|known| known.id).collect();
    let mut told: Vec<String> = replies.values().flatten().cloned().collect();
    told.sort_by_key(|id| id.trim_start_matches("r-").parse::<u64>().ok());
    assert_eq!(there, told, "all of it, once");
}

fn verified(url: &str) -> u64 {
    let said = succeed(farline().args(["--json", "calendar", "verify", "--database", url]));
    let said: Value = serde_json::from_str(&said).expect("an object");
    said["entries"].as_u64().expect("a number")
}

#[test]
fn killed_in_mid_load_either_end_loses_nothing() {
    let Some(mut database) = database() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let (state, url) = (dir.path().join("state"), database.url());
    let serve = || Calendar::serve(&state, &["--database", &url]);
    let mut calendar = serve();
    let mut replies = BTreeMap::new();
    let goes_on = AtomicBool::new(true);
    // The calendar is killed.
    for round in 0..2_u64 {
        let pid = calendar.running.0.id();
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| asked(&calendar, round * 100_000, &goes_on));
            std::thread::sleep(Duration::from_millis(150 + 37 * round));
            let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
            rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
            replies.extend(asking.join().expect("no panic"));
        });
        calendar = serve();
        settle(&calendar, &mut replies);
    }
    // The database is.
    for round in 2..4_u64 {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| asked(&calendar, round * 100_000, &goes_on));
            std::thread::sleep(Duration::from_millis(150 + 37 * round));
            database.crash();
            std::thread::sleep(Duration::from_millis(300));
            let listed = done(calendar.farline().args(["reserve", "ls"]));
            assert!(!listed["reservations"].as_array().expect("a list").is_empty(), "{listed}");
            goes_on.store(false, Ordering::Relaxed);
            replies.extend(asking.join().expect("no panic"));
        });
        goes_on.store(true, Ordering::Relaxed);
        let (code, said) =
            refused(calendar.farline().arg("reserve").args(slot()).args(["--rate", "1G"]));
        assert_eq!((code, &said["error"]["code"]), (4, &"calendar-store".into()), "{said}");
        database.begin(&[]);
        let mut client = CalendarClient::new(address(&calendar)).expect("a client");
        let first = *replies.keys().next().expect("some");
        wait_for("the calendar goes on", || {
            // A key that was used before: nothing is booked by it.
            let mut client = CalendarClient::new(address(&calendar)).expect("a client");
            ask(&mut client, first).is_ok()
        });
        assert!(ask(&mut client, first).is_ok());
        settle(&calendar, &mut replies);
    }
    let no = replies.values().filter(|reply| reply.is_none()).count();
    assert_eq!(no, 0);
    assert!(replies.len() > 10, "it was asked: {}", replies.len());
    let known = done(calendar.farline().args(["reserve", "show", "r-1"]));
    let entries = verified(&url);
    calendar.running.end(Signal::TERM);
    let calendar = serve();
    assert_eq!(done(calendar.farline().args(["reserve", "show", "r-1"])), known);
    assert_eq!(entries, replies.len() as u64, "one entry for each");
    assert_eq!(verified(&url), entries);
    // Changed by hand, the chain says so.
    database.sql("UPDATE farline_calendar.log SET actor = 'eve' WHERE seq = 2");
    let mut verify = farline();
    let (_, said) = refused(verify.args(["--json", "calendar", "verify", "--database", &url]));
    assert!(said["error"]["message"].as_str().is_some_and(|why| why.contains("entry 2")), "{said}");
}

/// Starts what must not start, with a state of its own, and returns all that it says.
fn not_served(more: impl FnOnce(&mut Command) -> &mut Command) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = farline();
    command.args(["--json", "calendar", "serve", "--listen", "127.0.0.1:0", "--state"]);
    command.arg(dir.path().join("state"));
    more(&mut command);
    let output = command.output().expect("farline starts");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_database_is_reached_by_tls_and_shared_with_nobody() {
    let Some(mut database) = database() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let (state, config) = (dir.path().join("state"), dir.path().join("calendar.toml"));
    // The secret stands in a file that its owner alone reads, and not among the arguments.
    let url = database.url_by_tls(PASSWORD);
    std::fs::write(&config, format!("database = \"{url}\"\n")).expect("written");
    let mut serve = farline();
    serve.args(["--json", "calendar", "serve", "--listen", "127.0.0.1:0", "--state"]);
    serve.arg(&state).arg(&config).env("PGSSLROOTCERT", database.certificate());
    let calendar = Calendar::begun(&state, &mut serve);
    let hold = ["--rate", "1G", "--hold", "1s"];
    done(calendar.farline().arg("reserve").args(slot()).args(hold));
    wait_for("the hold is over", || {
        done(calendar.farline().args(["reserve", "show", "r-1"]))["ended"] == "expired"
    });
    // A token that another process adds is known within a second; its secret is nowhere.
    let by_socket = database.url();
    let add = ["calendar", "token", "add", "ada", "--project", "ada", "--endpoints", "*"];
    let secret = succeed(farline().args(add).args(["--database", &by_socket]));
    let token = dir.path().join("ada.token");
    std::fs::write(&token, &secret).expect("written");
    wait_for("her token is known", || {
        let mut ask = calendar.farline_as(&token);
        ask.args(["reserve", "ls"]).output().is_ok_and(|output| output.status.success())
    });
    let kept = database.sql("SELECT * FROM farline_calendar.token");
    assert!(kept.contains("ada") && !kept.contains(secret.trim()), "{kept}");
    // What was over before it began stands in the database alone.
    assert_eq!(done(calendar.farline().args(["reserve", "show", "r-1"]))["ended"], "expired");

    let second = not_served(|command| command.args(["--database", &by_socket]));
    assert!(second.contains("another calendar runs on this database"), "{second}");
    let unknown = not_served(|command| command.args(["--database", &url]));
    assert!(unknown.contains("certificate") && !unknown.contains("s3cr"), "{unknown}");
    let wrong = not_served(|command| {
        command.args(["--database", &database.url_by_tls("wr0ng")]);
        command.env("PGSSLROOTCERT", database.certificate())
    });
    assert!(wrong.contains("PGPASSWORD") && !wrong.contains("wr0ng"), "{wrong}");
    let clear = url.replace("sslmode=require", "sslmode=disable");
    let clear = not_served(|command| command.args(["--database", &clear]));
    assert!(clear.contains("no pg_hba.conf entry") && !clear.contains("s3cr"), "{clear}");
    let none = not_served(|command| command.args(["--database", "mysql://ada:s3cr@db/x"]));
    assert!(none.contains("postgres://USER@HOST/NAME") && !none.contains("s3cr"), "{none}");
    drop(calendar);
    // A server that loses what it called durable is none for a calendar.
    database.crash();
    database.begin(&["fsync=off"]);
    let lossy = not_served(|command| command.args(["--database", &by_socket]));
    assert!(lossy.contains("`fsync` off"), "{lossy}");
}

/// A process that stands still as long as this lives.
struct Stopped(rustix::process::Pid);

impl Stopped {
    fn stop(pid: rustix::process::Pid) -> Stopped {
        rustix::process::kill_process(pid, Signal::STOP).expect("it is ours");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn who_asks_does_not_wait_for_a_stuck_database() {
    let Some(database) = database() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let calendar = Calendar::serve(&dir.path().join("state"), &["--database", &database.url()]);
    done(calendar.farline().arg("reserve").args(slot()).args(["--rate", "1G"]));
    // The connection on which it reads who is known: the other one holds the lock.
    let pid = database.sql(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'farline calendar'
         AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')",
    );
    let pid = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw).expect("one");
    let stopped = Stopped::stop(pid);
    let begun = Instant::now();
    let mut asked = 0;
    while begun.elapsed() < Duration::from_secs(5) {
        let listed = done(calendar.farline().args(["reserve", "ls"]));
        assert_eq!(listed["reservations"].as_array().map(Vec::len), Some(1), "{listed}");
        asked += 1;
    }
    drop(stopped);
    // One that waited for the database would have waited ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(9) && asked > 1, "{asked} replies");
    done(calendar.farline().arg("reserve").args(slot()).args(["--rate", "1G"]));
}
