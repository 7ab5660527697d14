//! How the cost of one circle answers to the shift of one job, whichever way the total of the others was added up.

use crate::{
    nested::{Nested, Seen},
    residue::Folded,
    response::Response,
};

/// How the cost of one circle answers to the shift of one job.
pub(crate) struct CircleResponse<'a> {
    /// Cost of the others.
    pub(crate) without: f64,
    pub(crate) scale: f64,
    pub(crate) curve: Curve<'a>,
}

pub(crate) enum Curve<'a> {
    Nested(Nested, Seen),
    /// Where sums on small circles are too large.
    Swept(Response, &'a Folded),
}

impl CircleResponse<'_> {
    pub(crate) fn at(&self, shift: u64) -> f64 {
        self.scale
            * match &self.curve {
                Curve::Nested(nested, seen) => nested.at(seen, shift),
                Curve::Swept(response, folded) => response.at(folded, shift),
            }
    }

    /// Work of one lookup.
    pub(crate) fn work(&self) -> u64 {
        crate::exact::LOOKUP_WORK
            * match &self.curve {
                Curve::Nested(_, seen) => seen.spans.len() as u64,
                Curve::Swept(_, folded) => folded.spans.len() as u64,
            }
    }
}
