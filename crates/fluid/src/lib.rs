//! How long an iteration takes: a closed-loop fluid model of jobs that share links.
//!
//! Every job repeats the segments of its iteration. A Down segment lasts a fixed time. An Up segment has a volume
//! on each link it uses; while jobs are Up together, a link shares its capacity max-min fairly with one class
//! per job: equal rates for those who want more, the rest satisfied. A job's speed is the smallest fraction that any
//! of its links gives it, so that an Up segment stretches and everything after it moves. What a job cannot use on
//! one link because another holds it back goes to the others there (`filling`).
//!
//! Each component runs three times: every job alone (`solo`); all from time 0 with no job waiting (`contended`); and
//! with time-shifts, all held by the gate's rule (`all_held`): early, wait for the slot; late by at most the
//! tolerance, go; later than that, slip to the next slot.
//!
//! A fourth kind of run lets jobs take turns ([`predict_turns`]): the service's arbiter says who may send.
//!
//! Event times are whole nanoseconds and progress is fixed point, so equal inputs give equal bytes. A run ends
//! when a state recurs, and then means are exact over that cycle; jobs whose periods do not lock may never
//! repeat a state, and are averaged after a warm-up over a bounded number of iterations.
//!
//! An exact cycle may be one that real jobs leave ([`jitter`]): the cycle is kept if it survives jitter, and else the mean under
//! jitter stands for it.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod asking;
mod by_turns;
mod gate;
pub mod jitter;
mod layout;
mod rates;
mod run;
mod share;
mod steady;
mod trial;
mod varied;

use alloc::vec::Vec;

use circle::Phase;
use units::{Nanos, Rate};

use gate::Gate;
use layout::Layout;
use run::Rules;

pub use asking::Asks;
pub use by_turns::{ByTurns, Component, Span, predict_turns, turn_group};
pub use gate_core::HELD_PERIOD_MAX;
pub use rates::{Rates, SPEED_BITS_MAX};
pub use share::{
    Sharing,
    weighted::{WEIGHT_ONE, WeightedSharing},
};
pub use trial::{Begin, Trial, TrialTimes};

/// Default lateness that still starts at once, in thousandths of the period: 15 % held real jobs in phase on a busy
/// machine, where 2 % made every late iteration lose a whole period.
pub const TOLERANCE_PERMILLE: u32 = 150;
/// From the end of one job to the start of one that takes its turn: the end is told, the start is granted, and the gate wakes. With a
/// thousand agents 0.2 to 0.6 ms (docs/promises.md); jobs that send for milliseconds at a time feel it.
pub const TURN_WAY: Nanos = Nanos::from_micros(300);
/// Most iterations simulated of the job with the longest period. Jobs of equal periods settle within a few;
/// beyond this the mean changes by less than one part in this many.
pub const ITERATIONS_MAX: usize = 24;
/// Iterations of that job before averages start, where no state recurs.
pub const WARM_UP_ITERATIONS: usize = 8;
/// Most segment ends simulated per job of a component: 24 iterations of 680 phases. This limit bounds the work where one
/// job's period is thousands of times another's.
pub const EVENTS_PER_JOB_MAX: usize = 1 << 15;
/// Most demands that one run looks at, some tenths of a second: what an event costs grows with the jobs on its links, and a commit waits for
/// the runs of its component. Those of 300 jobs of one phase on one link are whole; of a thousand of a hundred phases the first iterations are
/// seen, and the rest follows from their pace.
pub const WORK_MAX: u64 = 1 << 27;

/// A job of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluidJob {
    /// Length of the iteration when no link holds the job back; its phases lie within.
    pub iteration: Nanos,
    /// Scheduled period: the distance of its slots, at least the iteration.
    pub period: Nanos,
    /// Its time-shift: the first slot.
    pub shift: Nanos,
}

/// A link of the model: its capacity, and (job, demand) of each job on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluidLink<'a> {
    /// Capacity, not zero.
    pub capacity: Rate,
    /// Index of the job and its phases, sorted and disjoint, within its iteration. Each job at most once.
    pub demands: Vec<(usize, &'a [Phase])>,
}

/// Mean time from one start of an iteration to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IterationTimes {
    /// Alone on its links.
    pub solo: Nanos,
    /// With the others, begun together, without a gate: exact where that survives jitter, and else the mean under it.
    pub contended: Nanos,
    /// With the others, shifted and gated: exact where that survives jitter, and else the mean under it.
    pub all_held: Nanos,
    /// Share of those iterations that slipped a slot. The gate lengthens the period above 1 in 20.
    pub slips: f64,
}

