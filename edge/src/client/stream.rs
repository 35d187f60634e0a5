//! Copies what comes in on standard input: to a file of this host, or with STOR to a node, which
//! need not know its length.

use super::control::Control;
use super::copy::Copy;
use super::destination::destination;
use super::dial::handles;
use super::location::{Location, Remote};
use super::sending::{PLAIN_FTP_STORES, open_resources};
use crate::mover::{BLOCK_LEN, BlockReader, Stage, StreamJob, UNKNOWN_LEN, send_stream};
use crate::stores::temporary_beside;
use crate::sys::pool::pool;
use farline_core::copy::Existing;
use farline_core::gridftp::client::{Request, Transfer, TransferKind};
use farline_core::gridftp::{Command, ListingKind, Mode, Pathname};
use farline_core::transfer::Layout;
use farline_core::units::{Error, ErrorCode, Fault};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a server may take to say how a broken-off store ended, and to remove what it left.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The source, for people.
pub(super) fn called(from: &Location) -> String {
    match from {
        Location::Standard => "standard input".to_owned(),
        other => other.to_string(),
    }
}

fn nameless(to: &dyn std::fmt::Display) -> Error {
    Error::new(
        Fault::You,
        ErrorCode::NoName,
        format!("{to} is a directory, and standard input has no name to be copied under"),
    )
    .hint("write the name of the file behind the directory")
}

/// The file of standard input to `to`, which is of this host.
pub(super) async fn run(
    copy: &mut Copy<'_>,
    from: &Location,
    to: &Location,
    several: bool,
) -> Result<(), Error> {
    copy.options.refuse_verify("a copy within this host is not read back")?;
    if let Location::Local(path) = to
        && (path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir())
    {
        return Err(nameless(to));
    }
    if several {
        return Err(Error::new(
            Fault::You,
            ErrorCode::OneSource,
            format!("{} is copied alone, not among other sources", called(from)),
        ));
    }
    let layout = Arc::new(Layout::of_file(UNKNOWN_LEN, BLOCK_LEN));
    let place = destination(to, b"", false, false, false, (copy.options, false))?;
    let sink = place.stream_sink(&layout, copy.options)?;
    if let (Existing::Keep, Location::Local(path)) = (copy.options.existing, to)
        && path.symlink_metadata().is_ok()
    {
        copy.stats.skipped.push(path.as_os_str().as_encoded_bytes().to_vec());
        return Ok(());
    }
    let mut reader = BlockReader::new(from.stream()?);
    let landed = copy.supervise(None, move |state| {
        sink.open(0)?;
        let no_memory = |error: io::Error| {
            Error::new(Fault::Here, ErrorCode::NoMemory, format!("no memory for staging: {error}"))
        };
        // Aligned, as direct I/O wants it.
        let Some(mut buffer) = pool(1, BLOCK_LEN).map_err(no_memory)?.pop() else {
            return Err(no_memory(io::ErrorKind::OutOfMemory.into()));
        };
        let _busy = state.tally.thread(Stage::Channel);
        loop {
            let reading = Instant::now();
            let (offset, len) = reader.read(&mut buffer, &state.cancel)?;
            state.tally.add_store_wait(reading);
            if len == 0 {
                break;
            }
            if let Some(pace) = &state.pace {
                pace.through(len, &state.tally, &state.cancel)?;
            }
            let writing = Instant::now();
            sink.write(0, offset, &buffer[..len])?;
            state.tally.add_network(writing);
            state.tally.add_bytes(len);
        }
        let mut landed = sink.land(None);
        landed.bytes = if landed.failures.is_empty() { reader.offset() } else { 0 };
        Ok(landed)
    });
    let landed = landed.await?;
    copy.stats.verified_how = "not verified: a copy within this host is not read back";
    copy.stats.bytes += landed.bytes;
    copy.stats.files += landed.files;
    copy.stats.failures.extend(landed.failures);
    copy.end_transfer();
    Ok(())
}

