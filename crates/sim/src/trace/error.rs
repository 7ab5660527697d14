//! What can be wrong with a trace.

use alloc::string::String;

use policy::{muri::StagesError, schedule::InfeasibleError};
use units::OneLine;

/// Why a trace cannot be read or played. The line is that of the file, the header being line 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The text is not a table.
    #[error("line {line}: {}", OneLine(problem))]
    Table {
        /// Where.
        line: u64,
        /// What the reader says.
        problem: String,
    },
    /// A column is missing.
    #[error("line {line}: no column {name:?}")]
    Column {
        /// Where the header is.
        line: u64,
        /// Its name.
        name: &'static str,
    },
    /// A column that stands twice, so that nobody knows which of the two is meant.
    #[error("line {line}: column {name:?} stands twice")]
    ColumnTwice {
        /// Where the header is.
        line: u64,
        /// Its name.
        name: &'static str,
    },
    /// A field that is not a number, or not one that is possible.
    #[error("line {line}: {column} {} must be {expected}", OneLine(format_args!("{value:?}")))]
    Value {
        /// Where.
        line: u64,
        /// In which column.
        column: &'static str,
        /// What stands there.
        value: String,
        /// What should.
        expected: &'static str,
    },
    /// A model of which nobody knows what a restart costs.
    #[error("line {line}: unknown model {}", OneLine(format_args!("{name:?}")))]
    Model {
        /// Where.
        line: u64,
        /// The name given.
        name: String,
    },
    /// A value that has no place beside another one of its row.
    #[error("line {line}: {column} stands beside {beside}; give one of them")]
    Beside {
        /// Where.
        line: u64,
        /// The column.
        column: &'static str,
        /// The other one.
        beside: &'static str,
    },
    /// A job whose iteration nobody can work out.
    #[error("line {line}: model {} on {gpus} GPUs: {}", OneLine(format_args!("{name:?}")), OneLine(problem))]
    Synthesis {
        /// Where.
        line: u64,
        /// Its model.
        name: String,
        /// Its GPUs.
        gpus: u32,
        /// What is wrong.
        problem: String,
    },
    /// Times of a job that are no profile.
    #[error("line {line}: {source}")]
    Profile {
        /// Where.
        line: u64,
        /// What is wrong.
        source: StagesError,
    },
    /// A job that would run for ages.
    #[error("line {line}: {iterations} iterations of {iteration_ms} ms take longer than {limit_s} s (a hundred years)")]
    TooLong {
        /// Where.
        line: u64,
        /// Its iterations.
        iterations: f64,
        /// How long one takes alone.
        iteration_ms: f64,
        /// The longest that a job may run alone.
        limit_s: f64,
    },
    /// Two jobs with one id.
    #[error("line {line}: job id {} is that of line {first} already", OneLine(format_args!("{id:?}")))]
    Twice {
        /// Where.
        line: u64,
        /// The id.
        id: String,
        /// Where it stood first.
        first: u64,
    },
    /// More jobs than are played.
    #[error("line {line}: more than {limit} jobs")]
    TooMany {
        /// Where.
        line: u64,
        /// The limit.
        limit: usize,
    },
    /// More profiles than are told apart.
    #[error("line {line}: more than {limit} different profiles")]
    TooManyProfiles {
        /// Where.
        line: u64,
        /// The limit.
        limit: usize,
    },
    /// Models that together send more than is kept.
    #[error("line {line}: the models up to here have more than {limit} ranks and phases together")]
    TooMuchTraffic {
        /// Where.
        line: u64,
        /// The limit.
        limit: u64,
    },
    /// More faults than are read.
    #[error("line {line}: more than {limit} faults")]
    TooManyFaults {
        /// Where.
        line: u64,
        /// The limit.
        limit: usize,
    },
    /// Faults in a world in which nobody stands anywhere.
    #[error("faults: in artifact timing nobody says on which hosts jobs stand")]
    Nowhere,
    /// So many faults that the jobs are never done.
    #[error("at {now_s} s {faults} faults have been played and {waiting} jobs are not done")]
    Faulty {
        /// When.
        now_s: f64,
        /// How many faults.
        faults: u64,
        /// Jobs that are there.
        waiting: usize,
    },
    /// No jobs.
    #[error("no jobs")]
    Empty,
    /// A job that does not fit in the empty cluster.
    #[error("line {line}: job {} needs {gpus} GPUs; {hosts} hosts have {has}", OneLine(format_args!("{id:?}")))]
    TooLarge {
        /// Where.
        line: u64,
        /// Which job.
        id: String,
        /// What it needs.
        gpus: u32,
        /// Hosts of the cluster.
        hosts: u32,
        /// GPUs of all of them.
        has: u32,
    },
    /// A job that says that it could use more GPUs than there are.
    #[error("line {line}: gpus_max {gpus_max} of job {}; {hosts} hosts have {has}", OneLine(format_args!("{id:?}")))]
    GrowsTooLarge {
        /// Where.
        line: u64,
        /// Which job.
        id: String,
        /// What it could use.
        gpus_max: u32,
        /// Hosts of the cluster.
        hosts: u32,
        /// GPUs of all of them.
        has: u32,
    },
    /// Hosts with unequal numbers of GPUs under a policy that counts its places by the host.
    #[error("host {} has {has} GPUs and host {} has {other_has}; this policy wants equal hosts", OneLine(format_args!("{host:?}")), OneLine(format_args!("{other:?}")))]
    Unequal {
        /// The first host.
        host: String,
        /// Its GPUs.
        has: u32,
        /// The first one that has others.
        other: String,
        /// Its GPUs.
        other_has: u32,
    },
    /// The scheduler decided what cannot be done; nothing of it was carried out.
    #[error("at {now_s} s the policy decided what cannot be done: {source}")]
    Infeasible {
        /// When.
        now_s: f64,
        /// What.
        source: InfeasibleError,
    },
    /// The network of the cluster cannot be planned or played.
    #[error("at {now_s} s on the fabric: {}", OneLine(problem))]
    Network {
        /// When.
        now_s: f64,
        /// What is wrong.
        problem: String,
    },
    /// Jobs wait although nothing runs and nothing comes.
    #[error("at {now_s} s {waiting} jobs wait and none runs, the first is {}", OneLine(format_args!("{id:?}")))]
    Stuck {
        /// When.
        now_s: f64,
        /// How many wait.
        waiting: usize,
        /// The first of them.
        id: String,
    },
}
