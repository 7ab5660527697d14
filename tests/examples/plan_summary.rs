//! Sums up rounds of `antiphase plan -o json`, for scripts/real-input.sh.
//!
//! `plan_summary TABLE LABEL FOLDER...`: each folder holds one round as `exact.json`, `time.json`, `cassini.json` and `turns.json`;
//! prints one row of that table with the means over the rounds. `plan_summary --headings TABLE` prints the headings.
#![allow(clippy::unwrap_used, reason = "a program for our own documents: a panic names what is missing")]

use std::{env, fs, path::Path};

use serde_json::Value;

/// Contended links and loops, scores, iteration times, times by turns: one table each.
const HEADINGS: [&str; 4] = [
    "setting               shared  quiet  contended  jobs  lockable  loops  with loop  discarded",
    "setting              unshifted    worst     mean     best  best, unshifted  paper's pick  not proven  exact ms  paper ms",
    "setting                blind  blind, held  paper's  by score  by time  by score, all held  slowest  slowest, held",
    "setting               free   slots   turns  won back    best: free   slots   turns  won back   slowest: free   slots   turns  slower",
];
/// The table by turns.
const BY_TURNS: usize = 3;
/// Of its columns: what turns win back of the loss without a choice of placement and with the best one, and the worst that a job of
/// any candidate is slower by turns than free.
const WON_BACK: [usize; 2] = [3, 7];
const SLOWER: usize = 11;

/// Numbers of one round, in the order of the tables.
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
    let of = |c: usize| rounds.iter().map(move |r| r.0[table][c]).filter(|v| !v.is_nan());
    let value = |c: usize| match c {
        // A share of the loss that all rounds have: a mean of shares would count a round without loss like the others.
        _ if table == BY_TURNS && WON_BACK.contains(&c) => 1.0 - (mean(of(c - 1)) - 1.0) / (mean(of(WON_BACK[0] - 3)) - 1.0),
        SLOWER if table == BY_TURNS => of(c).fold(0.0, f64::max),
        _ => mean(of(c)),
    };
    let widths: [(&[usize], &[usize]); 4] = [
        (&[7, 6, 10, 5, 9, 6, 10, 10], &[0, 0, 0, 0, 2, 1, 1, 1]),
        (&[9, 8, 8, 8, 16, 13, 11, 9, 9], &[4, 4, 4, 4, 4, 4, 1, 1, 1]),
        (&[7, 12, 8, 9, 8, 19, 8, 14], &[3, 3, 3, 3, 3, 3, 3, 3]),
        (&[6, 7, 7, 9, 13, 7, 7, 9, 15, 7, 7, 7], &[4, 4, 4, 2, 4, 4, 4, 2, 3, 3, 3, 3]),
    ];
    let (widths, decimals) = widths[table];
    let cells = (0..columns).map(|c| {
        let value = value(c);
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
    Round(vec![graph, scores, times, by_turns(&read(folder, "turns.json"))])
}

/// Free, by slots and by turns, which come of the same runs: any candidate, the best one of each, and the slowest job by turns.
fn by_turns(plan: &Value) -> Vec<f64> {
    const WAYS: [(&str, &str); 3] = [("free", "free_ns"), ("by_slots", "by_slots_ns"), ("by_turns", "by_turns_ns")];
    let all = candidates(plan);
    // Filled in over the rounds.
    let won_back = 0.0;
    let slower = all.iter().flat_map(|c| c["jobs"].as_array().unwrap()).map(|j| number(j, "by_turns_ns") / number(j, "free_ns"));
    let any = WAYS.map(|(way, _)| mean(all.iter().map(|c| time(c, way))));
    let best = WAYS.map(|(way, _)| all.iter().map(|c| time(c, way)).fold(f64::INFINITY, f64::min));
    let slowest = WAYS.map(|(_, ns)| slowest(&all[0], |_| ns));
    [&any[..], &[won_back], &best, &[won_back], &slowest, &[slower.fold(0.0, f64::max)]].concat()
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
