//! The emulator: the process that makes a link's namespaces and devices, moves its packets, answers
//! for it and cleans up.

use super::direction::{Direction, Shown, now};
use super::failure::{Report, here, you};
use super::mover::{Mover, Spare};
use super::namespaces::{self, DEVICE};
use super::ring::Ring;
use super::stats::Stats;
use super::wires::Wires;
use super::{Info, Settings, Side, place, rootless};
use crate::sys::tun;
use farline_core::units::{Error, ErrorCode, Rate, Rng, Setting, Span, Time};
use farline_core::wan::{self, Change};
use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};

/// How far the movers may fall behind before the ring, and not the device's queue, is what holds
/// packets back.
const LAG: Span = Span::from_millis(20);

/// Runs an emulator: settings come as JSON on standard input, one line about how it went goes to
/// standard output, and then it moves packets until it is told to end (SIGTERM). The process must
/// have one thread.
///
/// # Errors
/// What was reported already, for the exit code.
pub(super) fn emulate() -> Result<(), Error> {
    let up = serde_json::from_reader(io::stdin().lock())
        .map_err(|error| you(ErrorCode::LinkSetting, format!("the emulator's settings: {error}")))
        .and_then(|settings| Emulator::up(&settings));
    let report = Report::of(up.as_ref().map(|_| ()));
    let heard = serde_json::to_vec(&report).is_ok_and(|mut line| {
        line.push(b'\n');
        io::stdout().write_all(&line).and_then(|()| io::stdout().flush()).is_ok()
    });
    let emulator = up?;
    // Who started us died before the kernel was asked to tell of it: nobody knows of this link, and
    // nobody would take it down.
    if heard { emulator.run() } else { emulator.down() }
}

/// One side's device and its counters.
struct Device {
    tun: Arc<OwnedFd>,
    /// /proc/net/dev as seen from inside the side's namespace.
    counters: File,
}

impl Device {
    /// Packets that the device dropped because its queue was full.
    fn dropped(&self) -> u64 {
        let mut text = [0; 4096];
        let len = self.counters.read_at(&mut text, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..len]);
        let line =
            text.lines().find_map(|line| line.trim_start().strip_prefix(DEVICE)?.strip_prefix(':'));
        // Eight receive counters, then sent bytes, packets, errors and drops.
        line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok()).unwrap_or(0)
    }
}

/// A link that is up.
struct Emulator {
    info: Info,
    started: Time,
    devices: [Device; 2],
    shown: [Arc<Mutex<Shown>>; 2],
    movers: Vec<JoinHandle<()>>,
    realtime: Arc<AtomicBool>,
    stop: PipeWriter,
    listener: UnixListener,
    #[expect(dead_code, reason = "held as long as the link is up")]
    lock: place::Lock,
}

impl Emulator {
    fn up(settings: &Settings) -> Result<Emulator, Error> {
        settings.check()?;
        let name = &settings.name;
        let taken = || {
            you(ErrorCode::LinkTaken, format!("a link called `{name}` is up")).hint(format!(
                "choose another {}, or take it down with `farline link down {name}`",
                Setting::Name
            ))
        };
        let lock = place::lock(name)?.ok_or_else(taken)?;
        // Out of the terminal's reach: its Ctrl-C is for the command that runs over the link.
        let _ = setsid();
        let old = place::read(name);
        let socket = place::file(name, "sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(|error| {
            here(ErrorCode::LinkState, format!("{}: {error}", socket.display()))
        })?;

