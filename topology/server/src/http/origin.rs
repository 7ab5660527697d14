//! Requests that a browser sends for somebody else's page.
//!
//! A page of any site can make a browser that reaches the service send requests, with the client's certificate or, on loopback,
//! with the rights of everybody on the machine. Browsers say so, in headers that a page cannot change (Fetch Metadata, RFC 6454),
//! and ask first about a body that says it is JSON.

use axum::http::{HeaderMap, HeaderName, Method, Uri, header};

use units::names_this_machine;

use crate::api::{ApiError, Kind};

/// Headers that say one thing each.
const SINGLE: [HeaderName; 3] = [header::HOST, header::ORIGIN, header::CONTENT_TYPE];

/// Passes a request that no other site's page can have made. `loopback`: without certificates; then a name that somebody made
/// lead to this machine (DNS rebinding) must not pass as ours, not even for reads.
///
/// # Errors
/// Names the header and its value.
pub(super) fn check(method: &Method, uri: &Uri, headers: &HeaderMap, loopback: bool) -> Result<(), ApiError> {
    // Of two values the service and whatever stands before it may each believe another one. Two hosts are refused by RFC 9112, section 3.2.
    if let Some((name, count)) = SINGLE.iter().map(|name| (name, headers.get_all(name).iter().count())).find(|(_, count)| *count > 1) {
        return Err(ApiError::invalid(format!("{name}: {count} of them; at most one")));
    }
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let host = uri.authority().map(|a| a.as_str().to_owned()).or_else(|| text(header::HOST.as_str()));
    // A request without a host is from no browser.
    if let Some(host) = host.as_ref().filter(|host| loopback && !names_this_machine(host)) {
        return Err(refused("host", host).hint("without tls the service is asked as localhost or by a loopback address"));
    }
    // Reads change nothing, and a browser keeps their answers from pages of other sites (same-origin policy).
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    // `none` is a person who typed the address. A program sends no such header and passes.
    if let Some(site) = text("sec-fetch-site").filter(|site| site != "same-origin" && site != "none") {
        return Err(refused("sec-fetch-site", &site));
    }
    let own = |origin: &str| {
        let (scheme, authority) = origin.split_once("://").unwrap_or_default();
        // Names of hosts and schemes have no case (RFC 3986, section 6.2.2.1).
        host.as_ref().is_some_and(|host| without_port(host, scheme).eq_ignore_ascii_case(without_port(authority, scheme)))
    };
    // Browsers without Fetch Metadata send the origin with every request that may change something (RFC 6454).
    if let Some(origin) = text(header::ORIGIN.as_str()).filter(|origin| !own(origin)) {
        return Err(refused("origin", &origin));
    }
    Ok(())
}

/// Passes a body that says it is JSON: a page of another site cannot send one unasked.
///
/// # Errors
/// Names the type.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let said = headers.get(header::CONTENT_TYPE).map_or(String::new(), |value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    // Parameters such as the character set come after a semicolon.
    let kind = said.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::invalid(format!("content-type: {said:?}")).hint("content-type: application/json"))
}

fn refused(name: &str, value: &str) -> ApiError {
    ApiError::new(Kind::Forbidden, &format!("{name}: {value:?}: a request for another site's page"))
}

/// The port that a scheme means by itself is as good as none.
fn without_port<'a>(authority: &'a str, scheme: &str) -> &'a str {
    let port = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(port).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: Method, uri: &str, pairs: &[(&'static str, &str)], loopback: bool) -> bool {
        let headers = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        check(&method, &uri.parse().unwrap(), &headers, loopback).is_ok()
    }

    #[test]
    fn only_pages_of_the_service_may_change_something() {
        let post = |pairs: &[(&'static str, &str)]| ask(Method::POST, "/v1alpha1/release", pairs, false);
        assert!(post(&[]) && post(&[("host", "topology.example")]));
        assert!(post(&[("host", "topology.example"), ("origin", "https://Topology.example:443"), ("sec-fetch-site", "same-origin")]));
        assert!(post(&[("host", "topology.example:7480"), ("origin", "https://topology.example:7480")]));
        for bad in ["https://evil.example", "null", "https://topology.example", "https://topology.example:7480.evil.example", ""] {
            assert!(!post(&[("host", "topology.example:7480"), ("origin", bad)]), "{bad}");
        }
        assert!(!post(&[("origin", "https://topology.example")]));
        for bad in ["cross-site", "same-site", "moon"] {
            assert!(!post(&[("host", "a"), ("sec-fetch-site", bad)]), "{bad}");
        }
        // Reads answer: another site's page cannot see what.
        assert!(ask(Method::GET, "/", &[("host", "a"), ("sec-fetch-site", "cross-site"), ("origin", "null")], false));
    }

    #[test]
    fn on_loopback_only_names_of_this_machine_are_answered() {
        for good in ["localhost", "LOCALHOST:7480", "127.0.0.1:1", "127.9.9.9", "[::1]:7480", "[::1]"] {
            assert!(ask(Method::GET, "/", &[("host", good)], true), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:7480",
            "localhost.evil.example",
            "10.0.0.1",
            "[::2]",
            "",
            "localhost:1:2",
            "127.0.0.1.nip.example",
        ] {
            assert!(!ask(Method::GET, "/", &[("host", bad)], true), "{bad}");
        }
        assert!(
            ask(Method::GET, "http://localhost:7480/", &[], true)
                && !ask(Method::GET, "http://evil.example/", &[("host", "localhost")], true)
        );
        assert!(ask(Method::GET, "/", &[], true));
    }

    #[test]
    fn what_says_one_thing_stands_there_once() {
        let answer = |method: Method, pairs: &[(&'static str, &str)], loopback| {
            let headers: HeaderMap = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
            check(&method, &"/".parse().unwrap(), &headers, loopback).map_err(|error| (error.kind, error.message))
        };
        for name in ["host", "origin", "content-type"] {
            let refused = answer(Method::GET, &[(name, "localhost"), (name, "evil.example")], true).unwrap_err();
            assert_eq!(refused, (Kind::Invalid, format!("{name}: 2 of them; at most one")));
            // The same twice is no better: RFC 9112 refuses it, and something before the service may drop either.
            answer(Method::POST, &[(name, "localhost"), (name, "localhost"), (name, "localhost")], false).unwrap_err();
        }
        answer(Method::GET, &[("host", "localhost"), ("accept", "a"), ("accept", "b")], true).unwrap();
    }

    #[test]
    fn a_body_has_to_say_that_it_is_json() {
        let said = |value: &str| is_json(&std::iter::once((header::CONTENT_TYPE, value.parse().unwrap())).collect()).is_ok();
        assert!(said("application/json") && said("Application/JSON; charset=utf-8"));
        assert!(!said("text/plain") && !said("application/x-www-form-urlencoded") && !said("application/jsonp"));
        assert!(is_json(&HeaderMap::new()).is_err());
    }
}
