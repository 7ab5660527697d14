//! Who is better than whom by two measures: fronts, and within them who has fewer neighbours (NSGA-II, Deb et al. 2002, as pymoo 0.4.2 has it).

use alloc::vec::Vec;

use rand_chacha::ChaCha8Rng;

use super::{Costs, below};

/// Placements with their costs, best fronts first.
pub(super) struct Ranked<T> {
    all: Vec<(Costs, T)>,
    /// By placement: how far its neighbours in its front are.
    far: Vec<f64>,
    /// How many are in the first front.
    first: usize,
}

impl<T> Ranked<T> {
    /// The best of `all`, so many at most.
    pub(super) fn new(all: Vec<(Costs, T)>, most: usize) -> Self {
        let costs: Vec<Costs> = all.iter().map(|(costs, _)| *costs).collect();
        let mut order: Vec<(f64, usize)> = Vec::with_capacity(all.len());
        let mut first = None;
        for front in fronts(&costs) {
            if order.len() >= most {
                break;
            }
            let far = crowding(&costs, &front);
            let mut front: Vec<(f64, usize)> = far.into_iter().zip(front).collect();
            front.sort_by(|a, b| b.0.total_cmp(&a.0));
            order.extend(front);
            first = first.or(Some(order.len()));
        }
        order.truncate(most);
        let mut all: Vec<Option<(Costs, T)>> = all.into_iter().map(Some).collect();
        let chosen = order.iter().filter_map(|(_, at)| all.get_mut(*at).and_then(Option::take)).collect();
        Self { all: chosen, far: order.iter().map(|(far, _)| *far).collect(), first: first.unwrap_or(0).min(order.len()) }
    }

    pub(super) fn all(&self) -> &[(Costs, T)] {
        &self.all
    }

    pub(super) fn into_all(self) -> Vec<(Costs, T)> {
        self.all
    }

    /// Winners of so many tournaments of two: who is better by both measures, else who has fewer neighbours. Everybody takes part equally often.
    pub(super) fn pick(&self, tournaments: usize, random: &mut ChaCha8Rng) -> Vec<usize> {
        let mut drawn: Vec<usize> = Vec::with_capacity(2 * tournaments + self.all.len());
        while drawn.len() < 2 * tournaments && !self.all.is_empty() {
            let from = drawn.len();
            drawn.extend(0..self.all.len());
            for at in (1..self.all.len()).rev() {
                drawn.swap(from + at, from + below(random, at + 1));
            }
        }
        drawn.chunks_exact(2).take(tournaments).map(|pair| self.better(pair[0], pair[1], random)).collect()
    }

    fn better(&self, a: usize, b: usize, random: &mut ChaCha8Rng) -> usize {
        let of = |at: usize| (self.all[at].0, self.far[at]);
        let ((a_costs, a_far), (b_costs, b_far)) = (of(a), of(b));
        let a_wins = match (beats(a_costs, b_costs), beats(b_costs, a_costs)) {
            (true, _) => true,
            (_, true) => false,
            _ if a_far == b_far => below(random, 2) == 0,
            _ => a_far > b_far,
        };
        if a_wins { a } else { b }
    }

    /// The first front.
    pub(super) fn front(&self) -> &[(Costs, T)] {
        &self.all[..self.first]
    }
}

/// Whether one is nowhere worse and somewhere better.
fn beats(a: Costs, b: Costs) -> bool {
    a[0] <= b[0] && a[1] <= b[1] && a != b
}

/// Places of costs, front by front: nobody in a front beats another of it.
fn fronts(costs: &[Costs]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    let by = |a: &Costs, b: &Costs| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1]));
    order.sort_by(|a, b| by(&costs[*a], &costs[*b]));
    // Sorted by the first measure, a front is left when the second is no better than its last; equal ones share a front.
    let mut fronts: Vec<Vec<usize>> = Vec::new();
    for at in order {
        let free = |front: &Vec<usize>| front.last().is_none_or(|last| !beats(costs[*last], costs[at]));
        match fronts.iter_mut().find(|front| free(front)) {
            Some(front) => front.push(at),
            None => fronts.push(alloc::vec![at]),
        }
    }
    fronts
}

