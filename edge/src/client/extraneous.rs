//! `--delete`: removes what a destination has and its source does not, once all else has arrived.
//!
//! Both are listed anew then. Nothing is deleted where a file failed, where a folder of the source
//! cannot be read (what is in it would seem to be gone), or where the selection excludes it. Links
//! are deleted, never followed.

use super::backup::Backup;
use super::control::Control;
use super::copy::Copy;
use super::itself;
use super::keep_replaced::{self, folder_of};
use super::listing::list_tree;
use super::location::{Location, Remote, trim};
use super::selection::{PlannedFile, Selection};
use super::stream_mode;
use crate::stores::{Root, Walked, folders_above, is_hidden, join, times, walk};
use farline_core::copy::CopyReason;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Command, Pathname, Timestamp};
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::Setting::{Delete, MaxDelete};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::fs::{AtFlags, OFlags, unlinkat};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

/// Deletions asked for with one write; replies to them are short.
const AT_ONCE: usize = 500;
/// Deletions on this host between two looks at whether they are to end.
const BETWEEN_LOOKS: usize = 16;

/// Refuses before anything moves what cannot be done.
///
/// # Errors
/// When there is not one folder as source, names are listed, the destination is a server that may
/// follow links, or the source lies in it and would be deleted.
pub(super) async fn require(
    copy: &Copy<'_>,
    sources: &[Location],
    destination: &Location,
) -> Result<(), Error> {
    let refused = |fault, message: &str| Err(Error::new(fault, ErrorCode::Unsupported, message));
    let is_one_tree = matches!(sources, [Location::Local(_) | Location::Remote(_)]);
    let is_store = |location: &Location| matches!(location, Location::Remote(remote) if remote.store.is_some());
    if !is_one_tree
        || matches!(destination, Location::Standard | Location::Store(_))
        || sources.iter().chain([destination]).any(is_store)
    {
        return refused(
            Fault::You,
            &format!("{Delete} is for one folder and another that is to hold the same"),
        );
    }
    if copy.options.selection.names_files() {
        return refused(
            Fault::You,
            &format!("{Delete} with a list of files would delete all that is not in the list"),
        );
    }
    let mut receiver = None;
    if let Location::Remote(to) = destination {
        let (control, _) = Control::open(to, &copy.options.connect, Vec::new()).await?;
        if !control.features().tree {
            let message = format!(
                "{Delete}: {}: only a Farline node deletes links without following them",
                to.server()
            );
            return refused(Fault::There, &message);
        }
        receiver = Some(control);
    }
    let [source] = sources else { return Ok(()) };
    let mut sender = match source {
        Location::Remote(from) => {
            Some(Control::open(from, &copy.options.connect, Vec::new()).await?.0)
        }
        _ => None,
    };
    itself::refuse_deleted((source, sender.as_mut()), (destination, receiver.as_mut())).await
}

