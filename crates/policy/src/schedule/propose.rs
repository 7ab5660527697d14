//! What a policy would do now, in several ways, for whoever carries it out elsewhere and chooses among them.
//!
//! The rules. The policy decides as it does for [`Scheduler::decide`], and there is no other path: who runs, and why. Who runs already and goes
//! on stays where it is; the others are placed in up to so many ways, the most compact first ([`Placer`](super::Placer)). Where these are fewer
//! than were asked for, other groups of the same jobs follow that the policy finds nearly as good ([`Scheduler::alternatives`]). A policy that
//! places its jobs itself has one way. Nothing that does not fit is proposed.

use alloc::vec::Vec;

use super::{Decision, Job, Placer, Scheduler};

/// Candidate places that are compared for one decision, as many as the CASSINI paper asks its scheduler for.
pub const CANDIDATES: usize = 10;

/// A cluster: its jobs, and where they stand.
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    /// The jobs as their owner keeps them; the scheduler was told who of them came and left.
    pub jobs: &'a [Job],
    /// Who runs now, and on which hosts.
    pub standing: &'a Decision,
    /// The leaf that each host hangs on.
    pub leaf_of: &'a [u32],
    /// Which of equal places are drawn.
    pub seed: u64,
}

/// A way to go on: who runs and why, and on which GPUs of which hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// All of it: runs, places, a reason for each of the runs with what it was ordered by, and the same of those who wait.
    pub decision: Decision,
}

impl Scheduler {
    /// Up to `n` ways to go on from `now_s`, no two alike, the policy's own and most compact one first. None when nobody is to run, or nothing fits.
    /// As after [`Scheduler::decide`], the policy takes it that the jobs of the first run from now on.
    pub fn propose(&mut self, now_s: f64, view: &ClusterView<'_>, n: usize) -> Vec<Candidate> {
        let explain = core::mem::replace(&mut self.settings.explain, true);
        let mut said = Decision::default();
        self.decide(now_s, view.jobs, &mut said);
        let mut found: Vec<Candidate> = Vec::new();
        self.offer(&said, view, n, &mut found);
        if found.len() < n && !said.groups_share {
            for other in self.alternatives(view.jobs) {
                // One placement for each alternative: the grouping matters more than the choice among equal hosts.
                let one = found.len().saturating_add(1).min(n);
                self.offer(&other, view, one, &mut found);
            }
        }
        self.settings.explain = explain;
        found
    }

