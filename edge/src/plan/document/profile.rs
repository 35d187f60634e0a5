//! The document of a profile: where it is kept while it runs, and how it is read.

use super::check;
use crate::stores::state_folder;
use farline_core::profile::{Document, Profile, ProfileKind};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is lost of a profile that takes less is soon measured again.
const SHORT: Span = Span::from_secs(60);

/// Where a long measured profile is kept while it runs when no document was asked for: a page is
/// not written before the end.
pub fn spare(profile: &Profile) -> Option<PathBuf> {
    if profile.kind != ProfileKind::Measured || profile.longest() < SHORT {
        return None;
    }
    let folder = state_folder()?.join("profiles");
    // A user without a state directory goes without.
    fs::create_dir_all(&folder).ok()?;
    let file = folder.join(format!("unfinished-{}-{}.json", profile.grid.name, std::process::id()));
    check(&file).ok().map(|()| file)
}

/// Reads a profile's document.
///
/// # Errors
/// When there is none, it cannot be read, or it is none.
pub fn read(file: &Path) -> Result<Profile, Error> {
    let json = fs::read_to_string(file).map_err(|error| {
        let (fault, code) = match error.kind() {
            ErrorKind::NotFound => (Fault::You, ErrorCode::PathNotFound),
            _ => (Fault::Here, ErrorCode::CannotRead),
        };
        Error::new(fault, code, format!("{}: {error}", file.display()))
    })?;
    Profile::read(&json).map_err(|error| error.while_doing(file.display()))
}

/// A document's bytes.
///
/// # Errors
/// [`Fault::Bug`] when it cannot be written down.
pub fn text<D: Document>(document: &D) -> Result<Vec<u8>, Error> {
    let json = match D::IS_INDENTED {
        true => serde_json::to_vec_pretty(document),
        false => serde_json::to_vec(document),
    };
    json.map_err(|error| Error::new(Fault::Bug, ErrorCode::ProfileDocument, error.to_string()))
}
