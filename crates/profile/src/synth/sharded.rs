//! ZeRO-3 / FSDP: parameters of each block gathered before its forward and again before its
//! backward pass, gradients scattered after it; one block is gathered ahead.

use super::{
    SynthError,
    timeline::Timeline,
    work::{Traffic, Work},
};

/// The NIC's queue: transfers leave one after the other.
struct Network<'a> {
    line: &'a mut Timeline,
    shard: Option<Traffic>,
    free: u64,
}

impl Network<'_> {
    /// Queues one block's parameters, or gradients, no earlier than `ready`; returns when they
    /// have arrived.
    fn transfer(&mut self, ready: u64) -> Result<u64, SynthError> {
        let Some(t) = self.shard else { return Ok(ready) };
        self.free = self.line.burst(self.free.max(ready), t.bits, t.tag)?;
        Ok(self.free)
    }
}

/// Lays one iteration out from 0; returns its end.
pub(super) fn lay(line: &mut Timeline, work: &Work) -> Result<u64, SynthError> {
    let mut network = Network { line, shard: work.shard, free: 0 };
    let blocks = work.blocks;
    // Compute of the i-th block of a pass; cumulative, so that rounding does not add up.
    let share = |total: u64, i: u64| total * (i + 1) / blocks - total * i / blocks;
    let mut gathered = network.transfer(0)?;
    let mut compute = 0;
    // The first `blocks` steps are the forward pass, the others the backward pass.
    for i in 0..2 * blocks {
        let start = gathered.max(compute);
        // The next block is gathered while this one computes: one block ahead (docs/profiles.md).
        if i + 1 < 2 * blocks {
            gathered = network.transfer(start)?;
        }
        compute = start + if i < blocks { share(work.forward, i) } else { share(work.backward, i - blocks) };
        // Gradients of a block exist once its backward pass is done.
        if i >= blocks {
            network.transfer(compute)?;
        }
    }
    Ok(compute.max(network.free))
}
