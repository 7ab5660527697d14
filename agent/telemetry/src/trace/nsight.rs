//! The list of kernels of Nsight Systems: `nsys stats --report cuda_gpu_trace --format csv`. It says when, and not how much.

use std::sync::Arc;

use units::{Nanos, NodeTime};

use super::{Span, Taken, TraceError, groups::Groups, is_nccl, nanos};

/// Lines before the table: `nsys` says what it does.
const PREAMBLE_MAX: usize = 64;

/// Whether a text has the head of such a table.
pub(super) fn is_table(text: &str) -> bool {
    head(text).is_some()
}

/// The number of the line with the columns, from 0, and what begins with it.
fn head(text: &str) -> Option<(usize, &str)> {
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').take(PREAMBLE_MAX).enumerate() {
        if line.contains("Start (") && line.contains("Duration (") && line.contains("Name") {
            return Some((number, text.get(at..)?));
        }
        at += line.len();
    }
    None
}

pub(super) fn read(text: &str) -> Result<(Vec<Span>, Option<Taken>), TraceError> {
    let Some((before, table)) = head(text) else { return Err(TraceError::Unknown) };
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(table.as_bytes());
    let malformed = |line: u64, problem: String| TraceError::Malformed { line: before + line as usize, problem };
    let header = reader.headers().map_err(|error| malformed(1, error.to_string()))?.clone();
    let time = |name: &str| header.iter().enumerate().find_map(|(at, column)| Some((at, unit(column.strip_prefix(name)?)?)));
    let missing = |what| TraceError::Missing { what };
    let start = time("Start ").ok_or(missing("no column \"Start\" with a unit of time"))?;
    let duration = time("Duration ").ok_or(missing("no column \"Duration\" with a unit of time"))?;
    let name = header.iter().position(|column| column == "Name").ok_or(missing("no column \"Name\""))?;
    // Tables of a version without it are of one GPU, as far as they say.
    let device = header.iter().position(|column| column == "Device");
    let mut found: Groups<String, (f64, f64, Arc<str>)> = Groups::default();
    for record in reader.records() {
        let record = record.map_err(|error| malformed(error.position().map_or(1, csv::Position::line), error.to_string()))?;
        let line = record.position().map_or(1, csv::Position::line);
        let Some(name) = record.get(name).filter(|name| is_nccl(name)) else { continue };
        let number = |(at, _): (usize, f64), what: &str| {
            let field = record.get(at).unwrap_or_default();
            field
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .ok_or_else(|| malformed(line, format!("{what}: {field:?} is no number")))
        };
        let (start, duration) = (number(start, "Start")?, number(duration, "Duration")?);
        let (name, device) = (found.name(name)?, device.and_then(|at| record.get(at)).unwrap_or_default());
        found.add(device.to_owned(), (start, duration, name))?;
    }
    let none = missing("no kernels of NCCL in the table: it has to be that of the report cuda_gpu_trace");
    let (found, taken) = found.most(|device| format!("device {device:?}")).ok_or(none)?;
    let first = found.iter().map(|(start, ..)| *start).fold(f64::INFINITY, f64::min);
    let span = |(at, long, what): (f64, f64, Arc<str>)| {
        let times = nanos(at - first, start.1).zip(nanos(long, duration.1));
        let (since, lasts) = times
            .ok_or_else(|| TraceError::Odd { what: format!("kernel {what:?} at Start {at}: Duration {long}, and no time is so long") })?;
        Ok(Span { what, start: NodeTime(since), duration: Nanos(lasts), bytes: None })
    };
    Ok((found.into_iter().map(span).collect::<Result<_, TraceError>>()?, taken))
}

/// Nanoseconds of the unit in a column's name.
fn unit(name: &str) -> Option<f64> {
    match name.trim() {
        "(ns)" => Some(1.0),
        "(us)" | "(\u{b5}s)" | "(\u{3bc}s)" => Some(1e3),
        "(ms)" => Some(1e6),
        "(s)" | "(sec)" => Some(1e9),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_nccl_are_read_behind_what_the_tool_says() {
        let text = "Processing [report1.sqlite] with [cuda_gpu_trace.py]...\n\nStart (ns),Duration (ns),CorrId,Strm,Name\n\
            1000,50,1,7,\"void gemm<float, 4>(a, b)\"\n2000,300,2,20,\"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm *, unsigned long)\"\n\
            5000,310,3,20,ncclDevKernel_SendRecv(x)\n";
        let found: Vec<_> = read(text).unwrap().0.into_iter().map(|span| (span.start.0, span.duration.0, span.bytes)).collect();
        assert_eq!(found, [(0, 300, None), (3_000, 310, None)]);
        let seconds = "Start (s),Duration (us),Name\n1.5,2.5,ncclX\n1.75,2,ncclX\n";
        let found: Vec<_> = read(seconds).unwrap().0.into_iter().map(|span| (span.start.0, span.duration.0)).collect();
        assert_eq!(found, [(0, 2_500), (250_000_000, 2_000)]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("Start (ns),Duration (ns),Name\n1,2,gemm\n").contains("cuda_gpu_trace"));
        assert!(error("Start (weeks),Duration (ns),Name\n").contains("no column \"Start\""));
        assert!(error("x\nStart (ns),Duration (ns),Name\n1,many,ncclX\n").starts_with("line 3: Duration: \"many\""));
    }

    #[test]
    fn of_several_devices_that_with_most_kernels_is_taken() {
        let line = |at: u32, device: u32| format!("{at},20,\"H100 ({device})\",\"void ncclX<a, b>(c)\"\n");
        let lines: String = (0..8).map(|n| line(n * 100, 0) + &line(n * 100 + 50, 1)).collect();
        let (spans, taken) = read(&format!("Start (ns),Duration (ns),Device,Name\n{lines}{}", line(850, 1))).unwrap();
        assert!(spans.len() == 9 && spans.windows(2).all(|pair| pair[1].start.0 - pair[0].start.0 == 100), "{spans:?}");
        assert_eq!(taken, Some(Taken { name: "device \"H100 (1)\"".into(), left_out: 8 }));
        let error = read("Start (ns),Duration (ns),Name\n1,-5,ncclX\n").unwrap_err().to_string();
        assert_eq!(error, "kernel \"ncclX\" at Start 1: Duration -5, and no time is so long");
    }
}
