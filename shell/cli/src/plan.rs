//! `farline plan`: what to choose for a transfer, how long it will take, and why.

use crate::booked::{self, ReserveFlag};
use crate::connect;
use crate::node::{hello, remote};
use crate::output::Output;
use crate::profile::{USUAL_RATE, plan_text, probe, read, store};
use farline::client::{Remote, path_estimate};
use farline::kernelcc::available;
use farline::plan::stored;
use farline_core::congestion::{Algorithm, ControlName};
use farline_core::copy::SeenPath;
use farline_core::plan::{ModelReason, Reason};
use farline_core::profile::{
    Grid, PathPoint, Plan, PlanInput, PlanSource, Profile, TrafficDirection, plan, plan_from,
};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Probability, Rate, Span};
use farline_core::wan;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  farline plan usn-8600 --size 1TB --loss 1e-5
  farline plan custom --rate 100G --rtt 200ms --size 10TB
  farline plan sc08.json --path usn-8600 --size 1TB
  farline plan farline://dtn2.example.org:2811 --size 1TB

For a node the time comes from its stored profile (`farline profile NODE`), else
from a probe of at most 20 s where it allows one (`serve --allow-profile`),
kept for a day; else, or where a flag of the model is given, as for a path from
the model, whose own error the interval has in it, not what disks cost.
`farline cp` begins so too, without a probe, and learns on its way.";

/// Say how to move a size over a path, and how long it takes
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A node, a path's name, `custom`, or a profile's document
    #[arg(value_name = "PATH")]
    what: String,
    /// How much is to be moved, such as 1TB
    #[arg(long, value_name = "BYTES")]
    size: Bytes,
    /// Which path of the document [default: its only one]
    #[arg(long, value_name = "NAME")]
    path: Option<String>,
    /// out or back, to or from the node [default: out]
    #[arg(long, value_name = "WAY")]
    direction: Option<TrafficDirection>,
    /// What `cp --reserve` would book for it [default: nothing]
    #[arg(long, value_name = "HOW", value_parser = booked::reserve_flag)]
    reserve: Option<ReserveFlag>,
    #[command(flatten)]
    model: Model,
}

/// What the model is told: what was measured has it already.
#[derive(clap::Args)]
struct Model {
    /// The bottleneck's rate [default: the path's]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// The round-trip time [default: the path's]
    #[arg(long, value_name = "SPAN")]
    rtt: Option<Span>,
    /// Probability that a packet is lost [default: 0]
    #[arg(long, value_name = "P")]
    loss: Option<Probability>,
    /// The largest window of a stream [default: no limit]
    #[arg(long, value_name = "BYTES")]
    window: Option<Bytes>,
    /// The most that the slower host does [default: no limit]
    #[arg(long, value_name = "RATE")]
    host_rate: Option<Rate>,
    /// Bytes of IP in a packet [default: 1500]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,
    /// Controls to choose from [default: reno,cubic,bbr]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    congestion: Vec<Algorithm>,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let file = PathBuf::from(&args.what);
    let is_file =
        file.extension().is_some_and(|extension| extension == "json") || Path::new(&file).is_file();
    let is_node = !is_file && is_node(&args.what);
    args.check(is_file, is_node)?;
    if let Some(flag) = &args.reserve {
        if let Some(flag) = args.model.first() {
            let message = format!("{flag} is told to the model: a circuit has its own");
            return Err(Error::new(Fault::You, ErrorCode::PlanFlag, message).hint("leave it out"));
        }
        let is_back = args.direction == Some(TrafficDirection::Back);
        return booked::plan(flag, &args.what, args.size, is_back, output);
    }
    let found = if is_file {
        plan_from(&read(&file)?, args.path.as_deref(), args.direction, args.size)?
    } else if is_node {
        to_node(&args, output)?
    } else {
        plan(&input(&args)?, args.size)?
    };
    let node = if is_node { remote(&args.what)?.to_string() } else { "HOST:".to_owned() };
    let (from, to) = match args.direction {
        Some(TrafficDirection::Back) => (node, "DESTINATION".to_owned()),
        _ => ("SOURCE".to_owned(), node),
    };
    let Plan { streams, congestion, channel, .. } = &found;
    let channel = channel.map_or_else(String::new, |name| format!(" --channel {name}"));
    let cp =
        format!("farline cp --streams {streams} --congestion {congestion}{channel} {from} {to}");
    output.result(&found, format!("{}\nby hand: {cp}", plan_text(&found)))?;
    Ok(ExitCode::SUCCESS)
}

