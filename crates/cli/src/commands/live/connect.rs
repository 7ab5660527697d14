//! Reaching the service: address, certificates, and what its refusals look like.

use std::{
    future::{Future, poll_fn},
    io,
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use proto::v1alpha1::topology_client::TopologyClient;
use tonic::{
    Code, Status,
    client::GrpcService as _,
    codegen::{Body as _, http},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use crate::input::CliError;

/// A service that does not answer within this is down: people wait for commands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a service that owes an answer is asked whether it lives, and how long it may be silent then: one that works on a long plan says so
/// meanwhile, and one that hangs keeps nobody for longer than the two together.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
const ALIVE_WITHIN: Duration = Duration::from_secs(10);
/// How often is looked who cut us off, and how long after another.
const LOOKS: u32 = 4;
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// The longest answer is a plan over a whole fabric.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Largest answer of [`get`]: `/metrics` of a fabric with a thousand jobs takes half a megabyte.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// A connected client.
pub(crate) type Client = TopologyClient<Channel>;

/// How to reach the topology service.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerArgs {
    /// Address of the topology service
    #[arg(long, value_name = "URL", env = "ANTIPHASE_SERVER", default_value = "http://127.0.0.1:7480")]
    server: String,
    /// Certificate authority of the service, for https
    #[arg(long, value_name = "FILE", env = "ANTIPHASE_CA")]
    ca: Option<PathBuf>,
    /// Own certificate
    #[arg(long, value_name = "FILE", env = "ANTIPHASE_CERT", requires = "key")]
    cert: Option<PathBuf>,
    /// Key of the own certificate
    #[arg(long, value_name = "FILE", env = "ANTIPHASE_KEY", requires = "cert")]
    key: Option<PathBuf>,
}

/// Why a service cannot be asked.
#[derive(Debug)]
pub(crate) enum Unreached {
    /// Options or files that cannot be taken.
    Input(CliError),
    /// Nobody answers, or nobody who will talk to us: what was said, and what to do where that is known.
    Silent {
        /// One line.
        says: String,
        /// One line.
        fix: Option<&'static str>,
    },
}

impl From<Unreached> for CliError {
    fn from(unreached: Unreached) -> Self {
        match unreached {
            Unreached::Input(error) => error,
            Unreached::Silent { says, fix: Some(fix) } => Self::Failure(format!("{says}: {fix}")),
            Unreached::Silent { says, fix: None } => Self::Failure(says),
        }
    }
}

impl ServerArgs {
    /// Runs `ask` with a connected client.
    pub(super) fn with<T, F: Future<Output = Result<T, CliError>>>(&self, ask: impl FnOnce(Client) -> F) -> Result<T, CliError> {
        self.with_channel(|channel| ask(client(channel)))
    }

    /// Runs `ask` with a connection, for [`client`] and [`get`].
    pub(super) fn with_channel<T, F: Future<Output = Result<T, CliError>>>(&self, ask: impl FnOnce(Channel) -> F) -> Result<T, CliError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // One thread is enough: a command has one request under way at a time.
        let runtime = runtime.map_err(|e| CliError::Failure(format!("cannot start: {e}")))?;
        runtime.block_on(async {
            match ask(self.channel().await?).await {
                // A service that wants TLS, or a certificate, says so only when something is asked: until then there is a connection.
                Err(CliError::Failure(problem)) if is_cut_off(&problem) => Err(self.cut_off(&problem).await),
                asked => asked,
            }
        })
    }

    /// Why the connection ended with these words. A second connection tells a service that is gone, or began anew, from one that wants something
    /// else of us.
    async fn cut_off(&self, problem: &str) -> CliError {
        for _ in 1..LOOKS {
            if let Some(error) = self.look(problem, false).await {
                return error;
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
        self.look(problem, true).await.unwrap_or_else(|| CliError::Failure(format!("{}: {problem}", self.server)))
    }

    /// What a second connection tells; nothing where that is cut off too, unless this is the `last` look: a program that is killed may take
    /// connections for a moment still, and only one that goes on cutting us off wants something else of us.
    async fn look(&self, problem: &str, last: bool) -> Option<CliError> {
        let server = &self.server;
        let mut channel = match self.channel().await {
            Ok(channel) => channel,
            Err(Unreached::Input(error)) => return Some(error),
            Err(Unreached::Silent { fix: Some(fix), .. }) => {
                return Some(CliError::Failure(format!("{server}: the service is gone: {fix}")));
            }
            Err(Unreached::Silent { says, fix: None }) => return Some(CliError::Failure(format!("{says}: the service is gone"))),
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, get(&mut channel, "/healthz")).await {
            Ok(Ok(_)) => {
                Some(CliError::Failure(format!("{server}: the service ended the connection, and is there again; start the command again")))
            }
            Ok(Err(_)) if !last => None,
            Ok(Err(error)) => {
                let fix = self.wants(&error.problem()).map_or_else(String::new, |fix| format!(": {fix}"));
                Some(CliError::Failure(format!("{server}: {problem}{fix}")))
            }
            Err(_) => {
                let seconds = (ALIVE_EVERY + ALIVE_WITHIN).as_secs();
                Some(CliError::Failure(format!(
                    "{server}: the service did not answer for {seconds} s: it hangs, or is cut off from here; look at its log"
                )))
            }
        }
    }

    /// What a service wants that cuts us off with these words.
    pub(crate) fn wants(&self, problem: &str) -> Option<&'static str> {
        match self.is_plain() {
            _ if !is_cut_off(problem) => None,
            true => Some(WANTS_TLS),
            false => self.cert.is_none().then_some(WANTS_CERTIFICATE),
        }
    }

    /// The service's address.
    pub(crate) fn address(&self) -> &str {
        &self.server
    }

    /// Files of certificates that these options name, with what each is.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        [("authority of the service", &self.ca), ("own certificate", &self.cert)]
            .into_iter()
            .filter_map(|(what, file)| Some((what, file.as_deref()?)))
    }

    fn is_plain(&self) -> bool {
        self.server.starts_with("http://")
    }

    /// Why there is no connection, and what to do.
    fn unreached(&self, error: &(dyn std::error::Error + 'static)) -> Unreached {
        let (said, server) = (causes(error), &self.server);
        let kind = io_kind(error);
        let fix = if kind == Some(io::ErrorKind::ConnectionRefused) || said.contains("Connection refused") {
            let local = server.split_once("://").is_some_and(|(_, rest)| units::names_this_machine(rest.trim_end_matches('/')));
            Some(if local { NOT_STARTED } else { NOT_THERE })
        } else if said.contains("InvalidContentType") || said.contains("corrupt message") {
            // The first bytes of an answer in clear text are no record of TLS.
            Some("the service answers in clear text; ask it by http://")
        } else if said.contains("UnknownIssuer") {
            Some("--ca FILE (ANTIPHASE_CA) names the authority of the service's certificate")
        } else if said.contains("not valid for name") {
            Some("--server has to be a name that stands in the service's certificate")
        } else if said.contains("lookup") || said.contains("dns") {
            Some("no such host; --server URL (ANTIPHASE_SERVER) is the address of the service")
        } else {
            None
        };
        Unreached::Silent { says: format!("{server}: {said}"), fix }
    }

    /// A connection for [`client`] and [`get`].
    pub(crate) async fn channel(&self) -> Result<Channel, Unreached> {
        let refuse = |problem: String| Unreached::Input(CliError::Usage(format!("--server {:?}: {problem}", self.server)));
        let endpoint = Endpoint::from_shared(self.server.clone()).map_err(|e| refuse(e.to_string()))?;
        let uri = endpoint.uri();
        // The library takes the scheme's own port where there is none that it can read, and leaves a path out.
        let port = uri.authority().and_then(|to| to.as_str().rsplit_once(':')).map(|(_, port)| port).filter(|port| !port.ends_with(']'));
        if let Some(port) = port.filter(|port| uri.port_u16().is_none() || **port == *"0") {
            return Err(refuse(format!("no port is {port:?}; ports are 1 to 65535")));
        }
        if let Some(path) = uri.path_and_query().filter(|path| path.as_str() != "/") {
            return Err(refuse(format!("the path {:?} has no meaning here", path.as_str())));
        }
        let endpoint = match uri.scheme_str() {
            // The scheme alone decides on TLS, so a certificate in the environment does no harm to a plain address.
            Some("http") => endpoint,
            Some("https") => endpoint.tls_config(self.tls().map_err(Unreached::Input)?).map_err(|e| self.untaken(&causes(&e)))?,
            _ => return Err(refuse("needs http:// or https://".into())),
        };
        let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT).http2_keep_alive_interval(ALIVE_EVERY).keep_alive_timeout(ALIVE_WITHIN);
        endpoint.connect().await.map_err(|e| self.unreached(&e))
    }

    /// Why certificates that could be read cannot be used.
    fn untaken(&self, said: &str) -> Unreached {
        let problem = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) if said.contains("KeyMismatch") => {
                format!("--cert {} and --key {}: this is not the key of this certificate", cert.display(), key.display())
            }
            (Some(cert), Some(key)) => {
                // The library takes all files at once, and does not say which it means.
                let ca = self.ca.as_ref().map_or_else(String::new, |ca| format!("--ca {}, ", ca.display()));
                format!("{ca}--cert {} and --key {}: {said}", cert.display(), key.display())
            }
            _ => format!("--server {:?}: {said}", self.server),
        };
        Unreached::Input(CliError::Usage(problem))
    }

    fn tls(&self) -> Result<ClientTlsConfig, CliError> {
        // The library takes a file without the part for an empty one, and the service is blamed later.
        let read = |file: &PathBuf, part: &str| {
            let bytes = files::read(file, files::PEM_BYTES_MAX).map_err(|e| CliError::input(file, e))?;
            let begins = String::from_utf8_lossy(&bytes).lines().any(|line| line.starts_with("-----BEGIN ") && line.contains(part));
            if begins { Ok(bytes) } else { Err(CliError::input(file, format!("has no {} in PEM", part.to_lowercase()))) }
        };
        let mut tls = ClientTlsConfig::new();
        if let Some(ca) = &self.ca {
            tls = tls.ca_certificate(Certificate::from_pem(read(ca, "CERTIFICATE")?));
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            tls = tls.identity(Identity::from_pem(read(cert, "CERTIFICATE")?, read(key, "PRIVATE KEY")?));
        }
        Ok(tls)
    }
}

