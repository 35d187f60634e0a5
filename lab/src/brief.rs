//! What a command says in JSON, as a failed assertion is to show it: without its thousands of
//! samples.

use serde_json::Value;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::process::Output;

/// Of a longer list so many values stand, and how many there are.
const SHOWN: usize = 3;
/// Longer texts are cut.
const TEXT: usize = 600;

/// A JSON document, which is short where it is printed: verdict, sums and all single figures stand,
/// of lists only the begin.
#[derive(Clone, PartialEq)]
pub struct Brief(Value);

impl Brief {
    /// What a command printed.
    ///
    /// # Panics
    /// When that is no JSON: with what it said on standard error.
    pub fn of(output: &Output) -> Brief {
        let text = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        let parsed = serde_json::from_str(&text);
        Brief(parsed.unwrap_or_else(|error| {
            panic!("{}: {error}: {} {}", output.status, begin(&text), begin(&told))
        }))
    }

    /// What stands in `text`.
    ///
    /// # Panics
    /// When that is no JSON.
    pub fn parsed(text: &str) -> Brief {
        let parsed = serde_json::from_str(text);
        Brief(parsed.unwrap_or_else(|error| panic!("{error}: {}", begin(text))))
    }

    /// What stands in the file at `path`.
    ///
    /// # Panics
    /// When there is none, or it is no JSON.
    pub fn read(path: &Path) -> Brief {
        let text = std::fs::read_to_string(path);
        Brief::parsed(&text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }
}

impl From<Value> for Brief {
    fn from(value: Value) -> Brief {
        Brief(value)
    }
}

impl Deref for Brief {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(verdict) = self.0["verdict"].as_str() {
            write!(f, "{}: ", begin(verdict))?;
        }
        write!(f, "{}", shortened(&self.0))
    }
}

impl fmt::Debug for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::Array(all) => {
            let mut some: Vec<Value> = all.iter().take(SHOWN).map(shortened).collect();
            if all.len() > SHOWN {
                some.push(format!("{} in all", all.len()).into());
            }
            some.into()
        }
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), shortened(value))).collect()
        }
        Value::String(text) => begin(text).into(),
        other => other.clone(),
    }
}

fn begin(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_each_figure_and_no_list_of_samples() {
        let delays: Vec<f64> = (0..4_096).map(f64::from).collect();
        let strip = vec![serde_json::json!({ "sent": 9, "lost": 1 }); 60];
        let document = Brief::from(serde_json::json!({
            "verdict": "passed", "sums": { "lost": 3 }, "delays_ns": delays, "strip": strip,
            "two": [1, 2], "page": "x".repeat(9_000),
        }));
        let said = document.to_string();
        assert!(said.len() < 1_000 && said == format!("{document:?}"), "{}", said.len());
        assert!(said.starts_with("passed: {"), "the verdict first: {said}");
        for part in ["\"passed\"", "\"lost\":3", "4096 in all", "60 in all", "[1,2]", "9000 bytes"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(document["delays_ns"].as_array().map(Vec::len), Some(4_096), "whole to a test");
    }
}
