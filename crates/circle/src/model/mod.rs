//! What is asked: jobs, their demand on links, the affinity graph, and the documents that say so.

pub(crate) mod affinity;
pub(crate) mod problem;
pub mod scenario;
