//! Servers whose lists of folders say more than can be read of them: what may be missing is named,
//! and nothing is deleted for it.

use farline_lab::files::names;
use farline_lab::list_server::{CONTENT, GONE, Lists, list_server};
use farline_lab::{farline, json_of};
use serde_json::Value;
use std::fs;

/// Syncs `/d` of the server with `--delete` into a folder that has `old`; the result, and what is
/// there.
fn synced(lists: Lists, planted: &[&str]) -> (Value, Vec<String>) {
    let dir = tempfile::tempdir().expect("a folder");
    for path in planted {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, "planted").expect("written");
    }
    let url = format!("{}/d", list_server(lists));
    let output = farline()
        .args(["--json", "sync", "--delete", &url])
        .arg(dir.path())
        .output()
        .expect("farline runs");
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let failed = said["failures"].as_array().unwrap_or_else(|| panic!("{said}"));
    assert_eq!(output.status.success(), failed.is_empty(), "{said}");
    for path in planted {
        assert!(dir.path().join(path).exists() || failed.is_empty(), "{path} is gone: {said}");
    }
    (said, names(dir.path()))
}

#[test]
fn a_line_that_is_no_entry_is_named_and_nothing_deleted() {
    let lists = |path: &str| match path {
        "/d" => {
            "total 8\r\n-rw-r--r-- 1 u g 5 Nov 27 00:11 a\r\n-????????? ? ? ? ? ? b\r\n\
             ls: cannot access 'c': Permission denied\r\n-rw-r--r-- 1 u 5 Nov 27 00:11 no group\r\n"
        }
        _ => "",
    };
    let (said, there) = synced(lists, &["b", "c"]);
    assert_eq!(there, ["a", "b", "c", "no group"], "{said}");
    let failures = said["failures"].as_array().expect("a list");
    assert_eq!(failures.len(), 2, "{said}");
    assert!(failures.iter().all(|one| one["error"]["code"] == "bad-listing"), "{said}");
    assert!(said["deleted"].as_array().is_some_and(Vec::is_empty), "{said}");
}

#[test]
fn a_list_of_iis_is_read() {
    let lists = |path: &str| match path {
        "/d" => {
            "11-27-26  12:00AM                    5 a b\r\n\
             11-27-26  12:00AM       <DIR>          sub\r\n"
        }
        "/d/sub" => "11-27-2026  14:02                    5 deep\r\n",
        _ => "",
    };
    let dir = tempfile::tempdir().expect("a folder");
    let url = format!("{}/d/", list_server(lists));
    json_of(farline().args(["--json", "cp", "-r", &url]).arg(dir.path()));
    for path in ["a b", "sub/deep"] {
        assert_eq!(fs::read(dir.path().join(path)).expect("came"), CONTENT, "{path}");
    }
}

/// As vsftpd does: of a folder that it may not open it lists the entry of the folder above.
#[test]
fn a_folder_listed_as_an_entry_of_the_one_above_is_named() {
    let lists = |path: &str| match path {
        "/d" => {
            "drwx------ 2 0 0 60 Nov 27 00:11 shut\r\ndrwxr-xr-x 2 0 0 60 Nov 27 00:11 same\r\n\
             -rw-r--r-- 1 0 0 5 Nov 27 00:11 z\r\n"
        }
        "/d/shut" => "drwx------ 2 0 0 60 Nov 27 00:11 shut\r\n",
        "/d/same" | "/d/same/." => "drwxr-xr-x 2 0 0 60 Nov 27 00:11 same\r\n",
        "/d/same/same" => "-rw-r--r-- 1 0 0 5 Nov 27 00:11 deep\r\n",
        _ => "",
    };
    let (said, _) = synced(lists, &["shut/precious", "old"]);
    let failures = said["failures"].as_array().expect("a list");
    assert_eq!(failures.len(), 1, "{said}");
    assert_eq!(failures[0]["path"], "shut", "{said}");
    assert_eq!(failures[0]["error"]["code"], "permission-denied", "{said}");
    assert_eq!(said["files"], 2, "what is below same came: {said}");
}

#[test]
fn a_folder_that_goes_between_two_lists_costs_no_other() {
    let lists = |path: &str| match path {
        "/d" => {
            "drwxr-xr-x 2 0 0 60 Nov 27 00:11 gone\r\ndrwxr-xr-x 2 0 0 60 Nov 27 00:11 here\r\n\
             -rw-r--r-- 1 0 0 5 Nov 27 00:11 z\r\n"
        }
        "/d/gone" => GONE,
        "/d/here" => "-rw-r--r-- 1 0 0 5 Nov 27 00:11 deep\r\n",
        _ => "",
    };
    let (said, _) = synced(lists, &["gone/precious", "old"]);
    let failures = said["failures"].as_array().expect("a list");
    assert_eq!(failures.len(), 1, "{said}");
    assert_eq!(failures[0]["path"], "gone", "{said}");
    assert_eq!(failures[0]["error"]["code"], "path-not-found", "{said}");
    assert_eq!(said["files"], 2, "{said}");
}