/// Deletes what stands at `destination` where `source` has something of another kind, which then
/// has room: a file where a folder is to be, or a folder, with all that is in it, where a file is.
/// Nothing, if that would be more than `most`, something in such a folder is to stay, or something
/// failed for another reason.
///
/// Returns whether there is room now for what there was none.
pub(super) async fn make_room(
    copy: &mut Copy<'_>,
    source: &Location,
    destination: &Location,
    most: u64,
) -> Result<bool, Error> {
    copy.is_reached = true;
    let Some((ours, problems)) = Place::of(copy, source).await?.walk(copy).await? else {
        return Ok(false);
    };
    let mut place = Place::of(copy, destination).await?;
    let Some((there, _)) = place.walk(copy).await? else { return Ok(false) };
    count_unheard(copy, &there);
    let taken = of_another_kind(&ours, &there, &copy.options.selection);
    let is_link = |entry: &&Entry| {
        matches!(entry.kind, EntryKind::Symlink { .. }) && taken.contains(&entry.path[..])
    };
    let links: BTreeSet<&[u8]> =
        there.iter().filter(is_link).map(|entry| &entry.path[..]).collect();
    if taken.is_empty()
        || problems.iter().any(|problem| may_hide(&problem.error))
        || !failed_for_room(&copy.stats.failures, &links, &copy.room)
    {
        // An attempt before this one may have made it.
        return Ok(!copy.room.is_empty());
    }
    let ours = ours.iter().map(|entry| &entry.path[..]).filter(|path| !taken.contains(path));
    let known = SourcePaths { paths: ours.collect(), not_copied: BTreeSet::new() };
    let (top, backups) = (place.top(), place.backups(copy, &there).await?);
    let mut gone = extraneous(&known, &there, &copy.options.selection, (&backups[..], &top[..]));
    // A folder that stays for what is in it keeps all of that.
    let goes: BTreeSet<&[u8]> =
        gone.iter().map(|entry| &entry.path[..]).filter(|path| taken.contains(path)).collect();
    gone.retain(|entry| goes.contains(&entry.path[..]) || is_below(&goes, &entry.path));
    if allowed(copy, &gone, most) < gone.len() {
        let message = format!(
            "{} would have to be deleted to make room for what is of another kind; {MaxDelete} \
             allows {most}",
            gone.len()
        );
        copy.stats.note(message);
        return Ok(false);
    }
    copy.room.extend(goes.iter().map(|path| path.to_vec()));
    if copy.options.dry_run {
        // What is in a folder the source does not have, and is told of with all that.
        for path in copy.room.iter() {
            let path = String::from_utf8_lossy(path).into_owned();
            let reason = CopyReason::Extraneous;
            copy.stats.planned.push(PlannedFile { path, reason, bytes: 0, is_link: false });
        }
    } else {
        place.delete(copy, &gone).await?;
    }
    Ok(!copy.room.is_empty())
}

/// Whether one of `folders` is above `path`.
pub(super) fn is_below<P: Borrow<[u8]> + Ord>(folders: &BTreeSet<P>, path: &[u8]) -> bool {
    folders_above(path).any(|above| folders.contains(above))
}

/// Whether something could not be copied for what stands in its place.
pub(super) fn lacks_room(copy: &Copy<'_>) -> bool {
    copy.stats.failures.iter().any(|(_, error)| is_taken(error))
}

/// Whether something of another kind stood in the way.
fn is_taken(error: &Error) -> bool {
    matches!(error.code, ErrorCode::NotADirectory | ErrorCode::IsADirectory)
}

/// Whether nothing of `failures` was for another reason: what has room then still might not come.
/// Where one of `links` stands for a folder, or an attempt before this one made `room`, it was for
/// that, however the destination says it: a link may lead out of what it may write to.
fn failed_for_room(
    failures: &[(Vec<u8>, Error)],
    links: &BTreeSet<&[u8]>,
    room: &BTreeSet<Vec<u8>>,
) -> bool {
    failures.iter().filter(|(_, error)| may_hide(error)).all(|(path, error)| {
        is_taken(error)
            || links.contains(&path[..])
            || is_below(links, path)
            || room.contains(path)
            || is_below(room, path)
    })
}

