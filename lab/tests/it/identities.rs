//! Who may come into a node, and what each may do there: by password, certificate and token, of
//! Farline's client and of curl and lftp.

use crate::tls::openssl;
use farline_lab::files::{hidden, plant_file, random, same};
use farline_lab::{
    Running, announced, assert_same_tree, error_of_command, farline, farline_binary, fit_of_three,
    plant, succeed, wait_for,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Argon2id's hash of `secret`, by Python's argon2-cffi.
pub(crate) const SECRET: &str = "$argon2id$v=19$m=1024,t=1,p=1$ZmFybGluZWZhcmxpbmU$\
                      baTvdS5PYnW3SPa+Gmzl6l0gJYeWNAgqODnmu6Cpdug";

pub(crate) const ISSUER: &str = "https://issuer.example";

/// A site: what it exports, its authority, an issuer of tokens, and a node that knows who is who.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    /// Ends with the test.
    node: Running,
    pub(crate) address: String,
    /// Where it takes `farlineq://`.
    udp: String,
    /// What it has written to its log.
    log: Arc<Mutex<String>>,
}

impl Site {
    pub(crate) fn new() -> Site {
        Site::with("")
    }

    /// With more lines on alice.
    pub(crate) fn with(alice: &str) -> Site {
        Site::serving_as(None, alice)
    }

    /// The same, of which everything belongs to a user that the node becomes.
    fn serving_as(user: Option<&str>, alice: &str) -> Site {
        let line = user.map(|user| format!("user = \"{user}\"\n")).unwrap_or_default();
        Site::configured(user, &line, alice)
    }

    /// With lines on the node itself too.
    pub(crate) fn with_node(node: &str, alice: &str) -> Site {
        Site::configured(None, node, alice)
    }

    fn configured(user: Option<&str>, node: &str, alice: &str) -> Site {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["pki", "root/home/alice", "root/raw", "root/inbox", "root/vo/bob"] {
            fs::create_dir_all(at(name)).expect("a folder");
        }
        fs::write(at("root/raw/data"), random(1, 3_000_001)).expect("written");
        fs::write(at("root/hidden"), "not for alice").expect("written");
        std::os::unix::fs::symlink("../../hidden", at("root/home/alice/way")).expect("a link");
        certificates(&at("pki"));
        openssl(&at("pki"), &["genrsa", "-out", "issuer.key", "2048"]);
        fs::write(at("pki/keys.json"), key_set(&at("pki"))).expect("written");
        let pki = at("pki").display().to_string();
        let config = format!(
            r#"
root = "{root}"
listen = "127.0.0.1:0"
listen_udp = "127.0.0.1:0"
tls_cert = "{pki}/node.pem"
tls_key = "{pki}/node.key"
client_authorities = "{pki}/ca.pem"
client_revoked = "{pki}/ca.crl"

[[identity]]
name = "alice"
password = "{SECRET}"
paths = {{ "/raw" = "read", "/home/alice" = "write", "/inbox" = "create" }}
{alice}

[[identity]]
name = "carol"
certificates = ["/CN=carol"]
paths = {{ "/" = "read" }}

[[identity]]
name = "slow"
password = "{SECRET}"
paths = {{ "/" = "write" }}
rate = "80Mbit/s"
sessions = 8

[[issuer]]
url = "{ISSUER}"
keys = "{pki}/keys.json"
audiences = ["https://node.example"]
path = "/vo"
"#,
            root = at("root").display(),
        );
        fs::write(at("node.toml"), node.to_owned() + &config).expect("written");
        if let Some(user) = user {
            succeed(Command::new("chown").args(["-Rh", user]).arg(folder.path()));
        }
        let mut command = farline_lab::command(farline_binary());
        command.args(["--json", "serve"]).arg(at("node.toml")).stderr(Stdio::piped());
        let (mut node, line) = Running::begun(&mut command);
        let log = Arc::default();
        follow(node.0.stderr.take().expect("piped"), &log);
        let said: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{error}: {line}{}", log.lock().expect("no panic")));
        let [address, udp] =
            ["address", "udp"].map(|name| said[name].as_str().expect("listens").to_owned());
        Site { folder, node, address, udp, log }
    }

    /// The lines of its log so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().expect("no panic").lines().map(str::to_owned).collect()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self, user: &str, path: &str) -> String {
        format!("farlines://{user}{}{path}", self.address)
    }

    /// `farline cp` as somebody who trusts the site's authority.
    pub(crate) fn cp(&self) -> Command {
        let mut command = farline();
        command.args(["--json", "cp", "-r", "--tls-ca"]).arg(self.at("pki/ca.pem"));
        command.env("FARLINE_PASSWORD", "secret");
        command
    }

    pub(crate) fn curl(&self) -> Command {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60", "--ssl-reqd", "--cacert"]);
        command.arg(self.at("pki/ca.pem"));
        command
    }
}

/// Adds what comes from `stderr` to `log`, a line at a time.
fn follow(stderr: ChildStderr, log: &Arc<Mutex<String>>) {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut log = log.lock().expect("no panic");
            log.push_str(&line);
            log.push('\n');
        }
    });
}

