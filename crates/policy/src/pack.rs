//! Placements for experiments: first fit by leaf, with departures so that fragments appear.

use alloc::{vec, vec::Vec};

use fabric::Fabric;
use job::{Candidate, Placement};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use units::JobId;

use crate::free::FreeNics;

/// Why jobs could not be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// More ranks than NICs are left.
    #[error("job {job} needs {ranks} NICs, but {free} are free")]
    Full {
        /// Index of the job.
        job: usize,
        /// Its ranks.
        ranks: usize,
        /// NICs still free.
        free: usize,
    },
    /// A share above 100 %.
    #[error("{what} of {permille} permille; must be at most 1000")]
    Permille {
        /// Which share.
        what: &'static str,
        /// The value given.
        permille: u32,
    },
}

/// Packs jobs of `sizes` ranks, one NIC each, first fit: a job takes the free NICs of the first leaf, then of the next, so
/// that neighbours share a leaf's uplinks only where a leaf ends. Then come departures: half of the jobs arrive in
/// random order together with others that leave again, `departures_permille` as many as there are jobs and of sizes
/// drawn from `sizes` (or fewer, where they would take the room of those that stay), and the other half lands in the holes.
///
/// # Errors
/// [`PackError`].
pub fn pack(fabric: &Fabric, sizes: &[u32], seed: u64, departures_permille: u32) -> Result<Vec<Placement>, PackError> {
    permille("departures", departures_permille)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut free = FreeNics::new(fabric);
    let mut placements = vec![Placement::default(); sizes.len()];
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    shuffle(&mut rng, &mut order);
    let (early, late) = order.split_at(sizes.len() / 2);
    // The share is at most 1,000 permille, so at most as many jobs leave as there are.
    let leaving = (sizes.len() as u64 * u64::from(departures_permille) / 1_000) as usize;
    // `None` = a job that leaves again.
    let mut arrivals: Vec<(Option<usize>, u32)> = early.iter().map(|&j| (Some(j), sizes[j])).collect();
    // No sizes mean no departures, so the index below is never drawn from an empty list.
    for _ in 0..leaving {
        arrivals.push((None, sizes[below(&mut rng, sizes.len() as u64) as usize]));
    }
    shuffle(&mut rng, &mut arrivals);
    let mut departing = Vec::new();
    for (job, size) in arrivals {
        let mut taken = free.take(size as usize, 0);
        if job.is_some() && taken.is_none() {
            // A job that stays never lacks room because of one that leaves: the leaving ones leave first.
            departing.drain(..).for_each(|nic| free.put(nic));
            taken = free.take(size as usize, 0);
        }
        match (job, taken) {
            (Some(job), Some(ranks)) => placements[job].ranks = ranks,
            (Some(job), None) => return Err(PackError::Full { job, ranks: size as usize, free: free.count }),
            // A job that leaves anyway need not have been there.
            (None, ranks) => departing.extend(ranks.into_iter().flatten()),
        }
    }
    // The departures leave holes, into which the late half goes.
    departing.into_iter().for_each(|nic| free.put(nic));
    for &job in late {
        let ranks = sizes[job] as usize;
        placements[job].ranks = free.take(ranks, 0).ok_or(PackError::Full { job, ranks, free: free.count })?;
    }
    Ok(placements)
}

/// `n` candidates of one round: each takes a random `moved_permille` of the jobs (at least one) off the base placements and
/// packs them again, each starting from a random leaf.
///
/// # Errors
/// [`PackError`].
pub fn variants(fabric: &Fabric, base: &[Placement], n: usize, moved_permille: u32, seed: u64) -> Result<Vec<Candidate>, PackError> {
    permille("moved jobs", moved_permille)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut packed = FreeNics::new(fabric);
    base.iter().flat_map(|p| &p.ranks).for_each(|nic| packed.remove(*nic));
    // The upper end is at least 1, because `clamp` panics on a range that is empty.
    let moved = ((base.len() as u64 * u64::from(moved_permille)).div_ceil(1_000) as usize).clamp(1, base.len().max(1));
    let mut out = Vec::with_capacity(n);
    for i in 0..n {
        let mut free = packed.clone();
        let mut jobs: Vec<usize> = (0..base.len()).collect();
        shuffle(&mut rng, &mut jobs);
        jobs.truncate(moved);
        // All moved jobs give their NICs back before the first is packed, so they may also swap places.
        jobs.iter().flat_map(|j| &base[*j].ranks).for_each(|nic| free.put(*nic));
        let mut candidate = Candidate { id: alloc::format!("variant-{i}"), placements: Vec::with_capacity(jobs.len()) };
        for &job in &jobs {
            let ranks = base[job].ranks.len();
            let first = below(&mut rng, free.leaves.len().max(1) as u64) as usize;
            let ranks = free.take(ranks, first).ok_or(PackError::Full { job, ranks, free: free.count })?;
            candidate.placements.push((JobId(job as u32), Placement { ranks }));
        }
        candidate.placements.sort_by_key(|(job, _)| *job);
        out.push(candidate);
    }
    Ok(out)
}

fn permille(what: &'static str, permille: u32) -> Result<(), PackError> {
    if permille > 1_000 { Err(PackError::Permille { what, permille }) } else { Ok(()) }
}

/// A number below `bound`, each with equal chance; 0 for bound 0. A draw that would make some numbers likelier is repeated.
fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    if bound == 0 {
        return 0;
    }
    // Draws below a multiple of `bound` give each number the same chance. At least half of all draws are below, so the loop ends soon.
    let whole = u64::MAX - u64::MAX % bound;
    loop {
        let draw = rng.next_u64();
        if draw < whole {
            return draw % bound;
        }
    }
}

/// Fisher-Yates.
fn shuffle<T>(rng: &mut ChaCha8Rng, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i as u64 + 1) as usize);
    }
}
