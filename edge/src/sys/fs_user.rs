//! Who a thread is to the file system: Linux keeps that for each thread, and one that is begun
//! inherits it.

use rustix::process::{Gid, Uid, getgroups};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities,
};
use std::ffi::CString;
use std::io;
use std::marker::PhantomData;

/// What capabilities a thread keeps while it is another user to the file system: those that take
/// it back, and those that say nothing of files. The others pass over what holds that user: quotas
/// and a file system's reserve (CAP_SYS_RESOURCE), file capabilities (CAP_SETFCAP).
const KEPT: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_NICE);

/// A user of this host, with the groups it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FsUser {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl FsUser {
    /// The user of that name; none where this host has none.
    ///
    /// # Errors
    /// When names cannot be looked up.
    pub(crate) fn named(name: &str) -> io::Result<Option<FsUser>> {
        let Some(user) = nix::unistd::User::from_name(name)? else { return Ok(None) };
        let groups = nix::unistd::getgrouplist(&CString::new(name)?, user.gid)?;
        Ok(Some(FsUser {
            uid: Uid::from_raw(user.uid.as_raw()),
            gid: Gid::from_raw(user.gid.as_raw()),
            groups: groups.into_iter().map(|group| Gid::from_raw(group.as_raw())).collect(),
        }))
    }

    /// Makes this thread, and those that it begins, that user to the file system until the guard
    /// goes.
    ///
    /// # Errors
    /// When this process may not.
    pub(crate) fn enter(&self) -> io::Result<AsUser> {
        let before = FsUser {
            uid: rustix::process::geteuid(),
            gid: rustix::process::getegid(),
            groups: getgroups()?,
        };
        let capabilities = capabilities(None)?;
        // Where this fails nothing has changed, and there is nothing to take back.
        self.take_groups()?;
        let guard = AsUser { before, capabilities, here: PhantomData };
        self.take_ids()?;
        // After the ids, with which the kernel itself takes away what passes over permissions. Who
        // is root has root's.
        if !self.uid.is_root() {
            set_effective(capabilities, capabilities.effective & KEPT)?;
        }
        Ok(guard)
    }

    /// Its number.
    pub(crate) fn uid(&self) -> Uid {
        self.uid
    }

    /// Makes this process that user for good, with the capabilities `kept` and no others. They go
    /// from the calling thread and those that it begins.
    ///
    /// # Errors
    /// When this process may not.
    pub(crate) fn become_process(&self, kept: CapabilitySet) -> io::Result<()> {
        let groups: Vec<_> =
            self.groups.iter().map(|group| nix::unistd::Gid::from_raw(group.as_raw())).collect();
        let (gid, uid) = (
            nix::unistd::Gid::from_raw(self.gid.as_raw()),
            nix::unistd::Uid::from_raw(self.uid.as_raw()),
        );
        set_keep_capabilities(true)?;
        nix::unistd::setgroups(&groups)?;
        nix::unistd::setresgid(gid, gid, gid)?;
        nix::unistd::setresuid(uid, uid, uid)?;
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
        Ok(set_keep_capabilities(false)?)
    }

    /// In this order: the last step takes the rights away that the others need.
    fn become_this(&self) -> io::Result<()> {
        self.take_groups()?;
        self.take_ids()
    }

    fn take_groups(&self) -> io::Result<()> {
        Ok(rustix::thread::set_thread_groups(&self.groups)?)
    }

    fn take_ids(&self) -> io::Result<()> {
        let is_set = |set: &dyn Fn(u32) -> libc::c_int, id: u32| {
            set(id);
            // Neither call tells whether it worked, but one with no possible number who it is now.
            set(u32::MAX) as u32 == id
        };
        // SAFETY: both take a number, change the calling thread alone and touch no memory.
        let gid = is_set(&|id| unsafe { libc::setfsgid(id) }, self.gid.as_raw());
        // SAFETY: the same.
        let uid = is_set(&|id| unsafe { libc::setfsuid(id) }, self.uid.as_raw());
        match gid && uid {
            true => Ok(()),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Makes `effective`, of `sets`, what this thread's capabilities are.
fn set_effective(sets: CapabilitySets, effective: CapabilitySet) -> io::Result<()> {
    Ok(set_capabilities(None, CapabilitySets { effective, ..sets })?)
}

/// A thread that is another user until this goes.
#[derive(Debug)]
pub(crate) struct AsUser {
    before: FsUser,
    capabilities: CapabilitySets,
    /// It belongs to the thread that made it.
    here: PhantomData<*const ()>,
}

impl Drop for AsUser {
    fn drop(&mut self) {
        let restored = self.before.become_this();
        // After the ids, with which the kernel itself gives some back.
        if restored.and_then(|()| Ok(set_capabilities(None, self.capabilities)?)).is_err() {
            // A thread that goes on as somebody's it is not would serve others so.
            std::process::abort();
        }
    }
}

/// Whom the file system takes this thread for.
pub(crate) fn fs_uid() -> u32 {
    // SAFETY: with no possible number the call only tells.
    unsafe { libc::setfsuid(u32::MAX) as u32 }
}

/// Does `work` as whom the process runs as, whoever this thread is for now.
pub(crate) fn as_service<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: as above; with no possible number they only tell.
    let (gid, uid) = unsafe { (libc::setfsgid(u32::MAX), libc::setfsuid(u32::MAX)) };
    let (own_uid, own_gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if (uid as u32, gid as u32) == (own_uid.as_raw(), own_gid.as_raw()) {
        return work();
    }
    let before = capabilities(None);
    // SAFETY: as above; the process's own numbers may always be taken.
    unsafe {
        libc::setfsuid(own_uid.as_raw());
        libc::setfsgid(own_gid.as_raw());
    }
    if let Ok(sets) = before {
        // A thread that a user's began never had the others. Where it may not, `work` says so.
        let _ = set_effective(sets, sets.permitted);
    }
    let done = work();
    // SAFETY: as above.
    unsafe {
        libc::setfsgid(gid as u32);
        libc::setfsuid(uid as u32);
    }
    if before.and_then(|sets| set_capabilities(None, sets)).is_err() {
        // With more than it had it would go on as whom it is not.
        std::process::abort();
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_thread_and_those_it_begins_are_somebody_else_for_a_while() {
        if !rustix::process::geteuid().is_root() {
            crate::skip::skip("only root may be somebody else");
            return;
        }
        let nobody = FsUser::named("nobody").expect("names").expect("every system has it");
        let dir = tempfile::tempdir().expect("a folder");
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "root's").expect("written");
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("its mode");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).expect("its mode");
        let made = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "x").expect("written");
            std::fs::metadata(path).expect("it is there").uid()
        };
        {
            let _guard = nobody.enter().expect("root may");
            assert_eq!(made("a"), nobody.uid.as_raw());
            assert!(std::fs::read(&secret).is_err(), "as that user may not");
            let begun = std::thread::scope(|scope| scope.spawn(|| made("b")).join());
            assert_eq!(begun.expect("no panic"), nobody.uid.as_raw());
            assert_eq!(as_service(|| made("c")), 0);
            assert_eq!(made("d"), nobody.uid.as_raw());
        }
        assert_eq!(made("e"), 0);
        assert_eq!(std::fs::read(&secret).expect("as before"), b"root's");
        assert!(FsUser::named("no such user").expect("names").is_none());
    }

    /// What this thread may do beyond its user's rights, as the kernel says.
    fn effective() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("the kernel says");
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        u64::from_str_radix(line.expect("a line").trim(), 16).expect("hexadecimal digits")
    }

    #[test]
    fn a_user_has_none_of_roots_capabilities_over_files() {
        if !rustix::process::geteuid().is_root() {
            crate::skip::skip("only root may be somebody else");
            return;
        }
        let whole = effective();
        let nobody = FsUser::named("nobody").expect("names").expect("every system has it");
        for _ in 0..2 {
            let guard = nobody.enter().expect("root may");
            let kept = whole & KEPT.bits();
            assert_eq!(effective(), kept);
            let begun = std::thread::scope(|scope| {
                scope.spawn(|| (effective(), as_service(effective), effective())).join()
            });
            assert_eq!(begun.expect("no panic"), (kept, whole, kept));
            assert_eq!((as_service(effective), effective()), (whole, kept));
            drop(guard);
            assert_eq!(effective(), whole);
        }
        assert_eq!((as_service(effective), effective()), (whole, whole));
        let root = FsUser::named("root").expect("names").expect("every system has it");
        let guard = root.enter().expect("root may");
        assert_eq!(effective(), whole, "who is root has root's");
        drop(guard);
    }
}
