//! Writing results. A reader that closes the pipe early (`antiphase ... | head`) is not an error.

use std::{
    io::{ErrorKind, Write as _},
    path::Path,
};

use clap::ValueEnum;
use serde::Serialize;

use crate::input::CliError;

/// Form of an answer, where a command has the same three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For programs
    Yaml,
}

impl Output {
    /// The answer in this form; `table` makes the one for people.
    pub(crate) fn render<T: Serialize>(self, answer: &T, table: impl FnOnce() -> String) -> Result<String, CliError> {
        match self {
            Self::Table => Ok(table()),
            Self::Json => json(answer),
            Self::Yaml => yaml(answer),
        }
    }
}

/// A document that says what it is in its first key.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a, T> {
    /// Kind and version, such as `antiphase.routes/v1`.
    pub(crate) schema: &'static str,
    #[serde(flatten)]
    pub(crate) answer: &'a T,
}

/// A document as indented JSON.
pub(crate) fn json<T: Serialize>(document: &T) -> Result<String, CliError> {
    serde_json::to_string_pretty(document).map_err(|e| CliError::Failure(format!("cannot write the answer: {e}")))
}

/// A document as YAML.
pub(crate) fn yaml<T: Serialize>(document: &T) -> Result<String, CliError> {
    serde_saphyr::to_string(document).map_err(|e| CliError::Failure(format!("cannot write the answer: {e}")))
}

/// Prints `text` to standard output, with a line break at the end.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    match written.and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(CliError::Failure(format!("standard output: {e}"))),
        _ => Ok(()),
    }
}

/// Writes a whole file or nothing: beside its place first, then renamed.
pub(crate) fn write_file(file: &Path, text: &str) -> Result<(), CliError> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, file));
    written.map_err(|e| {
        // The rename did not happen; what is left beside the file is of no use.
        let _ = std::fs::remove_file(&partial);
        CliError::Failure(format!("{}: {e}", file.display()))
    })
}
