//! Opens the data connections of a copy from this end, by the first of the registry's offers that
//! comes about: straight to the node's data port, or, where that cannot be reached, through ssh or
//! the control port (docs/protocol.md: K-1, K-5, P-2, H-2).

use super::connect_options::connect_timeout;
use super::control::Control;
use super::copy::Copy;
use super::data_path::DataPath;
use super::outcome::DataDirection;
use crate::channels::driver::{Carries, CongestionBy, Dialer, Peer, Session, Slots, Tunnel};
use crate::channels::layer::TlsPeer;
use crate::channels::offers::{Fallback, Need, Offer, Route, Tunnelled};
use crate::channels::one_port;
use crate::channels::socket::may_choose;
use crate::channels::stack::Opener;
use crate::channels::{Channel, Handle, TcpOptions};
use crate::mover::BLOCK_LEN;
use farline_core::plan::{ControlReason, Reason};
use farline_core::transfer::TransferParams;
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a stock server's data port may take; it has no other way in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Open data connections.
pub(super) struct Dialed {
    pub(super) channels: Vec<Box<dyn Channel>>,
    /// How to open more of them to a node, where that is cheap.
    pub(super) opener: Option<Opener>,
}

/// Opens the data connections to the node, which listens at `address`, and notes which way data
/// goes.
///
/// # Errors
/// When no way leads there.
pub(super) async fn dial(
    copy: &mut Copy<'_>,
    control: &mut Control,
    address: SocketAddr,
    params: &TransferParams,
    sockets: &TcpOptions,
) -> Result<Dialed, Error> {
    let encrypt = control.data_tls().await?.is_some();
    let keyed = control.agreed_key().await?.is_some();
    let grid = control.data_security().await?;
    let asked = copy.channel(encrypt).filter(|_| !copy.stats.gave_up_channel);
    copy.stats.tried_channel |= asked.is_some();
    let offers = copy.options.drivers.offers(&Need {
        asked: asked.as_ref(),
        encrypt,
        keyed,
        tunnel: match (control.is_carried(), control.is_over_ssh()) {
            _ if control.is_over_udp() => Tunnelled::OnePort(one_port::DRIVER),
            (true, _) => Tunnelled::Must,
            (false, true) => Tunnelled::May,
            (false, false) => Tunnelled::No,
        },
        peer: Peer { server: control.server(), has: &|feature| control.has(feature) },
    })?;
    let mut fallback = Fallback::new(offers);
    while let Some(offer) = fallback.try_next() {
        match by(copy, control, address, &offer, params, sockets).await {
            Ok(dialled) => {
                let driver = offer.stack.channel().name;
                copy.stats.gave_up_channel |=
                    asked.is_some_and(|asked| asked.channel().name != driver);
                if copy.stats.gave_up_channel
                    && let Some(params) = &mut copy.stats.params
                {
                    let is_channels =
                        |why: &Reason| matches!(why, Reason::Control(_, ControlReason::Channel(_)));
                    params.reasons.retain(|why| !is_channels(why));
                }
                copy.note_profiled(driver);
                if let Some(why) = fallback.instead() {
                    copy.stats.channel_fallback = Some(why.to_owned());
                }
                fallback.notes().into_iter().for_each(|note| copy.stats.note(note));
                copy.stats.data_path = Some(DataPath::of(&offer));
                // Whether a stranger on the way can read nothing.
                let is_private = grid.is_some_and(|grid| grid.is_private());
                copy.stats.encrypted = Some(is_private || offer.stack.is_encrypted());
                return Ok(dialled);
            }
            Err(error) => fallback.failed(error)?,
        }
    }
    Err(Error::new(Fault::Bug, ErrorCode::NoChannel, "an offer came about without channels"))
}

