//! The slow, obvious answers: a walk over the LCM circle, tick by tick, and exhaustive search.
//!
//! Shares no code with the crate: it reads plain numbers and knows neither residues nor alignments.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

/// (start, end, rate).
pub type Phases = Vec<(u64, u64, u64)>;

/// A small instance in plain numbers.
#[derive(Clone, Debug)]
pub struct Instance {
    pub periods: Vec<u64>,
    /// (capacity, [(job, phases on that link)]).
    pub links: Vec<(u64, Vec<(usize, Phases)>)>,
}

pub fn lcm(a: u64, b: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    a / gcd(a, b) * b
}

fn demand(phases: &Phases, at: u64) -> u64 {
    phases.iter().find(|p| p.0 <= at && at < p.1).map_or(0, |p| p.2)
}

impl Instance {
    /// Score of one link: 1 - mean excess / capacity over every tick of the LCM circle (paper, equation 2).
    pub fn link_score(&self, link: usize, shifts: &[u64]) -> f64 {
        let (capacity, members) = &self.links[link];
        let perimeter = members.iter().fold(1, |l, m| lcm(l, self.periods[m.0]));
        let mut excess = 0_u128;
        for t in 0..perimeter {
            let sum: u64 = members
                .iter()
                .map(|(job, phases)| {
                    let period = self.periods[*job];
                    demand(phases, (t + period - shifts[*job] % period) % period)
                })
                .sum();
            excess += u128::from(sum.saturating_sub(*capacity));
        }
        1.0 - excess as f64 / (perimeter as f64 * *capacity as f64)
    }

    /// Mean score over the links that two or more jobs cross.
    pub fn mean(&self, shifts: &[u64]) -> f64 {
        let shared: Vec<usize> = (0..self.links.len()).filter(|&l| self.links[l].1.len() > 1).collect();
        if shared.is_empty() {
            return 1.0;
        }
        shared.iter().map(|&l| self.link_score(l, shifts)).sum::<f64>() / shared.len() as f64
    }

    /// The best mean score over all integer shifts, job 0 standing still.
    pub fn optimum(&self) -> f64 {
        let mut shifts = vec![0; self.periods.len()];
        let mut best = f64::NEG_INFINITY;
        loop {
            best = best.max(self.mean(&shifts));
            let mut j = 1;
            loop {
                if j >= shifts.len() || best >= 1.0 {
                    return best;
                }
                shifts[j] += 1;
                if shifts[j] < self.periods[j] {
                    break;
                }
                shifts[j] = 0;
                j += 1;
            }
        }
    }

    /// The score that an exhaustive 5-degree search reports for a single link (paper, equations 1 to 5).
    pub fn grid5(&self) -> f64 {
        let (capacity, members) = &self.links[0];
        let perimeter = members.iter().fold(1, |l, m| lcm(l, self.periods[m.0]));
        let waves: Vec<Vec<u64>> = members
            .iter()
            .map(|(job, phases)| (0..72).map(|k| demand(phases, k * perimeter / 72 % self.periods[*job])).collect())
            .collect();
        let ranges: Vec<usize> = members.iter().map(|(job, _)| (72 * self.periods[*job] as usize).div_ceil(perimeter as usize)).collect();
        let mut rotations = vec![0; members.len()];
        let mut best = u64::MAX;
        loop {
            let excess: u64 = (0..72)
                .map(|k| waves.iter().zip(&rotations).map(|(w, r)| w[(k + 72 - r) % 72]).sum::<u64>().saturating_sub(*capacity))
                .sum();
            best = best.min(excess);
            let mut j = 1;
            loop {
                if j >= rotations.len() || best == 0 {
                    return 1.0 - best as f64 / (72.0 * *capacity as f64);
                }
                rotations[j] += 1;
                if rotations[j] < ranges[j] {
                    break;
                }
                rotations[j] = 0;
                j += 1;
            }
        }
    }

