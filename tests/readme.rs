//! The README's host compiles without a warning, runs under every watch, and ends.

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
fn the_frame_loop_in_the_readme_compiles() {
    let readme = read("README.md");
    let frame = readme.split("```c\n").nth(2).and_then(|rest| rest.split_once("```")).expect("a second block of C").0;
    let folder = scratch("readme_frame");
    let source = folder.join("frame.c");
    let before = "#include \"rte.h\"\nvoid draw(const rte_output *output);\n\
                  void frame(rte_engine *engine, rte_message action, rte_output out);\n\
                  void frame(rte_engine *engine, rte_message action, rte_output out)\n{\n";
    std::fs::write(&source, format!("{before}{frame}(void)keys;\n}}\n")).unwrap();
    Build { source: &source, standard: "c99", options: &[], folder: &folder }.compile();
}
