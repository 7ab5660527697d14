//! Who is admitted. The first round trip tells: with TLS 1.3 the handshake of a client ends before the service has seen its
//! certificate.

use std::{fs, net::IpAddr, path::Path, time::Duration};

use antiphase_topology::{
    pki::{self, Issued},
    quic::{CloseCode, Settings},
    tls::{Role, Tls},
};
use proto::v1alpha1::{Hello, agent_frame, service_frame};
use quinn::{ClientConfig, ConnectionError};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType, date_time_ymd};
use state::Event;

use crate::rig::{Agent, Pki, SOON, Service, client, closed_by_service, hello, said, until};

/// What the first round trip of a client says.
async fn first_round_trip(service: &Service, config: ClientConfig, hello: Hello) -> Result<service_frame::Kind, ConnectionError> {
    let mut agent = Agent::connect(service.address, config).await?;
    agent.say(&said(agent_frame::Kind::Hello(hello))).await;
    agent.next().await
}

#[tokio::test]
async fn an_agent_of_our_authority_is_welcome() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")));
    let mut agent = Agent::connect(service.address, config).await.unwrap();
    agent.say(&said(agent_frame::Kind::Hello(Hello { plan_version: 9, ..hello("node-1") }))).await;
    let service_frame::Kind::Welcome(welcome) = agent.next().await.unwrap() else { panic!("no welcome") };
    assert_eq!((welcome.protocol, welcome.report_interval_ns), (proto::PROTOCOL, 2_000_000_000));
    until("hello", || service.memory.hosts() == ["node-1"]).await;
    let is_hello = |event: &Event| matches!(event, Event::AgentHello { plan_version: 9, ports, .. } if ports == &["eth0"]);
    assert_eq!(service.memory.count(is_hello), 1);
    agent.connection.close(0_u32.into(), b"");
    until("gone", || service.memory.count(|event| matches!(event, Event::AgentGone { .. })) == 1).await;
}

#[tokio::test]
async fn without_a_certificate_of_ours_the_first_round_trip_fails() {
    let (pki, other) = (Pki::new(), Pki::new());
    let service = Service::start(pki.tls(), Settings::default());
    let ca = pki::authority_path(pki.dir());
    let cases = [
        ("no certificate", client(&ca, None)),
        ("another authority", client(&ca, Some(&other.agent("node-1")))),
        ("expired", client(&ca, Some(&issued_by_hand(pki.dir(), "expired", (2020, 2021), ExtendedKeyUsagePurpose::ClientAuth)))),
        ("not yet", client(&ca, Some(&issued_by_hand(pki.dir(), "early", (2090, 2091), ExtendedKeyUsagePurpose::ClientAuth)))),
        ("of a service", client(&ca, Some(&issued_by_hand(pki.dir(), "service", (2020, 2090), ExtendedKeyUsagePurpose::ServerAuth)))),
    ];
    for (count, (what, config)) in cases.into_iter().enumerate() {
        let refused = first_round_trip(&service, config, hello("node-1")).await;
        // TLS alerts are connection errors of QUIC: RFC 9001 section 4.8.
        assert!(matches!(refused, Err(ConnectionError::ConnectionClosed(_))), "{what}: {refused:?}");
        until(what, || service.stats.handshakes_failed.get() == count as u64 + 1).await;
    }
    // The cases above fail for what they say: the same certificate in its time is welcome.
    let good = issued_by_hand(pki.dir(), "good", (2020, 2090), ExtendedKeyUsagePurpose::ClientAuth);
    assert!(matches!(first_round_trip(&service, client(&ca, Some(&good)), hello("node-1")).await, Ok(service_frame::Kind::Welcome(_))));
    assert_eq!(service.memory.hosts(), ["node-1"]);
}

