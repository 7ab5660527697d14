//! How the cost of one circle answers to the shift of one job, whichever way the total of the others was added up.

use num_integer::Integer as _;

use super::{
    circle::{Circle, OnCircle},
    distribution::DemandDistribution,
    folded::Folded,
    layered::{LayeredMarginal, Seen},
    steps::Part,
    sum::{Presence, Workspace},
    swept::SweptMarginal,
};

/// Work of the two lookups of one span, in units of 10 ns, where breaks are many.
pub(crate) const LOOKUP_WORK: u64 = 4;

/// How the cost of one circle answers to the shift of one job.
pub(crate) struct CircleMarginal<'a> {
    /// Cost of the others.
    pub(crate) without: f64,
    scale: f64,
    others: Others<'a>,
}

/// The total of the other jobs, and the job itself.
enum Others<'a> {
    Layered(LayeredMarginal, Seen),
    /// Where sums on small circles are too large.
    Swept(SweptMarginal, &'a Folded),
}

impl<'a> CircleMarginal<'a> {
    /// The marginal cost of member `m`. The others are added up in `sums` as far as `m` can see them, or are swept as `presence` says.
    pub(crate) fn new(
        circle: &'a Circle,
        m: usize,
        sums: Option<(DemandDistribution, DemandDistribution)>,
        presence: impl Fn(usize) -> Presence,
        workspace: &mut Workspace,
    ) -> Self {
        let OnCircle { job, ref folded, .. } = circle.members[m];
        let Some((slow, fast)) = sums else {
            let Workspace { sum, budget } = workspace;
            // The job itself is out of the total also where `presence` counts its floor.
            sum.sweep(circle, |other| if other == job { Presence::Absent } else { presence(other) }, budget);
            // One excess for each level and piece, and a few steps to fold and integrate them.
            budget.charge(folded.levels.len() as u64 * (3 * sum.starts.len() as u64 + sum.terms(circle)));
            let curve = SweptMarginal::new(circle, sum, m);
            return Self { without: curve.without * circle.weight, scale: circle.weight, others: Others::Swept(curve, folded) };
        };
        // Layered curves are means and swept ones are sums over ticks; the perimeter makes the same of both.
        let scale = circle.perimeter as f64 * circle.weight;
        // Given the place on the circle of the total, all that is known of the job is its place modulo the gcd of both periods
        // (docs/model.md, section 2): on the circle of the total the job repeats with that gcd.
        let common = slow.period.gcd(&folded.period);
        let seen = Seen::new(&DemandDistribution::job(folded, 0).fold(common).repeated(slow.period / common));
        let layered = LayeredMarginal::new(&slow, &fast, &seen, circle, &mut workspace.budget);
        Self { without: layered.without() * scale, scale, others: Others::Layered(layered, seen) }
    }

    pub(crate) fn at(&self, shift: u64) -> f64 {
        self.scale
            * match &self.others {
                Others::Layered(layered, seen) => layered.at(seen, shift),
                Others::Swept(response, folded) => response.at(folded, shift),
            }
    }

    /// The cost as step functions under the spans of the job, for `super::minimum`; `None` where it has two layers that both change.
    pub(crate) fn part(&self) -> Option<Part<'_>> {
        Some(match &self.others {
            Others::Layered(layered, seen) => {
                let steps = layered.steps()?;
                Part { scale: self.scale / steps.period as f64, steps, spans: &seen.spans }
            }
            Others::Swept(swept, folded) => Part { scale: self.scale, steps: swept.steps(), spans: &folded.spans },
        })
    }

    /// Work of one lookup.
    pub(crate) fn work(&self) -> u64 {
        LOOKUP_WORK
            * match &self.others {
                Others::Layered(_, seen) => seen.spans.len() as u64,
                Others::Swept(_, folded) => folded.spans.len() as u64,
            }
    }
}
