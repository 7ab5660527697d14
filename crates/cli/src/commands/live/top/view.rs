//! What one looks at: sheet, order, filter and row; and what keys do. No terminal is needed to try it.

use ratatui::{
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    widgets::TableState,
};

use super::{
    super::overview::Overview,
    sheets::{Row, Sheet, sheets},
};

/// How far a page key goes.
const PAGE: usize = 10;
/// Longest filter: what fits on a line.
const FILTER_CHARS_MAX: usize = 60;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Quit,
}

/// The order of a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: usize,
    pub(super) descending: bool,
}

#[derive(Debug)]
pub(super) struct View {
    pub(super) server: String,
    pub(super) now: Overview,
    pub(super) sheets: [Sheet; 3],
    pub(super) sheet: usize,
    /// One for each sheet.
    pub(super) orders: [Order; 3],
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) filtering: bool,
    pub(super) details: bool,
    /// Why the last answer did not come; what is shown is older then.
    pub(super) trouble: Option<String>,
    /// Where the table stands. The row is known by its name from one answer to the next.
    pub(super) state: TableState,
    selected: Option<String>,
}

impl View {
    pub(super) fn new(server: &str, now: Overview) -> Self {
        let sheets = sheets(&now);
        let orders = [0, 1, 2].map(|at: usize| Order { column: sheets[at].worst.0, descending: sheets[at].worst.1 });
        let mut view = Self {
            server: server.to_owned(),
            now,
            sheets,
            sheet: 0,
            orders,
            filter: String::new(),
            filtering: false,
            details: false,
            trouble: None,
            state: TableState::default(),
            selected: None,
        };
        view.follow();
        view
    }

