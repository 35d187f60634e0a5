//! Whose files are that an identity stores, and by whose rights it reaches what is exported.

use crate::sys::fs_user::{AsUser, FsUser};
use farline_core::units::{Error, ErrorCode, Fault};
use std::sync::Arc;

/// A user of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOwner {
    name: Arc<str>,
    user: Arc<FsUser>,
}

impl FileOwner {
    /// The user of that name.
    ///
    /// # Errors
    /// In words, when this host has none, or this process may not be it.
    pub fn named(name: &str) -> Result<FileOwner, String> {
        let user = FsUser::named(name).map_err(|error| format!("owner {name}: {error}"))?;
        let user = user.ok_or_else(|| format!("this host has no user `{name}` to own files"))?;
        let owner = FileOwner { name: name.into(), user: Arc::new(user) };
        match owner.enter() {
            Ok(_) => Ok(owner),
            Err(_) => Err(format!(
                "files can belong to `{name}` where the node runs as root, or has CAP_SETUID and \
                 CAP_SETGID"
            )),
        }
    }

    /// Makes this thread, and those that it begins, that user to the file system until the guard
    /// goes.
    ///
    /// # Errors
    /// When this process may not any more.
    pub(crate) fn enter(&self) -> Result<AsUser, Error> {
        self.user.enter().map_err(|error| {
            let message = format!("this node cannot act as `{}`: {error}", self.name);
            Error::new(Fault::Here, ErrorCode::PermissionDenied, message)
        })
    }
}
