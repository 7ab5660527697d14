//! The SQLite export of Nsight Systems: `nsys export --type sqlite`, or what `nsys stats` leaves beside its report. It says when, and not
//! how much.
//!
//! The columns that are read have had these names since 2019 (<https://docs.nvidia.com/nsight-systems/UserGuide/index.html>, "SQLite
//! schema reference"); all others may come and go.

use std::collections::BTreeMap;

use units::{Nanos, NodeTime};

use super::{
    SPANS_MAX, Span, TraceError,
    sqlite::{Bytes, Damage, Database, Value},
};

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const STRINGS: &str = "StringIds";
/// Where the name of a kernel is, best first: that with its arguments tells two kernels apart that have one short name.
const NAMES: [&str; 3] = ["demangledName", "shortName", "mangledName"];
/// Kernels of NCCL begin so.
const NCCL: &str = "nccl";

impl From<Damage> for TraceError {
    fn from(Damage { page, problem }: Damage) -> Self {
        Self::Damaged { page, problem }
    }
}

/// One kernel of NCCL: when it began and ended, and its name.
type Kernel = (i64, i64, String);

pub(super) fn read<B: Bytes + ?Sized>(bytes: &B) -> Result<Vec<Span>, TraceError> {
    let database = Database::open(bytes)?;
    let kernels = kernels(&database)?;
    let first = kernels.iter().map(|(start, ..)| *start).min();
    let span = |(start, end, what): Kernel| {
        let since = |from: i64, to: i64| u64::try_from(to.checked_sub(from)?).ok();
        Some(Span { what, start: NodeTime(since(first?, start)?), duration: Nanos(since(start, end)?), bytes: None })
    };
    kernels.into_iter().map(span).collect::<Option<_>>().ok_or(missing("a kernel of NCCL ends before it begins"))
}

const fn missing(what: &'static str) -> TraceError {
    TraceError::Missing { what }
}

/// The kernels of NCCL of one GPU: of the process and the device that have most of them. A machine with eight ranks is recorded as one.
fn kernels<B: Bytes + ?Sized>(database: &Database<'_, B>) -> Result<Vec<Kernel>, TraceError> {
    let none = || missing("no table CUPTI_ACTIVITY_KIND_KERNEL: record with --trace=cuda, on a rank that communicates");
    let table = database.table(KERNELS)?.ok_or_else(none)?;
    let column = |name: &str| table.column(name);
    let start = column("start").ok_or(missing("the table CUPTI_ACTIVITY_KIND_KERNEL has no column start"))?;
    let end = column("end").ok_or(missing("the table CUPTI_ACTIVITY_KIND_KERNEL has no column end"))?;
    let name = NAMES.into_iter().find_map(column);
    let name = name.ok_or(missing("the table CUPTI_ACTIVITY_KIND_KERNEL has neither demangledName, shortName nor mangledName"))?;
    let names = strings(database)?;
    // Older versions have no process in this table, and a file of one process needs none.
    let (process, device) = (column("globalPid"), column("deviceId"));
    let mut of: BTreeMap<(i64, i64), Vec<Kernel>> = BTreeMap::new();
    let (mut count, mut problem) = (0, None);
    database.rows(&table, |_, row| {
        let number = |at: usize| if let Some(Value::Integer(number)) = row.get(at) { Some(*number) } else { None };
        let name = match row.get(name) {
            Some(Value::Integer(id)) => match &names {
                Some(names) => names.get(id).cloned(),
                None => {
                    problem = Some(missing("names of kernels are numbers, and there is no table StringIds with the columns id and value"));
                    return false;
                }
            },
            Some(Value::Text(name)) => Some(name.clone()).filter(|name| name.starts_with(NCCL)),
            _ => None,
        };
        let Some(name) = name else { return true };
        let Some((start, end)) = number(start).zip(number(end)) else {
            problem = Some(missing("a kernel of NCCL has no start or no end"));
            return false;
        };
        let key = |at: Option<usize>| at.and_then(number).unwrap_or_default();
        of.entry((key(process), key(device))).or_default().push((start, end, name));
        count += 1;
        // One more than the limit tells that there are more.
        count <= SPANS_MAX
    })?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    if count > SPANS_MAX {
        return Err(TraceError::TooMany);
    }
    // Of equals the first, so that the same file gives the same answer.
    let most = of.into_values().rev().max_by_key(Vec::len);
    most.ok_or(missing("no kernels of NCCL in the table CUPTI_ACTIVITY_KIND_KERNEL: record on a rank that communicates"))
}

/// The names of kernels of NCCL by their numbers; `None` without such a table.
fn strings<B: Bytes + ?Sized>(database: &Database<'_, B>) -> Result<Option<BTreeMap<i64, String>>, TraceError> {
    let Some(table) = database.table(STRINGS)? else { return Ok(None) };
    let Some((id, value)) = table.column("id").zip(table.column("value")) else { return Ok(None) };
    let mut names = BTreeMap::new();
    database.rows(&table, |number, row| {
        // A column that is the key of its table is not stored: the number of the row is its value.
        let id = if let Some(Value::Integer(id)) = row.get(id) { *id } else { number };
        if let Some(Value::Text(name)) = row.get(value).filter(|value| matches!(value, Value::Text(name) if name.starts_with(NCCL))) {
            names.insert(id, name.clone());
        }
        names.len() <= SPANS_MAX
    })?;
    Ok(Some(names))
}
