//! The process of a network: it makes sites and links, obeys orders, and cleans up.

use super::super::failure::{Report, here, you};
use super::super::{place, rootless};
use super::orders::{CircuitState, NetworkCircuit, NetworkOrder, NetworkState, OrderReply};
use super::paths::{PathEnd, RunningPath};
use super::{NetworkInfo, NetworkSettings, file_name, read, record, remove_files, sites};
use crate::sys::lock::lock;
use farline_core::calendar::{LinkId, SiteId, Topology};
use farline_core::units::{Error, ErrorCode, Rate, Span};
use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::sync::Mutex;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Best-effort traffic is left this at the least: a link of nothing is an outage.
const LEAST: Rate = Rate::from_bps(1_000_000);
/// Circuits that are up or prepared at most.
const CIRCUITS: usize = 256;
/// How long whoever gives an order may take to say it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a network's emulator: settings come on standard input, one line about how it went goes to
/// standard output. The process must have one thread.
///
/// # Errors
/// What was reported already, for the exit code.
pub(in super::super) fn emulate() -> Result<(), Error> {
    let up = serde_json::from_reader(io::stdin().lock())
        .map_err(|error| you(ErrorCode::LinkSetting, format!("the network's settings: {error}")))
        .and_then(|settings| Emulator::up(&settings));
    let report = Report::of(up.as_ref().map(|_| ()));
    let heard = serde_json::to_vec(&report).is_ok_and(|mut line| {
        line.push(b'\n');
        io::stdout().write_all(&line).and_then(|()| io::stdout().flush()).is_ok()
    });
    let emulator = up?;
    if heard { emulator.run() } else { emulator.down() }
}

struct Circuit {
    order: NetworkCircuit,
    links: Vec<LinkId>,
    path: RunningPath,
    open: bool,
    one_way_delay: Span,
    addresses: [String; 2],
}

/// What of an order takes long: other circuits open and shut meanwhile.
enum SlowPart {
    Make(Blueprint),
    Remove(u32, RunningPath),
}

/// What a slow part came to.
enum SlowDone {
    Made(u32, Result<Box<Circuit>, Error>),
    Removed(u32),
}

/// What is left of an order.
enum Rest {
    Nothing,
    Slow(SlowPart),
    /// All of it, once what is under way with this circuit is over.
    Later(u32, NetworkOrder),
}

/// A circuit that is to be made.
struct Blueprint {
    order: NetworkCircuit,
    links: Vec<LinkId>,
    /// The namespaces of its ends.
    names: [String; 2],
    addresses: [String; 2],
    most: Rate,
    one_way_delay: Span,
    mtu: u32,
}

impl SlowPart {
    fn done(self) -> SlowDone {
        // One at a time: each looks at a namespace's limits and raises them.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = lock(&ONE);
        match self {
            SlowPart::Make(blueprint) => {
                let number = blueprint.order.number;
                SlowDone::Made(number, blueprint.make().map(Box::new))
            }
            SlowPart::Remove(number, path) => {
                drop(path);
                SlowDone::Removed(number)
            }
        }
    }
}

impl Blueprint {
    fn make(self) -> Result<Circuit, Error> {
        let Blueprint { order, links, names, addresses, most, one_way_delay, mtu } = self;
        let device = device_of(order.number);
        let end =
            |at: usize| PathEnd { namespace: &names[at], device: &device, address: &addresses[at] };
        let ends = [end(0), end(1)];
        let path = RunningPath::up(&ends, rates(&order), most, one_way_delay, mtu, false)?;
        Ok(Circuit { order, links, path, open: false, one_way_delay, addresses })
    }
}

struct Emulator {
    info: NetworkInfo,
    topology: Topology,
    settings: NetworkSettings,
    /// Between neighbours, by the two sites, the lower first.
    links: BTreeMap<(SiteId, SiteId), RunningPath>,
    circuits: BTreeMap<u32, Circuit>,
    /// Circuits that are being made or removed.
    under_way: BTreeSet<u32>,
    listener: UnixListener,
    #[expect(dead_code, reason = "held as long as the network is up")]
    lock: place::Lock,
}

