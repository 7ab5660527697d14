//! Scores of jobs whose periods are too long to walk: real periods in microseconds have LCMs of years.
//!
//! All periods of a link meet on a circle as long as the LCM of their pairwise gcds. Once the place on that circle is known, what
//! is left of a job's place in its iteration is independent of the others and uniform, for of each prime power only one job
//! has more than the circle. So at each place on the circle every job has a distribution of rates, and the excess is a sum over
//! all ways to draw from them: with whole numbers of turns, an integer. The tests compare this with the walk.

use super::oracle::{Instance, Phases, Random, lcm};

/// Most cuts of one circle: about 100 microseconds for a score.
const CUTS_MAX: u64 = 1 << 10;
/// Most alignments that are tried when one job is moved.
const ALIGNMENTS_MAX: usize = 256;
/// Starts of the search for good shifts: shifts given, none, and random ones.
const STARTS: usize = 3;
/// Rounds over all jobs in one descent; the third seldom finds anything.
const ROUNDS_MAX: usize = 4;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A job on a circle.
#[derive(Clone, Debug)]
struct Rider {
    job: usize,
    /// What its demand repeats in, as far as the others can tell.
    lap: u64,
    /// Laps in one of its periods.
    laps: u64,
    /// Where each piece of a lap starts; the first at 0.
    starts: Vec<u64>,
    /// In how many of the laps each rate is demanded, by piece; they add up to all laps.
    rates: Vec<Vec<(u64, u128)>>,
}

impl Rider {
    fn new(job: usize, period: u64, phases: &Phases, circle: u64) -> Self {
        let lap = gcd(period, circle);
        let laps = period / lap;
        let mut starts = vec![0];
        starts.extend(phases.iter().flat_map(|p| [p.0 % lap, p.1 % lap]));
        starts.sort_unstable();
        starts.dedup();
        let rates = starts.iter().map(|&at| Self::rates_at(at, lap, laps, phases)).collect();
        Self { job, lap, laps, starts, rates }
    }

    /// Counts, for each phase, the laps whose tick `at` it covers.
    fn rates_at(at: u64, lap: u64, laps: u64, phases: &Phases) -> Vec<(u64, u128)> {
        // Ticks `at + k * lap` below `end`.
        let below = |end: u64| end.saturating_sub(at).div_ceil(lap);
        let mut rates: Vec<(u64, u128)> = Vec::new();
        let mut idle = u128::from(laps);
        for (start, end, rate) in phases {
            let covered = u128::from(below(*end) - below(*start));
            idle -= covered;
            match rates.iter_mut().find(|r| r.0 == *rate) {
                Some(same) => same.1 += covered,
                None => rates.push((*rate, covered)),
            }
        }
        rates.push((0, idle));
        rates.retain(|r| r.1 > 0);
        rates
    }

    fn piece(&self, place: u64, shifts: &[u64]) -> &[(u64, u128)] {
        let own = (place + self.lap - shifts[self.job] % self.lap) % self.lap;
        &self.rates[self.starts.partition_point(|s| *s <= own) - 1]
    }
}

/// A link and its circle.
#[derive(Clone, Debug)]
struct Ring {
    capacity: u64,
    circle: u64,
    riders: Vec<Rider>,
}

/// Excess over all ways to draw one rate from each distribution.
fn drawn(pieces: &[&[(u64, u128)]], sum: u64, ways: u128, capacity: u64) -> u128 {
    match pieces.split_first() {
        None => u128::from(sum.saturating_sub(capacity)) * ways,
        Some((first, rest)) => first.iter().map(|(rate, count)| drawn(rest, sum + rate, ways * count, capacity)).sum(),
    }
}

impl Ring {
    fn new(instance: &Instance, link: usize) -> Self {
        let (capacity, members) = &instance.links[link];
        let mut circle = 1;
        for (i, (a, _)) in members.iter().enumerate() {
            for (b, _) in &members[..i] {
                circle = lcm(circle, gcd(instance.periods[*a], instance.periods[*b]));
            }
        }
        let riders = members.iter().map(|(job, phases)| Rider::new(*job, instance.periods[*job], phases, circle)).collect();
        Self { capacity: *capacity, circle, riders }
    }

    /// Score under these shifts.
    fn score(&self, shifts: &[u64]) -> f64 {
        let mut cuts = vec![0, self.circle];
        for rider in self.riders.iter().filter(|r| r.starts.len() > 1) {
            let from = shifts[rider.job] % rider.lap;
            for lap in 0..self.circle / rider.lap {
                cuts.extend(rider.starts.iter().map(|s| (s + from) % rider.lap + lap * rider.lap));
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut pieces = Vec::with_capacity(self.riders.len());
        let mut excess = 0_u128;
        for span in cuts.windows(2) {
            pieces.clear();
            pieces.extend(self.riders.iter().map(|r| r.piece(span[0], shifts)));
            excess += u128::from(span[1] - span[0]) * drawn(&pieces, 0, 1, self.capacity);
        }
        let ways: u128 = self.riders.iter().map(|r| u128::from(r.laps)).product();
        1.0 - excess as f64 / (ways as f64 * self.circle as f64 * self.capacity as f64)
    }

    /// Shifts of `job` at which one of its edges meets one of another job, up to some number; whether these are all.
    fn alignments(&self, job: usize, shifts: &[u64], random: &mut Random, out: &mut Vec<u64>) -> bool {
        let Some(own) = self.riders.iter().find(|r| r.job == job) else { return true };
        let mut complete = true;
        for other in self.riders.iter().filter(|r| r.job != job && r.starts.len() > 1 && own.starts.len() > 1) {
            let step = gcd(own.lap, other.lap);
            let turns = own.lap / step;
            let pairs = own.starts.len() * other.starts.len();
            let tried = (ALIGNMENTS_MAX / pairs).max(1) as u64;
            complete &= turns <= tried;
            for (a, b) in own.starts.iter().flat_map(|a| other.starts.iter().map(move |b| (a, b))) {
                let first = (b + shifts[other.job] % other.lap + own.lap - a) % step;
                let turn = |k| if turns <= tried { k } else { random.range(0, turns - 1) };
                out.extend((0..turns.min(tried)).map(turn).map(|k| first + k * step));
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
    pub fn new(instance: &Instance) -> Self {
        Self { periods: instance.periods.clone(), rings: (0..instance.links.len()).map(|l| Ring::new(instance, l)).collect() }
    }

    /// No circle is cut into too many pieces.
    pub fn fits(&self) -> bool {
        let cuts = |ring: &Ring| ring.riders.iter().map(|r| r.starts.len() as u64 * (ring.circle / r.lap)).sum::<u64>();
        self.rings.iter().all(|ring| cuts(ring) <= CUTS_MAX)
    }

    /// Score of one link.
    pub fn link_score(&self, link: usize, shifts: &[u64]) -> f64 {
        self.rings[link].score(shifts)
    }

    /// Mean score over the links that two or more jobs cross.
    pub fn mean(&self, shifts: &[u64]) -> f64 {
        let shared: Vec<&Ring> = self.rings.iter().filter(|r| r.riders.len() > 1).collect();
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
            let lap = self.rings.iter().flat_map(|r| &r.riders).filter(|r| r.job == job).fold(1, |l, r| lcm(l, r.lap));
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
