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
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{Command, ListingKind, Pathname, TransferEvent};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Between 111 markers, where the server lets us choose: what a killed copy sends again at most,
/// next to what was on its way.
const MARKERS_EVERY_SECS: u64 = 1;
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
    /// Makes `parcel` ready to be sent: finds the journal of an earlier copy, or begins one.
    pub(super) fn begin(
        copy: &mut Copy<'_>,
        control: &mut Control,
        parcel: Parcel<'a>,
    ) -> Result<RemotePartial<'a>, Error> {
        let (held, mut note) = (ByteRanges::new(), None);
        let begun = match receipts_folder().map(|folder| Receipts::begin(&folder, &parcel)) {
            Some(Err(error)) if error.code == ErrorCode::Busy => return Err(error),
            Some(Ok(begun)) => Some(begun),
            Some(Err(error)) => {
                note = Some(error.to_string());
                None
            }
            None => {
                note = Some("neither XDG_STATE_HOME nor HOME is set".to_owned());
                None
            }
        };
        if let Some(why) = note {
            copy.stats.note(format!("cannot be resumed if it is broken off: {why}"));
        }
        let Some((receipts, stale)) = begun else {
            let temporary = temporary_beside(parcel.target)?;
            return Ok(RemotePartial { parcel, receipts: None, temporary, held });
        };
        if let Some(stale) = stale {
            // Gone already is as good.
            control.try_request(Request::Exec(Command::Delete(Pathname::new(stale))));
        }
        let temporary = receipts.temporary().to_vec();
        Ok(RemotePartial { parcel, temporary, receipts: Some(receipts), held })
    }

    /// What the server said in an earlier copy that it holds.
    pub(super) fn said(&self) -> ByteRanges {
        self.receipts.as_ref().map_or_else(ByteRanges::new, |receipts| receipts.held().clone())
    }

    /// How long the file is at the server by now, if it is there.
    pub(super) async fn measure(&self, control: &mut Control) -> Result<Option<u64>, Error> {
        let look = control.try_request(Request::Stat(self.temporary()));
        let found = control.looked(look).await?;
        Ok(found.filter(|entry| entry.kind == ListingKind::File).and_then(|entry| entry.size))
    }

    /// Whether its target stands there as long as the file, and nothing under the temporary name:
    /// an earlier attempt may have renamed it.
    pub(super) async fn may_have_landed(&self, control: &mut Control) -> Result<bool, Error> {
        let look = control.try_request(Request::Stat(Pathname::new(self.parcel.target)));
        let partial = self.measure(control).await?;
        let found = control.looked(look).await?.filter(|entry| entry.kind == ListingKind::File);
        let is_as_long = found.is_some_and(|entry| entry.size == Some(self.parcel.facts.len));
        Ok(partial.is_none() && is_as_long)
    }

    /// It has landed, and nothing of it is to be gone on with.
    pub(super) fn landed(self) {
        if let Some(receipts) = self.receipts {
            receipts.finish();
        }
    }

    /// Removes what the server holds, and begins under another name.
    pub(super) fn renew(&mut self, control: &mut Control) -> Result<(), Error> {
        control.try_request(Request::Exec(Command::Delete(self.temporary())));
        if let Some(receipts) = &mut self.receipts {
            receipts.renew(&self.parcel)?;
            self.temporary = receipts.temporary().to_vec();
        }
        Ok(())
    }

    /// So much is not sent.
    pub(super) fn hold(&mut self, held: ByteRanges) {
        self.held = held;
    }

    /// Where the file is until it has landed.
    pub(super) fn temporary(&self) -> Pathname {
        Pathname::new(self.temporary.clone())
    }

    /// What need not be sent.
    pub(super) fn held(&self) -> &ByteRanges {
        &self.held
    }

    /// Has the server store the rest; its markers are written down from now on.
    pub(super) fn store(&mut self, control: &mut Control) -> u64 {
        let mut transfer = Transfer::new(TransferKind::Store, self.temporary());
        transfer.held = self.held.clone();
        transfer.size = Some(self.parcel.facts.len);
        let id = control.request(Request::Transfer(transfer));
        if let Some(receipts) = self.receipts.take() {
            lock(&control.remote_progress()).follow(id, receipts);
        }
        id
    }

    /// Gives the file its name.
    pub(super) async fn land(mut self, control: &mut Control) -> Result<(), Error> {
        self.take_back(control);
        // Before it takes the place of what has the other name.
        if let Err(error) = control.refuse_other_name(self.temporary().as_bytes()).await {
            self.remove(control).await;
            return Err(error);
        }
        let target = Pathname::new(self.parcel.target);
        let rename = control.request(Request::Rename { from: self.temporary(), to: target });
        control
            .done(rename)
            .await
            .map_err(|error| error.while_doing("renaming the finished file"))?;
        self.landed();
        Ok(())
    }

    /// The copy was broken off by `error`: what is stored stays for the next where it is of use,
    /// and nothing else does. Returns whether anything stays.
    pub(super) async fn abandon(
        mut self,
        control: &mut Control,
        keeps: bool,
        error: &Error,
    ) -> bool {
        self.take_back(control);
        let empty = self.receipts.as_ref().is_none_or(|receipts| receipts.held().is_empty());
        let is_deaf = matches!(error.code, ErrorCode::PeerSilent | ErrorCode::ControlTimeout)
            || control.is_cut_off();
        if is_deaf {
            // The server may not know yet that this copy is over, and write again when it learns of
            // it.
            self.receipts.iter_mut().for_each(Receipts::distrust);
        } else if !keeps || empty {
            self.remove(control).await;
        }
        keeps && !empty
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

    pub(super) fn take_back(&mut self, control: &Control) {
        if self.receipts.is_none() {
            self.receipts = lock(&control.remote_progress()).unfollow();
        }
    }
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
