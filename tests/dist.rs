//! The tarball of `make dist` serves who has neither cargo nor the source tree; the same library gives the same bytes; and
//! it says what glibc it needs.
//!
//! What is packed is the library of this test run: nothing is built here but consumers and examples.
#![cfg(target_os = "linux")]

mod support;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use support::{library, root, run, scratch};

/// Packs it, in a shell that is set up so.
fn packed(folder: &Path, setup: &str) -> PathBuf {
    let built = library().parent().unwrap().display().to_string();
    let make = format!("{setup}; make --no-print-directory dist LIBRARY={built} DIST={}", folder.display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &make]).current_dir(root()).env_remove("MAKEFLAGS").env_remove("GLIBC").env_remove("TARGET");
    run(shell, folder).expect_success();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let tarballs: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(".tar.gz")).collect();
    let [tarball] = tarballs.as_slice() else { panic!("{tarballs:?}") };
    tarball.clone()
}

/// What who packs it once has.
fn tarball() -> &'static Path {
    static TARBALL: OnceLock<PathBuf> = OnceLock::new();
    TARBALL.get_or_init(|| packed(&scratch("first"), "umask 022"))
}

/// A folder far from the source tree, gone with the test.
struct Elsewhere(PathBuf);

impl Elsewhere {
    fn new() -> Elsewhere {
        let folder = std::env::temp_dir().join(format!("rte-dist-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("tools")).unwrap();
        Elsewhere(folder)
    }

    /// A shell with an empty environment but for the tools of this machine that are none of Rust's.
    fn shell(&self, script: &str) -> support::Finished {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(&self.0).env_clear().env("PATH", self.0.join("tools"));
        run(shell, &self.0).expect_success()
    }

    fn take_tools(&self) {
        for entry in ["/usr/bin", "/bin"].iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
            let tool = entry.unwrap().path();
            let name = tool.file_name().unwrap().to_string_lossy().into_owned();
            let link = self.0.join("tools").join(&name);
            if !["cargo", "rust", "nvcc"].iter().any(|theirs| name.starts_with(theirs)) && !link.is_symlink() {
                symlink(&tool, link).unwrap();
            }
        }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The newest version of glibc that a symbol of the library asks for.
fn floor(library: &Path, folder: &Path) -> String {
    let mut objdump = Command::new("objdump");
    objdump.arg("-T").arg(library);
    let said = run(objdump, folder).expect_success().output;
    let versions = said.split("GLIBC_").skip(1).map(|rest| {
        let version = rest.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next().unwrap();
        version.split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>()
    });
    let newest = versions.max().expect("it needs glibc");
    newest.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

#[test]
fn the_same_library_gives_the_same_bytes() {
    let first = tarball();
    let second = packed(&scratch("second"), "umask 077; export TZ=Asia/Tokyo LC_ALL=POSIX");
    assert_eq!(first.file_name(), second.file_name());
    let [first, second] = [first, second.as_path()].map(|path| std::fs::read(path).unwrap());
    assert!(first == second, "{} and {} bytes", first.len(), second.len());
}

#[test]
fn it_serves_who_has_neither_cargo_nor_the_sources() {
    let folder = scratch("serves");
    let tarball = tarball();
    let name = tarball.file_name().unwrap().to_string_lossy().replace(".tar.gz", "");
    let expected = format!("rte-{}-{}-linux-gnu", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    assert_eq!(name, expected);

    let there = Elsewhere::new();
    there.take_tools();
    for source in ["consumer.c", "consumer.cpp", "CMakeLists.txt"] {
        std::fs::create_dir_all(there.0.join("consumers")).unwrap();
        std::fs::copy(root().join("tests/installed").join(source), there.0.join("consumers").join(source)).unwrap();
    }
    std::fs::copy(tarball, there.0.join("rte.tar.gz")).unwrap();
    there.shell("if command -v cargo || command -v rustc; then exit 1; fi; tar xzf rte.tar.gz");
    std::fs::rename(there.0.join(&name), there.0.join("rte")).unwrap();

    let readme = std::fs::read_to_string(there.0.join("rte/README.md")).unwrap();
    let needs = format!("Needs glibc {} or newer", floor(&there.0.join("rte/lib/librte.so"), &folder));
    assert!(readme.contains(&needs) && !readme.contains('@'), "{needs}:\n{readme}");

    let plain = "cc -std=c11 consumers/consumer.c -I$PWD/rte/include -L$PWD/rte/lib -lrte -Wl,-rpath,$PWD/rte/lib -o plain; ./plain";
    let pkg_config = "export PKG_CONFIG_PATH=$PWD/rte/lib/pkgconfig; \
        c++ -std=c++17 consumers/consumer.cpp $(pkg-config --cflags --libs rte) -Wl,-rpath,$PWD/rte/lib -o shared; ./shared; \
        c++ -std=c++20 consumers/consumer.cpp $(pkg-config --cflags rte) \
            $(pkg-config --static --libs rte | sed s/-lrte/-l:librte.a/) -o archive; ./archive";
    let cmake = "cmake -S consumers -B cmake -DCMAKE_PREFIX_PATH=$PWD/rte; cmake --build cmake; \
        for program in c11 cpp17 cpp20; do cmake/${program}_rte; cmake/${program}_static; done";
    for (way, programs) in [(plain, 1), (pkg_config, 2), (cmake, 6)] {
        let ran = there.shell(way);
        assert_eq!(ran.output.matches(" chunks").count(), programs, "{}", ran.output);
    }

    for build in ["make -C rte/examples", "cmake -S rte/examples -B examples; cmake --build examples"] {
        there.shell(build);
    }
    for program in
        ["rte/examples/bin/01_hello", "rte/examples/bin/04_scheduler", "examples/01_hello", "examples/04_scheduler"]
    {
        let ran = there.shell(program);
        assert!(ran.output.lines().last().is_some_and(|line| line.starts_with("ok: ")), "{program}: {}", ran.output);
    }
}
