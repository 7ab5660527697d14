//! Who gets how much of links that cannot carry everybody: max-min fair, by progressive filling.

use alloc::{vec, vec::Vec};

/// Full speed of a job, as fixed point. 30 bits keep a second exact to a nanosecond.
pub(crate) const ONE: u64 = 1 << SPEED_BITS;
/// Bits after the point of a speed.
pub(crate) const SPEED_BITS: u32 = 30;
/// Bits after the point of a rate in Mbit/s and of a ratio of rates.
const RATE_BITS: u32 = 32;
/// Largest demand and capacity in Mbit/s, 2^40: beyond it the fixed point could overflow 128 bits.
pub(crate) const RATE_MAX: u64 = 1 << 40;

/// A job that sends: (link, its demand there in Mbit/s at full speed). Links count from 0 within one filling.
pub(crate) type Demands = Vec<(u32, u64)>;

/// What a filling gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Speed of each job, at most [`ONE`].
    pub(crate) speeds: Vec<u64>,
    /// Whether each link is full and holds somebody back.
    pub(crate) full: Vec<bool>,
}

/// A link while it fills.
#[derive(Clone, Debug)]
struct Filling {
    /// What is left of its capacity.
    rest: u128,
    /// Sum of the ratios of the jobs that still rise.
    rising: u128,
    /// The rate at which it will be full if nobody stops rising before; as of the last look.
    level: u128,
    /// Whether `level` has to be worked out again.
    changed: bool,
    jobs: Vec<u32>,
}

/// Fills: the rate of every job rises evenly from zero until it is at full speed or a link of it is full. A job's rate is
/// counted where it demands most, so that on a single link every job gets an equal share, however many flows it
/// has there (one fair class per job). What a job cannot use because of another link is handed to the others.
///
/// Speeds are rounded up, so that a transfer whose end falls on a whole nanosecond is not pushed to the next one;
/// that overfills a link by less than one part in 10^8.
pub(crate) fn fill(jobs: &[Demands], capacities: &[u64]) -> Shares {
    let empty =
        |c: &u64| Filling { rest: u128::from(*c.min(&RATE_MAX)) << RATE_BITS, rising: 0, level: 0, changed: true, jobs: Vec::new() };
    let mut links: Vec<Filling> = capacities.iter().map(empty).collect();
    let weights: Vec<u64> = jobs.iter().map(|d| d.iter().map(|(_, rate)| *rate).max().unwrap_or(0)).collect();
    for (j, (demands, &weight)) in (0..).zip(jobs.iter().zip(&weights)) {
        for &(l, rate) in demands {
            links[l as usize].rising += ratio(rate, weight);
            links[l as usize].jobs.push(j);
        }
    }
    let mut shares = Shares { speeds: vec![ONE; jobs.len()], full: vec![false; capacities.len()] };
    let mut rises: Vec<bool> = weights.iter().map(|w| *w > 0).collect();
    // The modest reach full speed first.
    let mut by_weight: Vec<u32> = (0..jobs.len() as u32).filter(|&j| rises[j as usize]).collect();
    by_weight.sort_unstable_by_key(|&j| (weights[j as usize], j));
    let mut modest = by_weight.into_iter().peekable();
    let mut stops: Vec<u32> = Vec::new();
    while let Some(&next) = modest.peek() {
        if !rises[next as usize] {
            modest.next();
            continue;
        }
        let level = lowest(&mut links);
        let needed = u128::from(weights[next as usize]) << RATE_BITS;
        stops.clear();
        if needed <= level {
            stops.push(next);
        } else {
            for (link, full) in links.iter().zip(&mut shares.full).filter(|(link, _)| link.level == level) {
                *full = true;
                stops.extend(link.jobs.iter().filter(|&&j| core::mem::take(&mut rises[j as usize])));
            }
        }
        let rate = needed.min(level);
        for &j in &stops {
            rises[j as usize] = false;
            let weight = weights[j as usize];
            shares.speeds[j as usize] = speed(rate, weight);
            for &(l, demand) in &jobs[j as usize] {
                let (link, ratio) = (&mut links[l as usize], ratio(demand, weight));
                link.rising = link.rising.saturating_sub(ratio);
                link.rest = link.rest.saturating_sub((rate * ratio) >> RATE_BITS);
                link.changed = true;
            }
        }
        // A link that is lowest has somebody who rises; were it not so, the loop must end all the same.
        if stops.is_empty() {
            break;
        }
    }
    shares
}

/// The lowest level of all links on which somebody rises.
fn lowest(links: &mut [Filling]) -> u128 {
    let mut lowest = u128::MAX;
    for link in links {
        if core::mem::take(&mut link.changed) {
            // Nobody rises any more: never full again.
            link.level = (link.rest << RATE_BITS).checked_div(link.rising).unwrap_or(u128::MAX);
        }
        lowest = lowest.min(link.level);
    }
    lowest
}

fn ratio(rate: u64, weight: u64) -> u128 {
    // Most demands are those by which a job is counted, and nearly all rates fit 32 bits: division by 128 bits is slow.
    if rate == weight {
        return 1 << RATE_BITS;
    }
    if rate < 1 << RATE_BITS {
        return u128::from((rate << RATE_BITS) / weight.max(1));
    }
    (u128::from(rate) << RATE_BITS) / u128::from(weight.max(1))
}

