//! Rule: what must be decided once is decided in one place.
//!
//! A rule that is written twice differs sooner or later: the gate's rule once stood in three crates and gave two answers, and four
//! crates each had their own idea of a job's name. [`RULES`] is the list: what, where it lives, what betrays a twin, and what to
//! do instead. Each row carries a twin as it once stood here, which the rule must find, and every home must be found too: so a
//! pattern that no longer fits the code fails.

use crate::{
    fragments::{Words, words},
    production::crates,
    tree::{Finding, TextFile, expect_none, expect_one},
};

/// Something that has one place.
struct Rule {
    /// What there is one of.
    what: &'static str,
    /// Files, or folders with a `/` at the end, where it may stand, and why it stands in each after the first.
    homes: &'static [(&'static str, &'static str)],
    /// What betrays it: all fragments of one of these lines, in one function or item (`fragments.rs` says how to write them).
    marks: &'static [&'static [&'static str]],
    /// What to do instead.
    instead: &'static str,
    /// A twin that stood here once, shortened.
    twin: &'static str,
}

const HOME: &str = "the home";

const RULES: &[Rule] = &[
    Rule {
        what: "the mixer of SplitMix64",
        homes: &[("crates/units/src/random.rs", HOME)],
        marks: &[&["0xbf58476d1ce4e5b9"], &["0x94d049bb133111eb"]],
        instead: "call units::splitmix64, or units::mix64 for one number",
        twin: "fn mix(x: u64) -> u64 { (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) }",
    },
    Rule {
        what: "a float of [0, 1) of drawn bits",
        homes: &[("crates/units/src/random.rs", HOME)],
        marks: &[&["<< 53 ) as f64"], &["<< 52 ) as f64"]],
        instead: "call units::unit_interval",
        twin: "fn uniform(&mut self) -> f64 { (self.0.next_u64() >> 11) as f64 / (1 << 53) as f64 }",
    },
    Rule {
        what: "the percentile by nearest rank",
        homes: &[("crates/units/src/rank.rs", HOME)],
        marks: &[&["len ( ) *", "div_ceil ( 100 )"]],
        instead: "call units::nearest_rank",
        twin: "fn p99(times: &[u64]) -> u64 { times[(times.len() * 99).div_ceil(100).saturating_sub(1)] }",
    },
    Rule {
        what: "how what was learned of a job becomes a profile",
        homes: &[("crates/profile/src/learned.rs", HOME)],
        marks: &[&["100 *", "~round_ns", "saturating_add ( step / 2 )"]],
        instead: "make a profile::LearnedIteration, and ask it for the profile",
        twin: "fn document() { let step = if ns >= 100 * ROUND_NS { ROUND_NS } else { 1 }; let round = |ns: u64, step: u64| ns.saturating_add(step / 2) / step * step; }",
    },
    Rule {
        what: "the hash that is equal on every machine",
        homes: &[("crates/units/src/hash.rs", HOME)],
        marks: &[&["0xcbf29ce484222325"]],
        instead: "call units::fnv1a",
        twin: "const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;",
    },
    Rule {
        what: "the node's clock",
        homes: &[
            ("agent/gate/src/clock.rs", HOME),
            ("topology/server/src/clock.rs", "the service has no gate, and reads two clocks at once"),
        ],
        marks: &[&["clock_gettime ( ClockId :: Monotonic"]],
        instead: "call gate::now",
        twin: "fn node_now() -> NodeTime { let now = clock_gettime(ClockId::Monotonic); }",
    },
    Rule {
        what: "headroom and the smallest slack",
        homes: &[("crates/plan/src/slot.rs", HOME)],
        marks: &[&["const HEADROOM_PERMILLE"], &["const SLACK_FLOOR_PERMILLE"], &["headroom_permille : 50"]],
        instead: "use plan::slot::HEADROOM_PERMILLE, and plan::slot::SlotTimes::new for the slack",
        twin: "pub const HEADROOM_PERMILLE: u32 = 50;",
    },
    Rule {
        what: "how much is read of a file that a person names to a program",
        homes: &[("crates/files/src/lib.rs", HOME)],
        marks: &[&["const CONFIG_BYTES_MAX"], &["const PEM_BYTES_MAX"]],
        instead: "use files::CONFIG_BYTES_MAX and files::PEM_BYTES_MAX",
        twin: "const PEM_BYTES_MAX: u64 = 256 * 1024;",
    },
    Rule {
        what: "limits of a commit that its border checks too",
        homes: &[("topology/state/src/config.rs", HOME)],
        marks: &[&["const KEY_BYTES_MAX"], &["const HEADROOM_MAX_PERMILLE"]],
        instead: "use state::config",
        twin: "const KEY_BYTES_MAX: usize = 256;",
    },
    Rule {
        what: "the part that one caller may have",
        homes: &[("topology/server/src/tally.rs", HOME)],
        marks: &[&["const CALLER_PART : usize"]],
        instead: "use tally::CALLER_PART",
        twin: "const CALLER_PART: usize = 2;",
    },
    Rule {
        what: "what a start costs that nobody measured",
        homes: &[
            ("crates/policy/src/muri/models.rs", HOME),
            ("crates/policy/src/elastic/speeds.rs", "what Pollux believes, which is another number"),
        ],
        marks: &[&["const RESTART_S : f64"]],
        instead: "use policy::muri::RESTART_S, or policy::elastic::POLLUX_RESTART_S",
        twin: "pub(super) const RESTART_S: f64 = 10.0;",
    },
    Rule {
        what: "how many candidates are compared for a decision",
        homes: &[("crates/policy/src/schedule/propose.rs", HOME)],
        marks: &[&["const CANDIDATES : usize"], &["const CANDIDATES_MAX : usize = 10 ;"]],
        instead: "use policy::schedule::CANDIDATES",
        twin: "const CANDIDATES: usize = 10;",
    },
    Rule {
        what: "a period with headroom",
        homes: &[("crates/plan/src/slot.rs", HOME)],
        marks: &[&["~headroom", "1000 +"], &["~headroom", "+ 1000"]],
        instead: "call plan::slot::periods, or plan::slot::period for one job",
        twin: "fn periods(solos: &[Nanos], headroom_permille: u32) -> u128 { u128::from(time.0) * (1_000 + u128::from(headroom_permille)) }",
    },
    Rule {
        what: "tolerance and slack of a slot",
        homes: &[
            ("crates/plan/src/slot.rs", HOME),
            ("crates/fluid/src/gate.rs", "the model is below the planner; its tolerance stays below the period, as a gate's does"),
        ],
        marks: &[&["~tolerance", "/ 1000"], &["~permille", "~period", "/ 1000"], &["share (", "~slack_floor"]],
        instead: "call plan::slot::SlotTimes::new, or plan::slot::share for a part of a period",
        twin: "fn slot() { let tolerance = u128::from(job.period.0) * u128::from(options.tolerance_permille) / 1_000; }",
    },
    Rule {
        what: "which names jobs and hosts may have",
        homes: &[
            ("crates/units/src/name.rs", HOME),
            ("crates/fabric/src/export/names.rs", "the alphabets of Slurm and Kubernetes, which are theirs"),
            ("crates/fabric/src/export/labels.rs", "keys of Kubernetes labels"),
            ("crates/profile/src/zoo/mod.rs", "finds a model whatever stands between its words"),
            ("topology/server/src/pki/mod.rs", "names in certificates: DNS names, and common names of at most 64 bytes"),
        ],
        marks: &[
            &["is_ascii_alphanumeric", "'.'", "'_'", "'-'"],
            &["is_ascii_alphanumeric", "\".-_\""],
            &["is_ascii_alphanumeric", "\"._-\""],
            &["is_ascii_alphanumeric", "\"-_.\""],
            &["const NAME_BYTES_MAX : usize = 253"],
        ],
        instead: "call units::check_name",
        twin: "fn check(name: &str) -> bool { name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')) }",
    },
    Rule {
        what: "the choice whom to hold",
        homes: &[
            ("crates/plan/src/hold.rs", HOME),
            ("crates/plan/src/predict.rs", "asks, or keeps what was chosen before"),
            ("crates/plan/src/evaluation.rs", "copies the advice into the report"),
            ("crates/lab/src/service.rs", "copies what the service says"),
            ("crates/fluid/", "predicts what it is told"),
        ],
        marks: &[&["Advice { hold"], &[". hold ="], &["predict_held ("]],
        instead: "take the advice of plan::hold (through plan::predict or an evaluation) as it is",
        twin: "fn plan() { if sum(|j| j.interleaved) >= sum(|j| j.contended) { jobs.iter_mut().for_each(|j| j.hold = false); } }",
    },
    Rule {
        what: "max-min sharing of links",
        homes: &[("crates/fluid/", HOME)],
        marks: &[
            &["fn fill", "~capacit"],
            &["fn fair"],
            &["struct Filling"],
            &["~max_min"],
            &["~water_fill"],
            &["~rest", "~jobs", "-= 1"],
            &["~rest", "~rising", "checked_div"],
        ],
        instead: "use fluid::Sharing",
        twin: "pub(crate) fn fill(jobs: &[Demands], capacities: &[u64]) -> Shares { todo() }",
    },
    Rule {
        what: "the rule of the gate: which starts wait, and until when",
        homes: &[("agent/gate-core/", HOME)],
        marks: &[&["late", "~tolerance", "~period"], &["~late", "~tolerance", "div_ceil"], &["late <= schedule . tolerance"]],
        instead: "ask gate_core::PhaseLock, or gate_core::decide",
        twin: "fn release(&mut self, now: u64) -> u64 { let late = now.saturating_sub(self.slot); if late > self.tolerance { self.slot += late.div_ceil(self.period) * self.period; } now.max(self.slot) }",
    },
    Rule {
        what: "whether the jobs of a link can exceed it",
        homes: &[
            ("crates/plan/src/table.rs", HOME),
            (
                "crates/circle/src/answer/report.rs",
                "the mathematics is below the planner, and asks which of two constant scores a link has",
            ),
        ],
        marks: &[
            &["~peak", "~saturating_add", "> capacity"],
            &["~peak", "~saturating_add", "> self . capacity"],
            &["~peak", "sum", "> capacity"],
            &["peak <= capacity"],
            &["peaks <= capacity"],
        ],
        instead: "call plan::can_exceed",
        twin: "fn is_tight() -> bool { on.iter().fold(0, |sum: u64, (_, peak)| sum.saturating_add(*peak)) > capacity.0 }",
    },
];

impl Rule {
    fn is_home(&self, path: &str) -> Option<&'static str> {
        let within = |home: &str| path == home || (home.ends_with('/') && path.starts_with(home));
        self.homes.iter().map(|(home, _)| *home).find(|home| within(home))
    }

