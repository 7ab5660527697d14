//! What the service can be told, and its limits.

use circle::Effort;
use fabric::route::Ecmp;
use fluid::TOLERANCE_PERMILLE;
use plan::{Control, slot::HEADROOM_PERMILLE, turns::Objective};
use units::Nanos;

/// GPUs of a host of which nobody says how many: what a training server mostly has.
pub const GPUS_PER_HOST: u32 = 8;
/// Most committed jobs: ten times the largest cluster that the benchmarks rank.
pub const JOBS_MAX: usize = 10_000;
/// Most phases of all committed jobs together, each of which takes some 170 bytes of memory: 180 MB, and a hundred phases for each of
/// [`JOBS_MAX`] jobs.
pub const PHASES_MAX: usize = 1 << 20;
/// Most jobs in one commit: a whole scheduling round of the largest cluster.
pub const COMMIT_JOBS_MAX: usize = 1_000;
/// Most agents remembered, connected or not: one per host of the largest fabric, and half as many again that were replaced.
pub const AGENTS_MAX: usize = 16_384;
/// Most changes waiting for the store: a second's worth; beyond it a caller had better try again than wait.
pub const QUEUE_MAX: usize = 4_096;
/// Most of them of one user, so that nobody takes the room of all.
pub const USER_QUEUE_MAX: usize = QUEUE_MAX / 2;
/// What there is too much of where a change is refused because [`QUEUE_MAX`] are waiting: it passes.
pub(crate) const WAITING: &str = "changes waiting for the store";
/// Most changes in one batch for the store: enough to pay one sync for many, few enough to apply within milliseconds.
pub const BATCH_MAX: usize = 64;
/// A batch ends with the change that makes it this many touched jobs: what a change costs grows with the jobs that it plans
/// again, and 64 changes of one large component would keep everybody else waiting for many seconds.
pub const BATCH_TOUCHED_MAX: usize = 1_000;
/// A batch ends with the change that makes it plan this many phases again, on all their links. Phases say little of time: four jobs of eight
/// each that meet on two hosts count 144 and take half a second, so such a change is a batch of its own; two jobs of one Up phase there
/// count 16, so eight commits of them share a sync.
pub const BATCH_PHASES_MAX: u64 = 1 << 7;
/// Most notices from one event; more are counted in a last one. Orders to an executor are always told, and not among them.
pub const NOTICES_MAX: usize = 256;
/// Longest idempotency key in bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// Most idempotency keys remembered. Beyond it the oldest key goes of the user who has most, so that nobody's keys push out those of one
/// who has fewer.
pub const KEYS_MAX: usize = 10_000;
/// Most slots and names of jobs that moved in the remembered answers of all keys together: 20 MB. An answer keeps the slots of the jobs that
/// the commit changed; a renewal keeps none, because they can be read from the plan. The same user's oldest key goes first.
pub const KEY_SLOTS_MAX: usize = 100_000;
/// How long an idempotency key is remembered: a day.
pub const KEY_AGE_MAX: Nanos = Nanos(86_400_000_000_000);
/// Keys that one batch forgets because of their age, so that forgetting never holds up a commit.
pub(crate) const KEYS_FORGOTTEN_PER_BATCH: usize = 2 * BATCH_MAX;
/// Most gates read from one report: a host leads no more jobs than it has GPUs, and some hosts have virtual ones.
pub const GATES_PER_REPORT_MAX: usize = 256;
/// Longest version of an agent's program, in bytes.
pub const VERSION_BYTES_MAX: usize = 64;
/// Most ports kept of an agent.
pub const PORTS_MAX: usize = 256;
/// How far an agent's version of the plan may be ahead of the service's to be believed: more changes than lie between two backups.
pub const SEEN_AHEAD_MAX: u64 = 1_000_000;
/// Most work of planning in one change, in units of about 10 ns: two seconds, which everybody else waits for. The components that it plans
/// again share it by the phases of their jobs on links; one for which it is too little runs as its jobs come.
pub const PLANNING_WORK_MAX: u64 = 220_000_000;
/// The same for all components at a start, when no change waits yet.
pub const RESTORE_WORK_MAX: u64 = 10 * PLANNING_WORK_MAX;
/// No component gets less of that: ten milliseconds, which components of few phases do not need.
pub const COMPONENT_WORK_MIN: u64 = 1_000_000;
/// How much worse than the best joint solution the mean score of a component may stay so that running jobs keep their slots:
/// 1 % of the links' capacity is below what a restart of phases costs.
pub const MOVE_TOLERANCE: f64 = 0.01;
/// What a component's headroom grows by when its jobs slip too often.
pub const HEADROOM_STEP_PERMILLE: u32 = 20;
/// Largest headroom: beyond a fifth, running as it comes is cheaper.
pub const HEADROOM_MAX_PERMILLE: u32 = 200;
/// How often the reports of one job may raise the headroom of all that it meets: a job writes its report itself, so what it
/// invents must not slow others down by more than 6 %.
pub const RAISES_MAX: u32 = 3;
/// Iterations needed before slips are judged.
pub const SLIP_ITERATIONS_MIN: u64 = 20;
/// One slip in more iterations than this is no reason to act.
pub const SLIPS_ONE_IN: u64 = 20;
/// Consecutive reports beyond the slack that make a drift: one report may be an outlier, three reports are a trend.
pub const DRIFT_REPORTS: u32 = 3;
/// The same for reports of another period than the declared one, and for those of the declared one after that.
pub const MISMATCH_REPORTS: u32 = 3;
/// How far a measured iteration may be from what is expected, in thousandths: as far as the headroom of a slot reaches. A job beyond
/// that is not the one that its slot was made for, and it waits for nothing in most iterations.
pub const MISMATCH_PERMILLE: u32 = 50;
/// After a measurement has planned a job anew, so long until the next one may: an agent writes its notes itself, and a component may take
/// seconds to plan.
pub const MEASURED_APART: Nanos = Nanos::from_millis(60_000);
/// Each time so many times as long as the time before: a minute, four, sixteen, an hour.
pub const MEASURED_APART_TIMES: u64 = 4;
/// The longest such time, about that between two trials of turns.
pub const MEASURED_APART_MAX: Nanos = Nanos::from_millis(4 * 3_600_000);
/// How long a job that agents had planned anew stays as it is, after the time before: what agents say makes others plan for no longer than
/// the logarithm of the time.
#[must_use]
pub fn measured_apart(before: Option<Nanos>) -> Nanos {
    before.map_or(MEASURED_APART, |apart| Nanos(apart.0.saturating_mul(MEASURED_APART_TIMES).min(MEASURED_APART_MAX.0)))
}

