//! `limited_by`: what holds a copy back on purpose is what it names. The whole matrix, with its
//! figures, is `cargo xtask bench causes`.

use farline_lab::alone;
use farline_lab::causes::{Cause, causes, run};

/// On a machine that others use a copy may be held back by more than one thing: each cause has as
/// many copies.
const TRIES: u64 = 3;

/// How many copies over links run next to each other, which rest most of their time.
const LANES: usize = 2;

#[test]
fn a_copy_names_what_was_made_to_hold_it_back() {
    alone();
    // Where a copy runs makes its own difference to who is asked: of loopback and of two nodes the
    // cheapest of each party will do here.
    let is_chosen = |cause: &Cause| match cause.place() {
        "link" => true,
        "loopback" => cause.is_pinned() || cause.limit == "disk_read",
        _ => ["disk_read", "receiver_window", "set_up"].contains(&cause.limit),
    };
    // Of outages the strongest is the longest.
    let strength = |cause: &Cause| if cause.limit == "outage" { 0 } else { 2 };
    let is_strong = |cause: &Cause| cause.strength == strength(cause);
    let strong = causes().into_iter().filter(|cause| is_strong(cause) && is_chosen(cause));
    // Of this host's processors each has one thing to do.
    let (links, processors): (Vec<Cause>, Vec<Cause>) =
        strong.partition(|cause| !cause.link.is_empty());
    let (first, links) = links.split_first().expect("causes");
    if !is_named(first) {
        return;
    }
    // One may last ten times as long as another.
    farline_lab::on_threads(LANES, links, |cause| assert!(is_named(cause), "a link a moment ago"));
    processors.iter().for_each(|cause| assert!(is_named(cause)));
}

/// Brings `cause` about until a copy names it; false where this machine makes no links.
///
/// # Panics
/// When no copy does.
fn is_named(cause: &Cause) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seen = Vec::new();
    for seed in 1..=TRIES {
        let Some(said) = run(cause, seed, folder.path()) else { return false };
        let is_named = (&*said.limit, &*said.party) == (cause.limit, cause.party);
        seen.push(said);
        if is_named {
            break;
        }
    }
    let last = seen.last().expect("one copy");
    assert_eq!((&*last.limit, &*last.party), (cause.limit, cause.party), "{cause:?}: {seen:?}");
    assert!(!last.evidence.is_empty(), "{cause:?}");
    assert_names_nodes(cause, &last.evidence);
    true
}

/// That the evidence names the node that it is of two, and the other one only where that has a part
/// in it.
fn assert_names_nodes(cause: &Cause, evidence: &str) {
    let expected = match (cause.place(), cause.limit) {
        ("link, two nodes", "disk_read") => [true, false],
        ("link, two nodes", "disk_write") => [false, true],
        ("link, two nodes", "receiver_window" | "set_up") => [true, true],
        _ => return,
    };
    let named =
        [("sending node ", "-a:2812"), ("receiving node ", "-b:2811")].map(|(role, end)| {
            let name = evidence.split(role).nth(1).and_then(|rest| rest.split([',', ' ']).next());
            name.is_some_and(|name| name.trim_end_matches(':').ends_with(end))
        });
    assert_eq!(named, expected, "{cause:?}: {evidence}");
}
