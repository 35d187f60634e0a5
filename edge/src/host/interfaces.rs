//! The network interfaces: `/sys/class/net`, `/proc/interrupts` and ethtool's answers.

use super::text;
use crate::sys::ethtool::{Offload, interface_of, offload, rings};
use farline_core::host::{Interface, Ring};
use farline_core::units::Rate;
use std::net::IpAddr;

/// The interfaces that are up, without the loopback; with `local` the one that has this address,
/// the loopback too.
pub(super) fn read(local: Option<IpAddr>) -> Vec<Interface> {
    let names: Vec<String> = match local {
        Some(ip) => interface_of(ip.to_canonical()).into_iter().collect(),
        None => names(),
    };
    let interrupts = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    names.into_iter().map(|name| interface(name, &interrupts)).collect()
}

fn names() -> Vec<String> {
    let Ok(folder) = std::fs::read_dir("/sys/class/net") else { return Vec::new() };
    let all = folder.flatten().filter_map(|item| item.file_name().into_string().ok());
    let mut up: Vec<String> = all
        .filter(|name| {
            name != "lo" && attribute(name, "operstate").is_some_and(|state| state == "up")
        })
        .collect();
    up.sort();
    up
}

fn attribute(name: &str, attribute: &str) -> Option<String> {
    text(&format!("/sys/class/net/{name}/{attribute}"))
}

fn interface(name: String, interrupts: &str) -> Interface {
    // Virtual interfaces say -1, or refuse to be read.
    let mbps: Option<u64> =
        attribute(&name, "speed").and_then(|text| text.parse().ok()).filter(|&mbps| mbps > 0);
    let off = [Offload::Tso, Offload::Gso, Offload::Gro]
        .into_iter()
        .filter(|&one| offload(&name, one).is_ok_and(|on| !on));
    let rings = rings(&name).ok().map(|[receive, receive_most, send, send_most]| {
        [Ring { now: receive, most: receive_most }, Ring { now: send, most: send_most }]
    });
    let (interrupt_lines, counts) = counted(interrupts, &labels(&name));
    Interface {
        mtu: attribute(&name, "mtu").and_then(|text| text.parse().ok()),
        rate: mbps.map(|mbps| Rate::from_bps(mbps * 1_000_000)),
        offloads_off: off.map(|one| one.name().to_owned()).collect(),
        rings,
        interrupts: counts,
        interrupt_lines,
        name,
    }
}

/// What the interface's interrupts are called: its own name, and for virtio that of its device.
fn labels(name: &str) -> Vec<String> {
    let device = std::fs::read_link(format!("/sys/class/net/{name}/device")).ok();
    let device = device.and_then(|path| path.file_name()?.to_str().map(str::to_owned));
    [Some(name.to_owned()), device].into_iter().flatten().collect()
}

/// How many lines of `/proc/interrupts` belong to `labels`, and how many interrupts each processor
/// took of them.
fn counted(interrupts: &str, labels: &[String]) -> (usize, Vec<u64>) {
    let processors = interrupts.lines().next().map_or(0, |head| head.split_whitespace().count());
    let mut counts = vec![0u64; processors];
    let mut lines = 0;
    for line in interrupts.lines().skip(1) {
        let mut words = line.split_whitespace().skip(1);
        let taken: Vec<u64> =
            words.by_ref().take(processors).filter_map(|word| word.parse().ok()).collect();
        // `eth0-TxRx-3`, `virtio1-input.0`, `mlx5_comp3@pci:0000:3b:00.0`: the label, or an end of
        // it that is no letter or digit.
        let ours = words.any(|word| {
            labels.iter().any(|label| {
                word.match_indices(label.as_str()).any(|(at, _)| {
                    let bounded = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
                    bounded(word[..at].chars().next_back())
                        && bounded(word[at + label.len()..].chars().next())
                })
            })
        });
        if ours && taken.len() == processors {
            lines += 1;
            counts.iter_mut().zip(taken).for_each(|(sum, count)| *sum += count);
        }
    }
    if lines == 0 { (0, Vec::new()) } else { (lines, counts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_counted_for_the_lines_of_one_interface() {
        let table = "           CPU0       CPU1\n 24:   7    0  IO-APIC   5-edge   ACPI:Ged\n \
            31:   100   20  PCI-MSIX-0000:00:02.0   1-edge   virtio1-input.0\n\
                      32:   1   300  PCI-MSIX-0000:00:02.0   2-edge   virtio1-output.0\n 33:   \
                      9   9  PCI-MSIX   2-edge   virtio11-input.0\n\
                      40:   5   6  IR-PCI-MSI   eth0-TxRx-0\nERR:   0\n";
        assert_eq!(counted(table, &["virtio1".to_owned()]), (2, vec![101, 320]));
        assert_eq!(counted(table, &["eth0".to_owned()]), (1, vec![5, 6]));
        assert_eq!(counted(table, &["eth1".to_owned()]), (0, vec![]));
    }

    #[test]
    fn the_loopback_is_looked_at_when_it_leads_to_the_peer() {
        let found = read(Some(IpAddr::from([127, 0, 0, 1])));
        assert_eq!((found.len(), found[0].name.as_str(), found[0].mtu), (1, "lo", Some(65536)));
        assert!(read(None).iter().all(|interface| interface.name != "lo"));
    }
}
