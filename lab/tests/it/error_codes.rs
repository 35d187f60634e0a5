//! `docs/errors.md` against `units::ErrorCode` and the sources: the table of codes is written from
//! the enum, each code is in use with its faults, and each test that the page names is there.

use farline_core::units::{ErrorCode, Fault, Retry};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/errors.md";
/// What people and programs meet: the lab's own errors are nobody's.
const SOURCES: [&str; 3] = ["core/src", "edge/src", "shell/cli/src"];
/// The enum's own file.
const ENUM: &str = "core/src/units/error_code.rs";
/// Calls that say the fault by their name: they stand in the modules `link`, `kernelcc` and
/// `transfer`.
const NAMED: [(&str, &str); 4] =
    [("here(", "Here"), ("you(", "You"), ("wrong(", "You"), ("self.fail(", "There")];

/// Faults by code, both as Rust spells them.
type Codes = BTreeMap<String, BTreeSet<String>>;

/// The workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

fn page() -> String {
    fs::read_to_string(root().join(PAGE)).expect(PAGE)
}

#[test]
fn the_page_has_the_table_of_today() {
    let page = page();
    let fresh = with_table(&page).expect("a table of codes");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join(PAGE), fresh).expect(PAGE);
        return;
    }
    assert!(page == fresh, "{PAGE} is stale: set UPDATE_DOCS=1");
}

#[test]
fn each_test_that_the_page_names_is_there() {
    for (file, test) in named_tests(&page()) {
        let path = root().join(format!("lab/tests/it/{}.rs", file.replace("::", "/")));
        let source = fs::read_to_string(path).unwrap_or_default();
        assert!(source.contains(&format!("\nfn {test}() {{")), "there is no `{file}::{test}`");
    }
}

#[test]
fn each_code_is_in_use_with_its_faults_and_no_other() {
    let mut used = Codes::new();
    for folder in SOURCES {
        read_folder(&root().join(folder), &mut used);
    }
    assert_eq!(compare(&used, ErrorCode::ALL), Vec::<String>::new());
}

/// What the sources below `folder` say, but for their tests.
fn read_folder(folder: &Path, used: &mut Codes) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
        let is_of_tests = name == "tests.rs" || name.ends_with("_tests.rs");
        if path.is_dir() {
            if !["tests", "benches"].contains(&name) {
                read_folder(&path, used);
            }
        } else if name.ends_with(".rs") && !is_of_tests && !path.ends_with(ENUM) {
            let text = fs::read_to_string(&path).expect("a source");
            // Its tests stand at its bottom.
            read_source(text.split("#[cfg(test)]").next().unwrap_or_default(), used);
        }
    }
}

/// Codes whose faults in the sources are others than those of the enum.
fn compare(used: &Codes, codes: &[ErrorCode]) -> Vec<String> {
    let mut found = Vec::new();
    for code in codes {
        let listed: BTreeSet<String> =
            code.faults().iter().map(|fault| format!("{fault:?}")).collect();
        match used.get(&format!("{code:?}")) {
            None => found.push(format!("{ENUM}: nothing says `{code}`")),
            Some(used) if *used != listed => found.push(format!(
                "{ENUM}: `{code}` has the faults {listed:?}, the sources say {used:?}"
            )),
            Some(_) => {}
        }
    }
    found
}

/// `page` with the table as the enum has it now; nothing when it has no table.
fn with_table(page: &str) -> Option<String> {
    let (before, rest) = page.split_once("| code | ")?;
    let (_, after) = rest.split_once("\n\n")?;
    Some(format!("{before}{}\n{after}", table(ErrorCode::ALL)))
}

/// The table of codes in Markdown.
fn table(codes: &[ErrorCode]) -> String {
    let mut table =
        "| code | fault and exit code | again | what happened |\n|---|---|---|---|\n".to_owned();
    for code in codes {
        let exit = |fault: Fault| match code {
            // The signal's number decides, as a shell has it: SIGHUP, SIGINT, SIGTERM.
            ErrorCode::Interrupted => "129, 130 or 143".to_owned(),
            _ => fault.exit_code().to_string(),
        };
        let faults =
            code.faults().iter().map(|&fault| format!("{} {}", fault_name(fault), exit(fault)));
        let faults: Vec<String> = faults.collect();
        let retry = match code.retry() {
            Retry::Never => "",
            Retry::Now => "now",
            Retry::After => "later",
        };
        table += &format!("| `{code}` | {} | {retry} | {} |\n", faults.join(", "), code.meaning());
    }
    table
}

