//! Writing results. A reader that closes the pipe early (`antiphase ... | head`) is not an error.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
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
        // `head` closes its end when it has enough; all that it asked for was printed.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(CliError::Failure(format!("standard output: {e}"))),
        _ => Ok(()),
    }
}

/// Prints a line to standard error; where that is closed there is nobody to tell.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes whole files, all or none: beside their places first, then renamed.
pub(crate) fn write_files(files: &[(&Path, &str)]) -> Result<(), CliError> {
    let partial = |file: &Path| {
        let mut name = file.as_os_str().to_owned();
        // The name beside the place keeps the rename within one file system, and the process id keeps two runs apart.
        name.push(format!(".{}.partial", std::process::id()));
        PathBuf::from(name)
    };
    let failed = |file: &Path, e: std::io::Error| CliError::Failure(format!("{}: {e}", file.display()));
    let written = files.iter().try_for_each(|(file, text)| fs::write(partial(file), text).map_err(|e| failed(file, e)));
    // No file is renamed before all are written: a full disk leaves the old files as they were.
    let placed = written.and_then(|()| files.iter().try_for_each(|(file, _)| fs::rename(partial(file), file).map_err(|e| failed(file, e))));
    if placed.is_err() {
        // Partial files beside their places are of no use to anybody.
        files.iter().for_each(|(file, _)| drop(fs::remove_file(partial(file))));
    }
    placed
}