/// How far the two neighbours of each of a front are, in both measures; endless at its ends, and 0 for all but the first of equal ones.
fn crowding(costs: &[Costs], front: &[usize]) -> Vec<f64> {
    let mut far = alloc::vec![0.0; front.len()];
    if front.len() <= 2 {
        far.fill(f64::INFINITY);
        return far;
    }
    let of = |at: usize, measure: usize| costs[front[at]][measure];
    // A front is in order of the first measure, so equal ones are neighbours, and the second measure falls.
    let unique: Vec<usize> = (0..front.len()).filter(|at| *at == 0 || costs[front[*at]] != costs[front[at - 1]]).collect();
    let last = unique.len() - 1;
    for measure in 0..2 {
        let span = (of(unique[last], measure) - of(unique[0], measure)).abs();
        for (at, own) in unique.iter().enumerate() {
            far[*own] += match at {
                _ if at == 0 || at == last => f64::INFINITY,
                _ if span > 0.0 => (of(unique[at + 1], measure) - of(unique[at - 1], measure)).abs() / span,
                _ => 0.0,
            };
        }
    }
    far
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn fronts_come_first_and_in_them_who_has_few_neighbours() {
        let all = [[1.0, 5.0], [2.0, 2.0], [2.1, 1.9], [5.0, 1.0], [3.0, 3.0], [6.0, 6.0]];
        let ranked = Ranked::new(all.iter().zip(0..).map(|(costs, at)| (*costs, at)).collect(), 5);
        let mut front: Vec<i32> = ranked.front().iter().map(|(_, at)| *at).collect();
        // The ends first.
        assert!(front[..2].contains(&0) && front[..2].contains(&3));
        front.sort_unstable();
        assert_eq!(front, [0, 1, 2, 3]);
        assert_eq!((ranked.all().len(), ranked.all()[4].1), (5, 4));
    }

    #[test]
    fn of_equal_ones_all_but_one_have_no_room() {
        let costs = [[1.0, 3.0], [2.0, 2.0], [2.0, 2.0], [3.0, 1.0]];
        let found = &fronts(&costs)[0];
        assert_eq!(crowding(&costs, found), [f64::INFINITY, 2.0, 0.0, f64::INFINITY]);
    }

    #[test]
    fn everybody_takes_part_in_tournaments_and_the_best_win() {
        let all: Vec<(Costs, usize)> = (0..10).map(|at| ([at as f64, at as f64], at)).collect();
        let ranked = Ranked::new(all, 10);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        // Five tournaments are one draw of all: the best wins its own, the worst never.
        let won = ranked.pick(5, &mut random);
        assert!(won.contains(&0) && !won.contains(&9), "{won:?}");
        assert_eq!(ranked.pick(50, &mut random).iter().filter(|at| **at == 0).count(), 10);
    }

    proptest! {
        #[test]
        fn fronts_are_those_of_the_definition(costs in prop::collection::vec((0_u8..6, 0_u8..6), 1..40)) {
            let costs: Vec<Costs> = costs.into_iter().map(|(a, b)| [f64::from(a), f64::from(b)]).collect();
            let found = fronts(&costs);
            prop_assert_eq!(found.iter().map(Vec::len).sum::<usize>(), costs.len());
            for (rank, front) in found.iter().enumerate() {
                for at in front {
                    let better = |other: &usize| {
                        let (a, b) = (costs[*other], costs[*at]);
                        a[0] <= b[0] && a[1] <= b[1] && (a[0] < b[0] || a[1] < b[1])
                    };
                    prop_assert!(!front.iter().any(better));
                    // Somebody of the front before it is better.
                    prop_assert!(rank == 0 || found[rank - 1].iter().any(better));
                }
            }
        }
    }
}
