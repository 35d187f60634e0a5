//! Circuits on an interface of this host, by the kernel's own means: a class of HTB with the booked
//! rate, chosen by the circuit's two addresses, which nobody else has; on a VLAN of its own where
//! that is wanted.
//!
//! All that is there is read back from the kernel; nothing is kept here. What belongs to a circuit
//! is a class, its FIFO (of no packets while the circuit is shut), a filter, an address, and a
//! VLAN. What Farline did not make is not touched: a root that is somebody else's is refused,
//! unless a class of it is named below which circuits may be.

mod base;
mod place;

pub use place::{CircuitAddresses, CircuitVlans, ClassHandle};

use super::driver::{CircuitDriver, DeviceCircuit};
use crate::sys::interface::{self, Interface, InterfaceAddress};
use crate::sys::queueing::{self, Class, Discipline, Filter, Match, Share};
use crate::sys::rtnetlink::Refusal;
use base::Base;
use farline_core::calendar::circuit::{ActualCircuit, CircuitNumber, CircuitStep, DesiredCircuit};
use farline_core::calendar::{SiteId, Topology};
use farline_core::units::{Error, ErrorCode, Fault, Rate, Setting};
use place::{Place, Places};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Packets that an open circuit's queue holds, as those of Linux's devices do.
const OPEN: u32 = 1_000;
/// The rate of a direction that is not booked, in bytes a second: it shares what is left.
const UNBOOKED: u64 = 1_000;
/// Who goes first: a booked direction, then one that is not.
const PRIORITY: [u32; 2] = [0, 6];

/// Where and how circuits are made.
#[derive(Clone, Debug, Default)]
pub struct InterfaceSettings {
    /// The interface.
    pub interface: String,
    /// The site that it is in; the one that this host's name belongs to when absent.
    pub site: Option<String>,
    /// What it carries; what its device says, less 2 %, when absent.
    pub rate: Option<Rate>,
    /// The class below which circuits are made; a root of Farline's own when absent.
    pub below: Option<ClassHandle>,
    /// The addresses of circuits.
    pub addresses: CircuitAddresses,
    /// The VLANs of circuits; none when absent.
    pub vlans: Option<CircuitVlans>,
}

/// The driver.
#[derive(Debug)]
pub struct LinuxDriver {
    settings: InterfaceSettings,
    base: Base,
    places: Places,
    /// Where this host is in the network of the calendar.
    site: Option<SiteId>,
    /// Who has which place, by the last look.
    taken: BTreeMap<Place, CircuitNumber>,
}

/// All that the kernel has where circuits are made.
struct Found {
    disciplines: Vec<Discipline>,
    classes: Vec<Class>,
    filters: Vec<Filter>,
    interfaces: Vec<Interface>,
    addresses: Vec<InterfaceAddress>,
}

fn failed(what: impl Into<String>) -> Error {
    Error::new(Fault::Here, ErrorCode::CircuitFailed, what)
}

/// What the kernel refused, as an error.
fn refused(what: &str, refusal: &Refusal) -> Error {
    let error = failed(format!("{what}: {refusal}"));
    match refusal.errno {
        rustix::io::Errno::PERM => error.hint("this takes CAP_NET_ADMIN, and nothing else"),
        rustix::io::Errno::NOENT => {
            error.hint("the kernel needs sch_htb, sch_fifo and cls_u32 for this")
        }
        _ => error,
    }
}

impl LinuxDriver {
    /// Circuits on an interface, of which nothing is changed before it fits into a network.
    ///
    /// # Errors
    /// When there is no such interface, or it does not say its rate.
    pub fn new(settings: InterfaceSettings) -> Result<LinuxDriver, Error> {
        let base = Base::new(&settings)?;
        let places = Places::new(settings.addresses, settings.vlans);
        Ok(LinuxDriver { settings, base, places, site: None, taken: BTreeMap::new() })
    }

    fn found(&self) -> Result<Found, Error> {
        let at = self.base.interface;
        let all = || {
            Ok::<Found, rustix::io::Errno>(Found {
                disciplines: queueing::disciplines(at)?,
                classes: queueing::classes(at)?,
                filters: queueing::filters(at, self.base.root())?,
                interfaces: interface::interfaces()?,
                addresses: interface::addresses()?,
            })
        };
        let name = &self.settings.interface;
        all().map_err(|error| failed(format!("looking at {name}: {error}")))
    }

    /// The addresses of a circuit as this end has them: its own, and the other end's.
    fn ends(&self, place: Place, is_first: bool) -> Match {
        let [first, last] = self.places.addresses(place);
        let (from, to) = if is_first { (first, last) } else { (last, first) };
        Match::Addresses { from, to }
    }

