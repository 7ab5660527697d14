//! A committed job, and how it does.

use job::MeasuredProfile;
use plan::JobTimes;
use units::{FabricTime, LinkId, Nanos};

use super::View;
use crate::{Forecast, GateReport, GateTotals, JobDefinition, Slot, plan::Job};

/// Periods for which a report holds: a job of long iterations has few starts to report.
const REPORT_PERIODS: u64 = 4;
/// Iterations before a job is judged by them: the first ones of a training job are others.
const FAR_ITERATIONS_MIN: u64 = 20;

/// How a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// No report of its gate yet, or none of late.
    Committed,
    /// Its gate holds it to the slot.
    Held,
    /// Runs as it comes: nobody holds it.
    Free,
    /// Further from its slot than the slack.
    Drifting,
    /// Its gate fails open.
    Open,
}

/// A committed job.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    pub(super) view: &'a View,
    pub(super) job: &'a Job,
}

impl<'a> JobView<'a> {
    /// The job as it is planned: as committed, or as measured.
    #[must_use]
    pub fn planned(&self) -> &'a JobDefinition {
        &self.job.planned
    }

    /// What was measured of it, where it is planned with that and not with what was declared.
    #[must_use]
    pub fn measured(&self) -> Option<MeasuredProfile> {
        self.job.measured
    }

    /// The job as committed.
    #[must_use]
    pub fn committed(&self) -> &'a JobDefinition {
        &self.job.definition
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.job.name
    }

    /// The host of its rank 0, whose agent holds it.
    pub(crate) fn leader_host(&self) -> &'a str {
        &self.job.slot.leader_host
    }

    /// The job's slot. The slot expires as told to the leader's agent, at 0 if no agent was told yet.
    #[must_use]
    pub fn slot(&self) -> Slot {
        // The expiry is what the leader's agent was told with its latest plan: the plan itself keeps none.
        let expires = self.view.agents.at(&self.job.slot.leader_host).map_or(FabricTime(0), |a| a.expires);
        Slot { expires, ..self.job.slot.clone() }
    }

    /// Headroom of its period in thousandths.
    #[must_use]
    pub fn headroom_permille(&self) -> u32 {
        self.job.headroom_permille
    }

    /// Whether it takes turns now: it is to, and its group was not let go.
    fn takes_turns(&self) -> bool {
        self.job.slot.turns && !self.view.let_go.contains(&self.job.name)
    }

    /// How it does.
    #[must_use]
    pub fn state(&self) -> JobState {
        let watch = self.view.watches.get(&self.job.name);
        match watch.zip(self.report().map(|(_, report)| report)) {
            // The order of the arms is the order of weight: no fresh report, then no hold, then a gate that is open, then a drift.
            None => JobState::Committed,
            Some(_) if !self.job.slot.hold && !self.takes_turns() => JobState::Free,
            Some((_, last)) if last.fail_opens.saturating_mul(2) > last.iterations => JobState::Open,
            Some((watch, _)) if watch.drifting => JobState::Drifting,
            Some(_) => JobState::Held,
        }
    }

    /// The last report of its gate, and when it came; `None` once it is older than the silence after which an agent is given up
    /// and than a few periods: what the report said is no longer so.
    #[must_use]
    pub fn report(&self) -> Option<(FabricTime, &'a GateReport)> {
        // The age is measured on the view's time, which the events move: the same events give the same answer.
        let last = self.view.watches.get(&self.job.name).and_then(|w| w.last.as_ref());
        // The product saturates: a period too long to multiply is a report that never grows old.
        let holds = self.view.config.idle_timeout.0.max(self.job.slot.times.period.0.saturating_mul(REPORT_PERIODS));
        last.filter(|(at, _)| self.view.now.since(*at).0 <= holds).map(|(at, report)| (*at, report))
    }

    /// What its gate counted; `None` before the first report.
    #[must_use]
    pub fn totals(&self) -> Option<GateTotals> {
        self.view.watches.get(&self.job.name).filter(|w| w.last.is_some()).map(|w| w.totals)
    }

    /// The period that was learned, while it is not the expected one: further from it than [`crate::config::MISMATCH_PERMILLE`], in
    /// several reports.
    #[must_use]
    pub fn period_mismatch(&self) -> Option<Nanos> {
        // Of a job that takes turns nothing is learned here: what was learned before is old.
        self.view.watches.get(&self.job.name).filter(|_| !self.job.slot.turns).and_then(|w| w.period.mismatch)
    }

    /// The iterations by the gate of a job that takes turns ([`GateReport::measured`]), and what they would be by the plan, where the one is
    /// more than half as long again as the other. What is nearer is measured by the turns, and then planned with; before they have, or where
    /// what they see varies too much, this says so.
    #[must_use]
    pub fn far_from_plan(&self) -> Option<((Nanos, &'static str), Nanos)> {
        let (measured, what) = self.report().filter(|_| self.job.slot.turns).and_then(|(_, report)| report.measured())?;
        let has_just_begun = self.totals().is_some_and(|totals| totals.iterations < FAR_ITERATIONS_MIN);
        let solo = self.planned().job.period;
        let longest = self.times().map_or(solo, |times| times.contended.max(solo));
        let half_as_long_again = |long: Nanos, short: Nanos| long.0 > short.0.saturating_add(short.0 / 2);
        let is_far = half_as_long_again(measured, longest) || half_as_long_again(solo, measured);
        (is_far && !has_just_begun).then_some(((measured, what), solo))
    }

    /// Why the job is not held to a slot any more: its slot did not fit it, in one line with the figures. `None` where that is not so.
    #[must_use]
    pub fn hold_ended(&self) -> Option<&'a str> {
        // What ended a hold in a slot is nothing to jobs that take turns.
        self.job.hold_ended.as_deref().filter(|_| self.view.config.control == plan::Control::Slots)
    }

    /// When the job's lease ends; `None`: the job stays until it is released.
    #[must_use]
    pub fn lease_until(&self) -> Option<FabricTime> {
        self.view.leases.of(&self.job.name)
    }

    /// Predicted iteration times; `None` when it meets nobody: then they are its period.
    #[must_use]
    pub fn times(&self) -> Option<JobTimes> {
        self.job.component.as_ref().and_then(|c| c.times(&self.job.name)).map(|t| t.0)
    }

    /// Predicted iteration when the jobs of its component are held whose slots say so; `None` when it meets nobody.
    #[must_use]
    pub fn interleaved(&self) -> Option<Nanos> {
        self.job.component.as_ref().and_then(|c| c.times(&self.job.name)).map(|t| t.1)
    }

    /// What turns would bring it; `None` unless nobody is to be held, and where it meets nobody.
    #[must_use]
    pub fn forecast(&self) -> Option<Forecast> {
        self.job.component.as_ref().and_then(|c| c.forecast(&self.job.name))
    }

    /// The jobs that this job meets, directly or through others, itself included, by name; empty when the job meets nobody.
    pub fn component(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.job.component.iter().flat_map(|c| &c.members).map(|n| &**n)
    }

    /// Mean score over the links that its component can exceed, and that without shifts; `None` when it meets nobody.
    #[must_use]
    pub fn component_scores(&self) -> Option<(f64, f64)> {
        self.job.component.as_ref().map(|c| (c.score, c.zero_shift_score))
    }

    /// The links that it shares with other jobs, by id.
    pub fn shared_links(&self) -> impl Iterator<Item = LinkId> + use<'a> {
        let plan = &self.view.plan;
        self.job.load.demands.links.iter().map(|(l, _)| *l).filter(|l| plan.on(*l).len() > 1)
    }
}
