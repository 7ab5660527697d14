//! The unified circle of one link, before and after the shifts, side by side.
//!
//! Inside, one ring per job: filled where it sends, as thick as its demand is against the largest
//! on the link (against the capacity many jobs would be hairs). Outside, the total demand against
//! the capacity. Time runs clockwise from the top.

use alloc::{
    borrow::ToOwned as _,
    format,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{
    axis,
    demand::{Demand, Total, common_perimeter},
    palette::{self, Colours},
    polar::{point, sector},
    quantity,
    svg::{Path, Svg},
    text::{self, TITLE},
    view::{Apart, JobView, LinkView},
};

/// Longest perimeter drawn, in iterations of the longest job: beyond it arcs get thin as hairs.
pub(crate) const TURNS_MAX: u64 = 8;
/// Most rings: 16 of them are 4.6 px each. Further jobs are in the total only.
pub const RINGS_MAX: usize = 16;
/// Most arcs in one picture, so that a page of 25 stays below a few MB.
const ARCS_MAX: u64 = 1_200;
/// Most steps of the total ring: a degree each.
const STEPS_MAX: u64 = 360;

const WIDTH: f64 = 720.0;
const CENTRE_Y: f64 = 266.0;
/// Radii: job rings end at `RINGS`, with a total between `TOTAL.0` and `TOTAL.1`; without one they
/// have the whole disc.
const RINGS: f64 = 117.0;
const HOLE_MIN: f64 = 44.0;
const RING_MAX: f64 = 26.0;
const TOTAL: (f64, f64) = (122.0, 148.0);
const TICK: (f64, f64) = (150.0, 154.0);
const LABEL: f64 = 163.0;
/// Least height of what is over capacity: a sliver must be seen.
const OVER_MIN: f64 = 2.5;
/// Bands thinner than this carry no letters and finer marks.
const BAND_PLAIN: f64 = 11.0;

/// One job on the link.
struct Ring<'a> {
    job: &'a JobView,
    class: String,
    letter: String,
    before: Demand,
    after: Demand,
}

/// Draws the link. `jobs` and `colours` are those of the whole report.
pub fn draw(link: &LinkView, jobs: &[JobView], colours: &Colours) -> Svg {
    let rings: Vec<Ring<'_>> = link
        .members
        .iter()
        .filter_map(|member| Some((member, jobs.get(member.job)?)))
        .enumerate()
        .map(|(n, (member, job))| Ring {
            job,
            class: colours.class(member.job),
            letter: palette::letter(n),
            before: Demand::new(&member.phases, job.period_ns, 0),
            after: Demand::new(&member.phases, job.period_ns, job.shift_ns),
        })
        .collect();
    // Periods without a short common multiple have no common turn; each ring then has a turn of its own, and there is no total.
    let perimeter = common_perimeter(rings.iter().map(|r| r.before.period_ns()), TURNS_MAX);

    let label = format!(
        "Circles of link {}: score {} unshifted, {} shifted",
        text::isolated(&link.name),
        quantity::score(link.zero_shift_score),
        quantity::score(link.score)
    );
    let mut svg = Svg::new(WIDTH, &label);
    let capacity = quantity::rate(link.capacity_mbps as f64);
    let name = text::fit(&link.name, WIDTH - 60.0 - text::width(&capacity, TITLE), TITLE);
    svg.text("t1", 20.0, 30.0, &format!("{name} · {capacity}"));
    svg.text("mu", 20.0, 50.0, &caption(&rings, perimeter));

    let totals = perimeter.map(|perimeter| {
        [true, false].map(|before| {
            let demands: Vec<Demand> = rings.iter().map(|r| if before { r.before.clone() } else { r.after.clone() }).collect();
            Total::of(&demands, link.capacity_mbps, perimeter, STEPS_MAX)
        })
    });
    // Both circles have one scale, or a reader would compare lengths that mean different demands.
    let scale = totals.iter().flatten().map(|t| t.peak_mbps).fold(link.capacity_mbps.max(1) as f64, f64::max);
    // A shift moves demand and does not change it, so the largest of `before` is that of `after` too.
    let largest = rings.iter().map(|r| r.before.peak_mbps()).fold(1.0, f64::max);
    for (before, x, head) in [(true, 182.0, "before: no shifts"), (false, 542.0, link.apart.head())] {
        let panel = Panel {
            centre: (x, CENTRE_Y),
            before,
            score: if before { link.zero_shift_score } else { link.score },
            capacity_mbps: link.capacity_mbps,
            perimeter,
            total: totals.as_ref().map(|t| &t[usize::from(!before)]),
            scale,
            largest,
        };
        svg.text("t2", x - 162.0, 84.0, head);
        panel.draw(&mut svg, &rings);
    }
    let bottom = legend(&mut svg, &rings, link, 488.0);
    svg.set_height(bottom);
    svg
}

