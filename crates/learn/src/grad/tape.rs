//! What was computed, in order, so that gradients can be computed back.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    Matrix, Parameters,
    attention::{Attended, attend, gradients},
    matrix::{add_scaled, dot},
};

/// Something that was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(usize);

/// A term of a sum of rows: so much of that row goes into that one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) weight: f32,
}

/// Below, a row has no spread.
const SPREAD_MIN: f32 = 1e-5;

#[derive(Debug)]
enum Step {
    Given,
    Parameter(usize),
    Linear {
        x: Node,
        weights: usize,
    },
    Add(Node, Node),
    Rectify(Node),
    /// Rows with mean 0 and spread 1, of which each remembers how much it was spread.
    Norm {
        x: Node,
        gain: usize,
        even: Matrix,
        spreads: Vec<f32>,
    },
    Attend {
        of: [Node; 3],
        segments: Vec<Range<usize>>,
        heads: usize,
        attended: Attended,
    },
    Sum {
        x: Node,
        entries: Vec<Entry>,
    },
    Join(Vec<Node>),
    /// The largest of some rows, column by column, and which it was.
    Largest {
        x: Node,
        which: Vec<usize>,
    },
}

/// A computation over some parameters.
#[derive(Debug)]
pub(crate) struct Tape<'a> {
    parameters: &'a Parameters,
    steps: Vec<(Step, Matrix)>,
}

impl<'a> Tape<'a> {
    pub(crate) fn new(parameters: &'a Parameters) -> Self {
        Self { parameters, steps: Vec::new() }
    }

    /// What was computed.
    pub(crate) fn value(&self, Node(at): Node) -> &Matrix {
        &self.steps[at].1
    }

    fn push(&mut self, step: Step, value: Matrix) -> Node {
        self.steps.push((step, value));
        Node(self.steps.len() - 1)
    }

