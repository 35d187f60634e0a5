//! Farline against the real peers: globus-url-copy and globus-gridftp-server, curl and lftp.
//!
//! `make test` installs them. A machine without one fails here rather than passing untested.

use farline_lab::files::{names, random, same};
use farline_lab::{assert_same_tree, farline, globus_server, json_of, node, plant, succeed};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// A file of a few blocks and a rest, not compressible.
fn big(path: &Path) {
    std::fs::write(path, random(3, 12_000_000)).expect("written");
}

fn guc() -> Command {
    let mut command = farline_lab::command("timeout");
    command.args(["60", "globus-url-copy"]);
    command
}

#[test]
fn globus_url_copy_gets_and_puts_with_one_and_four_channels() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("big"));
    std::fs::create_dir_all(&root).expect("a folder");
    big(&file);
    let (_node, url) = node(&root, "write", &[]);
    for channels in ["1", "4"] {
        let here = format!("file://{}", file.display());
        let back = dir.path().join(format!("back{channels}"));
        succeed(guc().args(["-p", channels, &here, &format!("{url}/big{channels}")]));
        succeed(guc().args([
            "-p",
            channels,
            &format!("{url}/big{channels}"),
            &format!("file://{}", back.display()),
        ]));
        assert!(
            std::fs::read(&file).expect("source") == std::fs::read(&back).expect("came back"),
            "-p {channels} changed bytes"
        );
        // MODE E for one channel too, several files over the same channels.
        succeed(guc().args(["-fast", "-p", channels, &here, &format!("{url}/fast{channels}")]));
        assert!(
            std::fs::read(&file).expect("source")
                == std::fs::read(root.join(format!("fast{channels}"))).expect("landed")
        );
    }
}

#[test]
fn globus_url_copy_copies_trees_and_parts_names_what_lacks() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::create_dir_all(source.join("deep/er")).expect("a folder");
    for i in 0..30 {
        std::fs::write(
            source.join(["", "deep", "deep/er"][i % 3]).join(format!("f{i}")),
            format!("{i}").repeat(i * 50),
        )
        .expect("written");
    }
    let (_node, url) = node(&root, "write", &[]);
    let here = format!("file://{}/", source.display());
    succeed(guc().args(["-r", "-cd", "-fast", "-p", "2", &here, &format!("{url}/tree/")]));
    succeed(Command::new("diff").arg("-r").arg(&source).arg(root.join("tree")));
    let back = dir.path().join("back");
    succeed(guc().args([
        "-r",
        "-cd",
        "-fast",
        "-p",
        "2",
        &format!("{url}/tree/"),
        &format!("file://{}/", back.display()),
    ]));
    succeed(Command::new("diff").arg("-r").arg(&source).arg(&back));
    let part = dir.path().join("part");
    succeed(guc().args([
        "-off",
        "100",
        "-len",
        "50",
        &format!("{url}/tree/f27"),
        &format!("file://{}", part.display()),
    ]));
    let whole = std::fs::read(source.join("f27")).expect("source");
    // globus-url-copy puts the part where it stood in the whole.
    assert_eq!(std::fs::read(&part).expect("a part")[100..], whole[100..150]);
    let missing =
        guc().args([&format!("{url}/missing"), "file:///dev/stdout"]).output().expect("runs");
    assert!(!missing.status.success());
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(said.contains("No such file"), "the client hears the reason: {said}");
}

#[test]
fn globus_url_copy_pipelines_files_around_every_length() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root) = (dir.path().join("src"), dir.path().join("root"));
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::create_dir_all(&source).expect("a folder");
    // What comes with its headers in one read, what does not, what threads take over, and nothing.
    let lengths =
        [0, 1, 1 << 10, (64 << 10) - 34, 64 << 10, (64 << 10) + 1, 300 << 10, 1 << 20, 3 << 20];
    for (index, len) in lengths.iter().cycle().take(60).enumerate() {
        std::fs::write(source.join(format!("f{index}")), random(index as u64, *len))
            .expect("written");
    }
    let (_node, url) = node(&root, "write", &[]);
    for (name, channels) in [("one", "1"), ("four", "4")] {
        let back = dir.path().join(name);
        let pipelined = ["-r", "-cd", "-fast", "-pp", "-cc", "4", "-p", channels];
        let (here, there) = (format!("file://{}/", source.display()), format!("{url}/{name}/"));
        succeed(guc().args(pipelined).args([&here, &there]));
        succeed(Command::new("diff").arg("-r").arg(&source).arg(root.join(name)));
        succeed(guc().args(pipelined).args([&there, &format!("file://{}/", back.display())]));
        succeed(Command::new("diff").arg("-r").arg(&source).arg(&back));
    }
    assert!(farline_lab::files::hidden(&root.join("one")).is_empty());
}

