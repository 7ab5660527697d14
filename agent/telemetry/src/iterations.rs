//! Iterations of a job, found one by one in what a port carried.
//!
//! A job that nobody holds does not keep a beat: each iteration is a little longer or shorter, and after some dozen it is anywhere. So
//! iterations are not folded by a period. They are found: a picture of one is laid over the series where it fits best, at distances that
//! vary by as much as iterations do, by dynamic programming; the mean of what lies under it is the next picture (Woody, "Characterization
//! of an adaptive filter for the analysis of variable latency neuroelectric signals", 1967). What such pictures do not explain is looked at
//! again, for a second job on the port.

use std::collections::BTreeMap;

use realfft::RealFftPlanner;
use units::{Nanos, NodeTime};

use crate::{
    autocorrelation::autocorrelation,
    multiple::parts,
    period::{Aperiodic, CONFIDENCE_MIN, PERIODS_MIN},
    phases::{BusyPhase, accounted, first_phase, phases_of},
    series::Series,
    warp::{Unlike, unlike},
};

/// How far an iteration may be from the mean, as a share: beyond it a job is not periodic.
const STRETCH_MAX: f64 = 0.25;
/// What a distance that is off costs, beside what a picture that fits brings: a twentieth off costs a hundredth.
const STRETCH_COST: f64 = 4.0;
/// Standard deviation of iterations, as a share of their mean, beyond which a job is not periodic.
const JITTER_MAX: f64 = 0.12;
/// Fewer iterations explain too much by chance.
const ITERATIONS_MIN: usize = 12;
/// The share of iterations that may be unlike the others: of two jobs of which one is not found more are.
const UNLIKE_MAX: f64 = 0.2;
/// Where fewer than this are unlike, even faintly, there is one job.
const ALIKE_MIN: f64 = 0.02;
/// What varies by more can be stretched over many a beat of two jobs.
const JITTER_SURE: f64 = 0.06;
/// Where more than this are unlike, even faintly, a second job is looked for.
const FAINTLY_MAX: f64 = 0.35;
/// Times that pictures are laid and made: they were seen to settle within three.
const ROUNDS: usize = 5;
/// The first of them, whose pictures are smeared.
const SMEARED: usize = 2;
/// Shortest iteration in steps.
const STEPS_MIN: usize = 8;
/// Most steps of an iteration for which pictures are laid: a longer one is looked at in coarser steps first.
const STEPS_MAX: usize = 400;
/// From so much autocorrelation of a picture on it is that of several iterations, where one alone would be shorter than `STEPS_MIN`.
const ALIKE: f64 = 0.5;
/// Windows over which a series is smoothed, in steps, while a first period is looked for: short phases that jitter hardly overlap.
const SMOOTHED: [usize; 4] = [1, 4, 12, 36];
/// Least autocorrelation of a candidate; what it is worth is decided by the iterations.
const FIRST_MIN: f64 = 0.2;
/// Candidates of each window: the highest, and the shortest of the others.
const HIGHEST_TRIED: usize = 3;
const SHORTEST_TRIED: usize = 3;
/// Candidates are no nearer to each other than a share of one in so many.
const BESIDE: usize = 20;
/// A mean of n iterations explains this over n of the variance by chance.
const CHANCE: f64 = 2.0;
/// A period this many times longer may be a multiple; it must then explain `MULTIPLE_GAINS` more.
const LONGER: f64 = 1.5;
const MULTIPLE_GAINS: f64 = 0.05;
/// What a part may explain less, where a second job is looked for in what the first leaves: a part is no whole number of steps.
const PART_LOSES: f64 = 0.12;
/// Where one job explains so much, there is no second to be found.
const ONE_EXPLAINS: f64 = 0.9;
/// What two jobs explain more than one, and what they explain at least.
const SECOND_GAINS: f64 = 0.05;
const TWO_MIN: f64 = 0.5;
/// What each of two jobs explains at least of what the other leaves, where one cannot be all.
const CLEARLY_EXPLAINS: f64 = 0.6;
/// The same threshold where more than `FAINTLY_SURE` of the iterations differ faintly.
const FAINTLY_EXPLAINS: f64 = 0.5;
const FAINTLY_SURE: f64 = 0.5;
/// Candidates for the first of two jobs, and for the second in what each leaves.
const FIRSTS_TRIED: usize = 6;
const SECONDS_TRIED: usize = 3;
/// Parts of the period of one of two jobs that are tried: most of what both repeat together is a small multiple.
const PARTS_TRIED: usize = 6;
/// Of more iterations the first and the last do not count.
const ENDS_KEPT: usize = 6;
/// Times that each of two jobs is looked for again in what the other leaves.
const BACK_AND_FORTH: usize = 2;
/// Times that iterations are looked at for being parts of longer ones.
const PARTS_OF_PARTS: usize = 2;
/// Periods that are so near, or so near to a small multiple of each other, are of one job.
const SAME: f64 = 0.01;

