//! The policy learns to do what a rule does, in the states into which the rule and later the policy itself come (Ross, Gordon and Bagnell 2011).

use alloc::vec::Vec;

use harmony::{Draw, Job, Part, Placer, Stand, View, takes};

use crate::{
    grad::{Adam, Matrix, Rate},
    model::{Policy, Scene, masked},
};

/// Scenes of a step.
const BATCH: usize = 64;
/// The rate at first; it falls to a tenth.
const RATE: f32 = 2e-3;

/// What was seen, and how likely each action should have been.
#[derive(Clone, Debug)]
pub(crate) struct Lesson {
    pub(crate) scene: Scene,
    pub(crate) shares: Vec<f32>,
}

/// Plays a mix: the teacher says where each job should stand, and the teacher or the pupil where it stands.
pub(super) struct School<'a> {
    pub(super) teacher: &'a mut dyn Placer,
    pub(super) pupil: Option<&'a Policy>,
    pub(super) draw: &'a mut Draw,
    pub(super) lessons: &'a mut Vec<Lesson>,
}

impl Placer for School<'_> {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        let taught = self.teacher.place(view, job)?;
        self.teach(view, job, &taught);
        match self.pupil {
            // A pupil that finds no room where the teacher does would wait for ever.
            Some(pupil) => pupil.placer().place(view, job).or(Some(taught)),
            None => Some(taught),
        }
    }
}

impl School<'_> {
    /// A lesson for each part, in an order that is drawn: any of the parts that are left is right.
    fn teach(&mut self, view: &View<'_>, job: &Job, taught: &Stand) {
        let mut left: Vec<(usize, Part)> = Vec::new();
        for seat in taught.seats() {
            left.extend((0..seat.ranks).map(|_| (seat.server, Part::Rank)));
            left.extend((0..seat.parameter_servers).map(|_| (seat.server, Part::ParameterServer)));
        }
        let (mut free, mut stand) = (view.free.to_vec(), Stand::default());
        while !left.is_empty() {
            let scene = Scene::new(view, &free, job, &stand);
            let mut shares = alloc::vec![0.0; scene.allowed().len()];
            let each = 1.0 / left.len() as f32;
            for (server, part) in &left {
                let action = server * Part::ALL.len() + usize::from(*part == Part::ParameterServer);
                if let Some(share) = shares.get_mut(action) {
                    *share += each;
                }
            }
            self.lessons.push(Lesson { scene, shares });
            let (server, part) = left.swap_remove(self.draw.below(left.len() as u64) as usize);
            free.get_mut(server).map(|free| takes(free, &job.demand(part)));
            stand.add(server, part);
        }
    }
}

/// Takes so many steps, each with some lessons; `told` hears the loss of every step: the cross entropy.
pub(crate) fn imitate(policy: &mut Policy, lessons: &[Lesson], steps: usize, draw: &mut Draw, told: &mut dyn FnMut(usize, f64)) {
    let mut adam = Adam::new(&policy.parameters);
    for step in 0..steps {
        let some: Vec<&Lesson> = (0..BATCH).filter_map(|_| lessons.get(draw.below(lessons.len() as u64) as usize)).collect();
        let scenes: Vec<&Scene> = some.iter().map(|lesson| &lesson.scene).collect();
        let batch = policy.batch(&scenes);
        let scores = batch.tape.value(batch.scores);
        let mut gradient = Matrix { values: Vec::with_capacity(scores.values.len()), ..*scores };
        let (mut from, mut loss) = (0, 0.0);
        for lesson in &some {
            let own = &scores.values[from..from + lesson.shares.len()];
            from += own.len();
            let Some(found) = masked(own, lesson.scene.allowed()) else { return };
            for (found, share) in found.iter().zip(&lesson.shares) {
                gradient.values.push((found - share) / some.len() as f32);
                loss -= if *share > 0.0 { f64::from(share * libm::logf(found.max(f32::MIN_POSITIVE))) } else { 0.0 };
            }
        }
        let gradient = batch.tape.back(alloc::vec![(batch.scores, gradient)]);
        adam.step(&mut policy.parameters, &gradient, Rate::falling(RATE, step, steps));
        told(step, loss / some.len().max(1) as f64);
    }
}
