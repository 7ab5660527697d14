//! The policy and its critic: an encoder over jobs, a scorer that all servers share, and a value of the whole.

use alloc::vec::Vec;
use core::ops::Range;

use harmony::{Balance, Demand, Draw, Job, Part, Placer, Stand, View, takes};

use super::{
    encoder::{Encoder, WIDTH},
    scene::{PLACE, Scene, TOKEN},
};
use crate::grad::{Entry, Matrix, Node, Parameters, Shapes, Tape};

/// Layers of the encoder.
const LAYERS: usize = 2;
/// Widths of the scorer.
const SCORER: usize = 64;
const SCORER_INNER: usize = 32;
/// Width of the critic.
const CRITIC: usize = 32;
/// Actions on a server: a rank, or a parameter server.
const ACTIONS: usize = Part::ALL.len();

/// Weights of a policy and its critic.
#[derive(Clone, Debug)]
pub struct Policy {
    layout: Layout,
    pub(crate) parameters: Parameters,
}

#[derive(Clone, Debug)]
struct Layout {
    encoder: Encoder,
    score: usize,
    compare: usize,
    act: usize,
    value: usize,
    last: usize,
}

/// Scores and values of some scenes, and how they were computed.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) tape: Tape<'a>,
    /// A row for each server of each scene: the scores of its actions.
    pub(crate) scores: Node,
    /// A row for each scene.
    pub(crate) values: Node,
}

impl Policy {
    fn shapes() -> (Layout, Shapes) {
        let mut shapes = Shapes::default();
        let layout = Layout {
            encoder: Encoder::new(&mut shapes, TOKEN, LAYERS),
            score: shapes.linear(3 * WIDTH + PLACE, SCORER),
            compare: shapes.linear(2 * SCORER, SCORER_INNER),
            act: shapes.last(SCORER_INNER, ACTIONS),
            value: shapes.linear(WIDTH + SCORER, CRITIC),
            last: shapes.last(CRITIC, 1),
        };
        (layout, shapes)
    }

    /// One that knows nothing, from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (layout, shapes) = Self::shapes();
        Self { layout, parameters: shapes.begin(&mut Draw::new(seed, 0)) }
    }

    /// One with those weights; none where their count is another, or one is not finite.
    #[must_use]
    pub fn with_weights(values: &[f32]) -> Option<Self> {
        let new = Self::new(0);
        new.parameters.with_values(values).map(|parameters| Self { parameters, ..new })
    }

    /// Its weights.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Scores and values of scenes.
    pub(crate) fn batch(&self, scenes: &[&Scene]) -> Batch<'_> {
        let mut tape = Tape::new(&self.parameters);
        let (jobs, servers) = (ranges(scenes, Scene::jobs), ranges(scenes, Scene::servers));
        let rows: usize = servers.last().map_or(0, |last| last.end);
        let tokens = tape.given(Matrix::of(TOKEN, scenes.iter().flat_map(|s| s.tokens.iter().copied()).collect()));
        let places = tape.given(Matrix::of(PLACE, scenes.iter().flat_map(|s| s.places.iter().copied()).collect()));
        let encoded = self.layout.encoder.encode(&mut tape, tokens, &jobs);
        let [mut ranks, mut parameter_servers, mut current] = [(); 3].map(|()| Vec::new());
        for ((scene, jobs), servers) in scenes.iter().zip(&jobs).zip(&servers) {
            for seat in &scene.seats {
                let entry = |weight| Entry { to: servers.start + seat.server, from: jobs.start + seat.token, weight };
                let [of_ranks, of_parameter_servers] = seat.weights;
                ranks.push(entry(of_ranks));
                parameter_servers.push(entry(of_parameter_servers));
            }
            current.extend(servers.clone().map(|to| Entry { to, from: jobs.start, weight: 1.0 }));
        }
        let [ranks, parameter_servers, current] = [ranks, parameter_servers, current].map(|entries| tape.sum(encoded, rows, entries));
        let joined = tape.join(&[ranks, parameter_servers, current, places]);
        let scored = tape.linear(joined, self.layout.score);
        let scored = tape.rectify(scored);
        let others = tape.sum(scored, rows, means(&servers, &servers));
        let compared = tape.join(&[scored, others]);
        let compared = tape.linear(compared, self.layout.compare);
        let compared = tape.rectify(compared);
        let scores = tape.linear(compared, self.layout.act);
        let each: Vec<Range<usize>> = (0..scenes.len()).map(|at| at..at + 1).collect();
        let mean_job = tape.sum(encoded, scenes.len(), means(&each, &jobs));
        let mean_server = tape.sum(scored, scenes.len(), means(&each, &servers));
        let value = tape.join(&[mean_job, mean_server]);
        let value = tape.linear(value, self.layout.value);
        let value = tape.rectify(value);
        let values = tape.linear(value, self.layout.last);
        Batch { tape, scores, values }
    }

    /// The probabilities of the actions of a scene, 0 for what does not fit; none where nothing fits.
    #[must_use]
    pub fn probabilities(&self, scene: &Scene) -> Option<Vec<f32>> {
        let batch = self.batch(&[scene]);
        masked(&batch.tape.value(batch.scores).values, scene.allowed())
    }
}