        let rootless = !rustix::process::geteuid().is_root();
        if rootless {
            rootless::enter_new()?;
        } else if let Some(old) = old.filter(|old| !old.rootless) {
            namespaces::remove(&old)?;
        }
        if settings.with_parent {
            let _ = set_parent_process_death_signal(Some(Signal::TERM));
        }
        let info = Info {
            name: name.clone(),
            path: settings.path.clone(),
            wan: settings.wan.clone(),
            mtu: settings.mtu,
            ethernet: settings.ethernet,
            vlans: settings.vlans.clone(),
            inline_receive: settings.inline_receive,
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            rootless,
            program: settings.program.clone(),
        };
        for side in [Side::A, Side::B] {
            let namespace = info.namespace(side);
            if namespaces::exists(&namespace) {
                return Err(you(
                    ErrorCode::LinkTaken,
                    format!("there is a network namespace `{namespace}` that no link made"),
                )
                .hint(format!("choose another {}", Setting::Name)));
            }
        }
        // From here on there is something to clean up, so it is on record first.
        place::write(&info)?;
        let up = Emulator::start(&info, listener, lock);
        if up.is_err() {
            let _ = namespaces::remove(&info);
            place::remove(name);
        }
        up
    }

    fn start(info: &Info, listener: UnixListener, lock: place::Lock) -> Result<Emulator, Error> {
        let rings = rings(info)?;
        let devices = [device(info, Side::A)?, device(info, Side::B)?];
        // Before anything moves: a device that is not up yet refuses what the other side's kernel
        // says as soon as its own is.
        for side in [Side::A, Side::B] {
            namespaces::configure(info, side)?;
        }
        let shown = [(); 2].map(|()| Arc::new(Mutex::new(Shown::new())));
        let (stopped, stop) = io::pipe()
            .map_err(|error| here(ErrorCode::LinkEmulator, format!("a pipe: {error}")))?;
        let (started, realtime) = (now(), Arc::new(AtomicBool::new(true)));
        let seed = Rng::new(info.wan.seed);
        let directions = [
            (Side::A, &info.wan.a_to_b, wan::EventSide::AToB, seed.fork(1)),
            (Side::B, &info.wan.b_to_a, wan::EventSide::BToA, seed.fork(2)),
        ];
        let mut moved = Vec::new();
        for ((side, direction, which, seed), ring) in directions.into_iter().zip(rings) {
            let script = info
                .wan
                .script
                .iter()
                .filter(|event| event.side == which || event.side == wan::EventSide::Both);
            let link = wan::OneWayLink::new(
                started,
                direction,
                script.map(|event| (event.at, event.change)),
                &seed,
            );
            let vlans = info.vlans(direction).into_iter().map(|(id, path)| {
                (id, wan::OneWayLink::new(started, &path, [], &seed.fork(u64::from(id))))
            });
            let wires = Wires::new(link, vlans.collect());
            let (from, to) = (&devices[side as usize].tun, &devices[side.other() as usize].tun);
            let shown = Arc::clone(&shown[side as usize]);
            let moving = Direction::new(Arc::clone(from), Arc::clone(to), wires, ring, shown);
            moved.push(if info.ethernet { moving.of_ethernet() } else { moving });
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut movers = Vec::new();
        while !moved.is_empty() {
            let spare = Spare::of(cores);
            let mut mover = Mover::new(
                moved.split_off(if spare == Spare::Core { moved.len() - 1 } else { 0 }),
                spare,
                info.inline_receive,
            );
            let stopped = stopped
                .try_clone()
                .map_err(|error| here(ErrorCode::LinkEmulator, format!("a pipe: {error}")))?;
            let realtime = Arc::clone(&realtime);
            let run = move || {
                if !mover.be_precise() {
                    realtime.store(false, Ordering::Relaxed);
                }
                mover.run(&stopped);
            };
            let thread = std::thread::Builder::new().name("mover".to_owned());
            movers.push(
                thread
                    .spawn(run)
                    .map_err(|error| here(ErrorCode::LinkEmulator, format!("a thread: {error}")))?,
            );
        }
        let info = info.clone();
        Ok(Emulator { info, started, devices, shown, movers, realtime, stop, listener, lock })
    }

    /// Answers for the link until it is told to end, then removes it.
    fn run(self) -> Result<(), Error> {
        let failed = |error: io::Error| {
            here(ErrorCode::LinkEmulator, format!("waiting for requests: {error}"))
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime
            .block_on(async {
                let mut ends = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
                self.listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(self.listener.try_clone()?)?;
                let [terminate, interrupt] = &mut ends;
                loop {
                    tokio::select! {
                        _ = terminate.recv() => return Ok(()),
                        _ = interrupt.recv() => return Ok(()),
                        accepted = listener.accept() => {
                            if let (Ok((mut stream, _)), Ok(text)) = (accepted, serde_json::to_vec(&self.stats())) {
                                // Who asked may have gone; that is no trouble of ours.
                                let _ = stream.write_all(&text).await;
                            }
                        }
                    }
                }
            })
            .map_err(failed)?;
        self.down()
    }

    /// Takes the link down.
    fn down(self) -> Result<(), Error> {
        drop(self.stop);
        for mover in self.movers {
            let _ = mover.join();
        }
        drop(self.devices);
        let removed = namespaces::remove(&self.info);
        place::remove(&self.info.name);
        removed
    }

    fn stats(&self) -> Stats {
        let direction = |side: Side| {
            let dropped = self.devices[side as usize].dropped();
            self.shown[side as usize].lock().unwrap_or_else(PoisonError::into_inner).stats(dropped)
        };
        let mut stats = Stats {
            name: self.info.name.clone(),
            path: self.info.path.clone(),
            rtt_us: self.info.wan.rtt().as_nanos() as f64 / 1e3,
            uptime_seconds: now().since(self.started).as_secs_f64(),
            realtime: self.realtime.load(Ordering::Relaxed),
            valid: true,
            invalid_because: Vec::new(),
            lateness_limit_us: 0.0,
            a_to_b: direction(Side::A),
            b_to_a: direction(Side::B),
        };
        stats.judge(&self.info.wan);
        stats
    }
}

/// Makes a side: its namespace, its hosts file, its buffers and its device.
fn device(info: &Info, side: Side) -> Result<Device, Error> {
    namespaces::create(info, side)?;
    namespaces::write_hosts(info, side)?;
    namespaces::inside(&info.namespace(side), || {
        namespaces::widen_buffers(info)?;
        let made = match info.ethernet {
            true => tun::create_tap(DEVICE),
            false => tun::create(DEVICE).map(|(tun, _offloads)| tun),
        };
        let tun = made.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => {
                    "load the module: modprobe tun; in a container, add the device /dev/net/tun"
                }
                _ => "run as root, or give this user access to /dev/net/tun",
            };
            let kind = if info.ethernet { "TAP" } else { "TUN" };
            here(ErrorCode::LinkDevice, format!("making a {kind} device: {error}")).hint(hint)
        })?;
        let counters = File::open("/proc/thread-self/net/dev")
            .map_err(|error| here(ErrorCode::LinkDevice, format!("/proc/net/dev: {error}")))?;
        Ok(Device { tun: Arc::new(tun), counters })
    })
}

