//! Jobs as Harmony sees them.

use policy::muri::MODELS;

/// Resources that a part has for itself: GPUs, cores, GiB of memory.
pub const RESOURCES: usize = 3;

/// So much of each resource.
pub type Demand = [u32; RESOURCES];

/// Kinds of jobs: the eight models that Muri's authors measured.
pub const KINDS: usize = MODELS.len();

/// Microseconds in a second.
const US: f64 = 1e6;
/// A job that stays on one server communicates so many times as fast: over PCIe at 100 Gbit/s and not over a NIC at 25.
const WITHIN: u64 = 4;
/// Share of an iteration from which on a kind counts as one that loads: its ranks then have more cores.
const LOADS_PERMILLE: u64 = 300;

/// One process of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Computes, with one GPU.
    Rank,
    /// Keeps a part of the model for the ranks.
    ParameterServer,
}

impl Part {
    /// Both, as actions are numbered.
    pub const ALL: [Self; 2] = [Self::Rank, Self::ParameterServer];
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number in the mix.
    pub id: u32,
    /// Which of [`KINDS`].
    pub kind: usize,
    /// Ranks, at least one; a power of two up to 32, because others were not measured.
    pub ranks: u32,
    /// Parameter servers; none where ranks reduce among themselves.
    pub parameter_servers: u32,
    /// How long it runs where nobody disturbs it, on one server if it fits there.
    pub work_ms: u64,
    /// When it was submitted.
    pub submitted_ms: u64,
}

/// Stages of an iteration, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Loading data.
    pub load_us: u64,
    /// Computing.
    pub gpu_us: u64,
    /// Communicating over NICs.
    pub net_us: u64,
}

impl Stages {
    /// Communicating within one server.
    #[must_use]
    pub fn within_us(&self) -> u64 {
        self.net_us / WITHIN
    }

    /// The shortest iteration: on one server, nobody beside.
    #[must_use]
    pub fn alone_us(&self) -> u64 {
        // Above 0, so that shares of it exist.
        (self.load_us + self.gpu_us + self.within_us()).max(1)
    }
}

/// The kind's name.
#[must_use]
pub fn kind_name(kind: usize) -> &'static str {
    MODELS.get(kind).map_or("unknown", |model| model.name)
}

impl Job {
    /// What one iteration takes, as measured.
    #[must_use]
    pub fn stages(&self) -> Stages {
        let measured = MODELS.get(self.kind).and_then(|model| model.profile(self.ranks));
        let us = |s: f64| libm::round(s * US) as u64;
        measured.map_or(Stages { load_us: 0, gpu_us: 1, net_us: 0 }, |p| Stages {
            load_us: us(p.stages.load_s),
            gpu_us: us(p.stages.gpu_s),
            net_us: us(p.stages.net_s),
        })
    }

    /// What one of its parts takes of a server: GPUs, cores and GiB.
    #[must_use]
    pub fn demand(&self, part: Part) -> Demand {
        let stages = self.stages();
        let loads = stages.load_us * 1_000 >= stages.alone_us() * LOADS_PERMILLE;
        match part {
            Part::Rank => [1, if loads { 4 } else { 2 }, if loads { 8 } else { 12 }],
            Part::ParameterServer => [0, 2, 4],
        }
    }

    /// How many of its parts are of that sort.
    #[must_use]
    pub fn count(&self, part: Part) -> u32 {
        match part {
            Part::Rank => self.ranks,
            Part::ParameterServer => self.parameter_servers,
        }
    }
}
