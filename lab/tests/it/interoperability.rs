//! The table of other people's clients and servers: what works with which, and the test that shows
//! it.

use crate::ftp_suite::{EXPECTED, LEFT_OUT, PASSES, tests_of};
use std::fmt::Write as _;
use std::path::Path;

/// The row of a table: a peer, what it does, and the tests that show it or why it cannot.
struct Row(&'static str, &'static str, Shown);

enum Shown {
    /// By these tests, as `module::name`.
    By(&'static [&'static str]),
    /// Not: why.
    Not(&'static str),
}

use Shown::{By, Not};

/// Of plain servers.
const MODE_E_ALONE: Shown =
    Not("between servers Farline copies in MODE E alone, and says so before anything moves \
     (`plain_servers::third_party_copies_of_plain_servers_are_refused_at_once`); \
     `globus-url-copy` copies between a node and such a server");

const CLIENTS: &[Row] = &[
    Row(
        "`globus-url-copy` 10.12",
        "`ftp://`, one and four channels (`-p`), `-fast`, both ways",
        By(&["interop::globus_url_copy_gets_and_puts_with_one_and_four_channels"]),
    ),
    Row(
        "",
        "`-r`; `-off` and `-len`, down and up: what is before a part is a hole, as at a globus-gridftp-server",
        By(&[
            "interop::globus_url_copy_copies_trees_and_parts_names_what_lacks",
            "url_copy_options::parts_of_files_go_up_to_where_they_stood",
        ]),
    ),
    Row(
        "",
        "`-verify-checksum` with `-checksum-alg` MD5, SHA1, SHA256 and SHA512 (CKSM), both ways",
        By(&["url_copy_options::checksums_of_both_ends_are_compared_by_each_algorithm"]),
    ),
    Row(
        "",
        "`-checksum-alg ADLER32`",
        Not(
            "`globus-url-copy` refuses it itself, with every server (`Unable to use checksum algorithm ADLER32`; `url_copy_options::checksums_of_both_ends_are_compared_by_each_algorithm`)",
        ),
    ),
    Row(
        "",
        "`-vb`: figures while a file goes up, of the node's performance markers",
        By(&["url_copy_options::figures_while_it_runs_are_the_nodes_markers"]),
    ),
    Row(
        "",
        "`ftp://` third-party with vsftpd, pyftpdlib and ProFTPD at the other end, both ways",
        By(&["url_copy_options::third_party_copies_go_between_a_node_and_plain_servers"]),
    ),
    Row(
        "",
        "`-pp` with `-cc 4`, `-cd` and `-fast`: trees of files of every length around its buffers, both ways",
        By(&["interop::globus_url_copy_pipelines_files_around_every_length"]),
    ),
    Row(
        "",
        "`gsiftp://` with a proxy of `grid-proxy-init`'s: both ways, `-p`, `-r`, `-list`, delegation, DCAU A and N, PROT C, S and P",
        By(&[
            "gsi::globus_url_copy_with_a_proxy_moves_under_each_protection",
            "gsi::who_is_refused_hears_why_and_stands_in_the_log",
        ]),
    ),
    Row(
        "",
        "the same by each of `ftp://`, `sshftp://` and `gsiftp://`: `-p 1` to `-p 8`, `-fast`, `-rst`, `-stripe`, `-sbs`, `-off` and `-len` both ways; `-p`, `-fast`, `-rst` and `-stripe` third-party with a globus-gridftp-server, both ways",
        By(&[
            "ahead::url_copy_schemes::files_go_by_ftp_as_each_option_says",
            "ahead::url_copy_schemes::files_go_by_sshftp_as_each_option_says",
            "ahead::url_copy_schemes::files_go_by_gsiftp_as_each_option_says",
        ]),
    ),
    Row(
        "",
        "the same by each of these: `-r`, `-cd`, `-cc`, `-pp`, and `-sync` of each level, both ways",
        By(&[
            "ahead::url_copy_schemes::trees_go_by_ftp_as_each_option_says",
            "ahead::url_copy_schemes::trees_go_by_sshftp_as_each_option_says",
            "ahead::url_copy_schemes::trees_go_by_gsiftp_as_each_option_says",
        ]),
    ),
    Row(
        "",
        "proxies with VOMS attributes, of `voms-proxy-fake` 2.1.0",
        By(&["gsi::members_of_an_organisation_come_by_what_its_server_says"]),
    ),
    Row(
        "",
        "`gsiftp://` third-party, with a globus-gridftp-server at the other end, in the clear and under PROT P",
        By(&["gsi::third_party_copies_go_between_a_node_and_a_globus_server"]),
    ),
    Row(
        "",
        "`-p 1` to `-p 8`, with `-fast` and without, both ways",
        By(&["url_copy::one_to_eight_channels_carry_the_same_bytes"]),
    ),
    Row(
        "",
        "`sshftp://` over a real sshd, by a script `sshftp` that runs `farline serve --stdio`: files, trees, `-p 4`, both ways",
        By(&["url_copy::files_and_trees_go_both_ways_by_sshftp"]),
    ),
    Row(
        "",
        "`-sync`, levels 0 to 3, both ways",
        By(&["url_copy::each_level_of_sync_sends_what_differs_by_it"]),
    ),
    Row(
        "",
        "`-stripe`, `-sbs`: both ways and third-party with a globus-gridftp-server; a node is one stripe",
        By(&["url_copy::striped_copies_use_the_one_host_that_there_is"]),
    ),
    Row(
        "",
        "`-stripe -sbs 0`, up",
        Not(
            "`globus-url-copy` refuses it itself, with every server (`partition block size must be greater than 0`; `url_copy::striped_copies_use_the_one_host_that_there_is`)",
        ),
    ),
    Row(
        "",
        "`-rst`, third-party, by `ftp://` and `gsiftp://`: goes on when the node is killed in the middle and starts anew, as either end",
        By(&[
            "url_copy::rst_goes_on_after_a_node_was_killed_in_the_middle",
            "ahead::url_copy_schemes::rst_goes_on_by_gsiftp_after_a_node_was_killed",
        ]),
    ),
    Row(
        "",
        "`-rst`, third-party from a node: what the receiving globus-gridftp-server said that it holds is not sent again; a node that receives says nothing of that, and is sent the file whole",
        By(&["ahead::url_copy_schemes::rst_sends_no_second_time_what_a_server_said_it_holds"]),
    ),
    Row(
        "",
        "`gsiftp://` with a limited proxy (`grid-proxy-init -limited`), as at a globus-gridftp-server; `gsi_limited_proxies = false` refuses it",
        By(&[
            "gsi::a_limited_proxy_moves_files_as_at_a_globus_server",
            "gsi::who_is_refused_hears_why_and_stands_in_the_log",
        ]),
    ),
    Row(
        "",
        "MLSR, which none of these clients asks for (`-r` asks MLSD of each folder): the same list as a globus-gridftp-server's",
        By(&["interop::mlsr_lists_what_a_globus_server_lists"]),
    ),
    Row(
        "",
        "`-data-cred`",
        Not(
            "DCSC is not spoken (`url_copy_options::credentials_for_data_alone_are_refused`): data connections show what was delegated",
        ),
    ),
    Row(
        "",
        "DCAU S",
        Not("`globus-url-copy` cannot ask for it; the library that it is made of can"),
    ),
    Row(
        "libglobus-ftp-client 9.8",
        "`gsiftp://` with a proxy: DCAU S with its own subject in MODE S and MODE E, and under PROT P; with another subject nothing moves, and that stands in the log",
        By(&["gsi::a_client_may_name_whose_data_connections_have_to_be"]),
    ),
    Row(
        "",
        "MODE S under PROT P, up",
        Not(
            "it ends the connection without TLS's goodbye, and a file that was cut off would look \
             whole: 426 (`gsi::a_client_may_name_whose_data_connections_have_to_be`); \
             `globus-url-copy` takes MODE E, which says where a file ends",
        ),
    ),
    Row(
        "gfal2 2.21 (`gfal-copy`, `-ls`, `-stat`, `-sum`, `-mkdir`, `-rename`, `-rm`)",
        "`ftp://`: both ways, trees, `-n 4`, `-K ADLER32` (CKSM), `gfal-stat` (MLST)",
        By(&["grid_clients::gfal_gets_puts_lists_sums_and_removes"]),
    ),
    Row(
        "",
        "`gsiftp://` with a proxy: `gfal-copy` both ways, `gfal-ls`, `gfal-sum` (CKSM)",
        By(&["gsi::gfal_with_a_proxy_gets_and_puts"]),
    ),
    Row(
        "curl 7.88",
        "FTP: both ways, listed, resumed both ways, over IPv6; what breaks off lands nowhere",
        By(&[
            "interop::curl_and_lftp_list_get_put_and_resume",
            "interop::ipv6_works_as_ipv4_does",
            "plain_ftp::an_upload_to_its_end_replaces_the_file",
            "plain_ftp::curl_that_runs_out_of_time_replaces_nothing",
        ]),
    ),
    Row(
        "",
        "killed in the middle of a download, `-C -` fetches what is missing",
        By(&["interop::what_curl_and_lftp_had_when_killed_is_not_fetched_again"]),
    ),
    Row(
        "",
        "checksums: it has no command for them; `-Q 'CKSM SHA256 0 -1 /PATH'` with `-v` shows the node's",
        By(&["interop::curl_and_lftp_are_told_a_checksum_that_they_quote"]),
    ),
    Row(
        "",
        "FTPS (AUTH TLS, PROT P), with password, certificate or nobody's name",
        By(&[
            "tls::curl_and_lftp_move_files_under_tls",
            "identities::data_of_a_user_is_encrypted_and_known_to_be_the_users",
            "identities::a_certificate_is_a_login_and_a_strangers_is_none",
        ]),
    ),
    Row(
        "lftp 4.9",
        "FTP and FTPS: get, put, list, several files in one session; `get -c` and `put -c`",
        By(&[
            "interop::curl_and_lftp_list_get_put_and_resume",
            "tls::curl_and_lftp_move_files_under_tls",
            "identities::data_of_a_user_is_encrypted_and_known_to_be_the_users",
        ]),
    ),
    Row(
        "",
        "`mirror -R` and `mirror` of a tree with symbolic links (SITE SYMLINK)",
        By(&["interop::lftp_mirrors_a_tree_with_its_links_both_ways"]),
    ),
    Row(
        "",
        "killed in the middle of a download, `get -c` fetches what is missing",
        By(&["interop::what_curl_and_lftp_had_when_killed_is_not_fetched_again"]),
    ),
    Row(
        "",
        "checksums: it has no command for them; `quote CKSM SHA256 0 -1 /PATH` shows the node's",
        By(&["interop::curl_and_lftp_are_told_a_checksum_that_they_quote"]),
    ),
];

