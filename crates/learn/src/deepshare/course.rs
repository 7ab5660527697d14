//! From nothing to a policy: it imitates the greedy rule, then tries. Traces are drawn as the authors draw them, and never those on which they judge.

use alloc::vec::Vec;

use harmony::{
    Draw,
    deepshare::{By, Candidate, Chooser, DEMANDS, Details, Job, MODELS, Seen, Stuck, Table, Waits, drawn, run},
};

use super::scene::{Choices, Scheduler, action};
use crate::{
    model::Policy,
    train::{Actor, Judged, Lesson, Stage, imitate},
};

/// Seeds of traces that judge, teach and are tried: far from each other, and from those that anybody names.
const JUDGED_FROM: u64 = 6 << 40;
const TAUGHT_FROM: u64 = 7 << 40;
const TRIED_FROM: u64 = 8 << 40;
/// Traces that judge.
const JUDGED: u64 = 6;
/// After this time a reward is worth half: twice what a job takes.
const HALF_MS: f64 = 2.0 * 3_600_000.0;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Seed of all random draws.
    pub seed: u64,
    /// Jobs of a trace.
    pub jobs: usize,
    /// Traces in which the teacher is followed, then as many in which the policy chooses; and steps of learning after each.
    pub taught: u64,
    /// See above.
    pub imitate_steps: usize,
    /// Rounds of tries.
    pub rounds: usize,
    /// Rounds between two judgements.
    pub judge_every: usize,
}

/// What came of a course.
#[derive(Clone, Debug)]
pub struct Course {
    /// The policy that was best on the traces that judge.
    pub policy: Policy,
    /// Its mean completion time over that of its teacher there, as it went.
    pub curve: Vec<Judged>,
}

/// Trains against a table. Its teacher is [`By::GreedyByJobs`].
///
/// # Errors
/// [`Stuck`], which no table should bring about.
pub fn train(
    table: &Table,
    samples: &[[f64; DEMANDS.len()]; MODELS.len()],
    details: Details,
    setup: &Setup,
    told: &mut dyn FnMut(&Judged),
) -> Result<Course, Stuck> {
    let trace = |from: u64| drawn(setup.jobs, samples, setup.seed + from);
    let judges = (0..JUDGED).map(|at| {
        let jobs = trace(JUDGED_FROM + at);
        let teacher_s = run(&jobs, table, details, &mut By::GreedyByJobs(table))?.completion_mean_s();
        Ok((jobs, teacher_s))
    });
    let judges: Vec<(Vec<Job>, f64)> = judges.collect::<Result<_, Stuck>>()?;
    let over_teacher = |policy: &Policy| -> Result<f64, Stuck> {
        let mut sum = 0.0;
        for (jobs, teacher_s) in &judges {
            sum += run(jobs, table, details, &mut Scheduler::new(policy))?.completion_mean_s() / teacher_s;
        }
        Ok(sum / judges.len().max(1) as f64)
    };
    let mut draw = Draw::new(setup.seed, 6);
    let mut policy = Policy::new(setup.seed);
    let mut best = (f64::INFINITY, policy.clone());
    let mut curve: Vec<Judged> = Vec::new();
    let mut judge = |policy: &Policy, stage: Stage, rounds: usize| -> Result<(), Stuck> {
        let judged = Judged { stage, rounds, over_greedy: over_teacher(policy)? };
        told(&judged);
        curve.push(judged);
        if judged.over_greedy < best.0 {
            best = (judged.over_greedy, policy.clone());
        }
        Ok(())
    };
    let mut lessons = Vec::new();
    for half in 0..2 {
        for at in 0..setup.taught {
            let pupil = (half > 0).then_some(&policy);
            let mut school = School { teacher: By::GreedyByJobs(table), pupil: pupil.map(Scheduler::new), lessons: &mut lessons };
            run(&trace(TAUGHT_FROM + half * setup.taught + at), table, details, &mut school)?;
        }
        imitate(&mut policy, &lessons, setup.imitate_steps, &mut draw, &mut |_, _| ());
    }
    judge(&policy, Stage::Imitate, 0)?;
    let mut actor = Actor::new(&policy, HALF_MS);
    for round in 1..=setup.rounds {
        let jobs = trace(TRIED_FROM + round as u64);
        let mut one = |policy: &Policy, draw: &mut Draw| {
            let mut scheduler = Scheduler::drawing(policy, draw);
            let outcome = run(&jobs, table, details, &mut scheduler)?;
            Ok((scheduler.decisions, outcome.spans))
        };
        actor.round::<Stuck>(&mut policy, jobs.len(), &mut draw, &mut one)?;
        if round == setup.rounds || round.is_multiple_of(setup.judge_every.max(1)) {
            judge(&policy, Stage::Improve, round)?;
        }
    }
    Ok(Course { policy: best.1, curve })
}

