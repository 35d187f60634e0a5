//! Two ends and what runs there: a node, a server of another kind, iperf3.

use anyhow::{Context, Result, bail};
use farline_lab::{LinkUp, Namespaces, Running, farline_binary};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where iperf3 listens.
const IPERF3_PORT: u16 = 5299;
/// How long a server may take to listen.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The channel of data that nothing encrypts, as other movers send it.
pub(crate) const CLEAR: &str = "clear";

/// Two ends: this host with itself, the sides of an emulated link, or the devices of a guest.
pub(crate) enum Ends {
    Loopback,
    Link(LinkUp),
    /// Two namespaces with a plain veth pair between them.
    Veth(Namespaces),
    /// The wire of `lab/verbs`: both ends are this host's.
    Verbs,
}

impl Ends {
    /// The ends of a link over `path`, with the options of `farline link up`.
    ///
    /// # Errors
    /// When this machine does not let us make one.
    pub(crate) fn over(path: &str, options: &[&str]) -> Result<Ends> {
        let arguments = [&[path], options].concat();
        Ok(Ends::Link(LinkUp::up("bench", &arguments).context("a link: run it as root")?))
    }

    /// The ends of a veth pair with the link's MTU.
    ///
    /// # Errors
    /// When this machine does not let us make one.
    pub(crate) fn veth() -> Result<Ends> {
        let spaces = Namespaces::pair("bench").context("namespaces: run it as root")?;
        spaces.here("ip link set v mtu 9000");
        spaces.there("ip link set v mtu 9000");
        Ok(Ends::Veth(spaces))
    }

    /// The ends of a link of 10 Gbit/s and this round trip; for `0ms` of a veth pair without a
    /// link.
    ///
    /// # Errors
    /// When this machine does not let us make them.
    pub(crate) fn of_rtt(rtt: &str) -> Result<Ends> {
        match rtt {
            "0ms" => Ends::veth(),
            rtt => Ends::over("custom", &["--rate", "10G", "--rtt", rtt]),
        }
    }

    /// The address of the second end.
    pub(crate) fn address(&self) -> &'static str {
        match self {
            Ends::Loopback => "127.0.0.1",
            Ends::Link(_) | Ends::Veth(_) => "10.77.0.2",
            Ends::Verbs => "10.9.1.2",
        }
    }

    /// A command at the first end.
    pub(crate) fn a(&self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Ends::Loopback | Ends::Verbs => farline_lab::command(program),
            Ends::Link(link) => link.command("a", program),
            Ends::Veth(spaces) => spaces.run_here(Path::new(program.as_ref())),
        }
    }

    /// A command at the second end.
    pub(crate) fn b(&self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Ends::Loopback | Ends::Verbs => farline_lab::command(program),
            Ends::Link(link) => link.command("b", program),
            Ends::Veth(spaces) => spaces.run_there(Path::new(program.as_ref())),
        }
    }

    /// What `farline link stats` says; nothing where there is no link.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub(crate) fn stats(&self) -> Result<Option<Value>> {
        let Ends::Link(link) = self else { return Ok(None) };
        json(farline_lab::farline().args(["--json", "link", "stats", link.name()])).map(Some)
    }

    /// What the link says of its own work; nothing where there is none.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub(crate) fn validity(&self) -> Result<String> {
        let Some(stats) = self.stats()? else { return Ok(String::new()) };
        let valid = if stats["valid"] == true { "valid" } else { "INVALID" };
        let late = stats["a_to_b"]["lateness"]["p99_us"].as_f64().context("a lateness")?;
        Ok(format!("link {valid}, p99 lateness {:.1} ms", late / 1e3))
    }
}

/// The JSON that a command prints last.
///
/// # Errors
/// When it fails: with what it said.
pub(crate) fn json(command: &mut Command) -> Result<Value> {
    let output = command.stderr(Stdio::piped()).output().with_context(|| format!("{command:?}"))?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("{command:?}: {}\n{out}{err}", output.status);
    }
    // One document over many lines, or one a line.
    serde_json::from_str(&out)
        .or_else(|_| serde_json::from_str(out.lines().last().unwrap_or_default()))
        .with_context(|| format!("{command:?}: {out}"))
}

/// Runs a command that is to succeed, and says for how long it ran.
///
/// # Errors
/// When it fails.
pub(crate) fn timed(command: &mut Command) -> Result<Duration> {
    let began = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(began.elapsed())
}

/// A server that ends with this.
pub(crate) struct Server(Running);

