//! Demand over a window of time: one job's spans, and the total of several jobs.
//!
//! Exact where the number of pieces is modest. Beyond that a span is the mean of a bin, so that
//! a job with a thousand iterations in the window costs no more than one with ten.

use alloc::{vec, vec::Vec};

use super::view::PhaseView;

/// Most edges of a total that are swept exactly; a few milliseconds.
const EDGES_MAX: u64 = 200_000;

/// Longest period taken, 2.3 years: a few of them in sequence stay inside `u64`.
const PERIOD_NS_MAX: u64 = 1 << 56;

/// A span of a window with constant (or mean) demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    /// First ns.
    pub start_ns: u64,
    /// One past the last. On a circle it may lie beyond the perimeter: the span wraps.
    pub end_ns: u64,
    /// Mean demand in Mbit/s.
    pub mbps: f64,
}

/// One job's demand: phases that repeat every period, delayed by a shift.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    phases: Vec<PhaseView>,
    /// `before[i]`: Mbit/s times ns in the phases before the `i`th.
    before: Vec<u128>,
    period_ns: u64,
    shift_ns: u64,
}

impl Demand {
    /// Takes the phases that lie within the period, in order; others are left out.
    pub(crate) fn new(phases: &[PhaseView], period_ns: u64, shift_ns: u64) -> Self {
        // A period of 0 would divide by zero below, and a very long one would overflow sums of a few periods.
        let period_ns = period_ns.clamp(1, PERIOD_NS_MAX);
        let mut kept: Vec<PhaseView> = Vec::with_capacity(phases.len());
        let mut before = vec![0_u128];
        for &phase in phases {
            // The searches below need phases that are sorted and disjoint, and a caller's are not trusted to be.
            let free_from = kept.last().map_or(0, |p| p.end_ns);
            if phase.mbps > 0 && free_from <= phase.start_ns && phase.start_ns < phase.end_ns && phase.end_ns <= period_ns {
                let area = u128::from(phase.end_ns - phase.start_ns) * u128::from(phase.mbps);
                before.push(before.last().copied().unwrap_or(0).saturating_add(area));
                kept.push(phase);
            }
        }
        Self { phases: kept, before, period_ns, shift_ns: shift_ns % period_ns }
    }

    /// The period.
    pub(crate) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// The shift, below the period.
    pub(crate) fn shift_ns(&self) -> u64 {
        self.shift_ns
    }

    /// Highest demand in Mbit/s.
    pub(crate) fn peak_mbps(&self) -> f64 {
        self.phases.iter().map(|p| p.mbps).max().unwrap_or(0) as f64
    }

    /// Mbit/s times ns from the start of an unshifted iteration to `t`.
    fn area(&self, t_ns: u64) -> u128 {
        let iterations = u128::from(t_ns / self.period_ns);
        let rest = t_ns % self.period_ns;
        // Whole phases come from the prefix sums and the one under way is added: logarithmic, also for thousands of phases.
        let whole = self.phases.partition_point(|p| p.end_ns <= rest);
        let part = self.phases.get(whole).filter(|p| p.start_ns < rest).map_or(0, |p| u128::from(rest - p.start_ns) * u128::from(p.mbps));
        let total = self.before.last().copied().unwrap_or(0);
        iterations.saturating_mul(total).saturating_add(self.before[whole]).saturating_add(part)
    }

    /// Mean demand in `[from, to)` of the steady state.
    pub(crate) fn mean_in(&self, from_ns: u64, to_ns: u64) -> f64 {
        if to_ns <= from_ns {
            return 0.0;
        }
        // The lead turns a time of the window into one since an unshifted start, and is positive because a shift is below the period.
        let lead = self.period_ns - self.shift_ns;
        let area = self.area(to_ns.saturating_add(lead)).saturating_sub(self.area(from_ns.saturating_add(lead)));
        area as f64 / (to_ns - from_ns) as f64
    }

    /// How many spans the window holds when nothing is folded.
    fn span_count(&self, window_ns: u64) -> u64 {
        (window_ns / self.period_ns).saturating_add(2).saturating_mul(self.phases.len() as u64)
    }

