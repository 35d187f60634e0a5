//! Farline's controls beside Linux's own modules, on Debian's own kernel: `make lab` runs these in the guest of `lab/guest`.

use farline::kernelcc::{available, default_control};
use farline_lab::{Running, error_of, farline, succeed};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WHY: &str = "Debian's own kernel, as lab/guest boots it";

fn unload_module(name: &str) {
    succeed(Command::new("modprobe").args(["-r", &format!("tcp_{name}")]));
}

#[test]
#[ignore = "needs Debian's own kernel: make lab"]
fn a_module_is_taken_before_bpf_and_its_name_is_then_taken() {
    assert!(!available().iter().any(|name| name == "htcp"), "{WHY}");
    let default = default_control();
    let said = succeed(farline().args(["--json", "cc", "load", "htcp", "--", "true"]));
    assert!(said.contains("\"module\""), "{said}");
    let listed = succeed(farline().args(["cc", "ls"]));
    assert!(listed.lines().any(|line| line.starts_with("htcp") && line.contains("module")), "{listed}");
    let (error, code) = error_of(&["cc", "load", "htcp", "--set", "paper"]);
    assert_eq!((error["code"].as_str(), code), (Some("congestion-taken"), 2), "{error}");
    assert!(error["message"].as_str().is_some_and(|said| said.contains("by the kernel module tcp_htcp")), "{error}");
    let (error, _) = error_of(&["cc", "unload", "htcp"]);
    assert_eq!(error["code"], "congestion-foreign", "{error}");
    assert_eq!(error["hint"], "modprobe -r tcp_htcp", "{error}");
    unload_module("htcp");

    // The other way round: while Farline holds the name, the module is refused. (tcp_vegas would stay, unregistered: it does not
    // ask whether its name was taken.)
    let (mut held, _) = holding(&["htcp", "--set", "paper"]);
    // modprobe itself takes "exists" for "is loaded".
    let _ = Command::new("modprobe").args(["-q", "tcp_htcp"]).status();
    assert!(!std::path::Path::new("/sys/module/tcp_htcp").exists(), "the module took a name that was taken");
    end(&mut held, Signal::TERM);
    until_gone("htcp");
    assert_eq!(default_control(), default);
}

/// The kernel takes a name from its list a moment after the program is gone.
fn until_gone(name: &str) {
    let until = Instant::now() + Duration::from_secs(5);
    while available().iter().any(|have| have == name) {
        assert!(Instant::now() < until, "{name} stayed");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn holding(arguments: &[&str]) -> (Running, String) {
    let mut child = farline().args(["cc", "load"]).args(arguments).stdout(Stdio::piped()).spawn().expect("farline runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says what it loaded");
    (Running(child), line)
}

fn end(held: &mut Running, signal: Signal) {
    let pid = i32::try_from(held.0.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it is ours");
    held.0.wait().expect("it ends");
}

#[test]
#[ignore = "needs Debian's own kernel: make lab"]
fn on_a_kernel_without_links_nothing_stays_after_a_signal_and_the_next_command_clears_what_a_kill_left() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    assert!(release.starts_with("6.1."), "{release}: {WHY}");
    let there = || available().iter().any(|name| name == "fl_g_old");
    for signal in [Signal::TERM, Signal::INT] {
        let (mut held, said) = holding(&["htcp", "--set", "paper", "--as", "fl_g_old"]);
        assert!(said.contains("in BPF with the paper constants") && there(), "{said}");
        end(&mut held, signal);
        until_gone("fl_g_old");
    }
    let (mut held, _) = holding(&["htcp", "--set", "paper", "--as", "fl_g_old"]);
    end(&mut held, Signal::KILL);
    assert!(there(), "without links nobody takes it back");
    succeed(farline().args(["cc", "ls"]));
    until_gone("fl_g_old");
}
