use proptest::prelude::*;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::{kinds, *};

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

/// A graph of nodes of kinds.
fn of_kinds(kind_of: &[usize], table: &[f64], kinds: usize) -> Weights {
    let mut weights = Weights::new(kind_of.len());
    for (u, &a) in kind_of.iter().enumerate() {
        for (v, &b) in kind_of.iter().enumerate() {
            weights.row_mut(u)[v] = if u == v { 0.0 } else { table[a.min(b) * kinds + a.max(b)] };
        }
    }
    weights
}

/// Weights of pairs of kinds from whole numbers; a quarter of them are no edges.
fn table(kinds: usize, steps: &[u16], most: u16) -> Vec<f64> {
    let mut next = steps.iter().cycle();
    (0..kinds * kinds).map(|_| f64::from((*next.next().unwrap_or(&0) % (most + most / 3 + 1)).saturating_sub(most / 3))).collect()
}

#[test]
fn of_many_nodes_of_a_kind_one_is_left_over_where_they_are_odd() {
    // Kinds that only match their own: 301 and 200 nodes make 150 and 100 pairs.
    let kind_of: Vec<usize> = (0..501).map(|node| usize::from(node >= 301)).collect();
    let mates = max_weight_matching_of_kinds(&kind_of, &[3.0, 0.0, 0.0, 2.0], 2).expect("a proof");
    let free: Vec<usize> = (0..501).filter(|node| mates[*node].is_none()).collect();
    // The last of its kind, because earlier ones go first.
    assert_eq!(free, [300]);
    assert_eq!((mates[0], mates[299], mates[301]), (Some(1), Some(298), Some(302)));
}

#[test]
fn kinds_that_nobody_matches_stay_alone_however_many_they_are() {
    let kind_of: Vec<usize> = (0..2_000).map(|node| usize::from(node >= 10)).collect();
    // The ten are worth more with others than among themselves, and the others are worth nothing to each other.
    let mates = max_weight_matching_of_kinds(&kind_of, &[1.0, 4.0, 4.0, 0.0], 2).expect("a proof");
    assert_eq!((0..10).map(|node| mates[node]).collect::<Vec<_>>(), (10..20).map(Some).collect::<Vec<_>>());
    assert!(mates[20..].iter().all(Option::is_none));
}

#[test]
fn a_table_that_is_none_and_a_kind_that_is_none_have_no_answer() {
    assert_eq!(max_weight_matching_of_kinds(&[0, 1], &[1.0], 1), None);
    assert_eq!(max_weight_matching_of_kinds(&[0, 0], &[1.0, 2.0], 1), None);
    assert_eq!(max_weight_matching_of_kinds(&[], &[], 0), Some(Vec::new()));
}

/// Of so many cases most must have a proof, or the shortcut is none.
#[test]
fn nearly_all_graphs_of_few_kinds_have_a_proof_and_weigh_what_the_search_finds() {
    let mut rng = ChaCha8Rng::seed_from_u64(20_261_123);
    let mut draw = |below: u32| rng.next_u32() % below;
    let (mut proven, cases) = (0, 100);
    for _ in 0..cases {
        let kinds = 1 + draw(9) as usize;
        let sizes: Vec<u32> = (0..kinds).map(|_| draw(80)).collect();
        let kind_of: Vec<usize> = (0..kinds).flat_map(|kind| core::iter::repeat_n(kind, sizes[kind] as usize)).collect();
        let most = [3, 20, 1_000][draw(3) as usize];
        let steps: Vec<u16> = (0..kinds * kinds).map(|_| draw(2_000) as u16).collect();
        let table = table(kinds, &steps, most);
        let Some(mates) = max_weight_matching_of_kinds(&kind_of, &table, kinds) else { continue };
        proven += 1;
        let weights = of_kinds(&kind_of, &table, kinds);
        check_pairs(&weights, &mates);
        assert_eq!(total(&weights, &mates), total(&weights, &max_weight_matching(&weights)), "{sizes:?} {table:?}");
    }
    assert!(proven * 20 >= cases * 19, "{proven} of {cases}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// The oracle is the search among all nodes; what has no proof says nothing.
    #[test]
    fn kinds_weigh_what_the_search_finds(kind_of in prop::collection::vec(0_usize..4, 0..40), steps in prop::collection::vec(0_u16..2_000, 16), most in 1_u16..30) {
        let table = table(4, &steps, most);
        let weights = of_kinds(&kind_of, &table, 4);
        // Halved from a dozen on, so that small graphs go all the way.
        if let Some(mates) = kinds::matching_from(12, &kind_of, &table, 4) {
            check_pairs(&weights, &mates);
            prop_assert_eq!(total(&weights, &mates), total(&weights, &max_weight_matching(&weights)));
        }
    }
}

/// Also where a square is cut by the side of the matrix.
#[test]
fn columns_are_rows_of_the_other_way() {
    for side in [1, 31, 32, 33, 70] {
        let by_row: Vec<f64> = (0..side * side).map(|cell| cell as f64).collect();
        let columns = dense::transposed(&by_row, side);
        assert!((0..side * side).all(|cell| columns[cell % side * side + cell / side] == by_row[cell]), "{side}");
    }
}
