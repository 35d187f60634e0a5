//! The law of the house: arrows between crates and modules, where unsafe code may stand, names,
//! sizes, opening sentences.
//!
//! Dependencies of crates are checked with their tests (a dev-dependency is an arrow too); imports
//! between modules without them (a unit test may bring any two modules together).

use crate::arrows::Arrows;
use crate::circles::Neighbours;
use crate::columns;
use crate::source::Facts;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where no flag of a command line is handed to a process: what Farline starts of itself, it starts
/// by a typed role.
const LIBRARY: &str = "edge/src/";
/// The one folder for unsafe code.
const UNSAFE_HOME: &str = "edge/src/sys/";
/// Longest source file that is not a test; CONTRIBUTING.md asks for 100 to 300 lines.
const FILE_LINES: usize = 600;
/// Longest ARCHITECTURE.md: it is read in five minutes.
const PLAN_LINES: usize = 200;
/// Longest name of a test: it is read in a list of many.
const TEST_NAME: usize = 60;
/// Rooms that know channel drivers by their capabilities alone.
const DRIVERLESS: [&str; 2] = ["edge/src/client/", "edge/src/node/"];
/// Names of drivers that are not said there, in whatever case, nor imported from their modules. TCP
/// and TLS may be named: RFC 959 and RFC 4217 put the control connection over them.
const DRIVERS: [&str; 3] = ["rdma", "udt", "quic"];
/// Modules of drivers and layers.
const DRIVER_MODULES: [&str; 6] = [
    "channels::rdma",
    "channels::udt",
    "channels::quic",
    "channels::ssh",
    "channels::tls",
    "channels::memory",
];
/// Crates whose modules all stand in the table; in others the modules that it lists are checked.
const MODULAR: [&str; 2] = ["core", "edge"];

/// A crate of this workspace.
struct Crate {
    /// Its folder below the root, such as `shell/cli`.
    folder: String,
    /// Folders of the workspace's crates that it depends on.
    needs: BTreeSet<String>,
}

/// Every violation in the workspace at `root`.
pub(crate) fn check(root: &Path, metadata: &serde_json::Value) -> Result<Vec<String>> {
    let plan = fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let crates = crates(root, metadata)?;
    let mut files = BTreeMap::new();
    for member in &crates {
        for folder in ["src", "tests", "benches", "examples"] {
            read_sources(root, &root.join(&member.folder).join(folder), &mut files)?;
        }
        read_source(root, &root.join(&member.folder).join("build.rs"), &mut files)?;
    }
    Ok([violations(&plan, &crates, &files), neighbours(&crates, &files).check()].concat())
}

/// The workspace's crates, from what cargo knows.
fn crates(root: &Path, metadata: &serde_json::Value) -> Result<Vec<Crate>> {
    let members = metadata["workspace_members"].as_array().context("workspace_members")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let folder_of = |path: &serde_json::Value| -> Option<String> {
        Some(Path::new(path.as_str()?).strip_prefix(root).ok()?.to_str()?.to_owned())
    };
    let mut crates = Vec::new();
    for package in packages.iter().filter(|package| members.contains(&package["id"])) {
        let manifest = Path::new(package["manifest_path"].as_str().context("manifest_path")?);
        let folder =
            manifest.parent().and_then(|dir| dir.strip_prefix(root).ok()).and_then(Path::to_str);
        let dependencies = package["dependencies"].as_array().context("dependencies")?;
        crates.push(Crate {
            folder: folder.context("a member outside the workspace")?.to_owned(),
            needs: dependencies
                .iter()
                .filter_map(|dependency| folder_of(&dependency["path"]))
                .collect(),
        });
    }
    Ok(crates)
}

/// Reads every `.rs` file below `folder` into `files`, under its path from `root`.
pub(crate) fn read_sources(
    root: &Path,
    folder: &Path,
    files: &mut BTreeMap<String, String>,
) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read_sources(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            read_source(root, &path, files)?;
        }
    }
    Ok(())
}

fn read_source(root: &Path, path: &Path, files: &mut BTreeMap<String, String>) -> Result<()> {
    if path.is_file() {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        files.insert(path.strip_prefix(root)?.to_string_lossy().into_owned(), text);
    }
    Ok(())
}

/// Which sub-modules of a top-level module import which, in the crates whose modules are listed. A
/// file that cannot be read is a violation elsewhere.
fn neighbours(crates: &[Crate], files: &BTreeMap<String, String>) -> Neighbours {
    let mut neighbours = Neighbours::default();
    for member in crates.iter().filter(|member| MODULAR.contains(&member.folder.as_str())) {
        let source = format!("{}/src/", member.folder);
        let sources = files.iter().filter(|(path, _)| path.starts_with(&source) && !is_test(path));
        let modules = sources.clone().map(|(path, _)| module_path(path)).collect();
        for (path, text) in sources {
            let from = module_path(path);
            for to in Facts::read(text, &from, false).unwrap_or_default().reached {
                neighbours.add(&member.folder, &from, &to, &modules);
            }
        }
    }
    neighbours
}

