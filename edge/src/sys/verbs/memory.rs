//! Protection domains and the memory that is registered in them.

use super::abi::*;
use super::library::{Library, by_code, library};
use crate::sys::lock::lock;
use crate::sys::pool::{Region, Slot};
use farline_core::rdma::DeviceLimits;
use farline_core::units::{Error, ErrorCode, Fault};
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

/// `struct ibv_device` has its name here, NUL-terminated, after operations and two numbers.
const NAME_AT: usize = 24;

/// A protection domain of one device: keys given out in one session mean nothing in another.
///
/// A slot is registered when it is first used, by itself, so that a key opens one slot and not its
/// neighbours; the registration is kept for the next use, as pinning pages costs more than sending
/// them. Keys that peers were told are kept for the length of a transfer: [`Self::close`] makes
/// them void.
pub(crate) struct Domain {
    pub(super) library: &'static Library,
    pub(super) context: NonNull<Context>,
    pub(super) raw: NonNull<Opaque>,
    registered: Mutex<Vec<Registered>>,
}

// SAFETY: libibverbs allows any of its calls from any thread; what we keep with it is behind a
// mutex.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// One pool's registrations. The pool takes them out with the last of its slots, before it is
/// unmapped: no device may have it by that time, and what is pinned for nobody counts against the
/// limit of locked memory.
struct Registered {
    region: Weak<Region>,
    slots: Arc<Mutex<Vec<CachedMr>>>,
}

/// The registration of one slot.
struct CachedMr {
    slot: usize,
    access: Access,
    /// Whether a link holds the slot.
    held: bool,
    registration: Registration,
}

/// What a slot is used for, and who may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// This end's device sends from it.
    Sent,
    /// This end's device reads into it what the peer has.
    Fetched,
    /// The peer writes to it.
    Written,
    /// The peer reads from it.
    Read,
}

impl Registered {
    fn is_of(&self, slot: &Slot) -> bool {
        self.region.as_ptr() == Arc::as_ptr(slot.region())
    }
}

impl Access {
    /// Whether the peer learns a key that opens it.
    fn is_told(self, is_iwarp: bool) -> bool {
        match self {
            Access::Written | Access::Read => true,
            // In the request that its device makes.
            Access::Fetched => is_iwarp,
            Access::Sent => false,
        }
    }

    /// `enum ibv_access_flags`.
    fn flags(self, is_iwarp: bool) -> c_int {
        ACCESS_LOCAL_WRITE
            | match self {
                // iWARP's answer to a read is addressed to the reader's memory as a write is (RFC
                // 5040, section 4.5).
                Access::Fetched if is_iwarp => ACCESS_REMOTE_WRITE,
                Access::Sent | Access::Fetched => 0,
                Access::Written => ACCESS_REMOTE_WRITE,
                Access::Read => ACCESS_REMOTE_READ,
            }
    }
}

/// Memory that a device may use.
pub(super) struct Registration {
    library: &'static Library,
    raw: NonNull<MemoryRegion>,
}

// SAFETY: libibverbs allows its calls from any thread, and what we read of it does not change.
unsafe impl Send for Registration {}

/// By which a device finds memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    /// Its address.
    pub(super) address: u64,
    /// For this end.
    pub(super) local: u32,
    /// For the peer.
    pub(super) remote: u32,
}

impl Domain {
    /// A domain on the device that `context` is open on. librdmacm keeps it open until the process
    /// ends.
    pub(super) fn new(context: NonNull<Context>) -> Result<Arc<Domain>, Error> {
        let library = library()?;
        // SAFETY: the context is open.
        let raw = unsafe { (library.ibv_alloc_pd)(context.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let error = io::Error::last_os_error();
            Error::new(
                Fault::Here,
                ErrorCode::RdmaDevice,
                format!("the RDMA device has no protection domain left: {error}"),
            )
        })?;
        Ok(Arc::new(Domain { library, context, raw, registered: Mutex::default() }))
    }

    /// Whether the device speaks iWARP, which has no write with immediate.
    pub(crate) fn is_iwarp(&self) -> bool {
        // SAFETY: context and device live as long as librdmacm, and `transport` is set when the
        // device is found.
        unsafe {
            (*(*self.context.as_ptr()).device.cast::<super::abi::Device>()).transport
                == TRANSPORT_IWARP
        }
    }

    /// The device's name.
    pub(super) fn device(&self) -> String {
        // SAFETY: context and device live as long as librdmacm; the name is an array of 64
        // characters that ends with a zero.
        let name = unsafe {
            CStr::from_ptr((*self.context.as_ptr()).device.cast::<c_char>().add(NAME_AT))
        };
        name.to_string_lossy().into_owned()
    }