/// Deletes at most `most`, of all attempts together, of what is at `destination` and not at
/// `source`, and notes what was, and what could not be.
pub(super) async fn delete(
    copy: &mut Copy<'_>,
    source: &Location,
    destination: &Location,
    most: u64,
) -> Result<(), Error> {
    if copy.stats.failures.iter().any(|(_, error)| may_hide(error)) {
        copy.stats.note(match copy.options.dry_run {
            true => "nothing would be deleted, for not everything can be copied".to_owned(),
            false => "nothing was deleted, for not everything was copied".to_owned(),
        });
        return Ok(());
    }
    // Both ends were reached when the copy began.
    copy.is_reached = true;
    let Some((ours, problems)) = Place::of(copy, source).await?.walk(copy).await? else {
        let message = format!("{source} is not there any more");
        return Err(Error::new(Fault::You, ErrorCode::PathNotFound, message));
    };
    if copy.lists_dots == Some(false) {
        let message = "nothing was deleted: the source's server may not list names that begin with \
            a dot, and they would seem to be gone";
        let error = Error::new(Fault::There, ErrorCode::Unsupported, message)
            .hint(format!("copy without {Delete}"));
        copy.stats.not_deleted.push((Vec::new(), error));
        return Ok(());
    }
    let problems = copy.options.selection.concerned(b"", &ours, problems);
    // What cannot be copied is no less there for it: its name is the source's, as what may be below
    // it.
    let not_copied: BTreeSet<&[u8]> = problems.iter().map(|problem| &problem.path[..]).collect();
    let known =
        SourcePaths { paths: ours.iter().map(|entry| &entry.path[..]).collect(), not_copied };
    let unread = problems.iter().filter(|problem| may_hide(&problem.error));
    let is_whole = unread.clone().next().is_none();
    let named = unread.map(|problem| (problem.path.clone(), problem.error.clone()));
    copy.stats.failures.extend(named);
    let mut place = Place::of(copy, destination).await?;
    // What cannot be read there is not deleted, and costs the rest nothing.
    let Some((there, _)) = place.walk(copy).await? else { return Ok(()) };
    count_unheard(copy, &there);
    if !is_whole {
        copy.stats.note(match copy.options.dry_run {
            true => "nothing would be deleted, for not every folder can be listed".to_owned(),
            false => "nothing was deleted, for not every folder could be listed".to_owned(),
        });
        return Ok(());
    }
    let (top, backups) = (place.top(), place.backups(copy, &there).await?);
    let gone = extraneous(&known, &there, &copy.options.selection, (&backups[..], &top[..]));
    let gone = place.without_other_names(copy, &ours, &there, gone).await?;
    let (now, left) = gone.split_at(allowed(copy, &gone, most));
    if copy.options.dry_run {
        for entry in now {
            let path = String::from_utf8_lossy(&entry.path).into_owned();
            let reason = CopyReason::Extraneous;
            let is_link = matches!(entry.kind, EntryKind::Symlink { .. });
            copy.stats.planned.push(PlannedFile { path, reason, bytes: entry.len(), is_link });
        }
    } else {
        place.delete(copy, now).await?;
        let touched: BTreeSet<&[u8]> = now.iter().map(|entry| folder_of(&entry.path)).collect();
        let is_touched = |entry: &&Entry| {
            entry.kind == EntryKind::Directory && touched.contains(&entry.path[..])
        };
        place.date(&ours.iter().filter(is_touched).collect::<Vec<_>>()).await;
    }
    if !left.is_empty() {
        let message =
            format!("{} more would have been deleted; {MaxDelete} allows {most}", left.len());
        let error = Error::new(Fault::You, ErrorCode::TooManyDeletions, message)
            .hint("look at what is gone from the source, then allow more");
        copy.stats.not_deleted.push((left[0].path.clone(), error));
    }
    Ok(())
}

/// Notes what an attempt before this one deleted without hearing of it, as `there` shows.
fn count_unheard(copy: &mut Copy<'_>, there: &[Entry]) {
    let listed = there.iter().map(|entry| &entry.path[..]).collect();
    copy.stats.deleted.extend(copy.unheard_deletions.take_done(&listed));
}

/// How many of `gone`, from the first on, may be deleted of `most`.
fn allowed(copy: &Copy<'_>, gone: &[&Entry], most: u64) -> usize {
    let paths = gone.iter().map(|entry| &entry.path[..]);
    copy.unheard_deletions.allowed(paths, (most, copy.stats.deleted.len()))
}

/// Whether what failed may be a folder with files in it, or a file that is to come. A FIFO, a
/// socket or a device is neither.
fn may_hide(error: &Error) -> bool {
    error.code != ErrorCode::NotAFile
}

/// A folder that is listed.
enum Place {
    Here(Arc<Root>),
    There(Box<Control>, Vec<u8>),
    /// A dry run made none.
    Nowhere,
}

