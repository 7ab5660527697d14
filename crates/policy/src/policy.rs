//! Which jobs start, in which order, and on which NICs.
//!
//! The rules, for every policy of today. Running jobs stay where they are. Waiting jobs are put in order; the first starts if its
//! GPUs are free, then the second, until one does not fit: nobody overtakes, so a large job is not starved by small ones. The jobs
//! that start are placed in that order, each on one leaf if one has room (the leaf with the least room that is enough), and else from a
//! first leaf on over as many as it takes. Candidates differ in that first leaf and in which of the leaves that are enough is
//! taken, so a planner can choose among places that cost the scheduler the same.

use alloc::{format, vec::Vec};

use fabric::collective::Endpoint;
use job::{Candidate, Placement};
use units::{JobId, Nanos};

use crate::{
    free::FreeNics,
    view::{ClusterView, JobView},
};

/// In which order waiting jobs start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// First in, first out.
    #[default]
    Fifo,
    /// Shortest remaining time first, counted alone; of equal ones the earlier.
    Srtf,
}

/// A job that starts, and why now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The job.
    pub job: JobId,
    /// How long it has waited.
    pub waited: Nanos,
    /// Jobs that were before it in the order.
    pub before: usize,
}

/// The proposal of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    /// The jobs that start, in order.
    pub starts: Vec<Choice>,
    /// The first that does not fit, and the GPUs that were free when its turn came; `None` when all start.
    pub blocked: Option<(JobId, u32)>,
    /// Placements of all jobs that start, no two alike; none when no job starts. The first is the most compact.
    pub candidates: Vec<Candidate>,
}

impl Policy {
    /// Proposes which waiting jobs start at `now`, and up to `n` placements of them.
    #[must_use]
    pub fn propose(self, now: Nanos, view: &ClusterView<'_>, n: usize) -> Proposal {
        let mut free = FreeNics::new(view.fabric);
        // Running jobs stay where they are, so their NICs are not free.
        view.jobs.iter().flat_map(|job| &job.placement.ranks).for_each(|nic| free.remove(*nic));
        // A job without GPUs takes no NIC, so there is nothing to place.
        let mut waiting: Vec<&JobView> = view.jobs.iter().filter(|job| job.placement.ranks.is_empty() && job.gpus > 0).collect();
        waiting.sort_by_key(|job| self.key(job));
        let mut out = Proposal::default();
        let (mut left, mut sizes) = (free.count, Vec::new());
        for (before, job) in waiting.iter().enumerate() {
            if job.gpus as usize > left {
                // Jobs never overtake: those behind the first that does not fit wait as well.
                out.blocked = Some((job.id, u32::try_from(left).unwrap_or(u32::MAX)));
                break;
            }
            left -= job.gpus as usize;
            sizes.push((job.id, job.gpus as usize));
            // A job with a later submission than `now` has not waited.
            out.starts.push(Choice { job: job.id, waited: Nanos(now.0.saturating_sub(job.submitted.0)), before });
        }
        if sizes.is_empty() {
            return out;
        }
        // Each turn begins one leaf further on, with as many turns as there are leaves.
        for turn in 0..free.leaves.len() {
            if out.candidates.len() >= n {
                break;
            }
            // The sizes fit together (`left`), so a placement always exists.
            let Some(placements) = place(free.clone(), &sizes, turn) else { break };
            if out.candidates.iter().all(|c| c.placements != placements) {
                out.candidates.push(Candidate { id: format!("{self}-{}", out.candidates.len()), placements });
            }
        }
        out
    }

    /// The key by which jobs are ordered; the id makes the order total.
    fn key(self, job: &JobView) -> (Nanos, Nanos, JobId) {
        match self {
            Self::Fifo => (job.submitted, Nanos(0), job.id),
            Self::Srtf => (job.remaining, job.submitted, job.id),
        }
    }
}

impl core::fmt::Display for Policy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Srtf => "srtf",
        })
    }
}

/// Places jobs of these sizes, the first leaf and the choice among leaves that are enough `turn` further on.
fn place(mut free: FreeNics, sizes: &[(JobId, usize)], turn: usize) -> Option<Vec<(JobId, Placement)>> {
    let mut out = Vec::with_capacity(sizes.len());
    for &(job, size) in sizes {
        let ranks = on_one_leaf(&mut free, size, turn).or_else(|| free.take(size, turn))?;
        out.push((job, Placement { ranks }));
    }
    Some(out)
}

