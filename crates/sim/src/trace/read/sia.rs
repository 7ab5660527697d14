//! Sia: workloads of its artifact (siasosp23/artifacts; Jayaram Subramanya et al., SOSP 2023), as tuned jobs.
//!
//! Columns: `name`, `time` (s), `application`, `num_replicas` (GPUs), `batch_size` (of all replicas together). The jobs are elastic there; here
//! each has the GPUs and the batch of its row, as the artifact gives them to schedulers that do not adapt them.
//!
//! The rows do not say how long a job runs. Its iterations are those that the artifact counted until the goal with such a batch. How long
//! one takes is fitted by us to the artifact's measurements on V100 GPUs, eight to a host, and differs from them by 2 to 17 % at the median:
//! computing grows with the samples of a replica, in several passes where these do not fit in a GPU; sending grows with the replicas up to a host,
//! and stays there.

use alloc::string::ToString as _;

use policy::muri::{Profile, RESTART_S, Stages};

use super::{
    super::{Trace, TraceError, TraceJob},
    gather::{Gathered, MS},
    table::Row,
    timed::{SECONDS, SECONDS_RANGE},
};

const COLUMNS: [&str; 5] = ["name", "time", "application", "num_replicas", "batch_size"];

/// Replicas on a host, at which the time of sending was taken.
const HOST: f64 = 8.0;

/// What was measured of an application.
struct Application {
    name: &'static str,
    /// A pass takes this long, in milliseconds,
    pass_ms: f64,
    /// and as much longer for each sample of a replica.
    sample_ms: f64,
    /// Most samples of a replica in one pass.
    samples_max: u32,
    /// Sending, with eight replicas on one host.
    send_ms: f64,
    /// Iterations until the goal, by batch.
    iterations: &'static [(u32, u32)],
}

/// Fits to `placements-azure.csv` and `scalability-azure.csv`, and iterations from `validation-*.csv`.
const APPLICATIONS: [Application; 5] = [
    Application {
        name: "cifar10",
        pass_ms: 45.75,
        sample_ms: 0.181,
        samples_max: 3_072,
        send_ms: 51.5,
        iterations: &[(128, 39_062), (256, 20_377), (512, 10_615), (1_024, 5_722), (2_048, 3_178), (4_096, 2_011)],
    },
    Application {
        name: "bert",
        pass_ms: 114.91,
        sample_ms: 20.486,
        samples_max: 36,
        send_ms: 656.9,
        iterations: &[(12, 14_774), (24, 7_427), (48, 3_732), (96, 1_885), (192, 940), (384, 480)],
    },
    Application {
        name: "deepspeech2",
        pass_ms: 351.51,
        sample_ms: 9.957,
        samples_max: 240,
        send_ms: 134.7,
        iterations: &[(20, 28_536), (40, 14_711), (80, 7_683), (160, 4_041), (320, 2_264), (640, 1_423)],
    },
    Application {
        name: "imagenet",
        pass_ms: 98.29,
        sample_ms: 1.3135,
        samples_max: 600,
        send_ms: 331.7,
        iterations: &[(200, 576_525), (400, 292_995), (800, 150_231), (1_600, 78_453), (3_200, 42_123), (6_400, 23_972), (12_800, 14_461)],
    },
    Application {
        name: "yolov3",
        pass_ms: 182.14,
        sample_ms: 10.72,
        samples_max: 24,
        send_ms: 416.3,
        iterations: &[(8, 103_444), (16, 52_905), (32, 27_430), (64, 14_577), (128, 8_075), (256, 4_809), (512, 3_143)],
    },
];

/// What an error says of the applications; NeuMF has only a number of epochs in the artifact, and no iterations.
const APPLICATIONS_SAID: &str =
    "cifar10, bert, deepspeech2, imagenet or yolov3 (elastic policies play ncf, too: its iterations are not known)";

impl Application {
    /// Computing and sending of an iteration, in milliseconds.
    fn times_ms(&self, replicas: u32, batch: u32) -> (f64, f64) {
        let samples = batch.div_ceil(replicas);
        let passes = f64::from(samples.div_ceil(self.samples_max));
        let compute = passes * self.pass_ms + self.sample_ms * f64::from(samples);
        (compute, self.send_ms * ((f64::from(replicas) - 1.0) / (HOST - 1.0)).min(1.0))
    }
}

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let take = |gathered: &mut Gathered, row: &Row<'_>| job(row).and_then(|(job, profile)| gathered.push(job, profile));
    Gathered::of_rows(text, &COLUMNS, COLUMNS.len(), take)?.done(text)
}

fn job(row: &Row<'_>) -> Result<(TraceJob, Profile), TraceError> {
    let (id, line) = (row.name(0)?.to_string(), row.line);
    let submitted_s = row.number(1, SECONDS_RANGE.0, SECONDS_RANGE.1, SECONDS)?;
    let name = row.given(2).unwrap_or_default();
    let application = APPLICATIONS.iter().find(|application| application.name == name);
    let application = application.ok_or_else(|| row.bad(2, APPLICATIONS_SAID))?;
    let (gpus, batch) = (row.whole(3)?, row.whole(4)?);
    let iterations = application.iterations.iter().find(|(of, _)| *of == batch).map(|(_, iterations)| f64::from(*iterations));
    let iterations = iterations.ok_or_else(|| row.bad(4, "a batch whose iterations the artifact counted for this application"))?;
    let (compute_ms, up_ms) = application.times_ms(gpus, batch);
    let iteration_ms = compute_ms + up_ms;
    let stages = Stages { load_s: 0.0, gpu_s: compute_ms / MS, net_s: up_ms / MS };
    let profile = Profile::try_new(iteration_ms / MS, stages, RESTART_S).map_err(|source| TraceError::Profile { line, source })?;
    let job = TraceJob {
        id,
        line,
        gpus,
        gpus_max: gpus,
        submitted_s,
        declared_s: iterations * iteration_ms / MS,
        iterations,
        iteration_ms,
        profile: 0,
        opportunistic: false,
        weight: 1,
        traffic: None,
        up_ms: Some(up_ms),
        model: Some(name.to_string()),
    };
    Ok((job, profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_computes_in_passes_and_sends_as_replicas_do() {
        let bert = &APPLICATIONS[1];
        // 384 samples on 12 GPUs are 32 each: one pass. On 4 GPUs they are 96: three passes.
        let (compute, send) = bert.times_ms(12, 384);
        assert!((compute - (114.91 + 20.486 * 32.0)).abs() < 1e-9 && (send - 656.9).abs() < 1e-9);
        let (compute, send) = bert.times_ms(4, 384);
        assert!((compute - (3.0 * 114.91 + 20.486 * 96.0)).abs() < 1e-9 && (send - 656.9 * 3.0 / 7.0).abs() < 1e-9);
        assert_eq!(bert.times_ms(1, 12).1, 0.0, "alone it sends to nobody");
    }
}
