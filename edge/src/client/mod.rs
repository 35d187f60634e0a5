//! The client: copies files and trees between this host and a GridFTP node.

mod attributes;
mod backup;
mod behind_replies;
mod by_content;
mod by_file;
mod channel_opener;
mod checksum;
mod claimed;
mod connect_options;
mod control;
mod control_stream;
mod copy;
mod copying;
mod credentials;
mod data_path;
mod deletions;
mod destination;
mod dial;
mod download;
mod early;
mod existing;
mod extraneous;
mod from_stock;
mod glob;
mod greet;
mod gss_stream;
mod held_before;
mod interrupted;
mod itself;
mod keep_replaced;
mod kept_files;
mod known_path;
mod landed_before;
#[cfg(feature = "line")]
mod line;
mod listing;
mod local;
mod location;
mod meanwhile;
mod one_name;
mod options;
mod other_names;
mod outcome;
#[cfg(feature = "profile")]
mod profile;
#[cfg(feature = "profile")]
mod profile_copy;
mod receiving;
mod remote_partial;
mod remote_progress;
mod remote_store;
mod resources;
mod retry;
mod run;
mod selection;
mod sending;
mod set_time;
mod source_set;
mod ssh;
mod sshftp;
mod stream;
mod stream_mode;
#[cfg(test)]
mod test_entries;
mod third_party;
mod to_stock;
mod transfer_state;
mod tree;
mod unheard;
mod upload;

pub use crate::mover::LiveRate;
pub use backup::Backup;
pub use connect_options::{ConnectOptions, DEFAULT_IDLE_TIMEOUT};
pub use copy::path_estimate;
pub use copying::{Client, CopyRequest, Copying};
pub use credentials::Credentials;
pub use data_path::DataPath;
pub use farline_core::copy::{CopyReason, Existing, HeldRate};
pub use greet::{DataPort, Greeting, PortState, greet, greet_and_reach_data};
#[cfg(feature = "line")]
pub use line::grant_line;
pub use location::{ControlTransport, Location, Remote};
pub use options::{
    CancelToken, Options, Progress, RetryListener, RetryNotice, StoredProfiles, Trial, Verify,
};
pub use outcome::{Failure, Outcome, ProgressSample};
#[cfg(feature = "profile")]
pub use profile::{Consent, NodeBench};
pub use remote_partial::{remove_elsewhere, stored_elsewhere};
pub use remote_store::RemoteStore;
pub use run::copy;
pub use selection::{PlannedFile, Selection};
