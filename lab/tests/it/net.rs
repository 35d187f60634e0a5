//! A network of several sites: circuits that come, change and go while others run, and an agent
//! that makes them of what is booked.

use farline_lab::{Running, farline, own_name, succeed};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Three sites in a row, 10 ms each.
struct Row {
    name: String,
    file: PathBuf,
}

impl Row {
    /// Brings it up, or skips.
    fn up(folder: &Path, name: &str) -> Option<Row> {
        let name = own_name(name).to_lowercase();
        let file = folder.join("network.toml");
        let link = |a: &str, b: &str| {
            format!(
                "[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"1G\"\none_way_delay = \"10ms\"\n"
            )
        };
        let text = format!(
            "name = \"{name}\"\nsites = [\"a\", \"b\", \"c\"]\n{}{}",
            link("a", "b"),
            link("b", "c")
        );
        std::fs::write(&file, text).expect("written");
        let output = farline().args(["--json", "net", "up"]).arg(&file).output().expect("runs");
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {output:?}"));
        match said["error"]["code"].as_str() {
            None => Some(Row { name, file }),
            Some("link-forbidden" | "link-device") => {
                farline_lab::skip(format!("this machine does not let us make a network: {said}"));
                None
            }
            Some(_) => panic!("net up failed: {said}"),
        }
    }

    fn net(&self, verb: &str, more: &[&str]) -> Value {
        let mut command = farline();
        command.args(["--json", "net", verb, &self.name]).args(more);
        serde_json::from_str(&succeed(&mut command)).expect("one object")
    }

    fn ping(&self, site: &str, more: &[&str]) -> Command {
        let mut command = farline();
        command.args(["net", "exec", &self.name, site, "--", "ping", "-n"]).args(more);
        command
    }

    /// Loss in per cent and the least round trip in milliseconds.
    fn pinged(&self, site: &str, more: &[&str]) -> (f64, f64) {
        let output = self.ping(site, more).output().expect("ping runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let loss = said
            .split(", ")
            .find_map(|part| part.split_once("% packet loss")?.0.trim().parse().ok())
            .unwrap_or_else(|| panic!("{output:?}"));
        let least = said
            .split("rtt min/avg/max/mdev = ")
            .nth(1)
            .and_then(|text| text.split('/').next()?.parse().ok());
        (loss, least.unwrap_or(0.0))
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        let _ = farline().args(["net", "down", &self.name]).output();
    }
}

fn circuit(state: &Value, device: &str) -> Value {
    let circuits = state["state"]["circuits"].as_array().cloned().unwrap_or_default();
    circuits.into_iter().find(|known| known["device"] == device).unwrap_or(Value::Null)
}

#[test]
fn circuits_come_change_and_go_while_others_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(row) = Row::up(dir.path(), "row") else { return };
    // Best effort goes hop by hop: 20 ms there, 20 back.
    let (loss, rtt) = row.pinged("a", &["-c", "3", "-i", "0.2", "10.88.0.3"]);
    assert!(loss == 0.0 && (40.0..400.0).contains(&rtt), "{loss} % lost, {rtt} ms");
    let listed = farline().args(["--json", "net", "ls"]).output().expect("runs");
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let networks = listed["networks"].as_array().expect("a list");
    let this = networks.iter().find(|network| network["name"] == row.name.as_str());
    assert_eq!(this.expect("it is up")["is_alive"], true, "{listed}");
    let state = row.net("circuit", &["16", "a", "c", "a>b", "b>c", "--rate", "100M"]);
    let first = circuit(&state, "c16");
    let address = first["to_address"].as_str().expect("an address").to_owned();
    // What is left to best effort is what the circuit does not have.
    assert_eq!(state["state"]["best_effort"][0][2], 900_000_000_u64, "{state}");
    let (loss, rtt) = row.pinged("a", &["-c", "3", "-i", "0.2", &address]);
    assert!(loss == 0.0 && (40.0..400.0).contains(&rtt), "{loss} % lost, {rtt} ms");
    // While it is pinged, its rate changes, and another circuit comes and goes.
    let running = row
        .ping("a", &["-c", "150", "-i", "0.02", "-q", &address])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ping runs");
    row.net("rate", &["16", "50M"]);
    let state = row.net("circuit", &["32", "b", "c", "b>c", "--rate", "200M"]);
    assert_eq!(circuit(&state, "c32")["open"], true);
    row.net("rate", &["16", "150M"]);
    let state = row.net("remove", &["32"]);
    assert_eq!(circuit(&state, "c32"), Value::Null);
    let output = running.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(" 0% packet loss"), "a change loses nothing: {said}");
    let state = row.net("show", &[]);
    let carried = circuit(&state, "c16")["carried"][0].as_u64().expect("a count");
    assert!(carried >= 150 * 84, "{carried} bytes");
    row.net("remove", &["16"]);
    let gone = row.ping("a", &["-c", "1", "-W", "1", &address]).output().expect("ping runs");
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(
        said.contains("unreachable"),
        "its device is gone, and no other way leads there: {gone:?}"
    );
    for (arguments, code) in [
        (vec!["net", "circuit", &row.name, "48", "a", "c", "b>c", "--rate", "1M"], "bad-network"),
        (vec!["net", "circuit", &row.name, "48", "a", "x", "a>b", "--rate", "1M"], "bad-network"),
        (vec!["net", "rate", &row.name, "48", "1M"], "link-gone"),
        (vec!["net", "exec", &row.name, "x", "--", "true"], "bad-network"),
        (vec!["net", "show", "no-such-network"], "link-gone"),
    ] {
        let output = farline().arg("--json").args(&arguments).output().expect("runs");
        let said: Value = serde_json::from_slice(&output.stdout).expect("an object");
        assert_eq!(said["error"]["code"], code, "{arguments:?}: {said}");
    }
}

