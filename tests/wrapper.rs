//! `rte.hpp`: C++17 and later, without a warning, in any number of files of a program, with or without exceptions, at the
//! cost of C. What it promises beside `rte.h` is checked by `tests/cpp/wrapper.cpp` and `wrapper_model.cpp`.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Build, CPP_WARNINGS, Language, WARNINGS, Watch, has_tool, link_options, root, run, scratch};

const USER: &str = r#"
#include "rte.hpp"
#include "rte.hpp"

namespace { constexpr rte::key<float> wheel{0, "wheel"}; }

rte::engine NAME();

rte::engine NAME()
{
    rte::model model("two files");
    model.sessions(2).chunk_bytes(8).rate(30000, 1001).keys(wheel).hot("hot", [](rte::batch batch) {
        for (rte::row row : batch) row.finish(row.get(wheel) == nullptr ? 1 : 2);
    });
    return rte::engine::make(std::move(model)).or_throw();
}
"#;

const MAIN: &str = r#"
#include "rte.hpp"

rte::engine first();
rte::engine second();

int main()
{
    rte::engine engines[] = {first(), second()};
    std::size_t sizes     = 0;
    for (rte::engine &engine : engines) {
        if (engine.push(rte::attach(1)) != RTE_OK || engine.tick() != RTE_OK) return 1;
        for (const rte::output &out : engine.outputs()) sizes += out.data().size();
    }
    return sizes == 2 ? 0 : 1;
}
"#;

/// Of a program in which other files are compiled without exceptions.
const THROWS: &str = r#"
#include "rte.hpp"

int thrown();

int thrown()
{
    rte::model model("throws");
    model.sessions(1).chunk_bytes(1).hot("hot", [](rte::batch) { throw 1; }).seed([](rte::batch) {});
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    if (engine.push(rte::attach(1)) != RTE_OK || engine.tick() != RTE_OK) return -1;
    int told = 0;
    for (const rte::output &out : engine.outputs()) told += out.kind() == RTE_TICK_FAILED && out.status() == RTE_ERR_CALLBACK ? 1 : 0;
    try {
        (void)rte::engine::make(rte::model("no rows")).or_throw();
    } catch (const rte::exception &why) {
        told += why.status() == RTE_ERR_ARGUMENT ? 1 : 0;
    }
    return told;
}
"#;

const CATCHES_NOTHING: &str = r#"
#include "rte.hpp"

int thrown();

int main()
{
    rte::model model("does not throw");
    model.sessions(1).chunk_bytes(1).hot("hot", [](rte::batch) {}).seed([](rte::batch) {});
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    if (engine.push(rte::attach(1)) != RTE_OK || engine.tick() != RTE_OK) return 1;
    return thrown() == 2 ? 0 : 1;
}
"#;

/// As strict as a careful user's build in C++.
fn compiler(command: &str, standard: &str) -> Command {
    let mut build = Command::new(command);
    build.arg(format!("-std={standard}")).args(WARNINGS).args(CPP_WARNINGS);
    build.args(["-Wnon-virtual-dtor", "-Woverloaded-virtual"]).arg("-I").arg(root().join("include"));
    build
}

