//! Random jobs, delays, losses and faults: what turns promise is checked by what jobs really did.
//!
//! `SCHEDULES=1000000 cargo nextest run --release -p antiphase-sim any_schedule --no-capture` tries a million; `FIRST` is the first seed.

use std::{collections::BTreeMap, sync::Arc};

use antiphase_sim::{
    Case, Config, Control, Ended, Fault, Liar, Lifetime, Report, SimJob, TurnStart, TurnsControl, Way, Why, Workload, overlaps, run,
    turn_groups,
};
use fabric::{
    Fabric,
    collective::Endpoint,
    route::{Ecmp, Router},
};
use gate_core::Reason;
use job::{Collective, Job, Placement, TrafficPhase};
use units::{Nanos, Rate};

use crate::cases::*;

/// Reproducible numbers from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        units::splitmix64(&mut self.0) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A job between two hosts that sends in so many Up phases of equal length, at that rate.
fn job_of(fabric: &Fabric, name: &str, hosts: [&str; 2], rate: u64, up: u64, period: u64, phases: u64) -> SimJob {
    let ranks = hosts.iter().map(|h| Endpoint { host: fabric.find(h).unwrap(), rail: 0 }).collect();
    let phase = |k: u64| {
        let start = k * period / phases;
        let (start, end) = (Nanos(start), Nanos(start + up / phases));
        TrafficPhase { start, end, rate: Rate(rate), collective: Collective::Ring, groups: Arc::from([vec![0, 1]]) }
    };
    let job = Job { name: name.into(), gpus: 2, period: Nanos(period), hold: job::Hold::Auto, phases: (0..phases).map(phase).collect() };
    let workload = Workload::of_profile(&job);
    SimJob { job, placement: Placement { ranks }, workload, begins: Nanos(0) }
}

struct World {
    fabric: Fabric,
    jobs: Vec<SimJob>,
    config: Config,
    ahead: bool,
    /// Nobody lies, nothing is lost for long, nothing dies.
    is_tame: bool,
}

const HOSTS: [[&str; 2]; 6] = [["h1", "h5"], ["h2", "h9"], ["h6", "h10"], ["h3", "h7"], ["h4", "h11"], ["h8", "h12"]];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn world(seed: u64) -> World {
    let mut random = Random(seed);
    let fabric = star_of(3, 4, 100);
    let n = 2 + random.below(5) as usize;
    let jobs: Vec<SimJob> = (0..n)
        .map(|j| {
            let period = (30 + random.below(120)) * MS;
            let up = period * (10 + random.below(45)) / 100;
            let rate = [100, 100, 60, 40][random.below(4) as usize];
            let phases = [1, 1, 1, 2, 3][random.below(5) as usize];
            let mut job = job_of(&fabric, NAMES[j], HOSTS[j], rate, up, period, phases);
            job.begins = Nanos(random.below(period));
            job
        })
        .collect();
    let is_tame = random.one_in(2);
    let delay = [0, 50_000, 200_000, 1_000_000, 2_000_000, 5_000_000][random.below(if is_tame { 4 } else { 6 }) as usize];
    let loss = if is_tame { 0 } else { random.below(101) as u32 };
    let way = Way { delay: Nanos(delay), jitter: Nanos(random.below(delay + 1)), loss_permille: loss, resend: Nanos::from_millis(50) };
    let control = TurnsControl {
        groups: Vec::new(),
        way,
        doubled_permille: random.below(100) as u32,
        late_permille: if is_tame { 0 } else { random.below(200) as u32 },
        wake: Nanos(random.below(100_000)),
        turn_max: Nanos(2_000 * MS),
        byte_counters: seed.is_multiple_of(2),
        per_phase: true,
        lost_after: Nanos((100 + random.below(900)) * MS),
        log: true,
    };
    let ahead = random.one_in(2);
    let mut config = Config {
        seed,
        warm_up: 2,
        iterations: 25,
        until: Nanos(60_000 * MS),
        jitter_permille: random.below(80) as u32,
        control: Control::Turns(control),
        ..Config::default()
    };
    if !is_tame {
        faults(&mut random, &mut config, n);
    }
    World { fabric, jobs, config, ahead, is_tame }
}

fn faults(random: &mut Random, config: &mut Config, n: usize) {
    let at = |random: &mut Random| Nanos((100 + random.below(2_500)) * MS);
    for _ in 0..random.below(4) {
        let host = String::from(HOSTS[random.below(n as u64) as usize][0]);
        let job = random.below(n as u64) as u32;
        let (from, lasts) = (at(random), Nanos((20 + random.below(1_500)) * MS));
        let back = Nanos(from.0 + lasts.0);
        match random.below(6) {
            0 => config.faults.extend([Fault::ServiceDies { at: from }, Fault::ServiceReturns { at: back }]),
            1 => config.faults.extend([Fault::AgentDies { host: host.clone(), at: from }, Fault::AgentReturns { host, at: back }]),
            2 => config.faults.push(Fault::Partition { host, at: from, lasts }),
            3 => config.faults.push(Fault::JobRestarts { job, at: from, after: lasts }),
            4 => config.faults.push(Fault::Straggler { job, iteration: random.below(20), extra: lasts }),
            _ => config.faults.push(Fault::ClockStep { host, at: from, by: lasts.0 as i64, lasts }),
        }
    }
    if random.one_in(3) {
        let permille = |random: &mut Random| if random.one_in(2) { 0 } else { random.below(300) as u32 };
        let job = random.below(n as u64) as u32;
        let (never_starts_permille, mute_permille, early_permille) = (permille(random), permille(random), permille(random));
        config.liars.push(Liar { job, never_starts_permille, mute_permille, early_permille });
    }
    if random.one_in(4) {
        let job = random.below(n as u64) as u32;
        config.lifetimes.push(Lifetime {
            job,
            arrives: Nanos(random.below(500) * MS),
            departs: Some(Nanos((600 + random.below(2_000)) * MS)),
        });
    }
}

