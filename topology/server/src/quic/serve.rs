//! The endpoint's loop: connections in, one task each, until the shutdown.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use proto::v1alpha1::{Refusal, ServiceFrame, service_frame};
use quinn::{Connection, Endpoint, Incoming, SendStream};
use state::{Event, Origin, SessionId};
use tokio::{task::JoinSet, time::timeout};

use super::{
    CloseCode, End, FAREWELL_WITHIN, HANDSHAKE_WITHIN, HELLO_WITHIN, Outbox, SHUTDOWN_WITHIN, Seams, Settings, Shared,
    convert::shortened,
    endpoint::server_config,
    hello::{self, Failed},
    limits::{Door, Handshake, Hellos, Verdict},
    live::Live,
};
use crate::{
    lines::LineLimit,
    tls::{Authorities, Tls},
};

/// Lines about agents that come and go: all of a thousand that come back together, and 60 kB a second from those that never stop.
static LINES: LineLimit = LineLimit::new(2_000, Duration::from_secs(10));
/// Lines about agents that are refused: one that is refused without end fills no log, and hides no line about others.
static REFUSED: LineLimit = LineLimit::new(20, Duration::from_secs(10));

/// Serves agents until `shutdown`; then every session is told so and ended, and the endpoint is closed.
pub async fn serve(endpoint: Endpoint, tls: Arc<Tls>, seams: Seams, settings: Settings, shutdown: impl Future<Output = ()>) {
    let door = Door::default();
    // The copy is made before the configuration is set: a handshake never asks authorities that are older than its session has seen.
    let mut authorities = tls.authorities();
    let mut reloads = tls.reloads();
    endpoint.set_server_config(Some(server_config(&tls, &settings)));
    let mut sessions = JoinSet::new();
    let shared = Arc::new(Shared { hellos: Hellos::default(), seams, settings, tls, next_session: AtomicU64::new(1) });
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            // Taken off as they end, so that the set holds live ones only.
            Some(ended) = sessions.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a session failed; this is a bug");
                }
            }
            Ok(()) = reloads.changed() => {
                // Sessions that begin from here on handshake with the new authorities; earlier sessions are told by their own copy.
                authorities.see();
                endpoint.set_server_config(Some(server_config(&shared.tls, &shared.settings)));
            }
            incoming = endpoint.accept() => {
                // The endpoint accepts nothing more once it is closed.
                let Some(incoming) = incoming else { break };
                if let Some((incoming, handshake)) = admit(&endpoint, &door, &shared, incoming) {
                    sessions.spawn(connect(Arc::clone(&shared), authorities.clone(), incoming, handshake));
                }
            }
        }
    }
    // The close ends every session at its next read; `SHUTDOWN_WITHIN` bounds the wait for those that do not notice.
    endpoint.close(CloseCode::Stopping.into(), b"the service is stopping");
    let ended = timeout(SHUTDOWN_WITHIN, async {
        while sessions.join_next().await.is_some() {}
        endpoint.wait_idle().await;
    });
    if ended.await.is_err() {
        tracing::warn!(sessions = sessions.len(), "sessions did not end in time and are dropped");
    }
}

fn admit(endpoint: &Endpoint, door: &Door, shared: &Shared, incoming: Incoming) -> Option<(Incoming, Handshake)> {
    let stats = &shared.seams.stats;
    // The attempt is judged before its handshake, which takes about 1 ms of a core (`HANDSHAKES_MAX`).
    let full = endpoint.open_connections() >= shared.settings.sessions_max;
    // quinn: an address that is not validated may always be retried, so an attempt that may not be is proven.
    let proven = incoming.remote_address_validated() || !incoming.may_retry();
    match door.judge(incoming.remote_address().ip(), proven) {
        Verdict::Admit(handshake) if !full => return Some((incoming, handshake)),
        Verdict::Retry if !full => {
            stats.retried.add();
            // The retry fails only for an attempt that may not be retried, and such an attempt counts as proven.
            let _ = incoming.retry();
        }
        _ => {
            stats.turned_away.add();
            // A refused agent hears so at once and does not wait for its own timeout.
            incoming.refuse();
        }
    }
    None
}

/// From the first packet to the end of the session.
async fn connect(shared: Arc<Shared>, authorities: Authorities, incoming: Incoming, handshake: Handshake) {
    let from = incoming.remote_address();
    let connection = match incoming.accept() {
        // A peer may send a first packet and then nothing: the place at the door is free again after `HANDSHAKE_WITHIN`.
        Ok(connecting) => match timeout(HANDSHAKE_WITHIN, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it took too long".to_owned()),
        },
        Err(error) => Err(error.to_string()),
    };
    match connection {
        Ok(connection) => session(&shared, authorities, &connection, handshake).await,
        Err(error) => {
            shared.seams.stats.handshakes_failed.add();
            tracing::debug!(%from, error, "a handshake failed");
        }
    }
}

