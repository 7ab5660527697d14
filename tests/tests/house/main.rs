//! The house rules, checked. ARCHITECTURE.md states them for people; these tests enforce them.
//!
//! Every rule is a function from facts to a list of findings, and has two tests: one that the
//! checkout has no finding, and one that a made-up violation has, so that no rule can rot into
//! a test that always passes. Each finding says where it is and what to do.
#![forbid(unsafe_code)]

mod cargo;
mod cycles;
mod dependencies;
mod doors;
mod foreign_names;
mod fragments;
mod links;
mod lints;
mod modules;
mod once;
mod pictures;
mod production;
mod promises;
mod purity;
mod rooms;
mod runbooks;
mod size;
mod source;
mod tree;
mod vocabulary;
