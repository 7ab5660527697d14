//! Matrices, what is computed of them, and the gradients of it.
//!
//! Additions stand in one order and functions come from `libm` in software, so that a seed gives the same weights on every machine
//! (docs/adr/0010 says why this is here and not a library).

mod adam;
mod attention;
mod matrix;
mod parameters;
mod tape;

pub(crate) use adam::{Adam, Rate};
pub(crate) use matrix::Matrix;
pub use parameters::Parameters;
pub(crate) use parameters::Shapes;
pub(crate) use tape::{Entry, Node, Tape};
