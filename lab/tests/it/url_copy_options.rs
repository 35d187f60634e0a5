//! What `globus-url-copy` may be told besides, at a node: parts of files, checksums of both ends,
//! figures while it runs, and plain FTP servers at the other end.

use farline_lab::files::{file_url as file, names, random};
use farline_lab::plain_ftp::{proftpd, proftpd_folder, pyftpdlib, vsftpd};
use farline_lab::raw::RawClient;
use farline_lab::{LinkUp, Running, globus_server, globus_url_copy, node, succeed};
use std::fs;
use std::path::Path;
use std::process::Command;

fn same(a: &Path, b: &Path) {
    succeed(Command::new("cmp").arg(a).arg(b));
}

#[test]
fn parts_of_files_go_up_to_where_they_stood() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    fs::create_dir(at("stock")).expect("a folder");
    let whole = random(8, 3_000_001);
    fs::write(at("big"), &whole).expect("written");
    let (_node, url) = node(&at("root"), "write", &[]);
    let (_server, globus) = globus_server();
    let cases: [(&[&str], usize, usize); 4] = [
        (&["-off", "1000000", "-len", "500000"], 1_000_000, 1_500_000),
        (&["-off", "1000000", "-len", "500000", "-p", "3"], 1_000_000, 1_500_000),
        (&["-off", "2000001"], 2_000_001, 3_000_001),
        (&["-len", "70000"], 0, 70_000),
    ];
    for (index, (options, from, to)) in cases.into_iter().enumerate() {
        let name = format!("part{index}");
        let there = format!("{globus}{}", at("stock").join(&name).display());
        for target in [format!("{url}/{name}"), there] {
            succeed(globus_url_copy().args(options).args([&file(&at("big")), &target]));
        }
        let landed = fs::read(at("root").join(&name)).expect("it landed");
        // What was before the part is a hole, as at a server of Globus' own.
        let expected = [&vec![0; from][..], &whole[from..to]].concat();
        assert!(landed == expected, "{options:?}: {} bytes", landed.len());
        same(&at("root").join(&name), &at("stock").join(&name));
        // And down, into a file that has the rest.
        fs::write(at("back"), &whole).expect("written");
        let down = [&format!("{url}/{name}"), &file(&at("back"))];
        let part = ["-off", &from.to_string(), "-len", &(to - from).to_string()];
        succeed(globus_url_copy().args(part).args(down));
        same(&at("back"), &at("big"));
    }
}

#[test]
fn checksums_of_both_ends_are_compared_by_each_algorithm() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    fs::write(at("big"), random(9, 3_000_001)).expect("written");
    let (_node, url) = node(&at("root"), "write", &[]);
    for algorithm in ["MD5", "SHA1", "SHA256", "SHA512"] {
        let there = format!("{url}/{algorithm}");
        for (from, to) in [(file(&at("big")), there.clone()), (there, file(&at(algorithm)))] {
            let mut copy = globus_url_copy();
            copy.args(["-dbg", "-verify-checksum", "-checksum-alg", algorithm, &from, &to]);
            let output = copy.output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{algorithm}: {said}");
            // It asked, and compared what it was told with its own.
            let asked = format!("CKSM {algorithm} 0 -1 /{algorithm}");
            assert!(said.contains(&asked), "{algorithm}: {said}");
        }
        same(&at("big"), &at("root").join(algorithm));
        same(&at("big"), &at(algorithm));
    }
    // What it does not compute itself it refuses before it asks anybody.
    let mut adler = globus_url_copy();
    adler.args(["-verify-checksum", "-checksum-alg", "ADLER32", &file(&at("big"))]);
    let output = adler.arg(format!("{url}/adler")).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Unable to use checksum algorithm ADLER32"), "{said}");
}

/// For which `-data-cred` asks.
#[test]
fn credentials_for_data_alone_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_node, url) = node(dir.path(), "read", &[]);
    let mut client = RawClient::open(&url);
    let offered = client.ask("FEAT");
    assert!(offered.contains("DCAU") && !offered.contains("DCSC"), "{offered}");
    let reply = client.ask("DCSC D");
    assert!(reply.starts_with('5'), "{reply}");
}

#[test]
fn figures_while_it_runs_are_the_nodes_markers() {
    // Some ten seconds' worth: markers come every five.
    let Some(link) = LinkUp::up("t-guc-vb", &["custom", "--rtt", "2ms", "--rate", "20M"]) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("root")).expect("a folder");
    fs::write(at("big"), random(10, 25_000_000)).expect("written");
    let _node = link.node(&at("root"), &[]);
    let mut copy = link.command("a", "timeout");
    copy.args(["60", "globus-url-copy", "-vb", "-p", "2", &file(&at("big"))]);
    let said = succeed(copy.arg("ftp://10.77.0.2:2811/up"));
    same(&at("big"), &at("root/up"));
    // Such as "   15728640 bytes         2.38 MB/sec avg         2.38 MB/sec inst".
    let figures: Vec<u64> = said
        .split(['\r', '\n'])
        .filter(|line| line.contains("bytes") && line.contains("MB/sec avg"))
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    let grows =
        figures.is_sorted() && figures.iter().any(|&bytes| (1..25_000_000).contains(&bytes));
    assert!(grows, "{figures:?} of {said:?}");
}

/// Starts a server for a folder.
type Serve = Box<dyn Fn(&Path) -> (Running, String)>;

#[test]
fn third_party_copies_go_between_a_node_and_plain_servers() {
    let mut servers: Vec<(&str, Serve)> =
        vec![("vsftpd", Box::new(vsftpd)), ("pyftpdlib", Box::new(pyftpdlib))];
    match proftpd_folder().filter(|_| rustix::process::geteuid().is_root()) {
        Some(folder) => servers.push(("ProFTPD", Box::new(move |root| proftpd(&folder, root)))),
        None => farline_lab::skip("ProFTPD is not here (lab/setup brings it), or this is not root"),
    }
    for (name, serve) in servers {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("root")).expect("a folder");
        fs::create_dir(at("there")).expect("a folder");
        let third_party = ["--third-party", "--third-party-net", "127.0.0.0/8"];
        let (_node, ours) = node(&at("root"), "write", &third_party);
        let (_server, theirs) = serve(&at("there"));
        fs::write(at("there/a"), random(11, 3_000_001)).expect("written");
        succeed(globus_url_copy().args([&format!("{theirs}/a"), &format!("{ours}/a")]));
        same(&at("there/a"), &at("root/a"));
        succeed(globus_url_copy().args([&format!("{ours}/a"), &format!("{theirs}/back")]));
        same(&at("there/a"), &at("there/back"));
        assert_eq!(names(&at("root")), ["a"], "{name}");
    }
}
