//! Fabric, jobs and candidates from their documents, ready to be judged.

use std::path::{Path, PathBuf};

use ::job::{CandidatesDoc, JobsDoc, JobsError, Reader};
use fabric::{
    Fabric, native,
    route::{Ecmp, Router},
};
use job::{Candidate, Job, Placement};

use crate::input::{CliError, read_document};

/// Which files `plan` and `explain` read.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Fabric document (antiphase.fabric/v1); - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) fabric: PathBuf,
    /// Jobs document (antiphase.jobs/v1); - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: PathBuf,
    /// Candidate placements (antiphase.candidates/v1); without it the jobs are judged where they stand
    #[arg(long, value_name = "FILE")]
    pub(crate) candidates: Option<PathBuf>,
    /// Among equal next hops: spread, or hashed:SEED
    #[arg(long, value_name = "RULE", default_value = "spread")]
    pub(crate) ecmp: Ecmp,
}

/// The documents that were read; [`Loaded::router`] makes them a [`plan::Cluster`].
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) fabric: Fabric,
    pub(crate) ecmp: Ecmp,
    pub(crate) jobs: Vec<Job>,
    pub(crate) placements: Vec<Placement>,
    pub(crate) candidates: Vec<Candidate>,
}

impl Loaded {
    /// Reads all documents.
    pub(crate) fn read(args: &ClusterArgs) -> Result<Self, CliError> {
        // The fabric comes first: jobs and candidates name its hosts, and their errors need it.
        let fabric = read_fabric(&args.fabric)?;
        let doc = JobsDoc::parse(&read_document(&args.jobs)?).map_err(|e| CliError::input(&args.jobs, e))?;
        let candidates: Option<(&Path, CandidatesDoc)> = match &args.candidates {
            Some(file) => Some((file, CandidatesDoc::parse(&read_document(file)?).map_err(|e| CliError::input(file, e))?)),
            None => None,
        };
        if doc.jobs.is_empty() {
            return Err(CliError::input(&args.jobs, "jobs: empty"));
        }
        // A jobs document names its profile files relative to itself, so that a folder can be moved as a whole.
        let beside = |path: &str| args.jobs.parent().unwrap_or(Path::new("")).join(path);
        let files = |path: &str| read_document(&beside(path)).map_err(|e| e.problem());
        let mut reader = Reader::new(&fabric, &files);
        // A problem inside a profile file is reported with that file's name, because its line numbers are of that file.
        let refuse = |file: &Path, error: JobsError| match error {
            JobsError::ProfileFile { path, problem } => CliError::input(&beside(&path), problem),
            other => CliError::input(file, other),
        };
        for job in &doc.jobs {
            // A job that only candidates place takes its size from the first that does.
            let elsewhere = candidates.as_ref().and_then(|(_, c)| c.candidates.iter().find_map(|c| c.hosts.get(&job.id)));
            reader.job(job, elsewhere.map(Vec::as_slice)).map_err(|e| refuse(&args.jobs, e))?;
        }
        let candidates = match candidates {
            Some((file, doc)) => reader.candidates(&doc).map_err(|e| refuse(file, e))?,
            // A candidate that moves nobody makes one ranking of the jobs where they stand.
            None => vec![Candidate { id: "as placed".into(), placements: Vec::new() }],
        };
        let (jobs, placements) = reader.finish();
        Ok(Self { fabric, ecmp: args.ecmp, jobs, placements, candidates })
    }

    /// Routes on the fabric.
    pub(crate) fn router(&self) -> Result<Router<'_>, CliError> {
        Router::new(&self.fabric, self.ecmp, &[]).map_err(|e| CliError::Failure(e.to_string()))
    }
}

/// Reads a native fabric document.
pub(crate) fn read_fabric(file: &Path) -> Result<Fabric, CliError> {
    native::read(&read_document(file)?).map_err(|e| CliError::input(file, e))
}
