//! The plan of the house: every crate, what it may depend on, and why it is pure or not.
//!
//! This is the only place that lists them. ARCHITECTURE.md repeats each row for people, and
//! `dependencies.rs` checks that it does. Crates that do not exist yet have their row already.

/// How much of the outside world a crate may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No clock, no environment, no files, no hash order. Proved by `no_std`: docs/adr/0001.
    Pure,
    /// A state machine that is handed time and events and hands back actions. As strict as [`Kind::Pure`].
    SansIo,
    /// Sockets, files, processes, people.
    Edge,
}

impl Kind {
    /// The word used in ARCHITECTURE.md.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::SansIo => "sans-IO",
            Self::Edge => "edge",
        }
    }
}

/// One crate of the workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Its folder from the root of the checkout; names the crate in every message.
    pub(crate) folder: &'static str,
    pub(crate) kind: Kind,
    /// Folders of the crates of ours that it may depend on, for tests and benches too.
    pub(crate) own: &'static [&'static str],
    /// Crates from the registry that it may depend on directly outside tests; `None`: not limited.
    pub(crate) external: Option<&'static [&'static str]>,
}

const UNITS: &str = "crates/units";
const FILES: &str = "crates/files";
const STRICT: &str = "crates/strict";
const CIRCLE: &str = "crates/circle";
const FABRIC: &str = "crates/fabric";
const PROFILE: &str = "crates/profile";
const JOB: &str = "crates/job";
const TURNS: &str = "crates/turns";
const FLUID: &str = "crates/fluid";
const PLAN: &str = "crates/plan";
const RENDER: &str = "crates/render";
const POLICY: &str = "crates/policy";
const HARMONY: &str = "crates/harmony";
const LEARN: &str = "crates/learn";
const SIM: &str = "crates/sim";
const LAB: &str = "crates/lab";
const CLI: &str = "crates/cli";
const STATE: &str = "topology/state";
const STORE: &str = "topology/store";
const SERVER: &str = "topology/server";
const GATE_CORE: &str = "agent/gate-core";
const GATE: &str = "agent/gate";
const TELEMETRY: &str = "agent/telemetry";
const VERBS: &str = "agent/verbs";
const NCCL: &str = "agent/nccl";
const NCCL_CALLS: &str = "agent/nccl-calls";
const DAEMON: &str = "agent/daemon";
const PROTO: &str = "proto";
pub(crate) const TESTS: &str = "tests";

/// Everything but the tests, for the crates at the top.
pub(crate) const ALL: &[&str] = &[
    UNITS, FILES, RENDER, STRICT, CIRCLE, FABRIC, PROFILE, JOB, TURNS, FLUID, PLAN, POLICY, HARMONY, LEARN, SIM, LAB, CLI, STATE, STORE,
    SERVER, GATE_CORE, GATE, TELEMETRY, VERBS, NCCL, NCCL_CALLS, DAEMON, PROTO,
];

/// The whole house, bottom first: a room depends only on rooms above it in this list.
pub(crate) const ROOMS: &[Room] = &[
    Room { folder: UNITS, kind: Kind::Pure, own: &[], external: Some(&[]) },
    Room { folder: FILES, kind: Kind::Edge, own: &[], external: None },
    Room { folder: RENDER, kind: Kind::Pure, own: &[], external: Some(&["libm"]) },
    Room { folder: STRICT, kind: Kind::Pure, own: &[], external: Some(&["serde"]) },
    Room {
        folder: CIRCLE,
        kind: Kind::Pure,
        own: &[UNITS, STRICT],
        external: Some(&["num-integer", "petgraph", "rayon", "serde", "serde_json", "thiserror"]),
    },
    Room {
        folder: FABRIC,
        kind: Kind::Pure,
        own: &[UNITS, STRICT],
        external: Some(&["csv", "petgraph", "serde", "serde-saphyr", "serde_json", "serde_path_to_error", "thiserror", "wildmatch"]),
    },
    Room {
        folder: PROFILE,
        kind: Kind::Pure,
        own: &[UNITS, STRICT, CIRCLE, FABRIC],
        external: Some(&["serde", "serde-saphyr", "serde_json", "serde_path_to_error", "thiserror"]),
    },
    Room {
        folder: JOB,
        kind: Kind::Pure,
        own: &[UNITS, CIRCLE, FABRIC, PROFILE],
        external: Some(&["serde", "serde-saphyr", "serde_json", "serde_path_to_error", "thiserror"]),
    },
    Room { folder: GATE_CORE, kind: Kind::SansIo, own: &[UNITS], external: Some(&[]) },
    Room { folder: TURNS, kind: Kind::Pure, own: &[UNITS], external: Some(&[]) },
    Room { folder: FLUID, kind: Kind::Pure, own: &[UNITS, CIRCLE, GATE_CORE, TURNS], external: Some(&[]) },
    Room {
        folder: PLAN,
        kind: Kind::Pure,
        own: &[UNITS, CIRCLE, FABRIC, JOB, TURNS, FLUID],
        external: Some(&["num-integer", "petgraph", "rayon", "thiserror"]),
    },
    Room {
        folder: POLICY,
        kind: Kind::Pure,
        own: &[UNITS, CIRCLE, FABRIC, JOB, FLUID, PLAN],
        external: Some(&["libm", "rand_chacha", "thiserror"]),
    },
    Room { folder: HARMONY, kind: Kind::Pure, own: &[UNITS, POLICY], external: Some(&["libm", "rand_chacha"]) },
    Room { folder: LEARN, kind: Kind::Pure, own: &[HARMONY], external: Some(&["libm"]) },
    Room {
        folder: STATE,
        kind: Kind::SansIo,
        own: &[UNITS, CIRCLE, FABRIC, JOB, TURNS, FLUID, PLAN, POLICY],
        external: Some(&["thiserror"]),
    },
    Room {
        folder: SIM,
        kind: Kind::Pure,
        own: &[UNITS, CIRCLE, FABRIC, PROFILE, JOB, TURNS, FLUID, PLAN, POLICY, STATE, GATE_CORE],
        external: Some(&["csv", "rand_chacha", "rayon", "serde", "serde_json", "thiserror"]),
    },
    Room { folder: PROTO, kind: Kind::Edge, own: &[], external: None },
    Room { folder: GATE, kind: Kind::Edge, own: &[UNITS, GATE_CORE], external: None },
    Room { folder: TELEMETRY, kind: Kind::Edge, own: &[UNITS, GATE_CORE], external: None },
    Room { folder: VERBS, kind: Kind::Edge, own: &[UNITS, GATE], external: None },
    Room { folder: NCCL, kind: Kind::Edge, own: &[UNITS, GATE_CORE, GATE], external: None },
    Room { folder: NCCL_CALLS, kind: Kind::Edge, own: &[GATE], external: None },
    Room { folder: DAEMON, kind: Kind::Edge, own: &[UNITS, FILES, GATE_CORE, GATE, TELEMETRY, VERBS, PROTO], external: None },
    Room { folder: STORE, kind: Kind::Edge, own: &[UNITS, JOB], external: None },
    Room {
        folder: SERVER,
        kind: Kind::Edge,
        own: &[UNITS, FILES, RENDER, STRICT, CIRCLE, FABRIC, PROFILE, JOB, TURNS, PLAN, POLICY, STATE, STORE, PROTO],
        external: None,
    },
    Room {
        folder: LAB,
        kind: Kind::Edge,
        own: &[UNITS, RENDER, CIRCLE, FABRIC, PROFILE, JOB, FLUID, PLAN, SIM, STATE, GATE_CORE, GATE, PROTO],
        external: None,
    },
    Room { folder: CLI, kind: Kind::Edge, own: ALL, external: None },
    Room { folder: TESTS, kind: Kind::Edge, own: ALL, external: None },
];

