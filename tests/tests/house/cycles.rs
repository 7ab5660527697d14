//! Rule: neighbours in a crate depend one way.
//!
//! Neighbours are the files and folders that one module declares. Where two of them name each other, neither can be read, tested
//! or moved without the other, and what looks like two parts is one. A folder counts as one neighbour, with all that is in it: so
//! folders do not depend on each other in a cycle either. A module and what it declares itself are no cycle: a parent that
//! re-exports its children, and children that use the parent's types, are one idea told in parts.
//!
//! What two neighbours both need (a limit, a small type) belongs into a third one below them, or into their parent.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    modules::{Arrow, ModulePath, arrows},
    production::{Crate, crates},
    tree::{Finding, TextFile, expect_none, expect_one},
};

/// A cycle that is left.
struct Known {
    /// The crate's root.
    root: &'static str,
    /// The module that declares the neighbours.
    parent: &'static str,
    neighbours: &'static [&'static str],
    why: &'static str,
}

/// Every cycle that is left. A row that is no longer needed fails the test.
const KNOWN: &[Known] = &[
    Known {
        root: "crates/circle/src/lib.rs",
        parent: "demand",
        neighbours: &["circle", "distribution", "sum"],
        why: "which circle is taken depends on whether its sums are short, and sums are made around a circle",
    },
    Known {
        root: "crates/profile/src/lib.rs",
        parent: "",
        neighbours: &["document", "profile"],
        why: "a profile is made of its document and written as one, and both directions need its private fields",
    },
    Known {
        root: "topology/state/src/lib.rs",
        parent: "",
        neighbours: &["component", "plan"],
        why: "a job of the plan keeps the component that it is in, and components are found by a walk through the plan",
    },
];

/// Neighbours that depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// The module that declares them.
    pub(crate) parent: ModulePath,
    /// Their names, sorted.
    pub(crate) neighbours: Vec<String>,
    /// Which file names what of which other one.
    pub(crate) arrows: Vec<Arrow>,
}

/// Every cycle of neighbours in the crate whose root is the first of `files`.
pub(crate) fn cycles(files: &[TextFile]) -> Vec<Cycle> {
    let mut levels: BTreeMap<ModulePath, Vec<(String, String, Arrow)>> = BTreeMap::new();
    for arrow in arrows(files) {
        let common = arrow.from.iter().zip(&arrow.to).take_while(|(a, b)| a == b).count();
        // One is the other's parent otherwise, or the parent of its parent.
        if let (Some(from), Some(to)) = (arrow.from.get(common), arrow.to.get(common)) {
            let level = levels.entry(arrow.from[..common].to_vec()).or_default();
            level.push((from.clone(), to.clone(), arrow.clone()));
        }
    }
    levels.into_iter().flat_map(|(parent, arrows)| cycles_of(&parent, &arrows)).collect()
}

/// The neighbours to which arrows lead from `start`, over any others.
fn reached<'a>(start: &'a str, arrows: &'a [(String, String, Arrow)]) -> BTreeSet<&'a str> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut queue = vec![start];
    while let Some(at) = queue.pop() {
        let next = arrows.iter().filter(|(from, _, _)| from == at).map(|(_, to, _)| to.as_str());
        queue.extend(next.filter(|to| reached.insert(to)));
    }
    reached
}

/// The cycles among the neighbours that `parent` declares.
fn cycles_of(parent: &[String], arrows: &[(String, String, Arrow)]) -> Vec<Cycle> {
    let names: BTreeSet<&str> = arrows.iter().map(|(from, _, _)| from.as_str()).collect();
    let far: BTreeMap<&str, BTreeSet<&str>> = names.iter().map(|name| (*name, reached(name, arrows))).collect();
    let mut cycles: Vec<Cycle> = Vec::new();
    for (name, reachable) in &far {
        let back = |other: &&&str| far.get(**other).is_some_and(|far| far.contains(name));
        let cycle: Vec<String> = reachable.iter().filter(back).map(|name| (*name).to_owned()).collect();
        if cycle.len() > 1 && cycle.first().is_some_and(|first| first == name) {
            let within = arrows.iter().filter(|(from, to, _)| cycle.contains(from) && cycle.contains(to));
            let arrows = within.map(|(_, _, arrow)| arrow.clone()).collect();
            cycles.push(Cycle { parent: parent.to_vec(), neighbours: cycle, arrows });
        }
    }
    cycles
}

