//! Receives what is short on the thread that asks for it: to start threads for a file of a kilobyte
//! costs more than to receive it.
//!
//! What turns out longer, or slow to come, goes on in [`receive`](super::receive()) where it
//! stands.

use super::BLOCK_LEN;
use super::broken::{broken, reset};
use super::receive::{ReceiveJob, ReceiveOutcome};
use crate::channels::{Arrival, Channel};
use crate::sys::lock::lock;
use crate::sys::pool::Slot;
use farline_core::gridftp::mode_e::HEADER_LEN;
use farline_core::transfer::Block;
use farline_core::units::{Error, ErrorCode, Fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// After so long without an arrival threads take over, which notice whoever is silent.
const TIMEOUT: Duration = Duration::from_millis(250);
/// And after so long in any case, since nobody says meanwhile how far it is.
const LONGEST: Duration = Duration::from_secs(1);
/// And when more than this has come.
const MOST: u64 = BLOCK_LEN as u64;
/// And when it comes in so many pieces with gaps between them: the machine says how many may be.
const MOST_RANGES: usize = 1 << 10;

/// One channel of the transfer.
struct InlineChannel {
    channel: Box<dyn Channel>,
    /// What it said when it ended: how many channels there are, if it said so, and whether it
    /// closes.
    ended: Option<(Option<u64>, bool)>,
}

/// Receives all of a transfer whose blocks are not guarded, if it is short. `None` says that it is
/// not over: `job` then has what is left to do.
///
/// # Errors
/// As [`receive`](super::receive()). The channels are broken then.
pub(crate) fn receive_inline(job: &mut ReceiveJob<'_>) -> Result<Option<ReceiveOutcome>, Error> {
    let is_plain = !job.integrity.checks && job.digests.is_none() && job.pace.is_none();
    if !is_plain || job.sink.journals() || job.sink.wants_order() {
        return Ok(None);
    }
    let channels = std::mem::take(&mut job.channels);
    let mut channels: Vec<_> =
        channels.into_iter().map(|channel| InlineChannel { channel, ended: None }).collect();
    let is_over = receive_all(job, &mut channels);
    let reason = job.cancel.reason();
    match is_over.and_then(|is_over| reason.map_or(Ok(is_over), Err)) {
        Ok(true) => {
            let keeps = |channel: InlineChannel| {
                let closes = channel.ended.is_some_and(|(_, closes)| closes);
                (!closes).then_some(channel.channel)
            };
            let channels = channels.into_iter().filter_map(keeps).collect();
            let slots = std::mem::take(&mut job.slots);
            Ok(Some(ReceiveOutcome { channels, slots, tcp: Vec::new(), lost: false }))
        }
        Ok(false) => {
            job.channels = channels.into_iter().map(InlineChannel::handed_over).collect();
            Ok(None)
        }
        Err(error) => {
            channels.iter().for_each(|channel| reset(&*channel.channel));
            Err(error)
        }
    }
}

/// Receives until the transfer is over (`true`), or threads should take over.
fn receive_all(job: &mut ReceiveJob<'_>, channels: &mut Vec<InlineChannel>) -> Result<bool, Error> {
    let began = Instant::now();
    let mut received = 0;
    loop {
        for channel in channels.iter_mut().filter(|channel| channel.ended.is_none()) {
            while channel.ended.is_none() {
                match channel.channel.has_arrival().map_err(|error| broken(&error))? {
                    Some(true) if received < MOST && lock(job.held).count() < MOST_RANGES => {
                        received += channel.receive(job)?;
                    }
                    Some(false) => break,
                    _ => return Ok(false),
                }
            }
        }
        if let Some(is_over) = is_over(channels) {
            return Ok(is_over);
        }
        if job.cancel.reason().is_some()
            || began.elapsed() >= LONGEST
            || !await_arrival(job, channels)?
        {
            return Ok(false);
        }
    }
}

/// Whether every channel has ended; `None` while more is to come. What the channels said against
/// each other is for the machine to judge.
fn is_over(channels: &[InlineChannel]) -> Option<bool> {
    let mut announced = channels.iter().filter_map(|channel| channel.ended?.0);
    let ended = channels.iter().filter(|channel| channel.ended.is_some()).count() as u64;
    let count = announced.next()?;
    if announced.next().is_some() || count < ended {
        return Some(false);
    }
    // One that takes no part in this transfer is of none of its channels.
    (count == ended).then_some(ended == channels.len() as u64)
}

/// Waits until something comes, and takes a new channel; false where that takes too long.
fn await_arrival(job: &ReceiveJob<'_>, channels: &mut Vec<InlineChannel>) -> Result<bool, Error> {
    let port = job.acceptor.and_then(|acceptor| acceptor.waits_at());
    let open = channels.iter_mut().filter(|channel| channel.ended.is_none());
    let mut watched: Vec<PollFd<'_>> = open
        .filter_map(|channel| channel.channel.waits_at())
        .chain(port)
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    if watched.is_empty() {
        return Ok(false);
    }
    let timeout = Timespec { tv_sec: 0, tv_nsec: TIMEOUT.subsec_nanos().into() };
    match poll(&mut watched, Some(&timeout)) {
        Ok(0) => return Ok(false),
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(broken(&errno.into())),
    }
    let is_called = port.is_some() && watched.last().is_some_and(|port| !port.revents().is_empty());
    if let Some(acceptor) = job.acceptor.filter(|_| is_called)
        && let Some(channel) = acceptor.accept(Duration::ZERO)?
    {
        channels.push(InlineChannel { channel, ended: None });
    }
    Ok(true)
}

impl InlineChannel {
    /// Receives what is there, and puts it into the store; returns how many bytes that were.
    fn receive(&mut self, job: &mut ReceiveJob<'_>) -> Result<u64, Error> {
        let slot = job.slots.pop().ok_or_else(|| {
            Error::new(Fault::Bug, ErrorCode::SlotHeld, "a staging slot was lost")
        })?;
        self.channel.offer(slot);
        let (slot, len) = match self.channel.receive() {
            Ok(Some(Arrival::Data { slot, block, carried, .. })) => {
                job.tally.begin();
                job.tally.add_on_wire(carried + HEADER_LEN);
                let stored = store(job, &slot, block);
                (Some(slot), stored.map(|()| block.len as u64))
            }
            Ok(Some(Arrival::End { slot, channels, closing })) => {
                self.ended = Some((channels, closing));
                (Some(slot), Ok(0))
            }
            Ok(None) => (self.channel.withdraw(), Ok(0)),
            Err(error) => (self.channel.withdraw(), Err(broken(&error))),
        };
        job.slots.extend(slot);
        len
    }

    /// The channel as [`receive`](super::receive()) begins with it.
    fn handed_over(mut self) -> Box<dyn Channel> {
        if let Some((channels, _)) = self.ended {
            self.channel.put_back_end(channels);
        }
        self.channel
    }
}

/// Puts a block into the store, unless it came before.
fn store(job: &ReceiveJob<'_>, slot: &Slot, block: Block) -> Result<(), Error> {
    let out_of_range = |message| Error::new(Fault::There, ErrorCode::BlockOutOfRange, message);
    let offset = block
        .offset
        .checked_sub(job.wire_offset)
        .ok_or_else(|| out_of_range("the sender named bytes before the part that was asked for"))?;
    let end = offset
        .checked_add(block.len as u64)
        .ok_or_else(|| out_of_range("the sender named bytes beyond the end of any file"))?;
    if lock(job.held).contains(&(offset..end)) {
        return Ok(());
    }
    let mut at = 0;
    for piece in job.layout.pieces(offset, block.len) {
        at += piece.len;
        let bytes = &slot[piece.block_offset..piece.block_offset + piece.len];
        job.tally.while_storing(|| job.sink.write(piece.entry, piece.file_offset, bytes))?;
    }
    if at != block.len {
        return Err(out_of_range("the sender named bytes that no file has"));
    }
    job.tally.add_bytes(block.len);
    lock(job.held).insert(offset..end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::acceptor;
    use super::super::{Acceptor, Cancel, Integrity, SendJob, Tally, WantedBlocks, receive, send};
    use super::*;
    use crate::channels::socket::{TcpOptions, connect};
    use crate::stores::{BytesSink, BytesSource};
    use crate::sys::pool::pool;
    use farline_core::gridftp::mode_e::{Flags, Header};
    use farline_core::transfer::{Layout, Watermarks};
    use farline_core::units::ByteRanges;
    use std::io::Write;
    use std::net::TcpStream;
    use std::sync::{Arc, Mutex};

    fn job<'a>(
        sink: &'a BytesSink,
        acceptor: &'a Acceptor,
        channels: Vec<Box<dyn Channel>>,
        (tally, held): &'a (Tally, Mutex<ByteRanges>),
    ) -> ReceiveJob<'a> {
        ReceiveJob {
            layout: Arc::new(Layout::of_file(4 << 20, BLOCK_LEN)),
            sink,
            wire_offset: 0,
            channels,
            acceptor: Some(acceptor),
            slots: pool(8, BLOCK_LEN).expect("memory"),
            writers: 1,
            digests: None,
            tally,
            held,
            integrity: Integrity::default(),
            on_resize: None,
            pace: None,
            unsent: None,
            cancel: Cancel::new(),
        }
    }

    fn to(acceptor: &Acceptor) -> TcpStream {
        TcpStream::connect(acceptor.address()).expect("loopback")
    }

    fn end(channels: u64) -> [u8; HEADER_LEN] {
        Header::eof(channels).with(Flags::EOD).encode()
    }

    /// Receives all without threads.
    fn received(mut job: ReceiveJob<'_>) -> Result<ReceiveOutcome, Error> {
        receive_inline(&mut job).map(|outcome| outcome.expect("threads need not take over"))
    }

    #[test]
    fn short_files_come_one_behind_the_other_without_threads() {
        let (acceptor, mut channels) = (acceptor(), Vec::new());
        let mut stream = to(&acceptor);
        let file = |text: &[u8]| {
            [&Header::data(0, text.len() as u64).encode()[..], text, &end(1)].concat()
        };
        // Pipelined: the second, and a part of the third, are there before anybody asks for them.
        let all = [file(b"first"), file(b""), file(b"third")].concat();
        let (early, late) = all.split_at(all.len() - 20);
        stream.write_all(early).expect("sent");
        let late = late.to_vec();
        let later = std::thread::spawn(move || {
            stream.write_all(&late).expect("sent");
            stream
        });
        for text in [&b"first"[..], b"", b"third"] {
            let (sink, books) = (BytesSink::new(10), Default::default());
            let outcome = received(job(&sink, &acceptor, channels, &books)).expect("whole");
            assert_eq!((&sink.take()[..], outcome.slots.len()), (text, 8));
            assert_eq!(lock(&books.1).total(), text.len() as u64);
            channels = outcome.channels;
            assert_eq!(channels.len(), 1);
        }
        drop(later.join());
    }

    #[test]
    fn threads_go_on_where_a_long_or_slow_file_stands() {
        for len in [BLOCK_LEN + 5, 40] {
            let acceptor = acceptor();
            let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
            // One channel ends before anything has come on the other.
            let (mut first, mut second) = (to(&acceptor), to(&acceptor));
            let head = [&Header::data(0, 10).encode()[..], &bytes[..10], &end(2)].concat();
            first.write_all(&head).expect("sent");
            let (sink, books) = (BytesSink::new(len), Default::default());
            let mut job = job(&sink, &acceptor, Vec::new(), &books);
            assert!(receive_inline(&mut job).expect("nothing broke").is_none());
            assert!(lock(&books.1).contains(&(0..10)) && job.channels.len() == 2);
            let rest = Header::data(10, len as u64 - 10).encode();
            let rest = [&rest[..], &bytes[10..], &Header::eod().encode()].concat();
            let sending = std::thread::spawn(move || second.write_all(&rest).map(|()| second));
            let outcome = receive(job).expect("whole");
            assert!(sink.take() == bytes && outcome.channels.len() == 2);
            assert!(lock(&books.1).contains(&(0..len as u64)) && books.0.bytes() == len as u64);
            drop((sending.join(), first));
        }
    }

    #[test]
    fn what_is_too_long_is_left_to_threads_at_once() {
        let acceptor = acceptor();
        let mut stream = to(&acceptor);
        stream.write_all(&Header::data(0, 2 << 20).encode()).expect("sent");
        let (sink, books) = (BytesSink::new(5), Default::default());
        let mut job = job(&sink, &acceptor, Vec::new(), &books);
        let began = Instant::now();
        assert!(receive_inline(&mut job).expect("nothing broke").is_none());
        assert!(began.elapsed() < TIMEOUT && job.channels.len() == 1);
    }

    #[test]
    fn a_channel_that_breaks_before_its_end_is_an_error() {
        let acceptor = acceptor();
        let mut stream = to(&acceptor);
        stream.write_all(&Header::data(0, 5).encode()).expect("sent");
        stream.write_all(b"hello").expect("sent");
        drop(stream);
        let (sink, books) = (BytesSink::new(5), Default::default());
        let error = received(job(&sink, &acceptor, Vec::new(), &books)).err().expect("lost");
        assert_eq!(error.code, ErrorCode::ChannelLost);
    }

    #[test]
    fn a_cancelled_transfer_ends_with_its_reason() {
        let acceptor = acceptor();
        let mut stream = to(&acceptor);
        stream.write_all(&end(1)).expect("sent");
        let (sink, books) = (BytesSink::new(5), Default::default());
        let job = job(&sink, &acceptor, Vec::new(), &books);
        job.cancel.cancel(Error::new(Fault::You, ErrorCode::Aborted, "enough"));
        let error = received(job).err().expect("cancelled");
        assert_eq!(error.code, ErrorCode::Aborted);
    }

    #[test]
    fn what_is_sent_without_threads_arrives() {
        let acceptor = acceptor();
        let options = TcpOptions::default();
        let channel = || -> Box<dyn Channel> {
            let opened = connect(acceptor.address(), None, &options, Duration::from_secs(5));
            Box::new(opened.expect("loopback"))
        };
        let mut channels = vec![channel(), channel()];
        for text in [&b"hello"[..], b"", b"again"] {
            let layout = Arc::new(Layout::of_file(text.len() as u64, BLOCK_LEN));
            let source = BytesSource(text.to_vec());
            let (sink, books, sent) = (BytesSink::new(10), Default::default(), Tally::default());
            let outcome = std::thread::scope(|scope| {
                let sending = scope.spawn(|| {
                    let blocks = WantedBlocks::all(layout.blocks_without(&ByteRanges::new()));
                    let job = SendJob {
                        layout: Arc::clone(&layout),
                        source: &source,
                        blocks,
                        wire_offset: 0,
                        channels: std::mem::take(&mut channels),
                        slots: pool(4, BLOCK_LEN).expect("memory"),
                        watermarks: Watermarks::of_pool(4),
                        readers: 1,
                        audit: None,
                        integrity: Integrity::default(),
                        tally: &sent,
                        pace: None,
                        tuning: None,
                        start: None,
                        on_resize: None,
                        held: None,
                        yields: None,
                        cancel: Cancel::new(),
                    };
                    send(job)
                });
                received(job(&sink, &acceptor, Vec::new(), &books)).expect("whole");
                sending.join().expect("no panic")
            });
            assert_eq!((sink.take(), sent.bytes()), (text.to_vec(), text.len() as u64));
            // The receiver let its ends go.
            assert_eq!(outcome.expect("sent").channels.len(), 2);
            channels = vec![channel(), channel()];
        }
    }
}
