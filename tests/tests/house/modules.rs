//! The modules of one crate, and which file names what of which other file.
//!
//! A name is followed through `use` and through re-exports to the file that defines it, so no re-export hides what code depends on.
//! Test modules are left out. What has no path in the text is not seen: methods of a value, fields, and names inside macros that
//! a macro makes.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Item, ItemUse, Macro, Path, UseTree,
    visit::{self, Visit},
};

use crate::{source::parse_without_tests, tree::TextFile};

/// How many imports of imports are followed: more than anybody writes, and an end for two that import each other.
const IMPORTS_MAX: usize = 16;

/// A module's path from the root of its crate.
pub(crate) type ModulePath = Vec<String>;

/// One file names what another one defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrow {
    pub(crate) from: ModulePath,
    pub(crate) to: ModulePath,
    /// The name, as it is written.
    pub(crate) name: String,
}

/// Every arrow between two files of the crate whose root is the first of `files`; module paths stand for files.
pub(crate) fn arrows(files: &[TextFile]) -> BTreeSet<Arrow> {
    let Some(root) = files.first() else { return BTreeSet::new() };
    let mut modules = Modules::default();
    for file in files {
        let path = module_path(&root.path, &file.path);
        modules.collect(&path, &path, &parse_without_tests(file).items);
    }
    let mut arrows = BTreeSet::new();
    for (path, module) in &modules.all {
        for used in &module.used {
            if let Found::Name(to) = modules.find(path, used, 0)
                && to != module.file
            {
                arrows.insert(Arrow { from: module.file.clone(), to, name: used.join("::") });
            }
        }
    }
    arrows
}

/// The module that the file at `path` is, in the crate with that root.
fn module_path(root: &str, path: &str) -> ModulePath {
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    if path == root {
        return Vec::new();
    }
    let inside = path.trim_start_matches(folder).trim_end_matches(".rs").trim_end_matches("/mod");
    inside.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[derive(Debug, Default)]
struct Modules {
    all: BTreeMap<ModulePath, Module>,
}

/// A module, in a file of its own or inside another one.
#[derive(Debug, Default)]
struct Module {
    /// The module that is its file.
    file: ModulePath,
    defined: BTreeSet<String>,
    imported: BTreeMap<String, Vec<String>>,
    /// Modules of which it imports everything.
    globs: Vec<Vec<String>>,
    /// Paths that its code names.
    used: BTreeSet<Vec<String>>,
}

/// What a path leads to.
#[derive(Debug)]
enum Found {
    Module(ModulePath),
    /// A name that the file of this module defines.
    Name(ModulePath),
    /// A name of another crate, of the language, or of a local variable.
    Elsewhere,
}

impl Modules {
    /// Reads the items of the module at `path`, which stands in the file of module `file`.
    fn collect(&mut self, path: &[String], file: &[String], items: &[Item]) {
        let mut module = Module { file: file.to_vec(), ..Module::default() };
        for item in items {
            match item {
                Item::Mod(inner) => {
                    if let Some((_, items)) = &inner.content {
                        let inner = [path, &[inner.ident.to_string()]].concat();
                        self.collect(&inner, file, items);
                    }
                    continue;
                }
                Item::Use(item) => module.import(&item.tree, &[]),
                _ => module.defined.extend(defined_by(item)),
            }
            let mut paths = Paths::default();
            paths.visit_item(item);
            module.used.append(&mut paths.found);
        }
        self.all.insert(path.to_vec(), module);
    }

    /// Follows `path`, written in the module `from`.
    fn find(&self, from: &[String], path: &[String], imports: usize) -> Found {
        let (mut at, mut rest) = (from.to_vec(), path);
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            rest = after;
        }
        while let Some((name, after)) = rest.split_first() {
            match self.step(&at, name, after.is_empty(), imports) {
                Found::Module(next) => at = next,
                found => return found,
            }
            rest = after;
        }
        Found::Module(at)
    }

    /// What `name` is in the module at `at`.
    fn step(&self, at: &[String], name: &String, is_last: bool, imports: usize) -> Found {
        let Some(module) = self.all.get(at).filter(|_| imports < IMPORTS_MAX) else { return Found::Elsewhere };
        let child = [at, core::slice::from_ref(name)].concat();
        let is_child = self.all.contains_key(&child);
        if module.defined.contains(name) && (is_last || !is_child) {
            return Found::Name(module.file.clone());
        }
        if is_child && !(is_last && module.imported.contains_key(name)) {
            return Found::Module(child);
        }
        if let Some(import) = module.imported.get(name) {
            return self.find(at, import, imports + 1);
        }
        for glob in &module.globs {
            let Found::Module(source) = self.find(at, glob, imports + 1) else { continue };
            match self.step(&source, name, is_last, imports + 1) {
                Found::Elsewhere => {}
                found => return found,
            }
        }
        Found::Elsewhere
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &dyn ToString| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before)),
            UseTree::Glob(_) => self.globs.push(before.to_vec()),
            UseTree::Name(name) if name.ident == "self" => {
                self.imported.extend(before.last().map(|last| (last.clone(), before.to_vec())));
            }
            UseTree::Name(name) => drop(self.imported.insert(name.ident.to_string(), with(&name.ident))),
            UseTree::Rename(renamed) => drop(self.imported.insert(renamed.rename.to_string(), with(&renamed.ident))),
        }
    }
}