    fn marks_in(&self, item: &Words) -> bool {
        self.marks.iter().any(|mark| mark.iter().all(|fragment| item.contain(fragment)))
    }

    /// Where `file` has it, whether it may or not.
    fn found(&self, file: &TextFile, items: &[Words]) -> Vec<Finding> {
        let marked = items.iter().filter(|item| self.marks_in(item));
        marked
            .map(|item| {
                let what = format!("a twin of {}, whose place is {}; {}", self.what, self.homes[0].0, self.instead);
                Finding::new(format!("{}:{}", file.path, item.line), what)
            })
            .collect()
    }
}

#[test]
fn what_is_decided_once_has_one_place() {
    let mut twins = Vec::new();
    let mut homes: Vec<(&str, &str)> = Vec::new();
    for file in crates().iter().flat_map(|c| &c.files) {
        let items = words(file);
        for rule in RULES {
            let found = rule.found(file, &items);
            match rule.is_home(&file.path) {
                Some(home) if !found.is_empty() => homes.push((rule.what, home)),
                Some(_) => {}
                None => twins.extend(found),
            }
        }
    }
    expect_none(&twins);
    let stands = |rule: &Rule, home: &str| homes.contains(&(rule.what, home));
    let rows = RULES.iter().flat_map(|rule| rule.homes.iter().map(move |(home, why)| (rule, home, why)));
    let stale = rows.filter(|(rule, home, _)| !stands(rule, home));
    let what = |rule: &Rule, why: &str| format!("{} is not found here ({why}); mend the row in tests/tests/house/once.rs", rule.what);
    expect_none(&stale.map(|(rule, home, why)| Finding::new(*home, what(rule, why))).collect::<Vec<_>>());
}

#[test]
fn a_twin_is_found() {
    for rule in RULES {
        let file = TextFile::new("crates/x/src/lib.rs", rule.twin);
        expect_one(&rule.found(&file, &words(&file)), rule.what);
        let test = TextFile::new("crates/x/src/lib.rs", format!("// {}\n#[cfg(test)] mod tests {{ {} }}", rule.twin, rule.twin));
        expect_none(&rule.found(&test, &words(&test)));
    }
}
