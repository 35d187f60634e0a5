//! Grids' own clients at a node by GSI: proxies, delegation, authenticated data channels, and who
//! is refused.

use crate::tls::openssl;
use farline_core::gridftp::attribute_certificates;
use farline_lab::files::random;
use farline_lab::{announced, farline_binary, succeed};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Stands among options for a client that knows TLS up to 1.2.
const OLD_TLS: &str = "TLS 1.2";

/// A site of a grid: an authority, a node that knows alice, and users with proxies.
pub(crate) struct Grid {
    folder: tempfile::TempDir,
    /// Ends with the test.
    pub(crate) node: farline_lab::Running,
    pub(crate) url: String,
    pub(crate) log: Arc<Mutex<String>>,
}

impl Grid {
    /// With `more` in the node's file.
    pub(crate) fn new(more: &str) -> Grid {
        Grid::with(more, "")
    }

    /// The same, with lines on alice.
    pub(crate) fn with(more: &str, alice: &str) -> Grid {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("security/certificates")).expect("a folder");
        fs::create_dir_all(at("root/tree/deep")).expect("a folder");
        fs::write(at("big"), random(11, 5_000_001)).expect("written");
        for (index, name) in ["a", "b", "deep/c"].iter().enumerate() {
            fs::write(at("root/tree").join(name), random(index as u64, index * 70_000))
                .expect("written");
        }
        authority(folder.path(), "ca", "/O=Grid/CN=Grid CA");
        trust(folder.path(), "ca", "/O=Grid/CN=Grid CA", "/O=Grid/*");
        sign(folder.path(), "ca", "host", "/O=Grid/CN=localhost");
        fs::rename(at("host.pem"), at("security/hostcert.pem")).expect("renamed");
        fs::rename(at("host.key"), at("security/hostkey.pem")).expect("renamed");
        sign(folder.path(), "ca", "alice", "/O=Grid/CN=alice");
        fs::write(at("security/grid-mapfile"), "\"/O=Grid/CN=alice\" alice,staff\n")
            .expect("written");
        let config = format!(
            "root = '{root}'\nlisten = '127.0.0.1:0'\ngsi = '{security}'\n{more}\n\
             [[identity]]\nname = 'alice'\npaths = {{ '/' = 'write' }}\nclear_data = true\n\
             {alice}\n",
            root = at("root").display(),
            security = at("security").display(),
        );
        fs::write(at("node.toml"), config).expect("written");
        let log = Arc::new(Mutex::new(String::new()));
        let (node, url) = node_of(&at("node.toml"), &[], &log);
        Grid { folder, node, url: url.replace("ftp://", "gsiftp://"), log }
    }

    /// Kills the node, and starts it again where it listened.
    pub(crate) fn restart_the_node(&mut self) {
        self.node.end(Signal::KILL);
        let address = self.url.replace("gsiftp://", "");
        let (node, _) = node_of(&self.at("node.toml"), &["--listen", &address], &self.log);
        self.node = node;
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A proxy of `user`'s by Globus' own command, with these arguments.
    pub(crate) fn proxy(&self, user: &str, more: &[&str]) -> PathBuf {
        let out = self.at(&format!("{user}{}.proxy", more.concat()));
        let mut command = Command::new("grid-proxy-init");
        command.args(["-q", "-cert"]).arg(self.at(&format!("{user}.pem"))).arg("-key");
        command.arg(self.at(&format!("{user}.key"))).arg("-out").arg(&out).args(more);
        succeed(command.env("X509_CERT_DIR", self.at("security/certificates")));
        out
    }

    /// A client of the grid with `proxy`.
    pub(crate) fn client(&self, command: &str, proxy: &Path) -> Command {
        let mut client = farline_lab::command("timeout");
        client.args(["30", command]).env("X509_USER_PROXY", proxy);
        // Whom clients trust, where that is not whom the node trusts.
        let trusted = Some(self.at("trusted")).filter(|folder| folder.exists());
        let trusted = trusted.unwrap_or_else(|| self.at("security/certificates"));
        client.env("X509_CERT_DIR", trusted);
        client.env("GFAL_PYTHONBIN", "/usr/bin/python3");
        client
    }

    pub(crate) fn guc(&self, proxy: &Path) -> Command {
        let mut client = self.client("globus-url-copy", proxy);
        client.args(["-s", "/O=Grid/CN=localhost"]);
        client
    }

    /// A real `globus-gridftp-server` of the same grid, and its URL.
    pub(crate) fn globus_server(&self, more: &[&str]) -> (farline_lab::Running, String) {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.expect("a free port").port();
        // The user of this machine that alice is to be.
        let user = succeed(Command::new("id").arg("-un"));
        let map = format!("\"/O=Grid/CN=alice\" {user}");
        fs::write(self.at("server-mapfile"), map).expect("written");
        let mut command = farline_lab::command("globus-gridftp-server");
        command.args(["-p", &port.to_string(), "-log-level", "NONE", "-allow-root"]).args(more);
        command.args(["-data-interface", "127.0.0.1", "-control-interface", "127.0.0.1"]);
        command.env_remove("X509_USER_PROXY").env("GRIDMAP", self.at("server-mapfile"));
        command.env("X509_CERT_DIR", self.at("security/certificates"));
        command.env("X509_USER_CERT", self.at("security/hostcert.pem"));
        command.env("X509_USER_KEY", self.at("security/hostkey.pem"));
        let server =
            farline_lab::Running(command.stdout(Stdio::null()).spawn().expect("it starts"));
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        farline_lab::wait_for("globus-gridftp-server listens", listens);
        (server, format!("gsiftp://127.0.0.1:{port}"))
    }

    /// What a client who is refused is told.
    fn refused(&self, proxy: &Path) -> String {
        let back = format!("file://{}", self.at("refused").display());
        let get = [&format!("{}/tree/b", self.url), &back];
        let Output { status, stderr, .. } = self.guc(proxy).args(get).output().expect("runs");
        assert!(!status.success(), "it was let in");
        assert!(fs::read(self.at("refused")).is_ok_and(|came| came.is_empty()), "bytes came");
        String::from_utf8_lossy(&stderr).into_owned()
    }
}

