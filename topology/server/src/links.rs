//! Links with demand, worst first.

use proto::v1alpha1 as pb;

/// Links with demand: links with two or more jobs by score, then the others by how full their jobs could make them.
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
        let order = |a: &pb::Link, b: &pb::Link| {
            // A link without a score has one job and comes after all links with a score.
            let (x, y) = (a.score.unwrap_or(f64::INFINITY), b.score.unwrap_or(f64::INFINITY));
            x.total_cmp(&y).then(b.peak_demand_ratio.total_cmp(&a.peak_demand_ratio)).then_with(|| a.id.cmp(&b.id))
        };
        links.sort_by(order);
        Self { links, plan_version }
    }
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
    }
}
