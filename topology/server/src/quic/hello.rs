//! The first frames of a session: who is it, may it speak for that host, which protocol.

use std::{net::SocketAddr, sync::Arc};

use proto::{
    PROTOCOL,
    frame::Decoder,
    v1alpha1::{AgentFrame, Hello, Welcome, agent_frame},
};
use quinn::{Connection, RecvStream, SendStream};
use rustls_pki_types::CertificateDer;
use state::config::{PORTS_MAX, VERSION_BYTES_MAX};

use super::{CONTROL_FRAME_BYTES_MAX, CloseCode, End, PROTOCOL_MIN, READ_BYTES, Settings, convert::shortened, is_port};
use crate::tls::{self, Admission, Identity, Role};

/// The control stream as it stands after the first frame.
pub(super) struct Control {
    pub(super) send: SendStream,
    pub(super) recv: RecvStream,
    pub(super) decoder: Decoder,
}

/// What keeps a connection from becoming a session.
pub(super) enum Failed {
    /// With a stream on which to say it.
    Refused(SendStream, End),
    /// Without one.
    Ended(End),
}

/// Waits for the control stream and its Hello. The caller bounds the wait.
pub(super) async fn hello(connection: &Connection) -> Result<(Control, Hello), Failed> {
    let gone = |error: &dyn std::fmt::Display| Failed::Ended(End::new(CloseCode::Done, error.to_string()));
    let (send, mut recv) = connection.accept_bi().await.map_err(|error| gone(&error))?;
    // A frame that announces more than `CONTROL_FRAME_BYTES_MAX` is refused at its length, before anything is kept for it.
    let mut decoder = Decoder::with_limit(CONTROL_FRAME_BYTES_MAX);
    loop {
        // The decoder goes on to the session with whatever came behind the hello.
        match decoder.next::<AgentFrame>() {
            Ok(Some(AgentFrame { kind: Some(agent_frame::Kind::Hello(hello)) })) => return Ok((Control { send, recv, decoder }, hello)),
            Ok(Some(_)) => return Err(Failed::Refused(send, End::refused("the first frame was no hello", false))),
            Err(error) => return Err(Failed::Refused(send, End::refused(error.to_string(), false))),
            Ok(None) => {}
        }
        match recv.read_chunk(READ_BYTES, true).await {
            Ok(Some(chunk)) => decoder.push(&chunk.bytes),
            Ok(None) => return Err(Failed::Refused(send, End::refused("the control stream ended without a hello", false))),
            Err(error) => return Err(gone(&error)),
        }
    }
}

/// The identity of the peer, as far as its certificate or its address says; `None`: anybody of this machine.
pub(super) fn identity(connection: &Connection, admission: Admission) -> Result<Option<Identity>, End> {
    match admission {
        Admission::Loopback if tls::is_loopback(connection.remote_address().ip()) => Ok(None),
        Admission::Loopback => Err(not_loopback(connection.remote_address())),
        Admission::Certificate => {
            let shown = certificates(connection);
            // The role is not judged here: `admit` says in words what is wrong with it.
            let identity = tls::identity(shown.as_deref()).map_err(|error| End::refused(error.to_string(), false))?;
            Ok(Some(identity))
        }
    }
}

/// The chain that the peer showed, if it did.
pub(super) fn certificates(connection: &Connection) -> Option<Vec<CertificateDer<'static>>> {
    connection.peer_identity()?.downcast().ok().map(|chain| *chain)
}

fn not_loopback(address: SocketAddr) -> End {
    End::refused(format!("this service has no certificates and serves its own machine only, not {}", address.ip()), false)
}

