//! The style sheet and the fill patterns that every picture uses.
//!
//! Colours are written out per theme instead of through CSS variables, so that converters which
//! know no variables still show the light theme.

use alloc::{format, string::String};
use core::fmt::Write as _;

use super::palette::{DARK, HUES, LIGHT, Theme};

/// Shapes and type, equal in both themes.
const SHAPES: &str = "\
.picture{display:block;max-width:100%;height:auto}\
.picture text{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",\"DejaVu Sans\",Arial,sans-serif;\
font-size:12px;font-variant-numeric:tabular-nums;unicode-bidi:isolate}\
.picture .t1{font-size:15px;font-weight:600}\
.picture .t2{font-size:13px;font-weight:600}\
.picture .sm{font-size:10.5px}\
.picture .big{font-size:23px;font-weight:650}\
.picture .b{font-weight:600}\
.picture .e{text-anchor:end}\
.picture .m{text-anchor:middle}\
.track,.cap,.cut,.start,.shift,.edge,.hit{fill:none}\
.cap{stroke-width:1.5;stroke-dasharray:5 3}\
.cut{stroke-width:1;stroke-opacity:.55}\
.start{stroke-width:2.5;stroke-linecap:round}.start.thin{stroke-width:1.8}\
.shift{stroke-width:1;stroke-dasharray:1 3;stroke-linecap:round}\
.rule,.tick{stroke-width:1}\
.curve{stroke-width:2;stroke-linejoin:round}\
.wedge{fill-opacity:.13}\
.stack{fill-opacity:.9}\
.picture .tag{font-size:10.5px;font-weight:700;text-anchor:middle;paint-order:stroke;stroke-width:3px;stroke-linejoin:round}\
.picture .halo{paint-order:stroke;stroke-width:3.5px;stroke-linejoin:round}\
.edge{stroke-linecap:round}\
.hit{stroke:#000;stroke-opacity:0;stroke-width:11}\
.w0{stroke-width:1.4}.w1{stroke-width:2}.w2{stroke-width:2.8}.w3{stroke-width:3.8}.w4{stroke-width:5}.faint{stroke-width:1}\
.slim .w0{stroke-width:1}.slim .w1{stroke-width:1.4}.slim .w2{stroke-width:1.9}.slim .w3{stroke-width:2.5}.slim .w4{stroke-width:3.2}\
.node{stroke-width:1}\
.rim,.way,.frame{fill:none}.way{stroke-width:.8;stroke-opacity:.45}.frame{stroke-width:1}\
.pale{fill-opacity:.16}.picture .fill{fill-opacity:.24}.picture .calm{fill-opacity:.3}\
";

/// The colour rules of one theme.
fn theme_rules(theme: &Theme) -> String {
    let mut css = String::new();
    let Theme { paper, card, ink, muted, track, rule, total, warning, .. } = theme;
    // Writing to a String cannot fail.
    let _ = write!(
        css,
        ".paper{{fill:{paper}}}.picture text,.ink{{fill:{ink}}}.picture .mu{{fill:{muted}}}.picture .bad{{fill:{warning}}}\
         .track{{stroke:{track}}}.back{{fill:{track}}}.rule,.edge.faint{{stroke:{rule}}}.tick,.cut,.start,.shift,.cap{{stroke:{ink}}}\
         .total{{fill:{total}}}.fan{{fill:{track}}}.wedge,.over{{fill:{warning}}}.stripe{{stroke:{paper}}}.dot{{fill:{paper}}}\
         .picture .tag,.picture .halo{{stroke:{paper}}}.way,.frame{{stroke:{ink}}}.node{{fill:{card};stroke:{muted}}}.bar{{fill:{rule}}}"
    );
    for (n, colour) in theme.jobs.iter().enumerate() {
        let _ = write!(css, ".j{0}{{fill:{colour}}}.picture .curve.j{0}{{fill:none;stroke:{colour}}}", n + 1);
    }
    for (n, colour) in theme.scores.iter().enumerate() {
        let _ = write!(css, ".s{n},.picture .s{n}{{fill:{colour}}}.picture .edge.s{n}{{fill:none;stroke:{colour}}}");
    }
    css
}

/// A theme's colours of text and surfaces as variables of a page: `--ink`, `--paper` and so on. Pictures have their own rules.
pub(crate) fn text_variables(theme: &Theme) -> String {
    let Theme { paper, card, ink, muted, rule, warning, accent, .. } = theme;
    format!(":root{{--paper:{paper};--card:{card};--ink:{ink};--muted:{muted};--rule:{rule};--warning:{warning};--accent:{accent}}}")
}

/// The rest of a theme's colours: `--j1` to `--j8` of jobs, `--s1` to `--s5` of scores, best first, `--track` and `--total`.
fn picture_variables(theme: &Theme) -> String {
    let mut css = format!(":root{{--track:{};--total:{}", theme.track, theme.total);
    for (letter, colours) in [('j', &theme.jobs[..]), ('s', &theme.scores[..])] {
        for (n, colour) in colours.iter().enumerate() {
            let _ = write!(css, ";--{letter}{}:{colour}", n + 1);
        }
    }
    css.push('}');
    css
}

/// The rules of the light theme, then those of the dark one for screens that ask for it.
pub(crate) fn in_both_themes(rules: fn(&Theme) -> String) -> String {
    format!("{}@media screen and (prefers-color-scheme:dark){{{}}}", rules(&LIGHT), rules(&DARK))
}

/// The style sheet of a page that holds pictures: every colour as a variable, for what the page draws itself, and [`stylesheet`].
#[must_use]
pub fn page() -> String {
    format!("{}\n{}\n{}\n", in_both_themes(text_variables), in_both_themes(picture_variables), stylesheet())
}

/// The style sheet: light by default and on paper, dark on screens that ask for it.
pub fn stylesheet() -> String {
    let mut css = String::from(SHAPES);
    css.push_str(&theme_rules(&LIGHT));
    // Colours beyond the plain ones are patterns, which take their own colours from the theme that is on.
    for n in 1..=HUES {
        let _ = write!(css, ".j{}{{fill:url(#stripes{n})}}.j{}{{fill:url(#dots{n})}}", n + HUES, n + 2 * HUES);
    }
    css.push_str(".hatch{fill:url(#hatch)}");
    let _ = write!(css, "@media screen and (prefers-color-scheme:dark){{{}}}", theme_rules(&DARK));
    css
}

/// [`patterns`] in an element of their own that takes no room: for the top of a page.
#[must_use]
pub fn sheet_of_patterns() -> String {
    format!("<svg width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\">{}</svg>", patterns())
}

/// The patterns: striped and dotted job colours, and the hatching of over-capacity. Ids are
/// fixed, so a page holds them once.
pub fn patterns() -> String {
    let mut out = String::from("<defs>");
    for n in 1..=HUES {
        let _ = write!(
            out,
            "<pattern id=\"stripes{n}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
             <rect class=\"j{n}\" width=\"5\" height=\"5\"/><path class=\"stripe\" d=\"M0 2.5H5\" stroke-width=\"1.6\"/></pattern>\
             <pattern id=\"dots{n}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
             <rect class=\"j{n}\" width=\"5\" height=\"5\"/><circle class=\"dot\" cx=\"2.5\" cy=\"2.5\" r=\"1.1\"/></pattern>"
        );
    }
    out.push_str(
        "<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\">\
         <rect class=\"over\" width=\"6\" height=\"6\"/><path class=\"stripe\" d=\"M0 3H6\" stroke-width=\"1.3\" stroke-opacity=\".75\"/></pattern>",
    );
    out.push_str("</defs>");
    out
}
