//! Nodes for shapes: who is not changed stays, a job within a node is never split, a job across nodes has whole ones, and where there is no room
//! some are moved (Sia, section 3.1).

use alloc::{collections::VecDeque, vec::Vec};

use super::job::{ElasticJob, Pool, Shape, Stand};

/// Nodes for the shapes of jobs.
pub(super) fn place(pools: &[Pool], jobs: &[ElasticJob], shapes: &[Option<Shape>]) -> Vec<Option<Stand>> {
    let mut stands: Vec<Option<Stand>> = alloc::vec![None; shapes.len()];
    for (pool, at) in pools.iter().zip(0_u8..) {
        let mut board = Board::new(pool, at, shapes);
        let mut anew: Vec<usize> = Vec::new();
        for (job, shape) in board.wanted(shapes) {
            let has = jobs.get(job).and_then(|job| job.stand.as_ref());
            match has.filter(|stand| stand.pool == at && stand.shape().gpus == shape.gpus && board.has_room(stand)) {
                Some(stand) => board.put(job, stand.places.clone()),
                None => anew.push(job),
            }
        }
        // Pinned jobs are never moved for others, so they are looked at last.
        board.pinned = jobs.iter().map(|job| job.pinned).collect();
        anew.sort_by_key(|job| core::cmp::Reverse(board.gpus(*job)));
        let (across, within): (Vec<usize>, Vec<usize>) = anew.into_iter().partition(|job| board.gpus(*job) >= pool.gpus_per_node);
        let mut queue: VecDeque<usize> = across.into_iter().chain(within).collect();
        while let Some(job) = queue.pop_front() {
            let moved = if board.gpus(job) >= pool.gpus_per_node { board.across(job) } else { board.within(job) };
            // A moved job is smaller than the job that moved it, so the loop ends. Larger jobs are placed first.
            let place = |queue: &VecDeque<usize>, gpus: u32| queue.iter().position(|other| board.gpus(*other) < gpus);
            for other in moved {
                let to = place(&queue, board.gpus(other)).unwrap_or(queue.len());
                queue.insert(to, other);
            }
        }
        for (job, places) in board.stands.into_iter().enumerate() {
            if let (Some(places), Some(stand)) = (places, stands.get_mut(job)) {
                *stand = Some(Stand { pool: at, places });
            }
        }
    }
    stands
}

/// The nodes of one type.
struct Board {
    gpus_per_node: u32,
    /// Free GPUs of each node.
    free: Vec<u32>,
    /// By job: what it wants here.
    wants: Vec<u32>,
    /// By job: what it has here.
    stands: Vec<Option<Vec<(u32, u32)>>>,
    /// By job: whether it stays where it is.
    pinned: Vec<bool>,
}

impl Board {
    fn new(pool: &Pool, at: u8, shapes: &[Option<Shape>]) -> Self {
        let wants = shapes.iter().map(|shape| shape.filter(|shape| shape.pool == at).map_or(0, |shape| shape.gpus)).collect();
        let free = alloc::vec![pool.gpus_per_node; pool.nodes as usize];
        Self { gpus_per_node: pool.gpus_per_node, free, wants, stands: alloc::vec![None; shapes.len()], pinned: Vec::new() }
    }

    /// The jobs that want something here.
    fn wanted(&self, shapes: &[Option<Shape>]) -> Vec<(usize, Shape)> {
        let all = shapes.iter().enumerate().filter(|(job, _)| self.wants[*job] > 0);
        all.filter_map(|(job, shape)| Some((job, (*shape)?))).collect()
    }

    fn gpus(&self, job: usize) -> u32 {
        self.wants.get(job).copied().unwrap_or(0)
    }

    fn has_room(&self, stand: &Stand) -> bool {
        stand.places.iter().all(|(node, gpus)| self.free.get(*node as usize).is_some_and(|free| free >= gpus))
    }

    fn put(&mut self, job: usize, places: Vec<(u32, u32)>) {
        for (node, gpus) in &places {
            self.free[*node as usize] -= gpus;
        }
        self.stands[job] = Some(places);
    }

    fn take_away(&mut self, job: usize) {
        for (node, gpus) in self.stands[job].take().unwrap_or_default() {
            self.free[node as usize] += gpus;
        }
    }

