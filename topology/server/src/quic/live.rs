//! One admitted session: what comes from the agent, what goes to it, and when it has to end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes};
use proto::{
    datagram,
    frame::{self, Decoder},
    v1alpha1::{AgentDatagram, AgentFrame, ServiceFrame, Telemetry, TurnNote, agent_frame, service_frame},
};
use quinn::{Chunk, Connection, ReadError, RecvStream, SendStream};
use state::{Event, SessionId};
use units::FabricTime;

use super::{
    CloseCode, DATAGRAMS_PER_SECOND_MAX, End, FRAMES_BURST, FRAMES_PER_SECOND_MAX, Inbox, NOTE_DATAGRAMS_BURST,
    NOTE_DATAGRAMS_PER_SECOND_MAX, NOTES_BURST, NOTES_PER_SECOND_MAX, Outgoing, PROBES_BURST, PROBES_PER_SECOND_MAX, READ_BYTES, Seams,
    Shared, TELEMETRY_BYTES_BURST, TELEMETRY_BYTES_PER_SECOND_MAX, TELEMETRY_FRAME_BYTES_MAX, clock, convert,
    hello::{self, Control},
};
use crate::{
    bucket::Bucket,
    tls::{Authorities, Tls},
    turns::{self, TurnsHandle},
};

/// How often a session looks at what has no event of its own: silence, a stalled writer, a certificate's end.
const CHECKS_PER_SILENCE: u32 = 4;

/// A session that was admitted.
pub(super) struct Live<'a> {
    seams: &'a Seams,
    tls: &'a Tls,
    /// As the handshake knew them, or as last asked.
    authorities: Authorities,
    silence_max: Duration,
    connection: &'a Connection,
    session: SessionId,
    host: &'a Arc<str>,
    send: SendStream,
    recv: RecvStream,
    decoder: Decoder,
    inbox: Inbox,
    /// What is left of the frame that is being written.
    pending: Bytes,
    /// Since when the agent has taken nothing of it.
    pending_since: Instant,
    telemetry: Option<(RecvStream, Decoder)>,
    frames: Bucket,
    probes: Bucket,
    turns: Option<TurnsHandle>,
    note_datagrams: Bucket,
    notes: Bucket,
    telemetry_bytes: Bucket,
    heard: Instant,
    checked: Instant,
    datagrams: u64,
    /// End of the agent's certificate.
    pub(super) expires: Option<tokio::time::Instant>,
}

/// What the next turn of the loop is about.
enum Next {
    Datagram(Result<Bytes, quinn::ConnectionError>),
    Control(Result<Option<Chunk>, ReadError>),
    Written(Result<usize, quinn::WriteError>),
    Outgoing(Outgoing),
    Stream(Result<RecvStream, quinn::ConnectionError>),
    Telemetry(Result<Option<Chunk>, ReadError>),
    Authorities,
    Check,
}

