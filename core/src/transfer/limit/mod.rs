//! What held a transfer back, who can change that, and what was measured that says so.
//!
//! Every moment of a transfer's channels goes to one account ([`Waits`]): set-up, the rate that was
//! asked for, the store, the processor, the socket buffers, or the congestion window, and there to
//! its first growth, to losses, or to a path that is full ([`PathMonitor`]). The largest account
//! names the limit. Each end keeps its own; [`Diagnosis::joined`] makes one of the two.

mod between;
mod monitor;
mod recent;
mod waits;

use serde::{Deserialize, Serialize};

pub use monitor::{PathMonitor, PathTimes};
pub use recent::RecentWaits;
pub use waits::{StageTime, StageTimes, StoreMedium, Waits};

/// What limited a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// A processor of this host: its threads hardly waited.
    Cpu,
    /// Reading the source.
    DiskRead,
    /// Writing the destination.
    DiskWrite,
    /// The network, and nothing is known of how.
    Network,
    /// The receiver's window: its buffer limits or its reading.
    ReceiverWindow,
    /// The sender's socket buffers.
    SendBuffer,
    /// Set-up: connections and round trips, not moving bytes.
    SetUp,
    /// A processor of the other end's host.
    Peer,
    /// The rate that was asked for, by the user or by a node's operator.
    RateLimit,
    /// A program that feeds the source.
    PipeRead,
    /// A program that takes what comes.
    PipeWrite,
    /// The congestion window grew until the end: there was too little to send for this path.
    SlowStart,
    /// The congestion window after losses, while the path had room.
    Loss,
    /// The path is full: its slowest link is in use, by this transfer or by others.
    PathRate,
    /// Nothing got through, or the other end was not there: an outage of the path, or a node that
    /// was down or full.
    Outage,
}

impl Limit {
    /// All.
    pub const ALL: [Limit; 15] = [
        Limit::Cpu,
        Limit::DiskRead,
        Limit::DiskWrite,
        Limit::Network,
        Limit::ReceiverWindow,
        Limit::SendBuffer,
        Limit::SetUp,
        Limit::Peer,
        Limit::RateLimit,
        Limit::PipeRead,
        Limit::PipeWrite,
        Limit::SlowStart,
        Limit::Loss,
        Limit::PathRate,
        Limit::Outage,
    ];

    /// The name that documents and the wire have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Cpu => "cpu",
            Limit::DiskRead => "disk_read",
            Limit::DiskWrite => "disk_write",
            Limit::Network => "network",
            Limit::ReceiverWindow => "receiver_window",
            Limit::SendBuffer => "send_buffer",
            Limit::SetUp => "set_up",
            Limit::Peer => "peer",
            Limit::RateLimit => "rate_limit",
            Limit::PipeRead => "pipe_read",
            Limit::PipeWrite => "pipe_write",
            Limit::SlowStart => "slow_start",
            Limit::Loss => "loss",
            Limit::PathRate => "path_rate",
            Limit::Outage => "outage",
        }
    }

    /// What has this name; `None` for a name from a later version.
    pub fn named(name: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// In words, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Limit::Cpu => "this host's processor",
            Limit::DiskRead => "reading the source",
            Limit::DiskWrite => "writing the destination",
            Limit::Network => "the network or the other end, which does not say",
            Limit::ReceiverWindow => "the receiver's window",
            Limit::SendBuffer => "the sender's socket buffers",
            Limit::SetUp => "set-up: connections and round trips",
            Limit::Peer => "the other end's processor",
            Limit::RateLimit => "the rate that was set",
            Limit::PipeRead => "the program that feeds standard input",
            Limit::PipeWrite => "the program that takes standard output",
            Limit::SlowStart => "slow start: a copy too short for the path's rate",
            Limit::Loss => "losses on the path, which keep the congestion window small",
            Limit::PathRate => "the path's rate, which is full",
            Limit::Outage => "an outage, in which nothing got through",
        }
    }
}

/// Who can change what limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Party {
    /// Who gave the command.
    You,
    /// This host.
    Here,
    /// The other host.
    There,
    /// The network between the two.
    Path,
}

/// What limited a transfer, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// What.
    pub limit: Limit,
    /// Who can change it.
    pub party: Party,
    /// What was measured, in words.
    pub evidence: String,
}

impl Diagnosis {
    /// Nothing is known: no bytes moved, or not over this host.
    pub fn unknown() -> Diagnosis {
        Diagnosis { limit: Limit::Network, party: Party::Path, evidence: String::new() }
    }

