//! A session's transfers: each file, list or part over the session's data channels, in its mode.

use super::checksum;
use super::data::DataPlane;
use super::files::{Files, beneath};
use super::list_memory::say_full;
use super::quota::{QuotaShare, QuotaSink};
use super::reporter::Reporter;
use super::running::{RunningTransfer, TreePhase};
use super::time_of_day::time_of_day;
use super::{profile, tree};
use crate::identity::{Authorization, Deed};
use crate::mover::{BLOCK_LEN, Cancel, UNKNOWN_LEN};
use crate::stores::{
    BytesSource, Landing, PosixSink, PosixSource, Sink, UnnamedFile, join, storage_error,
};
use crate::sys::lock::lock;
use crate::sys::pacing_limits::PacingLimit;
use farline_core::gridftp::server::{Action, TransferRequest};
use farline_core::gridftp::{ListFormat, ListingEntry, ListingKind, Mode, Pathname};
use farline_core::transfer::Layout;
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::sync::Arc;

impl DataPlane {
    /// Runs one transfer; returns its payload bytes.
    pub(super) fn transfer(
        &mut self,
        request: &TransferRequest,
        cancel: &Cancel,
        reporter: &Reporter,
    ) -> Result<u64, Error> {
        let run = RunningTransfer::new(request, cancel, reporter);
        let result = self.dispatch(&run);
        let no_room = lock(&self.no_room).take();
        let result = result.map_err(|error| match (no_room, error.code) {
            // What was closed here is nothing that a firewall held back.
            (Some(no_room), ErrorCode::DataConnection) => no_room,
            (Some(no_room), ErrorCode::ChannelLost) if run.tally.bytes() == 0 => no_room,
            _ => error,
        });
        run.say_limits(&self.shared.notices, self.client_ip(), &result);
        run.say_paced(&self.shared.notices, self.client_ip(), (self.struck(), self.adapt.told));
        if let Err(error) = &result {
            self.channels.clear();
            if request.mode == Mode::Stream {
                // What watches the connection has it open too.
                cancel.cancel(error.clone());
                // The client has connected, or is about to, and waits for an end (RFC 959,
                // section 3.2); a listener serves one transfer.
                self.close_data();
            }
            if let Some(listener) = &self.listener {
                // What came and was not taken belongs to the transfer that failed.
                listener.clear();
            }
        }
        result
    }

    /// Which limits paced the session since this was last asked.
    fn struck(&self) -> Vec<PacingLimit> {
        let channels =
            self.listener.iter().flat_map(|port| port.arrivals().buffers().struck().take());
        self.struck.take().into_iter().chain(channels).collect()
    }

    fn dispatch(&mut self, run: &RunningTransfer<'_>) -> Result<u64, Error> {
        let request = run.request;
        let has_key = self.listener.is_some() || self.by_gsi().is_some();
        if self.private && !has_key && request.mode == Mode::Extended {
            // P-3: nobody but Farline is known to want it, and Farline has a key.
            return Err(Error::new(
                Fault::You,
                ErrorCode::Unsupported,
                "MODE E under PROT P needs a key (OPTS FARLINE key=)",
            ));
        }
        let measures =
            |name: &str| profile::MODULES.iter().any(|own| name.eq_ignore_ascii_case(own));
        if let Some(module) = request.module.as_ref().filter(|module| measures(&module.name)) {
            return profile::measure(self, &module.parms, run);
        }
        self.account().check_data(self.private)?;
        let _reserved = self.reserve_descriptors()?;
        if let Some(module) = &request.module {
            let phase = TreePhase::parse(&module.parms)?;
            return if request.action.is_store() {
                tree::store(self, phase, run)
            } else {
                tree::retrieve(self, phase, run)
            };
        }
        match request.action {
            Action::List(format) => self.list(format, run).inspect_err(|error| {
                say_full(&self.shared.notices, self.client_ip(), error);
            }),
            Action::Retrieve => self.retrieve(run),
            Action::Store | Action::Append => self.store(run),
        }
    }