impl Model {
    /// The first of these flags that was given.
    fn first(&self) -> Option<&'static str> {
        let given = [
            ("--rate", self.rate.is_some()),
            ("--rtt", self.rtt.is_some()),
            ("--loss", self.loss.is_some()),
            ("--window", self.window.is_some()),
            ("--host-rate", self.host_rate.is_some()),
            ("--mtu", self.mtu.is_some()),
            ("--congestion", !self.congestion.is_empty()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag)
    }

    /// What is known by these flags of `path`, and of hosts that let a stream have `window` and
    /// choose from `available`.
    fn input(
        &self,
        path: PathPoint,
        window: Option<Bytes>,
        available: Vec<Algorithm>,
    ) -> PlanInput {
        PlanInput {
            is_queue_known: wan::Path::named(&path.name).is_ok_and(|named| named.rtt.is_some()),
            path,
            loss: self.loss.unwrap_or_default().0,
            window: self.window.or(window),
            host: self.host_rate,
            mtu: self.mtu.unwrap_or(Grid::USUAL_MTU),
            available: if self.congestion.is_empty() { available } else { self.congestion.clone() },
            source: PlanSource::Model,
        }
    }
}

impl Args {
    /// Refuses flags that would change nothing.
    fn check(&self, is_file: bool, is_node: bool) -> Result<(), Error> {
        let wrong = |message: String, hint: &str| {
            Err(Error::new(Fault::You, ErrorCode::PlanFlag, message).hint(hint.to_owned()))
        };
        if self.size.0 == 0 {
            return Err(Error::new(
                Fault::You,
                ErrorCode::PlanNothing,
                "a plan needs a size above zero",
            ));
        }
        if let Some(flag) = self.model.first().filter(|_| is_file) {
            let message = format!(
                "{flag} is told to the model, and {} has what was found already",
                self.what
            );
            return wrong(message, "leave it out, or name a path in place of the document");
        }
        if self.path.is_some() && !is_file {
            return wrong(
                format!("--path is of a profile's document, and {} is none", self.what),
                "leave it out",
            );
        }
        match self.direction {
            Some(TrafficDirection::Both) => {
                wrong("a plan is for data that goes one way".to_owned(), "--direction out, or back")
            }
            Some(_) if !is_file && !is_node => wrong(
                format!("the path {} is the same both ways in the model", self.what),
                "leave --direction out",
            ),
            Some(_) if is_node && self.model.first().is_some() => wrong(
                "the path to a node is the same both ways in the model".to_owned(),
                "leave --direction out",
            ),
            _ => Ok(()),
        }
    }
}

/// Whether `what` names a node rather than a path: a URL, or a host that is no path's name.
fn is_node(what: &str) -> bool {
    what.contains("://")
        || (wan::Path::named(what).is_err() && (what.contains('.') || what.contains(':')))
}

