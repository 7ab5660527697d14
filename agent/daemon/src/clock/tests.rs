use proptest::prelude::*;
use units::{ClockOffset, FabricTime, Nanos, NodeTime};

use super::{ClockEstimator, DRIFT_PPM_MAX, Exchange, SAMPLES_MAX, STEP_SAMPLES, Taken, WINDOW};

const MS: u64 = 1_000_000;

/// Two clocks: fabric = node * (1 + ppm) + offset, exactly.
#[derive(Clone, Copy, Debug)]
struct World {
    offset: i128,
    ppm: i128,
}

impl World {
    fn fabric(self, node: u64) -> u64 {
        u64::try_from(i128::from(node) + self.offset + i128::from(node) * self.ppm / 1_000_000).unwrap()
    }

    fn true_offset(self, node: u64) -> i128 {
        i128::from(self.fabric(node)) - i128::from(node)
    }

    fn exchange(self, sent: u64, there: u64, held: u64, back: u64) -> Exchange {
        Exchange {
            sent: NodeTime(sent),
            received: FabricTime(self.fabric(sent + there)),
            echoed: FabricTime(self.fabric(sent + there + held)),
            came: NodeTime(sent + there + held + back),
        }
    }
}

fn holds(estimator: &ClockEstimator, world: World, now: u64) -> Result<(), String> {
    let estimate = estimator.estimate(NodeTime(now)).ok_or("no estimate")?;
    let error = (i128::from(estimate.offset.0) - world.true_offset(now)).unsigned_abs();
    // One nanosecond: the world above rounds its stamps.
    if error <= u128::from(estimate.bound.0) + 1 { Ok(()) } else { Err(format!("wrong by {error} ns: {estimate:?}")) }
}

#[test]
fn one_exchange_gives_half_its_round_trip() {
    let mut estimator = ClockEstimator::default();
    assert_eq!(estimator.estimate(NodeTime(0)), None);
    let world = World { offset: 1_700_000_000_000_000_000, ppm: 0 };
    assert_eq!(estimator.take(&world.exchange(1_000, 300, 50, 100)), Taken::Agrees);
    let estimate = estimator.estimate(NodeTime(1_450)).unwrap();
    // 300 ns there and 100 ns back look like 200 each: the offset is off by 100, the bound is 200 and 1 of drift.
    assert_eq!(estimate.offset, ClockOffset(1_700_000_000_000_000_100));
    assert_eq!((estimate.bound, estimate.rtt), (Nanos(201), Nanos(400)));
    // 200 ppm of a second are 200 us.
    assert_eq!(estimate.bound_at(NodeTime(1_450 + 1_000 * MS)), Nanos(201 + 200_000));
}

#[test]
fn delays_in_opposite_directions_cancel() {
    let world = World { offset: 0, ppm: 0 };
    let mut estimator = ClockEstimator::default();
    estimator.take(&world.exchange(1_000, 10, 0, 90_000));
    estimator.take(&world.exchange(101_000, 90_000, 0, 10));
    let estimate = estimator.estimate(NodeTime(191_010)).unwrap();
    // Alone each would give 45 us. Together: the quick way of each, and 200 ppm of 190 us and of 90 us, rounded up.
    assert_eq!(estimate.bound, Nanos((10 + 39 + 10 + 19) / 2));
    assert_eq!(estimate.rtt, Nanos(90_010));
}

#[test]
fn stamps_of_no_world_are_ignored() {
    let mut estimator = ClockEstimator::default();
    let good = World { offset: 5_000, ppm: 0 }.exchange(1_000, 10, 10, 10);
    let bad = [
        Exchange { came: NodeTime(999), ..good },
        Exchange { echoed: FabricTime(good.received.0 - 1), ..good },
        // It came back sooner than the service says to have held it.
        Exchange { echoed: FabricTime(good.echoed.0 + 1_000), ..good },
    ];
    for stamps in bad {
        assert_eq!(estimator.take(&stamps), Taken::Impossible, "{stamps:?}");
    }
    let extremes = Exchange { sent: NodeTime(0), received: FabricTime(u64::MAX), echoed: FabricTime(u64::MAX), came: NodeTime(u64::MAX) };
    estimator.take(&extremes);
    let _ = estimator.estimate(NodeTime(0));
}

#[test]
fn a_single_liar_widens_the_bound_until_the_next_good_sample() {
    let world = World { offset: 50 * i128::from(MS), ppm: 0 };
    let mut estimator = ClockEstimator::default();
    estimator.take(&world.exchange(1_000, 100, 0, 100));
    let before = estimator.estimate(NodeTime(2 * MS)).unwrap().bound;
    let liar = World { offset: 70 * i128::from(MS), ppm: 0 };
    assert_eq!(estimator.take(&liar.exchange(2 * MS, 100, 0, 100)), Taken::Contradicts);
    assert!(estimator.estimate(NodeTime(2 * MS)).unwrap().bound > Nanos(9 * MS));
    holds(&estimator, world, 2 * MS).unwrap();
    assert_eq!(estimator.take(&world.exchange(3 * MS, 100, 0, 100)), Taken::Agrees);
    assert!(estimator.estimate(NodeTime(3 * MS)).unwrap().bound < Nanos(before.0 + 1_000));
}

