//! From phases to the demand of a link: the sum of the levels that overlap.

use alloc::vec::Vec;

use circle::Phase as Level;
use fabric::collective::Collective;
use units::{Bytes, Nanos, Rate, Share, Ticks};

use crate::{
    dims::Scope,
    profile::{Phase, Profile},
};

/// Why a demand could not be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DemandError {
    /// The levels add up to more than a rate can say.
    #[error("the rates at {at_ns} ns add up to more than 2^64 Mbit/s")]
    Overflow {
        /// Where in the iteration.
        at_ns: u64,
    },
}

impl Profile {
    /// The demand on a link over one iteration, in ticks of 1 ns: sorted, disjoint, no zeros,
    /// neighbours of equal rate merged. `share` says how much of the busiest NIC's rate of a
    /// collective crosses the link; zero leaves it out.
    ///
    /// # Errors
    /// [`DemandError::Overflow`].
    pub fn demand(&self, share: impl Fn(Scope, Collective) -> Share) -> Result<Vec<Level>, DemandError> {
        let mut parts: Vec<(Phase, Rate)> = Vec::new();
        for &phase in self.phases() {
            let overflow = DemandError::Overflow { at_ns: phase.start.0 };
            let rate = phase.rate.scaled(share(phase.scope, phase.collective)).ok_or(overflow)?;
            // `Rate::scaled` never rounds a share above zero down to zero, so only links outside the phase drop it.
            if rate > Rate::ZERO {
                parts.push((phase, rate));
            }
        }
        // Rates change at these edges only. `parts` keeps the order by start, which the sweep needs.
        let mut edges: Vec<u64> = parts.iter().flat_map(|(p, _)| [p.start.0, p.end().0]).collect();
        edges.sort_unstable();
        edges.dedup();
        sweep(&parts, &edges)
    }

    /// The demand of the busiest NIC that takes part in one group of every collective; see [`Profile::demand`]. Of a pipeline over
    /// two hosts it sends one direction, the one with more to send, or else forward.
    ///
    /// # Errors
    /// [`DemandError::Overflow`].
    pub fn levels(&self) -> Result<Vec<Level>, DemandError> {
        self.demand(|scope, collective| if self.unsent_direction(scope) == Some(collective) { Share(0) } else { Share::ONE })
    }

    /// The volume of the busiest NIC in one iteration when it takes part in one group of every
    /// collective, saturating; of a pipeline over two hosts, in the direction of [`Profile::levels`].
    #[must_use]
    pub fn bytes_per_iteration(&self) -> Bytes {
        let sent = self.phases().iter().filter(|p| self.unsent_direction(p.scope) != Some(p.collective));
        Bytes(sent.fold(0, |sum: u64, p| sum.saturating_add(p.bytes().0)))
    }

    /// The direction of a pipeline that the busiest NIC does not send, because groups of the scope stand on two hosts.
    #[must_use]
    pub fn unsent_direction(&self, scope: Scope) -> Option<Collective> {
        let sent = |c: Collective| {
            let phases = self.phases().iter().filter(|p| (p.scope, p.collective) == (scope, c));
            phases.fold(0_u64, |sum, p| sum.saturating_add(p.bytes().0))
        };
        let (forward, backward) = (sent(Collective::PipelineForward), sent(Collective::PipelineBackward));
        // Between two hosts a NIC is at one end of the pipeline and sends one way only (docs/profiles.md).
        let one_way = forward.min(backward) > 0 && self.dims().hosts_of_group(scope) <= 2;
        one_way.then_some(if forward < backward { Collective::PipelineForward } else { Collective::PipelineBackward })
    }

    /// The part of the iteration during which anything is sent, 0 to 1.
    #[must_use]
    pub fn duty(&self) -> f64 {
        let mut busy = 0;
        let mut until = 0;
        for p in self.phases() {
            // Phases come by start: what lies before `until` is counted, and a phase inside an earlier one adds nothing.
            busy += p.end().0.saturating_sub(p.start.0.max(until));
            until = until.max(p.end().0);
        }
        Nanos(busy).as_millis_f64() / self.period().as_millis_f64()
    }
}

