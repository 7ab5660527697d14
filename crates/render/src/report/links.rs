//! The worst links, each with its circles, its timeline and the reason for its score.

use alloc::format;

use super::{Context, PICTURES_MAX};
use crate::{circles, html::Html, quantity, timeline};

/// Links that are open when the page is opened.
const OPEN: usize = 2;

/// One disclosure per link.
pub(super) fn worst(page: &mut Html, context: &Context<'_>) {
    if context.links.is_empty() {
        return;
    }
    page.section("worst", "Worst links first");
    if context.links.len() > PICTURES_MAX {
        page.raw("<p>");
        let rows = quantity::count(context.links.len());
        let alike: usize = context.links.iter().map(|l| l.alike).sum();
        let links = quantity::count(context.links.len() + alike);
        let of = if alike == 0 { format!("{rows} links") } else { format!("{rows} rows, which stand for {links} links") };
        page.text(&format!("Pictures of the worst {PICTURES_MAX} of {of}; the rest are rows in the table below."));
        page.raw("</p>\n");
    }
    for (at, link) in context.links.iter().enumerate().take(PICTURES_MAX) {
        // The id is the place in the order of scores, to which the table's rows lead.
        page.raw(&format!("<details id=\"link-{at}\"{}>\n<summary><strong>", if at < OPEN { " open=\"\"" } else { "" }));
        page.name(&link.name).raw("</strong> score <b>").text(&quantity::score(link.score)).raw("</b>");
        page.meter(link.score);
        let jobs = quantity::counted(link.members.len(), "job", "jobs");
        page.text(&format!("{} without shifts, {jobs}", quantity::score(link.zero_shift_score)));
        page.raw("</summary>\n<div class=\"body\">\n");
        if !link.explanation.is_empty() {
            page.raw("<p>").sentence(&link.explanation).raw("</p>\n");
        }
        page.raw("<div class=\"figures\"><figure>").raw(&circles::draw(link, &context.view.jobs, &context.colours).fragment());
        page.raw("</figure><figure>").raw(&timeline::draw(&link.name, &[link], &context.view.jobs, &context.colours).fragment());
        page.raw("</figure></div>\n</div>\n</details>\n");
    }
    page.raw("</section>\n");
}
