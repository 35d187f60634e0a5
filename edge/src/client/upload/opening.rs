//! How an upload begins: this host lists what it sends while the node is connected to, and all
//! questions whose answers the copy waits for go ahead with the login.

use crate::client::claimed::Failures;
use crate::client::control::Control;
use crate::client::copy::Copy;
use crate::client::itself::{LooksAhead, LooksThere};
use crate::client::location::{Location, Remote, last_name};
use crate::client::meanwhile::Meanwhile;
use crate::client::options::{Options, Trial};
use crate::client::source_set::{SourceSet, load, load_store, look_at, names_content, store_among};
use crate::stores::{Prefetch, StoreAddress, UntilDropped, journal_path};
use farline_core::copy::Existing;
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{ListingEntry, ListingKind, Mode, Pathname};
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What was listed, and what of it could not be.
type Loaded = (SourceSet, Failures);

/// What is sent, as it is named on the command line.
pub(super) struct Sources<'a> {
    /// In place of paths.
    store: Option<&'a StoreAddress>,
    paths: Vec<PathBuf>,
    /// The bytes of the one file that is sent, if it is one.
    alone: Option<u64>,
}

impl<'a> Sources<'a> {
    /// Looks at `sources` here: what is wrong with them should not cost a round trip to learn.
    ///
    /// # Errors
    /// When one is not there, or it is a folder and folders are not copied.
    pub(super) fn of(sources: &'a [Location], recursive: bool) -> Result<Sources<'a>, Error> {
        let store = store_among(sources)?;
        let path = |source: &Location| match source {
            Location::Local(path) => Some(path.clone()),
            _ => None,
        };
        let paths: Vec<PathBuf> = sources.iter().filter_map(path).collect();
        let mut alone = None;
        for path in &paths {
            let meta = look_at(path)?;
            if meta.is_dir() && !recursive {
                let message = format!("{} is a directory", path.display());
                return Err(Error::new(Fault::You, ErrorCode::IsADirectory, message)
                    .hint("add -r to copy it with all that is in it"));
            }
            alone = (paths.len() == 1 && meta.is_file()).then_some(meta.len());
        }
        Ok(Sources { store, paths, alone })
    }

    /// Whether it goes, as rsync has it, into what is a folder and under the name of what is not.
    fn is_alone(&self) -> bool {
        self.store.is_some() || self.alone.is_some()
    }

    /// Each path, and what it is called below the destination.
    fn named(&self, into_folder: bool) -> Vec<(PathBuf, Vec<u8>)> {
        let named = |path: &PathBuf| {
            let bytes = path.as_os_str().as_bytes();
            let is_contents = path.is_dir() && names_content(bytes);
            let name = if is_contents || !into_folder { b"" } else { last_name(bytes) };
            (path.clone(), name.to_vec())
        };
        self.paths.iter().map(named).collect()
    }

    /// Where the node has a journal of these, if they were sent before and not to their end.
    fn journals(&self, to: &Remote) -> Vec<Pathname> {
        let path = |into_folder: bool| {
            let names = self.named(into_folder).into_iter().map(|(_, name)| name).collect();
            Pathname::new(journal_path(&to.path, names))
        };
        match self.is_alone() && !to.path.ends_with(b"/") {
            // What a store holds is not gone on with.
            _ if self.store.is_some() || to.store.is_some() => Vec::new(),
            true => vec![path(false), path(true)],
            false => vec![path(true)],
        }
    }

    /// Begins to list what takes no answer of the node's, and to read its small files until
    /// `connecting` is dropped.
    fn begin_load(
        &self,
        options: &Options,
        to: &Remote,
        connecting: &UntilDropped,
    ) -> Result<Option<Meanwhile<Result<Loaded, Error>>>, Error> {
        if self.is_alone() {
            return Ok(None);
        }
        let (selection, paths, target) =
            (options.selection.clone(), self.paths.clone(), to.path.clone());
        let (prefetches, is_over) = (may_prefetch(options), connecting.flag());
        let load = move || {
            let (mut set, problems) = load(&selection, &paths, target, true)?;
            if let (true, Some(parts)) = (prefetches, set.at.parts()) {
                set.prefetched = Prefetch::of(&set.entries, parts, &is_over);
            }
            Ok((set, problems))
        };
        Meanwhile::begin(load).map(Some)
    }

    /// Lists what was not listed meanwhile.
    fn load(&self, copy: &mut Copy<'_>, to: &Remote, into_folder: bool) -> Result<Loaded, Error> {
        match self.store {
            Some(address) => Ok((load_store(copy, address, to, into_folder)?, Failures::new())),
            None => load(&copy.options.selection, &self.paths, to.path.clone(), into_folder),
        }
    }
}

/// Whether all that is listed is copied, and read as it comes: no trial, and not past the page
/// cache.
fn may_prefetch(options: &Options) -> bool {
    options.existing == Existing::Replace
        && !options.dry_run
        && !options.direct_io.is_wanted()
        && matches!(options.trial, Trial { stall: None, read: None, .. })
}

/// What goes to a node with the login, in this order after the question where it listens.
struct Questions {
    /// What is at the destination: where a folder and a file make a difference.
    looks: bool,
    /// What it knows of the path; with whether the copy is limited.
    path: Option<bool>,
    /// Whether an earlier copy of the same left a journal; of a node that may be another's server
    /// nothing is asked yet.
    journals: Vec<Pathname>,
    /// Whether the destination is the source.
    itself: LooksAhead,
}

impl Questions {
    fn of(options: &Options, sources: &Sources<'_>, to: &Remote) -> Questions {
        let looks = sources.is_alone() && !to.path.ends_with(b"/") && to.store.is_none();
        let is_limited = options.limit.is_some() || options.held.is_some();
        let itself = match to.farline {
            true => LooksAhead::new(&sources.named(true), &to.path),
            false => LooksAhead::default(),
        };
        let path = (is_limited || !options.fresh_start).then_some(is_limited);
        let journals = if to.farline { sources.journals(to) } else { Vec::new() };
        Questions { looks, path, journals, itself }
    }