    fn parameter_at(&self, at: usize) -> &'a Matrix {
        &self.parameters.0[at]
    }

    /// Input.
    pub(crate) fn given(&mut self, value: Matrix) -> Node {
        self.push(Step::Given, value)
    }

    /// A parameter as it is.
    #[allow(dead_code, reason = "tests of gradients begin with one")]
    pub(crate) fn parameter(&mut self, at: usize) -> Node {
        let value = self.parameter_at(at).clone();
        self.push(Step::Parameter(at), value)
    }

    /// `x` times the weights at that place, plus the bias behind them.
    pub(crate) fn linear(&mut self, x: Node, weights: usize) -> Node {
        let (w, bias) = (self.parameter_at(weights), self.parameter_at(weights + 1));
        let rows = self.value(x).rows;
        let mut y = Matrix { rows, columns: w.columns, values: bias.values.repeat(rows) };
        y.add_product(self.value(x), w);
        self.push(Step::Linear { x, weights }, y)
    }

    pub(crate) fn add(&mut self, a: Node, b: Node) -> Node {
        let mut y = self.value(a).clone();
        add_scaled(&mut y.values, 1.0, &self.value(b).values);
        self.push(Step::Add(a, b), y)
    }

    pub(crate) fn rectify(&mut self, x: Node) -> Node {
        let mut y = self.value(x).clone();
        y.values.iter_mut().for_each(|value| *value = value.max(0.0));
        self.push(Step::Rectify(x), y)
    }

    /// Rows with mean 0 and spread 1, times the gain at that place, plus the bias behind it.
    pub(crate) fn norm(&mut self, x: Node, gain: usize) -> Node {
        let mut even = self.value(x).clone();
        let columns = even.columns.max(1) as f32;
        let mut spreads = Vec::with_capacity(even.rows);
        for row in even.values.chunks_exact_mut(even.columns.max(1)) {
            let mean = row.iter().sum::<f32>() / columns;
            row.iter_mut().for_each(|value| *value -= mean);
            let spread = libm::sqrtf(dot(row, row) / columns + SPREAD_MIN);
            row.iter_mut().for_each(|value| *value /= spread);
            spreads.push(spread);
        }
        let mut y = even.clone();
        let (factor, bias) = (self.parameter_at(gain), self.parameter_at(gain + 1));
        for row in y.values.chunks_exact_mut(even.columns.max(1)) {
            row.iter_mut().zip(&factor.values).zip(&bias.values).for_each(|((value, factor), bias)| *value = *value * factor + bias);
        }
        self.push(Step::Norm { x, gain, even, spreads }, y)
    }

    /// Attention of queries, keys and values within segments of rows.
    pub(crate) fn attend(&mut self, of: [Node; 3], segments: &[Range<usize>], heads: usize) -> Node {
        let [queries, keys, values] = of.map(|node| self.value(node));
        let attended = attend(queries, keys, values, segments, heads);
        let y = attended.out.clone();
        self.push(Step::Attend { of, segments: segments.to_vec(), heads, attended }, y)
    }

    /// Sums of rows of `x`.
    pub(crate) fn sum(&mut self, x: Node, rows: usize, entries: Vec<Entry>) -> Node {
        let from = self.value(x);
        let mut y = Matrix::zeros(rows, from.columns);
        for entry in &entries {
            add_scaled(y.row_mut(entry.to), entry.weight, from.row(entry.from));
        }
        self.push(Step::Sum { x, entries }, y)
    }

    /// Columns side by side.
    pub(crate) fn join(&mut self, parts: &[Node]) -> Node {
        let columns = parts.iter().map(|part| self.value(*part).columns).sum();
        let rows = parts.first().map_or(0, |part| self.value(*part).rows);
        let mut y = Matrix { rows, columns, values: Vec::with_capacity(rows * columns) };
        for row in 0..rows {
            parts.iter().for_each(|part| y.values.extend_from_slice(self.value(*part).row(row)));
        }
        self.push(Step::Join(parts.to_vec()), y)
    }

    /// Row by row the largest of those rows of `x`, of which each row has one at least.
    pub(crate) fn largest(&mut self, x: Node, of: &[Vec<usize>]) -> Node {
        let from = self.value(x);
        let mut y = Matrix::zeros(of.len(), from.columns);
        let mut which = Vec::with_capacity(of.len() * from.columns);
        for (to, rows) in of.iter().enumerate() {
            for column in 0..from.columns {
                let first = rows.first().copied().unwrap_or(0);
                let best =
                    rows.iter().copied().fold(first, |best, row| if from.row(row)[column] > from.row(best)[column] { row } else { best });
                y.row_mut(to)[column] = from.row(best)[column];
                which.push(best);
            }
        }
        self.push(Step::Largest { x, which }, y)
    }

    /// The gradient of the parameters, of those of some nodes.
    pub(crate) fn back(&self, from: Vec<(Node, Matrix)>) -> Parameters {
        let mut gradients: Vec<Option<Matrix>> = self.steps.iter().map(|_| None).collect();
        from.into_iter().for_each(|(Node(at), gradient)| gradients[at] = Some(gradient));
        let mut found = self.parameters.zeros();
        for (at, (step, _)) in self.steps.iter().enumerate().rev() {
            let Some(gradient) = gradients[at].take() else { continue };
            self.back_step(step, gradient, &mut gradients, &mut found);
        }
        found
    }

    fn back_step(&self, step: &Step, gradient: Matrix, to: &mut [Option<Matrix>], found: &mut Parameters) {
        match step {
            Step::Given => {}
            Step::Parameter(at) => add_scaled(&mut found.0[*at].values, 1.0, &gradient.values),
            Step::Linear { x, weights } => {
                found.0[*weights].add_transposed_product(self.value(*x), &gradient);
                gradient.each_row().for_each(|row| add_scaled(&mut found.0[*weights + 1].values, 1.0, row));
                if !matches!(self.steps[x.0].0, Step::Given) {
                    self.slot(to, *x).add_product(&gradient, &self.parameter_at(*weights).transposed());
                }
            }
            Step::Add(a, b) => [a, b].into_iter().for_each(|x| add_scaled(&mut self.slot(to, *x).values, 1.0, &gradient.values)),
            Step::Rectify(x) => {
                let let_through = self.value(*x).values.iter().map(|value| f32::from(u8::from(*value > 0.0)));
                let slot = self.slot(to, *x);
                slot.values.iter_mut().zip(&gradient.values).zip(let_through).for_each(|((own, g), through)| *own += g * through);
            }
            Step::Norm { x, gain, even, spreads } => self.back_norm((*x, *gain, even, spreads), &gradient, to, found),
            Step::Attend { of, segments, heads, attended } => {
                let [queries, keys, values] = of.map(|node| self.value(node));
                let parts = gradients((queries, keys, values), attended, &gradient, segments, *heads);
                of.iter().zip(&parts).for_each(|(x, part)| add_scaled(&mut self.slot(to, *x).values, 1.0, &part.values));
            }
            Step::Sum { x, entries } => {
                let slot = self.slot(to, *x);
                entries.iter().for_each(|e| add_scaled(slot.row_mut(e.from), e.weight, gradient.row(e.to)));
            }
            Step::Join(parts) => {
                let mut from = 0;
                for part in parts {
                    let columns = self.value(*part).columns;
                    let slot = self.slot(to, *part);
                    (0..gradient.rows).for_each(|row| add_scaled(slot.row_mut(row), 1.0, &gradient.row(row)[from..from + columns]));
                    from += columns;
                }
            }
            Step::Largest { x, which } => {
                let slot = self.slot(to, *x);
                for (n, (row, value)) in which.iter().zip(&gradient.values).enumerate() {
                    slot.row_mut(*row)[n % gradient.columns.max(1)] += value;
                }
            }
        }
    }

    fn back_norm(
        &self,
        (x, gain, even, spreads): (Node, usize, &Matrix, &[f32]),
        gradient: &Matrix,
        to: &mut [Option<Matrix>],
        found: &mut Parameters,
    ) {
        let factor = self.parameter_at(gain);
        let columns = even.columns.max(1) as f32;
        let slot = self.slot(to, x);
        for (row, spread) in spreads.iter().enumerate() {
            let (own, even) = (gradient.row(row), even.row(row));
            found.0[gain].values.iter_mut().zip(own).zip(even).for_each(|((f, g), e)| *f += g * e);
            add_scaled(&mut found.0[gain + 1].values, 1.0, own);
            let slopes: Vec<f32> = own.iter().zip(&factor.values).map(|(g, factor)| g * factor).collect();
            let (mean, along) = (slopes.iter().sum::<f32>() / columns, dot(&slopes, even) / columns);
            slot.row_mut(row).iter_mut().zip(&slopes).zip(even).for_each(|((to, s), e)| *to += (s - mean - e * along) / spread);
        }
    }

    fn slot<'b>(&self, to: &'b mut [Option<Matrix>], Node(at): Node) -> &'b mut Matrix {
        let value = &self.steps[at].1;
        to[at].get_or_insert_with(|| Matrix::zeros(value.rows, value.columns))
    }
}

