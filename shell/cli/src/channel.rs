//! Channel drivers as flags: what may be asked for comes from the registry.

#[cfg(feature = "profile")]
use farline::channels::driver::Carries;
use farline::channels::{Registry, Stack};
#[cfg(feature = "profile")]
use farline_core::profile::ProfileDriver;
use farline_core::units::Error;

/// What a profile measures of a driver.
#[cfg(feature = "profile")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// Bytes in order.
    Streams(ProfileDriver),
    /// Messages between two devices, by themselves.
    Messages,
}

/// Reads the value of `farline cp --channel`.
pub(crate) fn stack(text: &str) -> Result<Stack, String> {
    let registry = Registry::builtin();
    registry.stack(text).map_err(|error| {
        let usage: String = registry.usage().lines().map(|line| format!("\n  {line}")).collect();
        told(error) + &usage
    })
}

/// Reads one value of `farline serve --channel`: what a client may choose.
pub(crate) fn offered(text: &str) -> Result<String, String> {
    Registry::builtin().stack(text).map(|_| text.to_owned()).map_err(told)
}

/// Reads one value of `farline profile --channel`: a driver or a layer by its name.
#[cfg(feature = "profile")]
pub(crate) fn measured(text: &str) -> Result<Measured, String> {
    let registry = Registry::builtin();
    let named = ProfileDriver::ALL.into_iter().find(|driver| driver.name() == text);
    match (registry.find(text), named) {
        (Some(driver), _) if driver.capabilities.carries == Carries::RegisteredSlots => {
            Ok(Measured::Messages)
        }
        (Some(_), Some(driver)) => Ok(Measured::Streams(driver)),
        (Some(driver), None) => Err(format!("{} is not measured by itself", driver.title)),
        (None, _) => {
            let known: Vec<_> = registry.schemes().collect();
            Err(format!("no channel driver is called `{text}`: known are {}", known.join(", ")))
        }
    }
}

fn told(error: Error) -> String {
    match error.hint {
        Some(hint) => format!("{}: {hint}", error.message),
        None => error.message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_channel_is_told_what_there_is() {
        for text in ["pigeon", "rdma:17", "tls+tls", "tls+rdma"] {
            let said = stack(text).expect_err(text);
            assert!(
                said.contains("tcp or quic[:1-16] or rdma[:1-16][:exchange][:read]"),
                "{text}: {said}"
            );
            assert!(said.contains("rdma:1-16: queue pairs of each channel"), "{text}: {said}");
        }
        assert_eq!(stack("rdma:4:read").expect("a stack").to_string(), "rdma");
        for driver in ProfileDriver::ALL {
            let found = measured(driver.name());
            assert_eq!(found, Ok(Measured::Streams(driver)), "{}", driver.name());
        }
        assert_eq!(measured("rdma"), Ok(Measured::Messages));
        assert!(measured("pigeon").expect_err("none").contains("tcp, tls"));
        assert_eq!(stack("tls").expect("a layer").to_string(), "tls+tcp");
        assert_eq!(offered("tls"), Ok("tls".to_owned()));
        assert!(offered("pigeon").is_err());
    }
}
