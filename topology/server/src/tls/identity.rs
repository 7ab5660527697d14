//! The identity of a peer, as its certificate says.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls_pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use units::OneLine;
use x509_parser::{extensions::GeneralName, prelude::FromDer, prelude::X509Certificate};

/// A certificate names its role by this URI and one of [`Role`]'s words, as a subject alternative name.
pub const ROLE_URI_PREFIX: &str = "urn:antiphase:role:";

/// What a peer may do. Each of read, evaluate and admin includes the ones before; an agent is apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Role {
    /// See everything, change nothing.
    Read,
    /// Ask what a candidate would do.
    Evaluate,
    /// Commit, release, replace the fabric.
    Admin,
    /// Speak for the hosts that its certificate names, over QUIC.
    Agent,
}

impl Role {
    const ALL: [Self; 4] = [Self::Read, Self::Evaluate, Self::Admin, Self::Agent];

    /// Its word in the URI.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Evaluate => "evaluate",
            Self::Admin => "admin",
            Self::Agent => "agent",
        }
    }

    /// The URI that a certificate carries for it.
    #[must_use]
    pub fn uri(self) -> String {
        format!("{ROLE_URI_PREFIX}{}", self.word())
    }

    /// Whether this role may do what needs `needed`.
    #[must_use]
    pub const fn allows(self, needed: Self) -> bool {
        match (self, needed) {
            (Self::Agent, Self::Agent) => true,
            // An agent's key lies on a node where others run jobs: the key opens nothing for people, and no person's key speaks for hosts.
            (Self::Agent, _) | (_, Self::Agent) => false,
            // The variants stand in order of their rights.
            (held, needed) => held as u8 >= needed as u8,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A certificate: its digest (SHA-256). By it limits are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who(pub [u8; 32]);

/// Who asks for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// As events and logs name it: the common name of a certificate and its role, on one line.
    pub told: Arc<str>,
    /// By whom limits are shared; `None` where callers cannot be told apart.
    pub who: Option<Who>,
    /// The common name of the certificate, if there is one.
    pub name: Option<Arc<str>>,
}

/// Longest common name that is told whole.
const SUBJECT_CHARS_MAX: usize = 64;

impl Subject {
    /// Somebody on this machine, of a service without certificates.
    #[must_use]
    pub fn local() -> Self {
        Self { told: "this machine".into(), who: None, name: None }
    }

    /// The service itself, for what its configuration says.
    #[must_use]
    pub fn configuration() -> Self {
        Self { told: "the configuration".into(), who: None, name: None }
    }

    /// The agents, for what they learn of jobs.
    #[must_use]
    pub fn learning() -> Self {
        Self { told: "the agents, by counters".into(), who: None, name: None }
    }

    /// The agents, for what they see of the cabling.
    #[must_use]
    pub fn discovery() -> Self {
        Self { told: "the agents, by LLDP".into(), who: None, name: None }
    }
}

/// The identity of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What the peer may do.
    pub role: Role,
    /// The certificate.
    pub digest: Who,
    /// DNS names of the certificate, as it has them: the hosts that an agent speaks for.
    pub names: Vec<String>,
    /// Common name, for logs.
    pub subject: String,
    /// End of the certificate, in seconds since the Unix epoch.
    pub expires_unix: i64,
}

/// Why nobody can be told from a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The peer showed no certificate.
    #[error("no client certificate")]
    NoCertificate,
    /// The certificate cannot be parsed.
    #[error("a certificate that cannot be read: {0}")]
    Malformed(String),
    /// The certificate names no role of ours.
    #[error("the certificate of {subject:?} names no role; it needs a URI {ROLE_URI_PREFIX}read, evaluate, admin or agent")]
    NoRole {
        /// Its common name.
        subject: String,
    },
    /// The certificate names two roles.
    #[error("the certificate of {subject:?} names the roles {first} and {second}; it may name one")]
    TwoRoles {
        /// Its common name.
        subject: String,
        /// The first.
        first: Role,
        /// The second.
        second: Role,
    },
}

