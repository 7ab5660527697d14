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
    pub(crate) others: Others<'a>,
}

/// The total of the other jobs, and the job itself.
pub(crate) enum Others<'a> {
    Nested(Nested, Seen),
    /// Where sums on small circles are too large.
    Swept(Response, &'a Folded),
}

impl CircleResponse<'_> {
    pub(crate) fn at(&self, shift: u64) -> f64 {
        self.scale
            * match &self.others {
                Others::Nested(nested, seen) => nested.at(seen, shift),
                Others::Swept(response, folded) => response.at(folded, shift),
            }
    }

    /// Work of one lookup.
    pub(crate) fn work(&self) -> u64 {
        crate::exact::LOOKUP_WORK
            * match &self.others {
                Others::Nested(_, seen) => seen.spans.len() as u64,
                Others::Swept(_, folded) => folded.spans.len() as u64,
            }
    }
}
