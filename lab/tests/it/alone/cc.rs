//! `farline cc` with the real kernel: what is loaded works as theory says, and goes away however
//! its process ends.
//!
//! A machine whose kernel loads no BPF for this user skips these tests, and says so.

use crate::identities::SECRET;
use farline::kernelcc::{available, default_control};
use farline_core::congestion::{Algorithm, Constants, theory};
use farline_core::units::Span;
use farline_lab::controls::{self, Pinned, absent, alone, is_there, turn, until};
use farline_lab::recovery::{self, RecoveryRun, TooBusy, Trouble};
use farline_lab::{
    Running, announced, error_of, farline, farline_binary, json_of, node, own_control, succeed,
};
use rustix::process::Signal;
use std::time::Duration;

/// A `farline cc load` that holds `name`.
fn holding(name: &str, more: &[&str]) -> Running {
    let (held, said) =
        controls::holding(&[&["scalable", "--set", "paper", "--as", name], more].concat());
    assert!(said.contains("in BPF with the paper constants"), "{said}");
    held
}

#[test]
fn a_loaded_control_goes_with_its_process_however_that_ends() {
    let fl_life: &str = &own_control("life");
    let Some(_turn) = turn() else { return };
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut held = holding(fl_life, &[]);
        assert!(is_there(fl_life));
        let listed = succeed(farline().args(["cc", "ls"]));
        assert!(listed.contains(&format!("farline, process {}", held.0.id())), "{listed}");
        let taken = error_of(&["cc", "load", "vegas", "--as", fl_life]).0;
        assert_eq!(taken["code"], "congestion-taken", "{taken}");
        assert_eq!(error_of(&["cc", "unload", fl_life]).0["code"], "congestion-held");
        held.end(signal);
        until(fl_life, false);
    }
    let code =
        farline().args(["cc", "load", "bic", "--as", fl_life, "--", "sh", "-c", "exit 7"]).status();
    assert_eq!(code.expect("farline runs").code(), Some(7));
    until(fl_life, false);
}

#[test]
fn without_links_the_next_command_removes_what_a_kill_left() {
    let fl_old: &str = &own_control("old");
    let Some(_turn) = turn() else { return };
    let mut held = holding(fl_old, &["--without-link"]);
    succeed(farline().args(["cc", "ls"]));
    assert!(is_there(fl_old), "a control that is held stays");
    held.end(Signal::TERM);
    until(fl_old, false);

    let mut held = holding(fl_old, &["--without-link"]);
    held.end(Signal::KILL);
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_there(fl_old), "this is what kernels before 6.4 do");
    succeed(farline().args(["cc", "ls"]));
    until(fl_old, false);
}

#[test]
fn a_pinned_control_stays_until_it_is_unloaded() {
    let fl_pin: &str = &own_control("pin");
    let Some(_turn) = turn() else { return };
    for more in [&[][..], &["--without-link"][..]] {
        let _pinned = Pinned::load("vegas", fl_pin, more);
        assert!(is_there(fl_pin));
        let listed = succeed(farline().args(["cc", "ls"]));
        assert!(
            listed.lines().any(|line| line.starts_with(fl_pin) && line.contains("farline, pinned")),
            "{listed}"
        );
        succeed(farline().args(["cc", "unload", fl_pin]));
        until(fl_pin, false);
    }
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    let fl_none: &str = &own_control("none");
    let _turn = alone();
    let before = default_control();
    let cases: [(&[&str], &str); 6] = [
        (&["cc", "load", "tahoe"], "unknown-congestion"),
        (&["cc", "load", "htcp", "--as", "sixteen_letters_"], "congestion-name"),
        (&["cc", "load", "htcp", "--as", "h-tcp"], "congestion-name"),
        (&["cc", "load", "htcp", "--as", "reno"], "congestion-taken"),
        (&["cc", "unload", "reno"], "congestion-foreign"),
        (&["cc", "unload", fl_none], "unknown-congestion"),
    ];
    for (args, code) in cases {
        let (error, exit) = error_of(args);
        assert_eq!((error["code"].as_str(), exit), (Some(code), 2), "{args:?}: {error}");
        assert!(error["hint"].is_string(), "{args:?}: {error}");
    }
    assert_eq!(default_control(), before);
    for wrong in ["tahoe", "sixteen_letters_", "sixteen_letters", "h-tcp"] {
        assert!(!is_there(wrong), "{wrong}");
    }
    assert!(is_there("reno"));
}

