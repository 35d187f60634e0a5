//! The far end: a socket around the core's reflector.

use super::carrier::{EthernetSocket, HardwareAddress, LineReceiver, LineSocket};
use super::host::{boot, clock_state, now, random, steady};
use super::receive_watch::ReceiveWatch;
use crate::sys::datagrams::{DatagramBuffers, prepare};
use farline_core::line::stamp::Mac;
use farline_core::line::{
    EthernetFraming, FollowUp, LineDatagram, LineReflector, ReflectorSettings,
};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where a reflector listens if nothing else is said.
pub const PORT: u16 = 8_620;
/// How long a receive waits: so soon an end is noticed.
const WAIT: Duration = Duration::from_millis(200);
/// Answers of which it is not known yet when they left.
const MOST_LEAVING: usize = 256;
/// How often the devices are asked what they dropped; a second of a test is known half a second
/// after its end at the earliest.
const LOOK_EVERY: u64 = 100_000_000;
/// How often the state of the clock is asked for.
const ASK_CLOCK: u64 = 1_000_000_000;

/// How a far end is to behave.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReflectOptions {
    /// Where it listens; port 0 is any.
    pub listen: SocketAddr,
    /// A device to listen at in place of that, for Ethernet frames.
    pub ethernet: Option<String>,
    /// The most that tests may send.
    pub most: Option<Rate>,
    /// Whether anybody's STAMP packets are sent back.
    pub is_open: bool,
    /// Whether payloads are compared.
    pub is_compared: bool,
    /// What the kernel may hold of what came, in bytes.
    pub buffer: usize,
    /// STAMP packets are authenticated with it; those that are not are none.
    pub key: Option<Vec<u8>>,
    /// Where there are any, no test begins that was not granted by them.
    pub grants: Option<LineGrants>,
}

/// What lets tests begin at a far end that takes granted ones alone.
#[derive(Clone, Debug, Default)]
pub struct LineGrants(Arc<Mutex<Vec<u64>>>);

