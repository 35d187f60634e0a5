//! Whole Ethernet frames over emulated links whose trouble is known, and `farline line --ethernet`
//! over them: what it says is what was put in, and what an end drops itself is never the line's.

use farline_lab::ordinary::Ordinary;
use farline_lab::{
    Brief, LinkUp, Namespaces, Running, error_of, error_of_command, farline, farline_binary,
    json_of, skip,
};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Side b's hardware address.
pub(crate) const THERE: &str = "02:00:00:77:00:02";

/// A line test's document, whatever its verdict: a busy machine is not fit to say.
fn document(command: &mut Command) -> Brief {
    let document = Brief::of(&command.output().expect("farline runs"));
    assert_eq!(document["schema"], "farline/line/1", "{document}");
    document
}

/// A test over a link of Ethernet by its name.
fn tested(link: &LinkUp, more: &[&str]) -> Brief {
    let mut command = farline();
    command.args(["--json", "-q", "line", link.name(), "--ethernet", "wan0"]);
    document(command.args(more))
}

pub(crate) fn count(document: &Brief, part: &str, key: &str) -> u64 {
    document[part][key].as_u64().unwrap_or_else(|| panic!("no {key} in {part}: {document}"))
}

/// Frames that left this host.
fn sent(document: &Brief) -> u64 {
    count(document, "sender", "frames") - count(document, "sender", "own_drops")
}

/// Those that the line lost.
fn lost(document: &Brief) -> u64 {
    sent(document) - count(document, "totals", "received") - count(document, "totals", "own_drops")
}

fn min_rtt_ms(document: &Brief) -> f64 {
    document["rtt"]["min_ns"].as_f64().unwrap_or_else(|| panic!("no rtt: {document}")) / 1e6
}

/// What a link was offered from a to b, what its model dropped of that, and what its device dropped
/// before.
fn counted(link: &LinkUp) -> [u64; 3] {
    let stats = json_of(farline().args(["--json", "link", "stats", link.name()]));
    let there = &stats["a_to_b"];
    let of = |key: &str| there["model"][key].as_u64().expect("a count");
    let dropped = of("dropped_queue") + of("dropped_loss");
    [of("frames"), dropped, there["overrun"].as_u64().expect("a count")]
}

#[test]
fn frames_and_vlans_meet_what_was_put_into_the_link() {
    let trouble = ["--loss", "0.01,0", "--flips", "0.003,0", "--vlan", "3001=60M,4ms"];
    let mut arguments = vec!["custom", "--rtt", "40ms", "--rate", "100M", "--ethernet"];
    arguments.extend(trouble);
    let Some(link) = LinkUp::up("t-eth", &arguments) else { return };
    for (more, rtt, vlan) in [(&[][..], 40.0, None), (&["--vlan", "3001:5"], 8.0, Some(3_001))] {
        let asked = ["--rate", "40M", "--for", "2s"];
        let document = tested(&link, &[&asked[..], more].concat());
        assert_eq!(document["settings"]["ethernet"]["vlan"].as_u64(), vlan);
        let (sent, received) =
            (sent(&document) as f64, count(&document, "totals", "received") as f64);
        // Four standard deviations of a part of 0.01.
        let (loss, noise) = (lost(&document) as f64 / sent, 4.0 * (0.0099 / sent).sqrt());
        assert!(sent > 1_000.0 && (loss - 0.01).abs() < noise, "{loss} of {sent}");
        let wrong = count(&document, "totals", "wrong_bits") as f64 / received;
        assert!((0.001..0.006).contains(&wrong), "{wrong} of the frames have a flipped bit");
        let least = min_rtt_ms(&document);
        assert!((rtt..rtt + 10.0).contains(&least), "{least} ms over a path of {rtt}");
    }
}

