//! 20 seconds of real 60 Hz on this machine: how late ticks begin, and whether the grid drifts. Printed, not asserted.

use std::ffi::c_void;
use std::time::{Duration, Instant};

#[path = "../tests/driver/mod.rs"]
mod driver;

use driver::*;

unsafe extern "C-unwind" fn five_ms(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(5) {
        std::hint::spin_loop();
    }
    // SAFETY: the arrays of a batch of one row.
    unsafe { *(*batch).output_size = 1 };
    0
}

fn run(spin_ns: u64) {
    let stages = [stage(RTE_HOT, five_ms)];
    let model = rte_model { rate_num: 60, rate_den: 1, ..model(&stages, 1, 8) };
    let host = Host::new(&model, &rte_engine_options { spin_ns, ..options() });
    host.push(message(RTE_ATTACH, 1), &[]);
    let (mut first, mut last) = (None, (0, 0));
    // SAFETY: the engine lives; one start, one consumer.
    unsafe {
        assert_eq!(rte_engine_start(host.engine, std::ptr::null_mut()), 0);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            rte_outbox_wait(host.engine, 100_000_000);
            host.pop_all(|output| {
                if output.kind == RTE_CHUNK {
                    first.get_or_insert((output.tick, output.start_ns));
                    last = (output.tick, output.start_ns);
                }
            });
        }
        assert_eq!(rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()), 0);
    }
    let (info, (tick, start)) = (host.info(), first.unwrap());
    let points = (last.0 - tick + info.missed_deadlines) as f64;
    let drift = (last.1 - start) as f64 - points * 1e9 / 60.0;
    println!(
        "spin {:>3} us: {} ticks, missed {}, late {}; begin after the grid point p50 {:.1} us, p99 {:.1} us, max {:.1} us; drift over 20 s {:+.1} us",
        spin_ns / 1000,
        info.ticks,
        info.missed_deadlines,
        info.late_ticks,
        info.late_ns_p50 as f64 / 1e3,
        info.late_ns_p99 as f64 / 1e3,
        info.late_ns_max as f64 / 1e3,
        drift / 1e3,
    );
}

fn main() {
    // cargo test runs benches once, to see that they work: not for 20 seconds.
    if std::env::args().any(|argument| argument == "--bench") {
        run(0);
        run(200_000);
    }
}
