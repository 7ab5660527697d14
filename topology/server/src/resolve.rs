//! Jobs as sent, made into jobs on a fabric: what `job` reads from files, read from messages.

use std::sync::Arc;

use fabric::Fabric;
use job::{JobDoc, ModelDoc, Reader};
use profile::ProfileDocument;
use proto::v1alpha1::{JobSpec, Model};
use state::{Document, JobDefinition};
use store::cut;
pub(crate) use store::one_line;

/// Most bytes of a job as sent, so that a record stays small: profiles of a few thousand phases fit.
pub(crate) const JOB_BYTES_MAX: usize = 1 << 20;

/// The documents of jobs.
///
/// # Errors
/// As [`document`].
pub(crate) fn documents(specs: &[JobSpec]) -> Result<Vec<Arc<JobDoc>>, String> {
    specs.iter().enumerate().map(|(i, spec)| document(i, spec).map(Arc::new)).collect()
}

/// The document of a job. Hosts that are not given are absent in it, not an empty list.
///
/// # Errors
/// One line that names the job, the key and the value.
pub(crate) fn document(index: usize, spec: &JobSpec) -> Result<JobDoc, String> {
    // The name may be of any length and anything, so the message shows a cut and quoted one.
    let refuse = |problem: &dyn std::fmt::Display| format!("jobs[{index}] ({:?}): {}", cut(&spec.id), one_line(problem));
    units::check_name(&spec.id).map_err(|problem| refuse(&format!("id: {problem}")))?;
    let JobSpec { id, model, profile, hosts, hold, learn } = spec;
    // A profile comes as JSON text inside the message; its own reader judges it when the job is placed.
    let profile = profile.as_deref().map(inline).transpose().map_err(|e| refuse(&format!("profile: {e}")))?;
    let hold = hold.as_deref().map(str::parse).transpose().map_err(|e: job::UnknownHold| refuse(&e))?;
    Ok(JobDoc {
        id: id.clone(),
        model: model.as_ref().map(model_doc),
        profile,
        profile_file: None,
        hosts: Some(hosts.clone()).filter(|hosts| !hosts.is_empty()),
        hold,
        learn: *learn,
    })
}

/// A document that stands in a message.
fn inline(text: &str) -> serde_json::Result<ProfileDocument> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let document = strict::read(&mut reader)?;
    reader.end().map(|()| document)
}

fn model_doc(model: &Model) -> ModelDoc {
    let Model { name, strategy, ranks, gpus_per_host, nics_per_host, batch, micro_batches, tp, cp, pp, dp, ep, nic, gpu_gflops } = model;
    ModelDoc {
        name: name.clone(),
        strategy: strategy.clone(),
        ranks: *ranks,
        gpus_per_host: *gpus_per_host,
        nics_per_host: *nics_per_host,
        batch: *batch,
        micro_batches: *micro_batches,
        tp: *tp,
        cp: *cp,
        pp: *pp,
        dp: *dp,
        ep: *ep,
        nic: nic.clone(),
        gpu_gflops: *gpu_gflops,
    }
}

/// Jobs on a fabric, each placed and with its document.
///
/// # Errors
/// One line that names the first job that cannot be taken, the key and the value.
pub(crate) fn definitions(fabric: &Fabric, docs: &[Arc<JobDoc>]) -> Result<Vec<JobDefinition>, String> {
    // One reader for all jobs: its budget of work bounds the whole request and not each job alone.
    let mut reader = Reader::new(fabric, NO_FILES);
    for doc in docs {
        reader.job(doc, None).map_err(|e| one_line(&e))?;
    }
    let (jobs, placements) = reader.finish();
    let one = |((job, placement), doc): ((job::Job, job::Placement), &Arc<JobDoc>)| {
        let hosts = doc.hosts.clone().unwrap_or_default();
        JobDefinition { job, placement, hosts, document: Document::new(Arc::clone(doc)) }
    };
    Ok(jobs.into_iter().zip(placements).zip(docs).map(one).collect())
}

/// The same for jobs that were taken one by one: each has the budget of work that a request has, so no number of jobs that were taken
/// keeps another fabric out.
///
/// # Errors
/// As [`definitions`]; the line says what to do with the job.
pub(crate) fn each(fabric: &Fabric, docs: &[Arc<JobDoc>]) -> Result<Vec<JobDefinition>, String> {
    docs.chunks(1).try_fold(Vec::with_capacity(docs.len()), |mut made, doc| {
        let placed = definitions(fabric, doc);
        made.append(&mut placed.map_err(|line| format!("{line}: job {:?} is committed; release it, or keep its hosts", doc[0].id))?);
        Ok(made)
    })
}

/// Whether a document says how its job communicates.
pub(crate) fn has_profile(doc: &JobDoc) -> bool {
    doc.model.is_some() || doc.profile.is_some()
}

