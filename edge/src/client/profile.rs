//! Measuring the path to a node that allows it: the repetitions of a profile, with the node as the
//! other end (docs/protocol.md, M-1 to M-5).

use super::connect_options::ConnectOptions;
use super::control::Control;
use super::location::{ControlTransport, Remote};
use super::profile_copy::NullSink;
use crate::channels::socket::{TcpOptions, connect_stream, may_choose};
use crate::plan::ProbeBench;
use crate::prober::{
    Controls, MODULE, ProbeReceived, ProbeRequest as Measure, ProbeSent, Report, drain, fill,
    joined,
};
use farline_core::congestion::ControlName;
use farline_core::copy::farline_option;
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{Mode, Module, Pathname};
use farline_core::profile::{Bench, Cell, Grid, Job, Repetition, StagingStore, TrafficDirection};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Setting, Span};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// How long a data connection to the node may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a node says to being measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consent {
    /// No faster than this.
    pub ceiling: Rate,
    /// How far it is, at best.
    pub rtt: Span,
}

/// A session whose data, zeros, goes in the clear.
async fn open(remote: &Remote, connect: &ConnectOptions) -> Result<(Control, Vec<u64>), Error> {
    if remote.transport == ControlTransport::Ssh {
        return Err(Error::new(
            Fault::You,
            ErrorCode::Unsupported,
            format!("{remote}: a node that ssh starts lets nobody measure it"),
        )
        .hint(format!(
            "run farline serve {} RATE there, and name it as farline://HOST:PORT",
            Setting::AllowProfile
        )));
    }
    if remote.transport == ControlTransport::OnePort {
        let message = format!("{remote}: what is measured are streams of TCP");
        return Err(Error::new(Fault::You, ErrorCode::Unsupported, message).hint(
            "name it as farline://HOST:PORT, or as farlines://HOST:PORT for channels that encrypt",
        ));
    }
    let connect = ConnectOptions { no_encrypt: true, ..connect.clone() };
    let ahead = vec![Request::Passive { mode: Mode::Extended, striped: false }];
    Control::open(remote, &connect, ahead).await
}

fn allowed(control: &Control) -> Result<Rate, Error> {
    control.features().profile_ceiling.ok_or_else(|| {
        Error::new(
            Fault::Refused,
            ErrorCode::ProfileNotAllowed,
            format!("{} does not let itself be measured", control.server()),
        )
        .hint(format!("its operator can allow it: farline serve {} RATE", Setting::AllowProfile))
    })
}

/// Whether the kernel lets this process choose a congestion control.
fn check_choice(name: ControlName) -> Result<(), Error> {
    may_choose(name).map_err(|error| {
        let message = format!("this kernel does not let an ordinary user choose {name}: {error}");
        Error::new(Fault::Refused, ErrorCode::CongestionCapability, message).hint(
            "measure with what /proc/sys/net/ipv4/tcp_allowed_congestion_control names, or as root",
        )
    })
}

/// The bench of a profile whose path leads to a node.
#[derive(Debug)]
pub struct NodeBench {
    /// There until the end.
    runtime: Option<Runtime>,
    remote: Remote,
    connect: ConnectOptions,
    ceiling: Rate,
    controls: Controls,
    deadline: Option<Instant>,
}

