//! The flags that say which files of a source are copied, in the order in which they stand.

use crate::output::plain;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use farline::client::Selection;
use farline_core::filter::{FileFilter, FilterForm};
use farline_core::units::{Error, ErrorCode, Fault};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// The flag, what its value is, and what it does.
const FLAGS: [(&str, &str, &str); 6] = [
    ("exclude", "PATTERN", "Leave out what matches, in rsync's language [default: nothing]"),
    ("include", "PATTERN", "Take what later rules exclude [default: all]"),
    ("filter", "RULE", "A rule such as '- *.tmp', '+ *.h5' or '. FILE' [default: none]"),
    ("exclude-from", "FILE", "Patterns to exclude, one a line [default: none]"),
    ("include-from", "FILE", "Patterns to include, one a line [default: none]"),
    ("files-from", "FILE", "Only the files named there; -: standard input [default: all]"),
];

/// Which files are meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectionArgs {
    /// Flags and their values, in order.
    rules: Vec<(&'static str, OsString)>,
    files_from: Option<OsString>,
    from0: bool,
}

impl SelectionArgs {
    /// Reads the files that the flags name.
    pub(crate) fn selection(&self) -> Result<Selection, Error> {
        let mut filter = FileFilter::default();
        for (flag, value) in &self.rules {
            let value = value.as_bytes();
            match *flag {
                "exclude" => filter.add(FilterForm::Exclude, value, &mut read)?,
                "include" => filter.add(FilterForm::Include, value, &mut read)?,
                "exclude-from" => filter.add_file(FilterForm::Exclude, value, &mut read)?,
                "include-from" => filter.add_file(FilterForm::Include, value, &mut read)?,
                _ => filter.add(FilterForm::Rule, value, &mut read)?,
            }
        }
        let selection = Selection::new(filter);
        let Some(file) = &self.files_from else { return Ok(selection) };
        let text = read(file.as_bytes())?;
        let end = if self.from0 { b'\0' } else { b'\n' };
        selection.of_names(text.split(|byte| *byte == end).filter(|name| !name.is_empty()))
    }
}

fn read(name: &[u8]) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let read = match name {
        b"-" => std::io::stdin().read_to_end(&mut text).map(|_| text),
        name => std::fs::read(OsStr::from_bytes(name)),
    };
    read.map_err(|error| {
        let message = format!("{}: {}", String::from_utf8_lossy(name), plain(&error));
        Error::new(Fault::You, ErrorCode::BadFilter, message)
    })
}

// By hand: what clap derives forgets the order of flags among each other.
impl clap::FromArgMatches for SelectionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SelectionArgs, clap::Error> {
        let mut rules = Vec::new();
        for (flag, ..) in FLAGS.into_iter().filter(|(flag, ..)| *flag != "files-from") {
            let values = matches.get_many::<OsString>(flag).into_iter().flatten().cloned();
            let places = matches.indices_of(flag).into_iter().flatten();
            rules.extend(places.zip(values).map(|(at, value)| (at, flag, value)));
        }
        rules.sort_by_key(|(at, ..)| *at);
        Ok(SelectionArgs {
            rules: rules.into_iter().map(|(_, flag, value)| (flag, value)).collect(),
            files_from: matches.get_one::<OsString>("files-from").cloned(),
            from0: matches.get_flag("from0"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = SelectionArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for SelectionArgs {
    fn augment_args(command: Command) -> Command {
        let flags = FLAGS.map(|(flag, value, help)| {
            let action = if flag == "files-from" { ArgAction::Set } else { ArgAction::Append };
            Arg::new(flag)
                .long(flag)
                .value_name(value)
                .help(help)
                .action(action)
                .value_parser(value_parser!(OsString))
                .allow_hyphen_values(true)
                .hide(true)
        });
        let from0 = Arg::new("from0")
            .long("from0")
            .action(ArgAction::SetTrue)
            .requires("files-from")
            .help("Names of --files-from end in NUL, not in a new line")
            .hide(true);
        command.args(flags).arg(from0)
    }

    fn augment_args_for_update(command: Command) -> Command {
        SelectionArgs::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_not_there_is_said_in_the_systems_words() {
        let error = read(b"no-such-list").expect_err("it is not there");
        assert_eq!(error.message, "no-such-list: No such file or directory");
    }
}
