//! What held back a copy between two other hosts, by what each of the two says of itself.

use super::{Diagnosis, Limit, Party};

impl Diagnosis {
    /// What held back a copy between two other hosts with these `names`, the sender first, of which
    /// each `said` the name of a limit and what it measured, or nothing. The evidence names the one
    /// that it is about, and who says so where that is the other.
    pub fn between(names: [&str; 2], said: [Option<(&str, &str)>; 2]) -> Diagnosis {
        let [sender, receiver] = said;
        let own = sender.and_then(|(name, evidence)| {
            let limit = Limit::named(name)?;
            Some(Diagnosis { limit, party: Party::Here, evidence: evidence.to_owned() })
        });
        let there = receiver.and_then(|(name, evidence)| Diagnosis::of_peer(name, evidence, false));
        let is_silent = own.is_none();
        let own = own.unwrap_or_else(Diagnosis::unknown);
        // Here stands for the sender from now on.
        let (said, by_sender) = match there {
            Some(there) if own.believes(&there, true) => (there, false),
            _ if is_silent => return Diagnosis::unknown(),
            _ => (own, true),
        };
        let of_sender = match said.limit {
            Limit::Cpu | Limit::DiskRead | Limit::PipeRead | Limit::SendBuffer => Some(true),
            Limit::Peer | Limit::DiskWrite | Limit::PipeWrite | Limit::ReceiverWindow => {
                Some(false)
            }
            Limit::RateLimit => Some(by_sender),
            // Of what is between the two one tells.
            Limit::Network
            | Limit::SetUp
            | Limit::SlowStart
            | Limit::Loss
            | Limit::PathRate
            | Limit::Outage => None,
        };
        let limit = if said.limit == Limit::Cpu { Limit::Peer } else { said.limit };
        let party = match of_sender {
            _ if limit == Limit::RateLimit => Party::You,
            Some(_) => Party::There,
            None => Party::Path,
        };
        let [sender, receiver] = names;
        let node = |is_sender: bool| match is_sender {
            true => format!("the sending node {sender}"),
            false => format!("the receiving node {receiver}"),
        };
        let at = of_sender.unwrap_or(by_sender);
        let by = match at == by_sender {
            true => String::new(),
            false => format!(", as {} says", node(by_sender)),
        };
        let measured = match &said.evidence[..] {
            "" => String::new(),
            evidence => format!(": {evidence}"),
        };
        Diagnosis { limit, party, evidence: format!("at {}{by}{measured}", node(at)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a copy from A to B, and of one from B to A.
    fn said(sender: Option<&str>, receiver: Option<&str>) -> [(Limit, Party, String); 2] {
        let words = [sender, receiver].map(|name| name.map(|name| (name, "90 %")));
        [["A", "B"], ["B", "A"]].map(|names| {
            let Diagnosis { limit, party, evidence } = Diagnosis::between(names, words);
            (limit, party, evidence)
        })
    }

    #[test]
    fn the_evidence_names_which_of_the_two_it_is() {
        let (first, second) = ("at the sending node A: 90 %", "at the receiving node B: 90 %");
        let by_first = "at the receiving node B, as the sending node A says: 90 %";
        let by_second = "at the sending node A, as the receiving node B says: 90 %";
        let full = Some("path_rate");
        for (sender, receiver, limit, party, expected) in [
            (Some("disk_read"), Some("network"), Limit::DiskRead, Party::There, first),
            (Some("cpu"), Some("network"), Limit::Peer, Party::There, first),
            (Some("cpu"), Some("disk_write"), Limit::Peer, Party::There, first),
            (Some("send_buffer"), Some("network"), Limit::SendBuffer, Party::There, first),
            (Some("rate_limit"), Some("network"), Limit::RateLimit, Party::You, first),
            (full, Some("network"), Limit::PathRate, Party::Path, first),
            (Some("outage"), None, Limit::Outage, Party::Path, first),
            (Some("receiver_window"), None, Limit::ReceiverWindow, Party::There, by_first),
            (Some("peer"), Some("network"), Limit::Peer, Party::There, by_first),
            (full, Some("disk_write"), Limit::DiskWrite, Party::There, second),
            (full, Some("cpu"), Limit::Peer, Party::There, second),
            (Some("peer"), Some("cpu"), Limit::Peer, Party::There, second),
            (None, Some("rate_limit"), Limit::RateLimit, Party::You, second),
            (None, Some("peer"), Limit::Peer, Party::There, by_second),
        ] {
            let [way, back] = said(sender, receiver);
            let words = format!("{sender:?} and {receiver:?}");
            assert_eq!(way, (limit, party, expected.to_owned()), "{words}");
            let swapped = expected.replace(" A", " -").replace(" B", " A").replace(" -", " B");
            assert_eq!(back, (limit, party, swapped), "{words}, the other way");
        }
    }

    #[test]
    fn of_two_that_say_nothing_nothing_is_known() {
        for silent in [None, Some("something_new")] {
            let [way, _] = said(silent, Some("network"));
            assert_eq!(way, (Limit::Network, Party::Path, String::new()));
        }
        let measured = Diagnosis::between(["A", "B"], [Some(("disk_read", "")), None]);
        assert_eq!(measured.evidence, "at the sending node A");
    }
}
