//! Farline's controls in BPF, by libbpf: loading and registering them, reading their traces, and
//! finding what is registered.

use super::claims::{pin_paths, taken};
use super::record::{self, Record};
use super::request::CcRequest;
use super::{host, object, privilege};
use farline_core::congestion::{Algorithm, Constants, ControlName};
use farline_core::units::{Error, ErrorCode, Fault};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject,
    PrintLevel, RingBuffer, RingBufferBuilder, set_print,
};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Whether this build of Farline has the programs in it.
pub(super) const IS_BUILT_IN: bool = true;

const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// `BPF_F_LINK` (include/uapi/linux/bpf.h): the registration is a link.
const F_LINK: u32 = 1 << 13;

/// What the kernel can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    /// Whether a registration can be a link that ends with its process: from 6.4 on.
    pub(super) links: bool,
}

/// Checks that BPF controls can be loaded here, by this process.
///
/// # Errors
/// [`Fault::Refused`] for a capability that is missing, [`Fault::Here`] for a kernel without BTF or
/// too old.
pub(super) fn kernel() -> Result<Kernel, Error> {
    let here = |code, message: &str| Error::new(Fault::Here, code, message);
    privilege::check()?;
    if !Path::new(KERNEL_TYPES).exists() {
        return Err(here(
            ErrorCode::KernelBtf,
            "this kernel does not describe its types: /sys/kernel/btf/vmlinux is missing",
        )
        .hint("a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions build them since 2021"));
    }
    let types = Btf::from_vmlinux().map_err(|error| {
        here(
            ErrorCode::KernelBtf,
            &format!("reading the kernel's types from {KERNEL_TYPES}: {error}"),
        )
    })?;
    let has = |function: &str| types.type_by_name::<Func<'_>>(function).is_some();
    // The three that every program here calls; all are there from 5.13 on.
    for function in ["tcp_slow_start", "tcp_cong_avoid_ai", "tcp_reno_undo_cwnd"] {
        if !has(function) {
            let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            let message = format!(
                "Linux {} is too old for a congestion control in BPF: it has no {function} to call",
                release.trim()
            );
            return Err(here(ErrorCode::KernelTooOld, &message)
                .hint("Linux 6.1 or newer; or one of the controls in `farline cc ls`"));
        }
    }
    Ok(Kernel { links: has("bpf_struct_ops_link_create") })
}

/// Whether this process has the right to load one.
pub(super) fn may_load() -> bool {
    privilege::check().is_ok()
}

/// A registered control, which is taken back when this is dropped. The link ends before the object,
/// and that before the record of it.
pub(super) struct Registration {
    _link: Link,
    object: Object,
    _record: Option<Record>,
}

impl Registration {
    /// Where its flows are traced.
    pub(super) fn events(&self) -> Option<Events> {
        let ring = self.object.maps().find(|map| map.map_type() == MapType::RingBuf)?;
        // The descriptor itself: to find a map by its number takes CAP_SYS_ADMIN.
        MapHandle::try_from(&ring).ok().map(Events)
    }
}

/// Notes who holds `name`. Where a link ends with its process the kernel knows that better; where
/// none does, what has no record is not told from what a killed process left.
fn record_holder(
    name: ControlName,
    object: &Object,
    request: &CcRequest,
    is_link: bool,
) -> Result<Option<Record>, Error> {
    let ring = object.maps().find(|map| map.map_type() == MapType::RingBuf);
    let ring = ring.and_then(|map| Some(map.info().ok()?.info.id));
    match Record::new(&record::holders(), name, ring, request.offered) {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(taken(name)),
        Err(_) if is_link => Ok(None),
        Err(error) => {
            let message = format!(
                "this kernel does not end a registration with its process, and it cannot be noted \
                 in {} who holds {name}: {error}",
                record::holders().display()
            );
            Err(Error::new(Fault::Here, ErrorCode::CongestionRecord, message).hint(format!(
                "run it as root, or have root make the folder once: install -d -o USER {}",
                record::holders().display()
            )))
        }
    }
}

