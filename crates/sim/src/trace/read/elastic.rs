//! Sia's workloads as elastic jobs, and its measurements: `placements-TYPE.csv`, `scalability-TYPE.csv` and `validation-BATCH.csv` of an application.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{
    super::{
        TraceError,
        elastic::{ElasticSubmission, Learning, Measured, Sample, Traits},
        jobs::JOBS_MAX,
    },
    table::{Row, Table},
    timed::{SECONDS, SECONDS_RANGE},
};

/// Most samples of a batch, far above what any application learns from at once.
const SAMPLES: (f64, f64) = (1.0, 1e7);
const BATCH_MAX: u32 = 10_000_000;
/// Longest iteration, in seconds.
const ITERATION_S: (f64, f64) = (0.0, 1e5);
/// Most iterations.
const PROGRESS: (f64, f64) = (0.0, 1e12);
/// Largest gradient, squared.
const GRADIENT: (f64, f64) = (-1e300, 1e300);

/// Reads a workload.
///
/// # Errors
/// [`TraceError`], the first thing that is wrong.
pub fn read_elastic(text: &str) -> Result<Vec<ElasticSubmission>, TraceError> {
    let mut table = Table::open(text, &["name", "time", "application", "num_replicas", "batch_size"], 5)?;
    let (mut jobs, mut lines) = (Vec::new(), BTreeMap::<String, u64>::new());
    while let Some(row) = table.next()? {
        let (line, id) = (row.line, row.name(0)?.to_string());
        if let Some(&first) = lines.get(&id) {
            return Err(TraceError::Twice { line, id, first });
        }
        if jobs.len() >= JOBS_MAX {
            return Err(TraceError::TooMany { line, limit: JOBS_MAX });
        }
        lines.insert(id.clone(), line);
        let submitted_s = row.number(1, SECONDS_RANGE.0, SECONDS_RANGE.1, SECONDS)?;
        let application = row.name(2)?.to_string();
        jobs.push(ElasticSubmission { id, line, submitted_s, application, gpus: row.whole(3)?, batch: batch(&row)? });
    }
    if jobs.is_empty() { Err(TraceError::empty(text, "a job that could be played")) } else { Ok(jobs) }
}

fn batch(row: &Row<'_>) -> Result<u32, TraceError> {
    let batch = row.whole(4)?;
    if batch > BATCH_MAX { Err(row.bad(4, "a whole number from 1 to 10,000,000")) } else { Ok(batch) }
}

fn sample(row: &Row<'_>, from: usize) -> Result<Sample, TraceError> {
    let samples = row.number(from, SAMPLES.0, SAMPLES.1, "samples, from 1 to 1e7")?;
    let seconds = "a time in seconds from 0 to 1e5";
    let iteration_s = row.number(from + 1, ITERATION_S.0, ITERATION_S.1, seconds)?;
    let sync_s = row.number(from + 2, ITERATION_S.0, ITERATION_S.1, seconds)?;
    Ok(Sample { samples, iteration_s, sync_s })
}

/// Reads the two files with iterations of an application on a type of GPU.
///
/// # Errors
/// [`TraceError`], the first thing that is wrong; `true` beside it where it is in the second file.
pub fn read_measured(placements: &str, scalability: &str) -> Result<Measured, (TraceError, bool)> {
    let mut measured = Measured::default();
    read_placements(placements, &mut measured).map_err(|e| (e, false))?;
    read_scalability(scalability, &mut measured).map_err(|e| (e, true))?;
    measured.sort();
    if measured.is_empty() { Err((TraceError::empty(placements, "a measurement"), false)) } else { Ok(measured) }
}

fn read_placements(text: &str, measured: &mut Measured) -> Result<(), TraceError> {
    let mut table = Table::open(text, &["placement", "local_bsz", "step_time", "sync_time"], 4)?;
    while let Some(row) = table.next()? {
        let digit = |digit: char| digit.to_digit(10).filter(|gpus| *gpus > 0);
        let counts: Option<Vec<u32>> = row.name(0)?.chars().map(digit).collect();
        let counts = counts.ok_or_else(|| row.bad(0, "a digit from 1 to 9 for each node"))?;
        measured.placed(&counts, sample(&row, 1)?);
    }
    Ok(())
}

