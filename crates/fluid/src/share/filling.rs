//! What a job leaves over on one link, because another one holds it back, goes to the others there.
//!
//! An allocation is fair when every job that is not at full speed has a link on which it is held back: that link is full, and
//! no job gets more of it. The allocation is found from what is certain. Each link shares what those leave whose pace is known among
//! those whose pace is not, which is the least that each of these can get there, because a job that gets less elsewhere can
//! only leave more. Where the link gives to all of them no more than their other links, it is the one that holds them back, and
//! their pace is known. Where all jobs demand the same of each of their links this is progressive filling: the link with the
//! lowest share is always such a link.
//!
//! Where they do not, there may be none: two jobs that each demand of two links, crosswise, once the double, are each held back
//! by another one. Then the jobs that are still open get equal speeds until a link is full.

use alloc::vec::Vec;
use core::ops::Range;

use crate::{
    rates::Rates,
    share::{Level, Shared},
};

/// Bits after the point of a pace and of what is left of a link: a rate of any 64 bits still fits 128. A pace is rounded down, by
/// so little that rounding it up to the fixed point of speeds hides it.
const PACE_BITS: u32 = 60;
/// Full speed.
const FULL: u64 = 1 << PACE_BITS;
/// A link that is not filled.
const OUTSIDE: u32 = u32::MAX;

/// A link while it fills.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// What those leave whose pace is known.
    free: u128,
    /// What is left of that when the modest are satisfied, and among how many it is shared.
    rest: u128,
    jobs: u64,
    /// Some open job gets less elsewhere.
    waits: bool,
}

/// Working memory, of which each filling uses what it needs.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    links: Vec<u32>,
    jobs: Vec<u32>,
    /// Per link: its place in `links`.
    places: Vec<u32>,
    /// In the order of `links`.
    filled: Vec<Link>,
    /// Those of `jobs` whose pace is not known.
    open: Vec<u32>,
    is_open: Vec<bool>,
    /// Per job: its pace, or the least that it will be.
    paces: Vec<u64>,
    /// Per entry of the rates: what the link gives to the open job.
    parts: Vec<u64>,
    /// Per job: it is in `jobs`, while they are gathered.
    known: Vec<bool>,
    sorted: Vec<u64>,
}

impl Filling {
    /// The links that were filled.
    pub(crate) fn links(&self) -> &[u32] {
        &self.links
    }

    /// The jobs on them, and their speeds.
    pub(crate) fn speeds<'f>(&'f self, rates: &'f Rates) -> impl Iterator<Item = (u32, u64)> + 'f {
        self.jobs.iter().map(|&j| (j, rates.speed_of(self.paces[j as usize], PACE_BITS)))
    }

    /// Finds the pace of every job on the links that hand on and hang together with `first`, which is one of them.
    pub(crate) fn fill(&mut self, first: u32, rates: &Rates, links: &[Shared], uses: &[Range<u32>]) {
        // Most runs never hand anything on, so the working memory is made on first use.
        if self.places.is_empty() {
            self.places.resize(links.len(), OUTSIDE);
            self.parts.resize(rates.entries(), FULL);
            self.known.resize(uses.len(), false);
            self.is_open.resize(uses.len(), false);
            self.paces.resize(uses.len(), FULL);
        }
        self.gather(first, rates, links, uses);
        self.settle(rates, links, uses);
    }

    /// Takes the links that hand on and hang together with `first`, and their jobs.
    fn gather(&mut self, first: u32, rates: &Rates, links: &[Shared], uses: &[Range<u32>]) {
        self.links.drain(..).for_each(|l| self.places[l as usize] = OUTSIDE);
        self.jobs.clear();
        self.links.push(first);
        self.places[first as usize] = 0;
        let mut next = 0;
        // The list is queue and result at once: each link enters it once, and so the walk ends.
        while let Some(&link) = self.links.get(next) {
            next += 1;
            for a in &links[link as usize].active {
                if core::mem::replace(&mut self.known[a.job as usize], true) {
                    continue;
                }
                self.jobs.push(a.job);
                for &(other, _) in rates.used(&uses[a.job as usize]) {
                    // A link that does not hand on stays outside, because nothing that is shared here changes its level.
                    if self.places[other as usize] == OUTSIDE && links[other as usize].hands_on() {
                        self.places[other as usize] = self.links.len() as u32;
                        self.links.push(other);
                    }
                }
            }
        }
        // Only the flags that were set are cleared, because a filling may concern few of many jobs.
        self.jobs.iter().for_each(|j| self.known[*j as usize] = false);
        self.filled.clear();
        self.filled.resize(self.links.len(), Link::default());
    }

