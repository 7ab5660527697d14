//! The reduced circle: exact scores at a cost that does not grow with the LCM of the periods.
//!
//! Jobs with periods `T_j` meet on a link. Whether job `i` and job `j` line up is decided modulo
//! `gcd(T_i, T_j)` and by nothing else, so everything the jobs have in common repeats after
//! `M = lcm over pairs of gcd(T_i, T_j)`, which divides the LCM of the periods and is often
//! smaller by many orders of magnitude. Wrapped around `M`, job `j` has the period
//! `G_j = gcd(T_j, M)`; what it sends at one point of that circle differs between its
//! `T_j / G_j` turns, and, given the point, the turns of different jobs are independent
//! (Chinese remainder theorem; proof in docs/model.md). So a job is *folded*: for each piece of
//! `[0, G_j)` a small distribution over demand levels.

use alloc::{collections::BTreeSet, vec, vec::Vec};

use crate::model::problem::Phase;

/// Most (level, probability) pairs in one folded demand: 16 MiB. Above it a piece keeps only its mean.
const FOLD_ATOMS_MAX: usize = 1 << 20;

/// Which of the demands that have so many pairs at most keep them: as many as fit, the smaller first.
pub(crate) fn kept(atoms: &[usize], atoms_max: usize) -> Vec<bool> {
    let mut by_size: Vec<usize> = (0..atoms.len()).collect();
    by_size.sort_by_key(|&demand| atoms[demand]);
    let (mut kept, mut sum) = (vec![false; atoms.len()], 0_usize);
    for demand in by_size {
        sum = sum.saturating_add(atoms[demand]);
        kept[demand] = atoms[demand] <= FOLD_ATOMS_MAX && sum <= atoms_max;
    }
    kept
}

/// The most pairs that a demand has when it is folded: each phase cuts the circle twice at most, and a piece has at most one pair for each
/// level.
pub(crate) fn atoms_max(phases: &[Phase], t: u64, period: u64) -> usize {
    let pieces = 2 * phases.len() + 1;
    if t == period {
        return pieces;
    }
    let mut rates: Vec<u64> = phases.iter().map(|p| p.rate.0).collect();
    rates.sort_unstable();
    rates.dedup();
    (rates.len() + 1).saturating_mul(pieces)
}

/// One job's demand on one link, wrapped around the reduced circle.
#[derive(Clone, Debug)]
pub(crate) struct Folded {
    /// `G_j`: the folded demand repeats after this many ticks.
    pub(crate) period: u64,
    /// Start of each piece in `[0, period)`; the first is 0, ascending.
    pub(crate) starts: Vec<u64>,
    /// Distinct demand levels in Mbit/s; index 0 is always level 0.
    pub(crate) levels: Vec<f64>,
    /// (level index, probability) of all pieces, piece after piece.
    atoms: Vec<(u32, f64)>,
    /// First atom of each piece; one more entry closes the last piece, and one the floor.
    offsets: Vec<u32>,
    /// One level at every point: the whole demand is locked to this circle.
    locked: bool,
    /// Where something is sent: the pieces again, without their silence.
    pub(crate) spans: Vec<Span>,
    /// Mean demand in Mbit/s.
    pub(crate) mean: f64,
    /// Distributions were cut to their mean: the mean excess of any total with it can be higher by this, in Mbit/s.
    pub(crate) blur: f64,
    /// The lowest level that is reached somewhere, as an index: 1 if the job never stops sending.
    reached_from: usize,
}

/// A stretch of a folded demand with one level above zero and its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Index into [`Folded::levels`], above 0.
    pub(crate) level: u32,
    pub(crate) probability: f64,
}

impl Folded {
    /// Folds sorted disjoint `phases` of a job with period `t` modulo `period`, which divides `t`.
    #[cfg(test)]
    pub(crate) fn new(phases: &[Phase], t: u64, period: u64) -> Self {
        Self::whole_or_cut(phases, t, period, atoms_max(phases, t, period) > FOLD_ATOMS_MAX)
    }

    /// Likewise; of one that is `cut` each piece has its mean alone.
    pub(crate) fn whole_or_cut(phases: &[Phase], t: u64, period: u64, cut: bool) -> Self {
        let mut folded = Self::pieces(phases, t, period, cut);
        folded.spans = folded.sent();
        folded.push_floor();
        folded
    }

