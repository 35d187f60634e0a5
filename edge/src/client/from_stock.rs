//! Copies from a stock GridFTP server to this host: file by file, each gone on with from what is
//! durable here.
//!
//! `docs/protocol.md`, clauses G-5 and G-6.

use super::by_content::ContentAt;
use super::checksum;
use super::control::Control;
use super::copy::Copy;
use super::destination::{Destination, destination, is_absent};
use super::existing::{omitted_here, without};
use super::landed_before::{LandedBefore, landed_here};
use super::listing::{entry, list_tree};
use super::location::{Location, Remote, trim};
use super::receiving::{listen, receive_layout, tell_buffer};
use super::resources::TransferResources;
use super::selection::DRY_RUN;
use crate::mover::{BLOCK_LEN, Integrity};
use crate::stores::{Landing, ResumeState, TreeReceipt, join, stat};
use farline_core::copy::{nameable, parallelism, source_of};
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{ListingKind, Mode, Pathname};
use farline_core::transfer::journal::{FileFacts, Origin};
use farline_core::transfer::{Entry, EntryKind, Layout, TransferParams};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) async fn run(
    copy: &mut Copy<'_>,
    control: &mut Control,
    from: &Remote,
    to: &Location,
    several: bool,
    choice: &TransferParams,
) -> Result<(), Error> {
    copy.congestion_untold(from)?;
    // What is not kept as a file is not read back.
    let common = checksum::common(&[&*control]).filter(|_| matches!(to, Location::Local(_)));
    checksum::require(copy.options, common, &format!("{from} to {to}"))?;
    let not_there =
        || Error::new(Fault::You, ErrorCode::PathNotFound, format!("{from} does not exist"));
    let look = control.request(Request::Stat(Pathname::new(from.path.clone())));
    let top = control.looked(look).await?.ok_or_else(not_there)?;
    let is_folder = top.kind == ListingKind::Directory;
    let entries = if is_folder {
        if !copy.options.recursive {
            return Err(Error::new(
                Fault::You,
                ErrorCode::IsADirectory,
                format!("{from} is a directory"),
            )
            .hint("add -r to copy it with all that is in it"));
        }
        list_tree(copy, control, &from.path).await?
    } else {
        vec![Entry { path: Vec::new(), ..entry(Vec::new(), &top) }]
    };
    let contents = from.path.ends_with(b"/");
    let place = match copy.options.dry_run && is_absent(to) {
        true => None,
        false => Some(destination(to, from.name(), is_folder, contents, several)?),
    };
    let top = if is_folder && contents { b"" } else { from.name() };
    let path_of = |index: usize| Pathname::new(join(trim(&from.path), &entries[index].path));
    let there = ContentAt::There(control, Box::new(path_of));
    let omitted = omitted_here(copy, place.as_ref(), top, &entries, Some(there)).await?;
    let Some(place) = place.filter(|_| !copy.options.dry_run) else {
        copy.stats.verified_how = DRY_RUN;
        return Ok(());
    };
    let layout = Arc::new(Layout::new(without(entries, &omitted), BLOCK_LEN));
    place.make_folders(&layout)?;
    let (mut resources, address) = listen(copy, control, choice).await?;
    tell_buffer(copy, control);
    let active = Request::Active { mode: Mode::Extended, addresses: vec![address] };
    for id in [control.request(parallelism(choice.streams)), control.request(active)] {
        control.done(id).await?;
    }
    let files = layout.files();
    let mut receipt = match &place {
        Destination::Files { root, start } if is_folder => {
            let here = root.path().canonicalize().unwrap_or_else(|_| root.path().to_owned());
            let target = [&b"from"[..], here.as_os_str().as_bytes(), start];
            TreeReceipt::begin(&target, source_of(&from.place(), [&from.path[..]].into_iter()))
        }
        _ => None,
    };
    let landed_as = |item: &Entry| match &place {
        Destination::Files { root, start } => {
            stat(root, &join(start, &item.path), b"").ok().map(|entry| FileFacts::of(&entry))
        }
        _ => None,
    };
    let before = receipt.as_ref().map_or_else(LandedBefore::new, |receipt| {
        landed_here(receipt, layout.entries(), landed_as)
    });
    copy.note_landed_before(&before);
    for (index, item) in layout.entries().iter().enumerate() {
        if let Some(&is_compared) = before.get(&index) {
            copy.landed_before(&item.path, item, is_compared);
            continue;
        }
        let compared_before = copy.stats.compared;
        let at_its_path = |(_, error): (Vec<u8>, Error)| (item.path.clone(), error);
        let one =
            Arc::new(Layout::new(vec![Entry { path: Vec::new(), ..item.clone() }], BLOCK_LEN));
        let mut landed = match item.kind {
            EntryKind::Directory | EntryKind::There { .. } => continue,
            EntryKind::File { .. } if copy.has_landed(&item.path, item) => continue,
            EntryKind::Symlink { .. } => {
                place.below(&item.path).sink(&one, copy.options)?.land(None)
            }
            EntryKind::File { .. } => {
                let path = join(from.path.strip_suffix(b"/").unwrap_or(&from.path), &item.path);
                copy.live.expect(layout.payload() - copy.stats.bytes, files);
                let file = File {
                    place: from.place(),
                    path,
                    one: Arc::clone(&one),
                    sink: place.below(&item.path),
                };
                let (landed, back) = file.fetch(copy, control, resources).await?;
                resources = back;
                landed
            }
        };
        landed.failures = landed.failures.into_iter().map(at_its_path).collect();
        if landed.files == 1 && landed.failures.is_empty() {
            copy.land_one(&item.path, item);
            if let (Some(receipt), Some(landed)) = (&mut receipt, landed_as(item)) {
                let is_compared = copy.stats.compared > compared_before;
                receipt.record(&item.path, &FileFacts::of(item), &landed, is_compared);
            }
        } else {
            copy.take_landed(landed);
        }
        copy.settle();
    }
    copy.stats.tcp.extend(resources.tcp);
    checksum::conclude(copy, files);
    receipt.into_iter().for_each(TreeReceipt::finish);
    Ok(())
}

