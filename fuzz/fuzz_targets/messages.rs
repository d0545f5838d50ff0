//! Messages of any content, with ticks and pops between them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rte_fuzz::messages::run(bytes));
