//! Faults in a trace: hand-computed cases, and random ones whose events are counted over again.

use std::collections::BTreeMap;

use antiphase_sim::trace::{
    Change, Failing, FaultRate, FaultSetup, Format, NetworkControl, NetworkSetup, Outcome, Ranker, Setup, Told, Trace, TraceError,
    TraceFault, read, read_faults, run_watched,
};
use fabric::{
    Fabric,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use policy::{
    muri::Timing,
    schedule::{Cluster, GandivaOptions, MuriOptions, Rule},
};
use proptest::prelude::*;
use units::Rate;

/// What every start costs, and the length of an iteration alone, in seconds.
const RESTART_S: f64 = 10.0;
const ITERATION_S: f64 = 1.0;

/// Jobs of a second an iteration: when each comes, its GPUs, its iterations, and for how many milliseconds it sends.
fn trace(jobs: &[(u32, u32, u32, u32)]) -> Trace {
    let mut text = String::from("job_id,submit_s,gpus,iterations,iteration_ms,up_ms\n");
    for (id, (at_s, gpus, iterations, up_ms)) in jobs.iter().enumerate() {
        text += &format!("{id},{at_s},{gpus},{iterations},1000,{up_ms}\n");
    }
    read(Format::Antiphase, &text).unwrap()
}

fn faults(rows: &str, cluster: Cluster, fabric: Option<&Fabric>) -> Vec<TraceFault> {
    read_faults(&format!("at_s,kind,name,until_s,factor\n{rows}"), cluster, fabric).unwrap()
}

fn told(told: &[TraceFault], checkpoint_s: f64) -> FaultSetup<'_> {
    FaultSetup { told, hosts: None, links: None, checkpoint_s, seed: 1 }
}

/// One host or two of one GPU, a job of 1,000 iterations, and a checkpoint every 300 s.
fn alone(hosts: u32, rows: &str) -> Outcome {
    let cluster = Cluster { hosts, gpus_per_host: 1 };
    let told_faults = faults(rows, cluster, None);
    let faults = Some(told(&told_faults, 300.0));
    let setup = Setup { cluster, rule: Rule::Srtf, timing: Timing::Paper, network: None, faults };
    run_watched(&trace(&[(0, 1, 1_000, 0)]), &setup, &mut |_| {}).unwrap()
}

#[test]
fn a_job_whose_host_goes_down_loses_what_it_computed_since_its_last_checkpoint() {
    // It computes from 10 s on. After 690 s it has saved 600 iterations; the other 400 take as long as they take, after a restart.
    let down = "700,host,0,900,\n";
    let one = alone(1, down);
    assert_eq!(one.jct_s, [900.0 + RESTART_S + 400.0]);
    let came = one.faults.unwrap();
    assert_eq!((came.faults, came.failures, came.lost_gpu_s, came.still_gpu_s), (1, 1, 90.0, 0.0));
    // It was not stopped for anybody.
    assert_eq!(one.preemptions, 0);
    // Where there is another host it goes there at once.
    assert_eq!(alone(2, down).jct_s, [700.0 + RESTART_S + 400.0]);
    // During its restart it has nothing to lose, and 5 s of the restart are for nothing.
    let early = alone(1, "5,host,0,20,\n");
    assert_eq!((early.jct_s[0], early.faults.unwrap().lost_gpu_s), (20.0 + RESTART_S + 1_000.0, 0.0));
    // Faults of a host that overlap or touch are one.
    let twice = alone(1, "700,host,0,800,\n750,host,0,850,\n850,host,0,900,\n");
    assert_eq!((twice.jct_s[0], twice.faults.unwrap().failures), (one.jct_s[0], 1));
    // Who is done when its host goes down is done.
    assert_eq!(alone(1, "1010,host,0,2000,\n").jct_s, [1_010.0]);
}

#[test]
fn iterations_on_a_slow_host_are_longer_while_it_is_slow() {
    // 100 iterations until 110 s, 50 in the 100 s after that, and 850 at 1 s each.
    assert_eq!(alone(1, "110,straggler,0,210,2\n").jct_s, [210.0 + 850.0]);
    // Of two at once the larger factor counts: 100 iterations, 25 in 50 s, 10 in 50 s, and 865.
    assert_eq!(alone(1, "110,straggler,0,210,2\n160,straggler,0,210,5\n").jct_s, [210.0 + 865.0]);
    // A checkpoint is due after so long a computation, however much was done in it: at 310 s, with 200 iterations.
    let slow = alone(1, "10,straggler,0,210,2\n400,host,0,401,\n");
    assert_eq!((slow.jct_s[0], slow.faults.unwrap().lost_gpu_s), (401.0 + RESTART_S + 800.0, 90.0));
}