/// The node that the file `config` describes, with `more` arguments, and its URL; what it logs goes
/// to `log`.
fn node_of(
    config: &Path,
    more: &[&str],
    log: &Arc<Mutex<String>>,
) -> (farline_lab::Running, String) {
    let mut command = farline_lab::command(farline_binary());
    command.args(["--json", "serve"]).arg(config).args(more).stderr(Stdio::piped());
    let (mut node, url) = announced(&mut command);
    let stderr = node.0.stderr.take().expect("piped");
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut log = log.lock().expect("no panic");
            log.push_str(&line);
            log.push('\n');
        }
    });
    (node, url)
}

/// An authority `file` with this subject.
pub(crate) fn authority(at: &Path, file: &str, subject: &str) {
    let (key, certificate) = (format!("{file}.key"), format!("{file}.pem"));
    // grid-proxy-init signs as its issuer was signed, and only with RSA.
    let new = ["req", "-x509", "-newkey", "rsa:2048"];
    let more = ["-nodes", "-days", "2", "-subj", subject, "-keyout", &key, "-out", &certificate];
    openssl(at, &[&new[..], &more[..]].concat());
}

/// Puts an authority where the node and its clients find it, with what it may sign.
pub(crate) fn trust(at: &Path, file: &str, subject: &str, names: &str) {
    let folder = at.join("security/certificates");
    let certificate = at.join(format!("{file}.pem"));
    let hash = hash(&certificate);
    fs::copy(certificate, folder.join(format!("{hash}.0"))).expect("copied");
    let policy = format!(
        "access_id_CA X509 '{subject}'\npos_rights globus CA:sign\ncond_subjects globus '\"{names}\"'\n"
    );
    fs::write(folder.join(format!("{hash}.signing_policy")), policy).expect("written");
}

