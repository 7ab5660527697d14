//! The worst links and the jobs as text, again and again.

use proto::v1alpha1::{ListJobsRequest, ListLinksRequest};

use super::super::{
    CLEAR, WATCH_INTERVAL,
    connect::{Client, ServerArgs, refused},
    jobs, links,
};
use crate::{input::CliError, output};

/// Links on one screen.
const LINKS: u32 = 12;

pub(super) fn top(server: &ServerArgs, count: Option<u32>) -> Result<(), CliError> {
    server.with(async |mut client: Client| {
        let mut left = count;
        // Without --count `left` stays `None`, and the loop ends with Ctrl-C.
        while left != Some(0) {
            let worst = ListLinksRequest { limit: LINKS, ..ListLinksRequest::default() };
            let worst = client.list_links(worst).await.map_err(refused)?.into_inner();
            let all = client.list_jobs(ListJobsRequest::default()).await.map_err(refused)?.into_inner();
            // A counted run is for a file or a test, in which codes that clear a terminal would be noise.
            let home = if count.is_some() { "" } else { CLEAR };
            let (links, jobs) = (links::table(&worst, false), jobs::table(&all));
            output::print(&format!("{home}plan version {}\n\n{}\n\n{jobs}", all.plan_version, links.trim_end()))?;
            left = left.map(|n| n - 1);
            if left != Some(0) {
                tokio::time::sleep(WATCH_INTERVAL).await;
            }
        }
        Ok(())
    })
}