fn on_one_leaf(free: &mut FreeNics, size: usize, turn: usize) -> Option<Vec<Endpoint>> {
    let mut enough: Vec<(usize, usize)> = free.leaves.iter().map(Vec::len).zip(0..).filter(|(room, _)| *room >= size).collect();
    // The tightest leaf comes first, so large holes stay for large jobs; the leaf's number breaks a tie.
    enough.sort_unstable();
    let (_, leaf) = *enough.get(turn.checked_rem(enough.len())?)?;
    free.take(size, leaf)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fabric::generate::{Clos2, clos2};
    use units::Rate;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn fabric() -> fabric::Fabric {
        let rate = Rate(50_000);
        clos2(&Clos2 { leaves: 4, spines: 2, hosts_per_leaf: 4, host_rate: rate, uplink_rate: rate, uplinks: 1 }).unwrap()
    }

    fn job(id: u32, gpus: u32, submitted: u64, remaining: u64) -> JobView {
        let placement = Placement::default();
        JobView { id: JobId(id), gpus, submitted: Nanos(submitted * SECOND), remaining: Nanos(remaining * SECOND), placement }
    }

    fn started(proposal: &Proposal) -> Vec<u32> {
        proposal.starts.iter().map(|c| c.job.0).collect()
    }

    #[test]
    fn jobs_start_in_the_order_of_the_policy_and_nobody_overtakes() {
        let fabric = fabric();
        let view = ClusterView { fabric: &fabric, jobs: vec![job(0, 8, 3, 50), job(1, 6, 1, 90), job(2, 4, 2, 10), job(3, 1, 4, 70)] };
        let now = Nanos(10 * SECOND);
        // 16 NICs: 6 and 4 start, 8 do not fit any more, and the last one waits behind them.
        let fifo = Policy::Fifo.propose(now, &view, 1);
        assert_eq!((started(&fifo), fifo.blocked), (vec![1, 2], Some((JobId(0), 6))));
        assert_eq!(fifo.starts[1], Choice { job: JobId(2), waited: Nanos(8 * SECOND), before: 1 });
        let srtf = Policy::Srtf.propose(now, &view, 1);
        assert_eq!((started(&srtf), srtf.blocked), (vec![2, 0, 3], Some((JobId(1), 3))));
        assert_eq!(Policy::Fifo.propose(now, &ClusterView { jobs: vec![job(0, 17, 0, 1)], ..view.clone() }, 3).candidates, []);
    }

    #[test]
    fn candidates_differ_share_no_nic_and_leave_running_jobs_alone() {
        let fabric = fabric();
        let mut running = job(9, 3, 0, 5);
        let nic = |host: &str| Endpoint { host: fabric.find(host).unwrap(), rail: 0 };
        running.placement.ranks = ["h1", "h2", "h5"].map(nic).to_vec();
        let view = ClusterView { fabric: &fabric, jobs: vec![job(0, 2, 1, 1), running.clone(), job(1, 4, 2, 1), job(2, 5, 3, 1)] };
        let found = Policy::Fifo.propose(Nanos(0), &view, 10);
        assert_eq!(started(&found), [0, 1, 2]);
        assert!(found.candidates.len() > 2);
        let distinct: BTreeSet<_> = found.candidates.iter().map(|c| c.placements.clone()).collect();
        assert_eq!(distinct.len(), found.candidates.len());
        for candidate in &found.candidates {
            let mut nics: Vec<Endpoint> = candidate.placements.iter().flat_map(|(_, p)| p.ranks.clone()).collect();
            nics.extend(&running.placement.ranks);
            assert_eq!(nics.iter().collect::<BTreeSet<_>>().len(), 2 + 4 + 5 + 3, "{candidate:?}");
            assert_eq!(candidate.placements.iter().map(|(j, p)| (j.0, p.ranks.len())).collect::<Vec<_>>(), [(0, 2), (1, 4), (2, 5)]);
        }
        // Two ranks fill what is left of the first leaf, four take a leaf of their own.
        let leaf = |nic: &Endpoint| fabric.link(fabric.links_from(nic.host)[0]).to.node;
        let first = &found.candidates[0].placements;
        assert!([0, 1].iter().all(|&j| first[j].1.ranks.iter().all(|nic| leaf(nic) == leaf(&first[j].1.ranks[0]))));
        assert_eq!(leaf(&first[0].1.ranks[0]), leaf(&nic("h1")));
    }
}