/// Memory for what can be in flight in each direction, all of it touched.
fn rings(info: &Info) -> Result<[Ring; 2], Error> {
    let settings = &info.wan;
    let bytes = [&settings.a_to_b, &settings.b_to_a].map(|direction| {
        let rates = settings.script.iter().filter_map(|event| match event.change {
            Change::Rate(rate) => Some(rate),
            _ => None,
        });
        let rate = rates.fold(direction.rate, |most, rate| most.max(rate));
        let held = |rate: Rate, path: &wan::Direction| {
            rate.bytes_in(path.one_way_delay + path.jitter + LAG).0 + path.queue.0
        };
        let vlans = info.vlans(direction);
        let vlans: u64 = vlans.iter().map(|(_, path)| held(path.rate, path)).sum();
        held(rate, direction) + vlans
    });
    let needed = bytes[0].saturating_add(bytes[1]);
    let available = available_memory();
    if available.is_some_and(|available| needed > available / 10 * 9) {
        let (needed, available) = (needed >> 20, available.unwrap_or(0) >> 20);
        return Err(here(
            ErrorCode::LinkMemory,
            format!(
                "this link holds up to {needed} MiB in flight, and {available} MiB are available"
            ),
        )
        .hint(format!(
            "a lower {}, a shorter {} or a smaller {} needs less",
            Setting::Rate,
            Setting::Rtt,
            Setting::Queue
        )));
    }
    let ring = |bytes: u64| {
        Ring::new(bytes as usize).map_err(|error| {
            here(
                ErrorCode::LinkMemory,
                format!("{} MiB for packets in flight: {error}", bytes >> 20),
            )
        })
    };
    Ok([ring(bytes[0])?, ring(bytes[1])?])
}

/// Bytes of memory that this machine has left, if it says.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