#[test]
fn without_privilege_the_missing_capability_is_named() {
    let fl_cap: &str = &own_control("cap");
    let _turn = alone();
    if !rustix::process::geteuid().is_root() {
        farline_lab::skip("only root can give up capabilities one by one");
        return;
    }
    let folder = tempfile::Builder::new().prefix("farline-nobody").tempdir().expect("a folder");
    let binary = folder.path().join("farline");
    std::fs::copy(farline_binary(), &binary).expect("a copy");
    std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).expect("chown");
    for (capabilities, missing) in
        [("-all", "CAP_BPF and CAP_PERFMON"), ("-all,+bpf", "CAP_PERFMON")]
    {
        let mut command = farline_lab::command("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps",
            capabilities,
            "--ambient-caps",
            capabilities,
        ]);
        let output = command
            .arg(&binary)
            .args(["cc", "load", "htcp", "--as", fl_cap])
            .output()
            .expect("setpriv runs");
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("setpriv") {
            farline_lab::skip(format!("this setpriv does not know the capabilities: {said}"));
            return;
        }
        assert!(
            said.contains(&format!("needs {missing}, which")) && said.contains("setcap"),
            "{capabilities}: {said}"
        );
        assert_eq!(output.status.code(), Some(6), "{said}");
    }
    assert!(!is_there(fl_cap));
}

/// What a kernel looks like that does not describe its types, or describes none of those that are
/// called: in a mount namespace of its own, where another file stands for the kernel's.
#[test]
fn a_kernel_without_types_or_calls_is_refused_in_words() {
    let fl_types: &str = &own_control("types");
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let types = folder.path().join("vmlinux");
    // BTF (Documentation/bpf/btf.rst): magic, version, flags, length of the header; no types;
    // strings of one zero.
    let words = [24u32, 0, 0, 0, 1];
    let bytes: Vec<u8> = [0x9f, 0xeb, 1, 0]
        .into_iter()
        .chain(words.iter().flat_map(|word| word.to_le_bytes()))
        .chain([0])
        .collect();
    std::fs::write(&types, bytes).expect("written");
    let types = types.display();
    let (before, default) = (available(), default_control());
    for (mount, code, words) in [
        (
            "mount -t tmpfs none /sys/kernel/btf".to_owned(),
            "kernel-btf",
            "/sys/kernel/btf/vmlinux is missing",
        ),
        (
            format!("mount --bind {types} /sys/kernel/btf/vmlinux"),
            "kernel-too-old",
            "it has no tcp_slow_start to call",
        ),
    ] {
        let script = format!("{mount} && exec \"$0\" --json cc load htcp --as {fl_types} -- true");
        let mut command = farline_lab::command("unshare");
        let output = command
            .args(["--mount", "sh", "-c", &script])
            .arg(farline_binary())
            .output()
            .expect("unshare runs");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert_eq!(said["error"]["code"], code, "{said}");
        assert!(
            said["error"]["message"].as_str().is_some_and(|message| message.contains(words)),
            "{said}"
        );
        assert!(said["error"]["hint"].is_string(), "{said}");
        assert_eq!(output.status.code(), Some(3), "{said}");
    }
    assert_eq!((available(), default_control()), (before, default));
}

#[test]
fn a_flow_keeps_an_unloaded_control_and_a_default_stays() {
    let fl_flow: &str = &own_control("flow");
    use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    let Some(_turn) = turn() else { return };
    let default = default_control();
    let _pinned = Pinned::load("scalable", fl_flow, &[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
    let (mut far, _) = listener.accept().expect("accept");
    set_tcp_congestion(&near, fl_flow).expect("it is there");
    let carries = |near: &mut TcpStream, far: &mut TcpStream| {
        near.write_all(&[7; 4096]).expect("the flow lives");
        let mut got = [0; 4096];
        far.read_exact(&mut got).expect("the flow lives");
    };
    carries(&mut near, &mut far);
    let said = succeed(farline().args(["cc", "unload", fl_flow]));
    assert!(
        said.contains("unloaded; one flow here still uses it and keeps it to its end"),
        "{said}"
    );
    until(fl_flow, false);
    carries(&mut near, &mut far);
    assert_eq!(tcp_congestion(&near).expect("it says"), fl_flow);
    assert!(set_tcp_congestion(&far, fl_flow).is_err(), "no new flow gets it");

    // Where it is the default, new sockets would go on getting it: in a network namespace of its
    // own.
    let script = format!(
        "\"$0\" cc load scalable --as {fl_flow} --pin && sysctl -qw \
         net.ipv4.tcp_congestion_control={fl_flow} && \"$0\" cc unload {fl_flow}; code=$?; \
         sysctl -qw net.ipv4.tcp_congestion_control=reno; \"$0\" cc unload {fl_flow}; exit $code"
    );
    let output = farline_lab::command("unshare")
        .args(["--net", "sh", "-c", &script])
        .arg(farline_binary())
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&format!("`{fl_flow}` is the default of this network namespace")),
        "{output:?}"
    );
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    until(fl_flow, false);
    assert_eq!(default_control(), default);
}

