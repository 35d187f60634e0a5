//! Reads the documents of line tests, each by its own schema alone.

use crate::units::{Error, ErrorCode, Fault};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What a document says that it is, if it says anything.
pub(super) fn schema_of(json: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Schema {
        schema: String,
    }
    serde_json::from_str::<Schema>(json).ok().map(|document| document.schema)
}

/// The document in `json`, which is `what`, where its `schema` is the one that is wanted.
///
/// # Errors
/// [`Fault::You`] when it is none.
pub(super) fn read<T: DeserializeOwned>(
    json: &str,
    what: &str,
    wanted: &str,
    schema: fn(&T) -> &str,
) -> Result<T, Error> {
    let wrong = |why: String| Error::new(Fault::You, ErrorCode::LineDocument, why);
    let document: T =
        serde_json::from_str(json).map_err(|error| wrong(format!("no {what}: {error}")))?;
    match schema(&document) {
        found if found == wanted => Ok(document),
        found => Err(wrong(format!("its schema is {found}, not {wanted}"))),
    }
}
