//! The local search over who takes turns with whom.

use alloc::{collections::BTreeSet, vec, vec::Vec};

use fluid::Span;

use super::{
    GAIN_MIN, JOBS_ALL_TRIED, PRICES_PERMILLE, Predicted, Question, SLOWER_JUDGED, Taking,
    choice::{Asked, Free, Seen},
    slowest,
};

/// Most choices that are judged: the best that the search found.
const JUDGED_MAX: usize = 6;
/// What a job that is slower than it may be costs, beside the mean: so much that no mean outweighs it, and so little that the search
/// finds its way out.
const SLOWER_COST: f64 = 2.0;
/// After so many hopeless choices one after the other, nothing near to where they began is worth a try.
const HOPELESS_IN_A_ROW: usize = 3;
/// Largest multiple of an iteration with which another keeps step, and the part of it, as a divisor, by which it may be off.
const MULTIPLE_MAX: u64 = 3;
const STEP_DIVISOR: u64 = 10;
/// How much longer than with nobody kept apart everybody's turns have to look for the higher price not to be tried.
const FAR: f64 = 1.15;

/// Which pairs take turns, and the price of each coupled group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    pairs: Vec<bool>,
    prices: Vec<u32>,
}

/// A choice that was tried.
#[derive(Clone, Debug)]
struct Tried {
    state: State,
    predicted: Predicted,
    /// How much more the mean is than with nobody kept apart, by as much as was seen of both, and more where a job is slower than it may be:
    /// short runs say other means than long ones, so only this can be compared. Below 0 is a gain.
    cost: f64,
    fair: bool,
    /// How much of it was seen.
    span: Span,
}

impl Tried {
    /// It was given up early.
    fn is_hopeless(&self) -> bool {
        matches!(self.span, Span::Blink | Span::Glance)
    }
}

/// One step of the search.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// All pairs of that coupled group, at that price; nobody of it without one.
    Group(usize, Option<u32>),
    /// All pairs of that link or none.
    Link(usize, bool),
    /// All pairs of that job or none.
    Job(usize, bool),
    /// The other way round.
    Pair(usize),
}

