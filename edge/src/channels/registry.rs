//! The channel drivers: which there are, what a user may ask for, and the stacks that they make.

use super::driver::{Carries, Driver, Offered, Role};
#[cfg(feature = "quic")]
use super::quic;
#[cfg(feature = "rdma")]
use super::rdma;
use super::stack::Stack;
#[cfg(feature = "tls")]
use super::tls;
use super::{ssh, tcp, udt};
use crate::drivers::{DriverOption, DriverRegistry, RegisteredDriver, Values};
use farline_core::units::{Error, ErrorCode, Fault};
use std::fmt::Write;
use std::sync::Arc;

/// What a build may lack: drivers, and the feature of each.
const OPTIONAL: [(&str, &str); 3] = [("quic", "quic"), ("rdma", "rdma"), ("tls", "tls")];

/// The channel drivers that a client or a node has.
pub type Registry = DriverRegistry<Driver>;

impl RegisteredDriver for Driver {
    const KIND: &'static str = "channel";

    fn builtin() -> Vec<Driver> {
        vec![
            tcp::driver(),
            #[cfg(feature = "tls")]
            tls::driver(),
            ssh::driver(),
            #[cfg(feature = "quic")]
            quic::driver(),
            #[cfg(feature = "rdma")]
            rdma::driver(),
            udt::driver(),
        ]
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn schemes(&self) -> &[&'static str] {
        self.schemes
    }

    fn options(&self) -> &'static [DriverOption] {
        self.options
    }
}

impl DriverRegistry<Driver> {
    /// What carries data where nothing else was said.
    pub fn default_channel(&self) -> Option<&Arc<Driver>> {
        let is_default = |driver: &&Arc<Driver>| driver.capabilities.offered == Offered::Always;
        self.drivers().find(is_default)
    }

    /// A layer that encrypts.
    pub fn encrypting_layer(&self) -> Option<&Arc<Driver>> {
        let encrypts = |driver: &&Arc<Driver>| {
            matches!(driver.role, Role::Layer(_)) && driver.capabilities.encrypted
        };
        self.drivers().find(encrypts)
    }

    /// The channels that a client may choose: those that have a port of their own, or are connected
    /// over the control connection.
    pub fn listening(&self) -> impl Iterator<Item = &Arc<Driver>> {
        self.drivers().filter(|driver| can_be_asked_for(driver))
    }

    /// Reads a stack, such as `tcp`, `tls+tcp` or `rdma:4:exchange`: layers from the top down, then
    /// the one channel with its options. A layer alone stands over [`Self::default_channel`].
    ///
    /// # Errors
    /// When a scheme is not known, an option is not the driver's, or these do not stand on each
    /// other.
    pub fn stack(&self, text: &str) -> Result<Stack, Error> {
        let wrong = |message: String| Error::new(Fault::You, ErrorCode::BadChannel, message);
        let mut layers = Vec::new();
        let mut parts = text.split('+').peekable();
        loop {
            let part = parts.next().unwrap_or_default();
            let mut words = part.split(':');
            let scheme = words.next().unwrap_or_default();
            let driver = self.find(scheme).ok_or_else(|| {
                if let Some((_, feature)) = OPTIONAL.iter().find(|(name, _)| *name == scheme)
                    && Registry::builtin().find(scheme).is_none()
                {
                    return Error::not_built(format!("channel driver `{scheme}`"), feature);
                }
                let known: Vec<_> = self.schemes().collect();
                wrong(format!("no channel driver is called `{scheme}`"))
                    .hint(format!("known are {}", known.join(", ")))
            })?;
            let values = Values::parse(driver.options, words).map_err(|word| {
                wrong(format!("{} takes no `{word}`, or not there", driver.title))
                    .hint(format!("write {}", syntax(driver)))
            })?;
            let is_last = parts.peek().is_none();
            match (&driver.role, is_last) {
                (Role::Layer(_), false) => layers.push(Arc::clone(driver)),
                (Role::Channel(_), true) => {
                    let slots = driver.capabilities.carries == Carries::RegisteredSlots;
                    if slots && let Some(layer) = layers.last() {
                        let message = format!(
                            "{} cannot stand over {}, which carries no bytes in order",
                            layer.title, driver.title
                        );
                        return Err(wrong(message));
                    }
                    return Ok(Stack { layers, channel: Arc::clone(driver), values });
                }
                (Role::Layer(_), true) => {
                    let usual = self.default_channel().filter(|usual| can_stand_on(usual));
                    if let Some(usual) = usual
                        && layers.is_empty()
                    {
                        let layers = vec![Arc::clone(driver)];
                        let channel = Arc::clone(usual);
                        return Ok(Stack { layers, channel, values: Values::default() });
                    }
                    let below: Vec<_> = self
                        .drivers()
                        .filter(|other| can_stand_on(other))
                        .map(|other| format!("{scheme}+{}", other.name))
                        .collect();
                    return Err(wrong(format!("{} is a layer over a channel", driver.title))
                        .hint(format!("write {}", below.join(" or "))));
                }
                (Role::Channel(_), false) => {
                    let message =
                        format!("{} is a channel: nothing can stand below it", driver.title);
                    return Err(wrong(message).hint("layers come first, as in tls+tcp"));
                }
            }
        }
    }

