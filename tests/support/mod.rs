//! Compiles C and C++ programs against the library that this test run has built, and runs them with a deadline.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod cuda;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// No program of these tests works longer than a few seconds, valgrind included; what does, hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// As strict as a careful user's build.
pub const WARNINGS: &[&str] = &[
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wundef",
    "-Wcast-qual",
    "-Werror",
];

/// What only C, and only C++, can be warned of.
pub const C_WARNINGS: &[&str] = &["-Wstrict-prototypes", "-Wmissing-prototypes"];
pub const CPP_WARNINGS: &[&str] = &["-Wold-style-cast", "-Wzero-as-null-pointer-constant"];

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// An empty folder for one test's files. `name` is unique in the test program.
pub fn scratch(name: &str) -> PathBuf {
    let program = env!("CARGO_CRATE_NAME");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The shared library of this very build: cargo puts it beside the test programs, before it runs them.
pub fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("librte.so");
    let built = modified(&library);
    // But what only a checker's build has.
    let is_built = |source: &PathBuf| !source.components().any(|part| part.as_os_str() == "interleavings");
    for source in sources(&root().join("src")).into_iter().filter(is_built) {
        assert!(modified(&source) <= built, "{} is newer than {}", source.display(), library.display());
    }
    library
}

fn modified(path: &Path) -> SystemTime {
    let meta = std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    meta.modified().unwrap()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// A language of the sources.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Cpp,
}

impl Language {
    /// `CC` or `CXX` of the environment, else the GNU one.
    pub fn compiler(self) -> String {
        let (variable, default) = match self {
            Language::C => ("CC", "gcc"),
            Language::Cpp => ("CXX", "g++"),
        };
        std::env::var(variable).unwrap_or_else(|_| default.to_string())
    }

    fn of(source: &Path) -> Language {
        if source.extension() == Some(OsStr::new("cpp")) { Language::Cpp } else { Language::C }
    }
}

/// A program to be made of one source.
pub struct Build<'a> {
    /// A file of the repository, or an absolute path.
    pub source: &'a Path,
    /// `c99`, `c++17`...
    pub standard: &'a str,
    /// Further options.
    pub options: &'a [&'a str],
    /// Where it goes.
    pub folder: &'a Path,
}

impl Build<'_> {
    fn command(&self) -> Command {
        let language = Language::of(self.source);
        let mut command = Command::new(language.compiler());
        command.arg(format!("-std={}", self.standard)).args(WARNINGS);
        command.args(if language == Language::C { C_WARNINGS } else { CPP_WARNINGS });
        command.arg("-I").arg(root().join("include")).arg("-g").args(self.options).arg(root().join(self.source));
        command
    }

    /// Compiles it without linking.
    pub fn compile(&self) {
        let mut command = self.command();
        command.arg("-c").arg("-o").arg(self.folder.join("object.o"));
        run(command, self.folder).expect_success();
    }

    /// Compiles and links it. The program finds the library by itself.
    pub fn link(&self) -> PathBuf {
        let program = self.folder.join(self.source.file_stem().unwrap());
        let mut command = self.command();
        command.arg("-o").arg(&program).args(link_options(self.folder));
        run(command, self.folder).expect_success();
        program
    }
}

/// What links a program in `folder` with the library, under the two names that an installation has.
pub fn link_options(folder: &Path) -> Vec<String> {
    link_options_to(&library(), folder)
}

/// The same, with that build of it.
pub fn link_options_to(library: &Path, folder: &Path) -> Vec<String> {
    for name in ["librte.so", "librte.so.0"] {
        let link = folder.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(library, link).unwrap();
        }
    }
    let folder = folder.display();
    vec![format!("-L{folder}"), "-lrte".into(), "-pthread".into(), "-lm".into(), format!("-Wl,-rpath,{folder}")]
}

/// What became of a program.
#[derive(Debug)]
pub struct Finished {
    command: String,
    /// `None`: a signal ended it.
    pub code: Option<i32>,
    pub output: String,
    pub errors: String,
}

impl Finished {
    /// Fails the test, with all that the program said, unless `holds`.
    #[track_caller]
    pub fn expect(self, what: &str, holds: impl FnOnce(&Finished) -> bool) -> Finished {
        let Finished { command, code, output, errors } = &self;
        assert!(holds(&self), "{what}: {command}\nexit code {code:?}\n{output}{errors}");
        self
    }

