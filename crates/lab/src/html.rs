//! The result of an experiment as one self-contained page. The pictures on it are drawn by the crate `render`.

use render::{
    bars::{self, BarView},
    circles, experiment,
    html::Html,
    palette::Colours,
    view::{Apart, JobView, LinkView, MemberView, PhaseView},
};

use crate::{
    analysis::Spread,
    hold::Hold,
    report::{JobRow, LinkRow, Report, UpRow},
};

/// Links whose circles are drawn, the worst first: the links of a case that differ in their jobs are seldom more.
const CIRCLES_MAX: usize = 4;

/// The page.
pub(crate) fn page(report: &Report) -> String {
    let mut page = experiment::open(&format!("{}: Antiphase lab", report.case), &report.case);
    page.raw("<p>").text(&report.about).raw("</p>");
    if let Some(torch) = &report.torch {
        page.raw("<p>").text(&format!("Trained by DistributedDataParallel of PyTorch {torch}, over {}.", report.over())).raw("</p>");
    }
    let place = if report.load.is_some() {
        "played on a kernel: network namespaces, TCP, a marking queue"
    } else {
        "in virtual time: the service and the gates as they are, on a simulated fabric"
    };
    page.raw("<p class=\"muted\">").text(&format!(
        "Score with shifts {:.3}, without {:.3}, each the mean over the shared links; {place}; {}.",
        report.score,
        report.zero_shift_score,
        if report.repeats == 1 {
            "one run, bars are its means".to_owned()
        } else {
            format!("{} repeats, bars are medians of means", report.repeats)
        }
    ));
    page.raw("</p>");
    // A colour per job on the whole page, as far as there are colours.
    let (views, links): (Vec<JobView>, Vec<LinkView>) = (report.jobs.iter().map(job_view).collect(), link_views(report));
    let colours = Colours::assign(views.len(), []);
    iterations(&mut page, report, &colours);
    table(&mut page, report);
    page.raw("<h2>Circles</h2>");
    if links.is_empty() {
        page.raw("<p>No link can be over capacity, or this result was written before demands were kept: there is nothing to draw.</p>");
    }
    for link in links.iter().take(CIRCLES_MAX) {
        page.raw("<figure>").raw(&circles::draw(link, &views, &colours).fragment()).raw("</figure>");
    }
    experiment::close(page)
}

/// How long the iterations of each job are: alone, as they come, and held.
fn iterations(page: &mut Html, report: &Report, colours: &Colours) {
    // One scale for all jobs, so that bars of two jobs can be compared as well.
    let longest = report.jobs.iter().flat_map(|j| j.mean_ms.named(report.held_by)).map(|(_, s)| s.median);
    let longest = longest.fold(1.0, f64::max);
    page.raw("<h2>Iterations</h2>");
    for (i, job) in report.jobs.iter().enumerate() {
        let times = job.mean_ms.named(report.held_by).into_iter();
        let bar = |(name, time): (&str, Spread)| BarView { name: name.into(), value: time.median, said: format!("{:.1} ms", time.median) };
        let bars: Vec<BarView> = times.map(bar).collect();
        page.raw("<h3>").text(&job.id).raw(" <span class=\"muted\">").text(&format!("gain {:.1} %", 100.0 * job.gain.median));
        page.raw("</span></h3>");
        page.raw(&bars::draw(&format!("iterations of {}", job.id), &colours.class(i), &bars, longest).fragment());
    }
}

fn table(page: &mut Html, report: &Report) {
    // A baseline that was not played has no column; all links are played alike.
    let runs: Vec<&str> = report
        .links
        .first()
        .map_or_else(Vec::new, |link| link.marks_per_iteration.named(report.held_by).into_iter().skip(1).map(|(name, _)| name).collect());
    page.raw("<h2>Shared links</h2><table><tr><th>Link</th><th>Jobs</th><th class=\"n\">Score</th>");
    for quantity in ["ECN marks per iteration", "Overlap"] {
        for run in &runs {
            page.raw("<th class=\"n\">").text(&format!("{quantity}, {run}")).raw("</th>");
        }
    }
    page.raw("</tr>");
    for link in report.links.iter().filter(|l| l.shared) {
        page.raw("<tr><td>").text(&link.link).raw("</td><td>").text(&link.jobs.join(", ")).raw("</td>");
        let marks = link.marks_per_iteration.named(report.held_by).into_iter().skip(1).map(|(_, s)| format!("{:.1}", s.median));
        let beside = link.overlap_beside.iter().map(|(_, spread)| *spread);
        let overlaps = [link.overlap_contended].into_iter().chain(beside).chain([link.overlap_held]).map(|s| format!("{:.2}", s.median));
        for cell in std::iter::once(format!("{:.3}", link.score)).chain(marks).chain(overlaps) {
            page.raw("<td class=\"n\">").text(&cell).raw("</td>");
        }
        page.raw("</tr>");
    }
    page.raw("</table>");
}