    /// What may be asked for, and each option on a line of its own, for a command's help.
    pub fn usage(&self) -> String {
        let mut text =
            self.listening().map(|driver| syntax(driver)).collect::<Vec<_>>().join(" or ");
        for driver in self.drivers() {
            for option in driver.options {
                let _ = write!(text, "\n{}{option}: {}", driver.name, option.help);
            }
        }
        text
    }

    /// The drivers and their options as tables in Markdown, for `docs/channels.md`.
    pub fn docs(&self) -> String {
        let mut text = String::from(
            "| driver | carries | encrypted | congestion control | when | what it is |\n\
             |---|---|---|---|---|---|\n",
        );
        for driver in self.drivers() {
            let can = &driver.capabilities;
            let carries = match (&driver.role, can.carries) {
                (Role::Layer(_), _) => "a layer over ordered bytes",
                (Role::Channel(_), Carries::OrderedBytes) => "ordered bytes",
                (Role::Channel(_), Carries::RegisteredSlots) => "registered slots",
            };
            let when = match driver.role {
                Role::Layer(_) => "where the control connection is encrypted".to_owned(),
                Role::Channel(_) => can.offered.to_string(),
            };
            let _ = writeln!(
                text,
                "| `{}` | {carries} | {} | {} | {} | {} |",
                driver.name,
                if can.encrypted { "yes" } else { "no" },
                can.congestion,
                when,
                driver.about,
            );
        }
        text.push('\n');
        text.push_str(&self.option_table());
        text
    }
}

/// Whether a layer can stand on it.
fn can_stand_on(driver: &Driver) -> bool {
    matches!(driver.role, Role::Channel(_))
        && driver.capabilities.carries == Carries::OrderedBytes
        && can_be_asked_for(driver)
}

/// Whether a user may choose it.
fn can_be_asked_for(driver: &Driver) -> bool {
    let by_itself = driver.capabilities.offered == Offered::AsTheControlConnection;
    matches!(driver.role, Role::Channel(_)) && !by_itself
}

/// A driver's name with what may follow it: `rdma[:1-16][:exchange][:read]`.
fn syntax(driver: &Driver) -> String {
    let options = driver.options.iter().map(|option| format!("[{option}]"));
    format!("{}{}", driver.name, options.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let error = Registry::builtin().stack(text).expect_err(text);
        assert_eq!((error.fault, error.code), (Fault::You, ErrorCode::BadChannel));
        let hint = error.hint.clone().unwrap_or_default();
        format!("{error} {hint}")
    }

    #[test]
    fn a_stack_is_layers_over_one_channel() {
        let registry = Registry::builtin();
        let shown = |text: &str| registry.stack(text).expect(text).to_string();
        assert_eq!((shown("tcp"), shown("tls+tcp")), ("tcp".to_owned(), "tls+tcp".to_owned()));
        assert_eq!(registry.stack("rdma:4:read").expect("options").values.number("pairs"), Some(4));
        assert!(registry.stack("tls+tcp").expect("a layer").is_encrypted());
        assert!(!registry.stack("tcp").expect("none").is_encrypted());
        assert_eq!(shown("tls"), "tls+tcp", "a layer alone is one over what is usual");
        let without_tcp = registry.only(|driver| driver.name != "tcp");
        let alone = without_tcp.stack("tls").map(|stack| stack.to_string());
        assert!(alone.is_err_and(|error| error.message.contains("a layer over a channel")));
        assert!(refused("tls+tls").contains("write tls+tcp"), "{}", refused("tls+tls"));
        assert!(refused("tls+rdma").contains("cannot stand over RDMA"));
        assert!(refused("tcp+tls").contains("nothing can stand below"));
        assert!(refused("tcp+rdma").contains("nothing can stand below"));
    }

    #[test]
    fn an_unknown_scheme_is_told_the_known_ones() {
        let registry = Registry::builtin();
        for text in ["carrier-pigeon", "", "tls+", "TCP"] {
            let said = refused(text);
            assert!(registry.schemes().all(|scheme| said.contains(scheme)), "{text}: {said}");
        }
    }

    #[test]
    fn an_option_that_is_not_the_drivers_is_refused() {
        for text in ["tcp:4", "rdma:17", "rdma:read:4", "rdma:read:read", "rdma:tls"] {
            assert!(refused(text).contains("write "), "{text}");
        }
    }

    #[test]
    fn a_name_is_given_once() {
        let mut registry = Registry::builtin();
        let error = registry.add(tcp::driver()).expect_err("it is there");
        assert_eq!(error.code, ErrorCode::DriverExists);
        let mut without = registry.only(|driver| driver.name != "tcp");
        without.add(tcp::driver()).expect("the name is free");
        assert!(without.find("tcp").is_some());
    }

    #[test]
    fn the_page_on_channels_has_the_registrys_tables() {
        let page = include_str!("../../../docs/channels.md");
        let docs = Registry::builtin().docs();
        assert!(page.contains(&docs), "docs/channels.md should contain:\n{docs}");
    }

    #[test]
    fn names_are_words_that_the_control_connection_can_carry() {
        for driver in Registry::builtin().drivers() {
            assert!(driver.schemes.contains(&driver.name), "{}", driver.name);
            for scheme in driver.schemes {
                assert!(scheme.bytes().all(|byte| byte.is_ascii_lowercase()), "{scheme}");
            }
        }
    }
}
