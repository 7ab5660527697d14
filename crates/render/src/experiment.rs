//! The page of an experiment: one HTML file that loads nothing, in the style of the pictures on it.

use alloc::string::String;

use crate::{html::Html, style};

/// What the page adds to the style of pictures.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{margin:0;background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,sans-serif}main{max-width:80rem;margin:2rem auto;padding:0 1rem}\
main>p,main>ul{max-width:62rem}.muted,figcaption{color:var(--muted)}table{border-collapse:collapse;font-variant-numeric:tabular-nums}.scroll{overflow-x:auto}\
td,th{padding:.15rem .8rem .15rem 0;text-align:left;white-space:nowrap}td.n,th.n{text-align:right}td{vertical-align:top}td.wraps{white-space:normal;min-width:20rem}figure{margin:0 0 1.5rem;overflow-x:auto}\
code{background:var(--card);padding:.1rem .3rem;border-radius:.2rem}";

/// Opens a page, up to its heading. `title` stands in the browser's tab, `heading` on the page; both are escaped.
#[must_use]
pub fn open(title: &str, heading: &str) -> Html {
    let mut page = Html::default();
    page.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">");
    page.raw("<title>").text(title).raw("</title><style>").raw(&style::page()).raw(STYLE).raw("</style></head>\n<body>");
    page.raw(&style::sheet_of_patterns()).raw("<main><h1>").text(heading).raw("</h1>\n");
    page
}

/// Says which command makes the page.
pub fn made_by(page: &mut Html, command: &str) {
    page.raw("<p>Made by <code>").text(command).raw("</code></p>\n");
}

/// A list of sentences under a heading of its own.
pub fn sentences(page: &mut Html, heading: &str, sentences: &[&str]) {
    page.raw("<h2>").text(heading).raw("</h2><ul>");
    for sentence in sentences {
        page.raw("<li>").text(sentence).raw("</li>");
    }
    page.raw("</ul>\n");
}

/// Closes the page.
#[must_use]
pub fn close(mut page: Html) -> String {
    page.raw("</main></body></html>\n");
    page.finish()
}
