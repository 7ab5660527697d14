//! The report: interference, placers by load, and how the model came to be.

use render::{
    bars::{self, BarView},
    experiment as frame,
    html::Html,
    line::{self, LineView},
};

use super::{Answer, Loaded};
use crate::commands::learn::placers::{HEADINGS, Row};

/// What a reader must know to read the figures, each in a sentence.
const NOTES: [&str; 6] = [
    "Neither Harmony's code nor its traces are public: servers, interference and mixes are ours, and no server of anybody was measured for them.",
    "Load balancing, packing and least interference are what Harmony was compared with; its authors printed 16 to 42 % shorter mean completion times than theirs.",
    "The greedy rule takes the way that leaves the largest sum of speeds. Where it knows the truth it knows more than anybody in a real cluster could.",
    "Who plays on tries the eight best ways of the greedy rule against sixteen draws of ten jobs that may come; the policy was taught by one with learned speeds.",
    "Nothing was learned from these mixes, and none of them selected the model.",
    "The curve is of other mixes, which selected the model: the best of several is partly luck, and the tables are what counts.",
];

pub(super) fn page(answer: &Answer, command: &str) -> String {
    let mut page = frame::open("Harmony, reproduced", "Harmony: a placer that learns");
    page.raw("<p>").text("Jobs of the eight models that Muri's authors measured come to servers of four GPUs, stay where they are placed, and slow down whom they meet. ");
    page.text(&format!("{} mixes of each load; ± is half of the 95 % confidence interval.", answer.mixes)).raw("</p>\n");
    frame::made_by(&mut page, command);
    for loaded in &answer.loads {
        load(&mut page, loaded);
    }
    interference(&mut page, answer);
    curve(&mut page, answer);
    frame::sentences(&mut page, "How to read this", &NOTES);
    frame::close(page)
}

fn load(page: &mut Html, Loaded { load_percent, rows }: &Loaded) {
    let label = format!("Completion time at a load of {load_percent} %");
    page.raw("<h2>").text(&label).raw("</h2>");
    let columns = HEADINGS.map(|heading| heading.strip_prefix('>').map_or((heading, "text"), |heading| (heading, "number")));
    page.table("", &label, &columns, false);
    for row in rows {
        page.raw("<tr><td>").text(row.placer).raw("</td><td>").text(row.knows).raw("</td>");
        let Row { mean_min, over_greedy, p99_over_greedy, speed, learned_gain, .. } = row;
        let [_, _, cells @ ..] = row.cells();
        for (value, said) in [mean_min, over_greedy, p99_over_greedy, speed, learned_gain].into_iter().zip(&cells) {
            page.number(Some(value.mean), said);
        }
        page.raw("</tr>\n");
    }
    page.end_table();
    let longest = rows.iter().map(|row| row.mean_min.mean).fold(0.0, f64::max);
    let bar = |row: &Row| BarView { name: row.placer.to_owned(), value: row.mean_min.mean, said: format!("{:.1} min", row.mean_min.mean) };
    page.raw("<figure>").raw(&bars::draw(&label, "j1", &rows.iter().map(bar).collect::<Vec<_>>(), longest).fragment()).raw("</figure>");
}

fn interference(page: &mut Html, answer: &Answer) {
    page.raw("<h2>What jobs feel of each other</h2><p>")
        .text("Two ranks on two servers, beside two ranks of another job on the same two: speeds in parts of that alone on one server.")
        .raw("</p>");
    let columns = [
        ("Job", "text"),
        ("Alone on two servers", "number"),
        ("Beside another, mean", "number"),
        ("Beside the worst", "number"),
        ("Which is", "text"),
    ];
    page.table("", "interference", &columns, false);
    for felt in &answer.interference {
        page.raw("<tr><td>").text(felt.kind).raw("</td>");
        [felt.apart, felt.beside_mean, felt.beside_least].into_iter().for_each(|speed| page.number(Some(speed), &format!("{speed:.3}")));
        page.raw("<td>").text(felt.beside_worst).raw("</td></tr>\n");
    }
    page.end_table();
}

fn curve(page: &mut Html, answer: &Answer) {
    let points: Vec<(f64, f64)> = answer.curve.iter().map(|point| (point.rounds as f64, point.over_greedy)).collect();
    let (least, most) = points.iter().fold((1.0_f64, 1.0_f64), |(least, most), (_, value)| (least.min(*value), most.max(*value)));
    let last = points.iter().map(|(rounds, _)| *rounds).fold(0.0, f64::max);
    let greedy = LineView { name: "greedy".into(), points: vec![(0.0, 1.0), (last, 1.0)] };
    let lines = [LineView { name: "learned policy".into(), points }, greedy];
    let label = "Mean completion time over the greedy rule's, by rounds of tries";
    page.raw("<h2>How the model came to be</h2>");
    page.raw("<p>Made by <code>").text(&answer.made_by).raw("</code></p><figure>");
    page.raw(&line::draw(label, "rounds", &lines, (least, most)).fragment());
    page.raw("<figcaption>")
        .text(label)
        .text(", on the mixes that selected it; before the first round it knew nothing, then imitated.")
        .raw("</figcaption></figure>");
}
