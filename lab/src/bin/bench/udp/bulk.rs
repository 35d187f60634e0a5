//! QUIC channels against quinn as its own bulk benchmark drives it: one connection, one stream, its
//! own settings and congestion control, and nothing but bytes.

use super::end::processor_seconds as cpu_seconds;
use crate::side::{Ends, Node, RateAndCpu, binary, json, number};
use crate::table::{gbit, heading, in_turns, row, side};
use anyhow::{Context, Result};
use farline_lab::Running;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::io::Write;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

/// What quinn's benchmark writes at once.
const PIECE: usize = 1 << 20;
/// Where the plain end listens.
const PORT: u16 = 5_320;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each side runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Of each run
    #[arg(long, default_value_t = 1 << 30)]
    bytes: u64,
    /// Round trips of links at 10 Gbit/s; 0 is a veth pair without a link
    #[arg(long, value_delimiter = ',', default_value = "0ms,26.8ms")]
    rtts: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct End {
    /// Waits there, else sends there
    #[arg(long)]
    listen: bool,
    address: SocketAddr,
    bytes: u64,
    /// The certificate of who listens
    #[arg(long)]
    certificate: Option<std::path::PathBuf>,
}

/// Prints the rows.
///
/// # Errors
/// When a part of it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    for rtt in &options.rtts {
        let ends = Ends::of_rtt(rtt)?;
        let folder = tempfile::tempdir()?;
        let node = Node::start(&ends, &binary(), folder.path(), &["--tls"])?;
        heading(&format!("{} bytes memory to nothing over QUIC, {rtt}", options.bytes));
        let by_farline = || copied(&ends, &node, options.bytes);
        let by_quinn = || plain(&ends, folder.path(), options.bytes);
        let sides = vec![side("a copy", by_farline), side("quinn alone", by_quinn)];
        let results = in_turns(options.runs, sides)?;
        let of = |name: &str| -> Result<(f64, f64)> {
            let rate = results.median(name, |run: &RateAndCpu| run.rate)?;
            Ok((rate, results.median(name, |run| run.cpu)?))
        };
        let (ours, theirs) = (of("a copy")?, of("quinn alone")?);
        let words =
            |(rate, cpu): (f64, f64)| format!("{}, {:.1} ms CPU a Gbit", gbit(rate), cpu * 1e3);
        row(&format!("quinn alone: {}", words(theirs)), "", "");
        let figure = format!("x {:.2}, CPU x {:.2}", ours.0 / theirs.0, ours.1 / theirs.1);
        let asked = if rtt == "0ms" { "at least x 0.9" } else { "" };
        row(&format!("a copy: {}", words(ours)), &figure, asked);
        row("", &ends.validity()?, "");
    }
    Ok(())
}

fn copied(ends: &Ends, node: &Node, bytes: u64) -> Result<RateAndCpu> {
    let before = node.server.cpu()?;
    let (mut command, url) = node.over(ends, "quic")?;
    let result = json(command.arg(format!("memory:{bytes}")).arg(format!("{url}?null")))?;
    let cpu = number(&result, "cpu_seconds")? + node.server.cpu()? - before;
    let gbit = bytes as f64 * 8.0 / 1e9;
    // From the first byte on, as the plain ends are measured: setting up is no part of it.
    let took = number(&result, "seconds")? - number(&result, "first_data_seconds")?;
    Ok(RateAndCpu { rate: gbit * 1e9 / took, cpu: cpu / gbit })
}

fn plain(ends: &Ends, folder: &std::path::Path, bytes: u64) -> Result<RateAndCpu> {
    let (this, certificate) = (std::env::current_exe()?, folder.join("certificate.der"));
    let address = format!("{}:{PORT}", ends.address());
    let (count, certificate) = (bytes.to_string(), certificate.to_string_lossy().into_owned());
    let args = ["udp", "bulk-end", &address, &count, "--certificate", &certificate];
    let mut receiver = ends.b(&this);
    let receiving = receiver.args(args).arg("--listen").stdout(Stdio::piped());
    let (running, ready) = Running::begun(receiving);
    anyhow::ensure!(ready.trim() == "ready", "{ready}");
    let mut sender = ends.a(&this);
    let sent = json(sender.args(args))?;
    drop(running);
    let cpu = number(&sent, "cpu_seconds")? + number(&sent, "there_cpu_seconds")?;
    let gbit = bytes as f64 * 8.0 / 1e9;
    Ok(RateAndCpu { rate: gbit * 1e9 / number(&sent, "seconds")?, cpu: cpu / gbit })
}

/// Plays one plain end.
///
/// # Errors
/// When not all bytes are moved.
pub(crate) fn end(options: &End) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let file = options.certificate.as_ref().context("a certificate")?;
    if options.listen {
        return runtime.block_on(receive(options.address, file));
    }
    runtime.block_on(send(options.address, file, options.bytes))
}

async fn receive(address: SocketAddr, file: &std::path::Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(vec!["bulk".to_owned()])?;
    std::fs::write(file, made.cert.der())?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    let endpoint = Endpoint::server(config, address)?;
    println!("ready");
    std::io::stdout().flush()?;
    let connection = endpoint.accept().await.context("nobody comes")?.await?;
    let (mut answer, mut stream) = connection.accept_bi().await?;
    while stream.read_chunk(usize::MAX, true).await?.is_some() {}
    answer.write_all(format!("{:.6}", cpu_seconds()?).as_bytes()).await?;
    answer.finish()?;
    connection.closed().await;
    Ok(())
}

async fn send(address: SocketAddr, file: &std::path::Path, bytes: u64) -> Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(file)?))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    let connection = endpoint.connect_with(config, address, "bulk")?.await?;
    let (mut stream, mut answer) = connection.open_bi().await?;
    let (began, piece) = (Instant::now(), vec![0x5a; PIECE]);
    let mut left = bytes;
    while left > 0 {
        let len = left.min(PIECE as u64);
        stream.write_all(&piece[..len as usize]).await?;
        left -= len;
    }
    stream.finish()?;
    let there = String::from_utf8(answer.read_to_end(64).await?)?;
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds()?);
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    println!("{{\"seconds\":{seconds:.6},\"cpu_seconds\":{cpu:.6},\"there_cpu_seconds\":{there}}}");
    Ok(())
}
