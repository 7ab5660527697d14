//! What the policy sees, and how it chooses.

use alloc::vec::Vec;

use harmony::{
    Draw, KINDS,
    deepshare::{Candidate, Chooser, GPUS, NODES, PLACES, ROUND_S, Seen, Stands, Waits, candidates, ways},
};

use crate::model::{Decision, PLACE, Policy, Sat, Scene, TOKEN};

/// So that numbers are near 1: GPUs, nodes, rounds of a job, jobs that wait.
const GPUS_MOST: f32 = GPUS as f32;
const NODES_MOST: f32 = NODES as f32;
const ROUNDS: f32 = 16.0;
const WAITING: f32 = 64.0;
/// Numbers of a job behind its kind.
const FACTS: usize = TOKEN - KINDS;
/// Actions of a row; only the first is used.
const ACTIONS: usize = 2;
/// Milliseconds of a round.
const ROUND_MS: u64 = ROUND_S as u64 * 1_000;

fn flag(set: bool) -> f32 {
    f32::from(u8::from(set))
}

/// A scene and what its rows stand for; the last one stands for nobody.
pub(super) struct Choices {
    pub(super) scene: Scene,
    pub(super) ways: Vec<Candidate>,
}

impl Choices {
    /// None where nobody finds room.
    pub(super) fn new(seen: &Seen<'_>) -> Option<Self> {
        let ways: Vec<Candidate> = ways(seen).collect();
        if ways.is_empty() {
            return None;
        }
        let mut scene = Scene { tokens: Vec::new(), places: Vec::new(), seats: Vec::new(), allowed: Vec::new() };
        whole(&mut scene, seen);
        seen.running.iter().for_each(|stands| token(&mut scene, &stands.waits, Some(stands)));
        let could = candidates(seen.queue);
        could.iter().filter_map(|at| seen.queue.get(*at)).for_each(|waits| token(&mut scene, waits, None));
        for (row, (at, place)) in ways.iter().enumerate() {
            let nodes = PLACES.get(*place).copied().unwrap_or_default();
            let met = |stands: &Stands| stands.nodes().iter().any(|node| nodes.contains(node));
            let meets: Vec<usize> = (0..).zip(seen.running).filter(|(_, stands)| met(stands)).map(|(at, _)| at).collect();
            let own = could.iter().position(|candidate| candidate == at).unwrap_or_default();
            // The first token is the cluster; then come those who run, then the candidates.
            scene.seats.extend(meets.iter().map(|at| Sat { token: 1 + at, server: row, weights: [1.0 / NODES_MOST, 0.0] }));
            scene.seats.push(Sat { token: 1 + seen.running.len() + own, server: row, weights: [0.0, 1.0] });
            let gpus = seen.queue.get(*at).map_or(0, |waits| waits.job.kind.gpus());
            let each = gpus / nodes.len().max(1) as u32;
            let free = |node: &usize| GPUS.saturating_sub(seen.used[*node] + each) as f32 / GPUS_MOST;
            let (least, sum) = nodes.iter().map(free).fold((1.0_f32, 0.0), |(least, sum), free| (least.min(free), sum + free));
            let facts: [f32; PLACE] = [
                gpus as f32 / GPUS_MOST,
                nodes.len() as f32 / NODES_MOST,
                least,
                sum / nodes.len().max(1) as f32,
                meets.len() as f32 / GPUS_MOST,
                flag(meets.is_empty()),
                0.0,
                0.0,
                1.0,
            ];
            scene.places.extend(facts);
            scene.allowed.extend([true, false]);
        }
        let mut nobody = [0.0; PLACE];
        nobody[6] = 1.0;
        nobody[7] = seen.used.iter().sum::<u32>() as f32 / GPUS_MOST / NODES_MOST;
        scene.places.extend(nobody);
        // If nobody runs, nothing would ever change.
        scene.allowed.extend([!seen.running.is_empty(), false]);
        Some(Self { scene, ways })
    }
}

/// What is known of the whole cluster.
fn whole(scene: &mut Scene, seen: &Seen<'_>) {
    let mut facts = [0.0; TOKEN];
    facts[KINDS] = seen.used.iter().sum::<u32>() as f32 / GPUS_MOST / NODES_MOST;
    facts[KINDS + 1] = seen.queue.len() as f32 / WAITING;
    facts[KINDS + 2] = seen.running.len() as f32 / GPUS_MOST;
    scene.tokens.extend(facts);
}