/// Consecutive ranges, one for each scene.
fn ranges(scenes: &[&Scene], count: fn(&Scene) -> usize) -> Vec<Range<usize>> {
    let mut from = 0;
    let next = |scene: &&Scene| {
        from += count(scene);
        from - count(scene)..from
    };
    scenes.iter().map(next).collect()
}

/// Into each row of each range the mean of the rows of the other range.
fn means(to: &[Range<usize>], from: &[Range<usize>]) -> Vec<Entry> {
    let of = |(to, from): (&Range<usize>, &Range<usize>)| {
        let (from, weight) = (from.clone(), 1.0 / from.len().max(1) as f32);
        to.clone().flat_map(move |to| from.clone().map(move |from| Entry { to, from, weight })).collect::<Vec<_>>()
    };
    to.iter().zip(from).flat_map(of).collect()
}

/// Softmax over what is allowed; none where nothing is.
pub(crate) fn masked(scores: &[f32], allowed: &[bool]) -> Option<Vec<f32>> {
    let most = scores.iter().zip(allowed).filter(|(_, allowed)| **allowed).map(|(score, _)| *score).reduce(f32::max)?;
    let share = |(score, allowed): (&f32, &bool)| if *allowed { libm::expf(score - most) } else { 0.0 };
    let shares: Vec<f32> = scores.iter().zip(allowed).map(share).collect();
    let sum: f32 = shares.iter().sum();
    Some(shares.into_iter().map(|share| share / sum).collect())
}

/// How actions are chosen.
#[derive(Debug)]
pub enum Chosen<'a> {
    /// The likeliest; of equals the first.
    Likeliest,
    /// As likely as the policy has them, and in so many of a thousand jobs by a rule that knows jobs: the emptiest server, or the
    /// fullest (Harmony's job-aware exploration).
    Drawn {
        /// From where.
        draw: &'a mut Draw,
        /// Jobs in a thousand.
        explored_permille: u64,
    },
}

/// An action that was chosen.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What was seen.
    pub scene: Scene,
    /// Which action.
    pub action: usize,
    /// How likely it was.
    pub probability: f32,
    /// When.
    pub now_ms: u64,
}

/// A policy that places jobs, part by part.
#[derive(Debug)]
pub struct Learned<'a> {
    policy: &'a Policy,
    chosen: Chosen<'a>,
    /// What was decided, where it is to be remembered.
    pub(crate) decisions: Option<Vec<Decision>>,
}

impl Policy {
    /// A placer of the likeliest actions.
    #[must_use]
    pub fn placer(&self) -> Learned<'_> {
        Learned { policy: self, chosen: Chosen::Likeliest, decisions: None }
    }

    /// A placer that remembers what it decided.
    pub(crate) fn exploring<'a>(&'a self, draw: &'a mut Draw, explored_permille: u64) -> Learned<'a> {
        Learned { policy: self, chosen: Chosen::Drawn { draw, explored_permille }, decisions: Some(Vec::new()) }
    }
}

/// How free a server is where exploration fills or spreads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Policy,
    Emptiest,
    Fullest,
}

