//! Files go there and back: over any number of queue pairs, written and read, connected either way,
//! in any weather.

use super::ends::{
    CALM, Carried, End, MIB, assert_same, by_tcp_instead, copy, far_node, ip, is_iwarp, plant,
    weather, wire,
};
use farline_lab::farline;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// One way for a file to go there and back.
struct CopyCase {
    driver: &'static str,
    /// The far interface's MTU, and the bytes that a packet then carries.
    mtu: (u32, u64),
    /// What the wire does, in the words of netem.
    weather: &'static str,
    /// Whole blocks of the file; some bytes follow.
    blocks: usize,
    streams: &'static str,
}

impl CopyCase {
    /// Three blocks over two channels.
    const fn by(driver: &'static str) -> CopyCase {
        CopyCase { driver, mtu: (4_200, 4_096), weather: CALM, blocks: 2, streams: "2" }
    }

    /// One channel in such weather.
    const fn through(weather: &'static str, driver: &'static str, blocks: usize) -> CopyCase {
        CopyCase { weather, blocks, streams: "1", ..CopyCase::by(driver) }
    }
}

/// What one direction has shown.
struct Leg<'a> {
    way: &'a CopyCase,
    sender: End,
    carried: Carried,
    /// Of the sender's packets, how many the weather took.
    lost: u64,
    /// How often the receiver's device missed a packet before the one that it got; over iWARP, how
    /// often TCP sent again.
    missed: u64,
}

/// Copies a file there and back; the digest says that it came whole, and `copy` that verbs carried
/// it. `look` is shown each direction.
fn goes_there_and_back(ways: &[CopyCase], look: impl Fn(&Leg)) {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = far_node(&dir.path().join("root"), &[]);
    let there = format!("{url}/there");
    for way in ways {
        let (source, back) = (dir.path().join("source"), dir.path().join("back"));
        plant(&source, way.blocks * MIB + 123);
        ip(&format!("link set vb mtu {}", way.mtu.0));
        weather(way.weather);
        assert_is_far(way.weather);
        let (here, again) = (source.to_str().expect("UTF-8"), back.to_str().expect("UTF-8"));
        for (from, to, sender) in [(here, &*there, End::Near), (&there, again, End::Far)] {
            let missed = || {
                if is_iwarp() { tcp_again() } else { sender.other().counted("out_of_seq_request") }
            };
            let before = (sender.lost(), missed());
            let (result, carried) =
                copy(&["--channel", way.driver, "--streams", way.streams, from, to]);
            let leg = Leg {
                way,
                sender,
                carried,
                lost: sender.lost() - before.0,
                missed: missed() - before.1,
            };
            let seconds = &result["seconds"];
            let pairs: Vec<u64> = leg.carried.pairs.iter().map(|pair| pair.bytes).collect();
            eprintln!(
                "{} {}, {sender:?} sends {pairs:?} bytes in {seconds} s, {} lost",
                way.driver, way.weather, leg.lost
            );
            assert!(
                is_iwarp() || leg.carried.largest() == way.mtu.1,
                "{}: packets of {}",
                way.driver,
                leg.carried.largest()
            );
            assert_eq!(result["passes"], 1, "no channel broke: {result}");
            look(&leg);
        }
        assert_same(&source, &dir.path().join("root/there"));
        assert_same(&source, &back);
    }
    weather(CALM);
    ip("link set vb mtu 4200");
}

/// How often TCP has sent something again, on this host.
fn tcp_again() -> u64 {
    let said = std::fs::read_to_string("/proc/net/snmp").expect("the kernel counts");
    let mut lines =
        said.lines().filter(|line| line.starts_with("Tcp:")).map(|line| line.split(' '));
    let (mut names, mut values) = (lines.next().expect("names"), lines.next().expect("values"));
    let place = names.position(|name| name == "RetransSegs").expect("counted");
    values.nth(place).and_then(|value| value.parse().ok()).expect("a number")
}

