//! One self-contained HTML file that tells a plan: what was chosen, what it gains, which links
//! are worst and why. It loads nothing, so it works offline and can be mailed.
//!
//! The content security policy forbids everything but the file's own style and script, named by
//! their hashes; no attribute holds style or script. All text from outside is escaped.

mod links;
mod tables;

use alloc::{borrow::ToOwned as _, format, string::String, vec::Vec};

use super::{
    fabric_map,
    html::Html,
    palette::Colours,
    quantity, style, text,
    view::{LinkView, ReportView},
};

/// Links that get pictures; the rest are rows. 25 pictures are about 1 MB.
pub const PICTURES_MAX: usize = 25;
/// Most rows of one table: a browser lays out five thousand in about a second.
pub const ROWS_MAX: usize = 5_000;
/// Notes printed.
const NOTES_MAX: usize = 50;

const PAGE_CSS: &str = include_str!("page.css");
const PAGE_JS: &str = include_str!("page.js");

/// Everything the sections need.
struct Context<'a> {
    view: &'a ReportView,
    colours: Colours,
    /// The links, worst first.
    links: Vec<&'a LinkView>,
}

/// Writes the report.
///
/// `source_hash` names a text by its hash as content security policies do, for example `'sha256-...'` (CSP level 3, section 2.3.1):
/// hashing is left to whoever calls, so that drawing needs no cryptography.
#[must_use]
pub fn html(view: &ReportView, source_hash: fn(&str) -> String) -> String {
    let mut links: Vec<&LinkView> = view.links.iter().collect();
    // NaN is worst; equal scores go by the score without shifts, and then by name.
    let rank = |score: f64| if score.is_nan() { f64::NEG_INFINITY } else { score };
    links.sort_by(|a, b| {
        let by_score = rank(a.score).total_cmp(&rank(b.score));
        by_score.then(rank(a.zero_shift_score).total_cmp(&rank(b.zero_shift_score))).then_with(|| a.name.cmp(&b.name))
    });
    // Colours are assigned once for all links of the report, so a job has one colour on every picture.
    let context = Context { view, colours: Colours::assign(view.jobs.len(), &view.links), links };

    let mut page = Html::default();
    head(&mut page, view, source_hash);
    header(&mut page, &context);
    page.raw("<main id=\"main\">\n");
    tables::candidates(&mut page, &context);
    links::worst(&mut page, &context);
    tables::links(&mut page, &context);
    tables::jobs(&mut page, &context);
    map(&mut page, &context);
    page.raw("</main>\n");
    footer(&mut page, view);
    page.raw("<script>").raw(PAGE_JS).raw("</script>\n</body>\n</html>\n");
    page.finish()
}

fn css() -> String {
    format!("{}\n{PAGE_CSS}{}", style::in_both_themes(style::text_variables), style::stylesheet())
}

fn head(page: &mut Html, view: &ReportView, source_hash: fn(&str) -> String) {
    // The style is made once: the policy holds the hash of the very bytes that stand in the page.
    let css = css();
    let (style, script) = (source_hash(&css), source_hash(PAGE_JS));
    // Everything is forbidden but the style and the script with these hashes: a name that slipped through escaping could not run.
    let policy = format!("default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'");
    page.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"").text(&policy).raw("\"/>\n");
    page.raw(
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n",
    );
    page.raw("<title>").text(&text::name(&view.title)).raw("</title>\n<style>").raw(&css).raw("</style>\n</head>\n<body>\n");
    page.raw("<a class=\"skip\" href=\"#main\">Skip to the tables</a>\n");
    page.raw(&style::sheet_of_patterns()).raw("\n");
}