    #[track_caller]
    pub fn expect_success(self) -> Finished {
        self.expect("must succeed", |it| it.code == Some(0))
    }
}

/// Builds and runs a program of checks (`c/check.h`) under each of `watches`: each of its lines says `ok`, no two checks
/// have one name, and there are as many as there should be.
#[track_caller]
pub fn expect_checks(source: &str, watches: &[Watch], count: usize) {
    let source = Path::new(source);
    let folder = scratch(&source.file_stem().unwrap().to_string_lossy());
    for watch in watches {
        let Some(finished) = watch.build_and_run(source, "c99", &folder) else { continue };
        let finished = finished.expect_success();
        let names: Vec<&str> = finished.output.lines().filter_map(|line| line.strip_suffix(": ok")).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "a check has another's name:\n{}", finished.output);
        assert_eq!(names.len(), count, "{}", finished.output);
        finished.expect("must come to its end", |it| it.output.ends_with(&format!("{count} checks, 0 failed\n")));
    }
}

/// Runs a program; one that does not end in time is killed and fails the test. `folder` takes what it prints.
#[track_caller]
pub fn run(mut command: Command, folder: &Path) -> Finished {
    let paths = ["stdout.txt", "stderr.txt"].map(|name| folder.join(name));
    let [output, errors] = paths.each_ref().map(|path| File::create(path).unwrap());
    // What was given no driver (`cuda::with_driver`) does the same on a machine with a device.
    if !command.get_envs().any(|(name, _)| name == "LD_LIBRARY_PATH") {
        command.env("CUDA_VISIBLE_DEVICES", "-1");
    }
    let line = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if begin.elapsed() > DEADLINE {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let [output, errors] =
        paths.map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned());
    let finished = Finished { command: line, code: status.and_then(|status| status.code()), output, errors };
    finished.expect("must end in time", |_| status.is_some())
}

/// Whether a tool is there. In CI (`CI` is set) it must be.
pub fn has_tool(name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    assert!(is_there || std::env::var_os("CI").is_none(), "{name} is needed in CI");
    is_there
}

/// How a program is run to find what it would get away with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    Plain,
    /// The program, not the library, is built with the address and undefined-behaviour sanitizers.
    Sanitizers,
    Valgrind,
}

impl Watch {
    pub const ALL: [Watch; 3] = [Watch::Plain, Watch::Sanitizers, Watch::Valgrind];

    /// Builds the program and runs it under watch, in folders below `folder`. `None`: there is no valgrind here.
    #[track_caller]
    pub fn build_and_run(self, source: &Path, standard: &str, folder: &Path) -> Option<Finished> {
        self.build_and_run_with(source, standard, folder, &[])
    }

    /// Where a program runs that is watched so, inside the folder that was said.
    pub fn folder(self) -> &'static str {
        match self {
            Watch::Plain => "plain",
            Watch::Sanitizers => "sanitizers",
            Watch::Valgrind => "valgrind",
        }
    }

    /// With arguments. The program runs in a folder of its own.
    #[track_caller]
    pub fn build_and_run_with(
        self,
        source: &Path,
        standard: &str,
        folder: &Path,
        arguments: &[&str],
    ) -> Option<Finished> {
        let options: &[&str] = match self {
            Watch::Plain => &["-O1"],
            Watch::Sanitizers => &["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            Watch::Valgrind if has_tool("valgrind") => &["-O1"],
            Watch::Valgrind => return None,
        };
        let folder = folder.join(self.folder());
        std::fs::create_dir_all(&folder).unwrap();
        let program = Build { source, standard, options, folder: &folder }.link();
        let mut command = match self {
            Watch::Valgrind => {
                let mut command = Command::new("valgrind");
                command.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=all"]);
                command.args(["--errors-for-leak-kinds=definite,indirect,possible", "--fair-sched=yes"]);
                command.arg(program);
                command
            }
            Watch::Sanitizers => {
                let mut command = Command::new(program);
                // A request that cannot be met is the library's to answer, as without them.
                command.env("ASAN_OPTIONS", "allocator_may_return_null=1");
                command
            }
            Watch::Plain => Command::new(program),
        };
        command.args(arguments).current_dir(&folder);
        Some(run(command, &folder))
    }
}