/// Two leaves of two hosts of one GPU, and so many spines; each uplink carries what a leaf's hosts send.
fn two_leaves(spines: u32) -> Fabric {
    let (host_rate, uplink_rate) = (Rate(25_000), Rate(50_000));
    clos2(&Clos2 { leaves: 2, spines, hosts_per_leaf: 2, host_rate, uplink_rate, uplinks: 1 }).unwrap()
}

/// A job of three hosts on these leaves.
fn spread(fabric: &Fabric, rows: &str) -> Outcome {
    let router = Router::new(fabric, Ecmp::Spread, &[]).unwrap();
    let network = NetworkSetup { router: &router, ranker: Ranker::None, control: NetworkControl::Turns, moves: false, seed: 1 };
    let cluster = Cluster { hosts: 4, gpus_per_host: 1 };
    let told_faults = faults(rows, cluster, Some(fabric));
    let faults = Some(told(&told_faults, 300.0));
    let setup = Setup { cluster, rule: Rule::Srtf, timing: Timing::Paper, network: Some(network), faults };
    run_watched(&trace(&[(0, 3, 1_000, 400)]), &setup, &mut |_| {}).unwrap()
}

#[test]
fn a_job_without_a_route_stands_still_until_there_is_one() {
    let (one, two) = (two_leaves(1), two_leaves(2));
    let cable = |fabric: &Fabric| {
        let up = fabric.links().iter().zip(0..).find(|(link, _)| fabric.node(link.to.node).name.starts_with("spine")).unwrap();
        fabric.link_name(units::LinkId(up.1))
    };
    let down = |fabric: &Fabric| format!("500,link,{},700,\n", cable(fabric));
    let still = spread(&one, &down(&one));
    assert!((still.jct_s[0] - (RESTART_S + 1_000.0 + 200.0)).abs() < 1e-6, "{:?}", still.jct_s);
    let came = still.faults.unwrap();
    assert!((came.still_gpu_s - 600.0).abs() < 1e-6 && came.failures == 0 && came.lost_gpu_s == 0.0, "{came:?}");
    // With two spines the other one carries it, at the same speed.
    let around = spread(&two, &down(&two));
    assert!((around.jct_s[0] - (RESTART_S + 1_000.0)).abs() < 1e-6, "{:?}", around.jct_s);
    // The other direction of the cable is down with it.
    let (up, back) = (cable(&one), cable(&one).split("->").collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("->"));
    assert_ne!(up, back);
    assert_eq!(spread(&one, &format!("500,link,{back},700,\n")).jct_s, still.jct_s);
    // A job that stands still computes nothing, and so saves nothing: after 690 s it has computed 490 s, of which 300 are saved.
    let rows = format!("{}700,host,{},701,\n", down(&one), one.node(one.hosts().next().unwrap()).name);
    let lost = spread(&one, &rows).faults.unwrap();
    assert!(lost.failures == 1 && (lost.lost_gpu_s - 3.0 * 190.0).abs() < 1e-6, "{lost:?}");
}

