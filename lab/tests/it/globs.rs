//! Wildcards in remote sources: held against listings, never given to a shell.

use farline_lab::files::{folder, names, text};
use farline_lab::plain_ftp::pyftpdlib;
use farline_lab::relay::{relay_that_counts, relay_that_counts_commands};
use farline_lab::{
    Sshd, error_of, error_of_command, farline, farline_binary, globus_server, json_of, node,
};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

/// Names that a shell would do something with.
const ODD: [&str; 3] = ["x5 $(touch hurt).h5", "x6;touch hurt.h5", "x7`touch hurt`.h5"];

fn plant(root: &Path) {
    for path in
        ["run1/x1.h5", "run1/x2.h5", "run1/y.h5", "run2/x3.h5", "run2/.x4.h5", "other/x9.h5"]
    {
        let file = root.join("data").join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, path).expect("written");
    }
    for name in ODD {
        fs::write(root.join("data/run2").join(name), name).expect("written");
    }
    fs::create_dir(root.join("data/run1/x8.h5")).expect("a folder");
    fs::write(root.join("data/run1/x8.h5/in"), "in").expect("written");
    fs::write(root.join("data/run1/z[1].h5"), "itself").expect("written");
    fs::write(root.join("data/run1/z1.h5"), "not meant").expect("written");
}

fn copied(command: &mut Command, from: &[&str], to: &Path) -> Value {
    fs::create_dir(to).expect("a folder");
    json_of(command.args(from).arg(to))
}

fn cp() -> Command {
    let mut command = farline();
    command.args(["--json", "cp"]);
    command
}

#[test]
fn wildcards_mean_what_the_server_lists() {
    let dir = folder();
    let root = dir.path().join("root");
    plant(&root);
    let (_node, url) = node(&root, "read", &[]);
    let (_globus, globus) = globus_server();
    let farline_url = url.replacen("ftp", "farline", 1);
    for (index, base) in [
        format!("{url}/data"),
        format!("{farline_url}/data"),
        format!("{globus}{}/data", root.display()),
    ]
    .iter()
    .enumerate()
    {
        let to = |name: &str| dir.path().join(format!("{name}{index}"));
        let result = copied(&mut cp(), &[&format!("{base}/run*/x[1-3].h5")], &to("digits"));
        assert_eq!((&result["files"], &result["failures"]), (&3.into(), &serde_json::json!([])));
        assert_eq!(names(&to("digits")), ["x1.h5", "x2.h5", "x3.h5"], "{base}");
        let odd = copied(&mut cp(), &[&format!("{base}/run2/x[567]*")], &to("odd"));
        assert_eq!(odd["files"], 3, "{base}: {odd}");
        assert_eq!(names(&to("odd")), ODD, "{base}");
        // Hidden names must be written so, and a name that exists means itself.
        let all = copied(&mut cp(), &[&format!("{base}/run2/*")], &to("all"));
        assert_eq!(all["files"], 4, "{base}: {all}");
        let hidden = copied(&mut cp(), &[&format!("{base}/run2/.x*")], &to("hidden"));
        assert_eq!(hidden["files"], 1, "{base}: {hidden}");
        copied(&mut cp(), &[&format!("{base}/run1/z[1].h5")], &to("itself"));
        assert_eq!(fs::read_to_string(to("itself").join("z[1].h5")).expect("landed"), "itself");
        // Folders, by their names and by their content.
        // In a URL of Farline's own a `?` begins a query.
        let one = if base.starts_with("farline") { "%3F" } else { "?" };
        let (folders, trees) = (format!("{base}/run{one}"), to("trees"));
        let tree = copied(cp().arg("-r"), &[&folders], &trees);
        let all = vec!["run1".to_owned(), "run2".to_owned()];
        assert_eq!((names(&trees), &tree["files"]), (all, &11.into()));
        assert_eq!(fs::read_to_string(trees.join("run2/x3.h5")).expect("landed"), "run2/x3.h5");
        let mut trees = cp();
        copied(trees.arg("-r"), &[&format!("{base}/ru*1/")], &to("content"));
        assert!(to("content").join("x8.h5/in").exists());
        let (error, exit) = error_of(&["cp", &format!("{base}/run[7-9]/*"), text(dir.path())]);
        assert_eq!((error["code"].as_str(), exit), (Some("path-not-found"), 2), "{base}: {error}");
    }
    assert!(!Path::new("hurt").exists() && !root.join("hurt").exists());
}

