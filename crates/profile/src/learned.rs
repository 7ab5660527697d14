//! What was learned of a job (`antiphase.learned/v1`), as a profile of the job.

use alloc::{string::String, vec::Vec};

use serde::Deserialize;

use crate::{
    dims::{Dims, Scope},
    document::{DOCUMENT_BYTES_MAX, DocumentError, PhaseDocument, ProfileDocument, from_json, parse},
    profile::{Profile, Source, refuse},
    synth::{PERIOD_ROUND_NS, ROUND_NS},
};

/// The schema of what `profile learn`, `watch` and `import` print.
pub const LEARNED_SCHEMA: &str = "antiphase.learned/v1";

/// A document, of which only this is looked at.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

/// What is needed of a document; it says more, such as who recorded it.
#[derive(Deserialize)]
struct Learned {
    periodic: bool,
    #[serde(default)]
    why: String,
    #[serde(default)]
    period_ns: u64,
    #[serde(default)]
    confidence: f64,
    #[serde(default)]
    jitter: f64,
    #[serde(default)]
    iterations: u64,
    #[serde(default)]
    phases: Vec<LearnedPhase>,
}

#[derive(Deserialize)]
struct LearnedPhase {
    start_ns: u64,
    duration_ns: u64,
    rate_mbps: u64,
}

/// Reads the profile of a job on so many hosts: a profile as [`parse`] takes it, or what was learned of the job, which does not say how it
/// sends, and is taken for a ring over its hosts. `name` is the name of a profile that was learned.
///
/// Edges of what was learned are rounded ([`LearnedIteration::profile`]).
///
/// # Errors
/// [`DocumentError`] with the key path and the value.
pub fn parse_for(text: &str, name: &str, hosts: usize) -> Result<Profile, DocumentError> {
    // The size comes first, so no parser meets an unbounded text.
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(DocumentError::TooLarge { bytes: text.len() });
    }
    let json = text.trim_start_matches('\u{feff}');
    let is_learned = serde_json::from_str::<Head>(json).is_ok_and(|head| head.schema.as_deref() == Some(LEARNED_SCHEMA));
    if !is_learned {
        return parse(text);
    }
    let learned: Learned = from_json(text)?;
    if !learned.periodic {
        return Err(refuse("periodic", alloc::format!("false ({}); a job without a period has no profile", learned.why)).into());
    }
    let Learned { period_ns, jitter, confidence, iterations, phases, .. } = learned;
    let phase = |phase: &LearnedPhase| (phase.start_ns, phase.start_ns.saturating_add(phase.duration_ns), phase.rate_mbps);
    let phases = phases.iter().map(phase).collect();
    let found = LearnedIteration { period_ns, phases, variance: jitter, confidence, iterations };
    Ok(Profile::try_from(found.profile(name, hosts))?)
}

/// An iteration as it was learned, whoever learned it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearnedIteration {
    /// How long it takes.
    pub period_ns: u64,
    /// When the job sends, and how fast: start, end, and rate in Mbit/s.
    pub phases: Vec<(u64, u64, u64)>,
    /// Standard deviation of its length divided by its mean.
    pub variance: f64,
    /// 0 to 1.
    pub confidence: f64,
    /// How many were seen.
    pub iterations: u64,
}

impl LearnedIteration {
    /// The profile of a job on so many hosts: a ring over them, which is what most of what jobs send is.
    ///
    /// Edges are rounded to [`ROUND_NS`] and the period to [`PERIOD_ROUND_NS`], or to the former where it is short: jobs lock modulo the
    /// greatest common divisor of their periods.
    #[must_use]
    pub fn profile(&self, name: &str, hosts: usize) -> ProfileDocument {
        let round = |ns: u64, step: u64| ns.saturating_add(step / 2) / step * step;
        let step = if self.period_ns >= 100 * PERIOD_ROUND_NS { PERIOD_ROUND_NS } else { ROUND_NS };
        let period_ns = round(self.period_ns, step).max(step);
        let edge = |ns: u64| round(ns, ROUND_NS).min(period_ns);
        let phase = |&(start, end, rate_mbps): &(u64, u64, u64)| {
            let (start_ns, end_ns) = (edge(start), edge(end));
            let duration_ns = end_ns.saturating_sub(start_ns);
            PhaseDocument { start_ns, duration_ns, rate_mbps, collective: "ring".into(), scope: Scope::Data }
        };
        ProfileDocument {
            phases: self.phases.iter().map(phase).filter(|phase| phase.duration_ns > 0 && phase.rate_mbps > 0).collect(),
            ranks: Dims { dp: u32::try_from(hosts).unwrap_or(u32::MAX), ..Dims::default() },
            variance: self.variance,
            confidence: self.confidence,
            source: Source::Learned,
            iterations: self.iterations,
            ..ProfileDocument::declared(name, period_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{Nanos, Rate};

    use super::*;

    const LEARNED: &str = r#"{"schema": "antiphase.learned/v1", "periodic": true, "format": "kineto", "stalled": 0, "period_ns": 255137291,
        "confidence": 0.9, "jitter": 0.02, "iterations": 8, "origin_ns": 5,
        "phases": [{"start_ns": 0, "duration_ns": 20000250, "rate_mbps": 2399}, {"start_ns": 200000000, "duration_ns": 55137291, "rate_mbps": 7},
            {"start_ns": 100000000, "duration_ns": 9, "rate_mbps": 7}]}"#;

    #[test]
    fn what_was_learned_is_a_ring_over_the_hosts() {
        let profile = parse_for(LEARNED, "left", 3).unwrap();
        assert_eq!((profile.name(), profile.dims().dp, profile.source(), profile.iterations()), ("left", 3, Source::Learned, 8));
        assert_eq!((profile.period(), profile.confidence(), profile.variance()), (Nanos(255_000_000), 0.9, 0.02));
        let phases: Vec<_> = profile.phases().iter().map(|phase| (phase.start, phase.duration, phase.rate)).collect();
        let expected = [(0, 20_000_000, 2_399), (200_000_000, 55_000_000, 7)];
        assert_eq!(phases, expected.map(|(start, duration, rate)| (Nanos(start), Nanos(duration), Rate(rate))));
        // What it is written as is a profile like any other.
        assert_eq!(parse_for(&crate::to_json(&profile), "other", 2).unwrap(), profile);
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_value() {
        let said = |text: &str| parse_for(text, "left", 2).unwrap_err().to_string();
        let none = r#"{"schema": "antiphase.learned/v1", "periodic": false, "why": "the rate does not vary", "readings": 9}"#;
        assert_eq!(said(none), "periodic: false (the rate does not vary); a job without a period has no profile");
        assert!(said(&LEARNED.replace("2399", "-1")).starts_with("phases[0].rate_mbps: "), "{}", said(&LEARNED.replace("2399", "-1")));
        assert!(said(&LEARNED.replace("0.9", "1.9")).starts_with("confidence: "));
        assert!(said(&format!("{LEARNED}{}", " ".repeat(DOCUMENT_BYTES_MAX))).contains("a profile has at most"));
        assert!(said(&LEARNED.replace("learned/v1", "learned/v2")).starts_with("schema: "));
    }
}
