//! The UDP socket and what QUIC may do on it.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use proto::datagram;
use quinn::{
    ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TokioRuntime, TransportConfig, VarInt,
    crypto::{CryptoError, HmacKey},
};
use rustix::net::sockopt;

use super::{CONNECTION_WINDOW_BYTES, HANDSHAKES_MAX, SEND_WINDOW_BYTES, STREAM_WINDOW_BYTES, STREAMS_MAX, Settings};
use crate::tls::{self, Admission, Tls};

/// Kernel buffers of the socket. A commit makes thousands of agents answer at once; at 212 KiB, the usual default, 100
/// packets fit.
const SOCKET_BUFFER_BYTES: usize = 8 * 1024 * 1024;
/// What one attempt may make us hold before its handshake is taken up; a first flight is 4 KiB at most.
const INCOMING_BUFFER_BYTES: u64 = 8 * 1024;
/// Random bytes of a connection's id.
///
/// quinn's own ids are 3 random bytes and a signature of 5. The id in a Retry is drawn without a look at those in use, and when it
/// is one of them, the agent's second attempt goes to another agent's session, where nobody can read it, until the agent gives up.
/// 10,000 agents have some 60,000 ids, so of 10,000 that connect at once about 16 met one of 2^24; of 2^64 none does.
const ID_BYTES: usize = 8;
/// Longest idle timeout that is offered; a setting above it is this.
const SILENCE_OFFERED_MAX: Duration = Duration::from_secs(3_600);

/// Binds the service's UDP socket.
///
/// # Errors
/// The address cannot be bound.
pub fn endpoint(address: SocketAddr, tls: &Tls, settings: &Settings) -> io::Result<Endpoint> {
    let socket = UdpSocket::bind(address)?;
    enlarge_buffers(&socket);
    let mut config = EndpointConfig::default();
    config.cid_generator(|| Box::new(Ids::default()));
    config.reset_key(Arc::new(ResetKey(tls.reset_key())));
    Endpoint::new(config, Some(server_config(tls, settings)), socket, Arc::new(TokioRuntime))
}

/// Draws the ids of connections.
#[derive(Debug, Default)]
struct Ids {
    drawn: u64,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        self.drawn += 1;
        let mut id = [0; ID_BYTES];
        // Without randomness the ids can be guessed, but they still differ.
        if rustls::crypto::ring::default_provider().secure_random.fill(&mut id).is_err() {
            id = self.drawn.to_be_bytes();
        }
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Signs the ids of connections for stateless resets.
struct ResetKey([u8; 32]);

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.copy_from_slice(&tls::hmac(&self.0, data));
    }

    fn signature_len(&self) -> usize {
        self.0.len()
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        // quinn only signs; whoever compared would have to do so in constant time.
        if tls::hmac(&self.0, data) == signature { Ok(()) } else { Err(CryptoError) }
    }
}

/// Best effort: the forced way needs a capability, the polite one is capped by net.core.rmem_max and wmem_max.
fn enlarge_buffers(socket: &UdpSocket) {
    let received = sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, SOCKET_BUFFER_BYTES));
    let sent = sockopt::set_socket_send_buffer_size(socket, SOCKET_BUFFER_BYTES);
    if let Err(error) = received.and(sent) {
        tracing::debug!(%error, "the socket keeps its default buffers");
    }
}

/// The configuration as of the certificates that `tls` has now.
pub(super) fn server_config(tls: &Tls, settings: &Settings) -> ServerConfig {
    let mut config = ServerConfig::with_crypto(tls.quic());
    config.transport_config(Arc::new(transport(settings)));
    // Attempts that nobody took up yet hold memory too: their number and their bytes are bounded here, before `Door` sees them.
    config.max_incoming(HANDSHAKES_MAX);
    config.incoming_buffer_size(INCOMING_BUFFER_BYTES);
    config.incoming_buffer_size_total(INCOMING_BUFFER_BYTES * HANDSHAKES_MAX as u64);
    // Without certificates the address is all that tells who it is, so it must not change.
    config.migration(tls.admission() == Admission::Certificate);
    config
}

fn transport(settings: &Settings) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // Windows and streams bound what one agent can make the service hold before anything of it is read (RFC 9000, section 4).
    transport.max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX));
    transport.max_concurrent_uni_streams(VarInt::from_u32(STREAMS_MAX));
    transport.stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES));
    transport.receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES));
    transport.send_window(SEND_WINDOW_BYTES);
    transport.datagram_receive_buffer_size(Some(datagram::BUFFER_BYTES));
    transport.datagram_send_buffer_size(datagram::BUFFER_BYTES);
    // QUIC's own idle timeout ends a connection whose peer sends nothing at all; `Live::check` ends those that send no frames.
    transport.max_idle_timeout(IdleTimeout::try_from(settings.silence_max.min(SILENCE_OFFERED_MAX)).ok());
    // Frames are small: probing for a larger MTU would cost more packets than it saves.
    transport.mtu_discovery_config(None);
    transport
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// As many ids as 10,000 agents have. Of 2^24 about 100 pairs would be equal, of 2^64 none with 10 nines.
    #[test]
    fn ids_of_all_agents_differ() {
        const IDS: usize = 60_000;
        let mut generator = Ids::default();
        let drawn: HashSet<Vec<u8>> = (0..IDS).map(|_| generator.generate_cid().to_vec()).collect();
        assert_eq!(drawn.len(), IDS);
    }
}
