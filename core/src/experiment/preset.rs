//! Presets as data: the papers' experiments and what the papers print, as a TOML file has them.
//!
//! A preset's keys are those of a document's grid, and quantities may have units: `"4MiB"` where
//! the key ends with `_bytes`, `"9.29G"` with `_bps`, `"50ms"` with `_ns`, and `"none"` where a
//! document has `null`. Paths are names, or a rate and a round-trip time. Any table may have
//! `quick` and `full`: what it has of its own in a form.

use crate::plan::PathPoint;
use crate::units::{Bytes, Error, ErrorCode, Fault, Rate, Span};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt::Display;

/// How much of a preset is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A choice of cells, in at most twenty minutes, setting up and one repetition in ten done
    /// again among them.
    #[default]
    Quick,
    /// All of them.
    Full,
}

/// A file of presets: `[usual]` is what all have, each `[[preset]]` one of them, and whatever else
/// there is a [section](PresetFile::section).
#[derive(Clone, Debug, Default)]
pub struct PresetFile(Map<String, Value>);

impl PresetFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Fault::Bug`], as presets are a part of Farline: when it is no TOML, or a quantity none.
    pub fn read(toml: &str) -> Result<PresetFile, Error> {
        let table: Value = toml::from_str(toml).map_err(wrong)?;
        match with_units("", table)? {
            Value::Object(file) => Ok(PresetFile(file)),
            _ => Err(wrong("no table")),
        }
    }

    /// Name and what it is, in their order.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.presets().filter_map(|preset| {
            Some((preset.get("name")?.as_str()?, preset.get("about")?.as_str()?))
        })
    }

    fn presets(&self) -> impl Iterator<Item = &Value> {
        self.0.get("preset").and_then(Value::as_array).into_iter().flatten()
    }

    /// The grid of the preset called `name`: `grid` with what is usual and what is its own put in;
    /// `None` when there is none.
    ///
    /// # Errors
    /// As [`PathPoint::named`]; and [`Fault::Bug`] when a key is none of the grid's.
    pub fn grid<G: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        form: Form,
        grid: &G,
    ) -> Option<Result<G, Error>> {
        let preset = self.presets().find(|preset| preset["name"] == name)?;
        Some(self.grid_of(preset, form, grid))
    }

    fn grid_of<G: Serialize + DeserializeOwned>(
        &self,
        preset: &Value,
        form: Form,
        grid: &G,
    ) -> Result<G, Error> {
        let mut keys = Map::new();
        for part in [self.0.get("usual"), Some(preset)].into_iter().flatten() {
            if let Value::Object(part) = chosen(part.clone(), form) {
                keys.extend(part);
            }
        }
        keys.remove("about");
        keys.insert("form".to_owned(), serde_json::to_value(form).map_err(wrong)?);
        if let Some(Value::Array(paths)) = keys.get_mut("paths") {
            for path in paths {
                *path = serde_json::to_value(path_of(path)?).map_err(wrong)?;
            }
        }
        let mut whole = serde_json::to_value(grid).map_err(wrong)?;
        if let Value::Object(whole) = &mut whole {
            whole.extend(keys.clone());
        }
        let made: G = serde_json::from_value(whole).map_err(wrong)?;
        // What the grid does not know was not read.
        let known = serde_json::to_value(&made).map_err(wrong)?;
        match keys.keys().find(|key| known.get(*key).is_none()) {
            Some(key) => Err(wrong(format!("`{key}` says nothing"))),
            None => Ok(made),
        }
    }

    /// What the file has besides, under `key`.
    ///
    /// # Errors
    /// [`Fault::Bug`] when there is no such thing.
    pub fn section<T: DeserializeOwned>(&self, key: &str) -> Result<T, Error> {
        let found = self.0.get(key).cloned().unwrap_or_default();
        serde_json::from_value(found).map_err(|error| wrong(format!("{key}: {error}")))
    }
}

fn wrong(why: impl Display) -> Error {
    Error::new(Fault::Bug, ErrorCode::ProfilePreset, format!("a file of presets: {why}"))
}

/// `value`, which stands under `key`, with quantities as a document has them.
fn with_units(key: &str, value: Value) -> Result<Value, Error> {
    Ok(match value {
        Value::Object(table) => {
            let each = table.into_iter().map(|(key, value)| {
                let value = with_units(&key, value)?;
                Ok((key, value))
            });
            Value::Object(each.collect::<Result<_, Error>>()?)
        }
        Value::Array(all) => {
            let each = all.into_iter().map(|value| with_units(key, value));
            Value::Array(each.collect::<Result<_, Error>>()?)
        }
        Value::String(text) => match key.rsplit('_').next() {
            Some("bytes" | "bps" | "ns") if text == "none" => Value::Null,
            Some("bytes") => text.parse::<Bytes>().map_err(wrong)?.0.into(),
            Some("bps") => text.parse::<Rate>().map_err(wrong)?.as_bps().into(),
            Some("ns") => text.parse::<Span>().map_err(wrong)?.as_nanos().into(),
            _ => Value::String(text),
        },
        other => other,
    })
}

/// `value` as it is in `form`.
fn chosen(value: Value, form: Form) -> Value {
    match value {
        Value::Object(mut table) => {
            let (quick, full) = (table.remove("quick"), table.remove("full"));
            let own = if form == Form::Quick { quick } else { full };
            if let Some(Value::Object(own)) = own {
                table.extend(own);
            }
            table.into_iter().map(|(key, value)| (key, chosen(value, form))).collect()
        }
        Value::Array(all) => all.into_iter().map(|value| chosen(value, form)).collect(),
        other => other,
    }
}

/// A path by its name, or of a rate and a round-trip time.
fn path_of(value: &Value) -> Result<PathPoint, Error> {
    #[derive(Deserialize)]
    struct Custom {
        rate_bps: Rate,
        rtt_ns: Span,
    }
    if let Some(name) = value.as_str() {
        return PathPoint::named(name, None);
    }
    let Custom { rate_bps, rtt_ns } = serde_json::from_value(value.clone()).map_err(wrong)?;
    Ok(PathPoint::custom(rate_bps, rtt_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid of two axes.
    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Small {
        name: String,
        form: Form,
        sizes_bytes: Vec<Option<Bytes>>,
        rates_bps: Vec<Rate>,
    }

    const FILE: &str = r#"
        [usual]
        rates_bps = ["1G"]
        full = { rates_bps = ["2G"] }

        [[preset]]
        name = "one"
        about = "a test"
        quick = { sizes_bytes = ["none", "4KiB"] }
        full = { sizes_bytes = [1] }

        [printed]
        gbps = 9.12
    "#;

    #[test]
    fn a_preset_is_the_usual_with_its_own_of_each_form() {
        let file = PresetFile::read(FILE).expect("a file");
        assert_eq!(file.names().collect::<Vec<_>>(), [("one", "a test")]);
        let of = |form| file.grid("one", form, &Small::default()).expect("there").expect("a grid");
        let sizes_bytes = vec![None, Some(Bytes(4_096))];
        let rates_bps = vec![Rate::from_bps(1_000_000_000)];
        let quick = Small { name: "one".to_owned(), form: Form::Quick, sizes_bytes, rates_bps };
        assert_eq!(of(Form::Quick), quick);
        assert_eq!(of(Form::Full).rates_bps, [Rate::from_bps(2_000_000_000)]);
        assert!(file.grid("two", Form::Quick, &Small::default()).is_none());
        let printed: std::collections::BTreeMap<String, f64> = file.section("printed").expect("it");
        assert_eq!(printed["gbps"], 9.12);
    }

    #[test]
    fn a_wrong_key_or_unit_is_refused() {
        let file = |text: &str| PresetFile::read(&FILE.replace("[usual]", text));
        let error =
            file("[usual]\nsize = 1").expect("TOML").grid("one", Form::Quick, &Small::default());
        let error = error.expect("there").expect_err("no grid has it");
        assert!(error.message.contains("`size` says nothing"), "{error:?}");
        assert!(file("[usual]\nwindow_bytes = \"4 parsecs\"").is_err());
        assert!(
            file("[usual").is_err() && file("").expect("TOML").section::<u32>("absent").is_err()
        );
    }
}
