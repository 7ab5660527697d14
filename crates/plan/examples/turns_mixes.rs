//! Random mixes of jobs: as they come, by slots, by turns for everybody, and by the turns that are chosen.
//!
//! ```text
//! cargo run --release -p antiphase-plan --example turns_mixes -- [SEEDS [TRIED_MAX]]
//! ```
//! Prints for each setting, over the seeds, the mean of iteration over iteration alone, and in parentheses the mean over the mixes of the
//! worst job; the share of time above capacity; and the worst that any job of any mix is slower by turns than free. Choices
//! are judged by seeds that they were not made with. As many are tried as commits try, unless TRIED_MAX says otherwise. It fails where
//! in a setting what was chosen is slower than free or than slots, or a job of a mix more than 1 % slower than free.

#[path = "../tests/mixes/mod.rs"]
mod mixes;

use std::time::Instant;

use antiphase_plan::turns::{SLOWER_MAX, TRIED_RANKING};
use mixes::{Cost, Judged, SETTINGS, judge};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |n: usize, default: usize| std::env::args().nth(n).map_or(Ok(default), |s| s.parse());
    let (seeds, tried) = (number(1, 20)?, number(2, TRIED_RANKING)?);
    println!("{seeds} mixes each; mean (worst job)\n");
    println!(
        "{:<16}{:>16}{:>16}{:>16}{:>16}   {:<20}{:>8}{:>8}{:>8}{:>9}",
        "setting", "free", "slots", "everybody", "chosen", "above capacity", "pairs", "slower", "quiet", "s a mix"
    );
    let mut wrong = Vec::new();
    for setting in &SETTINGS {
        let begun = Instant::now();
        let all: Vec<Judged> = (1..=seeds as u64).map(|seed| judge(setting, seed, tried)).collect();
        let seconds = begun.elapsed().as_secs_f64() / seeds as f64;
        let mean = |of: &dyn Fn(&Judged) -> f64| all.iter().map(of).sum::<f64>() / seeds as f64;
        let column = |of: fn(&Judged) -> Cost| format!("{:.3} ({:.2})", mean(&|j| of(j).mean), mean(&|j| of(j).worst));
        let over = format!("{:.2} {:.2} {:.2}", mean(&|j| j.free.overlap), mean(&|j| j.everybody.overlap), mean(&|j| j.chosen.overlap));
        let pairs = all.iter().fold((0, 0), |(a, b), j| (a + j.pairs.0, b + j.pairs.1));
        let slower = all.iter().map(|j| j.chosen.slower).fold(0.0, f64::max);
        let [free, slots, chosen] = [mean(&|j| j.free.mean), mean(&|j| j.slots.mean), mean(&|j| j.chosen.mean)];
        if chosen > free || chosen > slots || slower > 1.0 + SLOWER_MAX {
            wrong.push(format!("{}: chosen {chosen:.4}, free {free:.4}, slots {slots:.4}, a job {slower:.4}", setting.name));
        }
        let quiet = all.iter().filter(|j| j.quiet.is_some()).count();
        println!(
            "{:<16}{:>16}{:>16}{:>16}{:>16}   {:<20}{:>8}{:>8.3}{:>8}{:>9.2}",
            setting.name,
            column(|j| j.free),
            column(|j| j.slots),
            column(|j| j.everybody),
            column(|j| j.chosen),
            over,
            format!("{}/{}", pairs.0, pairs.1),
            slower,
            quiet,
            seconds
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
