//! Copies from a node to this host, as one tree; from any other GridFTP server [`from_stock`] takes
//! over.

use super::attributes;
use super::by_content::ContentAt;
use super::channel_opener::ChannelOpener;
use super::control::Control;
use super::copy::{Copy, Watched, known};
use super::destination::{Destination, destination, has_partial, kept_of, refuse_file_as_folder};
use super::dial::dial;
use super::existing::{blocks_of, omitted_here, shares_blocks, without};
use super::from_stock;
use super::itself;
use super::location::{Location, Remote, trim};
use super::options::Options;
use super::other_names::take_from_names_that_come;
use super::receiving::{listen, receive_layout, receive_list};
use super::resources::{TransferResources, staging};
use super::transfer_state::TransferState;
use super::tree::{TreeEnd, execute};
use crate::mover::{BLOCK_LEN, Incoming, Integrity, MANIFEST_LIMIT, VerdictSink, entries_of};
use crate::stores::{BytesSink, Landed, Landing, ResumeState, join};
use crate::sys::lock::lock;
use farline_core::copy::{
    Agreement, CopyOptions, CopyRole, CopySession, CopySummary, Existing, OpenedChannels,
    SenderControl, TreePart, leave, only,
};
use farline_core::gridftp::client::Request;
use farline_core::gridftp::{Mode, Pathname};
use farline_core::transfer::journal::PartialOrigin;
use farline_core::transfer::{Digests, Entry, EntryKind, Layout, TransferParams};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault};
use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

pub(super) async fn run(
    copy: &mut Copy<'_>,
    from: &Remote,
    to: &Location,
    several: bool,
) -> Result<(), Error> {
    // Where the node knows keys its data port is known as soon as the login is done.
    let passive = Request::Passive { mode: Mode::Extended, striped: false };
    let ahead = vec![Request::ToFarline(Box::new(passive))];
    let (mut control, ahead) = copy.session_with(from, ahead).await?;
    control.require(from).await?;
    let mut params = copy.choose(control.rtt(), None, None, false);
    let is_ordered = control.features().order;
    if to.is_ordered() && !is_ordered {
        // What several channels bring cannot be set right with bounded memory unless each is in
        // order.
        params.streams = 1;
        copy.stats.streams = 1;
    }
    if let (Location::Local(to), None) = (to, &from.store) {
        let to = (to.as_path(), from.name(), several, from.names_content());
        itself::refuse_back(&mut control, (from, &from.path), to).await?;
    }
    // What would come is asked for as from any server: nothing is begun.
    if !copy.options.dry_run {
        attributes::arrange(copy.options, &mut control, from).await?;
    }
    take_only(&mut control, from)?;
    let copied = if control.features().tree && !copy.options.dry_run {
        from_farline(copy, &mut control, ahead[0], from, to, several, &params).await
    } else {
        from_stock::run(copy, &mut control, from, to, several, &params).await
    };
    copied.map_err(|error| kept_of(error, to, from.name(), from.names_content()))?;
    match several {
        true => copy.park(from, control),
        false => copy.let_go(control),
    }
    Ok(())
}

/// Has the node send what is meant of the folder alone (T-13).
fn take_only(control: &mut Control, from: &Remote) -> Result<(), Error> {
    if from.only.is_empty() {
        return Ok(());
    }
    let requests = only(from.only.iter().map(|name| &name[..]));
    let Some(requests) = requests.filter(|_| control.features().only) else {
        let message = format!("{} does not take names in a folder any more", from.server());
        return Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
            .hint("run the same command again"));
    };
    for request in requests {
        control.request(request);
    }
    Ok(())
}

/// That nothing came but what was asked for.
fn check_only(from: &Remote, entries: &[Entry]) -> Result<(), Error> {
    let top = |entry: &Entry| entry.path.split(|&byte| byte == b'/').next().map(<[u8]>::to_vec);
    let asked: HashSet<&[u8]> = from.only.iter().map(|name| &name[..]).collect();
    let is_other = |entry: &&Entry| !top(entry).is_some_and(|name| asked.contains(&name[..]));
    match entries.iter().find(is_other).filter(|_| !asked.is_empty()) {
        None => Ok(()),
        Some(other) => {
            let message =
                format!("sent what was not asked for: {}", String::from_utf8_lossy(&other.path));
            Err(Error::new(Fault::There, ErrorCode::BadManifest, message))
        }
    }
}

