//! The report.

use render::{
    bars::{self, BarView},
    experiment as frame,
    html::Html,
    line::{self, LineView},
};

use super::{Answer, Curve, Held, Shipped, said};

/// What a reader must know to read the figures, each in a sentence.
const NOTES: [&str; 11] = [
    "Published is the time that a job runs, read off the paper's figure; the paper claims up to 18.2 % less of it in the mean and 20.7 % at the tail, against LAS and SRTF.",
    "Peer is the simulator of DeepShare's authors with their five trained policies, run again by us; ours is our code in the same world, with its oddities: a share that fell never rises, and who started after a job that is done misses a round.",
    "Their policies were not run by us in our code: they are files of another library. Rows without ours are the peer's only.",
    "What their simulator calls the completion time is the time that a job runs; how long it waits is left out. Here completion counts from the beginning, when all jobs are there.",
    "What they call LAS takes the job that ran longest first, and what they call SRTF the job with the smallest part done: both are the reverse of their names. Both look only at the first job of the queue, spread it as far as they can, and stop all jobs after each round, at no cost.",
    "Nobody may stand on one node only, where nothing would disturb him.",
    "Greedy rules know the whole table, as nobody in a real cluster does: at each place the first of three candidates that fits, then the choice that adds most to the sum of speeds for each of its GPUs, if it adds more than a limit. Without a limit it beats every published policy in completion with waiting.",
    "Greedy by jobs looks at all candidates, and each job counts as one: jobs of two GPUs come first, which shortens the mean.",
    "Packing, load balancing and least interference place whoever came first among the candidates and fits, whatever it costs others.",
    "The learned policy sees who stands where and not the table. It imitates greedy by jobs, then tries, on traces drawn as the authors' script draws them; the best on six others is kept.",
    "The curve is of these six: the best of several is partly luck, and the table of drawn traces is what counts.",
];

pub(super) fn page(answer: &Answer, command: &str) -> String {
    let mut page = frame::open("DeepShare, reproduced", "DeepShare, reproduced");
    page.raw("<p>").text("Jobs of six models, measured beside each other by DeepShare's authors, share four nodes of eight GPUs in rounds of five minutes: who is placed beside whom? ");
    page.text(&format!("{} drawn traces; ± is half of the 95 % confidence interval.", answer.drawn)).raw("</p>\n");
    frame::made_by(&mut page, command);
    held_out(&mut page, answer);
    answer.traces.iter().for_each(|trace| shipped(&mut page, trace));
    curves(&mut page, answer);
    frame::sentences(&mut page, "How to read this", &NOTES);
    frame::close(page)
}

fn held_out(page: &mut Html, answer: &Answer) {
    let label = "Completion on traces from which nothing was learned";
    page.raw("<h2>").text(label).raw("</h2>");
    let columns = [
        ("Rule", "text"),
        ("Knows", "text"),
        ("Completion, h", "number"),
        ("Over greedy", "number"),
        ("Ran, h", "number"),
        ("GPUs in use", "number"),
    ];
    page.table("", label, &columns, false);
    for Held { rule, knows, completion_h, over_greedy, ran_h, used } in &answer.held_out {
        page.raw("<tr><td>").text(rule).raw("</td><td>").text(knows).raw("</td>");
        for (value, digits) in [(completion_h, 2), (over_greedy, 3), (ran_h, 3), (used, 3)] {
            page.number(Some(value.mean), &value.said(digits));
        }
        page.raw("</tr>\n");
    }
    page.end_table();
    let longest = answer.held_out.iter().map(|held| held.completion_h.mean).fold(0.0, f64::max);
    let bar = |held: &Held| BarView {
        name: held.rule.to_owned(),
        value: held.completion_h.mean,
        said: format!("{} h", held.completion_h.said(1)),
    };
    page.raw("<figure>")
        .raw(&bars::draw(label, "j1", &answer.held_out.iter().map(bar).collect::<Vec<_>>(), longest).fragment())
        .raw("</figure>");
}

fn shipped(page: &mut Html, Shipped { trace, jobs, rows }: &Shipped) {
    let label = format!("The authors' trace \"{trace}\", {jobs} jobs");
    page.raw("<h2>").text(&label).raw("</h2>");
    let columns = [
        ("Rule", "text"),
        ("Published: ran, h", "text"),
        ("Peer: ran, h", "number"),
        ("Ours", "number"),
        ("Peer: p99, h", "number"),
        ("Ours", "number"),
        ("Peer: GPUs in use", "number"),
        ("Ours", "number"),
        ("Peer: speed", "number"),
        ("Ours", "number"),
        ("Peer: completion, h", "number"),
        ("Ours", "number"),
        ("Peer: makespan, h", "number"),
        ("Ours", "number"),
    ];
    page.table("", &label, &columns, false);
    for row in rows {
        page.raw("<tr><td>").text(row.rule).raw("</td><td>").text(row.published_ran_h).raw("</td>");
        for cell in row.cells() {
            page.number(cell.0, &said(&cell));
        }
        page.raw("</tr>\n");
    }
    page.end_table();
}

fn curves(page: &mut Html, answer: &Answer) {
    let line = |curve: &Curve| LineView {
        name: format!("seed {}", curve.seed),
        points: curve.over_teacher.iter().map(|(rounds, over)| (*rounds as f64, *over)).collect(),
    };
    let points = || answer.curves.iter().flat_map(|curve| &curve.over_teacher);
    let (least, most) = points().fold((1.0_f64, 1.0_f64), |(least, most), (_, over)| (least.min(*over), most.max(*over)));
    let last = points().map(|(rounds, _)| *rounds as f64).fold(0.0, f64::max);
    let mut lines: Vec<LineView> = answer.curves.iter().map(line).collect();
    lines.push(LineView { name: "its teacher".into(), points: vec![(0.0, 1.0), (last, 1.0)] });
    let label = "Mean completion time over its teacher's, by rounds of tries";
    page.raw("<h2>How the policies came to be</h2><figure>");
    page.raw(&line::draw(label, "rounds", &lines, (least, most)).fragment());
    page.raw("<figcaption>").text(label).text(".").raw("</figcaption></figure>");
}
