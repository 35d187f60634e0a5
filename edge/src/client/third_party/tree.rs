//! A copy between two Farline nodes: executes what [`ThirdPartySession`] wants of the two.

use super::ends::{Ends, Word, at};
use crate::client::copy::Copy;
use farline_core::copy::{
    CopySummary, DataEnd, ThirdPartyEvent, ThirdPartyOutput, ThirdPartySession, ThirdPartyTree,
};
use farline_core::gridftp::Pathname;
use farline_core::transfer::{Entry, EntryKind};
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::BTreeSet;

/// Copies `entries` to `target` as one tree, verified by the receiver.
pub(super) async fn copy(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    target: Vec<u8>,
    entries: &[Entry],
    channels: usize,
) -> Result<(), Error> {
    let bytes = entries.iter().map(Entry::len).sum();
    let tree = ThirdPartyTree {
        from: Pathname::new(ends.from.path.clone()),
        to: Pathname::new(target),
        source: ends.from.source_id(),
        bytes,
        channels,
    };
    let features = [ends.sender.features(), ends.receiver.features()];
    let mut session = ThirdPartySession::new(tree, &copy.wants_elsewhere(), features);
    let result = execute(copy, ends, &mut session).await;
    copy.stats.resumed_bytes += session.resumed();
    copy.stats.bytes_sent += session.asked();
    copy.take_left_out(&ends.sender, ends.from.name_within(), entries);
    // What nobody was heard say may be so: of how much had come the receiver says no more than it
    // did a second before.
    copy.has_arrived |= result.is_err() && session.is_under_way();
    let summary = result?;
    copy.stats.passes += summary.passes;
    copy.stats.bad_blocks += summary.bad_blocks;
    copy.stats.bad_headers += summary.bad_headers;
    // What the sender could not read the receiver names too.
    let unnamed = copy.take_unlanded(&ends.receiver, []);
    let failed: BTreeSet<&[u8]> = copy.stats.failures.iter().map(|(path, _)| &path[..]).collect();
    let landed = entries.iter().filter(|entry| !failed.contains(&entry.path[..]));
    let (bytes, files) = landed.fold((0, 0), |(bytes, files), entry| {
        let is_file = matches!(entry.kind, EntryKind::File { .. });
        (bytes + entry.len(), files + u64::from(is_file))
    });
    copy.stats.bytes += bytes;
    copy.stats.files += files;
    copy.discount(unnamed);
    copy.verified(summary.integrity);
    copy.take_limits_of([&ends.sender, &ends.receiver]);
    Ok(())
}

/// Runs `session` to its end.
async fn execute(
    copy: &mut Copy<'_>,
    ends: &mut Ends<'_>,
    session: &mut ThirdPartySession,
) -> Result<CopySummary, Error> {
    let mut requests = Vec::new();
    while let Some(output) = session.poll() {
        let event = match output {
            ThirdPartyOutput::Request(end, request) => {
                requests.push(ends.of(end).0.request(request));
                continue;
            }
            ThirdPartyOutput::Confirm(end, id) => {
                let (control, remote) = ends.of(end);
                let result = control.done(requests[id.0]).await.map(drop);
                let result = result.map_err(|error| at(remote, error));
                ThirdPartyEvent::Answered { end, result, held: ends.held() }
            }
            ThirdPartyOutput::Listen(id) => {
                let (control, remote) = ends.of(DataEnd::Receiver);
                let listens = control.passive(requests[id.0]).await;
                ThirdPartyEvent::Listens(listens.map_err(|error| at(remote, error)))
            }
            ThirdPartyOutput::Await { requests: asked, until, is_payload } => {
                let asked: Vec<_> =
                    asked.into_iter().map(|(end, id)| (end, requests[id.0])).collect();
                match ends.word(copy, &asked, until, is_payload).await {
                    Word::Said(end, result) => {
                        ThirdPartyEvent::Answered { end, result, held: ends.held() }
                    }
                    Word::Late => ThirdPartyEvent::Waited,
                    Word::Broken(error) => ThirdPartyEvent::Broken(error),
                }
            }
            ThirdPartyOutput::End(result) => return result,
        };
        session.handle(copy.now(), event);
    }
    Err(Error::new(Fault::Bug, ErrorCode::NoChannel, "a copy waits for nothing"))
}
