//! Phases of jobs over time, before and after the shifts, with the total demand below.

use alloc::{format, string::String, vec, vec::Vec};

use super::{
    axis,
    demand::{Demand, Total, common_perimeter},
    palette::{self, Colours},
    quantity,
    svg::{Path, Svg},
    text::{self, TITLE},
    view::{JobView, LinkView},
};

/// Most rows; further jobs are in the total only.
const ROWS_MAX: usize = 24;
/// Most total strips: the first (worst) links given.
const STRIPS_MAX: usize = 3;
/// Most bars of all rows, and of all jobs in a strip, together: one in a row is about 25 bytes.
const BARS_MAX: u64 = 3_600;
/// Most of them in one row or strip: more than two in three pixels do not show.
const BARS_PER_ROW_MAX: u64 = 360;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 700.0;
const ROW: f64 = 20.0;
const STRIP: f64 = 62.0;

/// One job's row.
struct Row<'a> {
    job: &'a JobView,
    index: usize,
    class: String,
    letter: String,
    before: Demand,
    after: Demand,
}

/// Draws one link, or a component of the affinity graph given as its links, worst first. A job
/// on several of them is drawn with its demand on the first.
pub fn draw(title: &str, links: &[&LinkView], jobs: &[JobView], colours: &Colours) -> Svg {
    let rows = rows(links, jobs, colours);
    let window = window_ns(rows.iter().map(|r| r.before.period_ns()));
    let label = format!(
        "Timeline of {}: phases of {} before and after the shifts",
        text::isolated(title),
        quantity::counted(rows.len(), "job", "jobs")
    );
    let mut svg = Svg::new(WIDTH, &label);
    svg.text("t1", 20.0, 30.0, &text::fit(title, WIDTH - 40.0, TITLE));
    let longest = rows.iter().map(|r| r.before.period_ns()).max().unwrap_or(1);
    let length = format!("{} of the steady state: {} × the longest period", quantity::time(window), window / longest);
    svg.text("mu", 20.0, 50.0, &format!("{length}. Upright lines: iterations start; thick: the first after the shift."));
    // Links of a component are kept apart alike: a group takes turns, or is let go, as one.
    let apart = links.first().map(|link| link.apart).unwrap_or_default();
    let mut y = 78.0;
    for before in [true, false] {
        svg.text("t2", 20.0, y, if before { "before: no shifts" } else { apart.head() });
        y = half(&mut svg, &rows, links, window, before, y + 12.0) + 34.0;
    }
    svg.set_height(y - 18.0);
    svg
}

fn rows<'a>(links: &[&LinkView], jobs: &'a [JobView], colours: &Colours) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut seen = vec![false; jobs.len()];
    for link in links {
        for member in &link.members {
            let Some(job) = jobs.get(member.job) else { continue };
            // Links come worst first, so a job's row shows its demand on the worst of its links.
            if !core::mem::replace(&mut seen[member.job], true) {
                rows.push(Row {
                    job,
                    index: member.job,
                    class: colours.class(member.job),
                    letter: palette::letter(rows.len()),
                    before: Demand::new(&member.phases, job.period_ns, 0),
                    after: Demand::new(&member.phases, job.period_ns, job.shift_ns),
                });
            }
        }
    }
    rows
}

/// Two or three of the longest period; a whole number of repetitions where that is possible.
fn window_ns(periods: impl Iterator<Item = u64> + Clone) -> u64 {
    let longest = periods.clone().max().unwrap_or(1);
    match common_perimeter(periods, 3) {
        // One period alone would not show that it repeats.
        Some(perimeter) if perimeter == longest => longest.saturating_mul(2),
        Some(perimeter) => perimeter,
        None => longest.saturating_mul(3),
    }
}

/// Bars for each of so many rows.
fn bars_each(rows: usize) -> u64 {
    // At least 60 bars per row even in a crowd, or a row would show nothing of its phases.
    (BARS_MAX / (rows as u64).max(1)).clamp(60, BARS_PER_ROW_MAX)
}

