//! What was compiled with the header of a release works with each later library of the same ABI version.
//!
//! `src/abi/descriptor.rs` lists the sizes that descriptors have had; `tests/layout.rs` says what of the layout may change.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod support;

use std::path::Path;
use std::process::Command;

use rte::abi::descriptor::RELEASED;
use support::{Build, read, run, scratch};

/// The descriptors in the header and their sizes now, from the golden file.
fn descriptors() -> Vec<(String, usize)> {
    let golden = read("tests/golden/layout.txt");
    let has_size = |name: &str| golden.contains(&format!("\n{name}.struct_size 0 4\n"));
    let structs = golden.lines().filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        // The engine writes a batch; nobody gives it one.
        [name, size, _] if name != "rte_batch" && has_size(name) => Some((name.to_string(), size.parse().unwrap())),
        _ => None,
    });
    structs.collect()
}

#[test]
fn each_descriptor_lists_the_sizes_that_it_has_had() {
    let mut listed: Vec<_> = RELEASED.iter().map(|(name, sizes)| (name.to_string(), *sizes.last().unwrap())).collect();
    let mut now = descriptors();
    listed.sort();
    now.sort();
    assert_eq!(listed, now, "left: the last sizes in src/abi/descriptor.rs, right: the header's");
    for (name, sizes) in RELEASED {
        assert!(sizes.is_sorted_by(|one, next| one < next), "{name}: {sizes:?}");
    }
}

/// Of each size alone: the host's other descriptors have those of today.
#[test]
fn a_host_with_a_descriptor_of_any_release_works() {
    let folder = scratch("released");
    let source = Path::new("tests/c/released.c");
    let program = Build { source, standard: "c99", options: &["-O1"], folder: &folder }.link();
    let host = |name: &str, size: usize| {
        let mut host = Command::new(&program);
        host.args([name, &size.to_string()]);
        run(host, &folder)
    };
    for (name, sizes) in RELEASED {
        for size in *sizes {
            let finished = host(name, *size).expect_success();
            finished.expect("it works", |it| it.output.ends_with(" chunks, 1 attached, session in state 2\n"));
        }
        if *name == "rte_clock" {
            continue; // The host has to set all of it.
        }
        let finished = host(name, sizes[0] - 8);
        finished.expect("no release had that size", |it| it.code == Some(1) && it.output.lines().count() == 1);
    }
}
