//! Circuits on a real interface, a veth pair, by HTB: what is delivered of each rate, what a change
//! loses, what best effort takes, and how long a step takes.

use super::punctual::{changes_row, datagrams_lost, isolated_row};
use crate::table::{heading, row};
use anyhow::{Context, Result, anyhow};
use farline::circuit::{CircuitDriver, InterfaceSettings, LinuxDriver};
use farline_core::calendar::circuit::{CircuitNumber, CircuitStep, DesiredCircuit};
use farline_core::calendar::{LinkId, Topology, TopologySpec};
use farline_core::units::Rate;
use farline_lab::{Namespaces, Running};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The circuit's number, and its address at the other end.
const NUMBER: CircuitNumber = CircuitNumber(16);
const FAR: &str = "10.64.0.3";
/// The circuits' interface: what it carries, and its address at the other end.
const CARRIES: Rate = Rate::from_bps(10_000_000_000);
const BEST_EFFORT: &str = "10.77.0.2";

/// Does `work` in a network namespace.
fn inside<T: Send>(space: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let namespace = File::open(PathBuf::from("/run/netns").join(space))?;
    std::thread::scope(|scope| {
        let work = scope.spawn(move || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), network)?;
            work()
        });
        work.join().map_err(|_| anyhow!("a thread panicked"))?
    })
}

/// Both ends of an interface with a circuit.
struct Ends {
    spaces: Namespaces,
    topology: Topology,
    drivers: [LinuxDriver; 2],
}

impl Ends {
    fn up(rate: Rate) -> Result<Ends> {
        let spaces = Namespaces::pair("bench-if").context("two namespaces")?;
        let text = "name = \"pair\"\nsites = [\"near\", \"far\"]\n[[link]]\nbetween = [\"near\", \"far\"]\n\
                    rate = \"100G\"\none_way_delay = \"1ms\"\n";
        let spec = TopologySpec::from_toml(text).map_err(|error| anyhow!("{error}"))?;
        let topology = Topology::new(&spec).map_err(|error| anyhow!("{error}"))?;
        let driver = |space: &str, site: &str| {
            let settings = InterfaceSettings {
                interface: "v".to_owned(),
                site: Some(site.to_owned()),
                rate: Some(rate),
                ..InterfaceSettings::default()
            };
            inside(space, || {
                let mut driver = LinuxDriver::new(settings)?;
                driver.fit(&topology)?;
                Ok(driver)
            })
        };
        let drivers = [driver(spaces.here_name(), "near")?, driver(spaces.there_name(), "far")?];
        Ok(Ends { spaces, topology, drivers })
    }

    fn wanted(&self, rate: Rate) -> Result<DesiredCircuit> {
        let site = |name| self.topology.site(name).context("a site");
        Ok(DesiredCircuit {
            from: site("near")?,
            to: site("far")?,
            route: vec![LinkId(0)],
            rate,
            both_ways: true,
            open: true,
        })
    }

    /// Does a step at both ends; returns how long the first took.
    fn step(&mut self, step: &CircuitStep) -> Result<Duration> {
        let names = [self.spaces.here_name().to_owned(), self.spaces.there_name().to_owned()];
        let mut took = Duration::ZERO;
        for (at, driver) in self.drivers.iter_mut().enumerate().rev() {
            let topology = &self.topology;
            took = inside(&names[at], || {
                let begun = Instant::now();
                driver.step(topology, step)?;
                Ok(begun.elapsed())
            })?;
        }
        Ok(took)
    }

    fn open(&mut self, rate: Rate) -> Result<()> {
        let wanted = self.wanted(rate)?;
        self.step(&CircuitStep::Prepare(NUMBER, wanted))?;
        self.step(&CircuitStep::Open(NUMBER))?;
        Ok(())
    }

    /// What went through it from this end, in bytes of frames, and how long looking took.
    fn carried(&mut self) -> Result<(u64, Duration)> {
        let (space, driver) = (self.spaces.here_name().to_owned(), &mut self.drivers[0]);
        let topology = &self.topology;
        inside(&space, || {
            let begun = Instant::now();
            let there = driver.circuits(topology, &BTreeMap::new())?;
            let circuit = there.get(&NUMBER).context("it is there")?;
            Ok((circuit.carried, begun.elapsed()))
        })
    }

    fn iperf(&self, is_here: bool, words: &[&str]) -> Result<Running> {
        let iperf = Path::new("iperf3");
        let mut command =
            if is_here { self.spaces.run_here(iperf) } else { self.spaces.run_there(iperf) };
        Ok(Running(command.args(words).stdout(Stdio::piped()).spawn().context("iperf3")?))
    }

