//! Begins a copy again after a fault that may pass: the next attempt goes on from what is durable.

use super::copy::Copy;
use super::interrupted::interrupted;
use super::options::RetryNotice;
use crate::mover::BLOCK_LEN;
use farline_core::copy::{FailedAttempt, RetryBackoff};
use farline_core::transfer::StoreMedium;
use farline_core::units::{Error, ErrorCode, Fault, Rng, Span};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::time::{Duration, Instant};

/// Between two words on a copy that waits.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Runs `attempt` until it succeeds, fails for good, or the patience of the options is at its end.
/// What came out of a pipe does not come again, and what went into one cannot be taken back: there
/// is one attempt then, once the copy has begun.
pub(super) async fn with_retries(
    copy: &mut Copy<'_>,
    mut attempt: impl AsyncFnMut(&mut Copy<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut seed = [0; 8];
    // Without randomness the waits of many do not spread, and are as long.
    let _ = getrandom(&mut seed, GetRandomFlags::empty());
    let media = copy.stats.fixed.media;
    let has_pipe = matches!(media, (StoreMedium::Pipe, _) | (_, StoreMedium::Pipe));
    let rng = Rng::new(u64::from_ne_bytes(seed));
    let mut backoff = RetryBackoff::new(copy.options.retry_for, rng);
    let (mut first, mut moved) = (None, false);
    loop {
        let before = copy.stats.checkpoint();
        let (began, moving) = (Instant::now(), copy.stats.moving);
        let error = match attempt(copy).await {
            Ok(()) => {
                if let Some(first) = &first {
                    copy.stats.count_held_at(first);
                }
                return Ok(());
            }
            Err(error) => error,
        };
        let was_reached = copy.is_reached || copy.stats.params.is_some();
        let arrived = match error.code {
            // What was sent meanwhile to who is busy with another's went nowhere.
            ErrorCode::Busy => 0,
            _ => copy.state.arrived(),
        };
        let failed = FailedAttempt { error, was_reached, arrived };
        let wait = backoff.handle(copy.now(), &failed);
        let Some(wait) = wait.filter(|_| !(has_pipe && was_reached)) else {
            return Err(match backoff.failures() {
                1 => failed.error,
                n => Error {
                    message: format!("{} (attempt {n})", failed.error.message),
                    ..failed.error
                },
            });
        };
        copy.has_arrived |= copy.state.has_arrived_whole();
        moved |= arrived > BLOCK_LEN as u64;
        if arrived > 0 {
            first.get_or_insert_with(|| copy.stats.held_before());
        }
        copy.try_again(before);
        let is_there =
            matches!(failed.error.fault, Fault::There | Fault::Refused) || is_down(&failed.error);
        if arrived == 0 {
            // What was set up in vain is part of the wait.
            let moved = copy.stats.moving.saturating_sub(moving);
            note_wait(copy, Span::from(began.elapsed()).saturating_sub(moved), is_there);
        }
        copy.stats.last_failure = Some(failed.error.message.clone());
        let notice = RetryNotice { error: failed.error, failures: backoff.failures(), wait };
        copy.options.on_retry.notify(&notice);
        sleep(copy, wait, is_there).await.map_err(|reason| match moved {
            true => interrupted(reason, "`farline partials ls`, here or at the node,"),
            false => reason,
        })?;
    }
}

/// Whether the host was reached, and said that nothing listens there: the path is not away.
fn is_down(error: &Error) -> bool {
    let beneath = error.source.as_ref().and_then(|source| source.downcast_ref::<io::Error>());
    beneath.is_some_and(|beneath| beneath.kind() == io::ErrorKind::ConnectionRefused)
}

/// Waits, for the other end if `is_there`, unless the copy is asked to end.
async fn sleep(copy: &mut Copy<'_>, wait: Span, is_there: bool) -> Result<(), Error> {
    let began = Instant::now();
    let woken = tokio::time::sleep(Duration::from(wait));
    tokio::pin!(woken);
    let mut tick = tokio::time::interval(SHOW_EVERY);
    let result = loop {
        tokio::select! {
            () = &mut woken => break Ok(()),
            reason = copy.options.cancel.asked() => break Err(reason),
            _ = tick.tick() => copy.show_waiting(),
        }
    };
    note_wait(copy, began.elapsed().into(), is_there);
    result
}

fn note_wait(copy: &mut Copy<'_>, waited: Span, is_there: bool) {
    copy.stats.waited = copy.stats.waited + waited;
    if is_there {
        copy.stats.waited_there = copy.stats.waited_there + waited;
    }
}
