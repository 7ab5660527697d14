//! The model by turns beside the probes' tables.
//!
//! `cargo test -p antiphase-fluid turn_tests -- --nocapture` prints the figures of docs/model.md, section 14.

use std::{println, vec, vec::Vec};

use circle::Phase;
use units::{Nanos, Rate, Ticks};

use crate::{
    Asks, Begin, Component, FluidJob, FluidLink, Span, TOLERANCE_PERMILLE, Trial, TrialTimes, predict_slots, predict_turns, turn_group,
};

/// A hundredth of the usual iteration.
const UNIT: u64 = 2_500_000;
const CAPACITY: u64 = 100_000;
/// Down phases vary by 2 % either way, as in the probes: a standard deviation of `20 / sqrt(3)`.
const TWO_PERCENT: u32 = 12;
const FIVE_PERCENT: u32 = 29;

/// A job: its iteration and its Up phases (from, to, rate in hundredths of a link), in units, and its links.
type Spec = (u64, Vec<(u64, u64, u64)>, Vec<usize>);

struct Case {
    jobs: Vec<Spec>,
    asks: Asks,
    price_permille: u32,
}

fn one(iteration: u64, up: u64, links: &[usize]) -> Spec {
    (iteration, vec![(0, up, 100)], links.to_vec())
}

impl Case {
    fn new(jobs: Vec<Spec>) -> Self {
        Self { jobs, asks: Asks::Iteration, price_permille: 1_000 }
    }

    /// `count` jobs with these phases on one link.
    fn equal(count: usize, ups: &[(u64, u64, u64)], asks: Asks, price_permille: u32) -> Self {
        Self { jobs: vec![(100, ups.to_vec(), vec![0]); count], asks, price_permille }
    }

    /// Ratios to solo, free and by turns for everybody; and the overlap of both.
    fn run(&self, jitter_permille: u32, begin: Begin) -> ([Vec<f64>; 2], [f64; 2]) {
        let up = |&(start, end, rate): &(u64, u64, u64)| Phase {
            start: Ticks(start * UNIT),
            end: Ticks(end * UNIT),
            rate: Rate(rate * CAPACITY / 100),
        };
        let phases: Vec<Vec<Phase>> = self.jobs.iter().map(|j| j.1.iter().map(up).collect()).collect();
        let job = |j: &Spec| FluidJob { iteration: Nanos(j.0 * UNIT), period: Nanos(j.0 * UNIT), shift: Nanos(0) };
        let jobs: Vec<FluidJob> = self.jobs.iter().map(job).collect();
        let count = self.jobs.iter().flat_map(|j| &j.2).max().unwrap() + 1;
        let on = |l: usize| (0..jobs.len()).filter(|&j| self.jobs[j].2.contains(&l)).map(|j| (j, &phases[j][..])).collect();
        let links: Vec<FluidLink<'_>> = (0..count).map(|l| FluidLink { capacity: Rate(CAPACITY), demands: on(l) }).collect();
        let n = jobs.len() as u32;
        let everybody: Vec<Vec<u32>> = (0..n).map(|j| (0..n).filter(|o| *o != j).collect()).collect();
        let times = |opponents: &[Vec<u32>]| -> (Vec<f64>, f64) {
            let group = turn_group(&jobs, &links, opponents, |_| self.price_permille);
            let trial = Trial { jitter_permille, seed: 1, runs: 8, begin, way: Nanos(0) };
            let TrialTimes { times, overlap, .. } = predict_turns(&jobs, &links, &group, &vec![self.asks; jobs.len()], trial);
            (times.iter().zip(&jobs).map(|(t, j)| t.0 as f64 / j.iteration.0 as f64).collect(), overlap)
        };
        let (free, turned) = (times(&[]), times(&everybody));
        ([free.0, turned.0], [free.1, turned.1])
    }
}

/// By turns, no job takes longer than these times its iteration alone, and hardly any link is above capacity; begun anywhere, so that
/// nothing depends on the beginning. Without turns somebody takes longer than `free`.
fn bounded(name: &str, case: &Case, jitter_permille: u32, free: f64, most: &[f64]) {
    let ([slow, turned], [over_free, over]) = case.run(jitter_permille, Begin::Anywhere);
    println!("{name:>20}, jitter {jitter_permille:2}: free {slow:.3?} overlap {over_free:.2}, turns {turned:.3?} overlap {over:.4}");
    assert!(slow.iter().any(|t| *t > free) && over_free > 0.2, "{name}: {slow:?}");
    let within = turned.iter().enumerate().all(|(j, t)| *t >= 0.998 && *t <= most[j.min(most.len() - 1)]);
    assert!(within && over < 0.002, "{name}, jitter {jitter_permille}: {turned:?} {over}");
}

