//! The perimeter of a reduced circle, and what is lost where couplings are dropped to keep it short.
//!
//! Jobs `i` and `j` line up modulo `gcd(T_i, T_j)`, so the whole circle has the perimeter `M = lcm over pairs of gcd(T_i, T_j)`.
//! Measured periods share many small factors, and `M` becomes long for couplings that hardly matter. On a circle of a divisor `M'`
//! each job is seen as the mean over the congruent shifts that `M'` does not tell apart (docs/model.md, section 2).

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use super::folded::Folded;
use crate::model::problem::Phase;

/// Longest perimeter of a reduced circle. Beyond it, times on the circle would not fit `u64` sums.
const PERIMETER_MAX: u128 = 1 << 62;
/// Work allowed on one circle, per allowed piece: what the distributions of unlocked jobs may cost.
const WORK_PER_PIECE: u128 = 16;
/// Most different gcds that are looked at, the largest first: a thousand measured periods have thousands, nearly all of them
/// small, and each is tried against all jobs.
const GCDS_MAX: usize = 256;
/// Most different periods on one link whose pairs are looked at: 8,000 gcds take a millisecond.
const DISTINCT_MAX: usize = 128;

/// The part of a job that the choice of a perimeter needs.
#[derive(Clone, Debug)]
pub(crate) struct Periodic<'a> {
    phases: &'a [Phase],
    /// The period, or 1 for a job that always sends the same.
    period: u64,
    given: u64,
}

/// A job hardly locks with a circle if the gcd of both is below this part of its period. Where it would have to repeat too often around the
/// circle, the job is then seen as the mean over all its turns, so that no stronger coupling is dropped for it.
const LOOSE_PART: u64 = 64;

/// A perimeter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Perimeter {
    /// Length.
    pub(crate) ticks: u64,
    /// Of each job, whether it is seen as the mean over all its turns, whatever it shares with the circle.
    pub(crate) loose: Vec<bool>,
    /// Mean excess on this circle and on the whole one differ by at most this, in Mbit/s; 0 when no coupling was dropped.
    pub(crate) blur: f64,
    /// Pieces around it.
    pub(crate) pieces: u128,
}

impl<'a> Periodic<'a> {
    pub(crate) fn new(phases: &'a [Phase], period: u64) -> Self {
        let constant = matches!(phases, [all] if all.end.0 - all.start.0 == period);
        // A job that always sends the same has no edges: with the period 1 no gcd can couple it.
        Self { phases, period: if constant { 1 } else { period }, given: period }
    }

    /// Mean demand in Mbit/s.
    fn mean(&self) -> f64 {
        self.phases.iter().map(|p| p.rate.0 as f64 * (p.end.0 - p.start.0) as f64).sum::<f64>() / self.given as f64
    }

    /// Pieces of the demand within its own period.
    pub(crate) fn pieces(&self) -> u64 {
        2 * self.phases.len() as u64 + 1
    }

    /// Whether the job hardly locks with a circle of that perimeter.
    fn is_weak(&self, perimeter: u64) -> bool {
        self.period.gcd(&perimeter).saturating_mul(LOOSE_PART) < self.period
    }

    /// Pieces around a circle: one that is folded to a single piece has no edges there.
    fn pieces_around(&self, perimeter: u64) -> u128 {
        let folded = self.period.gcd(&perimeter);
        if folded == 1 { 0 } else { u128::from(perimeter / folded) * u128::from(self.pieces().min(folded)) }
    }

