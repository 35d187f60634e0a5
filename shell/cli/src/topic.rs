//! Help that shows what a command is about: `farline sync` has flags of `cp` that it does not show,
//! and `farline profile` changes for RDMA: with `--channel rdma` a profile has other flags, and
//! neither set leaves the other room on a screen.

use clap::Command;
use std::ffi::OsString;

/// The heading of the flags of RDMA, which are hidden elsewhere.
pub(crate) const RDMA: &str = "RDMA";

/// What a profile of RDMA does not take.
const OF_TCP: [&str; 12] = [
    "node",
    "simulate",
    "scale",
    "rate",
    "congestion",
    "streams",
    "window",
    "mtu",
    "cross",
    "loss",
    "direction",
    "staging",
];

const EXAMPLES: &str = "\
Examples:
  farline profile --channel rdma --message-size 64,64KiB --transport rc,ud
  farline profile --channel rdma --preset sc08-ib-distance -o page.html";

/// What `sync` takes and does not show: `cp` does, which in turn hides what chooses files.
const OF_CP: [&str; 13] = [
    "channel",
    "streams",
    "congestion",
    "buffer",
    "reserve",
    "staging",
    "no_encrypt",
    "retry_for",
    "ssh",
    "timeout",
    "tls_ca",
    "tls_pin",
    "remote_farline",
];
/// What chooses files, what is kept of them, and for what `cp` has no room.
const OF_SYNC: [&str; 15] = [
    "archive",
    "backup",
    "backup_dir",
    "checksum",
    "deadline",
    "suffix",
    "direct_io",
    "dry_run",
    "exclude",
    "include",
    "filter",
    "exclude-from",
    "include-from",
    "files-from",
    "from0",
];

fn with_sync(command: Command) -> Command {
    command.mut_subcommand("sync", |sync| {
        sync.mut_args(|arg| match arg.get_id().as_str() {
            id if OF_CP.contains(&id) => arg.hide(true),
            id if OF_SYNC.contains(&id) => arg.hide(false),
            _ => arg,
        })
    })
}

/// The words of the command line, where `farline help cp` is `farline cp --help`, as git has it.
pub(crate) fn help_as_flag(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// `command` with the flags of RDMA shown.
pub(crate) fn whole(command: Command) -> Command {
    with_sync(command).mut_subcommand("profile", |profile| {
        profile.mut_args(
            |arg| if arg.get_help_heading() == Some(RDMA) { arg.hide(false) } else { arg },
        )
    })
}

/// `command`, whose help is that of RDMA where `words` ask for a profile of it.
pub(crate) fn of(command: Command, words: impl IntoIterator<Item = OsString>) -> Command {
    let command = with_sync(command);
    let words: Vec<String> =
        words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_rdma = words.iter().any(|word| word == "--channel=rdma")
        || words.windows(2).any(
            |pair| matches!(pair, [flag, channel] if flag == "--channel" && channel == "rdma"),
        );
    if !is_rdma || !words.iter().any(|word| word == "profile") {
        return command;
    }
    whole(command).mut_subcommand("profile", |profile| {
        let shown = |arg: clap::Arg| {
            if OF_TCP.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg }
        };
        profile
            .about("Measure messages by verbs between two RDMA devices of this host")
            .mut_args(shown)
            .after_help(EXAMPLES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    fn help(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        of(Cli::command(), words.clone())
            .try_get_matches_from(words)
            .expect_err("help is no result")
            .to_string()
    }

    #[test]
    fn rdmas_help_shows_every_flag_it_takes_and_fits_a_screen() {
        let usual = help(&["farline", "profile", "--help"]);
        let mut command = Cli::command();
        command.build();
        let profile = command.find_subcommand("profile").expect("there");
        let flags: Vec<String> = profile
            .get_arguments()
            .filter(|arg| arg.get_help_heading() == Some(RDMA))
            .filter_map(|arg| arg.get_long().map(|flag| format!("--{flag} ")))
            .collect();
        assert_eq!(flags.len(), 7, "{flags:?}");
        for words in [
            &["farline", "profile", "--channel", "rdma", "--help"][..],
            &["farline", "profile", "--channel=rdma", "-h"],
        ] {
            let rdma = help(words);
            assert!(
                flags.iter().all(|flag| rdma.contains(flag) && !usual.contains(flag)),
                "{rdma}"
            );
            assert!(
                rdma.lines().count() <= 40 && rdma.lines().all(|line| line.chars().count() <= 80),
                "{rdma}"
            );
            for flag in ["--congestion", "--streams", "--loss", "--scale"] {
                assert!(usual.contains(flag) && !rdma.contains(flag), "{flag}: {rdma}");
            }
        }
        assert!(usual.contains("--channel rdma -h"), "it says where the others are:\n{usual}");
        for id in OF_TCP {
            assert!(profile.get_arguments().any(|arg| arg.get_id() == id), "{id}");
        }
    }
}
