//! The report of one run: when jobs were done, how fair that was, who had which GPUs, and what the network carried.

use std::collections::BTreeMap;

use ::sim::trace::{Change, NetworkOutcome, Outcome, Trace};
use render::{
    bars::{self, BarView},
    curves::{self, CurveView},
    experiment,
    gantt::{self, ROWS_MAX, RowView},
    html::Html,
    series::{self, SeriesView},
};

use super::{Answer, World, recording::Events};
use crate::commands::HOUR_S;

/// Jobs of a link that are drawn at a time: with the dozen links that are named they fill the rows of a picture.
const LANES: usize = 5;

/// What was played.
#[derive(Clone, Copy)]
pub(super) struct Played<'a> {
    pub(super) trace: &'a Trace,
    pub(super) world: &'a World,
    pub(super) events: &'a Events,
}

impl Played<'_> {
    /// Hours since the first submission: a trace may begin at any time of its clock.
    fn hours(&self, at_s: f64) -> f64 {
        (at_s - self.trace.began_s()) / HOUR_S
    }
}

/// Unit of the axis of time.
const HOURS: &str = "hours since the first submission";

/// One HTML file that loads nothing.
pub(super) fn page(answer: &Answer, outcome: &Outcome, played: &Played<'_>) -> String {
    let mut page = experiment::open("A trace, played", "A trace, played");
    page.raw("<p>").text(&summary(answer, played)).raw("</p>\n");
    let hours: Vec<f64> = outcome.jct_s.iter().map(|time| time / HOUR_S).collect();
    distribution(&mut page, "Completion times", "from submission to end, in hours; the last twentieth is cut", &hours, 0.95);
    distribution(
        &mut page,
        "Finish-time fairness",
        "rho: completion time over that alone on a fair share of the cluster; below 1 a job had more than its share",
        &outcome.rho,
        0.99,
    );
    in_use(&mut page, outcome, played);
    gpus(&mut page, outcome, played);
    if let Some(network) = &outcome.network {
        links(&mut page, network, outcome, played);
        fabric(&mut page, network, played);
    }
    experiment::close(page)
}

fn summary(answer: &Answer, played: &Played<'_>) -> String {
    let network = answer.network.as_ref().map(|network| {
        let (ranker, control) = (&network.ranker, &network.control);
        let (mean, p99) = (network.iteration_mean, network.iteration_p99);
        let marks = network.marks_per_iteration;
        format!(
            " On the fabric, with ranker {ranker} and control {control}, iterations took {mean:.3} times as long as alone, {p99:.2} times at p99, with {marks:.1} ECN marks each."
        )
    });
    format!(
        "{} jobs under {} ({} timing) on {} GPUs: completed after {:.1} h on average and {:.1} h at p99, all after {:.1} h, with {} preemptions.{}",
        answer.jobs,
        answer.policy,
        answer.timing,
        played.world.capacity.all(),
        answer.avg_jct_s / HOUR_S,
        answer.p99_jct_s / HOUR_S,
        answer.makespan_s / HOUR_S,
        answer.preemptions,
        network.unwrap_or_default(),
    )
}

/// Which share of the jobs is at most there; beyond the share `shown` nothing is drawn.
fn distribution(page: &mut Html, heading: &str, unit: &str, values: &[f64], shown: f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = |share: f64| sorted.get((share * last as f64) as usize).copied().unwrap_or(0.0);
    let percentiles: Vec<f64> = (0..=100).map(|percent| at(f64::from(percent) / 100.0)).collect();
    page.raw("<h2>").text(heading).raw("</h2><figure>");
    let curve = CurveView { name: "share of the jobs".into(), percentiles };
    page.raw(&curves::draw(heading, unit, &[curve], (0.0, at(shown))).fragment()).raw("</figure>\n");
}

