//! The whole host, judged for a path.

use super::network::{interface, tcp};
use super::{Finding, HostFacts, PathFacts};
use crate::units::{Bytes, Span};

/// What one transfer stages at least at each end on a long path (`transfer::Choice`).
const STAGING: Bytes = Bytes::mib(64);
/// A clock that may be off by more than this spoils one-way delays and reservations.
const CLOCK_ERROR: Span = Span::from_millis(100);

/// Judges `facts` for `path`. The order is that of a transfer: network first, then this host, then
/// its disk.
pub fn judge(facts: &HostFacts, path: &PathFacts) -> Vec<Finding> {
    let mut found = vec![product(path)];
    found.extend(tcp(facts, path));
    found.extend(facts.interfaces.iter().flat_map(|one| interface(one, facts)));
    found.push(processors(facts));
    found.extend(governor(facts));
    found.extend(memlock(facts));
    found.extend(clock(facts));
    found.extend(disk(facts, path));
    found
}

fn product(path: &PathFacts) -> Finding {
    let rtt = if path.measured { "measured" } else { "assumed" };
    let rate = if path.rate_known { "the interface's" } else { "assumed" };
    Finding::good(
        "path",
        format!(
            "an rtt of {} ({rtt}) at {} ({rate}) holds {} on its way",
            path.rtt,
            path.rate,
            path.product()
        ),
    )
}

fn processors(facts: &HostFacts) -> Finding {
    match facts.processors {
        0 | 1 => {
            Finding::advice("processors", "one processor must read, digest, send and write in turn")
        }
        n => Finding::good("processors", format!("{n} processors")),
    }
}

fn governor(facts: &HostFacts) -> Option<Finding> {
    let slow: Vec<&str> =
        facts.governors.iter().map(String::as_str).filter(|name| *name != "performance").collect();
    if facts.governors.is_empty() {
        return None;
    }
    Some(if slow.is_empty() {
        Finding::good("governor", "the processors' governor is performance")
    } else {
        let words = format!(
            "the processors' governor is {}: they slow down between bursts of packets",
            slow.join(", ")
        );
        Finding::advice("governor", words).mend("cpupower frequency-set -g performance")
    })
}

fn memlock(facts: &HostFacts) -> Option<Finding> {
    let most = facts.memlock?;
    Some(if most < STAGING {
        let words = format!(
            "this user may lock {most} of memory, less than the {STAGING} of a staging pool: RDMA \
             needs it locked"
        );
        Finding::advice("memlock", words).mend(
            "echo '* - memlock unlimited' > /etc/security/limits.d/90-farline.conf  # holds \
                from the next login",
        )
    } else {
        Finding::good("memlock", format!("this user may lock {most} of memory"))
    })
}

fn clock(facts: &HostFacts) -> Option<Finding> {
    let clock = facts.clock?;
    let mend = "systemctl enable --now chronyd || timedatectl set-ntp true";
    Some(if !clock.synchronised {
        Finding::advice(
            "clock",
            "nothing disciplines the clock: one-way delays and reserved times will be wrong",
        )
        .mend(mend)
    } else if clock.error > CLOCK_ERROR {
        Finding::advice("clock", format!("the clock may be off by {}", clock.error)).mend(mend)
    } else {
        Finding::good("clock", format!("the clock is disciplined, within {}", clock.error))
    })
}

fn disk(facts: &HostFacts, path: &PathFacts) -> Option<Finding> {
    let disk = facts.disk.as_ref()?;
    let how = if disk.direct { "past the page cache" } else { "through the page cache" };
    let words = format!(
        "{} writes {} and reads {} in one stream, {how}",
        disk.path, disk.write.rate, disk.read.rate
    );
    Some(if disk.write.rate < path.rate || disk.read.rate < path.rate {
        Finding::advice(
            "disk",
            format!("{words}: less than the path's {}, so the disk will set the pace", path.rate),
        )
    } else {
        Finding::good("disk", words)
    })
}
