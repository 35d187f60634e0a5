//! Frames without a pace, which a reflector takes past the kernel's packet buffers where it may,
//! and by its ring where not: by both ways it finds what was put in, and what it drops itself is
//! never the line's.

use farline_core::line::{
    EthernetFraming, FrameMix, LineAnswer, LineRequest, LoadWriter, Pattern, SettledFrames,
    TallyTotals, read_message,
};
use farline_lab::{Brief, Namespaces, Running, farline_binary, json_of, skip};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const HERE: [u8; 6] = [2, 0, 0, 0x77, 0, 1];
const THERE: [u8; 6] = [2, 0, 0, 0x77, 0, 2];

/// How a reflector takes a flood.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReceivePath {
    PastBuffers,
    Ring,
}

const RECEIVE_PATHS: [ReceivePath; 2] = [ReceivePath::PastBuffers, ReceivePath::Ring];

fn text(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// Two ends whose devices have the addresses above; `None` where a test cannot have them.
fn ends(name: &str) -> Option<Namespaces> {
    for program in ["ethtool", "setpriv", "python3"] {
        if Command::new(program).arg("--version").output().is_err() {
            skip(format!("{name} needs {program}"));
            return None;
        }
    }
    let spaces = Namespaces::pair(name)?;
    spaces.here(&format!("ip link set v address {} mtu 9234", text(HERE)));
    spaces.there(&format!("ip link set v address {} mtu 9234", text(THERE)));
    spaces.there("ethtool -K v gro on");
    Some(spaces)
}

/// A reflector at the other end, which without the rights for BPF has its ring alone.
fn reflector(spaces: &Namespaces, way: ReceivePath, more: &[&str]) -> Running {
    let mut command = match way {
        ReceivePath::PastBuffers => spaces.run_there(&farline_binary()),
        ReceivePath::Ring => {
            let mut command = spaces.run_there(Path::new("setpriv"));
            command.arg("--bounding-set=-all,+net_raw").arg(farline_binary());
            command
        }
    };
    Running::begun(command.args(["--json", "line", "reflect", "--ethernet", "v"]).args(more)).0
}

/// What the device there counts of its queues under this name.
fn counted(spaces: &Namespaces, what: &str) -> u64 {
    let said = spaces.run_there(Path::new("ethtool")).args(["-S", "v"]).output();
    let said = String::from_utf8_lossy(&said.expect("ethtool runs").stdout).into_owned();
    let lines = said.lines().filter_map(|line| line.trim().split_once(": "));
    let of = lines.filter(|(name, _)| name.starts_with("rx_queue_") && name.ends_with(what));
    of.map(|(_, count)| count.parse::<u64>().expect("a count")).sum()
}

fn raw(spaces: &Namespaces, more: &[&str]) -> Command {
    let mut command = spaces.run_here(&farline_binary());
    command.args(["--json", "-q", "line", "raw", &text(THERE), "--ethernet", "v"]).args(more);
    command
}

fn of(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("no {key}: {row}"))
}

/// The tester's end, by hand.
struct Tester {
    process: Child,
    frames: ChildStdin,
    answers: BufReader<ChildStdout>,
    header: Vec<u8>,
}

impl Tester {
    fn begin(spaces: &Namespaces, tag: Option<u16>, session: u64) -> Tester {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/frame_pipe.py");
        let mut command = spaces.run_here(Path::new("python3"));
        let command = command.arg(script).arg("v").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python runs");
        let tag = tag.map_or(Vec::new(), |tag| [[0x81, 0], tag.to_be_bytes()].concat());
        let (kind, stream) = (EthernetFraming::KIND.to_be_bytes(), [0x12, session as u8]);
        let mut tester = Tester {
            frames: process.stdin.take().expect("piped"),
            answers: BufReader::new(process.stdout.take().expect("piped")),
            process,
            header: [&THERE[..], &HERE, &tag, &kind, &stream].concat(),
        };
        let LineAnswer::Cookie { cookie, .. } = tester.ask(&LineRequest::Hello { nonce: 1 }) else {
            panic!("no cookie");
        };
        let rate_bps = u64::MAX;
        let begin = LineRequest::Begin { nonce: 2, cookie, session, rate_bps, at_us: 0 };
        let begun = tester.ask(&begin);
        assert!(matches!(begun, LineAnswer::Begun { .. }), "{begun:?}");
        tester
    }

