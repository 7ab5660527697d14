//! `antiphase fabric generate`: the document on standard output, its numbers on standard error.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use fabric::{
    Fabric, FabricError, capacity,
    generate::{Clos2, Clos3, Rail, cassini24, clos2, clos3, rail},
    summary::{Summary, summarise},
};
use units::Rate;

use super::Form;
use crate::{
    input::CliError,
    output::{print, say},
};

pub(super) const EXAMPLES: &str = "\
EXAMPLES
  The testbed of the CASSINI paper:
    antiphase fabric generate cassini24 >fabric.yaml
  512 hosts on 16 leaves, 4:1 oversubscribed:
    antiphase fabric generate clos2 --leaves 16 --spines 4 --hosts-per-leaf 32 --host-rate 200G --uplink-rate 400G >fabric.yaml
  64 hosts of 8 NICs, rail-optimised:
    antiphase fabric generate rail --groups 2 --hosts-per-group 32 --spines 8 >fabric.yaml";

#[derive(Debug, Subcommand)]
pub(crate) enum GenerateCommand {
    /// Two tiers: every leaf cabled to every spine
    Clos2(Clos2Args),
    /// Three tiers: pods of leaves and spines, joined by cores as in a fat tree
    Clos3(Clos3Args),
    /// Rail-optimised: NIC r of every host of a group on rail leaf r, spines above
    Rail(RailArgs),
    /// The CASSINI testbed's numbers: 24 servers, 13 switches, 48 links of 50 Gb/s, 2:1
    Cassini24(Form),
}

/// Capacities that every shape has.
#[derive(Debug, Args)]
struct Rates {
    /// Capacity of each cable of a host
    #[arg(long, value_name = "RATE", default_value = "400G", value_parser = capacity::parse)]
    host_rate: Rate,
    /// Capacity of each cable from leaf to spine
    #[arg(long, value_name = "RATE", default_value = "400G", value_parser = capacity::parse)]
    uplink_rate: Rate,
}

/// Parallel cables of the shapes that can have them.
#[derive(Debug, Args)]
struct Uplinks {
    /// Parallel cables from each leaf to each spine
    #[arg(long, value_name = "CABLES", default_value_t = 1)]
    uplinks: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Clos2Args {
    /// Leaf switches
    #[arg(long, value_name = "N")]
    leaves: u32,
    /// Spine switches, each cabled to every leaf
    #[arg(long, value_name = "N")]
    spines: u32,
    /// Hosts on each leaf, with one NIC each
    #[arg(long, value_name = "N")]
    hosts_per_leaf: u32,
    #[command(flatten)]
    rates: Rates,
    #[command(flatten)]
    parallel: Uplinks,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Args)]
pub(crate) struct Clos3Args {
    /// Pods
    #[arg(long, value_name = "N")]
    pods: u32,
    /// Leaf switches in each pod
    #[arg(long, value_name = "N")]
    leaves_per_pod: u32,
    /// Spine switches in each pod, each cabled to every leaf of the pod
    #[arg(long, value_name = "N")]
    spines_per_pod: u32,
    /// Core switches above each spine of a pod
    #[arg(long, value_name = "N")]
    cores_per_spine: u32,
    /// Hosts on each leaf, with one NIC each
    #[arg(long, value_name = "N")]
    hosts_per_leaf: u32,
    #[command(flatten)]
    rates: Rates,
    /// Capacity of each cable from spine to core
    #[arg(long, value_name = "RATE", default_value = "400G", value_parser = capacity::parse)]
    core_rate: Rate,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Args)]
pub(crate) struct RailArgs {
    /// Groups of hosts, each with its own rail leaves
    #[arg(long, value_name = "N")]
    groups: u32,
    /// Hosts in each group
    #[arg(long, value_name = "N")]
    hosts_per_group: u32,
    /// NICs of each host, and so rail leaves of each group
    #[arg(long, value_name = "N", default_value_t = 8)]
    rails: u32,
    /// Spine switches; 0 leaves the rails apart
    #[arg(long, value_name = "N")]
    spines: u32,
    #[command(flatten)]
    rates: Rates,
    #[command(flatten)]
    parallel: Uplinks,
    #[command(flatten)]
    form: Form,
}

pub(super) fn run(command: &GenerateCommand) -> Result<ExitCode, CliError> {
    let (made, form) = make(command);
    let made = made.map_err(|e| CliError::Usage(e.to_string()))?;
    // The summary goes to standard error, so that standard output can be redirected into a document.
    say(&line(&summarise(&made)));
    print(&form.render(&made))?;
    Ok(ExitCode::SUCCESS)
}

fn make(command: &GenerateCommand) -> (Result<Fabric, FabricError>, &Form) {
    match command {
        GenerateCommand::Clos2(a) => {
            let &Clos2Args { leaves, spines, hosts_per_leaf, rates: Rates { host_rate, uplink_rate }, .. } = a;
            (clos2(&Clos2 { leaves, spines, hosts_per_leaf, host_rate, uplink_rate, uplinks: a.parallel.uplinks }), &a.form)
        }
        GenerateCommand::Clos3(a) => {
            let &Clos3Args { pods, leaves_per_pod, spines_per_pod, cores_per_spine, hosts_per_leaf, core_rate, .. } = a;
            let Rates { host_rate, uplink_rate } = a.rates;
            let spec = Clos3 { pods, leaves_per_pod, spines_per_pod, cores_per_spine, hosts_per_leaf, host_rate, uplink_rate, core_rate };
            (clos3(&spec), &a.form)
        }
        GenerateCommand::Rail(a) => {
            let &RailArgs { groups, hosts_per_group, rails, spines, rates: Rates { host_rate, uplink_rate }, .. } = a;
            (rail(&Rail { groups, hosts_per_group, rails, spines, host_rate, uplink_rate, uplinks: a.parallel.uplinks }), &a.form)
        }
        GenerateCommand::Cassini24(form) => (cassini24(), form),
    }
}

/// `clos2: 32 hosts, 6 switches, 56 cables; oversubscription 1.33:1 at tier 1`
fn line(s: &Summary) -> String {
    let ratios = s.tiers.iter().filter_map(|t| Some(format!("{} at tier {}", t.oversubscription?, t.tier)));
    let ratios: Vec<String> = ratios.collect();
    let ratios = if ratios.is_empty() { "no uplinks".into() } else { format!("oversubscription {}", ratios.join(", ")) };
    // A generated cable always has both directions, so cables are half of the links.
    format!("{}: {} hosts, {} switches, {} cables; {ratios}", s.name, s.hosts, s.switches, s.links / 2)
}