#[test]
fn farline_puts_to_and_gets_from_a_real_globus_server() {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, source, there) =
        (dir.path().join("big"), dir.path().join("src"), dir.path().join("there"));
    std::fs::create_dir_all(&there).expect("a folder");
    big(&file);
    plant(&source);
    // A stock server is sent no links.
    std::fs::remove_file(source.join("link")).expect("removed");
    let (_server, url) = globus_server();
    let at = format!("{url}{}", there.display());
    for channels in ["1", "4"] {
        let result = json_of(
            farline()
                .args(["--json", "cp", "--streams", channels])
                .arg(&file)
                .arg(format!("{at}/big{channels}")),
        );
        assert_eq!(
            result["verified"], true,
            "a stock server computes no digest while it receives, but one after"
        );
        assert!(
            std::fs::read(&file).expect("source")
                == std::fs::read(there.join(format!("big{channels}"))).expect("landed")
        );
        let back = dir.path().join(format!("back{channels}"));
        succeed(
            farline()
                .args(["-q", "cp", "--streams", channels, &format!("{at}/big{channels}")])
                .arg(&back),
        );
        assert!(std::fs::read(&file).expect("source") == std::fs::read(&back).expect("came back"));
        succeed(
            farline()
                .args(["-q", "cp", "-r", "--streams", channels])
                .arg(&source)
                .arg(format!("{at}/up{channels}")),
        );
        succeed(
            Command::new("diff")
                .arg("-r")
                .arg(&source)
                .arg(there.join(format!("up{channels}/src"))),
        );
        let tree = dir.path().join(format!("tree{channels}"));
        succeed(
            farline()
                .args(["-q", "cp", "-r", "--streams", channels, &format!("{at}/up{channels}/src/")])
                .arg(&tree),
        );
        succeed(Command::new("diff").arg("-r").arg(&source).arg(&tree));
    }
    let hidden = succeed(Command::new("find").arg(&there).args(["-name", ".*.farline"]));
    assert_eq!(hidden, "", "no temporary names are left");
}

#[test]
fn curl_and_lftp_list_get_put_and_resume() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("big"));
    std::fs::create_dir_all(&root).expect("a folder");
    big(&file);
    let (_node, url) = node(&root, "write", &[]);
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60"]);
        command
    };
    succeed(curl().arg("-T").arg(&file).arg(format!("{url}/big")));
    assert!(
        std::fs::read(&file).expect("source") == std::fs::read(root.join("big")).expect("landed")
    );
    assert!(succeed(curl().arg(format!("{url}/"))).contains("big"));
    let part = dir.path().join("part");
    let begun = |at: &std::path::Path| {
        std::fs::write(at, &std::fs::read(&file).expect("source")[..1_000_000]).expect("written");
    };
    let is_whole = |at: &std::path::Path| {
        std::fs::read(&file).expect("source") == std::fs::read(at).expect("resumed")
    };
    begun(&part);
    succeed(curl().args(["-C", "-", "-o"]).arg(&part).arg(format!("{url}/big")));
    assert!(is_whole(&part), "curl's download");
    // Uploads go on from what stands there, and lftp's downloads too.
    begun(&root.join("up"));
    succeed(curl().args(["-C", "-", "-T"]).arg(&file).arg(format!("{url}/up")));
    assert!(is_whole(&root.join("up")), "curl's upload");
    begun(&root.join("up2"));
    begun(&part);
    let script = format!(
        "open {url}; put -c {} -o up2; get -c big -o {}; quit",
        file.display(),
        part.display()
    );
    succeed(farline_lab::command("timeout").args(["60", "lftp", "-c", &script]));
    assert!(is_whole(&root.join("up2")) && is_whole(&part), "lftp's upload and download");
    let script = format!(
        "open {url}; mkdir d; mirror -R {} d; cls -1 d; get big -o {}; rm big; quit",
        dir.path().join("src").display(),
        dir.path().join("got").display()
    );
    std::fs::create_dir_all(dir.path().join("src/x")).expect("a folder");
    std::fs::write(dir.path().join("src/x/y"), "z").expect("written");
    let said = succeed(farline_lab::command("timeout").args(["60", "lftp", "-c", &script]));
    assert!(said.contains("d/x"), "{said}");
    assert_eq!(std::fs::read_to_string(root.join("d/x/y")).expect("mirrored"), "z");
    assert!(!root.join("big").exists(), "lftp removed it");
    assert!(
        std::fs::read(&file).expect("source")
            == std::fs::read(dir.path().join("got")).expect("got")
    );
}