async fn session(shared: &Shared, authorities: Authorities, connection: &Connection, handshake: Handshake) {
    let from = connection.remote_address();
    // The handshake still counts at the door until the hello is in: who never says hello holds a place for seconds only.
    let opened = timeout(HELLO_WITHIN, hello::hello(connection)).await;
    let opened = opened.unwrap_or_else(|_| Err(Failed::Ended(End::refused("no hello in time", true))));
    let (control, said) = match opened {
        Ok(opened) => opened,
        Err(failed) => return turn_away(shared, connection, failed).await,
    };
    let admitted = hello::identity(connection, shared.tls.admission())
        .and_then(|identity| hello::admit(&said, identity.as_ref(), &shared.settings).map(|(welcome, host)| (identity, welcome, host)));
    let (identity, welcome, host) = match admitted {
        Ok(admitted) => admitted,
        Err(end) => return turn_away(shared, connection, Failed::Refused(control.send, end)).await,
    };
    if !shared.hellos.take(identity.as_ref().map(|who| who.digest), &host, Instant::now()) {
        let end = End::refused(format!("host {host} said hello too often; wait some seconds"), true);
        return turn_away(shared, connection, Failed::Refused(control.send, end)).await;
    }
    // From here on `sessions_max` bounds the session; the place at the door is for the next one.
    drop(handshake);

    let session = SessionId(shared.next_session.fetch_add(1, Ordering::Relaxed));
    let (outbox, inbox) = Outbox::new();
    let controller = &shared.seams.controller;
    shared.seams.stats.admitted.add();
    LINES.say(|dropped| tracing::info!(session = session.0, %host, %from, version = %said.version, dropped, "an agent said hello"));
    // The outbox comes before the hello: the first plan is the answer to the hello and must find where to go.
    controller.register(session, outbox);
    let turns = controller.turns();
    if let Some(turns) = &turns {
        turns.session(session, Arc::clone(&host), connection.clone());
    }
    let origin = Origin { instance: said.instance, from: from.ip().to_canonical().to_string() };
    let (version, ports, plan_version) = (said.version, said.ports, said.plan_version);
    let event = Event::AgentHello { session, host: host.to_string(), version, ports, plan_version, origin };
    let mut live = Live::new(shared, authorities, connection, session, &host, control, inbox);
    live.expires = identity.map(|who| who.expires());
    // The welcome is queued before the controller hears of the session, so it is the first frame that the agent reads.
    live.send(ServiceFrame { kind: Some(service_frame::Kind::Welcome(welcome)) });
    let end = match controller.tell(event).await {
        Ok(()) => live.run().await,
        Err(gone) => End::new(CloseCode::Stopping, gone.to_string()),
    };
    let control = live.into_control();
    if let Some(turns) = &turns {
        turns.gone(session);
    }
    // The controller may be gone; then there is nobody to tell.
    let _ = controller.tell(Event::AgentGone { session }).await;
    shared.seams.stats.ended.add();
    // These ends are the agent's fault or its network's, and people should see them; the others are everyday.
    if matches!(end.code, CloseCode::Flood | CloseCode::Malformed | CloseCode::Silent) {
        shared.seams.stats.cut.add();
        LINES.say(|dropped| tracing::warn!(session = session.0, %host, %from, reason = end.reason, dropped, "an agent was cut"));
    } else {
        LINES.say(|dropped| tracing::info!(session = session.0, %host, reason = end.reason, dropped, "a session ended"));
    }
    close(connection, Some(control), &end).await;
}

async fn turn_away(shared: &Shared, connection: &Connection, failed: Failed) {
    let (send, end) = match failed {
        Failed::Refused(send, end) => (Some(send), end),
        Failed::Ended(end) => (None, end),
    };
    shared.seams.stats.refused.add();
    REFUSED.say(|dropped| tracing::warn!(from = %connection.remote_address(), reason = end.reason, dropped, "an agent was refused"));
    close(connection, send, &end).await;
}

/// Closes with a reason, which an agent that is to hear it gets as a frame first.
async fn close(connection: &Connection, send: Option<SendStream>, end: &End) {
    if let (Some(mut send), Some(retry)) = (send, end.farewell) {
        let refusal = Refusal { reason: end.reason.clone(), retry };
        let frame = proto::frame::encode(&ServiceFrame { kind: Some(service_frame::Kind::Refusal(refusal)) }).unwrap_or_default();
        let farewell = async {
            // A peer that is gone hears nothing, which is as well.
            if send.write_all(&frame).await.is_ok() && send.finish().is_ok() {
                let _ = send.stopped().await;
            }
        };
        // The refusal is a courtesy: an agent that does not read cannot hold the connection longer than this.
        let _ = timeout(FAREWELL_WITHIN, farewell).await;
    }
    connection.close(end.code.into(), shortened(&end.reason).as_bytes());
}
