//! Scores of jobs whose periods are too long to walk: periods in microseconds have LCMs of years, and in nanoseconds LCMs that no
//! 64 bits hold.
//!
//! Jobs of which one's period is a multiple of the others' are a bundle: the total of a bundle repeats with its longest period, and
//! is added up edge by edge. All bundles of a link meet on a circle as long as the LCM of the pairwise gcds of these
//! periods. Once the place on that circle is known, what is left of a bundle's place in its period is independent of the
//! others and uniform, for of each prime power only one bundle has more than the circle. So at each place on the circle every
//! bundle has a distribution of totals, and the excess is a mean over all ways to draw from them. The tests compare this with the
//! walk.

use super::oracle::{Instance, Phases, Random};

/// Longest circle: far from where sums of places overflow.
const CIRCLE_MAX: u64 = 1 << 40;
/// Most work for one score of a link that is drawn: some 100 microseconds.
const WORK_MAX: u64 = 1 << 13;
/// Most work for one score of a link at all, which a smaller document may need: some milliseconds.
const WORK_LIMIT: u64 = 1 << 19;
/// Most alignments of two jobs that are tried when one of them is moved.
const ALIGNMENTS_MAX: usize = 256;
/// Places that are tried for two edges that meet at more places than that: each of them matters little.
const PLACES_SAMPLED: u64 = 2;
/// Starts of the search for good shifts: shifts given, none, and random ones.
const STARTS: usize = 3;
/// Rounds over all jobs in one descent; the third seldom finds anything.
const ROUNDS_MAX: usize = 4;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The LCM, unless it is above [`CIRCLE_MAX`].
fn short_lcm(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a, b)).checked_mul(b).filter(|l| *l <= CIRCLE_MAX)
}

/// A job on a link.
#[derive(Clone, Debug)]
struct Rider {
    job: usize,
    period: u64,
    phases: Phases,
    /// Its shift matters modulo this: the LCM of its gcds with the other jobs.
    lock: u64,
    /// Where its demand may change, modulo `lock`; the first at 0.
    starts: Vec<u64>,
}

/// Jobs whose periods divide that of the first.
#[derive(Clone, Debug)]
struct Bundle {
    riders: Vec<Rider>,
    period: u64,
    /// What its total repeats in on the circle, as far as the other bundles can tell.
    lap: u64,
}

/// A bundle's total, folded: what it demands at each place of a lap, with probabilities.
struct Fold {
    lap: u64,
    /// Where each piece of a lap starts; the first at 0.
    starts: Vec<u64>,
    totals: Vec<Vec<(u64, f64)>>,
}

impl Bundle {
    /// The total over one period: (start, end, total), with nothing left out.
    fn total(&self, shifts: &[u64]) -> Phases {
        let mut changes: Vec<(u64, i64)> = vec![(0, 0), (self.period, 0)];
        for rider in &self.riders {
            let shift = shifts[rider.job] % rider.period;
            for (start, end, rate) in &rider.phases {
                let length = end - start;
                for turn in 0..self.period / rider.period {
                    let from = (start + shift) % rider.period + turn * rider.period;
                    changes.push((from, *rate as i64));
                    if from + length <= self.period {
                        changes.push((from + length, -(*rate as i64)));
                    } else {
                        // What goes on beyond the end of the period is there at its start.
                        changes.extend([(0, *rate as i64), (from + length - self.period, -(*rate as i64))]);
                    }
                }
            }
        }
        changes.sort_unstable_by_key(|c| c.0);
        let mut total = Phases::new();
        let mut level = 0;
        for pair in changes.windows(2) {
            level += pair[0].1;
            if pair[0].0 < pair[1].0 {
                total.push((pair[0].0, pair[1].0, level as u64));
            }
        }
        total
    }

    fn fold(&self, shifts: &[u64]) -> Fold {
        let total = self.total(shifts);
        let mut starts: Vec<u64> = total.iter().map(|p| p.0 % self.lap).chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        let totals = starts.iter().map(|&at| totals_at(at, self.lap, self.period / self.lap, &total)).collect();
        Fold { lap: self.lap, starts, totals }
    }

    /// At most so many starts in a fold.
    fn starts_max(&self) -> u64 {
        let edges = |r: &Rider| 2 * r.phases.len() as u64 * (self.period / r.period);
        (1 + self.riders.iter().map(edges).sum::<u64>()).min(self.lap)
    }

    /// At most so many totals at one place.
    fn totals_max(&self) -> u64 {
        let levels = |r: &Rider| 1 + r.phases.len() as u64;
        self.riders.iter().map(levels).fold(1, u64::saturating_mul).min(self.period / self.lap)
    }
}

/// In which share of the laps the place `at` has each total.
fn totals_at(at: u64, lap: u64, laps: u64, total: &Phases) -> Vec<(u64, f64)> {
    // Ticks `at + k * lap` below `end`.
    let below = |end: u64| end.saturating_sub(at).div_ceil(lap);
    let mut counts: Vec<(u64, u64)> = Vec::new();
    for (start, end, level) in total {
        let covered = below(*end) - below(*start);
        match counts.iter_mut().find(|c| c.0 == *level) {
            Some(same) => same.1 += covered,
            None => counts.push((*level, covered)),
        }
    }
    counts.retain(|c| c.1 > 0);
    counts.iter().map(|(level, count)| (*level, *count as f64 / laps as f64)).collect()
}