/// Crates whose work is unsafe by nature and that may say so; every other one forbids it.
///
/// `agent/gate` maps memory that another process writes, hands a C interface to training jobs and registers a fork handler.
/// `agent/nccl` reads structures of C that NCCL hands to it, and `agent/nccl-calls` stands before its functions. `agent/verbs` loads libibverbs and calls it.
pub(crate) const UNSAFE: &[&str] = &[GATE, NCCL, NCCL_CALLS, VERBS];

/// Crates that belong to edges: an executor, a wire protocol, a command line, system calls, and
/// an error type that forgets what went wrong.
pub(crate) const EDGE_ONLY: &[&str] = &["anyhow", "clap", "libc", "tokio", "tonic"];

/// Every registry crate that a pure or sans-IO crate reaches, directly or through another one.
///
/// Our own code cannot reach `std` (docs/adr/0001), but these can. The source of each was
/// searched for `std::time`, `std::env`, `std::fs`, `std::net`, `std::process`, `std::thread` and
/// random seeds before it was listed; the notes say what was found. What a caller of ours could
/// use of it is shut in `doors.rs`. Compile-time programs (proc macros) are not followed.
pub(crate) const REACHED: &[&str] = &[
    // Graphs and maps. foldhash seeds itself from addresses, so hashbrown's maps have no stable order. allocator-api2 is `alloc` alone,
    // and is here because a crate of the command line switches it on in hashbrown for all.
    "allocator-api2",
    "equivalent",
    "fixedbitset",
    "foldhash",
    "hashbrown",
    "indexmap",
    "petgraph",
    // Numbers, names and errors. libm is arithmetic alone, without its feature `arch`; serde_path_to_error only keeps the path of the key; wildmatch only compares.
    "libm",
    "serde_path_to_error",
    "wildmatch",
    "num-integer",
    "num-traits",
    "thiserror",
    // Threads. rayon-core reads RAYON_NUM_THREADS; crossbeam-utils has a clock for waiting with a deadline.
    "crossbeam-deque",
    "crossbeam-epoch",
    "crossbeam-utils",
    "either",
    "rayon",
    "rayon-core",
    // Random numbers from a seed that is an argument.
    "ppv-lite86",
    "rand_chacha",
    "rand_core",
    "zerocopy",
    // Text to values. csv opens files by path; serde-saphyr does behind its feature include_fs, which is off.
    "annotate-snippets",
    "anstyle",
    "arraydeque",
    "base64",
    "cfg-if",
    "core_detect",
    "csv",
    "csv-core",
    "encoding_rs",
    "encoding_rs_io",
    "granit-parser",
    "itoa",
    "memchr",
    "nohash-hasher",
    "ryu",
    "scopeguard",
    "serde",
    "serde-saphyr",
    "serde_core",
    "serde_json",
    "simdutf8",
    "smallvec",
    "unicode-width",
    "zmij",
];

/// The row of `folder`, if the house has such a room.
pub(crate) fn room(folder: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.folder == folder)
}
