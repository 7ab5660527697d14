//! The segments of every job's iteration, and which links each uses.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use crate::{FluidJob, FluidLink, rates::Rates};

/// A span of an iteration with constant demand on every link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Length at full speed, in ns.
    pub(crate) length: u64,
    /// Length when the job is alone on its links.
    pub(crate) solo: u64,
    /// What it demands, in [`Layout::rates`]; none = Down.
    pub(crate) uses: Range<u32>,
}

/// Jobs and links, laid out flat for the event loop.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) segments: Vec<Vec<Segment>>,
    /// What segments demand. Progress is counted in ns at full speed with as many bits after the point as a speed has, and those
    /// are as many as the longest segment allows in 64 bits.
    pub(crate) rates: Rates,
    /// The job with the longest iteration.
    pub(crate) pivot: usize,
}

impl Layout {
    pub(crate) fn new(jobs: &[FluidJob], links: &[FluidLink<'_>]) -> Self {
        let capacities = links.iter().map(|l| l.capacity.0).collect();
        // (job, link) for every demand, so that each job's links stand together.
        let mut demands: Vec<(usize, usize, usize)> = Vec::new();
        // A link without capacity would stop its jobs for ever, so its demands are left out (`predict`).
        for (l, link) in links.iter().enumerate().filter(|(_, l)| l.capacity.0 > 0) {
            demands.extend(link.demands.iter().enumerate().filter(|(_, (j, _))| *j < jobs.len()).map(|(d, (j, _))| (*j, l, d)));
        }
        demands.sort_unstable();
        let mut layout = Self { segments: Vec::with_capacity(jobs.len()), rates: Rates::new(capacities, 0), pivot: 0 };
        let mut rest = demands.as_slice();
        for (j, job) in jobs.iter().enumerate() {
            // Demands are in order of job, so those of job `j` are the first of the rest.
            let (mine, others) = rest.split_at(rest.partition_point(|d| d.0 == j));
            rest = others;
            let phases: Vec<_> = mine.iter().map(|&(_, l, d)| (l as u32, links[l].demands[d].1)).collect();
            layout.add_job(job.iteration.0, &phases);
        }
        let longest = layout.segments.iter().flatten().map(|s| s.length).max().unwrap_or(0);
        // One bit to spare, so that a step beyond the end of a segment cannot overflow.
        layout.rates.set_speed_bits(longest.leading_zeros().saturating_sub(1));
        // The times alone are known only now, because they are computed with the bits of a speed.
        for j in 0..layout.segments.len() {
            for s in 0..layout.segments[j].len() {
                let segment = &layout.segments[j][s];
                layout.segments[j][s].solo = layout.alone(segment, layout.work(segment));
            }
        }
        // `max_by_key` keeps the last of equals, so the reversed order makes the first of the longest jobs the pivot.
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
            let uses = self.rates.add(demands.iter().zip(&mut next).filter_map(|((link, phases), next)| {
                // Spans come in order of time, so each list of phases is walked once for all of them.
                while phases.get(*next).is_some_and(|p| p.end.0 <= span[0]) {
                    *next += 1;
                }
                phases.get(*next).filter(|p| p.start.0 <= span[0]).map(|p| (*link, p.rate.0))
            }));
            match segments.last_mut() {
                Some(last) if self.rates.merge_last(&last.uses, &uses) => last.length += span[1] - span[0],
                _ => segments.push(Segment { length: span[1] - span[0], solo: 0, uses }),
            }
        }
        self.segments.push(segments);
    }

    /// What is left to do of a whole segment.
    pub(crate) fn work(&self, segment: &Segment) -> u64 {
        // The bits are no more than the longest segment leaves free (`Layout::new`), so none is shifted out.
        segment.length << self.rates.speed_bits()
    }

    /// How long `left` of the work of a segment takes when its job is alone on its links.
    pub(crate) fn alone(&self, segment: &Segment, left: u64) -> u64 {
        let speeds = self.rates.used(&segment.uses).iter().map(|&(l, rate)| self.rates.speed(self.rates.capacities()[l as usize], rate));
        left.div_ceil(speeds.min().unwrap_or(self.rates.one()))
    }

    /// Length of the job's iteration when it is alone on its links.
    pub(crate) fn solo(&self, job: usize) -> u64 {
        self.segments[job].iter().map(|s| s.solo).fold(0, u64::saturating_add)
    }
}
