//! Random groups and schedules: jobs that pause, die while they send, forget to tell ends, or start by themselves. What the arbiter
//! promises is checked from outside, by what jobs really did.
//!
//! `SCHEDULES=1000000 cargo test --release -p antiphase-turns --test schedules` tries a million.

use antiphase_turns::{Action, Arbiter, Ask, Because, Event, Group, Member, Up, Use, WITHDRAW_WITHIN};
use units::{FabricTime, Nanos, Rate};

const MS: u64 = 1_000_000;
const LIMIT: u64 = 1_000;

/// splitmix64
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next(n) == 0
    }
}

/// What a job really does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Computing {
        until: u64,
    },
    Waiting {
        since: u64,
    },
    /// `told`: whether its end will be told.
    Sending {
        until: u64,
        told: bool,
    },
}

struct Job {
    up: u64,
    down: u64,
    rate: u64,
    links: Vec<u32>,
    doing: Doing,
    /// It has the permission for the next start.
    ahead: bool,
    /// The permission was asked back, and it answers then.
    answers: Option<u64>,
    /// When the permission was asked back.
    asked_back: u64,
    /// The job's own bound when it began to wait.
    bound: u64,
    starts: u64,
    /// Who went before it in this wait.
    overtaken: Vec<usize>,
    /// Who went before it in this wait and took no turns from that start on: the arbiter may have counted it.
    passed: Vec<usize>,
    /// Sending as the arbiter knows it: until the end is told or the lease is over.
    granted: Option<u64>,
    /// Ends that were not told in a row.
    silent: u32,
}

