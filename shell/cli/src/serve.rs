//! `farline serve`: run a node.

use crate::output::Output;
use farline::node::{Anonymous, ConfigFile, Node};
use farline_core::units::{Error, Fault};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

const EXAMPLES: &str = "\
Examples:
  farline serve --root /data --listen 0.0.0.0:2811 --anonymous read
  farline serve /etc/farline.toml

globus-url-copy, curl, lftp and farline cp are its clients. Nothing is encrypted
in this version: data and names cross the network in the clear.";

/// Run a node: a GridFTP server for one directory tree
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Configuration file in TOML, with these flags' names as keys; flags win [default: none]
    #[arg(value_name = "CONFIG")]
    file: Option<PathBuf>,
    /// The same as CONFIG [default: none]
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Control channel's address and port; port 0 takes any free one [default: 127.0.0.1:2811]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// The directory to serve; nothing outside it can be reached [default: none, it must be said]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// What users without an account may do: read or write [default: nothing]
    #[arg(long, value_name = "RIGHTS")]
    anonymous: Option<Rights>,
    /// Ports for data connections, both ends included, such as 50000-50100 [default: any free port]
    #[arg(long, value_name = "LO-HI")]
    data_ports: Option<String>,
    /// Address that clients are told to send data to [default: the one they reached]
    #[arg(long, value_name = "ADDR")]
    data_address: Option<IpAddr>,
    /// Let clients send to ?null, which drops what comes [default: no]
    #[arg(long)]
    allow_null: bool,
    /// Memory that ?memory=SIZE of all sessions may take, such as 16GiB [default: none]
    #[arg(long, value_name = "SIZE")]
    allow_memory: Option<String>,
    /// Let data go to and come from hosts other than the client [default: no]
    #[arg(long)]
    third_party: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Rights {
    Read,
    Write,
}

/// What is printed when the node listens.
#[derive(Serialize)]
struct Listening {
    schema: &'static str,
    address: SocketAddr,
    root: PathBuf,
    anonymous: &'static str,
    encrypted: bool,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let file = args.file.or(args.config).map(|path| ConfigFile::read(&path)).transpose()?.unwrap_or_default();
    let anonymous = args.anonymous.map(|rights| match rights {
        Rights::Read => Anonymous::Read,
        Rights::Write => Anonymous::Write,
    });
    let config = ConfigFile {
        listen: args.listen.or(file.listen),
        root: args.root.or(file.root),
        anonymous: anonymous.or(file.anonymous),
        data_ports: args.data_ports.or(file.data_ports),
        data_address: args.data_address.or(file.data_address),
        allow_null: if args.allow_null { Some(true) } else { file.allow_null },
        allow_memory: args.allow_memory.or(file.allow_memory),
        third_party: if args.third_party { Some(true) } else { file.third_party },
        ..file
    }
    .build()?;
    if config.anonymous == Anonymous::None {
        return Err(Error::new(
            Fault::You,
            "nobody-may-enter",
            "this node would let nobody in: there are no accounts in this version",
        )
        .hint("let everybody read with --anonymous read, or write with --anonymous write"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(Fault::Here, "no-runtime", format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let (root, rights) = (config.root.clone(), config.anonymous);
        let node = Node::bind(config).await?;
        let rights = if rights == Anonymous::Write { "write" } else { "read" };
        let listening =
            Listening { schema: "farline/serve/1", address: node.address(), root, anonymous: rights, encrypted: false };
        let text = format!(
            "farline: serving {} at ftp://{}/, anonymous users may {rights}; nothing is encrypted",
            listening.root.display(),
            listening.address
        );
        output.result(&listening, text)?;
        let failed = |error: std::io::Error| Error::new(Fault::Here, "no-signals", format!("cannot wait for signals: {error}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        tokio::select! {
            ended = node.run() => ended,
            _ = tokio::signal::ctrl_c() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
