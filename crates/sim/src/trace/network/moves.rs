//! Jobs that run are moved to better places.
//!
//! The rules. After a decision that changed something, the planner looks at the groups that went on as they were and whose iterations it predicts
//! to be longer than alone, the one with the most to gain first: [`TRIED`] of them. Each is offered [`CANDIDATES`] places, its own GPUs
//! counting as free. It moves to the best of them where what all jobs together are predicted to gain there, over the work that the group
//! has left, is at least [`MARGIN`] times what its restart costs; at most [`MOVES`] do after one decision. Who has moved or started stays for
//! [`REST_S`], so that nobody goes to and fro with each job that comes.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};

use policy::schedule::{CANDIDATES, Decision, Job, JobIndex, Place, Placer, Unplaced};

use super::{Network, NetworkControl, Ranker, Stands, component::components, sender::Sender};
use crate::trace::Trace;

/// Groups that are offered other places after a decision, and those of them that may go.
const TRIED: usize = 4;
const MOVES: usize = 2;
/// What a move must gain over what it costs: predictions are of means, and whom a job meets may change before it has gained anything.
const MARGIN: f64 = 2.0;
/// The least time that a restart is taken to cost: a job that costs nothing to move would go for nothing.
const RESTART_LEAST_S: f64 = 10.0;
/// How long a job stays where it was put: a lease of Themis.
const REST_S: f64 = 1_200.0;

/// What is remembered of moves.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// When each job was placed the last time.
    placed_s: BTreeMap<JobIndex, f64>,
    pub(super) count: u64,
}

/// A group that could move.
#[derive(Debug)]
struct Mover {
    group: u32,
    gpus: u32,
    /// Its iterations that are left, alone and in seconds.
    left_s: f64,
    restart_s: f64,
    /// The most that could be gained: what all jobs that it meets lose, in GPU seconds.
    at_stake: f64,
}

impl Network<'_> {
    /// Moves jobs whose places are worth it.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(in crate::trace) fn improve(
        &mut self,
        (trace, jobs): (&Trace, &[Job]),
        decision: &mut Decision,
        placer: &mut Placer,
        (now_s, turn): (f64, u64),
    ) -> Result<(), String> {
        let chooses =
            self.setup.ranker == Ranker::Antiphase && !matches!(self.setup.control, NetworkControl::Ideal | NetworkControl::Paper);
        if !self.setup.moves || !chooses {
            return Ok(());
        }
        self.note_placed(decision, now_s);
        let mut moved = 0;
        for mover in self.movers(trace, jobs, decision, now_s)?.into_iter().take(TRIED) {
            if moved >= MOVES {
                break;
            }
            if let Some(places) = self.better(trace, jobs, decision, placer, &mover, turn)? {
                decision.places.retain(|place| place.group != mover.group);
                decision.places.extend(places);
                moved += 1;
                self.moves.count += 1;
                for run in decision.runs.iter().filter(|run| run.group == mover.group) {
                    self.moves.placed_s.insert(run.job, now_s);
                }
            }
        }
        Ok(())
    }

    /// Writes down when jobs began that run now, and forgets those that do not.
    fn note_placed(&mut self, decision: &Decision, now_s: f64) {
        let before = core::mem::take(&mut self.moves.placed_s);
        self.moves.placed_s = decision.runs.iter().map(|run| (run.job, before.get(&run.job).copied().unwrap_or(now_s))).collect();
    }

    /// The groups that may move and could gain enough, the one with the most to gain first.
    fn movers(&mut self, trace: &Trace, jobs: &[Job], decision: &Decision, now_s: f64) -> Result<Vec<Mover>, String> {
        let stands = self.stand(trace, jobs, decision)?.0;
        let mut lost: BTreeMap<JobIndex, f64> = BTreeMap::new();
        for (members, loss) in self.losses(&stands)? {
            members.iter().for_each(|job| _ = lost.insert(*job, loss));
        }
        let mut movers: BTreeMap<u32, Mover> = BTreeMap::new();
        for run in &decision.runs {
            let (Some(loss), Some(job)) = (lost.get(&run.job), jobs.get(run.job as usize)) else { continue };
            let rests = self.moves.placed_s.get(&run.job).is_none_or(|placed_s| now_s - placed_s < REST_S);
            let left_s = if rests { 0.0 } else { job.left * run.iteration_s };
            let restart_s = run.restart_s.max(RESTART_LEAST_S);
            let mover = movers.entry(run.group).or_insert(Mover { group: run.group, gpus: job.gpus, left_s, restart_s, at_stake: 0.0 });
            // The group is worth as much as its member that is done first.
            mover.left_s = mover.left_s.min(left_s);
            mover.restart_s = mover.restart_s.max(restart_s);
            mover.at_stake = loss * mover.left_s;
        }
        let mut movers: Vec<Mover> = movers.into_values().filter(|mover| mover.at_stake >= mover.price()).collect();
        movers.sort_by(|a, b| b.at_stake.total_cmp(&a.at_stake).then(a.group.cmp(&b.group)));
        Ok(movers)
    }

    /// For each group that meets others: its jobs, and by how many times their time alone all whom it meets are longer, times GPUs.
    fn losses(&mut self, stands: &Stands) -> Result<Vec<(Vec<JobIndex>, f64)>, String> {
        let (mut names, mut senders): (Vec<&[JobIndex]>, Vec<Arc<Sender>>) = (Vec::new(), Vec::new());
        for ((members, ..), stand) in stands {
            let Some(sender) = &stand.sender else { continue };
            names.push(members);
            senders.push(Arc::clone(sender));
        }
        let mut found = Vec::new();
        for component in components(&senders, |link| self.capacity(link)).0 {
            let loss = self.forecast(&senders, &component)?.longer;
            found.extend(component.members.iter().map(|member| (names[*member].to_vec(), loss)));
        }
        Ok(found)
    }

    /// Places of a group that are worth its restart, the best of those that are offered.
    fn better(
        &mut self,
        trace: &Trace,
        jobs: &[Job],
        decision: &Decision,
        placer: &mut Placer,
        mover: &Mover,
        turn: u64,
    ) -> Result<Option<Vec<Place>>, String> {
        let mut others = decision.clone();
        others.places.retain(|place| place.group != mover.group);
        placer.occupy(&others);
        let seed = self.setup.seed ^ turn.rotate_left(32) ^ u64::from(mover.group);
        let here = self.stand(trace, jobs, decision)?.0;
        let mut best = (self.cost(&here)? as f64 / 1e6 - mover.price() / mover.left_s, None);
        for places in placer.candidates(&[Unplaced { group: mover.group, gpus: mover.gpus }], CANDIDATES, seed) {
            let mut whole = others.clone();
            whole.places.extend(&places);
            let stands = self.stand(trace, jobs, &whole)?.0;
            let cost = self.cost(&stands)? as f64 / 1e6;
            // The first of equal ones is the most compact.
            if cost < best.0 || cost == best.0 && best.1.is_none() {
                best = (cost, Some(places));
            }
        }
        Ok(best.1)
    }
}

impl Mover {
    /// What a move must gain, in GPU seconds.
    fn price(&self) -> f64 {
        MARGIN * self.restart_s * f64::from(self.gpus)
    }
}
