//! `make demo-calendar`: the UltraScience Net in this machine, three channels booked in it, a
//! fourth refused with what can be had, and a gigabyte copied into its slot.
//!
//! It brings up the network with a calendar and an agent in it, books, sends through every channel,
//! and writes demo-calendar.json and demo-calendar.html to the current folder: what was booked
//! against what was delivered. All that it starts ends with it.

mod page;

use crate::compare;
use crate::dataset;
use crate::race::interrupted;
use anyhow::{Context, Result, bail, ensure};
use farline_core::calendar::TopologySpec;
use farline_lab::circuits::{BookedNetwork, NoNetwork};
use farline_lab::{Running, farline};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How often the network is asked what its circuits carried.
const READING: Duration = Duration::from_millis(250);
/// The most that all of it may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A circuit: what was booked, and what was delivered.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Channel {
    id: String,
    what: String,
    from: String,
    to: String,
    route: Vec<String>,
    booked_bps: f64,
    /// From when to when, in seconds after the first reading.
    slot: [f64; 2],
    /// Bytes of IP packets that had been delivered at the far end, by seconds.
    delivered: Vec<(f64, u64)>,
    /// Packets that found no room in its queue.
    dropped: u64,
    /// How late the agent opened and shut it, in milliseconds.
    late_ms: Vec<(String, f64)>,
}