/// Checks a Hello against the peer's identity, and gives the answer and the host.
pub(super) fn admit(hello: &Hello, identity: Option<&Identity>, settings: &Settings) -> Result<(Welcome, Arc<str>), End> {
    let refuse = |reason: String| Err(End::refused(reason, false));
    // The protocol comes first: of a hello of another protocol no other field can be judged.
    if hello.protocol < PROTOCOL_MIN {
        return refuse(format!(
            "protocol {} is too old; this service speaks {PROTOCOL_MIN} to {PROTOCOL}: update the agent",
            hello.protocol
        ));
    }
    // The host is a key of the state and stands in logs, so its name is checked even without certificates.
    if units::check_name(&hello.host).is_err() {
        return refuse(format!("{:?} is no name of a host", shortened(&hello.host)));
    }
    let mut host = hello.host.as_str();
    if let Some(who) = identity {
        // A person's certificate may name the same host: the role decides, and then the host (P89).
        if who.role != Role::Agent {
            return refuse(format!("the certificate of {:?} has the role {}; an agent needs the role agent", who.subject, who.role));
        }
        // As the certificate spells it: one certificate is not many hosts by capitals.
        host = match who.speaks_for(host) {
            Some(name) => name,
            None => return refuse(format!("the certificate of {:?} names {}, not the host {host:?}", who.subject, listed(&who.names))),
        };
    }
    // The version stands in logs, events and tables.
    if hello.version.chars().any(|c| !c.is_ascii_graphic()) {
        return refuse(format!("{:?} is no version: letters, digits and signs of ASCII", shortened(&hello.version)));
    }
    // Version and ports stay in memory for each of up to `SESSIONS_MAX` agents, so their lengths are bounded.
    if hello.version.len() > VERSION_BYTES_MAX {
        return refuse(format!("a version of {} bytes; at most {VERSION_BYTES_MAX}", hello.version.len()));
    }
    let ports = hello.ports.len();
    if ports > PORTS_MAX {
        return refuse(format!("{ports} ports; at most {PORTS_MAX}"));
    }
    if let Some(port) = hello.ports.iter().find(|port| !is_port(port)) {
        return refuse(format!("{:?} is no name of a port", shortened(port)));
    }
    let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let welcome = Welcome {
        // A newer agent is answered with the newest protocol that both sides know.
        protocol: hello.protocol.min(PROTOCOL),
        version: settings.version.clone(),
        report_interval_ns: nanos(settings.report_interval),
        idle_timeout_ns: nanos(settings.silence_max),
        probe_interval_ns: nanos(settings.probe_interval),
    };
    Ok((welcome, host.into()))
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "no host".to_owned(),
        names => shortened(&names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Who;

    fn who(role: Role, names: &[&str]) -> Identity {
        Identity {
            role,
            digest: Who([0; 32]),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            subject: "x".into(),
            expires_unix: 0,
        }
    }

    fn said(host: &str, protocol: u32) -> Hello {
        Hello { host: host.to_owned(), version: "0.1.0".into(), protocol, ports: vec!["eth0".into()], plan_version: 0, instance: 0 }
    }

    #[test]
    fn the_lower_protocol_is_spoken_and_one_that_is_too_old_refused() {
        let settings = Settings::default();
        let agent = who(Role::Agent, &["node-1"]);
        for offered in [PROTOCOL, PROTOCOL + 1, u32::MAX] {
            assert_eq!(admit(&said("node-1", offered), Some(&agent), &settings).unwrap().0.protocol, PROTOCOL);
        }
        let refused = admit(&said("node-1", PROTOCOL_MIN - 1), Some(&agent), &settings).unwrap_err();
        assert!(refused.reason.contains("too old"), "{}", refused.reason);
    }

    #[test]
    fn only_an_agent_speaks_and_only_for_its_host() {
        let settings = Settings::default();
        let of = |host, who: Option<&Identity>| {
            admit(&said(host, 1), who, &settings).map(|(_, host)| host.to_string()).map_err(|end| end.reason)
        };
        assert_eq!(of("node-1", Some(&who(Role::Agent, &["node-1", "node-2"]))).unwrap(), "node-1");
        assert!(
            of("node-3", Some(&who(Role::Agent, &["node-1", "node-2"]))).unwrap_err().contains("node-1, node-2, not the host \"node-3\"")
        );
        assert!(of("node-1", Some(&who(Role::Admin, &["node-1"]))).unwrap_err().contains("role admin"));
        assert_eq!(of("any", None).unwrap(), "any");
        // One certificate is one host, however the agent spells it.
        for spelled in ["node-1", "NODE-1", "nOdE-1"] {
            assert_eq!(of(spelled, Some(&who(Role::Agent, &["Node-1"]))).unwrap(), "Node-1");
        }
    }

    #[test]
    fn a_hello_that_grows_is_refused() {
        let settings = Settings::default();
        let refused = |hello: Hello| admit(&hello, None, &settings).unwrap_err().reason;
        assert!(refused(said(&"x".repeat(254), 1)).len() < 200);
        assert!(refused(Hello { version: "x".repeat(65), ..said("a", 1) }).contains("65"));
        for version in ["1\n2026-01-01 ERROR forged", "1\u{1b}[2J", "1\u{202e}", "\u{7f}"] {
            let reason = refused(Hello { version: version.into(), ..said("a", 1) });
            assert!(reason.contains("no version") && !reason.chars().any(char::is_control), "{reason}");
        }
        assert!(refused(Hello { ports: vec!["eth0\n".into()], ..said("a", 1) }).contains("port"));
        assert!(refused(Hello { ports: vec!["p".into(); PORTS_MAX + 1], ..said("a", 1) }).contains("257"));
        assert!(refused(Hello { ports: vec!["p".repeat(254)], ..said("a", 1) }).contains("port"));
    }
}
