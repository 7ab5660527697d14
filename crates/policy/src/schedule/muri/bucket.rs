//! Jobs that want equally many GPUs.

use alloc::vec::Vec;

use super::super::{job::JobIndex, order::resort};

#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) gpus: u32,
    /// Its jobs in order.
    pub(super) order: Vec<JobIndex>,
    /// How many of the first were chosen.
    pub(super) chosen: usize,
    /// For how many groups GPUs were reserved.
    pub(super) reserved: usize,
}

impl Bucket {
    pub(super) fn new(gpus: u32) -> Self {
        Self { gpus, order: Vec::new(), chosen: 0, reserved: 0 }
    }

    pub(super) fn sort(&mut self, key: &[f64], moved: &[bool], scratch: &mut Vec<JobIndex>) {
        resort(&mut self.order, scratch, key, |job| moved[job as usize]);
    }
}