pub(super) struct Search<'a> {
    of: Question<'a>,
    /// Jobs that meet where they can exceed a link together, the smaller one first.
    pairs: Vec<(usize, usize)>,
    /// Per pair: its coupled group, and the links that it shares.
    group_of: Vec<usize>,
    links_of: Vec<Vec<usize>>,
    /// Per link: its coupled group, where it can be exceeded together.
    group_of_link: Vec<Option<usize>>,
    groups: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(asked: &'a Asked<'a>) -> Self {
        let of = asked.question;
        let jobs = of.jobs.len();
        let exceeded: Vec<(usize, Vec<usize>)> = (0..of.links.len()).filter_map(|l| Some((l, exceeded(of, l)?))).collect();
        let members: Vec<Vec<usize>> = exceeded.iter().map(|(_, members)| members.clone()).collect();
        let mut search = Self {
            of: *of,
            pairs: Vec::new(),
            group_of: Vec::new(),
            links_of: Vec::new(),
            group_of_link: vec![None; of.links.len()],
            groups: 0,
        };
        let mut found: Vec<((usize, usize), usize, usize)> = Vec::new();
        for (group, links) in circle::coupled_groups(jobs, &members).into_iter().enumerate() {
            search.groups = group + 1;
            for (link, members) in links.into_iter().map(|l| &exceeded[l]) {
                search.group_of_link[*link] = Some(group);
                // A job that is to run free is nobody's opponent; what it sends counts in every prediction all the same.
                let members: Vec<usize> = members.iter().copied().filter(|&j| !of.free.get(j).copied().unwrap_or(false)).collect();
                let pairs = members.iter().enumerate().flat_map(|(i, a)| members[i + 1..].iter().map(|b| (*a.min(b), *a.max(b))));
                found.extend(pairs.map(|pair| (pair, group, *link)));
            }
        }
        found.sort_unstable();
        for (pair, group, link) in found {
            // Two jobs that meet on two links are in one group with both: two links of the same two jobs are a loop.
            if search.pairs.last() != Some(&pair) {
                search.pairs.push(pair);
                search.group_of.push(group);
                search.links_of.push(Vec::new());
            }
            search.links_of.last_mut().into_iter().for_each(|links| links.push(link));
        }
        search
    }

    /// Whether any jobs can exceed a link together.
    pub(super) fn can_choose(&self) -> bool {
        !self.pairs.is_empty()
    }

    pub(super) fn nobody(&self) -> Taking {
        self.taking(&self.all(false, PRICES_PERMILLE[0]))
    }

    pub(super) fn everybody(&self) -> Taking {
        self.taking(&self.all(true, PRICES_PERMILLE[0]))
    }

    /// The choices that look best, the best first; nobody is not among them.
    pub(super) fn best(&self, free: &Free<'a>) -> Vec<Taking> {
        // Each choice is some runs of the fluid model whose cost grows with the jobs.
        let most = self.of.limits.tried_max.min(self.of.limits.tried_max * JOBS_ALL_TRIED / self.of.jobs.len().max(1));
        if most == 0 {
            return Vec::new();
        }
        let mut walk = Walk { search: self, free, tried: Vec::new(), seen: BTreeSet::new(), most };
        walk.seen.insert(self.all(false, PRICES_PERMILLE[0]));
        let mut all: Vec<Tried> = Vec::new();
        for price in PRICES_PERMILLE {
            all.extend(walk.attempt(self.all(true, price)));
            // No price of a small overload makes up for that much.
            if all.iter().any(|t| t.is_hopeless() && t.predicted.mean > free.beside(t.span).mean * FAR) {
                break;
            }
        }
        // Groups hardly matter to each other, so what gains while all take turns mostly gains alone.
        if let Some(first) = all.iter().min_by(|a, b| a.cost.total_cmp(&b.cost)) {
            walk.attempt(self.promising(first, free.beside(first.span)));
        }
        // Half of the choices start from no turns or the best so far, half from everybody by turns, even if a job is then too slow.
        let fair = walk.tried.iter().filter(|t| t.fair).min_by(|a, b| a.cost.total_cmp(&b.cost)).cloned();
        let better = fair.filter(|t| t.cost < 0.0);
        walk.climb(better, most.div_ceil(2));
        // From a hopeless beginning, fewer steps than there are pairs hardly lead anywhere.
        let leads_on = |t: &Tried| !t.is_hopeless() || most.saturating_sub(walk.tried.len()) >= self.pairs.len();
        if let Some(first) = all.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost)).filter(leads_on) {
            walk.climb(Some(first), most);
        }
        let mut best: Vec<&Tried> = walk.tried.iter().filter(|t| t.fair && t.cost <= -GAIN_MIN).collect();
        // The sort is stable, so of equals those tried first stay first.
        best.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        best.into_iter().take(JUDGED_MAX).map(|t| t.predicted.taking.clone()).collect()
    }

    fn all(&self, pairs: bool, price: u32) -> State {
        State { pairs: vec![pairs; self.pairs.len()], prices: vec![price; self.groups] }
    }

    /// The groups whose jobs gain while all of `tried` take turns.
    fn promising(&self, tried: &Tried, free: &Predicted) -> State {
        let gain = |j: usize| (free.times[j].0 as f64 - tried.predicted.times[j].0 as f64) / self.of.jobs[j].iteration.0.max(1) as f64;
        let mut gains = vec![0.0; self.groups];
        for ((a, b), group) in self.pairs.iter().zip(&self.group_of) {
            gains[*group] += gain(*a) + gain(*b);
        }
        let pairs = self.group_of.iter().map(|g| gains[*g] > 0.0).collect();
        State { pairs, prices: tried.state.prices.clone() }
    }

    fn taking(&self, state: &State) -> Taking {
        let mut opponents: Vec<Vec<u32>> = vec![Vec::new(); self.of.jobs.len()];
        for ((a, b), _) in self.pairs.iter().zip(&state.pairs).filter(|(_, on)| **on) {
            opponents[*a].push(*b as u32);
            opponents[*b].push(*a as u32);
        }
        opponents.iter_mut().for_each(|o| o.sort_unstable());
        let price = |group: &Option<usize>| group.map_or(PRICES_PERMILLE[0], |g| state.prices[g]);
        Taking { opponents, price_permille: self.group_of_link.iter().map(price).collect() }
    }

    /// All steps, those that change most first. Groups of which no two jobs can keep step are left as they are.
    fn steps(&self) -> Vec<Step> {
        let iteration = |j: usize| self.of.jobs[j].iteration.0;
        let keeps = |pair: usize| can_keep_step(iteration(self.pairs[pair].0), iteration(self.pairs[pair].1));
        let mut keep = vec![false; self.groups];
        (0..self.pairs.len()).filter(|pair| keeps(*pair)).for_each(|pair| keep[self.group_of[pair]] = true);
        let pairs = (0..self.pairs.len()).filter(|pair| keep[self.group_of[*pair]]);
        let prices = PRICES_PERMILLE.iter().map(|p| Some(*p)).chain([None]);
        let groups = (0..self.groups).filter(|g| keep[*g]);
        let mut steps: Vec<Step> = prices.flat_map(|p| groups.clone().map(move |g| Step::Group(g, p))).collect();
        let links = (0..self.of.links.len()).filter(|l| self.group_of_link[*l].is_some_and(|g| keep[g]));
        steps.extend(links.flat_map(|l| [true, false].map(|on| Step::Link(l, on))));
        let jobs: BTreeSet<usize> = pairs.clone().flat_map(|pair| [self.pairs[pair].0, self.pairs[pair].1]).collect();
        steps.extend(jobs.into_iter().flat_map(|j| [true, false].map(|on| Step::Job(j, on))));
        steps.extend(pairs.map(Step::Pair));
        steps
    }

    fn stepped(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Group(group, price) => {
                let own = next.pairs.iter_mut().zip(&self.group_of).filter(|(_, g)| **g == group);
                own.for_each(|(pair, _)| *pair = price.is_some());
                next.prices[group] = price.unwrap_or(PRICES_PERMILLE[0]);
            }
            Step::Link(link, on) => {
                let own = next.pairs.iter_mut().zip(&self.links_of).filter(|(_, l)| l.contains(&link));
                own.for_each(|(pair, _)| *pair = on);
            }
            Step::Job(job, on) => {
                let own = next.pairs.iter_mut().zip(&self.pairs).filter(|(_, (a, b))| *a == job || *b == job);
                own.for_each(|(pair, _)| *pair = on);
            }
            Step::Pair(pair) => next.pairs[pair] = !next.pairs[pair],
        }
        next
    }
}

