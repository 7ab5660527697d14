//! Jobs that grow onto idle GPUs under Gandiva, and shrink again.

use antiphase_policy::{
    muri::Timing,
    schedule::{Cluster, Decision, GandivaOptions, Job, JobIndex, Reason, Rule, Scheduler},
};
use proptest::prelude::*;

use crate::{ONE_HOST, decide, job, profiles, scheduler_timed};

/// The profile that only computes for long: 388 of 437 ms on however many GPUs, and 49 ms of sending.
const COMPUTES: u16 = 1;

fn grower(gpus: u32, gpus_max: u32) -> Job {
    Job { gpus_max, alone_s: profiles()[usize::from(COMPUTES)].iteration_s, ..job(gpus, COMPUTES, 1e6) }
}

fn gandiva(cluster: Cluster, options: GandivaOptions) -> Scheduler {
    scheduler_timed(Rule::Gandiva(options), cluster, Timing::Paper)
}

/// GPUs that a job has of each host.
fn has(decision: &Decision, job: JobIndex) -> Vec<(u32, u32)> {
    let mut has: Vec<(u32, u32)> =
        decision.places.iter().filter(|place| place.group == job).map(|place| (place.host, place.gpus)).collect();
    has.sort_unstable();
    has
}

fn reason(decision: &Decision, job: JobIndex) -> Reason {
    decision.reasons[decision.runs.iter().position(|run| run.job == job).expect("a run")]
}

/// The share of an iteration on so many GPUs.
fn share_on(asked: u32, has: u32) -> f64 {
    (0.049 + 0.388 * f64::from(asked) / f64::from(has)) / 0.437
}

/// When idle GPUs have been idle for so long that growing from one number to another pays for two restarts of 10 s.
fn wait_s(asked: u32, from: u32, to: u32) -> f64 {
    20.0 / (1.0 - share_on(asked, to) / share_on(asked, from))
}

#[test]
fn a_job_grows_when_gpus_have_been_idle_and_shrinks_as_soon_as_others_get_them() {
    let mut jobs = vec![grower(2, 6), grower(4, 4), grower(2, 2)];
    let mut scheduler = gandiva(ONE_HOST, GandivaOptions::default());
    scheduler.arrive(0);
    let first = decide(&mut scheduler, 100.0, &mut jobs);
    assert_eq!((has(&first, 0), reason(&first, 0)), (vec![(0, 2)], Reason::Turns { members: 1, share: 1.0 }));
    // Six are idle since 100 s, of which it could use four.
    let due_s = scheduler.next_change_s(100.0, &jobs);
    assert!((due_s - 100.0 - wait_s(2, 2, 6)).abs() < 1e-9, "{due_s}");
    assert_eq!(has(&decide(&mut scheduler, due_s - 0.001, &mut jobs), 0), [(0, 2)], "too early");
    let grown = decide(&mut scheduler, due_s, &mut jobs);
    assert_eq!(has(&grown, 0), [(0, 6)]);
    assert!((grown.runs[0].iteration_s - 0.437 * share_on(2, 6)).abs() < 1e-12);
    let Reason::Grown { asked: 2, has: 6, share } = reason(&grown, 0) else { panic!("{:?}", grown.reasons) };
    assert!((share - share_on(2, 6)).abs() < 1e-12);
    assert!(scheduler.next_change_s(due_s, &jobs).is_infinite(), "it has all that it can use");
    // One of two GPUs comes: two are idle, and nobody shrinks.
    scheduler.arrive(2);
    assert_eq!(has(&decide(&mut scheduler, 200.0, &mut jobs), 0), [(0, 6)]);
    // One of four comes: it has its GPUs at once, in the decision in which the other shrinks to what it asked for.
    scheduler.arrive(1);
    let shrunk = decide(&mut scheduler, 210.0, &mut jobs);
    assert_eq!((has(&shrunk, 0), has(&shrunk, 1), has(&shrunk, 2)), (vec![(0, 2)], vec![(0, 4)], vec![(0, 2)]));
    assert_eq!((shrunk.runs[0].iteration_s, reason(&shrunk, 0)), (jobs[0].alone_s, Reason::Turns { members: 1, share: 1.0 }));
    // When it leaves, its GPUs are idle from then on.
    scheduler.leave(1, &jobs);
    decide(&mut scheduler, 300.0, &mut jobs);
    assert!((scheduler.next_change_s(300.0, &jobs) - 300.0 - wait_s(2, 2, 6)).abs() < 1e-9);
}

