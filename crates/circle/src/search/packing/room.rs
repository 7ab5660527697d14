//! Free capacity around a circle.

use alloc::{vec, vec::Vec};

use crate::budget::Budget;

/// A stretch in which one job sends at one rate: where it begins on the circle, how long it is, and the rate in Mbit/s.
pub(super) type Stretch = (u64, u64, u64);

/// What is free at each point of a circle.
#[derive(Clone, Debug)]
pub(super) struct Room {
    perimeter: u64,
    /// (from, Mbit/s), ascending, the first from 0; neighbours differ.
    pieces: Vec<(u64, u64)>,
}

/// A place where the free capacity rises. Something must begin to send there, or what rises is lost for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wall {
    pub(super) at: u64,
    /// How long more is free than `before`.
    pub(super) length: u64,
    /// Free before it, in Mbit/s.
    pub(super) before: u64,
}

impl Room {
    pub(super) fn new(perimeter: u64, capacity: u64) -> Self {
        Self { perimeter, pieces: vec![(0, capacity)] }
    }

    /// The piece that holds a time below the perimeter.
    fn piece(&self, at: u64) -> usize {
        self.pieces.partition_point(|piece| piece.0 <= at) - 1
    }

    fn end(&self, piece: usize) -> u64 {
        self.pieces.get(piece + 1).map_or(self.perimeter, |next| next.0)
    }

    /// Free in the piece before this one, around the circle.
    fn before(&self, piece: usize) -> u64 {
        self.pieces[piece.checked_sub(1).unwrap_or(self.pieces.len() - 1)].1
    }

    /// How long more than `least` is free from the begin of a piece on.
    fn length_above(&self, piece: usize, least: u64) -> u64 {
        let around = (0..self.pieces.len()).map(|n| (piece + n) % self.pieces.len());
        around.take_while(|&p| self.pieces[p].1 > least).map(|p| self.end(p) - self.pieces[p].0).sum()
    }

    /// Whether all of these fit.
    pub(super) fn holds(&self, mut stretches: impl Iterator<Item = Stretch>, budget: &mut Budget) -> bool {
        let mut looked = 0;
        let holds = stretches.all(|(mut begins, mut left, rate)| {
            let mut piece = self.piece(begins);
            loop {
                looked += 1;
                if self.pieces[piece].1 < rate {
                    return false;
                }
                let length = self.end(piece) - begins;
                if length >= left {
                    return true;
                }
                left -= length;
                piece = (piece + 1) % self.pieces.len();
                begins = self.pieces[piece].0;
            }
        });
        budget.charge(3 + 2 * looked);
        holds
    }

    /// What is left beside stretches that fit.
    pub(super) fn without(&self, stretches: impl Iterator<Item = Stretch>, budget: &mut Budget) -> Self {
        let mut steps: Vec<(u64, i64)> = Vec::new();
        for (from, length, rate) in stretches {
            // Rates are exact in an f64, and so far below the largest i64.
            let (to, rate) = (from + length, rate as i64);
            steps.push((from, rate));
            if to > self.perimeter {
                steps.extend([(0, rate), (to - self.perimeter, -rate)]);
            } else {
                steps.push((to, -rate));
            }
        }
        steps.sort_unstable();
        budget.charge((8 + self.pieces.len() + 4 * steps.len()) as u64);
        let mut pieces: Vec<(u64, u64)> = Vec::with_capacity(self.pieces.len() + steps.len());
        let (mut next, mut step, mut free, mut sent) = (0, 0, 0, 0_i64);
        loop {
            let at = [self.pieces.get(next).map(|p| p.0), steps.get(step).map(|s| s.0)].into_iter().flatten().min();
            // What ends where the circle does ends before its first tick.
            let Some(at) = at.filter(|at| *at < self.perimeter) else { return Self { perimeter: self.perimeter, pieces } };
            if let Some(piece) = self.pieces.get(next).filter(|piece| piece.0 == at) {
                (free, next) = (piece.1, next + 1);
            }
            while let Some(change) = steps.get(step).filter(|change| change.0 == at) {
                (sent, step) = (sent + change.1, step + 1);
            }
            let left = free.saturating_sub_signed(sent);
            if pieces.last().is_none_or(|last| last.1 != left) {
                pieces.push((at, left));
            }
        }
    }

    /// The wall that begins the narrowest stretch; `None` where as much is free everywhere.
    pub(super) fn narrowest(&self) -> Option<Wall> {
        let wall = |p: usize| {
            let before = self.before(p);
            (self.pieces[p].1 > before).then(|| Wall { at: self.pieces[p].0, length: self.length_above(p, before), before })
        };
        (0..self.pieces.len()).filter_map(wall).min_by_key(|wall| wall.length)
    }

    /// Where more is free than before.
    pub(super) fn rises(&self) -> impl Iterator<Item = u64> {
        (0..self.pieces.len()).filter(|&p| self.pieces[p].1 > self.before(p)).map(|p| self.pieces[p].0)
    }

    /// What is lost when nothing begins at a wall before the free capacity changes again.
    pub(super) fn waste(&self, wall: &Wall) -> Stretch {
        let piece = self.piece(wall.at);
        (wall.at, self.end(piece) - wall.at, self.pieces[piece].1 - wall.before)
    }

    /// The lengths of stretches that are closed on both sides: nothing is free around them.
    pub(super) fn closed(&self) -> impl Iterator<Item = u64> {
        let begins = (0..self.pieces.len()).filter(|&p| self.pieces[p].1 > 0 && self.before(p) == 0);
        begins.map(|p| self.length_above(p, 0))
    }

    /// All that tells two rooms apart.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        self.pieces.iter().flat_map(|piece| [piece.0, piece.1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tick by tick, with a list of what is free at each: any stretches around a circle of 12 ticks.
    #[test]
    fn rooms_are_as_tick_by_tick() {
        let mut budget = Budget::default();
        let mut seed = 7_u64;
        let mut below = |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % end
        };
        for _ in 0..20_000 {
            let (mut room, mut free) = (Room::new(12, 3), [3_u64; 12]);
            for _ in 0..below(8) {
                let stretch = (below(12), 1 + below(12), 1 + below(2));
                let ticks: Vec<usize> = (stretch.0..stretch.0 + stretch.1).map(|t| (t % 12) as usize).collect();
                let fits = ticks.iter().all(|&t| free[t] >= stretch.2);
                assert_eq!(room.holds([stretch].into_iter(), &mut budget), fits);
                if fits {
                    ticks.iter().for_each(|&t| free[t] -= stretch.2);
                    room = room.without([stretch].into_iter(), &mut budget);
                }
            }
            assert!((0..12).all(|t| room.pieces[room.piece(t)].1 == free[t as usize]), "{room:?} {free:?}");
            assert!(room.pieces.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 != two[1].1), "{room:?}");
            // A wall at 0 may be no edge of a piece in the list, but the piece at 0 begins there.
            let above = |t: usize, least: u64| (0..12).take_while(|n| free[(t + n) % 12] > least).count() as u64;
            let walls = (0..12).filter(|&t| free[t] > free[(t + 11) % 12]).map(|t| above(t, free[(t + 11) % 12]));
            assert_eq!(room.narrowest().map(|wall| wall.length), walls.min(), "{room:?}");
            let mut closed: Vec<u64> = (0..12).filter(|&t| free[t] > 0 && free[(t + 11) % 12] == 0).map(|t| above(t, 0)).collect();
            let mut found: Vec<u64> = room.closed().collect();
            closed.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, closed, "{room:?}");
        }
    }
}