#[test]
fn what_curl_and_lftp_had_when_killed_is_not_fetched_again() {
    use farline_lab::{Running, wait_for};
    use rustix::process::Signal;
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("root")).expect("a folder");
    big(&at("root/big"));
    let (_node, url) = node(&at("root"), "read", &[]);
    let curl = |part: &Path| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60", "-C", "-", "-o"]).arg(part);
        command.arg(format!("{url}/big"));
        command
    };
    let lftp = |part: &Path, first: &str| {
        let mut command = farline_lab::command("lftp");
        let get = format!("{first} open {url}; get -c big -o {}; quit", part.display());
        command.args(["-c", &get]);
        command
    };
    let mut slow = curl(&at("curl"));
    slow.args(["--limit-rate", "2M"]);
    for (name, mut slow, mut again) in [
        ("curl", slow, curl(&at("curl"))),
        ("lftp", lftp(&at("lftp"), "set net:limit-rate 2000000;"), lftp(&at("lftp"), "")),
    ] {
        let mut killed = Running(slow.spawn().expect("it is installed"));
        let held = || std::fs::metadata(at(name)).map_or(0, |meta| meta.len());
        wait_for("the first of it", || held() > 1_000_000);
        killed.end(Signal::KILL);
        let held = held();
        assert!(held < 12_000_000, "{name}: it was over before");
        // What is there is not fetched again: the mark stays.
        let mut begun = std::fs::read(at(name)).expect("a part");
        begun[10] ^= 1;
        std::fs::write(at(name), &begun).expect("written");
        succeed(&mut again);
        begun.extend(&std::fs::read(at("root/big")).expect("there")[begun.len()..]);
        assert!(std::fs::read(at(name)).expect("whole") == begun, "{name}");
    }
}

/// A node keeps nothing of what a stock client was cut off in.
#[test]
fn what_curl_and_lftp_were_killed_in_sending_is_sent_anew() {
    use farline_lab::{Running, wait_for};
    use rustix::process::Signal;
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("root")).expect("a folder");
    big(&at("big"));
    let (_node, url) = node(&at("root"), "write", &[]);
    let curl = |more: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60", "-C", "-"]).args(more);
        command.arg("-T").arg(at("big")).arg(format!("{url}/new"));
        command
    };
    let lftp = |first: &str| {
        let mut command = farline_lab::command("lftp");
        let put = format!("{first} open {url}; put -c {} -o new; quit", at("big").display());
        command.args(["-c", &put]);
        command
    };
    for (name, mut slow, mut again) in [
        ("curl", curl(&["--limit-rate", "2M"]), curl(&[])),
        ("lftp", lftp("set net:limit-rate 2000000;"), lftp("")),
    ] {
        let mut killed = Running(slow.spawn().expect("it is installed"));
        wait_for("the first of it", || !names(&at("root")).is_empty());
        killed.end(Signal::KILL);
        wait_for("nothing to be left", || names(&at("root")).is_empty());
        succeed(&mut again);
        assert!(same(&at("big"), &at("root/new")), "{name}");
        std::fs::remove_file(at("root/new")).expect("it was there");
    }
}

#[test]
fn curl_and_lftp_are_told_a_checksum_that_they_quote() {
    let dir = tempfile::tempdir().expect("a folder");
    big(&dir.path().join("big"));
    let (_node, url) = node(dir.path(), "read", &[]);
    let sums = [("SHA256", "sha256sum"), ("MD5", "md5sum")];
    for (algorithm, program) in sums {
        let own = succeed(Command::new(program).arg(dir.path().join("big")));
        let told = format!("213 {}", own.split(' ').next().expect("a digest"));
        let asked = format!("CKSM {algorithm} 0 -1 /big");
        let script = format!("open {url}; quote {asked}; quit");
        let lftp = succeed(farline_lab::command("timeout").args(["60", "lftp", "-c", &script]));
        assert!(lftp.contains(&told), "{lftp}, not {told}");
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-v", "--max-time", "60", "-Q", &asked, &format!("{url}/")]);
        let output = curl.output().expect("curl runs");
        let curl = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && curl.contains(&told), "{curl}, not {told}");
    }
}

