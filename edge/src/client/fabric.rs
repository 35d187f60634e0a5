//! Opens a copy's data connections by RDMA where that was asked for and can be, else by TCP, and
//! then says why.

use super::control::Control;
use super::copy::Copy;
use super::dial::{DataPath, Dialed, dial};
use super::options::RdmaOptions;
use crate::channels::Channel;
use crate::channels::rdma::{Dialer, Fabric, Offered};
use crate::channels::tcp::TcpOptions;
use crate::mover::BLOCK_LEN;
use crate::sys::verbs::device_count;
use farline_core::transfer::TransferParams;
use farline_core::units::{Bytes, Error, Fault};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long one channel may take to be made, beside some round trips.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the data connections to the node, which listens at `address`.
///
/// # Errors
/// When no way leads there.
pub(super) async fn open(
    copy: &mut Copy<'_>,
    control: &mut Control,
    address: SocketAddr,
    choice: &TransferParams,
    options: &TcpOptions,
) -> Result<Dialed, Error> {
    let Some(wish) = copy.options.rdma.filter(|_| !copy.stats.gave_up_rdma) else {
        return dial(control, address, choice.streams, options).await;
    };
    copy.stats.tried_rdma = true;
    let queue_pairs = wish.queue_pairs_at(control.rtt());
    // Streams are TCP's way to fill a path; here queue pairs are.
    let streams = copy.options.overrides.streams.unwrap_or(1).max(1);
    let credits = choice.slots_for(streams, Bytes(BLOCK_LEN as u64)) / 2 / streams;
    let elastic = copy.live.is_elastic();
    let RdmaOptions { exchange, read, .. } = wish;
    let (slot_len, rtt) = (Bytes(BLOCK_LEN as u64), control.rtt());
    let fabric = Fabric { queue_pairs, credits, elastic, slot_len, rtt, exchange, read };
    match by_rdma(control, address, streams, fabric).await {
        Ok((channels, reads)) => {
            copy.stats.streams = streams;
            if read && !reads {
                copy.stats.note(
                    "by RDMA WRITE instead of READ: the node does not announce that it reads"
                        .to_owned(),
                );
            }
            Ok(Dialed { channels, path: DataPath::Rdma, encrypted: false, line: None })
        }
        Err(error) => {
            copy.stats.gave_up_rdma = true;
            copy.stats.note(match error.hint {
                Some(hint) => format!("over TCP instead of RDMA: {} ({hint})", error.message),
                None => format!("over TCP instead of RDMA: {}", error.message),
            });
            // Where the node was never asked for RDMA, its address is one for TCP.
            let address = if control.is_by_rdma() { control.arrange_tcp().await? } else { address };
            dial(control, address, choice.streams, options).await
        }
    }
}

/// Opens the channels by RDMA; says whether blocks are read on them.
async fn by_rdma(
    control: &mut Control,
    address: SocketAddr,
    streams: usize,
    fabric: Fabric,
) -> Result<(Vec<Box<dyn Channel>>, bool), Error> {
    device_count()?;
    let timeout = PATIENCE + 10 * Duration::from(fabric.rtt);
    let (address, dialler) = control.arrange_rdma(address, fabric).await?;
    let reads = dialler.reads();
    if dialler.is_by_exchange() {
        return Ok((by_exchange(control, address, streams, dialler).await?, reads));
    }
    let opening = tokio::task::spawn_blocking(move || {
        (0..streams)
            .map(|_| Ok(Box::new(dialler.open(address, timeout)?) as Box<dyn Channel>))
            .collect()
    });
    let channels: Result<_, Error> = opening.await.unwrap_or_else(|_| Err(thread_lost()));
    Ok((channels?, reads))
}

/// Opens channels by what both ends tell each other over the control connection: V-9.
async fn by_exchange(
    control: &mut Control,
    address: SocketAddr,
    streams: usize,
    dialler: Arc<Dialer>,
) -> Result<Vec<Box<dyn Channel>>, Error> {
    let making =
        tokio::task::spawn_blocking(move || (0..streams).map(|_| dialler.offer(address)).collect());
    let offers: Vec<Offered> = making.await.unwrap_or_else(|_| Err(thread_lost()))?;
    // All at once: a round trip for all channels, however many queue pairs each has.
    let asked: Vec<u64> = offers.iter().map(|offer| control.offer_rdma(offer.text())).collect();
    let mut answers = Vec::new();
    for id in asked {
        answers.push(control.taken_rdma(id).await?);
    }
    let joining = tokio::task::spawn_blocking(move || {
        let channels = offers.into_iter().zip(answers);
        channels
            .map(|(offer, answer)| Ok(Box::new(offer.connect(&answer)?) as Box<dyn Channel>))
            .collect()
    });
    joining.await.unwrap_or_else(|_| Err(thread_lost()))
}

fn thread_lost() -> Error {
    Error::new(Fault::Bug, "thread-lost", "a thread panicked")
}