#[test]
fn jobs_whose_agents_are_down_are_not_held() {
    // Two jobs of three hosts on three leaves of two: both have a host on the middle one, and meet on its uplink.
    let rate = Rate(25_000);
    let fabric = clos2(&Clos2 { leaves: 3, spines: 1, hosts_per_leaf: 2, host_rate: rate, uplink_rate: rate, uplinks: 1 }).unwrap();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let cluster = Cluster { hosts: 6, gpus_per_host: 1 };
    let jobs = trace(&[(0, 3, 2_000, 400), (0, 3, 2_000, 400)]);
    let mean = |control, rows: &str| {
        let network = NetworkSetup { router: &router, ranker: Ranker::None, control, moves: false, seed: 1 };
        let told_faults = faults(rows, cluster, Some(&fabric));
        let setup =
            Setup { cluster, rule: Rule::Srtf, timing: Timing::Paper, network: Some(network), faults: Some(told(&told_faults, 300.0)) };
        run_watched(&jobs, &setup, &mut |_| {}).unwrap().network.unwrap().iteration_mean
    };
    let names: Vec<&str> = fabric.hosts().map(|host| fabric.node(host).name.as_str()).collect();
    let all = |until: u32| names.iter().map(|name| format!("0,agent,{name},{until},\n")).collect::<String>();
    let (free, held) = (mean(NetworkControl::Free, ""), mean(NetworkControl::Turns, ""));
    assert!(free > 1.05 && held < 1.01, "{free} {held}");
    // Without agents nobody takes turns; for half of the time, half of the gain is lost.
    let without = mean(NetworkControl::Turns, &all(1_000_000));
    // Other plays, so other begins.
    assert!((without - free).abs() < 0.04, "{without} {free}");
    let half = mean(NetworkControl::Turns, &all(1_010));
    assert!((half - (without + held) / 2.0).abs() < 0.01, "{half} {without} {held}");
    // Free jobs have no agents to miss.
    assert_eq!(mean(NetworkControl::Free, &all(1_000_000)), free);
}

#[test]
fn artifact_timing_has_no_faults_and_a_job_that_never_saves_anything_is_an_error() {
    let cluster = Cluster { hosts: 1, gpus_per_host: 1 };
    let rate = FaultRate { between_s: 5.0, repair_s: 1.0 };
    let faults = FaultSetup { hosts: Some(rate), ..told(&[], 300.0) };
    let setup = |timing| Setup { cluster, rule: Rule::Srtf, timing, network: None, faults: Some(faults) };
    let played = |timing| run_watched(&trace(&[(0, 1, 1_000, 0)]), &setup(timing), &mut |_| {}).unwrap_err();
    assert_eq!(played(Timing::Artifact), TraceError::Nowhere);
    assert!(matches!(played(Timing::Paper), TraceError::Faulty { waiting: 1, .. }));
}

#[test]
fn faults_that_are_none_are_refused_with_line_and_value() {
    let (fabric, cluster) = (two_leaves(1), Cluster { hosts: 2, gpus_per_host: 8 });
    let with = |fabric: Option<&Fabric>, row: &str| {
        read_faults(
            &format!("at_s,kind,name,until_s,factor\n0,straggler,{},5,2\n{row}\n", if fabric.is_some() { "h1" } else { "1" }),
            cluster,
            fabric,
        )
        .unwrap_err()
        .to_string()
    };
    let first = fabric.node(fabric.hosts().next().unwrap()).name.clone();
    assert_eq!(first, "h1");
    for (row, problem) in [
        ("-1,host,0,5,", "line 3: at_s \"-1\" must be"),
        ("1,disk,0,5,", "line 3: kind \"disk\" must be host, link, agent or straggler"),
        ("1,host,2,5,", "line 3: name \"2\" must be the number of a host of the cluster, from 0 on"),
        ("1,host,h1,5,", "line 3: name \"h1\" must be the number"),
        ("1,host,,5,", "line 3: name \"\" must be a name"),
        ("5,host,0,5,", "line 3: until_s \"5\" must be a time after at_s"),
        ("1,host,0,inf,", "line 3: until_s \"inf\" must be"),
        ("1,host,0,5,2", "line 3: factor \"2\" must be empty"),
        ("1,straggler,0,5,", "line 3: factor \"\" must be a factor from 1 to 1000"),
        ("1,straggler,0,5,0.5", "line 3: factor \"0.5\" must be"),
        ("1,link,a->b,5,", "line 3: kind \"link\" must be host or straggler where there is no fabric"),
        ("1,agent,0,5,", "line 3: kind \"agent\" must be"),
        ("1,host,0", "line 3: 3 fields, expected 5"),
    ] {
        let found = with(None, row);
        assert!(found.starts_with(problem), "{found}");
    }
    for (row, problem) in [
        ("1,host,0,5,", "line 3: name \"0\" must be the name of a host of the cluster"),
        // The cluster has the first two hosts of the fabric.
        ("1,host,h3,5,", "line 3: name \"h3\" must be"),
        ("1,link,h1->h9,5,", "line 3: name \"h1->h9\" must be the name of a link of the fabric"),
    ] {
        let found = with(Some(&fabric), row);
        assert!(found.starts_with(problem), "{found}");
    }
    assert!(read_faults("at_s,kind,name\n", cluster, None).unwrap_err().to_string().contains("no column \"until_s\""));
    assert_eq!(read_faults("at_s,kind,name,until_s\n", cluster, None), Ok(vec![]));
}