impl Place {
    async fn of(copy: &Copy<'_>, location: &Location) -> Result<Place, Error> {
        match location {
            Location::Local(path) if !path.exists() => Ok(Place::Nowhere),
            Location::Local(path) => Ok(Place::Here(Arc::new(Root::open(path)?))),
            Location::Remote(remote) => Place::at(copy, remote).await,
            Location::Standard | Location::Store(_) => Ok(Place::Nowhere),
        }
    }

    async fn at(copy: &Copy<'_>, remote: &Remote) -> Result<Place, Error> {
        let look = Request::Stat(Pathname::new(remote.path.clone()));
        let (mut control, ids) = Control::open(remote, &copy.options.connect, vec![look]).await?;
        match control.looked(ids[0]).await? {
            Some(_) => Ok(Place::There(Box::new(control), remote.path.clone())),
            None => Ok(Place::Nowhere),
        }
    }

    /// What is in it, if it is there.
    async fn walk(&mut self, copy: &mut Copy<'_>) -> Result<Option<Walked>, Error> {
        Ok(match self {
            Place::Here(root) => Some(walk(root, b"")?),
            Place::There(control, top) => {
                if !control.features().is_gridftp {
                    // A session of its own, in which nothing is arranged yet.
                    stream_mode::arrange(copy, control).await?;
                }
                Some(list_tree(copy, control, top).await?)
            }
            Place::Nowhere => None,
        })
    }

