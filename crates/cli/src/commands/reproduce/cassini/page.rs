//! The report: what was run, what came out, what the paper prints, and where the two worlds differ.

use render::{
    bars::{self, BarView},
    curves::{self, CurveView},
    experiment as frame,
    html::Html,
};

use super::{Answer, Result, Row, SCHEMES, snapshots};

/// Schemes whose distributions are drawn; the others lie on top of these.
const DRAWN: [&str; 7] = ["Themis", "CASSINI", "turns", "ideal", "random", "random, shifts", "random, turns"];

/// Where this world differs from the paper's, each in a sentence.
const DIFFERENCES: [&str; 11] = [
    "The largest one: jobs that can be kept apart are rare here. Profiles of the paper's models send for 45 to 90 % of an iteration on its 50 Gb/s, so two of them seldom fit on a link whatever the shift, and jobs with other batches or other numbers of workers have periods that do not lock. How the paper's jobs were matched is not printed. The sweeps show what turns bring where periods lock; the paper's shifts bring little there, because its graph of jobs and links has loops as soon as jobs are placed anywhere.",
    "The paper published no traces and no profiles. Jobs, batches and arrivals are made by its words, and profiles are computed from model, batch and number of workers; VGG16's is calibrated to the paper's.",
    "The network is fluid: links are shared max-min fairly with one class for each job, and ECN marks follow the ramp of DCQCN's testbed. DCQCN's own dynamics are not played, and they cost time that is not seen here.",
    "Themis holds its auctions when GPUs are free or a lease of 20 minutes ends, where the paper has one each ten minutes; jobs keep the number of workers that they came with; restarts cost nothing.",
    "Themis packs jobs by leaf here, which keeps most of them out of each other's way; the rows called random are of a scheduler that does not.",
    "Places are chosen when a job starts. Nobody is moved for a better score, where an auction of the paper moves many.",
    "The fabric has the paper's numbers of servers, switches and links; its drawing was not available, so how they hang together is ours. Equal paths share the load evenly, where the paper has rules that give each pair of servers one path.",
    "Themis + CASSINI is kinder than its text: links of equal demands count as one, so that a ring does not close a loop with itself, and drift is corrected only where the mean score is at least 0.99.",
    "Iterations of jobs that stand on several servers are compared with the same alone where they stand, and count as long as they take. The paper's figures are of iteration times themselves.",
    "Of table 2 the paper prints model and batch: four workers each and the one link that they share are ours. Its jobs must have had periods that lock, because its shifts helped; so each snapshot is played with the periods of our profiles and with locked ones, for which the shorter job computes longer. All of its snapshots begin at their shifts, as in the table, whatever their score; drift is corrected where the score is at least 0.99.",
    "Published gains are printed in the paper's text; its bars are pictures and were not read.",
];

pub(super) fn page(answer: &Answer, command: &str) -> String {
    let mut page = frame::open("CASSINI, reproduced", "CASSINI, reproduced");
    page.raw("<p>").text("The experiments of the CASSINI paper (NSDI 2024) in virtual time: a scheduler that knows nothing of the network, the paper's, and Antiphase with slots and with turns. ");
    page.text(&format!("{} seeds; ± is half of the 95 % confidence interval; gains are over Themis on the same seed.", answer.seeds));
    page.raw("</p>\n");
    frame::made_by(&mut page, command);
    page.raw("<ul>");
    for scheme in &SCHEMES {
        page.raw("<li><b>").text(scheme.name).raw("</b>: ").text(scheme.about).raw("</li>");
    }
    page.raw("</ul>\n");
    for result in &answer.experiments {
        experiment(&mut page, result);
    }
    snapshots::section(&mut page, &answer.snapshots);
    frame::sentences(&mut page, "Where this differs from the paper", &DIFFERENCES);
    frame::close(page)
}

