//! What the last transfer from here to an address saw of the path, by which the next one begins.
//!
//! A document for each pair of addresses, next to the stored profiles. It is locked by the transfer
//! that goes by it: of several at once only one may begin by what a path holds (RFC 9959, 3.5 wants
//! it shared out).

use crate::stores::state_folder;
use crate::sys::clock::since_1970;
use crate::sys::ethtool::interface_of;
use farline_core::congestion::SavedPath;
use farline_core::copy::SeenPath;
use farline_core::transfer::{PathRecord, Waits};
use farline_core::units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What was seen is believed for so long: routes change from day to day.
const FRESH: Duration = Duration::from_secs(24 * 3_600);
/// Documents at most; beyond it only those that there are go on.
const MOST: usize = 4_096;
/// Bytes of a document at most.
const LONGEST: u64 = 4_096;
/// A transfer that moved fewer bytes than this many times what it had on its way was over too soon
/// to say that a path holds less than was known.
const TELLING: u64 = 4;

/// What one transfer saw is as good a word on a path as what an earlier one did, if it is at least
/// this part of it.
const NEAR: f64 = 0.75;

/// Unless it lost so much, which says that it was too much.
const MUCH_LOST: f64 = 0.01;

/// What its path was to a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    /// It was what held the transfer back.
    pub(crate) holds: bool,
    /// It was full for long enough to say how much that takes.
    pub(crate) fills: bool,
}

impl HeldBack {
    /// As the sending end's accounts have it.
    pub(crate) fn by(waits: &Waits) -> HeldBack {
        HeldBack { holds: waits.is_held_by_path(), fills: waits.has_filled_path() }
    }
}

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Document {
    schema: String,
    /// Seconds since 1970.
    at: u64,
    /// Bits a second, at best.
    rate: u64,
    /// Nanoseconds of the least round trip.
    rtt: u64,
    /// Bytes on their way at that rate.
    in_flight: u64,
    /// The part of its packets that had to be sent again.
    lost: Option<f64>,
    /// Whether that was all that the path had; what an earlier version wrote does not say it.
    #[serde(default)]
    fills: bool,
}

const SCHEMA: &str = "farline/path/1";

impl Document {
    /// What `file` has; what makes no sense was not written by this version.
    fn read(file: &mut File) -> Option<Document> {
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        let document: Document = serde_json::from_str(&text).ok()?;
        (document.schema == SCHEMA).then_some(document)
    }

    /// What it says, unless that is old.
    fn seen(&self) -> Option<SeenPath> {
        let age = since_1970().as_secs().checked_sub(self.at)?;
        let seen = SeenPath {
            rate: Rate::from_bps(self.rate),
            saved: SavedPath {
                in_flight: Bytes(self.in_flight),
                rtt: Span::from_nanos(self.rtt),
                fills: self.fills,
            },
            age: Span::from_secs(age),
            lost: self.lost,
        };
        (age < FRESH.as_secs() && seen.is_sound()).then_some(seen)
    }
}

/// What is known of the path from one address to another, also while a transfer goes by it.
pub(crate) fn seen(from: IpAddr, to: IpAddr) -> Option<SeenPath> {
    let (from, to) = (from.to_canonical(), to.to_canonical());
    let place = state_folder()?.join("paths").join(plain(&format!("{from}-{to}.json")));
    Document::read(&mut plain_file(File::options().read(true), &place)?)?.seen()
}

/// Opens a file, and nothing that one would wait for: a FIFO without a writer, a device.
fn plain_file(how: &mut OpenOptions, place: &Path) -> Option<File> {
    let file = how.custom_flags(libc::O_NONBLOCK).open(place).ok()?;
    file.metadata().is_ok_and(|known| known.is_file()).then_some(file)
}

/// The rate of the interface that has the address `local`, where it is a device that says it: what
/// a kernel makes up says anything (10 Mbit/s of a TUN).
pub(crate) fn interface_rate(local: IpAddr) -> Option<Rate> {
    let folder = Path::new("/sys/class/net").join(interface_of(local.to_canonical())?);
    let says = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let mbps: u64 = folder.join("device").exists().then(|| says("speed"))??.trim().parse().ok()?;
    (mbps > 0).then(|| Rate::from_bps(mbps.saturating_mul(1_000_000)))
}

/// A document's name as a file's.
fn plain(name: &str) -> String {
    name.replace(':', "_")
}

