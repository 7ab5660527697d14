//! The fabric in the formats of other programs.

use std::fmt::Write as _;

use fabric::export::{Export, Format, export};
use sha2::{Digest as _, Sha256};

use super::{Api, ApiError, Kind, beside};
use crate::tls::Who;

/// Bytes of a digest that stand in a tag: no two fabrics of one place will have the same.
const TAG_BYTES: usize = 16;

impl Api {
    /// The fabric in a format, and a tag (RFC 9110, section 8.8.3) that is another one exactly when the document is.
    ///
    /// # Errors
    /// No fabric is set, or the format cannot hold it.
    pub(crate) async fn export(&self, who: Option<Who>, format: Format) -> Result<(String, Export), ApiError> {
        let view = self.fabric_view().await?;
        // A fabric of 100,000 NICs takes seconds to write, which no thread that serves requests may lose.
        let exported = beside(&self.0.drawing, who, move || export(&view.fabric, &format)).await?;
        let exported = exported.map_err(|e| ApiError::new(Kind::Precondition, &e))?;
        // Of the content and not of the fabric's version: that begins anew with another state file.
        let mut tag = String::from("\"");
        for byte in &Sha256::digest(exported.text.as_bytes())[..TAG_BYTES] {
            let _ = write!(tag, "{byte:02x}");
        }
        Ok((tag + "\"", exported))
    }
}
