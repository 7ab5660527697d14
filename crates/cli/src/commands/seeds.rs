//! How many seeds an experiment has, and the same work for each of them, on all cores.

/// Seeds, unless told otherwise: as many as a confidence interval of the mean needs to say something.
pub(crate) const SEEDS: u64 = 10;
/// The same of a quick run.
pub(crate) const QUICK_SEEDS: u64 = 2;
/// Most seeds: a day of work.
pub(crate) const SEEDS_MAX: i64 = 10_000;

/// Does the work of each seed, as many at once as there are cores; the answers are in order of seed.
pub(crate) fn on_all_cores<T: Send>(seeds: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let own = &|first: u64| (first..=seeds).step_by(cores as usize).map(|seed| (seed, work(seed))).collect::<Vec<_>>();
    let mut all: Vec<(u64, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=cores.min(seeds)).map(|first| scope.spawn(move || own(first))).collect();
        // A panic of a thread is one of the whole, as it would be without threads.
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, done)| done).collect()
}
