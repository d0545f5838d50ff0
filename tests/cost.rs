//! What a tick costs follows the sessions that step, each with a chunk that is popped and released: counted in instructions,
//! which are the same on every machine, whatever else it does.

mod support;

use std::path::Path;
use std::process::Command;

use support::*;

const TICKS: u64 = 50;

/// Instructions of a tick of `sessions` in an engine of `rows`.
fn tick(program: &Path, rows: u64, sessions: u64) -> f64 {
    let counts = program.with_file_name("counts");
    let mut count = Command::new("valgrind");
    count.args(["--quiet", "--tool=callgrind", "--toggle-collect=steady"]);
    count.arg(format!("--callgrind-out-file={}", counts.display())).arg(program);
    count.args([rows, sessions, TICKS].map(|number| number.to_string()));
    run(count, program.parent().unwrap()).expect_success();
    let counts = std::fs::read_to_string(counts).unwrap();
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: ")).expect("a line of totals");
    total.parse::<u64>().unwrap() as f64 / TICKS as f64
}

#[test]
fn a_tick_costs_what_its_sessions_cost_however_many_there_could_be() {
    if !has_tool("valgrind") {
        return;
    }
    let folder = scratch("steady");
    let program =
        Build { source: Path::new("tests/c/steady.c"), standard: "c99", options: &["-O2"], folder: &folder }.link();
    let [few, many, most] = [8, 64, 512].map(|sessions| tick(&program, sessions, sessions));
    let [one_more_of_many, one_more_of_most] = [(many - few) / 56.0, (most - many) / 448.0];
    println!("8, 64 and 512 sessions: {few:.0}, {many:.0} and {most:.0} instructions a tick");
    println!("one session more: {one_more_of_many:.0}, and {one_more_of_most:.0}");
    assert!(one_more_of_most < 1.05 * one_more_of_many, "a session costs the same in any company");
    let idle = (tick(&program, 4096, 8) - few) / 4088.0;
    println!("a row where nobody is: {idle:.2}");
    assert!(idle < 3.0, "sixty-four rows where nobody is are a word to pass over");
}