    /// Reads what the other end says of itself: a name, and what it measured. `is_sender` says
    /// whether that end sends. `None` for what this version does not know.
    pub fn of_peer(name: &str, evidence: &str, is_sender: bool) -> Option<Diagnosis> {
        let limit = match Limit::named(name)? {
            Limit::Cpu => Limit::Peer,
            // Its other end is this one.
            Limit::Peer => Limit::Cpu,
            limit => limit,
        };
        let party = match limit {
            Limit::RateLimit => Party::You,
            Limit::ReceiverWindow if is_sender => Party::Here,
            Limit::Cpu => Party::Here,
            Limit::SlowStart
            | Limit::Loss
            | Limit::PathRate
            | Limit::Network
            | Limit::SetUp
            | Limit::Outage => Party::Path,
            _ => Party::There,
        };
        Some(Diagnosis { limit, party, evidence: evidence.to_owned() })
    }

    /// What held a transfer back by both ends' word. Who waited for its own host, or moved what it
    /// was asked to, knows best; who waited for the network believes the other end; and of the
    /// network the sender knows more. A receiver that is busy itself does not wait for the sender's
    /// buffers, whatever these look like.
    #[must_use]
    pub fn joined(self, there: Option<Diagnosis>, is_sender: bool) -> Diagnosis {
        match there {
            Some(there) if self.believes(&there, is_sender) => there,
            _ => self,
        }
    }

    /// Whether an end that says this takes the other end's word instead.
    fn believes(&self, there: &Diagnosis, is_sender: bool) -> bool {
        let waited = match self.limit {
            Limit::Network | Limit::ReceiverWindow | Limit::Peer => true,
            Limit::SlowStart | Limit::Loss | Limit::PathRate => is_sender,
            Limit::SendBuffer => {
                matches!(there.limit, Limit::Peer | Limit::DiskWrite | Limit::PipeWrite)
            }
            _ => false,
        };
        let knows = match there.limit {
            Limit::Peer | Limit::DiskRead | Limit::DiskWrite | Limit::RateLimit => true,
            Limit::Network => false,
            // A receiver guesses at these.
            Limit::SlowStart | Limit::Loss | Limit::PathRate => !is_sender,
            _ => true,
        };
        waited && knows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(limit: Limit) -> Diagnosis {
        Diagnosis { limit, party: Party::Here, evidence: "measured here".to_owned() }
    }

    #[test]
    fn only_who_waits_for_the_network_takes_the_peers_word() {
        for (mine, is_sender, peer, expected) in [
            (Limit::ReceiverWindow, true, "disk_write", Limit::DiskWrite),
            (Limit::PathRate, true, "cpu", Limit::Peer),
            (Limit::PathRate, true, "network", Limit::PathRate),
            (Limit::Loss, true, "path_rate", Limit::Loss),
            (Limit::Network, false, "loss", Limit::Loss),
            (Limit::Network, false, "rate_limit", Limit::RateLimit),
            (Limit::Network, true, "something_new", Limit::Network),
            (Limit::DiskRead, true, "cpu", Limit::DiskRead),
            (Limit::SendBuffer, true, "cpu", Limit::Peer),
            (Limit::SendBuffer, true, "path_rate", Limit::SendBuffer),
            (Limit::DiskWrite, false, "receiver_window", Limit::DiskWrite),
            (Limit::Network, false, "receiver_window", Limit::ReceiverWindow),
            (Limit::Network, false, "peer", Limit::Cpu),
            (Limit::DiskWrite, false, "peer", Limit::DiskWrite),
            (Limit::Peer, true, "disk_write", Limit::DiskWrite),
            (Limit::Peer, true, "network", Limit::Peer),
        ] {
            let there = Diagnosis::of_peer(peer, "measured there", !is_sender);
            let joined = own(mine).joined(there, is_sender);
            assert_eq!(joined.limit, expected, "{mine:?} with {peer}");
        }
    }

    #[test]
    fn what_a_copy_is_limited_by_is_not_called_a_limit() {
        for limit in Limit::ALL {
            assert!(!limit.words().contains("limit"), "limited by {}", limit.words());
        }
    }

    #[test]
    fn a_senders_complaint_of_the_window_is_about_this_end() {
        let said = |is_sender| Diagnosis::of_peer("receiver_window", "", is_sender);
        assert_eq!(said(true).map(|said| said.party), Some(Party::Here));
        assert_eq!(said(false).map(|said| said.party), Some(Party::There));
        let busy = Diagnosis::of_peer("peer", "", true);
        assert_eq!(busy.map(|said| said.party), Some(Party::Here), "its other end is this one");
    }

    #[test]
    fn the_name_is_what_documents_say() {
        for limit in Limit::ALL {
            assert_eq!(serde_json::to_value(limit).expect("JSON"), limit.name());
            assert_eq!(Limit::named(limit.name()), Some(limit));
        }
    }
}
