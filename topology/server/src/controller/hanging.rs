//! A disk that hangs and loses sectors, under the real state machine and the real state file, in virtual time and from a seed.
//!
//! A write takes milliseconds, or hangs for up to minutes; then it succeeds, or some or all of its syncs fail. Clients give up after
//! [`PATIENCE`], as requests do after `limits.request_s`, and then do not know: who has committed asks again by the key. The process is
//! killed or stopped now and then, or the power goes and takes what was not synced, also while a sync hangs, and while the next process
//! starts; sectors rot meanwhile. What clients saw has to have an order, and readiness has to say what is so.
//! `ANTIPHASE_SEED=n cargo test -p antiphase-topology hangs` plays one run, `ANTIPHASE_HANGS=n` as many runs.

mod disk;
#[path = "../../tests/support/order.rs"]
mod order;
mod restart;
#[path = "../../../store/tests/sectors/mod.rs"]
mod sectors;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use plan::Control;
use serde_json::json;
use state::{Action, Change, Commit, Config, Event, Record, Refusal, Reply, RequestId, Service, Ticket};
use store::{Revision, StateFile, Store as _, StoreError};
use units::{FabricTime, Nanos};

use self::{
    disk::{Disk, Left},
    order::{Op, Seen, ends},
    restart::Contents,
};
use super::adapter;
use crate::{
    resolve,
    writer::{self, HANGS_AFTER, StoreHealth},
};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// After so long a client gives up: the default of `limits.request_s`.
const PATIENCE: Nanos = Nanos(30 * S);
/// How often the writer tries a store in doubt.
const RESYNC: Nanos = Nanos(5 * S);
/// Runs, unless `ANTIPHASE_HANGS` says otherwise, and what happens in each.
const RUNS: u64 = 5;
const STEPS: usize = 260;
const CLIENTS: usize = 4;
/// Fewer than clients, so that they meet.
const JOBS: u64 = 3;
/// Hosts of the testbed.
const HOSTS: u64 = 24;
/// More syncs than one append has, with the file written anew.
const SYNCS_MAX: u32 = 12;

type Entry = order::Entry<u64>;

/// Marsaglia, "Xorshift RNGs", 2003.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a client waits for.
#[derive(Clone, Debug)]
struct Asked {
    name: String,
    hosts: Option<[String; 2]>,
    /// Of a commit.
    key: String,
    /// When the first request of this kind began, and until when this one is waited for.
    began: u64,
    until: FabricTime,
    request: RequestId,
    again: bool,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    unknown: usize,
    asked_again: usize,
    as_the_first: usize,
    refused: usize,
    hung: usize,
    unready: usize,
    /// Ends of the process, ends of the machine, and stops.
    kills: usize,
    power_cuts: usize,
    stops: usize,
    /// Power cuts while a process started.
    again: usize,
    /// Rotten files that were refused, and those that held all.
    rotten_refused: usize,
    rotten_whole: usize,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.counts_mut().into_iter().zip(other.clone().counts_mut()).for_each(|(count, more)| *count += *more);
    }

    fn counts_mut(&mut self) -> [&mut usize; 12] {
        let Self {
            unknown,
            asked_again,
            as_the_first,
            refused,
            hung,
            unready,
            kills,
            power_cuts,
            stops,
            again,
            rotten_refused,
            rotten_whole,
        } = self;
        [unknown, asked_again, as_the_first, refused, hung, unready, kills, power_cuts, stops, again, rotten_refused, rotten_whole]
    }
}

