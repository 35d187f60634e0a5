//! Fuzzes `targets::command`.
#![no_main]

// The file rather than its crate, whose dependencies take minutes to build; the other targets in it
// are not used here.
#[allow(dead_code)]
#[path = "../../src/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::command(bytes));
