//! What is learned.

use alloc::vec::Vec;

use harmony::Draw;

use super::Matrix;

/// All matrices of a model, in the order in which its layers were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(pub(crate) Vec<Matrix>);

impl Parameters {
    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|matrix| matrix.values.len()).sum()
    }

    /// All numbers, one matrix after the other.
    pub fn values(&self) -> impl Iterator<Item = f32> + '_ {
        self.0.iter().flat_map(|matrix| matrix.values.iter().copied())
    }

    /// The same shapes with other numbers; none where their count is another, or one is not finite.
    #[must_use]
    pub fn with_values(&self, values: &[f32]) -> Option<Self> {
        if values.len() != self.count() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut rest = values.iter().copied();
        let fill = |matrix: &Matrix| Matrix { values: rest.by_ref().take(matrix.values.len()).collect(), ..*matrix };
        Some(Self(self.0.iter().map(fill).collect()))
    }

    /// As many numbers, all 0.
    pub(crate) fn zeros(&self) -> Self {
        Self(self.0.iter().map(|matrix| Matrix::zeros(matrix.rows, matrix.columns)).collect())
    }
}

/// How each matrix begins.
#[derive(Clone, Copy, Debug)]
enum Begin {
    /// Uniform, as far as keeps the size of what passes through (Glorot and Bengio 2010), times a factor.
    Spread(f64),
    /// All the same.
    All(f32),
}

/// The shapes of a model's matrices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes(Vec<(usize, usize, Begin)>);

impl Shapes {
    fn add(&mut self, rows: usize, columns: usize, begin: Begin) -> usize {
        self.0.push((rows, columns, begin));
        self.0.len() - 1
    }

    /// Weights and bias of a layer: the place of the first; the second follows.
    pub(crate) fn linear(&mut self, inputs: usize, outputs: usize) -> usize {
        let at = self.add(inputs, outputs, Begin::Spread(1.0));
        self.add(1, outputs, Begin::All(0.0));
        at
    }

    /// The same, of a last layer: small, so that a model begins without an opinion.
    pub(crate) fn last(&mut self, inputs: usize, outputs: usize) -> usize {
        const SMALL: f64 = 0.1;
        let at = self.add(inputs, outputs, Begin::Spread(SMALL));
        self.add(1, outputs, Begin::All(0.0));
        at
    }

    /// Gain and bias of a norm.
    pub(crate) fn norm(&mut self, columns: usize) -> usize {
        let at = self.add(1, columns, Begin::All(1.0));
        self.add(1, columns, Begin::All(0.0));
        at
    }

    /// How they begin, from a seed.
    pub(crate) fn begin(&self, draw: &mut Draw) -> Parameters {
        let matrix = |(rows, columns, begin): &(usize, usize, Begin)| {
            let mut matrix = Matrix::zeros(*rows, *columns);
            let bound = libm::sqrt(6.0 / (rows + columns).max(1) as f64);
            for value in &mut matrix.values {
                *value = match begin {
                    Begin::Spread(factor) => (factor * bound * (2.0 * draw.uniform() - 1.0)) as f32,
                    Begin::All(value) => *value,
                };
            }
            matrix
        };
        Parameters(self.0.iter().map(matrix).collect())
    }
}