/// `arbiter_sim.py`, `arbiter_cases.py`: 1.000 to 1.007 at 2 %, 1.003 to 1.022 at 5 %; free 1.1 to 1.4.
#[test]
fn whoever_fits_one_after_the_other_pays_nothing() {
    let one_link = |ups: &[u64]| Case::new(ups.iter().map(|up| one(100, *up, &[0])).collect());
    let cases = [
        ("two of 0.45", one_link(&[45, 45]), 1.15, [1.001, 1.002]),
        ("three, load 0.99", one_link(&[33; 3]), 1.2, [1.006, 1.016]),
        ("five of 0.18", one_link(&[18; 5]), 1.15, [1.005, 1.015]),
        ("four sizes", one_link(&[40, 30, 20, 5]), 1.2, [1.005, 1.03]),
        ("1:2", Case::new(vec![one(50, 22, &[0]), one(100, 25, &[0])]), 1.07, [1.002, 1.007]),
        ("chain", Case::new(vec![one(100, 45, &[0]), one(100, 45, &[0, 1]), one(100, 45, &[1])]), 1.3, [1.002, 1.005]),
        ("loop", Case::new(vec![one(100, 31, &[0, 1]), one(100, 31, &[1, 2]), one(100, 31, &[2, 0])]), 1.15, [1.004, 1.01]),
        ("ring of six", Case::new((0..6).map(|l| one(100, 30, &[l, (l + 1) % 6])).collect()), 1.15, [1.002, 1.005]),
    ];
    for (name, case, free, most) in cases {
        bounded(name, &case, TWO_PERCENT, free, &most[..1]);
        bounded(name, &case, FIVE_PERCENT, free, &most[1..]);
    }
}

/// Where the profile begins with computing, the gate stands before the sending all the same.
#[test]
fn a_profile_may_begin_with_a_down_phase() {
    bounded("two, Down first", &Case::equal(2, &[(55, 100, 100)], Asks::Iteration, 1_000), TWO_PERCENT, 1.15, &[1.001]);
}

/// The slower one sets the pace: 369 for both, and 1.04 for both.
#[test]
fn near_equal_periods_lock() {
    let case = Case::new(vec![one(354, 154, &[0]), one(369, 169, &[0])]);
    bounded("354 and 369", &case, TWO_PERCENT, 1.15, &[369.0 / 354.0 + 0.001, 1.001]);
    let case = Case::new(vec![one(100, 45, &[0]), one(104, 45, &[0])]);
    bounded("1 and 1.04", &case, FIVE_PERCENT, 1.15, &[1.041, 1.001]);
}

/// At most 1.09 of 1.09: time is not what turns bring here. Nobody is above capacity then.
#[test]
fn periods_of_two_to_three_gain_no_time() {
    let ([free, turned], [over_free, over]) = Case::new(vec![one(80, 24, &[0]), one(120, 36, &[0])]).run(TWO_PERCENT, Begin::Anywhere);
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    println!("2:3: free {:.3} overlap {over_free:.2}, turns {:.3} overlap {over:.3}", mean(&free), mean(&turned));
    assert!((mean(&free) - mean(&turned)).abs() < 0.01 && mean(&turned) > 1.07, "{free:?} {turned:?}");
    assert!(over_free > 0.25 && over < 0.002, "{over_free} {over}");
}

/// `phases_sim.py`: 1.004 to 1.007 for turns phase by phase, whatever the price.
#[test]
fn several_phases_take_turns_one_by_one() {
    let mixed = vec![one(100, 40, &[0]), (100, vec![(0, 20, 100), (60, 80, 100)], vec![0])];
    for price_permille in [1_000, 1_250] {
        let equal = |count: usize, ups: &[(u64, u64, u64)]| Case::equal(count, ups, Asks::Phases, price_permille);
        bounded("two phases", &equal(2, &[(0, 20, 100), (50, 70, 100)]), TWO_PERCENT, 1.1, &[1.002]);
        bounded("three phases", &equal(2, &[(0, 12, 100), (32, 44, 100), (64, 76, 100)]), TWO_PERCENT, 1.07, &[1.002]);
        bounded("three of two phases", &equal(3, &[(0, 14, 100), (50, 64, 100)]), TWO_PERCENT, 1.15, &[1.003]);
        let mixed = Case { jobs: mixed.clone(), asks: Asks::Phases, price_permille };
        bounded("one beside two", &mixed, TWO_PERCENT, 1.1, &[1.007]);
    }
}