/// Tests that no test program runs: those of lab stand in one, whose `main.rs` names each.
fn strays(files: &BTreeMap<String, String>) -> Vec<String> {
    const PROGRAM: &str = "lab/tests/it/";
    let main = files.get("lab/tests/it/main.rs").map_or("", String::as_str);
    let stray = |path: &&String| {
        let Some(below) = path.strip_prefix("lab/tests/") else { return false };
        let Some(file) = below.strip_prefix("it/") else { return true };
        let module = file.strip_suffix(".rs").unwrap_or(file).split('/').next().unwrap_or(file);
        module != "main" && !main.lines().any(|line| line == format!("mod {module};"))
    };
    let strays = files.keys().filter(stray);
    strays
        .map(|path| format!("{path}: no module of {PROGRAM}main.rs, where tests are run"))
        .collect()
}

/// The violations of a house given as values: the text of ARCHITECTURE.md, the crates, and each
/// source file's text by path.
fn violations(plan: &str, crates: &[Crate], files: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    if plan.lines().count() > PLAN_LINES {
        found
            .push(format!("ARCHITECTURE.md: {} lines, at most {PLAN_LINES}", plan.lines().count()));
    }
    let arrows = match Arrows::parse(plan) {
        Ok(arrows) => arrows,
        Err(wrong) => return [found, wrong].concat(),
    };
    let folders: BTreeSet<String> = crates.iter().map(|member| member.folder.clone()).collect();
    let modules: BTreeSet<String> =
        files.keys().filter_map(|path| top_module(path, &folders)).collect();
    found.extend(arrows.check(&folders, &modules));
    found.extend(strays(files));
    for member in crates {
        let Some(allowed) = arrows.of(&member.folder) else {
            found.push(format!(
                "{}: a crate without a line in ARCHITECTURE.md's arrows",
                member.folder
            ));
            continue;
        };
        for need in member.needs.difference(allowed) {
            found.push(format!(
                "{}/Cargo.toml: depends on {need}, which its arrows do not allow",
                member.folder
            ));
        }
    }
    for module in &modules {
        let modular = MODULAR.iter().any(|folder| module.starts_with(&format!("{folder}/")));
        if modular && arrows.of(module).is_none() {
            found.push(format!("{module}: a module without a line in ARCHITECTURE.md's arrows"));
        }
    }
    for (path, text) in files {
        found.extend(
            in_file(path, text, &arrows, &folders, &modules)
                .into_iter()
                .map(|wrong| format!("{path}:{wrong}")),
        );
    }
    found
}

/// The violations in one file, each as `line: what is wrong`.
fn in_file(
    path: &str,
    text: &str,
    arrows: &Arrows,
    folders: &BTreeSet<String>,
    modules: &BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    let is_test = is_test(path);
    let lines = text.lines().count();
    if !text.starts_with("//! ") {
        found.push("1: does not open with one sentence of purpose (`//! ...`)".to_owned());
    }
    if lines > FILE_LINES && !is_test {
        found.push(format!("{lines}: {lines} lines, at most {FILE_LINES} where it is not a test"));
    }
    found.extend(columns::check(text));
    let facts = match Facts::read(text, &module_path(path), is_test) {
        Ok(facts) => facts,
        Err(error) => return [found, vec![format!("1: {error}")]].concat(),
    };
    for (name, line) in facts.tests.iter().filter(|(name, _)| name.len() > TEST_NAME) {
        found.push(format!(
            "{line}: `{name}`: {} characters, at most {TEST_NAME} in the name of a test",
            name.len()
        ));
    }
    if !path.starts_with(UNSAFE_HOME) {
        found.extend(
            facts
                .unsafe_lines
                .iter()
                .map(|line| format!("{line}: unsafe code outside {UNSAFE_HOME}")),
        );
    }
    if !is_test && DRIVERLESS.iter().any(|room| path.starts_with(room)) {
        for (number, line) in text.lines().enumerate() {
            let named = DRIVERS.iter().chain(&DRIVER_MODULES).find(|name| names(line, name));
            if let Some(name) = named {
                let line = number + 1;
                found.push(format!(
                    "{line}: names the driver `{name}`: what is special about one is a capability \
                     or a method of channels::driver"
                ));
            }
        }
    }
    if path.starts_with(LIBRARY) {
        found.extend(facts.flags.iter().map(|(flag, line)| {
            format!("{line}: {flag}: the library starts no command line of the shell's (reexec)")
        }));
    }
    for (name, line) in &facts.bad_names {
        found.push(format!(
            "{line}: `{name}`: name the thing itself (no Manager, Helper, Util or get_)"
        ));
    }
    let Some(from) = top_module(path, folders) else { return found };
    let Some(allowed) = arrows.of(&from) else { return found };
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    if !arrows.lists_modules_of(folder, folders) {
        return found;
    }
    for (name, line) in &facts.imports {
        let to = format!("{folder}/{name}");
        if to == from || allowed.contains(name) {
            continue;
        }
        found.push(match modules.contains(&to) {
            true => format!("{line}: {from} imports `{name}`, which its arrows do not allow"),
            false => format!(
                "{line}: imports `{name}` from the crate root; name the module that it comes from"
            ),
        });
    }
    found
}

