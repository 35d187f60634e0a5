//! `farline plan`: what to choose for a transfer, how long it will take, and why.

use crate::node::{hello, remote};
use crate::output::Output;
use crate::profile::{USUAL_RATE, plan_text, probe, read, store, stored};
use farline::client::{Reach, Remote};
use farline::kernelcc::available;
use farline::mover::window_limit;
use farline_core::congestion::Algorithm;
use farline_core::profile::{Known, PathPoint, Plan, Source, plan, plan_from};
use farline_core::units::{Bytes, Error, Fault, Rate, Span};
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
kept for a day; else, as for a path, from the model, whose own error the
interval has in it, not what disks cost. `farline cp` goes by the same.";

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
    /// Which path of the profile [default: its only one]
    #[arg(long, value_name = "NAME")]
    path: Option<String>,
    /// The bottleneck's rate [default: the path's]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// The round-trip time [default: the path's]
    #[arg(long, value_name = "SPAN")]
    rtt: Option<Span>,
    /// Probability that a packet is lost
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    loss: f64,
    /// The largest window of a stream [default: no limit]
    #[arg(long, value_name = "BYTES")]
    window: Option<Bytes>,
    /// The most that the slower host does [default: no limit]
    #[arg(long, value_name = "RATE")]
    host_rate: Option<Rate>,
    /// Bytes of IP in a packet
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    mtu: u32,
    /// Controls to choose from [default: reno,cubic,bbr]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    congestion: Vec<Algorithm>,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let file = PathBuf::from(&args.what);
    let is_file = file.extension().is_some_and(|extension| extension == "json") || Path::new(&file).is_file();
    let found = if is_file {
        plan_from(&read(&file)?, args.path.as_deref(), args.size)?
    } else if is_node(&args.what) {
        to_node(&args, output)?
    } else {
        plan(&known(&args)?, args.size)?
    };
    output.result(&found, plan_text(&found))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether `what` names a node rather than a path: a URL, or a host that is no path's name.
fn is_node(what: &str) -> bool {
    what.contains("://") || (farline_core::wan::Path::named(what).is_err() && (what.contains('.') || what.contains(':')))
}

/// The plan for a node: by what is stored of the path to it, else by a probe, else by the model of a path as long as it is.
fn to_node(args: &Args, output: &Output) -> Result<Plan, Error> {
    let remote = remote(&args.what)?;
    if let Some(profile) = stored(&remote) {
        return plan_from(&profile, None, args.size);
    }
    crate::interrupt::give_back_when_asked()?;
    match probe(&remote, output) {
        Ok(profile) => {
            store(&profile, &args.what)?;
            Ok(Plan { source: Source::Probe, ..plan_from(&profile, None, args.size)? })
        }
        Err(error) if error.code == "profile-not-allowed" => by_model(&remote, args),
        Err(error) => Err(error),
    }
}

/// The plan for a node that does not let itself be measured.
fn by_model(remote: &Remote, args: &Args) -> Result<Plan, Error> {
    let rtt = args.rtt.map_or_else(|| hello(remote, &Reach::default()).map(|node| node.rtt), Ok)?;
    let offered = || available().iter().filter_map(|name| name.parse().ok()).collect();
    let known = Known {
        path: PathPoint { name: remote.server(), ..PathPoint::custom(args.rate.unwrap_or(USUAL_RATE), rtt) },
        loss: args.loss,
        window: Some(args.window.unwrap_or_else(|| window_limit("tcp_wmem"))),
        host: args.host_rate,
        mtu: args.mtu,
        available: if args.congestion.is_empty() { offered() } else { args.congestion.clone() },
        source: Source::Model,
    };
    let mut found = plan(&known, args.size)?;
    let rate = args.rate.map_or_else(|| format!("{USUAL_RATE} assumed (--rate)"), |rate| format!("{rate} as asked"));
    found.reasons.push(format!("by the model, as {} allows no probe: {rate}, rtt {rtt}", remote.server()));
    Ok(found)
}

fn known(args: &Args) -> Result<Known, Error> {
    if !(0.0..1.0).contains(&args.loss) {
        return Err(Error::new(Fault::You, "plan-loss", format!("a loss of {}: a probability from 0 to below 1", args.loss)));
    }
    let named = farline_core::wan::Path::named(&args.what)?;
    let rtt = args.rtt.or(named.rtt).ok_or_else(|| {
        Error::new(Fault::You, "plan-rtt", format!("the path `{}` has no rtt of its own", named.name))
            .hint("give --rtt, such as 50ms")
    })?;
    let rate = args.rate.unwrap_or(named.rate);
    if rate == Rate::default() || rtt == Span::ZERO {
        return Err(Error::new(Fault::You, "plan-path", "rate and rtt must be above zero"));
    }
    let available = match &args.congestion[..] {
        [] => vec![Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr],
        given => given.to_vec(),
    };
    Ok(Known {
        path: PathPoint { name: named.name, miles: named.miles, ..PathPoint::custom(rate, rtt) },
        loss: args.loss,
        window: args.window,
        host: args.host_rate,
        mtu: args.mtu,
        available,
        source: Source::Model,
    })
}
