//! What `globus-url-copy` may be told, by each of its schemes: the same table of options by
//! `ftp://`, by `sshftp://` over a real sshd, and by `gsiftp://` with a proxy.

use crate::gsi::Grid;
use crate::sshftp::Host;
use crate::url_copy::{came, sync_levels};
use farline_lab::files::{file_url, folder, hidden, names, random, same};
use farline_lab::{Running, globus_server, globus_url_copy, node, succeed, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of the file that is copied.
const LEN: usize = 3_000_001;

/// Of one file, up and down.
const OF_A_FILE: [&[&str]; 13] = [
    &["-p", "1"],
    &["-p", "2"],
    &["-p", "3"],
    &["-p", "4"],
    &["-p", "5"],
    &["-p", "6"],
    &["-p", "7"],
    &["-p", "8"],
    &["-fast", "-p", "1"],
    &["-rst", "-p", "2"],
    &["-stripe", "-p", "1"],
    &["-stripe", "-p", "4"],
    &["-stripe", "-sbs", "1048576", "-p", "2"],
];

/// Of one file, from a server of Globus' own to the node and back.
const OF_TWO_SERVERS: [&[&str]; 4] =
    [&["-p", "1"], &["-p", "4"], &["-rst", "-fast", "-p", "2"], &["-stripe", "-p", "2"]];

/// Of a part of a file, and where that begins and ends.
const OF_A_PART: [(&[&str], usize, usize); 3] = [
    (&["-off", "1000000", "-len", "500000"], 1_000_000, 1_500_000),
    (&["-off", "2000001", "-p", "3"], 2_000_001, LEN),
    (&["-len", "70000", "-p", "2"], 0, 70_000),
];

/// Of a tree, up and down.
const OF_A_TREE: [&[&str]; 3] = [
    &["-r", "-cd", "-p", "2"],
    &["-r", "-cd", "-fast", "-cc", "4", "-p", "2"],
    &["-r", "-cd", "-fast", "-pp", "-cc", "4", "-p", "1"],
];

/// Lengths of a tree's files: nothing, one byte, around a block of the client's, several.
const LENGTHS: [usize; 8] = [0, 1, 70_000, 256 << 10, (256 << 10) + 1, 300_000, 1 << 20, 1_500_001];

const THIRD_PARTY: &str = "third_party = true\nthird_party_networks = ['127.0.0.0/8']";

/// A node that is reached by one of the schemes, and a server of Globus' own.
struct Ends<'a> {
    /// The client, as it reaches both.
    guc: &'a dyn Fn() -> Command,
    /// A folder of this host, which is the stock server's too.
    here: &'a Path,
    /// The folder of the node that its URL names.
    root: PathBuf,
    node: String,
    /// Without a path.
    stock: String,
}

impl Ends<'_> {
    fn at_node(&self, name: &str) -> String {
        format!("{}/{name}", self.node)
    }

    fn at_stock(&self, name: &str) -> String {
        format!("{}{}", self.stock, self.here.join(name).display())
    }

    fn local(&self, name: &str) -> String {
        file_url(&self.here.join(name))
    }

    fn copy(&self, options: &[&str], from: &str, to: &str) {
        succeed((self.guc)().args(options).args([from, to]));
    }

    /// Copies files as the tables say.
    fn copy_files(&self) {
        let whole = random(21, LEN);
        let file = self.here.join("file");
        fs::write(&file, &whole).expect("written");
        for (index, options) in OF_A_FILE.into_iter().enumerate() {
            let (up, back) = (format!("up{index}"), format!("back{index}"));
            self.copy(options, &self.local("file"), &self.at_node(&up));
            assert!(same(&file, &self.root.join(&up)), "{options:?}, up");
            self.copy(options, &self.at_node(&up), &self.local(&back));
            assert!(same(&file, &self.here.join(&back)), "{options:?}, down");
        }
        for (index, options) in OF_TWO_SERVERS.into_iter().enumerate() {
            let (to_node, to_stock) = (format!("in{index}"), format!("out{index}"));
            self.copy(options, &self.at_stock("file"), &self.at_node(&to_node));
            assert!(same(&file, &self.root.join(&to_node)), "{options:?}, to the node");
            self.copy(options, &self.at_node(&to_node), &self.at_stock(&to_stock));
            assert!(same(&file, &self.here.join(&to_stock)), "{options:?}, from the node");
        }
        for (index, (options, from, to)) in OF_A_PART.into_iter().enumerate() {
            let part = format!("part{index}");
            self.copy(options, &self.local("file"), &self.at_node(&part));
            let landed = fs::read(self.root.join(&part)).expect("it landed");
            let expected = [&vec![0; from][..], &whole[from..to]].concat();
            assert!(landed == expected, "{options:?}: {} bytes", landed.len());
            // And down, into a file that has the rest.
            fs::write(self.here.join("rest"), &whole).expect("written");
            let (off, len) = (from.to_string(), (to - from).to_string());
            let down = ["-off", &off, "-len", &len];
            self.copy(&down, &self.at_node(&part), &self.local("rest"));
            assert!(same(&file, &self.here.join("rest")), "{down:?}");
        }
        assert!(hidden(&self.root).is_empty(), "something was left");
    }

    /// Copies trees as the table says, and brings folders up to date by each level.
    fn copy_trees(&self) {
        let source = self.here.join("src");
        for (index, len) in LENGTHS.into_iter().cycle().take(24).enumerate() {
            let folder = source.join(["", "deep", "deep/er"][index % 3]);
            fs::create_dir_all(&folder).expect("a folder");
            let bytes = random(index as u64, len);
            fs::write(folder.join(format!("f{index}")), bytes).expect("written");
        }
        for (index, options) in OF_A_TREE.into_iter().enumerate() {
            let (up, back) = (format!("up{index}/"), format!("back{index}/"));
            self.copy(options, &self.local("src/"), &self.at_node(&up));
            succeed(Command::new("diff").arg("-r").args([&source, &self.root.join(&up)]));
            self.copy(options, &self.at_node(&up), &self.local(&back));
            succeed(Command::new("diff").arg("-r").args([&source, &self.here.join(&back)]));
        }
        sync_levels(self.guc, &self.here.join("synced"), &self.root, &self.node);
    }
}

