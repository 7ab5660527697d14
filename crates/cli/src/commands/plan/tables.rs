//! The plan as text: candidates, the worst links, the jobs, and sentences.

use circle::Mode;
use job::Hold;
use plan::{ByControl, Control, ControlMean, Evaluation, JobReport, Outcome, Reason, TurnReason};
use units::{Nanos, Score};

use super::{super::solve::below_the_optimum, Ranking};
use crate::table::Table;

/// Candidates, links and sentences shown; `-o json` has them all.
const ROWS_MAX: usize = 12;
/// What the columns of the candidates mean.
const LEGEND: &str = "
SCORE: mean over the links that two or more jobs share; 1 is never over capacity.
TIME: predicted iteration over the period, mean over the GPUs; FREE: as the jobs come; TURNS: by turns, of those who gain; SLOTS: by slots, of those who gain, in the periods declared; the service adds headroom.
OVERLAP: share of the time in use in which links are above capacity; FREE: as the jobs come; CHOSEN: with those HELD.
LINKS: that two or more jobs share; LOOPS: of jobs and links in a ring, which have to be solved together.
";
/// What the columns of the jobs mean.
const JOBS_LEGEND: &str = "
Predicted iterations: SOLO alone on the fabric; FREE as the jobs come; TURNS and SLOTS where those who gain take turns, or are held to their slots. HELD: whether, and for what.
SHIFT: delay of the first iteration; SLACK: how far the job alone may drift from it before a score falls, any: as far as it likes.
";
/// Jobs shown.
const JOBS_MAX: usize = 40;

pub(super) fn plan(ranking: &Ranking<'_>) -> String {
    let fabric = ranking.cluster.fabric;
    let mut out = format!(
        "fabric {}: {} hosts, {} directed links; {} jobs; {} candidate(s) judged in {:.1} ms\n\n",
        fabric.name(),
        fabric.hosts().count(),
        fabric.links().len(),
        ranking.cluster.jobs.len(),
        ranking.evaluations.len(),
        ranking.elapsed.as_secs_f64() * 1e3
    );
    out.push_str(&candidates(ranking));
    // Candidates are ranked, so one without scores at the head means that none has any.
    let Some(best) = ranking.best().filter(|e| e.scores.is_some()) else {
        out.push_str("\nno candidate was solved\n");
        let reasons = ranking.evaluations.iter().flat_map(|e| e.explain(&ranking.cluster).into_iter().map(move |s| (&e.id, s)));
        for (id, sentence) in reasons.take(ROWS_MAX) {
            out.push_str(&format!("{id}: {sentence}\n"));
        }
        return out;
    };
    out.push_str(&format!("\nbest: {}; {}\n", best.id, certainty(best, ranking.options.mode)));
    let links = links(ranking, best);
    if !links.is_empty() {
        out.push_str(&format!("\n{}", links.render()));
    }
    out.push_str(&format!("\n{}", jobs(ranking, best)));
    out.push('\n');
    let mut sentences = best.explain(&ranking.cluster);
    // The table of the jobs says it.
    sentences.retain(|s| !matches!(s.reason, Reason::Turns(TurnReason::Times { .. })));
    for sentence in sentences.iter().take(ROWS_MAX) {
        out.push_str(&format!("{sentence}\n"));
    }
    more(&mut out, sentences.len(), ROWS_MAX, "sentences: antiphase explain");
    out
}

fn more(out: &mut String, all: usize, shown: usize, what: &str) {
    if all > shown {
        out.push_str(&format!("... and {} more {what}\n", all - shown));
    }
}

/// What stands behind a candidate's score, in words.
pub(super) fn certainty(e: &Evaluation, mode: Mode) -> String {
    match (&e.outcome, e.scores) {
        (Outcome::Loop { .. }, _) => "discarded: loop (paper mode)".into(),
        (Outcome::Unsolved { error, .. }, _) => format!("not solved: {error}"),
        // The best of the paper's 72 angles, scored at 72 points; what it is worth in continuous time is another number.
        (Outcome::Solved, Some(s)) if mode == Mode::Cassini => format!("best of the 5-degree grid; exact score {:.4}", Score(s.true_score)),
        (Outcome::Solved, Some(s)) if s.proven => "optimal, proven".into(),
        (Outcome::Solved, Some(s)) => below_the_optimum(s.bound_gap),
        (Outcome::Solved, None) => String::new(),
    }
}

