//! Faults as the world carries them out: who loses what, and who is slower.

use alloc::{collections::BTreeSet, vec::Vec};

use fabric::Fabric;
use policy::{
    muri::Timing,
    schedule::{Decision, JobIndex},
};

use super::{Setup, World};
use crate::trace::{
    Change, FaultOutcome, FaultSetup, Told, TraceError, TraceEvent,
    fault::{FAULTS_MAX, Failing, Timeline, Turned},
};

/// Faults, and what jobs have saved.
#[derive(Debug)]
pub(super) struct Outages {
    timeline: Timeline,
    checkpoint_s: f64,
    /// By job: iterations that were left at its last checkpoint, and for how long it has computed since.
    saved: Vec<(f64, f64)>,
    came: FaultOutcome,
}

impl Outages {
    /// # Errors
    /// [`TraceError::Nowhere`].
    pub(super) fn new(setup: &FaultSetup<'_>, world: &Setup<'_>, iterations: impl Iterator<Item = f64>) -> Result<Self, TraceError> {
        if world.timing == Timing::Artifact {
            return Err(TraceError::Nowhere);
        }
        let fabric: Option<&Fabric> = world.network.as_ref().map(|network| network.router.fabric());
        Ok(Self {
            timeline: Timeline::new(setup, world.cluster, fabric),
            checkpoint_s: setup.checkpoint_s,
            saved: iterations.map(|left| (left, 0.0)).collect(),
            came: FaultOutcome::default(),
        })
    }

    pub(super) fn next_s(&self) -> f64 {
        self.timeline.next_s()
    }

    pub(super) fn is_something_down(&self) -> bool {
        self.timeline.is_something_down()
    }

    pub(super) fn outcome(&self) -> FaultOutcome {
        self.came
    }

    /// A job starts or moves with what it has done so far.
    pub(super) fn starts(&mut self, job: JobIndex, left: f64) {
        self.saved[job as usize] = (left, 0.0);
    }

    /// A job has computed for so long, in iterations of that length, and so many are left of it.
    pub(super) fn ran(&mut self, job: JobIndex, gpus: u32, ran_s: f64, iteration_s: f64, left: f64) {
        if iteration_s.is_infinite() {
            self.came.still_gpu_s += ran_s * f64::from(gpus);
            return;
        }
        let (saved, since_s) = &mut self.saved[job as usize];
        *since_s += ran_s;
        if *since_s >= self.checkpoint_s {
            // The last of the checkpoints was so long ago, in iterations as they are now: what came before it is saved.
            *since_s %= self.checkpoint_s;
            *saved = left + *since_s / iteration_s;
        }
    }

    /// How many times as long iterations of each group take; nothing where nobody is slow.
    fn factors(&self, decision: &Decision) -> alloc::collections::BTreeMap<u32, f64> {
        let mut factors = alloc::collections::BTreeMap::new();
        if self.timeline.is_anybody_slow() {
            for place in &decision.places {
                let slowest: &mut f64 = factors.entry(place.group).or_insert(1.0);
                *slowest = slowest.max(self.timeline.factor(place.host));
            }
        }
        factors
    }
}

impl World<'_, '_> {
    /// Carries out the faults that begin or end until `at_s`; the next decision is carried out, whatever it says.
    ///
    /// # Errors
    /// [`TraceError::Faulty`].
    pub(super) fn fault(&mut self, at_s: f64) -> Result<(), TraceError> {
        let Some(outages) = &mut self.outages else { return Ok(()) };
        let turned = outages.timeline.advance(at_s);
        if turned.is_empty() {
            return Ok(());
        }
        self.shaken = true;
        outages.came.faults += turned.iter().filter(|turned| turned.begins).count() as u64;
        if outages.came.faults > FAULTS_MAX {
            return Err(TraceError::Faulty { now_s: at_s, faults: FAULTS_MAX, waiting: self.in_system });
        }
        // A host may turn twice at once; what counts is how it stands in the end.
        let hosts: BTreeSet<u32> =
            turned.iter().filter_map(|turned| if let Failing::Host(host) = turned.what { Some(host) } else { None }).collect();
        let (down, back): (Vec<u32>, Vec<u32>) = hosts.into_iter().partition(|host| outages.timeline.is_host_down(*host));
        if let Some(network) = &mut self.network
            && turned.iter().any(|turned| matches!(turned.what, Failing::Link(_) | Failing::Agent(_)))
        {
            network.reroute(&outages.timeline.links_down(network.fabric()), outages.timeline.agents_down());
        }
        back.iter().for_each(|host| self.scheduler.regain(*host));
        down.iter().for_each(|host| self.scheduler.lose(*host));
        if let Some(placer) = &mut self.placer {
            placer.follow(self.scheduler.capacity());
        }
        self.tell_faults(at_s, &turned);
        self.fall(at_s, &down);
        Ok(())
    }

    fn tell_faults(&mut self, at_s: f64, turned: &[Turned]) {
        if let Some(watcher) = &mut self.watcher {
            turned.iter().for_each(|&Turned { what, begins }| watcher(Told::Fault { at_s, what, begins }));
        }
    }

    /// Stops the jobs of hosts that are down.
    fn fall(&mut self, at_s: f64, down: &[u32]) {
        let Some(outages) = &mut self.outages else { return };
        let gone: BTreeSet<u32> =
            self.decision.places.iter().filter(|place| place.gpus > 0 && down.contains(&place.host)).map(|place| place.group).collect();
        for run in self.decision.runs.iter().filter(|run| gone.contains(&run.group)) {
            let (job, saved) = (&mut self.jobs[run.job as usize], outages.saved[run.job as usize].0);
            outages.came.failures += 1;
            outages.came.lost_gpu_s += (saved - job.left).max(0.0) * job.alone_s * f64::from(job.gpus);
            (job.left, job.running) = (saved, false);
            self.restarting_s[run.job as usize] = 0.0;
            if let Some(watcher) = &mut self.watcher {
                watcher(Told::Job(TraceEvent { at_s, job: run.job, change: Change::Fails, places: &[] }));
            }
        }
        for run in self.decision.runs.iter().filter(|run| gone.contains(&run.group)) {
            self.scheduler.fall(at_s, run.job, &self.jobs);
        }
        self.decision.runs.retain(|run| !gone.contains(&run.group));
        self.decision.places.retain(|place| !gone.contains(&place.group));
    }

    /// Makes iterations on slow hosts longer, of those who stand somewhere already.
    pub(super) fn slow(&mut self) {
        let Some(outages) = &self.outages else { return };
        let factors = outages.factors(&self.decision);
        for (run, said) in self.decision.runs.iter_mut().zip(&self.said.runs) {
            run.iteration_s = said.iteration_s * factors.get(&run.group).copied().unwrap_or(1.0);
        }
    }
}
