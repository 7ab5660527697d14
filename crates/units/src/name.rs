//! Names that are parts of file names and of labels: of jobs, and of hosts that have an agent.

use core::fmt;

/// Longest name in bytes: that of a name in DNS, which is what schedulers' names fit in.
pub const NAME_BYTES_MAX: usize = 253;

/// Why text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name has no characters.
    Empty,
    /// The name has more than [`NAME_BYTES_MAX`] bytes: so many.
    TooLong(usize),
    /// The name begins with a dot, as hidden files do.
    Dot,
    /// The name has this character, which no name may have.
    Character(char),
}

/// Checks a name: 1 to [`NAME_BYTES_MAX`] of the ASCII letters and digits, `.`, `_` and `-`, the first no dot. The planner, the
/// service, agents and gates all ask here, so all of them take the same names.
///
/// ```
/// use antiphase_units::{NameError, check_name};
/// assert_eq!(check_name("bert-large_2.1"), Ok(()));
/// assert_eq!(check_name("my job"), Err(NameError::Character(' ')));
/// ```
///
/// # Errors
/// [`NameError`], which does not repeat the name.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name {
        "" => Err(NameError::Empty),
        // The length is looked at before the characters, so a name of megabytes is not walked through.
        _ if name.len() > NAME_BYTES_MAX => Err(NameError::TooLong(name.len())),
        _ if name.starts_with('.') => Err(NameError::Dot),
        _ => name.chars().find(|c| !plain(c)).map_or(Ok(()), |c| Err(NameError::Character(c))),
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty")?,
            Self::TooLong(bytes) => write!(f, "the name has {bytes} bytes")?,
            Self::Dot => f.write_str("the name begins with a dot")?,
            Self::Character(c) => write!(f, "the name has the character {c:?}")?,
        }
        write!(f, "; a name is 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ - and does not begin with a dot")
    }
}

impl core::error::Error for NameError {}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{format, string::ToString};

    use super::*;

    #[test]
    fn names_are_what_files_and_labels_take() {
        for name in ["a", "A.b_c-9", "-", "_x", "9", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let cases = [("", NameError::Empty), (&long, NameError::TooLong(254)), (".a", NameError::Dot), ("a b", NameError::Character(' '))];
        for (name, error) in cases {
            assert_eq!(check_name(name), Err(error));
        }
        assert_eq!(check_name("a/b"), Err(NameError::Character('/')));
        assert_eq!(check_name("\u{e9}"), Err(NameError::Character('\u{e9}')));
        // Messages stay on their line.
        assert!(format!("{}", NameError::Character('\n')).starts_with(r"the name has the character '\n'; a name is 1 to 253 of"));
        assert_eq!(NameError::Empty.to_string().lines().count(), 1);
    }
}
