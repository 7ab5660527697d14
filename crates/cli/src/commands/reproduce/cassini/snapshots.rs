//! Table 2 of the paper: five snapshots of jobs that share a link, and for how long each sends in an iteration.

use ::sim::trace::{
    NetworkControl, SNAPSHOT_WORKERS, SNAPSHOTS, Snapshot, SnapshotJob, SnapshotOutcome, SnapshotRow, TraceError, snapshot, snapshot_trace,
};
use fabric::{
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use render::html::Html;
use serde::Serialize;
use units::Rate;

use crate::{
    commands::{
        seeds::on_all_cores,
        stats::{self, Interval, interval},
    },
    input::CliError,
    table::Table,
};

/// Hosts below each of the two leaves: half of the workers of three jobs.
const HOSTS_PER_LEAF: u32 = 3 * SNAPSHOT_WORKERS / 2;

/// What is compared; the first two are the table's columns.
const CONTROLS: [(&str, NetworkControl); 4] = [
    ("Themis", NetworkControl::Free),
    ("CASSINI", NetworkControl::Paper),
    ("slots", NetworkControl::Slots),
    ("turns", NetworkControl::Turns),
];

/// A job under one control.
#[derive(Clone, Debug, Serialize)]
struct Under {
    control: &'static str,
    /// For how long it sends in an iteration.
    sends_ms: Interval,
    /// Its iterations over those alone.
    iteration_mean: Interval,
    iteration_p99: Interval,
}

#[derive(Clone, Debug, Serialize)]
struct JobRow {
    model: &'static str,
    batch: u64,
    published_themis_ms: f64,
    published_cassini_ms: f64,
    sends_alone_ms: f64,
    under: Vec<Under>,
}

/// ECN marks under one control.
#[derive(Clone, Debug, Serialize)]
struct Marks {
    control: &'static str,
    marks_per_iteration: Interval,
}

/// A snapshot, with its periods as they are or locked.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Played {
    snapshot: u32,
    /// Whether whoever is shorter computes longer, so that periods lock.
    locked: bool,
    published_score: f64,
    /// The score by the paper's rules; none where it has no shifts.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    jobs: Vec<JobRow>,
    marks: Vec<Marks>,
}

/// Plays every snapshot in both ways under every control.
pub(super) fn play(seeds: u64, step: &(impl Fn() + Sync)) -> Result<Vec<Played>, CliError> {
    let mut found = Vec::with_capacity(2 * SNAPSHOTS.len());
    for locked in [false, true] {
        for snapshot in &SNAPSHOTS {
            found.push(one(snapshot, locked, seeds).map_err(|e| CliError::Failure(format!("snapshot {}: {e}", snapshot.number)))?);
            step();
        }
    }
    Ok(found)
}

/// Steps of [`play`].
pub(super) const STEPS: u64 = 2 * SNAPSHOTS.len() as u64;