/// An authority, and certificates by it of the node and of two users; of carol an expired one too,
/// and one that is revoked; one more of nobody's.
pub(crate) fn certificates(pki: &Path) {
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    for (name, file) in [("/CN=Site authority", "ca"), ("/CN=carol", "stranger")] {
        let (secret, public) = (format!("{file}.key"), format!("{file}.pem"));
        let own = ["req", "-x509", "-subj", name, "-keyout", &secret, "-out", &public];
        openssl(pki, &[&own[..], &key[..]].concat());
    }
    fs::write(pki.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("written");
    let ask = |name: &str, file: &str| {
        let (subject, secret) = (format!("/CN={name}"), format!("{file}.key"));
        let asked = ["req", "-subj", &subject, "-keyout", &secret, "-out", "asked"];
        openssl(pki, &[&asked[..], &key[..5]].concat());
    };
    for name in ["node", "carol", "dave"] {
        ask(name, name);
        let public = format!("{name}.pem");
        let sign = ["x509", "-req", "-in", "asked", "-CA", "ca.pem", "-CAkey", "ca.key"];
        let more = ["-CAcreateserial", "-days", "2", "-extfile", "names", "-out", &public];
        openssl(pki, &[&sign[..], &more[..]].concat());
    }
    fs::write(pki.join("ca.conf"), AUTHORITY).expect("written");
    for (file, text) in [("index", ""), ("serial", "1001\n")] {
        fs::write(pki.join(file), text).expect("written");
    }
    let ca = ["ca", "-batch", "-config", "ca.conf", "-cert", "ca.pem", "-keyfile", "ca.key"];
    for (file, end) in [("expired", "200102000000Z"), ("revoked", "491231000000Z")] {
        ask("carol", file);
        let public = format!("{file}.pem");
        let sign = ["-in", "asked", "-extfile", "names", "-startdate", "200101000000Z"];
        openssl(
            pki,
            &[&ca[..], &sign[..], &["-enddate", end, "-notext", "-out", &public]].concat(),
        );
    }
    openssl(pki, &[&ca[..], &["-revoke", "revoked.pem"]].concat());
    openssl(pki, &[&ca[..], &["-gencrl", "-out", "ca.crl"]].concat());
}

/// What `openssl ca` is to know of the site's authority.
const AUTHORITY: &str = "\
[ca]
default_ca = own
[own]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
default_crl_days = 2
policy = any
unique_subject = no
crl_extensions = list
[any]
commonName = supplied
[list]
authorityKeyIdentifier = keyid:always
";

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let digit = |six: &[u8]| {
        let value = (0..6).fold(0, |value, i| value << 1 | six.get(i).copied().unwrap_or(0));
        DIGITS[usize::from(value)] as char
    };
    bits.chunks(6).map(digit).collect()
}

/// The issuer's public key as a set of one.
pub(crate) fn key_set(pki: &Path) -> String {
    let modulus = Command::new("openssl")
        .current_dir(pki)
        .args(["rsa", "-in", "issuer.key", "-noout", "-modulus"])
        .output()
        .expect("openssl runs");
    let text = String::from_utf8(modulus.stdout).expect("text");
    let hex = text.trim().strip_prefix("Modulus=").expect("a modulus").as_bytes();
    let bytes: Vec<u8> = hex
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).expect("hex"), 16).expect("hex"))
        .collect();
    let key =
        json!({"kty": "RSA", "alg": "RS256", "kid": "k", "e": "AQAB", "n": base64url(&bytes)});
    json!({ "keys": [key] }).to_string()
}

/// A token as the issuer makes it, signed by openssl.
pub(crate) fn token(pki: &Path, change: impl FnOnce(&mut Value)) -> String {
    token_of(pki, &json!({"alg": "RS256", "kid": "k"}), change)
}

/// The same with this header.
pub(crate) fn token_of(pki: &Path, header: &Value, change: impl FnOnce(&mut Value)) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let mut claims = json!({
        "iss": ISSUER, "sub": "bob", "aud": "https://node.example", "exp": now + 600,
        "scope": "storage.read:/ storage.modify:/bob"
    });
    change(&mut claims);
    let parts = [header.to_string(), claims.to_string()].map(|part| base64url(part.as_bytes()));
    let signed = parts.join(".");
    fs::write(pki.join("signed"), &signed).expect("written");
    openssl(pki, &["dgst", "-sha256", "-sign", "issuer.key", "-out", "signature", "signed"]);
    let signature = fs::read(pki.join("signature")).expect("a signature");
    format!("{signed}.{}", base64url(&signature))
}

