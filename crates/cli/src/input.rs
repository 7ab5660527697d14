//! Reading files and reporting what is wrong with them: one line, exit code 2.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Largest document read: ten times the biggest fabric we generate (100,000 hosts), so that a
/// hostile file cannot fill memory before a parser sees it.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// A document that cannot be taken: exit code 2.
    #[error("{}: {problem}", file.display())]
    Input {
        /// Which file.
        file: PathBuf,
        /// Place and value, one line.
        problem: String,
    },
    /// Options that do not fit together: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Failure(String),
}

impl CliError {
    /// Bad input in `file`; line breaks in the problem are folded, so that it stays one line.
    pub(crate) fn input(file: &Path, problem: impl std::fmt::Display) -> Self {
        let problem = problem.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Input { file: file.to_path_buf(), problem }
    }

    /// 2 for input and usage, 1 for the rest.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Input { .. } | Self::Usage(_) => ExitCode::from(2),
            Self::Failure(_) => ExitCode::FAILURE,
        }
    }
}

/// Reads a UTF-8 document, `-` for standard input, refusing one above [`DOCUMENT_BYTES_MAX`]
/// before it is in memory.
pub(crate) fn read_document(file: &Path) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        let open = File::open(file).map_err(|e| CliError::input(file, e))?;
        if open.metadata().is_ok_and(|m| m.is_dir()) {
            return Err(CliError::input(file, "is a directory, not a document"));
        }
        open.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    read.map_err(|e| CliError::input(file, e))?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(CliError::input(file, format!("larger than {} MiB", DOCUMENT_BYTES_MAX >> 20)));
    }
    String::from_utf8(bytes).map_err(|e| CliError::input(file, format!("byte {}: not UTF-8", e.utf8_error().valid_up_to())))
}
