//! Fuzzes `farline_lab::targets::manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| farline_lab::targets::manifest(bytes));