/// What is stored of the path from one address to another, claimed by one transfer.
#[derive(Debug)]
pub(crate) struct StoredPath {
    file: File,
    document: Option<Document>,
}

impl StoredPath {
    /// What is stored of the path from `local` to `remote`. `None` for a path that is none (this
    /// host itself), while another transfer goes by it, and where nothing can be stored.
    pub(crate) fn claim(local: IpAddr, remote: IpAddr) -> Option<StoredPath> {
        let (local, remote) = (local.to_canonical(), remote.to_canonical());
        if remote.is_loopback() || remote == local {
            return None;
        }
        StoredPath::at(&state_folder()?.join("paths"), &format!("{local}-{remote}.json"))
    }

    fn at(folder: &Path, name: &str) -> Option<StoredPath> {
        let place: PathBuf = folder.join(plain(name));
        if !place.exists() {
            fs::create_dir_all(folder).ok()?;
            make_room(folder)?;
        }
        let mut how = File::options();
        how.create(true).truncate(false).read(true).write(true);
        let mut file = plain_file(&mut how, &place)?;
        file.try_lock().ok()?;
        let document = Document::read(&mut file);
        Some(StoredPath { file, document })
    }

    /// What a transfer may begin from, and how long ago it was seen.
    pub(crate) fn saved(&self) -> Option<(SavedPath, Span)> {
        let seen = self.document.as_ref()?.seen()?;
        Some((seen.saved, seen.age))
    }

    /// Keeps what a transfer of `moved` bytes saw, where it says more than what is there. That a
    /// path has less than was seen before only a transfer shows which the path `held` back. One
    /// that its source was too slow for, or that nobody knows of, says nothing but that it has as
    /// much.
    ///
    /// # Errors
    /// When the document cannot be written.
    pub(crate) fn store(
        &mut self,
        seen: &PathRecord,
        moved: Bytes,
        path: HeldBack,
    ) -> std::io::Result<()> {
        let (Some(saved), Some(rate)) = (seen.saved(path.fills), seen.rate()) else {
            return Ok(());
        };
        let before = self.saved().map(|(saved, _)| saved);
        let tells = path.holds && moved.0 >= TELLING.saturating_mul(saved.in_flight.0)
            || seen.lost().is_some_and(|lost| lost > MUCH_LOST);
        // What came at once or late makes a difference of so much, and no more.
        let is_part = |part: u64, whole: u64| part as f64 >= NEAR * whole as f64;
        let is_near = before.is_none_or(|before| is_part(saved.in_flight.0, before.in_flight.0));
        if !is_near && !tells {
            return Ok(());
        }
        // What filled the path before and was come near to fills it yet.
        let filled = before.is_some_and(|before| {
            before.fills && is_near && is_part(before.in_flight.0, saved.in_flight.0)
        });
        let document = Document {
            schema: SCHEMA.to_owned(),
            at: since_1970().as_secs(),
            rate: rate.as_bps(),
            rtt: saved.rtt.as_nanos(),
            in_flight: saved.in_flight.0,
            lost: seen.lost(),
            fills: saved.fills || filled,
        };
        let text = serde_json::to_vec(&document)?;
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(&text)?;
        self.document = Some(document);
        Ok(())
    }
}

/// Whether there is room for one document more, once the old ones are gone.
fn make_room(folder: &Path) -> Option<()> {
    let there = || fs::read_dir(folder).ok().map(|items| items.flatten());
    if there()?.count() < MOST {
        return Some(());
    }
    for item in there()? {
        let written = item.metadata().and_then(|known| known.modified());
        let age = written.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age > FRESH) {
            // Who still has it goes on with it.
            let _ = fs::remove_file(item.path());
        }
    }
    (there()?.count() < MOST).then_some(())
}

