//! `farline profile` and `plan` without a measurement: modelled, compared, planned from, and
//! refused before anything runs. No clock is in it: `make test` runs these next to the lints.

use farline_lab::files::text;
use farline_lab::{error_of_command, farline, json_of, succeed};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The error that `command` must end with.
pub(crate) fn error_of(command: &mut Command) -> Value {
    error_of_command(command).0
}

/// The document in `file`.
pub(crate) fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("a document")).expect("one object")
}

/// How many it has, of all cells.
pub(crate) fn repetitions(profile: &Value) -> usize {
    profile["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .map(|cell| cell["repetitions"].as_array().map_or(0, Vec::len))
        .sum()
}

#[test]
fn rdma_is_modelled_next_to_the_paper_and_refuses_the_rest() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str| dir.path().join(name);
    let (table, page) = (file("d.csv"), file("d.html"));
    let mut command = farline();
    command.args([
        "--json",
        "profile",
        "--simulate",
        "--preset",
        "sc08-ib-stability",
        "-o",
        text(&table),
        "-o",
        text(&page),
    ]);
    assert_eq!(json_of(&mut command)["schema"], "farline/verbs/1");
    assert!(fs::read_to_string(&table).expect("a table").contains(",modelled,7.34"));
    assert!(fs::read_to_string(&page).expect("a page").contains("Decrease per mile"));
    let refused: [(&[&str], &str); 3] = [
        (&["--preset", "sc08-cm"], "--simulate"),
        (&["--simulate", "--preset", "sc08-cm", "--rtt", "1ms"], "--seed"),
        (&["--simulate", "--preset", "sc08-tcp-rdma", "--scale", "4"], "--scale"),
    ];
    for (arguments, hint) in refused {
        let error = error_of(farline().args(["--json", "profile"]).args(arguments));
        assert_eq!(error["code"], "profile-preset", "{arguments:?}");
        assert!(error["hint"].as_str().is_some_and(|found| found.contains(hint)), "{error}");
    }
}

