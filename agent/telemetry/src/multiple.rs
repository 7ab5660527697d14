//! Whether what was taken for an iteration is only a part of one.
//!
//! An iteration of two phases that are nearly alike, with gaps that are nearly alike, looks like two iterations that vary. Jitter has no
//! order; parts of an iteration come in turns. So parts that differ by turns, by more than they vary within a turn, are of one iteration.

/// Parts of an iteration that are looked for.
const PARTS_MAX: usize = 6;
/// Parts that come in each turn at least: of fewer, chance differs too.
const TURNS_MIN: usize = 8;
/// How much turns have to differ: variance between them over the variance within. Chance reaches 12 once in a thousand times; starts
/// beside a beat that is kept vary by turns twice as much as those that add up, so it is more.
const DIFFER: f64 = 30.0;
/// Shorter parts are mostly a beat of iterations and readings, which has turns of its own.
const LENGTH_MIN: f64 = 16.0;
/// Turns that differ by fewer steps may do so only because an iteration is no whole number of steps.
const STEPS: f64 = 1.5;
/// Turns that differ by a smaller share of their bytes may do so because a step lies over an edge.
const BYTES: f64 = 0.05;

/// In how many parts one iteration was found, whose parts begin at `starts`, and with which of the first of them an iteration begins:
/// after the longest part, which holds the longest silence.
pub(crate) fn parts(grid: &[f64], starts: &[usize]) -> Option<(usize, usize)> {
    let lengths: Vec<f64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let seen = || starts.windows(2).filter_map(|pair| grid.get(pair[0]..pair[1]));
    let bytes: Vec<f64> = seen().map(|seen| seen.iter().sum()).collect();
    let centre = |seen: &[f64]| {
        let weighed: f64 = seen.iter().enumerate().map(|(at, value)| at as f64 * value.max(0.0)).sum();
        weighed / seen.iter().map(|value| value.max(0.0)).sum::<f64>().max(f64::MIN_POSITIVE)
    };
    let centres: Vec<f64> = seen().map(centre).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    if mean(&lengths) < LENGTH_MIN {
        return None;
    }
    let bytes_apart = (BYTES.max(STEPS / mean(&lengths).max(1.0))) * mean(&bytes).abs();
    let differ = |parts: &usize| {
        [(&lengths, STEPS), (&bytes, bytes_apart), (&centres, STEPS)].into_iter().any(|(values, apart)| by_turns(values, *parts, apart))
    };
    let parts = (2..=PARTS_MAX).find(differ)?;
    let length = |turn: usize| mean(&lengths.iter().skip(turn).step_by(parts).copied().collect::<Vec<_>>());
    let longest = (0..parts).max_by(|a, b| length(*a).total_cmp(&length(*b)).then(b.cmp(a)))?;
    Some((parts, (longest + 1) % parts))
}

/// Whether values differ by turns of so many: by `apart`, and more than by chance.
fn by_turns(values: &[f64], turns: usize, apart: f64) -> bool {
    let (n, k) = (values.len() as f64, turns as f64);
    if values.len() < turns * TURNS_MIN {
        return false;
    }
    let of = |turn: usize| values.iter().skip(turn).step_by(turns).copied();
    let means: Vec<(f64, f64)> =
        (0..turns).map(|turn| (of(turn).sum::<f64>() / of(turn).count() as f64, of(turn).count() as f64)).collect();
    let all = values.iter().sum::<f64>() / n;
    let between = means.iter().map(|(mean, count)| count * (mean - all) * (mean - all)).sum::<f64>() / (k - 1.0);
    let within = (0..turns).map(|turn| of(turn).map(|value| (value - means[turn].0).powi(2)).sum::<f64>()).sum::<f64>() / (n - k);
    let highest = means.iter().map(|(mean, _)| *mean).fold(f64::MIN, f64::max);
    let lowest = means.iter().map(|(mean, _)| *mean).fold(f64::MAX, f64::min);
    highest - lowest > apart && between > DIFFER * within
}
