//! The store drivers: which there are, and the places that a user may name in them.

use super::address::StoreAddress;
use super::driver::{Access, Store, StoreDriver, StoreForm};
use super::{files, memory, null, standard};
use crate::drivers::{DriverOption, DriverRegistry, OptionKind, RegisteredDriver, Values};
use farline_core::transfer::StoreMedium;
use farline_core::units::{Bytes, Error, ErrorCode, Fault};
use std::fmt::Write;
use std::sync::Arc;

/// The stores that a client or a node has.
pub type StoreRegistry = DriverRegistry<StoreDriver>;

impl RegisteredDriver for StoreDriver {
    const KIND: &'static str = "store";

    fn builtin() -> Vec<StoreDriver> {
        vec![files::driver(), standard::driver(), memory::driver(None), null::driver()]
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn schemes(&self) -> &[&'static str] {
        std::slice::from_ref(&self.name)
    }

    fn options(&self) -> &'static [DriverOption] {
        self.options
    }

    /// `files` is a node's word for its own (S-1).
    fn is_reserved(scheme: &str) -> bool {
        scheme == "files"
    }
}

/// A store that is open, and what its bytes rest in.
type OpenedStore = (Arc<dyn Store>, StoreMedium);

impl DriverRegistry<StoreDriver> {
    /// What of it a node offers in the place of its files: `null` where that is allowed, `memory`
    /// so much of it for all sessions together, and what its program brought.
    pub(crate) fn offered(&self, null: bool, memory: Option<Bytes>) -> StoreRegistry {
        let builtin = StoreRegistry::builtin();
        let own = self.drivers().filter(|driver| builtin.find(driver.name).is_none());
        let mut drivers = Vec::new();
        drivers.extend(null.then(null::driver).map(Arc::new));
        drivers.extend(memory.map(|limit| Arc::new(memory::driver(Some(limit)))));
        drivers.extend(own.map(Arc::clone));
        drivers.into_iter().collect()
    }

    /// Reads the place that `text` names by a driver's name and a colon, such as `null:`,
    /// `memory:10GiB` or, of a store with paths, `NAME:PATH`; `None` where it names none.
    ///
    /// # Errors
    /// When an option is missing or wrong.
    pub fn parse(&self, text: &[u8]) -> Option<Result<StoreAddress, Error>> {
        let colon = text.iter().position(|&byte| byte == b':')?;
        let driver = self.scheme(std::str::from_utf8(&text[..colon]).ok()?)?;
        let rest = &text[colon + 1..];
        if driver.capabilities.paths {
            return Some(Ok(StoreAddress::new(driver, Values::default(), rest.to_vec())));
        }
        let is_known = rest.is_empty() || !driver.options.is_empty();
        is_known.then(|| with_options(driver, &String::from_utf8_lossy(rest), ':'))
    }

    /// The same without a path, as it stands behind the `?` of a node's URL: `null`,
    /// `memory=10GiB`.
    ///
    /// # Errors
    /// When an option is missing or wrong.
    pub fn parse_query(&self, text: &str) -> Option<Result<StoreAddress, Error>> {
        let (name, options) = match text.split_once('=') {
            Some((name, options)) => (name, Some(options)),
            None => (text, None),
        };
        let driver = self.scheme(name)?;
        let is_known = options.is_some() != driver.options.is_empty();
        is_known.then(|| with_options(driver, options.unwrap_or_default(), '='))
    }

    /// Opens what the value of `OPTS FARLINE store=` names, such as `null` or `memory:BYTES` (S-1),
    /// and says what it is; `None` where there is no such store.
    ///
    /// # Errors
    /// When an option is missing or wrong, or the store cannot be had.
    pub(crate) fn open_option(&self, value: &str) -> Option<Result<OpenedStore, Error>> {
        let (name, options) = value.split_once(':').unwrap_or((value, ""));
        let driver = self.scheme(name)?;
        let medium = driver.medium;
        let address = with_options(driver, options, ':');
        Some(address.and_then(|address| Ok((address.open()?, medium))))
    }

    fn scheme(&self, name: &str) -> Option<Arc<StoreDriver>> {
        self.find(name).filter(|driver| driver.form == StoreForm::Scheme).map(Arc::clone)
    }

    /// What may be written, for a command's help: `PATH, -, memory:SIZE or null:`.
    pub fn usage(&self, is_wanted: impl Fn(&StoreDriver) -> bool) -> String {
        let wanted = self.drivers().filter(|driver| is_wanted(driver));
        wanted.map(|driver| driver.usage()).collect::<Vec<_>>().join(", ")
    }

