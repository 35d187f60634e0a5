//! The library's settings by their flags: what it calls `Setting::NoEncrypt` people give as
//! `--no-encrypt`.

use farline::client::{Failure, Outcome};
use farline_core::units::{Error, Setting};

/// `text` with the flag of each setting that it names.
pub(crate) fn in_flags(text: &str) -> String {
    Setting::renamed(text, |setting| format!("--{}", setting.name().replace('_', "-")))
}

/// `error` with flags in its message and its hint.
pub(crate) fn of_error(error: &Error) -> Error {
    let mut error = error.clone();
    error.message = in_flags(&error.message);
    error.hint = error.hint.as_deref().map(in_flags);
    error
}

/// `outcome` with flags in whatever it says to people.
pub(crate) fn of_outcome(mut outcome: Outcome) -> Outcome {
    outcome.notes.iter_mut().for_each(|note| *note = in_flags(note));
    outcome.channel_fallback = outcome.channel_fallback.as_deref().map(in_flags);
    outcome.limited_evidence = in_flags(&outcome.limited_evidence);
    let failed = |failure: &mut Failure| failure.error = of_error(&failure.error);
    outcome.failures.iter_mut().chain(&mut outcome.not_deleted).for_each(failed);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;
    use farline_core::units::{ErrorCode, Fault};

    #[test]
    fn what_an_error_names_is_shown_as_its_flag() {
        let hint = format!("let it go in the clear with {}", Setting::NoEncrypt);
        let error = Error::new(Fault::You, ErrorCode::CannotEncrypt, "no TLS").hint(hint);
        let shown = of_error(&error).hint;
        assert_eq!(shown.as_deref(), Some("let it go in the clear with --no-encrypt"));
    }

    #[test]
    fn each_setting_is_a_flag_of_some_command() {
        let flags: Vec<String> = Cli::command()
            .get_subcommands()
            .flat_map(clap::Command::get_arguments)
            .filter_map(clap::Arg::get_long)
            .map(str::to_owned)
            .collect();
        for setting in Setting::ALL {
            let flag = setting.name().replace('_', "-");
            assert!(flags.contains(&flag), "no command has a flag for {setting}");
        }
    }
}
