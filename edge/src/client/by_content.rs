//! `--checksum`: which files have the same bytes at both ends, whatever their times say.
//!
//! Two files of this host are read and compared. One of a server is summed there (`CKSM`) while
//! this host, or another server, sums its own: nothing of it crosses the path.

use super::checksum;
use super::control::Control;
use super::copy::Copy;
use crate::mover::Cancel;
use crate::stores::{ChecksumAlgorithm, Root};
use farline_core::gridftp::{Pathname, Reply};
use farline_core::units::Setting::Checksum;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::OFlags;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of requests that are under way at once: as much as any kernel holds.
const ASKED_AT_ONCE: usize = 48 << 10;
/// Of one request, next to its path.
const ASK_LEN: usize = 32;
/// Bytes that are read at once of two files of this host.
const READ_LEN: usize = 1 << 20;

/// A file of this host, below a root.
type FileHere = (Arc<Root>, Vec<u8>);
/// What says where the file of that number is.
type PlaceOf<'a, T> = Box<dyn Fn(usize) -> T + Send + 'a>;

/// Where one end's files are.
pub(super) enum ContentAt<'a> {
    /// On this host.
    Here(PlaceOf<'a, FileHere>),
    /// At a server.
    There(&'a mut Control, PlaceOf<'a, Pathname>),
}

/// Which of `candidates`, by number and length, which is the same at both ends, have the same bytes
/// at both. One that cannot be read at one end has not: to copy it says why.
///
/// # Errors
/// When a server computes no checksum that the other end does too, or cannot be reached any more.
pub(super) async fn same(
    copy: &mut Copy<'_>,
    ends: (ContentAt<'_>, ContentAt<'_>),
    candidates: &[(usize, u64)],
) -> Result<BTreeSet<usize>, Error> {
    let is_empty = |(index, len): &(usize, u64)| (*len == 0).then_some(*index);
    let mut same: BTreeSet<usize> = candidates.iter().filter_map(is_empty).collect();
    let left: Vec<(usize, u64)> =
        candidates.iter().copied().filter(|(index, _)| !same.contains(index)).collect();
    if left.is_empty() {
        return Ok(same);
    }
    let moving = copy.stats.moving;
    same.extend(match ends {
        (ContentAt::Here(a), ContentAt::Here(b)) => same_here(copy, (a, b), left).await?,
        (ContentAt::Here(place), ContentAt::There(control, path))
        | (ContentAt::There(control, path), ContentAt::Here(place)) => {
            same_there(copy, place, (control, path), left).await?
        }
        (ContentAt::There(a, a_path), ContentAt::There(b, b_path)) => {
            same_elsewhere(copy, (a, a_path), (b, b_path), left).await?
        }
    });
    // Nothing has moved yet.
    copy.stats.moving = moving;
    Ok(same)
}

async fn same_here(
    copy: &mut Copy<'_>,
    (a, b): (PlaceOf<'_, FileHere>, PlaceOf<'_, FileHere>),
    candidates: Vec<(usize, u64)>,
) -> Result<BTreeSet<usize>, Error> {
    let files: Vec<_> =
        candidates.into_iter().map(|(index, len)| (index, len, a(index), b(index))).collect();
    let compared = copy.supervise(None, move |state| {
        state.alone(|| {
            let mut same = BTreeSet::new();
            for (index, len, a, b) in files {
                if is_same(&state.cancel, len, &a, &b)? {
                    same.insert(index);
                }
            }
            Ok(same)
        })
    });
    compared.await
}

/// Whether two files of `len` bytes have the same. It fails only when the copy is to end.
fn is_same(cancel: &Cancel, len: u64, a: &FileHere, b: &FileHere) -> Result<bool, Error> {
    let (Ok(a), Ok(b)) = (open(a), open(b)) else { return Ok(false) };
    let (mut of_a, mut of_b) = (vec![0; READ_LEN], vec![0; READ_LEN]);
    let mut at = 0;
    while at < len {
        if let Some(reason) = cancel.reason() {
            return Err(reason);
        }
        let part = usize::try_from(len - at).unwrap_or(READ_LEN).min(READ_LEN);
        let (of_a, of_b) = (&mut of_a[..part], &mut of_b[..part]);
        let read = a.read_exact_at(of_a, at).and_then(|()| b.read_exact_at(of_b, at));
        if read.is_err() || of_a != of_b {
            return Ok(false);
        }
        at += part as u64;
    }
    Ok(true)
}

fn open((root, path): &FileHere) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    root.open_beneath(path, flags, 0).map(File::from)
}