impl Learned<'_> {
    /// By which rule this job is placed.
    fn rule(&mut self) -> Rule {
        const ALL: u64 = 1_000;
        let Chosen::Drawn { draw, explored_permille } = &mut self.chosen else { return Rule::Policy };
        match (draw.below(ALL) < *explored_permille, draw.below(2)) {
            (false, _) => Rule::Policy,
            (true, 0) => Rule::Emptiest,
            (true, _) => Rule::Fullest,
        }
    }

    fn action(&mut self, shares: &[f32], scene: &Scene, free: &[Demand], rule: Rule) -> Option<usize> {
        let allowed = || (0..shares.len()).filter(|action| scene.allowed()[*action]);
        let gpus = |action: &usize| free.get(action / ACTIONS).map_or(0, |free| free[0]);
        match (rule, &mut self.chosen) {
            (Rule::Emptiest, _) => allowed().max_by_key(gpus),
            (Rule::Fullest, _) => allowed().min_by_key(gpus),
            (Rule::Policy, Chosen::Drawn { draw, .. }) => draw.weighted(shares),
            (Rule::Policy, Chosen::Likeliest) => allowed().reduce(|best, at| if shares[at] > shares[best] { at } else { best }),
        }
    }
}

impl Learned<'_> {
    /// Chooses a server for one part after the other; `None` if no server is left for one of them.
    fn decide(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        let mut free = view.free.to_vec();
        let mut stand = Stand::default();
        let mut decisions = Vec::new();
        let rule = self.rule();
        while !stand.is_whole(job) {
            let scene = Scene::new(view, &free, job, &stand);
            let shares = self.policy.probabilities(&scene)?;
            let action = self.action(&shares, &scene, &free, rule)?;
            let (server, part) = (action / ACTIONS, Part::ALL[action % ACTIONS]);
            takes(free.get_mut(server)?, &job.demand(part));
            stand.add(server, part);
            decisions.push(Decision { scene, action, probability: shares[action], now_ms: view.now_ms });
        }
        // What was decided of a job that fits nowhere in the end is nobody's doing.
        if let Some(all) = &mut self.decisions {
            all.append(&mut decisions);
        }
        Some(stand)
    }
}

impl Placer for Learned<'_> {
    /// Parts that were placed first may leave no room for the last ones. In an empty cluster nobody would ever make room, so there the rule
    /// that knows nothing places the job, and nobody learns from it.
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        self.decide(view, job).or_else(|| Balance.place(view, job).filter(|_| view.running.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use harmony::{Interference, Mix, SERVER, mix, run};

    use super::*;

    #[test]
    fn servers_are_scored_alike_whatever_their_number_and_order() {
        let policy = Policy::new(3);
        let job = Job { id: 0, kind: 6, ranks: 2, parameter_servers: 1, work_ms: 900_000, submitted_ms: 0 };
        let of = |free: &[Demand]| {
            let view = View { now_ms: 0, servers: free.len(), running: &[], waiting: &[], free };
            policy.probabilities(&Scene::new(&view, free, &job, &Stand::default()))
        };
        let (whole, part, none) = (SERVER, [1, 9, 20], [0, 1, 2]);
        let found = of(&[whole, part, none]).unwrap();
        let turned = of(&[none, whole, part]).unwrap();
        assert_eq!((found[4], found[5]), (0.0, 0.0), "nothing fits there");
        // The scores are the same numbers; what they are compared with is summed in another order.
        for (a, b) in found[..4].iter().zip(&turned[2..]) {
            assert!((a - b).abs() < 1e-5, "{found:?} {turned:?}");
        }
        assert!((found.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        assert!(of(&[none]).is_none());
        assert_eq!(of(&[whole; 40]).unwrap().len(), 80);
    }

    #[test]
    fn parameter_servers_that_fill_the_servers_first_stop_nobody() {
        let jobs = mix(&Mix { jobs: 20, servers: 2, run_ms: 600_000, octaves: 2, load_permille: 700 }, 0);
        for seed in 0..8 {
            let policy = Policy::new(seed);
            assert_eq!(run(&jobs, 2, &Interference, &mut policy.placer()).unwrap().ended.len(), 20, "policy {seed}");
        }
    }

    #[test]
    fn a_policy_that_knows_nothing_still_places_everybody() {
        let jobs = mix(&Mix { jobs: 20, servers: 3, run_ms: 600_000, octaves: 2, load_permille: 800 }, 1);
        let policy = Policy::new(1);
        let mut placer = policy.placer();
        let outcome = run(&jobs, 3, &Interference, &mut placer).unwrap();
        assert_eq!(outcome.ended.len(), 20);
        assert_eq!(outcome, run(&jobs, 3, &Interference, &mut policy.placer()).unwrap());
        let again = Policy::with_weights(&policy.parameters().values().collect::<Vec<_>>()).unwrap();
        assert_eq!(outcome, run(&jobs, 3, &Interference, &mut again.placer()).unwrap());
        assert!(Policy::with_weights(&[1.0]).is_none());
    }
}
