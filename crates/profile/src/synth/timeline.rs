//! The time line of one NIC, in cells of [`ROUND_NS`].

use alloc::{collections::BTreeMap, vec::Vec};

use circle::{PERIOD_TICKS_MAX, PHASES_PER_DEMAND_MAX};
use fabric::collective::Collective;

use super::{Hardware, ROUND_NS, SynthError};
use crate::dims::Scope;

/// Bits that a rate of 1 Mbit/s moves in one cell.
const BITS_PER_MBPS: u128 = ROUND_NS as u128 / 1_000;
/// Longest span in cells: the longest period.
const CELLS_MAX: u128 = (PERIOD_TICKS_MAX / ROUND_NS) as u128;
/// Most pieces before neighbours are merged. A block of every pass may leave a few pieces that
/// become one phase, so this is far above the limit on phases.
const PIECES_MAX: usize = 64 * PHASES_PER_DEMAND_MAX;

/// Which traffic it is. `sharers` groups of the scope use the NIC at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tag {
    pub(super) scope: Scope,
    pub(super) collective: Collective,
    pub(super) sharers: u64,
}

/// A constant rate, of all sharers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) tag: Tag,
    pub(super) rate: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// The part of the line rate that collectives reach, Mbit/s.
    usable: u64,
    pieces: Vec<Piece>,
}

impl Timeline {
    pub(super) fn new(hardware: &Hardware) -> Self {
        let usable = u128::from(hardware.nic_rate.0) * u128::from(hardware.efficiency_percent) / 100;
        // A slow NIC at a low efficiency may round to 0, by which `cells` would divide.
        Self { usable: u64::try_from(usable).unwrap_or(u64::MAX).max(1), pieces: Vec::new() }
    }

    /// An empty line of the same NIC.
    pub(super) fn blank(&self) -> Self {
        Self { usable: self.usable, pieces: Vec::new() }
    }

    /// Cells that one group's `bits` need at full rate, all sharers sending theirs too.
    pub(super) fn cells(&self, bits: u128, tag: Tag) -> Result<u64, SynthError> {
        // A saturated product needs more cells than CELLS_MAX, so overflow ends as `TooLong`.
        let cells = bits.saturating_mul(tag.sharers.into()).div_ceil(u128::from(self.usable) * BITS_PER_MBPS);
        if cells > CELLS_MAX {
            return Err(SynthError::TooLong);
        }
        Ok(cells as u64)
    }

    /// Sends `bits` per group from `at` at full rate; returns the end.
    pub(super) fn burst(&mut self, at: u64, bits: u128, tag: Tag) -> Result<u64, SynthError> {
        let end = at + self.cells(bits, tag)?;
        self.spread(at, end, bits, tag)?;
        Ok(end)
    }

    /// Sends `bits` per group evenly over `at..end`; the caller leaves at least [`Self::cells`].
    pub(super) fn spread(&mut self, at: u64, end: u64, bits: u128, tag: Tag) -> Result<(), SynthError> {
        let cells = u128::from(end.saturating_sub(at));
        if bits == 0 || cells == 0 {
            return Ok(());
        }
        // The rate is rounded up, so the whole volume fits in the span.
        let rate = bits.saturating_mul(tag.sharers.into()).div_ceil(cells * BITS_PER_MBPS);
        self.push(Piece { start: at, end, tag, rate: u64::try_from(rate).unwrap_or(u64::MAX) })
    }

    /// Sends `bits` per group in the background from `at`, evenly until `until` or as fast as
    /// the NIC can, whichever takes longer, in the capacity that other pieces leave; what they
    /// displace follows at the end. Returns the end.
    pub(super) fn pour(&mut self, at: u64, until: u64, bits: u128, tag: Tag) -> Result<u64, SynthError> {
        let length = self.cells(bits, tag)?.max(until.saturating_sub(at));
        let end = at + length;
        if length == 0 {
            return Ok(at);
        }
        let mut left = bits.saturating_mul(tag.sharers.into());
        // This is the rate without other traffic; between some edges the NIC has less room.
        let even = left.div_ceil(u128::from(length) * BITS_PER_MBPS);
        // Between these edges the traffic of others is constant, so one rate holds.
        let mut edges: Vec<u64> = self.pieces.iter().flat_map(|p| [p.start, p.end]).filter(|e| (at..end).contains(e)).collect();
        edges.extend([at, end]);
        edges.sort_unstable();
        edges.dedup();
        // The copy leaves out the pieces that this transfer adds, which must not displace its own rest.
        let others = self.pieces.clone();
        for edge in edges.windows(2) {
            let (from, to) = (edge[0], edge[1]);
            let used: u64 = others.iter().filter(|p| p.start < to && from < p.end).fold(0, |sum, p| sum.saturating_add(p.rate));
            let rate = even.min(self.usable.saturating_sub(used).into());
            if rate > 0 {
                self.push(Piece { start: from, end: to, tag, rate: rate as u64 })?;
            }
            // Rates are rounded up, so the last piece may carry a little more than what is left.
            left = left.saturating_sub(rate * u128::from(to - from) * BITS_PER_MBPS);
        }
        self.burst(end, left.div_ceil(tag.sharers.into()), tag)
    }

