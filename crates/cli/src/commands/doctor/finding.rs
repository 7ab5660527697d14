//! What was looked at, what was found, and what to do about it.

use serde::Serialize;

use crate::table::Table;

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// Nothing to do.
    Well,
    /// Not here, or worth knowing; it may be meant.
    Note,
    /// Somebody has to do something.
    Wrong,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: &'static str,
    /// How it stands.
    pub(super) verdict: Verdict,
    /// What was found, in one line.
    pub(super) says: String,
    /// What to do, in one line; nothing where it is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) fn well(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Well, says: says.into(), fix: None }
    }

    pub(super) fn note(check: &'static str, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Note, says: says.into(), fix: Some(fix.into()) }
    }

    pub(super) fn wrong(check: &'static str, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Wrong, says: says.into(), fix: Some(fix.into()) }
    }
}

/// All findings, and what no program can find.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// In the order in which one would look.
    pub(super) findings: Vec<Finding>,
    /// How many of them are wrong.
    pub(super) wrong: usize,
    /// What to look at on real NICs, and how, in the order to do it.
    pub(super) check_first: &'static [[&'static str; 2]],
}

impl Report {
    pub(super) fn new(findings: Vec<Finding>, check_first: &'static [[&'static str; 2]]) -> Self {
        let wrong = findings.iter().filter(|one| one.verdict == Verdict::Wrong).count();
        Self { findings, wrong, check_first }
    }

    /// For people: a line for each finding, and below it what to do.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&["", "CHECK", "FOUND"]);
        for one in &self.findings {
            let verdict = match one.verdict {
                Verdict::Well => "well",
                Verdict::Note => "note",
                Verdict::Wrong => "WRONG",
            };
            table.row([verdict, one.check, &one.says].map(str::to_owned));
            one.fix.iter().for_each(|fix| table.row([String::new(), String::new(), format!("fix: {fix}")]));
        }
        let mut nics = Table::new(&["", ""]);
        self.check_first.iter().for_each(|line| nics.row(line.map(str::to_owned)));
        let notes = self.findings.iter().filter(|one| one.verdict == Verdict::Note).count();
        let counts = format!("{} wrong, {notes} to know, {} well", self.wrong, self.findings.len() - self.wrong - notes);
        format!("{}\nOn real NICs look first at:\n\n{}\n{counts}\n", table.render(), nics.render())
    }
}
