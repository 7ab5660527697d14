//! The 1F1B pipeline schedule (PipeDream-Flush; Narayanan et al. 2021, section 2.2).

use alloc::{vec, vec::Vec};

/// Sizes of one micro-batch, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// Forward pass of one stage.
    pub(super) forward: u64,
    /// Backward pass of one stage.
    pub(super) backward: u64,
    /// Sending activations, or their gradients, to the neighbour; the sender waits for it.
    pub(super) hop: u64,
}

/// When the first stage works, and when the second sends gradients to it. Activations leave the first at the end of each forward pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Starts of the forward passes of the first stage, by micro-batch.
    pub(super) forwards: Vec<u64>,
    /// Starts of its backward passes.
    pub(super) backwards: Vec<u64>,
    /// Starts of the second stage's sends of gradients; empty with one stage.
    pub(super) gradients: Vec<u64>,
}

/// Order of work of one stage: as many forward passes as there are stages after it, then one
/// forward and one backward in turn, then the backward passes that are left. `true` = forward.
fn order(stages: usize, stage: usize, micro_batches: usize) -> Vec<(bool, usize)> {
    let warm = (stages - stage - 1).min(micro_batches);
    let mut order: Vec<(bool, usize)> = (0..warm).map(|i| (true, i)).collect();
    for i in 0..micro_batches {
        if warm + i < micro_batches {
            order.push((true, warm + i));
        }
        order.push((false, i));
    }
    order
}

/// Runs `micro_batches` through `stages` (both at least 1); each pass starts as soon as its
/// stage is free and its input has arrived.
pub(super) fn one_forward_one_backward(stages: usize, micro_batches: usize, pass: Pass) -> Schedule {
    let orders: Vec<_> = (0..stages).map(|s| order(stages, s, micro_batches)).collect();
    // Starts and ends, [forward?][stage][micro-batch]; `None` = not yet run.
    let mut spans = [vec![vec![None; micro_batches]; stages], vec![vec![None; micro_batches]; stages]];
    let mut done = vec![0; stages];
    let mut free = vec![0_u64; stages];
    // Each round runs all passes whose input is there. 1F1B has no circular wait, so every round makes progress.
    while done.iter().zip(&orders).any(|(&d, o)| d < o.len()) {
        // Alternating directions lets forward and backward waves run through in one sweep each.
        for s in (0..stages).chain((0..stages).rev()) {
            while let Some(&(forward, i)) = orders[s].get(done[s]) {
                let input: Option<(u64, u64)> = match forward {
                    true if s == 0 => Some((0, 0)),
                    true => spans[1][s - 1][i],
                    // The last stage turns round: its backward pass needs its own forward pass.
                    false if s + 1 == stages => spans[1][s][i],
                    false => spans[0][s + 1][i],
                };
                let Some((_, arrival)) = input else { break };
                let start = arrival.max(free[s]);
                let sends = if forward { s + 1 < stages } else { s > 0 };
                let work = if forward { pass.forward } else { pass.backward };
                // The sender waits for its hop (`Pass::hop`), so the hop ends both its work and the wait of the receiver.
                free[s] = start + work + if sends { pass.hop } else { 0 };
                spans[usize::from(forward)][s][i] = Some((start, free[s]));
                done[s] += 1;
            }
        }
    }
    let starts = |forward: usize, s: usize| spans[forward][s].iter().flatten().map(|&(start, _)| start).collect::<Vec<_>>();
    let gradients = if stages > 1 { starts(0, 1).iter().map(|start| start + pass.backward).collect() } else { Vec::new() };
    Schedule { forwards: starts(1, 0), backwards: starts(0, 0), gradients }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stages_follow_the_textbook() {
        // forward 1, backward 2, no hop. Stage 0: F0 F1 . B0 F2 . B1 . B2; stage 1: . F0 B0 F1 B1 F2 B2.
        // Stage 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7, F2 7-8, B2 8-10.
        let s = one_forward_one_backward(2, 3, Pass { forward: 1, backward: 2, hop: 0 });
        assert_eq!(s, Schedule { forwards: vec![0, 1, 6], backwards: vec![4, 7, 10], gradients: vec![4, 7, 10] });
    }

    #[test]
    fn the_length_is_the_papers_bubble() {
        // Narayanan et al.: (m + p - 1) (f + b) without communication.
        for (p, m) in [(1, 1), (1, 5), (2, 2), (4, 8), (8, 3), (5, 17)] {
            let s = one_forward_one_backward(p, m, Pass { forward: 3, backward: 6, hop: 0 });
            assert_eq!(s.backwards.last().unwrap() + 6, (m + p - 1) as u64 * 9, "p {p}, m {m}");
            assert!(s.forwards.is_sorted() && s.backwards.is_sorted() && s.forwards.len() == m);
        }
    }

    #[test]
    fn hops_are_waited_for() {
        // p 2, m 1: F0 1, hop 2, F1 1, B1 2, hop 2, then B0 at 8.
        let s = one_forward_one_backward(2, 1, Pass { forward: 1, backward: 2, hop: 2 });
        assert_eq!(s, Schedule { forwards: vec![0], backwards: vec![8], gradients: vec![6] });
    }

    /// With all hops drawn at the times of the first one, a stage between two others is drawn as sending activations when the
    /// first does and gradients when the second does: that never overlaps, because the second waits for its own hops.
    #[test]
    fn of_more_than_two_stages_nobody_is_drawn_as_sending_both_ways_at_once() {
        // forward 1, backward 2, hop 1, one micro-batch: F0 0-1, hop 1-2; F1 2-3, hop 3-4; F2 4-5, hop 5-6; F3 6-7, B3 7-9,
        // hop 9-10; B2 10-12, hop 12-13; B1 13-15, hop 15-16; B0 16-18.
        let s = one_forward_one_backward(4, 1, Pass { forward: 1, backward: 2, hop: 1 });
        assert_eq!(s, Schedule { forwards: vec![0], backwards: vec![16], gradients: vec![15] });
        for (p, m) in [(3, 1), (3, 7), (4, 8), (8, 3), (8, 20)] {
            for (forward, backward, hop) in [(3, 6, 2), (3, 6, 1), (2, 2, 5), (100, 200, 1), (1, 3, 40), (1, 1, 1)] {
                let s = one_forward_one_backward(p, m, Pass { forward, backward, hop });
                let mut sends: Vec<u64> = s.forwards.iter().map(|start| start + forward).chain(s.gradients).collect();
                sends.sort_unstable();
                assert_eq!(sends.len(), 2 * m);
                assert!(sends.windows(2).all(|w| w[0] + hop <= w[1]), "p {p}, m {m}, {forward} {backward} {hop}: {sends:?}");
            }
        }
    }
}