/// What was learned of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Mean length of its iterations.
    pub period: Nanos,
    /// Standard deviation of the lengths, as a share of the period.
    pub jitter: f64,
    /// The share of the power of the series that its iterations explain, up to 1.
    pub confidence: f64,
    /// Iterations found.
    pub iterations: usize,
    /// When the port was busy in an iteration. The first phase begins an iteration.
    pub phases: Vec<BusyPhase>,
    /// When the first iteration began.
    pub origin: NodeTime,
}

/// Learns the jobs whose iterations are seen in a series, sampled about every `step`: one, or two of different periods, the one that
/// explains more first.
///
/// # Errors
/// [`Aperiodic`] when none is: a result, not a failure.
pub fn learn_jobs(series: &Series, step: Nanos) -> Result<Vec<Learned>, Aperiodic> {
    // A pause holds many iterations, and bytes spread evenly over it look like another job.
    let (start, grid) = series.unbroken(step).0.grid(step);
    if grid.len() < STEPS_MIN * PERIODS_MIN {
        return Err(Aperiodic::TooShort { steps: grid.len() });
    }
    let candidates = Candidates::of(&grid)?;
    let one = candidates.best(&grid).map(|one| one.whole(&grid));
    let unlike = one.as_ref().map_or(Unlike::ALL, |one| unlike(&grid, &one.starts, one.jitter).unwrap_or(Unlike::ALL));
    // Two jobs explain more than one of them does, and more than a common multiple of their periods, which jitter smears.
    let two = match &one {
        Some(one) if one.starts.len() > ITERATIONS_MIN && one.jitter <= JITTER_SURE && unlike.faintly <= ALIKE_MIN => None,
        Some(one) if one.starts.len() > ITERATIONS_MIN && one.confidence >= ONE_EXPLAINS && unlike.faintly <= FAINTLY_MAX => None,
        _ => candidates.best_two(&grid),
    };
    // Where one job cannot be all, two need not explain more, which the chatter of a weak one never does, but have to be jobs themselves.
    let (gains, least) = match unlike {
        _ if one.as_ref().is_none_or(|one| one.starts.len() <= ITERATIONS_MIN) => (SECOND_GAINS, 0.0),
        Unlike { clearly, .. } if clearly > UNLIKE_MAX => (f64::NEG_INFINITY, CLEARLY_EXPLAINS),
        Unlike { faintly, .. } if faintly > FAINTLY_SURE => (f64::NEG_INFINITY, FAINTLY_EXPLAINS),
        _ => (SECOND_GAINS, 0.0),
    };
    let enough = (one.as_ref().map_or(0.0, Found::worth) + gains).max(TWO_MIN);
    let is_job = |job: &Found| job.starts.len() > ITERATIONS_MIN && job.confidence >= least;
    let are_jobs = |two: &Two| two.worth >= enough && two.jobs.iter().all(is_job);
    if let Some(two) = two.filter(are_jobs) {
        let mut jobs = two.jobs.map(|found| (found.share_of(&grid), found));
        jobs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let [first, second] = jobs.map(|(_, found)| found);
        if let Some(steps) = first.hidden(&without(&grid, &second)).or_else(|| second.hidden(&without(&grid, &first))) {
            return Err(Aperiodic::TooFast { steps });
        }
        return Ok(vec![first.learned(&without(&grid, &second), start, step), second.learned(&without(&grid, &first), start, step)]);
    }
    match one {
        None => Err(Aperiodic::NoPeak { confidence: candidates.highest }),
        Some(one) if one.starts.len() <= ITERATIONS_MIN => Err(Aperiodic::TooFew { iterations: one.starts.len() - 1 }),
        Some(one) if one.jitter > JITTER_MAX => Err(Aperiodic::Uneven { jitter: one.jitter }),
        Some(one) if one.worth() < CONFIDENCE_MIN => Err(Aperiodic::Unexplained { confidence: one.confidence }),
        Some(_) if unlike.clearly > UNLIKE_MAX => Err(Aperiodic::Shared { unlike: unlike.clearly }),
        Some(one) => match one.hidden(&grid) {
            Some(steps) => Err(Aperiodic::TooFast { steps }),
            None => Ok(vec![one.learned(&grid, start, step)]),
        },
    }
}

