//! The last hour and day, sampled each minute and drawn on request.

use proto::v1alpha1 as pb;
use render::history::{SampleView, draw};
use units::Nanos;

use super::{Api, ApiError, beside, picture::WIDTH_DEFAULT};
use crate::{
    history::{History, STEP_S, Sample},
    tls::Who,
};

/// Longest time that can be drawn: what is kept.
pub(crate) const SPAN_MAX_S: u64 = 86_400;

impl Api {
    /// Keeps samples here from now on.
    pub(crate) fn keep_history(&self, history: History) {
        // Only the start of the program calls this, once.
        let _ = self.0.history.set(history);
    }

    /// Takes the sample of this minute.
    ///
    /// # Errors
    /// The service is stopping.
    pub(crate) async fn sample(&self) -> Result<(), ApiError> {
        let Some(history) = self.0.history.get().cloned() else { return Ok(()) };
        let (table, snapshot) = (self.0.controller.links().await?, self.snapshot().await?);
        let scores: Vec<f64> = table.links.iter().filter_map(|link| link.score).collect();
        // An iteration alone is a mean: a median, which is all that older agents tell, is none to compare with it.
        let now = |job: &pb::Job| job.iteration_mean_ns.filter(|_| job.solo_period_ns > 0);
        let over = |job: &pb::Job| now(job).map(|now| now as f64 / job.solo_period_ns as f64);
        let iterations: Vec<f64> = snapshot.jobs.iter().filter_map(|job| over(&job.message)).collect();
        let turns = self.0.controller.look_at_turns()?;
        let held = turns.groups.iter().flat_map(|group| &group.jobs).map(|job| job.held).filter(|held| held.count > 0);
        let waits: Vec<f64> = held.map(|held| held.mean_wait.0 as f64 / held.mean.0.max(1) as f64).collect();
        let now = self.0.clock.now();
        let [marks, cnps] = self.0.telemetry.sums(now, STEP_S, ["ecn_marked_rx", "cnp_tx"]).map(|sum| sum.map(|sum| sum / STEP_S as f64));
        let worst = scores.iter().copied().reduce(f64::min);
        let values = [mean(&scores), worst, mean(&iterations), marks, cnps, mean(&waits)];
        let sample = Sample { at_s: now.0 / Nanos::PER_SECOND / STEP_S * STEP_S, values };
        // The write waits for a disk, which no thread that serves requests may do.
        let _ = tokio::task::spawn_blocking(move || history.add(sample)).await;
        Ok(())
    }

    /// The last seconds as a picture: `alone`, or for a page that has the style sheet of pictures.
    ///
    /// # Errors
    /// The service is stopping.
    pub(crate) async fn history(&self, who: Option<Who>, span_s: u64, width: Option<u32>, alone: bool) -> Result<String, ApiError> {
        let now_s = self.0.clock.now().0 / Nanos::PER_SECOND;
        let samples = self.0.history.get().map(|history| history.last(now_s, span_s)).unwrap_or_default();
        let view = |sample: &Sample| {
            let [mean_score, worst_score, iteration, marks, cnps, waits] = sample.values;
            SampleView { ago_s: now_s.saturating_sub(sample.at_s), mean_score, worst_score, iteration, marks, cnps, waits }
        };
        let samples: Vec<SampleView> = samples.iter().map(view).collect();
        let width = f64::from(width.unwrap_or(WIDTH_DEFAULT));
        let drawn = beside(&self.0.drawing, who, move || draw(&samples, span_s, STEP_S, width)).await?;
        Ok(if alone { drawn.document() } else { drawn.unstyled() })
    }
}

/// The mean; none of nothing.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
