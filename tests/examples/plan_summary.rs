//! Sums up rounds of `antiphase plan -o json`, for scripts/real-input.sh.
//!
//! `plan_summary LABEL FOLDER...`: each folder holds one round as `exact.json`, `time.json` and `cassini.json`; prints one row
//! per table with the means over the rounds. `plan_summary --headings TABLE` prints the headings.
#![allow(clippy::unwrap_used, reason = "a program for our own documents: a panic names what is missing")]

use std::{env, fs, path::Path};

use serde_json::Value;

/// Contended links and loops, scores, iteration times: one table each.
const HEADINGS: [&str; 3] = [
    "setting               shared  quiet  contended  jobs  lockable  loops  with loop  discarded",
    "setting              unshifted    worst     mean     best  best, unshifted  paper's pick  not proven  exact ms  paper ms",
    "setting                blind  blind, held  paper's  by score  by time  by score, all held  slowest  slowest, held",
];

/// Numbers of one round, in the order of the three tables.
struct Round(Vec<Vec<f64>>);

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "--headings") {
        println!("{}", HEADINGS[args[1].parse::<usize>().unwrap() - 1]);
        return;
    }
    let (table, label) = (args[0].parse::<usize>().unwrap() - 1, &args[1]);
    let rounds: Vec<Round> = args[2..].iter().map(|folder| round(Path::new(folder))).collect();
    let columns = rounds[0].0[table].len();
    // Where the paper's method discards every candidate it has no pick; its means are over the other rounds.
    let mean = |c: usize| mean(rounds.iter().map(|r| r.0[table][c]).filter(|v| !v.is_nan()));
    let widths: [(&[usize], &[usize]); 3] = [
        (&[7, 6, 10, 5, 9, 6, 10, 10], &[0, 0, 0, 0, 2, 1, 1, 1]),
        (&[9, 8, 8, 8, 16, 13, 11, 9, 9], &[4, 4, 4, 4, 4, 4, 1, 1, 1]),
        (&[7, 12, 8, 9, 8, 19, 8, 14], &[3, 3, 3, 3, 3, 3, 3, 3]),
    ];
    let (widths, decimals) = widths[table];
    let cells = (0..columns).map(|c| {
        let value = mean(c);
        if value.is_nan() { format!("{:>w$}", "-", w = widths[c]) } else { format!("{value:>w$.d$}", w = widths[c], d = decimals[c]) }
    });
    println!("{label:20} {}", cells.collect::<Vec<_>>().join(" "));
}

fn read(folder: &Path, name: &str) -> Value {
    let file = folder.join(name);
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn candidates(plan: &Value) -> &[Value] {
    plan["candidates"].as_array().unwrap()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(s, n), v| (s + v, n + 1));
    sum / f64::from(count)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number {key:?} in {value:.60}"))
}

fn time(candidate: &Value, of: &str) -> f64 {
    candidate["relative_time"][of].as_f64().unwrap_or(f64::NAN)
}

fn round(folder: &Path) -> Round {
    let (exact, by_time, paper) = (read(folder, "exact.json"), read(folder, "time.json"), read(folder, "cassini.json"));
    let all = candidates(&exact);
    let solved: Vec<&Value> = candidates(&paper).iter().filter(|c| c["outcome"] == "solved").collect();
    let best = &all[0];
    let worst = all.last().unwrap();
    let contended = |c: &Value| number(c, "shared_links") - number(c, "never_overloaded_links");
    let graph = vec![
        mean(all.iter().map(|c| number(c, "shared_links"))),
        mean(all.iter().map(|c| number(c, "never_overloaded_links"))),
        mean(all.iter().map(contended)),
        mean(all.iter().map(|c| contended_jobs(c).count() as f64)),
        // A candidate without contended jobs says nothing about them.
        mean(all.iter().map(lockable).filter(|share| !share.is_nan())),
        mean(all.iter().map(|c| number(c, "loops"))),
        all.iter().filter(|c| number(c, "loops") > 0.0).count() as f64,
        (all.len() - solved.len()) as f64,
    ];
    // Where all are discarded the paper's method has no pick.
    let pick = solved.first().map(|c| all.iter().find(|a| a["id"] == c["id"]).unwrap());
    let scores = vec![
        mean(all.iter().map(|c| number(c, "zero_shift_mean_score"))),
        number(worst, "mean_score"),
        mean(all.iter().map(|c| number(c, "mean_score"))),
        number(best, "mean_score"),
        number(best, "zero_shift_mean_score"),
        pick.map_or(f64::NAN, |c| number(c, "mean_score")),
        all.iter().filter(|c| c["proven"] == false).count() as f64,
        number(&exact, "elapsed_us") / 1e3,
        number(&paper, "elapsed_us") / 1e3,
    ];
    let times = vec![
        mean(all.iter().map(|c| time(c, "contended"))),
        mean(all.iter().map(|c| time(c, "interleaved"))),
        // The paper shifts every job of its pick.
        solved.first().map_or(f64::NAN, |c| time(c, "all_held")),
        time(best, "interleaved"),
        time(&candidates(&by_time)[0], "interleaved"),
        time(best, "all_held"),
        slowest(best, |_| "contended_ns"),
        slowest(best, |_| "interleaved_ns"),
    ];
    Round(vec![graph, scores, times])
}

/// Share of the contended jobs whose shift matters modulo at least a tenth of their period.
fn lockable(candidate: &Value) -> f64 {
    mean(contended_jobs(candidate).map(|j| f64::from(u8::from(number(j, "lock_ns") * 10.0 >= number(j, "period_ns")))))
}

fn contended_jobs(candidate: &Value) -> impl Iterator<Item = &Value> {
    candidate["jobs"].as_array().unwrap().iter().filter(|j| j["meets_others"] == true)
}

/// The largest iteration over period among the jobs.
fn slowest(candidate: &Value, of: impl Fn(&Value) -> &'static str) -> f64 {
    let jobs = candidate["jobs"].as_array().unwrap();
    jobs.iter().map(|j| number(j, of(j)) / number(j, "period_ns")).fold(0.0, f64::max)
}