#[test]
fn a_copy_loads_a_control_at_the_sender_and_returns_it() {
    let Some(_turn) = turn() else { return };
    let Some([control, _]) = absent() else {
        farline_lab::skip("this kernel has the controls that this would load");
        return;
    };
    let (near, far) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    std::fs::write(near.path().join("file"), vec![7; 3 << 20]).expect("written");
    let (_node, url) = node(far.path(), "write", &["--allow-congestion"]);
    let here = near.path().join("file");
    let copies = [
        (here.to_str().expect("text").to_owned(), format!("{url}/there")),
        (format!("{url}/there"), format!("{}/back", near.path().display())),
    ];
    for (from, to) in copies {
        let outcome =
            json_of(farline().args(["--json", "cp", "--congestion", control, &from, &to]));
        assert_eq!(outcome["congestion"], control, "{outcome}");
        assert_eq!(outcome["notes"].as_array().map(Vec::len), Some(0), "{outcome}");
        until(control, false);
    }
    let error = error_of(&[
        "cp",
        "--congestion",
        "tahoe",
        here.to_str().expect("text"),
        &format!("{url}/never"),
    ])
    .0;
    assert_eq!(error["code"], "unknown-congestion", "{error}");

    // Without privilege the copy goes on with what the kernel has, and says so once.
    let open = tempfile::Builder::new().prefix("farline-nobody").tempdir().expect("a folder");
    let binary = open.path().join("farline");
    std::fs::copy(farline_binary(), &binary).expect("a copy");
    std::fs::write(open.path().join("file"), b"of nobody").expect("written");
    std::os::unix::fs::chown(open.path(), Some(65_534), Some(65_534)).expect("chown");
    let mut command = farline_lab::command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
    let said = succeed(
        command
            .args(["cp", "--congestion", control])
            .arg(open.path().join("file"))
            .arg(format!("{url}/of-nobody")),
    );
    assert_eq!(
        said.matches(&format!("without {control}: loading a congestion control needs CAP_BPF"))
            .count(),
        1,
        "{said}"
    );
    assert!(far.path().join("of-nobody").exists());
}

/// Logs in over TLS and asks the node for a control; prints its reply, and what the kernel has
/// then.
const ASK: &str = r#"
import ftplib, ssl, sys
host, port, user, control = sys.argv[1:]
client = ftplib.FTP_TLS(context=ssl._create_unverified_context(), timeout=20)
client.connect(host, int(port))
client.login(user, "secret")
try:
    print(client.sendcmd("OPTS FARLINE congestion=%s;" % control))
except ftplib.error_perm as error:
    print(error)
print(open("/proc/sys/net/ipv4/tcp_available_congestion_control").read())
client.quit()
"#;

