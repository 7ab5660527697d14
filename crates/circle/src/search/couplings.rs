//! Prunes the candidate shifts of a job against a placed job: all alignments where the periods lock, few where they hardly do.
//!
//! Two edges that meet modulo `g` meet at every `g`-th tick, so a job that locks with its head only modulo `g` has one alignment
//! for each congruent shift. Seen from the head, the congruent shifts are alike. The difference lies in the jobs with which the job
//! is coupled beyond `g`, its *coupling class*. As the job moves from one congruent shift to the next, the cost is concave until an
//! edge of the job passes an opposite edge of the class (proof in docs/model.md, section 6). So only the congruent shifts next to such a
//! passage are needed, and one is enough while no job of the class is placed.

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use super::{PROOF_JOBS_MAX, group::Group};
use crate::budget::Budget;

/// Most jobs of a group whose coupling classes are computed. Of more jobs only a first node is bounded, with all congruent shifts.
const JOBS_MAX: usize = 32;
/// Work of one alignment that is listed and sorted among thousands.
const LISTED_WORK: u64 = 2;
/// Work to find the other on one circle of a job, and to see whether both meet there as on the one before.
const CIRCLE_WORK: u64 = 2;

/// How closely each pair of jobs is coupled.
#[derive(Clone, Debug)]
pub(crate) struct Couplings {
    jobs: usize,
    /// The LCM over common circles of the gcds of folded periods; 1 where there is none. Row by row.
    modulus: Vec<u64>,
}

/// The congruent shifts of a job that an optimum may need.
enum Congruent {
    All,
    One,
    /// The congruent shifts next to these shifts.
    Near(Vec<u64>),
}

impl Couplings {
    pub(crate) fn new(group: &Group) -> Self {
        let jobs = group.jobs.len();
        let mut couplings = Self { jobs, modulus: Vec::new() };
        // A class is kept as the bits of a `u32`. Without a table `vertices` lists all congruent shifts.
        if jobs > JOBS_MAX {
            return couplings;
        }
        couplings.modulus = vec![1; jobs * jobs];
        for members in group.circles.iter().map(|c| &c.members) {
            for a in members {
                for b in members.iter().filter(|b| b.job != a.job) {
                    let both = &mut couplings.modulus[a.job * jobs + b.job];
                    // Each gcd divides the period of `a`, so the LCM of all of them fits.
                    *both = both.lcm(&a.folded.period.gcd(&b.folded.period));
                }
            }
        }
        couplings
    }

    /// Whether the two are coupled beyond `g`: moving one by `g` changes what the other meets.
    fn coupled_beyond(&self, a: usize, b: usize, g: u64) -> bool {
        a != b && !g.is_multiple_of(self.modulus[a * self.jobs + b])
    }

    /// The jobs coupled with `job` beyond `g`, directly or through others, itself included, as bits.
    fn coupling_class(&self, job: usize, g: u64) -> u32 {
        let mut class = 1_u32 << job;
        let mut open = vec![job];
        while let Some(a) = open.pop() {
            for b in (0..self.jobs).filter(|&b| self.coupled_beyond(a, b, g)) {
                if class >> b & 1 == 0 {
                    // Each job enters `open` once at most, so the loop ends.
                    class |= 1 << b;
                    open.push(b);
                }
            }
        }
        class
    }

    /// The modulus up to which the shift of `job` matters, once others stand as `placed` says. Per prime: the widest path to a
    /// placed job through unplaced jobs, where a path is as wide as its narrowest coupling (proof in docs/model.md, section 6).
    /// `None` where too many jobs are unplaced.
    pub(super) fn reach(&self, job: usize, placed: &[Option<u64>]) -> Option<u64> {
        let mut open = [0_usize; PROOF_JOBS_MAX];
        let mut count = 0;
        for j in (0..self.jobs).filter(|&j| j == job || placed[j].is_none()) {
            *open.get_mut(count)? = j;
            count += 1;
        }
        let open = &open[..count];
        // Paths of one step come first: the couplings with placed jobs, where every path ends.
        let mut reach = [1_u64; PROOF_JOBS_MAX];
        for (reach, &a) in reach.iter_mut().zip(open) {
            for p in (0..self.jobs).filter(|p| !open.contains(p)) {
                *reach = reach.lcm(&self.modulus[a * self.jobs + p]);
            }
        }
        // A path passes each unplaced job once at most, so `count - 1` rounds reach the end of the longest (as Bellman and Ford do). Prime
        // by prime the gcd is the narrowest step of a path and the LCM the widest path.
        for _ in 1..count {
            for a in 0..count {
                for b in (0..count).filter(|&b| b != a) {
                    reach[a] = reach[a].lcm(&self.modulus[open[a] * self.jobs + open[b]].gcd(&reach[b]));
                }
            }
        }
        open.iter().position(|&j| j == job).map(|at| reach[at])
    }

