//! Confines this process to what a node exports and needs, by Landlock: whatever a client finds a
//! way to, the kernel opens nothing else. With it go the [`system_calls`] that no node makes.

use super::system_calls;
use super::{Anonymous, Config, TlsKey};
use crate::identity::KeySource;
use crate::kernelcc::start_loader;
use crate::run_dir;
use crate::stores::state_folder;
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The newest version of Landlock whose rights are asked for: moving files between folders (2),
/// truncating (3) and ioctls of devices (5) are among them. An older kernel is asked for what it
/// knows.
const RIGHTS: ABI = ABI::V5;

/// What every node reads: what the kernel says of this host and process, and what the C library and
/// OpenSSL look at when names of users, hosts or libraries are asked for.
const READ: [&str; 18] = [
    "/proc",
    "/sys/class",
    "/sys/devices",
    "/sys/module",
    "/usr/lib",
    "/usr/share/zoneinfo",
    "/lib",
    "/lib64",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/libibverbs.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/var/lib/sss",
];
/// What it writes to besides: devices of network cards.
const WRITE: [&str; 2] = ["/dev/infiniband", "/dev/null"];

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confinement {
    /// This thread, and those that it begins, reach what is exported and needed, and nothing else.
    Confined,
    /// They reach what this user reaches: for this reason.
    Not(&'static str),
}

/// Confines the calling thread, and all that it begins later, to what the node of `config` exports
/// and needs. It holds for good; what was opened before stays open.
///
/// # Errors
/// When the kernel has Landlock and does not do it.
pub fn confine(config: &Config) -> Result<Confinement, Error> {
    // What needs more than a confined process may is done by others, which begin before.
    if config.loads_congestion() || config.allow_held.is_some() {
        match start_loader() {
            Ok(()) => {}
            Err(error) if cfg!(feature = "link") => return Err(error),
            Err(_) => {
                return Ok(Confinement::Not("congestion controls that are loaded need more"));
            }
        }
    }
    config.identities.start(config.limits.login_timeout)?;
    let (all, read) = (AccessFs::from_all(RIGHTS), AccessFs::from_read(RIGHTS));
    let read = read & !BitFlags::from(AccessFs::Execute);
    let write = all & !BitFlags::from(AccessFs::Execute);
    let mut reached: Vec<(PathBuf, BitFlags<AccessFs>)> = Vec::new();
    let exported = if is_written(config) { write } else { read };
    reached.push((config.root.clone(), exported));
    reached.extend(READ.iter().map(|path| (path.into(), read)));
    reached.extend(READ.iter().filter_map(|path| folder_of_target(path)).map(|path| (path, read)));
    reached.extend(WRITE.iter().map(|path| (path.into(), write)));
    reached.extend(credentials(config).into_iter().map(|path| (path, read)));
    reached.push((run_dir::machine().to_owned(), write));
    // What is known of paths; a node without it begins anew.
    if let Some(folder) = state_folder().filter(|folder| std::fs::create_dir_all(folder).is_ok()) {
        reached.push((folder, write));
    }
    let confined = restrict(all, reached).map_err(|error| error.to_string()).and_then(|status| {
        let gave_up = system_calls::give_up().map_err(|error| error.to_string())?;
        Ok((status, gave_up))
    });
    match confined {
        Ok((RulesetStatus::NotEnforced, _)) => {
            Ok(Confinement::Not("this kernel has no Landlock, or one before version 2"))
        }
        Ok((_, false)) => Ok(Confinement::Not("this kernel has no filters of system calls")),
        Ok((_, true)) => Ok(Confinement::Confined),
        Err(error) => {
            let message = format!("this process cannot be confined to what it exports: {error}");
            Err(Error::new(Fault::Here, ErrorCode::NotConfined, message)
                .hint(format!("{} serves all the same", Setting::NoSandbox)))
        }
    }
}

/// The folder of the file that a link leads to, such as `/run/systemd/resolve`, where a new file
/// takes the old one's place; not one that has other things in it.
fn folder_of_target(path: &str) -> Option<PathBuf> {
    let link = Path::new(path);
    let target = link.parent()?.join(std::fs::read_link(link).ok()?);
    let folder = target.parent()?.canonicalize().ok()?;
    (link.starts_with("/etc") && folder.components().count() > 2).then_some(folder)
}

fn restrict(
    all: BitFlags<AccessFs>,
    reached: Vec<(PathBuf, BitFlags<AccessFs>)>,
) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .create()?;
    for (path, rights) in reached {
        // What is not there now is nothing that is needed.
        let Ok(opened) = PathFd::new(&path) else { continue };
        let rights = match path.is_dir() {
            true => rights,
            false => rights & AccessFs::from_file(RIGHTS),
        };
        rules = rules.add_rule(PathBeneath::new(opened, rights))?;
    }
    rules.restrict_self().map(|status| status.ruleset)
}