/// Nanoseconds of a time of the report. What is not a time is 0.
fn ns(ms: f64) -> u64 {
    // The cast saturates: a time that is negative or no number becomes 0.
    (ms * 1e6).round() as u64
}

fn job_view(job: &JobRow) -> JobView {
    JobView {
        name: job.id.clone(),
        period_ns: ns(job.period_ms),
        shift_ns: ns(job.shift_ms),
        slack_ns: Some(ns(job.slack_ms)),
        ..JobView::default()
    }
}

/// The links that can be over capacity, worst first; those with the same jobs and demands are one picture.
fn link_views(report: &Report) -> Vec<LinkView> {
    let mut rows: Vec<(&LinkRow, usize)> = Vec::new();
    for link in report.links.iter().filter(|l| l.shared && l.demand_mbps.len() == l.jobs.len()) {
        let same = |row: &&mut (&LinkRow, usize)| {
            (&row.0.jobs, &row.0.demand_mbps, row.0.capacity_mbps) == (&link.jobs, &link.demand_mbps, link.capacity_mbps)
        };
        match rows.iter_mut().find(same) {
            Some(row) => row.1 += 1,
            // Links with equal jobs, demands and capacity would give equal pictures.
            None => rows.push((link, 0)),
        }
    }
    // Equal scores go by name, so that a report always gives the same page.
    rows.sort_by(|(a, _), (b, _)| a.score.total_cmp(&b.score).then_with(|| a.link.cmp(&b.link)));
    rows.into_iter().map(|(link, alike)| link_view(report, link, alike)).collect()
}

fn link_view(report: &Report, link: &LinkRow, alike: usize) -> LinkView {
    let member = |(id, mbps): (&String, &u64)| {
        // A report read from a file may name a job that it does not hold; such a member is left out.
        let job = report.jobs.iter().position(|j| j.id == *id)?;
        let phase = |up: &UpRow| PhaseView { start_ns: ns(up.start_ms), end_ns: ns(up.end_ms), mbps: *mbps };
        Some(MemberView { job, phases: report.jobs[job].ups.iter().map(phase).collect() })
    };
    LinkView {
        name: if alike > 0 { format!("{} and {alike} like it", link.link) } else { link.link.clone() },
        capacity_mbps: link.capacity_mbps,
        members: link.jobs.iter().zip(&link.demand_mbps).filter_map(member).collect(),
        zero_shift_score: link.zero_shift_score.unwrap_or(f64::NAN),
        score: link.score,
        apart: if report.held_by == Hold::Turns { Apart::Turns } else { Apart::Shifts },
        alike,
        ..LinkView::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_every_job_and_shared_link() {
        let case = crate::find_case("three-in-a-loop").unwrap();
        let report = crate::virtual_time::run(&case, 1, 20, (Hold::Slots, &[])).unwrap();
        let page = page(&report);
        assert!(report.jobs.iter().all(|j| page.contains(&format!("<h3>{} ", j.id))));
        let escaped = |name: &str| name.replace('>', "&gt;");
        assert!(report.links.iter().filter(|l| l.shared).all(|l| page.contains(&escaped(&l.link))));
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        // Of the links that can be over capacity both circles are drawn, with the scores that the plan gave.
        let worst = report.links.iter().filter(|l| !l.demand_mbps.is_empty()).min_by(|a, b| a.score.total_cmp(&b.score)).unwrap();
        assert!(page.contains("before: no shifts") && page.contains("after: shifted"));
        let score = |score: f64| format!(">{:.3}</text>", (score * 1e3 + 1e-6).floor() / 1e3);
        assert!(page.contains(&score(worst.score)) && page.contains(&score(worst.zero_shift_score.unwrap())));
    }

    #[test]
    fn a_result_without_demands_has_no_circles() {
        let case = crate::find_case("three-in-a-loop").unwrap();
        let mut report = crate::virtual_time::run(&case, 1, 20, (Hold::Slots, &[])).unwrap();
        report.links.iter_mut().for_each(|l| (l.demand_mbps, l.zero_shift_score) = (Vec::new(), None));
        assert!(page(&report).contains("there is nothing to draw"));
    }
}