impl Emulator {
    fn up(settings: &NetworkSettings) -> Result<Emulator, Error> {
        let topology = Topology::new(&settings.topology)
            .map_err(|error| you(ErrorCode::BadNetwork, error.to_string()))?;
        let name = &topology.name;
        let taken = || {
            you(ErrorCode::LinkTaken, format!("a network called `{name}` is up"))
                .hint(format!("take it down with `farline net down {name}`"))
        };
        let lock = place::lock(&file_name(name))?.ok_or_else(taken)?;
        let _ = setsid();
        let old = read(name);
        let socket = place::file(&file_name(name), "sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(|error| {
            here(ErrorCode::LinkState, format!("{}: {error}", socket.display()))
        })?;
        let rootless = !rustix::process::geteuid().is_root();
        if rootless {
            rootless::enter_new()?;
        } else if let Some(old) = old.filter(|old| !old.rootless) {
            sites::remove(&old)?;
        }
        if settings.with_parent {
            let _ = set_parent_process_death_signal(Some(Signal::TERM));
        }
        let info = NetworkInfo {
            name: name.clone(),
            sites: topology.sites().to_vec(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            rootless,
        };
        // From here on there is something to clean up, so it is on record first.
        let text = serde_json::to_vec_pretty(&info)
            .map_err(|error| here(ErrorCode::LinkState, error.to_string()))?;
        std::fs::write(record(name), text).map_err(|error| {
            here(ErrorCode::LinkState, format!("the network's record: {error}"))
        })?;
        let settings = settings.clone();
        let (links, circuits) = (BTreeMap::new(), BTreeMap::new());
        let under_way = BTreeSet::new();
        let mut emulator =
            Emulator { info, topology, settings, links, circuits, under_way, listener, lock };
        match emulator.make() {
            Ok(()) => Ok(emulator),
            Err(error) => {
                let info = emulator.info.clone();
                drop(emulator);
                let _ = sites::remove(&info);
                remove_files(&info.name);
                Err(error)
            }
        }
    }

    fn make(&mut self) -> Result<(), Error> {
        sites::create(&self.info)?;
        let mut pairs: BTreeMap<(SiteId, SiteId), Span> = BTreeMap::new();
        for (_, link) in self.topology.links() {
            let pair = (link.from.min(link.to), link.from.max(link.to));
            let delay = pairs.entry(pair).or_insert(link.one_way_delay);
            *delay = (*delay).min(link.one_way_delay);
        }
        let mut devices = BTreeMap::new();
        for (number, (pair, delay)) in pairs.into_iter().enumerate() {
            let [a, b] = [pair.0, pair.1];
            let names = [a, b].map(|site| self.info.namespace(self.topology.site_name(site)));
            let addresses = sites::path_addresses(false, number as u32);
            let device = format!("link{number}");
            let end = |at: usize| PathEnd {
                namespace: &names[at],
                device: &device,
                address: &addresses[at],
            };
            let rates = self.left(pair);
            let most = rates[0].max(rates[1]);
            let path =
                RunningPath::up(&[end(0), end(1)], rates, most, delay, self.settings.mtu, true)?;
            self.links.insert(pair, path);
            devices.insert((a, b), (device.clone(), addresses[1].clone()));
            devices.insert((b, a), (device, addresses[0].clone()));
        }
        for site in 0..self.topology.sites().len() as u32 {
            let site = SiteId(site);
            sites::route(&self.info, &self.topology, site, |next| {
                devices.get(&(site, next)).cloned()
            })?;
        }
        Ok(())
    }

    /// What circuits leave of the links between two neighbours, there and back.
    fn left(&self, pair: (SiteId, SiteId)) -> [Rate; 2] {
        [pair, (pair.1, pair.0)].map(|(from, to)| {
            let mut left = 0_u64;
            for (id, link) in self.topology.links() {
                if link.from == from && link.to == to {
                    let taken: u64 =
                        self.circuits.values().map(|known| taken(known, id, link.reverse)).sum();
                    left += link.capacity.as_bps().saturating_sub(taken);
                }
            }
            Rate::from_bps(left).min(self.settings.best_effort).max(LEAST)
        })
    }

    fn share(&mut self) {
        let pairs: Vec<_> = self.links.keys().copied().collect();
        for pair in pairs {
            let rates = self.left(pair);
            if let Some(path) = self.links.get_mut(&pair) {
                path.change(rates);
            }
        }
    }