/// Where only the start can be gated, curves do: 1.004 if jobs begin together. Begun anywhere, jobs of three phases may keep a pattern
/// in which each waits a fifth of an iteration each time, and a choice by predicted times knows that.
#[test]
fn curves_at_the_start_depend_on_the_beginning() {
    let two = Case::equal(2, &[(0, 20, 100), (50, 70, 100)], Asks::Iteration, 1_000);
    let three = Case::equal(2, &[(0, 12, 100), (32, 44, 100), (64, 76, 100)], Asks::Iteration, 1_000);
    let turned = |case: &Case, begin: Begin| {
        let times = case.run(TWO_PERCENT, begin).0;
        println!("curves at the start, {begin:?}: free {:.3}, turns {:.3}", times[0][0], times[1][0]);
        times[1][0]
    };
    assert!(turned(&two, Begin::Together) < 1.004 && turned(&three, Begin::Together) < 1.012);
    assert!(turned(&two, Begin::Anywhere) < 1.05 && turned(&three, Begin::Anywhere) > 1.03);
}

/// 0.7 of the time at rate 0.6, twice: 1.40 in turns, and 1.136 together. A price of 1.25 lets 1.2 pass, so both go.
#[test]
fn a_price_lets_a_small_overload_pass() {
    let times = |price: u32| Case::equal(2, &[(0, 70, 60)], Asks::Phases, price).run(TWO_PERCENT, Begin::Together).0;
    let [free, exclusive] = times(1_000);
    println!("0.7 at 0.6, twice: free {free:.3?}, turns {exclusive:.3?}");
    assert!((free[0] - 1.136).abs() < 0.004 && exclusive.iter().all(|t| (*t - 1.4).abs() < 0.002), "{free:?} {exclusive:?}");
    let [free, priced] = times(1_250);
    assert_eq!(free, priced);
}

/// Jobs that are no opponents, or that the group does not know, run as they come.
#[test]
fn who_takes_no_turns_runs_free() {
    let phase = [Phase { start: Ticks(0), end: Ticks(45 * UNIT), rate: Rate(CAPACITY) }];
    let job = FluidJob { iteration: Nanos(100 * UNIT), period: Nanos(100 * UNIT), shift: Nanos(0) };
    let link = [FluidLink { capacity: Rate(CAPACITY), demands: vec![(0, &phase[..]), (1, &phase[..])] }];
    let trial = Trial { jitter_permille: 0, seed: 1, runs: 1, begin: Begin::Together, way: Nanos(0) };
    // Both at half of the link: 55 + 2 * 45.
    let expected = TrialTimes { times: vec![Nanos(145 * UNIT); 2], overlap: 1.0, cut_short: false };
    assert_eq!(predict_turns(&[job; 2], &link, &turn_group(&[job; 2], &link, &[], |_| 1_000), &[], trial), expected);
    assert_eq!(predict_turns(&[job; 2], &link, &turns::Group::default(), &[], trial), expected);
    // A run whose states recur before its warm-up is over tells of its cycle.
    assert_eq!(predict_slots(&[job; 2], &link, TOLERANCE_PERMILLE, &[], trial), expected);
    let group = turn_group(&[job; 2], &link, &[vec![1], vec![0]], |_| 1_000);
    let apart = predict_turns(&[job; 2], &link, &group, &[], trial);
    assert_eq!(apart, TrialTimes { times: vec![Nanos(100 * UNIT); 2], overlap: 0.0, cut_short: false });
    assert_eq!(predict_turns(&[], &[], &turns::Group::default(), &[], trial), TrialTimes::default());
}

