//! Copies from this host to a node, as one tree; to any other GridFTP server [`to_stock`] takes
//! over.

mod opening;

use super::attributes;
use super::by_content::ContentAt;
use super::control::Control;
use super::copy::{Copy, Watched};
use super::dial::handles;
use super::existing::kept_there;
use super::interrupted::interrupted;
use super::itself::LooksThere;
use super::keep_replaced;
use super::location::{Location, Remote, trim};
use super::meanwhile::Meanwhile;
use super::options::Trial;
use super::remote_progress::RemoteProgress;
use super::resources::TransferResources;
use super::selection::DRY_RUN;
use super::sending::{open_resources, send_bytes, send_layout};
use super::source_set::{SourceSet, not_kept};
use super::stream;
use super::to_stock;
use super::transfer_state::TransferState;
use super::tree::{TreeEnd, execute};
use super::unheard::{self, has_left};
use crate::mover::{Audit, BLOCK_LEN, Integrity, ManifestSource, VerdictSource, WantedBlocks};
use crate::stores::{Part, SlowSource, Source, gather, join, place_in};
use crate::sys::lock::lock;
use crate::sys::tcp::TcpInfo;
use farline_core::copy::{
    Agreement, CopyRole, CopySession, CopySummary, Existing, OpenedChannels, TreePart,
};
use farline_core::gridftp::Pathname;
use farline_core::gridftp::client::Request;
use farline_core::transfer::{Block, Entry, EntryKind, Layout, TransferParams};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault, Span};
use opening::{Opened, Sources, open};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// So much is not sent before the node has said what it holds of it, where that takes no longer
/// than this: over a short path all of it would be on its way by then. Over a long one nothing is
/// waited for unless a journal lies there.
const WORTH_A_WAIT: u64 = 64 << 20;
const SHORT_RTT: Span = Span::from_millis(5);
/// Where no journal was seen, a node that says nothing is not waited for any longer; and how often
/// it is looked whether it has said it.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_micros(200);

pub(super) async fn run(
    copy: &mut Copy<'_>,
    sources: &[Location],
    to: &Remote,
) -> Result<(), Error> {
    if let Some(pipe) = sources.iter().find(|source| source.is_ordered()) {
        return alone(copy, pipe, sources, to).await;
    }
    let sources = Sources::of(sources, copy.options.recursive)?;
    let Opened { mut control, passive, into_folder, mut set, mut looks, mut journals } =
        open(copy, &sources, to).await?;
    let mut is_left = false;
    if copy.has_arrived && control.features().tree {
        is_left = has_left(&mut control, std::mem::take(&mut journals)).await;
        if !is_left {
            leave_out_landed(copy, &mut control, &mut set).await?;
        }
    }
    choose(copy, &mut control, to, &mut set).await?;
    let is_over = copy.options.dry_run || set.entries.is_empty();
    // Nothing is arranged for what is refused.
    if is_over || copy.options.backup.is_some() {
        looks.refuse(&mut control, to).await?;
    }
    if is_over {
        match copy.of_source().0 {
            _ if copy.options.dry_run => copy.stats.verified_how = DRY_RUN,
            0 => copy.stats.verified_how = "nothing was copied",
            // All of it had landed.
            _ => {}
        }
        return Ok(());
    }
    let there = There { control, passive, into_folder, journals, is_left };
    send(copy, there, to, set, looks).await
}

/// Sends what is left of `set`: as one tree, or file by file to a server that takes none.
async fn send(
    copy: &mut Copy<'_>,
    mut there: There,
    to: &Remote,
    set: SourceSet,
    mut looks: LooksThere,
) -> Result<(), Error> {
    let There { control, passive, into_folder, .. } = &mut there;
    let folder = match *into_folder {
        true => &set.target[..],
        false => keep_replaced::folder_of(&set.target),
    };
    keep_replaced::arrange(copy.options.backup.as_ref(), control, to, folder).await?;
    let folder = Pathname::new(folder);
    let size = set.entries.iter().map(Entry::len).sum();
    let params = copy.choose(control.rtt(), control.peer_ip(), Some(Bytes(size)), true);
    if control.features().tree {
        return to_tree(copy, there, (to, folder), (set, looks), &params).await;
    }
    looks.refuse(control, to).await?;
    copy.stats.not_kept += set.not_kept(copy.options.attributes);
    to_stock::run(copy, control, *passive, to, set, &params).await
}

/// Counts the files of `set` that an attempt before this one brought to the node, and leaves them
/// out.
async fn leave_out_landed(
    copy: &mut Copy<'_>,
    control: &mut Control,
    set: &mut SourceSet,
) -> Result<(), Error> {
    let Some(content) = content_of(set) else { return Ok(()) };
    let at = |entry: &Entry| place_of(&set.target, entry);
    let landed = unheard::landed(copy, control, &set.entries, at, content).await?;
    set.leave_out(&landed);
    Ok(())
}