/// For node-1, with the authority's own key but dates of our choice.
fn issued_by_hand(dir: &Path, name: &str, years: (i32, i32), purpose: ExtendedKeyUsagePurpose) -> Issued {
    let authority = pki::paths(dir, "ca");
    let key = KeyPair::from_pem(&fs::read_to_string(authority.key).unwrap()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&fs::read_to_string(authority.certificate).unwrap(), key).unwrap();
    let mut params = CertificateParams::new(vec!["node-1".to_owned()]).unwrap();
    params.subject_alt_names.push(SanType::URI("urn:antiphase:role:agent".try_into().unwrap()));
    params.extended_key_usages = vec![purpose];
    (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let issued = pki::paths(dir, name);
    fs::write(&issued.certificate, certificate.pem()).unwrap();
    fs::write(&issued.key, key.serialize_pem()).unwrap();
    issued
}

#[tokio::test]
async fn the_wrong_role_host_or_protocol_is_refused_in_words() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let ca = pki::authority_path(pki.dir());
    let day = Duration::from_secs(86_400);
    let (admin, agent) = (pki.issue(Role::Admin, "ops", &[], day), pki.issue(Role::Agent, "node-1", &["node-1", "node-2"], day));
    let cases = [
        (&admin, hello("node-1"), "role admin"),
        (&agent, hello("node-3"), "names node-1, node-2, not the host \"node-3\""),
        (&agent, hello("../node-1"), "no name of a host"),
        (&agent, Hello { protocol: 0, ..hello("node-1") }, "protocol 0 is too old"),
    ];
    for (identity, hello, expected) in cases {
        let mut agent = Agent::connect(service.address, client(&ca, Some(identity))).await.unwrap();
        agent.say(&said(agent_frame::Kind::Hello(hello))).await;
        let service_frame::Kind::Refusal(refusal) = agent.next().await.unwrap() else { panic!("not refused: {expected}") };
        assert!(refusal.reason.contains(expected) && !refusal.retry, "{refusal:?}");
        let (code, reason) = closed_by_service(&agent.closed().await);
        assert!(code == CloseCode::Refused as u64 && refusal.reason.starts_with(&reason), "{code} {reason}");
    }
    assert_eq!(service.memory.hosts(), [""; 0]);
    assert_eq!(service.stats.refused.get(), 4);
}

#[tokio::test]
async fn another_application_protocol_gets_no_connection() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(crate::rig::certificates(&pki::authority_path(pki.dir())).remove(0)).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let config = ClientConfig::new(std::sync::Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap()));
    let refused = Agent::connect(service.address, config).await.map(|_| ()).unwrap_err();
    assert!(matches!(refused, ConnectionError::ConnectionClosed(_)), "{refused:?}");
}

#[tokio::test]
async fn a_certificate_that_ends_ends_its_session() {
    let pki = Pki::new();
    // Checked four times per silence.
    let settings = Settings { silence_max: Duration::from_secs(4), ..Settings::default() };
    let service = Service::start(pki.tls(), settings);
    let short = pki.issue(Role::Agent, "node-1", &["node-1"], Duration::from_secs(2));
    let mut agent = Agent::connect(service.address, client(&pki::authority_path(pki.dir()), Some(&short))).await.unwrap();
    agent.say(&said(agent_frame::Kind::Hello(hello("node-1")))).await;
    assert!(matches!(agent.next().await.unwrap(), service_frame::Kind::Welcome(_)));
    let service_frame::Kind::Refusal(refusal) = agent.next().await.unwrap() else { panic!("no refusal") };
    assert!(refusal.reason.contains("expired") && refusal.retry, "{refusal:?}");
    assert_eq!(closed_by_service(&agent.closed().await).0, CloseCode::Expired as u64);
}

