//! libibverbs and librdmacm, looked for when they are first needed: Farline runs without them.

use super::abi::*;
use super::qp_abi::{AddressHandle, Attributes};
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::sync::OnceLock;

/// Declares the functions of both libraries, as their headers have them, and how they are found.
macro_rules! functions {
    (($ibv:ident, $cm:ident) $($library:ident $name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of both libraries, which stay loaded.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn find($ibv: &Loaded, $cm: &Loaded) -> Result<Library, libloading::Error> {
                // SAFETY: each signature is the one in infiniband/verbs.h or rdma/rdma_cma.h, and
                // never changes for a symbol version.
                unsafe {
                    Ok(Library {
                        $($name: *$library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                    })
                }
            }
        }
    };
}

functions! {
    (ibv, cm)
    ibv ibv_get_device_list: fn(*mut c_int) -> *mut *mut Device;
    ibv ibv_free_device_list: fn(*mut *mut Device);
    ibv ibv_query_device: fn(*mut Context, *mut DeviceAttributes) -> c_int;
    ibv ibv_query_port: fn(*mut Context, u8, *mut PortAttributes) -> c_int;
    ibv ibv_alloc_pd: fn(*mut Context) -> *mut Opaque;
    ibv ibv_dealloc_pd: fn(*mut Opaque) -> c_int;
    ibv ibv_reg_mr: fn(*mut Opaque, *mut c_void, usize, c_int) -> *mut MemoryRegion;
    ibv ibv_dereg_mr: fn(*mut MemoryRegion) -> c_int;
    ibv ibv_create_comp_channel: fn(*mut Context) -> *mut CompletionChannel;
    ibv ibv_destroy_comp_channel: fn(*mut CompletionChannel) -> c_int;
    ibv ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompletionChannel, c_int) -> *mut CompletionQueue;
    ibv ibv_destroy_cq: fn(*mut CompletionQueue) -> c_int;
    ibv ibv_get_cq_event: fn(*mut CompletionChannel, *mut *mut CompletionQueue, *mut *mut c_void) -> c_int;
    ibv ibv_ack_cq_events: fn(*mut CompletionQueue, c_uint);
    ibv ibv_query_gid: fn(*mut Context, u8, c_int, *mut [u8; 16]) -> c_int;
    ibv ibv_create_qp: fn(*mut Opaque, *mut QueuePairAttributes) -> *mut QueuePair;
    ibv ibv_modify_qp: fn(*mut QueuePair, *mut Attributes, c_int) -> c_int;
    ibv ibv_destroy_qp: fn(*mut QueuePair) -> c_int;
    ibv ibv_create_ah: fn(*mut Opaque, *mut AddressHandle) -> *mut Opaque;
    ibv ibv_destroy_ah: fn(*mut Opaque) -> c_int;
    cm rdma_create_event_channel: fn() -> *mut EventChannel;
    cm rdma_destroy_event_channel: fn(*mut EventChannel);
    cm rdma_create_id: fn(*mut EventChannel, *mut *mut Identifier, *mut c_void, c_uint) -> c_int;
    cm rdma_destroy_id: fn(*mut Identifier) -> c_int;
    cm rdma_bind_addr: fn(*mut Identifier, *mut c_void) -> c_int;
    cm rdma_listen: fn(*mut Identifier, c_int) -> c_int;
    cm rdma_get_src_port: fn(*mut Identifier) -> u16;
    cm rdma_resolve_addr: fn(*mut Identifier, *mut c_void, *mut c_void, c_int) -> c_int;
    cm rdma_resolve_route: fn(*mut Identifier, c_int) -> c_int;
    cm rdma_create_qp: fn(*mut Identifier, *mut Opaque, *mut QueuePairAttributes) -> c_int;
    cm rdma_destroy_qp: fn(*mut Identifier);
    cm rdma_connect: fn(*mut Identifier, *mut ConnectionParameters) -> c_int;
    cm rdma_accept: fn(*mut Identifier, *mut ConnectionParameters) -> c_int;
    cm rdma_reject: fn(*mut Identifier, *const c_void, u8) -> c_int;
    cm rdma_disconnect: fn(*mut Identifier) -> c_int;
    cm rdma_migrate_id: fn(*mut Identifier, *mut EventChannel) -> c_int;
    cm rdma_get_cm_event: fn(*mut EventChannel, *mut *mut Event) -> c_int;
    cm rdma_ack_cm_event: fn(*mut Event) -> c_int;
    cm rdma_set_option: fn(*mut Identifier, c_int, c_int, *mut c_void, usize) -> c_int;
}

/// The libraries.
///
/// # Errors
/// When this host has none.
pub(super) fn library() -> Result<&'static Library, Error> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        // SAFETY: both are plain C libraries whose initialisers only read their configuration.
        let open = |name| unsafe { Loaded::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
        let found = open("libibverbs.so.1").and_then(|ibv| {
            let cm = open("librdmacm.so.1")?;
            let library = Library::find(&ibv, &cm)?;
            // Their functions are used until the process ends.
            std::mem::forget((ibv, cm));
            Ok(library)
        });
        found.map_err(|error| error.to_string())
    });
    library.as_ref().map_err(|error| {
        Error::new(
            Fault::Here,
            ErrorCode::NoRdma,
            format!("RDMA needs libibverbs and librdmacm: {error}"),
        )
        .hint(format!(
            "install them (Debian: librdmacm1 and ibverbs-providers), or use {} tcp",
            Setting::Channel
        ))
    })
}

/// What a call of libibverbs answers: 0, or an errno, which some devices' own libraries negate.
pub(super) fn by_code(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.abs())) }
}

/// What a call of librdmacm answers, and of libibverbs where it fills in: 0, or another number
/// next to errno.
pub(super) fn by_errno(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many RDMA devices this host has.
///
/// # Errors
/// When the libraries are missing or there is no device.
pub(crate) fn device_count() -> Result<usize, Error> {
    let library = library()?;
    let mut count: c_int = 0;
    // SAFETY: the call fills in the count; the list, if there is one, goes back at once.
    unsafe {
        let list = (library.ibv_get_device_list)(&raw mut count);
        if !list.is_null() {
            (library.ibv_free_device_list)(list);
        }
    }
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(no_device()),
    }
}

/// This host has no device, or none that leads where it should.
pub(super) fn no_device() -> Error {
    Error::new(Fault::Here, ErrorCode::NoRdma, "this host has no RDMA device").hint(
        "`rdma link` (iproute2) lists them; without a card, `rdma link add NAME type rxe \
            netdev DEVICE` makes one of an Ethernet device",
    )
}
