//! Schedulers: who of the jobs of a cluster runs from now on, on which GPUs and with whom.
//!
//! A [`Scheduler`] is told of jobs that come and go, and is asked to [decide](Scheduler::decide) after each change. Each policy is a room
//! that opens with its rules in prose. Whoever leaves the choice of places to others asks for [proposals](Scheduler::propose). Who asks (the simulator, or a service) runs the jobs, keeps their [`Job`] current, and
//! checks what was decided with [`Decision::check`].
//!
//! Pure: the same jobs in the same order give the same decisions.

mod antman;
mod auction;
mod check;
mod fifo;
mod gandiva;
mod hosts;
mod job;
mod muri;
mod order;
mod place;
mod propose;
mod shortest;
mod themis;
mod tiresias;

use alloc::{boxed::Box, vec::Vec};

use self::{
    antman::AntMan, auction::Auction, fifo::Fifo, gandiva::Gandiva, muri::Muri, shortest::Shortest, themis::Themis, tiresias::Tiresias,
};
pub use self::{
    auction::{Fairness, LEASE_S},
    check::InfeasibleError,
    gandiva::GandivaOptions,
    hosts::{Capacity, Cluster},
    job::{Decision, Job, JobIndex, Place, Reason, Run, Trial},
    muri::MuriOptions,
    place::{Placer, Unplaced},
    propose::{CANDIDATES, Candidate, ClusterView},
    tiresias::TiresiasOptions,
};
use crate::muri::{Profile, Timing};

/// The rule by which jobs are put in order and share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// First come, first served: nobody is overtaken, and nobody is stopped.
    Fifo,
    /// Shortest remaining time first.
    Srtf,
    /// Shortest remaining service first: time times GPUs.
    Srsf,
    /// Least attained service first, in steps.
    Tiresias(TiresiasOptions),
    /// Guaranteed jobs first, the others on what these leave of their GPUs.
    AntMan,
    /// Who would be latest beside a fair share first: with leases and auctions in [`Timing::Paper`], as the Muri authors' simulator has it
    /// in [`Timing::Artifact`].
    Themis,
    /// Turns on crowded hosts, packed and moved where that pays.
    Gandiva(GandivaOptions),
    /// Groups that share GPUs, one resource each at a time.
    Muri(MuriOptions),
}

impl Rule {
    /// Tiresias as its authors' public simulator runs it: nobody is promoted, and a job runs on GPUs anywhere.
    pub const TIRESIAS: Self = Self::Tiresias(TiresiasOptions { promote_permille: None, consolidate: false });

    /// Whether all hosts must have as many GPUs: AntMan and Gandiva count their places by the host.
    #[must_use]
    pub const fn wants_equal_hosts(self) -> bool {
        matches!(self, Self::AntMan | Self::Gandiva(_))
    }
}

/// What a scheduler needs to know beside the jobs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How groups are timed.
    pub timing: Timing,
    /// The profiles of all jobs that may come, as [`Job::profile`] counts them.
    pub profiles: Vec<Profile>,
    /// Whether decisions say why.
    pub explain: bool,
}

/// A policy at work.
#[derive(Clone, Debug)]
pub struct Scheduler {
    settings: Settings,
    capacity: Capacity,
    room: Room,
}

#[derive(Clone, Debug)]
enum Room {
    Fifo(Fifo),
    Shortest(Shortest),
    Tiresias(Tiresias),
    AntMan(AntMan),
    Themis(Themis),
    Auction(Auction),
    Gandiva(Gandiva),
    Muri(Box<Muri>),
}

impl Scheduler {
    /// A scheduler of hosts without jobs; they must have equal numbers of GPUs where the [rule wants it](Rule::wants_equal_hosts).
    #[must_use]
    pub fn new(rule: Rule, hosts: impl Into<Capacity>, settings: Settings) -> Self {
        let capacity = hosts.into();
        let room = match rule {
            Rule::Fifo => Room::Fifo(Fifo::default()),
            Rule::Srtf => Room::Shortest(Shortest::new(&capacity, false)),
            Rule::Srsf => Room::Shortest(Shortest::new(&capacity, true)),
            Rule::Tiresias(options) => Room::Tiresias(Tiresias::new(&capacity, options)),
            Rule::AntMan => Room::AntMan(AntMan::new(capacity.cluster(), settings.timing)),
            Rule::Themis if settings.timing == Timing::Paper => Room::Auction(Auction::new(&capacity)),
            Rule::Themis => Room::Themis(Themis::new(&capacity)),
            Rule::Gandiva(options) => Room::Gandiva(Gandiva::new(capacity.cluster(), &settings, options)),
            Rule::Muri(options) => Room::Muri(Box::new(Muri::new(&capacity, &settings, options))),
        };
        Self { settings, capacity, room }
    }

    /// A job came. It must fit in the cluster ([`Cluster::holds`]), or it waits for ever.
    pub fn arrive(&mut self, job: JobIndex) {
        match &mut self.room {
            Room::Fifo(room) => room.arrive(job),
            Room::Shortest(room) => room.arrive(job),
            Room::Tiresias(room) => room.arrive(job),
            Room::AntMan(room) => room.arrive(job),
            Room::Themis(room) => room.arrive(job),
            Room::Auction(room) => room.arrive(job),
            Room::Gandiva(room) => room.arrive(job),
            Room::Muri(room) => room.arrive(job),
        }
    }

