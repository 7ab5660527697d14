//! What documents are drawn: each kind has its own way to be hard.

use antiphase_circle::Effort;

use super::{
    Case,
    fast::Fast,
    folded::FoldedLinks,
    oracle::{Instance, Phases, Random},
};

/// Draws of one document until it is small enough for its oracle; then the last one is taken as it is.
const DRAWS_MAX: u64 = 200;
/// Periods of which some pairs have no common factor, and a third couples them.
const COUPLED: [&[u64]; 18] = [
    &[10, 2, 5],
    &[6, 2, 3],
    &[14, 33, 21],
    &[12, 4, 9],
    &[12, 4, 3],
    &[15, 3, 5, 10],
    &[30, 6, 10, 15],
    &[20, 4, 5],
    &[20, 4, 10, 5],
    &[18, 2, 9],
    &[24, 8, 3],
    &[30, 2, 3, 5],
    &[10, 2, 5, 5],
    &[12, 4, 3, 6],
    &[36, 4, 9],
    &[28, 4, 7],
    &[6, 10, 15],
    &[6, 2, 3, 3, 2],
];
/// Periods as they are measured, in microseconds: some equal, one off by a tick, one half, and some of no relation.
const MEASURED: [u64; 8] = [250_000, 250_000, 250_000, 249_999, 250_001, 243_119, 251_003, 125_000];

/// Round periods in microseconds: their common factors are long.
const ROUND: [u64; 5] = [100_000, 120_000, 150_000, 200_000, 250_000];

/// Range of measured periods in nanoseconds: 20 ms to 30 s. Three such periods without a large common factor have an LCM of 2^73 or more.
const NANOSECONDS: (u64, u64) = (20_000_000, 30_000_000_000);
/// The same where it takes five or six jobs to get beyond 64 bits, and where a shared factor is felt in a score.
const TICKS: (u64, u64) = (2_000, 200_000);

/// Among so many documents of all kinds one has a long LCM, and another one loose jobs.
const LONG_EVERY: u64 = 64;
/// Round periods beside loose ones, in microseconds, and what these share with them.
const TIGHT: [u64; 4] = [60_000, 120_000, 250_000, 336_000];
const SHARED: [u64; 5] = [2, 4, 6, 10, 12];

/// A family of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Everything that a document may hold, in small.
    Plain,
    /// Pairs of periods with gcd 1, coupled by a third.
    Gcd1,
    /// Equal and harmonic periods.
    Equal,
    /// Equal periods beside some that are off by a little.
    Measured,
    /// Several levels per job, some above the capacity.
    Levels,
    /// Measured periods, equal ones among them, of an LCM that 64 bits do not hold.
    LongLcm,
    /// Equal and harmonic periods beside measured ones that share a few ticks with them, so that a common circle is long.
    Loose,
}

impl Kind {
    pub const ALL: [Self; 7] = [Self::Plain, Self::Gcd1, Self::Equal, Self::Measured, Self::Levels, Self::LongLcm, Self::Loose];

    /// The kind of the document of that number where none is asked for. The kinds take turns; solves of a long LCM and of loose jobs are a
    /// hundred times longer than others, so there is one of each in [`LONG_EVERY`].
    pub const fn of(number: u64) -> Self {
        const SHORT: usize = Kind::ALL.len() - 2;
        match number % LONG_EVERY {
            31 => Self::Loose,
            63 => Self::LongLcm,
            _ => Self::ALL[(number % SHORT as u64) as usize],
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gcd1 => "gcd1",
            Self::Equal => "equal",
            Self::Measured => "measured",
            Self::Levels => "levels",
            Self::LongLcm => "long-lcm",
            Self::Loose => "loose",
        }
    }
}

/// The document of that number; the same seed and number give the same document.
pub fn draw(kind: Kind, seed: u64, number: u64) -> Case {
    let mut random = Random(Random(seed).next() ^ number.wrapping_mul(0x9e6c_63d0_876a_9a35));
    let instance = instance(kind, &mut random);
    let current = instance.periods.iter().map(|&t| (random.range(0, 3) > 0).then(|| random.range(0, t - 1))).collect::<Vec<Option<u64>>>();
    let evaluated = instance.periods.iter().map(|&t| random.range(0, t - 1)).collect();
    let period = *random.pick(&instance.periods);
    let drift = random.range(1, (period / 4).max(1));
    // Drawn, not counted: the kinds take turns, and would share a rhythm with a count.
    // Jobs of measured periods may take all the work of a thorough search, and five nearly always do.
    let fast = match (kind, instance.periods.len()) {
        (Kind::LongLcm | Kind::Loose, 5..) => 15,
        (Kind::LongLcm | Kind::Loose, _) => 8,
        _ => 4,
    };
    let effort = if random.range(0, 15) < fast { Effort::Fast } else { Effort::Thorough };
    let robust = (random.range(0, 3) == 0).then_some(drift);
    let current = (random.range(0, 7) == 0).then_some(current);
    Case { instance, effort, robust, current, evaluated }
}

