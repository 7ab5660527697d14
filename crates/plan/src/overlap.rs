//! For how long jobs exceed a link together, per iteration of the slowest of them.

use alloc::{vec, vec::Vec};

use circle::Phase;
use num_integer::gcd;
use units::{Nanos, Rate};

/// Most phase edges walked for three jobs or more: a few milliseconds of work.
const EDGES_MAX: u128 = 1 << 18;
/// Most pairs of demand levels for which two jobs are compared on the reduced circle.
const LEVEL_PAIRS_MAX: usize = 256;

/// Time over capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Mean time over capacity per `of`, rounded to the nearest nanosecond.
    pub over: Nanos,
    /// The longest period of the jobs.
    pub of: Nanos,
    /// False when the circle of three jobs or more was too long to be walked whole.
    pub exact: bool,
}

/// A job on the link: period, time-shift, phases (sorted, disjoint, within the period).
pub type TimedPhases<'a> = (Nanos, Nanos, &'a [Phase]);

/// How long the jobs' total demand exceeds `capacity`. Exact for one and two jobs whatever their periods: two jobs meet
/// in every combination of their offsets modulo the gcd, so nothing has to be walked. Jobs of period 0 are ignored.
#[must_use]
pub fn over_capacity(capacity: Rate, jobs: &[TimedPhases<'_>]) -> Overlap {
    let jobs: Vec<TimedPhases<'_>> = jobs.iter().copied().filter(|j| j.0.0 > 0).collect();
    let longest = jobs.iter().map(|j| j.0.0).max().unwrap_or(0);
    if let [a, b] = jobs[..]
        && let Some(over) = pair(capacity.0, a, b)
    {
        return Overlap { over: Nanos(over), of: Nanos(longest), exact: true };
    }
    walk(capacity.0, &jobs, longest)
}

/// Distinct rates of a demand.
fn levels(phases: &[Phase]) -> Vec<u64> {
    let mut levels: Vec<u64> = phases.iter().map(|p| p.rate.0).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Two jobs. For each residue r modulo g = gcd, job A is at level u for c_u(r) of its offsets and B at level v for c_v(r)
/// of its own; over one LCM each combination occurs once (Chinese remainder), so they are at (u, v) together for
/// the integral of c_u * c_v over one g.
fn pair(capacity: u64, a: TimedPhases<'_>, b: TimedPhases<'_>) -> Option<u64> {
    let (ta, tb) = (a.0.0, b.0.0);
    let g = gcd(ta, tb);
    let (levels_a, levels_b) = (levels(a.2), levels(b.2));
    // The work grows with the pairs of levels; beyond the limit the caller walks along the edges instead.
    if levels_a.len() * levels_b.len() > LEVEL_PAIRS_MAX {
        return None;
    }
    let folded_a: Vec<_> = levels_a.iter().map(|&u| (u, fold(a, u, g))).collect();
    let folded_b: Vec<_> = levels_b.iter().map(|&v| (v, fold(b, v, g))).collect();
    let mut over = 0u128;
    // Time that each level that is over alone has not yet been counted for.
    let mut alone_a: Vec<u128> = folded_a.iter().map(|(u, _)| time_at(a.2, *u) * u128::from(tb / g)).collect();
    let mut alone_b: Vec<u128> = folded_b.iter().map(|(v, _)| time_at(b.2, *v) * u128::from(ta / g)).collect();
    for ((u, count_u), alone_u) in folded_a.iter().zip(&mut alone_a) {
        for ((v, count_v), alone_v) in folded_b.iter().zip(&mut alone_b) {
            let together = product(count_u, count_v, g);
            // A level meets each level of the other job at different times, so the meetings together are no longer than its own time.
            *alone_u -= together;
            *alone_v -= together;
            if u.saturating_add(*v) > capacity {
                over += together;
            }
        }
    }
    let over_alone = |folded: &[(u64, Counts)], alone: &[u128]| -> u128 {
        folded.iter().zip(alone).filter(|((level, _), _)| *level > capacity).map(|(_, t)| t).sum()
    };
    over += over_alone(&folded_a, &alone_a) + over_alone(&folded_b, &alone_b);
    // One LCM holds `ta * tb / g` ticks, so it holds this many iterations of the longer job.
    let iterations = u128::from(ta.min(tb) / g);
    u64::try_from((over + iterations / 2) / iterations).ok()
}

fn time_at(phases: &[Phase], level: u64) -> u128 {
    phases.iter().filter(|p| p.rate.0 == level).map(|p| u128::from(p.end.0 - p.start.0)).sum()
}

/// How many of a job's offsets are at a level, for each residue: a base and where it rises and falls.
struct Counts {
    base: u128,
    edges: Vec<(u64, i64)>,
}

fn fold((_, shift, phases): TimedPhases<'_>, level: u64, g: u64) -> Counts {
    let mut counts = Counts { base: 0, edges: Vec::new() };
    for phase in phases.iter().filter(|p| p.rate.0 == level) {
        let length = phase.end.0 - phase.start.0;
        // Every whole `g` of a phase covers each residue once; only the rest depends on where the phase begins.
        counts.base += u128::from(length / g);
        let rest = length % g;
        if rest == 0 {
            continue;
        }
        let start = ((u128::from(phase.start.0) + u128::from(shift.0)) % u128::from(g)) as u64;
        counts.edges.push((start, 1));
        if start + rest < g {
            counts.edges.push((start + rest, -1));
        } else {
            // The rest of the phase wraps, so it covers the beginning of the circle too.
            counts.base += 1;
            counts.edges.push((start + rest - g, -1));
        }
    }
    counts.edges.sort_unstable();
    counts
}

/// Integral over [0, g) of the product of two counts.
fn product(a: &Counts, b: &Counts, g: u64) -> u128 {
    let (mut i, mut j) = (0, 0);
    let (mut level_a, mut level_b) = (a.base as i128, b.base as i128);
    let (mut at, mut sum) = (0u64, 0i128);
    loop {
        let (next_a, next_b) = (a.edges.get(i), b.edges.get(j));
        let next = next_a.map_or(g, |e| e.0).min(next_b.map_or(g, |e| e.0));
        sum += level_a * level_b * i128::from(next - at);
        at = next;
        // At the same place rises and falls commute: the stretch between them is empty.
        match (next_a, next_b) {
            (Some(e), _) if e.0 == at => (level_a, i) = (level_a + i128::from(e.1), i + 1),
            (_, Some(e)) if e.0 == at => (level_b, j) = (level_b + i128::from(e.1), j + 1),
            _ => return sum.max(0) as u128,
        }
    }
}

/// Any number of jobs: walks one LCM of the periods, or as many iterations of the longest as the bound on edges allows.
fn walk(capacity: u64, jobs: &[TimedPhases<'_>], longest: u64) -> Overlap {
    let none = Overlap { over: Nanos(0), of: Nanos(longest), exact: true };
    if longest == 0 || jobs.iter().all(|j| j.2.is_empty()) {
        return none;
    }
    let lcm = jobs.iter().try_fold(1u128, |l, j| l.checked_mul(u128::from(j.0.0) / gcd(l, u128::from(j.0.0))));
    // A job with the period `T` begins up to `longest / T + 1` iterations within one of the longest.
    let per_iteration: u128 = jobs.iter().map(|j| (u128::from(longest / j.0.0) + 1) * (2 * j.2.len() as u128)).sum();
    let affordable = (EDGES_MAX / per_iteration.max(1)).max(1);
    // An LCM is a multiple of the longest period, so the division is exact.
    let wanted = lcm.map(|l| l / u128::from(longest)).filter(|i| *i <= affordable);
    let iterations = wanted.unwrap_or(affordable);
    let Ok(end) = u64::try_from(iterations.saturating_mul(u128::from(longest))) else {
        return Overlap { exact: false, ..none };
    };
    let over = walk_until(capacity, jobs, end);
    Overlap { over: Nanos(((u128::from(over) + iterations / 2) / iterations) as u64), of: Nanos(longest), exact: wanted.is_some() }
}

/// Where one job is on its circle: its level now, and when that changes.
struct Cursor<'a> {
    phases: &'a [Phase],
    period: u64,
    /// Start of the iteration, possibly before time 0 (hence signed).
    origin: i128,
    /// Edge to come: 2 * phase for its start, 2 * phase + 1 for its end.
    edge: usize,
    level: u64,
}

impl Cursor<'_> {
    fn next(&self) -> i128 {
        let phase = self.phases[self.edge / 2];
        self.origin + i128::from(if self.edge.is_multiple_of(2) { phase.start.0 } else { phase.end.0 })
    }

    fn pass(&mut self) {
        // Phases are disjoint, so between the end of one and the start of the next the job is silent.
        self.level = if self.edge.is_multiple_of(2) { self.phases[self.edge / 2].rate.0 } else { 0 };
        self.edge += 1;
        if self.edge == 2 * self.phases.len() {
            self.edge = 0;
            self.origin += i128::from(self.period);
        }
    }
}

fn walk_until(capacity: u64, jobs: &[TimedPhases<'_>], end: u64) -> u64 {
    let mut cursors: Vec<Cursor<'_>> = vec![];
    for (period, shift, phases) in jobs.iter().filter(|j| !j.2.is_empty()) {
        // The walk begins an iteration early, so that a phase which is under way at time 0 has its level.
        let origin = i128::from(shift.0 % period.0) - i128::from(period.0);
        let mut cursor = Cursor { phases, period: period.0, origin, edge: 0, level: 0 };
        while cursor.next() <= 0 {
            cursor.pass();
        }
        cursors.push(cursor);
    }
    let (mut now, mut over) = (0i128, 0i128);
    while now < i128::from(end) {
        let next = cursors.iter().map(Cursor::next).min().unwrap_or(i128::from(end)).min(i128::from(end));
        // A saturated sum is above every capacity but the largest number there is.
        if cursors.iter().fold(0u64, |sum, c| sum.saturating_add(c.level)) > capacity {
            over += next - now;
        }
        now = next;
        for cursor in &mut cursors {
            while cursor.next() <= now {
                cursor.pass();
            }
        }
    }
    over as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Ticks;

    fn up(start: u64, end: u64, rate: u64) -> Phase {
        Phase { start: Ticks(start), end: Ticks(end), rate: Rate(rate) }
    }

    #[test]
    fn two_equal_circles() {
        // Up [141, 255) twice: 114 together. Shifted by 114: [0, 114) and [141, 255): nothing.
        let phase = [up(141, 255, 10)];
        let at = |shift| over_capacity(Rate(10), &[(Nanos(255), Nanos(0), &phase), (Nanos(255), Nanos(shift), &phase)]);
        assert_eq!(at(0), Overlap { over: Nanos(114), of: Nanos(255), exact: true });
        assert_eq!(at(114).over, Nanos(0));
        // Shifted by 50 it is [191, 305), so [191, 255) together.
        assert_eq!(at(50).over, Nanos(64));
    }

    #[test]
    fn coprime_periods_meet_in_proportion_whatever_the_shift() {
        // gcd 1: the job pair is Up together for 50 * 30 of every 101 * 100 ns: 15 per 101.
        let (a, b) = ([up(0, 50, 6)], [up(10, 40, 6)]);
        for shift in [0, 1, 57] {
            let found = over_capacity(Rate(10), &[(Nanos(101), Nanos(shift), &a), (Nanos(100), Nanos(0), &b)]);
            assert_eq!(found, Overlap { over: Nanos(15), of: Nanos(101), exact: true });
        }
    }

    #[test]
    fn a_job_that_is_over_alone_counts_once() {
        // A is over alone for 20 of 40; B adds [15, 25), of which 5 are outside A and fit: 20.
        let (a, b) = ([up(0, 20, 11)], [up(15, 25, 3)]);
        let jobs = [(Nanos(40), Nanos(0), &a[..]), (Nanos(40), Nanos(0), &b[..])];
        assert_eq!(over_capacity(Rate(10), &jobs).over, Nanos(20));
        assert_eq!(over_capacity(Rate(10), &jobs[..1]).over, Nanos(20));
        assert_eq!(over_capacity(Rate(10), &[]).over, Nanos(0));
    }

    #[test]
    fn a_circle_too_long_to_walk_is_sampled_and_says_so() {
        let phase = [up(0, 500_000, 10)];
        let jobs: Vec<TimedPhases<'_>> = [1_000_003, 1_000_033, 1_000_037].iter().map(|p| (Nanos(*p), Nanos(0), &phase[..])).collect();
        let found = over_capacity(Rate(10), &jobs);
        assert!(!found.exact);
        // Independent halves: at least two of three are Up half of the time.
        assert!((400_000..600_000).contains(&found.over.0), "{found:?}");
    }

    fn turn() -> impl Strategy<Value = (u64, u64, Vec<Phase>)> {
        (4u64..40, 0u64..40, proptest::collection::vec((1u64..6, 1u64..6, 1u64..15), 0..3)).prop_map(|(period, shift, spans)| {
            let mut at = 0;
            let mut phases = Vec::new();
            for (gap, length, rate) in spans {
                let (start, end) = (at + gap - 1, at + gap - 1 + length);
                if end > period {
                    break;
                }
                phases.push(up(start, end, rate));
                at = end;
            }
            (period, shift % period, phases)
        })
    }

    proptest! {
        #[test]
        fn agrees_with_counting_every_tick(jobs in proptest::collection::vec(turn(), 1..4), capacity in 1u64..20) {
            let turns: Vec<TimedPhases<'_>> = jobs.iter().map(|(p, s, d)| (Nanos(*p), Nanos(*s), &d[..])).collect();
            let lcm = jobs.iter().fold(1, |l, j| l / gcd(l, j.0) * j.0);
            let longest = jobs.iter().map(|j| j.0).max().unwrap();
            let level = |t: u64, (p, s, d): &(u64, u64, Vec<Phase>)| {
                let at = (t + p - s) % p;
                d.iter().find(|x| x.start.0 <= at && at < x.end.0).map_or(0, |x| x.rate.0)
            };
            let over = (0..lcm).filter(|t| jobs.iter().map(|j| level(*t, j)).sum::<u64>() > capacity).count() as u64;
            let iterations = lcm / longest;
            let expected = (over + iterations / 2) / iterations;
            prop_assert_eq!(over_capacity(Rate(capacity), &turns), Overlap { over: Nanos(expected), of: Nanos(longest), exact: true });
        }
    }
}
