//! Between what the state machine wants kept and what a store keeps.

use std::sync::Arc;

use job::{JobDoc, MeasuredProfile};
use plan::{Control, slot::SlotTimes};
use state::{
    AuditEntry, Commitment, Content, Document, Lease, Record, Slot,
    scheduler::{After, HostGpus, Submission, SubmissionSpec, SubmissionState},
    turns::{ComparedJob, Comparison, MeanOf},
};
use store::{
    AnswerRecord, AuditRecord, Change, ComparedJobRecord, ComparisonRecord, ControlRecord, FabricRecord, JobRecord, Key, LeaseRecord,
    MeasuredRecord, PlanVersionRecord, SlotRecord, SubmissionRecord, SubmissionStateRecord,
};
use units::{FabricTime, Nanos};

use crate::resolve;

/// The changes that a record stands for.
///
/// # Errors
/// One line that names the job whose document is not one, which would be our own bug.
pub(crate) fn changes(record: &Record) -> Result<Vec<Change>, String> {
    let put = match record {
        Record::Fabric { version, text } => store::Record::Fabric(FabricRecord { version: *version, text: text.clone() }),
        Record::PlanVersion { plan_version, control } => {
            store::Record::PlanVersion(PlanVersionRecord { plan_version: *plan_version, control: Some(control_record(*control)) })
        }
        Record::Job { name, document, lease, headroom_permille, hold_ended, measured } => {
            let lease = lease.as_ref().map(|Lease { length, until, by }| LeaseRecord {
                length_ns: length.0,
                until_ns: until.0,
                by: by.as_deref().map(str::to_owned),
            });
            // The document is opaque to the state machine: it goes through as the value that this server put in.
            let document = resolve::kept(name, document)?;
            let hold_ended = hold_ended.as_deref().map(str::to_owned);
            let measured = measured.map(|m| MeasuredRecord { iteration_ns: m.iteration.0, sent_ns: m.sent.map(|sent| sent.0) });
            store::Record::Job(JobRecord { document, lease, headroom_permille: *headroom_permille, hold_ended, measured })
        }
        Record::Slot(slot) => store::Record::Slot(slot.job.clone(), slot_record(slot)),
        Record::Key { key, at, content, by, answer } => {
            let (content, by) = (content.map(|content| hexadecimal(&content)), by.as_deref().map(str::to_owned));
            let slots = answer.slots.iter().map(|slot| (slot.job.clone(), slot_record(slot))).collect();
            let (plan_version, moved, score) = (answer.plan_version, answer.moved.clone(), answer.score);
            store::Record::Answer(key.clone(), AnswerRecord { at_ns: at.0, content, by, plan_version, slots, moved, score })
        }
        Record::Comparison(found) => {
            let name = found.name().map_or_else(String::new, ToString::to_string);
            store::Record::Comparison(name, comparison_record(found))
        }
        // Job and slot go in one transaction, because a start refuses a job without its slot.
        Record::JobGone { name } => {
            let keys = [Key::Job(name.clone()), Key::Slot(name.clone()), Key::Comparison(name.clone())];
            return Ok(keys.map(Change::Remove).to_vec());
        }
        Record::Submission(submission) => store::Record::Submission(submission_record(submission)?),
        Record::SubmissionGone { name } => return Ok(vec![Change::Remove(Key::Submission(name.clone()))]),
        Record::Audit(entry) => {
            let AuditEntry { number, at, by, kind, message, plan_version } = &**entry;
            let kept =
                AuditRecord { at_ns: at.0, by: by.to_string(), kind: kind.clone(), message: message.clone(), plan_version: *plan_version };
            store::Record::Audit(*number, kept)
        }
        Record::AuditGone { number } => return Ok(vec![Change::Remove(Key::Audit(*number))]),
        Record::KeyGone { key } => return Ok(vec![Change::Remove(Key::Answer(key.clone()))]),
    };
    Ok(vec![Change::Put(put)])
}

