//! Making a control available: native, then a module, then BPF.

use super::bpf::{self, Events, Kernel};
use super::claims::{is_pinned, taken};
use super::list::clean_up;
use super::loaded::{self, Loaded, Table};
use super::record::{self, Claim};
use super::request::CcRequest;
use super::{host, is_brought};
use farline_core::congestion::{Algorithm, Constants, ControlName, SavedPath};
use farline_core::units::{Error, ErrorCode, Fault, Setting};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

/// Where a control comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct CcGuard {
    /// The name to give a socket (`TCP_CONGESTION`): for what is held for this process's own flows
    /// not always the control's.
    pub name: ControlName,
    /// Where it comes from.
    pub source: CcOrigin,
    /// The constants it runs with, where Farline chose them.
    pub set: Option<Constants>,
    loaded: Option<Arc<Loaded>>,
    /// What has another process hold it for this one, where that does.
    _elsewhere: Option<Box<dyn fmt::Debug + Send + Sync>>,
}

impl CcGuard {
    fn native(name: ControlName, source: CcOrigin) -> CcGuard {
        CcGuard { name, source, set: None, loaded: None, _elsewhere: None }
    }

    /// One that another process holds for this one.
    #[cfg(feature = "link")]
    pub(super) fn elsewhere(
        name: ControlName,
        source: CcOrigin,
        held: impl fmt::Debug + Send + Sync + 'static,
    ) -> CcGuard {
        let set = (source == CcOrigin::Bpf).then(Constants::default);
        CcGuard { set, _elsewhere: Some(Box::new(held)), ..CcGuard::native(name, source) }
    }

    pub(super) fn loaded(&self) -> Option<&Loaded> {
        self.loaded.as_deref()
    }

    /// The ring buffer of the control's trace.
    pub(super) fn events(&self) -> Option<&Events> {
        self.loaded.as_ref()?.events()
    }
}

/// Makes the control of `request` available to this process, by itself.
///
/// # Errors
/// As [`super::obtain`].
pub(super) fn obtain(request: &CcRequest) -> Result<CcGuard, Error> {
    let named = match request.control == Algorithm::Held {
        true => Ok(Algorithm::Held),
        false => request.control.as_str().parse::<Algorithm>(),
    };
    let algorithm = named.map_err(|error| {
        error.hint(format!(
            "this host has {}; Farline brings bic, highspeed, htcp, scalable, vegas",
            listed(&host::available())
        ))
    });
    let name = request.name.unwrap_or(request.control);
    match (ControlName::to_register(name.as_str()), request.name) {
        (Ok(_), _) => {}
        (Err(error), Some(_)) => return Err(error),
        // Nobody asked to register by it: it is no control, and no bad name.
        (Err(_), None) => return Err(unknown(algorithm, name)),
    }
    clean_up();
    let is_there = host::available().contains(&name);
    let claim = record::claim(&record::holders(), name);
    let living = matches!(claim, Claim::Living(_));
    // What this process loads, its transfers share.
    let mut table = loaded::table();
    if is_there && request.is_plain() {
        let offered = matches!(claim, Claim::Living(ref entry) if entry.offered);
        if living && !offered && algorithm.is_ok() {
            // Somebody's own, which goes with a transfer that is not ours.
            return match table.shared(request.control) {
                Some(loaded) => Ok(of(loaded, Constants::default())),
                None if request.offered => Err(taken(name)),
                None => load(
                    request,
                    algorithm?,
                    private_name(&format!("{:.4}_", request.control))?,
                    &mut table,
                ),
            };
        }
        let ours = living || is_pinned(name);
        return Ok(CcGuard::native(name, if ours { CcOrigin::Farline } else { CcOrigin::Native }));
    }
    if is_there
        && request.name.is_none()
        && request.set == Some(Constants::Linux)
        && !living
        && !is_pinned(name)
    {
        return Ok(CcGuard::native(name, CcOrigin::Native));
    }
    if !is_there && request.name.is_none() && request.set != Some(Constants::Paper) {
        // A name of its own that this process or another registered while the plain one was taken.
        if let Some(loaded) = table.shared(request.control).filter(|_| request.is_plain()) {
            return Ok(of(loaded, Constants::default()));
        }
        if request.control != Algorithm::Held && host::probe_module(name) {
            let loaded = table.keep(request, Loaded::module(name));
            return Ok(CcGuard { loaded: Some(loaded), ..CcGuard::native(name, CcOrigin::Module) });
        }
    }
    let algorithm = algorithm?;
    if is_brought(algorithm) && is_there {
        return Err(taken(name));
    }
    match load(request, algorithm, name, &mut table) {
        // Somebody took it since the look above.
        Err(error)
            if error.code == ErrorCode::CongestionTaken
                && request.is_plain()
                && !request.offered =>
        {
            load(request, algorithm, private_name(&format!("{:.4}_", request.control))?, &mut table)
        }
        loaded => loaded,
    }
}

