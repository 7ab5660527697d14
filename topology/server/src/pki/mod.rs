//! A small certificate authority for trials: one folder, one authority, one certificate for the service, one per client.
//!
//! A site that has its own authority issues the same certificates with it: [`crate::tls::Identity`] says what is read of them.

mod command;
mod files;
mod renewal;

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use sha2::{Digest as _, Sha256};
use x509_parser::{extensions::GeneralName, prelude::FromDer, prelude::X509Certificate};

use crate::tls::Role;

pub use command::{Command, Init, Issue, Renew, Revoke, Show};
pub use renewal::{list_is_due, renew, revoke, revoked_path};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The authority outlives several certificates of the service: replacing it touches every node.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);
/// One planned renewal a year.
pub const SERVICE_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// A stolen key of a client that nobody knows of, and so nobody revokes, is good for at most this long.
pub const CLIENT_LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Certificates begin this much before they are made: nodes whose clocks are behind must not refuse them.
pub const CLOCK_ALLOWANCE: Duration = Duration::from_secs(60 * 60);

/// Longest name of a certificate, RFC 5280's bound of a common name.
pub const NAME_BYTES_MAX: usize = 64;
/// Most hosts in one certificate; each is one DNS name of it.
pub const HOSTS_MAX: usize = 64;

/// Bytes of its key's digest in the name of an authority: enough to tell apart all that a site ever makes.
const MARK_BYTES: usize = 8;

const AUTHORITY: &str = "ca";
const SERVICE: &str = "server";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Nothing is overwritten without being told to.
    #[error("{} is already there; --force replaces it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A name that cannot stand in a certificate or as a file name.
    #[error("{what} {name:?}: {why}")]
    Name {
        /// What the name is of.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// An agent without a host, or a person with one.
    #[error("{0}")]
    Hosts(&'static str),
    /// A certificate that cannot be made or read.
    #[error("{at}: {what}")]
    Certificate {
        /// Which.
        at: String,
        /// What is wrong.
        what: String,
    },
}

impl PkiError {
    /// Whether what was asked cannot be taken, rather than done: exit code 2, as of every command.
    #[must_use]
    pub fn is_input(&self) -> bool {
        use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        match self {
            Self::File { source, .. } => matches!(source.kind(), NotFound | IsADirectory | NotADirectory),
            Self::Exists { .. } | Self::Name { .. } | Self::Hosts(_) | Self::Certificate { .. } => true,
        }
    }
}

/// A certificate and its key, on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The certificate as PEM.
    pub certificate: PathBuf,
    /// Its private key as PEM; only its owner can read it.
    pub key: PathBuf,
}

/// Whose certificate to issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Role of the certificate.
    pub role: Role,
    /// Common name, and name of the files.
    pub name: String,
    /// Hosts that an agent speaks for; for other roles none.
    pub hosts: Vec<String>,
    /// From now; [`CLIENT_LIFETIME`] is the default of the command.
    pub lifetime: Duration,
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Common name.
    pub subject: String,
    /// Common name of its issuer.
    pub issuer: String,
    /// URIs, DNS names and addresses that it stands for.
    pub names: Vec<String>,
    /// Seconds since the Unix epoch.
    pub not_before: i64,
    /// Seconds since the Unix epoch.
    pub not_after: i64,
}

/// The paths of a certificate of this name in `dir`.
#[must_use]
pub fn paths(dir: &Path, name: &str) -> Issued {
    Issued { certificate: dir.join(format!("{name}.pem")), key: dir.join(format!("{name}.key")) }
}

/// The authority's certificate in `dir`: what the service trusts clients by, and clients the service.
#[must_use]
pub fn authority_path(dir: &Path) -> PathBuf {
    paths(dir, AUTHORITY).certificate
}

/// The service's certificate in `dir`.
#[must_use]
pub fn service_paths(dir: &Path) -> Issued {
    paths(dir, SERVICE)
}

/// Makes an authority and the service's certificate for `hosts` (DNS names or addresses).
///
/// # Errors
/// [`PkiError`]: something is there already and `force` is not set, or cannot be written; then nothing was made.
pub fn init(dir: &Path, hosts: &[String], force: bool) -> Result<Issued, PkiError> {
    let (authority, service) = (paths(dir, AUTHORITY), paths(dir, SERVICE));
    if hosts.is_empty() {
        return Err(PkiError::Hosts("the service needs at least one host name or address by which agents reach it"));
    }
    let names = hosts.iter().map(|host| service_name(host)).collect::<Result<Vec<_>, _>>()?;
    files::make_folder(dir)?;
    // Everything that can be refused is refused before the first file is written.
    files::refuse_to_replace(&[&authority, &service], force)?;

    let key = KeyPair::generate().map_err(failed("the authority"))?;
    let mut params = lasting(AUTHORITY_LIFETIME);
    // A name of its own: lists of revoked certificates are found by the name of their issuer (RFC 5280, section 6.3.3), so of two
    // authorities with one name, a list of one would be taken for the other, whose clients would then be refused.
    let mark: String = Sha256::digest(key.public_key_raw()).iter().take(MARK_BYTES).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name.push(DnType::CommonName, format!("antiphase authority {mark}"));
    // A path length of 0: this authority signs certificates of its own clients, and none of further authorities (RFC 5280, 4.2.1.9).
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(failed("the authority"))?;

    let mut params = leaf(SERVICE_LIFETIME, "antiphase service", ExtendedKeyUsagePurpose::ServerAuth);
    params.subject_alt_names = names;
    let service_key = KeyPair::generate().map_err(failed("the service"))?;
    let issuer = Issuer::from_ca_cert_der(certificate.der(), &key).map_err(failed("the authority"))?;
    let service_certificate = params.signed_by(&service_key, &issuer).map_err(failed("the service"))?;

    // The authority is written first: a certificate of the service whose authority is lost could never be trusted.
    files::write(&authority, &certificate.pem(), &key.serialize_pem(), force)?;
    files::write(&service, &service_certificate.pem(), &service_key.serialize_pem(), force)?;
    renewal::begin(dir)?;
    Ok(service)
}

