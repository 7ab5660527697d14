//! The proven optimum where jobs have few shifts: branch and bound over all of them, job by job.
//!
//! Where the shifts of a job are few, its alignments with the others cover most of them, many times over: a spanning tree of
//! alignments is one of many for the same shifts, and a search over trees sees them all. So here each node takes the job that
//! costs most wherever it stands, and tries all its shifts. The bounds are those of the search over trees (docs/model.md,
//! section 6), and jobs are asked modulo their reach as there.

use alloc::vec::Vec;

use super::{Search, by_cost};
use crate::search::{EXACT_JOBS_MAX, descent::Incumbent, group::Group};

/// Most shifts of a job, for all its shifts to be tried: of few jobs, which have few alignments too, and of more.
const SHIFTS_MAX_FEW: u64 = 12;
const SHIFTS_MAX: u64 = 96;

/// Whether the jobs that `fixed` leaves free have few shifts, measured by their alignments.
pub(super) fn is_coarse(group: &Group, fixed: &[Option<u64>]) -> bool {
    let most = if group.bodies() <= EXACT_JOBS_MAX { SHIFTS_MAX_FEW } else { SHIFTS_MAX };
    group.jobs.iter().zip(fixed).all(|(job, fixed)| fixed.is_some() || job.lock <= most)
}

/// A job that is not placed, and what it adds at each of its shifts.
struct Open {
    job: usize,
    /// (added cost, shift), ascending.
    places: Vec<(f64, u64)>,
}

impl Search<'_> {
    /// Searches all shifts of the jobs that are not placed; a lower bound of what comes of those that are.
    pub(super) fn branch_over_grid(&mut self) {
        let (costs, least) = self.placed_cost(None);
        let so_far: f64 = costs.iter().sum();
        if so_far.max(least) >= self.enough() {
            return;
        }
        let jobs = (0..self.placed.len()).filter(|&j| self.placed[j].is_none()).collect::<Vec<_>>();
        let open: Vec<Open> = jobs.into_iter().map(|job| self.open(job, &costs)).collect();
        // The reach is at least 1, so every job has a first place, which is its cheapest.
        let least_of = |o: &Open| (o.job, o.places[0].0);
        let bound = least.max(so_far + self.subsets.added(&open.iter().map(least_of).collect::<Vec<_>>()));
        if bound >= self.enough() {
            return;
        }
        if self.workspace.budget.is_spent() {
            self.given_up = self.given_up.min(bound);
            return;
        }
        // The job that is hardest to place leaves the fewest places worth a look; of equal jobs, the one with fewer places comes first.
        let hardest = open.iter().max_by(|a, b| a.places[0].0.total_cmp(&b.places[0].0).then(b.places.len().cmp(&a.places.len())));
        let Some(first) = hardest else {
            // All jobs are placed, and the test above has let only a cost below the best come here.
            let shifts = self.placed.iter().map(|s| s.unwrap_or(0)).collect();
            self.best = Incumbent { cost: so_far, shifts };
            return;
        };
        if open.len() == 1 {
            // The cheapest place of the last job is attained, so nothing better comes of the placed jobs.
            let (added, shift) = first.places[0];
            self.found(so_far + added, first.job, shift);
            return;
        }
        let rest = self.subsets.added(&open.iter().filter(|o| o.job != first.job).map(least_of).collect::<Vec<_>>());
        for &(added, shift) in &first.places {
            // The places ascend in cost, so the first that is too dear ends them.
            if so_far + added + rest >= self.enough() {
                break;
            }
            if self.workspace.budget.is_spent() {
                self.given_up = self.given_up.min(so_far + added + rest);
                break;
            }
            self.placed[first.job] = Some(shift);
            self.branch_over_grid();
            self.placed[first.job] = None;
        }
    }

    fn open(&mut self, job: usize, costs: &[f64]) -> Open {
        let response = self.response(job);
        let on = &self.group.jobs[job].on;
        let counted: f64 = on.iter().zip(&response).map(|(&(c, _), r)| r.without - costs[c]).sum();
        let lock = self.group.jobs[job].lock;
        let reach = self.couplings.reach(job, &self.placed).map_or(lock, |reach| num_integer::gcd(reach, lock));
        let cost = |shift: u64| response.iter().map(|r| r.at(shift)).sum::<f64>() + counted;
        // A shift beyond the reach attains nothing new, because jobs still to be placed can move along (docs/model.md, section 6).
        let mut places: Vec<(f64, u64)> = (0..reach).map(|shift| (cost(shift), shift)).collect();
        places.sort_unstable_by(by_cost);
        self.workspace.budget.charge(reach * (4 + response.iter().map(|r| r.work()).sum::<u64>()));
        Open { job, places }
    }
}
