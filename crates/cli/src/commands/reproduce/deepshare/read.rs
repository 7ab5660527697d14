//! The tables and traces of DeepShare's authors.

use std::path::{Path, PathBuf};

use ::harmony::deepshare::{DEMANDS, Job, Kind, MODELS, ROWS, SPREADS, Table};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use crate::input::{CliError, check_texts, read_document};

/// A file: what it is called when it lies in the folder, and where it lies in the authors' `scheduler` folder.
type Name = [&'static str; 2];

const ALONE: Name = ["isolated_thp.csv", "jobs/isolated_thp.csv"];
const BESIDE: Name = ["shared_thp_ratio.csv", "jobs/shared_thp_ratio.csv"];
const SAMPLES: Name = ["total_samples_trained.csv", "jobs/total_samples_trained.csv"];
/// Their traces, and what these are called here.
const TRACES: [(&str, Name); 2] =
    [("simulate", ["trace_sim0.json", "traces/simulate/trace0"]), ("real", ["trace_real0.json", "traces/real/trace0"])];
/// Below the folder of all third-party data.
const BELOW: &str = "deepshare";
/// Most jobs of a trace: forty times theirs.
const JOBS_MAX: usize = 10_240;
/// Most samples of a job: a thousand times as many as the largest of the authors has, and the time of a job is still told to the second.
const SAMPLES_MAX: f64 = 1e13;

/// All that was read.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) table: Table,
    /// Samples of a job, by model and demand.
    pub(super) samples: [[f64; DEMANDS.len()]; MODELS.len()],
    pub(super) traces: Vec<(&'static str, Vec<Job>)>,
}

pub(super) fn read(folder: &Path) -> Result<Data, CliError> {
    let table = Table { alone: alone(folder)?, beside: beside(folder)? };
    let samples = samples(folder)?;
    let trace = |(name, file): &(&'static str, Name)| Ok((*name, trace(folder, file)?));
    let traces = TRACES.iter().map(trace).collect::<Result<_, CliError>>()?;
    Ok(Data { table, samples, traces })
}

/// Where a file is, whichever folder was named.
fn find(folder: &Path, name: &Name) -> Result<PathBuf, CliError> {
    let below = folder.join(BELOW);
    let all = [folder, below.as_path()].into_iter().flat_map(|folder| name.iter().map(move |name| folder.join(name)));
    let missing = || {
        let [flat, nested] = name;
        CliError::input(
            folder,
            format!("neither {flat} nor {nested} is there; clone github.com/gajagajago/deepshare and give its folder scheduler"),
        )
    };
    all.into_iter().find(|file| file.is_file()).ok_or_else(missing)
}

/// A table whose first column and first row are names.
struct Named {
    columns: Vec<String>,
    /// The name of each row, and its numbers.
    rows: Vec<(String, Vec<f64>)>,
}

fn rows(file: &Path) -> Result<Named, CliError> {
    let text = read_document(file)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let bad = |e: csv::Error| CliError::input(file, e);
    let columns = reader.headers().map_err(bad)?.iter().skip(1).map(str::to_owned).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(bad)?;
        let name = record.get(0).unwrap_or_default().to_owned();
        let number = |text: &str| match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
            _ => Err(CliError::input(file, format!("row {name:?}: {text:?} is no number above 0"))),
        };
        let numbers = record.iter().skip(1).map(number).collect::<Result<_, _>>()?;
        rows.push((name, numbers));
    }
    Ok(Named { columns, rows })
}

/// The name of a row of the table.
fn row_name(row: usize) -> String {
    let (gpus, nodes) = SPREADS[row % SPREADS.len()];
    format!("{},{gpus},{nodes}", MODELS[row / SPREADS.len()])
}

/// The numbers of each row that is wanted, in the columns that are wanted.
fn wanted<const R: usize, const C: usize>(
    file: &Path,
    row: impl Fn(usize) -> String,
    column: impl Fn(usize) -> String,
) -> Result<[[f64; C]; R], CliError> {
    let Named { columns, rows } = rows(file)?;
    let mut found = [[0.0; C]; R];
    for (at, own) in found.iter_mut().enumerate() {
        let name = row(at);
        let numbers = rows.iter().find(|(of, _)| *of == name).map(|(_, numbers)| numbers);
        let numbers = numbers.ok_or_else(|| CliError::input(file, format!("no row {name:?}")))?;
        for (at, own) in own.iter_mut().enumerate() {
            let name = column(at);
            let place = columns.iter().position(|of| *of == name).and_then(|place| numbers.get(place));
            *own = *place.ok_or_else(|| CliError::input(file, format!("no column {name:?}")))?;
        }
    }
    Ok(found)
}

fn alone(folder: &Path) -> Result<[f64; ROWS], CliError> {
    let found: [[f64; 1]; ROWS] = wanted(&find(folder, &ALONE)?, row_name, |_| "isol_thp".to_owned())?;
    Ok(found.map(|[alone]| alone))
}

fn beside(folder: &Path) -> Result<[[f64; ROWS]; ROWS], CliError> {
    wanted(&find(folder, &BESIDE)?, row_name, row_name)
}

fn samples(folder: &Path) -> Result<[[f64; DEMANDS.len()]; MODELS.len()], CliError> {
    wanted(&find(folder, &SAMPLES)?, |model| MODELS[model].to_owned(), |demand| DEMANDS[demand].to_string())
}

/// A job of a trace.
#[derive(Debug, Deserialize)]
struct Row {
    model: String,
    gpu_demand: u32,
    total_samples_to_train: f64,
}

/// Jobs by name, in the order in which they stand there.
struct Ordered(Vec<(String, Row)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Ordered;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of jobs")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut rows = Vec::new();
                while let Some(row) = map.next_entry()? {
                    rows.push(row);
                }
                Ok(Ordered(rows))
            }
        }
        deserializer.deserialize_map(Rows)
    }
}

fn trace(folder: &Path, name: &Name) -> Result<Vec<Job>, CliError> {
    let file = find(folder, name)?;
    let text = read_document(&file)?;
    check_texts(&file, &text)?;
    let Ordered(rows) = serde_json::from_str(&text).map_err(|e| CliError::input(&file, e))?;
    if rows.is_empty() || rows.len() > JOBS_MAX {
        return Err(CliError::input(&file, format!("{} jobs; 1 to {JOBS_MAX}", rows.len())));
    }
    let job = |(id, row): &(String, Row)| {
        let bad = |what: String| CliError::input(&file, format!("job {id:?}: {what}"));
        let model = MODELS.iter().position(|model| *model == row.model).ok_or_else(|| bad(format!("unknown model {:?}", row.model)))?;
        let demand = DEMANDS.iter().position(|gpus| *gpus == row.gpu_demand);
        let demand = demand.ok_or_else(|| bad(format!("gpu_demand {} is not 2, 4 or 8", row.gpu_demand)))?;
        let samples = row.total_samples_to_train;
        if !(samples > 0.0 && samples <= SAMPLES_MAX) {
            return Err(bad(format!("total_samples_to_train {samples} is not above 0 and at most {SAMPLES_MAX}")));
        }
        Ok(Job { kind: Kind { model, demand }, samples })
    };
    rows.iter().map(job).collect()
}
