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

/// Why tests are not passed, and which.
pub(crate) type Listed = (&'static str, &'static [&'static str]);

/// What fails; docs/interoperability.md is written from it.
pub(crate) const EXPECTED: &[Listed] = &[
    (
        "only its words differ: the suite compares whole replies",
        &[
            "TestFtpAbort.test_abor_no_data",
            "TestFtpCmdsSemantic.test_arg_cmds",
            "TestFtpCmdsSemantic.test_no_arg_cmds",
            "TestFtpListingCmds.test_stat",
            "TestIPv4Environment.test_eprt",
            "TestIPv4Environment.test_port_v4",
            "TestIPv6Environment.test_eprt",
        ],
    ),
    (
        "REIN is not known: another login takes another connection, or USER again",
        &[
            "TestFtpAuthentication.test_rein",
            "TestFtpCmdsSemantic.test_auth_cmds",
            "TestFtpCmdsSemantic.test_no_auth_cmds",
        ],
    ),
    (
        "the suite reads a line a reply, and the node's errors have several (GFD.20 wants them structured)",
        &["TestFtpAbort.test_abor_during_transfer", "TestFtpRetrieveData.test_restore_on_retr"],
    ),
    (
        "nothing was moved: RFC 959 has 226 for ABOR where no transfer is running, the suite 225",
        &["TestFtpAbort.test_abor_pasv", "TestFtpAbort.test_abor_port"],
    ),
    (
        "TYPE A moves files unchanged, and the reply to it says so: converted they would be others",
        &["TestFtpRetrieveData.test_retr_ascii", "TestFtpStoreData.test_stor_ascii"],
    ),
    (
        "STOU is not known: a name that the server chose is of no use to a copy",
        &["TestFtpStoreData.test_stou", "TestFtpStoreData.test_stou_rest"],
    ),
    (
        "an address that is not the client's is refused with 550, when data is to go there",
        &["TestIPv4Environment.test_eprt_v4", "TestIPv6Environment.test_eprt_v6"],
    ),
    ("it sends urgent data past TLS, which Python refuses", &["TestFtpAbort.test_oob_abor"]),
    (
        "it wants `AnoNymouS` refused; to a node a name in any case is the anonymous user's",
        &["TestFtpAuthentication.test_anon_auth"],
    ),
    ("it takes `ALLO x` for a number of bytes", &["TestFtpDummyCmds.test_allo"]),
    (
        "it wants `OPTS MLST` with facts that are not known refused; RFC 3659 leaves them out",
        &["TestFtpDummyCmds.test_opts_feat"],
    ),
    ("it wants REST with ranges refused, which GridFTP has", &["TestFtpDummyCmds.test_rest"]),
    (
        "it wants SITE HELP of unknown words refused; the node lists what there is",
        &["TestFtpDummyCmds.test_site_help"],
    ),
    ("it takes TYPE L 7 for bytes of 7 bits", &["TestFtpDummyCmds.test_type"]),
    ("it takes CWD without a path for the root", &["TestFtpFsOperations.test_cwd"]),
    (
        "it wants the time of a folder refused, for which grids' clients ask",
        &["TestFtpFsOperations.test_mdtm"],
    ),
    (
        "it wants SIZE refused in TYPE A, in which files move unchanged here",
        &["TestFtpFsOperations.test_size"],
    ),
    (
        "it wants no line for the folder itself, which RFC 3659 allows and GridFTP's clients read",
        &["TestFtpListingCmds.test_mlsd"],
    ),
    ("it wants pyftpdlib's own facts of a file", &["TestFtpListingCmds.test_mlsd_all_facts"]),
    (
        "it wants the names of facts in small letters; RFC 3659 has them in any",
        &["TestFtpListingCmds.test_mlst"],
    ),
    (
        "REST before APPE is refused: APPE knows where the file ends",
        &["TestFtpStoreData.test_appe_rest"],
    ),
    (
        "it sends STOR without a new data channel after one that failed",
        &["TestFtpStoreData.test_rest_on_stor"],
    ),
    (
        "it leaves TLS without a goodbye: what came may have been cut off",
        &["TestFtpStoreData.test_stor_ascii_2"],
    ),
];

/// What would wait for a reply in vain, and is not run; docs/interoperability.md is written from
/// it.
pub(crate) const LEFT_OUT: &[Listed] = &[(
    "USER, REIN and QUIT during a transfer are replied to when that is over (of QUIT RFC 959, section 4.1.1, says so); the suite wants it at once",
    &[
        "TestFtpAuthentication.test_rein_during_transfer",
        "TestFtpAuthentication.test_user_during_transfer",
        "TestFtpStoreData.test_quit_during_transfer",
    ],
)];

/// The tests of a list.
pub(crate) fn tests_of(listed: &'static [Listed]) -> impl Iterator<Item = &'static str> {
    listed.iter().flat_map(|(_, tests)| tests.iter().copied())
}

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
    let left_out = tests_of(LEFT_OUT).map(|name| format!("-{name}"));
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
    let is_expected = |name: &str| tests_of(EXPECTED).any(|expected| expected == name);
    let new: Vec<_> = failed.iter().filter(|(name, _)| !is_expected(name)).collect();
    assert!(new.is_empty(), "failed, and are not listed: {new:#?}");
    let mended: Vec<_> = tests_of(EXPECTED).filter(|name| !failed.contains_key(name)).collect();
    assert!(mended.is_empty(), "are listed, and do not fail any more: {mended:#?}");
    assert_eq!(passed.len(), PASSES, "the page says how many pass: {passed:#?}");
}