    /// Without spans and floor, which take longer than the rest and are not needed to compare distributions.
    pub(crate) fn distributions(phases: &[Phase], t: u64, period: u64) -> Self {
        Self::pieces(phases, t, period, atoms_max(phases, t, period) > FOLD_ATOMS_MAX)
    }

    fn pieces(phases: &[Phase], t: u64, period: u64, cut: bool) -> Self {
        let turns = t / period;
        let mut levels: Vec<f64> = phases.iter().map(|p| p.rate.0 as f64).collect();
        // Index 0 is silence for every job, also for one that never stops: floors and spans rely on it.
        levels.push(0.0);
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup();
        let mean = phases.iter().map(|p| p.rate.0 as f64 * (p.end.0 - p.start.0) as f64).sum::<f64>() / t as f64;
        let level_of = |p: &Phase| levels.partition_point(|&l| l < p.rate.0 as f64);
        let mut folded = Self {
            period,
            starts: Vec::new(),
            levels: Vec::new(),
            atoms: Vec::new(),
            offsets: vec![0],
            locked: false,
            spans: Vec::new(),
            mean,
            blur: 0.0,
            reached_from: 0,
        };
        // A circle as long as the period: phases and the gaps between them are the pieces, each with one certain level.
        if turns == 1 {
            let mut at = 0;
            for p in phases {
                if p.start.0 > at {
                    folded.piece(at, [(0, 1.0)]);
                }
                folded.piece(p.start.0, [(level_of(p) as u32, 1.0)]);
                at = p.end.0;
            }
            if at < t {
                folded.piece(at, [(0, 1.0)]);
            }
        } else {
            // The demand at one point is at most twice its mean away from that mean, on average.
            folded.blur = if cut { 2.0 * mean } else { 0.0 };
            let means = fold_turns(&mut folded, &levels, phases, turns, level_of);
            if cut {
                levels = folded.push_means(&means);
            }
        }
        folded.levels = levels;
        // Every piece has an atom, so equal counts mean one level each. The floor, which is no piece, is not there yet.
        folded.locked = folded.atoms.len() == folded.starts.len();
        let is_silent = folded.atoms.iter().any(|a| a.0 == 0);
        folded.reached_from = usize::from(!is_silent);
        folded
    }

    /// Appends the floor: the largest variable that the demand dominates at every point, whatever
    /// its shift. The floor sends at least `v` as often as the demand does at its quietest point.
    fn push_floor(&mut self) {
        // least[v]: smallest probability, over all pieces, of a level of at least `v`.
        let mut least = vec![1.0_f64; self.levels.len() + 1];
        for piece in 0..self.starts.len() {
            let atoms = self.atoms(piece);
            // From the top down: `sum` is the probability of this level or more, and so of all levels down to the next atom's.
            let (mut sum, mut above) = (0.0, self.levels.len());
            for &(level, p) in atoms.iter().rev() {
                least[level as usize + 1] = least[level as usize + 1].min(sum);
                sum += p;
                above = level as usize;
            }
            // Level 0 or more is certain.
            if above > 0 {
                least[1] = least[1].min(sum);
            }
        }
        // A piece's tail falls with the level, so what was noted at one level bounds all above it.
        for level in 1..least.len() {
            least[level] = least[level].min(least[level - 1]);
        }
        least[self.levels.len()] = 0.0;
        // Tails fall with the level, and so does their minimum: the differences are probabilities (docs/model.md, section 6, bound 1).
        for level in 0..self.levels.len() {
            let p = least[level] - least[level + 1];
            if p > 0.0 {
                self.atoms.push((level as u32, p));
            }
        }
        self.offsets.push(self.atoms.len() as u32);
    }

    /// The piece number under which [`Self::atoms`] knows the floor; `None` if the floor is silence.
    pub(crate) fn floor(&self) -> Option<usize> {
        let floor = self.starts.len();
        (!matches!(self.atoms(floor), [(0, _)])).then_some(floor)
    }