    /// Copies the pieces of `template`, moved by `at`.
    pub(super) fn stamp(&mut self, template: &Self, at: u64) -> Result<(), SynthError> {
        template.pieces.iter().try_for_each(|p| self.push(Piece { start: p.start + at, end: p.end + at, ..*p }))
    }

    fn push(&mut self, piece: Piece) -> Result<(), SynthError> {
        if self.pieces.len() >= PIECES_MAX {
            return Err(SynthError::TooManyPhases);
        }
        self.pieces.push(piece);
        Ok(())
    }

    /// The pieces by start. Where two of one kind overlap, two NICs send them, and the busier one
    /// counts.
    pub(super) fn finish(self) -> Vec<Piece> {
        let mut by_tag: BTreeMap<Tag, Vec<Piece>> = BTreeMap::new();
        for piece in self.pieces {
            by_tag.entry(piece.tag).or_default().push(piece);
        }
        let mut all: Vec<Piece> = by_tag.into_values().flat_map(busiest).collect();
        all.sort_unstable();
        all
    }
}

/// The upper envelope of pieces of one kind, neighbours of equal rate merged.
fn busiest(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_unstable();
    let mut edges: Vec<u64> = pieces.iter().flat_map(|p| [p.start, p.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut out: Vec<Piece> = Vec::new();
    // The sweep visits the edges in order; few pieces are active at once, so the list stays short.
    let mut active: Vec<Piece> = Vec::new();
    let mut next = 0;
    for edge in edges.windows(2) {
        let (start, end) = (edge[0], edge[1]);
        active.retain(|p| p.end > start);
        while let Some(&p) = pieces.get(next).filter(|p| p.start <= start) {
            active.push(p);
            next += 1;
        }
        // A span without an active piece is a gap between two others.
        let Some(&top) = active.iter().max_by_key(|p| p.rate) else { continue };
        match out.last_mut() {
            Some(last) if last.end == start && last.rate == top.rate => last.end = end,
            _ => out.push(Piece { start, end, ..top }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;

    const DATA: Tag = Tag { scope: Scope::Data, collective: Collective::Ring, sharers: 1 };
    const TENSOR: Tag = Tag { scope: Scope::Tensor, collective: Collective::Ring, sharers: 1 };

    /// A NIC of 10 usable Mbit/s: 1,000 bits per cell.
    fn line() -> Timeline {
        Timeline::new(&Hardware { nic_rate: Rate(20), nics_per_host: 1, efficiency_percent: 50, gpu_gflops: 1 })
    }

    fn rates(line: Timeline) -> Vec<(u64, u64, u64)> {
        line.finish().iter().map(|p| (p.start, p.end, p.rate)).collect()
    }

    #[test]
    fn a_burst_takes_whole_cells_at_the_rate_that_fills_them() {
        let mut l = line();
        // 2,500 bits at 1,000 a cell: 3 cells at 2500 / 300 = 9 Mbit/s, rounded up.
        assert_eq!(l.burst(5, 2_500, DATA).unwrap(), 8);
        assert_eq!(l.burst(20, 1_000, Tag { sharers: 3, ..TENSOR }).unwrap(), 23);
        assert_eq!(rates(l), [(5, 8, 9), (20, 23, 10)]);
    }

    #[test]
    fn pouring_stretches_over_the_window_and_yields_to_others() {
        let mut l = line();
        assert_eq!(l.pour(0, 10, 5_000, DATA).unwrap(), 10);
        assert_eq!(rates(l.clone()), [(0, 10, 5)]);
        // The other half of the NIC is left over: 10,000 bits take 10 cells even without it.
        let mut l = line();
        l.spread(2, 6, 2_000, TENSOR).unwrap();
        // Cells 0-2 and 6-10 at 10, 2-6 at 5: 8,000 bits; 2,000 follow in 2 cells.
        assert_eq!(l.pour(0, 4, 10_000, DATA).unwrap(), 12);
        assert_eq!(rates(l), [(0, 2, 10), (2, 6, 5), (2, 6, 5), (6, 12, 10)]);
    }

    #[test]
    fn overlapping_pieces_of_one_kind_keep_the_busier() {
        let mut l = line();
        l.spread(0, 10, 3_000, DATA).unwrap();
        l.spread(5, 12, 4_900, DATA).unwrap();
        assert_eq!(rates(l), [(0, 5, 3), (5, 12, 7)]);
    }

    #[test]
    fn volumes_beyond_any_period_are_refused() {
        assert_eq!(line().cells(u128::MAX, DATA), Err(SynthError::TooLong));
    }
}
