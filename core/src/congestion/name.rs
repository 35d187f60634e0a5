//! The name of a congestion control, as sockets take it: one of ours, or any that a kernel has.

use super::Algorithm;
use crate::units::{Error, ErrorCode, Fault, Setting};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A congestion control's name: up to 15 visible characters of ASCII. It may be one that Farline
/// knows nothing of, which its kernel has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ControlName {
    /// Zeros follow it, as in the kernel.
    bytes: [u8; ControlName::LONGEST],
}

impl ControlName {
    /// The kernel's TCP_CA_NAME_MAX, less the final zero (include/net/tcp.h).
    pub const LONGEST: usize = 15;

    /// What the kernel wrote, up to the first zero; `None` for what is no name.
    pub fn from_kernel(bytes: &[u8]) -> Option<ControlName> {
        let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let name = bytes.get(..len).filter(|name| (1..=ControlName::LONGEST).contains(&name.len()));
        let name = name.filter(|name| name.iter().all(u8::is_ascii_graphic))?;
        let mut bytes = [0; ControlName::LONGEST];
        bytes[..len].copy_from_slice(name);
        Some(ControlName { bytes })
    }

    /// A name that a control can be registered by, which the kernel is stricter about.
    ///
    /// # Errors
    /// [`Fault::You`] in words that say why the kernel would refuse it.
    pub fn to_register(text: &str) -> Result<ControlName, Error> {
        let wrong = |why: String| {
            Error::new(Fault::You, ErrorCode::CongestionName, why).hint(format!(
                "up to 15 letters, digits, `_` and `.`, for example {} my_htcp",
                Setting::As
            ))
        };
        if text.len() > ControlName::LONGEST {
            return Err(wrong(format!(
                "`{text}` has {} characters: a congestion control's name has at most {}",
                text.len(),
                ControlName::LONGEST
            )));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        ControlName::from_kernel(text.as_bytes())
            .filter(|_| text.chars().all(fits))
            .ok_or_else(|| wrong(format!("`{text}` cannot be the name of a congestion control")))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        let len = self.bytes.iter().position(|&byte| byte == 0).unwrap_or(self.bytes.len());
        // ASCII, as every way to make one sees to.
        std::str::from_utf8(&self.bytes[..len]).unwrap_or_default()
    }

    /// Which of ours it is; `None` for what only a kernel knows.
    pub fn algorithm(&self) -> Option<Algorithm> {
        self.as_str().parse().ok()
    }

    /// Whether it holds booked rates: Farline's control for that, also by a name of one process's
    /// own.
    pub fn holds_rates(&self) -> bool {
        let name = self.as_str();
        name.strip_prefix(Algorithm::Held.name())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    }

    /// How names begin of one process's own CUBIC that begins from what an earlier flow saw.
    pub const RESUMING: &str = "cub.";

    /// The control that a kernel's name means: a CUBIC that resumes is CUBIC.
    #[must_use]
    pub fn meant(self) -> ControlName {
        match self.as_str().starts_with(ControlName::RESUMING) {
            true => Algorithm::Cubic.into(),
            false => self,
        }
    }

    /// Whether it is BBR, or a later version of it by the names that kernels and modules have for
    /// them: it paces, and does not take a loss for congestion.
    pub fn is_bbr(&self) -> bool {
        self.as_str().starts_with(Algorithm::Bbr.name())
    }
}

impl From<Algorithm> for ControlName {
    fn from(algorithm: Algorithm) -> ControlName {
        let mut bytes = [0; ControlName::LONGEST];
        bytes[..algorithm.name().len()].copy_from_slice(algorithm.name().as_bytes());
        ControlName { bytes }
    }
}

impl FromStr for ControlName {
    type Err = Error;
    fn from_str(text: &str) -> Result<ControlName, Error> {
        let is_whole = |name: &ControlName| name.as_str() == text;
        ControlName::from_kernel(text.as_bytes()).filter(is_whole).ok_or_else(|| {
            let message = format!("there is no congestion control called `{text}`");
            Error::new(Fault::You, ErrorCode::UnknownCongestion, message)
                .hint("see /proc/sys/net/ipv4/tcp_available_congestion_control")
        })
    }
}

impl TryFrom<String> for ControlName {
    type Error = Error;
    fn try_from(text: String) -> Result<ControlName, Error> {
        text.parse()
    }
}

impl From<ControlName> for String {
    fn from(name: ControlName) -> String {
        name.as_str().to_owned()
    }
}

impl PartialEq<str> for ControlName {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == text
    }
}

impl PartialEq<&str> for ControlName {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == *text
    }
}

impl PartialEq<Algorithm> for ControlName {
    fn eq(&self, algorithm: &Algorithm) -> bool {
        self.as_str() == algorithm.name()
    }
}

impl fmt::Display for ControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_16_characters_is_refused_before_the_kernel_does() {
        assert!(ControlName::to_register("fifteen_letters").is_ok());
        let error = ControlName::to_register("sixteen_letters_").expect_err("one too many");
        assert!(error.message.contains("has 16 characters"), "{error}");
        for wrong in ["", "h-tcp", "h tcp", "ä"] {
            let error = ControlName::to_register(wrong).expect_err(wrong);
            assert_eq!(error.code, ErrorCode::CongestionName, "{wrong}");
        }
    }

    #[test]
    fn what_a_kernel_has_is_a_name_and_what_it_cannot_have_is_none() {
        let known = |text: &str| text.parse::<ControlName>();
        assert_eq!(known("dctcp-reno").expect("a name").as_str(), "dctcp-reno");
        assert_eq!(known("bbr3").expect("a name").algorithm(), None);
        assert!(known("bbr3").is_ok_and(|name| name.is_bbr() && name != Algorithm::Bbr));
        for algorithm in Algorithm::ALL {
            let name = ControlName::from(algorithm);
            assert_eq!(known(algorithm.name()).expect("ours"), name);
            assert_eq!(name.algorithm(), Some(algorithm));
        }
        for wrong in ["", "sixteen_letters_", "h tcp", "ä", "reno\0", "re\0no"] {
            assert_eq!(known(wrong).expect_err(wrong).code, ErrorCode::UnknownCongestion);
        }
        assert_eq!(ControlName::from_kernel(b"reno\0\0\xff"), Some(Algorithm::Reno.into()));
        assert_eq!(ControlName::from_kernel(b"\0reno"), None);
    }

    #[test]
    fn a_document_has_it_as_text() {
        let name: ControlName = serde_json::from_str("\"htcp\"").expect("a name");
        assert_eq!(serde_json::to_string(&name).expect("JSON"), "\"htcp\"");
        assert!(serde_json::from_str::<ControlName>("\"no name at all\"").is_err());
    }
}
