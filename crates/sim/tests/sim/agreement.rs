//! The simulator and the planner's steady-state model are two programs for one thing: where both apply, they agree.
//!
//! A job here demands the same of all its links. Where it does not, they count its share by different links (docs/calibration.md).

use antiphase_sim::{Case, Config, Control, JobReport, SimJob, direct_slots, run};
use fabric::{
    Fabric,
    route::{Ecmp, Router},
};
use fluid::{ITERATIONS_MAX, WARM_UP_ITERATIONS, jitter::JITTER_PERMILLE};
use job::Candidate;
use plan::{Cluster, JobTimes, Options, evaluate};
use proptest::prelude::*;
use units::{Nanos, Rate};

use crate::cases::*;

fn predicted(router: &Router<'_>, jobs: &[SimJob]) -> Vec<JobTimes> {
    // Both without jitter: what is compared are two programs, and jitter would differ in each.
    predicted_under(router, jobs, 0)
}

fn predicted_under(router: &Router<'_>, jobs: &[SimJob], jitter_permille: u32) -> Vec<JobTimes> {
    let (planned, placements): (Vec<_>, Vec<_>) = jobs.iter().map(|j| (j.job.clone(), j.placement.clone())).unzip();
    let cluster = Cluster { fabric: router.fabric(), router, jobs: &planned, placements: &placements };
    let options = Options { jitter_permille, ..Options::default() };
    let evaluation = evaluate(&cluster, &Candidate::default(), &options).unwrap();
    evaluation.jobs(&cluster).iter().map(|j| j.times.unwrap()).collect()
}

/// Means of a case in ns, over the spans that the model may have taken: a hundred iterations and more, when its state
/// recurs early; else the starts from the 8th to the 24th of the slowest job. That is the first of the slowest jobs that
/// hang together, so every job is tried.
fn simulated(router: &Router<'_>, jobs: &[SimJob], control: &Control) -> Vec<Vec<f64>> {
    let config = Config { warm_up: 100, iterations: 200, control: control.clone(), ..Config::default() };
    let report = run(&Case { router, jobs }, &config).unwrap();
    let mut spans = vec![report.jobs.iter().map(|j| j.iteration.mean).collect()];
    for slowest in &report.jobs {
        let (from, to) = (slowest.records[WARM_UP_ITERATIONS].start, slowest.records[ITERATIONS_MAX].start);
        let span = |j: &JobReport| {
            let last = |t: Nanos| j.records.partition_point(|r| r.start <= t).saturating_sub(1);
            (j.records[last(to)].start.0 - j.records[last(from)].start.0) as f64 / (last(to) - last(from)) as f64
        };
        spans.push(report.jobs.iter().map(span).collect());
    }
    spans
}

/// The simulator's means and the predictions differ by less than 1 %.
fn compare(fabric: &Fabric, jobs: &[SimJob]) -> Result<(), TestCaseError> {
    let router = Router::new(fabric, Ecmp::Spread, &[]).unwrap();
    let predicted = predicted(&router, jobs);
    let agree = |jobs: &[SimJob], control: &Control, expected: &[Nanos], what: &str| {
        let windows = simulated(&router, jobs, control);
        let near = |got: &Vec<f64>| got.iter().zip(expected).all(|(g, e)| (g / e.0 as f64 - 1.0).abs() < 0.01);
        prop_assert!(windows.iter().any(near), "{what}: simulated {windows:?} predicted {expected:?}");
        Ok(())
    };
    let times = |of: fn(&JobTimes) -> Nanos| predicted.iter().map(of).collect::<Vec<_>>();
    agree(jobs, &Control::Free, &times(|t| t.contended), "free")?;
    for (job, times) in jobs.iter().zip(&predicted) {
        agree(core::slice::from_ref(job), &Control::Free, &[times.solo], "alone")?;
    }
    // The two gates differ in what they do about slips: the production gate knows no missed slots, only the next one.
    if predicted.iter().all(|t| t.all_held.unwrap().slips == 0.0) {
        let mut slots = direct_slots(&Case { router: &router, jobs }, &Options::default()).unwrap();
        slots.iter_mut().for_each(|s| s.hold = true);
        let begun: Vec<SimJob> = jobs.iter().zip(&slots).map(|(j, s)| SimJob { begins: s.times.offset, ..j.clone() }).collect();
        agree(&begun, &Control::Direct(slots), &times(|t| t.all_held.unwrap().time), "held")?;
    }
    Ok(())
}