    /// Spans of equal bins, their neighbours of equal mean merged.
    fn binned(&self, window_ns: u64, bins: u64) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (start_ns, end_ns) in bin_edges(window_ns, bins) {
            let mbps = self.mean_in(start_ns, end_ns);
            match spans.last_mut() {
                // Equal neighbours become one span, because each span is an arc or a bar in the file.
                Some(last) if last.end_ns == start_ns && last.mbps == mbps => last.end_ns = end_ns,
                _ if mbps > 0.0 => spans.push(Span { start_ns, end_ns, mbps }),
                _ => {}
            }
        }
        spans
    }

    /// Spans on a circle whose perimeter is a multiple of the period, unclipped: a span that
    /// starts before the perimeter may end after it. At most about `limit` of them.
    pub(crate) fn on_circle(&self, perimeter_ns: u64, limit: u64) -> Vec<Span> {
        // A circle holds whole iterations only, so the two that `span_count` adds for a window are allowed for.
        if self.span_count(perimeter_ns) > limit.saturating_add(2 * self.phases.len() as u64) {
            return self.binned(perimeter_ns, limit);
        }
        let mut spans = Vec::new();
        for k in 0..perimeter_ns / self.period_ns {
            for phase in &self.phases {
                let start_ns = (phase.start_ns + self.shift_ns + k * self.period_ns) % perimeter_ns;
                spans.push(Span { start_ns, end_ns: start_ns + (phase.end_ns - phase.start_ns), mbps: phase.mbps as f64 });
            }
        }
        spans.sort_by_key(|s| s.start_ns);
        spans
    }

    /// Spans in a window of the steady state, clipped to it. At most about `limit` of them.
    pub(crate) fn in_window(&self, window_ns: u64, limit: u64) -> Vec<Span> {
        if self.span_count(window_ns) > limit {
            return self.binned(window_ns, limit);
        }
        let mut spans = Vec::new();
        // The iteration under way at 0 began one period before the first shifted one.
        for k in 0..window_ns / self.period_ns + 2 {
            for phase in &self.phases {
                let base = k * self.period_ns + self.shift_ns;
                let start_ns = (base + phase.start_ns).saturating_sub(self.period_ns);
                let end_ns = (base + phase.end_ns).saturating_sub(self.period_ns).min(window_ns);
                if start_ns < end_ns {
                    spans.push(Span { start_ns, end_ns, mbps: phase.mbps as f64 });
                }
            }
        }
        spans
    }
}

/// `bins` equal parts of a window.
fn bin_edges(window_ns: u64, bins: u64) -> impl Iterator<Item = (u64, u64)> {
    // No bin is empty: there are at most as many as nanoseconds.
    let bins = bins.clamp(1, window_ns.max(1));
    let edge = move |i: u64| (u128::from(window_ns) * u128::from(i) / u128::from(bins)) as u64;
    (0..bins).map(move |i| (edge(i), edge(i + 1)))
}

/// A step of a total.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// First ns.
    pub start_ns: u64,
    /// One past the last.
    pub end_ns: u64,
    /// Mean over the step.
    pub mean_mbps: f64,
    /// Highest within the step; the mean, where the total is exact.
    pub peak_mbps: f64,
}

/// The total demand of several jobs over a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    /// Steps that cover the window without gaps.
    pub steps: Vec<Step>,
    /// Highest demand seen.
    pub peak_mbps: f64,
    /// Time above the capacity; none when there are too many pieces to know it exactly.
    pub over_ns: Option<u64>,
}

