//! When a MODE E transfer is complete: the EODs received against the count that the EOF block
//! announced.

use super::mode_e::{Flags, Header};
use crate::units::{Error, ErrorCode, Fault};
use std::collections::BTreeSet;

/// The receiver's account of one MODE E transfer's end.
///
/// GFD.20 section 4.1: channels end one by one with an EOD; one of them also carries the EOF block,
/// whose offset field is the number of EODs of the whole transfer. The transfer is complete when
/// that many EODs came, never when the open channels fall quiet, for a channel of this transfer may
/// not have connected yet.
///
/// Channels that stay open serve the next transfer: give that one a fresh `EndOfData`.
///
/// ```
/// use farline_core::gridftp::{EndOfData, mode_e::{Flags, Header}};
///
/// let mut end = EndOfData::new();
/// end.block(0, &Header::eod())?;
/// assert!(!end.is_complete(), "how many EODs there will be is not known yet");
/// end.block(1, &Header::eof(2).with(Flags::EOD))?;
/// assert!(end.is_complete());
/// # Ok::<(), farline_core::units::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EndOfData {
    /// The EOF block's count.
    expected: Option<u64>,
    /// Channels whose EOD came.
    ended: BTreeSet<u64>,
}

impl EndOfData {
    /// Nothing received.
    pub fn new() -> EndOfData {
        EndOfData::default()
    }

    /// Takes the header of a block that came on `channel`, a number the caller gives each channel.
    ///
    /// # Errors
    /// With [`Fault::There`] when the sender breaks the protocol: a block or a second EOD after a
    /// channel's EOD, two EOF blocks that disagree, an EOF that announces no EOD, more EODs than
    /// announced.
    pub fn block(&mut self, channel: u64, header: &Header) -> Result<(), Error> {
        if self.ended.contains(&channel) {
            // GCT sends a bare CLOSE when it drops a cached channel: that belongs to no transfer.
            let bare_close = header.count == 0 && header.flags == Flags::CLOSE;
            return if bare_close {
                Ok(())
            } else {
                Err(broken(format!("a block on channel {channel} after its EOD")))
            };
        }
        if header.flags.contains(Flags::EOF) {
            if header.offset == 0 {
                return Err(broken("an EOF block that announces no EOD".to_owned()));
            }
            if let Some(before) = self.expected.filter(|&before| before != header.offset) {
                return Err(broken(format!(
                    "two EOF blocks, for {before} and {} EODs",
                    header.offset
                )));
            }
            self.expected = Some(header.offset);
        }
        if header.flags.contains(Flags::EOD) {
            self.ended.insert(channel);
        }
        match self.expected {
            Some(expected) if self.eods() > expected => {
                Err(broken(format!("{} EODs where EOF announced {expected}", self.eods())))
            }
            _ => Ok(()),
        }
    }

    /// Takes the end of `channel`'s connection.
    ///
    /// # Errors
    /// With [`Fault::Between`] when the channel had not sent its EOD and carried a part of this
    /// transfer (`used`): what was sent on it after its last whole block is lost.
    pub fn disconnected(&mut self, channel: u64, used: bool) -> Result<(), Error> {
        if self.ended.contains(&channel) || !used {
            return Ok(());
        }
        Err(Error::new(
            Fault::Between,
            ErrorCode::DataConnection,
            format!("data channel {channel} closed before its EOD"),
        ))
    }

    /// Whether `channel` has ended in this transfer.
    pub fn has_ended(&self, channel: u64) -> bool {
        self.ended.contains(&channel)
    }

    /// EODs received.
    pub fn eods(&self) -> u64 {
        self.ended.len() as u64
    }

    /// EODs the sender announced, once the EOF block came.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Whether every announced EOD came: no more data will.
    pub fn is_complete(&self) -> bool {
        self.expected == Some(self.eods())
    }
}

fn broken(what: String) -> Error {
    Error::new(Fault::There, ErrorCode::ModeEBroken, format!("the sender broke MODE E: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(end: &mut EndOfData, channel: u64, header: Header) -> Result<(), String> {
        end.block(channel, &header).map_err(|error| error.message)
    }

    #[test]
    fn a_late_channel_keeps_the_transfer_open() {
        let mut end = EndOfData::new();
        assert_eq!(take(&mut end, 0, Header::data(0, 5)), Ok(()));
        assert_eq!(take(&mut end, 0, Header::eof(3).with(Flags::EOD)), Ok(()));
        assert_eq!(take(&mut end, 1, Header::close()), Ok(()));
        assert!(!end.is_complete());
        assert_eq!(take(&mut end, 2, Header::data(5, 5)), Ok(()));
        assert_eq!(
            take(&mut end, 2, Header::data(0, 0)),
            Ok(()),
            "blocks without payload are tolerated"
        );
        assert_eq!(take(&mut end, 2, Header::eod()), Ok(()));
        assert!(end.is_complete());
        assert_eq!(take(&mut end, 2, Header { flags: Flags::CLOSE, count: 0, offset: 0 }), Ok(()));
    }

    #[test]
    fn broken_endings_are_the_senders_fault() {
        let mut end = EndOfData::new();
        assert!(take(&mut end, 0, Header::eof(0)).is_err());
        assert_eq!(take(&mut end, 0, Header::eof(2)), Ok(()));
        assert!(
            take(&mut end, 1, Header::eof(3))
                .is_err_and(|e| e.contains("two EOF blocks, for 2 and 3 EODs"))
        );
        assert_eq!(take(&mut end, 0, Header::eod()), Ok(()));
        assert!(take(&mut end, 0, Header::eod()).is_err_and(|e| e.contains("after its EOD")));
        assert!(take(&mut end, 0, Header::data(9, 9)).is_err());
        assert_eq!(take(&mut end, 1, Header::eod()), Ok(()));
        assert!(
            take(&mut end, 2, Header::eod())
                .is_err_and(|e| e.contains("3 EODs where EOF announced 2"))
        );
    }

    #[test]
    fn a_connection_lost_before_its_eod_fails_the_transfer() {
        let mut end = EndOfData::new();
        assert_eq!(take(&mut end, 0, Header::data(0, 5)), Ok(()));
        assert_eq!(end.disconnected(0, true).map_err(|e| e.fault), Err(Fault::Between));
        assert!(end.disconnected(1, false).is_ok(), "an idle cached channel may go");
    }
}
