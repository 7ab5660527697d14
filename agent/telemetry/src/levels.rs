//! The rates of an iteration and when it changes between them, read off iteration by iteration.
//!
//! Jitter smears every edge of the mean iteration, and a smeared edge cannot be told from a phase at a middle rate. In each single
//! iteration edges are sharp, so each is cut into levels by itself, and of the cuts the middle ones count.

/// Levels nearer to each other than this share of the highest are one: TCP and drivers vary by about as much within a phase.
const APART: f64 = 0.12;
/// Levels that differ by less than so many standard deviations of the noise are one.
const OUT_OF_NOISE: f64 = 3.0;
/// Noise beyond this share of the highest level hides levels altogether.
const NOISE_MAX: f64 = 0.2;
/// From this share of the highest level on a port is busy: acknowledgements and chatter are some hundredths.
const BUSY: f64 = 0.08;
/// A phase lasts so many steps at least; the edges of shorter ones are most of them.
const LASTS: f64 = 2.5;
/// Most iterations split into levels. Their median has a tenth of one iteration's error.
const CUT_MAX: usize = 128;
/// The share of iterations that have to show as many phases as are answered.
const ALIKE: f64 = 0.5;
/// Fewer iterations give no reliable median.
const CUTS_MIN: usize = 4;

/// A part of an iteration at one rate, in steps from the begin of the iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// May be below 0: the end of the iteration before.
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// Per step.
    pub(crate) value: f64,
}

/// The busy levels of the iterations that begin at `starts`, whose mean by step is `mean`; `None` where iterations do not agree.
pub(crate) fn busy_levels(grid: &[f64], starts: &[usize], mean: &[f64]) -> Option<Vec<Level>> {
    let highest = mean.iter().copied().fold(0.0, f64::max);
    let noise = noise(grid, highest)?;
    let apart = (APART * highest).max(OUT_OF_NOISE * noise);
    let every = (starts.len().saturating_sub(1)).div_ceil(CUT_MAX).max(1);
    let iterations = starts.windows(2).step_by(every).filter_map(|pair| grid.get(pair[0]..pair[1]));
    let cuts: Vec<Vec<Level>> = iterations.map(|seen| busy_of(cut(seen, apart), seen.len(), BUSY * highest, apart)).collect();
    let most = cuts.iter().map(Vec::len).max().unwrap_or(0);
    let agreeing = |count: usize| cuts.iter().filter(|cut| cut.len() == count).count();
    let count = (1..=most).max_by_key(|count| (agreeing(*count), core::cmp::Reverse(*count)))?;
    let alike: Vec<&Vec<Level>> = cuts.iter().filter(|cut| cut.len() == count).collect();
    if alike.len() < CUTS_MIN || (alike.len() as f64) < ALIKE * cuts.len() as f64 {
        return None;
    }
    let level = |at: usize| {
        let of = |what: &dyn Fn(&Level) -> f64| middle(alike.iter().filter_map(|cut| cut.get(at)).map(what).collect());
        Level { start: of(&|level| level.start), end: of(&|level| level.end), value: of(&|level| level.value) }
    };
    let levels: Vec<Level> = (0..count).map(level).collect();
    levels.iter().all(|level| level.end - level.start >= LASTS).then_some(levels)
}

/// The standard deviation of the noise where the port is busy; `None` where it hides levels.
fn noise(grid: &[f64], highest: f64) -> Option<f64> {
    let busy = |pair: &&[f64]| pair.iter().all(|value| *value > 0.3 * highest);
    let changes: Vec<f64> = grid.windows(2).filter(busy).map(|pair| (pair[1] - pair[0]).abs()).collect();
    // The middle of what two normal values differ by is 0.95 of their standard deviation; edges are too few to move it.
    let noise = middle(changes) / 0.95;
    (noise <= NOISE_MAX * highest).then_some(noise)
}

/// The middle of some numbers; 0 of none.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Cuts an iteration where it leaves its level for two steps or more.
fn cut(seen: &[f64], apart: f64) -> Vec<Level> {
    let mut firsts = vec![0];
    let (mut sum, mut count) = (0.0, 0.0);
    for (at, value) in seen.iter().enumerate() {
        let level: f64 = if count > 0.0 { sum / count } else { *value };
        let leaves = |value: &f64| (value - level).abs() > apart;
        if count > 0.0 && leaves(value) && seen.get(at + 1).is_some_and(leaves) {
            firsts.push(at);
            // The step in which the level changes belongs to both.
            (sum, count) = (0.0, 0.0);
        } else if !leaves(value) && firsts.last() != Some(&at) {
            (sum, count) = (sum + value, count + 1.0);
        } else if at == 0 {
            (sum, count) = (*value, 1.0);
        }
    }
    let ends = firsts.iter().skip(1).copied().chain([seen.len()]);
    let spans: Vec<(usize, usize)> = firsts.iter().copied().zip(ends).collect();
    let values: Vec<f64> = spans.iter().map(|&(first, end)| within(&seen[first..end])).collect();
    let edge = |at: usize| {
        let (first, before, after) = (spans[at].0, values[at - 1], values[at]);
        let near = first.saturating_sub(1)..(first + 2).min(seen.len());
        let end = near.end as f64;
        // So many of the steps around it are of the level after it, by bytes.
        end - near.map(|step| ((seen[step] - before) / (after - before)).clamp(0.0, 1.0)).sum::<f64>()
    };
    let edges: Vec<f64> = (1..spans.len()).map(edge).collect();
    let start = |at: usize| if at == 0 { 0.0 } else { edges[at - 1] };
    let end = |at: usize| edges.get(at).copied().unwrap_or(seen.len() as f64);
    values.iter().enumerate().map(|(at, value)| Level { start: start(at), end: end(at), value: *value }).collect()
}

/// The middle of a stretch, without its ends where it is long enough to have any.
fn within(stretch: &[f64]) -> f64 {
    let inner = if stretch.len() > 2 { &stretch[1..stretch.len() - 1] } else { stretch };
    middle(inner.to_vec())
}

/// The busy ones of the levels of an iteration of so many steps; two beside each other that are alike are one, also over the end.
fn busy_of(levels: Vec<Level>, steps: usize, busy: f64, apart: f64) -> Vec<Level> {
    let mut found: Vec<Level> = Vec::with_capacity(levels.len());
    for level in levels.into_iter().filter(|level| level.value > busy) {
        match found.last_mut() {
            Some(last) if last.end >= level.start && (last.value - level.value).abs() <= apart => *last = joined(*last, level),
            _ => found.push(level),
        }
    }
    let steps = steps as f64;
    if let (true, Some(first), Some(last)) = (found.len() > 1, found.first().copied(), found.last().copied())
        && first.start <= 0.0
        && last.end >= steps
        && (first.value - last.value).abs() <= apart
    {
        found[0] = joined(Level { start: last.start - steps, end: 0.0, ..last }, first);
        found.pop();
    }
    found
}

/// Two levels beside each other as one.
fn joined(a: Level, b: Level) -> Level {
    let (long, short) = (a.end - a.start, b.end - b.start);
    let all = (long + short).max(f64::MIN_POSITIVE);
    Level { start: a.start, end: b.end, value: (a.value * long + b.value * short) / all }
}
