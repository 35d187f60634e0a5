//! What stands in for a command whose part of the library this build lacks: it says so, and what
//! brings it.

use std::sync::OnceLock;

/// Defines the module `$name` of such a command, which the feature `$feature` brings.
#[allow(unused_macros, reason = "a build with every feature lacks nothing")]
macro_rules! lacking {
    ($name:ident, $feature:literal) => {
        mod $name {
            use crate::output::Output;
            use farline_core::units::Error;
            use std::ffi::OsString;
            use std::process::ExitCode;

            #[derive(clap::Args)]
            #[command(about = concat!("Not in this build, which has no feature `", $feature, "`"))]
            pub(crate) struct Args {
                /// Whatever it would take
                #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
                _words: Vec<OsString>,
            }

            pub(crate) fn run(_: Args, _: &Output) -> Result<ExitCode, Error> {
                Err(Error::not_built(concat!("`farline ", stringify!($name), "`"), $feature))
            }
        }
    };
}
#[allow(unused_imports, reason = "a build with every feature lacks nothing")]
pub(crate) use lacking;

/// The parts that a build may lack, and whether this one has them.
const PARTS: [(&str, bool); 9] = [
    ("bpf", cfg!(feature = "bpf")),
    ("calendar", cfg!(feature = "calendar")),
    ("line", cfg!(feature = "line")),
    ("link", cfg!(feature = "link")),
    ("postgres", cfg!(feature = "postgres")),
    ("profile", cfg!(feature = "profile")),
    ("quic", cfg!(feature = "quic")),
    ("rdma", cfg!(feature = "rdma")),
    ("tls", cfg!(feature = "tls")),
];

/// The version, and which parts this build lacks.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let version = env!("CARGO_PKG_VERSION");
        let lacks = PARTS.iter().filter(|(_, has)| !has).map(|(name, _)| *name);
        let lacks = lacks.collect::<Vec<_>>().join(", ");
        if lacks.is_empty() {
            version.to_owned()
        } else {
            format!("{version}, built without {lacks}")
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::output::Output;
    use clap::{CommandFactory, Parser};
    use farline_core::units::{ErrorCode, Fault};

    lacking!(flights, "wings");

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: flights::Args,
    }

    #[test]
    fn a_command_that_is_not_built_says_what_brings_it() {
        let about = Line::command().get_about().map(ToString::to_string);
        assert_eq!(about.as_deref(), Some("Not in this build, which has no feature `wings`"));
        for words in [vec!["flights"], vec!["flights", "up", "--rate", "1G", "--", "-x"]] {
            let line = Line::try_parse_from(words).expect("whatever was meant");
            let error = flights::run(line.args, &Output::new(false, true)).expect_err("not there");
            assert_eq!((error.fault, error.code), (Fault::Here, ErrorCode::NotBuilt));
            assert!(error.message.contains("`farline flights`"), "{error}");
            assert_eq!(error.hint.as_deref(), Some("build it with the feature `wings`"));
        }
    }
}
