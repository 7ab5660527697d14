//! What a kernel measured beside the simulator: the same cases, played in the testbed that also plays the meetings of jobs in traces. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    hold::{Baseline, Hold},
    report::{LinkRow, Report, Runs, columns},
};

/// How far an iteration may be off, as a share of the kernel's.
const TIME_WITHIN: f64 = 0.05;
/// How many times as many marks there may be, or as few.
const MARKS_FACTOR: f64 = 2.0;

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the numbers mean.
    pub schema: &'static str,
    /// Iterations of each job in each run that both played.
    pub iterations: Vec<IterationRow>,
    /// Marks of each set of jobs that share links.
    pub marks: Vec<MarksRow>,
}

/// A job in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IterationRow {
    /// The case.
    pub case: String,
    /// The job.
    pub job: String,
    /// The run.
    pub run: &'static str,
    /// Mean iteration on the kernel and simulated, medians over the repeats, in ms.
    pub kernel_ms: f64,
    /// See `kernel_ms`.
    pub simulated_ms: f64,
    /// Whether they are as near as they should be; `None` where nothing is promised.
    pub near: Option<bool>,
}

/// ECN marks of jobs that share links, as they come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarksRow {
    /// The case.
    pub case: String,
    /// The jobs.
    pub jobs: Vec<String>,
    /// Marks per iteration of a job, on that of their links that has the most.
    pub kernel: f64,
    /// The same simulated.
    pub simulated: f64,
    /// Whether they are as near as they should be.
    pub near: bool,
}

impl Comparison {
    /// Compares the results of cases, each with the same case in virtual time.
    #[must_use]
    pub fn of(pairs: &[(Report, Report)]) -> Self {
        let iterations = pairs.iter().flat_map(|(kernel, simulated)| iterations(kernel, simulated)).collect();
        let marks = pairs.iter().flat_map(|(kernel, simulated)| marks(kernel, simulated)).collect();
        Self { schema: "antiphase.lab-comparison/v1", iterations, marks }
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let head = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let far = |near: Option<bool>| if near == Some(false) { "far".to_owned() } else { String::new() };
        let mut out = String::new();
        let mut rows = vec![head(&["case", "job", "run", "kernel ms", "simulated ms", "simulated / kernel", ""])];
        rows.extend(self.iterations.iter().map(|row| {
            let ratio = row.simulated_ms / row.kernel_ms;
            let numbers = [format!("{:.1}", row.kernel_ms), format!("{:.1}", row.simulated_ms), format!("{ratio:.3}"), far(row.near)];
            [row.case.clone(), row.job.clone(), row.run.to_owned()].into_iter().chain(numbers).collect()
        }));
        columns(&mut out, &rows);
        out.push('\n');
        let mut rows = vec![head(&["case", "jobs", "kernel marks", "simulated marks", ""])];
        rows.extend(self.marks.iter().map(|row| {
            vec![row.case.clone(), row.jobs.join(" "), format!("{:.2}", row.kernel), format!("{:.2}", row.simulated), far(Some(row.near))]
        }));
        columns(&mut out, &rows);
        let judged = self.iterations.iter().filter_map(|row| row.near);
        let (near, all) = (judged.clone().filter(|near| *near).count(), judged.count());
        let marks = self.marks.iter().filter(|row| row.near).count();
        out + &format!(
            "\n{near} of {all} iteration times within {:.0} %; {marks} of {} marks within a factor of {MARKS_FACTOR:.0}, as they come\n",
            TIME_WITHIN * 100.0,
            self.marks.len()
        )
    }
}

/// The runs of a report, by what holds the jobs in them.
fn runs(runs: &Runs, held_by: Hold) -> Vec<(&'static str, f64)> {
    let beside = runs.beside.iter().map(|(baseline, spread)| (baseline.word(), spread.median));
    [("alone", runs.solo.median), ("as they come", runs.contended.median)]
        .into_iter()
        .chain(beside)
        .chain([(held_by.word(), runs.held.median)])
        .collect()
}

