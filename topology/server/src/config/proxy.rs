//! A reverse proxy that knows its users: who it is, and where it names them.

use serde::Deserialize;

/// The proxy before the page, and the header in which it names its user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    /// Common name of its certificate, whose role its users have.
    pub certificate: String,
    /// The header, in lower case.
    #[serde(default = "header")]
    pub header: String,
}

fn header() -> String {
    "x-forwarded-user".into()
}

impl ProxyConfig {
    /// What is wrong with it, on one line.
    pub(super) fn problem(&self) -> Option<String> {
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if self.certificate.is_empty() {
            Some("proxy.certificate: empty".into())
        } else if self.header.is_empty() || !self.header.bytes().all(is_name) {
            Some(format!("proxy.header: {:?}; expected the name of a header in lower case", self.header))
        } else {
            None
        }
    }
}