/// The plan for a node: by what is stored of the path to it, else by a probe, else by the model of
/// a path as long as it is. What is stored or probed and has nothing valid in it is no reason to go
/// without.
fn to_node(args: &Args, output: &Output) -> Result<Plan, Error> {
    let remote = remote(&args.what)?;
    if let Some(flag) = args.model.first() {
        return by_model(&remote, args, ModelReason::Flag(flag));
    }
    let way = args.direction.unwrap_or_default();
    let from = |profile: &Profile| plan_from(profile, None, Some(way), args.size);
    if let Some(plan) = stored(&remote.server(), way).and_then(|profile| from(&profile).ok()) {
        return Ok(plan);
    }
    crate::interrupt::give_back_when_asked()?;
    let why = match probe(&remote, way, output) {
        Ok(profile) => match from(&profile) {
            Ok(plan) => {
                store(&profile, &args.what, output)?;
                return Ok(Plan { source: PlanSource::Probe, ..plan });
            }
            Err(error) => ModelReason::EmptyProbe(error),
        },
        Err(error) if error.code == ErrorCode::ProfileNotAllowed => {
            ModelReason::NotAllowed(remote.server())
        }
        Err(error) if error.code == ErrorCode::ProfileRunning => ModelReason::Busy(remote.server()),
        Err(error) => return Err(error),
    };
    by_model(&remote, args, why)
}

/// The plan for a node of which nothing was measured, and `why` it is the model's. What flags tell,
/// the model chooses by; without any it is as `farline cp` begins.
fn by_model(remote: &Remote, args: &Args, why: ModelReason) -> Result<Plan, Error> {
    let model = &args.model;
    let is_back = args.direction == Some(TrafficDirection::Back);
    let (rtt, told) = match model.rtt {
        Some(rtt) => (rtt, None),
        None => {
            let node = hello(remote, &connect::usual())?;
            (node.rtt, if is_back { node.paths.back } else { node.paths.out })
        }
    };
    if let (Some(seen), None) = (told, model.first()) {
        return by_word(remote, args.size, rtt, seen);
    }
    let begins = path_estimate(rtt, None, args.direction != Some(TrafficDirection::Back));
    let mut found = if model.first().is_none() {
        begins.plan(args.size)?
    } else {
        let path = PathPoint {
            name: remote.server(),
            ..PathPoint::custom(model.rate.unwrap_or(USUAL_RATE), rtt)
        };
        let offered = available().iter().filter_map(ControlName::algorithm).collect();
        plan(&model.input(path, Some(begins.window), offered), args.size)?
    };
    found.reasons.push(Reason::Unmeasured {
        why,
        rate: model.rate,
        assumed: USUAL_RATE,
        rtt,
        copy_begins_so: model.first().is_none(),
    });
    Ok(found)
}

/// The plan for a path of which the node says what its last transfer saw.
fn by_word(remote: &Remote, size: Bytes, rtt: Span, seen: SeenPath) -> Result<Plan, Error> {
    let rtt = rtt.min(seen.saved.rtt);
    let SeenPath { rate, age, .. } = seen;
    let input = PlanInput {
        path: PathPoint { name: remote.server(), ..PathPoint::seen(rate, rtt) },
        is_queue_known: false,
        loss: 0.0,
        window: None,
        host: None,
        mtu: Grid::USUAL_MTU,
        available: available().iter().filter_map(ControlName::algorithm).collect(),
        source: PlanSource::Reported,
    };
    let mut found = plan(&input, size)?;
    let server = remote.server();
    found.reasons.push(Reason::ReportedByNode { server, rate, rtt: seen.saved.rtt, age });
    Ok(found)
}

fn input(args: &Args) -> Result<PlanInput, Error> {
    let named = wan::Path::named(&args.what)?;
    let rtt = args.model.rtt.or(named.rtt).ok_or_else(|| {
        Error::new(
            Fault::You,
            ErrorCode::PlanRtt,
            format!("the path `{}` has no rtt of its own", named.name),
        )
        .hint("give --rtt, such as 50ms")
    })?;
    let path = PathPoint::custom(args.model.rate.unwrap_or(named.rate), rtt);
    let path = PathPoint { name: named.name, miles: named.miles, ..path };
    Ok(args.model.input(path, None, vec![Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr]))
}
