//! Fuzzes `farline_lab::targets::command`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| farline_lab::targets::command(bytes));
