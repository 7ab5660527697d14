//! What groups of jobs that share GPUs are worth where they stand.
//!
//! The rules. Of a policy that groups jobs (Muri) the groups are asked for in several ways that it finds nearly as good, and each is placed. One is worth
//! what its jobs do in a second: for each job its GPUs times its iteration alone over its iteration in the group, less what the planner predicts that it
//! loses on links, and less the restarts of those that start, move or get other company, spread over the mean time that decisions have
//! lasted so far, at least [`LASTS_S`]. The policy's own groups stay unless others lose less on links, and are worth more by [`MARGIN`].

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};

use policy::schedule::{Decision, Job, JobIndex};

use super::{Network, NetworkControl, Ranker, component::components, sender::Sender};
use crate::trace::Trace;

/// By which share other groups must be worth more than the policy's own: predictions are of means.
const MARGIN: f64 = 0.002;

/// The shortest time that a decision is taken to last: the interval of Muri's paper. At each event anew, as here, most groups go on.
const LASTS_S: f64 = 360.0;

/// What a decision is worth.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::trace) struct Worth {
    /// GPU seconds of work a second.
    does: f64,
    /// GPU seconds a second that are predicted to be lost on links.
    loses: f64,
}

impl Worth {
    pub(in crate::trace) fn beats(&self, other: &Self) -> bool {
        self.loses < other.loses && self.does > other.does * (1.0 + MARGIN)
    }
}

impl Network<'_> {
    /// Whether the groups of a policy are chosen here.
    pub(in crate::trace) fn regroups(&self) -> bool {
        let predicts = !matches!(self.setup.control, NetworkControl::Ideal | NetworkControl::Paper);
        self.joint.is_some() && self.setup.ranker == Ranker::Antiphase && predicts
    }

    /// What a decision is worth whose groups all have places; `changed` says which of its runs pay a restart.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(in crate::trace) fn worth(
        &mut self,
        (trace, jobs): (&Trace, &[Job]),
        decision: &Decision,
        changed: &[bool],
        horizon_s: f64,
    ) -> Result<Worth, String> {
        let longer = self.predicted(trace, jobs, decision)?;
        let mut worth = Worth::default();
        for (run, changed) in decision.runs.iter().zip(changed) {
            let Some(job) = jobs.get(run.job as usize) else { continue };
            let alone = f64::from(job.gpus) * job.alone_s / run.iteration_s;
            let does = alone / longer.get(&run.job).copied().unwrap_or(1.0);
            let restart_s = if *changed { run.restart_s } else { 0.0 };
            worth.does += does * (1.0 - restart_s / horizon_s.max(restart_s).max(LASTS_S));
            worth.loses += alone - does;
        }
        Ok(worth)
    }

    /// How many times as long as on a network that is in nobody's way the iterations of jobs that meet others are predicted to be.
    fn predicted(&mut self, trace: &Trace, jobs: &[Job], decision: &Decision) -> Result<BTreeMap<JobIndex, f64>, String> {
        let stands = self.stand(trace, jobs, decision)?.0;
        let (mut names, mut senders): (Vec<&[JobIndex]>, Vec<Arc<Sender>>) = (Vec::new(), Vec::new());
        for ((members, ..), stand) in &stands {
            let Some(sender) = &stand.sender else { continue };
            names.push(members);
            senders.push(Arc::clone(sender));
        }
        let mut found = BTreeMap::new();
        for component in components(&senders, |link| self.capacity(link)).0 {
            let said = self.forecast(&senders, &component)?;
            for ((member, mean), alone) in component.members.iter().zip(&said.means).zip(component.content.alone()) {
                let period = senders[*member].job.period.0.max(1) as f64;
                names[*member].iter().for_each(|job| _ = found.insert(*job, mean * alone.0 as f64 / period));
            }
        }
        Ok(found)
    }
}
