//! A disk that is slow by itself: a file in memory as a block device with a file system on it,
//! which the kernel holds to a rate. What is written to it or read from it waits as for any other
//! disk.

use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Where the kernel takes limits of block devices that hold for all processes, the threads that
/// write back its page cache among them: the root of cgroup v1's hierarchy. That of v2 takes none.
const LIMITS: &str = "/sys/fs/cgroup/blkio";
/// What folders are called that such a disk is mounted at, before the number of who made it.
const NAME: &str = "farline-slow-disk-";

/// Which way data goes.
#[derive(Clone, Copy, Debug)]
enum IoDirection {
    Read,
    Write,
}

/// A mounted file system, gone with this.
#[derive(Debug)]
pub struct SlowDisk {
    folder: PathBuf,
    device: PathBuf,
    /// `MAJOR:MINOR`.
    number: String,
    _image: TempDir,
}

impl SlowDisk {
    /// A disk of `mib` with an ext4 on it that is as fast as memory yet, or `None`, loudly, where
    /// this machine makes none.
    ///
    /// # Panics
    /// When that fails for another reason.
    pub fn up(mib: u64) -> Option<SlowDisk> {
        let why_not = if !rustix::process::geteuid().is_root() {
            "only root may mount a file system"
        } else if !limit_file(IoDirection::Write).exists() {
            "the kernel takes no rates of block devices for all (cgroup v1, blkio.throttle)"
        } else if !Path::new("/dev/loop-control").exists() || !Path::new("/dev/shm").is_dir() {
            "there is no block device that is a file in memory (/dev/loop-control, /dev/shm)"
        } else {
            ""
        };
        if !why_not.is_empty() {
            crate::skip(why_not);
            return None;
        }
        clear_away();
        let image = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let file = image.path().join("image");
        let made = fs::File::create(&file).expect("a file");
        made.set_len(mib << 20).expect("room");
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&file));
        let said = run(Command::new("losetup").args(["-f", "--show"]).arg(&file));
        let device = PathBuf::from(said.trim());
        let name = device.file_name().expect("a device").to_owned();
        let number = Path::new("/sys/block").join(name).join("dev");
        let number = fs::read_to_string(number).expect("a number").trim().to_owned();
        let folder = std::env::temp_dir().join(format!("{NAME}{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let disk = SlowDisk { folder, device, number, _image: image };
        // What had this number before may have been killed.
        disk.hold(IoDirection::Read, 0);
        disk.hold(IoDirection::Write, 0);
        run(Command::new("mount").arg(&disk.device).arg(&disk.folder));
        Some(disk)
    }

    /// Where its files are.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Holds what is read to so many bytes a second.
    pub fn read_at(&self, bytes: u64) {
        self.hold(IoDirection::Read, bytes);
    }

    /// Takes a file that is on this disk out of memory. To unmount it would not: each mount
    /// namespace that was begun meanwhile has it mounted too.
    ///
    /// # Panics
    /// When it is not there.
    pub fn forget(&self, name: &str) {
        let file = fs::File::open(self.folder.join(name)).expect("a file");
        file.sync_all().expect("on the disk");
        fadvise(&file, 0, None, Advice::DontNeed).expect("taken as advice");
    }

    /// Holds what is written to so many bytes a second.
    pub fn write_at(&self, bytes: u64) {
        self.hold(IoDirection::Write, bytes);
    }

    /// No rate is 0.
    fn hold(&self, way: IoDirection, bytes: u64) {
        let limit = format!("{} {bytes}", self.number);
        fs::write(limit_file(way), limit).expect("a limit");
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        for way in [IoDirection::Read, IoDirection::Write] {
            let _ = fs::write(limit_file(way), format!("{} 0", self.number));
        }
        // Who still has a file open there keeps it until then.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).output();
        let _ = Command::new("losetup").arg("-d").arg(&self.device).output();
        let _ = fs::remove_dir(&self.folder);
    }
}

fn limit_file(way: IoDirection) -> PathBuf {
    let name = match way {
        IoDirection::Read => "blkio.throttle.read_bps_device",
        IoDirection::Write => "blkio.throttle.write_bps_device",
    };
    Path::new(LIMITS).join(name)
}

/// Unmounts what runs that were killed left.
fn clear_away() {
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(device), Some(folder)) = (words.next(), words.next()) else { continue };
        let owner = folder.rsplit('/').next().and_then(|name| name.strip_prefix(NAME));
        let owner = owner.and_then(|name| name.split('-').next()?.parse().ok());
        let Some(owner) = owner.and_then(Pid::from_raw) else { continue };
        if test_kill_process(owner).is_err() {
            run(Command::new("umount").args(["-l", folder]));
            let _ = Command::new("losetup").args(["-d", device]).output();
        }
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