/// Whether one period is nearly the other, or nearly a small multiple of it.
fn same(a: f64, b: f64) -> bool {
    let (short, long) = (a.min(b), a.max(b));
    let times = (long / short).round();
    (long / (short * times) - 1.0).abs() < SAME
}

/// Iterations of one job in a grid.
#[derive(Clone, Debug)]
struct Found {
    /// In steps.
    period: f64,
    jitter: f64,
    confidence: f64,
    starts: Vec<usize>,
}

/// Periods that a series may have, in steps.
struct Candidates {
    lags: Vec<usize>,
    /// The highest autocorrelation.
    highest: f64,
    longest: usize,
}

/// Two jobs, and what they explain together beyond chance.
struct Two {
    jobs: [Found; 2],
    worth: f64,
}

impl Candidates {
    fn of(grid: &[f64]) -> Result<Self, Aperiodic> {
        let mut planner = RealFftPlanner::new();
        let longest = grid.len() / PERIODS_MIN;
        let mut candidates = Self { lags: Vec::new(), highest: 0.0, longest };
        for window in SMOOTHED.iter().copied().filter(|window| window * STEPS_MIN < longest) {
            let smooth = smoothed(grid, window);
            let correlation = autocorrelation(&mut planner, &smooth, longest + 1).ok_or(Aperiodic::Constant)?;
            let peaks = peaks(&correlation, longest);
            // Two jobs repeat together at a common multiple of their periods, and are higher there than at either.
            let mut by_height = peaks.clone();
            by_height.sort_by(|a, b| b.1.total_cmp(&a.1));
            candidates.add(&by_height, HIGHEST_TRIED);
            candidates.add(&peaks, SHORTEST_TRIED);
        }
        Ok(candidates)
    }

    /// The first `most` of these peaks that are not beside a known lag.
    fn add(&mut self, peaks: &[(usize, f64)], most: usize) {
        let mut added = 0;
        for &(lag, height) in peaks {
            self.highest = self.highest.max(height);
            if added < most && self.lags.iter().all(|known| known.abs_diff(lag) * BESIDE > *known) {
                self.lags.push(lag);
                added += 1;
            }
        }
    }

    /// The iterations that explain most.
    fn best(&self, grid: &[f64]) -> Option<Found> {
        let mut found = self.lags.iter().fold(None, |found, lag| better(found, track(grid, *lag), MULTIPLE_GAINS));
        // Jitter may leave a multiple, or a part, higher than the period itself.
        if let Some(period) = found.as_ref().map(|known| known.period) {
            let others = [0.5, 1.0 / 3.0, 2.0, 3.0].map(|times| (period * times).round() as usize);
            for lag in others.into_iter().filter(|lag| (STEPS_MIN..=self.longest).contains(lag)) {
                found = better(found, track(grid, lag), MULTIPLE_GAINS);
            }
        }
        found
    }

    /// The two jobs that explain most together.
    fn best_two(&self, grid: &[f64]) -> Option<Two> {
        let mut firsts: Vec<Found> = self.lags.iter().filter_map(|lag| track(grid, *lag)).collect();
        firsts.sort_by(|a, b| b.worth().total_cmp(&a.worth()));
        let mut best: Option<(f64, [usize; 2])> = None;
        for first in firsts.iter().take(FIRSTS_TRIED) {
            let rest = without(grid, first);
            // What the first leaves has candidates of its own, which it hid.
            let Ok(others) = Self::of(&rest) else { continue };
            for second in others.lags.iter().take(SECONDS_TRIED).filter_map(|lag| track(&rest, *lag)) {
                let worth = first.worth() + (1.0 - first.confidence) * second.worth();
                if best.is_none_or(|best| worth > best.0) {
                    best = Some((worth, [first.period, second.period].map(|period| period.round() as usize)));
                }
            }
        }
        best.and_then(|(_, [first, second])| both(grid, first, second))
    }
}

