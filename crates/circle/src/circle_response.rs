//! How the cost of one circle answers to the shift of one job, whichever way the total of the others was added up.

use crate::{
    mixed::Mixed,
    nested::{Nested, Seen},
    residue::Folded,
    response::Response,
    total::{Circle, OnCircle, Presence, Total},
};

/// How the cost of one circle answers to the shift of one job.
pub(crate) struct CircleResponse<'a> {
    /// Cost of the others.
    pub(crate) without: f64,
    scale: f64,
    others: Others<'a>,
}

/// The total of the other jobs, and the job itself.
enum Others<'a> {
    Nested(Nested, Seen),
    /// Where sums on small circles are too large.
    Swept(Response, &'a Folded),
}

impl<'a> CircleResponse<'a> {
    /// That of member `m`. The others are added up in `sums` as far as it can see them, or are swept as `presence` says.
    pub(crate) fn new(
        circle: &'a Circle,
        m: usize,
        sums: Option<(Mixed, Mixed)>,
        presence: impl Fn(usize) -> Presence,
        total: &mut Total,
    ) -> Self {
        let OnCircle { job, ref folded, .. } = circle.members[m];
        let Some((slow, fast)) = sums else {
            total.sweep(circle, |other| if other == job { Presence::Absent } else { presence(other) });
            total.work += 4 * folded.levels.len() as u64 * total.starts.len() as u64;
            let curve = Response::new(circle, total, m);
            return Self { without: curve.without * circle.weight, scale: circle.weight, others: Others::Swept(curve, folded) };
        };
        let scale = circle.perimeter as f64 * circle.weight;
        let seen = Seen::new(&Mixed::job(folded, 0).fold(slow.period));
        let nested = Nested::new(&slow, &fast, &seen, circle.capacity, &mut total.work);
        Self { without: nested.without() * scale, scale, others: Others::Nested(nested, seen) }
    }

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