/// A turn costs the way: whoever waits starts so much after those ahead have ended, and whoever asks again before its end is known waits for
/// the permission.
#[test]
fn a_turn_costs_the_way() {
    let way = UNIT / 2;
    let job = FluidJob { iteration: Nanos(100 * UNIT), period: Nanos(100 * UNIT), shift: Nanos(0) };
    let times = |up: u64, apart: bool| {
        let phase = [Phase { start: Ticks(0), end: Ticks(up), rate: Rate(CAPACITY) }];
        let link = |jobs: &[usize]| FluidLink { capacity: Rate(CAPACITY), demands: jobs.iter().map(|j| (*j, &phase[..])).collect() };
        let links = if apart { vec![link(&[0]), link(&[1])] } else { vec![link(&[0, 1])] };
        let group = turn_group(&[job; 2], &links, &[vec![1], vec![0]], |_| 1_000);
        let trial = Trial { jitter_permille: 0, seed: 1, runs: 1, begin: Begin::Together, way: Nanos(way) };
        predict_turns(&[job; 2], &links, &group, &[Asks::Phases; 2], trial).times
    };
    // Two jobs of 45 fit, and a wait is repaid. Two of 60 take turns all the time, so a round has two ways in it.
    assert_eq!(times(45 * UNIT, false), [Nanos(100 * UNIT); 2]);
    assert_eq!(times(60 * UNIT, false), [Nanos(120 * UNIT + 2 * way); 2]);
    // Jobs on links of their own are never in each other's way. One that computes for less than the way comes before its end is known.
    assert_eq!(times(99 * UNIT, true), [Nanos(100 * UNIT); 2]);
    assert_eq!(times(100 * UNIT - way / 5, true), [Nanos(100 * UNIT - way / 5 + way); 2]);
}

/// Slots and turns are compared by the same runs: with nobody held and nobody taking turns they are the same to the nanosecond.
#[test]
fn a_trial_draws_alike_whatever_keeps_jobs_apart() {
    let phase = |up: u64| [Phase { start: Ticks(10 * UNIT), end: Ticks((10 + up) * UNIT), rate: Rate(CAPACITY) }];
    let (a, b) = (phase(45), phase(40));
    let job =
        |iteration: u64, shift: u64| FluidJob { iteration: Nanos(iteration * UNIT), period: Nanos(105 * UNIT), shift: Nanos(shift * UNIT) };
    let jobs = [job(100, 0), job(97, 52)];
    let links = [FluidLink { capacity: Rate(CAPACITY), demands: vec![(0, &a[..]), (1, &b[..])] }];
    for begin in [Begin::Anywhere, Begin::Together] {
        let trial = Trial { jitter_permille: TWO_PERCENT, seed: 1, runs: 4, begin, way: Nanos(0) };
        let free = predict_turns(&jobs, &links, &turn_group(&jobs, &links, &[], |_| 1_000), &[], trial);
        let slots = |held: &[bool]| predict_slots(&jobs, &links, TOLERANCE_PERMILLE, held, trial);
        assert_eq!(slots(&[]), free);
        assert!(free.times[0].0 > 102 * UNIT && free.overlap > 0.1, "{free:?}");
        // Held jobs take their period, and their Up phases, 52 and 53 apart, never meet.
        assert_eq!(slots(&[true; 2]), TrialTimes { times: vec![Nanos(105 * UNIT); 2], overlap: 0.0, cut_short: false });
        let half = slots(&[true, false]);
        assert!(half != free && half.times[0].0 >= 105 * UNIT, "{half:?}");
    }
}

