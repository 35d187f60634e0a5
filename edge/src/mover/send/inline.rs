//! Sends what is short on the thread that asks for it, without starting any.

use super::{SendJob, SendOutcome};
use crate::mover::broken::{broken, reset};
use farline_core::gridftp::checked::Check;
use farline_core::gridftp::mode_e::{Flags, HEADER_LEN, Header};
use farline_core::units::{Error, ErrorCode, Fault};

/// What is sent so at most: a socket takes it at once.
const MOST_SENT: u64 = 64 << 10;

/// Whether [`send_inline`] can do `job`.
pub(super) fn is_short(job: &SendJob<'_>) -> bool {
    let is_plain = !job.integrity.checks && job.audit.is_none();
    let is_fixed = job.tuning.is_none() && job.on_resize.is_none() && job.pace.is_none();
    let of_bytes = job.channels.iter().all(|channel| channel.depth() == 1);
    is_plain && is_fixed && of_bytes && job.layout.payload() <= MOST_SENT
}

/// Sends a short transfer.
///
/// # Errors
/// As [`send`](super::send()). The channels are broken then.
pub(super) fn send_inline(mut job: SendJob<'_>) -> Result<SendOutcome, Error> {
    for channel in &mut job.channels {
        channel.check_blocks(false);
        job.cancel.watch(channel.handle().map_err(|error| broken(&error))?);
    }
    let sent = send_all(&mut job);
    match sent.and_then(|()| job.cancel.reason().map_or(Ok(()), Err)) {
        Ok(()) => {
            job.cancel.release();
            let tcp = job.channels.iter().filter_map(|channel| channel.tcp_info()).collect();
            Ok(SendOutcome { channels: job.channels, slots: job.slots, tcp, lost: 0 })
        }
        Err(error) => {
            job.channels.iter().for_each(|channel| reset(&**channel));
            Err(job.cancel.reason().unwrap_or(error))
        }
    }
}

/// Sends every block over the first channel, and ends them all.
fn send_all(job: &mut SendJob<'_>) -> Result<(), Error> {
    let count = job.channels.len() as u64;
    let (Some(first), Some(mut slot)) = (job.channels.first_mut(), job.slots.pop()) else {
        let message = "a transfer needs a channel and a slot";
        return Err(Error::new(Fault::Bug, ErrorCode::NoChannel, message));
    };
    for block in &mut job.blocks {
        for piece in job.layout.pieces(block.offset, block.len) {
            let bytes = &mut slot[piece.block_offset..piece.block_offset + piece.len];
            job.source.read(piece.entry, piece.file_offset, bytes)?;
        }
        let header = Header::data(job.wire_offset + block.offset, block.len as u64);
        job.tally.begin();
        let sent = first.send(header, &Check::default(), slot, 0..block.len);
        let sent = sent.and_then(|()| first.sent(None));
        slot = sent.map_err(|error| broken(&error))?.ok_or_else(|| {
            Error::new(Fault::Bug, ErrorCode::SlotHeld, "a channel kept a staging slot")
        })?;
        job.tally.add_bytes(block.len);
        job.tally.add_on_wire(block.len + HEADER_LEN);
    }
    job.slots.push(slot);
    let end = Header::eof(count).with(Flags::EOD);
    let ends = std::iter::once(end).chain(std::iter::repeat(Header::eod()));
    for (channel, end) in job.channels.iter_mut().zip(ends) {
        channel.mark(end).map_err(|error| broken(&error))?;
    }
    Ok(())
}