    fn list(&mut self, format: ListFormat, run: &RunningTransfer<'_>) -> Result<u64, Error> {
        let access = self.account().access.clone();
        access.check(Deed::Read, &run.request.path)?;
        let files = Files::new(&access);
        let now = time_of_day();
        let mut text = Vec::new();
        // A path that is listed itself is what it leads to.
        let looked = ListingEntry { link: None, ..files.stat(&run.request.path)? };
        let is_folder = looked.kind == ListingKind::Directory;
        if let (ListFormat::Facts(_) | ListFormat::Tree(_), true) = (format, is_folder) {
            let name = Pathname::new(".");
            let here = ListingEntry { name, kind: ListingKind::CurrentDirectory, ..looked.clone() };
            // Names that cannot stand in a listing were left out by `Files::list` already.
            let _ = format.write(&here, now, &mut text);
        }
        if !is_folder {
            let _ = format.write(&looked, now, &mut text);
            return self.send_bytes(&BytesSource(text), run);
        }
        let mut share = self.shared.lists.share();
        // Paths of folders below, relative to the one that was asked for.
        let (mut folders, mut waiting) = (vec![Vec::new()], 0);
        while let Some(folder) = folders.pop() {
            waiting -= folder.len();
            if let Some(reason) = run.cancel.reason() {
                return Err(reason);
            }
            let at = run.request.path.resolve(&Pathname::new(folder.clone()));
            let beside = (text.len() + waiting) as u64;
            let entries = match files.list(&at, &mut |taken| share.set(beside + taken)) {
                Err(error) if matches!(error.code, ErrorCode::ListMemory | ErrorCode::Busy) => {
                    return Err(error);
                }
                // It is listed itself; what lies in it nobody may see, or it went away since.
                Err(_) if !folder.is_empty() => continue,
                entries => entries?,
            };
            for mut entry in entries {
                let path = join(&folder, entry.name.as_bytes());
                let is_below = entry.kind == ListingKind::Directory && entry.link.is_none();
                entry.name = Pathname::new(path.clone());
                let _ = format.write(&entry, now, &mut text);
                if let ListFormat::Tree(_) = format
                    && is_below
                {
                    waiting += path.len();
                    folders.push(path);
                }
            }
            share.set((text.len() + waiting) as u64)?;
        }
        self.send_bytes(&BytesSource(text), run)
    }

    fn retrieve(&mut self, run: &RunningTransfer<'_>) -> Result<u64, Error> {
        let path = beneath(&run.request.path).to_vec();
        let access = self.account().access.clone();
        access.check(Deed::Read, &run.request.path)?;
        let entry = Files::new(&access).stat(&run.request.path)?;
        match entry.kind {
            ListingKind::File => {}
            ListingKind::Directory => {
                let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
                return Err(storage_error("retrieve", run.request.path.as_bytes(), &error));
            }
            _ => {
                return Err(Error::new(
                    Fault::You,
                    ErrorCode::Unsupported,
                    "this is no regular file",
                ));
            }
        }
        let size = entry.size.unwrap_or(0);
        let (offset, length) =
            run.request.part.map_or((0, None), |part| (part.offset, part.length));
        if offset > size {
            return Err(Error::new(
                Fault::You,
                ErrorCode::RestartMismatch,
                format!("the file has {size} bytes, the part begins at {offset}"),
            ));
        }
        let held = run.request.held.total();
        if run.request.mode == Mode::Stream && held > size {
            return Err(Error::new(
                Fault::You,
                ErrorCode::RestartMismatch,
                format!("the file has {size} bytes, not the {held} to go on from"),
            ));
        }
        let len = length.unwrap_or(u64::MAX).min(size - offset);
        let layout = Arc::new(Layout::of_file(len, BLOCK_LEN));
        let source = PosixSource::new(Arc::clone(access.root()), path, Arc::clone(&layout))
            .part_from(offset);
        self.send_from(&layout, &source, 0, None, run)
    }

