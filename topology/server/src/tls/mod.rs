//! TLS of the two listeners: TLS 1.3 for QUIC, 1.2 and up for TCP; both ask for a client certificate.
//!
//! Configurations are built whole from the files and swapped at once ([`Tls::reload`]): a broken file leaves the old ones in
//! place. Sessions are never resumed, because a resumed one would keep a certificate alive past its end.

mod identity;

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use quinn::crypto::rustls::QuicServerConfig;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime, pem::PemObject};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use x509_parser::prelude::{CertificateRevocationList, FromDer as _};

pub use identity::{Identity, IdentityError, ROLE_URI_PREFIX, Role, Subject, Who};

/// ALPN of the TCP listener, in order of preference: gRPC needs h2.
const TCP_ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// What the key of stateless resets is made of besides the private key.
const RESET_LABEL: &[u8] = b"antiphase stateless reset";
/// Names of the throw-away certificate: what a client may call this machine.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Where the certificates are, as PEM.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The service's certificate, then its intermediates.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities whose client certificates are accepted.
    pub client_ca: PathBuf,
    /// Lists of certificates that those authorities have revoked (RFC 5280, section 5).
    #[serde(default)]
    pub revoked: Option<PathBuf>,
}

/// One read of the files, of which the digest, the configuration and the key of resets are all made: a file that changes between two
/// reads would make them of different certificates.
struct Contents {
    own: Result<Own, TlsError>,
    trust: Result<Trust, TlsError>,
}

/// The files of the service's own certificate.
#[derive(Clone, Default, PartialEq, Eq)]
struct Own {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// The files that say who is trusted.
#[derive(Clone, Default, PartialEq, Eq)]
struct Trust {
    client_ca: Vec<u8>,
    revoked: Option<Vec<u8>>,
}

impl Contents {
    fn read(files: &TlsFiles) -> Self {
        let own = || Ok(Own { certificate: read(&files.certificate)?, key: read(&files.key)? });
        let trust = || Ok(Trust { client_ca: read(&files.client_ca)?, revoked: files.revoked.as_deref().map(read).transpose()? });
        Self { own: own(), trust: trust() }
    }

    /// Digest of all that stands in the files. Files that cannot be read count as empty: taking them says what is wrong.
    fn digest(&self) -> [u8; 32] {
        let (own, trust) = (self.own.as_ref().ok(), self.trust.as_ref().ok());
        let contents = [
            own.map(|own| &own.certificate),
            own.map(|own| &own.key),
            trust.map(|trust| &trust.client_ca),
            trust.and_then(|trust| trust.revoked.as_ref()),
        ];
        let one = |content: Option<&Vec<u8>>| Sha256::digest(content.map(Vec::as_slice).unwrap_or_default());
        contents.into_iter().map(one).fold(Sha256::new(), |digest, file| digest.chain_update(file)).finalize().into()
    }
}

impl Taken {
    /// Builds everything before anything is swapped: a broken file leaves the old configuration in force.
    fn of(files: &TlsFiles, own: &Own, trust: &Trust) -> Result<Self, TlsError> {
        let content = |path: &Path, what: String| TlsError::Content { path: path.to_owned(), what };
        let chain = certificates(&files.certificate, &own.certificate)?;
        let private = PrivateKeyDer::from_pem_slice(&own.key).map_err(|e| content(&files.key, format!("no private key in PEM: {e}")))?;
        // A key that others can read works all the same, so it is a warning and no reason to refuse the start.
        warn_if_others_can_read(&files.key);
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.client_ca, &trust.client_ca)? {
            roots.add(authority).map_err(|e| content(&files.client_ca, format!("not an authority: {e}")))?;
        }
        let revoked = trust.revoked.as_deref();
        let lists = files.revoked.as_deref().zip(revoked).map_or_else(|| Ok(Vec::new()), |(path, pem)| revocations(path, pem))?;
        let configs = build(chain, &private, Some((roots, lists)))
            .map_err(|what| TlsError::Setup { at: format!("{} with {}", files.certificate.display(), files.key.display()), what })?;
        let trusted = [trust.client_ca.as_slice(), revoked.unwrap_or_default()].concat();
        Ok(Self { configs, trusted, reset_key: reset_key(&own.key) })
    }
}