fn token(scene: &mut Scene, waits: &Waits, stands: Option<&Stands>) {
    scene.tokens.extend((0..KINDS).map(|kind| flag(kind == waits.job.kind.model)));
    let trained = (waits.trained / waits.job.samples.max(f64::MIN_POSITIVE)).min(1.0) as f32;
    let facts: [f32; FACTS] = [
        0.0,
        0.0,
        0.0,
        waits.job.kind.gpus() as f32 / GPUS_MOST,
        flag(stands.is_some()),
        flag(stands.is_none()),
        stands.map_or(0.0, |stands| stands.nodes().len() as f32 / NODES_MOST),
        stands.map_or(1.0, |stands| stands.share as f32),
        trained,
        waits.rounds as f32 / ROUNDS,
        flag(waits.rounds > 0 && stands.is_none()),
        1.0,
    ];
    scene.tokens.extend(facts);
}

/// A policy that chooses who is placed where.
#[derive(Debug)]
pub struct Scheduler<'a> {
    policy: &'a Policy,
    draw: Option<&'a mut Draw>,
    pub(super) decisions: Vec<Decision>,
}

impl<'a> Scheduler<'a> {
    /// That takes the likeliest choice; of equals the first.
    #[must_use]
    pub fn new(policy: &'a Policy) -> Self {
        Self { policy, draw: None, decisions: Vec::new() }
    }

    /// That draws choices as likely as the policy has them, and remembers them.
    pub(super) fn drawing(policy: &'a Policy, draw: &'a mut Draw) -> Self {
        Self { policy, draw: Some(draw), decisions: Vec::new() }
    }
}

impl Chooser for Scheduler<'_> {
    fn choose(&mut self, seen: &Seen<'_>) -> Option<Candidate> {
        let Choices { scene, ways } = Choices::new(seen)?;
        let shares = self.policy.probabilities(&scene)?;
        let action = match &mut self.draw {
            Some(draw) => draw.weighted(&shares)?,
            None => {
                let allowed = (0..shares.len()).filter(|action| scene.allowed[*action]);
                allowed.reduce(|best, at| if shares[at] > shares[best] { at } else { best })?
            }
        };
        if self.draw.is_some() {
            let now_ms = u64::from(seen.round) * ROUND_MS;
            self.decisions.push(Decision { probability: shares[action], scene, action, now_ms });
        }
        ways.get(action / ACTIONS).copied()
    }
}

/// What a teacher chose, as a place among the actions of a scene.
pub(super) fn action(ways: &[Candidate], chosen: Option<Candidate>) -> usize {
    chosen.and_then(|chosen| ways.iter().position(|way| *way == chosen)).unwrap_or(ways.len()) * ACTIONS
}

#[cfg(test)]
mod tests {
    use harmony::deepshare::{Job, Kind};

    use super::*;

    #[test]
    fn there_is_a_row_for_every_choice_and_nobody_is_one_only_where_somebody_runs() {
        let waits = |id, demand| Waits { id, job: Job { kind: Kind { model: 3, demand }, samples: 10.0 }, trained: 0.0, rounds: 0 };
        let queue = [waits(0, 2), waits(1, 0), waits(2, 0)];
        let empty = Choices::new(&Seen { round: 0, queue: &queue, running: &[], used: [0; NODES] }).unwrap();
        // Six pairs and all four for eight GPUs, six pairs for two, and nobody.
        assert_eq!((empty.ways.len(), empty.scene.servers()), (13, 14));
        assert!(!empty.scene.allowed[26]);
        let stands = Stands { waits: waits(9, 1), place: 0, row: 19, share: 1.0 };
        let used = [8, 8, 2, 2];
        let some = Choices::new(&Seen { round: 0, queue: &queue, running: &[stands], used }).unwrap();
        // Only nodes 2 and 3 have room, for either.
        assert_eq!(some.ways, [(1, 5), (0, 5)]);
        assert!(some.scene.allowed[4]);
        // Nobody stands there, so each row has its own job only.
        assert_eq!(some.scene.seats.len(), 2);
        assert_eq!((action(&some.ways, Some((0, 5))), action(&some.ways, None)), (2, 4));
        assert!(Choices::new(&Seen { round: 0, queue: &queue, running: &[stands], used: [8; NODES] }).is_none());
        let policy = Policy::new(1);
        let shares = policy.probabilities(&some.scene).unwrap();
        assert!((shares.iter().sum::<f32>() - 1.0).abs() < 1e-5 && shares[1] == 0.0 && shares[3] == 0.0 && shares[5] == 0.0);
    }
}
