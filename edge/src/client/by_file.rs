//! Executes what [`FileByFile`] wants of a copy to, from or between servers that know no trees.

use super::checksum;
use super::copy::Copy;
use super::landed_before::LandedBefore;
use super::options::Options;
use farline_core::copy::{FileByFile, FileEvent, FileOutput, FileRules, PriorLanding};
use farline_core::transfer::Entry;
use farline_core::transfer::journal::FileFacts;
use farline_core::units::Setting::Atomic;
use farline_core::units::{ByteRanges, Error, ErrorCode, Fault};
use std::collections::BTreeMap;

/// Refuses a tree whose files are to land together: file by file they cannot.
///
/// # Errors
/// Where that is asked for; it names the `server`.
pub(super) fn require_each(options: &Options, server: &str) -> Result<(), Error> {
    if !options.atomic {
        return Ok(());
    }
    let message = format!("{server}: files land one by one where an end is no Farline node");
    Err(Error::new(Fault::There, ErrorCode::Unsupported, message)
        .hint(format!("copy without {Atomic}")))
}

/// What moves files between this copy's ends, one by one.
pub(super) trait FileEnd {
    /// Where the entry `index` goes, as another attempt of the copy would have it.
    fn path(&self, index: usize) -> Vec<u8>;

    /// Makes the file ready; returns what a journal says is held of it.
    async fn begin(&mut self, copy: &mut Copy<'_>, index: usize) -> Result<ByteRanges, Error>;

    /// How long what is held is at the server, where it is there. Nobody asks it of this host.
    async fn measure(&mut self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// Whether the file landed in an earlier attempt, whose last word was lost: the same bytes
    /// stand under its name. Nobody asks it of this host.
    async fn find_landed(&mut self, _copy: &mut Copy<'_>) -> Result<bool, Error> {
        Ok(false)
    }

    /// Removes what is held. Nobody asks it of this host.
    fn renew(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// So much of the file is not moved.
    fn hold(&mut self, copy: &mut Copy<'_>, held: ByteRanges);

    /// Moves the rest.
    async fn carry(&mut self, copy: &mut Copy<'_>) -> Result<(), Error>;

    /// What the source is now. Nobody asks it of a source on this host.
    async fn look_again(&mut self) -> Result<Option<FileFacts>, Error> {
        Ok(None)
    }

    /// Compares the file at both ends; whether that was possible.
    async fn compare(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error>;

    /// Gives the file its name; otherwise names why not.
    async fn land(&mut self, copy: &mut Copy<'_>) -> Result<bool, Error>;

    /// Remembers for later copies that the file has landed.
    async fn remember(&mut self, _index: usize, _is_compared: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Makes a link on this host.
    fn link(&mut self, _copy: &mut Copy<'_>, _index: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Keeps what came or removes it; returns how the copy ends.
    async fn abandon(&mut self, copy: &mut Copy<'_>, keeps: bool, error: Error) -> Error;
}

/// Copies `entries` by `end`, but those that landed before.
///
/// # Errors
/// As the first file that fails and that no other may follow; those before it have landed.
pub(super) async fn execute(
    copy: &mut Copy<'_>,
    rules: FileRules,
    entries: &[Entry],
    before: &LandedBefore,
    end: &mut impl FileEnd,
) -> Result<(), Error> {
    let mut landed: BTreeMap<usize, PriorLanding> = before
        .iter()
        .map(|(&index, &is_compared)| (index, PriorLanding::EarlierCopy { is_compared }))
        .collect();
    for (index, entry) in entries.iter().enumerate() {
        let path = end.path(index);
        if copy.is_landed(&path, entry) {
            landed.insert(index, PriorLanding::ThisCopy);
        } else if copy.unheard.as_ref() == Some(&path) {
            landed.insert(index, PriorLanding::Unheard);
        }
    }
    copy.unheard = None;
    let mut files = FileByFile::new(rules, entries.to_vec(), landed);
    let (mut failure, mut path) = (None, Vec::new());
    while let Some(output) = files.poll() {
        let event = match output {
            FileOutput::Count(index, PriorLanding::EarlierCopy { is_compared }) => {
                copy.landed_before(&end.path(index), &entries[index], is_compared);
                continue;
            }
            FileOutput::Count(index, PriorLanding::ThisCopy | PriorLanding::Unheard) => {
                // What was held of it was counted when it landed.
                copy.land_one(&end.path(index), &entries[index], 0);
                copy.end_transfer();
                continue;
            }
            FileOutput::Fail(index, error) => {
                let error = failure.take().unwrap_or(error);
                copy.stats.failures.push((entries[index].path.clone(), error));
                copy.end_transfer();
                continue;
            }
            FileOutput::Link(index) => {
                end.link(copy, index)?;
                copy.end_transfer();
                continue;
            }
            FileOutput::Begin(index) => {
                path = end.path(index);
                FileEvent::Begun(end.begin(copy, index).await)
            }
            FileOutput::FindLanded => FileEvent::Landed(end.find_landed(copy).await),
            FileOutput::Measure => FileEvent::Measured(end.measure().await),
            FileOutput::Renew => FileEvent::Done(end.renew()),
            FileOutput::Hold(held) => {
                copy.begin_one(&path, held.total());
                end.hold(copy, held);
                continue;
            }
            FileOutput::Move => FileEvent::Done(end.carry(copy).await),
            FileOutput::LookAgain => FileEvent::Seen(end.look_again().await),
            FileOutput::Compare => FileEvent::Compared(end.compare(copy).await),
            FileOutput::Land => {
                let landed = end.land(copy).await;
                copy.unheard = landed.is_err().then(|| path.clone());
                if matches!(landed, Ok(false)) {
                    copy.end_transfer();
                }
                FileEvent::Landed(landed)
            }
            FileOutput::Landed { index, is_compared } => {
                copy.stats.compared += u64::from(is_compared);
                let held = copy.take_begun(&path);
                copy.land_one(&path, &entries[index], held);
                end.remember(index, is_compared).await?;
                copy.end_transfer();
                continue;
            }
            FileOutput::Abandon { keeps, error } => {
                failure = Some(end.abandon(copy, keeps, error).await);
                continue;
            }
            FileOutput::End(result) => {
                result.map_err(|error| failure.unwrap_or(error))?;
                checksum::conclude(copy);
                return Ok(());
            }
        };
        files.handle(event);
    }
    Err(Error::new(Fault::Bug, ErrorCode::NoChannel, "a copy waits for nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::options::Progress;
    use crate::client::test_entries::entry;
    use farline_core::transfer::{EntryKind, UserOverrides};
    use std::time::Instant;

    const RULES: FileRules = FileRules {
        lands_here: true,
        resumes_there: false,
        is_comparable: false,
        compares_all: false,
        goes_on: true,
    };

    fn file(name: &str, len: u64) -> Entry {
        Entry { modified_ns: 7, ..entry(name, EntryKind::File { len }) }
    }

    /// Has each file but for its last bytes, so many as it `lacks`; may refuse one its name, and
    /// not move another.
    struct Server<'a> {
        entries: &'a [Entry],
        lacks: u64,
        nameless: Option<usize>,
        fails: Option<(usize, Error)>,
        file: usize,
    }

    impl Server<'_> {
        fn of(entries: &[Entry]) -> Server<'_> {
            Server { entries, lacks: 10, nameless: None, fails: None, file: 0 }
        }
    }

    impl FileEnd for Server<'_> {
        fn path(&self, index: usize) -> Vec<u8> {
            self.entries[index].path.clone()
        }

        async fn begin(&mut self, _copy: &mut Copy<'_>, index: usize) -> Result<ByteRanges, Error> {
            self.file = index;
            Ok(std::iter::once(0..self.entries[index].len() - self.lacks).collect())
        }

        fn hold(&mut self, _copy: &mut Copy<'_>, _held: ByteRanges) {}

        async fn carry(&mut self, _copy: &mut Copy<'_>) -> Result<(), Error> {
            match &self.fails {
                Some((file, error)) if *file == self.file => Err(error.clone()),
                _ => Ok(()),
            }
        }

        async fn look_again(&mut self) -> Result<Option<FileFacts>, Error> {
            Ok(Some(FileFacts::of(&self.entries[self.file])))
        }

        async fn compare(&mut self, _copy: &mut Copy<'_>) -> Result<bool, Error> {
            Ok(false)
        }

        async fn land(&mut self, _copy: &mut Copy<'_>) -> Result<bool, Error> {
            Ok(self.nameless != Some(self.file))
        }

        async fn abandon(&mut self, _copy: &mut Copy<'_>, _keeps: bool, error: Error) -> Error {
            error
        }
    }

    #[tokio::test]
    async fn what_was_there_before_counts_once_and_where_it_lands() {
        let entries = [file("a", 100), file("b", 50), file("c", 30)];
        let options = Options::default();
        let mut watch = |_: &Progress| {};
        let mut copy = Copy::new(&options, UserOverrides::default(), Instant::now(), &mut watch);
        let mut end = Server { nameless: Some(0), ..Server::of(&entries) };
        // c landed in an earlier run.
        let before = LandedBefore::from([(2, false)]);
        execute(&mut copy, RULES, &entries, &before, &mut end).await.expect("it ends");
        // b and c; and what was held of b, and c.
        assert_eq!((copy.stats.bytes, copy.stats.resumed()), (80, 70));
        // Another attempt, which finds b in the journal next to c.
        end.nameless = None;
        let before = LandedBefore::from([(1, false), (2, false)]);
        execute(&mut copy, RULES, &entries, &before, &mut end).await.expect("it ends");
        copy.note_landed_before();
        let notes = copy.stats.notes.join("\n");
        assert!(notes.starts_with("1 file that landed in an earlier run was left"), "{notes}");
    }

    #[tokio::test]
    async fn what_was_held_counts_once_over_attempts_and_where_it_lands() {
        let entries = [file("a", 100), file("b", 50), file("c", 30)];
        let refused = Error::new(Fault::Refused, ErrorCode::PermissionDenied, "no");
        for (refused, landed, resumed) in [(Some(refused), 130, 117), (None, 180, 157)] {
            let options = Options::default();
            let mut watch = |_: &Progress| {};
            let overrides = UserOverrides::default();
            let mut copy = Copy::new(&options, overrides, Instant::now(), &mut watch);
            let (mut end, before) = (Server::of(&entries), LandedBefore::new());
            let began = copy.stats.checkpoint();
            // a lands, and the path is lost while b moves.
            end.fails = Some((1, Error::new(Fault::Between, ErrorCode::ChannelLost, "lost")));
            let lost = execute(&mut copy, RULES, &entries, &before, &mut end).await;
            assert_eq!(lost.expect_err("it is lost").code, ErrorCode::ChannelLost);
            copy.try_again(began);
            // Seven bytes more of b came in that attempt.
            (end.fails, end.lacks) = (refused.map(|error| (1, error)), 3);
            execute(&mut copy, RULES, &entries, &before, &mut end).await.expect("it ends");
            assert_eq!((copy.stats.bytes, copy.stats.resumed()), (landed, resumed));
        }
    }
}
