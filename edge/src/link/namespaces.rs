//! The two sides of a link as network namespaces: names, addresses, buffers, hosts files, and their
//! removal.

use super::failure::here;
use super::{Info, Side};
use farline_core::units::{Error, ErrorCode};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io::Write;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The device in each side.
pub(super) const DEVICE: &str = "wan0";

/// Largest buffer that the kernel's TCP takes: its limits are signed 32-bit numbers and windows
/// scale to 1 GiB.
const LARGEST_BUFFER: u64 = 1 << 30;

/// Packets that a device's own queue may have: the kernel keeps a TUN device's in one allocation of
/// a pointer each, which has at most 4 MiB, and refuses more as "not permitted".
const DEVICE_QUEUE: RangeInclusive<u64> = 1_000..=500_000;

/// How long a process in a namespace may take to end when asked to.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Runs `ip` with `arguments`, feeding it `input`.
pub(super) fn ip(arguments: &[&str], input: &str) -> Result<Output, Error> {
    let missing = |error: std::io::Error| {
        here(ErrorCode::LinkIp, format!("running `ip`: {error}"))
            .hint("install iproute2, for example: apt-get install iproute2")
    };
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // An `ip` that ends early closes its input; its exit status says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(here(ErrorCode::LinkIp, format!("`ip {}` failed: {}", arguments.join(" "), said.trim())))
}

/// Makes the namespace of `side`.
pub(super) fn create(info: &Info, side: Side) -> Result<(), Error> {
    ip(&["netns", "add", &info.namespace(side)], "").map(drop)
}

/// Whether a namespace of this name exists.
pub(super) fn exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

/// Packets of `mtu` bytes in which a device's queue holds `bytes`, or what the kernel lets it have.
pub(super) fn device_queue(bytes: u64, mtu: u32) -> u64 {
    (bytes / u64::from(mtu)).clamp(*DEVICE_QUEUE.start(), *DEVICE_QUEUE.end())
}

/// Gives the device in `side` its addresses, its MTU and its queue, and brings it up.
pub(super) fn configure(info: &Info, side: Side) -> Result<(), Error> {
    // A sender's whole window can be in the device's queue at once, since TUN disowns packets from
    // their sockets on the way in. It grows to what is on the path and in the model's queue.
    let [there, back] = [&info.wan.a_to_b, &info.wan.b_to_a].map(|direction| direction.queue.0);
    let own = info.wan.bandwidth_delay_product().0 + there.max(back);
    let vlans = info.vlans(&info.wan.a_to_b);
    // Of a VLAN the queue is what a round trip holds, or more.
    let all = vlans.iter().fold(own, |sum, (_, vlan)| sum + 2 * vlan.queue.0);
    let queue = device_queue(2 * all, info.mtu);
    let hardware = match info.ethernet {
        true => format!("link set {DEVICE} address {}\n", info.hardware_address(side)),
        false => String::new(),
    };
    let script = format!(
        "link set lo up\n{hardware}\
         link set {DEVICE} mtu {} txqueuelen {queue} up\n\
         addr add {}/30 dev {DEVICE}\n\
         addr add {}/64 dev {DEVICE} nodad\n",
        info.mtu,
        info.address(side),
        info.address6(side),
    );
    ip(&["-n", &info.namespace(side), "-batch", "-"], &script)?;
    if info.inline_receive {
        return Ok(());
    }
    // A thread of the kernel then receives what the mover writes, next to it: inside a write, TCP's
    // answers and all that they set off took milliseconds with ten streams. Kernels before 5.12 do
    // not know this, and then the mover's time pays.
    let _ = ip(
        &[
            "netns",
            "exec",
            &info.namespace(side),
            "tee",
            &format!("/sys/class/net/{DEVICE}/threaded"),
        ],
        "1",
    );
    Ok(())
}

/// Runs `work` on a thread inside the namespace `name`.
pub(super) fn inside<T: Send>(
    name: &str,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let path = Path::new("/run/netns").join(name);
            let entered = File::open(&path).and_then(|file| {
                Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
            });
            entered.map_err(|error| {
                here(ErrorCode::LinkForbidden, format!("entering {}: {error}", path.display()))
            })?;
            work()
        });
        thread.join().unwrap_or_else(|_| {
            Err(here(ErrorCode::LinkEmulator, "a thread of the emulator panicked"))
        })
    })
}