    /// Of `gone` what is not one of `ours` under another name: where names do not differ by case or
    /// form alone, a file that has just been copied is listed as it was called before.
    async fn without_other_names<'a>(
        &mut self,
        copy: &mut Copy<'_>,
        ours: &[Entry],
        there: &[Entry],
        gone: Vec<&'a Entry>,
    ) -> Result<Vec<&'a Entry>, Error> {
        let listed: BTreeSet<&[u8]> = there.iter().map(|entry| &entry.path[..]).collect();
        let excluded = |entry: &Entry| {
            !copy.options.selection.takes(b"", &entry.path, entry.kind == EntryKind::Directory)
        };
        let unlisted: Vec<Vec<u8>> = ours
            .iter()
            .filter(|entry| !listed.contains(&entry.path[..]) && !excluded(entry))
            // A dry run has not made them yet.
            .filter(|entry| !is_below(&copy.room, &entry.path))
            .map(|entry| entry.path.clone())
            .collect();
        let mut other_names = BTreeSet::new();
        for path in unlisted {
            other_names.extend(self.unique(&path).await?);
        }
        if other_names.is_empty() {
            return Ok(gone);
        }
        let (mut still_gone, mut kept) = (Vec::new(), Vec::new());
        for entry in gone {
            match self.unique(&entry.path).await? {
                Some(unique) if other_names.contains(&unique) => kept.push(entry),
                _ => still_gone.push(entry),
            }
        }
        for entry in kept {
            let message = "not deleted: it is a file of the source, whose name differs there by \
                case or form alone";
            copy.stats.note(format!("{}: {message}", String::from_utf8_lossy(&entry.path)));
        }
        Ok(still_gone)
    }

    /// What tells the file at `path` from all others; nothing where it is not, or nobody says.
    async fn unique(&mut self, path: &[u8]) -> Result<Option<String>, Error> {
        match self {
            Place::Here(root) => {
                let stat = root.stat_link(path).ok();
                Ok(stat.map(|stat| format!("{:x}-{:x}", stat.st_dev, stat.st_ino)))
            }
            Place::There(control, top) => {
                let look = Request::Stat(Pathname::new(join(trim(top), path)));
                let id = control.try_request(look);
                Ok(control.looked(id).await?.and_then(|found| found.unique))
            }
            Place::Nowhere => Ok(None),
        }
    }

    /// How what goes is kept: as it was asked for, and by the path that the folder of it has among
    /// what is `there`.
    async fn backups(&mut self, copy: &Copy<'_>, there: &[Entry]) -> Result<Vec<Backup>, Error> {
        let Some(backup) = &copy.options.backup else { return Ok(Vec::new()) };
        let is_folder = |entry: &&Entry| entry.kind == EntryKind::Directory;
        let found = match self {
            Place::Here(root) => keep_replaced::found_here(backup, root),
            Place::There(control, top) => {
                let folders: Vec<&[u8]> =
                    there.iter().filter(is_folder).map(|entry| &entry.path[..]).collect();
                keep_replaced::found_there(backup, control, top, &folders).await?
            }
            Place::Nowhere => None,
        };
        Ok([backup.clone()].into_iter().chain(found).collect())
    }

    /// The whole path of the folder.
    fn top(&self) -> Vec<u8> {
        match self {
            Place::Here(root) => {
                let whole = root.path().canonicalize().unwrap_or_else(|_| root.path().to_owned());
                whole.into_os_string().into_vec()
            }
            Place::There(_, top) => top.clone(),
            Place::Nowhere => Vec::new(),
        }
    }

    /// Deletes them; what a connection that is lost leaves is for another attempt.
    async fn delete(&mut self, copy: &mut Copy<'_>, gone: &[&Entry]) -> Result<(), Error> {
        let note = |copy: &mut Copy<'_>, entry: &Entry, deleted: Result<(), Error>| match deleted {
            Ok(()) => {
                copy.unheard_deletions.hear(&entry.path);
                copy.stats.deleted.push(entry.path.clone());
                Ok(())
            }
            Err(error) if error.fault == Fault::Between => Err(error),
            Err(error) => {
                copy.unheard_deletions.hear(&entry.path);
                copy.stats.not_deleted.push((entry.path.clone(), error));
                Ok(())
            }
        };
        match self {
            Place::Here(root) => {
                let kept = match keep_replaced::place_here(copy.options.backup.as_ref(), root) {
                    Ok(kept) => kept,
                    Err(error) => {
                        copy.stats.not_deleted.push((Vec::new(), error));
                        return Ok(());
                    }
                };
                let remove = |entry: &Entry| match &kept {
                    Some(kept) if entry.kind != EntryKind::Directory => kept
                        .take_away(root, &entry.path)
                        .map_err(|error| root.error("keep", &entry.path, &error)),
                    _ => remove(root, entry),
                };
                for part in gone.chunks(BETWEEN_LOOKS) {
                    for entry in part {
                        note(copy, entry, remove(entry))?;
                    }
                    // A signal or a deadline has its turn: nothing here waits for anything.
                    tokio::task::yield_now().await;
                    copy.options.cancel.reason().map_or(Ok(()), Err)?;
                }
            }
            Place::There(control, top) if copy.options.backup.is_some() => {
                for entry in gone {
                    copy.unheard_deletions.ask(&entry.path);
                    let done = match &copy.options.backup {
                        Some(backup) if entry.kind != EntryKind::Directory => {
                            keep_replaced::take_away_there(backup, control, top, &entry.path).await
                        }
                        _ => {
                            let path = Pathname::new(join(trim(top), &entry.path));
                            let id = control.request(Request::Exec(Command::RemoveDirectory(path)));
                            control.done(id).await.map(drop)
                        }
                    };
                    note(copy, entry, done)?;
                }
            }
            Place::There(control, top) => {
                for part in gone.chunks(AT_ONCE) {
                    part.iter().for_each(|entry| copy.unheard_deletions.ask(&entry.path));
                    let ask = |entry: &&Entry| {
                        let path = Pathname::new(join(trim(top), &entry.path));
                        control.request(Request::Exec(match entry.kind {
                            EntryKind::Directory => Command::RemoveDirectory(path),
                            _ => Command::Delete(path),
                        }))
                    };
                    let asked: Vec<u64> = part.iter().map(ask).collect();
                    for (entry, id) in part.iter().zip(asked) {
                        note(copy, entry, control.done(id).await.map(drop))?;
                    }
                }
            }
            Place::Nowhere => {}
        }
        Ok(())
    }

    /// Gives folders the times of the source's again, which what was deleted in them has changed. A
    /// server that sets none has said so of its files.
    async fn date(&mut self, folders: &[&Entry]) {
        match self {
            Place::Here(root) => {
                for folder in folders {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                    if let Ok(opened) = root.open_beneath(&folder.path, flags, 0) {
                        let _ = rustix::fs::futimens(&opened, &times(folder));
                    }
                }
            }
            Place::There(control, top) if control.features().mfmt => {
                let ask = |folder: &&Entry| {
                    let time = Timestamp::from_nanos(folder.modified_ns);
                    let path = Pathname::new(join(trim(top), &folder.path));
                    control.try_request(Request::Exec(Command::SetModified(time, path)))
                };
                let asked: Vec<u64> = folders.iter().map(ask).collect();
                for id in asked {
                    let _ = control.done(id).await;
                }
            }
            Place::There(..) | Place::Nowhere => {}
        }
    }
}

