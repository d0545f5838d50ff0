//! The fake CUDA driver of `tests/cuda`: `fake_cuda.h` says what it does and what it can be told.
//!
//! Who loads the driver finds it by `LD_LIBRARY_PATH`, which counts from the start of a process: a test sets it for a
//! program, or runs itself once more with it.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{C_WARNINGS, Language, WARNINGS, root, run, scratch};

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
    let mut folders = vec![driver.to_path_buf()];
    folders.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap())
}

const INSIDE: &str = "RTE_TEST_INSIDE";

/// Runs the test of this name once more, in a process of its own that finds the driver, with these settings of it; true
/// in that process. A test that uses the driver itself begins with it, and ends where it is false.
#[track_caller]
pub fn is_inside(test: &str, settings: &[(&str, &str)]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let folder = scratch(test);
    let driver = driver(&folder, &[]);
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(INSIDE, "1").envs(settings.iter().copied());
    with_driver(&mut again, &driver);
    let finished = run(again, &folder);
    finished.expect("must pass", |it| it.code == Some(0) && it.output.contains("1 passed"));
    false
}

/// A function of the driver that this process finds.
///
/// # Safety
/// `F` is the type of a pointer to it, as its header has it.
#[track_caller]
pub unsafe fn function<F: Copy>(name: &CStr) -> F {
    assert_eq!(size_of::<F>(), size_of::<*mut libc::c_void>());
    // SAFETY: names that end; the library stays; the caller says what `F` is.
    unsafe {
        let library = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "there is no driver");
        let symbol = libc::dlsym(library, name.as_ptr());
        assert!(!symbol.is_null(), "the driver lacks {name:?}");
        std::mem::transmute_copy(&symbol)
    }
}
