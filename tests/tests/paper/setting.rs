//! Jobs of the paper on one link of its testbed, with synthesised profiles, because the authors' were not published.

use circle::{Mode, Options, Problem, ProblemBuilder, Rate, Solution, Ticks, solve};
use profile::{Profile, Request, Strategy, find_model, synthesise};

/// A NIC and a link of the testbed (section 5.1).
pub(crate) const LINK: Rate = Rate(50_000);
/// Ranks of a data-parallel job. The paper does not print them; four fits snapshot 1 (docs/profiles.md).
pub(crate) const RANKS: u32 = 4;

/// A job by model and batch; data-parallel ones on `ranks` hosts, model-parallel ones as the zoo splits them.
pub(crate) fn job(model: &str, batch: u64, ranks: u32) -> Profile {
    let model = find_model(model).expect("a model of the zoo");
    let data = model.reference.strategy == Strategy::Data;
    let request =
        Request { ranks: data.then_some(ranks), batch: Some(batch), nic_rate: Some(LINK), gpus_per_host: Some(1), ..Request::default() };
    let setup = request.resolve(model).expect("a setting that fits");
    synthesise(model, &setup.parallelism, &setup.hardware, setup.batch).expect("a setting that is modelled")
}

/// Mean demand over capacity, if all jobs ran as if each were alone: above 1 no shift can help fully.
pub(crate) fn load(jobs: &[Profile]) -> f64 {
    let mean = |j: &Profile| j.bytes_per_iteration().0 as f64 * 8e-6 / j.period().as_millis_f64() * 1e3;
    jobs.iter().map(mean).sum::<f64>() / LINK.0 as f64
}

/// Jobs on one link, each as its busiest NIC sends, in ticks of 1 ns.
pub(crate) fn on_one_link(jobs: &[Profile]) -> Problem {
    with_periods(jobs, &jobs.iter().map(|j| j.period().0).collect::<Vec<_>>())
}

/// The same with other periods: what is sent stays, and the pause at the end grows.
fn with_periods(jobs: &[Profile], periods: &[u64]) -> Problem {
    let mut builder = ProblemBuilder::new();
    let members = jobs.iter().zip(periods).map(|(job, period)| {
        let id = builder.job(Ticks(*period)).expect("a period within limits");
        builder.demand(id, &job.levels().expect("rates within limits")).expect("sorted phases")
    });
    let members = members.collect();
    builder.link(LINK, members).expect("a link with jobs");
    builder.build()
}

/// The proven optimum.
pub(crate) fn exact(problem: &Problem) -> Solution {
    let solution = solve(problem, &Options::default()).expect("within limits");
    assert!(solution.optimality.proven, "small enough for a proof");
    solution
}

/// By the paper's rules.
pub(crate) fn paper_mode(problem: &Problem) -> Solution {
    solve(problem, &Options { mode: Mode::Cassini, ..Options::default() }).expect("a perimeter within 64 bits")
}

/// Largest numerator and denominator of the ratio of two periods that lock.
const RATIO_MAX: u64 = 8;

/// The best exact score with periods stretched, each by at most `percent`, to small ratios of one of them. `None` where no such
/// stretch makes all of them lock.
///
/// The paper's compatible jobs evidently had periods that lock: otherwise its shifts could not have helped. Synthesised periods
/// mostly do not, and this asks what remains of a disagreement once they do. Whether the gain is worth the stretch is another
/// question (`circle::pad`).
pub(crate) fn aligned(jobs: &[Profile], percent: u64) -> Option<f64> {
    let mut best: Option<f64> = None;
    for base in jobs {
        let choices: Vec<Vec<u64>> = jobs.iter().map(|j| stretched(j.period().0, base.period().0, percent)).collect();
        for periods in product(&choices) {
            let score = exact(&with_periods(jobs, &periods)).mean_score;
            best = Some(best.map_or(score, |b| b.max(score)));
        }
    }
    best
}

/// Lengths of at least `period` and at most `percent` more that make a small ratio with `base`.
fn stretched(period: u64, base: u64, percent: u64) -> Vec<u64> {
    if period == base {
        return vec![base];
    }
    let ratios = (1..=RATIO_MAX).flat_map(|p| (1..=RATIO_MAX).map(move |q| (p, q)));
    let lengths = ratios.filter(|(p, q)| (base * p).is_multiple_of(*q)).map(|(p, q)| base * p / q);
    let mut lengths: Vec<u64> = lengths.filter(|l| (period..=period * (100 + percent) / 100).contains(l)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Every choice of one element from each list.
fn product(choices: &[Vec<u64>]) -> Vec<Vec<u64>> {
    choices.iter().fold(vec![Vec::new()], |all, list| {
        all.iter().flat_map(|have| list.iter().map(move |l| have.iter().copied().chain([*l]).collect())).collect()
    })
}

/// What the tables print of a set of jobs.
pub(crate) struct Scores {
    pub(crate) load: f64,
    pub(crate) zero_shift: f64,
    pub(crate) exact: f64,
    /// What the 5-degree grid reports, and what its shifts are worth.
    pub(crate) grid: (f64, f64),
    /// [`aligned`] by at most 5, 10 and 15 %.
    pub(crate) aligned: [Option<f64>; 3],
}

impl Scores {
    pub(crate) fn of(jobs: &[Profile]) -> Self {
        let problem = on_one_link(jobs);
        let (exact, paper) = (exact(&problem), paper_mode(&problem));
        Self {
            load: load(jobs),
            zero_shift: exact.zero_shift_mean_score,
            exact: exact.mean_score,
            grid: (paper.mean_score, paper.links[0].true_score),
            aligned: [5, 10, 15].map(|percent| aligned(jobs, percent)),
        }
    }

    /// Columns as wide as those of [`HEADINGS`].
    pub(crate) fn columns(&self) -> String {
        let aligned = self.aligned.map(|a| a.map_or_else(|| "-".into(), |a| format!("{a:.3}")));
        let [five, ten, fifteen] = aligned;
        format!(
            "{:>5.2} {:>9.3} {:>6.3} {:>6.3} {:>6.3} {five:>6} {ten:>6} {fifteen:>6}",
            self.load, self.zero_shift, self.exact, self.grid.0, self.grid.1
        )
    }
}

/// Headings of [`Scores::columns`].
pub(crate) const HEADINGS: &str = " load unshifted  exact   grid   true    +5%   +10%   +15%";

/// Periods in ms: `258/293`.
pub(crate) fn periods(jobs: &[Profile]) -> String {
    jobs.iter().map(|j| format!("{}", j.period().as_millis_f64())).collect::<Vec<_>>().join("/")
}
