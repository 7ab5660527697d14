//! Whole replicas, in one or several pipeline stages: passes, hops, then the gradients.

use super::{
    Parallelism, SynthError,
    schedule::{Pass, one_forward_one_backward},
    timeline::Timeline,
    work::{Traffic, Work},
};

/// Lays one iteration of the first stage out from 0; returns its end.
pub(super) fn lay(line: &mut Timeline, work: &Work, parallelism: &Parallelism) -> Result<u64, SynthError> {
    // Each pass is drawn once and stamped for every micro-batch.
    let mut forward = line.blank();
    let forward_cells = pass(&mut forward, work, work.forward, 1)?;
    let mut backward = line.blank();
    // The backward pass exchanges twice the context traffic (`Work::context`).
    let backward_cells = pass(&mut backward, work, work.backward, 2)?;
    // Activations and their gradients are of one size.
    let hop = work.activations.map_or(Ok(0), |t| line.cells(t.bits, t.tag))?;

    let (stages, micro_batches) = (parallelism.dims.pp as usize, parallelism.micro_batches as usize);
    let schedule = one_forward_one_backward(stages, micro_batches, Pass { forward: forward_cells, backward: backward_cells, hop });
    let mut end = 0;
    for &start in &schedule.forwards {
        line.stamp(&forward, start)?;
        // Forward passes start in ascending order, so the last send ends last.
        end = send(line, start + forward_cells, work.activations.filter(|_| stages > 1))?;
    }
    for &start in &schedule.gradients {
        end = end.max(send(line, start, work.activation_gradients)?);
    }
    let mut last = 0;
    for &start in &schedule.backwards {
        line.stamp(&backward, start)?;
        last = start;
    }
    let done = last + backward_cells;
    end = end.max(done);
    if let Some(t) = work.gradients {
        // The all-reduce starts when this much of the last backward pass is still to come (docs/profiles.md).
        let hidden = backward_cells * u64::from(parallelism.overlap_percent) / 100;
        end = end.max(line.pour(done - hidden, done, t.bits, t.tag)?);
    }
    send(line, end, work.embedding)
}

fn send(line: &mut Timeline, at: u64, traffic: Option<Traffic>) -> Result<u64, SynthError> {
    traffic.map_or(Ok(at), |t| line.burst(at, t.bits, t.tag))
}

/// Lays one pass out from 0: its compute in even slices with the all-to-alls between them; the
/// tensor parallel traffic lengthens each slice, the context parallel one hides behind its
/// compute, and both are drawn at their mean rate. Returns its length.
fn pass(line: &mut Timeline, work: &Work, compute: u64, context_volume: u128) -> Result<u64, SynthError> {
    let bursts = if work.exchange.is_some() { work.exchanges } else { 0 };
    let slices = bursts + 1;
    let mut at = 0;
    for i in 0..slices {
        // Differences of rounded totals add up, so the slices together have the whole length and volume.
        let share = |total: u128| total * u128::from(i + 1) / u128::from(slices) - total * u128::from(i) / u128::from(slices);
        let mut length = share(compute.into()) as u64;
        let context = work.context.map(|t| (share(t.bits * context_volume), t.tag));
        let tensor = work.tensor.map(|t| (share(t.bits), t.tag));
        if let Some((bits, tag)) = context {
            // Context traffic hides behind the compute, so the longer of the two counts.
            length = length.max(line.cells(bits, tag)?);
        }
        if let Some((bits, tag)) = tensor {
            // Tensor traffic is waited for, so it comes on top.
            length += line.cells(bits, tag)?;
        }
        for (bits, tag) in [context, tensor].into_iter().flatten() {
            line.spread(at, at + length, bits, tag)?;
        }
        at += length;
        if i < bursts {
            at = send(line, at, work.exchange)?;
        }
    }
    Ok(at)
}
