//! From what a person asks for to a whole setting: the model's reference fills the gaps.

use units::Rate;

use super::{DEFAULT_OVERLAP_PERCENT, DataParallel, Hardware, Parallelism, SynthError};
use crate::{dims::Dims, model::Model, strategy::Strategy};

/// The caller's part of a setting; everything left out comes from the model's reference setting, as far
/// as it fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Main idea; by default the reference's, or a hybrid when degrees are given.
    pub strategy: Option<Strategy>,
    /// Number of ranks.
    pub ranks: Option<u32>,
    /// Ranks per host.
    pub gpus_per_host: Option<u32>,
    /// NICs per host; by default one per GPU.
    pub nics_per_host: Option<u32>,
    /// Samples per data-parallel rank and iteration.
    pub batch: Option<u64>,
    /// Micro-batches per iteration.
    pub micro_batches: Option<u32>,
    /// Tensor parallel degree.
    pub tp: Option<u32>,
    /// Context parallel degree.
    pub cp: Option<u32>,
    /// Pipeline stages.
    pub pp: Option<u32>,
    /// Data parallel degree.
    pub dp: Option<u32>,
    /// Expert parallel degree.
    pub ep: Option<u32>,
    /// Line rate of one NIC.
    pub nic_rate: Option<Rate>,
    /// Part of the line rate that a collective reaches, in percent.
    pub efficiency_percent: Option<u32>,
    /// Part of the backward pass that overlaps the all-reduce, in percent.
    pub overlap_percent: Option<u32>,
    /// Sustained speed of one GPU in GFLOP/s.
    pub gpu_gflops: Option<u64>,
}

/// A whole setting, ready for [`crate::synthesise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Main idea.
    pub strategy: Strategy,
    /// How the job is split.
    pub parallelism: Parallelism,
    /// The machines that it runs on.
    pub hardware: Hardware,
    /// Samples per data-parallel rank and iteration.
    pub batch: u64,
}

impl Request {
    /// Fills the gaps from the model's reference setting.
    ///
    /// With another strategy or other ranks than the reference's, the degree that the strategy
    /// is about takes all ranks (`dp` for dp, fsdp and ep; `pp`; `tp`), the others are 1; a
    /// hybrid takes the reference's tp, cp and pp and gives the rest to `dp`.
    ///
    /// # Errors
    /// [`SynthError::Ranks`] when the degrees do not multiply to the ranks.
    pub fn resolve(&self, model: &Model) -> Result<Setup, SynthError> {
        let reference = &model.reference;
        let degrees_given = [self.tp, self.cp, self.pp, self.dp, self.ep].iter().any(Option::is_some);
        let strategy = self.strategy.unwrap_or(if degrees_given { Strategy::Hybrid } else { reference.strategy });
        let dims = self.dims(model, strategy, degrees_given)?;
        let data = if strategy == Strategy::Sharded { DataParallel::Sharded } else { DataParallel::Replicated };
        let batch = self.batch.unwrap_or(reference.batch);
        // A pipeline of p stages is rarely run with fewer than 2 p micro-batches: half of its
        // time would be bubble.
        let micro_batches = match (data, dims == reference.dims) {
            (DataParallel::Sharded, _) => 1,
            (_, true) => reference.micro_batches,
            _ if dims.pp > 1 => dims.pp.saturating_mul(2),
            _ => 1,
        };
        // No micro-batch is smaller than one sample, so the batch bounds the default.
        let micro_batches = self.micro_batches.unwrap_or_else(|| micro_batches.min(u32::try_from(batch.max(1)).unwrap_or(u32::MAX)));
        Ok(Setup {
            strategy,
            parallelism: Parallelism {
                dims,
                data,
                micro_batches,
                overlap_percent: self.overlap_percent.unwrap_or(DEFAULT_OVERLAP_PERCENT),
            },
            hardware: Hardware {
                nic_rate: self.nic_rate.unwrap_or(Rate(reference.nic_gbps * 1_000)),
                nics_per_host: self.nics_per_host.unwrap_or(dims.gpus_per_host),
                efficiency_percent: self.efficiency_percent.unwrap_or(Hardware::DEFAULT_EFFICIENCY_PERCENT),
                gpu_gflops: self.gpu_gflops.unwrap_or(reference.gpu_gflops.value),
            },
            batch,
        })
    }