struct World {
    seed: u64,
    random: Random,
    arbiter: Arbiter,
    jobs: Vec<Job>,
    opponents: Vec<Vec<u32>>,
    now: u64,
    /// Jobs of this world misbehave.
    wild: bool,
    waits: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let (n, links) = (2 + random.next(5) as usize, 1 + random.next(3) as u32);
        let wild = random.one_in(2);
        let mut jobs = Vec::new();
        for _ in 0..n {
            let period = (20 + random.next(80)) * MS;
            let up = period * (10 + random.next(50)) / 100;
            let mut on: Vec<u32> = (0..links).filter(|_| random.one_in(2)).collect();
            if on.is_empty() {
                on.push(random.next(u64::from(links)) as u32);
            }
            let rate = [LIMIT, 600, 400, 300][random.next(4) as usize];
            let doing = Doing::Computing { until: random.next(period) };
            let (ahead, answers, granted) = (false, None, None);
            jobs.push(Job {
                up,
                down: period - up,
                rate,
                links: on,
                doing,
                ahead,
                answers,
                asked_back: 0,
                bound: 0,
                starts: 0,
                overtaken: vec![],
                passed: vec![],
                granted,
                silent: 0,
            });
        }
        let meet = |a: &Job, b: &Job| a.links.iter().any(|l| b.links.contains(l));
        let opponents: Vec<Vec<u32>> =
            (0..n).map(|i| (0..n).filter(|&k| k != i && meet(&jobs[i], &jobs[k])).map(|k| k as u32).collect()).collect();
        let member = |(job, opponents): (&Job, &Vec<u32>)| Member {
            iteration: Nanos(job.up + job.down),
            uses: job
                .links
                .iter()
                .map(|&link| Use { link, ups: vec![Up { start: Nanos(0), end: Nanos(job.up), rate: Rate(job.rate) }] })
                .collect(),
            opponents: opponents.clone(),
        };
        let members = jobs.iter().zip(&opponents).map(member).collect();
        let ahead = random.one_in(2);
        let arbiter = Arbiter::new(Group { members, limits: vec![Rate(LIMIT); links as usize], ahead });
        Self { seed, random, arbiter, jobs, opponents, now: 0, wild, waits: 0 }
    }

    fn tell(&mut self, event: Event) {
        self.arbiter.handle(FabricTime(self.now), event);
        while let Some(action) = self.arbiter.poll() {
            self.obey(action);
        }
    }

    fn obey(&mut self, action: Action) {
        let seed = self.seed;
        match action {
            Action::Grant { job, lease, because, .. } => {
                let j = job as usize;
                let Doing::Waiting { since } = self.jobs[j].doing else { panic!("seed {seed}: {job} was granted without asking") };
                let waited = self.now - since;
                assert!(waited <= self.jobs[j].bound, "seed {seed}: {job} waited {waited} ns, its bound is {}", self.jobs[j].bound);
                self.waits += u64::from(waited > 0);
                if because == Because::Free {
                    self.check_free(j);
                }
                for k in 0..self.jobs.len() {
                    // An opponent that came before and still waits was overtaken.
                    let earlier = matches!(self.jobs[k].doing, Doing::Waiting { since: s } if (s, k) < (since, j));
                    if k != j && earlier && self.opponents[k].contains(&job) {
                        match because {
                            Because::Free => {
                                assert!(!self.jobs[k].overtaken.contains(&j), "seed {seed}: {j} overtook {k} twice in one wait");
                                self.jobs[k].overtaken.push(j);
                            }
                            Because::NoEnds => self.jobs[k].passed.push(j),
                            Because::Bound | Because::Open => {}
                        }
                    }
                }
                self.start(j);
                self.jobs[j].granted = Some(self.now + lease.0).filter(|_| because != Because::NoEnds);
            }
            Action::GrantAhead { job } => {
                let j = job as usize;
                assert!(
                    matches!(self.jobs[j].doing, Doing::Computing { .. }),
                    "seed {seed}: {job} was granted ahead, {:?}",
                    self.jobs[j].doing
                );
                for &o in &self.opponents[j] {
                    let other = &self.jobs[o as usize];
                    assert!(
                        self.arbiter.is_open() || !other.ahead || other.answers.is_some(),
                        "seed {seed}: {o} and {job} are granted ahead at once"
                    );
                    assert!(!matches!(other.doing, Doing::Waiting { .. }), "seed {seed}: {job} is granted ahead and {o} waits");
                }
                self.jobs[j].ahead = true;
            }
            Action::Hold { job, at_most } => {
                assert!(matches!(self.jobs[job as usize].doing, Doing::Waiting { .. }), "seed {seed}: {job} is held and does not wait");
                assert!(at_most.0 <= self.jobs[job as usize].bound);
            }
            Action::Withdraw { job } => {
                let late = if self.wild && self.random.one_in(4) { 2 * WITHDRAW_WITHIN.0 } else { self.random.next(MS) };
                self.jobs[job as usize].answers = Some(self.now + late);
                self.jobs[job as usize].asked_back = self.now;
            }
        }
    }

    /// No opponent that the arbiter knows to send makes a link exceed its limit together with `j`.
    fn check_free(&self, j: usize) {
        for &link in &self.jobs[j].links {
            let sends = |o: &&u32| self.jobs[**o as usize].granted.is_some_and(|lease| lease > self.now);
            let others: Vec<u32> =
                self.opponents[j].iter().filter(|o| self.jobs[**o as usize].links.contains(&link)).filter(sends).copied().collect();
            let sum: u64 = others.iter().map(|&o| self.jobs[o as usize].rate).sum();
            let ahead = self.opponents[j].iter().find(|&&o| self.may_start(o as usize) && self.jobs[o as usize].links.contains(&link));
            assert!(ahead.is_none(), "seed {}: at {} job {j} was granted beside {ahead:?}, which need not ask", self.seed, self.now);
            assert!(
                others.is_empty() || sum + self.jobs[j].rate <= LIMIT,
                "seed {}: at {} job {j} was granted beside {others:?} on link {link}: {} of {LIMIT}",
                self.seed,
                self.now,
                sum + self.jobs[j].rate
            );
        }
    }

    /// Whether `k` may still start without asking, as far as the arbiter can know.
    fn may_start(&self, k: usize) -> bool {
        let job = &self.jobs[k];
        job.ahead && (job.answers.is_none() || self.now < job.asked_back + WITHDRAW_WITHIN.0)
    }

    /// Whoever waits has somebody in its way: on one of its links it does not fit beside those that send, somebody may start there without
    /// asking, or it has overtaken an opponent that still waits.
    fn check_prompt(&self) {
        if self.arbiter.deadline().is_some_and(|at| at.0 <= self.now) {
            return;
        }
        for (j, job) in self.jobs.iter().enumerate() {
            let Doing::Waiting { .. } = job.doing else { continue };
            let others = || self.opponents[j].iter().map(|o| (*o as usize, &self.jobs[*o as usize]));
            let is_full = |link: &u32| {
                let sends = others().filter(|(_, o)| o.links.contains(link) && o.granted.is_some_and(|lease| lease > self.now));
                sends.map(|(_, o)| o.rate).sum::<u64>() + job.rate > LIMIT
                    || others().any(|(k, o)| o.links.contains(link) && self.may_start(k))
            };
            let overtook =
                others().any(|(_, o)| matches!(o.doing, Doing::Waiting { .. }) && (o.overtaken.contains(&j) || o.passed.contains(&j)));
            assert!(overtook || job.links.iter().any(is_full), "seed {}: at {} job {j} waits for nobody", self.seed, self.now);
        }
    }

    fn start(&mut self, j: usize) {
        let silent = self.wild && self.random.one_in(6);
        let slow = if self.wild && self.random.one_in(8) { 2 } else { 1 };
        let job = &mut self.jobs[j];
        job.overtaken.clear();
        job.passed.clear();
        job.starts += 1;
        job.doing = Doing::Sending { until: self.now + slow * job.up, told: !silent };
        (job.ahead, job.answers) = (false, None);
    }

    fn next_time(&self) -> u64 {
        let of = |job: &Job| {
            let doing = match job.doing {
                Doing::Computing { until } | Doing::Sending { until, .. } => until,
                Doing::Waiting { since } => since + job.bound,
            };
            doing.min(job.answers.unwrap_or(u64::MAX))
        };
        let jobs = self.jobs.iter().map(of).min().expect("invariant: a world has jobs");
        self.arbiter.deadline().map_or(jobs, |at| at.0.min(jobs))
    }

    fn step(&mut self) {
        self.now = self.next_time().max(self.now);
        if self.arbiter.deadline().is_some_and(|at| at.0 <= self.now) {
            self.tell(Event::Tick);
            assert!(self.arbiter.deadline().is_none_or(|at| at.0 > self.now), "seed {}: a tick leaves something due", self.seed);
        }
        if self.wild && self.random.one_in(40) {
            let open = !self.arbiter.is_open();
            self.arbiter.set_open(FabricTime(self.now), open);
            while let Some(action) = self.arbiter.poll() {
                self.obey(action);
            }
        }
        for j in 0..self.jobs.len() {
            let job = j as u32;
            if self.jobs[j].answers.is_some_and(|at| at <= self.now) {
                (self.jobs[j].ahead, self.jobs[j].answers) = (false, None);
                self.tell(Event::Withdrawn { job });
            }
            match self.jobs[j].doing {
                Doing::Computing { until } if until <= self.now => self.ready(j),
                Doing::Sending { until, told } if until <= self.now => {
                    let (up, pause) = (self.jobs[j].up, if self.wild && self.random.one_in(10) { 400 * MS } else { 0 });
                    let jitter = self.random.next(self.jobs[j].down / 20 + 1);
                    self.jobs[j].doing = Doing::Computing { until: self.now + self.jobs[j].down + jitter + pause };
                    self.jobs[j].silent = if told { 0 } else { self.jobs[j].silent + 1 };
                    if told {
                        self.jobs[j].granted = None;
                        self.tell(Event::Ended { job, sent: Nanos(up) });
                    }
                }
                Doing::Waiting { since } if since + self.jobs[j].bound < self.now => {
                    panic!("seed {}: {j} waits beyond its bound", self.seed);
                }
                _ => {}
            }
        }
    }

    fn ready(&mut self, j: usize) {
        let (job, ask) = (j as u32, Ask::Iteration);
        self.jobs[j].granted = None;
        if self.jobs[j].ahead || (self.wild && self.random.one_in(12)) {
            self.start(j);
            self.jobs[j].granted = Some(u64::MAX);
            self.tell(Event::Started { job, ask, age: Nanos(0) });
            self.jobs[j].granted = self.arbiter.sends_until(job).map(|lease| lease.0);
        } else {
            self.jobs[j].doing = Doing::Waiting { since: self.now };
            self.arbiter.handle(FabricTime(self.now), Event::Ready { job, ask });
            let bound = self.arbiter.bound(job).0;
            let real = self.jobs[j].up + self.jobs[j].down + self.jobs[j].down / 20 + 1;
            assert!(self.wild || bound <= real, "seed {}: {j} may wait {bound} ns, and its iteration takes {real}", self.seed);
            self.jobs[j].bound = bound;
            while let Some(action) = self.arbiter.poll() {
                self.obey(action);
            }
        }
    }
}

