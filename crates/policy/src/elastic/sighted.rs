//! Sia with the network in view (ours; the paper takes what a job measured, wherever it stood).
//!
//! A decision is worth the sum of what its jobs cost, each by its goodput over the predicted length of its iterations where it would stand. After the
//! program has chosen shapes, the placer's places are compared with nine others, and with those in which one job that loses much goes
//! elsewhere ([`Sight::After`]).
//!
//! With [`Sight::Inside`] the few jobs that lose most, or could, also have a column for each of some places of each shape that spans nodes,
//! which costs what the job and those whom it meets there would. Columns of one shape use the same GPUs of the same type, so the program
//! can only want the cheapest of them, and that one stands for all. Where two jobs want the same nodes the placer decides, and what comes
//! out is taken only where it is worth more than without such columns. So by its own measure no round of `Inside` is worse than one of `After`,
//! and none of `After` worse than a blind one.

use alloc::vec::Vec;

use super::{
    aware::{Foresight, Sight, candidates, spans, windows},
    job::{ElasticJob, Pool, Shape, Stand},
    place,
    sia::Sia,
};

/// Jobs that have columns for places.
const JOBS_MAX: usize = 3;
/// Places of each shape that have a column.
const PLACES_MAX: usize = 3;
/// Loss from which a running job may go elsewhere: less is not worth looking.
const LOSES: f64 = 1.02;
/// Gains below this are none: predictions are no better.
const GAIN_LEAST: f64 = 1e-6;

/// A shape on the best of some places.
struct Column {
    stand: Stand,
    /// What the job costs there, and how much more it makes others cost.
    price: f64,
}

/// What is compared.
struct View<'a> {
    sia: &'a Sia,
    pools: &'a [Pool],
    jobs: &'a [ElasticJob],
    /// By job: shapes and their goodput.
    rows: Vec<Vec<(Shape, f64)>>,
}

/// Where all stand, how much longer their iterations are there, and what each costs.
#[derive(Clone)]
struct Judged {
    stands: Vec<Option<Stand>>,
    longer: Vec<f64>,
    costs: Vec<f64>,
}

impl Judged {
    fn total(&self) -> f64 {
        self.costs.iter().sum()
    }
}

/// A decision of Sia that sees the network.
pub(super) fn decide(sia: &Sia, pools: &[Pool], jobs: &[ElasticJob], sight: Sight, foresight: &mut dyn Foresight) -> Vec<Option<Stand>> {
    let rows = jobs.iter().map(|job| sia.goodputs(pools, job)).collect();
    let view = View { sia, pools, jobs, rows };
    let chosen = sia.choose(pools, jobs, &[]);
    let blind = place::place(pools, jobs, &chosen);
    let no_hints: Vec<Option<Stand>> = alloc::vec![None; jobs.len()];
    let mut best = view.after(view.judge(blind, foresight), &chosen, &no_hints, foresight);
    if sight == Sight::Inside {
        let columns = view.columns(&best, foresight);
        let price = |column: &Column| (column.stand.shape(), column.price);
        let prices: Vec<Vec<(Shape, f64)>> = columns.iter().map(|of| of.iter().map(price).collect()).collect();
        let other = sia.choose(pools, jobs, &prices);
        let hints: Vec<Option<Stand>> = columns.iter().zip(&other).map(|(columns, shape)| hint(columns, *shape)).collect();
        if other != chosen || hints.iter().any(Option::is_some) {
            let first = view.judge(place::place(pools, jobs, &other), foresight);
            let found = view.after(first, &other, &hints, foresight);
            if found.total() + GAIN_LEAST < best.total() {
                best = found;
            }
        }
    }
    best.stands
}

/// Where a job should stand with a shape.
fn hint(columns: &[Column], shape: Option<Shape>) -> Option<Stand> {
    columns.iter().find(|column| Some(column.stand.shape()) == shape).map(|column| column.stand.clone())
}

