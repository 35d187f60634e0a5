//! Sends what a copy moves from this host: opens its channels, and sends one layout over them.

use super::control::Control;
use super::copy::Copy;
use super::dial::dial;
use super::resources::{TransferResources, staging};
use super::transfer_state::TransferState;
use crate::mover::{
    Audit, Integrity, List, Notify, OpenOutcome, SendJob, SendOutcome, Tally, Tuning, WantedBlocks,
    list_layout, send,
};
use crate::stores::Source;
use farline_core::congestion::ControlName;
use farline_core::plan::Reason;
use farline_core::transfer::{Layout, TransferParams, Watermarks};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::net::SocketAddr;
use std::sync::Arc;

/// What stores to a plain FTP server.
pub(super) const PLAIN_FTP_STORES: &str = "curl -T or lftp put can store to it";

/// Opens the channels and maps the staging pool; returns also the congestion control in force.
pub(super) async fn open_resources(
    copy: &mut Copy<'_>,
    control: &mut Control,
    address: SocketAddr,
    params: &TransferParams,
) -> Result<(TransferResources, Option<ControlName>), Error> {
    let options = copy.tcp_options(params.congestion, control.rtt());
    let dialled = dial(copy, control, address, params, &options).await?;
    let congestion = dialled.channels.first().and_then(|channel| channel.congestion());
    let told = control.told_paths().await.out;
    let told = told.map(|seen| (seen, control.server().to_owned()));
    copy.begin_path(address.ip(), told, params.is_by_channels);
    let tuning = copy.tuning(congestion, dialled.opener);
    // A pass begins with a fresh transfer, so that nothing was set before.
    let _ = copy.state.tuning.set(tuning);
    let (channels, slots) = (dialled.channels, staging(params)?);
    Ok((TransferResources { channels, slots, ..TransferResources::default() }, congestion))
}

/// Sends a list as a transfer of its own; it counts as overhead, not as payload.
pub(super) fn send_bytes(
    state: &TransferState,
    list: &dyn List,
    integrity: Integrity,
    resources: TransferResources,
) -> Result<TransferResources, Error> {
    let layout = list_layout(list.len(), resources.channels.len());
    let blocks = WantedBlocks::all(layout.blocks_without(&ByteRanges::new()));
    let sent =
        send_layout(state, &layout, list, blocks, (integrity, None), &Tally::default(), resources)?;
    Ok(TransferResources::after(sent))
}

pub(super) fn send_layout<'a>(
    state: &'a TransferState,
    layout: &Arc<Layout>,
    source: &'a dyn Source,
    blocks: WantedBlocks<'a>,
    (integrity, audit): (Integrity, Option<&'a Audit>),
    tally: &'a Tally,
    resources: TransferResources,
) -> Result<SendOutcome, Error> {
    if resources.channels.is_empty() {
        return Err(Error::new(
            Fault::Between,
            ErrorCode::ChannelLost,
            "every data channel was lost",
        ));
    }
    let tuning = state.tuning.get().filter(|_| std::ptr::eq(tally, &state.tally));
    let open = || {
        let channel = || {
            let channel = tuning?.opener.as_ref()?.open_one().ok()?;
            state.follow_another(channel.handle().ok()?);
            Some(channel)
        };
        channel().map_or(OpenOutcome::NoMore, OpenOutcome::Opened)
    };
    let notify = |why: Reason| state.changed(why);
    // This end opens them itself.
    let tuning = tuning.map(|tuning| Tuning {
        tuning_limits: tuning.tuning_limits,
        ask: &|_| {},
        open: &open,
        notify: &notify,
    });
    let slots = resources.slots.len();
    let watermarks =
        if state.trial.in_turns { Watermarks::in_turns(slots) } else { Watermarks::of_pool(slots) };
    send(SendJob {
        layout: Arc::clone(layout),
        source,
        blocks,
        wire_offset: 0,
        channels: resources.channels,
        slots: resources.slots,
        watermarks,
        readers: 2,
        audit,
        integrity,
        tally,
        pace: state.pace.clone(),
        tuning,
        start: state
            .start
            .get()
            .filter(|_| std::ptr::eq(tally, &state.tally))
            .map(|start| (start, &notify as Notify<'_>)),
        on_resize: state.on_resize(tally, &notify),
        held: state.rate.zip(state.live_rate.clone()),
        yields: state
            .rate
            .filter(|_| std::ptr::eq(tally, &state.tally))
            .map(|held| (held.share(), &notify as Notify<'_>)),
        cancel: state.cancel.clone(),
    })
}
