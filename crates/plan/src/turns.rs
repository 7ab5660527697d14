//! Who takes turns with whom.
//!
//! A job that waits for its turn on one link leaves its other links idle. Where periods lock, or nearly, a wait pays once and is
//! repaid every iteration; where they do not, turns for everybody cost more than they bring. So the pairs of jobs that are kept apart are
//! chosen by predicted times ([`fluid::predict_turns`]): the GPU-weighted mean of iteration over iteration alone is to be least, and no
//! job may take longer than [`SLOWER_MAX`] allows beside what it takes with nobody kept apart. What is chosen is judged by runs
//! that the search has not seen, and falls back to less, at last to nobody.
//!
//! Candidates are nobody, everybody, everybody at a price ([`PRICES_PERMILLE`]: so much together is no conflict), and from there on
//! coupled groups, links, jobs and pairs, added or left out one at a time: whole groups too, because some sets of pairs pay
//! only together.
//!
//! Where turns bring no time they may still bring quiet: links are above capacity for a fraction of the time. That is a choice of the
//! operator, so it is told apart ([`Brings`]).

mod search;

use alloc::{vec, vec::Vec};

use fluid::{Asks, Begin, FluidJob, FluidLink, Trial, TurnTimes, predict_turns, turn_group};
use turns::Group;
use units::Nanos;

use self::search::Search;

/// How much demands may be together, in thousandths of a link's capacity: exactly what fits, or a quarter more. Where demands fit badly,
/// a small overload costs less than a wait.
pub const PRICES_PERMILLE: [u32; 2] = [1_000, 1_250];
/// How much longer a job may take than with nobody kept apart, as a share. What is predicted is no better than that.
pub const SLOWER_MAX: f64 = 0.01;
/// What of that a choice may use up in the runs that it is judged by: other runs differ from them by as much again.
const SLOWER_JUDGED: f64 = SLOWER_MAX / 2.0;
/// What a choice has to gain in the mean over the jobs; less is noise of few runs.
pub const GAIN_MIN: f64 = 0.002;
/// Most choices that are tried for candidates that are ranked: one round over the groups of a usual component.
pub const TRIED_RANKING: usize = 24;
/// Most choices that are tried for what is committed: a few rounds over the pairs of ten jobs.
pub const TRIED_COMMIT: usize = 240;
/// Jobs times choices for one component, for each choice is some runs of the fluid model whose cost grows with the jobs.
pub const JOBS_TRIED_MAX: usize = 4_096;
/// How much longer iterations may be on average for the sake of quiet, as a share, and how much longer any job's.
pub const QUIET_MEAN_MAX: f64 = 0.02;
/// See [`QUIET_MEAN_MAX`].
pub const QUIET_SLOWER_MAX: f64 = 0.1;
/// Quiet has to be at least this part less time above capacity than what is chosen for time.
pub const QUIET_LESS: f64 = 0.5;
/// Runs by which choices are compared, and runs by which the best are judged. Jobs start anywhere in each.
const SEARCH: Trial = Trial { jitter_permille: 0, seed: 1, runs: 3, begin: Begin::Anywhere };
const JUDGE: Trial = Trial { jitter_permille: 0, seed: 1_001, runs: 8, begin: Begin::Anywhere };

/// What is asked of [`advise`].
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The jobs of a component.
    pub jobs: &'a [FluidJob],
    /// GPUs of each job, its weight; one, where it does not say.
    pub gpus: &'a [u32],
    /// Where they meet.
    pub links: &'a [FluidLink<'a>],
    /// Where each job asks; once an iteration, where it does not say.
    pub asks: &'a [Asks],
    /// How much Down phases vary ([`fluid::jitter`]).
    pub jitter_permille: u32,
    /// Most choices to try: [`TRIED_RANKING`] or [`TRIED_COMMIT`]; 0 predicts nobody and everybody only.
    pub tried_max: usize,
}

/// Who takes turns with whom, and at which price.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taking {
    /// Per job: its opponents, by index, ascending. Whoever is named names back.
    pub opponents: Vec<Vec<u32>>,
    /// Per link: how much demands may be together, in thousandths of its capacity.
    pub price_permille: Vec<u32>,
}

/// A choice, and what is predicted then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// The choice.
    pub taking: Taking,
    /// Per job: mean time from one start of an iteration to the next, of jobs that start anywhere.
    pub times: Vec<Nanos>,
    /// Mean of iteration over iteration alone, weighted by GPUs.
    pub mean: f64,
    /// The share of the time in use in which links are above capacity ([`TurnTimes::overlap`]).
    pub overlap: f64,
}

/// What taking turns brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brings {
    /// Neither time nor quiet.
    Nothing,
    /// Shorter iterations.
    Time,
    /// No time, but links that are less often above capacity, and so fewer marks.
    Quiet,
}

/// Who should take turns with whom. All of it is predicted by the same runs, which chose nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advice {
    /// With nobody kept apart.
    pub free: Predicted,
    /// What to do for the sake of time; equal to `free` where turns bring none.
    pub chosen: Predicted,
    /// With everybody who can exceed a link with another kept apart, at no price.
    pub everybody: Predicted,
    /// What to do for the sake of quiet, where that brings more of it than `chosen`.
    pub quiet: Option<Predicted>,
}

