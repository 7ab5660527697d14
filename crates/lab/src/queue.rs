//! The marking queue of a link: built by clang, attached by tc, read by bpftool.
//!
//! `tc` shows no maps, and a system call of our own would be unsafe code. bpftool finds the maps by the number of the attached
//! program, so nothing is pinned and nothing outlives the namespace.

use std::{collections::BTreeMap, fs, io::Write, path::Path};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use units::{Nanos, Rate};

use crate::tool;

/// The program, for clang.
const SOURCE: &str = include_str!("../bpf/ecn_queue.c");
/// Backlog at which marking begins, as time on the link. A switch marks from some tens of microseconds on; a busy kernel
/// forwards packets in bunches of some milliseconds, and those are no congestion.
const MARK_FROM: Nanos = Nanos(5_000_000);
/// Backlog from which every packet is marked.
const MARK_ALL: Nanos = Nanos(20_000_000);

/// What a link carried and marked for one job since the lab came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Traffic {
    /// Packets that passed.
    pub packets: u64,
    /// Bytes that passed, with Ethernet headers.
    pub bytes: u64,
    /// Packets marked here.
    pub marks: u64,
}

/// The maps of one attached queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Maps {
    traffic: u64,
}

/// Counters of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// By job; jobs that sent nothing are absent.
    pub(crate) traffic: BTreeMap<usize, Traffic>,
}

#[derive(Deserialize)]
struct Filter {
    #[serde(default)]
    options: Option<FilterOptions>,
}

#[derive(Deserialize)]
struct FilterOptions {
    prog: Option<Program>,
}

#[derive(Deserialize)]
struct Program {
    id: u64,
}

#[derive(Deserialize)]
struct ProgramInfo {
    map_ids: Vec<u64>,
}

#[derive(Deserialize)]
struct MapInfo {
    name: String,
}

#[derive(Deserialize)]
struct Entry {
    formatted: Formatted,
}

#[derive(Deserialize)]
struct Formatted {
    key: usize,
    value: Traffic,
}

/// Builds the program for links of that rate into `folder` and returns its path. Built once per rate and source.
pub(crate) fn build(folder: &Path, rate: Rate) -> Result<String> {
    let bytes = |time: Nanos| rate.bytes_in(time).0;
    let bytes_per_second = bytes(Nanos(Nanos::PER_SECOND));
    let object = folder.join(format!("ecn-queue-{}M.o", rate.mbps()));
    let object = object.to_str().context("the lab's folder has a name of plain text")?.to_owned();
    // Two links of one rate share an object, and the folder belongs to this lab alone.
    if Path::new(&object).exists() {
        return Ok(object);
    }
    let source = format!("{object}.c");
    fs::File::create(&source).and_then(|mut file| file.write_all(SOURCE.as_bytes())).with_context(|| source.clone())?;
    let defines =
        [format!("-DRATE={bytes_per_second}ULL"), format!("-DK_MIN={}U", bytes(MARK_FROM)), format!("-DK_MAX={}U", bytes(MARK_ALL))];
    // `-g` writes BTF: the kernel wants it for the spin lock in a map, and bpftool for the `formatted` values that `read` parses.
    let mut args = vec!["-O2", "-g", "-target", "bpf", "-c", &source, "-o", &object];
    args.extend(defines.iter().map(String::as_str));
    tool::run("clang", &args, "").context("building the marking queue")?;
    Ok(object)
}

/// The commands, for `tc -batch`, that put the program at the sending end of a link.
pub(crate) fn attach(device: &str, object: &str) -> [String; 2] {
    [
        // The egress hook of `clsact` runs before the root qdisc, so the program sees packets before HTB delays them.
        format!("qdisc add dev {device} clsact"),
        format!("filter add dev {device} egress prio 1 bpf direct-action object-file {object} section tc"),
    ]
}

/// Finds the maps of the queue at `device`, from inside its namespace.
pub(crate) fn maps(device: &str) -> Result<Maps> {
    let filters: Vec<Filter> = serde_json::from_str(&tool::run("tc", &["-j", "filter", "show", "dev", device, "egress"], "")?)?;
    // The lab attaches one program per port, so the first filter with a program is the marking queue.
    let program = filters.into_iter().find_map(|f| f.options?.prog);
    let program = program.with_context(|| format!("no marking queue at {device}"))?.id.to_string();
    // Ids of programs and maps count for the whole machine, so this look-up needs no namespace.
    let info: ProgramInfo = serde_json::from_str(&tool::run("bpftool", &["-j", "prog", "show", "id", &program], "")?)?;
    for id in info.map_ids {
        let map: MapInfo = serde_json::from_str(&tool::run("bpftool", &["-j", "map", "show", "id", &id.to_string()], "")?)?;
        if map.name == "traffic" {
            return Ok(Maps { traffic: id });
        }
    }
    bail!("the marking queue at {device} has no counters")
}

/// Reads the counters of a queue.
pub(crate) fn read(maps: &Maps) -> Result<Counters> {
    let dump = tool::run("bpftool", &["-j", "map", "dump", "id", &maps.traffic.to_string()], "")?;
    let entries: Vec<Entry> = serde_json::from_str(&dump).context("counters of a marking queue")?;
    // The map is an array with a place for every job number (JOBS in ecn_queue.c); most places stay empty.
    Ok(Counters { traffic: entries.into_iter().map(|e| (e.formatted.key, e.formatted.value)).filter(|(_, t)| t.packets > 0).collect() })
}

impl Counters {
    /// Marks of all jobs since `earlier`.
    pub(crate) fn marks_since(&self, earlier: &Self) -> u64 {
        let sum = |c: &Self| c.traffic.values().map(|t| t.marks).sum::<u64>();
        // Counters only grow while a lab stands; saturation is for a dump that was read out of order.
        sum(self).saturating_sub(sum(earlier))
    }

    /// Bytes of all jobs since `earlier`.
    pub(crate) fn bytes_since(&self, earlier: &Self) -> u64 {
        let sum = |c: &Self| c.traffic.values().map(|t| t.bytes).sum::<u64>();
        sum(self).saturating_sub(sum(earlier))
    }
}
