//! The fast obvious answers: each link's excess at every constellation of its jobs, walked once, tick by tick, and then looked up.
//!
//! Two facts make it fast, and neither needs the crate's mathematics. To turn all jobs of a link by the same amount changes
//! nothing, so one of them stands still. To delay a job by the LCM of the periods of all others is to turn everybody, so its
//! shift matters modulo the gcd of its own period and that LCM. All sums are integers: there is no rounding before the last
//! division.

use super::oracle::{Instance, Phases, lcm};

/// Most additions for the tables of one instance: a few milliseconds.
pub const WALK_MAX: u64 = 1 << 22;
/// Most assignments of shifts that are searched: with all partial sums pruned, a few milliseconds.
pub const ASSIGNMENTS_MAX: u64 = 1 << 18;
/// Greatest common denominator of the scores: so far below 2^64 that no sum of excesses overflows.
const DENOMINATOR_MAX: u64 = 1 << 48;

/// A job on a link.
#[derive(Clone, Debug)]
struct Seat {
    job: usize,
    /// Its shift against that of the link's first job matters modulo this.
    turn: u64,
    /// Distance in the table between two neighbouring shifts.
    stride: u64,
}

/// A link and its excess by the shifts of its jobs against the first.
#[derive(Clone, Debug)]
struct Table {
    seats: Vec<Seat>,
    excess: Vec<u32>,
    /// Excess that would be a score of zero: capacity times perimeter.
    full: u64,
    /// Loss of the mean score by one unit of excess, in units of the common denominator; 0 for a link of a single job.
    weight: u64,
}

/// All links of an instance, looked up.
#[derive(Clone, Debug)]
pub struct Fast {
    periods: Vec<u64>,
    tables: Vec<Table>,
    /// Jobs that are moved in a search, each with the number of shifts that matter and the links whose last job it is.
    free: Vec<(usize, u64, Vec<usize>)>,
    /// Cost at which the mean score is zero.
    scale: u64,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The jobs of a link with the number of shifts that matter, the one with the most first: it stands still.
fn seats(instance: &Instance, members: &[(usize, Phases)]) -> Vec<Seat> {
    let periods: Vec<u64> = members.iter().map(|m| instance.periods[m.0]).collect();
    let turn = |i: usize| {
        let others = periods.iter().enumerate().filter(|(other, _)| *other != i).fold(1, |all, (_, t)| lcm(all, *t));
        gcd(periods[i], others)
    };
    let mut seats: Vec<Seat> = members.iter().enumerate().map(|(i, m)| Seat { job: m.0, turn: turn(i), stride: 0 }).collect();
    seats.sort_by_key(|seat| std::cmp::Reverse(seat.turn));
    let mut stride = 1;
    for seat in seats.iter_mut().skip(1) {
        seat.stride = stride;
        stride = seat.turn.saturating_mul(stride);
    }
    seats
}

/// Demand by tick over the perimeter, twice: the wave delayed by `s` starts `s` ticks before the middle.
fn wave(period: u64, phases: &Phases, perimeter: u64) -> Vec<i32> {
    let at = |t: u64| phases.iter().find(|p| p.0 <= t && t < p.1).map_or(0, |p| p.2 as i32);
    let once: Vec<i32> = (0..period).map(at).collect();
    (0..2 * perimeter).map(|t| once[(t % period) as usize]).collect()
}

/// Fills the table from the last seat, whose stride is the longest, to the first.
fn fill(seats: &[Seat], waves: &[Vec<i32>], total: &[i32], at: u64, excess: &mut [u32]) {
    let perimeter = total.len();
    let Some((seat, others)) = seats.split_last().filter(|split| !split.1.is_empty()) else {
        excess[at as usize] = total.iter().map(|sum| (*sum).max(0) as u32).sum();
        return;
    };
    let wave = &waves[others.len()];
    for shift in 0..seat.turn {
        let delayed = &wave[perimeter - shift as usize % perimeter..][..perimeter];
        let at = at + shift * seat.stride;
        if others.len() == 1 {
            excess[at as usize] = total.iter().zip(delayed).map(|(sum, own)| (sum + own).max(0) as u32).sum();
        } else {
            let total: Vec<i32> = total.iter().zip(delayed).map(|(sum, own)| sum + own).collect();
            fill(others, waves, &total, at, excess);
        }
    }
}

impl Table {
    fn new(instance: &Instance, link: usize) -> Self {
        let (capacity, members) = &instance.links[link];
        let seats = seats(instance, members);
        let perimeter = members.iter().fold(1, |l, m| lcm(l, instance.periods[m.0]));
        let phases = |job: usize| members.iter().find(|m| m.0 == job).map(|m| &m.1);
        let waves: Vec<Vec<i32>> = seats
            .iter()
            .map(|seat| wave(instance.periods[seat.job], phases(seat.job).expect("invariant: seats are members"), perimeter))
            .collect();
        let size: u64 = seats.iter().skip(1).map(|seat| seat.turn).product();
        let mut excess = vec![0; size as usize];
        // The job that stands still, less the capacity.
        let still = |t: usize| waves.first().map_or(0, |w| w[t]) - *capacity as i32;
        let total: Vec<i32> = (0..perimeter as usize).map(still).collect();
        fill(&seats, &waves, &total, 0, &mut excess);
        Self { seats, excess, full: capacity * perimeter, weight: 0 }
    }