impl View<'_> {
    fn judge(&self, stands: Vec<Option<Stand>>, foresight: &mut dyn Foresight) -> Judged {
        let longer = foresight.longer(self.jobs, &stands);
        let costs = (0..self.jobs.len()).map(|at| self.cost(at, stands[at].as_ref(), longer.get(at).copied().unwrap_or(1.0))).collect();
        Judged { stands, longer, costs }
    }

    /// What a job costs on a place where its iterations are so much longer.
    fn cost(&self, at: usize, stand: Option<&Stand>, longer: f64) -> f64 {
        let (job, row) = (&self.jobs[at], &self.rows[at]);
        let Some(stand) = stand else { return self.sia.waiting() };
        let found = row.iter().find(|(shape, _)| shape.pool == stand.pool && shape.gpus == stand.shape().gpus);
        // A pinned job may have what it would no longer be given; that is the same for all places.
        let goodput = found.map_or(1.0, |(_, goodput)| *goodput);
        let restarts = job.stand.as_ref().is_some_and(|has| has != stand);
        self.sia.cost(job, goodput / longer.max(1.0), restarts)
    }

    /// The best of some places for shapes.
    fn after(&self, first: Judged, chosen: &[Option<Shape>], hints: &[Option<Stand>], foresight: &mut dyn Foresight) -> Judged {
        let loses = |at: &usize| first.longer.get(*at).is_some_and(|longer| *longer > LOSES);
        // Where nobody loses anything nothing can be better.
        let losers: Vec<usize> = (0..self.jobs.len()).filter(loses).collect();
        let mut best = first;
        if losers.is_empty() && hints.iter().all(Option::is_none) {
            return best;
        }
        let mut tried = candidates(self.pools, self.jobs, chosen, hints);
        for at in losers.into_iter().filter(|at| !self.jobs[*at].pinned).take(JOBS_MAX) {
            let mut without = self.jobs.to_vec();
            without[at].stand = None;
            tried.extend(candidates(self.pools, &without, chosen, hints));
        }
        for stands in tried {
            let judged = self.judge(stands, foresight);
            if judged.total() + GAIN_LEAST < best.total() {
                best = judged;
            }
        }
        best
    }

    /// By job: shapes that span nodes, each on the best of some places.
    fn columns(&self, now: &Judged, foresight: &mut dyn Foresight) -> Vec<Vec<Column>> {
        let mut columns: Vec<Vec<Column>> = self.jobs.iter().map(|_| Vec::new()).collect();
        for at in self.matter(now) {
            let mut others = now.stands.clone();
            others[at] = None;
            let apart = self.judge(others.clone(), foresight);
            // A job that is not there costs what waiting does, which is no part of what others cost.
            let alone = apart.total() - apart.costs[at];
            for (shape, _) in self.rows[at].iter().filter(|(shape, _)| shape.nodes > 1) {
                let mut places = windows(self.pools, &others, *shape, PLACES_MAX);
                places.extend(now.stands[at].clone().filter(|stand| stand.shape() == *shape));
                let judged = places.into_iter().map(|stand| {
                    let mut stands = others.clone();
                    stands[at] = Some(stand.clone());
                    Column { price: self.judge(stands, foresight).total() - alone, stand }
                });
                columns[at].extend(judged.min_by(|a, b| a.price.total_cmp(&b.price)));
            }
        }
        columns
    }

    /// The jobs that can span nodes and lose most; of those that lose nothing, the largest.
    fn matter(&self, now: &Judged) -> Vec<usize> {
        let can = |at: &usize| !self.jobs[*at].pinned && self.rows[*at].iter().any(|(shape, _)| shape.nodes > 1);
        let mut all: Vec<usize> = (0..self.jobs.len()).filter(can).collect();
        let pinned = now.stands.iter().enumerate().filter(|(at, stand)| !can(at) && stand.as_ref().is_some_and(spans)).count();
        // With one job that could span nodes, and loses nothing, nobody is in anybody's way.
        if all.len() + pinned < 2 && now.longer.iter().all(|longer| *longer <= LOSES) {
            return Vec::new();
        }
        let size = |at: usize| now.stands[at].as_ref().map_or(0, |stand| stand.shape().gpus);
        let lost = |at: usize| now.longer.get(at).copied().unwrap_or(1.0);
        all.sort_by(|a, b| lost(*b).total_cmp(&lost(*a)).then(size(*b).cmp(&size(*a))));
        all.truncate(JOBS_MAX);
        all
    }
}
