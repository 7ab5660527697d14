//! A marginal cost as what it is made of: step functions around a circle, under the spans of the job.

use super::folded::Span;

/// What one level of a job costs from each break on, around a circle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps<'a> {
    pub(crate) period: u64,
    /// Ascending; the first is 0.
    pub(crate) breaks: &'a [u64],
    /// By break and level.
    pub(crate) rate: &'a [f64],
    /// Levels in a row of `rate`, and the first of them as spans count.
    pub(crate) levels: usize,
    pub(crate) first_level: usize,
}

impl Steps<'_> {
    pub(crate) fn at(&self, index: usize, level: u32) -> f64 {
        self.rate[index * self.levels + level as usize - self.first_level]
    }

    pub(crate) fn index(&self, at: u64) -> usize {
        self.breaks.partition_point(|&b| b <= at) - 1
    }
}

/// One circle of the job: the step functions, the job's spans, and what a tick of them counts.
pub(crate) struct Part<'a> {
    pub(crate) steps: Steps<'a>,
    pub(crate) spans: &'a [Span],
    pub(crate) scale: f64,
}
