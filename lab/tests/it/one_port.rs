//! `farlineq://`: control and data over one UDP port, where no TCP passes at all.

use farline_lab::files::{plant_file, same, text};
use farline_lab::{
    Namespaces, Running, assert_same_tree, error_of_command, farline_binary, json_of, plant,
};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Two hosts, of which `there` lets nothing in but UDP to one port.
struct Bed {
    spaces: Namespaces,
    dir: tempfile::TempDir,
    root: PathBuf,
    fingerprint: String,
    _node: Running,
}

impl Bed {
    fn new(name: &str, more: &[&str]) -> Option<Bed> {
        let spaces = Namespaces::pair(name)?;
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("root");
        std::fs::create_dir_all(&root).expect("a folder");
        spaces.there(
            "nft add table inet f; \
             nft add chain inet f i '{ type filter hook input priority 0; policy drop; }'; \
             nft add rule inet f i iifname lo accept; nft add rule inet f i udp dport 2811 accept; \
             nft add chain inet f o '{ type filter hook output priority 0; policy drop; }'; \
             nft add rule inet f o oifname lo accept; nft add rule inet f o udp sport 2811 accept",
        );
        let mut serve = spaces.run_there(&farline_binary());
        serve.args(["--json", "serve", "--anonymous", "write", "--listen", "10.77.0.2:2811"]);
        let (node, line) = Running::begun(serve.args(more).arg("--tls").arg("--root").arg(&root));
        let said: Value = serde_json::from_str(&line).expect("one object");
        let fingerprint = said["fingerprint"].as_str().expect("a fingerprint").to_owned();
        Some(Bed { spaces, dir, root, fingerprint, _node: node })
    }

    fn here(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn farline(&self, args: &[&str]) -> Command {
        let mut command = self.spaces.run_here(&farline_binary());
        command.arg("--json").args(args);
        command
    }

    /// A command that copies, of whose node this certificate is.
    fn copies(&self, what: &str, args: &[&str]) -> Command {
        let mut command = self.farline(&[what, "--tls-pin", &self.fingerprint]);
        command.args(args);
        command
    }
}

fn url(path: &str) -> String {
    format!("farlineq://10.77.0.2:2811/{path}")
}

#[test]
fn trees_go_both_ways_over_one_udp_port_without_any_tcp() {
    let more = ["--listen-udp", "10.77.0.2:2811", "--allow-held", "100M"];
    let Some(bed) = Bed::new("one-port", &more) else { return };
    let (source, back) = (bed.here("src"), bed.here("back"));
    plant(&source);
    let results = [
        json_of(&mut bed.copies("cp", &["-r", "--streams", "3", text(&source), &url("tree/")])),
        json_of(&mut bed.copies("cp", &["-r", &url("tree/src/"), text(&back)])),
    ];
    assert_same_tree(&source, &bed.root.join("tree/src"));
    assert_same_tree(&source, &back);
    for result in results {
        let said = (&result["data_path"], &result["encrypted"], &result["verified"]);
        assert_eq!(said, (&"quic".into(), &true.into(), &true.into()), "{result}");
    }
    // What is there already is looked at, and one file that changed is sent again.
    plant_file(&source.join("more"), 3, 5);
    let synced = json_of(&mut bed.copies("sync", &[text(&source), &url("tree/src")]));
    assert_eq!(synced["files"], 1, "{synced}");
    assert!(same(&source.join("more"), &bed.root.join("tree/src/more")));
    // Another control holds what a node sends, too, although its connection began before it was
    // known.
    let one = json_of(
        &mut bed
            .copies("cp", &["--congestion", "reno", &url("tree/src/more"), text(&bed.here("one"))]),
    );
    assert!(same(&source.join("more"), &bed.here("one")), "{one}");
    // A session ends with its client: what it held is free for the next at once.
    for name in ["held-1", "held-2"] {
        let (one, there) = (bed.here("one"), url(name));
        let held = ["--congestion", "held", "--rate", "100M", text(&one), &there];
        json_of(&mut bed.copies("cp", &held));
        assert!(same(&bed.here("one"), &bed.root.join(name)), "{name}");
    }
    // Of the session's certificate nobody else's is taken.
    let wrong = "sha256=".to_owned() + &"0".repeat(64);
    let refused = bed.farline(&["cp", "--tls-pin", &wrong, text(&bed.here("one")), &url("x")]);
    let (error, _) = error_of_command(&mut { refused });
    assert_eq!((&error["code"], &error["fault"]), (&"tls-untrusted".into(), &"refused".into()));
    // Whatever it says of this host.
    let checked = bed.copies("check", &["--no-disk", &url("")]).output().expect("farline runs");
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("one object");
    assert_eq!(checked["node"]["farline"], true, "{checked}");
    // Another channel would need a port of its own.
    let (one, there) = (bed.here("one"), url("x"));
    let other = ["--channel", "udt", text(&one), &there];
    let (error, exit) = error_of_command(&mut bed.copies("cp", &other));
    assert_eq!((error["code"].as_str(), exit), (Some("bad-channel"), 2), "{error}");
    assert!(error["hint"].to_string().contains("farlines://"), "{error}");
    assert!(!bed.root.join("x").exists(), "nothing was copied");
}

#[test]
fn a_wrong_port_and_a_node_without_one_give_one_clear_error() {
    let Some(bed) = Bed::new("one-port-not", &[]) else { return };
    let file = bed.here("f");
    plant_file(&file, 1, 1);
    let copy = |url: &str, more: &[&str]| {
        let args = [&["--timeout", "2"], more, &[text(&file), url]].concat();
        let (error, exit) = error_of_command(&mut bed.copies("cp", &args));
        assert_eq!((error["code"].as_str(), exit), (Some("unreachable"), 5), "{error}");
        assert!(error["message"].to_string().contains("over UDP"), "{error}");
        assert!(error["hint"].to_string().contains("--listen-udp"), "{error}");
    };
    // The port is another, and there is none at all.
    copy("farlineq://10.77.0.2:2812/f", &["--retry-for", "0s"]);
    copy(&url("f"), &["--retry-for", "0s"]);
    let mut serve = bed.spaces.run_there(&farline_binary());
    serve.args(["--json", "serve", "--anonymous", "read", "--listen-udp", "127.0.0.1:0"]);
    let (error, exit) = error_of_command(serve.args(["--listen", "127.0.0.1:0", "--root", "/"]));
    assert_eq!((error["code"].as_str(), exit), (Some("bad-config"), 2), "{error}");
    assert!(error["hint"].to_string().contains("tls = true"), "{error}");
}
