//! The causes, each at three strengths: over the link, on loopback, and of copies between two
//! nodes.

use super::{Cause, DataDirection, Means};

const MIB: u64 = 1 << 20;

/// A path of 1 Gbit/s and 40 ms, with more options.
fn gigabit(more: &[&str]) -> Vec<String> {
    path("1G", "40ms", more)
}

fn path(rate: &str, rtt: &str, more: &[&str]) -> Vec<String> {
    ["custom", "--rate", rate, "--rtt", rtt].iter().chain(more).map(|&s| s.to_owned()).collect()
}

/// Makes a store slow, by options of one end.
type Slow = fn(&'static [&'static str]) -> Means;

/// What a copy is, and what holds it back, from the weakest.
type Cases = [(Vec<String>, DataDirection, u64, Means); 3];

/// Adds a cause of `party` at three strengths.
fn add(all: &mut Vec<Cause>, limit: &'static str, party: &'static str, cases: Cases) {
    for (strength, (link, way, size, means)) in cases.into_iter().enumerate() {
        all.push(Cause { limit, party, strength, link, way, size, means });
    }
}

/// The fourteen causes, each at three strengths: over the link, on loopback where they can be
/// there, and of copies between two nodes.
pub fn causes() -> Vec<Cause> {
    let mut all = over_the_link();
    all.extend(on_loopback());
    all.extend(between_nodes());
    all
}

fn over_the_link() -> Vec<Cause> {
    let mut all = Vec::new();
    let mut add = |limit, party, cases| add(&mut all, limit, party, cases);
    let wide = || path("300M", "20ms", &[]);
    add(
        "rate_limit",
        "you",
        [
            (wide(), DataDirection::Out, 40 * MIB, Means::Options(&["--limit", "200M"])),
            (wide(), DataDirection::Back, 20 * MIB, Means::Options(&["--limit", "100M"])),
            (wide(), DataDirection::Out, 8 * MIB, Means::Options(&["--limit", "30M"])),
        ],
    );
    add(
        "send_buffer",
        "you",
        [
            (
                gigabit(&[]),
                DataDirection::Out,
                40 * MIB,
                Means::Options(&["--buffer", "512KiB", "--streams", "1"]),
            ),
            (
                gigabit(&[]),
                DataDirection::Out,
                20 * MIB,
                Means::Options(&["--buffer", "256KiB", "--streams", "1"]),
            ),
            (
                gigabit(&[]),
                DataDirection::Out,
                16 * MIB,
                Means::Options(&["--buffer", "64KiB", "--streams", "1"]),
            ),
        ],
    );
    add(
        "receiver_window",
        "there",
        [
            (gigabit(&[]), DataDirection::Out, 60 * MIB, Means::Buffer(MIB)),
            (gigabit(&[]), DataDirection::Out, 30 * MIB, Means::Buffer(MIB / 2)),
            (gigabit(&[]), DataDirection::Out, 10 * MIB, Means::Buffer(MIB / 8)),
        ],
    );
    let cubic = |streams| match streams {
        1 => Means::Options(&["--congestion", "cubic", "--streams", "1"]),
        _ => Means::Options(&["--congestion", "cubic", "--streams", "2"]),
    };
    let lossy = |loss: &str, mtu: &str| gigabit(&["--loss", loss, "--mtu", mtu]);
    add(
        "loss",
        "path",
        [
            // Long enough that the window's growth until the first loss is no great part of it,
            // however late that comes.
            (lossy("2e-3", "1500"), DataDirection::Out, 40 * MIB, cubic(2)),
            (lossy("5e-3", "1500"), DataDirection::Back, 16 * MIB, cubic(2)),
            (lossy("1e-2", "1500"), DataDirection::Out, 4 * MIB, cubic(1)),
        ],
    );
    add(
        "path_rate",
        "path",
        [
            (path("600M", "20ms", &[]), DataDirection::Out, 200 * MIB, Means::Path),
            (path("300M", "20ms", &[]), DataDirection::Back, 100 * MIB, Means::Path),
            (path("100M", "20ms", &[]), DataDirection::Out, 40 * MIB, cubic(2)),
        ],
    );
    let far = || path("1G", "160ms", &[]);
    add(
        "slow_start",
        "path",
        [
            (far(), DataDirection::Out, 40 * MIB, Means::Path),
            (far(), DataDirection::Out, 24 * MIB, Means::Path),
            (far(), DataDirection::Back, 16 * MIB, Means::Path),
        ],
    );
    let readers: [(_, _, Slow); 2] = [
        ("here", DataDirection::Out, Means::Options),
        ("there", DataDirection::Back, Means::NodeOptions),
    ];
    for (party, way, means) in readers {
        let read = |rate: &'static [&'static str], mib| (gigabit(&[]), way, mib * MIB, means(rate));
        add(
            "disk_read",
            party,
            [
                read(&["--trial-read", "300M"], 60),
                read(&["--trial-read", "100M"], 30),
                read(&["--trial-read", "20M"], 8),
            ],
        );
    }
    let writers: [(_, _, Slow); 2] = [
        ("there", DataDirection::Out, Means::NodeOptions),
        ("here", DataDirection::Back, Means::Options),
    ];
    for (party, way, means) in writers {
        let write =
            |rate: &'static [&'static str], mib| (gigabit(&[]), way, mib * MIB, means(rate));
        // Longer than a staging pool and the windows hold.
        add(
            "disk_write",
            party,
            [
                write(&["--trial-write", "400M"], 200),
                write(&["--trial-write", "300M"], 250),
                write(&["--trial-write", "100M"], 150),
            ],
        );
    }
    add(
        "pipe_read",
        "here",
        [
            (gigabit(&[]), DataDirection::Out, 40 * MIB, Means::Feeder(20 * MIB)),
            (gigabit(&[]), DataDirection::Out, 20 * MIB, Means::Feeder(10 * MIB)),
            (gigabit(&[]), DataDirection::Out, 4 * MIB, Means::Feeder(2 * MIB)),
        ],
    );
    add(
        "pipe_write",
        "here",
        [
            (gigabit(&[]), DataDirection::Back, 200 * MIB, Means::Taker(40 * MIB)),
            (gigabit(&[]), DataDirection::Back, 150 * MIB, Means::Taker(30 * MIB)),
            (gigabit(&[]), DataDirection::Back, 60 * MIB, Means::Taker(20 * MIB)),
        ],
    );
    add(
        "cpu",
        "here",
        [
            (Vec::new(), DataDirection::Out, 1024 * MIB, Means::Neighbours(3)),
            (Vec::new(), DataDirection::Back, 512 * MIB, Means::Neighbours(6)),
            (Vec::new(), DataDirection::Out, 256 * MIB, Means::Neighbours(12)),
        ],
    );
    add(
        "peer",
        "there",
        [
            (Vec::new(), DataDirection::Out, 1024 * MIB, Means::NodesNeighbours(3)),
            (Vec::new(), DataDirection::Back, 512 * MIB, Means::NodesNeighbours(6)),
            (Vec::new(), DataDirection::Out, 256 * MIB, Means::NodesNeighbours(12)),
        ],
    );
    add(
        "set_up",
        "path",
        [
            (far(), DataDirection::Out, 20_000, Means::Path),
            (far(), DataDirection::Out, 4_000, Means::Path),
            (far(), DataDirection::Back, 10, Means::Path),
        ],
    );
    outages(&mut all);
    all
}

