//! Two jobs without a common turn: the phase of one against the phase of the other.
//!
//! Over time each moment of one iteration meets each moment of the other (Weyl's equidistribution, for periods without a common factor), so
//! the area in which both ask for more than there is, is the share of time above capacity, whatever the shifts.

use alloc::{format, string::String, vec::Vec};

use super::{
    axis,
    demand::{Demand, Span},
    palette::{self, Colours},
    quantity,
    svg::{Path, Svg},
    text::{self, TITLE},
    view::{JobView, LinkView},
};

const WIDTH: f64 = 720.0;
/// The square: its left upper corner, and its side.
const LEFT: f64 = 76.0;
const TOP: f64 = 88.0;
const SIDE: f64 = 300.0;
/// Beside the square, between it and the scales: when each job sends.
const BAND: f64 = 14.0;
const BESIDE: f64 = 424.0;
/// Most spans of one job: with both, four thousand meetings at most; a job with more phases is drawn in steps of its mean.
const SPANS_MAX: u64 = 64;
/// Iterations whose way through the square is drawn: enough to see that it does not close.
const WAYS: u32 = 12;

/// One of the two jobs.
struct Axis<'a> {
    job: &'a JobView,
    class: String,
    letter: String,
    demand: Demand,
    spans: Vec<Span>,
}

impl Axis<'_> {
    /// A time of its iteration as a share of it.
    fn turn(&self, ns: u64) -> f64 {
        (ns as f64 / self.demand.period_ns() as f64).clamp(0.0, 1.0)
    }
}

/// Draws the link; its first two jobs, of which the second has another period than the first.
pub fn draw(link: &LinkView, jobs: &[JobView], colours: &Colours) -> Svg {
    let axes: Vec<Axis<'_>> = link
        .members
        .iter()
        .filter_map(|member| Some((member, jobs.get(member.job)?)))
        .take(2)
        .enumerate()
        .map(|(n, (member, job))| {
            let demand = Demand::new(&member.phases, job.period_ns, 0);
            let spans = demand.in_window(demand.period_ns(), SPANS_MAX);
            Axis { job, class: colours.class(member.job), letter: palette::letter(n), demand, spans }
        })
        .collect();
    let mut svg = Svg::new(WIDTH, &format!("Phases of link {}: score {}", text::isolated(&link.name), quantity::score(link.score)));
    let capacity = quantity::rate(link.capacity_mbps as f64);
    let name = text::fit(&link.name, WIDTH - 60.0 - text::width(&capacity, TITLE), TITLE);
    svg.text("t1", 20.0, 30.0, &format!("{name} · {capacity}"));
    svg.text("mu", 20.0, 50.0, "The periods have no common turn: over time each moment of one iteration meets each of the other.");
    if let [across, upwards] = axes.as_slice() {
        square(&mut svg, across, upwards, link.capacity_mbps);
        beside(&mut svg, link, across, upwards);
    }
    svg.set_height(TOP + SIDE + BAND + 56.0);
    svg
}

/// The share of the square in which both ask for more than the capacity, and its rectangles.
fn over(across: &Axis<'_>, upwards: &Axis<'_>, capacity_mbps: u64) -> (f64, Vec<[f64; 4]>) {
    let mut share = 0.0;
    let mut parts = Vec::new();
    let capacity = capacity_mbps as f64;
    // A job that asks for more than there is alone is over capacity with no meeting at all: its whole stripe is.
    for (own, is_across) in [(across, true), (upwards, false)] {
        for span in own.spans.iter().filter(|span| span.mbps > capacity) {
            let (from, to) = (own.turn(span.start_ns), own.turn(span.end_ns));
            share += to - from;
            parts.push(if is_across { [from, to, 0.0, 1.0] } else { [0.0, 1.0, from, to] });
        }
    }
    let alone = share;
    let mut together = 0.0;
    for a in &across.spans {
        for b in &upwards.spans {
            let (is_alone, both) = (a.mbps > capacity || b.mbps > capacity, a.mbps + b.mbps > capacity);
            let part = [across.turn(a.start_ns), across.turn(a.end_ns), upwards.turn(b.start_ns), upwards.turn(b.end_ns)];
            let area = (part[1] - part[0]) * (part[3] - part[2]);
            if both && !is_alone {
                together += area;
                parts.push(part);
            } else if a.mbps > capacity && b.mbps > capacity {
                // The two stripes cross here, and the crossing was counted twice.
                together -= area;
            }
        }
    }
    (alone + together, parts)
}