    /// Whether the congruent shifts of `job` that an optimum may need beside `head` depend on the shift of `third`.
    pub(crate) fn depends(&self, group: &Group, job: usize, head: usize, third: usize) -> bool {
        if self.modulus.is_empty() {
            return false;
        }
        let g = self.modulus[job * self.jobs + head];
        group.jobs[job].lock > g && self.coupling_class(job, g) >> third & 1 == 1
    }

    /// Shifts of `job` at which one of its edges meets an opposite edge of `head`: as many congruent ones as an optimum may need,
    /// with the others placed as they are or not yet. Returns false if there were too many and only a selection was taken. What is listed
    /// on the way is charged; callers charge what they do with `into`.
    pub(crate) fn vertices(
        &self,
        group: &Group,
        job: usize,
        head: usize,
        placed: &[Option<u64>],
        budget: &mut Budget,
        into: &mut Vec<u64>,
    ) -> bool {
        let Some(shift) = placed[head] else { return true };
        budget.charge(CIRCLE_WORK * group.jobs[job].on.len() as u64);
        let lock = group.jobs[job].lock;
        if self.modulus.is_empty() {
            return group.alignments(job, head, shift, true, into);
        }
        let g = self.modulus[job * self.jobs + head];
        // The shift of this job matters modulo `g` only, so there are no congruent shifts to choose from.
        if lock == g {
            return group.alignments(job, head, shift, true, into);
        }
        let within = self.reach(job, placed).map_or(lock, |reach| reach.gcd(&lock));
        let laps = within / g;
        let all = |into: &mut Vec<u64>| group.alignments_within(job, head, shift, true, within, into);
        // The rules below are for alignments that repeat modulo `g`; on another circle the two may meet modulo less.
        if laps == 1 || group.jobs[job].on.len() > 1 && !self.same_modulus(group, job, head) {
            return all(into);
        }
        let near = match self.congruent(group, job, head, g, placed, budget) {
            Congruent::All => return all(into),
            Congruent::One => Vec::new(),
            // Two shifts for each passage would be no fewer than all.
            Congruent::Near(near) if 2 * near.len() as u64 >= laps => return all(into),
            Congruent::Near(near) => near,
        };
        // `all` takes an even selection of so many, and says so.
        if group.too_many(job, head, 2 * near.len() as u64) {
            return all(into);
        }
        let mut bases = Vec::new();
        group.opposite_meetings(job, head, shift, &mut bases);
        for base in bases {
            if near.is_empty() {
                into.push(base);
            }
            for &at in &near {
                // The last congruent shift at or before the passage and the first at or after it.
                // `lock` is a multiple of `within` and at least `after`: adding it only keeps the difference above zero.
                let after = (at % g + g - base) % g;
                into.push((at + lock - after) % within);
                into.push((at + lock - after + if after > 0 { g } else { 0 }) % within);
            }
        }
        true
    }

    /// Whether all common circles of the two couple them by the same modulus, so that every alignment has it.
    fn same_modulus(&self, group: &Group, job: usize, head: usize) -> bool {
        let g = self.modulus[job * self.jobs + head];
        group.jobs[job].on.iter().all(|&(c, m)| {
            let circle = &group.circles[c];
            let common = group.jobs[head].on_circle(c);
            common.is_none_or(|(_, o)| circle.members[m].folded.period.gcd(&circle.members[o].folded.period) == g)
        })
    }

