//! The tools that copy: how each is served, started and set, and what it tells about itself.

use crate::dataset::Dataset;
use crate::lane::{Lane, Served, is_root};
use crate::race::Race;
use crate::said;
use anyhow::{Context, Result};
use farline_core::report::demo::DemoChoice;
use farline_core::units::Bytes;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool that copies a tree from side a to side b.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Rsync,
    GlobusUrlCopy,
    Farline,
}

/// What a tool says about a copy.
#[derive(Default)]
pub(crate) struct ToolReport {
    pub(crate) congestion: Option<String>,
    pub(crate) streams: Option<u32>,
    pub(crate) limited_by: Option<String>,
    pub(crate) choices: Vec<DemoChoice>,
}

/// Data connections and files at once for globus-url-copy: what its manual proposes for wide-area
/// transfers.
const GLOBUS_STREAMS: u32 = 8;
const GLOBUS_FILES: u32 = 4;

impl Tool {
    /// In the order of the demo.
    pub(crate) fn all() -> [Tool; 3] {
        [Tool::Rsync, Tool::GlobusUrlCopy, Tool::Farline]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Tool::Rsync => "rsync",
            Tool::GlobusUrlCopy => "globus-url-copy",
            Tool::Farline => "farline",
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        self == Tool::Farline
    }

    /// Fails with the reason when the tool cannot run here.
    pub(crate) fn is_here(self) -> Result<(), String> {
        if let Ok(wanted) = std::env::var("FARLINE_DEMO_TOOLS")
            && !wanted.split(',').any(|name| name == self.name())
        {
            return Err("FARLINE_DEMO_TOOLS does not name it".to_owned());
        }
        let (programs, package): (&[&str], &str) = match self {
            Tool::Rsync => (&["rsync"], "rsync"),
            Tool::GlobusUrlCopy => (
                &["globus-url-copy", "globus-gridftp-server"],
                "globus-gass-copy-progs globus-gridftp-server-progs",
            ),
            Tool::Farline => return Ok(()),
        };
        match programs.iter().find(|program| find_program(program).is_none()) {
            Some(program) => Err(format!("{program} is not installed (apt-get install {package})")),
            None => Ok(()),
        }
    }

    pub(crate) fn version(self) -> String {
        let line = match self {
            Tool::Rsync => said("rsync", &["--version"]),
            Tool::GlobusUrlCopy => said("globus-url-copy", &["-version"]),
            Tool::Farline => env!("CARGO_PKG_VERSION").to_owned(),
        };
        let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        line.split_whitespace().find(is_version).unwrap_or_default().to_owned()
    }

    /// How it was set, in one line.
    pub(crate) fn settings(self) -> String {
        match self {
            Tool::Rsync => "-a, to an rsync daemon".to_owned(),
            Tool::GlobusUrlCopy => {
                format!("-fast -p {GLOBUS_STREAMS} -cc {GLOBUS_FILES} -r, to globus-gridftp-server")
            }
            Tool::Farline => "cp -r, as it chooses".to_owned(),
        }
    }

    /// Data connections of one file, where the tool does not tell.
    pub(crate) fn streams(self) -> u32 {
        match self {
            Tool::GlobusUrlCopy => GLOBUS_STREAMS,
            Tool::Rsync | Tool::Farline => 1,
        }
    }

    fn port(self) -> u16 {
        match self {
            Tool::Rsync => 8730,
            Tool::GlobusUrlCopy => 2811,
            Tool::Farline => 2812,
        }
    }