    /// Takes an answer, or why there is none.
    pub(super) fn take(&mut self, answer: Result<Overview, String>) {
        match answer {
            Ok(now) => {
                self.sheets = sheets(&now);
                self.now = now;
                self.trouble = None;
                self.follow();
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    pub(super) fn order(&self) -> Order {
        self.orders[self.sheet]
    }

    /// The rows of the sheet that are shown, in their order.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let Order { column, descending } = self.order();
        let mut rows: Vec<&Row> = self.sheets[self.sheet].rows.iter().filter(|row| row.contains(&self.filter)).collect();
        // The sort is stable: equal ones stay as the service lists them, links worst first and the others by name.
        rows.sort_by(|a, b| a.keys[column].order(&b.keys[column], descending));
        rows
    }

    /// The row under the cursor.
    pub(super) fn row(&self) -> Option<&Row> {
        self.rows().into_iter().nth(self.state.selected()?)
    }

    /// Puts the cursor on the row that it was on, wherever that is now.
    fn follow(&mut self) {
        let rows = self.rows();
        let at = self.selected.as_ref().and_then(|name| rows.iter().position(|row| row.name == *name));
        let last = rows.len().checked_sub(1);
        let at = at.or(last.map(|last| self.state.selected().unwrap_or(0).min(last)));
        self.select(at);
    }

    fn select(&mut self, at: Option<usize>) {
        let name = at.and_then(|at| self.rows().get(at).map(|row| row.name.clone()));
        self.state.select(at);
        self.selected = name;
    }

    fn go(&mut self, by: isize) {
        let last = self.rows().len().checked_sub(1);
        let at = self.state.selected().unwrap_or(0).saturating_add_signed(by);
        self.select(last.map(|last| at.min(last)));
    }

    fn show(&mut self, sheet: usize) {
        self.sheet = sheet % self.sheets.len();
        self.selected = None;
        self.state = TableState::default();
        self.follow();
    }

    fn sort(&mut self, by: usize) {
        let columns = self.sheets[self.sheet].headings.len();
        let column = (self.order().column + by) % columns;
        // Where the sheet has a worst way round, that one; names begin with A.
        let worst = self.sheets[self.sheet].worst;
        self.orders[self.sheet] = Order { column, descending: if column == worst.0 { worst.1 } else { column != 0 } };
        self.follow();
    }

    /// Does what a key says.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Next::Quit;
        }
        if self.filtering {
            self.write(key.code);
            return Next::Stay;
        }
        let columns = self.sheets[self.sheet].headings.len();
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            // Esc takes back what was done last, and quits where there is nothing.
            KeyCode::Esc if self.details => self.details = false,
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.follow();
            }
            KeyCode::Esc => return Next::Quit,
            KeyCode::Tab => self.show(self.sheet + 1),
            KeyCode::BackTab => self.show(self.sheet + self.sheets.len() - 1),
            KeyCode::Char(digit @ '1'..='3') => self.show(digit as usize - '1' as usize),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.go(PAGE.cast_signed()),
            KeyCode::PageUp => self.go(-PAGE.cast_signed()),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            KeyCode::Char('s') => self.sort(1),
            KeyCode::Char('S') => self.sort(columns - 1),
            KeyCode::Char('r') => {
                self.orders[self.sheet].descending ^= true;
                self.follow();
            }
            KeyCode::Char('/') => self.filtering = true,
            KeyCode::Enter => self.details ^= true,
            _ => {}
        }
        Next::Stay
    }

    fn write(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.filtering = false,
            KeyCode::Esc => {
                self.filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(c),
            _ => {}
        }
        self.follow();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::overview::tests::overview, *};

    fn view() -> View {
        View::new("http://s", overview())
    }

    fn names(view: &View) -> Vec<String> {
        view.rows().iter().map(|row| row.name.clone()).collect()
    }

    fn press(view: &mut View, keys: &str) -> Next {
        let code = |c| match c {
            '\t' => KeyCode::Tab,
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        keys.chars().map(|c| view.press(KeyEvent::new(code(c), KeyModifiers::NONE))).last().unwrap()
    }

    #[test]
    fn the_worst_comes_first_until_another_order_is_wanted() {
        let mut view = view();
        assert_eq!(names(&view), ["x->y", "u->v", "q->r"]);
        press(&mut view, "r");
        // A link without a score stays last.
        assert_eq!(names(&view), ["u->v", "x->y", "q->r"]);
        press(&mut view, "2");
        assert_eq!(names(&view), ["a", "b"]);
        press(&mut view, "\t");
        assert_eq!(names(&view), ["h2", "h1"]);
        // Back at the links their order is as it was left; eight columns on it is the same column again.
        press(&mut view, "\tssssssss");
        assert_eq!(names(&view), ["x->y", "u->v", "q->r"]);
        press(&mut view, "S");
        assert_eq!(view.order(), Order { column: 1, descending: true });
    }

    #[test]
    fn the_cursor_stays_on_its_row_when_the_order_changes() {
        let mut view = view();
        press(&mut view, "j");
        assert_eq!(view.row().unwrap().name, "u->v");
        let mut later = overview();
        later.links.links[1].score = Some(0.1);
        view.take(Ok(later));
        assert_eq!((view.row().unwrap().name.as_str(), view.state.selected()), ("u->v", Some(0)));
        // A row that is gone leaves the cursor where it was.
        let mut later = overview();
        later.links.links.truncate(1);
        view.take(Ok(later));
        assert_eq!(view.row().unwrap().name, "x->y");
        view.take(Ok(Overview::default()));
        assert!(view.row().is_none());
        press(&mut view, "jGkg");
        assert!(view.row().is_none());
    }

    #[test]
    fn a_filter_is_written_and_taken_back() {
        let mut view = view();
        press(&mut view, "/U->");
        assert_eq!((names(&view), view.filtering), (vec!["u->v".to_owned()], true));
        // `q` is a letter while one writes.
        assert_eq!(press(&mut view, "q"), Next::Stay);
        assert!(names(&view).is_empty());
        press(&mut view, "\u{8}\n");
        assert_eq!((names(&view).len(), view.filtering), (1, false));
        press(&mut view, "\n");
        assert!(view.details);
        press(&mut view, "\u{1b}");
        assert!(!view.details && view.filter == "U->");
        press(&mut view, "\u{1b}");
        assert_eq!(names(&view).len(), 3);
        assert_eq!(press(&mut view, "\u{1b}"), Next::Quit);
        assert_eq!(press(&mut view, "q"), Next::Quit);
    }

    #[test]
    fn a_service_that_is_gone_leaves_what_it_said_last() {
        let mut view = view();
        view.take(Err("connection refused".into()));
        assert_eq!((names(&view).len(), view.trouble.as_deref()), (3, Some("connection refused")));
        view.take(Ok(overview()));
        assert_eq!(view.trouble, None);
    }
}