/// Where the bytes of `set` are to be compared, if they are files of this host.
fn content_of(set: &SourceSet) -> Option<ContentAt<'_>> {
    let parts = set.parts()?;
    Some(ContentAt::Here(Box::new(|index: usize| {
        let (root, path) = place_in(parts, index, &set.entries[index].path);
        (Arc::clone(root), path)
    })))
}

/// Sends what a pipe, the only one of `sources`, says.
async fn alone(
    copy: &mut Copy<'_>,
    pipe: &Location,
    sources: &[Location],
    to: &Remote,
) -> Result<(), Error> {
    if sources.len() > 1 {
        let message = format!("{} is copied alone, not among other sources", stream::called(pipe));
        return Err(Error::new(Fault::You, ErrorCode::OneSource, message));
    }
    stream::to_node(copy, pipe, to).await
}

/// Takes along which attributes of `set`'s entries are wanted, and leaves out what stays as it is
/// at the node.
async fn choose(
    copy: &mut Copy<'_>,
    control: &mut Control,
    to: &Remote,
    set: &mut SourceSet,
) -> Result<(), Error> {
    let (wanted, existing) = (copy.options.attributes, copy.options.existing);
    if !wanted.is_empty() && !copy.options.dry_run {
        attributes::arrange(copy.options, control, to).await?;
        let SourceSet { entries, at, linked, .. } = &mut *set;
        if let Some(parts) = at.parts() {
            gather(entries, linked, wanted, |index, entry| {
                let (root, path) = place_in(parts, index, &entry.path);
                (&**root, path)
            });
        }
    }
    let at = |entry: &Entry| place_of(&set.target, entry);
    let content = content_of(set);
    let omitted = kept_there(copy, control, existing, &set.entries, at, content).await?;
    match wanted.is_empty() || existing == Existing::Keep {
        true => set.leave_out(&omitted.all()),
        false => {
            attributes::stay(&mut set.entries, &omitted.kept);
            set.leave_out(&omitted.left);
        }
    }
    Ok(())
}

/// Where `entry` of what goes to `target` has its name.
fn place_of(target: &[u8], entry: &Entry) -> Pathname {
    match entry.path.is_empty() {
        true => Pathname::new(target.to_vec()),
        false => Pathname::new(join(trim(target), &entry.path)),
    }
}

/// The server, before anything moves.
struct There {
    control: Control,
    /// The question where it listens.
    passive: u64,
    /// What is sent goes into the destination, not under its name.
    into_folder: bool,
    /// The questions whether an earlier copy left a journal there.
    journals: Vec<u64>,
    /// Whether they are replied to, and it did.
    is_left: bool,
}

/// Sends a tree to a node, and says what became of it where that failed.
async fn to_tree(
    copy: &mut Copy<'_>,
    mut there: There,
    (to, folder): (&Remote, Pathname),
    (set, looks): (SourceSet, LooksThere),
    params: &TransferParams,
) -> Result<(), Error> {
    // A directory that is copied is made with all above it; for files alone none is.
    let is_made = set.entries.iter().any(|entry| entry.kind == EntryKind::Directory);
    let copied = to_farline(copy, &mut there, to, (set, looks), params).await;
    let mut control = there.control;
    let Err(error) = copied else {
        copy.let_go(control);
        return Ok(());
    };
    if error.code == ErrorCode::PathNotFound && !is_made {
        let look = control.try_request(Request::Stat(folder.clone()));
        if matches!(control.looked(look).await, Ok(None)) {
            return Err(no_folder(to, &folder));
        }
    }
    // The node makes durable what it has whole when its client goes.
    let is_kept =
        control.checks() && to.store.is_none() && copy.state.tally.bytes() > BLOCK_LEN as u64;
    Err(match error.code {
        ErrorCode::Interrupted if is_kept => {
            interrupted(error, &format!("at {}, `farline partials ls DIR`", to.host))
        }
        _ => error,
    })
}

fn no_folder(to: &Remote, folder: &Pathname) -> Error {
    let message = format!("{} has no directory {folder}", to.server());
    Error::new(Fault::You, ErrorCode::PathNotFound, message)
        .hint("make it there; a directory that is copied (cp -r) is made, with all above it")
}