/// Whether iterations of two jobs are so nearly equal, or one so nearly a small multiple of the other, that waits which pay once may be
/// repaid each time.
fn can_keep_step(a: u64, b: u64) -> bool {
    let (short, long) = (a.min(b).max(1), a.max(b));
    let times = (long.saturating_add(short / 2) / short).max(1);
    let multiple = short.saturating_mul(times);
    times <= MULTIPLE_MAX && long.abs_diff(multiple) <= multiple / STEP_DIVISOR
}

/// The jobs of a link that can exceed it together.
fn exceeded(of: &Question<'_>, link: usize) -> Option<Vec<usize>> {
    let link = &of.links[link];
    // Demands of unknown jobs are ignored here as the fluid model ignores them.
    let known = link.demands.iter().filter(|(j, _)| *j < of.jobs.len());
    let peaks: Vec<(usize, u64)> = known.filter_map(|(j, phases)| Some((*j, phases.iter().map(|p| p.rate.0).max()?))).collect();
    let sum = peaks.iter().fold(0u64, |sum, (_, peak)| sum.saturating_add(*peak));
    (peaks.len() > 1 && link.capacity.0 > 0 && sum > link.capacity.0).then(|| peaks.into_iter().map(|(j, _)| j).collect())
}

/// What was tried so far.
struct Walk<'s, 'a> {
    search: &'s Search<'a>,
    free: &'s Free<'a>,
    tried: Vec<Tried>,
    seen: BTreeSet<State>,
    most: usize,
}

impl Walk<'_, '_> {
    /// Tries a choice that was not tried before.
    fn attempt(&mut self, state: State) -> Option<Tried> {
        if self.is_over(self.most) || !self.seen.insert(state.clone()) {
            return None;
        }
        let tried = self.tried(state);
        self.tried.push(tried.clone());
        Some(tried)
    }

    /// Whether so many choices are tried, or they cost too much.
    fn is_over(&self, most: usize) -> bool {
        self.tried.len() >= most || self.free.is_costly()
    }

    fn tried(&self, state: State) -> Tried {
        let (predicted, span): Seen = self.free.try_out(self.search.taking(&state));
        let free = self.free.beside(span);
        let slower = (slowest(&predicted, free) - 1.0 - SLOWER_JUDGED).max(0.0);
        let fair = slower <= 0.0 && span == Span::Whole;
        Tried { state, cost: predicted.mean - free.mean + SLOWER_COST * slower, predicted, fair, span }
    }

    /// Takes every step that gains, until none does or so many choices are tried; from nobody, if from nothing better.
    fn climb(&mut self, mut best: Option<Tried>, most: usize) {
        let steps = self.search.steps();
        // Each round but the last gains at least the least gain, and the tries are counted, so this ends.
        loop {
            let (mut gained, mut hopeless) = (false, 0);
            for step in &steps {
                if self.is_over(most) {
                    return;
                }
                let nobody = || self.search.all(false, PRICES_PERMILLE[0]);
                let from = best.as_ref().map_or_else(nobody, |b| b.state.clone());
                let Some(next) = self.attempt(self.search.stepped(&from, *step)) else { continue };
                let gains = match &best {
                    Some(best) => next.cost < best.cost - GAIN_MIN,
                    None => !next.is_hopeless() && next.cost < -GAIN_MIN,
                };
                hopeless = if next.is_hopeless() && !gains { hopeless + 1 } else { 0 };
                if hopeless >= HOPELESS_IN_A_ROW {
                    break;
                }
                if gains {
                    (best, gained) = (Some(next), true);
                }
            }
            if !gained {
                return;
            }
        }
    }
}
