//! `antiphase fabric routes`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use fabric::{
    Fabric, NodeKind,
    collective::Endpoint,
    route::{Ecmp, Pin, Router, Routes},
};
use serde::Serialize;

use crate::{
    cluster::read_fabric,
    input::CliError,
    output::{Document, Output, print},
    table::Table,
};

#[derive(Debug, Args)]
pub(crate) struct RoutesArgs {
    /// Fabric document; - for standard input
    file: PathBuf,
    /// Sending host
    #[arg(long, value_name = "HOST")]
    from: String,
    /// Receiving host
    #[arg(long, value_name = "HOST")]
    to: String,
    /// NIC of the sending host, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    from_rail: u16,
    /// NIC of the receiving host, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    to_rail: u16,
    /// Among equal next hops: spread, or hashed:SEED
    #[arg(long, value_name = "RULE", default_value = "spread")]
    ecmp: Ecmp,
    /// A route as node names with commas, hosts included; NODE:PORT where cables run in parallel
    #[arg(long = "pin", value_name = "ROUTE")]
    pins: Vec<String>,
    /// List at most this many paths
    #[arg(long, value_name = "N", default_value_t = 16)]
    paths: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The answer, with names for ids.
#[derive(Debug, Serialize)]
struct Answer {
    from: String,
    to: String,
    ecmp: String,
    equal_paths: u64,
    links: Vec<AnswerLink>,
    paths: Vec<AnswerPath>,
}

#[derive(Debug, Serialize)]
struct AnswerLink {
    hop: u32,
    link: String,
    share: f64,
    assumption: String,
    capacity_mbps: Option<u64>,
    provenance: String,
}

#[derive(Debug, Serialize)]
struct AnswerPath {
    share: f64,
    links: Vec<String>,
}

pub(super) fn run(args: &RoutesArgs) -> Result<ExitCode, CliError> {
    let found = read_fabric(&args.file)?;
    let refuse = |e: &dyn std::fmt::Display| CliError::input(&args.file, e);
    let from = endpoint(&found, &args.from, args.from_rail, args)?;
    let to = endpoint(&found, &args.to, args.to_rail, args)?;
    let pins = args.pins.iter().map(|route| Pin::through(&found, &route.split(',').map(str::trim).collect::<Vec<_>>()));
    let pins = pins.collect::<Result<Vec<_>, _>>().map_err(|e| refuse(&e))?;
    // Only routes to one host are asked for, so no tables to the other hosts are made.
    let router = Router::toward(&found, args.ecmp, &pins, &[to.host]).map_err(|e| refuse(&e))?;
    let routes = router.paths(from, to, args.paths).map_err(|e| refuse(&e))?;
    let answer = answer(&found, args, &routes);
    let document = Document { schema: "antiphase.routes/v1", answer: &answer };
    print(&args.output.render(&document, || text(&answer))?)?;
    Ok(ExitCode::SUCCESS)
}

fn endpoint(found: &Fabric, name: &str, rail: u16, args: &RoutesArgs) -> Result<Endpoint, CliError> {
    let unknown = || {
        let hosts = found.hosts().map(|host| found.node(host).name.as_str());
        let meant = job::nearest(name, hosts).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        CliError::input(&args.file, format!("unknown node {name:?}{meant}"))
    };
    let host = found.find(name).ok_or_else(unknown)?;
    if found.node(host).kind != NodeKind::Host {
        return Err(CliError::input(&args.file, format!("{name:?} is a switch; routes run between hosts")));
    }
    // A placement may number more ranks than NICs, and shares the NICs out; a user who names a NIC means that one.
    // A host without cables falls through to the router, whose error says that there is no route.
    let nics = found.links_from(host).len();
    if nics > 0 && usize::from(rail) >= nics {
        return Err(CliError::Usage(format!("NIC {rail} of {name:?}: it has {nics}, counted from 0")));
    }
    Ok(Endpoint { host, rail })
}

fn answer(found: &Fabric, args: &RoutesArgs, routes: &Routes) -> Answer {
    let link = |l: &fabric::route::RouteLink| {
        let link = found.link(l.link);
        AnswerLink {
            hop: l.hop,
            link: found.link_name(l.link),
            share: l.share.as_f64(),
            assumption: l.assumption.to_string(),
            capacity_mbps: link.capacity.map(units::Rate::mbps),
            provenance: link.provenance.to_string(),
        }
    };
    let path =
        |p: &fabric::route::Path| AnswerPath { share: p.share.as_f64(), links: p.links.iter().map(|&l| found.link_name(l)).collect() };
    Answer {
        from: args.from.clone(),
        to: args.to.clone(),
        ecmp: args.ecmp.to_string(),
        equal_paths: routes.path_count,
        links: routes.links.iter().map(link).collect(),
        paths: routes.paths.iter().map(path).collect(),
    }
}

fn text(a: &Answer) -> String {
    if a.links.is_empty() {
        return format!("{} to {}: inside the host, no link is used\n", a.from, a.to);
    }
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let mut text = format!("{} to {}: {} equally short path(s), ECMP {}\n\n", a.from, a.to, a.equal_paths, a.ecmp);
    let links = a.links.iter().map(|l| {
        let capacity = l.capacity_mbps.map_or_else(|| "unknown".into(), |mbps| units::Rate(mbps).to_string());
        [l.hop.to_string(), l.link.clone(), percent(l.share), l.assumption.clone(), capacity, l.provenance.clone()]
    });
    text += &Table::new(&[">HOP", "LINK", ">SHARE", "ASSUMPTION", ">CAPACITY", "PROVENANCE"]).with_rows(links).render();
    text += "\n";
    let paths = a.paths.iter().zip(1..).map(|(p, i)| [i.to_string(), percent(p.share), p.links.join(" ")]);
    text += &Table::new(&[">PATH", ">SHARE", "LINKS"]).with_rows(paths).render();
    // Shares of one path are multiples of 1/720720, so anything less is rounding of the floats.
    let unlisted = 1.0 - a.paths.iter().map(|p| p.share).sum::<f64>();
    if unlisted > 1e-7 {
        text += &format!("other paths carry {}; see --paths\n", percent(unlisted));
    }
    text
}