    /// The drivers and their options as tables in Markdown, for `docs/stores.md`.
    pub fn docs(&self) -> String {
        let mut text = String::from(
            "| store | written | read | written to | order | paths | keeps | goes on | durable | what it is |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
        );
        let yes = |is: bool| if is { "yes" } else { "no" };
        for driver in self.drivers() {
            let can = &driver.capabilities;
            let order = match can.access {
                Access::Random => "any",
                Access::Ordered => "ascending",
            };
            let _ = writeln!(
                text,
                "| `{}` | `{}` | {} | {} | {order} | {} | {} | {} | {} | {} |",
                driver.name,
                driver.usage(),
                yes(can.source),
                yes(can.sink),
                yes(can.paths),
                yes(can.keeps),
                yes(can.journals),
                yes(can.durable),
                driver.about,
            );
        }
        text.push('\n');
        text.push_str(&self.option_table());
        text
    }
}

/// The store of `driver` with `options`, which stand behind its name and a `separator`.
fn with_options(
    driver: Arc<StoreDriver>,
    options: &str,
    separator: char,
) -> Result<StoreAddress, Error> {
    let words = options.split(separator).filter(|_| !options.is_empty());
    let values = Values::parse(driver.options, words);
    let is_size = |option: &&DriverOption| option.kind == OptionKind::Size;
    let size = driver.options.iter().find(is_size);
    match (values, size) {
        (Ok(values), None) => Ok(StoreAddress::new(driver, values, Vec::new())),
        // A size is not left out.
        (Ok(values), Some(size)) if values.has(size.name) => {
            Ok(StoreAddress::new(driver, values, Vec::new()))
        }
        (_, Some(_)) => {
            let name = driver.name;
            let message = format!(
                "`{name}{separator}{options}`: the size of a {name} store is missing or wrong"
            );
            Err(Error::new(Fault::You, ErrorCode::BadSize, message)
                .hint(format!("write it with a unit, such as {name}{separator}10GiB")))
        }
        (Err(word), None) => {
            let message = format!("the store `{}` takes no `{word}`", driver.name);
            Err(Error::new(Fault::You, ErrorCode::BadLocation, message)
                .hint(format!("write {}", driver.usage())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Option<Result<String, ErrorCode>> {
        let parsed = StoreRegistry::builtin().parse(text.as_bytes())?;
        Some(parsed.map(|address| address.to_string()).map_err(|error| error.code))
    }

    #[test]
    fn names_are_read_strictly() {
        for (text, shown) in [("null:", "null:"), ("memory:1KiB", "memory:1024")] {
            assert_eq!(code(text), Some(Ok(shown.to_owned())));
        }
        for wrong in ["memory:", "memory:0", "memory:ten", "memory:5X", "memory:1K:1K"] {
            assert_eq!(code(wrong), Some(Err(ErrorCode::BadSize)), "{wrong}");
        }
        // What only looks so is a host, or a file.
        for other in ["memory", "memory.h5", "null", "null:x", "posix:/x", "-", "standard:"] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    fn a_query_has_the_same_names_with_another_separator() {
        let registry = StoreRegistry::builtin();
        let shown = |text: &str| {
            let parsed = registry.parse_query(text)?;
            Some(parsed.map(|address| address.to_string()).map_err(|error| error.code))
        };
        assert_eq!(shown("null"), Some(Ok("null:".to_owned())));
        assert_eq!(shown("memory=1KiB"), Some(Ok("memory:1024".to_owned())));
        assert_eq!(shown("memory=much"), Some(Err(ErrorCode::BadSize)));
        for other in ["nul", "memory", "null=", "memory:1KiB", ""] {
            assert_eq!(shown(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_is_given_once_and_is_a_word() {
        let named = |name| {
            let capabilities = null::driver().capabilities;
            let open = |_: &_| Err(Error::new(Fault::You, ErrorCode::Unsupported, "none"));
            StoreDriver::new(name, "for a test", capabilities, open)
        };
        let mut registry = StoreRegistry::builtin();
        let error = registry.add(named("null")).expect_err("it is there");
        assert_eq!(error.code, ErrorCode::DriverExists);
        for wrong in ["files", "", "Objects", "a:b", "a1"] {
            assert_eq!(registry.add(named(wrong)).expect_err(wrong).code, ErrorCode::InvalidName);
        }
        registry.add(named("objects")).expect("a new name");
        assert_eq!(registry.find("objects").expect("added").feature(), "STORE objects");
    }

    #[test]
    fn the_page_on_stores_has_the_registrys_tables() {
        let page = include_str!("../../../docs/stores.md");
        let docs = StoreRegistry::builtin().docs();
        assert!(page.contains(&docs), "docs/stores.md should contain:\n{docs}");
    }
}
