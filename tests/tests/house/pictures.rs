//! Rule: pictures are drawn in `crates/render` alone.
//!
//! A picture that is drawn twice differs sooner or later: the circles of the command line, of the lab and of the service's page once
//! came from three places and showed three things. Markup of SVG, and the geometry of circles in JavaScript, is what the rule finds.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, LitStr, Macro, visit::Visit};

use crate::{
    source::parse_without_tests,
    tree::{Finding, TextFile, expect_none, expect_one, text_files},
};

/// The room that draws.
const ROOM: &str = "crates/render/";

/// What a file that draws contains.
const MARKS: [&str; 7] = ["<svg", "<path", "<circle ", "createElementNS", "svg(\"", "Math.sin", "Math.cos"];

/// Files that draw elsewhere, and why they may.
const ALLOWED: [(&str, &str); 5] = [
    ("docs/pictures/service-agent-gate.svg", "a picture that crates/render drew (samples/overview.rs)"),
    ("docs/pictures/two-vgg16.svg", "a picture that the program drew, for README.md"),
    ("topology/server/page/icon.svg", "the icon, which nothing draws anew"),
    ("topology/server/page/dom.js", "makes the elements of the one below"),
    ("topology/server/page/chart.js", "series of the last seconds, which come from no other room"),
];

/// Kinds of files that could draw: what runs, and what a browser shows.
const ENDINGS: [&str; 7] = [".rs", ".js", ".html", ".css", ".svg", ".py", ".sh"];

/// Whether the rule is about the file at `path`. Tests look at pictures, so they name their markup.
fn is_judged(path: &str) -> bool {
    let is_test = path.starts_with("tests/") || path.contains("/tests/");
    ENDINGS.iter().any(|ending| path.ends_with(ending)) && !path.starts_with(ROOM) && !is_test
}

/// Where `file` draws, whether it may or not.
fn drawings(file: &TextFile) -> Vec<Finding> {
    let texts = if file.path.ends_with(".rs") {
        let mut strings = Strings::default();
        strings.visit_file(&parse_without_tests(file));
        strings.found
    } else {
        file.text.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect()
    };
    let marked = texts.iter().filter_map(|(line, text)| MARKS.iter().find(|mark| text.contains(**mark)).map(|mark| (line, mark)));
    marked
        .map(|(line, mark)| {
            let what = format!("draws ({mark:?}); pictures come from crates/render: move the drawing there and call it");
            Finding::new(format!("{}:{line}", file.path), what)
        })
        .collect()
}

/// The string literals of a Rust file with their lines, those in macros included.
#[derive(Default)]
struct Strings {
    found: Vec<(usize, String)>,
}

impl Strings {
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(string) = syn::parse_str::<LitStr>(&literal.to_string()) {
                        self.found.push((literal.span().start().line, string.value()));
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Strings {
    /// Documentation is not code.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_lit_str(&mut self, string: &'ast LitStr) {
        self.found.push((string.span().start().line, string.value()));
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.tokens(invocation.tokens.clone());
    }
}

#[test]
fn pictures_are_drawn_in_one_room() {
    let files = text_files(is_judged);
    let may = |file: &TextFile| ALLOWED.iter().any(|(path, _)| *path == file.path);
    let found: Vec<Finding> = files.iter().filter(|file| !may(file)).flat_map(drawings).collect();
    expect_none(&found);
    // An exception that nothing needs any more is a door left open.
    let needed = |path: &str| files.iter().any(|file| file.path == path && !drawings(file).is_empty());
    let stale = ALLOWED.iter().filter(|(path, _)| !needed(path)).map(|(path, why)| Finding::new(*path, format!("draws nothing ({why})")));
    expect_none(&stale.collect::<Vec<_>>());
    let room = text_files(|path| path.starts_with(ROOM) && path.ends_with(".rs"));
    assert!(room.iter().any(|file| !drawings(file).is_empty()), "the room that draws was not found, so neither would another be");
}

#[test]
fn a_drawing_elsewhere_is_found() {
    let file = |path: &str, text: &str| drawings(&TextFile::new(path, text));
    expect_one(&file("x.rs", "fn f() -> String {\n format!(\"<svg width={w}>\") }"), "x.rs:2: draws");
    expect_one(&file("x.rs", "const A: &str = \"<path d='M0 0'/>\";"), "crates/render");
    expect_none(&file("x.rs", "/// <svg>\nfn f() { g(\"svg\"); } #[cfg(test)] mod tests { const A: &str = \"<svg\"; }"));
    expect_one(&file("x.js", "const point = (turn) => Math.sin(turn);"), "Math.sin");
    expect_one(&file("x.js", "a();\nsvg(\"circle\", {})"), "x.js:2");
    expect_none(&file("x.js", "if (root.localName !== \"svg\") throw new Error();"));
    assert!(is_judged("topology/server/page/pictures.js") && is_judged("crates/lab/src/html.rs"));
    assert!(!is_judged("crates/render/src/svg.rs") && !is_judged("topology/server/tests/routes.rs") && !is_judged("docs/page.md"));
}
