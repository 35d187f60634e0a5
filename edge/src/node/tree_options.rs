//! What a client says of the trees to come: what it holds, what it does not want, and how what they
//! replace is kept.

use super::data::DataPlane;
use super::list_memory::say_full;
use farline_core::copy::MOST_HELD_RANGES;
use farline_core::gridftp::Pathname;
use farline_core::transfer::{LONGEST_BLOCK, SHORTEST_BLOCK};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, percent};

impl DataPlane {
    pub(super) fn hold_there(&mut self, ranges: &str) -> Result<(), Error> {
        let ranges = ByteRanges::parse(ranges).ok_or_else(|| {
            let message = "held is a list of ranges, such as 0-29,90-120";
            Error::new(Fault::You, ErrorCode::Rejected, message)
        })?;
        if self.held_there.count() + ranges.count() > MOST_HELD_RANGES {
            let message = format!("of what is held at most {MOST_HELD_RANGES} ranges are taken");
            return Err(Error::new(Fault::You, ErrorCode::Rejected, message));
        }
        self.held_there.extend(ranges.iter());
        Ok(())
    }

    pub(super) fn keep_replaced(&mut self, value: &str) -> Result<(), Error> {
        if value == "none" {
            self.backup = None;
            return Ok(());
        }
        let decoded = |text: &str| percent::decode(text.as_bytes());
        let parts = value
            .split_once(':')
            .and_then(|(suffix, folder)| Some((decoded(suffix)?, decoded(folder)?)));
        let is_name = |suffix: &[u8]| !suffix.iter().any(|byte| matches!(byte, b'/' | 0));
        let (suffix, folder) = parts
            .filter(|(suffix, folder)| is_name(suffix) && !(suffix.is_empty() && folder.is_empty()))
            .ok_or_else(|| {
                let message = "backup is a suffix, a colon and a folder, one of which may be empty";
                Error::new(Fault::You, ErrorCode::Rejected, message)
            })?;
        let folder = (!folder.is_empty()).then(|| self.shared.home.resolve(&Pathname::new(folder)));
        self.backup = Some((suffix, folder));
        Ok(())
    }

    pub(super) fn agree_block(&mut self, value: &str) -> Result<(), Error> {
        let within = SHORTEST_BLOCK..=LONGEST_BLOCK;
        self.longest_block = match value.parse() {
            _ if value == "none" => None,
            Ok(len) if within.contains(&len) => Some(Bytes(len as u64)),
            _ => {
                let message =
                    format!("a block has {SHORTEST_BLOCK} to {LONGEST_BLOCK} bytes, or is `none`");
                return Err(Error::new(Fault::You, ErrorCode::Rejected, message));
            }
        };
        Ok(())
    }

    pub(super) fn leave(&mut self, value: &str) -> Result<(), Error> {
        let what =
            ("leave is a list of paths below the tree, such as /a,/b/c", "left out of a tree");
        let added = self.left.add(value, |_| true, what);
        added.inspect_err(|error| say_full(&self.shared.notices, self.client_ip(), error))
    }

    pub(super) fn take_only(&mut self, value: &str) -> Result<(), Error> {
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/');
        let what = ("only is a list of names in a folder, such as /a,/b", "asked for of a folder");
        let added = self.only.add(value, is_name, what);
        added.inspect_err(|error| say_full(&self.shared.notices, self.client_ip(), error))
    }
}