    fn excess(&self, shifts: &[u64]) -> u64 {
        let Some((still, others)) = self.seats.split_first() else { return 0 };
        let place = |seat: &Seat| (shifts[seat.job] as i64 - shifts[still.job] as i64).rem_euclid(seat.turn as i64) as u64 * seat.stride;
        u64::from(self.excess[others.iter().map(place).sum::<u64>() as usize])
    }
}

/// Assignments to search: jobs that may stand still (one of each set that meets), and the shifts of the others that matter.
fn free_jobs(instance: &Instance, tables: &[Vec<Seat>]) -> Vec<(usize, u64, Vec<usize>)> {
    let jobs = instance.periods.len();
    let mut turns = vec![1; jobs];
    // The first job of the set that each belongs to.
    let mut set: Vec<usize> = (0..jobs).collect();
    for seats in tables {
        for seat in seats {
            turns[seat.job] = lcm(turns[seat.job], seat.turn);
            let (a, b) = (set[seat.job], set[seats[0].job]);
            set.iter_mut().filter(|s| **s == a).for_each(|s| *s = b);
        }
    }
    let still: Vec<usize> =
        (0..jobs).filter_map(|s| (0..jobs).filter(|&j| set[j] == s).max_by_key(|&j| (turns[j], std::cmp::Reverse(j)))).collect();
    let mut free: Vec<(usize, u64, Vec<usize>)> = (0..jobs).filter(|j| !still.contains(j)).map(|j| (j, turns[j], vec![])).collect();
    for (link, seats) in tables.iter().enumerate().filter(|t| t.1.len() > 1) {
        if let Some(last) = free.iter_mut().rev().find(|f| seats.iter().any(|seat| seat.job == f.0)) {
            last.2.push(link);
        }
    }
    free
}

impl Fast {
    /// The tables and the search are short enough.
    pub fn fits(instance: &Instance) -> bool {
        Self::planned(instance).is_some()
    }

    /// The jobs to move, where the tables and the search are short enough.
    fn planned(instance: &Instance) -> Option<Vec<(usize, u64, Vec<usize>)>> {
        let periods = &instance.periods;
        // An LCM that is far too long is not needed further, and would overflow.
        let long = |all: u64, t: u64| if all.max(t) > WALK_MAX { all.max(t) } else { lcm(all, t) };
        let perimeters: Vec<u64> = instance.links.iter().map(|(_, on)| on.iter().fold(1, |l, m| long(l, periods[m.0]))).collect();
        if perimeters.iter().any(|p| *p > WALK_MAX) {
            return None;
        }
        let all: Vec<Vec<Seat>> = instance.links.iter().map(|(_, members)| seats(instance, members)).collect();
        let table = |(seats, perimeter): (&Vec<Seat>, &u64)| seats.iter().skip(1).fold(*perimeter, |w, seat| w.saturating_mul(seat.turn));
        let work = all.iter().zip(&perimeters).map(table).fold(0, u64::saturating_add);
        let free = free_jobs(instance, &all);
        let assignments = free.iter().fold(1_u64, |n, f| n.saturating_mul(f.1));
        (work <= WALK_MAX && assignments <= ASSIGNMENTS_MAX).then_some(free)
    }

