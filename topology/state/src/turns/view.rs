//! Turns as they are now, for people.

use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::fmt;

use turns::Activity;
use units::FabricTime;

use super::{TurnCounts, Turns, Verdict, recent::Measured, starts::TurnStart};

/// What a group of jobs that take turns does now, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupState {
    /// Turns were found to be worth nothing: the group runs free.
    LetGo,
    /// The group was let go, and takes turns for a short stretch, to compare.
    TriedHeld,
    /// The group takes turns, and runs free for a short stretch, to compare.
    TriedFree,
    /// The group takes turns.
    Held,
}

/// A group of jobs that take turns.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupView {
    /// What it does now.
    pub state: GroupState,
    /// What its last comparison came to, and when; `None` before the first.
    pub judged: Option<(FabricTime, Verdict)>,
    /// Its jobs, in the order in which those go that are ready at the same time.
    pub jobs: Vec<JobTurns>,
}

/// A job that takes turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTurns {
    /// Its name.
    pub job: Arc<str>,
    /// What it is doing.
    pub activity: Activity,
    /// For whom it waits.
    pub waits_for: Vec<Arc<str>>,
    /// Nobody tells the ends of its starts, so it takes no turns.
    pub has_no_ends: bool,
    /// Its last iterations while its group took turns.
    pub held: Measured,
    /// Its last iterations while its group ran free.
    pub free: Measured,
    /// Since it came.
    pub counts: TurnCounts,
    /// Its last starts, oldest first.
    pub starts: Vec<TurnStart>,
}

impl Turns {
    /// Every group, in the order in which they were made. A job costs about a microsecond.
    pub fn groups(&self) -> impl Iterator<Item = GroupView> {
        self.groups.values().map(|running| {
            let judge = &running.judge;
            let state = match (judge.holds(), judge.is_worth_it()) {
                (true, true) => GroupState::Held,
                (false, true) => GroupState::TriedFree,
                (false, false) => GroupState::LetGo,
                (true, false) => GroupState::TriedHeld,
            };
            let name = |job: u32| running.of.jobs.get(job as usize).map(|j| j.name.clone());
            let job = |(index, job): (u32, &super::TurnJob)| {
                let (held, free) = judge.recent(index);
                let entry = self.jobs.get(&job.name);
                JobTurns {
                    job: job.name.clone(),
                    activity: running.arbiter.activity(index),
                    waits_for: running.arbiter.waits_for(index).into_iter().filter_map(name).collect(),
                    has_no_ends: running.arbiter.has_no_ends(index),
                    held,
                    free,
                    counts: entry.map_or_else(TurnCounts::default, |entry| entry.counts),
                    starts: entry.map_or_else(Vec::new, |entry| entry.starts.all()),
                }
            };
            GroupView { state, judged: running.judged, jobs: (0..).zip(&running.of.jobs).map(job).collect() }
        })
    }

    /// How many jobs wait for their turn.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.groups.values().map(|running| running.arbiter.waiting()).sum()
    }
}

impl GroupState {
    /// All, the troubled ones first.
    pub const ALL: [Self; 4] = [Self::LetGo, Self::TriedHeld, Self::TriedFree, Self::Held];
}

impl GroupView {
    /// Why the group is as it is, in a sentence without its end.
    #[must_use]
    pub fn reason(&self) -> String {
        let says = self.judged.map(|(_, verdict)| verdict.says());
        match (self.state, says) {
            (GroupState::Held, None) => "takes turns as predicted; there was no need yet to compare it with running free".into(),
            (GroupState::Held, Some(says)) => format!("takes turns: {says}"),
            (GroupState::TriedFree, None) => "runs free for some iterations, to compare".into(),
            (GroupState::TriedFree, Some(says)) => format!("runs free for some iterations, to compare again; before, {says}"),
            (GroupState::LetGo, None) => "was let go and runs free".into(),
            (GroupState::LetGo, Some(says)) => format!("was let go and runs free: {says}"),
            (GroupState::TriedHeld, None) => "was let go, and takes turns for some iterations, to compare".into(),
            (GroupState::TriedHeld, Some(says)) => {
                format!("was let go, and takes turns for some iterations, to compare again; before, {says}")
            }
        }
    }
}

/// Iterations by turns over iterations free, as people say it: in per cent, with the direction.
struct Change(f64);

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Below a twentieth of a per cent there is no direction to speak of.
        match (self.0 - 1.0) * 100.0 {
            percent if percent >= 0.05 => write!(f, "{percent:.1} % longer than without"),
            percent if percent <= -0.05 => write!(f, "{:.1} % shorter than without", -percent),
            _ => write!(f, "as long as without"),
        }
    }
}