    /// Finds the pace of every job on these links.
    fn settle(&mut self, rates: &Rates, links: &[Shared], uses: &[Range<u32>]) {
        self.open.clear();
        for &j in &self.jobs {
            // A full link outside hands nothing on, so it gives each of its jobs no more than their other links do: what happens inside
            // cannot make such a job faster.
            let pace = outside(rates.used(&uses[j as usize]), links, |l| self.places[l as usize] == OUTSIDE);
            self.paces[j as usize] = pace.unwrap_or(FULL);
            self.is_open[j as usize] = pace.is_none();
            self.open.extend(pace.is_none().then_some(j));
        }
        // Each round stops at least one open job, so there are at most as many rounds as jobs.
        while !self.open.is_empty() {
            for place in 0..self.links.len() {
                self.share(place, rates, links);
            }
            for at in 0..self.open.len() {
                self.look(self.open[at], rates, uses);
            }
            if !self.stop(rates, uses) {
                self.stop_at_equal_speeds(rates, links, uses);
            }
        }
    }

    /// Shares what is free of a link among the open jobs.
    fn share(&mut self, place: usize, rates: &Rates, links: &[Shared]) {
        let l = self.links[place] as usize;
        let mut free = u128::from(rates.capacities()[l]) << PACE_BITS;
        self.sorted.clear();
        for a in &links[l].active {
            if self.is_open[a.job as usize] {
                self.sorted.push(a.demand);
            } else {
                free = free.saturating_sub(u128::from(self.paces[a.job as usize]) * u128::from(a.demand));
            }
        }
        let (rest, jobs) = fair(free, &mut self.sorted);
        self.filled[place] = Link { free, rest, jobs, waits: false };
    }

    /// What each link gives to an open job. Links that give more than another one wait for it.
    fn look(&mut self, job: u32, rates: &Rates, uses: &[Range<u32>]) {
        let uses = &uses[job as usize];
        let mut least = FULL;
        for (entry, &(link, demand)) in (uses.start..).zip(rates.used(uses)) {
            // A link outside that does not hold the job back is not full.
            let part = match self.filled.get(self.places[link as usize] as usize) {
                Some(link) => pace(link.rest, link.jobs, demand),
                None => FULL,
            };
            self.parts[entry as usize] = part;
            least = least.min(part);
        }
        self.paces[job as usize] = least;
        for (entry, &(link, _)) in (uses.start..).zip(rates.used(uses)) {
            if self.parts[entry as usize] > least
                && let Some(link) = self.filled.get_mut(self.places[link as usize] as usize)
            {
                link.waits = true;
            }
        }
    }

    /// Stops the open jobs whose pace is certain; false if there are none.
    fn stop(&mut self, rates: &Rates, uses: &[Range<u32>]) -> bool {
        let Self { open, is_open, paces, parts, places, filled, .. } = self;
        let before = open.len();
        open.retain(|&j| {
            let (uses, pace) = (&uses[j as usize], paces[j as usize]);
            let holds = |(entry, &(link, _)): (u32, &(u32, u64))| {
                parts[entry as usize] == pace && filled.get(places[link as usize] as usize).is_some_and(|l| !l.waits)
            };
            // A link that waits may still give more once others are known, so only links that do not wait hold a job back for good.
            is_open[j as usize] = pace < FULL && !(uses.start..).zip(rates.used(uses)).any(holds);
            is_open[j as usize]
        });
        open.len() < before
    }