#[test]
fn ipv6_works_as_ipv4_does() {
    if TcpListener::bind("[::1]:0").is_err() {
        farline_lab::skip("this machine has no IPv6 loopback");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("root");
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&dir.path().join("src"));
    let (_node, url) = node(&root, "write", &["--listen", "[::1]:0"]);
    succeed(
        farline().args(["-q", "cp", "-r", "--streams", "3"]).arg(dir.path().join("src")).arg(&url),
    );
    assert_same_tree(&dir.path().join("src"), &root.join("src"));
    succeed(
        farline()
            .args(["-q", "cp", "-r", "--streams", "3", &format!("{url}/src")])
            .arg(dir.path().join("back")),
    );
    assert_same_tree(&dir.path().join("src"), &dir.path().join("back/src"));
    // curl asks for EPSV there; with -g the address's brackets are no pattern.
    let (file, back) = (dir.path().join("big"), dir.path().join("big-back"));
    big(&file);
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["-gsS", "--max-time", "60"]);
        command
    };
    let there = format!("{url}/big");
    succeed(curl().arg("-T").arg(&file).arg(&there));
    assert!(same(&file, &root.join("big")), "curl's upload");
    succeed(curl().arg("-o").arg(&back).arg(&there));
    assert!(same(&file, &back), "curl's download");
}

#[test]
fn lftp_mirrors_a_tree_with_its_links_both_ways() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("root")).expect("a folder");
    std::fs::create_dir_all(at("tree/deep")).expect("a folder");
    for (index, name) in ["a", "b c", "deep/d"].iter().enumerate() {
        std::fs::write(at("tree").join(name), random(index as u64, index * 70_000 + 5))
            .expect("written");
    }
    let links = [
        ("a", "to-file"),
        ("deep", "to-folder"),
        ("../a", "deep/up"),
        ("nowhere", "dangling"),
        ("/etc/passwd", "outside"),
        ("b c", "with a blank"),
    ];
    for (target, name) in links {
        symlink(target, at("tree").join(name)).expect("linked");
    }
    let (_node, url) = node(&at("root"), "write", &[]);
    let lftp = |script: String| {
        let mut lftp = farline_lab::command("timeout");
        succeed(lftp.args(["60", "lftp", "-c", &format!("open {url}; {script}")]))
    };
    // Again, too: what is there already is no error.
    for _ in 0..2 {
        lftp(format!("mirror -R {} /tree", at("tree").display()));
        succeed(
            Command::new("diff")
                .args(["-r", "--no-dereference"])
                .args([at("tree"), at("root/tree")]),
        );
    }
    // By MLSD lftp sees what a link leads to; by LIST the link.
    lftp(format!("set ftp:use-mlsd no; mirror /tree {}", at("back").display()));
    succeed(Command::new("diff").args(["-r", "--no-dereference"]).args([at("tree"), at("back")]));
}

/// What a server lists of all that is below `path`: kind, name and, of a file, its length.
fn listed_below(url: &str, path: &str) -> Vec<String> {
    use std::io::Read;
    let mut client = farline_lab::raw::RawClient::in_stream_mode(url);
    let mut data = client.passive();
    client.say(&format!("MLSR {path}"));
    let mut text = String::new();
    data.read_to_string(&mut text).expect("a list");
    let reply = client.final_reply();
    assert!(reply.starts_with("226"), "{reply}");
    let lines = text.lines().map(|line| {
        let (facts, name) = line.split_once(' ').expect("facts and a name");
        let fact = |name: &str| facts.split(';').find_map(|fact| fact.strip_prefix(name));
        let kind = fact("Type=").expect("a type");
        let len = fact("Size=").filter(|_| kind == "file").unwrap_or("");
        format!("{kind} {len} {name}")
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

#[test]
fn mlsr_lists_what_a_globus_server_lists() {
    let dir = tempfile::tempdir().expect("a folder");
    for (index, name) in ["a", "b c", "deep/d", "deep/er/e", "deep/er/f", "z/g"].iter().enumerate()
    {
        let path = dir.path().join("tree").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, random(index as u64, index * 7_000)).expect("written");
    }
    std::fs::create_dir(dir.path().join("tree/empty")).expect("made");
    let (_node, url) = node(dir.path(), "read", &[]);
    let (_server, globus) = globus_server();
    let ours = listed_below(&url, "/tree");
    assert_eq!(ours, listed_below(&globus, dir.path().join("tree").to_str().expect("text")));
    assert_eq!(ours.len(), 6 + 5, "{ours:?}");
    // A link is listed, and what it leads to is not listed again.
    std::os::unix::fs::symlink("..", dir.path().join("tree/deep/up")).expect("linked");
    let linked = listed_below(&url, "/tree");
    assert_eq!(linked.len(), ours.len() + 1, "{linked:?}");
}
