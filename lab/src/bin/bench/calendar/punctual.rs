//! Circuits against their schedule and their rate: when packets pass and when not, how much is
//! delivered, what a change of rate loses, and what best-effort traffic takes.

use crate::table::{heading, row};
use anyhow::{Context, Result, ensure};
use farline_core::units::{Rng, Time};
use farline_lab::circuits::{BookedNetwork, NoNetwork};
use farline_lab::{Running, own_name};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two pings through a circuit: what its opening and shutting are seen by.
const PING: f64 = 0.01;

/// Two sites, 5 ms apart, over 20 Gbit/s.
fn pair(folder: &Path, best_effort: &str) -> Result<BookedNetwork> {
    let name = own_name("bench").to_lowercase();
    let file = folder.join("network.toml");
    let text = format!(
        "name = \"{name}\"\nsites = [\"near\", \"far\"]\n[hosts]\nnear = [\"10.88.0.1\"]\nfar = \
         [\"10.88.0.2\"]\n[[link]]\nbetween = [\"near\", \"far\"]\nrate = \"20G\"\none_way_delay = \"5ms\"\n"
    );
    std::fs::write(&file, text)?;
    BookedNetwork::up(&file.to_string_lossy(), folder, best_effort).map_err(|error| match error {
        NoNetwork::NotHere(why) | NoNetwork::Failed(why) => anyhow::anyhow!(why),
    })
}

fn told(net: &BookedNetwork, words: &[&str]) -> Result<Value> {
    let said = net.told(words);
    ensure!(said["error"].is_null(), "{words:?}: {}", said["error"]["message"]);
    Ok(said)
}

fn p99(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * 99 / 100).copied().unwrap_or(f64::NAN)
}

/// When a ping's first and last replies came, less the way there and back: seconds since 1970.
fn seen(out: &str, rtt: f64) -> Option<(f64, f64)> {
    let at = |line: &str| line.strip_prefix('[')?.split(']').next()?.parse::<f64>().ok();
    let mut times = out.lines().filter(|line| line.contains("bytes from")).filter_map(at);
    let first = times.next()?;
    Some((first - rtt, times.next_back().unwrap_or(first) - rtt))
}

/// Books `count` circuits of a second each at random moments, and looks when packets pass.
fn on_and_off(count: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut net = pair(folder.path(), "1G")?;
    let steps = net.start_agent();
    let mut rng = Rng::new(7);
    let mut booked: Vec<(String, f64, f64)> = Vec::new();
    let seconds = |text: &Value| -> Result<f64> {
        let time = farline::calendar::time_of(text.as_str().unwrap_or_default());
        Ok(time.context("a time")?.since(Time::ZERO).as_secs_f64())
    };
    let mut after = 10.0;
    for _ in 0..count {
        after += rng.unit() * 0.8;
        let (start, rate) = (format!("+{:.3}s", after), format!("{}M", 1 + rng.below(50)));
        let said = told(
            &net,
            &["reserve", "near", "far", "--rate", &rate, "--start", &start, "--for", "1s"],
        )?;
        let leg = &said["legs"][0];
        let id = said["id"].as_str().context("an id")?.to_owned();
        booked.push((id, seconds(&leg["start"])?, seconds(&leg["end"])?));
        // Each booking takes time itself; the next is counted from now on.
        after = (after - 0.05).max(10.0);
    }
    let (mut by_agent, mut by_packets) = (Vec::new(), Vec::new());
    let mut pings: BTreeMap<String, Running> = BTreeMap::new();
    let mut missing = booked.clone();
    let last = booked.iter().map(|known| known.2).fold(0.0, f64::max);
    let now = || farline::calendar::now().since(Time::ZERO).as_secs_f64();
    while now() < last + 3.0 {
        // The device is there three seconds before; its packets go nowhere until its time.
        let due = missing.iter().position(|known| now() > known.1 - 0.7);
        if let Some(at) = due {
            let (id, ..) = missing.swap_remove(at);
            let number: u32 = 16 * id[2..].parse::<u32>()?;
            let far = std::net::Ipv4Addr::from((10 << 24 | 64 << 16) + number * 4 + 2).to_string();
            let mut ping = net.exec("near");
            ping.args(["ping", "-n", "-D", "-i", &PING.to_string(), "-w", "3", &far]);
            let child = ping.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
            pings.insert(id, Running(child));
        }
        for step in steps.try_iter() {
            if let Some(late) = step["late_ms"].as_f64() {
                by_agent.push(late);
            }
        }
        sleep(Duration::from_millis(2));
    }
    let mut silent = 0;
    for (id, start, end) in &booked {
        let Some(ping) = pings.remove(id) else { continue };
        let (_, out, _) = ping.finish();
        match seen(&out, 0.010) {
            None => silent += 1,
            Some((first, last)) => {
                by_packets.push(((first - start) * 1e3).abs());
                by_packets.push(((last - end) * 1e3).abs());
            }
        }
    }
    ensure!(
        by_packets.len() > booked.len(),
        "{silent} of {} circuits carried nothing",
        booked.len()
    );
    row(
        &format!("{count} bookings: on and off, by the agent"),
        &format!(
            "p99 {:.1} ms, most {:.1} ms",
            p99(&mut by_agent),
            by_agent.last().unwrap_or(&0.0)
        ),
        "p99 within 50 ms",
    );
    row(
        &format!("the same by pings every {:.0} ms; {silent} carried nothing", PING * 1e3),
        &format!(
            "p99 {:.1} ms, most {:.1} ms",
            p99(&mut by_packets),
            by_packets.last().unwrap_or(&0.0)
        ),
        "p99 within 50 ms, and 10",
    );
    Ok(())
}