fn instance(kind: Kind, random: &mut Random) -> Instance {
    let long = kind == Kind::Measured && random.range(0, 3) == 0;
    let fits = |drawn: &Instance| match kind {
        Kind::LongLcm => is_beyond_64_bits(drawn) && FoldedLinks::fits(drawn),
        Kind::Loose => FoldedLinks::fits(drawn),
        Kind::Measured if long => FoldedLinks::fits(drawn),
        _ => Fast::fits(drawn),
    };
    let mut drawn = instance_once(kind, long, random);
    for _ in 1..DRAWS_MAX {
        if fits(&drawn) {
            break;
        }
        drawn = instance_once(kind, long, random);
    }
    drawn
}

/// Whether the periods of some link have an LCM of more than 64 bits.
pub fn is_beyond_64_bits(instance: &Instance) -> bool {
    // Beyond 64 bits no further period is needed, and 128 bits hold the product of two numbers of 64.
    let joined = |all: u128, t: u64| if all > u128::from(u64::MAX) { all } else { u128::from(missing_factor(all as u64, t)) * all };
    instance.links.iter().any(|(_, on)| on.iter().fold(1, |all, m| joined(all, instance.periods[m.0])) > u128::from(u64::MAX))
}

/// What of `t` is not in `all` yet: the factor by which the LCM grows.
fn missing_factor(all: u64, t: u64) -> u64 {
    let (mut a, mut b) = (all, t);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    t / a
}

fn instance_once(kind: Kind, long: bool, random: &mut Random) -> Instance {
    match kind {
        Kind::Plain => plain(random),
        Kind::Gcd1 => gcd1(random),
        Kind::Equal => equal(random),
        Kind::Measured if long => measured_real(random),
        Kind::Measured => measured_small(random),
        Kind::Levels => levels(random),
        Kind::LongLcm => long_lcm(random),
        Kind::Loose => loose(random),
    }
}

/// Which jobs are on which links: one link, a chain, a ring, or by chance.
fn seats(random: &mut Random, jobs: usize, links_max: u64) -> Vec<Vec<usize>> {
    match random.range(0, 3) {
        0 => vec![(0..jobs).collect()],
        1 => (1..jobs).take(links_max as usize).map(|j| vec![j - 1, j]).collect(),
        2 if jobs > 2 => (0..jobs).take(links_max as usize).map(|j| vec![j, (j + 1) % jobs]).collect(),
        _ => (0..random.range(1, links_max)).map(|_| (0..jobs).filter(|_| random.range(0, 3) > 0).collect()).collect(),
    }
}

/// Links that carry those demands: mostly the same of a job everywhere.
fn links(
    random: &mut Random,
    periods: &[u64],
    links_max: u64,
    capacities: &[u64],
    demand: impl Fn(&mut Random, u64) -> Phases,
) -> Instance {
    let own: Vec<Phases> = periods.iter().map(|&t| demand(random, t)).collect();
    let seats = seats(random, periods.len(), links_max);
    let same = random.range(0, 2) > 0;
    let links = seats.into_iter().map(|jobs| {
        let phases = |random: &mut Random, j: usize| if same { own[j].clone() } else { demand(random, periods[j]) };
        (*random.pick(capacities), jobs.into_iter().map(|j| (j, phases(random, j))).collect())
    });
    let links = links.collect();
    Instance { periods: periods.to_vec(), links }
}

/// A burst somewhere, of at most that many of the period's tenths.
fn burst(random: &mut Random, period: u64, tenths: u64, rates: &[u64]) -> Phases {
    let length = random.range(1, (period * tenths / 10).max(1));
    let start = random.range(0, period - length);
    vec![(start, start + length, *random.pick(rates))]
}

/// Phases of any shape: none, all the period, touching ones, ones that meet around the end of the period, or by chance.
fn shape(random: &mut Random, period: u64, rates: &[u64]) -> Phases {
    let mut rate = || *random.pick(rates);
    let (first, second) = (rate(), rate());
    let a = random.range(0, period - 1);
    let b = random.range(a + 1, period);
    match random.range(0, 11) {
        0 => vec![],
        1 => vec![(0, period, first)],
        2 if a > 0 && b < period => vec![(0, a, first), (b, period, second)],
        3 if a > 0 => vec![(0, a, first), (a, b, second)],
        4 if b < period => vec![(a, b, first), (b, period, second)],
        5..=8 => burst(random, period, 8, rates),
        _ => random.phases(period, 3, rates),
    }
}