fn schedules() -> u64 {
    std::env::var("SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000)
}

#[test]
fn any_schedule_keeps_what_is_promised() {
    let (mut waits, mut starts) = (0, 0);
    for seed in 0..schedules() {
        let mut world = World::new(seed);
        for _ in 0..120 {
            world.step();
            world.check_prompt();
        }
        waits += world.waits;
        starts += world.jobs.iter().map(|j| j.starts).sum::<u64>();
    }
    assert!(waits * 20 > starts, "{waits} waits in {starts} starts: the schedules test nothing");
    println!("{} schedules, {starts} starts, {waits} waits", schedules());
}

/// A job that nobody wrongs: everybody starts again and again.
#[test]
fn nobody_starves() {
    for seed in 0..schedules() / 4 {
        let mut world = World::new(seed);
        world.wild = false;
        // Two hundred iterations of the longest.
        let end = 20_000 * MS;
        while world.now < end {
            world.step();
        }
        for (j, job) in world.jobs.iter().enumerate() {
            // No iteration is longer than the job's own and a wait of as much again.
            let least = end / (2 * (job.up + job.down + job.down / 20)) - 2;
            assert!(job.starts >= least, "seed {seed}: job {j} started {} times in {end} ns, expected {least}", job.starts);
        }
    }
}

/// An arbiter that tells nobody how long to wait grants the same at the same times.
#[test]
fn without_holds_the_grants_are_the_same() {
    let mut held = 0;
    for seed in 0..300 {
        let mut random = Random(seed);
        let n = 2 + random.next(6) as u32;
        let others = |j: u32| (0..n).filter(|o| *o != j).collect::<Vec<u32>>();
        let member = |j: u32| {
            let up = |random: &mut Random| {
                let start = random.next(50) * MS;
                vec![Up { start: Nanos(start), end: Nanos(start + (5 + random.next(40)) * MS), rate: Rate(300 + random.next(700)) }]
            };
            let first = Use { link: random.next(2) as u32, ups: up(&mut random) };
            let second = Use { link: 2, ups: up(&mut random) };
            Member { iteration: Nanos(100 * MS), uses: vec![first, second], opponents: others(j) }
        };
        let group = Group { members: (0..n).map(member).collect(), limits: vec![Rate(LIMIT); 3], ahead: seed % 2 == 0 };
        let (mut telling, mut silent) = (Arbiter::new(group.clone()), Arbiter::without_holds(group));
        let mut now = 0;
        for _ in 0..200 {
            now += random.next(20) * MS;
            let due = telling.deadline();
            assert_eq!(silent.deadline(), due, "seed {seed}");
            let job = random.next(u64::from(n)) as u32;
            let event = match (due, random.next(4)) {
                (Some(due), 0) => {
                    now = now.max(due.0);
                    Event::Tick
                }
                (_, 1) => Event::Ended { job, sent: Nanos((1 + random.next(60)) * MS) },
                _ => Event::Ready { job, ask: if random.one_in(2) { Ask::Iteration } else { Ask::Phase(random.next(2) as u32) } },
            };
            telling.handle(FabricTime(now), event);
            silent.handle(FabricTime(now), event);
            let is_hold = |a: &Action| matches!(a, Action::Hold { .. });
            let all: Vec<Action> = core::iter::from_fn(|| telling.poll()).collect();
            held += all.iter().filter(|a| is_hold(a)).count();
            let told: Vec<Action> = core::iter::from_fn(|| silent.poll()).collect();
            assert_eq!(told, all.into_iter().filter(|a| !is_hold(a)).collect::<Vec<_>>(), "seed {seed}");
        }
    }
    assert!(held > 100, "{held}");
}