impl Server {
    /// Starts `command` and waits until something listens on `port` of the second end.
    ///
    /// # Errors
    /// When nothing does.
    pub(crate) fn listening(ends: &Ends, mut command: Command, port: u16) -> Result<Server> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let server = Server(Running(child));
        let deadline = Instant::now() + TIMEOUT;
        let look = format!("ss -Hltn 'sport = {port}' | grep -q .");
        while !ends.b("sh").args(["-c", &look]).status()?.success() {
            if Instant::now() > deadline {
                bail!("{command:?} does not listen on port {port}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// The server itself, below what entered the namespace for it.
    fn pid(&self) -> Result<u32> {
        let mut pid = self.0.0.id();
        loop {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            match children.split_whitespace().next() {
                Some(child) => pid = child.parse()?,
                None => return Ok(pid),
            }
        }
    }

    /// Processor seconds so far.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn cpu(&self) -> Result<f64> {
        farline_lab::processor_seconds(self.pid()?).context("its processor time")
    }

    /// The most memory that was its own at a time, in bytes.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn peak_memory(&self) -> Result<f64> {
        Ok(farline_lab::peak_memory(self.pid()?).context("a peak")? as f64)
    }
}

/// A node at the second end, of the binary that measures or of another.
pub(crate) struct Node {
    pub(crate) server: Server,
    /// `HOST:PORT`.
    pub(crate) address: String,
    /// Of its certificate, where it has one.
    pub(crate) fingerprint: Option<String>,
    /// Its one UDP port, where it has one.
    quic: Option<String>,
    binary: PathBuf,
}

impl Node {
    /// A node that stores in `root`.
    ///
    /// # Errors
    /// When it does not say that it listens.
    pub(crate) fn start(ends: &Ends, binary: &Path, root: &Path, more: &[&str]) -> Result<Node> {
        let mut command = ends.b(binary);
        command.args(["--json", "serve", "--listen", &format!("{}:0", ends.address())]);
        command.args(["--anonymous", "write", "--allow-null", "--allow-memory", "12GiB"]);
        command.args(more).arg("--root").arg(root).stderr(Stdio::null());
        let (running, line) = Running::begun(&mut command);
        let said: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        let address = said["address"].as_str().context("an address")?.to_owned();
        let fingerprint = said["fingerprint"].as_str();
        let fingerprint = fingerprint.map(|text| text.trim_start_matches("sha256=").to_owned());
        let quic = said["udp"].as_str().map(str::to_owned);
        Ok(Node { server: Server(running), address, fingerprint, quic, binary: binary.to_owned() })
    }

    /// `cp` of this binary over an encrypted `channel`, over one UDP port where that is `farlineq`,
    /// or, as all who need no login, over TCP in the clear where it is `clear`; and the node's URL
    /// for it, without a path.
    ///
    /// # Errors
    /// When the node has no certificate, or no such port.
    pub(crate) fn over(&self, ends: &Ends, channel: &str) -> Result<(Command, String)> {
        let pin = self.fingerprint.as_deref().context("a fingerprint")?;
        let mut command = self.client(ends);
        command.args(["--json", "cp"]);
        if channel == CLEAR {
            return Ok((command, self.url("")));
        }
        command.args(["--tls-pin", pin]);
        if channel == "farlineq" {
            let address = self.quic.as_deref().context("a UDP port")?;
            return Ok((command, format!("farlineq://{address}/")));
        }
        command.args(["--channel", channel]);
        Ok((command, format!("farlines://{}/", self.address)))
    }

    /// A copy by the same binary from the first end.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn copy(&self, ends: &Ends, arguments: &[&str]) -> Result<Value> {
        json(self.client(ends).args(["--json", "cp"]).args(arguments))
    }

    /// The same binary at the first end.
    pub(crate) fn client(&self, ends: &Ends) -> Command {
        ends.a(&self.binary)
    }

    /// A path of it as a URL.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("farline://{}/{path}", self.address)
    }
}

/// Bit/s, and processor seconds of both ends for a Gbit.
#[derive(Clone, Copy)]
pub(crate) struct RateAndCpu {
    pub(crate) rate: f64,
    pub(crate) cpu: f64,
}

/// One run of iperf3 from the first end to the second.
///
/// # Errors
/// When it fails.
pub(crate) fn iperf3(ends: &Ends, seconds: u32, omit: u32, options: &[&str]) -> Result<RateAndCpu> {
    let port = IPERF3_PORT.to_string();
    let mut server = ends.b("iperf3");
    server.args(["-s", "-p", &port]);
    let _server = Server::listening(ends, server, IPERF3_PORT)?;
    let mut client = ends.a("iperf3");
    client.args(["-c", ends.address(), "-p", &port, "-J"]).args(options);
    client.args(["-t", &seconds.to_string(), "-O", &omit.to_string()]);
    let said = json(&mut client)?;
    let end = &said["end"];
    let number = |value: &Value| value.as_f64().context("a figure of iperf3");
    let rate = number(&end["sum_received"]["bits_per_second"])?;
    let cpu = &end["cpu_utilization_percent"];
    let percent = number(&cpu["host_total"])? + number(&cpu["remote_total"])?;
    Ok(RateAndCpu { rate, cpu: percent / 100.0 / (rate / 1e9) })
}

/// A number of a result.
///
/// # Errors
/// When it has none of that name.
pub(crate) fn number(result: &Value, name: &str) -> Result<f64> {
    result[name].as_f64().with_context(|| format!("{name} in {result}"))
}

/// The binary that measures.
pub(crate) fn binary() -> PathBuf {
    farline_binary()
}

/// A file of random bytes at `path`, its pages touched.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn random_file(path: &Path, size: u64) -> Result<()> {
    const PIECE: u64 = 16 << 20;
    let piece = farline_lab::files::random(1, PIECE.min(size) as usize);
    let mut file = File::create(path)?;
    let mut left = size;
    while left > 0 {
        let len = left.min(PIECE);
        file.write_all(&piece[..len as usize])?;
        left -= len;
    }
    Ok(())
}