#[test]
fn what_wildcards_match_comes_over_one_connection() {
    let dir = folder();
    let root = dir.path().join("root");
    plant(&root);
    let (_node, url) = node(&root, "read", &[]);
    let (_globus, globus) = globus_server();
    for (index, (url, below)) in
        [(url, String::new()), (globus, root.display().to_string())].iter().enumerate()
    {
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let (relay, count) = relay_that_counts(port);
        let from = format!("ftp://127.0.0.1:{relay}{below}/data/run*");
        let to = dir.path().join(format!("to{index}"));
        let result = copied(cp().arg("-r"), &[&from], &to);
        assert_eq!((&result["files"], &result["failures"]), (&11.into(), &serde_json::json!([])));
        let files = copied(&mut cp(), &[&format!("{from}/x[1-3].h5")], &dir.path().join("f"));
        assert_eq!(files["files"], 3, "{files}");
        fs::remove_dir_all(dir.path().join("f")).expect("removed");
        assert_eq!(count.load(Ordering::Relaxed), 2, "one for each command: {url}");
        // What was left out of one tree is in the next (T-10).
        fs::remove_dir_all(to.join("run2")).expect("removed");
        let again = json_of(cp().args(["-r", "--skip-same", &from]).arg(&to));
        assert_eq!(again["files"], 5, "{again}");
        assert!(to.join("run2/x3.h5").exists(), "{again}");
    }
}

#[test]
fn what_wildcards_match_in_a_folder_comes_as_one_tree() {
    let dir = folder();
    let root = dir.path().join("root");
    for n in 0..300 {
        let file = root.join(format!("many/f{n}"));
        fs::create_dir_all(root.join("many/other/deep")).expect("a folder");
        fs::write(file, n.to_string()).expect("written");
    }
    fs::write(root.join("many/other/deep/in"), "in").expect("written");
    let (_node, url) = node(&root, "read", &[]);
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let (relay, count) = relay_that_counts_commands(port, "ERET");
    let (url, to) = (format!("ftp://127.0.0.1:{relay}"), dir.path().join("to"));
    let result = copied(&mut cp(), &[&format!("{url}/many/f*")], &to);
    assert_eq!((&result["files"], &result["verified"]), (&300.into(), &true.into()), "{result}");
    assert_eq!(
        (names(&to).len(), fs::read(to.join("f299")).expect("it landed")),
        (300, b"299".into())
    );
    // A run again brings what lacks, and nothing that was not asked for.
    fs::remove_file(to.join("f7")).expect("removed");
    let again = json_of(cp().args(["--skip-same", &format!("{url}/many/*[0-9]")]).arg(&to));
    assert_eq!((&again["files"], names(&to).len()), (&1.into(), 300), "{again}");
    // A list, data and digests each.
    assert_eq!(count.load(Ordering::Relaxed), 6);
}

#[test]
fn listed_names_and_filters_mean_the_same_below_each_match() {
    let dir = folder();
    let root = dir.path().join("root");
    for file in ["run1/a", "run1/b", "run2/a", "run2/b"] {
        let file = root.join("data").join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, "x").expect("written");
    }
    let list = dir.path().join("list");
    fs::write(&list, "a\n").expect("written");
    let (_node, url) = node(&root, "read", &[]);
    let from = format!("{url}/data/run*");
    for (index, (chosen, expected)) in [
        (["--files-from", text(&list)], [&["a"][..], &["a"]]),
        (["--exclude", "/run1/a"], [&["b"][..], &["a", "b"]]),
    ]
    .into_iter()
    .enumerate()
    {
        let to = dir.path().join(format!("to{index}"));
        let plan = json_of(cp().args(["-r", "--dry-run"]).args(chosen).arg(&from).arg(&to));
        let count: usize = expected.iter().map(|landed| landed.len()).sum();
        assert_eq!(plan["planned"].as_array().map(Vec::len), Some(count), "{chosen:?} {plan}");
        let result = copied(cp().arg("-r").args(chosen), &[&from], &to);
        assert_eq!(result["failures"], serde_json::json!([]), "{chosen:?}: {result}");
        let landed = ["run1", "run2"].map(|run| names(&to.join(run)));
        assert_eq!(landed, expected, "{chosen:?}: {result}");
    }
}

