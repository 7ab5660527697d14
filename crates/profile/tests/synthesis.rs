//! Volumes and laws of synthesis.

use antiphase_profile::{MODELS, Profile, ROUND_NS, Request, Scope, Strategy, SynthError, find_model, parse, synthesise, to_json};
use fabric::collective::Collective;
use proptest::prelude::*;
use units::Rate;

fn synth(model: &str, request: Request) -> Result<Profile, SynthError> {
    let model = find_model(model).expect("a model of the zoo");
    let setup = request.resolve(model)?;
    synthesise(model, &setup.parallelism, &setup.hardware, setup.batch)
}

fn bytes(profile: &Profile, scope: Scope) -> f64 {
    profile.phases().iter().filter(|p| p.scope == scope).map(|p| p.bytes().0 as f64).sum()
}

fn close(got: f64, want: f64) {
    assert!((got / want - 1.0).abs() < 1e-3, "{got} against {want}");
}

/// One GPU and one 50 Gb/s NIC per host, 8 ranks.
fn eight(strategy: Strategy) -> Request {
    let nic_rate = Some(Rate(50_000));
    Request {
        strategy: Some(strategy),
        ranks: Some(8),
        gpus_per_host: Some(1),
        nic_rate,
        batch: Some(1),
        efficiency_percent: Some(100),
        ..Request::default()
    }
}

#[test]
fn fsdp_sends_three_times_the_parameters() {
    // Gathered forward, gathered backward, scattered backward: 3 x 7/8 x 6.738 G x 2 B = 35.4 GB,
    // 5.66 s at 50 Gb/s. One sample computes for 0.4 s, so the NIC is never idle.
    let p = synth("llama-7b", eight(Strategy::Sharded)).unwrap();
    close(bytes(&p, Scope::Data), 3.0 * 7.0 / 8.0 * 6_738_415_616.0 * 2.0);
    assert!((p.period().as_millis_f64() - 5_660.0).abs() < 30.0, "{}", p.period());
    assert_eq!(p.phases().len(), 1, "one block without a gap");
}

#[test]
fn fsdp_with_a_fast_network_is_a_train_of_bursts() {
    // 32 blocks: the gathers of both passes and the scatters. At 2 samples a block computes for
    // longer than it travels, so each gather stands alone in the forward pass, and in the
    // backward pass a gather joins the scatter of the block before it.
    let p = synth("llama-7b", Request::default()).unwrap();
    assert!((64..=96).contains(&p.phases().len()), "{}", p.phases().len());
    // 8 ranks of the group on each host share its 8 NICs.
    close(bytes(&p, Scope::Data), 3.0 * 63.0 / 64.0 * 6_738_415_616.0 * 2.0 / 8.0);
    assert!(p.duty() > 0.1 && p.duty() < 0.9, "{}", p.duty());
}

#[test]
fn replicas_send_twice_the_gradients() {
    let p = synth("resnet50", eight(Strategy::Data)).unwrap();
    close(bytes(&p, Scope::Data), 2.0 * 7.0 / 8.0 * 25_557_032.0 * 4.0);
}

#[test]
fn two_gpus_behind_one_nic_send_once() {
    // The paper's multi-GPU variant: a ring over 2 hosts of 2 GPUs crosses each NIC once.
    let r = Request { ranks: Some(4), gpus_per_host: Some(2), nics_per_host: Some(1), ..Request::default() };
    let p = synth("vgg16", r).unwrap();
    close(bytes(&p, Scope::Data), 2.0 * 3.0 / 4.0 * 138_357_544.0 * 4.0);
}

#[test]
fn groups_that_share_a_nic_halve_the_rate_and_keep_the_bytes() {
    // tp 2 inside the host, so two data groups per host: on one NIC each has half of it.
    let r = Request { tp: Some(2), dp: Some(2), gpus_per_host: Some(2), ..Request::default() };
    let own = synth("gpt2", Request { nics_per_host: Some(2), ..r }).unwrap();
    let shared = synth("gpt2", Request { nics_per_host: Some(1), overlap_percent: Some(0), ..r }).unwrap();
    close(bytes(&shared, Scope::Data), bytes(&own, Scope::Data));
    let rate = shared.phases()[0].rate.0;
    assert!((21_990..=22_000).contains(&rate), "half of 88 % of 50 Gb/s, less what fills the last cell: {rate}");
}