/// Whether `line` says `name`, in whatever case, alone or as the beginning of a longer name:
/// `Rdma`, `RdmaDoor`, `rdma_door`, and not `quickly` for `quic`.
fn names(line: &str, name: &str) -> bool {
    line.to_ascii_lowercase()
        .match_indices(name)
        .any(|(at, _)| !line[at + name.len()..].starts_with(|next: char| next.is_ascii_lowercase()))
}

/// `core/units` for `core/src/units/time.rs` and for `core/src/units.rs`; nothing for a crate's
/// root and for what is not in `src`.
fn top_module(path: &str, folders: &BTreeSet<String>) -> Option<String> {
    let (folder, rest) = path.split_once("/src/")?;
    if !folders.contains(folder) {
        return None;
    }
    let name = rest.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (!matches!(name, "lib" | "main" | "bin")).then(|| format!("{folder}/{name}"))
}

/// The module path of a file in `src`: `units`, `time` for `core/src/units/time.rs`.
pub(crate) fn module_path(path: &str) -> Vec<String> {
    let inside = path.split_once("/src/").map_or(path, |(_, rest)| rest);
    let mut names: Vec<String> =
        inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// Whether a file holds nothing but tests or measurements: `tests.rs`, `cut_tests.rs`, or in a
/// folder `tests` or `benches`.
pub(crate) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path.split('/').any(|part| matches!(part, "tests" | "benches"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "```arrows\ncore:\nedge -> core\nlab -> core edge\ncore/units:\ncore/wan \
        -> units\nedge/sys:\nedge/node -> sys\n```";

    /// A house in order, but for the files and needs given.
    fn house(plan: &str, edge_needs: &[&str], planted: &[(&str, &str)]) -> Vec<String> {
        let member = |folder: &str, needs: &[&str]| Crate {
            folder: folder.to_owned(),
            needs: needs.iter().map(|&need| need.to_owned()).collect(),
        };
        let crates =
            [member("core", &[]), member("edge", edge_needs), member("lab", &["core", "edge"])];
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for (path, text) in [
            ("core/src/lib.rs", "//! Core.\npub mod units;\npub mod wan;"),
            ("core/src/units/mod.rs", "//! Units."),
            ("core/src/wan/mod.rs", "//! Link.\nuse crate::units::Time;"),
            ("edge/src/sys/mod.rs", "//! System calls.\nfn f() { unsafe { g() } }"),
            ("edge/src/node/mod.rs", "//! Node.\nuse crate::sys::poll;"),
            ("lab/tests/it/main.rs", "//! Tests.\nmod copy;\nmod long;\n"),
            ("lab/tests/it/copy.rs", "//! Copies.\nmod shared;"),
        ]
        .iter()
        .chain(planted)
        {
            files.insert((*path).to_owned(), (*text).to_owned());
        }
        violations(plan, &crates, &files)
    }

    /// Asserts that planting `text` at `path` is found once, in words that hold `expected`.
    fn assert_found(path: &str, text: &str, expected: &str) {
        let found = house(PLAN, &["core"], &[(path, text)]);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "planted {text:?} in {path}: {found:#?}"
        );
    }

    #[test]
    fn a_house_in_order_has_no_violation() {
        assert_eq!(house(PLAN, &["core"], &[]), Vec::<String>::new());
    }

    #[test]
    fn finds_an_import_against_the_arrows() {
        assert_found(
            "core/src/units/time.rs",
            "//! Time.\nuse crate::wan::Link;",
            "core/src/units/time.rs:2: core/units imports `wan`",
        );
        assert_found(
            "core/src/units/time.rs",
            "//! Time.\nuse super::super::wan::Link;",
            "core/units imports `wan`",
        );
        assert_found(
            "core/src/units/mod.rs",
            "//! Units.\nuse super::wan::Link;",
            "core/units imports `wan`",
        );
        assert_found(
            "edge/src/node/mod.rs",
            "//! Node.\nuse crate::Everything;",
            "from the crate root",
        );
    }

    #[test]
    fn finds_a_flag_that_the_library_hands_to_a_process() {
        for text in ["\"--listen\"", "format!(\"--to={}\", to)"] {
            let text = format!("//! Node.\nfn f() {{ arg({text}) }}");
            assert_found("edge/src/node/start.rs", &text, "2: \"--");
        }
        let words = "//! Node.\nfn f() { hint(\"-- is no flag\", \"--\", \"try --listen\") }";
        assert_eq!(house(PLAN, &["core"], &[("edge/src/node/a.rs", words)]), Vec::<String>::new());
    }

    #[test]
    fn a_unit_test_may_import_any_module() {
        let inline = (
            "core/src/units/time.rs",
            "//! Time.\n#[cfg(test)]\nmod tests { use crate::wan::Link; }",
        );
        let file = ("core/src/units/tests.rs", "//! Tests of units.\nuse crate::wan::Link;");
        assert_eq!(house(PLAN, &["core"], &[inline, file]), Vec::<String>::new());
    }

    #[test]
    fn finds_a_dependency_against_the_arrows() {
        let found = house(PLAN, &["core", "lab"], &[]);
        assert_eq!(found, ["edge/Cargo.toml: depends on lab, which its arrows do not allow"]);
    }

    #[test]
    fn finds_crates_and_modules_that_the_plan_does_not_list() {
        assert_found("core/src/report.rs", "//! Pages.", "core/report: a module without a line");
        let found = house(&PLAN.replace("lab -> core edge\n", ""), &["core"], &[]);
        assert_eq!(found, ["lab: a crate without a line in ARCHITECTURE.md's arrows"]);
    }

    #[test]
    fn finds_unsafe_code_away_from_home() {
        assert_found(
            "edge/src/node/mod.rs",
            "//! Node.\nfn f() { unsafe { g() } }",
            "mod.rs:2: unsafe code outside",
        );
        assert_found(
            "lab/tests/it/copy.rs",
            "//! Copies.\nfn f() { unsafe { g() } }",
            "copy.rs:2: unsafe code outside",
        );
    }

    #[test]
    fn finds_a_driver_by_name_in_client_and_node() {
        let plan = PLAN.replace("edge/node -> sys", "edge/node -> sys channels\nedge/channels:");
        let channels = ("edge/src/channels/rdma.rs", "//! RDMA.");
        for text in ["//! Node.\nstruct RdmaDoor;", "//! Node.\nuse crate::channels::tls;"] {
            let found = house(&plan, &["core"], &[channels, ("edge/src/node/door.rs", text)]);
            assert!(
                found.len() == 1 && found[0].contains("door.rs:2: names the driver"),
                "{found:?}"
            );
        }
        let test = ("edge/src/node/door_tests.rs", "//! RDMA.");
        assert_eq!(house(&plan, &["core"], &[channels, test]), Vec::<String>::new());
    }

    #[test]
    fn finds_empty_names() {
        assert_found(
            "edge/src/node/mod.rs",
            "//! Node.\nstruct SessionManager;",
            "mod.rs:2: `SessionManager`",
        );
        assert_found(
            "edge/src/node/mod.rs",
            "//! Node.\nfn get_root() {}",
            "mod.rs:2: `fn get_root`",
        );
    }

    #[test]
    fn finds_a_test_whose_name_is_too_long() {
        let name = "a_".repeat(30);
        let text = format!("//! Copies.\n#[test]\nfn {name}b() {{}}\nfn {name}c() {{}}");
        assert_found("edge/src/node/mod.rs", &text, "mod.rs:3: `a_a_");
        let text = format!("//! Copies.\n#[test]\nfn {name}() {{}}");
        let found = house(PLAN, &["core"], &[("edge/src/node/mod.rs", &text)]);
        assert_eq!(found, Vec::<String>::new(), "sixty are allowed");
    }

    #[test]
    fn a_test_file_that_no_program_runs_is_found() {
        for stray in ["lab/tests/lost.rs", "lab/tests/it/lost.rs"] {
            assert_found(stray, "//! Lost.", "no module of");
        }
    }

    #[test]
    fn finds_a_missing_opening_and_a_file_or_plan_that_is_too_long() {
        assert_found("edge/src/node/mod.rs", "fn f() {}", "does not open with one sentence");
        let long = format!("//! Long.\n{}", "\n".repeat(FILE_LINES));
        assert_found("edge/src/node/mod.rs", &long, "lines, at most 600");
        assert_eq!(
            house(PLAN, &["core"], &[("lab/tests/it/long.rs", &long)]),
            Vec::<String>::new(),
            "a test may be long"
        );
        let found = house(&format!("{PLAN}{}", "\nmore".repeat(PLAN_LINES)), &["core"], &[]);
        assert!(found.len() == 1 && found[0].contains("at most 200"), "{found:?}");
    }
}
