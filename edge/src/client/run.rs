//! Runs a copy: which way its data goes, and what comes of it.

use super::attributes;
use super::claimed::ClaimedPaths;
use super::copy::Copy;
use super::glob;
use super::keep_replaced;
use super::location::{Location, Remote};
use super::options::{CancelToken, Options, Progress, StoredProfiles};
use super::outcome::{DataDirection, Outcome, ProgressSample};
use super::retry::with_retries;
use super::{download, extraneous, local, stream, third_party, upload};
use crate::channels::Stack;
use crate::channels::driver::Offered;
use crate::plan::prior;
use crate::sys::tcp::process_usage;
use farline_core::copy::Existing;
use farline_core::transfer::{StoreMedium, UserOverrides};
use farline_core::units::{Error, ErrorCode, Fault, Setting, Span};
use std::pin::Pin;
use std::time::Instant;

/// Copies `sources` to `destination`; `watch` is told several times a second how it stands.
///
/// # Errors
/// When nothing could be copied: what, whose fault, what to try. Single files that failed are in
/// the outcome.
pub fn copy<'a>(
    sources: &'a [Location],
    destination: &'a Location,
    options: &'a Options,
    watch: &'a mut (dyn FnMut(&Progress) + Send),
) -> Pin<Box<dyn Future<Output = Result<Outcome, Error>> + 'a>> {
    // A future is compiled wherever it is awaited, with all that it awaits itself; this one here.
    Box::pin(run(sources, destination, options, watch))
}

async fn run(
    sources: &[Location],
    destination: &Location,
    options: &Options,
    watch: &mut (dyn FnMut(&Progress) + Send),
) -> Result<Outcome, Error> {
    let began = Instant::now();
    let (cpu_before, _) = process_usage();
    let mut copy = Copy::new(options, with_prior(options, sources, destination), began, watch);
    let read_from =
        sources.iter().map(Location::medium).find(|&medium| medium != StoreMedium::Disk);
    copy.stats.fixed.media = (read_from.unwrap_or_default(), destination.medium());
    require(options, sources, destination)?;
    // Before anything moves.
    copy.own_control()?;
    let sources = &expanded(&mut copy, sources, destination).await?[..];
    copy.claimed = ClaimedPaths::of(sources.iter().map(Location::to_string).collect());
    if options.most_deleted.is_some() {
        with_retries(&mut copy, async |copy| extraneous::require(copy, sources, destination).await)
            .await?;
    }
    let deletes = match (options.most_deleted, sources) {
        (Some(most), [source]) => Some((most, source)),
        _ => None,
    };
    if let (Some((most, source)), true) = (deletes, options.dry_run) {
        make_room(&mut copy, source, destination, most).await?;
    }
    let named = copy.stats.failures.len();
    carry(&mut copy, sources, destination).await?;
    if let Some((most, source)) = deletes
        && !options.dry_run
        && extraneous::lacks_room(&copy)
        && make_room(&mut copy, source, destination, most).await?
    {
        // Once more, for what has room now; what landed does not come again.
        let skipped = copy.stats.skipped.len();
        copy.stats.failures.truncate(named);
        copy.forget_kept();
        carry(&mut copy, sources, destination).await?;
        copy.stats.skipped.truncate(skipped);
    }
    if let ([source], Some(error)) = (sources, copy.stats.lone_failure()) {
        return Err(Error { message: format!("{source}: {}", error.message), ..error });
    }
    if let Some((most, source)) = deletes {
        delete(&mut copy, source, destination, most).await?;
    }
    note_what_was_not_had(&mut copy);
    let elapsed = Span::from(began.elapsed());
    copy.stats.samples.push(ProgressSample { t: elapsed.as_secs_f64(), bytes: copy.stats.bytes });
    let (cpu, peak_rss) = process_usage();
    copy.leave().await;
    Ok(copy.stats.outcome(elapsed, cpu.saturating_sub(cpu_before), peak_rss))
}

/// The sources, with what their wildcards stand for.
async fn expanded(
    copy: &mut Copy<'_>,
    sources: &[Location],
    destination: &Location,
) -> Result<Vec<Location>, Error> {
    let mut all = Vec::new();
    with_retries(copy, async |copy| {
        all = glob::expand(copy, sources, destination).await?;
        Ok(())
    })
    .await?;
    Ok(all)
}

