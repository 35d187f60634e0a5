//! Servers that mean harm: what they say and send leaves nothing outside the destination, nothing
//! on the terminal that it would obey, no memory without bound, and one clear error.

use farline_lab::files::{hidden, names, text};
use farline_lab::raw::{Blocks, ScriptedServer, dripping_greeting};
use farline_lab::{error_of, farline};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A file of five bytes in MODE E.
fn five() -> Vec<u8> {
    [Blocks::header(0, 0, 5), b"owned".to_vec(), Blocks::eof(1)].concat()
}

fn file(name: &[u8]) -> Vec<u8> {
    [b"Type=file;Size=5;Modify=20200101000000; ", name].concat()
}

/// Whether a terminal would obey something of this.
fn steers(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).chars().any(|c| c.is_control() && c != '\n')
}

/// Copies the tree of `server` into `dir`/got, for people; returns what was said and the exit code.
fn copy_tree(server: ScriptedServer, dir: &Path) -> (Vec<u8>, Option<i32>) {
    let port = server.start();
    let output = farline()
        .args(["cp", "-r", "--timeout", "10", &format!("ftp://127.0.0.1:{port}/d/")])
        .arg(dir.join("got"))
        .output()
        .expect("farline runs");
    ([output.stdout, output.stderr].concat(), output.status.code())
}

#[test]
fn names_of_a_server_lead_nowhere_outside() {
    let dir = tempfile::tempdir().expect("a folder");
    let listing = |folder: &str| match folder.trim_end_matches('/') {
        "/d" => vec![
            file(b"../evil"),
            file(b"/etc/farline-evil"),
            file(b".."),
            file(b"a/../../evil"),
            b"Type=OS.unix=slink;UNIX.slink=..;Modify=20200101000000; up".to_vec(),
            b"Type=dir;Modify=20200101000000; up".to_vec(),
            b"Type=dir;Modify=20200101000000; ..".to_vec(),
            file(b"good"),
        ],
        _ => vec![file(b"evil")],
    };
    let server = ScriptedServer {
        size: 5,
        blocks: five(),
        listing: Some(listing),
        ..ScriptedServer::default()
    };
    let (said, code) = copy_tree(server, dir.path());
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(names(dir.path()).iter().all(|name| name == "got"), "{said}");
    assert!(!Path::new("/etc/farline-evil").exists(), "{said}");
    assert!(matches!(code, Some(0 | 2..=6)), "{code:?}: {said}");
    // What lies there lies below, whatever the server called it.
    let found = Command::new("find").arg(dir.path()).args(["-name", "*evil*"]).output();
    let found = String::from_utf8(found.expect("find runs").stdout).expect("text");
    let below = dir.path().join("got");
    assert!(found.lines().all(|path| Path::new(path).starts_with(&below)), "{found}");
}

#[test]
fn what_comes_with_the_reply_to_auth_is_no_part_of_a_later_one() {
    for behind in ["230 ", "230-all of what follows\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let port = listener.local_addr().expect("an address").port();
        let server = std::thread::spawn(move || -> std::io::Result<()> {
            let (mut client, _) = listener.accept()?;
            client.write_all(b"220 ready\r\n")?;
            for line in BufReader::new(client.try_clone()?).lines() {
                match line?.starts_with("AUTH") {
                    true => client.write_all(format!("234 go on\r\n{behind}").as_bytes())?,
                    false => client.write_all(b"500 no\r\n")?,
                }
            }
            Ok(())
        });
        let url = format!("ftps://127.0.0.1:{port}/x");
        let (error, _) = error_of(&["cp", "--retry-for", "0", &url, "null:"]);
        assert_eq!(error["code"], "protocol-broken", "{error}");
        // It may have been in the middle of a line.
        let _ = server.join().expect("no panic");
    }
}

#[test]
fn names_of_a_server_do_not_steer_the_terminal() {
    let dir = tempfile::tempdir().expect("a folder");
    let listing = |folder: &str| match folder.trim_end_matches('/') {
        "/d" => vec![
            b"Type=x;Modify=20200101000000; a\x1b]0;owned\x07b\xc2\x9b2Jc".to_vec(),
            file(b"good"),
        ],
        _ => Vec::new(),
    };
    let server = ScriptedServer {
        size: 5,
        blocks: five(),
        listing: Some(listing),
        ..ScriptedServer::default()
    };
    let (said, code) = copy_tree(server.clone(), dir.path());
    let text = String::from_utf8_lossy(&said).into_owned();
    assert!(!steers(&said), "{text:?}");
    assert!(text.contains("a\\x1b]0;owned\\x07b\\x9b2Jc"), "{text}");
    assert_eq!(names(&dir.path().join("got")), ["good"], "{text}");
    assert_ne!(code, Some(0), "{text}");
    let port = server.start();
    let output = farline()
        .args(["--json", "cp", "-r", &format!("ftp://127.0.0.1:{port}/d/")])
        .arg(dir.path().join("json"))
        .output()
        .expect("farline runs");
    assert!(!steers(&output.stdout) && !steers(&output.stderr), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(said["failures"][0]["path"], "a\u{1b}]0;owned\u{7}b\u{9b}2Jc", "{said}");
}

#[test]
fn a_greeting_or_refusal_does_not_steer_the_terminal() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().join("got");
    for words in [&b"421 \x1b[2Jno\x07 \xc2\x9b2J\r\n"[..], b"\x1b]0;x\x07\r\n"] {
        let port = farline_lab::raw::answer_with(words.to_vec());
        let url = format!("ftp://127.0.0.1:{port}/x");
        for json in [&["--json"][..], &[]] {
            let output = farline().args(json).args(["cp", &url]).arg(&here).output();
            let output = output.expect("farline runs");
            assert!(!steers(&output.stdout) && !steers(&output.stderr), "{output:?}");
            assert!(!output.status.success());
        }
    }
}

