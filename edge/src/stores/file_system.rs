//! Which file system is full: its kind and size, and where it is mounted.

use rustix::fs::{fstat, fstatvfs, major, minor};
use std::os::fd::AsFd;
use std::path::Path;

/// The file system of `folder`, in words, for the one who has to make room; where it is mounted
/// only where `at`, a path of it, may be named.
pub(super) fn file_system(folder: &impl AsFd, at: Option<&Path>) -> String {
    let (kind, mount) = mounted(folder, at).unwrap_or_default();
    let mut said = format!("the file system {kind}").trim_end().to_owned();
    if let Some(at) = at {
        said += &match mount.is_empty() {
            true => format!(" of {}", at.display()),
            false => format!(" at {mount}"),
        };
    }
    if let Ok(stat) = fstatvfs(folder) {
        let size = farline_core::units::Bytes(stat.f_blocks.saturating_mul(stat.f_frsize));
        let lacks_inodes = stat.f_files > 0 && stat.f_favail == 0;
        said += &format!(
            ", of {size}, {}",
            if lacks_inodes { "has as many files as it can hold" } else { "is full" }
        );
    }
    said
}

/// Kind and mount point of the file system of `folder`, by proc_pid_mountinfo(5): one may be
/// mounted at many places, of which the one that `at` lies below is meant.
fn mounted(folder: &impl AsFd, at: Option<&Path>) -> Option<(String, String)> {
    let device = fstat(folder).ok()?.st_dev;
    let device = format!("{}:{}", major(device), minor(device));
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let at = at.and_then(|at| at.canonicalize().ok());
    let found = table.lines().filter_map(|line| {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(2);
        let is_it = fields.next() == Some(&device);
        let mount = fields.nth(1)?.replace("\\040", " ");
        let kind = rest.split(' ').next().unwrap_or_default().to_owned();
        is_it.then_some((kind, mount))
    });
    // The deepest of those above it, and of two at one place the later.
    let is_above = |mount: &str| at.as_ref().is_some_and(|at| at.starts_with(mount));
    found.max_by_key(|(_, mount)| if is_above(mount) { mount.len() } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_named_by_kind_place_and_size() {
        let proc = std::fs::File::open("/proc").expect("there");
        let said = file_system(&proc, Some(Path::new("/proc")));
        assert!(said.starts_with("the file system proc at /proc, of 0 B"), "{said}");
        let said = file_system(&proc, None);
        assert!(said.starts_with("the file system proc, of 0 B"), "{said}");
    }
}
