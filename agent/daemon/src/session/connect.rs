//! From a name to an admitted session.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use proto::{
    PROTOCOL, datagram,
    frame::{self, Decoder},
    v1alpha1::{AgentFrame, Hello, ServiceFrame, Welcome, agent_frame, service_frame},
};
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, TransportConfig, VarInt};
use tokio::time::timeout;

use super::{CONNECT_WITHIN, Credentials, CredentialsError, PROTOCOL_MIN, Pace, SILENCE_MAX, SessionConfig, WELCOME_WITHIN, tls};

/// What is taken from a stream at once.
pub(super) const READ_BYTES: usize = 64 * 1024;
/// Least time between reports or probes, whatever the service asks for: the promise of 0.5 % of a core.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Most time between them: slower is as good as silent.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// QUIC's code of a TLS alert is this and the alert: RFC 9001 section 4.8.
const CRYPTO_ERROR: u64 = 0x100;
/// Alerts about the certificate that we showed: bad, unsupported, revoked, expired, unknown certificate, unknown authority, access
/// denied, a signature that does not fit, certificate required (RFC 8446 section 6).
const CERTIFICATE_ALERTS: [u64; 9] = [42, 43, 44, 45, 46, 48, 49, 51, 116];
/// Keeps the path's state in firewalls alive when reports are rare.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Why there is no session, or why it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no address, or no socket could be made.
    #[error("{service}: {source}")]
    Address {
        /// As configured.
        service: String,
        /// Why not.
        source: io::Error,
    },
    /// The agent cannot prove who it is.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The service cannot be reached, does not answer, or does not accept the certificate.
    #[error("{address}: {what}")]
    Unreachable {
        /// The address that was tried last.
        address: SocketAddr,
        /// What happened.
        what: String,
    },
    /// The service does not accept the agent's certificate.
    #[error("{address}: {what}; {} has to be of the service's client authorities, and is read again at each attempt", certificate.display())]
    Certificate {
        /// The address that was tried last.
        address: SocketAddr,
        /// The certificate.
        certificate: PathBuf,
        /// The service's word for it.
        what: String,
    },
    /// The service said no.
    #[error("the service refused: {reason}")]
    Refused {
        /// In its words.
        reason: String,
        /// Whether it says that trying again can help.
        retry: bool,
    },
    /// The service speaks a protocol that this agent does not.
    #[error("the service speaks protocol {protocol}; this agent speaks {PROTOCOL_MIN} to {PROTOCOL}")]
    Protocol {
        /// The service's.
        protocol: u32,
    },
    /// The session ended.
    #[error("the session ended: {0}")]
    Ended(String),
}

impl ConnectError {
    /// Whether trying again soon cannot help.
    pub(super) fn is_hopeless(&self) -> bool {
        matches!(self, Self::Refused { retry: false, .. } | Self::Protocol { .. } | Self::Credentials(_))
    }
}

/// An admitted session.
pub(super) struct Admitted {
    /// Lives as long as its connection.
    pub(super) endpoint: Endpoint,
    pub(super) connection: Connection,
    pub(super) send: SendStream,
    pub(super) recv: RecvStream,
    pub(super) decoder: Decoder,
    pub(super) pace: Pace,
}

/// What a Hello says beside the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// Version of the plan on the pages.
    pub(super) plan_version: u64,
    /// Drawn once in the life of this program.
    pub(super) instance: u64,
}