#[test]
fn a_job_that_has_grown_grows_on_when_more_is_idle() {
    let mut jobs = vec![grower(2, 8), grower(4, 4)];
    let mut scheduler = gandiva(ONE_HOST, GandivaOptions::default());
    (0..2).for_each(|job| scheduler.arrive(job));
    decide(&mut scheduler, 0.0, &mut jobs);
    let due_s = scheduler.next_change_s(0.0, &jobs);
    assert_eq!(has(&decide(&mut scheduler, due_s, &mut jobs), 0), [(0, 4)]);
    scheduler.leave(1, &jobs);
    assert_eq!(has(&decide(&mut scheduler, 500.0, &mut jobs), 0), [(0, 4)], "nothing was idle before");
    let due_s = scheduler.next_change_s(500.0, &jobs);
    assert!((due_s - 500.0 - wait_s(2, 4, 8)).abs() < 1e-9, "{due_s}");
    assert_eq!(has(&decide(&mut scheduler, due_s, &mut jobs), 0), [(0, 8)]);
    // A host that goes down takes what it grew onto with it; when it is back the job begins with what it asks for.
    scheduler.lose(0);
    scheduler.fall(600.0, 0, &jobs);
    assert!(decide(&mut scheduler, 600.0, &mut jobs).runs.is_empty());
    scheduler.regain(0);
    assert_eq!(has(&decide(&mut scheduler, 700.0, &mut jobs), 0), [(0, 2)]);
    assert!((scheduler.next_change_s(700.0, &jobs) - 700.0 - wait_s(2, 2, 8)).abs() < 1e-9);
}

#[test]
fn who_is_due_first_grows_first_and_the_last_to_grow_shrinks_first() {
    // On six idle GPUs both could have four; the first takes them, and the second what is left.
    let mut jobs = vec![grower(1, 5), grower(1, 5), grower(2, 2)];
    let mut scheduler = gandiva(ONE_HOST, GandivaOptions::default());
    (0..2).for_each(|job| scheduler.arrive(job));
    decide(&mut scheduler, 0.0, &mut jobs);
    let due_s = scheduler.next_change_s(0.0, &jobs);
    let one = decide(&mut scheduler, due_s, &mut jobs);
    assert_eq!((has(&one, 0), has(&one, 1)), (vec![(0, 5)], vec![(0, 1)]), "two are worth waiting for longer");
    let due_s = scheduler.next_change_s(due_s, &jobs);
    assert!((due_s - wait_s(1, 1, 3)).abs() < 1e-9, "{due_s}");
    let both = decide(&mut scheduler, due_s, &mut jobs);
    assert_eq!((has(&both, 0), has(&both, 1)), (vec![(0, 5)], vec![(0, 3)]));
    // Somebody wants two: the second gives back its own, and the first stays.
    scheduler.arrive(2);
    let shrunk = decide(&mut scheduler, 100.0, &mut jobs);
    assert_eq!((has(&shrunk, 0), has(&shrunk, 1), has(&shrunk, 2)), (vec![(0, 5)], vec![(0, 1)], vec![(0, 2)]));
    // Who could use more is worth waiting for less, and is due first although it came last.
    let mut jobs = vec![grower(1, 2), grower(1, 7)];
    let mut scheduler = gandiva(ONE_HOST, GandivaOptions::default());
    (0..2).for_each(|job| scheduler.arrive(job));
    decide(&mut scheduler, 0.0, &mut jobs);
    let due_s = scheduler.next_change_s(0.0, &jobs);
    let one = decide(&mut scheduler, due_s, &mut jobs);
    assert_eq!((has(&one, 0), has(&one, 1)), (vec![(0, 1)], vec![(0, 7)]));
}

#[test]
fn a_job_grows_on_its_own_hosts_only_and_not_while_anybody_shares_or_waits() {
    const HOSTS: Cluster = Cluster { hosts: 3, gpus_per_host: 4 };
    // Six GPUs stand on two hosts, and grow on the second; the third is idle all the time.
    let mut jobs = vec![grower(6, 12), grower(4, 4), grower(4, 4), grower(5, 5)];
    let mut scheduler = gandiva(HOSTS, GandivaOptions::default());
    scheduler.arrive(0);
    decide(&mut scheduler, 0.0, &mut jobs);
    let due_s = scheduler.next_change_s(0.0, &jobs);
    assert!((due_s - wait_s(6, 6, 8)).abs() < 1e-9, "{due_s}");
    assert_eq!(has(&decide(&mut scheduler, due_s, &mut jobs), 0), [(0, 4), (1, 4)]);
    // Two jobs of four take turns on the third: the first keeps what is in nobody's way, and nobody could grow now.
    (1..3).for_each(|job| scheduler.arrive(job));
    assert_eq!(has(&decide(&mut scheduler, 1_000.0, &mut jobs), 0), [(0, 4), (1, 4)]);
    let mut late = gandiva(HOSTS, GandivaOptions { packing: false, ..GandivaOptions::default() });
    (0..3).for_each(|job| late.arrive(job));
    decide(&mut late, 0.0, &mut jobs);
    assert!(late.next_change_s(0.0, &jobs).is_infinite());
    // Nor while somebody waits for five.
    late.leave(2, &jobs);
    late.arrive(3);
    let waits = decide(&mut late, 1.0, &mut jobs);
    assert_eq!((waits.runs.len(), late.next_change_s(1.0, &jobs)), (2, f64::INFINITY));
    late.leave(3, &jobs);
    decide(&mut late, 2.0, &mut jobs);
    assert!(late.next_change_s(2.0, &jobs) < 1_000.0, "nobody waits any more");
}

