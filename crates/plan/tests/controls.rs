//! What each control is predicted to bring, and what is said of turns, on one leaf-spine pair.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

use std::sync::Arc;

use antiphase_plan::{Cluster, Control, Evaluation, JobTimes, MeanTimes, Objective, Options, Predictions, evaluate, rank, turns};
use fabric::{
    Fabric,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use job::{Candidate, Collective, Endpoint, Hold, Job, Placement, TrafficPhase};
use units::{JobId, Nanos, Rate};

const MS: u64 = 1_000_000;
const RATE: Rate = Rate(50_000);

/// Two leaves and one spine, three hosts on each leaf.
fn fabric() -> Fabric {
    clos2(&Clos2 { leaves: 2, spines: 1, hosts_per_leaf: 3, host_rate: RATE, uplink_rate: RATE, uplinks: 1 }).expect("a small Clos")
}

/// A job of two ranks that sends from the beginning at a percentage of the links: (name, period, Up).
fn job((name, period_ms, up_ms, percent): (&str, u64, u64, u64)) -> Job {
    let phase = TrafficPhase {
        start: Nanos(0),
        end: Nanos(up_ms * MS),
        rate: Rate(RATE.0 * percent / 100),
        collective: Collective::Ring,
        groups: Arc::from([vec![0, 1]]),
    };
    Job { name: name.into(), gpus: 2, period: Nanos(period_ms * MS), phases: vec![phase], hold: Hold::Auto }
}

fn on(fabric: &Fabric, hosts: [&str; 2]) -> Placement {
    Placement { ranks: hosts.iter().map(|h| Endpoint { host: fabric.find(h).expect("a host"), rail: 0 }).collect() }
}

/// Jobs across the leaves: what is evaluated under these options, and what is said of it.
fn across<const N: usize>(jobs: [(&str, u64, u64, u64); N], options: Options) -> (Evaluation, Vec<antiphase_plan::JobReport>, Vec<String>) {
    let fabric = fabric();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let jobs = jobs.map(job);
    let placements = [["h1", "h4"], ["h2", "h5"], ["h3", "h6"]].map(|hosts| on(&fabric, hosts));
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements[..N] };
    let found = evaluate(&cluster, &Candidate::default(), &options).unwrap();
    let said = found.explain(&cluster).iter().map(ToString::to_string).collect();
    let reports = found.jobs(&cluster);
    (found, reports, said)
}

fn compared(control: Control) -> Options {
    Options { control, predict: Predictions::Compared, ..Options::default() }
}

const NEAR: [(&str, u64, u64, u64); 2] = [("a", 354, 154, 100), ("b", 369, 169, 100)];
/// Periods that do not lock: no time to win.
const UNLOCKED: [(&str, u64, u64, u64); 2] = [("a", 200, 60, 100), ("b", 340, 120, 100)];

#[test]
fn times_side_by_side_come_from_the_same_runs() {
    for jobs in [NEAR, UNLOCKED, [("a", 250, 175, 60), ("b", 250, 175, 60)]] {
        let (turns, by_turns, _) = across(jobs, compared(Control::Turns));
        for report in &by_turns {
            let (times, compared) = (report.times.unwrap(), report.compared.unwrap());
            assert_eq!((times.contended, report.interleaved), (compared.free, Some(compared.turns)), "{jobs:?}");
            // Without turns there is nothing that could differ.
            assert!(report.turns || compared.turns == compared.free, "{jobs:?}: {report:?}");
        }
        let (means, times) = (turns.compared.unwrap(), turns.times.unwrap());
        assert_eq!((means.free.time, means.turns.time), (times.contended, times.interleaved), "{jobs:?}");
        // The comparison does not depend on who asks for it, and asking for less changes nothing of what is left.
        for control in [Control::Slots, Control::Observe] {
            let (other, reports, _) = across(jobs, compared(control));
            assert_eq!(other.compared, turns.compared, "{jobs:?}");
            let same = reports.iter().zip(&by_turns).all(|(a, b)| a.compared == b.compared);
            assert!(same, "{jobs:?}: {reports:?} {by_turns:?}");
        }
        for control in [Control::Turns, Control::Slots, Control::Observe] {
            let (all, less) = (across(jobs, compared(control)), across(jobs, Options { control, ..Options::default() }));
            // What holding everybody to slots would take is told where slots are the control or are compared.
            let slots = control == Control::Slots;
            let told = all.0.times.map(|t| MeanTimes { all_held: t.all_held.filter(|_| slots), ..t });
            assert_eq!((told, less.0.compared), (less.0.times, None), "{jobs:?}");
            for (a, b) in all.1.iter().zip(&less.1) {
                let told = a.times.map(|t| JobTimes { all_held: t.all_held.filter(|_| slots), ..t });
                assert!(a.times.is_some_and(|t| t.all_held.is_some()));
                assert_eq!((told, a.interleaved, a.turns, a.hold), (b.times, b.interleaved, b.turns, b.hold), "{jobs:?}");
            }
        }
        let (_, observed, _) = across(jobs, compared(Control::Observe));
        assert!(observed.iter().all(|r| r.interleaved == r.compared.map(|c| c.free) && !r.turns && !r.hold), "{observed:?}");
    }
}