struct World {
    dice: Dice,
    /// Whether anything goes wrong.
    storm: bool,
    now: FabricTime,
    /// Counts beginnings and answers.
    moment: u64,
    service: Service,
    disk: Arc<Mutex<Disk>>,
    /// There is one but between two processes.
    store: Option<StateFile>,
    revision: Revision,
    /// What was acknowledged last, and before that.
    acknowledged: [Contents; 2],
    lives: u64,
    health: StoreHealth,
    /// Virtual time, as readiness counts it.
    zero: (Instant, FabricTime),
    writing: Option<(Ticket, Vec<Record>, FabricTime, FabricTime)>,
    resync: FabricTime,
    failed: bool,
    clients: [Option<Asked>; CLIENTS],
    next: u64,
    histories: BTreeMap<String, Vec<Entry>>,
    /// Refused while the store is in doubt: a kill may bring them back.
    doubtful: Vec<(String, Entry)>,
    /// Keys of commits whose clients have given up, and the plan versions of those that came into force.
    given_up: BTreeMap<RequestId, String>,
    truth: BTreeMap<String, u64>,
    tally: Tally,
    folder: tempfile::TempDir,
}

fn config() -> Config {
    // By slots, because a search for turns takes most of a commit in a debug build.
    Config { control: Control::Slots, ..Config::default() }
}

