//! Builds with few features: what takes none builds alone, and so does what takes one.

use crate::run;
use anyhow::{Context, Result};
use serde_json::Value;

/// Checks `package` with none of its features and with each by itself; a warning fails.
pub(crate) fn check(metadata: &Value, package: &str) -> Result<()> {
    for features in alone(metadata, package)? {
        let alone = ["clippy", "--locked", "-p", package, "--no-default-features"];
        let chosen = ["--features", &features, "--", "-D", "warnings"];
        run::cargo(&[&alone[..], &chosen].concat())
            .with_context(|| format!("{package} with the features `{features}` alone"))?;
    }
    Ok(())
}

/// No feature, then each of `package` by itself.
fn alone(metadata: &Value, package: &str) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let found = packages.iter().find(|one| one["name"] == package);
    let features = found.and_then(|one| one["features"].as_object());
    let features = features.with_context(|| format!("no package is called {package}"))?;
    let named = features.keys().filter(|name| *name != "default").cloned();
    Ok(std::iter::once(String::new()).chain(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_feature_stands_alone_once() {
        let metadata = json!({"packages": [
            {"name": "other", "features": {"c": []}},
            {"name": "ours", "features": {"default": ["a"], "a": ["b"], "b": []}},
        ]});
        assert_eq!(alone(&metadata, "ours").expect("there"), ["", "a", "b"]);
        assert!(alone(&metadata, "theirs").is_err());
    }
}
