//! The flags that say what of files is kept besides content, permissions and times, as rsync spells
//! them.

use farline_core::transfer::AttributeSet;

/// What is kept.
#[derive(clap::Args)]
pub(crate) struct AttributeArgs {
    /// All that files have, as rsync -aHAX [default: no]
    #[arg(long, short, hide = true)]
    pub(crate) archive: bool,
    /// Keep owners, by name [default: no]
    #[arg(long, short, hide = true)]
    owner: bool,
    /// Keep groups, by name [default: no]
    #[arg(long, short, hide = true)]
    group: bool,
    /// Keep hard links between files of the copy [default: no]
    #[arg(long, short = 'H', hide = true)]
    hard_links: bool,
    /// Keep POSIX ACLs [default: no]
    #[arg(long, short = 'A', hide = true)]
    acls: bool,
    /// Keep extended attributes [default: no]
    #[arg(long, short = 'X', hide = true)]
    xattrs: bool,
    /// Owners and groups by number, whatever they are called [default: by name]
    #[arg(long, hide = true)]
    numeric_ids: bool,
    /// Keep each file's digest with it: user.farline.crc64nvme or .blake3 [default: no]
    #[arg(long, hide = true)]
    digest_xattr: bool,
}

impl AttributeArgs {
    pub(crate) fn set(&self) -> AttributeSet {
        let all = self.archive;
        AttributeSet {
            modes: all,
            owner: all || self.owner,
            group: all || self.group,
            hard_links: all || self.hard_links,
            acls: all || self.acls,
            extended: all || self.xattrs,
            numeric_ids: self.numeric_ids,
            digest: self.digest_xattr,
        }
    }
}
