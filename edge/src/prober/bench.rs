//! Repetitions over emulated links: each has a link of its own, with an end of the measurement in either side.

use super::joined::{Controls, joined};
use super::{PATIENCE, Received, Request, Sent};
use crate::link::{Link, Settings, Side, Stats};
use farline_core::profile::{Bench, Cell, Exactness, Grid, Job, Repetition};
use farline_core::units::{Error, Fault, Span};
use farline_core::wan::{self, Change, Event};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// When the streams begin on a link on which something is scripted: time enough for both ends to come up and connect.
const LEAD: Span = Span::from_secs(3);

/// The bench of a profile over emulated links.
#[derive(Debug)]
pub struct LinkBench {
    name: String,
    program: Option<PathBuf>,
    /// Says to others that links of this name are in use; the kernel takes it back when the process ends, however it does.
    _claim: UnixListener,
    held: Controls,
}

impl LinkBench {
    /// A bench for `grid`, whose links are called `name`. `program` is the `farline` that runs links and ends; this process's own when
    /// `None`.
    ///
    /// # Errors
    /// Those of [`kernelcc::obtain`](crate::kernelcc::obtain), for a control that cannot be had here; [`Fault::Refused`] when another bench of this name lives.
    pub fn new(name: impl Into<String>, program: Option<PathBuf>, grid: &Grid) -> Result<LinkBench, Error> {
        let name = name.into();
        let claim = SocketAddr::from_abstract_name(format!("farline-bench-{name}"))
            .and_then(|address| UnixListener::bind_addr(&address))
            .map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => {
                    Error::new(Fault::Refused, "profile-running", "another profile is being measured on this machine")
                        .hint("two would measure each other: wait for it, or end it")
                }
                _ => failed("the claim", &error),
            })?;
        Ok(LinkBench { _claim: claim, name, program, held: Controls::obtain(grid)? })
    }

    fn settings(&self, grid: &Grid, cell: &Cell, seed: u64) -> Settings {
        let path = &cell.path;
        let mut wan = wan::Settings::new(path.rate_bps, path.rtt_ns);
        wan.seed = seed;
        (wan.a_to_b.queue, wan.a_to_b.loss) = (path.queue_bytes, cell.loss);
        let mut at = |at, change| wan.script.push(Event { at, side: wan::Side::AToB, change });
        if cell.cross_bps.as_bps() > 0 {
            at(Span::ZERO, Change::Cross(cell.cross_bps, None));
        }
        if let Some(disturbance) = grid.disturbance {
            at(LEAD + disturbance.at_ns, disturbance.change);
        }
        let settings = Settings::new(&path.name, wan);
        Settings { name: self.name.clone(), mtu: cell.mtu, with_parent: true, program: self.program.clone(), ..settings }
    }

    fn measure(&self, link: &Link, grid: &Grid, cell: &Cell) -> Result<(Sent, Received), Error> {
        let up = Span::from_secs_f64(link.stats()?.uptime_seconds);
        let request = Request {
            streams: cell.streams,
            seconds: grid.samples() as f64 * grid.sample_s,
            sample_s: grid.sample_s,
            congestion: self.held.name(cell.congestion),
            window: cell.window_bytes,
            limit: grid.host_bps,
            begin_in_s: grid.disturbance.map_or(0.0, |_| LEAD.saturating_sub(up).as_secs_f64()),
        };
        let program = match &self.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|error| failed("this program", &error))?,
        };
        let command = |side, end| {
            let mut command = link.command(side, &program);
            command.args(["--json", "profile", "end", end]);
            command
        };
        let address = link.info().address(Side::B);
        let mut receiver = End::start(command(Side::B, "receive").args(["--listen", &format!("{address}:0")]), &request)?;
        let listening: Listening = receiver.answer()?;
        let sender = End::start(command(Side::A, "send").args(["--to", &format!("{address}:{}", listening.port)]), &request)?;
        // Whichever failed first says why; the other one is ended with the link.
        let sent = sender.result()?;
        Ok((sent, receiver.result()?))
    }
}

impl Bench for LinkBench {
    fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
        let link = up(&self.settings(grid, &job.cell, job.seed))?;
        let measured = self.measure(&link, grid, &job.cell);
        let stats = link.stats();
        link.down()?;
        let ((sent, received), stats) = (measured?, stats?);
        let mut repetition = joined(grid, job, sent, received, stats.invalid_because.clone());
        repetition.link = Some(exactness(&stats));
        Ok(repetition)
    }
}

/// Brings a link up; the link of a bench that was killed may still be on its way down.
fn up(settings: &Settings) -> Result<Link, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Link::up(settings) {
            Err(error) if error.code == "link-taken" && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
}

fn exactness(stats: &Stats) -> Exactness {
    let micros = |us: f64| Span::from_nanos((us * 1e3) as u64);
    Exactness {
        late_p50_ns: micros(stats.a_to_b.lateness.p50_us),
        late_p99_ns: micros(stats.a_to_b.lateness.p99_us),
        limit_ns: micros(stats.lateness_limit_us),
        queue_drops: stats.a_to_b.model.dropped_queue,
        overruns: stats.a_to_b.overrun + stats.b_to_a.overrun,
    }
}

/// What the receiving end says first.
#[derive(Deserialize)]
struct Listening {
    port: u16,
}

/// One end of a measurement, as a process in its side of the link.
struct End {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl End {
    fn start(command: &mut Command, request: &Request) -> Result<End, Error> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| failed("an end", &error))?;
        if let (Some(mut stdin), Ok(text)) = (child.stdin.take(), serde_json::to_vec(request)) {
            // An end that stops early says why on its standard output.
            let _ = stdin.write_all(&text);
        }
        let stdout = child.stdout.take().ok_or_else(|| Error::new(Fault::Bug, "profile-end", "an end has no output"))?;
        Ok(End { child, stdout: BufReader::new(stdout) })
    }

    /// One line of its output.
    fn answer<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| failed("an end", &error))?;
        parse(&line)
    }

    /// The rest of it, when the end has ended.
    fn result<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).map_err(|error| failed("an end", &error))?;
        let _ = self.child.wait();
        parse(&text)
    }
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(Fault::Here, "profile-end", format!("running {what} of the measurement: {error}"))
}

/// What an end said: its result, or its error as `--json` prints it.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    #[derive(Deserialize)]
    struct Failed {
        error: Failure,
    }
    #[derive(Deserialize)]
    struct Failure {
        fault: Fault,
        message: String,
        hint: Option<String>,
    }
    if let Ok(result) = serde_json::from_str(text) {
        return Ok(result);
    }
    let Ok(Failed { error }) = serde_json::from_str(text) else {
        return Err(Error::new(Fault::Here, "profile-end", "an end of the measurement ended without a word"));
    };
    Err(Error { fault: error.fault, code: "profile-end", message: error.message, hint: error.hint })
}