const SUITES: &[Row] = &[Row(
    "pyftpdlib 2.0.1, `test_functional.py`",
    "over TLS, as a user with a password: 42 of its 81 tests of servers pass; the others stand below, with the reasons",
    By(&["ftp_suite::a_node_passes_a_test_suite_of_ftp_servers_as_listed"]),
)];

const SERVERS: &[Row] = &[
    Row(
        "globus-gridftp-server 13.24",
        "files and trees both ways, resumed, compared by CKSM",
        By(&[
            "interop::farline_puts_to_and_gets_from_a_real_globus_server",
            "stock::a_killed_tree_to_a_stock_server_sends_what_is_missing",
            "stock::a_killed_tree_from_a_stock_server_fetches_the_missing",
            "stock::a_checksum_is_compared_unless_that_is_switched_off",
        ]),
    ),
    Row(
        "",
        "times of files (MFMT): a second `farline sync` sends nothing",
        By(&["other_names::a_second_sync_to_a_globus_server_sends_nothing"]),
    ),
    Row(
        "",
        "names that are not ASCII",
        Not(
            "the server drops these bytes, of byte 255 the next one too, and has one file for two \
             names: Farline's client names such files and copies the rest \
             (`other_names::no_file_lands_at_a_globus_server_under_another_name`); \
             `globus-url-copy` from a node to it loses them",
        ),
    ),
    Row(
        "",
        "third-party, with a node or another of its kind at the other end",
        By(&[
            "third_party::files_and_trees_go_between_a_node_and_a_globus_server",
            "third_party::copies_between_globus_servers_are_compared_by_checksum",
        ]),
    ),
    Row(
        "",
        "`gsiftp://` with a proxy: trees both ways, one and several channels, DCAU A, in the clear and under PROT P (`--encrypt`), compared by CKSM; files in MODE S",
        By(&[
            "gsi_client::trees_go_both_ways_with_a_proxy_and_are_compared",
            "gsi_client::files_go_in_mode_s_to_a_server_without_feat",
            "gsi_client::what_keeps_a_proxy_out_is_said_and_by_whom",
        ]),
    ),
    Row(
        "",
        "`gsiftp://` third-party, with a node or another of its kind at the other end",
        By(&["gsi_client::servers_of_a_grid_copy_from_each_other"]),
    ),
    Row(
        "",
        "`sshftp://` over a real sshd, by a script `sshftp` that runs `globus-gridftp-server -ssh`: files and trees both ways, one and several channels, wildcards",
        By(&[
            "sshftp::files_go_both_ways_to_a_globus_server_over_ssh",
            "sshftp::trees_go_both_ways_to_a_globus_server_over_ssh",
        ]),
    ),
    Row(
        "",
        "`sshftp://` third-party, and with data encrypted",
        Not(
            "the server has no credential to show another host, or to encrypt by, and its control \
             connection is this host's: Farline says so, and what to write instead \
             (`sshftp::what_sshftp_cannot_do_is_one_clear_error`)",
        ),
    ),
    Row(
        "vsftpd 3.0.3",
        "files and trees both ways (MODE S, LIST); downloads go on",
        By(&[
            "plain_servers::a_tree_goes_to_plain_servers_and_comes_back",
            "plain_servers::a_plain_download_goes_on_from_what_is_durable",
        ]),
    ),
    Row(
        "",
        "FTPS, where it wants all connections to be of one TLS session",
        By(&["plain_servers::a_tree_goes_there_and_back_under_tls_of_one_session"]),
    ),
    Row(
        "",
        "times of files (MDTM with a time): a second `farline sync` sends nothing",
        By(&["plain_servers::a_tree_goes_to_plain_servers_and_comes_back"]),
    ),
    Row(
        "",
        "compared",
        Not(
            "it computes no checksum, and Farline says so (`plain_servers::what_plain_servers_cannot_do_is_said`)",
        ),
    ),
    Row(
        "",
        "uploads of trees that were killed go on with the files that are missing",
        By(&["plain_servers::a_killed_tree_to_plain_servers_sends_what_is_missing"]),
    ),
    Row("", "third-party", MODE_E_ALONE),
    Row(
        "pyftpdlib 1.5.7",
        "files and trees both ways (MODE S, MLSD); downloads go on",
        By(&[
            "plain_servers::a_tree_goes_to_plain_servers_and_comes_back",
            "plain_servers::a_plain_download_goes_on_from_what_is_durable",
        ]),
    ),
    Row(
        "",
        "uploads of trees that were killed go on with the files that are missing",
        By(&["plain_servers::a_killed_tree_to_plain_servers_sends_what_is_missing"]),
    ),
    Row("", "third-party", MODE_E_ALONE),
    Row(
        "ProFTPD 1.3.8",
        "files and trees both ways (MODE S, MLSD); downloads go on",
        By(&[
            "plain_servers::a_tree_goes_to_proftpd_and_comes_back",
            "plain_servers::a_download_from_proftpd_goes_on_from_what_is_durable",
            "plain_servers::what_proftpd_lost_since_is_sent_again",
        ]),
    ),
    Row(
        "",
        "uploads of trees that were killed go on with the files that are missing",
        By(&[
            "plain_servers::a_killed_tree_to_plain_servers_sends_what_is_missing",
            "plain_servers::what_proftpd_lost_since_is_sent_again",
        ]),
    ),
    Row("", "third-party", MODE_E_ALONE),
    Row(
        "",
        "FTPS, where it wants all connections to be of one TLS session; it gives no tickets with connections that it only reads from, so that its client logs in again for each two files that it stores",
        By(&["plain_servers::a_tree_goes_to_proftpd_and_back_under_tls"]),
    ),
    Row(
        "",
        "compared",
        Not(
            "its module for HASH is not asked: Farline asks by CKSM, and says that nothing was compared (`plain_servers::a_tree_goes_to_proftpd_and_comes_back`)",
        ),
    ),
];