fn hash(certificate: &Path) -> String {
    let said = Command::new("openssl")
        .args(["x509", "-noout", "-subject_hash", "-in"])
        .arg(certificate)
        .output();
    String::from_utf8(said.expect("openssl runs").stdout).expect("text").trim().to_owned()
}

/// A certificate of `subject` by the authority `by`, for two days.
pub(crate) fn sign(at: &Path, by: &str, file: &str, subject: &str) {
    let key = format!("{file}.key");
    let new = [
        "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", &key, "-out", "asked",
    ];
    openssl(at, &new);
    let (authority, secret, out) =
        (format!("{by}.pem"), format!("{by}.key"), format!("{file}.pem"));
    let by =
        ["x509", "-req", "-in", "asked", "-CA", &authority, "-CAkey", &secret, "-CAcreateserial"];
    openssl(at, &[&by[..], &["-days", "2", "-out", &out]].concat());
}

#[test]
fn globus_url_copy_with_a_proxy_moves_under_each_protection() {
    let grid = Grid::new("");
    let proxy = grid.proxy("alice", &[]);
    let here = |name: &str| format!("file://{}", grid.at(name).display());
    let cases: [&[&str]; 6] = [
        &["-p", "1"],
        &["-p", "4"],
        &["-p", "4", "-nodcau"],
        &["-dcpriv"],
        &["-p", "1", "-dcsafe"],
        &["-p", "4", "-dcpriv", OLD_TLS],
    ];
    for (index, options) in cases.into_iter().enumerate() {
        let (there, back) = (format!("{}/up{index}", grid.url), format!("back{index}"));
        let guc = || {
            let mut guc = grid.guc(&proxy);
            if options.contains(&OLD_TLS) {
                guc.env("GLOBUS_GSSAPI_MAX_TLS_PROTOCOL", "TLS1_2_VERSION");
            }
            guc.args(options.iter().filter(|option| **option != OLD_TLS));
            guc
        };
        succeed(guc().args([&here("big"), &there]));
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at(&format!("root/up{index}"))));
        succeed(guc().args([&there, &here(&back)]));
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at(&back)));
    }
    let listed = succeed(grid.guc(&proxy).args(["-list", &format!("{}/tree/", grid.url)]));
    assert!(["a", "b", "deep"].iter().all(|name| listed.contains(name)), "{listed}");
    let tree = [&format!("{}/tree/", grid.url), &here("tree/")];
    succeed(grid.guc(&proxy).args(["-r", "-cd", "-fast", "-p", "2"]).args(tree));
    succeed(Command::new("diff").arg("-r").arg(grid.at("root/tree")).arg(grid.at("tree")));
}