    /// A job came that ran before this scheduler began: it has these GPUs of hosts (numbers of hosts, each once), and a policy with leases
    /// leaves it there until `until_s`. One that waits has none, since then. Call it in place of [`Self::arrive`], at `now_s`.
    pub fn resume(&mut self, now_s: f64, job: JobIndex, jobs: &[Job], places: &[(u32, u32)], until_s: f64) {
        self.arrive(job);
        match &mut self.room {
            Room::Tiresias(room) => room.resume(now_s, job, jobs),
            Room::Auction(room) => room.resume(now_s, job, jobs, places, until_s),
            Room::Fifo(_) | Room::Shortest(_) | Room::AntMan(_) | Room::Themis(_) | Room::Gandiva(_) | Room::Muri(_) => {}
        }
    }

    /// Until when a job that runs is left where it is; `None` where the policy may stop it at any decision.
    #[must_use]
    pub fn until_s(&self, job: JobIndex) -> Option<f64> {
        match &self.room {
            Room::Auction(room) => room.until_s(job),
            _ => None,
        }
    }

    /// A job ended, or was withdrawn.
    pub fn leave(&mut self, job: JobIndex, jobs: &[Job]) {
        match &mut self.room {
            Room::Fifo(room) => room.leave(job),
            Room::Shortest(room) => room.leave(job),
            Room::Tiresias(room) => room.leave(job),
            Room::AntMan(room) => room.leave(job, jobs),
            Room::Themis(room) => room.leave(job),
            Room::Auction(room) => room.leave(job),
            Room::Gandiva(room) => room.leave(job),
            Room::Muri(room) => room.leave(job, jobs),
        }
    }

    /// A host is out: it gives nobody anything until it is [back](Self::regain). Its jobs [fall](Self::fall) before the next decision.
    pub fn lose(&mut self, host: u32) {
        self.capacity.lose(host);
    }

    /// A host that was out is back.
    pub fn regain(&mut self, host: u32) {
        self.capacity.regain(host);
    }

    /// A job that ran has lost its GPUs, and waits for others; `jobs` say so already.
    pub fn fall(&mut self, now_s: f64, job: JobIndex, jobs: &[Job]) {
        match &mut self.room {
            Room::Shortest(room) => room.fall(job),
            Room::Auction(room) => room.fall(now_s, job),
            // They keep what a job has had in the job itself.
            Room::Fifo(_) | Room::Tiresias(_) | Room::Themis(_) => {}
            Room::AntMan(room) => {
                room.leave(job, jobs);
                room.arrive(job);
            }
            Room::Gandiva(room) => {
                room.leave(job);
                room.arrive(job);
            }
            Room::Muri(room) => {
                room.leave(job, jobs);
                room.arrive(job);
            }
        }
    }

    /// Decides who runs from `now_s` on. `out` is overwritten.
    pub fn decide(&mut self, now_s: f64, jobs: &[Job], out: &mut Decision) {
        out.clear();
        let Self { settings, room, capacity, .. } = self;
        let (profiles, explain) = (&settings.profiles, settings.explain);
        let restart_s = |job: &Job| profiles[usize::from(job.profile)].restart_s;
        match room {
            Room::Fifo(room) => room.decide(jobs, capacity, restart_s, explain, out),
            Room::Shortest(room) => room.decide(jobs, capacity, restart_s, explain, out),
            Room::Tiresias(room) => room.decide(now_s, (jobs, capacity), restart_s, explain, out),
            Room::AntMan(room) => room.decide(jobs, capacity, profiles, explain, out),
            Room::Themis(room) => room.decide(now_s, (jobs, capacity), restart_s, explain, out),
            Room::Auction(room) => room.decide(now_s, (jobs, capacity), restart_s, explain, out),
            Room::Gandiva(room) => room.decide(now_s, (jobs, capacity), restart_s, explain, out),
            Room::Muri(room) => room.decide(jobs, capacity, restart_s, explain, out),
        }
    }

    /// The last decision in other ways that the policy finds nearly as good, for who knows what it does not; the jobs must be as they were. Only Muri,
    /// in paper timing, has any: other groups of the same jobs.
    pub fn alternatives(&mut self, jobs: &[Job]) -> Vec<Decision> {
        let Settings { profiles, explain, .. } = &self.settings;
        let explain = *explain;
        match &mut self.room {
            Room::Muri(room) => room.alternatives(jobs, |job| profiles[usize::from(job.profile)].restart_s, explain),
            _ => Vec::new(),
        }
    }

    /// When the scheduler would decide otherwise though no job comes or ends; infinite when never.
    #[must_use]
    pub fn next_change_s(&self, now_s: f64, jobs: &[Job]) -> f64 {
        match &self.room {
            Room::Tiresias(room) => room.next_change_s(now_s, jobs),
            Room::Auction(room) => room.next_change_s(now_s),
            Room::Gandiva(room) => room.next_change_s(),
            Room::Fifo(_) | Room::Shortest(_) | Room::AntMan(_) | Room::Themis(_) | Room::Muri(_) => f64::INFINITY,
        }
    }

    /// What the cluster has to give now.
    #[must_use]
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }
}