/// Nobody held is nobody held, whatever the control is called: to the nanosecond.
#[test]
fn slots_that_hold_nobody_take_what_free_jobs_take() {
    let (_, reports, _) = across(UNLOCKED, compared(Control::Slots));
    assert!(reports.iter().all(|r| !r.hold && r.compared.is_some_and(|c| c.slots == c.free && c.free.0 > r.period.0)), "{reports:?}");
}

#[test]
fn near_periods_name_who_sets_the_pace_and_what_the_other_pays() {
    let (found, reports, said) = across(NEAR, compared(Control::Turns));
    // The slower one's period is the longest cycle (docs/model.md, section 14), and 369 over 354 is 1.042.
    assert!(reports.iter().all(|r| r.turns && r.interleaved.unwrap().0.abs_diff(369 * MS) < MS), "{reports:?}");
    assert!(said[0].starts_with("a and b take turns: 1.02"), "{said:#?}");
    assert!(said[1].starts_with("b at 369 ms sets the pace of a and b: a takes 369"), "{said:#?}");
    assert!(said[1].contains(" ms instead of 354 ms (+4.2 %), 4"), "{said:#?}");
    assert!(said[2].starts_with("link leaf1->spine1 and 3 more like it: "), "{said:#?}");
    assert!(said[3].starts_with("a: 354 ms alone, ") && said[4].starts_with("b: 369 ms alone, ") && said.len() == 5, "{said:#?}");
    let means = found.compared.unwrap();
    assert!(means.turns.overlap < 0.01 && means.free.overlap > 0.3 && means.turns.time < means.free.time - 0.1, "{means:?}");
    // Who watches is told what would be done, and who has slots only what jobs would take.
    let (_, _, watched) = across(NEAR, compared(Control::Observe));
    assert!(watched[0].starts_with("a and b would take turns: 1.02") && watched[1..] == said[1..], "{watched:#?}");
    let (_, _, slots) = across(NEAR, compared(Control::Slots));
    assert_eq!(slots, said[2..]);
}

#[test]
fn equal_jobs_take_turns_and_pay_nothing() {
    let (_, _, said) = across([("a", 250, 110, 100), ("b", 250, 110, 100)], compared(Control::Turns));
    assert!(said[0].starts_with("a and b take turns: 1.00") && said[1].starts_with("link "), "{said:#?}");
}

/// Three times 0.35 do not fit into one iteration: 210 ms of 200, one after the other.
#[test]
fn where_nobody_alone_sets_the_pace_that_is_said() {
    let (_, reports, said) = across(["a", "b", "c"].map(|name| (name, 200, 70, 100)), compared(Control::Turns));
    assert!(reports.iter().all(|r| r.turns), "{reports:?}");
    assert!(said[0].starts_with("a, b and c take turns: 1.05"), "{said:#?}");
    assert!(said[1].starts_with("a, b and c take 21") && said[1].ends_with("longer than any of their iterations alone"), "{said:#?}");
}

