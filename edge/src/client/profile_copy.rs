//! Cells of a node's profile that a mover sends: copies from memory to the node's `?null`, over the
//! channel driver of the cell.

use super::connect_options::ConnectOptions;
use super::location::{ControlTransport, Location, Remote};
use super::options::{Options, StoredProfiles, Trial, Verify};
use super::run::copy;
use crate::channels::Registry;
use crate::prober::{check_channel, observed};
use farline_core::congestion::ControlName;
use farline_core::profile::{Grid, Job, Order, Repetition, Staged};
use farline_core::transfer::UserOverrides;
use farline_core::units::Setting::AllowNull;
use farline_core::units::{Error, ErrorCode, Fault, Rate};

/// Where such a cell goes, and how fast it may.
pub(super) struct NullSink<'a> {
    pub(super) remote: &'a Remote,
    pub(super) connect: &'a ConnectOptions,
    /// What the node allows.
    pub(super) ceiling: Rate,
    /// The cell's control as this kernel has it; none where its channel has one of its own.
    pub(super) congestion: Option<ControlName>,
}

impl NullSink<'_> {
    /// Copies what `job` moves in the time of `grid`.
    ///
    /// # Errors
    /// Those of a copy; [`Fault::You`] for a channel that encrypts and a node that was named
    /// without; [`Fault::There`] where the node takes no such channel.
    pub(super) async fn fill(
        &self,
        grid: &Grid,
        job: &Job,
        staged: Staged,
    ) -> Result<Repetition, Error> {
        let driver = staged.driver;
        if driver.is_encrypted() && self.remote.transport != ControlTransport::Tls {
            let message =
                format!("{} needs a control connection that is encrypted", driver.title());
            return Err(Error::new(Fault::You, ErrorCode::CannotEncrypt, message)
                .hint(format!("name the node as farlines://{}", self.remote.server())));
        }
        let channel = driver.channel().map(|name| Registry::builtin().stack(name)).transpose()?;
        let options = Options {
            channel,
            limit: Some(grid.host_bps.map_or(self.ceiling, |host| host.min(self.ceiling))),
            overrides: UserOverrides {
                streams: Some(job.cell.streams as usize),
                congestion: self.congestion,
                staging: Some(staged.staging_bytes),
                prior: None,
            },
            // A measurement does as its cell says.
            stored_profiles: StoredProfiles::Ignore,
            fresh_start: true,
            connect: ConnectOptions { no_encrypt: !driver.is_encrypted(), ..self.connect.clone() },
            verify: Verify::None,
            buffer: job.cell.window_bytes,
            trial: Trial { in_turns: staged.order == Order::Synchronous, ..Trial::default() },
            ..Options::default()
        };
        let bytes = job.cell.volume(grid.seconds);
        let source = Location::parse(format!("memory:{}", bytes.0).as_ref())?;
        let target = Location::Remote(self.remote.null()?);
        let outcome = copy(&[source], &target, &options, &mut |_| {}).await.map_err(|error| {
            match error.code {
                ErrorCode::StoreNotAllowed => error.hint(format!(
                    "its operator lets a mover be measured with farline serve {AllowNull}"
                )),
                _ => error,
            }
        })?;
        let way = serde_json::to_value(outcome.data_path).unwrap_or_default();
        let why = outcome.channel_fallback.as_deref();
        check_channel(driver, outcome.encrypted, way.as_str(), why)?;
        let seen = serde_json::to_value(&outcome)
            .map_err(|error| Error::new(Fault::Bug, ErrorCode::ProfileStaged, error.to_string()))?;
        let (found, rtt) = observed(grid, seen)?;
        let mut repetition = found.repetition(grid, job);
        repetition.rtt_ns = Some(rtt);
        Ok(repetition)
    }
}
