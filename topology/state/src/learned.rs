//! Whether a job's period is what was declared.
//!
//! A period that is declared wrong is a plan made for another job: too short, and the job slips; too long, and its gate holds it
//! for nothing. Here the difference is found and said, and while a job is held to a slot it ends the hold (`watch.rs`). No slot is made
//! for a learned period: it may be that of a phase of training that ends, and what a job is is for its owner to declare.

use units::Nanos;

use crate::{
    GateReport, Slot,
    config::{MISMATCH_PERMILLE, MISMATCH_REPORTS},
};

/// Byte counters of a job that sends twice in an iteration repeat after half of it, and those of one that does something else in
/// every second iteration after two: a period found there is the declared one if it is so many times longer or shorter.
const HARMONICS_MAX: u64 = 4;

/// What was learned of one job's period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeriodWatch {
    /// Reports in a row that say otherwise than `mismatch`.
    other: u32,
    /// Reports in a row of a held job that say another period than the declared one.
    held: u32,
    /// The learned period while it is not the declared one.
    pub(crate) mismatch: Option<Nanos>,
}

/// What a report changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The period is not the declared one.
    Differs(Nanos),
    /// The period is the declared one again.
    Agrees(Nanos),
}

impl PeriodWatch {
    /// Takes in a report of a job that is expected to take so long under this slot, and is `held` to it or not. What is said
    /// changes only after [`MISMATCH_REPORTS`] reports in a row.
    pub(crate) fn report(&mut self, expected: Expected, slot: &Slot, held: bool, report: &GateReport) -> Option<Learned> {
        let (learned, differs) = judge(expected, slot, report)?;
        self.held = if held && differs { self.held.saturating_add(1) } else { 0 };
        // A report that says the same as before breaks the row: only reports in a row change what is said.
        if differs == self.mismatch.is_some() {
            self.other = 0;
            self.mismatch = self.mismatch.map(|_| learned);
            return None;
        }
        self.other += 1;
        if self.other < MISMATCH_REPORTS {
            return None;
        }
        self.other = 0;
        self.mismatch = differs.then_some(learned);
        Some(if differs { Learned::Differs(learned) } else { Learned::Agrees(learned) })
    }

    /// Forgets the reports of the held job, because others caused them.
    pub(crate) fn excuse(&mut self) {
        self.held = 0;
    }

    /// The learned period, once it was another than the declared one for so long while the job was held that the hold has to end.
    pub(crate) fn ends_hold(&self) -> Option<Nanos> {
        // What was learned of a free job is no reason: it may have been slowed down by those that it met.
        self.mismatch.filter(|_| self.held >= MISMATCH_REPORTS)
    }
}

/// How long an iteration is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Alone, as declared; zero where nobody knows.
    pub(crate) declared: Nanos,
    /// Beside those that it meets, as planned: the declared time where it meets nobody.
    pub(crate) predicted: Nanos,
}

