//! Models and options of any content.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rte_fuzz::descriptors::run(bytes));