impl<'a> Live<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        authorities: Authorities,
        connection: &'a Connection,
        session: SessionId,
        host: &'a Arc<str>,
        control: Control,
        inbox: Inbox,
    ) -> Self {
        let now = Instant::now();
        Self {
            seams: &shared.seams,
            tls: &shared.tls,
            authorities,
            silence_max: shared.settings.silence_max,
            connection,
            session,
            host,
            send: control.send,
            recv: control.recv,
            decoder: control.decoder,
            inbox,
            pending: Bytes::new(),
            pending_since: now,
            telemetry: None,
            frames: Bucket::new(FRAMES_PER_SECOND_MAX, FRAMES_BURST, now),
            probes: Bucket::new(PROBES_PER_SECOND_MAX, PROBES_BURST, now),
            turns: shared.seams.controller.turns(),
            note_datagrams: Bucket::new(NOTE_DATAGRAMS_PER_SECOND_MAX, NOTE_DATAGRAMS_BURST, now),
            notes: Bucket::new(NOTES_PER_SECOND_MAX, NOTES_BURST, now),
            telemetry_bytes: Bucket::new(TELEMETRY_BYTES_PER_SECOND_MAX, TELEMETRY_BYTES_BURST, now),
            heard: now,
            checked: now,
            datagrams: 0,
            expires: None,
        }
    }

    /// Runs until the session has to end.
    pub(super) async fn run(&mut self) -> End {
        // The Hello may have come with frames behind it.
        if let Err(end) = self.frames_of_control().await {
            return end;
        }
        // Silence is noticed at most a quarter of its limit late.
        let every = self.silence_max / CHECKS_PER_SILENCE;
        let check = tokio::time::sleep(every);
        tokio::pin!(check);
        loop {
            // Datagrams come first: every wait before the stamp widens the bound within which the agent knows our clock, and a job
            // waits for the answer to a turn note.
            // Branches that lose are dropped; quinn's `read_chunk` and `write` are safe to drop and lose no bytes.
            let next = tokio::select! {
                biased;
                datagram = self.connection.read_datagram() => Next::Datagram(datagram),
                chunk = self.recv.read_chunk(READ_BYTES, true) => Next::Control(chunk),
                written = self.send.write(&self.pending), if !self.pending.is_empty() => Next::Written(written),
                outgoing = self.inbox.next(self.pending.is_empty()) => Next::Outgoing(outgoing),
                stream = self.connection.accept_uni(), if self.telemetry.is_none() => Next::Stream(stream),
                chunk = read_telemetry(&mut self.telemetry) => Next::Telemetry(chunk),
                () = self.authorities.changed() => Next::Authorities,
                () = &mut check => Next::Check,
            };
            if matches!(next, Next::Check) {
                check.as_mut().reset(tokio::time::Instant::now() + every);
            }
            if let Err(end) = self.turn(next).await {
                return end;
            }
        }
    }

    /// The stream on which to say farewell. A frame that is half written stays half, and then there is nothing to say on it.
    pub(super) fn into_control(mut self) -> SendStream {
        if !self.pending.is_empty() {
            // The rest of a frame would stand before the farewell, so the stream is given up.
            let _ = self.send.reset(CloseCode::Ended.into());
        }
        self.send
    }

    /// Queues a frame. Nothing may be waiting to be written: this frame would replace it.
    pub(super) fn send(&mut self, frame: ServiceFrame) {
        debug_assert!(self.pending.is_empty(), "a frame that waits would be lost");
        match frame::encode(&frame) {
            Ok(bytes) => {
                self.pending = bytes.into();
                self.pending_since = Instant::now();
            }
            Err(error) => tracing::error!(host = %self.host, %error, "a frame for an agent cannot be sent"),
        }
    }

    async fn turn(&mut self, next: Next) -> Result<(), End> {
        let lost = |error: &dyn std::fmt::Display| End::new(CloseCode::Done, error.to_string());
        match next {
            Next::Datagram(datagram) => {
                // The stamp is taken before anything else is done with the datagram.
                let received = self.seams.clock.now();
                self.datagram(received, &datagram.map_err(|error| lost(&error))?)
            }
            Next::Control(Ok(Some(chunk))) => {
                // The read is paid for before it is decoded: a flood of tiny reads ends here.
                self.charge_frame()?;
                self.decoder.push(&chunk.bytes);
                self.frames_of_control().await
            }
            Next::Control(Ok(None)) => Err(End::new(CloseCode::Done, "the agent ended its stream")),
            Next::Control(Err(error)) => Err(lost(&error)),
            Next::Written(written) => {
                // Bytes that the stream took restart the clock of `check`: slow is allowed, stopped is not.
                self.pending.advance(written.map_err(|error| lost(&error))?);
                self.pending_since = Instant::now();
                Ok(())
            }
            Next::Outgoing(Outgoing::Plan(plan)) => {
                self.seams.stats.plans_sent.add();
                self.send(ServiceFrame { kind: Some(service_frame::Kind::Plan(plan)) });
                Ok(())
            }
            Next::Outgoing(Outgoing::End { reason, retry }) => Err(End { code: CloseCode::Ended, reason, farewell: Some(retry) }),
            Next::Stream(stream) => {
                let stream = stream.map_err(|error| lost(&error))?;
                // A new stream costs as much as a frame, so streams that only open and end are a flood too.
                self.telemetry = Some((stream, Decoder::with_limit(TELEMETRY_FRAME_BYTES_MAX)));
                self.charge_frame()
            }
            Next::Telemetry(Ok(Some(chunk))) => self.telemetry(&chunk),
            Next::Telemetry(Ok(None)) | Next::Telemetry(Err(_)) => {
                // Ended or reset by the agent, which may open another. A lost connection shows on the control stream.
                self.telemetry = None;
                Ok(())
            }
            Next::Authorities => self.verify(),
            Next::Check => self.check(),
        }
    }

    /// The client authorities are others than at the handshake: whether they would let this agent in.
    fn verify(&self) -> Result<(), End> {
        let Some(chain) = hello::certificates(self.connection) else { return Ok(()) };
        self.tls.verify(&chain).map_err(|error| End {
            code: CloseCode::Untrusted,
            reason: format!(
                "the service's client authorities changed, and this certificate is of none of them ({error}): give the agent one that is"
            ),
            // The agent reads its files again when it calls, and may have the right one by then.
            farewell: Some(true),
        })
    }

    fn datagram(&mut self, received: FabricTime, bytes: &[u8]) -> Result<(), End> {
        let datagram = datagram::from_agent(bytes).unwrap_or_default();
        let AgentDatagram { sent_ns, ref notes, .. } = datagram;
        // Notes have limits of their own; all else is a probe, or is charged like one.
        if sent_ns != 0 || notes.is_empty() {
            self.probe(received, &datagram)?;
        }
        if !datagram.notes.is_empty() {
            self.turn_notes(received, datagram.notes);
        }
        Ok(())
    }

    fn probe(&mut self, received: FabricTime, probe: &AgentDatagram) -> Result<(), End> {
        // Echoes cost a packet each: without a limit the service could be made to send as fast as the agent.
        if !self.probes.take(1, Instant::now()) {
            return Err(End::new(CloseCode::Flood, format!("more than {PROBES_PER_SECOND_MAX} datagrams a second")));
        }
        match clock::echo(self.seams.clock, received, probe) {
            Some(echo) => {
                self.seams.stats.probes.add();
                // An echo that finds no room is as good as lost: the agent probes again.
                let _ = self.connection.send_datagram(echo);
            }
            None => self.seams.stats.strange_datagrams.add(),
        }
        Ok(())
    }

    fn turn_notes(&mut self, received: FabricTime, notes: Vec<TurnNote>) {
        let now = Instant::now();
        // A session that is past these limits is not cut: one job that runs wild must not take the plan from the others of its host.
        let within = self.note_datagrams.take(1, now) && self.notes.take(notes.len() as u32, now);
        let Some(turns) = self.turns.as_ref().filter(|_| within) else { return self.seams.stats.turn_datagrams_dropped.add() };
        let notes: Vec<_> = notes.into_iter().filter_map(turns::note).collect();
        self.seams.stats.turn_datagrams.add();
        // Notes that cannot be are nobody's.
        if !notes.is_empty() {
            turns.notes(self.session, received, notes);
        }
    }

    async fn frames_of_control(&mut self) -> Result<(), End> {
        while let Some(frame) = self.decoder.next::<AgentFrame>().map_err(|error| End::new(CloseCode::Malformed, error.to_string()))? {
            self.charge_frame()?;
            self.seams.stats.frames.add();
            // Only a frame on the control stream is a sign of life: QUIC's own packets also come from an agent that reports no more.
            self.heard = Instant::now();
            // A kind that we do not know is from a newer agent and may be left out.
            if let Some(kind) = frame.kind {
                self.frame(kind).await?;
            }
        }
        Ok(())
    }

    async fn frame(&mut self, kind: agent_frame::Kind) -> Result<(), End> {
        let session = self.session;
        let event = match kind {
            agent_frame::Kind::PlanAck(ack) => Event::PlanAck { session, plan_version: ack.plan_version },
            agent_frame::Kind::Report(report) => Event::Report { session, report: convert::report(report)? },
            agent_frame::Kind::Neighbours(told) => {
                self.seams.telemetry.neighbours(self.host, told);
                return Ok(());
            }
            agent_frame::Kind::Learned(told) => {
                self.seams.telemetry.learned(self.host, told);
                return Ok(());
            }
            agent_frame::Kind::Goodbye(goodbye) => {
                return Err(End::new(CloseCode::Done, format!("goodbye: {}", convert::shortened(&goodbye.reason))));
            }
            agent_frame::Kind::Hello(_) => return Err(End::new(CloseCode::Malformed, "a second hello")),
        };
        self.seams.controller.tell(event).await.map_err(|gone| End::new(CloseCode::Stopping, gone.to_string()))
    }

    fn telemetry(&mut self, chunk: &Chunk) -> Result<(), End> {
        let bytes = u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX);
        if !self.telemetry_bytes.take(bytes, Instant::now()) {
            let reason = format!("more than {TELEMETRY_BYTES_PER_SECOND_MAX} bytes of telemetry a second");
            return Err(End::new(CloseCode::Flood, reason));
        }
        // The bytes were charged above, before they are kept for decoding.
        let Some((_, decoder)) = &mut self.telemetry else { return Ok(()) };
        decoder.push(&chunk.bytes);
        while let Some(frame) = decoder.next::<Telemetry>().map_err(|error| End::new(CloseCode::Malformed, error.to_string()))? {
            self.seams.stats.telemetry_frames.add();
            self.seams.telemetry.take(self.host, frame);
        }
        Ok(())
    }

    /// Reads are charged like frames, so that one byte at a time is a flood too.
    fn charge_frame(&mut self) -> Result<(), End> {
        if self.frames.take(1, Instant::now()) {
            Ok(())
        } else {
            Err(End::new(CloseCode::Flood, format!("more than {FRAMES_PER_SECOND_MAX} frames a second")))
        }
    }

    fn check(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if now.duration_since(self.heard) > self.silence_max {
            return Err(End::new(CloseCode::Silent, format!("no report for {:.1} s", self.silence_max.as_secs_f64())));
        }
        if !self.pending.is_empty() && now.duration_since(self.pending_since) > self.silence_max {
            return Err(End::new(CloseCode::Silent, format!("it has not read its plan for {:.1} s", self.silence_max.as_secs_f64())));
        }
        if self.expires.is_some_and(|end| tokio::time::Instant::now() >= end) {
            return Err(End { code: CloseCode::Expired, reason: "the certificate has expired".into(), farewell: Some(true) });
        }
        // Limits of frames do not see empty packets, which cost a core all the same.
        let datagrams = self.connection.stats().udp_rx.datagrams;
        let allowed = now.duration_since(self.checked).as_millis() as u64 * DATAGRAMS_PER_SECOND_MAX / 1_000;
        // quinn's count only grows. The packets of one more second are allowed, because packets come in bursts.
        if datagrams - self.datagrams > allowed + DATAGRAMS_PER_SECOND_MAX {
            return Err(End::new(CloseCode::Flood, format!("more than {DATAGRAMS_PER_SECOND_MAX} packets a second")));
        }
        (self.datagrams, self.checked) = (datagrams, now);
        Ok(())
    }
}

/// The next piece of telemetry; never without a stream.
async fn read_telemetry(telemetry: &mut Option<(RecvStream, Decoder)>) -> Result<Option<Chunk>, ReadError> {
    match telemetry {
        Some((stream, _)) => stream.read_chunk(READ_BYTES, true).await,
        None => std::future::pending().await,
    }
}