/// The iterations of about that period, or of a part of it, which explain as well.
fn shortest(grid: &[f64], known: &Found) -> Option<Found> {
    let lag = |parts: usize| (known.period / parts as f64).round() as usize;
    let parts = (1..=PARTS_TRIED).map(lag).filter(|lag| *lag >= STEPS_MIN);
    parts.fold(None, |found, lag| better(found, track(grid, lag), PART_LOSES)).map(|found| found.whole(grid))
}

/// What the iterations of a job leave unexplained.
fn without(grid: &[f64], job: &Found) -> Vec<f64> {
    grid.iter().zip(job.explained(grid)).map(|(seen, explained)| seen - explained).collect()
}

/// Two jobs of about these periods: each is looked for in what the other leaves.
fn both(grid: &[f64], a: usize, b: usize) -> Option<Two> {
    let mut first = track(grid, a)?;
    let mut second = track(&without(grid, &first), b)?;
    for _ in 0..BACK_AND_FORTH {
        first = shortest(&without(grid, &second), &first)?;
        second = shortest(&without(grid, &first), &second)?;
    }
    if same(first.period, second.period) || first.jitter > JITTER_MAX || second.jitter > JITTER_MAX {
        return None;
    }
    let mean = grid.iter().sum::<f64>() / grid.len().max(1) as f64;
    let rest = without(grid, &first);
    let left: f64 = rest.iter().zip(second.explained(&rest)).map(|(a, b)| (a - b) * (a - b)).sum();
    let power: f64 = grid.iter().map(|value| (value - mean) * (value - mean)).sum();
    let chance = CHANCE / first.starts.len() as f64 + CHANCE / second.starts.len() as f64;
    Some(Two { worth: 1.0 - left / power - chance, jobs: [first, second] })
}

/// Which of two explains more. A multiple explains what the period does, and by chance a little more, so it has to explain much more.
fn better(known: Option<Found>, tried: Option<Found>, gains: f64) -> Option<Found> {
    let (Some(a), Some(b)) = (&known, &tried) else { return known.or(tried) };
    let ahead = match b.period / a.period {
        ratio if ratio > LONGER => gains,
        ratio if ratio * LONGER < 1.0 => -gains,
        _ => 0.0,
    };
    if b.worth() > a.worth() + ahead { tried } else { known }
}

/// The mean of `window` values around each.
fn smoothed(grid: &[f64], window: usize) -> Vec<f64> {
    if window < 2 {
        return grid.to_vec();
    }
    let mut sums = Vec::with_capacity(grid.len() + 1);
    let mut sum = 0.0;
    sums.push(0.0);
    for value in grid {
        sum += value;
        sums.push(sum);
    }
    let mean = |at: usize| {
        let (from, to) = (at.saturating_sub(window / 2), (at + window.div_ceil(2)).min(grid.len()));
        (sums[to] - sums[from]) / (to - from) as f64
    };
    (0..grid.len()).map(mean).collect()
}

/// Lags at which a series is like itself, the shortest first, and how much.
fn peaks(correlation: &[f64], lag_max: usize) -> Vec<(usize, f64)> {
    let is_peak = |&lag: &usize| correlation[lag] >= correlation[lag - 1] && correlation[lag] > correlation[lag + 1];
    // Below the first dip a series is like itself only because it changes slowly.
    let dip = correlation.iter().position(|value| *value <= 0.0).unwrap_or(correlation.len());
    let last = lag_max.min(correlation.len().saturating_sub(2));
    let all = (dip.max(STEPS_MIN)..=last).filter(is_peak).map(|lag| (lag, correlation[lag]));
    all.filter(|peak| peak.1 >= FIRST_MIN).collect()
}

