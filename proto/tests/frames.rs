//! Frames from strangers: whatever comes, in whatever pieces, the decoder neither panics nor holds more than its limit.
#![allow(clippy::unwrap_used, reason = "tests")]

use antiphase_proto::{
    frame::{self, Decoder, FrameError},
    v1alpha1::{AgentFrame, GateReport, PlanAck, Report, ServiceFrame, Telemetry, agent_frame},
};
use proptest::prelude::*;

/// Bytes with a good length before them more often than chance would give.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    let framed = noise.clone().prop_map(|body| [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat());
    let good = (any::<u64>(), "[a-z]{0,20}").prop_map(|(n, job)| {
        let gates = vec![GateReport { job, iterations: n, phase_error_ns: Some(-1), ..GateReport::default() }];
        let report = Report { sequence: n, clock: None, gates };
        frame::encode(&AgentFrame { kind: Some(agent_frame::Kind::Report(report)) }).unwrap()
    });
    prop::collection::vec(prop_oneof![noise, framed, good], 0..8).prop_map(|pieces| pieces.concat())
}

fn read<M: prost::Message + Default>(stream: &[u8], cut: usize, limit: usize) -> (usize, Option<FrameError>) {
    let mut decoder = Decoder::with_limit(limit);
    let mut frames = 0;
    for piece in stream.chunks(cut) {
        decoder.push(piece);
        loop {
            match decoder.next::<M>() {
                Ok(Some(_)) => frames += 1,
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_is_survived_and_its_cuts_do_not_matter(stream in stream(), cut in 1..64_usize, limit in 0..300_usize) {
        let whole = read::<AgentFrame>(&stream, usize::MAX, limit);
        let cut_up = read::<AgentFrame>(&stream, cut, limit);
        prop_assert_eq!(whole.0, cut_up.0);
        prop_assert_eq!(whole.1.map(|error| error.to_string()), cut_up.1.map(|error| error.to_string()));
        read::<ServiceFrame>(&stream, cut, limit);
        read::<Telemetry>(&stream, cut, limit);
        read::<PlanAck>(&stream, cut, limit);
    }

    #[test]
    fn a_bit_that_flips_in_a_good_frame_is_survived(n in any::<u64>(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let report = Report { sequence: n, clock: None, gates: vec![GateReport { job: "bert".into(), plan_version: n, ..GateReport::default() }] };
        let mut bytes = frame::encode(&AgentFrame { kind: Some(agent_frame::Kind::Report(report)) }).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let _ = read::<AgentFrame>(&bytes, usize::MAX, frame::FRAME_BYTES_MAX);
    }
}
