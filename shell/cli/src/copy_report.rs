//! What came of a copy, in words for people and as JSON.

use crate::booked::{self, BookingSummary};
use crate::output::Output;
use farline::client::{DataPath, Existing, Outcome, PlannedFile};
use farline_core::copy::CopyReason;
use farline_core::transfer::{Limit, Party};
use farline_core::units::{Bytes, Error, Rate, Span, escaped};
use serde::Serialize;

/// Skipped files that are named without being asked for.
const SKIPPED_LISTED: usize = 10;

/// What of the command its report depends on.
pub(crate) struct Asked {
    pub(crate) verbose: bool,
    pub(crate) dry_run: bool,
    pub(crate) existing: Existing,
}

/// The result, and the booking of a copy that had one.
#[derive(Serialize)]
struct CopyResult<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    booking: Option<BookingSummary>,
}

/// Says it. Who asked for quiet is told what was asked for, and what failed.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn report(
    outcome: &Outcome,
    booking: Option<BookingSummary>,
    asked: &Asked,
    output: &Output,
) -> Result<(), Error> {
    let mut lines = Vec::new();
    if !output.quiet() {
        lines.push(summary(outcome, asked));
        lines.extend(data_path(outcome));
        lines.extend(booking.as_ref().map(booked::line));
    }
    let planned = outcome.planned.iter();
    lines.extend(planned.map(|file| format!("{}: {}", file.reason.text(), escaped(&file.path))));
    if !output.quiet() {
        lines.extend(outcome.notes.iter().map(|note| escaped(note).to_string()));
        lines.extend(why(outcome, asked.verbose));
        lines.extend(skipped(outcome, asked));
        if asked.verbose {
            let deleted = outcome.deleted.iter();
            lines.extend(deleted.map(|path| format!("deleted: {}", escaped(path))));
        }
    }
    lines.extend(failures(outcome));
    if lines.is_empty() && !output.json() {
        return Ok(());
    }
    output.result(&CopyResult { outcome, booking }, lines.join("\n"))
}

