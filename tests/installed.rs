//! `make install` and `make uninstall`: who has the installed files and nothing else builds and runs by each of the ways
//! that C and C++ know, wherever the files have been moved to.
//!
//! What is installed is the library of this test run: nothing is built here but the consumers (`installed/`).
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use support::{Finished, library, read, root, run, scratch};

/// Where the compiler left librte.so, .a and .rlib.
fn built() -> PathBuf {
    library().parent().unwrap().to_path_buf()
}

/// `make` in the repository, with what was built for this test.
fn make(folder: &Path, arguments: &[String]) -> Finished {
    let mut make = Command::new("make");
    make.arg("--no-print-directory").current_dir(root()).arg(format!("LIBRARY={}", built().display()));
    make.args(arguments).env_remove("MAKEFLAGS").env_remove("DESTDIR").env_remove("PREFIX").env_remove("LIBDIR");
    run(make, folder).expect_success()
}

/// The files below a folder, and links with what they name.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.strip_prefix(folder).unwrap().display().to_string();
            match std::fs::read_link(&entry) {
                Ok(target) => drop(found.insert(format!("{name} -> {}", target.display()))),
                Err(_) if entry.is_dir() => folders.push(entry),
                Err(_) => drop(found.insert(name)),
            }
        }
    }
    found
}

/// An installation that was moved since.
fn moved() -> &'static Path {
    static MOVED: OnceLock<PathBuf> = OnceLock::new();
    MOVED.get_or_init(|| {
        let folder = scratch("moved");
        make(&folder, &["install".into(), format!("PREFIX={}", folder.join("first").display())]);
        std::fs::rename(folder.join("first"), folder.join("second")).unwrap();
        folder.join("second")
    })
}

/// The consumers: source, compiler, standard, what they say first.
const CONSUMERS: [(&str, &str, &str, &str); 3] = [
    ("consumer.c", "cc", "c11", "C 201112: "),
    ("consumer.cpp", "c++", "c++17", "C++ 201703: "),
    ("consumer.cpp", "c++", "c++20", "C++ 202002: "),
];