/// What is to be agreed with the node, and done.
fn session(
    copy: &Copy<'_>,
    control: &Control,
    from: &Remote,
    to: &Location,
    params: &TransferParams,
) -> CopySession {
    let congestion = params.congestion.map(|name| SenderControl {
        is_asked: copy.asked_congestion().is_some(),
        is_known: known(name).is_ok(),
        name,
    });
    let options =
        CopyOptions { in_order: to.is_ordered(), control: congestion, ..copy.wants_of(params) };
    let role = CopyRole::Receiver {
        may_hold: has_partial(to, from.name(), from.names_content()),
        may_stay: may_stay(copy.options),
    };
    let path = Pathname::new(from.path.clone());
    CopySession::new(role, path, options, control.features(), control.rtt())
}

/// Whether it is known beforehand that something of a tree may stay behind: the node is told what
/// before it sends.
fn may_stay(options: &Options) -> bool {
    options.existing != Existing::Replace || !options.selection.is_all()
}

async fn from_farline(
    copy: &mut Copy<'_>,
    control: &mut Control,
    passive: u64,
    from: &Remote,
    to: &Location,
    several: bool,
    params: &TransferParams,
) -> Result<(), Error> {
    let session = session(copy, control, from, to, params);
    let mut download = Download {
        from,
        to,
        several,
        params,
        agreement: session.agreement(),
        passive,
        address: None,
        resources: TransferResources::default(),
        text: BytesSink::new(0),
        is_listed: false,
        tree: None,
        arrived: Arc::default(),
        landed: Landed::default(),
        stay: BTreeSet::new(),
        settled: None,
    };
    let summary = match execute(copy, control, session, &mut download).await {
        Err(error) if error.code == ErrorCode::PathNotFound && !download.is_listed => {
            let message = format!("{from} does not exist");
            return Err(Error::new(Fault::You, ErrorCode::PathNotFound, message));
        }
        ended => ended?,
    };
    download.conclude(copy, control, summary).await
}

/// This host, where the files land.
struct Download<'a> {
    from: &'a Remote,
    to: &'a Location,
    several: bool,
    params: &'a TransferParams,
    agreement: Agreement,
    /// The request that tells where the node listens, and its answer.
    passive: u64,
    address: Option<SocketAddr>,
    resources: TransferResources,
    /// The list, once it has come.
    text: BytesSink,
    /// Whether it has come: until then only the node has looked for anything.
    is_listed: bool,
    /// Where its files go, once that is known.
    tree: Option<Tree>,
    arrived: Arc<Mutex<ByteRanges>>,
    landed: Landed,
    /// What of its entries does not land, though bytes of them may come, by their number.
    stay: BTreeSet<usize>,
    /// What stays here, but for its attributes, and where.
    settled: Option<(Destination, Vec<Entry>)>,
}

impl Download<'_> {
    /// Takes over what came, and gives attributes to what stays.
    async fn conclude(
        self,
        copy: &mut Copy<'_>,
        control: &Control,
        summary: CopySummary,
    ) -> Result<(), Error> {
        let Download { from, resources, landed, stay, settled, tree, .. } = self;
        // Its lock on the place is given back first.
        let layout = tree.map(|tree| tree.layout);
        let entries = layout.as_ref().map_or(&[][..], |layout| layout.entries());
        let named = copy.stats.failures.len();
        copy.take_left_out(control, from.name_within(), entries);
        copy.conclude(control, summary);
        copy.stats.streams = resources.channels.len();
        copy.stats.staging = Some(Bytes((resources.slots.len() * BLOCK_LEN) as u64));
        copy.take_landed(landed);
        if let Some(layout) = &layout {
            copy.stats.settle_held(layout, named, &stay);
        }
        copy.stats.count_completions(&resources.channels);
        copy.stats.tcp.extend(resources.tcp);
        if let Some((place, entries)) = settled {
            attributes::settle_here(copy, &place, entries).await?;
        }
        copy.end_transfer();
        Ok(())
    }
}

/// What is in the tree, and where it lands.
#[derive(Clone)]
struct Tree {
    layout: Arc<Layout>,
    sink: Arc<dyn Landing>,
    digests: Arc<Mutex<Digests>>,
}

