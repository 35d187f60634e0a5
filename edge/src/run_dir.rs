//! The run directory: where Farline's processes on this machine leave word for each other.
//!
//! Below it stand `cc` and `cc-trace`, which everybody may read, and the records of links, which
//! are their owner's alone. [`VARIABLE`] moves it, so that a second Farline (a test run, say)
//! shares nothing with the first.

use std::fs::{self, DirBuilder, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The environment variable that names another run directory.
pub const VARIABLE: &str = "FARLINE_RUN_DIR";

/// The machine's own.
const MACHINE: &str = "/run/farline";

/// The one that the environment names.
fn chosen() -> Option<&'static Path> {
    static CHOSEN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        std::env::var_os(VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute())
    });
    chosen.as_deref()
}

/// What all users of this machine share, as far as root made it.
pub(crate) fn machine() -> &'static Path {
    chosen().unwrap_or(Path::new(MACHINE))
}

/// This user's: the machine's for root. It is decided once: an emulator without root is root of
/// its own namespace later.
#[cfg(feature = "link")]
pub(crate) fn own() -> &'static Path {
    static OWN: OnceLock<PathBuf> = OnceLock::new();
    OWN.get_or_init(|| {
        let user = rustix::process::geteuid();
        if user.is_root() || chosen().is_some() {
            return machine().to_owned();
        }
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(runtime) => PathBuf::from(runtime).join("farline"),
            None => std::env::temp_dir().join(format!("farline-{}", user.as_raw())),
        }
    })
}

/// `name` for what exists once on a machine whatever the run directory is, such as a network
/// namespace: with a suffix where the run directory was chosen, so that two Farlines do not meet.
pub fn name_here(name: &str) -> String {
    chosen().map_or_else(|| name.to_owned(), |path| name_below(path, name))
}

/// The name that a Farline whose run directory is `path` uses for `name`.
pub fn name_below(path: &Path, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    format!("{name}-{:08x}", hasher.finish() as u32)
}

/// Makes `folder`, which stands directly below [`machine`], so that every user can read it,
/// whatever the umask; a run directory that an older Farline made for its owner alone is mended.
///
/// # Errors
/// When one of the two cannot be made, or cannot be opened to others.
pub(crate) fn make_shared(folder: &Path) -> io::Result<()> {
    if let Some(run) = folder.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(run)?;
        open_to_all(run)?;
    }
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    open_to_all(folder)
}

/// Makes `folder`, which stands directly below [`own`], for its owner alone.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] when somebody else made it first, as anybody can in a shared
/// temporary folder; others when it cannot be made.
#[cfg(any(feature = "link", test))]
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(run) = folder.parent() {
        if run == machine() {
            DirBuilder::new().recursive(true).mode(0o755).create(run)?;
            open_to_all(run)?;
        } else {
            DirBuilder::new().recursive(true).mode(0o700).create(run)?;
            check_owner(run)?;
        }
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_owner(folder)
}

fn open_to_all(folder: &Path) -> io::Result<()> {
    let metadata = fs::metadata(folder)?;
    let mode = metadata.mode() & 0o7777;
    // Somebody else's is theirs to mend; it may be open enough.
    if mode & 0o055 == 0o055 || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    fs::set_permissions(folder, Permissions::from_mode(mode | 0o055))
}

#[cfg(any(feature = "link", test))]
fn check_owner(folder: &Path) -> io::Result<()> {
    if fs::metadata(folder)?.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{} belongs to somebody else", folder.display()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    #[test]
    fn an_older_farlines_closed_directory_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("farline");
        DirBuilder::new().mode(0o700).create(&run).expect("made");
        make_shared(&run.join("cc")).expect("it is ours");
        assert_eq!((mode(&run), mode(&run.join("cc"))), (0o755, 0o755));
    }

    #[test]
    fn private_folders_stay_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("farline");
        make_private(&run.join("link")).expect("it is ours");
        assert_eq!((mode(&run), mode(&run.join("link"))), (0o700, 0o700));
    }
}
