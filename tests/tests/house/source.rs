//! Our Rust files as syntax trees, so that comments and strings do not matter to a rule.

use std::ops::RangeInclusive;

use syn::{Attribute, File, ImplItem, Item, spanned::Spanned};

use crate::tree::TextFile;

/// The syntax tree of `file`.
pub(crate) fn parse(file: &TextFile) -> File {
    syn::parse_file(&file.text).unwrap_or_else(|error| panic!("{}:{}: {error}", file.path, error.span().start().line))
}

/// The syntax tree of `file` without its `#[cfg(test)]` items, also those in modules and `impl` blocks.
pub(crate) fn parse_without_tests(file: &TextFile) -> File {
    let mut tree = parse(file);
    drop_tests(&mut tree.items);
    tree
}

fn drop_tests(items: &mut Vec<Item>) {
    items.retain(|item| !is_test_only(attributes(item)));
    for item in items {
        match item {
            Item::Mod(module) => {
                if let Some((_, inner)) = &mut module.content {
                    drop_tests(inner);
                }
            }
            Item::Impl(block) => block.items.retain(|item| !matches!(item, ImplItem::Fn(function) if is_test_only(&function.attrs))),
            _ => {}
        }
    }
}

/// Whether `attributes` say `#[cfg(test)]` or `#[cfg(all(test, ...))]`: code that no user runs.
fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else { return false };
        let condition: String = list.tokens.to_string().split_whitespace().collect();
        condition == "test" || condition.starts_with("all(test,")
    })
}

/// The attributes of an item, empty for the few kinds that the rules never ask about.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// First and last line of each `#[cfg(test)]` item of `file`, counted from 1.
pub(crate) fn lines_of_tests(file: &TextFile) -> Vec<RangeInclusive<usize>> {
    let tests = parse(file).items.into_iter().filter(|item| is_test_only(attributes(item)));
    tests.map(|item| item.span().start().line..=item.span().end().line).collect()
}

/// Lines of `file` outside its `#[cfg(test)]` items.
pub(crate) fn lines_outside_tests(file: &TextFile) -> usize {
    let in_tests: usize = lines_of_tests(file).into_iter().map(Iterator::count).sum();
    file.text.lines().count() - in_tests
}

/// Files that the crate rooted at `root` compiles outside tests: the root and what its `mod` lines name.
///
/// # Panics
/// When a `mod` line leads to no file, which the compiler would refuse too.
pub(crate) fn modules_outside_tests(root: &str, files: &[TextFile]) -> Vec<TextFile> {
    let mut found = Vec::new();
    let mut queue = vec![root.to_owned()];
    while let Some(path) = queue.pop() {
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path}: not in the checkout"));
        let folder = children_folder(root, &path);
        for child in declared_modules(&parse(file).items, &folder) {
            let at = [child.clone(), format!("{child}.rs"), format!("{child}/mod.rs")]
                .into_iter()
                .find(|at| files.iter().any(|file| file.path == *at));
            queue.push(at.unwrap_or_else(|| panic!("{path}: declares {child}, which is neither a file nor a folder with mod.rs")));
        }
        found.push(file.clone());
    }
    found
}

/// The file that `#[path = "..."]` names.
fn named_path(attributes: &[Attribute]) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?.meta.require_name_value().ok()?;
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &value.value else { return None };
    Some(path.value())
}

/// Where the modules declared in `path` lie.
fn children_folder(root: &str, path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    if path == root || stem == "mod" { folder.to_owned() } else { format!("{folder}/{stem}") }
}

/// Modules in files of their own that `items` declare, without those for tests; the whole path where `#[path]` names one.
fn declared_modules(items: &[Item], folder: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for item in items {
        let Item::Mod(module) = item else { continue };
        if is_test_only(&module.attrs) {
            continue;
        }
        let path = format!("{folder}/{}", named_path(&module.attrs).unwrap_or_else(|| module.ident.to_string()));
        match &module.content {
            None => modules.push(path),
            Some((_, inner)) => modules.extend(declared_modules(inner, &path)),
        }
    }
    modules
}

#[test]
fn test_items_do_not_count_as_lines() {
    // Six lines, of which `#[cfg(test)]` to the closing brace are three.
    let file = TextFile::new("x.rs", "//! x\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\nfn b() {}\n");
    assert_eq!(lines_outside_tests(&file), 3);
}

#[test]
fn modules_are_followed_but_not_into_tests() {
    let files = [
        TextFile::new("c/src/lib.rs", "mod a; #[path = \"made/by.rs\"] mod c; #[cfg(test)] mod tests; mod inline { mod b; }"),
        TextFile::new("c/src/a.rs", "mod deep;"),
        TextFile::new("c/src/a/deep.rs", ""),
        TextFile::new("c/src/inline/b/mod.rs", ""),
        TextFile::new("c/src/made/by.rs", ""),
        TextFile::new("c/src/tests.rs", "use std::fs;"),
    ];
    let mut found: Vec<String> = modules_outside_tests("c/src/lib.rs", &files).into_iter().map(|file| file.path).collect();
    found.sort();
    assert_eq!(found, ["c/src/a.rs", "c/src/a/deep.rs", "c/src/inline/b/mod.rs", "c/src/lib.rs", "c/src/made/by.rs"]);
}
