//! What a client calls the program that it asks.

use core::net::IpAddr;

/// Whether the host of an authority (`NAME`, `NAME:PORT` or `[ADDRESS]:PORT`: RFC 3986, section 3.2) can only mean this machine:
/// `localhost`, or a loopback address.
///
/// Anybody can make a name of their own lead to 127.0.0.1, and a browser then takes what listens there for a part of their site (DNS
/// rebinding). So whoever serves everybody on this machine answers to no other name.
///
/// ```
/// use antiphase_units::names_this_machine;
/// assert!(names_this_machine("localhost:7481") && names_this_machine("[::1]"));
/// assert!(!names_this_machine("localhost.example.org"));
/// ```
#[must_use]
pub fn names_this_machine(authority: &str) -> bool {
    let name = match authority.strip_prefix('[') {
        // An IPv6 address stands in brackets, because it has colons of its own (RFC 3986, section 3.2.2).
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    };
    // `to_canonical` finds 127.0.0.1 in an IPv4-mapped IPv6 address too.
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_localhost_and_loopback_addresses_are_this_machine() {
        for good in ["localhost", "LOCALHOST:7480", "127.0.0.1:1", "127.9.9.9", "[::1]:7480", "[::1]", "[::ffff:127.0.0.1]:1"] {
            assert!(names_this_machine(good), "{good}");
        }
        let bad = ["", ":80", "[", "example.org", "localhost.example.org", "10.0.0.1", "[::2]", "localhost:1:2", "127.0.0.1.nip.example"];
        for bad in bad {
            assert!(!names_this_machine(bad), "{bad}");
        }
    }
}