/// (rate in % of the NIC, communication in ms, compute in ms)
fn load(period: u64) -> impl Strategy<Value = (u64, u64, u64)> {
    (30_u64..=100, 10..=period - 10).prop_map(move |(rate, comm)| (rate, comm, period - comm))
}

fn job(fabric: &Fabric, name: &str, hosts: &[&str], (rate, comm, compute): (u64, u64, u64)) -> SimJob {
    ring_at(fabric, name, hosts, Rate(rate), comm * MS, compute * MS)
}

proptest! {
    #[test]
    fn two_jobs_on_one_link(a in load(200), b in load(200)) {
        let fabric = star(2, 100);
        compare(&fabric, &[job(&fabric, "a", &["h1", "h3"], a), job(&fabric, "b", &["h2", "h4"], b)])?;
    }

    #[test]
    fn one_to_two_on_one_link(a in load(100), b in load(200)) {
        let fabric = star(2, 100);
        compare(&fabric, &[job(&fabric, "a", &["h1", "h3"], a), job(&fabric, "b", &["h2", "h4"], b)])?;
    }

    #[test]
    fn three_jobs_on_one_link(a in load(200), b in load(200), c in load(200)) {
        let fabric = star_of(2, 3, 100);
        let jobs = [job(&fabric, "a", &["h1", "h4"], a), job(&fabric, "b", &["h2", "h5"], b), job(&fabric, "c", &["h3", "h6"], c)];
        compare(&fabric, &jobs)?;
    }

    #[test]
    fn three_on_two_links(a in load(200), b in load(200), c in load(200)) {
        let fabric = star(4, 100);
        let jobs = [job(&fabric, "a", &["h1", "h3"], a), job(&fabric, "b", &["h4", "h5"], b), job(&fabric, "c", &["h6", "h7"], c)];
        compare(&fabric, &jobs)?;
    }

    /// The links of a leaf have three jobs and those of another two, of which one is in both: what it leaves over is handed on.
    #[test]
    fn four_on_links_that_hand_on(a in load(200), b in load(200), c in load(200), d in load(200)) {
        let fabric = star_of(4, 3, 100);
        let at = |name: &str, hosts: [&str; 2], load| job(&fabric, name, &hosts, load);
        compare(&fabric, &[at("a", ["h1", "h4"], a), at("b", ["h2", "h5"], b), at("c", ["h3", "h7"], c), at("d", ["h8", "h10"], d)])?;
    }

    #[test]
    fn three_in_a_loop(a in load(200), b in load(200), c in load(200)) {
        let fabric = star(3, 100);
        let jobs = [job(&fabric, "a", &["h1", "h3"], a), job(&fabric, "b", &["h4", "h5"], b), job(&fabric, "c", &["h6", "h2"], c)];
        compare(&fabric, &jobs)?;
    }
}

/// Under jitter both programs leave the state in which a chain is in step, though they draw from different distributions; at first
/// and later (docs/model.md, section 13).
#[test]
fn a_chain_under_jitter_is_predicted() {
    let fabric = star(4, 100);
    let at = |name: &str, hosts: [&str; 2]| job(&fabric, name, &hosts, (90, 149, 200));
    let jobs = [at("a", ["h1", "h3"]), at("b", ["h4", "h5"]), at("c", ["h6", "h7"])];
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let predicted = predicted_under(&router, &jobs, JITTER_PERMILLE);
    let in_step = predicted_under(&router, &jobs, 0);
    let mean = |iterations: u64, seeds: u64| {
        let mut sums = [0.0; 3];
        for seed in 1..=seeds {
            let config = Config { seed, iterations, jitter_permille: JITTER_PERMILLE, ..Config::default() };
            let report = run(&Case { router: &router, jobs: &jobs }, &config).unwrap();
            sums.iter_mut().zip(&report.jobs).for_each(|(sum, j)| *sum += j.iteration.mean / seeds as f64);
        }
        sums
    };
    for simulated in [mean(60, 32), mean(4_000, 2)] {
        for ((simulated, times), exact) in simulated.iter().zip(&predicted).zip(&in_step) {
            let off = simulated / times.contended.0 as f64 - 1.0;
            assert!(off.abs() < 0.02, "{simulated} is not {}", times.contended.0);
            assert!(*simulated < exact.contended.0 as f64, "{simulated}: in step for ever");
        }
        // What a prediction without jitter would miss.
        assert!(simulated[0] < 0.98 * in_step[0].contended.0 as f64, "{simulated:?}");
    }
}
