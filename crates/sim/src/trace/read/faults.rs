//! Faults that are told in advance.
//!
//! CSV with a header; columns in any order, others are left out.
//!
//! | column | meaning |
//! |---|---|
//! | `at_s` | from when on, in seconds of the trace's clock |
//! | `kind` | `host`, `link`, `agent` or `straggler` |
//! | `name` | of a link as the fabric names it, for example `leaf1->spine2`, or else of a host; without a fabric its number, from 0 on |
//! | `until_s` | until when, later than `at_s` |
//! | `factor` | of a straggler: how many times as long iterations take there, from 1 to 1,000; else nothing |

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use fabric::Fabric;
use policy::schedule::Cluster;
use units::LinkId;

use super::{
    super::{Failing, TraceError, TraceFault, fault::FAULTS_MAX},
    table::{Row, Table},
    timed::{SECONDS, SECONDS_RANGE},
};

const COLUMNS: [&str; 5] = ["at_s", "kind", "name", "until_s", "factor"];
/// The first of [`COLUMNS`] must be there.
const REQUIRED: usize = 4;
const KIND: usize = 1;
const NAME: usize = 2;
const UNTIL: usize = 3;
const FACTOR: usize = 4;

/// The most that a host is slower: beyond, it is down.
const FACTOR_MAX: f64 = 1_000.0;

/// Who can fail.
struct Names<'a> {
    cluster: Cluster,
    fabric: Option<&'a Fabric>,
    hosts: BTreeMap<&'a str, u32>,
    links: BTreeMap<String, LinkId>,
}

/// Reads faults of a cluster, whose hosts are the first ones of the fabric where it has one.
///
/// # Errors
/// [`TraceError`], the first thing that is wrong.
pub fn read_faults(text: &str, cluster: Cluster, fabric: Option<&Fabric>) -> Result<Vec<TraceFault>, TraceError> {
    let mut names = Names { cluster, fabric, hosts: BTreeMap::new(), links: BTreeMap::new() };
    if let Some(fabric) = fabric {
        names.hosts =
            fabric.hosts().take(cluster.hosts as usize).zip(0..).map(|(host, at)| (fabric.node(host).name.as_str(), at)).collect();
        names.links = (0..fabric.links().len() as u32).map(|at| (fabric.link_name(LinkId(at)), LinkId(at))).collect();
    }
    let mut table = Table::open(text, &COLUMNS, REQUIRED)?;
    let mut faults = Vec::new();
    while let Some(row) = table.next()? {
        if faults.len() as u64 >= FAULTS_MAX {
            return Err(TraceError::TooManyFaults { line: row.line, limit: FAULTS_MAX as usize });
        }
        faults.push(names.fault(&row)?);
    }
    Ok(faults)
}

impl Names<'_> {
    fn fault(&self, row: &Row<'_>) -> Result<TraceFault, TraceError> {
        let at_s = row.number(0, SECONDS_RANGE.0, SECONDS_RANGE.1, SECONDS)?;
        let what = match row.given(KIND).unwrap_or_default() {
            "host" => Failing::Host(self.host(row)?),
            "link" => Failing::Link(self.link(row)?),
            "agent" if self.fabric.is_none() => return Err(row.bad(KIND, "host or straggler where there is no fabric")),
            "agent" => Failing::Agent(self.host(row)?),
            "straggler" => {
                let factor = row.number(FACTOR, 1.0, FACTOR_MAX, "a factor from 1 to 1000")?;
                Failing::Straggler { host: self.host(row)?, factor }
            }
            _ => return Err(row.bad(KIND, "host, link, agent or straggler")),
        };
        if row.given(FACTOR).is_some() && !matches!(what, Failing::Straggler { .. }) {
            return Err(row.bad(FACTOR, "empty: only a straggler has a factor"));
        }
        let until_s = row.number(UNTIL, SECONDS_RANGE.0, SECONDS_RANGE.1, SECONDS)?;
        if until_s <= at_s {
            return Err(row.bad(UNTIL, "a time after at_s"));
        }
        Ok(TraceFault { at_s, until_s, what })
    }

    fn host(&self, row: &Row<'_>) -> Result<u32, TraceError> {
        let name = row.name(NAME)?;
        if self.fabric.is_some() {
            return self.hosts.get(name).copied().ok_or_else(|| row.bad(NAME, "the name of a host of the cluster"));
        }
        let number = name.parse().ok().filter(|host| *host < self.cluster.hosts);
        number.ok_or_else(|| row.bad(NAME, "the number of a host of the cluster, from 0 on"))
    }

    fn link(&self, row: &Row<'_>) -> Result<LinkId, TraceError> {
        if self.fabric.is_none() {
            return Err(row.bad(KIND, "host or straggler where there is no fabric"));
        }
        self.links.get(row.name(NAME)?).copied().ok_or_else(|| row.bad(NAME, "the name of a link of the fabric"))
    }
}