impl Drop for NodeBench {
    fn drop(&mut self) {
        // What was broken off at the deadline may still wait for a node that says nothing.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl NodeBench {
    /// Asks the node of `remote` whether it may be measured.
    ///
    /// # Errors
    /// When it cannot be reached, and [`Fault::Refused`] when it does not allow it.
    pub fn open(remote: Remote, connect: ConnectOptions) -> Result<(NodeBench, Consent), Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            Error::new(Fault::Here, ErrorCode::NoRuntime, format!("cannot start: {error}"))
        })?;
        let consent = runtime.block_on(async {
            let (mut control, _) = open(&remote, &connect).await?;
            // A few harmless questions, so that the kernel sees some round trips.
            for _ in 0..3 {
                let look = control.try_request(Request::Stat(Pathname::new(b"/".to_vec())));
                let _ = control.looked(look).await;
            }
            Ok(Consent { ceiling: allowed(&control)?, rtt: control.rtt() })
        })?;
        let bench = NodeBench {
            runtime: Some(runtime),
            remote,
            connect,
            ceiling: consent.ceiling,
            controls: Controls::default(),
            deadline: None,
        };
        Ok((bench, consent))
    }

    /// From `deadline` on nothing more is measured: a repetition that is not over then is broken
    /// off.
    pub fn end_at(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    async fn measure(
        &self,
        grid: &Grid,
        cell: &Cell,
    ) -> Result<Vec<(ProbeSent, ProbeReceived)>, Error> {
        let (mut control, ahead) = open(&self.remote, &self.connect).await?;
        let ceiling = allowed(&control)?;
        let request = Measure {
            streams: cell.streams,
            seconds: grid.samples() as f64 * grid.sample_s,
            sample_s: grid.sample_s,
            congestion: Some(self.controls.name(cell.congestion)),
            window: cell.window_bytes,
            buffer: cell.buffer_bytes,
            message: cell.message_bytes,
            limit: Some(grid.host_bps.map_or(ceiling, |host| host.min(ceiling))),
            direction: cell.direction,
            begin_in_s: 0.0,
        };
        if cell.direction != TrafficDirection::Out {
            if !control.features().profile_duplex {
                let message = format!("{} receives measurements and sends none", control.server());
                return Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
                    .hint(format!("measure this way alone: {} out", Setting::Direction)));
            }
            // The sender's control is the node's to set.
            let asked = control.request(farline_option("congestion", cell.congestion.name()));
            control.done(asked).await?;
        }
        let address = control.passive(*ahead.first().unwrap_or(&0)).await?;
        let Some(key) = control.agreed_key().await? else {
            return Err(Error::new(
                Fault::There,
                ErrorCode::NotFarline,
                format!("{} knows no keys", control.server()),
            ));
        };
        let module = Some(Module { name: MODULE.to_owned(), parms: request.parms() });
        let transfer = Transfer {
            module,
            ..Transfer::new(TransferKind::Retrieve, Pathname::new(b"/".to_vec()))
        };
        let asked = control.request(Request::Transfer(transfer));
        let ours = tokio::task::spawn_blocking({
            let (request, preamble) = (request.clone(), key.preamble());
            move || LocalStats::run(address, &preamble, &request)
        });
        // The node's own words are the cause where both fail.
        let reply = control.done(asked).await;
        let ours = ours.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let reply = match (reply, &ours) {
            (Ok(reply), _) => reply,
            (Err(error), Err(here)) if error.fault == Fault::Between => return Err(here.clone()),
            (Err(error), _) => {
                return Err(
                    error.while_doing(format!("measuring the path to {}", control.server()))
                );
            }
        };
        let words: Vec<u8> = reply
            .lines
            .iter()
            .skip(1)
            .take(reply.lines.len().saturating_sub(2))
            .flatten()
            .copied()
            .collect();
        let silent = |why: String| {
            Error::new(
                Fault::There,
                ErrorCode::ProfileEnd,
                format!("{} did not say what it saw: {why}", control.server()),
            )
        };
        let told: Report =
            serde_json::from_slice(&words).map_err(|error| silent(error.to_string()))?;
        let ours = ours?;
        // What one end sent is what the other one received.
        let ways = [ours.sent.zip(told.received), told.sent.zip(ours.received)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
        let wanted = if cell.direction == TrafficDirection::Both { 2 } else { 1 };
        if ways.len() < wanted {
            Err(silent("one direction is missing".to_owned()))
        } else {
            Ok(ways)
        }
    }
}

/// What this end sent and received.
#[derive(Default)]
struct LocalStats {
    sent: Option<ProbeSent>,
    received: Option<ProbeReceived>,
}