    /// How far the demand at a point of the circle of `whole` is from the demand as seen modulo `kept`, which divides it: the
    /// mean over the points of the distance between both distributions (Wasserstein), or a little more, in Mbit/s.
    ///
    /// The distance is that of the tails, level by level; a tail modulo `kept` is the mean of those that it does not tell apart,
    /// so the mean squared distance is the difference of the mean squares (and a mean is at most the root of the mean square).
    fn blur(&self, whole: u64, kept: u64) -> f64 {
        if whole == kept {
            return 0.0;
        }
        let fold = |period: u64| Folded::distributions(self.phases, self.given, self.given.gcd(&period));
        let (fine, coarse) = (fold(whole), fold(kept));
        // Where distributions were cut to means their tails are unknown, and twice the mean demand bounds the distance.
        if fine.blur > 0.0 || coarse.blur > 0.0 || coarse.levels.len() != fine.levels.len() {
            return 2.0 * fine.mean;
        }
        // A mean of tails has no larger mean square than the tails (Jensen); only rounding makes the difference negative.
        let squares = fine.mean_squares_of_tails().into_iter().zip(coarse.mean_squares_of_tails()).map(|(fine, coarse)| fine - coarse);
        let steps = fine.levels.windows(2).map(|levels| levels[1] - levels[0]);
        // The distance is between two levels, by the tail of the higher one.
        steps.zip(squares.skip(1)).map(|(step, square)| step * square.max(0.0).sqrt()).sum()
    }
}

/// The LCM in 128 bits: a product of two 64-bit numbers always fits.
fn joined(perimeter: u64, g: u64) -> u128 {
    u128::from(perimeter) / u128::from(perimeter.gcd(&g)) * u128::from(g)
}