/// A group of jobs that take turns, directly or through others: what one arbiter is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arbitrated {
    /// The jobs, ascending; member `i` of the group is the `i`-th of them.
    pub jobs: Vec<usize>,
    /// What [`turns::Arbiter::new`] takes. Links keep their numbers; those that no member uses have none of its demands.
    pub group: Group,
}

impl Advice {
    /// What the chosen turns bring.
    #[must_use]
    pub fn brings(&self) -> Brings {
        match (self.chosen.taking.is_nobody(), self.quiet.is_some()) {
            (false, _) => Brings::Time,
            (true, true) => Brings::Quiet,
            (true, false) => Brings::Nothing,
        }
    }
}

impl Taking {
    /// Whether no job has an opponent.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.opponents.iter().all(Vec::is_empty)
    }

    /// The choice as the jobs' arbiters need it: one group for each set of jobs that take turns, directly or through others, in order of
    /// their first job. A job without opponents is in none.
    #[must_use]
    pub fn groups(&self, jobs: &[FluidJob], links: &[FluidLink<'_>]) -> Vec<Arbitrated> {
        let whole = turn_group(jobs, links, &self.opponents, |l| self.price_of(l));
        let mut number: Vec<Option<u32>> = vec![None; jobs.len()];
        let mut found = Vec::new();
        for first in 0..jobs.len() {
            if number[first].is_some() || whole.members[first].opponents.is_empty() {
                continue;
            }
            let mut set = vec![first];
            number[first] = Some(0);
            let mut next = 0;
            // Each job comes into the set once, so the walk ends.
            while next < set.len() {
                for &other in &whole.members[set[next]].opponents {
                    if let Some(unseen @ None) = number.get_mut(other as usize) {
                        *unseen = Some(0);
                        set.push(other as usize);
                    }
                }
                next += 1;
            }
            set.sort_unstable();
            (0..).zip(&set).for_each(|(i, job)| number[*job] = Some(i));
            let member = |job: &usize| {
                let mut member = whole.members[*job].clone();
                member.opponents = member.opponents.iter().filter_map(|o| number.get(*o as usize).copied().flatten()).collect();
                member
            };
            let members = set.iter().map(member).collect();
            found.push(Arbitrated { group: Group { members, limits: whole.limits.clone(), ahead: whole.ahead }, jobs: set });
        }
        found
    }

    fn price_of(&self, link: usize) -> u32 {
        self.price_permille.get(link).copied().unwrap_or(PRICES_PERMILLE[0])
    }
}

/// Advises who should take turns with whom. A choice is never predicted to make a job more than [`SLOWER_MAX`] slower than nobody kept
/// apart, and is made only where the mean gains [`GAIN_MIN`].
#[must_use]
pub fn advise(question: &Question<'_>) -> Advice {
    let search = Search::new(question);
    let free = predict(question, JUDGE, search.nobody());
    if !search.can_choose() {
        return Advice { chosen: free.clone(), everybody: free.clone(), free, quiet: None };
    }
    let everybody = predict(question, JUDGE, search.everybody());
    let judged: Vec<Predicted> = search.best().into_iter().map(|taking| predict(question, JUDGE, taking)).collect();
    let gains = |p: &&Predicted| p.mean <= free.mean - GAIN_MIN && slowest(p, &free) <= 1.0 + SLOWER_JUDGED;
    let best = judged.iter().chain([&everybody]).filter(gains).min_by(|a, b| a.mean.total_cmp(&b.mean));
    let chosen = best.unwrap_or(&free).clone();
    let quiet = |p: &&Predicted| {
        let slower = p.mean <= free.mean * (1.0 + QUIET_MEAN_MAX) && slowest(p, &free) <= 1.0 + QUIET_SLOWER_MAX;
        slower && p.overlap < chosen.overlap * (1.0 - QUIET_LESS)
    };
    let quiet = judged.iter().chain([&everybody]).filter(quiet).min_by(|a, b| a.overlap.total_cmp(&b.overlap)).cloned();
    Advice { free, chosen, everybody, quiet }
}

/// What is predicted for a choice that was made before, as [`advise`] would say it.
#[must_use]
pub fn predicted(question: &Question<'_>, taking: Taking) -> Predicted {
    predict(question, JUDGE, taking)
}

fn predict(question: &Question<'_>, trial: Trial, taking: Taking) -> Predicted {
    let group = turn_group(question.jobs, question.links, &taking.opponents, |l| taking.price_of(l));
    let trial = Trial { jitter_permille: question.jitter_permille, ..trial };
    let TurnTimes { times, overlap } = predict_turns(question.jobs, question.links, &group, question.asks, trial);
    let weight = |j: usize| f64::from(question.gpus.get(j).copied().unwrap_or(1));
    let all: f64 = (0..times.len()).map(weight).sum();
    let sum: f64 = times.iter().zip(question.jobs).enumerate().map(|(j, (t, job))| weight(j) * ratio(*t, job.iteration)).sum();
    Predicted { taking, times, mean: if all > 0.0 { sum / all } else { 1.0 }, overlap }
}

/// The longest time of a job beside what it takes with nobody kept apart.
fn slowest(of: &Predicted, free: &Predicted) -> f64 {
    of.times.iter().zip(&free.times).map(|(t, f)| ratio(*t, *f)).fold(0.0, f64::max)
}

fn ratio(time: Nanos, of: Nanos) -> f64 {
    time.0 as f64 / of.0.max(1) as f64
}