    /// The tables, or nothing where they or the search would be too long.
    pub fn try_new(instance: &Instance) -> Option<Self> {
        let free = Self::planned(instance)?;
        let mut tables: Vec<Table> = (0..instance.links.len()).map(|link| Table::new(instance, link)).collect();
        let shared = tables.iter().filter(|t| t.seats.len() > 1);
        let denominator = shared.clone().try_fold(1_u64, |d, t| Some(lcm(d, t.full)).filter(|d| *d <= DENOMINATOR_MAX))?;
        let scale = denominator * (shared.count().max(1) as u64);
        for table in tables.iter_mut().filter(|t| t.seats.len() > 1) {
            table.weight = denominator / table.full;
        }
        Some(Self { periods: instance.periods.clone(), tables, free, scale })
    }

    /// Score of one link.
    pub fn link_score(&self, link: usize, shifts: &[u64]) -> f64 {
        let table = &self.tables[link];
        1.0 - table.excess(shifts) as f64 / table.full as f64
    }

    /// What the shifts lose, exactly.
    pub fn cost(&self, shifts: &[u64]) -> u64 {
        self.tables.iter().map(|t| t.weight * t.excess(shifts)).sum()
    }

    /// The mean score at that cost.
    pub fn mean_of(&self, cost: u64) -> f64 {
        1.0 - cost as f64 / self.scale as f64
    }

    /// The highest cost while one job drifts; once it has reached `enough` the rest is not looked at.
    pub fn worst(&self, shifts: &[u64], drift: u64, enough: u64) -> u64 {
        let mut worst = self.cost(shifts);
        let mut moved = shifts.to_vec();
        for job in 0..shifts.len() {
            let period = self.periods[job];
            for d in 0..(2 * drift + 1).min(period) {
                if worst >= enough {
                    return worst;
                }
                moved[job] = (shifts[job] + period * drift - drift + d) % period;
                worst = worst.max(self.cost(&moved));
            }
            moved[job] = shifts[job];
        }
        worst
    }

    /// The least cost below `limit`, with its shifts. `None`: no shifts at all cost less.
    pub fn best_below(&self, limit: u64) -> Option<(u64, Vec<u64>)> {
        let mut best = None;
        self.search(limit, &mut |cost, shifts| {
            best = Some((cost, shifts.to_vec()));
            cost
        });
        best
    }

    /// The least worst case below `limit`, with its shifts.
    pub fn best_worst_below(&self, limit: u64, drift: u64) -> Option<(u64, Vec<u64>)> {
        let (mut best, mut least) = (None, limit);
        self.search(limit, &mut |_, shifts| {
            let worst = self.worst(shifts, drift, least);
            if worst < least {
                least = worst;
                best = Some((worst, shifts.to_vec()));
            }
            // While nobody drifts it costs no more than the worst case, so what costs as much has no better one.
            least
        });
        best
    }

    /// Calls `visit` for every assignment that costs less than the limit; it returns the new limit.
    fn search(&self, limit: u64, visit: &mut dyn FnMut(u64, &[u64]) -> u64) {
        let mut shifts = vec![0; self.periods.len()];
        // Links of which nobody moves.
        let moving = |link: &usize| self.free.iter().any(|f| f.2.contains(link));
        let still = (0..self.tables.len()).filter(|l| !moving(l)).map(|l| self.tables[l].weight * self.tables[l].excess(&shifts)).sum();
        let mut limit = limit;
        self.descend(0, still, &mut shifts, &mut limit, visit);
    }

    fn descend(&self, depth: usize, cost: u64, shifts: &mut Vec<u64>, limit: &mut u64, visit: &mut dyn FnMut(u64, &[u64]) -> u64) {
        // What is left to add is not negative.
        if cost >= *limit {
            return;
        }
        let Some((job, turn, links)) = self.free.get(depth) else {
            *limit = visit(cost, shifts);
            return;
        };
        for shift in 0..*turn {
            shifts[*job] = shift;
            let added: u64 = links.iter().map(|&l| self.tables[l].weight * self.tables[l].excess(shifts)).sum();
            self.descend(depth + 1, cost + added, shifts, limit, visit);
        }
        shifts[*job] = 0;
    }
}
