//! The command's shell: help that fits a screen and gives an example, errors as objects,
//! completions and man pages.

use farline_lab::farline;
use serde_json::Value;
use std::process::Output;

fn run(args: &[&str]) -> Output {
    farline().args(args).output().expect("farline runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// The commands that the help of `path` lists.
fn commands_below(path: &[&str]) -> Vec<String> {
    let help = stdout(&run(&[path, &["--help"]].concat()));
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    // A long description goes on in the next line, further to the right.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The words of every command, such as `link up`, without the top one.
fn every_command() -> Vec<Vec<String>> {
    let mut open: Vec<Vec<String>> = vec![vec![]];
    let mut all = vec![];
    while let Some(path) = open.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        for name in commands_below(&words) {
            let below = [path.clone(), vec![name]].concat();
            open.push(below.clone());
            all.push(below);
        }
    }
    assert!(all.len() >= 5, "the help lists its commands: {all:?}");
    all
}

#[test]
fn top_help_fits_an_old_terminal_and_gives_an_example() {
    let help = stdout(&run(&["--help"]));
    assert!(help.lines().count() <= 24, "{} lines:\n{help}", help.lines().count());
    assert!(help.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{help}");
    assert!(help.contains("Examples:\n  farline "), "no example:\n{help}");
}

#[test]
fn help_of_every_command_fits_a_screen_and_gives_an_example() {
    for path in every_command() {
        let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let output = run(&words);
        let help = stdout(&output);
        assert!(output.status.success(), "{words:?}");
        assert!(help.lines().count() <= 40, "{words:?}: {} lines:\n{help}", help.lines().count());
        assert!(
            help.lines().all(|line| line.chars().count() <= 80),
            "{words:?}: wider than 80 columns:\n{help}"
        );
        let example = format!("\n  farline {}", path.join(" "));
        assert!(
            help.contains("Example") && help.contains(&example),
            "{words:?}: no example:\n{help}"
        );
    }
}

#[test]
fn of_one_place_alone_the_destination_is_missing() {
    let error = farline_lab::error_of(&["cp", "a"]).0;
    let said = error["message"].as_str().unwrap_or_default();
    assert!(said.contains("<DST>") && !said.contains("<SRC>"), "{said}");
    let said = String::from_utf8(run(&["cp", "a"]).stderr).expect("UTF-8");
    assert!(said.contains("not provided:\n  <DST>\n"), "{said}");
    // Who writes none misses both.
    let error = farline_lab::error_of(&["cp"]).0;
    let said = error["message"].as_str().unwrap_or_default();
    assert!(said.contains("<SRC>") && said.contains("<DST>"), "{said}");
}

#[test]
fn a_wrong_command_line_is_an_error_object_with_json() {
    for words in [
        &["--json", "fly"][..],
        &["cp", "--no-such-flag", "--json"],
        &["--json"],
        &["completions", "tcl", "--json"],
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}: an object on stdout is all there is");
        let document: Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!(document["schema"], "farline/error/1", "{words:?}");
        assert_eq!(document["error"]["fault"], "you", "{words:?}");
        assert_eq!(document["error"]["code"], "usage", "{words:?}");
        assert!(
            document["error"]["message"].as_str().is_some_and(|message| message.len() > 10),
            "{document}"
        );
        assert!(document["error"]["hint"].is_string(), "{document}");
    }
}

#[test]
fn a_wrong_command_line_is_text_on_stderr_otherwise() {
    let output = run(&["fly"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("'fly'"));
    let output = run(&["link", "up", "usn-1400", "--at", "3s:vanish"]);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("hint: TIME:"),
        "the parser of events advises: {output:?}"
    );
    // Behind `--` stands somebody else's command line.
    let output = run(&["fly", "--", "--json"]);
    assert!(output.stdout.is_empty());
}

#[test]
fn help_can_be_asked_for_by_a_word() {
    for (by_word, by_flag) in
        [(&["help"][..], &["--help"][..]), (&["help", "cp"], &["cp", "--help"])]
    {
        let (word, flag) = (run(by_word), run(by_flag));
        assert_eq!((word.status.code(), stdout(&word)), (Some(0), stdout(&flag)));
    }
    assert_eq!(run(&["help", "fly"]).status.code(), Some(2));
}

#[test]
fn completions_of_every_shell_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        for path in every_command() {
            let name = path.last().expect("a word");
            assert!(script.contains(name.as_str()), "{shell}: nothing about {name}");
        }
    }
}

