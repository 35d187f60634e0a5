//! Each finding from the facts that cause it, and silence about what could not be read.

use super::*;
use crate::congestion::{Algorithm, ControlName};
use crate::units::{Bytes, Rate, Span};

fn long() -> PathFacts {
    PathFacts {
        rtt: Span::from_millis(163),
        rate: Rate::from_bps(10_000_000_000),
        measured: true,
        rate_known: true,
    }
}

fn about(facts: &HostFacts, path: &PathFacts, slug: &str) -> Finding {
    let found = judge(facts, path);
    found
        .iter()
        .find(|finding| finding.about == slug)
        .unwrap_or_else(|| panic!("nothing about {slug}: {found:?}"))
        .clone()
}

fn buffers(most: u64) -> Option<[Bytes; 3]> {
    Some([Bytes(4096), Bytes(131_072), Bytes(most)])
}

#[test]
fn buffers_are_judged_by_what_the_path_holds() {
    let small = HostFacts { tcp_rmem: buffers(6 << 20), ..HostFacts::default() };
    let finding = about(&small, &long(), "receive-buffers");
    assert_eq!(finding.level, Level::Problem);
    assert!(
        finding.words.contains("3 MiB in flight") && finding.words.contains("194.3 MiB"),
        "{}",
        finding.words
    );
    // 10 Gbit/s x 163 ms are 203,750,000 bytes; a window is half of a buffer; whole mebibytes.
    assert_eq!(
        finding.mend.as_deref(),
        Some("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 407896064\"")
    );
    let middling = HostFacts { tcp_wmem: buffers(64 << 20), ..HostFacts::default() };
    let finding = about(&middling, &long(), "send-buffers");
    assert_eq!(finding.level, Level::Advice);
    assert!(finding.words.contains("takes 7 to fill it"), "{}", finding.words);
    let large = HostFacts { tcp_rmem: buffers(512 << 20), ..HostFacts::default() };
    assert_eq!(about(&large, &long(), "receive-buffers").level, Level::Good);
    let near = PathFacts { rtt: Span::from_micros(200), ..long() };
    assert_eq!(
        about(&small, &near, "receive-buffers").level,
        Level::Good,
        "the same buffer is enough nearby"
    );
}

#[test]
fn the_mended_buffer_is_found_good() {
    for rtt in [1, 27, 85, 163, 300] {
        let path = PathFacts { rtt: Span::from_millis(rtt), ..long() };
        let mend = about(
            &HostFacts { tcp_rmem: buffers(1 << 20), ..HostFacts::default() },
            &path,
            "receive-buffers",
        )
        .mend;
        let most = mend
            .as_deref()
            .and_then(|mend| mend.trim_end_matches('"').rsplit(' ').next()?.parse().ok());
        let Some(most) = most else { continue };
        let mended = about(
            &HostFacts { tcp_rmem: buffers(most), ..HostFacts::default() },
            &path,
            "receive-buffers",
        );
        assert_eq!(mended.level, Level::Good, "{rtt} ms: {}", mended.words);
    }
}

