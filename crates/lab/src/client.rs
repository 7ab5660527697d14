//! One request to the topology service: HTTP over TLS with a client's certificate, from inside a namespace.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::Value;

/// Longest request: a commit is durable when it is answered, and the disk may be busy.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Largest answer that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The identity of the caller, and the service that is called.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    config: Arc<ClientConfig>,
}

/// An answer that is not 200.
#[derive(Debug, thiserror::Error)]
#[error("{request}: {status}: {says}")]
pub(crate) struct Refused {
    request: String,
    /// The status of HTTP.
    pub(crate) status: String,
    says: String,
}

impl Client {
    /// A client with the certificate `NAME.pem` of a folder that `antiphase-topology pki` made.
    pub(crate) fn new(address: SocketAddr, pki: &Path, name: &str) -> Result<Self> {
        Ok(Self { address, config: config(pki, name)? })
    }

    /// Sends a request and reads the JSON that answers it; empty for an empty answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        // Every step has the bound `TIMEOUT`, so that a service that hangs is an error and not a wait without end.
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(&self.config), name)?, stream);
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut answer = Vec::new();
        // A peer that closes without a last word of TLS has still said all that its length promised.
        // `connection: close` makes the end of the stream the end of the answer, so no length has to be parsed.
        if let Err(e) = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)
            && e.kind() != std::io::ErrorKind::UnexpectedEof
        {
            return Err(e.into());
        }
        let answer = String::from_utf8(answer).context("an answer that is no text")?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer that is no HTTP")?;
        let status = head.split(' ').nth(1).unwrap_or("?");
        ensure!(!head.to_ascii_lowercase().contains("transfer-encoding"), "an answer in chunks, which this client does not read");
        if status != "200" {
            let (request, status, says) = (format!("{method} {path}"), status.to_owned(), body.trim().to_owned());
            return Err(Refused { request, status, says }.into());
        }
        if body.trim_start().starts_with('{') { Ok(serde_json::from_str(body)?) } else { Ok(Value::Null) }
    }
}

/// TLS with the certificate `NAME.pem` of a folder that `antiphase-topology pki` made.
pub(crate) fn config(pki: &Path, name: &str) -> Result<Arc<ClientConfig>> {
    let file = |name: String| pki.join(name);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem".into()))?)?;
    let chain = vec![CertificateDer::from_pem_file(file(format!("{name}.pem")))?];
    let key = PrivateKeyDer::from_pem_file(file(format!("{name}.key")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_client_auth_cert(chain, key)?))
}
