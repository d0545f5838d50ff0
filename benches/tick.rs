//! What a tick costs beside the model: a model that does nothing, steady sessions, unpaced. Medians of blocks of ticks.

use std::ffi::c_void;
use std::time::Instant;

#[path = "../tests/driver/mod.rs"]
mod driver;

use driver::*;

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

unsafe extern "C-unwind" fn one_byte(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe { std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1) };
    0
}

fn median_ns(sessions: u32, outputs: bool, pushes: bool) -> f64 {
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, if outputs { one_byte } else { nothing })];
    let keys = [rte_key { r#type: RTE_F32, size: 8, merge: RTE_MERGE_SUM, ..zeroed() }];
    let model = rte_model { keys: keys.as_ptr(), key_count: 1, ..model(&stages, sessions, 64) };
    let host = Host::new(&model, &rte_engine_options { pipeline: RTE_PIPELINE_ON, inbox_capacity: 4096, ..options() });
    (0..u64::from(sessions)).for_each(|session| assert_eq!(host.push(message(RTE_ATTACH, session), &[]), 0));
    let ticks = 200_000 / sessions as usize;
    let mut blocks: Vec<f64> = (0..21)
        .map(|_| {
            let begin = Instant::now();
            for _ in 0..ticks {
                if pushes {
                    for session in 0..u64::from(sessions) {
                        host.push(message(RTE_ACTION, session), &[value(0, &[0; 8])]);
                    }
                }
                host.tick();
                if outputs {
                    host.pop_all(|_| {});
                }
            }
            begin.elapsed().as_nanos() as f64 / ticks as f64
        })
        .skip(1)
        .collect();
    blocks.sort_by(f64::total_cmp);
    blocks[blocks.len() / 2]
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("sessions  tick      with a chunk each,     with an ACTION each, too");
    println!("                    popped and released");
    for sessions in [1, 8, 64, 512] {
        let us = [(false, false), (true, false), (true, true)].map(|(o, p)| median_ns(sessions, o, p) / 1e3);
        println!("{sessions:>8}  {:>6.2} us  {:>6.2} us           {:>7.2} us", us[0], us[1], us[2]);
    }
}
