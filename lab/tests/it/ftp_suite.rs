//! pyftpdlib's functional tests, a test suite of FTP servers, run against a node: what of them fails, and why that is
//! as it should be, is on a list; anything else that fails, or no longer does, fails here.

use crate::tls::openssl;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// The suite's classes that test a server, and not pyftpdlib's own ways to be set up and extended.
const CLASSES: &[&str] = &[
    "TestFtpAuthentication",
    "TestFtpDummyCmds",
    "TestFtpCmdsSemantic",
    "TestFtpFsOperations",
    "TestFtpStoreData",
    "TestFtpRetrieveData",
    "TestFtpListingCmds",
    "TestFtpAbort",
    "TestIPv4Environment",
    "TestIPv6Environment",
];

include!("ftp_suite_expected.rs");

/// Python with the suite, which `lab/setup` brings.
fn python() -> Option<PathBuf> {
    let python =
        PathBuf::from(std::env::var_os("HOME")?).join(".cache/farline/ftp-suite/bin/python3");
    let has = ["-c", "import pyftpdlib.test, psutil, pytest"];
    let found = Command::new(&python).args(has).output();
    found.is_ok_and(|output| output.status.success()).then_some(python)
}

#[test]
fn a_node_passes_a_test_suite_of_ftp_servers_as_listed() {
    let Some(python) = python() else {
        return farline_lab::skip("there is no pyftpdlib with its tests (lab/setup brings it)");
    };
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("root")).expect("a folder");
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    let own = ["req", "-x509", "-subj", "/CN=node", "-keyout", "node.key", "-out", "node.pem"];
    openssl(dir.path(), &[&own[..], &key[..]].concat());
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/ftp_suite.py");
    let mut command = farline_lab::command(&python);
    command.current_dir(at("root")).arg(script).arg(farline_lab::farline_binary());
    let output = command.arg(at("node.pem")).arg(at("node.key")).args(CLASSES).output();
    let output = output.expect("python runs");
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut failed = BTreeMap::new();
    let mut passed = Vec::new();
    for line in said.lines() {
        let mut words = line.splitn(3, ' ');
        let (word, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match word {
            "ok" => passed.push(name),
            "fail" => drop(failed.entry(name).or_insert(words.next().unwrap_or_default())),
            _ => {}
        }
    }
    assert!(output.status.success() && passed.len() + failed.len() >= 80, "{said}{errors}");
    let is_expected = |name: &str| EXPECTED.iter().any(|(expected, _)| *expected == name);
    let new: Vec<_> = failed.iter().filter(|(name, _)| !is_expected(name)).collect();
    assert!(new.is_empty(), "failed, and are not listed: {new:#?}");
    let mended: Vec<_> = EXPECTED.iter().filter(|(name, _)| !failed.contains_key(name)).collect();
    assert!(mended.is_empty(), "are listed, and do not fail any more: {mended:#?}");
}