    fn send(&mut self, payload: &[u8]) {
        let frame = [&self.header, payload].concat();
        let line: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.frames, "{line}").expect("it reads");
    }

    fn ask(&mut self, request: &LineRequest) -> LineAnswer {
        self.send(&request.bytes());
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).expect("text") > 0, "no answer: {request:?}");
            // The kernel takes the tag away, or leaves it.
            let bytes: Vec<u8> = (0..line.trim().len() / 2)
                .map(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).expect("hexadecimal"))
                .collect();
            let answer = [16, 20].iter().find_map(|at| read_message(bytes.get(*at..)?));
            if let Some(answer) = answer {
                return answer;
            }
        }
    }
}

impl Drop for Tester {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Frames with known trouble, and what a reflector says of them.
fn with_trouble(spaces: &Namespaces, tag: Option<u16>, session: u64, sizes: &[u32]) -> TallyTotals {
    let mut tester = Tester::begin(spaces, tag, session);
    let kinds: Vec<_> =
        sizes.iter().map(|size| FrameMix::fixed(*size, Pattern::Cjpat).turn[0]).collect();
    let mut writer = LoadWriter::new(session, 0);
    let mut held = None;
    for n in 0..1_000_u32 {
        let kind = kinds[n as usize % kinds.len()];
        let mut payload = vec![0; EthernetFraming::payload_bytes(kind)];
        writer.write(kind, u64::from(n), false, &mut payload);
        match n {
            // Lost: one, and three in a row.
            100 | 200..203 => continue,
            // One bit, of the last byte, of the first, and of the number.
            300 => *payload.last_mut().expect("a byte") ^= 0x10,
            301 => payload[0] ^= 0x80,
            302 => payload[7] ^= 1,
            // Comes again.
            400 => tester.send(&payload),
            // Comes behind the next two.
            500 => {
                held = Some(payload);
                continue;
            }
            _ => {}
        }
        tester.send(&payload);
        if n == 502 {
            tester.send(&held.take().expect("it was held"));
        }
    }
    let (sent, settled) = (Some(1_000), SettledFrames::default());
    let totals = LineRequest::Totals { nonce: 3, session, sent, settled };
    let LineAnswer::Totals { totals, .. } = tester.ask(&totals) else { panic!("no totals") };
    tester.ask(&LineRequest::End { nonce: 4, session });
    *totals
}

#[test]
fn what_was_put_into_a_flood_is_found_by_both_ways() {
    let Some(spaces) = ends("t-flood-put") else { return };
    for way in RECEIVE_PATHS {
        let _far = reflector(&spaces, way, &[]);
        for (session, tag, sizes) in [
            (1, None, &[64][..]),
            (2, None, &[1_518]),
            (3, Some(0x6007), &[64, 1_518]),
            // Of one frame's memory, of several.
            (4, None, &[64, 1_800, 1_900, 4_000, 9_252]),
        ] {
            let before = counted(&spaces, "_xdp_redirect");
            let totals = with_trouble(&spaces, tag, session, sizes);
            let what = format!("{way:?}, {sizes:?}: {totals:?}");
            assert_eq!((totals.received, totals.own_drops, totals.next), (996, 0, 1_000), "{what}");
            assert_eq!((totals.runs.lost, totals.runs.longest), (4, 3), "{what}");
            assert_eq!((totals.wrong_bits, totals.duplicates), (3, 1), "{what}");
            assert_eq!((totals.reordered, totals.longest_extent), (1, 2), "{what}");
            let taken = counted(&spaces, "_xdp_redirect") - before;
            assert_eq!(taken, if way == ReceivePath::Ring { 0 } else { 997 }, "{what}");
        }
    }
}

#[test]
fn a_flood_past_the_buffers_is_counted_whole() {
    let Some(spaces) = ends("t-flood-past") else { return };
    let _far = reflector(&spaces, ReceivePath::PastBuffers, &[]);
    // The program makes a veth device take frames of XDP; it needs no GRO.
    for (gro, vlan) in [("on", &[][..]), ("off", &["--vlan", "7:3"])] {
        spaces.there(&format!("ethtool -K v gro {gro}"));
        let before = ["_xdp_redirect", "_drops"].map(|what| counted(&spaces, what));
        let rows = json_of(&mut raw(
            &spaces,
            &[&["--sizes", "64,1518,4000", "--for", "1s"], vlan].concat(),
        ));
        let rows = rows["rows"].as_array().expect("rows");
        for row in rows {
            assert!(of(row, "sent") > 10_000 && of(row, "received") > 1_000, "{row}");
            assert_eq!((of(row, "lost"), of(row, "wrong_bits")), (0, 0), "{row}");
            let known = of(row, "received") + of(row, "sender_drops") + of(row, "receiver_drops");
            assert_eq!(row["taken_by"], "xdp_socket", "{row}");
            assert!(
                matches!(row["sent_by"].as_str(), Some("xdp_program" | "packet_socket")),
                "{row}"
            );
            // Of what the sender's device had no room for, a few are questions and STAMP packets.
            assert!((of(row, "sent")..of(row, "sent") + 400).contains(&known), "{row}");
        }
        let sum = |key| rows.iter().map(|row| of(row, key)).sum::<u64>();
        let [taken, dropped] = ["_xdp_redirect", "_drops"].map(|what| counted(&spaces, what));
        // One frame before a flood made within the kernel shows whether the device takes them.
        let probes = (taken - before[0]).checked_sub(sum("received"));
        assert!(probes <= Some(3) && probes.is_some(), "{taken} taken, {before:?}: {rows:?}");
        assert!(dropped - before[1] >= sum("receiver_drops"), "{dropped}, {before:?}: {rows:?}");
    }
}

#[test]
fn what_a_stopped_receiver_drops_of_a_flood_is_its_own() {
    let Some(spaces) = ends("t-flood-stop") else { return };
    for way in RECEIVE_PATHS {
        let far = reflector(&spaces, way, &["--buffer", "2MiB"]);
        let before = counted(&spaces, "_xdp_redirect");
        let mut test = raw(&spaces, &["--sizes", "64", "--for", "3s"]);
        let test = test.stdout(Stdio::piped()).spawn().expect("farline runs");
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(250));
            far.signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(100));
            far.signal(Signal::CONT);
        }
        let output = test.wait_with_output().expect("it ends");
        let raw = Brief::of(&output);
        let row = &raw["rows"][0];
        assert!(
            of(row, "received") > 1_000 && of(row, "receiver_drops") > 10_000,
            "{way:?}: {row}"
        );
        assert_eq!((of(row, "lost"), of(row, "wrong_bits")), (0, 0), "{way:?}: {row}");
        let taken = counted(&spaces, "_xdp_redirect") - before;
        assert_eq!(taken > 1_000, way == ReceivePath::PastBuffers, "{way:?}: {taken} taken");
    }
}

#[test]
fn a_paced_test_and_one_of_two_queues_come_by_the_ring() {
    let Some(spaces) = ends("t-flood-ring") else { return };
    let _far = reflector(&spaces, ReceivePath::PastBuffers, &[]);
    let mut paced = spaces.run_here(&farline_binary());
    paced.args(["--json", "-q", "line", &text(THERE), "--ethernet", "v"]);
    let output = paced.args(["--rate", "10M", "--for", "1s"]).output().expect("farline runs");
    let paced = Brief::of(&output);
    assert!(paced["totals"]["received"].as_u64() > Some(100), "{paced}");
    spaces.there("ethtool -L v rx 2");
    let rows = json_of(&mut raw(&spaces, &["--sizes", "1518", "--for", "1s"]));
    assert!(of(&rows["rows"][0], "received") > 1_000, "{rows}");
    assert_eq!(rows["rows"][0]["taken_by"], "packet_ring", "{rows}");
    assert_eq!(counted(&spaces, "_xdp_redirect"), 0, "{rows}");
}