    /// Which of the two ends of a place this one has, by what is there.
    fn filter<'a>(&self, place: Place, found: &'a Found) -> Option<(&'a Filter, bool)> {
        let class = self.base.class(place);
        let ours = |filter: &&Filter| filter.target == class;
        found.filters.iter().filter(ours).find_map(|filter| {
            let is_first = [true, false].into_iter().find(|at| self.ends(place, *at).is_of(filter));
            Some((filter, is_first?))
        })
    }

    /// The places of which a part is there.
    fn used(&self, found: &Found) -> BTreeMap<Place, Option<Class>> {
        let mut used = BTreeMap::new();
        for class in found.classes.iter().filter(|class| class.parent == self.base.parent()) {
            if let Some(place) = self.base.place(class.handle) {
                used.insert(place, Some(class.clone()));
            }
        }
        for address in &found.addresses {
            let is_here = self.carries(address.interface, found);
            if let Some(place) = self.places.of_address(address.address).filter(|_| is_here) {
                used.entry(place).or_default();
            }
        }
        used
    }

    /// Whether an interface is the one that circuits are made on, or a VLAN of it.
    fn carries(&self, interface: u32, found: &Found) -> bool {
        let own = self.base.interface;
        interface == own
            || found.interfaces.iter().any(|known| {
                known.number == interface && known.vlan.is_some_and(|(below, _)| below == own)
            })
    }

    fn fifo<'a>(&self, place: Place, found: &'a Found) -> Option<&'a Discipline> {
        let class = self.base.class(place);
        found.disciplines.iter().find(|one| one.parent == class && one.kind == "pfifo")
    }

    /// The interface that has a circuit's address: the one below, or a VLAN.
    fn carrier(&self, place: Place, found: &Found) -> Option<u32> {
        match self.places.vlan(place) {
            None => Some(self.base.interface),
            Some(_) => {
                self.vlan(place, found).filter(|known| known.is_up).map(|known| known.number)
            }
        }
    }

    /// The VLAN of a circuit, called as Farline calls those that it makes: one of its id with
    /// another name is somebody else's.
    fn vlan<'a>(&self, place: Place, found: &'a Found) -> Option<&'a Interface> {
        let id = self.places.vlan(place)?;
        let is_ours = |name: &str| {
            let number = name.strip_prefix('c').and_then(|number| number.parse().ok());
            number.is_some_and(|number| self.places.of(CircuitNumber(number)) == place)
        };
        found
            .interfaces
            .iter()
            .find(|known| known.vlan == Some((self.base.interface, id)) && is_ours(&known.name))
    }

    /// Whether all of a circuit is there but its rate and its queue.
    fn is_whole(&self, place: Place, is_first: bool, found: &Found) -> bool {
        let Match::Addresses { from, .. } = self.ends(place, is_first) else { return false };
        let carrier = self.carrier(place, found);
        let has_address = found
            .addresses
            .iter()
            .any(|known| Some(known.interface) == carrier && known.address == from);
        has_address
            && self.fifo(place, found).is_some()
            && self.filter(place, found).is_some_and(|(_, first)| first == is_first)
    }

    /// What others do with a circuit's class, which is not ours to undo.
    fn trouble(&self, place: Place, found: &Found) -> Option<String> {
        let class = self.base.class(place);
        let ours = |filter: &Filter| {
            [true, false].into_iter().any(|first| self.ends(place, first).is_of(filter))
        };
        let foreign = found.filters.iter().find(|one| one.target == class && !ours(one))?;
        let (kind, priority) = (&foreign.kind, foreign.priority);
        Some(format!(
            "a {kind} filter of preference {priority}, not Farline's, sends traffic into it"
        ))
    }

    /// Refuses more than the interface carries.
    fn has_room(&self, place: Place, rate: Rate, found: &Found) -> Result<(), Error> {
        let class = self.base.class(place);
        let used = self.used(found).into_values().flatten().filter(|one| one.handle != class);
        let others: u64 = used.filter(|one| one.share.rate > UNBOOKED).map(|c| c.share.rate).sum();
        let (all, most) = (Rate::from_bps(8 * others + rate.as_bps()), self.base.rate);
        if all > most {
            let name = &self.settings.interface;
            return Err(failed(format!("{name} carries {most}, and circuits want {all} together"))
                .hint(format!(
                    "{} says what it carries; the network's file what may be booked",
                    Setting::Rate
                )));
        }
        Ok(())
    }

    fn prepare(&self, number: CircuitNumber, circuit: &DesiredCircuit) -> Result<(), Error> {
        let is_first = self.site == Some(circuit.from);
        let place = self.places.of(number);
        if let Some(other) = self.taken.get(&place).filter(|other| **other != number) {
            let message = format!("c{} has the place of c{}, which is there", number.0, other.0);
            return Err(failed(message).hint(format!(
                "a larger range of {} or {} has more",
                Setting::Addresses,
                Setting::Vlans
            )));
        }
        let mut found = self.found()?;
        self.has_room(place, circuit.rate, &found)?;
        let (at, class) = (self.base.interface, self.base.class(place));
        let doing = |what: &str| {
            let what = format!("{what} of c{} on {}", number.0, self.settings.interface);
            move |refusal: Refusal| refused(&what, &refusal)
        };
        let is_booked = is_first || circuit.both_ways;
        self.base
            .set_class(class, self.base.parent(), share(circuit.rate, is_booked))
            .map_err(doing("the class"))?;
        if self.fifo(place, &found).is_none() {
            queueing::set_fifo(at, class, 0, false).map_err(doing("the queue"))?;
        }
        if self.carrier(place, &found).is_none()
            && let Some(id) = self.places.vlan(place)
        {
            match self.vlan(place, &found) {
                Some(down) => interface::bring_up(down.number).map_err(doing("the VLAN"))?,
                None => interface::add_vlan(at, &format!("c{}", number.0), id)
                    .map_err(|refusal| no_vlan(number, id, &refusal))?,
            }
            found = self.found()?;
        }
        let Match::Addresses { from, to } = self.ends(place, is_first) else { return Ok(()) };
        let carrier = self.carrier(place, &found).unwrap_or(at);
        // Its own end, and nothing that was the other's.
        for known in found.addresses.iter().filter(|known| known.address == to) {
            if self.carries(known.interface, &found) {
                interface::remove_address(*known).map_err(doing("an address"))?;
            }
        }
        let own = InterfaceAddress { interface: carrier, address: from, prefix: 31 };
        if !found.addresses.iter().any(|one| (one.interface, one.address) == (carrier, from)) {
            interface::add_address(own).map_err(doing("the address"))?;
        }
        match self.filter(place, &found) {
            Some((_, first)) if first == is_first => Ok(()),
            wrong => {
                if let Some((wrong, _)) = wrong {
                    queueing::remove_filter(at, self.base.root(), wrong)
                        .map_err(doing("a filter"))?;
                }
                let (matched, priority) = (Match::Addresses { from, to }, self.base.preference());
                queueing::add_filter(at, self.base.root(), priority, matched, class)
                    .map_err(doing("the filter"))
            }
        }
    }

    /// Lets packets through, or none.
    fn switch(&self, number: CircuitNumber, limit: u32) -> Result<(), Error> {
        let class = self.base.class(self.places.of(number));
        queueing::set_fifo(self.base.interface, class, limit, true)
            .map_err(|refusal| refused(&format!("the queue of c{}", number.0), &refusal))
    }

    fn change(&self, number: CircuitNumber, rate: Rate) -> Result<(), Error> {
        let (place, found) = (self.places.of(number), self.found()?);
        self.has_room(place, rate, &found)?;
        let class = self.base.class(place);
        let known = found.classes.iter().find(|one| one.handle == class);
        let is_booked = known.is_none_or(|one| one.share.priority != PRIORITY[1]);
        self.base
            .set_class(class, self.base.parent(), share(rate, is_booked))
            .map_err(|refusal| refused(&format!("the class of c{}", number.0), &refusal))
    }

    fn remove(&self, number: CircuitNumber) -> Result<(), Error> {
        let (place, found) = (self.places.of(number), self.found()?);
        let (at, class) = (self.base.interface, self.base.class(place));
        let doing = |what: &str| {
            let what = format!("{what} of c{} on {}", number.0, self.settings.interface);
            move |refusal: Refusal| refused(&what, &refusal)
        };
        if let Some((filter, _)) = self.filter(place, &found) {
            queueing::remove_filter(at, self.base.root(), filter).map_err(doing("the filter"))?;
        }
        let own = self.places.addresses(place);
        for known in found.addresses.iter().filter(|known| own.contains(&known.address)) {
            if self.carries(known.interface, &found) {
                interface::remove_address(*known).map_err(doing("the address"))?;
            }
        }
        if let Some(vlan) = self.vlan(place, &found) {
            interface::remove(vlan.number).map_err(doing("the VLAN"))?;
        }
        match found.classes.iter().any(|one| one.handle == class) {
            true => queueing::remove_class(at, class).map_err(doing("the class")),
            false => Ok(()),
        }
    }
}

