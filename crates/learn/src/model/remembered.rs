//! A model of speeds that remembers servers.
//!
//! What the model says of a server follows from who stands on it, in which order, and over how many servers each of them is spread. A placer
//! that compares ways asks the same of most servers again and again; what is remembered is bit for bit what the model says.

use alloc::{collections::BTreeMap, vec::Vec};
use core::cell::RefCell;

use harmony::{Job, PPM, Part, Speeds, Stand};

use super::speeds::{REASONS, SpeedModel, Standing, speed};

/// Most servers that are remembered: some 10 MiB; beyond, all are forgotten.
const SERVERS_MAX: usize = 1 << 16;

/// What the model says of the rows of a server.
type Rows = Vec<[f32; REASONS]>;

/// See the top of the file.
#[derive(Debug)]
pub struct Remembered<'a> {
    model: &'a SpeedModel,
    servers: RefCell<BTreeMap<Vec<[u32; 8]>, Rows>>,
}

impl<'a> Remembered<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn new(model: &'a SpeedModel) -> Self {
        Self { model, servers: RefCell::default() }
    }
}

/// All that a row's facts follow from.
fn key(job: &Job, stand: &Stand, at: usize) -> [u32; 8] {
    let seat = stand.seats().get(at).copied().unwrap_or_default();
    let spans = stand.seats().len() as u32;
    let (ranks, servers) = (stand.placed(Part::Rank), stand.placed(Part::ParameterServer));
    [job.kind as u32, seat.ranks, seat.parameter_servers, job.ranks, job.parameter_servers, spans, ranks, servers]
}

impl Speeds for Remembered<'_> {
    fn speeds(&self, servers: usize, jobs: &[(&Job, &Stand)]) -> Vec<u32> {
        let mut by_server: Vec<(Vec<[u32; 8]>, Vec<usize>)> = alloc::vec![Default::default(); servers];
        for (n, (job, stand)) in jobs.iter().enumerate() {
            for (at, seat) in stand.seats().iter().enumerate() {
                if let Some((keys, who)) = by_server.get_mut(seat.server) {
                    keys.push(key(job, stand, at));
                    who.push(n);
                }
            }
        }
        let mut slowest = alloc::vec![[f32::NEG_INFINITY; REASONS]; jobs.len()];
        let mut remembered = self.servers.borrow_mut();
        for (server, (keys, who)) in by_server.into_iter().enumerate().filter(|(_, (keys, _))| !keys.is_empty()) {
            if remembered.len() >= SERVERS_MAX {
                remembered.clear();
            }
            let rows = remembered.entry(keys).or_insert_with(|| self.model.rows(&Standing::of_server(server, jobs)));
            for (n, row) in who.into_iter().zip(rows) {
                slowest[n].iter_mut().zip(row).for_each(|(slowest, row)| *slowest = slowest.max(*row));
            }
        }
        // As the model has it for a job without a seat.
        slowest.iter().map(|row| if row[0] == f32::NEG_INFINITY { PPM as u32 } else { speed(row) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use harmony::{Greedy, Mix, mix, run};

    use super::*;

    #[test]
    fn what_is_remembered_is_what_the_model_says() {
        let asked = Mix { jobs: 30, servers: 4, run_ms: 600_000, octaves: 3, load_permille: 900 };
        let model = SpeedModel::new(5);
        let remembered = Remembered::new(&model);
        let jobs = mix(&asked, 2);
        let play = |speeds: &dyn Speeds| run(&jobs, 4, speeds, &mut Greedy::new(speeds)).unwrap();
        assert_eq!(play(&remembered), play(&model));
        assert!(remembered.servers.borrow().len() > 50);
        assert_eq!(play(&remembered), play(&model), "with all remembered");
    }
}