/// What a job did, counted from its events alone.
#[derive(Default)]
struct Account {
    done: f64,
    /// Since when it runs, and where.
    runs: Option<(f64, Vec<u32>)>,
}

/// Everything that was told of a run, counted over again.
struct Ledger<'a> {
    slow: &'a [TraceFault],
    checkpoint_s: f64,
    jobs: Vec<Account>,
    /// Hosts that are down, with how many faults.
    down: BTreeMap<u32, u32>,
    now_s: f64,
    lost: f64,
}

impl Ledger<'_> {
    fn factor(&self, at_s: f64, hosts: &[u32]) -> f64 {
        let holds = |fault: &TraceFault| match fault.what {
            Failing::Straggler { host, factor } if fault.at_s <= at_s && at_s < fault.until_s && hosts.contains(&host) => factor,
            _ => 1.0,
        };
        self.slow.iter().map(holds).fold(1.0, f64::max)
    }

    /// Iterations from one time to another on these hosts, piece by piece.
    fn iterations(&self, from_s: f64, to_s: f64, hosts: &[u32]) -> f64 {
        let mut edges: Vec<f64> =
            self.slow.iter().flat_map(|fault| [fault.at_s, fault.until_s]).filter(|at| from_s < *at && *at < to_s).collect();
        edges.extend([from_s, to_s]);
        edges.sort_by(f64::total_cmp);
        edges.windows(2).map(|pair| (pair[1] - pair[0]) / (ITERATION_S * self.factor(pair[0], hosts))).sum()
    }

    /// A job stops running where it is; with what it has done, or with what it had saved.
    fn stops(&mut self, job: u32, at_s: f64, fails: bool) {
        let (since_s, hosts) = self.jobs[job as usize].runs.take().unwrap();
        let computes_s = since_s + RESTART_S;
        let ran = if at_s > computes_s { self.iterations(computes_s, at_s, &hosts) } else { 0.0 };
        let saved = if fails && at_s > computes_s {
            let whole = ((at_s - computes_s) / self.checkpoint_s).floor();
            self.iterations(computes_s, computes_s + whole * self.checkpoint_s, &hosts)
        } else {
            ran
        };
        self.lost += ran - saved;
        self.jobs[job as usize].done += saved;
    }

    /// Nobody stands on a host that is down: looked at whenever time goes on, when everything of the time before has been told.
    fn take(&mut self, told: &Told<'_>) {
        let at_s = match told {
            Told::Job(event) => event.at_s,
            Told::Fault { at_s, .. } => *at_s,
        };
        assert!(at_s >= self.now_s, "events go back");
        if at_s > self.now_s {
            for (job, account) in self.jobs.iter().enumerate() {
                let stands = account.runs.iter().flat_map(|(_, hosts)| hosts);
                stands.for_each(|host| {
                    assert!(!self.down.contains_key(host), "job {job} is on host {host}, which is down, at {}", self.now_s)
                });
            }
        }
        self.now_s = at_s;
        match told {
            Told::Fault { what: Failing::Host(host), begins, .. } => {
                let holds = self.down.entry(*host).or_default();
                *holds = if *begins { *holds + 1 } else { *holds - 1 };
                if *holds == 0 {
                    self.down.remove(host);
                }
            }
            Told::Fault { .. } => {}
            Told::Job(event) => {
                if matches!(event.change, Change::Stops | Change::Fails | Change::Moves | Change::Ends) {
                    self.stops(event.job, at_s, event.change == Change::Fails);
                }
                if matches!(event.change, Change::Starts | Change::Moves) {
                    self.jobs[event.job as usize].runs = Some((at_s, event.places.iter().map(|place| place.0).collect()));
                }
            }
        }
    }
}

/// Jobs of some hosts, and faults that were told: hosts that go down, and slow ones.
fn worlds() -> impl Strategy<Value = (Trace, Vec<TraceFault>, u64)> {
    let job = (0_u32..4_000, 1_u32..7, 20_u32..1_500).prop_map(|(at_s, gpus, iterations)| (at_s, gpus, iterations, 0));
    let fault =
        (0.0_f64..5_000.0, 1.0_f64..900.0, 0_u32..4, any::<bool>(), 1.0_f64..4.0).prop_map(|(at_s, lasts_s, host, is_slow, factor)| {
            let what = if is_slow { Failing::Straggler { host, factor } } else { Failing::Host(host) };
            TraceFault { at_s, until_s: at_s + lasts_s, what }
        });
    (prop::collection::vec(job, 1..12), prop::collection::vec(fault, 0..8), any::<u64>())
        .prop_map(|(jobs, faults, seed)| (trace(&jobs), faults, seed))
}

