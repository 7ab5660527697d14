//! Jobs that take turns: the gates, agents and the service's side of turns of production.

use antiphase_sim::{Case, Config, Control, Liar, Report, SimJob, Transport, TurnsControl, Way, planned_groups, turn_groups};
use fabric::{
    Fabric,
    route::{Ecmp, Router},
};
use units::Nanos;

use crate::cases::*;

/// Of the worst job at 5 % jitter. Five jobs at a load of 0.93 need more than the 2 % that the others stay below.
const NOISY_MAX: f64 = 1.04;

/// A case whose score is 1, and the name for it.
pub(crate) struct Fits {
    pub(crate) name: &'static str,
    pub(crate) fabric: Fabric,
    pub(crate) jobs: Vec<SimJob>,
}

/// Cases in which nobody would have to be slower than alone.
pub(crate) fn cases_that_fit() -> Vec<Fits> {
    let pair = star(2, 100);
    let chain = star(4, 100);
    let triangle = star(3, 100);
    let wide = star_of(2, 5, 100);
    let long = star(5, 100);
    let equal = |f: &Fabric, names: &[&str], hosts: &[[&str; 2]], up, down| -> Vec<SimJob> {
        names.iter().zip(hosts).map(|(name, hosts)| ring(f, name, hosts, up, down)).collect()
    };
    let of = |name, fabric: &Fabric, jobs| Fits { name, fabric: fabric.clone(), jobs };
    vec![
        of("two equal", &pair, equal(&pair, &["a", "b"], &[["h1", "h3"], ["h2", "h4"]], 100, 130)),
        of("three on two links", &chain, equal(&chain, &["a", "b", "c"], &[["h1", "h3"], ["h4", "h5"], ["h6", "h7"]], 130, 200)),
        of("three in a loop", &triangle, equal(&triangle, &["a", "b", "c"], &[["h1", "h3"], ["h4", "h5"], ["h6", "h2"]], 90, 260)),
        of("one to two", &pair, vec![ring(&pair, "a", &["h1", "h3"], 50, 160), ring(&pair, "b", &["h2", "h4"], 100, 320)]),
        of(
            "five on a link",
            &wide,
            equal(&wide, &["a", "b", "c", "d", "e"], &[["h1", "h6"], ["h2", "h7"], ["h3", "h8"], ["h4", "h9"], ["h5", "h10"]], 50, 220),
        ),
        of(
            "chain of four",
            &long,
            equal(&long, &["a", "b", "c", "d"], &[["h1", "h3"], ["h4", "h5"], ["h6", "h7"], ["h8", "h9"]], 130, 180),
        ),
    ]
}

pub(crate) fn by_turns(fabric: &Fabric, jobs: &[SimJob], control: TurnsControl, config: &Config) -> Report {
    let router = Router::new(fabric, Ecmp::Spread, &[]).unwrap();
    let groups = turn_groups(&Case { router: &router, jobs }, 1_000, true).unwrap();
    play(fabric, jobs, &Config { control: Control::Turns(TurnsControl { groups, ..control }), ..config.clone() })
}

/// Mean over the jobs of iteration over solo, the same of the worst, and the largest overlap of a link.
pub(crate) fn over_solo(report: &Report, jobs: &[SimJob]) -> (f64, f64, f64) {
    let ratios = report.jobs.iter().zip(jobs).map(|(r, j)| r.iteration.mean / j.workload.unhindered().0 as f64);
    let (sum, worst) = ratios.fold((0.0, 0.0_f64), |(sum, worst), x| (sum + x, worst.max(x)));
    (sum / jobs.len() as f64, worst, report.links.iter().map(|l| l.overlap_share).fold(0.0, f64::max))
}

fn after(delay: u64, loss_permille: u32) -> TurnsControl {
    let way = Way { delay: Nanos(delay), loss_permille, ..TurnsControl::default().way };
    TurnsControl { way, ..TurnsControl::default() }
}

