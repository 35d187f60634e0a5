//! Moves one file over one connection, whose end is the file's (MODE S).

use super::BLOCK_LEN;
use super::journal::Journal;
use super::pace::Pace;
use super::tally::Tally;
use crate::channels::ordered::ByteStream;
use crate::stores::Sink;
use farline_core::units::Error;
use std::io;

/// Sends `bytes` on `stream`, no faster than `pace` allows.
///
/// # Errors
/// As the connection breaks.
pub(crate) fn send_in_order(
    stream: &mut dyn ByteStream,
    bytes: &[u8],
    (pace, tally): (Option<&Pace>, &Tally),
) -> io::Result<()> {
    let most = pace.map_or(bytes.len(), Pace::turn_len);
    for part in bytes.chunks(most.max(1)) {
        if let Some(pace) = pace {
            pace.through(part.len(), tally);
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
/// What the sink says, or as the connection breaks.
pub(crate) fn receive_in_order(
    stream: &mut dyn ByteStream,
    sink: &dyn Sink,
    (mut at, len): (u64, u64),
    (pace, tally): (Option<&Pace>, &Tally),
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
            pace.through(read, tally);
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
