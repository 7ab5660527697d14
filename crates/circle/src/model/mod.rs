//! What is asked: jobs, their demand on links, and the affinity graph.

pub(crate) mod affinity;
pub(crate) mod problem;
