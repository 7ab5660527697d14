//! The mean excess of a link under given shifts, walked edge by edge around the whole least common multiple of the periods.
//!
//! The plainest way to a score, and exact whatever couplings a circle of the search had to drop. Periods that are equal or harmonic have
//! a short multiple however many phases their jobs have; measured ones do not, and for those there are sums (`demand`).

use alloc::vec::Vec;

use num_integer::Integer as _;

use crate::model::problem::{Problem, ProblemLink};

/// Most edges of one walk: each takes 16 bytes, so 32 MiB.
pub(super) const EDGES_MAX: u64 = 1 << 21;
/// What an edge costs, in units of 10 ns: most of it is the sorting.
pub(super) const WORK_PER_EDGE: u64 = 8;

/// Mean demand beyond the capacity, in Mbit/s; `None` where the walk has more than `edges_max` edges.
pub(super) fn excess(problem: &Problem, link: &ProblemLink, shifts: &[u64], edges_max: u64) -> Option<f64> {
    let mut around = 1_u64;
    for member in &link.members {
        if !problem.phases(member.demand).is_empty() {
            let period = problem.period(member.job);
            around = (around / around.gcd(&period)).checked_mul(period)?;
        }
    }
    let repeats = |job| around / problem.period(job);
    let count = |m: &crate::Member| repeats(m.job).saturating_mul(2 * problem.phases(m.demand).len() as u64);
    if link.members.iter().map(count).fold(0, u64::saturating_add) > edges_max {
        return None;
    }
    // Rates are below 2^40 and there are at most 1,024 jobs on a link, so sums of rates fit.
    let mut level = 0_i64;
    let mut edges: Vec<(u64, i64)> = Vec::new();
    for member in &link.members {
        let (period, shift) = (problem.period(member.job), shifts[member.job.index()]);
        for phase in problem.phases(member.demand) {
            let (rate, length) = (phase.rate.0 as i64, phase.end.0 - phase.start.0);
            if length == period {
                level += rate;
                continue;
            }
            // Starts and shifts are below the period, which is at most `around`.
            let first = (phase.start.0 % period + shift % period) % period;
            for repeat in 0..repeats(member.job) {
                let start = first + repeat * period;
                // The last repeat may go on from the beginning; a length is below a period, so nothing here is below zero.
                let end = if start >= around - length { start - (around - length) } else { start + length };
                if end <= start {
                    level += rate;
                }
                edges.extend([(start, rate), (end, -rate)]);
            }
        }
    }
    edges.sort_unstable();
    let capacity = link.capacity.0 as i64;
    let (mut over, mut at) = (0_u128, 0);
    for (time, change) in edges.into_iter().chain([(around, 0)]) {
        // A level and a time are below 2^51 and 2^64, so 128 bits hold the sum.
        over += u128::from((level - capacity).max(0).unsigned_abs()) * u128::from(time - at);
        (at, level) = (time, level + change);
    }
    Some(over as f64 / around as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Phase, ProblemBuilder, Rate, Ticks};

    /// A period and its phases: start, end, rate.
    type Job<'a> = (u64, &'a [(u64, u64, u64)]);

    fn problem(jobs: &[Job<'_>]) -> Problem {
        let mut b = ProblemBuilder::new();
        let mut members = Vec::new();
        for (period, phases) in jobs {
            let job = b.job(Ticks(*period)).unwrap();
            let phases: Vec<Phase> = phases.iter().map(|p| Phase { start: Ticks(p.0), end: Ticks(p.1), rate: Rate(p.2) }).collect();
            members.push(b.demand(job, &phases).unwrap());
        }
        b.link(Rate(10), members).unwrap();
        b.build()
    }

    #[test]
    fn it_counts_every_tick() {
        let p = problem(&[(6, &[(0, 2, 7), (3, 4, 2)]), (4, &[(2, 4, 6)]), (3, &[(0, 3, 1)]), (5, &[])]);
        for shifts in [[0, 0, 0, 0], [5, 3, 2, 1], [4, 1, 0, 0], [3, 2, 1, 4]] {
            let on = |m: &crate::Member, t: u64| {
                let at = (t + 60 - shifts[m.job.index()]) % p.period(m.job);
                p.phases(m.demand).iter().find(|x| x.start.0 <= at && at < x.end.0).map_or(0, |x| x.rate.0)
            };
            let level = |t: u64| p.links()[0].members.iter().map(|m| on(m, t)).sum::<u64>();
            let counted = (0..12).map(|t| level(t).saturating_sub(10)).sum::<u64>() as f64 / 12.0;
            assert_eq!(excess(&p, &p.links()[0], &shifts, 100), Some(counted), "{shifts:?}");
        }
        // 2 x 4 edges of the first, 3 x 2 of the second and 4 x 2 of the third.
        assert_eq!(excess(&p, &p.links()[0], &[0; 4], 21), None);
        assert!(excess(&p, &p.links()[0], &[0; 4], 22).is_some());
    }

    /// Periods of 65,536 and 65,537 times the same, whose multiple is just below 2^64: the last repeat ends beyond it.
    #[test]
    fn a_multiple_near_64_bits_is_walked() {
        let unit = u64::MAX / (65_536 * 65_537);
        let periods = [65_536 * unit, 65_537 * unit];
        let half = periods.map(|period| [(0, period / 2, 7)]);
        let p = problem(&[(periods[0], &half[0]), (periods[1], &half[1])]);
        let walked = |shifts: [u64; 2]| excess(&p, &p.links()[0], &shifts, 1 << 20).unwrap();
        // Both are Up for a quarter of the time, and 4 above the capacity then; a shift of one changes next to nothing.
        assert!((walked([0, 0]) - 1.0).abs() < 1e-3 && (walked([periods[0] - 1, 0]) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_multiple_beyond_64_bits_is_not_walked() {
        let long = (1 << 47) + 5;
        let p = problem(&[(long, &[(0, 2, 7)]), (long + 2, &[(0, 2, 7)]), (long + 6, &[(0, 2, 7)])]);
        assert_eq!(excess(&p, &p.links()[0], &[0; 3], u64::MAX), None);
    }
}