    fn dims(&self, model: &Model, strategy: Strategy, degrees_given: bool) -> Result<Dims, SynthError> {
        let reference = model.reference.dims;
        let gpus_per_host = self.gpus_per_host.unwrap_or(reference.gpus_per_host);
        // The split is that of the reference, so all of the reference holds, `ep` included.
        if !degrees_given && strategy == model.reference.strategy && self.ranks.is_none_or(|r| r == reference.ranks()) {
            return Ok(Dims { gpus_per_host, ..reference });
        }
        // A person who gives degrees but no ranks wants their product.
        let ranks = self.ranks.or(if degrees_given && self.dp.is_some() { None } else { Some(reference.ranks()) });
        // Only a hybrid without given degrees takes over those of the reference; other strategies fill one dimension.
        let inherit = |ours: u32| if strategy == Strategy::Hybrid && !degrees_given { ours } else { 1 };
        let fixed = |given: Option<u32>, ours: u32, all: bool| given.or(if all { None } else { Some(inherit(ours)) });
        let mut tp = fixed(self.tp, reference.tp, strategy == Strategy::Tensor);
        let cp = fixed(self.cp, reference.cp, false);
        let mut pp = fixed(self.pp, reference.pp, strategy == Strategy::Pipeline);
        // Replicas take what is left, unless the strategy names another dimension for it.
        let mut dp = if tp.is_none() || pp.is_none() { self.dp.or(Some(1)) } else { self.dp };
        let given = [tp, cp, pp, dp].into_iter().flatten().fold(1_u64, |product, d| product.saturating_mul(d.into()));
        let refused = SynthError::Ranks { ranks: ranks.unwrap_or(0), given };
        // At most one of the three is open: the strategy names one of tp and pp, and dp is then given.
        let open = [&mut tp, &mut pp, &mut dp].into_iter().find(|d| d.is_none());
        match (ranks, open) {
            // A given degree of 0 makes the product 0, by which the next line would divide.
            (Some(ranks), Some(open)) if given > 0 && u64::from(ranks).is_multiple_of(given) && ranks > 0 => {
                *open = u32::try_from(u64::from(ranks) / given).ok();
            }
            (Some(ranks), None) if u64::from(ranks) == given => {}
            (None, None) => {}
            (None, Some(open)) => *open = Some(1),
            _ => return Err(refused),
        }
        let (tp, cp, pp, dp) = (tp.unwrap_or(1), cp.unwrap_or(1), pp.unwrap_or(1), dp.unwrap_or(1));
        let experts = model.experts().map_or(1, |e| e.count.value);
        // The default is the largest degree that divides both the experts and the replicas.
        let ep = self.ep.unwrap_or_else(|| if strategy == Strategy::Expert { common_divisor(experts, dp) } else { 1 });
        Ok(Dims { tp, cp, pp, dp, ep, gpus_per_host })
    }
}

const fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::find_model;

    fn dims(model: &str, request: Request) -> Result<(Strategy, u32, u32, u32, u32), SynthError> {
        let s = request.resolve(find_model(model).unwrap())?;
        let d = s.parallelism.dims;
        Ok((s.strategy, d.tp, d.pp, d.dp, d.ep))
    }

    #[test]
    fn nothing_given_is_the_reference() {
        for m in &crate::MODELS {
            let s = Request::default().resolve(m).unwrap();
            assert_eq!(
                (s.parallelism.dims, s.batch, s.parallelism.micro_batches),
                (m.reference.dims, m.reference.batch, m.reference.micro_batches),
                "{}",
                m.name
            );
        }
    }

    #[test]
    fn the_strategy_decides_which_degree_takes_the_ranks() {
        let r = |strategy, ranks| Request { strategy, ranks, ..Request::default() };
        assert_eq!(dims("vgg16", r(None, Some(8))), Ok((Strategy::Data, 1, 1, 8, 1)));
        assert_eq!(dims("gpt2", r(None, Some(4))), Ok((Strategy::Pipeline, 1, 4, 1, 1)));
        assert_eq!(dims("gpt3", r(Some(Strategy::Tensor), Some(2))), Ok((Strategy::Tensor, 2, 1, 1, 1)));
        assert_eq!(dims("gpt1", r(Some(Strategy::Data), Some(4))), Ok((Strategy::Data, 1, 1, 4, 1)));
        assert_eq!(dims("mixtral-8x7b", r(None, Some(12))), Ok((Strategy::Expert, 1, 1, 12, 4)));
        // gpt3's reference is tp 2 x pp 2: 16 ranks leave 4 replicas.
        assert_eq!(dims("gpt3", r(None, Some(16))), Ok((Strategy::Hybrid, 2, 2, 4, 1)));
    }

    #[test]
    fn degrees_make_a_hybrid_and_must_fit_the_ranks() {
        let r = Request { tp: Some(8), pp: Some(4), ..Request::default() };
        assert_eq!(dims("llama-70b", Request { ranks: Some(256), ..r }), Ok((Strategy::Hybrid, 8, 4, 8, 1)));
        assert_eq!(dims("llama-70b", Request { dp: Some(2), ..r }), Ok((Strategy::Hybrid, 8, 4, 2, 1)));
        let error = dims("llama-70b", Request { ranks: Some(48), ..r }).unwrap_err().to_string();
        assert_eq!(error, "ranks: 48; must be a multiple of tp x cp x pp x dp as far as they are given (32)");
        assert!(dims("llama-70b", Request { ranks: Some(0), ..r }).is_err());
        assert!(dims("llama-70b", Request { tp: Some(0), ranks: Some(8), ..Request::default() }).is_err());
    }
}
