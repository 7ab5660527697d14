//! Commands that ask a running topology service.

mod agents;
mod audit;
mod commit;
mod connect;
mod evaluate;
mod events;
mod exporters;
mod fabric;
mod jobs;
mod links;
mod observed;
mod overview;
mod queue;
mod release;
mod status;
mod submit;
mod top;
mod turns;
mod withdraw;

pub(crate) use agents::{AgentsArgs, agents};
pub(crate) use audit::{AuditArgs, audit};
pub(crate) use commit::{CommitArgs, commit};
pub(crate) use connect::{Client, ServerArgs, Unreached, as_command, client, get, refused};
pub(crate) use evaluate::{EvaluateArgs, evaluate};
pub(crate) use events::{EventsArgs, events};
pub(crate) use exporters::{ExportersArgs, exporters};
pub(crate) use fabric::{SetArgs, set as set_fabric};
pub(crate) use jobs::{ListArgs as JobsListArgs, list as list_jobs};
pub(crate) use links::{LinksArgs, links};
pub(crate) use observed::{ObservedArgs, observed as observed_fabric};
pub(crate) use queue::{QueueArgs, queue};
pub(crate) use release::{ReleaseArgs, release};
pub(crate) use status::{StatusArgs, status};
pub(crate) use submit::{SubmitArgs, submit};
pub(crate) use top::{TopArgs, top};
pub(crate) use turns::{TurnsArgs, turns};
pub(crate) use withdraw::{WithdrawArgs, withdraw};

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use clap::ValueEnum;
use proto::v1alpha1::Objective;
use serde::Serialize;
use tonic::{Response, Status};
use units::{Nanos, Score};

use crate::{
    input::CliError,
    output::{self, Output},
};

/// How often a watched table is drawn again.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// What stands before a text that takes the place of the one before: codes that clear a terminal and go home; a file and a pipe get none.
fn home() -> &'static str {
    if std::io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" }
}

/// `--watch` of a table.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Watch {
    /// Draw the table again every two seconds until interrupted
    #[arg(long)]
    watch: bool,
}

impl Watch {
    /// Prints what `draw` makes: once, or until it fails, the program is interrupted or nobody reads any more.
    async fn print(self, mut draw: impl AsyncFnMut() -> Result<String, CliError>) -> Result<(), CliError> {
        loop {
            // The answer is fetched before the terminal is cleared, so the table does not flicker and stays after an error.
            let text = draw().await?;
            if !self.watch {
                return output::print(&text);
            }
            if !output::print_on(&format!("{}{text}", home()))? {
                return Ok(());
            }
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }
}

/// Options of a command that shows a list of the service's.
#[derive(Debug, clap::Args)]
pub(crate) struct Listing {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    watch: Watch,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Listing {
    /// Asks, and shows the answer: `text` in a terminal.
    fn show<A: Serialize>(
        &self,
        ask: impl AsyncFn(&mut Client) -> Result<Response<A>, Status>,
        text: impl Fn(&A) -> String,
    ) -> Result<ExitCode, CliError> {
        self.server.with(async |mut client: Client| {
            self.watch
                .print(async || {
                    let answer = ask(&mut client).await.map_err(refused)?.into_inner();
                    self.output.render(&answer, || text(&answer))
                })
                .await
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn millis(ns: u64) -> String {
    format!("{:.3} ms", Nanos(ns).as_millis_f64())
}

fn signed_millis(ns: i64) -> String {
    format!("{:+.3} ms", ns as f64 / 1e6)
}

/// Absent is a dash, never a zero.
fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".into(), show)
}

/// A number of things, of which one has no plural; `what` is one of them.
pub(crate) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ if what.ends_with("ch") => format!("{count} {what}es"),
        _ => format!("{count} {what}s"),
    }
}

/// What the service ranks candidates by.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum RankedBy {
    /// Mean score of the links that two or more jobs cross
    #[default]
    Score,
    /// GPU-weighted iteration time under the service's control
    Time,
}

impl From<RankedBy> for Objective {
    fn from(by: RankedBy) -> Self {
        match by {
            RankedBy::Score => Self::Score,
            RankedBy::Time => Self::Time,
        }
    }
}

fn score(value: f64) -> String {
    format!("{:.4}", Score(value))
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([counted(1, "switch"), counted(2, "switch"), counted(0, "host")], ["1 switch", "2 switches", "0 hosts"]);
    }
}