/// Refuses what `options` ask for and these places cannot do.
fn require(options: &Options, sources: &[Location], destination: &Location) -> Result<(), Error> {
    let refused = |message: &str| Err(Error::new(Fault::You, ErrorCode::Unsupported, message));
    let has_no_files =
        |source: &Location| matches!(source, Location::Standard | Location::Store(_));
    let chooses = options.dry_run || !options.selection.is_all();
    if chooses && sources.iter().any(has_no_files) {
        return refused("a pipe and a memory store have no files to choose from, nor a dry run");
    }
    // What is at a node's paths are its files.
    let with_paths = |location: &Location| location.names_path_of_store();
    let is_compared = options.existing != Existing::Replace || options.dry_run;
    if is_compared && sources.iter().chain([destination]).any(with_paths) {
        return refused(&format!(
            "what is in a store of a program's own is not compared: no {}, \
             {} or {}",
            Setting::NoClobber,
            Setting::SkipSame,
            Setting::DryRun
        ));
    }
    require_of_pipes(options, sources, destination)?;
    require_held(options, sources, destination)?;
    keep_replaced::require(options.backup.as_ref(), destination)?;
    attributes::require(options, sources)?;
    attributes::require(options, std::slice::from_ref(destination))
}

/// Refuses what cannot be done with bytes that come, or go, from the first to the last: nobody
/// knows their size or time beforehand, and a node that stores them by themselves keeps nothing.
fn require_of_pipes(
    options: &Options,
    sources: &[Location],
    destination: &Location,
) -> Result<(), Error> {
    let comes_from_pipe = sources.iter().any(Location::is_ordered);
    let is_compared = matches!(options.existing, Existing::KeepSame | Existing::KeepSameContent);
    if is_compared && (comes_from_pipe || destination.is_ordered()) {
        let message = format!(
            "what comes from a pipe, or goes to one, is not compared: no {} and no {}",
            Setting::SkipSame,
            Setting::Checksum
        );
        return Err(Error::new(Fault::You, ErrorCode::Unsupported, message));
    }
    if options.backup.is_some() && comes_from_pipe && matches!(destination, Location::Remote(_)) {
        let message = format!("{}: what a pipe replaces at a server is not kept", Setting::Backup);
        return Err(Error::new(Fault::You, ErrorCode::Unsupported, message)
            .hint("write the pipe to a file first, and copy that"));
    }
    Ok(())
}

/// Copies `sources` to `destination`.
async fn carry(
    copy: &mut Copy<'_>,
    sources: &[Location],
    destination: &Location,
) -> Result<(), Error> {
    match destination {
        Location::Remote(to) => carry_there(copy, sources, to).await,
        here => carry_here(copy, sources, here).await,
    }
}

/// Copies to a server: from this host at once, from other servers one after the other.
async fn carry_there(copy: &mut Copy<'_>, sources: &[Location], to: &Remote) -> Result<(), Error> {
    // Between two servers data goes by sessions of another kind.
    copy.idle_session = None;
    let remote = sources.iter().filter_map(|source| match source {
        Location::Remote(from) => Some(from),
        _ => None,
    });
    let remote: Vec<&Remote> = remote.collect();
    if remote.is_empty() && !sources.is_empty() {
        copy.obtain_congestion()?;
        copy.begin_held();
        return with_retries(copy, async |copy| upload::run(copy, sources, to).await).await;
    }
    if remote.len() < sources.len() {
        let message = format!("to {to}: some sources are of this host, some are remote");
        return Err(Error::new(Fault::You, ErrorCode::MixedSources, message)
            .hint("copy them with one command each"));
    }
    let several = remote.len() > 1;
    for (index, from) in remote.into_iter().enumerate() {
        copy.begin_source(index);
        with_retries(copy, async |copy| third_party::run(copy, from, to, several).await).await?;
        copy.end_source();
    }
    Ok(())
}

/// Copies to this host, one source after the other.
async fn carry_here(
    copy: &mut Copy<'_>,
    sources: &[Location],
    here: &Location,
) -> Result<(), Error> {
    let several = sources.len() > 1;
    for (index, source) in sources.iter().enumerate() {
        copy.begin_source(index);
        match source {
            Location::Remote(from) => {
                let download =
                    async |copy: &mut Copy<'_>| download::run(copy, from, here, several).await;
                with_retries(copy, download).await?;
            }
            from if from.is_ordered() => stream::run(copy, from, here, several).await?,
            from => local::run(copy, from, here, several).await?,
        }
        copy.end_source();
    }
    Ok(())
}

/// Deletes what stands in the place of what is of another kind; whether there is room now.
async fn make_room(
    copy: &mut Copy<'_>,
    source: &Location,
    destination: &Location,
    most: u64,
) -> Result<bool, Error> {
    let (mut has_room, cancel) = (false, copy.options.cancel.clone());
    let made = with_retries(copy, async |copy| {
        has_room = extraneous::make_room(copy, source, destination, most).await?;
        Ok(())
    });
    let made = until_stopped(&cancel, made).await;
    note_failed(copy, made, "deleting what stands where something of another kind is to be")?;
    Ok(has_room)
}

/// Deletes at most `most` of what the source does not have; the copy itself has succeeded.
async fn delete(
    copy: &mut Copy<'_>,
    source: &Location,
    destination: &Location,
    most: u64,
) -> Result<(), Error> {
    let cancel = copy.options.cancel.clone();
    let deleted =
        with_retries(copy, async |copy| extraneous::delete(copy, source, destination, most).await);
    let deleted = until_stopped(&cancel, deleted).await;
    note_failed(copy, deleted, "deleting what the source does not have")
}