fn remove(root: &Root, entry: &Entry) -> Result<(), Error> {
    let flags = match entry.kind {
        EntryKind::Directory => AtFlags::REMOVEDIR,
        _ => AtFlags::empty(),
    };
    let removed = root
        .parent(&entry.path)
        .and_then(|(folder, name)| Ok(unlinkat(&folder, OsStr::from_bytes(&name), flags)?));
    removed.map_err(|error| root.error("delete", &entry.path, &error))
}

/// Paths at which there is a folder on one side alone, of what the selection takes.
fn of_another_kind<'a>(
    ours: &[Entry],
    there: &'a [Entry],
    selection: &Selection,
) -> BTreeSet<&'a [u8]> {
    let is_folder = |entry: &Entry| entry.kind == EntryKind::Directory;
    let kinds: BTreeMap<&[u8], bool> =
        ours.iter().map(|entry| (&entry.path[..], is_folder(entry))).collect();
    let differs = |entry: &&Entry| {
        let kind = kinds.get(&entry.path[..]);
        !entry.path.is_empty()
            && kind.is_some_and(|kind| {
                *kind != is_folder(entry) && selection.takes(b"", &entry.path, *kind)
            })
    };
    there.iter().filter(differs).map(|entry| &entry.path[..]).collect()
}

/// What a source has.
struct SourcePaths<'a> {
    paths: BTreeSet<&'a [u8]>,
    not_copied: BTreeSet<&'a [u8]>,
}

impl SourcePaths<'_> {
    fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
            || self.not_copied.contains(path)
            || is_below(&self.not_copied, path)
    }
}

/// What of `there` is not `known` and not excluded, folders after what is in them. A folder with
/// something in it that stays, stays.
fn extraneous<'a>(
    known: &SourcePaths<'_>,
    there: &'a [Entry],
    selection: &Selection,
    (backups, top): (&[Backup], &[u8]),
) -> Vec<&'a Entry> {
    let stays = |entry: &Entry| {
        let name = entry.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        entry.path.is_empty()
            || known.has(&entry.path)
            || is_hidden(name)
            || backups.iter().any(|backup| backup.owns(top, &entry.path))
            || !selection.takes(b"", &entry.path, entry.kind == EntryKind::Directory)
    };
    let mut above_kept: BTreeSet<&[u8]> = BTreeSet::new();
    for entry in there.iter().filter(|entry| stays(entry)) {
        above_kept.extend(folders_above(&entry.path));
    }
    if backups.iter().any(Backup::is_beside) {
        // What is kept next to itself keeps its folder.
        for entry in there.iter().filter(|entry| entry.kind != EntryKind::Directory) {
            above_kept.extend(folders_above(&entry.path));
        }
    }
    let mut gone: Vec<&Entry> = there
        .iter()
        .filter(|entry| !stays(entry) && !above_kept.contains(&entry.path[..]))
        .collect();
    // A path sorts before what is below it.
    gone.sort_by(|a, b| b.path.cmp(&a.path));
    gone
}

#[cfg(test)]
mod tests;