impl Identity {
    /// Reads a certificate that TLS has verified.
    ///
    /// # Errors
    /// [`IdentityError`]: the certificate names no single role.
    pub fn from_certificate(certificate: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let malformed = |error: &dyn fmt::Display| IdentityError::Malformed(error.to_string());
        // TLS has verified the chain; here the certificate is only read.
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| malformed(&error))?;
        let subject = parsed.subject().iter_common_name().find_map(|name| name.as_str().ok()).unwrap_or_default().to_owned();
        let alternatives = parsed.subject_alternative_name().map_err(|error| malformed(&error))?;
        let (mut role, mut names) = (None, Vec::new());
        for name in alternatives.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::DNSName(name) => names.push((*name).to_owned()),
                GeneralName::URI(uri) => {
                    // A URI of another kind, or of a role that this version does not know, names no role.
                    let named = Role::ALL.into_iter().find(|role| uri.strip_prefix(ROLE_URI_PREFIX) == Some(role.word()));
                    if let (Some(first), Some(second)) = (role, named) {
                        // Two roles are refused and not ranked: whoever issued the certificate meant one of them.
                        return Err(IdentityError::TwoRoles { subject, first, second });
                    }
                    role = role.or(named);
                }
                _ => {}
            }
        }
        let Some(role) = role else { return Err(IdentityError::NoRole { subject }) };
        let digest = Who(Sha256::digest(certificate).into());
        Ok(Self { role, digest, names, subject, expires_unix: parsed.validity().not_after.timestamp() })
    }

    /// As events and logs name it. An authority may put anything into a common name.
    #[must_use]
    pub fn told(&self) -> Subject {
        let name: String = self.subject.chars().take(SUBJECT_CHARS_MAX).collect();
        let told = format!("{} ({})", OneLine(&name), self.role).into();
        Subject { told, who: Some(self.digest), name: Some(self.subject.as_str().into()) }
    }

    /// The end of the certificate on our own clock. Past ones are now.
    #[must_use]
    pub fn expires(&self) -> Instant {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(self.expires_unix).unwrap_or(0));
        // A certificate that outlives the clock's range is as good as endless.
        const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
        // The end is fixed on the monotonic clock now: a later step of the time of day moves it no more.
        Instant::now() + end.duration_since(SystemTime::now()).unwrap_or_default().min(FAR)
    }

    /// The name of the certificate by which it may speak for `host`: DNS knows no capitals, and hosts are told apart by this spelling
    /// alone. Only whole names count: a wildcard would let one node speak for all.
    #[must_use]
    pub fn speaks_for(&self, host: &str) -> Option<&str> {
        let mut names = self.names.iter().filter(|_| self.role == Role::Agent);
        names.find(|name| name.eq_ignore_ascii_case(host)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(uris: &[&str], names: &[&str]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
        params.subject_alt_names.extend(uris.iter().map(|&uri| SanType::URI(uri.try_into().unwrap())));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_role_includes_the_ones_before_it() {
        let allowed = |held: Role| Role::ALL.map(|needed| held.allows(needed));
        assert_eq!(allowed(Role::Read), [true, false, false, false]);
        assert_eq!(allowed(Role::Evaluate), [true, true, false, false]);
        assert_eq!(allowed(Role::Admin), [true, true, true, false]);
        assert_eq!(allowed(Role::Agent), [false, false, false, true]);
    }

    #[test]
    fn role_and_names_are_read() {
        let who = Identity::from_certificate(&certificate(&["urn:other:x", "urn:antiphase:role:agent"], &["Node-1", "node-2"])).unwrap();
        assert_eq!((who.role, who.names.as_slice()), (Role::Agent, ["Node-1".to_owned(), "node-2".to_owned()].as_slice()));
        let names = ["NODE-1", "node-1", "node-2", "node-3", ""].map(|host| who.speaks_for(host));
        assert_eq!(names, [Some("Node-1"), Some("Node-1"), Some("node-2"), None, None]);
    }

    #[test]
    fn only_a_whole_name_of_an_agent_speaks_for_a_host() {
        let who = |role: Role, name| Identity::from_certificate(&certificate(&[&role.uri()], &[name])).unwrap();
        assert_eq!(who(Role::Agent, "*.cluster").speaks_for("node-1.cluster"), None);
        assert_eq!(who(Role::Admin, "node-1").speaks_for("node-1"), None);
    }

    #[test]
    fn no_role_and_two_roles_are_nobody() {
        let of = |uris: &[&str]| Identity::from_certificate(&certificate(uris, &["x"])).unwrap_err();
        assert!(matches!(of(&[]), IdentityError::NoRole { .. }));
        assert!(matches!(of(&["urn:antiphase:role:root", "urn:antiphase:role:ADMIN"]), IdentityError::NoRole { .. }));
        let two = of(&["urn:antiphase:role:read", "urn:antiphase:role:admin"]);
        assert!(matches!(two, IdentityError::TwoRoles { first: Role::Read, second: Role::Admin, .. }), "{two}");
        assert!(matches!(Identity::from_certificate(&CertificateDer::from(vec![1, 2, 3])), Err(IdentityError::Malformed(_))));
    }
}
