//! What a store driver is: data that says what it can, and a function that opens its store.
//!
//! Neither client nor node knows a driver by name. What is special about one is a capability, or a
//! method of [`Store`] that has a default.

use super::{BackupPlace, Landing, Root, Source, WalkProblem};
use crate::drivers::{DriverOption, Values};
use farline_core::transfer::{AttributeSet, Entry, Layout, StoreMedium};
use farline_core::units::{Error, ErrorCode, Fault};
use std::fmt;
use std::fs::File;
use std::sync::Arc;

/// A store driver. A program's own begins with [`StoreDriver::new`].
///
/// ```
/// use farline::core::transfer::{Entry, EntryKind, Layout};
/// use farline::core::units::Error;
/// use farline::stores::{BytesSource, Listing, Source, Store, StoreCapabilities, StoreDriver};
/// use std::sync::Arc;
///
/// /// One file, which stands in this program.
/// #[derive(Debug)]
/// struct Greeting;
///
/// impl Store for Greeting {
///     fn list(&self, _start: &[u8]) -> Result<Listing, Error> {
///         let (path, kind) = (Vec::new(), EntryKind::File { len: 5 });
///         let file = Entry { path, kind, mode: 0o644, modified_ns: 0, changed_ns: 0, attributes: None };
///         Ok(Listing::of(vec![file]))
///     }
///
///     fn source(&self, _start: &[u8], _of: &Arc<Layout>) -> Result<Arc<dyn Source>, Error> {
///         Ok(Arc::new(BytesSource(b"hello".to_vec())))
///     }
/// }
///
/// let mut can = StoreCapabilities::default();
/// can.source = true;
/// let driver = StoreDriver::new("greeting", "one word", can, |_| Ok(Arc::new(Greeting)));
/// let client = farline::Client::new().store(driver)?;
/// let file = std::env::temp_dir().join(format!("farline-greeting-{}", std::process::id()));
/// client.copy("greeting:", &file)?.start()?.wait()?;
/// assert_eq!(std::fs::read(&file)?, b"hello");
/// std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub struct StoreDriver {
    /// What results call it, and with [`StoreForm::Scheme`] what users write before the colon.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// How a place in it is written.
    pub form: StoreForm,
    /// Its options.
    pub options: &'static [DriverOption],
    /// What copies need to know of it.
    pub capabilities: StoreCapabilities,
    /// What its bytes are read from and written to, as far as that says what a copy waits for.
    pub(crate) medium: StoreMedium,
    /// What a node that offers it lists in FEAT behind `FARLINE`; `STORE` and its name when absent.
    pub feature: Option<&'static str>,
    pub(super) open: Box<OpenStore>,
}

type OpenStore = dyn Fn(&Values) -> Result<Arc<dyn Store>, Error> + Send + Sync;

impl StoreDriver {
    /// A driver whose places are written `NAME:PATH`, where `open` opens its store.
    pub fn new(
        name: &'static str,
        about: &'static str,
        capabilities: StoreCapabilities,
        open: impl Fn(&Values) -> Result<Arc<dyn Store>, Error> + Send + Sync + 'static,
    ) -> StoreDriver {
        let medium = match capabilities.access {
            Access::Random => StoreMedium::Disk,
            Access::Ordered => StoreMedium::Pipe,
        };
        StoreDriver {
            name,
            about,
            form: StoreForm::Scheme,
            options: &[],
            capabilities,
            medium,
            feature: None,
            open: Box::new(open),
        }
    }

    /// Opens its store.
    ///
    /// # Errors
    /// When it cannot be had: no memory, no permission.
    pub fn open(&self, values: &Values) -> Result<Arc<dyn Store>, Error> {
        (self.open)(values)
    }

    /// The line of FEAT that tells it.
    pub fn feature(&self) -> String {
        self.feature.map_or_else(|| format!("STORE {}", self.name), str::to_owned)
    }

    /// How a place in it is written, for people: `PATH`, `memory:SIZE`.
    pub fn usage(&self) -> String {
        let options: String = self.options.iter().map(DriverOption::to_string).collect();
        match self.form {
            StoreForm::Path => "PATH".to_owned(),
            StoreForm::Dash => "-".to_owned(),
            StoreForm::Scheme if self.capabilities.paths => format!("{}:PATH", self.name),
            StoreForm::Scheme if options.is_empty() => format!("{}:", self.name),
            StoreForm::Scheme => format!("{}{options}", self.name),
        }
    }
}

impl fmt::Debug for StoreDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreDriver({})", self.name)
    }
}

