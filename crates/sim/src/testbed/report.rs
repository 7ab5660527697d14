//! The result of a run.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use gate_core::Reason;
use units::{JobId, LinkId, Nanos};

use crate::testbed::stats::{Interval, LinkUse, Summary, clip, marks_per_iteration, overlap_share};
use crate::testbed::{ServiceReport, TurnsReport};

/// One iteration of one job. Times are since the beginning of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationRecord {
    /// When the job came to its gate.
    pub ready: Nanos,
    /// When the gate let it go.
    pub start: Nanos,
    /// Why.
    pub because: Reason,
    /// Whether it missed a slot and waited for the next.
    pub slip: bool,
    /// Start minus the nearest due start in nanoseconds, as the gate saw it; `None` without a plan.
    pub late: Option<i64>,
    /// When it first sent; the start if it never did.
    pub comm_start: Nanos,
    /// When its last transfer ended; the start if there was none.
    pub comm_end: Nanos,
    /// Time in which it sent.
    pub comm: Nanos,
    /// When its last step ended.
    pub end: Nanos,
}

impl IterationRecord {
    /// How long the gate held it.
    #[must_use]
    pub fn held(&self) -> Nanos {
        Nanos(self.start.0 - self.ready.0)
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every job did its iterations.
    Done,
    /// At [`crate::testbed::Config::until`].
    OutOfTime,
    /// After [`crate::testbed::EVENTS_MAX`] events.
    OutOfWork,
}

/// One job, from the end of the warm-up on.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    /// Its name.
    pub name: String,
    /// Start to start.
    pub iteration: Summary,
    /// Time in which it sent, per iteration.
    pub comm: Summary,
    /// Time at the gate, per iteration.
    pub held: Summary,
    /// Starts that missed a slot and waited for the next.
    pub slips: u64,
    /// Starts that the gate let through because the plan could not be trusted.
    pub fail_opens: u64,
    /// Fraction of its communication time in which another job that shares a link communicates too.
    pub overlap_share: f64,
    /// Every iteration that ended, those of the warm-up included.
    pub records: Vec<IterationRecord>,
}

/// A link with two jobs or more, or that one job exceeds by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkReport {
    /// The link.
    pub link: LinkId,
    /// Its name.
    pub name: String,
    /// The jobs that send over it.
    pub jobs: Vec<JobId>,
    /// ECN marks since the end of the warm-up.
    pub marks: f64,
    /// The same per iteration of one of its jobs.
    pub marks_per_iteration: f64,
    /// Fraction of the time in which at least one job sends.
    pub busy_share: f64,
    /// Fraction of its jobs' communication time in which another of them communicates too.
    pub overlap_share: f64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The end of the warm-up of all jobs: what is counted begins here.
    pub from: Nanos,
    /// The end of the run.
    pub to: Nanos,
    /// Why it ended.
    pub ended: Ended,
    /// Events handled, those of copied cycles included.
    pub events: u64,
    /// Cycles that were copied because they repeat themselves.
    pub copied_cycles: u64,
    /// Every job of the case, in order.
    pub jobs: Vec<JobReport>,
    /// Links, in order of id.
    pub links: Vec<LinkReport>,
    /// The service at the end, where there was one.
    pub service: Option<ServiceReport>,
    /// Turns, where jobs took them.
    pub turns: Option<TurnsReport>,
}

/// Records of one job during a run.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) records: Vec<IterationRecord>,
    pub(crate) comms: Vec<Interval>,
}

/// Totals of one link at the end of a run.
#[derive(Debug)]
pub(crate) struct LinkMemory {
    pub(crate) link: LinkId,
    pub(crate) name: String,
    pub(crate) jobs: Vec<u32>,
    pub(crate) marks: f64,
}

impl JobReport {
    fn of(name: &str, memory: Memory, others: &[&[Interval]], mine: &[Interval], from: Nanos) -> Self {
        // Records are in the order of their starts, so the counted ones are a suffix.
        let counted = &memory.records[memory.records.partition_point(|r| r.start < from)..];
        let open = counted.iter().filter(|r| r.because.is_fail_open()).count();
        Self {
            name: name.into(),
            // An iteration lasts from start to start, so the last record has no length (`Config::records_wanted` asks for one more).
            iteration: Summary::of(counted.windows(2).map(|w| Nanos(w[1].start.0 - w[0].start.0))),
            comm: Summary::of(counted.iter().map(|r| r.comm)),
            held: Summary::of(counted.iter().map(IterationRecord::held)),
            slips: counted.iter().filter(|r| r.slip).count() as u64,
            fail_opens: open as u64,
            overlap_share: overlap_share(mine, others),
            records: memory.records,
        }
    }
}

/// Makes the report of what was remembered.
pub(crate) fn report(names: &[&str], memories: Vec<Memory>, links: Vec<LinkMemory>, span: (Nanos, Nanos), end: (Ended, u64)) -> Report {
    let (from, to) = span;
    let clipped: Vec<Vec<Interval>> = memories.iter().map(|m| clip(&m.comms, from, to)).collect();
    let starts = |j: u32| memories[j as usize].records.iter().filter(|r| r.start >= from).count() as u64;
    // Many links have the same jobs.
    let mut uses: BTreeMap<&[u32], LinkUse> = BTreeMap::new();
    for link in &links {
        let intervals = || link.jobs.iter().map(|j| clipped[*j as usize].as_slice()).collect::<Vec<_>>();
        uses.entry(&link.jobs).or_insert_with(|| LinkUse::of(&intervals()));
    }
    let link_report = |l: &LinkMemory| {
        let used = uses.get(l.jobs.as_slice()).copied().unwrap_or_default();
        LinkReport {
            link: l.link,
            name: l.name.clone(),
            jobs: l.jobs.iter().map(|j| JobId(*j)).collect(),
            marks: l.marks,
            marks_per_iteration: marks_per_iteration(l.marks, l.jobs.iter().map(|j| starts(*j)).sum()),
            busy_share: used.busy_share(Nanos(to.0 - from.0)),
            overlap_share: used.overlap_share(),
        }
    };
    let link_reports: Vec<LinkReport> = links.iter().map(link_report).collect();
    let mut jobs = Vec::with_capacity(memories.len());
    for (j, (memory, name)) in memories.into_iter().zip(names).enumerate() {
        // A job that shares several links with this one counts once.
        let mut others: Vec<u32> = links.iter().filter(|l| l.jobs.contains(&(j as u32))).flat_map(|l| l.jobs.iter().copied()).collect();
        others.sort_unstable();
        others.dedup();
        let others: Vec<&[Interval]> = others.iter().filter(|o| **o as usize != j).map(|o| clipped[*o as usize].as_slice()).collect();
        jobs.push(JobReport::of(name, memory, &others, &clipped[j], from));
    }
    Report { from, to, ended: end.0, events: end.1, copied_cycles: 0, jobs, links: link_reports, service: None, turns: None }
}
