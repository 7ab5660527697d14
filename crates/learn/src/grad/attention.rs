//! Attention (Vaswani et al. 2017) within segments: rows attend to the rows of their own segment.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    Matrix,
    matrix::{add_scaled, dot},
};

/// What attention computed, and its weights, which gradients need: for each segment and head a square.
#[derive(Clone, Debug)]
pub(super) struct Attended {
    pub(super) out: Matrix,
    weights: Vec<Vec<f32>>,
}

/// Columns of one head.
fn head(columns: usize, heads: usize, at: usize) -> Range<usize> {
    let each = columns / heads.max(1);
    at * each..(at + 1) * each
}

fn scale(columns: usize, heads: usize) -> f32 {
    1.0 / libm::sqrtf((columns / heads.max(1)).max(1) as f32)
}

/// Queries, keys and values have the same shape, of as many columns as `heads` divide.
pub(super) fn attend(queries: &Matrix, keys: &Matrix, values: &Matrix, segments: &[Range<usize>], heads: usize) -> Attended {
    let mut out = Matrix::zeros(queries.rows, queries.columns);
    let mut weights = Vec::with_capacity(segments.len() * heads);
    let scale = scale(queries.columns, heads);
    for segment in segments {
        for at in 0..heads {
            let of = head(queries.columns, heads, at);
            let mut square = Vec::with_capacity(segment.len() * segment.len());
            for row in segment.clone() {
                let own = &queries.row(row)[of.clone()];
                let from = square.len();
                square.extend(segment.clone().map(|other| dot(own, &keys.row(other)[of.clone()]) * scale));
                soften(&mut square[from..]);
                let to = &mut out.row_mut(row)[of.clone()];
                for (weight, other) in square[from..].iter().zip(segment.clone()) {
                    add_scaled(to, *weight, &values.row(other)[of.clone()]);
                }
            }
            weights.push(square);
        }
    }
    Attended { out, weights }
}

/// Gradients of queries, keys and values, of that of what was attended.
pub(super) fn gradients(
    (queries, keys, values): (&Matrix, &Matrix, &Matrix),
    attended: &Attended,
    gradient: &Matrix,
    segments: &[Range<usize>],
    heads: usize,
) -> [Matrix; 3] {
    let zeros = || Matrix::zeros(queries.rows, queries.columns);
    let [mut to_queries, mut to_keys, mut to_values] = [zeros(), zeros(), zeros()];
    let scale = scale(queries.columns, heads);
    let squares = segments.iter().flat_map(|segment| (0..heads).map(move |at| (segment, at))).zip(&attended.weights);
    for ((segment, at), square) in squares {
        let of = head(queries.columns, heads, at);
        for (row, weights) in segment.clone().zip(square.chunks_exact(segment.len().max(1))) {
            let own = &gradient.row(row)[of.clone()];
            let slopes: Vec<f32> = segment.clone().map(|other| dot(own, &values.row(other)[of.clone()])).collect();
            let mean = dot(&slopes, weights);
            for ((weight, slope), other) in weights.iter().zip(&slopes).zip(segment.clone()) {
                add_scaled(&mut to_values.row_mut(other)[of.clone()], *weight, own);
                let through = weight * (slope - mean) * scale;
                add_scaled(&mut to_queries.row_mut(row)[of.clone()], through, &keys.row(other)[of.clone()]);
                add_scaled(&mut to_keys.row_mut(other)[of.clone()], through, &queries.row(row)[of.clone()]);
            }
        }
    }
    [to_queries, to_keys, to_values]
}

/// Softmax.
pub(crate) fn soften(row: &mut [f32]) {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|value| *value = libm::expf(*value - most));
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|value| *value /= sum);
}
