//! Where circuits are among the numbers that a kernel has for them: class, addresses and VLAN
//! follow from the circuit's number alone, so that both ends agree without a word, and an agent
//! that was started anew knows what is there.

use farline_core::calendar::ReservationId;
use farline_core::calendar::circuit::CircuitNumber;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Places at the most: what the minor numbers of classes have room for, next to others.
const MOST: u32 = 1 << 15;
/// How far apart the routes of a reservation are, in places of all: one in sixteen.
const ROUTES: u32 = 16;

/// A circuit's place: circuits whose places are the same cannot be there at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u16);

impl Place {
    /// A number of which this is the place, where nobody knows the real one.
    pub(super) fn number(self) -> CircuitNumber {
        CircuitNumber(u32::from(self.0) * ROUTES)
    }
}

/// A range of addresses, two for each circuit: 10.64.0.0/16 where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitAddresses {
    first: Ipv4Addr,
    prefix: u8,
}

impl Default for CircuitAddresses {
    fn default() -> CircuitAddresses {
        CircuitAddresses { first: Ipv4Addr::new(10, 64, 0, 0), prefix: 16 }
    }
}

impl FromStr for CircuitAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<CircuitAddresses, String> {
        let wrong = || format!("`{text}` is no range such as 10.64.0.0/16, of /8 to /30");
        let (first, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let first: Ipv4Addr = first.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().ok().filter(|p| (8..=30).contains(p)).ok_or_else(wrong)?;
        let own = u32::from(first) & (u32::MAX >> prefix);
        if own != 0 {
            return Err(format!("`{text}` begins within its range"));
        }
        Ok(CircuitAddresses { first, prefix })
    }
}

impl fmt::Display for CircuitAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// A range of VLANs, one for each circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitVlans {
    first: u16,
    last: u16,
}

impl FromStr for CircuitVlans {
    type Err = String;

    fn from_str(text: &str) -> Result<CircuitVlans, String> {
        let wrong = || format!("`{text}` is no range of VLANs such as 3000-3499, within 1-4094");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let id = |text: &str| text.parse().ok().filter(|id| (1..=4094).contains(id));
        let (first, last): (u16, u16) = (id(first).ok_or_else(wrong)?, id(last).ok_or_else(wrong)?);
        if first > last { Err(wrong()) } else { Ok(CircuitVlans { first, last }) }
    }
}

impl fmt::Display for CircuitVlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A class as tc(8) writes it: `1:10`, in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassHandle(pub(super) u32);

impl FromStr for ClassHandle {
    type Err = String;

    fn from_str(text: &str) -> Result<ClassHandle, String> {
        let wrong = || format!("`{text}` is no class such as 1:10");
        let (major, minor) = text.split_once(':').ok_or_else(wrong)?;
        let number = |text| u16::from_str_radix(text, 16).ok().filter(|n| *n != 0);
        let (major, minor) = (number(major).ok_or_else(wrong)?, number(minor).ok_or_else(wrong)?);
        Ok(ClassHandle(u32::from(major) << 16 | u32::from(minor)))
    }
}

impl fmt::Display for ClassHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{:x}", self.0 >> 16, self.0 & 0xffff)
    }
}

/// All places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    count: u32,
    addresses: CircuitAddresses,
    vlans: Option<CircuitVlans>,
}

impl Places {
    pub(super) fn new(addresses: CircuitAddresses, vlans: Option<CircuitVlans>) -> Places {
        let mut count = MOST.min(1 << (31 - u32::from(addresses.prefix)));
        if let Some(vlans) = vlans {
            count = count.min(u32::from(vlans.last - vlans.first) + 1);
        }
        Places { count, addresses, vlans }
    }

    /// A circuit's place. Reservations that follow each other have places that do; more routes of
    /// one are a sixteenth of all further on.
    pub(super) fn of(&self, number: CircuitNumber) -> Place {
        let ReservationId(id) = number.reservation();
        let route = u64::from(number.0 % ROUTES);
        let apart = u64::from((self.count / ROUTES).max(1));
        Place(((id + route * apart) % u64::from(self.count)) as u16)
    }

    /// The addresses where it begins and where it ends.
    pub(super) fn addresses(&self, place: Place) -> [Ipv4Addr; 2] {
        let first = u32::from(self.addresses.first) + 2 * u32::from(place.0);
        [first.into(), (first + 1).into()]
    }

    /// Whose address this is.
    pub(super) fn of_address(&self, address: Ipv4Addr) -> Option<Place> {
        let at = u32::from(address).checked_sub(u32::from(self.addresses.first))? / 2;
        (at < self.count).then_some(Place(at as u16))
    }

    /// Its VLAN.
    pub(super) fn vlan(&self, place: Place) -> Option<u16> {
        self.vlans.map(|vlans| vlans.first + place.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_from_numbers_and_back() {
        let all = Places::new(CircuitAddresses::default(), None);
        let number = |id: u64, route| CircuitNumber::of(ReservationId(id), route).expect("one");
        let place = all.of(number(5, 0));
        assert_eq!((place, all.of(place.number())), (Place(5), Place(5)));
        assert_eq!(all.addresses(place).map(|a| a.to_string()), ["10.64.0.10", "10.64.0.11"]);
        for address in all.addresses(place) {
            assert_eq!(all.of_address(address), Some(place));
        }
        assert_eq!(all.of_address(Ipv4Addr::new(10, 63, 255, 255)), None);
        assert_eq!(all.of_address(Ipv4Addr::new(10, 65, 0, 0)), None);
        assert_ne!(all.of(number(5, 1)), all.of(number(6, 0)));
        // The last place has a number, addresses and a class of its own, too.
        let last = all.of(number(u64::from(MOST) - 1, 0));
        assert_eq!(all.of(last.number()), last);
        assert_eq!(all.addresses(last)[1], Ipv4Addr::new(10, 64, 255, 255));
        let few = Places::new("10.0.0.0/30".parse().expect("two"), None);
        assert_eq!((few.of(number(3, 0)), few.of(number(4, 1))), (Place(1), Place(1)));
        let vlans = Places::new(CircuitAddresses::default(), "3000-3009".parse().ok());
        assert_eq!(vlans.vlan(vlans.of(number(12, 0))), Some(3002));
    }

    #[test]
    fn ranges_and_classes_are_read_as_written() {
        for good in ["10.64.0.0/16", "192.168.4.0/30"] {
            assert_eq!(good.parse::<CircuitAddresses>().expect(good).to_string(), good);
        }
        for bad in ["10.64.0.0", "10.64.0.1/16", "10.0.0.0/31", "::/16", "10.0.0.0/0"] {
            assert!(bad.parse::<CircuitAddresses>().is_err(), "{bad}");
        }
        assert_eq!("3000-3499".parse::<CircuitVlans>().expect("a range").to_string(), "3000-3499");
        for bad in ["0-9", "9-1", "1", "1-4095"] {
            assert!(bad.parse::<CircuitVlans>().is_err(), "{bad}");
        }
        assert_eq!("1:1f".parse::<ClassHandle>().expect("a class").to_string(), "1:1f");
        for bad in ["1", "1:", "0:1", "1:0", "1:10000", "x:1"] {
            assert!(bad.parse::<ClassHandle>().is_err(), "{bad}");
        }
    }
}