/// The sentence on the length of one turn of the circle. It does not say "turn": jobs take turns too.
fn caption(rings: &[Ring<'_>], perimeter: Option<u64>) -> String {
    let Some(perimeter) = perimeter else {
        return "No common turn: each ring is one turn of its own period. The timeline shows the total.".to_owned();
    };
    let one = rings.iter().all(|r| r.before.period_ns() == perimeter);
    let turn = quantity::time(perimeter);
    if one {
        return format!("Once around is {turn}: one iteration of every job. Time runs clockwise.");
    }
    // Periods divide the perimeter here, so the counts of iterations are whole.
    let counts: Vec<String> =
        rings.iter().take(RINGS_MAX).map(|r| format!("{} × {}", perimeter / r.before.period_ns(), r.letter)).collect();
    let line = format!("Once around is {turn}: {}. Time runs clockwise.", counts.join(", "));
    if text::width(&line, 12.0) <= WIDTH - 40.0 {
        line
    } else {
        format!("Once around is {turn}, the least common multiple of the periods.")
    }
}

/// One of the two circles.
struct Panel<'a> {
    centre: (f64, f64),
    before: bool,
    score: f64,
    capacity_mbps: u64,
    /// None: every ring has its own period and there is no total.
    perimeter: Option<u64>,
    total: Option<&'a Total>,
    /// Demand at the rim of the total ring.
    scale: f64,
    /// Demand that fills a job's band.
    largest: f64,
}

