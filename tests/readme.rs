//! The README's hosts in C and in C++ compile without a warning, run under every watch, and end.

mod support;

use support::{Build, Watch, read, scratch};

#[test]
fn the_host_in_the_readme_works() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("```c\n").expect("a block of C");
    let (host, _) = rest.split_once("```").expect("its end");
    let lines = host.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 40, "a host in about 30 lines, not {lines}");
    let folder = scratch("readme");
    let source = folder.join("readme.c");
    std::fs::write(&source, host).unwrap();
    for watch in Watch::ALL {
        if let Some(finished) = watch.build_and_run(&source, "c99", &folder) {
            finished.expect_success().expect("must print its last chunk", |it| it.output.contains("chunk 59: 759"));
        }
    }
}

#[test]
fn the_host_in_cpp_in_the_readme_works() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("```cpp\n").expect("a block of C++");
    let (host, _) = rest.split_once("```").expect("its end");
    let folder = scratch("readme_cpp");
    let source = folder.join("readme.cpp");
    std::fs::write(&source, host).unwrap();
    for standard in ["c++17", "c++20"] {
        Build { source: &source, standard, options: &[], folder: &folder }.compile();
    }
    for watch in Watch::ALL {
        if let Some(finished) = watch.build_and_run(&source, "c++17", &folder) {
            finished.expect_success().expect("must print its last chunk", |it| it.output.contains("chunk 59: 30\n"));
        }
    }
}
