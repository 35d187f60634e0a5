//! Compares two trees byte for byte.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Fails with the first difference between the files of `sent` and those of `arrived`, which may
/// lack no file and have none more.
pub(crate) fn trees(sent: &Path, arrived: &Path) -> Result<()> {
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    folders(sent, arrived, &mut left, &mut right)
}

fn folders(sent: &Path, arrived: &Path, left: &mut [u8], right: &mut [u8]) -> Result<()> {
    let names = names(sent)?;
    if let Some(odd) = names.symmetric_difference(&self::names(arrived)?).next() {
        bail!("{} is only on one side of {}", odd.display(), arrived.display());
    }
    for name in names {
        let (a, b) = (sent.join(&name), arrived.join(&name));
        if a.is_dir() {
            folders(&a, &b, left, right)?;
        } else {
            files(&a, &b, left, right)?;
        }
    }
    Ok(())
}

fn names(folder: &Path) -> Result<BTreeSet<OsString>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.file_name())).collect()
}

fn files(sent: &Path, arrived: &Path, left: &mut [u8], right: &mut [u8]) -> Result<()> {
    let (mut a, mut b) = (File::open(sent)?, File::open(arrived)?);
    let mut offset = 0;
    loop {
        let (m, n) = (fill(&mut a, left)?, fill(&mut b, right)?);
        if let Some(at) = left[..m].iter().zip(&right[..n]).position(|(a, b)| a != b) {
            bail!("{} differs at byte {}", arrived.display(), offset + at);
        }
        if m != n {
            bail!(
                "{} ends at byte {}, {} does not",
                if n < m { arrived } else { sent }.display(),
                offset + m.min(n),
                sent.display()
            );
        }
        if m == 0 {
            return Ok(());
        }
        offset += m;
    }
}

/// Reads until `buffer` is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two equal trees, then one change to the second.
    fn compared(change: impl FnOnce(&Path)) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        for side in [&a, &b] {
            fs::create_dir_all(side.join("below"))?;
            fs::write(side.join("below/file"), vec![7; (1 << 20) + 5])?;
            fs::write(side.join("empty"), [])?;
        }
        change(&b);
        trees(&a, &b)
    }

    #[test]
    fn finds_a_changed_a_missing_an_added_and_a_short_file() {
        assert!(compared(|_| ()).is_ok());
        let mut changed = vec![7; (1 << 20) + 5];
        changed[1 << 20] = 8;
        assert!(compared(|b| fs::write(b.join("below/file"), &changed).expect("written")).is_err());
        assert!(compared(|b| fs::remove_file(b.join("empty")).expect("removed")).is_err());
        assert!(compared(|b| fs::write(b.join("below/more"), []).expect("written")).is_err());
        assert!(
            compared(|b| fs::write(b.join("below/file"), vec![7; 1 << 20]).expect("written"))
                .is_err()
        );
    }
}
