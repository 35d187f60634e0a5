//! What a kill of the calendar costs: nothing that it said yes to, and how long it is away.

use crate::table::{heading, row};
use anyhow::{Context, Result, ensure};
use farline::calendar::wire::{
    LastDocument, ProblemDocument, ReservationDocument, ReservationsDocument, ReserveDocument,
    StateDocument,
};
use farline::calendar::{CalendarAddress, CalendarClient, timestamp};
use farline_core::units::{Rng, Span, Time};
use farline_lab::{Running, farline};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a hold of the crash row lasts.
const HOLD: u64 = 1;

/// The network of `exact`.
const DIAMOND: &str = r#"
name = "diamond"
sites = ["a", "b", "c", "d"]
link = [
  { between = ["a", "b"], rate = "10G", one_way_delay = "1ms" },
  { between = ["b", "d"], rate = "10G", one_way_delay = "1ms" },
  { between = ["a", "c"], rate = "4G", one_way_delay = "5ms" },
  { between = ["c", "d"], rate = "4G", one_way_delay = "5ms" },
]
"#;

/// A calendar of this bench's own.
pub(super) struct Served {
    running: Running,
    folder: tempfile::TempDir,
    address: CalendarAddress,
}

fn serve(folder: &Path) -> Result<(Running, CalendarAddress)> {
    let mut command = farline();
    command.args(["--json", "calendar", "serve", "--listen", "127.0.0.1:0", "--network"]);
    command.arg(folder.join("network.toml")).arg("--state").arg(folder.join("state"));
    let (running, line) = Running::begun(&mut command);
    let said: serde_json::Value = serde_json::from_str(&line).context("it listens")?;
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    let token: PathBuf = folder.join("state/admin.token");
    let mut address = CalendarAddress::new(text("url"));
    address.trust.fingerprint = text("fingerprint").parse().ok();
    address.token = Some(std::fs::read_to_string(token)?.trim().to_owned());
    Ok((running, address))
}

impl Served {
    pub(super) fn diamond() -> Result<Served> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("network.toml"), DIAMOND)?;
        let (running, address) = serve(folder.path())?;
        Ok(Served { running, folder, address })
    }

    pub(super) fn client(&self) -> Result<CalendarClient> {
        Ok(CalendarClient::new(self.address.clone())?)
    }

    /// The number of the log's last entry.
    pub(super) fn last_entry(&self, client: &mut CalendarClient) -> Result<u64> {
        let entry: LastDocument = client.get("/v1/log/last")?;
        Ok(entry.seq)
    }

    pub(super) fn url(&self) -> &str {
        &self.address.url
    }

    pub(super) fn token(&self) -> &str {
        self.address.token.as_deref().unwrap_or_default()
    }

    /// Its certificate, in PEM.
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.path().join("state/certificate.pem")
    }

    fn kill(&mut self) {
        self.running.end(Signal::KILL);
    }

    /// Starts it again; returns how long that took until it listened.
    fn again(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        (self.running, self.address) = serve(self.folder.path())?;
        Ok(begun.elapsed())
    }
}

/// A request for a fixed slot, in hours after `base`.
pub(super) fn reserve_body(
    from: &str,
    to: &str,
    rate_bps: u64,
    base: Time,
    start: u64,
    end: u64,
) -> ReserveDocument {
    let at = |hours: u64| timestamp(base + Span::from_secs(hours * 3600));
    ReserveDocument {
        from: from.to_owned(),
        to: to.to_owned(),
        wanted: ProblemDocument::Fixed { rate_bps, start: Some(at(start)), end: at(end) },
        both_ways: None,
        label: None,
        hold_seconds: None,
        provision: None,
    }
}

