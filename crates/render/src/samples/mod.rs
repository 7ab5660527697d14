//! Sample pictures: written to `target/pictures/` so that anyone can look, and checked for what
//! a machine can check.

mod build;
mod maps;
mod overview;
mod reports;
mod rings;

use std::path::PathBuf;

use roxmltree::{Document, Node};

/// Writes one sample and gives its text back.
fn save(name: &str, content: String) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/pictures");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), &content).unwrap();
    content
}

/// Facts that hold for every picture: well-formed, finite, no script, no event handler, all
/// coordinates of rectangles inside the frame.
fn check_svg(content: &str) {
    let document = Document::parse(content).expect("well-formed XML");
    assert!(!content.contains("NaN") && !content.contains("inf\""));
    for node in document.descendants().filter(Node::is_element) {
        assert_ne!(node.tag_name().name(), "script");
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on"), "{}", attribute.name());
            assert!(!attribute.value().contains("javascript:"));
        }
    }
    let root = document.root_element();
    let size = |key: &str| root.attribute(key).unwrap().parse::<f64>().unwrap();
    let (width, height) = (size("width"), size("height"));
    for rect in with_tag(&document, "rect").filter(|r| r.attribute("x").is_some()) {
        let at = |key: &str| rect.attribute(key).unwrap().parse::<f64>().unwrap();
        assert!(at("x") >= 0.0 && at("x") + at("width") <= width + 0.5, "{rect:?}");
        assert!(at("y") >= 0.0 && at("y") + at("height") <= height + 0.5, "{rect:?}");
    }
}

fn with_tag<'a>(document: &'a Document<'a>, tag: &'a str) -> impl Iterator<Item = Node<'a, 'a>> + 'a {
    document.descendants().filter(move |n| n.has_tag_name(("http://www.w3.org/2000/svg", tag)))
}

fn with_class<'a>(document: &'a Document<'a>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> + 'a {
    document.descendants().filter(move |n| n.attribute("class").is_some_and(|c| c.split(' ').any(|c| c == class)))
}
