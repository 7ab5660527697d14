//! A Transformer encoder (Vaswani et al. 2017), with norms before the parts of a layer.

use alloc::vec::Vec;
use core::ops::Range;

use crate::grad::{Node, Shapes, Tape};

/// Numbers by which a row is known.
pub(super) const WIDTH: usize = 32;
/// Heads of attention.
const HEADS: usize = 4;
/// Width between the two parts of a layer behind attention.
const INNER: usize = 64;

/// Where the weights of a layer are.
#[derive(Clone, Copy, Debug)]
struct Layer {
    before_attention: usize,
    of: [usize; 3],
    out: usize,
    before_inner: usize,
    inner: usize,
    outer: usize,
}

impl Layer {
    fn new(shapes: &mut Shapes) -> Self {
        Self {
            before_attention: shapes.norm(WIDTH),
            of: [(); 3].map(|()| shapes.linear(WIDTH, WIDTH)),
            out: shapes.linear(WIDTH, WIDTH),
            before_inner: shapes.norm(WIDTH),
            inner: shapes.linear(WIDTH, INNER),
            outer: shapes.linear(INNER, WIDTH),
        }
    }
}

/// Where the weights of an encoder are.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    embed: usize,
    layers: Vec<Layer>,
}

impl Encoder {
    pub(super) fn new(shapes: &mut Shapes, inputs: usize, layers: usize) -> Self {
        Self { embed: shapes.linear(inputs, WIDTH), layers: (0..layers).map(|_| Layer::new(shapes)).collect() }
    }

    /// Rows that know of the others of their segment.
    pub(super) fn encode(&self, tape: &mut Tape<'_>, rows: Node, segments: &[Range<usize>]) -> Node {
        let mut x = tape.linear(rows, self.embed);
        for layer in &self.layers {
            let even = tape.norm(x, layer.before_attention);
            let of = layer.of.map(|at| tape.linear(even, at));
            let attended = tape.attend(of, segments, HEADS);
            let out = tape.linear(attended, layer.out);
            x = tape.add(x, out);
            let even = tape.norm(x, layer.before_inner);
            let inner = tape.linear(even, layer.inner);
            let inner = tape.rectify(inner);
            let outer = tape.linear(inner, layer.outer);
            x = tape.add(x, outer);
        }
        x
    }
}
