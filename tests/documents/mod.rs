//! What README.md and docs/*.md say in a form that can be held to it.
//!
//! A fenced block is `c`, `cpp`, `diff` or `text`; others are for the eye. An HTML comment on the line before says more:
//! - `<!-- in: NAME -->`: a fragment. It stands for the line `/* the block */` of `NAME.c` or `NAME.cpp` beside this file.
//! - `<!-- prints -->`: what the program before it in the document prints, whole and exact.
//!
//! A block without a comment is a program, or a file that compiles alone. A `diff` changes the newest C program of its
//! document: hunks are divided by lines that begin with `@@`, and what a hunk expects is there exactly once, after the
//! hunk before.

use std::collections::BTreeSet;

use crate::support::{read, root};

/// A page of the documentation.
pub struct Document {
    /// Path in the repository.
    pub path: String,
    pub text: String,
}

/// A fenced block.
pub struct Block<'a> {
    /// Of its first line in the document.
    pub line: usize,
    pub language: &'a str,
    /// What the comment before it says, if any does.
    pub comment: Option<&'a str>,
    pub text: String,
}

/// README.md and docs/*.md.
pub fn all() -> Vec<Document> {
    let folder = std::fs::read_dir(root().join("docs")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut paths: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    paths.push("README.md".into());
    paths.sort();
    paths.into_iter().map(|path| Document { text: read(&path), path }).collect()
}

impl Document {
    pub fn new(path: &str, text: &str) -> Document {
        Document { path: path.into(), text: text.into() }
    }

    pub fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block> = Vec::new();
        let (mut open, mut before) = (false, "");
        for (at, line) in self.text.lines().enumerate() {
            match line.trim_start().strip_prefix("```") {
                Some(_) if open => open = false,
                Some(language) => {
                    open = true;
                    let comment = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                    blocks.push(Block { line: at + 2, language, comment, text: String::new() });
                }
                None if open => blocks.last_mut().unwrap().text += &format!("{line}\n"),
                None => {}
            }
            before = line;
        }
        assert!(!open, "{}: a block without an end", self.path);
        blocks
    }

    /// Its lines outside blocks.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut open = false;
        self.text.lines().filter(move |line| {
            let fence = line.trim_start().starts_with("```");
            open ^= fence;
            !open && !fence
        })
    }

    /// The targets of its links.
    pub fn links(&self) -> Vec<&str> {
        self.prose().flat_map(|line| line.split("](").skip(1)).map(|rest| rest.split(')').next().unwrap()).collect()
    }

    /// What its headings are linked by.
    pub fn anchors(&self) -> BTreeSet<String> {
        let headings =
            self.prose().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
        let letters = |heading: &str| -> String {
            let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
        };
        headings.map(letters).collect()
    }

    /// What it names of the library: `rte_` and `RTE_`. One that ends with `_` is all names that begin so.
    pub fn names(&self) -> BTreeSet<&str> {
        let words = self.text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| word.starts_with("rte_") || word.starts_with("RTE_")).collect()
    }

    /// What it names of `owner.`, between backticks: fields.
    pub fn fields(&self, owner: &str) -> BTreeSet<&str> {
        let quoted = self.prose().flat_map(|line| line.split('`').skip(1).step_by(2));
        let after = quoted.filter_map(|code| code.strip_prefix(owner)?.strip_prefix('.'));
        after
            .map(|rest| rest.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().unwrap())
            .collect()
    }
}

/// The program after a change.
pub fn changed(program: &str, diff: &str) -> Result<String, String> {
    let (mut done, mut rest) = (String::new(), program.to_string());
    for hunk in diff.split_inclusive('\n').collect::<Vec<_>>().split(|line| line.starts_with("@@")) {
        let side = |left_out: char| -> String {
            let kept = hunk.iter().filter(|line| !line.starts_with(left_out));
            kept.map(|line| line.get(1..).filter(|rest| !rest.is_empty()).unwrap_or("\n")).collect()
        };
        let (old, new) = (side('+'), side('-'));
        let found: Vec<usize> = rest.match_indices(&old).map(|(at, _)| at).collect();
        let [at] = found[..] else { return Err(format!("there {} times:\n{old}", found.len())) };
        done += &rest[..at];
        done += &new;
        rest.drain(..at + old.len());
    }
    Ok(done + &rest)
}
