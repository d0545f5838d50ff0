//! What the shared library shows to a linker: the functions of `rte.h`, nothing else, under its own name and for good.
//!
//! `RTE_BLESS=1 cargo test --test symbols` writes the golden list.

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use support::{library, read, root};

const GOLDEN: &str = "tests/golden/symbols.txt";

/// What a tool of binutils says of the library.
fn said_by(tool: &str, options: &[&str]) -> String {
    let said =
        Command::new(tool).args(options).arg(library()).output().unwrap_or_else(|error| panic!("{tool}: {error}"));
    assert!(said.status.success(), "{tool}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// Defined dynamic symbols, whatever their kind.
fn exported() -> BTreeSet<String> {
    let output = said_by("nm", &["-D", "--defined-only", "--format=posix"]);
    output.lines().filter_map(|line| line.split(' ').next()).map(str::to_string).collect()
}

/// Functions that the header declares: `RTE_API`, a type, the name, a parenthesis.
fn declared() -> BTreeSet<String> {
    let header = read("include/rte.h");
    let declarations = header.split("\nRTE_API").skip(1);
    declarations
        .filter_map(|text| {
            let (before, _) = text.split_once('(')?;
            before.split_whitespace().last().map(|name| name.trim_start_matches('*').to_string())
        })
        .collect()
}

fn list(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect()
}

/// What the dynamic section says.
fn dynamic_section() -> String {
    said_by("readelf", &["--dynamic", "--wide"])
}

#[test]
fn exactly_the_functions_of_the_header_are_exported() {
    let (exported, declared) = (exported(), declared());
    assert_eq!(exported, declared, "left: exported, right: declared in rte.h");
    assert!(exported.iter().all(|name| name.starts_with("rte_")), "{exported:?}");
    if std::env::var_os("RTE_BLESS").is_some() {
        let text: String = exported.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(root().join(GOLDEN), text).unwrap();
    }
    assert_eq!(exported, list(&read(GOLDEN)), "left: exported, right: {GOLDEN}");
}

/// DPDK's names begin like ours, and a program may link both.
#[test]
fn no_name_is_one_of_dpdks() {
    let theirs = list(&read("tests/golden/dpdk_symbols.txt"));
    assert!(theirs.len() > 1000 && theirs.contains("rte_version") && theirs.contains("rte_eal_init"));
    let both: Vec<_> = exported().intersection(&theirs).cloned().collect();
    assert!(both.is_empty(), "DPDK has these names too: {both:?}");
}

#[test]
fn the_soname_carries_the_abi_version() {
    let section = dynamic_section();
    let soname = format!("Library soname: [librte.so.{}]", rte::abi::version::RTE_ABI_VERSION);
    assert!(section.contains(&soname), "no {soname} in\n{section}");
    let header = format!("#define RTE_ABI_VERSION {}\n", rte::abi::version::RTE_ABI_VERSION);
    assert!(read("include/rte.h").contains(&header));
    assert_eq!(rte::abi::version::rte_abi_version(), rte::abi::version::RTE_ABI_VERSION);
}

/// Its threads and fork handlers must not outlive its code.
#[test]
fn the_library_is_never_unloaded() {
    let section = dynamic_section();
    let flags = section.lines().find(|line| line.contains("(FLAGS_1)")).unwrap_or_default();
    assert!(flags.contains("NODELETE"), "{section}");
}

#[test]
fn the_version_is_that_of_the_manifest() {
    // SAFETY: the function returns a static NUL-terminated string.
    let said = unsafe { std::ffi::CStr::from_ptr(rte::abi::version::rte_version_string()) };
    let said = said.to_str().unwrap();
    assert!(said.starts_with(concat!(env!("CARGO_PKG_VERSION"), " ")), "{said}");
}