/// The record that was kept.
pub(crate) fn record(kept: store::Record) -> Record {
    match kept {
        store::Record::Fabric(fabric) => Record::Fabric { version: fabric.version, text: fabric.text },
        store::Record::PlanVersion(PlanVersionRecord { plan_version, control: kept }) => {
            Record::PlanVersion { plan_version, control: control(kept) }
        }
        store::Record::Job(JobRecord { document, lease, headroom_permille, hold_ended, measured }) => Record::Job {
            // `decode` made sure that this id is the name in the key.
            name: document.id.clone(),
            document: Document::new(document),
            lease: lease.map(|l| Lease { length: Nanos(l.length_ns), until: FabricTime(l.until_ns), by: l.by.map(Into::into) }),
            headroom_permille,
            hold_ended: hold_ended.map(Into::into),
            measured: measured.map(|m| MeasuredProfile { iteration: Nanos(m.iteration_ns), sent: m.sent_ns.map(Nanos) }),
        },
        store::Record::Slot(job, kept) => Record::Slot(slot(job, kept)),
        store::Record::Answer(key, AnswerRecord { at_ns, content, by, plan_version, slots, moved, score }) => {
            let content = content.as_deref().and_then(digest);
            let slots = slots.into_iter().map(|(job, kept)| slot(job, kept)).collect();
            Record::Key {
                key,
                at: FabricTime(at_ns),
                content,
                by: by.map(Into::into),
                answer: Commitment { plan_version, slots, moved, score, crowded: Vec::new() },
            }
        }
        store::Record::Comparison(_, kept) => Record::Comparison(Arc::new(comparison(kept))),
        store::Record::Submission(kept) => Record::Submission(Arc::new(submission(kept))),
        store::Record::Audit(number, AuditRecord { at_ns, by, kind, message, plan_version }) => {
            Record::Audit(Arc::new(AuditEntry { number, at: FabricTime(at_ns), by: by.into(), kind, message, plan_version }))
        }
    }
}

fn comparison_record(found: &Comparison) -> ComparisonRecord {
    let mean = |of: MeanOf| (of.count, of.mean.0);
    let job = |job: &ComparedJob| ComparedJobRecord {
        job: job.name.to_string(),
        iteration_ns: job.iteration.0,
        held: mean(job.held),
        free: mean(job.free),
    };
    let Comparison { jobs, hold, left, apart, let_go } = found;
    ComparisonRecord { jobs: jobs.iter().map(job).collect(), hold: *hold, left: *left, apart: *apart, let_go: *let_go }
}

fn comparison(kept: ComparisonRecord) -> Comparison {
    let mean = |(count, mean): (u64, u64)| MeanOf { count, mean: Nanos(mean) };
    let job = |kept: ComparedJobRecord| ComparedJob {
        name: kept.job.into(),
        iteration: Nanos(kept.iteration_ns),
        held: mean(kept.held),
        free: mean(kept.free),
    };
    let ComparisonRecord { jobs, hold, left, apart, let_go } = kept;
    Comparison { jobs: jobs.into_iter().map(job).collect(), hold, left, apart, let_go }
}

fn submission_record(submission: &Submission) -> Result<SubmissionRecord, String> {
    let spec = &submission.spec;
    Ok(SubmissionRecord {
        document: resolve::kept(&submission.name, &spec.document)?,
        asked: hexadecimal(&spec.asked),
        gpus: spec.gpus,
        opportunistic: spec.opportunistic,
        iteration_ns: spec.iteration.0,
        total_ns: spec.total.0,
        lease_ns: spec.lease.map(|lease| lease.0),
        submitted_ns: submission.submitted.0,
        state: match submission.state {
            SubmissionState::Queued => SubmissionStateRecord::Queued,
            SubmissionState::Starting => SubmissionStateRecord::Starting,
            SubmissionState::Running => SubmissionStateRecord::Running,
            SubmissionState::Stopping(After::Queue) => SubmissionStateRecord::Stopping,
            SubmissionState::Stopping(After::Withdrawn) => SubmissionStateRecord::Withdrawing,
            SubmissionState::Finished => SubmissionStateRecord::Finished,
            SubmissionState::Withdrawn => SubmissionStateRecord::Withdrawn,
            SubmissionState::Failed => SubmissionStateRecord::Failed,
        },
        since_ns: submission.since.0,
        why: submission.why.clone(),
        place: submission.place.iter().map(|place| (place.host.clone(), place.gpus.clone())).collect(),
        planned: submission.planned,
        learned: match &submission.learned {
            Some(learned) => Some(Box::new((*resolve::kept(&submission.name, learned)?).clone())),
            None => None,
        },
        attempt: submission.attempt,
        failures: submission.failures,
        ran_ns: submission.ran.0,
        started_ns: submission.started.map(|started| started.0),
    })
}

