//! One admitted session, until it is lost.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{Buf, Bytes};
use prost::Message;
use proto::{
    datagram, frame,
    v1alpha1::{
        AgentDatagram, AgentFrame, Goodbye, HostPlan, ServiceDatagram, ServiceFrame, Telemetry, TurnNote, agent_frame, service_frame,
    },
};
use quinn::{Connection, SendStream, VarInt};
use tokio::time::{Instant, sleep_until, timeout};
use units::{FabricTime, NodeTime};

use super::{
    ConnectError, GOODBYE_WITHIN, QUICK_PROBE_INTERVAL, QUICK_PROBES, SessionStats,
    connect::{Admitted, READ_BYTES},
    ends::Ends,
};
use crate::clock::{ClockEstimator, Exchange, Taken};

/// Probes that may still be answered; an echo of an older one is too wide to help.
const PROBES_OPEN_MAX: usize = 16;

/// How a session ended.
pub(super) enum Ended {
    Shutdown,
    Reload,
    Lost(ConnectError),
}

/// What the loop does next.
enum Next {
    Datagram(Result<Bytes, quinn::ConnectionError>),
    Note(TurnNote),
    Control(Result<Option<quinn::Chunk>, quinn::ReadError>),
    Written(Result<usize, quinn::WriteError>),
    TelemetryWritten(Result<usize, quinn::WriteError>),
    Frame(Option<AgentFrame>),
    Telemetry(Telemetry),
    PlanTaken,
    Probe,
    Stop(Ended),
}

struct Live<'a> {
    ends: &'a mut Ends,
    connection: &'a Connection,
    pending: Bytes,
    telemetry: Option<SendStream>,
    telemetry_pending: Bytes,
    plan: Option<HostPlan>,
    estimator: ClockEstimator,
    probes: VecDeque<(u32, NodeTime)>,
    sequence: u32,
    probe_interval: Duration,
    probe_at: Instant,
}

pub(super) async fn run(admitted: Admitted, ends: &mut Ends, shutdown: &mut (impl Future<Output = ()> + Unpin)) -> Ended {
    let Admitted { endpoint, connection, mut send, mut recv, mut decoder, pace } = admitted;
    let reload = Arc::clone(&ends.reload);
    let mut live = Live::new(ends, &connection, pace.probe_interval);
    let ended = loop {
        // A plan may have come with the Welcome.
        if let Err(error) = live.frames(&mut decoder) {
            break Ended::Lost(error);
        }
        let next = tokio::select! {
            // The order is the priority. Echoes come early, because the time that one waits widens the interval of the clock; then
            // notes, because a job waits for the answer; telemetry comes last.
            biased;
            () = &mut *shutdown => Next::Stop(Ended::Shutdown),
            datagram = connection.read_datagram() => Next::Datagram(datagram),
            Some(note) = live.ends.notes.recv() => Next::Note(note),
            chunk = recv.read_chunk(READ_BYTES, true) => Next::Control(chunk),
            written = send.write(&live.pending), if !live.pending.is_empty() => Next::Written(written),
            permit = live.ends.plans.reserve(), if live.plan.is_some() => match (permit, live.plan.take()) {
                (Ok(permit), Some(plan)) => {
                    permit.send(plan);
                    Next::PlanTaken
                }
                _ => Next::Stop(Ended::Shutdown),
            },
            // A frame is taken only when the one before is written, so what waits is in the bounded channel and is counted there.
            frame = live.ends.frames.recv(), if live.pending.is_empty() => Next::Frame(frame),
            () = sleep_until(live.probe_at) => Next::Probe,
            () = reload.notified() => Next::Stop(Ended::Reload),
            written = write(&mut live.telemetry, &live.telemetry_pending) => Next::TelemetryWritten(written),
            Some(frame) = live.ends.telemetry.recv(), if live.telemetry_pending.is_empty() => Next::Telemetry(frame),
        };
        match next {
            Next::Control(Ok(Some(chunk))) => decoder.push(&chunk.bytes),
            Next::Stop(ended) => break ended,
            next => {
                if let Err(error) = live.turn(next).await {
                    break error;
                }
            }
        }
    };
    if !matches!(ended, Ended::Lost(_)) {
        let reason = if matches!(ended, Ended::Reload) { "new certificates" } else { "the agent is stopping" };
        goodbye(&mut send, &live.pending, reason).await;
    }
    drop(live);
    connection.close(VarInt::from_u32(0), b"");
    // A lost connection has nobody to wait for; the socket goes with the endpoint.
    let _ = timeout(GOODBYE_WITHIN, endpoint.wait_idle()).await;
    ended
}

