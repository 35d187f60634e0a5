//! The stores that there are, through the suite; and one that a program brings.

use super::super::standard::StandardStreams;
use super::super::{DirectIo, PosixStore, Root, StoreRegistry};
use super::*;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Mutex;

#[path = "../../../examples/own_store/objects.rs"]
mod objects;

/// The store of what `text` names, as a program opens it.
fn named(registry: &StoreRegistry, text: &str) -> Site {
    let address = registry.parse(text.as_bytes()).expect("known").expect("valid");
    let store = address.open().expect("opened");
    of(store, address.driver().capabilities)
}

fn of(store: Arc<dyn Store>, capabilities: StoreCapabilities) -> Site {
    Site {
        store,
        capabilities,
        feed: Box::new(|_| unreachable!("it is not a stream")),
        taken: Box::new(|| unreachable!("it is not a stream")),
        _keep: Box::new(()),
    }
}

fn capabilities(name: &str) -> StoreCapabilities {
    StoreRegistry::builtin().find(name).expect("a driver").capabilities
}

fn posix(direct: fn() -> DirectIo) -> Site {
    let dir = tempfile::tempdir().expect("a folder");
    let root = Arc::new(Root::open(dir.path()).expect("opened"));
    std::fs::create_dir(dir.path().join("run")).expect("a folder");
    let store = Arc::new(PosixStore::new(root, direct()));
    Site { _keep: Box::new(dir), ..of(store, capabilities("posix")) }
}

#[test]
fn posix_conforms() {
    conform("posix", || posix(DirectIo::default));
}

#[test]
fn posix_past_the_page_cache_conforms() {
    conform("posix:direct", || posix(DirectIo::wanted));
}

#[test]
fn memory_conforms() {
    let registry = StoreRegistry::builtin();
    conform("memory", || named(&registry, "memory:1MiB"));
}

#[test]
fn null_conforms() {
    let registry = StoreRegistry::builtin();
    conform("null", || named(&registry, "null:"));
}

#[test]
fn standard_streams_conform() {
    conform("standard", || {
        let (input, feed) = pipe();
        let (taken, output) = pipe();
        let (feed, taken) = (Mutex::new(Some(feed)), Mutex::new(taken));
        Site {
            feed: Box::new(move |bytes| {
                let mut feed = feed.lock().expect("free").take().expect("fed once");
                feed.write_all(bytes).expect("room in the pipe");
            }),
            taken: Box::new(move || {
                let taken = taken.lock().expect("free");
                let mut bytes =
                    vec![0; rustix::io::ioctl_fionread(&*taken).expect("a pipe") as usize];
                (&*taken).read_exact(&mut bytes).expect("what is there");
                bytes
            }),
            ..of(
                Arc::new(StandardStreams { instead: Some((input, output)) }),
                capabilities("standard"),
            )
        }
    });
}

/// Its end to read, and its end to write: it holds 64 KiB, more than a case writes.
fn pipe() -> (File, File) {
    let (read, write) = std::io::pipe().expect("a pipe");
    (File::from(std::os::fd::OwnedFd::from(read)), File::from(std::os::fd::OwnedFd::from(write)))
}

#[test]
fn a_store_that_a_program_brings_conforms() {
    conform("objects", || {
        let mut registry = StoreRegistry::builtin();
        registry.add(objects::Objects::default().driver()).expect("a new name");
        named(&registry, "objects:run")
    });
}
