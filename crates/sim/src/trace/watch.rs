//! What happened to the jobs of a trace, told as it happens.

use alloc::{collections::BTreeMap, vec::Vec};
use core::cmp::Ordering;

use policy::schedule::{Decision, JobIndex};

use super::Failing;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told<'a> {
    /// Something happened to a job.
    Job(TraceEvent<'a>),
    /// Something went wrong, or is right again.
    Fault {
        /// When, on the trace's clock.
        at_s: f64,
        /// What.
        what: Failing,
        /// Whether it begins.
        begins: bool,
    },
}

/// Something that happened to a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceEvent<'a> {
    /// When, on the trace's clock.
    pub at_s: f64,
    /// The job, by its place in [`Trace::jobs`](super::Trace::jobs).
    pub job: JobIndex,
    /// What.
    pub change: Change,
    /// Hosts of the cluster, and GPUs of each, that the job has from now on; empty where it has none, or where the policy only counts GPUs.
    pub places: &'a [(u32, u32)],
}

/// What can happen to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was submitted.
    Arrives,
    /// It runs, for the first time or again.
    Starts,
    /// It goes on elsewhere.
    Moves,
    /// It goes on with more GPUs, idle ones of its hosts.
    Grows,
    /// It goes on with fewer GPUs, where it is.
    Shrinks,
    /// It was stopped for others.
    Stops,
    /// It lost its host, and what it computed since its last checkpoint.
    Fails,
    /// Its iterations are done.
    Ends,
}

/// Who is told of events.
pub type Watcher<'w> = &'w mut dyn FnMut(Told<'_>);

/// The places of each group.
type Places = BTreeMap<u32, Vec<(u32, u32)>>;

/// Tells what a decision changed: who was stopped, then who starts or moves, each in the order of the decisions.
pub(super) fn tell(watcher: &mut dyn FnMut(Told<'_>), at_s: f64, before: &Decision, decision: &Decision) {
    let (old, new) = (places(before), places(decision));
    let was: BTreeMap<JobIndex, u32> = before.runs.iter().map(|run| (run.job, run.group)).collect();
    let is: BTreeMap<JobIndex, u32> = decision.runs.iter().map(|run| (run.job, run.group)).collect();
    for run in before.runs.iter().filter(|run| !is.contains_key(&run.job)) {
        watcher(Told::Job(TraceEvent { at_s, job: run.job, change: Change::Stops, places: &[] }));
    }
    for run in &decision.runs {
        let places = of(&new, run.group);
        let change = match was.get(&run.job) {
            None => Change::Starts,
            Some(group) => match change(of(&old, *group), places) {
                Some(change) => change,
                None => continue,
            },
        };
        watcher(Told::Job(TraceEvent { at_s, job: run.job, change, places }));
    }
}

/// What becomes of a job that had the first of these places and has the others now.
fn change(old: &[(u32, u32)], new: &[(u32, u32)]) -> Option<Change> {
    let (had, has) = (old.iter().map(|part| part.1).sum::<u32>(), new.iter().map(|part| part.1).sum::<u32>());
    let stays = old.iter().map(|part| part.0).eq(new.iter().map(|part| part.0));
    match has.cmp(&had) {
        Ordering::Greater if stays => Some(Change::Grows),
        Ordering::Less if stays => Some(Change::Shrinks),
        _ => (old != new).then_some(Change::Moves),
    }
}

fn of(places: &Places, group: u32) -> &[(u32, u32)] {
    places.get(&group).map_or(&[], Vec::as_slice)
}

fn places(decision: &Decision) -> Places {
    let mut places = Places::new();
    decision.places.iter().for_each(|place| places.entry(place.group).or_default().push((place.host, place.gpus)));
    // The order in which hosts are listed says nothing.
    places.values_mut().for_each(|parts| parts.sort_unstable());
    places
}