#[tokio::test]
async fn new_certificates_are_taken_up_whole_or_not_at_all() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let ca = pki::authority_path(pki.dir());
    let old = client(&ca, Some(&pki.agent("node-1")));

    let key = pki::service_paths(pki.dir()).key;
    let good = fs::read(&key).unwrap();
    fs::write(&key, "torn").unwrap();
    let error = service.tls.reload().unwrap_err().to_string();
    assert!(error.contains("server.key"), "{error}");
    assert!(first_round_trip(&service, old.clone(), hello("node-1")).await.is_ok(), "the old ones stay");
    fs::write(&key, good).unwrap();

    pki::init(pki.dir(), &["localhost".into()], true).unwrap();
    service.tls.reload().unwrap();
    let new = client(&ca, Some(&pki.agent("node-1")));
    // The endpoint takes the new ones up a moment later.
    let mut tries = 0;
    while first_round_trip(&service, new.clone(), hello("node-1")).await.is_err() {
        tries += 1;
        assert!(tries < 100, "the new authority is not taken up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(first_round_trip(&service, old, hello("node-1")).await.is_err(), "the old authority is forgotten");
}

#[tokio::test]
async fn a_session_ends_with_its_authority_and_not_before() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut agent = Agent::welcomed(&service, &pki, "node-1").await;
    let ca = pki::authority_path(pki.dir());
    let old = fs::read_to_string(&ca).unwrap();
    let heard = |count| {
        let memory = &service.memory;
        move || memory.count(|event| matches!(event, Event::Report { .. })) == count
    };

    // The old authority and a new one: agents can be given new certificates one by one.
    pki::init(pki.dir(), &["localhost".into()], true).unwrap();
    let new = fs::read_to_string(&ca).unwrap();
    // The new one first: certificates are issued by the first.
    fs::write(&ca, format!("{new}{old}")).unwrap();
    service.tls.reload().unwrap();
    // The endpoint takes the new ones up a moment later, and one who is let in after that shows it.
    let config = client(&ca, Some(&pki.agent("node-2")));
    let welcomed = async {
        loop {
            let mut agent = Agent::connect(service.address, config.clone()).await.unwrap();
            agent.say(&said(agent_frame::Kind::Hello(hello("node-2")))).await;
            if matches!(agent.next().await, Ok(service_frame::Kind::Welcome(_))) {
                return agent;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut later = tokio::time::timeout(SOON, welcomed).await.expect("the new authority is taken up in time");
    agent.say(&crate::rig::report(1)).await;
    until("of two authorities either is good", heard(1)).await;

    // The new one alone.
    fs::write(&ca, new).unwrap();
    service.tls.reload().unwrap();
    let service_frame::Kind::Refusal(refusal) = agent.next().await.unwrap() else { panic!("no refusal") };
    assert!(refusal.retry, "the agent may have another certificate by now: {refusal:?}");
    for part in ["client authorities changed", "invalid peer certificate", "give the agent one that is"] {
        assert!(refusal.reason.contains(part), "{refusal:?}");
    }
    assert_eq!(closed_by_service(&agent.closed().await).0, CloseCode::Untrusted as u64);
    later.say(&crate::rig::report(1)).await;
    until("who has a certificate of the new one stays", heard(2)).await;
}

#[tokio::test]
async fn without_certificates_only_this_machine_is_served() {
    let service = Service::start_at("0.0.0.0:0".parse().unwrap(), Tls::throw_away().unwrap(), Settings::default());
    let of = |ip: IpAddr| {
        let address = (ip, service.address.port()).into();
        async move {
            let mut agent = Agent::connect(address, trusting()).await?;
            agent.say(&said(agent_frame::Kind::Hello(hello("any-name")))).await;
            agent.next().await
        }
    };
    assert!(matches!(of([127, 0, 0, 1].into()).await, Ok(service_frame::Kind::Welcome(_))));
    let Some(own) = own_address() else {
        println!("skipped: this machine has no address but loopback, so nobody can call from elsewhere");
        return;
    };
    let refused = tokio::time::timeout(SOON, of(own)).await.unwrap();
    assert!(matches!(&refused, Ok(service_frame::Kind::Refusal(refusal)) if refusal.reason.contains("own machine only")), "{refused:?}");
}

/// An address of this machine that is not loopback: the one from which it would reach the world. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Trusts any service; the throw-away certificate has no authority.
fn trusting() -> ClientConfig {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    #[derive(Debug)]
    struct Any;
    impl ServerCertVerifier for Any {
        fn verify_server_cert(
            &self,
            _: &rustls_pki_types::CertificateDer<'_>,
            _: &[rustls_pki_types::CertificateDer<'_>],
            _: &rustls_pki_types::ServerName<'_>,
            _: &[u8],
            _: rustls_pki_types::UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &rustls_pki_types::CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &rustls_pki_types::CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let mut tls = builder.dangerous().with_custom_certificate_verifier(std::sync::Arc::new(Any)).with_no_client_auth();
    tls.alpn_protocols = vec![proto::ALPN.to_vec()];
    ClientConfig::new(std::sync::Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap()))
}