/// Sums the parts between neighbouring edges. Parts are sorted by start and few are active at
/// once (phases of one kind never overlap), so the active list stays short.
fn sweep(parts: &[(Phase, Rate)], edges: &[u64]) -> Result<Vec<Level>, DemandError> {
    let mut levels: Vec<Level> = Vec::new();
    let mut active: Vec<(Phase, Rate)> = Vec::new();
    let mut next = 0;
    for edge in edges.windows(2) {
        let (start, end) = (edge[0], edge[1]);
        active.retain(|(p, _)| p.end().0 > start);
        while let Some(&part) = parts.get(next).filter(|(p, _)| p.start.0 <= start) {
            active.push(part);
            next += 1;
        }
        let sum = active.iter().try_fold(Rate::ZERO, |sum, (_, r)| sum.checked_add(*r));
        let rate = sum.ok_or(DemandError::Overflow { at_ns: start })?;
        match levels.last_mut() {
            Some(last) if last.end.0 == start && last.rate == rate => last.end = Ticks(end),
            // A gap is no level: the time outside all levels is Down.
            _ if rate == Rate::ZERO => {}
            _ => levels.push(Level { start: Ticks(start), end: Ticks(end), rate }),
        }
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::document::{PhaseDocument, ProfileDocument};

    fn profile(phases: &[(u64, u64, u64, Scope)]) -> Profile {
        let phases = phases.iter().map(|&(start_ns, duration_ns, rate_mbps, scope)| PhaseDocument {
            start_ns,
            duration_ns,
            rate_mbps,
            collective: "ring".into(),
            scope,
        });
        let mut doc = ProfileDocument::declared("p", 100);
        doc.ranks.tp = 2;
        doc.ranks.dp = 2;
        doc.phases = phases.collect();
        doc.try_into().unwrap()
    }

    fn level(start: u64, end: u64, rate: u64) -> Level {
        Level { start: Ticks(start), end: Ticks(end), rate: Rate(rate) }
    }

    #[test]
    fn overlapping_scopes_add_up_and_shares_scale_each_on_its_own() {
        let p = profile(&[(0, 40, 10, Scope::Tensor), (20, 30, 6, Scope::Data), (50, 10, 6, Scope::Data)]);
        // 0-20: tensor 10; 20-40: 10 + 6; 40-60: data 6, two phases merged.
        assert_eq!(p.levels().unwrap(), [level(0, 20, 10), level(20, 40, 16), level(40, 60, 6)]);
        let data_only = p.demand(|s, _| if s == Scope::Data { Share::ONE.split(2) } else { Share(0) }).unwrap();
        assert_eq!(data_only, [level(20, 60, 3)]);
        assert!((p.duty() - 0.6).abs() < 1e-12);
        assert_eq!(p.bytes_per_iteration().0, 0, "400 + 180 + 60 thousandths of a bit");
    }

    /// 10 us of 8 Mbit/s are 10 bytes.
    #[test]
    fn between_two_hosts_a_nic_sends_one_direction_of_a_pipeline() {
        let phase = |start_us: u64, us: u64, collective: &str| PhaseDocument {
            start_ns: start_us * 1_000,
            duration_ns: us * 1_000,
            rate_mbps: 8,
            collective: collective.into(),
            scope: Scope::Pipeline,
        };
        let of = |pp: u32, gpus_per_host: u32| {
            let mut doc = ProfileDocument::declared("p", 100_000);
            (doc.ranks.pp, doc.ranks.gpus_per_host) = (pp, gpus_per_host);
            doc.phases = vec![phase(0, 10, "pipeline-forward"), phase(5, 20, "pipeline-backward"), phase(40, 10, "ring")];
            Profile::try_from(doc).unwrap()
        };
        for two_hosts in [of(2, 1), of(4, 2)] {
            assert_eq!(two_hosts.levels().unwrap(), [level(5_000, 25_000, 8), level(40_000, 50_000, 8)]);
            assert_eq!(two_hosts.bytes_per_iteration(), Bytes(20 + 10));
        }
        let both_ways = [level(0, 5_000, 8), level(5_000, 10_000, 16), level(10_000, 25_000, 8), level(40_000, 50_000, 8)];
        assert_eq!(of(4, 1).levels().unwrap(), both_ways);
        assert_eq!(of(4, 1).bytes_per_iteration(), Bytes(10 + 20 + 10));
    }

    #[test]
    fn an_overflowing_share_is_an_error_with_the_place() {
        let p = profile(&[(7, 1, 1 << 40, Scope::Data)]);
        assert_eq!(p.demand(|_, _| Share(u64::MAX)).unwrap_err(), DemandError::Overflow { at_ns: 7 });
    }

    proptest! {
        /// The demand carries exactly the volume of its phases.
        #[test]
        fn volume_is_kept(cuts in prop::collection::btree_set(0u64..100, 2..20), rates in prop::collection::vec(1u64..50, 20)) {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let phases: Vec<_> = cuts.windows(2).enumerate()
                .map(|(i, w)| (w[0], w[1] - w[0], rates[i], if i % 3 == 0 { Scope::Tensor } else { Scope::Data }))
                .collect();
            let p = profile(&phases);
            let want: u64 = phases.iter().map(|p| p.1 * p.2).sum();
            let got: u64 = p.levels().unwrap().iter().map(|l| (l.end.0 - l.start.0) * l.rate.0).sum();
            prop_assert_eq!(got, want);
        }
    }
}