fn square(svg: &mut Svg, across: &Axis<'_>, upwards: &Axis<'_>, capacity_mbps: u64) {
    let (x, y) = (|turn: f64| LEFT + SIDE * turn, |turn: f64| TOP + SIDE * (1.0 - turn));
    svg.rect("back", LEFT, TOP, SIDE, SIDE).end();
    for span in &across.spans {
        let (from, to) = (x(across.turn(span.start_ns)), x(across.turn(span.end_ns)));
        svg.rect(&format!("{} pale", across.class), from, TOP, to - from, SIDE).end();
        svg.rect(&across.class, from, TOP + SIDE + 3.0, to - from, BAND - 4.0).end();
    }
    for span in &upwards.spans {
        let (from, to) = (y(upwards.turn(span.end_ns)), y(upwards.turn(span.start_ns)));
        svg.rect(&format!("{} pale", upwards.class), LEFT, from, SIDE, to - from).end();
        svg.rect(&upwards.class, LEFT - BAND + 1.0, from, BAND - 4.0, to - from).end();
    }
    let (share, parts) = over(across, upwards, capacity_mbps);
    let mut path = Path::default();
    for [from, to, low, high] in parts {
        path.rect(x(from), y(high), x(to) - x(from), y(low) - y(high));
    }
    svg.path("hatch", &path);
    ways(svg, across, upwards);
    svg.rect("frame", LEFT, TOP, SIDE, SIDE).end();
    scale(svg, across, upwards);
    let line = format!("over capacity {} of the time", quantity::percent(share));
    svg.text(if share > 0.0 { "b bad" } else { "" }, BESIDE, TOP + 88.0, if share > 0.0 { &line } else { "never over capacity" });
    svg.text("sm mu", BESIDE, TOP + 104.0, "whatever the shifts");
}

/// How the two move through the square from their shifts on, for some iterations of the slower one.
fn ways(svg: &mut Svg, across: &Axis<'_>, upwards: &Axis<'_>) {
    let (long, short) = (across.demand.period_ns().max(upwards.demand.period_ns()) as f64, [across, upwards]);
    let at = |axis: &Axis<'_>, time: f64| {
        let period = axis.demand.period_ns() as f64;
        // A job starts after its shift, so at time 0 it is that much before its start.
        let turn = (time - (axis.job.shift_ns % axis.demand.period_ns()) as f64) / period;
        turn - libm::floor(turn)
    };
    // A piece ends where one of the two begins anew.
    let end = long * f64::from(WAYS);
    let mut cuts: Vec<f64> = short
        .iter()
        .flat_map(|axis| {
            let period = axis.demand.period_ns() as f64;
            let first = (axis.job.shift_ns % axis.demand.period_ns()) as f64;
            // A period that is a thousandth of the other would be a blot.
            let count = ((end / period) as u32).min(200);
            (0..=count).map(move |n| first + f64::from(n) * period)
        })
        .chain([0.0])
        .filter(|cut| *cut < end)
        .collect();
    cuts.sort_by(f64::total_cmp);
    let mut path = Path::default();
    for pair in cuts.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if to - from < long * 1e-6 {
            continue;
        }
        // A hair inside the piece, so that its ends are on its side of the cut.
        let hair = (to - from) * 1e-6;
        let place = |time: f64| (LEFT + SIDE * at(across, time), TOP + SIDE * (1.0 - at(upwards, time)));
        path.move_to(place(from + hair));
        path.line_to(place(to - hair));
    }
    svg.path("way", &path);
}

/// Times along both sides.
fn scale(svg: &mut Svg, across: &Axis<'_>, upwards: &Axis<'_>) {
    let bottom = TOP + SIDE + BAND;
    for (axis, is_across) in [(across, true), (upwards, false)] {
        let period = axis.demand.period_ns();
        let (unit, unit_ns) = quantity::time_unit(period);
        for at in axis::ticks(period, 6).at_ns {
            let label = if at == 0 { format!("0 {unit}") } else { quantity::time_in(at, unit_ns) };
            let place = SIDE * axis.turn(at);
            if is_across {
                svg.text("sm m mu", LEFT + place, bottom + 14.0, &label);
            } else {
                svg.text("sm e mu", LEFT - BAND - 4.0, TOP + SIDE - place + 4.0, &label);
            }
        }
    }
    svg.text("sm b m", LEFT + SIDE / 2.0, bottom + 30.0, &format!("into an iteration of {}", across.letter));
    svg.text("sm b", 20.0, TOP - 10.0, &format!("into an iteration of {}", upwards.letter));
}