/// Lays pictures of about `lag` steps over the series; `None` where too few iterations come out.
fn track(grid: &[f64], lag: usize) -> Option<Found> {
    // A long iteration is found in coarse steps, and then each start within them.
    let coarse = lag.div_ceil(STEPS_MAX);
    let values: Vec<f64> = grid.chunks_exact(coarse).map(|chunk| chunk.iter().sum::<f64>()).collect();
    let mut period = lag / coarse;
    let mut picture = first_picture(&values, period);
    let mut starts = Vec::new();
    for round in 0..ROUNDS {
        // The first pictures are smeared, and are laid over what is as smooth.
        let seen = smoothed(&values, if round < SMEARED { 1 + period / 24 } else { 1 });
        starts = lay(&seen, &picture, period);
        if starts.len() < PERIODS_MIN {
            return None;
        }
        period = (((starts[starts.len() - 1] - starts[0]) as f64 / (starts.len() - 1) as f64).round() as usize).max(STEPS_MIN);
        picture = mean_picture(&values, &starts, period);
        if (SMEARED..ROUNDS - 1).contains(&round) {
            // Iterations mostly differ in their longest silence. At the end of the picture it keeps no phase from another.
            let begin = after_silence(&picture);
            starts.iter_mut().for_each(|start| *start += begin);
            picture = mean_picture(&values, &starts, period);
        }
    }
    let starts: Vec<usize> = starts.iter().map(|start| start * coarse).collect();
    let starts = if coarse > 1 { refined(grid, &starts, coarse) } else { starts };
    // The first and the last begin where a whole picture still fits, and so may be pushed together.
    let starts = if starts.len() > ENDS_KEPT { starts[1..starts.len() - 1].to_vec() } else { starts };
    if starts.len() < PERIODS_MIN {
        return None;
    }
    Some(Found::at(grid, starts))
}

/// The mean distance of starts: from the first to the last where jitter adds up, and by a line through all (least squares) where starts
/// stay near one, because the two at the ends are then no better than any others.
fn mean_distance(starts: &[usize]) -> f64 {
    let n = starts.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let mean = starts.iter().map(|start| *start as f64).sum::<f64>() / n;
    let beside = |(at, start): (usize, &usize)| (at as f64 - middle, *start as f64 - mean);
    let slope = starts.iter().enumerate().map(beside).map(|(at, start)| at * start).sum::<f64>() / (n * (n * n - 1.0) / 12.0);
    let off = starts.iter().enumerate().map(beside).map(|(at, start)| (start - slope * at) * (start - slope * at)).sum::<f64>() / n;
    let ends = (starts[starts.len() - 1] - starts[0]) as f64 / (n - 1.0);
    let varies = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64 - ends).map(|off| off * off).sum::<f64>() / (n - 1.0);
    // On a beat, distances vary by twice what starts are off; where jitter adds up, starts are off by many times as much.
    if off < varies { slope } else { ends }
}

/// Starts within their coarse steps: where the picture of all fits each one best.
fn refined(grid: &[f64], starts: &[usize], coarse: usize) -> Vec<usize> {
    let period = (starts[starts.len() - 1] - starts[0]) / (starts.len() - 1);
    let picture = mean_picture(grid, starts, period);
    let fit = |start: usize| picture.iter().zip(&grid[start.min(grid.len())..]).map(|(a, b)| a * b).sum::<f64>();
    let best = |start: &usize| {
        let near = start.saturating_sub(coarse)..=start + coarse;
        near.max_by(|a, b| fit(*a).total_cmp(&fit(*b))).unwrap_or(*start)
    };
    let mut refined: Vec<usize> = starts.iter().map(best).collect();
    refined.dedup();
    refined
}

/// The mean of some iterations at equal distances, less its own mean: from where they are most alike.
fn first_picture(values: &[f64], period: usize) -> Vec<f64> {
    let of = |from: usize| {
        let end = (from + 4 * period).min(values.len() / period * period).max(period);
        let starts: Vec<usize> = (from..end).step_by(period).filter(|start| start + period <= values.len()).collect();
        mean_picture(values, &starts, period)
    };
    let power = |picture: &Vec<f64>| picture.iter().map(|value| value * value).sum::<f64>();
    // Where iterations are alike their mean is sharp, and so has most power.
    let windows = (0..values.len().saturating_sub(4 * period)).step_by(2 * period).take(64);
    windows.map(of).max_by(|a, b| power(a).total_cmp(&power(b))).unwrap_or_else(|| of(0))
}

