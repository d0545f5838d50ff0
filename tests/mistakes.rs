//! The likeliest mistakes of the first day: what the README says that comes of each is what comes.

mod support;

use std::path::Path;

use support::{Watch, read, scratch};

/// The rows of the README's table.
fn rows_of_readme() -> Vec<String> {
    let readme = read("README.md");
    let (_, rest) =
        readme.split_once("| mistake | what comes back | what it says |\n|---|---|---|\n").expect("the table");
    rest.lines().take_while(|line| line.starts_with('|')).map(str::to_string).collect()
}

#[test]
fn the_words_in_the_readme_are_those_of_the_library() {
    let rows = rows_of_readme();
    let folder = scratch("mistakes");
    for watch in Watch::ALL {
        let Some(finished) = watch.build_and_run(Path::new("tests/c/mistakes.c"), "c99", &folder) else { continue };
        let finished = finished.expect_success();
        let said: Vec<&str> = finished.output.lines().collect();
        for (at, (said, row)) in said.iter().zip(&rows).enumerate() {
            assert_eq!(said, row, "row {at}");
        }
        assert_eq!(said.len(), rows.len(), "{}", finished.output);
        assert!(rows.len() >= 10 && said.iter().all(|row| row.contains(": ") && !row.contains("`another`")));
    }
}
