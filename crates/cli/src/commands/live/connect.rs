//! Reaching the service: address, certificates, and what its refusals look like.

use std::{fs, future::Future, path::PathBuf, time::Duration};

use proto::v1alpha1::topology_client::TopologyClient;
use tonic::{
    Code, Status,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use crate::input::CliError;

/// A service that does not answer within this is down: people wait for commands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer is a plan over a whole fabric.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A connected client.
pub(super) type Client = TopologyClient<Channel>;

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

impl ServerArgs {
    /// Runs `ask` with a connected client.
    pub(super) fn with<T, F: Future<Output = Result<T, CliError>>>(&self, ask: impl FnOnce(Client) -> F) -> Result<T, CliError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // One thread is enough: a command has one request under way at a time.
        runtime.map_err(|e| CliError::Failure(format!("cannot start: {e}")))?.block_on(async { ask(self.connect().await?).await })
    }

    async fn connect(&self) -> Result<Client, CliError> {
        let refuse = |problem: String| CliError::Usage(format!("--server {:?}: {problem}", self.server));
        let endpoint = Endpoint::from_shared(self.server.clone()).map_err(|e| refuse(e.to_string()))?;
        let endpoint = match endpoint.uri().scheme_str() {
            // The scheme alone decides on TLS, so a certificate in the environment does no harm to a plain address.
            Some("http") => endpoint,
            Some("https") => endpoint.tls_config(self.tls()?).map_err(|e| refuse(causes(&e)))?,
            _ => return Err(refuse("needs http:// or https://".into())),
        };
        let channel = endpoint.connect_timeout(CONNECT_TIMEOUT).connect().await;
        let channel = channel.map_err(|e| CliError::Failure(format!("{}: {}", self.server, causes(&e))))?;
        Ok(TopologyClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX).max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    fn tls(&self) -> Result<ClientTlsConfig, CliError> {
        let read = |file: &PathBuf| fs::read(file).map_err(|e| CliError::input(file, e));
        let mut tls = ClientTlsConfig::new();
        if let Some(ca) = &self.ca {
            tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        Ok(tls)
    }
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

/// A refusal of the service: bad input is the caller's (exit code 2), the rest is a failure.
pub(super) fn refused(status: Status) -> CliError {
    let message = if status.message().is_empty() { causes(&status) } else { status.message().to_owned() };
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::OutOfRange => CliError::Usage(message),
        Code::PermissionDenied | Code::Unauthenticated => CliError::Failure(format!("not allowed: {message}")),
        _ => CliError::Failure(message),
    }
}
