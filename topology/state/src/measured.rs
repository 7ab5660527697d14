//! What was measured of a job against what it is planned with: the measured one wins.
//!
//! Turns need no profile to keep jobs apart, but whom to keep apart is predicted from one. A job that takes turns and is predicted to
//! run as if alone shows what it is: its iteration without its waits, and what it sends where it tells. Where that is another job than
//! the planned one, the job is planned anew. Beside others that it meets as it comes, an iteration shows those as well, and says nothing.

use alloc::{sync::Arc, vec::Vec};

use job::MeasuredProfile;
use units::Nanos;

use crate::{
    JobDefinition, Service,
    change::Queued,
    config::MISMATCH_PERMILLE,
    plan::{Job, Name},
    turns::MeasuredJobs,
};

/// The job as it is planned.
pub(crate) fn as_planned(definition: &Arc<JobDefinition>, measured: Option<MeasuredProfile>) -> Arc<JobDefinition> {
    let Some(measured) = measured else { return Arc::clone(definition) };
    let job = definition.job.as_measured(measured);
    Arc::new(JobDefinition { job, ..(**definition).clone() })
}

/// Whether what was measured is another job than the planned one, and was measured where it can be told.
pub(crate) fn differs(job: &Job, measured: MeasuredProfile) -> bool {
    let planned = &job.planned.job;
    let within = plan::slot::share(planned.period, MISMATCH_PERMILLE);
    let longest = Nanos(planned.period.0.saturating_add(within.0));
    let runs_alone = job.component.as_ref().and_then(|c| c.times(&job.name)).is_some_and(|(_, predicted)| predicted <= longest);
    let far = |measured: Nanos, planned: Nanos| measured.0.abs_diff(planned.0) > within.0;
    let sends_otherwise = measured.sent.is_some_and(|sent| far(sent, Nanos(planned.up())));
    job.slot.turns && runs_alone && (far(measured.iteration, planned.period) || sends_otherwise)
}

impl Service {
    /// Plans jobs anew that were measured to be others.
    pub(crate) fn measured(&mut self, said: &MeasuredJobs) {
        let others = said.0.iter().filter(|(name, measured)| self.view.plan.job(name).is_some_and(|job| differs(job, *measured)));
        let jobs: Vec<(Name, MeasuredProfile)> = others.cloned().collect();
        if !jobs.is_empty() {
            self.enqueue(Queued::Measure { jobs });
        }
    }
}
