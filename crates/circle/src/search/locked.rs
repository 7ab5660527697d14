//! The total of a circle on which every job is locked, kept up to date as jobs come and go.
//!
//! A local search moves one job a hundred thousand times. Adding up all jobs and sorting their edges for each move takes most of
//! its time, so here the edges stay sorted: taking a job out and putting it back is one pass over them.

use alloc::{vec, vec::Vec};

use crate::demand::circle::{Circle, OnCircle};

/// Most edges around a circle: beyond it a pass over them is no longer cheap.
const EDGES_MAX: u64 = 1 << 13;
/// A bend of less than this, in Mbit/s, is rounding.
const BEND_MIN: f64 = 1e-9;

/// An edge of one job around the circle.
#[derive(Clone, Copy, Debug)]
struct Edge {
    at: u64,
    change: f64,
    member: u32,
}

/// A job's edge in its own time: where it is and which levels (as indices) it leads from and to.
#[derive(Clone, Copy, Debug)]
struct Own {
    at: u64,
    from: usize,
    to: usize,
}

/// The demand of a job, in the job's own time.
#[derive(Clone, Debug)]
struct Wave {
    period: u64,
    /// The first is zero.
    levels: Vec<f64>,
    edges: Vec<Own>,
    /// (from, to, level), above zero.
    spans: Vec<(u64, u64, usize)>,
}

/// The total of the jobs that stand, and the marginal cost of the one that was asked for last.
#[derive(Clone, Debug)]
pub(super) struct LockedSum<'a> {
    circle: &'a Circle,
    waves: Vec<Wave>,
    /// Shift of each member that stands.
    shifts: Vec<Option<u64>>,
    edges: Vec<Edge>,
    merged: Vec<Edge>,
    /// Level at tick 0.
    base: f64,
    /// Pieces of the total around the circle of the asked job: starts, and by piece and level of that job what it adds, and the
    /// integral of that.
    starts: Vec<u64>,
    rate: Vec<f64>,
    prefix: Vec<f64>,
    asked: usize,
    /// The shifts of the places that are asked about, modulo the period of the asked job.
    shifted: Vec<u64>,
    /// Buffers of [`Self::fold`].
    residues: Vec<(u64, u32)>,
    unfolded: Vec<f64>,
}

/// A time below two periods, in the first of them.
fn wrapped(time: u64, period: u64) -> u64 {
    if time < period { time } else { time - period }
}

impl Wave {
    fn new(on: &OnCircle) -> Self {
        let f = &on.folded;
        let pieces = f.starts.len();
        // A locked job has one level in each piece, so the first atom is all there is.
        let level = |piece: usize| f.atoms(piece)[0].0 as usize;
        let edge = |piece: usize| Own { at: f.starts[piece], from: level((piece + pieces - 1) % pieces), to: level(piece) };
        let spans = f.spans.iter().map(|s| (s.from, s.to, s.level as usize)).collect();
        // The last piece may go on as the first one, and then there is no edge between them.
        Self { period: f.period, levels: f.levels.clone(), edges: (0..pieces).map(edge).filter(|e| e.from != e.to).collect(), spans }
    }

    /// The level at a time of its own.
    fn at(&self, time: u64) -> f64 {
        self.spans.iter().find(|s| s.0 <= time && time < s.1).map_or(0.0, |s| self.levels[s.2])
    }
}

impl<'a> LockedSum<'a> {
    /// The sum of no jobs: none stands yet. `None` unless all members are locked and the circle is short.
    pub(super) fn new(circle: &'a Circle) -> Option<Self> {
        let edges = |on: &OnCircle| (circle.perimeter / on.folded.period).saturating_mul(on.folded.starts.len() as u64);
        if circle.members.iter().any(|on| !on.folded.is_locked())
            || circle.members.iter().map(edges).fold(0, u64::saturating_add) > EDGES_MAX
        {
            return None;
        }
        let waves: Vec<Wave> = circle.members.iter().map(Wave::new).collect();
        let (edges, merged, starts) = (Vec::new(), Vec::new(), Vec::new());
        let shifts = vec![None; waves.len()];
        Some(Self {
            circle,
            waves,
            shifts,
            edges,
            merged,
            base: 0.0,
            starts,
            rate: Vec::new(),
            prefix: Vec::new(),
            asked: 0,
            shifted: Vec::new(),
            residues: Vec::new(),
            unfolded: Vec::new(),
        })
    }