impl LineGrants {
    /// Lets the test `session` begin.
    pub fn grant(&self, session: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ReflectOptions {
    /// A far end that listens at `listen`, for any rate, with 32 MiB.
    pub fn at(listen: SocketAddr) -> ReflectOptions {
        ReflectOptions {
            listen,
            ethernet: None,
            most: None,
            is_open: false,
            is_compared: true,
            buffer: 32 << 20,
            key: None,
            grants: None,
        }
    }
}

/// A far end that listens.
pub struct Reflector {
    socket: LineSocket,
    receiver: LineReceiver,
    machine: LineReflector,
    key: Option<aws_lc_rs::hmac::Key>,
    grants: Option<LineGrants>,
}

impl Reflector {
    /// Listens.
    ///
    /// # Errors
    /// [`Fault::Here`] when the address cannot be had.
    pub fn bind(options: &ReflectOptions) -> Result<Reflector, Error> {
        let failed = |error: std::io::Error| {
            let message = format!("listening at {}: {error}", options.listen);
            Error::new(Fault::Here, ErrorCode::LineSocket, message).caused_by(error)
        };
        let (socket, receiver) = match &options.ethernet {
            Some(device) => {
                let framing = EthernetFraming { device: device.clone(), vlan: None, priority: 0 };
                let ethernet = EthernetSocket::open(framing, None)?;
                let receiver = ethernet.receiver(options.buffer, WAIT)?;
                (LineSocket::Ethernet(Box::new(ethernet)), receiver)
            }
            None => {
                let socket = UdpSocket::bind(options.listen).map_err(failed)?;
                prepare(&socket, options.buffer, WAIT).map_err(failed)?;
                let buffers = DatagramBuffers::new();
                let is_ipv6 = options.listen.is_ipv6();
                (LineSocket::Udp { socket, is_ipv6 }, LineReceiver::Udp { buffers, dropped: 0 })
            }
        };
        let settings = ReflectorSettings {
            secret: std::array::from_fn(|_| random() as u8),
            instance: random(),
            boot: boot(),
            most: options.most,
            is_open: options.is_open,
            is_compared: options.is_compared,
            is_granted_only: options.grants.is_some(),
        };
        let key = options.key.as_deref();
        let key = key.map(|key| aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key));
        let machine = LineReflector::new(settings);
        Ok(Reflector { socket, receiver, machine, key, grants: options.grants.clone() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        let address = match &self.socket {
            LineSocket::Udp { socket, .. } => socket.local_addr(),
            LineSocket::Ethernet(_) => Err(ErrorKind::AddrNotAvailable.into()),
        };
        address.map_err(|error| {
            Error::new(Fault::Here, ErrorCode::LineSocket, format!("the address: {error}"))
        })
    }

    /// The address of the device at which it listens for frames, if it does.
    pub fn hardware_address(&self) -> Option<HardwareAddress> {
        match &self.socket {
            LineSocket::Udp { .. } => None,
            LineSocket::Ethernet(ethernet) => Some(ethernet.address()),
        }
    }

    /// Counts and answers until `stop`.
    ///
    /// # Errors
    /// [`Fault::Here`] when the socket fails.
    pub fn run(mut self, stop: &AtomicBool) -> Result<(), Error> {
        let sign = self.key.take().map(|key| move |bytes: &[u8]| super::host::mac(&key, bytes));
        let sign = sign.as_ref().map(|sign| sign as Mac<'_>);
        let Reflector { socket, receiver, machine, grants, .. } = &mut self;
        let (mut state, mut asked) = (clock_state(), steady());
        let mut begun = Vec::new();
        let (mut times, mut leaving) = (socket.transmit_times(), VecDeque::new());
        let mut devices = WatchedDevices::default();
        while !stop.load(Ordering::Relaxed) {
            let mut time = None;
            let received = receiver.receive(socket, |arrival| {
                let time = *time.get_or_insert_with(steady);
                if time.as_nanos() - asked.as_nanos() > ASK_CLOCK {
                    (state, asked) = (clock_state(), time);
                }
                for session in grants.iter().flat_map(LineGrants::take) {
                    machine.grant(session);
                }
                if arrival.is_after_drops {
                    machine.note_own_drops(arrival.dropped.into());
                }
                let clock = now(state);
                let datagram = LineDatagram {
                    from: arrival.from,
                    bytes: arrival.bytes,
                    received: arrival.received.unwrap_or(clock.time),
                    ttl: arrival.ttl,
                };
                let Some(answer) = machine.handle(time, clock, &datagram, sign) else { return };
                if machine.take_flood().is_some() {
                    return begun.push((answer, arrival.from));
                }
                // An answer that does not leave is asked for again.
                let Some(sequence) = machine.take_timed() else {
                    return drop(socket.send_to(&answer, arrival.from));
                };
                match socket.send_timed(&mut times, &answer, Some(arrival.from)) {
                    Ok(Some(number)) => leaving.push_back((number, arrival.from, sequence)),
                    Ok(None) => {}
                    // Numbers begin anew.
                    Err(_) => leaving.clear(),
                }
                socket.read_times(&mut times, |number, sent| {
                    let is_it = |&(leaving, ..): &(u32, _, _)| leaving == number;
                    let Some(place) = leaving.iter().position(is_it) else { return };
                    if let Some((_, to, sequence)) = leaving.drain(..=place).next_back() {
                        machine.note_left(to, FollowUp { sequence, sent });
                    }
                });
                if leaving.len() > MOST_LEAVING {
                    leaving.pop_front();
                }
            });
            devices.sample(machine, socket, state);
            receiver.end_flood(|from| !machine.is_flood(steady(), from));
            // No frame of theirs comes before the answer is there.
            for (answer, from) in begun.drain(..) {
                if let Some(way) = receiver.take_flood(from) {
                    machine.note_way(from, way);
                }
                let _ = socket.send_to(&answer, from);
            }
            match received {
                Ok(()) => {}
                // What was said to somebody who is gone comes back as an error.
                Err(error) if is_passing(error.kind()) => {}
                Err(error) => {
                    let message = format!("receiving: {error}");
                    return Err(Error::new(Fault::Here, ErrorCode::LineSocket, message));
                }
            }
        }
        Ok(())
    }
}

/// The devices by which the load of each test comes.
#[derive(Default)]
struct WatchedDevices {
    /// By where it comes from; nothing where the kernel does not say what they drop.
    watches: BTreeMap<SocketAddr, Option<ReceiveWatch>>,
    looked: Time,
}

impl WatchedDevices {
    /// Tells the machine what they dropped, from time to time; those of a test that has just begun
    /// are watched from now on.
    fn sample(&mut self, machine: &mut LineReflector, socket: &LineSocket, clock: (bool, Span)) {
        let time = steady();
        let is_due = time.as_nanos() - self.looked.as_nanos() > LOOK_EVERY;
        if !is_due && machine.senders().all(|sender| self.watches.contains_key(&sender)) {
            return;
        }
        self.looked = time;
        let senders: Vec<SocketAddr> = machine.senders().collect();
        self.watches.retain(|sender, _| senders.contains(sender));
        for sender in senders {
            let watch = self.watches.entry(sender).or_insert_with(|| match socket {
                LineSocket::Udp { .. } => ReceiveWatch::towards(sender.ip()),
                LineSocket::Ethernet(ethernet) => ReceiveWatch::named(ethernet.device()),
            });
            if let Some(drops) = watch.as_mut().and_then(ReceiveWatch::sample) {
                machine.note_device_drops(sender, now(clock).time, &drops);
            }
        }
    }
}

/// Whether a receive failed for nothing that lasts: nothing came, or a peer is gone.
pub(super) fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}
