//! Query strings: known keys, each value read as what it is, lists by repetition or commas.

use crate::api::ApiError;

/// Keys of one query; more is a mistake.
const KEYS_MAX: usize = 1_000;

/// The keys and values of a query string. Each key is taken out by whoever knows it; what is left is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=1&b=x%20y`.
    ///
    /// # Errors
    /// A bad escape, or far too many keys.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let mut out = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            // `KEYS_MAX` bounds the list before it grows.
            if out.len() == KEYS_MAX {
                return Err(ApiError::invalid(format!("query: more than {KEYS_MAX} keys")));
            }
            // Keys are split before they are decoded: an escaped `=` or `&` belongs to a value.
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            out.push((decode(key)?, decode(value)?));
        }
        Ok(Self(out))
    }

    /// All values of a key, commas separating several.
    pub fn list(&mut self, key: &str) -> Vec<String> {
        let mut out = Vec::new();
        self.0.retain(|(k, value)| {
            if k == key {
                out.extend(value.split(',').filter(|v| !v.is_empty()).map(str::to_owned));
            }
            k != key
        });
        out
    }

    /// All values of a key, each whole.
    pub fn values(&mut self, key: &str) -> Vec<String> {
        let mut out = Vec::new();
        self.0.retain(|(k, value)| {
            if k == key {
                out.push(value.clone());
            }
            k != key
        });
        out
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The key stands there twice.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, ApiError> {
        let mut all = self.values(key);
        match all.len() {
            0 | 1 => Ok(all.pop()),
            n => Err(ApiError::invalid(format!("query: {key} is given {n} times"))),
        }
    }

    /// The value of a key as a whole number or whatever else can be read from text.
    ///
    /// # Errors
    /// The value is no such number.
    pub fn number<T: std::str::FromStr>(&mut self, key: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| ApiError::invalid(format!("query: {key}={text:?} is not a number in range")))
    }

    /// Whether a key stands there, alone or as `true`.
    ///
    /// # Errors
    /// The value is neither true nor false.
    pub fn flag(&mut self, key: &str) -> Result<bool, ApiError> {
        match self.text(key)?.as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(other) => Err(ApiError::invalid(format!("query: {key}={other:?} is neither true nor false"))),
        }
    }

    /// Refuses keys that nobody took.
    ///
    /// # Errors
    /// Names the first.
    pub fn finish(self) -> Result<(), ApiError> {
        self.0.first().map_or(Ok(()), |(key, _)| Err(ApiError::invalid(format!("query: unknown key {key:?}"))))
    }
}

/// `%41` is `A`, `+` a space.
fn decode(text: &str) -> Result<String, ApiError> {
    let bad = || ApiError::invalid(format!("query: {text:?} is not percent-encoded UTF-8"));
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'+' => b' ',
            b'%' => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).ok_or_else(bad);
                // Two hexadecimal digits are at most 255.
                (digit()? * 16 + digit()?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(out).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_what_they_are() {
        let mut query = Query::parse("links=a%2Cb%20c&links=d&limit=7&demands&after=&x=%C3%A9").unwrap();
        assert_eq!(query.list("links"), ["a", "b c", "d"]);
        assert_eq!(query.number::<u32>("limit").unwrap(), Some(7));
        assert!(query.flag("demands").unwrap());
        assert!(query.number::<u64>("after").is_err());
        assert_eq!(query.text("x").unwrap().as_deref(), Some("é"));
        query.finish().unwrap();
    }

    #[test]
    fn what_is_wrong_is_named() {
        for bad in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(Query::parse(bad).is_err(), "{bad}");
        }
        assert!(Query::parse("a=1&a=2").unwrap().text("a").unwrap_err().message.contains("2 times"));
        assert!(Query::parse("moon=1").unwrap().finish().unwrap_err().message.contains("moon"));
        assert!(Query::parse(&"a&".repeat(KEYS_MAX + 1)).is_err());
    }
}
