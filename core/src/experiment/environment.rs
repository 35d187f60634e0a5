//! What ran an experiment, and when and where it went on: its repetitions may be of several days,
//! kernels and machines, and its document says so.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What ran the repetitions; fields that a model does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine's name.
    pub host: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Processors.
    pub cpus: Option<u32>,
    /// The node at the other end of a real path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Settings that matter, such as `net.ipv4.tcp_rmem`, as the system prints them.
    pub settings: Vec<(String, String)>,
}

/// What is known of an environment: by rank and name, so that it is told in this order.
pub(crate) type EnvironmentFacts = BTreeMap<(usize, String), String>;

/// The facts of these names that are known.
pub(crate) fn facts<const N: usize>(known: [(&str, Option<String>); N]) -> EnvironmentFacts {
    let ranked = known.into_iter().enumerate();
    ranked.filter_map(|(rank, (name, value))| Some(((rank, name.to_owned()), value?))).collect()
}

impl Environment {
    /// What may change while it stays the same experiment.
    pub(crate) fn facts(&self) -> EnvironmentFacts {
        let mut facts = facts([
            ("host", self.host.clone()),
            ("kernel", self.kernel.clone()),
            ("processors", self.cpus.map(|cpus| cpus.to_string())),
        ]);
        let settings = self.settings.iter();
        facts.extend(settings.map(|(name, value)| ((usize::MAX, name.clone()), value.clone())));
        facts
    }
}

/// A time at which a measured experiment went on, in an environment that its document knows as `E`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumption<E> {
    /// When, as text.
    pub date: String,
    /// Farline's version then.
    pub farline: String,
    /// What ran it from there on.
    pub environment: E,
    /// How many repetitions there were before.
    pub repetitions: usize,
}

impl<E> Resumption<E> {
    /// By this Farline, on `date` in `environment`, after so many `repetitions`.
    pub(crate) fn new(date: String, environment: E, repetitions: usize) -> Resumption<E> {
        Resumption { date, farline: env!("CARGO_PKG_VERSION").to_owned(), environment, repetitions }
    }
}

/// What was not the same all the time, a sentence for each of `all` in which something changed: at
/// first Farline's version was `farline`, and the environment `began`.
pub(crate) fn changes<E>(
    farline: &str,
    began: &E,
    all: &[Resumption<E>],
    facts: impl Fn(&E) -> EnvironmentFacts,
) -> Vec<String> {
    let with_version = |farline: &str, environment: &E| {
        let ranked = facts(environment).into_iter();
        let mut facts: EnvironmentFacts =
            ranked.map(|((rank, name), value)| ((rank.saturating_add(1), name), value)).collect();
        facts.insert((0, "Farline".to_owned()), farline.to_owned());
        facts
    };
    let mut before = with_version(farline, began);
    let mut said = Vec::new();
    for one in all {
        let now = with_version(&one.farline, &one.environment);
        let names: BTreeSet<_> = before.keys().chain(now.keys()).collect();
        let changed = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
        let word = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
        let changed: Vec<String> = changed
            .map(|name| {
                let (is, was) = (word(now.get(name)), word(before.get(name)));
                format!("{} {is} in place of {was}", name.1)
            })
            .collect();
        if !changed.is_empty() {
            let (from, date) = (one.repetitions + 1, &one.date);
            said.push(format!("from repetition {from} on ({date}): {}", changed.join(", ")));
        }
        before = now;
    }
    said
}