/// A client on a connection.
pub(crate) fn client(channel: Channel) -> Client {
    TopologyClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// What a path of the service's HTTP interface answers.
#[derive(Debug)]
pub(crate) struct Page {
    /// Whether it is 200.
    pub(crate) is_ok: bool,
    /// When the service answered, on its clock, as its header says.
    pub(crate) date: Option<String>,
    /// The body.
    pub(crate) text: String,
}

/// Reads a path of the service's HTTP interface, on a connection for gRPC.
pub(crate) async fn get(channel: &mut Channel, path: &'static str) -> Result<Page, CliError> {
    let failed = |error: &dyn std::error::Error| CliError::Failure(causes(error));
    poll_fn(|cx| channel.poll_ready(cx)).await.map_err(|e| failed(&e))?;
    let mut request = http::Request::new(tonic::body::Body::empty());
    *request.uri_mut() = http::Uri::from_static(path);
    let (head, body) = channel.call(request).await.map_err(|e| failed(&e))?.into_parts();
    let date = head.headers.get(http::header::DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
    let (mut body, mut bytes) = (pin!(body), Vec::new());
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let data = frame.map_err(|e| failed(&e))?.into_data().unwrap_or_default();
        bytes.extend_from_slice(&data);
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(CliError::Failure(format!("{path}: an answer of more than {} MiB", TEXT_BYTES_MAX >> 20)));
        }
    }
    Ok(Page { is_ok: head.status == http::StatusCode::OK, date, text: String::from_utf8_lossy(&bytes).into_owned() })
}

