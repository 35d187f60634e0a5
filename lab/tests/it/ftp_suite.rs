//! pyftpdlib's functional tests, a test suite of FTP servers, run against a node: what of them
//! fails, and why that is as it should be, is on a list; anything else that fails, or no longer
//! does, fails here.

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

/// How many of their tests a node passes.
pub(crate) const PASSES: usize = 42;

/// What fails, and why.
pub(crate) const EXPECTED: &[(&str, &str)] = &[
    (
        "TestFtpAbort.test_abor_during_transfer",
        "after ABOR it reads a line a reply, and the node's 426 has several (GFD.20 wants them structured)",
    ),
    ("TestFtpAbort.test_abor_no_data", "only its words differ: the suite compares whole replies"),
    (
        "TestFtpAbort.test_abor_pasv",
        "nothing was moved: RFC 959 has 226 where no transfer is running, the suite 225",
    ),
    ("TestFtpAbort.test_abor_port", "as with PASV"),
    ("TestFtpAbort.test_oob_abor", "it sends urgent data past TLS, which Python refuses"),
    (
        "TestFtpAuthentication.test_anon_auth",
        "it wants `AnoNymouS` refused; to a node a name in any case is the anonymous user's",
    ),
    (
        "TestFtpAuthentication.test_rein",
        "REIN is not known: another login takes another connection, or USER again",
    ),
    (
        "TestFtpCmdsSemantic.test_arg_cmds",
        "only its words differ: the suite compares whole replies",
    ),
    ("TestFtpCmdsSemantic.test_auth_cmds", "it tries REIN"),
    (
        "TestFtpCmdsSemantic.test_no_arg_cmds",
        "only its words differ: the suite compares whole replies",
    ),
    ("TestFtpCmdsSemantic.test_no_auth_cmds", "it tries REIN"),
    ("TestFtpDummyCmds.test_allo", "it takes `ALLO x` for a number of bytes"),
    (
        "TestFtpDummyCmds.test_opts_feat",
        "it wants `OPTS MLST` with facts that are not known refused; RFC 3659 leaves them out",
    ),
    ("TestFtpDummyCmds.test_rest", "it wants REST with ranges refused, which GridFTP has"),
    (
        "TestFtpDummyCmds.test_site_help",
        "it wants SITE HELP of unknown words refused; the node lists what there is",
    ),
    ("TestFtpDummyCmds.test_type", "it takes TYPE L 7 for bytes of 7 bits"),
    ("TestFtpFsOperations.test_cwd", "it takes CWD without a path for the root"),
    (
        "TestFtpFsOperations.test_mdtm",
        "it wants the time of a folder refused, for which grids' clients ask",
    ),
    (
        "TestFtpFsOperations.test_size",
        "it wants SIZE refused in TYPE A, in which files move unchanged here",
    ),
    (
        "TestFtpListingCmds.test_mlsd",
        "it wants no line for the folder itself, which RFC 3659 allows and GridFTP's clients read",
    ),
    ("TestFtpListingCmds.test_mlsd_all_facts", "it knows its own facts"),
    (
        "TestFtpListingCmds.test_mlst",
        "it wants the names of facts in small letters; RFC 3659 has them in any",
    ),
    ("TestFtpListingCmds.test_stat", "only its words differ: the suite compares whole replies"),
    ("TestFtpRetrieveData.test_restore_on_retr", "it reads a line a reply, as with ABOR"),
    (
        "TestFtpRetrieveData.test_retr_ascii",
        "TYPE A moves files unchanged, and the reply to it says so: converted they would be others",
    ),
    (
        "TestFtpStoreData.test_appe_rest",
        "REST before APPE is refused: APPE knows where the file ends",
    ),
    (
        "TestFtpStoreData.test_rest_on_stor",
        "it sends STOR without a new data channel after one that failed",
    ),
    ("TestFtpStoreData.test_stor_ascii", "as with RETR"),
    (
        "TestFtpStoreData.test_stor_ascii_2",
        "it leaves TLS without a goodbye: what came may have been cut off",
    ),
    (
        "TestFtpStoreData.test_stou",
        "STOU is not known: a name that the server chose is of no use to a copy",
    ),
    ("TestFtpStoreData.test_stou_rest", "as STOU"),
    ("TestIPv4Environment.test_eprt", "only its words differ: the suite compares whole replies"),
    (
        "TestIPv4Environment.test_eprt_v4",
        "an address that is not the client's is refused with 550, when data is to go there",
    ),
    ("TestIPv4Environment.test_port_v4", "only its words differ: the suite compares whole replies"),
    ("TestIPv6Environment.test_eprt", "only its words differ: the suite compares whole replies"),
    ("TestIPv6Environment.test_eprt_v6", "as over IPv4"),
];

/// What would wait for a reply in vain, and why.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    (
        "TestFtpAuthentication.test_rein_during_transfer",
        "as REIN; the node replies when the transfer is over",
    ),
    (
        "TestFtpAuthentication.test_user_during_transfer",
        "USER during a transfer is replied to when that is over",
    ),
    (
        "TestFtpStoreData.test_quit_during_transfer",
        "QUIT during a transfer is replied to when that is over (RFC 959, section 4.1.1); the suite wants it at once",
    ),
];

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
    let left_out = LEFT_OUT.iter().map(|(name, _)| format!("-{name}"));
    let command = command.arg(at("node.pem")).arg(at("node.key")).args(CLASSES).args(left_out);
    let output = command.output();
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
    assert!(output.status.success() && passed.len() + failed.len() >= 75, "{said}{errors}");
    let is_expected = |name: &str| EXPECTED.iter().any(|(expected, _)| *expected == name);
    let new: Vec<_> = failed.iter().filter(|(name, _)| !is_expected(name)).collect();
    assert!(new.is_empty(), "failed, and are not listed: {new:#?}");
    let mended: Vec<_> = EXPECTED.iter().filter(|(name, _)| !failed.contains_key(name)).collect();
    assert!(mended.is_empty(), "are listed, and do not fail any more: {mended:#?}");
    assert_eq!(passed.len(), PASSES, "the page says how many pass: {passed:#?}");
}