/// Predicts the iteration times of `jobs` on `links`, with the [`jitter::JITTER_PERMILLE`] of ordinary jobs. Demands of unknown
/// jobs and links without capacity are ignored.
#[must_use]
pub fn predict(jobs: &[FluidJob], links: &[FluidLink<'_>], tolerance_permille: u32) -> Vec<IterationTimes> {
    predict_with(jobs, links, tolerance_permille, jitter::JITTER_PERMILLE)
}

/// As [`predict`], with Down phases that vary by so much; 0 for jobs that repeat themselves to the nanosecond.
#[must_use]
pub fn predict_with(jobs: &[FluidJob], links: &[FluidLink<'_>], tolerance_permille: u32, jitter_permille: u32) -> Vec<IterationTimes> {
    let layout = Layout::new(jobs, links);
    let solo: Vec<u64> = (0..jobs.len()).map(|j| layout.solo(j)).collect();
    // Without gates an undisturbed job takes its time alone, and so that is what the runs are compared with.
    let contended = jitter::settled(&layout, None, &solo, jitter_permille);
    let all_held = gated(&layout, jobs, tolerance_permille, jitter_permille, |_| true);
    let times = |j: usize| IterationTimes {
        solo: Nanos(solo[j]),
        contended: Nanos(contended[j].mean),
        all_held: Nanos(all_held[j].mean),
        slips: all_held[j].slips,
    };
    (0..jobs.len()).map(times).collect()
}

/// What each job takes alone on its links.
#[must_use]
pub fn solo(jobs: &[FluidJob], links: &[FluidLink<'_>]) -> Vec<Nanos> {
    let layout = Layout::new(jobs, links);
    (0..jobs.len()).map(|j| Nanos(layout.solo(j))).collect()
}

/// [`IterationTimes::contended`] of each job.
#[must_use]
pub fn predict_contended(jobs: &[FluidJob], links: &[FluidLink<'_>], jitter_permille: u32) -> Vec<Nanos> {
    let layout = Layout::new(jobs, links);
    let solo: Vec<u64> = (0..jobs.len()).map(|j| layout.solo(j)).collect();
    jitter::settled(&layout, None, &solo, jitter_permille).iter().map(|m| Nanos(m.mean)).collect()
}

/// What a job takes while some jobs are held, itself or others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldTime {
    /// Mean time from one start of an iteration to the next.
    pub time: Nanos,
    /// Share of those iterations that slipped a slot; 0 of a job that is not held.
    pub slips: f64,
}

/// What each job takes when the jobs of `held` go through gates and the others run as they come, from time 0. A job that `held` does not
/// name is not held.
#[must_use]
pub fn predict_held(
    jobs: &[FluidJob],
    links: &[FluidLink<'_>],
    tolerance_permille: u32,
    jitter_permille: u32,
    held: &[bool],
) -> Vec<HeldTime> {
    let is_held = |j: usize| held.get(j) == Some(&true);
    held_times(&gated(&Layout::new(jobs, links), jobs, tolerance_permille, jitter_permille, is_held))
}

fn held_times(measured: &[steady::Measured]) -> Vec<HeldTime> {
    measured.iter().map(|m| HeldTime { time: Nanos(m.mean), slips: m.slips }).collect()
}

/// What the jobs of `held` and the others take in the runs of a trial: held jobs start in their slots, and the others when the trial says.
/// Runs of the same trial by turns ([`predict_turns`]) can be compared with them.
#[must_use]
pub fn predict_slots(jobs: &[FluidJob], links: &[FluidLink<'_>], tolerance_permille: u32, held: &[bool], trial: Trial) -> TrialTimes {
    let layout = Layout::new(jobs, links);
    let is_held = |j: usize| held.get(j) == Some(&true);
    let (gates, _) = gates(&layout, jobs, tolerance_permille, is_held);
    let first = |(j, first): (usize, u64)| if is_held(j) { gates[j].first() } else { first };
    trial.runs(&layout, jobs, |rules| {
        let first = rules.first.into_iter().enumerate().map(first).collect();
        Rules { gates: Some(gates.clone()), first, ..rules }
    })
}

/// As [`predict_held`] without jitter, and from few iterations where no state recurs: enough to see that holding these jobs
/// makes iterations much longer.
#[must_use]
pub fn glance_at_held(jobs: &[FluidJob], links: &[FluidLink<'_>], tolerance_permille: u32, held: &[bool]) -> Vec<HeldTime> {
    let layout = Layout::new(jobs, links);
    let (gates, _) = gates(&layout, jobs, tolerance_permille, |j| held.get(j) == Some(&true));
    let seen = run::run(&layout, Rules { gates: Some(gates), length: Some(varied::Length::GLANCE), ..Rules::default() });
    held_times(&seen.jobs)
}

/// What the jobs take when some are held.
fn gated(layout: &Layout, jobs: &[FluidJob], tolerance: u32, jitter: u32, held: impl Fn(usize) -> bool) -> Vec<steady::Measured> {
    let (gates, undisturbed) = gates(layout, jobs, tolerance, held);
    jitter::settled(layout, Some(&gates), &undisturbed, jitter)
}

/// The gates of jobs of which some are held, and what each job takes if nobody is in its way.
fn gates(layout: &Layout, jobs: &[FluidJob], tolerance: u32, held: impl Fn(usize) -> bool) -> (Vec<Gate>, Vec<u64>) {
    let gate = |(j, job): (usize, &FluidJob)| {
        let solo = layout.solo(j);
        // A gate could never meet slots that are closer together than the iteration alone is long.
        let period = job.period.0.max(solo);
        // A held job that meets no other takes its period, a free one its time alone.
        if held(j) { (Gate::new(job.shift.0, period, tolerance), period) } else { (Gate::open(), solo) }
    };
    jobs.iter().enumerate().map(gate).unzip()
}

#[cfg(test)]
mod cycle_tests;
#[cfg(test)]
mod mixtures;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;
#[cfg(test)]
mod without_jitter;