fn submission(kept: SubmissionRecord) -> Submission {
    let has_profile = resolve::has_profile(&kept.document);
    let spec = SubmissionSpec {
        // One that is not a digest equals no request: who submits the job again hears that the name is used.
        asked: digest(&kept.asked).unwrap_or_default(),
        owner: None,
        bytes: resolve::bytes(&kept.document),
        gpus: kept.gpus,
        has_profile,
        learn: kept.document.learn,
        opportunistic: kept.opportunistic,
        iteration: Nanos(kept.iteration_ns),
        total: Nanos(kept.total_ns),
        lease: kept.lease_ns.map(Nanos),
        document: Document::new(Arc::clone(&kept.document)),
    };
    Submission {
        // `decode` made sure that this id is the name in the key.
        name: kept.document.id.as_str().into(),
        spec: Arc::new(spec),
        submitted: FabricTime(kept.submitted_ns),
        state: match kept.state {
            SubmissionStateRecord::Queued => SubmissionState::Queued,
            SubmissionStateRecord::Starting => SubmissionState::Starting,
            SubmissionStateRecord::Running => SubmissionState::Running,
            SubmissionStateRecord::Stopping => SubmissionState::Stopping(After::Queue),
            SubmissionStateRecord::Withdrawing => SubmissionState::Stopping(After::Withdrawn),
            SubmissionStateRecord::Finished => SubmissionState::Finished,
            SubmissionStateRecord::Withdrawn => SubmissionState::Withdrawn,
            SubmissionStateRecord::Failed => SubmissionState::Failed,
        },
        since: FabricTime(kept.since_ns),
        why: kept.why,
        place: kept.place.into_iter().map(|(host, gpus)| HostGpus { host, gpus }).collect(),
        planned: kept.planned,
        learned: kept.learned.map(|learned| Document::new(Arc::<JobDoc>::from(learned))),
        attempt: kept.attempt,
        failures: kept.failures,
        ran: Nanos(kept.ran_ns),
        started: kept.started_ns.map(FabricTime),
    }
}

fn control_record(control: Control) -> ControlRecord {
    match control {
        Control::Turns => ControlRecord::Turns,
        Control::Slots => ControlRecord::Slots,
        Control::Observe => ControlRecord::Observe,
    }
}

/// The control that was kept. Of services that kept none turns were the default.
fn control(kept: Option<ControlRecord>) -> Control {
    match kept {
        Some(ControlRecord::Turns) | None => Control::Turns,
        Some(ControlRecord::Slots) => Control::Slots,
        Some(ControlRecord::Observe) => Control::Observe,
    }
}

/// The control under which a state file was written last; `None` of a new one.
pub(crate) fn last_control(records: &[store::Record]) -> Option<Control> {
    records.iter().find_map(|kept| match kept {
        store::Record::PlanVersion(kept) => Some(control(kept.control)),
        _ => None,
    })
}

fn slot_record(slot: &Slot) -> SlotRecord {
    SlotRecord {
        plan_version: slot.plan_version,
        period_ns: slot.times.period.0,
        offset_ns: slot.times.offset.0,
        tolerance_ns: slot.times.tolerance.0,
        slack_ns: slot.times.slack.0,
        hold_max_ns: slot.times.hold_max.0,
        hold: slot.hold,
        turns: slot.turns,
        leader_host: slot.leader_host.clone(),
    }
}

