//! A file on its way to a stock server: under a temporary name there, gone on with from what the
//! server said, renamed when it is whole.
//!
//! `docs/protocol.md`, clauses G-1 to G-6.

use super::connect_options::ConnectOptions;
use super::control::Control;
use super::copy::Copy;
use super::location::Remote;
use crate::stores::{
    Parcel, Receipt, Receipts, lock_if_free, receipts_folder, receipts_in, storage_error,
    temporary_beside,
};
use crate::sys::lock::lock;
use farline_core::copy::nameable;
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{Command, ListingKind, Pathname, TransferEvent};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Between 111 markers, where the server lets us choose: what a killed copy sends again at most,
/// next to what was on its way.
const MARKERS_EVERY_SECS: u64 = 1;
/// What is sent again of a resumed file's beginning: globus-gridftp-server 13.24 writes the buffer
/// that it was filling when its channel broke to the file's start (G-3). Its buffers have 256 KiB
/// unless its operator says otherwise.
const STRAY: u64 = 4 << 20;
/// How long the removal of what is of no use may take.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks for markers as often as is of use; a server that does not know how says them when it likes.
pub(super) fn ask_for_markers(control: &mut Control) {
    let event =
        Command::TransferEvents { event: TransferEvent::Restart, seconds: MARKERS_EVERY_SECS };
    control.try_request(Request::Exec(event));
}

/// The partial file of one target.
pub(super) struct RemotePartial<'a> {
    parcel: Parcel<'a>,
    /// Without a journal nothing can be gone on with.
    receipts: Option<Receipts>,
    temporary: Vec<u8>,
    held: ByteRanges,
}

impl<'a> RemotePartial<'a> {
    /// Finds what the server holds of `parcel` from an earlier copy, and clears away what it holds
    /// of another source, or all that it holds where nothing may be resumed: where it could not be
    /// compared when it is whole.
    pub(super) async fn begin(
        copy: &mut Copy<'_>,
        control: &mut Control,
        parcel: Parcel<'a>,
        may_resume: bool,
    ) -> Result<RemotePartial<'a>, Error> {
        let begun = match receipts_folder().map(|folder| Receipts::begin(&folder, &parcel)) {
            Some(Err(error)) if error.code == ErrorCode::Busy => return Err(error),
            Some(Ok(begun)) => Some(begun),
            Some(Err(error)) => {
                copy.stats.note(format!("cannot be resumed if it is broken off: {error}"));
                None
            }
            None => {
                copy.stats.note(
                    "cannot be resumed if it is broken off: neither XDG_STATE_HOME nor HOME is set"
                        .to_owned(),
                );
                None
            }
        };
        let Some((mut receipts, stale)) = begun else {
            let temporary = temporary_beside(parcel.target)?;
            return Ok(RemotePartial {
                parcel,
                receipts: None,
                temporary,
                held: ByteRanges::new(),
            });
        };
        if let Some(stale) = stale {
            // Gone already is as good.
            control.try_request(Request::Exec(Command::Delete(Pathname::new(stale))));
        }
        let mut held = receipts.held().clone();
        if !may_resume && !held.is_empty() {
            control
                .try_request(Request::Exec(Command::Delete(Pathname::new(receipts.temporary()))));
            receipts.renew(&parcel)?;
        }
        held = if may_resume { nameable(&held) } else { ByteRanges::new() };
        held.remove(0..STRAY);
        if let Some(needed) = held.iter().last().map(|range| range.end) {
            // The size is no word on what is stored, but a file that is not as long as what was
            // said is another one.
            let size = size_of(control, receipts.temporary()).await?;
            if size.is_none_or(|size| size < needed) {
                receipts.renew(&parcel)?;
                held = ByteRanges::new();
            }
        }
        copy.stats.resumed_bytes += held.total();
        Ok(RemotePartial {
            parcel,
            temporary: receipts.temporary().to_vec(),
            receipts: Some(receipts),
            held,
        })
    }

    /// Where the file is until it has landed.
    pub(super) fn temporary(&self) -> Pathname {
        Pathname::new(self.temporary.clone())
    }

    /// What need not be sent.
    pub(super) fn held(&self) -> &ByteRanges {
        &self.held
    }

    /// Whether there is nothing left to send.
    pub(super) fn is_whole(&self) -> bool {
        !self.held.is_empty() && self.held.total() == self.parcel.facts.len
    }

    /// Has the server store the rest; its markers are written down from now on.
    pub(super) fn store(&mut self, control: &mut Control) -> u64 {
        let mut transfer = Transfer::new(TransferKind::Store, self.temporary());
        transfer.held = self.held.clone();
        transfer.size = Some(self.parcel.facts.len);
        let id = control.request(Request::Transfer(transfer));
        if let Some(receipts) = self.receipts.take() {
            lock(&control.heard()).follow(id, receipts);
        }
        id
    }

    /// Gives the file its name, when a resumed one is as long as it should be.
    pub(super) async fn land(mut self, control: &mut Control) -> Result<(), Error> {
        self.take_back(control);
        let target = Pathname::new(self.parcel.target);
        if !self.held.is_empty() {
            let size = size_of(control, &self.temporary).await?;
            if size != Some(self.parcel.facts.len) {
                let message = format!(
                    "{target} was to have {} bytes, and its partial file has {size:?}",
                    self.parcel.facts.len
                );
                self.remove(control).await;
                return Err(Error::new(Fault::There, ErrorCode::Incomplete, message)
                    .hint("run the same command again, it starts anew"));
            }
        }
        let rename = control.request(Request::Rename { from: self.temporary(), to: target });
        control
            .done(rename)
            .await
            .map_err(|error| error.while_doing("renaming the finished file"))?;
        if let Some(receipts) = self.receipts {
            receipts.finish();
        }
        Ok(())
    }

    /// The copy was broken off: what is stored stays for the next, and nothing else does. Answers
    /// whether anything stays.
    pub(super) async fn abandon(mut self, control: &mut Control, error: &Error) -> bool {
        self.take_back(control);
        let useless = (matches!(error.fault, Fault::You | Fault::Here)
            && error.code != ErrorCode::Interrupted)
            || matches!(error.code, ErrorCode::SourceChanged | ErrorCode::DigestMismatch);
        let empty = self.receipts.as_ref().is_none_or(|receipts| receipts.held().is_empty());
        let is_deaf = matches!(error.code, ErrorCode::PeerSilent | ErrorCode::ControlTimeout)
            || control.is_cut_off();
        if is_deaf {
            // The server may not know yet that this copy is over, and write again when it learns of
            // it.
            self.receipts.iter_mut().for_each(Receipts::distrust);
        } else if useless || empty {
            self.remove(control).await;
        }
        !(useless || empty)
    }

    /// Removes the file at the server, and then the journal: while the file may be there, its name
    /// must be known.
    async fn remove(&mut self, control: &mut Control) {
        let remove = control.try_request(Request::Exec(Command::Delete(self.temporary())));
        let removed = tokio::time::timeout(REMOVAL_TIMEOUT, control.done(remove)).await;
        let gone = match removed {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => error.code == ErrorCode::PathNotFound,
            Err(_) => false,
        };
        if let Some(receipts) = self.receipts.take().filter(|_| gone) {
            receipts.finish();
        }
    }

    fn take_back(&mut self, control: &Control) {
        if self.receipts.is_none() {
            self.receipts = lock(&control.heard()).unfollow();
        }
    }
}

