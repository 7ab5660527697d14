//! `antiphase links`: links with demand, worst score first.

use std::process::ExitCode;

use clap::Args;
use proto::v1alpha1::{Link, ListLinksRequest, ListLinksResponse};
use units::Rate;

use super::{
    Watch,
    connect::{Client, ServerArgs, refused},
    or_dash, score,
};
use crate::{input::CliError, output::Output, table::Table};

/// Links with demand, worst score first.
#[derive(Debug, Args)]
pub(crate) struct LinksArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Most links listed
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: u32,
    #[command(flatten)]
    watch: Watch,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn links(args: &LinksArgs) -> Result<ExitCode, CliError> {
    args.server.with(async |mut client: Client| {
        args.watch
            .print(async || {
                let request = ListLinksRequest { limit: args.limit, ..ListLinksRequest::default() };
                let answer = client.list_links(request).await.map_err(refused)?.into_inner();
                args.output.render(&answer, || table(&answer))
            })
            .await
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn table(answer: &ListLinksResponse) -> String {
    if answer.links.is_empty() {
        return "no link carries demand".into();
    }
    let mut table = Table::new(&["LINK", ">CAPACITY", ">SCORE", ">UNSHIFTED", ">PEAK", "JOBS"]);
    for link in &answer.links {
        table.row(row(link));
    }
    // `total` counts all links with demand, and the answer holds at most --limit of them.
    let rest = (answer.total as usize).saturating_sub(answer.links.len());
    let more = if rest == 0 { String::new() } else { format!("\n{rest} more with demand; --limit shows them\n") };
    table.render() + &more
}

fn row(link: &Link) -> [String; 6] {
    [
        link.id.clone(),
        Rate(link.capacity_mbps).to_string(),
        or_dash(link.score, score),
        or_dash(link.zero_shift_score, score),
        percent(link.peak_demand_ratio),
        link.jobs.join(", "),
    ]
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
