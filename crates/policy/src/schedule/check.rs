//! Whether a decision can be carried out.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{
    hosts::Capacity,
    job::{Decision, Job, JobIndex, Run},
};

/// Why a decision cannot be carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InfeasibleError {
    /// A job that is not there.
    #[error("job {job} does not exist or runs twice")]
    Job {
        /// Which job.
        job: JobIndex,
    },
    /// Jobs of one group want different numbers of GPUs, or others than the group has.
    #[error("job {job} needs {needs} GPUs, its group has {has}")]
    Gpus {
        /// Which job.
        job: JobIndex,
        /// What it needs.
        needs: u32,
        /// What its group has.
        has: u32,
    },
    /// A job that may grow has fewer GPUs than it needs, or more than it can use.
    #[error("job {job} needs {needs} GPUs and uses {most} at most, its group has {has}")]
    Grown {
        /// Which job.
        job: JobIndex,
        /// What it needs.
        needs: u32,
        /// The most that it can use.
        most: u32,
        /// What its group has.
        has: u32,
    },
    /// A job that has more GPUs than it needs, some of which others have too.
    #[error("job {job} needs {needs} GPUs and has {has}, some of which others have too")]
    Shared {
        /// Which job.
        job: JobIndex,
        /// What it needs.
        needs: u32,
        /// What it has.
        has: u32,
    },
    /// A host gives more GPUs than it has.
    #[error("host {host} has {has} GPUs and gives {gives}")]
    Host {
        /// Which host.
        host: u32,
        /// Its GPUs.
        has: u32,
        /// What groups were given of it.
        gives: u32,
    },
    /// A host that is out gives GPUs.
    #[error("host {host} is out and gives {gives} GPUs")]
    Out {
        /// Which host.
        host: u32,
        /// What a group was given of it.
        gives: u32,
    },
    /// More GPUs than the cluster has.
    #[error("the cluster has {has} GPUs and gives {gives}")]
    Cluster {
        /// Its GPUs.
        has: u32,
        /// What groups were given.
        gives: u64,
    },
    /// An iteration that takes no time, or no number.
    #[error("job {job} has iterations of {seconds} s")]
    Iteration {
        /// Which job.
        job: JobIndex,
        /// How long.
        seconds: f64,
    },
}

