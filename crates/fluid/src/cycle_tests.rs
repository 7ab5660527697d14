//! Turns as a timed event graph: the largest mean of a cycle beside the model, without jitter.
//!
//! A node is a start of a job's Up phase in a round, and an edge says that a start comes no earlier than so long after another one, so
//! many rounds before (its tokens). The round takes the largest ratio of length to tokens over the cycles (docs/model.md, section 14).

use std::{vec, vec::Vec};

use circle::Phase;
use units::{Nanos, Rate, Ticks};

use crate::{Asks, Begin, FluidJob, FluidLink, Trial, predict_turns, turn_group};

/// A hundredth of the usual iteration.
const UNIT: u64 = 1_000_000;

/// An edge: from, to, length in ns, tokens.
type Edge = (usize, usize, u64, u64);

struct Graph {
    nodes: usize,
    edges: Vec<Edge>,
}

impl Graph {
    /// Each job starts `starts` times in a round, `iteration` apart at least: its nodes follow each other.
    fn new(jobs: &[(u64, u64)], starts: &[usize]) -> Self {
        let mut graph = Self { nodes: 0, edges: Vec::new() };
        for ((iteration, _), starts) in jobs.iter().zip(starts) {
            let own: Vec<usize> = (graph.nodes..graph.nodes + starts).collect();
            graph.nodes += starts;
            graph.around(&own, |_| iteration * UNIT);
        }
        graph
    }

    /// These starts come one after the other, and around again in the next round; each `length` after the one before.
    fn around(&mut self, order: &[usize], length: impl Fn(usize) -> u64) {
        for (i, &from) in order.iter().enumerate() {
            let last = i + 1 == order.len();
            self.edges.push((from, order[if last { 0 } else { i + 1 }], length(from), u64::from(last)));
        }
    }

    /// Whether some cycle is longer than `round` for each of its tokens: longest paths then grow for ever.
    fn exceeds(&self, round: u64) -> bool {
        let mut longest = vec![0i128; self.nodes];
        let mut grows = false;
        for _ in 0..=self.nodes {
            grows = false;
            for &(from, to, length, tokens) in &self.edges {
                let reached = longest[from] + i128::from(length) - i128::from(round) * i128::from(tokens);
                if reached > longest[to] {
                    (longest[to], grows) = (reached, true);
                }
            }
        }
        grows
    }

    /// The largest mean of a cycle, rounded up: the shortest round that no cycle exceeds.
    fn round(&self) -> u64 {
        let (mut low, mut high) = (0, self.edges.iter().map(|e| e.2).sum());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.exceeds(middle) { low = middle + 1 } else { high = middle }
        }
        high
    }
}

/// One run without jitter, of jobs that start together.
const EXACT: Trial = Trial { jitter_permille: 0, seed: 1, runs: 1, begin: Begin::Together, way: Nanos(0) };

/// What each job takes by turns, of those that send first; (iteration, Up) of each, and its links.
fn modelled(jobs: &[(u64, u64)], on: &[&[usize]], trial: Trial) -> Vec<u64> {
    let phases: Vec<[Phase; 1]> = jobs.iter().map(|j| [Phase { start: Ticks(0), end: Ticks(j.1 * UNIT), rate: Rate(100) }]).collect();
    let fluid: Vec<FluidJob> =
        jobs.iter().map(|j| FluidJob { iteration: Nanos(j.0 * UNIT), period: Nanos(j.0 * UNIT), shift: Nanos(0) }).collect();
    let count = on.iter().flat_map(|l| l.iter()).max().unwrap() + 1;
    let demands = |l: usize| (0..jobs.len()).filter(|j| on[*j].contains(&l)).map(|j| (j, &phases[j][..])).collect();
    let links: Vec<FluidLink<'_>> = (0..count).map(|l| FluidLink { capacity: Rate(100), demands: demands(l) }).collect();
    let n = jobs.len() as u32;
    let everybody: Vec<Vec<u32>> = (0..n).map(|j| (0..n).filter(|o| *o != j).collect()).collect();
    let group = turn_group(&fluid, &links, &everybody, |_| 1_000);
    predict_turns(&fluid, &links, &group, &[Asks::Iteration; 8][..jobs.len()], trial).times.iter().map(|t| t.0).collect()
}

