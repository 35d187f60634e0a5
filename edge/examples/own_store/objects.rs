//! A store of this program's own: objects by name, in memory, for as long as it runs.

use farline::core::transfer::{Digests, Entry, EntryKind, Layout, VerdictList};
use farline::core::units::{Error, ErrorCode, Fault};
use farline::stores::{
    Landed, Landing, LandingOptions, Listing, Sink, Source, Store, StoreCapabilities, StoreDriver,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects and folders by their paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects(Arc<Mutex<BTreeMap<Vec<u8>, Object>>>);

#[derive(Clone, Debug)]
struct Object {
    kind: EntryKind,
    mode: u32,
    modified_ns: i64,
    bytes: Arc<Vec<u8>>,
}

impl Objects {
    /// What clients and nodes know it by: `objects:PATH`.
    pub(crate) fn driver(&self) -> StoreDriver {
        let mut capabilities = StoreCapabilities::default();
        (capabilities.source, capabilities.sink) = (true, true);
        (capabilities.paths, capabilities.keeps) = (true, true);
        let store = self.clone();
        let open = move |_: &_| Ok(Arc::new(store.clone()) as Arc<dyn Store>);
        StoreDriver::new("objects", "objects in this program's memory", capabilities, open)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Object>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Objects {
    fn list(&self, start: &[u8]) -> Result<Listing, Error> {
        let all = self.all();
        let entry = |path: &[u8], object: &Object| Entry {
            path: path.to_vec(),
            kind: object.kind.clone(),
            mode: object.mode,
            modified_ns: object.modified_ns,
            changed_ns: 0,
            attributes: None,
        };
        match all.get(start) {
            Some(object) if object.kind != EntryKind::Directory => {
                Ok(Listing::of(vec![entry(b"", object)]))
            }
            None if !start.is_empty() => {
                let message = format!("there is no object {}", String::from_utf8_lossy(start));
                Err(Error::new(Fault::You, ErrorCode::PathNotFound, message))
            }
            top => {
                let top = top.map_or_else(|| folder(b""), |top| entry(b"", top));
                let below = |(path, object): (&Vec<u8>, &Object)| {
                    let rest = path.strip_prefix(start)?;
                    let rest = if start.is_empty() { rest } else { rest.strip_prefix(b"/")? };
                    Some(entry(rest, object))
                };
                Ok(Listing::of(std::iter::once(top).chain(all.iter().filter_map(below)).collect()))
            }
        }
    }

    fn source(&self, start: &[u8], layout: &Arc<Layout>) -> Result<Arc<dyn Source>, Error> {
        let all = self.all();
        let bytes =
            |entry: &Entry| all.get(&join(start, &entry.path)).map(|o| Arc::clone(&o.bytes));
        Ok(Arc::new(ObjectSource(layout.entries().iter().map(bytes).collect())))
    }

    fn sink(
        &self,
        start: &[u8],
        layout: &Arc<Layout>,
        _options: LandingOptions,
    ) -> Result<Box<dyn Landing>, Error> {
        Ok(Box::new(ObjectSink {
            objects: self.clone(),
            start: start.to_vec(),
            layout: Arc::clone(layout),
            written: layout.entries().iter().map(|_| Mutex::default()).collect(),
            left: Mutex::default(),
        }))
    }
}

/// The bytes of each entry as they were when the copy began; none where there is no such object.
struct ObjectSource(Vec<Option<Arc<Vec<u8>>>>);

impl Source for ObjectSource {
    fn read(&self, entry: usize, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.0.get(entry).and_then(Option::as_ref);
        let part = bytes.and_then(|bytes| bytes.get(from..)?.get(..into.len()));
        let part = part.ok_or_else(|| {
            Error::new(Fault::Here, ErrorCode::SourceChanged, "the object is gone, or shorter")
        })?;
        into.copy_from_slice(part);
        Ok(())
    }
}

/// What came so far of each entry. It becomes an object when it lands, whole.
#[derive(Debug)]
struct ObjectSink {
    objects: Objects,
    start: Vec<u8>,
    layout: Arc<Layout>,
    written: Vec<Mutex<Vec<u8>>>,
    left: Mutex<BTreeSet<usize>>,
}

impl Sink for ObjectSink {
    fn write(&self, entry: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let from = usize::try_from(offset).map_err(|_| {
            Error::new(Fault::Here, ErrorCode::NoMemory, "an object of this length fits nowhere")
        })?;
        let mut written = self.written[entry].lock().unwrap_or_else(PoisonError::into_inner);
        let end = from + bytes.len();
        if written.len() < end {
            written.resize(end, 0);
        }
        written[from..end].copy_from_slice(bytes);
        Ok(())
    }
}

impl Landing for ObjectSink {
    fn leave(&self, entries: &BTreeSet<usize>) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = entries.clone();
    }

    fn land(&self, check: Option<(&VerdictList, &Digests)>) -> Landed {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.objects.all();
        Landed::each(&self.layout, &left, check, |index, entry| {
            let kind = match &entry.kind {
                EntryKind::Symlink { .. } => {
                    let message = "objects are files and folders, and no links";
                    return Err(Error::new(Fault::Here, ErrorCode::Unsupported, message));
                }
                kind => kind.clone(),
            };
            let written = &self.written[index];
            let bytes =
                std::mem::take(&mut *written.lock().unwrap_or_else(PoisonError::into_inner));
            let kind = match kind {
                // Of a stream the length is known only now.
                EntryKind::File { .. } => EntryKind::File { len: bytes.len() as u64 },
                kind => kind,
            };
            let path = join(&self.start, &entry.path);
            for at in (0..path.len()).filter(|&at| path[at] == b'/') {
                let Entry { kind, mode, modified_ns, .. } = folder(b"");
                let above = Object { kind, mode, modified_ns, bytes: Arc::default() };
                all.entry(path[..at].to_vec()).or_insert(above);
            }
            let (mode, modified_ns) = (entry.mode, entry.modified_ns);
            all.insert(path, Object { kind, mode, modified_ns, bytes: Arc::new(bytes) });
            Ok(())
        })
    }
}

fn folder(path: &[u8]) -> Entry {
    let (kind, path) = (EntryKind::Directory, path.to_vec());
    Entry { path, kind, mode: 0o755, modified_ns: 0, changed_ns: 0, attributes: None }
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder.is_empty() || name.is_empty() {
        true => [folder, name].concat(),
        false => [folder, b"/", name].concat(),
    }
}