/// Whether anybody may change anything that is exported.
fn is_written(config: &Config) -> bool {
    let people = &config.identities.people;
    config.anonymous == Anonymous::Write
        || people.iter().any(|person| person.grants.iter().any(|grant| grant.may_write()))
        // What a token may is in the token.
        || !config.identities.issuers.is_empty()
}

/// Where certificates, keys and lists are that are read again when they change: their folders,
/// since a new file takes the place of the old one, and the folders that links lead to.
fn credentials(config: &Config) -> BTreeSet<PathBuf> {
    let authorities = &config.identities.authorities;
    let tls = match &config.tls {
        Some(TlsKey::Files { certificate, key }) => vec![certificate.clone(), key.clone()],
        _ => Vec::new(),
    };
    let issuers = config.identities.issuers.iter();
    let issuers = issuers.filter_map(|issuer| match &issuer.issuer.keys {
        KeySource::File(path) => Some(path.clone()),
        // Authorities are read before the process is confined.
        KeySource::Discovered { .. } => None,
    });
    let named = [&authorities.certificates, &authorities.revoked, &config.identities.grid_mapfile];
    let mut files: Vec<PathBuf> = tls.into_iter().chain(issuers).collect();
    files.extend(named.into_iter().flatten().cloned());
    if let Some(gsi) = &config.gsi {
        let inside = ["hostcert.pem", "hostkey.pem", "certificates/authorities"];
        files.extend(inside.map(|name| gsi.folder.join(name)));
        // Distributions keep authorities elsewhere, and link to them.
        files.extend(links_in(&gsi.folder.join("certificates")));
    }
    let real = files.iter().filter_map(|file| match file.canonicalize() {
        Ok(real) => Some(real),
        // Of a file that may be absent, or to come.
        Err(_) => file.parent()?.canonicalize().ok().map(|folder| folder.join("absent")),
    });
    let folders = files.iter().cloned().chain(real).filter_map(|file| {
        let folder = file.parent()?;
        Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
    });
    // A file right below the root would open all of it.
    folders.filter(|folder| folder.parent().is_some()).collect()
}

