//! What a command prints: text for people or JSON for programs, and errors in either form.

use crate::Cli;
use crate::{flags, numbers};
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use farline_core::units::{Error, ErrorCode, Fault, escaped_json, escaped_lines};
use serde::Serialize;
use std::error::Error as _;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// How this run prints.
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    /// Whether standard output carries a file, so that everything else goes to stderr.
    beside_data: AtomicBool,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool) -> Output {
        Output { json, quiet, beside_data: AtomicBool::new(false) }
    }

    /// Leaves standard output to the file that is copied there: results and errors go to stderr
    /// from now on.
    pub(crate) fn leave_stdout_to_data(&self) {
        self.beside_data.store(true, Ordering::Relaxed);
    }

    /// Where results go.
    fn out(&self) -> Box<dyn Write> {
        if self.beside_data.load(Ordering::Relaxed) {
            Box::new(io::stderr())
        } else {
            Box::new(io::stdout().lock())
        }
    }

    /// Whether results are printed as JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether the user asked for no progress.
    pub(crate) fn quiet(&self) -> bool {
        self.quiet
    }

    /// Prints a result: `document` on one line with `--json`, else `text`.
    ///
    /// A document's first field is `schema`, such as `farline/copy/1`.
    pub(crate) fn result(
        &self,
        document: &impl Serialize,
        text: impl fmt::Display,
    ) -> Result<(), Error> {
        if self.json { self.text(json(document)) } else { self.text(text) }
    }

    /// Prints `text` and a line end.
    ///
    /// # Errors
    /// When it cannot be written; a reader that has seen enough (`| head`) is not an error.
    pub(crate) fn text(&self, text: impl fmt::Display) -> Result<(), Error> {
        let text = flags::in_flags(&text.to_string());
        written(writeln!(self.out(), "{}", escaped_lines(&text)))
    }

    /// Says on stderr, next to the results, what a person should know of them; not with `--quiet`.
    pub(crate) fn remark(&self, text: impl fmt::Display) {
        if !self.quiet {
            // Nobody to hear it is no error.
            let _ = writeln!(
                io::stderr().lock(),
                "farline: {}",
                escaped_lines(&flags::in_flags(&text.to_string()))
            );
        }
    }

    /// Prints `bytes` as they are.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut stdout = io::stdout().lock();
        written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
    }

    /// Prints `error` and returns the exit code that goes with its fault.
    ///
    /// An object goes where the result would have stood; text goes to stderr.
    pub(crate) fn error(&self, error: &Error) -> ExitCode {
        let error = &flags::of_error(error);
        // Nothing is left to tell when even this cannot be written; the exit code still says it.
        let _ = if self.json {
            writeln!(self.out(), "{}", json(&ErrorDocument { schema: "farline/error/1", error }))
        } else {
            let mut stderr = io::stderr().lock();
            let hint = |stderr: &mut io::StderrLock<'_>| {
                error.hint.iter().try_for_each(|hint| writeln!(stderr, "hint: {hint}"))
            };
            writeln!(stderr, "farline: {error}").and_then(|()| hint(&mut stderr))
        };
        ExitCode::from(error.fault.exit_code())
    }
}

/// An error as programs read it.
#[derive(Serialize)]
struct ErrorDocument<'a> {
    schema: &'static str,
    error: &'a Error,
}

