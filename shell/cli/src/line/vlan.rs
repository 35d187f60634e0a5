//! `--vlan ID[:PRIORITY]`: the tag of a test's frames.

use farline_core::line::EthernetFraming;
use std::str::FromStr;

/// A VLAN, and a priority in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct VlanTag {
    id: u16,
    priority: u8,
}

impl VlanTag {
    /// Frames by `device`, with the tag if there is one.
    pub(super) fn framing(device: String, tag: Option<VlanTag>) -> EthernetFraming {
        EthernetFraming {
            device,
            vlan: tag.map(|tag| tag.id),
            priority: tag.map_or(0, |tag| tag.priority),
        }
    }
}

impl FromStr for VlanTag {
    type Err = String;
    fn from_str(text: &str) -> Result<VlanTag, String> {
        let (id, priority) = text.split_once(':').unwrap_or((text, "0"));
        let id: Option<u16> = id.parse().ok().filter(|id| (1..=4_094).contains(id));
        let priority: Option<u8> = priority.parse().ok().filter(|priority| *priority < 8);
        match (id, priority) {
            (Some(id), Some(priority)) => Ok(VlanTag { id, priority }),
            _ => Err(format!("`{text}` is no VLAN, 1 to 4094, with a priority of 0 to 7")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_may_have_a_priority_and_nothing_else() {
        assert_eq!("3001:5".parse(), Ok(VlanTag { id: 3_001, priority: 5 }));
        assert_eq!("7".parse(), Ok(VlanTag { id: 7, priority: 0 }));
        for wrong in ["", "0", "4095", "7:8", "7:", "seven", "7:1:1"] {
            assert!(wrong.parse::<VlanTag>().is_err(), "{wrong}");
        }
    }
}
