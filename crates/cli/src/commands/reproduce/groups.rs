//! Groups of jobs, and what somebody else computed of them.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use policy::muri::{GROUP_MAX, Interleaving, Order, Profile, Stages, Timing, artifact_orders, efficiency, measured};
use units::Lines;

use crate::{
    input::{CliError, read_document},
    output::print,
    rows::{line, unequal},
};

/// By how much a value may differ, as a share of it.
const TOLERANCE: f64 = 1e-6;

/// Most lines about rows that differ; the count at the end is of all.
const DIFFERENCES_MAX: usize = 1_000;

/// Columns, in the order in which [`Row::read`] asks for them. The last may have an explanation behind its name.
const COLUMNS: [&str; 10] = [
    "num_gpu",
    "k",
    "models",
    "T_best_raw_ms",
    "T_best_with_group_overhead_ms",
    "T_worst_with_group_overhead_ms",
    "gamma_best",
    "sum_norm_throughput",
    "autopack_would_unpack",
    "best_slot_order",
];

/// Columns of [`COLUMNS`] that hold numbers to compare, and how many there are.
const NUMBERS: std::ops::Range<usize> = 3..8;

/// Milliseconds in a second.
const MS: f64 = 1_000.0;

/// Compares every row of the file: exit code 0 when all agree, 1 when any differs.
pub(super) fn run(file: &Path) -> Result<ExitCode, CliError> {
    let text = read_document(file)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut lines = Lines::new(&text);
    let bad = |line: u64, problem: String| CliError::input(file, format!("line {line}: {problem}"));
    let header = reader.headers().map_err(|e| bad(1, e.to_string()))?.clone();
    let mut places = [0; COLUMNS.len()];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place = column(&header, name).map_err(|problem| bad(lines.line_of(0), problem))?;
    }
    let (mut rows, mut differing, mut out) = (0_usize, 0_usize, String::new());
    for record in reader.records() {
        let record = record.map_err(|e| bad(line(e.position(), &mut lines), unequal(&e)))?;
        let line = line(record.position(), &mut lines);
        let fields = places.map(|place| record.get(place).unwrap_or_default());
        let row = Row::read(&fields).map_err(|problem| bad(line, problem))?;
        let found = row.differences();
        rows += 1;
        if !found.is_empty() {
            differing += 1;
            if differing <= DIFFERENCES_MAX {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "line {line}: {} on {} GPUs: {}", fields[2], fields[0], found.join("; "));
            }
        }
    }
    if rows == 0 {
        return Err(CliError::input(file, "no groups; a comparison of nothing proves nothing"));
    }
    let _ = write!(out, "{rows} groups compared, {differing} differ");
    print(&out)?;
    Ok(if differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where a column stands. It must stand there once: nobody knows which of two is meant.
fn column(header: &csv::StringRecord, name: &str) -> Result<usize, String> {
    let is_it = |column: &str| column == name || column.strip_prefix(name).is_some_and(|rest| rest.starts_with('('));
    let mut found = header.iter().enumerate().filter(|(_, column)| is_it(column)).map(|(place, _)| place);
    match (found.next(), found.next()) {
        (None, _) => Err(format!("no column {name:?}")),
        (Some(place), None) => Ok(place),
        (Some(_), Some(_)) => Err(format!("column {name:?} stands twice")),
    }
}

/// A group and what is claimed of it.
struct Row<'a> {
    members: Vec<Profile>,
    /// The fields of [`NUMBERS`] as written, with their values.
    claimed: Vec<(&'a str, f64)>,
    unpack: bool,
    slots: &'a str,
}

impl<'a> Row<'a> {
    fn read(fields: &[&'a str; COLUMNS.len()]) -> Result<Self, String> {
        let whole = |at: usize| fields[at].parse::<u32>().map_err(|_| format!("{} {:?} is not a whole number", COLUMNS[at], fields[at]));
        let (gpus, k) = (whole(0)?, whole(1)?);
        let names: Vec<&str> = fields[2].split('+').collect();
        // A group of one is no group, and the count must be that of the names.
        if names.len() != k as usize || !(2..=GROUP_MAX).contains(&names.len()) {
            return Err(format!("models {:?}: {} names, k is {k}; a group has 2 to {GROUP_MAX}", fields[2], names.len()));
        }
        let members = names.iter().map(|name| {
            let model = measured(name).ok_or_else(|| format!("models: unknown model {name:?}"))?;
            model.profile(gpus).ok_or_else(|| format!("num_gpu {gpus}: model {name:?} was not measured on that many"))
        });
        let members = members.collect::<Result<_, String>>()?;
        let claimed = NUMBERS.map(|at| match fields[at].parse::<f64>() {
            Ok(value) if value.is_finite() => Ok((fields[at], value)),
            _ => Err(format!("{} {:?} is not a number", COLUMNS[at], fields[at])),
        });
        let claimed = claimed.collect::<Result<_, String>>()?;
        let unpack = match fields[8] {
            "0" => false,
            "1" => true,
            other => return Err(format!("{} {other:?} is neither 0 nor 1", COLUMNS[8])),
        };
        Ok(Self { members, claimed, unpack, slots: fields[9] })
    }

    /// What differs from what this program computes.
    fn differences(&self) -> Vec<String> {
        let timing = Timing::Artifact;
        let stages: Vec<Stages> = self.members.iter().map(|m| m.stages).collect();
        let (best, worst) = (timing.interleave(&stages, Order::Best), timing.interleave(&stages, Order::Worst));
        let sharing = timing.sharing(stages.len());
        let iteration = best.period_s * sharing;
        let alone: Vec<f64> = self.members.iter().map(|m| timing.alone_s(m.iteration_s)).collect();
        let throughput = alone.iter().map(|alone| alone / iteration).sum();
        let ours = [best.period_s * MS, iteration * MS, worst.period_s * sharing * MS, efficiency(&stages, iteration), throughput];
        let mut found = Vec::new();
        for ((at, ours), (text, claimed)) in NUMBERS.zip(ours).zip(&self.claimed) {
            // A value that was written with few digits may differ by half of its last one.
            if (ours - claimed).abs() > (TOLERANCE * claimed.abs()).max(0.5 * last_digit(text) * (1.0 + TOLERANCE)) {
                found.push(format!("{} {text}, computed {ours:.6}", COLUMNS[at]));
            }
        }
        let unpack = iteration > alone.iter().sum::<f64>();
        if unpack != self.unpack {
            found.push(format!("{} {}, computed {}", COLUMNS[8], u8::from(self.unpack), u8::from(unpack)));
        }
        // Members that are alike may change places, and other orders may be as good: each that reaches the same is a best one.
        let as_good = |tried: &Interleaving| (tried.period_s - best.period_s).abs() <= TOLERANCE * best.period_s;
        if !artifact_orders(&stages).filter(as_good).any(|tried| written(&tried) == self.slots) {
            found.push(format!("{} {:?}, computed {:?}", COLUMNS[9], self.slots, written(&best)));
        }
        found
    }
}

/// The members by slot; empty slots at the end are left out.
fn written(group: &Interleaving) -> String {
    let slots = group.slots.map(|slot| slot.map_or("-".into(), |member| member.to_string())).join("/");
    slots.trim_end_matches("/-").to_owned()
}

/// The value of the last digit of a number as written: 0.01 for "1.25". A zero has no digit that an exponent could make larger.
fn last_digit(text: &str) -> f64 {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let exponent = text.split_once(['e', 'E']).and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    let zero = !mantissa.contains(|digit: char| matches!(digit, '1'..='9'));
    let exponent = if zero { exponent.min(0) } else { exponent };
    10_f64.powi(exponent.saturating_sub(i32::try_from(decimals).unwrap_or(i32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_digit_of_a_number_is_what_it_is_written_with() {
        assert_eq!([last_digit("542.000000"), last_digit("7"), last_digit("1.25"), last_digit("1.5e2")], [1e-6, 1.0, 0.01, 10.0]);
        // A zero with an exponent passed for anything up to half a billion.
        assert_eq!([last_digit("0e9"), last_digit("0.0E+5"), last_digit("0e-3")], [1.0, 0.1, 1e-3]);
    }
}