    /// Gives equal speeds to all open jobs until a link is full, and stops the jobs there.
    fn stop_at_equal_speeds(&mut self, rates: &Rates, links: &[Shared], uses: &[Range<u32>]) {
        let full_at = |place: usize| {
            let demands =
                links[self.links[place] as usize].active.iter().filter(|a| self.is_open[a.job as usize]).map(|a| u128::from(a.demand));
            let sum: u128 = demands.sum();
            // No link that is shared is without demand, and the speed is that at which it is full, so below full speed.
            (sum > 0).then(|| ((self.filled[place].free / sum).min(u128::from(FULL)) as u64, place))
        };
        // At the least of these speeds one link is full and no other is beyond its capacity.
        let Some((speed, place)) = (0..self.links.len()).filter_map(full_at).min() else {
            self.open.clear();
            return;
        };
        let link = self.links[place];
        let Self { open, is_open, paces, .. } = self;
        open.retain(|&j| {
            is_open[j as usize] = rates.used(&uses[j as usize]).iter().all(|u| u.0 != link);
            if !is_open[j as usize] {
                paces[j as usize] = speed;
            }
            is_open[j as usize]
        });
    }
}

/// The pace of a job of these uses that is held back by a link for which `is_outside` holds, which gives it no more than any other.
fn outside(uses: &[(u32, u64)], links: &[Shared], is_outside: impl Fn(u32) -> bool) -> Option<u64> {
    let part = |&(link, demand): &(u32, u64)| match links[link as usize].level {
        Level { rest, jobs: jobs @ 1.. } if is_outside(link) => Some(pace(u128::from(rest) << PACE_BITS, jobs, demand)),
        _ => None,
    };
    uses.iter().filter_map(part).min()
}

/// Water-filling as for a link that shares for itself, in finer units: what is left and among how many it is shared.
fn fair(free: u128, demands: &mut [u64]) -> (u128, u64) {
    demands.sort_unstable();
    let (mut rest, mut jobs) = (free, demands.len() as u64);
    for &demand in demands.iter() {
        // A whole number is above `rest` exactly if it is above the whole part of it, so the shift loses nothing.
        if u128::from(demand) * u128::from(jobs) > rest >> PACE_BITS {
            break;
        }
        rest -= u128::from(demand) << PACE_BITS;
        jobs -= 1;
    }
    (rest, jobs)
}

