//! What the CASSINI paper's scheduler does with a component.
//!
//! Its rules, with one kindness. A ring crosses both directions of a cable, so two jobs that share one share two directed links, which
//! would close a loop between any two jobs. Links of equal capacity with equal demands therefore count as one, as the paper's drawings
//! have them. What is left is as published: a grid of five degrees, each link by itself, and no shifts where the graph has a loop.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use circle::{Mode, Options, Outcome, ProblemBuilder, Ticks, solve};
use units::{Nanos, Rate};

use super::component::Content;

/// Shifts by the paper's rules, and what they are worth.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Paper {
    /// Per job.
    pub(super) shifts: Vec<Nanos>,
    /// Scores of the links of two and more jobs, added up; each direction counts.
    pub(super) scores: f64,
    /// How many links these are.
    pub(super) links: usize,
}

/// Solves a component; `None` where its graph has a loop, or no circle.
///
/// # Errors
/// What cannot be stated as a problem.
pub(super) fn paper(content: &Content) -> Result<Option<Paper>, String> {
    let mut builder = ProblemBuilder::new();
    let refused = |e: circle::ProblemError| e.to_string();
    let jobs = content.jobs.iter().map(|job| builder.job(Ticks(job.period))).collect::<Result<Vec<_>, _>>().map_err(refused)?;
    // Equal links stand together, because those of a content are sorted; a link of one job has no score.
    let merged: Vec<_> = content.links.chunk_by(|a, b| a == b).filter(|links| links[0].1.len() > 1).collect();
    for links in &merged {
        let (capacity, demands) = &links[0];
        let members = demands.iter().map(|(job, phases)| builder.demand(jobs[*job as usize], phases));
        let members = members.collect::<Result<Vec<_>, _>>().map_err(refused)?;
        builder.link(Rate(*capacity), members).map_err(refused)?;
    }
    // A circle that does not exist is an outcome here, as a loop is: the paper has no shifts then.
    let Ok(solution) = solve(&builder.build(), &Options { mode: Mode::Cassini, ..Options::default() }) else { return Ok(None) };
    if solution.outcome != Outcome::Solved {
        return Ok(None);
    }
    // A job that only exceeds links by itself meets nobody: no link has a score, and no loop is there either.
    let scores = solution.links.iter().zip(&merged).map(|(link, links)| link.score * links.len() as f64).sum();
    let shifts = solution.shifts.iter().map(|shift| Nanos(shift.shift.0)).collect();
    Ok(Some(Paper { shifts, scores, links: merged.iter().map(|links| links.len()).sum() }))
}
