//! Who is placed next, and where: the published baselines, three rules that know little, and greedy ones that know the table.

use alloc::vec::Vec;

use super::{
    seen::{Candidate, Chooser, GPUS, PLACES, Seen, Waits},
    table::{DEMANDS, Table},
};

/// The first job of each demand that waits, smaller ones first: between these DeepShare chooses.
#[must_use]
pub fn candidates(queue: &[Waits]) -> Vec<usize> {
    (0..DEMANDS.len()).filter_map(|demand| queue.iter().position(|waits| waits.job.kind.demand == demand)).collect()
}

/// Whether a job that waits finds room there.
fn fits(seen: &Seen<'_>, (at, place): Candidate) -> bool {
    let Some((waits, nodes)) = seen.queue.get(at).zip(PLACES.get(place)) else { return false };
    let each = waits.job.kind.gpus() / nodes.len() as u32;
    waits.job.kind.row(nodes.len() as u32).is_some() && nodes.iter().all(|node| seen.used[*node] + each <= GPUS)
}

/// All ways to place one of the candidates, with room.
pub fn ways(seen: &Seen<'_>) -> impl Iterator<Item = Candidate> {
    let candidates = candidates(seen.queue);
    let all = (0..PLACES.len()).flat_map(move |place| candidates.clone().into_iter().map(move |at| (at, place)));
    all.filter(move |way| fits(seen, *way))
}

/// What counts of a job's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Each of its GPUs.
    Gpus,
    /// The job.
    Jobs,
}

/// By how much the sum of shares grows with a choice, for each of its GPUs.
#[must_use]
pub fn gain(table: &Table, seen: &Seen<'_>, (at, place): Candidate, counting: Counting) -> f64 {
    let Some((waits, nodes)) = seen.queue.get(at).zip(PLACES.get(place)) else { return 0.0 };
    let Some(row) = waits.job.kind.row(nodes.len() as u32) else { return 0.0 };
    let weight = |gpus: u32| if counting == Counting::Gpus { f64::from(gpus) } else { 1.0 };
    let mut all: Vec<(usize, &[usize], u32)> =
        seen.running.iter().map(|stands| (stands.row, stands.nodes(), stands.waits.job.kind.gpus())).collect();
    let sum = |all: &[(usize, &[usize], u32)]| -> f64 {
        let share = |own: usize, (row, nodes, gpus): &(usize, &[usize], u32)| {
            let on = |node: &usize| {
                let others = all.iter().enumerate().filter(|(other, (_, nodes, _))| *other != own && nodes.contains(node));
                table.share(*row, others.map(|(_, (row, ..))| *row))
            };
            nodes.iter().map(on).fold(1.0, f64::min) * weight(*gpus)
        };
        all.iter().enumerate().map(|(own, stands)| share(own, stands)).sum()
    };
    all.sort_by_key(|(_, nodes, _)| nodes.first().copied());
    let before = sum(&all);
    all.push((row, nodes, waits.job.kind.gpus()));
    // In this order others sum, and equal gains differ in their last digits.
    all.sort_by_key(|(_, nodes, _)| nodes.first().copied());
    (sum(&all) - before) / f64::from(waits.job.kind.gpus())
}

/// What a rule knows of who stands beside whom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beside {
    /// Onto the fullest nodes with room.
    Fullest,
    /// Onto the emptiest.
    Emptiest,
    /// Where the sum of shares grows most: with whom it interferes least.
    Least,
}

/// The rules.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    /// What the authors call LAS, as they have it: the job that ran longest first, over as many nodes as it can; all are stopped after each round.
    Las,
    /// What they call SRTF: the job with the smallest part done first, else as above.
    Srtf,
    /// First come, first served among the candidates.
    First(Beside, &'a Table),
    /// At each place the first candidate that fits, and of these the choice with the largest [`gain`] above a least one.
    Greedy {
        /// What it knows.
        table: &'a Table,
        /// The least gain.
        least: f64,
    },
    /// Of all candidates at all places the one with the largest gain, each job counting as one.
    GreedyByJobs(&'a Table),
}

impl<'a> By<'a> {
    /// Each of them once.
    #[must_use]
    pub fn all(table: &'a Table) -> Vec<Self> {
        let first = |beside| Self::First(beside, table);
        let greedy = |least| Self::Greedy { table, least };
        alloc::vec![
            Self::Las,
            Self::Srtf,
            first(Beside::Fullest),
            first(Beside::Emptiest),
            first(Beside::Least),
            greedy(0.0),
            greedy(0.3),
            greedy(0.5),
            greedy(0.7),
            Self::GreedyByJobs(table),
        ]
    }
}

/// The first nodes with room for the first job, over four nodes rather than two.
fn spread(seen: &Seen<'_>) -> Option<Candidate> {
    let by_nodes = |nodes: usize| (0..PLACES.len()).filter(move |place| PLACES[*place].len() == nodes);
    by_nodes(4).chain(by_nodes(2)).map(|place| (0, place)).find(|way| fits(seen, *way))
}

fn first(seen: &Seen<'_>, beside: Beside, table: &Table) -> Option<Candidate> {
    let mut in_turn = candidates(seen.queue);
    in_turn.sort_unstable();
    let used = |place: usize| {
        let nodes = PLACES[place];
        nodes.iter().map(|node| f64::from(seen.used[*node])).sum::<f64>() / nodes.len() as f64
    };
    let worth = |way: Candidate| match beside {
        Beside::Fullest => used(way.1),
        Beside::Emptiest => -used(way.1),
        Beside::Least => gain(table, seen, way, Counting::Gpus),
    };
    let best = |at: usize| best((0..PLACES.len()).map(|place| (at, place)).filter(|way| fits(seen, *way)), worth, f64::NEG_INFINITY);
    in_turn.into_iter().find_map(best)
}

/// The choice that is worth most, and more than a least one; of equal ones the first.
fn best(ways: impl Iterator<Item = Candidate>, worth: impl Fn(Candidate) -> f64, least: f64) -> Option<Candidate> {
    let valued = ways.map(|way| (worth(way), way)).filter(|(worth, _)| *worth > least);
    valued.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, way)| way)
}