/// Lets TCP in the calling thread's namespace use buffers that limit no flow: half of one is
/// window, and while a lost packet is on its way again, a second round trip's worth of others
/// arrives behind it, each of what path and queue hold. With less, BBR, which goes on sending, met
/// the receiver's window for 40 % of the time and never left its start-up (usn-8600, 500 Mbit/s).
pub(super) fn widen_buffers(info: &Info) -> Result<(), Error> {
    let queue = info.wan.a_to_b.queue.0.max(info.wan.b_to_a.queue.0);
    widen(4 * (info.wan.bandwidth_delay_product().0 + queue))
}

/// Lets TCP in the calling thread's namespace use buffers of `wanted` bytes, as far as TCP can.
pub(super) fn widen(wanted: u64) -> Result<(), Error> {
    let wanted = wanted.min(LARGEST_BUFFER);
    for file in ["/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"] {
        let failed = |error| here(ErrorCode::LinkForbidden, format!("widening {file}: {error}"));
        let text = fs::read_to_string(file).map_err(failed)?;
        let limits: Vec<u64> =
            text.split_whitespace().filter_map(|limit| limit.parse().ok()).collect();
        let [least, default, most] = limits[..] else { continue };
        fs::write(file, format!("{least} {default} {}", most.max(wanted))).map_err(failed)?;
    }
    for file in ["/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"] {
        // Kernels that have these for each namespace are new; elsewhere the file is absent in here
        // or not ours to write.
        let _ = fs::write(file, wanted.to_string());
    }
    Ok(())
}

/// Where the hosts file of `side` is: where `ip netns exec` looks for it, or inside the link's own
/// mount namespace.
pub(super) fn hosts(info: &Info, side: Side) -> PathBuf {
    let namespace = info.namespace(side);
    if info.rootless {
        format!("/run/farline-hosts/{namespace}/hosts")
    } else {
        format!("/etc/netns/{namespace}/hosts")
    }
    .into()
}

/// Writes the hosts file of `side`: both sides by name, and this machine's own name, which servers
/// look up, as this side.
pub(super) fn write_hosts(info: &Info, side: Side) -> Result<(), Error> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    for each in [Side::A, Side::B] {
        let own = if each == side { format!(" {host}") } else { String::new() };
        let namespace = info.namespace(each);
        text += &format!(
            "{} {namespace}{own}\n{} {namespace}\n",
            info.address(each),
            info.address6(each)
        );
    }
    let path = hosts(info, side);
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| here(ErrorCode::LinkState, format!("writing {}: {error}", path.display())))
}

/// Ends the processes in both sides, removes the namespaces and the hosts files. What is not there
/// is no error.
pub(super) fn remove(info: &Info) -> Result<(), Error> {
    remove_all(&[Side::A, Side::B].map(|side| info.namespace(side)))?;
    for side in [Side::A, Side::B] {
        if let Some(folder) = hosts(info, side).parent() {
            let _ = fs::remove_dir_all(folder);
        }
    }
    Ok(())
}

/// Ends the processes in namespaces, and removes them. What is not there is no error.
pub(super) fn remove_all(names: &[String]) -> Result<(), Error> {
    let present: Vec<&String> = names.iter().filter(|name| exists(name)).collect();
    end_processes(&present);
    present.into_iter().try_for_each(|name| ip(&["netns", "del", name], "").map(drop))
}

/// Asks every process in the namespaces to end, then makes it.
fn end_processes(namespaces: &[&String]) {
    let signal = |signal| {
        let pids: Vec<Pid> = namespaces.iter().flat_map(|name| processes(name)).collect();
        for &pid in &pids {
            // Gone since it was listed: that is what we want.
            let _ = kill_process(pid, signal);
        }
        pids.is_empty()
    };
    let asked = Instant::now();
    let mut done = signal(Signal::TERM);
    while !done && asked.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(10));
        done = namespaces.iter().all(|name| processes(name).is_empty());
    }
    if !done {
        signal(Signal::KILL);
    }
}

/// The processes in namespace `name`, this one never among them.
fn processes(name: &str) -> Vec<Pid> {
    let Ok(output) = ip(&["netns", "pids", name], "") else { return Vec::new() };
    let own = rustix::process::getpid();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .filter(|&pid| pid != own)
        .collect()
}
