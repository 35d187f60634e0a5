//! What this process has loaded: shared by its transfers, and given back when nobody has it, or
//! when a signal ends the process.

use super::bpf::Events;
use super::host;
use super::request::CcRequest;
use farline_core::congestion::ControlName;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;

/// A BPF control that is registered, or a kernel module that was loaded; dropped, it goes again.
#[derive(Debug)]
pub(super) struct Loaded {
    /// As registered.
    pub(super) name: ControlName,
    kind: Kind,
    /// Whether it was given back.
    over: AtomicBool,
}

#[derive(Debug)]
enum Kind {
    Program { events: Option<Events>, held: Mutex<Option<Thread>> },
    Module,
}

/// What keeps a BPF control registered: a thread, as its registration may not leave theirs.
#[derive(Debug)]
struct Thread {
    /// Dropped, it ends the thread.
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Loaded {
    pub(super) fn program(
        name: ControlName,
        events: Option<Events>,
        stop: mpsc::Sender<()>,
        thread: JoinHandle<()>,
    ) -> Loaded {
        let held = Mutex::new(Some(Thread { stop, thread }));
        Loaded { name, kind: Kind::Program { events, held }, over: AtomicBool::new(false) }
    }

    pub(super) fn module(name: ControlName) -> Loaded {
        Loaded { name, kind: Kind::Module, over: AtomicBool::new(false) }
    }

    pub(super) fn is_module(&self) -> bool {
        matches!(self.kind, Kind::Module)
    }

    pub(super) fn events(&self) -> Option<&Events> {
        match &self.kind {
            Kind::Program { events, .. } => events.as_ref(),
            Kind::Module => None,
        }
    }

    /// Takes it back; flows that use it keep it to their end.
    fn give_back(&self) {
        if self.over.swap(true, Ordering::Relaxed) {
            return;
        }
        match &self.kind {
            Kind::Program { held, .. } => {
                if let Some(Thread { stop, thread }) =
                    held.lock().unwrap_or_else(PoisonError::into_inner).take()
                {
                    drop(stop);
                    // It has nothing to tell; a panic there has been printed.
                    let _ = thread.join();
                }
            }
            Kind::Module => host::remove_module(self.name),
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl super::CcGuard {
    /// Leaves a kernel module that was loaded for this where it is: whoever asked wants it to stay.
    pub fn keep_module(&self) {
        if let Some(loaded) = self.loaded().filter(|loaded| loaded.is_module()) {
            loaded.over.store(true, Ordering::Relaxed);
        }
    }
}

/// What one request had loaded.
struct Entry {
    control: ControlName,
    /// Whether any control of that name served.
    plain: bool,
    loaded: Weak<Loaded>,
}

static ALL: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// What this process has loaded, while nobody else of it loads.
pub(super) struct Table<'a>(MutexGuard<'a, Vec<Entry>>);

pub(super) fn table() -> Table<'static> {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|entry| entry.loaded.strong_count() > 0);
    Table(all)
}

impl Table<'_> {
    /// What was loaded of `control` for whoever wants any of that name.
    pub(super) fn shared(&self, control: ControlName) -> Option<Arc<Loaded>> {
        let ours = self.0.iter().filter(|entry| entry.plain && entry.control == control);
        ours.filter_map(|entry| entry.loaded.upgrade())
            .find(|loaded| !loaded.over.load(Ordering::Relaxed))
    }

    /// Notes what was loaded for `request`.
    pub(super) fn keep(&mut self, request: &CcRequest, loaded: Loaded) -> Arc<Loaded> {
        let loaded = Arc::new(loaded);
        let entry = Entry {
            control: request.control,
            plain: request.is_plain(),
            loaded: Arc::downgrade(&loaded),
        };
        self.0.push(entry);
        loaded
    }
}

/// Gives back all that this process has loaded.
pub(super) fn give_back() {
    let all: Vec<Arc<Loaded>> =
        table().0.iter().filter_map(|entry| entry.loaded.upgrade()).collect();
    for loaded in all {
        loaded.give_back();
    }
}