    fn sent(&self) -> Vec<Span> {
        let span = |piece: usize| {
            let (from, to) = (self.starts[piece], self.piece_end(piece));
            let loud = self.atoms(piece).iter().filter(|a| a.0 > 0);
            loud.map(move |&(level, probability)| Span { from, to, level, probability })
        };
        let mut spans = Vec::with_capacity(self.atoms.len());
        spans.extend((0..self.starts.len()).flat_map(span));
        spans
    }

    /// Appends pieces of one level each, (start, mean); returns the levels, ascending as floors, tails and slopes read them.
    fn push_means(&mut self, means: &[(u64, f64)]) -> Vec<f64> {
        let mut levels: Vec<f64> = means.iter().map(|m| m.1).collect();
        // Index 0 stays level zero, as everywhere.
        levels.push(0.0);
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup();
        for &(start, mean) in means {
            self.piece(start, [(levels.partition_point(|l| *l < mean) as u32, 1.0)]);
        }
        levels
    }

    /// Appends a piece, unless it goes on as the one before.
    fn piece(&mut self, start: u64, atoms: impl IntoIterator<Item = (u32, f64)>) {
        let before = self.atoms.len();
        self.atoms.extend(atoms);
        // Equal neighbours are one piece: a job with one piece has no edges on the circle and joins the background.
        if let Some(last) = self.starts.len().checked_sub(1)
            && self.atoms[self.offsets[last] as usize..before] == self.atoms[before..]
        {
            self.atoms.truncate(before);
            return;
        }
        self.starts.push(start);
        self.offsets.push(self.atoms.len() as u32);
    }

    /// (level index, probability) pairs of a piece.
    pub(crate) fn atoms(&self, piece: usize) -> &[(u32, f64)] {
        &self.atoms[self.offsets[piece] as usize..self.offsets[piece + 1] as usize]
    }

    /// (level in Mbit/s, probability) pairs of a piece.
    pub(crate) fn distribution(&self, piece: usize) -> Vec<(f64, f64)> {
        self.atoms(piece).iter().map(|&(level, p)| (self.levels[level as usize], p)).collect()
    }

    /// The most levels that have a probability at one point.
    pub(crate) fn atoms_at_once(&self) -> usize {
        (0..self.starts.len()).map(|piece| self.atoms(piece).len()).max().unwrap_or(1)
    }

    /// The levels that are reached somewhere, ascending.
    pub(crate) fn reached(&self) -> &[f64] {
        &self.levels[self.reached_from.min(self.levels.len() - 1)..]
    }

    /// The levels that are reached, ascending, and the share of the time that the demand is at each.
    pub(crate) fn shares(&self) -> Vec<(f64, f64)> {
        let mut shares = vec![0.0; self.levels.len()];
        for piece in 0..self.starts.len() {
            let length = (self.piece_end(piece) - self.starts[piece]) as f64 / self.period as f64;
            self.atoms(piece).iter().for_each(|&(level, p)| shares[level as usize] += p * length);
        }
        self.levels.iter().copied().zip(shares).filter(|level| level.1 > 0.0).collect()
    }

    /// For each level, the mean over the circle of the squared probability to be at that level or above.
    pub(crate) fn mean_squares_of_tails(&self) -> Vec<f64> {
        let mut squares = vec![0.0; self.levels.len()];
        for piece in 0..self.starts.len() {
            let length = (self.piece_end(piece) - self.starts[piece]) as f64;
            // From the top down: between two levels of a piece its tail is that of the higher one.
            let (mut tail, mut above) = (0.0, self.levels.len());
            for &(level, probability) in self.atoms(piece).iter().rev() {
                let level = level as usize;
                squares[level + 1..above].iter_mut().for_each(|square| *square += tail * tail * length);
                tail += probability;
                above = level + 1;
            }
            squares[..above].iter_mut().for_each(|square| *square += tail * tail * length);
        }
        squares.iter_mut().for_each(|square| *square /= self.period as f64);
        squares
    }

    /// One level at every point: the whole demand is locked to this circle.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// The level of a piece of a locked demand.
    pub(crate) fn level(&self, piece: usize) -> f64 {
        self.levels[self.atoms[piece].0 as usize]
    }

    /// The piece that contains `at` < period.
    pub(crate) fn piece_at(&self, at: u64) -> usize {
        self.starts.partition_point(|&s| s <= at) - 1
    }