    fn store(&mut self, run: &RunningTransfer<'_>) -> Result<u64, Error> {
        let request = run.request;
        let path = beneath(&request.path).to_vec();
        let access = self.account().access.clone();
        access.check_store(&request.path)?;
        // What comes there meanwhile is somebody else's.
        let only_new = !access.may(Deed::Modify, &request.path);
        let existing = at_its_place(&access, &request.path);
        if existing.as_ref().is_some_and(|entry| entry.kind == ListingKind::Directory) {
            let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(storage_error("store", request.path.as_bytes(), &error));
        }
        let held = request.held.total();
        let size = existing.as_ref().and_then(|entry| entry.size).unwrap_or(0);
        let in_place = match (request.action, request.part) {
            (Action::Append, _) => Some(size),
            (_, Some(part)) => Some(part.offset),
            // MODE S: `REST n` and `STOR`. In MODE E the offsets on the wire count from the file's
            // start.
            (_, None) if held > 0 => Some(if request.mode == Mode::Stream { held } else { 0 }),
            _ => None,
        };
        if held > size {
            // A failed STOR leaves nothing under the final name: there is nothing to go on from.
            return Err(Error::new(
                Fault::You,
                ErrorCode::RestartMismatch,
                format!("there are {size} bytes, not the {held} to go on from"),
            )
            .hint("send the file from its start"));
        }
        // What is announced is known not to fit before it is sent; what is not counts as it comes.
        let account = self.account().clone();
        let announced = request.size.unwrap_or(0).saturating_sub(held);
        drop(account.take(announced, 1, &self.shared)?);
        let share = account.take(0, 1, &self.shared)?;
        let layout = Arc::new(Layout::of_file(UNKNOWN_LEN, BLOCK_LEN));
        let unnamed = match in_place {
            None => UnnamedFile::create(access.root(), &path, &layout, only_new),
            Some(_) => None,
        };
        let sink: Box<dyn Landing> = match (unnamed, in_place) {
            (Some(unnamed), _) => Box::new(unnamed),
            (None, in_place) => {
                let root = Arc::clone(access.root());
                let sink = PosixSink::new(root, path, Arc::clone(&layout), false);
                let sink = sink.only_new(only_new);
                Box::new(match in_place {
                    Some(offset) => sink.in_place(offset),
                    None => sink,
                })
            }
        };
        sink.open(0)?;
        let counted = share.as_ref().map(|share| QuotaSink { sink: &*sink, share });
        let into = counted.as_ref().map_or(&*sink as &dyn Sink, |counted| counted);
        let came = self.receive_into(&layout, into, None, ByteRanges::new(), run);
        let came = came.inspect_err(|error| account.say_exceeded(error, &self.shared));
        if let Some(share) = share.as_ref().filter(|_| in_place.is_some()) {
            // Whatever becomes of the rest of it.
            share.keep_all();
        }
        let written = came?.arrived;
        let mut whole = request.held.clone();
        if request.mode == Mode::Stream {
            whole = ByteRanges::new();
        }
        for range in written.iter() {
            whole.insert(range);
        }
        if whole.count() > 1 || whole.iter().next().is_some_and(|range| range.start != 0) {
            return Err(Error::new(
                Fault::There,
                ErrorCode::Incomplete,
                format!("the sender left holes: only {} came", first_ranges(&whole)),
            ));
        }
        if let Some(size) = request.size.filter(|&size| size > written.total() && held == 0) {
            let message =
                format!("{} of the {size} bytes announced with ALLO came", written.total());
            return Err(Error::new(Fault::Between, ErrorCode::Incomplete, message));
        }
        if let Some(expected) = &request.expected {
            // What was written in place is whole only together with what was there before.
            if in_place.is_some() {
                let message = "SCKS is for a whole file that is stored at once";
                return Err(Error::new(Fault::You, ErrorCode::Unsupported, message));
            }
            let read = sink.read_back(0)?.ok_or_else(|| {
                let message = "what was written here cannot be read back";
                Error::new(Fault::You, ErrorCode::Unsupported, message)
            })?;
            run.landing(|| checksum::compare(expected, written.total(), read)).inspect_err(
                |_| {
                    sink.refuse();
                },
            )?;
        }
        match run.landing(|| sink.land(None)).failures.into_iter().next() {
            Some((_, error)) => Err(error),
            None => {
                share.inspect(QuotaShare::keep_all);
                Ok(written.total())
            }
        }
    }
}

/// What is at `path`, where something is. Of most files that are stored nothing is, which one look
/// shows.
fn at_its_place(access: &Authorization, path: &Pathname) -> Option<ListingEntry> {
    match access.root().stat_link(beneath(path)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        _ => Files::new(access).stat(path).ok(),
    }
}

/// The first of these ranges, for people, and how many more there are: a sender decides how many.
fn first_ranges(ranges: &ByteRanges) -> String {
    const SHOWN: usize = 8;
    let first: ByteRanges = ranges.iter().take(SHOWN).collect();
    match ranges.count().saturating_sub(SHOWN) {
        0 => first.to_string(),
        more => format!("{first} and {more} more ranges"),
    }
}
