//! The command line as people and hostile documents meet it: the real program, run as a process.
//!
//! Set `ANTIPHASE_PROGRAM` to a path to test that program instead of the one built here.
//! Set `UPDATE_EXPECT=1` to write what the program prints into `expected/`, and read the diff.
#![forbid(unsafe_code)]

mod bad_candidates;
mod bad_fabrics;
mod bad_files;
mod bad_jobs;
mod bad_profiles;
mod bad_scenarios;
mod bad_topologies;
mod blocks;
mod cut_off;
mod deepshare;
mod doctor;
mod examples;
mod expected;
mod explain;
mod fabric;
mod far_end;
mod gandiva;
mod gate;
mod import;
mod jobs;
mod large;
mod learn;
mod misnamed;
mod plan;
mod pollux;
mod process;
mod profile;
mod refusal;
mod reproduce;
mod scratch;
mod shell;
mod sim;
mod sim_files;
mod solve;
mod tiresias;
mod top;
