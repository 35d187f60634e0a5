//! Two hosts with netem between them, and flows from one to the other in threads of this process:
//! for the guest of `lab/guest`.
//!
//! Processes would have to be read through the guest's slow file system while the flow's clock
//! runs; threads are there already.

use crate::succeed;
use anyhow::{Context, Result, anyhow};
use farline::kernelcc::{FlowSample, Trace};
use farline_core::congestion::ControlName;
use farline_core::units::Span;
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const FAR: &str = "10.77.2.1";
/// How often a flow is looked at.
const EVERY: Span = Span::from_millis(20);

/// Hosts `a` and `b`, and a router `r` between them that delays and loses.
#[derive(Debug)]
pub(crate) struct Netem {
    name: &'static str,
    rtt: Span,
}

fn ip(arguments: &str) {
    succeed(Command::new("ip").args(arguments.split(' ')));
}

impl Netem {
    /// With half of `rtt` each way. Packets are sent one by one, so that what is lost is one of
    /// them, and let through every ten milliseconds, so that a slow machine is not woken for each.
    ///
    /// # Panics
    /// When this machine does not let us, or has no netem.
    pub(crate) fn new(name: &'static str, rtt: Span) -> Netem {
        let path = Netem { name, rtt };
        for host in ["a", "r", "b"] {
            ip(&format!("netns add {name}-{host}"));
            ip(&format!("-n {name}-{host} link set lo up"));
        }
        let delay = rtt.as_nanos() / 2_000;
        for (host, here, there) in [("a", "10.77.1.1", "10.77.1.9"), ("b", FAR, "10.77.2.9")] {
            ip(&format!("-n {name}-{host} link add eth type veth peer name {host} netns {name}-r"));
            ip(&format!("-n {name}-{host} link set dev eth gso_max_segs 1"));
            ip(&format!("-n {name}-{host} addr add {here}/24 dev eth"));
            ip(&format!("-n {name}-r addr add {there}/24 dev {host}"));
            ip(&format!("-n {name}-{host} link set dev eth up"));
            ip(&format!("-n {name}-r link set dev {host} up"));
            // A window that is smaller than the buffer does not shrink while packets wait to be
            // read, so that a receiver that is woken late acknowledges each second one all the
            // same.
            ip(&format!("-n {name}-{host} route add default via {there} dev eth window 4000000"));
            path.run(
                "r",
                &format!(
                    "tc qdisc add dev {host} root netem limit 100000 delay {delay}us slot 10ms"
                ),
            );
            // No flow begins with what the one before it found.
            path.run(
                host,
                "sysctl -qw net.ipv4.tcp_rmem='4096 33554432 67108864' net.ipv4.tcp_wmem='4096 \
                 131072 67108864' \
                 net.ipv4.tcp_no_metrics_save=1",
            );
        }
        path.run("r", "sysctl -qw net.ipv4.ip_forward=1");
        path
    }

    fn run(&self, host: &str, script: &str) {
        succeed(Command::new("ip").args([
            "netns",
            "exec",
            &format!("{}-{host}", self.name),
            "sh",
            "-c",
            script,
        ]));
    }

    /// Holds the window of `a`'s flows at `window` packets.
    ///
    /// # Errors
    /// When the two ends cannot connect.
    pub(crate) fn hold(&self, window: u32) -> Result<()> {
        self.run(
            "a",
            &format!(
                "sysctl -qw net.ipv4.tcp_no_metrics_save=0 \
                 net.ipv4.tcp_no_ssthresh_metrics_save=0 &&
                 ip route replace {FAR}/32 dev eth via 10.77.1.9 ssthresh lock {window} cwnd lock \
                 {window}"
            ),
        );
        // A first connection leaves the route's metrics with the kernel when it has ended, where
        // the next one finds them.
        let closed = |stream: &mut TcpStream| stream.read_to_end(&mut Vec::new());
        self.between(
            |listener| {
                let _ = closed(&mut listener.accept()?.0)?;
                Ok(())
            },
            |address| {
                let mut stream = TcpStream::connect(address)?;
                stream.shutdown(Shutdown::Write)?;
                closed(&mut stream)?;
                Ok(())
            },
        )
    }

