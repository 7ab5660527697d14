//! A view on a screen of any size.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Cell, Paragraph, Row as Cells, Table, Wrap},
};

use super::{
    sheets::{Mark, Row},
    view::View,
};

/// Widest column but the last: longer names are cut, and stand whole among the details.
const COLUMN_CHARS_MAX: usize = 40;
/// Lines for details, frame included, at most a third of the screen.
const DETAIL_LINES: u16 = 9;
const KEYS: &str = " Tab sheet  \u{2191}\u{2193} move  Enter details  s/S sort  r reverse  / filter  q quit";

pub(super) fn screen(frame: &mut Frame<'_>, view: &mut View) {
    let details = if view.details { DETAIL_LINES.min(frame.area().height / 3) } else { 0 };
    let lines = [Constraint::Length(3), Constraint::Min(2), Constraint::Length(details), Constraint::Length(1)];
    let [head, body, below, foot] = Layout::vertical(lines).areas(frame.area());
    headline(frame, head, view);
    rows(frame, body, view);
    if details > 0 {
        let block = Block::new().borders(Borders::TOP).title(view.row().map_or_else(String::new, |row| format!(" {} ", row.name)));
        let lines: Vec<Line<'_>> = view.row().into_iter().flat_map(|row| &row.details).map(|line| Line::raw(line.as_str())).collect();
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }).block(block), below);
    }
    let foot_line = match (view.filtering, view.filter.as_str()) {
        (true, filter) => Line::raw(format!(" /{filter}\u{2588}  Enter keeps it, Esc takes it back")),
        (false, "") => Line::raw(KEYS),
        (false, filter) => Line::raw(format!(" only what contains {filter:?}; Esc shows all")),
    };
    frame.render_widget(Paragraph::new(foot_line.style(Style::new().add_modifier(Modifier::DIM))), foot);
}

/// What is in force, what is wrong, and the sheets.
fn headline(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let bad = bold.fg(Color::Red);
    let force = view.now.in_force();
    let first = Line::from(vec![Span::styled(force.clone(), if force.starts_with("nothing") { bad } else { bold })]);
    let wrong = view.now.wrong();
    let second = match (&view.trouble, wrong.as_slice()) {
        (Some(trouble), _) => Line::styled(format!("no answer, so this is old: {trouble}"), bad),
        (None, []) => Line::raw("nothing is wrong"),
        (None, [one]) => Line::styled(one.clone(), bad),
        (None, [one, rest @ ..]) => Line::styled(format!("{one}; and {} more (antiphase status)", rest.len()), bad),
    };
    let mut sheets = vec![Span::raw(format!("{}, plan {}  ", view.server, view.now.jobs.plan_version))];
    for (at, sheet) in view.sheets.iter().enumerate() {
        let style = if at == view.sheet { bold.add_modifier(Modifier::REVERSED) } else { Style::new() };
        sheets.push(Span::styled(format!(" {} {} ({}) ", at + 1, sheet.title, sheet.rows.len()), style));
    }
    frame.render_widget(Paragraph::new(vec![first, second, Line::from(sheets)]), area);
}

fn rows(frame: &mut Frame<'_>, area: Rect, view: &mut View) {
    let headings = view.sheets[view.sheet].headings;
    let (order, rows) = (view.order(), view.rows());
    let last = headings.len() - 1;
    let titles: Vec<String> = headings
        .iter()
        .enumerate()
        .map(|(at, heading)| match (at == order.column, order.descending) {
            (true, true) => format!("{heading} \u{25bc}"),
            (true, false) => format!("{heading} \u{25b2}"),
            (false, _) => (*heading).to_owned(),
        })
        .collect();
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row.cells[at].chars().count());
        cells.chain([titles[at].chars().count()]).max().unwrap_or(0).min(COLUMN_CHARS_MAX)
    };
    let widths: Vec<Constraint> = (0..headings.len())
        .map(|at| if at == last { Constraint::Fill(1) } else { Constraint::Length(u16::try_from(width(at)).unwrap_or(u16::MAX)) })
        .collect();
    let head = Cells::new(titles.into_iter().map(Cell::from)).style(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
    let lines: Vec<Cells<'_>> = rows.iter().map(|row| line(row)).collect();
    let table = Table::new(lines, widths).header(head).column_spacing(2).row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = view.state;
    frame.render_stateful_widget(table, area, &mut state);
    // How far it is scrolled is known only now.
    view.state = state;
}

fn line(row: &Row) -> Cells<'static> {
    let style = match row.mark {
        Mark::Well => Style::new(),
        Mark::Doubtful => Style::new().fg(Color::Yellow),
        Mark::Bad => Style::new().fg(Color::Red),
    };
    Cells::new(row.cells.iter().cloned().map(Cell::from)).style(style)
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::{super::super::overview::tests::overview, *};

    fn drawn(view: &mut View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen(frame, view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_screen_says_what_is_in_force_wrong_and_worst() {
        let mut view = View::new("http://s", overview());
        view.details = true;
        let text = drawn(&mut view, 80, 24);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "of 2 jobs 2 take turns");
        assert_eq!(lines[1], "1 agent lost: h2; and 1 more (antiphase status)");
        assert_eq!(lines[2], "http://s, plan 7   1 Links (3)  2 Jobs (2)  3 Agents (2)");
        assert!(lines[3].starts_with("LINK  CAPACITY  SCORE \u{25b2}  UNSHIFTED  PEAK   OBSERVED  MORE  JOBS"), "{text}");
        assert!(lines[4].starts_with("x->y  100 Gb/s  0.7000   0.5000     150 %  -         -     a, b"), "{text}");
        assert!(text.contains("b: free, iteration 112.000 ms, alone 100.000 ms"), "{text}");
        assert!(lines[23].contains("q quit"), "{text}");
    }

    #[test]
    fn any_size_and_any_view_can_be_drawn() {
        for (width, height) in [(1, 1), (10, 2), (20, 5), (80, 24), (300, 100)] {
            for sheet in 0..3 {
                let mut view = View::new("http://s", overview());
                (view.sheet, view.details, view.filtering) = (sheet, true, width > 10);
                view.trouble = Some("gone".into());
                drawn(&mut view, width, height);
            }
        }
        let mut empty = View::new("http://s", super::super::super::overview::Overview::default());
        assert!(drawn(&mut empty, 80, 24).starts_with("nothing is in force: no job is committed"));
    }
}