/// Random jobs on random links: what a run that is looked at on its way says at each look is what a new run of that length says.
#[test]
fn a_run_that_goes_on_is_a_run_of_that_length() {
    // A fixed stream of numbers (constants of Knuth's MMIX generator).
    let mut seed = 11_u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut differ = 0;
    for case in 0..60_usize {
        let count = 2 + draw(5) as usize;
        let iterations: Vec<u64> = (0..count).map(|_| [100, 100, 102, 200, 130, 170][draw(6) as usize] * UNIT).collect();
        let up = |from: u64, to: u64, rate: u64| Phase { start: Ticks(from), end: Ticks(to), rate: Rate(CAPACITY * rate / 100) };
        let phases: Vec<Vec<Phase>> = iterations
            .iter()
            .map(|i| match draw(3) {
                0 => vec![up(i / 10, i / 10 + i * (20 + draw(30)) / 100, 60 + 20 * draw(3))],
                1 => vec![up(0, i / 5, 100), up(i / 2, i / 2 + i * (10 + draw(20)) / 100, 70)],
                _ => vec![up(0, i * (20 + draw(30)) / 100, 90)],
            })
            .collect();
        let jobs: Vec<FluidJob> =
            iterations.iter().map(|i| FluidJob { iteration: Nanos(*i), period: Nanos(*i), shift: Nanos(0) }).collect();
        let on: Vec<Vec<usize>> = (1..count).map(|j| vec![draw(j as u64) as usize, j]).collect();
        let demands = |on: &Vec<usize>| on.iter().map(|&j| (j, &phases[j][..])).collect();
        let links: Vec<FluidLink<'_>> = on.iter().map(|on| FluidLink { capacity: Rate(CAPACITY), demands: demands(on) }).collect();
        let mut opponents = vec![Vec::new(); count];
        for pair in on.iter().filter(|_| case % 3 > 0) {
            opponents[pair[0]].push(pair[1] as u32);
            opponents[pair[1]].push(pair[0] as u32);
        }
        let group = turn_group(&jobs, &links, &opponents, |_| 1_000);
        let asks = vec![[Asks::Iteration, Asks::Phases][case % 2]; count];
        let begin = [Begin::Anywhere, Begin::Together][case / 2 % 2];
        let trial =
            Trial { jitter_permille: [0, 5][case / 4 % 2], seed: case as u32, runs: 3, begin, way: Nanos(case as u64 % 3 * 100_000) };
        let component = Component::new(&jobs, &links);
        let mut going = component.by_turns(group.clone(), &asks, trial);
        let mut last = None;
        for (span, runs) in [(Span::Blink, 2), (Span::Glance, 2), (Span::Look, 1), (Span::Whole, 3)] {
            let seen = going.see(span, runs);
            assert_eq!(seen, component.by_turns(group.clone(), &asks, trial).see(span, runs), "case {case}, {span:?}");
            differ += usize::from(last.as_ref().is_some_and(|last| *last != seen));
            last = Some(seen);
        }
    }
    // Looks that all said the same would compare nothing.
    assert!(differ > 120, "{differ}");
}

/// What an event costs grows with the jobs on its links. Before the bound, the runs of some hundred jobs on one link did not end within ten
/// seconds, in which the service planned a commit and did nothing else.
#[test]
fn a_run_of_very_many_jobs_ends_early_and_says_so() {
    let of = |count: usize, phases: u64, turns: bool| {
        let up = |p: u64| Phase { start: Ticks(p * UNIT), end: Ticks(p * UNIT + UNIT / 2), rate: Rate(CAPACITY / 2) };
        let ups: Vec<Phase> = (0..phases).map(up).collect();
        let job = |j: u64| FluidJob { iteration: Nanos(100 * UNIT + 7_919 * j), period: Nanos(100 * UNIT + 7_919 * j), shift: Nanos(0) };
        let jobs: Vec<FluidJob> = (0..count as u64).map(job).collect();
        let links = [FluidLink { capacity: Rate(CAPACITY), demands: (0..count).map(|j| (j, &ups[..])).collect() }];
        let n = if turns { count as u32 } else { 0 };
        let everybody: Vec<Vec<u32>> = (0..n).map(|j| (0..n).filter(|o| *o != j).collect()).collect();
        let group = turn_group(&jobs, &links, &everybody, |_| 1_000);
        let trial = Trial { jitter_permille: TWO_PERCENT, seed: 1, runs: 1, begin: Begin::Anywhere, way: Nanos(0) };
        let seen = predict_turns(&jobs, &links, &group, &vec![Asks::Iteration; count], trial);
        let slowest = seen.times.iter().zip(&jobs).map(|(time, job)| time.0 as f64 / job.iteration.0 as f64).fold(0.0, f64::max);
        (seen.cut_short, slowest, seen.overlap)
    };
    assert!(!of(32, 8, true).0 && !of(300, 1, false).0, "what commits plan all day is seen whole");
    // The link has a thirtieth, or less, of what they want: from the beginning alone it shows that they are slow, if not how slow.
    for (count, phases, turns) in [(1_000, 100, false), (400, 8, true), (64, 100, true)] {
        let (cut_short, slowest, overlap) = of(count, phases, turns);
        assert!(cut_short && slowest > 2.0, "{count} jobs of {phases} phases, turns {turns}: {slowest}");
        // And that they share it: nothing keeps them apart where none takes turns.
        assert!(turns || overlap > 0.9, "{count} jobs of {phases} phases: {overlap}");
    }
}
