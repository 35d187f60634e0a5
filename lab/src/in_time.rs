//! Whether links and testers can be in time here, for tests of figures that are true only then.

use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// How long is looked at what is left of the processors, some turns of a scheduler.
const LOOK: Duration = Duration::from_millis(200);

/// The least share of the processors: threads of others that come and go leave more, and one that
/// never rests, on two processors, leaves three quarters.
const LEAST: f64 = 0.85;

/// Whether links of this user's can be held in time: root's have priority over whatever runs, an
/// ordinary user's need processors that are free. Else the running test is noted as skipped.
pub fn links_are_in_time() -> bool {
    rustix::process::geteuid().is_root() || processors_are_free()
}

/// Whether nobody else takes the processors, without which a tester sends nothing in time and says
/// so. Else the running test is noted as skipped. Only for tests that run alone: others would count
/// as somebody else.
pub fn processors_are_free() -> bool {
    let left = share_left();
    if left < LEAST {
        crate::skip(format!("others leave {:.0} % of the processors", left * 100.0));
    }
    left >= LEAST
}

/// How much of all processors' time threads get that use as much as there is.
fn share_left() -> f64 {
    let threads = available_parallelism().map_or(1, usize::from);
    let spun = std::thread::scope(|scope| {
        let spinning: Vec<_> = (0..threads).map(|_| scope.spawn(spin)).collect();
        spinning.into_iter().map(|thread| thread.join().expect("no panic")).sum::<Duration>()
    });
    spun.as_secs_f64() / (LOOK.as_secs_f64() * threads as f64)
}

/// The processor's time that a thread got which wanted all of it.
fn spin() -> Duration {
    let begun = Instant::now();
    while begun.elapsed() < LOOK {
        std::hint::spin_loop();
    }
    let got = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(got.tv_sec as u64, got.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_others_take_is_not_left() {
        let over = AtomicBool::new(false);
        let threads = available_parallelism().map_or(1, usize::from);
        let left = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let left = share_left();
            over.store(true, Ordering::Relaxed);
            left
        });
        assert!((0.0..0.75).contains(&left), "{left}");
    }
}