/// `globus-url-copy` cannot be told to ask for it; the library that it is made of can.
#[test]
fn a_client_may_name_whose_data_connections_have_to_be() {
    let grid = Grid::new("");
    let proxy = grid.proxy("alice", &[]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/dcau.py");
    // With whom data connections have to be (DCAU), PROT and MODE.
    let moved_within = |seconds: &str, way: &str, name: &str, file: &str, how: [&str; 4]| {
        let mut python = grid.client("/usr/bin/python3", &proxy);
        python.args([script, way, &format!("{}/{name}", grid.url)]).arg(grid.at(file)).args(how);
        python.arg(seconds);
        let Output { status, stdout, stderr } = python.output().expect("it runs");
        let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        status.success().then_some(()).ok_or(said)
    };
    let moved = |way: &str, name: &str, file: &str, how| moved_within("25", way, name, file, how);
    let (own, other) = ("/O=Grid/CN=alice", "/O=Grid/CN=bob");
    let cases = [
        ["S", own, "C", "S"],
        ["S", own, "C", "E"],
        ["S", own, "P", "E"],
        ["A", "", "P", "E"],
        ["N", "", "C", "E"],
    ];
    for (index, how) in cases.into_iter().enumerate() {
        let (there, back) = (format!("dcau{index}"), format!("dcau-back{index}"));
        for (way, file) in [("put", "big"), ("get", &back)] {
            assert_eq!(moved(way, &there, file, how), Ok(()), "{way} {how:?}");
        }
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at("root").join(&there)));
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at(&back)));
    }
    // In MODE S a file ends with its connection, and this library ends one within TLS without a
    // word: what was cut off would look whole.
    let cut = moved("put", "cut", "big", ["S", own, "P", "S"]).expect_err("no goodbye");
    assert!(cut.contains("TLS did not say goodbye") && !grid.at("root/cut").exists(), "{cut}");
    assert_eq!(moved("get", "dcau0", "whole", ["S", own, "P", "S"]), Ok(()));
    succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at("whole")));
    // Data of somebody else's is neither taken nor given, which the node sees for itself; where it
    // listens, it goes on waiting for whom it is to be.
    let refused = |way: &str, there: &str, file: &str| {
        let said = moved_within("5", way, there, file, ["S", other, "C", "E"]);
        let said = said.expect_err("nobody is bob");
        assert!(!grid.at("root/no").exists() && !grid.at("stolen").exists(), "{way}: {said}");
        said
    };
    refused("put", "no", "big");
    // Of the node's reply and the end of its data connection the library tells what it saw first.
    let not_his = "is of /O=Grid/CN=alice, not of /O=Grid/CN=bob";
    let is_told = |_| refused("get", "tree/b", "stolen").contains(not_his);
    assert!((0..5).any(is_told), "the library never told why");
    let said = || grid.log.lock().expect("no panic").clone();
    farline_lab::wait_for("a line in the log", || said().contains("did not show whose it is"));
    let line = said().lines().find(|line| line.contains("did not show")).map(str::to_owned);
    assert!(
        line.is_some_and(|line| line.contains("stranger: ") && line.contains(own)),
        "{}",
        said()
    );
}

#[test]
fn a_limited_proxy_moves_files_as_at_a_globus_server() {
    let grid = Grid::new("");
    let proxy = grid.proxy("alice", &["-limited"]);
    let (_server, stock) = grid.globus_server(&[]);
    let here = |name: &str| format!("file://{}", grid.at(name).display());
    let theirs = format!("{stock}{}", grid.at("stock").display());
    for (server, there, landed) in
        [("stock", theirs, "stock"), ("node", format!("{}/ours", grid.url), "root/ours")]
    {
        succeed(grid.guc(&proxy).args(["-p", "2", &here("big"), &there]));
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at(landed)));
        let back = format!("back-{server}");
        // What was delegated is limited too, and authenticates the data connections.
        succeed(grid.guc(&proxy).args(["-p", "2", "-dcpriv", &there, &here(&back)]));
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at(&back)));
    }
}

#[test]
fn third_party_copies_go_between_a_node_and_a_globus_server() {
    let grid = Grid::new("third_party = true\nthird_party_networks = ['127.0.0.0/8']");
    let proxy = grid.proxy("alice", &[]);
    let (_server, stock) = grid.globus_server(&[]);
    let ours = |name: &str| format!("{}/{name}", grid.url);
    let theirs = |name: &str| format!("{stock}{}", grid.at(name).display());
    for (index, options) in [&["-p", "2"][..], &["-dcpriv"]].into_iter().enumerate() {
        let names = ["-ss", "/O=Grid/CN=localhost", "-ds", "/O=Grid/CN=localhost"];
        let guc = || {
            let mut guc = grid.client("globus-url-copy", &proxy);
            guc.args(names).args(options);
            guc
        };
        let (there, back) = (format!("there{index}"), format!("back{index}"));
        succeed(guc().args([&theirs("big"), &ours(&there)]));
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at("root").join(&there)));
        succeed(guc().args([&ours(&there), &theirs(&back)]));
        succeed(Command::new("cmp").arg(grid.at("big")).arg(grid.at(&back)));
    }
}