/// GPUs in use, and jobs that wait, over time.
fn in_use(page: &mut Html, outcome: &Outcome, played: &Played<'_>) {
    let (mut used, mut waiting) = (0_i64, 0_i64);
    let (mut gpus, mut jobs) = (vec![(0.0, 0.0)], vec![(0.0, 0.0)]);
    let mut running: BTreeMap<u32, i64> = BTreeMap::new();
    let mut asked_for = "GPUs that running jobs ask for";
    for event in played.events.of_jobs() {
        let own = played.trace.jobs.get(event.job as usize).map_or(0, |job| i64::from(job.gpus));
        match event.change {
            Change::Arrives => waiting += 1,
            Change::Starts => {
                (used, waiting) = (used + own, waiting - 1);
                running.insert(event.job, own);
            }
            Change::Stops | Change::Fails => {
                (used, waiting) = (used - running.remove(&event.job).unwrap_or(own), waiting + 1);
            }
            Change::Ends => used -= running.remove(&event.job).unwrap_or(0),
            Change::Moves | Change::Grows | Change::Shrinks => {
                // A job that has grown and moves has what it asked for.
                let grew = matches!(event.change, Change::Grows | Change::Shrinks);
                let has = if grew { event.places.iter().map(|(_, gpus)| i64::from(*gpus)).sum() } else { own };
                if grew {
                    asked_for = "GPUs that running jobs ask for, and that they grew onto";
                }
                used += running.insert(event.job, has).map_or(0, |had| has - had);
            }
        }
        let at_h = played.hours(event.at_s);
        gpus.push((at_h, used as f64));
        jobs.push((at_h, waiting as f64));
    }
    let highest = |steps: &[(f64, f64)]| steps.iter().map(|step| step.1).fold(1.0, f64::max);
    let until = outcome.makespan_s / HOUR_S;
    page.raw("<h2>Utilisation</h2><figure>");
    let cluster = f64::from(played.world.capacity.all());
    let top = highest(&gpus).max(cluster);
    let view = |name: &str, steps: Vec<(f64, f64)>| SeriesView { name: name.into(), steps };
    page.raw(&series::draw("GPUs in use", HOURS, &[view(asked_for, gpus)], until, top).fragment());
    page.raw("</figure><figure>");
    let top = highest(&jobs);
    page.raw(&series::draw("jobs that wait", HOURS, &[view("jobs that wait", jobs)], until, top).fragment());
    page.raw("</figure>\n");
}

/// A GPU, by host and number.
type Gpu = (u32, u32);

/// Who had the first GPUs.
fn gpus(page: &mut Html, outcome: &Outcome, played: &Played<'_>) {
    let hosts = played.world.capacity.full();
    let all = (0..).zip(hosts).flat_map(|(host, gpus)| (0..*gpus).map(move |gpu| (host, gpu)));
    let row = |gpu: Gpu| (gpu, RowView { name: format!("host {} gpu {}", gpu.0, gpu.1), bars: Vec::new() });
    let mut rows: BTreeMap<Gpu, RowView> = all.take(ROWS_MAX).map(row).collect();
    // Which GPUs of a host a job has is nobody's choice here: the first that are free. Jobs that share some are drawn once.
    let mut free: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
    let mut held: BTreeMap<u32, (f64, Vec<Gpu>)> = BTreeMap::new();
    let mut release = |job: u32, at_s: f64, held: &mut BTreeMap<u32, (f64, Vec<Gpu>)>, free: &mut BTreeMap<u32, Vec<bool>>| {
        let Some((since_s, gpus)) = held.remove(&job) else { return };
        for gpu in gpus {
            if let Some(slot) = free.get_mut(&gpu.0).and_then(|slots| slots.get_mut(gpu.1 as usize)) {
                *slot = true;
            }
            if let Some(row) = rows.get_mut(&gpu) {
                row.bars.push((job as usize, played.hours(since_s), played.hours(at_s)));
            }
        }
    };
    for event in played.events.of_jobs() {
        match event.change {
            Change::Arrives => {}
            Change::Stops | Change::Fails | Change::Ends => release(event.job, event.at_s, &mut held, &mut free),
            Change::Starts | Change::Moves | Change::Grows | Change::Shrinks => {
                release(event.job, event.at_s, &mut held, &mut free);
                let mut own = Vec::new();
                for &(host, gpus) in &event.places {
                    let slots = free.entry(host).or_insert_with(|| vec![true; hosts.get(host as usize).map_or(0, |gpus| *gpus as usize)]);
                    for (slot, gpu) in slots.iter_mut().zip(0..).filter(|(slot, _)| **slot).take(gpus as usize) {
                        *slot = false;
                        own.push((host, gpu));
                    }
                }
                held.insert(event.job, (event.at_s, own));
            }
        }
    }
    let rows: Vec<RowView> = rows.into_values().collect();
    if rows.iter().all(|row| row.bars.is_empty()) {
        return;
    }
    page.raw("<h2>GPUs by job</h2><p class=\"muted\">");
    page.text(&format!(
        "The first {} GPUs; each job has a colour, of which there are two dozen. Of jobs that share GPUs the first is drawn.",
        rows.len()
    ));
    page.raw("</p><figure>").raw(&gantt::draw("GPUs by job", HOURS, &rows, outcome.makespan_s / HOUR_S).fragment()).raw("</figure>\n");
}