/// In a chain, who takes turns with whom is said pair by pair.
#[test]
fn who_does_not_meet_takes_no_turns() {
    let fabric = clos2(&Clos2 { leaves: 3, spines: 1, hosts_per_leaf: 2, host_rate: RATE, uplink_rate: RATE, uplinks: 1 }).unwrap();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    // One way only: a and b leave leaf 1, and b and c enter leaf 2.
    let jobs = ["a", "b", "c"].map(|name| {
        let mut job = job((name, 250, 110, 100));
        job.phases[0].collective = Collective::PipelineForward;
        job
    });
    let placements = [["h1", "h5"], ["h2", "h3"], ["h6", "h4"]].map(|hosts| on(&fabric, hosts));
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let found = evaluate(&cluster, &Candidate::default(), &compared(Control::Turns)).unwrap();
    let said: Vec<String> = found.explain(&cluster).iter().map(ToString::to_string).collect();
    assert!(said[0].starts_with("a, b and c take turns, a with b and b with c: 1.00"), "{said:#?}");
}

#[test]
fn where_turns_bring_no_time_but_quiet_that_is_a_choice() {
    let (free, reports, said) = across(UNLOCKED, compared(Control::Turns));
    assert!(reports.iter().all(|r| !r.turns), "{reports:?}");
    assert!(
        said[0].starts_with("a and b go as they come, 1.1") && said[0].contains(": turns bring no time (for everybody 1."),
        "{said:#?}"
    );
    assert!(said[1].starts_with("turns of a and b bring quiet, not time: links above capacity for 0 % of the time in use instead of 32 %"));
    assert!(said[1].ends_with("; the objective quiet chooses them"), "{said:#?}");
    let quiet = Options { turns_objective: turns::Objective::Quiet, ..compared(Control::Turns) };
    let (quiet, reports, said) = across(UNLOCKED, quiet);
    assert!(reports.iter().all(|r| r.turns), "{reports:?}");
    assert!(
        said[0].starts_with("a and b take turns for quiet: 1.1") && said[0].contains("; links above capacity for 0 % of the"),
        "{said:#?}"
    );
    assert!(said[1].starts_with("link "), "nothing is quieter: {said:#?}");
    let (free, quiet) = (free.compared.unwrap(), quiet.compared.unwrap());
    assert!(free.free == quiet.free && quiet.turns.overlap < 0.01 && free.turns.overlap > 0.2, "{free:?} {quiet:?}");
}

/// 0.7 of the time at 0.6 of a link: 1.14 together, 1.40 in turns, and quiet is not worth that.
#[test]
fn where_demands_fit_badly_nobody_waits() {
    let quiet = Options { turns_objective: turns::Objective::Quiet, ..compared(Control::Turns) };
    let (_, reports, said) = across([("a", 250, 175, 60), ("b", 250, 175, 60)], quiet);
    assert!(reports.iter().all(|r| !r.turns), "{reports:?}");
    assert!(said[0].contains(": turns bring no time (for everybody 1.4") || said[0].contains("(for everybody 1.39"), "{said:#?}");
    assert!(said[1].starts_with("link "), "{said:#?}");
}

/// The candidate of few marks first, even if its iterations are longer.
#[test]
fn the_objective_quiet_ranks_by_the_time_above_capacity() {
    let fabric = fabric();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let jobs = UNLOCKED.map(job);
    let placements = [on(&fabric, ["h1", "h4"]), on(&fabric, ["h2", "h5"])];
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let apart = vec![(JobId(0), on(&fabric, ["h1", "h2"])), (JobId(1), on(&fabric, ["h4", "h5"]))];
    let candidates = [Candidate { id: "across".into(), placements: vec![] }, Candidate { id: "apart".into(), placements: apart }];
    let options = Options { objective: Objective::Quiet, control: Control::Turns, ..Options::default() };
    let ranked = rank(&cluster, &candidates, &options).unwrap();
    assert_eq!(ranked.iter().map(|e| &e.id[..]).collect::<Vec<_>>(), ["apart", "across"]);
    assert_eq!(ranked[0].overlap(), Some(0.0));
    assert!(ranked[1].overlap().unwrap() > 0.2, "{:?}", ranked[1].compared);
    // By turns for the sake of quiet both are quiet, and the time decides.
    let quiet = Options { turns_objective: turns::Objective::Quiet, ..options };
    let ranked = rank(&cluster, &candidates, &quiet).unwrap();
    assert_eq!(ranked.iter().map(|e| &e.id[..]).collect::<Vec<_>>(), ["apart", "across"]);
    assert!(ranked[1].overlap().unwrap() < 0.01, "{:?}", ranked[1].compared);
}