/// The period that the report shows, and whether it is another than the declared one; `None` if it shows none.
fn judge(expected: Expected, slot: &Slot, report: &GateReport) -> Option<(Nanos, bool)> {
    // A report without a start has medians of nothing, and of a job that sends nothing nobody said how long it takes.
    if report.iterations == 0 || expected.declared == Nanos(0) {
        return None;
    }
    // From the iteration alone to the period that it is scheduled with or what others make of it, whichever is longer.
    let (least, most) = (expected.declared, slot.times.period.max(expected.declared).max(expected.predicted));
    let beyond = |time: Nanos| plan::slot::share(time, MISMATCH_PERMILLE).0;
    let (least, most) = (least.0.saturating_sub(beyond(least)), most.0.saturating_add(beyond(most)));
    let differs = |period: u64| !(least..=most).contains(&period);
    // What a held job sends repeats with its slots, whatever it would do alone.
    if let Some(observed) = report.observed_period.filter(|_| report.holds == 0) {
        // The observed period is what an agent says: saturation keeps a huge one from wrapping into the range.
        let harmonic = (1..=HARMONICS_MAX).any(|n| !differs(observed.0.saturating_mul(n)) || !differs(observed.0 / n));
        return Some((observed, !harmonic));
    }
    report.solo.filter(|solo| solo.0 > 0).map(|solo| (solo, differs(solo.0)))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use plan::slot::SlotTimes;
    use units::FabricTime;

    const EXPECTED: Expected = Expected { declared: Nanos(1_000), predicted: Nanos(1_000) };

    /// 1,000 alone, 1,050 scheduled: 950 to 1,102 agrees, whatever the slack.
    fn slot() -> Slot {
        Slot {
            job: "j".into(),
            plan_version: 7,
            times: SlotTimes { period: Nanos(1_050), offset: Nanos(0), tolerance: Nanos(150), slack: Nanos(500), hold_max: Nanos(1_050) },
            hold: true,
            turns: false,
            expires: FabricTime(0),
            leader_host: String::new(),
        }
    }

    fn seen(observed: Option<u64>, solo: Option<u64>, holds: u64) -> GateReport {
        GateReport { iterations: 10, holds, observed_period: observed.map(Nanos), solo: solo.map(Nanos), ..GateReport::default() }
    }

    fn differs(report: &GateReport) -> Option<bool> {
        judge(EXPECTED, &slot(), report).map(|(_, differs)| differs)
    }

    #[test]
    fn what_is_between_the_iteration_and_its_period_agrees() {
        let free = |observed| differs(&seen(Some(observed), None, 0));
        assert_eq!([free(949), free(950), free(1_102), free(1_103)], [Some(true), Some(false), Some(false), Some(true)]);
        let alone = |solo| differs(&seen(None, Some(solo), 3));
        assert_eq!([alone(949), alone(950), alone(1_102), alone(1_103)], [Some(true), Some(false), Some(false), Some(true)]);
        // Beside others that it meets as it comes it may take longer, and no less.
        let beside = Expected { predicted: Nanos(1_400), ..EXPECTED };
        let beside = |solo| judge(beside, &slot(), &seen(None, Some(solo), 0)).map(|(_, differs)| differs);
        assert_eq!([beside(949), beside(950), beside(1_470), beside(1_471)], [Some(true), Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn counters_may_show_a_part_or_a_multiple() {
        let free = |observed| differs(&seen(Some(observed), None, 0));
        // Halves, thirds and quarters, doubles and so on; 700 and 1,500 are none of these.
        for harmonic in [500, 333, 250, 2_000, 3_000, 4_000] {
            assert_eq!(free(harmonic), Some(false), "{harmonic}");
        }
        assert_eq!([free(700), free(1_500), free(200)], [Some(true); 3]);
        // The gate counts iterations, so what it sees is no part of one.
        assert_eq!(differs(&seen(None, Some(500), 3)), Some(true));
    }

    #[test]
    fn a_held_job_is_judged_by_what_it_takes_without_the_hold() {
        assert_eq!(differs(&seen(Some(1_050), Some(600), 10)), Some(true));
        assert_eq!(differs(&seen(Some(600), Some(1_000), 10)), Some(false));
        assert_eq!(differs(&seen(Some(600), None, 10)), None);
        let unknown = Expected { declared: Nanos(0), ..EXPECTED };
        assert_eq!(judge(unknown, &slot(), &seen(Some(600), Some(600), 0)), None);
        assert_eq!(differs(&GateReport { iterations: 0, ..seen(Some(600), Some(600), 0) }), None);
    }

    #[test]
    fn it_is_said_once_after_three_reports_and_taken_back_after_three() {
        let mut watch = PeriodWatch::default();
        let mut say = |observed| watch.report(EXPECTED, &slot(), false, &seen(Some(observed), None, 0));
        assert_eq!([say(700), say(700), say(1_000), say(700), say(701)], [None; 5], "an outlier begins the count anew");
        assert_eq!(say(702), Some(Learned::Differs(Nanos(702))));
        assert_eq!([say(703), say(1_000), say(703), say(1_000), say(1_001)], [None; 5]);
        assert_eq!(say(1_002), Some(Learned::Agrees(Nanos(1_002))));
        assert_eq!(watch, PeriodWatch::default());
    }

    #[test]
    fn only_what_is_learned_of_a_held_job_ends_its_hold() {
        let mut watch = PeriodWatch::default();
        let mut say = |held, solo| {
            watch.report(EXPECTED, &slot(), held, &seen(None, Some(solo), u64::from(held)));
            watch.ends_hold()
        };
        assert_eq!([false, false, false, false].map(|held| say(held, 1_400)), [None; 4], "free, and slowed down by others");
        assert_eq!([say(true, 1_400), say(true, 1_400), say(true, 1_000), say(true, 1_400), say(true, 1_400)], [None; 5]);
        assert_eq!(say(true, 1_401), Some(Nanos(1_401)));
    }
}