/// How long a document is as JSON, which is how it is kept.
pub(crate) fn bytes(doc: &JobDoc) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A count takes everything, and a document has no keys that are not text.
    let _ = serde_json::to_writer(&mut count, doc);
    count.0
}

/// The document from which [`definitions`] made a job.
///
/// # Errors
/// One line that names the job whose document was made elsewhere.
pub(crate) fn kept(name: &str, document: &Document) -> Result<Arc<JobDoc>, String> {
    document.get().ok_or_else(|| format!("job {name:?}: it was not made from the document of a job"))
}

/// Messages carry their profiles; a path would be a path of this machine.
pub(crate) const NO_FILES: &job::ReadFile<'static> = &|_| Err("files are not read for clients".into());

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: &str, hosts: &[&str]) -> JobSpec {
        let model = Some(Model { name: "vgg16".into(), batch: Some(1_700), ..Model::default() });
        JobSpec { id: id.into(), model, hosts: hosts.iter().map(|h| (*h).to_owned()).collect(), ..JobSpec::default() }
    }

    #[test]
    fn a_job_keeps_its_document() {
        let fabric = fabric::generate::cassini24().unwrap();
        let docs = documents(&[spec("a", &["h1", "h2"]), spec("b", &["h3", "h5"])]).unwrap();
        let made = definitions(&fabric, &docs).unwrap();
        assert_eq!(made[0].hosts, ["h1", "h2"]);
        let kept: Vec<Arc<JobDoc>> = made.iter().map(|d| kept(&d.job.name, &d.document).unwrap()).collect();
        assert_eq!(kept, docs);
        assert_eq!(definitions(&fabric, &kept).unwrap(), made);
    }

    /// What was taken job by job can be placed anew, also where it is more than one request may ask for.
    #[test]
    fn jobs_that_were_taken_one_by_one_have_a_budget_each() {
        let fabric = fabric::generate::cassini24().unwrap();
        let hosts: Vec<String> = (1..=24).map(|host| format!("h{host}")).collect();
        let large = |n: usize| {
            let model = Some(Model { name: "vgg16".into(), ranks: Some(24 * 1_024), gpus_per_host: Some(1_024), ..Model::default() });
            JobSpec { model, hosts: hosts.clone(), ..spec(&format!("j{n}"), &[]) }
        };
        let docs = documents(&(0..60).map(large).collect::<Vec<_>>()).unwrap();
        let refused = definitions(&fabric, &docs).unwrap_err();
        assert!(refused.contains("asks for more than"), "{refused}");
        assert_eq!(each(&fabric, &docs).unwrap().len(), docs.len());
    }

    /// Every key of a message has its place in the document, whose serde names are the same.
    #[test]
    fn a_document_says_what_the_message_said() {
        let number = Some(2);
        let model = Model {
            name: "vgg16".into(),
            strategy: Some("dp".into()),
            ranks: number,
            gpus_per_host: Some(3),
            nics_per_host: Some(4),
            batch: Some(5),
            micro_batches: Some(6),
            tp: Some(7),
            cp: Some(8),
            pp: Some(9),
            dp: Some(10),
            ep: Some(11),
            nic: Some("50G".into()),
            gpu_gflops: Some(12),
        };
        let said = serde_json::to_value(&model).unwrap();
        let made = document(0, &JobSpec { model: Some(model), hold: Some("never".into()), ..spec("a", &[]) }).unwrap();
        assert_eq!(serde_json::to_value(&made).unwrap(), serde_json::json!({ "id": "a", "model": said, "hold": "never" }));
    }

    #[test]
    fn a_bad_job_is_one_line_with_its_place() {
        let fabric = fabric::generate::cassini24().unwrap();
        let error = |spec: JobSpec| documents(&[spec]).and_then(|docs| definitions(&fabric, &docs)).unwrap_err();
        assert!(error(spec("a", &["h1", "moon"])).contains("unknown host \"moon\""));
        assert!(error(spec("a", &[])).contains("no hosts"));
        assert!(error(spec("../a", &["h1"])).contains("id: the name begins with a dot"));
        assert!(error(JobSpec { model: None, ..spec("a", &["h1", "h2"]) }).contains("exactly one of"));
        let hold = error(JobSpec { hold: Some("some\ntimes".into()), ..spec("a", &["h1", "h2"]) });
        assert_eq!(hold, "jobs[0] (\"a\"): hold: \"some\\ntimes\"; expected auto, phases or never");
        let junk = error(JobSpec { model: None, profile: Some("{\n\"x\"".into()), ..spec("a", &["h1"]) });
        assert!(junk.contains("profile") && !junk.contains('\n'), "{junk}");
        let long = error(spec(&"x".repeat(10_000), &["h1"]));
        assert!(long.len() < 2 * store::PROBLEM_BYTES_MAX, "{long}");
    }
}