/// The size of the file at `path`; `None` when none is there.
async fn size_of(control: &mut Control, path: &[u8]) -> Result<Option<u64>, Error> {
    let look = control.try_request(Request::Stat(Pathname::new(path)));
    let found = control.looked(look).await?;
    Ok(found.filter(|entry| entry.kind == ListingKind::File).and_then(|entry| entry.size))
}

/// What copies of this user to stock servers left there, as their journals here say.
///
/// # Errors
/// When the journals cannot be read.
pub fn stored_elsewhere() -> Result<Vec<Receipt>, Error> {
    let Some(folder) = receipts_folder() else { return Ok(Vec::new()) };
    receipts_in(&folder)
        .map_err(|error| storage_error("read", folder.as_os_str().as_bytes(), &error))
}

/// Removes what `receipt` speaks of at its server, reached as `login` says, and then the journal.
///
/// # Errors
/// When a running copy holds it, or the server does not remove it.
pub async fn remove_elsewhere(receipt: &Receipt, login: &Remote) -> Result<(), Error> {
    let place = login.place();
    let path = receipt.partial.strip_prefix(place.as_bytes()).ok_or_else(|| {
        Error::new(
            Fault::You,
            ErrorCode::NoPartial,
            format!("{} is not at {place}", String::from_utf8_lossy(&receipt.partial)),
        )
    })?;
    // Held until the file is gone: a copy that begins meanwhile waits for it.
    let Some(_lock) = lock_if_free(&receipt.journal)? else { return Ok(()) };
    let (mut control, _) = Control::open(login, &ConnectOptions::default(), Vec::new()).await?;
    let remove = control.request(Request::Exec(Command::Delete(Pathname::new(path))));
    match control.done(remove).await {
        Err(error) if error.code != ErrorCode::PathNotFound => return Err(error),
        _ => {}
    }
    // Kept it does no harm.
    let _ = std::fs::remove_file(&receipt.journal);
    Ok(())
}