    fn requests(&self, to: &Remote) -> Vec<Request> {
        let mut requests = vec![Request::Passive { mode: Mode::Extended, striped: false }];
        requests.extend(self.looks.then(|| Request::Stat(Pathname::new(to.path.clone()))));
        requests.extend(self.path.map(Control::path_question));
        requests.extend(self.journals.iter().cloned().map(Request::Stat));
        requests.extend(self.itself.requests());
        requests
    }

    /// They were asked of `control` by these numbers.
    fn asked(self, control: &mut Control, asked: &[u64]) -> Asked {
        let passive = asked[0];
        let mut rest = asked[1..].iter();
        let look = if self.looks { rest.next().copied() } else { None };
        if let Some(&path) = self.path.and_then(|_| rest.next()) {
            control.asked_paths(path);
        }
        let journals = rest.by_ref().take(self.journals.len()).copied().collect();
        Asked { passive, look, journals, itself: self.itself.asked(control, rest.as_slice()) }
    }
}

/// The numbers of the questions.
struct Asked {
    passive: u64,
    look: Option<u64>,
    journals: Vec<u64>,
    itself: Option<LooksThere>,
}

/// A node that is connected to, and what goes there.
pub(super) struct Opened {
    pub(super) control: Control,
    /// The question where it listens.
    pub(super) passive: u64,
    /// What is sent goes into the destination, not under its name.
    pub(super) into_folder: bool,
    pub(super) set: SourceSet,
    /// Whether that is the destination itself.
    pub(super) looks: LooksThere,
    /// The questions whether an earlier copy left a journal there.
    pub(super) journals: Vec<u64>,
}

/// Connects to `to`, and lists `sources`.
///
/// # Errors
/// When it cannot be reached, refuses, or nothing can be listed here.
pub(super) async fn open(
    copy: &mut Copy<'_>,
    sources: &Sources<'_>,
    to: &Remote,
) -> Result<Opened, Error> {
    let connecting = UntilDropped::default();
    let loading = sources.begin_load(copy.options, to, &connecting)?;
    let questions = Questions::of(copy.options, sources, to);
    let (requests, expected) = (questions.requests(to), sources.alone.map(Bytes));
    let (mut control, asked) = Control::open_for_copy(to, copy.options, requests, expected).await?;
    drop(connecting);
    let Asked { passive, look, mut journals, itself } = questions.asked(&mut control, &asked);
    control.require(to).await?;
    if journals.is_empty() && control.features().tree {
        // The answers come with the round trip that the channels take.
        let look = |journal: Pathname| control.request(Request::Stat(journal));
        journals = sources.journals(to).into_iter().map(look).collect();
    }
    let is_folder =
        |there: Option<ListingEntry>| there.is_some_and(|it| it.kind == ListingKind::Directory);
    let into_folder = match look {
        Some(look) => is_folder(control.looked(look).await?),
        None => true,
    };
    let (set, problems) = match loading {
        Some(loading) => loading.done().await??,
        None => sources.load(copy, to, into_folder)?,
    };
    copy.stats.failures.extend(problems);
    let named = || sources.named(into_folder);
    let looks = match itself {
        Some(looks) if into_folder => looks,
        // Asked before it was known whether the destination is a folder.
        Some(looks) => looks.without_names(),
        None => LooksThere::begin(&mut control, named(), &set.target),
    };
    Ok(Opened { control, passive, into_folder, set, looks, journals })
}