/// Builds each consumer in a shell, where `$P` is the prefix, and runs it. `shared`: whether it must need the shared library.
fn consumers(name: &str, options: &str, shared: bool) {
    let folder = scratch(name);
    for (source, compiler, standard, said) in CONSUMERS {
        let program = folder.join(standard);
        let source = root().join("tests/installed").join(source);
        let line = format!("{compiler} -std={standard} -Wall -Wextra -Werror {} {options}", source.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{line} -o {}", program.display())]).env("P", moved());
        shell.env("PKG_CONFIG_PATH", moved().join("lib/pkgconfig"));
        run(shell, &folder).expect_success();
        expect_consumer(&program, &folder, said, shared);
    }
}

fn expect_consumer(program: &Path, folder: &Path, said: &str, shared: bool) {
    let mut readelf = Command::new("readelf");
    readelf.args(["--dynamic", "--wide"]).arg(program);
    let dynamic = run(readelf, folder).expect_success();
    assert_eq!(dynamic.output.contains("[librte.so.0]"), shared, "{program:?}: {}", dynamic.output);
    let finished = run(Command::new(program), folder).expect_success();
    let version = concat!(env!("CARGO_PKG_VERSION"), " ");
    finished.expect("says what it is", |it| it.output.starts_with(said) && it.output.contains(version));
}

#[test]
fn what_is_installed_is_this_and_goes_again() {
    let folder = scratch("files");
    let version = env!("CARGO_PKG_VERSION");
    let arguments = |task: &str| {
        let to = folder.join("root");
        vec![task.to_string(), "PREFIX=/opt/rte".into(), "LIBDIR=lib/multi".into(), format!("DESTDIR={}", to.display())]
    };
    make(&folder, &arguments("install"));
    let prefix = folder.join("root/opt/rte");
    let expected = [
        "include/rte.h".to_string(),
        "include/rte.hpp".to_string(),
        "lib/multi/cmake/rte/rteConfig.cmake".to_string(),
        "lib/multi/cmake/rte/rteConfigVersion.cmake".to_string(),
        "lib/multi/librte.a".to_string(),
        "lib/multi/librte.so -> librte.so.0".to_string(),
        format!("lib/multi/librte.so.0 -> librte.so.{version}"),
        format!("lib/multi/librte.so.{version}"),
        "lib/multi/pkgconfig/rte.pc".to_string(),
        "share/licenses/rte/LICENSE".to_string(),
    ];
    assert_eq!(files(&prefix), BTreeSet::from(expected));
    for name in ["pkgconfig/rte.pc", "cmake/rte/rteConfig.cmake", "cmake/rte/rteConfigVersion.cmake"] {
        let text = std::fs::read_to_string(prefix.join("lib/multi").join(name)).unwrap();
        assert!(!text.contains("/opt") && !text.contains('@') && !text.contains("root"), "{name}:\n{text}");
    }
    std::fs::write(prefix.join("lib/multi/pkgconfig/other.pc"), "").unwrap();
    make(&folder, &arguments("uninstall"));
    assert_eq!(files(&prefix), BTreeSet::from(["lib/multi/pkgconfig/other.pc".to_string()]));
}

#[test]
fn a_plain_compiler_finds_it() {
    consumers("plain", "-I$P/include -L$P/lib -lrte -Wl,-rpath,$P/lib", true);
}

#[test]
fn pkg_config_says_where_it_is() {
    consumers("pkg_config", "$(pkg-config --cflags --libs rte) -Wl,-rpath,$(pkg-config --variable=libdir rte)", true);
}

#[test]
fn pkg_config_static_says_what_the_archive_needs() {
    let archive = "$(pkg-config --cflags rte) $(pkg-config --static --libs rte | sed s/-lrte/-l:librte.a/)";
    consumers("pkg_config_static", archive, false);
}

/// Where the archive is alone, `--static` is enough.
#[test]
fn the_archive_alone_links_by_pkg_config_static() {
    let folder = scratch("archive");
    std::fs::create_dir_all(folder.join("alone/lib/pkgconfig")).unwrap();
    for name in ["include", "lib/librte.a", "lib/pkgconfig/rte.pc"] {
        std::os::unix::fs::symlink(moved().join(name), folder.join("alone").join(name)).unwrap();
    }
    let mut shell = Command::new("sh");
    let source = root().join("tests/installed/consumer.c");
    let build = format!("cc -std=c11 {} $(pkg-config --cflags --static --libs rte) -o host", source.display());
    shell.args(["-c", &build]).current_dir(&folder).env("PKG_CONFIG_PATH", folder.join("alone/lib/pkgconfig"));
    run(shell, &folder).expect_success();
    expect_consumer(&folder.join("host"), &folder, CONSUMERS[0].3, false);
}

#[test]
fn cmake_finds_both_libraries() {
    let folder = scratch("cmake");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join("tests/installed")).arg("-B").arg(&folder);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", moved().display()));
    run(configure, &folder).expect_success();
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&folder);
    run(build, &folder).expect_success();
    for (link, shared) in [("rte", true), ("static", false)] {
        for (program, said) in ["c11", "cpp17", "cpp20"].into_iter().zip(CONSUMERS.map(|consumer| consumer.3)) {
            expect_consumer(&folder.join(format!("{program}_{link}")), &folder, said, shared);
        }
    }
}

/// While the major version is 0, the minor one is what breaks.
#[test]
fn cmake_takes_a_version_that_serves_and_no_other() {
    let folder = scratch("cmake_version");
    let template = read("bindings/cmake/rteConfigVersion.cmake.in");
    let ask = |has: &str, wants: &str| -> bool {
        let parts: Vec<&str> = wants.split('.').collect();
        let mut script = format!("set(PACKAGE_FIND_VERSION {wants})\n");
        script += &format!("set(PACKAGE_FIND_VERSION_COUNT {})\n", parts.len());
        for (name, part) in ["MAJOR", "MINOR", "PATCH"].iter().zip(&parts) {
            script += &format!("set(PACKAGE_FIND_VERSION_{name} {part})\n");
        }
        script += &template.replace("@VERSION@", has);
        script += "message(\"compatible: ${PACKAGE_VERSION_COMPATIBLE}\")\n";
        let path = folder.join("version.cmake");
        std::fs::write(&path, script).unwrap();
        let mut cmake = Command::new("cmake");
        cmake.arg("-P").arg(&path);
        run(cmake, &folder).expect_success().errors.contains("compatible: TRUE")
    };
    for (has, wants) in [("0.1.0", "0.1"), ("0.1.0", "0"), ("0.1.3", "0.1.2"), ("1.4.0", "1.2"), ("1.4.0", "1")] {
        assert!(ask(has, wants), "{has} serves who wants {wants}");
    }
    for (has, wants) in
        [("0.1.0", "0.2"), ("0.2.0", "0.1"), ("0.1.2", "0.1.3"), ("1.0.0", "0.1"), ("2.0.0", "1.4"), ("0.1.0", "1")]
    {
        assert!(!ask(has, wants), "{has} does not serve who wants {wants}");
    }
}