#[test]
fn an_identity_with_the_right_has_its_control_loaded() {
    let Some(_turn) = turn() else { return };
    let Some([control, _]) = absent() else {
        farline_lab::skip("this kernel has the controls that this would load");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let people = [("alice", "allow_congestion = true"), ("bob", "")].map(|(name, right)| {
        let rights = format!("paths = {{ '/' = 'read' }}\n{right}");
        format!("[[identity]]\nname = '{name}'\npassword = '{SECRET}'\n{rights}\n")
    });
    let file = folder.path().join("node.toml");
    std::fs::write(&file, format!("tls = true\n{}", people.concat())).expect("written");
    let mut serve = farline();
    serve.args(["--json", "serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    let (node, url) = announced(serve.arg("--root").arg(folder.path()));
    // Another process loads for it.
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.id())).expect("it runs");
    assert!(status.contains("Seccomp:\t2"), "not confined: {status}");
    let (host, port) = url.trim_start_matches("ftp://").split_once(':').expect("an address");
    for (user, code) in [("alice", "200"), ("bob", "550")] {
        let mut ask = farline_lab::command("python3");
        let said = succeed(ask.args(["-c", ASK, host, port, user, control]));
        let (reply, kernel) = said.split_once('\n').expect("two lines");
        assert!(reply.starts_with(code), "{user}: {said}");
        let is_loaded = kernel.split_whitespace().any(|there| there == control);
        assert_eq!(is_loaded, user == "alice", "{user}: {said}");
        // It goes with the session.
        until(control, false);
    }
}

/// What a run in the kernel showed.
enum Shown {
    /// Its windows are theory's and the pure machine's.
    Right,
    /// They are not.
    Wrong(String),
    /// This machine was too busy for its times to say anything; the loss took from the window what
    /// the control's constants say, which no lateness changes.
    CutAlone,
    /// This machine was too busy for it to say anything.
    Nothing(String),
}

/// Holds a run in the kernel against theory and against the pure machine.
fn shown(run: &RecoveryRun, link: &str) -> Shown {
    let RecoveryRun { algorithm, set, window, .. } = *run;
    let kernel = match recovery::kernel(run, link) {
        Err(error) if error.is::<TooBusy>() => return Shown::Nothing(error.to_string()),
        Err(error) => return Shown::Wrong(error.to_string()),
        Ok(kernel) => kernel,
    };
    let theory = kernel.theory(run).expect("it is driven by loss").as_secs_f64();
    let took = kernel.seconds.map_or(f64::INFINITY, |seconds| seconds);
    let apart =
        recovery::largest_difference(&kernel, &recovery::simulated(run, kernel.rtt), theory)
            .unwrap_or(f64::INFINITY);
    let cut = kernel.first();
    let part = theory::left(algorithm, set, cut.before).expect("it is driven by loss");
    let left = cut.before * part;
    let said = format!(
        "{algorithm} ({set}): {window} packets, rtt {:.1} ms, {} reductions: {took:.3} s, theory \
         {theory:.3} s; at most {:.1} % from the pure machine; a loss left {:.1} of {:.1}, theory \
         {left:.1}; void because {:?}",
        kernel.rtt * 1e3,
        kernel.reductions.len(),
        apart * 100.0,
        cut.from,
        cut.before,
        kernel.void(),
    );
    eprintln!("{said}");
    if (took / theory - 1.0).abs() < 0.15 && apart < 0.1 {
        Shown::Right
    } else if kernel.void().is_none() {
        Shown::Wrong(said)
    } else if (cut.from / left - 1.0).abs() < 0.1 {
        Shown::CutAlone
    } else {
        Shown::Nothing(said)
    }
}

/// Of three runs that count two must follow: a machine that is busy with something else disturbs
/// one in ways that no figure of the link shows. One that lets none count shows what a loss takes
/// from the window at least; one that lets some count must not hide behind the others.
fn must_follow(run: &RecoveryRun, link: &str) {
    let (mut right, mut cuts) = (0, 0);
    let (mut wrong, mut nothing) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        match shown(run, link) {
            // The usual case: the first counts, and is right.
            Shown::Right if wrong.is_empty() => return,
            Shown::Right => right += 1,
            Shown::Wrong(said) => wrong.push(said),
            Shown::CutAlone => cuts += 1,
            Shown::Nothing(said) => nothing.push(said),
        }
        assert!(wrong.len() < 2, "{wrong:#?}");
        if right == 2 || (cuts >= 3 && wrong.is_empty()) {
            return;
        }
    }
    panic!("{right} right, {cuts} with the right cut alone; {wrong:#?}; {nothing:#?}");
}

fn run(algorithm: Algorithm, window: u32, rtt: Span, losses: &[f64]) -> RecoveryRun {
    let set = if matches!(algorithm, Algorithm::Cubic | Algorithm::Reno) {
        Constants::Linux
    } else {
        Constants::Paper
    };
    let theory =
        theory::recovery(algorithm, set, f64::from(window), rtt).expect("it is driven by loss");
    let spans: Vec<Span> = losses.iter().map(|&part| theory.mul_f64(part)).collect();
    let last = spans.last().copied().unwrap_or_default();
    let timeout = last + theory.mul_f64(1.5) + Span::from_millis(800);
    RecoveryRun { algorithm, set, window, rtt, mtu: 1500, timeout, trouble: Trouble::Losses(spans) }
}

#[test]
fn the_kernels_windows_recover_as_theory_and_models_say() {
    let Some(_turn) = turn() else { return };
    let rtt = Span::from_millis(40);
    // Each on a link of its own, of which a window that grows takes little: two at a time.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            must_follow(&run(Algorithm::Scalable, 1_000, rtt, &[0.0]), "t-cc-1");
            must_follow(&run(Algorithm::HighSpeed, 1_000, rtt, &[0.0]), "t-cc-2");
            must_follow(&run(Algorithm::Bic, 1_000, rtt, &[0.0]), "t-cc-3");
        });
        must_follow(&run(Algorithm::HTcp, 1_000, rtt, &[0.0]), "t-cc-4");
        // Vegas takes a jitter of two packets' share of the rtt for a queue, so its rtt is long.
        must_follow(&run(Algorithm::Vegas, 60, Span::from_millis(100), &[0.0]), "t-cc-5");
    });
}
