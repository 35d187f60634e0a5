//! A node and a calendar that know the same identities: who comes to one by certificate or token
//! comes to the other so, each by its own rights.

use crate::calendar::{Calendar, day, done, refused};
use crate::identities::{ISSUER, certificates, key_set, token};
use crate::tls::openssl;
use farline_lab::{Running, farline, succeed};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tables of both.
fn tables(pki: &Path) -> String {
    format!(
        r#"
client_authorities = "{pki}/ca.pem"
client_revoked = "{pki}/ca.crl"

[[identity]]
name = "carol"
certificates = ["/CN=carol"]
paths = {{ "/" = "read" }}
calendar = {{ project = "climate", role = "user", endpoints = ["oak-ridge", "chicago"], highest_rate = "2G" }}

[[identity]]
name = "dave"
certificates = ["/CN=dave"]
paths = {{ "/" = "read" }}

[[issuer]]
url = "{ISSUER}"
keys = "{pki}/keys.json"
audiences = ["https://node.example"]
calendar = {{ project = "physics", role = "user", endpoints = ["*"] }}
"#,
        pki = pki.display()
    )
}

struct Site {
    folder: tempfile::TempDir,
    calendar: Calendar,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().expect("a folder");
        let pki = folder.path().join("pki");
        fs::create_dir(&pki).expect("a folder");
        certificates(&pki);
        openssl(&pki, &["genrsa", "-out", "issuer.key", "2048"]);
        fs::write(pki.join("keys.json"), key_set(&pki)).expect("written");
        let config = folder.path().join("calendar.toml");
        fs::write(&config, tables(&pki)).expect("written");
        let state = folder.path().join("state");
        let calendar = Calendar::serve(&state, &[config.to_str().expect("text")]);
        Site { folder, calendar }
    }

    fn pki(&self, name: &str) -> PathBuf {
        self.folder.path().join("pki").join(name)
    }

    /// A command of `reserve` by the certificate in these files.
    fn by_certificate(&self, file: &str, words: &[&str]) -> Command {
        let mut command = self.calendar.farline_as(Path::new("/nowhere"));
        command.arg("reserve").args(words).arg("--cert").arg(self.pki(&format!("{file}.pem")));
        command.arg("--key").arg(self.pki(&format!("{file}.key")));
        command
    }

    /// The same by a token with this scope, which `change` may change.
    fn by_token(&self, change: impl FnOnce(&mut Value), words: &[&str]) -> Command {
        let path = self.folder.path().join("token");
        fs::write(&path, token(&self.pki(""), change)).expect("written");
        let mut command = self.calendar.farline_as(&path);
        command.arg("reserve").args(words);
        command
    }
}

