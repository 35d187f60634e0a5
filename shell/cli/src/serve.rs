//! `farline serve`: run a node.

use crate::cp;
use crate::flags;
use crate::interrupt::{self, Signals};
use crate::numbers;
use crate::output::Output;
use farline::kernelcc;
use farline::node::{
    Anonymous, Config, ConfigFile, Confinement, Node, become_user, confine, give_freed_memory_back,
    serve_stdio,
};
use farline_core::units::{Error, ErrorCode, Fault, Rate, SettingName, Span};
use rustix::process::{Resource, Rlimit};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

/// How long what a broken-off transfer has may take to become durable.
const SETTLE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  farline serve --root /data --listen 0.0.0.0:2811 --anonymous read
  farline serve /etc/farline.toml
Clients: globus-url-copy, curl, lftp, farline cp. Without --tls all is in clear.";

/// Run a node: a GridFTP server for one directory tree
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file in TOML with these flags as keys; flags win [default: none]
    #[arg(value_name = "CONFIG")]
    file: Option<PathBuf>,
    /// The same as CONFIG [default: none]
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Control port; 0: any [default: 127.0.0.1:2811]
    #[arg(long, value_name = "ADDR:PORT", value_parser = numbers::address)]
    listen: Option<SocketAddr>,
    /// UDP port of farlineq:// [default: none]
    #[arg(long, value_name = "ADDR", value_parser = numbers::address)]
    listen_udp: Option<SocketAddr>,
    /// The directory to serve [default: none]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// What anyone may: read or write [default: none]
    #[arg(long, value_name = "RIGHTS", hide_possible_values = true)]
    anonymous: Option<Rights>,
    /// Ports for data, as 50000-50100 [default: any]
    #[arg(long, value_name = "LO-HI")]
    data_ports: Option<String>,
    /// Drivers besides TCP, such as rdma [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = crate::channel::offered)]
    channel: Vec<String>,
    /// Address told for data [default: the one reached]
    #[arg(long, value_name = "ADDR")]
    data_address: Option<IpAddr>,
    /// Let -a give files to other users [default: no]
    #[arg(long)]
    allow_owner: bool,
    /// Let clients send to ?null [default: no]
    #[arg(long)]
    allow_null: bool,
    /// For all ?memory=SIZE, as 16GiB [default: none]
    #[arg(long, value_name = "SIZE")]
    allow_memory: Option<String>,
    /// Clients may test lines, as 2G [default: no]
    #[arg(long, value_name = "RATE")]
    allow_line: Option<String>,
    /// Clients may measure paths, as 2G [default: no]
    #[arg(long, value_name = "RATE")]
    allow_profile: Option<String>,
    /// Booked rates to hold, such as 4G [default: none]
    #[arg(long, value_name = "RATE")]
    allow_held: Option<String>,
    /// Offer TLS, with a key made now [default: no]
    #[arg(long)]
    tls: bool,
    /// Certificate chain for TLS, in PEM [default: none]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, in PEM [default: none]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Proxies, by DIR/hostcert.pem [default: none]
    #[arg(long, value_name = "DIR")]
    gsi: Option<PathBuf>,
    /// Serve one session on standard input and output with the rights of this user; what ssh starts
    /// [default: no]
    #[arg(long, hide = true, conflicts_with_all = ["file", "config", "listen", "root", "anonymous", "tls", "tls_cert"])]
    stdio: bool,
    /// Longest standstill; 0: any [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = numbers::seconds)]
    timeout: Option<u64>,
    /// Let data go to other hosts too [default: no]
    #[arg(long)]
    third_party: bool,
    /// A private network for that [default: none]
    #[arg(long, value_name = "NET")]
    third_party_net: Vec<String>,
    /// Load congestion controls if asked [default: no]
    #[arg(long)]
    allow_congestion: bool,
    /// Begin as over any path, whatever was seen of it [default: $FARLINE_FRESH_START, or no]
    #[arg(long, hide = true)]
    fresh_start: bool,
    /// Longest end after SIGTERM [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = numbers::seconds)]
    drain: Option<u64>,
    /// Reach what its user does [default: DIR alone]
    #[arg(long)]
    no_sandbox: bool,
    /// For measuring: files are read no faster than this, such as 100M [default: all it can]
    #[arg(long, hide = true, value_name = "RATE")]
    trial_read: Option<Rate>,
    /// For measuring: files are written no faster than this [default: all it can]
    #[arg(long, hide = true, value_name = "RATE")]
    trial_write: Option<Rate>,
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
    /// The UDP port for control and data; null without one.
    udp: Option<SocketAddr>,
    root: PathBuf,
    anonymous: &'static str,
    /// Identities that may come in.
    identities: usize,
    /// Issuers whose tokens are taken.
    issuers: usize,
    /// Whether clients may come with a proxy of a grid (gsiftp://).
    gsi: bool,
    /// Whether this process reaches what it exports and needs, and nothing else.
    confined: bool,
    /// Whether clients can have the control channel, and then data, encrypted.
    encrypted: bool,
    /// Of the certificate, as sha256=HEX; null without TLS.
    fingerprint: Option<String>,
}