/// A tree in three pipelined transfers: manifest, data, digests; the last two again while blocks
/// are missing.
async fn to_farline(
    copy: &mut Copy<'_>,
    there: &mut There,
    to: &Remote,
    (load, looks): (SourceSet, LooksThere),
    params: &TransferParams,
) -> Result<(), Error> {
    let journals = std::mem::take(&mut there.journals);
    let There { control, passive, is_left, .. } = there;
    let role = CopyRole::Sender { source: load.source_id };
    let (path, options) = (Pathname::new(load.target), copy.wants_of(params));
    let session = CopySession::new(role, path, options, control.features(), control.rtt());
    let Agreement { integrity, longest_block, .. } = session.agreement();
    let layout = Arc::new(Layout::within(load.entries, longest_block));
    let parts = load.at.parts().map(<[Part]>::to_vec).unwrap_or_default();
    let (entries, linked) = (Arc::clone(&layout), load.linked);
    // A system call for each file, which need not be waited for.
    let kept = copy.options.attributes;
    let counting = Meanwhile::begin(move || not_kept(entries.entries(), &linked, kept, &parts))?;
    let source = load.at.source(&layout, &copy.options.direct_io, load.prefetched)?;
    let audit = Audit::new(&layout, integrity.digests);
    let mut upload = Upload {
        params,
        hearing: match *is_left {
            true => Some(Hearing::next(&control.remote_progress(), None)),
            false => hearing(control, &layout),
        },
        integrity,
        to,
        looks,
        journals,
        address: control.passive(*passive).await?,
        layout,
        source: tried(source, &copy.options.trial),
        audit: Arc::new(audit),
        remote_progress: control.remote_progress(),
        resources: TransferResources::default(),
    };
    let summary = execute(copy, control, session, &mut upload).await?;
    copy.stats.not_kept += counting.done().await?;
    let named = copy.stats.failures.len();
    upload.count(copy, &summary);
    let unnamed = copy.take_unlanded(control, upload.layout.entries());
    copy.discount(unnamed);
    copy.stats.settle_held(&upload.layout, named, &BTreeSet::new());
    copy.conclude(control, summary);
    copy.end_transfer();
    Ok(())
}

/// That data waits until the node has said what it holds.
#[derive(Clone, Copy, Debug)]
struct Hearing {
    /// Of how many transfers it has begun by then: the list is the first, the data the second.
    begun: u64,
    at_most: Option<Duration>,
}

impl Hearing {
    /// From what has been heard until now.
    fn next(remote_progress: &Mutex<RemoteProgress>, at_most: Option<Duration>) -> Hearing {
        Hearing { begun: lock(remote_progress).begun() + 2, at_most }
    }
}

/// Where it is worth the wait though nothing is known of what the node holds.
fn hearing(control: &Control, layout: &Layout) -> Option<Hearing> {
    let is_worth = layout.payload() >= WORTH_A_WAIT && control.rtt() <= SHORT_RTT;
    is_worth.then(|| Hearing::next(&control.remote_progress(), Some(LONGEST_WAIT)))
}

/// A source as slow as a trial wants it.
fn tried(source: Arc<dyn Source>, trial: &Trial) -> Arc<dyn Source> {
    match *trial {
        Trial { stall: None, read: None, .. } => source,
        Trial { stall, read, .. } => Arc::new(SlowSource::new(source, stall, read)),
    }
}

/// This host, where the files are.
struct Upload<'a> {
    params: &'a TransferParams,
    integrity: Integrity,
    /// The destination, for people.
    to: &'a Remote,
    /// Whether that is the source itself.
    looks: LooksThere,
    /// Where the node listens.
    address: SocketAddr,
    layout: Arc<Layout>,
    source: Arc<dyn Source>,
    audit: Arc<Audit>,
    remote_progress: Arc<Mutex<RemoteProgress>>,
    /// The questions whether an earlier copy left a journal there, until they are replied to.
    journals: Vec<u64>,
    hearing: Option<Hearing>,
    resources: TransferResources,
}

impl Upload<'_> {
    /// Takes over what was sent, and names what could not be read.
    fn count(&self, copy: &mut Copy<'_>, summary: &CopySummary) {
        copy.note_yielded(&self.resources.channels);
        copy.stats.bad_blocks += summary.bad_blocks;
        copy.stats.bad_headers += summary.bad_headers;
        let Upload { layout, audit, .. } = self;
        let unreadable = std::mem::take(&mut *lock(&audit.unreadable));
        let not_sent: u64 =
            unreadable.iter().map(|(index, _)| layout.entries()[*index].len()).sum();
        copy.stats.bytes += layout.payload() - not_sent;
        copy.stats.files += layout.files() - unreadable.len() as u64;
        let entry = |(index, error): (usize, Error)| (layout.entries()[index].path.clone(), error);
        copy.stats.failures.extend(unreadable.into_iter().map(entry));
    }
}

