//! Who takes turns with whom, in random mixes: judged by seeds that chose nothing.
//!
//! `cargo run --release -p antiphase-plan --example turns_mixes` prints the same for more mixes.

mod mixes;

use antiphase_plan::turns::{SLOWER_MAX, TRIED_RANKING};
use mixes::{Judged, SETTINGS, judge};

/// Mixes of each setting.
const SEEDS: u64 = 3;
/// Larger mixes take too long for a test; the example has them.
const JOBS_MAX: usize = 8;

#[test]
fn chosen_turns_are_never_slower_than_free_nor_than_slots() {
    let (mut gained, mut harmed) = (0, 0);
    for setting in SETTINGS.iter().filter(|s| s.jobs <= JOBS_MAX) {
        let all: Vec<Judged> = (101..101 + SEEDS).map(|seed| judge(setting, seed, TRIED_RANKING)).collect();
        let mean = |of: &dyn Fn(&Judged) -> f64| all.iter().map(of).sum::<f64>() / SEEDS as f64;
        let (free, chosen, slots) = (mean(&|j| j.free.mean), mean(&|j| j.chosen.mean), mean(&|j| j.slots.mean));
        assert!(chosen <= free && chosen <= slots, "{}: chosen {chosen}, free {free}, slots {slots}", setting.name);
        for (seed, judged) in (101..).zip(&all) {
            let Judged { free, chosen, everybody, quiet, pairs, .. } = judged;
            let fair = chosen.mean <= free.mean * (1.0 + SLOWER_MAX) && chosen.worst <= free.worst * (1.0 + SLOWER_MAX);
            assert!(fair && chosen.slower <= 1.0 + SLOWER_MAX, "{} {seed}: {judged:?}", setting.name);
            assert!(pairs.0 <= pairs.1 && chosen.overlap <= free.overlap + 0.01, "{} {seed}: {judged:?}", setting.name);
            assert!(quiet.is_none_or(|q| q.overlap < chosen.overlap), "{} {seed}: {judged:?}", setting.name);
            harmed += u32::from(everybody.slower > 1.05);
        }
        gained += u32::from(free - chosen > 0.01);
    }
    // What the test is for: turns that are chosen bring something in most settings, and turns for everybody harm in many mixes.
    assert!(gained >= 5 && harmed >= 5, "{gained} {harmed}");
}
