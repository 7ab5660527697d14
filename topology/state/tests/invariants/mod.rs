//! What must hold after every step, whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use antiphase_state::{Notice, Record, Service, SessionId, Slot, View};
use circle::{Phase, ProblemBuilder, Ticks};
use units::FabricTime;

use crate::world::said;

/// What a job was like at the last look.
#[derive(Clone, Debug)]
struct Seen {
    document: String,
    slot: Slot,
    members: BTreeSet<String>,
}

/// Remembers what was promised and seen.
#[derive(Default)]
pub(crate) struct Witness {
    plan_version: u64,
    fabric: u64,
    jobs: BTreeMap<String, Seen>,
    /// Acknowledged: the document of every job that has to be there.
    promised: BTreeMap<String, String>,
    /// Jobs that something happened to since the last look.
    touched: BTreeSet<String>,
    /// Something happened to one of them twice: nobody saw whom it met in between.
    blurred: bool,
    told: BTreeMap<SessionId, u64>,
    /// Looks at a component of which some jobs were held and others not.
    pub(crate) mixed: usize,
}

impl Witness {
    /// An answered request: jobs with their documents, or `None` for those released.
    pub(crate) fn changed(&mut self, jobs: BTreeMap<String, Option<String>>) {
        for (name, document) in jobs {
            self.blurred |= !self.touched.insert(name.clone());
            match document {
                Some(document) => self.promised.insert(name, document),
                None => self.promised.remove(&name),
            };
        }
    }

    pub(crate) fn noticed(&mut self, notice: &Notice) {
        assert!(notice.plan_version >= self.plan_version || notice.kind.word() != "committed", "an old plan version is told: {notice:?}");
        let Some(job) = &notice.job else { return };
        if notice.kind.word() == "expired" {
            self.promised.remove(job);
        }
        // A slot that follows a drift, or a longer period, is a change of its own.
        let own = notice.kind.word() == "headroom" || (notice.kind.word() == "moved" && notice.message.contains("drifted"));
        if own || notice.kind.word() == "expired" {
            self.touched.insert(job.clone());
        }
    }

    /// A plan never goes back, and tells nothing that is not written.
    pub(crate) fn plan_sent(&mut self, session: SessionId, plan_version: u64, slots: &[Slot], kept: &BTreeMap<String, Record>) {
        let told = self.told.entry(session).or_default();
        assert!(plan_version >= *told, "{session:?} is told plan version {plan_version} after {told}");
        *told = plan_version;
        assert!(plan_version <= written_plan_version(kept), "plan_version {plan_version} is not durable");
        for slot in slots {
            let Some(Record::Slot(kept)) = kept.get(&format!("slot/{}", slot.job)) else { panic!("{slot:?} is not durable") };
            // Quarantine only takes the hold away.
            assert!(kept.hold || !slot.hold);
            assert_eq!(Slot { hold: kept.hold, expires: FabricTime(0), ..slot.clone() }, *kept);
        }
    }

    /// After a restart all that was promised is there; `unsure` jobs are in requests that were never answered.
    pub(crate) fn restarted(&mut self, service: &Service, unsure: &BTreeSet<String>) {
        let view = service.view();
        for (name, document) in self.promised.iter().filter(|(n, _)| !unsure.contains(*n) && !n.starts_with("lease")) {
            assert_eq!(&said(&view.job(name).unwrap_or_else(|| panic!("{name} is lost")).planned().document), document);
        }
        assert!(
            view.plan_version() >= self.plan_version,
            "the plan_version went back from {} to {}",
            self.plan_version,
            view.plan_version()
        );
        for (name, seen) in &self.jobs {
            if let Some(job) = view.job(name) {
                check_slot(seen, &job.slot());
            }
        }
        self.promised = view.jobs().map(|j| (j.name().to_string(), said(&j.planned().document))).collect();
        self.take(view);
    }

    pub(crate) fn look(&mut self, service: &Service) {
        let view = service.view();
        if view.plan_version() == self.plan_version && self.touched.is_empty() {
            return;
        }
        assert!(view.plan_version() >= self.plan_version, "the plan_version went back");
        for (name, document) in &self.promised {
            assert_eq!(view.job(name).map(|j| said(&j.planned().document)).as_ref(), Some(document), "{name} was acknowledged");
        }
        self.untouched_stay(view);
        one_solve(view);
        self.mixed += held_by_set(view);
        self.take(view);
    }