fn unknown(algorithm: Result<Algorithm, Error>, name: ControlName) -> Error {
    let missing = || {
        Error::new(
            Fault::You,
            ErrorCode::UnknownCongestion,
            format!("there is no congestion control called `{name}`"),
        )
    };
    algorithm.err().unwrap_or_else(missing)
}

/// A name that nobody asks for: what it begins with, the process, and how many it had before.
fn private_name(begins: &str) -> Result<ControlName, Error> {
    static SO_FAR: AtomicU32 = AtomicU32::new(0);
    let number = SO_FAR.fetch_add(1, Ordering::Relaxed) % 1_000;
    ControlName::to_register(&format!("{begins}{:x}_{number}", std::process::id()))
}

/// Loads a control for flows over a path of which each has `saved` for its part: CUBIC, which after
/// a first round trip that confirms the path goes to half of that (RFC 9959).
///
/// # Errors
/// As [`obtain`]; a kernel whose CUBIC no program may call is too old.
pub(super) fn resuming(saved: SavedPath) -> Result<CcGuard, Error> {
    let name = private_name(ControlName::RESUMING)?;
    let request =
        CcRequest { name: Some(name), saved: Some(saved), ..CcRequest::new(Algorithm::Cubic) };
    let loaded = hold(Algorithm::Cubic, Constants::Linux, name, request.clone(), bpf::kernel()?)?;
    Ok(of(loaded::table().keep(&request, loaded), Constants::Linux))
}

fn of(loaded: Arc<Loaded>, set: Constants) -> CcGuard {
    let source = if loaded.is_module() { CcOrigin::Module } else { CcOrigin::Bpf };
    CcGuard {
        name: loaded.name,
        source,
        set: (source == CcOrigin::Bpf).then_some(set),
        loaded: Some(loaded),
        _elsewhere: None,
    }
}

/// Loads Farline's own and registers it as `name`.
fn load(
    request: &CcRequest,
    algorithm: Algorithm,
    name: ControlName,
    table: &mut Table<'_>,
) -> Result<CcGuard, Error> {
    if !is_brought(algorithm) {
        return Err(native_alone(algorithm));
    }
    let kernel = bpf::kernel()?;
    let set = request.set.unwrap_or_default();
    let loaded = hold(algorithm, set, name, request.clone(), kernel)?;
    if request.pin {
        // It lasts without what loaded it.
        drop(loaded);
        return Ok(CcGuard { set: Some(set), ..CcGuard::native(name, CcOrigin::Bpf) });
    }
    Ok(of(table.keep(request, loaded), set))
}

/// Names next to each other.
fn listed(names: &[ControlName]) -> String {
    names.iter().map(ControlName::as_str).collect::<Vec<_>>().join(", ")
}

/// Farline brings no second one of what kernels have.
fn native_alone(algorithm: Algorithm) -> Error {
    let available = host::available();
    if available.contains(&algorithm.into()) {
        let message = format!(
            "{algorithm} is this kernel's own: it has no other set of constants, and no other \
             name to be registered by"
        );
        return Error::new(Fault::You, ErrorCode::CongestionNative, message).hint(format!(
            "use it as {algorithm}; bic, highspeed, htcp, scalable and vegas can be loaded with {} \
             and {}",
            Setting::Set,
            Setting::As
        ));
    }
    let message = format!(
        "Farline brings no {algorithm} in BPF: every kernel of today has it, and this one does \
         not offer it"
    );
    Error::new(Fault::Here, ErrorCode::CongestionNative, message)
        .hint(format!("what this host has: {}", listed(&available)))
}

/// Registers on a thread of its own, which keeps what must be kept until it is told to end.
fn hold(
    algorithm: Algorithm,
    set: Constants,
    name: ControlName,
    request: CcRequest,
    kernel: Kernel,
) -> Result<Loaded, Error> {
    let (stop, stopped) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let work = move || match bpf::register(algorithm, set, name, &request, kernel) {
        Err(error) => drop(tell.send(Err(error))),
        Ok(registered) => {
            if tell.send(Ok(registered.events())).is_ok() {
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
    Ok(Loaded::program(name, events, stop, thread))
}