impl Total {
    /// Sums the demands over the window, in at most about `limit` steps.
    pub(crate) fn of(demands: &[Demand], capacity_mbps: u64, window_ns: u64, limit: u64) -> Self {
        let edges = demands.iter().map(|d| d.span_count(window_ns).saturating_mul(2)).fold(0_u64, u64::saturating_add);
        // Means cannot tell how long the demand was over capacity, so `over_ns` is unknown on this way.
        if edges > EDGES_MAX {
            let steps = bin_edges(window_ns, limit).map(|(start_ns, end_ns)| {
                let mean_mbps = demands.iter().map(|d| d.mean_in(start_ns, end_ns)).sum();
                Step { start_ns, end_ns, mean_mbps, peak_mbps: mean_mbps }
            });
            let steps: Vec<Step> = steps.collect();
            let peak_mbps = steps.iter().map(|s| s.peak_mbps).fold(0.0, f64::max);
            return Self { steps, peak_mbps, over_ns: None };
        }
        let steps = sweep(demands, window_ns);
        let peak_mbps = steps.iter().map(|s| s.peak_mbps).fold(0.0, f64::max);
        // The time over capacity is taken from the exact steps, before they are made coarse for the picture.
        let over = steps.iter().filter(|s| s.peak_mbps > capacity_mbps as f64);
        let over_ns = Some(over.map(|s| s.end_ns - s.start_ns).sum());
        let steps = if steps.len() as u64 > limit { coarsen(&steps, window_ns, limit) } else { steps };
        Self { steps, peak_mbps, over_ns }
    }

    /// Maximal spans in which the demand exceeds the capacity at some time.
    pub(crate) fn over_spans(&self, capacity_mbps: u64) -> Vec<(u64, u64)> {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for step in self.steps.iter().filter(|s| s.peak_mbps > capacity_mbps as f64) {
            match spans.last_mut() {
                Some(last) if last.1 == step.start_ns => last.1 = step.end_ns,
                _ => spans.push((step.start_ns, step.end_ns)),
            }
        }
        spans
    }
}

/// The exact total: a sweep over the edges, in integers.
fn sweep(demands: &[Demand], window_ns: u64) -> Vec<Step> {
    // The two edges without a rate make the steps cover the window from end to end.
    let mut edges: Vec<(u64, i128)> = vec![(0, 0), (window_ns, 0)];
    for span in demands.iter().flat_map(|d| d.in_window(window_ns, u64::MAX)) {
        // Spans that are not binned hold whole Mbit/s, so the running sum is exact and returns to 0.
        let rate = span.mbps as i128;
        edges.push((span.start_ns, rate));
        edges.push((span.end_ns, -rate));
    }
    edges.sort_unstable();
    let mut steps: Vec<Step> = Vec::new();
    let mut rate = 0_i128;
    for pair in edges.windows(2) {
        rate += pair[0].1;
        let (start_ns, end_ns, mbps) = (pair[0].0, pair[1].0, rate as f64);
        match steps.last_mut() {
            // All edges of one time are added before a step has a length, so their order does not show.
            _ if start_ns == end_ns => {}
            Some(last) if last.mean_mbps == mbps => last.end_ns = end_ns,
            _ => steps.push(Step { start_ns, end_ns, mean_mbps: mbps, peak_mbps: mbps }),
        }
    }
    steps
}

/// The same total in `bins` equal steps, each with its mean and its peak.
fn coarsen(steps: &[Step], window_ns: u64, bins: u64) -> Vec<Step> {
    let mut at = 0;
    let bin = |(start_ns, end_ns)| {
        let mut step = Step { start_ns, end_ns, mean_mbps: 0.0, peak_mbps: 0.0 };
        while let Some(fine) = steps.get(at) {
            let overlap = fine.end_ns.min(end_ns).saturating_sub(fine.start_ns.max(start_ns));
            step.mean_mbps += fine.mean_mbps * overlap as f64 / (end_ns - start_ns).max(1) as f64;
            if overlap > 0 {
                step.peak_mbps = step.peak_mbps.max(fine.peak_mbps);
            }
            // A fine step that reaches into the next bin is looked at again there, so `at` stays on it.
            if fine.end_ns > end_ns {
                break;
            }
            at += 1;
        }
        step
    };
    bin_edges(window_ns, bins).map(bin).collect()
}

