//! The result of an experiment, as a document and as tables.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{
    analysis::Spread,
    case::LabJob,
    control::GateTotals,
    hold::{Baseline, Baselines, Control, Hold},
    plan::JobPlan,
};

/// Schema of the document.
pub const REPORT_SCHEMA: &str = "antiphase.lab-report/v1";

/// One quantity in the runs, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    /// Each job alone.
    pub solo: Spread,
    /// All together, as they come, begun at the same moment.
    pub contended: Spread,
    /// All together, in the baselines that were played beside `held`.
    #[serde(flatten)]
    pub beside: Baselines<Spread>,
    /// All together, held by what was asked for ([`Report::held_by`]).
    pub held: Spread,
}

impl Runs {
    /// What was played, with the name of each run.
    #[must_use]
    pub fn named(&self, held_by: Hold) -> Vec<(&'static str, Spread)> {
        let beside = self.beside.iter().map(|(baseline, spread)| (baseline.about(), *spread));
        let held = if held_by == Hold::Turns { "held by turns" } else { "held to slots" };
        [("alone", self.solo), ("as they come", self.contended)].into_iter().chain(beside).chain([(held, self.held)]).collect()
    }
}

/// What the fluid model says of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Formula<T> {
    /// The measured solo iteration that the plan was made from, in ratio with the others'.
    pub solo: T,
    /// All together, as they come.
    pub contended: T,
    /// Held to slots.
    #[serde(default = "not_played", skip_serializing_if = "Option::is_none")]
    pub slots: Option<T>,
    /// Held by what was asked for.
    pub held: T,
}

fn not_played<T>() -> Option<T> {
    None
}

impl Formula<f64> {
    /// Of a job, in ms.
    pub(crate) fn of(plan: &JobPlan, held_by: Hold, with_slots: bool) -> Self {
        Self {
            solo: plan.solo.period.as_millis_f64(),
            contended: plan.contended.as_millis_f64(),
            slots: with_slots.then(|| plan.predicted(Hold::Slots).as_millis_f64()),
            held: plan.predicted(held_by).as_millis_f64(),
        }
    }
}

impl Formula<Spread> {
    /// Of several repeats, each with its own calibration.
    pub(crate) fn over(said: &[Formula<f64>]) -> Self {
        let spread = |of: fn(&Formula<f64>) -> f64| Spread::of(said.iter().map(of).collect());
        let slots: Vec<f64> = said.iter().filter_map(|f| f.slots).collect();
        let slots = (!slots.is_empty()).then(|| Spread::of(slots));
        Self { solo: spread(|f| f.solo), contended: spread(|f| f.contended), slots, held: spread(|f| f.held) }
    }
}

/// An Up phase of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpRow {
    /// When it starts, in ms from the start of the iteration.
    pub start_ms: f64,
    /// When it ends.
    pub end_ms: f64,
}

impl UpRow {
    /// Those of a job's profile.
    pub(crate) fn of(job: &LabJob, plan: &JobPlan) -> Vec<Self> {
        let (planned, _) = job.planned(&plan.solo);
        planned.phases.iter().map(|p| Self { start_ms: p.start.as_millis_f64(), end_ms: p.end.as_millis_f64() }).collect()
    }
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its id.
    pub id: String,
    /// Length of its Up phases together, as measured, in ms.
    pub up_ms: f64,
    /// Its Up phases as its profile has them.
    pub ups: Vec<UpRow>,
    /// Published period, in ms; this and the plan's other numbers are of the last repeat.
    pub period_ms: f64,
    /// Its time-shift, in ms.
    pub shift_ms: f64,
    /// Its slack, in ms.
    pub slack_ms: f64,
    /// Whether its gate held it.
    pub hold: bool,
    /// Mean iteration, in ms.
    pub mean_ms: Runs,
    /// Median iteration, in ms.
    pub median_ms: Runs,
    /// 99th percentile, in ms.
    pub p99_ms: Runs,
    /// 1 minus held mean over contended mean.
    pub gain: Spread,
    /// Share of its communication during which a job that it meets communicated too.
    pub overlap_contended: Spread,
    /// The same in the baselines beside `held`.
    #[serde(default)]
    pub overlap_beside: Baselines<Spread>,
    /// The same when held.
    pub overlap_held: Spread,
    /// What the fluid model expected, with its spread over the repeats, in ms.
    pub formula_ms: Formula<Spread>,
    /// What its gate did in the held run, over all repeats, warm-up included.
    pub gates: GateTotals,
    /// The same when held to slots beside that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates_slots: Option<GateTotals>,
}

