//! The thread that moves packets, for one direction or both, and how it wakes in time.
//!
//! A timer wakes a thread some 10 us late on bare metal and 50 to 100 us late in a virtual machine,
//! and arming it and switching to the thread costs as much CPU time again. So the thread sleeps
//! only through waits that are worth it, and spins through the rest: it sleeps until shortly before
//! the next packet is due, then looks at the clock until it is. At 10 Gbit/s super-packets are 52
//! us apart, so it then has a core of its own, and senders need not wake it for each packet. With
//! nothing in flight it sleeps until the device has a packet.
//!
//! On two or three cores the spinning would take from the very programs that the link is for when
//! they need all cores: above some rate the thread then sleeps in short turns instead and moves all
//! that there is after each. Delay error grows to the length of a turn and a late timer, some 0.4
//! ms, below what makes a run invalid.
//!
//! A spinning real-time thread must not starve what the kernel has to do on its core, so it naps
//! now and then. One without real-time priority stops spinning where others want its core: Linux
//! gives each its share, and who has used it up waits for milliseconds, while who slept runs as
//! soon as it wakes. On one core it never spins. On two or three one thread moves both directions,
//! so that as many cores are left for what the link is for.

use super::direction::{Direction, now};
use crate::sys::realtime;
use farline_core::units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{PipeReader, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;

/// How long before the time due a sleep ends: what a late timer may cost.
const EARLY: Span = Span::from_micros(100);

/// The shortest sleep worth its cost.
const SHORTEST_SLEEP: Span = Span::from_micros(50);

/// The longest time without a sleep, and how long the nap is that ends it: 5 % for others in small
/// pieces. Linux gives ordinary tasks that starve behind real-time ones the same 5 %, but 50 ms at
/// a time, which would be 50 ms of delay error.
const LONGEST_SPIN: Span = Span::from_millis(2);
const NAP: Span = Span::from_micros(100);

/// The longest time without a sleep where delays are to be exact: with its nap less than nine
/// tenths of the time, which is the kernel's share for such a thread (`sys::realtime`). One that
/// takes more is stopped for 1 ms and longer. What comes due in a nap is late by the rest of it:
/// naps of 100 us were a deviation of 19 us each way.
const LONGEST_EXACT_SPIN: Span = Span::from_micros(400);
const EXACT_NAP: Span = Span::from_micros(50);

/// Above this many packets read and written in a window (some 2.5 Gbit/s of super-packets) a mover
/// without a core to spare leaves it to others for a turn whenever nothing is due, and then does
/// what came due meanwhile at once. Devices do not wake it from a turn, as each acknowledgement
/// would, and are read only so often: four of five reads would find them empty.
const HEAVY: u32 = 160;
/// The same of a link whose delays are to be exact: devices that are read once a turn give packets
/// a delay that no account of the link has, 0.2 ms at 9,000 packets a second.
const HEAVY_EXACT: u32 = 1_600;
const WINDOW: Span = Span::from_millis(10);
const TURN: Span = Span::from_micros(250);
const PUT_OFF: Span = Span::from_micros(100);

/// The longest time without a sleep when it takes turns. It sleeps often then, and a sleep with
/// packets left to move would be delay error: with 2 ms here it was ten times that of a turn.
const LONGEST_WORK: Span = Span::from_millis(10);

/// The longest time that the thread needs between two looks at the clock, or that a timer is late
/// of itself: above it, somebody else had the core.
const UNTROUBLED: Span = Span::from_millis(1);
/// How long after that it does not spin. Each try costs packets that are late by milliseconds, so
/// that one in a thousand is.
const CONTENDED: Span = Span::from_secs(10);

/// How long after the last packet the cores are still kept from deep idle states.
const AWAKE: Span = Span::from_secs(1);

/// A thread's directions and what keeps it in time.
pub(super) struct Mover {
    directions: Vec<Direction>,
    spare: Spare,
    is_exact: bool,
    load: LoadMeter,
    is_realtime: bool,
    /// Until then others are held to want the core.
    contended_until: Time,
    slept_at: Time,
    active_at: Time,
    awake: Option<File>,
}

impl Mover {
    /// A mover of `directions` on a machine with this much to spare.
    ///
    /// Where delays are to be exact, it leaves less to others.
    pub(super) fn new(directions: Vec<Direction>, spare: Spare, is_exact: bool) -> Mover {
        let now = now();
        let most = if is_exact { HEAVY_EXACT } else { HEAVY };
        Mover {
            directions,
            spare,
            is_exact,
            load: LoadMeter { since: now, moved: 0, most, heavy: false },
            is_realtime: false,
            contended_until: now,
            slept_at: now,
            active_at: now,
            awake: None,
        }
    }

    /// Makes the calling thread, which is to run it, wake as exactly as this machine permits;
    /// returns whether it got real-time priority.
    pub(super) fn be_precise(&mut self) -> bool {
        // The default slack lets the kernel wake us 50 us late to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        self.is_realtime = realtime::be_realtime().is_ok();
        self.is_realtime
    }

    /// Moves packets until `stop` is closed.
    pub(super) fn run(mut self, stop: &PipeReader) {
        let mut clock = now();
        let mut looked = clock;
        loop {
            self.note_delay(clock, clock.since(looked));
            looked = clock;
            let takes_turns = self.takes_turns();
            // A read put off makes no packet late, but the account takes the time of reading for
            // that of coming.
            let put_off =
                if takes_turns { Some(PUT_OFF) } else { self.is_exact.then_some(Span::ZERO) };
            let mut moved = 0;
            let mut next: Option<Time> = None;
            let mut watch = [false; 2];
            for (direction, watch) in self.directions.iter_mut().zip(&mut watch) {
                let step = direction.step(&mut clock, put_off);
                moved += step.moved;
                next = next.into_iter().chain(step.next).min();
                *watch = step.watch;
            }
            self.load.count(clock, moved);
            if moved > 0 {
                self.stay_awake(clock);
                if clock.since(self.slept_at)
                    < if takes_turns { LONGEST_WORK } else { self.longest_spin() }
                {
                    continue;
                }
            }
            if takes_turns && next.is_some() {
                watch = [false; 2];
            }
            match self.rest(stop, clock, next, watch) {
                Rest::Spun => clock = now(),
                Rest::Slept { until } => {
                    clock = now();
                    (self.slept_at, looked) = (clock, clock);
                    self.note_delay(clock, until.map_or(Span::ZERO, |until| clock.since(until)));
                    self.directions
                        .iter_mut()
                        .zip(watch)
                        .for_each(|(direction, watched)| direction.slept(clock, watched));
                }
                Rest::Stop => break,
            }
        }
        for direction in &mut self.directions {
            direction.publish(clock, true);
        }
    }

    /// Notes that the thread did not run for `delay`, and did not ask for that.
    fn note_delay(&mut self, clock: Time, delay: Span) {
        if !self.is_realtime && delay > UNTROUBLED {
            self.contended_until = clock + CONTENDED;
        }
    }

    /// Whether to spin rather than sleep for less than a sleep is worth.
    fn spins(&self, clock: Time) -> bool {
        self.spare != Spare::OnlyCore && clock >= self.contended_until
    }

    /// Whether to leave the core to others between packets.
    fn takes_turns(&self) -> bool {
        self.spare == Spare::None && self.load.heavy
    }

    /// The longest time without a sleep, other than in turns.
    fn longest_spin(&self) -> Span {
        if self.is_exact { LONGEST_EXACT_SPIN } else { LONGEST_SPIN }
    }

    /// Sleeps or spins until shortly before `next`, a packet on a watched device, or the end.
    fn rest(
        &mut self,
        stop: &PipeReader,
        clock: Time,
        next: Option<Time>,
        mut watch: [bool; 2],
    ) -> Rest {
        let wait = next.map(|next| next.since(clock));
        let has_time = wait.is_none_or(|wait| wait > Span::from_millis(1));
        self.directions.iter_mut().for_each(|direction| direction.publish(clock, has_time));
        let sleep = match wait {
            Some(wait) if self.takes_turns() => Some(wait.max(TURN)),
            Some(wait) if self.spins(clock) => match wait.saturating_sub(EARLY) {
                // A packet that has to wake the thread is read tens of us after it came.
                long if long >= SHORTEST_SLEEP && !self.is_exact => Some(long),
                _ if clock.since(self.slept_at) >= self.longest_spin() => {
                    // Woken by the next packet it would be no nap.
                    watch = if self.is_exact { [false; 2] } else { watch };
                    Some(if self.is_exact { EXACT_NAP } else { NAP })
                }
                _ => return Rest::Spun,
            },
            wait => wait,
        };
        let sleep = match &self.awake {
            Some(_) if clock.since(self.active_at) >= AWAKE => {
                self.awake = None;
                sleep
            }
            Some(_) => Some(sleep.map_or(AWAKE, |sleep| sleep.min(AWAKE))),
            None => sleep,
        };
        let timeout = sleep.map(|sleep| Timespec {
            tv_sec: (sleep.as_nanos() / 1_000_000_000) as i64,
            tv_nsec: (sleep.as_nanos() % 1_000_000_000) as i64,
        });
        let interest = |watch: bool| if watch { PollFlags::IN } else { PollFlags::empty() };
        let mut descriptors: Vec<PollFd<'_>> = Vec::with_capacity(3);
        descriptors.push(PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN));
        for (direction, watch) in self.directions.iter().zip(watch) {
            descriptors.push(PollFd::from_borrowed_fd(direction.device(), interest(watch)));
        }
        // An interrupted call is a short sleep.
        let _ = poll(&mut descriptors, timeout.as_ref());
        match descriptors[0].revents().is_empty() {
            true => Rest::Slept { until: sleep.map(|sleep| clock + sleep) },
            false => Rest::Stop,
        }
    }

    /// Keeps idle cores from deep sleep while packets move: they take 100 us and more to wake from
    /// it.
    ///
    /// Where there is no such file or no permission, wake-ups are that much later.
    fn stay_awake(&mut self, clock: Time) {
        self.active_at = clock;
        if self.awake.is_none() {
            let open = File::options().write(true).open("/dev/cpu_dma_latency");
            // The longest time to wake that is tolerated, in microseconds, as long as the file is
            // open (Linux, PM QoS).
            self.awake = open.ok().filter(|mut file| file.write_all(&0i32.to_ne_bytes()).is_ok());
        }
    }
}