/// How a place in a store is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreForm {
    /// As a path of this host, or `file:///PATH`.
    Path,
    /// As `-`.
    Dash,
    /// As the name, a colon, and a path or options.
    Scheme,
}

/// What copies need to know of a store; by default it can nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCapabilities {
    /// Whether it can be read.
    pub source: bool,
    /// Whether it can be written.
    pub sink: bool,
    /// In which order.
    pub access: Access,
    /// Whether it holds many files with paths, and folders; else one file without a name.
    pub paths: bool,
    /// Whether what landed can be read from it afterwards.
    pub keeps: bool,
    /// Whether it records what is durable, so that a copy that was broken off goes on from there.
    pub journals: bool,
    /// Whether what landed survives a crash of the host.
    pub durable: bool,
}

/// In which order the bytes of a file are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// In any, by many threads at once.
    #[default]
    Random,
    /// From the first to the last, once. It is read as a [stream](Store::stream), whose length
    /// nobody knows beforehand.
    Ordered,
}

/// Where bytes rest. Paths have no slash at either end, and are text or not; the empty path is the
/// store's whole.
pub trait Store: Send + Sync + fmt::Debug {
    /// What there is to read at `start`: one file as an entry with an empty path, or a folder as an
    /// entry with an empty path and all that is in it, parents before children, by their paths
    /// below `start`.
    ///
    /// # Errors
    /// When nothing is there, or it cannot be listed.
    fn list(&self, _start: &[u8]) -> Result<Listing, Error> {
        Err(nothing_to_read())
    }

    /// The same. A store whose lists may be long tells `meter` now and then how many bytes of
    /// memory the list takes by now, and ends with its error where there are no more.
    ///
    /// # Errors
    /// As [`Self::list`], and those of `meter`.
    fn list_metered(
        &self,
        start: &[u8],
        _meter: &mut dyn FnMut(u64) -> Result<(), Error>,
    ) -> Result<Listing, Error> {
        self.list(start)
    }

    /// What reads the files of `layout`, whose paths are below `start`.
    ///
    /// # Errors
    /// When the store cannot be read so.
    fn source(&self, _start: &[u8], _layout: &Arc<Layout>) -> Result<Arc<dyn Source>, Error> {
        Err(nothing_to_read())
    }

    /// What takes the files of `layout`, whose paths are below `start`.
    ///
    /// # Errors
    /// When the store cannot take them.
    fn sink(
        &self,
        _start: &[u8],
        _layout: &Arc<Layout>,
        _options: LandingOptions,
    ) -> Result<Box<dyn Landing>, Error> {
        Err(Error::new(Fault::You, ErrorCode::Unsupported, "this store cannot be written"))
    }

    /// Its bytes from the first to the last, where they are read so.
    ///
    /// # Errors
    /// When they are not, or cannot be read.
    fn stream(&self) -> Result<File, Error> {
        Err(nothing_to_read())
    }

    /// The folder beneath which its files lie, where they are this host's.
    fn root(&self) -> Option<&Arc<Root>> {
        None
    }
}

/// How files land, as the two ends of a copy agreed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LandingOptions {
    /// The entries' modes and times are the source's, and are kept.
    pub with_metadata: bool,
    /// What one place refuses costs the others nothing: it is named when the rest has landed.
    pub is_lenient: bool,
    /// Each file takes its final name as soon as it is durable whole, and not when all are.
    pub one_by_one: bool,
    /// Where it is kept what files of this host's are replaced; nowhere when absent.
    pub(crate) backup: Option<BackupPlace>,
    /// What else of the entries is set, where the store has files of this host.
    pub(crate) attributes: AttributeSet,
    /// Whether files may become another user's, or run as their owner.
    pub(crate) may_own: bool,
    /// Whether what is there is never replaced, not even what comes there meanwhile.
    pub(crate) only_new: bool,
}

impl LandingOptions {
    /// A tree, of which what is refused is named.
    pub(crate) fn lenient(one_by_one: bool) -> LandingOptions {
        LandingOptions {
            with_metadata: true,
            is_lenient: true,
            one_by_one,
            ..LandingOptions::default()
        }
    }
}

/// What there is to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Files, folders and links.
    pub entries: Vec<Entry>,
    /// What is there and cannot be read, and why.
    pub problems: Vec<WalkProblem>,
    /// Files that have more than one name.
    pub(crate) linked: super::LinkedFiles,
}

impl Listing {
    /// These entries, of which each can be read.
    pub fn of(entries: Vec<Entry>) -> Listing {
        Listing { entries, ..Listing::default() }
    }
}

fn nothing_to_read() -> Error {
    Error::new(
        Fault::You,
        ErrorCode::NothingToRead,
        "this store holds nothing that could be copied",
    )
}