#[test]
fn gfal_with_a_proxy_gets_and_puts() {
    let grid = Grid::new("");
    let proxy = grid.proxy("alice", &[]);
    // gfal looks for the name of its URL in the node's certificate.
    let url = grid.url.replace("127.0.0.1", "localhost");
    let (here, back) = (format!("file://{}", grid.at("big").display()), grid.at("back"));
    succeed(grid.client("gfal-copy", &proxy).args(["-f", "-n", "4", &here, &format!("{url}/up")]));
    let target = format!("file://{}", back.display());
    succeed(grid.client("gfal-copy", &proxy).args(["-f", &format!("{url}/up"), &target]));
    succeed(Command::new("cmp").arg(grid.at("big")).arg(&back));
    let listed = succeed(grid.client("gfal-ls", &proxy).args(["-l", &format!("{url}/")]));
    assert!(listed.contains("5000001"), "{listed}");
    let said = succeed(grid.client("gfal-sum", &proxy).args([&format!("{url}/up"), "MD5"]));
    let own = succeed(Command::new("md5sum").arg(grid.at("big")));
    assert!(said.contains(own.split(' ').next().expect("a digest")), "{said}");
}

#[test]
fn who_is_refused_hears_why_and_stands_in_the_log() {
    let grid = Grid::new("gsi_limited_proxies = false");
    let certificates = grid.at("security/certificates");
    // Nobody has the certificate of an authority that is not known here; clients find it.
    authority(grid.folder.path(), "other", "/O=Grid/CN=Other CA");
    sign(grid.folder.path(), "other", "eve", "/O=Grid/CN=alice");
    let eve = grid.proxy("eve", &[]);
    sign(grid.folder.path(), "ca", "bob", "/O=Grid/CN=bob");
    let cases = [
        (eve, "unable to get local issuer certificate"),
        (grid.proxy("bob", &[]), "no identity here has the certificate of /O=Grid/CN=bob"),
        (grid.proxy("alice", &["-limited"]), "limited proxies are not taken here"),
    ];
    for (proxy, why) in &cases {
        let told = grid.refused(proxy);
        assert!(told.contains(why), "{told}");
    }
    // A line a second at most: the first is there whole.
    let said = || grid.log.lock().expect("no panic").clone();
    farline_lab::wait_for("a line in the log", || !said().is_empty());
    let first = said().lines().next().expect("a line").to_owned();
    assert!(first.contains("refused: 127.0.0.1: ") && first.contains(cases[0].1), "{first}");
    // Known from now on, but not for that name.
    trust(grid.folder.path(), "other", "/O=Grid/CN=Other CA", "/O=Other/*");
    let told = grid.refused(&cases[0].0);
    assert!(told.contains("may not sign that name"), "{told}");
    // Its own authority takes alice's certificate back.
    let good = grid.proxy("alice", &[]);
    revoke(grid.folder.path(), "ca", "alice");
    let list = certificates.join(format!("{}.r0", hash(&grid.at("ca.pem"))));
    fs::copy(grid.at("ca.crl"), &list).expect("copied");
    let told = grid.refused(&good);
    assert!(told.contains("certificate revoked"), "{told}");
    // A list that is there and says nothing of its authority is not as good as none.
    fs::create_dir(grid.at("trusted")).expect("a folder");
    for file in fs::read_dir(&certificates).expect("a folder") {
        let file = file.expect("a file");
        fs::copy(file.path(), grid.at("trusted").join(file.file_name())).expect("copied");
    }
    revoke(grid.folder.path(), "other", "eve");
    let others = fs::read(grid.at("other.crl")).expect("a list");
    for damaged in [&b"garbage"[..], b"", &others] {
        fs::write(&list, damaged).expect("written");
        for _ in 0..4 {
            let told = grid.refused(&good);
            assert!(told.contains("what was revoked is not known"), "{told}");
        }
    }
    fs::remove_file(&list).expect("removed");
    fs::create_dir(&list).expect("a folder");
    let told = grid.refused(&good);
    assert!(told.contains("Is a directory"), "{told}");
}

