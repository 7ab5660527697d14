//! The result of an experiment, as a document and as tables.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{
    analysis::Spread,
    control::{Control, GateTotals},
    plan::JobPlan,
};

/// Schema of the document.
pub const REPORT_SCHEMA: &str = "antiphase.lab-report/v1";

/// One quantity in the three runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Three {
    /// Each job alone.
    pub solo: Spread,
    /// All together, as they come, begun at the same moment.
    pub contended: Spread,
    /// All together, held to their slots where the plan says so.
    pub interleaved: Spread,
}

/// What the fluid model says, in ms: of several repeats, each with its own calibration, the median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The measured solo iteration that the plan was made from, in ratio with the others'.
    pub solo_ms: f64,
    /// All together, as they come.
    pub contended_ms: f64,
    /// All together, under the plan.
    pub interleaved_ms: f64,
}

impl Prediction {
    /// The middle of what the formula said.
    pub(crate) fn middle(formula: &Three) -> Self {
        Self { solo_ms: formula.solo.median, contended_ms: formula.contended.median, interleaved_ms: formula.interleaved.median }
    }

    pub(crate) fn of(plan: &JobPlan) -> Self {
        Self {
            solo_ms: plan.solo.period.as_millis_f64(),
            contended_ms: plan.contended.as_millis_f64(),
            // A job that is not held runs as it comes, also in the interleaved run.
            interleaved_ms: if plan.hold { plan.interleaved } else { plan.contended }.as_millis_f64(),
        }
    }
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its id.
    pub id: String,
    /// Length of its Up phase, which begins an iteration, in ms.
    pub up_ms: f64,
    /// Published period, in ms; this and the plan's other numbers are of the last repeat.
    pub period_ms: f64,
    /// Its time-shift, in ms.
    pub shift_ms: f64,
    /// Its slack, in ms.
    pub slack_ms: f64,
    /// Whether its gate held it.
    pub hold: bool,
    /// Mean iteration, in ms.
    pub mean_ms: Three,
    /// Median iteration, in ms.
    pub median_ms: Three,
    /// 99th percentile, in ms.
    pub p99_ms: Three,
    /// 1 minus interleaved mean over contended mean.
    pub gain: Spread,
    /// Share of its communication during which a job that it meets communicated too.
    pub overlap_contended: Spread,
    /// The same when held.
    pub overlap_interleaved: Spread,
    /// What the fluid model expected.
    pub predicted: Prediction,
    /// The same with its spread over the repeats, in ms.
    pub formula_ms: Three,
    /// What its gate did, over all repeats, warm-up included.
    pub gates: GateTotals,
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
    pub marks_per_iteration: Three,
    /// What it carried in the mean, headers included, in Mbit/s; not counted in virtual time.
    pub carried_mbps_contended: Option<Spread>,
    /// The same when held.
    pub carried_mbps_interleaved: Option<Spread>,
    /// Share of its jobs' communication during which another of them communicated too.
    pub overlap_contended: Spread,
    /// The same when held.
    pub overlap_interleaved: Spread,
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
    /// Version of the PyTorch whose DistributedDataParallel trained; nothing for the lab's own ranks.
    #[serde(default)]
    pub torch: Option<String>,
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
    /// The tables for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!("{}: {}\n", self.case, self.about);
        if let Some(torch) = &self.torch {
            let _ = writeln!(out, "trained by DistributedDataParallel of PyTorch {torch}, over gloo");
        }
        let times = if self.repeats == 1 { "once".to_owned() } else { format!("{} times", self.repeats) };
        let place = match self.load {
            Some([before, after]) => format!("on a kernel with a load of {before:.1} to {after:.1}"),
            None => "in virtual time: the service and the gates as they are, on a simulated fabric".to_owned(),
        };
        let _ = writeln!(out, "score {:.3}, without shifts {:.3}; played {times} {place}\n", self.score, self.zero_shift_score);
        let mut jobs = vec![row(["job", "solo", "contended", "interleaved", "gain", "overlap", "period", "shift", "slips", "predicted"])];
        for job in &self.jobs {
            jobs.push(row([
                &job.id,
                &ms(job.mean_ms.solo),
                &ms(job.mean_ms.contended),
                &ms(job.mean_ms.interleaved),
                &format!("{:.1} %", 100.0 * job.gain.median),
                &format!("{:.2} -> {:.2}", job.overlap_contended.median, job.overlap_interleaved.median),
                &if job.hold { format!("{:.1}", job.period_ms) } else { "not held".into() },
                &if job.hold { format!("{:.1}", job.shift_ms) } else { "-".into() },
                &match job.gates.fail_opens {
                    0 => format!("{}/{}", job.gates.slips, job.gates.iterations),
                    open => format!("{}/{}, {open} open", job.gates.slips, job.gates.iterations),
                },
                &format!("{:.0} / {:.0} / {:.0}", job.predicted.solo_ms, job.predicted.contended_ms, job.predicted.interleaved_ms),
            ]));
        }
        columns(&mut out, &jobs);
        out.push_str("\niterations in ms: mean (least to most over the repeats); predicted: solo / contended / interleaved\n\n");
        let mut links = vec![row(["link", "Mbit/s", "jobs", "score", "marks solo", "contended", "interleaved", "overlap"])];
        // A link of one job has no shifts to compare; its row is in the JSON only.
        for link in self.links.iter().filter(|l| l.shared) {
            let marks = &link.marks_per_iteration;
            // The table shows medians of marks only; the spread is in the JSON.
            let text = |s: Spread| format!("{:.1}", s.median);
            links.push(row([
                &link.link,
                &link.capacity_mbps.to_string(),
                &link.jobs.join(" "),
                &format!("{:.3}", link.score),
                &text(marks.solo),
                &text(marks.contended),
                &text(marks.interleaved),
                &format!("{:.2} -> {:.2}", link.overlap_contended.median, link.overlap_interleaved.median),
            ]));
        }
        columns(&mut out, &links);
        out.push_str("\nECN marks set at the link, per iteration of a job on it\n");
        out
    }
}

fn ms(spread: Spread) -> String {
    if spread.least.total_cmp(&spread.most).is_eq() {
        return format!("{:.1}", spread.median);
    }
    format!("{:.1} ({:.0} to {:.0})", spread.median, spread.least, spread.most)
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn columns(out: &mut String, rows: &[Vec<String>]) {
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