impl<'a> Live<'a> {
    fn new(ends: &'a mut Ends, connection: &'a Connection, probe_interval: Duration) -> Self {
        Self {
            ends,
            connection,
            pending: Bytes::new(),
            telemetry: None,
            telemetry_pending: Bytes::new(),
            plan: None,
            // Anew for each session: a restarted service may have another clock by less than old samples can tell.
            estimator: ClockEstimator::default(),
            probes: VecDeque::with_capacity(PROBES_OPEN_MAX),
            sequence: 0,
            probe_interval,
            probe_at: Instant::now(),
        }
    }

    async fn turn(&mut self, next: Next) -> Result<(), Ended> {
        match next {
            Next::Datagram(datagram) => {
                let came = gate::now();
                self.heard(came, &datagram.map_err(|error| self.lost(&error))?);
            }
            Next::Note(note) => self.notes(note),
            Next::Control(Ok(None)) => return Err(self.lost(&"the service ended the stream")),
            Next::Control(Err(error)) => return Err(self.lost(&error)),
            Next::Written(written) => self.pending.advance(written.map_err(|error| self.lost(&error))?),
            Next::TelemetryWritten(written) => match written {
                Ok(bytes) => self.telemetry_pending.advance(bytes),
                Err(error) => return Err(self.lost(&error)),
            },
            Next::Frame(Some(frame)) => {
                self.ends.note(&frame);
                self.pending = self.encode(&frame);
            }
            Next::Frame(None) => return Err(Ended::Shutdown),
            Next::Telemetry(frame) => {
                // The stream begins with the first sample, because an agent that reads no port needs none.
                if self.telemetry.is_none() {
                    self.telemetry = self.open_now().await?;
                }
                if self.telemetry.is_some() {
                    self.telemetry_pending = self.encode(&frame);
                } else {
                    SessionStats::add(&self.ends.stats.frames_dropped);
                }
            }
            Next::Probe => self.probe(),
            Next::PlanTaken | Next::Control(Ok(Some(_))) | Next::Stop(_) => {}
        }
        Ok(())
    }

    /// A stream for telemetry, if the service takes one now. One that takes none must not keep the session, with its clock and its
    /// notes, waiting for it.
    async fn open_now(&self) -> Result<Option<SendStream>, Ended> {
        tokio::select! {
            biased;
            opened = self.connection.open_uni() => opened.map(Some).map_err(|error| self.lost(&error)),
            () = std::future::ready(()) => Ok(None),
        }
    }

    /// Empty for a frame that is too large to be read, which is dropped.
    fn encode(&self, frame: &impl Message) -> Bytes {
        frame::encode(frame).map_or_else(
            |error| {
                tracing::error!(%error, "a frame is dropped");
                SessionStats::add(&self.ends.stats.frames_dropped);
                Bytes::new()
            },
            Bytes::from,
        )
    }

    /// The connection's word about its end is closer to the truth than a stream's.
    fn lost(&self, error: &dyn std::fmt::Display) -> Ended {
        let reason = self.connection.close_reason().map_or_else(|| error.to_string(), |reason| reason.to_string());
        Ended::Lost(ConnectError::Ended(reason))
    }

    fn frames(&mut self, decoder: &mut frame::Decoder) -> Result<(), ConnectError> {
        while let Some(frame) = decoder.next::<ServiceFrame>().map_err(|error| ConnectError::Ended(error.to_string()))? {
            match frame.kind {
                // A newer plan replaces one that the agent has not taken yet.
                Some(service_frame::Kind::Plan(plan)) => self.plan = Some(plan),
                Some(service_frame::Kind::Refusal(refusal)) => {
                    return Err(ConnectError::Refused { reason: refusal.reason, retry: refusal.retry });
                }
                // A second welcome changes nothing; a kind that we do not know is from a newer service.
                Some(service_frame::Kind::Welcome(_)) | None => {}
            }
        }
        Ok(())
    }