/// What to do where nobody answers on this machine.
const NOT_STARTED: &str =
    "no service runs here; start one with `antiphase serve --state FILE --fabric FILE`, or name another by --server URL (ANTIPHASE_SERVER)";
/// What to do where nobody answers on another one.
const NOT_THERE: &str = "no service answers there; --server URL (ANTIPHASE_SERVER) is its address";
/// What to do where a service of TLS was asked in clear text.
const WANTS_TLS: &str = "the service may want certificates; ask it by https://, with --ca, --cert and --key";

/// What to do where a service of TLS was shown no certificate.
const WANTS_CERTIFICATE: &str = "the service wants a certificate of its authorities; give --cert and --key (ANTIPHASE_CERT, ANTIPHASE_KEY)";

/// The kind of the error of the operating system below an error.
fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<io::ErrorKind> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// Whether a connection that was there ended, or could not be made again: the words of tonic and hyper, which have no code for it.
fn is_cut_off(said: &str) -> bool {
    said == "transport error"
        || [
            "operation was canceled",
            "http2 error",
            "h2 protocol error",
            "connection closed",
            "broken pipe",
            "connection error",
            "tcp connect error",
        ]
        .iter()
        .any(|end| said.contains(end))
}

/// An error and what caused it, on one line: the outermost alone is "transport error".
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        // Some errors repeat their cause in their own text.
        if !line.contains(&said) {
            line = format!("{line}: {said}");
        }
        source = cause.source();
    }
    line
}