    fn congruent(&self, group: &Group, job: usize, head: usize, g: u64, placed: &[Option<u64>], budget: &mut Budget) -> Congruent {
        let class = self.coupling_class(job, g);
        let member = |j: usize| class >> j & 1 == 1;
        // The proof of near passages needs a head outside of the class; without it nothing is known (section 6).
        if member(head) {
            return Congruent::All;
        }
        let others = (0..self.jobs).filter(|&j| j != job && member(j));
        let (stand, open): (Vec<usize>, Vec<usize>) = others.partition(|&j| placed[j].is_some());
        if stand.is_empty() {
            // The whole class can move by `g` without any change for other jobs, so one congruent shift stands for all.
            return Congruent::One;
        }
        if !open.is_empty() {
            return Congruent::All;
        }
        // The edges of a member that is coupled through others only are met at every congruent shift, and may count differently.
        if stand.iter().any(|&j| !self.coupled_beyond(job, j, g)) {
            return Congruent::All;
        }
        let mut near = Vec::new();
        for &j in &stand {
            // A selection proves nothing, and to make one takes as long as all else that a place of a job takes.
            if !group.lists_all(job, j) {
                return Congruent::All;
            }
            let before = near.len();
            group.alignments(job, j, placed[j].unwrap_or(0), true, &mut near);
            // The listing is charged here, because a caller does not see passages that were too many to use.
            budget.charge(LISTED_WORK * (near.len() - before) as u64);
        }
        near.sort_unstable();
        near.dedup();
        // No edge is ever passed: along the congruent shifts the cost is linear around a circle, hence constant.
        if near.is_empty() { Congruent::One } else { Congruent::Near(near) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Effort, Phase, Rate, Ticks,
        demand::{
            circle::Circle,
            sum::{Presence, Workspace},
        },
    };

    /// Jobs of (period, start, end, rate) on a link of 10 Mbit/s.
    fn group(jobs: &[(u64, u64, u64, u64)], perimeter: u64) -> Group {
        let phases: Vec<[Phase; 1]> =
            jobs.iter().map(|&(_, start, end, rate)| [Phase { start: Ticks(start), end: Ticks(end), rate: Rate(rate) }]).collect();
        let members: Vec<(usize, &[Phase], u64)> = jobs.iter().zip(&phases).enumerate().map(|(i, (j, p))| (i, &p[..], j.0)).collect();
        Group::new(jobs.len(), vec![Circle::new(10, 1, &members, perimeter)], Effort::Thorough)
    }

    /// The job of 70 meets its head modulo 10, the job of 350 modulo 70, and the job of 50 only through that one: modulo 10, as it
    /// meets the head. What the job of 50 sends decides which congruent shift is best, far from every edge of the job of 350.
    #[test]
    fn a_job_coupled_through_another_needs_all_congruent_shifts() {
        let (job, head, through, direct) = (0, 1, 2, 3);
        let group = group(&[(70, 0, 5, 5), (10, 0, 5, 10), (50, 0, 40, 5), (350, 0, 70, 5)], 350);
        // The head sends on [8, 13), and the job of 50 always but on [30, 40).
        let mut placed = [None, Some(8), Some(40), Some(0)];
        let couplings = Couplings::new(&group);
        assert!(
            couplings.coupled_beyond(job, direct, 10)
                && couplings.coupled_beyond(direct, through, 10)
                && !couplings.coupled_beyond(job, through, 10)
        );
        let mut shifts = Vec::new();
        assert!(couplings.vertices(&group, job, head, &placed, &mut Budget::default(), &mut shifts));
        let mut workspace = Workspace::default();
        let mut cost = |shift| {
            placed[job] = Some(shift);
            group.cost(&placed.map(|s| s.unwrap_or(0)), &mut workspace)
        };
        for base in shifts.clone() {
            let best = (0..7).map(|lap| cost((base + 10 * lap) % 70)).fold(f64::INFINITY, f64::min);
            let found = shifts.iter().filter(|s| **s % 10 == base % 10).map(|s| cost(*s)).fold(f64::INFINITY, f64::min);
            assert!(found <= best, "aligned at {} modulo 10: {found}, but {best} exists", base % 10);
        }
        let alone = group.response(job, |_| Presence::Absent, &mut Workspace::default());
        assert!(alone.at(0) < cost(0), "the job meets the others");
    }
}
