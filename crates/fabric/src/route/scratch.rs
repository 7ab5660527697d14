//! Working memory of the router: dense sums per link and amounts on the move.

use alloc::{vec, vec::Vec};

use units::{LinkId, Share};

use super::table::{HOPS_MAX, Table};

/// Reusable working memory for [`super::Router::loads_with`]; one per thread.
#[derive(Clone, Debug, Default)]
pub struct RouteScratch {
    /// Sum per link.
    load: Vec<u64>,
    /// One bit per link with a sum: reading it in order yields sorted links without a sort.
    touched: Vec<u64>,
    /// The amount that has arrived at each switch and is still to be sent on.
    amount: Vec<u64>,
    /// Switches with an amount, by their distance to the destination.
    layers: Vec<Vec<u32>>,
    /// (leaf, source switch, amount) of all flows of the call.
    injected: Vec<(u32, u32, u64)>,
}

impl RouteScratch {
    /// Empty; it grows to the router's fabric on first use.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for a fabric. Everything is zero between calls, so growing is enough.
    pub(super) fn fit(&mut self, links: usize, switches: usize) {
        if self.load.len() < links {
            self.load.resize(links, 0);
            self.touched.resize(links.div_ceil(64), 0);
        }
        if self.amount.len() < switches {
            self.amount.resize(switches, 0);
        }
        // Distances run from 0 to HOPS_MAX, with one list for each.
        if self.layers.is_empty() {
            self.layers = vec![Vec::new(); usize::from(HOPS_MAX) + 1];
        }
    }

    /// Adds to the sum of a link.
    pub(super) fn add(&mut self, link: LinkId, amount: u64) {
        add(&mut self.load, &mut self.touched, link, amount);
    }

    /// Puts an amount on a switch, to be spread towards a leaf.
    pub(super) fn inject(&mut self, leaf: u32, source: u32, amount: u64) {
        self.injected.push((leaf, source, amount));
    }

    /// Spreads everything injected: all flows to one leaf travel together.
    pub(super) fn spread(&mut self, table: &Table) {
        // The list is taken out while `self` is borrowed and put back at the end, so that its memory stays.
        let mut injected = core::mem::take(&mut self.injected);
        injected.sort_unstable();
        for group in injected.chunk_by(|a, b| a.0 == b.0) {
            self.spread_to_leaf(table, group);
        }
        injected.clear();
        self.injected = injected;
    }

    /// Farthest layer first, each switch splits what it has evenly over its next hops. The
    /// remainder goes to the first ones, one unit each, so that every split conserves its input.
    fn spread_to_leaf(&mut self, table: &Table, group: &[(u32, u32, u64)]) {
        let Self { load, touched, amount, layers, .. } = self;
        let mut farthest = 0;
        for &(leaf, source, share) in group {
            let distance = table.distance(leaf, source) as usize;
            farthest = farthest.max(distance);
            arrive(amount, &mut layers[distance], source, share);
        }
        let leaf = group[0].0;
        // Amounts move to the next nearer layer only, so a switch sends once, after all has arrived there.
        for distance in (1..=farthest).rev() {
            let (nearer, here) = layers.split_at_mut(distance);
            let nearer = &mut nearer[distance - 1];
            for at in here[0].drain(..) {
                let hops = table.next_hops(leaf, at);
                let held = core::mem::take(&mut amount[at as usize]);
                let ways = hops.len() as u64;
                let (part, mut remainder) = (held / ways, held % ways);
                for hop in hops {
                    // One unit each uses up the remainder, so the parts add up to what was held.
                    let part = part + u64::from(remainder > 0);
                    remainder = remainder.saturating_sub(1);
                    // The remainder went to the hops before, so all hops behind this one get nothing either.
                    if part == 0 {
                        break;
                    }
                    add(load, touched, hop.link, part);
                    arrive(amount, nearer, hop.to, part);
                }
            }
        }
        // The caller has counted the link from the leaf to the host, so here the memory is only cleared.
        for at in layers[0].drain(..) {
            amount[at as usize] = 0;
        }
    }

    /// All sums in order of link id; everything is zero afterwards.
    pub(super) fn drain(&mut self) -> Vec<(LinkId, Share)> {
        // A failed call may leave flows behind, and the next call must not find them; the sums are taken below.
        self.injected.clear();
        let count = self.touched.iter().map(|w| w.count_ones() as usize).sum();
        let mut loads = Vec::with_capacity(count);
        for (i, word) in self.touched.iter_mut().enumerate() {
            let mut bits = core::mem::take(word);
            while bits != 0 {
                // The words come in order and each word from its lowest bit, so the links come sorted.
                let link = i * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                loads.push((LinkId(link as u32), Share(core::mem::take(&mut self.load[link]))));
            }
        }
        loads
    }
}

fn add(load: &mut [u64], touched: &mut [u64], link: LinkId, amount: u64) {
    let i = link.index();
    // A sum that saturates is still the largest possible load, so no overload is hidden.
    load[i] = load[i].saturating_add(amount);
    touched[i / 64] |= 1 << (i % 64);
}

fn arrive(amount: &mut [u64], layer: &mut Vec<u32>, switch: u32, share: u64) {
    let held = &mut amount[switch as usize];
    // The first amount lists the switch, so no switch is in a layer twice.
    if *held == 0 && share > 0 {
        layer.push(switch);
    }
    *held = held.saturating_add(share);
}
