//! The result of an experiment as one self-contained page.

use std::fmt::Write as _;

use crate::report::{JobRow, Report};

/// Colours of jobs: those of the reports of `antiphase plan`, light and dark.
const JOBS: [(&str, &str); 6] = [
    ("#3d4af0", "#2f76cc"),
    ("#a06333", "#fb971d"),
    ("#35928c", "#47c0a3"),
    ("#8154a9", "#ffa7ff"),
    ("#1698ff", "#abfee0"),
    ("#5a00a5", "#9b89ff"),
];
/// Width of the longest bar.
const BAR: f64 = 420.0;
/// Of the circle, its outermost ring and the pitch of the rings.
const CIRCLE: f64 = 220.0;
const OUTER: f64 = 98.0;
const PITCH: f64 = 14.0;
/// Turns of the shortest period that are drawn at most.
const TURNS_MAX: f64 = 12.0;

/// The page.
pub(crate) fn page(report: &Report) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}: Antiphase lab</title><style>{1}</style></head>\n<body><main><h1>{0}</h1><p>{2}</p>",
        escape(&report.case),
        style(),
        escape(&report.about)
    );
    if let Some(torch) = &report.torch {
        let _ = write!(out, "<p>Trained by DistributedDataParallel of PyTorch {}, over gloo.</p>", escape(torch));
    }
    let place = if report.load.is_some() {
        "played on a kernel: network namespaces, TCP, a marking queue"
    } else {
        "in virtual time: the service and the gates as they are, on a simulated fabric"
    };
    let _ = write!(
        out,
        "<p class=\"muted\">Score {:.3}, without shifts {:.3}; {place}; {} repeats, bars are medians of means.</p>",
        report.score, report.zero_shift_score, report.repeats
    );
    jobs(&mut out, report);
    links(&mut out, report);
    let _ = write!(
        out,
        "<h2>Circles</h2><div class=\"circles\"><figure>{}<figcaption>if nobody is shifted</figcaption></figure>\
         <figure>{}<figcaption>with the plan's shifts</figcaption></figure></div>",
        circle(&report.jobs, false),
        circle(&report.jobs, true)
    );
    out.push_str("</main></body></html>\n");
    out
}

fn style() -> String {
    let vars = |dark: bool| {
        let colours = JOBS.iter().enumerate().map(|(i, (light, night))| format!("--j{i}:{};", if dark { night } else { light }));
        colours.collect::<String>()
    };
    format!(
        ":root{{color-scheme:light dark;--ink:#16202c;--paper:#fff;--muted:#566273;--track:#edf0f4;--over:#9e001d;{}}}\
         @media(prefers-color-scheme:dark){{:root{{--ink:#e8edf3;--paper:#12161d;--muted:#9eabba;--track:#222a35;--over:#ff3b2b;{}}}}}\
         body{{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}}main{{max-width:62rem;margin:2rem auto;padding:0 1rem}}\
         .muted,figcaption{{color:var(--muted)}}table{{border-collapse:collapse;font-variant-numeric:tabular-nums}}\
         td,th{{padding:.2rem .8rem .2rem 0;text-align:left}}td.n,th.n{{text-align:right}}svg text{{fill:var(--ink);font:12px system-ui,sans-serif}}\
         .track{{fill:none;stroke:var(--track)}}.circles{{display:flex;flex-wrap:wrap;gap:2rem}}figure{{margin:0}}",
        vars(false),
        vars(true)
    )
}

