//! The model of speeds learns from a log.

use alloc::vec::Vec;

use harmony::{Draw, Job, PPM, Speeds, Stand};

use super::log::{Log, Sighting};
use crate::{
    grad::{Adam, Matrix, Rate},
    model::{SpeedModel, Standing},
};

/// Moments of a step.
const BATCH: usize = 8;
/// The rate at first; it falls to a tenth.
const RATE: f32 = 3e-3;

fn pairs(sighting: &Sighting) -> Vec<(&Job, &Stand)> {
    sighting.jobs.iter().map(|(job, stand)| (job, stand)).collect()
}

/// Takes so many steps, each with some moments of the log; `told` hears the loss of every step. An empty log teaches nothing.
pub fn fit(model: &mut SpeedModel, log: &Log, steps: usize, draw: &mut Draw, told: &mut dyn FnMut(usize, f64)) {
    let mut adam = Adam::new(&model.parameters);
    for step in 0..steps {
        let mut standing = Standing::default();
        let mut longer = Vec::new();
        for _ in 0..BATCH {
            let Some(seen) = log.seen.get(draw.below(log.seen.len() as u64) as usize) else { return };
            standing.append(&Standing::new(seen.servers, &pairs(seen)));
            longer.extend(seen.speeds.iter().map(|speed| PPM as f32 / *speed as f32));
        }
        let (tape, node) = model.longer(&standing);
        let found = tape.value(node);
        let mut gradient = Matrix::zeros(found.rows, found.columns);
        let mut loss = 0.0;
        for (at, longer) in longer.iter().enumerate() {
            // Relative: a job that is ten times slower may be misjudged by ten times as much.
            let off = (1.0 + found.row(at).iter().sum::<f32>()) / longer - 1.0;
            loss += f64::from(off * off);
            gradient.row_mut(at).fill(2.0 * off / longer / found.rows.max(1) as f32);
        }
        let gradient = tape.back(alloc::vec![(node, gradient)]);
        adam.step(&mut model.parameters, &gradient, Rate::falling(RATE, step, steps));
        told(step, loss / longer.len().max(1) as f64);
    }
}

/// How far predicted speeds are off the truth in a log's moments: the mean of the absolute difference, over the true speed.
#[must_use]
pub fn off(model: &SpeedModel, truth: &dyn Speeds, log: &Log) -> f64 {
    let mut sum = 0.0;
    let mut count = 0_u32;
    for seen in &log.seen {
        let pairs = pairs(seen);
        let (found, true_ones) = (model.speeds(seen.servers, &pairs), truth.speeds(seen.servers, &pairs));
        for (found, expected) in found.iter().zip(&true_ones) {
            sum += (f64::from(*found) / f64::from(*expected) - 1.0).abs();
            count += 1;
        }
    }
    sum / f64::from(count.max(1))
}