#[test]
fn of_a_flood_each_lost_frame_has_its_place() {
    let arguments = ["custom", "--rtt", "2ms", "--rate", "300M", "--loss", "0.02,0", "--ethernet"];
    let Some(link) = LinkUp::up("t-eth-raw", &arguments) else { return };
    let mut command = farline();
    command.args(["--json", "-q", "line", "raw", link.name(), "--sizes", "1024", "--for", "1s"]);
    let raw = json_of(&mut command);
    assert_eq!(raw["schema"], "farline/line-raw/1", "{raw}");
    let row = &raw["rows"][0];
    let of = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("no {key}: {row}"));
    let [offered, model, device] = counted(&link);
    assert!(of("received") > 1_000 && of("sent") > of("received"), "{row}");
    assert_eq!((of("message_bytes"), of("wrong_bits")), (1_006, 0));
    // Questions, STAMP packets and the kernel's own are dropped too; there are so many of them.
    let others = offered + device - of("sent");
    assert!(others < 400, "{others} of {offered}");
    assert!(model.checked_sub(of("lost")) <= Some(others), "{model} by the model: {row}");
    assert!(of("lost") <= model && of("lost") > model / 2, "{model} by the model: {row}");
    assert!(device.checked_sub(of("sender_drops")) <= Some(others), "{device}: {row}");
    assert!(of("sender_drops") <= device, "{device} dropped by the device: {row}");
    assert!(row["sender_cpu_seconds"].as_f64() > Some(0.0), "{row}");
}

