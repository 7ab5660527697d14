//! NICs that no job has, leaf by leaf.

use alloc::{vec, vec::Vec};

use fabric::{Fabric, collective::Endpoint};

/// Free NICs of every leaf.
#[derive(Clone, Debug)]
pub(crate) struct FreeNics {
    /// By leaf, in order of (host, rail).
    pub(crate) leaves: Vec<Vec<Endpoint>>,
    /// The leaf of each node that is a host.
    leaf_of: Vec<Option<u32>>,
    pub(crate) count: usize,
}

impl FreeNics {
    /// All NICs of a fabric. A host belongs to the leaf of its first NIC.
    pub(crate) fn new(fabric: &Fabric) -> Self {
        let mut leaf_of = vec![None; fabric.nodes().len()];
        // Leaves are numbered in order of their first host.
        let mut number: Vec<Option<u32>> = vec![None; fabric.nodes().len()];
        let mut free = Self { leaves: Vec::new(), leaf_of: Vec::new(), count: 0 };
        for host in fabric.hosts() {
            let nics = fabric.links_from(host);
            // A host without NICs has nothing to give, and no leaf.
            let Some(first) = nics.first() else { continue };
            let leaf = *number[fabric.link(*first).to.node.index()].get_or_insert_with(|| {
                free.leaves.push(Vec::new());
                free.leaves.len() as u32 - 1
            });
            leaf_of[host.index()] = Some(leaf);
            // A rail is a u16, so NICs beyond its range have no name and are not given out.
            let nics = u16::try_from(nics.len()).unwrap_or(u16::MAX);
            // Hosts come in order of id, so each list is sorted, as `put` and `remove` need it.
            free.leaves[leaf as usize].extend((0..nics).map(|rail| Endpoint { host, rail }));
            free.count += usize::from(nics);
        }
        free.leaf_of = leaf_of;
        free
    }

    /// Takes `ranks` NICs, looking at leaves from `first` on and around.
    pub(crate) fn take(&mut self, ranks: usize, first: usize) -> Option<Vec<Endpoint>> {
        // With enough free NICs in sum, one turn around the leaves always finds them.
        if ranks > self.count {
            return None;
        }
        let leaves = self.leaves.len();
        let mut taken = Vec::with_capacity(ranks);
        for l in (0..leaves).map(|i| (first + i) % leaves) {
            let some = (ranks - taken.len()).min(self.leaves[l].len());
            // The lowest NICs go first, so equal requests get equal NICs.
            taken.extend(self.leaves[l].drain(..some));
            if taken.len() == ranks {
                break;
            }
        }
        self.count -= ranks;
        Some(taken)
    }

    /// Gives a NIC back.
    pub(crate) fn put(&mut self, nic: Endpoint) {
        let Some(leaf) = self.leaf_of.get(nic.host.index()).copied().flatten() else { return };
        let leaf = &mut self.leaves[leaf as usize];
        // A NIC that is free already is not counted twice.
        if let Err(at) = leaf.binary_search(&nic) {
            leaf.insert(at, nic);
            self.count += 1;
        }
    }

    /// Marks a NIC as taken.
    pub(crate) fn remove(&mut self, nic: Endpoint) {
        let Some(leaf) = self.leaf_of.get(nic.host.index()).copied().flatten() else { return };
        let leaf = &mut self.leaves[leaf as usize];
        // Placements may name a NIC twice; only the first mention takes it off the count.
        if let Ok(at) = leaf.binary_search(&nic) {
            leaf.remove(at);
            self.count -= 1;
        }
    }
}