    /// Starts the tool's server for `folder` in side b.
    pub(crate) fn serve(self, lane: &Lane, folder: &Path) -> Result<Served> {
        let port = self.port();
        let command = match self {
            Tool::Rsync => {
                let config = lane.scratch().join("rsyncd.conf");
                // Root's daemon would become nobody, who may not write here.
                let user = if is_root() { "uid = root\ngid = root\n" } else { "" };
                let module = format!(
                    "use chroot = no\n{user}[demo]\npath = {}\nread only = no\n",
                    folder.display()
                );
                fs::write(&config, module)?;
                let mut command = lane.command_without_root('b', "rsync");
                command
                    .args(["--daemon", "--no-detach", "--config"])
                    .arg(config)
                    .arg(format!("--port={port}"));
                command
            }
            Tool::GlobusUrlCopy => {
                let server =
                    find_program("globus-gridftp-server").context("globus-gridftp-server")?;
                let mut command = lane.command_without_root('b', &server.to_string_lossy());
                command.args([
                    "-c",
                    "/dev/null",
                    "-aa",
                    "-p",
                    &port.to_string(),
                    "-control-interface",
                    lane.peer(),
                    "-data-interface",
                    lane.peer(),
                ]);
                if is_root() {
                    command.args(["-anonymous-user", "root", "-allow-root"]);
                }
                command
            }
            Tool::Farline => {
                let mut command = lane.command('b', &lane.farline().to_string_lossy());
                command
                    .args([
                        "serve",
                        "--listen",
                        &format!("{}:{port}", lane.peer()),
                        "--anonymous",
                        "write",
                        "--root",
                    ])
                    .arg(folder);
                command
            }
        };
        lane.serve(command, &lane.log(&format!("{}-server", self.name())), port)
    }

    /// The command that copies `dataset` into the server's folder.
    pub(crate) fn copy(self, lane: &Lane, dataset: &Dataset) -> Command {
        let (from, peer, port) = (dataset.folder.display(), lane.peer(), self.port());
        match self {
            Tool::Rsync => {
                let mut command = lane.command('a', "rsync");
                command.args(["-a", &format!("{from}/"), &format!("rsync://{peer}:{port}/demo/")]);
                command
            }
            Tool::GlobusUrlCopy => {
                let mut command = lane.command('a', "globus-url-copy");
                let (streams, files) = (GLOBUS_STREAMS.to_string(), GLOBUS_FILES.to_string());
                command.args([
                    "-fast",
                    "-p",
                    &streams,
                    "-cc",
                    &files,
                    "-cd",
                    "-r",
                    &format!("file://{from}/"),
                ]);
                command.arg(format!(
                    "ftp://{peer}:{port}{}/",
                    lane.scratch().join("arrived").display()
                ));
                command
            }
            Tool::Farline => {
                let mut command = lane.command('a', &lane.farline().to_string_lossy());
                command.args([
                    "cp",
                    "-r",
                    "--json",
                    &from.to_string(),
                    &format!("ftp://{peer}:{port}/"),
                ]);
                command
            }
        }
    }

    /// Where the dataset's files are after the copy.
    pub(crate) fn landed(self, dataset: &Dataset, folder: &Path) -> PathBuf {
        match self {
            Tool::Farline => folder.join(dataset.folder.file_name().unwrap_or_default()),
            Tool::Rsync | Tool::GlobusUrlCopy => folder.to_owned(),
        }
    }

    /// What the tool printed about itself: Farline's result object; the others say nothing.
    pub(crate) fn told(self, race: &Race) -> Result<ToolReport> {
        if self != Tool::Farline || !race.finished {
            return Ok(ToolReport::default());
        }
        let result: Value = serde_json::from_str(race.stdout.lines().last().unwrap_or_default())
            .context("farline cp printed no object")?;
        let text = |key: &str| result[key].as_str().map(str::to_owned);
        let reasons = result["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let staging = Bytes(result["staging_bytes"].as_u64().unwrap_or_default());
        let values = [
            ("data channels", result["streams"].to_string()),
            ("congestion control", text("congestion").unwrap_or_else(|| "the system's".to_owned())),
            ("staging", staging.to_string()),
        ];
        // The reasons come in the order of the choices.
        let choices = values.into_iter().zip(reasons).map(|((parameter, value), reason)| {
            DemoChoice { parameter: parameter.to_owned(), value, reason: reason.to_owned() }
        });
        Ok(ToolReport {
            congestion: text("congestion"),
            streams: result["streams"].as_u64().and_then(|streams| u32::try_from(streams).ok()),
            limited_by: text("limited_by").map(|limit| limit.replace('_', " ")),
            choices: choices.collect(),
        })
    }
}

/// Where `program` is: on the PATH, or in a folder for administrators that is not on an ordinary
/// user's.
fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}
