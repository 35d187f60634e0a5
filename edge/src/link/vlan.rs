//! VLANs that are paths of their own within one link.

use super::failure::you;
use farline_core::units::{Error, ErrorCode, Rate, Setting, Span};
use farline_core::wan;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What frames of one VLAN meet; loss, bit errors and jitter are the link's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VlanPath {
    /// The VLAN, 1 to 4094 (IEEE 802.1Q).
    pub id: u16,
    /// Each way, on the wire.
    pub rate: Rate,
    /// Each way; the link's where there is none.
    pub one_way_delay: Option<Span>,
}

impl VlanPath {
    /// Its direction in a link, one of whose own is `own`.
    pub(super) fn direction(&self, own: &wan::Direction) -> wan::Direction {
        let delay = self.one_way_delay.unwrap_or(own.one_way_delay);
        let usual = wan::Direction::new(self.rate, delay, delay + delay);
        wan::Direction { rate: self.rate, one_way_delay: delay, queue: usual.queue, ..own.clone() }
    }

    /// Refuses what is no set of VLANs.
    ///
    /// # Errors
    /// [`Fault::You`](farline_core::units::Fault::You), saying which.
    pub(super) fn check(vlans: &[VlanPath]) -> Result<(), Error> {
        for (at, vlan) in vlans.iter().enumerate() {
            let wrong = |why: &str| {
                Err(you(ErrorCode::LinkSetting, format!("VLAN {}: {why}", vlan.id))
                    .hint(format!("for example {} 3001=1G,13ms", Setting::Vlan)))
            };
            if !(1..=4_094).contains(&vlan.id) {
                return wrong("it has a number from 1 to 4094");
            }
            if vlan.rate.as_bps() == 0 {
                return wrong("its rate is zero");
            }
            if vlan.one_way_delay.is_some_and(|delay| delay > Span::from_secs(600)) {
                return wrong("its delay is above 10 min");
            }
            if vlans[..at].iter().any(|other| other.id == vlan.id) {
                return wrong("it is there twice");
            }
        }
        Ok(())
    }
}

impl FromStr for VlanPath {
    type Err = String;
    fn from_str(text: &str) -> Result<VlanPath, String> {
        let wrong = || format!("`{text}` is not ID=RATE[,DELAY] such as 3001=1G,13ms");
        let (id, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (rate, delay) =
            rest.split_once(',').map_or((rest, None), |(rate, delay)| (rate, Some(delay)));
        Ok(VlanPath {
            id: id.parse().map_err(|_| wrong())?,
            rate: rate.parse().map_err(|_| wrong())?,
            one_way_delay: delay.map(str::parse).transpose().map_err(|_| wrong())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_has_its_own_rate_and_delay_and_the_links_trouble() {
        let vlan: VlanPath = "3001=1G,13ms".parse().expect("a VLAN");
        let own = wan::Direction {
            loss: 0.5,
            ..wan::Direction::new(Rate::from_bps(10), Span::from_millis(1), Span::ZERO)
        };
        let path = vlan.direction(&own);
        assert_eq!((path.rate, path.one_way_delay), (vlan.rate, Span::from_millis(13)));
        assert_eq!(path.loss, 0.5);
        let without: VlanPath = "7=2G".parse().expect("a VLAN");
        assert_eq!(without.direction(&own).one_way_delay, Span::from_millis(1));
    }

    #[test]
    fn what_is_no_vlan_or_there_twice_is_refused() {
        for wrong in ["", "3001", "x=1G", "1=fast", "1=1G,far", "70000=1G"] {
            assert!(wrong.parse::<VlanPath>().is_err(), "{wrong}");
        }
        let vlans = |texts: &[&str]| {
            let all: Vec<VlanPath> =
                texts.iter().map(|text| text.parse().expect("a VLAN")).collect();
            VlanPath::check(&all).map_err(|error| error.message)
        };
        assert_eq!(vlans(&["1=1G", "2=1G"]), Ok(()));
        for (wrong, why) in [
            (&["1=1G", "1=2G"][..], "twice"),
            (&["0=1G"], "1 to 4094"),
            (&["4095=1G"], "1 to 4094"),
            (&["5=0G"], "zero"),
            (&["5=1G,11min"], "10 min"),
        ] {
            assert!(vlans(wrong).is_err_and(|said| said.contains(why)), "{wrong:?}");
        }
    }
}