pub(crate) fn run(args: Args, output: &Output) -> Result<ExitCode, Error> {
    let mut file = args
        .file
        .or(args.config)
        .map(|path| ConfigFile::read(&path))
        .transpose()?
        .unwrap_or_default();
    let anonymous = args.anonymous.map(|rights| match rights {
        Rights::Read => Anonymous::Read,
        Rights::Write => Anonymous::Write,
    });
    if args.stdio {
        return stdio(args.data_ports);
    }
    file.listen = args.listen.or(file.listen);
    file.listen_udp = args.listen_udp.or(file.listen_udp);
    file.root = args.root.or(file.root);
    file.anonymous = anonymous.or(file.anonymous);
    file.data_ports = args.data_ports.or(file.data_ports);
    file.channel = if args.channel.is_empty() { file.channel } else { Some(args.channel) };
    file.data_address = args.data_address.or(file.data_address);
    file.allow_owner = if args.allow_owner { Some(true) } else { file.allow_owner };
    file.allow_null = if args.allow_null { Some(true) } else { file.allow_null };
    file.allow_memory = args.allow_memory.or(file.allow_memory);
    file.allow_line = args.allow_line.or(file.allow_line);
    file.allow_profile = args.allow_profile.or(file.allow_profile);
    file.allow_held = args.allow_held.or(file.allow_held);
    file.tls = if args.tls { Some(true) } else { file.tls };
    file.tls_cert = args.tls_cert.or(file.tls_cert);
    file.tls_key = args.tls_key.or(file.tls_key);
    file.gsi = args.gsi.or(file.gsi);
    file.timeout = args.timeout.or(file.timeout);
    file.third_party = if args.third_party { Some(true) } else { file.third_party };
    file.third_party_networks = if args.third_party_net.is_empty() {
        file.third_party_networks
    } else {
        Some(args.third_party_net)
    };
    file.allow_congestion = if args.allow_congestion { Some(true) } else { file.allow_congestion };
    file.fresh_start =
        if args.fresh_start || cp::is_fresh_start() { Some(true) } else { file.fresh_start };
    file.drain = args.drain.or(file.drain);
    file.sandbox = if args.no_sandbox { Some(false) } else { file.sandbox };
    let mut config = file.build()?;
    (config.trial_read, config.trial_write) = (args.trial_read, args.trial_write);
    config.setting_name = SettingName::Flag;
    if config.anonymous == Anonymous::None && config.identities.is_empty() {
        return Err(Error::new(
            Fault::You,
            ErrorCode::NobodyMayEnter,
            "this node would let nobody in",
        )
        .hint(
            "let everybody read with --anonymous read, or name who may come in as [[identity]] in \
             CONFIG",
        ));
    }
    take_descriptors();
    give_freed_memory_back();
    // Before there are other threads, which would be as free as before.
    become_user(&config)?;
    let confinement = match config.sandbox {
        true => confine(&config)?,
        false => Confinement::Not("that is not wanted"),
    };
    let runtime = interrupt::runtime("start")?;
    let code = runtime.block_on(serve(config, confinement, output));
    // What a broken-off transfer has is made durable, unless somebody cannot wait for that.
    match &code {
        Ok(None) => runtime.shutdown_timeout(SETTLE),
        _ => runtime.shutdown_background(),
    }
    kernelcc::give_back();
    Ok(code?.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Runs a node until it is asked to end, and then until its transfers are through; returns the code
/// of a second signal that came before.
async fn serve(
    config: Config,
    confinement: Confinement,
    output: &Output,
) -> Result<Option<u8>, Error> {
    let (root, rights, drain) = (config.root.clone(), config.anonymous, config.limits.drain);
    let gsi = config.gsi.is_some();
    let (people, issuers) = (config.identities.people.len(), config.identities.issuers.len());
    let node = Node::bind(config).await?;
    let rights = match rights {
        Anonymous::Write => "write",
        Anonymous::Read => "read",
        _ => "nothing",
    };
    let listening = Listening {
        schema: "farline/serve/1",
        address: node.address(),
        udp: node.udp_address(),
        root,
        anonymous: rights,
        identities: people,
        issuers,
        gsi,
        confined: confinement == Confinement::Confined,
        encrypted: node.fingerprint().is_some(),
        fingerprint: node.fingerprint().map(|fingerprint| fingerprint.to_string()),
    };
    let scheme = if listening.encrypted { "ftps" } else { "ftp" };
    let mut text = format!(
        "farline: serving {} at {scheme}://{}/, anonymous users may {}",
        listening.root.display(),
        listening.address,
        if rights == "nothing" { "not come in" } else { rights }
    );
    if let Some(udp) = listening.udp {
        text.push_str(&format!("; also at farlineq://{udp}/"));
    }
    match people {
        0 => {}
        1 => text.push_str("; one identity may come in"),
        people => text.push_str(&format!("; {people} identities may come in")),
    }
    match issuers {
        0 => {}
        1 => text.push_str("; so may bearers of one issuer's tokens"),
        issuers => text.push_str(&format!("; so may bearers of {issuers} issuers' tokens")),
    }
    if gsi {
        text.push_str(&format!("; also at gsiftp://{}/", listening.address));
    }
    match &listening.fingerprint {
        None if gsi => {}
        None => text.push_str("; nothing is encrypted"),
        Some(fingerprint) => text.push_str(&format!(
            "; clients that ask are encrypted, the certificate is {fingerprint}"
        )),
    }
    if let Confinement::Not(why) = confinement {
        text.push_str(&format!("; not confined to that folder: {why}"));
    }
    output.result(&listening, text)?;
    if !output.quiet() {
        node.log_to(|line| {
            // A log that nobody takes is no reason to end.
            let _ = writeln!(std::io::stderr().lock(), "farline: {}", flags::in_flags(line));
        });
    }
    let mut signals = Signals::listen()?;
    let stopper = node.stopper();
    let mut serving = pin!(node.run());
    loop {
        tokio::select! {
            ended = &mut serving => return ended.map(|()| None),
            // Of a service it asks for what is done anyway; a terminal takes its programs along.
            code = signals.next() => match code {
                interrupt::HUP if !std::io::stdin().is_terminal() => output.remark(
                    "renewed certificates, keys and lists count by themselves: SIGHUP changes nothing"
                ),
                _ => break,
            },
        }
    }
    match stopper.transfers() {
        0 => {}
        transfers => output.remark(format_args!(
            "{transfers} transfer{} {} to end; a second signal ends {} now",
            if transfers == 1 { " has" } else { "s have" },
            Span::from(drain),
            if transfers == 1 { "it" } else { "them" }
        )),
    }
    tokio::select! {
        ended = &mut serving => ended.map(|()| None),
        () = stopper.drain(drain) => Ok(None),
        code = signals.next() => Ok(Some(code)),
    }
}

/// Takes as many file descriptors as this process may have: each connection is one.
fn take_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // Without them the limits of the node hold all the same.
    let _ = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit { current: limit.maximum, maximum: limit.maximum },
    );
}

/// One session on the standard streams.
fn stdio(data_ports: Option<String>) -> Result<ExitCode, Error> {
    let mut everything = ConfigFile::default();
    everything.root = Some("/".into());
    everything.anonymous = Some(Anonymous::Write);
    everything.data_ports = data_ports;
    let runtime = interrupt::runtime("start")?;
    // A connection that breaks off hangs this process up.
    interrupt::give_back_when_asked()?;
    let connection = std::env::var("SSH_CONNECTION").ok();
    let served = runtime.block_on(serve_stdio(everything.build()?, connection.as_deref()));
    // A thread may still wait for input that nobody will send.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}
