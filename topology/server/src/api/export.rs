//! The fabric in the formats of other programs.

use std::fmt::Write as _;

use fabric::export::{Export, Format, export};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Api, ApiError, Kind, beside};
use crate::tls::Who;

/// Bytes of a digest that stand in a tag: no two fabrics of one place will have the same.
const TAG_BYTES: usize = 16;

/// The manifests of a stream of YAML as one `List` in JSON, for programs that read no YAML.
fn list(stream: &str) -> Result<String, serde_saphyr::Error> {
    // One by one: the reader's limits are those of one document.
    let items: Vec<Value> = stream.split("---\n").map(serde_saphyr::from_str).collect::<Result<_, _>>()?;
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string())
}

impl Api {
    /// The fabric in a format, and a tag (RFC 9110, section 8.8.3) that is another one exactly when the document is.
    /// Manifests of Kubernetes are one list in JSON where `json` says so.
    ///
    /// # Errors
    /// No fabric is set, or the format cannot hold it, or it is JSON in no way.
    pub(crate) async fn export(&self, who: Option<Who>, format: Format, json: bool) -> Result<(String, Export), ApiError> {
        if json && !matches!(format, Format::KubernetesLabels(_) | Format::HyperNode) {
            return Err(ApiError::invalid("query: json is for kubernetes-labels and hyper-node"));
        }
        let view = self.fabric_view().await?;
        let make = move || {
            let mut exported = export(&view.fabric, &format).map_err(|e| ApiError::new(Kind::Precondition, &e))?;
            if json {
                exported.text = list(&exported.text).map_err(|e| ApiError::new(Kind::Internal, &e))?;
            }
            Ok(exported)
        };
        // A fabric of 100,000 NICs takes seconds to write, which no thread that serves requests may lose.
        let exported: Result<Export, ApiError> = beside(&self.0.drawing, who, make).await?;
        let exported = exported?;
        // Of the content and not of the fabric's version: that begins anew with another state file.
        let mut tag = String::from("\"");
        for byte in &Sha256::digest(exported.text.as_bytes())[..TAG_BYTES] {
            let _ = write!(tag, "{byte:02x}");
        }
        Ok((tag + "\"", exported))
    }
}