#[test]
fn man_pages_cover_every_command_and_the_exit_codes() {
    let top = stdout(&run(&["man"]));
    assert!(top.contains(".TH farline 1") && top.contains("EXIT STATUS"), "{top}");
    for command in commands_below(&[]) {
        assert!(
            top.contains(&format!("farline\\-{command}(1)")),
            "nothing about {command}:\n{top}"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    assert!(run(&["man", "--out", path]).status.success());
    for command in every_command() {
        let page = folder.path().join(format!("farline-{}.1", command.join("-")));
        let text = std::fs::read_to_string(&page)
            .unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.contains(".SH OPTIONS") && text.contains("EXIT STATUS"), "{}", page.display());
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_this_hosts_fault() {
    let output = run(&["--json", "man", "--out", "/dev/null/pages"]);
    assert_eq!(output.status.code(), Some(3));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(document["error"]["fault"], "here");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child =
        farline().arg("man").stdout(std::process::Stdio::piped()).spawn().expect("farline runs");
    drop(child.stdout.take());
    assert!(child.wait().expect("an exit code").success());
}

#[test]
fn a_list_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let listed = farline().args(["link", "ls"]).stdout(full).output().expect("farline runs");
    assert_eq!(listed.status.code(), Some(3), "{listed:?}");
    assert!(String::from_utf8_lossy(&listed.stderr).contains("stdout"), "{listed:?}");
}

#[test]
fn a_user_without_password_or_terminal_is_told_so() {
    let mut command = farline();
    command.env_remove("FARLINE_PASSWORD").stdin(std::process::Stdio::null());
    command.args(["--json", "cp", "farlines://alice@127.0.0.1:9/x", "here"]);
    let (error, code) = farline_lab::error_of_command(&mut command);
    assert_eq!((error["code"].as_str(), code), (Some("login-refused"), 2), "{error}");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("FARLINE_PASSWORD")));
}

#[test]
fn a_command_that_is_not_there_is_one_of_those_around_it() {
    let said = |args: &[&str]| String::from_utf8(run(args).stderr).expect("UTF-8");
    let wrong = said(&["link", "set"]);
    assert!(wrong.contains("unrecognized subcommand 'set'") && !wrong.contains("net"), "{wrong}");
    assert!(said(&["--json", "link", "set"]).is_empty());
    assert!(said(&["link", "sl"]).contains("'ls'"), "{}", said(&["link", "sl"]));
    assert!(said(&["pc"]).contains("'cp'"), "{}", said(&["pc"]));
}

#[test]
fn a_flag_that_is_not_there_is_the_one_like_it() {
    let output = run(&["sync", "--dry-rum", "a", "b"]);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(said.contains("'--dry-run'") && !said.contains("-- --dry"), "{said}");
}

#[test]
fn partial_files_of_a_node_are_listed_where_they_are() {
    let (error, code) = farline_lab::error_of(&["partials", "ls", "farline://dtn.example.org/x"]);
    assert_eq!(code, 2, "{error}");
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("farline partials ls") && hint.contains("dtn.example.org"), "{error}");
}

#[test]
fn a_folder_in_place_of_a_configuration_is_told_of_root() {
    let dir = farline_lab::files::folder();
    let (error, code) = farline_lab::error_of(&["serve", farline_lab::files::text(dir.path())]);
    assert_eq!((error["code"].as_str(), code), (Some("bad-config"), 2), "{error}");
    assert!(error["message"].as_str().is_some_and(|said| !said.contains("os error")), "{error}");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("serve --root /")), "{error}");
}

#[test]
fn a_plan_and_a_copy_tell_one_round_trip_or_none() {
    let dir = farline_lab::files::folder();
    let at = dir.path();
    std::fs::write(at.join("f"), "x").expect("written");
    let copied = farline().current_dir(at).args(["cp", "-v", "f", "g"]).output().expect("runs");
    let copied = stdout(&copied);
    assert!(copied.contains("limited by") && !copied.contains("rtt "), "{copied}");
    let (_node, url) = farline_lab::node(at, "read", &[]);
    let plan = stdout(&run(&["plan", &url, "--size", "1TB"]));
    let words = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = |rtt: &str| {
        let mut words = rtt.trim_start_matches("of ").split([' ', ';']);
        let figure = words.next().filter(|figure| figure.parse::<f64>().is_ok())?;
        Some(format!("{figure} {}", words.next()?))
    };
    let rtts: Vec<String> = words.split("rtt ").skip(1).filter_map(told).collect();
    assert!(rtts.len() > 1 && rtts.iter().all(|rtt| *rtt == rtts[0]), "{rtts:?} {plan}");
}
