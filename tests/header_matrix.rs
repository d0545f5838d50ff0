//! `rte.h` compiles without a warning as every C and C++ that it promises, alone, twice, and in two files of a program.

mod support;

use std::path::Path;
use std::process::Command;

use support::{C_WARNINGS, CPP_WARNINGS, Language, WARNINGS, has_tool, link_options, root, run, scratch};

const C: &[&str] = &["c99", "c11", "c17", "c2x"];
const CPP: &[&str] = &["c++11", "c++14", "c++17", "c++20"];

/// Nothing before the header, the header twice, and each kind of thing that it declares used once.
const USER: &str = r#"
#include "rte.h"
#include "rte.h"

uint64_t NAME(const rte_output *output, rte_message *message);

uint64_t NAME(const rte_output *output, rte_message *message)
{
    const uint32_t hooks[] = {RTE_STAGE_SEED, RTE_STAGE_DETACH, RTE_STAGE_READY, RTE_STAGE_FINALIZE, RTE_STAGE_INIT, RTE_STAGE_ON_OUTPUT, RTE_STAGE_NONE};
    const rte_status statuses[] = {RTE_OK, RTE_AGAIN, RTE_ERR_ARGUMENT, RTE_ERR_HOST - 7};
    const uint64_t bits = RTE_KEY_BIT(0) | RTE_KEY_BIT(RTE_MAX_KEYS - 1);
    message->kind = RTE_ACTION;
    message->flags = RTE_PARTIAL;
    if (output->stage == RTE_STAGE_SEED && (output->flags & RTE_ALREADY) != 0) return hooks[0];
    if (output->status == statuses[3]) return bits;
    switch (output->kind) {
    case RTE_CHUNK: return output->index;
    case RTE_DEAD:  return RTE_ABI_VERSION;
    default:        return (output->status == RTE_ERR_DEAD) ? hooks[5] : 0;
    }
}
"#;

const MAIN: &str = r#"
#include "rte.h"

uint64_t first(const rte_output *output, rte_message *message);
uint64_t second(const rte_output *output, rte_message *message);

int main(void)
{
    rte_output  output;
    rte_message message;
    uint64_t    sum;
    output.kind = RTE_CHUNK; output.index = 4; output.stage = 0; output.status = RTE_OK; output.flags = 0;
    sum = first(&output, &message) + second(&output, &message);
    return (rte_abi_version() == RTE_ABI_VERSION && sum == 8) ? 0 : 1;
}
"#;

fn compiler(command: &str, language: Language, standard: &str) -> Command {
    let mut compiler = Command::new(command);
    compiler.arg(format!("-std={standard}")).args(WARNINGS).arg("-I").arg(root().join("include"));
    compiler.args(if language == Language::C { C_WARNINGS } else { CPP_WARNINGS });
    compiler
}

fn check(command: &str, language: Language, standard: &str, folder: &Path) {
    let end = if language == Language::C { "c" } else { "cpp" };
    let write = |name: &str, text: &str| {
        let path = folder.join(format!("{name}.{end}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    // A C++ main may not be declared before, a C function should.
    let first = write("first", &USER.replace("NAME", "first"));
    let second = write("second", &USER.replace("NAME", "second"));
    let main = write("main", MAIN);
    let program = folder.join("program");

    let mut build = compiler(command, language, standard);
    build.args([&first, &second, &main]).arg("-o").arg(&program).args(link_options(folder));
    run(build, folder).expect_success();
    run(Command::new(program), folder).expect_success();
}

fn matrix(command: &str, language: Language, name: &str) {
    let standards = if language == Language::C { C } else { CPP };
    let folder = scratch(name);
    standards.iter().for_each(|standard| check(command, language, standard, &folder));
}

#[test]
fn as_c() {
    matrix(&Language::C.compiler(), Language::C, "c");
}

#[test]
fn as_cpp() {
    matrix(&Language::Cpp.compiler(), Language::Cpp, "cpp");
}

#[test]
fn as_clang_sees_it() {
    for (command, language) in [("clang", Language::C), ("clang++", Language::Cpp)] {
        if has_tool(command) {
            matrix(command, language, command);
        }
    }
}

/// A header may only define names of its own.
#[test]
fn every_macro_has_our_prefix() {
    let folder = scratch("macros");
    let source = folder.join("macros.c");
    std::fs::write(&source, "#include <stddef.h>\n#include <stdint.h>\n").unwrap();
    let macros = |text: &str| {
        std::fs::write(&source, text).unwrap();
        let mut command = compiler(&Language::C.compiler(), Language::C, "c99");
        command.args(["-dM", "-E"]).arg(&source);
        run(command, &folder).expect_success().output
    };
    let before = macros("#include <stddef.h>\n#include <stdint.h>\n");
    let after = macros("#include \"rte.h\"\n");
    let foreign: Vec<&str> = after
        .lines()
        .filter(|line| !before.lines().any(|known| known == *line))
        .filter(|line| !line.starts_with("#define RTE_"))
        .collect();
    assert!(foreign.is_empty(), "rte.h defines\n{}", foreign.join("\n"));
}
