//! The SQLite export of Nsight Systems: `nsys export --type sqlite`, or what `nsys stats` leaves beside its report. It says when, and not
//! how much.
//!
//! The columns that are read have had these names since 2019 (<https://docs.nvidia.com/nsight-systems/UserGuide/index.html>, "SQLite
//! schema reference"); all others may come and go.

use std::{collections::BTreeMap, sync::Arc};

use units::{Nanos, NodeTime};

use super::{
    SPANS_MAX, Span, Taken, TraceError,
    groups::Groups,
    is_nccl,
    sqlite::{Bytes, Damage, Database, Value},
};

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const STRINGS: &str = "StringIds";
/// Where the name of a kernel is, best first: that with its arguments tells two kernels apart that have one short name.
const NAMES: [&str; 3] = ["demangledName", "shortName", "mangledName"];
/// Where the number of a process is in Nsight's numbers of processes on any machine: 24 bits behind as many of the thread.
const PROCESS_SHIFT: u32 = 24;

impl From<Damage> for TraceError {
    fn from(Damage { page, problem }: Damage) -> Self {
        Self::Damaged { page, problem }
    }
}

/// One kernel of NCCL: when it began and ended, and its name.
type Kernel = (i64, i64, Arc<str>);

pub(super) fn read<B: Bytes + ?Sized>(bytes: &B) -> Result<(Vec<Span>, Option<Taken>), TraceError> {
    let database = Database::open(bytes)?;
    let (kernels, taken) = kernels(&database)?;
    let first = kernels.iter().map(|(start, ..)| *start).min().unwrap_or(0);
    let span = |(start, end, what): Kernel| {
        let since = |from: i64, to: i64| u64::try_from(to.checked_sub(from)?).ok();
        let (at, long) = since(first, start)
            .zip(since(start, end))
            .ok_or_else(|| TraceError::Odd { what: format!("kernel {what:?} ends at {end}, before it begins at {start}") })?;
        Ok(Span { what, start: NodeTime(at), duration: Nanos(long), bytes: None })
    };
    Ok((kernels.into_iter().map(span).collect::<Result<_, TraceError>>()?, taken))
}

const fn missing(what: &'static str) -> TraceError {
    TraceError::Missing { what }
}

/// The kernels of NCCL of one GPU: of the process and the device that have most of them. A machine with eight ranks is recorded as one.
fn kernels<B: Bytes + ?Sized>(database: &Database<'_, B>) -> Result<(Vec<Kernel>, Option<Taken>), TraceError> {
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
    let mut of: Groups<(i64, i64), Kernel> = Groups::default();
    let mut problem = None;
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
            Some(Value::Text(name)) if is_nccl(name) => match of.name(name) {
                Ok(name) => Some(name),
                Err(error) => {
                    problem = Some(error);
                    return false;
                }
            },
            _ => None,
        };
        let Some(name) = name else { return true };
        let Some((start, end)) = number(start).zip(number(end)) else {
            problem = Some(missing("a kernel of NCCL has no start or no end"));
            return false;
        };
        let key = |at: Option<usize>| at.and_then(number).unwrap_or_default();
        problem = of.add((key(process), key(device)), (start, end, name)).err();
        problem.is_none()
    })?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    let name = |(process, device): &(i64, i64)| match process >> PROCESS_SHIFT & ((1 << PROCESS_SHIFT) - 1) {
        0 => format!("GPU {device}"),
        process => format!("GPU {device} of process {process}"),
    };
    let none = missing("no kernels of NCCL in the table CUPTI_ACTIVITY_KIND_KERNEL: record on a rank that communicates");
    of.most(name).ok_or(none)
}

/// The names of kernels of NCCL by their numbers; `None` without such a table.
fn strings<B: Bytes + ?Sized>(database: &Database<'_, B>) -> Result<Option<BTreeMap<i64, Arc<str>>>, TraceError> {
    let Some(table) = database.table(STRINGS)? else { return Ok(None) };
    let Some((id, value)) = table.column("id").zip(table.column("value")) else { return Ok(None) };
    let mut names = BTreeMap::new();
    database.rows(&table, |number, row| {
        // A column that is the key of its table is not stored: the number of the row is its value.
        let id = if let Some(Value::Integer(id)) = row.get(id) { *id } else { number };
        if let Some(Value::Text(name)) = row.get(value).filter(|value| matches!(value, Value::Text(name) if is_nccl(name))) {
            names.insert(id, name.as_str().into());
        }
        names.len() <= SPANS_MAX
    })?;
    Ok(Some(names))
}
