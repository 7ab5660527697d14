use alloc::{vec, vec::Vec};

use proptest::prelude::*;

use super::*;

/// The least cost by trying everything.
fn exhaustive(problem: &Problem) -> Option<f64> {
    fn go(problem: &Problem, item: usize, rest: &mut Vec<i64>) -> Option<f64> {
        let Some(of) = problem.items.get(item) else { return Some(0.0) };
        let mut best = of.nothing.and_then(|cost| Some(cost + go(problem, item + 1, rest)?));
        for choice in &of.choices {
            let kind = usize::from(choice.kind);
            rest[kind] -= i64::from(choice.units);
            if rest[kind] >= 0 {
                let found = go(problem, item + 1, rest).map(|cost| cost + choice.cost);
                best = [best, found].into_iter().flatten().min_by(f64::total_cmp);
            }
            rest[kind] += i64::from(choice.units);
        }
        best
    }
    go(problem, 0, &mut problem.capacities.iter().map(|c| i64::from(*c)).collect())
}

fn problems(grid: bool) -> impl Strategy<Value = Problem> {
    (1_usize..4).prop_flat_map(move |kinds| {
        let cost = (0_u32..300).prop_map(move |c| if grid { f64::from(c) / 100.0 } else { f64::from(c) * 0.007_131 - 0.4 });
        let choice = (0..kinds as u8, 0_u32..6, cost.clone()).prop_map(|(kind, units, cost)| Choice { kind, units, cost });
        let nothing = prop_oneof![4 => cost.prop_map(Some), 1 => Just(None)];
        let item = (prop::collection::vec(choice, 0..5), nothing).prop_map(|(choices, nothing)| Item { choices, nothing });
        (prop::collection::vec(0_u32..14, kinds), prop::collection::vec(item, 0..7))
            .prop_map(|(capacities, items)| Problem { capacities, items })
    })
}

fn agrees(problem: &Problem) -> Result<(), TestCaseError> {
    let found = solve(problem, SUMS_MAX);
    let Some(least) = exhaustive(problem) else {
        prop_assert_eq!(found, Err(KnapsackError::Infeasible));
        return Ok(());
    };
    let found = found.map_err(|e| TestCaseError::fail(alloc::format!("{e}")))?;
    let (cost, used) = problem.of(&found.chosen);
    prop_assert!(found.proven && (found.cost - least).abs() < 1e-9, "{found:?} {least}");
    prop_assert!((cost - found.cost).abs() < 1e-12 && (found.bound - cost).abs() < 1e-12);
    prop_assert!(used.iter().zip(&problem.capacities).all(|(used, has)| used <= has));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_least_cost_is_that_of_trying_everything_on_a_grid(problem in problems(true)) {
        agrees(&problem)?;
    }

    #[test]
    fn the_least_cost_is_that_of_trying_everything(problem in problems(false)) {
        agrees(&problem)?;
    }

    #[test]
    fn few_sums_give_an_answer_that_fits_or_none_and_no_false_proof(problem in problems(false), sums in 1_u64..400) {
        if let Ok(found) = solve(&problem, sums) {
            let least = exhaustive(&problem).unwrap();
            prop_assert!(found.bound <= least + 1e-9 && found.cost >= least - 1e-9, "{found:?} {least}");
            prop_assert!(!found.proven || (found.cost - least).abs() < 1e-9);
            let (_, used) = problem.of(&found.chosen);
            prop_assert!(used.iter().zip(&problem.capacities).all(|(used, has)| used <= has));
        }
    }
}

#[test]
fn limits_and_nonsense_are_refused() {
    let item = |choices: Vec<Choice>| Item { choices, nothing: Some(1.0) };
    let of = |capacities: Vec<u32>, items: Vec<Item>| solve(&Problem { capacities, items }, SUMS_MAX);
    assert_eq!(of(vec![1; 9], vec![]), Err(KnapsackError::Kinds { kinds: 9 }));
    assert_eq!(of(vec![20_000], vec![]), Err(KnapsackError::Units { units: 20_000 }));
    let choice = Choice { kind: 1, units: 1, cost: 0.5 };
    assert_eq!(of(vec![1], vec![item(vec![choice])]), Err(KnapsackError::Kind { item: 0, kind: 1, kinds: 1 }));
    let no_number = of(vec![1], vec![item(vec![Choice { kind: 0, cost: f64::NAN, ..choice }])]);
    assert!(matches!(no_number, Err(KnapsackError::Cost { item: 0, .. })));
    assert_eq!(of(vec![], vec![]).map(|s| (s.cost, s.proven)), Ok((0.0, true)));
}
