//! `antiphase links`: links with demand, worst score first.

use std::process::ExitCode;

use clap::Args;
use proto::v1alpha1::{Link, ListLinksRequest, ListLinksResponse};
use units::Rate;

use super::{Listing, exporters::age, or_dash, score};
use crate::{input::CliError, table::Table};

/// Links with demand, worst score first.
#[derive(Debug, Args)]
pub(crate) struct LinksArgs {
    #[command(flatten)]
    list: Listing,
    /// Only these links, as far as they carry a job
    #[arg(value_name = "LINK", conflicts_with = "observed")]
    links: Vec<String>,
    /// Most links listed
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: u32,
    /// Links whose load a switch counts, the fullest first, with and without demand
    #[arg(long)]
    observed: bool,
}

pub(crate) fn links(args: &LinksArgs) -> Result<ExitCode, CliError> {
    let request = ListLinksRequest { limit: args.limit, links: args.links.clone(), observed: args.observed, ..ListLinksRequest::default() };
    args.list.show(
        async |client| client.list_links(request.clone()).await,
        |answer| match answer.links.len() {
            0 if !args.links.is_empty() => format!("no job uses {} (antiphase links lists those that carry demand)", args.links.join(", ")),
            // Of links that were named nothing was left out but what was not asked for.
            listed if !args.links.is_empty() => table(&ListLinksResponse { total: listed as u32, ..answer.clone() }, args.observed),
            _ => table(answer, args.observed),
        },
    )
}

pub(super) fn table(answer: &ListLinksResponse, observed: bool) -> String {
    if answer.links.is_empty() {
        return if observed {
            "no switch counts the load of a link; antiphase exporters says who is heard"
        } else {
            "no link carries demand"
        }
        .into();
    }
    // Columns of what switches say only where they say something.
    let heard = answer.links.iter().any(|link| link.observed_mbps.is_some());
    let mut headings = vec!["LINK", ">CAPACITY", ">SCORE", ">UNSHIFTED", ">PEAK"];
    if heard {
        headings.extend([">PLANNED", ">OBSERVED", ">MORE", ">AGE"]);
    }
    headings.push("JOBS");
    let mut table = Table::new(&headings);
    answer.links.iter().for_each(|link| table.row(row(link, heard)));
    // `total` counts all links that could be listed, and the answer holds at most --limit of them.
    let rest = (answer.total as usize).saturating_sub(answer.links.len());
    let what = if observed { "observed" } else { "with demand" };
    let more = if rest == 0 { String::new() } else { format!("\n{rest} more {what}; --limit shows them\n") };
    table.render() + &more
}

fn row(link: &Link, heard: bool) -> Vec<String> {
    let mut row = vec![
        link.id.clone(),
        Rate(link.capacity_mbps).to_string(),
        or_dash(link.score, score),
        or_dash(link.zero_shift_score, score),
        percent(link.peak_demand_ratio),
    ];
    if heard {
        row.extend([
            percent(link.mean_demand_ratio),
            observed(link),
            or_dash(link.observed_excess_ratio, more),
            or_dash(link.observed_age_ms, age),
        ]);
    }
    row.push(link.jobs.join(", "));
    row
}

/// What switches count, of the capacity where that is known.
pub(super) fn observed(link: &Link) -> String {
    link.observed_ratio.map_or_else(|| or_dash(link.observed_mbps, |mbps| Rate(mbps).to_string()), percent)
}

/// How much more than planned that is, in percent of the capacity.
pub(super) fn more(share: f64) -> String {
    format!("{:+.0} %", share * 100.0)
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_switches_say_stands_beside_what_is_planned() {
        let planned =
            Link { id: "a->b".into(), capacity_mbps: 100_000, mean_demand_ratio: 0.42, peak_demand_ratio: 0.9, ..Link::default() };
        let seen = Link {
            observed_mbps: Some(87_000),
            observed_ratio: Some(0.87),
            observed_excess_ratio: Some(0.45),
            observed_age_ms: Some(12_900),
            ..planned.clone()
        };
        let answer = |links: Vec<Link>| ListLinksResponse { total: links.len() as u32, links, plan_version: 1 };
        assert!(!table(&answer(vec![planned.clone()]), false).contains("OBSERVED"));
        let text = table(&answer(vec![seen, planned]), false);
        let expect = "\
LINK  CAPACITY  SCORE  UNSHIFTED  PEAK  PLANNED  OBSERVED   MORE       AGE  JOBS
a->b  100 Gb/s      -          -  90 %     42 %      87 %  +45 %  12 s ago
a->b  100 Gb/s      -          -  90 %     42 %         -      -         -
";
        let trimmed = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<String>();
        assert_eq!(trimmed, expect);
        assert!(table(&answer(Vec::new()), true).contains("antiphase exporters"));
    }
}
