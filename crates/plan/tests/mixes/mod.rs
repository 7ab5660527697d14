//! Random mixes of jobs on links, and what four ways to run them take: for the test `turns` and the example `turns_mixes`.

use antiphase_plan::{
    Control, Coupled, Gates, Holding, LinkDemands, Member, Options, slot,
    turns::{self, Taking},
};
use circle::Phase;
use fluid::{
    Begin, FluidJob, FluidLink, TOLERANCE_PERMILLE, Trial, TrialTimes, jitter::JITTER_PERMILLE, predict_slots, predict_turns, turn_group,
};
use units::{LinkId, Nanos, Rate, Ticks};

/// Mbit/s.
const CAPACITY: u64 = 100_000;
const MS: u64 = 1_000_000;
/// Seeds that no choice has seen, and how many runs are judged by.
const JUDGE: Trial = Trial { jitter_permille: JITTER_PERMILLE, seed: 5_001, runs: 16, begin: Begin::Anywhere, way: fluid::TURN_WAY };

/// What is drawn: as `mixes_sim.py` of the probes.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) jobs: usize,
    pub(crate) links: usize,
    /// Mean share of an iteration in which a job sends, in thousandths.
    pub(crate) load: u64,
    /// Rates of which each job has one, in hundredths of a link.
    pub(crate) rates: &'static [u64],
    pub(crate) periods: Periods,
}

/// How long iterations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Periods {
    /// Equal or 1:2, to the nanosecond.
    Locked,
    /// The same within 1 %.
    Near,
    /// One of eleven from 80 to 640 ms, within 1 %.
    Any,
}

/// The probes' settings, and two whose periods lock to the nanosecond.
pub(crate) const SETTINGS: [Setting; 11] = [
    setting("4 on 4, locked", 4, 4, 300, &[100], Periods::Locked),
    setting("8 on 10, locked", 8, 10, 300, &[90], Periods::Locked),
    setting("4 on 4, near", 4, 4, 300, &[100], Periods::Near),
    setting("6 on 6, near", 6, 6, 300, &[60, 90], Periods::Near),
    setting("8 on 10, near", 8, 10, 300, &[90], Periods::Near),
    setting("10 on 12, near", 10, 12, 300, &[90], Periods::Near),
    setting("10 on 12, full", 10, 12, 450, &[90], Periods::Near),
    setting("4 on 4, any", 4, 4, 300, &[100], Periods::Any),
    setting("6 on 6, any", 6, 6, 300, &[60, 90], Periods::Any),
    setting("8 on 10, any", 8, 10, 300, &[90], Periods::Any),
    setting("10 on 12, any", 10, 12, 300, &[90], Periods::Any),
];

const fn setting(name: &'static str, jobs: usize, links: usize, load: u64, rates: &'static [u64], periods: Periods) -> Setting {
    Setting { name, jobs, links, load, rates, periods }
}

/// Iterations over iterations alone: (mean, worst), and the share of time above capacity where it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) mean: f64,
    pub(crate) worst: f64,
    pub(crate) overlap: f64,
    /// The job that is slowest beside itself with nobody held.
    pub(crate) slower: f64,
}

/// One mix, run in four ways.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judged {
    pub(crate) free: Cost,
    pub(crate) slots: Cost,
    pub(crate) everybody: Cost,
    pub(crate) chosen: Cost,
    /// What time alone did not choose, but quiet would.
    pub(crate) quiet: Option<Cost>,
    /// Pairs that take turns, of those that could.
    pub(crate) pairs: (usize, usize),
}

struct Mix {
    iterations: Vec<u64>,
    phases: Vec<[Phase; 1]>,
    /// Links of each job.
    on: Vec<Vec<usize>>,
    links: usize,
}

impl Mix {
    fn draw(setting: &Setting, seed: u64) -> Self {
        // The constants of Knuth's MMIX generator; the first draws are thrown away, because near seeds begin alike.
        let mut state = seed;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..8 {
            below(2);
        }
        let base = [100, 150, 250][below(3) as usize];
        let mut mix = Self { iterations: Vec::new(), phases: Vec::new(), on: Vec::new(), links: setting.links };
        for _ in 0..setting.jobs {
            let near = base * [1, 1, 2][below(3) as usize];
            let any = [80, 100, 130, 150, 180, 210, 260, 290, 340, 370, 640][below(11) as usize];
            let about = if setting.periods == Periods::Any { any } else { near } * MS;
            let iteration = if setting.periods == Periods::Locked { about } else { about / 1_000_000 * (990_000 + below(20_001)) };
            let share = (setting.load * (600 + below(801)) / 1_000).min(800);
            let rate = setting.rates[below(setting.rates.len() as u64) as usize] * CAPACITY / 100;
            let mut on = vec![below(setting.links as u64) as usize];
            let other = below(setting.links as u64) as usize;
            if below(2) == 0 && other != on[0] {
                on.push(other);
            }
            on.sort_unstable();
            mix.iterations.push(iteration);
            mix.phases.push([Phase { start: Ticks(0), end: Ticks(iteration * share / 1_000), rate: Rate(rate) }]);
            mix.on.push(on);
        }
        mix
    }

