//! Gives a file that landed at a server the time of its source, by which a later copy knows it.

use super::control::Control;
use super::copy::Copy;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, Pathname, Timestamp};

/// Has the server of `control` give the file at `target` the time `modified_ns`; notes where it
/// does not, and returns whether it did.
pub(super) async fn set_time(
    copy: &mut Copy<'_>,
    control: &mut Control,
    target: &[u8],
    modified_ns: i64,
) -> bool {
    let time = Timestamp::from_seconds(modified_ns.div_euclid(1_000_000_000));
    let features = control.features();
    let set = match (features.mfmt, features.mdtm) {
        (true, _) => Some(Command::SetModified(time, Pathname::new(target))),
        // As vsftpd has it (`mdtm_write`); to others that is the name of a file which is not there.
        (false, true) => {
            let before = format!("{time} ");
            Some(Command::ModifiedTime(Pathname::new([before.as_bytes(), target].concat())))
        }
        (false, false) => None,
    };
    if let Some(set) = set {
        let set = control.try_request(Request::Exec(set));
        if control.done(set).await.is_ok() {
            return true;
        }
    }
    copy.stats.note("the server does not set times: a copy's is when it came".to_owned());
    false
}
