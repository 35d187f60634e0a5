//! Sends what comes out of a pipe, whose end nobody knows beforehand, over open channels in MODE E.
//!
//! No machine plans here: whoever has a channel free reads the next block, and MODE E's offsets put
//! it in its place.

use super::broken::{broken, no_thread};
use super::pace::Pace;
use super::shared::Cancel;
use super::tally::{Stage, Tally};
use crate::channels::Channel;
use crate::sys::lock::lock;
use crate::sys::pool::Slot;
use farline_core::gridftp::checked::Check;
use farline_core::gridftp::mode_e::{Flags, HEADER_LEN, Header};
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read};
use std::sync::Mutex;
use std::time::Instant;

/// How soon a wait for input notices that the transfer was broken off.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// What to send, and over what.
pub(crate) struct StreamJob<'a> {
    /// Where the bytes come from, to its end.
    pub input: File,
    /// The open channels.
    pub channels: Vec<Box<dyn Channel>>,
    /// One slot for each channel at least.
    pub slots: Vec<Slot>,
    /// Running totals.
    pub tally: &'a Tally,
    /// Holds the transfer to a rate.
    pub pace: Option<&'a Pace>,
    /// How to break it off.
    pub cancel: &'a Cancel,
}

/// An input that is read in blocks to its end.
pub(crate) struct BlockReader {
    input: File,
    next: u64,
    is_over: bool,
}

impl BlockReader {
    /// Reads `input` from where it stands.
    pub(crate) fn new(input: File) -> BlockReader {
        BlockReader { input, next: 0, is_over: false }
    }

    /// Bytes read so far.
    pub(crate) fn offset(&self) -> u64 {
        self.next
    }

    /// Fills `into` as far as the input goes; returns where the bytes belong and how many
    /// there are, 0 at the end.
    ///
    /// # Errors
    /// When the input cannot be read, or the reason of `cancel`.
    pub(crate) fn read(&mut self, into: &mut [u8], cancel: &Cancel) -> Result<(u64, usize), Error> {
        let failed = |error: io::Error| {
            Error::new(
                Fault::Here,
                ErrorCode::Storage,
                format!("read standard input: {}", crate::stores::plain(&error)),
            )
        };
        let mut len = 0;
        while len < into.len() && !self.is_over {
            if let Some(reason) = cancel.reason() {
                return Err(reason);
            }
            // A silent pipe must not hold up the news that the other end is gone.
            match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], Some(&LOOK_AGAIN)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
            match self.input.read(&mut into[len..]) {
                Ok(0) => self.is_over = true,
                Ok(read) => len += read,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                    ) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let offset = self.next;
        self.next += len as u64;
        Ok((offset, len))
    }
}

/// Sends all of `job.input`; returns its length when every channel is past its end-of-data
/// mark. The channels come back with it: closing one before the receiver's last word would look
/// like a loss.
///
/// # Errors
/// The first error of any channel or of the input, or the reason of a cancellation. No end of file
/// was sent then, so that the receiver does not take the part for the whole.
pub(crate) fn send_stream(job: StreamJob<'_>) -> Result<(u64, Vec<Box<dyn Channel>>), Error> {
    let StreamJob { input, channels, slots, tally, pace, cancel } = job;
    for channel in &channels {
        cancel.watch(channel.handle().map_err(|error| broken(&error))?);
    }
    let reader = Mutex::new(BlockReader::new(input));
    let carry =
        |mut channel: Box<dyn Channel>, mut slot: Slot| -> Result<Box<dyn Channel>, Error> {
            let _busy = tally.thread(Stage::Channel);
            loop {
                let waiting = Instant::now();
                let (offset, len) = lock(&reader).read(&mut slot, cancel)?;
                tally.add_store_wait(waiting);
                if len == 0 {
                    return Ok(channel);
                }
                if let Some(pace) = pace {
                    pace.through(len, tally, cancel)?;
                }
                let sending = Instant::now();
                let header = Header::data(offset, len as u64);
                channel
                    .send(header, &Check::default(), slot, 0..len)
                    .map_err(|error| broken(&error))?;
                slot = loop {
                    // Nobody wakes it here, but a wake is no answer.
                    if let Some(slot) = channel.sent(None).map_err(|error| broken(&error))? {
                        break slot;
                    }
                };
                tally.add_network(sending);
                tally.add_bytes(len);
                tally.add_on_wire(len + HEADER_LEN);
            }
        };
    let count = channels.len() as u64;
    let mut channels = std::thread::scope(|scope| {
        let threads: Vec<_> = channels
            .into_iter()
            .zip(slots)
            .map(|(channel, slot)| {
                let carry = &carry;
                let body =
                    move || carry(channel, slot).inspect_err(|error| cancel.cancel(error.clone()));
                std::thread::Builder::new().name("stream".to_owned()).spawn_scoped(scope, body)
            })
            .collect();
        let ended: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                let thread = thread
                    .map_err(|error| no_thread(&error))
                    .inspect_err(|error| cancel.cancel(error.clone()))?;
                thread.join().unwrap_or_else(|_| {
                    Err(Error::new(Fault::Bug, ErrorCode::ThreadLost, "a sending thread panicked"))
                })
            })
            .collect();
        ended.into_iter().collect::<Result<Vec<_>, Error>>()
    })
    .map_err(|error| cancel.reason().unwrap_or(error))?;
    for (index, channel) in channels.iter_mut().enumerate() {
        let mark = if index == 0 { Header::eof(count).with(Flags::EOD) } else { Header::eod() };
        channel.mark(mark).map_err(|error| broken(&error))?;
    }
    cancel.release();
    let len = lock(&reader).offset();
    Ok((len, channels))
}