/// Loads Farline's own and registers it as `name`.
///
/// # Errors
/// [`Fault::You`] for a name that is taken, [`Fault::Refused`] for a capability that the kernel
/// misses, [`Fault::Here`] where it cannot be loaded, pinned or noted.
pub(super) fn register(
    algorithm: Algorithm,
    set: Constants,
    name: ControlName,
    request: &CcRequest,
    kernel: Kernel,
) -> Result<Registration, Error> {
    let failed = |doing: &str, error: &libbpf_rs::Error| explain(name, doing, error);
    let missing = |what: &str| {
        Error::new(
            Fault::Bug,
            ErrorCode::CongestionObject,
            format!("the object of {algorithm} {what}"),
        )
    };
    let image = match request.saved {
        Some(_) => object::resuming(),
        None => object::object(algorithm).ok_or_else(|| missing("is not there"))?,
    };
    listen();
    let mut open =
        ObjectBuilder::default().open_memory(image).map_err(|error| failed("reading", &error))?;
    prepare(&mut open, algorithm, set, name, request, kernel.links && !request.without_link)
        .map_err(|error| failed("preparing", &error))?;
    let mut object = open.load().map_err(|error| failed("loading", &error))?;
    let is_link = kernel.links && !request.without_link;
    let record = if request.pin { None } else { record_holder(name, &object, request, is_link)? };
    let operations = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
    let mut link = match operations.map(|mut map| map.attach_struct_ops()) {
        Some(link) => link.map_err(|error| failed("registering", &error))?,
        None => return Err(missing("has no operations")),
    };
    if request.pin {
        pin(&mut link, &mut object, name, is_link)?;
    }
    Ok(Registration { _link: link, object, _record: record })
}

fn prepare(
    open: &mut OpenObject,
    algorithm: Algorithm,
    set: Constants,
    name: ControlName,
    request: &CcRequest,
    link: bool,
) -> Result<(), libbpf_rs::Error> {
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(object::CONFIG) {
            if let Some(config) = map.initial_value_mut() {
                object::write_config(config, set, request.sample_every, name);
            }
        } else if map.name().to_string_lossy().ends_with(object::SAVED) {
            if let (Some(place), Some(saved)) = (map.initial_value_mut(), request.saved) {
                object::write_saved(place, saved);
            }
        } else if map.name().to_string_lossy() == object::map_name(algorithm) {
            if let Some(operations) = map.initial_value_mut() {
                object::write_operations(operations, name);
            }
            if !link {
                let flags = map.map_flags() & !F_LINK;
                map.set_map_flags(flags)?;
            }
        }
    }
    Ok(())
}

/// Makes link and trace outlive this process in the BPF file system.
fn pin(
    link: &mut Link,
    object: &mut Object,
    name: ControlName,
    is_link: bool,
) -> Result<(), Error> {
    let (link_path, events_path) = pin_paths(name);
    let here = |what: &str, error: &dyn std::fmt::Display| {
        Error::new(
            Fault::Here,
            ErrorCode::CongestionPin,
            format!("pinning {name}: {what}: {error}"),
        )
        .hint("it needs a BPF file system: mount -t bpf bpf /sys/fs/bpf")
    };
    let folder = Path::new(&link_path).parent().unwrap_or(Path::new("/"));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    // A pin anywhere else is an error at best.
    if !mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some("/sys/fs/bpf") && line.contains(" bpf "))
    {
        rustix::mount::mount("bpf", "/sys/fs/bpf", "bpf", rustix::mount::MountFlags::empty(), None)
            .map_err(|error| here("mounting /sys/fs/bpf", &error))?;
    }
    fs::create_dir_all(folder).map_err(|error| here(&folder.display().to_string(), &error))?;
    // First what may fail without a trace: until the link is pinned, an error takes the
    // registration back.
    if let Some(mut events) = object.maps_mut().find(|map| map.map_type() == MapType::RingBuf) {
        events.pin(&events_path).map_err(|error| here(&events_path, &error))?;
    }
    if is_link {
        link.pin(&link_path).map_err(|error| {
            // It says nothing without its link.
            let _ = fs::remove_file(&events_path);
            here(&link_path, &error)
        })?;
    } else {
        // Without links a registration lasts anyway, unless it is taken back.
        link.disconnect();
    }
    Ok(())
}

/// What libbpf said last, of errors and warnings.
static SAID: Mutex<String> = Mutex::new(String::new());

fn listen() {
    fn keep_message(_: PrintLevel, text: String) {
        if let Ok(mut said) = SAID.lock()
            && said.len() < 16_384
        {
            said.push_str(&text);
        }
    }
    if let Ok(mut said) = SAID.lock() {
        said.clear();
    }
    set_print(Some((PrintLevel::Warn, keep_message)));
}