/// A file on a disk that has this of it, and on which everything ends at that sync.
fn open(path: PathBuf, left: Option<Left>, end_at: Option<u32>) -> (Arc<Mutex<Disk>>, Result<StateFile, StoreError>) {
    let disk = Arc::new(Mutex::new(Disk::of(path.clone(), left, end_at)));
    let guard = Arc::clone(&disk);
    let opened = StateFile::open_guarded(&path, Arc::new(move || guard.lock().unwrap().sync()));
    (disk, opened)
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (disk, store) = open(folder.path().join("life-0.redb"), None, None);
        let mut store = store.unwrap();
        disk.lock().unwrap().passed();
        let loaded = store.load().unwrap();
        let now = FabricTime(1_000_000 * S);
        let mut world = Self {
            dice: Dice(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            storm: false,
            now,
            moment: 0,
            service: adapter::restore(&config(), now, loaded.records).unwrap(),
            disk,
            store: Some(store),
            revision: loaded.revision,
            acknowledged: Default::default(),
            lives: 0,
            health: StoreHealth::default(),
            zero: (Instant::now(), now),
            writing: None,
            resync: now,
            failed: false,
            clients: Default::default(),
            next: 0,
            histories: BTreeMap::new(),
            doubtful: Vec::new(),
            given_up: BTreeMap::new(),
            truth: BTreeMap::new(),
            tally: Tally::default(),
            folder,
        };
        let text = include_str!("../../../../examples/testbed/fabric.yaml");
        let fabric = Arc::new(fabric::native::read(text).unwrap());
        let change = Change::SetFabric { fabric, text: text.into(), jobs: Vec::new(), if_fabric: None, by: None };
        let request = world.request();
        world.handle(Event::Asked { request, change });
        while world.service.view().fabric().is_none() {
            world.pass(Nanos(S));
        }
        world.storm = true;
        world
    }

    fn request(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next)
    }

    fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn instant(&self) -> Instant {
        self.zero.0 + Duration::from_nanos(self.now.since(self.zero.1).0)
    }

    fn step(&mut self) {
        // A stop needs a moment in which nothing is written, and most others one in which something is.
        if self.dice.chance(2) {
            self.restart();
        }
        for client in 0..CLIENTS {
            if self.clients[client].is_none() {
                self.ask(client);
            }
        }
        self.is_ready();
        if self.dice.chance(3) {
            self.restart();
        }
        let later = [MS, 50 * MS, S, 20 * S][self.dice.below(4) as usize];
        let later = Nanos(1 + self.dice.below(later));
        self.pass(later);
    }

    /// A client that waits for nothing reads, or asks for a change.
    fn ask(&mut self, client: usize) {
        let name = format!("j{}", self.dice.below(JOBS));
        match self.dice.below(5) {
            0 | 1 => {
                // Pairs of hosts in turn, so that the same one comes again only after hundreds of commits.
                let value = self.next;
                let hosts = [1 + value % HOSTS, 1 + (value + 1 + value / HOSTS % (HOSTS - 1)) % HOSTS].map(|host| format!("h{host}"));
                let key = format!("key-{value}");
                self.send(client, Asked { name, hosts: Some(hosts), key, ..Asked::nothing() });
            }
            2 => self.send(client, Asked { name, ..Asked::nothing() }),
            _ => {
                // A read is answered at once, and shows what is durable.
                let (began, answered) = (self.moment(), self.moment());
                for job in (0..JOBS).map(|job| format!("j{job}")) {
                    let seen = self.service.view().job(&job).map(|seen| seen.planned().hosts.join(","));
                    self.histories.entry(job).or_default().push(Entry { op: Op::Reads(seen), began, answered: Some(answered) });
                }
            }
        }
    }

    fn send(&mut self, client: usize, mut asked: Asked) {
        let request = self.request();
        if !asked.again {
            asked.began = self.moment();
        }
        (asked.request, asked.until) = (request, self.now.saturating_add(PATIENCE));
        let change = match &asked.hosts {
            None => Change::Release { jobs: vec![asked.name.clone()], by: None },
            Some(hosts) => {
                let view = self.service.view();
                let phase = json!({ "start_ns": 0, "duration_ns": 40 * MS, "rate_mbps": 45_000, "collective": "ring", "scope": "data" });
                let profile = json!({
                    "schema": "antiphase.profile/v1", "name": "p", "period_ns": 100 * MS, "phases": [phase], "ranks": { "dp": 2 },
                    "source": "declared",
                });
                let document = serde_json::from_value(json!({ "id": asked.name, "profile": profile, "hosts": hosts })).unwrap();
                let jobs = resolve::definitions(view.fabric().unwrap(), &[Arc::new(document)]).unwrap();
                let mut content = [0; 32];
                content[..asked.key.len()].copy_from_slice(asked.key.as_bytes());
                Change::Commit(Commit { jobs, key: asked.key.clone(), content: Some(content), ..Commit::default() })
            }
        };
        self.clients[client] = Some(asked);
        self.handle(Event::Asked { request, change });
    }

    /// Everything that happens until `later` from now, in order of time.
    fn pass(&mut self, later: Nanos) {
        let end = self.now.saturating_add(later);
        loop {
            let write = self.writing.as_ref().map(|writing| writing.3);
            let resync = (self.writing.is_none() && self.is_in_doubt()).then_some(self.resync);
            let patience = self.clients.iter().flatten().map(|asked| asked.until).min();
            let next = [self.service.deadline(), write, resync, patience].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            if write.is_some_and(|at| at <= self.now) {
                self.written();
            } else if resync.is_some_and(|at| at <= self.now) {
                self.resync();
            } else if patience.is_some_and(|at| at <= self.now) {
                self.give_up();
            } else {
                self.handle(Event::Tick);
            }
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event) {
        self.service.handle(self.now, event);
        while let Some(action) = self.service.poll() {
            match action {
                Action::Persist { ticket, records } => {
                    assert!(self.writing.is_none(), "one batch at a time");
                    let hangs = self.storm && self.dice.chance(15);
                    self.tally.hung += usize::from(hangs);
                    let takes = if hangs { self.dice.below(150 * S) } else { self.dice.below(20 * MS) };
                    self.writing = Some((ticket, records, self.now, self.now.saturating_add(Nanos(takes))));
                    self.health.waits(self.instant());
                }
                Action::Reply { request, result } => self.answered(request, result),
                _ => {}
            }
        }
    }

    /// Draws what the disk does with the next syncs: nothing wrong, one that fails, or all.
    fn draw(&mut self) {
        let fails = if !self.storm || self.dice.chance(75) { 0 } else { [1, SYNCS_MAX * 100][self.dice.below(2) as usize] };
        self.disk.lock().unwrap().fails = fails;
    }

    fn write(&mut self, batches: &[(Ticket, Vec<Record>)]) -> Result<Revision, String> {
        let store = self.store.as_mut().expect("a process runs");
        let result = writer::write(store, self.revision, batches);
        let mut disk = self.disk.lock().unwrap();
        disk.fails = 0;
        if result.is_ok() && !disk.has_ended() {
            disk.passed();
        }
        result
    }

    fn is_in_doubt(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.doubt().is_some())
    }

    fn written(&mut self) {
        let Some((ticket, records, ..)) = self.writing.take() else { return };
        self.draw();
        let result = self.write(&[(ticket, records)]);
        self.failed = result.is_err();
        self.health.done(1, result.as_ref().err().cloned());
        self.resync = self.now.saturating_add(RESYNC);
        match result {
            Ok(revision) => {
                self.revision = revision;
                self.acknowledge();
                self.handle(Event::Persisted { ticket });
            }
            Err(reason) => self.handle(Event::PersistFailed { ticket, reason }),
        }
        self.settle();
    }

    fn resync(&mut self) {
        self.draw();
        let result = self.write(&[]);
        self.failed = result.is_err();
        self.health.done(0, result.err());
        self.resync = self.now.saturating_add(RESYNC);
        self.settle();
    }

    /// A store that is well again holds nothing that was refused.
    fn settle(&mut self) {
        if !self.is_in_doubt() {
            self.doubtful.clear();
        }
    }

    fn answered(&mut self, request: RequestId, result: Result<Reply, Refusal>) {
        let Some(client) = self.clients.iter().position(|asked| asked.as_ref().is_some_and(|asked| asked.request == request)) else {
            // Nobody waits for this answer any more.
            if let (Some(key), Ok(Reply::Committed(commitment))) = (self.given_up.remove(&request), &result) {
                self.truth.insert(key, commitment.plan_version);
            }
            return;
        };
        let Some(asked) = self.clients[client].take() else { return };
        let mut entry = Entry { op: Op::Writes(asked.hosts.as_ref().map(|hosts| hosts.join(","))), began: asked.began, answered: None };
        match result {
            Ok(reply) => {
                if let (Reply::Committed(commitment), Some(first)) = (&reply, self.truth.get(&asked.key)) {
                    assert_eq!(commitment.plan_version, *first, "asked again, {} is answered as the first was", asked.key);
                    self.tally.as_the_first += 1;
                }
                entry.answered = Some(self.moment());
            }
            // It was in force, and another client has released it since.
            Err(Refusal::KeyGone { .. }) if asked.again => entry.answered = Some(self.moment()),
            // What this says is of this request; what became of the first one is asked until there is an answer.
            Err(Refusal::Store(_)) if asked.again => return self.send(client, asked),
            Err(Refusal::Store(_)) => {
                // It has not come into force; while the store is in doubt, a kill may bring the change back.
                self.tally.refused += 1;
                self.doubtful.push((asked.name, entry));
                return;
            }
            Err(other) => panic!("{asked:?}: {other}"),
        }
        self.histories.entry(asked.name).or_default().push(entry);
    }

    /// A client whose patience has ended is told that the outcome is unknown. Who committed asks again by the key.
    fn give_up(&mut self) {
        let ended = |asked: &Option<Asked>| asked.as_ref().is_some_and(|asked| asked.until <= self.now);
        let Some(client) = self.clients.iter().position(ended) else { return };
        let Some(asked) = self.clients[client].take() else { return };
        self.tally.unknown += 1;
        self.given_up.insert(asked.request, asked.key.clone());
        self.unknown(client, asked);
    }

    fn unknown(&mut self, client: usize, asked: Asked) {
        if asked.hosts.is_some() {
            self.tally.asked_again += 1;
            self.send(client, Asked { again: true, ..asked });
        } else {
            // Nothing says what became of a release, and the next list does.
            self.histories.entry(asked.name).or_default().push(Entry { op: Op::Writes(None), began: asked.began, answered: None });
        }
    }

    /// Readiness says when a change has waited for too long, and when the last write failed.
    fn is_ready(&mut self) {
        let problem = self.health.problem(self.instant());
        let waits = self.writing.as_ref().map(|writing| Duration::from_nanos(self.now.since(writing.2).0));
        if waits.is_some_and(|waits| waits >= HANGS_AFTER) {
            self.tally.unready += 1;
            assert!(problem.as_ref().is_some_and(|problem| problem.starts_with("a change has waited for the disk for ")), "{problem:?}");
        } else {
            assert_eq!(problem.is_some(), self.failed, "{problem:?} {waits:?}");
        }
    }

    /// Nothing goes wrong any more; everybody is answered.
    fn calm(&mut self) {
        self.storm = false;
        while self.clients.iter().any(Option::is_some) || self.writing.is_some() {
            self.pass(Nanos(S));
        }
        for client in 0..CLIENTS {
            // A last read of each job.
            while self.clients[client].is_none() && self.dice.below(4) > 0 {
                self.ask(client);
            }
        }
    }
}