impl Fold {
    fn piece(&self, place: u64) -> &[(u64, f64)] {
        &self.totals[self.starts.partition_point(|s| *s <= place % self.lap) - 1]
    }
}

/// A link and its circle.
#[derive(Clone, Debug)]
struct Ring {
    capacity: u64,
    circle: u64,
    bundles: Vec<Bundle>,
}

/// Mean excess over all ways to draw one total from each distribution.
fn drawn(pieces: &[&[(u64, f64)]], sum: u64, probability: f64, capacity: u64) -> f64 {
    match pieces.split_first() {
        None => sum.saturating_sub(capacity) as f64 * probability,
        Some((first, rest)) => first.iter().map(|(total, p)| drawn(rest, sum + total, probability * p, capacity)).sum(),
    }
}

/// The jobs of a link, the longest period first, each in the first bundle whose period is a multiple of its own.
fn bundled(instance: &Instance, members: &[(usize, Phases)]) -> Vec<Bundle> {
    let period = |m: &(usize, Phases)| instance.periods[m.0];
    let mut order: Vec<&(usize, Phases)> = members.iter().collect();
    order.sort_by_key(|m| std::cmp::Reverse(period(m)));
    let mut bundles: Vec<Bundle> = Vec::new();
    for member in order {
        let own = period(member);
        // All of these divide the period of this job, and so does their LCM.
        let locks = members.iter().filter(|m| m.0 != member.0).map(|m| gcd(own, period(m)));
        let lock = locks.fold(1, |all, g| all / gcd(all, g) * g);
        let mut starts: Vec<u64> = member.1.iter().flat_map(|p| [p.0 % lock, p.1 % lock]).chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        let rider = Rider { job: member.0, period: own, phases: member.1.clone(), lock, starts };
        match bundles.iter_mut().find(|b| b.period % own == 0) {
            Some(bundle) => bundle.riders.push(rider),
            None => bundles.push(Bundle { riders: vec![rider], period: own, lap: 1 }),
        }
    }
    bundles
}

impl Ring {
    /// Nothing where a score would be too much work.
    fn try_new(instance: &Instance, link: usize) -> Option<Self> {
        let (capacity, members) = &instance.links[link];
        let mut bundles = bundled(instance, members);
        let mut circle = 1;
        for (i, a) in bundles.iter().enumerate() {
            for b in &bundles[..i] {
                circle = short_lcm(circle, gcd(a.period, b.period))?;
            }
        }
        for bundle in &mut bundles {
            // Alone on its link it has no other bundle to meet, and goes around once.
            bundle.lap = gcd(bundle.period, circle);
        }
        let ring = Self { capacity: *capacity, circle, bundles };
        (ring.work() <= WORK_LIMIT).then_some(ring)
    }

    /// Work of one score: the pieces of the circle, and the ways to draw at each.
    fn work(&self) -> u64 {
        let pieces = self.bundles.iter().map(|b| b.starts_max().saturating_mul(self.circle / b.lap)).fold(1, u64::saturating_add);
        let ways = self.bundles.iter().map(Bundle::totals_max).fold(1, u64::saturating_mul);
        // Folding compares each piece of a lap with each of the period.
        let edges = |b: &Bundle| b.riders.iter().map(|r| 2 * r.phases.len() as u64 * (b.period / r.period)).fold(2, u64::saturating_add);
        let folding = self.bundles.iter().map(|b| b.starts_max().saturating_mul(edges(b))).fold(0, u64::saturating_add);
        pieces.min(self.circle).saturating_mul(ways).saturating_add(folding)
    }

