//! What the project depends on: licences, banned crates and sources, as deny.toml says.
//!
//! The same file drives cargo-deny, which checks more and takes minutes to build; this check needs
//! nothing but cargo and runs in every `make test`. It reads `[licenses] allow`, `[bans] deny`,
//! `[bans] multiple-versions` and `[sources] allow-registry`.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The part of deny.toml that this check reads.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Bans {
    multiple_versions: String,
    deny: Vec<Named>,
    #[serde(default)]
    skip: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// A package that the workspace builds on.
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    license: &'a str,
    /// Where it comes from; nothing for the workspace's own crates.
    source: Option<&'a str>,
}

/// Every dependency that deny.toml does not allow.
pub(crate) fn check(root: &Path, metadata: &serde_json::Value) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("deny.toml")).context("deny.toml")?;
    let rules: Rules = toml::from_str(&text).context("deny.toml")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let packages: Vec<Package<'_>> = packages
        .iter()
        .map(|package| Package {
            name: package["name"].as_str().unwrap_or_default(),
            version: package["version"].as_str().unwrap_or_default(),
            license: package["license"].as_str().unwrap_or_default(),
            source: package["source"].as_str(),
        })
        .collect();
    Ok(violations(&rules, &packages))
}

fn violations(rules: &Rules, packages: &[Package<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let label = format!("{} {}", package.name, package.version);
        versions.entry(package.name).or_default().push(package.version);
        if !licence_allowed(package.license, &rules.licenses.allow) {
            found.push(format!(
                "{label}: licence `{}` is not among those that deny.toml allows",
                package.license
            ));
        }
        if rules.bans.deny.iter().any(|banned| banned.name == package.name) {
            found.push(format!("{label}: banned by deny.toml"));
        }
        if let Some(source) = package.source
            && !rules
                .sources
                .allow_registry
                .iter()
                .any(|registry| source == format!("registry+{registry}"))
        {
            found.push(format!("{label}: comes from {source}, which deny.toml does not allow"));
        }
    }
    if rules.bans.multiple_versions == "deny" {
        for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
            if !rules.bans.skip.iter().any(|skipped| skipped.name == *name) {
                found.push(format!(
                    "{name}: {} versions at once ({})",
                    versions.len(),
                    versions.join(", ")
                ));
            }
        }
    }
    found
}

/// Whether the SPDX expression can be satisfied with allowed licences alone; the old
/// `MIT/Apache-2.0` means `OR`.
fn licence_allowed(expression: &str, allowed: &[String]) -> bool {
    let parsed = spdx::Expression::parse_mode(expression, spdx::ParseMode::LAX);
    parsed.is_ok_and(|parsed| {
        parsed.evaluate(|wanted| allowed.iter().any(|name| wanted.to_string() == *name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "https://registry.example/index";

    fn found(name: &str, license: &str, source: Option<&str>) -> Vec<String> {
        let rules = format!(
            "[licenses]\nallow = ['MIT', 'Apache-2.0 WITH LLVM-exception']\n\
             [bans]\nmultiple-versions = 'deny'\ndeny = [{{ name = 'openssl' \
             }}]\n[sources]\nallow-registry = ['{HOME}']"
        );
        let rules: Rules = toml::from_str(&rules).expect("rules");
        let own = Package { name: "own", version: "0.1.0", license: "MIT", source: None };
        violations(&rules, &[own, Package { name, version: "1.0.0", license, source }])
    }

    #[test]
    fn allows_what_can_be_used_under_an_allowed_licence() {
        let home = format!("registry+{HOME}");
        assert_eq!(found("good", "GPL-3.0 OR MIT", Some(&home)), Vec::<String>::new());
        assert_eq!(found("good", "Apache-2.0/MIT", Some(&home)), Vec::<String>::new());
        assert_eq!(
            found("good", "Apache-2.0 WITH LLVM-exception", Some(&home)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn finds_licences_bans_sources_and_second_versions() {
        let home = format!("registry+{HOME}");
        assert!(found("bad", "GPL-3.0 AND MIT", Some(&home))[0].contains("licence"));
        assert!(found("bad", "", Some(&home))[0].contains("licence"));
        assert!(found("openssl", "MIT", Some(&home))[0].contains("banned"));
        assert!(
            found("bad", "MIT", Some("git+https://host.example/bad"))[0].contains("comes from")
        );
        assert!(found("own", "MIT", Some(&home))[0].contains("2 versions"));
    }
}
