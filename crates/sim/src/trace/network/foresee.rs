//! What jobs whose GPUs change from round to round lose where they stand: the planner's prediction, by the code that ranks places of other traces.
//!
//! A job sends during its network time, the last part of its iteration, as `sender` says. Times are told to five bits (1.6 %), so that meetings
//! recur although batches are tuned all the time, and each is predicted once.

use alloc::{collections::BTreeMap, format, string::String, sync::Arc, vec, vec::Vec};

use fabric::route::Router;
use units::LinkId;

use super::{
    MEETINGS_MAX, NetworkControl,
    component::{Component, Content, components},
    play::forecast,
    sender::{Hosts, Part, Sender, Unsent, nanos},
};

/// Bits of a time that are not told: of the 52 behind the first, all but five.
const UNTOLD: u32 = 47;
/// Longest iteration: what the network's integers hold.
const ITERATION_MAX_S: f64 = 3_600.0;

/// A job that sends.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::trace) struct Standing {
    /// One iteration on a network that is in nobody's way, in seconds.
    pub(in crate::trace) iteration_s: f64,
    /// How much of it is sending.
    pub(in crate::trace) sync_s: f64,
    /// Its GPUs by host.
    pub(in crate::trace) parts: Vec<Part>,
}

/// Predicts, and remembers what it predicted.
#[derive(Debug)]
pub(in crate::trace) struct Foreseer<'a> {
    hosts: Hosts<'a>,
    control: NetworkControl,
    remembered: BTreeMap<Content, Arc<[f64]>>,
    /// How many meetings the planner was asked for.
    pub(in crate::trace) predicted: u64,
}

impl<'a> Foreseer<'a> {
    /// # Errors
    /// The fabric has fewer hosts, or a link of unknown capacity.
    pub(in crate::trace) fn new(router: &'a Router<'a>, hosts: u32, gpus_per_host: u32, control: NetworkControl) -> Result<Self, String> {
        let fabric = router.fabric();
        if let Some(link) = fabric.links().iter().zip(0..).find(|(link, _)| link.capacity.is_none()) {
            return Err(format!("link {} has no capacity", fabric.link_name(LinkId(link.1))));
        }
        let has = fabric.hosts().count();
        let found = Hosts::new(router, vec![gpus_per_host; hosts as usize])
            .ok_or_else(|| format!("the fabric has {has} hosts, the cluster {hosts}"))?;
        Ok(Self { hosts: found, control, remembered: BTreeMap::new(), predicted: 0 })
    }

    /// By job: how many times as long its iterations take as on a network that is in nobody's way.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(in crate::trace) fn longer(&mut self, standings: &[Option<Standing>]) -> Result<Vec<f64>, String> {
        let (mut senders, mut of): (Vec<Arc<Sender>>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, standing) in standings.iter().enumerate() {
            if let Some(sender) = standing.as_ref().map(|standing| self.sender(standing)).transpose()?.flatten() {
                senders.push(Arc::new(sender));
                of.push(at);
            }
        }
        let mut longer = vec![1.0; standings.len()];
        for component in components(&senders, |link| self.capacity(link)).0 {
            let said = self.predict(&senders, &component)?;
            for (member, said) in component.members.iter().zip(said.iter()) {
                longer[of[*member]] = *said;
            }
        }
        Ok(longer)
    }

    fn sender(&self, standing: &Standing) -> Result<Option<Sender>, String> {
        let iteration_s = told(standing.iteration_s.min(ITERATION_MAX_S));
        let sync_s = told(standing.sync_s).min(iteration_s);
        let ups = [(nanos(iteration_s - sync_s), nanos(iteration_s))];
        let gpus = standing.parts.iter().map(|(_, gpus)| gpus.len() as u32).sum();
        let sends = ups.iter().any(|(start, end)| start < end);
        match self.hosts.of_ups(nanos(iteration_s), if sends { &ups } else { &[] }, gpus, &standing.parts) {
            Ok(sender) => Ok(sender),
            Err(Unsent::Refused(problem)) => Err(problem),
            // No link is ever down here.
            Err(Unsent::Cut) => Ok(None),
        }
    }

    fn capacity(&self, link: LinkId) -> u64 {
        // `new` refused a fabric with a link of unknown capacity.
        self.hosts.fabric().capacity(link).map_or(0, |rate| rate.0)
    }

    fn predict(&mut self, senders: &[Arc<Sender>], component: &Component) -> Result<Arc<[f64]>, String> {
        if let Some(said) = self.remembered.get(&component.content) {
            return Ok(Arc::clone(said));
        }
        self.predicted += 1;
        let members: Vec<&Sender> = component.members.iter().map(|at| senders[*at].as_ref()).collect();
        let alone = component.content.alone();
        let means = forecast(&members, &alone, (self.control, true), |link| self.capacity(link))?.means;
        // A control without a prediction keeps everybody apart.
        let means = means.into_iter().chain(core::iter::repeat(1.0));
        let over = alone.iter().zip(&component.content.jobs).map(|(alone, job)| alone.0 as f64 / job.period as f64);
        let said: Arc<[f64]> = over.zip(means).map(|(over, mean)| (over * mean).max(1.0)).collect();
        if self.remembered.len() >= MEETINGS_MAX {
            self.remembered.clear();
        }
        self.remembered.insert(component.content.clone(), Arc::clone(&said));
        Ok(said)
    }
}

/// A time as it is told.
fn told(seconds: f64) -> f64 {
    // Below a microsecond there is nothing to tell. A sum that leaves the last bits carries into the exponent, which is the next octave.
    if seconds < 1e-6 { 0.0 } else { f64::from_bits(((seconds.to_bits() >> (UNTOLD - 1)) + 1) >> 1 << UNTOLD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_to_a_few_percent() {
        for seconds in [1e-5, 0.0123, 1.0, 77.7, 3_000.0] {
            assert!((told(seconds) / seconds - 1.0).abs() < 0.016, "{seconds}");
            assert_eq!(told(told(seconds)).to_bits(), told(seconds).to_bits());
        }
        assert_eq!(told(0.0).to_bits(), 0.0_f64.to_bits());
    }
}