/// Tries every address of the service, in the order of the resolver.
pub(super) async fn connect(config: &SessionConfig, said: Said) -> Result<Admitted, ConnectError> {
    let unresolved = |source| ConnectError::Address { service: config.service.clone(), source };
    let addresses = tokio::net::lookup_host(&config.service).await.map_err(unresolved)?;
    let mut last = unresolved(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for address in addresses {
        match connect_to(config, said, address).await {
            Ok(admitted) => return Ok(admitted),
            // An answer from the service is an answer; another of its addresses will not say otherwise.
            Err(error @ (ConnectError::Refused { .. } | ConnectError::Protocol { .. })) => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to(config: &SessionConfig, said: Said, address: SocketAddr) -> Result<Admitted, ConnectError> {
    let unreachable = |what: &dyn std::fmt::Display| ConnectError::Unreachable { address, what: what.to_string() };
    let mut client = ClientConfig::new(Arc::new(tls::client_config(&config.credentials, address)?));
    client.transport_config(Arc::new(transport()));
    // The socket has the address's family: whether an IPv6 socket carries IPv4 is a setting of the host (bindv6only).
    let local: SocketAddr = if address.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let endpoint = Endpoint::client(local).map_err(|error| unreachable(&error))?;
    let name = server_name(config);
    let connecting = endpoint.connect_with(client, address, name).map_err(|error| unreachable(&error))?;
    let connection =
        timeout(CONNECT_WITHIN, connecting).await.map_err(|_| unreachable(&"no answer"))?.map_err(|error| unreachable(&error))?;
    let admitted = timeout(WELCOME_WITHIN, greet(config, said, &connection)).await;
    let (send, recv, decoder, welcome) = match admitted {
        // CONNECT_WITHIN and WELCOME_WITHIN bound an attempt, so an address costs ten seconds at most before the next is tried.
        Ok(Ok(greeted)) => greeted,
        Ok(Err(Greeting::Lost(error))) => {
            // A TLS 1.3 client learns that its certificate was refused only after its own handshake is done, so the reason is here.
            return Err(match (&config.credentials, connection.close_reason()) {
                (Credentials::Files { certificate, .. }, Some(reason)) if is_about_certificate(&reason) => {
                    ConnectError::Certificate { address, certificate: certificate.clone(), what: reason.to_string() }
                }
                _ => unreachable(&error),
            });
        }
        Ok(Err(Greeting::Refused { reason, retry })) => {
            // The close tells the service why; a connection that is only dropped closes without a reason.
            connection.close(VarInt::from_u32(0), b"refused");
            return Err(ConnectError::Refused { reason, retry });
        }
        Err(_) => return Err(unreachable(&"no welcome")),
    };
    if !(PROTOCOL_MIN..=PROTOCOL).contains(&welcome.protocol) {
        connection.close(VarInt::from_u32(0), b"protocol");
        return Err(ConnectError::Protocol { protocol: welcome.protocol });
    }
    Ok(Admitted { endpoint, connection, send, recv, decoder, pace: pace(&welcome) })
}

/// Whether the service ended the handshake because of the certificate that we showed.
fn is_about_certificate(reason: &ConnectionError) -> bool {
    let ConnectionError::ConnectionClosed(close) = reason else { return false };
    u64::from(close.error_code).checked_sub(CRYPTO_ERROR).is_some_and(|alert| CERTIFICATE_ALERTS.contains(&alert))
}

enum Greeting {
    Lost(String),
    Refused { reason: String, retry: bool },
}

/// Hello and Welcome: the first round trip.
async fn greet(
    config: &SessionConfig,
    said: Said,
    connection: &Connection,
) -> Result<(SendStream, RecvStream, Decoder, Welcome), Greeting> {
    let lost = |error: &dyn std::fmt::Display| Greeting::Lost(error.to_string());
    let (mut send, mut recv) = connection.open_bi().await.map_err(|error| lost(&error))?;
    let hello = Hello {
        host: config.host.clone(),
        version: config.version.clone(),
        protocol: PROTOCOL,
        ports: config.ports.clone(),
        plan_version: said.plan_version,
        instance: said.instance,
    };
    let hello = frame::encode(&AgentFrame { kind: Some(agent_frame::Kind::Hello(hello)) }).map_err(|error| lost(&error))?;
    // The write may fail because the service refused already; its refusal is read below.
    let written = send.write_all(&hello).await;
    let mut decoder = Decoder::default();
    loop {
        match decoder.next::<ServiceFrame>().map_err(|error| lost(&error))?.map(|frame| frame.kind) {
            Some(Some(service_frame::Kind::Welcome(welcome))) => return Ok((send, recv, decoder, welcome)),
            Some(Some(service_frame::Kind::Refusal(refusal))) => {
                return Err(Greeting::Refused { reason: refusal.reason, retry: refusal.retry });
            }
            Some(_) => return Err(lost(&"the first frame was no welcome")),
            None => {}
        }
        // WELCOME_WITHIN of the caller bounds this loop.
        match recv.read_chunk(READ_BYTES, true).await {
            Ok(Some(chunk)) => decoder.push(&chunk.bytes),
            Ok(None) => return Err(lost(&written.err().map_or("no welcome".to_owned(), |error| error.to_string()))),
            Err(error) => return Err(lost(&connection.close_reason().map_or(error.to_string(), |reason| reason.to_string()))),
        }
    }
}

/// What the service asks for, within what is sane.
fn pace(welcome: &Welcome) -> Pace {
    let interval = |nanos: u64| Duration::from_nanos(nanos).clamp(INTERVAL_MIN, INTERVAL_MAX);
    // When a session is silent for too long is agreed on by QUIC (RFC 9000, 10.1), so `idle_timeout_ns` is for people.
    Pace { report_interval: interval(welcome.report_interval_ns), probe_interval: interval(welcome.probe_interval_ns) }
}

fn server_name(config: &SessionConfig) -> &str {
    let host = config.service.rsplit_once(':').map_or(config.service.as_str(), |(host, _)| host);
    config.server_name.as_deref().unwrap_or(host.trim_start_matches('[').trim_end_matches(']'))
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    // The service opens no stream, so none is allowed to it.
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    transport.max_concurrent_uni_streams(VarInt::from_u32(0));
    // 30 s fit the integer of QUIC, so the fallback is never taken. The smaller value of both sides holds (RFC 9000, 10.1).
    transport.max_idle_timeout(Some(SILENCE_MAX.try_into().unwrap_or_else(|_| VarInt::from_u32(30_000).into())));
    transport.keep_alive_interval(Some(KEEP_ALIVE));
    transport.datagram_receive_buffer_size(Some(datagram::BUFFER_BYTES));
    transport.datagram_send_buffer_size(datagram::BUFFER_BYTES);
    transport
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Credentials;

    #[test]
    fn the_name_to_verify_is_the_host_unless_one_is_given() {
        let of = |service: &str, name: Option<&str>| {
            let config = SessionConfig {
                service: service.into(),
                server_name: name.map(Into::into),
                host: String::new(),
                version: String::new(),
                ports: Vec::new(),
                credentials: Credentials::InsecureLoopback,
            };
            server_name(&config).to_owned()
        };
        assert_eq!(of("topology.cluster:7480", None), "topology.cluster");
        assert_eq!(of("[2001:db8::1]:7480", None), "2001:db8::1");
        assert_eq!(of("10.0.0.1:7480", Some("topology")), "topology");
    }

    #[test]
    fn what_the_service_asks_for_is_kept_within_what_is_sane() {
        let asked = |nanos: u64| {
            let welcome = Welcome { report_interval_ns: nanos, probe_interval_ns: nanos, ..Welcome::default() };
            pace(&welcome)
        };
        let second = Duration::from_secs(1);
        assert_eq!(asked(1_000_000_000), Pace { report_interval: second, probe_interval: second });
        assert_eq!(asked(0).probe_interval, INTERVAL_MIN);
        assert_eq!(asked(u64::MAX), Pace { report_interval: INTERVAL_MAX, probe_interval: INTERVAL_MAX });
    }
}
