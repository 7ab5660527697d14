//! What is to be solved: jobs with periods, their demand on each link, and the links.

use alloc::{collections::BTreeMap, vec::Vec};

use units::{JobId, LinkId, Rate, Ticks};

/// Longest period in ticks: 2^48 ns is 78 hours, far beyond any iteration, and sums of two
/// periods times a few phases stay inside `u64`.
pub const PERIOD_TICKS_MAX: u64 = 1 << 48;
/// Most phases in one demand. A pipeline of 64 stages and 512 micro-batches has 1025 bursts.
pub const PHASES_PER_DEMAND_MAX: usize = 4_096;
/// Most phases on all links of one problem, where equal links count once: each is kept on the circle of its link, some 350 bytes, so that this
/// is 0.75 GB. A fabric of ten thousand links with twenty jobs of ten phases on each has as many.
pub const PHASES_ON_LINKS_MAX: u64 = 1 << 21;
/// Most jobs in one problem.
pub const JOBS_MAX: usize = 100_000;
/// Most links in one problem.
pub const LINKS_MAX: usize = 1 << 22;
/// Most jobs on one link: a 64-port leaf with 16 jobs a port.
pub const JOBS_PER_LINK_MAX: usize = 1_024;
/// Highest demand and capacity: 2^40 Mbit/s is a million terabits; sums over a link stay exact in `f64` and `u64`.
pub const RATE_MBPS_MAX: u64 = 1 << 40;

/// A span of an iteration with constant demand. An Up phase has `rate` > 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Phase {
    /// First tick, counted from the start of the iteration.
    pub start: Ticks,
    /// One past the last tick; at most the period.
    pub end: Ticks,
    /// Demand during the phase.
    pub rate: Rate,
}

/// Index of a demand within a [`Problem`]. Equal demands of one job share one id, so links
/// with equal demands are recognised by comparing integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DemandId(pub u32);

/// One job's presence on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The job.
    pub job: JobId,
    /// What it demands of this link over one of its periods.
    pub demand: DemandId,
}

/// A link and the jobs that cross it, in order of job id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemLink {
    /// Capacity; never zero.
    pub capacity: Rate,
    /// Jobs on the link, by ascending job id, each once.
    pub members: Vec<Member>,
}

/// Why a problem was refused. Positions count from zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// The period is zero or above [`PERIOD_TICKS_MAX`].
    #[error("period of {period} ticks; must be 1 to {PERIOD_TICKS_MAX}")]
    Period {
        /// The period given.
        period: u64,
    },
    /// A phase does not satisfy start < end <= period.
    #[error("phase {index} is [{start}, {end}) ticks; must satisfy start < end <= period ({period})")]
    PhaseBounds {
        /// Which phase.
        index: usize,
        /// Its start.
        start: u64,
        /// Its end.
        end: u64,
        /// The job's period.
        period: u64,
    },
    /// A phase starts before the one before it ends.
    #[error("phase {index} starts at {start}, before phase {} ends at {previous_end}", index - 1)]
    PhaseOrder {
        /// Which phase.
        index: usize,
        /// Its start.
        start: u64,
        /// End of the phase before it.
        previous_end: u64,
    },
    /// A rate or a capacity outside its range.
    #[error("{what} of {mbps} Mb/s; must be {min} to {RATE_MBPS_MAX}")]
    Rate {
        /// `rate` or `capacity`.
        what: &'static str,
        /// The value given.
        mbps: u64,
        /// Smallest allowed value.
        min: u64,
    },
    /// A job appears twice on one link.
    #[error("job {job} is on the link twice")]
    DuplicateMember {
        /// The job.
        job: JobId,
    },
    /// An id that this problem does not have.
    #[error("no {what} {id} in this problem")]
    Unknown {
        /// `job` or `demand`.
        what: &'static str,
        /// The id given.
        id: u32,
    },
    /// Over one of the limits of this module.
    #[error("{count} {what}; the limit is {limit}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
        /// The limit.
        limit: usize,
    },
}

