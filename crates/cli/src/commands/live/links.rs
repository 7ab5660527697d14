//! `antiphase links`: links with demand, worst score first.

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;
use proto::v1alpha1::{Apart, Link, ListLinksRequest, ListLinksResponse};
use units::Rate;

use super::{Listing, counted, exporters::age, or_dash, score};
use crate::{input::CliError, table::Table};

/// As many as the service tells at most.
const LINKS_MAX: u32 = 10_000;
/// What joins the ends in the name of a link, and stands in no name of a job.
const ARROW: &str = "->";

/// Links with demand, worst score first; of a job: which it uses, and with whom it shares them.
#[derive(Debug, Args)]
pub(crate) struct LinksArgs {
    #[command(flatten)]
    list: Listing,
    /// Only links that these jobs use, or only these links (their names have an arrow, ->), as far as they carry a job
    #[arg(value_name = "JOB|LINK", conflicts_with = "observed")]
    names: Vec<String>,
    /// Most links listed; of jobs -o json has all
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: u32,
    /// Links whose load a switch counts, the fullest first, with and without demand
    #[arg(long)]
    observed: bool,
}

pub(crate) fn links(args: &LinksArgs) -> Result<ExitCode, CliError> {
    let (links, jobs): (Vec<String>, Vec<String>) = args.names.iter().cloned().partition(|name| name.contains(ARROW));
    if !links.is_empty() && !jobs.is_empty() {
        return Err(CliError::Usage(format!("{:?} is a job and {:?} a link: ask for the one or the other", jobs[0], links[0])));
    }
    let request = ListLinksRequest {
        // With whom a job shares its links is counted over all of them; the table has the worst.
        limit: if jobs.is_empty() { args.limit } else { LINKS_MAX },
        links: links.clone(),
        jobs: jobs.clone(),
        observed: args.observed,
        ..ListLinksRequest::default()
    };
    args.list.show(
        async |client| client.list_links(request.clone()).await,
        |answer| match answer.links.len() {
            0 if !links.is_empty() => format!("no job uses {} (antiphase links lists those that carry demand)", links.join(", ")),
            0 if !jobs.is_empty() => format!("no link: {} sends over none", jobs.join(" or ")),
            // Of links that were named nothing was left out but what was not asked for.
            listed if !links.is_empty() => table(&ListLinksResponse { total: listed as u32, ..answer.clone() }, args.observed),
            _ if !jobs.is_empty() => of_jobs(answer, &jobs, args.limit as usize),
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
    let shown = Columns::of(&answer.links, None);
    // `total` counts all links that could be listed, and the answer holds at most --limit of them.
    let rest = (answer.total as usize).saturating_sub(answer.links.len());
    let what = if observed { "observed" } else { "with demand" };
    let more = if rest == 0 { String::new() } else { format!("\n{rest} more {what}; --limit shows them\n") };
    shown.render(&answer.links) + &more
}

/// The worst links of some jobs, and below them with whom a job shares how many.
fn of_jobs(answer: &ListLinksResponse, jobs: &[String], limit: usize) -> String {
    let job = match jobs {
        [job] => Some(job.as_str()),
        _ => None,
    };
    let shown = &answer.links[..answer.links.len().min(limit)];
    let mut text = Columns::of(&answer.links, job).render(shown);
    let rest = (answer.total as usize).saturating_sub(shown.len());
    if rest > 0 {
        text.push_str(&format!("\n{rest} more; --limit shows them\n"));
    }
    if let Some(job) = job {
        text.push_str(&format!("\n{}\n", sharing(&answer.links, job)));
    }
    text
}

/// With whom a job shares its links.
fn sharing(links: &[Link], job: &str) -> String {
    let mut with: BTreeMap<&str, usize> = BTreeMap::new();
    for other in links.iter().flat_map(|link| &link.jobs).filter(|other| *other != job) {
        *with.entry(other).or_default() += 1;
    }
    let uses = format!("{job} uses {}", counted(links.len(), "link"));
    if with.is_empty() {
        return format!("{uses} and shares none");
    }
    // Whom it meets most comes first.
    let mut with: Vec<(&str, usize)> = with.into_iter().collect();
    with.sort_by_key(|(other, count)| (std::cmp::Reverse(*count), *other));
    let told: Vec<String> = with.iter().map(|(other, count)| format!("{count} with {other}")).collect();
    format!("{uses}; it shares {}", told.join(", "))
}

/// Which columns say something.
struct Columns<'a> {
    /// The job whose links they are.
    of: Option<&'a str>,
    planned: bool,
    measured: bool,
    heard: bool,
}

impl<'a> Columns<'a> {
    fn of(links: &[Link], of: Option<&'a str>) -> Self {
        let measured = links.iter().any(|link| link.measured_ratio.is_some());
        let heard = links.iter().any(|link| link.observed_mbps.is_some());
        Self { of, planned: measured || heard || of.is_some(), measured, heard }
    }

    fn render(&self, links: &[Link]) -> String {
        let mut headings = vec!["LINK", ">CAPACITY", ">SCORE", ">UNSHIFTED", ">PEAK"];
        headings.extend([(self.planned, ">PLANNED"), (self.measured, ">MEASURED")].iter().filter(|(is, _)| *is).map(|(_, name)| *name));
        if self.heard {
            headings.extend([">OBSERVED", ">MORE", ">AGE"]);
        }
        headings.push(if self.of.is_some() { "SHARED WITH" } else { "JOBS" });
        let mut table = Table::new(&headings);
        links.iter().for_each(|link| table.row(self.row(link)));
        table.render()
    }

    fn row(&self, link: &Link) -> Vec<String> {
        let mut row = vec![
            link.id.clone(),
            Rate(link.capacity_mbps).to_string(),
            standing(link),
            or_dash(link.zero_shift_score, score),
            percent(link.peak_demand_ratio),
        ];
        row.extend(self.planned.then(|| percent(link.mean_demand_ratio)));
        row.extend(self.measured.then(|| or_dash(link.measured_ratio, percent)));
        if self.heard {
            row.extend([observed(link), or_dash(link.observed_excess_ratio, more), or_dash(link.observed_age_ms, age)]);
        }
        let others: Vec<&str> = link.jobs.iter().map(String::as_str).filter(|job| Some(*job) != self.of).collect();
        row.push(if others.is_empty() { "-".into() } else { others.join(", ") });
        row
    }
}

/// How the jobs of a link stand to each other: their score, or that they take turns, which no score says.
pub(super) fn standing(link: &Link) -> String {
    match link.apart() {
        Apart::Turns => "by turns".into(),
        Apart::Free => format!("{} free", or_dash(link.score, score)),
        Apart::Unspecified | Apart::Shifts => or_dash(link.score, score),
    }
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
a->b  100 Gb/s      -          -  90 %     42 %      87 %  +45 %  12 s ago  -
a->b  100 Gb/s      -          -  90 %     42 %         -      -         -  -
";
        let trimmed = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<String>();
        assert_eq!(trimmed, expect);
        assert!(table(&answer(Vec::new()), true).contains("antiphase exporters"));
    }

    #[test]
    fn the_links_of_a_job_say_with_whom_it_shares_them() {
        let link = |id: &str, jobs: &[&str], apart: Apart, score, measured_ratio| Link {
            id: id.into(),
            capacity_mbps: 10_000,
            jobs: jobs.iter().map(|&job| job.into()).collect(),
            score,
            zero_shift_score: score.map(|_| 0.80952),
            peak_demand_ratio: 1.6,
            mean_demand_ratio: 0.51,
            measured_ratio,
            apart: apart.into(),
            ..Link::default()
        };
        let links = vec![
            link("s->b", &["a", "c", "z"], Apart::Free, Some(0.80952), None),
            link("a->s", &["a", "z"], Apart::Turns, Some(1.0), Some(0.45)),
            link("s->t", &["a", "z"], Apart::Shifts, Some(0.99999), None),
            link("t->u", &["a"], Apart::Unspecified, None, None),
        ];
        let answer = ListLinksResponse { total: 4, links, plan_version: 1 };
        let text = of_jobs(&answer, &["a".into()], 30);
        let expect = "\
LINK  CAPACITY        SCORE  UNSHIFTED   PEAK  PLANNED  MEASURED  SHARED WITH
s->b   10 Gb/s  0.8095 free     0.8095  160 %     51 %         -  c, z
a->s   10 Gb/s     by turns     0.8095  160 %     51 %      45 %  z
s->t   10 Gb/s       0.9999     0.8095  160 %     51 %         -  z
t->u   10 Gb/s            -          -  160 %     51 %         -  -

a uses 4 links; it shares 3 with z, 1 with c
";
        assert_eq!(text, expect);
        let few = of_jobs(&answer, &["a".into()], 1);
        assert!(few.contains("3 more; --limit shows them") && few.ends_with("a uses 4 links; it shares 3 with z, 1 with c\n"), "{few}");
        let alone = [link("t->u", &["a"], Apart::Unspecified, None, None)];
        assert_eq!(sharing(&alone, "a"), "a uses 1 link and shares none");
    }
}
