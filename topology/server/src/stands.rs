//! Where jobs stand, for those who join what ports count with jobs.

use std::time::Duration;

use job::Job;

use crate::{
    FabricClock,
    congestion::Stand,
    controller::{ControllerHandle, JobView, Snapshot},
    telemetry::TelemetryHandle,
};

/// How often is looked whether jobs stand elsewhere.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells the counters where jobs stand, until it is stopped.
pub(crate) async fn follow(controller: ControllerHandle, telemetry: TelemetryHandle, clock: FabricClock) {
    let mut looked = None;
    loop {
        let Ok(snapshot) = controller.snapshot().await else { return };
        // Jobs are the same as long as plan and fabric are.
        let is_now = Some((snapshot.plan_version, snapshot.fabric.as_ref().map(|fabric| fabric.version)));
        if is_now != looked {
            looked = is_now;
            telemetry.follow(clock.now(), stands(&snapshot));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn stands(snapshot: &Snapshot) -> impl Iterator<Item = Stand> + '_ {
    snapshot.jobs.iter().filter_map(stand)
}

/// Of a job that sends: on one host there is nobody to send to.
fn stand(view: &JobView) -> Option<Stand> {
    let hosts = &view.definition.hosts;
    (hosts.len() > 1).then(|| Stand { job: view.definition.job.name.clone(), hosts: hosts.clone(), mbps: mbps(&view.definition.job) })
}

fn mbps(job: &Job) -> Option<f64> {
    let sent: f64 = job.phases.iter().map(|phase| phase.end.0.saturating_sub(phase.start.0) as f64 * phase.rate.mbps() as f64).sum();
    Some(sent / job.period.0 as f64).filter(|mbps| mbps.is_finite() && *mbps > 0.0)
}