impl Chooser for By<'_> {
    fn sort(&mut self, queue: &mut [Waits]) {
        let part = |waits: &Waits| waits.trained / waits.job.samples;
        match self {
            Self::Las => queue.sort_by_key(|waits| core::cmp::Reverse(waits.rounds)),
            Self::Srtf => queue.sort_by(|a, b| part(a).total_cmp(&part(b))),
            _ => {}
        }
    }

    fn choose(&mut self, seen: &Seen<'_>) -> Option<Candidate> {
        match *self {
            Self::Las | Self::Srtf => spread(seen),
            Self::First(beside, table) => first(seen, beside, table),
            Self::Greedy { table, least } => {
                let candidates = candidates(seen.queue);
                let one = |place: usize| candidates.iter().map(|at| (*at, place)).find(|way| fits(seen, *way));
                best((0..PLACES.len()).filter_map(one), |way| gain(table, seen, way, Counting::Gpus), least)
            }
            Self::GreedyByJobs(table) => best(ways(seen), |way| gain(table, seen, way, Counting::Jobs), 0.0),
        }
    }

    fn stops_all(&self) -> bool {
        matches!(self, Self::Las | Self::Srtf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deepshare::{Job, Kind, NODES, ROWS, Stands};

    fn waits(id: usize, demand: usize) -> Waits {
        Waits { id, job: Job { kind: Kind { model: 0, demand }, samples: 1.0 }, trained: 0.0, rounds: 0 }
    }

    fn stands(demand: usize, place: usize) -> Stands {
        let waits = waits(9, demand);
        Stands { waits, place, row: waits.job.kind.row(PLACES[place].len() as u32).unwrap(), share: 1.0 }
    }

    fn used(running: &[Stands]) -> [u32; NODES] {
        let mut used = [0; NODES];
        for stands in running {
            stands.nodes().iter().for_each(|node| used[*node] += stands.waits.job.kind.gpus() / stands.nodes().len() as u32);
        }
        used
    }

    #[test]
    fn rules_differ_in_where_they_put_whom() {
        let mut table = Table { alone: [1.0; ROWS], beside: [[0.5; ROWS]; ROWS] };
        // Beside one of eight on four nodes nobody loses anything.
        let eight = Kind { model: 0, demand: 2 }.row(4).unwrap();
        table.beside.iter_mut().for_each(|row| row[eight] = 1.0);
        table.beside[eight] = [1.0; ROWS];
        let queue = [waits(0, 1), waits(1, 0), waits(2, 0)];
        // Four GPUs on nodes 0 and 1, eight over all: used 4, 4, 2, 2.
        let running = [stands(1, 0), stands(2, 6)];
        let seen = Seen { round: 0, queue: &queue, running: &running, used: used(&running) };
        assert_eq!(seen.used, [4, 4, 2, 2]);
        assert_eq!(candidates(&queue), [1, 0]);
        let choose = |mut rule: By<'_>| rule.choose(&seen);
        assert_eq!(choose(By::Las), Some((0, 6)), "over as many nodes as it can");
        assert_eq!(choose(By::First(Beside::Fullest, &table)), Some((0, 0)));
        assert_eq!(choose(By::First(Beside::Emptiest, &table)), Some((0, 5)));
        assert_eq!(choose(By::First(Beside::Least, &table)), Some((0, 5)));
        // Two GPUs come before four at each place; only nodes 2 and 3 hurt nobody.
        assert_eq!(choose(By::Greedy { table: &table, least: 0.0 }), Some((1, 5)));
        assert_eq!(choose(By::Greedy { table: &table, least: 1.0 }), None);
        // The gains: two GPUs whole; four GPUs whole, for each GPU as much, for each job half.
        assert_eq!(gain(&table, &seen, (1, 5), Counting::Gpus), 1.0);
        assert_eq!((gain(&table, &seen, (0, 5), Counting::Jobs), gain(&table, &seen, (1, 5), Counting::Jobs)), (0.25, 0.5));
        // Beside the four on nodes 0 and 1 both have half: two GPUs of four lose, one of two is won, for two GPUs.
        assert_eq!(gain(&table, &seen, (1, 0), Counting::Gpus), -0.5);
        assert_eq!(choose(By::GreedyByJobs(&table)), Some((1, 5)));
    }

    #[test]
    fn the_baselines_sort_as_their_authors_do() {
        let of = |id, rounds, trained| Waits { rounds, trained, ..waits(id, 0) };
        let mut queue = [of(0, 1, 0.5), of(1, 3, 0.2), of(2, 1, 0.1)];
        By::Las.sort(&mut queue);
        assert_eq!(queue.map(|waits| waits.id), [1, 0, 2]);
        By::Srtf.sort(&mut queue);
        assert_eq!(queue.map(|waits| waits.id), [2, 1, 0]);
    }
}