/// A validated problem. Build one with [`ProblemBuilder`].
#[derive(Clone, Debug, Default)]
pub struct Problem {
    periods: Vec<Ticks>,
    demands: Vec<Vec<Phase>>,
    links: Vec<ProblemLink>,
}

impl Problem {
    /// The period of every job, by job id.
    #[must_use]
    pub fn periods(&self) -> &[Ticks] {
        &self.periods
    }

    /// The links, by link id.
    #[must_use]
    pub fn links(&self) -> &[ProblemLink] {
        &self.links
    }

    /// The phases of a demand: sorted, disjoint, rates above zero, neighbours of equal rate merged.
    #[must_use]
    pub fn phases(&self, demand: DemandId) -> &[Phase] {
        &self.demands[demand.0 as usize]
    }

    /// The period of one job in ticks.
    #[must_use]
    pub fn period(&self, job: JobId) -> u64 {
        self.periods[job.index()].0
    }

    /// The same problem with one job's period stretched; its phases stay where they are.
    pub(crate) fn with_period(&self, job: JobId, period: Ticks) -> Self {
        let mut stretched = self.clone();
        debug_assert!(period >= self.periods[job.index()], "invariant: a gate never shortens an iteration");
        // All phases end within the old period, so they lie within the longer one.
        stretched.periods[job.index()] = period;
        stretched
    }
}

/// Builds a [`Problem`] and refuses what the mathematics cannot take.
///
/// ```
/// use antiphase_circle::{Phase, ProblemBuilder, Rate, Ticks};
/// let mut b = ProblemBuilder::new();
/// let job = b.job(Ticks(255)).unwrap();
/// let up = b.demand(job, &[Phase { start: Ticks(141), end: Ticks(255), rate: Rate(45_000) }]).unwrap();
/// b.link(Rate(50_000), vec![up]).unwrap();
/// assert_eq!(b.build().links().len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ProblemBuilder {
    problem: Problem,
    interned: BTreeMap<(JobId, Vec<Phase>), DemandId>,
    /// Whose demand each is.
    owners: Vec<JobId>,
}

impl ProblemBuilder {
    /// An empty problem.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a job of that period.
    ///
    /// # Errors
    /// [`ProblemError::Period`], [`ProblemError::TooMany`].
    pub fn job(&mut self, period: Ticks) -> Result<JobId, ProblemError> {
        // A period of 0 has no circle, and sums of periods above the limit could leave 64 bits.
        if period.0 == 0 || period.0 > PERIOD_TICKS_MAX {
            return Err(ProblemError::Period { period: period.0 });
        }
        if self.problem.periods.len() >= JOBS_MAX {
            return Err(ProblemError::TooMany { what: "jobs", count: JOBS_MAX + 1, limit: JOBS_MAX });
        }
        // The number fits: there are at most `JOBS_MAX` jobs.
        let id = JobId(self.problem.periods.len() as u32);
        self.problem.periods.push(period);
        Ok(id)
    }

    /// Declares what `job` demands of some link; the same phases again give the same id.
    ///
    /// # Errors
    /// [`ProblemError::PhaseBounds`], [`ProblemError::PhaseOrder`], [`ProblemError::Rate`],
    /// [`ProblemError::TooMany`], [`ProblemError::Unknown`].
    pub fn demand(&mut self, job: JobId, phases: &[Phase]) -> Result<Member, ProblemError> {
        let period = self.problem.periods.get(job.index()).ok_or(ProblemError::Unknown { what: "job", id: job.0 })?.0;
        if phases.len() > PHASES_PER_DEMAND_MAX {
            return Err(ProblemError::TooMany { what: "phases", count: phases.len(), limit: PHASES_PER_DEMAND_MAX });
        }
        let mut clean: Vec<Phase> = Vec::with_capacity(phases.len());
        let mut previous_end = 0;
        for (index, phase) in phases.iter().enumerate() {
            let (start, end) = (phase.start.0, phase.end.0);
            if start >= end || end > period {
                return Err(ProblemError::PhaseBounds { index, start, end, period });
            }
            if start < previous_end {
                return Err(ProblemError::PhaseOrder { index, start, previous_end });
            }
            if phase.rate.0 > RATE_MBPS_MAX {
                return Err(ProblemError::Rate { what: "rate", mbps: phase.rate.0, min: 0 });
            }
            previous_end = end;
            // Silent spans are dropped and equal neighbours merged: demands that are the same become the same phases and share an id.
            match clean.last_mut() {
                Some(last) if last.end == phase.start && last.rate == phase.rate => last.end = phase.end,
                _ if phase.rate == Rate::ZERO => {}
                _ => clean.push(*phase),
            }
        }
        let next = DemandId(self.problem.demands.len() as u32);
        // The entry takes the next id only where the phases are new, so an id equal to `next` says that they are.
        let demand = *self.interned.entry((job, clean.clone())).or_insert(next);
        if demand == next {
            self.problem.demands.push(clean);
            self.owners.push(job);
        }
        Ok(Member { job, demand })
    }