/// The part of full speed that a rate is, rounded up, never none.
fn speed(rate: u128, weight: u64) -> u64 {
    let full = u128::from(weight) << RATE_BITS;
    if rate >= full { ONE } else { ((rate << SPEED_BITS).div_ceil(full) as u64).clamp(1, ONE) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(shares: &Shares) -> Vec<f64> {
        shares.speeds.iter().map(|&s| s as f64 / ONE as f64).collect()
    }

    #[test]
    fn equal_jobs_halve_a_link_and_a_modest_one_is_served_in_full() {
        assert_eq!(parts(&fill(&[vec![(0, 100)], vec![(0, 100)]], &[100])), [0.5, 0.5]);
        // 10 of 60 in full, 25 each of the rest.
        assert_eq!(parts(&fill(&[vec![(0, 10)], vec![(0, 50)], vec![(0, 100)]], &[60])), [1.0, 0.5, 0.25]);
        let quiet = fill(&[vec![(0, 30)], vec![(0, 30)]], &[60]);
        assert_eq!((parts(&quiet), quiet.full), (vec![1.0, 1.0], vec![false]), "what fits is not held back");
    }

    #[test]
    fn what_one_job_cannot_use_is_handed_on() {
        // The second job is held to 30 by its own link; the first takes 90 of the shared 120.
        let shares = fill(&[vec![(0, 100)], vec![(0, 100), (1, 100)]], &[120, 30]);
        let got = parts(&shares);
        assert!((got[0] - 0.9).abs() < 1e-8 && (got[1] - 0.3).abs() < 1e-8, "{got:?}");
        assert_eq!(shares.full, [true, true]);
    }

    #[test]
    fn nobody_and_the_extremes_are_fine() {
        assert_eq!(fill(&[], &[1]), Shares { speeds: vec![], full: vec![false] });
        assert_eq!(parts(&fill(&[vec![]], &[])), [1.0]);
        let huge = fill(&[vec![(0, RATE_MAX)], vec![(0, 1)]], &[1]);
        assert_eq!(huge.speeds, [1, ONE / 2]);
    }

    /// The definition, in floats and small steps of nothing but itself: all jobs that may rise do so by the largest amount that
    /// overfills no link.
    fn brute(jobs: &[Demands], capacities: &[u64]) -> Vec<f64> {
        let weight = |d: &Demands| d.iter().map(|(_, r)| *r).max().unwrap_or(0) as f64;
        let mut rate = vec![0.0_f64; jobs.len()];
        let used = |rate: &[f64], l: usize| -> f64 {
            let on =
                |(d, r): (&Demands, &f64)| d.iter().filter(|(k, _)| *k as usize == l).map(|(_, u)| r * *u as f64 / weight(d)).sum::<f64>();
            jobs.iter().zip(rate).map(on).sum()
        };
        let mut may: Vec<bool> = jobs.iter().map(|d| weight(d) > 0.0).collect();
        while may.iter().any(|m| *m) {
            let mut step = f64::INFINITY;
            for (l, &capacity) in capacities.iter().enumerate() {
                let slope: Vec<f64> = may.iter().map(|m| f64::from(u8::from(*m))).collect();
                let slope = used(&slope, l);
                if slope > 0.0 {
                    step = step.min((capacity as f64 - used(&rate, l)).max(0.0) / slope);
                }
            }
            for j in (0..jobs.len()).filter(|&j| may[j]) {
                step = step.min(weight(&jobs[j]) - rate[j]);
            }
            rate.iter_mut().zip(&may).filter(|(_, m)| **m).for_each(|(r, _)| *r += step);
            for j in 0..jobs.len() {
                let stuck = jobs[j].iter().any(|(l, _)| used(&rate, *l as usize) >= capacities[*l as usize] as f64 * (1.0 - 1e-12));
                may[j] &= !stuck && rate[j] < weight(&jobs[j]) * (1.0 - 1e-12);
            }
        }
        jobs.iter().zip(&rate).map(|(d, r)| if weight(d) > 0.0 { r / weight(d) } else { 1.0 }).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn filling_is_max_min_fair(
            capacities in prop::collection::vec(1_u64..400, 1..6),
            jobs in prop::collection::vec(prop::collection::btree_map(0_u32..6, 1_u64..200, 0..5), 1..7),
        ) {
            let links = capacities.len() as u32;
            let jobs: Vec<Demands> = jobs.into_iter().map(|d| d.into_iter().filter(|(l, _)| *l < links).collect()).collect();
            let shares = fill(&jobs, &capacities);
            let expected = brute(&jobs, &capacities);
            for (got, expected) in parts(&shares).iter().zip(&expected) {
                prop_assert!((got - expected).abs() < 1e-6, "{:?} {:?}", parts(&shares), expected);
            }
            // Nothing is overfilled, and whoever is held back has a full link on which nobody rose higher.
            for (l, &capacity) in capacities.iter().enumerate() {
                let used: f64 = jobs.iter().zip(parts(&shares)).flat_map(|(d, s)| d.iter().filter(|(k, _)| *k as usize == l).map(move |(_, u)| *u as f64 * s)).sum();
                prop_assert!(used <= capacity as f64 * (1.0 + 1e-6));
                prop_assert!(!shares.full[l] || used >= capacity as f64 * (1.0 - 1e-6));
            }
            for (d, &s) in jobs.iter().zip(&shares.speeds) {
                prop_assert!(s == ONE || d.iter().any(|(l, _)| shares.full[*l as usize]));
            }
        }
    }
}
