//! `--backup`: how what a copy replaces and deletes is kept.

use super::location::trim;
use crate::stores::{folders_above, join};
use farline_core::units::{Error, ErrorCode, Fault, percent};

/// How what a copy replaces or deletes is kept (`--backup`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    suffix: Vec<u8>,
    folder: Option<Vec<u8>>,
}

impl Backup {
    /// Under its name and `suffix`; in `folder`, by its path below the destination, or next to what
    /// replaces it. A relative `folder` is below the destination, and `.` is the destination.
    ///
    /// # Errors
    /// When that is no name of its own.
    pub fn new(suffix: Vec<u8>, folder: Option<Vec<u8>>) -> Result<Backup, Error> {
        let wrong = |message: &str| Err(Error::new(Fault::You, ErrorCode::Usage, message));
        if suffix.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return wrong("the suffix of backups is part of a name, without a slash");
        }
        if folder.as_ref().is_some_and(Vec::is_empty) {
            return wrong("the directory of backups has no name");
        }
        let folder = folder.map(|folder| simplified(&folder)).filter(|folder| !folder.is_empty());
        if suffix.is_empty() && folder.is_none() {
            return wrong("backups need a suffix, or a directory of their own");
        }
        Ok(Backup { suffix, folder })
    }

    /// The same in another folder, or in the same by another of its paths.
    pub(super) fn in_folder(&self, folder: Vec<u8>) -> Backup {
        Backup { suffix: self.suffix.clone(), folder: Some(folder) }
    }

    /// Whether what is at `path` below the destination `top` is a backup, which no one misses at
    /// the source, or a folder of such.
    pub(super) fn owns(&self, top: &[u8], path: &[u8]) -> bool {
        let Some(folder) = self.folder_there(top) else { return path.ends_with(&self.suffix) };
        let (folder, path) = (trim(&folder), join(trim(top), path));
        path == folder || folders_above(&path).any(|above| above == folder)
    }

    /// Whether each is next to what replaced it.
    pub(super) fn is_beside(&self) -> bool {
        self.folder.is_none()
    }

    /// The folder that it all goes to at a server, where what is copied goes into `destination`.
    pub(super) fn folder_there(&self, destination: &[u8]) -> Option<Vec<u8>> {
        let folder = self.folder.as_ref()?;
        let is_absolute = folder.starts_with(b"/");
        Some(if is_absolute { folder.clone() } else { join(trim(destination), folder) })
    }

    /// What is appended to names.
    pub(super) fn suffix(&self) -> &[u8] {
        &self.suffix
    }

    /// The folder that it all goes to, as it was given.
    pub(super) fn folder(&self) -> Option<&[u8]> {
        self.folder.as_deref()
    }

    /// As a node is told, for a copy into `destination` there (`docs/protocol.md`, R-13).
    pub(super) fn told(&self, destination: &[u8]) -> String {
        let plain = |byte: u8| byte.is_ascii_graphic() && !b";:=".contains(&byte);
        let folder = self.folder_there(destination).unwrap_or_default();
        let mut value = Vec::new();
        percent::encode(&self.suffix, plain, &mut value);
        value.push(b':');
        percent::encode(&folder, plain, &mut value);
        String::from_utf8_lossy(&value).into_owned()
    }
}

/// `folder` without what means nothing in a path: `.`, and slashes next to others or at its end.
fn simplified(folder: &[u8]) -> Vec<u8> {
    let parts = folder.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let whole = parts.collect::<Vec<&[u8]>>().join(&b'/');
    if folder.starts_with(b"/") { [&b"/"[..], &whole[..]].concat() } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_name_is_refused() {
        let new = |suffix: &str, folder: Option<&str>| {
            Backup::new(suffix.into(), folder.map(|folder| folder.as_bytes().to_vec()))
        };
        for (suffix, folder) in
            [("", None), ("a/b", None), ("", Some("")), ("/", Some("old")), ("", Some("./"))]
        {
            assert!(new(suffix, folder).is_err(), "{suffix} {folder:?}");
        }
        let beside = new("~", None).expect("a suffix");
        assert!(beside.owns(b"/dst", b"a/b~") && !beside.owns(b"/dst", b"a/b"));
        let apart = new("", Some("old/")).expect("a folder");
        let owns = |path: &str| apart.owns(b"/dst", path.as_bytes());
        assert!(owns("old") && owns("old/x/y") && !owns("older"));
        let absolute = new("", Some("/dst/old")).expect("a folder");
        assert!(absolute.owns(b"/dst", b"old/x") && !absolute.owns(b"/other", b"old/x"));
        assert_eq!(apart.folder_there(b"/dst/"), Some(b"/dst/old".to_vec()));
        let moved = apart.in_folder(b"new".to_vec());
        assert!(moved.owns(b"/dst", b"new/x") && !moved.owns(b"/dst", b"old/x"));
        for (written, means) in
            [("./old", "/dst/old"), ("a//./b/", "/dst/a/b"), ("//a/./b/", "/a/b"), ("/", "/")]
        {
            let folder = new("", Some(written)).expect("a folder").folder_there(b"/dst");
            assert_eq!(folder.as_deref(), Some(means.as_bytes()), "{written}");
        }
        assert!(new("~", Some(".")).expect("a suffix").is_beside());
        let odd = new(";~", Some("/a b")).expect("a folder");
        assert_eq!(odd.told(b"/dst"), "%3B~:/a%20b");
    }
}
