//! What circuits of an interface are made below: an HTB at its root of Farline's own, or a class of
//! somebody else's.

use super::place::{ClassHandle, Place};
use super::{InterfaceSettings, failed, refused};
use crate::sys::queueing::{self, Class, Match, Share, handle};
use crate::sys::rtnetlink::Refusal;
use crate::sys::{ethtool, interface};
use farline_core::units::{Error, Rate, Setting};

/// The handle of Farline's own root, `fa11:`, and its classes: all, best effort, and ARP, which has
/// to get through whatever best effort does.
const MAJOR: u16 = 0xfa11;
const ALL: u16 = 1;
const BEST_EFFORT: u16 = 2;
const ARP: u16 = 3;
/// The first of the circuits' classes.
const CIRCUITS: u16 = 0x4000;
/// The preference of circuits' filters: before all others below a root of our own, and behind those
/// that somebody placed first below his.
const PREFERENCES: [u16; 2] = [1, 4_001];
/// What Ethernet adds to each frame that is not in the packet: preamble, check sequence, gap.
const OVERHEAD: u16 = 24;
/// The priority of best effort, the last.
const LAST: u32 = 7;
/// What best effort and ARP have assured, in bytes a second.
const LITTLE: u64 = 12_500;
const FOR_ARP: u64 = 125_000;

/// Where circuits are.
#[derive(Debug)]
pub(super) struct Base {
    /// The interface's number.
    pub(super) interface: u32,
    name: String,
    /// What all circuits together may have.
    pub(super) rate: Rate,
    below: Option<ClassHandle>,
    has_vlans: bool,
}

impl Base {
    pub(super) fn new(settings: &InterfaceSettings) -> Result<Base, Error> {
        let name = settings.interface.clone();
        let all = interface::interfaces()
            .map_err(|error| failed(format!("looking for {name}: {error}")))?;
        let interface = all.iter().find(|one| one.name == name).map(|one| one.number);
        let interface = interface.ok_or_else(|| failed(format!("there is no interface {name}")))?;
        let rate = match settings.rate {
            Some(rate) => rate,
            None => {
                let says = ethtool::speed(&name).ok_or_else(|| {
                    failed(format!("{name} does not say how fast it is"))
                        .hint(format!("say what it carries with {}", Setting::Rate))
                })?;
                // A device that cuts trains itself puts more around packets than can be counted
                // here.
                Rate::from_bps(u64::from(says) * 980_000)
            }
        };
        let has_vlans = settings.vlans.is_some();
        Ok(Base { interface, name, rate, below: settings.below, has_vlans })
    }

    /// The discipline that circuits' filters are at.
    pub(super) fn root(&self) -> u32 {
        self.below.map_or(handle(MAJOR, 0), |class| class.0 & 0xffff_0000)
    }

    /// The class that circuits' classes are below.
    pub(super) fn parent(&self) -> u32 {
        self.below.map_or(handle(MAJOR, ALL), |class| class.0)
    }

    /// The class of a circuit.
    pub(super) fn class(&self, place: Place) -> u32 {
        self.root() | u32::from(CIRCUITS + place.0)
    }

    /// The circuit of a class.
    pub(super) fn place(&self, class: u32) -> Option<Place> {
        let minor = (class & 0xffff) as u16;
        minor.checked_sub(CIRCUITS).filter(|at| *at < 1 << 15).map(Place)
    }

    /// The preference of circuits' filters.
    pub(super) fn preference(&self) -> u16 {
        PREFERENCES[usize::from(self.below.is_some())]
    }

    /// Gives a class a share.
    pub(super) fn set_class(&self, class: u32, parent: u32, share: Share) -> Result<(), Refusal> {
        queueing::set_class(self.interface, class, parent, share)
    }

    /// Makes what circuits are below, or sets it right again; done twice, it does nothing the
    /// second time.
    pub(super) fn ensure(&self) -> Result<(), Error> {
        let looking =
            |error: rustix::io::Errno| failed(format!("looking at {}: {error}", self.name));
        let classes = || queueing::classes(self.interface).map_err(looking);
        if let Some(below) = self.below {
            let is_there = classes()?.iter().any(|class| class.handle == below.0);
            return match is_there {
                true => Ok(()),
                false => Err(failed(format!("{} has no class {below} of HTB", self.name))),
            };
        }
        let all = queueing::disciplines(self.interface).map_err(looking)?;
        let root = all.iter().find(|one| one.parent == queueing::ROOT);
        let doing = |what: &str| {
            let what = format!("{what} on {}", self.name);
            move |refusal: Refusal| refused(&what, &refusal)
        };
        match root {
            Some(root) if root.handle == self.root() && root.kind == "htb" => {}
            // What the kernel chose by itself has no number.
            Some(root) if root.handle != 0 => {
                let (name, kind, major) = (&self.name, &root.kind, root.handle >> 16);
                let message = format!("{name} has a root that is not Farline's: {kind} {major:x}:");
                return Err(failed(message).hint(format!(
                    "name a class of HTB with {}, or take it away: tc qdisc del dev NAME root",
                    Setting::Below
                )));
            }
            _ => queueing::add_root(self.interface, self.root(), BEST_EFFORT)
                .map_err(doing("a root of HTB"))?,
        }
        let there = classes()?;
        let most = self.rate.as_bps() / 8;
        let share = |rate: u64, priority| Share {
            rate: rate.min(most),
            ceil: most,
            priority,
            overhead: OVERHEAD,
        };
        let own = |minor| handle(MAJOR, minor);
        for (minor, parent, share) in [
            (ALL, queueing::ROOT, share(most, 0)),
            (BEST_EFFORT, own(ALL), share(LITTLE, LAST)),
            (ARP, own(ALL), share(FOR_ARP, 0)),
        ] {
            let known = there.iter().find(|class| class.handle == own(minor));
            if known.is_none_or(|known| !same(known, share)) {
                self.set_class(own(minor), parent, share).map_err(doing("a class of HTB"))?;
            }
            if known.is_none() && minor == BEST_EFFORT {
                // A fair queue where the kernel has one; else the FIFO that classes come with.
                let _ = queueing::set_leaf(self.interface, own(minor), "fq_codel");
            }
        }
        let filters = queueing::filters(self.interface, self.root()).map_err(looking)?;
        // In a VLAN it is another protocol to the kernel, of which each has a preference of its
        // own.
        for (at, arp) in [Match::Arp, Match::TaggedArp].into_iter().enumerate() {
            let is_there = filters.iter().any(|one| one.target == own(ARP) && arp.is_of(one));
            if !is_there && (at == 0 || self.has_vlans) {
                let preference = self.preference() + 1 + at as u16;
                queueing::add_filter(self.interface, self.root(), preference, arp, own(ARP))
                    .map_err(doing("the filter of ARP"))?;
            }
        }
        Ok(())
    }
}

/// Whether a class has this share. Those above others have no priority.
fn same(class: &Class, share: Share) -> bool {
    let known = class.share;
    (known.rate, known.ceil, known.overhead) == (share.rate, share.ceil, share.overhead)
        && (class.parent == queueing::ROOT || known.priority == share.priority)
}