/// What a class has for a circuit: its rate and no more where that is booked, and what is left up
/// to that rate where it is not.
fn share(rate: Rate, is_booked: bool) -> Share {
    let bytes = rate.as_bps() / 8;
    let (rate, priority) = match is_booked {
        true => (bytes, PRIORITY[0]),
        false => (UNBOOKED.min(bytes), PRIORITY[1]),
    };
    Share { rate, ceil: bytes, priority, overhead: 0 }
}

fn no_vlan(number: CircuitNumber, id: u16, refusal: &Refusal) -> Error {
    let error = refused(&format!("VLAN {id} for c{}", number.0), refusal);
    match refusal.errno {
        rustix::io::Errno::OPNOTSUPP => error
            .hint(format!("this kernel has no VLANs: load 8021q, or leave {} out", Setting::Vlans)),
        rustix::io::Errno::EXIST => error.hint("somebody else has this VLAN, or its name"),
        _ => error,
    }
}

impl CircuitDriver for LinuxDriver {
    fn fit(&mut self, topology: &Topology) -> Result<(), Error> {
        let own = rustix::system::uname();
        let said = self.settings.site.as_deref();
        let name = said.or(own.nodename().to_str().ok()).unwrap_or_default();
        self.site = topology.site_of_host(name);
        let known = || {
            format!("say it with {}; its sites are {}", Setting::Site, topology.sites().join(", "))
        };
        match self.site {
            Some(_) => self.base.ensure(),
            None => {
                let message = format!("the calendar does not know the site of {name}");
                Err(failed(message).hint(known()))
            }
        }
    }

