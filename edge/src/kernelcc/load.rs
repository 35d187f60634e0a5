//! Making a control available: native, then a module, then BPF.

use super::held::{self, Loaded, Table};
use super::host::{self, Kernel};
use super::list::{clean_up, is_pinned, pin_paths};
use super::object;
use super::record::{self, Claim, Entry, Record};
use farline_core::congestion::{Algorithm, Constants};
use farline_core::units::{Error, ErrorCode, Fault, Span};
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapHandle, MapType, Object, ObjectBuilder, OpenObject, PrintLevel,
    set_print,
};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};

/// `BPF_F_LINK` (include/uapi/linux/bpf.h): the registration is a link.
const F_LINK: u32 = 1 << 13;

/// A control that somebody wants.
#[derive(Clone, Debug)]
pub struct CcRequest {
    /// The algorithm, or a name of the kernel's own that Farline knows nothing of.
    pub control: String,
    /// Which constants. Without a wish what the kernel has serves, and BPF runs with Linux's.
    pub set: Option<Constants>,
    /// The name to register a BPF control by; the algorithm's when absent.
    pub name: Option<String>,
    /// How often the trace has a line for each flow; zero for no trace.
    pub sample_every: Span,
    /// Whether the control outlives this process.
    pub pin: bool,
    /// Registers as kernels before 6.4 do, for tests.
    pub without_link: bool,
    /// Whether the control is there for others to use by its name too, not for this process's own
    /// flows alone.
    pub offered: bool,
}

impl CcRequest {
    /// `control` as this host has it, else from Farline with Linux's constants, for as long as it
    /// is held.
    pub fn new(control: impl Into<String>) -> CcRequest {
        let sample_every = Span::from_millis(10);
        CcRequest {
            control: control.into(),
            set: None,
            name: None,
            sample_every,
            pin: false,
            without_link: false,
            offered: false,
        }
    }

    /// Whether any control of that name serves.
    pub(super) fn is_plain(&self) -> bool {
        self.set.is_none() && self.name.is_none()
    }
}

/// Where a control comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CcOrigin {
    /// Farline's own, in BPF.
    Bpf,
    /// Farline's own in BPF, which was there: pinned, or held by a process for others to use.
    Farline,
    /// A kernel module that was loaded for this.
    Module,
    /// It was there.
    Native,
}

/// A control that is available as long as this lives, or for good when it was there before.
#[derive(Debug)]
pub struct CcGuard {
    /// The name to give a socket (`TCP_CONGESTION`): for what is held for this process's own flows
    /// not always the control's.
    pub name: String,
    /// Where it comes from.
    pub source: CcOrigin,
    /// The constants it runs with, where Farline chose them.
    pub set: Option<Constants>,
    loaded: Option<Arc<Loaded>>,
}

impl CcGuard {
    fn native(name: &str, source: CcOrigin) -> CcGuard {
        CcGuard { name: name.to_owned(), source, set: None, loaded: None }
    }

    pub(super) fn loaded(&self) -> Option<&Loaded> {
        self.loaded.as_deref()
    }

    /// The ring buffer of the control's trace.
    pub(super) fn events(&self) -> Option<&MapHandle> {
        self.loaded.as_ref()?.events()
    }
}

