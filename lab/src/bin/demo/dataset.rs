//! The files to copy: large ones that do not compress, and a tree of small ones found on this
//! machine.

use anyhow::{Context, Result, bail};
use farline_core::report::demo;
use farline_core::units::{Bytes, Rng};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Files in a folder of their own.
pub(crate) struct Dataset {
    pub(crate) name: &'static str,
    pub(crate) about: String,
    pub(crate) folder: PathBuf,
    pub(crate) files: u64,
    pub(crate) bytes: Bytes,
}

/// The size and number of the CCSM trace's files (Lai et al. 2009, section V.D): 256 MB each.
const LARGE: (u64, Bytes) = (4, Bytes::mib(256));
/// The most of a tree that is taken: enough to show what small files cost, little enough for a
/// demo.
const SMALL: (u64, Bytes) = (3_000, Bytes(100_000_000));
/// A tree of fewer files shows nothing.
const FEWEST: u64 = 200;

impl Dataset {
    pub(crate) fn facts(&self) -> demo::Dataset {
        demo::Dataset {
            name: self.name.to_owned(),
            about: self.about.clone(),
            files: self.files,
            bytes: self.bytes,
        }
    }
}

/// A file of `bytes` random bytes, drawn from its name.
pub(crate) fn random_file(path: &Path, bytes: u64) -> Result<()> {
    let seed = path
        .file_name()
        .map_or(0, |name| name.as_encoded_bytes().iter().map(|b| u64::from(*b)).sum());
    let mut rng = Rng::new(0xFA2_11E + seed);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for _ in 0..bytes / 8 {
        file.write_all(&rng.next_u64().to_le_bytes())?;
    }
    file.flush().with_context(|| format!("writing {}", path.display()))
}

/// Four files of 256 MiB, of random bytes: a tool that compresses gains nothing.
pub(crate) fn large(scratch: &Path) -> Result<Dataset> {
    let folder = scratch.join("large");
    fs::create_dir(&folder)?;
    for i in 0..LARGE.0 {
        random_file(&folder.join(format!("ccsm-{i}.nc")), LARGE.1.0)?;
    }
    let about = format!(
        "{} files of {} of random bytes, like those of the CCSM climate model.",
        LARGE.0, LARGE.1
    );
    Ok(Dataset { name: "large", about, folder, files: LARGE.0, bytes: Bytes(LARGE.0 * LARGE.1.0) })
}

/// A copy of the first of some well-known trees that has enough files.
pub(crate) fn small(scratch: &Path) -> Result<Dataset> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let candidates = [
        Some(PathBuf::from("/usr/include")),
        Some("/usr/share/doc".into()),
        cargo.map(|home| home.join("registry/src")),
    ];
    let folder = scratch.join("small");
    for tree in candidates.into_iter().flatten().filter(|tree| tree.is_dir()) {
        let mut taken = Taken::default();
        taken.take(&tree, &folder)?;
        if taken.files >= FEWEST {
            let about = format!(
                "{} files from {}, as they are on this machine.",
                taken.files,
                tree.display()
            );
            return Ok(Dataset {
                name: "small",
                about,
                folder,
                files: taken.files,
                bytes: Bytes(taken.bytes),
            });
        }
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
    }
    bail!("found no tree of {FEWEST} files in /usr/include, /usr/share/doc or cargo's registry")
}

#[derive(Default)]
struct Taken {
    files: u64,
    bytes: u64,
}

impl Taken {
    /// Copies the regular files of `from` to `to`, in the order of their names, until there are
    /// enough.
    fn take(&mut self, from: &Path, to: &Path) -> Result<()> {
        // A folder that may not be read is left out, as is whatever is neither file nor folder.
        let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.take(&source, &target)?;
            } else if kind.is_file() && self.files < SMALL.0 && self.bytes < SMALL.1.0 {
                fs::create_dir_all(to)?;
                if let Ok(bytes) = fs::copy(&source, &target) {
                    self.files += 1;
                    self.bytes += bytes;
                }
            }
            if self.files >= SMALL.0 || self.bytes >= SMALL.1.0 {
                break;
            }
        }
        Ok(())
    }
}

/// The number and the size of all files below `folder`.
pub(crate) fn count(folder: &Path) -> Result<(u64, Bytes)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let below = count(&entry.path())?;
            (files, bytes) = (files + below.0, bytes + below.1.0);
        } else {
            (files, bytes) = (files + 1, bytes + entry.metadata()?.len());
        }
    }
    Ok((files, Bytes(bytes)))
}
