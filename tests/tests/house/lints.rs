//! Rule: every crate takes the workspace's lints, and every library and program forbids unsafe code.

use crate::{
    cargo::Metadata,
    production::is_shipped,
    rooms::UNSAFE,
    source::parse,
    tree::{Finding, TextFile, expect_none, expect_one, read, relative},
};

/// A manifest that does not take the workspace's lints.
fn without_lints(manifest: &TextFile) -> Option<Finding> {
    let lines: Vec<&str> = manifest.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let as_table = lines.windows(2).any(|pair| pair == ["[lints]", "workspace = true"]);
    let as_key = lines.contains(&"lints.workspace = true");
    let what = "does not take the workspace's lints; add [lints] workspace = true";
    (!as_table && !as_key).then(|| Finding::new(&manifest.path, what))
}

/// A root that does not forbid unsafe code.
fn without_forbid(root: &TextFile) -> Option<Finding> {
    let forbids = parse(root).attrs.iter().any(|attribute| {
        attribute.path().is_ident("forbid") && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "unsafe_code")
    });
    let what =
        "does not say #![forbid(unsafe_code)]; if its work is unsafe by nature, add its crate to UNSAFE in tests/tests/house/rooms.rs";
    (!forbids).then(|| Finding::new(&root.path, what))
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    let metadata = Metadata::read();
    let manifests = metadata.own_packages().map(|(folder, _)| format!("{folder}/Cargo.toml"));
    let findings: Vec<Finding> = manifests.filter_map(|path| without_lints(&TextFile::new(path.clone(), read(&path)))).collect();
    expect_none(&findings);
}

#[test]
fn every_library_and_program_forbids_unsafe_code() {
    let metadata = Metadata::read();
    let safe = metadata.own_packages().filter(|(folder, _)| !UNSAFE.contains(&folder.as_str()));
    let roots: Vec<String> =
        safe.flat_map(|(_, package)| package.targets.iter().filter(is_shipped).map(|target| relative(&target.src_path))).collect();
    assert!(roots.len() >= 7, "cargo metadata lists only {roots:?}");
    let findings: Vec<Finding> = roots.iter().filter_map(|path| without_forbid(&TextFile::new(path, read(path)))).collect();
    expect_none(&findings);
}

#[test]
fn a_crate_without_them_is_found() {
    let manifest = |text: &str| without_lints(&TextFile::new("Cargo.toml", text)).into_iter().collect::<Vec<_>>();
    expect_one(&manifest("[package]\nname = \"x\"\n[lints.rust]\nunsafe_code = \"allow\""), "[lints] workspace = true");
    expect_none(&manifest("[lints]\nworkspace = true\n"));
    let root = |text: &str| without_forbid(&TextFile::new("lib.rs", text)).into_iter().collect::<Vec<_>>();
    expect_one(&root("#![deny(unsafe_code)]"), "forbid(unsafe_code)");
    expect_one(&root("// #![forbid(unsafe_code)]"), "forbid(unsafe_code)");
    expect_none(&root("#![forbid(unsafe_code)]"));
}
