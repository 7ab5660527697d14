use proptest::prelude::*;

use super::*;

/// The weight of the best matching, by trying all.
fn brute_force(weights: &Weights, free: &mut Vec<usize>) -> f64 {
    let Some(first) = free.pop() else { return 0.0 };
    let mut best = brute_force(weights, free);
    for at in 0..free.len() {
        let weight = weights.weight(first, free[at]);
        if weight > 0.0 {
            let other = free.remove(at);
            best = best.max(weight + brute_force(weights, free));
            free.insert(at, other);
        }
    }
    free.push(first);
    best
}

fn total(weights: &Weights, mates: &[Option<u32>]) -> f64 {
    let pairs = mates.iter().enumerate().filter_map(|(u, mate)| mate.map(|v| (u, v as usize))).filter(|(u, v)| u < v);
    pairs.map(|(u, v)| weights.weight(u, v)).sum()
}

fn graph(nodes: usize, steps: &[u16]) -> Weights {
    let mut weights = Weights::new(nodes);
    let mut next = steps.iter().cycle();
    for u in 0..nodes {
        for v in u + 1..nodes {
            let weight = f64::from(*next.next().unwrap_or(&0));
            weights.row_mut(u)[v] = weight;
            weights.row_mut(v)[u] = weight;
        }
    }
    weights
}

/// The weight of the best matching, by a library.
fn library(weights: &Weights) -> f64 {
    let n = weights.nodes();
    let flat: Vec<i64> = (0..n * n).map(|at| weights.weight(at / n, at % n) as i64).collect();
    let mates = integer_blossom::max_weight_matching(&flat, n);
    let mates: Vec<Option<u32>> = mates.iter().map(|mate| mate.map(|v| v as u32)).collect();
    total(weights, &mates)
}

fn check_pairs(weights: &Weights, mates: &[Option<u32>]) {
    for (u, mate) in mates.iter().enumerate() {
        if let Some(v) = mate.map(|v| v as usize) {
            assert_eq!(mates[v], Some(u as u32));
            assert!(u != v && weights.weight(u, v) > 0.0);
        }
    }
}

#[test]
fn three_in_a_circle_leave_the_one_out_that_costs_least() {
    let mut weights = graph(3, &[0]);
    for (u, v, weight) in [(0, 1, 5.0), (1, 2, 6.0), (0, 2, 4.0)] {
        weights.row_mut(u)[v] = weight;
        weights.row_mut(v)[u] = weight;
    }
    assert_eq!(max_weight_matching(&weights), [None, Some(2), Some(1)]);
}

#[test]
fn fewer_pairs_win_where_they_weigh_more() {
    // A path of three edges: the middle one of 9 beats the outer two of 4 each.
    let mut weights = graph(4, &[0]);
    for (u, v, weight) in [(0, 1, 4.0), (1, 2, 9.0), (2, 3, 4.0)] {
        weights.row_mut(u)[v] = weight;
        weights.row_mut(v)[u] = weight;
    }
    assert_eq!(max_weight_matching(&weights), [None, Some(2), Some(1), None]);
}

#[test]
fn nothing_and_nobody_are_matched_as_such() {
    assert_eq!(max_weight_matching(&Weights::new(0)), []);
    assert_eq!(max_weight_matching(&Weights::new(3)), [None; 3]);
    assert_eq!(Weights::new(NODES_MAX + 7).nodes(), NODES_MAX);
}

proptest! {
    #[test]
    fn no_matching_weighs_more(nodes in 0_usize..10, steps in prop::collection::vec(0_u16..12, 1..46)) {
        let weights = graph(nodes, &steps);
        let mates = max_weight_matching(&weights);
        check_pairs(&weights, &mates);
        prop_assert_eq!(total(&weights, &mates), brute_force(&weights, &mut (0..nodes).collect()));
    }

    #[test]
    fn a_library_finds_the_same_weight_in_larger_graphs(nodes in 20_usize..90, steps in prop::collection::vec(0_u16..1000, 200..2000)) {
        let weights = graph(nodes, &steps);
        let mates = max_weight_matching(&weights);
        check_pairs(&weights, &mates);
        prop_assert_eq!(total(&weights, &mates), library(&weights));
    }

    #[test]
    fn quantised_weights_are_near_and_exact(weight in 0.0_f64..4.0) {
        let near = quantise(weight);
        prop_assert!((near - weight).abs() <= 0.5 / QUANTUM);
        prop_assert_eq!(near * QUANTUM, (near * QUANTUM).trunc());
    }
}
