//! TCP and the interfaces, judged for a path.

use super::{Finding, HostFacts, Interface, PathFacts};
use crate::congestion::{Algorithm, ControlName};
use crate::plan::ChannelLimits;
use crate::units::{Bytes, Rate, Setting};

/// Channels that Farline opens at most by itself.
const CHANNELS: u64 = ChannelLimits::TRANSFER as u64;

/// What the buffers of one direction allow.
struct Direction {
    about: &'static str,
    sysctl: &'static str,
    fixed_about: &'static str,
    fixed_sysctl: &'static str,
    /// What the other host would call it.
    verb: &'static str,
}

const RECEIVING: Direction = Direction {
    about: "receive-buffers",
    sysctl: "net.ipv4.tcp_rmem",
    fixed_about: "fixed-receive-buffers",
    fixed_sysctl: "net.core.rmem_max",
    verb: "receiving",
};
const SENDING: Direction = Direction {
    about: "send-buffers",
    sysctl: "net.ipv4.tcp_wmem",
    fixed_about: "fixed-send-buffers",
    fixed_sysctl: "net.core.wmem_max",
    verb: "sending",
};

pub(super) fn tcp(facts: &HostFacts, path: &PathFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    for (direction, buffers, fixed) in
        [(RECEIVING, facts.tcp_rmem, facts.rmem_max), (SENDING, facts.tcp_wmem, facts.wmem_max)]
    {
        found.extend(buffers.map(|buffers| automatic(&direction, buffers, path)));
        found.extend(fixed.map(|most| by_hand(&direction, most, path)));
    }
    if let Some(most) = facts.tcp_mem {
        let need = Bytes(path.product().0.saturating_mul(2));
        found.push(if most < need {
            Finding::problem(
                "tcp-memory",
                format!(
                    "all TCP buffers of this host together may take {most}, and this path \
                    alone needs {need}"
                ),
            )
            .mend(format!(
                "sysctl -w net.ipv4.tcp_mem=\"{0} {0} {0}\"",
                need.0.div_ceil(4096).next_power_of_two()
            ))
        } else {
            Finding::good("tcp-memory", format!("all TCP buffers together may take {most}"))
        });
    }
    if facts.window_scaling == Some(false) {
        let words = "TCP window scaling is off: no channel has more than 64 KiB in flight";
        found.push(
            Finding::problem("window-scaling", words)
                .mend("sysctl -w net.ipv4.tcp_window_scaling=1"),
        );
    }
    if facts.sack == Some(false) {
        let words =
            "selective acknowledgements are off: one loss costs a round trip for each lost packet";
        found.push(Finding::problem("sack", words).mend("sysctl -w net.ipv4.tcp_sack=1"));
    }
    if facts.slow_start_after_idle == Some(true) {
        let words = "a channel that paused for a moment starts slowly again, which every small \
            file and every stall of a disk costs";
        found.push(
            Finding::advice("slow-start-after-idle", words)
                .mend("sysctl -w net.ipv4.tcp_slow_start_after_idle=0"),
        );
    }
    found.extend(qdisc(facts));
    found.extend(congestion(facts));
    found
}

/// The buffers that the kernel sizes by itself: Farline's default.
fn automatic(
    direction: &Direction,
    [least, initial, most]: [Bytes; 3],
    path: &PathFacts,
) -> Finding {
    // A window is about half of its buffer: the kernel's own accounting takes the rest
    // (tcp_adv_win_scale).
    let window = Bytes(most.0 / 2);
    let product = path.product();
    let alone = Rate::of(window, path.rtt).min(path.rate);
    let want = product.0.saturating_mul(2).next_multiple_of(1 << 20).max(4 << 20);
    let mend = format!("sysctl -w {}=\"{} {} {want}\"", direction.sysctl, least.0, initial.0);
    let verb = direction.verb;
    if window >= product {
        return Finding::good(
            direction.about,
            format!(
                "{verb}, one channel may have {window} in flight, and the path holds {product}"
            ),
        );
    }
    let words = format!(
        "{verb}, one channel may have {window} in flight, and the path holds {product}: {alone} a \
         channel"
    );
    if window.0.saturating_mul(CHANNELS) >= product.0 {
        let channels = product.0.div_ceil(window.0.max(1));
        return Finding::advice(
            direction.about,
            format!("{words}, so it takes {channels} to fill it"),
        )
        .mend(mend);
    }
    Finding::problem(direction.about, format!("{words}, and {CHANNELS} do not fill it")).mend(mend)
}

/// The buffers that a program fixes: `--buffer`, and what many other movers do.
fn by_hand(direction: &Direction, most: Bytes, path: &PathFacts) -> Finding {
    let product = path.product();
    let words =
        format!("a program that fixes its buffer for {} gets at most {most}", direction.verb);
    if most >= product {
        return Finding::good(direction.fixed_about, words);
    }
    let want = product.0.next_multiple_of(1 << 20);
    Finding::advice(
        direction.fixed_about,
        format!(
            "{words}, and the path holds {product}; Farline leaves it to the kernel unless told {}",
            Setting::Buffer
        ),
    )
    .mend(format!("sysctl -w {}={want}", direction.fixed_sysctl))
}