    /// End of a piece.
    pub(crate) fn piece_end(&self, piece: usize) -> u64 {
        self.starts.get(piece + 1).copied().unwrap_or(self.period)
    }
}

/// What the turns send at one point of the circle. A step changes one level, so none of the others is looked at.
#[derive(Debug, Default)]
struct Sent {
    /// In how many turns each level is sent, and the levels for which that is any.
    counts: Vec<i64>,
    levels: BTreeSet<usize>,
    /// In how many turns any is sent, and the sum over them in Mbit/s.
    busy: i64,
    sum: i128,
}

impl Sent {
    fn count(&mut self, level: usize, rate: u64, change: i64) {
        self.busy += change;
        self.sum += i128::from(rate) * i128::from(change);
        self.counts[level] += change;
        // Steps at one point come in any order, so a count may be below zero between two of them.
        if self.counts[level] > 0 {
            self.levels.insert(level)
        } else {
            self.levels.remove(&level)
        };
    }
}

/// Counts, for each piece of `[0, G)`, in how many of the `turns` each level is sent. Where distributions are cut, no piece is appended,
/// and the start and mean of each are returned.
fn fold_turns(folded: &mut Folded, levels: &[f64], phases: &[Phase], turns: u64, level_of: impl Fn(&Phase) -> usize) -> Vec<(u64, f64)> {
    let mut means = Vec::new();
    let g = folded.period;
    let mut sent = Sent { counts: vec![0; levels.len()], ..Sent::default() };
    let mut steps: Vec<(u64, usize, u64, i64)> = Vec::with_capacity(2 * phases.len());
    for p in phases {
        let (level, rate, length) = (level_of(p), p.rate.0, p.end.0 - p.start.0);
        // Whole turns of a phase cover every point; only the rest of it begins and ends somewhere.
        sent.count(level, rate, (length / g) as i64);
        let (from, rest) = (p.start.0 % g, length % g);
        if rest == 0 {
            continue;
        }
        steps.push((from, level, rate, 1));
        if from + rest < g {
            steps.push((from + rest, level, rate, -1));
        } else {
            // An arc that passes zero is there from the start; an arc that ends at zero needs no step down.
            sent.count(level, rate, i64::from(from + rest > g));
            if from + rest > g {
                steps.push((from + rest - g, level, rate, -1));
            }
        }
    }
    steps.sort_unstable();
    let mut next = 0;
    let mut at = 0;
    while at < g {
        while next < steps.len() && steps[next].0 == at {
            let (_, level, rate, change) = steps[next];
            sent.count(level, rate, change);
            next += 1;
        }
        if folded.blur > 0.0 {
            means.push((at, sent.sum as f64 / turns as f64));
        } else {
            // The phases of a job are disjoint, so a turn is in one of them at most, and silent otherwise.
            let idle = (turns as i64 - sent.busy) as f64 / turns as f64;
            let zero = (idle > 0.0).then_some((0, idle));
            let shares = sent.levels.iter().map(|&l| (l as u32, sent.counts[l] as f64 / turns as f64));
            folded.piece(at, zero.into_iter().chain(shares));
        }
        at = steps.get(next).map_or(g, |s| s.0);
    }
    means
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rate, Ticks};

    #[test]
    fn the_smaller_demands_keep_their_levels_as_far_as_they_fit() {
        assert_eq!(kept(&[5, 3, 9, 3], 11), [true, true, false, true]);
        assert_eq!(kept(&[5, 3, 9, 3], 10), [false, true, false, true]);
        assert_eq!(kept(&[FOLD_ATOMS_MAX + 1, FOLD_ATOMS_MAX], usize::MAX), [false, true]);
        assert_eq!(kept(&[usize::MAX, usize::MAX], usize::MAX), [false; 2]);
        // What a demand really has is never more.
        for (period, turns) in [(12, 1), (6, 2), (4, 3)] {
            let phases = [phase(1, 3, 10), phase(4, 7, 20), phase(9, 11, 10)];
            let folded = Folded::new(&phases, 12, period);
            assert!(folded.atoms.len() - folded.atoms(folded.starts.len()).len() <= atoms_max(&phases, 12, period), "{turns} turns");
        }
    }

    /// Two of three turns send on [1, 4), one on [0, 1): the floor sends in one of three.
    #[test]
    fn the_floor_is_what_is_sent_at_the_quietest_point() {
        let f = Folded::new(&[phase(1, 8, 10)], 12, 4);
        let floor = f.floor().unwrap();
        assert_eq!(f.atoms(floor), [(0, 1.0 - 1.0 / 3.0), (1, 1.0 / 3.0)]);
        assert_eq!(Folded::new(&[phase(1, 8, 10)], 12, 12).floor(), None);
        assert_eq!(Folded::new(&[phase(0, 12, 10)], 12, 4).floor().map(|x| f.atoms(x).len()), Some(2));
    }

    fn phase(start: u64, end: u64, rate: u64) -> Phase {
        Phase { start: Ticks(start), end: Ticks(end), rate: Rate(rate) }
    }

    /// Folding [1, 8) of period 12 modulo 4: ticks 1..8 hit residues 1,2,3,0,1,2,3 in 3 turns.
    #[test]
    fn folding_counts_turns_per_residue() {
        let f = Folded::new(&[phase(1, 8, 10)], 12, 4);
        assert_eq!(f.starts, [0, 1]);
        assert_eq!(f.levels, [0.0, 10.0]);
        assert_eq!(f.atoms(0), [(0, 2.0 / 3.0), (1, 1.0 / 3.0)]);
        assert_eq!(f.atoms(1), [(0, 1.0 / 3.0), (1, 2.0 / 3.0)]);
    }

    /// Level by level, as the definition has it.
    #[test]
    fn squares_of_tails_are_those_of_the_definition() {
        let phases: Vec<Phase> = (0..7).map(|i| phase(5 * i, 5 * i + 1 + i % 4, 10 + 7 * i % 5)).collect();
        for period in [4, 6, 12, 36] {
            let f = Folded::new(&phases, 36, period);
            let tail = |piece: usize, level: usize| f.atoms(piece).iter().filter(|a| a.0 as usize >= level).map(|a| a.1).sum::<f64>();
            let length = |piece: usize| (f.piece_end(piece) - f.starts[piece]) as f64;
            for (level, square) in f.mean_squares_of_tails().into_iter().enumerate() {
                let sum: f64 = (0..f.starts.len()).map(|piece| tail(piece, level).powi(2) * length(piece)).sum();
                assert!((square - sum / period as f64).abs() < 1e-12, "period {period}, level {level}: {square}");
            }
        }
    }

    /// Two turns of a job of more levels than are kept, loud at first and quiet later: each piece has its mean, and levels ascend all the
    /// same, because floors, tails and slopes read them so. Silent at some points, the job has no floor.
    #[test]
    fn means_that_stand_for_many_levels_ascend() {
        let phases: Vec<Phase> = (0..800).map(|i| phase(3 * i, 3 * i + 1, 1_000 - i)).collect();
        let f = Folded::new(&phases, 4_800, 2_400);
        assert!(f.blur > 0.0 && f.is_locked(), "cut to means");
        assert!(f.levels[0] == 0.0 && f.levels.windows(2).all(|l| l[0] < l[1]), "{:?}", &f.levels[..3]);
        assert_eq!(f.floor(), None);
        let mean = |at: u64| f.level(f.piece_at(at));
        assert_eq!((mean(0), mean(1), mean(3)), (500.0, 0.0, 499.5));
    }

    /// A phase that ends exactly on a multiple of the folded period must not leave a stray turn.
    #[test]
    fn folding_handles_arcs_that_end_at_zero() {
        let f = Folded::new(&[phase(2, 4, 10)], 8, 4);
        assert_eq!(f.starts, [0, 2]);
        assert_eq!(f.atoms(0), [(0, 1.0)]);
        assert_eq!(f.atoms(1), [(0, 0.5), (1, 0.5)]);
        let wraps = Folded::new(&[phase(3, 6, 10)], 8, 4);
        assert_eq!(wraps.starts, [0, 2, 3]);
        assert_eq!(wraps.atoms(0), [(0, 0.5), (1, 0.5)]);
        assert_eq!(wraps.atoms(1), [(0, 1.0)]);
        assert_eq!(wraps.atoms(2), [(0, 0.5), (1, 0.5)]);
    }
}