impl LocalStats {
    /// Opens the connections that `request` asks for and fills or empties them.
    fn run(address: SocketAddr, preamble: &[u8], request: &Measure) -> Result<LocalStats, Error> {
        let began = Instant::now();
        let options = TcpOptions { congestion: request.congestion, ..TcpOptions::default() };
        let connect = || -> std::io::Result<Vec<TcpStream>> {
            let one = || {
                let mut stream = connect_stream(address, None, &options, CONNECT_TIMEOUT)?;
                stream.write_all(preamble)?;
                Ok(stream)
            };
            // At once: one after the other, sixteen over a long path take as long as what is
            // measured through them.
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..request.streams).map(|_| scope.spawn(one)).collect();
                let joined = threads.into_iter().map(|thread| thread.join());
                joined
                    .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .collect()
            })
        };
        let streams = || {
            connect().map_err(|error| {
                Error::new(
                    Fault::Between,
                    ErrorCode::ProfileConnect,
                    format!("connecting to {address}: {error}"),
                )
                .hint("a firewall may hold the node's data ports back")
            })
        };
        let send = |streams: Vec<TcpStream>| fill(&streams, request, began, &|| Ok(())).map(Some);
        let take = |streams| drain(streams, request, &|_| Ok(())).map(Some);
        match request.direction {
            TrafficDirection::Out => {
                Ok(LocalStats { sent: send(streams()?)?, ..LocalStats::default() })
            }
            TrafficDirection::Back => {
                Ok(LocalStats { received: take(streams()?)?, ..LocalStats::default() })
            }
            TrafficDirection::Both => {
                let (there, back) = (streams()?, streams()?);
                std::thread::scope(|scope| {
                    let sending = scope.spawn(|| send(there));
                    let received = take(back);
                    let sent =
                        sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    Ok(LocalStats { sent: sent?, received: received? })
                })
            }
        }
    }
}

impl Bench<Grid> for NodeBench {
    fn run(&mut self, grid: &Grid, job: &Job) -> Result<Repetition, Error> {
        let late = || {
            Error::new(
                Fault::Between,
                ErrorCode::ProfileSilent,
                format!("{} took too long to be measured", self.remote.server()),
            )
            .hint("measure it without a limit of time: farline profile NODE")
        };
        let measuring = async {
            match self.deadline {
                None => self.measure(grid, &job.cell).await,
                Some(deadline) => {
                    tokio::time::timeout_at(deadline.into(), self.measure(grid, &job.cell))
                        .await
                        .unwrap_or_else(|_| Err(late()))
                }
            }
        };
        let runtime = self.runtime.as_ref().ok_or_else(late)?;
        if let Some(staged) = job.cell.staged {
            let sink = NullSink {
                remote: &self.remote,
                connect: &self.connect,
                ceiling: self.ceiling,
                congestion: job.cell.control().map(|control| self.controls.name(control)),
            };
            return runtime.block_on(sink.fill(grid, job, staged));
        }
        Ok(joined(grid, job, runtime.block_on(measuring)?))
    }
}

impl ProbeBench for NodeBench {
    /// [`Fault::You`] too, when the grid asks for what a path that is not ours does not do.
    fn prepare(&mut self, grid: &Grid) -> Result<(), Error> {
        let ours = |what: &str| {
            Err(Error::new(
                Fault::You,
                ErrorCode::ProfileGrid,
                format!("a real path has no {what} of ours"),
            )
            .hint(format!("leave it out, or measure an emulated path with {}", Setting::Link)))
        };
        if grid.cross_bps.iter().any(|cross| cross.as_bps() > 0) || grid.disturbance.is_some() {
            return ours("cross-traffic");
        }
        if grid.copies.as_ref().is_some_and(|copies| copies.stores != [StagingStore::Memory]) {
            return ours("files");
        }
        if grid.losses.iter().any(|loss| *loss > 0.0) {
            return ours("losses");
        }
        self.controls = Controls::obtain(grid)?;
        grid.congestion.iter().try_for_each(|&control| check_choice(self.controls.name(control)))
    }
}