impl Panel<'_> {
    fn draw(&self, svg: &mut Svg, rings: &[Ring<'_>]) {
        // SVG paints in order: tracks first, then the wedges of overload, the rings over them, and the text last.
        let shown = &rings[..rings.len().min(RINGS_MAX)];
        let rim = self.rim();
        let band = ((rim - HOLE_MIN) / shown.len().max(1) as f64).min(RING_MAX);
        let gap = if band > 10.0 { 2.5 } else { 1.2 };
        let hole = rim - band * shown.len() as f64;
        for n in 0..shown.len() {
            let outer = rim - band * n as f64;
            self.track(svg, (outer - band + gap, outer));
        }
        self.wedges(svg, hole);
        // The bound is for the whole picture, which has two circles.
        let limit = ARCS_MAX / 2 / shown.len().max(1) as u64;
        for (n, ring) in shown.iter().enumerate() {
            let outer = rim - band * n as f64;
            self.ring(svg, ring, (outer - band + gap, outer), limit);
        }
        self.total(svg);
        self.ticks(svg);
        // A link of one job has no score, which is not a bad one.
        let colour = if self.score.is_finite() { format!("s{}", palette::score_class(self.score)) } else { "mu".to_owned() };
        svg.text(&format!("big m {colour}"), self.centre.0, self.centre.1 + 5.0, &quantity::score(self.score));
        svg.text("sm m mu", self.centre.0, self.centre.1 + 20.0, "score");
        self.verdict(svg);
    }

    /// Where the job rings end.
    fn rim(&self) -> f64 {
        if self.perimeter.is_some() { RINGS } else { TOTAL.1 }
    }

    fn track(&self, svg: &mut Svg, (inner, outer): (f64, f64)) {
        svg.circle("track", self.centre, f64::midpoint(inner, outer)).n("stroke-width", outer - inner).end();
    }

    /// A faint wedge through all rings wherever the total is over capacity.
    fn wedges(&self, svg: &mut Svg, hole: f64) {
        let (Some(total), Some(perimeter)) = (self.total, self.perimeter) else { return };
        let mut path = Path::default();
        for (from, to) in total.over_spans(self.capacity_mbps) {
            sector(&mut path, self.centre, (hole, RINGS), (from as f64 / perimeter as f64, to as f64 / perimeter as f64));
        }
        svg.path("wedge", &path);
    }

    /// One job: its arcs, the starts of its iterations, its letter.
    fn ring(&self, svg: &mut Svg, ring: &Ring<'_>, (inner, outer): (f64, f64), limit: u64) {
        let demand = if self.before { &ring.before } else { &ring.after };
        let perimeter = self.perimeter.unwrap_or(demand.period_ns());
        let spans = demand.on_circle(perimeter, limit);
        let turn = |ns: u64| ns as f64 / perimeter as f64;
        let thin = outer - inner < BAND_PLAIN;
        let mut path = Path::default();
        for span in &spans {
            // Even a small demand must be seen.
            let share = (span.mbps / self.largest).clamp(if thin { 0.6 } else { 0.3 }, 1.0);
            let top = inner + (outer - inner) * share;
            sector(&mut path, self.centre, (inner, top), (turn(span.start_ns), turn(span.end_ns)));
        }
        svg.node("g", "job").s("data-arcs", &spans.len().to_string()).open();
        svg.title(&format!(
            "{}: period {}, up to {}, shift {}",
            text::isolated(&ring.job.name),
            quantity::time(demand.period_ns()),
            quantity::rate(demand.peak_mbps()),
            quantity::time(demand.shift_ns())
        ));
        let shifted = demand.shift_ns() > 0;
        // The dotted arc from the top to the first start is the shift itself; a thin band has no room for it.
        if shifted && !thin {
            let middle = f64::midpoint(inner, outer);
            let mut arc = Path::default();
            arc.move_to(point(self.centre, middle, 0.0));
            arc.arc_to(middle, turn(demand.shift_ns()) > 0.5, true, point(self.centre, middle, turn(demand.shift_ns())));
            svg.path("shift", &arc);
        }
        svg.path(&ring.class, &path);
        let iterations = perimeter / demand.period_ns();
        // More lines than this would cover the ring; the arcs still show the iterations.
        if iterations <= 64 {
            for k in 0..iterations {
                let at = turn(demand.shift_ns() + k * demand.period_ns());
                let class = match (k == 0 && shifted, thin) {
                    (true, false) => "start",
                    (true, true) => "start thin",
                    _ => "cut",
                };
                svg.line(class, point(self.centre, inner, at), point(self.centre, outer, at));
            }
        }
        let middle = f64::midpoint(inner, outer);
        let widest = spans.iter().max_by_key(|s| s.end_ns - s.start_ns);
        // A letter needs about 14 px of arc; a shorter arc goes without.
        if let Some(span) = widest.filter(|s| !thin && turn(s.end_ns - s.start_ns) * middle * core::f64::consts::TAU > 14.0) {
            // Halves are added, because the sum of two times could pass 64 bits.
            let (x, y) = point(self.centre, middle, turn(span.start_ns / 2 + span.end_ns / 2));
            svg.text("tag", x, y + 3.8, &ring.letter);
        }
        svg.close();
    }

    /// The total demand as a ring that grows outwards, with the capacity as a dashed circle.
    fn total(&self, svg: &mut Svg) {
        let (Some(total), Some(perimeter)) = (self.total, self.perimeter) else { return };
        self.track(svg, TOTAL);
        let radius = |mbps: f64| TOTAL.0 + (TOTAL.1 - TOTAL.0) * mbps / self.scale;
        let capacity = self.capacity_mbps as f64;
        let (mut under, mut over) = (Path::default(), Path::default());
        for step in &total.steps {
            let turns = (step.start_ns as f64 / perimeter as f64, step.end_ns as f64 / perimeter as f64);
            // A step may be the mean of several levels: the mean fills the ring, and the peak says whether it was ever over capacity.
            sector(&mut under, self.centre, (TOTAL.0, radius(step.mean_mbps.min(capacity))), turns);
            if step.peak_mbps > capacity {
                sector(&mut over, self.centre, (radius(capacity), radius(step.peak_mbps).max(radius(capacity) + OVER_MIN)), turns);
            }
        }
        svg.path("total", &under);
        svg.path("hatch", &over);
        svg.circle("cap", self.centre, radius(capacity)).titled(&format!("capacity {}", quantity::rate(capacity)));
    }

    /// Ticks and their labels around the rim.
    fn ticks(&self, svg: &mut Svg) {
        let Some(perimeter) = self.perimeter else {
            for (turn, label) in [(0.0, "0"), (0.25, "¼"), (0.5, "½"), (0.75, "¾")] {
                let (x, y) = point(self.centre, LABEL, turn);
                svg.line("tick", point(self.centre, TICK.0, turn), point(self.centre, TICK.1, turn));
                svg.text("sm m mu", x, y + 4.0, label);
            }
            return;
        };
        let (unit, unit_ns) = quantity::time_unit(perimeter);
        for at in axis::ticks(perimeter, 10).at_ns {
            let turn = at as f64 / perimeter as f64;
            // The end of the turn is its beginning, and what is near would write over it.
            if turn > 0.96 {
                continue;
            }
            svg.line("tick", point(self.centre, TICK.0, turn), point(self.centre, TICK.1, turn));
            let (x, y) = point(self.centre, LABEL, turn);
            let label = if at == 0 { format!("0 {unit}") } else { quantity::time_in(at, unit_ns) };
            // Text is wider than high: at the sides it needs more room.
            let aside = (x - self.centre.0) / LABEL * (text::width(&label, 10.5) / 2.0 - 4.0);
            svg.text("sm m mu", x + aside, y + 4.0, &label);
        }
    }

    /// How long the link is over capacity, in words.
    fn verdict(&self, svg: &mut Svg) {
        let y = CENTRE_Y + 194.0;
        let Some((total, perimeter)) = self.total.zip(self.perimeter) else { return };
        match total.over_ns {
            Some(0) => svg.text("m", self.centre.0, y, "never over capacity"),
            Some(over) => {
                let share = quantity::percent(over as f64 / perimeter as f64);
                svg.text("m b bad", self.centre.0, y, &format!("over capacity {share} of the time ({})", quantity::time(over)));
            }
            None => {}
        }
    }
}