fn by_ftp(tried: impl Fn(&Ends<'_>)) {
    let dir = folder();
    let root = dir.path().join("root");
    fs::create_dir(&root).expect("a folder");
    let third_party = ["--third-party", "--third-party-net", "127.0.0.0/8"];
    let (_node, node) = node(&root, "write", &third_party);
    let (_server, stock) = globus_server();
    tried(&Ends { guc: &globus_url_copy, here: dir.path(), root, node, stock });
}

/// The stock server at the other end is reached by `ftp://`: a second sshd would run the same.
fn by_sshftp(tried: impl Fn(&Ends<'_>)) {
    let host = Host::of_farline();
    let (here, root) = (host.at(""), host.at("root"));
    fs::create_dir(&root).expect("a folder");
    let (_server, stock) = globus_server();
    tried(&Ends { guc: &|| host.guc(), here: &here, root, node: host.url("root"), stock });
}

fn by_gsiftp(tried: impl Fn(&Ends<'_>)) {
    let grid = Grid::new(THIRD_PARTY);
    let proxy = grid.proxy("alice", &[]);
    let (_server, stock) = grid.globus_server(&[]);
    let (here, root, node) = (grid.at(""), grid.at("root"), grid.url.clone());
    tried(&Ends { guc: &|| grid.guc(&proxy), here: &here, root, node, stock });
}

#[test]
fn files_go_by_ftp_as_each_option_says() {
    by_ftp(|ends| ends.copy_files());
}

#[test]
fn trees_go_by_ftp_as_each_option_says() {
    by_ftp(|ends| ends.copy_trees());
}

#[test]
fn files_go_by_sshftp_as_each_option_says() {
    by_sshftp(|ends| ends.copy_files());
}

#[test]
fn trees_go_by_sshftp_as_each_option_says() {
    by_sshftp(|ends| ends.copy_trees());
}

#[test]
fn files_go_by_gsiftp_as_each_option_says() {
    by_gsiftp(|ends| ends.copy_files());
}

#[test]
fn trees_go_by_gsiftp_as_each_option_says() {
    by_gsiftp(|ends| ends.copy_trees());
}

/// As by `ftp://`, with a login and what was delegated anew.
#[test]
fn rst_goes_on_by_gsiftp_after_a_node_was_killed() {
    // The file takes more than a second at that.
    let mut grid = Grid::with(THIRD_PARTY, "rate = '32Mbit/s'");
    let proxy = grid.proxy("alice", &[]);
    let (_server, stock) = grid.globus_server(&[]);
    for folder in ["root/in", "there"] {
        fs::create_dir(grid.at(folder)).expect("a folder");
    }
    let big = grid.at("big");
    fs::copy(&big, grid.at("root/big")).expect("copied");
    let (node, stock) = (grid.url.clone(), format!("{stock}{}", grid.at("").display()));
    // To the node, and from it.
    for (from, to, folder) in [
        (format!("{stock}big"), format!("{node}/in/new"), grid.at("root/in")),
        (format!("{node}/big"), format!("{stock}there/new"), grid.at("there")),
    ] {
        let mut guc = grid.guc(&proxy);
        guc.args(["-rst", "-rst-interval", "1", "-p", "2", &from, &to]);
        let mut copy = Running(guc.stderr(Stdio::piped()).spawn().expect("it runs"));
        wait_for("the first of it", || came(&folder, 256 << 10));
        assert!(copy.0.try_wait().expect("it is ours").is_none(), "it was over before");
        grid.restart_the_node();
        let (ended, _, said) = copy.finish();
        assert!(ended.success(), "{from} to {to}: {said}");
        assert!(same(&big, &folder.join("new")), "{from} to {to}");
        assert!(hidden(&folder).is_empty(), "something was left");
    }
}

/// Bytes that a process has read (`rchar`) or written (`wchar`), by its kernel.
fn counted(process: &Running, what: &str) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{}/io", process.id())).expect("counted");
    let count = counts.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
    count.and_then(|count| count.parse().ok()).expect("a count")
}

/// The longest range that a server said it holds, in what `-dbg` shows of its replies.
fn longest_range(said: &str) -> u64 {
    let markers = said.split("111 Range Marker ").skip(1).filter_map(|rest| rest.lines().next());
    let len = |range: &str| {
        let (from, to) = range.trim().split_once('-')?;
        to.parse::<u64>().ok()?.checked_sub(from.parse().ok()?)
    };
    markers.flat_map(|text| text.split(',').filter_map(len)).max().unwrap_or(0)
}

#[test]
fn rst_sends_no_second_time_what_a_server_said_it_holds() {
    // For eight seconds: a server of Globus' own says every five what it holds.
    let mut grid = Grid::with(THIRD_PARTY, "rate = '5Mbit/s'");
    let proxy = grid.proxy("alice", &[]);
    let (_server, stock) = grid.globus_server(&[]);
    fs::create_dir(grid.at("there")).expect("a folder");
    let big = grid.at("big");
    fs::copy(&big, grid.at("root/big")).expect("copied");
    let len = fs::metadata(&big).expect("it is there").len();
    let said = fs::File::create(grid.at("said")).expect("made");
    let mut guc = grid.guc(&proxy);
    guc.args(["-dbg", "-rst", "-rst-interval", "1", "-p", "1"]);
    guc.arg(format!("{}/big", grid.url)).arg(format!("{stock}{}", grid.at("there/new").display()));
    let copy = Running(guc.stderr(said).spawn().expect("it runs"));
    let held = || longest_range(&fs::read_to_string(grid.at("said")).unwrap_or_default());
    let mut copy = copy.until("a marker", || held() > len / 10);
    let held = held();
    grid.restart_the_node();
    assert!(copy.0.wait().expect("it ends").success(), "{held} bytes were held");
    assert!(same(&big, &grid.at("there/new")));
    let read = counted(&grid.node, "rchar");
    assert!(held < len && read < len - held + (1 << 20), "{read} of {len}, {held} were held");
}

/// A node keeps nothing of what a stock client was cut off in, and this client knows of no earlier
/// run.
#[test]
fn a_file_whose_client_was_killed_begins_anew() {
    // The file takes some seconds at that.
    let grid = Grid::with("", "rate = '80Mbit/s'");
    let proxy = grid.proxy("alice", &[]);
    fs::write(grid.at("big"), random(3, 40_000_001)).expect("written");
    let (big, into, back) = (grid.at("big"), grid.at("root/in"), grid.at("back"));
    for folder in [&into, &back] {
        fs::create_dir(folder).expect("a folder");
    }
    let there = format!("{}/in/new", grid.url);
    let copy = |from: &str, to: &str| {
        let mut guc = grid.guc(&proxy);
        guc.args(["-p", "2", from, to]);
        guc
    };
    let killed = |from: &str, to: &str, has_begun: &dyn Fn() -> bool| {
        let mut copy = Running(copy(from, to).spawn().expect("it runs"));
        wait_for("the first of it", has_begun);
        assert!(copy.0.try_wait().expect("it is ours").is_none(), "it was over before");
        // It is a child of `timeout`, and lets a copy end that it is to end.
        let children = format!("/proc/{0}/task/{0}/children", copy.id());
        let child = fs::read_to_string(children).expect("its child");
        let child = child.trim().parse().ok().and_then(Pid::from_raw).expect("one child");
        kill_process(child, Signal::KILL).expect("it is ours");
        copy.0.wait().expect("it ends");
    };
    killed(&file_url(&big), &there, &|| came(&into, 256 << 10));
    wait_for("nothing to be left", || names(&into).is_empty());
    succeed(&mut copy(&file_url(&big), &there));
    assert!(same(&big, &into.join("new")));
    let new = back.join("new");
    killed(&there, &file_url(&new), &|| came(&back, 256 << 10));
    // What is there is fetched again: the mark goes.
    let mut begun = fs::read(&new).expect("a part");
    begun[10] ^= 1;
    fs::write(&new, &begun).expect("written");
    succeed(&mut copy(&there, &file_url(&new)));
    assert!(same(&big, &new));
}