    /// What the device has room for.
    ///
    /// # Errors
    /// When it does not say.
    pub(crate) fn limits(&self) -> io::Result<DeviceLimits> {
        let mut attributes = std::mem::MaybeUninit::<DeviceAttributes>::zeroed();
        // SAFETY: the device is open; a structure of integers may be all zeros, and the call fills
        // it in.
        let attributes = unsafe {
            by_code((self.library.ibv_query_device)(
                self.context.as_ptr(),
                attributes.as_mut_ptr(),
            ))?;
            attributes.assume_init()
        };
        let number = |count: i32| u32::try_from(count).unwrap_or(0);
        Ok(DeviceLimits {
            queue_pairs: number(attributes.queue_pairs),
            work: number(attributes.work),
            completions: number(attributes.completions),
            regions: number(attributes.regions),
            // `max_qp_rd_atom` and `max_qp_init_rd_atom`: what it answers, and what it asks.
            reads: attributes.rest[1].min(attributes.rest[4]),
        })
    }

    /// The keys of a slot that a link will hold, which is registered if it was not.
    pub(super) fn keys(&self, slot: &Slot, access: Access) -> io::Result<Keys> {
        let mut registered = lock(&self.registered);
        // One that is about to take its registrations out stays until it has: the domain must not
        // go before.
        registered.retain(|pool| pool.region.strong_count() > 0 || !lock(&pool.slots).is_empty());
        let slots = match registered.iter().find(|pool| pool.is_of(slot)) {
            Some(pool) => Arc::clone(&pool.slots),
            None => {
                let slots = Arc::<Mutex<Vec<CachedMr>>>::default();
                let taken_out = Arc::clone(&slots);
                slot.region().before_unmapping(move || lock(&taken_out).clear());
                registered.push(Registered {
                    region: Arc::downgrade(slot.region()),
                    slots: Arc::clone(&slots),
                });
                slots
            }
        };
        let mut slots = lock(&slots);
        if let Some(kept) =
            slots.iter_mut().find(|kept| kept.slot == slot.index() && kept.access == access)
        {
            kept.held = true;
            return Ok(kept.registration.keys());
        }
        let registration = match self.register(slot.as_ptr().cast_mut(), slot.len(), access) {
            // What is kept for later use counts against the limit of locked memory.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                slots.retain(|kept| kept.held);
                self.register(slot.as_ptr().cast_mut(), slot.len(), access)?
            }
            registered => registered?,
        };
        let keys = registration.keys();
        slots.push(CachedMr { slot: slot.index(), access, held: true, registration });
        Ok(keys)
    }

    /// A link holds `slot` no more; its registration stays until [`Self::close`].
    pub(super) fn let_go(&self, slot: &Slot) {
        for pool in lock(&self.registered).iter().filter(|pool| pool.is_of(slot)) {
            lock(&pool.slots)
                .iter_mut()
                .filter(|kept| kept.slot == slot.index())
                .for_each(|kept| kept.held = false);
        }
    }

    /// Makes void every key that a peer was told, but for slots that another channel of the session
    /// still offers.
    pub(crate) fn close(&self) {
        let is_iwarp = self.is_iwarp();
        for pool in lock(&self.registered).iter() {
            lock(&pool.slots).retain(|kept| !kept.access.is_told(is_iwarp) || kept.held);
        }
    }

    /// Registers memory, which must stay mapped for as long as the registration lives.
    pub(super) fn register(
        &self,
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> io::Result<Registration> {
        self.register_for(start, len, access.flags(self.is_iwarp()))
    }

    /// The same, with these of `enum ibv_access_flags`.
    pub(super) fn register_for(
        &self,
        start: *mut u8,
        len: usize,
        flags: c_int,
    ) -> io::Result<Registration> {
        // SAFETY: the domain is alive; the callers keep the memory mapped.
        let raw = unsafe { (self.library.ibv_reg_mr)(self.raw.as_ptr(), start.cast(), len, flags) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(Registration { library: self.library, raw })
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // A pool that takes its own out just now is waited for.
        lock(&self.registered).drain(..).for_each(|pool| lock(&pool.slots).clear());
        // SAFETY: queue pairs and registrations of this domain are gone: each kept it alive, or
        // went just now. A failure would leave the domain to the end of the process, which nobody
        // can act on.
        let _ = unsafe { (self.library.ibv_dealloc_pd)(self.raw.as_ptr()) };
    }
}

impl Registration {
    pub(super) fn keys(&self) -> Keys {
        // SAFETY: the registration is alive, and its fields do not change.
        let raw = unsafe { self.raw.as_ref() };
        Keys { address: raw.address as u64, local: raw.local_key, remote: raw.remote_key }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered by `register` and not given back before.
        let _ = unsafe { (self.library.ibv_dereg_mr)(self.raw.as_ptr()) };
    }
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Domain")
    }
}
