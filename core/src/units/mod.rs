//! Quantities with their units: time, spans, sizes, rates, byte ranges, faults and seeded random
//! numbers.

mod error_code;
mod escaped;
mod fault;
mod in_short;
mod parse;
pub mod percent;
mod polynomial;
mod quantity;
mod ranges;
mod rng;
mod setting;
mod time;

pub use error_code::{ErrorCode, Retry};
pub use escaped::{escaped, escaped_json, escaped_lines};
pub use fault::{Error, Fault};
pub use in_short::in_short;
pub use parse::ParseQuantityError;
pub(crate) use polynomial::CrcPolynomial;
pub use quantity::{Bytes, Probability, Rate};
pub use ranges::ByteRanges;
pub use rng::Rng;
pub use setting::{Setting, SettingName};
pub use time::{Span, Time};