/// The smallest multiple of the longest period that is a multiple of all, if it is at most
/// `turns_max` times the longest: their LCM without computing it.
pub(crate) fn common_perimeter(periods_ns: impl Iterator<Item = u64> + Clone, turns_max: u64) -> Option<u64> {
    // A common multiple is a multiple of the longest period, so `turns_max` tries find the least one or show that it is too long.
    let longest = periods_ns.clone().max()?;
    (1..=turns_max).filter_map(|k| longest.checked_mul(k)).find(|p| periods_ns.clone().all(|t| t > 0 && p % t == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(start_ns: u64, end_ns: u64, mbps: u64) -> PhaseView {
        PhaseView { start_ns, end_ns, mbps }
    }

    #[test]
    fn a_shifted_phase_wraps_into_the_window() {
        // Up [6, 10) of 10, shifted by 2: [8, 12), so the window [0, 20) starts with [0, 2).
        let d = Demand::new(&[phase(6, 10, 3)], 10, 2);
        let spans: Vec<_> = d.in_window(20, 100).iter().map(|s| (s.start_ns, s.end_ns)).collect();
        assert_eq!(spans, [(0, 2), (8, 12), (18, 20)]);
        // On the circle it stays one arc.
        let spans: Vec<_> = d.on_circle(10, 100).iter().map(|s| (s.start_ns, s.end_ns)).collect();
        assert_eq!(spans, [(8, 12)]);
        assert_eq!(d.mean_in(0, 20), 3.0 * 8.0 / 20.0);
        assert_eq!(d.mean_in(1, 9), 3.0 * 2.0 / 8.0);
    }

    #[test]
    fn totals_add_up_and_count_the_time_over_capacity() {
        // [0, 4) at 3 of 10 and [2, 6) at 2: 3, 5, 2, 0; above 4 during [2, 4).
        let demands = [Demand::new(&[phase(0, 4, 3)], 10, 0), Demand::new(&[phase(0, 4, 2)], 10, 2)];
        let total = Total::of(&demands, 4, 10, 100);
        let steps: Vec<_> = total.steps.iter().map(|s| (s.start_ns, s.end_ns, s.mean_mbps)).collect();
        assert_eq!(steps, [(0, 2, 3.0), (2, 4, 5.0), (4, 6, 2.0), (6, 10, 0.0)]);
        assert_eq!((total.over_ns, total.peak_mbps), (Some(2), 5.0));
        assert_eq!(total.over_spans(4), [(2, 4)]);
    }

    #[test]
    fn folding_keeps_area_and_peak() {
        let demands = [Demand::new(&[phase(0, 1, 7)], 3, 1), Demand::new(&[phase(1, 2, 5)], 4, 0)];
        let fine = Total::of(&demands, 6, 1_200, 10_000);
        let coarse = Total::of(&demands, 6, 1_200, 10);
        let area = |t: &Total| t.steps.iter().map(|s| s.mean_mbps * (s.end_ns - s.start_ns) as f64).sum::<f64>();
        assert!((area(&fine) - area(&coarse)).abs() < 1e-6);
        assert_eq!(coarse.steps.len(), 10);
        assert_eq!((coarse.peak_mbps, coarse.over_ns), (fine.peak_mbps, fine.over_ns));
        assert!((demands[0].mean_in(0, 1_200) - 7.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_nanosecond_period_in_an_hour_is_cheap() {
        let d = Demand::new(&[phase(0, 1, 8)], 2, 0);
        let spans = d.on_circle(3_600_000_000_000, 360);
        assert_eq!(spans.len(), 1, "every bin has the same mean, so they merge");
        assert!((spans[0].mbps - 4.0).abs() < 1e-9);
        assert_eq!(Total::of(&[d], 6, 3_600_000_000_000, 720).over_ns, None);
    }

    #[test]
    fn the_perimeter_is_the_lcm_when_modest() {
        assert_eq!(common_perimeter([40, 60].into_iter(), 8), Some(120));
        assert_eq!(common_perimeter([255, 255].into_iter(), 8), Some(255));
        assert_eq!(common_perimeter([199, 200].into_iter(), 8), None);
        assert_eq!(common_perimeter([].into_iter(), 8), None);
        assert_eq!(common_perimeter([0, 5].into_iter(), 8), None);
    }

    #[test]
    fn phases_that_make_no_sense_are_left_out() {
        let d = Demand::new(&[phase(5, 5, 9), phase(2, 4, 1), phase(3, 9, 9), phase(8, 99, 9)], 10, 0);
        assert_eq!(d.in_window(10, 10).len(), 1);
        assert!(Demand::new(&[phase(0, 1, 1)], 0, 7).in_window(3, 100).len() == 3);
    }
}