/// All that the page shows.
#[derive(Debug, Serialize, Deserialize)]
struct CalendarDemo {
    schema: String,
    farline: String,
    channels: Vec<Channel>,
    /// What was asked for that could not be had, why not, and what could.
    refused: Refused,
    copy: Value,
    identical: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Refused {
    asked: String,
    why: String,
    alternatives: Vec<(String, String)>,
}

/// The channels that are booked besides the copy's: what for, where to, rate, beginning and end in
/// seconds from now.
const OTHERS: [(&str, &str, u64, u64, u64); 2] = [
    ("visualisation", "seattle", 500_000_000, 8, 24),
    ("monitoring", "chicago", 250_000_000, 11, 27),
];
/// When the copy may begin, and by when it must be done, as `cp --reserve` has it.
const COPY: &str = "start=+9s,by=+1min,rate=1G";

/// The UltraScience Net under a name of the demo's own.
fn network(folder: &Path) -> Result<String> {
    let spec = TopologySpec::named("usn").context("usn is built in")?;
    let mut text = format!("name = \"usn-demo\"\nsites = {:?}\n[hosts]\n", spec.sites);
    for (site, hosts) in &spec.hosts {
        writeln!(text, "{site} = {hosts:?}")?;
    }
    for link in &spec.links {
        let (between, rate, delay) = (&link.between, &link.rate, &link.one_way_delay);
        writeln!(
            text,
            "[[link]]\nbetween = {between:?}\nrate = {rate:?}\none_way_delay = {delay:?}"
        )?;
        if let Some(name) = &link.name {
            writeln!(text, "name = {name:?}")?;
        }
    }
    let path = folder.join("usn-demo.toml");
    fs::write(&path, text)?;
    Ok(path.to_string_lossy().into_owned())
}

pub(crate) fn run(scratch: &Path) -> Result<ExitCode> {
    let began = Instant::now();
    println!("demo: bringing up the UltraScience Net, with a calendar and an agent in Oak Ridge");
    let network = network(scratch)?;
    // What an earlier demo that was killed left behind would be in the way.
    let _ = farline().args(["net", "down", "usn-demo"]).output();
    let mut net = BookedNetwork::up(&network, scratch, "1G").map_err(|error| match error {
        NoNetwork::NotHere(why) => {
            anyhow::anyhow!("this machine does not let us make a network: {why}")
        }
        NoNetwork::Failed(why) => anyhow::anyhow!("{why}"),
    })?;
    let steps = net.start_agent();
    let arrived = scratch.join("arrived");
    fs::create_dir(&arrived)?;
    let sent = scratch.join("sent");
    fs::create_dir(&sent)?;
    println!("demo: making a gigabyte");
    dataset::random_file(&sent.join("run7.tar"), 1 << 30)?;
    let nodes = ["chicago", "seattle", "sunnyvale"].map(|site| serve(&net, site, &arrived));

    let told = |words: &[&str]| -> Result<Value> {
        let said = net.told(words);
        ensure!(said["error"].is_null(), "{words:?}: {}", said["error"]["message"]);
        Ok(said)
    };
    // One of the two lambdas is closed for maintenance: what is left is what channels share.
    let close = ["calendar", "close", "oak-ridge>chicago/2", "--start", "now", "--end", "+1h"];
    told(&close)?;
    let mut channels = Vec::new();
    let mut senders = Vec::new();
    for (what, to, rate, start, end) in OTHERS {
        let (rate_text, start, end) =
            (rate.to_string() + "bps", format!("+{start}s"), format!("+{end}s"));
        let said = told(&[
            "reserve",
            "oak-ridge",
            to,
            "--rate",
            &rate_text,
            "--start",
            &start,
            "--end",
            &end,
            "--label",
            what,
        ])?;
        println!("demo: {} is booked for {what}", said["id"].as_str().unwrap_or_default());
        channels.push(said);
    }
    let mut cp = net.farline("oak-ridge");
    cp.args(["cp", "--reserve", COPY]).arg(sent.join("run7.tar")).arg("farline://10.88.0.4/");
    let copying = Running(cp.stdout(Stdio::piped()).spawn().context("farline cp")?);
    let booked = until(Duration::from_secs(20), "the copy books its channel", || {
        let all = told(&["reserve", "ls"])?;
        let known = all["reservations"].as_array().cloned().unwrap_or_default();
        Ok(known
            .into_iter()
            .find(|known| known["label"].as_str().is_some_and(|l| l.contains("copy"))))
    })?;
    channels.push(booked);
    let refused = refused(&net)?;
    for channel in &channels[..OTHERS.len()] {
        senders.push(send(&net, channel)?);
    }
    let (channels, copy) = watch(&net, &channels, copying, &steps)?;
    for sender in senders {
        drop(sender);
    }
    drop(nodes);
    drop(net);
    let identical = compare::trees(&sent, &arrived);
    if let Err(difference) = &identical {
        eprintln!("demo: {difference:#}");
    }
    let demo = CalendarDemo {
        schema: "farline/demo-calendar/1".to_owned(),
        farline: env!("CARGO_PKG_VERSION").to_owned(),
        channels,
        refused,
        copy,
        identical: identical.is_ok(),
    };
    fs::write("demo-calendar.json", serde_json::to_vec_pretty(&demo)?)?;
    fs::write("demo-calendar.html", demo.page().html()).context("demo-calendar.html")?;
    println!("\n{}", demo.summary().plain());
    println!(
        "demo: {:.0} s; see demo-calendar.html and demo-calendar.json",
        began.elapsed().as_secs_f64()
    );
    Ok(if demo.identical { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A node in `site`, where what is copied goes to `folder`.
fn serve(net: &BookedNetwork, site: &str, folder: &Path) -> Running {
    let mut command = net.farline(site);
    command.args([
        "serve",
        "--listen",
        "0.0.0.0:2811",
        "--anonymous",
        "write",
        "--allow-null",
        "--root",
    ]);
    Running::begun(command.arg(folder)).0
}

/// Calls `look` until it finds something.
fn until<T>(
    timeout: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(began.elapsed() < timeout, "{what}: not within {} s", timeout.as_secs());
        if interrupted() {
            bail!("interrupted");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Asks for a fourth channel, which does not fit next to the three.
fn refused(net: &BookedNetwork) -> Result<Refused> {
    let words =
        ["reserve", "oak-ridge", "sunnyvale", "--rate", "9G", "--start", "+9s", "--for", "15s"];
    let said = net.told(&words);
    ensure!(said["error"]["code"] == "calendar-refused", "a fourth channel fits: {said}");
    let text = net.inside(&net.seat).args(words).output()?;
    let text = String::from_utf8_lossy(&text.stderr).into_owned();
    print!("{text}");
    let alternatives = text.lines().skip_while(|line| !line.starts_with("what can be had")).skip(1);
    let mut kinds: Vec<(String, String)> = Vec::new();
    for line in alternatives.take_while(|line| line.starts_with(' ')) {
        // What is indented further belongs to the one above.
        match (line.starts_with("   "), kinds.last_mut()) {
            (true, Some((_, what))) => *what += &format!(" {}", line.trim()),
            _ => {
                let (kind, what) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
                kinds.push((kind.to_owned(), what.trim().to_owned()));
            }
        }
    }
    Ok(Refused {
        asked: format!("farline {}", words.join(" ")),
        why: said["error"]["message"].as_str().unwrap_or_default().to_owned(),
        alternatives: kinds,
    })
}

/// Sends from memory into a channel as long as it lasts; it is not over before the channel is.
fn send(net: &BookedNetwork, channel: &Value) -> Result<Running> {
    let id = channel["id"].as_str().unwrap_or_default();
    let node = if channel["to"] == "chicago" { "10.88.0.2" } else { "10.88.0.3" };
    let mut command = net.farline("oak-ridge");
    command.args(["cp", "--verify", "none", "--reserve", &format!("id={id}"), "memory:8GB"]);
    command.arg(format!("farline://{node}/?null")).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Running(command.spawn()?))
}

/// Reads what circuits deliver until the copy is over and the others' slots are.
fn watch(
    net: &BookedNetwork,
    booked: &[Value],
    mut copying: Running,
    steps: &Receiver<Value>,
) -> Result<(Vec<Channel>, Value)> {
    let (began, zero) = (Instant::now(), farline::calendar::now());
    let seconds = |text: &Value| {
        let time = farline::calendar::time_of(text.as_str().unwrap_or_default()).unwrap_or(zero);
        match time < zero {
            true => -zero.since(time).as_secs_f64(),
            false => time.since(zero).as_secs_f64(),
        }
    };
    let channel = |known: &Value| {
        let (leg, text) =
            (&known["legs"][0], |v: &Value| v.as_str().unwrap_or_default().to_owned());
        let route = leg["route"].as_array().into_iter().flatten().map(text).collect();
        Channel {
            id: text(&known["id"]),
            what: text(&known["label"]).split(" #").next().unwrap_or_default().to_owned(),
            from: text(&known["from"]),
            to: text(&known["to"]),
            route,
            booked_bps: leg["rate_bps"].as_f64().unwrap_or_default(),
            slot: [seconds(&leg["start"]), seconds(&leg["end"])],
            ..Channel::default()
        }
    };
    let mut channels: Vec<Channel> = booked.iter().map(channel).collect();
    let last = channels.iter().take(OTHERS.len()).map(|c| c.slot[1]).fold(0.0, f64::max) + 1.5;
    let mut copy = None;
    while copy.is_none() || began.elapsed().as_secs_f64() < last {
        if began.elapsed() > TIMEOUT || interrupted() {
            bail!("the copy does not end");
        }
        let state = net.shown();
        let at = began.elapsed().as_secs_f64();
        for circuit in state["state"]["circuits"].as_array().into_iter().flatten() {
            let number = circuit["circuit"]["number"].as_u64().unwrap_or_default() / 16;
            let id = format!("r-{number}");
            if let Some(channel) = channels.iter_mut().find(|channel| channel.id == id) {
                let carried = circuit["carried"][0].as_u64().unwrap_or_default();
                channel.delivered.push((at, carried));
                channel.dropped = circuit["dropped"][0].as_u64().unwrap_or_default();
            }
        }
        for step in steps.try_iter() {
            note(&mut channels, &step);
        }
        // A copy that is slower than booked has its end moved.
        if let Some(channel) = channels.last_mut()
            && copy.is_none()
            && at + 1.0 > channel.slot[1]
        {
            let known = net.told(&["reserve", "show", &channel.id]);
            let end = known["legs"].as_array().and_then(|legs| legs.last().map(|leg| &leg["end"]));
            channel.slot[1] = end.map_or(0.0, &seconds).max(channel.slot[1]);
        }
        if copy.is_none() && copying.0.try_wait()?.is_some() {
            let (_, out, _) = std::mem::replace(&mut copying, idle()?).finish();
            let said: Value = serde_json::from_str(out.lines().last().unwrap_or_default())
                .context("farline cp")?;
            ensure!(said["error"].is_null(), "farline cp: {}", said["error"]["message"]);
            println!(
                "demo: the copy is over: {:.1} s",
                said["seconds"].as_f64().unwrap_or_default()
            );
            copy = Some(said);
        }
        std::thread::sleep(READING);
    }
    Ok((channels, copy.unwrap_or_default()))
}

/// A process that is over.
fn idle() -> Result<Running> {
    Ok(Running(Command::new("true").spawn()?))
}

/// Notes how late the agent did a step.
fn note(channels: &mut [Channel], step: &Value) {
    let id = format!("r-{}", step["circuit"].as_u64().unwrap_or_default() / 16);
    let (Some(verb), Some(late)) = (step["step"].as_str(), step["late_ms"].as_f64()) else {
        return;
    };
    if let Some(channel) = channels.iter_mut().find(|channel| channel.id == id) {
        channel.late_ms.push((verb.to_owned(), late));
    }
}