#[test]
fn tensor_parallelism_inside_the_host_is_silent() {
    let r = Request { tp: Some(8), dp: Some(2), gpus_per_host: Some(8), ..Request::default() };
    let p = synth("llama-7b", r).unwrap();
    assert!(p.phases().iter().all(|x| x.scope == Scope::Data));
    // The same split over hosts of 4 is not: 2 all-reduces per block and pass of b s h x 2 B,
    // two passes, 2 x 7/8 of each over the 4 NICs of a host.
    let p = synth("llama-7b", Request { gpus_per_host: Some(4), ..r }).unwrap();
    let tensor = 2.0 * 4_096.0 * 4_096.0 * 2.0;
    close(bytes(&p, Scope::Tensor), 4.0 * 32.0 * tensor * 2.0 * 7.0 / 8.0 / 4.0);
}

#[test]
fn experts_make_four_all_to_alls_per_block() {
    // 8 ranks, one per host: 4096 tokens x 2 experts x 4096 x 2 B, 7/8 of it leaves: 58.7 MB.
    let p = synth("mixtral-8x7b", Request { gpu_gflops: Some(50_000), ..eight(Strategy::Expert) }).unwrap();
    let exchanges: Vec<_> = p.phases().iter().filter(|x| x.scope == Scope::Expert).collect();
    assert_eq!(exchanges.len(), 4 * 32);
    assert!(exchanges.iter().all(|x| x.collective == Collective::AllToAll));
    close(exchanges[0].bytes().0 as f64, 4_096.0 * 2.0 * 4_096.0 * 2.0 * 7.0 / 8.0);
}

#[test]
fn activations_and_their_gradients_are_bursts_of_one_size_each_with_its_direction() {
    // 4 micro-batches of 8 samples x 512 x 768 x 2 B, once forward and once backward.
    let p = synth("gpt1", Request::default()).unwrap();
    for direction in [Collective::PipelineForward, Collective::PipelineBackward] {
        let comb: Vec<_> = p.phases().iter().filter(|x| x.collective == direction).collect();
        assert_eq!(comb.len(), 4, "{comb:?}");
        comb.iter().for_each(|x| close(x.bytes().0 as f64, 8.0 * 512.0 * 768.0 * 2.0));
    }
    assert!(p.phases().iter().all(|x| x.collective != Collective::Pipeline));
    // Gradients come back once the last stage has them, and the first stage waits for the last of them.
    let starts = |c| p.phases().iter().filter(|x| x.collective == c).map(|x| x.start).collect::<Vec<_>>();
    assert!(starts(Collective::PipelineForward)[0] < starts(Collective::PipelineBackward)[0]);
    assert!(starts(Collective::PipelineForward)[3] < starts(Collective::PipelineBackward)[3]);
}

#[test]
fn every_split_of_a_pipeline_sends_the_whole_activation_once_each_way() {
    // 16 samples of 4096 tokens x 8192 x 2 B; each of `tp` ranks sends its part, whatever the micro-batches and the stages.
    for (tp, pp, micro, gpus) in [(1, 2, 1, 1), (1, 4, 2, 1), (1, 4, 8, 2), (2, 4, 16, 2), (8, 8, 4, 8), (4, 4, 4, 8)] {
        let r = Request {
            tp: Some(tp),
            pp: Some(pp),
            dp: Some(1),
            micro_batches: Some(micro),
            gpus_per_host: Some(gpus),
            batch: Some(16),
            ..Request::default()
        };
        let p = synth("llama-70b", r).unwrap();
        for direction in [Collective::PipelineForward, Collective::PipelineBackward] {
            let sent: f64 = p.phases().iter().filter(|x| x.collective == direction).map(|x| x.bytes().0 as f64).sum();
            close(sent, 16.0 * 4_096.0 * 8_192.0 * 2.0 / f64::from(tp));
        }
        if pp > 2 {
            // No stage sends both ways at once.
            let sends: Vec<_> = p.phases().iter().filter(|x| x.scope == Scope::Pipeline && x.collective != Collective::Ring).collect();
            assert!(sends.windows(2).all(|w| w[0].end() <= w[1].start), "{tp} {pp} {micro}");
        }
    }
}

