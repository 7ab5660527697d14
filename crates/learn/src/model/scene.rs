//! What the policy sees when it places one part of a job.

use alloc::vec::Vec;

use harmony::{Demand, Job, KINDS, Part, SERVER, Stand, View, takes};

/// Numbers of a job beside its kind.
const FACTS: usize = 12;
/// Numbers of a job.
pub(crate) const TOKEN: usize = KINDS + FACTS;
/// Numbers of a server.
pub(crate) const PLACE: usize = 9;
/// Jobs that wait, of which the policy sees the first: a long queue says no more than a short one.
const WAITING_SEEN: usize = 8;
/// Most ranks and parameter servers of a job, so that numbers are near 1.
const RANKS: f32 = 8.0;
const PARAMETER_SERVERS: f32 = 4.0;
/// A run time in the middle, in milliseconds, and the octaves that count as 1.
const MIDDLE_MS: f64 = 1_800_000.0;
const OCTAVES: f64 = 3.0;
/// Millionths.
const PPM: f32 = 1e6;

/// A job's seat, as sums need it: a server sums its jobs twice, by their ranks and by their parameter servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sat {
    pub(crate) token: usize,
    pub(crate) server: usize,
    pub(crate) weights: [f32; 2],
}

/// The sequence of jobs, the servers, and which parts could go where. Another world has other choices in the place of servers (`crate::deepshare`).
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// One job after the other; the first is what all servers see: the one that is placed.
    pub(crate) tokens: Vec<f32>,
    /// One server after the other.
    pub(crate) places: Vec<f32>,
    pub(crate) seats: Vec<Sat>,
    /// By server: whether a rank fits, and whether a parameter server does.
    pub(crate) allowed: Vec<bool>,
}

/// What of a job changes while it waits, is placed and runs.
struct State<'a> {
    stand: &'a Stand,
    left_ms: f64,
    speed: f32,
    current: bool,
    waits: bool,
}

impl Scene {
    /// Of the next part of `job`, some of whose parts stand already; `free` is what these leave.
    #[must_use]
    pub fn new(view: &View<'_>, free: &[Demand], job: &Job, stand: &Stand) -> Self {
        let mut scene = Self { tokens: Vec::new(), places: Vec::new(), seats: Vec::new(), allowed: Vec::new() };
        scene.job(job, &State { stand, left_ms: job.work_ms as f64, speed: 1.0, current: true, waits: false });
        for running in view.running {
            let left_ms = running.left as f64 / f64::from(PPM);
            let speed = running.speed as f32 / PPM;
            scene.job(&running.job, &State { stand: &running.stand, left_ms, speed, current: false, waits: false });
        }
        for waiting in view.waiting.iter().take(WAITING_SEEN) {
            let state = State { stand: &Stand::default(), left_ms: waiting.work_ms as f64, speed: 0.0, current: false, waits: true };
            scene.job(waiting, &state);
        }
        for (server, free) in free.iter().enumerate() {
            scene.server(server, free, job, stand);
        }
        scene
    }

    /// Adds a job and its seats.
    fn job(&mut self, job: &Job, state: &State<'_>) {
        let token = self.tokens.len() / TOKEN;
        let octaves = |ms: f64| (libm::log2(ms.max(1.0) / MIDDLE_MS) / OCTAVES) as f32;
        let flag = |set: bool| f32::from(u8::from(set));
        let spans = state.stand.seats().len() as f32;
        self.tokens.extend((0..KINDS).map(|kind| flag(kind == job.kind)));
        let facts: [f32; FACTS] = [
            job.ranks as f32 / RANKS,
            job.parameter_servers as f32 / PARAMETER_SERVERS,
            flag(job.parameter_servers > 0),
            flag(state.current),
            flag(state.waits),
            octaves(state.left_ms),
            octaves(job.work_ms as f64),
            state.stand.placed(Part::Rank) as f32 / job.ranks.max(1) as f32,
            state.stand.placed(Part::ParameterServer) as f32 / job.parameter_servers.max(1) as f32,
            spans / PARAMETER_SERVERS,
            flag(spans > 1.0),
            state.speed,
        ];
        self.tokens.extend(facts);
        self.seats.extend(state.stand.seats().iter().map(|seat| Sat {
            token,
            server: seat.server,
            weights: [seat.ranks, seat.parameter_servers].map(|parts| parts as f32 / PARAMETER_SERVERS),
        }));
    }

    fn server(&mut self, server: usize, free: &Demand, job: &Job, stand: &Stand) {
        let own = stand.seats().iter().find(|seat| seat.server == server);
        let flag = |set: bool| f32::from(u8::from(set));
        let share = |r: usize| free[r] as f32 / SERVER[r] as f32;
        let fits = Part::ALL.map(|part| stand.placed(part) < job.count(part) && takes(&mut free.clone(), &job.demand(part)));
        let demand = job.demand(Part::Rank);
        // How many more ranks there is room for.
        let room = free.iter().zip(demand).filter_map(|(free, demand)| free.checked_div(demand)).min().unwrap_or(0);
        let missing = job.ranks - stand.placed(Part::Rank).min(job.ranks);
        let facts: [f32; PLACE] = [
            share(0),
            share(1),
            share(2),
            own.map_or(0.0, |seat| seat.ranks as f32 / PARAMETER_SERVERS),
            own.map_or(0.0, |seat| seat.parameter_servers as f32 / PARAMETER_SERVERS),
            flag(fits[0]),
            flag(fits[1]),
            flag(missing > 0 && room >= missing),
            flag(free[0] == SERVER[0]),
        ];
        self.places.extend(facts);
        self.allowed.extend(fits);
    }

    /// How many jobs it has.
    pub(super) fn jobs(&self) -> usize {
        self.tokens.len() / TOKEN
    }

    /// How many servers.
    pub(crate) fn servers(&self) -> usize {
        self.places.len() / PLACE
    }

    /// Which actions could be done: a rank, then a parameter server, on each server.
    #[must_use]
    pub fn allowed(&self) -> &[bool] {
        &self.allowed
    }
}
