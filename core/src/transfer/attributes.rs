//! What else of files travels where it is asked for: owner, group, further mode bits, ACLs,
//! extended attributes (`docs/protocol.md`, T-11).

/// Which of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeSet {
    /// Set-user-id, set-group-id and sticky bits, and the mode of what is there already.
    pub modes: bool,
    /// The owner.
    pub owner: bool,
    /// The group.
    pub group: bool,
    /// That several names are one file.
    pub hard_links: bool,
    /// POSIX ACLs.
    pub acls: bool,
    /// Extended attributes.
    pub extended: bool,
    /// Owners and groups go by number, and not by name where the receiver knows it.
    pub numeric_ids: bool,
    /// The digest by which a file was compared is kept with it, as an extended attribute
    /// ([`DigestAlgorithm::attribute`](super::DigestAlgorithm::attribute)).
    pub digest: bool,
}

impl AttributeSet {
    /// All that a source has of them, owners and groups by name.
    pub const ALL: AttributeSet = AttributeSet {
        modes: true,
        owner: true,
        group: true,
        hard_links: true,
        acls: true,
        extended: true,
        numeric_ids: false,
        digest: false,
    };

    /// Whether it asks for nothing.
    pub fn is_empty(self) -> bool {
        self == AttributeSet { numeric_ids: self.numeric_ids, ..AttributeSet::default() }
    }

    fn named(&mut self) -> [(&'static str, &mut bool); 8] {
        [
            ("modes", &mut self.modes),
            ("owner", &mut self.owner),
            ("group", &mut self.group),
            ("links", &mut self.hard_links),
            ("acls", &mut self.acls),
            ("xattrs", &mut self.extended),
            ("numeric", &mut self.numeric_ids),
            ("digest", &mut self.digest),
        ]
    }

    /// Reads `owner+group+links`, or `none`.
    pub fn parse(text: &str) -> Option<AttributeSet> {
        let mut set = AttributeSet::default();
        for word in text.split('+').filter(|_| text != "none") {
            *set.named().into_iter().find(|(name, _)| *name == word)?.1 = true;
        }
        Some(set)
    }

    /// As [`AttributeSet::parse`] reads it.
    pub fn words(mut self) -> String {
        let named = self.named().into_iter().filter(|(_, is_set)| **is_set);
        let words: Vec<&str> = named.map(|(name, _)| name).collect();
        if words.is_empty() { "none".to_owned() } else { words.join("+") }
    }
}

/// A user or a group of the host where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub id: u32,
    /// Its name, where that host knows one.
    pub name: Option<String>,
}

/// What of one entry travels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Whose it is.
    pub owner: Option<Account>,
    /// Which group's.
    pub group: Option<Account>,
    /// Extended attributes by name, ACLs among them as Linux keeps them (`system.posix_acl_access`,
    /// `system.posix_acl_default`).
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
    /// Users whom the ACLs name.
    pub users: Vec<Account>,
    /// Groups that they name.
    pub groups: Vec<Account>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_the_wire() {
        let digest = AttributeSet { digest: true, ..AttributeSet::default() };
        for set in [AttributeSet::default(), AttributeSet::ALL, digest] {
            assert_eq!(AttributeSet::parse(&set.words()), Some(set));
        }
        let some = AttributeSet { owner: true, numeric_ids: true, ..AttributeSet::default() };
        assert_eq!((some.words().as_str(), some.is_empty()), ("owner+numeric", false));
        assert_eq!(AttributeSet::parse("owner+flags"), None);
        assert!(AttributeSet::parse("none").expect("a set").is_empty());
    }
}
