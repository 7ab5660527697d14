//! Elastic jobs with the speeds that are built in.

use antiphase_sim::trace::{
    NetworkControl,
    elastic::{
        Applications, ElasticError, ElasticNetwork, ElasticOutcome, ElasticSetup, ElasticSubmission, GpuType, Habits, TYPES, builtin, run,
    },
};
use fabric::{
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use policy::elastic::{ElasticRule, PolluxOptions, Search, SiaOptions, Sight};
use units::Rate;

/// (application, submitted, GPUs, batch)
type Asked = (&'static str, f64, u32, u32);

const JOBS: [Asked; 9] = [
    ("cifar10", 30.0, 8, 2_048),
    ("cifar10", 40.0, 4, 1_024),
    ("bert", 100.0, 8, 192),
    ("deepspeech2", 130.0, 4, 160),
    ("cifar10", 400.0, 8, 2_048),
    ("ncf", 450.0, 1, 4_096),
    ("yolov3", 500.0, 8, 256),
    ("deepspeech2", 900.0, 2, 80),
    ("bert", 2_000.0, 4, 96),
];

const RULES: [ElasticRule; 5] = [
    ElasticRule::Sia(SiaOptions::PAPER),
    ElasticRule::Sia(SiaOptions::ARTIFACT),
    ElasticRule::Gavel,
    ElasticRule::Pollux(PolluxOptions { search: Search::Exact }),
    ElasticRule::Pollux(PolluxOptions { search: Search::Published { seed: 5, avoids: true } }),
];

fn trace(jobs: &[Asked]) -> Vec<ElasticSubmission> {
    let job = |(at, (application, submitted_s, gpus, batch)): (usize, &Asked)| ElasticSubmission {
        id: format!("{application}-{at}"),
        line: at as u64 + 2,
        submitted_s: *submitted_s,
        application: (*application).to_owned(),
        gpus: *gpus,
        batch: *batch,
    };
    jobs.iter().enumerate().map(job).collect()
}

fn cluster() -> (Vec<GpuType>, Applications) {
    let types = [("aws", 3, 4), ("rtx", 1, 8), ("dgx-ext", 1, 8)];
    let types = types.map(|(name, nodes, gpus_per_node)| GpuType { name: name.to_owned(), nodes, gpus_per_node }).to_vec();
    (types, builtin(&["aws", "rtx", "dgx-ext"]).unwrap())
}

fn play(jobs: &[Asked], rule: ElasticRule) -> Result<ElasticOutcome, ElasticError> {
    let (types, applications) = cluster();
    let setup = ElasticSetup {
        types: &types,
        applications: &applications,
        rule,
        round_s: rule.round_s(),
        habits: Habits::PAPER,
        network: None,
        clock: || 0.0,
    };
    run(&trace(jobs), &setup)
}

/// A decision that gives a GPU twice would have ended the run.
#[test]
fn every_job_ends_under_every_policy_and_a_second_run_is_the_same() {
    for rule in RULES {
        // Breeding takes its time.
        let jobs =
            if matches!(rule, ElasticRule::Pollux(PolluxOptions { search: Search::Published { .. } })) { &JOBS[..2] } else { &JOBS[..] };
        let outcome = play(jobs, rule).unwrap();
        assert!(outcome.jct_s.iter().all(|jct_s| jct_s.is_finite() && *jct_s > 0.0), "{rule:?} {outcome:?}");
        assert_eq!(outcome, play(jobs, rule).unwrap(), "{rule:?}");
        // 28 GPUs give no more time than there is.
        let gpu_s: f64 = outcome.gpu_s.iter().flatten().sum();
        assert!(gpu_s > 0.0 && gpu_s <= 28.0 * outcome.makespan_s, "{rule:?} {gpu_s}");
    }
}

#[test]
fn sia_is_faster_than_those_who_do_not_choose_counts_or_do_not_see_types() {
    let mean = |rule| play(&JOBS, rule).unwrap().mean_s();
    let sia = mean(RULES[0]);
    for other in [RULES[2], RULES[3]] {
        assert!(sia < mean(other), "{sia} {other:?} {}", mean(other));
    }
}

/// Rounds end at 60, 120, ... s. A job that was submitted at 30 s begins at 60 s, restarts for 50 s, and has one GPU, the fastest, until the next
/// round, when it is known, and may have two; so it grows in the rounds after.
#[test]
fn a_job_alone_grows_from_one_gpu_and_pays_each_restart() {
    let outcome = play(&JOBS[..1], RULES[0]).unwrap();
    assert!(outcome.restarts[0] >= 2, "{outcome:?}");
    assert!(outcome.gpu_s[0][2] > 0.0 && outcome.gpu_s[0][0] == 0.0, "it has the fastest type: {outcome:?}");
    // At least a round of waiting and restarts of 50 s each, the first start being one.
    let restarts_s = 50.0 * (1.0 + f64::from(outcome.restarts[0]));
    assert!(outcome.jct_s[0] > 30.0 + restarts_s);
    // Alone under Gavel it never restarts.
    assert_eq!(play(&JOBS[..1], RULES[2]).unwrap().restarts, [0]);
}

#[test]
fn what_cannot_be_played_is_named() {
    let unknown = play(&[("alexnet", 0.0, 1, 64)], RULES[0]).unwrap_err();
    assert_eq!(unknown.to_string(), "line 2: unknown application \"alexnet\"");
    // Gavel gives nobody fewer GPUs than it asks for, and no type has 99.
    let large = play(&[("cifar10", 0.0, 99, 4_096)], RULES[2]).unwrap_err();
    assert_eq!(large.to_string(), "line 2: job \"cifar10-0\" asks for 99 GPUs; the largest type has 12");
}

/// Sixteen nodes of four GPUs on four leaves whose uplink has so much in Mbit/s; jobs that span nodes.
fn on_leaves(uplink: u64, control: NetworkControl, sight: Sight, rule: ElasticRule) -> Result<ElasticOutcome, ElasticError> {
    let clos = Clos2 { leaves: 4, spines: 1, hosts_per_leaf: 4, host_rate: Rate(25_000), uplink_rate: Rate(uplink), uplinks: 1 };
    let fabric = clos2(&clos).unwrap();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let types = [GpuType { name: TYPES[0].to_owned(), nodes: 16, gpus_per_node: 4 }];
    let applications = builtin(&TYPES[..1]).unwrap();
    let network = Some(ElasticNetwork { router: &router, control, sight });
    let setup =
        ElasticSetup { types: &types, applications: &applications, rule, round_s: 60.0, habits: Habits::PAPER, network, clock: || 0.0 };
    run(&trace(&WIDE), &setup)
}

const WIDE: [Asked; 6] = [
    ("cifar10", 30.0, 8, 2_048),
    ("bert", 40.0, 8, 192),
    ("cifar10", 100.0, 8, 1_024),
    ("bert", 130.0, 8, 192),
    ("cifar10", 400.0, 8, 2_048),
    ("cifar10", 500.0, 8, 2_048),
];

/// Four hosts of 25 Gbit/s cannot exceed an uplink of 100, so it is as if there were no fabric; one of 25 they can.
#[test]
fn jobs_that_span_nodes_feel_an_uplink_that_is_too_small() {
    let rule = RULES[0];
    let roomy = on_leaves(100_000, NetworkControl::Free, Sight::Blind, rule).unwrap();
    assert_eq!(roomy.longer_mean, Some(1.0));
    let tight = on_leaves(25_000, NetworkControl::Free, Sight::Blind, rule).unwrap();
    assert!(tight.longer_mean.unwrap() > 1.005 && tight.mean_s() > roomy.mean_s(), "{tight:?}");
    assert_eq!(tight, on_leaves(25_000, NetworkControl::Free, Sight::Blind, rule).unwrap(), "a second run is the same");
    // Where nobody is in anybody's way there is nothing to see.
    let seeing = on_leaves(100_000, NetworkControl::Free, Sight::Inside, rule).unwrap();
    assert_eq!(ElasticOutcome { predicted: roomy.predicted, ..seeing }, roomy);
}

#[test]
fn who_sees_the_network_loses_less_on_it() {
    let lost = |sight| on_leaves(25_000, NetworkControl::Free, sight, RULES[0]).unwrap().longer_mean.unwrap() - 1.0;
    let (blind, after, inside) = (lost(Sight::Blind), lost(Sight::After), lost(Sight::Inside));
    assert!(after < blind && inside < blind, "{blind} {after} {inside}");
}

#[test]
fn a_control_without_predictions_is_refused() {
    let paper = on_leaves(25_000, NetworkControl::Paper, Sight::Blind, RULES[0]).unwrap_err();
    assert!(paper.to_string().contains("no prediction of times"), "{paper}");
}