/// The name that `item` gives to its module.
fn defined_by(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Every path that an item names.
#[derive(Default)]
struct Paths {
    found: BTreeSet<Vec<String>>,
}

impl Paths {
    fn use_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &dyn ToString| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.use_tree(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(tree, before)),
            UseTree::Glob(_) => {}
            UseTree::Name(name) if name.ident == "self" => {}
            UseTree::Name(name) => drop(self.found.insert(with(&name.ident))),
            UseTree::Rename(renamed) => drop(self.found.insert(with(&renamed.ident))),
        }
    }

    /// Looks for `a::b::c` in a macro's input, which has no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.found.extend((!path.is_empty()).then(|| core::mem::take(&mut path)));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.found.extend((!path.is_empty()).then(|| core::mem::take(&mut path)));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.found.extend((!path.is_empty()).then_some(path));
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.use_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            self.found.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        visit::visit_path(self, &invocation.path);
        self.tokens(invocation.tokens.clone());
    }
}

#[test]
fn names_are_followed_to_the_file_that_defines_them() {
    let files = [
        TextFile::new("c/src/lib.rs", "mod a; mod b; pub use a::{Thing, deep::Deep as Low}; pub const ONE: u8 = 1;"),
        TextFile::new("c/src/a/mod.rs", "pub mod deep; pub struct Thing; fn f() -> u8 { deep::g() }"),
        TextFile::new("c/src/a/deep.rs", "use super::Thing; use crate::b; pub struct Deep; fn g() { b::h(Thing) }"),
        TextFile::new(
            "c/src/b.rs",
            "use crate::{Low, ONE}; use std::fmt; fn h(x: fmt::Error) { m!(crate::Thing::new, 1); } #[cfg(test)] mod tests { use crate::a::deep::g; }",
        ),
    ];
    let text = |path: &[String]| if path.is_empty() { "lib".to_owned() } else { path.join("/") };
    let found: Vec<String> = arrows(&files).iter().map(|a| format!("{} > {}: {}", text(&a.from), text(&a.to), a.name)).collect();
    let expected = [
        "lib > a: a::Thing",
        "lib > a/deep: a::deep::Deep",
        "a > a/deep: deep::g",
        "a/deep > a: Thing",
        "a/deep > a: super::Thing",
        "a/deep > b: b::h",
        "b > lib: crate::ONE",
        "b > a: crate::Thing::new",
        "b > a/deep: crate::Low",
    ];
    assert_eq!(found, expected);
}
