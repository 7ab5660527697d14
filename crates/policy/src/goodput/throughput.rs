//! How long an iteration takes (Pollux, section 3.2, equations 8 to 11).

/// What sending takes at least, where there is nobody to send to; the fit works with logarithms.
const NOTHING_S: f64 = 1e-8;

/// What each replica computes in an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batch {
    /// Samples in one pass of a replica.
    pub samples: u32,
    /// Passes whose gradients are added up before replicas send.
    pub passes: u32,
}

impl Batch {
    /// Samples of all replicas.
    #[must_use]
    pub fn total(self, replicas: u32) -> u64 {
        u64::from(self.samples) * u64::from(self.passes) * u64::from(replicas)
    }
}

/// How a job stands: replicas, each on one GPU, on some nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout {
    /// Nodes.
    pub nodes: u32,
    /// Replicas on all of them.
    pub replicas: u32,
}

/// Where the replicas of a layout send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Alone,
    WithinNode,
    AcrossNodes,
}

impl Layout {
    pub(super) fn reach(self) -> Reach {
        match (self.nodes, self.replicas) {
            (2.., _) => Reach::AcrossNodes,
            (_, 2..) => Reach::WithinNode,
            _ => Reach::Alone,
        }
    }

    /// Replicas beyond two, each of which makes a ring longer.
    pub(super) fn beyond_two(self) -> f64 {
        f64::from(self.replicas.saturating_sub(2)).max(NOTHING_S)
    }
}

/// What an iteration takes on one type of GPU: the parameters of Pollux under their published names. Seconds, and seconds a sample or a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Computing one pass, whatever its samples.
    pub alpha_c: f64,
    /// Computing each sample of a replica.
    pub beta_c: f64,
    /// Sending between nodes.
    pub alpha_n: f64,
    /// The same for each replica beyond two.
    pub beta_n: f64,
    /// Sending within a node.
    pub alpha_r: f64,
    /// The same for each replica beyond two.
    pub beta_r: f64,
    /// How far sending hides behind computing: 1 not at all, 10 nearly the longer of the two.
    pub gamma: f64,
}

impl Throughput {
    /// Computing one pass of some samples of a replica, in seconds.
    #[must_use]
    pub fn pass_s(&self, samples: u32) -> f64 {
        self.alpha_c + self.beta_c * f64::from(samples)
    }

    /// Sending once, in seconds. It is what the job measured: there is no term for a link that others use.
    #[must_use]
    pub fn sync_s(&self, layout: Layout) -> f64 {
        let (alpha, beta) = match layout.reach() {
            Reach::AcrossNodes => (self.alpha_n, self.beta_n),
            Reach::WithinNode => (self.alpha_r, self.beta_r),
            Reach::Alone => (NOTHING_S, NOTHING_S),
        };
        alpha + beta * layout.beyond_two()
    }

    /// One iteration, in seconds: passes that only compute, and one that also sends.
    #[must_use]
    pub fn iteration_s(&self, layout: Layout, batch: Batch) -> f64 {
        self.iteration_with(self.sync_s(layout), batch)
    }

    /// The same where sending takes this many seconds.
    #[must_use]
    pub fn iteration_with(&self, sync_s: f64, batch: Batch) -> f64 {
        let pass_s = self.pass_s(batch.samples);
        f64::from(batch.passes.saturating_sub(1)) * pass_s + together(pass_s, sync_s, self.gamma)
    }

    /// Samples a second of all replicas.
    #[must_use]
    pub fn samples_per_s(&self, layout: Layout, batch: Batch) -> f64 {
        batch.total(layout.replicas) as f64 / self.iteration_s(layout, batch)
    }
}

/// (a^gamma + b^gamma)^(1/gamma), without numbers that are too large or too small.
pub(super) fn together(a: f64, b: f64, gamma: f64) -> f64 {
    let (less, more) = if a < b { (a, b) } else { (b, a) };
    if more <= 0.0 {
        return 0.0;
    }
    // At either end nothing has to be raised: the sum, or a share too small to be seen in a float.
    if gamma <= 1.0 {
        return less + more;
    }
    let share = libm::pow(less / more, gamma);
    if share < f64::EPSILON { more } else { more * libm::pow(1.0 + share, 1.0 / gamma) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Throughput = Throughput { alpha_c: 0.1, beta_c: 0.01, alpha_n: 0.5, beta_n: 0.02, alpha_r: 0.2, beta_r: 0.01, gamma: 1.0 };

    #[test]
    fn an_iteration_adds_up() {
        let batch = Batch { samples: 10, passes: 3 };
        // A pass takes 0.1 + 10 * 0.01 = 0.2 s; three of them 0.6 s. Four replicas on two nodes send for 0.5 + 2 * 0.02 = 0.54 s.
        let across = KNOWN.iteration_s(Layout { nodes: 2, replicas: 4 }, batch);
        assert!((across - 1.14).abs() < 1e-12, "{across}");
        // 4 replicas of 3 passes of 10 samples in 1.14 s.
        assert!((KNOWN.samples_per_s(Layout { nodes: 2, replicas: 4 }, batch) - 120.0 / 1.14).abs() < 1e-9);
        // On one node they send for 0.2 + 2 * 0.01 = 0.22 s, and one replica sends nothing.
        assert!((KNOWN.iteration_s(Layout { nodes: 1, replicas: 4 }, batch) - 0.82).abs() < 1e-12);
        assert!((KNOWN.iteration_s(Layout { nodes: 1, replicas: 1 }, batch) - 0.6).abs() < 1e-7);
    }

    #[test]
    fn overlap_lies_between_the_sum_and_the_longer() {
        for gamma in [1.0, 1.5, 2.0, 5.0, 10.0] {
            let time = together(3.0, 4.0, gamma);
            assert!((4.0..=7.0).contains(&time), "{gamma}: {time}");
        }
        assert!((together(3.0, 4.0, 2.0) - 5.0).abs() < 1e-12, "3, 4, 5");
        assert!((together(4.0, 3.0, 2.0) - 5.0).abs() < 1e-12, "and the other way round");
    }
}
