//! Fuzzes `bearer::bearer`.
#![no_main]

#[path = "../../src/bearer.rs"]
mod bearer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bearer::bearer(bytes));