/// The address of this host from which the way leads to `remote`.
pub(crate) fn address_towards(remote: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match remote {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Sends nothing: the port is only to have the kernel look up the way.
    socket.connect((remote, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::units::Time;

    fn seen(rate: u64, rtt: Span) -> PathRecord {
        let mut record = PathRecord::default();
        for second in 0..3 {
            let now = Time::ZERO + Span::from_secs(second);
            record.sample(now, Bytes(second * rate / 8), Some(rtt), (100, 1));
        }
        record
    }

    const FULL: HeldBack = HeldBack { holds: true, fills: true };
    const UNKNOWN: HeldBack = HeldBack { holds: false, fills: false };

    #[test]
    fn what_one_transfer_saw_the_next_begins_from() {
        let dir = tempfile::tempdir().expect("a folder");
        let rtt = Span::from_millis(100);
        let mut first = StoredPath::at(dir.path(), "::1-::2.json").expect("it is ours");
        assert!(first.saved().is_none(), "nothing was seen yet");
        assert!(StoredPath::at(dir.path(), "::1-::2.json").is_none(), "one at a time");
        assert!(StoredPath::at(dir.path(), "::1-::3.json").is_some(), "another path");
        first.store(&seen(1_000_000_000, rtt), Bytes::mib(1_024), FULL).expect("written");
        drop(first);

        let mut second = StoredPath::at(dir.path(), "::1-::2.json").expect("it is free again");
        let (saved, age) = second.saved().expect("it was stored");
        assert_eq!((saved.in_flight, saved.rtt), (Bytes(12_500_000), rtt));
        assert!(age < Span::from_secs(60), "{age}");
        // A small copy says little of a path, a long one that it became slower.
        second.store(&seen(100_000_000, rtt), Bytes::mib(4), FULL).expect("written");
        assert_eq!(second.saved().expect("the same").0.in_flight, Bytes(12_500_000));
        // And one that something else held back says nothing of it, however long it was.
        second.store(&seen(100_000_000, rtt), Bytes::mib(100), UNKNOWN).expect("written");
        assert_eq!(second.saved().expect("the same").0.in_flight, Bytes(12_500_000));
        second.store(&seen(100_000_000, rtt), Bytes::mib(100), FULL).expect("written");
        assert_eq!(second.saved().expect("less").0.in_flight, Bytes(1_250_000));
    }

    #[test]
    fn a_copy_that_ended_while_it_grew_does_not_say_what_a_path_has() {
        let dir = tempfile::tempdir().expect("a folder");
        let rtt = Span::from_millis(100);
        let mut path = StoredPath::at(dir.path(), "path").expect("it is ours");
        let mut after = |rate: u64, held: HeldBack| {
            path.store(&seen(rate, rtt), Bytes::mib(100), held).expect("written");
            let saved = path.saved().expect("stored").0;
            (saved.in_flight.0, saved.fills)
        };
        assert_eq!(after(10_000_000, UNKNOWN), (125_000, false));
        assert_eq!(after(100_000_000, FULL), (1_250_000, true));
        // One that came near to what filled the path has seen the same; one that went far beyond
        // has seen that it was not all.
        assert_eq!(after(90_000_000, UNKNOWN), (1_125_000, true));
        assert_eq!(after(200_000_000, UNKNOWN), (2_500_000, false));
        let text = format!(
            r#"{{"schema":"{SCHEMA}","at":{},"rate":80000,"rtt":100000000,"in_flight":1000,"lost":null}}"#,
            since_1970().as_secs()
        );
        fs::write(dir.path().join("earlier"), text).expect("written");
        let earlier = StoredPath::at(dir.path(), "earlier").expect("it is ours");
        assert!(!earlier.saved().expect("what an earlier version wrote").0.fills);
    }

    #[test]
    fn what_is_old_or_nonsense_is_not_believed() {
        let dir = tempfile::tempdir().expect("a folder");
        let old = since_1970().as_secs() - FRESH.as_secs() - 1;
        for (name, at, believed) in [("old", old, false), ("new", since_1970().as_secs(), true)] {
            let text = format!(
                r#"{{"schema":"{SCHEMA}","at":{at},"rate":80,"rtt":100000000,"in_flight":1,"lost":null}}"#
            );
            fs::write(dir.path().join(name), text).expect("written");
            let stored = StoredPath::at(dir.path(), name).expect("it is ours");
            assert_eq!(stored.saved().is_some(), believed, "{name}");
        }
        fs::write(dir.path().join("bad"), "{").expect("written");
        assert!(StoredPath::at(dir.path(), "bad").expect("it is ours").saved().is_none());
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("a FIFO");
        assert!(StoredPath::at(dir.path(), "fifo").is_none(), "nobody waits for a writer");
        assert!(plain_file(File::options().read(true), &fifo).is_none(), "nor to read it");
    }

    #[test]
    fn the_way_to_this_host_is_no_path() {
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!(StoredPath::claim(here, here).is_none());
        assert_eq!(address_towards(here), Some(here));
    }
}
