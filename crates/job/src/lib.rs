//! Training jobs: names, traffic, placements and candidates, and the documents they are written in.
//!
//! A [`Job`] is what the network sees of a training job; a [`Placement`] says where its ranks stand; a [`Candidate`] says which
//! jobs stand elsewhere. What `antiphase plan` reads from files and what the service is sent are the same documents
//! ([`JobsDoc`], [`CandidatesDoc`]), and [`Reader`] is the one place that turns them into jobs on a fabric. Text comes in as
//! `&str`; a profile that a job names by path is read by a function of the caller's.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod documents;
mod job;
mod measured;
mod nearest;
mod reader;

pub use documents::{
    CANDIDATES_SCHEMA, CandidateDoc, CandidatesDoc, JOBS_SCHEMA, JobDoc, JobsDoc, ModelDoc, SUBMISSIONS_SCHEMA, SubmissionDoc,
    SubmissionsDoc,
};
pub use fabric::collective::{Collective, Endpoint};
pub use job::{Candidate, Hold, Job, JobError, Placement, TrafficPhase, UnknownHold};
pub use measured::MeasuredProfile;
pub use nearest::nearest;
pub use reader::{ID_BYTES_MAX, JobsError, ReadFile, Reader, data_nics};
