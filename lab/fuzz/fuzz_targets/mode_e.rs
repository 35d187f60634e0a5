//! Fuzzes `farline_lab::targets::mode_e`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| farline_lab::targets::mode_e(bytes));
