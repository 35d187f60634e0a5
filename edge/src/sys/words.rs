//! What the system says of an error, in words.

use std::io;

/// The system's words without Rust's ` (os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