    /// Adds places of a decision until there are `n` candidates.
    fn offer(&self, said: &Decision, view: &ClusterView<'_>, n: usize, found: &mut Vec<Candidate>) {
        let ways = if said.groups_share {
            alloc::vec![said.clone()]
        } else {
            let mut placer = Placer::new(self.capacity.clone(), view.leaf_of);
            let mut kept = said.clone();
            let unplaced = placer.keep(view.standing, &mut kept, view.jobs);
            let whole = |places: Vec<super::Place>| Decision { places: [kept.places.as_slice(), &places].concat(), ..kept.clone() };
            placer.candidates(&unplaced, n.saturating_sub(found.len()), view.seed).into_iter().map(whole).collect()
        };
        for decision in ways {
            let fits = decision.check(&self.capacity, view.jobs).is_ok() && decision.check_there(&self.capacity).is_ok();
            let is_new = found.iter().all(|known| (&known.decision.runs, &known.decision.places) != (&decision.runs, &decision.places));
            if found.len() < n && fits && is_new && !decision.runs.is_empty() {
                found.push(Candidate { decision });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::{
        super::{Cluster, GandivaOptions, MuriOptions, Reason, Rule, Settings, job::samples::job},
        *,
    };
    use crate::muri::{Profile, Stages, Timing};

    const CLUSTER: Cluster = Cluster { hosts: 6, gpus_per_host: 4 };
    const LEAF_OF: [u32; 6] = [0, 0, 1, 1, 2, 2];

    fn scheduler(rule: Rule, jobs: &[Job]) -> Scheduler {
        let stages = Stages { load_s: 0.4, gpu_s: 0.5, net_s: 0.1 };
        let profile = Profile { iteration_s: 1.0, stages, restart_s: 10.0 };
        let mut scheduler = Scheduler::new(rule, CLUSTER, Settings { timing: Timing::Paper, profiles: vec![profile], explain: false });
        (0..).zip(jobs).for_each(|(at, _)| scheduler.arrive(at));
        scheduler
    }

    fn view<'a>(jobs: &'a [Job], standing: &'a Decision) -> ClusterView<'a> {
        ClusterView { jobs, standing, leaf_of: &LEAF_OF, seed: 7 }
    }

    #[test]
    fn candidates_are_those_of_the_decision_in_other_places_and_say_why() {
        let jobs: Vec<Job> = [(4, 9.0), (2, 5.0), (8, 7.0)].map(|(gpus, left)| Job { left, ..job(gpus) }).to_vec();
        let found = scheduler(Rule::Srtf, &jobs).propose(0.0, &view(&jobs, &Decision::default()), 5);
        assert!((2..=5).contains(&found.len()), "{found:?}");
        let mut decided = Decision::default();
        scheduler(Rule::Srtf, &jobs).decide(0.0, &jobs, &mut decided);
        for (at, candidate) in found.iter().enumerate() {
            let Decision { runs, reasons, .. } = &candidate.decision;
            assert_eq!(*runs, decided.runs);
            // The least time that is left comes first: 5, 7 and 9 s.
            assert_eq!(runs.iter().map(|run| run.job).collect::<Vec<_>>(), [1, 2, 0]);
            let ranks = [(0, 5.0), (1, 7.0), (2, 9.0)].map(|(before, value)| Reason::Rank { before, value });
            assert_eq!(*reasons, ranks);
            assert_eq!(candidate.decision.check(&CLUSTER.into(), &jobs), Ok(()));
            assert!(found[..at].iter().all(|other| other.decision.places != candidate.decision.places));
        }
    }

    /// Three jobs for the GPUs of one: each arm says of those who wait what they had in the order, or in the auction.
    #[test]
    fn each_policy_says_what_those_who_wait_had() {
        let full = CLUSTER.hosts * CLUSTER.gpus_per_host;
        let jobs: Vec<Job> = [(50.0, 3.0), (70.0, 1.0), (90.0, 2.0)]
            .map(|(left, submitted_s)| Job { left, declared_s: left, submitted_s, ran_s: 100.0 - left, started: true, ..job(full) })
            .to_vec();
        let gpus = f64::from(full);
        let rank = |job: u32, before: u32, value: f64| (job, Reason::Rank { before, value });
        let by_order = [
            (Rule::Fifo, vec![rank(1, 1, 1.0), rank(2, 2, 2.0)]),
            (Rule::Srtf, vec![rank(1, 1, 70.0), rank(2, 2, 90.0)]),
            (Rule::Srsf, vec![rank(1, 1, 70.0 * gpus), rank(2, 2, 90.0 * gpus)]),
            (Rule::TIRESIAS, vec![rank(1, 1, 30.0 * gpus), rank(2, 2, 10.0 * gpus)]),
            // In order of submission, of which the second is the first.
            (Rule::AntMan, vec![rank(2, 1, 2.0), rank(0, 2, 3.0)]),
        ];
        for (rule, expected) in by_order {
            let found = scheduler(rule, &jobs).propose(100.0, &view(&jobs, &Decision::default()), 2);
            assert_eq!(found[0].decision.passed, expected, "{rule:?}");
        }
        // The first of these has the GPUs; the others would be as late as they bid.
        let found = scheduler(Rule::Themis, &jobs).propose(100.0, &view(&jobs, &Decision::default()), 1);
        let passed = &found[0].decision.passed;
        let late = |(_, reason): &(u32, Reason)| matches!(reason, Reason::Fairness { before, after, until_s: 100.0 } if before > after && *after > 0.0);
        assert!(passed.len() == 2 && passed.iter().all(late), "{passed:?}");
        // Muri says of its other groups how efficient they are, as of its own.
        let muri = Rule::Muri(MuriOptions::default());
        let few: Vec<Job> = [4; 20].map(job).to_vec();
        for candidate in scheduler(muri, &few).propose(0.0, &view(&few, &Decision::default()), 9) {
            let Decision { runs, reasons, passed, .. } = candidate.decision;
            assert_eq!((runs.len(), runs.len() + passed.len()), (reasons.len(), few.len()));
        }
    }

    #[test]
    fn who_goes_on_stays_where_it_is_and_nobody_comes_to_a_host_that_is_out() {
        let mut jobs: Vec<Job> = [4, 4].map(job).to_vec();
        let mut scheduler = scheduler(Rule::Srsf, &jobs[..1]);
        let first = scheduler.propose(0.0, &view(&jobs[..1], &Decision::default()), 1).swap_remove(0).decision;
        jobs[0].running = true;
        scheduler.arrive(1);
        scheduler.lose(1);
        for candidate in scheduler.propose(1.0, &view(&jobs, &first), 9) {
            let of = |job: u32| {
                let group = candidate.decision.runs.iter().find(|run| run.job == job).unwrap().group;
                candidate.decision.places.iter().filter(|place| place.group == group).map(|place| place.host).collect::<Vec<_>>()
            };
            assert_eq!(of(0), [first.places[0].host]);
            assert!(of(1) != [1] && of(1) != of(0));
        }
        assert!(scheduler.propose(1.0, &view(&jobs, &first), 0).is_empty());
    }

    #[test]
    fn a_policy_that_places_its_jobs_has_one_way_and_one_without_jobs_none() {
        let jobs: Vec<Job> = [4; 9].map(job).to_vec();
        let gandiva = Rule::Gandiva(GandivaOptions::default());
        let found = scheduler(gandiva, &jobs).propose(0.0, &view(&jobs, &Decision::default()), 9);
        assert!(found.len() == 1 && matches!(found[0].decision.reasons[0], Reason::Turns { .. }), "{found:?}");
        for rule in [gandiva, Rule::Srtf, Rule::Themis, Rule::Muri(MuriOptions::default())] {
            assert!(scheduler(rule, &[]).propose(0.0, &view(&[], &Decision::default()), 9).is_empty());
        }
    }
}
