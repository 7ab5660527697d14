//! Makes jobs, links and fabrics of our own, with true scores and shifts that help.

use crate::{
    demand::{Demand, Total, common_perimeter},
    view::{FabricView, JobView, LinkView, MapLinkView, MemberView, NodeView, PhaseView},
};

pub(super) const MS: u64 = 1_000_000;

/// A job by name, period in ms, and Up phases in ms and Mbit/s.
pub(super) type Spec<'a> = (&'a str, u64, &'a [(u64, u64, u64)]);

fn demands(jobs: &[JobView], link: &LinkView, shifted: bool) -> Vec<Demand> {
    let of = |m: &MemberView| {
        let job = &jobs[m.job];
        Demand::new(&m.phases, job.period_ns, if shifted { job.shift_ns } else { 0 })
    };
    link.members.iter().map(of).collect()
}

/// 1 - mean excess / capacity over the LCM, or over 200 periods where that is long.
pub(super) fn score(jobs: &[JobView], link: &LinkView, shifted: bool) -> f64 {
    let periods = link.members.iter().map(|m| jobs[m.job].period_ns);
    let window = common_perimeter(periods.clone(), 64).unwrap_or_else(|| periods.max().unwrap_or(1) * 200);
    let total = Total::of(&demands(jobs, link, shifted), link.capacity_mbps, window, u64::MAX);
    let capacity = link.capacity_mbps as f64;
    let excess = total.steps.iter().map(|s| (s.mean_mbps - capacity).max(0.0) * (s.end_ns - s.start_ns) as f64);
    1.0 - excess.sum::<f64>() / (window as f64 * capacity)
}

/// One link that all jobs cross, shifted by coordinate descent in steps of `step_ms`.
pub(super) fn one_link(name: &str, capacity_mbps: u64, specs: &[Spec<'_>], step_ms: u64) -> (Vec<JobView>, LinkView) {
    let mut jobs: Vec<JobView> =
        specs.iter().map(|(name, period, _)| JobView { name: (*name).to_owned(), period_ns: period * MS, ..JobView::default() }).collect();
    let member = |(job, spec): (usize, &Spec<'_>)| MemberView {
        job,
        phases: spec.2.iter().map(|&(start, end, mbps)| PhaseView { start_ns: start * MS, end_ns: end * MS, mbps }).collect(),
    };
    let mut link =
        LinkView { name: name.to_owned(), capacity_mbps, members: specs.iter().enumerate().map(member).collect(), ..LinkView::default() };
    for _ in 0..2 {
        for at in 1..jobs.len() {
            let mut best = (f64::MIN, 0);
            for shift in (0..jobs[at].period_ns).step_by((step_ms * MS) as usize) {
                jobs[at].shift_ns = shift;
                let found = score(&jobs, &link, true);
                if found > best.0 + 1e-12 {
                    best = (found, shift);
                }
            }
            jobs[at].shift_ns = best.1;
        }
    }
    (link.zero_shift_score, link.score) = (score(&jobs, &link, false), score(&jobs, &link, true));
    for (at, job) in jobs.iter_mut().enumerate() {
        job.slack_ns = Some((at as u64 * 3 + 2) * MS);
        job.solo_ns = Some(job.period_ns * 94 / 100);
        job.contended_ns = Some(job.period_ns * 12 / 10);
        job.turns_ns = Some(job.period_ns);
        job.interleaved_ns = job.turns_ns;
    }
    let over = quantity_words(&link);
    link.explanation = format!("{} jobs cross this link. {over}", jobs.len());
    (jobs, link)
}

fn quantity_words(link: &LinkView) -> String {
    if link.score >= 1.0 - 1e-9 {
        "Their Up phases fit side by side once shifted, so the link is never over capacity.".to_owned()
    } else {
        "Their mean demand leaves too little room for every Up phase to be alone; the shifts spread what remains.".to_owned()
    }
}

/// Two VGG16 of 255 ms, Up for 114 ms, and the shift that parts them in the middle of its plateau.
pub(super) fn two_vgg() -> (Vec<JobView>, LinkView) {
    let up = [(141, 255, 45_000)];
    let (mut jobs, mut link) = one_link("leaf2->spine1", 50_000, &[("vgg16-a", 255, &up), ("vgg16-b", 255, &up)], 5);
    // The Up phases leave 27 ms free; 127 ms puts 13 and 14 of them on either side.
    jobs[1].shift_ns = 127 * MS;
    jobs[0].slack_ns = Some(13 * MS);
    jobs[1].slack_ns = Some(13 * MS);
    link.score = score(&jobs, &link, true);
    (jobs, link)
}

/// The periods of the paper's figure 5; the widths are ours.
pub(super) fn forty_and_sixty() -> (Vec<JobView>, LinkView) {
    one_link("tor1->agg1", 50_000, &[("j1 (40 ms)", 40, &[(0, 10, 50_000)]), ("j2 (60 ms)", 60, &[(0, 10, 50_000)])], 5)
}

pub(super) fn three() -> (Vec<JobView>, LinkView) {
    let specs: [Spec<'_>; 3] = [
        ("vgg19-1400", 280, &[(150, 280, 42_000)]),
        ("vgg16-1700", 280, &[(160, 280, 40_000)]),
        ("resnet50-1600", 140, &[(100, 140, 22_000)]),
    ];
    one_link("leaf3->spine1", 50_000, &specs, 5)
}

pub(super) fn five() -> (Vec<JobView>, LinkView) {
    let gpt: [(u64, u64, u64); 6] =
        [(10, 60, 30_000), (90, 120, 18_000), (160, 210, 45_000), (240, 270, 18_000), (310, 360, 30_000), (390, 470, 50_000)];
    let specs: [Spec<'_>; 5] = [
        ("gpt3-hybrid", 600, &gpt),
        ("bert-8", 200, &[(120, 200, 25_000)]),
        ("vgg19-1400", 300, &[(150, 280, 42_000)]),
        ("dlrm-512", 150, &[(90, 140, 20_000)]),
        ("roberta-12", 200, &[(110, 190, 15_000)]),
    ];
    one_link("leaf7->spine2", 100_000, &specs, 10)
}

pub(super) fn twelve() -> (Vec<JobView>, LinkView) {
    let names: Vec<String> = (0..12).map(|n| format!("job-{:02}-{}", n + 1, ["bert", "vgg16", "resnet50", "dlrm"][n % 4])).collect();
    let periods = [300, 150, 100, 300, 150, 300, 100, 300, 150, 300, 300, 100];
    let phases: Vec<[(u64, u64, u64); 1]> = (0..12_u64)
        .map(|n| {
            let period = periods[n as usize];
            [(period / 2, period / 2 + 30 + (n % 4) * 5, 60_000 + 10_000 * (n % 5))]
        })
        .collect();
    let specs: Vec<Spec<'_>> = (0..12).map(|n| (names[n].as_str(), periods[n], &phases[n][..])).collect();
    one_link("spine4->core2", 400_000, &specs, 10)
}

/// Periods that do not lock.
pub(super) fn unlocked() -> (Vec<JobView>, LinkView) {
    let specs: [Spec<'_>; 3] =
        [("vgg16", 199, &[(90, 199, 40_000)]), ("bert", 200, &[(110, 200, 30_000)]), ("xlm", 251, &[(200, 251, 35_000)])];
    one_link("leaf9->spine2", 50_000, &specs, 20)
}

/// A fabric of hosts and switches, cables in both directions.
#[derive(Default)]
pub(super) struct Weaver(pub(super) FabricView);

impl Weaver {
    pub(super) fn node(&mut self, tier: u8, name: String) -> usize {
        self.0.nodes.push(NodeView { name, tier });
        self.0.nodes.len() - 1
    }

    pub(super) fn cable(&mut self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            self.0.links.push(MapLinkView { from, to, ..MapLinkView::default() });
        }
    }

    /// Scores about one in `one_in` of the links between switches with varied values; deterministic.
    pub(super) fn score(mut self, one_in: u64, jobs: usize) -> FabricView {
        let mut state = 7_u64;
        let nodes = &self.0.nodes;
        for link in self.0.links.iter_mut().filter(|l| nodes[l.from].tier > 0 && nodes[l.to].tier > 0) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (state >> 33).is_multiple_of(one_in) {
                let spread = ((state >> 40) % 1_000) as f64 / 1_000.0;
                link.score = Some(if spread < 0.45 { 1.0 } else { 1.0 - (spread - 0.45).powi(2) * 2.2 });
                link.jobs = (0..2 + (state >> 50) as usize % 3).map(|n| (n * 5 + (state >> 45) as usize) % jobs.max(1)).collect();
            }
        }
        self.0
    }
}

