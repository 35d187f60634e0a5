//! A copy over a booked circuit next to the same one by best effort.

use crate::table::{gbit, heading, median, row};
use anyhow::{Context, Result, ensure};
use farline_core::calendar::TopologySpec;
use farline_lab::circuits::{BookedNetwork, NoNetwork};
use farline_lab::{Running, own_name};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// What is booked, and what best effort has.
const RATE: f64 = 2e9;

fn usn(folder: &Path) -> Result<BookedNetwork> {
    let spec = TopologySpec::named("usn").context("built in")?;
    let name = own_name("usn").to_lowercase();
    let mut text = format!("name = {name:?}\nsites = {:?}\n[hosts]\n", spec.sites);
    for (site, hosts) in &spec.hosts {
        writeln!(text, "{site} = {hosts:?}")?;
    }
    for link in &spec.links {
        let (between, rate, delay) = (&link.between, &link.rate, &link.one_way_delay);
        let name = link.name.as_deref().unwrap_or("1");
        writeln!(
            text,
            "[[link]]\nname = {name:?}\nbetween = {between:?}\nrate = {rate:?}\none_way_delay = {delay:?}"
        )?;
    }
    let file = folder.join("usn.toml");
    std::fs::write(&file, text)?;
    BookedNetwork::up(&file.to_string_lossy(), folder, "2G").map_err(|error| match error {
        NoNetwork::NotHere(why) | NoNetwork::Failed(why) => anyhow::anyhow!(why),
    })
}

/// What came in the first second after the first byte, and from then on, in bit/s.
fn seconds(copied: &Value) -> Result<(f64, f64)> {
    let samples: Vec<(f64, f64)> = copied["samples"]
        .as_array()
        .context("samples")?
        .iter()
        .filter_map(|s| Some((s["t"].as_f64()?, s["bytes"].as_f64()?)))
        .collect();
    let first = copied["first_data_seconds"].as_f64().context("first data")?;
    // What is on its way when it begins is acknowledged a round trip later.
    let begin = first + copied["rtt_seconds"].as_f64().unwrap_or_default();
    let at = |time: f64| {
        let after = samples.iter().position(|(t, _)| *t >= time).unwrap_or(samples.len() - 1);
        let (t1, b1) = samples[after];
        let (t0, b0) = if after == 0 { (0.0, 0.0) } else { samples[after - 1] };
        b0 + (b1 - b0) * ((time - t0) / (t1 - t0).max(1e-9)).clamp(0.0, 1.0)
    };
    let second = (at(begin + 1.0) - at(begin)) * 8.0;
    let whole = copied["bytes"].as_f64().context("bytes")?;
    let last = samples.iter().find(|(_, bytes)| *bytes >= whole).map_or(0.0, |(t, _)| *t);
    let rest = (whole - at(begin + 1.0)) * 8.0 / (last - begin - 1.0).max(1e-3);
    Ok((second, rest))
}

fn copied(net: &BookedNetwork, words: &[&str]) -> Result<Value> {
    let mut command = net.farline("oak-ridge");
    let output = command.arg("cp").args(words).output()?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    ensure!(said["error"].is_null(), "{words:?}: {}", said["error"]);
    Ok(said)
}

/// How far the end that was predicted is off, in per cent of how long the copy took.
fn prediction_error(said: &Value) -> Result<f64> {
    let time =
        |key: &str| farline::calendar::time_of(said["booking"][key].as_str().unwrap_or_default());
    let (ready, ended) = (time("ready").context("ready")?, time("ended").context("ended")?);
    let predicted = time("predicted_end").context("predicted")?;
    let (took, said_so) = (ended.since(ready).as_secs_f64(), predicted.since(ready).as_secs_f64());
    Ok(100.0 * (said_so / took - 1.0).abs())
}

pub(super) fn run(runs: usize) -> Result<()> {
    heading("Transfer: 1 GiB, memory to null, Oak Ridge to Sunnyvale, 81.5 ms");
    let folder = tempfile::tempdir()?;
    let mut net = usn(folder.path())?;
    drop(net.start_agent());
    let mut serve = net.farline("sunnyvale");
    serve.args(["serve", "--listen", "0.0.0.0:2811", "--anonymous", "write", "--allow-null"]);
    serve.args(["--allow-held", "2G", "--root"]);
    let _node = Running::begun(serve.arg(folder.path())).0;
    let size = "memory:1GiB";
    let to = "farline://10.88.0.4/?null";
    let reserve = "by=+3min,rate=2G,volume=1GiB";
    let (mut held, mut booked, mut free) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for (at, (more, seen)) in
            [(&["--congestion", "held"][..], &mut held), (&[][..], &mut booked)]
                .into_iter()
                .enumerate()
        {
            let said = copied(&net, &[more, &["--reserve", reserve, size, to]].concat())?;
            errors[at].push(prediction_error(&said)?);
            let (first, rest) = seconds(&said)?;
            seen.push((first, rest, said["seconds"].as_f64().unwrap_or_default()));
        }
        let said = copied(&net, &[size, to])?;
        let (first, rest) = seconds(&said)?;
        free.push((first, rest, said["seconds"].as_f64().unwrap_or_default()));
    }
    for (name, runs, asked) in [
        ("booked 2 Gbit/s, held", &held, "90 % from the first second on"),
        ("booked 2 Gbit/s, paced TCP", &booked, ""),
        ("best effort, 2 Gbit/s free", &free, ""),
    ] {
        let first = median(runs.iter().map(|run| run.0))?;
        let rest = median(runs.iter().map(|run| run.1))?;
        let all = median(runs.iter().map(|run| run.2))?;
        row(
            &format!("{name}: first second"),
            &format!("{}, {:.1} %", gbit(first), 100.0 * first / RATE),
            asked,
        );
        row(
            &format!("{name}: from then on"),
            &format!("{}, {:.1} %", gbit(rest), 100.0 * rest / RATE),
            asked,
        );
        row(&format!("{name}: in all"), &format!("{all:.2} s"), "");
    }
    for (name, mut errors) in ["held", "paced TCP"].into_iter().zip(errors) {
        errors.sort_by(f64::total_cmp);
        let most = errors.last().copied().unwrap_or(f64::NAN);
        row(
            &format!("error of the predicted end, {name}, {} runs", errors.len()),
            &format!("median {:.1} %, most {most:.1} %", median(errors)?),
            "below 5 %",
        );
    }
    Ok(())
}
