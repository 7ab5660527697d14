//! The code that users run: every crate with the files that its libraries and programs compile.

use crate::{
    cargo::{Metadata, Target},
    rooms::TESTS,
    source::modules_outside_tests,
    tree::{TextFile, relative, rust_files},
};

/// Kinds of targets that reach users. Tests and benches are held by the workspace's `unsafe_code = "deny"`.
const SHIPPED: &[&str] = &["lib", "bin", "cdylib", "staticlib", "rlib", "proc-macro"];

/// Committed code that nobody writes: the test `regenerate` of its crate keeps it current.
pub(crate) const GENERATED: &str = "proto/src/generated/";

/// A library or a program.
pub(crate) struct Crate {
    /// The crate's folder from the root of the checkout.
    #[allow(dead_code, reason = "examples/measure asks for it")]
    pub(crate) folder: String,
    /// Its root, and the files of its modules outside tests.
    pub(crate) files: Vec<TextFile>,
}

impl Crate {
    /// Path of its root.
    pub(crate) fn root(&self) -> &str {
        self.files.first().map_or("", |file| &file.path)
    }
}

/// Whether `target` reaches users.
pub(crate) fn is_shipped(target: &&Target) -> bool {
    target.kind.iter().any(|kind| SHIPPED.contains(&kind.as_str()))
}

/// Every library and every program, without those of the tests and without generated code.
pub(crate) fn crates() -> Vec<Crate> {
    let (metadata, files) = (Metadata::read(), rust_files());
    let own = metadata.own_packages().filter(|(folder, _)| folder != TESTS);
    let roots = own.flat_map(|(folder, package)| {
        package.targets.iter().filter(is_shipped).map(move |target| (folder.clone(), relative(&target.src_path)))
    });
    let written = |file: &TextFile| !file.path.starts_with(GENERATED);
    let of = |root: &str| modules_outside_tests(root, &files).into_iter().filter(written).collect();
    let mut crates: Vec<Crate> = roots.map(|(folder, root)| Crate { folder, files: of(&root) }).collect();
    crates.sort_by(|a, b| a.root().cmp(b.root()));
    assert!(crates.len() >= 15, "cargo metadata lists only {} libraries and programs", crates.len());
    crates
}