/// Rows, strips and axis of one side; gives its lower end.
fn half(svg: &mut Svg, rows: &[Row<'_>], links: &[&LinkView], window: u64, before: bool, top: f64) -> f64 {
    let x = |ns: u64| LEFT + (RIGHT - LEFT) * ns as f64 / window as f64;
    let mut y = top;
    let largest = rows.iter().map(|r| r.before.peak_mbps()).fold(1.0, f64::max);
    for row in rows.iter().take(ROWS_MAX) {
        draw_row(svg, row, (largest, bars_each(rows.len().min(ROWS_MAX))), before, window, y);
        y += ROW;
    }
    if rows.len() > ROWS_MAX {
        let more = quantity::counted(rows.len() - ROWS_MAX, "more job", "more jobs");
        svg.text("sm mu", 20.0, y + 12.0, &format!("{more}, in the total only"));
        y += ROW;
    }
    y += 6.0;
    for link in links.iter().take(STRIPS_MAX) {
        draw_strip(svg, link, rows, before, window, y);
        y += STRIP + 8.0;
    }
    let (unit, unit_ns) = quantity::time_unit(window);
    for at in axis::ticks(window, 10).at_ns {
        svg.line("tick", (x(at), y - 5.0), (x(at), y - 1.0));
        let label = quantity::time_in(at, unit_ns);
        svg.text("sm m mu", x(at), y + 11.0, &if at == 0 { format!("0 {unit}") } else { label });
    }
    y + 12.0
}

/// One job; a bar as high as its row is the `largest` demand of all; at most about `bars` of them.
fn draw_row(svg: &mut Svg, row: &Row<'_>, (largest, bars): (f64, u64), before: bool, window: u64, y: f64) {
    let demand = if before { &row.before } else { &row.after };
    let x = |ns: u64| LEFT + (RIGHT - LEFT) * ns as f64 / window as f64;
    let height = ROW - 4.0;
    svg.node("g", "job").open();
    svg.title(&format!(
        "{}: period {}, shift {}",
        text::isolated(&row.job.name),
        quantity::time(demand.period_ns()),
        quantity::time(demand.shift_ns())
    ));
    svg.rect("back", LEFT, y, RIGHT - LEFT, height).end();
    let mut path = Path::default();
    for span in demand.in_window(window, bars) {
        // A small demand keeps a quarter of the height, so that it is seen.
        let share = (span.mbps / largest).clamp(0.25, 1.0);
        path.rect(x(span.start_ns), y + height * (1.0 - share), x(span.end_ns) - x(span.start_ns), height * share);
    }
    svg.path(&row.class, &path);
    // The shift may leave room for one start fewer than periods fit, so the filter below has the last word.
    let iterations = window / demand.period_ns() + 1;
    if iterations <= 64 {
        for at in (0..iterations).map(|k| demand.shift_ns() + k * demand.period_ns()).filter(|at| *at < window) {
            let class = if at == demand.shift_ns() && at > 0 { "start" } else { "cut" };
            svg.line(class, (x(at), y), (x(at), y + height));
        }
    }
    svg.text("b", 20.0, y + 12.0, &row.letter);
    // The same room on both sides, so that a name reads the same.
    let shift = if row.after.shift_ns() > 0 { format!("+{}", quantity::time(row.after.shift_ns())) } else { String::new() };
    let room = LEFT - 50.0 - text::width(&shift, 10.5);
    svg.text("", 36.0, y + 12.0, &text::fit(&row.job.name, room, 12.0));
    if !before {
        svg.text("sm e mu", LEFT - 8.0, y + 12.0, &shift);
    }
    svg.close();
}

/// Total demand of one link: who sends, stacked; the capacity; what is above it.
fn draw_strip(svg: &mut Svg, link: &LinkView, rows: &[Row<'_>], before: bool, window: u64, y: f64) {
    let of = |shifted: bool| -> Vec<(usize, Demand)> {
        let rows_of = |index| rows.iter().find(|r| r.index == index);
        // Demands are made anew from this link's phases: the row holds those of the job's first link.
        let shift = |row: &Row<'_>| if shifted { row.job.shift_ns } else { 0 };
        link.members.iter().filter_map(|m| rows_of(m.job).map(|r| (m.job, Demand::new(&m.phases, r.job.period_ns, shift(r))))).collect()
    };
    let total = |demands: &[(usize, Demand)]| {
        let demands: Vec<Demand> = demands.iter().map(|d| d.1.clone()).collect();
        Total::of(&demands, link.capacity_mbps, window, bars_each(demands.len()))
    };
    let (plain, shifted) = (of(false), of(true));
    let (total_before, total_after) = (total(&plain), total(&shifted));
    // One scale for both halves, or they could not be compared.
    let peak = total_before.peak_mbps.max(total_after.peak_mbps).max(link.capacity_mbps.max(1) as f64);
    let (demands, total) = if before { (plain, total_before) } else { (shifted, total_after) };

    let x = |ns: u64| LEFT + (RIGHT - LEFT) * ns as f64 / window as f64;
    let height = |mbps: f64| STRIP * mbps / peak;
    let capacity = link.capacity_mbps as f64;
    svg.rect("back", LEFT, y, RIGHT - LEFT, STRIP).end();
    // Jobs are stacked on the steps of the total, so that the bars of all jobs share their edges.
    let mut floor = vec![0.0; total.steps.len()];
    for (index, demand) in &demands {
        let Some(row) = rows.iter().find(|r| r.index == *index) else { continue };
        let mut path = Path::default();
        for (step, floor) in total.steps.iter().zip(&mut floor) {
            let mbps = demand.mean_in(step.start_ns, step.end_ns);
            if mbps > 0.0 {
                path.rect(x(step.start_ns), y + STRIP - height(*floor + mbps), x(step.end_ns) - x(step.start_ns), height(mbps));
            }
            *floor += mbps;
        }
        svg.path(&format!("{} stack", row.class), &path);
    }
    let mut over = Path::default();
    for step in total.steps.iter().filter(|s| s.peak_mbps > capacity) {
        // A sliver must be seen.
        let tall = height(step.peak_mbps - capacity).max(2.5);
        over.rect(x(step.start_ns), y + STRIP - height(capacity) - tall, x(step.end_ns) - x(step.start_ns), tall);
    }
    svg.path("hatch", &over);
    let line = y + STRIP - height(capacity);
    svg.line("cap", (LEFT, line), (RIGHT, line));
    svg.text("sm e mu", LEFT - 8.0, line + 4.0, &quantity::rate(capacity));
    svg.text("b", 20.0, y + STRIP - 22.0, &text::fit(&link.name, LEFT - 90.0, 12.0));
    let score = if before { link.zero_shift_score } else { link.score };
    svg.text("sm", 20.0, y + STRIP - 6.0, &format!("score {}", quantity::score(score)));
}
