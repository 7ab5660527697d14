//! The life of the agent's connection: call, live, lose, wait, call again.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::{
    ConnectError, LinkState, SessionConfig, SessionStats,
    backoff::{Backoff, random},
    connect::{Said, connect},
    ends::Ends,
    live,
};

/// What ended a wait.
enum Woken {
    Shutdown,
    Again,
}

pub(super) async fn run(config: SessionConfig, mut ends: Ends, shutdown: impl Future<Output = ()>) {
    tokio::pin!(shutdown);
    let mut backoff = Backoff::default();
    // By it the service tells this agent that comes again from another one that has its host's name.
    let instance = random();
    loop {
        // The version is read at each attempt: the Hello says what is on the pages now.
        let said = Said { plan_version: ends.plan_version, instance };
        let connected = tokio::select! {
            () = &mut shutdown => return,
            () = drain(&mut ends) => return,
            connected = connect(&config, said) => connected,
        };
        let error = match connected {
            Ok(admitted) => {
                SessionStats::add(&ends.stats.admitted);
                tracing::info!(service = config.service, "connected");
                ends.link.send_replace(LinkState::Up(admitted.pace));
                let begun = Instant::now();
                let ended = live::run(admitted, &mut ends, &mut shutdown).await;
                // A session that ends at once counts as a failure, so a service that admits and drops does not get calls without a pause.
                backoff.lasted(begun.elapsed());
                match ended {
                    live::Ended::Shutdown => {
                        ends.link.send_replace(LinkState::Down { reason: "the agent is stopping".into() });
                        return;
                    }
                    // The files are new, not the service: no reason to wait.
                    live::Ended::Reload => continue,
                    live::Ended::Lost(error) => error,
                }
            }
            Err(error) => {
                SessionStats::add(&ends.stats.failed);
                error
            }
        };
        match pause(&mut backoff, &error, &mut ends, &mut shutdown).await {
            Woken::Shutdown => return,
            Woken::Again => {}
        }
    }
}

async fn pause(backoff: &mut Backoff, error: &ConnectError, ends: &mut Ends, shutdown: &mut (impl Future<Output = ()> + Unpin)) -> Woken {
    // The cap on the wait is the backoff's; a reload of the files or a stop ends it early.
    let wait = backoff.wait(error.is_hopeless(), random());
    tracing::warn!(%error, wait_ms = wait.as_millis() as u64, "no session with the service");
    ends.link.send_replace(LinkState::Down { reason: error.to_string().into() });
    let reload = Arc::clone(&ends.reload);
    tokio::select! {
        () = shutdown => Woken::Shutdown,
        () = drain(ends) => Woken::Shutdown,
        () = reload.notified() => Woken::Again,
        () = sleep(wait) => Woken::Again,
    }
}

/// Without a session there is nobody to tell: reports would be old before they arrive. Ends when the agent has let go of us.
async fn drain(ends: &mut Ends) {
    loop {
        tokio::select! {
            frame = ends.frames.recv() => {
                let Some(frame) = frame else { return };
                ends.note(&frame);
                SessionStats::add(&ends.stats.frames_dropped);
            }
            Some(_) = ends.telemetry.recv() => SessionStats::add(&ends.stats.telemetry_dropped),
            Some(_) = ends.notes.recv() => SessionStats::add(&ends.stats.notes_dropped),
            () = ends.plans.closed() => return,
        }
    }
}