fn qdisc(facts: &HostFacts) -> Option<Finding> {
    let qdisc = facts.default_qdisc.as_deref()?;
    Some(match qdisc {
        "fq" => Finding::good("qdisc", "the default qdisc is fq, which paces"),
        other => Finding::advice(
            "qdisc",
            format!(
                "the default qdisc is {other}: pacing (bbr, {}) then needs a timer for each packet",
                Setting::Limit
            ),
        )
        .mend(
            "sysctl -w net.core.default_qdisc=fq  # holds for interfaces that come up from then \
            on",
        ),
    })
}

fn congestion(facts: &HostFacts) -> Option<Finding> {
    let default = facts.congestion?;
    let available: Vec<&str> = facts.congestion_available.iter().map(ControlName::as_str).collect();
    let available = available.join(" ");
    let has = |control: Algorithm| facts.congestion_available.contains(&control.into());
    let bold = [Algorithm::Cubic, Algorithm::Bbr, Algorithm::HTcp].map(ControlName::from);
    Some(if !bold.contains(&default) && !has(Algorithm::Cubic) {
        Finding::problem(
            "congestion-control",
            format!("the default is {default}, too timid for a long path; available: {available}"),
        )
        .mend("modprobe tcp_cubic && sysctl -w net.ipv4.tcp_congestion_control=cubic")
    } else if !has(Algorithm::Bbr) {
        Finding::advice(
            "congestion-control",
            format!(
                "the default is {default}; available: {available}. bbr, for paths that lose \
                packets, is not loaded"
            ),
        )
        .mend("modprobe tcp_bbr")
    } else {
        Finding::good(
            "congestion-control",
            format!("the default is {default}; available: {available}"),
        )
    })
}

pub(super) fn interface(interface: &Interface, facts: &HostFacts) -> Vec<Finding> {
    let name = &interface.name;
    let mut found = Vec::new();
    let rate = interface.rate.map_or_else(|| "an unknown rate".to_owned(), |rate| rate.to_string());
    match interface.mtu {
        Some(mtu)
            if mtu < 9000
                && interface.rate.is_some_and(|rate| rate >= Rate::from_bps(10_000_000_000)) =>
        {
            let words = format!(
                "{name} ({rate}) has an MTU of {mtu}: six times the packets of an MTU of 9000"
            );
            found.push(
                Finding::advice("mtu", words).mend(format!(
                    "ip link set {name} mtu 9000  # only when the whole path takes it"
                )),
            );
        }
        Some(mtu) => {
            found.push(Finding::good("mtu", format!("{name} ({rate}) has an MTU of {mtu}")));
            if mtu > 1500 && facts.mtu_probing == Some(0) {
                let words = "packets above 1500 bytes that a router swallows silently would stop \
                    a transfer for good";
                found.push(
                    Finding::advice("mtu-probing", words)
                        .mend("sysctl -w net.ipv4.tcp_mtu_probing=1"),
                );
            }
        }
        None => {}
    }
    if !interface.offloads_off.is_empty() {
        let off = interface.offloads_off.join(", ");
        let on: Vec<String> =
            interface.offloads_off.iter().map(|offload| format!("{offload} on")).collect();
        let words = format!("{name} has {off} off: the processor cuts or joins every packet");
        found.push(
            Finding::problem("offloads", words).mend(format!("ethtool -K {name} {}", on.join(" "))),
        );
    }
    if let Some([receive, send]) = interface.rings {
        for (ring, word) in [(receive, "rx"), (send, "tx")] {
            if ring.now < ring.most {
                let words = format!(
                    "{name}'s {word} ring has {} of {} entries: bursts are dropped sooner",
                    ring.now, ring.most
                );
                found.push(
                    Finding::advice("rings", words)
                        .mend(format!("ethtool -G {name} {word} {}", ring.most)),
                );
            }
        }
    }
    found.extend(interrupts(interface));
    found
}

fn interrupts(interface: &Interface) -> Option<Finding> {
    let total: u64 = interface.interrupts.iter().sum();
    let processors = interface.interrupts.len();
    // Too few to tell anything.
    if processors < 2 || total < 10_000 || interface.interrupt_lines < 2 {
        return None;
    }
    let (name, lines) = (&interface.name, interface.interrupt_lines);
    let (busiest, most) =
        interface.interrupts.iter().enumerate().max_by_key(|(_, count)| **count)?;
    let share = *most as f64 / total as f64;
    if share > 0.9 {
        let words = format!(
            "processor {busiest} takes {:.0} % of {name}'s interrupts, although it has {lines} \
             lines",
            share * 100.0
        );
        return Some(
            Finding::advice("interrupts", words).mend("systemctl enable --now irqbalance"),
        );
    }
    Some(Finding::good(
        "interrupts",
        format!(
            "{name}'s interrupts are spread over the processors; the busiest takes {:.0} %",
            share * 100.0
        ),
    ))
}
