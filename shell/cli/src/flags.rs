//! The library's settings by their flags: what it calls `Setting::NoEncrypt` people give as
//! `--no-encrypt`.

use farline_core::units::{Error, Setting, SettingName};

/// `text` with the flag of each setting that it names.
pub(crate) fn in_flags(text: &str) -> String {
    Setting::renamed(text, SettingName::Flag)
}

/// `error` with flags in its message and its hint.
pub(crate) fn of_error(error: &Error) -> Error {
    error.with_settings_named(SettingName::Flag)
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
        let flags = flags_of(&Cli::command());
        for setting in Setting::ALL {
            assert!(
                flags.contains(&SettingName::Flag.of(*setting)),
                "no command has a flag for {setting}"
            );
        }
    }

    fn flags_of(command: &clap::Command) -> Vec<String> {
        let own = command.get_arguments().filter_map(clap::Arg::get_long);
        let own = own.map(|name| format!("--{name}"));
        own.chain(command.get_subcommands().flat_map(flags_of)).collect()
    }
}
