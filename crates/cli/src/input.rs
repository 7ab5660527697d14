//! Reading files and reporting what is wrong with them: one line, exit code 2.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use units::OneLine;

use crate::paths;

/// Largest document read, so that a hostile file cannot fill memory before a parser sees it: six
/// times a rail-optimised fabric of 100,000 NICs in JSON, and as much as an importer takes.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = fabric::import::DOCUMENT_BYTES_MAX as u64;
/// Longest problem that is printed whole, in characters: a document may hold a value of any length.
const PROBLEM_CHARS_MAX: usize = 600;

/// Longest text within a scenario, in bytes; a name has 253 at most. The reader of JSON repeats a text that it did not expect, with
/// each odd character spelt out, which takes a tenth of a second for one of this length and seconds for one that fills the document.
const TEXT_BYTES_MAX: usize = 2 << 20;

/// How much of such a text is shown.
const TEXT_CHARS_SHOWN: usize = 40;

/// What spreadsheets and some editors put before a text to say that it is UTF-8: no part of the document, and refused by parsers.
const BYTE_ORDER_MARK: char = '\u{feff}';

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
    /// Bad input in `file`.
    pub(crate) fn input(file: &Path, problem: impl std::fmt::Display) -> Self {
        Self::Input { file: file.to_path_buf(), problem: problem.to_string() }
    }

    /// The error on one line, whatever a document or the name of a file put into it.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Input { file, problem } => format!("{}: {}", OneLine(file.display()), cut(problem)),
            Self::Usage(problem) | Self::Failure(problem) => cut(problem),
        }
    }

    /// What is wrong, without the name of the file.
    pub(crate) fn problem(self) -> String {
        match self {
            Self::Input { problem, .. } | Self::Usage(problem) | Self::Failure(problem) => problem,
        }
    }

    /// 2 for input and usage, 1 for the rest.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Input { .. } | Self::Usage(_) => ExitCode::from(2),
            Self::Failure(_) => ExitCode::FAILURE,
        }
    }
}

/// On one line, and cut in the middle: the place stands at the beginning, and what is wrong mostly at the end.
fn cut(problem: &str) -> String {
    let problem = OneLine(problem).to_string();
    // Positions are counted in characters and taken in bytes, so that no cut falls inside a character.
    let head = problem.char_indices().nth(PROBLEM_CHARS_MAX * 2 / 3).map(|(at, _)| at);
    let tail = problem.char_indices().rev().nth(PROBLEM_CHARS_MAX / 3 - 1).map(|(at, _)| at);
    match (problem.char_indices().nth(PROBLEM_CHARS_MAX), head, tail) {
        (Some(_), Some(head), Some(tail)) => format!("{} ... {}", &problem[..head], &problem[tail..]),
        _ => problem,
    }
}

/// Whether standard input was read: its second reader would find it empty.
static STDIN_READ: AtomicBool = AtomicBool::new(false);

/// Reads a UTF-8 document, `-` for standard input, refusing one above [`DOCUMENT_BYTES_MAX`]
/// before it is in memory.
pub(crate) fn read_document(file: &Path) -> Result<String, CliError> {
    text_of(file, read_bytes(file)?)
}

/// As [`read_document`], for a file that may be no text.
pub(crate) fn read_bytes(file: &Path) -> Result<Vec<u8>, CliError> {
    let open = open(file, Some(DOCUMENT_BYTES_MAX))?;
    let bytes = bounded(open).map_err(|e| CliError::input(file, e))?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(too_large(file));
    }
    Ok(bytes)
}

/// The bytes of a file as they come, `-` for standard input. A file of more than `most` is refused by its length before it is read; pipes and
/// devices have none, and whoever reads them has to bound that.
pub(crate) fn open(file: &Path, most: Option<u64>) -> Result<Box<dyn Read>, CliError> {
    let refuse = |e: std::io::Error| CliError::input(file, e);
    if file.as_os_str() == "-" {
        // `swap` tests and sets at once. The flag guards no other data, so relaxed order is enough.
        if STDIN_READ.swap(true, Ordering::Relaxed) {
            return Err(CliError::input(file, "standard input is named twice; only one document can come from it"));
        }
        let stdin = std::io::stdin();
        if let Some(metadata) = paths::stream(&stdin) {
            paths::note_read(file, &metadata);
        }
        return Ok(Box::new(stdin.lock()));
    }
    let open = File::open(file).map_err(refuse)?;
    let metadata = open.metadata();
    if let Ok(metadata) = &metadata {
        paths::note_read(file, metadata);
    }
    match metadata {
        Ok(m) if m.is_dir() => Err(CliError::input(file, "is a directory, not a document")),
        Ok(m) if m.is_file() && most.is_some_and(|most| m.len() > most) => Err(too_large(file)),
        _ => Ok(Box::new(open)),
    }
}