    /// Jobs that share no component, before or after, with a job to which something happened keep their slots.
    fn untouched_stay(&self, view: &View) {
        // A job that came and went between two looks met somebody whom nobody saw.
        let hidden = self.touched.iter().any(|n| view.job(n).is_none() && !self.jobs.contains_key(n));
        if view.fabric_version() != self.fabric || hidden || self.blurred {
            return;
        }
        let mut reached: BTreeSet<String> = self.touched.clone();
        // Several changes may have become durable together: what one joined, the next may have parted.
        loop {
            let before = reached.len();
            for seen in self.jobs.values() {
                if !seen.members.is_disjoint(&reached) {
                    reached.extend(seen.members.iter().cloned());
                }
            }
            for job in view.jobs() {
                let members: BTreeSet<String> = job.component().map(String::from).collect();
                if !members.is_disjoint(&reached) {
                    reached.extend(members);
                }
            }
            if reached.len() == before {
                break;
            }
        }
        for (name, seen) in &self.jobs {
            let Some(job) = view.job(name) else { continue };
            let slot = job.slot();
            check_slot(seen, &slot);
            if !reached.contains(name) && seen.document == said(&job.planned().document) {
                assert_eq!(
                    (slot.times.offset, slot.times.period, slot.plan_version),
                    (seen.slot.times.offset, seen.slot.times.period, seen.slot.plan_version),
                    "{name} moved"
                );
            }
        }
    }

    fn take(&mut self, view: &View) {
        (self.plan_version, self.fabric) = (view.plan_version(), view.fabric_version());
        self.touched.clear();
        self.blurred = false;
        let seen = |job: antiphase_state::JobView<'_>| {
            let members = job.component().map(String::from).collect();
            (job.name().to_string(), Seen { document: said(&job.planned().document), slot: job.slot(), members })
        };
        self.jobs = view.jobs().map(seen).collect();
    }
}

pub(crate) fn written_plan_version(kept: &BTreeMap<String, Record>) -> u64 {
    match kept.get("plan_version") {
        Some(Record::PlanVersion { plan_version, .. }) => *plan_version,
        _ => 0,
    }
}

/// A slot changes only with a greater plan version.
fn check_slot(seen: &Seen, now: &Slot) {
    assert!(now.plan_version >= seen.slot.plan_version, "{now:?} after {:?}", seen.slot);
    if now.plan_version == seen.slot.plan_version {
        assert_eq!(Slot { expires: seen.slot.expires, ..now.clone() }, seen.slot);
    }
}

/// The scores told are those of the slots told: link by link, against the circle's own evaluation.
fn one_solve(view: &View) {
    for link in view.links().filter(|l| l.jobs().len() > 1) {
        let mut builder = ProblemBuilder::new();
        let (mut members, mut shifts) = (Vec::new(), Vec::new());
        for demand in link.demands() {
            let job = builder.job(Ticks(demand.period.0)).unwrap();
            let phases: Vec<Phase> = demand.phases.to_vec();
            members.push(builder.demand(job, &phases).unwrap());
            shifts.push(Ticks(demand.shift.0));
        }
        builder.link(link.capacity, members).unwrap();
        let expected = circle::evaluate(&builder.build(), &shifts).unwrap().links[0];
        assert!((link.score.unwrap() - expected.score).abs() < 1e-9, "{}: {:?} {expected:?}", link.name(), link.score);
        assert!((link.zero_shift_score.unwrap() - expected.zero_shift_score).abs() < 1e-9, "{}", link.name());
    }
    for job in view.jobs() {
        for other in job.component().filter_map(|n| view.job(n)) {
            assert_eq!(job.headroom_permille(), other.headroom_permille(), "{} and {}", job.name(), other.name());
        }
    }
}

/// A job is held with all jobs of a coupled group, or not at all: a shift makes sense only within a set. Counts the components of which
/// some are held and others not.
fn held_by_set(view: &View) -> usize {
    let names: Vec<&str> = view.jobs().map(|j| j.name()).collect();
    let held: Vec<bool> = view.jobs().map(|j| j.slot().hold).collect();
    let number = |name: &str| names.binary_search(&name).unwrap();
    let can_meet = |l: &antiphase_state::LinkView<'_>| l.jobs().len() > 1 && l.peak.0 > l.capacity.0;
    let links: Vec<Vec<usize>> = view.links().filter(can_meet).map(|l| l.jobs().map(number).collect()).collect();
    let mut with_all = vec![false; names.len()];
    for set in circle::coupled_groups(names.len(), &links) {
        let members: Vec<usize> = set.iter().flat_map(|l| &links[*l]).copied().collect();
        if members.iter().all(|j| held[*j]) {
            members.iter().for_each(|j| with_all[*j] = true);
        }
    }
    assert_eq!(held, with_all, "{names:?}");
    let mixed = |job: &antiphase_state::JobView<'_>| {
        let leads = job.component().next() == Some(job.name());
        let holds: Vec<bool> = job.component().map(|n| held[number(n)]).collect();
        leads && holds.contains(&true) && holds.contains(&false)
    };
    view.jobs().filter(mixed).count()
}