    /// Takes a member out.
    pub(super) fn remove(&mut self, member: usize) {
        let Some(shift) = self.shifts[member].take() else { return };
        let wave = &self.waves[member];
        // At tick 0 the circle sees the job at its own tick `-shift`.
        self.base -= wave.at((wave.period - shift) % wave.period);
        self.edges.retain(|e| e.member != member as u32);
    }

    /// Puts a member, which does not stand, at `shift`.
    pub(super) fn insert(&mut self, member: usize, shift: u64) {
        let wave = &self.waves[member];
        let shift = shift % wave.period;
        self.shifts[member] = Some(shift);
        self.base += wave.at((wave.period - shift) % wave.period);
        // In the order of the circle: edges that wrap come before those that do not.
        let first = wave.edges.partition_point(|e| e.at + shift < wave.period);
        let around = wave.edges[first..].iter().chain(&wave.edges[..first]);
        let turns = self.circle.perimeter / wave.period;
        let mut new = (0..turns)
            .flat_map(|turn| {
                around.clone().map(move |e| Edge {
                    at: wrapped(e.at + shift, wave.period) + turn * wave.period,
                    change: wave.levels[e.to] - wave.levels[e.from],
                    member: member as u32,
                })
            })
            .peekable();
        self.merged.clear();
        // An edge at 0 is in the level at 0 already.
        while new.next_if(|e| e.at == 0).is_some() {}
        // Both lists ascend, so one pass merges them.
        for edge in &self.edges {
            while let Some(e) = new.next_if(|e| e.at < edge.at) {
                self.merged.push(e);
            }
            self.merged.push(*edge);
        }
        self.merged.extend(new);
        core::mem::swap(&mut self.edges, &mut self.merged);
    }

    /// Cost of those that stand.
    pub(super) fn cost(&self) -> f64 {
        let (mut at, mut level, mut sum) = (0, self.base, 0.0);
        for edge in &self.edges {
            if edge.at > at {
                sum += self.circle.excess_at(level) * (edge.at - at) as f64;
                at = edge.at;
            }
            level += edge.change;
        }
        (sum + self.circle.excess_at(level) * (self.circle.perimeter - at) as f64) * self.circle.weight
    }

    /// Work of [`Self::cost`].
    pub(super) fn cost_work(&self) -> u64 {
        self.edges.len() as u64 / 2 + 1
    }

    /// Prepares [`Self::add_to`] and [`Self::bends`] for a member that does not stand. Returns the work.
    pub(super) fn ask(&mut self, member: usize) -> u64 {
        self.asked = member;
        let levels = &self.waves[member].levels;
        self.starts.clear();
        self.rate.clear();
        self.prefix.clear();
        self.prefix.resize(levels.len(), 0.0);
        let (mut level, mut next, mut at) = (self.base, 0, 0);
        loop {
            while let Some(edge) = self.edges.get(next).filter(|e| e.at == at) {
                level += edge.change;
                next += 1;
            }
            // No edge lies at 0 (see `insert`), so the first piece has the level at 0.
            let end = self.edges.get(next).map_or(self.circle.perimeter, |e| e.at);
            let (length, before) = ((end - at) as f64, self.prefix.len() - levels.len());
            let idle = self.circle.excess_at(level);
            self.starts.push(at);
            for (l, own) in levels.iter().enumerate() {
                let rate = if l == 0 { 0.0 } else { self.circle.excess_at(level + own) - idle };
                self.rate.push(rate);
                // One row more than there are pieces: the last row is the integral of the whole circle.
                self.prefix.push(self.prefix[before + l] + rate * length);
            }
            at = end;
            if next == self.edges.len() {
                break;
            }
        }
        let work = self.starts.len() as u64 * (1 + levels.len() as u64 * self.circle.background.terms() / 2) + 2 * self.edges.len() as u64;
        let turns = self.circle.perimeter / self.waves[member].period;
        if turns == 1 {
            return work;
        }
        let pieces = self.starts.len() as u64;
        self.fold(member);
        work + 6 * pieces
    }

