//! `farline cp` with a proxy of a grid: `gsiftp://` to and from a node, a real globus server, and
//! between them.

use crate::gsi::{Grid, authority, relay, sign, trust};
use farline_lab::files::random;
use farline_lab::{error_of_command, farline, json_of, succeed};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `farline cp` of alice's.
fn cp(grid: &Grid, proxy: &Path) -> Command {
    let mut command = farline();
    command.env("X509_USER_PROXY", proxy).env("X509_CERT_DIR", certificates(grid));
    command.args(["--json", "cp", "--retry-for", "0", "-r"]);
    command
}

fn certificates(grid: &Grid) -> PathBuf {
    grid.at("security/certificates")
}

/// The name that is in the certificates.
fn named(url: &str) -> String {
    url.replacen("127.0.0.1", "localhost", 1)
}

/// What a copy says of its data: whether it was compared, and encrypted.
fn kept(result: &Value) -> [Option<bool>; 2] {
    ["verified", "encrypted"].map(|key| result[key].as_bool())
}

/// A tree with files of none, one and several blocks.
fn planted(grid: &Grid) -> PathBuf {
    let tree = grid.at("src");
    fs::create_dir_all(tree.join("deep")).expect("a folder");
    for (index, name) in ["none", "small", "deep/large"].iter().enumerate() {
        let bytes = random(index as u64, index * index * 900_001);
        fs::write(tree.join(name), bytes).expect("written");
    }
    tree
}

/// The same names and bytes: stock servers do not keep times.
fn assert_same_tree(one: &Path, other: &Path) {
    succeed(Command::new("diff").arg("-r").args([one, other]));
}

#[test]
fn trees_go_both_ways_with_a_proxy_and_are_compared() {
    let grid = Grid::new("");
    let (tree, proxy) = (planted(&grid), grid.proxy("alice", &[]));
    let (_stock, stock) = grid.globus_server(&[]);
    let (node, stock) = (named(&grid.url), named(&stock));
    // A node's data is encrypted unless that is not wanted, another server's the other way about.
    for (index, (server, root, options, is_private)) in [
        (&node, grid.at("root"), &["--streams", "4"][..], true),
        (&node, grid.at("root"), &["--streams", "3", "--no-encrypt"], false),
        (&stock, grid.at(""), &["--streams", "1"], false),
        (&stock, grid.at(""), &["--streams", "4"], false),
        (&stock, grid.at(""), &["--streams", "3", "--encrypt"], true),
    ]
    .into_iter()
    .enumerate()
    {
        let (name, back) = (format!("up{index}"), grid.at(&format!("back{index}")));
        let there = match server == &node {
            true => format!("{server}/{name}/"),
            false => format!("{server}{}/{name}/", grid.at("").display()),
        };
        let up = json_of(cp(&grid, &proxy).args(options).arg(tree.join("")).arg(&there));
        assert_eq!(kept(&up), [Some(true), Some(is_private)], "{options:?}: {up}");
        assert_same_tree(&tree, &root.join(&name));
        let down = json_of(cp(&grid, &proxy).args(options).arg(&there).arg(&back));
        assert_eq!(kept(&down), [Some(true), Some(is_private)], "{options:?}: {down}");
        assert_same_tree(&tree, &back);
    }
}

#[test]
fn files_go_in_mode_s_to_a_server_without_feat() {
    let grid = Grid::new("");
    let proxy = grid.proxy("alice", &[]);
    let (_stock, stock) = grid.globus_server(&["-disable-command-list", "FEAT"]);
    let there = format!("{}{}", named(&stock), grid.at("").display());
    for (options, is_private) in [(&[][..], false), (&["--encrypt"], true)] {
        let up = format!("up{is_private}");
        let there = format!("{there}{up}");
        let put = json_of(cp(&grid, &proxy).args(options).arg(grid.at("big")).arg(&there));
        assert_eq!(kept(&put), [Some(false), Some(is_private)], "{put}");
        let back = grid.at(&format!("back{is_private}"));
        let got = json_of(cp(&grid, &proxy).args(options).arg(&there).arg(&back));
        assert_eq!(kept(&got), [Some(false), Some(is_private)], "{got}");
        let big = fs::read(grid.at("big")).expect("there");
        assert!(fs::read(grid.at(&up)).is_ok_and(|came| came == big), "{up} differs");
        assert!(fs::read(back).is_ok_and(|came| came == big), "{up} came back otherwise");
    }
}