fn iterations(kernel: &Report, simulated: &Report) -> Vec<IterationRow> {
    let mut rows = Vec::new();
    for (seen, other) in kernel.jobs.iter().zip(&simulated.jobs) {
        let there: BTreeMap<&str, f64> = runs(&other.mean_ms, simulated.held_by).into_iter().collect();
        for (run, kernel_ms) in runs(&seen.mean_ms, kernel.held_by) {
            let Some(&simulated_ms) = there.get(run) else { continue };
            // How fast MLTCP slides jobs apart depends on a window's growth, which a fluid model has not.
            let near = (run != Baseline::Mltcp.word()).then_some((simulated_ms / kernel_ms - 1.0).abs() <= TIME_WITHIN);
            rows.push(IterationRow { case: kernel.case.clone(), job: seen.id.clone(), run, kernel_ms, simulated_ms, near });
        }
    }
    rows
}

fn marks(kernel: &Report, simulated: &Report) -> Vec<MarksRow> {
    // Traffic that one link has shaped makes no queue on the next, which the model does not know: of the links of the same jobs, those with
    // the most marks are compared.
    let most = |links: &[LinkRow]| {
        let mut most: BTreeMap<Vec<String>, f64> = BTreeMap::new();
        for link in links.iter().filter(|link| link.shared) {
            let marks = most.entry(link.jobs.clone()).or_default();
            *marks = marks.max(link.marks_per_iteration.contended.median);
        }
        most
    };
    let (seen, there) = (most(&kernel.links), most(&simulated.links));
    let row = |(jobs, kernel_marks): (Vec<String>, f64)| {
        let marks = *there.get(&jobs)?;
        let near = marks <= MARKS_FACTOR * kernel_marks && kernel_marks <= MARKS_FACTOR * marks;
        Some(MarksRow { case: kernel.case.clone(), jobs, kernel: kernel_marks, simulated: marks, near })
    };
    seen.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        case::{Case, builtin},
        virtual_time,
    };

    /// A case beside itself is near everywhere; one whose times and marks are others says which.
    #[test]
    fn what_is_too_far_apart_is_said() {
        let case = Case::read(builtin("two-equal").unwrap(), &|_| Err("no files".into())).unwrap();
        let simulated = virtual_time::run(&case, 2, 30, (Hold::Turns, &[Baseline::Slots, Baseline::Mltcp])).unwrap();
        let same = Comparison::of(&[(simulated.clone(), simulated.clone())]);
        assert_eq!(same.iterations.len(), 2 * 5);
        assert!(same.iterations.iter().all(|row| row.near != Some(false) && row.kernel_ms == row.simulated_ms));
        assert!(same.marks.len() == 1 && same.marks[0].near && same.marks[0].kernel > 1.0, "{:?}", same.marks);
        assert!(same.table().ends_with("\n8 of 8 iteration times within 5 %; 1 of 1 marks within a factor of 2, as they come\n"));
        let mut kernel = simulated.clone();
        kernel.jobs[1].mean_ms.held.median *= 1.06;
        kernel.jobs[0].mean_ms.solo.median *= 1.04;
        kernel.links.iter_mut().for_each(|link| link.marks_per_iteration.contended.median *= 2.1);
        let other = Comparison::of(&[(kernel, simulated)]);
        let far: Vec<_> = other.iterations.iter().filter(|row| row.near == Some(false)).map(|row| (row.job.as_str(), row.run)).collect();
        assert_eq!((far, other.marks[0].near), (vec![("b", "turns")], false));
        assert!(other.table().contains("far"));
    }

    /// Slots that held the jobs on the kernel are compared with slots, whatever held them in virtual time.
    #[test]
    fn runs_are_compared_by_what_held_the_jobs() {
        let case = Case::read(builtin("two-equal").unwrap(), &|_| Err("no files".into())).unwrap();
        let run = |hold, beside: &[Baseline]| virtual_time::run(&case, 1, 20, (hold, beside)).unwrap();
        let pair = (run(Hold::Slots, &[]), run(Hold::Turns, &[Baseline::Slots]));
        let runs: Vec<&str> = Comparison::of(&[pair]).iterations.iter().take(3).map(|row| row.run).collect();
        assert_eq!(runs, ["alone", "as they come", "slots"]);
    }
}