/// What was made of one read of the files.
struct Taken {
    configs: Configs,
    /// What decides who is trusted, as it stands in the files.
    trusted: Vec<u8>,
    reset_key: [u8; 32],
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: files::FileError,
    },
    /// A file does not hold what it should.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The pieces do not fit.
    #[error("TLS of {at}: {what}")]
    Setup {
        /// The certificate that was to be used.
        at: String,
        /// What does not fit.
        what: String,
    },
}

/// The peers that may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Peers with a certificate of the client authorities.
    Certificate,
    /// Anybody on this machine, without a certificate; nobody from elsewhere.
    Loopback,
}

/// One state of the configurations.
#[derive(Clone)]
struct Configs {
    tcp: Arc<ServerConfig>,
    quic: Arc<QuicServerConfig>,
    /// Both ask it about the certificates of clients.
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Sees the client authorities become others, from where it was taken or last told. A clone has seen as much.
#[derive(Clone, Debug)]
pub struct Authorities(watch::Receiver<Vec<u8>>);

impl Authorities {
    /// Ends when the authorities are others than those last seen, which have then been seen. May be dropped and called again.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The service is going down, and ends connections itself.
            std::future::pending::<()>().await;
        }
    }

    /// Marks the authorities of now as seen.
    pub fn see(&mut self) {
        self.0.mark_unchanged();
    }
}

