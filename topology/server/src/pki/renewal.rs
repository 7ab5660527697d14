//! What comes after a certificate was issued: another one in its place, or its end before its time.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    CertificateRevocationListParams, ExtendedKeyUsagePurpose, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, pem::PemObject};
use x509_parser::{
    extensions::{ParsedExtension, X509Extension},
    prelude::{CertificateRevocationList, FromDer, X509Certificate},
};

use super::{
    AUTHORITY, AUTHORITY_LIFETIME, Client, Issued, PkiError, SERVICE, SERVICE_LIFETIME, authority, failed, files, issue, leaf, paths,
    service_name, show,
};
use crate::tls::Identity;

/// The list of revoked certificates in `dir`.
#[must_use]
pub fn revoked_path(dir: &Path) -> PathBuf {
    dir.join("revoked.pem")
}

/// Puts a new certificate with a new key in the place of one in `dir`, of the same holder. A client's lasts for `lifetime`.
///
/// # Errors
/// [`PkiError`]: the old one stays.
pub fn renew(dir: &Path, name: &str, lifetime: Duration) -> Result<Issued, PkiError> {
    super::check_name("name", name)?;
    let old = paths(dir, name);
    if name == AUTHORITY {
        return Err(PkiError::Name { what: "name", name: name.into(), why: "a new authority is another one: pki init" });
    }
    if name != SERVICE {
        let wrong = |what: String| PkiError::Certificate { at: old.certificate.display().to_string(), what };
        let der = certificate(&old.certificate)?;
        let holder = Identity::from_certificate(&der).map_err(|error| wrong(error.to_string()))?;
        return issue(dir, &Client { role: holder.role, name: name.into(), hosts: holder.names, lifetime }, true);
    }
    let names = show(&old.certificate)?.names;
    let issuer = authority(dir)?;
    let mut params = leaf(SERVICE_LIFETIME, "antiphase service", ExtendedKeyUsagePurpose::ServerAuth);
    params.subject_alt_names = names.iter().map(|name| service_name(name)).collect::<Result<_, _>>()?;
    let key = KeyPair::generate().map_err(failed("the service"))?;
    let made = params.signed_by(&key, &issuer).map_err(failed("the service"))?;
    files::write(&old, &made.pem(), &key.serialize_pem(), true)?;
    Ok(old)
}

/// Writes the certificate in `file` into the list of the authority in `dir`, beside those that stand there.
///
/// # Errors
/// [`PkiError`]: the list stays as it was.
pub fn revoke(dir: &Path, file: &Path) -> Result<PathBuf, PkiError> {
    let wrong = |at: &Path, what: String| PkiError::Certificate { at: at.display().to_string(), what };
    let (own, theirs) = (certificate(&paths(dir, AUTHORITY).certificate)?, certificate(file)?);
    let parsed = |der| X509Certificate::from_der(der).map(|(_, parsed)| parsed);
    let (own, theirs) = (parsed(&own).map_err(|e| wrong(dir, e.to_string()))?, parsed(&theirs).map_err(|e| wrong(file, e.to_string()))?);
    // Authorities can have one name, so their keys are compared too.
    if theirs.issuer().as_raw() != own.subject().as_raw() || differ(own.extensions(), theirs.extensions()) {
        return Err(wrong(file, "it is of another authority".into()));
    }
    // Nobody looks for an authority in its own list: whoever trusts it goes on.
    if theirs.is_ca() {
        return Err(wrong(
            file,
            "it is an authority, which no list ends: make another one (pki init), and let nobody trust this one".into(),
        ));
    }
    let list = revoked_path(dir);
    let (number, mut revoked) = listed(&list, &own)?;
    if revoked.iter().all(|one| one.serial_number.as_ref() != theirs.raw_serial()) {
        revoked.push(entry(theirs.raw_serial(), now()));
    }
    write(dir, number + 1, revoked)
}

/// When a list in the file should have been replaced by its next one (`nextUpdate`), in seconds of Unix time: the earliest, if any says so.
///
/// # Errors
/// [`PkiError`]: the file cannot be read, or has no list.
pub fn list_is_due(file: &Path) -> Result<Option<i64>, PkiError> {
    let wrong = |what: String| PkiError::Certificate { at: file.display().to_string(), what };
    let pem = files::read(file)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem.as_bytes()).collect();
    let lists = lists.map_err(|error| wrong(format!("no list in PEM: {error}")))?;
    if lists.is_empty() {
        return Err(wrong("no list of revoked certificates in it".into()));
    }
    let due = |der| CertificateRevocationList::from_der(der).map(|(_, list)| list.next_update().map(|time| time.timestamp()));
    let due: Result<Vec<_>, _> = lists.iter().map(|der| due(der)).collect();
    Ok(due.map_err(|error| wrong(error.to_string()))?.into_iter().flatten().min())
}

