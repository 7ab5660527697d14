//! Jobs of a trace on a fabric.

use antiphase_sim::trace::{NetworkControl, NetworkOutcome, NetworkSetup, Outcome, Ranker, Setup, Trace, TraceError, read_muri, run};
use fabric::{
    Fabric,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use policy::{
    muri::Timing,
    schedule::{Cluster, MuriOptions, Rule},
};
use units::Rate;

/// Leaves of four hosts of one GPU, with one uplink of the rate of a host.
fn fabric(leaves: u32) -> Fabric {
    let rate = Rate(25_000);
    clos2(&Clos2 { leaves, spines: 1, hosts_per_leaf: 4, host_rate: rate, uplink_rate: rate, uplinks: 1 }).unwrap()
}

/// A job: GPUs, when it comes in seconds, iterations, iteration and network time in milliseconds.
type Row = (u32, u32, u32, u32, u32);

fn trace(rows: &[Row]) -> Trace {
    let mut text =
        "job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
            .to_owned();
    for (id, (gpus, at_s, iterations, iteration, net)) in rows.iter().enumerate() {
        let (load, gpu) = (1, iteration - net - 1);
        text += &format!("{id},{gpus},{}000,{iterations},bert,{},{iteration},{load},{gpu},{net},0\n", at_s, iterations * iteration);
    }
    read_muri(&text).unwrap()
}

fn play(fabric: &Fabric, rows: &[Row], rule: Rule, ranker: Ranker, control: NetworkControl) -> Outcome {
    let router = Router::new(fabric, Ecmp::Spread, &[]).unwrap();
    let network = NetworkSetup { router: &router, ranker, control, seed: 1 };
    let cluster = Cluster { hosts: fabric.hosts().count() as u32, gpus_per_host: 1 };
    run(&trace(rows), &Setup { cluster, rule, timing: Timing::Paper, network: Some(network) }).unwrap()
}

fn on_links(outcome: &Outcome) -> NetworkOutcome {
    outcome.network.unwrap()
}

/// Two jobs of five on leaves of four: both have one host on the middle leaf, and so they meet on its uplink.
const TWO: [Row; 2] = [(5, 0, 2_000, 400, 150), (5, 0, 2_000, 400, 150)];

#[test]
fn jobs_that_meet_are_slowed_as_they_come_and_not_by_turns() {
    let three = fabric(3);
    let outcome = |control| play(&three, &TWO, Rule::Srtf, Ranker::None, control);
    let seen = |control| on_links(&outcome(control));
    let [ideal, free, slots, turns] = [NetworkControl::Ideal, NetworkControl::Free, NetworkControl::Slots, NetworkControl::Turns].map(seen);
    assert_eq!((ideal.iteration_mean, ideal.iteration_p99, ideal.marks_per_iteration), (1.0, 1.0, 0.0));
    // Jobs begin anywhere, so free ones meet some of the time; at worst each takes half of the link for all of its 150 ms.
    assert!((1.05..1.375).contains(&free.iteration_mean) && free.iteration_p99 > 1.3, "{free:?}");
    assert!(turns.iteration_mean < 1.01 && turns.marks_per_iteration < 0.05 * free.marks_per_iteration, "{turns:?}");
    // A slot costs its headroom.
    assert!((1.04..1.07).contains(&slots.iteration_mean), "{slots:?}");
    // All of it is of jobs that meet, but for what the later one does after the other ended; so it is played once, and predicted well.
    for seen in [free, slots, turns] {
        assert!(seen.met_share > 0.999 && seen.played == 1, "{seen:?}");
        assert!(seen.predicted_off_max < 0.1, "{seen:?}");
    }
    // A job's iterations are all that takes time, but for the restart of its model: 10 s.
    let jct_s = |control| outcome(control).jct_s[0];
    assert!((jct_s(NetworkControl::Ideal) - 810.0).abs() < 1e-6);
    assert!((jct_s(NetworkControl::Turns) - (10.0 + 800.0 * turns.iteration_mean)).abs() < 2.0);
}

#[test]
fn what_was_played_holds_wherever_the_same_jobs_meet_again() {
    // Pairs one after the other: the second pair finds other hosts taken by a job that stays, and fares as the first.
    let six = fabric(6);
    let rows = [
        (4, 0, 9_000, 400, 0),
        (5, 10, 1_000, 400, 150),
        (5, 10, 1_000, 400, 150),
        (5, 2_000, 1_000, 400, 150),
        (5, 2_000, 1_000, 400, 150),
    ];
    let pairs = [rows[0], rows[1], rows[2]];
    let [both, one] = [&rows[..], &pairs].map(|rows| on_links(&play(&fabric(4), rows, Rule::Srtf, Ranker::None, NetworkControl::Turns)));
    assert_eq!((one.played, both.played), (1, 1), "{both:?}");
    assert!(both.remembered > one.remembered);
    assert!((both.iteration_mean - one.iteration_mean).abs() < 1e-9);
    let apart = on_links(&play(&six, &rows, Rule::Srtf, Ranker::None, NetworkControl::Turns));
    assert_eq!((apart.played, apart.met_share), (0, 0.0), "with more leaves nobody meets");
}

#[test]
fn the_planner_places_jobs_where_nobody_is_in_their_way() {
    // Three GPUs are taken of each of four leaves, and one job stands on the fifth and on one host of the sixth. Four GPUs go to the other three
    // hosts of the sixth where they are packed, and to the four single ones where nobody is met.
    let rows = [(3, 0, 9_000, 400, 100), (3, 0, 9_000, 400, 100), (3, 0, 9_000, 400, 100), (3, 0, 9_000, 400, 100)];
    let met = |net, ranker| {
        let rows = [&rows[..], &[(5, 100, 3_000, 400, net), (4, 200, 2_000, 400, net)]].concat();
        on_links(&play(&fabric(6), &rows, Rule::Srtf, ranker, NetworkControl::Free)).met_share
    };
    for net in [150, 260] {
        assert!(met(net, Ranker::None) > 0.05);
        assert_eq!(met(net, Ranker::Antiphase), 0.0);
    }
    // By the paper's rules two jobs that fit on a link after a shift are as good as on two links.
    assert_eq!((met(150, Ranker::Cassini), met(260, Ranker::Cassini)), (met(150, Ranker::None), 0.0));
}

#[test]
fn every_policy_runs_on_a_fabric_and_equal_seeds_give_equal_bytes() {
    let rows: Vec<Row> =
        (0..14).map(|i| (1 + i % 5, 30 * i, 200 + 90 * (i % 3), [200, 400, 300][i as usize % 3], [60, 150][i as usize % 2])).collect();
    let five = fabric(5);
    let muri = |durations_known| Rule::Muri(MuriOptions { durations_known, ..MuriOptions::default() });
    for rule in [Rule::Srtf, Rule::Srsf, Rule::Tiresias, Rule::AntMan, Rule::Themis, Rule::Gandiva, muri(true), muri(false)] {
        let play = |control| play(&five, &rows, rule, Ranker::Random, control);
        let (free, turns) = (play(NetworkControl::Free), play(NetworkControl::Turns));
        assert_eq!(format!("{turns:?}"), format!("{:?}", play(NetworkControl::Turns)));
        let (free, turns) = (on_links(&free), on_links(&turns));
        assert!(free.met_share > 0.0 && free.iteration_mean > 1.0, "{rule:?}: {free:?}");
        assert!(turns.iteration_mean <= free.iteration_mean * 1.01, "{rule:?}: {turns:?} {free:?}");
    }
}

#[test]
fn the_paper_s_control_helps_jobs_whose_periods_lock() {
    let seen = |control| on_links(&play(&fabric(3), &TWO, Rule::Srtf, Ranker::None, control));
    let (free, paper) = (seen(NetworkControl::Free), seen(NetworkControl::Paper));
    assert!(paper.iteration_mean < free.iteration_mean && paper.marks_per_iteration < 0.2 * free.marks_per_iteration, "{paper:?} {free:?}");
}

#[test]
fn a_cluster_that_its_fabric_does_not_have_is_refused() {
    let fabric = fabric(1);
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let network = NetworkSetup { router: &router, ranker: Ranker::None, control: NetworkControl::Free, seed: 1 };
    let cluster = Cluster { hosts: 5, gpus_per_host: 1 };
    let refused = run(&trace(&TWO), &Setup { cluster, rule: Rule::Srtf, timing: Timing::Paper, network: Some(network) }).unwrap_err();
    assert!(matches!(refused, TraceError::Network { .. }));
    assert_eq!(refused.to_string(), "at 0 s on the fabric: the fabric has 4 hosts, the cluster 5");
}