/// One link between switches that carries data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRow {
    /// Its name.
    pub link: String,
    /// Capacity in Mbit/s.
    pub capacity_mbps: u64,
    /// The jobs on it.
    pub jobs: Vec<String>,
    /// Whether two or more jobs meet on it.
    pub shared: bool,
    /// Compatibility score under the plan's shifts.
    pub score: f64,
    /// The same without shifts; nothing where the jobs together cannot fill the link.
    #[serde(default)]
    pub zero_shift_score: Option<f64>,
    /// What the Up phase of each of `jobs` wants of it, in Mbit/s; empty where they cannot fill it together.
    #[serde(default)]
    pub demand_mbps: Vec<u64>,
    /// ECN marks set at this link, per iteration of a job on it.
    pub marks_per_iteration: Runs,
    /// What it carried in the mean, headers included, in Mbit/s; not counted in virtual time.
    pub carried_mbps_contended: Option<Spread>,
    /// The same when held.
    pub carried_mbps_held: Option<Spread>,
    /// Share of its jobs' communication during which another of them communicated too.
    pub overlap_contended: Spread,
    /// The same in the baselines beside `held`.
    #[serde(default)]
    pub overlap_beside: Baselines<Spread>,
    /// The same when held.
    pub overlap_held: Spread,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`REPORT_SCHEMA`].
    pub schema: String,
    /// Name of the case.
    pub case: String,
    /// One line on it.
    pub about: String,
    /// Who held the jobs.
    pub control: Control,
    /// What they were held by in the run `held`.
    pub held_by: Hold,
    /// Version of the PyTorch whose DistributedDataParallel trained; nothing for the lab's own ranks.
    #[serde(default)]
    pub torch: Option<String>,
    /// What its ranks communicated with: gloo or nccl.
    #[serde(default)]
    pub backend: Option<String>,
    /// How often it was done; spreads are over these.
    pub repeats: u32,
    /// Load average of the machine over a minute, before and after; nothing in virtual time.
    pub load: Option<[f64; 2]>,
    /// Mean compatibility score of the plan's shifts.
    pub score: f64,
    /// The same without shifts.
    pub zero_shift_score: f64,
    /// The jobs, in the order of the case.
    pub jobs: Vec<JobRow>,
    /// The links, in the order of the fabric.
    pub links: Vec<LinkRow>,
}

impl Report {
    /// What PyTorch's ranks communicated with. Documents from before there was a choice do not say, and mean gloo.
    pub(crate) fn over(&self) -> &str {
        self.backend.as_deref().unwrap_or("gloo")
    }