/// Makes the control of `wish` available.
///
/// # Errors
/// [`Fault::You`] for a name that is unknown, too long or taken; [`Fault::Refused`] when a
/// capability is missing, naming it; [`Fault::Here`] for a kernel without BTF or too old, and for
/// one without links where no record can be made of what is held.
pub fn obtain(wish: &CcRequest) -> Result<CcGuard, Error> {
    let algorithm = wish.control.parse::<Algorithm>().map_err(|error| {
        error.hint(format!(
            "this host has {}; Farline brings bic, highspeed, htcp, scalable, vegas",
            host::available().join(", ")
        ))
    });
    let name = wish.name.as_deref().unwrap_or(&wish.control);
    match &wish.name {
        Some(name) => host::check_name(name)?,
        // Nobody asked to register by it: it is no control, and no bad name.
        None if host::check_name(name).is_err() => return Err(unknown(algorithm, name)),
        None => {}
    }
    clean_up();
    let is_there = host::available().iter().any(|have| have == name);
    let claim = record::claim(&record::holders(), name);
    let living = matches!(claim, Claim::Living(_));
    // What this process loads, its transfers share.
    let mut table = held::table();
    if is_there && wish.is_plain() {
        let offered = matches!(claim, Claim::Living(ref entry) if entry.offered);
        if living && !offered && algorithm.is_ok() {
            // Somebody's own, which goes with a transfer that is not ours.
            return match table.shared(&wish.control) {
                Some(loaded) => Ok(of(loaded, Constants::default())),
                None if wish.offered => Err(taken(name)),
                None => load(wish, algorithm?, &private_name(&wish.control), &mut table),
            };
        }
        let ours = living || is_pinned(name);
        return Ok(CcGuard::native(name, if ours { CcOrigin::Farline } else { CcOrigin::Native }));
    }
    if is_there
        && wish.name.is_none()
        && wish.set == Some(Constants::Linux)
        && !living
        && !is_pinned(name)
    {
        return Ok(CcGuard::native(name, CcOrigin::Native));
    }
    if !is_there && wish.name.is_none() && wish.set != Some(Constants::Paper) {
        // A name of its own that this process or another registered while the plain one was taken.
        if let Some(loaded) = table.shared(&wish.control).filter(|_| wish.is_plain()) {
            return Ok(of(loaded, Constants::default()));
        }
        if host::probe_module(name) {
            let loaded = table.keep(wish, Loaded::module(name));
            return Ok(CcGuard { loaded: Some(loaded), ..CcGuard::native(name, CcOrigin::Module) });
        }
    }
    let algorithm = algorithm?;
    if object::object(algorithm).is_some() && is_there {
        return Err(taken(name));
    }
    load(wish, algorithm, name, &mut table)
}

fn unknown(algorithm: Result<Algorithm, Error>, name: &str) -> Error {
    let missing = || {
        Error::new(
            Fault::You,
            ErrorCode::UnknownCongestion,
            format!("there is no congestion control called `{name}`"),
        )
    };
    algorithm.err().unwrap_or_else(missing)
}

/// A name that nobody asks for: of the control, the process, and how many it had before.
fn private_name(control: &str) -> String {
    static SO_FAR: AtomicU32 = AtomicU32::new(0);
    let number = SO_FAR.fetch_add(1, Ordering::Relaxed) % 1_000;
    format!("{control:.4}_{:x}_{number}", std::process::id())
}

fn of(loaded: Arc<Loaded>, set: Constants) -> CcGuard {
    let source = if loaded.is_module() { CcOrigin::Module } else { CcOrigin::Bpf };
    CcGuard {
        name: loaded.name.clone(),
        source,
        set: (source == CcOrigin::Bpf).then_some(set),
        loaded: Some(loaded),
    }
}

/// Loads Farline's own and registers it as `name`.
fn load(
    wish: &CcRequest,
    algorithm: Algorithm,
    name: &str,
    table: &mut Table<'_>,
) -> Result<CcGuard, Error> {
    let Some(image) = object::object(algorithm) else { return Err(native_alone(algorithm)) };
    let kernel = host::check()?;
    let set = wish.set.unwrap_or_default();
    let loaded = hold(image, algorithm, set, name.to_owned(), wish.clone(), kernel)?;
    if wish.pin {
        // It lasts without what loaded it.
        drop(loaded);
        return Ok(CcGuard { set: Some(set), ..CcGuard::native(name, CcOrigin::Bpf) });
    }
    Ok(of(table.keep(wish, loaded), set))
}

/// Farline brings no second one of what kernels have.
fn native_alone(algorithm: Algorithm) -> Error {
    let available = host::available();
    if available.iter().any(|have| have == algorithm.name()) {
        let message = format!(
            "{algorithm} is this kernel's own: it has no other set of constants, and no other \
             name to be registered by"
        );
        return Error::new(Fault::You, ErrorCode::CongestionNative, message).hint(format!(
            "use it as {algorithm}; bic, highspeed, htcp, scalable and vegas can be \
                loaded with --set and --as"
        ));
    }
    let message = format!(
        "Farline brings no {algorithm} in BPF: every kernel of today has it, and this one does \
         not offer it"
    );
    Error::new(Fault::Here, ErrorCode::CongestionNative, message)
        .hint(format!("what this host has: {}", available.join(", ")))
}