impl TreeEnd for Download<'_> {
    /// Opens the channels to the node, so that this end need not be reachable: K-4. A node without
    /// keys connects to us.
    async fn open(
        &mut self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        may_grow: bool,
    ) -> Result<OpenedChannels, Error> {
        // Where the rate is held there, it is held once.
        copy.state.paced_there.store(self.agreement.is_limited, Ordering::Relaxed);
        let limits = copy.state.live_rate.clone().zip(copy.options.limit);
        if let Some((live, told)) = limits.filter(|_| self.agreement.is_limited) {
            control.follow(live, told);
        }
        if control.agreed_key().await?.is_none() {
            let (resources, address) = listen(copy, control, self.params).await?;
            self.resources = resources;
            let (count, listening) = (self.params.streams, Some(address));
            return Ok(OpenedChannels { count, can_grow: false, listening });
        }
        let address = match self.address {
            Some(address) => address,
            None => *self.address.insert(control.passive(self.passive).await?),
        };
        let options = copy.tcp_options(None, control.rtt());
        let dialled = dial(copy, control, address, self.params, &options).await?;
        let (slots, count) = (staging(self.params)?, dialled.channels.len());
        let acceptor = dialled.opener.filter(|_| may_grow).map(|opener| {
            let most = slots.len().saturating_sub(2);
            let opener = ChannelOpener::new(opener, control.remote_progress(), count, most);
            Arc::new(opener) as Arc<dyn Incoming + Send>
        });
        let can_grow = acceptor.is_some();
        let channels = dialled.channels;
        self.resources = TransferResources { acceptor, channels, slots, tcp: Vec::new() };
        Ok(OpenedChannels { count, can_grow, listening: None })
    }

    async fn carry(
        &mut self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        part: TreePart,
    ) -> Watched<()> {
        let integrity = self.agreement.integrity;
        let resources = std::mem::take(&mut self.resources);
        let Some(tree) = self.tree.clone().filter(|_| part == TreePart::Files) else {
            let moved = copy.watch(Some(control), move |state| {
                let text = BytesSink::new(MANIFEST_LIMIT);
                let resources = receive_list(state, resources, (&text, MANIFEST_LIMIT), integrity)?;
                Ok((resources, text))
            });
            let listed = moved.await;
            return listed.map(|listed| (self.resources, self.text) = listed);
        };
        copy.state.expect(tree.layout.payload(), tree.layout.files());
        copy.state.held.store(lock(&self.arrived).total(), Ordering::Relaxed);
        let Tree { layout, sink, digests } = tree;
        let (arrived, counted) = (Arc::clone(&self.arrived), Arc::clone(&sink));
        copy.state.count_files(move || counted.landed());
        let pass = Pass { integrity, layout, sink, digests, arrived };
        let moved = copy.watch(Some(control), move |state| pass.receive(state, resources)).await;
        moved.map(|landed| (self.landed, self.resources) = landed)
    }

    fn held(&self) -> ByteRanges {
        lock(&self.arrived).clone()
    }

    async fn prepare(
        &mut self,
        copy: &mut Copy<'_>,
        control: &mut Control,
    ) -> Result<ByteRanges, Error> {
        self.is_listed = true;
        let text = std::mem::replace(&mut self.text, BytesSink::new(0));
        let mut entries = entries_of(text)?;
        check_only(self.from, &entries)?;
        let is_folder = !matches!(&entries[..], [only] if only.path.is_empty() && only.kind != EntryKind::Directory);
        let name = self.from.name();
        refuse_file_as_folder(self.from, is_folder)?;
        // Which of several names are folders is known already.
        if is_folder && self.from.only.is_empty() && !copy.options.recursive {
            return Err(Error::new(
                Fault::You,
                ErrorCode::IsADirectory,
                format!("{} is a directory", String::from_utf8_lossy(name)),
            )
            .hint("add -r to copy it with all that is in it"));
        }
        let place = destination(
            self.to,
            name,
            is_folder,
            self.from.names_content(),
            self.several,
            (copy.options, false),
        )?;
        let top = self.from.name_within();
        let left = match copy.options.attributes.is_empty() {
            true => BTreeSet::new(),
            false => attributes::left_alone(copy, &place, top, &entries),
        };
        let known_there = take_from_names_that_come(&mut entries, &left);
        let longest_block = self.agreement.longest_block;
        let mut layout = Layout::within(entries, longest_block);
        let entries = layout.entries();
        let path_of =
            |index: usize| Pathname::new(join(trim(&self.from.path), &entries[index].path));
        let there = ContentAt::There(&mut *control, Box::new(path_of));
        let omitted = omitted_here(copy, Some(&place), top, entries, Some(there)).await?;
        let mut kept = omitted.all();
        if !copy.options.attributes.is_empty() && copy.options.existing != Existing::Keep {
            let mut stays: Vec<Entry> =
                omitted.kept.iter().map(|&index| entries[index].clone()).collect();
            let all = (0..stays.len()).collect();
            attributes::stay(&mut stays, &all);
            stays.retain(|entry| matches!(entry.kind, EntryKind::There { .. }));
            if !stays.is_empty() {
                // What is set below changes the time of the top.
                let top = entries.first().filter(|top| is_folder && top.path.is_empty());
                if let Some(top) = top {
                    stays.insert(0, top.clone());
                }
                self.settled = Some((place.below(b""), stays));
            }
        }
        let path_there = |index: usize| known_there.get(&index).unwrap_or(&entries[index].path);
        let paths = kept.iter().map(|&index| path_there(index).as_slice());
        // What another source has taken comes, and is dropped: the node has begun already.
        let may_leave =
            may_stay(copy.options) && control.features().leave && shares_blocks(&layout, &kept);
        if let Some(requests) = leave(paths).filter(|_| may_leave) {
            // T-10: the node lays the rest out anew, and nothing comes that is here.
            for request in requests {
                control.request(request);
            }
            layout = Layout::within(without(layout.entries().to_vec(), &kept), longest_block);
            kept.clear();
        }
        let layout = Arc::new(layout);
        let sink: Arc<dyn Landing> = place.sink(&layout, copy.options)?.into();
        sink.leave(&kept);
        let Integrity { checks, digests, .. } = self.agreement.integrity;
        let source = self.from.source_id();
        let held = if checks { sink.begin(PartialOrigin { source, digests })? } else { None }
            .unwrap_or_else(|| ResumeState::nothing(&layout, digests));
        sink.make_folders()?;
        copy.stats.hold(held.blocks.clone());
        let mut arrived = held.blocks;
        for range in blocks_of(&layout, &kept).iter() {
            arrived.insert(range);
        }
        *lock(&self.arrived) = arrived.clone();
        self.stay = kept;
        self.tree = Some(Tree { layout, sink, digests: Arc::new(Mutex::new(held.digests)) });
        Ok(arrived)
    }

    fn refuse(&self) {
        self.tree.iter().for_each(|tree| tree.sink.refuse());
    }
}