/// A certificate by the grid's authority with the identifiers of keys, without which VOMS makes no
/// attributes.
fn sign_as_voms_likes(at: &Path, file: &str) {
    sign(at, "ca", file, &format!("/O=Grid/CN={file}"));
    let request =
        ["-in", &format!("{file}.pem"), "-signkey", &format!("{file}.key")].map(str::to_owned);
    let request = request.each_ref().map(String::as_str);
    openssl(at, &[&["x509", "-x509toreq", "-out", "asked"][..], &request].concat());
    let identifiers = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n";
    fs::write(at.join("identifiers"), identifiers).expect("written");
    let out = format!("{file}.pem");
    let by = ["x509", "-req", "-in", "asked", "-CA", "ca.pem", "-CAkey", "ca.key"];
    let more = ["-CAcreateserial", "-days", "2", "-extfile", "identifiers", "-out", &out];
    openssl(at, &[&by[..], &more[..]].concat());
}

#[test]
fn members_of_an_organisation_come_by_what_its_server_says() {
    let more = "[[identity]]\nname = 'writers'\nvoms = ['/vo/group/Role=writer']\n\
                paths = { '/' = 'write' }\nclear_data = true";
    let grid = Grid::new(more);
    let at = |name: &str| grid.at(name);
    for name in ["bob", "voms", "fake"] {
        sign_as_voms_likes(&at(""), name);
    }
    let proxy = |name: &str, server: [&str; 2], options: &[&str]| {
        let out = at(&format!("{name}.proxy"));
        let mut fake = farline_lab::command("voms-proxy-fake");
        fake.args(["-rfc", "-newformat", "-voms", "vo", "-uri", "localhost:15000", "-out"])
            .arg(&out);
        fake.arg("-cert").arg(at("bob.pem")).arg("-key").arg(at("bob.key"));
        fake.arg("-hostcert").arg(at(server[0])).arg("-hostkey").arg(at(server[1])).args(options);
        let folder = at("security/certificates");
        succeed(fake.arg("-certdir").arg(&folder).env("X509_CERT_DIR", &folder));
        out
    };
    let fqans = ["-fqan", "/vo", "-fqan", "/vo/group/Role=writer/Capability=NULL"];
    let own = ["voms.pem", "voms.key"];
    let good = proxy("good", own, &fqans);
    let said = || grid.log.lock().expect("no panic").clone();
    let stranger = |proxy: &Path, why: &str| {
        // A line a second at most.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        let told = grid.refused(proxy);
        assert!(told.contains("no identity here has the certificate of /O=Grid/CN=bob"), "{told}");
        let is_there = || why.is_empty() || said().contains(why);
        farline_lab::wait_for(why, is_there);
    };
    // Nobody said which servers speak for it.
    stranger(
        &good,
        "voms: attributes from 127.0.0.1 do not count: /O=Grid/CN=voms is no server of vo",
    );
    fs::create_dir_all(at("security/vomsdir/vo")).expect("a folder");
    let list = |server: &str| {
        let text = format!("/O=Grid/CN={server}\n/O=Grid/CN=Grid CA\n");
        fs::write(at("security/vomsdir/vo/voms.example.org.lsc"), text).expect("written");
    };
    list("voms");
    let (there, here) = (format!("{}/up", grid.url), format!("file://{}", at("big").display()));
    succeed(grid.guc(&good).args([&here, &there]));
    succeed(Command::new("cmp").arg(at("big")).arg(at("root/up")));
    assert!(said().contains("login: writers from 127.0.0.1 by VOMS attribute"), "{}", said());
    // A member without that role; another organisation's word; another key; past its time.
    stranger(&proxy("member", own, &fqans[..2]), "");
    let other = ["-fqan", "/other/Role=writer"];
    stranger(&proxy("other", own, &other), "no server of other that is known here");
    stranger(&proxy("forged", ["voms.pem", "fake.key"], &fqans), "their signature is wrong");
    stranger(&proxy("fake", ["fake.pem", "fake.key"], &fqans), "CN=fake is no server of vo");
    let old = [&fqans[..], &["-pastac", "72:00", "-vomslife", "1"]].concat();
    stranger(&proxy("old", own, &old), "they held until");
}