#[test]
fn a_tree_without_an_end_is_given_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let deeper = |_: &str| {
        vec![b"Type=dir;Modify=20200101000000; ".iter().copied().chain([b'd'; 200]).collect()]
    };
    let wider = |_: &str| (0..100_000).map(|i| file(format!("{i:0>100}").as_bytes())).collect();
    for (what, listing) in [("deeper", deeper as fn(&str) -> _), ("wider", wider)] {
        let port = ScriptedServer { listing: Some(listing), ..ScriptedServer::default() }.start();
        let got = dir.path().join("got");
        let url = format!("ftp://127.0.0.1:{port}/d/");
        // Bounded memory: far less than the list would take that never ends.
        let limited = format!("ulimit -v 4000000; exec \"$0\" --json cp -r {url} \"$1\"");
        let mut command = farline_lab::command("sh");
        command.args(["-c", &limited]).arg(farline_lab::farline_binary()).arg(&got);
        let (error, code) = farline_lab::error_of_command(&mut command);
        assert_eq!((error["fault"].as_str(), code), (Some("there"), 4), "{what}: {error}");
        assert!(!got.exists() || names(&got).is_empty(), "{what}");
    }
}

#[test]
fn single_bytes_hold_a_client_up_no_longer_than_silence() {
    let every = Duration::from_millis(100);
    let content = [Blocks::header(0, 0, 10_000), vec![b'x'; 10_000], Blocks::eof(1)].concat();
    let data =
        ScriptedServer { size: 10_000, blocks: content, drips: every, ..ScriptedServer::default() };
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().join("got");
    for (what, port, code) in [
        ("data", data.start(), "peer-silent"),
        ("greeting", dripping_greeting(every), "control-timeout"),
    ] {
        let url = format!("ftp://127.0.0.1:{port}/f");
        let began = Instant::now();
        let (error, exit) = error_of(&["cp", "--timeout", "3", &url, here.to_str().expect("text")]);
        assert_eq!((error["code"].as_str(), exit), (Some(code), 5), "{what}: {error}");
        // All of it would take a quarter of an hour.
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", began.elapsed());
        assert!(!here.exists(), "{what}");
    }
}

#[test]
fn a_server_that_drips_is_left_at_a_deadline() {
    // More than a kilobyte in each --timeout, and a quarter of an hour in all.
    let content = [Blocks::header(0, 0, 90_000), vec![b'x'; 90_000], Blocks::eof(1)].concat();
    let drips = Duration::from_millis(10);
    let server =
        ScriptedServer { size: 90_000, blocks: content, drips, ..ScriptedServer::default() };
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().join("got");
    let here = here.to_str().expect("text");
    let (url, began) = (format!("ftp://127.0.0.1:{}/f", server.start()), Instant::now());
    let (error, exit) = error_of(&["cp", "--timeout", "30", "--deadline", "3s", &url, here]);
    let message = error["message"].as_str().expect("words");
    assert_eq!((error["code"].as_str(), exit), (Some("deadline-passed"), 5), "{error}");
    assert!(message.starts_with("the copy was not over within its --deadline, 3"), "{error}");
    assert!(message.contains("nothing half-done was left"), "{error}");
    assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
    let took = began.elapsed();
    let fits = Duration::from_secs(3) <= took && took < Duration::from_secs(30);
    assert!(fits && !Path::new(here).exists(), "{took:?}");
    // A copy that is over in time does not hear of it.
    let whole = ScriptedServer { size: 5, blocks: five(), ..ScriptedServer::default() }.start();
    let url = format!("ftp://127.0.0.1:{whole}/f");
    let copied = farline().args(["cp", "--deadline", "1min", &url, here]).output();
    assert!(copied.expect("farline runs").status.success());
    assert_eq!(std::fs::read(here).expect("it landed"), b"owned");
    let (error, exit) = error_of(&["cp", "--deadline", "0s", &url, here]);
    assert_eq!((error["code"].as_str(), exit), (Some("usage"), 2), "{error}");
}