/// A round trip takes what the weather says, `delay 5ms` each way, by a clock of the test's own:
/// connecting takes one.
fn assert_is_far(weather: &str) {
    let delay = weather
        .split(' ')
        .nth(1)
        .and_then(|word| word.strip_suffix("ms")?.parse::<f64>().ok())
        .expect("a delay first");
    let listener = TcpListener::bind((End::Far.address(), 0)).expect("a port");
    let began = Instant::now();
    TcpStream::connect(listener.local_addr().expect("bound")).expect("the wire is there");
    let taken = began.elapsed().as_secs_f64() * 1e3;
    assert!(taken >= 2.0 * delay, "{weather}: there and back in {taken} ms");
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_file_goes_there_and_back_and_devices_counted_it() {
    goes_there_and_back(&[CopyCase::by("rdma:1"), CopyCase::by("rdma:4")], |_| {});
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn every_queue_pair_carries_its_share() {
    for (pairs, way) in [
        (1, CopyCase::through("delay 0.1ms", "rdma:1", 4)),
        (2, CopyCase::through("delay 10ms", "rdma:2", 12)),
        (4, CopyCase::through("delay 20ms", "rdma:4", 24)),
        (8, CopyCase::through("delay 20ms", "rdma:8", 48)),
    ] {
        goes_there_and_back(&[way], |leg| {
            // Four blocks or six each if all have the same. But the first of those with the least
            // on its way takes the next, so that where a busy machine is slower than the wire, the
            // last get few.
            let bytes: Vec<u64> = leg.carried.pairs.iter().map(|pair| pair.bytes).collect();
            let is_shared = bytes.len() == pairs && bytes.iter().all(|&bytes| bytes >= MIB as u64);
            assert!(is_shared, "{} {:?}: {bytes:?}", leg.way.driver, leg.sender);
        });
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn loss_costs_time_and_no_byte() {
    wire();
    // What TCP hands over in one piece netem loses in one piece: then there would be few to lose.
    let pieces = |most: &str| {
        [End::Near, End::Far]
            .map(|end| ip(&format!("link set {} gso_max_segs {most}", end.interface())))
    };
    if is_iwarp() {
        pieces("1");
    }
    // 48 MiB are 12,288 packets: that none is lost has a probability of 5e-6. What connects RoCE is
    // not to be lost: rdma_cm asks again after 4 s only, and the copy goes by TCP.
    let drivers =
        if is_iwarp() { ["rdma:2", "rdma:4"] } else { ["rdma:2:exchange", "rdma:4:exchange"] };
    let ways = ["delay 1ms loss 0.1%", "delay 5ms loss 0.1%"];
    let ways =
        [CopyCase::through(ways[0], drivers[0], 48), CopyCase::through(ways[1], drivers[1], 48)];
    goes_there_and_back(&ways, |leg| {
        let again = leg.carried.again();
        let said = format!(
            "{} {:?}: {} lost, {} missed, {again} again",
            leg.way.weather, leg.sender, leg.lost, leg.missed
        );
        // Whoever misses a packet of RoCE is sent everything from it on; TCP sends what is missing
        // alone.
        assert!(leg.lost > 0 && leg.missed > 0 && (is_iwarp() || again > 0), "{said}");
    });
    if is_iwarp() {
        pieces("65535");
    }
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn over_163_ms_a_late_acknowledgement_resends_nothing() {
    let far = |driver| CopyCase::through("delay 81.5ms", driver, 24);
    let ways = [far("rdma"), far("rdma:8:exchange"), far("rdma:8:read")];
    let ways: Vec<CopyCase> =
        ways.into_iter().filter(|way| !(is_iwarp() && way.driver.contains("exchange"))).collect();
    goes_there_and_back(&ways, |leg| {
        // A timeout of less than a round trip repeats all of it; a guest that was not run for a
        // second repeats some.
        let (again, packets) = (leg.carried.again(), leg.way.blocks * MIB / 4_096);
        assert!(
            leg.lost == 0 && again <= packets / 50,
            "{} {:?}: {again} of {packets}",
            leg.way.driver,
            leg.sender
        );
        assert!(leg.carried.pairs.len() > 4, "eight beyond 20 ms: {}", leg.carried.pairs.len());
    });
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn by_exchange_a_file_goes_both_ways_with_the_smaller_mtu() {
    if is_iwarp() {
        farline_lab::skip("iWARP is connected by rdma_cm alone, and its packets are TCP's");
        return;
    }
    let ways = [
        CopyCase::by("rdma:1:exchange"),
        CopyCase { mtu: (1_500, 1_024), ..CopyCase::by("rdma:4:exchange") },
    ];
    goes_there_and_back(&ways, |_| {});
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn iwarp_connects_by_rdma_cm_alone_and_learns_the_path() {
    if !is_iwarp() {
        farline_lab::skip("these devices are soft-RoCE");
        return;
    }
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    plant(&source, MIB);
    let (_node, url) = far_node(&dir.path().join("root"), &[]);
    let wish = [
        "--json",
        "cp",
        "--channel",
        "rdma:1:exchange",
        source.to_str().expect("UTF-8"),
        &format!("{url}/there"),
    ];
    let said = by_tcp_instead(farline().args(wish));
    assert!(
        said.contains("iWARP is connected by rdma_cm alone")
            && said.contains("leave `:exchange` out"),
        "{said}"
    );
    goes_there_and_back(&[CopyCase { mtu: (1_500, 1_448), ..CopyCase::by("rdma:1") }], |_| {});
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn by_rdma_read_a_file_goes_both_ways_however_connected() {
    let mut ways = vec![CopyCase::by("rdma:1:read"), CopyCase::by("rdma:4:read")];
    if !is_iwarp() {
        ways.push(CopyCase { mtu: (1_500, 1_024), ..CopyCase::by("rdma:2:exchange:read") });
    }
    goes_there_and_back(&ways, |_| {});
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn a_tree_goes_by_rdma_over_two_channels() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("tree");
    farline_lab::plant(&source);
    let (_node, url) = far_node(&dir.path().join("root"), &[]);
    copy(&[
        "-r",
        "--streams",
        "2",
        "--channel",
        "rdma:2",
        source.to_str().expect("UTF-8"),
        &format!("{url}/"),
    ]);
    farline_lab::assert_same_tree(&source, &dir.path().join("root/tree"));
}