fn one(snap: &Snapshot, locked: bool, seeds: u64) -> Result<Played, Box<dyn std::error::Error>> {
    let rate = Rate(50_000);
    let fabric = clos2(&Clos2 { leaves: 2, spines: 1, hosts_per_leaf: HOSTS_PER_LEAF, host_rate: rate, uplink_rate: rate, uplinks: 1 })?;
    let router = Router::new(&fabric, Ecmp::Spread, &[])?;
    let trace = snapshot_trace(snap, locked)?;
    let half = SNAPSHOT_WORKERS / 2;
    let hosts = |job: u32| (0..2).flat_map(|leaf| (0..half).map(move |at| leaf * HOSTS_PER_LEAF + job * half + at)).collect::<Vec<u32>>();
    let hosts: Vec<Vec<u32>> = (0..trace.jobs.len() as u32).map(hosts).collect();
    let under = |(_, control): &(&str, NetworkControl)| -> Result<Vec<SnapshotOutcome>, TraceError> {
        on_all_cores(seeds, |seed| snapshot(&trace, &hosts, &router, *control, seed)).into_iter().collect()
    };
    let by_control = CONTROLS.iter().map(under).collect::<Result<Vec<_>, _>>()?;
    let job = |(at, row): (usize, &SnapshotRow)| {
        let under = |(&(control, _), outcomes): (&(&'static str, NetworkControl), &Vec<SnapshotOutcome>)| {
            let of = |value: fn(&SnapshotJob) -> f64| interval(outcomes.iter().map(|outcome| value(&outcome.jobs[at])));
            Under {
                control,
                sends_ms: of(|job| job.sends_s * 1e3),
                iteration_mean: of(|job| job.iteration_mean),
                iteration_p99: of(|job| job.iteration_p99),
            }
        };
        JobRow {
            model: row.model,
            batch: row.batch,
            published_themis_ms: row.themis_ms,
            published_cassini_ms: row.cassini_ms,
            sends_alone_ms: by_control[0].first().map_or(0.0, |outcome| outcome.jobs[at].sends_alone_s * 1e3),
            under: CONTROLS.iter().zip(&by_control).map(under).collect(),
        }
    };
    let marks = |(&(control, _), outcomes): (&(&'static str, NetworkControl), &Vec<SnapshotOutcome>)| Marks {
        control,
        marks_per_iteration: interval(outcomes.iter().map(|outcome| outcome.marks_per_iteration)),
    };
    Ok(Played {
        snapshot: snap.number,
        locked,
        published_score: snap.score,
        score: by_control[1].first().and_then(|outcome| outcome.score),
        jobs: snap.jobs.iter().enumerate().map(job).collect(),
        marks: CONTROLS.iter().zip(&by_control).map(marks).collect(),
    })
}

const PERIODS: [&str; 2] = ["as profiles say", "locked"];

/// The snapshots as text.
pub(super) fn table(snapshots: &[Played]) -> String {
    let headings =
        ["SNAPSHOT", "PERIODS", ">SCORE", "MODEL", ">THEMIS, CASSINI", ">ALONE", ">THEMIS", ">CASSINI", ">SLOTS", ">TURNS", "ITERATIONS"];
    let mut table = Table::new(&headings);
    for played in snapshots {
        for (at, job) in played.jobs.iter().enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            let mut cells = vec![
                first(played.snapshot.to_string()),
                first(PERIODS[usize::from(played.locked)].to_owned()),
                first(score(played)),
                format!("{} ({})", job.model, job.batch),
                format!("{:.0}, {:.0}", job.published_themis_ms, job.published_cassini_ms),
                format!("{:.0}", job.sends_alone_ms),
            ];
            cells.extend(job.under.iter().map(|under| under.sends_ms.said(0)));
            cells.push(iterations(job));
            table.row(cells);
        }
    }
    format!(
        "snapshots: milliseconds for which a job sends in an iteration (table 2)\n{}SCORE and the column THEMIS, CASSINI: as published; behind a slash, the score by the paper's rules here. ITERATIONS: over those alone, waits included, under each.\n",
        table.render()
    )
}

/// Its iterations over those alone, under each control.
fn iterations(job: &JobRow) -> String {
    job.under.iter().map(|under| format!("{:.2}", under.iteration_mean.mean)).collect::<Vec<_>>().join(", ")
}

fn score(played: &Played) -> String {
    let own = played.score.map_or_else(|| "none".to_owned(), |score| format!("{score:.2}"));
    format!("{:.1} / {own}", played.published_score)
}

/// The snapshots on the page.
pub(super) fn section(page: &mut Html, snapshots: &[Played]) {
    page.raw("<h2>Snapshots (table 2)</h2><p>");
    page.text("Jobs that are all there at once and share one link of 50 Gb/s, four workers each, two on either side. Milliseconds for which a job sends in an iteration; waits at gates do not count, and stand in the last column, iterations under each of the four over those alone. ");
    page.text(&verdict(snapshots)).raw("</p>");
    for locked in [false, true] {
        let label = format!("Periods {}", PERIODS[usize::from(locked)]);
        page.raw("<h3>").text(&label).raw("</h3>");
        let mut columns = vec![
            ("Snapshot", "text"),
            ("Job", "text"),
            ("Score, paper", "number"),
            ("ours", "number"),
            ("Themis, paper", "number"),
            ("CASSINI, paper", "number"),
            ("Alone", "number"),
        ];
        columns.extend(CONTROLS.iter().map(|(name, _)| (*name, "number")));
        columns.push(("Iteration / alone", "text"));
        page.table("", &label, &columns, false);
        for played in snapshots.iter().filter(|played| played.locked == locked) {
            for job in &played.jobs {
                page.raw("<tr><td>").text(&played.snapshot.to_string()).raw("</td><td>");
                page.text(&format!("{} ({})", job.model, job.batch)).raw("</td>");
                page.number(Some(played.published_score), &format!("{:.1}", played.published_score));
                page.number(played.score, &played.score.map_or_else(String::new, |score| format!("{score:.2}")));
                let times = [job.published_themis_ms, job.published_cassini_ms, job.sends_alone_ms];
                times.iter().for_each(|ms| page.number(Some(*ms), &format!("{ms:.0}")));
                job.under.iter().for_each(|under| page.number(Some(under.sends_ms.mean), &under.sends_ms.said(0)));
                page.raw("<td>").text(&iterations(job)).raw("</td></tr>\n");
            }
        }
        page.end_table();
    }
}

/// What the snapshots say, in a sentence.
fn verdict(snapshots: &[Played]) -> String {
    let said: Vec<String> = [false, true]
        .into_iter()
        .map(|locked| {
            let jobs = || snapshots.iter().filter(|played| played.locked == locked).flat_map(|played| &played.jobs);
            let mean = |at: usize, of: fn(&Under) -> f64| stats::mean(jobs().map(|job| of(&job.under[at]) / of(&job.under[0])));
            let each = |of: fn(&Under) -> f64| {
                format!("{:.2} under the paper's shifts, {:.2} under slots and {:.2} under turns", mean(1, of), mean(2, of), mean(3, of))
            };
            format!(
                "Where periods are {}, jobs send for {} of the time under Themis, and iterations take {}",
                PERIODS[usize::from(locked)],
                each(|under| under.sends_ms.mean),
                each(|under| under.iteration_mean.mean)
            )
        })
        .collect();
    let published = stats::mean(SNAPSHOTS.iter().flat_map(|snap| snap.jobs).map(|row| row.cassini_ms / row.themis_ms));
    format!("{}. As published, jobs send for {published:.2} of the time under the paper's shifts.", said.join(". "))
}