fn candidates(ranking: &Ranking<'_>) -> String {
    let mut t = Table::new(&[
        "CANDIDATE",
        ">SCORE: NO SHIFT",
        ">SHIFTED",
        ">TIME: FREE",
        ">TURNS",
        ">SLOTS",
        ">OVERLAP: FREE",
        ">CHOSEN",
        "HELD",
        ">LINKS",
        ">LOOPS",
        "CERTAINTY",
    ]);
    let control = ranking.options.control;
    let scores = |x: Option<f64>| x.map_or_else(|| "-".into(), |v| format!("{:.4}", Score(v)));
    for e in ranking.evaluations.iter().take(ROWS_MAX) {
        // A discarded candidate was not looked at further.
        let times = |of: fn(ByControl<ControlMean>) -> ControlMean| {
            e.compared.map_or_else(|| "-".into(), |compared| format!("{:.3}x", of(compared).time))
        };
        let overlap = |control| e.compared.map_or_else(|| "-".into(), |compared| format!("{:.2}", compared.of(control).overlap));
        let counts = |n: usize| if e.scores.is_some() { n.to_string() } else { "-".into() };
        t.row([
            e.id.clone(),
            scores(e.scores.map(|s| s.zero_shift_score)),
            scores(e.scores.map(|s| s.score)),
            times(|c| c.free),
            times(|c| c.turns),
            times(|c| c.slots),
            overlap(Control::Observe),
            overlap(control),
            if e.scores.is_some() { held(control, &e.jobs(&ranking.cluster)) } else { "-".into() },
            counts(e.shared_links),
            counts(e.affinity.loops),
            certainty(e, ranking.options.mode),
        ]);
    }
    let mut out = t.render();
    out.push_str(LEGEND);
    more(&mut out, ranking.evaluations.len(), ROWS_MAX, "candidates");
    out
}

/// Whether a job that meets others is held, and for what.
pub(super) fn held_for(ranking: &Ranking<'_>, r: &JobReport) -> &'static str {
    match ranking.options.control {
        Control::Turns if r.turns => "by turns",
        Control::Slots if r.hold => "by slots",
        Control::Turns | Control::Slots if ranking.cluster.jobs[r.job.index()].hold == Hold::Never => "no: never",
        Control::Turns | Control::Slots => "no: no gain",
        Control::Observe => "no",
    }
}

/// Who is held.
pub(super) fn held(control: Control, jobs: &[JobReport]) -> String {
    let jobs = |is: fn(&JobReport) -> bool| jobs.iter().filter(|r| is(r)).count();
    match (control, jobs(|r| r.turns), jobs(|r| r.hold)) {
        (Control::Turns, jobs @ 1.., _) => format!("{jobs} by turns"),
        (Control::Slots, _, jobs @ 1..) => format!("{jobs} by slots"),
        _ => "nobody".into(),
    }
}

fn links(ranking: &Ranking<'_>, best: &Evaluation) -> Table {
    let mut all: Vec<_> = best.links().collect();
    // Worst first, so that the rows cut off at `ROWS_MAX` are those with the best scores.
    all.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.zero_shift_score.total_cmp(&b.zero_shift_score)));
    let mut t = Table::new(&["LINK", ">CAPACITY", ">NO SHIFT", ">SCORE", "JOBS"]);
    for l in all.iter().take(ROWS_MAX) {
        let name = l.links.first().map_or_else(String::new, |&id| ranking.cluster.fabric.link_name(id));
        let like = if l.links.len() > 1 { format!(" (+{} like it)", l.links.len() - 1) } else { String::new() };
        let jobs: Vec<&str> = l.jobs.iter().map(|j| &ranking.cluster.jobs[j.index()].name[..]).collect();
        // The tilde marks a score that is not exact (docs/glossary.md, "uncertainty").
        let approximate = if l.uncertainty > 0.0 { "~" } else { "" };
        t.row([
            format!("{name}{like}"),
            l.capacity.to_string(),
            format!("{:.4}", Score(l.zero_shift_score)),
            format!("{approximate}{:.4}", Score(l.score)),
            jobs.join(" "),
        ]);
    }
    t
}

fn jobs(ranking: &Ranking<'_>, best: &Evaluation) -> String {
    let ms = |n: Nanos| format!("{:.1}", n.as_millis_f64());
    let mut reports = best.jobs(&ranking.cluster);
    let all = reports.len();
    // In a large cluster most jobs meet nobody, and those that meet somebody are what a reader looks for.
    if all > JOBS_MAX {
        reports.retain(|r| r.meets_others);
    }
    let mut t =
        Table::new(&["JOB", ">GPUS", ">PERIOD ms", ">SOLO ms", ">FREE ms", ">TURNS ms", ">SLOTS ms", ">SHIFT ms", ">SLACK ms", "HELD"]);
    for r in reports.iter().take(JOBS_MAX) {
        let job = &ranking.cluster.jobs[r.job.index()];
        let time = |of: fn(ByControl<Nanos>) -> Nanos| r.compared.map_or_else(|| "-".into(), |compared| ms(of(compared)));
        t.row([
            job.name.clone(),
            job.gpus.to_string(),
            ms(job.period),
            r.times.map_or_else(|| "-".into(), |t| ms(t.solo)),
            time(|c| c.free),
            time(|c| c.turns),
            time(|c| c.slots),
            if r.meets_others { ms(r.shift) } else { "-".into() },
            match (r.meets_others, ranking.options.mode) {
                (false, _) => "any".into(),
                // Half a turn either way is the whole circle.
                (true, Mode::Exact) if r.slack.0 >= job.period.0 / 2 => "any".into(),
                (true, Mode::Exact) => ms(r.slack),
                // The paper's method has none.
                (true, Mode::Cassini) => "-".into(),
            },
            if r.meets_others { held_for(ranking, r).into() } else { "-".into() },
        ]);
    }
    let mut out = t.render();
    more(&mut out, all, reports.len().min(JOBS_MAX), "jobs");
    out.push_str(JOBS_LEGEND);
    out
}