fn jobs(out: &mut String, report: &Report) {
    let longest = report.jobs.iter().flat_map(|j| [j.mean_ms.solo, j.mean_ms.contended, j.mean_ms.interleaved]).map(|s| s.median);
    let longest = longest.fold(1.0, f64::max);
    out.push_str("<h2>Iterations</h2>");
    for (i, job) in report.jobs.iter().enumerate() {
        let bars =
            [("alone", job.mean_ms.solo, 0.45), ("as they come", job.mean_ms.contended, 0.75), ("held", job.mean_ms.interleaved, 1.0)];
        let _ = write!(out, "<h3>{} <span class=\"muted\">gain {:.1} %</span></h3>", escape(&job.id), 100.0 * job.gain.median);
        let _ = write!(out, "<svg width=\"640\" height=\"66\" role=\"img\" aria-label=\"iterations of {}\">", escape(&job.id));
        for (n, (name, spread, opacity)) in bars.into_iter().enumerate() {
            let (y, width) = (n as f64 * 22.0, spread.median / longest * BAR);
            let _ = write!(
                out,
                "<text x=\"0\" y=\"{:.0}\">{name}</text><rect x=\"92\" y=\"{:.0}\" width=\"{width:.1}\" height=\"16\" rx=\"2\" \
                 style=\"fill:var(--j{});opacity:{opacity}\"/><text x=\"{:.0}\" y=\"{:.0}\">{:.1} ms</text>",
                y + 13.0,
                y + 1.0,
                i % JOBS.len(),
                98.0 + width,
                y + 13.0,
                spread.median
            );
        }
        out.push_str("</svg>");
    }
}

fn links(out: &mut String, report: &Report) {
    out.push_str(
        "<h2>Shared links</h2><table><tr><th>Link</th><th>Jobs</th><th class=\"n\">Score</th><th class=\"n\">ECN marks per \
         iteration, as they come</th><th class=\"n\">held</th><th class=\"n\">Overlap, as they come</th><th class=\"n\">held</th></tr>",
    );
    for link in report.links.iter().filter(|l| l.shared) {
        let marks = &link.marks_per_iteration;
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{:.3}</td><td class=\"n\">{:.1}</td><td class=\"n\">{:.1}</td>\
             <td class=\"n\">{:.2}</td><td class=\"n\">{:.2}</td></tr>",
            escape(&link.link),
            escape(&link.jobs.join(", ")),
            link.score,
            marks.contended.median,
            marks.interleaved.median,
            link.overlap_contended.median,
            link.overlap_interleaved.median
        );
    }
    out.push_str("</table>");
}

/// One ring per job; the perimeter is a whole number of turns of the shortest period that holds the longest.
fn circle(jobs: &[JobRow], shifted: bool) -> String {
    let longest = jobs.iter().map(|j| j.period_ms).fold(0.0, f64::max);
    let c = CIRCLE / 2.0;
    let at = |turn: f64, radius: f64| {
        let angle = turn * std::f64::consts::TAU;
        format!("{:.2} {:.2}", c + radius * angle.sin(), c - radius * angle.cos())
    };
    let mut out = format!("<svg width=\"{CIRCLE}\" height=\"{CIRCLE}\" role=\"img\" aria-label=\"circles of the jobs\">");
    for (i, job) in jobs.iter().enumerate() {
        let radius = OUTER - i as f64 * PITCH;
        let _ = write!(out, "<circle class=\"track\" cx=\"{c}\" cy=\"{c}\" r=\"{radius}\" stroke-width=\"11\"/>");
        let turns = (longest / job.period_ms).round().clamp(1.0, TURNS_MAX);
        let mut turn = 0.0;
        while turn < turns {
            let from = (turn * job.period_ms + if shifted { job.shift_ms } else { 0.0 }) / longest;
            let length = (job.up_ms / longest).min(0.9999);
            let large = u8::from(length > 0.5);
            let _ = write!(
                out,
                "<path d=\"M {} A {radius} {radius} 0 {large} 1 {}\" fill=\"none\" style=\"stroke:var(--j{})\" stroke-width=\"11\">\
                 <title>{}</title></path>",
                at(from, radius),
                at(from + length, radius),
                i % JOBS.len(),
                escape(&job.id)
            );
            turn += 1.0;
        }
    }
    out + "</svg>"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_every_job_and_shared_link() {
        let case = crate::find_case("three-in-a-loop").unwrap();
        let report = crate::virtual_time::run(&case, 1, 20).unwrap();
        let page = page(&report);
        assert!(report.jobs.iter().all(|j| page.contains(&format!("<h3>{} ", j.id))));
        assert!(report.links.iter().filter(|l| l.shared).all(|l| page.contains(&escape(&l.link))));
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }
}