    /// What the circuit carries in bit/s over `seconds`, while one TCP flow sends.
    fn delivered(&mut self, seconds: u64) -> Result<f64> {
        let time = (seconds + 2).to_string();
        let mut client = self.iperf(true, &["-c", FAR, "-t", &time])?;
        sleep(Duration::from_secs(1));
        let (began, before) = (Instant::now(), self.carried()?.0);
        sleep(Duration::from_secs(seconds));
        let (took, after) = (began.elapsed(), self.carried()?.0);
        client.0.wait()?;
        Ok((after - before) as f64 * 8.0 / took.as_secs_f64())
    }
}

fn most(mut times: Vec<Duration>) -> String {
    times.sort();
    let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    let last = times.last().copied().unwrap_or_default();
    format!("p99 {:.2} ms, most {:.2} ms", p99.as_secs_f64() * 1e3, last.as_secs_f64() * 1e3)
}

fn steps() -> Result<()> {
    let mut ends = Ends::up(CARRIES)?;
    let wanted = ends.wanted(Rate::from_bps(1_000_000_000))?;
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for at in 0..200 {
        let rate = Rate::from_bps(500_000_000 + at);
        for (name, step) in [
            ("prepare", CircuitStep::Prepare(NUMBER, wanted.clone())),
            ("open", CircuitStep::Open(NUMBER)),
            ("change", CircuitStep::Change(NUMBER, rate)),
            ("shut", CircuitStep::Shut(NUMBER)),
        ] {
            times.entry(name).or_default().push(ends.step(&step)?);
        }
        times.entry("a look").or_default().push(ends.carried()?.1);
        times.entry("remove").or_default().push(ends.step(&CircuitStep::Remove(NUMBER))?);
    }
    for (name, times) in times {
        row(&format!("{name}, 200 times"), &most(times), "");
    }
    Ok(())
}

fn rates() -> Result<()> {
    for (text, bps) in [("100M", 100_000_000), ("1G", 1_000_000_000), ("5G", 5_000_000_000)] {
        let mut ends = Ends::up(CARRIES)?;
        let _serving = ends.iperf(false, &["-s"])?;
        ends.open(Rate::from_bps(bps))?;
        sleep(Duration::from_millis(500));
        let found = ends.delivered(6)?;
        row(
            &format!("delivered of {text} bit/s, one TCP flow, frames"),
            &format!("{:.4} Gbit/s, {:.2} %", found / 1e9, 100.0 * found / bps as f64),
            "within 2 %",
        );
    }
    Ok(())
}

/// Datagrams that found no room in the sockets of the other end.
fn overrun(ends: &Ends) -> Result<u64> {
    let out = ends.spaces.run_there(Path::new("cat")).arg("/proc/net/snmp").output()?;
    let text = String::from_utf8(out.stdout)?;
    let mut udp = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = udp.next().zip(udp.next()).context("counters of UDP")?;
    let mut both = names.split(' ').zip(values.split(' '));
    let found = both.find(|(name, _)| *name == "RcvbufErrors").context("RcvbufErrors")?;
    Ok(found.1.parse()?)
}

fn changes() -> Result<()> {
    let mut ends = Ends::up(CARRIES)?;
    let _serving = ends.iperf(false, &["-s"])?;
    ends.open(Rate::from_bps(100_000_000))?;
    sleep(Duration::from_millis(500));
    let before = overrun(&ends)?;
    let words = ["-J", "-u", "-b", "40M", "-l", "1400", "-t", "12", "-c", FAR];
    let client = ends.iperf(true, &words)?;
    sleep(Duration::from_secs(1));
    let mut changes = 0;
    for mbps in [60, 200, 45, 150, 50].into_iter().cycle().take(20) {
        ends.step(&CircuitStep::Change(NUMBER, Rate::from_bps(mbps * 1_000_000)))?;
        changes += 1;
        sleep(Duration::from_millis(450));
    }
    let lost = datagrams_lost(client)?;
    let overrun = overrun(&ends)? - before;
    changes_row(changes, &format!("{lost}, {overrun} of them in the receiver's socket"));
    Ok(())
}

fn isolated() -> Result<()> {
    let mut ends = Ends::up(Rate::from_bps(2_000_000_000))?;
    let _serving = ends.iperf(false, &["-s"])?;
    let _other = ends.iperf(false, &["-s", "-p", "5202"])?;
    ends.open(Rate::from_bps(500_000_000))?;
    sleep(Duration::from_millis(500));
    let alone = ends.delivered(6)?;
    let blast = ["-u", "-b", "3G", "-l", "1400", "-t", "15", "-p", "5202", "-c", BEST_EFFORT];
    let mut blast = ends.iperf(true, &blast)?;
    sleep(Duration::from_secs(1));
    let next_to_it = ends.delivered(6)?;
    let _ = blast.0.kill();
    isolated_row(alone, next_to_it)
}

pub(super) fn run() -> Result<()> {
    heading("Circuits on an interface, by HTB");
    steps()?;
    rates()?;
    changes()?;
    isolated()
}