    fn demands(&self) -> Vec<LinkDemands> {
        let link = |l: &usize| (LinkId(*l as u32), 0);
        let demands =
            |(on, phases): (&Vec<usize>, &[Phase; 1])| LinkDemands { links: on.iter().map(link).collect(), demands: vec![phases.to_vec()] };
        self.on.iter().zip(&self.phases).map(demands).collect()
    }

    /// The mix as the fluid model takes it, whole: what the plan's own way to it leaves out would be found here.
    fn turns(&self, taking: &Taking, price: impl Fn(usize) -> u32) -> (Vec<f64>, f64) {
        let jobs = self.jobs(&self.iterations.iter().map(|i| Nanos(*i)).collect::<Vec<_>>(), &vec![Nanos(0); self.iterations.len()]);
        let links = self.links();
        let group = turn_group(&jobs, &links, &taking.opponents, price);
        self.over_alone(&predict_turns(&jobs, &links, &group, &[], JUDGE))
    }

    /// By the same runs, when these are held.
    fn slots(&self, periods: &[Nanos], shifts: &[Nanos], held: &[bool]) -> (Vec<f64>, f64) {
        self.over_alone(&predict_slots(&self.jobs(periods, shifts), &self.links(), TOLERANCE_PERMILLE, held, JUDGE))
    }

    fn jobs(&self, periods: &[Nanos], shifts: &[Nanos]) -> Vec<FluidJob> {
        let job = |((i, period), shift): ((&u64, &Nanos), &Nanos)| FluidJob { iteration: Nanos(*i), period: *period, shift: *shift };
        self.iterations.iter().zip(periods).zip(shifts).map(job).collect()
    }

    fn links(&self) -> Vec<FluidLink<'_>> {
        let on = |l: usize| (0..self.on.len()).filter(|j| self.on[*j].contains(&l)).map(|j| (j, &self.phases[j][..])).collect();
        (0..self.links).map(|l| FluidLink { capacity: Rate(CAPACITY), demands: on(l) }).collect()
    }

    fn over_alone(&self, seen: &TrialTimes) -> (Vec<f64>, f64) {
        (seen.times.iter().zip(&self.iterations).map(|(t, i)| t.0 as f64 / *i as f64).collect(), seen.overlap)
    }
}

fn cost(times: &[f64], overlap: f64, free: &[f64]) -> Cost {
    Cost {
        mean: times.iter().sum::<f64>() / times.len() as f64,
        worst: times.iter().copied().fold(0.0, f64::max),
        overlap,
        slower: times.iter().zip(free).map(|(t, f)| t / f).fold(0.0, f64::max),
    }
}

/// Draws a mix, chooses, and judges by other seeds.
pub(crate) fn judge(setting: &Setting, seed: u64, tried_max: usize) -> Judged {
    let mix = Mix::draw(setting, seed);
    let demands = mix.demands();
    let solos: Vec<Nanos> = mix.iterations.iter().map(|i| Nanos(*i)).collect();
    let periods = slot::periods(&solos, slot::HEADROOM_PERMILLE);
    let peaks: Vec<[u64; 1]> = mix.phases.iter().map(|p| [p[0].rate.0]).collect();
    let member = |j: usize| Member {
        iteration: solos[j],
        period: periods[j],
        gpus: 1,
        hold: job::Hold::Auto,
        demands: &demands[j],
        peaks: &peaks[j],
    };
    let members: Vec<Member<'_>> = (0..solos.len()).map(member).collect();
    let coupled = Coupled::new(&members, |_| CAPACITY).expect("invariant: the mix is within the limits of the circle");
    let advice = coupled.take_turns(JITTER_PERMILLE, turns::Limits::tried(tried_max));
    let standing = coupled.solve(&Options::default()).expect("invariant: the mix is within the limits of the solver");
    let gates = Gates {
        tolerance_permille: TOLERANCE_PERMILLE,
        jitter_permille: JITTER_PERMILLE,
        control: Control::Slots,
        limits: turns::Limits::tried(0),
        objective: turns::Objective::Time,
    };
    let (_, slots) = coupled.predict(&standing, gates, Holding::Advised(&[]));
    let (free, free_overlap) = mix.turns(&Taking::default(), |_| 1_000);
    let judged = |p: &turns::Predicted| {
        // A choice has one price for links that are alike; here each link has its own.
        let prices = coupled.exceeded(&standing).zip(&p.taking.price_permille);
        let prices: Vec<(u32, u32)> = prices.flat_map(|(e, price)| e.links.iter().map(|l| (l.0, *price))).collect();
        let price = |l: usize| prices.iter().find(|(link, _)| *link as usize == l).map_or(1_000, |(_, price)| *price);
        let (times, overlap) = mix.turns(&p.taking, price);
        cost(&times, overlap, &free)
    };
    let (slot_times, slot_overlap) = mix.slots(&periods, &standing.shifts, &slots.hold);
    let count = |t: &Taking| t.opponents.iter().map(Vec::len).sum::<usize>() / 2;
    Judged {
        free: cost(&free, free_overlap, &free),
        slots: cost(&slot_times, slot_overlap, &free),
        everybody: judged(&advice.everybody),
        chosen: judged(&advice.chosen),
        quiet: advice.quiet.as_ref().map(judged),
        pairs: (count(&advice.chosen.taking), count(&advice.everybody.taking)),
    }
}
