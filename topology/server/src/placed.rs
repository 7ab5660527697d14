//! A job's document on the GPUs that it gets.

use std::sync::Arc;

use job::JobDoc;
use state::scheduler::Submission;

use crate::resolve;

/// The document of a submission on these hosts, with so many GPUs of each: as it was learned, where that was on as many hosts, else as it was
/// declared.
///
/// # Errors
/// As [`placed`].
pub(crate) fn submitted(submission: &Submission, place: &[(String, u32)]) -> Result<JobDoc, String> {
    let learned = submission.learned.as_ref().and_then(|learned| learned.get::<JobDoc>());
    let hosts = |doc: &Arc<JobDoc>| doc.hosts.as_ref().map_or(0, Vec::len);
    match learned.filter(|doc| hosts(doc) == place.len()) {
        // A job that was learned counts as one rank on each host, however many GPUs it has there.
        Some(doc) => Ok(JobDoc { hosts: Some(names(place)), ..(*doc).clone() }),
        None => placed(&*resolve::kept(&submission.name, &submission.spec.document)?, place),
    }
}

fn names(place: &[(String, u32)]) -> Vec<String> {
    place.iter().map(|(host, _)| host.clone()).collect()
}

/// The document of a job on these hosts, with so many GPUs of each.
///
/// # Errors
/// The plan knows jobs with as many ranks on each host, but the last, which may have fewer.
pub(crate) fn placed(doc: &JobDoc, place: &[(String, u32)]) -> Result<JobDoc, String> {
    let Some(&(_, per_host)) = place.first() else { return Err("it has no hosts".into()) };
    let whole = &place[..place.len() - 1];
    // Of a job that is still to be learned nothing is said of its ranks.
    if resolve::has_profile(doc)
        && let Some((host, gpus)) = whole.iter().find(|(_, gpus)| *gpus != per_host)
    {
        return Err(format!("it has {per_host} GPUs of {:?} and {gpus} of {host:?}; only the last host may have fewer", place[0].0));
    }
    let mut doc = JobDoc { hosts: Some(names(place)), ..doc.clone() };
    let ranks = place.iter().map(|(_, gpus)| gpus).sum();
    if let Some(model) = &mut doc.model {
        (model.ranks, model.gpus_per_host) = (Some(ranks), Some(per_host));
    }
    if let Some(profile) = &mut doc.profile {
        profile.ranks.gpus_per_host = per_host;
    }
    Ok(doc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_stands_with_as_many_ranks_on_each_host_but_the_last() {
        let doc = JobDoc::parse("{id: a, model: {name: vgg16}}").unwrap();
        let at = |gpus: &[u32]| {
            let place: Vec<(String, u32)> = gpus.iter().enumerate().map(|(at, gpus)| (format!("h{at}"), *gpus)).collect();
            placed(&doc, &place).map(|doc| (doc.hosts.unwrap().len(), doc.model.unwrap()))
        };
        let (hosts, model) = at(&[8, 8, 4]).unwrap();
        assert_eq!((hosts, model.ranks, model.gpus_per_host), (3, Some(20), Some(8)));
        assert_eq!(at(&[8, 4, 4]).unwrap_err(), "it has 8 GPUs of \"h0\" and 4 of \"h1\"; only the last host may have fewer");
        assert!(at(&[]).is_err());
        let unknown = JobDoc::parse("{id: a, learn: true}").unwrap();
        assert!(placed(&unknown, &[("h0".into(), 8), ("h1".into(), 4), ("h2".into(), 4)]).is_ok());
        let fabric = fabric::generate::cassini24().unwrap();
        let doc = placed(&doc, &[("h1".into(), 2), ("h2".into(), 1)]).unwrap();
        let made = resolve::definitions(&fabric, &[Arc::new(doc)]).unwrap();
        assert_eq!((made[0].job.gpus, made[0].placement.ranks.len()), (3, 3));
    }
}