/// What the two are, and the score.
fn beside(svg: &mut Svg, link: &LinkView, across: &Axis<'_>, upwards: &Axis<'_>) {
    let colour = if link.score.is_finite() { format!("s{}", palette::score_class(link.score)) } else { "mu".into() };
    svg.text(&format!("big {colour}"), BESIDE, TOP + 40.0, &quantity::score(link.score));
    svg.text("sm mu", BESIDE, TOP + 58.0, "score");
    let mut y = TOP + 140.0;
    for axis in [across, upwards] {
        svg.rect(&axis.class, BESIDE, y - 11.0, 16.0, 14.0).n("rx", 3.0).end();
        svg.text("b", BESIDE + 24.0, y, &axis.letter);
        svg.text("", BESIDE + 42.0, y, &text::fit(&axis.job.name, WIDTH - BESIDE - 62.0, 12.0));
        let sent: u64 = axis.spans.iter().map(|span| span.end_ns - span.start_ns).sum();
        svg.text(
            "sm mu",
            BESIDE + 42.0,
            y + 17.0,
            &format!("every {}, of which it sends {}", quantity::time(axis.demand.period_ns()), quantity::time(sent)),
        );
        svg.text("sm mu", BESIDE + 42.0, y + 32.0, &format!("up to {}", quantity::rate(axis.demand.peak_mbps())));
        y += 58.0;
    }
    svg.text("sm mu", BESIDE, y + 4.0, "Hatched: together they ask for more than there is.");
    svg.text("sm mu", BESIDE, y + 20.0, &format!("Lines: where the two are in their first {WAYS} iterations."));
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::view::{MemberView, PhaseView};

    fn link(rates: [u64; 2]) -> (LinkView, Vec<JobView>) {
        let job = |name: &str, period_ns, shift_ns| JobView { name: name.into(), period_ns, shift_ns, ..JobView::default() };
        let jobs = vec![job("a<b>", 199_000_000, 20_000_000), job("b", 100_000_000, 0)];
        // a sends for a quarter of its iteration and b for a half.
        let up = |end_ns, mbps| vec![PhaseView { start_ns: 0, end_ns, mbps }];
        let members =
            vec![MemberView { job: 0, phases: up(49_750_000, rates[0]) }, MemberView { job: 1, phases: up(50_000_000, rates[1]) }];
        (LinkView { name: "l".into(), capacity_mbps: 100, members, score: 0.9, zero_shift_score: 0.9, ..LinkView::default() }, jobs)
    }

    fn picture(rates: [u64; 2]) -> String {
        let (link, jobs) = link(rates);
        let drawn = draw(&link, &jobs, &Colours::assign(2, [&link])).document();
        roxmltree::Document::parse(&drawn).unwrap();
        assert!(!drawn.contains("a<b>") && !drawn.contains("NaN"));
        drawn
    }

    #[test]
    fn the_area_is_the_share_of_time_over_capacity() {
        // Both send in an eighth of the square: 12.5 %, of which a half is rounded to the even one.
        assert!(picture([60, 60]).contains("over capacity 12 % of the time"), "{}", picture([60, 60]));
        assert!(picture([40, 50]).contains("never over capacity"));
        // a alone is over capacity for a quarter of the time; with b never more than that.
        assert!(picture([101, 10]).contains("over capacity 25 % of the time"));
        // Either is: 1/4 + 1/2 less what they have in common, 1/8.
        assert!(picture([101, 101]).contains("over capacity 62 % of the time"));
    }

    #[test]
    fn the_share_is_that_of_a_long_run() {
        let (link, jobs) = link([60, 60]);
        let of = |n: usize| Demand::new(&link.members[n].phases, jobs[n].period_ns, jobs[n].shift_ns);
        let total = super::super::demand::Total::of(&[of(0), of(1)], 100, 199 * 100_000_000, 1_000);
        let share = total.over_ns.unwrap() as f64 / (199.0 * 1e8);
        assert!((share - 0.125).abs() < 0.002, "{share}");
    }
}
