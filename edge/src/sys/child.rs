//! Waiting for a process that this one began, with a deadline.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How `child` ended, if it did within `timeout`.
pub(crate) fn ended_within(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + timeout;
    if let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut waited = [PollFd::new(&pidfd, PollFlags::IN)];
            match poll(&mut waited, timeout.as_ref()) {
                Ok(1..) => return child.wait().ok(),
                Ok(0) => return child.try_wait().ok().flatten(),
                // A signal came in between.
                Err(_) if left.is_zero() => return None,
                Err(_) => {}
            }
        }
    }
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}