    /// Obeys an order; returns what of it takes so long that others do not wait for it.
    fn obey(&mut self, order: NetworkOrder) -> Result<Rest, Error> {
        match order {
            NetworkOrder::Show => {}
            // A circuit that is being made cannot be removed yet, nor one that is being removed
            // made.
            NetworkOrder::Prepare(NetworkCircuit { number, .. }) | NetworkOrder::Remove(number)
                if self.under_way.contains(&number) =>
            {
                return Ok(Rest::Later(number, order));
            }
            NetworkOrder::Prepare(circuit) => {
                let blueprint = self.prepare(circuit)?;
                return Ok(blueprint.map_or(Rest::Nothing, |b| Rest::Slow(SlowPart::Make(b))));
            }
            NetworkOrder::Open(number) | NetworkOrder::Shut(number) => {
                let open = matches!(order, NetworkOrder::Open(_));
                let circuit = self.found(number)?;
                if !open {
                    circuit.path.open(false);
                }
                circuit.open = open;
                // Best effort makes room before the circuit needs it.
                self.share();
                if open {
                    self.found(number)?.path.open(true);
                }
            }
            NetworkOrder::Change(number, rate) => {
                if rate == Rate::default() {
                    return Err(you(ErrorCode::LinkSetting, "a circuit of no rate"));
                }
                let circuit = self.found(number)?;
                circuit.order.rate = rate;
                let rates = rates(&circuit.order);
                circuit.path.change(rates);
                self.share();
            }
            NetworkOrder::Remove(number) => {
                let removed = self.circuits.remove(&number);
                self.share();
                if let Some(circuit) = removed {
                    self.under_way.insert(number);
                    return Ok(Rest::Slow(SlowPart::Remove(number, circuit.path)));
                }
            }
        }
        Ok(Rest::Nothing)
    }

    fn found(&mut self, number: u32) -> Result<&mut Circuit, Error> {
        let missing = || you(ErrorCode::LinkGone, format!("there is no circuit c{number}"));
        self.circuits.get_mut(&number).ok_or_else(missing)
    }

    /// What a circuit takes that is not there; others may be made meanwhile.
    fn prepare(&mut self, order: NetworkCircuit) -> Result<Option<Blueprint>, Error> {
        let wrong = |what: String| you(ErrorCode::BadNetwork, what);
        if let Some(there) = self.circuits.get(&order.number) {
            if there.order == order {
                return Ok(None);
            }
            return Err(wrong(format!("circuit c{} is there, and another", order.number)));
        }
        if self.circuits.len() + self.under_way.len() >= CIRCUITS {
            return Err(wrong(format!("{CIRCUITS} circuits are up: no more fit")));
        }
        let site = |name: &String| {
            self.topology.site(name).ok_or_else(|| wrong(format!("there is no site `{name}`")))
        };
        let (from, to) = (site(&order.from)?, site(&order.to)?);
        let links: Option<Vec<LinkId>> =
            order.route.iter().map(|name| self.topology.link_named(name)).collect();
        let links = links.filter(|links| self.topology.is_route(links, from, to));
        let links = links.ok_or_else(|| wrong("its route does not lead there".to_owned()))?;
        let capacity = links.iter().map(|id| self.topology.link(*id).capacity).min();
        let capacity = capacity.unwrap_or_default();
        if order.rate == Rate::default() || order.rate > capacity {
            return Err(wrong(format!("{} is not 1 bit/s to {capacity}", order.rate)));
        }
        let one_way_delay = self.topology.delay(&links);
        let names = [&order.from, &order.to].map(|site| self.info.namespace(site));
        let addresses = sites::path_addresses(true, order.number);
        // Room for a change to twice the rate; beyond that packets wait in the device's queue.
        let most = Rate::from_bps(order.rate.as_bps().saturating_mul(2)).min(capacity);
        self.under_way.insert(order.number);
        let mtu = self.settings.mtu;
        Ok(Some(Blueprint { order, links, names, addresses, most, one_way_delay, mtu }))
    }

    /// Takes in what a slow part came to, and of which circuit it was.
    fn over(&mut self, done: SlowDone) -> (u32, Result<(), Error>) {
        let (SlowDone::Made(number, _) | SlowDone::Removed(number)) = done;
        self.under_way.remove(&number);
        let outcome = match done {
            SlowDone::Made(_, Ok(circuit)) => {
                self.circuits.insert(number, *circuit);
                Ok(())
            }
            SlowDone::Made(_, Err(error)) => Err(error),
            SlowDone::Removed(_) => Ok(()),
        };
        (number, outcome)
    }

    fn state(&self) -> NetworkState {
        let circuit = |known: &Circuit| {
            let [there, back] = known.path.counted();
            CircuitState {
                circuit: known.order.clone(),
                open: known.open,
                one_way_delay: known.one_way_delay,
                device: device_of(known.order.number),
                from_address: known.addresses[0].clone(),
                to_address: known.addresses[1].clone(),
                carried: [there.0, back.0],
                dropped: [there.1, back.1],
            }
        };
        let link = |((a, b), path): (&(SiteId, SiteId), &RunningPath)| {
            let name = |site: &SiteId| self.topology.site_name(*site).to_owned();
            let [there, back] = path.rates();
            (name(a), name(b), there, back)
        };
        NetworkState {
            circuits: self.circuits.values().map(circuit).collect(),
            best_effort: self.links.iter().map(link).collect(),
        }
    }