    /// The affinity graph over shared links, unmerged, has a loop.
    pub fn has_loop(&self) -> bool {
        let jobs = self.periods.len();
        let mut root: Vec<usize> = (0..jobs + self.links.len()).collect();
        fn find(root: &mut [usize], mut v: usize) -> usize {
            while root[v] != v {
                v = root[v];
            }
            v
        }
        for (l, (_, members)) in self.links.iter().enumerate().filter(|l| l.1.1.len() > 1) {
            for (job, _) in members {
                let (a, b) = (find(&mut root, *job), find(&mut root, jobs + l));
                if a == b {
                    return true;
                }
                root[a] = b;
            }
        }
        false
    }

    /// The instance as a scenario document with ticks of one millisecond.
    pub fn scenario(&self) -> String {
        let links: Vec<String> =
            self.links.iter().enumerate().map(|(l, (c, _))| format!(r#"{{"id":"l{l}","capacity_mbps":{c}}}"#)).collect();
        let jobs: Vec<String> = (0..self.periods.len())
            .map(|j| {
                let on: Vec<(usize, &Phases)> = self
                    .links
                    .iter()
                    .enumerate()
                    .flat_map(|(l, (_, members))| members.iter().filter(|m| m.0 == j).map(move |m| (l, &m.1)))
                    .collect();
                let names: Vec<String> = on.iter().map(|(l, _)| format!(r#""l{l}""#)).collect();
                let demand: Vec<String> = on
                    .iter()
                    .map(|(l, phases)| {
                        let phases: Vec<String> =
                            phases.iter().map(|(s, e, r)| format!(r#"{{"start":{s},"end":{e},"rate_mbps":{r}}}"#)).collect();
                        format!(r#""l{l}":[{}]"#, phases.join(","))
                    })
                    .collect();
                format!(
                    r#"{{"id":"j{j}","period_ticks":{},"links":[{}],"demand":{{{}}}}}"#,
                    self.periods[j],
                    names.join(","),
                    demand.join(",")
                )
            })
            .collect();
        format!(r#"{{"schema":"antiphase.scenario/v1","tick_ns":1000000,"links":[{}],"jobs":[{}]}}"#, links.join(","), jobs.join(","))
    }
}

/// SplitMix64: the seed of a failing case is printed, and replays it.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `from..=to`.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.range(0, from.len() as u64 - 1) as usize]
    }

    /// Up to `phases_max` disjoint phases; may touch, may wrap nothing, may be empty.
    pub fn phases(&mut self, period: u64, phases_max: u64, rates: &[u64]) -> Phases {
        let mut cuts: Vec<u64> = (0..2 * self.range(0, phases_max)).map(|_| self.range(0, period)).collect();
        cuts.sort_unstable();
        let mut out: Phases = cuts.chunks(2).filter(|c| c[0] < c[1]).map(|c| (c[0], c[1], 0)).collect();
        for p in &mut out {
            p.2 = *self.pick(rates);
        }
        out
    }

    /// A random instance; loops, unequal periods, per-link demand, zero demand and jobs that
    /// alone exceed a link all occur.
    pub fn instance(&mut self, jobs_max: u64, links_max: u64, periods: &[u64]) -> Instance {
        let jobs = self.range(1, jobs_max) as usize;
        let periods: Vec<u64> = (0..jobs).map(|_| *self.pick(periods)).collect();
        let rates = [10, 20, 25, 40, 50, 60];
        let own: Vec<Phases> = periods.iter().map(|&t| self.phases(t, 3, &rates)).collect();
        let links = (0..self.range(1, links_max))
            .map(|_| {
                let mut members = Vec::new();
                for j in 0..jobs {
                    if self.range(0, 3) > 0 {
                        // Mostly the same demand everywhere, as for a ring.
                        let phases = if self.range(0, 3) > 0 { own[j].clone() } else { self.phases(periods[j], 2, &rates) };
                        members.push((j, phases));
                    }
                }
                (*self.pick(&[50, 50, 40]), members)
            })
            .collect();
        Instance { periods, links }
    }
}