#[test]
fn a_wrong_size_or_digest_lands_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().join("got");
    for (what, size, digest, code) in [
        ("less than it said", 9, None, "incomplete"),
        ("more than it said", 3, None, "block-out-of-range"),
        ("another digest", 5, Some("00000000000000000000000000000000"), "digest-mismatch"),
        ("no digest at all", 5, Some("\u{1b}[2J"), ""),
    ] {
        let server = ScriptedServer { size, blocks: five(), digest, ..ScriptedServer::default() };
        let url = format!("ftp://127.0.0.1:{}/f", server.start());
        let (error, _) = error_of(&["cp", &url, here.to_str().expect("text")]);
        assert!(code.is_empty() || error["code"] == code, "{what}: {error}");
        assert!(!here.exists(), "{what}: {error}");
    }
}

#[test]
fn a_server_sends_its_client_to_no_service() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    std::fs::write(&file, b"for the server alone").expect("written");
    // A service that trusts this host, as one on another of its addresses does.
    let Ok(service) = TcpListener::bind("127.0.0.2:1023") else {
        return farline_lab::skip("only root has a low port, and nobody else may have this one");
    };
    service.set_nonblocking(true).expect("set");
    for passive in ["227 There (127,0,0,2,3,255)", "227 There (169,254,169,254,31,144)"] {
        let server = ScriptedServer { passive: Some(passive), ..ScriptedServer::default() };
        let url = format!("ftp://127.0.0.1:{}/f", server.start());
        let (error, exit) = error_of(&["cp", "--timeout", "10", text(&file), &url]);
        assert_eq!((error["code"].as_str(), exit), (Some("no-address"), 4), "{error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains("neither itself")));
        let came = service.accept().map(drop).expect_err("nobody connects to it").kind();
        assert_eq!(came, std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn a_plain_server_that_sends_without_an_end_fills_no_disk() {
    let dir = tempfile::tempdir().expect("a folder");
    let blocks = vec![b'x'; 1 << 20];
    let server = ScriptedServer { size: 5, blocks, is_endless: true, ..ScriptedServer::default() };
    let url = format!("ftp://127.0.0.1:{}/f", server.start());
    let got = dir.path().join("got");
    // Who writes a longer file is ended by a signal.
    let limited = format!("ulimit -f 20000; exec \"$0\" --json cp --retry-for 0s {url} \"$1\"");
    let mut command = farline_lab::command("sh");
    command.args(["-c", &limited]).arg(farline_lab::farline_binary()).arg(&got);
    let (error, code) = farline_lab::error_of_command(&mut command);
    assert_eq!((error["code"].as_str(), code), (Some("incomplete"), 4), "{error}");
    // Nor is anything kept of it.
    assert!(!got.exists() && hidden(dir.path()).is_empty(), "{:?}", hidden(dir.path()));
}

/// A server sends a link in one copy, and in the next one a folder of that name: what is in it does
/// not go where the link leads, not even within the directory that all is copied to.
#[test]
fn links_that_a_server_sent_are_not_its_way_elsewhere() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("aside")).expect("a folder");
    std::fs::write(dir.path().join("aside/mine"), "mine").expect("written");
    let link = |folder: &str| match folder.trim_end_matches('/') {
        "/d" => {
            vec![b"Type=OS.unix=slink;UNIX.slink=../aside;Modify=20200101000000; a".to_vec()]
        }
        _ => Vec::new(),
    };
    let content = |folder: &str| match folder.trim_end_matches('/') {
        "/d" => vec![b"Type=dir;Modify=20200101000000; a".to_vec(), file(b"good")],
        "/d/a" => vec![file(b"mine"), file(b"new")],
        _ => Vec::new(),
    };
    let copy = |listing: fn(&str) -> Vec<Vec<u8>>| {
        let listing = Some(listing);
        let server =
            ScriptedServer { size: 5, blocks: five(), listing, ..ScriptedServer::default() };
        let port = server.start();
        let output = farline()
            .args(["cp", "-r", "--timeout", "10", &format!("ftp://127.0.0.1:{port}/d")])
            .arg(format!("{}/", dir.path().display()))
            .output()
            .expect("farline runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let said = copy(link);
    let led = std::fs::read_link(dir.path().join("d/a"));
    assert_eq!(led.ok().as_deref(), Some(Path::new("../aside")), "{said}");
    let said = copy(content);
    assert!(said.contains("a symbolic link has its name"), "{said}");
    assert_eq!(names(&dir.path().join("aside")), ["mine"], "{said}");
    let mine = std::fs::read_to_string(dir.path().join("aside/mine"));
    assert_eq!(mine.ok().as_deref(), Some("mine"), "{said}");
    assert!(dir.path().join("d/good").exists(), "the rest lands: {said}");
}