/// The part of full speed that an equal share of `rest` is, at most all of it; all of it where no job has to share.
fn pace(rest: u128, jobs: u64, demand: u64) -> u64 {
    let whole = u128::from(jobs) * u128::from(demand);
    // Without open jobs there is nothing to divide by, and the link holds no job back.
    rest.checked_div(whole).map_or(FULL, |pace| pace.min(u128::from(FULL)) as u64)
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec};

    use circle::Phase;
    use proptest::prelude::*;
    use units::{Nanos, Rate, Ticks};

    use super::*;
    use crate::{FluidJob, FluidLink, layout::Layout, share::Sharing};

    /// What jobs demand: (link, Mbit/s), for the first half of their iteration.
    type Demands = BTreeMap<usize, u64>;

    fn layout(jobs: &[Demands], capacities: &[u64]) -> Layout {
        let up = |demand: u64| [Phase { start: Ticks(0), end: Ticks(500_000_000), rate: Rate(demand) }];
        let of = |l: usize| jobs.iter().enumerate().filter_map(move |(j, d)| Some((j, up(*d.get(&l)?)))).collect();
        let phases: Vec<Vec<(usize, [Phase; 1])>> = (0..capacities.len()).map(of).collect();
        let mut links: Vec<FluidLink<'_>> = Vec::new();
        for (&capacity, phases) in capacities.iter().zip(&phases) {
            links.push(FluidLink { capacity: Rate(capacity), demands: phases.iter().map(|(j, p)| (*j, &p[..])).collect() });
        }
        let job = FluidJob { iteration: Nanos(1_000_000_000), period: Nanos(1_000_000_000), shift: Nanos(0) };
        Layout::new(&vec![job; jobs.len()], &links)
    }

    fn speeds_of(sharing: &mut Sharing<'_>, speeds: &mut [u64]) {
        sharing.share_again();
        while let Some((j, speed)) = sharing.next_moved() {
            speeds[j] = speed;
        }
    }

    /// Speeds of the jobs that are Up when they all begin at once.
    fn at_once(layout: &Layout, up: &[bool]) -> Vec<f64> {
        let mut sharing = Sharing::new(&layout.rates, up.len());
        (0..up.len()).filter(|j| up[*j]).for_each(|j| sharing.enter(j, &layout.segments[j][0].uses));
        let mut speeds = vec![layout.rates.one(); up.len()];
        speeds_of(&mut sharing, &mut speeds);
        speeds.iter().map(|s| *s as f64 / layout.rates.one() as f64).collect()
    }

    fn demands(of: &[(usize, u64)]) -> Demands {
        of.iter().copied().collect()
    }

    fn near(got: &[f64], expected: &[f64]) {
        assert!(got.iter().zip(expected).all(|(g, e)| (g - e).abs() < 1e-8), "{got:?} {expected:?}");
    }

    #[test]
    fn what_one_job_cannot_use_is_handed_on() {
        // The second job is held to 30 by its own link; the first takes 90 of the shared 120.
        let two = layout(&[demands(&[(0, 100)]), demands(&[(0, 100), (1, 100)])], &[120, 30]);
        near(&at_once(&two, &[true, true]), &[0.9, 0.3]);
        near(&at_once(&two, &[true, false]), &[1.0, 1.0]);
        // a and b get 45 each on the first link, which leaves 105 of the second to c, and that 135 of the third to d.
        let chain = [demands(&[(0, 100)]), demands(&[(0, 100), (1, 100)]), demands(&[(1, 150), (2, 150)]), demands(&[(2, 200)])];
        near(&at_once(&layout(&chain, &[90, 150, 240]), &[true; 4]), &[0.45, 0.45, 0.7, 0.675]);
    }

    /// Each demands twice as much of one link as of the other, crosswise: no link is the one that holds both back. With equal
    /// speeds each takes a third of 90 on one, two thirds on the other.
    #[test]
    fn jobs_that_are_each_held_back_by_the_other_link_get_equal_speeds() {
        let crosswise = [demands(&[(0, 60), (1, 120)]), demands(&[(0, 120), (1, 60)])];
        near(&at_once(&layout(&crosswise, &[90, 90]), &[true; 2]), &[0.5, 0.5]);
    }

    /// Progressive filling in floats: all jobs rise alike until they are satisfied or a link of theirs is full.
    fn progressive(jobs: &[Demands], capacities: &[u64], up: &[bool]) -> Vec<f64> {
        let mut rates = vec![0.0_f64; jobs.len()];
        let demand = |j: usize| jobs[j].values().copied().max().unwrap_or(0) as f64;
        let mut rising: Vec<bool> = (0..jobs.len()).map(|j| up[j] && demand(j) > 0.0).collect();
        while rising.contains(&true) {
            let on = |l: usize| (0..jobs.len()).filter(move |j| up[*j] && jobs[*j].contains_key(&l));
            let free = |rates: &[f64], l: usize| capacities[l] as f64 - on(l).map(|j| rates[j]).sum::<f64>();
            let mut step = (0..jobs.len()).filter(|j| rising[*j]).map(|j| demand(j) - rates[j]).fold(f64::INFINITY, f64::min);
            for l in 0..capacities.len() {
                let count = on(l).filter(|j| rising[*j]).count();
                if count > 0 {
                    step = step.min(free(&rates, l).max(0.0) / count as f64);
                }
            }
            (0..jobs.len()).filter(|j| rising[*j]).for_each(|j| rates[j] += step);
            for j in 0..jobs.len() {
                let full = jobs[j].keys().any(|l| free(&rates, *l) <= 1e-9 * capacities[*l] as f64);
                rising[j] &= !full && rates[j] < demand(j) * (1.0 - 1e-12);
            }
        }
        (0..jobs.len()).map(|j| if up[j] && demand(j) > 0.0 { rates[j] / demand(j) } else { 1.0 }).collect()
    }

    /// Jobs come and go; `check` sees the speeds after each instant.
    fn play(jobs: &[Demands], capacities: &[u64], instants: &[Vec<usize>], mut check: impl FnMut(&[bool], &[u64])) {
        let layout = layout(jobs, capacities);
        let (mut sharing, mut up) = (Sharing::new(&layout.rates, jobs.len()), vec![false; jobs.len()]);
        let mut speeds = vec![layout.rates.one(); jobs.len()];
        for instant in instants {
            for j in instant.iter().map(|j| j % jobs.len()) {
                let segment = &layout.segments[j][0];
                if up[j] {
                    sharing.leave(j)
                } else {
                    sharing.enter(j, &segment.uses)
                }
                (up[j], speeds[j]) = (!up[j], layout.rates.one());
            }
            speeds_of(&mut sharing, &mut speeds);
            check(&up, &speeds);
        }
    }

    /// Links that some job uses may be full; who is not at full speed has a full link. Returns whether everybody has one on which
    /// nobody gets more.
    fn is_fair(jobs: &[Demands], capacities: &[u64], up: &[bool], speeds: &[f64]) -> bool {
        let rate = |j: usize, l: usize| jobs[j].get(&l).map_or(0.0, |d| *d as f64 * speeds[j]);
        let on = |l: usize| (0..jobs.len()).filter(|j| up[*j]).map(move |j| rate(j, l));
        let used = |l: usize| on(l).sum::<f64>();
        assert!((0..capacities.len()).all(|l| used(l) <= capacities[l] as f64 * (1.0 + 1e-6)));
        let held = |j: usize| jobs[j].keys().copied().filter(|l| used(*l) >= capacities[*l] as f64 * (1.0 - 1e-6)).collect::<Vec<_>>();
        let slowed: Vec<usize> = (0..jobs.len()).filter(|j| up[*j] && speeds[*j] < 1.0).collect();
        assert!(slowed.iter().all(|j| !held(*j).is_empty()), "{jobs:?} {capacities:?} {speeds:?}");
        slowed.iter().all(|&j| held(j).iter().any(|&l| on(l).all(|r| r <= rate(j, l) * (1.0 + 1e-6))))
    }

    fn instants() -> impl Strategy<Value = Vec<Vec<usize>>> {
        prop::collection::vec(prop::collection::vec(0_usize..8, 1..4), 1..30)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn jobs_that_demand_the_same_everywhere_are_filled_progressively(
            capacities in prop::collection::vec(1_u64..300, 1..6),
            jobs in prop::collection::vec((1_u64..200, prop::collection::btree_set(0_usize..6, 0..4)), 1..8),
            instants in instants(),
        ) {
            let on = |l: &usize| *l < capacities.len();
            let jobs: Vec<Demands> = jobs.iter().map(|(d, links)| links.iter().filter(|l| on(l)).map(|l| (*l, *d)).collect()).collect();
            let one = layout(&jobs, &capacities).rates.one() as f64;
            play(&jobs, &capacities, &instants, |up, speeds| {
                let got: Vec<f64> = speeds.iter().map(|s| *s as f64 / one).collect();
                let expected = progressive(&jobs, &capacities, up);
                assert!(got.iter().zip(&expected).all(|(g, e)| (g - e).abs() < 1e-6), "{jobs:?} {capacities:?} {up:?}: {got:?} {expected:?}");
                assert!(is_fair(&jobs, &capacities, up, &got));
            });
        }

        /// Whatever came before, the speeds are those of jobs that begin at once, to the last bit: states that recur are found.
        #[test]
        fn shares_depend_on_who_is_up_and_not_on_what_was(
            capacities in prop::collection::vec(1_u64..300, 1..6),
            jobs in prop::collection::vec(prop::collection::btree_map(0_usize..6, 1_u64..200, 0..5), 1..8),
            instants in instants(),
        ) {
            let jobs: Vec<Demands> = jobs.into_iter().map(|d| d.into_iter().filter(|(l, _)| *l < capacities.len()).collect()).collect();
            let layout = layout(&jobs, &capacities);
            play(&jobs, &capacities, &instants, |up, speeds| {
                let got: Vec<f64> = speeds.iter().map(|s| *s as f64 / layout.rates.one() as f64).collect();
                assert_eq!(at_once(&layout, up), got, "{jobs:?} {capacities:?} {up:?}");
                is_fair(&jobs, &capacities, up, &got);
            });
        }
    }
}
