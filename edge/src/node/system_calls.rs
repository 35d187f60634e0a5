//! Takes from this process the system calls that no node makes, by seccomp: who came to run code in
//! it would begin with one of them.

use seccompiler::{BpfProgram, Error, SeccompAction, SeccompFilter, apply_filter};

/// What no node does: run another program, look into other processes, load code into the kernel,
/// change what is mounted or seen, the clock or the machine, or open files around their paths.
const NEVER: [libc::c_long; 44] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Refuses the calling thread, and all that it begins later, these calls, for good: they fail with
/// EPERM. Returns false where the kernel has no filters of system calls.
///
/// # Errors
/// When it has, and does not take this one.
pub(super) fn give_up() -> Result<bool, Error> {
    let rules = NEVER.map(|call| (call, Vec::new())).into_iter().collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        refused,
        std::env::consts::ARCH.try_into()?,
    )?;
    let program: BpfProgram = filter.try_into()?;
    match apply_filter(&program) {
        Ok(()) => Ok(true),
        Err(Error::Prctl(error) | Error::Seccomp(error))
            if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::UnmountFlags;
    use std::process::Command;

    #[test]
    fn a_thread_that_gave_them_up_runs_no_program() {
        let outcome = std::thread::spawn(|| {
            if !give_up().expect("no refusal") {
                return None;
            }
            let program = Command::new("/bin/true").status();
            let unmounted = rustix::mount::unmount(c"/nothing/is/here", UnmountFlags::empty());
            let file = std::fs::read("/proc/self/status");
            Some((program.map_err(|error| error.raw_os_error()), unmounted, file.is_ok()))
        });
        let Some((program, unmounted, file)) = outcome.join().expect("no panic") else {
            crate::skip::skip("this kernel has no seccomp");
            return;
        };
        assert_eq!(program.err(), Some(Some(libc::EPERM)), "execve");
        assert_eq!(unmounted, Err(rustix::io::Errno::PERM), "umount2");
        assert!(file, "what a node does");
        assert!(Command::new("/bin/true").status().is_ok(), "this thread is as free as before");
    }
}