fn experiment(page: &mut Html, result: &Result) {
    page.raw("<h2>").text(result.experiment).raw("</h2><p>").text(result.about).raw(". ");
    page.text(&verdict(result)).raw("</p>");
    let columns = [
        ("Scheme", "text"),
        ("Iteration / alone", "number"),
        ("p99", "number"),
        ("ECN marks an iteration", "number"),
        ("Mean completion", "number"),
        ("Gain, mean", "number"),
        ("Gain, p99", "number"),
        ("Gain, completion", "number"),
    ];
    page.table("", result.experiment, &columns, false);
    for row in &result.schemes {
        page.raw("<tr><td>").text(row.scheme).raw("</td>");
        let cells = [
            (row.iteration_mean, row.iteration_mean.said(3)),
            (row.iteration_p99, row.iteration_p99.said(2)),
            (row.marks_per_iteration, row.marks_per_iteration.said(0)),
            (row.mean_jct_s, format!("{} s", row.mean_jct_s.said(0))),
            (row.mean_gain, row.mean_gain.said(2)),
            (row.p99_gain, row.p99_gain.said(2)),
            (row.jct_gain, row.jct_gain.said(2)),
        ];
        cells.iter().for_each(|(value, said)| page.number(Some(value.mean), said));
        page.raw("</tr>\n");
    }
    if let (Some(mean), Some(p99)) = (result.published_mean_gain, result.published_p99_gain) {
        page.raw("<tr><td class=\"muted\">CASSINI, as published</td>");
        (0..4).for_each(|_| page.number(None, ""));
        [mean, p99].into_iter().for_each(|published| page.number(Some(published), &format!("{published:.1}")));
        page.number(None, "");
        page.raw("</tr>\n");
    }
    page.end_table();
    let curve = |row: &Row| CurveView { name: row.scheme.into(), percentiles: row.percentiles.clone() };
    let curves: Vec<CurveView> = result.schemes.iter().filter(|row| DRAWN.contains(&row.scheme)).map(curve).collect();
    // The last percent of a free run may be many times as long; what is compared lies below the p99 of most.
    let longest = result.schemes.iter().map(|row| row.iteration_p99.mean).fold(1.2, f64::max).min(4.0);
    let label = format!("{}: share of iterations that take at most so long", result.experiment);
    page.raw("<figure>").raw(&curves::draw(&label, "iteration over the same iteration alone", &curves, (1.0, longest)).fragment());
    page.raw("</figure>");
    let most = result.schemes.iter().map(|row| row.marks_per_iteration.mean).fold(0.0, f64::max);
    let bar = |row: &Row| BarView { name: row.scheme.into(), value: row.marks_per_iteration.mean, said: row.marks_per_iteration.said(0) };
    let marks: Vec<BarView> = result.schemes.iter().map(bar).collect();
    page.raw("<h3>ECN marks an iteration</h3><figure>").raw(&bars::draw("ECN marks an iteration", "j1", &marks, most).fragment());
    page.raw("</figure>");
}

/// What an experiment says, in sentences.
fn verdict(result: &Result) -> String {
    let row = |name: &str| result.schemes.iter().find(|row| row.scheme == name);
    let (Some(themis), Some(cassini), Some(turns)) = (row("Themis"), row("CASSINI"), row("turns")) else {
        return String::new();
    };
    let gain = |name: &str| row(name).map_or(1.0, |row| row.mean_gain.mean);
    // A hundredth of a mark is no mark.
    let marks = |row: &Row| match (row.marks_per_iteration.mean, themis.marks_per_iteration.mean) {
        (_, before) if before < 0.01 => "no marks to lose".to_owned(),
        (after, before) => format!("{:.2} times the marks", after / before),
    };
    format!(
        "The paper's scheduler gains {:.2} in the mean and {:.2} at p99, with {}; turns gain {:.2} and {:.2}, with {}. By itself, placing gains {:.2} in the mean and turns {:.2}; of jobs placed anywhere, turns gain {:.2}.",
        cassini.mean_gain.mean,
        cassini.p99_gain.mean,
        marks(cassini),
        turns.mean_gain.mean,
        turns.p99_gain.mean,
        marks(turns),
        gain("placing only"),
        gain("turns only"),
        gain("random, turns") / gain("random"),
    )
}