/// The mean of what follows each start, less its own mean.
fn mean_picture(values: &[f64], starts: &[usize], period: usize) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); period];
    for start in starts {
        for (sum, value) in sums.iter_mut().zip(values.get(*start..).unwrap_or_default()) {
            *sum = (sum.0 + value, sum.1 + 1.0);
        }
    }
    let mut picture: Vec<f64> = sums.iter().map(|(sum, count): &(f64, f64)| sum / count.max(1.0)).collect();
    let mean = picture.iter().sum::<f64>() / period.max(1) as f64;
    picture.iter_mut().for_each(|value| *value -= mean);
    picture
}

/// Where in a picture the longest silence ends, a little before.
fn after_silence(picture: &[f64]) -> usize {
    let period = picture.len();
    let busy = |at: usize| picture[at % period] > 0.0;
    let silence = |end: usize| (1..=period).take_while(|back| !busy(end + period - back)).count();
    let ends = (0..period).filter(|at| busy(*at)).map(|at| (silence(at), at));
    // Of equal silences the first, so that rounds do not go to and fro.
    let (length, end) = ends.max_by_key(|(length, at)| (*length, core::cmp::Reverse(*at))).unwrap_or((0, 0));
    (end + period - (length / 2).min(period / 16)) % period
}

/// Starts of iterations at which the picture fits best in sum.
fn lay(values: &[f64], picture: &[f64], period: usize) -> Vec<usize> {
    let last = values.len().saturating_sub(picture.len());
    let power = picture.iter().map(|value| value * value).sum::<f64>().max(f64::MIN_POSITIVE);
    let fit = |start: usize| picture.iter().zip(&values[start..]).map(|(a, b)| a * b).sum::<f64>() / power;
    let fits: Vec<f64> = (0..=last).map(fit).collect();
    let reach = (STRETCH_MAX * period as f64) as usize;
    let (shortest, longest) = ((period - reach).max(1), period + reach);
    // The best sum that ends with a start here, and the start before it.
    let mut sums: Vec<(f64, Option<usize>)> = Vec::with_capacity(fits.len());
    for (at, fit) in fits.iter().enumerate() {
        let mut best = (0.0, None);
        for distance in shortest..=longest.min(at) {
            let off = (distance as f64 - period as f64) / period as f64;
            let sum = sums[at - distance].0 - STRETCH_COST * off * off;
            if best.1.is_none() || sum > best.0 {
                best = (sum, Some(at - distance));
            }
        }
        sums.push((best.0 + fit, best.1));
    }
    // The last start is within one iteration of the end.
    let from = sums.len().saturating_sub(longest);
    let end = (from..sums.len()).max_by(|a, b| sums[*a].0.total_cmp(&sums[*b].0));
    let mut starts: Vec<usize> = core::iter::successors(end, |at| sums[*at].1).collect();
    starts.reverse();
    starts
}

impl Found {
    /// Iterations that begin at these starts.
    fn at(grid: &[f64], starts: Vec<usize>) -> Self {
        let lengths = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
        let period = mean_distance(&starts);
        let variance = lengths.map(|length| (length - period) * (length - period)).sum::<f64>() / (starts.len() - 1).max(1) as f64;
        let mut found = Self { period, jitter: variance.sqrt() / period, confidence: 0.0, starts };
        found.confidence = found.explains(grid);
        found
    }

    /// The iterations of which these are only parts, or these.
    fn whole(self, grid: &[f64]) -> Self {
        let mut found = self;
        // A part may be a part of a part.
        for _ in 0..PARTS_OF_PARTS {
            let Some((parts, first)) = parts(grid, &found.starts) else { break };
            let starts: Vec<usize> = found.starts.iter().skip(first).step_by(parts).copied().collect();
            if starts.len() < PERIODS_MIN {
                break;
            }
            found = Self::at(grid, starts);
        }
        found
    }

    /// What the iterations explain beyond chance.
    fn worth(&self) -> f64 {
        self.confidence - CHANCE / self.starts.len() as f64
    }

