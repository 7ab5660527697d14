//! What one file comes to.

use std::ops::AddAssign;

use syn::{
    Block, ImplItemFn, ItemFn, Signature, TraitItemFn,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::{
    source::{lines_of_tests, parse},
    tree::TextFile,
};

/// Lines of code outside tests, by kind, and what is in them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) lines: usize,
    pub(crate) blank: usize,
    pub(crate) doc: usize,
    pub(crate) comment: usize,
    pub(crate) code: usize,
    pub(crate) unwraps: usize,
    pub(crate) unsafes: usize,
    /// Lines of `#[cfg(test)]` items.
    pub(crate) test_lines: usize,
}

impl Count {
    /// Counts the lines of `file`.
    pub(crate) fn of(file: &TextFile) -> Self {
        let tests = lines_of_tests(file);
        let mut count = Self::default();
        for (at, line) in file.text.lines().enumerate() {
            if tests.iter().any(|test| test.contains(&(at + 1))) {
                count.test_lines += 1;
            } else {
                count.add(line.trim());
            }
        }
        count
    }

    fn add(&mut self, line: &str) {
        self.lines += 1;
        if line.is_empty() {
            self.blank += 1;
        } else if line.starts_with("///") || line.starts_with("//!") {
            self.doc += 1;
        } else if line.starts_with("//") {
            self.comment += 1;
        } else {
            self.code += 1;
            self.unwraps += line.matches(".unwrap()").count();
            self.unsafes += line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| *word == "unsafe").count();
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.lines += other.lines;
        self.blank += other.blank;
        self.doc += other.doc;
        self.comment += other.comment;
        self.code += other.code;
        self.unwraps += other.unwraps;
        self.unsafes += other.unsafes;
        self.test_lines += other.test_lines;
    }
}

/// Whether the file at `path`, which no library or program compiles, is a test.
pub(crate) fn is_test(path: &str) -> bool {
    let folders: Vec<&str> = path.split('/').collect();
    let has = |name: &str| folders.contains(&name);
    !has("benches") && !has("examples") && !has("fuzz") && (has("tests") || has("src"))
}

/// Tests in `file`: `#[test]` and its like, those in macros included.
pub(crate) fn tests_in(file: &TextFile) -> usize {
    let marks = ["#[test]", "#[tokio::test"];
    file.text.lines().filter(|line| marks.iter().any(|mark| line.trim_start().starts_with(mark))).count()
}

/// Lines of each function.
pub(crate) fn functions(file: &TextFile) -> Vec<usize> {
    let mut functions = Functions::default();
    functions.visit_file(&parse(file));
    functions.lines
}

#[derive(Default)]
struct Functions {
    lines: Vec<usize>,
}

impl Functions {
    fn add(&mut self, signature: &Signature, block: &Block) {
        self.lines.push(block.span().end().line - signature.span().start().line + 1);
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}
