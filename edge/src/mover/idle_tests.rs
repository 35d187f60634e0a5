//! A channel of several slots that takes no part in a transfer: what it was offered comes back, and
//! serves the next one.

use super::BLOCK_LEN;
use super::tests::{acceptor, receive_hello};
use crate::channels::handle::ConnectionControl;
use crate::channels::{Arrival, Breaker, Channel, Handle};
use crate::sys::pool::{Slot, pool};
use crate::sys::tcp::TcpInfo;
use farline_core::congestion::ControlName;
use farline_core::gridftp::checked::Check;
use farline_core::gridftp::mode_e::Header;
use farline_core::units::Span;
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A channel on which nothing ever comes. Broken off, it says so, or first that it was woken.
struct Silent {
    offered: Vec<Slot>,
    breaker: Arc<Breaker>,
    only_wakes: bool,
    /// Whether it said that it was woken.
    told: bool,
}

impl Silent {
    fn new(only_wakes: bool) -> Silent {
        Silent {
            offered: Vec::new(),
            breaker: Arc::new(Breaker::new().expect("a descriptor")),
            only_wakes,
            told: false,
        }
    }
}

impl Channel for Silent {
    fn depth(&self) -> usize {
        4
    }

    fn check_blocks(&mut self, _: bool) {}

    fn send(&mut self, _: Header, _: &Check, _: Slot, _: Range<usize>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn withdraw(&mut self) -> Option<Slot> {
        self.offered.pop()
    }

    fn sent(&mut self, _: Option<Instant>) -> io::Result<Option<Slot>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn mark(&mut self, _: Header) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn offer(&mut self, slot: Slot) {
        self.offered.push(slot);
    }

    fn receive(&mut self) -> io::Result<Option<Arrival>> {
        if !self.told {
            poll(&mut [PollFd::from_borrowed_fd(self.breaker.as_fd(), PollFlags::IN)], None)?;
        }
        match self.breaker.is_woken() {
            Err(_) if self.only_wakes && !self.told => {
                // Until the end of the transfer stands in its queue; where that takes longer, the
                // next call says what this one did not.
                std::thread::sleep(Duration::from_millis(50));
                self.told = true;
                Ok(None)
            }
            woken => woken.map(|_| None),
        }
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn congestion(&self) -> Option<ControlName> {
        None
    }

    fn handle(&self) -> io::Result<Handle> {
        Ok(Handle::new(Control(Arc::clone(&self.breaker))))
    }
}

#[derive(Debug)]
struct Control(Arc<Breaker>);

impl ConnectionControl for Control {
    fn rtt(&self) -> Option<Span> {
        Some(Span::ZERO)
    }

    fn wake(&self) {
        self.0.wake();
    }

    fn break_now(&self) {
        self.0.break_now();
    }
}

#[test]
fn an_idle_channels_slots_return_for_the_next_transfer() {
    for only_wakes in [false, true] {
        let mut slots = pool(12, BLOCK_LEN).expect("memory");
        for _ in 0..3 {
            slots = receive_hello(&acceptor(), vec![Box::new(Silent::new(only_wakes))], slots);
            let numbers: Vec<usize> = slots.iter().map(Slot::index).collect();
            assert_eq!(numbers, (0..12).collect::<Vec<_>>(), "only wakes: {only_wakes}");
        }
    }
}