/// What `work` comes to, unless the copy is asked to end before: a deletion leaves nothing
/// half-done, and a server that says nothing is not waited for.
async fn until_stopped<T>(
    cancel: &CancelToken,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        done = work => done,
        reason = cancel.asked() => Err(reason),
    }
}

/// Notes that nothing was deleted, where that failed as a whole.
///
/// # Errors
/// When the copy was asked to end meanwhile.
fn note_failed(copy: &mut Copy<'_>, deleted: Result<(), Error>, doing: &str) -> Result<(), Error> {
    match deleted {
        Err(error) if error.code == ErrorCode::Interrupted => return Err(error.while_doing(doing)),
        Err(error) => copy.stats.not_deleted.push((Vec::new(), error.while_doing(doing))),
        Ok(()) => {}
    }
    Ok(())
}

/// Says what was asked for and did without, and what was not copied for it was there.
fn note_what_was_not_had(copy: &mut Copy<'_>) {
    copy.note_landed_before();
    let special = copy.options.channel.as_ref().map(Stack::channel);
    if let Some(driver) = special.filter(|driver| driver.capabilities.offered != Offered::Always)
        && !copy.stats.tried_channel
        && (copy.stats.data_path.is_some() || copy.stats.direction == DataDirection::Elsewhere)
    {
        let why = format!(
            "without {}, which is for copies between this host and a Farline node",
            driver.title
        );
        copy.stats.channel_fallback.get_or_insert_with(|| why.clone());
        copy.stats.note(why);
    }
    if let Some(refusal) = copy.options.direct_io.refusal() {
        copy.stats.note(format!(
            "without direct I/O, through the page cache, where a file system refused it: {refusal}"
        ));
    }
}

/// Refuses a held rate where no node admits it.
fn require_held(
    options: &Options,
    sources: &[Location],
    destination: &Location,
) -> Result<(), Error> {
    let Some(held) = options.held else { return Ok(()) };
    let remote = |location: &Location| matches!(location, Location::Remote(_));
    let why = match (sources.iter().all(remote), remote(destination)) {
        (true, true) => "between two other hosts this one cannot see to it".to_owned(),
        (false, false) => "nothing leaves this host".to_owned(),
        _ if options.limit.is_some() => format!("{} is another rate", Setting::Limit),
        _ if options.overrides.congestion.is_some() => {
            "another congestion control holds none".to_owned()
        }
        _ => return Ok(()),
    };
    let message = format!("{} cannot be held: {why}", held.rate);
    Err(Error::new(Fault::You, ErrorCode::HeldRateRefused, message))
}

/// What the options wish for, and where to begin by the stored profile of the path to the one node
/// of a copy for the way that its data goes. Of the path between two nodes nothing is known here.
fn with_prior(options: &Options, sources: &[Location], destination: &Location) -> UserOverrides {
    let mut overrides = options.overrides.clone();
    if options.stored_profiles == StoredProfiles::Ignore || overrides.prior.is_some() {
        return overrides;
    }
    let server = |location: &Location| match location {
        Location::Remote(remote) => Some(remote.server()),
        _ => None,
    };
    let (from, to) = (sources.iter().find_map(server), server(destination));
    overrides.prior = prior(from.as_deref(), to.as_deref());
    overrides
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Backup;
    use std::ffi::OsStr;

    fn at(text: &str) -> Location {
        Location::parse(OsStr::new(text)).expect("a location")
    }

    #[test]
    fn a_pipe_is_neither_compared_nor_kept_from_at_a_server() {
        let backup = Backup::new(b"~".to_vec(), None).expect("a suffix");
        let keeps = Options { backup: Some(backup), ..Options::default() };
        let plain = Options::default();
        let with = |existing: Existing| Options { existing, ..Options::default() };
        let (same, content) = (with(Existing::KeepSame), with(Existing::KeepSameContent));
        let stays = with(Existing::Keep);
        for (options, from, to, is_refused) in [
            (&plain, "-", "farline://n/f", false),
            (&stays, "-", "farline://n/f", false),
            (&keeps, "-", "farline://n/f", true),
            (&keeps, "-", "ftp://n/f", true),
            (&keeps, "-", "here", false),
            (&keeps, "f", "farline://n/f", false),
            (&same, "-", "farline://n/f", true),
            (&same, "-", "here", true),
            (&same, "farline://n/f", "-", true),
            (&same, "f", "farline://n/f", false),
            (&content, "-", "farline://n/f", true),
            (&content, "f", "-", true),
        ] {
            let required = require(options, &[at(from)], &at(to));
            let code = required.err().map(|error| error.code);
            let expected = is_refused.then_some(ErrorCode::Unsupported);
            assert_eq!(code, expected, "{from} {to}: {options:?}");
        }
    }
}
