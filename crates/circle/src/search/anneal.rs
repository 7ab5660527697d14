//! Anytime search for many jobs: heat-bath annealing over alignments, again and again, longer each time.
//!
//! One step takes a job out, computes what it adds at every shift at which its cost bends upwards (a vertex of the cost as a
//! function of this job's shift; docs/model.md, section 5), and puts it to one of them with probability proportional to
//! `exp(-cost / temperature)` (Geman and Geman 1984). No step is refused, unlike in Metropolis annealing over random shifts,
//! where nearly all are. Sets of two or three jobs are taken out at once too, and put back one after the other. A run cools, and
//! ends with descent.

use alloc::vec::Vec;

use super::{
    couplings::Couplings,
    descent::Incumbent,
    group::{Group, MarginalCost},
    locked::LockedSum,
    random::Random,
};
use crate::{
    PROOF_TOLERANCE,
    demand::sum::{Presence, Workspace},
};

/// Sweeps of the first run; each pair of runs after it has half as many more.
const SWEEPS_FIRST: u64 = 24;
/// The temperature at which a run begins, as a part of the mean difference between a job's places; it ends at a twelfth of that.
/// Measured over packings that fill a link to the last tick: twice as hot or half as cold finds fewer of them.
const HOT: f64 = 0.12;
/// The natural logarithm of twelve.
const LN_COOLED: f64 = 2.484_906_649_788;
/// How many sets of jobs are taken out at once for each job of a sweep, and the largest: two jobs that would have to swap places
/// do not find their way one by one.
const SETS: usize = 2;
const SET_MAX: u64 = 3;
/// Most congruent shifts of one bend that are looked at, where other circles tell them apart.
const CONGRUENT_MAX: u64 = 64;
/// Sweeps of the descent that ends a run.
const DESCENT_SWEEPS: usize = 20;
/// Work of one candidate beside its lookups: finding it, its place in order, its probability.
const CANDIDATE_WORK: u64 = 8;

/// The shifts of all jobs, and what one of them would cost elsewhere.
struct Landscape<'a> {
    group: &'a Group,
    shifts: Vec<u64>,
    /// Of each circle its sum, where all circles have one.
    locked: Option<Vec<LockedSum<'a>>>,
    couplings: Couplings,
    /// (added cost, shift) of the job that was asked for last, by shift; and at which of them it stands.
    places: Vec<(f64, u64)>,
    stands: usize,
    weights: Vec<f64>,
    bends: Vec<u64>,
    random: Random,
}

impl<'a> Landscape<'a> {
    fn new(group: &'a Group, shifts: Vec<u64>) -> Self {
        let locked: Option<Vec<LockedSum<'a>>> = group.circles.iter().map(LockedSum::new).collect();
        let couplings = Couplings::new(group);
        let (places, weights, bends, random) = (Vec::new(), Vec::new(), Vec::new(), Random::new());
        let mut landscape = Self { group, shifts: Vec::new(), locked, couplings, places, stands: 0, weights, bends, random };
        landscape.stand(shifts);
        landscape
    }

    /// Puts all jobs to those shifts.
    fn stand(&mut self, shifts: Vec<u64>) {
        self.shifts = shifts;
        for (job, own) in self.group.jobs.iter().enumerate() {
            for &(c, m) in &own.on {
                if let Some(sum) = self.locked.as_mut().map(|sums| &mut sums[c]) {
                    // A member that does not stand yet is removed without effect, so this serves the first call too.
                    sum.remove(m);
                    sum.insert(m, self.shifts[job]);
                }
            }
        }
    }

    fn cost(&self, workspace: &mut Workspace) -> f64 {
        self.locked_cost(workspace).unwrap_or_else(|| self.group.cost(&self.shifts, workspace))
    }

    /// Takes a job out and lists its places.
    fn ask(&mut self, job: usize, workspace: &mut Workspace) {
        self.bends.clear();
        self.places.clear();
        let here = self.shifts[job];
        match &mut self.locked {
            Some(sums) => {
                let mut lookup = CANDIDATE_WORK;
                for &(c, m) in &self.group.jobs[job].on {
                    sums[c].remove(m);
                    workspace.budget.charge(sums[c].ask(m));
                    lookup += sums[c].place_work();
                    let first = self.bends.len();
                    sums[c].bends(&mut self.bends);
                    let own = self.group.circles[c].members[m].folded.period;
                    repeat(&mut self.bends, first, own, self.group.jobs[job].lock, &mut self.random);
                }
                // The places must be complete before the first circle adds its cost to them, hence two passes over the circles.
                self.list(here);
                for &(c, _) in &self.group.jobs[job].on {
                    if let Some(sums) = &mut self.locked {
                        sums[c].add_to(&mut self.places);
                    }
                }
                workspace.budget.charge(lookup * self.places.len() as u64);
            }
            None => {
                // Without a sum of every circle each question adds the others up anew.
                let stand = |other: usize| if other == job { Presence::Absent } else { Presence::At(self.shifts[other]) };
                let response = self.group.response(job, stand, workspace);
                let placed: Vec<Option<u64>> = self.shifts.iter().enumerate().map(|(j, shift)| (j != job).then_some(*shift)).collect();
                for other in (0..placed.len()).filter(|&other| other != job) {
                    self.couplings.vertices(self.group, job, other, &placed, &mut workspace.budget, &mut self.bends);
                }
                self.list(here);
                self.places.iter_mut().for_each(|place| place.0 = response.at(place.1));
                workspace.budget.charge((CANDIDATE_WORK + MarginalCost::work(&response)) * self.places.len() as u64);
            }
        }
    }