#[test]
fn servers_of_a_grid_copy_from_each_other() {
    let grid = Grid::new("third_party = true\nthird_party_networks = ['127.0.0.0/8']");
    let (tree, proxy) = (planted(&grid), grid.proxy("alice", &[]));
    let (_one, one) = grid.globus_server(&[]);
    let (_two, two) = grid.globus_server(&[]);
    let here = grid.at("");
    let node = |name: &str| format!("{}/{name}/", named(&grid.url));
    let at = |server: &str, name: &str| format!("{}{}{name}/", named(server), here.display());
    for (index, options) in [&["--streams", "2"][..], &["--encrypt"]].into_iter().enumerate() {
        let name = |what: &str| format!("{what}{index}");
        let legs = [
            (at(&one, "src"), at(&two, &name("stock")), here.join(name("stock"))),
            (at(&two, "src"), node(&name("in")), grid.at("root").join(name("in"))),
            (node(&name("in")), at(&one, &name("out")), here.join(name("out"))),
            (node(&name("in")), node(&name("own")), grid.at("root").join(name("own"))),
        ];
        // Encrypted, what the clear showed of the rest need not be shown again.
        for (from, to, landed) in legs.into_iter().take(4 - 2 * index) {
            let copied = json_of(cp(&grid, &proxy).args(options).args([&from, &to]));
            assert_eq!(copied["verified"].as_bool(), Some(true), "{from} {to}: {copied}");
            assert_eq!(copied["encrypted"].as_bool(), Some(index == 1), "{from} {to}: {copied}");
            assert_same_tree(&tree, &landed);
        }
    }
}

#[test]
fn what_keeps_a_proxy_out_is_said_and_by_whom() {
    let grid = Grid::new("gsi_limited_proxies = false");
    let at = |name: &str| grid.at(name);
    let (alice, limited) = (grid.proxy("alice", &[]), grid.proxy("alice", &["-limited"]));
    sign(&at(""), "ca", "bob", "/O=Grid/CN=bob");
    let bob = grid.proxy("bob", &[]);
    authority(&at(""), "other", "/O=Grid/CN=Other CA");
    sign(&at(""), "other", "eve", "/O=Grid/CN=alice");
    let eve = grid.proxy("eve", &[]);
    let (_stock, stock) = grid.globus_server(&[]);
    let (node, stock) = (named(&grid.url), named(&stock));
    let told = |proxy: &Path, server: &str, more: &[&str]| {
        let mut command = cp(&grid, proxy);
        command.args(more).arg(at("big")).arg(format!("{server}/refused"));
        let (error, _) = error_of_command(&mut command);
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        (text("code"), format!("{} ({})", text("message"), text("hint")))
    };
    let absent = at("nowhere");
    for (proxy, server, code, words) in [
        (&absent, &node, "no-proxy", &["there is no proxy of a grid at", "grid-proxy-init"][..]),
        (&at("big"), &node, "no-proxy", &["others may read it", "chmod 600"]),
        (&limited, &node, "login-refused", &["limited proxies are not taken here"]),
        (&bob, &node, "login-refused", &["no identity here has the certificate of /O=Grid/CN=bob"]),
        (&bob, &stock, "login-refused", &["Could not map /O=Grid/CN=bob"]),
        (&eve, &node, "login-refused", &["unable to get local issuer", "/O=Grid/CN=alice"]),
        (&eve, &stock, "login-refused", &["does not take your proxy", "/O=Grid/CN=alice"]),
        (&alice, &grid.url, "tls-untrusted", &["/O=Grid/CN=localhost, not of 127.0.0.1"]),
    ] {
        let (came, text) = told(proxy, server, &[]);
        assert!(came == code && words.iter().all(|word| text.contains(word)), "{came}: {text}");
    }
    let (code, text) = told(&alice, &node, &["--tls-ca", "ca.pem"]);
    assert!(code == "bad-certificate" && text.contains("X509_CERT_DIR"), "{code}: {text}");
    // Known here now, in place of the authority that vouches for both servers.
    fs::remove_dir_all(certificates(&grid)).expect("removed");
    fs::create_dir(certificates(&grid)).expect("a folder");
    trust(&at(""), "other", "/O=Grid/CN=Other CA", "/O=Grid/*");
    let (code, text) = told(&alice, &node, &[]);
    let words = ["localhost: unable to get local issuer certificate", "known here are in"];
    assert!(code == "tls-untrusted" && words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn a_reply_without_protection_ends_a_clients_session() {
    let grid = Grid::new("");
    let proxy = grid.proxy("alice", &[]);
    let node = grid.url.strip_prefix("gsiftp://").expect("a URL").to_owned();
    // Somebody between the ends answers what was not asked yet.
    for (word, is_taken) in [("", true), ("230 You are in.\r\n", false)] {
        let (address, relay) = relay(node.clone(), "", word);
        let url = format!("gsiftp://localhost:{}/tree/b", address.port());
        let output = cp(&grid, &proxy).arg(url).arg(grid.at("back")).output().expect("runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), is_taken, "{text}");
        assert!(is_taken || text.contains("a reply came without protection"), "{text}");
        relay.join().expect("no panic");
    }
}