/// One file of the server.
struct File {
    /// The server, as the source's identity has it.
    place: String,
    path: Vec<u8>,
    /// The file alone.
    one: Arc<Layout>,
    sink: Destination,
}

impl File {
    async fn fetch(
        self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        resources: TransferResources,
    ) -> Result<(crate::stores::Landed, TransferResources), Error> {
        let doing = || format!("retrieving {}", String::from_utf8_lossy(&self.path));
        let sink: Arc<dyn Landing> = self.sink.sink(&self.one, copy.options)?.into();
        let origin =
            Origin { source: source_of(&self.place, [&self.path[..]].into_iter()), digests: None };
        let held =
            sink.begin(origin)?.unwrap_or_else(|| ResumeState::nothing(&self.one, None)).blocks;
        copy.stats.resumed_bytes += held.total();
        let moved = self.receive(copy, control, resources, &sink, &held).await;
        let moved = match moved {
            Ok(resources) => {
                self.confirm(copy, control, &sink, !held.is_empty()).await.map(|()| resources)
            }
            error => error,
        };
        let resources = moved.map_err(|error| {
            // Clause R-9: what the network broke is kept, what turned out to be another file is
            // not.
            if error.fault == Fault::There
                || matches!(error.code, ErrorCode::SourceChanged | ErrorCode::DigestMismatch)
            {
                sink.refuse();
            }
            error.while_doing(doing())
        })?;
        let landed = copy.supervise(None, move |_| Ok(sink.land(None))).await?;
        Ok((landed, resources))
    }

    /// Receives what is not held yet.
    async fn receive(
        &self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        resources: TransferResources,
        sink: &Arc<dyn Landing>,
        held: &ByteRanges,
    ) -> Result<TransferResources, Error> {
        let len = self.one.payload();
        sink.open(0)?;
        copy.live.held.store(held.total(), Ordering::Relaxed);
        if len > 0 && held.total() == len {
            return Ok(resources);
        }
        let mut transfer = Transfer::new(TransferKind::Retrieve, Pathname::new(self.path.clone()));
        transfer.held = nameable(held);
        let id = control.request(Request::Transfer(transfer));
        let (one, sink, arrived) =
            (Arc::clone(&self.one), Arc::clone(sink), Mutex::new(held.clone()));
        let done = copy.supervise(Some(control), move |live| {
            let plain = (Integrity::default(), None);
            let (resources, _) =
                receive_layout(live, resources, &one, &*sink, plain, &arrived, &live.tally)?;
            let came = arrived.into_inner().unwrap_or_else(PoisonError::into_inner).total();
            if came != len {
                // A stock server says the size beforehand and the end with EOF: if they differ the
                // file changed, or was cut.
                return Err(Error::new(
                    Fault::There,
                    ErrorCode::Incomplete,
                    format!("{came} bytes are here of a file of {len}"),
                ));
            }
            Ok(resources)
        });
        let resources = done.await?;
        copy.until_done(control, &[id]).await?;
        Ok(resources)
    }

    /// Makes sure that parts which came at different times are of one file.
    async fn confirm(
        &self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        sink: &Arc<dyn Landing>,
        resumed: bool,
    ) -> Result<(), Error> {
        let listed = &self.one.entries()[0];
        if resumed {
            let look = control.request(Request::Stat(Pathname::new(self.path.clone())));
            let now = control.looked(look).await?.map(|found| entry(Vec::new(), &found));
            if now.is_none_or(|now| {
                (now.len(), now.modified_ns) != (listed.len(), listed.modified_ns)
            }) {
                return Err(Error::new(
                    Fault::There,
                    ErrorCode::SourceChanged,
                    "the file changed while it was copied",
                )
                .hint("run the same command again when nobody writes to it"));
            }
        }
        let Some(read_back) = sink.read_back(0)? else { return Ok(()) };
        checksum::compare(
            copy,
            control,
            Pathname::new(self.path.clone()),
            resumed,
            (listed.len(), read_back),
        )
        .await
    }
}