impl Verdict {
    /// What was measured, in words.
    #[must_use]
    pub fn says(&self) -> String {
        // Turns that make most jobs faster are let go where one pays for them, so the one that loses most is told apart from the mean.
        let (mean, worst) = (Change(self.held_over_free), Change(self.worst));
        let who = if self.worst > 1.0 { "loses most" } else { "gains least" };
        format!("by turns an iteration is {mean} in the mean over the jobs, and {worst} for the job that {who}")
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use turns::{Group, Member, Up, Use};
    use units::{Nanos, Rate};

    use super::*;
    use crate::{
        SessionId,
        turns::{Granted, Note, NoteKind, TurnEvent, TurnGroup, TurnJob},
    };

    const MS: u64 = 1_000_000;

    /// Two jobs of 100 ms that send for 40 of them over one link, and whatever they are told goes at once.
    struct World {
        turns: Turns,
        granted: Vec<(Arc<str>, Granted)>,
    }

    impl World {
        fn new() -> Self {
            let up = Up { start: Nanos(0), end: Nanos(40 * MS), rate: Rate(50_000) };
            let member = |other| Member { iteration: Nanos(100 * MS), uses: vec![Use { link: 0, ups: vec![up] }], opponents: vec![other] };
            let jobs = ["a", "b"].map(|name| TurnJob { name: name.into(), leader_host: name.into() }).to_vec();
            let group = Group { members: vec![member(1), member(0)], limits: vec![Rate(50_000)], ahead: false };
            let mut world = Self { turns: Turns::default(), granted: Vec::new() };
            world.turns.handle(FabricTime(0), TurnEvent::Groups(vec![Arc::new(TurnGroup { jobs, group })]));
            for (session, host) in [(1, "a"), (2, "b")] {
                world.turns.handle(FabricTime(0), TurnEvent::Session { session: SessionId(session), host: host.into() });
            }
            world
        }

        fn note(&mut self, ms: u64, job: &str, number: u64, kind: NoteKind) {
            let session = SessionId(if job == "a" { 1 } else { 2 });
            let note = Note { job: job.into(), writer: 1, number, kind, phase: 0, age: Nanos(0), sent: Nanos(40 * MS) };
            self.turns.handle(FabricTime(ms * MS), TurnEvent::Note { session, note });
            while let Some((_, order)) = self.turns.poll() {
                self.granted.extend(order.granted.map(|granted| (order.job, granted)));
            }
        }

        fn group(&self) -> GroupView {
            let mut groups: Vec<GroupView> = self.turns.groups().collect();
            assert_eq!(groups.len(), 1);
            groups.remove(0)
        }
    }

    #[test]
    fn who_sends_who_waits_and_for_whom() {
        let mut world = World::new();
        world.note(10, "a", 1, NoteKind::Ready);
        world.note(20, "b", 1, NoteKind::Ready);
        let GroupView { state, judged, jobs } = world.group();
        assert_eq!((state, judged, world.turns.waiting()), (GroupState::Held, None, 1));
        let at = |ms: u64| FabricTime(ms * MS);
        assert_eq!(jobs[0].activity, Activity::Sending { since: at(10), expected: at(50), lease: at(62) });
        assert_eq!((jobs[1].activity, &jobs[1].waits_for[..]), (Activity::Waiting { since: at(20), until: at(120) }, &["a".into()][..]));
        world.note(50, "a", 1, NoteKind::Ended);
        // Said again: no other grant.
        world.note(51, "b", 1, NoteKind::Ready);
        let said = [("a".into(), Granted::AtOnce), ("b".into(), Granted::Waited(Nanos(30 * MS)))];
        assert_eq!(world.granted, said);
        let b = &world.group().jobs[1];
        assert_eq!(b.starts, [TurnStart { ready: at(20), began: Some(at(50)), ended: None }]);
        assert_eq!(b.counts.bound, 0);
    }

    #[test]
    fn who_gains_in_the_mean_may_be_let_go_for_the_one_that_loses() {
        let says = |held_over_free, worst| Verdict { hold: false, is_new: true, held_over_free, worst }.says();
        let said = "by turns an iteration is 5.0 % shorter than without in the mean over the jobs, and 10.1 % longer than without for the \
                    job that loses most";
        assert_eq!(says(0.95, 1.101), said);
        let said = "by turns an iteration is as long as without in the mean over the jobs, and 2.0 % shorter than without for the job that \
                    gains least";
        assert_eq!(says(1.0004, 0.98), said);
    }

    #[test]
    fn what_iterations_took_held_and_free_and_what_came_of_it() {
        let mut world = World::new();
        // a takes 100 ms, b waits 40 ms in each iteration of 140: the first comparison comes soon, and finds that turns cost time.
        let mut states = Vec::new();
        let mut ms = 0;
        for number in 1..400 {
            let held = world.group().state == GroupState::Held;
            world.note(ms, "a", number, NoteKind::Ready);
            world.note(ms, "b", number, NoteKind::Ready);
            world.note(ms + 40, "a", number, NoteKind::Ended);
            world.note(ms + if held { 80 } else { 40 }, "b", number, NoteKind::Ended);
            ms += if held { 140 } else { 100 };
            let state = world.group().state;
            if states.last() != Some(&state) {
                states.push(state);
            }
            if states.len() == 3 {
                break;
            }
        }
        assert_eq!(states, [GroupState::Held, GroupState::TriedFree, GroupState::LetGo]);
        let group = world.group();
        let b = &group.jobs[1];
        assert_eq!((b.held.mean, b.held.mean_wait), (Nanos(140 * MS), Nanos(40 * MS)));
        assert_eq!((b.free.p50, b.free.p99, b.free.mean_wait), (Nanos(100 * MS), Nanos(100 * MS), Nanos(0)));
        let (_, verdict) = group.judged.unwrap();
        assert!(!verdict.hold && verdict.is_new && (verdict.worst - 1.4).abs() < 1e-9, "{verdict:?}");
        let reason = group.reason();
        assert!(reason.starts_with("was let go and runs free: by turns an iteration is ") && reason.contains(" % longer"), "{reason}");
        assert!(reason.ends_with("and 40.0 % longer than without for the job that loses most"), "{reason}");
        assert_eq!(world.granted.last().map(|(_, granted)| *granted), Some(Granted::Open));
    }
}