/// The teacher says what to choose, and the teacher or the pupil chooses.
struct School<'a> {
    teacher: By<'a>,
    pupil: Option<Scheduler<'a>>,
    lessons: &'a mut Vec<Lesson>,
}

impl Chooser for School<'_> {
    fn sort(&mut self, queue: &mut [Waits]) {
        self.teacher.sort(queue);
    }

    fn choose(&mut self, seen: &Seen<'_>) -> Option<Candidate> {
        let chosen = self.teacher.choose(seen);
        if let Some(Choices { scene, ways }) = Choices::new(seen) {
            let mut shares = alloc::vec![0.0; scene.allowed().len()];
            if let Some(share) = shares.get_mut(action(&ways, chosen)) {
                *share = 1.0;
            }
            self.lessons.push(Lesson { scene, shares });
        }
        match &mut self.pupil {
            Some(pupil) => pupil.choose(seen),
            None => chosen,
        }
    }
}

#[cfg(test)]
mod tests {
    use harmony::deepshare::ROWS;

    use super::*;

    #[test]
    fn a_policy_learns_whom_not_to_put_beside_whom() {
        // Models of one half leave those of their own half 0.62 of their speed, and others all of it.
        let mut beside = [[1.0; ROWS]; ROWS];
        let half = |row: usize| row / (ROWS / 2);
        for (own, row) in beside.iter_mut().enumerate() {
            row.iter_mut().enumerate().filter(|(other, _)| half(own) == half(*other)).for_each(|(_, share)| *share = 0.62);
        }
        let table = Table { alone: [10.0; ROWS], beside };
        let samples = [[30_000.0; DEMANDS.len()]; MODELS.len()];
        let setup = Setup { seed: 3, jobs: 24, taught: 3, imitate_steps: 40, rounds: 1, judge_every: 1 };
        let mut heard = 0;
        let course = train(&table, &samples, Details::Plain, &setup, &mut |_| heard += 1).unwrap();
        assert_eq!((heard, course.curve.len()), (2, 2));
        // The same seed, the same weights.
        let again = train(&table, &samples, Details::Plain, &setup, &mut |_| ()).unwrap();
        assert!(course.policy.parameters().values().eq(again.policy.parameters().values()));
        // On traces of others it is closer to the rule that knows the table than to one that fills nodes.
        let (mut times, nothing) = ([0.0; 3], Policy::new(9));
        for seed in 1..=4 {
            let jobs = drawn(24, &samples, seed);
            let mut rules: [&mut dyn Chooser; 3] =
                [&mut By::GreedyByJobs(&table), &mut Scheduler::new(&course.policy), &mut Scheduler::new(&nothing)];
            for (time, rule) in times.iter_mut().zip(&mut rules) {
                *time += run(&jobs, &table, Details::Plain, *rule).unwrap().completion_mean_s();
            }
        }
        let [knows, learned, nothing] = times;
        assert!(learned < nothing && learned < 1.2 * knows, "{times:?}");
    }
}