impl Asked {
    fn nothing() -> Self {
        Self { name: String::new(), hosts: None, key: String::new(), began: 0, until: FabricTime(0), request: RequestId(0), again: false }
    }
}

/// Says how to replay when a run fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: ANTIPHASE_SEED={} cargo test -p antiphase-topology hangs", self.0);
        }
    }
}

fn lines(history: &[Entry]) -> String {
    history.iter().map(|Entry { op, began, answered }| format!("{began} to {answered:?}: {op:?}\n")).collect()
}

fn run(seed: u64, steps: usize) -> (Tally, BTreeMap<String, Vec<Entry>>) {
    let _replay = Replay(seed);
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step();
    }
    world.calm();
    for (name, history) in &world.histories {
        let empty: BTreeSet<Seen> = BTreeSet::from([None]);
        assert!(!ends(&empty, history).is_empty(), "what was seen of {name} has no order:\n{}", lines(history));
    }
    (world.tally, world.histories)
}

#[test]
fn what_clients_saw_of_a_disk_that_hangs_has_an_order_and_keys_tell_the_truth() {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let seeds = number("ANTIPHASE_SEED").map_or_else(|| 0..number("ANTIPHASE_HANGS").unwrap_or(RUNS), |seed| seed..seed + 1);
    let mut all = Tally::default();
    let mut requests = 0;
    for seed in seeds.clone() {
        let (tally, histories) = run(seed, STEPS);
        requests += histories.values().map(Vec::len).sum::<usize>();
        all.add(&tally);
    }
    println!("{} runs, {requests} requests: {all:?}", seeds.clone().count());
    // One run alone may lack something.
    assert!(seeds.end - seeds.start < RUNS || all.clone().counts_mut().iter().all(|count| **count > 0), "{all:?}");
}

/// A store that acknowledges what it has not kept, a change that was refused and is there: the checker tells each.
#[test]
fn a_history_with_one_false_answer_has_no_order() {
    let (_, histories) = run(1, STEPS / 3);
    let empty: BTreeSet<Seen> = BTreeSet::from([None]);
    let mut told = 0;
    for history in histories.values() {
        let was_read = |value: &Seen, after: u64| history.iter().any(|read| read.op == Op::Reads(value.clone()) && read.began > after);
        for (at, entry) in history.iter().enumerate() {
            let (Op::Writes(Some(hosts)), Some(answered)) = (&entry.op, entry.answered) else { continue };
            if !was_read(&Some(hosts.clone()), answered) {
                continue;
            }
            // The write that was read is taken out, as if it had been refused.
            let without: Vec<Entry> =
                history.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, entry)| entry.clone()).collect();
            assert!(ends(&empty, &without).is_empty(), "{entry:?}");
            told += 1;
        }
    }
    assert!(told > 10, "{told}");
}
