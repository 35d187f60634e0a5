//! The table of allowed imports: the block marked `arrows` in ARCHITECTURE.md.
//!
//! One line for each crate folder and for each top-level module of a crate whose modules are
//! listed: `edge -> core` says that the crate in `edge/` may depend on the crate in `core/`, and
//! `edge/node -> sys channels` that the module `node` may import from `sys` and `channels` of the
//! same crate. A line without an arrow, `core/units:`, allows nothing.

use std::collections::{BTreeMap, BTreeSet};

/// Who may import whom: a crate folder or `folder/module` with what it may reach.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrows(BTreeMap<String, BTreeSet<String>>);

impl Arrows {
    /// Reads the block out of the text of ARCHITECTURE.md; the problems come back as violations.
    pub(crate) fn parse(text: &str) -> Result<Arrows, Vec<String>> {
        let mut arrows = Arrows::default();
        let mut wrong = Vec::new();
        let mut inside = false;
        let mut seen = false;
        for (i, line) in text.lines().enumerate() {
            let place = format!("ARCHITECTURE.md:{}", i + 1);
            if !inside {
                inside = line.trim() == "```arrows";
                seen |= inside;
                continue;
            }
            match line.split('#').next().unwrap_or_default().trim() {
                "" => {}
                "```" => inside = false,
                rule => {
                    let (from, to) =
                        rule.split_once("->").unwrap_or((rule.trim_end_matches(':'), ""));
                    let to = to.split_whitespace().map(str::to_owned).collect();
                    if from.trim().contains(char::is_whitespace) {
                        wrong.push(format!("{place}: `{rule}` is not `FROM -> TO TO ...`"));
                    } else if arrows.0.insert(from.trim().to_owned(), to).is_some() {
                        wrong.push(format!("{place}: a second line for `{}`", from.trim()));
                    }
                }
            }
        }
        if !seen {
            wrong.push("ARCHITECTURE.md: no block marked ```arrows".to_owned());
        }
        if wrong.is_empty() { Ok(arrows) } else { Err(wrong) }
    }

    /// What `from` may reach, or nothing when the table does not list it.
    pub(crate) fn of(&self, from: &str) -> Option<&BTreeSet<String>> {
        self.0.get(from)
    }

    /// Whether the table lists any module of the crate in `folder`.
    pub(crate) fn lists_modules_of(&self, folder: &str, crates: &BTreeSet<String>) -> bool {
        self.0.keys().any(|from| !crates.contains(from) && module_in(from, folder).is_some())
    }

    /// Lines that name a crate or module that is not there, and circles among those that are.
    pub(crate) fn check(
        &self,
        crates: &BTreeSet<String>,
        modules: &BTreeSet<String>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (from, targets) in &self.0 {
            if !crates.contains(from) && !modules.contains(from) {
                found.push(format!(
                    "ARCHITECTURE.md: the arrows name `{from}`, which is neither a \
                    crate nor a module"
                ));
                continue;
            }
            for to in targets {
                let target = self.resolve(from, to, crates);
                if !crates.contains(&target) && !modules.contains(&target) {
                    found
                        .push(format!("ARCHITECTURE.md: `{from} -> {to}`: there is no `{target}`"));
                }
            }
        }
        for start in self.0.keys() {
            let mut reached = BTreeSet::new();
            let mut open = vec![start.clone()];
            while let Some(from) = open.pop() {
                for to in self.0.get(&from).into_iter().flatten() {
                    let target = self.resolve(&from, to, crates);
                    if reached.insert(target.clone()) {
                        open.push(target);
                    }
                }
            }
            if reached.contains(start) {
                found.push(format!(
                    "ARCHITECTURE.md: the arrows lead from `{start}` back to itself"
                ));
            }
        }
        found
    }

    /// The full name of `to` as written in the line of `from`: a crate's own, a module's with its
    /// crate's folder before it.
    fn resolve(&self, from: &str, to: &str, crates: &BTreeSet<String>) -> String {
        if crates.contains(from) {
            return to.to_owned();
        }
        from.rsplit_once('/').map_or_else(|| to.to_owned(), |(folder, _)| format!("{folder}/{to}"))
    }
}

/// The module that `name` names when it is `folder/module`.
fn module_in<'a>(name: &'a str, folder: &str) -> Option<&'a str> {
    name.strip_prefix(folder)?.strip_prefix('/').filter(|module| !module.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn table(rules: &str) -> Arrows {
        Arrows::parse(&format!("# Plan\n```arrows\n{rules}\n```\nedge -> nothing, this is prose\n"))
            .expect("a good table")
    }

    #[test]
    fn reads_crates_modules_and_lines_that_allow_nothing() {
        let arrows = table("core:\nedge -> core # the library\ncore/units:\ncore/wan -> units");
        assert_eq!(arrows.of("edge"), Some(&set(&["core"])));
        assert_eq!(arrows.of("core"), Some(&set(&[])));
        assert_eq!(arrows.of("core/wan"), Some(&set(&["units"])));
        assert_eq!(arrows.of("lab"), None);
        assert!(arrows.lists_modules_of("core", &set(&["core", "edge"])));
        assert!(!arrows.lists_modules_of("edge", &set(&["core", "edge"])));
    }

    #[test]
    fn a_crate_below_another_is_not_its_module() {
        let arrows = table("lab:\nlab/xtask:");
        assert!(!arrows.lists_modules_of("lab", &set(&["lab", "lab/xtask"])));
    }

    #[test]
    fn refuses_a_missing_block_a_second_line_and_a_malformed_rule() {
        assert!(Arrows::parse("no block").is_err());
        assert!(Arrows::parse("```arrows\ncore:\ncore:\n```").is_err());
        assert!(Arrows::parse("```arrows\ncore edge\n```").is_err());
    }

    #[test]
    fn finds_stale_names_and_circles() {
        let crates = set(&["core", "edge"]);
        let modules = set(&["core/units", "core/wan"]);
        assert_eq!(
            table("core:\nedge -> core\ncore/wan -> units\ncore/units:").check(&crates, &modules),
            Vec::<String>::new()
        );
        assert_eq!(table("core:\nshed -> core").check(&crates, &modules).len(), 1);
        assert_eq!(table("core/wan -> unit").check(&crates, &modules).len(), 1);
        let circle = table("core/wan -> units\ncore/units -> wan").check(&crates, &modules);
        assert!(
            circle.iter().all(|line| line.contains("back to itself")) && circle.len() == 2,
            "{circle:?}"
        );
    }
}