    /// The tables for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!("{}: {}\n", self.case, self.about);
        if let Some(torch) = &self.torch {
            let _ = writeln!(out, "trained by DistributedDataParallel of PyTorch {torch}, over {}", self.over());
        }
        let times = if self.repeats == 1 { "once".to_owned() } else { format!("{} times", self.repeats) };
        let place = match self.load {
            Some([before, after]) => format!("on a kernel with a load of {before:.1} to {after:.1}"),
            None => "in virtual time: the service and the gates as they are, on a simulated fabric".to_owned(),
        };
        let _ = writeln!(out, "score {:.3}, without shifts {:.3}; played {times} {place}", self.score, self.zero_shift_score);
        let _ = writeln!(out, "held by {}", self.held_by.word());
        for (baseline, _) in self.beside() {
            let _ = writeln!(out, "{}, in a run of its own: {}", baseline.word(), baseline.about());
        }
        out.push('\n');
        columns(&mut out, &self.job_rows());
        let formula = self.beside().any(|(baseline, _)| baseline == Baseline::Slots).then_some("slots");
        let names: Vec<&str> = ["solo", "contended"].into_iter().chain(formula).chain(["held"]).collect();
        let together: Vec<&str> = ["contended"].into_iter().chain(self.beside().map(|(b, _)| b.word())).chain(["held"]).collect();
        let together = together.join(" -> ");
        let counted = if self.held_by == Hold::Slots { "slips: starts that missed their slot" } else { "waits: starts that waited" };
        let _ = writeln!(
            out,
            "\niterations in ms: mean (least to most over the repeats); gain: held against contended; predicted: {}\n\
             overlap: share of the time in which it sends while another job of its links does, {together}; {counted}, of all\n",
            names.join(" / ")
        );
        columns(&mut out, &self.link_rows());
        let _ = writeln!(out, "\nmarks: ECN marks set at the link, per iteration of a job on it; overlap: of its jobs, {together}");
        out
    }

    /// The baselines that were played.
    fn beside(&self) -> impl Iterator<Item = (Baseline, &Spread)> {
        // All jobs are played alike.
        self.jobs.first().into_iter().flat_map(|job| job.mean_ms.beside.iter())
    }

    fn job_rows(&self) -> Vec<Vec<String>> {
        // Turns have no slot, so there is no period or shift to show.
        let slot = |name: &'static str| (self.held_by == Hold::Slots).then_some(name);
        let head = ["job", "solo", "contended"]
            .into_iter()
            .chain(self.beside().map(|(b, _)| b.word()))
            .chain(["held", "gain", "overlap", "is held"]);
        let tail = slot("period").into_iter().chain(slot("shift")).chain(slot("slips").or(Some("waits"))).chain(["predicted"]);
        let mut rows = vec![head.chain(tail).map(str::to_owned).collect::<Vec<_>>()];
        for job in &self.jobs {
            let means = &job.mean_ms;
            let mut row = vec![job.id.clone(), ms(means.solo), ms(means.contended)];
            row.extend(means.beside.iter().map(|(_, spread)| ms(*spread)));
            row.extend([ms(means.held), format!("{:.1} %", 100.0 * job.gain.median)]);
            row.extend([overlaps(job.overlap_contended, &job.overlap_beside, job.overlap_held)]);
            row.push(if job.hold { "yes".into() } else { "no".into() });
            // A slot of a job that is not held means nothing.
            let at = |ms: f64| if job.hold { format!("{ms:.1}") } else { unknown() };
            row.extend(slot("").into_iter().flat_map(|_| [at(job.period_ms), at(job.shift_ms)]));
            let counted = if self.held_by == Hold::Slots { job.gates.slips } else { job.gates.holds };
            row.push(match job.gates.fail_opens {
                0 => format!("{counted}/{}", job.gates.iterations),
                open => format!("{counted}/{}, {open} open", job.gates.iterations),
            });
            let formula = &job.formula_ms;
            let predicted = [Some(formula.solo), Some(formula.contended), formula.slots, Some(formula.held)];
            let predicted: Vec<String> = predicted.into_iter().flatten().map(|s| format!("{:.0}", s.median)).collect();
            row.push(predicted.join(" / "));
            rows.push(row);
        }
        rows
    }

    fn link_rows(&self) -> Vec<Vec<String>> {
        let head = ["link", "Mbit/s", "jobs", "score", "marks solo", "contended"];
        let head = head.into_iter().chain(self.beside().map(|(b, _)| b.word())).chain(["held", "overlap"]);
        let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
        // A link of one job has no shifts to compare; its row is in the JSON only.
        for link in self.links.iter().filter(|l| l.shared) {
            let marks = &link.marks_per_iteration;
            // The table shows medians of marks only; the spread is in the JSON.
            let text = |s: Spread| format!("{:.1}", s.median);
            let mut row = vec![link.link.clone(), link.capacity_mbps.to_string(), link.jobs.join(" "), format!("{:.3}", link.score)];
            row.extend([text(marks.solo), text(marks.contended)]);
            row.extend(marks.beside.iter().map(|(_, spread)| text(*spread)));
            row.extend([text(marks.held), overlaps(link.overlap_contended, &link.overlap_beside, link.overlap_held)]);
            rows.push(row);
        }
        rows
    }
}

/// What a table shows where nothing is known.
fn unknown() -> String {
    "-".to_owned()
}

/// Overlap in the runs in which all jobs run.
fn overlaps(contended: Spread, beside: &Baselines<Spread>, held: Spread) -> String {
    let runs = [contended].into_iter().chain(beside.iter().map(|(_, spread)| *spread)).chain([held]);
    let all: Vec<String> = runs.map(|s| format!("{:.2}", s.median)).collect();
    all.join(" -> ")
}

fn ms(spread: Spread) -> String {
    if spread.least.total_cmp(&spread.most).is_eq() {
        return format!("{:.1}", spread.median);
    }
    format!("{:.1} ({:.0} to {:.0})", spread.median, spread.least, spread.most)
}

pub(crate) fn columns(out: &mut String, rows: &[Vec<String>]) {
    // Widths are counted in characters, as `format!` pads by characters.
    let width = |column: usize| rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    for row in rows {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let _ = write!(line, "{cell:<width$}  ", width = width(i));
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