    /// Jobs that stand on a node and on no other, and may be moved; the smallest first.
    fn alone_on(&self, node: usize) -> Vec<usize> {
        let on =
            |places: &[(u32, u32)]| places.len() == 1 && places.iter().all(|(of, gpus)| *of as usize == node && *gpus < self.gpus_per_node);
        let all = self.stands.iter().enumerate().filter(|(job, places)| !self.pinned[*job] && places.as_deref().is_some_and(on));
        let mut jobs: Vec<usize> = all.map(|(job, _)| job).collect();
        jobs.sort_by_key(|job| self.gpus(*job));
        jobs
    }

    /// Whole nodes from the last on, and for what is left over a part of one more; gives those who have to move.
    fn across(&mut self, job: usize) -> Vec<usize> {
        let (mut whole, rest) = (self.gpus(job) / self.gpus_per_node, self.gpus(job) % self.gpus_per_node);
        let (mut places, mut moved) = (Vec::new(), Vec::new());
        while whole > 0 {
            let empty = self.free.iter().rposition(|free| *free == self.gpus_per_node);
            let Some(node) = empty.or_else(|| self.emptied(&mut moved)) else { break };
            places.push((node as u32, self.gpus_per_node));
            self.free[node] = 0;
            whole -= 1;
        }
        let left = whole * self.gpus_per_node + rest;
        self.stands[job] = Some(places);
        if left > 0 {
            moved.extend(self.fill(job, left));
        }
        moved
    }

    /// The node with the most free GPUs, after those who stand on it alone were moved away; `None` where nobody can be.
    fn emptied(&mut self, moved: &mut Vec<usize>) -> Option<usize> {
        let can = |node: usize| self.free[node] + self.alone_on(node).iter().map(|job| self.gpus(*job)).sum::<u32>() == self.gpus_per_node;
        let node = (0..self.free.len()).filter(|node| can(*node)).max_by_key(|node| self.free[*node])?;
        for job in self.alone_on(node) {
            self.take_away(job);
            moved.push(job);
        }
        Some(node)
    }

    /// A part of the fullest node that has room, else of the one that lacks least after smaller jobs were moved away.
    fn within(&mut self, job: usize) -> Vec<usize> {
        self.stands[job] = Some(Vec::new());
        self.fill(job, self.gpus(job))
    }

    /// More GPUs for a job, on one node where that is possible; gives those who have to move.
    fn fill(&mut self, job: usize, gpus: u32) -> Vec<usize> {
        let room = |node: &usize| self.free[*node] >= gpus;
        let fits = (0..self.free.len()).filter(room).min_by_key(|node| self.free[*node]);
        let mut moved = Vec::new();
        let node = fits.or_else(|| {
            let smaller = |node: usize| self.alone_on(node).into_iter().filter(|other| self.gpus(*other) < gpus);
            let can = |node: &usize| self.free[*node] + smaller(*node).map(|other| self.gpus(other)).sum::<u32>() >= gpus;
            let node = (0..self.free.len()).filter(can).max_by_key(|node| self.free[*node])?;
            for other in smaller(node).collect::<Vec<usize>>() {
                if self.free[node] < gpus {
                    self.take_away(other);
                    moved.push(other);
                }
            }
            Some(node)
        });
        match node {
            Some(node) => self.add(job, node, gpus),
            None => self.split(job, gpus),
        }
        moved
    }

    /// Where no node has room, although there are enough GPUs: parts of those with the most. Only counts that are no powers of two come here.
    fn split(&mut self, job: usize, mut gpus: u32) {
        while gpus > 0 {
            let Some(node) = (0..self.free.len()).max_by_key(|node| self.free[*node]).filter(|node| self.free[*node] > 0) else { break };
            let part = self.free[node].min(gpus);
            self.add(job, node, part);
            gpus -= part;
        }
        if gpus > 0 {
            // Less than it was given is no shape that anybody chose.
            self.take_away(job);
        }
    }

    fn add(&mut self, job: usize, node: usize, gpus: u32) {
        self.free[node] -= gpus;
        if let Some(places) = self.stands[job].as_mut() {
            places.push((node as u32, gpus));
        }
    }
}
