#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| chaos::fuzz::run("simulator_frames", bytes));
