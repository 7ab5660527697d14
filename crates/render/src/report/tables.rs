//! The tables: candidates, shared links, jobs.

use alloc::{format, string::ToString as _};

use super::{Context, PICTURES_MAX, ROWS_MAX};
use crate::{html::Html, quantity, view::LinkView};

/// Jobs named in one row.
const JOBS_NAMED_MAX: usize = 6;

/// The candidates in the order given: best first.
pub(super) fn candidates(page: &mut Html, context: &Context<'_>) {
    let candidates = &context.view.candidates;
    if candidates.is_empty() {
        return;
    }
    page.section("candidates", "Candidates, best first");
    page.table(
        "",
        "Candidates",
        &[
            ("rank", "number"),
            ("candidate", "text"),
            ("mean score", "number"),
            ("worst link", "number"),
            ("shared links", "number"),
            ("time: free", "number"),
            ("turns", "number"),
            ("slots", "number"),
            ("overlap: free", "number"),
            ("chosen", "number"),
            ("held", "text"),
            ("note", "text"),
        ],
        candidates.len() > 20,
    );
    for (at, candidate) in candidates.iter().enumerate().take(ROWS_MAX) {
        page.raw(if candidate.chosen { "<tr class=\"chosen\">" } else { "<tr>" });
        page.number(Some((at + 1) as f64), &(at + 1).to_string());
        page.raw("<th scope=\"row\">").name(&candidate.name);
        if candidate.chosen {
            page.raw("<span class=\"badge\">chosen</span>");
        }
        page.raw("</th>");
        page.score(candidate.mean_score);
        page.score(candidate.worst_score);
        page.number(Some(candidate.shared_links as f64), &quantity::count(candidate.shared_links));
        for time in [candidate.free_time, candidate.turns_time, candidate.slots_time] {
            page.number(time, &quantity::times(time));
        }
        for overlap in [candidate.free_overlap, candidate.chosen_overlap] {
            page.number(overlap, &overlap.map(|part| format!("{part:.2}")).unwrap_or_default());
        }
        page.raw("<td>").text(if candidate.held.is_empty() { "–" } else { &candidate.held }).raw("</td><td class=\"text\">");
        if !candidate.note.is_empty() {
            page.sentence(&candidate.note);
        }
        page.raw("</td></tr>\n");
    }
    page.end_table();
    cut(page, candidates.len(), "candidates");
    page.raw("<p class=\"muted\">Time: predicted iteration over the period, mean over the GPUs; free: as the jobs come; turns: by turns, of those who gain; ");
    page.raw("slots: by slots, of those who gain. Overlap: share of the time in use in which links are above capacity; chosen: with those held.</p>\n");
    page.raw("</section>\n");
}

/// Every shared link, worst first, with a filter.
pub(super) fn links(page: &mut Html, context: &Context<'_>) {
    if context.links.is_empty() {
        return;
    }
    page.section("links", "Links that can be over capacity, worst first");
    if context.view.never_overloaded_links > 0 {
        let fit = quantity::counted(
            context.view.never_overloaded_links,
            "link that two or more jobs share is",
            "links that two or more jobs share are",
        );
        page.raw("<p>").text(&format!("{fit} not listed: there the jobs fit together whatever their shifts.")).raw("</p>\n");
    }
    page.raw(
        "<p class=\"filter\"><label>Show rows with <input type=\"search\" data-filters=\"link-table\" data-says=\"link-count\" \
         placeholder=\"link or job\" autocomplete=\"off\" spellcheck=\"false\"/></label> \
         <span id=\"link-count\" class=\"muted\" role=\"status\"></span></p>\n",
    );
    let columns = [("link", "text"), ("capacity", "number"), ("without shifts", "number"), ("with shifts", "number"), ("jobs", "text")];
    page.table("link-table", "Shared links", &columns, context.links.len() > 20);
    for (at, link) in context.links.iter().enumerate().take(ROWS_MAX) {
        link_row(page, context, at, link);
    }
    page.end_table();
    cut(page, context.links.len(), "links");
    page.raw("</section>\n");
}

fn link_row(page: &mut Html, context: &Context<'_>, at: usize, link: &LinkView) {
    page.raw("<tr><th scope=\"row\">");
    // Only the first rows have a picture to lead to.
    if at < PICTURES_MAX {
        page.raw(&format!("<a href=\"#link-{at}\">")).name(&link.name).raw("</a>");
    } else {
        page.name(&link.name);
    }
    page.raw("</th>");
    page.number(Some(link.capacity_mbps as f64), &quantity::rate(link.capacity_mbps as f64));
    page.score(Some(link.zero_shift_score));
    page.score(Some(link.score));
    page.raw("<td class=\"text\">");
    let names = link.members.iter().filter_map(|m| context.view.jobs.get(m.job)).map(|j| &j.name);
    for (n, name) in names.take(JOBS_NAMED_MAX).enumerate() {
        page.raw(if n > 0 { ", " } else { "" }).name(name);
    }
    // A link of a large cluster may carry hundreds of jobs, which would make one row a page.
    if let Some(more) = link.members.len().checked_sub(JOBS_NAMED_MAX).filter(|more| *more > 0) {
        page.text(&format!(" and {} more", quantity::count(more)));
    }
    page.raw("</td></tr>\n");
}

/// The jobs, in the order given.
pub(super) fn jobs(page: &mut Html, context: &Context<'_>) {
    let jobs = &context.view.jobs;
    page.section("jobs", "Jobs");
    if jobs.is_empty() {
        page.raw("<p>No job crosses the fabric.</p>\n</section>\n");
        return;
    }
    page.table(
        "",
        "Jobs",
        &[
            ("job", "text"),
            ("period", "number"),
            ("solo", "number"),
            ("free", "number"),
            ("turns", "number"),
            ("slots", "number"),
            ("change", "number"),
            ("shift", "number"),
            ("slack", "number"),
            ("held", "text"),
        ],
        jobs.len() > 20,
    );
    for (at, job) in jobs.iter().enumerate().take(ROWS_MAX) {
        page.raw("<tr><th scope=\"row\">");
        page.swatch(&context.colours.class(at));
        page.name(&job.name).raw("</th>");
        page.time(Some(job.period_ns));
        page.time(job.solo_ns);
        page.time(job.contended_ns);
        page.time(job.turns_ns);
        page.time(job.slots_ns);
        match job.contended_ns.zip(job.interleaved_ns).filter(|(before, _)| *before > 0) {
            Some((before, after)) => page.number(Some(after as f64 / before as f64 - 1.0), &quantity::change(before, after)),
            None => page.number(None, ""),
        }
        page.time(Some(job.shift_ns));
        page.number(job.slack_ns.map(|s| s as f64), &job.slack_ns.map(|s| quantity::slack(s, job.period_ns)).unwrap_or_default());
        page.raw("<td>").text(if job.held.is_empty() { "–" } else { &job.held }).raw("</td></tr>\n");
    }
    page.end_table();
    cut(page, jobs.len(), "jobs");
    page.raw("</section>\n");
}

/// Says how much a table leaves out.
fn cut(page: &mut Html, count: usize, what: &str) {
    if count > ROWS_MAX {
        page.raw("<p class=\"muted\">")
            .text(&format!("The first {} of {} {what}.", quantity::count(ROWS_MAX), quantity::count(count)))
            .raw("</p>\n");
    }
}