/// The service's side of TLS, as of the last good read of its files.
pub struct Tls {
    files: Option<TlsFiles>,
    configs: RwLock<Configs>,
    reloads: watch::Sender<u64>,
    /// The files of the client authorities and of what they revoked, as last read.
    authorities: watch::Sender<Vec<u8>>,
    /// What the files held when they were last read, whether or not it could be taken.
    tried: Mutex<[u8; 32]>,
    /// What was taken last.
    last: Mutex<(Own, Trust)>,
    reset_key: [u8; 32],
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).field("reloads", &*self.reloads.borrow()).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`]: names the file.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = Contents::read(&files);
        let tried = Mutex::new(contents.digest());
        let last = (contents.own?, contents.trust?);
        let Taken { configs, trusted, reset_key } = Taken::of(&files, &last.0, &last.1)?;
        let (reloads, authorities) = (watch::Sender::new(0), watch::Sender::new(trusted));
        let (configs, last) = (RwLock::new(configs), Mutex::new(last));
        Ok(Self { files: Some(files), configs, reloads, authorities, tried, last, reset_key })
    }

    /// A self-signed certificate that lives as long as this process, for loopback only: clients need no certificate.
    ///
    /// # Errors
    /// [`TlsError::Setup`]: no key could be made.
    pub fn throw_away() -> Result<Self, TlsError> {
        let setup = |what: String| TlsError::Setup { at: "a throw-away certificate".into(), what };
        let made =
            rcgen::generate_simple_self_signed(LOOPBACK_NAMES.map(String::from).to_vec()).map_err(|error| setup(error.to_string()))?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(|error| setup(error.to_owned()))?;
        let configs = build(vec![made.cert.der().clone()], &key, None).map_err(|error| setup(error.to_string()))?;
        // Everybody on this machine may do everything anyway, so there is no secret.
        let reset_key = reset_key(b"");
        let (reloads, authorities) = (watch::Sender::new(0), watch::Sender::default());
        let (tried, last) = (Mutex::default(), Mutex::default());
        Ok(Self { files: None, configs: RwLock::new(configs), reloads, authorities, tried, last, reset_key })
    }

    /// Reads the files again. Connections that are open stay as they are, unless the client authorities are others now
    /// ([`Tls::authorities`]); a throw-away certificate stays too.
    ///
    /// # Errors
    /// [`TlsError`]: the service's own certificate or who is trusted stays as it was. What can be taken of the two is taken: a renewal
    /// that went wrong lets nobody in who was revoked since, and a broken list keeps no renewed certificate out.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.files.as_ref().map_or(Ok(()), |files| self.take(files, Contents::read(files)))
    }

    fn take(&self, files: &TlsFiles, contents: Contents) -> Result<(), TlsError> {
        *self.tried.lock().unwrap_or_else(PoisonError::into_inner) = contents.digest();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Contents { own, trust } = contents;
        let (error, own, trust) = match (own, trust) {
            (Ok(own), Ok(trust)) => match Taken::of(files, &own, &trust) {
                Ok(taken) => {
                    *last = (own, trust);
                    self.put(taken);
                    return Ok(());
                }
                Err(error) => (error, Some(own), Some(trust)),
            },
            (Err(error), trust) => (error, None, trust.ok()),
            (own, Err(error)) => (error, own.ok(), None),
        };
        let half = |own: &Own, trust: &Trust| Taken::of(files, own, trust).ok();
        if let Some((trust, taken)) = trust.filter(|new| *new != last.1).and_then(|trust| half(&last.0, &trust).map(|taken| (trust, taken)))
        {
            tracing::warn!("of the certificates only those of clients are taken: the authorities, and what they revoked");
            last.1 = trust;
            self.put(taken);
        } else if let Some((own, taken)) = own.filter(|new| *new != last.0).and_then(|own| half(&own, &last.1).map(|taken| (own, taken))) {
            tracing::warn!("of the certificates only the service's own is taken");
            last.0 = own;
            self.put(taken);
        }
        Err(error)
    }

    fn put(&self, taken: Taken) {
        let Taken { configs, trusted, reset_key: _ } = taken;
        *self.configs.write().unwrap_or_else(PoisonError::into_inner) = configs;
        // The configuration is in place before anybody is told: whoever hears of the change and looks finds the new one.
        self.reloads.send_modify(|count| *count += 1);
        self.authorities.send_if_modified(|old| {
            // Only other bytes end connections: a reload of the same authorities must not cut everybody.
            let changed = *old != trusted;
            *old = trusted;
            changed
        });
    }

    /// Reads the files again if they hold something else than when they were last read, as [`Tls::reload`]; says whether they did.
    ///
    /// # Errors
    /// [`TlsError`], once for each content that cannot be taken; of a certificate and a key that are being replaced the second is soon there.
    pub fn follow(&self) -> Result<bool, TlsError> {
        let Some(files) = &self.files else { return Ok(false) };
        let contents = Contents::read(files);
        if *self.tried.lock().unwrap_or_else(PoisonError::into_inner) == contents.digest() {
            return Ok(false);
        }
        self.take(files, contents).map(|()| true)
    }

    /// For one TCP connection; take it anew for each, so that a reload is seen.
    #[must_use]
    pub fn tcp(&self) -> Arc<ServerConfig> {
        self.current().tcp
    }

    /// For the QUIC endpoint.
    #[must_use]
    pub fn quic(&self) -> Arc<QuicServerConfig> {
        self.current().quic
    }

    /// The key of stateless resets (RFC 9000, section 10.3): the same after a restart, so that an agent whose session died with the
    /// service hears so at its next packet, and not after its silence.
    #[must_use]
    pub const fn reset_key(&self) -> [u8; 32] {
        self.reset_key
    }

    /// Changes whenever the files were read again.
    #[must_use]
    pub fn reloads(&self) -> watch::Receiver<u64> {
        self.reloads.subscribe()
    }

    /// Notices a change of the client authorities. Clients let in before it are no longer known to be trusted.
    #[must_use]
    pub fn authorities(&self) -> Authorities {
        Authorities(self.authorities.subscribe())
    }

    /// Whether a client that shows this chain would be let in now; its first certificate is its own.
    ///
    /// # Errors
    /// Why not.
    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        // rustls hands over the chain as the client sent it, its own certificate first.
        let (own, intermediates) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.current().verifier.verify_client_cert(own, intermediates, UnixTime::now()).map(drop)
    }

    /// The peers that may connect.
    #[must_use]
    pub fn admission(&self) -> Admission {
        if self.files.is_some() { Admission::Certificate } else { Admission::Loopback }
    }

    fn current(&self) -> Configs {
        self.configs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The identity of a TCP peer, from its certificate chain; its first certificate is its own.
///
/// # Errors
/// [`IdentityError`]: the peer has no certificate, or a certificate that names no single role.
pub fn identity(peer_certificates: Option<&[CertificateDer<'_>]>) -> Result<Identity, IdentityError> {
    let own = peer_certificates.and_then(<[_]>::first).ok_or(IdentityError::NoCertificate)?;
    Identity::from_certificate(own)
}

/// Whether an address is this machine's own. An IPv4 address inside an IPv6 one counts as itself.
#[must_use]
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The authorities of clients, and what they revoked.
type Verified = (RootCertStore, Vec<CertificateRevocationListDer<'static>>);

fn revocations(path: &Path, pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let content = |what: String| TlsError::Content { path: path.to_owned(), what };
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| content(format!("not PEM: {error}")))?;
    // An empty file would revoke nobody, which whoever emptied it by mistake would not notice.
    if found.is_empty() {
        return Err(content("no list of revoked certificates in it".into()));
    }
    let now = i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX);
    let due = |der| CertificateRevocationList::from_der(der).ok()?.1.next_update().map(|time| time.timestamp());
    if found.iter().filter_map(|der| due(der)).any(|due| due < now) {
        // Who was revoked stays revoked: to drop an old list would let all of them in.
        tracing::warn!(list = %path.display(), "a list of revoked certificates is older than its nextUpdate; it counts, but who was revoked since is not on it");
    }
    Ok(found)
}

/// The one provider of cryptography; named, because rustls panics when it has to guess between two.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn build(chain: Vec<CertificateDer<'static>>, key: &PrivateKeyDer<'static>, trust: Option<Verified>) -> Result<Configs, String> {
    let verifier = match trust {
        Some((roots, lists)) => {
            let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).with_crls(lists);
            // An authority without a list has revoked nobody: while one authority replaces another, both stand beside each other.
            builder.allow_unknown_revocation_status().build().map_err(|error| error.to_string())?
        }
        // Without authorities nobody is asked for a certificate; the configuration then allows loopback only.
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let text = |error: rustls::Error| error.to_string();
    let any = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(text)?;
    // QUIC is TLS 1.3 by its standard (RFC 9001, section 4.2).
    let tls13 = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS13]).map_err(text)?;
    let mut tcp = any.with_client_cert_verifier(verifier.clone()).with_single_cert(chain.clone(), key.clone_key()).map_err(text)?;
    let mut quic = tls13.with_client_cert_verifier(Arc::clone(&verifier)).with_single_cert(chain, key.clone_key()).map_err(text)?;
    tcp.alpn_protocols = TCP_ALPN.map(<[u8]>::to_vec).to_vec();
    quic.alpn_protocols = vec![proto::ALPN.to_vec()];
    for config in [&mut tcp, &mut quic] {
        // A resumed session would skip the look at the client's certificate, and outlive its end (P124, P145).
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    let quic = QuicServerConfig::try_from(quic).map_err(|error| error.to_string())?;
    Ok(Configs { tcp: Arc::new(tcp), quic: Arc::new(quic), verifier })
}

/// As secret as the private key, and says nothing of it.
fn reset_key(private_key: &[u8]) -> [u8; 32] {
    hmac(&Sha256::digest(private_key).into(), RESET_LABEL)
}

/// HMAC with SHA-256 (RFC 2104).
pub(crate) fn hmac(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let padded = |pad: u8| {
        let mut block = [pad; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = |what: String| TlsError::Content { path: path.to_owned(), what };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| content(format!("not PEM: {error}")))?;
    // An empty file of authorities would let nobody in, and an empty chain is no identity: both are mistakes.
    if found.is_empty() { Err(content("no certificate in it".into())) } else { Ok(found) }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    files::read(path, files::PEM_BYTES_MAX).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn warn_if_others_can_read(key: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(key).map_or(0, |metadata| metadata.permissions().mode());
    // The last six bits are those of the group and of all others.
    if mode & 0o077 != 0 {
        tracing::warn!(key = %key.display(), mode = format!("{:o}", mode & 0o7777), "a private key that others can read; chmod 600");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test case 2 of RFC 4231 has the key "Jefe", which a key of 32 bytes is with zeros behind it.
    #[test]
    fn the_hmac_is_that_of_the_rfc() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let hex: String = hmac(&key, b"what do ya want for nothing?").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