/// How the service's hints name what this program has a command for: they are for programs that speak HTTP.
const FABRIC_BY_HTTP: &str = "PUT /v1alpha1/fabric";
const FABRIC_BY_COMMAND: &str = "antiphase fabric set FILE";

/// A hint of the service, for people who have this program.
pub(crate) fn as_command(hint: &str) -> String {
    hint.replace(FABRIC_BY_HTTP, FABRIC_BY_COMMAND)
}

/// A refusal of the service: bad input is the caller's (exit code 2), the rest is a failure.
pub(crate) fn refused(status: Status) -> CliError {
    let message = if status.message().is_empty() { causes(&status) } else { as_command(status.message()) };
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::OutOfRange => CliError::Usage(message),
        Code::PermissionDenied | Code::Unauthenticated => CliError::Failure(format!("not allowed: {message}")),
        _ => CliError::Failure(message),
    }
}

/// A refusal of what stood in files: one that names a place in a document, by how it begins, names the file of that place as well.
pub(crate) fn refused_in(status: Status, files: &[(&str, &Path)]) -> CliError {
    match refused(status) {
        CliError::Usage(problem) => match files.iter().find(|(place, _)| problem.starts_with(place)) {
            // The file stands in the place of the word.
            Some((place, file)) => CliError::input(file, if *place == IN_FABRIC { &problem[place.len()..] } else { &problem }),
            None => CliError::Usage(problem),
        },
        error => error,
    }
}