    /// Adds a link that carries those members, in any order.
    ///
    /// # Errors
    /// [`ProblemError::Rate`], [`ProblemError::DuplicateMember`], [`ProblemError::TooMany`], [`ProblemError::Unknown`].
    pub fn link(&mut self, capacity: Rate, mut members: Vec<Member>) -> Result<LinkId, ProblemError> {
        // Scores are parts of the capacity, so a capacity of 0 has none.
        if capacity.0 == 0 || capacity.0 > RATE_MBPS_MAX {
            return Err(ProblemError::Rate { what: "capacity", mbps: capacity.0, min: 1 });
        }
        if members.len() > JOBS_PER_LINK_MAX {
            return Err(ProblemError::TooMany { what: "jobs on one link", count: members.len(), limit: JOBS_PER_LINK_MAX });
        }
        if self.problem.links.len() >= LINKS_MAX {
            return Err(ProblemError::TooMany { what: "links", count: LINKS_MAX + 1, limit: LINKS_MAX });
        }
        // Members in order make equal links comparable, and put a job that is there twice next to itself.
        members.sort_unstable();
        for pair in members.windows(2) {
            if pair[0].job == pair[1].job {
                return Err(ProblemError::DuplicateMember { job: pair[0].job });
            }
        }
        // A member of another builder may name a job that is not here, or the demand of another job.
        if let Some(m) = members.iter().find(|m| self.owners.get(m.demand.0 as usize) != Some(&m.job)) {
            return Err(ProblemError::Unknown { what: "demand", id: m.demand.0 });
        }
        // The number fits: there are at most `LINKS_MAX` links.
        let id = LinkId(self.problem.links.len() as u32);
        self.problem.links.push(ProblemLink { capacity, members });
        Ok(id)
    }

    /// Finishes the problem.
    #[must_use]
    pub fn build(self) -> Problem {
        self.problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_another_builder_is_refused() {
        let demand = |builder: &mut ProblemBuilder, job, end| {
            builder.demand(job, &[Phase { start: Ticks(0), end: Ticks(end), rate: Rate(10) }]).unwrap()
        };
        let (mut one, mut other) = (ProblemBuilder::new(), ProblemBuilder::new());
        let job = one.job(Ticks(10)).unwrap();
        let own = demand(&mut one, job, 5);
        let jobs = [10, 20, 30].map(|period| other.job(Ticks(period)).unwrap());
        // A job that is not here under a number of a demand that is, and one that is here with the demand of another.
        let stranger = demand(&mut other, jobs[2], 25);
        assert_eq!(one.link(Rate(1), vec![own, stranger]), Err(ProblemError::Unknown { what: "demand", id: 0 }));
        let second = one.job(Ticks(20)).unwrap();
        let theirs = demand(&mut one, second, 15);
        assert_eq!(one.link(Rate(1), vec![Member { job, ..theirs }]), Err(ProblemError::Unknown { what: "demand", id: 1 }));
        assert!(one.link(Rate(1), vec![own, theirs]).is_ok());
    }
}
