//! Many threads at one engine: nothing is torn, lost, told twice or left behind. `tests/c/stress.c` says what is checked.

mod support;

use std::path::Path;

use support::{Watch, scratch};

#[test]
fn pushers_and_consumers_of_all_kinds_and_a_stop_in_the_middle() {
    let folder = scratch("stress");
    for watch in [Watch::Plain, Watch::Sanitizers] {
        let finished = watch.build_and_run(Path::new("tests/c/stress.c"), "c11", &folder).unwrap().expect_success();
        print!("{}", finished.output);
        finished.expect("must come to its end", |it| it.output.ends_with("ok: stress\n"));
    }
}
