//! Completion queues, and how requests are handed to queue pairs: the calls that go straight to a
//! device's own library.

use super::abi::*;
use super::library::by_code;
use super::memory::Domain;
use rustix::fs::OFlags;
use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// A completion queue and the descriptor that tells of news in it.
pub(super) struct Queue {
    pub(super) raw: NonNull<CompletionQueue>,
    channel: NonNull<CompletionChannel>,
    domain: Arc<Domain>,
}

/// Hands over a chain of requests, which the device copies.
///
/// # Safety
/// The queue pair is alive, and what the requests point to is registered memory that stays until
/// they are done.
pub(super) unsafe fn post_send(
    pair: NonNull<QueuePair>,
    first: *mut SendRequest,
) -> io::Result<()> {
    let mut bad = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    by_code(unsafe {
        let post = (*(*pair.as_ptr()).context).post_send.ok_or(io::ErrorKind::Unsupported)?;
        post(pair.as_ptr(), first, &raw mut bad)
    })
}

/// Hands over a buffer to receive into; the device copies the request.
///
/// # Safety
/// As for [`post_send`].
pub(super) unsafe fn post_receive(
    pair: NonNull<QueuePair>,
    request: *mut ReceiveRequest,
) -> io::Result<()> {
    let mut bad = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    by_code(unsafe {
        let post = (*(*pair.as_ptr()).context).post_recv.ok_or(io::ErrorKind::Unsupported)?;
        post(pair.as_ptr(), request, &raw mut bad)
    })
}

impl Queue {
    pub(super) fn new(domain: &Arc<Domain>, capacity: usize) -> io::Result<Queue> {
        let (library, context) = (domain.library, domain.context.as_ptr());
        // SAFETY: the device is open.
        let channel = NonNull::new(unsafe { (library.ibv_create_comp_channel)(context) })
            .ok_or_else(io::Error::last_os_error)?;
        // SAFETY: as above; the channel is alive.
        let raw = unsafe {
            (library.ibv_create_cq)(
                context,
                capacity as i32,
                std::ptr::null_mut(),
                channel.as_ptr(),
                0,
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            let error = io::Error::last_os_error();
            // SAFETY: no queue uses it.
            let _ = unsafe { (library.ibv_destroy_comp_channel)(channel.as_ptr()) };
            return Err(error);
        };
        let queue = Queue { raw, channel, domain: Arc::clone(domain) };
        let flags = rustix::fs::fcntl_getfl(&queue)?;
        rustix::fs::fcntl_setfl(&queue, flags | OFlags::NONBLOCK)?;
        Ok(queue)
    }

    /// What a queue pair is created with that tells of everything here: how many sends it takes at
    /// once, and how many receives.
    pub(super) fn attributes(
        &self,
        kind: c_uint,
        sends: usize,
        receives: usize,
    ) -> QueuePairAttributes {
        QueuePairAttributes {
            context: std::ptr::null_mut(),
            send_queue: self.raw.as_ptr(),
            receive_queue: self.raw.as_ptr(),
            shared_receives: std::ptr::null_mut(),
            capacities: Capacities {
                sends: sends as u32,
                receives: receives as u32,
                send_sges: 1,
                receive_sges: 1,
                inline_len: 0,
            },
            kind,
            signal_all: 1,
        }
    }

    /// Has the next completion tell the descriptor.
    pub(super) fn arm(&self) -> io::Result<()> {
        // SAFETY: the queue is alive.
        by_code(unsafe {
            let arm =
                (*(*self.raw.as_ptr()).context).req_notify_cq.ok_or(io::ErrorKind::Unsupported)?;
            arm(self.raw.as_ptr(), 0)
        })
    }

    /// Takes what has been done, without waiting; returns how much.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn poll(&self, into: &mut [WorkCompletion]) -> io::Result<usize> {
        let room = c_int::try_from(into.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is alive and writes as many completions as it says, no more than there
        // is room for.
        let count = unsafe {
            let poll = (*(*self.raw.as_ptr()).context).poll_cq.ok_or(io::ErrorKind::Unsupported)?;
            poll(self.raw.as_ptr(), room, into.as_mut_ptr())
        };
        usize::try_from(count).map_err(|_| io::Error::other("the completion queue failed"))
    }

    /// Takes what the descriptor told.
    pub(super) fn disarm(&self) {
        let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is alive and does not wait; each event taken is acknowledged once, on
        // the one queue that it has.
        unsafe {
            while (self.domain.library.ibv_get_cq_event)(
                self.channel.as_ptr(),
                &raw mut queue,
                &raw mut context,
            ) == 0
            {
                (self.domain.library.ibv_ack_cq_events)(queue, 1);
            }
        }
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel owns its descriptor and outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.channel.as_ref().fd) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue pairs are gone, and every event was acknowledged.
        unsafe {
            let _ = (self.domain.library.ibv_destroy_cq)(self.raw.as_ptr());
            let _ = (self.domain.library.ibv_destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}
