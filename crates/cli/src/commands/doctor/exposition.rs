//! What `/metrics` says, of the service and of an agent.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Longest wait for an agent on this machine, for each step.
const AGENT_WITHIN: Duration = Duration::from_secs(2);
/// Most of an answer that is read: an agent of 64 ports and 256 jobs writes a third of it.
const BYTES_MAX: u64 = 4 << 20;

/// The text of an agent's `/metrics`.
pub(super) fn of_agent(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, AGENT_WITHIN)?;
    stream.set_read_timeout(Some(AGENT_WITHIN))?;
    stream.set_write_timeout(Some(AGENT_WITHIN))?;
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.take(BYTES_MAX).read_to_string(&mut text)?;
    let is_ok = text.lines().next().is_some_and(|line| line.contains(" 200 "));
    if is_ok { Ok(text) } else { Err(io::Error::other("what answers there is no agent")) }
}

/// The value of a metric without labels.
pub(super) fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// The version in `<prefix>_build_info`.
pub(super) fn version(text: &str, prefix: &str) -> Option<String> {
    label(text, &format!("{prefix}_build_info"), "version")
}

/// A label of the first series of a metric.
pub(super) fn label(text: &str, metric: &str, name: &str) -> Option<String> {
    let mut rest = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix('{'))?;
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        if key == name {
            return Some(value);
        }
        rest = after.strip_prefix(',')?;
    }
}

/// The value up to its quotation mark, with `\\`, `\"` and `\n` as they are meant, and what comes behind.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, char) in text.char_indices() {
        match (escaped, char) {
            (false, '"') => return Some((value, &text[at + 1..])),
            (false, '\\') => escaped = true,
            (true, 'n') => (value.push('\n'), escaped = false).1,
            (_, char) => (value.push(char), escaped = false).1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_versions_are_read() {
        let text =
            "# HELP a_up x\na_up_x 7\na_up 1\na_build_info{version=\"0.1.0\"} 1\na_config_info{host=\"h,1\",dir=\"/a\\\"b\\\\\"} 1\n";
        assert_eq!((value(text, "a_up"), value(text, "a_u")), (Some(1.0), None));
        assert_eq!((version(text, "a").as_deref(), version(text, "b")), (Some("0.1.0"), None));
        let of = |name| label(text, "a_config_info", name);
        assert_eq!((of("host").as_deref(), of("dir").as_deref(), of("page")), (Some("h,1"), Some("/a\"b\\"), None));
    }
}
