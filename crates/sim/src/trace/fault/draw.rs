//! Hosts and cables that go down by chance.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::testbed::noise::Noise;

use super::{Failing, FaultRate};

/// Added to the seed, so that faults are not drawn from the numbers of anything else.
const OWN: u64 = 0x6661_756c_7473_0001;

/// Something that goes down and comes back.
#[derive(Debug)]
struct Unit {
    what: Failing,
    rate: FaultRate,
    noise: Noise,
    is_down: bool,
}

/// What goes down by chance, each from a stream of its own: another host changes nothing for the others.
#[derive(Debug)]
pub(super) struct Drawn {
    units: Vec<Unit>,
    /// When each turns next, as the bits of a time that is not negative, whose order is that of the time.
    next: BTreeSet<(u64, usize)>,
}

impl Drawn {
    pub(super) fn new(seed: u64, units: impl Iterator<Item = (Failing, FaultRate)>) -> Self {
        let unit = |(what, rate): (Failing, FaultRate)| {
            let noise = Noise::new(seed ^ OWN, stream(what), 0);
            Unit { what, rate, noise, is_down: false }
        };
        let mut drawn = Self { units: units.map(unit).collect(), next: BTreeSet::new() };
        (0..drawn.units.len()).for_each(|at| drawn.turns_after(at, 0.0));
        drawn
    }

    /// When something turns next; infinite when nothing does.
    pub(super) fn next_s(&self) -> f64 {
        self.next.first().map_or(f64::INFINITY, |(bits, _)| f64::from_bits(*bits))
    }

    /// What turns next, and whether it is down from then on.
    pub(super) fn turn(&mut self) -> Option<(Failing, bool)> {
        let (bits, at) = self.next.pop_first()?;
        let unit = self.units.get_mut(at)?;
        unit.is_down = !unit.is_down;
        let told = (unit.what, unit.is_down);
        self.turns_after(at, f64::from_bits(bits));
        Some(told)
    }

    fn turns_after(&mut self, at: usize, now_s: f64) {
        if let Some(unit) = self.units.get_mut(at) {
            let mean_s = if unit.is_down { unit.rate.repair_s } else { unit.rate.between_s };
            // Later by something, however coarse the clock is: time goes on.
            let turns_s = (now_s + unit.noise.exponential(mean_s)).max(now_s.next_up());
            self.next.insert((turns_s.to_bits(), at));
        }
    }
}

/// The stream that something draws from: hosts have the even ones, so that links fail when they do whether hosts fail or not.
fn stream(what: Failing) -> u64 {
    match what {
        Failing::Host(host) | Failing::Agent(host) | Failing::Straggler { host, .. } => u64::from(host) * 2,
        Failing::Link(link) => u64::from(link.0) * 2 + 1,
    }
}

#[cfg(test)]
mod tests {
    use units::LinkId;

    use super::*;

    #[test]
    fn links_fail_when_they_do_whether_hosts_fail_or_not() {
        let rate = FaultRate { between_s: 900.0, repair_s: 100.0 };
        let turns = |hosts: u32| {
            let hosts = (0..hosts).map(|host| (Failing::Host(host), rate));
            let mut drawn = Drawn::new(5, hosts.chain((0..3).map(|link| (Failing::Link(LinkId(link)), rate))));
            let mut links = Vec::new();
            while drawn.next_s() < 1e5 {
                let now_s = drawn.next_s();
                links.extend(drawn.turn().filter(|(what, _)| matches!(what, Failing::Link(_))).map(|turned| (now_s.to_bits(), turned)));
            }
            links
        };
        let links = turns(0);
        assert!(links.len() > 300 && turns(7) == links);
    }

    #[test]
    fn means_are_those_that_were_asked_for_and_units_do_not_depend_on_each_other() {
        let rate = FaultRate { between_s: 900.0, repair_s: 100.0 };
        let turns = |hosts: u32| {
            let mut drawn = Drawn::new(3, (0..hosts).map(|host| (Failing::Host(host), rate)));
            let mut first = Vec::new();
            let (mut failures, mut down_s, mut since_s) = (0, 0.0, [0.0; 8]);
            while drawn.next_s() < 1e6 {
                let now_s = drawn.next_s();
                let Some((Failing::Host(host), is_down)) = drawn.turn() else { unreachable!() };
                if host == 0 {
                    first.push((now_s.to_bits(), is_down));
                }
                if is_down {
                    since_s[host as usize] = now_s;
                    failures += 1;
                } else {
                    down_s += now_s - since_s[host as usize];
                }
            }
            (first, failures, down_s)
        };
        let (first, failures, down_s) = turns(8);
        assert_eq!(first, turns(1).0);
        // One failure in 1,000 s on average: 8,000, of which the spread is about 89; down for a tenth of the time.
        assert!((7_600..8_400).contains(&failures), "{failures}");
        assert!((down_s / 8e5 - 1.0).abs() < 0.06, "{down_s}");
    }
}