/// One pass over what is not here yet, to the landing.
struct Pass {
    integrity: Integrity,
    layout: Arc<Layout>,
    sink: Arc<dyn Landing>,
    digests: Arc<Mutex<Digests>>,
    arrived: Arc<Mutex<ByteRanges>>,
}

impl Pass {
    fn receive(
        self,
        state: &TransferState,
        resources: TransferResources,
    ) -> Result<(Landed, TransferResources), Error> {
        let Pass { integrity, layout, sink, digests, arrived } = self;
        let guard = (integrity, integrity.digests.map(|_| &*digests));
        let (resources, _) =
            receive_layout(state, resources, &layout, &*sink, guard, &arrived, &state.tally)?;
        let total = lock(&arrived).total();
        if total != layout.payload() {
            let message = format!("{total} of {} bytes are here", layout.payload());
            return Err(match integrity.checks {
                true => Error::new(Fault::Between, ErrorCode::BlocksMissing, message).hint(
                    "the path changed or lost data; run the same command again, it goes on \
                        from what arrived",
                ),
                false => Error::new(Fault::There, ErrorCode::Incomplete, message),
            });
        }
        let list = VerdictSink::new(&layout);
        let resources = receive_list(state, resources, (&list, list.len()), integrity)?;
        let verdicts = list.finish()?;
        let digests = lock(&digests);
        Ok((state.alone(|| sink.land(Some((&verdicts, &digests)))), resources))
    }
}
