//! TLS on the control channel and on data connections: Farline with itself, with curl and with
//! lftp.

use farline_lab::files::random;
use farline_lab::{assert_same_tree, error_of, farline, farline_binary, plant, succeed};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A node that offers TLS: itself, its address, its fingerprint.
pub(crate) fn node(root: &Path, more: &[&str]) -> (farline_lab::Running, String, String) {
    let mut command = farline_lab::command(farline_binary());
    command
        .args(["--json", "serve", "--anonymous", "write", "--listen", "127.0.0.1:0", "--root"])
        .arg(root)
        .args(more);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("farline starts");
    let stdout = child.stdout.take().expect("piped");
    let running = farline_lab::Running(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("farline serve says where it listens");
    let said: serde_json::Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let fingerprint = said["fingerprint"].as_str().unwrap_or_default().to_owned();
    (running, said["address"].as_str().expect("an address").to_owned(), fingerprint)
}

#[test]
fn a_tree_goes_there_and_back_under_tls() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, root, back) =
        (dir.path().join("src"), dir.path().join("root"), dir.path().join("back"));
    std::fs::create_dir_all(&root).expect("a folder");
    plant(&source);
    let (_node, address, fingerprint) = node(&root, &["--tls"]);
    let cp = || {
        let mut command = farline();
        command.args(["--json", "cp", "-r", "--streams", "3", "--tls-pin", &fingerprint]);
        command
    };
    let up = succeed(cp().arg(&source).arg(format!("ftps://{address}/up/")));
    assert_same_tree(&source, &root.join("up/src"));
    let down = succeed(cp().arg(format!("ftps://{address}/up/src/")).arg(&back));
    assert_same_tree(&source, &back);
    for text in [up, down] {
        let result: serde_json::Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(
            (&result["encrypted"], &result["verified"]),
            (&true.into(), &true.into()),
            "{result}"
        );
    }
    let plain = succeed(
        cp().arg("--no-encrypt")
            .arg(source.join("one/small7"))
            .arg(format!("ftps://{address}/plain")),
    );
    assert!(plain.contains("\"encrypted\":false"), "{plain}");
}

#[test]
fn tls_is_a_channel_that_may_be_asked_for_by_its_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("f"));
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::write(&file, random(7, 1_000_001)).expect("written");
    let file = file.to_str().expect("text");
    let (_tls, address, fingerprint) = node(&root, &["--tls", "--channel", "tls"]);
    let (_clear, no_tls, _) = node(&root, &[]);
    let url = format!("farlines://{address}/f");
    let mut cp = farline();
    cp.args(["--json", "cp", "--channel", "tls", "--tls-pin", &fingerprint, file, &url]);
    let result: serde_json::Value = serde_json::from_str(&succeed(&mut cp)).expect("one object");
    let said = (&result["data_path"], &result["encrypted"], &result["verified"]);
    assert_eq!(said, (&"direct".into(), &true.into(), &true.into()), "{result}");
    succeed(Command::new("cmp").arg(file).arg(root.join("f")));
    // Where it cannot be had, nothing moves, and who asked is told why.
    let (clear, without) = (format!("farline://{address}/no"), format!("farlines://{no_tls}/no"));
    let served = root.to_str().expect("text");
    for (args, code, exit) in [
        (vec!["cp", "--channel", "tls", file, &clear], "cannot-encrypt", 2),
        (vec!["cp", "--channel", "tls", file, &without], "no-tls", 4),
        (vec!["serve", "--channel", "tls", "--root", served], "bad-config", 2),
    ] {
        let (error, actual) = error_of(&args);
        assert_eq!((error["code"].as_str(), actual), (Some(code), exit), "{args:?}: {error}");
    }
    assert!(!root.join("no").exists());
}

#[test]
fn a_node_that_is_not_the_one_meant_gets_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(dir.path().join("root")).expect("a folder");
    let file = dir.path().join("f");
    std::fs::write(&file, "secret").expect("written");
    let file = file.to_str().expect("text");
    let (_tls, address, _) = node(&dir.path().join("root"), &["--tls"]);
    let (_clear, no_tls, _) = node(&dir.path().join("root"), &[]);
    let (url, clear) = (format!("ftps://{address}/f"), format!("ftps://{no_tls}/f"));
    let other = "ab".repeat(32);
    for (args, code, exit) in [
        (vec!["cp", file, &url], "tls-untrusted", 6),
        (vec!["cp", "--tls-pin", &other, file, &url], "tls-untrusted", 6),
        (vec!["cp", "--tls-ca", file, file, &url], "bad-certificate", 2),
        (vec!["cp", file, &clear], "no-tls", 4),
        (vec!["cp", "--tls-pin", "12", file, &url], "usage", 2),
    ] {
        let (error, actual) = error_of(&args);
        assert_eq!((error["code"].as_str(), actual), (Some(code), exit), "{args:?}: {error}");
    }
    assert!(!dir.path().join("root/f").exists());
}