/// The links that there are in a folder.
fn links_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_symlink()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::ConfigFile;
    use crate::stores::Root;
    use rustix::fs::OFlags;
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::symlink;

    /// What this thread and no other sees of a node of such rights: nothing where the kernel has no
    /// Landlock.
    fn confined(anonymous: Anonymous, look: impl FnOnce(&Path, &Path) + Send) {
        let dir = tempfile::tempdir().expect("a folder");
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        for folder in [&root, &outside, &root.join("one"), &root.join("two")] {
            fs::create_dir(folder).expect("a folder");
        }
        fs::write(root.join("one/file"), "exported").expect("written");
        fs::write(outside.join("secret"), "not exported").expect("written");
        symlink(outside.join("secret"), root.join("planted")).expect("a link");
        let file = ConfigFile {
            root: Some(root.clone()),
            anonymous: Some(anonymous),
            ..ConfigFile::default()
        };
        let config = file.build().expect("valid");
        // It holds for the thread that asks, for good.
        let looked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| match confine(&config).expect("no refusal") {
                Confinement::Confined => look(&root, &outside),
                Confinement::Not(why) => assert!(why.contains("this kernel"), "{why}"),
            });
            thread.join()
        });
        looked.expect("as it should be");
        assert!(fs::read(outside.join("secret")).is_ok(), "this thread is as free as before");
    }

    fn is_denied<T>(result: std::io::Result<T>) -> bool {
        result.err().is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
    }

    #[test]
    fn nothing_outside_the_root_is_reached_by_whatever_path() {
        confined(Anonymous::Write, |root, outside| {
            let secret = outside.join("secret");
            assert!(is_denied(fs::read(&secret)), "by an absolute path");
            assert!(is_denied(fs::read(root.join("planted"))), "by a planted link");
            assert!(is_denied(fs::read(root.join("../outside/secret"))), "by a path upwards");
            assert!(is_denied(fs::read_dir(outside)), "a list");
            assert!(is_denied(fs::write(outside.join("new"), "x")), "a file made");
            assert!(is_denied(fs::write(&secret, "x")), "a file replaced");
            assert!(is_denied(fs::create_dir(outside.join("new"))), "a folder made");
            assert!(is_denied(fs::remove_file(&secret)), "a file removed");
            fs::hard_link(&secret, root.join("hard")).expect_err("a hard link into the root");
            fs::rename(&secret, root.join("moved")).expect_err("moved into the root");
            fs::rename(root.join("one/file"), outside.join("file")).expect_err("moved out");
            // A store whose root is another than it should be, by which all beneath is opened.
            let elsewhere = Root::open(outside).expect("a folder that is only named");
            assert!(is_denied(elsewhere.open_beneath(b"secret", OFlags::RDONLY, 0)), "its file");
            assert!(is_denied(std::process::Command::new("/bin/true").status()), "a program");
            assert!(is_denied(fs::read("/etc/shadow")), "the system's secrets");
        });
    }

    #[cfg(feature = "gsi")]
    #[test]
    fn authorities_that_are_links_are_reached_where_they_lie() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        for folder in ["policy/classic", "grid/certificates"] {
            fs::create_dir_all(at(folder)).expect("a folder");
        }
        fs::write(at("policy/classic/ca.pem"), "").expect("written");
        symlink("../../policy/classic/ca.pem", at("grid/certificates/0a1b.0")).expect("a link");
        let file = ConfigFile {
            root: Some(dir.path().to_owned()),
            gsi: Some(at("grid")),
            ..ConfigFile::default()
        };
        let folders = credentials(&file.build().expect("valid"));
        let real = at("policy/classic").canonicalize().expect("there");
        assert!(folders.contains(&real), "{folders:?}");
    }

    #[test]
    fn what_is_exported_is_as_it_was() {
        confined(Anonymous::Write, |root, _| {
            let (file, moved) = (root.join("one/file"), root.join("two/file"));
            assert_eq!(fs::read(&file).expect("read"), b"exported");
            fs::rename(&file, &moved).expect("from folder to folder");
            fs::hard_link(&moved, &file).expect("a link from folder to folder");
            fs::write(&moved, "shorter").expect("truncated and written");
            fs::create_dir(root.join("new")).expect("a folder");
            symlink("one", root.join("link")).expect("a link");
            fs::remove_dir_all(root.join("one")).expect("removed");
            fs::read_to_string("/proc/self/status").expect("what the kernel says");
        });
        confined(Anonymous::Read, |root, _| {
            assert_eq!(fs::read(root.join("one/file")).expect("read"), b"exported");
            assert!(is_denied(fs::write(root.join("one/file"), "x")), "it is exported to be read");
            assert!(is_denied(fs::remove_file(root.join("one/file"))), "it is exported to be read");
        });
    }
}