/// As JSON has it.
fn fault_name(fault: Fault) -> String {
    format!("{fault:?}").to_lowercase()
}

/// Such as `` `copy::a_tree_goes` ``, file and function.
fn named_tests(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('`').skip(1).step_by(2).filter_map(|name| name.rsplit_once("::"))
}

/// Pairs of a fault and a code, whichever comes first, and calls that say the fault by their name.
fn read_source(text: &str, used: &mut Codes) {
    let mut add = |code: &str, fault: &str| {
        used.entry(code.to_owned()).or_default().insert(fault.to_owned());
    };
    for (at, path) in text.match_indices("ErrorCode::") {
        let before = text[..at].trim_end();
        let (code, rest) = identifier(&text[at + path.len()..]);
        let named = NAMED.iter().find(|(call, _)| before.ends_with(call));
        let ahead = before
            .strip_suffix(',')
            .and_then(|before| before.rsplit_once("Fault::"))
            .map(|(_, fault)| fault)
            .filter(|fault| identifier(fault).1.is_empty());
        let behind = rest.strip_prefix(", Fault::").map(|rest| identifier(rest).0);
        for fault in named.map(|(_, fault)| *fault).into_iter().chain(ahead).chain(behind) {
            add(code, fault);
        }
    }
}

/// The identifier that `text` begins with, and what follows.
fn identifier(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len()))
}

fn codes(pairs: &[(&str, &[&str])]) -> Codes {
    pairs
        .iter()
        .map(|(code, faults)| {
            ((*code).to_owned(), faults.iter().map(|&fault| fault.to_owned()).collect())
        })
        .collect()
}

#[test]
fn codes_are_found_however_they_are_laid_out() {
    let text = "Error::new(Fault::You, ErrorCode::Busy, x); Error::new(\n    Fault::Here,\n    \
        ErrorCode::Busy,\n); row(ErrorCode::Io, Fault::There, 1, \"C\"); \
                self.fail(ErrorCode::Usage, \"words\"); Error::new(Fault::You, code, x); \
                error.code == ErrorCode::Storage; Fault::exit_code";
    let mut used = Codes::new();
    read_source(text, &mut used);
    assert_eq!(
        used,
        codes(&[("Busy", &["You", "Here"]), ("Io", &["There"]), ("Usage", &["There"])])
    );
}

#[test]
fn a_signal_has_exit_codes_of_its_own() {
    let table = table(&[ErrorCode::Interrupted, ErrorCode::IntoItself]);
    assert!(table.contains("| `interrupted` | you 129, 130 or 143 |"), "{table}");
    assert!(table.contains("| `into-itself` | you 2 |"), "{table}");
}

#[test]
fn codes_that_are_unused_or_have_other_faults_are_named() {
    let used = codes(&[("Busy", &["Refused"]), ("Io", &["Here"])]);
    assert_eq!(compare(&used, &[ErrorCode::Busy]), Vec::<String>::new());
    assert_eq!(compare(&used, &[ErrorCode::Io, ErrorCode::Usage]).len(), 2);
}

#[test]
fn tests_are_named_by_file_and_function() {
    let row = "| a case | `code` 2 | `copy::it_lands`, `peers::it_is_refused` |";
    assert_eq!(
        named_tests(row).collect::<Vec<_>>(),
        [("copy", "it_lands"), ("peers", "it_is_refused")]
    );
}

#[test]
fn the_table_is_replaced_and_the_rest_stays() {
    let row = table(&[ErrorCode::Busy]);
    assert!(row.ends_with(
        "| `busy` | refused 6 | later | another transfer writes to the same target, or others have all ports for data |\n"
    ));
    let page = "# Codes\n\n| code | old |\n|---|---|\n| `a-b` | x |\n\n# More\n";
    let fresh = with_table(page).expect("a table");
    assert!(fresh.starts_with("# Codes\n\n| code | fault") && fresh.ends_with(" |\n\n# More\n"));
    assert!(!fresh.contains("`a-b`"));
    assert_eq!(with_table(&fresh).as_ref(), Some(&fresh));
    assert_eq!(with_table("no table"), None);
}