/// Whether a circle of those jobs has at most `pieces_max` pieces, and distributions on them of at most [`WORK_PER_PIECE`] times as many
/// terms.
fn fits(jobs: &[Periodic<'_>], perimeter: u128, loose: &[bool], pieces_max: u64) -> bool {
    perimeter <= PERIMETER_MAX && {
        let (pieces, most) = (pieces(jobs, perimeter as u64, loose), u128::from(pieces_max));
        pieces <= most && pieces * terms(jobs, perimeter as u64, loose) <= WORK_PER_PIECE * most
    }
}

/// The perimeter of the reduced circle of those jobs, as far as it [fits](fits). Where the whole circle is longer, couplings are dropped: the
/// largest gcds are kept.
pub(crate) fn perimeter(jobs: &[Periodic<'_>], pieces_max: u64) -> Perimeter {
    let gcds = gcds(jobs);
    let tight = vec![false; jobs.len()];
    // With everything kept most jobs are locked; on the way there they are not, and cost more. Of too many periods `gcds` lists the
    // equal ones only, so their LCM is not the whole circle.
    let whole = gcds.iter().try_fold(1_u64, |all, &g| u64::try_from(joined(all, g)).ok()).filter(|_| !are_many(jobs));
    if let Some(whole) = whole.filter(|&w| fits(jobs, u128::from(w), &tight, pieces_max)) {
        return Perimeter { ticks: whole, blur: 0.0, pieces: pieces(jobs, whole, &tight), loose: tight };
    }
    let plain = kept(jobs, &gcds, pieces_max, false);
    let loosened = kept(jobs, &gcds, pieces_max, true);
    // Weak couplings that are kept say less than strong ones that are not, and the blur tells which they are.
    if loosened.blur < plain.blur { loosened } else { plain }
}

/// The circle of the largest gcds that fit. If `loosen`, jobs that hardly lock with it are in nobody's way.
fn kept(jobs: &[Periodic<'_>], gcds: &[u64], pieces_max: u64, loosen: bool) -> Perimeter {
    let (mut ticks, mut loose) = (1, vec![false; jobs.len()]);
    // The largest gcd first. One that does not fit is left out, and smaller ones after it may still fit.
    for &g in gcds.iter().take(GCDS_MAX) {
        let grown = joined(ticks, g);
        // A gcd that divides the circle already costs nothing and is kept as it is. One that only loose jobs have brings nothing.
        let meets = jobs.iter().zip(&loose).filter(|(job, loose)| !**loose && job.period.is_multiple_of(g)).count();
        if grown <= u128::from(ticks) || grown > PERIMETER_MAX || meets < 2 {
            continue;
        }
        if fits(jobs, grown, &loose, pieces_max) {
            ticks = grown as u64;
        } else if loosen {
            let looser: Vec<bool> = jobs.iter().zip(&loose).map(|(job, loose)| *loose || job.is_weak(grown as u64)).collect();
            if fits(jobs, grown, &looser, pieces_max) {
                (ticks, loose) = (grown as u64, looser);
            }
        }
    }
    Perimeter { ticks, blur: dropped(jobs, ticks, &loose), pieces: pieces(jobs, ticks, &loose), loose }
}

/// How many different ones an ascending list has.
fn distinct(periods: &[u64]) -> usize {
    1 + periods.windows(2).filter(|p| p[0] != p[1]).count()
}

/// Whether there are too many different periods for a look at all pairs.
fn are_many(jobs: &[Periodic<'_>]) -> bool {
    let mut periods: Vec<u64> = jobs.iter().map(|j| j.period).collect();
    periods.sort_unstable();
    distinct(&periods) > DISTINCT_MAX
}

/// The gcds of all pairs, descending; of too many different periods those of equal ones only.
fn gcds(jobs: &[Periodic<'_>]) -> Vec<u64> {
    let mut periods: Vec<u64> = jobs.iter().map(|j| j.period).collect();
    periods.sort_unstable();
    if distinct(&periods) > DISTINCT_MAX {
        // Equal periods only; all else is looked at as if it did not lock, which the blur accounts for.
        let mut equal: Vec<u64> = periods.windows(2).filter(|p| p[0] == p[1]).map(|p| p[0]).collect();
        equal.dedup();
        // The largest come first, as in the list of all pairs below.
        equal.reverse();
        return equal;
    }
    let mut gcds: Vec<u64> = Vec::new();
    for (i, &a) in periods.iter().enumerate() {
        if periods.get(i + 1) == Some(&a) {
            gcds.push(a);
        } else {
            // Equal periods were paired above; one representative meets the rest.
            gcds.extend(periods[i + 1..].iter().map(|b| a.gcd(b)));
        }
    }
    gcds.sort_unstable_by(|a, b| b.cmp(a));
    gcds.dedup();
    gcds
}

/// How far the mean excess on a circle of that perimeter can be from that on the whole one. Seeing one job as a mean instead of
/// as it is changes the mean excess by at most its distance from that mean; and once all others are seen as means, the last job
/// is only ever asked for its mean on the circle, so the largest distance of one that is not loose does not count.
fn dropped(jobs: &[Periodic<'_>], perimeter: u64, loose: &[bool]) -> f64 {
    let (mut sum, mut largest) = (0.0, 0.0_f64);
    if are_many(jobs) {
        // The demand at a point is at most twice its mean away from that mean, on average.
        return jobs.iter().map(|job| 2.0 * job.mean()).sum();
    }
    for (j, job) in jobs.iter().enumerate() {
        let others = jobs.iter().enumerate().filter(|o| o.0 != j);
        // The LCM divides the job's period, so it never overflows.
        let whole = others.fold(1_u64, |l, (_, other)| l.lcm(&job.period.gcd(&other.period)));
        let seen = whole.gcd(&perimeter);
        let blur = job.blur(whole, if loose[j] { 1 } else { seen });
        sum += blur;
        // The mean of a loose job over all its turns is not what it is at a place on the circle.
        largest = if loose[j] && seen > 1 { largest } else { largest.max(blur) };
    }
    (sum - largest).max(0.0)
}

/// Terms of the sum of the jobs that a circle of that perimeter shows in several pieces without locking them.
fn terms(jobs: &[Periodic<'_>], perimeter: u64, loose: &[bool]) -> u128 {
    // A locked job has one level at a point, and a job of one piece is in the background: neither multiplies terms.
    let tight = jobs.iter().zip(loose).filter(|(_, loose)| !**loose).map(|(job, _)| job);
    let unlocked = tight.filter(|j| !perimeter.is_multiple_of(j.period) && j.period.gcd(&perimeter) > 1);
    // At one point as many levels as the job has, and no more than it has turns.
    let at_once = |j: &Periodic<'_>| u128::from((j.pieces() / 2 + 1).min(j.period / j.period.gcd(&perimeter)));
    let (count, atoms) = unlocked.fold((0_u128, 1_u128), |(n, atoms), j| (n + 1, (atoms * at_once(j)).min(4_096)));
    (count * atoms).max(1)
}

/// How many pieces those jobs have on a circle of that perimeter.
fn pieces(jobs: &[Periodic<'_>], perimeter: u64, loose: &[bool]) -> u128 {
    jobs.iter().zip(loose).filter(|(_, loose)| !**loose).map(|(job, _)| job.pieces_around(perimeter)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rate, Ticks};

    fn of(periods: &[u64], pieces_max: u64) -> (u64, f64) {
        let phase = [Phase { start: Ticks(0), end: Ticks(1), rate: Rate(10) }];
        let jobs: Vec<Periodic<'_>> = periods.iter().map(|&t| Periodic::new(&phase, t)).collect();
        let found = perimeter(&jobs, pieces_max);
        (found.ticks, found.blur)
    }

    #[test]
    fn the_perimeter_is_the_lcm_of_pairwise_gcds() {
        // gcd(6,10)=2, gcd(6,15)=3, gcd(10,15)=5.
        assert_eq!(of(&[6, 10, 15], 1000), (30, 0.0));
        // Two coprime microsecond periods: LCM 4e10, circle of one tick.
        assert_eq!(of(&[200_003, 200_009], 1000), (1, 0.0));
        assert_eq!(of(&[240, 240, 7], 1000), (240, 0.0));
        assert_eq!(of(&[36, 36, 24], 1000), (36, 0.0));
        // Keeping everything would need 3 * (30/6 + 30/10 + 30/15) = 30 pieces. Of the gcds 5, 3 and 2 only the last locks nobody
        // into many pieces.
        assert!(of(&[6, 10, 15], 29).1 > 0.0);
    }

    /// A measured period beside two equal ones has no edges on their circle, so it is no reason to drop their coupling.
    #[test]
    fn a_job_that_folds_to_one_tick_costs_nothing() {
        assert_eq!(of(&[250_000, 250_000, 249_999], 64), (250_000, 0.0));
        assert_eq!(of(&[250_000, 250_000, 249_999, 243_119, 301_009], 64).0, 250_000);
    }

    /// Measured periods mostly share a few ticks with the others. A circle of 250,000 ticks repeats a job that shares 2 with it 125,000
    /// times; that job is seen as its mean, and the equal ones are kept.
    #[test]
    fn a_job_that_hardly_locks_drops_no_coupling_of_others() {
        let phase = [Phase { start: Ticks(0), end: Ticks(100_000), rate: Rate(10) }];
        let jobs: Vec<Periodic<'_>> = [250_000, 250_000, 261_066, 340_724].iter().map(|&t| Periodic::new(&phase, t)).collect();
        let found = perimeter(&jobs, 1_024);
        assert_eq!((found.ticks, &found.loose[..]), (250_000, &[false, false, true, true][..]));
        assert!(found.blur < 0.01, "{} of 10 Mbit/s", found.blur);
        // Where they fit, nothing is loose.
        assert_eq!(perimeter(&jobs, 1 << 40).loose, [false; 4]);
    }

    /// One of 10 ticks is sent: modulo 2, the other job sees 1 of 5 turns at even ticks and 0 at odd ones, or 1 of 10 anywhere.
    #[test]
    fn blur_is_the_distance_from_the_mean() {
        let phase = [Phase { start: Ticks(0), end: Ticks(1), rate: Rate(10) }];
        let job = Periodic::new(&phase, 10);
        assert!((job.blur(2, 1) - 1.0).abs() < 1e-12, "0.1 of 10 at either point");
        assert_eq!(job.blur(2, 2), 0.0);
    }
}
