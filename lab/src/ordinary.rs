//! An ordinary user for tests about permissions: the one who runs them, or another where root does.

use crate::files::copy_program;
use crate::{Running, announced, farline_binary};
use farline::run_dir::VARIABLE;
use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, chown, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The user whom root's tests run commands as: Debian's `nobody`.
const NOBODY: u32 = 65_534;

/// A user without privileges, with a folder.
#[derive(Debug)]
pub struct Ordinary {
    folder: TempDir,
    binary: PathBuf,
    is_other: bool,
}

impl Ordinary {
    /// Makes the folder.
    ///
    /// # Panics
    /// When it cannot be made.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Ordinary {
        let folder = crate::files::folder();
        let is_other = rustix::process::geteuid().is_root();
        let mut binary = farline_binary();
        if is_other {
            // The user may not be let in where it was built.
            let copy = folder.path().join("farline");
            copy_program(&binary, &copy);
            binary = copy;
        }
        let user = Ordinary { folder, binary, is_other };
        user.own(user.folder.path());
        user
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes what is at `path`, and all below it, the user's own.
    ///
    /// # Panics
    /// When something of it cannot be.
    pub fn own(&self, path: &Path) {
        if !self.is_other {
            return;
        }
        if path.is_symlink() {
            lchown(path, Some(NOBODY), Some(NOBODY)).expect("the user's");
            return;
        }
        chown(path, Some(NOBODY), Some(NOBODY)).expect("the user's");
        for item in path.read_dir().into_iter().flatten() {
            self.own(&item.expect("an entry").path());
        }
    }

    /// A command that runs `farline` as the user.
    pub fn farline(&self) -> Command {
        self.command(&self.binary)
    }

    /// A command that runs `program` as the user.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = crate::command(program);
        // The folder of the test run may be one that the user may not enter, or not write to.
        command.current_dir(self.path()).env("HOME", self.path());
        command.env(VARIABLE, self.path().join("run")).env_remove("XDG_STATE_HOME");
        if self.is_other {
            // Without root's groups too: `Command::uid` drops them.
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// A node of the user's, as [`node`](crate::node) is.
    ///
    /// # Panics
    /// When it does not say that it listens.
    pub fn node(&self, root: &Path) -> (Running, String) {
        let serve = ["--json", "serve", "--anonymous", "write", "--listen", "127.0.0.1:0"];
        announced(self.farline().args(serve).arg("--root").arg(root))
    }
}

impl Drop for Ordinary {
    /// Folders that may not be written to could not be removed.
    fn drop(&mut self) {
        open_up(self.folder.path());
    }
}

fn open_up(folder: &Path) {
    let _ = std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700));
    for item in folder.read_dir().into_iter().flatten().flatten() {
        if item.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&item.path());
        }
    }
}