const CLUSTER: Cluster = Cluster { hosts: 4, gpus_per_host: 2 };

fn rules() -> [Rule; 9] {
    let muri = |durations_known| Rule::Muri(MuriOptions { durations_known, ..MuriOptions::default() });
    let gandiva = Rule::Gandiva(GandivaOptions::default());
    [Rule::Srtf, Rule::Srsf, Rule::TIRESIAS, Rule::Themis, Rule::AntMan, gandiva, muri(true), muri(false), Rule::Fifo]
}

proptest! {
    /// Under any policy no job stands on a host that is down, and none does less or more than its iterations, whatever fails.
    #[test]
    fn no_job_is_on_a_dead_host_and_none_does_less_or_more_than_its_work((trace, told_faults, seed) in worlds()) {
        let rate = FaultRate { between_s: 4_000.0, repair_s: 300.0 };
        let faults = FaultSetup { told: &told_faults, hosts: Some(rate), links: None, checkpoint_s: 100.0, seed };
        for rule in rules() {
            let setup = Setup { cluster: CLUSTER, rule, timing: Timing::Paper, network: None, faults: Some(faults) };
            let jobs = trace.jobs.iter().map(|_| Account::default()).collect();
            let mut ledger = Ledger { slow: &told_faults, checkpoint_s: 100.0, jobs, down: BTreeMap::new(), now_s: 0.0, lost: 0.0 };
            let outcome = run_watched(&trace, &setup, &mut |told| ledger.take(&told)).unwrap();
            prop_assert!(ledger.jobs.iter().all(|account| account.runs.is_none()));
            // Who shares GPUs has iterations that the events do not tell.
            if !matches!(rule, Rule::AntMan | Rule::Gandiva(_) | Rule::Muri(_)) {
                for (account, job) in ledger.jobs.iter().zip(&trace.jobs) {
                    prop_assert!((account.done - job.iterations).abs() < 1e-6 * job.iterations.max(1.0), "{rule:?}: {} of {}", account.done, job.iterations);
                }
            }
            let again = run_watched(&trace, &setup, &mut |_| {}).unwrap();
            prop_assert_eq!(format!("{outcome:?}"), format!("{again:?}"));
        }
    }

    /// The same on a fabric, where cables fail as well: everybody is done in the end, and nobody stands on a dead host.
    #[test]
    fn on_a_fabric_everybody_is_done_in_the_end((trace, told_faults, seed) in worlds(), spines in 1_u32..3) {
        let fabric = two_leaves(spines);
        let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
        let rate = |between_s| Some(FaultRate { between_s, repair_s: 300.0 });
        let faults = FaultSetup { told: &told_faults, hosts: rate(4_000.0), links: rate(3_000.0), checkpoint_s: 100.0, seed };
        for (rule, ranker) in rules().into_iter().zip([Ranker::Antiphase, Ranker::Random, Ranker::Cassini, Ranker::None].into_iter().cycle()) {
            let ranker = if matches!(rule, Rule::AntMan | Rule::Gandiva(_)) { Ranker::None } else { ranker };
            let network = NetworkSetup { router: &router, ranker, control: NetworkControl::Free, moves: ranker == Ranker::Antiphase, seed };
            let setup = Setup { cluster: CLUSTER, rule, timing: Timing::Paper, network: Some(network), faults: Some(faults) };
            let jobs = trace.jobs.iter().map(|_| Account::default()).collect();
            let mut ledger = Ledger { slow: &[], checkpoint_s: 100.0, jobs, down: BTreeMap::new(), now_s: 0.0, lost: 0.0 };
            let outcome = run_watched(&trace, &setup, &mut |told| ledger.take(&told)).unwrap();
            prop_assert!(outcome.jct_s.iter().zip(&trace.jobs).all(|(jct_s, job)| *jct_s >= RESTART_S + job.iterations * ITERATION_S - 1e-6));
        }
    }
}