fn explain(name: ControlName, doing: &str, error: &libbpf_rs::Error) -> Error {
    let said = SAID
        .lock()
        .map(|said| said.trim().lines().last().unwrap_or_default().to_owned())
        .unwrap_or_default();
    let message = format!("{doing} the congestion control `{name}`: {error}");
    match error.kind() {
        ErrorKind::AlreadyExists => taken(name),
        ErrorKind::PermissionDenied => {
            Error::new(Fault::Refused, ErrorCode::CongestionCapability, message).hint(
                "it needs CAP_BPF and CAP_PERFMON in the machine's first user namespace, and no \
                lockdown of the kernel",
            )
        }
        _ if said.is_empty() => Error::new(Fault::Here, ErrorCode::CongestionLoad, message),
        _ => Error::new(Fault::Here, ErrorCode::CongestionLoad, message)
            .hint(format!("the kernel or libbpf said: {said}")),
    }
}

/// A control of Farline's among the kernel's BPF maps.
pub(super) struct Registered {
    pub(super) name: ControlName,
    handle: MapHandle,
    /// Without a link: nobody's process ends it.
    pub(super) legacy: bool,
}

impl Registered {
    /// Takes a registration without a link back.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn unregister(&self) -> Result<(), libbpf_rs::Error> {
        self.handle.delete(&0u32.to_ne_bytes())
    }
}

/// Farline's registered operations, found by their variables' names. Empty without the privilege to
/// look.
pub(super) fn registered() -> Vec<Registered> {
    let available = host::available();
    let ours: Vec<String> =
        Algorithm::ALL.into_iter().chain([Algorithm::Held]).map(object::map_name).collect();
    let maps = MapInfoIter::default().filter(|info| info.ty == MapType::StructOps);
    let ours = maps
        .filter(|info| info.name.to_str().is_some_and(|name| ours.iter().any(|ours| ours == name)));
    ours.filter_map(|info| {
        let handle = MapHandle::from_map_id(info.id).ok()?;
        let value = handle.lookup(&0u32.to_ne_bytes(), MapFlags::empty()).ok()??;
        let name = available.iter().copied().find(|&name| holds(&value, name))?;
        Some(Registered { name, handle, legacy: info.map_flags & F_LINK == 0 })
    })
    .collect()
}

/// Whether the kernel's copy of the operations bears `name`: 16 bytes, filled with zeros, behind
/// pointers.
fn holds(operations: &[u8], name: ControlName) -> bool {
    let mut field = [0; 16];
    field[..name.as_str().len()].copy_from_slice(name.as_str().as_bytes());
    operations.chunks_exact(8).collect::<Vec<_>>().windows(2).any(|pair| pair.concat() == field)
}

/// The ring buffer through which a control tells of its flows.
#[derive(Debug)]
pub(super) struct Events(MapHandle);

impl Events {
    /// That of a control which is pinned there.
    pub(super) fn pinned(path: &str) -> Option<Events> {
        MapHandle::from_pinned_path(path).ok().map(Events)
    }

    /// That of a number, which may be another map's by now, when its process is about to end.
    pub(super) fn numbered(id: u32) -> Option<Events> {
        let is_ours = |map: &MapHandle| {
            map.map_type() == MapType::RingBuf && map.name().to_string_lossy().starts_with("ev_")
        };
        MapHandle::from_map_id(id).ok().filter(is_ours).map(Events)
    }

    /// Hands what comes from now on to `note`, as often as it is polled.
    ///
    /// # Errors
    /// In words, when it cannot be read.
    pub(super) fn read(&self, mut note: impl FnMut(&[u8]) + 'static) -> Result<Ring, String> {
        let mut builder = RingBufferBuilder::new();
        let note = move |event: &[u8]| {
            note(event);
            0
        };
        builder.add(&self.0, note).map_err(|error| error.to_string())?;
        let ring = builder.build().map_err(|error| error.to_string())?;
        // Events from before are no part of it.
        ring.consume().map_err(|error| error.to_string())?;
        Ok(Ring(ring))
    }
}

/// A ring buffer that is read.
pub(super) struct Ring(RingBuffer<'static>);

impl Ring {
    /// Waits for events, and hands them on.
    pub(super) fn poll(&self, timeout: Duration) {
        // Interrupted by a signal is as good as nothing yet.
        let _ = self.0.poll(timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_whole_and_not_as_a_part() {
        let mut operations = vec![0u8; 256];
        operations[88..92].copy_from_slice(b"htcp");
        assert!(holds(&operations, Algorithm::HTcp.into()));
        assert!(!holds(&operations, "htc".parse().expect("a name")));
        operations[92] = b'2';
        assert!(!holds(&operations, Algorithm::HTcp.into()));
    }
}
