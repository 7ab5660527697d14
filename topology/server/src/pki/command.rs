//! `pki` on the command line: arguments in, text for people out.

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::{CLIENT_LIFETIME, Client, DAY, PkiError, authority_path, init, issue, renew, revoke, show};
use crate::tls::Role;

/// Certificates for trials.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Make an authority and the certificate of the service
    Init(Init),
    /// Issue a certificate to an agent or a person
    Issue(Issue),
    /// Put a new certificate in the place of one that ends soon, for the same holder
    Renew(Renew),
    /// Refuse a certificate from now on: write it into the list that `tls.revoked` names
    Revoke(Revoke),
    /// Say what is in a certificate
    Show(Show),
}

/// Arguments of `init`.
#[derive(Clone, Debug, Args)]
pub struct Init {
    /// Folder of the authority; its key stays there
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Name or address by which agents and people reach the service; may be repeated
    #[arg(long = "host", value_name = "NAME", default_values_t = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()])]
    pub hosts: Vec<String>,
    /// Replace what is there
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `issue`.
#[derive(Clone, Debug, Args)]
pub struct Issue {
    /// Folder of the authority
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Role of the certificate
    #[arg(long, value_enum)]
    pub role: Role,
    /// Name of the holder and of the files
    #[arg(long)]
    pub name: String,
    /// Host that an agent speaks for; may be repeated
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// How long it is good
    #[arg(long, value_name = "DAYS", default_value_t = CLIENT_LIFETIME.as_secs() / DAY.as_secs(), value_parser = clap::value_parser!(u64).range(1..=1825))]
    pub days: u64,
    /// Replace what is there
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `renew`.
#[derive(Clone, Debug, Args)]
pub struct Renew {
    /// Folder of the authority
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Name of the holder; `server` is the service
    #[arg(long)]
    pub name: String,
    /// How long a client's is good
    #[arg(long, value_name = "DAYS", default_value_t = CLIENT_LIFETIME.as_secs() / DAY.as_secs(), value_parser = clap::value_parser!(u64).range(1..=1825))]
    pub days: u64,
}

/// Arguments of `revoke`.
#[derive(Clone, Debug, Args)]
pub struct Revoke {
    /// Folder of the authority
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// The certificate as PEM
    pub file: PathBuf,
}

/// Arguments of `show`.
#[derive(Clone, Debug, Args)]
pub struct Show {
    /// A certificate as PEM
    pub file: PathBuf,
}

impl Command {
    /// Does it, and says what was done.
    ///
    /// # Errors
    /// [`PkiError`]: nothing was made.
    pub fn run(&self) -> Result<String, PkiError> {
        match self {
            Self::Init(Init { dir, hosts, force }) => {
                let service = init(dir, hosts, *force)?;
                let authority = authority_path(dir);
                Ok(format!(
                    "authority    {}\ncertificate  {}\nkey          {}\n",
                    authority.display(),
                    service.certificate.display(),
                    service.key.display()
                ))
            }
            Self::Issue(Issue { dir, role, name, hosts, days, force }) => {
                let lifetime = Duration::from_secs(days * DAY.as_secs());
                let client = Client { role: *role, name: name.clone(), hosts: hosts.clone(), lifetime };
                let issued = issue(dir, &client, *force)?;
                Ok(format!("certificate  {}\nkey          {}\n", issued.certificate.display(), issued.key.display()))
            }
            Self::Renew(Renew { dir, name, days }) => {
                let renewed = renew(dir, name, Duration::from_secs(days * DAY.as_secs()))?;
                Ok(format!("certificate  {}\nkey          {}\n", renewed.certificate.display(), renewed.key.display()))
            }
            Self::Revoke(Revoke { dir, file }) => Ok(format!("revoked  {}\nlist     {}\n", file.display(), revoke(dir, file)?.display())),
            Self::Show(Show { file }) => {
                let shown = show(file)?;
                let mut text = format!("subject  {}\nissuer   {}\n", shown.subject, shown.issuer);
                for name in &shown.names {
                    let _ = writeln!(text, "name     {name}");
                }
                let _ = writeln!(text, "from     {}\nuntil    {}", moment(shown.not_before), moment(shown.not_after));
                Ok(text)
            }
        }
    }
}

fn moment(unix: i64) -> String {
    Timestamp::from_second(unix).map_or_else(|_| format!("{unix} s after 1970"), |moment| moment.to_string())
}
