//! README.md and docs/*.md: what they show compiles, prints what they say, and names what is there.

#[path = "documents/mod.rs"]
mod documents;
mod support;

use std::path::{Path, PathBuf};

use documents::{Block, Document, all, changed};
use support::{Build, C_WARNINGS, CPP_WARNINGS, Finished, Language, WARNINGS, has_tool, read, root, run, scratch};

/// Without the README's host: tests/readme.rs runs it, and more closely.
#[test]
fn every_program_prints_what_is_shown() {
    let mut shown = 0;
    for document in all().iter().filter(|document| document.path != "README.md") {
        let mut newest = None;
        let mut output = None;
        for block in document.blocks() {
            let place = format!("{}:{}", document.path, block.line);
            if block.language == "diff" {
                let program: &String = newest.as_ref().unwrap_or_else(|| panic!("{place}: of what?"));
                newest = Some(changed(program, &block.text).unwrap_or_else(|why| panic!("{place}: {why}")));
            } else if is_program(&block) {
                newest = Some(block.text.clone());
            } else if block.comment == Some("prints") {
                let output: String = output.take().unwrap_or_else(|| panic!("{place}: who prints it?"));
                assert_eq!(output, block.text, "{place}");
                shown += 1;
                continue;
            } else {
                continue;
            }
            let language = if block.language == "diff" { "c" } else { block.language };
            output = Some(printed(&place, newest.as_ref().unwrap(), language));
        }
    }
    assert!(shown >= 4, "{shown} outputs");
}

fn is_program(block: &Block) -> bool {
    ["c", "cpp"].contains(&block.language) && block.comment.is_none() && block.text.contains("int main(")
}

fn printed(place: &str, program: &str, language: &str) -> String {
    let folder = scratch(&place.replace(['/', ':', '.'], "_"));
    let source = folder.join("program").with_extension(language);
    std::fs::write(&source, program).unwrap();
    let standard = if language == "c" { "c99" } else { "c++17" };
    let program = Build { source: &source, standard, options: &["-O1"], folder: &folder }.link();
    let finished = run(std::process::Command::new(program), &folder).expect_success();
    finished.expect("must have nothing to complain of", |it| it.errors.is_empty()).output
}

#[test]
fn every_other_block_compiles() {
    let folder = scratch("blocks");
    let mut compiled = 0;
    for document in all() {
        for block in document.blocks().iter().filter(|block| ["c", "cpp"].contains(&block.language)) {
            let ran = is_program(block) && document.path != "README.md";
            if !ran {
                check_syntax(&folder, &document.path, block);
                compiled += 1;
            }
        }
    }
    assert!(compiled >= 2, "{compiled} blocks");
}

fn check_syntax(folder: &Path, document: &str, block: &Block) {
    let language = if block.language == "c" { Language::C } else { Language::Cpp };
    let source = folder.join(format!("{}_{}.{}", document.replace('/', "_"), block.line, block.language));
    std::fs::write(&source, whole(block)).unwrap();
    let mut compiler = std::process::Command::new(language.compiler());
    compiler.arg(if language == Language::C { "-std=c99" } else { "-std=c++17" }).arg("-fsyntax-only").args(WARNINGS);
    compiler.args(if language == Language::C { C_WARNINGS } else { CPP_WARNINGS });
    run(
        {
            compiler.arg("-I").arg(root().join("include")).arg("-I").arg(root().join("tests/hosts")).arg(source);
            compiler
        },
        folder,
    )
    .expect_success();
}

/// The block, in what it is a fragment of.
fn whole(block: &Block) -> String {
    let Some(comment) = block.comment else { return block.text.clone() };
    let name = comment.strip_prefix("in: ").unwrap_or_else(|| panic!("line {}: {comment}?", block.line));
    let around = read(&format!("tests/documents/{name}.{}", block.language));
    let (before, after) = around.split_once("/* the block */\n").expect("its place");
    let (before, indent) = before.rsplit_once('\n').expect("a line of its own");
    let text: String = block.text.lines().map(|line| format!("{indent}{line}\n")).collect();
    format!("{before}\n{text}{after}")
}

#[test]
fn every_link_leads_somewhere() {
    let documents = all();
    let dead: Vec<String> = documents.iter().flat_map(|document| dead_links(document, &documents)).collect();
    assert!(dead.is_empty(), "{dead:?}");
    for document in documents.iter().filter(|document| document.path != "README.md") {
        let readme = documents.iter().find(|it| it.path == "README.md").unwrap();
        assert!(readme.links().contains(&document.path.as_str()), "README.md does not name {}", document.path);
    }
}

fn dead_links(document: &Document, documents: &[Document]) -> Vec<String> {
    let resolves = |link: &str| {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() { PathBuf::from(&document.path) } else { beside(&document.path, path) };
        let anchors = documents.iter().find(|it| Path::new(&it.path) == target).map(Document::anchors);
        root().join(&target).exists() && (anchor.is_empty() || anchors.is_some_and(|it| it.contains(anchor)))
    };
    let links = document.links().into_iter().filter(|link| !link.starts_with("https://"));
    links.filter(|link| !resolves(link)).map(|link| format!("{}: {link}", document.path)).collect()
}

fn beside(document: &str, path: &str) -> PathBuf {
    let mut target = Path::new(document).parent().unwrap().to_path_buf();
    for part in path.split('/') {
        if part == ".." { assert!(target.pop(), "{document}: {path} leaves the repository") } else { target.push(part) }
    }
    target
}