/// The table below the circles; gives its lower end. Jobs that keep to no slots have no shift and no slack.
fn legend(svg: &mut Svg, rings: &[Ring<'_>], link: &LinkView, top: f64) -> f64 {
    const COLUMNS: [(f64, &str); 4] = [(410.0, "period"), (540.0, "peak demand"), (620.0, "shift"), (700.0, "slack")];
    let columns = if link.apart == Apart::Shifts { &COLUMNS[..] } else { &COLUMNS[..2] };
    svg.text("sm mu", 62.0, top, "job, from the outer ring inwards");
    for &(x, head) in columns {
        svg.text("sm mu e", x, top, head);
    }
    svg.line("rule", (20.0, top + 8.0), (700.0, top + 8.0));
    let mut y = top + 27.0;
    for ring in rings.iter().take(RINGS_MAX) {
        svg.rect(&ring.class, 20.0, y - 11.0, 16.0, 14.0).n("rx", 3.0).end();
        svg.text("b", 44.0, y, &ring.letter);
        svg.text("", 62.0, y, &text::fit(&ring.job.name, 260.0, 12.0));
        let slack = ring.job.slack_ns.map_or_else(|| "–".to_owned(), |s| quantity::slack(s, ring.job.period_ns));
        let peak = ring.after.peak_mbps();
        let demand = match link.capacity_mbps {
            0 => quantity::rate(peak),
            capacity => format!("{} ({})", quantity::rate(peak), quantity::percent(peak / capacity as f64)),
        };
        let cells = [quantity::time(ring.after.period_ns()), demand, quantity::time(ring.after.shift_ns()), slack];
        for ((x, _), cell) in columns.iter().zip(cells) {
            svg.text("e", *x, y, &cell);
        }
        y += 21.0;
    }
    if let Some(more) = rings.len().checked_sub(RINGS_MAX).filter(|more| *more > 0) {
        svg.text("mu", 62.0, y, &format!("and {} without a ring, in the total only", quantity::counted(more, "job", "jobs")));
        y += 21.0;
    }
    y
}