/// An open circuit, made by hand.
fn circuit(net: &BookedNetwork, number: u32, rate: &str) -> Result<String> {
    let mut command = farline_lab::farline();
    let (name, number) = (net.name.as_str(), number.to_string());
    let words =
        ["--json", "net", "circuit", name, &number, "near", "far", "near>far", "--rate", rate];
    let output = command.args(words).output()?;
    let said: Value = serde_json::from_slice(&output.stdout)?;
    let all = said["state"]["circuits"].as_array().context("circuits")?;
    let device = format!("c{number}");
    let known = all.iter().find(|known| known["device"] == *device).context("it is there")?;
    Ok(known["to_address"].as_str().context("an address")?.to_owned())
}

fn carried(net: &BookedNetwork, number: u32) -> (f64, u64) {
    let state = net.shown();
    let device = format!("c{number}");
    let known = state["state"]["circuits"].as_array().into_iter().flatten();
    let found = known.into_iter().find(|known| known["device"] == *device).cloned();
    let found = found.unwrap_or_default();
    (
        found["carried"][0].as_f64().unwrap_or_default(),
        found["dropped"][0].as_u64().unwrap_or_default(),
    )
}

fn iperf_server(net: &BookedNetwork) -> Result<Running> {
    let mut serve = net.exec("far");
    serve.args(["iperf3", "-s"]).stdout(Stdio::null());
    let serving = Running(serve.spawn().context("iperf3")?);
    sleep(Duration::from_millis(500));
    Ok(serving)
}

/// What a circuit delivers in bit/s, by its own count over `seconds`, while `words` of iperf3 send.
fn delivered(net: &BookedNetwork, number: u32, words: &[&str], seconds: u64) -> Result<f64> {
    let mut client = net.exec("near");
    let time = (seconds + 3).to_string();
    client.args(["iperf3", "-J", "-t", &time]).args(words).stdout(Stdio::piped());
    let mut client = Running(client.spawn()?);
    sleep(Duration::from_secs(2));
    let (began, before) = (Instant::now(), carried(net, number).0);
    sleep(Duration::from_secs(seconds));
    let (took, after) = (began.elapsed(), carried(net, number).0);
    let _ = client.0.wait()?;
    Ok((after - before) * 8.0 / took.as_secs_f64())
}