fn plain(random: &mut Random) -> Instance {
    let pools: [&[u64]; 5] =
        [&[2, 3, 4, 5, 6, 8, 9, 10, 12, 15], &[2, 3, 5, 7, 11], &[4, 8, 16, 2], &[6, 10, 12, 15, 20], &[12, 18, 20, 24, 30, 36]];
    let pool = random.pick(&pools);
    let jobs = random.range(2, 6);
    let periods: Vec<u64> = (0..jobs).map(|_| *random.pick(pool)).collect();
    links(random, &periods, 4, &[10, 10, 7, 12], |random, t| shape(random, t, &[3, 4, 5, 6, 7, 10, 12, 15]))
}

fn gcd1(random: &mut Random) -> Instance {
    let mut periods = random.pick(&COUPLED).to_vec();
    // Longer phases of the same periods.
    let factor = *random.pick(&[1, 1, 1, 2, 3]);
    periods.iter_mut().for_each(|t| *t *= factor);
    // The order of jobs decides the order of searches.
    for i in (1..periods.len()).rev() {
        periods.swap(i, random.range(0, i as u64) as usize);
    }
    if random.range(0, 5) == 0 {
        let again = *random.pick(&periods);
        periods.push(again);
    }
    let single = random.range(0, 1) == 0;
    let mut drawn = links(random, &periods, 3, &[10], |random, t| match random.range(0, 3) {
        0 => random.phases(t, 2, &[4, 5, 7, 10, 12]),
        _ => burst(random, t, 7, &[4, 5, 7, 10, 10, 12]),
    });
    if single {
        drawn.links.truncate(1);
        let (_, members) = &mut drawn.links[0];
        for (j, &period) in periods.iter().enumerate() {
            if members.iter().all(|m| m.0 != j) {
                members.push((j, burst(random, period, 6, &[5, 7, 10])));
            }
        }
    }
    drawn
}

fn equal(random: &mut Random) -> Instance {
    let jobs = random.range(3, 6);
    // Long ones are mostly for three jobs: of more, the document would be drawn again.
    let base = *random.pick(&[6, 7, 8, 9, 10, 11, 12, 12, 20, 36]);
    let harmonic = random.range(0, 1) == 0;
    let period = |random: &mut Random| if harmonic { *random.pick(&[12, 12, 6, 4, 3]) } else { base };
    let periods: Vec<u64> = (0..jobs).map(|_| period(random)).collect();
    let one = *random.pick(&[30, 40, 50, 70]);
    match random.range(0, 2) {
        // All of one rate: how many fit at once decides.
        0 => links(random, &periods, 3, &[100], |random, t| burst(random, t, 6, &[one])),
        1 => links(random, &periods, 3, &[100], |random, t| burst(random, t, 6, &[30, 40, 50, 70])),
        _ => links(random, &periods, 3, &[100], |random, t| random.phases(t, 2, &[30, 40, 50, 70])),
    }
}

fn measured_small(random: &mut Random) -> Instance {
    let period = *random.pick(&[12, 15, 16, 20, 24, 30, 36, 60]);
    let mut periods = vec![period; random.range(2, 3) as usize];
    for _ in 0..random.range(1, 3) {
        periods.push(*random.pick(&[period - 1, period + 1, 2 * period - 1, period / 2]));
    }
    links(random, &periods, 2, &[10], |random, t| match random.range(0, 2) {
        0 => random.phases(t, 2, &[4, 5, 7, 10]),
        _ => burst(random, t, 5, &[5, 7, 10, 12]),
    })
}

fn measured_real(random: &mut Random) -> Instance {
    let jobs = random.range(2, 4);
    let pools: [&[u64]; 3] = [&MEASURED, &MEASURED, &ROUND];
    let pool = random.pick(&pools);
    let periods: Vec<u64> = (0..jobs).map(|_| *random.pick(pool)).collect();
    links(random, &periods, 2, &[100], |random, t| match random.range(0, 2) {
        0 => random.phases(t, 2, &[25, 40, 50, 70, 100]),
        _ => burst(random, t, 5, &[40, 50, 70, 100, 120]),
    })
}