#[test]
fn what_a_job_gives_back_is_idle_from_then_on() {
    const HOSTS: Cluster = Cluster { hosts: 2, gpus_per_host: 4 };
    let mut jobs = vec![grower(2, 2), grower(1, 1), grower(4, 8), grower(1, 1)];
    let mut scheduler = gandiva(HOSTS, GandivaOptions { migration: false, ..GandivaOptions::default() });
    (0..3).for_each(|job| scheduler.arrive(job));
    assert_eq!(has(&decide(&mut scheduler, 0.0, &mut jobs), 2), [(0, 1), (1, 3)]);
    scheduler.leave(1, &jobs);
    decide(&mut scheduler, 10.0, &mut jobs);
    assert_eq!(has(&decide(&mut scheduler, 500.0, &mut jobs), 2), [(0, 2), (1, 4)]);
    // Somebody comes to the second host. On the first nothing changes but for what the job gives back.
    scheduler.arrive(3);
    let shrunk = decide(&mut scheduler, 600.0, &mut jobs);
    assert_eq!((has(&shrunk, 2), has(&shrunk, 3)), (vec![(0, 1), (1, 3)], vec![(1, 1)]));
    let due_s = scheduler.next_change_s(600.0, &jobs);
    assert!((due_s - 600.0 - wait_s(4, 4, 5)).abs() < 1e-9, "{due_s}");
}

#[test]
fn nobody_grows_whom_it_brings_nothing_or_who_must_not() {
    let mut jobs = vec![grower(2, 8)];
    let mut without = gandiva(ONE_HOST, GandivaOptions { growth: false, ..GandivaOptions::default() });
    without.arrive(0);
    decide(&mut without, 0.0, &mut jobs);
    assert!(without.next_change_s(0.0, &jobs).is_infinite());
    assert_eq!(has(&decide(&mut without, 1e9, &mut jobs), 0), [(0, 2)]);
    // Who may not grow does not.
    jobs[0].gpus_max = 2;
    let mut scheduler = gandiva(ONE_HOST, GandivaOptions::default());
    scheduler.arrive(0);
    decide(&mut scheduler, 0.0, &mut jobs);
    assert!(scheduler.next_change_s(0.0, &jobs).is_infinite());
}

/// What happens to the jobs of a random world.
#[derive(Clone, Debug)]
enum Event {
    Comes { gpus: u32, beyond: u32, profile: u16 },
    Ends(usize),
    Turns(u32),
}

fn events() -> impl Strategy<Value = Vec<(u16, Event)>> {
    let comes =
        (0_usize..4, 0_u32..9, 0_u16..3).prop_map(|(size, beyond, profile)| Event::Comes { gpus: [1, 2, 4, 6][size], beyond, profile });
    let event = prop_oneof![4 => comes, 4 => (0_usize..64).prop_map(Event::Ends), 1 => (0_u32..3).prop_map(Event::Turns)];
    prop::collection::vec((0_u16..400, event), 1..60)
}

/// Two schedulers to which the same happens, of which one does not know that jobs may grow.
struct Twins {
    grows: Scheduler,
    stays: Scheduler,
    jobs: Vec<Job>,
    same: Vec<Job>,
    live: Vec<JobIndex>,
    is_out: [bool; 3],
    stayed: Decision,
    /// GPUs that jobs have beyond those that they asked for.
    beyond: u32,
}