/// Of a copy that was killed and whose file begins anew: between whom, what was killed, why, and
/// the tests that show it.
struct Anew(&'static str, &'static str, &'static str, &'static [&'static str]);

const BEGIN_ANEW: &[Anew] = &[
    Anew(
        "`globus-url-copy`, gfal2, curl and lftp: a file on its way up to a node",
        "the client",
        "a node keeps nothing of what a stock client was cut off in: it is not told which file that is, and whoever came next would complete another one's",
        &[
            "ahead::url_copy_schemes::a_file_whose_client_was_killed_begins_anew",
            "interop::what_curl_and_lftp_were_killed_in_sending_is_sent_anew",
            "plain_ftp::a_client_that_is_killed_replaces_nothing",
        ],
    ),
    Anew(
        "`globus-url-copy -rst`, third-party, to a node",
        "the node",
        "for the same reason a node names no ranges (111) that this client could go on from: the copy goes on by itself, and sends that file from its beginning",
        &[
            "url_copy::rst_goes_on_after_a_node_was_killed_in_the_middle",
            "ahead::url_copy_schemes::rst_goes_on_by_gsiftp_after_a_node_was_killed",
        ],
    ),
    Anew(
        "`globus-url-copy -rst`, a file of its own host on its way up",
        "the node",
        "the client gives up, with a globus-gridftp-server too; the same command again lands the file whole",
        &["url_copy::rst_goes_on_after_a_node_was_killed_in_the_middle"],
    ),
    Anew(
        "`globus-url-copy`: a file on its way down",
        "the client",
        "what `-rst` goes on from it keeps in memory, with any server",
        &["ahead::url_copy_schemes::a_file_whose_client_was_killed_begins_anew"],
    ),
    Anew(
        "`gfal-copy`: a file, either way",
        "the client",
        "it has no resume, with any server",
        &["grid_clients::gfal_gets_puts_lists_sums_and_removes"],
    ),
    Anew(
        "`farline cp` and `sync`: a file on its way up to vsftpd, pyftpdlib or ProFTPD",
        "anything",
        "Farline asks for no checksum there of what the server has, and nobody could say that the whole is right; files of a tree that have landed stay",
        &[
            "plain_servers::a_killed_tree_to_plain_servers_sends_what_is_missing",
            "plain_servers::what_proftpd_lost_since_is_sent_again",
        ],
    ),
    Anew(
        "`farline cp`: a file on its way up to a globus-gridftp-server",
        "the path, for longer than `--timeout`",
        "a server that was given up in silence may still write to what it has of the file",
        &["stock::a_stock_upload_is_whole_after_short_and_long_outages"],
    ),
    Anew(
        "`farline cp`, third-party, with a globus-gridftp-server at either end",
        "anything",
        "nobody could compare what the receiving end has with the sender's (clause G-7 of [protocol.md](protocol.md))",
        &["stock::a_killed_third_party_copy_starts_again_without_partial"],
    ),
];

/// The table of those.
fn begin_anew() -> String {
    let mut text = String::from(
        "\n## Where a file begins anew\n\n\
         In these cases what was there of a file is sent again.\n\n\
         | between | killed | why its file begins anew | shown by |\n|---|---|---|---|\n",
    );
    for Anew(between, killed, why, tests) in BEGIN_ANEW {
        let _ = writeln!(text, "| {between} | {killed} | {why} | {} |", in_code(tests));
    }
    text
}

/// What of the suite a node does not pass, by why, as its test has it.
fn not_passed() -> String {
    let (fail, left_out) = (tests_of(EXPECTED).count(), tests_of(LEFT_OUT).count());
    let mut text = format!(
        "\nOf the other {} tests {fail} are run, and each has to fail; {left_out} would wait in vain, \
         and are left out. The suite's classes that test how pyftpdlib is set up and extended are \
         none of these.\n\n\
         | tests | which | why they are not passed |\n|---|---|---|\n",
        fail + left_out
    );
    for (listed, left_out) in [(EXPECTED, ""), (LEFT_OUT, ", left out")] {
        for (why, tests) in listed {
            let _ = writeln!(text, "| {}{left_out} | {} | {why} |", tests.len(), in_code(tests));
        }
    }
    text
}

fn in_code(names: &[&str]) -> String {
    let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    named.join(", ")
}

fn table(title: &str, rows: &[Row]) -> String {
    let mut text = format!("\n## {title}\n\n| peer | what | shown by |\n|---|---|---|\n");
    for Row(peer, what, shown) in rows {
        let shown = match shown {
            By(tests) => in_code(tests),
            Not(why) => format!("no: {why}"),
        };
        // A peer's further rows stand below its name.
        let _ = writeln!(text, "| {peer} | {what} | {shown} |");
    }
    text
}

fn page() -> String {
    let mut page = String::from(
        "# Interoperability\n\n\
         Other people's clients and servers, as `make test` runs them: real programs, and files that are compared byte by byte.\n\
         Generated: `UPDATE_DOCS=1 cargo test -p farline-lab --test it interoperability`.\n",
    );
    page.push_str(&table("Clients of a node", CLIENTS));
    page.push_str(&table("Test suites of servers, run against a node", SUITES));
    page.push_str(&not_passed());
    page.push_str(&table("Servers that `farline cp` and `farline sync` copy to and from", SERVERS));
    page.push_str(&begin_anew());
    page
}

#[test]
fn the_page_is_as_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/interoperability.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let there = std::fs::read_to_string(&path).expect("the page");
    assert!(there == page(), "docs/interoperability.md is stale: set UPDATE_DOCS=1");
}

#[test]
fn the_page_says_how_much_of_a_suite_passes() {
    let all = PASSES + tests_of(EXPECTED).chain(tests_of(LEFT_OUT)).count();
    let said = format!("{PASSES} of its {all} tests");
    assert!(SUITES[0].1.contains(&said), "{said}");
}

#[test]
fn each_test_that_the_page_names_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let page = page();
    let in_code = page.split('`').skip(1).step_by(2);
    let named: Vec<_> = in_code.filter_map(|word| word.rsplit_once("::")).collect();
    assert!(named.len() > 50, "{named:?}");
    for (module, name) in named {
        let file = format!("{}.rs", module.replace("::", "/"));
        let text = std::fs::read_to_string(folder.join(file));
        let is_there = text.is_ok_and(|text| text.contains(&format!("\n#[test]\nfn {name}()")));
        assert!(is_there, "there is no test {module}::{name}");
    }
}
