//! Links with demand, worst first.

use std::cmp::Ordering;

use proto::v1alpha1 as pb;

/// Scores closer to 1 than this are 1: what a sum loses by rounding.
const SAME: f64 = 1e-9;

/// Links with demand: links with two or more jobs by what their jobs do now, then by what they would do unshifted, then the others by how
/// full their jobs could make them. Everybody who names the worst link takes the first one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkTable {
    /// With the demand of each job.
    pub links: Vec<pb::Link>,
    /// Version of the plan that they are under.
    pub plan_version: u64,
}

impl LinkTable {
    /// Sorts.
    #[must_use]
    pub fn new(mut links: Vec<pb::Link>, plan_version: u64) -> Self {
        // A link without a score has one job and comes after all links with a score.
        let least = |x: Option<f64>, y: Option<f64>| x.unwrap_or(f64::INFINITY).total_cmp(&y.unwrap_or(f64::INFINITY));
        let order = |a: &pb::Link, b: &pb::Link| -> Ordering {
            least(now(a), now(b))
                .then(least(a.zero_shift_score, b.zero_shift_score))
                .then(b.peak_demand_ratio.total_cmp(&a.peak_demand_ratio))
                .then_with(|| a.id.cmp(&b.id))
        };
        links.sort_by(order);
        Self { links, plan_version }
    }
}

/// The score by which a link is worse than another. Turns keep jobs apart whatever their shifts would do.
fn now(link: &pb::Link) -> Option<f64> {
    link.score.map(|score| if link.apart() == pb::Apart::Turns || score >= 1.0 - SAME { 1.0 } else { score })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_link_comes_first() {
        let link = |id: &str, score, peak_demand_ratio| pb::Link { id: id.into(), score, peak_demand_ratio, ..pb::Link::default() };
        let table = LinkTable::new(
            vec![link("alone", None, 3.0), link("fine", Some(1.0), 0.5), link("bad", Some(0.7), 2.0), link("full", Some(1.0), 1.0)],
            0,
        );
        let order: Vec<&str> = table.links.iter().map(|l| l.id.as_str()).collect();
        assert_eq!(order, ["bad", "full", "fine", "alone"]);
        // Where nobody waits, the one that would be worst if nobody were kept apart.
        let by_turns = |id: &str, zero_shift_score| pb::Link {
            zero_shift_score: Some(zero_shift_score),
            apart: pb::Apart::Turns.into(),
            ..link(id, Some(0.6), 2.0)
        };
        let shifted = pb::Link { zero_shift_score: Some(0.7), ..link("shifted", Some(1.0 - 1e-12), 3.0) };
        let table = LinkTable::new(vec![by_turns("fair", 0.9), shifted, by_turns("poor", 0.5), link("bad", Some(0.99), 1.0)], 0);
        let order: Vec<&str> = table.links.iter().map(|l| l.id.as_str()).collect();
        assert_eq!(order, ["bad", "poor", "shifted", "fair"]);
    }
}
