//! `rte.hpp`: C++17 and later, without a warning, in any number of files of a program, with or without exceptions. What
//! it promises beside `rte.h` is checked by `tests/cpp/wrapper.cpp`.

mod support;

use std::path::Path;
use std::process::Command;

use support::{CPP_WARNINGS, Language, WARNINGS, Watch, has_tool, link_options, root, run, scratch};

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

fn check(command: &str, standard: &str, options: &[&str]) {
    // Tests run beside each other: a folder for each.
    let folder = scratch(&["wrapper", command, standard, &options.concat()].join(" "));
    let write = |name: &str, text: &str| {
        let path = folder.join(format!("{name}.cpp"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = [
        write("first", &USER.replace("NAME", "first")),
        write("second", &USER.replace("NAME", "second")),
        write("main", MAIN),
    ];
    let program = folder.join("program");
    let mut build = Command::new(command);
    build
        .arg(format!("-std={standard}"))
        .args(WARNINGS)
        .args(CPP_WARNINGS)
        .args(["-Wsign-conversion", "-Wold-style-cast"]);
    build.args(options).arg("-I").arg(root().join("include"));
    build.args(files).arg("-o").arg(&program).args(link_options(&folder));
    run(build, &folder).expect_success();
    run(Command::new(program), &folder).expect_success();
}

#[test]
fn it_compiles_as_every_standard_from_cpp17_on() {
    for standard in ["c++17", "c++20", "c++2b"] {
        check(&Language::Cpp.compiler(), standard, &[]);
        if has_tool("clang++") {
            check("clang++", standard, &[]);
        }
    }
}

#[test]
fn it_needs_neither_exceptions_nor_run_time_types() {
    check(&Language::Cpp.compiler(), "c++17", &["-fno-exceptions", "-fno-rtti"]);
}

#[test]
fn what_it_promises_beside_the_c_header() {
    let folder = scratch("wrapper");
    for watch in Watch::ALL {
        let Some(finished) = watch.build_and_run(Path::new("tests/cpp/wrapper.cpp"), "c++17", &folder) else {
            continue;
        };
        finished.expect_success().expect("every check", |it| it.output.ends_with("42 checks, 0 failed\n"));
    }
}
