//! Goodput: how fast a job learns on some GPUs, in samples of its initial batch a second. It is throughput times statistical efficiency
//! (Qiao et al., "Pollux", OSDI 2021; Jayaram Subramanya et al., "Sia", SOSP 2023, use the same model).
//!
//! [`Throughput`] says how long an iteration takes ([`fit`] learns it from measured ones), [`efficiency`] what a larger batch is worth,
//! [`BatchLimits::best`] which batch a job should have on given GPUs. [`Model`] holds what is known of a job on each type of GPU, and
//! estimates it for types that it never ran on; a replica may be a [`Pipeline`].

mod batch;
mod bounded;
mod fit;
mod model;
mod pipeline;
mod throughput;

pub use self::{
    batch::{BATCHES_TRIED, BatchLimits, Best, efficiency},
    fit::{Observation, fit},
    model::{Model, OnPool},
    pipeline::Pipeline,
    throughput::{Batch, Layout, Throughput},
};