async fn same_there(
    copy: &mut Copy<'_>,
    place: PlaceOf<'_, FileHere>,
    (control, path): (&mut Control, PlaceOf<'_, Pathname>),
    candidates: Vec<(usize, u64)>,
) -> Result<BTreeSet<usize>, Error> {
    let algorithm = checksum::common(&[&*control]).ok_or_else(|| no_checksum(control.server()))?;
    checksum::ask_for_markers(control);
    let mut asked = Asked::new(candidates);
    let mut same = BTreeSet::new();
    loop {
        asked.ask(&path, |path| checksum::ask(control, algorithm, path));
        let Some((index, len, id)) = asked.next() else { return Ok(same) };
        let (root, at) = place(index);
        let summed = copy.supervise(Some(&mut *control), move |state| {
            state.alone(|| sum(&state.cancel, algorithm, len, &(root, at)))
        });
        let ours = summed.await?;
        let theirs = summed_there(copy.reply_to(control, id).await)?;
        if ours.is_some() && ours == theirs {
            same.insert(index);
        }
    }
}

/// The checksum of a file of this host; none of one that cannot be read.
fn sum(
    cancel: &Cancel,
    algorithm: ChecksumAlgorithm,
    len: u64,
    file: &FileHere,
) -> Result<Option<String>, Error> {
    let Ok(file) = open(file) else { return Ok(None) };
    let summed = algorithm.of(0..len, |at, into| {
        if let Some(reason) = cancel.reason() {
            return Err(reason);
        }
        file.read_exact_at(into, at)
            .map_err(|error| Error::new(Fault::Here, ErrorCode::Storage, error.to_string()))
    });
    match (summed, cancel.reason()) {
        (Ok(summed), _) => Ok(Some(summed)),
        (Err(_), Some(reason)) => Err(reason),
        (Err(_), None) => Ok(None),
    }
}

async fn same_elsewhere(
    copy: &mut Copy<'_>,
    (a, a_path): (&mut Control, PlaceOf<'_, Pathname>),
    (b, b_path): (&mut Control, PlaceOf<'_, Pathname>),
    candidates: Vec<(usize, u64)>,
) -> Result<BTreeSet<usize>, Error> {
    let shared = checksum::common(&[&*a, &*b]);
    let algorithm =
        shared.ok_or_else(|| no_checksum(&format!("{}, {}", a.server(), b.server())))?;
    checksum::ask_for_markers(a);
    checksum::ask_for_markers(b);
    let (mut of_a, mut of_b) = (Asked::new(candidates.clone()), Asked::new(candidates));
    let mut same = BTreeSet::new();
    loop {
        of_a.ask(&a_path, |path| checksum::ask(a, algorithm, path));
        of_b.ask(&b_path, |path| checksum::ask(b, algorithm, path));
        let (Some((index, _, at_a)), Some((_, _, at_b))) = (of_a.next(), of_b.next()) else {
            return Ok(same);
        };
        let one = summed_there(copy.reply_to(a, at_a).await)?;
        let other = summed_there(copy.reply_to(b, at_b).await)?;
        if one.is_some() && one == other {
            same.insert(index);
        }
    }
}

/// What a server says of one file; none where it cannot say it.
fn summed_there(reply: Result<Reply, Error>) -> Result<Option<String>, Error> {
    match reply {
        Ok(reply) => Ok(Some(checksum::said(&reply))),
        Err(error)
            if error.fault == Fault::Between
                || matches!(error.code, ErrorCode::Interrupted | ErrorCode::PeerSilent) =>
        {
            Err(error)
        }
        Err(_) => Ok(None),
    }
}

fn no_checksum(server: &str) -> Error {
    let message = format!("{Checksum}: {server}: no checksum (CKSM) that both ends can compute");
    Error::new(Fault::There, ErrorCode::Unsupported, message)
        .hint(format!("without {Checksum} files are compared by size and time"))
}

/// Requests under way: enough that none waits for a round trip, and no more than fits on the path.
struct Asked {
    candidates: VecDeque<(usize, u64)>,
    under_way: VecDeque<(usize, u64, u64, usize)>,
    bytes: usize,
}

impl Asked {
    fn new(candidates: Vec<(usize, u64)>) -> Asked {
        Asked { candidates: candidates.into(), under_way: VecDeque::new(), bytes: 0 }
    }

    /// Sends what there is room for, many with one write.
    fn ask(&mut self, path_of: impl Fn(usize) -> Pathname, mut ask: impl FnMut(Pathname) -> u64) {
        if self.bytes > ASKED_AT_ONCE / 2 {
            return;
        }
        while self.bytes < ASKED_AT_ONCE
            && let Some((index, len)) = self.candidates.pop_front()
        {
            let path = path_of(index);
            let cost = path.as_bytes().len() + ASK_LEN;
            self.bytes += cost;
            self.under_way.push_back((index, len, ask(path), cost));
        }
    }

    /// The next to be answered: its number, its length and its request.
    fn next(&mut self) -> Option<(usize, u64, u64)> {
        let (index, len, id, cost) = self.under_way.pop_front()?;
        self.bytes -= cost;
        Some((index, len, id))
    }
}
