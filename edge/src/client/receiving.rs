//! Receives what a copy moves to this host: listens for a stock server's channels, and receives one
//! layout over them.

use super::control::Control;
use super::copy::Copy;
use super::data_path::DataPath;
use super::resources::{TransferResources, staging};
use super::transfer_state::TransferState;
use crate::mover::{
    Acceptor, BLOCK_LEN, DataPeers, Incoming, Integrity, PortSecurity, ReceiveJob, ReceiveOutcome,
    SecuredPort, Tally, receive,
};
use crate::stores::{Sink, SlowSink};
use farline_core::gridftp::Command;
use farline_core::gridftp::client::Request;
use farline_core::plan::Reason;
use farline_core::transfer::{Digests, Layout, TransferParams};
use farline_core::units::{ByteRanges, Bytes, Error, ErrorCode, Fault};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Asks the server for the socket buffers that were asked for here; one that does not know how
/// keeps its own.
pub(super) fn tell_buffer(copy: &Copy<'_>, control: &mut Control) {
    if let Some(Bytes(len)) = copy.options.buffer {
        control.try_request(Request::Exec(Command::SocketBuffer(len)));
    }
}

/// Listens for the server's channels.
pub(super) async fn listen(
    copy: &mut Copy<'_>,
    control: &mut Control,
    params: &TransferParams,
) -> Result<(TransferResources, SocketAddr), Error> {
    if control.data_tls().await?.is_some() {
        return Err(Error::new(
            Fault::There,
            ErrorCode::CannotEncrypt,
            "the server encrypts, but knows no keys",
        ));
    }
    copy.stats.data_path = Some(DataPath::Direct);
    let here = SocketAddr::new(control.local()?.ip(), 0);
    let options = copy.tcp_options(None, control.rtt());
    let (acceptor, address): (Arc<dyn Incoming + Send>, _) = match control.data_security().await? {
        None => {
            copy.stats.encrypted = Some(false);
            let acceptor = Acceptor::bind(here, None, DataPeers::any(), &options)?;
            let address = acceptor.address();
            (Arc::new(acceptor), address)
        }
        Some(security) => {
            copy.stats.encrypted = Some(security.is_private());
            // Who is somebody else is closed, and the server says what it lacks.
            let (peers, security) = ((DataPeers::any(), None), PortSecurity::Gsi(security));
            let port = SecuredPort::open(here, None, peers, &options, security, |_, _| {})?;
            let address = port.address();
            (Arc::new(port), address)
        }
    };
    let resources = TransferResources {
        acceptor: Some(acceptor),
        slots: staging(params)?,
        ..TransferResources::default()
    };
    Ok((resources, address))
}

/// Receives a list of bytes as a transfer of its own; it counts as overhead, not as payload.
pub(super) fn receive_list(
    state: &TransferState,
    resources: TransferResources,
    (sink, limit): (&dyn Sink, usize),
    integrity: Integrity,
) -> Result<TransferResources, Error> {
    let layout = Arc::new(Layout::of_file(limit.max(1) as u64, BLOCK_LEN));
    let tally = Tally::default();
    let (resources, lost) = receive_layout(
        state,
        resources,
        &layout,
        sink,
        (integrity, None),
        &Mutex::default(),
        &tally,
    )?;
    match lost || tally.bad_blocks() > 0 {
        true => {
            Err(Error::new(Fault::Between, ErrorCode::BlocksMissing, "a list did not arrive whole")
                .hint(
                    "the path changed or lost data; run the same command again, it goes on from \
                what arrived",
                ))
        }
        false => Ok(resources),
    }
}

/// Receives a transfer; returns also whether a channel was lost, so that there may be holes.
pub(super) fn receive_layout(
    state: &TransferState,
    resources: TransferResources,
    layout: &Arc<Layout>,
    sink: &dyn Sink,
    (integrity, digests): (Integrity, Option<&Mutex<Digests>>),
    held: &Mutex<ByteRanges>,
    tally: &Tally,
) -> Result<(TransferResources, bool), Error> {
    let notify = |why: Reason| state.changed(why);
    let slow =
        state.trial.slows_sink().then(|| SlowSink::new(sink, state.trial.write, state.trial.sync));
    let sink = slow.as_ref().map_or(sink, |slow| slow as &dyn Sink);
    let ReceiveOutcome { channels, slots, tcp, lost, .. } = receive(ReceiveJob {
        layout: Arc::clone(layout),
        sink,
        wire_offset: 0,
        channels: resources.channels,
        acceptor: resources.acceptor.as_deref().map(|acceptor| acceptor as &dyn Incoming),
        on_resize: state.on_resize(tally, &notify),
        slots: resources.slots,
        writers: 2,
        digests,
        tally,
        held,
        integrity,
        pace: state.receiving_pace(),
        unsent: None,
        cancel: state.cancel.clone(),
    })?;
    Ok((TransferResources { acceptor: resources.acceptor, channels, slots, tcp }, lost))
}
