//! `antiphase top`: the worst links and the jobs, drawn again and again.

use std::process::ExitCode;

use clap::Args;
use proto::v1alpha1::{ListJobsRequest, ListLinksRequest};

use super::{
    CLEAR, WATCH_INTERVAL,
    connect::{Client, ServerArgs, refused},
    jobs, links,
};
use crate::{input::CliError, output};

/// Links on one screen.
const LINKS: u32 = 12;

/// The worst links and all jobs, drawn again every two seconds.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Draw so many times and stop; by default until interrupted
    #[arg(long, value_name = "TIMES")]
    count: Option<u32>,
}

pub(crate) fn top(args: &TopArgs) -> Result<ExitCode, CliError> {
    args.server.with(async |mut client: Client| {
        let mut left = args.count;
        // Without --count `left` stays `None`, and the loop ends with Ctrl-C.
        while left != Some(0) {
            let worst = ListLinksRequest { limit: LINKS, ..ListLinksRequest::default() };
            let worst = client.list_links(worst).await.map_err(refused)?.into_inner();
            let all = client.list_jobs(ListJobsRequest::default()).await.map_err(refused)?.into_inner();
            // A counted run is for a file or a test, in which codes that clear a terminal would be noise.
            let home = if args.count.is_some() { "" } else { CLEAR };
            output::print(&format!(
                "{home}plan version {}\n\n{}\n\n{}",
                all.plan_version,
                links::table(&worst).trim_end(),
                jobs::table(&all)
            ))?;
            left = left.map(|n| n - 1);
            if left != Some(0) {
                tokio::time::sleep(WATCH_INTERVAL).await;
            }
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}
