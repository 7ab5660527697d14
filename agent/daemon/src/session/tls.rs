//! The agent's side of TLS.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use quinn::crypto::rustls::QuicClientConfig;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};

use super::Credentials;

/// Why the agent cannot prove who it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: files::FileError,
    },
    /// A file does not hold what it should, or not what fits the others.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// No proof is wanted, but the service is on another machine.
    #[error("insecure_loopback is for a service on this machine, not {address}; give certificates")]
    NotLoopback {
        /// The service's address.
        address: SocketAddr,
    },
}

/// The configuration for one attempt to reach `address`, from the files as they are now.
pub(super) fn client_config(credentials: &Credentials, address: SocketAddr) -> Result<QuicClientConfig, CredentialsError> {
    // QUIC has no older TLS than 1.3 (RFC 9001, section 4.2).
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS13]);
    let builder = builder.map_err(|error| content(Path::new("TLS 1.3"), &error))?;
    let mut config = match credentials {
        // The resolved address is checked, not the name. `to_canonical` finds 127.0.0.1 in an IPv4-mapped IPv6 address too.
        Credentials::InsecureLoopback if address.ip().to_canonical().is_loopback() => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyOnLoopback(provider()))).with_no_client_auth()
        }
        Credentials::InsecureLoopback => return Err(CredentialsError::NotLoopback { address }),
        Credentials::Files { ca, certificate, key } => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(ca)? {
                roots.add(authority).map_err(|error| content(ca, &error))?;
            }
            // The files are read at each attempt, so a renewed certificate needs no restart.
            let chain = certificates(certificate)?;
            let key_der = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| content(key, &error))?;
            builder.with_root_certificates(roots).with_client_auth_cert(chain, key_der).map_err(|error| content(certificate, &error))?
        }
    };
    config.alpn_protocols = vec![proto::ALPN.to_vec()];
    // The service resumes nothing.
    config.resumption = Resumption::disabled();
    QuicClientConfig::try_from(config).map_err(|error| content(Path::new("QUIC"), &error))
}

/// Named, because rustls panics when it has to guess between two.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(|error| content(path, &error))?;
    if found.is_empty() { Err(content(path, &"no certificate in it")) } else { Ok(found) }
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    // The heartbeat runs on this thread, so nobody is waited for.
    files::read(path, files::PEM_BYTES_MAX).map_err(|source| CredentialsError::Read { path: path.to_owned(), source })
}

fn content(path: &Path, what: &dyn std::fmt::Display) -> CredentialsError {
    CredentialsError::Content { path: path.to_owned(), what: what.to_string() }
}

/// Takes any certificate. Made only for a loopback address, where the kernel tells who answers.
#[derive(Debug)]
struct AnyOnLoopback(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyOnLoopback {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // `client_config` makes this verifier for a loopback address only, which no other host can answer.
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn no_proof_is_for_this_machine_only() {
        let of = |address: &str| client_config(&Credentials::InsecureLoopback, address.parse().unwrap()).map(drop);
        of("127.0.0.1:1").unwrap();
        of("[::1]:1").unwrap();
        of("[::ffff:127.0.0.1]:1").unwrap();
        for other in ["10.0.0.1:1", "[2001:db8::1]:1", "0.0.0.0:1"] {
            let refused = of(other).unwrap_err().to_string();
            assert!(refused.contains(other) && refused.contains("give certificates"), "{refused}");
        }
    }

    #[test]
    fn a_file_that_is_no_certificate_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        fs::write(path("ca.pem"), "no PEM in here").unwrap();
        fs::write(path("huge.pem"), vec![b'x'; 300_000]).unwrap();
        let of = |ca: &str| {
            let files = Credentials::Files { ca: path(ca), certificate: path("a.pem"), key: path("a.key") };
            client_config(&files, "10.0.0.1:1".parse().unwrap()).map(drop).unwrap_err().to_string()
        };
        assert!(of("ca.pem").contains("no certificate in it"), "{}", of("ca.pem"));
        assert!(of("huge.pem").contains("300000 bytes"), "{}", of("huge.pem"));
        assert!(of("none.pem").contains("none.pem: No such file"), "{}", of("none.pem"));
        // The heartbeat runs on the thread that reads: a FIFO that nobody writes must not hold it up.
        mknodat(CWD, path("fifo.pem"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(of("fifo.pem").contains("fifo.pem: is a FIFO"), "{}", of("fifo.pem"));
    }
}