/// Opens the data connections as `offer` has it.
async fn by(
    copy: &mut Copy<'_>,
    control: &mut Control,
    address: SocketAddr,
    offer: &Offer,
    params: &TransferParams,
    sockets: &TcpOptions,
) -> Result<Dialed, Error> {
    let stack = &offer.stack;
    let can = stack.channel().capabilities;
    // Streams are one driver's way to fill a path; connections inside a channel are another's.
    let has_connections = stack.connections(control.rtt()) > 0;
    let streams = match has_connections {
        true if copy.options.held.is_none() => copy.options.overrides.streams.unwrap_or(1).max(1),
        _ => params.streams,
    };
    let (tunnel, address) = match offer.route {
        Route::Tunnel => {
            let (ssh, address) = control.rearrange_for_ssh().await?;
            control.data_tls().await?;
            (Some(ssh as Arc<dyn Tunnel>), address)
        }
        Route::ControlPort => (None, control.peer()?),
        Route::Straight => (None, address),
    };
    let mut sockets = sockets.clone();
    if can.congestion == CongestionBy::Kernel && copy.own_control()?.is_some() {
        // It was asked of another driver.
        sockets.congestion = sockets.congestion.filter(|&name| may_choose(name).is_ok());
    }
    if sockets.held.is_some() && can.congestion != CongestionBy::Driver {
        if can.congestion == CongestionBy::Below || offer.route != Route::Straight {
            let message = format!("a rate cannot be held over {}", offer.stack);
            return Err(Error::new(Fault::Here, ErrorCode::HeldRateRefused, message));
        }
        if copy.stats.direction == DataDirection::Out {
            sockets.congestion = Some(copy.obtain_held()?);
        }
    }
    let key = control.agreed_key().await?;
    let begin = params.slots_for(streams, Bytes(BLOCK_LEN as u64)) / 2 / streams.max(1);
    let most = (!copy.state.is_elastic()).then_some(begin);
    let session = Session {
        key: key.clone(),
        rtt: control.rtt(),
        sockets: sockets.clone(),
        slots: Slots { slot_len: Bytes(BLOCK_LEN as u64), begin, most },
        trust: control.data_tls().await?,
        tunnel,
        shared: control.shared(),
        grid: control.data_security().await?,
    };
    let dialer = control.dialer(stack, &session)?;
    let address = match offer.route {
        Route::Straight if !dialer.is_by_offer() => {
            control.listen_by(stack.channel(), address).await?
        }
        _ => address,
    };
    let timeout = match offer.route {
        Route::Straight if key.is_some() => connect_timeout(control.rtt()),
        _ => CONNECT_TIMEOUT,
    };
    let timeout = control.idle_timeout().map_or(timeout, |idle_timeout| idle_timeout.min(timeout));
    let channels = if dialer.is_by_offer() {
        by_offers(control, stack.channel().name, address, streams, dialer).await?
    } else {
        let early = match offer.route {
            Route::Straight => control.early_channels(stack, address, &sockets, streams).await,
            Route::ControlPort | Route::Tunnel => Vec::new(),
        };
        let trust = control.data_tls().await?.map(|config| TlsPeer { config, address });
        let is_keyed = key.is_some();
        let opener = Opener::new(stack, dialer, key, trust, (address, timeout));
        let opener = if offer.route == Route::ControlPort { opener.greeted() } else { opener };
        let opened = match can.carries {
            Carries::OrderedBytes => at_once(&opener, streams - early.len()).await,
            Carries::RegisteredSlots => in_turn(opener.clone(), streams).await,
        };
        let channels = match opened {
            Ok(opened) => early.into_iter().chain(opened).collect(),
            // With fewer than there were to be.
            Err(_) if !early.is_empty() => early,
            Err(error) => return Err(error),
        };
        if can.grows && is_keyed {
            return Ok(Dialed { channels, opener: Some(opener) });
        }
        channels
    };
    if has_connections {
        copy.stats.streams = streams;
    }
    Ok(Dialed { channels, opener: None })
}

/// Opens `count` channels at once.
async fn at_once(opener: &Opener, count: usize) -> Result<Vec<Box<dyn Channel>>, Error> {
    let opening: Vec<_> = (0..count)
        .map(|_| {
            let opener = opener.clone();
            tokio::task::spawn_blocking(move || opener.open_one())
        })
        .collect();
    let mut channels = Vec::with_capacity(count);
    let mut failed = None;
    for opened in opening {
        match opened.await.unwrap_or_else(|_| Err(thread_lost())) {
            Ok(channel) => channels.push(channel),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(channels), Err)
}

/// Opens `count` channels one after the other.
async fn in_turn(opener: Opener, count: usize) -> Result<Vec<Box<dyn Channel>>, Error> {
    let opening =
        tokio::task::spawn_blocking(move || (0..count).map(|_| opener.open_one()).collect());
    opening.await.unwrap_or_else(|_| Err(thread_lost()))
}

/// Opens channels by what both ends tell each other over the control connection: V-9.
async fn by_offers(
    control: &mut Control,
    driver: &str,
    address: SocketAddr,
    count: usize,
    dialer: Arc<dyn Dialer>,
) -> Result<Vec<Box<dyn Channel>>, Error> {
    let making =
        tokio::task::spawn_blocking(move || (0..count).map(|_| dialer.offer(address)).collect());
    let offers: Vec<_> = making.await.unwrap_or_else(|_| Err(thread_lost()))?;
    // All at once: a round trip for all channels, however many connections each has.
    let asked: Vec<u64> =
        offers.iter().map(|offer| control.offer_channel(driver, offer.text())).collect();
    let mut replies = Vec::new();
    for id in asked {
        replies.push(control.taken_channel(driver, id).await?);
    }
    let joining = tokio::task::spawn_blocking(move || {
        offers.into_iter().zip(replies).map(|(offer, reply)| offer.connect(&reply)).collect()
    });
    joining.await.unwrap_or_else(|_| Err(thread_lost()))
}

fn thread_lost() -> Error {
    Error::new(Fault::Bug, ErrorCode::ThreadLost, "a thread panicked")
}

/// Handles of open channels, to watch them.
pub(super) fn handles(channels: &[Box<dyn Channel>]) -> Result<Vec<Handle>, Error> {
    let handles: Result<Vec<_>, _> = channels.iter().map(|channel| channel.handle()).collect();
    handles.map_err(|error| Error::new(Fault::Here, ErrorCode::NoDescriptor, error.to_string()))
}
