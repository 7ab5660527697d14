//! Why a store cannot be used, or does not take a batch.

use std::io;

use crate::{RecordError, Revision, SCHEMA};

/// Why a store cannot be used. A store is never replaced or emptied because of an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has the store open.
    #[error("{place}: another process has it open")]
    InUse {
        /// The file.
        place: String,
    },
    /// The store is not one of ours, or is damaged.
    #[error("{place}: not a state file of this service, or damaged: {problem}; restore a backup, or move it away to begin anew")]
    Damaged {
        /// The file.
        place: String,
        /// What was found.
        problem: String,
    },
    /// A later version wrote the store.
    #[error("{place}: written by a later version (schema {found}; this program knows {SCHEMA})")]
    Newer {
        /// The file.
        place: String,
        /// Its schema.
        found: u32,
    },
    /// The operating system refused.
    #[error("{place}: {source}")]
    Io {
        /// The file, or wherever else the store is.
        place: String,
        /// Why.
        source: io::Error,
    },
}

impl StoreError {
    /// Whether the file that was named is wrong, rather than the disk or another process: exit code 2 of a command that only reads it.
    #[must_use]
    pub fn is_input(&self) -> bool {
        use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        match self {
            Self::Io { source, .. } => matches!(source.kind(), NotFound | IsADirectory | NotADirectory),
            Self::Damaged { .. } | Self::Newer { .. } => true,
            Self::InUse { .. } => false,
        }
    }
}

/// Why a batch is not in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Somebody else wrote to the store. The caller has to load it again.
    #[error("the store is at revision {found}, not {expected}: somebody else wrote to it")]
    Moved {
        /// The revision on which the caller built.
        expected: Revision,
        /// The revision of the store.
        found: Revision,
    },
    /// A record cannot be encoded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The store could not be written.
    #[error("{0}")]
    Failed(String),
}
