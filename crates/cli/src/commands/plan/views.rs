//! What the pictures show of a ranking.

use circle::Mode;
use fabric::tier::tiers;
use plan::{Evaluation, LinkReport};
use render::view::{CandidateView, FabricView, JobView, LinkView, MapLinkView, MemberView, NodeView, PhaseView, ReportView};

use super::{
    Ranking,
    tables::{certainty, held, held_for},
};

/// The best candidate in full, the others as rows.
pub(super) fn report(ranking: &Ranking<'_>) -> ReportView {
    let cluster = &ranking.cluster;
    let best = ranking.best();
    let scores = best.and_then(|e| e.scores);
    ReportView {
        title: format!("Plan for {}", cluster.fabric.name()),
        fabric: fabric_view(ranking, best),
        jobs: best.map(|e| jobs(ranking, e)).unwrap_or_default(),
        candidates: ranking.evaluations.iter().enumerate().map(|(i, e)| candidate(ranking, e, i == 0)).collect(),
        links: best.map(|e| links(ranking, e)).unwrap_or_default(),
        never_overloaded_links: best.map_or(0, |e| e.never_overloaded_links),
        // A score that does not exist is not a number, which every picture prints as `n/a` or a dash.
        zero_shift_mean_score: scores.map_or(f64::NAN, |s| s.zero_shift_score),
        mean_score: scores.map_or(f64::NAN, |s| s.score),
        mode: match ranking.options.mode {
            Mode::Exact => "exact".into(),
            Mode::Cassini => "cassini".into(),
        },
        proven: scores.is_some_and(|s| s.proven),
        bound_gap: scores.map_or(f64::NAN, |s| s.bound_gap),
        notes: notes(ranking, best),
        made_by: format!("antiphase {}", env!("CARGO_PKG_VERSION")),
    }
}

fn notes(ranking: &Ranking<'_>, best: Option<&Evaluation>) -> Vec<String> {
    let mut notes = vec![
        format!("Routes: shortest paths; among equal next hops {}.", ranking.cluster.router.ecmp()),
        "Times come from a fluid model with max-min fair links, not from a measurement: an iteration over its period, mean over the GPUs. Change: from free to those held of whom the table says so, by turns or to their slots (--control).".into(),
    ];
    if let Some(e) = best {
        notes.push(format!(
            "{} links carry two or more jobs; on {} of them the jobs fit together whatever their shifts, and those count in the mean with score 1.",
            e.shared_links, e.never_overloaded_links
        ));
    }
    notes
}

fn jobs(ranking: &Ranking<'_>, e: &Evaluation) -> Vec<JobView> {
    let view = |r: plan::JobReport| {
        let job = &ranking.cluster.jobs[r.job.index()];
        JobView {
            name: job.name.clone(),
            period_ns: job.period.0,
            shift_ns: r.shift.0,
            slack_ns: (r.meets_others && ranking.options.mode == Mode::Exact).then_some(r.slack.0),
            solo_ns: r.times.map(|t| t.solo.0),
            contended_ns: r.compared.map(|c| c.free.0),
            turns_ns: r.compared.map(|c| c.turns.0),
            slots_ns: r.compared.map(|c| c.slots.0),
            interleaved_ns: r.interleaved.map(|t| t.0),
            held: if r.meets_others { held_for(ranking, &r).into() } else { String::new() },
        }
    };
    e.jobs(&ranking.cluster).into_iter().map(view).collect()
}

fn candidate(ranking: &Ranking<'_>, e: &Evaluation, chosen: bool) -> CandidateView {
    let (mode, control) = (ranking.options.mode, ranking.options.control);
    CandidateView {
        name: e.id.clone(),
        chosen: chosen && e.scores.is_some(),
        mean_score: e.scores.map(|s| s.score),
        // A candidate without shared links has the score 1, from which the fold begins.
        worst_score: e.scores.map(|_| e.links().filter(|l| l.jobs.len() > 1).map(|l| l.score).fold(1.0, f64::min)),
        shared_links: e.shared_links,
        free_time: e.compared.map(|c| c.free.time),
        turns_time: e.compared.map(|c| c.turns.time),
        slots_time: e.compared.map(|c| c.slots.time),
        free_overlap: e.compared.map(|c| c.free.overlap),
        chosen_overlap: e.compared.map(|c| c.of(control).overlap),
        held: if e.scores.is_some() { held(control, &e.jobs(&ranking.cluster)) } else { String::new() },
        note: match e.times.and_then(|t| Some((t.all_held?, t.interleaved))) {
            // To shift everybody can cost more than to leave them alone: then the advice is not to.
            Some((all_held, interleaved)) if all_held > interleaved + 0.0005 => {
                format!("{}; {all_held:.3}× if all are held", certainty(e, mode))
            }
            _ => certainty(e, mode),
        },
    }
}

fn links(ranking: &Ranking<'_>, e: &Evaluation) -> Vec<LinkView> {
    let sentences = e.explain(&ranking.cluster);
    let view = |l: LinkReport<'_>| {
        let first = l.links.first().map_or_else(String::new, |&id| ranking.cluster.fabric.link_name(id));
        // Links that are alike share one sentence, which names the first of them.
        let explanation = sentences.iter().find(|s| s.link.as_ref() == Some(&first)).map(ToString::to_string).unwrap_or_default();
        let name = if l.links.len() > 1 { format!("{first} and {} like it", l.links.len() - 1) } else { first };
        let phase = |p: &circle::Phase| PhaseView { start_ns: p.start.0, end_ns: p.end.0, mbps: p.rate.0 };
        LinkView {
            name,
            capacity_mbps: l.capacity.0,
            members: l
                .jobs
                .iter()
                .zip(l.demands)
                .map(|(j, phases)| MemberView { job: j.index(), phases: phases.iter().map(phase).collect() })
                .collect(),
            zero_shift_score: l.zero_shift_score,
            score: l.score,
            explanation,
            alike: l.links.len().saturating_sub(1),
            ..LinkView::default()
        }
    };
    e.links().map(view).collect()
}

fn fabric_view(ranking: &Ranking<'_>, best: Option<&Evaluation>) -> FabricView {
    let fabric = ranking.cluster.fabric;
    let nodes = fabric.nodes().iter().zip(tiers(fabric)).map(|(n, tier)| NodeView { name: n.name.clone(), tier });
    let mut links: Vec<MapLinkView> =
        fabric.links().iter().map(|l| MapLinkView { from: l.from.node.index(), to: l.to.node.index(), ..MapLinkView::default() }).collect();
    for l in best.iter().flat_map(|e| e.links()) {
        // A row of the planner stands for all links with the same demands; on the map each of them has the colour.
        for id in l.links {
            let link = &mut links[id.index()];
            link.score = Some(l.score);
            link.jobs = l.jobs.iter().map(|j| j.index()).collect();
        }
    }
    FabricView { name: fabric.name().to_owned(), nodes: nodes.collect(), links }
}