#[test]
fn curl_and_lftp_move_files_under_tls() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, file) = (dir.path().join("root"), dir.path().join("big"));
    std::fs::create_dir_all(&root).expect("a folder");
    let bytes = random(5, 5_600_000);
    std::fs::write(&file, &bytes).expect("written");
    let (_node, address, _) = node(&root, &["--tls"]);
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60", "--ssl-reqd", "-k"]);
        command
    };
    succeed(curl().arg("-T").arg(&file).arg(format!("ftp://{address}/big")));
    assert!(std::fs::read(root.join("big")).expect("landed") == bytes, "what curl stored differs");
    succeed(curl().arg("-o").arg(dir.path().join("back")).arg(format!("ftp://{address}/big")));
    assert!(
        std::fs::read(dir.path().join("back")).expect("came") == bytes,
        "what curl fetched differs"
    );
    assert!(succeed(curl().arg(format!("ftp://{address}/"))).contains("big"));
    // Half of it is there already, and its sum is the node's to tell.
    let half = dir.path().join("half");
    std::fs::write(&half, &bytes[..bytes.len() / 2]).expect("written");
    succeed(curl().args(["-C", "-", "-o"]).arg(&half).arg(format!("ftp://{address}/big")));
    assert!(std::fs::read(&half).expect("came") == bytes, "what curl went on with differs");
    let sum = succeed(Command::new("md5sum").arg(&file));
    let sum = sum.split_whitespace().next().expect("a sum");
    let mut ask = curl();
    ask.args(["-v", "-Q", "CKSM MD5 0 -1 /big"]).arg(format!("ftp://{address}/"));
    let asked = ask.output();
    let said = String::from_utf8_lossy(&asked.expect("curl runs").stderr).into_owned();
    assert!(said.contains(&format!("< 213 {sum}")), "{said}");
    let part = dir.path().join("got");
    std::fs::write(&part, &bytes[..1_000_000]).expect("written");
    std::fs::write(root.join("begun"), &bytes[..1_000_000]).expect("written");
    let script = format!(
        "set ssl:verify-certificate no; set ftp:ssl-force yes; set ftp:ssl-protect-data yes; open \
         ftp://{address}; \
         get -c big -o {got}; put {got} -o again; quote CKSM MD5 0 -1 /again; \
         put -c {got} -o begun; cls -1; quit",
        got = part.display()
    );
    let said = succeed(farline_lab::command("timeout").args(["60", "lftp", "-c", &script]));
    assert!(said.contains("again") && said.contains(sum), "{said}");
    for name in ["again", "begun"] {
        let landed = std::fs::read(root.join(name)).expect("landed");
        assert!(landed == bytes, "what lftp moved to {name} differs");
    }
}

/// Fetches `f` under PROT P as nobody, to its third argument. With `stranger` another connection of
/// this address is first, under TLS of its own, and says what it was given; `own` has the client
/// itself begin TLS anew for data, as ftplib does.
const NOBODY_FETCHES: &str = r#"
import ftplib, socket, ssl, sys

host, port, out, how = sys.argv[1:]
context = ssl._create_unverified_context()

class Client(ftplib.FTP_TLS):
    def ntransfercmd(self, cmd, rest=None):
        if how == "own":
            return super().ntransfercmd(cmd, rest)
        at = self.makepasv()
        other = socket.create_connection(at, 20)
        data = socket.create_connection(at, 20)
        self.putcmd(cmd)
        try:
            print("stranger got", ssl._create_unverified_context().wrap_socket(other).recv(64))
        except OSError:
            pass
        data = self.context.wrap_socket(data, server_hostname=host, session=self.sock.session)
        reply = self.getresp()
        assert reply[0] == "1", reply
        return data, None

