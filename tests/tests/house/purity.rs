//! Rule: pure and sans-IO crates are `no_std` and never name `std`. docs/adr/0001 says why that is the proof.
//!
//! The compiler is the judge: in a `no_std` crate `std::` does not resolve unless someone writes
//! `extern crate std`. These tests keep the two lines that make it the judge, and name the place
//! at once when a line like that comes back.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    Attribute, ItemExternCrate, ItemUse, Macro, Path, UseTree,
    visit::{self, Visit},
};

use crate::{
    rooms::{Kind, ROOMS},
    source::{modules_outside_tests, parse, parse_without_tests},
    tree::{Finding, TextFile, expect_none, expect_one, rust_files},
};

/// Attributes of the root of a pure crate, without spaces; units, with no tests that need `std`, is plainly `no_std`.
const NO_STD: [&str; 2] = ["cfg_attr(not(test),no_std)", "no_std"];

/// What the root of a pure crate lacks.
fn root_findings(file: &TextFile) -> Vec<Finding> {
    let tree = parse(file);
    let inner: Vec<String> = tree.attrs.iter().map(compact).collect();
    let mut findings = Vec::new();
    if !NO_STD.iter().any(|wanted| inner.iter().any(|have| have == wanted)) {
        findings.push(Finding::new(&file.path, "a pure crate's root says #![cfg_attr(not(test), no_std)]; docs/adr/0001 says why"));
    }
    if !inner.iter().any(|have| have == "forbid(unsafe_code)") {
        findings.push(Finding::new(
            &file.path,
            "a pure crate's root says #![forbid(unsafe_code)]: unsafe code can read a clock through an intrinsic",
        ));
    }
    findings
}

/// An attribute's content without white space.
fn compact(attribute: &Attribute) -> String {
    let meta = &attribute.meta;
    match meta.require_list() {
        Ok(list) => {
            let name: String = list.path.get_ident().map(ToString::to_string).unwrap_or_default();
            format!("{name}({})", list.tokens.to_string().split_whitespace().collect::<String>())
        }
        Err(_) => meta.path().get_ident().map(ToString::to_string).unwrap_or_default(),
    }
}

/// Macros of `core` that read the builder's environment.
const ENVIRONMENT_MACROS: [&str; 2] = ["env", "option_env"];

/// Places outside tests where `file` names the standard library or reads the builder's environment.
fn std_findings(file: &TextFile) -> Vec<Finding> {
    let mut search = StdSearch::default();
    search.visit_file(&parse_without_tests(file));
    search
        .places
        .into_iter()
        .map(|place| {
            let at = format!("{}:{}", file.path, place.start().line);
            Finding::new(at, "a pure crate names std or env! outside tests; use core or alloc, or do this in an edge crate")
        })
        .collect()
}

/// Collects where `std` is named.
#[derive(Default)]
struct StdSearch {
    places: Vec<Span>,
}

impl StdSearch {
    /// Looks for `std ::` in a macro's input, which has no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut earlier: Option<Span> = None;
        for token in tokens {
            let is_colon = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ':');
            if let Some(place) = earlier.take()
                && is_colon
            {
                self.places.push(place);
            }
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(ident) if ident == "std" => earlier = Some(ident.span()),
                _ => {}
            }
        }
    }

    fn use_tree(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) if path.ident == "std" => self.places.push(path.ident.span()),
            UseTree::Name(name) if name.ident == "std" => self.places.push(name.ident.span()),
            UseTree::Rename(rename) if rename.ident == "std" => self.places.push(rename.ident.span()),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(item)),
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for StdSearch {
    /// Doc comments are attributes, and attributes are not code.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        if item.ident == "std" {
            self.places.push(item.ident.span());
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.use_tree(&item.tree);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        // A path of one segment is a name of ours: a variable may be called `std`.
        if path.segments.len() > 1 && path.segments[0].ident == "std" {
            self.places.push(path.segments[0].ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        if let Some(name) = invocation.path.segments.last().filter(|last| ENVIRONMENT_MACROS.iter().any(|name| last.ident == name)) {
            self.places.push(name.ident.span());
        }
        self.tokens(invocation.tokens.clone());
        visit::visit_macro(self, invocation);
    }
}

/// Roots of the pure and sans-IO crates that exist.
fn pure_roots(files: &[TextFile]) -> Vec<String> {
    let pure = ROOMS.iter().filter(|room| room.kind != Kind::Edge);
    let roots = pure.map(|room| format!("{}/src/lib.rs", room.folder));
    roots.filter(|root| files.iter().any(|file| file.path == *root)).collect()
}

/// What the pure and sans-IO crates compile outside tests.
pub(crate) fn pure_files() -> Vec<TextFile> {
    let files = rust_files();
    pure_roots(&files).iter().flat_map(|root| modules_outside_tests(root, &files)).collect()
}

#[test]
fn pure_crates_are_no_std_and_forbid_unsafe_code() {
    let files = rust_files();
    let roots = pure_roots(&files);
    assert!(roots.len() >= 5, "units, circle, fabric, profile and policy are pure, found only {roots:?}");
    let findings: Vec<Finding> = files.iter().filter(|file| roots.contains(&file.path)).flat_map(root_findings).collect();
    expect_none(&findings);
}

#[test]
fn pure_crates_never_name_std() {
    let findings: Vec<Finding> = pure_files().iter().flat_map(std_findings).collect();
    expect_none(&findings);
}

#[test]
fn a_root_without_its_two_lines_is_found() {
    let root = |text: &str| root_findings(&TextFile::new("crates/x/src/lib.rs", text));
    expect_one(&root("#![no_std]"), "forbid(unsafe_code)");
    expect_one(&root("#![forbid(unsafe_code)]\n#![cfg_attr(not(feature = \"std\"), no_std)]"), "cfg_attr(not(test), no_std)");
    expect_none(&root("#![cfg_attr(not(test), no_std)]\n#![forbid(unsafe_code)]"));
}

#[test]
fn std_is_found_wherever_it_hides() {
    let file = |text: &str| std_findings(&TextFile::new("x.rs", text));
    for hidden in [
        "extern crate std;",
        "extern crate std as s;",
        "use std::time::Instant;",
        "use {core::fmt, std::fs};",
        "fn f() { let _ = std::env::var(\"X\"); }",
        "fn f(t: std::time::Duration) {}",
        "fn f() { vec![std::process::id()]; }",
        "macro_rules! m { () => { ::std::fs::read(\"x\") } }",
        "const S: Option<&str> = option_env!(\"HOME\");",
        "mod inner { impl X { fn f() { ::std::thread::yield_now(); } } }",
    ] {
        expect_one(&file(hidden), "x.rs:1");
    }
    for harmless in [
        "//! std::fs in a comment",
        "/// `std::fs` in a doc comment\nfn f() {}",
        "const S: &str = \"std::fs\";",
        "#[doc = include_str!(\"x.md\")] struct X;",
        "fn f(std: f64) -> f64 { std * 2.0 }",
        "#[cfg(test)] mod tests { use std::fs; }",
        "#[cfg(all(test, unix))] use std::fs;",
        "impl X { #[cfg(test)] fn f() { std::fs::read(\"x\"); } }",
        "use crate::std_deviation;",
    ] {
        expect_none(&file(harmless));
    }
}