#[test]
fn the_window_forgets_and_stays_small() {
    let world = World { offset: 0, ppm: 0 };
    let mut estimator = ClockEstimator::default();
    estimator.take(&world.exchange(0, 1, 0, 1));
    for i in 1..500 {
        estimator.take(&world.exchange(i * 100 * MS, 5_000, 0, 5_000));
    }
    assert_eq!(estimator.samples.len(), SAMPLES_MAX);
    estimator.take(&world.exchange(500 * 100 * MS + 2 * WINDOW.0, 7_000, 0, 7_000));
    // The youngest of the old ones stays, so that one liar after a silence is still contradicted.
    assert_eq!(estimator.samples.len(), 2);
    estimator.take(&world.exchange(500 * 100 * MS + 2 * WINDOW.0 + MS, 7_000, 0, 7_000));
    assert_eq!(estimator.samples.len(), 2);
    assert_eq!(estimator.estimate(NodeTime(500 * 100 * MS + 2 * WINDOW.0 + 2 * MS)).unwrap().rtt, Nanos(14_000));
}

/// Gap to the next probe, way there, hold, way back.
fn exchanges() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
    // Mostly short ways, sometimes very asymmetric ones.
    let way = prop_oneof![4 => 1_000..50_000_u64, 2 => 50_000..5 * MS, 1 => 5 * MS..500 * MS];
    prop::collection::vec((MS..2_000 * MS, way.clone(), 0..10 * MS, way), 1..120)
}

proptest! {
    #[test]
    fn the_true_offset_is_always_within_the_bound(
        offset in -1_000_000_000_i128..2_000_000_000_000_000_000,
        ppm in -(DRIFT_PPM_MAX as i128)..=DRIFT_PPM_MAX as i128,
        exchanges in exchanges(),
        wait in 0..5_000 * MS,
    ) {
        let world = World { offset, ppm };
        let mut estimator = ClockEstimator::default();
        let mut now = 10_000 * MS;
        for (gap, there, held, back) in exchanges {
            now += gap;
            let stamps = world.exchange(now, there, held, back);
            prop_assert_eq!(estimator.take(&stamps), Taken::Agrees);
            now = stamps.came.0;
            prop_assert!(holds(&estimator, world, now).is_ok(), "{:?}", holds(&estimator, world, now));
            // Never worse than this round trip alone, with drift since its probe.
            let rtt = (stamps.came.0 - stamps.sent.0).saturating_sub(stamps.echoed.0 - stamps.received.0);
            let alone = rtt.div_ceil(2) + (stamps.came.0 - stamps.sent.0) / 5_000 + 2;
            prop_assert!(estimator.estimate(stamps.came).unwrap().bound.0 <= alone);
        }
        prop_assert!(holds(&estimator, world, now + wait).is_ok());
        let published = estimator.estimate(NodeTime(now)).unwrap();
        let error = (i128::from(published.offset.0) - world.true_offset(now + wait)).unsigned_abs();
        prop_assert!(error <= u128::from(published.bound_at(NodeTime(now + wait)).0) + 1);
    }

    #[test]
    fn a_step_is_covered_from_its_first_sample_and_then_learned(
        step in prop_oneof![200 * MS as i128..3_600_000 * MS as i128, -3_600_000 * (MS as i128)..-200 * (MS as i128)],
        before in 1..40_usize,
        ways in prop::collection::vec((1_000..5 * MS, 1_000..5 * MS), 60),
    ) {
        let old = World { offset: 5_000_000 * i128::from(MS), ppm: 0 };
        let new = World { offset: old.offset + step, ppm: 0 };
        let mut estimator = ClockEstimator::default();
        let mut now = 10_000 * MS;
        for (i, (there, back)) in ways.into_iter().enumerate() {
            now += 1_000 * MS;
            let world = if i < before { old } else { new };
            let stamps = world.exchange(now, there, 0, back);
            let taken = estimator.take(&stamps);
            let expected = match i.checked_sub(before) {
                Some(after) if after + 1 < STEP_SAMPLES => Taken::Contradicts,
                Some(after) if after + 1 == STEP_SAMPLES => Taken::Restarted,
                _ => Taken::Agrees,
            };
            prop_assert_eq!(taken, expected);
            prop_assert!(holds(&estimator, world, stamps.came.0).is_ok(), "{:?}", holds(&estimator, world, stamps.came.0));
        }
        let bound = estimator.estimate(NodeTime(now)).unwrap().bound;
        prop_assert!(bound < Nanos(20 * MS), "{:?}", bound);
    }

    #[test]
    fn any_stamps_are_survived(stamps in prop::collection::vec(any::<(u64, u64, u64, u64)>(), 0..50), now in any::<u64>()) {
        let mut estimator = ClockEstimator::default();
        for (sent, received, echoed, came) in stamps {
            estimator.take(&Exchange { sent: NodeTime(sent), received: FabricTime(received), echoed: FabricTime(echoed), came: NodeTime(came) });
            let _ = estimator.estimate(NodeTime(now));
        }
    }
}