/// A job is not believed to send so many times as long as planned, or so many times less: what was measured then was something else.
pub const MEASURED_SENT_TIMES: u64 = 4;
/// The end of a hold is put off for so long while others do not keep to their slots: an agent restarts or a node reboots within it.
pub const EXCUSED_MAX: Nanos = Nanos::from_millis(600_000);
/// Without a reason to put it off for so long, the trouble has passed.
pub const EXCUSED_APART: Nanos = Nanos::from_millis(60_000);
/// Consecutive reports beyond the slack that end a hold: four times what asks for another slot, so neither where the job is nor where
/// its slot could go keeps it within the slack.
pub const DRIFT_END_REPORTS: u32 = 4 * DRIFT_REPORTS;
/// One slip in fewer iterations than this ends a hold that has had its headroom: a slip waits for most of a period, so slips
/// alone then cost a tenth of the time, beside a headroom of as much.
pub const SLIPS_END_ONE_IN: u64 = 10;
/// One slip in fewer iterations than this ends a hold at once: a job whose every second start slips repeats otherwise than its slot,
/// and a headroom of two per cent more, three times, would only make it pay for longer.
pub const SLIPS_HOPELESS_ONE_IN: u64 = 2;
/// An agent leaves quarantine when its clock's bound is below this share of the slack, so that it does not flap.
pub const TRUST_PERMILLE: u32 = 750;
/// Two agents of one host come back within this: each waits for up to 15 s before it calls again, and as long again for a slow service, twice.
pub const TWINS_APART: Nanos = Nanos(60_000_000_000);
/// How long internal changes wait after the store failed.
pub const STORE_RETRY: Nanos = Nanos(1_000_000_000);

/// What the service can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How switches choose among equal routes.
    pub ecmp: Ecmp,
    /// How long a plan may be trusted after it was sent; renewed to connected agents after a third of it.
    pub plan_ttl: Nanos,
    /// Silence after which an agent is given up.
    pub idle_timeout: Nanos,
    /// What a period is longer than the iteration alone, in thousandths, for jobs that never slipped.
    pub headroom_permille: u32,
    /// How late a start may be and still go at once, in thousandths of the period.
    pub tolerance_permille: u32,
    /// How much work the solver may spend on a component.
    pub effort: Effort,
    /// How jobs are kept apart.
    pub control: Control,
    /// What turns are chosen for.
    pub objective: Objective,
    /// Whether a scheduler commits and releases what was submitted to it, and nobody else does.
    pub scheduled: bool,
    /// GPUs of each host, where the operator says so; a fabric that states another number is refused.
    pub gpus_per_host: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ecmp: Ecmp::Spread,
            plan_ttl: Nanos(60_000_000_000),
            idle_timeout: Nanos(15_000_000_000),
            headroom_permille: HEADROOM_PERMILLE,
            tolerance_permille: TOLERANCE_PERMILLE,
            effort: Effort::Fast,
            control: Control::default(),
            objective: Objective::default(),
            scheduled: false,
            gpus_per_host: None,
        }
    }
}