    /// The mean iteration, by step.
    fn levels(&self, grid: &[f64]) -> Vec<f64> {
        let longest = self.starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for pair in self.starts.windows(2) {
            for (at, value) in grid[pair[0]..pair[1]].iter().enumerate() {
                let sum = sums.entry(at).or_default();
                *sum = (sum.0 + value, sum.1 + 1.0);
            }
        }
        (0..longest).map(|at| sums.get(&at).map_or(0.0, |(sum, count)| sum / count)).collect()
    }

    /// What the iterations say of each step; their mean outside of them.
    fn explained(&self, grid: &[f64]) -> Vec<f64> {
        let mean = grid.iter().sum::<f64>() / grid.len().max(1) as f64;
        let levels = self.levels(grid);
        let mut explained = vec![mean; grid.len()];
        for pair in self.starts.windows(2) {
            explained[pair[0]..pair[1]].iter_mut().zip(&levels).for_each(|(value, level)| *value = *level);
        }
        explained
    }

    /// The share of the power that the iterations explain, where they are.
    fn explains(&self, grid: &[f64]) -> f64 {
        let (Some(first), Some(last)) = (self.starts.first(), self.starts.last()) else { return 0.0 };
        let (seen, explained) = (&grid[*first..*last], &self.explained(grid)[*first..*last]);
        let mean = seen.iter().sum::<f64>() / seen.len().max(1) as f64;
        let power: f64 = seen.iter().map(|value| (value - mean) * (value - mean)).sum();
        let left: f64 = seen.iter().zip(explained).map(|(a, b)| (a - b) * (a - b)).sum();
        if power > 0.0 { (1.0 - left / power).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Steps of the iterations of which each picture holds several: parts of the period that are too short to be tried, and that look alike.
    fn hidden(&self, grid: &[f64]) -> Option<usize> {
        let mut levels = self.levels(grid);
        levels.truncate((self.period.round() as usize).max(1));
        let (length, mean) = (levels.len(), levels.iter().sum::<f64>() / levels.len() as f64);
        levels.iter_mut().for_each(|level| *level -= mean);
        let alike = |lag: usize| (0..length).map(|at| levels[at] * levels[(at + lag) % length]).sum::<f64>();
        let power = alike(0);
        // A long phase is like itself a little later too, and more so half as late; iterations are not.
        let looks_alike = |lag: &usize| power > 0.0 && alike(*lag) > ALIKE * power && alike(*lag / 2) < ALIKE * alike(*lag);
        (2..=PARTS_TRIED).find_map(|parts| {
            // A part is seldom a whole number of steps.
            let part = self.period / parts as f64;
            let lags = [part.floor() as usize, part.ceil() as usize];
            lags.into_iter().filter(|lag| part < STEPS_MIN as f64 && (2..length).contains(lag)).find(looks_alike)
        })
    }

    /// The share of a grid's power that is explained.
    fn share_of(&self, grid: &[f64]) -> f64 {
        let explained = self.explained(grid);
        let mean = explained.iter().sum::<f64>() / explained.len().max(1) as f64;
        explained.iter().map(|value| (value - mean) * (value - mean)).sum()
    }

    fn learned(&self, grid: &[f64], start: NodeTime, step: Nanos) -> Learned {
        let mut levels = self.levels(grid);
        levels.truncate((self.period.round() as usize).max(1));
        // What the first job leaves may be below nothing.
        let lowest = levels.iter().copied().fold(0.0, f64::min);
        levels.iter_mut().for_each(|level| *level -= lowest);
        let grid: Vec<f64> = grid.iter().map(|value| value - lowest).collect();
        let period = Nanos((self.period * step.0 as f64).round() as u64);
        let mut phases = phases_of(&grid, &self.starts, &levels, step, period);
        let confidence = self.confidence * accounted(&levels, &phases, step, period);
        let first = first_phase(&phases, step, period);
        phases.iter_mut().for_each(|phase| phase.start = Nanos((phase.start.0 + period.0 - first) % period.0.max(1)));
        phases.sort_by_key(|phase| phase.start);
        let begin = self.starts.first().map_or(0, |start| *start as u64 * step.0);
        Learned {
            period,
            jitter: self.jitter,
            confidence,
            iterations: self.starts.len() - 1,
            phases,
            origin: NodeTime(start.0 + begin + first),
        }
    }
}