fn compilers() -> Vec<String> {
    let mut all = vec![Language::Cpp.compiler()];
    if has_tool("clang++") {
        all.push("clang++".to_string());
    }
    all
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn two_files_and_a_main(command: &str, standard: &str, options: &[&str]) {
    // Tests run beside each other: a folder for each.
    let folder = scratch(&["two files", command, standard, &options.concat()].join(" "));
    let files = [
        write(&folder, "first.cpp", &USER.replace("NAME", "first")),
        write(&folder, "second.cpp", &USER.replace("NAME", "second")),
        write(&folder, "main.cpp", MAIN),
    ];
    let program = folder.join("program");
    let mut build = compiler(command, standard);
    build.args(options).args(files).arg("-o").arg(&program).args(link_options(&folder));
    run(build, &folder).expect_success();
    run(Command::new(program), &folder).expect_success();
}

const STANDARDS: [&str; 3] = ["c++17", "c++20", "c++2b"];

#[test]
fn it_compiles_as_every_standard_from_cpp17_on_in_any_number_of_files() {
    for command in compilers() {
        for standard in STANDARDS {
            two_files_and_a_main(&command, standard, &[]);
        }
    }
}

#[test]
fn all_of_it_works_as_every_standard() {
    for command in compilers() {
        for standard in STANDARDS {
            let folder = scratch(&["model", &command, standard].join(" "));
            let program = folder.join("program");
            let mut build = compiler(&command, standard);
            build.arg(root().join("tests/cpp/wrapper_model.cpp")).arg("-o").arg(&program).args(link_options(&folder));
            run(build, &folder).expect_success();
            let mut program = Command::new(program);
            program.current_dir(&folder);
            run(program, &folder).expect_success().expect("every check", |it| it.output.ends_with(MODEL_CHECKS));
        }
    }
}

#[test]
fn it_needs_neither_exceptions_nor_run_time_types() {
    for command in compilers() {
        for standard in ["c++17", "c++2b"] {
            two_files_and_a_main(&command, standard, &["-fno-exceptions", "-fno-rtti"]);
        }
    }
}

/// It would be a pointer to nobody knows how many.
#[test]
fn a_key_of_bytes_is_not_read_as_a_pointer() {
    for class in ["row", "received"] {
        let reads = |what: &str| {
            let text = format!("#include \"rte.hpp\"\nbool f(const rte::{class} &it) {{ return {what}; }}\n");
            let folder = scratch(&["bytes", class].join(" "));
            let mut build = compiler(&Language::Cpp.compiler(), "c++17");
            build.arg("-fsyntax-only").arg(write(&folder, "read.cpp", &text));
            run(build, &folder)
        };
        reads("it.text(rte::key<rte::bytes>{0, nullptr}).empty()").expect_success();
        reads("it.get(rte::key<float>{0, nullptr}) == nullptr").expect_success();
        let refused = reads("it.get(rte::key<rte::bytes>{0, nullptr}) == nullptr");
        refused.expect("what to take", |it| it.code == Some(1) && it.errors.contains("take text(key)"));
    }
}

/// The linker takes one of each function that both files have. It must not be that of the file that catches nothing.
#[test]
fn files_with_and_without_exceptions_are_of_one_program() {
    let folder = scratch("mixed");
    let throws = write(&folder, "throws.cpp", THROWS);
    let catches_nothing = write(&folder, "catches_nothing.cpp", CATCHES_NOTHING);
    let objects = [(throws, "throws.o", "-fexceptions"), (catches_nothing, "catches_nothing.o", "-fno-exceptions")];
    for (source, object, option) in &objects {
        let mut build = compiler(&Language::Cpp.compiler(), "c++17");
        build.args(["-O0", option, "-c"]).arg(source).arg("-o").arg(folder.join(object));
        run(build, &folder).expect_success();
    }
    for order in [[0, 1], [1, 0]] {
        let program = folder.join(format!("program{}", order[0]));
        let mut link = Command::new(Language::Cpp.compiler());
        link.args(order.map(|at: usize| folder.join(objects[at].1))).arg("-o").arg(&program);
        link.args(link_options(&folder));
        run(link, &folder).expect_success();
        run(Command::new(program), &folder).expect_success();
    }
}

#[test]
fn what_it_promises_beside_the_c_header() {
    for (name, checks) in [("wrapper", "70 checks, 0 failed\n"), ("wrapper_model", MODEL_CHECKS)] {
        let folder = scratch(name);
        let source = format!("tests/cpp/{name}.cpp");
        for watch in Watch::ALL {
            let Some(finished) = watch.build_and_run(Path::new(&source), "c++17", &folder) else {
                continue;
            };
            finished.expect_success().expect("every check", |it| it.output.ends_with(checks));
        }
    }
}

#[test]
fn nothing_allocates_once_the_engine_is_made() {
    let finished = Watch::Plain.build_and_run(Path::new("tests/cpp/steady.cpp"), "c++17", &scratch("steady"));
    finished.unwrap().expect_success();
}

const MODEL_CHECKS: &str = "37 checks, 0 failed\n";

#[test]
fn it_is_tidy() {
    if !has_tool("clang-tidy") {
        return;
    }
    let folder = scratch("tidy");
    let mut tidy = Command::new("clang-tidy");
    tidy.arg("--quiet").arg(root().join("tests/cpp/wrapper_model.cpp"));
    tidy.args(["--", "-std=c++17", "-I"]).arg(root().join("include"));
    run(tidy, &folder).expect_success();
}

/// Instructions in `pop_all` of a program, those of what it calls included, and what it printed.
fn instructions_of_pop_all(source: &str, standard: &str) -> (u64, String) {
    let source = Path::new(source);
    let folder = scratch(&format!("count {}", source.extension().unwrap().to_string_lossy()));
    let program = Build { source, standard, options: &["-O2"], folder: &folder }.link();
    let counts = folder.join("counts");
    let mut count = Command::new("valgrind");
    count.args(["--quiet", "--tool=callgrind", "--toggle-collect=pop_all"]);
    count.arg(format!("--callgrind-out-file={}", counts.display())).arg(program);
    let finished = run(count, &folder).expect_success();
    let counts = std::fs::read_to_string(counts).unwrap();
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: ")).expect("a line of totals");
    (total.parse().unwrap(), finished.output)
}

#[test]
fn a_loop_of_pops_costs_what_it_costs_in_c() {
    const OUTPUTS: u64 = 64 * 65; // 64 notices, 64 chunks of 64 sessions
    if !has_tool("valgrind") {
        return;
    }
    let (c, printed_by_c) = instructions_of_pop_all("tests/c/pop_loop.c", "c99");
    let (cpp, printed_by_cpp) = instructions_of_pop_all("tests/cpp/pop_loop.cpp", "c++17");
    let [each, more] = [c, cpp - c.min(cpp)].map(|count| count as f64 / OUTPUTS as f64);
    println!(
        "a pop and its release: {each:.0} instructions in C, {more:.1} more in C++ ({:.2} %)",
        100.0 * more / each
    );
    assert_eq!(printed_by_c, printed_by_cpp, "both must pop the same");
    assert!(c > OUTPUTS * 50, "too few to be pops and releases: {c}");
    assert!(cpp * 100 < c * 102, "{cpp} instructions in C++, {c} in C");
}