/// A test that the FAQ names is in the file that it names for it.
#[test]
fn every_test_that_is_named_exists() {
    let faq = read("docs/faq.md").replace('\n', " ");
    let mut named = 0;
    for rest in faq.split("](../").skip(1) {
        let (path, after) = rest.split_once(')').expect("the end of a link");
        let Some(quoted) = after.strip_prefix(": `") else { continue };
        let name = quoted.split('`').next().unwrap();
        let source = read(path);
        let is_there = source.contains(&format!("fn {name}(")) || source.contains(&format!("\"{name}\""));
        assert!(is_there, "{path} has no {name}");
        named += 1;
    }
    assert!(named >= 20, "{named} tests");
}

#[test]
fn every_name_is_in_the_header() {
    let header = read("include/rte.h");
    let unknown: Vec<String> = all().iter().flat_map(|document| unknown_names(document, &header)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

fn unknown_names(document: &Document, header: &str) -> Vec<String> {
    let all = Document::new("include/rte.h", header);
    let known = all.names();
    let is_known =
        |name: &str| known.contains(name) || name.ends_with('_') && known.iter().any(|it| it.starts_with(name));
    let mut unknown: Vec<String> =
        document.names().into_iter().filter(|name| !is_known(name)).map(Into::into).collect();
    for (owner, record) in [
        ("model", "rte_model"),
        ("options", "rte_engine_options"),
        ("info", "rte_engine_info"),
        ("message", "rte_message"),
        ("value", "rte_value"),
        ("output", "rte_output"),
    ] {
        let start = header.find(&format!("typedef struct {record} {{")).expect("a record");
        let fields = Document::new("", header[start..].split("\n}").next().unwrap());
        let is_field = |field: &str| {
            let code = fields.text.lines().filter(|line| !line.trim_start().starts_with("///"));
            code.flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_'))
                .any(|it| it == field)
        };
        unknown.extend(
            document.fields(owner).into_iter().filter(|field| !is_field(field)).map(|field| format!("{owner}.{field}")),
        );
    }
    unknown
}

/// Each of the checks above sees what it is for.
#[test]
fn what_is_wrong_is_seen() {
    let header = read("include/rte.h");
    let named = |text: &str| unknown_names(&Document::new("docs/x.md", text), &header);
    assert!(named("`rte_engine_new`, RTE_ERR_DEAD, RTE_STAGE_*, `options.spin_ns`, `model.serve`").is_empty());
    assert_eq!(named("rte_engine_nwe"), ["rte_engine_nwe"]);
    assert_eq!(named("RTE_STOGE_*"), ["RTE_STOGE_"]);
    assert_eq!(named("`options.spin_us`, `model.spin_ns`"), ["model.spin_ns", "options.spin_us"]);

    let page = Document::new(
        "docs/faq.md",
        "# One, two\n[a](#one-two) [b](#three) [c](../README.md) [d](y.md)\n```\n[e](z.md)\n```\n",
    );
    let dead = dead_links(&page, std::slice::from_ref(&page));
    assert_eq!(dead, ["docs/faq.md: #three", "docs/faq.md: y.md"]);

    assert_eq!(changed("a\nb\nc\na\n", " b\n-c\n+d\n@@\n a\n+e\n").unwrap(), "a\nb\nd\na\ne\n");
    assert!(changed("a\na\n", " a\n+b\n").is_err(), "which of them?");
    assert!(changed("a\n", "-b\n+c\n").is_err(), "there is none");
}

/// The pages that `make docs` makes of the header.
#[test]
fn the_reference_has_no_warning() {
    if !has_tool("doxygen") {
        return;
    }
    let folder = scratch("reference");
    let header = read("include/rte.h");
    reference(&folder.join("right"), &header).expect_success();
    let pages = std::fs::read_to_string(folder.join("right/html/rte_8h.html")).expect("a page of the header");
    for name in exported(&header) {
        assert!(pages.contains(&format!(">{name}()</")), "the pages lack {name}");
    }
    let bare = header.replace("typedef struct rte_key {", "typedef struct rte_key {\n    int bare;");
    let finished = reference(&folder.join("wrong"), &bare);
    finished.expect("must be refused", |it| it.code != Some(0) && it.errors.contains("bare"));
}

fn reference(folder: &Path, header: &str) -> Finished {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("rte.h"), header).unwrap();
    let settings = read("docs/Doxyfile") + &format!("INPUT = {0}/rte.h\nOUTPUT_DIRECTORY = {0}\n", folder.display());
    std::fs::write(folder.join("Doxyfile"), settings).unwrap();
    let mut doxygen = std::process::Command::new("doxygen");
    doxygen.arg(folder.join("Doxyfile")).current_dir(root());
    run(doxygen, folder)
}

fn exported(header: &str) -> Vec<&str> {
    let functions = header.lines().filter(|line| line.starts_with("RTE_API "));
    functions.map(|line| line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap()).collect()
}

/// Whoever reads the pages meets each function of the header.
#[test]
fn every_function_is_in_some_document() {
    let (header, documents) = (read("include/rte.h"), all());
    let exported = exported(&header);
    assert!(exported.len() >= 20, "{exported:?}");
    let is_named = |name: &&str| documents.iter().any(|document| document.names().contains(*name));
    let forgotten: Vec<&str> = exported.into_iter().filter(|name| !is_named(name)).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
}