/// The summary: one sentence, then the facts.
fn header(page: &mut Html, context: &Context<'_>) {
    let view = context.view;
    let fabric = &view.fabric;
    page.raw("<header>\n<h1>").name(&view.title).raw("</h1>\n<p class=\"lead\">");
    // A row stands for all links like it, so the sentence counts `alike` as well.
    let all = |links: &mut dyn Iterator<Item = &&LinkView>| links.map(|l| 1 + l.alike).sum::<usize>();
    let over = |score: fn(&LinkView) -> f64| all(&mut context.links.iter().filter(|l| !quantity::is_compatible(score(l))));
    // As many as the table of candidates says.
    let shared = all(&mut context.links.iter()) + view.never_overloaded_links;
    let carry = if shared == 1 { "carries" } else { "carry" };
    match (shared, over(|l| l.zero_shift_score), over(|l| l.score)) {
        (0, ..) => page.text("No link carries two jobs: nothing contends, nothing needs a shift."),
        (_, before, after) => {
            page.text(&format!("{} {carry} two or more jobs. Without shifts ", quantity::counted(shared, "link", "links")));
            page.text(&format!("{} over capacity at times; with shifts {}.", are(before), are(after)))
        }
    };
    page.raw("</p>\n<dl class=\"facts\">\n");
    let hosts = fabric.nodes.iter().filter(|n| n.tier == 0).count();
    let size = format!(
        "{}, {}, {}",
        quantity::counted(hosts, "host", "hosts"),
        quantity::counted(fabric.nodes.len() - hosts, "switch", "switches"),
        quantity::counted(fabric.links.len(), "directed link", "directed links")
    );
    page.fact("Fabric", &text::name(&fabric.name), &size);
    let shifted = view.jobs.iter().filter(|j| j.shift_ns > 0).count();
    page.fact("Jobs", &quantity::count(view.jobs.len()), &format!("{} shifted", quantity::count(shifted)));
    if let Some(chosen) = view.candidates.iter().find(|c| c.chosen) {
        let of = format!("of {}", quantity::counted(view.candidates.len(), "candidate", "candidates"));
        page.fact("Chosen candidate", &text::name(&chosen.name), &of);
    }
    page.fact("Mean score", &quantity::score(view.mean_score), &format!("{} without shifts", quantity::score(view.zero_shift_mean_score)));
    let optimality = if view.proven {
        "proven: no shifts score better".to_owned()
    } else {
        format!("not proven; {} from the best", quantity::at_most(view.bound_gap))
    };
    page.fact("Mode", &text::name(&view.mode), &optimality);
    page.raw("</dl>\n<nav aria-label=\"Sections\"><ul>");
    for (id, name, there) in [
        ("candidates", "Candidates", !view.candidates.is_empty()),
        ("worst", "Worst links", !context.links.is_empty()),
        ("links", "Links over capacity", !context.links.is_empty()),
        ("jobs", "Jobs", true),
        ("fabric", "Fabric", !fabric.nodes.is_empty()),
    ] {
        if there {
            page.raw(&format!("<li><a href=\"#{id}\">{name}</a></li>"));
        }
    }
    page.raw("</ul></nav>\n</header>\n");
}

fn are(n: usize) -> String {
    if n == 0 {
        return "none is".to_owned();
    }
    format!("{} {}", quantity::count(n), if n == 1 { "is" } else { "are" })
}

fn map(page: &mut Html, context: &Context<'_>) {
    if context.view.fabric.nodes.is_empty() {
        return;
    }
    page.section("fabric", "Fabric");
    page.raw(
        "<p>Links are coloured and thickened by their score under the shifts; hover over one for its jobs.</p>\n<figure class=\"map\">",
    );
    page.raw(&fabric_map::draw(&context.view.fabric, &context.view.jobs).fragment());
    page.raw("</figure>\n</section>\n");
}

fn footer(page: &mut Html, view: &ReportView) {
    page.raw("<footer>\n");
    if !view.notes.is_empty() {
        page.raw("<p>Assumptions:</p>\n<ul>");
        for note in view.notes.iter().take(NOTES_MAX) {
            page.raw("<li>").sentence(note).raw("</li>");
        }
        page.raw("</ul>\n");
    }
    page.raw(
        "<p>The score of a link is 1 minus its mean excess demand over its capacity: 1.000 is never over capacity; it may be negative. ",
    );
    page.raw("Iteration times are predictions. A shift delays every iteration of a job by the same time on all links; ");
    page.raw("the slack is how far it may drift before a score falls. Held: no where the jobs are predicted to be faster if they run as they come.</p>\n");
    page.raw("<p>Made by <code>").sentence(&view.made_by).raw("</code>. This file loads nothing from anywhere.</p>\n</footer>\n");
}