#[test]
fn of_several_sources_one_not_compared_decides() {
    let dir = folder();
    let root = dir.path().join("root");
    plant(&root);
    fs::create_dir(root.join("empty")).expect("a folder");
    let (_node, node) = node(&root, "read", &[]);
    let (_globus, globus) = globus_server();
    let globus = format!("{globus}{}", root.display());
    // It computes no checksum.
    let (_plain, plain) = pyftpdlib(&root);
    let (x1, x3) = ("data/run1/x1.h5", "data/run2/x3.h5");
    for (index, (sources, files, verified)) in [
        ([format!("{globus}/{x1}"), format!("{node}/{x3}")], 2, true),
        ([format!("{node}/{x3}"), format!("{globus}/{x1}")], 2, true),
        ([format!("{globus}/{x1}"), format!("{globus}/empty")], 1, true),
        ([format!("{plain}/{x1}"), format!("{node}/{x3}")], 2, false),
        ([format!("{globus}/{x3}"), format!("{plain}/{x1}")], 2, false),
    ]
    .into_iter()
    .enumerate()
    {
        let sources = sources.each_ref().map(String::as_str);
        let to = dir.path().join(format!("to{index}"));
        let result = copied(cp().arg("-r"), &sources, &to);
        let said = (&result["files"], &result["verified"]);
        assert_eq!(said, (&files.into(), &verified.into()), "{sources:?}: {result}");
        let how = result["verified_how"].as_str().expect("text");
        assert_eq!(how.starts_with("not verified"), !verified, "{sources:?}: {result}");
    }
}

#[test]
fn a_folder_among_files_costs_the_files_nothing() {
    let dir = folder();
    let root = dir.path().join("root");
    plant(&root);
    let (_node, url) = node(&root, "read", &[]);
    let to = dir.path().join("to");
    fs::create_dir(&to).expect("a folder");
    let output = cp().arg(format!("{url}/data/run1/x*")).arg(&to).output().expect("runs");
    let result: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!((output.status.code(), names(&to)), (Some(2), vec!["x1.h5".into(), "x2.h5".into()]));
    let failure = &result["failures"][0];
    assert_eq!(failure["path"], "/data/run1/x8.h5", "{result}");
    assert_eq!(failure["error"]["code"], "is-a-directory", "{result}");
}

#[test]
fn over_ssh_no_shell_sees_them() {
    let dir = folder();
    plant(dir.path());
    let sshd = Sshd::start(&dir.path().join("far"), "127.0.0.1", "", &[]);
    let config = dir.path().join("ssh_config");
    fs::write(&config, sshd.client_config("far", None)).expect("written");
    let ssh = format!("ssh -F {}", config.display());
    let cp = || {
        let mut command = cp();
        command.args(["--ssh", &ssh, "--remote-farline"]).arg(farline_binary());
        command
    };
    let data = dir.path().join("data");
    let to = dir.path().join("to");
    let result = copied(&mut cp(), &[&format!("far:{}/run2/x*", data.display())], &to);
    assert_eq!(result["files"], 4, "{result}");
    assert!(ODD.iter().all(|name| to.join(name).exists()));
    // What looks like a command is a name that is not there.
    let wild = format!("far:{}/*$(touch {}/hurt)", data.display(), dir.path().display());
    let (error, exit) = error_of_command(cp().args([&wild, text(&to)]));
    assert_eq!((error["code"].as_str(), exit), (Some("path-not-found"), 2), "{error}");
    assert!(!dir.path().join("hurt").exists());
}
