//! Circuits on real interfaces, a veth pair between two namespaces: read back by tc(8), kept as
//! they are booked, and next to what is not Farline's.

use crate::calendar::{Calendar, done};
use farline_lab::{Namespaces, Running, farline_binary, succeed};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long something may take that takes three seconds at the most on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts, and a calendar at the first.
struct Hosts {
    spaces: Namespaces,
    calendar: Calendar,
    folder: tempfile::TempDir,
}

impl Hosts {
    fn up(name: &str) -> Option<Hosts> {
        let spaces = Namespaces::pair(name)?;
        let works = |program: &str| Command::new(program).arg("-V").output().is_ok();
        if !["tc", "setpriv", "iperf3"].into_iter().all(works) {
            farline_lab::skip("circuits on an interface need tc, setpriv and iperf3");
            return None;
        }
        let probe = "tc qdisc add dev v root handle 9: htb 2>/dev/null && tc qdisc del dev v root";
        let probe = spaces.run_here(Path::new("sh")).args(["-c", probe]).status();
        if !probe.is_ok_and(|status| status.success()) {
            farline_lab::skip("this kernel has no HTB");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let network = folder.path().join("network.toml");
        let text = "name = \"pair\"\nsites = [\"near\", \"far\"]\n[hosts]\nnear = [\"10.77.0.1\"]\n\
                    far = [\"10.77.0.2\"]\n[[link]]\nbetween = [\"near\", \"far\"]\nrate = \"1G\"\n\
                    one_way_delay = \"1ms\"\n";
        std::fs::write(&network, text).expect("written");
        let state = folder.path().join("state");
        let mut serve = spaces.run_here(&farline_binary());
        serve.args(["--json", "calendar", "serve", "--listen", "10.77.0.1:0", "--network"]);
        let calendar = Calendar::begun(&state, serve.arg(network).arg("--state").arg(&state));
        Some(Hosts { spaces, calendar, folder })
    }

    fn farline(&self) -> Command {
        let token = self.calendar.state.join("admin.token");
        let mut command = self.calendar.asked_by(self.spaces.run_here(&farline_binary()), &token);
        command.env("FARLINE_SITE", "near");
        command
    }

    fn told(&self, words: &[&str]) -> Value {
        done(self.farline().args(words))
    }

    /// An agent that may change networks, and nothing else.
    fn agent(&self, is_near: bool, more: &[&str]) -> Command {
        let only = ["--bounding-set", "-all,+net_admin", "--inh-caps", "-all,+net_admin"];
        let setpriv = Path::new("setpriv");
        let mut command =
            if is_near { self.spaces.run_here(setpriv) } else { self.spaces.run_there(setpriv) };
        command.args(only).arg(farline_binary());
        let token = self.calendar.state.join("admin.token");
        let mut command = self.calendar.asked_by(command, &token);
        let site = if is_near { "near" } else { "far" };
        command.args(["agent", "--interface", "v", "--site", site]).args(more);
        if !more.contains(&"--rate") {
            command.args(["--rate", "1G"]);
        }
        command
    }

    fn started(&self, is_near: bool, more: &[&str]) -> Running {
        let (running, line) = Running::begun(&mut self.agent(is_near, more));
        assert!(line.contains("farline/agent/1"), "{line}");
        running
    }

    /// What a shell says at the near end, or the far one.
    fn shell(&self, is_near: bool, script: &str) -> String {
        let sh = Path::new("sh");
        let mut command =
            if is_near { self.spaces.run_here(sh) } else { self.spaces.run_there(sh) };
        succeed(command.args(["-ec", script]))
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            if begun.elapsed() > PATIENCE {
                let circuits = self.told(&["reserve", "circuits"]);
                let there = self.shell(true, "tc class show dev v; tc filter show dev v");
                panic!("{what}: {circuits}\n{there}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn report(&self) -> Value {
        self.told(&["reserve", "circuits"])["circuits"][0]["report"].clone()
    }

    /// The class of the first reservation, as tc shows it.
    fn class(&self, is_near: bool) -> Option<String> {
        let shown = self.shell(is_near, "tc class show dev v");
        shown.lines().find(|line| line.contains(":4001 ")).map(str::to_owned)
    }

    fn is_reached(&self) -> bool {
        let ping = ["-n", "-c", "1", "-W", "1", "10.64.0.3"];
        let mut ping =
            self.spaces.run_here(Path::new("ping")).args(ping).stdout(Stdio::null()).spawn();
        ping.as_mut().is_ok_and(|ping| ping.wait().is_ok_and(|status| status.success()))
    }
}

#[test]
fn circuits_on_an_interface_stay_as_booked() {
    let Some(hosts) = Hosts::up("iface") else { return };
    // The far end's root is somebody else's, with a class for circuits.
    hosts.spaces.there(
        "tc qdisc add dev v root handle 1: htb default 10
         tc class add dev v parent 1: classid 1:1 htb rate 1gbit
         tc class add dev v parent 1:1 classid 1:10 htb rate 1mbit ceil 1gbit prio 7
         tc class add dev v parent 1:1 classid 1:20 htb rate 900mbit ceil 1gbit",
    );
    let refused = hosts.agent(false, &[]).output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(said.contains("circuit-failed") && said.contains("htb 1:"), "{said}");
    let mut near = hosts.started(true, &[]);
    let _far = hosts.started(false, &["--below", "1:20"]);
    hosts.told(&["reserve", "near", "far", "--rate", "100M", "--start", "+4s", "--for", "10min"]);
    let ready =
        |is_near| hosts.class(is_near).is_some_and(|c| c.contains("rate 100Mbit ceil 100Mbit"));
    hosts.until("it is made ready", || ready(true) && ready(false));
    assert!(!hosts.is_reached(), "packets pass before its time");
    hosts.until("packets pass", || hosts.is_reached());
    let carried = |class: &str| {
        let shown = hosts.shell(true, &format!("tc -s class show dev v classid {class}"));
        let sent =
            shown.split("Sent ").nth(1).and_then(|text| text.split(' ').next()?.parse().ok());
        sent.unwrap_or_else(|| panic!("{shown}"))
    };
    let before: u64 = carried("fa11:4001");
    hosts.shell(true, "ping -n -c 3 -i 0.1 10.77.0.2");
    assert_eq!(carried("fa11:4001"), before, "other traffic came into it");

    // What somebody changed by hand is set right, one thing after the other.
    for (what, by_hand) in [
        ("the class", "tc class change dev v classid fa11:4001 htb rate 9mbit ceil 9mbit"),
        (
            "best effort",
            "tc class change dev v classid fa11:2 htb rate 900mbit ceil 900mbit prio 0",
        ),
        ("the filters", "tc filter del dev v parent fa11: pref 1"),
        ("the address", "ip addr del 10.64.0.2/31 dev v"),
        ("the queue", "tc qdisc replace dev v parent fa11:4001 pfifo limit 3"),
        ("the queue's kind", "tc qdisc replace dev v parent fa11:4001 bfifo limit 3000"),
    ] {
        hosts.shell(true, by_hand);
        let is_mended = || {
            let all = hosts.shell(true, "tc class show dev v; tc qdisc show dev v; ip addr show v");
            let best_effort = all.lines().find(|line| line.contains("fa11:2 ")).unwrap_or_default();
            ready(true)
                && all.contains("inet 10.64.0.2/31")
                && all.lines().any(|l| l.contains("pfifo") && l.contains("fa11:4001 limit 1000p"))
                && best_effort.contains("prio 7")
                && best_effort.contains("ceil 1Gbit")
                && hosts.is_reached()
        };
        hosts.until(what, is_mended);
    }
    // What others have stays, and what sends traffic into a circuit is told.
    hosts.shell(
        true,
        "tc class add dev v parent fa11:1 classid fa11:99 htb rate 1mbit
         tc filter add dev v parent fa11: pref 500 protocol ip u32 match ip dst 10.77.0.99 flowid fa11:99
         tc filter add dev v parent fa11: pref 501 protocol ip u32 match ip dst 10.77.0.98 flowid fa11:4001",
    );
    let told = |r: &Value| r["trouble"].as_str().is_some_and(|why| why.contains("not Farline's"));
    hosts.until("it is told", || told(&hosts.report()));
    hosts.shell(true, "tc filter del dev v parent fa11: pref 501");

    // An agent that begins anew finds what is there, and a change is in place: the class goes on
    // counting.
    drop(near);
    near = hosts.started(true, &[]);
    let before: u64 = carried("fa11:4001");
    hosts.told(&["reserve", "change", "r-1", "--rate", "200M"]);
    let changed =
        |is_near| hosts.class(is_near).is_some_and(|c| c.contains("rate 200Mbit ceil 200Mbit"));
    hosts.until("it has another rate", || changed(true) && changed(false));
    assert!(carried("fa11:4001") >= before && before > 0, "it was made anew");
    hosts.told(&["reserve", "cancel", "r-1"]);
    let is_gone = |is_near| {
        hosts.class(is_near).is_none()
            && !hosts.shell(is_near, "ip addr show v; tc filter show dev v").contains("10.64.0.")
    };
    hosts.until("it is gone", || is_gone(true) && is_gone(false));
    let left = hosts.shell(true, "tc class show dev v; tc filter show dev v");
    assert!(left.contains("fa11:99 ") && left.contains("pref 500"), "{left}");
    let theirs = hosts.shell(false, "tc class show dev v");
    assert!(["1:10 ", "1:20 "].iter().all(|class| theirs.contains(class)), "{theirs}");
    drop(near);
}

#[test]
fn a_copy_goes_through_a_circuit_on_an_interface() {
    let Some(hosts) = Hosts::up("iface-cp") else { return };
    let _agents = [hosts.started(true, &[]), hosts.started(false, &[])];
    let arrived = hosts.folder.path().join("arrived");
    std::fs::create_dir(&arrived).expect("made");
    // At all addresses: that of a circuit comes when it does.
    let mut serve = hosts.spaces.run_there(&farline_binary());
    serve.args(["--json", "serve", "--anonymous", "write", "--listen", "0.0.0.0:2811", "--root"]);
    let _node = Running::begun(serve.arg(&arrived)).0;
    let mut blast = hosts.spaces.run_there(Path::new("iperf3"));
    let _sink = Running(blast.args(["-s"]).stdout(Stdio::null()).spawn().expect("iperf3"));
    let file = hosts.folder.path().join("file");
    std::fs::write(&file, vec![7; 10_000_000]).expect("written");
    // Best effort at more than the interface carries.
    let mut blast = hosts.spaces.run_here(Path::new("iperf3"));
    blast.args(["-u", "-b", "2G", "-l", "1400", "-t", "20", "-c", "10.77.0.2"]);
    let _blast = Running(blast.stdout(Stdio::null()).spawn().expect("iperf3"));
    let mut cp = hosts.farline();
    cp.env("FARLINE_RETRY_FOR", "5s").args(["cp", "--reserve", "by=+5min,rate=100M"]);
    let copied = done(cp.arg(&file).arg("farline://10.77.0.2:2811/"));
    // 10 MB at 100 Mbit/s are 0.8 s; next to that blast TCP would get next to nothing.
    let seconds = copied["seconds"].as_f64().unwrap_or_else(|| panic!("{copied}"));
    assert!((0.8..10.0).contains(&seconds), "{seconds} s: {copied}");
    assert_eq!(copied["booking"]["rate_bps"], 100_000_000, "{copied}");
    assert!(std::fs::read(arrived.join("file")).is_ok_and(|bytes| bytes == vec![7; 10_000_000]));
}

#[test]
fn what_an_interface_cannot_do_is_told() {
    let Some(hosts) = Hosts::up("iface-no") else { return };
    let error = |command: &mut Command| {
        let output = command.output().expect("it runs");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (said["error"]["code"].as_str().unwrap_or_default().to_owned(), said["error"].to_string())
    };
    for (more, what) in [
        (["--interface", "no-such", "--site", "near"], "there is no interface"),
        (["--interface", "v", "--site", "nowhere"], "does not know the site"),
    ] {
        let mut command = hosts.farline();
        let (code, said) = error(command.args(["agent", "--rate", "1G"]).args(more));
        assert!(code == "circuit-failed" && said.contains(what), "{said}");
    }
    // Without the one capability that it takes.
    let mut none = hosts.spaces.run_here(Path::new("setpriv"));
    none.args(["--bounding-set", "-all", "--inh-caps", "-all"]).arg(farline_binary());
    let mut none = hosts.calendar.asked_by(none, &hosts.calendar.state.join("admin.token"));
    let (code, said) = error(none.args(["agent", "--interface", "v", "--site", "near"]));
    assert!(code == "circuit-failed" && said.contains("CAP_NET_ADMIN"), "{said}");
    // VLANs where the kernel has them, else one clear reason; and no more than the interface
    // carries.
    let agent = hosts.started(true, &["--vlans", "3000-3009"]);
    hosts.told(&["reserve", "near", "far", "--rate", "100M", "--start", "now", "--for", "10min"]);
    hosts.until("it is up or told", || {
        let report = hosts.report();
        let has_none = report["trouble"].as_str().is_some_and(|why| why.contains("VLAN 3001"));
        report["up"] == true || has_none
    });
    hosts.told(&["reserve", "cancel", "r-1"]);
    let is_gone = || hosts.class(true).is_none();
    hosts.until("what was begun is gone", is_gone);
    drop(agent);
    let _small = hosts.started(true, &["--rate", "50M"]);
    hosts.told(&["reserve", "near", "far", "--rate", "100M", "--start", "now", "--for", "10min"]);
    hosts.until("too much is told", || {
        hosts.told(&["reserve", "circuits"]).to_string().contains("v carries 50.0 Mbit/s")
    });
}

/// The devices of a circuit with a VLAN of its own, and what others do next to it.
#[test]
#[ignore = "needs Debian's own kernel, which has 8021q: make lab"]
fn vlans_come_and_go_with_circuits_and_others_stay() {
    let hosts = Hosts::up("vlans").expect("all that it takes");
    // Two VLANs of somebody else's, one of them with an id that a circuit would have.
    for (is_near, address) in [(true, "10.99.0.1/24"), (false, "10.99.0.2/24")] {
        hosts.shell(
            is_near,
            &format!(
                "ip link add link v name other type vlan id 3200
                 ip addr add {address} dev other
                 ip link set other up"
            ),
        );
    }
    hosts.shell(true, "ip link add link v name theirs type vlan id 3002");
    // Number, name and id: whether its carrier is seen already is a matter of moments.
    let others = |is_near| {
        let short = r"s/^([0-9]+: [^:]+):.*( id [0-9]+) .*/\1\2/";
        let shown = "ip -o -d link show type vlan | grep -v ' c[0-9]'";
        hosts.shell(is_near, &format!("{shown} | sed -E '{short}'"))
    };
    let before = [others(true), others(false)];
    assert!(before[0].contains("other@v id 3200") && before[0].contains("theirs@v id 3002"));
    // What comes on the wire with which tag.
    hosts.shell(
        false,
        "tc qdisc add dev v clsact
         tc filter add dev v ingress pref 1 protocol 802.1q flower vlan_id 3001 action ok
         tc filter add dev v ingress pref 2 protocol ip flower dst_ip 10.64.0.0/16 action ok",
    );
    let came = |preference: u32| -> u64 {
        let shown =
            hosts.shell(false, &format!("tc -s filter show dev v ingress pref {preference}"));
        let sent = shown.split("Sent ").nth(1).and_then(|text| text.split(' ').next());
        sent.and_then(|bytes| bytes.parse().ok()).unwrap_or_else(|| panic!("{shown}"))
    };
    let more = ["--vlans", "3000-3099", "--rate", "20M"];
    let _agents = [hosts.started(true, &more), hosts.started(false, &more)];
    hosts.told(&["reserve", "near", "far", "--rate", "8M", "--start", "+8s", "--for", "30min"]);
    let device = |is_near| hosts.shell(is_near, "ip -d addr show c16 2>/dev/null || true");
    let is_made = |is_near, address: &str| {
        let shown = device(is_near);
        shown.contains("vlan protocol 802.1Q id 3001 ") && shown.contains(address)
    };
    hosts.until("both ends are made", || {
        is_made(true, "inet 10.64.0.2/31") && is_made(false, "inet 10.64.0.3/31")
    });
    hosts.until("packets pass", || hosts.is_reached());
    assert!(came(1) > 0 && came(2) == 0, "{} with the tag, {} without one", came(1), came(2));

    // Who has which address is asked with the tag, past best effort.
    let asked = || -> u64 {
        let shown = hosts.shell(true, "tc -s class show dev v classid fa11:3");
        let sent = shown.split(" bytes ").nth(1).and_then(|text| text.split(' ').next());
        sent.and_then(|packets| packets.parse().ok()).unwrap_or_else(|| panic!("{shown}"))
    };
    let before_it = asked();
    for _ in 0..5 {
        hosts.shell(true, "ip neigh flush dev c16");
        hosts.until("it is asked and told", || hosts.is_reached());
    }
    assert!(asked() >= before_it + 5, "{before_it} before, {} after", asked());

    // Its rate, next to best effort at more than the interface carries.
    let iperf = |is_near, words: &[&str]| {
        let iperf = Path::new("iperf3");
        let mut command =
            if is_near { hosts.spaces.run_here(iperf) } else { hosts.spaces.run_there(iperf) };
        command.args(words).stdout(Stdio::null());
        command
    };
    let sinks = ["5201", "5202"]
        .map(|port| Running(iperf(false, &["-s", "-p", port]).spawn().expect("iperf3")));
    hosts.until("iperf3 listens", || {
        let listening = hosts.shell(false, "ss -ltn");
        [":5201 ", ":5202 "].iter().all(|port| listening.contains(port))
    });
    let blast = ["-u", "-b", "40M", "-l", "1400", "-t", "600", "-p", "5202", "-c", "10.77.0.2"];
    let mut blast = Running(iperf(true, &blast).spawn().expect("iperf3"));
    let rate = || {
        let send = ["-J", "-t", "8", "-O", "2", "-p", "5201", "-c", "10.64.0.3"];
        let said = succeed(iperf(true, &send).stdout(Stdio::piped()));
        let said: Value = serde_json::from_str(&said).expect("JSON");
        let rate = said["end"]["sum_received"]["bits_per_second"].as_f64();
        rate.unwrap_or_else(|| panic!("{said}"))
    };
    let is_booked = |rate: &f64| (0.9 * 8e6..1.02 * 8e6).contains(rate);
    let before_it = came(1);
    let seen = farline_lab::fit_of_three(rate, is_booked);
    println!("{:.2} Mbit/s of 8, next to best effort at full blast", seen / 1e6);
    assert!(is_booked(&seen), "{seen} bit/s");
    assert!(came(1) - before_it > 8_000_000 && came(2) == 0, "{} with the tag", came(1));
    assert!(blast.0.try_wait().is_ok_and(|ended| ended.is_none()), "best effort ended");
    drop((blast, sinks));

    // What was taken by hand is made again; a VLAN of somebody else's is neither used nor taken.
    hosts.shell(true, "ip link del c16");
    hosts.until("it is made again", || is_made(true, "inet 10.64.0.2/31") && hosts.is_reached());
    // A guest may take seconds to say what was now: when it begins is the calendar's to say.
    hosts.told(&["reserve", "near", "far", "--rate", "1M", "--for", "10min"]);
    let is_told = || {
        let all = hosts.told(&["reserve", "circuits"])["circuits"].clone();
        let mut all = all.as_array().cloned().unwrap_or_default().into_iter();
        let near =
            all.find(|known| known["report"]["number"] == 32 && known["report"]["site"] == "near");
        near.is_some_and(|known| known["report"]["trouble"].to_string().contains("VLAN 3002"))
    };
    hosts.until("that it is taken is told", is_told);
    hosts.told(&["reserve", "cancel", "r-2"]);
    hosts.told(&["reserve", "cancel", "r-1"]);
    let is_gone = |is_near| {
        let left = hosts.shell(is_near, "ip -o link show; ip addr show; tc class show dev v");
        !left.contains(" c16@")
            && !left.contains(" c32@")
            && !left.contains("10.64.0.")
            && !left.contains(":4001 ")
    };
    hosts.until("all of it is gone", || is_gone(true) && is_gone(false));
    assert_eq!([others(true), others(false)], before, "what others have is not as it was");
    hosts.shell(true, "ping -n -c 3 -i 0.2 10.99.0.2");
}