/// The file of that name below a folder.
fn found(folder: &Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() { found(&path, name) } else { path.ends_with(name).then_some(path) }
    })
}

#[test]
fn a_circuit_that_is_being_made_can_be_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(row) = Row::up(dir.path(), "making") else { return };
    let socket = found(farline_lab::run_dir(), &format!("net.{}.sock", row.name));
    let socket = socket.expect("the emulator listens");
    // The emulator reads orders one after the other, and makes and removes next to that.
    let say = |order: Value| {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        writeln!(stream, "{order}").expect("it reads");
        stream
    };
    let prepare = |number: u32| {
        json!({ "Prepare": { "number": number, "from": "a", "to": "b", "route": ["a>b"],
                "rate": 100_000_000, "both_ways": true } })
    };
    let remove = |number: u32| json!({ "Remove": number });
    let orders = [
        prepare(16), // which keeps the next from being made at once
        prepare(32),
        remove(32),
        prepare(48),
        prepare(48),
        remove(48),
        prepare(48),
        remove(16),
    ];
    let replies: Vec<Value> = orders
        .map(say)
        .into_iter()
        .map(|stream| {
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).expect("it replies");
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
        })
        .collect();
    assert!(replies.iter().all(|reply| reply["Done"].is_object()), "{replies:?}");
    let shown = row.net("show", &[]);
    let there = shown["state"]["circuits"].as_array().expect("a list");
    let devices: Vec<&str> = there.iter().filter_map(|known| known["device"].as_str()).collect();
    assert_eq!(devices, ["c48"], "{shown}");
    let links = farline().args(["net", "exec", &row.name, "a", "--", "ip", "-br", "link"]).output();
    let links = String::from_utf8_lossy(&links.expect("ip runs").stdout).into_owned();
    let circuits: Vec<&str> = links.lines().filter(|line| line.starts_with('c')).collect();
    assert!(circuits.len() == 1 && circuits[0].starts_with("c48"), "{links}");
}

#[test]
fn an_agent_makes_circuits_of_what_is_booked() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(row) = Row::up(dir.path(), "agent") else { return };
    let state = dir.path().join("state");
    let mut serve = farline();
    serve.args(["--json", "calendar", "serve", "--listen", "127.0.0.1:0", "--network"]);
    let (_calendar, line) = Running::begun(serve.arg(&row.file).arg("--state").arg(&state));
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let asking = |command: &mut Command| {
        command
            .env("FARLINE_CALENDAR", said["url"].as_str().expect("a URL"))
            .env("FARLINE_CALENDAR_PIN", said["fingerprint"].as_str().expect("a fingerprint"))
            .env("FARLINE_CALENDAR_TOKEN_FILE", state.join("admin.token"));
    };
    let mut agent = farline();
    agent.args(["--json", "agent", "--network", &row.name]).stdout(Stdio::piped());
    asking(&mut agent);
    let mut agent = agent.spawn().expect("farline starts");
    let lines = BufReader::new(agent.stdout.take().expect("piped")).lines();
    let mut agent = Running(agent);
    let (sender, steps) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = sender.send(serde_json::from_str::<Value>(&line).expect("an object"));
        }
    });
    let farline_json = |words: &[&str]| -> Value {
        let mut command = farline();
        command.arg("--json").args(words);
        asking(&mut command);
        serde_json::from_str(&succeed(&mut command)).expect("one object")
    };
    let book = ["reserve", "a", "c", "--rate", "100M", "--start", "+4s", "--for", "6s"];
    let booked = farline_json(&book);
    assert_eq!(booked["id"], "r-1");
    let mut seen = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    while seen.last() != Some(&"remove".to_owned()) && Instant::now() < until {
        let Ok(step) = steps.recv_timeout(Duration::from_millis(500)) else { continue };
        let Some(verb) = step["step"].as_str() else { continue };
        assert_eq!(step["error"], Value::Null, "{step}");
        assert!(step["late_ms"].as_f64().is_none_or(|late| late >= 0.0), "{step}");
        seen.push(verb.to_owned());
        if verb == "open" {
            let address = "10.64.0.66";
            let (loss, rtt) = row.pinged("a", &["-c", "3", "-i", "0.2", address]);
            assert!(loss == 0.0 && rtt >= 40.0, "{loss} % lost, {rtt} ms");
            let circuits = farline_json(&["reserve", "circuits"]);
            assert_eq!(circuits["circuits"][0]["report"]["id"], "r-1", "{circuits}");
        }
    }
    assert_eq!(seen, ["prepare", "open", "shut", "remove"]);
    agent.end(Signal::TERM);
}