/// Frames that the device of the other namespace took from an XDP program.
fn taken_from_xdp(spaces: &Namespaces) -> u64 {
    let mut command = spaces.run_there(Path::new("ethtool"));
    let said = command.args(["-S", "v"]).output().expect("ethtool runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let counts = said.lines().filter_map(|line| line.trim().split_once("_xdp_packets: "));
    counts.map(|(_, count)| count.parse::<u64>().expect("a count")).sum()
}

#[test]
fn a_flood_made_within_the_kernel_is_counted_whole() {
    let Some(spaces) = Namespaces::pair("t-flood") else { return };
    if Command::new("ethtool").arg("--version").output().is_err() {
        return skip("ethtool makes a veth device take frames of XDP");
    }
    spaces.there(&format!("ip link set v address {THERE}"));
    // Without the rights for a program at its device the reflector has its ring alone.
    let mut far = spaces.run_there(Path::new("setpriv"));
    far.arg("--bounding-set=-all,+net_raw").arg(farline_binary());
    let (_far, _) = Running::begun(far.args(["--json", "line", "reflect", "--ethernet", "v"]));
    let raw = |more: &[&str]| {
        let mut command = spaces.run_here(&farline_binary());
        command.args(["--json", "-q", "line", "raw", THERE, "--ethernet", "v", "--for", "1s"]);
        json_of(command.args(more))["rows"].clone()
    };
    // Without GRO a veth device takes no such frames, and each is sent by a system call.
    spaces.there("ethtool -K v gro off");
    let slow = raw(&["--sizes", "64"]);
    assert!(slow[0]["received"].as_u64() > Some(1_000), "{slow}");
    assert_eq!((slow[0]["wrong_bits"].as_u64(), taken_from_xdp(&spaces)), (Some(0), 0), "{slow}");
    spaces.there("ethtool -K v gro on");
    for vlan in [&[][..], &["--vlan", "7:3"]] {
        let before = taken_from_xdp(&spaces);
        let rows = raw(&[&["--sizes", "64,1518"][..], vlan].concat());
        let rows = rows.as_array().expect("rows");
        let of = |row: &Value, key: &str| row[key].as_u64().expect("a count");
        for row in rows {
            assert!(of(row, "sent") > 10_000 && of(row, "received") > 1_000, "{row}");
            assert_eq!((of(row, "lost"), of(row, "wrong_bits")), (0, 0), "{row}");
            let known = of(row, "received") + of(row, "sender_drops") + of(row, "receiver_drops");
            // Of what found no room in the ring, a few are questions and STAMP packets.
            assert!((of(row, "sent")..of(row, "sent") + 400).contains(&known), "{row}");
        }
        let left: u64 = rows.iter().map(|row| of(row, "sent") - of(row, "sender_drops")).sum();
        // One frame before each test shows whether the device takes them.
        assert_eq!(taken_from_xdp(&spaces) - before, left + rows.len() as u64, "{rows:?}");
    }
}

#[test]
fn two_senders_into_one_port_share_what_it_carries() {
    let arguments = ["custom", "--rtt", "2ms", "--rate", "60M", "--queue", "64KiB", "--ethernet"];
    let Some(link) = LinkUp::up("t-eth-two", &arguments) else { return };
    let listen = ["--json", "line", "reflect", "--ethernet", "wan0"];
    let (_far, _) = Running::begun(&mut link.farline("b", &listen));
    let begun = [0, 1].map(|_| {
        let mut test = link.farline("a", &["--json", "-q", "line", THERE, "--ethernet", "wan0"]);
        test.args(["--rate", "50M", "--for", "3s", "--frames", "1518", "--burst", "1"]);
        test.stdout(Stdio::piped()).spawn().expect("farline runs")
    });
    let documents = begun.map(|test| Brief::of(&test.wait_with_output().expect("it ends")));
    let sum = |of: &dyn Fn(&Brief) -> u64| documents.iter().map(of).sum::<u64>();
    // 100 Mbit/s into a port of 60, or less on a busy machine; with preamble and gap.
    let came = sum(&|document| count(document, "totals", "received")) as f64 * 1_538.0 * 8.0;
    assert!((30e6..66e6).contains(&(came / 3.0)), "{} Mbit/s", came / 3e6);
    let (lost, [_, model, _]) = (sum(&lost), counted(&link));
    assert!(lost > 100, "{lost} lost");
    assert!(lost.abs_diff(model) <= 20 + model / 20, "{lost} lost, {model} by the model");
}

#[test]
fn devices_and_addresses_that_are_none_are_clear_words() {
    let refused = |arguments: &[&str], code: &str, exit: i32, word: &str| {
        let (error, status) = error_of(arguments);
        let said = error.to_string();
        assert_eq!((error["code"].as_str(), status), (Some(code), exit), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    };
    let by = |device, more: &[&'static str]| -> Vec<&'static str> {
        [&["line", THERE, "--ethernet", device][..], more].concat()
    };
    refused(&by("nosuch0", &[]), "line-device", 2, "nosuch0");
    refused(&by("lo", &[]), "line-device", 2, "not Ethernet's");
    refused(&["line", "dtn2", "--ethernet", "lo"], "line-device", 2, "dtn2");
    refused(&["line", "ff:ff:ff:ff:ff:ff", "--ethernet", "lo"], "line-device", 2, "one device");
    refused(&["line", THERE, "--vlan", "5"], "usage", 2, "--ethernet");
    refused(&by("lo", &["--vlan", "4095"]), "usage", 2, "4094");
    refused(&["line", "raw", THERE], "line-device", 2, "--ethernet DEV");
    refused(&["line", "reflect", "--ethernet", "nosuch0"], "line-device", 2, "nosuch0");
    let link = ["link", "up", "custom", "--rtt", "1ms", "--ethernet", "--vlan", "5=1G"];
    refused(&[&link[..], &["--vlan", "5=2G"]].concat(), "link-setting", 2, "twice");
    let packets = ["custom", "--rtt", "1ms", "--rate", "10M"];
    let Some(link) = LinkUp::up("t-eth-none", &packets) else { return };
    refused(&["line", link.name(), "--ethernet", "wan0"], "line-device", 2, "--ethernet");
    drop(link);
    let small = ["custom", "--rtt", "1ms", "--mtu", "1500", "--ethernet"];
    let Some(link) = LinkUp::up("t-eth-mtu", &small) else { return };
    let asked = ["line", link.name(), "--ethernet", "wan0", "--frames", "9252"];
    refused(&asked, "line-frames", 2, "1500");
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give up capabilities one by one");
    }
    let user = Ordinary::new();
    let mut command = link.command("a", "setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]);
    command.arg(user.farline().get_program());
    command.args(["--json", "line", THERE, "--ethernet", "wan0"]);
    let (error, code) = error_of_command(&mut command);
    assert_eq!((error["code"].as_str(), code), (Some("line-device"), 3), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("may not")), "{error}");
}