/// Prints the table of docs/calibration.md: mean iteration over solo and overlap.
#[test]
fn who_fits_runs_as_if_alone() {
    for case in cases_that_fit() {
        let (fabric, jobs) = (&case.fabric, &case.jobs[..]);
        let config = Config { warm_up: 20, iterations: 400, jitter_permille: 20, ..Config::default() };
        let jitter = Config { jitter_permille: 50, ..config.clone() };
        let Control::Direct(shifts) = slots(fabric, jobs, 0) else { unreachable!() };
        let drift = Config { control: Control::Drift(shifts), ..config.clone() };
        let mltcp = Config { transport: Transport::Mltcp, ..config.clone() };
        let default = TurnsControl::default;
        let rows = [
            ("free", play(fabric, jobs, &config)),
            ("mltcp", play(fabric, jobs, &mltcp)),
            ("drift", play(fabric, jobs, &drift)),
            ("slots", held(fabric, jobs, 50, &config)),
            ("turns", by_turns(fabric, jobs, default(), &config)),
            ("turns, 5 % jitter", by_turns(fabric, jobs, default(), &jitter)),
            ("10 % lost", by_turns(fabric, jobs, after(100_000, 100), &config)),
            ("1 ms", by_turns(fabric, jobs, after(MS, 0), &config)),
            ("2 ms", by_turns(fabric, jobs, after(2 * MS, 0), &config)),
            ("5 ms", by_turns(fabric, jobs, after(5 * MS, 0), &config)),
        ];
        let found = rows.map(|(name, report)| (name, over_solo(&report, jobs)));
        println!("{}", case.name);
        found.iter().for_each(|(name, (mean, worst, overlap))| println!("  {name:<18} {mean:.3} worst {worst:.3} overlap {overlap:.3}"));
        let [free, _, _, slot, turns, noisy, lost, one, two, five] = found.map(|(_, (_, worst, overlap))| (worst, overlap));
        // Five at a load of 0.93 wait for more than 1 % of their time, so the service lets them run free for a while to compare.
        let most = if case.name == "five on a link" { (1.012, 0.04) } else { (1.01, 0.02) };
        assert!(turns.0 <= most.0 && turns.1 < most.1, "{}: {turns:?}", case.name);
        assert!(turns.0 < slot.0 && turns.0 < free.0, "{}: turns {turns:?}, slots {slot:?}, free {free:?}", case.name);
        assert!(noisy.0 <= NOISY_MAX, "{}: {noisy:?}", case.name);
        // What lost and slow messages cost.
        assert!(lost.0 <= 1.03 && one.0 <= 1.03 && two.0 <= 1.04, "{}: {lost:?} {one:?} {two:?}", case.name);
        // With 5 ms each way turns cost what their messages take, until the comparison lets them go.
        assert!(five.0 <= 1.01 * free.0, "{}: {five:?}, free {free:?}", case.name);
    }
}

/// Every job of the case calls `step()` and never `done()`.
fn mute(config: &Config, jobs: &[SimJob]) -> Config {
    let liars = (0..jobs.len() as u32).map(|job| Liar { job, mute_permille: 1_000, ..Liar::default() }).collect();
    Config { liars, ..config.clone() }
}

/// Free, by turns with ends, and without them, by the bytes of the hosts.
fn without_ends(fabric: &Fabric, jobs: &[SimJob], config: &Config) -> [(f64, f64, f64); 3] {
    let silent = mute(config, jobs);
    let found = [
        play(fabric, jobs, config),
        by_turns(fabric, jobs, TurnsControl::default(), config),
        by_turns(fabric, jobs, TurnsControl::default(), &silent),
    ]
    .map(|report| over_solo(&report, jobs));
    let rows = ["free", "told", "bytes"].iter().zip(&found);
    rows.for_each(|(name, (mean, worst, overlap))| println!("  {name:<8} {mean:.3} worst {worst:.3} overlap {overlap:.3}"));
    found
}

/// Prints what it costs that nobody tells an end.
#[test]
fn who_tells_no_ends_takes_turns_too() {
    for case in cases_that_fit() {
        for jitter_permille in [20, 50] {
            println!("{}, {jitter_permille}", case.name);
            let config = Config { warm_up: 20, iterations: 400, jitter_permille, ..Config::default() };
            let [free, told, bytes] = without_ends(&case.fabric, &case.jobs, &config);
            assert!(bytes.1 <= told.1 + 0.01 && bytes.1 <= free.1, "{}", case.name);
            assert!(case.name != "two equal" || bytes.1 <= 1.02, "{}", case.name);
        }
    }
}

/// From the first iteration on, for the groups that the service chooses by what is declared: jobs that tell no ends, and a profile that is wrong.
#[test]
fn a_wrong_profile_without_ends_harms_nobody() {
    // Free jobs drift in and out of step, so two free runs of 200 iterations differ by some percent, and means over seeds are compared.
    const SEEDS: u64 = 64;
    for case in cases_that_fit() {
        let (fabric, config) = (&case.fabric, Config { warm_up: 0, iterations: 200, jitter_permille: 50, ..Config::default() });
        let mean = |of: &dyn Fn(Config) -> f64| (1..=SEEDS).map(|seed| of(Config { seed, ..config.clone() })).sum::<f64>() / SEEDS as f64;
        let free = mean(&|config| over_solo(&play(fabric, &case.jobs, &config), &case.jobs).0);
        for (period, up) in [(700, 1_000), (1_300, 1_000), (1_000, 500), (1_000, 1_300), (1_000, 2_000)] {
            let mut jobs = case.jobs.clone();
            for job in &mut jobs {
                job.job.period = Nanos(job.job.period.0 * period / 1_000);
                job.job.phases.iter_mut().for_each(|phase| phase.end = Nanos((phase.end.0 * up / 1_000).min(job.job.period.0)));
            }
            let router = Router::new(fabric, Ecmp::Spread, &[]).unwrap();
            let groups = planned_groups(&Case { router: &router, jobs: &jobs }, &state::Config::default()).unwrap();
            let number = groups.len();
            let play = |byte_counters| {
                let control = Control::Turns(TurnsControl { groups: groups.clone(), byte_counters, ..TurnsControl::default() });
                mean(&|config| over_solo(&play(fabric, &jobs, &Config { control: control.clone(), ..mute(&config, &jobs) }), &jobs).0)
            };
            // Where nothing counts bytes either, nobody takes turns.
            let (bytes, nothing) = (play(true), play(false));
            println!("{} {period} {up}: {number} groups, free {free:.3}, bytes {bytes:.3}, nothing {nothing:.3}", case.name);
            assert!(bytes <= 1.01 * free && nothing <= 1.01 * free, "{} {period} {up}", case.name);
        }
    }
}