impl Twins {
    fn happens(&mut self, now_s: f64, event: &Event) {
        match *event {
            Event::Comes { gpus, beyond, profile } => {
                let alone_s = profiles()[usize::from(profile)].iteration_s;
                let came = Job { gpus_max: gpus + beyond, alone_s, ..job(gpus, profile, 1e6) };
                self.live.push(self.jobs.len() as JobIndex);
                self.jobs.push(came);
                self.same.push(Job { gpus_max: gpus, ..came });
                [&mut self.grows, &mut self.stays].into_iter().for_each(|scheduler| scheduler.arrive(self.live[self.live.len() - 1]));
            }
            Event::Ends(at) if !self.live.is_empty() => {
                let job = self.live.remove(at % self.live.len());
                self.grows.leave(job, &self.jobs);
                self.stays.leave(job, &self.same);
            }
            Event::Ends(_) => {}
            Event::Turns(host) => {
                let out = &mut self.is_out[host as usize];
                *out = !*out;
                if !*out {
                    [&mut self.grows, &mut self.stays].into_iter().for_each(|scheduler| scheduler.regain(host));
                    return;
                }
                [&mut self.grows, &mut self.stays].into_iter().for_each(|scheduler| scheduler.lose(host));
                let gone = |group: u32| self.stayed.places.iter().any(|place| place.group == group && place.host == host);
                let fallen: Vec<JobIndex> =
                    self.stayed.runs.iter().filter(|run| self.live.contains(&run.job) && gone(run.group)).map(|run| run.job).collect();
                for job in fallen {
                    self.grows.fall(now_s, job, &self.jobs);
                    self.stays.fall(now_s, job, &self.same);
                }
            }
        }
    }

    /// Who runs, with whom, where and how fast is the same but for what some have beyond, which is nobody else's.
    fn compare(&mut self, now_s: f64) {
        let grown = decide(&mut self.grows, now_s, &mut self.jobs);
        grown.check_there(self.grows.capacity()).expect("hosts that are there");
        let who = |decision: &Decision| decision.runs.iter().map(|run| (run.job, run.group)).collect::<Vec<_>>();
        assert_eq!(who(&grown), who(&self.stayed));
        let mut load = [0_u32; 3];
        self.beyond = 0;
        grown.places.iter().for_each(|place| load[place.host as usize] += place.gpus);
        for (run, twin) in grown.runs.iter().zip(&self.stayed.runs) {
            let (j, own, theirs) = (&self.jobs[run.job as usize], has(&grown, run.group), has(&self.stayed, run.group));
            let gpus: u32 = own.iter().map(|(_, gpus)| gpus).sum();
            assert!((j.gpus..=j.gpus_max.max(j.gpus)).contains(&gpus), "{run:?} has {gpus}");
            if gpus == j.gpus {
                assert_eq!((own, run.iteration_s), (theirs, twin.iteration_s));
                continue;
            }
            self.beyond += gpus - j.gpus;
            // On the same hosts, of none of which more is given than it has, and faster.
            assert!(own.iter().map(|part| part.0).eq(theirs.iter().map(|part| part.0)));
            assert!(own.iter().zip(&theirs).all(|(own, theirs)| own.1 >= theirs.1 && load[own.0 as usize] <= 4), "{grown:?}");
            assert!(run.iteration_s < twin.iteration_s && grown.runs.iter().filter(|other| other.group == run.group).count() == 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Growth is in nobody's way: whatever happens, everybody runs, waits and shares as where nobody grows, and growing is all that the decisions in between do.
    #[test]
    fn nobody_waits_shares_or_moves_because_another_has_grown(events in events()) {
        const HOSTS: Cluster = Cluster { hosts: 3, gpus_per_host: 4 };
        let scheduler = || gandiva(HOSTS, GandivaOptions::default());
        let (grows, stays, stayed) = (scheduler(), scheduler(), Decision::default());
        let (jobs, same, live) = (Vec::new(), Vec::new(), Vec::new());
        let mut twins = Twins { grows, stays, jobs, same, live, is_out: [false; 3], stayed, beyond: 0 };
        let mut now_s = 0.0;
        for (after_s, event) in &events {
            let until_s = now_s + f64::from(*after_s);
            // Only the scheduler whose jobs grow asks to decide in between.
            prop_assert!(twins.stays.next_change_s(now_s, &twins.same).is_infinite());
            for decisions in 0.. {
                let next_s = twins.grows.next_change_s(now_s, &twins.jobs);
                if next_s >= until_s {
                    break;
                }
                prop_assert!(next_s >= now_s && decisions < 64, "{next_s} after {now_s}");
                now_s = next_s;
                let before = twins.beyond;
                twins.compare(now_s);
                prop_assert!(twins.beyond > before, "what was due happens");
            }
            now_s = until_s;
            twins.happens(now_s, event);
            let mut stayed = Decision::default();
            twins.stays.decide(now_s, &twins.same, &mut stayed);
            twins.stayed = stayed;
            twins.compare(now_s);
        }
    }
}
