#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| chaos::fuzz::run("directory_rows", bytes));
