//! The segments of every job's iteration, and which links each uses.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use super::{FluidJob, FluidLink};

/// A span of an iteration with constant demand on every link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Length at full speed, in ns.
    pub(super) length: u64,
    /// Length when the job is alone on its links.
    pub(super) solo: u64,
    /// Its entries in [`Layout::uses`]; none = Down.
    pub(super) uses: Range<u32>,
}

/// Jobs and links, laid out flat for the event loop.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) segments: Vec<Vec<Segment>>,
    /// (link, demand in Mbit/s).
    uses: Vec<(u32, u64)>,
    /// Capacity of each link in Mbit/s.
    pub(super) capacities: Vec<u64>,
    /// Progress is counted in 2^-`scale` ns, as fine as the longest segment allows in 64 bits.
    scale: u32,
    /// The job with the longest iteration.
    pub(super) pivot: usize,
}

impl Layout {
    pub(super) fn new(jobs: &[FluidJob], links: &[FluidLink<'_>]) -> Self {
        let capacities = links.iter().map(|l| l.capacity.0).collect();
        // (job, link) for every demand, so that each job's links stand together.
        let mut demands: Vec<(usize, usize, usize)> = Vec::new();
        for (l, link) in links.iter().enumerate().filter(|(_, l)| l.capacity.0 > 0) {
            demands.extend(link.demands.iter().enumerate().filter(|(_, (j, _))| *j < jobs.len()).map(|(d, (j, _))| (*j, l, d)));
        }
        demands.sort_unstable();
        let mut layout = Self { segments: Vec::with_capacity(jobs.len()), uses: Vec::new(), capacities, scale: 0, pivot: 0 };
        let mut rest = demands.as_slice();
        for (j, job) in jobs.iter().enumerate() {
            let (mine, others) = rest.split_at(rest.partition_point(|d| d.0 == j));
            rest = others;
            let phases: Vec<_> = mine.iter().map(|&(_, l, d)| (l as u32, links[l].demands[d].1)).collect();
            layout.add_job(job.iteration.0, &phases);
        }
        let longest = layout.segments.iter().flatten().map(|s| s.length).max().unwrap_or(0);
        // One bit to spare, so that a step beyond the end of a segment cannot overflow. 30 bits are below 1 ns in a second.
        layout.scale = longest.leading_zeros().saturating_sub(1).min(30);
        for j in 0..layout.segments.len() {
            for s in 0..layout.segments[j].len() {
                let segment = &layout.segments[j][s];
                layout.segments[j][s].solo = layout.alone(segment, layout.work(segment));
            }
        }
        layout.pivot = (0..jobs.len()).rev().max_by_key(|&j| jobs[j].iteration).unwrap_or(0);
        layout
    }

    /// An iteration of no length is taken as 1 ns, so that time moves on.
    fn add_job(&mut self, iteration: u64, demands: &[(u32, &[circle::Phase])]) {
        let iteration = iteration.max(1);
        let mut edges: Vec<u64> = demands.iter().flat_map(|(_, phases)| phases.iter()).flat_map(|p| [p.start.0, p.end.0]).collect();
        edges.extend([0, iteration]);
        edges.sort_unstable();
        edges.dedup();
        // A phase beyond the iteration is cut off, not trusted.
        edges.truncate(edges.partition_point(|&e| e <= iteration));
        let mut next = vec![0usize; demands.len()];
        let mut segments: Vec<Segment> = Vec::with_capacity(edges.len());
        for span in edges.windows(2) {
            let first = self.uses.len();
            for ((link, phases), next) in demands.iter().zip(&mut next) {
                while phases.get(*next).is_some_and(|p| p.end.0 <= span[0]) {
                    *next += 1;
                }
                self.uses.extend(phases.get(*next).filter(|p| p.start.0 <= span[0] && p.rate.0 > 0).map(|p| (*link, p.rate.0)));
            }
            let uses = first as u32..self.uses.len() as u32;
            match segments.last_mut() {
                Some(last) if self.uses[last.uses.start as usize..last.uses.end as usize] == self.uses[first..] => {
                    last.length += span[1] - span[0];
                    self.uses.truncate(first);
                }
                _ => segments.push(Segment { length: span[1] - span[0], solo: 0, uses }),
            }
        }
        self.segments.push(segments);
    }

    /// (link, demand) of every link that a segment uses.
    pub(super) fn uses(&self, segment: &Segment) -> &[(u32, u64)] {
        self.used(&segment.uses)
    }

    /// (link, demand) of these entries.
    pub(super) fn used(&self, entries: &Range<u32>) -> &[(u32, u64)] {
        &self.uses[entries.start as usize..entries.end as usize]
    }

    /// The number of (link, demand) of all segments.
    pub(super) fn entries(&self) -> usize {
        self.uses.len()
    }

    /// Full speed.
    pub(super) fn one(&self) -> u64 {
        1 << self.scale
    }

    /// The part `numerator / denominator` of full speed, at most all of it, never none. Rounded up, so that an end that
    /// falls on a whole nanosecond is not pushed to the next one.
    pub(super) fn speed(&self, numerator: u64, denominator: u64) -> u64 {
        if numerator >= denominator {
            return self.one();
        }
        let scaled = match numerator.checked_shl(self.scale).filter(|s| s >> self.scale == numerator) {
            Some(scaled) => scaled.div_ceil(denominator),
            None => (u128::from(numerator) << self.scale).div_ceil(u128::from(denominator)) as u64,
        };
        scaled.max(1)
    }

    /// A speed that is counted in 2^-`bits` of full speed, `bits` at least 30; rounded up, never none.
    pub(super) fn speed_of(&self, pace: u64, bits: u32) -> u64 {
        pace.div_ceil(1 << (bits - self.scale)).clamp(1, self.one())
    }

    /// What is left to do of a whole segment.
    pub(super) fn work(&self, segment: &Segment) -> u64 {
        segment.length << self.scale
    }

    /// How long `left` of the work of a segment takes when its job is alone on its links.
    pub(super) fn alone(&self, segment: &Segment, left: u64) -> u64 {
        let speeds = self.uses(segment).iter().map(|&(l, rate)| self.speed(self.capacities[l as usize], rate));
        left.div_ceil(speeds.min().unwrap_or(self.one()))
    }

    /// Length of the job's iteration when it is alone on its links.
    pub(super) fn solo(&self, job: usize) -> u64 {
        self.segments[job].iter().map(|s| s.solo).fold(0, u64::saturating_add)
    }
}
