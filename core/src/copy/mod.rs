//! A copy of one tree between this end and a Farline node, as a machine: passes, retries, resume,
//! and what was agreed with the peer.
//!
//! [`CopySession`] says what to ask of the peer and when, what to move, when another pass is worth
//! making, whose fault an end is, and in which order things close. The edge executes its outputs.
//! Time is an argument.

mod agreement;
mod blame;
mod by_file;
#[cfg(test)]
mod by_file_tests;
mod existing;
mod held_rate;
mod idle_timeout;
mod paired;
mod passes;
mod requests;
mod retry;
#[cfg(test)]
mod scenario;
mod session;
#[cfg(test)]
mod tests;
mod third_party;
#[cfg(test)]
mod third_party_tests;
mod told_path;

pub use agreement::{Agreement, CopyOptions, Integrity, SenderControl, source_of};
pub use blame::{Blame, of_two_servers};
pub use by_file::{FileByFile, FileEvent, FileOutput, FileRules, PriorLanding, is_of_one_place};
pub use existing::{CopyReason, Existing};
pub use held_rate::HeldRate;
pub use idle_timeout::IdleTimeout;
pub use paired::{DataEnd, PairedState, PairedTransfer};
pub use passes::Passes;
pub use requests::{
    MOST_HELD_RANGES, NamedHeld, TREE_MODULE, farline_option, leave, nameable, only, parallelism,
    parse_paths, tree_part,
};
pub use retry::{FailedAttempt, RETRY_FOR, RetryBackoff};
pub use session::{
    CopyRole, CopySession, CopySummary, Event, OpenedChannels, Output, RequestId, TreePart,
};
pub use third_party::{ThirdPartyEvent, ThirdPartyOutput, ThirdPartySession, ThirdPartyTree};
pub use told_path::{NodePaths, SeenPath};