/// One start of each job in a round; `orders` are the jobs of each link in the order of their turns.
fn locked(name: &str, jobs: &[(u64, u64)], orders: &[&[usize]], round: u64) {
    let on: Vec<Vec<usize>> = (0..jobs.len()).map(|j| (0..orders.len()).filter(|l| orders[*l].contains(&j)).collect()).collect();
    let mut graph = Graph::new(jobs, &vec![1; jobs.len()]);
    orders.iter().for_each(|order| graph.around(order, |j| jobs[j].1 * UNIT));
    assert_eq!(graph.round(), round * UNIT, "{name}");
    let seen = modelled(jobs, &on.iter().map(Vec::as_slice).collect::<Vec<_>>(), EXACT);
    assert!(seen.iter().all(|t| *t == round * UNIT), "{name}: {seen:?}, not {round}");
}

#[test]
fn a_round_is_as_long_as_the_largest_mean_of_a_cycle() {
    // The cycles of a link are each job alone, and all that it carries.
    locked("two that fit", &[(100, 45), (100, 45)], &[&[0, 1]], 100);
    locked("two that do not", &[(100, 60), (100, 50)], &[&[0, 1]], 110);
    locked("three that do not", &[(100, 40); 3], &[&[0, 1, 2]], 120);
    locked("near-equal: the slower one sets the pace", &[(100, 45), (104, 45)], &[&[0, 1]], 104);
    // Job 1 waits for the slow job 0, and job 2 for job 1, whom it meets on another link.
    locked("a chain takes over the pace", &[(108, 40), (100, 40), (100, 40)], &[&[0, 1], &[1, 2]], 108);
    locked("a chain with one link too full", &[(100, 60), (100, 60), (100, 30)], &[&[0, 1], &[1, 2]], 120);
    // One token for the way around, in the order of the jobs; the other way it is two: 60.
    locked("a loop that does not fit", &[(100, 40); 3], &[&[0, 1], &[1, 2], &[0, 2]], 120);
    // Every other job goes at once, so the way around six links has three tokens: 6 * 45 / 3 = 90 is no limit. In the order of
    // the jobs it would be 6 * 45 = 270.
    locked("a ring of six", &[(100, 45); 6], &[&[0, 1], &[2, 1], &[2, 3], &[4, 3], &[4, 5], &[0, 5]], 100);
}

/// Job 0 starts twice in a round: 22, then job 1 for 32, then again 50 after its first start, if it need not wait for job 1.
#[test]
fn one_to_two_is_a_round_of_two_starts() {
    for (up, round) in [(25, 100), (32, 104)] {
        let jobs = [(50, 22), (100, up)];
        let mut graph = Graph::new(&jobs, &[2, 1]);
        // Nodes 0 and 1 are starts of job 0, node 2 that of job 1. After 22 + `up` the second start follows, and 50 later the round.
        graph.around(&[0, 2, 1], |node| jobs[usize::from(node == 2)].1 * UNIT);
        assert_eq!(graph.round(), round * UNIT);
        assert_eq!(modelled(&jobs, &[&[0], &[0]], EXACT), [round * UNIT / 2, round * UNIT]);
    }
}

/// Two jobs of 100 on a link. How far they are apart walks between two walls: the ends of the room that their Up phases leave. Each
/// step has twice the variance of a Down phase, and a walk with steps of deviation `s` between walls `room` apart is pushed
/// back by `s^2 / 2 room` at each wall; steps that overshoot make the room wider by 0.583 `s` at each.
#[test]
fn jitter_adds_its_variance_over_the_room_that_is_left() {
    for (up, permille) in [(45, 12), (45, 29), (48, 29), (50, 29), (50, 50)] {
        let trial = Trial { jitter_permille: permille, seed: 1, runs: 512, begin: Begin::Anywhere, way: Nanos(0) };
        let seen = modelled(&[(100, up); 2], &[&[0], &[0]], trial);
        let deviation = (100 - up) as f64 * f64::from(permille) / 1e3;
        let step = deviation * 2.0_f64.sqrt();
        let added = step * step / 2.0 / ((100 - 2 * up) as f64 + 2.0 * 0.5826 * step);
        for time in seen {
            let over = time as f64 / UNIT as f64 - 100.0;
            // 512 runs of 60 iterations are good to about 0.01; the formula is that of small steps.
            assert!((over - added).abs() < 0.02 + 0.1 * added, "{up} {permille}: {over:.3}, not {added:.3}");
        }
    }
}
