//! What switches say that their ports carry (sFlow), beside what the plan predicts. It is shown, and nothing is planned with it.

mod decode;
mod port;
mod state;
mod table;
mod told;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{net::UdpSocket, sync::watch};

pub(crate) use state::Counts;
pub use table::Table;

use crate::{config::Config, controller::FabricView, lines::LineLimit};
use decode::DATAGRAM_BYTES_MAX;
use state::{State, Taken};

/// How old a table may be that is shown once more: switches send every 10 to 30 s.
const TABLE_AGE_MAX: Duration = Duration::from_secs(1);
/// What the kernel keeps until it is read: a thousand switches may send at once, a few datagrams of 1,400 bytes each.
const RECEIVE_BYTES: usize = 4 << 20;
/// A pause after an error of the socket: one that stays must not keep a core busy.
const PAUSE: Duration = Duration::from_millis(100);
/// Lines about datagrams that cannot be taken.
static LINES: LineLimit = LineLimit::new(5, Duration::from_secs(10));

/// What ports carried when they were last heard of. Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub struct Observed(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    /// The last table, the version of its fabric, and when it was made.
    table: Mutex<Option<(u64, Instant, Arc<Table>)>>,
    /// Where datagrams are taken.
    address: Option<SocketAddr>,
}

impl Observed {
    /// Takes datagrams at an address from now on, as the configuration of then says; nothing where it has no `[sflow]`.
    ///
    /// # Errors
    /// The address cannot be had.
    pub(crate) async fn start(config: watch::Receiver<Arc<Config>>) -> std::io::Result<Self> {
        let Some(listen) = config.borrow().sflow.as_ref().map(|sflow| sflow.listen) else { return Ok(Self::default()) };
        let socket = UdpSocket::bind(listen).await?;
        // As much as the system allows (net.core.rmem_max).
        if let Err(error) = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES) {
            tracing::debug!(%error, "the receive buffer for sFlow stays as it is");
        }
        let address = socket.local_addr()?;
        let observed = Self(Arc::new(Inner { address: Some(address), ..Inner::default() }));
        tracing::info!(%address, "listening for sFlow");
        tokio::spawn(observed.clone().listen(socket, config));
        Ok(observed)
    }

    /// Where datagrams are taken; `None` where the configuration has no `[sflow]`.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.0.address
    }

    /// Datagrams since the start.
    pub(crate) fn counts(&self) -> Counts {
        self.state().counts
    }

    /// What links carry now, up to a second ago.
    pub(crate) fn table(&self, view: Option<&FabricView>) -> Arc<Table> {
        let Some(view) = view.filter(|_| self.0.address.is_some()) else { return Arc::default() };
        let now = Instant::now();
        let mut known = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, at, table)) = &*known
            && *version == view.version
            && now.saturating_duration_since(*at) < TABLE_AGE_MAX
        {
            return Arc::clone(table);
        }
        let table = Arc::new(Table::new(&view.fabric, &self.state(), now));
        *known = Some((view.version, now, Arc::clone(&table)));
        table
    }

    async fn listen(self, socket: UdpSocket, mut config: watch::Receiver<Arc<Config>>) {
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        config.mark_changed();
        loop {
            let received = tokio::select! {
                received = socket.recv_from(&mut bytes) => received,
                // After the end of the configuration's owner the service ends too.
                changed = config.changed() => match changed {
                    Ok(()) => { self.configure(&config.borrow_and_update()); continue }
                    Err(_) => return,
                },
            };
            match received {
                Ok((length, source)) => self.take(&bytes[..length], source.ip().to_canonical(), Instant::now()),
                Err(error) => {
                    LINES.say(|dropped| tracing::warn!(%error, dropped, "sFlow cannot be received"));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn configure(&self, config: &Config) {
        if let Some(sflow) = &config.sflow {
            self.state().configure(sflow);
            *self.0.table.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    fn take(&self, bytes: &[u8], source: IpAddr, now: Instant) {
        let taken = self.state().take(bytes, source, now);
        match taken {
            Taken::Well => {}
            Taken::Malformed(error) => LINES.say(|dropped| tracing::warn!(%source, %error, dropped, "an sFlow datagram cannot be read")),
            Taken::Unknown(agent) => {
                LINES.say(|dropped| tracing::warn!(%agent, %source, dropped, "sFlow of an agent that sflow.exporters does not name"));
            }
            Taken::Foreign(_) => {
                LINES.say(|dropped| tracing::warn!(%source, dropped, "sFlow under an exporter's address, from none of its sources"));
            }
            Taken::Limited => LINES.say(|dropped| tracing::warn!(%source, dropped, "an exporter sends more sFlow than is read")),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // State is whole after each call.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
