//! How busy a thread was, by the kernel's account of it.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Measures one thread, from its creation here on.
#[derive(Debug)]
pub(crate) struct BusyClock {
    began: Instant,
    busy: Duration,
    idle: Cell<Duration>,
}

impl BusyClock {
    /// Begins with the calling thread.
    pub(crate) fn start() -> BusyClock {
        BusyClock { began: Instant::now(), busy: busy_so_far(), idle: Cell::default() }
    }

    /// The thread had no work since then.
    pub(crate) fn idle(&self, since: Instant) {
        self.idle.set(self.idle.get() + since.elapsed());
    }

    /// The time in which the calling thread, the one that started it, ran or waited for a processor
    /// to run on, and the time in which it had work.
    pub(crate) fn busy_and_active(&self) -> (Duration, Duration) {
        let active = self.began.elapsed().saturating_sub(self.idle.get());
        (busy_so_far().saturating_sub(self.busy).min(active), active)
    }
}

/// Time that the calling thread ran on a processor.
pub(crate) fn thread_time() -> Duration {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32)
}

/// Time that the calling thread ran and, where the kernel keeps account of it, waited to run:
/// under a quota or among others, who wants a processor has none for most of its time.
fn busy_so_far() -> Duration {
    // Documentation/scheduler/sched-stats.rst: time on a processor, time waiting for one, both in
    // nanoseconds.
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let delay = text.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
    thread_time() + Duration::from_nanos(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_busy_and_one_that_sleeps_is_not() {
        let clock = BusyClock::start();
        while clock.began.elapsed() < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        let (busy, active) = clock.busy_and_active();
        assert!(busy > active.mul_f64(0.8), "{busy:?} of {active:?}");
        let clock = BusyClock::start();
        std::thread::sleep(Duration::from_millis(200));
        let (busy, active) = clock.busy_and_active();
        assert!(busy < active.mul_f64(0.3), "{busy:?} of {active:?}");
        let clock = BusyClock::start();
        let idle = Instant::now();
        std::thread::sleep(Duration::from_millis(100));
        clock.idle(idle);
        let (_, active) = clock.busy_and_active();
        assert!(active < Duration::from_millis(50), "{active:?}");
    }
}