/// Answers a command line that was not understood, or that asked for help or the version.
///
/// `args` are the words of the command line: after a failed parse only they tell whether `--json`
/// was asked for.
pub(crate) fn usage(mut wrong: clap::Error, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // "To pass `--flag` as a value, use `-- --flag`" is never what was meant.
    wrong.remove(ContextKind::Suggested);
    let args: Vec<OsString> = args.into_iter().collect();
    suggest_command(&mut wrong, &args);
    name_destination(&mut wrong);
    let wrong = &wrong;
    let is_answer = matches!(wrong.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = args.into_iter().take_while(|word| word != "--").any(|word| word == "--json");
    if is_answer || (!json && advice(wrong).is_none()) {
        print(wrong);
        return ExitCode::from(if is_answer { 0 } else { Fault::You.exit_code() });
    }
    Output::new(json, false).error(&usage_error(wrong))
}

/// Prints what clap says, but of a number that is none in other words than Rust's.
fn print(wrong: &clap::Error) {
    // Nobody to read it is no error.
    let _ = match numbers::meant(wrong) {
        None => wrong.print(),
        Some((said, meaning)) => {
            let text = wrong.render();
            let is_plain = !io::stderr().is_terminal()
                || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let text = if is_plain { text.to_string() } else { text.ansi().to_string() };
            write!(io::stderr().lock(), "{}", text.replacen(&said, meaning, 1))
        }
    };
}

/// Suggests the command whose letters were typed in another order, or with one wrong, of those that
/// stand where `args` has it: clap finds none for words as short as `pc`.
fn suggest_command(wrong: &mut clap::Error, args: &[OsString]) {
    let has_own = wrong.get(ContextKind::SuggestedSubcommand).is_some();
    let Some(ContextValue::String(typed)) = wrong.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let commands = Cli::command();
    let mut within = &commands;
    for word in args.iter().skip(1).take_while(|word| **word != **typed) {
        within = within.find_subcommand(word).unwrap_or(within);
    }
    let close = within
        .get_subcommands()
        .map(clap::Command::get_name)
        .find(|name| !has_own && strsim::damerau_levenshtein(name, typed) == 1);
    if let Some(name) = close {
        let name = ContextValue::Strings(vec![name.to_owned()]);
        wrong.insert(ContextKind::SuggestedSubcommand, name);
    }
}

/// Of `farline cp a` clap takes `a` for the destination, and misses the sources: who writes one
/// place has said from where.
fn name_destination(wrong: &mut clap::Error) {
    let is_source = |missing: &ContextValue| match missing {
        ContextValue::Strings(missing) => missing[..] == ["<SRC>..."],
        _ => false,
    };
    if wrong.get(ContextKind::InvalidArg).is_some_and(is_source) {
        let destination = ContextValue::Strings(vec!["<DST>".to_owned()]);
        wrong.insert(ContextKind::InvalidArg, destination);
    }
}

/// What the parser of a value advises whoever wrote it.
fn advice(wrong: &clap::Error) -> Option<String> {
    wrong.source()?.downcast_ref::<Error>()?.hint.clone()
}

/// A mistake on the command line as an error: clap's first line, and its suggestion as the hint.
fn usage_error(wrong: &clap::Error) -> Error {
    let mut text = wrong.render().to_string();
    if let Some((said, meaning)) = numbers::meant(wrong) {
        text = text.replacen(&said, meaning, 1);
    }
    let first = text
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap_or("error: a command is missing");
    // What is missing stands in a list below the first line.
    let listed = text
        .lines()
        .skip(1)
        .skip_while(|line| line.is_empty())
        .take_while(|line| line.starts_with("  "));
    let listed: Vec<&str> =
        listed.map(str::trim).filter(|line| !line.starts_with("tip: ")).collect();
    let message = [&first["error: ".len()..], &listed.join(", ")].join(" ");
    let suggested =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
            .into_iter()
            .find_map(|kind| wrong.get(kind))
            .map(|suggestion| format!("did you mean `{suggestion}`?"));
    let hint = suggested
        .or_else(|| advice(wrong))
        .unwrap_or_else(|| "see `farline --help` or `farline COMMAND --help`".to_owned());
    Error::new(Fault::You, ErrorCode::Usage, message.trim().to_owned()).hint(hint)
}

/// The system's words without Rust's ` (os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// One JSON object on one line.
fn json(document: &impl Serialize) -> String {
    // Farline's documents have string keys and no failing serializers: the two ways in which this
    // could fail.
    escaped_json(serde_json::to_string(document).unwrap_or_else(|error| {
        serde_json::json!({ "unprintable": error.to_string() }).to_string()
    }))
}

/// Prints a line where no [`Output`] is at hand; a reader that has seen enough (`| head`) is no
/// reason to panic.
#[cfg(feature = "link")]
macro_rules! line {
    ($($text:tt)*) => { $crate::output::print_line(format_args!($($text)*)) };
}
#[cfg(feature = "link")]
pub(crate) use line;

#[cfg(feature = "link")]
pub(crate) fn print_line(text: fmt::Arguments<'_>) {
    let written = writeln!(io::stdout().lock(), "{}", escaped_lines(&text.to_string()));
    if let Err(error) = self::written(written) {
        // Nothing behind it would be written either, and a script would take it for whole.
        eprintln!("farline: {error}");
        std::process::exit(error.fault.exit_code().into());
    }
}

fn written(outcome: io::Result<()>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(Fault::Here, ErrorCode::Stdout, format!("writing to stdout: {error}")))
        }
        _ => Ok(()),
    }
}
