//! Rule: one word, one meaning. docs/glossary.md lists the words and, per word, what not to call it;
//! public names may not use those, and no name may be a filler.

use syn::{Ident, Item, ItemMod, Visibility, visit::Visit};

use crate::{
    source::parse_without_tests,
    tree::{Finding, TextFile, expect_none, expect_one, read, rust_files},
};

/// Module names that say nothing about what is inside.
const FILLER_MODULES: [&str; 9] = ["base", "common", "helper", "helpers", "manager", "misc", "shared", "util", "utils"];
/// Words of type names that say nothing.
const FILLER_WORDS: [&str; 4] = ["helper", "manager", "util", "utils"];

/// A word not to use, and the one to use.
#[derive(Debug, PartialEq, Eq)]
struct Synonym {
    not: String,
    instead: String,
}

/// Rows of the glossary's table: `| word | meaning | not: `a`, `b` |`.
fn synonyms(glossary: &str) -> Vec<Synonym> {
    let mut synonyms = Vec::new();
    for line in glossary.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [word, _, not] = cells.as_slice() else { continue };
        for synonym in not.split('`').skip(1).step_by(2) {
            synonyms.push(Synonym { not: synonym.to_owned(), instead: (*word).to_owned() });
        }
    }
    synonyms
}

/// Bad names in one file.
fn findings(file: &TextFile, synonyms: &[Synonym]) -> Vec<Finding> {
    let mut search = Names { file: &file.path, synonyms, findings: Vec::new() };
    search.visit_file(&parse_without_tests(file));
    search.findings
}

struct Names<'a> {
    file: &'a str,
    synonyms: &'a [Synonym],
    findings: Vec<Finding>,
}

impl Names<'_> {
    fn report(&mut self, ident: &Ident, what: String) {
        self.findings.push(Finding::new(format!("{}:{}", self.file, ident.span().start().line), what));
    }

    fn check_type(&mut self, ident: &Ident, public: bool) {
        let words = words(&ident.to_string());
        if let Some(filler) = words.iter().find(|word| FILLER_WORDS.contains(&word.as_str())) {
            self.report(ident, format!("{ident} says nothing with {filler:?}; name what it is or does"));
        }
        if !public {
            return;
        }
        if let Some(synonym) = self.synonyms.iter().find(|synonym| words.contains(&synonym.not)) {
            self.report(ident, format!("{ident}: say {:?} instead of {:?} (docs/glossary.md)", synonym.instead, synonym.not));
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Struct(item) => self.check_type(&item.ident, is_public(&item.vis)),
            Item::Enum(item) => self.check_type(&item.ident, is_public(&item.vis)),
            Item::Trait(item) => self.check_type(&item.ident, is_public(&item.vis)),
            Item::Type(item) => self.check_type(&item.ident, is_public(&item.vis)),
            _ => {}
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if FILLER_MODULES.contains(&module.ident.to_string().as_str()) {
            self.report(&module.ident, format!("mod {} says nothing; name it for its idea", module.ident));
        }
        syn::visit::visit_item_mod(self, module);
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The words of a `CamelCase` name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for c in name.chars() {
        if c.is_uppercase() || words.is_empty() {
            words.push(String::new());
        }
        let word = words.last_mut().expect("invariant: a word was begun");
        word.extend(c.to_lowercase());
    }
    words
}

#[test]
fn names_follow_the_glossary() {
    let synonyms = synonyms(&read("docs/glossary.md"));
    assert!(synonyms.len() >= 10, "the table of docs/glossary.md was not understood: {synonyms:?}");
    let found: Vec<Finding> = rust_files().iter().flat_map(|file| findings(file, &synonyms)).collect();
    expect_none(&found);
}

#[test]
fn a_bad_name_is_found() {
    let glossary = "| word | meaning | not |\n|---|---|---|\n| rank | one process of a job | `worker`, `peer` |\n";
    let synonyms = synonyms(glossary);
    assert_eq!(synonyms[0], Synonym { not: "worker".into(), instead: "rank".into() });
    assert_eq!(synonyms.len(), 2);
    let file = |text: &str| findings(&TextFile::new("x.rs", text), &synonyms);
    expect_one(&file("pub struct JobWorker;"), "say \"rank\"");
    expect_one(&file("struct LinkManager;"), "says nothing");
    expect_one(&file("mod utils;"), "mod utils says nothing");
    expect_one(&file("mod a { pub(crate) enum StringUtil {} }"), "says nothing");
    expect_none(&file("struct Worker; pub struct Reworked; pub struct Managed; mod utility_curve; #[cfg(test)] mod helpers {}"));
}