fn rates() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let net = pair(folder.path(), "1G")?;
    let _serving = iperf_server(&net)?;
    for (at, (rate, bps)) in [("100M", 1e8), ("1G", 1e9), ("5G", 5e9)].into_iter().enumerate() {
        let number = 16 * (at as u32 + 1);
        let address = circuit(&net, number, rate)?;
        let found = delivered(&net, number, &["-c", &address], 6)?;
        row(
            &format!("delivered of {rate} bit/s, one TCP flow, IP packets"),
            &format!("{:.4} Gbit/s, {:.2} %", found / 1e9, 100.0 * found / bps),
            "within 2 %",
        );
    }
    Ok(())
}

/// Ends an iperf3 that sent datagrams; returns how many of them were lost, for a row.
pub(super) fn datagrams_lost(client: Running) -> Result<String> {
    let (_, out, _) = client.finish();
    let said: Value = serde_json::from_str(&out)?;
    let sum = &said["end"]["sum"];
    Ok(format!("{} of {} lost", sum["lost_packets"], sum["packets"]))
}

/// The row of `count` changes of a circuit's rate while datagrams went through it.
pub(super) fn changes_row(count: u32, lost: &str) {
    row(&format!("{count} changes of rate under 40 Mbit/s of datagrams"), lost, "0");
}

/// The row of what best effort takes from a circuit that delivered `alone`, then `next_to_it`, in
/// bit/s.
///
/// # Errors
/// When nothing was delivered to begin with.
pub(super) fn isolated_row(alone: f64, next_to_it: f64) -> Result<()> {
    ensure!(alone > 0.0, "nothing was delivered");
    row(
        "500 Mbit/s next to 3 Gbit/s of best effort into 2",
        &format!("{:.2} % less", 100.0 * (1.0 - next_to_it / alone)),
        "below 1 %",
    );
    Ok(())
}

fn changes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let net = pair(folder.path(), "1G")?;
    let _serving = iperf_server(&net)?;
    let address = circuit(&net, 16, "100M")?;
    let mut client = net.exec("near");
    client.args(["iperf3", "-J", "-u", "-b", "40M", "-l", "1400", "-t", "12", "-c", &address]);
    let client = Running(client.stdout(Stdio::piped()).spawn()?);
    sleep(Duration::from_secs(1));
    let mut changes = 0;
    for rate in ["60M", "200M", "45M", "150M", "50M"].into_iter().cycle().take(20) {
        let mut change = farline_lab::farline();
        change.args(["net", "rate", &net.name, "16", rate]);
        ensure!(change.output()?.status.success(), "no change to {rate}");
        changes += 1;
        sleep(Duration::from_millis(450));
    }
    changes_row(changes, &datagrams_lost(client)?);
    Ok(())
}

fn isolated() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let net = pair(folder.path(), "2G")?;
    let _serving = iperf_server(&net)?;
    let mut other = net.exec("far");
    let _other = Running(other.args(["iperf3", "-s", "-p", "5202"]).stdout(Stdio::null()).spawn()?);
    let address = circuit(&net, 16, "500M")?;
    sleep(Duration::from_millis(500));
    let alone = delivered(&net, 16, &["-c", &address], 6)?;
    let mut blast = net.exec("near");
    blast.args([
        "iperf3",
        "-u",
        "-b",
        "3G",
        "-l",
        "8000",
        "-t",
        "15",
        "-p",
        "5202",
        "-c",
        "10.88.0.2",
    ]);
    let mut blast = Running(blast.stdout(Stdio::null()).spawn()?);
    sleep(Duration::from_secs(1));
    let next_to_it = delivered(&net, 16, &["-c", &address], 6)?;
    let _ = blast.0.kill();
    isolated_row(alone, next_to_it)
}

pub(super) fn run(bookings: usize) -> Result<()> {
    heading("Punctual");
    on_and_off(bookings)?;
    rates()?;
    changes()?;
    isolated()
}