    /// Lists the bends and where the job stands, in order, without their costs.
    fn list(&mut self, here: u64) {
        // The job may stay where it is, and `put` measures each change against that place.
        self.bends.push(here);
        self.bends.sort_unstable();
        self.bends.dedup();
        self.stands = self.bends.partition_point(|b| *b < here);
        self.places.extend(self.bends.iter().map(|&shift| (0.0, shift)));
    }

    /// Puts the job that was asked for to one of its places; returns by how much the cost changes.
    fn put(&mut self, job: usize, place: usize) -> f64 {
        let (cost, shift) = self.places[place];
        self.shifts[job] = shift;
        if let Some(sums) = &mut self.locked {
            self.group.jobs[job].on.iter().for_each(|&(c, m)| sums[c].insert(m, shift));
        }
        cost - self.places[self.stands].0
    }

    /// Takes `count` jobs out at once and puts them back one after the other; takes that back if it costs too much.
    fn replace(&mut self, order: &mut [usize], count: usize, temperature: f64, workspace: &mut Workspace) {
        for i in 0..count {
            // A partial Fisher-Yates shuffle: the first `count` jobs become a random set.
            let with = i + self.random.below((order.len() - i) as u64) as usize;
            order.swap(i, with);
        }
        // Without running sums a set costs too much to take out and in again.
        let Some(before) = self.locked_cost(workspace) else { return };
        let mut old = [0_u64; SET_MAX as usize];
        for (i, &job) in order[..count].iter().enumerate() {
            old[i] = self.shifts[job];
            if let Some(sums) = &mut self.locked {
                self.group.jobs[job].on.iter().for_each(|&(c, m)| sums[c].remove(m));
            }
        }
        for &job in &order[..count] {
            self.ask(job, workspace);
            let place = self.drawn(temperature);
            self.put(job, place);
        }
        let change = self.locked_cost(workspace).map_or(0.0, |after| after - before);
        // Jobs that go back one by one are no joint heat-bath draw, so the set as a whole is tested as by Metropolis (1953).
        if change > 0.0 && self.random.unit() >= exp_of_negative(change / temperature) {
            for (i, &job) in order[..count].iter().enumerate() {
                self.move_to(job, old[i]);
            }
        }
    }

    /// The cost where all circles have a sum.
    fn locked_cost(&self, workspace: &mut Workspace) -> Option<f64> {
        let sums = self.locked.as_ref()?;
        workspace.budget.charge(sums.iter().map(LockedSum::cost_work).sum());
        Some(sums.iter().map(LockedSum::cost).sum())
    }

    fn move_to(&mut self, job: usize, shift: u64) {
        self.shifts[job] = shift;
        if let Some(sums) = &mut self.locked {
            for &(c, m) in &self.group.jobs[job].on {
                sums[c].remove(m);
                sums[c].insert(m, shift);
            }
        }
    }

    /// The cheapest place, and of equal ones any.
    fn cheapest(&mut self) -> usize {
        let least = self.places.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let equal = |p: &&(f64, u64)| p.0 <= least + PROOF_TOLERANCE;
        // A random one of equal places lets jobs wander along a plateau, to where another job can gain.
        let pick = self.random.below(self.places.iter().filter(equal).count().max(1) as u64) as usize;
        self.places.iter().enumerate().filter(|p| equal(&p.1)).nth(pick).map_or(0, |p| p.0)
    }

    /// A place with probability proportional to `exp(-cost / temperature)`.
    fn drawn(&mut self, temperature: f64) -> usize {
        let least = self.places.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        // Costs count from the cheapest place, so one weight is 1 and not all of them vanish when it is cold.
        self.weights.clear();
        self.weights.extend(self.places.iter().map(|p| exp_of_negative((p.0 - least) / temperature)));
        let mut left = self.random.unit() * self.weights.iter().sum::<f64>();
        for (place, weight) in self.weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return place;
            }
        }
        self.stands
    }
}

/// Adds the congruent shifts of the bends from `first` on: they are known modulo `own` and count modulo `lock`.
fn repeat(bends: &mut Vec<u64>, first: usize, own: u64, lock: u64, random: &mut Random) {
    let (laps, last) = (lock / own, bends.len());
    if laps == 1 {
        return;
    }
    for i in first..last {
        // Few congruent shifts are all listed; of many a sample is drawn anew at each call, so that none is left out for ever.
        let base = bends[i];
        if laps <= CONGRUENT_MAX {
            bends.extend((1..laps).map(|lap| base + lap * own));
        } else {
            bends.extend((0..CONGRUENT_MAX).map(|_| base + random.below(laps) * own));
        }
    }
}