    /// Obeys orders until it is told to end, then removes the network.
    fn run(mut self) -> Result<(), Error> {
        let failed = |error: io::Error| {
            here(ErrorCode::LinkEmulator, format!("waiting for orders: {error}"))
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime
            .block_on(async {
                let mut terminate = signal(SignalKind::terminate())?;
                let mut interrupt = signal(SignalKind::interrupt())?;
                self.listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(self.listener.try_clone()?)?;
                let mut slow = JoinSet::new();
                let mut later: Vec<(u32, NetworkOrder, BufReader<UnixStream>)> = Vec::new();
                loop {
                    let accepted = tokio::select! {
                        _ = terminate.recv() => return Ok(()),
                        _ = interrupt.recv() => return Ok(()),
                        Some(done) = slow.join_next() => {
                            let Ok((done, stream)) = done else { continue };
                            let (number, outcome) = self.over(done);
                            self.reply(stream, outcome).await;
                            // What waited for it, in the order in which it came.
                            for (of, order, stream) in std::mem::take(&mut later) {
                                if of == number {
                                    self.order(order, stream, &mut slow, &mut later).await;
                                } else {
                                    later.push((of, order, stream));
                                }
                            }
                            continue;
                        }
                        accepted = listener.accept() => accepted,
                    };
                    let Ok((stream, _)) = accepted else { continue };
                    let mut stream = BufReader::new(stream);
                    let mut line = String::new();
                    let read = tokio::time::timeout(TIMEOUT, stream.read_line(&mut line)).await;
                    if !matches!(read, Ok(Ok(_))) {
                        continue;
                    }
                    match serde_json::from_str::<NetworkOrder>(&line) {
                        Ok(order) => self.order(order, stream, &mut slow, &mut later).await,
                        Err(error) => {
                            let wrong = you(ErrorCode::BadNetwork, format!("an order: {error}"));
                            self.reply(stream, Err(wrong)).await;
                        }
                    }
                }
            })
            .map_err(failed)?;
        // What is being made is over before it is all removed.
        drop(runtime);
        self.down()
    }

    /// Obeys an order and replies, or sees to it that both are done later.
    async fn order(
        &mut self,
        order: NetworkOrder,
        stream: BufReader<UnixStream>,
        slow: &mut JoinSet<(SlowDone, BufReader<UnixStream>)>,
        later: &mut Vec<(u32, NetworkOrder, BufReader<UnixStream>)>,
    ) {
        match self.obey(order) {
            Ok(Rest::Slow(part)) => {
                slow.spawn_blocking(move || (part.done(), stream));
            }
            Ok(Rest::Later(number, order)) => later.push((number, order, stream)),
            Ok(Rest::Nothing) => self.reply(stream, Ok(())).await,
            Err(error) => self.reply(stream, Err(error)).await,
        }
    }

    /// Says how an order went, and how things stand. Who asked may have gone; that is no trouble of
    /// ours.
    async fn reply(&self, mut stream: BufReader<UnixStream>, outcome: Result<(), Error>) {
        let reply = match outcome {
            Ok(()) => OrderReply::Done(self.state()),
            Err(error) => OrderReply::Failed(Report::of(Err(&error))),
        };
        if let Ok(mut text) = serde_json::to_vec(&reply) {
            text.push(b'\n');
            let _ = stream.get_mut().write_all(&text).await;
        }
    }

    fn down(mut self) -> Result<(), Error> {
        self.circuits.clear();
        self.links.clear();
        let removed = sites::remove(&self.info);
        remove_files(&self.info.name);
        removed
    }
}

fn device_of(number: u32) -> String {
    format!("c{number}")
}

/// What a circuit carries there and back.
fn rates(order: &NetworkCircuit) -> [Rate; 2] {
    let back = if order.both_ways { order.rate } else { back_of(order.rate) };
    [order.rate, back]
}

/// The way back of a circuit of one direction: for acknowledgements, from best effort.
fn back_of(rate: Rate) -> Rate {
    Rate::from_bps(rate.as_bps() / 50).max(LEAST)
}

/// What an open circuit takes from the directed link `id`, whose other direction is `reverse`.
fn taken(circuit: &Circuit, id: LinkId, reverse: LinkId) -> u64 {
    if !circuit.open {
        return 0;
    }
    if circuit.links.contains(&id) {
        return circuit.order.rate.as_bps();
    }
    let back = circuit.links.contains(&reverse);
    if back { rates(&circuit.order)[1].as_bps() } else { 0 }
}