/// What came of it, in one line.
fn summary(outcome: &Outcome, asked: &Asked) -> String {
    let (skipped, why) = (outcome.skipped.len(), why_skipped(asked.existing));
    let seconds = format!("{:.2} s", outcome.seconds);
    let mut text = match outcome.files {
        _ if asked.dry_run => return would_do(outcome, asked.existing),
        0 if skipped > 0 => {
            let are = if skipped == 1 { "is" } else { "are" };
            format!("nothing to copy: {} {are} {why}; {seconds}", files(skipped))
        }
        0 if !outcome.failures.is_empty() => format!("nothing was copied; {seconds}"),
        // Folders and links are all there was.
        0 => format!("no files to copy; {seconds}"),
        count => {
            let verified = if outcome.verified { "verified" } else { outcome.verified_how };
            let mut text = format!(
                "{} in {}{}, {seconds}, {}; {verified}",
                Bytes(outcome.bytes),
                files(count as usize),
                there_already(outcome),
                Rate::from_bps(outcome.rate_bps),
            );
            if skipped > 0 {
                text.push_str(&format!(", {skipped} skipped, {why}"));
            }
            text
        }
    };
    for (count, what) in [
        (outcome.deleted.len(), "deleted"),
        (outcome.failures.len(), "not copied"),
        (outcome.not_deleted.len(), "not deleted"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    match outcome.encrypted {
        Some(true) => text.push_str(", encrypted"),
        Some(false) => text.push_str(", not encrypted"),
        None => {}
    }
    if outcome.attempts > 1 {
        let waited = Span::from_secs_f64(outcome.waited_seconds);
        text.push_str(&format!(", in {} attempts, {waited} between them", outcome.attempts));
    }
    if let Some(DataPath::Driver { title, .. }) = outcome.data_path {
        text.push_str(&format!(", by {title}"));
    }
    text
}

fn files(count: usize) -> String {
    format!("{count} file{}", if count == 1 { "" } else { "s" })
}

/// What a dry run found, in one line.
fn would_do(outcome: &Outcome, existing: Existing) -> String {
    let planned = &outcome.planned;
    let deletes = |file: &&PlannedFile| file.reason == CopyReason::Extraneous;
    let deleted = planned.iter().filter(deletes).count();
    let bytes = planned.iter().filter(|file| !deletes(file)).map(|file| file.bytes).sum();
    // As a copy that is done counts: files, and no links.
    let links = planned.iter().filter(|file| !deletes(file) && file.is_link).count();
    let mut text = match planned.len() - deleted - links {
        0 if links > 0 => "a dry run: no files would be copied".to_owned(),
        0 => "a dry run: nothing would be copied".to_owned(),
        count => format!("a dry run: {} in {} would be copied", Bytes(bytes), files(count)),
    };
    if deleted > 0 {
        text.push_str(&format!(", {deleted} deleted"));
    }
    match outcome.skipped.len() {
        0 => {}
        skipped => text.push_str(&format!(", {skipped} skipped, {}", why_skipped(existing))),
    }
    match outcome.failures.len() {
        0 => {}
        failures => text.push_str(&format!(", {failures} not copied")),
    }
    text
}

fn why_skipped(existing: Existing) -> &'static str {
    match existing {
        Existing::KeepSame => "unchanged by size and time",
        Existing::KeepSameContent => "of the same content",
        _ => "there already",
    }
}

fn there_already(outcome: &Outcome) -> String {
    match outcome.bytes - outcome.moved_bytes {
        0 => String::new(),
        there => {
            let moved = Bytes(outcome.moved_bytes);
            format!(", {} of them there already, {moved} moved", Bytes(there))
        }
    }
}

/// Which way data went, where it is not the usual one.
fn data_path(outcome: &Outcome) -> Option<String> {
    let (way, whose) = match outcome.data_path {
        Some(DataPath::ControlPort) => ("the control port", "the node's"),
        Some(DataPath::Ssh) => ("ssh", "the other host's"),
        _ => return None,
    };
    Some(format!("data went through {way}: {whose} data ports could not be reached"))
}

/// What was chosen and why, and what held the copy back; without being asked for, only where
/// whoever gave the command can change it.
fn why(outcome: &Outcome, verbose: bool) -> Vec<String> {
    let limited = format!("limited by {}", outcome.limited_in_words());
    if !verbose {
        let is_yours = outcome.limited_party == Party::You
            || (outcome.limited_party == Party::Here
                && matches!(outcome.limited_by, Limit::SendBuffer | Limit::ReceiverWindow));
        return if is_yours { vec![limited] } else { Vec::new() };
    }
    // A copy within this host goes over no path.
    let rtt = Some(Span::from_secs_f64(outcome.rtt_seconds)).filter(|rtt| *rtt > Span::ZERO);
    let mut lines: Vec<String> = rtt.iter().map(|rtt| format!("rtt {rtt}")).collect();
    if outcome.files == 0 && outcome.moved_bytes == 0 {
        // What moved nothing was held back by nothing.
        return lines;
    }
    // What was measured says so itself.
    let label = |is_choice| if is_choice { "chosen: " } else { "" };
    let reasons = outcome.reasons.iter();
    lines.extend(reasons.map(|reason| format!("{}{reason}", label(reason.is_choice()))));
    lines.push(format!(
        "{limited}; {} retransmissions, {:.2} s of processor time, {} of memory",
        outcome.retransmits,
        outcome.cpu_seconds,
        Bytes(outcome.peak_rss_bytes)
    ));
    lines
}

/// Names of skipped files: that they are unchanged is what a sync hopes for, and their number is
/// enough.
fn skipped(outcome: &Outcome, asked: &Asked) -> Vec<String> {
    let is_sync = matches!(asked.existing, Existing::KeepSame | Existing::KeepSameContent);
    let listed = match (asked.verbose, is_sync) {
        (true, _) => usize::MAX,
        (false, true) => return Vec::new(),
        (false, false) => SKIPPED_LISTED,
    };
    let named = outcome.skipped.iter().take(listed);
    let mut lines: Vec<String> = named.map(|path| format!("skipped: {}", escaped(path))).collect();
    if outcome.skipped.len() > listed {
        lines.push(format!("skipped: {} more (-v names them)", outcome.skipped.len() - listed));
    }
    lines
}

/// What failed, each by name; a hint that goes for several in a row is said once.
fn failures(outcome: &Outcome) -> Vec<String> {
    let not_copied = outcome.failures.iter().map(|failure| ("not copied", failure));
    let not_deleted = outcome.not_deleted.iter().map(|failure| ("not deleted", failure));
    let all: Vec<_> = not_copied.chain(not_deleted).collect();
    let mut lines = Vec::new();
    for (at, (what, failure)) in all.iter().enumerate() {
        lines.push(format!("{what}: {}: {}", escaped(&failure.path), failure.error));
        let hint = &failure.error.hint;
        if all.get(at + 1).is_none_or(|(_, next)| next.error.hint != *hint) {
            lines.extend(hint.iter().map(|hint| format!("hint: {hint}")));
        }
    }
    lines
}
