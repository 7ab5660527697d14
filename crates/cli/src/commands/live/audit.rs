//! `antiphase audit`: who changed what.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use proto::v1alpha1::{AuditEntry, ListAuditRequest};

use super::connect::{Client, ServerArgs, refused};
use crate::{
    input::CliError,
    output::{self, Output},
    table::Table,
};

/// Who changed what: commits, releases and fabrics that somebody asked for, oldest first.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Most entries listed
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    /// Only those after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn audit(args: &AuditArgs) -> Result<ExitCode, CliError> {
    args.server.with(async |mut client: Client| {
        let request = ListAuditRequest { after: args.after, limit: args.limit };
        let answer = client.list_audit(request).await.map_err(refused)?.into_inner();
        let text = || if answer.entries.is_empty() { "nobody changed anything".into() } else { table(&answer.entries) };
        output::print(&args.output.render(&answer, text)?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn table(entries: &[AuditEntry]) -> String {
    let mut table = Table::new(&[">NUMBER", "AT", "BY", "PLAN", "WHAT"]);
    for entry in entries {
        let at = Timestamp::from_nanosecond(i128::from(entry.at_ns)).unwrap_or_default();
        table.row([entry.number.to_string(), format!("{at:.3}"), entry.by.clone(), entry.plan_version.to_string(), entry.message.clone()]);
    }
    table.render()
}
