//! Whether a job's period is what was declared.
//!
//! A period that is declared wrong is a plan made for another job: too short, and the job slips; too long, and its gate holds it
//! for nothing. Slips are answered with headroom (`watch.rs`). Here the difference is found and said, and nothing is re-planned
//! on it: a learned period may be that of a phase of training that ends, and what a job is is for its owner to declare.

use units::Nanos;

use crate::{GateReport, Slot, config::MISMATCH_REPORTS};

/// Byte counters of a job that sends twice in an iteration repeat after half of it, and those of one that does something else in
/// every second iteration after two: a period found there is the declared one if it is so many times longer or shorter.
const HARMONICS_MAX: u64 = 4;

/// What was learned of one job's period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeriodWatch {
    /// Reports in a row that say otherwise than `mismatch`.
    other: u32,
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
    /// Takes in a report of a job whose iteration was `declared` and that has this slot. What is said
    /// changes only after [`MISMATCH_REPORTS`] reports in a row.
    pub(crate) fn report(&mut self, declared: Nanos, slot: &Slot, report: &GateReport) -> Option<Learned> {
        let (learned, differs) = judge(declared, slot, report)?;
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
}

/// The period that the report shows, and whether it is another than the declared one; `None` if it shows none.
fn judge(declared: Nanos, slot: &Slot, report: &GateReport) -> Option<(Nanos, bool)> {
    // A report without a start has medians of nothing.
    if report.iterations == 0 {
        return None;
    }
    // From the iteration alone to the period that it is scheduled with, and as far beyond either as it may drift.
    let (least, most) = (declared.0.saturating_sub(slot.slack.0), slot.period.0.max(declared.0).saturating_add(slot.slack.0));
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
    use units::FabricTime;

    /// 100 alone, 105 scheduled, 10 of slack: 90 to 115 agrees.
    fn slot() -> Slot {
        Slot {
            job: "j".into(),
            plan_version: 7,
            period: Nanos(105),
            offset: Nanos(0),
            tolerance: Nanos(15),
            slack: Nanos(10),
            hold_max: Nanos(105),
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
        judge(Nanos(100), &slot(), report).map(|(_, differs)| differs)
    }

    #[test]
    fn what_is_between_the_iteration_and_its_period_agrees() {
        let free = |observed| differs(&seen(Some(observed), None, 0));
        assert_eq!([free(89), free(90), free(115), free(116)], [Some(true), Some(false), Some(false), Some(true)]);
        let alone = |solo| differs(&seen(None, Some(solo), 3));
        assert_eq!([alone(89), alone(90), alone(115), alone(116)], [Some(true), Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn counters_may_show_a_part_or_a_multiple() {
        let free = |observed| differs(&seen(Some(observed), None, 0));
        // Halves, thirds and quarters, doubles and so on; 70 and 150 are none of these.
        for harmonic in [50, 33, 25, 200, 300, 400] {
            assert_eq!(free(harmonic), Some(false), "{harmonic}");
        }
        assert_eq!([free(70), free(150), free(20)], [Some(true); 3]);
        // The gate counts iterations, so what it sees is no part of one.
        assert_eq!(differs(&seen(None, Some(50), 3)), Some(true));
    }

    #[test]
    fn a_held_job_is_judged_by_what_it_takes_without_the_hold() {
        assert_eq!(differs(&seen(Some(105), Some(60), 10)), Some(true));
        assert_eq!(differs(&seen(Some(60), Some(100), 10)), Some(false));
        assert_eq!(differs(&seen(Some(60), None, 10)), None);
        assert_eq!(differs(&GateReport { iterations: 0, ..seen(Some(60), Some(60), 0) }), None);
    }

    #[test]
    fn it_is_said_once_after_three_reports_and_taken_back_after_three() {
        let mut watch = PeriodWatch::default();
        let mut say = |observed| watch.report(Nanos(100), &slot(), &seen(Some(observed), None, 0));
        assert_eq!([say(70), say(70), say(100), say(70), say(71)], [None; 5], "an outlier begins the count anew");
        assert_eq!(say(72), Some(Learned::Differs(Nanos(72))));
        assert_eq!([say(73), say(100), say(73), say(100), say(101)], [None; 5]);
        assert_eq!(say(102), Some(Learned::Agrees(Nanos(102))));
        assert_eq!(watch, PeriodWatch::default());
    }
}
