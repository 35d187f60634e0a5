//! The store `posix`: files beneath a folder of this host.

use super::driver::{
    Access, LandingOptions, Listing, Store, StoreCapabilities, StoreDriver, StoreForm,
};
use super::{
    DirectIo, FileLimit, Landing, PosixSink, PosixSource, Root, Source, stat, walk_metered,
};
use crate::drivers::{DriverOption, OptionKind, Values};
use farline_core::transfer::Layout;
use farline_core::units::Error;
use rustix::fs::FileType;
use std::path::Path;
use std::sync::Arc;

const OPTIONS: [DriverOption; 1] = [DriverOption {
    name: "direct",
    kind: OptionKind::Flag,
    help: "past the page cache, where the file system can",
}];

/// The driver; its paths count from `/`.
pub(super) fn driver() -> StoreDriver {
    let capabilities = StoreCapabilities {
        source: true,
        sink: true,
        access: Access::Random,
        paths: true,
        keeps: true,
        journals: true,
        durable: true,
    };
    let about = "files of this host; a reader sees the old file or the new one";
    let open = |values: &Values| {
        let direct = if values.has("direct") { DirectIo::wanted() } else { DirectIo::default() };
        let root = Arc::new(Root::open(Path::new("/"))?);
        Ok(Arc::new(PosixStore::new(root, direct)) as Arc<dyn Store>)
    };
    let driver = StoreDriver::new("posix", about, capabilities, open);
    StoreDriver { form: StoreForm::Path, options: &OPTIONS, ..driver }
}

/// The files beneath a root.
#[derive(Debug)]
pub struct PosixStore {
    root: Arc<Root>,
    direct: DirectIo,
    limit: FileLimit,
}

impl PosixStore {
    /// Those beneath `root`, read and written past the page cache where `direct` says so.
    pub fn new(root: Arc<Root>, direct: DirectIo) -> PosixStore {
        PosixStore { root, direct, limit: FileLimit::default() }
    }

    /// The same files, of which as many are open at once as `limit` has places for.
    pub(crate) fn within(self, limit: FileLimit) -> PosixStore {
        PosixStore { limit, ..self }
    }
}

impl Store for PosixStore {
    fn list(&self, start: &[u8]) -> Result<Listing, Error> {
        self.list_metered(start, &mut |_| Ok(()))
    }

    fn list_metered(
        &self,
        start: &[u8],
        meter: &mut dyn FnMut(u64) -> Result<(), Error>,
    ) -> Result<Listing, Error> {
        // A link to a folder is that folder here; one to a file is the link.
        let is_folder = self
            .root
            .stat(start)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if !is_folder {
            return Ok(Listing::of(vec![stat(&self.root, start, b"")?]));
        }
        let ((entries, problems), linked) = walk_metered(&self.root, start, meter)?;
        Ok(Listing { entries, problems, linked })
    }

    fn source(&self, start: &[u8], layout: &Arc<Layout>) -> Result<Arc<dyn Source>, Error> {
        let source = PosixSource::new(Arc::clone(&self.root), start.to_vec(), Arc::clone(layout));
        Ok(Arc::new(source.directly(self.direct.clone()).within(self.limit.clone())))
    }

    fn sink(
        &self,
        start: &[u8],
        layout: &Arc<Layout>,
        options: LandingOptions,
    ) -> Result<Box<dyn Landing>, Error> {
        let (root, start) = (Arc::clone(&self.root), start.to_vec());
        let sink = PosixSink::new(root, start, Arc::clone(layout), options.with_metadata);
        let sink = sink.directly(self.direct.clone()).keeping(options.backup);
        let sink = sink.only_new(options.only_new).within(self.limit.clone());
        let sink = sink.setting(options.attributes, options.may_own);
        let sink = if options.is_lenient { sink.lenient() } else { sink };
        Ok(Box::new(if options.one_by_one { sink.one_by_one() } else { sink }))
    }

    fn root(&self) -> Option<&Arc<Root>> {
        Some(&self.root)
    }
}