/// The text of a file's bytes, without a byte order mark before it. A file of blanks alone is refused.
pub(crate) fn text_of(file: &Path, bytes: Vec<u8>) -> Result<String, CliError> {
    let mut text = String::from_utf8(bytes).map_err(|e| {
        // Everything before `at` is valid, so counting line breaks there gives the line in which the bad byte stands.
        let at = e.utf8_error().valid_up_to();
        let line = 1 + e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
        CliError::input(file, format!("line {line}: byte {at} is 0x{:02x}, which is not UTF-8", e.as_bytes()[at]))
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    // A parser would say where it met the end; that nothing came before it is what helps.
    if text.trim_ascii().is_empty() {
        return Err(CliError::input(file, "is empty"));
    }
    Ok(text)
}

/// Refuses JSON with a text of more than [`TEXT_BYTES_MAX`].
pub(crate) fn check_texts(file: &Path, json: &str) -> Result<(), CliError> {
    let (mut line, mut line_began, mut escaped, mut began) = (1_usize, 0, false, None::<usize>);
    // Only quotes and backslashes matter here: all bytes of a character beyond ASCII are above 0x7f, so none looks like either.
    for (at, byte) in json.bytes().enumerate() {
        if byte == b'\n' {
            (line, line_began) = (line + 1, at + 1);
        }
        began = match began {
            // The byte after a backslash ends nothing, whatever it is.
            Some(_) if escaped => {
                escaped = false;
                began
            }
            Some(_) if byte == b'"' => None,
            Some(start) if at - start > TEXT_BYTES_MAX => {
                // As other places of JSON, counted in bytes; no line ends within a text.
                let column = start.saturating_sub(line_began) + 1;
                let found: String = json[start + 1..].chars().take(TEXT_CHARS_SHOWN).collect();
                let problem = format!("line {line}, column {column}: a text of more than {TEXT_BYTES_MAX} bytes, which begins {found:?}");
                return Err(CliError::input(file, problem));
            }
            Some(_) => {
                escaped = byte == b'\\';
                began
            }
            None => (byte == b'"').then_some(at),
        };
    }
    Ok(())
}

/// Refuses JSON that is no object: a reader would take the elements of a list for the fields of a document, one after the other.
pub(crate) fn check_object(file: &Path, json: &str) -> Result<(), CliError> {
    let said = json.trim_ascii_start();
    if said.is_empty() || said.starts_with('{') {
        return Ok(());
    }
    let line = 1 + json[..json.len() - said.len()].bytes().filter(|byte| *byte == b'\n').count();
    let found: String = said.chars().take(TEXT_CHARS_SHOWN).collect();
    Err(CliError::input(file, format!("line {line}: the document begins with {found:?}; it has to be an object, which begins with {{")))
}

fn bounded(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells a document that is too large from one that just fits.
    source.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn too_large(file: &Path) -> CliError {
    CliError::input(file, format!("larger than {} MiB", DOCUMENT_BYTES_MAX >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_end_is_refused_and_many_are_not() {
        let check = |json: &str| check_texts(Path::new("a"), json).map_err(|error| error.line());
        let longest = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(check(&format!("[\"{longest}\", \"{longest}\"]")), Ok(()));
        assert_eq!(
            check(&format!("[1,\n\"{longest}y\"]")),
            Err(format!("a: line 2, column 1: a text of more than 2097152 bytes, which begins {:?}", &longest[..40]))
        );
        // A quote that is escaped ends nothing.
        assert!(check(&format!("\"{}", "\\\"".repeat(TEXT_BYTES_MAX))).is_err());
        assert_eq!(check(&"\"\\\\\" ".repeat(TEXT_BYTES_MAX)), Ok(()));
    }

    #[test]
    fn one_byte_order_mark_before_a_text_is_left_out() {
        let text = |text: &str| text_of(Path::new("a"), text.into()).expect("a text");
        assert_eq!(["\u{feff}{}", "{\u{feff}}", "\u{feff}\u{feff}x"].map(text), ["{}", "{\u{feff}}", "\u{feff}x"]);
        assert_eq!(text_of(Path::new("a"), "\u{feff} \n".into()).expect_err("blanks").problem(), "is empty");
    }

    #[test]
    fn an_error_is_one_short_line_with_both_ends() {
        let error = CliError::input(Path::new("a\nb"), format!("line 1: {} \u{1b}[2J: too long", "x".repeat(100_000)));
        let line = error.line();
        assert!(line.chars().count() <= r"a\nb: ".len() + PROBLEM_CHARS_MAX + " ... ".len() && !line.contains(['\n', '\u{1b}']), "{line}");
        assert!(line.starts_with(r"a\nb: line 1: xxx") && line.ends_with(r"x \u{1b}[2J: too long"), "{line}");
        assert_eq!(CliError::Usage("--nic: bad".into()).line(), "--nic: bad");
    }
}
