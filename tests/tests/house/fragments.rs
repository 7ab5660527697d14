//! The words of a file's items, without comments and tests, and whether pieces of code stand among them.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::{
    Block, ImplItemFn, ItemConst, ItemFn, ItemStatic, ItemStruct, Signature, TraitItemFn,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::{source::parse_without_tests, tree::TextFile};

/// A function, a constant, a static or a struct.
pub(crate) struct Words {
    /// Line of its name.
    pub(crate) line: usize,
    /// Its tokens, each between spaces: numbers without `_`, and `b'.'` as `'.'`.
    text: String,
}

impl Words {
    /// Whether `fragment` stands here: tokens with single spaces between them, or `~part` for a name that contains `part`.
    pub(crate) fn contain(&self, fragment: &str) -> bool {
        match fragment.strip_prefix('~') {
            Some(part) => self.text.split(' ').any(|word| word.starts_with(is_of_name) && word.to_lowercase().contains(part)),
            None => self.text.contains(&format!(" {fragment} ")),
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// The items of `file` outside its tests.
pub(crate) fn words(file: &TextFile) -> Vec<Words> {
    let mut items = Items { text: &file.text, found: Vec::new() };
    items.visit_file(&parse_without_tests(file));
    items.found
}

struct Items<'a> {
    text: &'a str,
    found: Vec<Words>,
}

impl Items<'_> {
    /// Keeps the words from the start of one piece of code to the end of another.
    fn keep(&mut self, from: &dyn Spanned, to: &dyn Spanned) {
        let (from, to) = (from.span(), to.span());
        let code = self.text.get(from.byte_range().start..to.byte_range().end).unwrap_or_default();
        let mut text = " ".to_owned();
        write(code.parse::<TokenStream>().unwrap_or_default(), &mut text);
        self.found.push(Words { line: from.start().line, text });
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        self.keep(signature, block);
    }
}

impl<'ast> Visit<'ast> for Items<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        self.keep(&item.const_token, &item.semi_token);
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        self.keep(&item.static_token, &item.semi_token);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.keep(&item.struct_token, &item.ident);
        visit::visit_item_struct(self, item);
    }
}

/// Writes tokens, each followed by a space; operators of two characters stay together.
fn write(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("( ", ") "),
                    Delimiter::Brace => ("{ ", "} "),
                    Delimiter::Bracket => ("[ ", "] "),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                write(group.stream(), text);
                text.push_str(close);
            }
            TokenTree::Ident(ident) => *text += &format!("{ident} "),
            TokenTree::Punct(punct) => {
                text.push(punct.as_char());
                text.push_str(if punct.spacing() == Spacing::Alone { " " } else { "" });
            }
            TokenTree::Literal(literal) => {
                let literal = literal.to_string();
                let plain = if literal.starts_with(|c: char| c.is_ascii_digit()) { literal.replace('_', "") } else { literal };
                *text += &format!("{} ", plain.strip_prefix('b').filter(|l| l.starts_with('\'')).unwrap_or(&plain));
            }
        }
    }
}

#[test]
fn words_stand_one_by_one_without_comments_and_tests() {
    let text = "const A: u64 = 1_000; // no\nimpl X {\n fn f(&self) -> u8 { /* none */ g(b'.')  >= self.late_by }\n}\n#[cfg(test)] mod tests { fn h() {} }";
    let found = words(&TextFile::new("x.rs", text));
    let lines: Vec<(usize, &str)> = found.iter().map(|words| (words.line, words.text.trim())).collect();
    assert_eq!(lines, [(1, "const A : u64 = 1000 ;"), (3, "fn f ( & self ) -> u8 { g ( '.' ) >= self . late_by }")]);
    assert!(found[1].contain("g (") && found[1].contain("~late") && !found[1].contain("late") && !found[1].contain("none"));
}