/// 24 hosts, 13 switches, 48 cables.
pub(super) fn testbed() -> Weaver {
    let mut w = Weaver::default();
    w.0.name = "testbed-24".to_owned();
    let core = w.node(3, "core1".to_owned());
    let spines: Vec<usize> = (1..=4).map(|n| w.node(2, format!("spine{n}"))).collect();
    for &spine in &spines {
        w.cable(spine, core);
        w.cable(spine, core);
    }
    for leaf in 0..8 {
        let at = w.node(1, format!("leaf{}", leaf + 1));
        let pair = leaf / 4 * 2;
        w.cable(at, spines[pair]);
        w.cable(at, spines[pair + 1]);
        for host in 0..3 {
            let host = w.node(0, format!("server-{:02}", leaf * 3 + host + 1));
            w.cable(host, at);
        }
    }
    w
}

/// `pods` pods of `leaves` leaves and 4 spines below 16 cores, `hosts` hosts per leaf.
pub(super) fn three_tier(pods: usize, leaves: usize, hosts: usize) -> Weaver {
    let mut w = Weaver::default();
    w.0.name = format!("clos-{}", pods * leaves * hosts);
    let cores: Vec<usize> = (0..16).map(|n| w.node(3, format!("core{n}"))).collect();
    for pod in 0..pods {
        let spines: Vec<usize> = (0..4).map(|n| w.node(2, format!("pod{pod}-spine{n}"))).collect();
        for (n, &spine) in spines.iter().enumerate() {
            for &core in &cores[n * 4..n * 4 + 4] {
                w.cable(spine, core);
            }
        }
        for leaf in 0..leaves {
            let at = w.node(1, format!("pod{pod}-leaf{leaf}"));
            for &spine in &spines {
                w.cable(at, spine);
            }
            for host in 0..hosts {
                let host = w.node(0, format!("pod{pod}-leaf{leaf}-host{host}"));
                w.cable(host, at);
            }
        }
    }
    w
}
