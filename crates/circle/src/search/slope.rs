//! How fast the cost can fall while one job moves, and what that says about shifts that were not looked at.
//!
//! Moved by a tick, a job takes away at most what it sends behind its rising edges: excess falls no faster. So a lower bound of
//! all that can come of one shift of a job bounds what can come of the shifts near it. Where periods hardly lock, an alignment
//! repeats every few ticks of a long period, and one look answers for many of its laps.

use alloc::collections::BTreeMap;

use super::group::Group;
use crate::demand::{distribution::DemandDistribution, folded::Folded};

/// The most that the cost falls per tick while `job` moves and the others stand.
pub(crate) fn slope(group: &Group, job: usize) -> f64 {
    let on = |&(c, m): &(usize, usize)| {
        let circle = &group.circles[c];
        circle.weight * circle.perimeter as f64 * rise(&circle.members[m].folded)
    };
    group.jobs[job].on.iter().map(on).sum()
}

/// How much the demand rises around its circle, per tick: for each level, how much more often at least that much is sent, summed
/// over the rises. (The distance of two distributions of levels is that of their tails.)
fn rise(folded: &Folded) -> f64 {
    let demand = DemandDistribution::job(folded, 0);
    let tail = |piece: usize, level: f64| demand.atoms(piece).iter().filter(|a| a.0 >= level).map(|a| a.1).sum::<f64>();
    let pieces = demand.starts.len();
    let mut rise = 0.0;
    for (level, below) in folded.levels.iter().skip(1).zip(&folded.levels) {
        // The piece before the first one is the last: rises are counted around the circle.
        let mut before = tail(pieces - 1, *level);
        for piece in 0..pieces {
            let here = tail(piece, *level);
            // Only rises count: behind a falling edge a later job sends more, which never lowers the cost.
            rise += (level - below) * (here - before).max(0.0);
            before = here;
        }
    }
    rise / demand.period as f64
}

/// Lower bounds at some shifts of a job, and between them.
#[derive(Debug)]
pub(crate) struct Slopes {
    slope: f64,
    known: BTreeMap<u64, f64>,
}

impl Slopes {
    pub(crate) fn new(slope: f64) -> Self {
        Self { slope, known: BTreeMap::new() }
    }

    /// Takes note that all that comes of `shift` costs at least `bound`.
    pub(crate) fn learn(&mut self, shift: u64, bound: f64) {
        self.known.insert(shift, bound);
    }

    /// A lower bound of all that comes of `shift`, from the nearest known shift on either side.
    pub(crate) fn at(&self, shift: u64) -> f64 {
        // Rises and falls around a circle add up to the same, so one slope serves both directions. The distance is not taken around the
        // circle, which only weakens the bound.
        let from = |(&at, &bound): (&u64, &f64)| bound - self.slope * at.abs_diff(shift) as f64;
        let before = self.known.range(..=shift).next_back().map_or(f64::NEG_INFINITY, from);
        self.known.range(shift..).next().map_or(f64::NEG_INFINITY, from).max(before)
    }
}