#[test]
fn a_context_ring_hides_behind_the_compute() {
    let r = Request { cp: Some(2), dp: Some(1), gpus_per_host: Some(1), batch: Some(1), ..Request::default() };
    let p = synth("llama-7b", r).unwrap();
    // Keys and values of half of the sequence, once forward and twice backward.
    close(bytes(&p, Scope::Context), 3.0 * 32.0 * 2.0 * 2_048.0 * 4_096.0 * 2.0);
}

#[test]
fn what_cannot_be_modelled_is_refused_with_the_value() {
    let error = |model, request| synth(model, request).unwrap_err().to_string();
    let r = Request::default();
    assert_eq!(error("vgg16", Request { batch: Some(0), ..r }), "batch: 0; must be 1 to 1048576");
    assert_eq!(error("gpt1", Request { pp: Some(13), dp: Some(1), ..r }), "pp: 13; must be 1 to 12");
    assert_eq!(error("bert", Request { dp: Some(8), ep: Some(2), ..r }), "ep: 2; bert has 0 experts per block, which it must divide");
    assert_eq!(error("gpt1", Request { micro_batches: Some(33), ..r }), "micro_batches: 33; must be 1 to 32");
    assert!(error("vgg16", Request { tp: Some(2), dp: Some(1), ..r }).contains("vgg16: tensor, context or pipeline"));
    assert!(error("llama-70b", Request { gpu_gflops: Some(1), ..r }).contains("longer than"));
    assert_eq!(
        error("vgg16", Request { dp: Some(2), gpus_per_host: Some(2), nics_per_host: Some(3), ..r }),
        "nics_per_host: 3; must be 1 to 2"
    );
    assert!(
        error("mixtral-8x7b", Request { micro_batches: Some(1024), batch: Some(1024), gpu_gflops: Some(1_000), ..r })
            .contains("use fewer micro-batches")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is asked for: an error, or a profile on the grid that no NIC has to exceed and
    /// that survives its own document.
    #[test]
    fn profiles_stay_on_the_grid_and_within_the_nic(
        model in 0..MODELS.len(), strategy in 0..6usize, ranks in 1u32..65, gpus in 1u32..9, batch in 1u64..200,
        micro in 1u32..6, tp in prop::option::of(1u32..9), pp in prop::option::of(1u32..5), nic in 1u64..500,
    ) {
        let model = &MODELS[model];
        let request = Request {
            strategy: Some(Strategy::ALL[strategy]), ranks: Some(ranks), gpus_per_host: Some(gpus), batch: Some(batch),
            micro_batches: Some(micro), tp, pp, nic_rate: Some(Rate(nic * 1_000)), ..Request::default()
        };
        let Ok(setup) = request.resolve(model) else { return Ok(()) };
        let Ok(p) = synthesise(model, &setup.parallelism, &setup.hardware, setup.batch) else { return Ok(()) };
        prop_assert!(p.period().0.is_multiple_of(antiphase_profile::PERIOD_ROUND_NS));
        for x in p.phases() {
            prop_assert!(x.start.0.is_multiple_of(ROUND_NS) && x.duration.0.is_multiple_of(ROUND_NS));
            prop_assert!(x.rate <= setup.hardware.nic_rate, "{x:?}");
        }
        // Stages of a pipeline send at the same time on different NICs; without one all is one NIC's.
        if setup.parallelism.dims.pp == 1 && setup.hardware.nics_per_host == setup.parallelism.dims.gpus_per_host {
            prop_assert!(p.levels().unwrap().iter().all(|l| l.rate <= setup.hardware.nic_rate));
        }
        prop_assert_eq!(parse(&to_json(&p)).unwrap(), p);
    }
}
