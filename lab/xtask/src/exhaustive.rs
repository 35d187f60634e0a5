//! What of the library may grow: a public enum, and a public struct with public fields, is
//! `#[non_exhaustive]`, so that a new variant or field breaks no program.

use crate::house::{is_test, read_sources};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Rooms that programs reach.
const LIBRARY: &str = "edge/src/";
/// Rooms of it that they do not.
const PRIVATE: [&str; 3] = ["edge/src/sys", "edge/src/mover", "edge/src/reexec"];

/// Types that programs make or match as they are: closed ones, those that whoever writes a driver
/// returns, documents that are asked with. This list only shrinks.
const EXHAUSTIVE: &[&str] = &[
    "Agreed",
    "Arrival",
    "BookingTerms",
    "BytesSource",
    "CalendarRights",
    "CalendarRole",
    "ChangeDocument",
    "CloseDocument",
    "ConnectionSample",
    "CopyEnd",
    "DeviceCircuit",
    "DriverOption",
    "FlowState",
    "HardwareAddress",
    "InterfaceSettings",
    "LegDocument",
    "LinkDocument",
    "Listing",
    "NetworkCircuit",
    "NetworkOrder",
    "NewToken",
    "Opened",
    "Part",
    "Permissions",
    "ProbePath",
    "ProblemDocument",
    "Refused",
    "ReservationDocument",
    "ReservationsDocument",
    "ReserveDocument",
    "Role",
    "SearchDocument",
    "Side",
    "SiteDocument",
    "StateDocument",
    "TopologyDocument",
    "Tunnelled",
    "WalkProblem",
    "WindowDocument",
    "YieldedPart",
];

/// Every type of the library at `root` that may not grow, and everything on the list that may.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    read_sources(root, &root.join(LIBRARY), &mut files)?;
    let is_public = |path: &str| {
        // What stands in for a part that a build lacks has the part's names.
        let stands_in = path.rsplit('/').next().is_some_and(|name| name.starts_with("no_"));
        !is_test(path) && !stands_in && !PRIVATE.iter().any(|room| path.starts_with(room))
    };
    let files = files.iter().filter(|(path, _)| is_public(path));
    let found = files.flat_map(|(path, text)| {
        closed(text).into_iter().map(move |(name, line)| (name, format!("{path}:{line}")))
    });
    Ok(compare(&found.collect(), EXHAUSTIVE))
}

/// What `found` has beyond `known`, and what of `known` it lacks; names with their places.
fn compare(found: &BTreeMap<String, String>, known: &[&str]) -> Vec<String> {
    let new = found.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    let new = new.map(|(name, place)| {
        format!("{place}: `{name}` may not grow: #[non_exhaustive], and a way to make one")
    });
    let names: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    let gone = known.iter().filter(|name| !names.contains(*name));
    let gone = gone.map(|name| {
        format!("`{name}` may grow, or is not there; take it out of lab/xtask/src/exhaustive.rs")
    });
    new.chain(gone).collect()
}

/// Public enums, and public structs with public fields, that stand at the root of a file without
/// `#[non_exhaustive]`, each with its line.
fn closed(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let head = ["pub struct ", "pub enum "].iter().find_map(|head| line.strip_prefix(head));
        let Some(rest) = head else { continue };
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
        let above = lines[..at].iter().rev();
        let mut above = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
        if above.any(|line| line.contains("non_exhaustive")) {
            continue;
        }
        let mut body = lines[at + 1..].iter().take_while(|line| !line.starts_with('}'));
        let has_body = line.trim_end().ends_with('{');
        let has_field = has_body && body.any(|line| line.starts_with("    pub "));
        if line.starts_with("pub enum") || has_field || rest.contains("(pub ") {
            found.push((name, at + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_would_break_a_program_when_it_grows() {
        let text = "/// A.\npub struct Open {\n    pub a: u8,\n}\npub struct Shut {\n    a: u8,\n}\n\
            #[non_exhaustive]\n/// B.\npub enum May {\n}\npub enum MayNot {\n}\n\
            pub struct Wrapper(pub u8);\npub struct Own(u8);\npub(crate) enum Inner {}\n";
        let names: Vec<String> = closed(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["Open", "MayNot", "Wrapper"]);
    }

    #[test]
    fn a_new_closed_type_and_a_stale_exemption_are_named() {
        let found = BTreeMap::from([("Open".to_owned(), "a.rs:2".to_owned())]);
        assert_eq!(compare(&found, &["Open"]), Vec::<String>::new());
        assert!(compare(&found, &[])[0].starts_with("a.rs:2: `Open`"));
        assert_eq!(compare(&BTreeMap::new(), &["Open"]).len(), 1);
    }
}