impl Cycle {
    fn is(&self, root: &str, known: &Known) -> bool {
        root == known.root && self.parent.join("/") == known.parent && self.neighbours == known.neighbours
    }

    fn finding(&self, root: &str) -> Finding {
        let text = |path: &ModulePath| path[self.parent.len()..].join("/");
        // One name of each pair of files is enough to see why.
        let pairs: BTreeMap<(&ModulePath, &ModulePath), &Arrow> =
            self.arrows.iter().map(|arrow| ((&arrow.from, &arrow.to), arrow)).collect();
        let arrow = |arrow: &&Arrow| format!("{} names {} of {}", text(&arrow.from), arrow.name, text(&arrow.to));
        let arrows: Vec<String> = pairs.values().map(arrow).collect();
        let what = format!(
            "{} depend on each other in a cycle; move what they share into a file below them, or into their parent: {}",
            self.neighbours.join(", "),
            arrows.join("; ")
        );
        let place = if self.parent.is_empty() { root.to_owned() } else { format!("{root} ({})", self.parent.join("/")) };
        Finding::new(place, what)
    }
}

#[test]
fn files_of_a_crate_depend_one_way() {
    let crates = crates();
    let of = |c: &Crate| cycles(&c.files).into_iter().map(|cycle| (c.root().to_owned(), cycle)).collect::<Vec<_>>();
    let found: Vec<(String, Cycle)> = crates.iter().flat_map(of).collect();
    let new = found.iter().filter(|(root, cycle)| !KNOWN.iter().any(|known| cycle.is(root, known)));
    expect_none(&new.map(|(root, cycle)| cycle.finding(root)).collect::<Vec<_>>());
    let gone = KNOWN.iter().filter(|known| !found.iter().any(|(root, cycle)| cycle.is(root, known)));
    let stale = |known: &Known| {
        let what = format!("{} are no longer this cycle ({}); take them out of KNOWN", known.neighbours.join(", "), known.why);
        Finding::new(format!("{} ({})", known.root, known.parent), what)
    };
    expect_none(&gone.map(stale).collect::<Vec<_>>());
    let followed: usize = crates.iter().map(|c| arrows(&c.files).len()).sum();
    assert!(followed > 500, "only {followed} names were followed from file to file");
}

#[test]
fn a_cycle_is_found() {
    let found = |files: &[(&str, &str)]| {
        let files: Vec<TextFile> = files.iter().map(|(path, text)| TextFile::new(format!("c/src/{path}"), *text)).collect();
        cycles(&files).iter().map(|cycle| cycle.finding("c/src/lib.rs")).collect::<Vec<_>>()
    };
    let lib = ("lib.rs", "mod a; mod b;");
    expect_one(
        &found(&[lib, ("a.rs", "use crate::b::B; pub struct A;"), ("b.rs", "pub struct B(super::a::A);")]),
        "a, b depend on each other",
    );
    // Through a re-export, and between two folders of which no two files form a cycle.
    let folders = [
        ("lib.rs", "mod a; mod b; pub use b::one::X;"),
        ("a/mod.rs", "mod one; mod two;"),
        ("a/one.rs", "use crate::X;"),
        ("a/two.rs", "pub struct Y;"),
        ("b/mod.rs", "pub mod one; mod two;"),
        ("b/one.rs", "pub struct X;"),
        ("b/two.rs", "use crate::a::two::Y;"),
    ];
    expect_one(&found(&folders), "a/one names crate::X of b/one; b/two names crate::a::two::Y of a/two");
    let one_way = [lib, ("a.rs", "use crate::b::B; pub struct A;"), ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }")];
    expect_none(&found(&one_way));
    let parent = [("lib.rs", "mod a; pub use a::A; pub struct P;"), ("a.rs", "use crate::P; pub struct A(P);")];
    expect_none(&found(&parent));
}
