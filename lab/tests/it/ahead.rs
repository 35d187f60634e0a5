//! Tests that take longest. The harness begins them by the alphabet, and what it began last would
//! end alone, with a processor that has nothing to do.

mod soak;
mod url_copy_schemes;