fn read_scalability(text: &str, measured: &mut Measured) -> Result<(), TraceError> {
    let mut table = Table::open(text, &["num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"], 5)?;
    while let Some(row) = table.next()? {
        measured.counted(row.count(0)?, row.count(1)?, sample(&row, 2)?);
    }
    Ok(())
}

/// Reads how an application learns, from one file for each batch of its traits, in their order.
///
/// # Errors
/// [`TraceError`] with the number of the file.
pub fn read_learning(traits: &Traits, files: &[String]) -> Result<Learning, (TraceError, usize)> {
    let mut learning = Learning { ends: alloc::vec![f64::INFINITY; traits.epochs], gradients: Vec::new() };
    for (at, (batch, text)) in traits.batches.iter().zip(files).enumerate() {
        let parts = read_validation(text, &mut learning.ends).map_err(|e| (e, at))?;
        learning.gradients.push((*batch, parts));
    }
    // What no file says is no part of the training.
    learning.ends.retain(|end| end.is_finite());
    let first = files.first().map_or("", String::as_str);
    if learning.ends.is_empty() { Err((TraceError::empty(first, "a part of a training"), 0)) } else { Ok(learning) }
}

fn read_validation(text: &str, ends: &mut [f64]) -> Result<Vec<(f64, f64)>, TraceError> {
    let mut table = Table::open(text, &["progress", "grad_sqr", "grad_var"], 3)?;
    let mut parts = Vec::new();
    while let Some(row) = table.next()? {
        let progress = row.number(0, PROGRESS.0, PROGRESS.1, "iterations from 0 to 1e12")?;
        if let Some(end) = ends.get_mut(parts.len()) {
            *end = end.min(progress);
            let gradient = |at| row.number(at, GRADIENT.0, GRADIENT.1, "a number");
            parts.push((gradient(1)?, gradient(2)?));
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::{super::super::elastic::Speeds, *};

    #[test]
    fn measurements_are_read() {
        let placements = "placement,local_bsz,step_time,sync_time\n1,32,0.1,0.0\n14,32,0.3,0.1\n14,64,0.5,0.1\n";
        let scalability = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n3,12,32,0.9,0.2\n";
        let speeds = Speeds::Measured(read_measured(placements, scalability).unwrap());
        assert_eq!(speeds.time(&[4, 1], 48), Some((0.4, 0.1)));
        assert_eq!(speeds.time(&[4, 4, 4], 32), Some((0.9, 0.2)));
        let bad = read_measured("placement,local_bsz,step_time,sync_time\n104,32,0.1,0.0\n", scalability).unwrap_err();
        assert_eq!(bad.0.to_string(), "line 2: placement \"104\" must be a digit from 1 to 9 for each node");
    }

    #[test]
    fn learning_ends_where_the_first_batch_does() {
        let traits = Traits { epochs: 2, batches: &[8, 16], ..super::super::super::elastic::traits()[0] };
        let of = |shift: f64| {
            alloc::format!("progress,iteration,metric,grad_sqr,grad_var\n{},1,1,1.0,4.0\n{},2,1,2.0,6.0\n", 10.0 + shift, 20.0 - shift)
        };
        let learning = read_learning(&traits, &[of(0.0), of(3.0)]).unwrap();
        assert_eq!(learning.ends, [10.0, 17.0]);
        assert_eq!(learning.gradient(8, 1), (2.0, 6.0));
    }

    #[test]
    fn a_workload_is_read() {
        let text = "name,time,application,num_replicas,batch_size\na,1.5,bert,12,384\nb,2,cifar10,4,2048\n";
        let jobs = read_elastic(text).unwrap();
        assert_eq!((jobs.len(), jobs[1].application.as_str(), jobs[1].gpus, jobs[1].batch), (2, "cifar10", 4, 2_048));
        let twice = read_elastic(&text.replace("b,2", "a,2")).unwrap_err();
        assert_eq!(twice.to_string(), "line 3: job id \"a\" is that of line 2 already");
    }
}
