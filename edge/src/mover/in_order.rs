//! Moves one file over one connection, whose end is the file's (MODE S).

use super::BLOCK_LEN;
use super::journal::Journal;
use super::pace::Pace;
use super::shared::Cancel;
use super::tally::Tally;
use crate::channels::ordered::ByteStream;
use crate::stores::Sink;
use farline_core::units::{Error, ErrorCode, Fault};
use std::io;

/// Sends `bytes` on `stream`, no faster than `pace` allows.
///
/// # Errors
/// As the connection breaks.
pub(crate) fn send_in_order(
    stream: &mut dyn ByteStream,
    bytes: &[u8],
    (pace, tally, cancel): (Option<&Pace>, &Tally, &Cancel),
) -> io::Result<()> {
    let most = pace.map_or(bytes.len(), Pace::turn_len);
    for part in bytes.chunks(most.max(1)) {
        if let Some(pace) = pace {
            pace.through(part.len(), tally, cancel).map_err(io::Error::other)?;
        }
        stream.write_all(part)?;
        tally.add_on_wire(part.len());
        tally.add_bytes(part.len());
    }
    Ok(())
}

/// Writes what comes on `stream` to the one file of `sink`, from byte `at` on; returns where it
/// ended, which without TLS's goodbye is an end only at `len`, where the sender said that the file
/// ends. A thread makes durable what is written, so that a copy that breaks off goes on from there.
///
/// # Errors
/// What the sink says, when more comes than `len`, or as the connection breaks.
pub(crate) fn receive_in_order(
    stream: &mut dyn ByteStream,
    sink: &dyn Sink,
    (mut at, len): (u64, u64),
    (pace, tally, cancel): (Option<&Pace>, &Tally, &Cancel),
) -> Result<u64, Result<Error, io::Error>> {
    let journal = sink.journals().then(Journal::new);
    let mut buffer = vec![0; BLOCK_LEN];
    let mut move_all = || loop {
        let read = match stream.read(&mut buffer) {
            Ok(0) => return Ok(at),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Globus' servers leave TLS so.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && at == len => {
                return Ok(at);
            }
            Err(error) => return Err(Err(error)),
        };
        tally.add_on_wire(read);
        if let Some(pace) = pace {
            pace.through(read, tally, cancel).map_err(Ok)?;
        }
        // A sender without an end would fill the disk.
        if len.saturating_sub(at) < read as u64 {
            return Err(Ok(too_long(len)));
        }
        if let Some(journal) = &journal {
            journal.admit(read, 1);
        }
        sink.write(0, at, &buffer[..read]).map_err(Ok)?;
        tally.add_bytes(read);
        at += read as u64;
    };
    std::thread::scope(|scope| {
        if let Some(journal) = &journal {
            scope.spawn(|| journal.keep(sink));
        }
        let moved = move_all();
        journal.iter().for_each(Journal::end);
        moved
    })
}

/// The error of a sender that does not end where it said that the file ends.
fn too_long(len: u64) -> Error {
    let message = format!("more came than the {len} bytes that the file was said to have");
    Error::new(Fault::There, ErrorCode::Incomplete, message)
        .hint("the file grows, or the server says another size than it sends")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::Handle;
    use crate::sys::lock::lock;
    use crate::sys::tcp::TcpInfo;
    use farline_core::congestion::ControlName;
    use std::io::{Read, Write};
    use std::sync::Mutex;

    /// A connection on which so many bytes come.
    struct Sent(u64);

    impl Read for Sent {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = usize::try_from(self.0).unwrap_or(usize::MAX);
            let read = into.len().min(most);
            self.0 -= read as u64;
            Ok(read)
        }
    }

    impl Write for Sent {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl ByteStream for Sent {
        fn tcp_info(&self) -> Option<TcpInfo> {
            None
        }

        fn handle(&self) -> io::Result<Handle> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn congestion(&self) -> Option<ControlName> {
            None
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// How far it was written.
    #[derive(Default)]
    struct End(Mutex<u64>);

    impl Sink for End {
        fn write(&self, _entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
            let mut end = lock(&self.0);
            *end = (*end).max(offset + bytes.len() as u64);
            Ok(())
        }
    }

    #[test]
    fn no_more_is_written_than_the_file_was_said_to_have() {
        let len = 3 * BLOCK_LEN as u64 + 7;
        for (at, sent) in [(0, len + 1), (0, u64::MAX), (len, 1), (9, len)] {
            let sink = End::default();
            let tally = Tally::default();
            let counted = (None, &tally, &Cancel::new());
            let received = receive_in_order(&mut Sent(sent), &sink, (at, len), counted);
            match received {
                Err(Ok(error)) => {
                    assert_eq!((error.fault, error.code), (Fault::There, ErrorCode::Incomplete));
                }
                other => panic!("{at}, {sent}: {other:?}"),
            }
            assert!(*lock(&sink.0) <= len, "{at}, {sent}");
        }
        let (sink, tally) = (End::default(), Tally::default());
        let counted = (None, &tally, &Cancel::new());
        let received = receive_in_order(&mut Sent(len), &sink, (0, len), counted);
        assert!(matches!(received, Ok(at) if at == len) && *lock(&sink.0) == len);
    }
}
