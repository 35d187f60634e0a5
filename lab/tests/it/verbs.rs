//! `farline profile --channel rdma`: what it says where it cannot measure; and, between two devices
//! of soft-RoCE, or with GUEST_RDMA=siw of soft-iWARP, in a guest of `lab/guest` (`make lab`), that
//! connections, reads and datagrams are measured, that delay costs what it must, and that the
//! devices counted it.

use farline_lab::{error_of, farline, json_of, succeed};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Once;

#[test]
fn what_cannot_be_measured_is_refused_with_what_to_do_instead() {
    let refused: [(&[&str], &str, &str); 8] = [
        (&["--preset", "sc08-cm"], "profile-preset", "--channel rdma"),
        (&["--message-size", "64"], "profile-channel", "--channel rdma"),
        (&["--channel", "rdma", "--simulate"], "profile-channel", "leave --simulate out"),
        (&["--channel", "rdma", "--preset", "sc08-tcp-rdma"], "profile-channel", "modelled only"),
        (&["--channel", "rdma", "--streams", "4"], "profile-channel", "--message-size"),
        (
            &["--channel", "rdma", "--transport", "ud", "--message-size", "4KiB"],
            "profile-channel",
            "2KiB",
        ),
        (&["--channel", "rdma", "--ends", "10.9.1.1"], "profile-devices", "--ends"),
        (&["--channel", "rdma", "node.example.org"], "profile-channel", "farline cp"),
    ];
    for (arguments, code, hint) in refused {
        let arguments = [&["profile"][..], arguments].concat();
        let (error, exit) = error_of(&arguments);
        assert_eq!((error["code"].as_str(), exit), (Some(code), 2), "{arguments:?}: {error}");
        assert!(
            error["hint"].as_str().is_some_and(|found| found.contains(hint)),
            "{arguments:?}: {error}"
        );
    }
}

#[test]
fn without_a_device_a_measurement_says_so_and_how_to_make_one() {
    if std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some())
    {
        farline_lab::skip("this host has an RDMA device");
        return;
    }
    let (error, exit) = error_of(&["profile", "--channel", "rdma"]);
    assert_eq!((error["code"].as_str(), exit), (Some("no-rdma"), 3), "{error}");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("rdma link add")), "{error}");
}

/// Two devices with a wire between them, once for all tests of this process.
fn wire() {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        succeed(
            Command::new("lab/verbs").current_dir(
                Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository"),
            ),
        );
    });
}

fn is_iwarp() -> bool {
    std::env::var_os("GUEST_RDMA").is_some_and(|kind| kind == "siw")
}

fn measured(arguments: &[&str]) -> Value {
    json_of(
        farline()
            .args(["--json", "profile", "--channel", "rdma", "--repetitions", "1"])
            .args(arguments),
    )
}

/// Each cell with its valid run.
fn runs(document: &Value) -> Vec<(&Value, &Value)> {
    let valid = |cell: &Value| {
        cell["measured"]
            .as_array()
            .and_then(|runs| runs.iter().position(|run| run["invalid"].is_null()))
    };
    let cells = document["cells"].as_array().expect("cells").iter();
    cells
        .map(|cell| {
            (
                &cell["cell"],
                &cell["measured"][valid(cell).unwrap_or_else(|| panic!("no valid run: {cell}"))],
            )
        })
        .collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn connections_reads_and_datagrams_take_a_trip_per_window() {
    wire();
    let dir = tempfile::tempdir().expect("a folder");
    let page = dir.path().join("page.html");
    let (transports, names) =
        if is_iwarp() { ("rc,read", ["sia", "sib"]) } else { ("rc,read,ud", ["rxa", "rxb"]) };
    let arguments =
        ["--message-size", "64,2KiB", "--transport", transports, "--rtt", "0ms,100ms", "-o"];
    let document = measured(&[&arguments[..], &[page.to_str().expect("UTF-8")]].concat());
    assert_eq!(["near", "far"].map(|end| document["between"][end]["name"].clone()), names);
    let throughput = |transport: &str, size: u64, rtt: u64| {
        let found = runs(&document);
        let of = |cell: &Value| {
            cell["transport"] == transport
                && cell["size_bytes"] == size
                && cell["path"]["rtt_ns"] == rtt * 1_000_000
        };
        number(&found.iter().find(|(cell, _)| of(cell)).expect("a cell").1["throughput_bps"])
    };
    for (cell, run) in runs(&document) {
        // Who reads sends requests and receives bytes; the others send them. Soft-iWARP counts no
        // packets.
        let counted = is_iwarp() || (0..2).all(|end| number(&run["packets"][end]) > 0.0);
        assert!(number(&run["throughput_bps"]) > 0.0 && counted, "{cell}: {run}");
    }
    for size in [64, 2_048] {
        // At most 100 messages on their way: so many in a round trip, and no more. Over iWARP TCP
        // has taken what is completed, and more follows.
        let window = 100.0 * size as f64 * 8.0 / 0.1;
        let far = throughput("rc", size, 100);
        assert!(is_iwarp() || far <= window * 1.01, "{size} B: {far}, at most {window}");
        assert!(throughput("rc", size, 0) > throughput("rc", size, 100), "{size} B");
        assert!(throughput("read", size, 0) > throughput("read", size, 100), "{size} B");
    }
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(
        html.contains("Where it was measured")
            && html.contains("100ms, measured")
            && html.contains("100ms, modelled")
    );
    let left = succeed(Command::new("tc").args(["qdisc", "show", "dev", "va"]));
    assert!(!left.contains("netem"), "the delay goes with the measurement: {left}");
}

#[test]
#[ignore = "needs two RDMA devices: make lab"]
fn cm_and_exchange_carry_messages_and_take_the_paths_time() {
    wire();
    let connect = if is_iwarp() { "cm" } else { "cm,exchange" };
    let ways = [
        "--way",
        "both-ways,round-trip",
        "--connect",
        connect,
        "--message-size",
        "512",
        "--rtt",
        "40ms",
    ];
    let document = measured(&ways);
    assert_eq!(runs(&document).len(), if is_iwarp() { 2 } else { 4 });
    for (cell, run) in runs(&document) {
        assert!(number(&run["connect_ns"]) > 40e6, "connecting takes a round trip at least: {run}");
        if cell["way"] == "round-trip" {
            assert!(number(&run["round_trip_ns"]) > 40e6, "{run}");
        } else {
            assert!(number(&run["throughput_bps"]) > 0.0, "{run}");
        }
    }
    if is_iwarp() {
        let refused = measured(&["--connect", "exchange", "--message-size", "512"]);
        assert!(
            refused["cells"][0]["measured"][0]["invalid"]
                .to_string()
                .contains("only rdma_cm connects"),
            "{refused}"
        );
        return;
    }
    let datagrams =
        measured(&["--transport", "ud", "--way", "both-ways,round-trip", "--message-size", "1KiB"]);
    assert!(
        runs(&datagrams).iter().all(|(_, run)| run["packets"][0].as_u64() > Some(0)),
        "{datagrams}"
    );
}