    /// Adds up what a member that repeats around the circle adds at all its turns: then its own circle is all there is.
    fn fold(&mut self, member: usize) {
        let (period, levels) = (self.waves[member].period, self.waves[member].levels.len());
        let mut now = vec![0.0; levels];
        self.residues.clear();
        let mut turn = 0;
        for (piece, &start) in self.starts.iter().enumerate() {
            let end = self.starts.get(piece + 1).copied().unwrap_or(self.circle.perimeter);
            while turn < end {
                // The piece in which a turn begins.
                now.iter_mut().zip(&self.rate[piece * levels..]).for_each(|(now, rate)| *now += rate);
                turn += period;
            }
            // `turn` is the first that begins after the piece does.
            let residue = start % period;
            // A piece that starts with a turn is in `now` already. Piece 0 is one of those, so `piece - 1` exists for the others.
            if residue > 0 {
                self.residues.push((residue, piece as u32));
            }
        }
        self.residues.sort_unstable();
        // The rates by piece are still read while the folded ones are written.
        core::mem::swap(&mut self.rate, &mut self.unfolded);
        self.starts.clear();
        self.rate.clear();
        self.prefix.clear();
        self.prefix.resize(levels, 0.0);
        let (mut next, mut at) = (0, 0);
        loop {
            let end = self.residues.get(next).map_or(period, |r| r.0);
            let before = self.prefix.len() - levels;
            self.starts.push(at);
            for (l, rate) in now.iter().enumerate() {
                self.rate.push(*rate);
                self.prefix.push(self.prefix[before + l] + rate * (end - at) as f64);
            }
            if next == self.residues.len() {
                return;
            }
            at = end;
            while let Some(&(_, piece)) = self.residues.get(next).filter(|r| r.0 == at) {
                let (here, before) = (piece as usize * levels, (piece as usize - 1) * levels);
                for (l, now) in now.iter_mut().enumerate() {
                    *now += self.unfolded[here + l] - self.unfolded[before + l];
                }
                next += 1;
            }
        }
    }

    /// Shifts of the asked member, below its period, at which its cost bends upwards: the only ones at which it can be lowest.
    pub(super) fn bends(&self, into: &mut Vec<u64>) {
        let (wave, pieces) = (&self.waves[self.asked], self.starts.len());
        let levels = wave.levels.len();
        for piece in 0..pieces {
            let here = &self.rate[piece * levels..(piece + 1) * levels];
            let start = self.starts[piece];
            let before = if piece == 0 { pieces - 1 } else { piece - 1 };
            let before = &self.rate[before * levels..(before + 1) * levels];
            for edge in &wave.edges {
                // As this edge passes this start, the slope of the cost goes from `before[from] - before[to]` to
                // `here[from] - here[to]`.
                let bend = (here[edge.from] - before[edge.from]) - (here[edge.to] - before[edge.to]);
                if bend > BEND_MIN {
                    into.push(wrapped(start + wave.period - edge.at, wave.period));
                }
            }
        }
    }

    /// Adds to each of `places`, (cost, shift) by ascending shift, what the asked member costs there.
    ///
    /// The cost is a sum over the ends of its spans of one integral each. As the shift grows each end walks around the circle once,
    /// so all places together take one walk for each end.
    pub(super) fn add_to(&mut self, places: &mut [(f64, u64)]) {
        let wave = &self.waves[self.asked];
        let (period, weight) = (wave.period, self.circle.weight);
        // A division takes longer than all the rest of a step.
        let reduced = |shift: u64| if shift < period { shift } else { shift % period };
        self.shifted.clear();
        self.shifted.extend(places.iter().map(|p| reduced(p.1)));
        for &(from, to, level) in &wave.spans {
            self.walk(from, level, -weight, places);
            self.walk(to, level, weight, places);
        }
    }

    /// Adds `scale` times the integral from 0 to `end` and each shift; beyond the period it goes on.
    fn walk(&self, end: u64, level: usize, scale: f64, places: &mut [(f64, u64)]) {
        let (period, levels) = (self.waves[self.asked].period, self.waves[self.asked].levels.len());
        let (starts, whole) = (&self.starts[..], self.prefix[self.starts.len() * levels + level]);
        let (mut piece, mut before) = (usize::MAX, 0);
        for ((cost, _), shift) in places.iter_mut().zip(&self.shifted) {
            let mut at = end + shift;
            let mut sum = 0.0;
            if at >= period {
                at -= period;
                sum = whole;
            }
            // Places ascend, so only the first one and one that has passed the end of the circle need a search.
            if piece == usize::MAX || at < before {
                piece = starts.partition_point(|&s| s <= at) - 1;
            } else {
                while starts.get(piece + 1).is_some_and(|&s| s <= at) {
                    piece += 1;
                }
            }
            before = at;
            let i = piece * levels + level;
            sum += self.prefix[i] + self.rate[i] * (at - starts[piece]) as f64;
            *cost += scale * sum;
        }
    }

    /// Work of one place in [`Self::add_to`].
    pub(super) fn place_work(&self) -> u64 {
        self.waves[self.asked].spans.len() as u64
    }
}