#[cfg(test)]
mod tests {
    use harmony::Draw;

    use super::*;
    use crate::grad::Shapes;

    /// Everything once: two segments of rows, of which some are summed and the largest taken.
    fn compute(parameters: &Parameters) -> (Tape<'_>, Node) {
        let mut tape = Tape::new(parameters);
        let begin = tape.parameter(0);
        let x = tape.linear(begin, 2);
        let even = tape.norm(x, 4);
        let of = [6, 8, 10].map(|at| tape.linear(even, at));
        let attended = tape.attend(of, &[0..2, 2..5], 2);
        let x = tape.add(x, attended);
        let entry = |to, from, weight| Entry { to, from, weight };
        let summed = tape.sum(x, 5, vec![entry(0, 1, 0.5), entry(0, 3, 2.0), entry(4, 4, -1.0), entry(2, 0, 1.0)]);
        let joined = tape.join(&[x, summed]);
        let y = tape.linear(joined, 12);
        let y = tape.rectify(y);
        let y = tape.largest(y, &[vec![0, 1], vec![2, 3, 4]]);
        (tape, y)
    }

    #[test]
    fn gradients_are_those_of_small_differences() {
        let mut shapes = Shapes::default();
        // Place 0 is the input: five rows of three; the bias that comes with it is not used.
        shapes.linear(5, 3);
        shapes.linear(3, 4);
        shapes.norm(4);
        (0..3).for_each(|_| _ = shapes.linear(4, 4));
        shapes.linear(8, 3);
        let mut parameters = shapes.begin(&mut Draw::new(3, 0));
        // Gains and biases other than 1 and 0, or their gradients would hide mistakes.
        let mut draw = Draw::new(4, 0);
        parameters.0.iter_mut().filter(|m| m.rows == 1).for_each(|m| m.values.iter_mut().for_each(|v| *v += 0.3 * draw.normal() as f32));
        let slopes: Vec<f32> = (0..6).map(|_| draw.normal() as f32).collect();
        let value = |parameters: &Parameters| {
            let (tape, y) = compute(parameters);
            f64::from(dot(&tape.value(y).values, &slopes))
        };
        let (tape, y) = compute(&parameters);
        let found = tape.back(vec![(y, Matrix::of(3, slopes.clone()))]);
        // Single precision allows differences of about 1e-3.
        const STEP: f32 = 1e-2;
        let mut off = 0;
        for at in 0..parameters.0.len() {
            for n in 0..parameters.0[at].values.len() {
                let moved = |by: f32| {
                    let mut moved = parameters.clone();
                    moved.0[at].values[n] += by;
                    value(&moved)
                };
                let expected = (moved(STEP) - moved(-STEP)) / f64::from(2.0 * STEP);
                off += usize::from((expected - f64::from(found.0[at].values[n])).abs() > 0.03 * (1.0 + expected.abs()));
            }
        }
        // A step may cross the corner of a rectifier or of a largest row, where no slope is right.
        assert!(off <= 3, "{off} of {} differ", parameters.count());
        assert!(found.values().filter(|g| *g != 0.0).count() > parameters.count() / 2);
    }
}
