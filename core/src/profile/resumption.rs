//! When and where a profile went on: its repetitions may be of several days, kernels and machines,
//! and the document says so.

use super::document::{Environment, Profile};
use serde::{Deserialize, Serialize};

/// A time at which a measured profile went on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumption {
    /// When, as text.
    pub date: String,
    /// Farline's version then.
    pub farline: String,
    /// What ran it from there on.
    pub environment: Environment,
    /// How many repetitions there were before.
    pub repetitions: usize,
}

impl Profile {
    /// [Goes on](Profile::goes_on) on `date` in `environment`, which the document keeps.
    #[must_use]
    pub fn goes_on_in(self, environment: Environment, date: impl Into<String>) -> Profile {
        let mut profile = self.goes_on();
        let repetitions = profile.cells.iter().map(|result| result.repetitions.len()).sum();
        let farline = env!("CARGO_PKG_VERSION").to_owned();
        profile.resumptions.push(Resumption {
            date: date.into(),
            farline,
            environment,
            repetitions,
        });
        profile
    }

    /// What was not the same all the time, a sentence for each resumption in which something
    /// changed.
    pub fn changes(&self) -> Vec<String> {
        let (mut farline, mut before) = (&self.farline, &self.environment);
        let mut all = Vec::new();
        for one in &self.resumptions {
            let mut changed = Vec::new();
            let mut compare = |what: &str, was: Option<String>, is: Option<String>| {
                if was != is {
                    let word = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
                    changed.push(format!("{what} {} in place of {}", word(is), word(was)));
                }
            };
            compare("Farline", Some(farline.clone()), Some(one.farline.clone()));
            compare("host", before.host.clone(), one.environment.host.clone());
            compare("kernel", before.kernel.clone(), one.environment.kernel.clone());
            let cpus = |environment: &Environment| environment.cpus.map(|cpus| cpus.to_string());
            compare("processors", cpus(before), cpus(&one.environment));
            let names =
                before.settings.iter().chain(&one.environment.settings).map(|(name, _)| name);
            let names: std::collections::BTreeSet<&String> = names.collect();
            for name in names {
                let of = |environment: &Environment| {
                    environment
                        .settings
                        .iter()
                        .find(|(known, _)| known == name)
                        .map(|(_, value)| value.clone())
                };
                compare(name, of(before), of(&one.environment));
            }
            if !changed.is_empty() {
                all.push(format!(
                    "from repetition {} on ({}): {}",
                    one.repetitions + 1,
                    one.date,
                    changed.join(", ")
                ));
            }
            (farline, before) = (&one.farline, &one.environment);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Algorithm;
    use crate::profile::{Grid, PathPoint, ProfileKind};

    #[test]
    fn a_profile_resumed_elsewhere_says_what_changed() {
        let path = PathPoint::named("usn-1400", None).expect("a path");
        let grid = Grid::new("custom", vec![path], vec![Algorithm::Cubic]);
        let of = |kernel: &str, most: &str| Environment {
            host: Some("a".to_owned()),
            kernel: Some(kernel.to_owned()),
            settings: vec![("net.core.rmem_max".to_owned(), most.to_owned())],
            ..Environment::default()
        };
        let profile =
            Profile::new(grid, ProfileKind::Measured, of("6.1", "4"), "Monday").expect("a grid");
        let old = serde_json::to_string(&profile).expect("JSON");
        assert!(!old.contains("resumptions"), "the field is absent in what never went on");
        let same = Profile::read(&old).expect("a profile").goes_on_in(of("6.1", "4"), "Monday");
        assert!(
            same.changes().is_empty() && same.resumptions.len() == 1,
            "it is recorded, and nothing changed"
        );
        let other = same.goes_on_in(of("6.18", "8"), "Tuesday");
        let said = other.changes();
        assert_eq!(
            said,
            ["from repetition 1 on (Tuesday): kernel 6.18 in place of 6.1, net.core.rmem_max 8 \
                 in place of 4"]
        );
        assert!(other.page(&[]).html().contains("kernel 6.18 in place of 6.1"));
        assert_eq!(
            Profile::read(&serde_json::to_string(&other).expect("JSON")).as_ref(),
            Ok(&other)
        );
    }
}