impl TreeEnd for Upload<'_> {
    async fn open(
        &mut self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        _may_grow: bool,
    ) -> Result<OpenedChannels, Error> {
        // Channels and slots of the pass before are given back first.
        self.resources = TransferResources::default();
        let (resources, congestion) =
            open_resources(copy, control, self.address, self.params).await?;
        // The answers came with the channels' round trip, and nothing has moved.
        self.looks.refuse(control, self.to).await?;
        if has_left(control, std::mem::take(&mut self.journals)).await {
            self.hearing = Some(Hearing::next(&self.remote_progress, None));
        }
        copy.stats.congestion = congestion;
        self.resources = resources;
        let count = self.resources.channels.len();
        Ok(OpenedChannels { count, can_grow: false, listening: None })
    }

    async fn carry(
        &mut self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        part: TreePart,
    ) -> Watched<()> {
        copy.state.expect(self.layout.payload(), self.layout.files());
        let told = Arc::clone(&self.remote_progress);
        copy.state.count_files(move || lock(&told).landed());
        let pass = Pass {
            integrity: self.integrity,
            manifest: (part == TreePart::Tree).then(|| ManifestSource::of(&self.layout)),
            layout: Arc::clone(&self.layout),
            source: Arc::clone(&self.source),
            audit: Arc::clone(&self.audit),
            remote_progress: Arc::clone(&self.remote_progress),
            hearing: self.hearing,
        };
        let resources = std::mem::take(&mut self.resources);
        let moved = copy.watch(Some(control), move |state| pass.send(state, resources)).await;
        moved.map(|(tcp, resources)| {
            let TransferResources { channels, slots, .. } = &resources;
            copy.stats.tcp.extend(tcp);
            copy.stats.count_completions(channels);
            // The tuner may have changed both.
            copy.stats.streams = channels.len();
            copy.stats.staging = Some(Bytes((slots.len() * BLOCK_LEN) as u64));
            let congestion = channels.first().and_then(|channel| channel.congestion());
            copy.stats.congestion = congestion.or(copy.stats.congestion.take());
            self.resources = resources;
        })
    }

    fn held(&self) -> ByteRanges {
        lock(&self.remote_progress).all().clone()
    }

    fn unreadable(&self) -> usize {
        lock(&self.audit.unreadable).len()
    }
}

/// One pass over what the node lacks.
struct Pass {
    integrity: Integrity,
    manifest: Option<ManifestSource>,
    layout: Arc<Layout>,
    source: Arc<dyn Source>,
    audit: Arc<Audit>,
    remote_progress: Arc<Mutex<RemoteProgress>>,
    hearing: Option<Hearing>,
}

impl Pass {
    /// Waits until the node, which has the list, says that it takes data, and so what it holds; or
    /// until the copy is broken off, as it is when the node is silent for long or refuses.
    fn wait_for_what_is_held(&self, hearing: Hearing, state: &TransferState) {
        let waiting = Instant::now();
        while lock(&self.remote_progress).begun() < hearing.begun
            && hearing.at_most.is_none_or(|most| waiting.elapsed() < most)
            && state.cancel.wait(LOOK_EVERY).is_none()
        {}
    }

    fn send(
        self,
        state: &TransferState,
        mut resources: TransferResources,
    ) -> Result<(Vec<TcpInfo>, TransferResources), Error> {
        if let Some(manifest) = &self.manifest {
            resources = send_bytes(state, manifest, self.integrity, resources)?;
            if let Some(hearing) = self.hearing {
                self.wait_for_what_is_held(hearing, state);
            }
        }
        state.follow(handles(&resources.channels)?);
        let (layout, remote_progress) =
            (Arc::clone(&self.layout), Arc::clone(&self.remote_progress));
        let held = &state.held;
        // What the node holds is learned while the rest is on its way (clause R-6).
        let is_held = |block: &Block| {
            let is_held = lock(&remote_progress).all().contains(&block.range());
            if is_held {
                held.fetch_add(block.len as u64, Ordering::Relaxed);
            }
            is_held
        };
        let blocks = (0..layout.block_count()).map(|index| layout.block(index));
        let blocks = WantedBlocks::all(blocks.filter(|block| !is_held(block))).unless(&is_held);
        let guard = (self.integrity, Some(&*self.audit));
        let sent = send_layout(
            state,
            &self.layout,
            &*self.source,
            blocks,
            guard,
            &state.tally,
            resources,
        )?;
        let tcp: Vec<_> = sent.channels.iter().filter_map(|channel| channel.tcp_info()).collect();
        let lost = sent.lost > 0;
        resources = TransferResources::after(sent);
        if lost {
            // The node knows what it lacks; this pass has nothing to add.
            resources.channels.clear();
            return Err(Error::new(
                Fault::Between,
                ErrorCode::ChannelLost,
                "data channels were lost",
            )
            .hint(
                "the path lost connections; run the same command again, it goes on from \
                    what arrived",
            ));
        }
        let verdicts = VerdictSource::of(&self.audit, &self.layout);
        resources = send_bytes(state, &verdicts, self.integrity, resources)?;
        Ok((tcp, resources))
    }
}