/// Issues a client certificate with the authority in `dir`.
///
/// # Errors
/// [`PkiError`]: nothing was made.
pub fn issue(dir: &Path, client: &Client, force: bool) -> Result<Issued, PkiError> {
    check_name("name", &client.name)?;
    // The name is the name of the files: with `--force` a client of this name would replace the authority's key.
    if [AUTHORITY, SERVICE].contains(&client.name.as_str()) {
        return Err(PkiError::Name { what: "name", name: client.name.clone(), why: "that is the authority's or the service's" });
    }
    match (client.role, client.hosts.len()) {
        (Role::Agent, 0) => return Err(PkiError::Hosts("an agent needs the host that it speaks for: --host NAME")),
        (Role::Agent, hosts) if hosts > HOSTS_MAX => return Err(PkiError::Hosts("too many hosts for one certificate; at most 64")),
        (Role::Agent, _) | (_, 0) => {}
        _ => return Err(PkiError::Hosts("only an agent speaks for a host; leave --host away")),
    }
    let issued = paths(dir, &client.name);
    files::refuse_to_replace(&[&issued], force)?;
    // The authority is read after every check of the request, so a refusal never touches its key.
    let issuer = authority(dir)?;

    let mut params = leaf(client.lifetime, &client.name, ExtendedKeyUsagePurpose::ClientAuth);
    params.subject_alt_names.push(SanType::URI(ia5("role", &client.role.uri())?));
    for host in &client.hosts {
        check_name("host", host)?;
        params.subject_alt_names.push(SanType::DnsName(ia5("host", host)?));
    }
    let key = KeyPair::generate().map_err(failed(&client.name))?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed(&client.name))?;
    files::write(&issued, &certificate.pem(), &key.serialize_pem(), force)?;
    Ok(issued)
}

/// Reads what a certificate says.
///
/// # Errors
/// [`PkiError`]: the certificate cannot be read.
pub fn show(path: &Path) -> Result<Shown, PkiError> {
    let wrong = |what: String| PkiError::Certificate { at: path.display().to_string(), what };
    // Nothing is verified here: `show` says what stands in a certificate, whoever issued it.
    let pem = files::read(path)?;
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| wrong(format!("no certificate in PEM: {error}")))?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| wrong(error.to_string()))?;
    let common =
        |name: &x509_parser::x509::X509Name<'_>| name.iter_common_name().find_map(|name| name.as_str().ok()).unwrap_or_default().to_owned();
    let alternatives = parsed.subject_alternative_name().map_err(|error| wrong(error.to_string()))?;
    let names = alternatives.iter().flat_map(|extension| &extension.value.general_names).map(|name| match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => address(bytes).map_or_else(|| "(address)".to_owned(), |address| address.to_string()),
        other => other.to_string(),
    });
    Ok(Shown {
        subject: common(parsed.subject()),
        issuer: common(parsed.issuer()),
        names: names.collect(),
        not_before: parsed.validity().not_before.timestamp(),
        not_after: parsed.validity().not_after.timestamp(),
    })
}

fn authority(dir: &Path) -> Result<Issuer<'static, KeyPair>, PkiError> {
    let at = paths(dir, AUTHORITY);
    let key = KeyPair::from_pem(&files::read(&at.key)?).map_err(failed(&at.key.display().to_string()))?;
    Issuer::from_ca_cert_pem(&files::read(&at.certificate)?, key).map_err(failed(&at.certificate.display().to_string()))
}

fn leaf(lifetime: Duration, name: &str, purpose: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = lasting(lifetime);
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // The purpose keeps the two sides apart: a client's certificate cannot stand for the service, nor the other way.
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    params
}

fn lasting(lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    // rcgen takes dates of the crate `time`; the sum from 1970 on makes one without depending on it.
    params.not_before = date_time_ymd(1970, 1, 1) + now.saturating_sub(CLOCK_ALLOWANCE);
    params.not_after = date_time_ymd(1970, 1, 1) + (now + lifetime);
    params
}

fn service_name(host: &str) -> Result<SanType, PkiError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    check_name("host", host)?;
    Ok(SanType::DnsName(ia5("host", host)?))
}

/// Names become file names and DNS names; what is in neither alphabet is refused.
fn check_name(what: &'static str, name: &str) -> Result<(), PkiError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let why = match name.as_bytes() {
        [] => "it is empty",
        bytes if bytes.len() > NAME_BYTES_MAX && what == "name" => "longer than 64 bytes",
        bytes if bytes.len() > 253 => "longer than 253 bytes",
        // A dot would hide the file or lead out of the folder, and a dash would look like an option.
        [b'.' | b'-', ..] => "it begins with a dot or a dash",
        bytes if !bytes.iter().all(|&b| allowed(b)) => "only letters, digits, dots, dashes and underscores",
        _ => return Ok(()),
    };
    Err(PkiError::Name { what, name: name.to_owned(), why })
}

fn ia5(what: &'static str, name: &str) -> Result<rcgen::string::Ia5String, PkiError> {
    name.try_into().map_err(|_| PkiError::Name { what, name: name.to_owned(), why: "not ASCII" })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn failed(at: &str) -> impl Fn(rcgen::Error) -> PkiError {
    let at = at.to_owned();
    move |error| PkiError::Certificate { at: at.clone(), what: error.to_string() }
}

#[cfg(test)]
mod tests;
