//! Matrices of single precision, row by row.

use alloc::vec::Vec;

/// A matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Matrix {
    /// Rows.
    pub(crate) rows: usize,
    /// Columns.
    pub(crate) columns: usize,
    /// Values, row by row; as many as rows times columns.
    pub(crate) values: Vec<f32>,
}

impl Matrix {
    /// All 0.
    #[must_use]
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, values: alloc::vec![0.0; rows * columns] }
    }

    /// Of rows that are given one after the other; what is left over of the last is left out.
    #[must_use]
    pub(crate) fn of(columns: usize, mut values: Vec<f32>) -> Self {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        values.truncate(rows * columns);
        Self { rows, columns, values }
    }

    /// One row.
    #[must_use]
    pub(crate) fn row(&self, at: usize) -> &[f32] {
        self.values.get(at * self.columns..(at + 1) * self.columns).unwrap_or_default()
    }

    /// One row, to change it.
    pub(crate) fn row_mut(&mut self, at: usize) -> &mut [f32] {
        self.values.get_mut(at * self.columns..(at + 1) * self.columns).unwrap_or_default()
    }

    /// All rows; none where there are no columns.
    pub(crate) fn each_row(&self) -> core::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.columns.max(1))
    }

    /// Rows as columns.
    pub(crate) fn transposed(&self) -> Self {
        let mut turned = Self::zeros(self.columns, self.rows);
        for (r, row) in self.each_row().enumerate() {
            for (c, value) in row.iter().enumerate() {
                turned.values[c * self.rows + r] = *value;
            }
        }
        turned
    }

    /// Adds the product of `a` and `b`, whose shapes fit.
    pub(crate) fn add_product(&mut self, a: &Self, b: &Self) {
        for (own, row) in self.values.chunks_exact_mut(self.columns.max(1)).zip(a.each_row()) {
            for (at, factors) in row.chunks(AT_ONCE).enumerate() {
                add_rows(own, factors, |n| b.row(at * AT_ONCE + n));
            }
        }
    }

    /// Adds the product of `a` with rows as columns, and `b`.
    pub(crate) fn add_transposed_product(&mut self, a: &Self, b: &Self) {
        for from in (0..a.rows).step_by(AT_ONCE) {
            let some = AT_ONCE.min(a.rows - from);
            for (column, own) in self.values.chunks_exact_mut(self.columns.max(1)).enumerate() {
                let mut factors = [0.0; AT_ONCE];
                factors.iter_mut().enumerate().take(some).for_each(|(n, factor)| *factor = a.row(from + n)[column]);
                add_rows(own, &factors[..some], |n| b.row(from + n));
            }
        }
    }
}

/// Rows that are added together: the sum is then read and written once for all of them.
const AT_ONCE: usize = 4;

/// Adds so much of each of at most [`AT_ONCE`] rows.
fn add_rows<'a>(to: &mut [f32], factors: &[f32], row: impl Fn(usize) -> &'a [f32]) {
    // Many inputs are 0: kinds, and what a rectifier held back.
    if factors.iter().all(|factor| *factor == 0.0) {
        return;
    }
    if let [a, b, c, d] = *factors {
        let rows = row(0).iter().zip(row(1)).zip(row(2).iter().zip(row(3)));
        to.iter_mut().zip(rows).for_each(|(to, ((x, y), (z, w)))| *to += (a * x + b * y) + (c * z + d * w));
        return;
    }
    factors.iter().enumerate().for_each(|(n, factor)| add_scaled(to, *factor, row(n)));
}

/// `to += factor * from`.
pub(crate) fn add_scaled(to: &mut [f32], factor: f32, from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
}

/// The sum of products. Eight sums at a time, which the compiler keeps in vectors, added in one order.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0_f32; LANES];
    let (a_whole, b_whole) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_whole.remainder().iter().zip(b_whole.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_whole.zip(b_whole) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}
