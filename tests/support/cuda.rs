//! The fake CUDA driver of `tests/cuda`: `fake_cuda.h` says what it does and what it can be told.
//!
//! Who loads the driver finds it by `LD_LIBRARY_PATH`, which counts from the start of a process: a test sets it for a
//! program, or runs itself once more with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{C_WARNINGS, Language, WARNINGS, root, run};

/// The exit code of a process that broke a rule.
pub const BROKEN: i32 = 86;

const FILES: &[&str] =
    &["captures", "contexts", "copies", "edges", "events", "fake_cuda", "faults", "memory", "streams", "work"];

/// Builds it into a new folder below `folder`, without the symbols that are `lacking`. The folder holds nothing else.
#[track_caller]
pub fn driver(folder: &Path, lacking: &[&str]) -> PathBuf {
    build(folder, lacking, &[])
}

/// The same, with options of the compiler.
#[track_caller]
pub fn build(folder: &Path, lacking: &[&str], options: &[&str]) -> PathBuf {
    let name = lacking.iter().fold("driver".to_string(), |name, symbol| name + " " + symbol);
    let made = folder.join(name);
    std::fs::create_dir_all(&made).unwrap();
    let mut compiler = Command::new(Language::C.compiler());
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]);
    compiler.args(["-Wl,-soname,libcuda.so.1", "-Wl,-z,nodelete"]).args(WARNINGS).args(C_WARNINGS).args(options);
    compiler.args(lacking.iter().map(|symbol| format!("-DFAKE_CUDA_LACKS_{symbol}")));
    compiler.args(FILES.iter().map(|file| root().join("tests/cuda").join(file).with_extension("c")));
    compiler.arg("-o").arg(made.join("libcuda.so.1"));
    run(compiler, folder).expect_success();
    // Asked for before the other name: else one that the machine has would be taken.
    std::os::unix::fs::symlink("libcuda.so.1", made.join("libcuda.so")).unwrap();
    made
}

/// What compiles a program that includes `driver.h` or `fake_cuda.h`, and links it with the driver in `driver`.
pub fn options(driver: &Path) -> Vec<String> {
    let driver = driver.display();
    let include = root().join("tests/cuda");
    vec![
        format!("-I{}", include.display()),
        format!("-L{driver}"),
        "-l:libcuda.so.1".into(),
        format!("-Wl,-rpath,{driver}"),
        "-pthread".into(),
    ]
}

/// Lets a program find the driver in `driver`.
pub fn with_driver<'a>(command: &'a mut Command, driver: &Path) -> &'a mut Command {
    command.env("LD_LIBRARY_PATH", driver)
}
