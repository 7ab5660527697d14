//! Placers side by side, on the same mixes, in the true world.

use ::harmony::{
    Balance, Greedy, Interference, LeastInterference, Lookahead, Mix, Outcome, Pack, Placer, Reach, Rollout, Speeds, Stuck, mix, run,
};
use ::learn::Remembered;
use serde::Serialize;

use super::model::Model;
use crate::commands::{
    seeds::on_all_cores,
    stats::{Interval, interval},
};

/// Ways that who looks ahead tries.
const WAYS: usize = 8;
/// How far who plays on looks, as the teacher of the policy does.
const REACH: Reach = Reach { ways: 8, futures: 16, jobs: 10 };
/// Milliseconds of a minute.
const MINUTE_MS: f64 = 60_000.0;

/// A placer, and what it knows of speeds.
#[derive(Clone, Copy, Debug)]
struct Contestant {
    name: &'static str,
    knows: &'static str,
    who: Who,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Balance,
    Pack,
    LeastInterference,
    Greedy(Known),
    Lookahead,
    Rollout(Known),
    Learned,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Truth,
    Model,
}

/// Where in [`CONTESTANTS`] the placer is with which all are compared: the greedy rule that knows the truth.
const GREEDY: usize = 3;
/// Where the policy is.
const LEARNED: usize = 8;

/// All of them. The first three are those with which Harmony's authors compare; in a real cluster nobody knows the truth.
const CONTESTANTS: [Contestant; 9] = [
    Contestant { name: "load balancing", knows: "nothing", who: Who::Balance },
    Contestant { name: "packing", knows: "nothing", who: Who::Pack },
    Contestant { name: "least interference", knows: "true pairs", who: Who::LeastInterference },
    Contestant { name: "greedy", knows: "the truth", who: Who::Greedy(Known::Truth) },
    Contestant { name: "looking ahead", knows: "the truth", who: Who::Lookahead },
    Contestant { name: "playing on", knows: "the truth", who: Who::Rollout(Known::Truth) },
    Contestant { name: "greedy", knows: "learned speeds", who: Who::Greedy(Known::Model) },
    Contestant { name: "playing on", knows: "learned speeds", who: Who::Rollout(Known::Model) },
    Contestant { name: "learned policy", knows: "what it learned", who: Who::Learned },
];

/// A placer over all mixes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) placer: &'static str,
    pub(crate) knows: &'static str,
    /// Waiting included.
    pub(crate) mean_min: Interval,
    /// The same over that of the greedy rule that knows the truth, mix by mix.
    pub(crate) over_greedy: Interval,
    /// By which share of this placer's the learned policy's mean completion time is shorter, mix by mix.
    pub(crate) learned_gain: Interval,
    /// The completion time that one job in a hundred exceeds, over that of the greedy rule.
    pub(crate) p99_over_greedy: Interval,
    /// Speed of a job while it runs, in parts of that alone.
    pub(crate) speed: Interval,
}

/// How a mix went under a placer.
#[derive(Clone, Copy, Debug)]
struct Played {
    mean_ms: f64,
    p99_ms: f64,
    speed: f64,
}

impl Played {
    fn of(outcome: &Outcome) -> Self {
        Self { mean_ms: outcome.mean_ms(), p99_ms: outcome.p99_ms() as f64, speed: outcome.mean_speed() }
    }
}

impl Row {
    /// Cells of a table.
    pub(crate) fn cells(&self) -> [String; 7] {
        [
            self.placer.to_owned(),
            self.knows.to_owned(),
            format!("{} min", self.mean_min.said(1)),
            self.over_greedy.said(3),
            self.p99_over_greedy.said(2),
            self.speed.said(3),
            self.learned_gain.said(3),
        ]
    }
}

/// Headings of these cells.
pub(crate) const HEADINGS: [&str; 7] =
    ["PLACER", "KNOWS", ">MEAN COMPLETION", ">OVER GREEDY", ">P99 OVER GREEDY", ">SPEED", ">LEARNED IS SHORTER BY"];

/// Plays so many mixes, from that seed on, under every placer; `done` is called after each mix.
///
/// # Errors
/// [`Stuck`], where a placer leaves no room for a job.
pub(crate) fn compare(model: &Model, asked: &Mix, (seed, mixes): (u64, u64), done: &(dyn Fn() + Sync)) -> Result<Vec<Row>, Stuck> {
    let by_mix = on_all_cores(mixes, |at| {
        let played = play(model, asked, seed + at - 1);
        done();
        played
    });
    let by_mix = by_mix.into_iter().collect::<Result<Vec<_>, Stuck>>()?;
    let own = |at: usize| by_mix.iter().map(move |played| played[at]);
    let over = |at: usize, first: usize, value: fn(&Played) -> f64| interval(own(at).zip(own(first)).map(|(a, b)| value(&a) / value(&b)));
    let row = |(at, contestant): (usize, &Contestant)| Row {
        placer: contestant.name,
        knows: contestant.knows,
        mean_min: interval(own(at).map(|played| played.mean_ms / MINUTE_MS)),
        over_greedy: over(at, GREEDY, |played| played.mean_ms),
        learned_gain: interval(own(at).zip(own(LEARNED)).map(|(own, learned)| 1.0 - learned.mean_ms / own.mean_ms)),
        p99_over_greedy: over(at, GREEDY, |played| played.p99_ms),
        speed: interval(own(at).map(|played| played.speed)),
    };
    Ok(CONTESTANTS.iter().enumerate().map(row).collect())
}

/// One mix under every placer.
fn play(model: &Model, asked: &Mix, seed: u64) -> Result<[Played; CONTESTANTS.len()], Stuck> {
    let jobs = mix(asked, seed);
    let truth = Interference;
    let learned = Remembered::new(&model.speeds);
    let mut played = [Played { mean_ms: 0.0, p99_ms: 0.0, speed: 0.0 }; CONTESTANTS.len()];
    for (played, contestant) in played.iter_mut().zip(&CONTESTANTS) {
        let known = |known: Known| -> &dyn Speeds {
            match known {
                Known::Truth => &truth,
                Known::Model => &learned,
            }
        };
        let mut placer: Box<dyn Placer + '_> = match contestant.who {
            Who::Balance => Box::new(Balance),
            Who::Pack => Box::new(Pack),
            Who::LeastInterference => Box::new(LeastInterference::new(&truth)),
            Who::Greedy(speeds) => Box::new(Greedy::new(known(speeds))),
            Who::Lookahead => Box::new(Lookahead::new(&truth, WAYS)),
            Who::Rollout(speeds) => Box::new(Rollout::new(known(speeds), REACH, asked, seed)),
            Who::Learned => Box::new(model.policy.placer()),
        };
        *played = Played::of(&run(&jobs, asked.servers, &truth, placer.as_mut())?);
    }
    Ok(played)
}