fn code_of(command: &mut Command) -> String {
    let (_, said) = refused(command);
    said["error"]["code"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn a_certificates_owner_books_by_the_rights_it_is_given() {
    let site = Site::new();
    let start = format!("{}T18:00", day(0));
    let book = |to: &'static str, rate: &'static str| {
        let words = ["oak-ridge", to, "--start", &start, "--for", "1h", "--rate", rate];
        site.by_certificate("carol", &words)
    };
    assert_eq!(code_of(&mut book("sunnyvale", "1G")), "calendar-denied");
    assert_eq!(code_of(&mut book("chicago", "3G")), "calendar-denied");
    let hers = done(&mut book("chicago", "2G"));
    assert_eq!((&hers["owner"], &hers["project"]), (&json!("carol"), &json!("climate")), "{hers}");
    // Known to the node, with no rights here; of another authority; over; revoked.
    for file in ["dave", "stranger", "expired", "revoked"] {
        let (code, said) = refused(&mut site.by_certificate(file, &["ls"]));
        assert_eq!(said["error"]["code"], "calendar-denied", "{file}: {code} {said}");
    }
    // What the authority takes back counts from the next connection on.
    done(&mut site.by_certificate("carol", &["ls"]));
    let ca = ["ca", "-batch", "-config", "ca.conf", "-cert", "ca.pem", "-keyfile", "ca.key"];
    for more in [["-revoke", "carol.pem"].as_slice(), &["-gencrl", "-out", "ca.crl"]] {
        openssl(&site.pki(""), &[&ca[..], more].concat());
    }
    assert_eq!(code_of(&mut site.by_certificate("carol", &["ls"])), "calendar-denied");
}

#[test]
fn a_signed_tokens_bearer_books_by_its_scope() {
    let site = Site::new();
    let start = format!("{}T18:00", day(0));
    let book = ["oak-ridge", "sunnyvale", "--start", &start, "--for", "1h", "--rate", "1G"];
    let scope = |scope: &'static str| move |claims: &mut Value| claims["scope"] = json!(scope);
    let his = done(&mut site.by_token(scope("calendar.book"), &book));
    let owner = format!("bob of {ISSUER}");
    assert_eq!((&his["owner"], &his["project"]), (&json!(owner), &json!("physics")), "{his}");
    let seen = done(&mut site.by_token(scope("calendar.read openid"), &["ls"]));
    assert!(seen.to_string().contains(his["id"].as_str().expect("text")), "{seen}");
    assert_eq!(code_of(&mut site.by_token(scope("calendar.read"), &book)), "calendar-denied");
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 4] = [
        ("of storage alone", |claims| {
            claims["scope"] = json!("storage.read:/ storage.modify:/bob")
        }),
        ("over", |claims| claims["exp"] = json!(1_000_000_000)),
        ("for somebody else", |claims| claims["aud"] = json!("https://other.example")),
        ("of nobody known", |claims| claims["iss"] = json!("https://evil.example")),
    ];
    for (case, change) in cases {
        let with_scope = |claims: &mut Value| {
            claims["scope"] = json!("calendar.book");
            change(claims);
        };
        let (code, said) = refused(&mut site.by_token(with_scope, &["ls"]));
        assert_eq!(said["error"]["code"], "calendar-denied", "{case}: {code} {said}");
    }
    let signed = token(&site.pki(""), scope("calendar.book"));
    let path = site.folder.path().join("token");
    let mut forged = signed;
    forged.replace_range(forged.len() - 8..forged.len() - 4, "AAAA");
    fs::write(&path, forged).expect("written");
    assert_eq!(code_of(site.calendar.farline_as(&path).args(["reserve", "ls"])), "calendar-denied");
}

#[test]
fn a_node_takes_the_same_tables() {
    let site = Site::new();
    let root = site.folder.path().join("root");
    fs::create_dir(&root).expect("a folder");
    fs::write(root.join("data"), "of the node").expect("written");
    let pki = site.pki("");
    let config = format!(
        "root = '{}'\nlisten = '127.0.0.1:0'\ntls_cert = '{pki}/node.pem'\ntls_key = '{pki}/node.key'\n{}",
        root.display(),
        tables(&pki),
        pki = pki.display(),
    );
    let file = site.folder.path().join("node.toml");
    fs::write(&file, config).expect("written");
    let (_node, line) = Running::begun(farline().args(["--json", "serve"]).arg(&file));
    let said: Value = serde_json::from_str(&line).expect("one object");
    let address = said["address"].as_str().expect("listens");
    let got = site.folder.path().join("got");
    let copy = |user: &str| {
        let mut command = farline();
        command.args(["--json", "cp", "--tls-ca"]).arg(site.pki("ca.pem"));
        command.arg(format!("farlines://{user}{address}/data")).arg(&got);
        command
    };
    let mut carol = copy("");
    carol.env("FARLINE_CERT", site.pki("carol.pem")).env("FARLINE_KEY", site.pki("carol.key"));
    succeed(&mut carol);
    assert_eq!(fs::read(&got).expect("it came"), b"of the node");
    fs::remove_file(&got).expect("it was there");
    // A token for the calendar alone opens no file.
    let mut bob = copy("bearer@");
    bob.env("BEARER_TOKEN", token(&pki, |claims| claims["scope"] = json!("calendar.book")));
    let output = bob.output().expect("farline starts");
    assert!(!output.status.success() && !got.exists(), "{output:?}");
}

#[test]
fn rights_that_the_network_lacks_are_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("calendar.toml");
    for (rights, why) in [
        ("project = 'a', role = 'user', endpoints = ['nowhere']", "there is no site `nowhere`"),
        ("project = 'a', role = 'user', not_after = 'soon'", "a time that is none"),
        ("project = 'a', role = 'user', highest_rate = 'fast'", "fast"),
        ("project = 'a', role = 'king'", "king"),
    ] {
        let text = format!(
            "state = '{}'\nlisten = '127.0.0.1:0'\n[[identity]]\nname = 'a'\ncertificates = \
             ['sha256={}']\ncalendar = {{ {rights} }}\n",
            folder.path().join("state").display(),
            "ab".repeat(32)
        );
        fs::write(&config, text).expect("written");
        let mut command = farline();
        let (_, said) = refused(command.args(["--json", "calendar", "serve"]).arg(&config));
        let message = said["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(why), "{rights}: {said}");
    }
}

/// A calendar that took two would give whoever comes as the second the rights of the first.
#[test]
fn two_identities_of_one_name_are_refused_by_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("site.toml");
    let identity = |name: &str, digits: &str| {
        format!(
            "[[identity]]\nname = '{name}'\ncertificates = ['sha256={}']\npaths = {{ '/' = 'read' \
             }}\ncalendar = {{ project = 'p', role = 'user', endpoints = ['*'] }}\n",
            digits.repeat(32)
        )
    };
    let [calendar, node] = [("state", "calendar"), ("root", "")].map(|(key, word)| {
        let of_it = if key == "root" { "tls = true\n" } else { "" };
        let config = format!(
            "{key} = '{}'\nlisten = '127.0.0.1:0'\n{of_it}{}{}",
            folder.path().display(),
            identity("carol", "ab"),
            identity("carol", "cd")
        );
        fs::write(&file, config).expect("written");
        let mut command = farline();
        command.arg("--json").args(Some(word).filter(|word| !word.is_empty())).arg("serve");
        let (code, said) = refused(command.arg(&file));
        (code, said["error"].clone())
    });
    assert_eq!(calendar, node);
    assert_eq!((calendar.0, &calendar.1["code"]), (2, &json!("bad-config")), "{calendar:?}");
    let message = calendar.1["message"].as_str().unwrap_or_default();
    assert!(message.contains("two identities are called carol"), "{calendar:?}");
}
