//! The page of the lab's service for the browser of this machine.
//!
//! The service listens in a namespace of its own and asks for certificates. The gateway takes plain connections on loopback of the
//! machine's own network, which needs no change there, and carries each to the service over TLS with a certificate that may
//! only read: whoever is on this machine sees everything and changes nothing.

use std::{net::SocketAddr, sync::Arc, thread, time::Duration};

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot},
};
use tokio_rustls::TlsConnector;

use crate::{client, management, network::Lab, service, tool};

/// Connections at once: browsers open six each.
const CONNECTIONS_MAX: usize = 64;
/// How long accepting rests after an error, such as no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Carries connections until this is dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Gateway {
    /// Starts to carry connections from a listener on loopback.
    ///
    /// # Errors
    /// The service has made no certificates, or the kernel refuses a thread.
    pub(crate) fn start(lab: &Lab, listener: std::net::TcpListener) -> Result<Self> {
        // Tokio takes over only listeners that do not block.
        listener.set_nonblocking(true)?;
        let connector = TlsConnector::from(client::config(&service::pki(lab), service::READER)?);
        let namespace = management::namespace(lab);
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("gateway".into()).spawn(move || {
            // Connections that are made inside the namespace stay there; the listener stays where it was made.
            let carried = tool::enter(&namespace, || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    let listener = TcpListener::from_std(listener)?;
                    tokio::select! {
                        () = carry(&listener, &connector) => {}
                        _ = stopped => {}
                    }
                    Ok(())
                })
            });
            if let Err(e) = carried {
                eprintln!("antiphase lab: the page: {e:#}");
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Dropping the sender ends the `select`, and the runtime's end closes the connections that are still open.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn carry(listener: &TcpListener, connector: &TlsConnector) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // A place is taken before the connection: beyond `CONNECTIONS_MAX` browsers wait in the kernel's backlog.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let connector = connector.clone();
        tokio::spawn(async move {
            let _place = place;
            // The browser sees a failure by itself: its connection ends.
            let _ = one(stream, &connector).await;
        });
    }
}

async fn one(mut browser: TcpStream, connector: &TlsConnector) -> Result<()> {
    browser.set_nodelay(true)?;
    let stream = TcpStream::connect(SocketAddr::from((management::SERVICE, service::PORT))).await.context("the service")?;
    stream.set_nodelay(true)?;
    let mut service = connector.connect(ServerName::IpAddress(management::SERVICE.into()), stream).await?;
    tokio::io::copy_bidirectional(&mut browser, &mut service).await?;
    Ok(())
}
