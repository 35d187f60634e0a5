//! Flags of the command line in the library's words: a message names a setting by `units::Setting`,
//! which the command puts into its flag.

use crate::house::{is_test, module_path, read_sources};
use crate::source::Facts;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// Files of the library that still name flags, and how often. This list only shrinks.
const NAMED: &[(&str, usize)] = &[
    ("edge/src/booking/mod.rs", 2),
    ("edge/src/calendar/client.rs", 3),
    ("edge/src/calendar/config.rs", 1),
    ("edge/src/channels/offers.rs", 1),
    ("edge/src/channels/quic/mod.rs", 2),
    ("edge/src/channels/rdma/connect.rs", 1),
    ("edge/src/channels/rdma/exchange.rs", 3),
    ("edge/src/channels/rdma/fabric.rs", 3),
    ("edge/src/channels/rdma/progress.rs", 1),
    ("edge/src/channels/socket.rs", 2),
    ("edge/src/channels/trust/by_rustls.rs", 5),
    ("edge/src/channels/udt/driver.rs", 1),
    ("edge/src/circuit/command.rs", 1),
    ("edge/src/circuit/linux/base.rs", 2),
    ("edge/src/circuit/linux/mod.rs", 5),
    ("edge/src/client/ssh.rs", 3),
    ("edge/src/database/sqlite.rs", 1),
    ("edge/src/kernelcc/claims.rs", 1),
    ("edge/src/kernelcc/load.rs", 2),
    ("edge/src/line/carrier.rs", 2),
    ("edge/src/line/peer_protocol.rs", 3),
    ("edge/src/line/role.rs", 1),
    ("edge/src/line/sender.rs", 1),
    ("edge/src/line/stamp_test.rs", 4),
    ("edge/src/link/emulator.rs", 5),
    ("edge/src/link/place.rs", 1),
    ("edge/src/link/settings.rs", 1),
    ("edge/src/link/vlan.rs", 1),
    ("edge/src/node/accounts.rs", 1),
    ("edge/src/node/bounce.rs", 1),
    ("edge/src/node/config.rs", 4),
    ("edge/src/node/data.rs", 1),
    ("edge/src/node/held.rs", 1),
    ("edge/src/node/line.rs", 1),
    ("edge/src/node/mod.rs", 2),
    ("edge/src/node/profile.rs", 2),
    ("edge/src/node/sandbox.rs", 1),
    ("edge/src/plan/document.rs", 1),
    ("edge/src/prober/staged.rs", 2),
    ("edge/src/prober/verbs/device.rs", 2),
    ("edge/src/prober/verbs/wire.rs", 1),
    ("edge/src/stores/files.rs", 1),
    ("edge/src/stores/mod.rs", 2),
    ("edge/src/sys/verbs/library.rs", 1),
];

/// Every file of the library at `root` that names more flags than it may, or fewer than the list
/// says.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    read_sources(root, &root.join("edge/src"), &mut files)?;
    let counts = files.iter().filter(|(path, _)| !is_test(path)).filter_map(|(path, text)| {
        // What is no Rust is reported by the house's own check.
        let facts = Facts::read(text, &module_path(path), false).ok()?;
        Some((path.as_str(), facts.named_flags))
    });
    Ok(compare(&counts.collect(), NAMED))
}

/// What `counts` has beyond `known`, and what of `known` it has no more.
fn compare(counts: &BTreeMap<&str, usize>, known: &[(&str, usize)]) -> Vec<String> {
    let may = |path: &str| known.iter().find(|(file, _)| *file == path).map_or(0, |(_, n)| *n);
    let more = counts.iter().filter(|&(path, count)| *count > may(path)).map(|(path, count)| {
        let may = may(path);
        format!(
            "{path}: names {count} flags of the command line, at most {may}: units::Setting names \
             settings of the library"
        )
    });
    let has = |path: &str| counts.get(path).copied().unwrap_or_default();
    let fewer = known.iter().filter(|(path, count)| has(path) < *count).map(|(path, count)| {
        let has = has(path);
        format!("{path}: names {has} flags, not {count}; say so in lab/xtask/src/flags.rs")
    });
    more.chain(fewer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_as_many_flags_as_the_list_has_and_no_more() {
        let counts = BTreeMap::from([("a.rs", 2), ("b.rs", 0), ("c.rs", 1)]);
        assert_eq!(compare(&counts, &[("a.rs", 2), ("c.rs", 1)]), Vec::<String>::new());
        let found = compare(&counts, &[("a.rs", 1), ("b.rs", 3), ("c.rs", 1), ("gone.rs", 1)]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a.rs: names 2") && found[1].starts_with("b.rs: names 0"));
    }
}
