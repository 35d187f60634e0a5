//! Making a control available: native, then a module, then BPF.

use super::host::{self, Kernel};
use super::list::{clean_up, pin_paths};
use super::object;
use super::record::Record;
use farline_core::congestion::{Algorithm, Set};
use farline_core::units::{Error, Fault, Span};
use libbpf_rs::{ErrorKind, Link, MapCore, MapHandle, MapType, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;

/// `BPF_F_LINK` (include/uapi/linux/bpf.h): the registration is a link.
const F_LINK: u32 = 1 << 13;

/// A control that somebody wants.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The algorithm, or a name of the kernel's own that Farline knows nothing of.
    pub control: String,
    /// Which constants. Without a wish what the kernel has serves, and BPF runs with Linux's.
    pub set: Option<Set>,
    /// The name to register a BPF control by; the algorithm's when absent.
    pub name: Option<String>,
    /// How often the trace has a line for each flow; zero for no trace.
    pub sample_every: Span,
    /// Whether the control outlives this process.
    pub pin: bool,
    /// Registers as kernels before 6.4 do, for tests.
    pub without_link: bool,
}

impl Wish {
    /// `control` as this host has it, else from Farline with Linux's constants, for as long as it is held.
    pub fn new(control: impl Into<String>) -> Wish {
        let sample_every = Span::from_millis(10);
        Wish { control: control.into(), set: None, name: None, sample_every, pin: false, without_link: false }
    }
}

/// Where a control comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Farline's own, in BPF.
    Bpf,
    /// A kernel module that was loaded for this.
    Module,
    /// It was there.
    Native,
}

/// A control that is available as long as this lives, or for good when it was there before.
#[derive(Debug)]
pub struct Held {
    /// The name to give a socket (`TCP_CONGESTION`).
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// The constants it runs with, where Farline chose them.
    pub set: Option<Set>,
    registration: Option<Registration>,
}

/// What keeps a BPF control registered: a thread, as libbpf's links may not leave theirs.
#[derive(Debug)]
struct Registration {
    events: Option<MapHandle>,
    /// Dropped, it ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell; a panic there has been printed.
            let _ = thread.join();
        }
    }
}

impl Held {
    /// The ring buffer of the control's trace.
    pub(super) fn events(&self) -> Option<&MapHandle> {
        self.registration.as_ref()?.events.as_ref()
    }
}

/// Makes the control of `wish` available.
///
/// # Errors
/// [`Fault::You`] for a name that is unknown, too long or taken; [`Fault::Refused`] when a capability is missing, naming it;
/// [`Fault::Here`] for a kernel without BTF or too old.
pub fn obtain(wish: &Wish) -> Result<Held, Error> {
    let name = wish.name.as_deref().unwrap_or(&wish.control);
    host::check_name(name)?;
    clean_up();
    let algorithm = wish.control.parse::<Algorithm>();
    let is_there = host::available().iter().any(|have| have == name);
    if wish.name.is_none() && wish.set != Some(Set::Paper) {
        let native = |source| Ok(Held { name: name.to_owned(), source, set: None, registration: None });
        if is_there {
            return native(Source::Native);
        }
        if host::probe_module(name) {
            return native(Source::Module);
        }
    }
    let algorithm = algorithm.map_err(|error| {
        error
            .hint(format!("this host has {}; Farline brings bic, highspeed, htcp, scalable, vegas", host::available().join(", ")))
    })?;
    let Some(image) = object::object(algorithm) else {
        let message =
            format!("Farline brings no {algorithm} in BPF: every kernel of today has it, and this one does not offer it");
        return Err(Error::new(Fault::Here, "congestion-native", message)
            .hint(format!("what this host has: {}", host::available().join(", "))));
    };
    if is_there {
        return Err(taken(name));
    }
    let kernel = host::check()?;
    let set = wish.set.unwrap_or_default();
    let registration = hold(image, algorithm, set, name.to_owned(), wish.clone(), kernel)?;
    let registration = if wish.pin { None } else { Some(registration) };
    Ok(Held { name: name.to_owned(), source: Source::Bpf, set: Some(set), registration })
}

/// Registers on a thread of its own, which keeps what must be kept until it is told to end.
fn hold(
    image: &'static [u8],
    algorithm: Algorithm,
    set: Set,
    name: String,
    wish: Wish,
    kernel: Kernel,
) -> Result<Registration, Error> {
    let (stop, stopped) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let work = move || match register(image, algorithm, set, &name, &wish, kernel) {
        Err(error) => drop(tell.send(Err(error))),
        Ok(registered) => {
            let ring = registered.object.maps().find(|map| map.map_type() == MapType::RingBuf);
            let events = ring.and_then(|map| MapHandle::from_map_id(map.info().ok()?.info.id).ok());
            if tell.send(Ok(events)).is_ok() {
                // An error means that the other end was dropped, which is what is waited for.
                let _ = stopped.recv();
            }
        }
    };
    let thread = std::thread::Builder::new().name("congestion".to_owned()).spawn(work);
    let thread = thread.map_err(|error| Error::new(Fault::Here, "no-thread", format!("starting a thread: {error}")))?;
    let events =
        told.recv().unwrap_or_else(|_| Err(Error::new(Fault::Bug, "thread-lost", "the thread that loads BPF panicked")))?;
    Ok(Registration { events, stop: Some(stop), thread: Some(thread) })
}