    fn site(&self) -> Option<SiteId> {
        self.site
    }

    fn concerns(&self, circuit: &DesiredCircuit) -> bool {
        self.site.is_some_and(|own| own == circuit.from || own == circuit.to)
    }

    fn circuits(
        &mut self,
        _: &Topology,
        wanted: &BTreeMap<CircuitNumber, DesiredCircuit>,
    ) -> Result<BTreeMap<CircuitNumber, DeviceCircuit>, Error> {
        self.base.ensure()?;
        let found = self.found()?;
        let site = self.site;
        let mut numbers: BTreeMap<Place, (CircuitNumber, &DesiredCircuit)> = BTreeMap::new();
        for (number, circuit) in wanted {
            numbers.entry(self.places.of(*number)).or_insert((*number, circuit));
        }
        self.taken = numbers.iter().map(|(place, (number, _))| (*place, *number)).collect();
        let mut there = BTreeMap::new();
        for (place, class) in self.used(&found) {
            let wanted = numbers.get(&place);
            let is_whole = wanted.is_none_or(|(_, circuit)| {
                class.is_some() && self.is_whole(place, site == Some(circuit.from), &found)
            });
            if !is_whole {
                // What is missing is made anew, and the rest stays.
                continue;
            }
            let number = wanted.map_or_else(|| place.number(), |(number, _)| *number);
            let limit = self.fifo(place, &found).and_then(|fifo| fifo.limit);
            // A limit of somebody else's is set right by whichever step is next.
            let open = match limit {
                None | Some(0) => false,
                Some(OPEN) => true,
                Some(_) => wanted.is_none_or(|(_, circuit)| !circuit.open),
            };
            let share_there = class.as_ref().map(|class| class.share);
            let rate = match wanted {
                Some((_, circuit)) => {
                    let is_booked = circuit.both_ways || site == Some(circuit.from);
                    rate_of(share_there, Some((circuit.rate, share(circuit.rate, is_booked))))
                }
                None => rate_of(share_there, None),
            };
            let circuit = ActualCircuit { rate, open, as_ordered: true };
            let carried = class.map_or(0, |class| class.carried);
            let addresses = Some(self.places.addresses(place).map(IpAddr::from));
            let trouble = self.trouble(place, &found);
            there.insert(number, DeviceCircuit { circuit, carried, addresses, trouble });
        }
        Ok(there)
    }

    fn step(&mut self, _: &Topology, step: &CircuitStep) -> Result<(), Error> {
        match step {
            CircuitStep::Prepare(number, circuit) => self.prepare(*number, circuit),
            CircuitStep::Open(number) => self.switch(*number, OPEN),
            CircuitStep::Change(number, rate) => self.change(*number, *rate),
            CircuitStep::Shut(number) => self.switch(*number, 0),
            CircuitStep::Remove(number) => self.remove(*number),
        }
    }
}

/// The rate of a class: what is wanted where it has all that makes it, and never that where it has
/// not, or nobody would mend it.
fn rate_of(there: Option<Share>, wanted: Option<(Rate, Share)>) -> Rate {
    let rate = Rate::from_bps(there.map_or(0, |share| 8 * share.ceil));
    match wanted {
        Some((wanted, share)) if there == Some(share) => wanted,
        Some((wanted, _)) if wanted == rate => Rate::from_bps(rate.as_bps() + 1),
        _ => rate,
    }
}
