//! The jobs on each link of the base placements, as one flat table, and the state of each link that follows from them.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use circle::Phase;
use fabric::{Fabric, FabricError};
use units::LinkId;

use crate::{
    PlanError,
    classes::{Classes, Member},
    demand::{Demands, Routed},
};

/// What the jobs of a link can do to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// At most one job, and it fits.
    Free,
    /// One job that exceeds the link by itself.
    Overrun,
    /// Two or more jobs whose peaks add up to at most the capacity: score 1 whatever their shifts.
    NeverOverloaded,
    /// Two or more jobs that can exceed the link.
    Contended,
    /// There are jobs, and the capacity is not stated.
    Unknown,
}

/// Derives the state of a link from its members.
///
/// # Errors
/// The link has members, but its capacity is unknown or zero.
pub(crate) fn state(fabric: &Fabric, link: LinkId, members: &[Member], peaks: &[u64]) -> Result<(State, u64), PlanError> {
    // A link that carries nothing needs no capacity, so an unknown one is no error here.
    if members.is_empty() {
        return Ok((State::Free, 0));
    }
    let capacity = fabric.capacity(link)?.0;
    if capacity == 0 {
        return Err(PlanError::ZeroCapacity { link: fabric.link_name(link) });
    }
    Ok((state_of(members, peaks, capacity), capacity))
}

/// The state of a link of that capacity in Mbit/s. `peaks` are the highest rates of demands.
pub(crate) fn state_of(members: &[Member], peaks: &[u64], capacity: u64) -> State {
    let exceeds = can_exceed(members.iter().map(|m| peaks[m.demand as usize]), capacity);
    match (members.len(), exceeds) {
        (0 | 1, false) => State::Free,
        (0 | 1, true) => State::Overrun,
        (_, false) => State::NeverOverloaded,
        (_, true) => State::Contended,
    }
}

/// Whether jobs whose demands of a link are at most `peaks` can exceed its capacity, all in Mbit/s. If they cannot, the link scores
/// 1 whatever their shifts.
pub fn can_exceed(peaks: impl Iterator<Item = u64>, capacity: u64) -> bool {
    // Saturation keeps the comparison right: capacities are far below the largest integer.
    peaks.fold(0u64, u64::saturating_add) > capacity
}

/// The base placements, link by link.
#[derive(Debug)]
pub(crate) struct Table {
    /// Members of link `l` are `members[offsets[l]..offsets[l + 1]]`, in order of job.
    offsets: Vec<u32>,
    members: Vec<Member>,
    pub(crate) states: Vec<State>,
    /// Links with two or more jobs.
    pub(crate) shared: usize,
    /// Those of them that can never be over capacity.
    pub(crate) never_overloaded: usize,
    /// Links that can be over capacity, grouped.
    pub(crate) classes: Classes,
    /// Links with jobs whose capacity is not stated. No candidate may leave a job on them; whether one does is
    /// for [`Table::refuse_unknown`] to say.
    unknown: Vec<LinkId>,
}

impl Table {
    /// The table of `routed`, which is indexed by job.
    ///
    /// # Errors
    /// [`state`], for the first link of capacity zero.
    pub(crate) fn build(fabric: &Fabric, routed: &[&Routed], demands: &Demands) -> Result<Self, PlanError> {
        let links = fabric.links().len();
        let mut offsets = vec![0u32; links + 1];
        // This is a counting sort by link: the first pass counts the members, the second one places them.
        for (link, _) in routed.iter().flat_map(|r| &r.links) {
            offsets[link.index() + 1] += 1;
        }
        for i in 0..links {
            offsets[i + 1] += offsets[i];
        }
        // `next` is where the next member of each link goes, and ends where the members of the next link begin.
        let mut next = offsets.clone();
        let mut members = vec![Member { job: 0, demand: 0 }; offsets[links] as usize];
        // Jobs are visited in order, so each link's members come out in order of job.
        for (job, routed) in routed.iter().enumerate() {
            for &(link, demand) in &routed.links {
                let slot = &mut next[link.index()];
                members[*slot as usize] = Member { job: job as u32, demand };
                *slot += 1;
            }
        }
        let mut table = Self {
            offsets,
            members,
            states: Vec::with_capacity(links),
            shared: 0,
            never_overloaded: 0,
            classes: Classes::default(),
            unknown: Vec::new(),
        };
        let mut hot: Vec<(LinkId, u64, Range<u32>)> = Vec::new();
        for l in 0..links {
            let link = LinkId(l as u32);
            let (state, capacity) = match state(fabric, link, table.members(link), &demands.peaks) {
                // Candidates may take all jobs off such a link, so the base alone is no reason to refuse.
                Err(PlanError::Fabric(FabricError::UnknownCapacity { .. })) => {
                    table.unknown.push(link);
                    (State::Unknown, 0)
                }
                other => other?,
            };
            table.states.push(state);
            table.shared += usize::from(matches!(state, State::NeverOverloaded | State::Contended));
            table.never_overloaded += usize::from(state == State::NeverOverloaded);
            if matches!(state, State::Overrun | State::Contended) {
                hot.push((link, capacity, table.offsets[l]..table.offsets[l + 1]));
            }
        }
        table.classes = Classes::group(&table.members, &mut hot);
        Ok(table)
    }

    /// Refuses a candidate in which a job is left on a link of unknown capacity; `stays` says of a job whether it stands where
    /// the base has it. Links that its moved jobs enter are looked at elsewhere.
    ///
    /// # Errors
    /// [`FabricError::UnknownCapacity`] for the first such link.
    pub(crate) fn refuse_unknown(&self, fabric: &Fabric, stays: impl Fn(u32) -> bool) -> Result<(), PlanError> {
        let left = self.unknown.iter().find(|l| self.members(**l).iter().any(|m| stays(m.job)));
        // The fabric makes the error, because it knows the name of the link.
        left.map_or(Ok(()), |link| Ok(fabric.capacity(*link).map(|_| ())?))
    }

    /// The links with jobs whose capacity is not stated.
    pub(crate) fn unknown(&self) -> &[LinkId] {
        &self.unknown
    }

    /// The jobs on a link, in order of job.
    pub(crate) fn members(&self, link: LinkId) -> &[Member] {
        let (from, to) = (self.offsets[link.index()], self.offsets[link.index() + 1]);
        &self.members[from as usize..to as usize]
    }
}

/// Share of the time in which one job alone is above `capacity`, weighted by how much: what it takes off the score.
pub(crate) fn overrun_score(phases: &[Phase], period: u64, capacity: u64) -> f64 {
    // A rate and a length may have more than 64 bits together, so the sum is taken in 128.
    let excess: u128 = phases.iter().map(|p| u128::from(p.rate.0.saturating_sub(capacity)) * u128::from(p.end.0 - p.start.0)).sum();
    1.0 - excess as f64 / (period as f64 * capacity as f64)
}