/// A list with nobody on it, so that a configuration can name it from the first day.
pub(super) fn begin(dir: &Path) -> Result<(), PkiError> {
    write(dir, 1, Vec::new()).map(drop)
}

fn write(dir: &Path, number: u64, revoked_certs: Vec<RevokedCertParams>) -> Result<PathBuf, PkiError> {
    let list = revoked_path(dir);
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(1970, 1, 1) + now(),
        // As long as the authority: the service takes the list that it has, and a list that ends would be one more thing to renew.
        next_update: date_time_ymd(1970, 1, 1) + now() + AUTHORITY_LIFETIME,
        crl_number: SerialNumber::from(number),
        issuing_distribution_point: None,
        revoked_certs,
        key_identifier_method: own_key(&certificate(&paths(dir, AUTHORITY).certificate)?),
    };
    let at = list.display().to_string();
    let made = params.signed_by(&authority(dir)?).map_err(failed(&at))?;
    files::write_list(&list, &made.pem().map_err(failed(&at))?)?;
    Ok(list)
}

/// The identifier of an authority's key, as its certificate has it.
fn own_key(der: &CertificateDer<'_>) -> KeyIdMethod {
    let parsed = X509Certificate::from_der(der).ok();
    parsed.and_then(|(_, parsed)| subject_key(parsed.extensions())).map_or(KeyIdMethod::Sha256, KeyIdMethod::PreSpecified)
}

fn subject_key(extensions: &[X509Extension<'_>]) -> Option<Vec<u8>> {
    extensions.iter().find_map(|one| match one.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0.to_vec()),
        _ => None,
    })
}

/// Whether what is issued says that it was signed with another key than the authority's (RFC 5280, section 4.2.1.1).
fn differ(authority: &[X509Extension<'_>], issued: &[X509Extension<'_>]) -> bool {
    let signed = issued.iter().find_map(|one| match one.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(key) => key.key_identifier.as_ref().map(|key| key.0.to_vec()),
        _ => None,
    });
    signed.zip(subject_key(authority)).is_some_and(|(signed, own)| signed != own)
}

/// The number of the list and who stands on it; none where there is no list yet. A list of another authority is not continued.
fn listed(list: &Path, own: &X509Certificate<'_>) -> Result<(u64, Vec<RevokedCertParams>), PkiError> {
    if !list.exists() {
        return Ok((0, Vec::new()));
    }
    let wrong = |what: String| PkiError::Certificate { at: list.display().to_string(), what };
    let der = CertificateRevocationListDer::from_pem_slice(files::read(list)?.as_bytes())
        .map_err(|error| wrong(format!("no list in PEM: {error}")))?;
    let (_, parsed) = CertificateRevocationList::from_der(&der).map_err(|error| wrong(error.to_string()))?;
    if parsed.issuer().as_raw() != own.subject().as_raw() || differ(own.extensions(), parsed.extensions()) {
        return Err(wrong("it is of another authority".into()));
    }
    let number = parsed.crl_number().and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let since = |unix: i64| Duration::from_secs(u64::try_from(unix).unwrap_or(0));
    let revoked = parsed.iter_revoked_certificates().map(|one| entry(one.raw_serial(), since(one.revocation_date.timestamp())));
    Ok((number, revoked.collect()))
}

fn entry(serial: &[u8], since: Duration) -> RevokedCertParams {
    RevokedCertParams {
        serial_number: SerialNumber::from_slice(serial),
        revocation_time: date_time_ymd(1970, 1, 1) + since,
        reason_code: None,
        invalidity_date: None,
    }
}

fn certificate(path: &Path) -> Result<CertificateDer<'static>, PkiError> {
    let wrong = |error: &dyn std::fmt::Display| PkiError::Certificate {
        at: path.display().to_string(),
        what: format!("no certificate in PEM: {error}"),
    };
    CertificateDer::from_pem_slice(files::read(path)?.as_bytes()).map_err(|error| wrong(&error))
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
