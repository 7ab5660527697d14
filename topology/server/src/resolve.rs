//! Jobs as sent, made into jobs on a fabric: what `job` reads from files, read from messages.

use fabric::Fabric;
use job::{JobDoc, Reader};
use proto::v1alpha1::JobSpec;
use state::JobDefinition;
use units::OneLine;

/// The document of a job. Hosts that are not given are absent in it, not an empty list.
///
/// # Errors
/// One line that names the job, the key and the value.
pub(crate) fn document(index: usize, spec: &JobSpec) -> Result<JobDoc, String> {
    let refuse = |problem: &dyn std::fmt::Display| format!("jobs[{index}] ({:?}): {}", cut(&spec.id), one_line(problem));
    units::check_name(&spec.id).map_err(|problem| refuse(&format!("id: {problem}")))?;
    let mut value = serde_json::to_value(spec).map_err(|e| refuse(&format!("profile: {e}")))?;
    if let Some(map) = value.as_object_mut().filter(|_| spec.hosts.is_empty()) {
        map.remove("hosts");
    }
    serde_json::from_value(value).map_err(|e| refuse(&e))
}

/// Jobs to commit: each placed.
///
/// # Errors
/// One line that names the first job that cannot be taken, the key and the value.
pub(crate) fn definitions(fabric: &Fabric, specs: &[JobSpec]) -> Result<Vec<JobDefinition>, String> {
    let docs = specs.iter().enumerate().map(|(i, spec)| document(i, spec)).collect::<Result<Vec<_>, _>>()?;
    on_fabric(fabric, &docs)
}

/// The same jobs from the documents that were kept, on another fabric or after a restart.
///
/// # Errors
/// As [`definitions`].
pub(crate) fn again<'a>(fabric: &Fabric, documents: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Vec<JobDefinition>, String> {
    let read = |(name, text): (&str, &str)| serde_json::from_str(text).map_err(|e| format!("job {name:?}: {e}"));
    on_fabric(fabric, &documents.map(read).collect::<Result<Vec<JobDoc>, _>>()?)
}

fn on_fabric(fabric: &Fabric, docs: &[JobDoc]) -> Result<Vec<JobDefinition>, String> {
    let mut reader = Reader::new(fabric, NO_FILES);
    for doc in docs {
        reader.job(doc, None).map_err(|e| one_line(&e))?;
    }
    let (jobs, placements) = reader.finish();
    let one = |((job, placement), doc): ((job::Job, job::Placement), &JobDoc)| {
        let document = serde_json::to_string(doc).map_err(|e| format!("job {:?}: {e}", doc.id))?;
        Ok(JobDefinition { job, placement, hosts: doc.hosts.clone().unwrap_or_default(), document })
    };
    jobs.into_iter().zip(placements).zip(docs).map(one).collect()
}

/// Messages carry their profiles; a path would be a path of this machine.
pub(crate) const NO_FILES: &job::ReadFile<'static> = &|_| Err("files are not read for clients".into());

/// On one line, and cut: documents put line ends into names.
pub(crate) fn one_line(text: &dyn std::fmt::Display) -> String {
    cut(&OneLine(text).to_string()).to_owned()
}

/// Longest problem that is sent or logged whole, in bytes: a document may hold a value of any length.
const PROBLEM_BYTES_MAX: usize = 600;

fn cut(text: &str) -> &str {
    let end = (0..=PROBLEM_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::v1alpha1::Model;

    fn spec(id: &str, hosts: &[&str]) -> JobSpec {
        let model = Some(Model { name: "vgg16".into(), batch: Some(1_700), ..Model::default() });
        JobSpec { id: id.into(), model, profile: None, hosts: hosts.iter().map(|h| (*h).to_owned()).collect() }
    }

    #[test]
    fn a_job_survives_its_document() {
        let fabric = fabric::generate::cassini24().unwrap();
        let made = definitions(&fabric, &[spec("a", &["h1", "h2"]), spec("b", &["h3", "h5"])]).unwrap();
        assert_eq!(made[0].hosts, ["h1", "h2"]);
        let kept = made.iter().map(|d| (d.job.name.as_str(), d.document.as_str()));
        assert_eq!(again(&fabric, kept).unwrap(), made);
    }

    #[test]
    fn a_bad_job_is_one_line_with_its_place() {
        let fabric = fabric::generate::cassini24().unwrap();
        let error = |spec: JobSpec| definitions(&fabric, &[spec]).unwrap_err();
        assert!(error(spec("a", &["h1", "moon"])).contains("unknown host \"moon\""));
        assert!(error(spec("a", &[])).contains("no hosts"));
        assert!(error(spec("../a", &["h1"])).contains("id: only letters"));
        assert!(error(JobSpec { model: None, ..spec("a", &["h1", "h2"]) }).contains("exactly one of"));
        let junk = error(JobSpec { model: None, profile: Some("{\n\"x\"".into()), ..spec("a", &["h1"]) });
        assert!(junk.contains("profile") && !junk.contains('\n'), "{junk}");
        let long = error(spec(&"x".repeat(10_000), &["h1"]));
        assert!(long.len() < 2 * PROBLEM_BYTES_MAX, "{long}");
    }
}
