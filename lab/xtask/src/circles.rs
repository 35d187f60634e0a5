//! Circles of imports within one top-level module: sub-modules that import each other.
//!
//! An import counts between neighbours: it is lifted to the children of the module that holds both
//! ends. What a parent and its child import from each other does not count.

use std::collections::{BTreeMap, BTreeSet};

/// Circles that stand for now, each as its crate, the module that holds it and the children in it.
/// This list only shrinks: a circle that is broken, or of which a part is, is taken out of it.
const KNOWN: &[&str] = &[
    "core/profile/verbs: between document grid measured",
    "core/profile: cell grid hypothesis staging",
    "core/profile: document resumption",
];

/// Imports between sub-modules: for each holder (`core/gridftp`), which child imports which.
#[derive(Debug, Default)]
pub(crate) struct Neighbours(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Neighbours {
    /// Adds that the module `from` of the crate in `folder` reaches `to`, a path from its root.
    /// `modules` are all of the crate, so that the name of a type is not taken for a module's.
    pub(crate) fn add(
        &mut self,
        folder: &str,
        from: &[String],
        to: &[String],
        modules: &BTreeSet<Vec<String>>,
    ) {
        let known = (0..=to.len()).rev().find(|&n| modules.contains(&to[..n]));
        let to = &to[..known.unwrap_or(0)];
        let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        // Top-level modules have the arrows; a parent and its child are one.
        if shared == 0 || shared == from.len() || shared == to.len() {
            return;
        }
        let holder = format!("{folder}/{}", from[..shared].join("/"));
        let children = self.0.entry(holder).or_default();
        children.entry(from[shared].clone()).or_default().insert(to[shared].clone());
    }

    /// Each circle as `core/gridftp: reply server`.
    fn circles(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (holder, children) in &self.0 {
            let reached: BTreeMap<&String, BTreeSet<&String>> =
                children.keys().map(|child| (child, reached(children, child))).collect();
            for (child, far) in &reached {
                let both = |other: &&&String| {
                    reached.get(*other).is_some_and(|back| back.contains(*child))
                };
                let circle: Vec<&str> = far.iter().filter(both).map(|name| name.as_str()).collect();
                if !circle.is_empty() {
                    found.insert(format!("{holder}: {}", circle.join(" ")));
                }
            }
        }
        found
    }

    /// Circles that are new, and known ones that are there no more.
    pub(crate) fn check(&self) -> Vec<String> {
        compare(&self.circles(), KNOWN)
    }
}

/// What `circles` has beyond `known`, and what of `known` it lacks.
fn compare(circles: &BTreeSet<String>, known: &[&str]) -> Vec<String> {
    let new = circles.iter().filter(|circle| !known.contains(&circle.as_str()));
    let new =
        new.map(|circle| format!("{circle}: these sub-modules import each other in a circle"));
    let gone = known.iter().filter(|&&circle| !circles.contains(circle));
    let gone = gone.map(|circle| {
        format!("{circle}: no such circle any more; take it out of lab/xtask/src/circles.rs")
    });
    new.chain(gone).collect()
}

/// All that `start` reaches through `imports`.
fn reached<'a>(
    imports: &'a BTreeMap<String, BTreeSet<String>>,
    start: &String,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = imports.get(start).into_iter().flatten().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(imports.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split("::").map(str::to_owned).collect()
    }

    /// The circles of `wan` with these imports, each as `from to`.
    fn circles(imports: &[(&str, &str)]) -> Vec<String> {
        let modules =
            ["wan", "wan::link", "wan::rate", "wan::rate::fit", "wan::loss", "units"].map(path);
        let modules = BTreeSet::from(modules);
        let mut neighbours = Neighbours::default();
        for (from, to) in imports {
            neighbours.add("core", &path(from), &path(to), &modules);
        }
        neighbours.circles().into_iter().collect()
    }

    #[test]
    fn finds_a_circle_however_long_and_however_deep_its_ends() {
        assert_eq!(
            circles(&[("wan::link", "wan::rate::Rate"), ("wan::rate::fit", "wan::link::Link")]),
            ["core/wan: link rate"]
        );
        assert_eq!(
            circles(&[
                ("wan::link", "wan::rate"),
                ("wan::rate", "wan::loss"),
                ("wan::loss", "wan::link")
            ]),
            ["core/wan: link loss rate"]
        );
    }

    #[test]
    fn parents_types_of_parents_and_other_rooms_make_no_circle() {
        assert_eq!(
            circles(&[
                ("wan", "wan::link::Link"),
                ("wan::link", "wan::Shape"),
                ("wan::link", "wan::rate::Rate"),
                ("wan::rate", "wan::rate::fit"),
                ("wan::rate::fit", "wan::rate::Rate"),
                ("wan::rate", "units::Time"),
                ("units", "wan::rate"),
            ]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_new_circle_and_a_stale_exemption_are_violations() {
        let circles = BTreeSet::from(["core/wan: link rate".to_owned()]);
        assert_eq!(compare(&circles, &["core/wan: link rate"]), Vec::<String>::new());
        assert_eq!(compare(&circles, &[]).len(), 1);
        assert_eq!(compare(&BTreeSet::new(), &["core/wan: link rate"]).len(), 1);
    }
}