    /// Loses each `of`th of the data's packets from now on, beginning with the `first`, once what
    /// an earlier flow sent is through.
    pub(crate) fn lose(&self, first: u32, of: u32) {
        std::thread::sleep(self.rtt.into());
        let rule = format!("iif a meta length > 1000 numgen inc mod {of} == {} drop", first - 1);
        self.run(
            "r",
            &format!(
                "nft flush ruleset && nft 'table ip lab {{ chain forward {{ type filter hook \
                 forward priority 0; {rule}; }}; }}'"
            ),
        );
    }

    fn enter(&self, host: &str) -> Result<()> {
        let space = File::open(format!("/run/netns/{}-{host}", self.name))?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
            .context("entering a namespace")
    }

    /// Runs `there` at `b` with a listening socket, and `here` at `a` with its address.
    fn between<T: Send>(
        &self,
        there: impl FnOnce(TcpListener) -> Result<()> + Send,
        here: impl FnOnce(SocketAddr) -> Result<T> + Send,
    ) -> Result<T> {
        let (tell, bound) = mpsc::channel();
        std::thread::scope(|scope| {
            let far = scope.spawn(move || {
                self.enter("b")?;
                let listener = TcpListener::bind((FAR, 0))?;
                tell.send(listener.local_addr()?)?;
                there(listener)
            });
            let near = scope.spawn(move || {
                self.enter("a")?;
                here(bound.recv().context("the other end does not listen")?)
            });
            let answer = near.join().map_err(|_| anyhow!("a host panicked"))?;
            far.join().map_err(|_| anyhow!("a host panicked"))??;
            answer
        })
    }

    /// Sends from `a` to `b` as fast as `control` lets it, until `look` breaks: again and again it
    /// gets what TCP_INFO says, and how many bytes `b` has received.
    ///
    /// # Errors
    /// When there is no such control, or no connection.
    pub(crate) fn flow<T: Send>(
        &self,
        control: ControlName,
        mut look: impl FnMut(&FlowSample, u64) -> ControlFlow<T> + Send,
    ) -> Result<T> {
        let (received, over) = (&AtomicU64::new(0), &AtomicBool::new(false));
        let far = move |listener: TcpListener| {
            let (mut stream, _) = listener.accept()?;
            let mut buffer = vec![0; 1 << 18];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                received.fetch_add(bytes as u64, Ordering::Relaxed);
                // Woken for each packet, the guest would do little else.
                std::thread::sleep(EVERY.into());
            }
            Ok(())
        };
        self.between(far, move |address| {
            let stream = TcpStream::connect(address)?;
            set_tcp_congestion(&stream, control.as_str())
                .with_context(|| format!("taking {control}"))?;
            stream.set_write_timeout(Some(Duration::from_millis(100)))?;
            // What is not sent at the end is forgotten: the next flow has the path to itself.
            set_socket_linger(&stream, Some(Duration::ZERO))?;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let block = vec![0; 1 << 16];
                    while !over.load(Ordering::Relaxed) {
                        // A full buffer is looked at again.
                        let _ = (&stream).write(&block);
                    }
                });
                let mut trace = Trace::by_tcp_info(control, EVERY);
                let found = loop {
                    let Some(sample) = trace.next(Duration::from_secs(1)) else { continue };
                    if let ControlFlow::Break(found) =
                        look(&sample, received.load(Ordering::Relaxed))
                    {
                        break found;
                    }
                };
                over.store(true, Ordering::Relaxed);
                Ok(found)
            })
        })
    }
}

impl Drop for Netem {
    fn drop(&mut self) {
        for host in ["a", "r", "b"] {
            // Not there is as good.
            let _ = Command::new("ip")
                .args(["netns", "del", &format!("{}-{host}", self.name)])
                .stderr(Stdio::null())
                .status();
        }
    }
}