/// The link lets nothing through for a while in the middle of a copy, or the node is not there.
fn outages(all: &mut Vec<Cause>) {
    let away = |seconds: u64| {
        let event = format!("2s:outage={seconds}s");
        path("300M", "20ms", &["--at", &event])
    };
    let (out, back) = (DataDirection::Out, DataDirection::Back);
    let cases = [
        (away(4), out, 120 * MIB, Means::Path),
        (away(6), back, 120 * MIB, Means::Path),
        (away(9), out, 100 * MIB, Means::Path),
    ];
    add(all, "outage", "path", cases);
    let gone = |way, seconds| (path("300M", "20ms", &[]), way, 100 * MIB, Means::NodeAway(seconds));
    add(all, "outage", "there", [gone(out, 4), gone(back, 6), gone(out, 9)]);
}

fn on_loopback() -> Vec<Cause> {
    let mut all = Vec::new();
    let mut add = |limit, party, way, cases: [(u64, Means); 3]| {
        let cases = cases.map(|(mib, means)| (Vec::new(), way, mib * MIB, means));
        add(&mut all, limit, party, cases);
    };
    let (out, back) = (DataDirection::Out, DataDirection::Back);
    let (ours, nodes): (Slow, Slow) = (Means::Options, Means::NodeOptions);
    add(
        "rate_limit",
        "you",
        out,
        [
            (400, ours(&["--limit", "2G"])),
            (150, ours(&["--limit", "800M"])),
            (40, ours(&["--limit", "200M"])),
        ],
    );
    for (party, way, means) in [("here", out, ours), ("there", back, nodes)] {
        let read = [
            (250, means(&["--trial-read", "1G"])),
            (100, means(&["--trial-read", "400M"])),
            (30, means(&["--trial-read", "100M"])),
        ];
        add("disk_read", party, way, read);
    }
    for (party, way, means) in [("there", out, nodes), ("here", back, ours)] {
        let write = [
            (500, means(&["--trial-write", "1G"])),
            (250, means(&["--trial-write", "400M"])),
            (100, means(&["--trial-write", "200M"])),
        ];
        add("disk_write", party, way, write);
    }
    let feeder = [50, 20, 4].map(|rate| (rate * 2, Means::Feeder(rate * MIB)));
    add("pipe_read", "here", out, feeder);
    let taker = [60, 40, 20].map(|rate| (rate * 4, Means::Taker(rate * MIB)));
    add("pipe_write", "here", back, taker);
    all
}

/// Between two nodes at the ends of a link, of which neither is the host that asks: what can hold
/// back the one that sends, the one that receives, or the path.
fn between_nodes() -> Vec<Cause> {
    let between = |cause: Cause| {
        let means = match (cause.limit, cause.party, cause.means) {
            ("disk_read", "there", Means::NodeOptions(options)) => Means::SenderOptions(options),
            ("disk_write", "there", means)
            | (
                "rate_limit" | "receiver_window" | "path_rate" | "loss" | "slow_start" | "set_up",
                _,
                means,
            ) => means,
            _ => return None,
        };
        Some(Cause { way: DataDirection::Between, means, ..cause })
    };
    over_the_link().into_iter().filter_map(between).collect()
}
