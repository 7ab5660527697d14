//! This program, as its ranks are started.

use std::path::PathBuf;

use anyhow::Result;

/// How to start this program again as a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// What comes before `rank`: `lab` for `antiphase`.
    pub prefix: Vec<String>,
}

impl Program {
    /// The running program, with what comes before `rank`.
    ///
    /// # Errors
    /// Its own path cannot be found.
    pub fn this(prefix: &[&str]) -> Result<Self> {
        Ok(Self { path: std::env::current_exe()?, prefix: prefix.iter().map(|&p| p.to_owned()).collect() })
    }
}