    fn probe(&mut self) {
        let interval = if self.sequence < QUICK_PROBES { QUICK_PROBE_INTERVAL } else { self.probe_interval };
        // The next probe is due from now and not from when this one was due: after a stall one probe is enough.
        self.probe_at = Instant::now() + interval;
        if self.probes.len() == PROBES_OPEN_MAX {
            self.probes.pop_front();
        }
        // A number that wraps does no harm, as an echo has to match the stamp of its probe too.
        self.sequence = self.sequence.wrapping_add(1);
        let sent = gate::now();
        self.probes.push_back((self.sequence, sent));
        let probe = AgentDatagram { sequence: self.sequence, sent_ns: sent.0, notes: Vec::new() }.encode_to_vec();
        // A probe that finds no room counts as lost: the next one comes in an interval.
        let _ = self.connection.send_datagram(probe.into());
    }

    /// Sends this note, and those that came with it, in as few datagrams as they fit in.
    fn notes(&mut self, first: TurnNote) {
        let mut waiting = VecDeque::from([first]);
        // The channel's room bounds the loop.
        while let Ok(note) = self.ends.notes.try_recv() {
            waiting.push_back(note);
        }
        let count = waiting.len();
        // A peer that takes no datagrams takes no turns.
        let bytes = self.connection.max_datagram_size().unwrap_or(0);
        let mut sent = 0;
        while !waiting.is_empty() {
            let notes = datagram::pack(&mut waiting, bytes);
            let packed = notes.len();
            let datagram = AgentDatagram { notes, ..AgentDatagram::default() }.encode_to_vec();
            // A note that finds no room is as good as lost: whoever wrote it repeats it.
            if packed > 0 && self.connection.send_datagram(datagram.into()).is_ok() {
                sent += packed;
            }
        }
        SessionStats::add_many(&self.ends.stats.notes_sent, sent);
        SessionStats::add_many(&self.ends.stats.notes_dropped, count - sent);
    }

    fn heard(&mut self, came: NodeTime, datagram: &[u8]) {
        let Some(mut datagram) = datagram::from_service(datagram) else { return };
        for order in datagram.orders.drain(..) {
            SessionStats::add(&self.ends.stats.orders);
            // An order that finds no room is lost like any other datagram.
            let _ = self.ends.orders.try_send(order);
        }
        self.echo(came, &datagram);
    }

    fn echo(&mut self, came: NodeTime, echo: &ServiceDatagram) {
        // Datagrams come late, twice or not at all: one that answers no open probe says nothing of the clock.
        let Some(at) = self.probes.iter().position(|&(sequence, sent)| (sequence, sent.0) == (echo.sequence, echo.sent_ns)) else { return };
        // The probe goes with its first echo, so an echo that comes twice counts once.
        let Some((_, sent)) = self.probes.remove(at) else { return };
        let stamps = Exchange { sent, received: FabricTime(echo.received_ns), echoed: FabricTime(echo.echoed_ns), came };
        match self.estimator.take(&stamps) {
            Taken::Agrees => {}
            Taken::Restarted => {
                SessionStats::add(&self.ends.stats.clock_restarts);
                tracing::warn!("a clock stepped; its offset was learned anew");
            }
            taken @ (Taken::Contradicts | Taken::Impossible) => tracing::warn!(?taken, ?stamps, "a clock sample is strange"),
        }
        // The estimate leaves after a strange sample as well, because its wider bound is what lets gates go.
        if let Some(estimate) = self.estimator.estimate(came) {
            self.ends.clock.send_replace(Some(estimate));
        }
    }
}

/// Writes on, or waits for ever when there is nothing to write.
async fn write(stream: &mut Option<SendStream>, pending: &Bytes) -> Result<usize, quinn::WriteError> {
    match stream {
        Some(stream) if !pending.is_empty() => stream.write(pending).await,
        _ => std::future::pending().await,
    }
}

async fn goodbye(send: &mut SendStream, pending: &[u8], reason: &str) {
    let frame = AgentFrame { kind: Some(agent_frame::Kind::Goodbye(Goodbye { reason: reason.to_owned() })) };
    let frame = frame::encode(&frame).unwrap_or_default();
    let said = async {
        // The rest of the frame in hand goes first: behind half a frame the goodbye could not be read.
        if send.write_all(pending).await.is_ok() && send.write_all(&frame).await.is_ok() && send.finish().is_ok() {
            let _ = send.stopped().await;
        }
    };
    // A service that does not hear the goodbye finds out by the silence.
    let _ = timeout(GOODBYE_WITHIN, said).await;
}