#[test]
fn a_model_is_written_compared_and_planned_from() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str| dir.path().join(name);
    let simulate = |out: &Path, more: &[&str]| {
        let mut command = farline();
        command.args([
            "-q",
            "profile",
            "--simulate",
            "--link",
            "usn-1400",
            "--rate",
            "1G",
            "--streams",
            "1,4",
            "--out",
            text(out),
        ]);
        succeed(command.args(more))
    };
    simulate(&file("a.json"), &["--out", text(&file("a.html")), "--out", text(&file("a.parquet"))]);
    simulate(&file("b.json"), &["--host-rate", "300M"]);
    simulate(&file("c.json"), &["--window", "256KiB"]);
    let a = read(&file("a.json"));
    assert_eq!(
        (&a["schema"], &a["kind"], repetitions(&a)),
        (&"farline/profile/1".into(), &"modelled".into(), 10),
        "{a}"
    );
    let page = fs::read_to_string(file("a.html")).expect("a page");
    assert!(
        page.contains("usn-1400 cubic 4 streams") && !page.contains("src=\"http"),
        "a page that stands alone"
    );
    let table = fs::read(file("a.parquet")).expect("a table");
    assert!(
        table.starts_with(b"PAR1") && table.ends_with(b"PAR1") && table.len() > 1_000,
        "a Parquet file"
    );
    let differ = |x: &str, y: &str| {
        json_of(farline().args(["--json", "profile", "diff", text(&file(x)), text(&file(y))]))
    };
    let significant = |found: &Value| {
        found["cells"]
            .as_array()
            .expect("cells")
            .iter()
            .filter(|cell| cell["significant"] == true)
            .count()
    };
    let (same, slower) = (differ("a.json", "a.json"), differ("a.json", "b.json"));
    assert_eq!((significant(&same), significant(&slower)), (0, 2), "{slower}");
    let error = error_of(farline().args([
        "--json",
        "profile",
        "diff",
        text(&file("a.json")),
        text(&file("c.json")),
    ]));
    assert_eq!(error["code"], "profile-diff", "{error}");
    // One repetition of each says nothing of others, and a level is a probability.
    let one = ["--repetitions", "1", "--seconds", "5"];
    simulate(&file("e.json"), &one);
    simulate(&file("f.json"), &[&one[..], &["--host-rate", "300M"]].concat());
    let untested = differ("e.json", "f.json");
    assert_eq!((&untested["tested"], significant(&untested)), (&0.into(), 0), "{untested}");
    let said =
        succeed(farline().args(["profile", "diff", text(&file("e.json")), text(&file("f.json"))]));
    assert!(said.contains("none of 2 cells could be tested"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    for level in ["7", "nan", "0"] {
        let mut diff = farline();
        diff.args([
            "--json",
            "profile",
            "diff",
            text(&file("a.json")),
            text(&file("b.json")),
            "--level",
            level,
        ]);
        assert_eq!(error_of(&mut diff)["code"], "profile-diff", "{level}");
    }
    let plan =
        |file: &Path| json_of(farline().args(["--json", "plan", text(file), "--size", "100GB"]));
    let (wide, narrow) = (plan(&file("a.json")), plan(&file("c.json")));
    assert_eq!(narrow["streams"], 4, "{narrow}");
    assert!(narrow["seconds"].as_f64() > wide["seconds"].as_f64(), "{wide} {narrow}");
    // Flags that would change nothing are refused, and so is what is no path.
    let a = file("a.json");
    let refused: [(&[&str], &str, &str); 10] = [
        (&[text(&a), "--loss", "5"], "plan-flag", "--loss"),
        (&[text(&a), "--congestion", "bbr", "--rate", "1M"], "plan-flag", "--rate"),
        (&[text(&a), "--direction", "back"], "plan-profile", "goes back"),
        (&["usn-1400", "--path", "nope"], "plan-flag", "--path"),
        (&["127.0.0.1:2811", "--path", "nope"], "plan-flag", "--path"),
        (&["usn-1400", "--direction", "back"], "plan-flag", "same both ways"),
        (&["usn-1400", "--loss", "5"], "plan-loss", "probability"),
        (&["usn-1400", "--window", "1B"], "plan-path", "holds no packet"),
        (&["custom", "--rate", "1G", "--rtt", "100s"], "plan-path", "more than a minute"),
        (&["127.0.0.1:2811", "--rtt", "100s", "--window", "1B"], "plan-path", "more than a minute"),
    ];
    for (arguments, code, words) in refused {
        let error = error_of(farline().args(["--json", "plan", "--size", "1GB"]).args(arguments));
        assert_eq!(error["code"], code, "{arguments:?}: {error}");
        assert!(
            error["message"].as_str().is_some_and(|found| found.contains(words)),
            "{arguments:?}: {error}"
        );
    }
    // What is no profile is refused in words.
    fs::write(file("d.json"), b"{}").expect("write");
    let error =
        error_of(farline().args(["--json", "plan", text(&file("d.json")), "--size", "1GB"]));
    assert_eq!(
        (&error["code"], &error["fault"]),
        (&"profile-document".into(), &"you".into()),
        "{error}"
    );
}

#[test]
fn impossible_grids_and_unknown_names_are_the_askers_fault() {
    for (arguments, words) in [
        (&["--link", "usn-9999"][..], "no path"),
        (&["--resume", "p.json", "--streams", "4"], "--streams changes nothing"),
        (&["--link", "usn-1400", "--congestion", "quick"], "quick"),
        (&["--link", "usn-1400", "--loss", "1.5"], "probability"),
        (&["--link", "usn-1400", "--seconds", "0.01"], "at least four"),
        (&["--simulate", "--link", "usn-1400", "--seconds", "1e15"], "a week"),
        (&["--preset", "adts-staging", "--scale", "7"], "divided by 1 to 4"),
        (&["--preset", "sc09"], "sc09"),
        (&["--link", "usn-1400", "--buffer", "1KiB"], "two packets"),
        (&["--link", "usn-1400", "--message", "1GiB"], "messages of"),
        (
            &["--link", "usn-1400", "--staging", "64MiB", "--message", "4KiB"],
            "the mover's own blocks",
        ),
        (&[], "needs a path"),
    ] {
        let error = error_of(farline().args(["--json", "profile"]).args(arguments));
        assert_eq!(error["fault"], "you", "{arguments:?}: {error}");
        assert!(error.to_string().contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn an_unwritable_page_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let missing = dir.path().join("missing/p.html");
    for (file, hint) in
        [(text(&missing), "folder"), (text(dir.path()), "a file in it"), ("/dev/null", "device")]
    {
        // Fifteen hours of it: what is refused is refused at once.
        let error = error_of(farline().args([
            "--json",
            "profile",
            "--preset",
            "wanphy-stability",
            "--full",
            "-o",
            file,
        ]));
        assert_eq!(
            (&error["code"], &error["fault"]),
            (&"cannot-write".into(), &"here".into()),
            "{error}"
        );
        assert!(error["hint"].as_str().is_some_and(|found| found.contains(hint)), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0, "and nothing is left");
}
