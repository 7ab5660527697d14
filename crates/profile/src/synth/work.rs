//! The compute and the traffic of one rank per iteration, before they are laid out in time.

use fabric::collective::Collective;

use super::{DataParallel, Hardware, Parallelism, ROUND_NS, SynthError, timeline::Tag, wire::Wire};
use crate::{
    dims::Scope,
    model::{Architecture, Model, Transformer},
};

/// Bits of one activation or its gradient: fp16 and bf16 alike.
const ACTIVATION_BITS: u128 = 16;
/// Bits of one looked-up embedding element of a recommender.
const LOOKUP_BITS: u128 = 32;

/// Traffic per group and NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) bits: u128,
    pub(super) tag: Tag,
}

impl Traffic {
    fn new(wire: &Wire, collective: Collective, bits: u128) -> Self {
        Self { bits, tag: Tag { scope: wire.scope, collective, sharers: wire.sharers } }
    }
}

/// The work of a rank of the first stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// Cells of one forward pass of one micro-batch.
    pub(super) forward: u64,
    /// Cells of one backward pass.
    pub(super) backward: u64,
    /// Blocks of the stage.
    pub(super) blocks: u64,
    /// Tensor parallel all-reduces of one pass, waited for. Forward and backward send the same.
    pub(super) tensor: Option<Traffic>,
    /// Context parallel exchange of one forward pass, hidden behind it; the backward pass sends
    /// twice as much (keys and values once more, and their gradients).
    pub(super) context: Option<Traffic>,
    /// One all-to-all, waited for.
    pub(super) exchange: Option<Traffic>,
    /// How many of them a pass has.
    pub(super) exchanges: u64,
    /// Activations of one micro-batch, from a stage to the next.
    pub(super) activations: Option<Traffic>,
    /// Their gradients, of the same size, from a stage to the one before.
    pub(super) activation_gradients: Option<Traffic>,
    /// Gradients at the end of the iteration.
    pub(super) gradients: Option<Traffic>,
    /// Gradient of a tied embedding, summed over the first and the last stage.
    pub(super) embedding: Option<Traffic>,
    /// Parameters of one block, gathered or scattered (sharded only).
    pub(super) shard: Option<Traffic>,
}

impl Work {
    pub(super) fn of(model: &Model, parallelism: &Parallelism, hardware: &Hardware, batch: u64) -> Result<Self, SynthError> {
        let d = &parallelism.dims;
        let unsupported = |what| SynthError::Unsupported { model: model.name, what };
        let shape = match &model.architecture {
            Architecture::Transformer(shape) => Some(shape),
            _ if d.tp * d.cp * d.pp > 1 => {
                return Err(unsupported("tensor, context or pipeline parallelism of a model that is no transformer"));
            }
            _ => None,
        };
        let wire = |scope| Wire::of(d, scope, hardware.nics_per_host);
        let micro = u128::from(parallelism.micro_batches);
        // Total of forward and backward on this rank; FLOP / (GFLOP/s) = ns.
        let split = u128::from(d.tp) * u128::from(d.cp) * u128::from(d.pp) * micro * u128::from(hardware.gpu_gflops);
        let compute = u128::from(model.flops_per_sample.value) * u128::from(batch);
        let blocks = u64::from(model.layers.value.div_ceil(d.pp));
        let mut work = Self {
            // The backward pass computes two products for each one of the forward pass.
            forward: cells(compute, 3 * split)?,
            backward: cells(2 * compute, 3 * split)?,
            blocks,
            tensor: None,
            context: None,
            exchange: None,
            exchanges: 0,
            activations: None,
            activation_gradients: None,
            gradients: None,
            embedding: None,
            shard: None,
        };
        if let Some(shape) = shape {
            work.per_token(shape, parallelism, batch, hardware.nics_per_host)?;
        }
        if let Architecture::Recommender { tables, dimension } = &model.architecture {
            let bits = u128::from(batch) * u128::from(tables.value) * u128::from(dimension.value) * LOOKUP_BITS / micro;
            // Looked-up vectors travel in the forward pass, and their gradients in the backward pass: one all-to-all each.
            work.exchange = wire(Scope::All)?.map(|w| Traffic::new(&w, Collective::AllToAll, w.all_to_all(bits)));
            work.exchanges = 1;
        }
        work.parameters(model, parallelism, wire(Scope::Data)?, wire(Scope::Pipeline)?);
        // `sharded::lay` draws one queue of blocks and has no place for other traffic.
        if parallelism.data == DataParallel::Sharded {
            let waits = work.tensor.is_some() || work.context.is_some() || work.exchange.is_some();
            if d.pp > 1 || parallelism.micro_batches > 1 || waits {
                return Err(unsupported("fsdp with pipeline stages, micro-batches, or another dimension across hosts"));
            }
        }
        Ok(work)
    }