client = Client(timeout=20, context=context)
client.connect(host, int(port))
client.login("anonymous", "")
client.prot_p()
with open(out, "wb") as file:
    client.retrbinary("RETR f", file.write)
client.quit()
"#;

#[test]
fn nobodys_data_under_tls_is_its_clients_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, back) = (dir.path().join("root"), dir.path().join("back"));
    std::fs::create_dir_all(&root).expect("a folder");
    std::fs::write(root.join("f"), random(6, 100_000)).expect("written");
    let fetch = |address: &str, how: &str| {
        let (host, port) = address.rsplit_once(':').expect("a port");
        let mut python = farline_lab::command("/usr/bin/python3");
        python.args(["-c", NOBODY_FETCHES, host, port]).arg(&back).arg(how);
        python.output().expect("python starts")
    };
    let same = || std::fs::read(&back).ok() == std::fs::read(root.join("f")).ok();
    let (_node, address, _) = node(&root, &["--tls"]);
    let first = fetch(&address, "stranger");
    assert!(first.status.success() && same(), "{first:?}");
    assert_eq!(String::from_utf8_lossy(&first.stdout).trim(), "stranger got b''");
    let refused = fetch(&address, "own");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("does not resume"), "{why}");
    // Where its operator lets such clients in.
    let config = dir.path().join("node.toml");
    std::fs::write(&config, "tls_resumption = false\n").expect("written");
    let (_node, address, _) = node(&root, &["--tls", &config.display().to_string()]);
    let taken = fetch(&address, "own");
    assert!(taken.status.success() && same(), "{taken:?}");
}

/// Runs openssl, quietly.
pub(crate) fn openssl(folder: &Path, args: &[&str]) {
    let output = Command::new("openssl")
        .current_dir(folder)
        .args(args)
        .output()
        .expect("openssl is installed by make test");
    assert!(
        output.status.success(),
        "openssl {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_authoritys_certificate_is_trusted_by_who_knows_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let (root, pki) = (dir.path().join("root"), dir.path().join("pki"));
    for folder in [&root, &pki] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let authority = [
        "req",
        "-x509",
        "-subj",
        "/CN=Test authority",
        "-days",
        "2",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
    ];
    openssl(&pki, &[&authority[..], &key[..]].concat());
    openssl(
        &pki,
        &[&["req", "-subj", "/CN=node", "-keyout", "node.key", "-out", "node.csr"][..], &key[..]]
            .concat(),
    );
    std::fs::write(pki.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        .expect("written");
    let sign = [
        "x509",
        "-req",
        "-in",
        "node.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
    ];
    openssl(&pki, &[&sign[..], &["-extfile", "names", "-out", "node.pem"][..]].concat());
    let at = |name: &str| pki.join(name).to_str().expect("text").to_owned();
    let (_node, address, fingerprint) =
        node(&root, &["--tls-cert", &at("node.pem"), "--tls-key", &at("node.key")]);
    assert_eq!(fingerprint.len(), "sha256=".len() + 64, "{fingerprint}");
    let file = dir.path().join("f");
    std::fs::write(&file, vec![5; 3_000_001]).expect("written");
    let here = file.to_str().expect("text");
    let up = format!("ftps://{address}/up");
    let out = succeed(farline().args(["--json", "cp", "--tls-ca", &at("ca.pem"), here, &up]));
    assert!(out.contains("\"encrypted\":true") && out.contains("\"verified\":true"), "{out}");
    succeed(Command::new("cmp").arg(&file).arg(root.join("up")));
    let (error, exit) = error_of(&["cp", here, &up]);
    assert_eq!((error["code"].as_str(), exit), (Some("tls-untrusted"), 6), "{error}");
    // curl checks the name and the chain on both channels.
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60", "--ssl-reqd", "--cacert", &at("ca.pem")]);
        command
    };
    succeed(curl().arg("-o").arg(dir.path().join("back")).arg(format!("ftp://{address}/up")));
    succeed(Command::new("cmp").arg(&file).arg(dir.path().join("back")));
    succeed(curl().arg("-T").arg(&file).arg(format!("ftp://{address}/again")));
    succeed(Command::new("cmp").arg(&file).arg(root.join("again")));
    let stranger = Command::new("curl")
        .args(["-sS", "--max-time", "60", "--ssl-reqd", &format!("ftp://{address}/up")])
        .output();
    assert!(
        stranger.is_ok_and(|output| !output.status.success()),
        "who does not know the authority gets nothing"
    );
}