/// The code of the error with which this copy ends.
pub(crate) fn code_of(command: &mut Command) -> String {
    error_of_command(command).0["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_user_with_a_password_does_what_it_may_and_nothing_else() {
    let site = Site::new();
    let source = site.at("src");
    plant(&source);
    succeed(site.cp().arg(&source).arg(site.url("alice@", "/home/alice/")));
    assert_same_tree(&source, &site.at("root/home/alice/src"));
    succeed(site.cp().arg(site.url("alice@", "/home/alice/src/")).arg(site.at("back")));
    assert_same_tree(&source, &site.at("back"));
    succeed(site.cp().arg(site.url("alice@", "/raw/data")).arg(site.at("data")));
    succeed(Command::new("cmp").arg(site.at("data")).arg(site.at("root/raw/data")));
    let file = site.at("data");
    for (to, code) in [
        ("/raw/new", "permission-denied"),
        ("/new", "permission-denied"),
        ("/home/alicex", "permission-denied"),
    ] {
        assert_eq!(code_of(site.cp().arg(&file).arg(site.url("alice@", to))), code, "{to}");
    }
    for from in ["/hidden", "/home"] {
        let mut down = site.cp();
        down.arg(site.url("alice@", from)).arg(site.at("stolen"));
        let (error, exit) = error_of_command(&mut down);
        assert_ne!(exit, 0, "{from}: {error}");
        let stolen = fs::read(site.at("stolen")).unwrap_or_default();
        assert!(stolen.is_empty(), "{from}: {error}");
    }
    // Nor over a link that lies where it may read.
    let mut over_link = site.curl();
    over_link.args(["--user", "alice:secret", "-o"]).arg(site.at("stolen"));
    over_link.arg(format!("ftp://{}/home/alice/way", site.address));
    assert!(!over_link.output().expect("curl runs").status.success());
    assert_eq!(fs::read(site.at("root/hidden")).expect("there"), b"not for alice");
}

#[test]
fn files_belong_to_the_owner_and_go_by_its_rights() {
    if !rustix::process::geteuid().is_root() {
        return farline_lab::skip("only root may act as another user");
    }
    let site = Site::with("owner = \"nobody\"");
    succeed(Command::new("chown").arg("nobody").arg(site.at("root/home/alice")));
    let source = site.at("src");
    plant(&source);
    succeed(site.cp().arg(&source).arg(site.url("alice@", "/home/alice/")));
    assert_same_tree(&source, &site.at("root/home/alice/src"));
    let find = |more: &[&str]| {
        let mut find = Command::new("find");
        let output = find.arg(site.at("root/home/alice/src")).args(more).output();
        String::from_utf8(output.expect("find runs").stdout).expect("text")
    };
    assert!(find(&["-user", "nobody", "-type", "f"]).lines().count() > 1, "whose they are");
    assert_eq!(find(&["!", "-user", "nobody"]), "");
    // What a grant allows and the file system does not.
    fs::set_permissions(site.at("root/raw/data"), fs::Permissions::from_mode(0o600)).expect("set");
    let mut down = site.cp();
    down.arg(site.url("alice@", "/raw/data")).arg(site.at("stolen"));
    assert_eq!(code_of(&mut down), "permission-denied");
    assert!(!site.at("stolen").exists());
    fs::write(site.at("report"), "x").expect("written");
    let mut up = site.cp();
    up.arg(site.at("report")).arg(site.url("alice@", "/inbox/x"));
    assert_eq!(code_of(&mut up), "permission-denied", "a folder of root's");
    // Other identities are whom the node runs as.
    succeed(site.cp().arg(site.url("slow@", "/raw/data")).arg(site.at("data")));
}

#[test]
fn who_comes_next_is_looked_up_by_the_node_itself() {
    if !rustix::process::geteuid().is_root() {
        return farline_lab::skip("only root may act as another user");
    }
    let site = Site::with("owner = \"nobody\"");
    fs::write(site.at("root/vo/bob/file"), "bob's").expect("written");
    // The issuer's keys are root's to read.
    let keys = site.at("pki/keys.json");
    fs::set_permissions(keys, fs::Permissions::from_mode(0o600)).expect("set");
    let command = format!("SITE TOKEN {}", token(&site.at("pki"), |_| {}));
    let mut curl = site.curl();
    curl.args(["--user", "alice:secret", "-Q", &command]);
    curl.arg(format!("ftp://{}/vo/bob/file", site.address)).arg("-o").arg(site.at("got"));
    succeed(&mut curl);
    assert_eq!(fs::read(site.at("got")).expect("it came"), b"bob's");
}

/// What the kernel says of a process.
fn status_of(node: &Running, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", node.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.expect("the kernel says so").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_node_serves_as_the_user_that_it_is_told() {
    if !rustix::process::geteuid().is_root() {
        return farline_lab::skip("only root may become another user");
    }
    let site = Site::serving_as(Some("daemon"), "");
    assert_eq!(status_of(&site.node, "Uid"), "1 1 1 1");
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_eq!(status_of(&site.node, set), "0000000000000000", "{set}");
    }
    let source = site.at("src");
    plant(&source);
    succeed(site.cp().arg(&source).arg(site.url("slow@", "/home/alice/")));
    assert_same_tree(&source, &site.at("root/home/alice/src"));
    let mut find = Command::new("find");
    let others = find.arg(site.at("root/home/alice/src")).args(["!", "-user", "daemon"]).output();
    assert_eq!(others.expect("find runs").stdout, b"", "whose they are");
    // What root may and that user may not.
    fs::write(site.at("root/raw/root's"), "x").expect("written");
    fs::set_permissions(site.at("root/raw/root's"), fs::Permissions::from_mode(0o600))
        .expect("set");
    let mut down = site.cp();
    down.arg(site.url("slow@", "/raw/root's")).arg(site.at("stolen"));
    assert_eq!(code_of(&mut down), "permission-denied");
}

#[test]
fn a_node_of_a_user_keeps_what_owners_and_low_ports_take() {
    if !rustix::process::geteuid().is_root() {
        return farline_lab::skip("only root may become another user");
    }
    let site = Site::serving_as(Some("daemon"), "owner = \"nobody\"");
    assert_eq!(status_of(&site.node, "CapEff"), "00000000000000c0", "CAP_SETGID, CAP_SETUID");
    succeed(Command::new("chown").arg("nobody").arg(site.at("root/home/alice")));
    fs::write(site.at("report"), "x").expect("written");
    succeed(site.cp().arg(site.at("report")).arg(site.url("alice@", "/home/alice/report")));
    let owner = fs::metadata(site.at("root/home/alice/report")).expect("it landed").uid();
    assert_eq!(owner, fs::metadata(site.at("root/home/alice")).expect("there").uid());
    let config = fs::read_to_string(site.at("node.toml")).expect("read");
    for (changes, capabilities, code) in [
        (vec![("127.0.0.1:0", "127.0.0.1:LOW")], "0000000000000400", ""),
        (vec![("\"daemon\"", "\"no such user\"")], "", "bad-config"),
        (vec![("\nroot", "\nallow_congestion = true\nroot")], "", "bad-config"),
    ] {
        let mut changed = config.replace("owner = \"nobody\"", "");
        for (from, to) in changes {
            // Somebody else may have one of them.
            let low = (900..1_023).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
            let to = to.replace("LOW", &low.expect("a free port").to_string());
            changed = changed.replacen(from, &to, 1);
        }
        fs::write(site.at("again.toml"), changed).expect("written");
        let mut command = farline_lab::command(farline_binary());
        command.args(["--json", "serve"]).arg(site.at("again.toml"));
        if code.is_empty() {
            let (node, _) = announced(&mut command);
            assert_eq!(status_of(&node, "CapEff"), capabilities, "CAP_NET_BIND_SERVICE");
        } else {
            let (error, exit) = error_of_command(&mut command);
            assert_eq!((error["code"].as_str(), exit), (Some(code), 2), "{error}");
        }
    }
}