/// The file of standard input to a node or server: in MODE E, whose end says the length. A Farline
/// node lands it by itself, any other server gets it under a temporary name.
pub(super) async fn to_node(
    copy: &mut Copy<'_>,
    from: &Location,
    to: &Remote,
) -> Result<(), Error> {
    copy.options.refuse_verify("what comes from a pipe is not compared")?;
    if to.store.is_some() {
        return Err(Error::new(
            Fault::You,
            ErrorCode::Unsupported,
            "standard input goes to files only, not to ?null or ?memory",
        )
        .hint("name its size: memory:SIZE goes to such stores"));
    }
    if to.path.ends_with(b"/") {
        return Err(nameless(to));
    }
    let input = from.stream()?;
    let ahead = vec![
        Request::Passive { mode: Mode::Extended, striped: false },
        Request::Stat(Pathname::new(to.path.clone())),
    ];
    let (mut control, ahead) = Control::open_for_copy(to, copy.options, ahead, None).await?;
    control.require(to).await?;
    match control.looked(ahead[1]).await? {
        Some(there) if there.kind == ListingKind::Directory => return Err(nameless(to)),
        Some(_) if copy.options.existing == Existing::Keep => {
            copy.stats.skipped.push(to.path.clone());
            return Ok(());
        }
        _ => {}
    }
    if !control.features().is_gridftp {
        return Err(to.not_gridftp(PLAIN_FTP_STORES));
    }
    let lands = control.features().tree;
    let params = copy.choose(control.rtt(), control.peer_ip(), None, true);
    let address = control.passive(ahead[0]).await?;
    let (resources, congestion) = open_resources(copy, &mut control, address, &params).await?;
    copy.stats.congestion = congestion;
    let name = if lands { to.path.clone() } else { temporary_beside(&to.path)? };
    let store = control.request(Request::Transfer(Transfer::new(
        TransferKind::Store,
        Pathname::new(name.clone()),
    )));
    let moved = copy.supervise(Some(&mut control), move |state| {
        state.follow(handles(&resources.channels)?);
        let (tally, pace) = (&state.tally, state.pace.as_deref());
        let job = StreamJob {
            input,
            channels: resources.channels,
            slots: resources.slots,
            tally,
            pace,
            cancel: &state.cancel,
        };
        send_stream(job)
    });
    let moved = match moved.await {
        Ok((len, channels)) => {
            let stored = copy.until_done(&mut control, &[store]).await;
            copy.stats.tcp = channels.iter().filter_map(|channel| channel.tcp_info()).collect();
            stored.map(|()| len).map_err(|error| error.while_doing(format!("storing {to}")))
        }
        Err(error) => Err(error),
    };
    let stored = match moved {
        Ok(len) if lands => Ok(len),
        Ok(len) => {
            let (from, to) = (Pathname::new(name.clone()), Pathname::new(to.path.clone()));
            let rename = control.request(Request::Rename { from, to });
            control
                .done(rename)
                .await
                .map(|_| len)
                .map_err(|error| error.while_doing("renaming the finished file"))
        }
        Err(error) => Err(error),
    };
    let len = match stored {
        Ok(len) => len,
        Err(error) => {
            if !lands {
                // Half a file under a hidden name is of use to nobody; how the store ended does not
                // matter.
                let _ = tokio::time::timeout(TIMEOUT, control.done(store)).await;
                let remove =
                    control.try_request(Request::Exec(Command::Delete(Pathname::new(name))));
                let _ = tokio::time::timeout(TIMEOUT, control.done(remove)).await;
            }
            return Err(error);
        }
    };
    copy.stats.verified_how = "not verified: the digest of a stream is not compared";
    copy.stats.bytes += len;
    copy.stats.files += 1;
    copy.end_transfer();
    copy.let_go(control);
    Ok(())
}
