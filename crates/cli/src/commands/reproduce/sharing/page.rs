//! The report: what was run, what came out, and what of it is which.

use render::{
    bars::{self, BarView},
    experiment as frame,
    html::Html,
};

use super::{Answer, Share};
use crate::commands::stats::Interval;

/// What a reader must know to read the figures, each in a sentence.
const NOTES: [&str; 6] = [
    "Nobody has published these combinations, so there is nothing beside ours: Muri's and Gandiva's papers know no links between hosts, and CASSINI's jobs share no GPUs.",
    "SRSF is the policy under which nobody shares: its order is that of Muri-S.",
    "Gains are over the same policy with nothing done about the network, on the same seed; sharing is SRSF over the policy, both with nothing done about the network.",
    "Paper is CASSINI's time-shifts, which only jobs whose links it finds compatible follow; turns are taken where they are predicted to gain.",
    "Blind groups are Muri's own; the others are chosen among its own and some that are nearly as efficient, where those are predicted to lose less on links and to be worth their restarts.",
    "Jobs of Gandiva that take turns on GPUs send as if their iterations were longer, not in turns of a minute.",
];

pub(super) fn page(answer: &Answer, command: &str) -> String {
    let mut page = frame::open("Sharing GPUs and links", "Sharing GPUs and links");
    page.raw("<p>").text("Policies whose jobs share GPUs, on a fabric, in virtual time: jobs of the eight models that Muri's authors measured, of 2 to 16 GPUs, on hosts of one GPU, five to a leaf that has one uplink of the rate of a host. ");
    page.text(&format!("{} seeds of {} jobs; ± is half of the 95 % confidence interval.", answer.seeds, answer.jobs)).raw("</p>\n");
    frame::made_by(&mut page, command);
    parts(&mut page, answer);
    runs(&mut page, answer);
    frame::sentences(&mut page, "How to read this", &NOTES);
    frame::close(page)
}

fn parts(page: &mut Html, answer: &Answer) {
    page.raw("<h2>What of the gain is which</h2>");
    let columns = [
        ("Policy", "text"),
        ("Sharing", "number"),
        ("Placing", "number"),
        ("Turns", "number"),
        ("Both", "number"),
        ("Groups", "number"),
        ("All there is", "number"),
    ];
    page.table("", "gains", &columns, false);
    for share in &answer.shares {
        page.raw("<tr><td>").text(share.policy).raw("</td>");
        let Share { sharing, placing, turns, both, groups, ideal, .. } = share;
        for gain in [Some(sharing), Some(placing), Some(turns), Some(both), groups.as_ref(), Some(ideal)] {
            number(page, gain, 3);
        }
        page.raw("</tr>\n");
    }
    page.end_table();
}

fn runs(page: &mut Html, answer: &Answer) {
    page.raw("<h2>Every combination</h2>");
    let columns = [
        ("Policy", "text"),
        ("Ranker", "text"),
        ("Control", "text"),
        ("Groups", "text"),
        ("Mean completion, s", "number"),
        ("Iteration / alone", "number"),
        ("p99", "number"),
        ("ECN marks an iteration", "number"),
        ("Gain, completion", "number"),
        ("Gain, iteration", "number"),
    ];
    page.table("", "combinations", &columns, false);
    for row in &answer.rows {
        page.raw("<tr>");
        for cell in [row.policy, row.ranker, row.control, if row.blind { "blind" } else { "" }] {
            page.raw("<td>").text(cell).raw("</td>");
        }
        let cells = [
            (&row.mean_jct_s, 0),
            (&row.iteration_mean, 3),
            (&row.iteration_p99, 2),
            (&row.marks_per_iteration, 0),
            (&row.jct_gain, 3),
            (&row.iteration_gain, 3),
        ];
        cells.into_iter().for_each(|(value, digits)| number(page, Some(value), digits));
        page.raw("</tr>\n");
    }
    page.end_table();
    for policy in super::POLICIES {
        let own = || answer.rows.iter().filter(|row| row.policy == policy && !row.blind);
        let longest = own().map(|row| row.mean_jct_s.mean).fold(0.0, f64::max);
        let bar = |row: &super::Row| BarView {
            name: format!("{}, {}", row.ranker, row.control),
            value: row.mean_jct_s.mean,
            said: format!("{} s", row.mean_jct_s.said(0)),
        };
        let label = format!("Mean completion time under {policy}, by ranker and control");
        page.raw("<h3>").text(&label).raw("</h3><figure>");
        page.raw(&bars::draw(&label, "j1", &own().map(bar).collect::<Vec<_>>(), longest).fragment()).raw("</figure>");
    }
}

fn number(page: &mut Html, value: Option<&Interval>, digits: usize) {
    page.number(value.map(|value| value.mean), &value.map(|value| value.said(digits)).unwrap_or_default());
}