fn levels(random: &mut Random) -> Instance {
    let jobs = random.range(2, 5);
    let pools: [&[u64]; 5] = [&[6, 8, 12], &[7, 9, 10, 12], &[12], &[12, 16, 18, 24], &[15, 20, 24, 30]];
    let pool = random.pick(&pools);
    let periods: Vec<u64> = (0..jobs).map(|_| *random.pick(pool)).collect();
    // Sums of the rates miss the capacity, or meet it exactly, or one rate alone is above it.
    let rates: [&[u64]; 4] = [&[4, 8, 12, 16], &[1, 2, 3, 5, 8, 13], &[3, 6, 9], &[11, 12, 20]];
    let rates = *random.pick(&rates);
    let staircase = |random: &mut Random, t: u64| -> Phases {
        let mut cuts: Vec<u64> = (0..random.range(2, 6)).map(|_| random.range(0, t)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let step = |c: &[u64], random: &mut Random| (random.range(0, 5) > 0).then(|| (c[0], c[1], *random.pick(rates)));
        cuts.windows(2).filter_map(|c| step(c, random)).collect()
    };
    links(random, &periods, 3, &[10, 7, 13], staircase)
}

/// Two to six different periods of three to six jobs on one or two links; a factor in common is small, or that of a coarser clock.
fn long_lcm(random: &mut Random) -> Instance {
    let jobs = random.range(3, 6);
    let (shortest, longest) = if jobs > 4 && random.range(0, 2) == 0 { TICKS } else { NANOSECONDS };
    // A period as a clock of nanoseconds measures it, or one of ten or of a thousand.
    let clock = *random.pick(&[1, 1, 1, 10, 1_000]);
    let measured = |random: &mut Random| {
        // As many short ones as long ones, up to eight times the shortest or all the way.
        let most = if random.range(0, 1) == 0 { 8 * shortest } else { longest };
        random.range(shortest / clock, most / clock) * clock
    };
    let different = if longest == TICKS.1 { random.range(4, jobs) } else { random.range(2, jobs.min(4)) };
    let mut periods: Vec<u64> = (0..different).map(|_| measured(random)).collect();
    while (periods.len() as u64) < jobs {
        // Equal ones, and now and then one of half or twice the period.
        let like = *random.pick(&periods);
        periods.push(*random.pick(&[like, like, like, 2 * like, (like / 2).max(1)]));
    }
    let demand = |random: &mut Random, t: u64| match random.range(0, 3) {
        0 => random.phases(t, 2, &[25, 40, 50, 70, 100]),
        _ => burst(random, t, 6, &[40, 50, 70, 100, 120]),
    };
    let own: Vec<Phases> = periods.iter().map(|&t| demand(random, t)).collect();
    let everybody: Vec<usize> = (0..periods.len()).collect();
    let some: Vec<usize> = everybody.iter().copied().filter(|_| random.range(0, 1) == 0).collect();
    // Half of the documents have a second link, which closes loops.
    let seats = if random.range(0, 1) == 0 { vec![everybody] } else { vec![everybody, some] };
    let link = |jobs: Vec<usize>| (100, jobs.into_iter().map(|j| (j, own[j].clone())).collect());
    Instance { links: seats.into_iter().map(link).collect(), periods }
}

/// Two to four jobs of one period, its half or its double, and one to three of measured periods that share a few ticks with it, on one link
/// or two.
fn loose(random: &mut Random) -> Instance {
    let base = *random.pick(&TIGHT);
    let tight = random.range(2, 4);
    let mut periods: Vec<u64> = (0..tight).map(|_| *random.pick(&[base, base, base, 2 * base, base / 2])).collect();
    for _ in 0..random.range(1, 3) {
        // Now and then one more of the same: these two lock with each other, and hardly with the others.
        let shared = *random.pick(&SHARED);
        let measured = random.range(base / 2, 2 * base) / shared * shared + shared;
        periods.extend(core::iter::repeat_n(measured, random.range(1, 5).div_ceil(4) as usize));
    }
    let demand = |random: &mut Random, t: u64| match random.range(0, 2) {
        0 => random.phases(t, 4, &[25, 40, 50, 70, 100]),
        1 => random.phases(t, 2, &[25, 50, 100]),
        _ => burst(random, t, 6, &[25, 40, 50, 70, 100, 120]),
    };
    let own: Vec<Phases> = periods.iter().map(|&t| demand(random, t)).collect();
    let everybody: Vec<usize> = (0..periods.len()).collect();
    let some: Vec<usize> = everybody.iter().copied().filter(|_| random.range(0, 1) == 0).collect();
    let seats = if random.range(0, 1) == 0 { vec![everybody] } else { vec![everybody, some] };
    let link = |jobs: Vec<usize>| (100, jobs.into_iter().map(|j| (j, own[j].clone())).collect());
    Instance { links: seats.into_iter().map(link).collect(), periods }
}
