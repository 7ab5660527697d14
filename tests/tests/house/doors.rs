//! Rule: pure code does not use the doors to the outside that its allowed dependencies leave open.
//!
//! Our code cannot reach `std`, but a dependency may do it on our behalf. These are the names in
//! the crates of `rooms::REACHED` that do, found by reading them; docs/adr/0001 has the argument.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::{Attribute, Macro, visit::Visit};

use crate::{
    purity::pure_files,
    source::parse_without_tests,
    tree::{Finding, TextFile, expect_none, expect_one},
};

/// Names of one crate, and what they would let in.
struct Door {
    library: &'static str,
    names: &'static [&'static str],
    lets_in: &'static str,
}

const DOORS: &[Door] = &[
    Door {
        library: "petgraph",
        names: &[
            "articulation_points",
            "dijkstra",
            "dsatur_coloring",
            "floyd_warshall",
            "floyd_warshall_path",
            "immediately_dominated_by",
            "johnson",
            "k_shortest_path",
            "maximal_cliques",
            "parallel_johnson",
        ],
        lets_in: "hands out hash maps, and the order of those is seeded from addresses that differ from run to run",
    },
    Door {
        library: "rayon",
        names: &["ThreadPoolBuilder", "current_num_threads", "current_thread_index"],
        lets_in: "tells how many threads there are, and no answer may depend on that",
    },
    Door { library: "csv", names: &["from_path"], lets_in: "opens a file; a pure reader takes its text as &str" },
];

fn findings(file: &TextFile) -> Vec<Finding> {
    let mut search = Names { file: &file.path, findings: Vec::new() };
    search.visit_file(&parse_without_tests(file));
    search.findings
}

struct Names<'a> {
    file: &'a str,
    findings: Vec<Finding>,
}

impl Names<'_> {
    fn check(&mut self, ident: &Ident) {
        if let Some(door) = DOORS.iter().find(|door| door.names.iter().any(|name| ident == name)) {
            let at = format!("{}:{}", self.file, ident.span().start().line);
            self.findings.push(Finding::new(at, format!("{}'s {ident} {}; docs/adr/0001", door.library, door.lets_in)));
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => self.check(&ident),
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_ident(&mut self, ident: &'ast Ident) {
        self.check(ident);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.tokens(invocation.tokens.clone());
    }
}

#[test]
fn pure_crates_leave_their_dependencies_doors_shut() {
    let found: Vec<Finding> = pure_files().iter().flat_map(findings).collect();
    expect_none(&found);
}

#[test]
fn an_open_door_is_found() {
    let file = |text: &str| findings(&TextFile::new("x.rs", text));
    expect_one(&file("use petgraph::algo::{astar, dijkstra};"), "hands out hash maps");
    expect_one(&file("fn f() -> usize { rayon::current_num_threads() }"), "how many threads");
    expect_one(&file("fn f() { g(vec![csv::Reader::from_path(\"x\")]); }"), "opens a file");
    expect_none(&file("// dijkstra\nuse petgraph::graph::DiGraph; #[cfg(test)] use petgraph::algo::dijkstra;"));
}