fn slot(job: String, kept: SlotRecord) -> Slot {
    Slot {
        job,
        plan_version: kept.plan_version,
        times: SlotTimes {
            period: Nanos(kept.period_ns),
            offset: Nanos(kept.offset_ns),
            tolerance: Nanos(kept.tolerance_ns),
            slack: Nanos(kept.slack_ns),
            hold_max: Nanos(kept.hold_max_ns),
        },
        hold: kept.hold,
        turns: kept.turns,
        // The expiry is not kept: nobody trusts a plan before it is sent again.
        expires: FabricTime(0),
        leader_host: kept.leader_host,
    }
}

/// A digest in hexadecimal digits.
fn hexadecimal(digest: &Content) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a digest that is written in hexadecimal digits.
fn digest(text: &str) -> Option<Content> {
    let mut bytes = Content::default();
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn every_record_comes_back() {
        let document = |text: &str| Document::new(Arc::new(JobDoc::parse(text).unwrap()));
        let (a, b) = (document("{id: a, model: {name: vgg16}}"), document("{id: b, model: {name: bert}}"));
        let sample = Slot {
            job: "a".into(),
            plan_version: 3,
            times: SlotTimes { period: Nanos(5), offset: Nanos(4), tolerance: Nanos(1), slack: Nanos(2), hold_max: Nanos(6) },
            hold: true,
            turns: false,
            expires: FabricTime(0),
            leader_host: "h1".into(),
        };
        let mean = |count, mean| MeanOf { count, mean: Nanos(mean) };
        let answer = Commitment { plan_version: 1, slots: vec![sample.clone()], moved: vec!["a".into()], score: 0.75, crowded: Vec::new() };
        let records = [
            Record::Fabric { version: 7, text: "schema: x\n".into() },
            Record::PlanVersion { plan_version: u64::MAX, control: Control::Turns },
            Record::PlanVersion { plan_version: 1, control: Control::Slots },
            Record::PlanVersion { plan_version: 1, control: Control::Observe },
            Record::Job {
                name: "a".into(),
                document: a,
                lease: Some(Lease { length: Nanos(1), until: FabricTime(2), by: Some("ann (admin)".into()) }),
                headroom_permille: 50,
                hold_ended: None,
                measured: None,
            },
            Record::Job {
                name: "b".into(),
                document: b,
                lease: None,
                headroom_permille: 0,
                hold_ended: Some("it slips".into()),
                measured: Some(MeasuredProfile { iteration: Nanos(7), sent: Some(Nanos(3)) }),
            },
            Record::Slot(sample),
            Record::Comparison(Arc::new(Comparison {
                jobs: vec![
                    ComparedJob { name: "a".into(), iteration: Nanos(5), held: mean(24, 6), free: mean(8, 7) },
                    ComparedJob { name: "b".into(), iteration: Nanos(8), held: mean(25, 9), free: mean(10, 11) },
                ],
                hold: false,
                left: 12,
                apart: 13,
                let_go: 14,
            })),
            Record::Key { key: "k\u{0}".into(), at: FabricTime(9), content: Some([0xa5; 32]), by: Some("bob".into()), answer },
        ];
        for before in records {
            let made = changes(&before).unwrap();
            let [Change::Put(kept)] = &made[..] else { panic!("{made:?}") };
            assert_eq!(kept.key().to_string(), before.key());
            assert_eq!(record(kept.clone()), before);
        }
        let before = store::Record::PlanVersion(PlanVersionRecord { plan_version: 3, control: None });
        assert_eq!((last_control(&[before]), last_control(&[])), (Some(Control::Turns), None));
        for gone in [Record::JobGone { name: "a".into() }, Record::KeyGone { key: "k".into() }] {
            let removed = |change: &Change| match change {
                Change::Remove(key) => key.to_string(),
                Change::Put(record) => panic!("{record:?}"),
            };
            assert_eq!(changes(&gone).unwrap().iter().map(removed).collect::<Vec<_>>(), gone.erases());
        }
        let document = Document::new(Arc::new(7));
        let strange = Record::Job { name: "a".into(), document, lease: None, headroom_permille: 0, hold_ended: None, measured: None };
        assert!(changes(&strange).is_err());
    }
}
