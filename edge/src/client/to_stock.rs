//! Copies from this host to a stock GridFTP server: folders first, then each file under a temporary
//! name, then renamed.

use super::checksum;
use super::control::Control;
use super::copy::Copy;
use super::dial::handles;
use super::interrupted::interrupted;
use super::landed_before::{LandedBefore, facts_at, landed_there};
use super::location::{Remote, trim};
use super::remote_partial::{RemotePartial, ask_for_markers};
use super::resources::TransferResources;
use super::sending::{open_rig, send_layout};
use super::source_set::SourceSet;
use crate::mover::{BLOCK_LEN, Integrity, WantedBlocks};
use crate::stores::{Parcel, Source, TreeReceipt, join};
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, Pathname};
use farline_core::transfer::journal::FileFacts;
use farline_core::transfer::{Entry, EntryKind, Layout, TransferParams};
use farline_core::units::{Error, ErrorCode, Fault};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) async fn run(
    copy: &mut Copy<'_>,
    control: &mut Control,
    passive: u64,
    to: &Remote,
    load: SourceSet,
    choice: &TransferParams,
) -> Result<(), Error> {
    let common = checksum::common(&[&*control]);
    checksum::require(copy.options, common, &to.to_string())?;
    let alone = load.entries.len() == 1 && load.entries[0].path.is_empty();
    let at = |entry: &Entry| {
        if alone { load.target.clone() } else { join(trim(&load.target), &entry.path) }
    };
    let mut folders: Vec<Vec<u8>> = Vec::new();
    if !alone {
        folders.push(trim(&load.target).to_vec());
    }
    folders.extend(
        load.entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::Directory && !entry.path.is_empty())
            .map(at),
    );
    let make = |path| Request::Exec(Command::MakeDirectory(Pathname::new(path)));
    let made: Vec<u64> = folders.into_iter().map(|path| control.request(make(path))).collect();
    for id in made {
        match control.done(id).await {
            Err(error) if error.code != ErrorCode::PathExists => {
                return Err(error.while_doing("creating directories"));
            }
            _ => {}
        }
    }
    ask_for_markers(control);
    let address = control.passive(passive).await?;
    let (resources, congestion) = open_rig(copy, control, address, choice).await?;
    copy.stats.congestion = congestion;
    let layout = Arc::new(Layout::new(load.entries.clone(), BLOCK_LEN));
    let source = SourceSet::source(load.parts, &layout, &copy.options.direct_io);
    let files = layout.files();
    let (place, may_resume) = (to.place(), common.is_some());
    let mut resources = Some(resources);
    // One file alone has a journal of its own.
    let mut receipt = match alone {
        true => None,
        false => TreeReceipt::begin(&[b"to", place.as_bytes(), &load.target], load.source_id),
    };
    let before = match &receipt {
        Some(receipt) => landed_there(receipt, control, layout.entries(), at).await?,
        None => LandedBefore::new(),
    };
    copy.note_landed_before(&before);
    for (index, entry) in layout.entries().iter().enumerate() {
        match entry.kind {
            EntryKind::File { .. } => {}
            EntryKind::Directory | EntryKind::There { .. } => continue,
            EntryKind::Symlink { .. } => {
                let error = Error::new(
                    Fault::There,
                    ErrorCode::Unsupported,
                    "the server cannot make symbolic links",
                );
                copy.stats.failures.push((entry.path.clone(), error));
                continue;
            }
        }
        let path = at(entry);
        if copy.has_landed(&path, entry) {
            continue;
        }
        if let Some(&is_compared) = before.get(&index) {
            copy.landed_before(&path, entry, is_compared);
            continue;
        }
        let compared_before = copy.stats.compared;
        let (len, facts) = (entry.len(), FileFacts::of(entry));
        let parcel = Parcel { server: &place, target: &path, source: load.source_id, facts };
        let mut partial = RemotePartial::begin(copy, control, parcel, may_resume).await?;
        copy.live.expect(layout.payload() - copy.stats.bytes, files);
        copy.live.held.store(partial.held().total(), Ordering::Relaxed);
        let one = OneOf { source: Arc::clone(&source), entry: index, len };
        let sent = send(copy, control, &mut partial, one, &mut resources).await;
        let sent = match sent {
            Ok(()) => {
                let source = Arc::clone(&source);
                let here = move |at, into: &mut [u8]| source.read(index, at, into);
                checksum::compare(
                    copy,
                    control,
                    partial.temporary(),
                    !partial.held().is_empty(),
                    (len, here),
                )
                .await
            }
            error => error,
        };
        if let Err(error) = sent {
            let is_kept = partial.abandon(control, &error).await;
            if is_kept && error.code == ErrorCode::Interrupted {
                return Err(interrupted(error, "`farline partials ls`"));
            }
            return Err(error.while_doing(format!("storing {}", String::from_utf8_lossy(&path))));
        }
        partial.land(control).await?;
        copy.land_one(&path, entry);
        if let Some(receipt) = &mut receipt {
            let look = control.try_request(Request::Stat(Pathname::new(path.clone())));
            if let Some(landed) = facts_at(control, look).await? {
                let is_compared = copy.stats.compared > compared_before;
                receipt.record(&entry.path, &FileFacts::of(entry), &landed, is_compared);
            }
        }
        copy.settle();
    }
    checksum::conclude(copy, files);
    receipt.into_iter().for_each(TreeReceipt::finish);
    Ok(())
}

/// Sends what the server lacks of one file, over channels that are kept.
async fn send(
    copy: &mut Copy<'_>,
    control: &mut Control,
    partial: &mut RemotePartial<'_>,
    one: OneOf,
    resources: &mut Option<TransferResources>,
) -> Result<(), Error> {
    if partial.is_whole() {
        return Ok(());
    }
    let Some(channels) = resources.take() else {
        return Err(Error::new(Fault::Bug, ErrorCode::NoChannel, "the channels are gone"));
    };
    let (id, held) = (partial.store(control), partial.held().clone());
    let done = copy.supervise(Some(control), move |live| {
        live.follow(handles(&channels.channels)?);
        let layout = Arc::new(Layout::of_file(one.len, BLOCK_LEN));
        let blocks = WantedBlocks::all(layout.blocks_without(&held));
        let sent = send_layout(
            live,
            &layout,
            &one,
            blocks,
            (Integrity::default(), None),
            &live.tally,
            channels,
        )?;
        Ok(TransferResources::after(sent))
    });
    let back = done.await?;
    copy.until_done(control, &[id]).await?;
    copy.stats.tcp.clone_from(&back.tcp);
    *resources = Some(back);
    Ok(())
}

/// One entry of a larger source, as the only entry.
struct OneOf {
    source: Arc<dyn Source>,
    entry: usize,
    len: u64,
}

impl Source for OneOf {
    fn read(&self, _entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.source.read(self.entry, offset, into)
    }
}
