//! `include/rte.h` is what cbindgen makes of the source. `RTE_BLESS=1 cargo test --test header` writes it.

use std::path::Path;

#[test]
fn the_header_is_generated_from_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut header = Vec::new();
    bindings.write(&mut header);
    let path = root.join("include/rte.h");
    if std::env::var_os("RTE_BLESS").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    let checked_in = std::fs::read(&path).unwrap_or_default();
    assert!(header == checked_in, "include/rte.h is stale: RTE_BLESS=1 cargo test --test header writes it");
}