    /// Traffic that grows with the tokens of a micro-batch.
    fn per_token(&mut self, shape: &Transformer, parallelism: &Parallelism, batch: u64, nics_per_host: u32) -> Result<(), SynthError> {
        let d = &parallelism.dims;
        let wire = |scope| Wire::of(d, scope, nics_per_host);
        let tokens = u128::from(batch) * u128::from(shape.sequence.value);
        // One activation tensor of this rank's part of the sequence.
        let tensor = tokens * u128::from(shape.hidden.value) * ACTIVATION_BITS / (u128::from(parallelism.micro_batches) * u128::from(d.cp));
        let (tp, cp, blocks) = (u128::from(d.tp), u128::from(d.cp), u128::from(self.blocks));
        // Two all-reduces per block and pass (Shoeybi et al. 2019, figure 4), or the same volume
        // as all-gathers and reduce-scatters with sequence parallelism.
        self.tensor = wire(Scope::Tensor)?.map(|w| Traffic::new(&w, Collective::Ring, w.all_reduce(2 * blocks * tensor)));
        // Keys and values travel around the ring, one rank's part per step.
        self.context = wire(Scope::Context)?.map(|w| Traffic::new(&w, Collective::Ring, 2 * blocks * tensor / tp * (cp - 1)));
        // Each tensor rank sends its part; the receivers gather it inside the host.
        let hop = Wire::of_hops(d, nics_per_host)?;
        self.activations = hop.map(|w| Traffic::new(&w, Collective::PipelineForward, tensor / tp));
        self.activation_gradients = hop.map(|w| Traffic::new(&w, Collective::PipelineBackward, tensor / tp));
        if let Some(experts) = &shape.experts {
            let bits = tensor / tp * u128::from(experts.top_k.value);
            self.exchange = wire(Scope::Expert)?.map(|w| Traffic::new(&w, Collective::AllToAll, w.all_to_all(bits)));
            // Dispatch and combine.
            self.exchanges = 2 * self.blocks;
        }
        Ok(())
    }

    /// Traffic that grows with the parameters.
    fn parameters(&mut self, model: &Model, parallelism: &Parallelism, data: Option<Wire>, pipeline: Option<Wire>) {
        let d = &parallelism.dims;
        let bits = u128::from(model.bytes_per_parameter.value) * 8;
        let all = u128::from(model.parameters.value);
        let (embedding, tied) = match &model.architecture {
            Architecture::Transformer(shape) => (u128::from(shape.embedding.value), shape.tied),
            _ => (0, false),
        };
        let experts = model.experts().map_or(0, |e| u128::from(e.parameters.value));
        let (tp, pp, ep) = (u128::from(d.tp), u128::from(d.pp), u128::from(d.ep));
        // The first stage holds the whole embedding; the blocks are divided over the stages.
        let dense = (all.saturating_sub(embedding + experts) / pp + embedding) / tp;
        // Expert gradients are summed over dp / ep replicas only; their ring is drawn with the
        // data groups', which differs by less than one part in dp / ep.
        let resident = dense + experts / (pp * tp * ep);
        match parallelism.data {
            DataParallel::Replicated => self.gradients = data.map(|w| Traffic::new(&w, Collective::Ring, w.all_reduce(resident * bits))),
            DataParallel::Sharded => {
                // FSDP gathers and scatters block by block, so one transfer carries the part of one block.
                self.shard = data.map(|w| Traffic::new(&w, Collective::Ring, w.gather(resident * bits / u128::from(self.blocks))));
            }
        }
        if tied && d.pp > 1 {
            // A ring of two sends each bit once.
            self.embedding = pipeline.map(|w| Traffic::new(&w, Collective::Ring, embedding / tp * bits));
        }
    }
}

/// Nanoseconds `over / under`, rounded to the nearest cell, at least one.
fn cells(over: u128, under: u128) -> Result<u64, SynthError> {
    let round = u128::from(ROUND_NS);
    let cells = (over / under + round / 2) / round;
    u64::try_from(cells.max(1)).ok().filter(|c| *c <= circle::PERIOD_TICKS_MAX / ROUND_NS).ok_or(SynthError::TooLong)
}
