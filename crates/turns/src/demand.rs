//! What a start demands over time.

use alloc::{sync::Arc, vec::Vec};

use units::{FabricTime, Nanos, Rate};

use crate::{Ask, Use};

/// A demand for one link from a start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// After the start.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) rate: Rate,
}

/// What a start demands: per link, in the order of the job's links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) links: Vec<(u32, Vec<Span>)>,
    /// When the last span ends, after the start.
    pub(crate) length: u64,
}

/// The profile of a job, ready to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    uses: Vec<Use>,
    /// The spans in which the job sends on some link.
    phases: Vec<(u64, u64)>,
    /// What was asked last, and the answer: several questions about one start follow each other.
    last: Option<(Ask, Option<Nanos>, Arc<Demand>)>,
}

impl Profile {
    pub(crate) fn new(uses: Vec<Use>) -> Self {
        let mut spans: Vec<(u64, u64)> = uses.iter().flat_map(|u| u.ups.iter().map(|up| (up.start.0, up.end.0))).collect();
        spans.sort_unstable();
        let mut phases: Vec<(u64, u64)> = Vec::new();
        for (start, end) in spans {
            match phases.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => phases.push((start, end)),
            }
        }
        Self { uses, phases, last: None }
    }

    /// The links that the job uses, in the order in which a [`Demand`] has them.
    pub(crate) fn links(&self) -> impl Iterator<Item = u32> {
        self.uses.iter().map(|u| u.link)
    }

    /// Whether an ask begins an iteration.
    pub(crate) fn is_first(ask: Ask) -> bool {
        matches!(ask, Ask::Iteration | Ask::Phase(0))
    }

    /// What a start demands, stretched to `sent`, which such a start was seen to send.
    pub(crate) fn demand(&mut self, ask: Ask, sent: Option<Nanos>) -> Arc<Demand> {
        match &self.last {
            Some((of, stretched, demand)) if (*of, *stretched) == (ask, sent) => demand.clone(),
            _ => {
                let demand = Arc::new(self.work_out(ask, sent));
                self.last = Some((ask, sent, demand.clone()));
                demand
            }
        }
    }

    fn work_out(&self, ask: Ask, sent: Option<Nanos>) -> Demand {
        let (Some(&(first, _)), Some(&(_, end))) = (self.phases.first(), self.phases.last()) else { return Demand::default() };
        let (window, origin) = match ask {
            Ask::Phase(k) => {
                let phase = self.phases[(k as usize).min(self.phases.len() - 1)];
                (phase, phase.0)
            }
            Ask::Iteration => {
                // Some jobs ask where the iteration begins and others right before they send. The measured time tells which, and
                // without one the start is taken to be right before the sending: a lease too short harms nobody.
                let (near, far) = (end - first, end);
                let before_up = sent.is_none_or(|sent| sent.0.abs_diff(near) <= sent.0.abs_diff(far));
                ((first, end), if before_up { first } else { 0 })
            }
        };
        let declared = window.1 - origin;
        let scale = |time: u64| match sent {
            Some(sent) => {
                let scaled = u128::from(time - origin) * u128::from(sent.0) / u128::from(declared.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
            None => time - origin,
        };
        let span = |up: &crate::Up| Span { from: scale(up.start.0), to: scale(up.end.0), rate: up.rate };
        let inside = |up: &&crate::Up| up.start.0 >= window.0 && up.end.0 <= window.1;
        let links = self.uses.iter().map(|u| (u.link, u.ups.iter().filter(inside).map(span).collect())).collect();
        Demand { links, length: scale(window.1) }
    }
}

/// What a sender still sends on a link, in absolute time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) rate: u64,
}

impl Demand {
    /// What a start at `start` with a lease until `lease` still sends on its `nth` link from `now` on. A span that is the last on this link
    /// ends when the end is told, so from its beginning on it may last until the lease ends.
    pub(crate) fn left(&self, nth: u32, start: FabricTime, lease: FabricTime, now: FabricTime, out: &mut Vec<Left>) {
        let Some((_, spans)) = self.links.get(nth as usize) else { return };
        for (i, span) in spans.iter().enumerate() {
            let (from, to) = (start.0.saturating_add(span.from), start.0.saturating_add(span.to));
            let under_way = i + 1 == spans.len() && from <= now.0;
            let to = if under_way { lease.0 } else { to };
            if to > now.0 {
                out.push(Left { from: from.max(now.0), to, rate: span.rate.0 });
            }
        }
    }

    /// How long the start is expected to send.
    pub(crate) fn expected(&self) -> Nanos {
        Nanos(self.length)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::Up;

    const fn up(start: u64, end: u64, rate: u64) -> Up {
        Up { start: Nanos(start), end: Nanos(end), rate: Rate(rate) }
    }

    fn profile() -> Profile {
        Profile::new(vec![Use { link: 3, ups: vec![up(100, 120, 10), up(150, 170, 10)] }, Use { link: 5, ups: vec![up(110, 130, 4)] }])
    }

    #[test]
    fn a_phase_is_where_any_link_is_used() {
        assert_eq!(profile().phases, [(100, 130), (150, 170)]);
        let second = profile().demand(Ask::Phase(1), None);
        assert_eq!(second.links, [(3, vec![Span { from: 0, to: 20, rate: Rate(10) }]), (5, vec![])]);
        assert_eq!(second, profile().demand(Ask::Phase(7), None));
        assert_eq!(*Profile::new(Vec::new()).demand(Ask::Iteration, None), Demand::default());
    }

    #[test]
    fn what_is_measured_says_where_the_job_asks() {
        let of = |sent: Option<u64>| profile().demand(Ask::Iteration, sent.map(Nanos));
        // Nothing known, or 70: right before the first Up phase. 140: the same, all of it twice as long as declared.
        assert_eq!((of(None).length, of(Some(70)).length), (70, 70));
        assert_eq!(of(Some(70)).links[0].1[1], Span { from: 50, to: 70, rate: Rate(10) });
        assert_eq!(of(Some(60)).links[0].1[0], Span { from: 0, to: 17, rate: Rate(10) });
        // 170: where the iteration begins.
        assert_eq!(of(Some(170)).links[0].1[0], Span { from: 100, to: 120, rate: Rate(10) });
    }
}