/// Where the service's refusals stand in a jobs document, a candidates document, and a fabric.
pub(crate) const IN_JOBS: &str = "jobs[";
pub(crate) const IN_CANDIDATES: &str = "candidates[";
pub(crate) const IN_FABRIC: &str = "fabric: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_document_is_named() {
        let files = [(IN_JOBS, Path::new("jobs.yaml")), (IN_CANDIDATES, Path::new("c.yaml"))];
        let said = |status: Status| refused_in(status, &files).line();
        assert_eq!(
            said(Status::invalid_argument("jobs[0].hosts[1]: unknown host \"h3\"")),
            "jobs.yaml: jobs[0].hosts[1]: unknown host \"h3\""
        );
        assert_eq!(said(Status::invalid_argument("candidates[0]: x")), "c.yaml: candidates[0]: x");
        let fabric = refused_in(Status::invalid_argument("fabric: line 8: x"), &[(IN_FABRIC, Path::new("f.yaml"))]);
        assert_eq!(fabric.line(), "f.yaml: line 8: x");
        assert_eq!(said(Status::invalid_argument("no fabric is set")), "no fabric is set");
        assert_eq!(said(Status::internal("jobs[0]: x")), "jobs[0]: x", "that is no fault of the file");
    }

    fn at(server: &str) -> ServerArgs {
        ServerArgs { server: server.into(), ca: None, cert: None, key: None }
    }

    /// What the operating system and the libraries say, as it comes through tonic.
    #[derive(Debug, thiserror::Error)]
    #[error("transport error")]
    struct Transport(#[source] Box<dyn std::error::Error + 'static>);

    #[test]
    fn hints_name_commands_and_no_paths() {
        let said = refused(Status::failed_precondition("no fabric is set (PUT /v1alpha1/fabric first)")).line();
        assert_eq!(said, "no fabric is set (antiphase fabric set FILE first)");
    }

    #[test]
    fn who_is_not_reached_hears_what_to_do() {
        let refused = || Transport(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        let says = |server: &str, error: Transport, part: &str| {
            let said = CliError::from(at(server).unreached(&error)).line();
            assert!(said.starts_with(&format!("{server}: transport error: ")) && said.contains(part), "{said}");
        };
        says("http://127.0.0.1:7480", refused(), "start one with `antiphase serve --state FILE --fabric FILE`");
        says("https://localhost:7480/", refused(), "start one with");
        says("http://topology.example:7480", refused(), "no service answers there");
        says("https://a", Transport("received corrupt message of type InvalidContentType".into()), "ask it by http://");
        says("https://a", Transport("invalid peer certificate: UnknownIssuer".into()), "--ca FILE");
        says("https://a", Transport("certificate not valid for name \"a\"".into()), "stands in the service's certificate");
        says("http://a", Transport("dns error: failed to lookup address information".into()), "no such host");
        let said = CliError::from(at("http://a").unreached(&Transport("moon".into())));
        assert_eq!(said.line(), "http://a: transport error: moon");
    }

    #[test]
    fn an_address_with_a_port_that_is_none_or_a_path_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = |server: &str| match runtime.block_on(at(server).channel()) {
            Err(Unreached::Input(error)) => error.line(),
            other => panic!("{server}: {other:?}"),
        };
        for (server, part) in
            [("127.0.0.1:99999", "\"99999\""), ("[::1]:70000", "\"70000\""), ("a:", "\"\""), ("a:7x", ""), ("127.0.0.1:0", "\"0\"")]
        {
            let said = said(&format!("http://{server}"));
            assert!(said.contains("--server") && said.contains(part), "{said}");
        }
        assert!(said("http://127.0.0.1:1/foo?a").contains("the path \"/foo?a\""), "{}", said("http://127.0.0.1:1/foo?a"));
        // An address of the sixth version has colons of its own.
        for server in ["http://[::1]", "http://[::1]:1", "http://127.0.0.1:1/"] {
            assert!(matches!(runtime.block_on(at(server).channel()), Err(Unreached::Silent { .. })), "{server}");
        }
    }

    #[test]
    fn certificates_that_do_not_fit_are_told_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let service = server::pki::init(folder.path(), &["localhost".into()], false).unwrap();
        let lifetime = Duration::from_secs(3_600);
        let client = server::pki::Client { role: server::tls::Role::Read, name: "a".into(), hosts: Vec::new(), lifetime };
        let own = server::pki::issue(folder.path(), &client, false).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = |ca: &Path, cert: &Path, key: &Path| {
            let [ca, cert, key] = [ca, cert, key].map(|file| Some(file.to_path_buf()));
            let args = ServerArgs { server: "https://localhost:1".into(), ca, cert, key };
            let Err(unreached) = runtime.block_on(args.channel()) else { panic!("nobody listens there") };
            (matches!(unreached, Unreached::Input(_)), CliError::from(unreached).line())
        };
        let (is_input, line) = said(&service.certificate, &own.certificate, &service.key);
        let (cert, key) = (own.certificate.display(), service.key.display());
        assert_eq!((is_input, line), (true, format!("--cert {cert} and --key {key}: this is not the key of this certificate")));
        let (is_input, line) = said(&own.key, &own.certificate, &own.key);
        assert_eq!((is_input, line), (true, format!("{}: has no certificate in PEM", own.key.display())));
        let (is_input, line) = said(&service.certificate, &own.certificate, &own.certificate);
        assert_eq!((is_input, line), (true, format!("{}: has no private key in PEM", own.certificate.display())));
        // With files that fit, whoever is asked is what is missing.
        let (is_input, line) = said(&service.certificate, &own.certificate, &own.key);
        assert!(!is_input && line.contains("https://localhost:1: "), "{line}");
    }
}