#[test]
fn attributes_for_certain_hosts_alone_are_not_taken() {
    let read = |name: &str| {
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/proxy").join(name))
    };
    // Made by voms-proxy-fake 2.1.1, without and with `-target host.example.org`, with which it
    // crashes as often as not.
    let (plain, targeted) =
        (read("attributes").expect("a file"), read("for-one-host").expect("a file"));
    let taken = attribute_certificates(&plain).expect("it can be read");
    assert_eq!(taken[0].names, ["/vo", "/vo/group/Role=writer/Capability=NULL"]);
    let refused = attribute_certificates(&targeted).expect_err("a critical extension");
    assert!(refused.contains("for certain hosts alone"), "{refused}");
}

#[test]
fn a_line_without_protection_ends_the_session() {
    let grid = Grid::new("");
    let proxy = grid.proxy("alice", &[]);
    let node = grid.url.strip_prefix("gsiftp://").expect("a URL").to_owned();
    // Somebody between the ends says a word of its own to the node, once the client is known.
    for (word, is_taken) in [("", true), ("NOOP\r\n", false)] {
        let (address, relay) = relay(node.clone(), word, "");
        let back = format!("file://{}", grid.at("back").display());
        let get = [&format!("gsiftp://{address}/tree/b"), &back];
        let output = grid.guc(&proxy).args(get).output().expect("runs");
        assert_eq!(output.status.success(), is_taken, "{output:?}");
        relay.join().expect("no panic");
    }
}

/// Stands between a client and `node`, and says words of its own to either once the client is
/// known.
pub(crate) fn relay(
    node: String,
    to_node: &'static str,
    to_client: &'static str,
) -> (SocketAddr, JoinHandle<()>) {
    let between = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = between.local_addr().expect("bound");
    let relay = std::thread::spawn(move || {
        let (client, _) = between.accept().expect("a client");
        let there = TcpStream::connect(node).expect("a node");
        let ends = [client.try_clone(), there.try_clone()].map(|end| end.expect("a socket"));
        let up = std::thread::spawn(move || {
            let [mut from, mut to] = ends;
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        let (mut to, mut node) = (client, there.try_clone().expect("a socket"));
        for line in BufReader::new(there).lines().map_while(Result::ok) {
            let is_known = line.starts_with("235 ");
            if is_known {
                node.write_all(to_node.as_bytes()).expect("said");
            }
            let words = if is_known { to_client } else { "" };
            if to.write_all(format!("{line}\r\n{words}").as_bytes()).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        up.join().expect("no panic");
    });
    (address, relay)
}

/// A list of `by`'s on which the certificate `file` stands.
fn revoke(at: &Path, by: &str, file: &str) {
    fs::write(at.join("index"), "").expect("written");
    let config = "[ca]\ndefault_ca = own\n[own]\ndatabase = index\ndefault_md = sha256\ndefault_crl_days = 2\n";
    fs::write(at.join("ca.conf"), config).expect("written");
    let (authority, secret) = (format!("{by}.pem"), format!("{by}.key"));
    let ca = ["ca", "-config", "ca.conf", "-cert", &authority, "-keyfile", &secret];
    openssl(at, &[&ca[..], &["-revoke", &format!("{file}.pem")]].concat());
    openssl(at, &[&ca[..], &["-gencrl", "-out", &format!("{by}.crl")]].concat());
}