/// What a machine has to spare for movers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spare {
    /// One core, on which nobody may spin.
    OnlyCore,
    /// Two or three cores, all of which are needed at high rates.
    None,
    /// A core for each mover.
    Core,
}

impl Spare {
    /// What a machine of `cores` cores has.
    pub(super) const fn of(cores: usize) -> Spare {
        match cores {
            0 | 1 => Spare::OnlyCore,
            2 | 3 => Spare::None,
            _ => Spare::Core,
        }
    }
}

/// How many packets move, counted over windows of time.
struct LoadMeter {
    since: Time,
    moved: u32,
    /// So many in a window are heavy.
    most: u32,
    heavy: bool,
}

impl LoadMeter {
    fn count(&mut self, clock: Time, moved: u32) {
        self.moved += moved;
        if clock.since(self.since) >= WINDOW {
            *self = LoadMeter { since: clock, moved: 0, heavy: self.moved >= self.most, ..*self };
        }
    }
}

enum Rest {
    Spun,
    /// Until when at most it was to be.
    Slept {
        until: Option<Time>,
    },
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_delays_are_to_be_exact_a_testers_load_takes_no_turns() {
        // What 9,000 packets a second are in a window, each read and written.
        let window = |is_exact: bool, moved: u32| {
            let mut mover = Mover::new(Vec::new(), Spare::None, is_exact);
            mover.load.count(mover.load.since + WINDOW, moved);
            mover.takes_turns()
        };
        assert_eq!(
            [window(false, 180), window(true, 180), window(true, 2_000)],
            [true, false, true]
        );
        // What it takes with its nap is below the kernel's share of nine tenths.
        let spin = LONGEST_EXACT_SPIN.as_nanos() as f64;
        assert!(spin / (spin + EXACT_NAP.as_nanos() as f64) < 0.9);
    }

    #[test]
    fn without_priority_nobody_spins_on_a_core_others_want() {
        let spins = |is_realtime: bool, delay: Span, later: Span| {
            let mut mover = Mover::new(Vec::new(), Spare::None, true);
            mover.is_realtime = is_realtime;
            let clock = mover.contended_until;
            mover.note_delay(clock, delay);
            mover.spins(clock + later)
        };
        let (short, long) = (Span::from_micros(300), Span::from_millis(3));
        assert!(spins(false, short, Span::ZERO));
        assert!(!spins(false, long, Span::from_secs(9)));
        assert!(spins(false, long, CONTENDED));
        assert!(spins(true, long, Span::ZERO));
    }
}
