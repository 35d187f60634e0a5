//! The papers' experiments over TCP as grids, each in a quick form of at most twenty minutes and a
//! full one: what `presets/tcp.toml` has.

use super::grid::Grid;
use crate::experiment::{Form, PresetFile};
use crate::units::{Error, ErrorCode, Fault};
use std::sync::LazyLock;

/// The presets' file.
const TOML: &str = include_str!("presets/tcp.toml");

/// It is read by the tests, so that it can be.
pub(super) static FILE: LazyLock<PresetFile> =
    LazyLock::new(|| PresetFile::read(TOML).unwrap_or_default());

/// Name and what it is, in the order of the papers.
pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILE.names()
}

/// The preset called `name`.
///
/// # Errors
/// [`Fault::You`] with the known names when there is none.
pub fn preset(name: &str, form: Form) -> Result<Grid, Error> {
    FILE.grid(name, form, &Grid::new(name, Vec::new(), Vec::new())).unwrap_or_else(|| {
        let known: Vec<&str> = presets().map(|(name, _)| name).collect();
        let message = format!("there is no preset called `{name}`");
        let error = Error::new(Fault::You, ErrorCode::ProfilePreset, message);
        Err(error.hint(format!("known ones: {}", known.join(", "))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Environment;
    use crate::experiment::Experiment;
    use crate::profile::document::{Profile, ProfileKind};

    #[test]
    fn every_presets_quick_form_takes_at_most_twenty_minutes() {
        for (name, _) in presets() {
            for form in [Form::Quick, Form::Full] {
                let grid = preset(name, form).expect("a preset");
                assert_eq!((grid.name.as_str(), grid.form), (name, form));
                assert!(grid.seconds - grid.warm_up_s >= 10.0, "{name}");
                let profile = Profile::new(grid, ProfileKind::Modelled, Environment::default(), "")
                    .expect("a grid");
                if form == Form::Quick {
                    // One repetition in ten is invalid and done again; a machine that needs a scale
                    // finds it in forty seconds.
                    let all = profile.longest().as_secs_f64() * 1.1 + 40.0;
                    println!("{name}: {all:.0} s");
                    assert!(all <= 1_200.0, "{name}: {all:.0} s");
                }
            }
            let cells = |form| preset(name, form).expect("a preset").cells().len();
            assert!(cells(Form::Full) >= cells(Form::Quick), "{name}");
        }
        assert!(
            preset("sc09", Form::Quick)
                .is_err_and(|error| error.hint.is_some_and(|hint| hint.contains("sc08-distance")))
        );
    }

    #[test]
    fn the_file_is_read_with_every_preset_and_figure() {
        let file = PresetFile::read(TOML).expect("a file of presets");
        assert_eq!(file.names().count(), 12);
        assert_eq!(crate::profile::published::SC08.len(), 8);
        for (name, _) in file.names() {
            assert!(
                preset(name, Form::Quick).is_ok() && preset(name, Form::Full).is_ok(),
                "{name}"
            );
        }
    }
}