pub(super) fn run(kills: u32, restart: usize) -> Result<()> {
    heading("Crash");
    let mut served = Served::diamond()?;
    let mut rng = Rng::new(3);
    let base = farline::calendar::now() + Span::from_secs(86_400);
    let (mut lost, mut leaked, mut told) = (0_u64, 0_u64, 0_u64);
    let mut known: Vec<String> = Vec::new();
    let mut holds: Vec<(String, Instant)> = Vec::new();
    let (begun, mut away) = (Instant::now(), Vec::new());
    let mut shown = Instant::now();
    for kill in 0..kills {
        if shown.elapsed() > Duration::from_secs(10) {
            shown = Instant::now();
            let seconds = begun.elapsed().as_secs();
            eprintln!("  {kill} of {kills} kills after {seconds} s, {told} times yes");
        }
        // A client goes on until the calendar dies under it, at a random moment.
        let address = served.address.clone();
        let mut draws = rng.fork(told + 1);
        let client = std::thread::spawn(move || -> Vec<(String, bool)> {
            let mut yes = Vec::new();
            let Ok(mut client) = CalendarClient::new(address) else { return yes };
            loop {
                let start = draws.below(8_000);
                let mut body = reserve_body("a", "d", 100_000_000, base, start, start + 1);
                let hold = draws.below(3) == 0;
                body.hold_seconds = hold.then_some(HOLD);
                match client.post::<ReservationDocument>("/v1/reservations", &body, None) {
                    Ok(document) => yes.push((document.id, hold)),
                    Err(error) if error.fault == farline_core::units::Fault::Refused => {}
                    Err(_) => return yes,
                }
            }
        });
        std::thread::sleep(Duration::from_micros(2_000 + rng.below(60_000)));
        served.kill();
        let yes = client.join().expect("no panic");
        told += yes.len() as u64;
        let ended = Instant::now();
        for (id, hold) in yes {
            if hold { holds.push((id, ended)) } else { known.push(id) }
        }
        away.push(served.again()?.as_secs_f64() * 1e3);
        let mut client = served.client()?;
        // What was said yes to in this round, and some of what was before.
        for id in known.iter().rev().take(20) {
            let there = client.get::<ReservationDocument>(&format!("/v1/reservations/{id}"));
            lost += u64::from(there.is_err());
        }
        holds.retain(|(id, since)| {
            if since.elapsed() < Duration::from_secs(HOLD + 1) {
                return true;
            }
            let there = client.get::<ReservationDocument>(&format!("/v1/reservations/{id}"));
            let over = there.is_ok_and(|known| known.state == StateDocument::Terminated);
            leaked += u64::from(!over);
            false
        });
        rng = rng.fork(9);
    }
    let mut client = served.client()?;
    let provisioned = |known: &ReservationDocument| known.state == StateDocument::Provisioned;
    let there: BTreeSet<String> =
        client.reservations()?.into_iter().filter(provisioned).map(|known| known.id).collect();
    lost += known.iter().filter(|id| !there.contains(*id)).count() as u64;
    row(
        &format!("kill -9 at {kills} random moments, {told} times yes"),
        &format!("{lost} lost, {leaked} holds past their timer"),
        "0, 0",
    );
    away.sort_by(f64::total_cmp);
    if let (Some(median), Some(most)) = (away.get(away.len() / 2), away.last()) {
        row("until it listens again", &format!("median {median:.0} ms, at most {most:.0}"), "");
    }
    drop(client);
    let state = served.folder.path().join("state");
    served.kill();
    let verified = farline().args(["calendar", "verify", "--state"]).arg(&state).output()?;
    ensure!(verified.status.success(), "the log is broken: {verified:?}");
    fill(&state, restart, base)?;
    let took = served.again()?;
    let mut client = served.client()?;
    let page: ReservationsDocument = client.get("/v1/reservations?limit=1")?;
    ensure!(!page.reservations.is_empty(), "nothing is there");
    row(
        &format!("back with {restart} more reservations"),
        &format!("{:.2} s", took.as_secs_f64()),
        "below 2 s",
    );
    Ok(())
}

/// Writes reservations into the database as the calendar would have, in one transaction.
fn fill(state: &Path, count: usize, base: Time) -> Result<()> {
    let mut ledger = farline::calendar::open_ledger(state, None)?;
    let mut rng = Rng::new(5);
    let first = 10_000_000;
    let documents = (0..count as u64).map(|number| {
        let start = rng.below(9_000);
        let leg = farline::calendar::wire::LegDocument {
            start: timestamp(base + Span::from_secs(start * 3600)),
            end: timestamp(base + Span::from_secs((start + 1) * 3600)),
            rate_bps: 1_000_000,
            route: vec!["a>b".to_owned(), "b>d".to_owned()],
        };
        ReservationDocument {
            schema: "farline/reservation/1".to_owned(),
            id: format!("r-{}", first + number),
            version: 1,
            owner: "bench".to_owned(),
            project: "bench".to_owned(),
            label: String::new(),
            from: "a".to_owned(),
            to: "d".to_owned(),
            both_ways: true,
            legs: vec![leg],
            state: StateDocument::Provisioned,
            ended: None,
            held_until: None,
            priority: 0,
            stranded: false,
            created: timestamp(base),
        }
    });
    ledger.import(documents)?;
    Ok(())
}
