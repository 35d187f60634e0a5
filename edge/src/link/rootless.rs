//! Without root: a user and a mount namespace of the link's own, in which it may make network
//! namespaces.
//!
//! What does not work there: congestion controls loaded as BPF programs, and socket buffers set by
//! hand above `net.core.rmem_max`. TCP's own tuning may go as far as as root.

use super::failure::here;
use super::{Info, Side, namespaces};
use crate::run_dir;
use crate::sys::process::{Unshare, unshare};
use farline_core::units::{Error, ErrorCode};
use rustix::fs::{CWD, Mode, mkdir};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind,
    mount_change, move_mount, open_tree,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What does not work in a link without root, in one line.
pub const WITHOUT_ROOT: &str = "without root: no BPF congestion controls, and socket buffers set \
    by hand stay below net.core.rmem_max and wmem_max";

/// Moves this process, which must have one thread, into new user, mount and network namespaces as
/// their root.
pub(super) fn enter_new() -> Result<(), Error> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let failed = |doing: &'static str| {
        move |error: io::Error| {
            here(ErrorCode::LinkForbidden, format!("{doing}: {error}")).hint(
                "run as root, or allow unprivileged user namespaces (sysctl \
                    user.max_user_namespaces, kernel.unprivileged_userns_clone, or the AppArmor \
                    rule for them)",
            )
        }
    };
    // The network namespace of its own is where `ip netns add` returns to: it may not return to one
    // of the host's.
    unshare(Unshare::UserMountAndNetwork)
        .map_err(io::Error::from)
        .map_err(failed("making a user namespace"))?;
    let map = || {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1"))
    };
    map().map_err(failed("mapping this user in its namespace"))?;
    own_run().map_err(failed("mounting a /run of its own"))
}

/// An empty /run, so that `ip netns` can keep its files there; the user's runtime folder and the
/// run directory stay where they are.
fn own_run() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let below = |path: &PathBuf| path.starts_with("/run") && path.exists();
    let mut kept = Vec::new();
    for path in [runtime, Some(run_dir::own().to_owned())].into_iter().flatten().filter(below) {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(CWD, &path, flags)?;
        kept.push((path, tree));
    }
    mount("tmpfs", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=755"))?;
    for (path, tree) in kept {
        fs::create_dir_all(&path)?;
        move_mount(tree.as_fd(), "", CWD, &path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    Ok(mkdir("/run/netns", Mode::from_raw_mode(0o755))?)
}

/// Moves this process, which must have one thread, into the namespaces of a running link without
/// root, where `side`'s hosts file is /etc/hosts.
pub(super) fn enter(info: &Info, side: Side) -> Result<(), Error> {
    enter_process(info.pid, &info.name, Some(&namespaces::hosts(info, side)))
}

/// Moves this process, which must have one thread, into the namespaces of a network without root.
pub(super) fn enter_network(pid: i32, name: &str) -> Result<(), Error> {
    enter_process(pid, name, None)
}

fn enter_process(pid: i32, name: &str, hosts: Option<&Path>) -> Result<(), Error> {
    let failed = |error: io::Error| {
        here(ErrorCode::LinkForbidden, format!("entering the link `{name}`: {error}"))
    };
    let open = |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}"));
    let enter = || -> io::Result<()> {
        let (user, mounts) = (open("user")?, open("mnt")?);
        let folder = std::env::current_dir();
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        if let Ok(folder) = folder {
            // Entering a mount namespace moves to its root.
            let _ = std::env::set_current_dir(folder);
        }
        unshare(Unshare::Mount)?;
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        if let Some(hosts) = hosts.filter(|_| Path::new("/etc/hosts").exists()) {
            mount_bind(hosts, "/etc/hosts")?;
        }
        Ok(())
    };
    enter().map_err(failed)
}