#[test]
fn a_finding_names_the_command_that_mends_it() {
    let interface = Interface {
        name: "eth7".to_owned(),
        mtu: Some(1500),
        rate: Some(Rate::from_bps(100_000_000_000)),
        offloads_off: vec!["tso".to_owned(), "gro".to_owned()],
        rings: Some([Ring { now: 512, most: 8192 }, Ring { now: 1024, most: 1024 }]),
        interrupts: vec![990_000, 4_000, 6_000, 0],
        interrupt_lines: 8,
    };
    let facts = HostFacts {
        processors: 1,
        governors: vec!["powersave".to_owned()],
        rmem_max: Some(Bytes(212_992)),
        tcp_mem: Some(Bytes::mib(100)),
        window_scaling: Some(false),
        sack: Some(false),
        slow_start_after_idle: Some(true),
        default_qdisc: Some("pfifo_fast".to_owned()),
        congestion: Some(Algorithm::Reno.into()),
        congestion_available: vec![Algorithm::Reno.into()],
        interfaces: vec![interface],
        memlock: Some(Bytes::mib(8)),
        clock: Some(Clock { synchronised: false, error: Span::from_secs(16) }),
        disk: Some(Disk {
            path: "/data".to_owned(),
            direct: true,
            write: Speed { bytes: Bytes::mib(256), rate: Rate::from_bps(1_600_000_000) },
            read: Speed { bytes: Bytes::mib(256), rate: Rate::from_bps(20_000_000_000) },
        }),
        ..HostFacts::default()
    };
    for (slug, level, command) in [
        ("fixed-receive-buffers", Level::Advice, "sysctl -w net.core.rmem_max=204472320"),
        ("tcp-memory", Level::Problem, "sysctl -w net.ipv4.tcp_mem="),
        ("window-scaling", Level::Problem, "sysctl -w net.ipv4.tcp_window_scaling=1"),
        ("sack", Level::Problem, "sysctl -w net.ipv4.tcp_sack=1"),
        ("slow-start-after-idle", Level::Advice, "sysctl -w net.ipv4.tcp_slow_start_after_idle=0"),
        ("qdisc", Level::Advice, "sysctl -w net.core.default_qdisc=fq"),
        ("congestion-control", Level::Problem, "modprobe tcp_cubic"),
        ("mtu", Level::Advice, "ip link set eth7 mtu 9000"),
        ("offloads", Level::Problem, "ethtool -K eth7 tso on gro on"),
        ("rings", Level::Advice, "ethtool -G eth7 rx 8192"),
        ("interrupts", Level::Advice, "irqbalance"),
        ("governor", Level::Advice, "cpupower frequency-set -g performance"),
        ("memlock", Level::Advice, "memlock unlimited"),
        ("clock", Level::Advice, "timedatectl set-ntp true"),
    ] {
        let finding = about(&facts, &long(), slug);
        assert_eq!(finding.level, level, "{slug}: {}", finding.words);
        assert!(
            finding.mend.as_deref().is_some_and(|mend| mend.contains(command)),
            "{slug}: {:?}",
            finding.mend
        );
    }
    let disk = about(&facts, &long(), "disk");
    assert!(disk.level == Level::Advice && disk.words.contains("set the pace"), "{}", disk.words);
    assert_eq!(about(&facts, &long(), "processors").level, Level::Advice);
    assert!(
        judge(&facts, &long())
            .iter()
            .all(|finding| finding.level != Level::Problem || finding.mend.is_some())
    );
}

#[test]
fn a_host_in_order_has_nothing_but_good_findings() {
    let facts = HostFacts {
        processors: 16,
        governors: vec!["performance".to_owned()],
        tcp_rmem: buffers(1 << 30),
        tcp_wmem: buffers(1 << 30),
        rmem_max: Some(Bytes(1 << 30)),
        wmem_max: Some(Bytes(1 << 30)),
        tcp_mem: Some(Bytes(8 << 30)),
        window_scaling: Some(true),
        sack: Some(true),
        slow_start_after_idle: Some(false),
        mtu_probing: Some(1),
        default_qdisc: Some("fq".to_owned()),
        congestion: Some(Algorithm::Cubic.into()),
        congestion_available: [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr]
            .map(ControlName::from)
            .to_vec(),
        interfaces: vec![Interface {
            name: "eth0".to_owned(),
            mtu: Some(9000),
            rate: Some(Rate::from_bps(10_000_000_000)),
            rings: Some([Ring { now: 8192, most: 8192 }; 2]),
            interrupts: vec![60_000, 40_000],
            interrupt_lines: 4,
            ..Interface::default()
        }],
        memlock: None,
        clock: Some(Clock { synchronised: true, error: Span::from_millis(2) }),
        disk: None,
    };
    let found = judge(&facts, &long());
    assert!(
        found.iter().all(|finding| finding.level == Level::Good && finding.mend.is_none()),
        "{found:?}"
    );
    assert!(found.len() >= 12, "{found:?}");
}

#[test]
fn what_could_not_be_read_is_not_judged() {
    let found: Vec<_> = judge(&HostFacts { processors: 2, ..HostFacts::default() }, &long())
        .iter()
        .map(|finding| finding.about)
        .collect();
    assert_eq!(found, ["path", "processors"]);
}