/// `exp(-x)` for `x >= 0`, to a part in a thousand: the 1024th power of `exp(-x / 1024)`, of which three terms are enough. The crate
/// is `no_std`, and a probability need not be more exact.
fn exp_of_negative(x: f64) -> f64 {
    // A place this dear would be drawn once in 500 million draws; and beyond 1,024 the three terms below grow again.
    if x > 20.0 {
        return 0.0;
    }
    // Ten squarings make the 1024th power; 2,097,152 is twice the square of 1,024.
    let halved = 1.0 - x / 1_024.0 + x * x / 2_097_152.0;
    (0..10).fold(halved, |power, _| power * power)
}

/// Better shifts than `start`, as far as the budget goes: the jobs that `fixed` names stay. Ends early when the cost reaches
/// `enough`, a lower bound.
pub(super) fn anneal(group: &Group, fixed: &[Option<u64>], start: Incumbent, enough: f64, workspace: &mut Workspace) -> Incumbent {
    let mut order: Vec<usize> = (0..fixed.len()).filter(|&j| fixed[j].is_none() && group.jobs[j].lock > 1).collect();
    let mut best = start;
    if order.len() < 2 || workspace.budget.is_spent() {
        return best;
    }
    let mut landscape = Landscape::new(group, best.shifts.clone());
    let spread = spread(&mut landscape, &order, workspace);
    let mut sweeps = SWEEPS_FIRST;
    // The budget ends this loop at the latest, because every question charges it.
    for run in 0_u64.. {
        // Every second run starts from the best shifts known, the others where the last run ended.
        if run % 2 == 1 {
            landscape.stand(best.shifts.clone());
        }
        let improved = run_once(&mut landscape, &mut order, spread, sweeps, &mut best, workspace);
        if best.cost <= enough + PROOF_TOLERANCE || workspace.budget.is_spent() {
            break;
        }
        // A length that still finds better shifts is kept.
        if !improved && run % 2 == 1 {
            sweeps += sweeps / 2;
        }
    }
    best
}

/// The mean difference between the places of a job.
fn spread(landscape: &mut Landscape<'_>, order: &[usize], workspace: &mut Workspace) -> f64 {
    let (mut sum, mut asked) = (0.0, 0.0);
    // A question of many jobs with long circles takes a second; those that were asked are enough.
    for &job in order {
        if asked > 0.0 && workspace.budget.is_spent() {
            break;
        }
        asked += 1.0;
        landscape.ask(job, workspace);
        let least = landscape.places.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        sum += landscape.places.iter().map(|p| p.0 - least).sum::<f64>() / landscape.places.len() as f64;
        // The question took the job out of the sums; it goes back to where it stood.
        landscape.put(job, landscape.stands);
    }
    // A spread of 0 would make a temperature of 0, which costs are divided by.
    (sum / asked).max(PROOF_TOLERANCE)
}

/// One run from where the landscape stands; returns whether `best` improved.
fn run_once(
    landscape: &mut Landscape<'_>,
    order: &mut [usize],
    spread: f64,
    sweeps: u64,
    best: &mut Incumbent,
    workspace: &mut Workspace,
) -> bool {
    let before = best.cost;
    let mut temperature = HOT * spread;
    // A constant factor for each sweep, which leads to a twelfth in all.
    let cooling = exp_of_negative(LN_COOLED / sweeps as f64);
    for _ in 0..sweeps {
        landscape.random.shuffle(order);
        for &job in order.iter() {
            if workspace.budget.is_spent() {
                return keep(landscape, best, before, workspace);
            }
            landscape.ask(job, workspace);
            let place = landscape.drawn(temperature);
            landscape.put(job, place);
        }
        for _ in 0..SETS * order.len() {
            if workspace.budget.is_spent() {
                return keep(landscape, best, before, workspace);
            }
            let count = 2 + landscape.random.below(SET_MAX - 1) as usize;
            landscape.replace(order, count.min(order.len()), temperature, workspace);
        }
        temperature *= cooling;
    }
    // The last temperature still leaves jobs beside their best places.
    for _ in 0..DESCENT_SWEEPS {
        let mut gained = 0.0;
        for &job in order.iter() {
            landscape.ask(job, workspace);
            let place = landscape.cheapest();
            gained -= landscape.put(job, place);
        }
        if gained <= PROOF_TOLERANCE || workspace.budget.is_spent() {
            break;
        }
    }
    keep(landscape, best, before, workspace)
}

/// Takes over the shifts of the landscape if they are better; returns whether `best` is better than `before`.
fn keep(landscape: &Landscape<'_>, best: &mut Incumbent, before: f64, workspace: &mut Workspace) -> bool {
    let cost = landscape.cost(workspace);
    if cost < best.cost - PROOF_TOLERANCE {
        *best = Incumbent { cost, shifts: landscape.shifts.clone() };
    }
    best.cost < before - PROOF_TOLERANCE
}