impl Decision {
    /// Checks that the runs fit on the cluster: every job at most once, all GPUs that it needs, no more than it can use, none given twice.
    ///
    /// # Errors
    /// [`InfeasibleError`], the first thing that does not fit.
    pub fn check(&self, hosts: &Capacity, jobs: &[Job]) -> Result<(), InfeasibleError> {
        let mut seen: Vec<JobIndex> = self.runs.iter().map(|run| run.job).collect();
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(InfeasibleError::Job { job: twice[0] });
        }
        // What each group has; where nothing was placed, what its first member needs.
        let mut has: BTreeMap<u32, u32> = BTreeMap::new();
        let mut gives = alloc::vec![0_u32; hosts.full().len()];
        let mut of_host: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for place in &self.places {
            // Whoever shares GPUs, no group has more of a host than the host has.
            let group_gives = of_host.entry((place.group, place.host)).or_default();
            *group_gives = group_gives.saturating_add(place.gpus);
            let of = hosts.full().get(place.host as usize).copied().unwrap_or(0);
            if *group_gives > of {
                return Err(InfeasibleError::Host { host: place.host, has: of, gives: *group_gives });
            }
            *has.entry(place.group).or_default() += place.gpus;
            match gives.get_mut(place.host as usize) {
                Some(gives) => *gives = gives.saturating_add(place.gpus),
                None => return Err(InfeasibleError::Host { host: place.host, has: 0, gives: place.gpus }),
            }
        }
        let mut grown: Vec<(&Run, InfeasibleError)> = Vec::new();
        for run in &self.runs {
            let job = jobs.get(run.job as usize).ok_or(InfeasibleError::Job { job: run.job })?;
            let has = *has.entry(run.group).or_insert(job.gpus);
            let (needs, most) = (job.gpus, job.gpus_max.max(job.gpus));
            match has {
                _ if (needs..=most).contains(&has) => {}
                _ if most > needs => return Err(InfeasibleError::Grown { job: run.job, needs, most, has }),
                _ => return Err(InfeasibleError::Gpus { job: run.job, needs, has }),
            }
            if has > needs {
                grown.push((run, InfeasibleError::Shared { job: run.job, needs, has }));
            }
            // The negated form also refuses what is not a number.
            if !(run.iteration_s > 0.0 && run.iteration_s.is_finite()) {
                return Err(InfeasibleError::Iteration { job: run.job, seconds: run.iteration_s });
            }
        }
        self.check_grown(grown, hosts, &gives)?;
        // A policy whose groups share says so, and answers for who is on which GPU.
        if self.groups_share {
            return Ok(());
        }
        if let Some(((gives, has), host)) = gives.into_iter().zip(hosts.full()).zip(0..).find(|((gives, has), _)| gives > *has) {
            return Err(InfeasibleError::Host { host, has: *has, gives });
        }
        let gives: u64 = has.values().map(|gpus| u64::from(*gpus)).sum();
        if gives > u64::from(hosts.all()) {
            return Err(InfeasibleError::Cluster { has: hosts.all(), gives });
        }
        Ok(())
    }

    /// Checks that who has more GPUs than it needs shares none of them: it is alone in its group, and its hosts give no more than they have. Of each
    /// such run comes with it what is wrong where it does.
    fn check_grown(&self, grown: Vec<(&Run, InfeasibleError)>, hosts: &Capacity, gives: &[u32]) -> Result<(), InfeasibleError> {
        // Nearly every decision: nobody has grown.
        if grown.is_empty() {
            return Ok(());
        }
        let mut members: BTreeMap<u32, u32> = BTreeMap::new();
        self.runs.iter().for_each(|run| *members.entry(run.group).or_default() += 1);
        let crowded = |host: u32| hosts.full().get(host as usize) < gives.get(host as usize);
        let shared: BTreeSet<u32> = self.places.iter().filter(|place| crowded(place.host)).map(|place| place.group).collect();
        let shares = |run: &Run| shared.contains(&run.group) || members.get(&run.group) > Some(&1);
        grown.into_iter().find(|(run, _)| shares(run)).map_or(Ok(()), |(_, problem)| Err(problem))
    }

    /// Checks that nobody is given GPUs of a host that is out.
    ///
    /// # Errors
    /// [`InfeasibleError::Out`], the first place that is none.
    pub fn check_there(&self, capacity: &Capacity) -> Result<(), InfeasibleError> {
        let out = self.places.iter().find(|place| place.gpus > capacity.gpus_of(place.host));
        out.map_or(Ok(()), |place| Err(InfeasibleError::Out { host: place.host, gives: place.gpus }))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::{
        super::{
            hosts::Cluster,
            job::{Place, samples::job},
        },
        *,
    };

    const CLUSTER: Cluster = Cluster { hosts: 2, gpus_per_host: 8 };

    fn run(job: JobIndex, group: u32) -> Run {
        Run { job, group, iteration_s: 1.0, restart_s: 0.0 }
    }

    fn place(group: u32, host: u32, gpus: u32) -> Place {
        Place { group, host, gpus }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let jobs = [job(8), job(8), job(4)];
        let decision = |runs: Vec<Run>, places: Vec<Place>| Decision { runs, places, ..Decision::default() };
        let good = decision(vec![run(0, 0), run(1, 0), run(2, 1)], vec![place(0, 0, 8), place(1, 1, 4)]);
        assert_eq!(good.check(&CLUSTER.into(), &jobs), Ok(()));
        let twice = decision(vec![run(0, 0), run(0, 1)], vec![place(0, 0, 8), place(1, 1, 8)]);
        assert_eq!(twice.check(&CLUSTER.into(), &jobs), Err(InfeasibleError::Job { job: 0 }));
        let too_few = decision(vec![run(0, 0)], vec![place(0, 0, 4)]);
        assert_eq!(too_few.check(&CLUSTER.into(), &jobs), Err(InfeasibleError::Gpus { job: 0, needs: 8, has: 4 }));
        let crowded = decision(vec![run(0, 0), run(2, 1)], vec![place(0, 0, 8), place(1, 0, 4)]);
        assert_eq!(crowded.check(&CLUSTER.into(), &jobs), Err(InfeasibleError::Host { host: 0, has: 8, gives: 12 }));
        // Groups that share GPUs may be given those of a host twice, and one group never more than it has.
        let shared = |decision: Decision| Decision { groups_share: true, ..decision };
        assert_eq!(shared(crowded).check(&CLUSTER.into(), &jobs), Ok(()));
        let too_many = shared(decision(vec![run(0, 0)], vec![place(0, 1, 8), place(0, 1, 1)]));
        assert_eq!(too_many.check(&CLUSTER.into(), &jobs), Err(InfeasibleError::Host { host: 1, has: 8, gives: 9 }));
        // Of unequal hosts each gives its own.
        let unequal = Capacity::of_hosts(vec![8, 2]);
        assert_eq!(good.check(&unequal, &jobs), Err(InfeasibleError::Host { host: 1, has: 2, gives: 4 }));
        let mut capacity = Capacity::new(CLUSTER);
        assert_eq!(good.check_there(&capacity), Ok(()));
        capacity.lose(1);
        assert_eq!(good.check_there(&capacity), Err(InfeasibleError::Out { host: 1, gives: 4 }));
        let counted = decision(vec![run(0, 0), run(1, 1), run(2, 2)], vec![]);
        assert_eq!(counted.check(&CLUSTER.into(), &jobs), Err(InfeasibleError::Cluster { has: 16, gives: 20 }));
        let strange = decision(vec![Run { iteration_s: f64::NAN, ..run(0, 0) }], vec![]);
        assert!(matches!(strange.check(&CLUSTER.into(), &jobs), Err(InfeasibleError::Iteration { job: 0, .. })));
    }

    #[test]
    fn a_job_that_grew_has_no_more_than_it_can_use_and_shares_nothing() {
        let jobs = [Job { gpus_max: 6, ..job(4) }, job(4), Job { gpus_max: 8, ..job(4) }];
        let decision = |runs: Vec<Run>, places: Vec<Place>| Decision { runs, places, groups_share: true, ..Decision::default() };
        let with = |gpus| decision(vec![run(0, 0)], vec![place(0, 0, gpus)]).check(&CLUSTER.into(), &jobs);
        assert_eq!([4, 5, 6].map(with), [Ok(()), Ok(()), Ok(())]);
        for has in [3, 7] {
            assert_eq!(with(has), Err(InfeasibleError::Grown { job: 0, needs: 4, most: 6, has }));
        }
        assert_eq!(with(7).unwrap_err().to_string(), "job 0 needs 4 GPUs and uses 6 at most, its group has 7");
        // Who does not grow has what it needs.
        let other = decision(vec![run(1, 1)], vec![place(1, 0, 5)]);
        assert_eq!(other.check(&CLUSTER.into(), &jobs), Err(InfeasibleError::Gpus { job: 1, needs: 4, has: 5 }));
        // Beside others on one host, as long as each GPU is one job's.
        let beside = |own, others| decision(vec![run(0, 0), run(1, 1)], vec![place(0, 0, own), place(1, 0, 4), place(1, 1, others)]);
        let shared = |has| Err(InfeasibleError::Shared { job: 0, needs: 4, has });
        assert_eq!(beside(4, 0).check(&CLUSTER.into(), &jobs), Ok(()));
        assert_eq!(beside(5, 0).check(&CLUSTER.into(), &jobs), shared(5));
        assert_eq!(shared(5).unwrap_err().to_string(), "job 0 needs 4 GPUs and has 5, some of which others have too");
        // A group of two has what each of them needs, and not what the larger could use.
        let pair = decision(vec![run(0, 0), run(2, 0)], vec![place(0, 0, 5)]);
        assert_eq!(pair.check(&CLUSTER.into(), &jobs), shared(5));
        // The same where groups own their GPUs.
        let owned = Decision { groups_share: false, ..pair };
        assert_eq!(owned.check(&CLUSTER.into(), &jobs), shared(5));
    }
}