fn play_world(world: &mut World) -> Report {
    let router = Router::new(&world.fabric, Ecmp::Spread, &[]).unwrap();
    let case = Case { router: &router, jobs: &world.jobs };
    let groups = turn_groups(&case, 1_000, world.ahead).unwrap();
    if let Control::Turns(control) = &mut world.config.control {
        control.groups = groups;
    }
    run(&case, &world.config).unwrap()
}

/// The longest wait that a start may have had: its job's longest iteration so far, or the one that was declared, and what messages take.
fn check_waits(seed: u64, world: &World, starts: &[TurnStart]) -> u64 {
    let Control::Turns(control) = &world.config.control else { unreachable!() };
    let messages = gate_core::ANSWER_WITHIN.0 + 8 * (control.way.delay.0 + control.way.jitter.0) + 10 * MS;
    let mut before: BTreeMap<u32, &TurnStart> = BTreeMap::new();
    let mut longest: Vec<u64> = world.jobs.iter().map(|j| j.job.period.0).collect();
    let mut waits = 0;
    for start in starts {
        let (waited, own) = (start.start.0 - start.ready.0, &mut longest[start.job as usize]);
        waits += u64::from(waited > 0);
        assert!(waited <= control.turn_max.0, "seed {seed}: {start:?} waited for longer than its page allows");
        // An iteration is from the first Up phase to the first.
        if start.phase <= 1
            && let Some(before) = before.insert(start.job, start)
        {
            *own = (*own).max(start.ready.0 - before.start.0);
        }
        // Lost notes make one iteration of two, as the service sees it.
        let times = if world.is_tame { 1 } else { 2 };
        assert!(waited <= times * *own + messages, "seed {seed}: {start:?} waited {waited} ns, an iteration takes {own}");
    }
    waits
}

fn schedules() -> std::ops::Range<u64> {
    let of = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let first = of("FIRST").unwrap_or(0);
    first..first + of("SCHEDULES").unwrap_or(400)
}

#[test]
fn any_schedule_keeps_what_turns_promise() {
    let (mut starts, mut waits, mut whys) = (0, 0, BTreeMap::<(bool, Why), u64>::new());
    for seed in schedules() {
        let mut world = world(seed);
        let report = play_world(&mut world);
        // Everybody who stays did all iterations: nobody starves, whatever happens to the others.
        assert_eq!(report.ended, Ended::Done, "seed {seed}: somebody starves");
        let turns = report.turns.as_ref().unwrap();
        waits += check_waits(seed, &world, &turns.starts);
        starts += turns.starts.len() as u64;
        let Control::Turns(control) = &world.config.control else { unreachable!() };
        let names: Vec<&str> = world.jobs.iter().map(|j| j.job.name.as_str()).collect();
        // Of a start just before the end of the run the service cannot have heard.
        let heard_by = report.to.0.saturating_sub(control.way.delay.0 + control.way.jitter.0);
        let judged: Vec<TurnStart> = turns.starts.iter().filter(|start| start.start.0 < heard_by).cloned().collect();
        for overlap in overlaps(&judged, &control.groups, &names, report.to) {
            let pair = [&judged[overlap.began], &judged[overlap.blamed]];
            if overlap.why == Why::Unexplained {
                let rates: Vec<_> = world.jobs.iter().map(|j| (j.job.phases.len(), j.job.phases[0].rate.0)).collect();
                let there: Vec<_> = judged.iter().filter(|s| s.start <= pair[0].start && s.end.is_none_or(|e| e > pair[0].start)).collect();
                panic!("seed {seed}: {pair:?} among {there:#?}, phases and rates {rates:?}");
            }
            *whys.entry((world.is_tame, overlap.why)).or_default() += 1;
        }
    }
    println!("{} schedules, {starts} starts, {waits} waits, overlaps of opponents by reason (tame or not):", schedules().count());
    whys.iter().for_each(|((is_tame, why), count)| println!("{} {why:?} {count}", if *is_tame { "tame" } else { "wild" }));
    // Nobody wrongs anybody there: no permission is kept, no end is told early, and nobody goes unheard.
    let wrong =
        |(is_tame, why): &(bool, Why)| *is_tame && !matches!(why, Why::LetGo | Why::Lease | Why::Itself(Reason::NotBefore) | Why::Alone);
    assert!(!whys.keys().any(wrong), "{whys:?}");
    assert!(waits * 10 > starts, "{waits} waits in {starts} starts: the schedules test nothing");
}
