//! Executes what [`CopySession`] wants of a copy of a tree to or from a Farline node.

use super::control::Control;
use super::copy::{Copy, Watched};
use crate::sys::lock::lock;
use farline_core::copy::{CopySession, CopySummary, Event, OpenedChannels, Output, TreePart};
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};

/// This host's end of the data: what opens channels, and moves data between them and files.
pub(super) trait TreeEnd {
    /// Opens data channels.
    async fn open(
        &mut self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        may_grow: bool,
    ) -> Result<OpenedChannels, Error>;

    /// Moves a part of the tree over them.
    async fn carry(
        &mut self,
        copy: &mut Copy<'_>,
        control: &mut Control,
        part: TreePart,
    ) -> Watched<()>;

    /// What the receiver holds by now, as far as this end knows.
    fn held(&self) -> ByteRanges;

    /// Where the list has come to: decides where its files go, and finds what is here of them.
    /// None comes to a sender.
    async fn prepare(
        &mut self,
        _copy: &mut Copy<'_>,
        _control: &mut Control,
    ) -> Result<ByteRanges, Error> {
        Ok(ByteRanges::new())
    }

    /// What has come is of no use to a later attempt. Nothing comes to a sender.
    fn refuse(&self) {}

    /// Files of this end that could not be read whole. A receiver reads none.
    fn unreadable(&self) -> usize {
        0
    }
}

/// Runs `session` to its end.
pub(super) async fn execute(
    copy: &mut Copy<'_>,
    control: &mut Control,
    mut session: CopySession,
    end: &mut impl TreeEnd,
) -> Result<CopySummary, Error> {
    let (mut requests, mut marked) = (Vec::new(), ByteRanges::new());
    while let Some(output) = session.poll() {
        let event = match output {
            Output::Request { request, is_optional: true } => {
                requests.push(control.try_request(request));
                continue;
            }
            Output::Request { request, is_optional: false } => {
                requests.push(control.request(request));
                continue;
            }
            Output::Await(id) => {
                let id = requests[id.0];
                let result = copy.until_done(control, &[id]).await;
                marked = lock(&control.remote_progress()).of(id);
                Event::Answered { result, marked: marked.total(), held: end.held() }
            }
            Output::Open { may_grow } => Event::Opened(end.open(copy, control, may_grow).await),
            Output::Move(part) => {
                let Watched { result, told } = end.carry(copy, control, part).await;
                Event::Moved { result, told, held: end.held(), unreadable: end.unreadable() }
            }
            Output::Hear { until } => Event::Heard(copy.hear(control, until).await),
            Output::Prepare => Event::Prepared(end.prepare(copy, control).await),
            Output::Refuse => {
                end.refuse();
                continue;
            }
            Output::Settle => {
                copy.end_transfer();
                continue;
            }
            Output::End(result) => return result,
        };
        let resumed = session.resumed();
        session.handle(copy.now(), event);
        // The reply to the list was the last word.
        if session.resumed() != resumed {
            copy.stats.hold(std::mem::take(&mut marked));
        }
    }
    Err(Error::new(Fault::Bug, ErrorCode::NoChannel, "a copy waits for nothing"))
}