/// A registered control. The link ends before the object, and that before the record of it.
struct Registered {
    _link: Link,
    object: Object,
    _record: Option<Record>,
}

fn taken(name: &str) -> Error {
    let by = match super::record::holder(name) {
        Some(process) => format!("by Farline's process {process}"),
        None if Path::new(&pin_paths(name).0).exists() => "by Farline, pinned".to_owned(),
        None if host::is_module(name) => format!("by the kernel module tcp_{name}"),
        None => "by the kernel or by somebody's BPF program".to_owned(),
    };
    Error::new(Fault::You, "congestion-taken", format!("the name `{name}` is taken {by}"))
        .hint("register it by another name, for example --as fl_htcp")
}

fn register(image: &[u8], algorithm: Algorithm, set: Set, name: &str, wish: &Wish, kernel: Kernel) -> Result<Registered, Error> {
    let failed = |doing: &str, error: &libbpf_rs::Error| explain(name, doing, error);
    listen();
    let mut open = ObjectBuilder::default().open_memory(image).map_err(|error| failed("reading", &error))?;
    prepare(&mut open, algorithm, set, name, wish.sample_every, kernel.links && !wish.without_link)
        .map_err(|error| failed("preparing", &error))?;
    let mut object = open.load().map_err(|error| failed("loading", &error))?;
    let record = if wish.pin { None } else { Record::new(name) };
    let operations = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
    let mut link = match operations.map(|mut map| map.attach_struct_ops()) {
        Some(link) => link.map_err(|error| failed("registering", &error))?,
        None => return Err(Error::new(Fault::Bug, "congestion-object", format!("the object of {algorithm} has no operations"))),
    };
    if wish.pin {
        pin(&mut link, &mut object, name, kernel.links && !wish.without_link)?;
    }
    Ok(Registered { _link: link, object, _record: record })
}

fn prepare(
    open: &mut OpenObject,
    algorithm: Algorithm,
    set: Set,
    name: &str,
    sample_every: Span,
    link: bool,
) -> Result<(), libbpf_rs::Error> {
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(object::CONFIG) {
            if let Some(config) = map.initial_value_mut() {
                object::write_config(config, set, sample_every, name);
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
fn pin(link: &mut Link, object: &mut Object, name: &str, is_link: bool) -> Result<(), Error> {
    let (link_path, events_path) = pin_paths(name);
    let here = |what: &str, error: &dyn std::fmt::Display| {
        Error::new(Fault::Here, "congestion-pin", format!("pinning {name}: {what}: {error}"))
            .hint("it needs a BPF file system: mount -t bpf bpf /sys/fs/bpf")
    };
    let folder = Path::new(&link_path).parent().unwrap_or(Path::new("/"));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    // A pin anywhere else is an error at best.
    if !mounts.lines().any(|line| line.split(' ').nth(1) == Some("/sys/fs/bpf") && line.contains(" bpf ")) {
        rustix::mount::mount("bpf", "/sys/fs/bpf", "bpf", rustix::mount::MountFlags::empty(), None)
            .map_err(|error| here("mounting /sys/fs/bpf", &error))?;
    }
    fs::create_dir_all(folder).map_err(|error| here(&folder.display().to_string(), &error))?;
    // First what may fail without a trace: until the link is pinned, an error takes the registration back.
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
    fn note(_: PrintLevel, text: String) {
        if let Ok(mut said) = SAID.lock()
            && said.len() < 16_384
        {
            said.push_str(&text);
        }
    }
    if let Ok(mut said) = SAID.lock() {
        said.clear();
    }
    set_print(Some((PrintLevel::Warn, note)));
}

fn explain(name: &str, doing: &str, error: &libbpf_rs::Error) -> Error {
    let said = SAID.lock().map(|said| said.trim().lines().last().unwrap_or_default().to_owned()).unwrap_or_default();
    let message = format!("{doing} the congestion control `{name}`: {error}");
    match error.kind() {
        ErrorKind::AlreadyExists => taken(name),
        ErrorKind::PermissionDenied => Error::new(Fault::Refused, "congestion-capability", message)
            .hint("it needs CAP_BPF and CAP_PERFMON in the machine's first user namespace, and no lockdown of the kernel"),
        _ if said.is_empty() => Error::new(Fault::Here, "congestion-load", message),
        _ => Error::new(Fault::Here, "congestion-load", message).hint(format!("the kernel or libbpf said: {said}")),
    }
}