#[test]
fn a_node_that_may_not_become_an_owner_says_so() {
    let site = Site::new();
    let config = fs::read_to_string(site.at("node.toml")).expect("read");
    // Of alice, the first who is named.
    let config = config.replacen("password =", "owner = \"nobody\"\npassword =", 1);
    fs::write(site.at("again.toml"), config).expect("written");
    let mut command = farline_lab::command("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    }
    command.arg(farline_binary()).args(["--json", "serve"]).arg(site.at("again.toml"));
    let (error, exit) = error_of_command(&mut command);
    let said = error["message"].as_str().unwrap_or_default();
    assert!(exit != 0 && said.contains("nobody"), "{exit}: {error}");
}

#[test]
fn a_certificate_that_cannot_be_read_is_called_that() {
    let site = Site::new();
    let over_udp = format!("farlineq://carol@{}/raw/data", site.udp);
    for url in [site.url("carol@", "/raw/data"), over_udp] {
        let mut command = site.cp();
        command.env_remove("FARLINE_PASSWORD").env("FARLINE_CERT", site.at("nope"));
        command.env("FARLINE_KEY", site.at("pki/carol.key"));
        let code = code_of(command.arg(&url).arg(site.at("got")));
        assert_eq!(code, "bad-certificate", "{url}");
    }
}

#[test]
fn a_drop_box_takes_each_name_once_and_shows_nothing() {
    let site = Site::new();
    let file = site.at("report");
    fs::write(&file, "first").expect("written");
    succeed(site.cp().arg(&file).arg(site.url("alice@", "/inbox/report")));
    fs::write(&file, "second").expect("written");
    let again = code_of(site.cp().arg(&file).arg(site.url("alice@", "/inbox/report")));
    assert_eq!(again, "permission-denied");
    // As into any folder: what is there stays, what is new comes in.
    let folder = site.url("alice@", "/inbox/");
    assert_eq!(code_of(site.cp().arg(&file).arg(&folder)), "permission-denied");
    fs::rename(&file, site.at("new")).expect("renamed");
    succeed(site.cp().arg(site.at("new")).arg(&folder));
    fs::create_dir(site.at("tree")).expect("a folder");
    fs::rename(site.at("new"), site.at("tree/report")).expect("renamed");
    succeed(site.cp().arg(site.at("tree")).arg(&folder));
    assert_eq!(code_of(site.cp().arg(site.at("tree")).arg(&folder)), "permission-denied");
    assert_eq!(code_of(site.cp().arg(site.at("tree/")).arg(&folder)), "permission-denied");
    assert_eq!(fs::read(site.at("root/inbox/tree/report")).expect("there"), b"second");
    fs::rename(site.at("tree/report"), &file).expect("renamed");
    let curl = || {
        let mut curl = site.curl();
        curl.args(["--user", "alice:secret"]);
        curl
    };
    let url = format!("ftp://{}/inbox", site.address);
    succeed(curl().arg("-T").arg(&file).arg(format!("{url}/other")));
    let refused = |command: &mut Command| !command.output().expect("curl runs").status.success();
    assert!(refused(curl().arg("-T").arg(&file).arg(format!("{url}/report"))), "it is there");
    assert!(refused(curl().arg(format!("{url}/"))), "nothing is listed");
    assert!(refused(curl().arg(format!("{url}/other"))), "nothing is read");
    assert!(refused(curl().args(["-Q", "DELE /inbox/other"]).arg(format!("{url}/"))), "or deleted");
    assert_eq!(fs::read(site.at("root/inbox/report")).expect("there"), b"first");
    assert_eq!(fs::read(site.at("root/inbox/other")).expect("there"), b"second");
    // Of two at once one lands and stays, and the other hears of it.
    let copies = [1, 2].map(|seed| {
        let long = site.at(&format!("long{seed}"));
        plant_file(&long, 12, seed);
        let mut copy = site.cp();
        copy.args(["-q", "--limit", "48M"]).env("FARLINE_RETRY_FOR", "30s").arg(&long);
        copy.arg(site.url("alice@", "/inbox/both")).stdout(Stdio::piped());
        (long, copy.spawn().expect("farline runs"))
    });
    let mut landed = Vec::new();
    for (long, copy) in copies {
        if copy.wait_with_output().expect("it ends").status.success() {
            landed.push(long);
        }
    }
    assert_eq!(landed.len(), 1, "{landed:?}");
    assert!(same(&landed[0], &site.at("root/inbox/both")), "it took another's place");
}

#[test]
fn a_tree_into_a_drop_box_goes_on_after_a_kill() {
    const FILES: u64 = 30;
    let site = Site::new();
    let (source, there) = (site.at("tree"), site.at("root/inbox/tree"));
    fs::create_dir(&source).expect("a folder");
    let name = |index: u64| format!("f{index:02}");
    for index in 0..FILES {
        plant_file(&source.join(name(index)), 4, index);
    }
    let copy = || {
        let mut copy = site.cp();
        copy.arg(&source).arg(site.url("alice@", "/inbox/"));
        copy
    };
    let landed = || (0..FILES).filter(|&index| there.join(name(index)).exists()).count() as u64;
    // It takes some five seconds.
    let mut first = copy();
    first.args(["-q", "--limit", "200Mbit/s"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = Running(first.spawn().expect("farline starts"));
    wait_for("files that landed", || landed() > 5);
    first.end(Signal::KILL);
    assert!(landed() < FILES, "killed before the end");
    succeed(&mut copy());
    for index in 0..FILES {
        assert!(same(&source.join(name(index)), &there.join(name(index))), "{index}");
    }
    assert!(hidden(&there).is_empty() && hidden(&site.at("root/inbox")).is_empty());
    // Of a transfer that is over nothing is gone on with.
    assert_eq!(code_of(&mut copy()), "permission-denied");
}

#[test]
fn whoever_is_not_named_stays_outside() {
    let site = Site::new();
    let target = site.at("x");
    let anonymous = code_of(site.cp().arg(site.url("", "/raw/data")).arg(&target));
    assert_eq!(anonymous, "login-refused");
    for (user, password) in [("alice@", "wrong"), ("eve@", "secret"), ("carol@", "secret")] {
        let mut command = site.cp();
        command.env("FARLINE_PASSWORD", password);
        let code = code_of(command.arg(site.url(user, "/raw/data")).arg(&target));
        assert_eq!(code, "login-refused", "{user}");
    }
    // In the clear nobody is asked for a password.
    let mut clear = farline();
    clear.args(["--json", "cp"]).env("FARLINE_PASSWORD", "secret");
    clear.arg(format!("farline://alice@{}/raw/data", site.address)).arg(&target);
    let (error, _) = error_of_command(&mut clear);
    assert_eq!(error["code"], "login-refused", "{error}");
    assert!(error["message"].as_str().expect("words").contains("AUTH TLS"), "{error}");
    assert!(!target.exists());
}

#[test]
fn a_certificate_is_a_login_and_a_strangers_is_none() {
    let site = Site::new();
    let with = |name: &str| {
        let mut command = site.cp();
        command
            .env("FARLINE_CERT", site.at(&format!("pki/{name}.pem")))
            .env("FARLINE_KEY", site.at(&format!("pki/{name}.key")))
            .env_remove("FARLINE_PASSWORD");
        command
    };
    for user in ["", "carol@"] {
        succeed(with("carol").arg(site.url(user, "/raw/data")).arg(site.at("got")));
        succeed(Command::new("cmp").arg(site.at("got")).arg(site.at("root/raw/data")));
        fs::remove_file(site.at("got")).expect("it was there");
    }
    let write = code_of(with("carol").arg(site.at("pki/names")).arg(site.url("", "/new")));
    assert_eq!(write, "permission-denied");
    // Of the authority, and nobody's; of the same name, and not of the authority.
    for (name, part, said) in [
        ("dave", "hint", "is of nobody"),
        ("stranger", "hint", "of an authority"),
        ("expired", "message", "CertificateExpired"),
        ("revoked", "message", "CertificateRevoked"),
    ] {
        let (error, _) =
            error_of_command(with(name).arg(site.url("", "/raw/data")).arg(site.at("got")));
        assert!(!site.at("got").exists(), "{name}: {error}");
        assert_eq!(error["code"], "login-refused", "{name}: {error}");
        assert!(error[part].as_str().is_some_and(|words| words.contains(said)), "{error}");
    }
    let (public, secret) = (site.at("pki/carol.pem"), site.at("pki/carol.key"));
    let url = format!("ftp://{}/raw/data", site.address);
    let mut curl = site.curl();
    curl.arg("--cert").arg(&public).arg("--key").arg(&secret).arg("-o").arg(site.at("got"));
    succeed(curl.arg(&url));
    succeed(Command::new("cmp").arg(site.at("got")).arg(site.at("root/raw/data")));
}

#[test]
fn passwords_are_compared_so_many_at_a_time() {
    const HASH_MIB: u64 = 32;
    // On a busy machine, without optimisation, one takes its time, and the last waits for all.
    let site = Site::with_node(
        "login_timeout = 120\n",
        "[[identity]]\nname = \"heavy\"\npaths = { \"/\" = \"read\" }\npassword = \
         \"$argon2id$v=19$m=32768,t=1,p=1$ZmFybGluZWZhcmxpbmU$\
         baTvdS5PYnW3SPa+Gmzl6l0gJYeWNAgqODnmu6Cpdug\"",
    );
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let before = farline_lab::peak_memory(site.node.0.id()).expect("a peak");
    let crowd: Vec<Child> = (0..processors * 8)
        .map(|_| {
            let mut curl = site.curl();
            curl.args(["--user", "heavy:wrong"]).arg(format!("ftp://{}/raw/data", site.address));
            curl.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("curl starts")
        })
        .collect();
    for mut client in crowd {
        // 67: the login was refused, and none for want of room or time.
        assert_eq!(client.wait().expect("it ends").code(), Some(67));
    }
    let after = farline_lab::peak_memory(site.node.0.id()).expect("a peak");
    // Two more than compare at once, and what so many sessions take.
    let most = (processors as u64 + 2) * (HASH_MIB << 20) + (64 << 20);
    assert!(after - before < most, "{} of {most} bytes", after - before);
    assert!(after - before > HASH_MIB << 20, "one is compared at least");
}

#[test]
fn a_token_opens_what_its_scopes_say() {
    let site = Site::new();
    let pki = site.at("pki");
    let with = |token: String| {
        let mut command = site.cp();
        command.env("BEARER_TOKEN", token);
        command
    };
    let good = || token(&pki, |_| {});
    let file = site.at("pki/names");
    succeed(with(good()).arg(&file).arg(site.url("bearer@", "/vo/bob/up")));
    succeed(Command::new("cmp").arg(&file).arg(site.at("root/vo/bob/up")));
    let path = site.at("token");
    fs::write(&path, good() + "\n").expect("written");
    let mut by_file = site.cp();
    by_file.env("BEARER_TOKEN_FILE", &path).env_remove("BEARER_TOKEN");
    succeed(by_file.arg(site.url("bearer@", "/vo/bob/up")).arg(site.at("down")));
    // A session of alice's goes on as the token's.
    for command in ["SITE TOKEN", "OPTS TOKEN"] {
        let mut curl = site.curl();
        curl.args(["--user", "alice:secret", "-Q", &format!("{command} {}", good())]);
        curl.arg(format!("ftp://{}/vo/bob/up", site.address)).arg("-o").arg(site.at("curled"));
        succeed(&mut curl);
        succeed(Command::new("cmp").arg(&file).arg(site.at("curled")));
        fs::remove_file(site.at("curled")).expect("it was there");
    }
    for to in ["/vo/alice", "/new", "/raw/new"] {
        let code = code_of(with(good()).arg(&file).arg(site.url("bearer@", to)));
        assert_eq!(code, "permission-denied", "{to}");
    }
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 4] = [
        (|claims| claims["exp"] = json!(1_000_000_000), "expired"),
        (|claims| claims["aud"] = json!("https://other.example"), "not for this node"),
        (|claims| claims["iss"] = json!("https://evil.example"), "not taken here"),
        (|claims| claims["scope"] = json!("openid"), "no scope"),
    ];
    for (change, why) in cases {
        let mut command = with(token(&pki, change));
        let (error, _) =
            error_of_command(command.arg(&file).arg(site.url("bearer@", "/vo/bob/no")));
        assert_eq!(error["code"], "login-refused", "{error}");
        assert!(error["message"].as_str().expect("words").contains(why), "{error}");
    }
    for (header, why) in [
        (json!({"alg": "none"}), "no token that anybody signed"),
        (json!({"alg": "HS256", "kid": "k"}), "HS256"),
        (json!({"alg": "RS256", "kid": "other"}), "no key of that id"),
    ] {
        let mut command = with(token_of(&pki, &header, |_| {}));
        let (error, _) =
            error_of_command(command.arg(&file).arg(site.url("bearer@", "/vo/bob/no")));
        assert_eq!(error["code"], "login-refused", "{header}: {error}");
        assert!(error["message"].as_str().expect("words").contains(why), "{header}: {error}");
    }
    let mut forged = good();
    forged.replace_range(forged.len() - 8..forged.len() - 4, "AAAA");
    let code = code_of(with(forged).arg(&file).arg(site.url("bearer@", "/vo/bob/no")));
    assert_eq!(code, "login-refused");
    let clear = format!("farline://bearer@{}/vo/bob/no", site.address);
    let mut command = farline();
    command.args(["--json", "cp"]).env("BEARER_TOKEN", good());
    assert_eq!(code_of(command.arg(&file).arg(clear)), "cannot-encrypt");
    assert!(!site.at("root/vo/bob/no").exists());
}

#[test]
fn over_the_one_udp_port_each_is_who_it_is_over_tcp() {
    let site = Site::new();
    let url = |user: &str, path: &str| format!("farlineq://{user}{}{path}", site.udp);
    let (names, raw) = (site.at("pki/names"), site.at("root/raw/data"));
    let as_alice = || site.cp();
    let as_carol = |who: &str| {
        let mut command = site.cp();
        command.env("FARLINE_CERT", site.at(&format!("pki/{who}.pem")));
        command.env("FARLINE_KEY", site.at(&format!("pki/{who}.key")));
        command.env_remove("FARLINE_PASSWORD");
        command
    };
    let by_token = |token: String| {
        let mut command = site.cp();
        command.env("BEARER_TOKEN", token);
        command
    };
    succeed(as_alice().arg(&names).arg(url("alice@", "/home/alice/up")));
    succeed(Command::new("cmp").arg(&names).arg(site.at("root/home/alice/up")));
    succeed(as_carol("carol").arg(url("carol@", "/raw/data")).arg(site.at("got")));
    succeed(Command::new("cmp").arg(site.at("got")).arg(&raw));
    let good = token(&site.at("pki"), |_| {});
    succeed(by_token(good.clone()).arg(&names).arg(url("bearer@", "/vo/bob/up")));
    succeed(Command::new("cmp").arg(&names).arg(site.at("root/vo/bob/up")));
    for (mut command, to) in [
        (as_alice(), url("alice@", "/raw/new")),
        (as_carol("carol"), url("carol@", "/new")),
        (by_token(good), url("bearer@", "/vo/alice/new")),
    ] {
        assert_eq!(code_of(command.arg(&names).arg(&to)), "permission-denied", "{to}");
    }
    let mut wrong = as_alice();
    wrong.env("FARLINE_PASSWORD", "guessed");
    assert_eq!(code_of(wrong.arg(&names).arg(url("alice@", "/home/alice/no"))), "login-refused");
    for who in ["dave", "stranger"] {
        let (error, exit) =
            error_of_command(as_carol(who).arg(url("", "/raw/data")).arg(site.at("stolen")));
        assert!(exit != 0 && !site.at("stolen").exists(), "{who}: {error}");
    }
    assert!(!site.at("root/home/alice/no").exists());
}

/// Serves the folder that it runs in by HTTPS, with the certificate and key that are its arguments.
const HTTPS: &str = "
import http.server, ssl, sys

server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

#[test]
fn an_issuer_is_asked_for_its_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["pki", "web/.well-known", "root/bob"] {
        fs::create_dir_all(at(name)).expect("a folder");
    }
    certificates(&at("pki"));
    openssl(&at("pki"), &["genrsa", "-out", "issuer.key", "2048"]);
    let mut web = farline_lab::command("/usr/bin/python3");
    web.current_dir(at("web")).args(["-c", HTTPS]).stderr(Stdio::null());
    let (_web, port) =
        farline_lab::Running::begun(web.arg(at("pki/node.pem")).arg(at("pki/node.key")));
    let url = format!("https://127.0.0.1:{}", port.trim());
    let document = json!({"issuer": url, "jwks_uri": format!("{url}/jwks")}).to_string();
    fs::write(at("web/.well-known/openid-configuration"), document).expect("written");
    fs::write(at("web/jwks"), key_set(&at("pki"))).expect("written");
    let (root, pki) = (at("root"), at("pki"));
    let config = format!(
        "root = {root:?}\nlisten = '127.0.0.1:0'\ntls_cert = '{pki}/node.pem'\n\
         tls_key = '{pki}/node.key'\n[[issuer]]\nurl = '{url}'\nauthorities = '{pki}/ca.pem'\n\
         audiences = ['https://node.example']\n",
        pki = pki.display()
    );
    fs::write(at("node.toml"), config).expect("written");
    let mut command = farline_lab::command(farline_binary());
    let (_node, node) = announced(command.args(["--json", "serve"]).arg(at("node.toml")));
    let node = node.replacen("ftp://", "farlines://bearer@", 1);
    let cp = |token: String| {
        let mut command = farline();
        command.args(["--json", "cp", "--tls-ca"]).arg(at("pki/ca.pem")).arg(at("pki/names"));
        command.arg(format!("{node}/bob/up")).env("BEARER_TOKEN", token);
        command
    };
    let issued = |key: &str| {
        token(&pki, |claims| {
            claims["iss"] = json!(url);
            claims["sub"] = json!(key);
        })
    };
    succeed(&mut cp(issued("bob")));
    succeed(Command::new("cmp").arg(at("pki/names")).arg(at("root/bob/up")));
    // A key that the issuer does not have.
    openssl(&at("pki"), &["genrsa", "-out", "issuer.key", "2048"]);
    let (error, _) = error_of_command(&mut cp(issued("eve")));
    assert_eq!(error["code"], "login-refused", "{error}");
}

#[test]
fn data_of_a_user_is_encrypted_and_known_to_be_the_users() {
    let site = Site::new();
    let url = format!("ftp://{}/raw/data", site.address);
    let run = |more: &[&str]| -> Output {
        let mut curl = site.curl();
        curl.args(["--user", "alice:secret"]).args(more).arg("-o").arg(site.at("got")).arg(&url);
        curl.output().expect("curl runs")
    };
    let own = run(&[]);
    assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
    succeed(Command::new("cmp").arg(site.at("got")).arg(site.at("root/raw/data")));
    fs::remove_file(site.at("got")).expect("it was there");
    // Who does not go on from the control connection's TLS may be anybody.
    assert!(!run(&["--no-sessionid"]).status.success(), "a stranger got the file");
    assert!(fs::read(site.at("got")).unwrap_or_default().is_empty());
    // In the clear anybody on the way reads along.
    let mut half = Command::new("curl");
    half.args([
        "-sS",
        "--max-time",
        "60",
        "--ftp-ssl-control",
        "--user",
        "alice:secret",
        "--cacert",
    ]);
    half.arg(site.at("pki/ca.pem")).arg("-o").arg(site.at("got")).arg(&url);
    assert!(!half.output().expect("curl runs").status.success(), "the data went in the clear");
    let mut clear = site.cp();
    clear.arg("--no-encrypt").arg(site.url("alice@", "/raw/data")).arg(site.at("got"));
    let (error, _) = error_of_command(&mut clear);
    assert!(error["message"].as_str().expect("words").contains("encrypted here"), "{error}");
    // Several transfers in one session, there and back.
    let script = format!(
        "set ssl:ca-file {ca}; set ftp:ssl-force yes; set ftp:ssl-protect-data yes; \
         open -u alice,secret ftp://{address}; put {data} -o /home/alice/a; \
         get /home/alice/a -o {got}; put {data} -o /home/alice/b; cls -1 /home/alice; quit",
        ca = site.at("pki/ca.pem").display(),
        address = site.address.replace("127.0.0.1", "localhost"),
        data = site.at("root/raw/data").display(),
        got = site.at("got2").display(),
    );
    let said = succeed(farline_lab::command("timeout").args(["60", "lftp", "-c", &script]));
    assert!(said.contains("alice/b"), "{said}");
    for copy in ["got2", "root/home/alice/a", "root/home/alice/b"] {
        succeed(Command::new("cmp").arg(site.at(copy)).arg(site.at("root/raw/data")));
    }
}

#[test]
fn a_password_may_be_one_that_pam_knows() {
    pam_knows(None);
    // What PAM asks is root's alone, also where the node is not root any more.
    if rustix::process::geteuid().is_root() {
        pam_knows(Some("daemon"));
    }
}

fn pam_knows(user: Option<&str>) {
    let pam = tempfile::tempdir().expect("a folder");
    let at = |name: &str| pam.path().join(name);
    let check = at("check");
    fs::write(&check, "#!/bin/sh\n[ \"$PAM_USER:$(tr -d '\\0')\" = pat:open ]\n").expect("written");
    fs::set_permissions(&check, fs::Permissions::from_mode(0o700)).expect("set");
    let rules = format!(
        "auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n",
        check.display()
    );
    fs::write(at("service"), rules).expect("written");
    let identity = |name: &str, service: &str| {
        let service = at(service).display().to_string();
        format!(
            "[[identity]]\nname = '{name}'\npassword = 'pam:{service}'\npaths = {{ '/raw' = 'read' }}\n"
        )
    };
    let site = Site::serving_as(user, &(identity("pat", "service") + &identity("lost", "nothing")));
    let get = |user: &str, password: &str| {
        let mut curl = site.curl();
        curl.args(["--user", &format!("{user}:{password}"), "-o"]).arg(site.at("got"));
        curl.arg(format!("ftp://{}/raw/data", site.address)).output().expect("curl runs")
    };
    for _ in 0..3 {
        assert!(get("pat", "open").status.success());
    }
    succeed(Command::new("cmp").arg(site.at("got")).arg(site.at("root/raw/data")));
    for (user, password) in [("pat", "shut"), ("pat", ""), ("alice", "open"), ("lost", "open")] {
        let said = get(user, password);
        assert_eq!(said.status.code(), Some(67), "{user}: {said:?}");
    }
    assert!(get("alice", "secret").status.success(), "others have their own");
}

#[test]
fn strangers_at_an_ftps_port_cost_its_client_nothing() {
    let site = Site::new();
    let port = site.address.rsplit(':').next().expect("a port");
    for how in ["close", "junk", "silent", "many", "flood"] {
        let began = Instant::now();
        let mut client = farline_lab::command("python3");
        client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/strangers.py"));
        client.args(["localhost", port]).arg(site.at("pki/ca.pem")).arg("/raw/data");
        succeed(client.arg(site.at("got")).arg(how));
        succeed(Command::new("cmp").arg(site.at("got")).arg(site.at("root/raw/data")));
        // A handshake with who says nothing takes ten seconds.
        assert!(began.elapsed() < Duration::from_secs(8), "{how}: {:?}", began.elapsed());
    }
}

#[test]
fn an_identitys_rate_holds_all_its_sessions_together() {
    let site = Site::new();
    let file = site.at("big");
    fs::write(&file, vec![7; 10_000_000]).expect("written");
    let both = || {
        let began = std::time::Instant::now();
        let copies: Vec<Child> = (0..2)
            .map(|i| {
                let mut command = site.cp();
                command.arg("-q").arg(&file).arg(site.url("slow@", &format!("/{i}")));
                command.stdout(Stdio::piped()).spawn().expect("farline starts")
            })
            .collect();
        let said = copies.into_iter().map(|copy| {
            let output = copy.wait_with_output().expect("it ends");
            let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            (said["limited_by"].clone(), said["limited_party"].clone())
        });
        let said: Vec<_> = said.collect();
        // 20 MB at 80 Mbit/s are two seconds; one session alone would need one.
        let took = began.elapsed().as_secs_f64();
        assert!(took > 1.7, "two copies of 10 MB at 80 Mbit/s together took {took} s");
        said
    };
    let limit = (json!("rate_limit"), json!("there"));
    // A busy machine may hold them back more than the limit does.
    let said = fit_of_three(both, |said| said.iter().all(|said| *said == limit));
    assert_eq!(said, [limit.clone(), limit]);
}

#[test]
fn third_party_data_is_an_identitys_own_right() {
    let site = Site::with("third_party = true");
    // A host of the internet's, to which nothing is sent.
    let may = |user: &str| {
        let mut curl = site.curl();
        curl.args(["--user", &format!("{user}:secret"), "-Q", "PORT 8,8,8,8,100,100"]);
        curl.arg(format!("ftp://{}/raw/", site.address)).arg("-o").arg(site.at("list"));
        curl.output().expect("curl runs").status.success()
    };
    assert_eq!([may("alice"), may("slow")], [true, false]);
}

#[test]
fn a_day_has_the_bytes_and_files_that_an_identity_may_store() {
    let site = Site::with("bytes_per_day = \"4MiB\"\nfiles_per_day = 6");
    let (big, small, tree) = (site.at("big"), site.at("small"), site.at("tree"));
    fs::write(&big, random(3, 5 << 20)).expect("written");
    fs::write(&small, random(4, 1 << 20)).expect("written");
    fs::create_dir(&tree).expect("a folder");
    for i in 0..6 {
        fs::write(tree.join(i.to_string()), "x").expect("written");
    }
    let there = || {
        let names = fs::read_dir(site.at("root/home/alice")).expect("a folder");
        let names = names.map(|entry| entry.expect("a name").file_name().into_string());
        let mut names: Vec<_> = names.map(|name| name.expect("text")).collect();
        names.sort();
        names
    };
    let refused = |file: &Path, why: &str| {
        let to = site.url("alice@", "/home/alice/no");
        let (error, exit) = error_of_command(site.cp().arg(file).arg(to));
        assert_eq!((&error["code"], exit), (&json!("quota-exceeded"), 6), "{error}");
        assert!(error["message"].as_str().expect("words").contains(why), "{error}");
    };
    // A client that says no length, or one that does, and a file that is written in place.
    let curl = |file: &Path, more: &[&str]| {
        let mut curl = site.curl();
        curl.args(["--user", "alice:secret", "-T"]).arg(file).args(more);
        let output = curl.arg(format!("ftp://{}/home/alice/curl", site.address)).output();
        let output = output.expect("curl runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    refused(&big, "4 MiB in a day");
    refused(&tree, "6 files in a day");
    // Sent on long after it was refused.
    let bigger = site.at("bigger");
    fs::write(&bigger, random(3, 64 << 20)).expect("written");
    for (file, more) in [(&big, &[][..]), (&big, &["-Q", "-ALLO 5242880"]), (&bigger, &[])] {
        let (done, said) = curl(file, more);
        // Curl's own words for 552.
        assert!(!done && said.contains("Exceeded storage allocation"), "{more:?}: {said}");
    }
    assert_eq!(there(), ["way"], "what is refused leaves nothing behind");
    // Nothing of all that counts: four megabytes fit, and two of the files are folders.
    fs::remove_file(tree.join("5")).expect("it was there");
    succeed(site.cp().arg(&tree).arg(site.url("alice@", "/home/alice/")));
    refused(&small, "1 more do not fit");
    assert_eq!(there(), ["tree", "way"]);
    // Whose day it is not.
    succeed(site.cp().arg(&big).arg(site.url("slow@", "/big")));

    let site = Site::with("bytes_per_day = \"4MiB\"");
    let to = |name: &str| site.url("alice@", &format!("/home/alice/{name}"));
    fs::create_dir(site.at("folder")).expect("a folder");
    fs::write(site.at("folder/three"), random(5, 3 << 20)).expect("written");
    // What is there already takes nothing.
    for _ in 0..2 {
        let mut sync = farline();
        sync.env("FARLINE_PASSWORD", "secret").args(["sync", "--tls-ca"]);
        succeed(sync.arg(site.at("pki/ca.pem")).arg(site.at("folder")).arg(to("folder")));
    }
    let code = code_of(site.cp().arg(&big).arg(to("big")));
    assert_eq!(code, "quota-exceeded");
    succeed(site.cp().arg(&small).arg(to("small")));
    assert_eq!(code_of(site.cp().arg(site.at("pki/names")).arg(to("names"))), "quota-exceeded");
}

/// Protects data before it logs in, as RFC 4217 allows, and fetches to its last argument.
const PROTECTS_FIRST: &str = "
import ftplib, ssl, sys

class Resuming(ftplib.FTP_TLS):
    def ntransfercmd(self, cmd, rest=None):
        data, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        session = self.sock.session
        return self.context.wrap_socket(data, server_hostname=self.host, session=session), size

ftp = Resuming(timeout=20, context=ssl._create_unverified_context())
ftp.connect(sys.argv[1], int(sys.argv[2]))
ftp.auth()
ftp.prot_p()
ftp.login('alice', 'secret')
with open(sys.argv[3], 'wb') as file:
    ftp.retrbinary('RETR raw/data', file.write)
ftp.quit()
";

#[test]
fn data_protected_before_the_login_stays_protected() {
    let site = Site::new();
    let (host, port) = site.address.rsplit_once(':').expect("a port");
    let mut python = farline_lab::command("/usr/bin/python3");
    succeed(python.args(["-c", PROTECTS_FIRST, host, port]).arg(site.at("back")));
    succeed(Command::new("cmp").arg(site.at("back")).arg(site.at("root/raw/data")));
}