/// Who sent over the busiest links.
fn links(page: &mut Html, network: &NetworkOutcome, outcome: &Outcome, played: &Played<'_>) {
    let Some(fabric) = played.world.fabric.as_ref().filter(|_| !network.stays.is_empty()) else { return };
    let mut rows: Vec<RowView> = Vec::new();
    for stays in network.stays.chunk_by(|a, b| a.link == b.link) {
        // Jobs that share a link at a time stand one below the other, each where there is room.
        let mut lanes: Vec<RowView> = Vec::new();
        for stay in stays {
            let (from_h, until_h) = (played.hours(stay.from_s), played.hours(stay.until_s));
            let at = lanes.iter().position(|lane| lane.bars.last().is_none_or(|bar| bar.2 <= from_h)).unwrap_or(lanes.len());
            if at == lanes.len() && at < LANES {
                lanes.push(RowView::default());
            }
            if let Some(lane) = lanes.get_mut(at) {
                lane.bars.push((stay.job as usize, from_h, until_h));
            }
        }
        if let (Some(first), Some(stay)) = (lanes.first_mut(), stays.first()) {
            first.name = fabric.link_name(stay.link);
        }
        rows.extend(lanes);
    }
    page.raw("<h2>The busiest links by job</h2><p class=\"muted\">");
    page.text(&format!(
        "Who stood where it sends over them, the busiest first, in the colours of above; jobs that share a link at a time are below each other, {LANES} at most."
    ));
    page.raw("</p><figure>").raw(&gantt::draw("The busiest links by job", HOURS, &rows, outcome.makespan_s / HOUR_S).fragment());
    page.raw("</figure>\n");
}

fn fabric(page: &mut Html, network: &NetworkOutcome, played: &Played<'_>) {
    page.raw("<h2>Iterations on the fabric</h2><figure>");
    let curve = CurveView { name: "share of iterations".into(), percentiles: network.percentiles.to_vec() };
    let longest = network.iteration_p99.clamp(1.2, 4.0);
    page.raw(&curves::draw("iterations", "iteration over the same alone where the job stands", &[curve], (1.0, longest)).fragment());
    page.raw("</figure>\n");
    // Without any mark a curve has nothing to show.
    let most = network.mark_percentiles.iter().copied().fold(0.0, f64::max);
    page.raw("<h2>ECN marks</h2>");
    if most > 0.0 {
        let curve = CurveView { name: "share of iterations".into(), percentiles: network.mark_percentiles.to_vec() };
        let unit = "ECN marks on all links for each iteration of the jobs that meet";
        page.raw("<figure>").raw(&curves::draw("ECN marks", unit, &[curve], (0.0, most)).fragment()).raw("</figure>\n");
    } else {
        page.raw("<p>").text("None.").raw("</p>\n");
    }
    let Some(fabric) = played.world.fabric.as_ref().filter(|_| !network.busiest.is_empty()) else { return };
    page.raw("<h2>The busiest links</h2><p class=\"muted\">Share of the capacity that was carried, from the first submission to the last end.</p><figure>");
    let bar = |(at, (_, share)): (usize, &(units::LinkId, f64))| BarView {
        name: format!("link {}", at + 1),
        value: *share,
        said: format!("{:.1} %", share * 100.0),
    };
    let views: Vec<BarView> = network.busiest.iter().enumerate().map(bar).collect();
    let longest = network.busiest.first().map_or(1.0, |link| link.1);
    page.raw(&bars::draw("the busiest links", "j1", &views, longest).fragment()).raw("</figure><ol>");
    for (link, _) in &network.busiest {
        page.raw("<li>").name(&fabric.link_name(*link)).raw("</li>");
    }
    page.raw("</ol>\n");
}