    /// Score under these shifts.
    fn score(&self, shifts: &[u64]) -> f64 {
        let folds: Vec<Fold> = self.bundles.iter().map(|b| b.fold(shifts)).collect();
        let mut cuts = vec![0, self.circle];
        for fold in folds.iter().filter(|f| f.starts.len() > 1) {
            for lap in 0..self.circle / fold.lap {
                cuts.extend(fold.starts.iter().map(|s| s + lap * fold.lap));
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut pieces = Vec::with_capacity(folds.len());
        let mut excess = 0.0;
        for span in cuts.windows(2) {
            pieces.clear();
            pieces.extend(folds.iter().map(|f| f.piece(span[0])));
            excess += (span[1] - span[0]) as f64 * drawn(&pieces, 0, 1.0, self.capacity);
        }
        1.0 - excess / (self.circle as f64 * self.capacity as f64)
    }

    fn riders(&self) -> impl Iterator<Item = &Rider> {
        self.bundles.iter().flat_map(|b| &b.riders)
    }

    /// Shifts of `job` at which one of its edges meets one of another job, up to some number; whether these are all.
    fn alignments(&self, job: usize, shifts: &[u64], random: &mut Random, out: &mut Vec<u64>) -> bool {
        let Some(own) = self.riders().find(|r| r.job == job) else { return true };
        let mut complete = true;
        for other in self.riders().filter(|r| r.job != job && r.starts.len() > 1 && own.starts.len() > 1) {
            let step = gcd(own.lock, other.lock);
            let turns = own.lock / step;
            let all = turns <= (ALIGNMENTS_MAX / (own.starts.len() * other.starts.len())).max(1) as u64;
            complete &= all;
            for (a, b) in own.starts.iter().flat_map(|a| other.starts.iter().map(move |b| (a, b))) {
                let first = (b + shifts[other.job] % other.lock + own.lock - a) % step;
                let turn = |k| if all { k } else { random.range(0, turns - 1) };
                out.extend((0..if all { turns } else { PLACES_SAMPLED }).map(turn).map(|k| first + k * step));
            }
        }
        complete
    }
}

/// All links of an instance.
#[derive(Clone, Debug)]
pub struct FoldedLinks {
    periods: Vec<u64>,
    rings: Vec<Ring>,
}

impl FoldedLinks {
    /// The circles, or nothing where a score would take too long.
    pub fn try_new(instance: &Instance) -> Option<Self> {
        let rings = (0..instance.links.len()).map(|l| Ring::try_new(instance, l)).collect::<Option<Vec<Ring>>>()?;
        Some(Self { periods: instance.periods.clone(), rings })
    }

    /// Scores are so little work that thousands can be asked for.
    pub fn fits(instance: &Instance) -> bool {
        Self::try_new(instance).is_some_and(|folded| folded.rings.iter().all(|ring| ring.work() <= WORK_MAX))
    }

    /// Score of one link.
    pub fn link_score(&self, link: usize, shifts: &[u64]) -> f64 {
        self.rings[link].score(shifts)
    }

    /// Mean score over the links that two or more jobs cross.
    pub fn mean(&self, shifts: &[u64]) -> f64 {
        let shared: Vec<&Ring> = self.rings.iter().filter(|r| r.riders().count() > 1).collect();
        if shared.is_empty() {
            return 1.0;
        }
        shared.iter().map(|r| r.score(shifts)).sum::<f64>() / shared.len() as f64
    }

    /// Where the slope of the mean score may change as `job` moves, within a lap on each link. Whether these are all is only known of
    /// a single link, for several have laps of several lengths.
    fn alignments(&self, job: usize, shifts: &[u64], random: &mut Random) -> (Vec<u64>, bool) {
        let mut out = vec![shifts[job]];
        let mut complete = self.rings.len() == 1;
        for ring in &self.rings {
            complete &= ring.alignments(job, shifts, random, &mut out);
        }
        out.sort_unstable();
        out.dedup();
        (out, complete)
    }

    /// The best mean score of a search from `near` and from elsewhere, with its shifts: others may be better still.
    pub fn good(&self, near: &[u64], random: &mut Random) -> (f64, Vec<u64>) {
        let mut best = (self.mean(near), near.to_vec());
        for start in 0..STARTS {
            let shifts = match start {
                0 => near.to_vec(),
                1 => vec![0; near.len()],
                _ => self.periods.iter().map(|t| random.range(0, t - 1)).collect(),
            };
            let found = self.climb(shifts, random);
            if found.0 > best.0 {
                best = found;
            }
        }
        best
    }

    /// Moves one job after the other to its best alignment until none gains.
    fn climb(&self, mut shifts: Vec<u64>, random: &mut Random) -> (f64, Vec<u64>) {
        let mut best = self.mean(&shifts);
        for _ in 0..ROUNDS_MAX {
            let before = best;
            for job in 0..shifts.len() {
                let mut stay = shifts[job];
                for at in self.alignments(job, &shifts, random).0 {
                    shifts[job] = at % self.periods[job];
                    let mean = self.mean(&shifts);
                    if mean > best {
                        (best, stay) = (mean, shifts[job]);
                    }
                }
                shifts[job] = stay;
            }
            if best <= before {
                break;
            }
        }
        (best, shifts)
    }

    /// The lowest mean score found while one job drifts, and whether none can be lower.
    pub fn worst(&self, shifts: &[u64], drift: u64, random: &mut Random) -> (f64, bool) {
        let (mut worst, mut complete) = (self.mean(shifts), true);
        let mut moved = shifts.to_vec();
        for job in 0..shifts.len() {
            let (places, all) = self.alignments(job, shifts, random);
            complete &= all;
            let period = self.periods[job];
            // How much matters of this job's shift: the alignments repeat after it.
            let locks = self.rings.iter().flat_map(Ring::riders).filter(|r| r.job == job).map(|r| r.lock);
            // Each divides the period, and so does their LCM.
            let lap = locks.fold(1, |all, lock| all / gcd(all, lock) * lock);
            let here = shifts[job] % lap;
            let ends = [drift % period, (period - drift % period) % period];
            let later = places.iter().map(|at| (at % lap + lap - here) % lap);
            let near = later.filter(|d| *d <= drift || lap - d <= drift);
            for d in near.chain(ends) {
                moved[job] = (here + d) % period;
                worst = worst.min(self.mean(&moved));
            }
            moved[job] = shifts[job];
        }
        (worst, complete)
    }
}
