//! `farline completions` and `farline man`: generated from the argument definitions, so they cannot
//! drift from them.

use crate::Cli;
use crate::output::{Output, plain};
use crate::topic::whole;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use farline_core::units::{Error, ErrorCode, Fault};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = "Example:\n  farline completions bash > \
        ~/.local/share/bash-completion/completions/farline")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Print the man page, or write one for each command
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  farline man | man -l -\n  farline man --out ~/.local/share/man/man1"
)]
pub(crate) struct ManArgs {
    /// Folder for the pages farline.1, farline-cp.1, ... (default: print the first)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What each fault means as an exit status. Link commands that run a command pass its own status
/// on.
const EXIT_STATUS: [(Fault, &str); 6] = [
    (Fault::You, "The request: a bad argument, a file that is not there."),
    (Fault::Here, "This host: a full disk, no permission, a kernel without the feature."),
    (Fault::There, "The other end: it failed or broke its protocol."),
    (Fault::Between, "The path between: a lost connection, a timeout, a link that is down."),
    (Fault::Refused, "Refused: by policy, for lack of authentication or of capacity."),
    (Fault::Bug, "A defect in Farline, worth reporting."),
];

pub(crate) fn completions(args: &CompletionsArgs, output: &Output) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut whole(Cli::command()), "farline", &mut script);
    output.bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs, output: &Output) -> Result<ExitCode, Error> {
    let mut cli = whole(Cli::command()).disable_help_subcommand(true);
    cli.build();
    match &args.out {
        None => {
            output.bytes(&page(&cli).map_err(|error| unwritten(Path::new("farline.1"), &error))?)?
        }
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))?;
            write_pages(&cli, folder)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of `command` and of each command below it into `folder`.
fn write_pages(command: &clap::Command, folder: &Path) -> Result<(), Error> {
    let path = folder.join(format!("{}.1", page_name(command)));
    let written = page(command).and_then(|page| std::fs::write(&path, page));
    written.map_err(|error| unwritten(&path, &error))?;
    command.get_subcommands().try_for_each(|below| write_pages(below, folder))
}

/// `farline-link-up` for `farline link up`.
fn page_name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// The man page of `command` in roff.
fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).title(page_name(command)).manual("Farline");
    let mut roff = Vec::new();
    man.render_title(&mut roff)?;
    man.render_name_section(&mut roff)?;
    man.render_synopsis_section(&mut roff)?;
    man.render_description_section(&mut roff)?;
    man.render_options_section(&mut roff)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut roff)?;
    }
    if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
        examples(command, &mut roff);
    }
    roff.extend_from_slice(b".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\nDone.\n");
    for (fault, meaning) in EXIT_STATUS {
        roff.extend_from_slice(
            format!(".TP\n\\fB{}\\fR\n{meaning}\n", fault.exit_code()).as_bytes(),
        );
    }
    roff.extend_from_slice(b".TP\n\\fB129, 130, 143\\fR\n");
    roff.extend_from_slice(b"Ended by SIGHUP, SIGINT or SIGTERM: 128 and the signal's number.\n");
    Ok(roff)
}

/// The text below a command's help, line for line: filling would run the examples together.
fn examples(command: &clap::Command, roff: &mut Vec<u8>) {
    let text = command
        .get_after_long_help()
        .or(command.get_after_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    roff.extend_from_slice(b".SH NOTES\n.nf\n");
    for line in text.lines() {
        // A full stop or an apostrophe at the start of a line is a request to roff, a backslash an
        // escape anywhere.
        roff.extend_from_slice(
            format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-")).as_bytes(),
        );
    }
    roff.extend_from_slice(b".fi\n");
}

fn unwritten(path: &Path, error: &io::Error) -> Error {
    Error::new(
        Fault::Here,
        ErrorCode::ManPage,
        format!("writing {}: {}", path.display(), plain(error)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::fmt::Write;

    /// Writes the help of `command` and of each command below it.
    fn reference(command: &mut clap::Command, text: &mut String) {
        let name = page_name(command).replace('-', " ");
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        write!(text, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n")).expect("to a string");
        for below in command.get_subcommands_mut() {
            reference(below, text);
        }
    }

    #[test]
    fn the_reference_says_what_help_says() {
        const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        let mut cli = whole(Cli::command()).disable_help_subcommand(true).term_width(100);
        cli.build();
        let mut text = "# Commands\n\nWhat `farline COMMAND --help` says, command by command. \
             Generated: `UPDATE_DOCS=1 cargo test -p farline-cli reference`.\n"
            .to_owned();
        reference(&mut cli, &mut text);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(PAGE, &text).expect("written");
        }
        let page = std::fs::read_to_string(PAGE).expect("docs/commands.md");
        assert!(page == text, "docs/commands.md is stale: UPDATE_DOCS=1 cargo test -p farline-cli");
    }

    #[test]
    fn every_shell_gets_completions_for_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut whole(Cli::command()), "farline", &mut script);
            let script = String::from_utf8(script).expect("text");
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: no {}", command.get_name());
            }
        }
    }

    #[test]
    fn help_and_man_page_tell_the_same_exit_codes() {
        let mut codes: Vec<u8> = EXIT_STATUS.iter().map(|(fault, _)| fault.exit_code()).collect();
        for code in &codes {
            assert!(
                crate::TOP_EXAMPLES.contains(&format!(" {code} ")),
                "{code} is not in the top help"
            );
        }
        codes.dedup();
        assert_eq!(codes.len(), EXIT_STATUS.len(), "two faults share a code");
    }
}
