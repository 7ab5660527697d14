//! One link, one scenario: the solver against an exhaustive 5-degree search, in one run.
//!
//! `make bench` runs it on the golden cases; `ANTIPHASE_CASES=DIR` brings others. Read the medians.

use std::{fs, path::PathBuf, sync::LazyLock};

use antiphase_circle::{Mode, Options, Phase, Problem, ProblemBuilder, Rate, Ticks, scenario::Scenario, solve};
use divan::{Bencher, black_box};

#[path = "../tests/oracle/mod.rs"]
mod oracle;

fn main() {
    divan::main();
}

struct Case {
    name: String,
    jobs: usize,
    problem: Problem,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let root = std::env::var_os("ANTIPHASE_CASES")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden"), PathBuf::from);
    let mut cases = Vec::new();
    for suite in ["single", "tree", "loop"] {
        let mut files: Vec<PathBuf> =
            fs::read_dir(root.join(suite)).into_iter().flatten().filter_map(Result::ok).map(|f| f.path()).collect();
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file).expect("case");
            let problem = Scenario::parse(&text).expect("scenario").problem;
            let name = format!("{suite}/{}", file.file_stem().expect("name").to_string_lossy());
            cases.push(Case { name, jobs: problem.periods().len(), problem });
        }
    }
    cases
});

fn named(jobs: usize) -> Vec<&'static str> {
    CASES.iter().filter(|c| c.jobs == jobs && c.name.starts_with("single")).map(|c| &c.name[..]).collect()
}

fn multi() -> Vec<&'static str> {
    CASES.iter().filter(|c| !c.name.starts_with("single")).map(|c| &c.name[..]).collect()
}

fn run(bencher: Bencher<'_, '_>, name: &str, options: Options) {
    let case = CASES.iter().find(|c| c.name == name).expect("case");
    bencher.bench(|| solve(black_box(&case.problem), &options));
}

#[divan::bench(args = named(2))]
fn exact_2_jobs(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, Options::default());
}

/// Two jobs of so many phases each, cut at random ticks of 250 ms, on one link.
fn many_phases(bencher: Bencher<'_, '_>, phases: usize, ticks_per_us: u64) {
    let (period, mut random) = (250_000 * ticks_per_us, oracle::Random(0x2b));
    let mut b = ProblemBuilder::new();
    let members = (0..2)
        .map(|_| {
            let mut cuts: Vec<u64> = (0..2 * phases).map(|_| random.range(0, period - 1)).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let phase = |cut: &[u64]| Phase { start: Ticks(cut[0]), end: Ticks(cut[1]), rate: Rate(random.range(1, 5) * 20) };
            let job = b.job(Ticks(period)).expect("period");
            b.demand(job, &cuts.chunks_exact(2).map(phase).collect::<Vec<_>>()).expect("demand")
        })
        .collect();
    b.link(Rate(100), members).expect("link");
    let problem = b.build();
    bencher.bench(|| solve(black_box(&problem), &Options::default()));
}

#[divan::bench(args = [100, 400, 1_000], sample_count = 10)]
fn exact_2_jobs_of_many_phases_in_microseconds(bencher: Bencher<'_, '_>, phases: usize) {
    many_phases(bencher, phases, 1);
}

#[divan::bench(args = [100, 400, 1_000], sample_count = 10)]
fn exact_2_jobs_of_many_phases_in_nanoseconds(bencher: Bencher<'_, '_>, phases: usize) {
    many_phases(bencher, phases, 1_000);
}

#[divan::bench(args = named(3))]
fn exact_3_jobs(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, Options::default());
}

#[divan::bench(args = named(4))]
fn exact_4_jobs(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, Options::default());
}

#[divan::bench(args = named(5))]
fn exact_5_jobs(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, Options::default());
}

#[divan::bench(args = multi())]
fn exact_several_links(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, Options::default());
}

/// The paper's grid by branch and bound.
#[divan::bench(args = named(4))]
fn paper_mode_4_jobs(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, Options { mode: Mode::Cassini, ..Options::default() });
}

/// The paper's grid as published solvers walk it: every rotation of every job.
#[divan::bench(args = named(4), sample_count = 3, sample_size = 1)]
fn baseline_exhaustive_5_degrees_4_jobs(bencher: Bencher<'_, '_>, name: &str) {
    let problem = &CASES.iter().find(|c| c.name == name).expect("case").problem;
    let members = problem.links()[0]
        .members
        .iter()
        .map(|m| (m.job.index(), problem.phases(m.demand).iter().map(|p| (p.start.0, p.end.0, p.rate.0)).collect()))
        .collect();
    let instance = oracle::Instance {
        periods: problem.periods().iter().map(|t| t.0).collect(),
        links: vec![(problem.links()[0].capacity.0, members)],
    };
    bencher.bench(|| black_box(&instance).grid5());
}

/// `jobs` jobs on one link, each up for a share of its period.
fn one_link(periods: &[u64], duty_percent: u64) -> Problem {
    let mut b = ProblemBuilder::new();
    let members = periods
        .iter()
        .map(|&t| {
            let job = b.job(Ticks(t)).expect("period");
            let up = Phase { start: Ticks(t - t * duty_percent / 100), end: Ticks(t), rate: Rate(45_000) };
            b.demand(job, &[up]).expect("demand")
        })
        .collect();
    b.link(Rate(50_000), members).expect("link");
    b.build()
}

/// Two microsecond periods without a common factor: LCM 4 * 10^10 ticks.
#[divan::bench]
fn exact_2_jobs_lcm_4e10(bencher: Bencher<'_, '_>) {
    let problem = one_link(&[200_003, 200_009], 40);
    bencher.bench(|| solve(black_box(&problem), &Options::default()));
}

/// Five nanosecond periods, pairwise coprime: an LCM of about 10^42 ticks.
#[divan::bench]
fn exact_5_jobs_pairwise_coprime_ns(bencher: Bencher<'_, '_>) {
    let problem = one_link(&[255_000_007, 148_000_003, 310_000_013, 97_000_003, 203_000_011], 30);
    bencher.bench(|| solve(black_box(&problem), &Options::default()));
}

/// 64 jobs on one link: heuristic with a stated bound.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn bounded_64_jobs(bencher: Bencher<'_, '_>) {
    let problem = one_link(&[240; 64], 2);
    bencher.bench(|| solve(black_box(&problem), &Options::default()));
}