/// Registers on a thread of its own, which keeps what must be kept until it is told to end.
fn hold(
    image: &'static [u8],
    algorithm: Algorithm,
    set: Constants,
    name: String,
    wish: CcRequest,
    kernel: Kernel,
) -> Result<Loaded, Error> {
    let (stop, stopped) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let registered_name = name.clone();
    let work = move || match register(image, algorithm, set, &name, &wish, kernel) {
        Err(error) => drop(tell.send(Err(error))),
        Ok(registered) => {
            let ring = registered.object.maps().find(|map| map.map_type() == MapType::RingBuf);
            // The descriptor itself: to find a map by its number takes CAP_SYS_ADMIN.
            let events = ring.and_then(|map| MapHandle::try_from(&map).ok());
            if tell.send(Ok(events)).is_ok() {
                // An error means that the other end was dropped, which is what is waited for.
                let _ = stopped.recv();
            }
        }
    };
    let thread = std::thread::Builder::new().name("congestion".to_owned()).spawn(work);
    let thread = thread.map_err(|error| {
        Error::new(Fault::Here, ErrorCode::NoThread, format!("starting a thread: {error}"))
    })?;
    let events = told.recv().unwrap_or_else(|_| {
        Err(Error::new(Fault::Bug, ErrorCode::ThreadLost, "the thread that loads BPF panicked"))
    })?;
    Ok(Loaded::program(registered_name, events, stop, thread))
}

/// A registered control. The link ends before the object, and that before the record of it.
struct Registered {
    _link: Link,
    object: Object,
    _record: Option<Record>,
}

fn taken(name: &str) -> Error {
    let by = match record::claim(&record::holders(), name) {
        Claim::Living(Entry { process: Some(process), .. }) => {
            format!("by Farline's process {process}")
        }
        Claim::Living(_) => "by a process of Farline's".to_owned(),
        Claim::Unknown => {
            format!("by somebody: {} may not be read here", record::holders().display())
        }
        _ if is_pinned(name) => "by Farline, pinned".to_owned(),
        _ if host::is_module(name) => format!("by the kernel module tcp_{name}"),
        _ => "by the kernel or by somebody's BPF program".to_owned(),
    };
    Error::new(Fault::You, ErrorCode::CongestionTaken, format!("the name `{name}` is taken {by}"))
        .hint("register it by another name, for example --as fl_htcp")
}

/// Notes who holds `name`. Where a link ends with its process the kernel knows that better; where
/// none does, what has no record is not told from what a killed process left.
fn note(
    name: &str,
    object: &Object,
    wish: &CcRequest,
    is_link: bool,
) -> Result<Option<Record>, Error> {
    let ring = object.maps().find(|map| map.map_type() == MapType::RingBuf);
    let ring = ring.and_then(|map| Some(map.info().ok()?.info.id));
    match Record::new(&record::holders(), name, ring, wish.offered) {
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

fn register(
    image: &[u8],
    algorithm: Algorithm,
    set: Constants,
    name: &str,
    wish: &CcRequest,
    kernel: Kernel,
) -> Result<Registered, Error> {
    let failed = |doing: &str, error: &libbpf_rs::Error| explain(name, doing, error);
    listen();
    let mut open =
        ObjectBuilder::default().open_memory(image).map_err(|error| failed("reading", &error))?;
    prepare(&mut open, algorithm, set, name, wish.sample_every, kernel.links && !wish.without_link)
        .map_err(|error| failed("preparing", &error))?;
    let mut object = open.load().map_err(|error| failed("loading", &error))?;
    let is_link = kernel.links && !wish.without_link;
    let record = if wish.pin { None } else { note(name, &object, wish, is_link)? };
    let operations = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
    let mut link = match operations.map(|mut map| map.attach_struct_ops()) {
        Some(link) => link.map_err(|error| failed("registering", &error))?,
        None => {
            return Err(Error::new(
                Fault::Bug,
                ErrorCode::CongestionObject,
                format!("the object of {algorithm} has no operations"),
            ));
        }
    };
    if wish.pin {
        pin(&mut link, &mut object, name, is_link)?;
    }
    Ok(Registered { _link: link, object, _record: record })
}

fn prepare(
    open: &mut OpenObject,
    algorithm: Algorithm,
    set: Constants,
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
