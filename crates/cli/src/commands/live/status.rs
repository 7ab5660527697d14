//! `antiphase status`: service, agents, jobs and links on one screen: what is in force, and what is wrong.

use std::process::ExitCode;

use clap::Args;
use proto::v1alpha1::{AgentState, Apart};
use serde::Serialize;

use super::{Watch, connect::ServerArgs, overview::Overview, score};
use crate::{
    input::CliError,
    output::{Document, Output},
    table::Table,
};

/// Links that are named.
const LINKS: u32 = 3;
/// Lines of what is wrong: with the others they fit a terminal of 24 lines.
const WRONG_LINES_MAX: usize = 12;

/// What is in force, and what is wrong.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    watch: Watch,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode, CliError> {
    args.server.with_channel(async |channel| {
        args.watch
            .print(async || {
                let now = Overview::ask(channel.clone(), LINKS).await?;
                let status = Status::of(&now, args.server.address());
                args.output.render(&Document { schema: "antiphase.status/v1", answer: &status }, || status.text())
            })
            .await
    })?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Serialize)]
struct Count {
    what: &'static str,
    count: usize,
}

#[derive(Debug, Serialize)]
struct Worst {
    link: String,
    score: f64,
    zero_shift_score: f64,
    #[serde(skip)]
    apart: Apart,
    jobs: Vec<String>,
}

impl Worst {
    fn text(&self) -> String {
        let standing = match self.apart {
            // The score of shifts is nothing to jobs that take turns: what they would be without says what turns are good for.
            Apart::Turns => format!("by turns, {} free", score(self.zero_shift_score)),
            Apart::Free => format!("free, at {}", score(self.score)),
            Apart::Unspecified | Apart::Shifts => format!("at {}", score(self.score)),
        };
        format!("{} {standing} ({})", self.link, self.jobs.join(", "))
    }
}

#[derive(Debug, Serialize)]
struct Status<'a> {
    server: &'a str,
    ready: bool,
    plan_version: u64,
    fabric_version: u64,
    hosts: u32,
    links: u32,
    in_force: String,
    agents: Vec<Count>,
    jobs: Vec<Count>,
    groups: Vec<Count>,
    worst_links: Vec<Worst>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<String>,
    wrong: Vec<String>,
}

impl<'a> Status<'a> {
    fn of(now: &Overview, server: &'a str) -> Self {
        let fabric = now.fabric.clone().unwrap_or_default();
        let agents = [("connected", AgentState::Connected), ("lost", AgentState::Lost), ("quarantined", AgentState::Quarantined)];
        let counts =
            |of: std::collections::BTreeMap<&'static str, usize>| of.into_iter().map(|(what, count)| Count { what, count }).collect();
        let worst = now.links.links.iter().filter_map(|link| {
            let score = link.score?;
            let zero_shift_score = link.zero_shift_score.unwrap_or(score);
            let apart = link.apart();
            Some(Worst { link: link.id.clone(), score, zero_shift_score, apart, jobs: link.jobs.clone() })
        });
        Self {
            server,
            ready: now.unready.is_none(),
            plan_version: now.jobs.plan_version,
            fabric_version: fabric.fabric_version,
            hosts: fabric.hosts,
            links: fabric.links,
            in_force: now.in_force(),
            agents: agents.map(|(what, state)| Count { what, count: now.agents_in(state).len() }).into(),
            jobs: counts(now.jobs_by_state()),
            groups: counts(now.groups_by_state()),
            worst_links: worst.collect(),
            observed: now.observed(),
            wrong: now.wrong(),
        }
    }

    fn text(&self) -> String {
        let list = |counts: &[Count]| {
            let parts: Vec<String> = counts.iter().filter(|one| one.count > 0).map(|one| format!("{} {}", one.count, one.what)).collect();
            if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
        };
        let ready = if self.ready { "ready" } else { "NOT READY" };
        let fabric = match self.fabric_version {
            0 => "none; antiphase fabric set FILE".to_owned(),
            version => format!("version {version}: {} hosts, {} links", self.hosts, self.links),
        };
        let worst: Vec<String> = self.worst_links.iter().map(Worst::text).collect();
        let worst = if worst.is_empty() { "no link is shared".to_owned() } else { worst.join("; ") };
        let mut rows = [
            ["service", &format!("{} {ready}, plan version {}", self.server, self.plan_version)],
            ["fabric", &fabric],
            // The label says the first words already.
            ["in force", &self.in_force.replacen("nothing is in force:", "nothing:", 1)],
            ["agents", &list(&self.agents)],
            ["jobs", &list(&self.jobs)],
            ["groups", &list(&self.groups)],
            ["worst", &worst],
        ]
        .map(|row| row.map(str::to_owned))
        .to_vec();
        rows.extend(self.observed.as_ref().map(|observed| ["observed".to_owned(), observed.clone()]));
        let table = Table::new(&["", ""]).with_rows(rows).render();
        if self.wrong.is_empty() {
            return format!("{table}\nnothing is wrong\n");
        }
        let shown: Vec<&str> = self.wrong.iter().take(WRONG_LINES_MAX).map(String::as_str).collect();
        let more = self.wrong.len() - shown.len();
        let more = if more == 0 { String::new() } else { format!("\nand {more} more; -o json has them") };
        format!("{table}\nwrong:\n{}{more}\n", shown.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::overview::tests::overview, *};

    #[test]
    fn one_screen_says_what_is_in_force_and_wrong() {
        let now = overview();
        let text = Status::of(&now, "http://s").text();
        let expect = "\
service   http://s ready, plan version 7
fabric    version 1: 4 hosts, 12 links
in force  of 2 jobs 2 take turns
agents    1 connected, 1 lost
jobs      2 by turns
groups    1 by turns
worst     x->y at 0.7000 (a, b); u->v at 0.9000 (a, b)

wrong:
1 agent lost: h2
job a repeats every 130.000 ms, planned with 100.000 ms
";
        assert_eq!(text, expect);
    }

    #[test]
    fn the_worst_link_stands_as_on_the_page() {
        let worst = |apart: Apart| {
            let mut now = overview();
            now.links.links.truncate(1);
            (now.links.links[0].apart, now.links.links[0].zero_shift_score) = (apart.into(), Some(0.50009));
            let text = Status::of(&now, "http://s").text();
            text.lines().find_map(|line| line.strip_prefix("worst     ")).unwrap().to_owned()
        };
        assert_eq!(worst(Apart::Shifts), "x->y at 0.7000 (a, b)");
        assert_eq!(worst(Apart::Turns), "x->y by turns, 0.5000 free (a, b)");
        assert_eq!(worst(Apart::Free), "x->y free, at 0.7000 (a, b)");
    }

    #[test]
    fn many_wrongs_fit_a_screen() {
        let mut now = overview();
        let one = now.jobs.jobs[1].clone();
        now.jobs.jobs = (0..40).map(|n| proto::v1alpha1::Job { id: format!("j{n}"), ..one.clone() }).collect();
        let text = Status::of(&now, "http://s").text();
        assert!(text.lines().count() <= 24 && text.contains("and 29 more; -o json has them"), "{text}");
    }
}
